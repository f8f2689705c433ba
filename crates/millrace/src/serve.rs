//! `serve`, `check` and `explain`: the configuration, and running it.

use crate::args::ConfigArgs;
use crate::failure::Failure;
use millrace_server::CertificateFiles;
use millrace_settings::plan::Symlinks;
use millrace_settings::{Environment, Plan, Problem, Problems, Source};
use millrace_sys::links;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

/// Serves until a signal ends it.
///
/// # Errors
/// When the configuration is wrong (its problems are printed), or the server can't start.
pub fn serve(args: &ConfigArgs) -> Result<(), Failure> {
    let source = source(args);
    let (plan, warnings) = or_print(load_to_serve(&source))?;
    print_problems(&warnings);
    let reload = move || {
        load_to_serve(&source)
            .map(|(plan, warnings)| (plan, warnings.iter().map(ToString::to_string).collect()))
    };
    millrace_server::run(plan, Box::new(reload), crate::doctor::live::doctor())
        .map_err(|error| Failure::new(error.to_string()))
}

/// Prints every problem of a configuration.
///
/// # Errors
/// When one of them prevents the server's start.
pub fn check(args: &ConfigArgs) -> Result<(), Failure> {
    let (plan, warnings) = or_print(load_to_serve(&source(args)))?;
    print_problems(&warnings);
    for site in plan.sites.iter().filter(|site| !site.root.as_os_str().is_empty()) {
        let name = site.names.first().map_or("any host", String::as_str);
        say(&format!("{name}: {} in {}", site.profile.name(), site.root.display()))?;
    }
    links_that_stay_closed(&plan);
    for line in millrace_server::rehearse(&plan) {
        eprintln!("warning: {line}\n");
    }
    let sites =
        if plan.sites.len() == 1 { "1 site".to_owned() } else { format!("{} sites", plan.sites.len()) };
    say(&format!("the configuration is valid: {sites}, listening on {}", listeners(&plan)))
}

/// Warns of links out of the sites' roots that the server will not follow.
pub fn links_that_stay_closed(plan: &Plan) {
    const MOST: usize = 5;
    if plan.files.symlinks == Symlinks::Follow {
        return;
    }
    let by_owner = plan.files.symlinks == Symlinks::Owner;
    for site in plan.sites.iter().filter(|site| !site.root.as_os_str().is_empty()) {
        let folders = site.php.as_ref().map_or(&[][..], |php| &php.folders).iter();
        let folders: Vec<PathBuf> = folders.map(|folder| folder.path.clone()).collect();
        let refused = links::refused_in(&site.root, &folders, by_owner);
        for link in refused.iter().take(MOST) {
            eprintln!("warning: {link}: visitors get 404\n  help: {}\n", links::CURE);
        }
        if refused.len() > MOST {
            eprintln!("warning: {} more such links in {}\n", refused.len() - MOST, site.root.display());
        }
    }
}

/// Explains a setting, or lists the settings of a section, or all.
///
/// # Errors
/// When there is none with this name; the failure suggests one.
pub fn explain(setting: Option<&str>) -> Result<(), Failure> {
    match millrace_settings::explain(setting.unwrap_or_default()) {
        Ok(text) => say(text.trim_end()),
        Err(suggestion) => Err(Failure::new(suggestion.to_string())),
    }
}

/// The command line as the settings crate takes it.
pub fn source(args: &ConfigArgs) -> Source {
    Source {
        config: args.config.clone(),
        site_dir: args.site_dir.clone(),
        listen: args.listen.clone(),
        tls_self_signed: args.tls_self_signed,
        profile: args.profile.clone(),
        php_ini: args.php_ini.clone(),
        set: args.set.clone(),
    }
}

/// Loads a configuration to learn from it; prints its problems if it is wrong. It says nothing about certificates, whose keys
/// the caller need not be able to read.
pub fn load(source: &Source) -> Result<(Plan, Vec<Problem>), Failure> {
    or_print(millrace_settings::load(source))
}

/// Loads a configuration as a server does that starts: its certificates have to be usable.
fn load_to_serve(source: &Source) -> Result<(Plan, Vec<Problem>), Problems> {
    let machine = Environment { certificates: Some(&CertificateFiles), ..Environment::of_this_machine() };
    millrace_settings::load_on(source, &machine)
}

fn or_print<T>(loaded: Result<T, Problems>) -> Result<T, Failure> {
    loaded.map_err(|problems| {
        eprintln!("{}", problems.draw(std::io::stderr().is_terminal()));
        Failure::new("the configuration has errors")
    })
}

fn print_problems(problems: &[Problem]) {
    for problem in problems {
        eprintln!("{}\n", problem.draw(std::io::stderr().is_terminal()));
    }
}

fn listeners(plan: &Plan) -> String {
    let addresses: Vec<String> =
        plan.server.listen.iter().chain(&plan.https.listen).map(crate::admin::shown).collect();
    addresses.join(", ")
}

/// Prints a result; a reader that has gone (`millrace explain | head`) is no failure.
pub fn say(text: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
