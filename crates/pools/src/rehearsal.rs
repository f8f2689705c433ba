//! What PHP itself says about its settings, for `millrace check`: it is started as a server starts it, reports, and ends.

use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use millrace_settings::Plan;
use millrace_settings::plan::{self, Sandbox};
use rustix::process::{Pid, Signal, kill_process};

use super::host::{arguments, ending};
use super::program::{missing_library, program};

/// How long PHP may take to start.
const PATIENCE: Duration = Duration::from_secs(5);
/// Sites with ini values of their own whose PHP is asked.
const MOST: usize = 8;

/// What PHP says that its administrator should know, a line each; also, that it could not be asked.
pub fn rehearse(plan: &Plan) -> Vec<String> {
    let mut different: Vec<&plan::Php> = Vec::new();
    for php in plan.sites.iter().filter_map(|site| site.php.as_ref()).filter(|php| php.fastcgi.is_empty()) {
        let is_like = |other: &&plan::Php| {
            (&php.program, php.version, &php.ini_file, &php.ini)
                == (&other.program, other.version, &other.ini_file, &other.ini)
        };
        if !different.iter().any(is_like) {
            different.push(php);
        }
    }
    let mut said = Vec::new();
    for php in different.iter().take(MOST) {
        match ask(php) {
            Ok(lines) => said.extend(lines),
            Err(why) => said.push(format!("PHP was not asked about its settings: {why}")),
        }
    }
    if different.len() > MOST {
        said.push(format!(
            "PHP was asked about the settings of {MOST} of {} groups of sites",
            different.len()
        ));
    }
    let mut once: Vec<String> = Vec::new();
    for line in said {
        if !once.contains(&line) {
            once.push(line);
        }
    }
    once
}

/// Starts one; the error says why PHP can't be asked.
fn ask(settings: &plan::Php) -> Result<Vec<String>, String> {
    let program = program(settings).map_err(|error| error.to_string())?;
    let is_root = rustix::process::geteuid().is_root();
    // Only root can become another user; its settings are the same for all.
    let own = plan::Php {
        user: settings.user.clone().filter(|_| is_root),
        group: settings.group.clone().filter(|_| is_root),
        ..settings.clone()
    };
    let mut command = Command::new(&program);
    command
        .args(arguments(&own))
        .args((settings.sandbox == Sandbox::On).then_some("--sandbox"))
        .arg("--check");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = run(command).map_err(|why| format!("{} {why}", program.display()))?;
    Ok(findings(&output))
}

fn run(mut command: Command) -> Result<Output, String> {
    let child = command.spawn().map_err(|error| format!("can't be started: {error}"))?;
    let pid = Pid::from_child(&child);
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(child.wait_with_output()));
    match told.recv_timeout(PATIENCE) {
        Ok(output) => output.map_err(|error| error.to_string()),
        Err(_) => {
            let _ = kill_process(pid, Signal::KILL);
            Err(format!("has not started within {} s", PATIENCE.as_secs()))
        }
    }
}

fn findings(output: &Output) -> Vec<String> {
    let words = String::from_utf8_lossy(&output.stderr);
    let mut lines: Vec<String> =
        words.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if !output.status.success() {
        lines.insert(0, format!("PHP does not start with these settings: it {}", ending(output.status)));
    }
    lines.extend(missing_library(&words));
    let report = String::from_utf8_lossy(&output.stdout);
    let sandbox = report.lines().find_map(|line| line.strip_prefix("sandbox="));
    lines.extend(sandbox.filter(|sandbox| sandbox.contains(NO_SIGNALS)).map(|_| CANNOT_SIGNAL.to_owned()));
    lines
}

/// A word of a host's report about its sandbox.
pub const NO_SIGNALS: &str = "no signals";
/// What it means.
pub const CANNOT_SIGNAL: &str = "scripts can't signal other processes, not even programs that they have started \
    (proc_terminate(), timeout): the kernel has neither Landlock's domains of signals (Linux 6.12) nor, here, notifications of \
    seccomp (Linux 5.9); see php.sandbox";
