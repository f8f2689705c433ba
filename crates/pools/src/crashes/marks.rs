//! Evidence against requests, and for them: deaths and successful ends, counted for each digest of a [`Print`].
//!
//! A mark is forgotten when no worker has died from it for the length of the pause. Successful ends make up for
//! deaths, [`PAID`] for each: where workers crash now and then, whatever is requested, no request is refused.

use std::collections::{HashMap, HashSet, VecDeque};

use super::line::SuspectClass;
use super::{Blame, Print};

/// Deaths after which a request is not run and its page is suspect.
pub const KILLS: u32 = 2;
/// Deaths, on any pages of a script, after which a client is suspect on all of them.
const ROAMS: u32 = 3;
/// Successful ends that make up for one death.
const PAID: u32 = 10;
/// A request resembles those that killed if they share a trait in at least one of this many deaths; less is chance.
/// All deaths together also count as this number: a scale that doesn't grow with them, because requests that arrive
/// at different times are compared.
const PARTS: u32 = 16;
/// The longest pause, as a multiple of the first.
const LONGEST: u64 = 16;
/// Maximum number of digests. Beyond it, the digests with the fewest deaths are forgotten, the oldest first.
const MOST: usize = 2048;
/// Maximum number of remembered requests that ended successfully while they were suspect.
const TRUSTED: usize = 4096;
/// Interval between removals of expired marks, milliseconds.
const SWEEP_MS: u64 = 1_000;

/// Marks by digest. Times are milliseconds since a fixed moment.
#[derive(Debug)]
pub struct Marks {
    marks: HashMap<u64, Mark>,
    trusted: HashSet<u64>,
    /// The same digests, oldest first.
    trusted_since: VecDeque<u64>,
    /// The first pause, milliseconds; 0: crashes are not noted.
    pause: u64,
    swept: u64,
}

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashVerdict {
    /// Run it as usual.
    Free,
    /// It may kill its worker; the number says how much it resembles requests that did.
    Suspect(SuspectClass, u32),
    /// Don't run it.
    Refuse,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    deaths: u32,
    goods: u32,
    /// When the last death was.
    last: u64,
    /// Time until which the request is not run; 0: it has never been refused.
    until: u64,
    /// Length of the last refusal, milliseconds.
    pause: u64,
}

impl Mark {
    /// Number of deaths counted against it.
    fn heat(&self) -> u32 {
        if self.deaths.saturating_mul(PAID) > self.goods { self.deaths } else { 0 }
    }

    fn died(&mut self, now: u64) {
        self.deaths = self.deaths.saturating_add(1);
        self.last = now;
    }

    fn is_over(&self, now: u64, pause: u64) -> bool {
        now >= (self.last + pause).max(self.until + self.pause)
    }

    /// A request has killed again: returns how long it is not run.
    fn refuse(&mut self, now: u64, first: u64) -> Option<u64> {
        if now < self.until {
            // It was already running when it was refused.
            return None;
        }
        // After a refusal the request is on trial, for as long as it was refused.
        let on_trial = self.until != 0;
        if !on_trial && self.heat() < KILLS {
            return None;
        }
        self.pause = if on_trial { (self.pause * 2).min(first * LONGEST) } else { first };
        self.until = now + self.pause;
        Some(self.pause)
    }
}

impl Marks {
    /// Without marks; `pause` is the first pause in milliseconds, 0 for never.
    pub fn new(pause: u64) -> Marks {
        Marks {
            marks: HashMap::new(),
            trusted: HashSet::new(),
            trusted_since: VecDeque::new(),
            pause,
            swept: 0,
        }
    }

    /// A worker died from a request; `None` if this is not noted.
    pub fn died(&mut self, print: &Print, now: u64) -> Option<Blame> {
        if self.pause == 0 {
            return None;
        }
        let was_suspect = self.heat(print.page) >= KILLS;
        if let Some(exact) = print.exact
            && self.trusted.remove(&exact)
        {
            self.mark(distrust(print.page), now).died(now);
        }
        for digest in print.common() {
            self.mark(digest, now).died(now);
        }
        let first = self.pause;
        let request = print.exact.and_then(|exact| {
            let mark = self.mark(exact, now);
            mark.died(now);
            let refused = mark.refuse(now, first).is_some();
            Some(*mark).filter(|_| refused)
        });
        if let Some(Mark { until, pause, .. }) = request {
            // The script is watched for as long as the request is on trial.
            let script = self.mark(print.script, now);
            (script.until, script.pause) = (until, pause);
        }
        let request = request.map(|mark| mark.pause);
        let page = (!was_suspect && self.heat(print.page) >= KILLS).then_some(first);
        self.bound();
        Some(Blame { request, page })
    }

