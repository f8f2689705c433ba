//! What a site's PHP has found out about the cookies of its visitors: it decides which requests go first. The table
//! is a value ([`millrace_pages::visitors`]); this module queries it on the path of a request, and passes it the
//! report of each run of PHP.
//!
//! ```text
//!  audience::admit -- a cookie keeps it from the cache --> permit: anonymous? then it is asked once more, without such
//!                    cookies; with a cart? then it may have a public page that is proven to be the same; a member?
//!                    then one that was made for others with the same rights
//!  php::run       -- begin: what is known of the visitor decides pool and rank; a Visit begins
//!  php's frames   -- NOTE visitor --> Visit::hear; the last one of a run ends the visit
//! ```
//!
//! Locks: each part of a site's table is behind a mutex, held for some lookups in hash tables and never while waiting. Only
//! requests with concerned cookies come here, and requests for pages that differ by country: any other cache hit costs nothing. A
//! shard of the page cache may be locked when [`Visitors::country`] is called.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use millrace_pages::ask::bypass_argument;
use millrace_pages::carts::{PageProof, PageView, Proofs};
use millrace_pages::members::Comparison;
use millrace_pages::places::{self, Country, Named};
use millrace_pages::visitors::{
    ConcernedCookies, CookieState, Limits, MemberPass, MemberRow, MemberRows, Pass, Proof, Standing, Visit,
    VisitorTable, VisitorUsage,
};
use millrace_pages::{Bypass, Millis, Rules, Tag};
use millrace_settings::plan;

use crate::context::Context;
use crate::context::stats::Counter;
use crate::message::Request;

/// The visitors of a site.
#[derive(Debug)]
pub struct Visitors {
    concern: ConcernedCookies,
    limits: Limits,
    table: OnceLock<Arc<VisitorTable>>,
}

/// Whether the page cache may answer a request with cookies that identify a visitor.
#[derive(Debug)]
pub enum CachePermit {
    /// The cookies mean nothing.
    Anonymous,
    /// Stored pages that are known to be right for the visitor.
    Pass(VisitorPass),
    /// The visitor gets pages from PHP, for this reason.
    Held(Bypass<'static>),
    /// The cookies may mean something.
    None,
}

/// What a visitor may have.
#[derive(Debug)]
pub enum VisitorPass {
    /// Public pages that are proven to be the same with a cart.
    Cart(Arc<Pass>),
    /// Pages that were made for others with the same rights.
    Member(Arc<MemberPass>),
}

impl Visitors {
    /// The visitors of a site whose application identifies them by such cookies.
    pub fn new(application: &[&str], plan: &plan::SiteCache) -> Visitors {
        let time = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let limits = Limits {
            most: plan.visitors,
            proven: time(plan.visitor_time),
            anonymous: time(plan.anonymous_time),
            cart: time(plan.cart_time),
            member: if plan.members == plan::Members::Off { 0 } else { time(plan.member_time) },
        };
        Visitors {
            concern: ConcernedCookies::new(application, &plan.bypass_cookies),
            limits,
            table: OnceLock::new(),
        }
    }

    fn table(&self) -> &Arc<VisitorTable> {
        self.table.get_or_init(|| VisitorTable::new(self.limits))
    }

    /// Takes over the knowledge of the same site in an older configuration.
    pub fn go_on_with(&self, older: &Visitors) {
        if self.table.set(older.table().clone()).is_ok() {
            self.table().lock().set_limits(self.limits);
        }
    }

    /// Figures.
    pub fn usage(&self) -> VisitorUsage {
        self.table.get().map(|table| table.lock().usage()).unwrap_or_default()
    }

    /// Whether the value of a cookie with this name, as sent, must be proven.
    pub fn is_concerned(&self, name: &[u8]) -> bool {
        self.concern.is_concerned(name)
    }

