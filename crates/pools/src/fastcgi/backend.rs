//! One php-fpm address: whether it is up, and how busy it is. This module uses no clock and no sockets: times are
//! milliseconds since the pool was created.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use millrace_settings::plan;

use super::connection::FastcgiStream;
use crate::pool::back_off;

/// Failures in a row, on established connections, after which a backend is down.
const STRIKES: u32 = 3;
/// If each of the other connections completes this many requests while no new connection gets a single response, the
/// new ones are not being accepted.
const ROUNDS: u64 = 8;
/// And this must have lasted for this long, milliseconds.
const ROUNDS_MS: u64 = 50;
/// How long an observed limit of connections is trusted, milliseconds.
const BELIEVED_MS: u64 = 300_000;
/// While one request tests whether the backend is up again, no other request does for this long, milliseconds.
const TRIAL_MS: u64 = 1_000;

/// A backend as all event loops see it.
#[derive(Debug)]
pub struct Backend {
    /// Where it is.
    pub address: plan::Backend,
    /// Connections to it that are open or being opened.
    open: AtomicUsize,
    /// Maximum number of connections, as the backend says or as was observed; otherwise unlimited.
    most: AtomicUsize,
    /// The maximum that the backend itself states.
    told: AtomicUsize,
    /// When `most` was observed; 0: it was not.
    seen_at: AtomicU64,
    /// Connections that are being opened.
    making: AtomicUsize,
    /// Connections with a request.
    pub busy: AtomicUsize,
    /// Requests that were sent to it.
    pub requests: AtomicU64,
    /// Connections that failed or could not be made.
    pub failures: AtomicU64,
    /// New connections that were sent a request and have returned nothing, and since when there are any.
    unanswered: AtomicUsize,
    unanswered_since: AtomicU64,
    /// Completed requests, and their number at the time of `unanswered_since`.
    answered: AtomicU64,
    answered_before: AtomicU64,
    /// Attempts to connect that failed.
    refusals: AtomicU64,
    /// Failures in a row.
    strikes: AtomicU32,
    /// Outages in a row.
    outages: AtomicU32,
    /// Time before which it gets no request; 0: it is up.
    down_until: AtomicU64,
    /// When it went down.
    down_since: AtomicU64,
    /// The process that listens there, if it is on this machine; 0: unknown.
    process: AtomicU32,
    trouble: Mutex<Option<String>>,
}

struct Making<'a>(&'a Backend);

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.0.making.fetch_sub(1, Relaxed);
    }
}

/// A change by a success or a failure, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It went down.
    Down,
    /// It is up again.
    Up,
}

impl Backend {
    /// A backend about which nothing is known yet.
    pub fn new(address: plan::Backend) -> Backend {
        Backend {
            address,
            open: AtomicUsize::new(0),
            most: AtomicUsize::new(usize::MAX),
            told: AtomicUsize::new(usize::MAX),
            seen_at: AtomicU64::new(0),
            making: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            unanswered: AtomicUsize::new(0),
            unanswered_since: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            answered_before: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            strikes: AtomicU32::new(0),
            outages: AtomicU32::new(0),
            down_until: AtomicU64::new(0),
            down_since: AtomicU64::new(0),
            process: AtomicU32::new(0),
            trouble: Mutex::new(None),
        }
    }

    /// Whether connections are used for several requests. Only of a Unix socket is it known whether the process at the
    /// other end waits for the next one: its script may go on behind the response (`fastcgi_finish_request`).
    pub fn keeps(&self) -> bool {
        matches!(self.address, plan::Backend::Unix(_))
    }

    /// Reserves one more connection, if the backend takes one.
    pub fn open_one(&self) -> bool {
        let most = self.most();
        self.open.fetch_update(Relaxed, Relaxed, |open| (open < most).then_some(open + 1)).is_ok()
    }

