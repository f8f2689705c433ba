//! Places in the waiting room: a browser that can't be served within `php.queue_wait` gets its arrival time in a
//! signed cookie and comes back with it, so that the browser that has waited longest goes first.
//!
//! ```text
//!   request ──> admitted? ── yes ──> queue ─> worker
//!                  │ no                ▲
//!                  ▼                   │ admitted: its place is given up
//!               a place  ── comes back after `Retry-After`, with its cookie ──┐
//!                  ▲                                                          │
//!                  └────────────── not yet ───────────────────────────────────┘
//! ```
//!
//! A request without a place is behind all places. Some browsers never come back. So a place counts as the probability
//! that its browser comes back: the share of browsers that came back after waiting for as long as this one will have
//! waited when it is due ([`ReturnRates`]). A browser that is [`LATE_MS`] late does not count until it comes back; when
//! it is [`GRACE_MS`] late, its place is forgotten.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::IpAddr;

use aws_lc_rs::hmac;

/// A browser that is this late counts as gone, milliseconds: tabs in the background are slow.
const GRACE_MS: u64 = 20_000;
/// A browser that is this late may be gone, milliseconds.
const LATE_MS: u64 = 3_000;
/// Shortest and longest time after which a browser comes back, seconds.
const RETRY_S: (u64, u64) = (1, 20);
/// Maximum number of places: 100 bytes each.
const PLACES: usize = 100_000;
/// Maximum number of places of one address: an office may share an address, a crowd does not.
const PLACES_OF_ADDRESS: u32 = 256;
/// The share of browsers that come back is averaged over this many browsers of an age group.
const MEMORY: f64 = 64.0;
/// The span of an age group, milliseconds.
const AGE_MS: u64 = 8_000;
/// The number of age groups; the last one has no end.
const AGES: u64 = 64;
/// The count of a place whose browser is certain to come back.
const WHOLE: u64 = 1_024;
/// Length of the time slices in which arrivals are counted, milliseconds.
const PIECE_MS: u64 = 1_000;
/// Maximum age of a place, milliseconds: after that time, visitors have bought elsewhere.
const OLDEST_MS: u64 = 3_600_000;
/// Bytes of a signature.
const SIGNATURE: usize = 16;

/// A browser's place: its time of arrival, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Time of its first request, milliseconds since the pool was created.
    pub arrived: u64,
    id: u64,
}

/// The instructions for a browser that must wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptPlace {
    /// Value of its cookie.
    pub cookie: String,
    /// Its expected wait, seconds.
    pub wait: u64,
    /// Time until its next request, seconds.
    pub retry: u64,
}

/// The places of one pool. Times are milliseconds since the pool was created.
#[derive(Debug)]
pub struct Places {
    live: HashMap<u64, PlaceEntry>,
    /// When each place is late or, if it is late already, forgotten; the soonest first. Entries of places that were
    /// renewed later are skipped.
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    /// The sum of the counts of the places that arrived in each time slice and are not late, from slice `first` on; in
    /// parts of [`WHOLE`].
    arrived: VecDeque<u64>,
    first: u64,
    addresses: HashMap<IpAddr, u32>,
    next_id: u64,
    return_rates: ReturnRates,
    key: hmac::Key,
}

#[derive(Debug)]
struct PlaceEntry {
    arrived: u64,
    /// When it is late, or when it is forgotten if it is late already.
    ends: u64,
    /// Its count, in parts of [`WHOLE`]; 0: it is late.
    counts: u64,
    /// The age group of its browser at the time when it is due: see [`age_group`].
    group: usize,
    address: Option<IpAddr>,
}

/// The share of browsers that come back, by the age group ([`age_group`]) in which they are due. People wait for a
/// minute or two, then most of them leave. A group without experience has the share of the oldest group with
/// experience.
#[derive(Debug, Default)]
struct ReturnRates(Vec<f64>);

/// The age group of a browser that has waited for `age` milliseconds.
fn age_group(age: u64) -> usize {
    (age / AGE_MS).min(AGES - 1) as usize
}

impl ReturnRates {
    fn of(&self, group: usize) -> f64 {
        self.0.get(group).or(self.0.last()).copied().unwrap_or(1.0)
    }

    /// The count of a place whose browser is due in this group, in parts of [`WHOLE`]; never 0, which means late.
    fn counts(&self, group: usize) -> u64 {
        ((self.of(group) * WHOLE as f64) as u64).max(1)
    }

