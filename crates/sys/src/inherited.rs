//! Listening sockets that a service manager has opened.

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt;

/// The first one (`SD_LISTEN_FDS_START` of sd_listen_fds(3)).
const FIRST: RawFd = 3;

/// Takes the listening stream sockets that the service manager has opened for this process, as sd_listen_fds(3) describes it: `LISTEN_FDS`
/// descriptors from 3 on, if `LISTEN_PID` is this process. Descriptors that are something else stay as they are. Programs that this one starts
/// don't get them. A second call returns none.
pub fn take_inherited_listeners() -> Vec<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let is_meant = number("LISTEN_PID") == Some(std::process::id());
    if !is_meant || TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    let count = RawFd::try_from(number("LISTEN_FDS").unwrap_or(0)).unwrap_or(0).min(MOST);
    (FIRST..FIRST + count).filter_map(take).collect()
}

/// More are not taken.
const MOST: RawFd = 1024;

/// Takes a descriptor if it is a listening socket.
fn take(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: borrowed for this call; the kernel says what it is, or that it is nothing.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    if !sockopt::socket_acceptconn(borrowed).unwrap_or(false) {
        return None;
    }
    fcntl_setfd(borrowed, FdFlags::CLOEXEC).ok()?;
    // SAFETY: it is open, and nobody else's: whoever has started this process says in its environment that these descriptors are for it, this
    // function hands each out once, and no other code of the program listens at a socket before it asks for these.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}