    /// A connection has been closed, or could not be opened.
    pub fn close_one(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    /// Connections that are open or being opened.
    pub fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Maximum number of connections.
    pub fn most(&self) -> usize {
        self.most.load(Relaxed)
    }

    /// The backend has said how many connections it takes at once.
    pub fn set_most(&self, most: usize) {
        self.told.store(most.max(1), Relaxed);
        self.forget_seen();
    }

    /// Checks whether the backend takes fewer connections than are open; returns how many, if that has just been
    /// found out. php-fpm does not say how many processes it has: a connection beyond that number is established, but
    /// not accepted before another one is closed.
    pub fn see_most(&self, now: u64) -> Option<usize> {
        let unanswered = self.unanswered.load(Relaxed);
        if unanswered == 0 || !self.keeps() || self.unanswered_since.load(Relaxed) + ROUNDS_MS > now {
            return None;
        }
        let accepted = self.open().saturating_sub(unanswered + self.making.load(Relaxed));
        let rounds = self.answered.load(Relaxed).saturating_sub(self.answered_before.load(Relaxed));
        if accepted == 0 || rounds < ROUNDS * accepted as u64 || accepted >= self.most() {
            return None;
        }
        self.seen_at.store(now, Relaxed);
        self.most.store(accepted, Relaxed);
        // The caller now closes some of the accepted connections, so that new ones are accepted.
        self.count_from(now);
        Some(accepted)
    }

    /// Forgets the observed limit; it is observed again.
    pub fn forget_seen(&self) {
        self.seen_at.store(0, Relaxed);
        self.most.store(self.told.load(Relaxed), Relaxed);
    }

    /// Forgets an old observed limit: php-fpm may have been given more processes.
    pub fn forget_old(&self, now: u64) {
        let seen = self.seen_at.load(Relaxed);
        if seen != 0 && seen + BELIEVED_MS <= now {
            self.forget_seen();
        }
    }

    /// Notes which process listens at the other end of a new connection, if that is unknown.
    pub fn note_process(&self, stream: &FastcgiStream) {
        if self.process.load(Relaxed) == 0
            && let Some(process) = stream.process()
        {
            self.process.store(process, Relaxed);
        }
    }

    /// The process that listens there.
    pub fn process(&self) -> Option<u32> {
        Some(self.process.load(Relaxed)).filter(|process| *process != 0)
    }

    /// That process has ended.
    pub fn forget_process(&self) {
        self.process.store(0, Relaxed);
    }

    /// Its load, for comparisons.
    pub fn load(&self) -> (usize, u64) {
        (self.busy.load(Relaxed) + self.making.load(Relaxed), self.requests.load(Relaxed))
    }

    /// Counts a connection that is being opened, until the returned value is dropped.
    pub fn make_one(&self) -> impl Drop {
        self.making.fetch_add(1, Relaxed);
        Making(self)
    }

    /// Whether more connections are open than it takes.
    pub fn is_crowded(&self) -> bool {
        self.open() > self.most()
    }

    /// Whether it gets requests. A backend whose pause is over is not up before a request has tested it.
    pub fn is_up(&self) -> bool {
        self.down_until.load(Relaxed) == 0
    }

    /// When it may be tried again; 0: it is up.
    pub fn down_until(&self) -> u64 {
        self.down_until.load(Relaxed)
    }

    /// When it went down, if it is down.
    pub fn down_since(&self) -> Option<u64> {
        (!self.is_up()).then(|| self.down_since.load(Relaxed))
    }

    /// Why it is down.
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.clone().filter(|_| !self.is_up())
    }

    /// Whether the caller is to test if it is up again.
    pub fn try_again(&self, now: u64) -> bool {
        let until = self.down_until();
        until != 0
            && until <= now
            && self.down_until.compare_exchange(until, now + TRIAL_MS, Relaxed, Relaxed).is_ok()
    }

    /// An attempt to connect, which began at `began`, has failed: the backend is down, for longer each time.
    pub fn refuses(&self, began: u64, now: u64, why: &str) -> Option<Change> {
        self.failures.fetch_add(1, Relaxed);
        self.refusals.fetch_add(1, Relaxed);
        if self.down_since.load(Relaxed) > began {
            // One of several attempts that began before the failure was known.
            return None;
        }
        self.goes_out(now, why)
    }