    /// The delay in seconds, at most `retry`, for a browser that has waited for `waited` milliseconds. It ends before
    /// most browsers of this age leave: otherwise the oldest ones leave and the order is random.
    fn before_it_leaves(&self, waited: u64, mut retry: u64) -> u64 {
        while retry > RETRY_S.0 && self.of(age_group(waited + retry * 1_000)) < 0.5 {
            retry /= 2;
        }
        retry
    }

    /// A browser that was due in this group has returned, or is late.
    fn note(&mut self, group: usize, has_returned: bool) {
        if self.0.len() <= group {
            self.0.resize(group + 1, self.of(group));
        }
        let rate = &mut self.0[group];
        *rate += (f64::from(u8::from(has_returned)) - *rate) / MEMORY;
    }
}

impl Default for Places {
    fn default() -> Places {
        let mut secret = [0; 32];
        // Without randomness there is no TLS and no PHP either; with a secret of zeros, clients choose their place.
        let _ = aws_lc_rs::rand::fill(&mut secret);
        Places {
            live: HashMap::new(),
            ends: BinaryHeap::new(),
            arrived: VecDeque::new(),
            first: 0,
            addresses: HashMap::new(),
            next_id: 0,
            return_rates: ReturnRates::default(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
        }
    }
}

impl Places {
    /// Number of browsers with a place.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// The place that a cookie's value identifies, if this pool has signed it and still knows it.
    pub fn read(&mut self, cookie: &[u8], now: u64) -> Option<Ticket> {
        self.forget(now);
        let text = std::str::from_utf8(cookie).ok()?;
        let mut parts = text.splitn(3, '.');
        let number = |part: Option<&str>| u64::from_str_radix(part?, 36).ok();
        let ticket = Ticket { arrived: number(parts.next())?, id: number(parts.next())? };
        let known = self.live.get(&ticket.id).is_some_and(|entry| entry.arrived == ticket.arrived);
        let signed = same(parts.next()?.as_bytes(), self.sign(ticket).as_bytes());
        (known && signed && now.saturating_sub(ticket.arrived) <= OLDEST_MS).then_some(ticket)
    }

    /// Number of browsers that arrived before `arrived` and will come back.
    pub fn ahead(&self, arrived: u64) -> usize {
        let piece = (arrived / PIECE_MS).saturating_sub(self.first);
        let counted: u64 = self.arrived.iter().take(piece as usize).sum();
        (counted / WHOLE) as usize
    }

    /// Renews a browser's place, or gives it one that counts from `arrived`. `rate` requests a millisecond are served,
    /// and `in_queue` requests in the queue are ahead of it. `None`: there are too many places.
    pub fn keep(
        &mut self,
        now: u64,
        ticket: Option<Ticket>,
        arrived: u64,
        address: Option<IpAddr>,
        in_queue: usize,
        rate: f64,
    ) -> Option<KeptPlace> {
        self.forget(now);
        if let Some(group) = ticket.and_then(|ticket| self.live.get(&ticket.id)).map(|entry| entry.group) {
            self.return_rates.note(group, true);
        }
        let ticket = match ticket {
            Some(ticket) => ticket,
            None => self.add(arrived, address)?,
        };
        let ahead = in_queue + self.ahead(ticket.arrived);
        let wait = ((ahead as f64 / rate.max(1e-6) / 1e3).ceil() as u64).clamp(1, OLDEST_MS / 1_000);
        // Half of the expected wait, because the estimate may be wrong; a short one in full.
        let retry = if wait <= 4 { wait } else { wait / 2 };
        let waited = now.saturating_sub(ticket.arrived);
        let retry = self.return_rates.before_it_leaves(waited, retry.clamp(RETRY_S.0, RETRY_S.1));
        self.renew(ticket, now + retry * 1_000);
        let Ticket { arrived, id } = ticket;
        let cookie = format!("{}.{}.{}", base36(arrived), base36(id), self.sign(ticket));
        Some(KeptPlace { cookie, wait, retry })
    }

    /// A browser gives up its place and joins the queue.
    pub fn leave(&mut self, ticket: Ticket) {
        if let Some(entry) = self.remove(ticket.id) {
            self.return_rates.note(entry.group, true);
        }
    }

