//! The shield: limits for floods and scanners, and bans. What it decides with are values ([`millrace_shield`]); this room asks
//! them on the path of a request, and logs, counts and refuses.
//!
//! ```text
//!  serve::respond ── banned: the address has a ban, or is in a list ── 403
//!     the cache has the page ──────────────────────────────────────── not asked any more
//!     PHP has to run ── look ── admit ─┬ one more than its address or network may send ── 429
//!                                      ├ its class is over its share of PHP: a line of low priority, or 503
//!                                      └ PHP
//!     404 ── not_found: a scanner ── 429
//! ```
//!
//! Locks: [`Table`] and the lanes of a site are behind mutexes that are held for one lookup, and only requests that need PHP and
//! requests for what is not there take them. Each thread has a reference to the [`ShieldView`] in force: a cached page costs a
//! comparison of two numbers, and a lookup by address while there are bans.

mod attend;
mod lanes;
mod names;
mod orders;
mod request;

use std::cell::{Cell, Ref, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use millrace_settings::plan::{self, ShieldMode};
use millrace_shield::{Asked, BanTerms, Bans, Class, Limit, Network, Networks, Rate, Table, class};

pub use attend::attend;
pub use lanes::ShieldPass;
pub use orders::{BanStatus, CrawlerStatus, ShieldOrder, ShieldReport, ShieldStatus};
pub use request::ShieldRequest;

use attend::CrawlerList;
use lanes::Lanes;
use names::HostNames;
use request::Standpoint;

use crate::context::stats::Counter;
use crate::context::{Context, Process, Swapped};
use crate::message::Request;
use crate::message::reply::{Reply, plain};
use crate::site::Site;

/// How many times the limit of an address its network has: it contains many clients.
const NETWORK: u64 = 8;
/// How many times the limit of a client an address has that seems to be a proxy: see [`ShieldRequest::is_relayed`].
const RELAY: u64 = 8;
/// How many minutes' requests a client may send at once.
const AT_ONCE: u64 = 3;
/// The number behind those of the classes: refusals, of which too many are a ban.
const OFFENCES: u64 = Class::ALL.len() as u64;
/// The numbers behind it are of rules of sites: see [`ShieldThread::count_for_rule`].
const RULES: u64 = OFFENCES + 1;
/// Minutes in which they are counted.
const OFFENCE_MINUTES: u64 = 10;

/// What all threads share. It outlives a reload.
#[derive(Debug)]
pub struct Shield {
    process: Arc<Process>,
    table: Table,
    bans: Mutex<Bans>,
    view: Arc<Swapped<ShieldView>>,
    lanes: Lanes,
    /// The host names of addresses that say they are crawlers.
    names: HostNames,
    /// Start of the times in `table`.
    epoch: OnceLock<Instant>,
    /// The bans have changed since they were written to disk.
    is_dirty: AtomicBool,
    /// Held while they are written.
    saving: Mutex<()>,
    /// The log has said that requests seem to come through a proxy.
    has_told_of_relay: AtomicBool,
    /// The second since 1970 of the last line in the log about a refusal, and the number of refusals since then.
    logged: AtomicU64,
    unlogged: AtomicU64,
}

/// What a thread needs to know about addresses; replaced as a whole.
#[derive(Clone, Debug, Default)]
pub struct ShieldView {
    /// Ends of the bans in force, seconds since 1970.
    banned: Networks<u64>,
    /// The networks of lists, and when each ends.
    listed: Arc<Networks<u64>>,
    /// The networks of crawlers.
    crawlers: Arc<Vec<CrawlerList>>,
}

impl Shield {
    /// Without bans.
    pub fn new(process: Arc<Process>) -> Arc<Shield> {
        Arc::new(Shield {
            process,
            table: Table::default(),
            bans: Mutex::default(),
            view: Swapped::new(Arc::default()),
            lanes: Lanes::default(),
            names: HostNames::default(),
            epoch: OnceLock::new(),
            is_dirty: AtomicBool::new(false),
            saving: Mutex::default(),
            has_told_of_relay: AtomicBool::new(false),
            logged: AtomicU64::new(0),
            unlogged: AtomicU64::new(0),
        })
    }

    fn bans(&self) -> MutexGuard<'_, Bans> {
        self.bans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Microseconds of the clock of `table`, never 0.
    fn micros(&self, now: Instant) -> u64 {
        let epoch = *self.epoch.get_or_init(|| now);
        now.saturating_duration_since(epoch).as_micros() as u64 + 1
    }

    /// Has all threads see the bans in force. Called with the lock, so that no older state replaces a newer one.
    fn publish(&self, bans: &Bans, now: u64) {
        let mut banned = Networks::default();
        for (network, ban) in bans.in_force(now) {
            banned.insert(network, ban.until);
        }
        self.view.replace(Arc::new(ShieldView { banned, ..(*self.view.get()).clone() }));
    }

    /// The ban's end, if a client has been refused so often that it is banned now.
    fn offend(&self, settings: &plan::Shield, asked: &Asked, class: Class, now: u64) -> Option<u64> {
        let client = Rate::new(settings.ban_after, OFFENCE_MINUTES, settings.ban_after);
        let limit = Limit { client, network: None };
        self.table.ask(&Asked { class: OFFENCES, cost: 1, limit, ..*asked }).err()?;
        let reason = format!("more than {} refusals, the last for {}", settings.ban_after, class.name());
        let terms = BanTerms { first: settings.ban_time.as_secs(), longest: settings.ban_max.as_secs() };
        let mut bans = self.bans();
        if bans.find(asked.address, now).is_some() {
            return None;
        }
        let ban = bans.offend(asked.address, now, terms, &reason);
        self.publish(&bans, now);
        self.is_dirty.store(true, Ordering::Relaxed);
        Some(ban.until)
    }

    /// Says once what to do about an address that seems to be a proxy.
    fn tell_of_relay(&self, address: IpAddr) {
        if !self.has_told_of_relay.swap(true, Ordering::Relaxed) {
            self.process.log.warn(format_args!(
                "shield: {address} has reached a limit with requests that say they come from others: if it is your proxy or CDN, add its \
                 networks to server.trusted_proxies; until then its visitors share the limits of {RELAY} clients, and it is not banned"
            ));
        }
    }

    /// Logs a refusal, at most one a second; the line has the number of the others since the last one.
    fn log_refusal(&self, now: u64, what: &str, address: IpAddr, class: Class) {
        let last = self.logged.load(Ordering::Relaxed);
        let is_first = last < now
            && self.logged.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !is_first {
            self.unlogged.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let others = self.unlogged.swap(0, Ordering::Relaxed);
        let client = Network::client(address);
        self.process.log.info(format_args!(
            "shield: {what} {client}: over the limit shield.{} ({others} others since the last such line)",
            class.name()
        ));
    }
}

/// An event loop's part.
#[derive(Debug)]
pub struct ShieldThread {
    shared: Arc<Shield>,
    view: RefCell<Arc<ShieldView>>,
    generation: Cell<u64>,
    /// Some addresses are banned.
    bans: Cell<bool>,
}

impl ShieldThread {
    /// An event loop's part of `shared`.
    pub fn new(shared: Arc<Shield>) -> ShieldThread {
        let (generation, view) = (Cell::new(u64::MAX), RefCell::default());
        ShieldThread { shared, view, generation, bans: Cell::new(false) }
    }

    /// Takes over the view in force; whether there are bans.
    fn refresh(&self) -> bool {
        let generation = self.shared.view.generation();
        if self.generation.replace(generation) != generation {
            let view = self.shared.view.get();
            self.bans.set(!view.banned.is_empty() || !view.listed.is_empty());
            *self.view.borrow_mut() = view;
        }
        self.bans.get()
    }

    fn view(&self) -> Ref<'_, Arc<ShieldView>> {
        self.refresh();
        self.view.borrow()
    }

    /// The response to a request from a banned address. A proven visitor shares the address, and is served.
    pub fn banned(&self, context: &Context, site: &Site, request: &Request) -> Option<Reply> {
        if !self.refresh() {
            return None;
        }
        let address = request.ends.client_ip()?;
        let now = context.clock.unix_time().as_secs();
        let view = self.view();
        let in_force = |until: &u64| *until > now;
        view.banned.find(address, in_force).or_else(|| view.listed.find(address, in_force))?;
        let plan = context.plan();
        let settings = &plan.shield;
        if !applies(settings, address) || site.visitors.is_proven(context, request) {
            return None;
        }
        if settings.mode == ShieldMode::Watch {
            context.stats.add(Counter::ShieldWatched, 1);
            return None;
        }
        context.stats.add(Counter::ShieldBanned, 1);
        Some(Reply { close: true, ..plain(403) }.with("Cache-Control", "no-store"))
    }

    /// What the shield has to know of a request that needs PHP; `None`: it does not apply to it.
    pub fn look(&self, context: &Context, site: &Site, request: &Request) -> Option<ShieldRequest> {
        let address = request.ends.client_ip()?;
        applies(&context.plan().shield, address).then(|| {
            ShieldRequest::of(context, site, request, address, (&self.view().crawlers, &self.shared.names))
        })
    }

    /// Lets a request run, perhaps after it has waited for its class. The error is its response.
    pub async fn admit(
        &self,
        context: &Rc<Context>,
        site: &Site,
        seen: Option<ShieldRequest>,
        request: &mut Request,
    ) -> Result<Option<ShieldPass>, Reply> {
        let Some(seen) = seen.filter(|seen| seen.standpoint != Standpoint::Proven) else {
            self.shared.lanes.count_ordinary();
            return Ok(None);
        };
        match seen.standpoint {
            Standpoint::Crawler => context.stats.add(Counter::ShieldCrawlers, 1),
            Standpoint::FalseCrawler => context.stats.add(Counter::ShieldFalseCrawlers, 1),
            Standpoint::Proven | Standpoint::Stranger | Standpoint::FromHere => {}
        }
        if let Some(refusal) = self.over_limit(context, &seen) {
            return Err(refusal);
        }
        self.shared.lanes.enter(context, &self.shared, site, &seen, request).await
    }

    /// The refusal of a client that has sent too many requests.
    fn over_limit(&self, context: &Context, seen: &ShieldRequest) -> Option<Reply> {
        if seen.standpoint == Standpoint::Crawler {
            return None;
        }
        let plan = context.plan();
        let asked = self.asked(context, &plan.shield, seen, seen.class, 1);
        if seen.class == Class::Php {
            let scans = self.asked(context, &plan.shield, seen, Class::NotFound, 1);
            if self.shared.table.left(&scans) == Some(0) {
                return self.refuse(context, &plan.shield, seen, (&scans, Class::NotFound), 1);
            }
        }
        let wait = self.shared.table.ask(&asked).err()?;
        self.refuse(context, &plan.shield, seen, (&asked, seen.class), wait)
    }

    /// Counts a request whose response is 404, and returns the refusal of a client that has sent too many. Requests from links of
    /// the site itself don't count.
    pub fn not_found(&self, context: &Context, site: &Site, request: &Request) -> Option<Reply> {
        let seen = self.look(context, site, request)?;
        if !matches!(seen.standpoint, Standpoint::Stranger | Standpoint::FalseCrawler) {
            return None;
        }
        let plan = context.plan();
        let cost = class::weight(request.raw_path());
        let asked = self.asked(context, &plan.shield, &seen, Class::NotFound, cost);
        let wait = self.shared.table.ask(&asked).err()?;
        self.refuse(context, &plan.shield, &seen, (&asked, Class::NotFound), wait)
    }

    /// Counts a request for the limit of a site's rule; the refusal of a client that has sent too many. Clients on a Unix
    /// socket have no limit.
    pub fn count_for_rule(
        &self,
        context: &Context,
        (site, rule): (usize, u32),
        limit: &plan::RequestLimit,
        address: Option<IpAddr>,
    ) -> Option<Reply> {
        let client = Rate::new(limit.number, limit.minutes, limit.burst);
        let asked = Asked {
            address: address?,
            class: RULES + ((site as u64) << 32) + u64::from(rule),
            limit: Limit { client, network: None },
            cost: 1,
            now: self.shared.micros(context.clock.now()),
        };
        self.shared.table.ask(&asked).err().map(too_many)
    }

    fn asked(
        &self,
        context: &Context,
        settings: &plan::Shield,
        seen: &ShieldRequest,
        class: Class,
        cost: u64,
    ) -> Asked {
        let now = self.shared.micros(context.clock.now());
        let clients = if seen.is_relayed { RELAY } else { 1 };
        let limit = limit(settings, class, clients);
        Asked { address: seen.address, class: class as u64, limit, cost, now }
    }

    /// Counts and logs a refusal, which may be one too many; `None`: it is only watched. `wait`: microseconds until the client
    /// may send one more.
    fn refuse(
        &self,
        context: &Context,
        settings: &plan::Shield,
        seen: &ShieldRequest,
        (asked, class): (&Asked, Class),
        wait: u64,
    ) -> Option<Reply> {
        let now = context.clock.unix_time().as_secs();
        if settings.mode == ShieldMode::Watch {
            context.stats.add(Counter::ShieldWatched, 1);
            self.shared.log_refusal(now, "would refuse", asked.address, class);
            return None;
        }
        context.stats.add(counter(class), 1);
        self.shared.log_refusal(now, "refused", asked.address, class);
        if seen.is_relayed {
            self.shared.tell_of_relay(asked.address);
        } else if let Some(until) = self.shared.offend(settings, asked, class, now) {
            context.stats.add(Counter::ShieldBans, 1);
            self.shared.process.log.warn(format_args!(
                "shield: banned {} for {} s after more than {} refusals; to undo it: millrace shield unban {0}",
                Network::client(asked.address),
                until - now,
                settings.ban_after
            ));
        }
        Some(too_many(wait))
    }
}

/// Whether the shield applies to a client with this address.
fn applies(settings: &plan::Shield, address: IpAddr) -> bool {
    settings.mode != ShieldMode::Off && !settings.exempt.iter().any(|network| network.contains(address))
}

/// The limits of a class, for an address of so many clients.
fn limit(settings: &plan::Shield, class: Class, clients: u64) -> Limit {
    let limits = &settings.limits;
    let number = match class {
        Class::Login => limits.login,
        Class::Xmlrpc => limits.xmlrpc,
        Class::Search => limits.search,
        Class::Filter => limits.filter,
        Class::Cart => limits.cart,
        Class::Users => limits.users,
        Class::NotFound => limits.not_found,
        Class::Php => limits.php,
    };
    let rate = |number| Rate::new(number, 1, number * AT_ONCE);
    let number = number * clients;
    Limit { client: rate(number), network: rate(number * NETWORK) }
}

fn counter(class: Class) -> Counter {
    match class {
        Class::Login => Counter::ShieldLogin,
        Class::Xmlrpc => Counter::ShieldXmlrpc,
        Class::Search => Counter::ShieldSearch,
        Class::Filter => Counter::ShieldFilter,
        Class::Cart => Counter::ShieldCart,
        Class::Users => Counter::ShieldUsers,
        Class::NotFound => Counter::ShieldNotFound,
        Class::Php => Counter::ShieldPhp,
    }
}

/// 429 (RFC 6585 section 4). `wait`: microseconds until the client may try again. The page cache sends a stale page instead, if it
/// has one.
fn too_many(wait: u64) -> Reply {
    let seconds = wait.div_ceil(1_000_000).max(1).to_string();
    let mut reply = plain(429).with("Retry-After", &seconds).with("Cache-Control", "no-store");
    reply.aside.get_or_insert_default().turned_away = true;
    reply
}
