//! Which visitors PHP has found to be logged in, to have a cart, or to be anonymous: a table of cookies, as a value. Event loops share
//! it ([`VisitorTable`]); a run of PHP reports to it ([`Visit`]).
//!
//! A cookie's name proves nothing: any client can send `wordpress_logged_in_x=1`. So each run of PHP reports what it
//! found, and the table stores that for each *concerned* cookie - one whose name matches a pattern that the site
//! knows - under a keyed hash of its name and value:
//!
//! ```text
//!            report: login, cart, session ----------> Proven      has priority, goes to PHP
//!   unknown  report: something else of the visitor -> Own         goes to PHP, without priority
//!            report: nothing ----------------------> Anonymous    is served as if the cookie was not there
//!            no report about this cookie ----------> Unjudged     goes to PHP, without priority
//! ```
//!
//! One proven cookie makes a request proven; it is anonymous only if all of its cookies are. Each cookie counts for
//! itself, because the others change: WooCommerce changes `woocommerce_cart_hash` with each step, `/wp-admin/` gets
//! an additional one.
//!
//! # What an attacker must not achieve
//!
//! - *Evicting proven visitors*: proven logins, proven carts and sessions, and all the rest have separate shelves,
//!   each bounded, each with CLOCK eviction.
//! - *Serving a cached page to a visitor who has just put something into the cart*: a run's `Anonymous` counts only
//!   if no run that changes something ([`Visitors::begin`]) had the same cookie at the same time, and no other run
//!   found something meanwhile; and it is suspended while a run that changes something is in progress.
//! - *Getting a page of other rights*: a member's pass holds for the one cookie that PHP has verified, and ends with the
//!   beginning of whatever may change the user ([`member`]).
//! - *Priority by an expired cookie*: [`ReportNote::Forget`] removes all that is proven for a user, including what
//!   runs that have already begun will still report. Other keys of the site (salts in wp-config.php) clear the table.
//! - *Learning something*: the table contains only keyed hashes; the key is random in each process.

mod cookies;
pub mod member;
pub mod pass;
mod report;
mod shelf;
mod table;
#[cfg(test)]
mod tests;
mod times;
mod visit;

use std::collections::HashMap;
use std::sync::Arc;

pub use cookies::{ConcernedCookies, Cookie, Cookies, Print, PrintKey};
pub use member::{MemberHold, MemberPage, MemberPass, MemberRow, MemberState, SharedPage};
pub use pass::{CartHold, CartPage, CartState, Pass, PassState};
pub use report::{Install, Report, ReportNote, Session, VisitorStatement};
use shelf::{CookieEntry, Shelf};
pub use table::{MemberRows, VisitorTable};
use times::UserTimes;
pub use visit::{Unserved, Visit, VisitorPage};

use crate::Millis;

/// Why a visitor has priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Logged in to the application.
    LoggedIn,
    /// Logged in, with the right to edit.
    Editor,
    /// There is something in the cart.
    Cart,
    /// A session of PHP with something in it.
    Session,
}

impl Proof {
    /// Whether the visitor is logged in.
    #[must_use]
    pub fn is_login(self) -> bool {
        matches!(self, Proof::LoggedIn | Proof::Editor)
    }

    /// The order in which proofs count, the strongest last.
    fn weight(self) -> u8 {
        match self {
            Proof::Cart | Proof::Session => 0,
            Proof::LoggedIn => 1,
            Proof::Editor => 2,
        }
    }
}

/// What is known of a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieState {
    /// PHP has found that it is genuine.
    Proven(Proof),
    /// The visitor sees personal pages without having priority: a commenter, a pending notice.
    Own,
    /// PHP has checked it, and it means nothing.
    Anonymous,
    /// PHP has run with it and said nothing about it.
    Unjudged,
}

/// What a request's cookies say about its visitor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Not determined: PHP runs elsewhere (php-fpm), or the request is the server's own.
    #[default]
    Unasked,
    /// An ordinary visitor: without concerned cookies, or only with ones that give no priority.
    Visitor,
    /// Proven.
    Known(Proof),
    /// Has concerned cookies, all without meaning.
    Anonymous,
    /// Has a concerned cookie that PHP has not seen yet.
    Unproven,
}

