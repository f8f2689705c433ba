//! The state of many clients in bounded memory.
//!
//! A slot has 16 bytes: the hash of an address or network with its class, and the number of [`Rate`]. Eight slots are a
//! bucket, which is two cache lines; the hash decides in which bucket a client is. A full bucket gives up the slot whose
//! client is closest to a clean account. So a flood of new addresses evicts other new addresses, and a client that has
//! used up its limit can't have itself forgotten: to evict its slot, eight clients with less left must be in its bucket,
//! and the hash has a key that no client knows.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use millrace_wire::network::Network;

use crate::rate::Rate;

/// Slots of a bucket.
const WAYS: usize = 8;
/// Parts of the table, each with a lock of its own.
const SHARDS: usize = 64;
/// Buckets of a part: 64 * 1,024 * 8 slots of 16 bytes are 8 MB.
const BUCKETS: usize = 1_024;

/// Limits of one class for an address and for its network; `None`: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// For an IPv4 address, or a /64 of IPv6.
    pub client: Option<Rate>,
    /// For a /24, or a /48 of IPv6, together.
    pub network: Option<Rate>,
}

/// What is asked of the table.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The client.
    pub address: IpAddr,
    /// Number of the class.
    pub class: u64,
    /// The limits of the class.
    pub limit: Limit,
    /// How often the request counts.
    pub cost: u64,
    /// Microseconds of one clock, not 0.
    pub now: u64,
}

/// The table.
#[derive(Debug)]
pub struct Table {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
}

/// Buckets, each with [`WAYS`] pairs of hash and state; allocated with its first client.
#[derive(Debug, Default)]
struct Shard(Vec<u64>);

impl Default for Table {
    fn default() -> Table {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Table { shards, hasher: RandomState::new() }
    }
}

impl Table {
    /// Counts a request, if its client and its network may send one more.
    ///
    /// # Errors
    /// They may not: microseconds until they may.
    pub fn ask(&self, asked: &Asked) -> Result<(), u64> {
        let Asked { address, class, limit, cost, now } = *asked;
        if let Some(rate) = limit.client {
            self.count(self.key(Network::client(address), class), rate, cost, now)?;
        }
        match limit.network {
            Some(rate) => self.count(self.key(Network::around(address), class), rate, cost, now),
            None => Ok(()),
        }
    }

    /// Takes back what [`Table::ask`] has counted: the request has turned out to be harmless.
    pub fn give_back(&self, asked: &Asked) {
        let Asked { address, class, limit, cost, .. } = *asked;
        for (rate, network) in
            [(limit.client, Network::client(address)), (limit.network, Network::around(address))]
        {
            let Some(rate) = rate else { continue };
            let key = self.key(network, class);
            let mut shard = self.shard(key);
            let mut slots = shard.0.chunks_exact_mut(2).skip(bucket(key) * WAYS).take(WAYS);
            if let Some(slot) = slots.find(|slot| slot[0] == key) {
                slot[1] = rate.give_back(slot[1], cost);
            }
        }
    }

    /// How many requests a client has left by the rate of its own; `None`: no limit.
    #[must_use]
    pub fn left(&self, asked: &Asked) -> Option<u64> {
        let rate = asked.limit.client?;
        let key = self.key(Network::client(asked.address), asked.class);
        let shard = self.shard(key);
        let mut slots = shard.0.chunks_exact(2).skip(bucket(key) * WAYS).take(WAYS);
        let due = slots.find(|slot| slot[0] == key).map_or(0, |slot| slot[1]);
        Some(rate.left(due, asked.now))
    }