    /// A request has been served, and its worker lives.
    pub fn ended_well(&mut self, print: &Print, now: u64) {
        for digest in print.common().chain(print.exact) {
            if let Some(mark) = self.marks.get_mut(&digest).filter(|mark| !mark.is_over(now, self.pause)) {
                mark.goods = mark.goods.saturating_add(1);
            }
        }
        let Some(exact) = print.exact.filter(|exact| !self.marks.contains_key(exact)) else { return };
        if self.trusted.insert(exact) {
            self.trusted_since.push_back(exact);
        }
        while self.trusted_since.len() > TRUSTED {
            self.trusted_since.pop_front().map(|oldest| self.trusted.remove(&oldest));
        }
    }

    /// Whether a worker has died from this digest lately.
    pub fn knows(&self, digest: u64) -> bool {
        self.marks.contains_key(&digest)
    }

    /// What to do with a request.
    pub fn verdict(&self, print: &Print, now: u64) -> CrashVerdict {
        let exact = print.exact.unwrap_or(0);
        if self.marks.get(&exact).is_some_and(|mark| now < mark.until) {
            return CrashVerdict::Refuse;
        }
        if self.trusted.contains(&exact) && self.heat(distrust(print.page)) <= KILLS {
            return CrashVerdict::Free;
        }
        let (page, source) = (self.heat(print.page), self.deaths(print.source));
        let all = if source > 0 { source } else { self.deaths(print.page) };
        let share = |digest: u64| self.heat(digest).saturating_mul(PARTS) / all.max(1);
        let shape = print.shape.map_or(0, share);
        // A request that has killed once has the highest similarity.
        let again = self.deaths(exact).saturating_mul(PARTS);
        let traits = print.traits.iter().map(|digest| share(*digest)).fold(again, u32::saturating_add);
        let heat = traits.saturating_add(shape);
        let class = match (source, traits, shape) {
            (1.., 1.., _) => SuspectClass::Alike,
            (1.., 0, 1..) => SuspectClass::Akin,
            _ => SuspectClass::Other,
        };
        let roams = source >= ROAMS && class != SuspectClass::Other;
        if page >= KILLS || roams { CrashVerdict::Suspect(class, heat) } else { CrashVerdict::Free }
    }

    /// Whether any mark is left. Forgets expired marks.
    pub fn is_any_left(&mut self, now: u64) -> bool {
        if now >= self.swept + SWEEP_MS.min(self.pause / 4) {
            self.swept = now;
            let pause = self.pause;
            self.marks.retain(|_, mark| !mark.is_over(now, pause));
            if self.marks.is_empty() {
                self.trusted.clear();
                self.trusted_since.clear();
            }
        }
        !self.marks.is_empty()
    }

    fn heat(&self, digest: u64) -> u32 {
        self.marks.get(&digest).map_or(0, Mark::heat)
    }

    fn deaths(&self, digest: u64) -> u32 {
        self.marks.get(&digest).map_or(0, |mark| mark.deaths)
    }

    fn mark(&mut self, digest: u64, now: u64) -> &mut Mark {
        let pause = self.pause;
        let mark = self.marks.entry(digest).or_default();
        if mark.is_over(now, pause) {
            *mark = Mark::default();
        }
        mark
    }

    /// Drops half of the digests if there are too many: those with the least evidence.
    fn bound(&mut self) {
        if self.marks.len() <= MOST {
            return;
        }
        let weight = |mark: &Mark| (mark.until, mark.deaths.min(KILLS + 1), mark.last);
        let mut weights: Vec<_> = self.marks.values().map(weight).collect();
        let middle = weights.len() / 2;
        let (_, middle, _) = weights.select_nth_unstable(middle);
        let middle = *middle;
        self.marks.retain(|_, mark| weight(mark) > middle);
    }
}

