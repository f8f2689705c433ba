//! Workers that wait for a request.

use super::fits::Suits;
use crate::worker::Worker;

/// Idle workers: one list per event loop that watches them, and one of unwatched workers. The worker that became idle
/// last is taken first: its memory is warm, and the others age and can end.
#[derive(Debug, Default)]
pub struct Idle {
    settled: Vec<Vec<Box<Worker>>>,
    loose: Vec<Box<Worker>>,
}

impl Idle {
    /// Their number.
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

    /// The best one for an event loop: its own, then an unwatched one, then another loop's; in each list first one
    /// whose niceness already fits. `lowers`: a worker with more niceness fits as well.
    pub(super) fn take(&mut self, thread: usize, nice: u8, lowers: bool) -> Option<Box<Worker>> {
        let same = |list: &[Box<Worker>]| list.iter().rposition(|worker| worker.nice == nice);
        let nearly = |list: &[Box<Worker>]| {
            let less = list.iter().enumerate().filter(|(_, worker)| worker.nice < nice);
            less.max_by_key(|(_, worker)| worker.nice).map(|(at, _)| at)
        };
        if lowers {
            return self.take_by(thread, |list| same(list).or_else(|| list.len().checked_sub(1)));
        }
        // Workers with less niceness are saved for requests that can't use the others.
        self.take_by(thread, same).or_else(|| self.take_by(thread, nearly))
    }

    /// The best one of those that `can` run it where workers are rewound, for a request of this kind: one with an image that fits or may
    /// fit, one without an image, or the one that was idle for longest. With how it suits.
    pub(super) fn take_suited(
        &mut self,
        thread: usize,
        can: impl Fn(&Worker) -> bool,
        suits: impl Fn(&Worker) -> Suits,
    ) -> Option<(Box<Worker>, Suits)> {
        for wanted in [Suits::Fits, Suits::Untried, Suits::Empty] {
            let is_wanted = |worker: &Worker| can(worker) && suits(worker) == wanted;
            let find = |list: &[Box<Worker>]| list.iter().rposition(|worker| is_wanted(worker));
            if let Some(worker) = self.take_by(thread, find) {
                return Some((worker, wanted));
            }
        }
        let oldest = self.take_by(thread, |list| list.iter().position(|worker| can(worker)))?;
        Some((oldest, Suits::Misfit))
    }

    fn take_by(
        &mut self,
        thread: usize,
        fit: impl Fn(&[Box<Worker>]) -> Option<usize>,
    ) -> Option<Box<Worker>> {
        if let Some(list) = self.settled.get_mut(thread)
            && let Some(at) = fit(list)
        {
            return Some(list.remove(at));
        }
        if let Some(at) = fit(&self.loose) {
            return Some(self.loose.remove(at));
        }
        let others = self.settled.iter_mut().filter_map(|list| Some((fit(list)?, list)));
        let (at, list) = others.max_by_key(|(_, list)| list.len())?;
        Some(list.remove(at))
    }

    /// Whether one of them has no image of a boot.
    pub fn has_empty(&self) -> bool {
        self.settled.iter().chain([&self.loose]).flatten().any(|worker| !worker.handle.has_image())
    }

    /// How many could run a request with this niceness.
    pub fn fitting(&self, nice: u8, lowers: bool) -> usize {
        let all = self.settled.iter().chain([&self.loose]).flatten();
        all.filter(|worker| lowers || worker.nice <= nice).count()
    }

    /// Takes out the workers that `choose` selects.
    pub fn take_if(&mut self, mut choose: impl FnMut(&Worker) -> bool) -> Vec<Box<Worker>> {
        let mut taken = Vec::new();
        for list in self.settled.iter_mut().chain([&mut self.loose]) {
            taken.extend(list.extract_if(.., |worker| choose(worker)));
        }
        taken
    }
}
