//! In which countries visitors are, as far as pages depend on that: WooCommerce shows each country its own prices and taxes.
//!
//! Such a page varies by [`COUNTRY`], as if that was a field of the request. Two sources say a visitor's country:
//!
//! - a trusted proxy, by a field that WooCommerce reads: [`named`];
//! - PHP, which looks the address up in a database and reports the result ([`PlaceReport`]); [`Places`] remembers it.
//!
//! If neither does, the visitor's pages come from PHP. A client can't choose what is remembered: PHP reports only what it has found for
//! the address from which the server has got the request.

use std::collections::HashMap;
use std::net::IpAddr;

use millrace_wire::network::Network;

use crate::Millis;

/// The name in [`crate::Terms::vary`] of pages that differ by country. It is no name of a field.
pub const COUNTRY: &str = ":country";

/// How long a country is remembered for an address: providers publish their databases weekly, and may correct an entry.
pub const REMEMBERED: Millis = 3600 * 1000;

/// Maximum number of networks that are remembered, about 50 bytes each.
pub const MOST: usize = 65_536;

/// Length of a whole address of either family, or more, bits.
const WHOLE: u8 = 128;

/// A country in two letters or digits, as ISO 3166 and Cloudflare (`T1`, `XX`) name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Country([u8; 2]);

impl Country {
    /// In upper case, as WooCommerce takes it. `None`: it is no country.
    pub fn parse(text: &[u8]) -> Option<Country> {
        let letters: [u8; 2] = text.trim_ascii().try_into().ok()?;
        letters
            .iter()
            .all(u8::is_ascii_alphanumeric)
            .then(|| Country(letters.map(|b| b.to_ascii_uppercase())))
    }

    /// Its two letters.
    pub fn letters(&self) -> &[u8] {
        &self.0
    }
}

/// What the fields of a request say about its country.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// Nothing: the address decides.
    No,
    /// This country; whether that counts depends on who sent it.
    Country(Country),
    /// Something that is no country.
    Unclear,
}

/// Reads the fields from which WooCommerce takes the country, in its order (`WC_Geolocation::get_country_code_from_headers`).
pub fn named<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone) -> Named {
    for wanted in ["cf-ipcountry", "x-country-code"] {
        let mut values = fields.clone().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let Some((_, value)) = values.next() else { continue };
        if values.next().is_some() {
            return Named::Unclear;
        }
        // What PHP takes as empty.
        if !matches!(value, b"" | b"0") {
            return Country::parse(value).map_or(Named::Unclear, Named::Country);
        }
    }
    Named::No
}

/// Whether WooCommerce takes a `User-Agent` for a crawler's: it shows the shop's own country to them.
pub fn is_crawler(agent: &[u8]) -> bool {
    let agent = agent.to_ascii_lowercase();
    ["bot", "spider", "crawl"].iter().any(|word| memchr::memmem::find(&agent, word.as_bytes()).is_some())
}

/// PHP has found a country for the client's address: `place country=DE [network=BITS]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceReport {
    /// The country.
    pub country: Country,
    /// So many bits of the address decide: its whole network is in this country. `None`: this address alone.
    pub network: Option<u8>,
}

impl PlaceReport {
    /// Reads a note about the visitor. `None`: it says something else.
    pub fn parse(text: &[u8]) -> Option<PlaceReport> {
        let mut parts = text.strip_prefix(b"place ")?.split(|byte| *byte == b' ');
        let country = Country::parse(parts.next()?.strip_prefix(b"country=")?)?;
        let network = match parts.next() {
            Some(part) => Some(std::str::from_utf8(part.strip_prefix(b"network=")?).ok()?.parse().ok()?),
            None => None,
        };
        Some(PlaceReport { country, network })
    }
}

/// Countries of addresses: two generations, of which the older one goes when the newer one is full.
#[derive(Debug, Default)]
pub struct Places {
    newer: HashMap<Network, (Country, Millis)>,
    older: HashMap<Network, (Country, Millis)>,
}

