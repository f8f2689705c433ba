use std::net::IpAddr;

use super::Network;

/// Networks of peers. A look-up takes as many steps as the binary logarithm of their number: a CDN has hundreds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkSet {
    /// Whether it has all peers on Unix sockets.
    unix: bool,
    /// First and last addresses of IPv4, in their order, without overlaps.
    v4: Vec<(u128, u128)>,
    /// The same of IPv6.
    v6: Vec<(u128, u128)>,
}

impl NetworkSet {
    /// No network.
    pub const EMPTY: Self = Self { unix: false, v4: Vec::new(), v6: Vec::new() };

    /// The set of these networks.
    #[must_use]
    pub fn new(networks: &[Network]) -> Self {
        let mut set = Self::default();
        for network in networks {
            match *network {
                Network::Unix => set.unix = true,
                Network::Block(IpAddr::V4(first), length) => {
                    set.v4.push(range(u128::from(first.to_bits()), 32 - u32::from(length)));
                }
                Network::Block(IpAddr::V6(first), length) => {
                    set.v6.push(range(first.to_bits(), 128 - u32::from(length)));
                }
            }
        }
        set.v4 = disjoint(set.v4);
        set.v6 = disjoint(set.v6);
        set
    }

    /// Whether it has no network.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.unix && self.v4.is_empty() && self.v6.is_empty()
    }

    /// Whether a peer is in one of the networks; `None`: it is on a Unix socket. An IPv4 address mapped into IPv6 counts as
    /// IPv4.
    #[must_use]
    pub fn contains(&self, peer: Option<IpAddr>) -> bool {
        match peer.map(|ip| ip.to_canonical()) {
            None => self.unix,
            Some(IpAddr::V4(ip)) => has(&self.v4, u128::from(ip.to_bits())),
            Some(IpAddr::V6(ip)) => has(&self.v6, ip.to_bits()),
        }
    }
}

/// The addresses that differ from `address` in the last `bits` only.
fn range(address: u128, bits: u32) -> (u128, u128) {
    let rest = 1_u128.checked_shl(bits).map_or(u128::MAX, |size| size - 1);
    (address & !rest, address | rest)
}

fn disjoint(mut ranges: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    ranges.sort_unstable();
    // Networks overlap only if one contains the other.
    ranges.dedup_by(|later, before| later.1 <= before.1);
    ranges
}

fn has(ranges: &[(u128, u128)], address: u128) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= address);
    after.checked_sub(1).is_some_and(|at| address <= ranges[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(networks: &[&str]) -> NetworkSet {
        let block = |text: &&str| match text.split_once('/') {
            Some((first, length)) => Network::Block(first.parse().unwrap(), length.parse().unwrap()),
            None => Network::Unix,
        };
        NetworkSet::new(&networks.iter().map(block).collect::<Vec<_>>())
    }

    fn has(set: &NetworkSet, ip: &str) -> bool {
        set.contains(Some(ip.parse().unwrap()))
    }

    #[test]
    fn has_the_first_and_last_address_of_each_network_and_no_other() {
        let set = set(&[
            "10.1.0.0/16",
            "10.1.2.0/24",
            "192.0.2.7/32",
            "2001:db8::/32",
            "10.3.0.0/16",
            "10.1.255.0/24",
        ]);
        for ip in [
            "10.1.0.0",
            "10.1.255.255",
            "10.1.3.1",
            "10.3.0.0",
            "192.0.2.7",
            "::ffff:10.1.0.1",
            "2001:db8:ffff::",
        ] {
            assert!(has(&set, ip), "{ip}");
        }
        for ip in [
            "10.0.255.255",
            "10.2.0.0",
            "10.4.0.0",
            "192.0.2.6",
            "192.0.2.8",
            "2001:db7:ffff::",
            "::",
            "0.0.0.0",
        ] {
            assert!(!has(&set, ip), "{ip}");
        }
        assert!(!set.contains(None));
    }

    #[test]
    fn the_families_are_apart() {
        let all = set(&["::/0"]);
        assert!(has(&all, "::1") && !has(&all, "192.0.2.1") && !has(&all, "::ffff:192.0.2.1"));
        let all = set(&["0.0.0.0/0"]);
        assert!(!has(&all, "::1") && has(&all, "192.0.2.1"));
        let unix = set(&["unix"]);
        assert!(unix.contains(None) && !has(&unix, "127.0.0.1") && !unix.is_empty());
        assert!(set(&[]).is_empty());
    }
}
