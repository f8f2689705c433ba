//! Large contents being received, for the status. A request is listed only when its content has become too large for
//! memory: short ones cost nothing.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::Request;

/// Maximum length of a stored path, bytes.
const LONGEST: usize = 200;

/// All uploads of a process.
#[derive(Debug, Default)]
pub struct Uploads(Arc<Mutex<Vec<Arc<Upload>>>>);

/// An upload.
#[derive(Debug)]
pub struct Upload {
    /// The client's address; `None`: a client on a Unix socket.
    pub client: Option<IpAddr>,
    /// Method of the request.
    pub method: Box<str>,
    /// The requested host.
    pub host: Box<str>,
    /// Path of the request, as sent, cut if it is long.
    pub path: Box<str>,
    /// Total length in bytes, if the client announced it.
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

    /// The uploads in progress, the oldest first.
    pub fn running(&self) -> Vec<Arc<Upload>> {
        lock(&self.0).clone()
    }
}

impl Upload {
    /// Bytes received.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Listed {
    /// Sets the number of received bytes.
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
