//! `millrace check --htaccess`: the lines of `.htaccess` files that are not applied as they are written.

use std::path::{Path, PathBuf};

use millrace_htaccess::folder::{LARGEST, starts_firewall};
use millrace_htaccess::{Effect, Folder};

use crate::args::ConfigArgs;
use crate::failure::{Explain, Failure};
use crate::serve::{load, say, source};

/// Maximum depth of folders.
const DEEPEST: usize = 64;

/// Lists the lines that are not applied, below `folder` or, if there is none, below the roots of all sites.
///
/// # Errors
/// A line closes what it covers; or a folder can't be read.
pub fn check(folder: Option<&Path>, config: &ConfigArgs) -> Result<(), Failure> {
    let roots = match folder {
        Some(folder) => vec![folder.to_owned()],
        None => {
            let (plan, _) = load(&source(config))?;
            plan.sites.into_iter().filter(|site| site.htaccess).map(|site| site.root).collect()
        }
    };
    let mut files = Vec::new();
    for root in &roots {
        find(root, 0, &mut files)?;
    }
    let mut closing = 0;
    let mut ignored = 0;
    for file in &files {
        for (effect, line) in findings(file) {
            say(&line)?;
            *(if effect == Effect::Ignored { &mut ignored } else { &mut closing }) += 1;
        }
    }
    let count = files.len();
    let summary = format!(
        "{count} .htaccess file{}: {ignored} ignored line{}, {closing} that close{} what they cover, or leave a firewall off",
        if count == 1 { "" } else { "s" },
        if ignored == 1 { "" } else { "s" },
        if closing == 1 { "s" } else { "" },
    );
    if closing == 0 { say(&summary) } else { Err(Failure::new(summary)) }
}

/// The files below a folder, in the order of their names. Links are not followed.
fn find(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let entries = std::fs::read_dir(folder).or_fail(|| format!("cannot read {}", folder.display()))?;
    let mut names: Vec<_> = entries.filter_map(Result::ok).collect();
    names.sort_by_key(std::fs::DirEntry::file_name);
    for entry in names {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if entry.file_name() == ".htaccess" && !is_folder {
            files.push(entry.path());
        } else if is_folder && depth < DEEPEST {
            find(&entry.path(), depth + 1, files)?;
        }
    }
    Ok(())
}

/// What is not applied of a file, a line of text each.
fn findings(file: &Path) -> Vec<(Effect, String)> {
    let folder = match std::fs::metadata(file).map(|meta| meta.len() > LARGEST as u64) {
        Ok(true) => Folder::shut(500, "the file is too large: shorten it"),
        _ => match millrace_sys::read_regular(file, LARGEST as u64) {
            Ok(text) => Folder::compile(&text),
            Err(error) => Folder::shut(403, &format!("can't be read ({error})")),
        },
    };
    let user_ini = || std::fs::read(file.with_file_name(".user.ini")).unwrap_or_default();
    let is_off = |effect| effect != Effect::Off || !starts_firewall(&user_ini());
    let told = folder.findings.iter().filter(|finding| is_off(finding.effect)).map(|finding| {
        let place = format!("{}:{}", file.display(), finding.line);
        let text = match finding.effect {
            Effect::Ignored => format!("{place}: ignored: {}", finding.text),
            Effect::Off => format!("{place}: {}", finding.text),
            Effect::Refused => format!("{place}: refuses what it covers (403): {}", finding.text),
            Effect::Broken => format!("{place}: the folder answers 500: {}", finding.text),
        };
        (finding.effect, text)
    });
    told.collect()
}
