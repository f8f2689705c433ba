//! The destination of a log: a file, or standard output or error.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use millrace_settings::plan;
use rustix::io::Errno;

/// The destination of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Nowhere: the log is off.
    Off,
    /// Standard error.
    Stderr,
    /// A file, appended to.
    File(PathBuf),
}

impl LogTarget {
    /// For the error log.
    pub fn for_messages(plan: &plan::Log) -> LogTarget {
        plan.error.clone().map_or(LogTarget::Stderr, LogTarget::File)
    }
}

/// An open log. Owned by its writer thread.
#[derive(Debug)]
pub struct LogSink {
    target: LogTarget,
    file: Option<File>,
    /// The last write ended within a line.
    torn: bool,
}

impl LogSink {
    /// Opens `target`.
    ///
    /// # Errors
    /// The file can't be opened for appending; the error names it.
    pub fn open(target: LogTarget) -> io::Result<LogSink> {
        let file = match &target {
            LogTarget::Off => None,
            LogTarget::Stderr => Some(duplicate(io::stderr())?),
            LogTarget::File(path) => Some(open_file(path).map_err(|error| {
                io::Error::new(error.kind(), format!("cannot open the log file {}: {error}", path.display()))
            })?),
        };
        Ok(LogSink { target, file, torn: false })
    }

    /// Writes complete lines. Ends a line that a failed write has torn before the next one begins.
    ///
    /// # Errors
    /// `Failed` says how many lines are lost and why.
    pub fn write_lines(&mut self, lines: &[u8]) -> Result<(), Failed> {
        let Some(mut file) = self.file.as_ref() else { return Ok(()) };
        let mut rest = lines;
        let mut torn = self.torn;
        while !rest.is_empty() {
            let piece: &[u8] = if torn { b"\n" } else { rest };
            match file.write(piece) {
                Ok(0) => return Err(self.fail(lines, rest, torn, io::ErrorKind::WriteZero.into())),
                Ok(_) if torn => torn = false,
                Ok(n) => rest = &rest[n..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.fail(lines, rest, torn, error)),
            }
        }
        self.torn = false;
        Ok(())
    }

    /// The name of the destination, for messages.
    pub fn name(&self) -> String {
        match &self.target {
            LogTarget::Off => "nowhere".to_owned(),
            LogTarget::Stderr => "standard error".to_owned(),
            LogTarget::File(path) => path.display().to_string(),
        }
    }

    fn fail(&mut self, lines: &[u8], rest: &[u8], torn: bool, reason: io::Error) -> Failed {
        let written = lines.len() - rest.len();
        self.torn = torn || (written > 0 && lines[written - 1] != b'\n');
        Failed { lines: memchr::memchr_iter(b'\n', rest).count() as u64, reason }
    }
}

/// Lines could not be written.
#[derive(Debug)]
pub struct Failed {
    /// Lines lost, including the incomplete one.
    pub lines: u64,
    /// The error.
    pub reason: io::Error,
}

fn open_file(path: &Path) -> io::Result<File> {
    // These two names can't be opened when they are sockets, as under systemd; the descriptors themselves work.
    match path.to_str() {
        Some("/dev/stdout") => return duplicate(io::stdout()),
        Some("/dev/stderr") => return duplicate(io::stderr()),
        _ => {}
    }
    // It contains visitors' addresses: not for all users to read.
    // A pipe that nobody reads must not hold up a start or reload. One that is read may make the log's own thread wait.
    let file =
        millrace_sys::open_to_append(path, 0o640).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NXIO) => io::Error::other("it is a pipe that no process reads"),
            _ => error,
        })?;
    rustix::io::ioctl_fionbio(&file, false)?;
    Ok(file)
}

fn duplicate(stream: impl AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_and_names_what_it_cannot_open() {
        let dir = crate::testing::Dir::new("sink");
        let path = dir.path("a.log");
        std::fs::write(&path, "old\n").unwrap();
        let mut sink = LogSink::open(LogTarget::File(path.clone())).unwrap();
        sink.write_lines(b"one\ntwo\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old\none\ntwo\n");

        let error = LogSink::open(LogTarget::File(dir.path("no/such/dir.log"))).unwrap_err();
        assert!(error.to_string().contains("no/such/dir.log"), "{error}");
    }

    #[test]
    fn a_full_disk_costs_lines_and_no_more() {
        let mut sink = LogSink::open(LogTarget::File("/dev/full".into())).unwrap();
        let failed = sink.write_lines(b"one\ntwo\nthree\n").unwrap_err();
        assert_eq!(failed.lines, 3);
        assert_eq!(failed.reason.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn ends_a_torn_line_first() {
        let dir = crate::testing::Dir::new("torn");
        let path = dir.path("a.log");
        let mut sink = LogSink::open(LogTarget::File(path.clone())).unwrap();
        sink.write_lines(b"on").unwrap();
        let failed = sink.fail(b"one\ntwo\n", b"e\ntwo\n", false, io::ErrorKind::StorageFull.into());
        assert_eq!(failed.lines, 2);
        sink.write_lines(b"three\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "on\nthree\n");
    }
}