/// Time limits and size of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of cookies on each shelf.
    pub most: usize,
    /// How long a proof is valid.
    pub proven: Millis,
    /// How long the result that a cookie means nothing is valid.
    pub anonymous: Millis,
    /// How long a visitor with a cart gets public pages until PHP looks at the cart again; 0: never.
    pub cart: Millis,
    /// How long a member gets pages that were made for others until PHP looks at the user again; 0: never.
    pub member: Millis,
}

/// Figures of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VisitorUsage {
    /// Proven logins.
    pub logins: usize,
    /// Proven carts and sessions.
    pub carts: usize,
    /// Cookies of anonymous visitors, and cookies about which PHP said nothing.
    pub others: usize,
    /// Number of evicted cookies.
    pub evicted: u64,
}

/// A run of PHP for a request with concerned cookies.
#[derive(Debug)]
pub struct Run {
    /// When it began, in the order of all runs of the table.
    number: u64,
    /// The time at which its proofs count as found.
    sworn: u64,
    is_write: bool,
    begun: Millis,
}

/// Running requests with a cookie.
#[derive(Clone, Copy, Debug, Default)]
struct Running {
    runs: u32,
    writers: u32,
    /// When something was last changed or found: a run that began earlier and reports nothing is outdated.
    touched: u64,
    /// When a run that changes something last began or ended.
    written: u64,
    /// When a run last ended.
    reported: u64,
}

/// The table of a site.
#[derive(Debug)]
pub struct Visitors {
    limits: Limits,
    logins: Shelf,
    carts: Shelf,
    others: Shelf,
    running: HashMap<Print, Running>,
    /// Numbers runs and changes.
    sequence: u64,
    /// When the logins of users were forgotten: login proofs of runs that began before are ignored.
    forgotten: UserTimes,
    /// When the rows of users were written: runs that began before give no pass.
    voided: UserTimes,
    /// When products last changed: runs that began before give no pass.
    changed: u64,
    /// Installations of the application that have reported.
    installs: Vec<Install>,
    /// PHP's sessions are stored where a worker can't look them up: only a started one proves anything.
    elsewhere: bool,
}

/// Maximum number of installations of an application in a site.
const MOST_INSTALLS: usize = 16;

impl Visitors {
    /// An empty table.
    pub fn new(limits: Limits) -> Visitors {
        let shelf = || Shelf::new(limits.most);
        Visitors {
            limits,
            logins: shelf(),
            carts: shelf(),
            others: shelf(),
            running: HashMap::new(),
            sequence: 0,
            forgotten: UserTimes::default(),
            voided: UserTimes::default(),
            changed: 0,
            installs: Vec::new(),
            elsewhere: false,
        }
    }

    /// Sets the limits; a table of another size starts empty.
    pub fn set_limits(&mut self, limits: Limits) {
        if limits.most != self.limits.most {
            self.clear();
            self.shelves().into_iter().for_each(|shelf| *shelf = Shelf::new(limits.most));
        }
        if limits.member == 0 || self.limits.member == 0 {
            // While there are no passes, nothing is heard of what would end them.
            self.void(0);
        }
        self.limits = limits;
    }

    /// What cookies say about their visitor.
    pub fn look(&mut self, cookies: &Cookies, now: Millis) -> Standing {
        let (mut proof, mut unknown, mut all_anonymous) = (None, !cookies.is_whole(), cookies.is_whole());
        for cookie in cookies.iter() {
            match self.state(cookie.print, now) {
                Some(CookieState::Proven(found)) => {
                    let is_weaker = |known: Proof| known.weight() > found.weight();
                    proof = proof.filter(|known| is_weaker(*known)).or(Some(found));
                }
                Some(CookieState::Anonymous) if !self.is_being_changed(cookie.print) => {}
                Some(_) => all_anonymous = false,
                None => unknown = true,
            }
        }
        match proof {
            _ if cookies.is_empty() => Standing::Visitor,
            // Of cookies with the same name PHP sees the first: a genuine one behind it proves nothing.
            Some(proof) if cookies.is_whole() => Standing::Known(proof),
            _ if unknown => Standing::Unproven,
            _ if all_anonymous => Standing::Anonymous,
            _ => Standing::Visitor,
        }
    }

