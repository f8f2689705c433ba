//! `tune`: computes settings for the machine, shows, applies or takes them back; and the guardian of a trial.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use millrace_care::tune::proposal::{Proposal, Wish};
use millrace_care::tune::root::Root;
use millrace_care::tune::{Purpose, Refusal, Server, journal, report, trial};
use millrace_settings::{Plan, Source};
use serde_json::{Value, json};

use crate::admin::ask;
use crate::args::TuneArgs;
use crate::failure::{Explain, Failure};
use crate::serve::{load, say};

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure::new(refusal.what).next(refusal.next)
    }
}

/// Does what the arguments say.
///
/// # Errors
/// The machine is too small, a file is not Millrace's, or can't be written.
pub fn tune(args: &TuneArgs) -> Result<(), Failure> {
    let folder = args.root.canonicalize().or_fail(|| format!("cannot find {}", args.root.display()))?;
    if !folder.is_dir() {
        return Err(Failure::new(format!("{} is no folder", folder.display()))
            .next("name the root of a file system: a folder with etc"));
    }
    let root = Root::new(folder);
    if let Some(until) = args.guard {
        return guard(&root, until);
    }
    match trial::settle(&root) {
        Ok(None) => {}
        Ok(Some(_)) => eprintln!("millrace: settings that were not confirmed in time are taken back"),
        Err(why) => eprintln!("millrace: settings that were not confirmed in time are still there: {why}"),
    }
    if args.undo {
        return undo(args, &root);
    }
    if args.confirm_now {
        trial::confirm(&root)?;
        return say("confirmed: the settings stay");
    }
    let proposal = Proposal::of(&wish(args, &root)?)?;
    match (args.apply, args.diff, args.json) {
        (true, ..) => apply(args, &proposal),
        (false, true, _) => say(report::diff(&root, &proposal.files).trim_end()),
        (false, false, true) => say(&format!("{:#}", report::json(&proposal))),
        (false, false, false) => {
            say(report::text(&proposal, args.verbose).trim_end())?;
            say("\nNothing is changed. --diff shows the files, --apply writes them, --undo takes them back.")
        }
    }
}

fn apply(args: &TuneArgs, proposal: &Proposal) -> Result<(), Failure> {
    let root = &proposal.machine.root;
    let until = args.confirm.map(trial::deadline);
    let diff = report::diff(root, &proposal.files);
    let watched = || until.map_or(Ok(()), |until| start_guardian(root, until));
    let done = journal::apply(proposal, until, &watched)?;
    if args.json {
        let mut all = report::json(proposal);
        all["done"] = report::done(&done);
        all["confirm_until"] = json!(until);
        return say(&format!("{all:#}"));
    }
    say(&format!("{diff}\n{}", report::applied(proposal, &done).trim_end()))?;
    match args.confirm {
        None => Ok(()),
        Some(after) => say(&format!(
            "\nAll of it is taken back in {} s, unless you run `millrace tune --confirm-now` before.",
            after.as_secs()
        )),
    }
}

fn undo(args: &TuneArgs, root: &Root) -> Result<(), Failure> {
    match (journal::undo(root)?, args.json) {
        (done, true) => say(&format!("{:#}", json!({"done": done.as_ref().map(report::done)}))),
        (None, false) => say("nothing to take back: no settings of Millrace are applied here"),
        (Some(done), false) => say(report::undone(&done).trim_end()),
    }
}

/// Starts the guardian, and waits until it is in a session of its own: from then on it survives this terminal.
fn start_guardian(root: &Root, until: u64) -> Result<(), Refusal> {
    let fail = |why: String| Refusal {
        what: format!("cannot start the process that takes the settings back: {why}"),
        next: "apply without --confirm, or mend that".to_owned(),
    };
    let program = std::env::current_exe().map_err(|error| fail(error.to_string()))?;
    let mut guardian = Command::new(program)
        .args(["tune", "--guard", &until.to_string(), "--root"])
        .arg(root.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| fail(error.to_string()))?;
    let mut line = String::new();
    let said = guardian.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
    match said {
        Some(Ok(_)) if line == "ready\n" => Ok(()),
        _ => Err(fail("it does not answer".to_owned())),
    }
}

/// The guardian: leaves the terminal's session, says so, and waits.
fn guard(root: &Root, until: u64) -> Result<(), Failure> {
    rustix::process::setsid().or_fail(|| "cannot leave the session".to_owned())?;
    println!("ready");
    let _ = std::io::stdout().flush();
    let after = until.saturating_sub(trial::deadline(Duration::ZERO));
    Ok(trial::watch(root, Duration::from_secs(after), until)?)
}

