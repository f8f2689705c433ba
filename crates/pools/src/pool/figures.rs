//! The figures in `millrace status` about a pool's queue, and about the slowest scripts.

use std::time::Duration;

use crate::worker_handle::WorkerHandle;

/// Number of pieces of the last minute.
const PIECES: usize = 12;
/// Length of a piece, milliseconds.
const PIECE_MS: u64 = 60_000 / PIECES as u64;
/// A script that takes less is not slow, milliseconds.
const SLOW_MS: u64 = 100;
/// Maximum number of listed scripts.
const NAMED: usize = 8;
/// Older figures are forgotten, milliseconds; figures half as old may be.
const REMEMBERED_MS: u64 = 600_000;

/// A pool's queue in the last minute, and the refusals since the start.
#[derive(Debug, Default)]
pub struct QueueFigures {
    pieces: [TimeSlice; PIECES],
    /// Requests that were refused at once.
    pub refused: u64,
    /// Requests that had waited too long.
    pub late: u64,
    /// Requests that got a worker.
    pub served: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct TimeSlice {
    /// Which piece of time: milliseconds since the pool was created, divided by `PIECE_MS`.
    number: u64,
    waited: u64,
    sum_ms: u64,
    most_ms: u64,
}

/// Waiting times of the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Number of requests that waited.
    pub count: u64,
    /// Mean wait.
    pub mean: Duration,
    /// Longest wait.
    pub most: Duration,
}

impl QueueFigures {
    /// A request that arrived at `since` gets a worker now. Times are milliseconds since the pool was created.
    pub fn wait_is_over(&mut self, since: u64, now: u64) {
        let number = now / PIECE_MS;
        let piece = &mut self.pieces[(number % PIECES as u64) as usize];
        if piece.number != number {
            *piece = TimeSlice { number, ..TimeSlice::default() };
        }
        let waited = now.saturating_sub(since);
        piece.waited += 1;
        piece.sum_ms += waited;
        piece.most_ms = piece.most_ms.max(waited);
    }

    /// The last minute.
    pub fn waits(&self, now: u64) -> Waits {
        let first = (now / PIECE_MS).saturating_sub(PIECES as u64 - 1);
        let lately = || self.pieces.iter().filter(|piece| piece.number >= first);
        let count = lately().map(|piece| piece.waited).sum();
        let sum: u64 = lately().map(|piece| piece.sum_ms).sum();
        Waits {
            count,
            mean: Duration::from_millis(sum.checked_div(count).unwrap_or(0)),
            most: Duration::from_millis(lately().map(|piece| piece.most_ms).max().unwrap_or(0)),
        }
    }
}

/// The scripts that took longest lately.
#[derive(Debug, Default)]
pub struct Slowest {
    current: Vec<SlowFigure>,
    before: Vec<SlowFigure>,
    /// When `current` was begun, milliseconds.
    since: u64,
}

/// A slow script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowFigure {
    /// Its path.
    pub script: Vec<u8>,
    /// Host and path of the request. One script makes many pages.
    pub page: Vec<u8>,
    /// Longest duration.
    pub most: Duration,
    /// Slow runs.
    pub count: u64,
}

impl Slowest {
    /// A worker has finished its request.
    pub fn note(&mut self, handle: &WorkerHandle, now: u64) {
        let took = now.saturating_sub(handle.busy_since().unwrap_or(now));
        if took < SLOW_MS {
            return;
        }
        let task = handle.task();
        let page = [task.host.as_bytes(), task.path()].concat();
        self.note_run(&task.script, &page, took, now);
    }

    fn note_run(&mut self, script: &[u8], page: &[u8], took: u64, now: u64) {
        self.forget(now);
        let most = Duration::from_millis(took);
        if let Some(known) = self.current.iter_mut().find(|slow| slow.script == script && slow.page == page) {
            known.count += 1;
            known.most = known.most.max(most);
            return;
        }
        let slow = SlowFigure { script: script.to_vec(), page: page.to_vec(), most, count: 1 };
        if self.current.len() < NAMED {
            self.current.push(slow);
        } else if let Some(quickest) = self.current.iter_mut().min_by_key(|slow| slow.most)
            && quickest.most < most
        {
            *quickest = slow;
        }
    }

    fn forget(&mut self, now: u64) {
        if now.saturating_sub(self.since) >= REMEMBERED_MS {
            self.current.clear();
        }
        if now.saturating_sub(self.since) >= REMEMBERED_MS / 2 {
            self.before = std::mem::take(&mut self.current);
            self.since = now;
        }
    }

    /// The slow scripts, the slowest first.
    pub fn list(&mut self, now: u64) -> Vec<SlowFigure> {
        self.forget(now);
        let mut all = self.current.clone();
        for slow in &self.before {
            match all.iter_mut().find(|known| known.script == slow.script && known.page == slow.page) {
                Some(known) => {
                    known.count += slow.count;
                    known.most = known.most.max(slow.most);
                }
                None => all.push(slow.clone()),
            }
        }
        all.sort_by_key(|slow| std::cmp::Reverse(slow.most));
        all.truncate(NAMED);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_the_last_minute() {
        let mut figures = QueueFigures::default();
        assert_eq!(figures.waits(5), Waits::default());
        figures.wait_is_over(0, 1000);
        figures.wait_is_over(9_900, 10_000);
        let ms = Duration::from_millis;
        assert_eq!(figures.waits(10_000), Waits { count: 2, mean: ms(550), most: ms(1000) });
        assert_eq!(figures.waits(64_000), Waits { count: 1, mean: ms(100), most: ms(100) });
        figures.wait_is_over(60_000, 70_000);
        assert_eq!(figures.waits(71_000).count, 1, "the piece of a minute ago is used again");
        assert_eq!(figures.waits(200_000), Waits::default());
    }

    #[test]
    fn the_slowest_are_named() {
        let mut slowest = Slowest::default();
        for took in 0..20 {
            slowest.note_run(format!("/{took}.php").as_bytes(), b"a/", 100 + took, 1);
        }
        slowest.note_run(b"/19.php", b"a/", 500, 2);
        let list = slowest.list(3);
        assert_eq!((list.len(), &list[0].script[..], list[0].count), (NAMED, &b"/19.php"[..], 2));
        assert_eq!(list[0].most, Duration::from_millis(500));
        assert_eq!(list[7].script, b"/12.php");
        assert_eq!(slowest.list(REMEMBERED_MS / 2 + 1).len(), NAMED);
        slowest.note_run(b"/19.php", b"a/", 200, REMEMBERED_MS / 2 + 2);
        assert_eq!(slowest.list(REMEMBERED_MS / 2 + 3)[0].count, 3);
        assert_eq!(slowest.list(REMEMBERED_MS * 2).len(), 0);
    }
}
