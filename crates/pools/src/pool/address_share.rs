//! Limits the share of a queue that one address or one network may fill, so that no client keeps the others out.
//!
//! Requests are served in order of their *turn*, normally the time of arrival. If an address sends more than a
//! quarter of the requests that are served, or its network more than half, the excess counts as if it had arrived
//! later. This is the generic cell rate algorithm (ITU-T I.371): for each address it stores the time at which its
//! next request is due; each request advances that time by the interval that the address's share allows. Requests of
//! one address stay in order, and if no others wait nothing changes for them. Requests that go first have a share of
//! their own.

use std::collections::HashMap;
use std::net::IpAddr;

use millrace_wire::network::Network;

/// The part of the rate that one address and one network get.
const ADDRESS_PART: f64 = 0.25;
const NETWORK_PART: f64 = 0.5;
/// Others compete if one of them sent a request within this many milliseconds.
const LATELY_MS: u64 = 5_000;
/// How far an address may be ahead of its share, milliseconds: a browser opens six connections, an office shares an
/// address.
const BURST_MS: f64 = 500.0;
/// The part of the longest delay from which on a client counts as permanently exceeding its share.
const SURPLUS: f64 = 0.5;
/// Maximum number of remembered addresses and networks. Those with an unused share are forgotten first.
const REMEMBERED: usize = 16_384;

/// When the next request of each address and network is due, milliseconds of one clock.
#[derive(Debug, Default)]
pub struct AddressShares {
    /// Requests that go first (true) have a share of their own.
    due: HashMap<(Network, bool), f64>,
    /// The latest sources: addresses, and networks.
    lately: [LastSources; 2],
}

/// The latest source, and the latest one before it that was different.
#[derive(Debug, Default)]
struct LastSources {
    last: Option<(Network, u64)>,
    other: Option<(Network, u64)>,
}

impl LastSources {
    /// Notes a source; returns whether others have sent requests, too.
    fn note(&mut self, now: u64, network: Network) -> bool {
        if self.last.is_some_and(|(last, _)| last != network) {
            self.other = self.last;
        }
        self.last = Some((network, now));
        self.other.is_some_and(|(_, at)| at + LATELY_MS >= now)
    }
}

/// How a request's address affects its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// It counts as having arrived this much later, milliseconds.
    pub ms: u64,
    /// Others compete, and go before it for that time.
    pub is_contended: bool,
    /// Its address keeps exceeding its share while others compete.
    pub is_surplus: bool,
}

/// An address - for IPv6 the /64, which is one client's - and its network.
fn both(address: IpAddr) -> [Network; 2] {
    [Network::client(address), Network::around(address)]
}

impl AddressShares {
    /// How much later than now a request of this address counts as having arrived, at `rate` served requests per
    /// millisecond; at most `most` milliseconds. `is_first`: it goes before others.
    pub fn delay(&mut self, now: u64, address: IpAddr, is_first: bool, rate: f64, most: f64) -> Delay {
        let at = now as f64;
        self.make_room(at);
        let mut delay = Delay::default();
        let parts = [ADDRESS_PART, NETWORK_PART].into_iter().zip(&mut self.lately);
        for (network, (part, lately)) in both(address).into_iter().zip(parts) {
            let others_come = lately.note(now, network);
            let due = self.due.entry((network, is_first)).or_insert(at);
            *due = due.max(at);
            let late = (*due - at - BURST_MS).clamp(0.0, most);
            delay.ms = delay.ms.max(late as u64);
            delay.is_contended |= others_come && late > 0.0;
            delay.is_surplus |= others_come && late > most * SURPLUS;
            // A client that keeps sending owes no more than the time it can be made to wait.
            *due = (*due + 1.0 / (rate * part).max(1e-6)).min(at + BURST_MS + most);
        }
        delay
    }

    /// The same for an ordinary request that is already counted.
    pub fn last_delay(&self, now: u64, address: IpAddr, most: f64) -> u64 {
        let due = both(address).into_iter().filter_map(|network| self.due.get(&(network, false))).copied();
        (due.fold(0.0, f64::max) - now as f64 - BURST_MS).clamp(0.0, most) as u64
    }

    fn make_room(&mut self, now: f64) {
        if self.due.len() + 2 > REMEMBERED {
            self.due.retain(|_, due| *due > now);
        }
        if self.due.len() + 2 > REMEMBERED {
            self.due.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred requests a second are served.
    const RATE: f64 = 0.1;
    const MOST: f64 = 2_000.0;

    fn v4(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_quarter_of_the_rate_is_never_delayed() {
        let mut shares = AddressShares::default();
        let delays: Vec<u64> =
            (0..500).map(|at| shares.delay(at * 40, v4("192.0.2.1"), false, RATE, MOST).ms).collect();
        assert!(delays.iter().all(|delay| *delay == 0));
    }

    #[test]
    fn more_counts_as_having_come_later_and_others_do_not() {
        let mut shares = AddressShares::default();
        let delays: Vec<u64> =
            (0..200).map(|_| shares.delay(0, v4("192.0.2.1"), false, RATE, MOST).ms).collect();
        assert_eq!((delays[0], delays[12], delays[13], delays[14]), (0, 0, 20, 60), "half a second ahead");
        assert_eq!(delays.last(), Some(&2_000));
        assert!(delays.is_sorted());
        assert_eq!(shares.delay(0, v4("198.51.100.1"), false, RATE, MOST).ms, 0);
        // Ten seconds later the history has no effect.
        assert_eq!(shares.delay(10_000, v4("192.0.2.1"), false, RATE, MOST).ms, 0);
    }

    #[test]
    fn a_network_has_twice_the_share_of_an_address() {
        let mut shares = AddressShares::default();
        let delays: Vec<u64> = (0..100u8)
            .map(|host| shares.delay(0, IpAddr::from([192, 0, 2, host]), false, RATE, MOST).ms)
            .collect();
        assert_eq!((delays[25], delays[26]), (0, 20));
        let one = |last: u16| IpAddr::from([0x2001, 0xdb8, 1, last, 0, 0, 0, last]);
        let delays: Vec<u64> =
            (0..100).map(|last| shares.delay(0, one(last), false, RATE, MOST).ms).collect();
        assert_eq!((delays[25], delays[26]), (0, 20), "a /48");
    }

    #[test]
    fn any_number_of_addresses_takes_bounded_memory() {
        let mut shares = AddressShares::default();
        for at in 0..100_000u32 {
            shares.delay(0, IpAddr::from(at.to_be_bytes()), false, RATE, MOST);
        }
        assert!(shares.due.len() <= REMEMBERED);
    }

    #[test]
    fn an_address_alone_has_no_surplus() {
        let mut shares = AddressShares::default();
        let mut of = |now, address, is_first| shares.delay(now, v4(address), is_first, RATE, MOST);
        assert!((0..1_000).all(|_| !of(0, "192.0.2.1", true).is_surplus));
        assert_eq!(of(0, "198.51.100.1", true), Delay::default());
        assert_eq!(
            of(1, "192.0.2.1", true),
            Delay { ms: 1_999, is_contended: true, is_surplus: true },
            "another came"
        );
        assert_eq!(of(1, "192.0.2.1", false), Delay::default(), "what goes first has a share of its own");
        (0..1_000).for_each(|_| assert!(!of(60_000, "192.0.2.1", true).is_surplus));
        assert_eq!(
            of(60_000, "192.0.2.1", true),
            Delay { ms: 2_000, ..Delay::default() },
            "the other has gone"
        );
    }
}
