//! Requests that take long: they are noted with PHP's backtrace; those whose time is up are ended, and killed if they
//! don't end by that.
//!
//! ```text
//!  runs ── php.slow_log ──> noted ── 4/5 of its time ──> noted ── its time ──> told to end
//!     told again every 250 ms, by the host, which gets it out of calls that begin again after a signal, and ends
//!     programs that it waits for
//!     ── php.terminate_grace later ──> killed
//! ```

use std::sync::Arc;

use super::super::card::Card;
use super::super::trace::Trace;
use super::{Chores, Supervisor};

/// How long the host may take to say where a worker is, milliseconds.
const TRACE_MS: u64 = 1_000;
/// How often a worker is told that the time of its request is up, milliseconds.
const URGE_MS: u64 = 250;

/// A request that takes long.
pub(super) struct Slow {
    card: Arc<Card>,
    sequence: u64,
    since: u64,
    /// What it is, for the log.
    about: String,
    /// When it is to be noted next, milliseconds after `since`.
    note_at: Option<u64>,
    /// When the host was asked where it is.
    asked: Option<u64>,
    /// When it was told that its time is up.
    ended: Option<u64>,
    /// When it was told last.
    urged: u64,
}

impl Slow {
    /// Whether the worker still has this request.
    fn goes_on(&self) -> bool {
        self.card.sequence() == self.sequence && self.card.busy_since() == Some(self.since)
    }
}

impl Supervisor {
    /// Whether there is something to do about a worker, under the pool's lock.
    pub(super) fn judge(&self, card: &Arc<Card>, killing: bool, chores: &mut Chores) {
        let Some(since) = card.busy_since() else { return };
        let age = self.now().saturating_sub(since);
        if killing {
            chores.kill.push(card.clone());
        } else if self.notes(card.limit()).into_iter().flatten().any(|first| first <= age) {
            chores.slow.push(card.clone());
        }
    }

    /// After how long a request of that limit is noted, milliseconds.
    fn notes(&self, limit: Option<u64>) -> [Option<u64>; 2] {
        let set = self.shared.settings.slow_log.as_millis() as u64;
        [(set > 0).then_some(set), limit.map(|limit| limit / 5 * 4)]
    }

    /// Does what is due about requests that take long.
    pub(super) fn see_to_slow(&mut self, cards: &[Arc<Card>]) {
        let now = self.now();
        for card in cards {
            // Before all that is known of it: see [`Card`].
            let sequence = card.sequence();
            let Some(since) = card.busy_since() else { continue };
            if !self.slow.iter().any(|slow| Arc::ptr_eq(&slow.card, card) && slow.sequence == sequence) {
                let note_at = self.notes(card.limit()).into_iter().flatten().min();
                let (about, asked, ended) = (card.task().to_string(), None, None);
                let card = card.clone();
                self.slow.push(Slow { card, sequence, since, about, note_at, asked, ended, urged: 0 });
            }
        }
        let mut all = std::mem::take(&mut self.slow);
        all.retain_mut(|slow| {
            let goes_on = slow.goes_on();
            if slow.asked.is_some_and(|asked| !goes_on || asked + TRACE_MS <= now) {
                slow.asked = None;
                self.note(slow, now, &Trace::default());
            }
            if goes_on {
                self.see_to(slow, now);
            }
            goes_on
        });
        self.slow = all;
    }

    fn see_to(&self, slow: &mut Slow, now: u64) {
        let (age, limit) = (now.saturating_sub(slow.since), slow.card.limit());
        if limit.is_some_and(|limit| limit <= age) {
            self.end(slow, now);
        } else if slow.note_at.is_some_and(|at| at <= age) {
            slow.card.set_slow(slow.sequence);
            slow.note_at = self.notes(limit).into_iter().flatten().filter(|at| *at > age).min();
            match self.host_of(&slow.card).map(|host| host.trace(slow.card.slot)) {
                Some(Ok(())) => slow.asked = Some(now),
                _ => self.note(slow, now, &Trace::default()),
            }
        }
    }

    /// Its time is up.
    fn end(&self, slow: &mut Slow, now: u64) {
        let card = &slow.card;
        let grace = self.shared.settings.terminate_grace;
        match slow.ended {
            None => {
                self.shared.log.error(format_args!(
                    "{} exceeded its time limit after {}: terminating its script (PHP worker {}); see \
                     php.request_timeout",
                    slow.about,
                    seconds(now - slow.since),
                    card.pid()
                ));
                slow.ended = Some(now);
                slow.urged = now;
                card.terminate(slow.sequence);
                if grace.is_zero() {
                    card.kill();
                }
            }
            Some(ended) if ended + grace.as_millis() as u64 <= now => {
                if !card.is_killed() {
                    self.shared.log.error(format_args!(
                        "{} is still running {} after its time limit: killing PHP worker {}; see php.terminate_grace",
                        slow.about,
                        seconds(now - ended),
                        card.pid()
                    ));
                }
                card.kill();
            }
            Some(ended) if slow.urged + URGE_MS <= now => {
                slow.urged = now;
                let waits = card.scoreboard.is_terminating(card.slot, slow.sequence);
                // What it has started in its last words does not outlive it, either.
                let at_last = ended + grace.as_millis() as u64 <= now + URGE_MS;
                // Not both: a worker that has just been interrupted is in no call that the host could see.
                match self.host_of(card) {
                    Some(host) if waits || at_last => host.let_go(card.slot, at_last),
                    None if waits => card.urge(),
                    _ => (),
                }
            }
            Some(_) => (),
        }
    }

    /// The host has said where a worker is.
    pub(super) fn traced(&mut self, slot: u32, pid: u32, sequence: u64, text: &[u8]) {
        let now = self.now();
        let mut all = std::mem::take(&mut self.slow);
        let asked = all.iter_mut().find(|slow| {
            let card = &slow.card;
            (card.slot, card.pid(), slow.sequence) == (slot, pid, sequence) && slow.asked.is_some()
        });
        if let Some(slow) = asked {
            slow.asked = None;
            self.note(slow, now, &Trace::read(text));
        }
        self.slow = all;
    }

    /// Notes a slow request.
    fn note(&self, slow: &Slow, now: u64, trace: &Trace) {
        let waits = trace.waits().map(|what| format!("; waiting {what}")).unwrap_or_default();
        self.shared.log.warn(format_args!(
            "slow: {} has been running for {} (PHP worker {}){waits}{trace}",
            slow.about,
            seconds(now.saturating_sub(slow.since)),
            slow.card.pid()
        ));
    }
}

/// Milliseconds as people read them.
fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}
