//! Tells the service manager, systemd for example, about the life of the process, as `sd_notify(3)` describes it: by datagrams to the socket that
//! `NOTIFY_SOCKET` names. Without one nothing is told.
//!
//! ```text
//!  started                      READY=1
//!  a reload begins              RELOADING=1, MONOTONIC_USEC=...
//!  it ends, or has failed       READY=1, STATUS=...
//!  each second, no loop hangs   WATCHDOG=1     if the manager has set WATCHDOG_USEC: a server that hangs is restarted
//!  it is about to end           STOPPING=1
//! ```

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

/// The service manager, if there is one.
#[derive(Debug)]
pub struct ServiceManager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// It waits for signs of life.
    watches: bool,
}

impl ServiceManager {
    /// The manager that started this process.
    pub fn of_process() -> ServiceManager {
        let pid = std::process::id().to_string();
        let is_meant = std::env::var_os("WATCHDOG_PID").is_none_or(|of| *of == *pid);
        let watches = is_meant && std::env::var_os("WATCHDOG_USEC").is_some();
        ServiceManager::at(std::env::var_os("NOTIFY_SOCKET").as_deref(), watches)
    }

    /// A manager that listens at this address: a path, or, with an `@` in front, a name without one.
    fn at(address: Option<&OsStr>, watches: bool) -> ServiceManager {
        let address = address.and_then(|address| match address.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
            [b'/', ..] => SocketAddr::from_pathname(address).ok(),
            _ => None,
        });
        let socket = address.and_then(|address| {
            let socket = UnixDatagram::unbound().ok()?;
            // A manager that hangs must not hang the server.
            socket.set_nonblocking(true).ok()?;
            Some((socket, address))
        });
        ServiceManager { socket, watches }
    }

    /// The server serves, with this state for people.
    pub fn ready(&self, state: &str) {
        self.tell(&format!("READY=1\nSTATUS={}", line(state)));
    }

    /// It reads its configuration again.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let microseconds = now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1_000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}\nSTATUS=reading the configuration"));
    }

    /// It is alive, and no event loop hangs.
    pub fn alive(&self) {
        if self.watches {
            self.tell("WATCHDOG=1");
        }
    }

    /// It is about to end.
    pub fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=waiting for running requests");
    }

    fn tell(&self, text: &str) {
        if let Some((socket, address)) = &self.socket {
            // A manager that is gone or busy misses it: the server goes on.
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
}

/// The first line of a text: each line of a message is a variable of its own.
fn line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_base::testing::Dir;

    #[test]
    fn what_is_told() {
        let dir = Dir::new("service-manager");
        let path = dir.path("socket");
        let listener = UnixDatagram::bind(&path).unwrap();
        let heard = || {
            let mut buffer = [0; 500];
            let length = listener.recv(&mut buffer).unwrap();
            String::from_utf8(buffer[..length].to_vec()).unwrap()
        };
        let manager = ServiceManager::at(Some(path.as_os_str()), true);
        manager.ready("a\nREADY=0");
        assert_eq!(heard(), "READY=1\nSTATUS=a");
        manager.reloading();
        let text = heard();
        let microseconds = text.lines().nth(1).and_then(|line| line.strip_prefix("MONOTONIC_USEC="));
        assert!(
            text.starts_with("RELOADING=1\n") && microseconds.unwrap().parse::<u64>().unwrap() > 0,
            "{text}"
        );
        manager.alive();
        assert_eq!(heard(), "WATCHDOG=1");
        manager.stopping();
        assert!(heard().starts_with("STOPPING=1\n"));
        ServiceManager::at(Some(path.as_os_str()), false).alive();
        ServiceManager::at(Some(path.as_os_str()), false).ready("b");
        assert_eq!(heard(), "READY=1\nSTATUS=b", "no sign of life was sent");
    }

    #[test]
    fn names_without_a_path() {
        let name = format!("millrace-service-manager-{}", std::process::id());
        let listener = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        ServiceManager::at(Some(OsStr::new(&format!("@{name}"))), false).ready("c");
        let mut buffer = [0; 100];
        let length = listener.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"READY=1\nSTATUS=c");
    }

    /// The same for an address at which no manager listens, and for one of another kind.
    #[test]
    fn without_a_manager_nothing_happens() {
        for address in [None, Some(""), Some("relative"), Some("vsock:2:1234"), Some("/nowhere/at/all")] {
            let manager = ServiceManager::at(address.map(OsStr::new), true);
            manager.ready("");
            manager.alive();
        }
    }
}
