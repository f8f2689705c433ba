//! Bans with an end. Times are seconds since 1970, because bans may outlive the process.

use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;

use millrace_wire::network::Network;

use crate::list;
use crate::network::Networks;

/// Maximum number of bans, those included that have ended and are remembered.
const MOST: usize = 10_000;
/// How long an ended ban is remembered, seconds: the next one is longer.
const REMEMBERED: u64 = 24 * 3600;

/// A ban.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    /// When it began.
    pub since: u64,
    /// When it ends.
    pub until: u64,
    /// How many bans of this network came one after the other.
    pub times: u32,
    /// An administrator's, which no other ban replaces.
    pub by_admin: bool,
    /// Why.
    pub reason: Arc<str>,
}

/// How long a ban lasts.
#[derive(Clone, Copy, Debug)]
pub struct BanTerms {
    /// The first one of a client, seconds. Each further one takes twice as long.
    pub first: u64,
    /// The longest, seconds.
    pub longest: u64,
}

/// All bans.
#[derive(Clone, Debug, Default)]
pub struct Bans {
    networks: Networks<Ban>,
}

impl Bans {
    /// The ban in force of this address, with its network.
    #[must_use]
    pub fn find(&self, address: IpAddr, now: u64) -> Option<(Network, &Ban)> {
        self.networks.find(address, |ban| ban.until > now)
    }

