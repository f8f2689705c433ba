//! nginx and php-fpm test their configuration: a file that they would not start with must not stay.

use std::process::Command;

use super::Refusal;
use super::proposal::Proposal;
use super::table::Layer;

/// Has nginx and php-fpm of this system read what was written, as far as something was written for them.
///
/// # Errors
/// One of them refuses it: its words.
pub fn check(proposal: &Proposal) -> Result<(), Refusal> {
    let machine = &proposal.machine;
    if !machine.root.is_live() {
        return Ok(());
    }
    let has = |layers: &[Layer]| proposal.files.iter().any(|file| layers.contains(&file.layer));
    if let (true, Ok(fpm)) = (has(&[Layer::Fpm, Layer::Php]), &machine.fpm) {
        test(&fpm.program(), &["-t"])?;
    }
    if has(&[Layer::Nginx]) {
        test(super::nginx::PROGRAM, &["-t", "-q"])?;
    }
    Ok(())
}

fn test(program: &str, arguments: &[&str]) -> Result<(), Refusal> {
    let command = format!("/{program} {}", arguments.join(" "));
    let next = "run that command; it names the line that it refuses, which may also have been there before";
    let said = Command::new(format!("/{program}")).args(arguments).output();
    let said = said.map_err(|error| Refusal::new(format!("cannot run `{command}`: {error}"), next))?;
    if said.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&said.stderr).into_owned();
    let first =
        errors.lines().find(|line| !line.trim().is_empty()).unwrap_or("it fails without a word").trim();
    Err(Refusal::new(format!("`{command}` refuses the configuration with our files: {first}"), next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_program() {
        assert_eq!(test("bin/true", &["-t"]), Ok(()));
        let why = test("bin/sh", &["-c", "echo; echo 'bad line 7' >&2; exit 1"]).expect_err("refused");
        assert!(why.what.contains("refuses the configuration with our files: bad line 7"), "{why}");
        assert!(test("nonexistent/x", &[]).expect_err("none").what.starts_with("cannot run `/nonexistent/x"));
        assert!(test("bin/false", &[]).expect_err("silent").what.ends_with("it fails without a word"));
    }
}
