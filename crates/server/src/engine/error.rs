//! Why the server does not start, or rejects a new configuration.

use std::fmt;
use std::io;

use millrace_settings::Problems;
use millrace_settings::plan::Address;

use crate::serve::PhpStartError;
use crate::tls::TlsError;

/// The server can't start, and has served nothing. The text says what to do.
#[derive(Debug)]
pub enum StartError {
    /// The system does not give the process what it needs; the text names it.
    System(&'static str, io::Error),
    /// A log can't be opened; the error names it.
    Log(io::Error),
    /// An address can't be listened on.
    Listen(Address, io::Error),
    /// The admin address is forbidden; the error names it.
    Admin(io::Error),
    /// The TLS configuration is unusable.
    Tls(TlsError),
    /// A site's PHP does not start.
    Php(PhpStartError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(what, error) => write!(f, "cannot {what}: {error}"),
            Self::Log(error) | Self::Admin(error) => error.fmt(f),
            Self::Listen(address, error) => f.write_str(&cannot_listen(address, error)),
            Self::Tls(why) => why.fmt(f),
            Self::Php(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

/// A new configuration is rejected; the old one stays in force. Correct what the text names and reload again.
#[derive(Debug)]
pub enum ReloadError {
    /// It is invalid.
    Settings(Problems),
    /// The server could not start with it.
    Start(StartError),
    /// An address switches between HTTP and HTTPS (true: to HTTPS). That needs a restart.
    OtherProtocol(Address, bool),
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(problems) => problems.fmt(f),
            Self::Start(why) => why.fmt(f),
            Self::OtherProtocol(address, is_secure) => write!(
                f,
                "{address:?} is in use for {}: restart Millrace to change that",
                if *is_secure { "HTTP" } else { "HTTPS" }
            ),
        }
    }
}

impl std::error::Error for ReloadError {}

impl From<StartError> for ReloadError {
    fn from(why: StartError) -> ReloadError {
        ReloadError::Start(why)
    }
}

fn cannot_listen(address: &Address, error: &io::Error) -> String {
    let shown = match address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => format!("unix:{}", path.display()),
    };
    let cure = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program is using this address: stop it, or choose another address with --listen"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 require root or CAP_NET_BIND_SERVICE; a Unix socket requires write permission in its \
             folder"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine does not have this address: `ip addr` lists its addresses"
        }
        io::ErrorKind::NotFound => "the folder of the socket does not exist: create it",
        _ => "choose another address with --listen",
    };
    format!("cannot listen on {shown}: {error}\n  {cure}")
}
