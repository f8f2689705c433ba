//! A bounded table of cookies: when it is full, one that was not used lately is evicted (CLOCK).

use std::collections::HashMap;

use super::member::MemberState;
use super::pass::CartState;
use super::{CookieState, Print};
use crate::Millis;

/// What is stored about a cookie.
#[derive(Clone, Debug)]
pub struct CookieEntry {
    /// Its state.
    pub state: CookieState,
    /// Until when the state is valid.
    pub until: Millis,
    /// The user; 0: unknown.
    pub tag: u64,
    /// Of a proven cart.
    pub cart: CartState,
    /// Of a proven login.
    pub member: MemberState,
}

#[derive(Debug)]
struct CookieSlot {
    print: Print,
    entry: CookieEntry,
    /// Used since the hand passed.
    used: bool,
}

/// A bounded table of entries.
#[derive(Debug)]
pub struct Shelf {
    most: usize,
    places: HashMap<Print, u32>,
    slots: Vec<Option<CookieSlot>>,
    free: Vec<u32>,
    hand: usize,
    evicted: u64,
}

/// Maximum number of used entries skipped in search of an unused one.
const STEPS: usize = 64;

impl Shelf {
    /// An empty table for `most` entries.
    pub fn new(most: usize) -> Shelf {
        let (places, slots, free) = (HashMap::new(), Vec::new(), Vec::new());
        Shelf { most: most.max(1), places, slots, free, hand: 0, evicted: 0 }
    }

    /// What is stored about a cookie.
    pub fn get(&mut self, print: Print) -> Option<CookieEntry> {
        let slot = self.slots[*self.places.get(&print)? as usize].as_mut()?;
        slot.used = true;
        Some(slot.entry.clone())
    }

    /// What is stored about a cookie, without marking it as used.
    pub fn peek(&self, print: Print) -> Option<&CookieEntry> {
        self.slots[*self.places.get(&print)? as usize].as_ref().map(|slot| &slot.entry)
    }

    /// Replaces what is stored about a proven cart.
    pub fn set_cart(&mut self, print: Print, cart: CartState) {
        if let Some(slot) = self.places.get(&print).and_then(|at| self.slots[*at as usize].as_mut()) {
            slot.entry.cart = cart;
        }
    }

    /// Replaces it for all carts for which `is_meant`.
    pub fn set_carts(&mut self, cart: &CartState, is_meant: impl Fn(&CartState) -> bool) {
        for slot in self.slots.iter_mut().flatten().filter(|slot| is_meant(&slot.entry.cart)) {
            slot.entry.cart = cart.clone();
        }
    }

    /// Replaces what is stored about a proven login.
    pub fn set_member(&mut self, print: Print, member: MemberState) {
        if let Some(slot) = self.places.get(&print).and_then(|at| self.slots[*at as usize].as_mut()) {
            slot.entry.member = member;
        }
    }

    /// All entries.
    pub fn entries_mut(&mut self) -> impl Iterator<Item = &mut CookieEntry> {
        self.slots.iter_mut().flatten().map(|slot| &mut slot.entry)
    }

    /// Stores an entry, replacing another one if necessary.
    pub fn put(&mut self, print: Print, entry: CookieEntry) {
        if let Some(slot) = self.places.get(&print).and_then(|at| self.slots[*at as usize].as_mut()) {
            slot.entry = entry;
            return;
        }
        if self.places.len() >= self.most {
            self.evict();
        }
        let slot = Some(CookieSlot { print, entry, used: false });
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.places.insert(print, at);
    }

    fn evict(&mut self) {
        for step in 0.. {
            self.hand = (self.hand + 1) % self.slots.len();
            let Some(slot) = &mut self.slots[self.hand] else { continue };
            if step >= STEPS || !std::mem::take(&mut slot.used) {
                let print = slot.print;
                self.remove(print);
                self.evicted += 1;
                return;
            }
        }
    }

    /// Removes a cookie.
    pub fn remove(&mut self, print: Print) {
        if let Some(at) = self.places.remove(&print) {
            self.slots[at as usize] = None;
            self.free.push(at);
        }
    }

    /// Removes all cookies with this tag.
    pub fn remove_tagged(&mut self, tag: u64) {
        let tagged = self.slots.iter().flatten().filter(|slot| slot.entry.tag == tag);
        let tagged: Vec<Print> = tagged.map(|slot| slot.print).collect();
        tagged.into_iter().for_each(|print| self.remove(print));
    }

    /// Removes all cookies.
    pub fn clear(&mut self) {
        self.places.clear();
        self.slots.clear();
        self.free.clear();
        self.hand = 0;
    }

    /// Number of cookies.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Number of evicted cookies.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }
}
