//! Why PHP does not start.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::program::PROGRAM;

/// PHP of a site does not start: at the start of the server, or at a reload, which then leaves the old pools unchanged.
/// The text says what the user can do.
#[derive(Debug)]
pub enum PhpStartError {
    /// No file descriptor is left for the pool.
    Descriptors(io::Error),
    /// The system refuses the pool's thread.
    Thread(io::Error),
    /// The pool's thread has ended.
    ThreadEnded,
    /// The injected files can't be written to any of these folders.
    Files(Vec<(PathBuf, io::Error)>),
    /// The program `millrace-php`, or the one for this PHP version, is not found.
    NoProgram(Option<&'static str>),
    /// This program can't be started.
    Program(PathBuf, io::Error),
    /// The program was started, but PHP or its workers did not become ready: the reason, if possible in PHP's own
    /// words.
    Failed(String),
    /// The server or the pool is shutting down.
    Ending,
}

impl fmt::Display for PhpStartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptors(error) => write!(f, "cannot start PHP: out of file descriptors: {error}"),
            Self::Thread(error) => write!(f, "cannot start the PHP supervisor thread: {error}"),
            Self::ThreadEnded => f.write_str("the PHP supervisor thread has ended"),
            Self::Files(folders) => {
                f.write_str("cannot write the PHP files that Millrace adds to sites:")?;
                for (folder, error) in folders {
                    write!(f, "\n  {}: {error}", folder.display())?;
                }
                f.write_str("\nmake one of these folders writable, or set TMPDIR to a writable one")
            }
            Self::NoProgram(None) => write!(
                f,
                "{PROGRAM} is neither next to the millrace program nor in PATH\ninstall a package of it, such as \
                 {PROGRAM}8.2; `cargo build --release` builds it if PHP's embed library is installed (Debian: \
                 libphp-embed, php-dev); or set php.program to its path"
            ),
            Self::NoProgram(Some(version)) => write!(
                f,
                "there is no {PROGRAM}{version} for php.version = \"{version}\"\ninstall the package \
                 {PROGRAM}{version}, or choose another version; a program that is elsewhere is named by php.program"
            ),
            Self::Program(file, error) => {
                write!(f, "cannot start {0}: {error}\nrun `{0} --check` for details", file.display())
            }
            Self::Failed(text) => f.write_str(text),
            Self::Ending => f.write_str("the server is shutting down"),
        }
    }
}

impl std::error::Error for PhpStartError {}
