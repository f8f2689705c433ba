//! Checks of passwords. bcrypt and argon2id take milliseconds: they run on a thread of their own, and their results are
//! remembered for a while.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;

use aws_lc_rs::{digest, hmac, rand};
use millrace_htaccess::password::Hash;
use millrace_wire::network::Network;

/// Maximum number of checks that wait in an event loop: more clients get 503.
const MOST_WAITING: usize = 64;

/// The same of one site: guesses at one leave room for the others.
const MOST_OF_SITE: usize = 24;

/// The same of one client address at one site: its guesses leave room for other visitors.
const MOST_OF_CLIENT: usize = 4;

/// Maximum number of remembered results.
const MOST_KNOWN: usize = 1000;

/// Results of checks in an event loop, by a keyed hash of user, password and stored hash: neither passwords nor
/// guesses stay in memory, and a changed password counts at once.
#[derive(Debug)]
pub struct Passwords(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    key: hmac::Key,
    known: RefCell<HashMap<Vec<u8>, bool>>,
    /// One check at a time, so that guesses take at most one core, and the memory of one argon2id hash.
    turn: tokio::sync::Semaphore,
    waiting: RefCell<Vec<PasswordWaiter>>,
}

/// For whom a check waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordWaiter {
    site: usize,
    client: Option<Network>,
}

impl PasswordWaiter {
    /// A client of the site with this position.
    pub fn new(site: usize, client: Option<IpAddr>) -> PasswordWaiter {
        PasswordWaiter { site, client: client.map(Network::client) }
    }

    /// Whether it may wait beside those that do.
    fn has_room(&self, waiting: &[PasswordWaiter]) -> bool {
        let of_site = waiting.iter().filter(|other| other.site == self.site).count();
        let of_client = waiting.iter().filter(|other| *other == self).count();
        waiting.len() < MOST_WAITING && of_site < MOST_OF_SITE && of_client < MOST_OF_CLIENT
    }
}

impl Default for Passwords {
    fn default() -> Passwords {
        let mut secret = [0; digest::SHA256_OUTPUT_LEN];
        // Without randomness the results are still right; only their names could be foreseen.
        let _ = rand::fill(&mut secret);
        Passwords(Rc::new(Inner {
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            known: RefCell::default(),
            turn: tokio::sync::Semaphore::new(1),
            waiting: RefCell::default(),
        }))
    }
}

/// A slow check.
#[derive(Debug)]
pub struct Check {
    name: Vec<u8>,
    hash: String,
    password: Vec<u8>,
}

impl Passwords {
    /// Whether `password` is that of a stored hash; or the slow check that finds out.
    ///
    /// # Errors
    /// The hash can't be used: what to do.
    pub fn look(&self, hash: &str, user: &str, password: &[u8]) -> Result<Result<bool, Check>, String> {
        let parsed = Hash::new(hash)?;
        if !parsed.is_slow() {
            return Ok(Ok(parsed.is_of(password)));
        }
        let named = [user.as_bytes(), b"\0", hash.as_bytes(), b"\0", password].concat();
        let name = hmac::sign(&self.0.key, &named).as_ref().to_vec();
        if let Some(is_right) = self.0.known.borrow().get(&name) {
            return Ok(Ok(*is_right));
        }
        Ok(Err(Check { name, hash: hash.to_owned(), password: password.to_vec() }))
    }

    /// Begins a check. `None`: too many are waiting.
    pub fn begin(&self, check: Check, waiter: PasswordWaiter) -> Option<Pin<Box<dyn Future<Output = ()>>>> {
        let place = WaitingPlace::new(self.0.clone(), waiter)?;
        Some(Box::pin(async move {
            let inner = &place.inner;
            let Ok(_turn) = inner.turn.acquire().await else { return };
            if inner.known.borrow().contains_key(&check.name) {
                return;
            }
            let Check { name, hash, password } = check;
            let run = move || Hash::new(&hash).is_ok_and(|hash| hash.is_of(&password));
            let is_right = tokio::task::spawn_blocking(run).await.unwrap_or(false);
            let mut known = inner.known.borrow_mut();
            if known.len() >= MOST_KNOWN {
                known.clear();
            }
            known.insert(name, is_right);
        }))
    }
}

/// A place among the waiting checks.
struct WaitingPlace {
    inner: Rc<Inner>,
    waiter: PasswordWaiter,
}

impl WaitingPlace {
    /// `None`: there is no room.
    fn new(inner: Rc<Inner>, waiter: PasswordWaiter) -> Option<WaitingPlace> {
        let has_room = waiter.has_room(&inner.waiting.borrow());
        has_room.then(|| {
            inner.waiting.borrow_mut().push(waiter);
            WaitingPlace { inner, waiter }
        })
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        let mut waiting = self.inner.waiting.borrow_mut();
        if let Some(at) = waiting.iter().position(|other| *other == self.waiter) {
            waiting.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client's guesses keep out neither others of its site nor other sites.
    #[test]
    fn guesses_leave_room_for_others() {
        let passwords = Passwords::default();
        let hash = "$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC";
        let mut places = Vec::new();
        let mut begins = |site, client: &str| {
            let guess = format!("guess {}", places.len());
            let Ok(Err(check)) = passwords.look(hash, "ann", guess.as_bytes()) else {
                panic!("no slow check")
            };
            let place = passwords.begin(check, PasswordWaiter::new(site, client.parse().ok()));
            let has_begun = place.is_some();
            places.extend(place);
            has_begun
        };
        let of_one = (0..100).filter(|_| begins(1, "192.0.2.1")).count();
        assert_eq!(of_one, MOST_OF_CLIENT);
        assert!(begins(1, "192.0.2.2"), "another client of the site");
        let of_network = (0..100).filter(|n| begins(1, &format!("2001:db8::{n:x}"))).count();
        assert_eq!(of_network, MOST_OF_CLIENT, "addresses of a network");
        let of_many = (0..100).filter(|n| begins(1, &format!("198.51.100.{n}"))).count();
        assert_eq!(of_one + 1 + of_network + of_many, MOST_OF_SITE);
        assert!(!begins(1, "203.0.113.1") && begins(2, "203.0.113.1"), "another site");
        places.clear();
        assert!(passwords.0.waiting.borrow().is_empty());
    }
}
