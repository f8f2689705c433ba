//! What PHP needs to know of a request besides the request itself: its site, its script, and how it stands in the queue. Which
//! pool runs it and how it ranks is read from the site here and nowhere else.

use std::time::Instant;

use super::loopback::Ports;
use super::pool::admission::Rank;
use super::pool::pools::PoolId;
use super::pool::request_queue::Applicant;
use super::pool::waiters::Short;
use crate::message::Request;
use crate::message::reply::Reply;
use crate::php::PhpThread;
use crate::site::{Script, Site};

/// From now on what PHP reports of this request's visitor is heard; what is known of him decides pool and rank.
pub fn begin_visit(thread: &PhpThread, site: &Site, request: &mut Request) {
    site.visitors.begin(thread, request, site.cache.as_deref());
}

/// A script that is to run for a request.
#[derive(Clone, Copy, Debug)]
pub struct PhpJob<'a> {
    /// Whose script it is.
    pub site: &'a Site,
    /// The script.
    pub script: &'a Script,
    /// Its part of the pool.
    pub pool: PoolId,
    /// What it goes before.
    pub rank: Rank,
    /// Nothing that was used before will do: a connection that has been kept may have been closed.
    pub fresh: bool,
    /// When it began to wait.
    pub since: Instant,
}

impl<'a> PhpJob<'a> {
    /// The script of `site` for this request, which comes `now`.
    pub fn new(site: &'a Site, request: &Request, script: &'a Script, now: Instant) -> PhpJob<'a> {
        let pool = site.pools.of(request);
        let rank = site.pools.rank(request, pool);
        PhpJob { site, script, pool, rank, fresh: !request.is_idempotent(), since: now }
    }

    /// Whether it is to run though its client has gone before it could.
    pub fn outlives_its_client(&self) -> bool {
        self.site.pools.outlives_its_client(self.pool)
    }

    /// The request, as a queue sees it.
    pub fn applicant(&self, request: &Request) -> Applicant {
        Applicant { rank: self.rank, address: request.ends.client_ip(), place: request.waiting_place() }
    }

    /// The answer if others are before it.
    pub fn turned_away(&self) -> Reply {
        self.site.turned_away()
    }

    /// The answer if waiting does not help.
    pub fn unavailable(&self) -> Reply {
        self.site.unavailable()
    }
}

/// What has to be known of a request only if it waits.
#[derive(Debug, Default)]
pub struct Arrival {
    /// The request, as a queue sees it.
    pub from: Applicant,
    /// Its connection, if that begins on this machine.
    pub local: Option<Ports>,
    /// Its frame, if it can be sent by others.
    pub short: Option<Short>,
}
