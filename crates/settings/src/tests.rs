//! The crate as a whole: from text to plan, and from mistakes to messages.

mod any_text;
mod broken;
mod command_line;
mod plans;
mod problems;
mod rows;
mod rules;
mod trusted;

use crate::environment::Environment;
use crate::environment::fake::FakeDisk;
use crate::load::{Source, load_on};
use crate::plan::Plan;
use crate::problem::{Problem, Problems};

/// A disk with a few sites and what the defaults need.
fn disk() -> FakeDisk {
    disk_with(&[])
}

/// [`disk`] with these files, too.
fn disk_with(more: &[(&str, &str)]) -> FakeDisk {
    let usual = [
        ("/srv/blog/wp-load.php", ""),
        ("/srv/blog/index.php", ""),
        ("/srv/plain/index.html", ""),
        ("/srv/app/index.php", ""),
        ("/srv/app/app.php", ""),
        ("/srv/drupal/core/lib/Drupal.php", ""),
        ("/srv/file.txt", ""),
        ("/srv/other/", ""),
        ("/srv/spool/", ""),
        ("/var/tmp/", ""),
        ("/var/lib/millrace/", ""),
        ("/etc/millrace/bans.d/", ""),
        ("/etc/millrace/crawlers.d/", ""),
        ("/home/ann/", ""),
        ("/usr/lib/millrace/8.3/millrace-php", ""),
        ("/etc/millrace/ca.pem", ""),
        ("/etc/millrace/cdn.txt", "192.0.2.0/24\n"),
        ("/etc/millrace-test/php.ini", ""),
        ("/etc/millrace-test/overload.html", ""),
        ("/etc/millrace-test/waiting.html", ""),
        (
            "/etc/passwd",
            "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nwww-data:x:33:33::/:/bin/false\n",
        ),
        ("/etc/group", "root:x:0:\nwww-data:x:33:\n"),
    ];
    let all: Vec<(&str, &str)> = usual.into_iter().chain(more.iter().copied()).collect();
    FakeDisk::with(&all)
}

/// Loads `text` as `/etc/millrace-test/millrace.toml`, named `millrace.toml`, with these `--set`s.
fn load(text: &str, set: &[&str]) -> Result<(Plan, Vec<Problem>), Problems> {
    let disk = disk_with(&[("/etc/millrace-test/millrace.toml", text)]);
    let machine = Environment { current_dir: "/etc/millrace-test".into(), ..disk.machine() };
    let set = set.iter().map(|text| (*text).to_owned()).collect();
    load_on(&Source { config: Some("millrace.toml".into()), set, ..Source::default() }, &machine)
}

/// The plan of a valid text.
fn plan(text: &str, set: &[&str]) -> Plan {
    match load(text, set) {
        Ok((plan, _)) => plan,
        Err(problems) => panic!("{problems}"),
    }
}

/// A valid site, for tests of other settings.
const SITE: &str = "\n[[site]]\nroot = \"/srv/plain\"\n";
