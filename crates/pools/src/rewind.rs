//! The figures of rewound workers, which lie behind the slots of a scoreboard (`millrace_wire::frames`, `FIGURES_*`).
//! Every script's process can write there: numbers may be absurd, and texts have to be made harmless.

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use millrace_sys::SharedWords;
use millrace_wire::frames::{
    FIGURES_ENDED, FIGURES_ENDING, FIGURES_IMAGES, FIGURES_KEY_BYTES, FIGURES_KEYS, FIGURES_KEYS_MOST,
    FIGURES_MADE, FIGURES_ORDINARY, FIGURES_PUT, FIGURES_PUT_NS, FIGURES_PUT_PAGES, FIGURES_REFUSAL,
    FIGURES_REWOUND, FIGURES_TEXT_BYTES,
};

use millrace_base::context::stats::RewindStatus;

/// Maximum number of keys in the status.
const KEYS_SHOWN: usize = 16;
/// Bytes before the characters of a text: version and time.
const TEXT_HEAD: usize = 16;

/// The figures of one scoreboard, added up slot by slot.
#[derive(Debug, Default)]
pub struct RewindSum {
    status: RewindStatus,
    refused_at: u64,
    ended_at: u64,
}

impl RewindSum {
    /// Adds the figures at `at`. A worker that does not run has no images.
    pub fn add(&mut self, words: &SharedWords, at: usize, runs: bool) {
        let get = |word: usize| words.u64_at(at + word).load(Ordering::Acquire);
        let status = &mut self.status;
        let mut put_ns = 0;
        for (sum, word) in [
            (&mut status.made, FIGURES_MADE),
            (&mut status.rewound, FIGURES_REWOUND),
            (&mut status.put, FIGURES_PUT),
            (&mut put_ns, FIGURES_PUT_NS),
            (&mut status.put_pages, FIGURES_PUT_PAGES),
            (&mut status.ended, FIGURES_ENDED),
        ] {
            *sum = sum.saturating_add(get(word));
        }
        status.put_time = status.put_time.saturating_add(Duration::from_nanos(put_ns));
        for (reason, sum) in status.ordinary.iter_mut().enumerate() {
            *sum = sum.saturating_add(get(FIGURES_ORDINARY + reason * 8));
        }
        if runs {
            status.images = status.images.saturating_add(get(FIGURES_IMAGES));
        }
        let text = |word: usize| text(words, at + word, FIGURES_TEXT_BYTES);
        keep_latest(&mut self.refused_at, &mut self.status.refusal, text(FIGURES_REFUSAL));
        keep_latest(&mut self.ended_at, &mut self.status.ending, text(FIGURES_ENDING));
        for key in 0..FIGURES_KEYS_MOST {
            self.add_key(words, at + FIGURES_KEYS + key * FIGURES_KEY_BYTES, runs);
        }
    }

    /// The sum.
    pub fn finish(mut self) -> RewindStatus {
        let keys = &mut self.status.keys;
        keys.sort_by_key(|key| std::cmp::Reverse((key.rewound, key.images)));
        keys.truncate(KEYS_SHOWN);
        self.status
    }

    fn add_key(&mut self, words: &SharedWords, at: usize, runs: bool) {
        let Some((_, text)) = text(words, at + 16, FIGURES_KEY_BYTES - 16) else { return };
        let mut lines = text.lines().map(harmless);
        let script = lines.next().unwrap_or_default();
        let images = words.u64_at(at).load(Ordering::Acquire);
        let rewound = words.u64_at(at + 8).load(Ordering::Acquire);
        self.status.add_key(&script, lines.collect(), if runs { images } else { 0 }, rewound);
    }
}

fn keep_latest(at: &mut u64, latest: &mut Option<String>, found: Option<(u64, String)>) {
    if let Some((when, text)) = found.filter(|(when, _)| latest.is_none() || when > at) {
        *at = when;
        *latest = Some(harmless(&text));
    }
}

