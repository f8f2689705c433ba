//! Networks of addresses, and sets of them that are searched by prefix.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// An address or a block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Network {
    /// Its first address as in IPv6; an IPv4 address is mapped (`::ffff:0:0/96`).
    first: u128,
    /// Length of its prefix, of 128 bits.
    bits: u8,
}

/// Bits before an IPv4 address.
const MAPPED: u8 = 96;
/// The well-known prefix of NAT64 (RFC 6052): the last 32 bits are the client's IPv4 address.
const NAT64: u128 = 0x0064_ff9b << 96;

impl Network {
    /// The block of this many bits, at most the family's, that contains `address`.
    #[must_use]
    pub fn new(address: IpAddr, bits: u8) -> Network {
        let (whole, bits) = match unwrapped(address) {
            IpAddr::V4(ip) => (ip.to_ipv6_mapped().to_bits(), MAPPED + bits.min(32)),
            IpAddr::V6(ip) => (ip.to_bits(), bits.min(128)),
        };
        Network { first: whole & mask(bits), bits }
    }

    /// What one client has: an IPv4 address, or a /64 of IPv6.
    #[must_use]
    pub fn client(address: IpAddr) -> Network {
        let address = unwrapped(address);
        Network::new(address, if address.is_ipv4() { 32 } else { 64 })
    }

    /// The network around a client: a /24, or a /48 of IPv6.
    #[must_use]
    pub fn around(address: IpAddr) -> Network {
        let address = unwrapped(address);
        Network::new(address, if address.is_ipv4() { 24 } else { 48 })
    }

    /// Its first address.
    #[must_use]
    pub fn first(&self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from_bits(self.first)).to_canonical()
    }

    /// A text that no other network has.
    pub(crate) fn key(&self) -> (u128, u8) {
        (self.first, self.bits)
    }
}

/// The address behind an IPv4-mapped or a NAT64 address.
fn unwrapped(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) if ip.to_bits() & mask(MAPPED) == NAT64 => IpAddr::V4((ip.to_bits() as u32).into()),
        address => address,
    }
}

fn mask(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first(), self.bits) {
            (first, 128) => write!(f, "{first}"),
            (IpAddr::V4(first), bits) if bits >= MAPPED => write!(f, "{first}/{}", bits - MAPPED),
            (_, bits) => write!(f, "{}/{bits}", Ipv6Addr::from_bits(self.first)),
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let wrong = || format!("{text:?} is no address: write 192.0.2.1, 192.0.2.0/24 or 2001:db8::/48");
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = length.map_or(Ok(most), |length| length.parse().map_err(|_| wrong()))?;
        if bits > most {
            return Err(wrong());
        }
        Ok(Network::new(address, bits))
    }
}

/// A set of networks, each with a value.
#[derive(Clone, Debug)]
pub struct Networks<V> {
    values: HashMap<Network, V>,
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
        let whole = Network::new(address, 128).first;
        self.lengths.keys().rev().find_map(|&bits| {
            let (network, value) = self.values.get_key_value(&Network { first: whole & mask(bits), bits })?;
            fits(value).then_some((*network, value))
        })
    }

    /// The value of exactly this network.
    #[must_use]
    pub fn get(&self, network: &Network) -> Option<&V> {
        self.values.get(network)
    }

    /// Adds a network, or replaces its value.
    pub fn insert(&mut self, network: Network, value: V) {
        if self.values.insert(network, value).is_none() {
            *self.lengths.entry(network.bits).or_default() += 1;
        }
    }

    /// Removes a network.
    pub fn remove(&mut self, network: &Network) -> Option<V> {
        let value = self.values.remove(network)?;
        if let Some(count) = self.lengths.get_mut(&network.bits) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&network.bits);
            }
        }
        Some(value)
    }

    /// All networks, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Network, &V)> {
        self.values.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn texts() {
        for (text, shown) in [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1/32", "192.0.2.1"),
            ("192.0.2.77/24", "192.0.2.0/24"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:db8::1", "2001:db8::1"),
            ("2001:db8::1/64", "2001:db8::/64"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("64:ff9b::192.0.2.1", "192.0.2.1"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(network(text).to_string(), shown);
        }
        for bad in ["", "a", "1.2.3", "1.2.3.4/33", "1.2.3.4/", "1.2.3.4/-1", "::/129", "1.2.3.4/8/9"] {
            let why = bad.parse::<Network>().unwrap_err();
            assert!(why.contains("write 192.0.2.1"), "{why}");
        }
    }

    #[test]
    fn a_client_of_ipv6_has_a_64_and_a_network_a_48() {
        let address: IpAddr = "2001:db8:1:2:3:4:5:6".parse().unwrap();
        assert_eq!(Network::client(address).to_string(), "2001:db8:1:2::/64");
        assert_eq!(Network::around(address).to_string(), "2001:db8:1::/48");
        let address: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(Network::client(address).to_string(), "192.0.2.1");
        assert_eq!(Network::around(address).to_string(), "192.0.2.0/24");
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