impl Places {
    /// Remembers a report about an address.
    pub fn note(&mut self, address: IpAddr, report: PlaceReport, now: Millis) {
        // The largest network that is remembered and lies within the reported one.
        let length =
            lengths(address).into_iter().find(|length| report.network.is_some_and(|bits| bits <= *length));
        let place = Network::new(address, length.unwrap_or(WHOLE));
        if self.newer.len() >= MOST / 2 && !self.newer.contains_key(&place) {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(place, (report.country, now + REMEMBERED));
    }

    /// The country of an address, if it is known.
    pub fn country(&self, address: IpAddr, now: Millis) -> Option<Country> {
        // What is known of the address itself is more exact.
        [WHOLE].into_iter().chain(lengths(address).into_iter().rev()).find_map(|length| {
            let place = Network::new(address, length);
            let (country, until) = self.newer.get(&place).or_else(|| self.older.get(&place))?;
            (now < *until).then_some(*country)
        })
    }

    /// Number of networks.
    pub fn len(&self) -> usize {
        self.newer.len() + self.older.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Lengths of networks that are remembered, in bits, besides whole addresses; the larger networks first.
fn lengths(address: IpAddr) -> [u8; 2] {
    if address.is_ipv4() { [16, 24] } else { [48, 64] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn country(text: &str) -> Country {
        Country::parse(text.as_bytes()).unwrap()
    }

    fn report(text: &str) -> PlaceReport {
        PlaceReport::parse(text.as_bytes()).unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn countries_that_fields_name() {
        let read = |fields: &[(&'static str, &'static str)]| {
            named(fields.iter().map(|(name, value)| (*name, value.as_bytes())))
        };
        assert_eq!(read(&[("Accept", "DE")]), Named::No);
        assert_eq!(read(&[("CF-IPCountry", "de")]), Named::Country(country("DE")));
        assert_eq!(read(&[("X-Country-Code", "T1"), ("cf-ipcountry", "0")]), Named::Country(country("T1")));
        assert_eq!(read(&[("X-Country-Code", "CH"), ("cf-ipcountry", "AT")]), Named::Country(country("AT")));
        for unclear in ["DEU", "D", "D\u{c4}", "D-", "DE, AT"] {
            assert_eq!(read(&[("X-Country-Code", unclear)]), Named::Unclear, "{unclear}");
        }
        assert_eq!(read(&[("CF-IPCountry", "DE"), ("CF-IPCountry", "DE")]), Named::Unclear);
        assert!(
            is_crawler(b"Mozilla/5.0 (compatible; GoogleBot/2.1)")
                && is_crawler(b"a Spider")
                && !is_crawler(b"Firefox")
        );
    }

    #[test]
    fn reports_that_are_understood() {
        assert_eq!(report("place country=DE"), PlaceReport { country: country("DE"), network: None });
        assert_eq!(report("place country=de network=20").network, Some(20));
        for other in [
            "",
            "none",
            "place",
            "place country=DEU",
            "place country=DE network=x",
            "place network=24",
            "place country=DE bits=3",
        ] {
            assert_eq!(PlaceReport::parse(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn an_address_alone_unless_its_network_is_known() {
        let mut places = Places::default();
        places.note(ip("192.0.2.7"), report("place country=DE"), 0);
        assert_eq!(places.country(ip("192.0.2.7"), 1), Some(country("DE")));
        assert_eq!(places.country(ip("192.0.2.8"), 1), None);
        // A network of 2^12 addresses: what is remembered lies within it.
        places.note(ip("198.51.100.1"), report("place country=FR network=20"), 0);
        assert_eq!(places.country(ip("198.51.100.250"), 1), Some(country("FR")));
        assert_eq!(places.country(ip("198.51.101.1"), 1), None);
        places.note(ip("198.51.100.9"), report("place country=CH network=29"), 0);
        assert_eq!(places.country(ip("198.51.100.9"), 1), Some(country("CH")), "the more exact one");
        assert_eq!(places.country(ip("198.51.100.10"), 1), Some(country("FR")));
        places.note(ip("203.0.113.1"), report("place country=IT network=8"), 0);
        assert_eq!(places.country(ip("203.0.200.1"), 1), Some(country("IT")));
        assert_eq!(places.country(ip("203.1.0.1"), 1), None);
        places.note(ip("2001:db8:1:2::3"), report("place country=SE network=44"), 0);
        assert_eq!(places.country(ip("2001:db8:1:ffff::9"), 1), Some(country("SE")));
        assert_eq!(places.country(ip("2001:db8:2::9"), 1), None);
        places.note(ip("2001:db8:9:2::3"), report("place country=NO network=60"), 0);
        assert_eq!(places.country(ip("2001:db8:9:2::9"), 1), Some(country("NO")));
        assert_eq!(places.country(ip("2001:db8:9:3::9"), 1), None);
        // Not an IPv4 address with the same bits.
        assert_eq!(places.country(ip("::c000:207"), 1), None);
    }

    #[test]
    fn it_is_bounded_in_time_and_number() {
        let mut places = Places::default();
        places.note(ip("192.0.2.7"), report("place country=DE"), 0);
        assert_eq!(places.country(ip("192.0.2.7"), REMEMBERED - 1), Some(country("DE")));
        assert_eq!(places.country(ip("192.0.2.7"), REMEMBERED), None);
        places.note(ip("192.0.2.7"), report("place country=AT"), REMEMBERED);
        assert_eq!(places.country(ip("192.0.2.7"), REMEMBERED), Some(country("AT")), "the last one counts");
        for n in 0..2 * MOST as u32 {
            places.note(IpAddr::from((n + (10 << 24)).to_be_bytes()), report("place country=US"), REMEMBERED);
            assert!(places.len() <= MOST);
        }
        assert!(places.len() > MOST / 2 && !places.is_empty());
        let last = IpAddr::from((2 * MOST as u32 - 1 + (10 << 24)).to_be_bytes());
        assert_eq!(places.country(last, REMEMBERED), Some(country("US")));
    }
}
