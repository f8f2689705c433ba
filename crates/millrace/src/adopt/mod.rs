//! `millrace adopt`: converts the configuration of another server; with `--replay`, compares the two servers.

mod args;
mod files;
mod replay;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

pub use args::AdoptArgs;
use millrace_adopt::value::Notes;
use millrace_adopt::{Format, Options};
use millrace_settings::{Disk, Environment, Found, Source};

use crate::failure::{Explain, Failure};
use files::{OnDisk, text_of};

/// Converts, or compares.
///
/// # Errors
/// A file can't be read or written, or is in no known language; the result has problems; the servers differ.
pub fn adopt(args: &AdoptArgs) -> Result<(), Failure> {
    match &args.replay {
        Some(log) => replay::replay(log, args),
        None => convert(args),
    }
}

fn convert(args: &AdoptArgs) -> Result<(), Failure> {
    let Some(file) = &args.file else {
        return Err(
            Failure::new("no configuration is named").next("name one: millrace adopt /etc/nginx/nginx.conf")
        );
    };
    let output = args.output.as_deref().filter(|path| *path != Path::new("-"));
    if let Some(path) = output.filter(|path| path.exists() && !args.force) {
        return Err(Failure::new(format!("{} exists", path.display()))
            .next("name another file with -o, or add --force"));
    }
    let text = text_of(file).or_fail(|| format!("cannot read {}", file.display()))?;
    let format = args.from.or_else(|| millrace_adopt::detect(file, &text)).ok_or_else(|| {
        Failure::new(format!("cannot tell which server {} is for", file.display()))
            .next("say it: --from nginx, apache, caddy, openlitespeed or unit")
    })?;
    let options = Options { keep_fpm: args.keep_fpm };
    let adopted = millrace_adopt::adopt(format, file, &OnDisk, &options).map_err(|why| {
        Failure::new(why).next("correct the file; if it is another server's, say which: --from SERVER")
    })?;
    let toml = millrace_adopt::toml(&adopted);
    write(output, &toml)?;
    summary(&adopted.all_notes(), output);
    check(output, toml)
}

/// Writes the result; a file of this name is replaced only with `--force`.
fn write(output: Option<&Path>, toml: &str) -> Result<(), Failure> {
    match output {
        Some(path) => std::fs::write(path, toml).or_fail(|| format!("cannot write {}", path.display())),
        None => std::io::stdout()
            .write_all(toml.as_bytes())
            .or_fail(|| "cannot write to standard output".to_owned()),
    }
}

fn summary(notes: &Notes, output: Option<&Path>) {
    let name = output.map_or("the comments".into(), |path| format!("the comments in {}", path.display()));
    eprintln!(
        "millrace: carried over {}, not needed {}, not carried over {}: {name} say what and why",
        notes.carried.len(),
        notes.needless.len(),
        notes.lost.len()
    );
}

/// `millrace check` of the result, which may be only on standard output.
fn check(output: Option<&Path>, toml: String) -> Result<(), Failure> {
    let machine = Environment::of_this_machine();
    let name = output.unwrap_or(Path::new("millrace.toml"));
    let disk = WithResult { path: machine.current_dir.join(name), toml, rest: machine.disk };
    let environment = Environment { disk: &disk, ..machine };
    let source = Source { config: Some(name.to_owned()), ..Source::default() };
    match millrace_settings::load_on(&source, &environment) {
        Ok((plan, warnings)) => {
            warnings
                .iter()
                .for_each(|warning| eprintln!("{}\n", warning.draw(std::io::stderr().is_terminal())));
            crate::serve::links_that_stay_closed(&plan);
            Ok(())
        }
        Err(problems) => {
            eprintln!("{}", problems.draw(std::io::stderr().is_terminal()));
            Err(Failure::new("`millrace check` finds problems in the result; it is written all the same")
                .next("correct them in the result, and run millrace check"))
        }
    }
}

/// The disk, with the result as a file on it.
struct WithResult<'a> {
    path: PathBuf,
    toml: String,
    rest: &'a dyn Disk,
}

impl Disk for WithResult<'_> {
    fn look(&self, path: &Path) -> Found {
        if path == self.path { Found::File } else { self.rest.look(path) }
    }

    fn read(&self, path: &Path) -> std::io::Result<String> {
        if path == self.path { Ok(self.toml.clone()) } else { self.rest.read(path) }
    }

    fn real(&self, path: &Path) -> Option<PathBuf> {
        self.rest.real(path)
    }
}

/// The name of a server, for `--from`.
pub fn format(text: &str) -> Result<Format, String> {
    Format::named(text).ok_or_else(|| "write nginx, apache, caddy, openlitespeed or unit".to_owned())
}