/// A text of `bytes` bytes, and when it was written, milliseconds of CLOCK_MONOTONIC. `None`: there is none, or a worker is writing it.
fn text(words: &SharedWords, at: usize, bytes: usize) -> Option<(u64, String)> {
    let version = words.u64_at(at).load(Ordering::Acquire);
    if version == 0 || version % 2 == 1 {
        return None;
    }
    let when = words.u64_at(at + 8).load(Ordering::Relaxed);
    let mut text = Vec::with_capacity(bytes);
    for word in (at + TEXT_HEAD..at + bytes).step_by(8) {
        text.extend(words.u64_at(word).load(Ordering::Relaxed).to_ne_bytes());
    }
    fence(Ordering::Acquire);
    if words.u64_at(at).load(Ordering::Relaxed) != version {
        return None;
    }
    text.truncate(text.iter().position(|byte| *byte == 0).unwrap_or(text.len()));
    Some((when, String::from_utf8_lossy(&text).into_owned()))
}

/// A line without control characters, which a terminal would follow.
fn harmless(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;

    use millrace_wire::frames::{FIGURES_BYTES, REASON_KEY};

    use super::*;

    fn set(words: &SharedWords, at: usize, value: u64) {
        words.u64_at(at).store(value, SeqCst);
    }

    fn write(words: &SharedWords, at: usize, version: u64, when: u64, text: &str) {
        set(words, at, version);
        set(words, at + 8, when);
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len() / 8 * 8 + 8, 0);
        for (n, word) in bytes.chunks_exact(8).enumerate() {
            set(words, at + TEXT_HEAD + n * 8, u64::from_ne_bytes(word.try_into().unwrap()));
        }
    }

    fn sum(words: &SharedWords, runs: &[bool]) -> RewindStatus {
        let mut sum = RewindSum::default();
        runs.iter().enumerate().for_each(|(slot, runs)| sum.add(words, slot * FIGURES_BYTES, *runs));
        sum.finish()
    }

    #[test]
    fn slots_add_up() {
        let words = SharedWords::create("test", 2 * FIGURES_BYTES).unwrap();
        for at in [0, FIGURES_BYTES] {
            set(&words, at + FIGURES_IMAGES, 1);
            set(&words, at + FIGURES_REWOUND, 20);
            set(&words, at + FIGURES_ORDINARY + REASON_KEY as usize * 8, 3);
            set(&words, at + FIGURES_PUT, 5);
            set(&words, at + FIGURES_PUT_NS, 5_000_000);
            set(&words, at + FIGURES_PUT_PAGES, 50);
            set(&words, at + FIGURES_KEYS, 1);
            set(&words, at + FIGURES_KEYS + 8, 20);
            write(&words, at + FIGURES_KEYS + 16, 2, 1, "/srv/index.php\n$_COOKIE[a]\ngetenv(B)");
        }
        let status = sum(&words, &[true, false]);
        assert_eq!((status.images, status.rewound, status.ordinary_sum()), (1, 40, 6));
        assert_eq!(status.ordinary[REASON_KEY as usize], 6);
        assert_eq!((status.put_mean(), status.pages_mean()), (Duration::from_millis(1), 10));
        let [key] = &status.keys[..] else { panic!("{:?}", status.keys) };
        assert_eq!((&key.script[..], key.images, key.rewound), ("/srv/index.php", 1, 40));
        assert_eq!(key.reads, ["$_COOKIE[a]", "getenv(B)"]);
        assert_eq!(RewindStatus::default().put_mean(), Duration::ZERO);
    }

    #[test]
    fn the_latest_text_is_shown() {
        let words = SharedWords::create("test", 3 * FIGURES_BYTES).unwrap();
        assert_eq!(sum(&words, &[true; 3]), RewindStatus::default());
        write(&words, FIGURES_REFUSAL, 2, 1000, "first");
        write(&words, FIGURES_BYTES + FIGURES_REFUSAL, 4, 2000, "second\x1b[2J");
        write(&words, 2 * FIGURES_BYTES + FIGURES_REFUSAL, 5, 3000, "is being written");
        assert_eq!(sum(&words, &[true; 3]).refusal.as_deref(), Some("second?[2J"));
    }

    /// A script can write anything.
    #[test]
    fn nonsense_does_no_harm() {
        let words = SharedWords::create("test", 2 * FIGURES_BYTES).unwrap();
        for at in (0..2 * FIGURES_BYTES).step_by(8) {
            set(&words, at, u64::MAX - 1);
        }
        let status = sum(&words, &[true; 2]);
        assert_eq!((status.images, status.ordinary_sum()), (u64::MAX, u64::MAX));
        assert!(status.put_mean() > Duration::ZERO && status.keys.len() == 1);
    }
}
