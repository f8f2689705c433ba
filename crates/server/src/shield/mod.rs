//! The shield: limits for floods and scanners, and bans. What it decides with are values ([`millrace_shield`]); this room asks
//! them on the path of a request, and logs, counts and refuses.
//!
//! ```text
//!  serve::walk ───── banned: the address is in a list, or an administrator has banned it ── 403
//!     a file, or the cache has the page ───────────────────────────── not asked any more
//!     PHP has to run ── look ── admit ─┬ the shield has banned the address ── 403
//!                                      ├ one more than its address or network may send ── 429
//!                                      ├ its class is over its share of PHP: a line of low priority, or 503
//!                                      └ PHP ── checked: a password that it takes was no guess
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
use millrace_shield::{Asked, BanTerms, Bans, Class, Limit, Networks, Rate, Table, class};
use millrace_wire::network::Network;

pub use attend::attend;
pub use lanes::ShieldPass;
pub use orders::{BanStatus, CrawlerStatus, ShieldOrder, ShieldReport, ShieldStatus};
pub use request::ShieldRequest;

use attend::CrawlerList;
use lanes::Lanes;
use names::HostNames;
use request::{Standpoint, decoded_path, is_for_programs, tries_password};

use millrace_base::context::stats::Counter;
use millrace_base::context::{Context, Process, Swapped};
use millrace_base::message::Request;
use millrace_base::message::reply::{Reply, plain};
use millrace_base::site::{Script, Site};

/// How many times the limit of an address its network has: it contains many clients.
const NETWORK: u64 = 8;
/// How many times the limit of a client an address has that seems to be a proxy: see [`ShieldRequest::is_relayed`].
const RELAY: u64 = 8;
/// How many minutes' requests a client may send at once.
const AT_ONCE: u64 = 3;
/// The number behind those of the classes: refusals, of which too many are a ban.
const OFFENCES: u64 = Class::ALL.len() as u64;
/// Pages that a script says it does not have: an account beside that of [`Class::NotFound`], for which nobody is banned.
const NO_PAGE: u64 = OFFENCES + 1;
/// Added for what pages of other sites have browsers send: they use up nothing of what the browsers' owners may send.
const FOREIGN: u64 = 16;
/// The numbers from here on are of rules of sites: see [`ShieldThread::count_for_rule`].
const RULES: u64 = 2 * FOREIGN;
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
    /// The last attempt to do so has failed.
    is_unsaved: AtomicBool,
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
    /// The bans in force.
    banned: Networks<BanInForce>,
    /// The networks of lists, and when each ends.
    listed: Arc<Networks<u64>>,
    /// The networks of crawlers.
    crawlers: Arc<Vec<CrawlerList>>,
}

/// What a thread needs to know about a ban.
#[derive(Clone, Copy, Debug)]
struct BanInForce {
    /// Its end, seconds since 1970.
    until: u64,
    /// An administrator's.
    by_admin: bool,
}

/// Who says that something is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The server: there is no such file, script or page.
    File,
    /// A script, by a page for people. It may be an ordinary answer.
    Page,
    /// A script, by something that only programs read: for them 404 is a normal answer.
    Answer,
}

impl Missing {
    /// A script says so, by this response.
    pub fn by_script(reply: &Reply) -> Missing {
        let kind = reply.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let is_page = kind.is_none_or(|(_, kind)| kind.to_ascii_lowercase().starts_with(b"text/html"));
        if is_page { Missing::Page } else { Missing::Answer }
    }
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
            is_unsaved: AtomicBool::new(false),
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
            banned.insert(network, BanInForce { until: ban.until, by_admin: ban.by_admin });
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

    /// The response to a request from an address that an administrator or a list has banned; of others, to a request that may try
    /// passwords. A proven visitor shares the address, and is served.
    pub fn banned(&self, context: &Context, site: &Site, request: &Request) -> Option<Reply> {
        let is_whole = self.ban(context, site, request)?;
        if context.plan().shield.mode == ShieldMode::Watch {
            context.stats.add(Counter::ShieldWatched, 1);
            return None;
        }
        refuses(request, is_whole).then(|| forbidden(context))
    }

    /// Whether there would be one. Nothing is counted.
    pub fn would_ban(&self, context: &Context, site: &Site, request: &Request) -> bool {
        context.plan().shield.mode != ShieldMode::Watch
            && self.ban(context, site, request).is_some_and(|is_whole| refuses(request, is_whole))
    }

    /// The response to a request from a banned address for more than a file or a cached page: many may share the address, and those
    /// cost nothing.
    pub fn held_back(&self, context: &Context, site: &Site, request: &Request) -> Option<Reply> {
        self.is_held_back(context, site, request).then(|| forbidden(context))
    }

    /// Whether there is one.
    pub fn is_held_back(&self, context: &Context, site: &Site, request: &Request) -> bool {
        self.ban(context, site, request).is_some() && context.plan().shield.mode != ShieldMode::Watch
    }

