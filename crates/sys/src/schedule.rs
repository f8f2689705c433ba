//! How the kernel schedules a thread.

use std::io;

/// Lets the calling thread run only when its core has nothing else to do (SCHED_IDLE): whatever becomes ready takes the
/// core from it at once, which even the lowest priority of an ordinary thread does not promise.
///
/// # Errors
/// The system forbids it.
pub fn run_when_idle() -> io::Result<()> {
    // SAFETY: all zeros is a valid `sched_param`: integers.
    let none: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is the calling thread, and `none` outlives the call, which only reads it.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &none) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_alone_becomes_idle() {
        std::thread::spawn(|| {
            run_when_idle().unwrap();
            // SAFETY: no pointers; 0 is the calling thread.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_IDLE);
        })
        .join()
        .unwrap();
        // SAFETY: no pointers; 0 is the calling thread.
        assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_OTHER);
    }
}
