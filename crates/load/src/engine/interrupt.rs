//! Ctrl-C.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Calls `then` for each SIGINT or SIGTERM, on a thread of its own.
///
/// # Errors
/// The thread can't be had.
pub fn on_interrupt(then: impl Fn() + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let guard = runtime.enter();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    drop(guard);
    let wait = move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => then(),
                    _ = terminate.recv() => then(),
                }
            }
        });
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
    Ok(())
}
