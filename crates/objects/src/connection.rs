//! A connection of a client: frames in, frames out. A client that is slow, silent or wrong costs its own connection: no task
//! waits for it but its own, for a bounded time and with a bounded part of the memory for frames.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use super::protocol::{self, Outcome};
use super::remote::RemoteObjects;
use super::thread::{ServedSite, Shared};

/// Time for the rest of a frame, and for a client to take its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Frames up to this size need no part of the memory for frames.
const SMALL: usize = 64 << 10;
/// Maximum objects in an answer, bytes.
const ANSWER: usize = 16 << 20;
/// Memory for large frames and answers of all connections.
const LARGE: usize = 64 << 20;

/// Memory for large frames of all connections.
#[derive(Debug)]
pub struct FrameBudget(Cell<usize>);

impl Default for FrameBudget {
    fn default() -> FrameBudget {
        FrameBudget(Cell::new(LARGE))
    }
}

/// A part of the budget; it returns when this is dropped.
struct FrameShare<'a>(&'a FrameBudget, usize);

impl Drop for FrameShare<'_> {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get() + self.1);
    }
}

impl FrameBudget {
    /// So many bytes, if they are there.
    fn take(&self, bytes: usize) -> Option<FrameShare<'_>> {
        self.0.set(self.0.get().checked_sub(bytes)?);
        Some(FrameShare(self, bytes))
    }

    /// At most so many bytes: what is there.
    fn take_up_to(&self, bytes: usize) -> FrameShare<'_> {
        let taken = bytes.min(self.0.get());
        self.0.set(self.0.get() - taken);
        FrameShare(self, taken)
    }
}

/// Serves a client until it closes its connection, or does something wrong.
pub async fn serve(mut stream: UnixStream, site: Rc<ServedSite>, shared: Rc<Shared>) {
    let mut buffer = Vec::new();
    while let Ok(length) = stream.read_u32_le().await {
        let length = length as usize;
        if length > shared.frame_bytes() {
            return;
        }
        match timeout(PATIENCE, frame(&mut stream, &mut buffer, length, &site, &shared)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return,
        }
        if buffer.capacity() > SMALL {
            buffer = Vec::new();
        }
    }
}

/// Reads a frame, carries it out and answers it.
async fn frame(
    stream: &mut UnixStream,
    buffer: &mut Vec<u8>,
    length: usize,
    site: &ServedSite,
    shared: &Shared,
) -> io::Result<()> {
    let share = loop {
        match shared.budget.take(if length > SMALL { length } else { 0 }) {
            Some(share) => break share,
            None => sleep(Duration::from_millis(5)).await,
        }
    };
    buffer.resize(length, 0);
    stream.read_exact(buffer).await?;
    let room = shared.budget.take_up_to(ANSWER);
    let outcome = match &site.remote {
        Some(remote) => follow_elsewhere(buffer, SMALL + room.1, site, remote, shared).await?,
        None => follow(buffer, SMALL + room.1, site, shared)?,
    };
    drop(share);
    let room = if outcome.answer.len() > SMALL { Some(room) } else { None };
    stream.write_all(&outcome.answer).await?;
    drop(room);
    Ok(())
}

/// Carries out a frame; nothing else happens meanwhile.
fn follow(frame: &[u8], room: usize, site: &ServedSite, shared: &Shared) -> io::Result<Outcome> {
    let mut store = shared.store.borrow_mut();
    if site.lost.borrow_mut().has_grown() {
        site.count(|figures| figures.lost += 1);
        let (_, flushed) = store.flush(site.id);
        drop_elsewhere(flushed);
    }
    let outcome = protocol::follow(&mut store, site.id, frame, room, shared.now());
    let mut outcome =
        outcome.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, format!("{why:?}")))?;
    site.count(|figures| figures.add(&outcome));
    if !outcome.flushed.is_empty() {
        drop_elsewhere(std::mem::take(&mut outcome.flushed));
    }
    Ok(outcome)
}

/// Has a frame carried out on another server, after the flush that lost reports are reason for.
async fn follow_elsewhere(
    frame: &[u8],
    room: usize,
    site: &ServedSite,
    remote: &RemoteObjects,
    shared: &Shared,
) -> io::Result<Outcome> {
    if site.lost.borrow_mut().has_grown() {
        site.count(|figures| figures.lost += 1);
        remote.must_flush();
    }
    remote.settle(|| site.lost.borrow().note_settled(&remote.identity())).await?;
    let value_bytes = shared.store.borrow().value_bytes();
    let outcome = remote.frame(frame, room, value_bytes).await?;
    site.count(|figures| figures.add(&outcome));
    Ok(outcome)
}

/// To free a million objects takes a tenth of a second: other clients don't wait for that.
fn drop_elsewhere<T: Send + 'static>(flushed: T) {
    // Without a thread it is dropped here.
    let _ = std::thread::Builder::new().name("objects-free".to_owned()).spawn(move || drop(flushed));
}