/// What is asked for, and what a running server says about itself.
///
/// # Errors
/// The configuration can't be read.
pub fn wish(args: &TuneArgs, root: &Root) -> Result<Wish, Failure> {
    let source = source(args);
    let has_plan = root.is_live() && source.config_file().is_some();
    let plan = has_plan.then(|| load(&source)).transpose()?.map(|(plan, _)| plan);
    let running = |path| if root.is_live() { running(args, path) } else { None };
    let status = running("/status.json");
    let mut known = plan.as_ref().map(known).unwrap_or_default();
    known.extend(running("/php.json").as_ref().map(php_settings).unwrap_or_default());
    Ok(Wish {
        root: root.clone(),
        percent: args.memory,
        purpose: if args.purpose == "shop" { Purpose::Shop } else { Purpose::Wordpress },
        without: args.without.clone(),
        server: server(args, root, plan.is_some() || status.is_some()),
        fastcgi: plan.as_ref().is_some_and(has_fastcgi),
        hosts: plan.as_ref().map_or(1, |plan| plan.server.memory_shares.hosts),
        worker: status.as_ref().and_then(measured),
        known,
    })
}

/// What serves the sites, if that is asked for, or if Millrace is there.
fn server(args: &TuneArgs, root: &Root, is_here: bool) -> Option<Server> {
    match args.server.as_deref() {
        Some("millrace") => Some(Server::Millrace),
        Some(_) => Some(Server::Nginx),
        None => (is_here || root.has("etc/millrace/millrace.toml")).then_some(Server::Millrace),
    }
}

/// Whether php-fpm runs the PHP of all sites.
fn has_fastcgi(plan: &Plan) -> bool {
    let mut all = plan.sites.iter().filter_map(|site| site.php.as_ref()).peekable();
    all.peek().is_some() && all.all(|php| !php.fastcgi.is_empty())
}

/// What the running server says at a path of its admin address.
fn running(args: &TuneArgs, path: &str) -> Option<Value> {
    // Without either, the admin address would be that of a site in the current folder.
    if args.admin.admin.is_none() {
        source(args).config_file()?;
    }
    serde_json::from_str(&ask(&args.admin, "GET", path, b"").ok()?.text()).ok()
}

fn source(args: &TuneArgs) -> Source {
    Source { config: args.admin.config.clone(), set: args.admin.set.clone(), ..Source::default() }
}

/// Settings of PHP that are in force.
fn php_settings(php: &Value) -> BTreeMap<String, String> {
    let settings = php["services"].as_array().and_then(|services| services.first()?["settings"].as_object());
    let texts = settings
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    texts.collect()
}

/// Private memory of the largest PHP worker that has served a few requests.
fn measured(status: &Value) -> Option<u64> {
    let hosts = status["php"].as_array()?;
    let workers = hosts.iter().filter_map(|php| php["each"].as_array()).flatten();
    let seasoned = workers.filter(|worker| worker["requests"].as_u64().is_some_and(|count| count >= 20));
    seasoned.filter_map(|worker| worker["own_bytes"].as_u64()).filter(|bytes| *bytes > 0).max()
}

/// Values of PHP and Millrace by the names of the tuner's rows.
fn known(plan: &Plan) -> BTreeMap<String, String> {
    let size = |bytes: u64| format!("{}MB", bytes >> 20);
    let mut known: BTreeMap<String, String> = [
        ("cache.memory", size(plan.cache.memory as u64)),
        ("object_cache.memory", size(plan.object_cache.memory as u64)),
        ("files.cache_bytes", size(plan.server.memory_shares.files)),
        ("server.connection_memory", size(plan.server.connection_memory)),
        ("server.backlog", plan.server.backlog.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    if let Some(php) = plan.sites.iter().find_map(|site| site.php.as_ref()) {
        let measured = || "as the server measures".to_owned();
        let workers = if php.workers_measured { measured() } else { php.workers.to_string() };
        known.insert("php.workers".to_owned(), workers);
        known.insert("php.worker_memory".to_owned(), php.worker_memory.map_or_else(measured, size));
        known.extend(php.ini.clone());
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_care::tune::table;

    #[test]
    fn rows_of_millrace_are_settings() {
        for row in table::rows().filter(|row| row.layer == table::Layer::Millrace) {
            assert!(millrace_settings::explain(row.name).is_ok(), "{} is no setting", row.name);
        }
    }

    #[test]
    fn roots_that_are_none() {
        for (root, why) in [("/nonexistent/x", "cannot find"), ("/etc/hosts", "is no folder")] {
            let args = TuneArgs { root: root.into(), ..TuneArgs::default() };
            let failure = tune(&args).expect_err("bad").to_string();
            assert!(failure.contains(why), "{failure}");
        }
    }

    #[test]
    fn which_server() {
        let root = Root::new("/nonexistent");
        let asked = |name: Option<&str>, is_here| {
            let args = TuneArgs { server: name.map(str::to_owned), ..TuneArgs::default() };
            server(&args, &root, is_here)
        };
        assert_eq!((asked(None, false), asked(None, true)), (None, Some(Server::Millrace)));
        assert_eq!(asked(Some("millrace"), false), Some(Server::Millrace));
        assert_eq!(asked(Some("nginx"), true), Some(Server::Nginx));
    }

    #[test]
    fn the_largest_worker_that_has_worked() {
        let worker = |requests: u64, own: u64| json!({"requests": requests, "own_bytes": own});
        let status = json!({"php": [{"each": [worker(50, 30), worker(2, 90)]}, {"each": [worker(20, 40), worker(99, 0)]}]});
        assert_eq!(measured(&status), Some(40));
        assert_eq!(measured(&json!({})), None);
    }
}