    /// The pass of the visitor who sent these cookies, or the reason why the visitor has none. `None`: the cookies
    /// prove no cart.
    pub fn cart(&mut self, cookies: &Cookies, now: Millis) -> Option<Result<Arc<Pass>, CartHold>> {
        if !cookies.is_whole() || cookies.has_chosen() || self.limits.cart == 0 {
            return None;
        }
        let mut proven = cookies.iter().filter_map(|cookie| {
            let entry = self.shelves().into_iter().find_map(|shelf| shelf.get(cookie.print))?;
            matches!(entry.state, CookieState::Proven(_)).then_some((cookie.print, entry))
        });
        let (print, entry) = proven.next()?;
        if entry.state != CookieState::Proven(Proof::Cart) || proven.next().is_some() {
            return None;
        }
        drop(proven);
        if self.is_being_changed(print) {
            return Some(Err(CartHold::Changing));
        }
        let pass = match entry.cart {
            _ if now >= entry.until => return Some(Err(CartHold::Unknown)),
            CartState::Held(why) => return Some(Err(why)),
            CartState::Passes(pass) if now >= pass.until => return Some(Err(CartHold::Expired)),
            CartState::Passes(pass) => pass,
        };
        if !pass.companions.iter().all(|print| cookies.iter().any(|cookie| cookie.print == *print)) {
            return Some(Err(CartHold::Changed));
        }
        let others = cookies.iter().map(|cookie| cookie.print);
        let mut others = others.filter(|other| *other != print && !pass.companions.contains(other));
        let is_alone = others.all(|other| {
            self.state(other, now) == Some(CookieState::Anonymous) && !self.is_being_changed(other)
        });
        Some(if is_alone { Ok(pass) } else { Err(CartHold::Cookie) })
    }

    fn is_being_changed(&self, print: Print) -> bool {
        self.running.get(&print).is_some_and(|running| running.writers > 0)
    }

    /// What is known about a cookie; `None`: PHP has not seen it.
    pub fn state_of(&mut self, cookie: &Cookie, now: Millis) -> Option<CookieState> {
        self.state(cookie.print, now)
    }

    /// What is known about a cookie. A result that has expired does not make it a forgery.
    fn state(&mut self, print: Print, now: Millis) -> Option<CookieState> {
        let entry = self.shelves().into_iter().find_map(|shelf| shelf.get(print))?;
        Some(if now < entry.until { entry.state } else { CookieState::Unjudged })
    }

    fn shelves(&mut self) -> [&mut Shelf; 3] {
        [&mut self.logins, &mut self.carts, &mut self.others]
    }

    fn remove(&mut self, print: Print) {
        self.shelves().into_iter().for_each(|shelf| shelf.remove(print));
    }

    /// PHP is about to run with these cookies; `is_write`: it may change their meaning.
    pub fn begin(&mut self, cookies: &Cookies, is_write: bool, now: Millis) -> Run {
        self.sequence += 1;
        let number = self.sequence;
        for cookie in cookies.iter() {
            let running = self.running.entry(cookie.print).or_default();
            running.runs += 1;
            if is_write {
                running.writers += 1;
                running.touched = number;
                running.written = number;
                self.carts.set_cart(cookie.print, CartState::Held(CartHold::Changing));
                self.logins.set_member(cookie.print, MemberState::Held(MemberHold::Changing));
            }
        }
        Run { number, sworn: number, is_write, begun: now }
    }

    /// Forgets what was proven for this user, or for all (0): after a login, a logout, a new password. What the
    /// reporting `run` itself finds still counts.
    pub fn forget(&mut self, user: u64, run: &mut Run) {
        self.sequence += 1;
        run.sworn = self.sequence;
        self.forgotten.set(user, self.sequence);
        match user {
            0 => self.logins.clear(),
            _ => self.logins.remove_tagged(user),
        }
    }

