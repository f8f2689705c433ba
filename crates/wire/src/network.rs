//! Networks of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address or a block of addresses, of IPv4 or of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

/// The first 96 bits of a NAT64 address (RFC 6052): the last 32 are the client's IPv4 address.
const NAT64: u128 = 0x0064_ff9b << 96;

impl Network {
    /// The block with a prefix of this many bits, at most the family's, that contains `address`.
    #[must_use]
    pub fn new(address: IpAddr, bits: u8) -> Network {
        let bits = bits.min(full(address));
        let after = u32::from(full(address) - bits);
        let first = match address {
            IpAddr::V4(ip) => {
                Ipv4Addr::from_bits(ip.to_bits() & u32::MAX.checked_shl(after).unwrap_or(0)).into()
            }
            IpAddr::V6(ip) => {
                Ipv6Addr::from_bits(ip.to_bits() & u128::MAX.checked_shl(after).unwrap_or(0)).into()
            }
        };
        Network { first, bits }
    }

    /// What one client has: an IPv4 address, or a /64 of IPv6 (RFC 6177 section 2).
    #[must_use]
    pub fn client(address: IpAddr) -> Network {
        let address = untranslated(address);
        Network::new(address, if address.is_ipv4() { 32 } else { 64 })
    }

    /// The network around a client: a /24, or a /48 of IPv6.
    #[must_use]
    pub fn around(address: IpAddr) -> Network {
        let address = untranslated(address);
        Network::new(address, if address.is_ipv4() { 24 } else { 48 })
    }

    /// Its first address.
    #[must_use]
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// Length of its prefix, bits.
    #[must_use]
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Whether an address is in it. One of IPv4 that is mapped into IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        Network::new(address.to_canonical(), self.bits) == *self
    }
}

/// The address behind an IPv4-mapped or a NAT64 address.
#[must_use]
pub fn untranslated(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) if ip.to_bits() >> 32 << 32 == NAT64 => IpAddr::V4((ip.to_bits() as u32).into()),
        address => address,
    }
}

/// Length of an address, bits.
fn full(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits == full(self.first) {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}/{}", self.first, self.bits),
        }
    }
}

/// Bits after the prefix are ignored; of a translated address, the one behind it counts.
impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let wrong = || format!("{text:?} is no address: write 192.0.2.1, 192.0.2.0/24 or 2001:db8::/48");
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = length.map_or(Ok(full(address)), |length| length.parse().map_err(|_| wrong()))?;
        if bits > full(address) {
            return Err(wrong());
        }
        Ok(Network::new(untranslated(address), bits))
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
        for translated in ["::ffff:192.0.2.1", "64:ff9b::192.0.2.1"] {
            let address: IpAddr = translated.parse().unwrap();
            assert_eq!(Network::client(address).to_string(), "192.0.2.1");
            assert_eq!(Network::around(address).to_string(), "192.0.2.0/24");
        }
    }

    #[test]
    fn addresses_of_a_network() {
        for (own, address, is_in) in [
            ("10.1.0.0/16", "10.1.255.255", true),
            ("10.1.0.0/16", "10.2.0.0", false),
            ("10.1.0.0/16", "::ffff:10.1.2.3", true),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.2", false),
            ("0.0.0.0/0", "255.1.2.3", true),
            ("0.0.0.0/0", "::1", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
            ("::/0", "ffff::", true),
            ("::/0", "192.0.2.1", false),
            ("::/0", "::ffff:192.0.2.1", false),
        ] {
            assert_eq!(network(own).contains(address.parse().unwrap()), is_in, "{own} {address}");
        }
        let mapped = Network::new("::ffff:10.0.0.0".parse().unwrap(), 104);
        assert!(
            !mapped.contains("10.0.0.0".parse().unwrap()),
            "addresses of IPv4 are in networks of IPv4 alone"
        );
    }
}
