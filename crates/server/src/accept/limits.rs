//! How many connections a listener may have, and how many of them from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The limits of one listening address, shared by the sockets that all threads have on it.
#[derive(Debug)]
pub struct Limits {
    most: AtomicUsize,
    most_per_address: AtomicUsize,
    open: AtomicUsize,
    /// Only used while there is a limit per address. Held for one look-up.
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

impl Limits {
    /// At most `most` connections, `most_per_address` from one address (0: no limit).
    pub fn new(most: usize, most_per_address: usize) -> Arc<Limits> {
        Arc::new(Limits {
            most: AtomicUsize::new(most),
            most_per_address: AtomicUsize::new(most_per_address),
            open: AtomicUsize::new(0),
            by_address: Mutex::default(),
        })
    }

    /// Other limits from now on; connections over them stay.
    pub fn change(&self, most: usize, most_per_address: usize) {
        self.most.store(most, Ordering::Relaxed);
        self.most_per_address.store(most_per_address, Ordering::Relaxed);
    }

    /// Whether no further connection should be accepted: it waits in the kernel's queue.
    pub fn is_full(&self) -> bool {
        self.open.load(Ordering::Relaxed) >= self.most.load(Ordering::Relaxed)
    }

    /// A place for a connection from `address`; `None` if that address has too many.
    pub fn admit(self: &Arc<Limits>, address: Option<IpAddr>) -> Option<Permit> {
        let most = self.most_per_address.load(Ordering::Relaxed);
        let counted = address.filter(|_| most > 0);
        if let Some(address) = counted {
            let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
            let open = by_address.entry(address).or_default();
            if *open >= most {
                return None;
            }
            *open += 1;
        }
        self.open.fetch_add(1, Ordering::Relaxed);
        Some(Permit { limits: self.clone(), counted, other: None })
    }
}

/// A connection's place; dropped with the connection.
#[derive(Debug)]
pub struct Permit {
    limits: Arc<Limits>,
    counted: Option<IpAddr>,
    /// A place elsewhere that it has as well.
    other: Option<Box<Permit>>,
}

impl Permit {
    /// Both places in one.
    pub fn and(mut self, other: Permit) -> Permit {
        self.other = Some(Box::new(other));
        self
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limits.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(address) = self.counted {
            let mut by_address = self.limits.by_address.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(open) = by_address.get_mut(&address) {
                *open -= 1;
                if *open == 0 {
                    by_address.remove(&address);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_back() {
        let limits = Limits::new(2, 1);
        let (a, b): (IpAddr, IpAddr) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        let first = limits.admit(Some(a)).unwrap();
        assert!(limits.admit(Some(a)).is_none());
        let second = limits.admit(Some(b)).unwrap();
        assert!(limits.is_full());
        drop(first);
        assert!(!limits.is_full());
        assert!(limits.admit(Some(a)).is_some());
        drop(second);
        assert_eq!(limits.by_address.lock().unwrap().len(), 0);
    }
}