    /// These products have changed, or all (`*`): visitors with one of them in the cart have no pass until PHP has
    /// looked at the cart again.
    pub fn changed(&mut self, items: &[u8]) {
        self.sequence += 1;
        self.changed = self.sequence;
        let is_meant =
            |item: &[u8]| items == b"*" || items.split(|byte| *byte == b',').any(|other| other == item);
        self.carts.set_carts(&CartState::Held(CartHold::Changed), |cart| match cart {
            CartState::Passes(pass) => pass.items.iter().any(|item| is_meant(item)),
            CartState::Held(_) => false,
        });
    }

    /// A run is over, and has reported this; `None` if it died. Returns what it has reported about a member.
    pub fn end(
        &mut self,
        cookies: &Cookies,
        run: &Run,
        report: Option<&Report>,
        key: &PrintKey,
    ) -> Option<MemberState> {
        if let Some(report) = report {
            self.learn(report);
        }
        let cart = report.map_or(CartState::Held(CartHold::Unknown), |report| {
            report.cart(key, run.begun, self.limits.cart)
        });
        let member = report.and_then(|report| report.member(key, run.begun, self.limits.member));
        let user = report.map_or(0, |report| report.user(key));
        let mut granted = None;
        for cookie in cookies.iter() {
            let found = match report {
                // If there are several cookies with one name, PHP has seen only one of them.
                Some(report) if cookies.is_whole() => report.of(cookie, &self.installs, self.elsewhere),
                _ => Some(CookieState::Unjudged),
            };
            let confirmed = cookies.is_whole() && report.is_some_and(|report| report.is_about(cookie));
            let is_cart = found == Some(CookieState::Proven(Proof::Cart));
            let cart = if is_cart {
                self.granted(cookie.print, run, &cart)
            } else {
                CartState::Held(CartHold::Unknown)
            };
            self.settle(cookie.print, run, found, confirmed, user);
            self.carts.set_cart(cookie.print, cart);
            let is_login = matches!(found, Some(CookieState::Proven(proof)) if proof.is_login());
            if let Some(member) = member.as_ref().filter(|_| is_login) {
                let member = self.granted_member(cookie.print, run, member, user);
                self.logins.set_member(cookie.print, member.clone());
                granted = Some(member);
            }
            self.leave(cookie.print, run);
        }
        if let Some((report, (print, proof))) = report.and_then(|report| Some((report, report.issued(key)?)))
        {
            self.put(print, run, CookieState::Proven(proof), report.user(key));
            // With a renewed cookie, other requests may be changing the same session under the old one.
            if !report.replaces(cookies.iter()) && run.number >= self.changed {
                self.carts.set_cart(print, cart);
            }
        }
        granted
    }

    /// What a run that is over may say about its visitor's cart: only if it is certain that it has seen the latest.
    fn granted(&self, print: Print, run: &Run, cart: &CartState) -> CartState {
        let own = u32::from(run.is_write);
        let is_newest = self.running.get(&print).is_some_and(|now| {
            let known = || self.carts.peek(print).is_some_and(|entry| entry.cart.agrees(cart));
            now.written <= run.number
                && now.writers <= own
                && (now.reported <= run.number || known())
                && self.changed <= run.number
        });
        if is_newest { cart.clone() } else { CartState::Held(CartHold::Changing) }
    }

    /// Learns other keys, or an installation that reports for the first time.
    fn learn(&mut self, report: &Report) {
        if let Some(install) = report.install().filter(|install| !self.installs.contains(install)) {
            if self.installs.iter().any(|known| known.end == install.end) {
                self.clear();
            } else {
                // Its cookies meant nothing to the others.
                self.others.clear();
            }
            if self.installs.len() == MOST_INSTALLS {
                self.installs.clear();
            }
            self.installs.push(install.clone());
        }
        if report.elsewhere && !self.elsewhere {
            self.elsewhere = true;
            self.others.clear();
        }
    }