    fn count(&self, key: u64, rate: Rate, cost: u64, now: u64) -> Result<(), u64> {
        let mut shard = self.shard(key);
        if shard.0.is_empty() {
            shard.0 = vec![0; BUCKETS * WAYS * 2];
        }
        let first = bucket(key) * WAYS * 2;
        let slots = &mut shard.0[first..first + WAYS * 2];
        let known = slots.chunks_exact(2).position(|slot| slot[0] == key);
        let at = known.unwrap_or_else(|| {
            let least = slots.chunks_exact(2).enumerate().min_by_key(|(_, slot)| slot[1]);
            least.map_or(0, |(at, _)| at)
        });
        let due = if known.is_some() { slots[at * 2 + 1] } else { 0 };
        let due = rate.ask(due, now, cost)?;
        (slots[at * 2], slots[at * 2 + 1]) = (key, due);
        Ok(())
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, Shard> {
        self.shards[(key >> 58) as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never 0, which is an empty slot.
    fn key(&self, network: Network, class: u64) -> u64 {
        self.hasher.hash_one((network, class)) | 1
    }
}

fn bucket(key: u64) -> usize {
    (key >> 1) as usize % BUCKETS
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn asked(address: impl Into<IpAddr>, per_minute: u64, network: u64) -> Asked {
        let limit =
            Limit { client: Rate::new(per_minute, 1, per_minute), network: Rate::new(network, 1, network) };
        Asked { address: address.into(), class: 1, limit, cost: 1, now: NOW }
    }

    #[test]
    fn addresses_and_networks_have_limits_and_classes_are_apart() {
        let table = Table::default();
        let ask = |last: u8| table.ask(&asked([192, 0, 2, last], 2, 5));
        assert!(ask(1).is_ok() && ask(1).is_ok());
        assert_eq!(ask(1), Err(30_000_000));
        assert!(ask(2).is_ok() && ask(2).is_ok() && ask(3).is_ok());
        assert_eq!(ask(4), Err(12_000_000), "the network is full");
        assert!(table.ask(&asked([192, 0, 3, 1], 2, 5)).is_ok());
        let other = Asked { class: 2, ..asked([192, 0, 2, 1], 2, 5) };
        assert!(table.ask(&other).is_ok());
        assert_eq!((table.left(&other), table.left(&asked([192, 0, 2, 1], 2, 5))), (Some(1), Some(0)));
        table.give_back(&asked([192, 0, 2, 1], 2, 5));
        assert_eq!((ask(1), ask(1).is_err()), (Ok(()), true), "one is given back, to the network, too");
        let none = Asked { limit: Limit { client: None, network: None }, ..other };
        assert!((0..100).all(|_| table.ask(&none).is_ok()) && table.left(&none).is_none());
    }

    #[test]
    fn an_ipv6_client_is_its_64() {
        let table = Table::default();
        let ask = |text: &str| table.ask(&asked(text.parse::<IpAddr>().unwrap(), 1, 2));
        assert!(ask("2001:db8:0:1::1").is_ok() && ask("2001:db8:0:1::2").is_err());
        assert!(ask("2001:db8:0:2::1").is_ok());
        assert!(ask("2001:db8:0:3::1").is_err(), "the /48 is full");
        assert!(ask("2001:db8:1:3::1").is_ok());
    }

    #[test]
    fn it_knows_a_hundred_thousand_addresses_in_8_mb() {
        let table = Table::default();
        let address = |at: u32| std::net::Ipv4Addr::from(0x0b00_0000 + at * 256);
        for at in 0..100_000 {
            assert!(table.ask(&asked(address(at), 1, 100)).is_ok());
        }
        let known = (0..100_000).filter(|at| table.left(&asked(address(*at), 1, 100)) == Some(0)).count();
        assert!(known > 99_000, "{known}");
        let bytes: usize = table.shards.iter().map(|shard| shard.lock().unwrap().0.capacity() * 8).sum();
        assert_eq!(bytes, 8 << 20);
    }

    #[test]
    fn a_flood_of_addresses_does_not_make_it_forget_those_that_used_up_their_limit() {
        let table = Table::default();
        let offender = |at: u32| std::net::Ipv4Addr::from(0xc633_0000 + at * 256);
        for at in 0..100 {
            (0..10).for_each(|_| assert!(table.ask(&asked(offender(at), 10, 0)).is_ok()));
        }
        // Two addresses for each slot.
        for at in 0..(SHARDS * BUCKETS * WAYS * 2) as u32 {
            let _ = table.ask(&asked(std::net::Ipv4Addr::from(at), 10, 0));
        }
        let refused = (0..100).filter(|at| table.ask(&asked(offender(*at), 10, 0)).is_err()).count();
        assert_eq!(refused, 100);
    }
}
