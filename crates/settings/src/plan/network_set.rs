//! A set of networks, for lists of thousands: sorted ranges of addresses.

use std::net::IpAddr;

use super::Peers;

/// Networks of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkSet {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
    unix: bool,
}

impl NetworkSet {
    /// No network.
    pub const EMPTY: Self = Self { v4: Vec::new(), v6: Vec::new(), unix: false };

    /// The set of these networks.
    #[must_use]
    pub fn new(peers: &[Peers]) -> NetworkSet {
        let mut set = NetworkSet::default();
        for peers in peers {
            let Peers::In(network) = peers else {
                set.unix = true;
                continue;
            };
            let bits = network.bits().into();
            match network.first() {
                IpAddr::V4(first) => {
                    let rest = u32::MAX.checked_shr(bits).unwrap_or(0);
                    set.v4.push((first.to_bits(), first.to_bits() | rest));
                }
                IpAddr::V6(first) => {
                    let rest = u128::MAX.checked_shr(bits).unwrap_or(0);
                    set.v6.push((first.to_bits(), first.to_bits() | rest));
                }
            }
        }
        set.v4 = merged(set.v4);
        set.v6 = merged(set.v6);
        set
    }

    /// Whether a client is in one of them; `None`: it uses a Unix socket. An IPv4 address mapped into IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(&self, client: Option<IpAddr>) -> bool {
        match client.map(|ip| ip.to_canonical()) {
            None => self.unix,
            Some(IpAddr::V4(ip)) => is_in(&self.v4, ip.to_bits()),
            Some(IpAddr::V6(ip)) => is_in(&self.v6, ip.to_bits()),
        }
    }
}

/// Ranges in their order, without overlaps.
fn merged<T: Ord + Copy>(mut ranges: Vec<(T, T)>) -> Vec<(T, T)> {
    ranges.sort_unstable();
    let mut merged: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if first <= before.1 => before.1 = before.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

fn is_in<T: Ord>(ranges: &[(T, T)], value: T) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= value);
    after > 0 && ranges[after - 1].1 >= value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_one_of_its_networks_holds() {
        let block = |text: &str| Peers::In(text.parse().unwrap());
        let mut seed = 7u32;
        let mut random = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 8
        };
        let mut networks: Vec<Peers> = (0..200)
            .map(|_| block(&format!("10.{}.{}.0/{}", random() % 4, random() % 256, 20 + random() % 13)))
            .collect();
        networks.extend([block("2001:db8::/32"), block("0.0.0.0/32")]);
        let set = NetworkSet::new(&networks);
        for _ in 0..20_000 {
            let ip: IpAddr =
                format!("10.{}.{}.{}", random() % 5, random() % 256, random() % 256).parse().unwrap();
            assert_eq!(set.contains(Some(ip)), networks.iter().any(|network| network.contains(ip)), "{ip}");
        }
        for (ip, is_in) in
            [("2001:db8:1::1", true), ("2001:db9::", false), ("::ffff:0.0.0.0", true), ("0.0.0.1", false)]
        {
            assert_eq!(set.contains(Some(ip.parse().unwrap())), is_in, "{ip}");
        }
        assert!(!set.contains(None) && NetworkSet::new(&[Peers::Unix]).contains(None));
        assert!(NetworkSet::new(&[block("0.0.0.0/0")]).contains(Some("255.1.2.3".parse().unwrap())));
    }

    #[test]
    fn the_families_are_apart() {
        let all = |network: &str| NetworkSet::new(&[Peers::In(network.parse().unwrap())]);
        let has = |set: &NetworkSet, ip: &str| set.contains(Some(ip.parse().unwrap()));
        let v6 = all("::/0");
        assert!(
            has(&v6, "::1") && !has(&v6, "192.0.2.1") && !has(&v6, "::ffff:192.0.2.1") && !v6.contains(None)
        );
        let v4 = all("0.0.0.0/0");
        assert!(!has(&v4, "::1") && has(&v4, "192.0.2.1"));
        assert!(!has(&NetworkSet::EMPTY, "127.0.0.1") && !NetworkSet::EMPTY.contains(None));
    }
}
