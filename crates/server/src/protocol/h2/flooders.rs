//! Addresses that have flooded lately: their next connections wait a moment, so that an attacker who reconnects at
//! once costs little, too.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use millrace_wire::network::Network;

/// Maximum wait of a connection, milliseconds: other clients behind the same address hardly notice.
const PAUSE_MS: u64 = 250;

/// Maximum number of remembered networks: searching them costs next to nothing.
const MOST: usize = 64;

/// Networks that have flooded, with the time in milliseconds, the latest last.
#[derive(Debug, Default)]
pub struct Flooders(RefCell<VecDeque<(Network, u64)>>);

impl Flooders {
    /// Notes a flood from this address.
    pub(super) fn add(&self, address: IpAddr, now: u64) {
        let (network, mut known) = (Network::client(address), self.0.borrow_mut());
        known.retain(|(other, since)| *other != network && now < since + PAUSE_MS);
        if known.len() == MOST {
            known.pop_front();
        }
        known.push_back((network, now));
    }

    /// How long a connection from this address waits.
    pub(super) fn pause(&self, address: IpAddr, now: u64) -> Option<Duration> {
        let (network, known) = (Network::client(address), self.0.borrow());
        let (_, since) = known.iter().find(|(other, _)| *other == network)?;
        (since + PAUSE_MS).checked_sub(now).filter(|left| *left > 0).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn who_has_flooded_waits_for_a_moment() {
        let flooders = Flooders::default();
        assert_eq!(flooders.pause(ip("192.0.2.1"), 0), None);
        flooders.add(ip("192.0.2.1"), 1_000);
        assert_eq!(flooders.pause(ip("192.0.2.1"), 1_100), Some(Duration::from_millis(150)));
        assert_eq!(flooders.pause(ip("192.0.2.2"), 1_100), None);
        assert_eq!(flooders.pause(ip("192.0.2.1"), 1_250), None);
        flooders.add(ip("2001:db8::1"), 1_000);
        assert_eq!(flooders.pause(ip("2001:db8::ffff:2"), 1_000), Some(Duration::from_millis(PAUSE_MS)));
        assert_eq!(flooders.pause(ip("2001:db8:0:1::1"), 1_000), None);
    }

    #[test]
    fn the_last_ones_are_remembered() {
        let flooders = Flooders::default();
        (0..200).for_each(|last| flooders.add(IpAddr::from([192, 0, 2, last]), 5));
        assert_eq!(flooders.0.borrow().len(), MOST);
        assert!(
            flooders.pause(ip("192.0.2.199"), 5).is_some() && flooders.pause(ip("192.0.2.0"), 5).is_none()
        );
        flooders.add(ip("192.0.2.1"), 255);
        assert_eq!(flooders.0.borrow().len(), 1, "the others are through");
    }
}