    /// Whether the page cache may answer a request that has concerned cookies.
    pub fn permit(&self, context: &Context, request: &Request) -> CachePermit {
        let table = self.table();
        let cookies = self.concern.read(request.head.fields(), &table.key);
        if cookies.is_empty() || cookies.has_chosen() {
            return CachePermit::None;
        }
        let (mut known, now) = (table.lock(), now_of(table, context));
        match known.look(&cookies, now) {
            Standing::Anonymous => CachePermit::Anonymous,
            _ => match (known.cart(&cookies, now), known.member(&cookies, now)) {
                (Some(Ok(pass)), _) => CachePermit::Pass(VisitorPass::Cart(pass)),
                (Some(Err(why)), _) => CachePermit::Held(Bypass::Cart(why)),
                (None, Some(Ok(pass))) => CachePermit::Pass(VisitorPass::Member(pass)),
                (None, Some(Err(why))) => CachePermit::Held(Bypass::Member(why)),
                (None, None) => CachePermit::None,
            },
        }
    }

    /// What PHP has found about a request's visitor: a login, a cart or a session.
    pub fn proven(&self, context: &Context, request: &Request) -> Option<Proof> {
        let table = self.table();
        let cookies = self.concern.read(request.head.fields(), &table.key);
        if cookies.is_empty() {
            return None;
        }
        match table.lock().look(&cookies, now_of(table, context)) {
            Standing::Known(proof) => Some(proof),
            _ => None,
        }
    }

    /// What is known about each concerned cookie of a request, with its name; `None`: PHP has not seen it.
    pub fn states(&self, context: &Context, request: &Request) -> Vec<(Box<[u8]>, Option<CookieState>)> {
        let table = self.table();
        let cookies = self.concern.read(request.head.fields(), &table.key);
        let (mut known, now) = (table.lock(), now_of(table, context));
        cookies.iter().map(|cookie| (cookie.name.clone(), known.state_of(cookie, now))).collect()
    }

    /// Whether members may have the page with these tags.
    pub fn proof(&self, context: &Context, tags: &[Tag]) -> PageProof {
        self.with_proofs(context, |proofs, now| proofs.of(tags, PageView::default(), now))
    }

    /// What the comparisons of pages for visitors with a cart have shown, and the time for it.
    pub fn with_proofs<R>(&self, context: &Context, ask: impl FnOnce(&mut Proofs, Millis) -> R) -> R {
        let table = self.table();
        ask(&mut table.proofs(), now_of(table, context))
    }

    /// A visitor's browser has fetched the cart for the page whose URL has this hash.
    pub fn has_fetched_cart(&self, context: &Context, request: &Request, url: u64) {
        let cookies = self.concern.read(request.head.fields(), &self.table().key);
        let is_its = |print| cookies.iter().any(|cookie| cookie.print == print);
        self.with_proofs(context, |proofs, now| proofs.fetches.fetched(is_its, url, now));
    }

    /// Whether members may get pages from the cache.
    pub fn serves_members(&self) -> bool {
        self.limits.member > 0
    }

    /// Whether PHP has made this stored page for two members like this one; `key`: the hash of its key.
    pub fn is_confirmed(&self, key: u64, stored: Millis, member: &MemberPass) -> bool {
        self.table().made().is_confirmed(key, stored, member)
    }

    /// For whom a stored page was made first, and whether it is confirmed.
    pub fn maker(&self, key: u64, stored: Millis) -> Option<(Arc<MemberPass>, bool)> {
        self.table().made().maker(key, stored)
    }

    /// A page was stored that PHP has made for this member.
    pub fn has_made(&self, key: u64, stored: Millis, by: Arc<MemberPass>) {
        self.table().made().add(key, stored, by);
    }

    /// A stored page is what PHP has made for this member, too.
    pub fn confirm(&self, (key, stored): (u64, Millis), member: &MemberPass) {
        self.table().made().compare(key, stored, member, true);
    }

    /// PHP has made a page for a member that is stored already, with these tags: whether they are the same.
    pub fn compare_for_member(
        &self,
        context: &Context,
        (key, stored): (u64, Millis),
        (tags, kind): (&[Tag], Tag),
        member: &MemberPass,
        is_same: bool,
    ) -> Comparison {
        let table = self.table();
        let found = table.made().compare(key, stored, member, is_same);
        let (mut proofs, now) = (table.proofs(), now_of(table, context));
        match found {
            Comparison::Same => proofs.add_of_member(kind, member.user, true, now),
            Comparison::Differs if tags.contains(&kind) => {
                proofs.add_of_member(kind, member.user, false, now);
            }
            Comparison::Differs => proofs.add_other_kind(tags, PageView::default(), now),
            Comparison::Own | Comparison::Unknown => {}
        }
        found
    }

