//! Shared parts of both protocols' tests: an event loop with a small site, and clients in memory.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use millrace_settings::plan::{Http, ShieldMode};
use tokio::task::LocalSet;

use super::{ProtocolThread, start};
use crate::connection::{Accepted, ClientStream, ConnectionLimits, MemoryClient, MemorySocket, Most};
use crate::serve::{ServeThread, Service, Setup, SiteWorkers};
use millrace_base::context::log::Log;
use millrace_base::context::stats::{Counter, Registry};
use millrace_base::context::{Process, ProcessStage};
use millrace_base::message::request::{Ends, Scheme};
use millrace_base::site::Site;
use millrace_base::testing::Dir;

/// Content of `/a.txt`.
pub const SMALL: &str = "content of a";
/// Bytes in `/large.bin`.
pub const LARGE: usize = 1 << 20;
/// A time limit for clients that no test reaches.
pub const HOUR: Duration = Duration::from_secs(3600);

/// An event loop with one site: `/a.txt`, `/large.bin`, and `/x.php`, whose content is read and which gets a 500, as
/// there is no PHP.
pub struct TestLoop {
    pub thread: Rc<ProtocolThread>,
    limits: Arc<ConnectionLimits>,
    _folder: Dir,
}

impl TestLoop {
    /// With these settings, and an hour for all timeouts.
    pub fn new(change: impl FnOnce(&mut Http)) -> TestLoop {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let folder = Dir::new(&format!("protocol-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        for (name, content) in [("a.txt", SMALL.as_bytes()), ("large.bin", &large()), ("x.php", b"<?php")] {
            std::fs::write(folder.path(name), content).unwrap();
        }
        let source = millrace_settings::Source { site_dir: Some(folder.path("")), ..Default::default() };
        let (mut plan, _) = millrace_settings::load(&source).unwrap();
        let http = &mut plan.http;
        (http.head_timeout, http.body_timeout, http.keep_alive, http.send_timeout) = (HOUR, HOUR, HOUR, HOUR);
        change(http);
        // The client sends the same requests thousands of times.
        plan.shield.mode = ShieldMode::Off;
        let site = Site::new(0, plan.sites[0].clone());
        let process = Process::new(Registry::new(1), Log::quiet(), 0);
        let setup = Setup::new(plan.into(), vec![SiteWorkers { site, service: None, persistent: None }]);
        let service = Service::new(process, setup, crate::cache::PageCache::new(0, 1));
        let thread = ProtocolThread::new(ServeThread::new(0, 1, service, false), None, Box::new(|_, _| true));
        TestLoop {
            thread,
            limits: ConnectionLimits::new(Most { connections: 9, ..Most::default() }),
            _folder: folder,
        }
    }

    /// A connection, and its client.
    pub fn accepted(&self) -> (Accepted, MemoryClient) {
        let (memory, client) = MemorySocket::pair();
        let from = Some("192.0.2.1:5000".parse().unwrap());
        let ends = Ends { client: from, local: None, scheme: Scheme::Http, tls: None };
        let permit = self.limits.admit(None).unwrap();
        (Accepted { stream: ClientStream::Memory(memory), ends, permit }, client)
    }

    /// A client whose connection is served.
    pub fn connect(&self) -> MemoryClient {
        let (accepted, client) = self.accepted();
        start(&self.thread, accepted);
        client
    }

    /// All bytes that a client receives which sends these pieces and no more.
    pub async fn answer<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
        let client = self.connect();
        pieces.into_iter().for_each(|piece| client.send(piece));
        client.end();
        client.rest().await
    }

    /// Returns when `counter` has this value.
    pub async fn until(&self, counter: Counter, value: u64) {
        while self.count(counter) != value {
            tokio::task::yield_now().await;
        }
    }

    /// The value of `counter`.
    pub fn count(&self, counter: Counter) -> u64 {
        self.thread.context.process.stats.value(counter)
    }

    /// The event loop checks its connections, `later` from now.
    pub fn sweep(&self, later: Duration) {
        self.thread.context.clock.read();
        self.thread.deadlines.sweep(self.thread.context.clock.ticks() + later.as_millis() as u64);
    }

    /// The server is about to exit.
    pub fn drain(&self) {
        self.thread.context.process.set_stage(ProcessStage::Draining);
        self.thread.deadlines.end_idle();
    }

    /// Returns when no connection is left.
    pub async fn is_over(&self) {
        while !self.thread.deadlines.is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

/// Content of `/large.bin`.
pub fn large() -> Vec<u8> {
    (0..LARGE).map(|at| (at / 7) as u8).collect()
}

/// Runs a scene; one that hangs fails.
pub fn play<F: Future<Output = ()>>(scene: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(Duration::from_secs(60), scene()).await.expect("something that never comes")
    });
}

/// These bytes in all splits into two pieces, and byte by byte.
pub fn splits(bytes: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    let two = (0..bytes.len()).map(move |at| vec![&bytes[..at], &bytes[at..]]);
    two.chain([bytes.chunks(1).collect()])
}