    fn add(&mut self, arrived: u64, address: Option<IpAddr>) -> Option<Ticket> {
        if self.live.len() >= PLACES {
            return None;
        }
        if let Some(address) = address {
            let count = self.addresses.entry(address).or_insert(0);
            if *count >= PLACES_OF_ADDRESS {
                return None;
            }
            *count += 1;
        }
        self.next_id += 1;
        let id = self.next_id;
        self.live.insert(id, PlaceEntry { arrived, ends: arrived, counts: 0, group: 0, address });
        Some(Ticket { arrived, id })
    }

    /// The browser comes back at `due`.
    fn renew(&mut self, ticket: Ticket, due: u64) {
        let group = age_group(due.saturating_sub(ticket.arrived));
        let counts = self.return_rates.counts(group);
        let Some(entry) = self.live.get_mut(&ticket.id) else { return };
        (entry.ends, entry.group) = (due + LATE_MS, group);
        let before = std::mem::replace(&mut entry.counts, counts);
        self.ends.push(Reverse((due + LATE_MS, ticket.id)));
        let piece = self.piece(ticket.arrived);
        *piece = *piece - before + counts;
    }

    /// The counter of the time slice that `arrived` belongs to.
    fn piece(&mut self, arrived: u64) -> &mut u64 {
        let number = arrived / PIECE_MS;
        if self.arrived.is_empty() {
            self.first = number;
        }
        // The arrival of a late browser, or one by another event loop's clock, may precede all others.
        while number < self.first {
            self.arrived.push_front(0);
            self.first -= 1;
        }
        let at = (number - self.first) as usize;
        if self.arrived.len() <= at {
            self.arrived.resize(at + 1, 0);
        }
        &mut self.arrived[at]
    }

    fn remove(&mut self, id: u64) -> Option<PlaceEntry> {
        let entry = self.live.remove(&id)?;
        self.discount(entry.arrived, entry.counts);
        if let Some(address) = entry.address
            && let Some(count) = self.addresses.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&address);
            }
        }
        Some(entry)
    }

    fn discount(&mut self, arrived: u64, counts: u64) {
        let piece = self.piece(arrived);
        *piece = piece.saturating_sub(counts);
        while self.arrived.front() == Some(&0) {
            self.arrived.pop_front();
            self.first += 1;
        }
    }

    /// Stops counting places that are late, and forgets places whose browsers have gone.
    fn forget(&mut self, now: u64) {
        while let Some(Reverse((ends, id))) =
            self.ends.peek().copied().filter(|Reverse((ends, _))| *ends <= now)
        {
            self.ends.pop();
            let Some(entry) = self.live.get_mut(&id).filter(|entry| entry.ends == ends) else { continue };
            let counts = std::mem::take(&mut entry.counts);
            if counts == 0 {
                self.remove(id);
                continue;
            }
            entry.ends = ends + GRACE_MS - LATE_MS;
            let (arrived, group) = (entry.arrived, entry.group);
            self.ends.push(Reverse((entry.ends, id)));
            self.discount(arrived, counts);
            self.return_rates.note(group, false);
        }
    }

    fn sign(&self, ticket: Ticket) -> String {
        let text = [ticket.arrived.to_be_bytes(), ticket.id.to_be_bytes()].concat();
        let tag = hmac::sign(&self.key, &text);
        tag.as_ref()[..SIGNATURE].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Compares in constant time, wherever the values differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(one, other).is_ok()
}

fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(b"0123456789abcdefghijklmnopqrstuvwxyz"[(number % 36) as usize]);
        number /= 36;
        if number == 0 {
            break;
        }
    }
    digits.reverse();
    digits.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 50 requests a second are served.
    const RATE: f64 = 0.05;

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    fn ticket(places: &mut Places, told: &KeptPlace, now: u64) -> Ticket {
        places.read(told.cookie.as_bytes(), now).expect("its own cookie")
    }

    #[test]
    fn a_browser_keeps_the_time_of_its_arrival() {
        let mut places = Places::default();
        let first = places.keep(5_000, None, 5_000, address(1), 100, RATE).unwrap();
        assert_eq!((first.wait, first.retry), (2, 2));
        let second = places.keep(9_000, None, 9_000, address(2), 100, RATE).unwrap();
        let again = ticket(&mut places, &first, 9_500);
        assert_eq!(again.arrived, 5_000);
        assert_eq!(
            places.keep(9_500, Some(again), 9_500, address(1), 100, RATE).unwrap().cookie,
            first.cookie
        );
        assert_eq!((places.len(), places.ahead(9_000), places.ahead(5_000)), (2, 1, 0));
        places.leave(again);
        assert_eq!((places.len(), places.ahead(9_000)), (1, 0));
        assert_eq!(places.read(first.cookie.as_bytes(), 9_600), None, "a place is good for one entrance");
        assert!(places.read(second.cookie.as_bytes(), 9_600).is_some());
    }

    #[test]
    fn no_other_cookie_is_a_place() {
        let (mut places, mut others) = (Places::default(), Places::default());
        let mine = places.keep(5_000, None, 5_000, None, 0, RATE).unwrap().cookie;
        others.keep(5_000, None, 5_000, None, 0, RATE).unwrap();
        assert_eq!(others.read(mine.as_bytes(), 5_001), None, "another pool's");
        let (_, rest) = mine.split_once('.').unwrap();
        let earlier = format!("1.{rest}");
        for wrong in ["", "..", "1.1.", &earlier, &mine[..mine.len() - 1], &format!("{mine}0"), "\u{e4}.1.1"]
        {
            assert_eq!(places.read(wrong.as_bytes(), 5_001), None, "{wrong}");
        }
        assert!(places.read(mine.as_bytes(), 5_001).is_some());
    }

    #[test]
    fn one_that_is_late_counts_again_when_it_comes_back() {
        let mut places = Places::default();
        let first = places.keep(5_000, None, 5_000, address(1), 100, RATE).unwrap();
        places.keep(6_500, None, 6_500, address(2), 100, RATE).unwrap();
        assert_eq!(places.ahead(9_000), 2);
        let late = 5_000 + first.retry * 1_000 + LATE_MS;
        let again = ticket(&mut places, &first, late);
        assert_eq!((places.len(), places.ahead(6_000)), (2, 0), "it is late");
        places.keep(late, Some(again), late, address(1), 100, RATE).unwrap();
        // Of the share 1.0 the late one took a 64th, and its return gave back a 64th of that.
        assert_eq!((places.len(), places.arrived.front()), (2, Some(&1_008)));
        places.leave(again);
        assert_eq!(places.len(), 1);
    }

    #[test]
    fn who_does_not_come_back_is_forgotten_and_counts_less() {
        let mut places = Places::default();
        for at in 0..200u64 {
            places.keep(at, None, at, Some(IpAddr::from((at as u32).to_be_bytes())), 10, RATE).unwrap();
        }
        assert_eq!((places.len(), places.ahead(10_000)), (200, 200));
        let late = places.keep(60_000, None, 60_000, None, 10, RATE).unwrap();
        assert_eq!(places.len(), 1, "all others have gone");
        ticket(&mut places, &late, 60_500);
        (0..100).for_each(|_| assert!(places.keep(60_000, None, 60_000, None, 10, RATE).is_some()));
        assert!(places.ahead(70_000) < 10, "of those before none came back");
    }

    #[test]
    fn the_wait_follows_from_who_is_ahead() {
        let mut places = Places::default();
        for at in 0..1_000u32 {
            places.keep(1_000, None, 1_000, Some(IpAddr::from(at.to_be_bytes())), 100, RATE).unwrap();
        }
        let told = places.keep(5_000, None, 5_000, None, 100, RATE).unwrap();
        assert_eq!((told.wait, told.retry), (22, 11), "1,100 at 50 a second");
    }

    #[test]
    fn places_are_bounded() {
        let mut places = Places::default();
        let of_one = (0..1_000).filter(|_| places.keep(0, None, 0, address(1), 0, RATE).is_some()).count();
        assert_eq!(of_one, PLACES_OF_ADDRESS as usize);
        assert!(places.keep(0, None, 0, address(2), 0, RATE).is_some());
        let others = (0..PLACES + 10).filter(|_| places.keep(0, None, 0, None, 0, RATE).is_some()).count();
        assert_eq!(others + of_one + 1, PLACES);
        assert_eq!(places.live.len(), PLACES);
        // A while later all browsers are gone, and all their places are forgotten.
        assert!(places.keep(600_000, None, 600_000, address(1), 0, RATE).is_some());
        assert_eq!((places.live.len(), places.addresses.len(), places.ends.len()), (1, 1, 1));
    }
}
