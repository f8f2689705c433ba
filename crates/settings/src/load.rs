//! From the command line to a [`Plan`].

use std::path::{Path, PathBuf};

use crate::environment::{Environment, Found};
use crate::plan::Plan;
use crate::problem::{At, Origin, Problem, Problems, Severity, What};
use crate::value::joined;
use crate::written::Written;
use crate::{check, overrides, read, resolve, rule, trusted};

/// Where the configuration comes from: the command line of `millrace serve` and `millrace check`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// `--config FILE`.
    pub config: Option<PathBuf>,
    /// `SITE_DIR`.
    pub site_dir: Option<PathBuf>,
    /// Each `--listen ADDRESS`; together they replace `server.listen`.
    pub listen: Vec<String>,
    /// `--tls-self-signed`: HTTPS with a self-signed certificate, at the addresses of `listen`.
    pub tls_self_signed: bool,
    /// `--profile NAME`, for every site.
    pub profile: Option<String>,
    /// `--php-ini FILE`, for every site.
    pub php_ini: Option<PathBuf>,
    /// Each `--set SETTING=VALUE`: `http.keep_alive=5s`, `site.root=/srv/www` (every site), `site.NAME.root=/srv/www`.
    pub set: Vec<String>,
}

/// Loads the configuration on this machine: the plan and the warnings, or all problems.
///
/// # Errors
/// Every problem, warnings included, if one of them is an error.
pub fn load(source: &Source) -> Result<(Plan, Vec<Problem>), Problems> {
    load_on(source, &Environment::of_this_machine())
}

/// [`load`] for the given machine.
///
/// # Errors
/// As [`load`].
pub fn load_on(source: &Source, environment: &Environment<'_>) -> Result<(Plan, Vec<Problem>), Problems> {
    let mut problems = Vec::new();
    let file = config_file(source, environment);
    let mut written = Written { file: file.as_ref().map(|file| file.path.clone()), ..Written::default() };
    let readable = match &file {
        Some(file) => from_file(file, environment, &mut written, &mut problems),
        None => true,
    };
    sites(source, file.as_ref(), readable, environment, &mut written, &mut problems);
    overrides::apply(source, environment, &mut written, &mut problems);
    rule::complete(&mut written, environment, &mut problems);
    trusted::complete(&mut written, environment, &mut problems);
    check::written(&written, environment, &mut problems);
    problems.sort_by_key(Problem::order);
    if problems.iter().any(|problem| problem.severity == Severity::Error) {
        return Err(Problems(problems));
    }
    Ok((resolve::plan(&written, environment), problems))
}

impl Source {
    /// The configuration file that [`load`] reads: the one named, or `millrace.toml` in the current directory, or
    /// `/etc/millrace/millrace.toml`, if the command line names neither file nor directory. `None`: there is none.
    #[must_use]
    pub fn config_file(&self) -> Option<PathBuf> {
        config_file(self, &Environment::of_this_machine()).map(|file| file.path)
    }
}

struct ConfigFile {
    /// Where it is.
    path: PathBuf,
    /// Its name on the command line.
    name: PathBuf,
    /// Whether the command line names it.
    named: bool,
}

fn config_file(source: &Source, environment: &Environment<'_>) -> Option<ConfigFile> {
    let file = |name: &Path, named| ConfigFile {
        path: joined(&environment.current_dir, name),
        name: name.to_owned(),
        named,
    };
    if let Some(name) = &source.config {
        return Some(file(name, true));
    }
    let usual = ["millrace.toml", "/etc/millrace/millrace.toml"].map(|name| file(Path::new(name), false));
    let there = |file: &ConfigFile| matches!(environment.disk.look(&file.path), Found::File | Found::Denied);
    if source.site_dir.is_some() { None } else { usual.into_iter().find(there) }
}

/// Reads the file into `written`; returns false if it can't be read.
fn from_file(
    file: &ConfigFile,
    environment: &Environment<'_>,
    written: &mut Written,
    problems: &mut Vec<Problem>,
) -> bool {
    match environment.disk.read_config(&file.path) {
        Ok(text) => read::toml(&Origin::file(&file.path, &file.name, text), written, problems),
        Err(error) => {
            let (why, cure) = match error.kind() {
                std::io::ErrorKind::NotFound => (
                    "there is no such file".to_owned(),
                    "name an existing file, or serve a directory: millrace serve DIR",
                ),
                std::io::ErrorKind::PermissionDenied => (
                    "permission denied".to_owned(),
                    "let the user that starts Millrace read it, or start it as root",
                ),
                std::io::ErrorKind::InvalidData => ("it is not UTF-8".to_owned(), "save it as UTF-8 text"),
                _ => (error.to_string(), "name a file of TOML text"),
            };
            let name = file.name.display();
            let problem = Problem::error(
                What::NotFound,
                format!("cannot read the configuration file {name}: {why}"),
                cure,
            );
            let option = "--config ";
            let argument = Origin::argument(format!("{option}{name}"), &environment.current_dir);
            let at = At::new(&argument, option.len()..argument.text.len());
            problems.push(problem.at(Some(&at).filter(|_| file.named), ""));
            false
        }
    }
}

/// Adds the directory on the command line as a site, or the problem of it.
fn sites(
    source: &Source,
    file: Option<&ConfigFile>,
    readable: bool,
    environment: &Environment<'_>,
    written: &mut Written,
    problems: &mut Vec<Problem>,
) {
    let folder = || overrides::folder(source.site_dir.as_deref(), environment);
    match (file, source.site_dir.is_some(), written.sites.first()) {
        (None, ..) => written.sites.push(folder()),
        (Some(_), false, Some(_)) => {}
        (Some(_), _, None) if !readable => {}
        (Some(_), true, None) => written.sites.push(folder()),
        (Some(file), false, None) => {
            let title = format!("{} has no site", file.name.display());
            let cure = "add [[site]] with root = \"/path/of/the/site\", or name a directory, too: millrace serve DIR --config FILE";
            problems.push(Problem::error(What::Missing, title, cure));
        }
        (Some(file), true, Some(site)) => {
            let title = format!("both a directory and sites in {} are given", file.name.display());
            let cure = "leave out the directory, or set the root for this run: --set site.root=DIR";
            let problem = Problem::error(What::Conflict, title, cure);
            problems.push(
                problem.at(folder().at.as_ref(), "the directory").at(site.at.as_ref(), "a site in the file"),
            );
        }
    }
}
