//! The objects of a site on another server, Redis or memcached, for sites on several machines.
//!
//! ```text
//!  socket of the site -> connection -> frame -> redis/ or memcached/ -> answer
//! ```
//!
//! What both have in common:
//!
//! - **A frame that is not answered is not answered here either**: the client's connection is closed. Then its lookups are misses, and
//!   a change is noted in the file of lost reports (`place::Lost`), after which [`RemoteObjects::settle`] answers nothing
//!   until the site is flushed at the server. A flush that was due when this process ended is due when it starts.
//! - **A server that does not answer is left alone for a second**, in which clients are told so at once.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use millrace_settings::plan::{ObjectServer, ObjectServerKind};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;

use super::board::ServerFigures;
use super::memcached::MemcachedObjects;
use super::place::Wanted;
use super::protocol::Outcome;
use super::redis::RedisObjects;
use millrace_base::context::log::Log;

/// Time for a frame: the drop-in waits as long for the confirmation of a change.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// After a failure, clients are told so at once for this long.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum frames of a site at the same time, each on a connection of its own.
const CONNECTIONS: usize = 16;
/// The frame that flushes a site.
const FLUSH: &[u8] = &[6];

/// The objects of a site on another server.
pub struct RemoteObjects {
    server: ObjectServer,
    log: Log,
    client: ObjectClient,
    open: Semaphore,
    failed: Cell<Option<Instant>>,
    /// Why the last frame failed.
    problem: RefCell<Option<String>>,
    /// Flushes that were due since the start, and how many of them are done.
    due: Cell<u64>,
    done: Cell<u64>,
    flushing: Mutex<()>,
}

/// Who speaks with the server.
enum ObjectClient {
    Redis(Rc<RedisObjects>),
    Memcached(Rc<MemcachedObjects>),
}

impl RemoteObjects {
    /// The objects of a site whose own name is `name`.
    pub fn new(wanted: &Wanted, server: &ObjectServer, name: &str, log: &Log) -> RemoteObjects {
        let name = wanted.label.clone().unwrap_or_else(|| own_label(name));
        let address = server.address.clone();
        let client = match server.kind {
            ObjectServerKind::Redis => {
                let password = wanted.redis_password.clone();
                ObjectClient::Redis(Rc::new(RedisObjects::new(address, password, &name)))
            }
            ObjectServerKind::Memcached => {
                let memcached = Rc::new(MemcachedObjects::new(address, &name));
                memcached.prepare();
                ObjectClient::Memcached(memcached)
            }
        };
        RemoteObjects {
            server: server.clone(),
            log: log.clone(),
            client,
            open: Semaphore::new(CONNECTIONS),
            failed: Cell::new(None),
            problem: RefCell::default(),
            due: Cell::new(0),
            done: Cell::new(0),
            flushing: Mutex::new(()),
        }
    }

    /// What identifies the objects: they are others at another server, or with another name.
    pub fn identity(&self) -> String {
        let name = match &self.client {
            ObjectClient::Redis(redis) => redis.name(),
            ObjectClient::Memcached(memcached) => memcached.name(),
        };
        format!("{} {name}", self.server.address)
    }

    /// What is known of the server.
    pub fn figures(&self) -> ServerFigures {
        let problem = self.problem.borrow().clone();
        match &self.client {
            ObjectClient::Redis(redis) => ServerFigures { problem, keys: redis.keys(), memcached: None },
            ObjectClient::Memcached(memcached) => {
                let figures = memcached.figures();
                ServerFigures { problem, keys: figures.items, memcached: Some(figures) }
            }
        }
    }

    /// A flush is due before the next answer.
    pub fn must_flush(&self) {
        self.due.set(self.due.get() + 1);
    }

    /// Flushes the site if that is due; calls `done` then.
    ///
    /// # Errors
    /// It is due, and not done.
    pub async fn settle(&self, done: impl FnOnce()) -> io::Result<()> {
        if self.done.get() == self.due.get() {
            return Ok(());
        }
        let _turn = self.flushing.lock().await;
        let due = self.due.get();
        if self.done.get() < due {
            self.frame(FLUSH, 0, 0).await?;
            self.done.set(due);
            if self.due.get() == due {
                done();
            }
        }
        Ok(())
    }

    /// Carries out a frame. Objects that would make the answer longer than `room` are skipped.
    ///
    /// # Errors
    /// The server does not answer, or says an error: then nothing is known about the frame.
    pub async fn frame(&self, frame: &[u8], room: usize, value_bytes: usize) -> io::Result<Outcome> {
        if self.failed.get().is_some_and(|when| when.elapsed() < PAUSE) {
            return Err(io::ErrorKind::HostUnreachable.into());
        }
        let _place = self.open.acquire().await.map_err(io::Error::other)?;
        let done = timeout(PATIENCE, self.carry_out(frame, room, value_bytes)).await;
        let done = done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        self.note(done.as_ref().err());
        done
    }

    async fn carry_out(&self, frame: &[u8], room: usize, value_bytes: usize) -> io::Result<Outcome> {
        match &self.client {
            ObjectClient::Redis(redis) => redis.carry_out(frame, room, value_bytes).await,
            ObjectClient::Memcached(memcached) => memcached.carry_out(frame, room, value_bytes).await,
        }
    }

    /// Notes that a frame was answered, or why not.
    fn note(&self, error: Option<&io::Error>) {
        // A malformed frame is its client's fault; a server that has just started is about to be used.
        if error.is_some_and(|error| error.kind() == io::ErrorKind::InvalidInput || self.is_beginning()) {
            return;
        }
        let had_failed = self.failed.replace(error.map(|_| Instant::now())).is_some();
        self.problem.replace(error.map(ToString::to_string));
        let (kind, address) = (self.server.kind.name(), &self.server.address);
        match error {
            Some(error) => {
                match &self.client {
                    ObjectClient::Redis(redis) => redis.close_idle(),
                    ObjectClient::Memcached(memcached) => memcached.close_idle(),
                }
                if !had_failed {
                    self.log.warn(format_args!(
                        "the object cache at the {kind} server {address} does not work: {error}; until it does every lookup is a miss"
                    ));
                }
            }
            None if had_failed => self.log.info(format_args!("the {kind} server {address} answers again")),
            None => {}
        }
    }

    fn is_beginning(&self) -> bool {
        matches!(&self.client, ObjectClient::Memcached(memcached) if memcached.is_beginning())
    }
}

/// A name that no other machine has.
fn own_label(name: &str) -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{name}@{}", machine.trim())
}