    /// Members with a pass: their numbers in the database, and the digests of their rows.
    pub fn members(&self, context: &Context) -> Vec<MemberRow> {
        if !self.serves_members() {
            return Vec::new();
        }
        let table = self.table();
        table.lock().members(MOST_MEMBERS, now_of(table, context))
    }

    /// The rows of a member have this digest now; `None`: there are none.
    pub fn check_member(&self, id: &[u8], rows: Option<&[u8]>) {
        let table = self.table();
        table.lock().check(table.key.tag(id), rows);
    }

    /// The part that must hear what PHP writes to the database; `None`: nothing depends on it.
    pub fn member_rows(&self) -> Option<MemberRows> {
        self.serves_members().then(|| MemberRows::of(self.table()))
    }

    /// The country that a request comes from, as WooCommerce sees it: by a field of a trusted proxy, otherwise by what PHP has found for
    /// the client's address. `None`: unknown; a crawler, to which WooCommerce shows the shop's own country; or a field of another client,
    /// which WooCommerce believes.
    pub fn country(&self, context: &Context, request: &Request) -> Option<Country> {
        if request.head.field("user-agent").is_some_and(places::is_crawler) {
            return None;
        }
        match places::named(request.head.fields()) {
            Named::Country(country) => Some(country).filter(|_| request.is_forwarded),
            Named::Unclear => None,
            Named::No => {
                let table = self.table();
                table.places().country(request.ends.client_ip()?, now_of(table, context))
            }
        }
    }

    /// A digest of the concerned cookies of a request.
    pub fn digest(&self, request: &Request) -> u64 {
        let table = self.table();
        let cookies = self.concern.read(request.head.fields(), &table.key);
        let mut digest = DefaultHasher::new();
        cookies.iter().for_each(|cookie| cookie.print.hash(&mut digest));
        digest.finish()
    }

    /// The request without its concerned cookies, for the page cache, and for PHP when it makes a shared page.
    pub fn without_cookies(&self, request: &Request) -> Request {
        let (mut more, mut withheld) = (Vec::new(), request.withheld.clone());
        for (_, value) in request.head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("cookie")) {
            let mut kept = Vec::new();
            self.concern.divide(value, &mut kept, &mut withheld);
            if !kept.is_empty() {
                more.push(("Cookie", kept));
            }
        }
        Request { withheld, ..request.without_cookies(&more) }
    }

    /// PHP is about to run for a request: stores in it what is known about its visitor, and from now on takes PHP's
    /// reports.
    pub fn begin(&self, context: &Context, request: &mut Request, rules: Option<&Rules>) {
        let table = self.table();
        let cookies = self.concern.read(request.head.fields(), &table.key);
        let is_write = !cookies.is_empty() && changes_something(request, rules);
        let (client, now) = (request.ends.client_ip(), context.clock.now());
        let (visit, standing) = Visit::begin(table, cookies, is_write, client, now);
        match standing {
            Standing::Known(_) => context.stats.add(Counter::VisitorsProven, 1),
            Standing::Unproven => context.stats.add(Counter::VisitorsUnproven, 1),
            _ => {}
        }
        request.found.standing = standing;
        request.found.visit = Some(Arc::new(visit));
    }
}

/// The time on a table's clock.
fn now_of(table: &VisitorTable, context: &Context) -> Millis {
    table.time(context.clock.now())
}

/// Members whose rows the site's PHP looks at: there are no more passes than that.
const MOST_MEMBERS: usize = 2000;

/// Whether a request's method changes nothing (RFC 9110 section 9.2.1).
fn is_safe(request: &Request) -> bool {
    matches!(request.head.method(), "GET" | "HEAD" | "OPTIONS")
}

/// Whether a request may change the meaning of its cookies: by its method, or by an argument like `add-to-cart`.
fn changes_something(request: &Request, rules: Option<&Rules>) -> bool {
    !is_safe(request) || rules.is_some_and(|rules| bypass_argument(rules, request.query()).is_some())
}
