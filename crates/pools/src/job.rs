//! What PHP needs to know about a request besides the request itself: its site, its script, and its rank in the
//! queue. Only this module reads from the site which pool runs a request and how it ranks.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use super::loopback::Ports;
use super::pool::admission::Rank;
use super::pool::fits::BootKind;
use super::pool::pools::PoolId;
use super::pool::request_queue::Applicant;
use super::pool::waiters::Short;
use crate::PhpThread;
use millrace_base::message::Request;
use millrace_base::message::reply::Reply;
use millrace_base::site::{Script, Site};
use millrace_pages::visitors::{Proof, Standing};

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
    /// The kind of the boot in whose image it may begin (`php.rewind`); `None`: in none.
    pub kind: Option<BootKind>,
    /// A worker has declined it, because it does not fit its image.
    pub is_declined: bool,
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
        let outlives_its_client = !request.found.runs_aside && site.pools.outlives_its_client(pool);
        PhpJob {
            site,
            script,
            pool,
            rank,
            kind: None,
            is_declined: false,
            outlives_its_client,
            fresh: !request.is_idempotent(),
            since: now,
        }
    }

    /// Finds the kind of its boot, for workers that are rewound. The kind depends on script, host, first folder of the path, names in the
    /// query, and visitor. A form, and what has to run the ordinary way, have none.
    pub fn find_kind(&mut self, request: &Request) {
        let is_ordinary = request.run.as_ref().is_some_and(|run| run.ordinary);
        if is_ordinary || !matches!(request.head.method(), "GET" | "HEAD") {
            return;
        }
        let mut digest = DefaultHasher::new();
        self.script.filename.hash(&mut digest);
        request.authority().hash(&mut digest);
        let path = request.head.path_query().split(|byte| *byte == b'?').next().unwrap_or_default();
        path.split(|byte| *byte == b'/').nth(1).hash(&mut digest);
        for argument in request.query().unwrap_or_default().split(|byte| *byte == b'&') {
            argument.split(|byte| *byte == b'=').next().hash(&mut digest);
        }
        match request.found.standing {
            Standing::Visitor | Standing::Anonymous | Standing::Unasked => {}
            Standing::Known(Proof::Cart) => 1.hash(&mut digest),
            Standing::Known(_) | Standing::Unproven => self.site.visitors.digest(request).hash(&mut digest),
        }
        self.kind = Some(digest.finish());
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
