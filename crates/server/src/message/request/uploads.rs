//! Large contents that are being received, for people who look at the server. A request comes here only when its content
//! has become too much for memory: short ones cost nothing.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Request;

/// Longest path that is remembered, bytes.
const LONGEST: usize = 200;

/// All of a process.
#[derive(Debug, Default)]
pub struct Uploads(Arc<Mutex<Vec<Arc<Upload>>>>);

/// One of them.
#[derive(Debug)]
pub struct Upload {
    /// Who sends it; `None`: a peer on a Unix socket.
    pub client: Option<IpAddr>,
    /// Method of the request.
    pub method: Box<str>,
    /// Host that was asked.
    pub host: Box<str>,
    /// Path of the request, as sent, cut if it is long.
    pub path: Box<str>,
    /// Bytes that will come, if the client said so.
    pub total: Option<u64>,
    /// When it began.
    pub since: Instant,
    received: AtomicU64,
}

/// Keeps an upload on the list.
#[derive(Debug)]
pub struct Listed {
    list: Arc<Mutex<Vec<Arc<Upload>>>>,
    upload: Arc<Upload>,
}

impl Uploads {
    /// Lists the content of `request`, of which `received` bytes of `total` have come since `since`.
    pub fn list(&self, request: &Request, total: Option<u64>, since: Instant, received: u64) -> Listed {
        let path = request.raw_path();
        let path = String::from_utf8_lossy(&path[..path.len().min(LONGEST)]);
        let upload = Arc::new(Upload {
            client: request.ends.client_ip(),
            method: request.head.method().into(),
            host: request.authority().into(),
            path: path.into(),
            total,
            since,
            received: AtomicU64::new(received),
        });
        lock(&self.0).push(upload.clone());
        Listed { list: self.0.clone(), upload }
    }

    /// Those that are being received now, the oldest first.
    pub fn running(&self) -> Vec<Arc<Upload>> {
        lock(&self.0).clone()
    }
}

impl Upload {
    /// Bytes that have come.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Listed {
    /// Notes how many bytes have come.
    pub fn set_received(&self, bytes: u64) {
        self.upload.received.store(bytes, Ordering::Relaxed);
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        lock(&self.list).retain(|other| !Arc::ptr_eq(other, &self.upload));
    }
}

fn lock(list: &Mutex<Vec<Arc<Upload>>>) -> MutexGuard<'_, Vec<Arc<Upload>>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}
