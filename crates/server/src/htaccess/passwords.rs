//! Checks of passwords. bcrypt and argon2id take milliseconds: they run on a thread of their own, and their results are
//! remembered for a while.

use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;

use aws_lc_rs::{digest, hmac, rand};
use millrace_htaccess::password::Hash;

/// Maximum number of checks that wait in an event loop: more clients get 503.
const MOST_WAITING: usize = 32;

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
    waiting: std::cell::Cell<usize>,
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
            waiting: std::cell::Cell::new(0),
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
    pub fn begin(&self, check: Check) -> Option<Pin<Box<dyn Future<Output = ()>>>> {
        let inner = self.0.clone();
        if inner.waiting.get() >= MOST_WAITING {
            return None;
        }
        let place = WaitingPlace::new(inner);
        Some(Box::pin(async move {
            let inner = &place.0;
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
struct WaitingPlace(Rc<Inner>);

impl WaitingPlace {
    fn new(inner: Rc<Inner>) -> WaitingPlace {
        inner.waiting.set(inner.waiting.get() + 1);
        WaitingPlace(inner)
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}
