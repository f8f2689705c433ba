//! Figures of the object cache: written by its thread, read by the status and the metrics.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::protocol::Outcome;
use super::store::ObjectUsage;

/// What is known of a server that has the objects of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFigures {
    /// Why it has not answered the last frame; `None`: it has.
    pub problem: Option<String>,
    /// Keys on the server, those of others included.
    pub keys: u64,
    /// What memcached tells besides.
    pub memcached: Option<MemcachedFigures>,
}

/// What a memcached server tells of itself: all that it has, not only a site's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemcachedFigures {
    /// Items.
    pub items: u64,
    /// Their memory, bytes.
    pub bytes: u64,
    /// The memory that it may use, bytes.
    pub limit: u64,
    /// Items evicted to make room, since its start.
    pub evicted: u64,
    /// Lookups.
    pub lookups: u64,
    /// Lookups that found something.
    pub hits: u64,
}

/// Figures of a site, since its socket was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectFigures {
    /// Open connections.
    pub connections: u64,
    /// Connections refused: another user's, or too many.
    pub refused_connections: u64,
    /// Frames of operations.
    pub frames: u64,
    /// Lookups.
    pub lookups: u64,
    /// Lookups that found an object.
    pub hits: u64,
    /// Objects stored.
    pub stored: u64,
    /// Objects refused because their key had changed since the client read it.
    pub refused: u64,
    /// Deletions.
    pub deleted: u64,
    /// Flushes, of the site or of a group.
    pub flushes: u64,
    /// How often all objects were forgotten because a client could not report a change.
    pub lost: u64,
    /// Objects now.
    pub objects: u64,
    /// Their memory, bytes.
    pub bytes: u64,
    /// Objects evicted to make room.
    pub evicted: u64,
    /// The server that has the objects, if it is another one.
    pub server: Option<ServerFigures>,
}

impl ObjectFigures {
    /// Adds what a frame has done.
    pub(super) fn add(&mut self, outcome: &Outcome) {
        self.frames += 1;
        self.lookups += outcome.lookups;
        self.hits += outcome.hits;
        self.stored += outcome.stored;
        self.refused += outcome.refused;
        self.deleted += outcome.deleted;
        self.flushes += outcome.flushes;
    }

    /// Takes over the store's figures.
    pub(super) fn set(&mut self, usage: ObjectUsage) {
        (self.objects, self.bytes, self.evicted) = (usage.objects, usage.bytes, usage.evicted);
    }
}

/// The figures of all sites, by socket.
#[derive(Debug, Default)]
pub struct ObjectBoard {
    sites: Mutex<BTreeMap<PathBuf, ObjectFigures>>,
}

impl ObjectBoard {
    /// A copy of all figures.
    pub fn read(&self) -> BTreeMap<PathBuf, ObjectFigures> {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The figures behind this socket.
    pub fn of(&self, socket: &Path) -> Option<ObjectFigures> {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner).get(socket).cloned()
    }

    /// Replaces the figures of a site.
    pub(super) fn write(&self, socket: &Path, figures: ObjectFigures) {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner).insert(socket.to_owned(), figures);
    }

    /// Forgets a site.
    pub(super) fn forget(&self, socket: &Path) {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner).remove(socket);
    }
}
