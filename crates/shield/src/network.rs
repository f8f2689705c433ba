//! Sets of networks that are searched by prefix.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use millrace_wire::network::{Network, untranslated};

/// Bits before an IPv4 address that is mapped into IPv6.
const MAPPED: u8 = 96;

/// The first bits of an IPv6 address, the others 0, and how many they are.
type Prefix = (u128, u8);

/// A set of networks, each with a value.
#[derive(Clone, Debug)]
pub struct Networks<V> {
    values: HashMap<Prefix, (Network, V)>,
    /// The lengths that occur, and how often; a lookup tries each.
    lengths: BTreeMap<u8, usize>,
}

impl<V> Default for Networks<V> {
    fn default() -> Networks<V> {
        Networks { values: HashMap::new(), lengths: BTreeMap::new() }
    }
}

impl<V> Networks<V> {
    /// Whether it has no network.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Number of networks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The smallest network with this address that `fits`.
    pub fn find(&self, address: IpAddr, mut fits: impl FnMut(&V) -> bool) -> Option<(Network, &V)> {
        if self.is_empty() {
            return None;
        }
        let (whole, _) = prefix(&Network::new(untranslated(address), 128));
        self.lengths.keys().rev().find_map(|&bits| {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            let (network, value) = self.values.get(&(whole & mask, bits))?;
            fits(value).then_some((*network, value))
        })
    }

    /// The value of exactly this network.
    #[must_use]
    pub fn get(&self, network: &Network) -> Option<&V> {
        self.values.get(&prefix(network)).map(|(_, value)| value)
    }

    /// Adds a network, or replaces its value.
    pub fn insert(&mut self, network: Network, value: V) {
        let prefix = prefix(&network);
        if self.values.insert(prefix, (network, value)).is_none() {
            *self.lengths.entry(prefix.1).or_default() += 1;
        }
    }

    /// Removes a network.
    pub fn remove(&mut self, network: &Network) -> Option<V> {
        let prefix = prefix(network);
        let (_, value) = self.values.remove(&prefix)?;
        if let Some(count) = self.lengths.get_mut(&prefix.1) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&prefix.1);
            }
        }
        Some(value)
    }

    /// All networks, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Network, &V)> {
        self.values.values().map(|(network, value)| (network, value))
    }
}

/// The prefix of a network as in IPv6; an IPv4 address is mapped (`::ffff:0:0/96`).
fn prefix(network: &Network) -> Prefix {
    match network.first() {
        IpAddr::V4(ip) => (ip.to_ipv6_mapped().to_bits(), MAPPED + network.bits()),
        IpAddr::V6(ip) => (ip.to_bits(), network.bits()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn the_smallest_network_that_fits_is_found() {
        let mut set = Networks::default();
        for (at, text) in ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "2001:db8::/32"].into_iter().enumerate() {
            set.insert(network(text), at);
        }
        let find = |set: &Networks<usize>, text: &str| {
            set.find(text.parse().unwrap(), |_| true).map(|(_, value)| *value)
        };
        let found = ["10.1.2.3", "10.1.2.4", "10.9.9.9", "11.0.0.0", "2001:db8:5::1", "::a01:203"];
        assert_eq!(found.map(|text| find(&set, text)), [Some(2), Some(1), Some(0), None, Some(3), None]);
        let wider = set.find("10.1.2.3".parse().unwrap(), |value| *value != 2);
        assert_eq!(wider.map(|(network, _)| network.to_string()), Some("10.1.0.0/16".to_owned()));
        assert_eq!(set.remove(&network("10.1.2.3")), Some(2));
        assert_eq!((find(&set, "10.1.2.3"), set.len(), set.lengths.len()), (Some(1), 3, 3));
    }
}
