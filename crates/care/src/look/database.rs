//! The database, asked with the site's own credentials by a small script that the command `php` runs: `probe.php`.
//!
//! The credentials go through standard input, so no other user sees them in the list of processes. The script only sends
//! SELECT, SHOW and EXPLAIN, and gives up after a few seconds.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::facts::{Blind, Facts};

const SCRIPT: &str = include_str!("probe.php");
/// The script gives up by itself after 5 s for a connection and 5 s for a question.
const PATIENCE: Duration = Duration::from_secs(20);

/// How to ask databases.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The command line of PHP: `php`.
    pub program: String,
}

impl Default for Probe {
    fn default() -> Probe {
        Probe { program: "php".to_owned() }
    }
}

/// A database, and the prefix of WordPress's tables in it.
#[derive(Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Question {
    Mysql { host: String, user: String, password: String, name: String, prefix: String },
    Sqlite { file: PathBuf, prefix: String },
}

impl Question {
    fn json(&self) -> Value {
        match self {
            Question::Mysql { host, user, password, name, prefix } => json!({
                "kind": "mysql", "host": host, "user": user, "password": password, "name": name, "prefix": prefix,
            }),
            Question::Sqlite { file, prefix } => json!({
                "kind": "sqlite", "file": file.display().to_string(), "prefix": prefix,
            }),
        }
    }
}

/// Adds the areas db and wordpress of a site.
pub fn add(facts: &mut Facts, question: &Question, probe: Option<&Probe>) {
    let no = || Blind::CouldNotLook("the database was not asked".to_owned());
    let answer = probe.ok_or_else(no).and_then(|probe| ask(probe, question).map_err(Blind::CouldNotLook));
    let answer = answer.map(|value| Facts::from_json(&value));
    match answer {
        Err(why) => {
            facts.missing("db", why.clone());
            facts.missing("wordpress", why);
        }
        Ok(answer) => {
            let error =
                [answer.word("db.error.text"), answer.word("sqlite.error")].into_iter().find_map(Result::ok);
            let silent = match error {
                Some(error) => format!("the database refuses: {error}"),
                None => "the database did not say".to_owned(),
            };
            facts.missing("wordpress", Blind::CouldNotLook(silent.clone()));
            facts.missing(
                "db",
                match question {
                    Question::Sqlite { .. } => Blind::DoesNotApply("the site uses SQLite".to_owned()),
                    Question::Mysql { .. } => Blind::CouldNotLook(silent),
                },
            );
            facts.merge(&answer);
        }
    }
}

/// Runs the script; its answer.
fn ask(probe: &Probe, question: &Question) -> Result<Value, String> {
    let mut child = Command::new(&probe.program)
        .args([
            "-d",
            "display_errors=stderr",
            "-d",
            "error_reporting=0",
            "-r",
            SCRIPT.trim_start_matches("<?php"),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            format!("cannot run {}: {error}; install php-cli with mysqli to look at databases", probe.program)
        })?;
    let sent = child.stdin.take().map(|mut input| input.write_all(question.json().to_string().as_bytes()));
    if let Some(Err(error)) = sent {
        return Err(format!("{} does not read its input: {error}", probe.program));
    }
    let text = wait(&mut child, &probe.program)?;
    serde_json::from_str(&text).map_err(|_| {
        let said = text.lines().next().unwrap_or_default();
        format!("{} did not answer as it should: {said:?}", probe.program)
    })
}

/// Reads the output to its end, and kills a script that takes too long.
fn wait(child: &mut Child, program: &str) -> Result<String, String> {
    let (Some(mut out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(format!("{program} has no output"));
    };
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = out.read_to_string(&mut text);
        text
    });
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = err.by_ref().take(4_096).read_to_string(&mut text);
        text
    });
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            _ => break None,
        }
    };
    if status.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let (text, said) = (reader.join().unwrap_or_default(), errors.join().unwrap_or_default());
    match status {
        None => Err(format!("the database did not answer within {} s", PATIENCE.as_secs())),
        Some(status) if !status.success() => Err(format!(
            "{program} ended with {status}: {}",
            said.lines().next().unwrap_or("it says nothing")
        )),
        Some(_) => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn question() -> Question {
        let text = |text: &str| text.to_owned();
        Question::Mysql {
            host: text("h"),
            user: text("u"),
            password: text("p"),
            name: text("n"),
            prefix: text("wp_"),
        }
    }

    /// A stand-in for php, as a shell script.
    fn php(tree: &Tree, script: &str) -> Probe {
        let path = tree.root().join("php");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("executable");
        Probe { program: path.display().to_string() }
    }

    #[test]
    fn an_answer_and_no_answer() {
        let tree = Tree::of(&[("x", "")]);
        let probe = php(
            &tree,
            r#"cat >/dev/null; echo '{"db": {"status": {"Uptime": "9"}}, "wordpress": {"autoload_bytes": 7}}'"#,
        );
        let mut facts = Facts::default();
        add(&mut facts, &question(), Some(&probe));
        assert_eq!(
            (facts.figure("db.status.Uptime"), facts.figure("wordpress.autoload_bytes")),
            (Ok(9.0), Ok(7.0))
        );
        for (script, why) in
            [("cat >/dev/null; echo no >&2; exit 3", ": no"), ("cat >/dev/null; echo Warning", "Warning")]
        {
            let mut facts = Facts::default();
            add(&mut facts, &question(), Some(&php(&tree, script)));
            let said = facts.figure("db.status.Uptime").expect_err("no answer");
            assert!(said.why().contains(why), "{said:?}");
        }
        let full =
            php(&tree, r#"cat >/dev/null; echo '{"db": {"error": {"code": 1040, "text": "Too many"}}}'"#);
        let mut facts = Facts::default();
        add(&mut facts, &question(), Some(&full));
        assert_eq!(facts.figure("db.error.code"), Ok(1040.0));
        for name in ["db.status.Uptime", "wordpress.plugins"] {
            assert_eq!(
                facts.figure(name),
                Err(Blind::CouldNotLook("the database refuses: Too many".to_owned()))
            );
        }
        let mut facts = Facts::default();
        add(&mut facts, &question(), Some(&Probe { program: "/nowhere/php".to_owned() }));
        assert!(facts.figure("db.status.Uptime").expect_err("no php").why().contains("install php-cli"));
    }
}
