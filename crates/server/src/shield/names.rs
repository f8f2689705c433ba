//! The host names of crawlers whose operators publish domains instead of networks: an address is such a crawler's if its name in DNS is of the
//! domain, and that name has the address. Anyone can give an address of his own any name, but not a name of others an address.
//!
//! DNS is asked by a thread of its own. No request waits for it: until the answer is there, the client is a client like any other.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a name is taken for the address's, and how long an address counts as one without a name.
const NAMED: Duration = Duration::from_secs(6 * 3600);
const NAMELESS: Duration = Duration::from_secs(900);
/// Maximum number of addresses that are known; those with a name stay longest.
const MOST: usize = 10_000;
/// Maximum number of addresses that wait to be asked for. Others are asked for when they come again.
const WAITING: usize = 256;

/// The two questions to DNS.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dns {
    name_of: fn(IpAddr) -> io::Result<String>,
    addresses_of: fn(&str) -> io::Result<Vec<IpAddr>>,
}

/// What is known of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostName {
    /// DNS has not answered yet.
    Unknown,
    /// It has no name, or one that is not its own.
    Nameless,
    /// Its name, in lower case, without the dot at the end.
    Is(Arc<str>),
}

/// What is known of addresses.
#[derive(Debug)]
pub(super) struct HostNames {
    dns: Dns,
    known: Arc<Mutex<KnownNames>>,
    /// To the thread, which the first question starts; `None`: it could not be started.
    questions: OnceLock<Option<SyncSender<IpAddr>>>,
}

/// Addresses with what is known of each, and until when.
type KnownNames = HashMap<IpAddr, (HostName, Instant)>;

impl HostName {
    /// Whether it is a host of one of the domains; `None`: that is not known yet.
    pub(super) fn is_below(&self, domains: &[Box<str>]) -> Option<bool> {
        let name = match self {
            HostName::Unknown => return None,
            HostName::Nameless => return Some(false),
            HostName::Is(name) => name,
        };
        let is_host_of = |domain: &str| name.strip_suffix(domain).is_some_and(|host| host.ends_with('.'));
        Some(domains.iter().any(|domain| is_host_of(domain)))
    }
}

impl Default for HostNames {
    fn default() -> HostNames {
        HostNames::asking(Dns { name_of, addresses_of })
    }
}

impl HostNames {
    fn asking(dns: Dns) -> HostNames {
        HostNames { dns, known: Arc::default(), questions: OnceLock::new() }
    }

    /// What is known of an address at `now`.
    pub(super) fn known(&self, address: IpAddr, now: Instant) -> HostName {
        let known = lock(&self.known);
        known
            .get(&address)
            .filter(|(_, until)| *until > now)
            .map_or(HostName::Unknown, |(name, _)| name.clone())
    }

    /// The same; has DNS asked for an address that is not known.
    pub(super) fn ask(&self, address: IpAddr, now: Instant) -> HostName {
        let mut known = lock(&self.known);
        if let Some((name, until)) = known.get(&address)
            && *until > now
        {
            return name.clone();
        }
        // It waits, and is not asked for again meanwhile.
        if make_room(&mut known, now) && self.questions().is_some_and(|to| to.try_send(address).is_ok()) {
            known.insert(address, (HostName::Unknown, now + NAMELESS));
        }
        HostName::Unknown
    }

    fn questions(&self) -> Option<&SyncSender<IpAddr>> {
        let start = || {
            let (sender, receiver) = sync_channel(WAITING);
            let (dns, known) = (self.dns, self.known.clone());
            let thread = thread::Builder::new().name("shield-names".to_owned());
            thread.spawn(move || answer(dns, &receiver, &known)).ok().map(|_| sender)
        };
        self.questions.get_or_init(start).as_ref()
    }
}

/// Asks for one address after the other, until the shield is gone.
fn answer(dns: Dns, questions: &Receiver<IpAddr>, known: &Mutex<KnownNames>) {
    for address in questions {
        let name = own_name(dns, address);
        let time = if name == HostName::Nameless { NAMELESS } else { NAMED };
        lock(known).insert(address, (name, Instant::now() + time));
    }
}

/// The name of an address that has the address itself (RFC 1912 section 2.1).
fn own_name(dns: Dns, address: IpAddr) -> HostName {
    let Ok(name) = (dns.name_of)(address) else { return HostName::Nameless };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let is_own = (dns.addresses_of)(&name).is_ok_and(|all| all.contains(&address));
    if is_own { HostName::Is(name.into()) } else { HostName::Nameless }
}

/// Whether there is room for another address. Those without a name leave first: anybody can come from many of them.
fn make_room(known: &mut KnownNames, now: Instant) -> bool {
    if known.len() >= MOST {
        known.retain(|_, (name, until)| *until > now && matches!(name, HostName::Is(_)));
    }
    known.len() < MOST
}

fn lock(known: &Mutex<KnownNames>) -> MutexGuard<'_, KnownNames> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name_of(address: IpAddr) -> io::Result<String> {
    Ok(dns_lookup::lookup_addr(&address)?)
}

fn addresses_of(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok(dns_lookup::lookup_host(name)?.map(|address| address.to_canonical()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRAWLER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    const DNS: Dns = Dns {
        name_of: |address| match address.to_string().as_str() {
            "192.0.2.1" => Ok("Bot-1.Search.example.".to_owned()),
            "192.0.2.2" => Ok("bot-1.search.example".to_owned()), // a forged one
            "192.0.2.3" => Ok("bot.evilsearch.example".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        },
        addresses_of: |name| match name {
            "bot-1.search.example" => Ok(vec![[192, 0, 2, 77].into(), CRAWLER]),
            "bot.evilsearch.example" => Ok(vec![address(3)]),
            _ => Err(io::ErrorKind::NotFound.into()),
        },
    };

    #[test]
    fn a_name_has_to_have_the_address() {
        let is = |last| own_name(DNS, address(last)).is_below(&["search.example".into()]);
        assert_eq!([1, 2, 3, 4].map(is), [Some(true), Some(false), Some(false), Some(false)]);
        assert_eq!(HostName::Is("search.example".into()).is_below(&["search.example".into()]), Some(false));
        assert_eq!(HostName::Unknown.is_below(&["search.example".into()]), None);
    }

    #[test]
    fn the_answer_comes_later_and_is_kept_for_a_while() {
        let (names, now) = (HostNames::asking(DNS), Instant::now());
        assert_eq!(names.known(CRAWLER, now), HostName::Unknown);
        assert_eq!(names.ask(CRAWLER, now), HostName::Unknown);
        while names.known(CRAWLER, now) == HostName::Unknown {
            thread::yield_now();
        }
        assert_eq!(names.ask(CRAWLER, now), HostName::Is("bot-1.search.example".into()));
        assert_eq!(names.known(CRAWLER, now + NAMED * 2), HostName::Unknown);
    }

    #[test]
    fn addresses_without_a_name_leave_first() {
        let (mut known, now) = (KnownNames::new(), Instant::now());
        let later = now + NAMED;
        for number in 0..MOST as u32 {
            known.insert(std::net::Ipv4Addr::from(number).into(), (HostName::Nameless, later));
        }
        known.insert(CRAWLER, (HostName::Is("a".into()), later));
        assert!(make_room(&mut known, now));
        assert_eq!(known.len(), 1);
    }
}
