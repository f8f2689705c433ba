//! Compresses files on two threads of the process, one for files that take milliseconds, one for larger ones, so that
//! a large file does not delay small ones.
//!
//! A job names its file instead of passing a descriptor: the descriptors of an event loop may mean nothing here. The
//! worker opens the file in the same safe way and compares its state with the entry's.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use millrace_settings::plan::Symlinks;
use millrace_wire::encoding::Coding;
use tokio::sync::watch;

use super::entry::read_unchanged;
use super::lookup::{FileStamp, PathKind, Root};
use millrace_base::message::reply::codec;
use millrace_base::site::Reach;

/// A file to compress.
#[derive(Debug)]
pub struct FileCompression {
    /// The site's root.
    pub root: PathBuf,
    /// Where symbolic links may lead.
    pub symlinks: Symlinks,
    /// With whose rights it is opened.
    pub reach: Reach,
    /// The file, below the root.
    pub path: Vec<u8>,
    /// The state that it must still have.
    pub stamp: FileStamp,
    /// The coding to apply.
    pub coding: Coding,
}

/// A future result; `None` in it: not smaller, or the file has changed.
#[derive(Clone, Debug)]
pub struct PendingCompression(watch::Receiver<Option<CompressedBytes>>);

type CompressedBytes = Option<Arc<[u8]>>;

impl PendingCompression {
    /// The result, if it is ready.
    pub fn result(&self) -> Option<CompressedBytes> {
        match &*self.0.borrow() {
            Some(outcome) => Some(outcome.clone()),
            None if self.0.has_changed().is_err() => Some(None),
            None => None,
        }
    }

    /// Waits for the result.
    pub async fn wait(mut self) -> CompressedBytes {
        match self.0.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().flatten(),
            // The worker has gone.
            Err(_) => None,
        }
    }
}

/// Larger files go to the second thread, and requests don't wait for them. Bytes; brotli needs about 10 ms for this
/// size.
const SOON: u64 = 256 * 1024;

/// Maximum number of queued jobs. When it is reached, clients get the plain file.
const QUEUE: usize = 64;

/// Whether a file of this size is compressed within milliseconds.
pub fn is_soon(size: u64) -> bool {
    size <= SOON
}

/// Queues a file for compression; `None` if the queue is full.
pub fn submit(job: FileCompression) -> Option<PendingCompression> {
    static LANES: [OnceLock<Option<SyncSender<CompressionRequest>>>; 2] = [OnceLock::new(), OnceLock::new()];
    let lane = &LANES[usize::from(!is_soon(job.stamp.size))];
    let sender = lane.get_or_init(start_worker).as_ref()?;
    let (done, receiver) = watch::channel(None);
    sender.try_send(CompressionRequest { job, done }).ok()?;
    Some(PendingCompression(receiver))
}

struct CompressionRequest {
    job: FileCompression,
    done: watch::Sender<Option<CompressedBytes>>,
}

fn start_worker() -> Option<SyncSender<CompressionRequest>> {
    let (sender, orders) = sync_channel(QUEUE);
    let builder = std::thread::Builder::new().name("compress".to_owned());
    builder.spawn(move || work(&orders)).ok().map(|_| sender)
}

fn work(orders: &Receiver<CompressionRequest>) {
    codec::leave_the_core();
    let mut recent = Recent::default();
    loop {
        let order = match orders.recv_timeout(Recent::KEPT) {
            Ok(order) => order,
            Err(RecvTimeoutError::Timeout) => {
                recent = Recent::default();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let CompressionRequest { job, done } = order;
        let outcome = recent.get(&job).unwrap_or_else(|| {
            // A codec that fails costs this file's compression, not the thread.
            let outcome = catch_unwind(AssertUnwindSafe(|| run(&job))).ok().flatten();
            recent.put(&job, outcome.clone());
            outcome
        });
        done.send_replace(Some(outcome));
    }
}

/// The latest results: all event loops ask for the same files at about the same time.
#[derive(Default)]
struct Recent {
    results: VecDeque<(FileStamp, Coding, CompressedBytes)>,
    bytes: usize,
}

impl Recent {
    /// Results are dropped after this idle time.
    const KEPT: Duration = Duration::from_secs(5);
    const BYTES: usize = 4 << 20;
    const RESULTS: usize = 256;

    fn get(&self, job: &FileCompression) -> Option<CompressedBytes> {
        let is_it = |(stamp, coding, _): &&(FileStamp, Coding, CompressedBytes)| {
            *stamp == job.stamp && *coding == job.coding
        };
        self.results.iter().find(is_it).map(|(_, _, outcome)| outcome.clone())
    }

    fn put(&mut self, job: &FileCompression, outcome: CompressedBytes) {
        self.bytes += size(&outcome);
        self.results.push_back((job.stamp, job.coding, outcome));
        while self.bytes > Self::BYTES || self.results.len() > Self::RESULTS {
            let Some((_, _, oldest)) = self.results.pop_front() else { break };
            self.bytes -= size(&oldest);
        }
    }
}

fn size(outcome: &CompressedBytes) -> usize {
    outcome.as_ref().map_or(0, |bytes| bytes.len())
}

fn run(job: &FileCompression) -> CompressedBytes {
    let root = Root::open_at(&job.root, job.symlinks, &job.reach).ok()?;
    let found = root.open(&job.path).ok()?;
    if found.kind != PathKind::File || found.stamp != job.stamp {
        return None;
    }
    let bytes = read_unchanged(&found).ok()??;
    codec::compress(&bytes, job.coding).filter(|packed| packed.len() < bytes.len()).map(Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_results_are_bounded() {
        let mut recent = Recent::default();
        let dir = std::env::temp_dir();
        let stamp =
            Root::open_at(&dir, Symlinks::Inside, &Reach::default()).unwrap().look(b"/").unwrap().stamp;
        let job = |n: u64| FileCompression {
            root: dir.clone(),
            symlinks: Symlinks::Inside,
            reach: Reach::default(),
            path: Vec::new(),
            stamp: stamp.with_size(n),
            coding: Coding::Gzip,
        };
        for n in 0..20 {
            recent.put(&job(n), Some(vec![0; 1 << 20].into()));
        }
        assert!(recent.get(&job(0)).is_none() && recent.get(&job(19)).is_some());
        assert_eq!(recent.bytes, Recent::BYTES);
        for n in 100..1000 {
            recent.put(&job(n), None);
        }
        assert_eq!((recent.results.len(), recent.bytes), (Recent::RESULTS, 0));
    }
}