/// The digest that counts deaths of requests which had ended successfully before.
fn distrust(page: u64) -> u64 {
    !page
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request of script 1, for page `page`, from `source`, number `exact`, with these arguments.
    fn print(page: u64, source: u64, exact: u64, traits: &[u64]) -> Print {
        let shape = traits.len() as u64;
        Print {
            script: 1,
            page: 10_000 + page,
            source: 20_000 + source,
            exact: Some(30_000 + exact),
            shape: Some(50_000 + shape),
            traits: traits.iter().map(|number| 1_000_000 + number).collect(),
        }
    }

    fn kill(marks: &mut Marks, print: &Print, now: u64) -> (Option<u64>, Option<u64>) {
        let blame = marks.died(print, now).unwrap();
        (blame.request, blame.page)
    }

    #[test]
    fn the_request_that_kills_is_refused_and_its_page_is_not() {
        let mut marks = Marks::new(1_000);
        let deadly = print(1, 1, 1, &[1]);
        assert_eq!(kill(&mut marks, &deadly, 10), (None, None));
        assert_eq!(marks.verdict(&deadly, 11), CrashVerdict::Free, "once can happen");
        assert_eq!(kill(&mut marks, &deadly, 20), (Some(1_000), Some(1_000)));
        assert_eq!(marks.verdict(&deadly, 21), CrashVerdict::Refuse);
        assert_eq!(marks.verdict(&print(1, 2, 1, &[1]), 21), CrashVerdict::Refuse, "by its digest");
        assert_eq!(
            marks.verdict(&print(1, 1, 2, &[2]), 21),
            CrashVerdict::Suspect(SuspectClass::Akin, PARTS)
        );
        assert_eq!(
            marks.verdict(&print(1, 1, 2, &[2, 3]), 21),
            CrashVerdict::Suspect(SuspectClass::Other, 0)
        );
        assert_eq!(
            marks.verdict(&print(1, 2, 3, &[1]), 21),
            CrashVerdict::Suspect(SuspectClass::Other, 2 * PARTS)
        );
        assert_eq!(
            marks.verdict(&print(1, 1, 4, &[1]), 21),
            CrashVerdict::Suspect(SuspectClass::Alike, 2 * PARTS)
        );
        assert_eq!(marks.verdict(&print(2, 1, 5, &[1]), 21), CrashVerdict::Free, "the same script elsewhere");
        assert!(marks.is_any_left(1_019) && marks.knows(1));
        assert_eq!(
            marks.verdict(&deadly, 1_020),
            CrashVerdict::Suspect(SuspectClass::Alike, 4 * PARTS),
            "it is tried again"
        );
        assert!(!marks.is_any_left(2_020) && !marks.knows(1));
    }

    #[test]
    fn who_varies_his_request_is_never_refused_but_waits_behind_others() {
        let mut marks = Marks::new(60_000);
        for number in 0..50 {
            assert_eq!(kill(&mut marks, &print(1, 1, number, &[1, 100 + number]), number).0, None);
        }
        assert_eq!(
            marks.verdict(&print(1, 1, 99, &[1, 199]), 60),
            CrashVerdict::Suspect(SuspectClass::Alike, 2 * PARTS)
        );
        assert_eq!(
            marks.verdict(&print(1, 1, 98, &[2, 198]), 60),
            CrashVerdict::Suspect(SuspectClass::Akin, PARTS)
        );
        assert_eq!(
            marks.verdict(&print(1, 2, 97, &[1, 197]), 60),
            CrashVerdict::Suspect(SuspectClass::Other, 2 * PARTS)
        );
    }

    #[test]
    fn a_trait_in_common_by_chance_does_not_count() {
        let mut marks = Marks::new(60_000);
        for number in 0..50 {
            kill(&mut marks, &print(1, 1, number, &[1, 100 + number % 25]), number);
        }
        assert_eq!(
            marks.verdict(&print(1, 1, 99, &[2, 110]), 60),
            CrashVerdict::Suspect(SuspectClass::Akin, PARTS)
        );
    }

    #[test]
    fn how_alike_a_request_is_does_not_grow_with_the_deaths() {
        let mut marks = Marks::new(60_000);
        let heat = |marks: &mut Marks, deaths: std::ops::Range<u64>| {
            for number in deaths {
                kill(marks, &print(1, 1, number, &[1, 100 + number]), number);
            }
            marks.verdict(&print(1, 1, 999, &[1, 999]), 999)
        };
        let early = heat(&mut marks, 0..5);
        assert_eq!(
            early,
            heat(&mut marks, 5..200),
            "what came first does not run before what is less like them"
        );
    }

    #[test]
    fn who_varies_the_path_is_suspect_on_all() {
        let mut marks = Marks::new(60_000);
        for number in 0..3 {
            kill(&mut marks, &print(number, 1, number, &[1]), number);
        }
        assert_eq!(
            marks.verdict(&print(9, 1, 9, &[1]), 9),
            CrashVerdict::Suspect(SuspectClass::Alike, 2 * PARTS)
        );
        assert_eq!(marks.verdict(&print(9, 1, 9, &[2, 3]), 9), CrashVerdict::Free);
        assert_eq!(marks.verdict(&print(9, 2, 9, &[1]), 9), CrashVerdict::Free);
    }

    #[test]
    fn what_ended_well_runs_like_any_other_unless_that_is_abused() {
        let mut marks = Marks::new(60_000);
        for number in 0..2 {
            kill(&mut marks, &print(1, 1, number, &[1]), number);
        }
        let good = print(1, 1, 7, &[2]);
        assert_eq!(marks.verdict(&good, 5), CrashVerdict::Suspect(SuspectClass::Akin, PARTS));
        marks.ended_well(&good, 5);
        assert_eq!(marks.verdict(&good, 5), CrashVerdict::Free);
        for number in 10..13 {
            let turncoat = print(1, 1, number, &[2]);
            marks.ended_well(&turncoat, 6);
            assert_eq!(marks.verdict(&turncoat, 6), CrashVerdict::Free);
            kill(&mut marks, &turncoat, 6);
        }
        assert_eq!(
            marks.verdict(&good, 7),
            CrashVerdict::Suspect(SuspectClass::Alike, PARTS + 3 * PARTS / 5)
        );
    }

    #[test]
    fn a_crash_now_and_then_refuses_nothing() {
        let mut marks = Marks::new(60_000);
        let page = print(1, 1, 1, &[1]);
        kill(&mut marks, &page, 0);
        (0..20).for_each(|_| marks.ended_well(&page, 0));
        for number in 1..50 {
            (0..12).for_each(|_| marks.ended_well(&page, number));
            assert_eq!(kill(&mut marks, &page, number), (None, None), "{number}");
            assert_eq!(marks.verdict(&print(1, 2, 2, &[2]), number), CrashVerdict::Free, "{number}");
        }
    }

    #[test]
    fn what_still_kills_is_refused_for_longer() {
        let mut marks = Marks::new(100_000);
        let (deadly, mut now) = (print(1, 1, 1, &[]), 1);
        assert_eq!(kill(&mut marks, &deadly, now).0, None);
        for times in [1, 2, 4, 8, 16, 16] {
            assert_eq!(kill(&mut marks, &deadly, now).0, Some(times * 100_000));
            // Requests that were already running are neither counted nor reported.
            assert_eq!(kill(&mut marks, &deadly, now + 10).0, None);
            now += times * 100_000;
        }
        assert!(
            marks.is_any_left(now) && marks.knows(deadly.script),
            "its script is watched while it is on trial"
        );
        // The request ran without a crash for as long as it had been refused: its history is forgotten.
        now += 1_600_000;
        assert_eq!(kill(&mut marks, &deadly, now).0, None);
        assert_eq!(kill(&mut marks, &deadly, now).0, Some(100_000));
    }

    #[test]
    fn zero_is_never_and_memory_is_bounded() {
        let mut marks = Marks::new(0);
        assert!((0..9).all(|now| marks.died(&print(1, 1, 1, &[]), now).is_none()));
        let mut marks = Marks::new(1_000_000);
        let deadly = print(1, 1, 1, &[1]);
        for now in 0..2 {
            kill(&mut marks, &deadly, now);
        }
        for number in 0..10 * MOST as u64 {
            marks.ended_well(&print(1, 1, 100 + number, &[]), number);
            kill(&mut marks, &print(3 + number, number, 100_000 + number, &[5 + number]), 2 + number);
        }
        assert!(marks.marks.len() <= MOST && marks.trusted.len() <= TRUSTED);
        assert_eq!(marks.trusted.len(), marks.trusted_since.len());
        assert_eq!(marks.verdict(&deadly, 9_999), CrashVerdict::Refuse, "the last to be forgotten");
    }
}
