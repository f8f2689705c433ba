//! What PHP needs to know about a request besides the request itself: its site, its script, and its rank in the
//! queue. Only this module reads from the site which pool runs a request and how it ranks.

use std::hash::{DefaultHasher, Hash, Hasher};
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

/// Starts to listen to what PHP reports about this request's visitor; what is already known decides pool and rank.
pub fn begin_visit(thread: &PhpThread, site: &Site, request: &mut Request) {
    site.visitors.begin(thread, request, site.cache.as_deref());
}

/// A script that is to run for a request.
#[derive(Clone, Copy, Debug)]
pub struct PhpJob<'a> {
    /// The site of the script.
    pub site: &'a Site,
    /// The script.
    pub script: &'a Script,
    /// The pool that runs it.
    pub pool: PoolId,
    /// Its rank in the queue.
    pub rank: Rank,
    /// Whether it may begin in an image of the boot (`php.rewind`): it is a GET or HEAD, and need not run the ordinary way.
    pub reads: bool,
    /// Whether it runs even if its client goes before it could.
    pub outlives_its_client: bool,
    /// It needs a new connection: an idle one may have been closed.
    pub fresh: bool,
    /// When it began to wait.
    pub since: Instant,
}

impl<'a> PhpJob<'a> {
    /// The script of `site` for this request, which arrives at `now`.
    pub fn new(site: &'a Site, request: &Request, script: &'a Script, now: Instant) -> PhpJob<'a> {
        let pool = site.pools.of(request);
        let rank = site.pools.rank(request, pool);
        let is_ordinary = request.run.as_ref().is_some_and(|run| run.ordinary);
        let reads = matches!(request.head.method(), "GET" | "HEAD") && !is_ordinary;
        let outlives_its_client = !request.runs_aside && site.pools.outlives_its_client(pool);
        let fresh = !request.is_idempotent();
        PhpJob { site, script, pool, rank, reads, outlives_its_client, fresh, since: now }
    }

    /// A digest of the script in whose boot's image it may begin; `None`: in none.
    pub fn boot(&self) -> Option<u64> {
        let mut digest = DefaultHasher::new();
        self.script.filename.hash(&mut digest);
        self.reads.then(|| digest.finish())
    }

    /// The request, as a queue sees it.
    pub fn applicant(&self, request: &Request) -> Applicant {
        Applicant { rank: self.rank, address: request.ends.client_ip(), place: request.waiting_place() }
    }

    /// The response if other requests are preferred.
    pub fn turned_away(&self) -> Reply {
        self.site.turned_away()
    }

    /// The response if waiting does not help.
    pub fn unavailable(&self) -> Reply {
        self.site.unavailable()
    }
}

/// What must be known of a request only if it waits.
#[derive(Debug, Default)]
pub struct Arrival {
    /// The request, as a queue sees it.
    pub from: Applicant,
    /// Its connection, if the client is on this machine.
    pub local: Option<Ports>,
    /// Its frame, if others can send it.
    pub short: Option<Short>,
}