    /// Whether no ban is known, not even one that has ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty()
    }

    /// The bans in force, the ones that end first before the others.
    #[must_use]
    pub fn in_force(&self, now: u64) -> Vec<(Network, &Ban)> {
        let mut bans: Vec<_> = self.networks.iter().filter(|(_, ban)| ban.until > now).collect();
        bans.sort_by_key(|(network, ban)| (ban.until, **network));
        bans.into_iter().map(|(network, ban)| (*network, ban)).collect()
    }

    /// Bans a client that keeps being refused; returns the ban.
    pub fn offend(&mut self, address: IpAddr, now: u64, terms: BanTerms, reason: &str) -> Ban {
        let network = Network::client(address);
        let old = self.networks.get(&network);
        if let Some(ban) = old.filter(|ban| ban.until > now) {
            return ban.clone();
        }
        let times = old.filter(|ban| ban.until + REMEMBERED > now).map_or(0, |ban| ban.times) + 1;
        let length = terms.first.saturating_mul(1 << (times - 1).min(30)).min(terms.longest.max(terms.first));
        let ban = Ban { since: now, until: now + length, times, by_admin: false, reason: reason.into() };
        self.insert(network, ban.clone(), now);
        ban
    }

    /// Bans a network on an administrator's order.
    pub fn order(&mut self, network: Network, now: u64, seconds: u64, reason: &str) {
        let ban = Ban {
            since: now,
            until: now.saturating_add(seconds),
            times: self.networks.get(&network).map_or(1, |old| old.times),
            by_admin: true,
            reason: reason.into(),
        };
        self.insert(network, ban, now);
    }

    /// Ends a ban, and forgets it; whether there was one in force.
    pub fn lift(&mut self, network: &Network, now: u64) -> bool {
        self.networks.remove(network).is_some_and(|ban| ban.until > now)
    }

    fn insert(&mut self, network: Network, ban: Ban, now: u64) {
        if self.networks.len() >= MOST && self.networks.get(&network).is_none() {
            self.make_room(now);
        }
        self.networks.insert(network, ban);
    }

    /// Forgets a tenth: first what has ended, then what ends next. An administrator's bans stay as long as others can go.
    fn make_room(&mut self, now: u64) {
        let mut all: Vec<_> = self
            .networks
            .iter()
            .map(|(network, ban)| (ban.until > now, ban.by_admin && ban.until > now, ban.until, *network))
            .collect();
        all.sort_by_key(|(in_force, by_admin, until, _)| (*by_admin, *in_force, *until));
        for (_, _, _, network) in all.into_iter().take(MOST / 10) {
            self.networks.remove(&network);
        }
    }

    /// The bans in force as a file: a line each, in the format of [`crate::list`].
    #[must_use]
    pub fn to_text(&self, now: u64) -> String {
        let mut text =
            String::from("# Bans of Millrace's shield: network, end, how many in a row, who, why\n");
        for (network, ban) in self.in_force(now) {
            let by = if ban.by_admin { "admin" } else { "shield" };
            let _ =
                writeln!(text, "{network} {} # {} {by} {} {}", ban.until, ban.times, ban.since, ban.reason);
        }
        text
    }

    /// The bans of such a file that are in force, and what is wrong with its other lines.
    #[must_use]
    pub fn from_text(text: &str, now: u64) -> (Bans, Vec<String>) {
        let (mut bans, parsed) = (Bans::default(), list::parse(text));
        for entry in parsed.entries {
            let mut words = entry.note.splitn(4, ' ');
            let times = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
            let by_admin = words.next() == Some("admin");
            let since = words.next().and_then(|word| word.parse().ok()).unwrap_or(now);
            let (reason, until) = (words.next().unwrap_or("").into(), entry.until);
            if until > now {
                bans.insert(entry.network, Ban { since, until, times, by_admin, reason }, now);
            }
        }
        (bans, parsed.problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: BanTerms = BanTerms { first: 600, longest: 3_600 };

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn bans_end_grow_and_are_bounded() {
        let (mut bans, mut now, mut lengths) = (Bans::default(), 1_000, Vec::new());
        for _ in 0..5 {
            let until = bans.offend(ip("192.0.2.1"), now, TERMS, "login").until;
            assert_eq!(bans.offend(ip("192.0.2.1"), now + 1, TERMS, "login").until, until, "one at a time");
            assert!(bans.find(ip("192.0.2.1"), until - 1).is_some());
            assert!(bans.find(ip("192.0.2.1"), until).is_none() && bans.find(ip("192.0.2.2"), now).is_none());
            lengths.push(until - now);
            now = until + 10;
        }
        assert_eq!(lengths, [600, 1_200, 2_400, 3_600, 3_600]);
        let later = now + REMEMBERED + 3_600;
        assert_eq!(bans.offend(ip("192.0.2.1"), later, TERMS, "login").until, later + 600);
    }

    #[test]
    fn an_order_bans_a_network_and_is_lifted() {
        let mut bans = Bans::default();
        let network: Network = "2001:db8::/32".parse().unwrap();
        bans.order(network, 0, 60, "abuse");
        assert_eq!(bans.find(ip("2001:db8:7::1"), 59).map(|(network, _)| network), Some(network));
        assert!(bans.lift(&network, 59) && !bans.lift(&network, 59));
        assert!(bans.is_empty());
    }

    #[test]
    fn the_number_is_bounded_and_orders_stay() {
        let mut bans = Bans::default();
        let network: Network = "203.0.113.0/24".parse().unwrap();
        bans.order(network, 0, 1, "first");
        bans.order(network, 0, 100_000, "abuse");
        for at in 0..30_000_u32 {
            bans.offend(IpAddr::V4((0x0a00_0000 + at).into()), u64::from(at) / 100, TERMS, "login");
        }
        assert!(bans.networks.len() <= MOST, "{}", bans.networks.len());
        assert!(bans.find(ip("203.0.113.9"), 300).is_some());
        assert!(bans.find(IpAddr::V4((0x0a00_0000 + 29_999).into()), 300).is_some());
    }

    #[test]
    fn they_survive_as_text() {
        let mut bans = Bans::default();
        bans.offend(ip("192.0.2.1"), 1_000, TERMS, "login: 100 refusals");
        bans.offend(ip("192.0.2.9"), 0, TERMS, "over");
        bans.order("2001:db8::/32".parse().unwrap(), 1_000, 5_000, "because # of this");
        let (read, problems) = Bans::from_text(&bans.to_text(1_001), 1_001);
        assert_eq!(problems, [""; 0]);
        assert_eq!(read.in_force(1_001), bans.in_force(1_001));
        assert_eq!(read.in_force(1_001).len(), 2);
        let (read, problems) = Bans::from_text("rubbish\n192.0.2.1 99\n192.0.2.2", 5);
        assert_eq!((read.in_force(5).len(), problems.len()), (2, 1));
    }
}
