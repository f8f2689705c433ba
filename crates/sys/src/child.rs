//! Descriptors at fixed numbers in a child process.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use crate::orphans;

/// Starts `command` with each descriptor at its number, left open by exec. They stay open here, and no other child
/// that is started meanwhile inherits them.
///
/// # Errors
/// The program can't be started (as [`Command::spawn`]), or no descriptor is left.
///
/// # Panics
/// If a number is below 3: `Command` manages these itself.
pub fn give_descriptors(mut command: Command, descriptors: Vec<(OwnedFd, RawFd)>) -> io::Result<Child> {
    assert!(descriptors.iter().all(|(_, number)| *number > 2), "0, 1 and 2 are set by Command");
    let highest = descriptors.iter().map(|(_, number)| *number).max().unwrap_or(2);
    // The sources lie above all targets, so that no target overwrites a source that is still needed.
    let mut sources = Vec::new();
    for (descriptor, number) in &descriptors {
        sources.push((rustix::io::fcntl_dupfd_cloexec(descriptor, highest + 1)?, *number));
    }
    // `Command` itself opens a pipe by which the child tells that exec failed. It must not land on a target either:
    // the targets' numbers are taken until the child has started.
    let mut placeholders = Vec::new();
    loop {
        let placeholder = File::open("/dev/null")?;
        if placeholder.as_raw_fd() > highest {
            break;
        }
        placeholders.push(placeholder);
    }
    let set_up = move || {
        for (source, number) in &sources {
            // SAFETY: the number is only overwritten, never closed through this value.
            let mut target = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(*number) });
            rustix::io::dup2(source, &mut target)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only dup2(2) is called, which is async-signal-safe, and nothing is allocated.
    unsafe { command.pre_exec(set_up) };
    let child = command.spawn();
    drop(placeholders);
    if let Ok(child) = &child {
        orphans::note_own(child.id());
    }
    child
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::Stdio;

    #[test]
    fn the_child_finds_them_at_their_numbers() {
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "cat <&4 >&3"]).stdin(Stdio::null());
        let mut child = give_descriptors(command, vec![(theirs.into(), 3), (reader.into(), 4)]).unwrap();
        writer.write_all(b"through both").unwrap();
        drop(writer);
        assert!(child.wait().unwrap().success());
        let mut text = String::new();
        ours.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through both");
    }

    #[test]
    fn a_missing_program_is_told() {
        let (_ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let error = give_descriptors(Command::new("/nowhere/program"), vec![(theirs.into(), 3)]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
