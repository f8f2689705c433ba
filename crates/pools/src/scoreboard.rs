//! The scoreboard of a host: memory that server, host and workers share (`millrace_wire::frames` describes the
//! layout). Each word has one writer; the server writes `aborted`, and a whole slot while it is free. With `offered`,
//! server and worker agree on which of them has a request that was sent ahead.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use millrace_sys::SharedWords;
use millrace_wire::frames::{
    FIGURES_BYTES, FIGURES_IMAGES, FIGURES_MADE, PROTOCOL, RESTART_KEYS, RESTART_MEMORY, SCOREBOARD_FIGURES,
    SCOREBOARD_HEAD, SCOREBOARD_MAGIC, SCOREBOARD_OFF, SCOREBOARD_OFF_ALL, SCOREBOARD_OFF_MOST,
    SCOREBOARD_PURGES, SCOREBOARD_RESTART, SLOT_ABORTED, SLOT_ASKED_MS, SLOT_BYTES, SLOT_FINISHED,
    SLOT_OFFERED, SLOT_OFFERS, SLOT_PEAK, SLOT_PID, SLOT_RECEIVED, SLOT_REQUESTS, SLOT_RSS, SLOT_STARTED_MS,
    SLOT_STATE, SLOT_TERMINATE, STATE_EXITING, STATE_FREE, STATE_STARTING,
};

use super::rewind::RewindSum;
use millrace_base::context::stats::{OpcacheRestart, RewindStatus};

/// The scoreboard of one host.
#[derive(Debug)]
pub struct Scoreboard {
    words: SharedWords,
    /// Offset of the figures of rewound workers, if there are any.
    figures: Option<usize>,
    /// Slots that have had a worker: one more than the highest.
    used: AtomicU32,
}

impl Scoreboard {
    /// A new scoreboard with `slots` free slots; with room for the figures of rewound workers, or without.
    pub fn create(slots: u32, rewind: bool) -> io::Result<Scoreboard> {
        let end = SCOREBOARD_HEAD + slots as usize * SLOT_BYTES;
        let bytes = end + if rewind { slots as usize * FIGURES_BYTES } else { 0 };
        let figures = rewind.then_some(end);
        let words = SharedWords::create("millrace-php", bytes)?;
        for (at, value) in [SCOREBOARD_MAGIC, PROTOCOL, SLOT_BYTES as u32, slots].into_iter().enumerate() {
            words.u32_at(at * 4).store(value, Ordering::Release);
        }
        words.u64_at(SCOREBOARD_FIGURES).store(figures.unwrap_or(0) as u64, Ordering::Release);
        Ok(Scoreboard { words, figures, used: AtomicU32::new(0) })
    }

    /// Why opcache wants to restart, if it does.
    pub fn opcache_restart(&self) -> Option<OpcacheRestart> {
        match self.words.u64_at(SCOREBOARD_RESTART).load(Ordering::Acquire) {
            0 => None,
            RESTART_MEMORY => Some(OpcacheRestart::Memory),
            RESTART_KEYS => Some(OpcacheRestart::Keys),
            _ => Some(OpcacheRestart::Reset),
        }
    }

    /// Number of the last request that the worker has read completely.
    pub fn received(&self, slot: u32) -> u64 {
        self.get(slot, SLOT_RECEIVED)
    }

    /// Whether the response to the last request that the worker has read is complete.
    pub fn has_answered(&self, slot: u32) -> bool {
        self.get(slot, SLOT_FINISHED) == self.get(slot, SLOT_RECEIVED)
    }

    /// Tells the worker that the response to this request is no longer wanted.
    pub fn abort(&self, slot: u32, sequence: u64) {
        self.words.u64_at(at(slot, SLOT_ABORTED)).store(sequence, Ordering::Release);
    }

    /// Tells the worker that this request has reached its time limit.
    pub fn terminate(&self, slot: u32, sequence: u64) {
        self.words.u64_at(at(slot, SLOT_TERMINATE)).store(sequence, Ordering::Release);
    }

    /// Whether the worker has not yet begun to end this request.
    pub fn is_terminating(&self, slot: u32, sequence: u64) -> bool {
        self.get(slot, SLOT_TERMINATE) == sequence
    }

    /// Age to which the script of this request has extended its time (`set_time_limit()`), milliseconds; `u64::MAX`: it wants no limit.
    pub fn asked(&self, slot: u32, sequence: u64) -> Option<u64> {
        Some(self.get(slot, SLOT_ASKED_MS)).filter(|asked| *asked != 0 && self.received(slot) == sequence)
    }

    /// Allows the worker to take this request, which is about to be sent, when it has finished the current one.
    pub fn offer(&self, slot: u32, sequence: u64) {
        self.words.u64_at(at(slot, offered(sequence))).store(sequence * 2, Ordering::Release);
    }

    /// Takes an offer back; false if the worker has taken it.
    pub fn take_back(&self, slot: u32, sequence: u64) -> bool {
        let word = self.words.u64_at(at(slot, offered(sequence)));
        let swapped = word.compare_exchange(sequence * 2, 0, Ordering::AcqRel, Ordering::Acquire);
        swapped != Err(sequence * 2 + 1)
    }

