//! Which visitors PHP has found to be logged in, to have a cart, or to be anonymous: a table of cookies, as a value.
//!
//! A cookie's name proves nothing: `wordpress_logged_in_x=1` is sent by whoever likes to. So each run of PHP reports what
//! it found, and the table holds that for each *concerned* cookie - one whose name matches a pattern that the site knows -
//! under a keyed hash of its name and value:
//!
//! ```text
//!            report: login, cart, session ----------> Proven      has priority, goes to PHP
//!   unknown  report: something else of the visitor -> Own         goes to PHP, without priority
//!            report: nothing ----------------------> Anonymous    is served as if the cookie was not there
//!            no report about this cookie ----------> Unjudged     goes to PHP, without priority
//! ```
//!
//! A request is proven by any one of its cookies, and anonymous only if all of them are. Each cookie counts for itself,
//! because the others change: WooCommerce changes `woocommerce_cart_hash` with each step, `/wp-admin/` is sent one more.
//!
//! # What an attacker must not achieve
//!
//! - *Pushing proven visitors out*: proven logins, proven carts and sessions, and all the rest have shelves of their own,
//!   each bounded, each a clock.
//! - *A page of the cache for a visitor who has just put something into the cart*: `Anonymous` is taken from a run only if no
//!   run that changes something ([`Visitors::begin`]) had the same cookie at the same time, nor did another run find
//!   something meanwhile; and while one that changes something runs, it does not hold.
//! - *Priority by a cookie that is valid no more*: [`ReportNote::Forget`] removes all that is proven for a user, also what runs
//!   that have begun before are yet to report. Other keys of the site (salts in wp-config.php) empty the table.
//! - *Learning something*: only keyed hashes are held; the key is random in each process.

mod cookies;
mod report;
mod shelf;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub use cookies::{ConcernedCookies, Cookies, Print, PrintKey};
pub use report::{Install, Report, ReportNote, Session, VisitorStatement};
use shelf::{CookieEntry, Shelf};

use crate::Millis;

/// Why a visitor goes before others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Logged in to the application.
    LoggedIn,
    /// There is something in the cart.
    Cart,
    /// A session of PHP with something in it.
    Session,
}

/// What is known of a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieState {
    /// PHP has found that it is genuine.
    Proven(Proof),
    /// The visitor sees pages of his own, which is no merit: a commenter, a notice that waits.
    Own,
    /// PHP has looked at it, and it means nothing.
    Anonymous,
    /// PHP has run with it and said nothing of it.
    Unjudged,
}

/// What a request's cookies say of its visitor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nobody has asked: PHP runs elsewhere (php-fpm), or the request is the server's own.
    #[default]
    Unasked,
    /// A visitor like any: without concerned cookies, or with such as give no priority.
    Visitor,
    /// Proven.
    Known(Proof),
    /// Has concerned cookies, all of which mean nothing.
    Anonymous,
    /// Has a concerned cookie that PHP has not seen yet.
    Unproven,
}

/// How long and how much is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Cookies on each shelf.
    pub most: usize,
    /// How long a proof holds.
    pub proven: Millis,
    /// How long it holds that a cookie means nothing.
    pub anonymous: Millis,
}

/// Figures of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VisitorUsage {
    /// Proven logins.
    pub logins: usize,
    /// Proven carts and sessions.
    pub carts: usize,
    /// Cookies of anonymous visitors, and such that PHP said nothing of.
    pub others: usize,
    /// How many were pushed out by others.
    pub evicted: u64,
}

/// A run of PHP for a request with concerned cookies.
#[derive(Debug)]
pub struct Run {
    /// When it began, in the order of all runs of the table.
    number: u64,
    /// What it proves counts as found at this time.
    sworn: u64,
    is_write: bool,
    begun: Millis,
}

/// Runs with a cookie that are not over.
#[derive(Clone, Copy, Debug, Default)]
struct Running {
    runs: u32,
    writers: u32,
    /// When something was last changed or found: what a run that began before that says of nothing is too old.
    touched: u64,
}

/// The table of a site.
#[derive(Debug)]
pub struct Visitors {
    limits: Limits,
    logins: Shelf,
    carts: Shelf,
    others: Shelf,
    running: HashMap<Print, Running>,
    /// What runs and changes are numbered by.
    sequence: u64,
    /// Users whose log-ins were lately forgotten, and when.
    forgotten: Vec<(u64, u64)>,
    /// Log-ins that runs prove which began before that are not believed, whoever it is.
    floor: u64,
    /// Installations of the application that have reported.
    installs: Vec<Install>,
    /// Sessions of PHP are kept where a worker can't look them up: only a started one proves anything.
    elsewhere: bool,
}

/// A site has fewer installations of an application.
const MOST_INSTALLS: usize = 16;