    /// Whether the ban of a request's address is for all requests; `None`: there is none.
    fn ban(&self, context: &Context, site: &Site, request: &Request) -> Option<bool> {
        if !self.refresh() {
            return None;
        }
        let address = request.ends.client_ip()?;
        let now = context.clock.unix_time().as_secs();
        let view = self.view();
        let own = view.banned.find(address, |ban| ban.until > now).map(|(_, ban)| ban.by_admin);
        let listed = view.listed.find(address, |until| *until > now).is_some();
        let is_whole = if listed { true } else { own? };
        let is_meant =
            applies(&context.plan().shield, address) && site.visitors.proven(context, request).is_none();
        is_meant.then_some(is_whole)
    }

    /// What the shield has to know of a request for which `script` runs; `None`: it does not apply to it.
    pub fn look(
        &self,
        context: &Context,
        site: &Site,
        request: &Request,
        script: &Script,
    ) -> Option<ShieldRequest> {
        let address = request.ends.client_ip()?;
        applies(&context.plan().shield, address).then(|| {
            let crawlers = self.view().crawlers.clone();
            let seen =
                ShieldRequest::of(context, site, request, script, address, (&crawlers, &self.shared.names));
            ShieldRequest { is_banned: self.is_held_back(context, site, request), ..seen }
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
        let Some(seen) = seen.filter(|seen| seen.standpoint != Standpoint::Editor) else {
            self.shared.lanes.count_ordinary();
            return Ok(None);
        };
        match seen.standpoint {
            Standpoint::Crawler => context.stats.add(Counter::ShieldCrawlers, 1),
            Standpoint::FalseCrawler => context.stats.add(Counter::ShieldFalseCrawlers, 1),
            _ => {}
        }
        if seen.is_banned {
            return Err(forbidden(context));
        }
        if let Some(refusal) = self.over_limit(context, &seen) {
            return Err(refusal);
        }
        if seen.is_free() {
            self.shared.lanes.count_ordinary();
            return Ok(None);
        }
        self.shared.lanes.enter(context, &self.shared, site, &seen, request).await
    }

    /// The refusal of a client that has sent too many requests.
    fn over_limit(&self, context: &Context, seen: &ShieldRequest) -> Option<Reply> {
        if seen.standpoint == Standpoint::Crawler {
            return None;
        }
        let plan = context.plan();
        if let Some(guess) = self.guess(context, &plan.shield, seen)
            && let Err(wait) = self.shared.table.ask(&guess)
        {
            return self.refuse(context, &plan.shield, seen, (&guess, Class::Login), wait);
        }
        if seen.is_free() {
            return None;
        }
        if seen.class == Class::Php && !seen.is_for_programs {
            let scans = self.asked(context, &plan.shield, seen, Class::NotFound, 1);
            let pages = Asked { class: scans.class - Class::NotFound as u64 + NO_PAGE, ..scans };
            for scans in [scans, pages] {
                if self.shared.table.left(&scans) == Some(0) {
                    return self.refuse(context, &plan.shield, seen, (&scans, Class::NotFound), 1);
                }
            }
        }
        let asked = self.asked(context, &plan.shield, seen, seen.class, 1);
        let wait = self.shared.table.ask(&asked).err()?;
        self.refuse(context, &plan.shield, seen, (&asked, seen.class), wait)
    }

    /// The attempt to log in that a request with `Authorization` is, until its script has taken the password.
    fn guess(&self, context: &Context, settings: &plan::Shield, seen: &ShieldRequest) -> Option<Asked> {
        (seen.tries_password && seen.class != Class::Login)
            .then(|| self.asked(context, settings, seen, Class::Login, 1))
    }

    /// A script has responded to a request that was admitted: unless it has refused the password in `Authorization`, that was no guess. Nor
    /// is the password in what it has created (201), such as a customer's account.
    pub fn checked(&self, context: &Context, seen: Option<ShieldRequest>, status: u16) {
        let Some(seen) = seen.filter(|seen| seen.standpoint != Standpoint::Editor && status != 401) else {
            return;
        };
        if seen.tries_password && (seen.class != Class::Login || status == 201) {
            let guess = self.asked(context, &context.plan().shield, &seen, Class::Login, 1);
            self.shared.table.give_back(&guess);
        }
    }

    /// Counts a password that the server itself has refused, as an attempt to log in; the refusal of a client that has tried too many.
    pub fn wrong_password(&self, context: &Context, site: &Site, request: &Request) -> Option<Reply> {
        let seen = self.stranger(context, site, request)?;
        let plan = context.plan();
        let asked = self.asked(context, &plan.shield, &seen, Class::Login, 1);
        let wait = self.shared.table.ask(&asked).err()?;
        self.refuse(context, &plan.shield, &seen, (&asked, Class::Login), wait)
    }

    /// The refusal of a client that has tried too many passwords, before another one of it is checked: bcrypt and argon2id cost others
    /// their turn.
    pub fn no_guess_left(&self, context: &Context, site: &Site, request: &Request) -> Option<Reply> {
        let seen = self.stranger(context, site, request)?;
        let plan = context.plan();
        let asked = self.asked(context, &plan.shield, &seen, Class::Login, 1);
        (self.shared.table.left(&asked) == Some(0))
            .then(|| self.refuse(context, &plan.shield, &seen, (&asked, Class::Login), 1))?
    }

    /// Counts a request whose response is 404, and returns the refusal of a client that has sent too many. Requests from links of
    /// the site itself don't count, nor do those whose visitor or password the server or PHP knows.
    pub fn not_found(
        &self,
        context: &Context,
        site: &Site,
        request: &Request,
        missing: Missing,
    ) -> Option<Reply> {
        if let Some(refusal) = self.held_back(context, site, request) {
            return Some(refusal);
        }
        let is_known = request.found.ruling.as_ref().is_some_and(|ruling| !ruling.verdict.user.is_empty());
        if missing == Missing::Answer || is_known || is_for_programs(site, request) {
            return None;
        }
        let seen = self.stranger(context, site, request)?;
        if !matches!(seen.standpoint, Standpoint::Stranger | Standpoint::FalseCrawler) {
            return None;
        }
        let plan = context.plan();
        let is_page = missing == Missing::Page;
        let cost = if is_page { 1 } else { class::weight(&decoded_path(request)) };
        let mut asked = self.asked(context, &plan.shield, &seen, Class::NotFound, cost);
        asked.class += if is_page { NO_PAGE - Class::NotFound as u64 } else { 0 };
        let wait = self.shared.table.ask(&asked).err()?;
        self.refuse(context, &plan.shield, &seen, (&asked, Class::NotFound), wait)
    }

    /// What the shield has to know of a request for which no script runs; `None`: it does not apply to it.
    fn stranger(&self, context: &Context, site: &Site, request: &Request) -> Option<ShieldRequest> {
        let address = request.ends.client_ip()?;
        applies(&context.plan().shield, address).then(|| {
            let crawlers = self.view().crawlers.clone();
            ShieldRequest::without_script(context, site, request, address, (&crawlers, &self.shared.names))
        })
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
        let asked = self.asked_for_rule(context, (site, rule), limit, address?);
        self.shared.table.ask(&asked).err().map(too_many)
    }

    /// The refusal that one more request would get. Nothing is counted.
    pub fn would_refuse_for_rule(
        &self,
        context: &Context,
        place: (usize, u32),
        limit: &plan::RequestLimit,
        address: Option<IpAddr>,
    ) -> Option<Reply> {
        let left = self.shared.table.left(&self.asked_for_rule(context, place, limit, address?));
        (left == Some(0)).then(|| too_many(0))
    }

    fn asked_for_rule(
        &self,
        context: &Context,
        (site, rule): (usize, u32),
        limit: &plan::RequestLimit,
        address: IpAddr,
    ) -> Asked {
        let client = Rate::new(limit.number, limit.minutes, limit.burst);
        Asked {
            address,
            class: RULES + ((site as u64) << 32) + u64::from(rule),
            limit: Limit { client, network: None },
            cost: 1,
            now: self.shared.micros(context.clock.now()),
        }
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
        let class = class as u64 + if seen.is_foreign { FOREIGN } else { 0 };
        Asked { address: seen.address, class, limit, cost, now }
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
        // Neither what another site's page has a browser send, nor what a script does not have, tells of a bad client.
        let is_weak = seen.is_foreign || asked.class == NO_PAGE;
        if seen.is_relayed {
            self.shared.tell_of_relay(asked.address);
        } else if !is_weak && let Some(until) = self.shared.offend(settings, asked, class, now) {
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

/// The response to a client with a banned address. The page cache sends a stale page instead, if it has one.
pub fn forbidden(context: &Context) -> Reply {
    context.stats.add(Counter::ShieldBanned, 1);
    let mut reply = Reply { close: true, ..plain(403) }.with("Cache-Control", "no-store");
    reply.aside.get_or_insert_default().turned_away = true;
    reply
}

/// Whether a ban refuses a request: each one, or only those that may try passwords.
fn refuses(request: &Request, is_whole: bool) -> bool {
    is_whole || !matches!(request.head.method(), "GET" | "HEAD") || tries_password(request)
}

/// 429 (RFC 6585 section 4). `wait`: microseconds until the client may try again. The page cache sends a stale page instead, if it
/// has one.
fn too_many(wait: u64) -> Reply {
    let seconds = wait.div_ceil(1_000_000).max(1).to_string();
    let mut reply = plain(429).with("Retry-After", &seconds).with("Cache-Control", "no-store");
    reply.aside.get_or_insert_default().turned_away = true;
    reply
}