    /// Whether the worker has taken this request.
    pub fn is_taken(&self, slot: u32, sequence: u64) -> bool {
        self.get(slot, offered(sequence)) == sequence * 2 + 1
    }

    /// Acts as a worker that takes this request.
    #[cfg(test)]
    pub fn take(&self, slot: u32, sequence: u64) {
        let word = self.words.u64_at(at(slot, offered(sequence)));
        let swapped =
            word.compare_exchange(sequence * 2, sequence * 2 + 1, Ordering::AcqRel, Ordering::Acquire);
        assert!(swapped.is_ok());
    }

    /// Whether this request is offered and not taken.
    #[cfg(test)]
    pub fn is_offered(&self, slot: u32, sequence: u64) -> bool {
        self.get(slot, offered(sequence)) == sequence * 2
    }

    /// One of `STATE_*`.
    pub fn state(&self, slot: u32) -> u32 {
        self.words.u32_at(at(slot, SLOT_STATE)).load(Ordering::Acquire)
    }

    /// Resident memory, bytes, as the worker last measured it.
    pub fn rss(&self, slot: u32) -> u64 {
        self.get(slot, SLOT_RSS)
    }

    /// What rewound workers have done since the start of the host; `None`: there are none.
    pub fn rewind(&self) -> Option<RewindStatus> {
        let figures = self.figures?;
        let mut sum = RewindSum::default();
        for slot in 0..self.used.load(Ordering::Relaxed) {
            let runs = !matches!(self.state(slot), STATE_FREE | STATE_STARTING | STATE_EXITING);
            sum.add(&self.words, figures + slot as usize * FIGURES_BYTES, runs);
        }
        Some(sum.finish())
    }

    /// Whether the worker has an image of a boot.
    pub fn has_image(&self, slot: u32) -> bool {
        let word = |start: usize| start + slot as usize * FIGURES_BYTES + FIGURES_IMAGES;
        self.figures.is_some_and(|start| self.words.u64_at(word(start)).load(Ordering::Relaxed) > 0)
    }

    /// How many images the workers in this slot have made.
    pub fn images_made(&self, slot: u32) -> u64 {
        let word = |start: usize| start + slot as usize * FIGURES_BYTES + FIGURES_MADE;
        self.figures.map_or(0, |start| self.words.u64_at(word(start)).load(Ordering::Relaxed))
    }

    /// Has workers use no images of this class any more; of none, if these have become too many.
    pub fn switch_off(&self, class: u64) {
        let word = |at: usize| self.words.u64_at(SCOREBOARD_OFF + at * 8);
        let has = |at: &usize| matches!(word(*at).load(Ordering::Acquire), off if off == class || off == 0);
        match (0..SCOREBOARD_OFF_MOST).find(has) {
            Some(at) => word(at).store(class, Ordering::Release),
            None => word(0).store(SCOREBOARD_OFF_ALL, Ordering::Release),
        }
    }

    /// Tells rewound workers how often pages have been purged.
    pub fn set_purges(&self, orders: u64) {
        self.words.u64_at(SCOREBOARD_PURGES).fetch_max(orders, Ordering::AcqRel);
    }

    /// Clears a free slot, for a worker that is about to be forked.
    pub fn prepare(&self, slot: u32) {
        self.used.fetch_max(slot + 1, Ordering::Relaxed);
        for word in [
            SLOT_RECEIVED,
            SLOT_FINISHED,
            SLOT_ABORTED,
            SLOT_TERMINATE,
            SLOT_STARTED_MS,
            SLOT_ASKED_MS,
            SLOT_REQUESTS,
            SLOT_RSS,
            SLOT_PEAK,
        ] {
            self.words.u64_at(at(slot, word)).store(0, Ordering::Relaxed);
        }
        for sequence in 0..SLOT_OFFERS as u64 {
            self.words.u64_at(at(slot, offered(sequence))).store(0, Ordering::Relaxed);
        }
        self.words.u32_at(at(slot, SLOT_PID)).store(0, Ordering::Relaxed);
        self.words.u32_at(at(slot, SLOT_STATE)).store(STATE_STARTING, Ordering::Release);
    }

    /// Marks a slot as free.
    pub fn free(&self, slot: u32) {
        self.words.u32_at(at(slot, SLOT_STATE)).store(STATE_FREE, Ordering::Release);
    }

    fn get(&self, slot: u32, word: usize) -> u64 {
        self.words.u64_at(at(slot, word)).load(Ordering::Acquire)
    }
}

impl AsFd for Scoreboard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.words.as_fd()
    }
}

/// The word by which server and worker agree on which of them has an offered request.
fn offered(sequence: u64) -> usize {
    SLOT_OFFERED + sequence as usize % SLOT_OFFERS * 8
}

fn at(slot: u32, word: usize) -> usize {
    SCOREBOARD_HEAD + slot as usize * SLOT_BYTES + word
}