    /// Attempts to connect that failed.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Relaxed)
    }

    /// A connection failed in the middle of a request: after several in a row the backend is down.
    pub fn fails(&self, now: u64, why: &str) -> Option<Change> {
        self.failures.fetch_add(1, Relaxed);
        if self.strikes.fetch_add(1, Relaxed) + 1 < STRIKES {
            return None;
        }
        self.goes_out(now, why)
    }

    /// Connections in a row that failed in the middle of a request.
    pub fn strikes(&self) -> u32 {
        self.strikes.load(Relaxed)
    }

    fn goes_out(&self, now: u64, why: &str) -> Option<Change> {
        self.strikes.store(0, Relaxed);
        let outages = self.outages.fetch_add(1, Relaxed) + 1;
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
        let was_up = self.down_until.swap((now + back_off(outages + 1)).max(1), Relaxed) == 0;
        if was_up {
            self.down_since.store(now.max(1), Relaxed);
        }
        was_up.then_some(Change::Down)
    }

    /// It accepts connections.
    pub fn accepts(&self) -> Option<Change> {
        if self.is_up() {
            return None;
        }
        self.forget_seen();
        (self.down_until.swap(0, Relaxed) != 0).then_some(Change::Up)
    }

    /// It has completed a request.
    pub fn answers(&self) {
        self.answered.fetch_add(1, Relaxed);
        if self.strikes.load(Relaxed) != 0 {
            self.strikes.store(0, Relaxed);
        }
        if self.outages.load(Relaxed) != 0 {
            self.outages.store(0, Relaxed);
        }
    }

    /// The first request was sent over a new connection.
    pub fn ask_first(&self, now: u64) {
        if self.unanswered.fetch_add(1, Relaxed) == 0 {
            self.count_from(now);
        }
    }

    fn count_from(&self, now: u64) {
        self.unanswered_since.store(now, Relaxed);
        self.answered_before.store(self.answered.load(Relaxed), Relaxed);
    }

    /// A response has arrived over a new connection, or the connection is closed.
    pub fn first_is_over(&self, now: u64) {
        self.count_from(now);
        self.unanswered.fetch_sub(1, Relaxed);
    }

    /// Whether there are new connections, and none has had a response for `patience`.
    pub fn is_starved(&self, now: u64, patience: u64) -> bool {
        self.unanswered.load(Relaxed) > 0 && self.unanswered_since.load(Relaxed) + patience <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend() -> Backend {
        Backend::new(plan::Backend::Unix("/run/php-fpm.sock".into()))
    }

    #[test]
    fn out_at_once_if_it_refuses_and_tried_by_one() {
        let backend = backend();
        assert!(backend.is_up() && !backend.try_again(99));
        assert_eq!(backend.refuses(100, 101, "refused"), Some(Change::Down));
        assert_eq!(backend.refuses(100, 102, "refused"), None, "it began before that was known");
        assert_eq!((backend.trouble().as_deref(), backend.down_since()), (Some("refused"), Some(101)));
        let until = backend.down_until();
        assert!(until > 101 && !backend.try_again(until - 1));
        assert!(backend.try_again(until) && !backend.try_again(until), "by one");
        assert_eq!(backend.refuses(until, until, "refused"), None, "it was out");
        assert!(backend.down_until() - until > until - 101, "for longer");
        assert_eq!(backend.down_since(), Some(101));
        assert_eq!((backend.accepts(), backend.accepts()), (Some(Change::Up), None));
        assert_eq!((backend.is_up(), backend.trouble()), (true, None));
        assert_eq!(backend.failures.load(Relaxed), 3);
    }

    #[test]
    fn out_if_it_fails_several_times_in_a_row() {
        let backend = backend();
        assert_eq!((backend.fails(1, "x"), backend.fails(2, "x")), (None, None));
        backend.answers();
        assert_eq!((backend.fails(3, "x"), backend.fails(4, "x")), (None, None));
        assert_eq!(backend.fails(5, "x"), Some(Change::Down));
        let first = backend.down_until() - 5;
        backend.accepts();
        (0..3).for_each(|_| assert!(backend.fails(1_000, "x").is_none_or(|change| change == Change::Down)));
        assert!(backend.down_until() - 1_000 > first, "accepting alone is no answer");
    }

    #[test]
    fn no_more_connections_than_it_takes() {
        let backend = backend();
        assert!((0..100).all(|_| backend.open_one()) && !backend.is_crowded());
        backend.set_most(99);
        assert!(!backend.open_one() && backend.is_crowded());
        (0..2).for_each(|_| backend.close_one());
        assert!(!backend.is_crowded() && backend.open_one() && !backend.open_one());
        backend.set_most(0);
        assert_eq!(backend.most(), 1);
    }

    #[test]
    fn as_many_as_it_accepts() {
        let backend = backend();
        (0..5).for_each(|_| assert!(backend.open_one()));
        (0..2).for_each(|_| backend.ask_first(100));
        (0..3 * ROUNDS - 1).for_each(|_| backend.answers());
        assert_eq!(backend.see_most(1_000), None);
        backend.answers();
        assert_eq!(backend.see_most(100), None, "too soon");
        assert_eq!((backend.see_most(1_000), backend.most(), backend.is_crowded()), (Some(3), 3, true));
        assert_eq!(backend.see_most(1_000), None, "known");
        backend.forget_old(1_000 + BELIEVED_MS - 1);
        assert_eq!(backend.most(), 3);
        backend.forget_old(1_000 + BELIEVED_MS);
        assert_eq!(backend.most(), usize::MAX);
        backend.first_is_over(2_000);
        (0..ROUNDS).for_each(|_| backend.answers());
        assert_eq!(backend.see_most(9_000), None, "counted anew");

        // There each request has a connection, and none holds a process.
        let backend = Backend::new(plan::Backend::Tcp("127.0.0.1:9000".into()));
        (0..5).for_each(|_| assert!(backend.open_one()));
        backend.ask_first(100);
        (0..99).for_each(|_| backend.answers());
        assert_eq!(backend.see_most(1_000), None, "they are not kept");
    }

    #[test]
    fn starved_if_new_connections_are_not_answered() {
        let backend = backend();
        assert!(!backend.is_starved(1_000, 50));
        backend.ask_first(100);
        backend.ask_first(140);
        assert!(!backend.is_starved(149, 50) && backend.is_starved(150, 50));
        backend.first_is_over(150);
        assert!(!backend.is_starved(199, 50) && backend.is_starved(200, 50));
        backend.first_is_over(200);
        assert!(!backend.is_starved(9_999, 50));
    }
}
