//! Workers that wait for a request.

use crate::php::worker::Worker;

/// Idle workers: those that an event loop watches, by loop, and those that none does. The one that became idle last
/// is taken first: its memory is warm, and the others grow old and can end.
#[derive(Debug, Default)]
pub struct Idle {
    settled: Vec<Vec<Box<Worker>>>,
    loose: Vec<Box<Worker>>,
}

impl Idle {
    /// How many.
    pub fn len(&self) -> usize {
        self.loose.len() + self.settled.iter().map(Vec::len).sum::<usize>()
    }

    pub(super) fn put(&mut self, worker: Box<Worker>) {
        match worker.home() {
            None => self.loose.push(worker),
            Some(thread) => {
                if self.settled.len() <= thread {
                    self.settled.resize_with(thread + 1, Vec::new);
                }
                self.settled[thread].push(worker);
            }
        }
    }

    /// The best one for an event loop: its own, then nobody's, then another's.
    pub(super) fn take(&mut self, thread: usize) -> Option<Box<Worker>> {
        if let Some(worker) = self.settled.get_mut(thread).and_then(Vec::pop) {
            return Some(worker);
        }
        if let Some(worker) = self.loose.pop() {
            return Some(worker);
        }
        self.settled.iter_mut().max_by_key(|list| list.len())?.pop()
    }

    /// Takes out those that `choose` wants.
    pub fn take_if(&mut self, mut choose: impl FnMut(&Worker) -> bool) -> Vec<Box<Worker>> {
        let mut taken = Vec::new();
        for list in self.settled.iter_mut().chain([&mut self.loose]) {
            taken.extend(list.extract_if(.., |worker| choose(worker)));
        }
        taken
    }
}
