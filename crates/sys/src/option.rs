//! Options of sockets, as bytes (getsockopt(2)).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Sets an option.
///
/// # Errors
/// As setsockopt(2).
pub fn set(socket: impl AsFd, level: libc::c_int, name: libc::c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the descriptor is borrowed for the call, and the kernel reads `value` for as long as it is.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option into `value`; parts that the kernel does not fill stay unchanged.
///
/// # Errors
/// As getsockopt(2).
pub fn get(socket: impl AsFd, level: libc::c_int, name: libc::c_int, value: &mut [u8]) -> io::Result<()> {
    let mut length = value.len() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed for the call, which writes no more than `length` bytes to `value`.
    let result = unsafe {
        libc::getsockopt(socket.as_fd().as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Bytes of memory, at least as many as were sent, that the data which the other end has not read occupies: 0 or 1 if
/// it has read everything. Of a TCP socket: what the other end has not acknowledged.
///
/// # Errors
/// It is not a socket.
pub fn unread(socket: impl AsFd) -> io::Result<u64> {
    let mut queued: libc::c_int = 0;
    // SAFETY: the descriptor is borrowed for the call, and the kernel writes one int.
    if unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut queued) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(queued.max(0) as u64)
}

/// The kernel's information about a TCP socket; unknown values are 0.
///
/// # Errors
/// It is not a TCP socket.
pub fn tcp_info(socket: impl AsFd) -> io::Result<libc::tcp_info> {
    // SAFETY: `tcp_info` is made of integers alone: all zeros are one.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    // SAFETY: the bytes belong to `info`, which stays borrowed as long as they are used; they are only integers.
    let bytes =
        unsafe { std::slice::from_raw_parts_mut((&raw mut info).cast(), size_of::<libc::tcp_info>()) };
    get(socket, libc::IPPROTO_TCP, libc::TCP_INFO, bytes)?;
    Ok(info)
}