    /// Stores a result about a cookie; `None` removes it. `confirmed`: the report is about this cookie.
    fn settle(&mut self, print: Print, run: &Run, found: Option<CookieState>, confirmed: bool, user: u64) {
        let Some(state) = found else {
            self.remove(print);
            return self.touch(print);
        };
        match state {
            CookieState::Proven(_) => {
                self.put(print, run, state, user);
                self.touch(print);
            }
            CookieState::Anonymous => {
                if self.is_untouched(print, run) {
                    self.logins.remove(print);
                    self.carts.remove(print);
                    self.put(print, run, state, 0);
                } else if self.recorded(print).is_none() {
                    self.put(print, run, CookieState::Unjudged, 0);
                }
            }
            CookieState::Own | CookieState::Unjudged => {
                if confirmed {
                    self.logins.remove(print);
                    self.carts.remove(print);
                }
                let known = self.recorded(print);
                let holds = match known {
                    None => false,
                    Some(CookieState::Proven(_)) => true,
                    // A script that knows nothing about cookies reports nothing about them.
                    Some(_) => state == CookieState::Unjudged && !run.is_write && !confirmed,
                };
                if !holds {
                    self.put(print, run, state, 0);
                    self.touch(print);
                }
            }
        }
    }

    /// The stored result, even if it has expired.
    fn recorded(&mut self, print: Print) -> Option<CookieState> {
        self.shelves().into_iter().find_map(|shelf| shelf.get(print)).map(|entry| entry.state)
    }

    /// Whether nothing but `run` itself has changed or found anything since it began, and no change is in progress.
    fn is_untouched(&self, print: Print, run: &Run) -> bool {
        let own = u32::from(run.is_write);
        self.running.get(&print).is_some_and(|now| now.touched <= run.number && now.writers <= own)
    }

    fn touch(&mut self, print: Print) {
        self.sequence += 1;
        if let Some(running) = self.running.get_mut(&print) {
            running.touched = self.sequence;
        }
    }

    /// The run is over for this cookie.
    fn leave(&mut self, print: Print, run: &Run) {
        self.sequence += 1;
        let Some(running) = self.running.get_mut(&print) else { return };
        running.runs -= 1;
        running.reported = self.sequence;
        if run.is_write {
            running.writers -= 1;
            running.touched = self.sequence;
            running.written = self.sequence;
        }
        if running.runs == 0 {
            self.running.remove(&print);
        }
    }

    fn put(&mut self, print: Print, run: &Run, state: CookieState, user: u64) {
        let is_login = matches!(state, CookieState::Proven(proof) if proof.is_login());
        if is_login && run.sworn < self.forgotten.of(user) {
            return;
        }
        let time =
            if matches!(state, CookieState::Proven(_)) { self.limits.proven } else { self.limits.anonymous };
        // A run that says nothing about the member changes nothing of what is known.
        let known = self.logins.peek(print).filter(|known| is_login && known.tag == user);
        let entry = CookieEntry {
            state,
            until: run.begun.saturating_add(time),
            tag: if is_login { user } else { 0 },
            cart: CartState::Held(CartHold::Unknown),
            member: known.map_or(MemberState::Held(MemberHold::Unknown), |known| known.member.clone()),
        };
        self.remove(print);
        match state {
            CookieState::Proven(_) if is_login => self.logins.put(print, entry),
            CookieState::Proven(_) => self.carts.put(print, entry),
            _ => self.others.put(print, entry),
        }
    }

    /// Forgets all results, including those of current runs.
    fn clear(&mut self) {
        self.sequence += 1;
        self.forgotten.set(0, self.sequence);
        self.shelves().into_iter().for_each(Shelf::clear);
        self.installs.clear();
        self.running.values_mut().for_each(|running| running.touched = self.sequence);
    }

    /// Figures.
    pub fn usage(&self) -> VisitorUsage {
        VisitorUsage {
            logins: self.logins.len(),
            carts: self.carts.len(),
            others: self.others.len(),
            evicted: self.logins.evicted() + self.carts.evicted() + self.others.evicted(),
        }
    }
}
