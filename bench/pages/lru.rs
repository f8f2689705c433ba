//! What the store is compared with: the least recently used goes first.

use std::collections::HashMap;

const NONE: usize = usize::MAX;

/// A plain LRU with a byte budget.
pub struct Lru {
    budget: usize,
    used: usize,
    places: HashMap<u32, usize>,
    nodes: Vec<Node>,
    free: Vec<usize>,
    newest: usize,
    oldest: usize,
}

struct Node {
    number: u32,
    bytes: usize,
    newer: usize,
    older: usize,
}

impl Lru {
    pub fn new(budget: usize) -> Lru {
        let (places, nodes, free) = Default::default();
        Lru { budget, used: 0, places, nodes, free, newest: NONE, oldest: NONE }
    }

    /// Whether it is there; it is the newest afterwards.
    pub fn touch(&mut self, number: u32, bytes: impl FnOnce() -> usize) -> bool {
        if let Some(&at) = self.places.get(&number) {
            self.unlink(at);
            self.link(at);
            return true;
        }
        let node = Node { number, bytes: bytes(), newer: NONE, older: NONE };
        self.used += node.bytes;
        let at = self.free.pop().unwrap_or(self.nodes.len());
        if at == self.nodes.len() {
            self.nodes.push(node);
        } else {
            self.nodes[at] = node;
        }
        self.places.insert(number, at);
        self.link(at);
        while self.used > self.budget {
            let oldest = self.oldest;
            self.unlink(oldest);
            self.used -= self.nodes[oldest].bytes;
            self.places.remove(&self.nodes[oldest].number);
            self.free.push(oldest);
        }
        false
    }

    fn link(&mut self, at: usize) {
        (self.nodes[at].newer, self.nodes[at].older) = (NONE, self.newest);
        match self.newest {
            NONE => self.oldest = at,
            newest => self.nodes[newest].newer = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: usize) {
        let (newer, older) = (self.nodes[at].newer, self.nodes[at].older);
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older].newer = newer,
        }
    }
}
