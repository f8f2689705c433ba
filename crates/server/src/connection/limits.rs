//! Limits on the number of connections of a listener, in total and from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use millrace_base::context::budget::{Budget, Holding, PLAIN_BYTES};

/// Maximum number of connections being shed at once: they end in a moment, unless they are slow on purpose.
const MOST_SHED: usize = 256;

/// The limits of one listening address, shared by the sockets that all threads have on it.
#[derive(Debug)]
pub struct ConnectionLimits {
    most: AtomicUsize,
    most_per_address: AtomicUsize,
    is_natural: AtomicBool,
    open: AtomicUsize,
    shed: AtomicUsize,
    /// Only used while there is a limit per address. Locked for one lookup.
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

/// Maximum numbers of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// Per listener.
    pub connections: usize,
    /// From one address; 0: no limit.
    pub per_address: usize,
    /// It is not configured: it follows from the number of descriptors.
    pub is_natural: bool,
}

impl ConnectionLimits {
    /// With this maximum.
    pub fn new(most: Most) -> Arc<ConnectionLimits> {
        let limits = ConnectionLimits {
            most: AtomicUsize::default(),
            most_per_address: AtomicUsize::default(),
            is_natural: AtomicBool::default(),
            open: AtomicUsize::new(0),
            shed: AtomicUsize::new(0),
            by_address: Mutex::default(),
        };
        limits.change(most);
        Arc::new(limits)
    }

    /// Sets other limits; existing connections beyond them stay.
    pub fn change(&self, most: Most) {
        self.most.store(most.connections, Ordering::Relaxed);
        self.most_per_address.store(most.per_address, Ordering::Relaxed);
        self.is_natural.store(most.is_natural, Ordering::Relaxed);
    }

    /// Whether the limit follows from the number of descriptors.
    pub fn is_natural(&self) -> bool {
        self.is_natural.load(Ordering::Relaxed)
    }

    /// Whether no further connection should be accepted: it stays in the kernel's queue.
    pub fn is_full(&self) -> bool {
        self.open.load(Ordering::Relaxed) >= self.most.load(Ordering::Relaxed)
    }

    /// Whether the maximum of connections is being shed: the next one stays in the kernel's queue, too.
    pub fn is_at_shed_limit(&self) -> bool {
        self.shed.load(Ordering::Relaxed) >= MOST_SHED
    }

    /// A permit for a connection from `address`; `None` if that address has too many.
    pub fn admit(self: &Arc<ConnectionLimits>, address: Option<IpAddr>) -> Option<ConnectionPermit> {
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
        Some(ConnectionPermit { limits: self.clone(), counted, other: None, holding: None, is_shed: false })
    }
}

/// A connection's permit; dropped with the connection.
#[derive(Debug)]
pub struct ConnectionPermit {
    limits: Arc<ConnectionLimits>,
    counted: Option<IpAddr>,
    /// A second permit, for another event loop.
    other: Option<Box<ConnectionPermit>>,
    /// Its part of the memory for connections.
    holding: Option<Holding>,
    /// It is being shed.
    is_shed: bool,
}

impl ConnectionPermit {
    /// The same, with a connection's fixed memory charged to `budget`.
    pub fn charged(mut self, budget: &Arc<Budget>) -> ConnectionPermit {
        self.holding = Some(Holding::new(budget, PLAIN_BYTES));
        self
    }

    /// The same for a connection that is shed.
    pub fn for_shedding(mut self) -> ConnectionPermit {
        self.is_shed = true;
        self.limits.shed.fetch_add(1, Ordering::Relaxed);
        self
    }

    /// Whether it is shed: its request gets a 503 response.
    pub fn is_shed(&self) -> bool {
        self.is_shed
    }

    /// Adds to the connection's fixed memory, bytes.
    pub fn grow(&self, bytes: u64) {
        if let Some(holding) = &self.holding {
            holding.grow(bytes);
        }
    }

    /// Sets the current memory beyond the fixed part, bytes.
    pub fn hold(&self, bytes: u64) {
        if let Some(holding) = &self.holding {
            holding.set(bytes);
        }
    }

    /// The connection is about to end: releases its memory. Returns how much that was.
    pub fn give_back(&self) -> u64 {
        self.holding.as_ref().map_or(0, Holding::give_back)
    }

    /// Joins both permits.
    pub fn and(mut self, other: ConnectionPermit) -> ConnectionPermit {
        self.other = Some(Box::new(other));
        self
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limits.open.fetch_sub(1, Ordering::Relaxed);
        if self.is_shed {
            self.limits.shed.fetch_sub(1, Ordering::Relaxed);
        }
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
        let limits = ConnectionLimits::new(Most { connections: 2, per_address: 1, is_natural: false });
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

    #[test]
    fn shed_connections_are_few_and_cost_what_others_cost() {
        let limits = ConnectionLimits::new(Most { connections: 1000, ..Most::default() });
        let budget = Budget::new(PLAIN_BYTES);
        let one = limits.admit(None).unwrap().charged(&budget);
        assert!(budget.is_full() && !one.is_shed());
        let shed_one = || limits.admit(None).unwrap().for_shedding().charged(&budget);
        let shed: Vec<ConnectionPermit> = (0..MOST_SHED).map(|_| shed_one()).collect();
        assert!(limits.is_at_shed_limit() && shed[0].is_shed());
        assert_eq!(budget.used(), (MOST_SHED as u64 + 1) * PLAIN_BYTES);
        drop(shed);
        assert!(!limits.is_at_shed_limit());
        assert_eq!(budget.used(), PLAIN_BYTES);
        assert_eq!((one.give_back(), budget.used()), (PLAIN_BYTES, 0));
    }
}