/// Users of whom it is remembered that their log-ins were forgotten. So many others have to log in or out while a run lasts for
/// what it proves to be lost.
const MOST_FORGOTTEN: usize = 256;

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
            forgotten: Vec::new(),
            floor: 0,
            installs: Vec::new(),
            elsewhere: false,
        }
    }

    /// Takes over other limits; a table of another size begins empty.
    pub fn set_limits(&mut self, limits: Limits) {
        if limits.most != self.limits.most {
            self.clear();
            self.shelves().into_iter().for_each(|shelf| *shelf = Shelf::new(limits.most));
        }
        self.limits = limits;
    }

    /// What cookies say of their visitor.
    pub fn look(&mut self, cookies: &Cookies, now: Millis) -> Standing {
        let (mut proof, mut unknown, mut all_anonymous) = (None, !cookies.is_whole(), cookies.is_whole());
        for cookie in cookies.iter() {
            match self.state(cookie.print, now) {
                Some(CookieState::Proven(found)) if proof != Some(Proof::LoggedIn) => proof = Some(found),
                Some(CookieState::Proven(_)) => {}
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

    fn is_being_changed(&self, print: Print) -> bool {
        self.running.get(&print).is_some_and(|running| running.writers > 0)
    }

    /// What is known of a cookie. What was known too long ago is no forgery, either.
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

    /// PHP is about to run with these cookies; `is_write`: it may change what they mean.
    pub fn begin(&mut self, cookies: &Cookies, is_write: bool, now: Millis) -> Run {
        self.sequence += 1;
        let number = self.sequence;
        for cookie in cookies.iter() {
            let running = self.running.entry(cookie.print).or_default();
            running.runs += 1;
            if is_write {
                running.writers += 1;
                running.touched = number;
            }
        }
        Run { number, sworn: number, is_write, begun: now }
    }

    /// What was proven for this user, or for all (0), is forgotten: a log-in, a log-out, another password. Of the `run` that
    /// says so what it finds itself counts.
    pub fn forget(&mut self, user: u64, run: &mut Run) {
        self.sequence += 1;
        run.sworn = self.sequence;
        if user == 0 {
            self.floor = self.sequence;
            return self.logins.clear();
        }
        self.logins.remove_tagged(user);
        self.forgotten.retain(|(known, _)| *known != user);
        if self.forgotten.len() == MOST_FORGOTTEN {
            self.floor = self.forgotten.remove(0).1;
        }
        self.forgotten.push((user, self.sequence));
    }

    /// A run is over, and has reported this; nothing if it died.
    pub fn end(&mut self, cookies: &Cookies, run: &Run, report: Option<&Report>, key: &PrintKey) {
        if let Some(report) = report {
            self.learn(report);
        }
        for cookie in cookies.iter() {
            let found = match report {
                // Who has several cookies of a name: PHP has seen one of them.
                Some(report) if cookies.is_whole() => report.of(cookie, &self.installs, self.elsewhere),
                _ => Some(CookieState::Unjudged),
            };
            let confirmed = cookies.is_whole() && report.is_some_and(|report| report.is_about(cookie));
            self.settle(cookie.print, run, found, confirmed, report.map_or(0, |report| report.user(key)));
            self.leave(cookie.print, run);
        }
        if let Some((print, proof)) = report.and_then(|report| report.issued(key)) {
            self.put(print, run, CookieState::Proven(proof), report.map_or(0, |report| report.user(key)));
        }
    }

    /// Other keys, or the first word of another installation.
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

    /// Takes in what was found out about a cookie; nothing: it is to be forgotten. `confirmed`: the report is about it.
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
                    // A script that knows nothing of cookies says nothing of them.
                    Some(_) => state == CookieState::Unjudged && !run.is_write && !confirmed,
                };
                if !holds {
                    self.put(print, run, state, 0);
                    self.touch(print);
                }
            }
        }
    }

    /// What is recorded, also if it is out of date.
    fn recorded(&mut self, print: Print) -> Option<CookieState> {
        self.shelves().into_iter().find_map(|shelf| shelf.get(print)).map(|entry| entry.state)
    }

    /// Whether nothing was changed or found since `run` began but by itself, and nothing is being changed.
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
        if run.is_write {
            running.writers -= 1;
            running.touched = self.sequence;
        }
        if running.runs == 0 {
            self.running.remove(&print);
        }
    }

    fn put(&mut self, print: Print, run: &Run, state: CookieState, user: u64) {
        let is_login = state == CookieState::Proven(Proof::LoggedIn);
        if is_login && run.sworn < self.forgotten_at(user) {
            return;
        }
        let time =
            if matches!(state, CookieState::Proven(_)) { self.limits.proven } else { self.limits.anonymous };
        let entry = CookieEntry {
            state,
            until: run.begun.saturating_add(time),
            tag: if is_login { user } else { 0 },
        };
        self.remove(print);
        match state {
            CookieState::Proven(Proof::LoggedIn) => self.logins.put(print, entry),
            CookieState::Proven(_) => self.carts.put(print, entry),
            _ => self.others.put(print, entry),
        }
    }

    /// When the log-ins of a user were last forgotten.
    fn forgotten_at(&self, user: u64) -> u64 {
        let own = self.forgotten.iter().find(|(known, _)| *known == user).map_or(0, |(_, when)| *when);
        own.max(self.floor)
    }

    /// Forgets everything that was found, also what runs are yet to find.
    fn clear(&mut self) {
        self.sequence += 1;
        self.floor = self.sequence;
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
