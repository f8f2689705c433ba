//! Which signals a thread gets.

use std::io;
use std::mem::MaybeUninit;

/// The calling thread gets no more signals that are sent to the process: another one will.
///
/// # Errors
/// None that is known.
pub fn block_signals() -> io::Result<()> {
    let mut all = MaybeUninit::uninit();
    // SAFETY: the first call fills `all` before the second reads it; the old mask is not requested.
    let error = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut())
    };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_signal_waits() {
        std::thread::spawn(|| {
            block_signals().unwrap();
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let blocked =
                status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim().to_owned();
            let mask = u64::from_str_radix(&blocked, 16).unwrap();
            assert_ne!(mask & 1 << (libc::SIGTERM - 1), 0, "{blocked}");
        })
        .join()
        .unwrap();
    }
}
