//! Who may wait for a worker, for how long, and in which order: a value without clock and sockets.
//!
//! Two things look alike at their start. A *burst* - a crowd that comes at once, a dozen users who each wait for
//! their page before they ask for the next - is over after a moment, or never grows: everybody simply waits, first come, first
//! served. *Overload* - more comes than can be served - has no end: then waiting only makes every page late, and whoever is
//! refused at once is better off than whoever is refused later. So what may be waited for shrinks with the time since
//! nobody waited last:
//!
//! | since then | admitted for a wait of |
//! | --- | --- |
//! | 0.1 s | 3 x `php.queue_wait` |
//! | 1 s | `php.queue_wait` |
//! | later | a seventh of it; but as many as waited in that first second may wait as long as there are always as many |
//!
//! and in any case for one service time. The wait is estimated: who is ahead, times the mean service time, divided by how
//! many run at once. Whoever would wait for longer is refused, and the gate is *overloaded* from then on: those who were
//! admitted before are served first, in their order. At first and as long as it is light, a line stays that keeps the workers busy when
//! nobody comes for a moment, the shorter the more are refused. In a heavy one others are admitted *briefly*: the newest is served
//! first, and who is not served within [`Gate::patience`] is refused, and so is the oldest of them when there are more than could
//! be served in that time. It ends when hardly anybody is refused any more; for a while after that only the third row holds.
//!
//! Refusing somebody who comes back at once - a load tester's closed loop, a crawler without manners - does not make
//! him go away: it makes him ask more often. That is why the first row is generous: a closed loop comes all at once, and
//! then as many wait as are in it, less those who are served, and never more.
//!
//! Whoever is known to the site - logged in, with a cart - goes before all others and is never admitted briefly: he has something
//! to lose. He is refused only if those like him are so many that he would wait for three budgets.

/// The first row of the table above, milliseconds.
const CROWD_MS: u64 = 100;
/// What it allows, in budgets.
const CROWD_BUDGETS: f64 = 3.0;
/// The second row, milliseconds.
const BURST_MS: u64 = 1_000;
/// What the third allows, in budgets.
const STANDING_BUDGETS: f64 = 0.143;
/// A closed loop always has as many, but for those who have just been served, and for this part of all: they are on their way.
const ON_THEIR_WAY: f64 = 0.125;
/// A queue that does not grow may become so much longer than it was in its first second, and by two.
const STEADY: f64 = 1.1;
/// Who is admitted briefly and not served within that is refused, milliseconds: a refusal shall take less than 50.
const PATIENCE_MS: u64 = 35;
/// How often it is asked whether the overload is over, milliseconds.
const JUDGE_MS: u64 = 2_000;
/// And for the first time, milliseconds after its beginning.
const FIRST_JUDGE_MS: u64 = 1_000;
/// It is when less than this part of those who came was refused meanwhile.
const HARDLY: f64 = 0.03;
/// It is heavy when more than this part was refused; then nobody but the newest waits.
const MUCH: f64 = 0.3;
/// Service times that one may wait in an overload that is not, if hardly anybody is refused: a line keeps the cores busy when
/// nobody comes for a moment.
const LONGEST: f64 = 1.4;
/// And so many if just not too much is: then it is always full, and would only make everybody late.
const SHORTEST: f64 = 0.7;
/// After an overload that has ended it is known that what comes is no burst, for so long, milliseconds.
const WARY_MS: u64 = 10_000;
/// Of how many requests the mean service time is made.
const MEMORY: f64 = 64.0;

/// The gate of one queue. Times are milliseconds of one clock.
#[derive(Clone, Debug)]
pub struct Gate {
    /// `php.queue_wait`, milliseconds.
    budget: f64,
    /// Mean service time, milliseconds; `None` before the first request was served.
    mean: Option<f64>,
    /// How many requests that mean is made of, at most [`MEMORY`].
    known: f64,
    busy: Busy,
    overload: Option<Overload>,
    /// Until when the last overload counts as not long ago.
    wary: u64,
}

/// Since somebody waits.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    since: u64,
    /// The most that waited or ran in the first second of that; none when it was found that others come.
    crest: usize,
    /// When the last look at that began, and the fewest and the most that were there since, whenever somebody came.
    looked: u64,
    fewest: usize,
    most: usize,
}

impl Busy {
    fn begin(now: u64) -> Busy {
        Busy { since: now, crest: 0, looked: now, fewest: usize::MAX, most: 0 }
    }

    /// Somebody comes, and so many are there with him while `limit` may run. A closed loop always has as many; where they are
    /// more or fewer by turns, it is others who come.
    fn note(&mut self, now: u64, there: usize, limit: usize) {
        (self.fewest, self.most) = (self.fewest.min(there), self.most.max(there));
        if now.saturating_sub(self.looked) >= BURST_MS {
            if self.looked > self.since
                && self.fewest + limit + (self.most as f64 * ON_THEIR_WAY) as usize <= self.most
            {
                self.crest = 0;
            }
            (self.looked, self.fewest, self.most) = (now, there, there);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Overload {
    since: u64,
    /// When it is asked next whether it is over.
    judged_at: u64,
    refused: u64,
    served: u64,
    /// Service times that one may wait; none when it is heavy, because much more comes than can be served.
    line: Option<f64>,
}

impl Overload {
    fn begin(now: u64) -> Overload {
        Overload { since: now, judged_at: now + FIRST_JUDGE_MS, refused: 0, served: 0, line: Some(LONGEST) }
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Has cookies that PHP has not seen yet, or is at a door that is for those who are known.
    Unproven,
    /// A visitor like any.
    #[default]
    Visitor,
    /// A step to an order.
    #[allow(dead_code)]
    Buying,
    /// Logged in, has a cart or a session, as PHP has found.
    Known,
}

/// Who is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Those who do not wait any more.
    pub running: usize,
    /// Those who wait and whom the site knows.
    pub known: usize,
    /// Others who were admitted for as long as it takes.
    pub patient: usize,
    /// Those who were admitted briefly.
    pub brief: usize,
}

/// What becomes of a request for which no worker is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// It waits in its order until it is served.
    Wait,
    /// It is served before all others that wait briefly, or refused soon. If more than [`Gate::room`] wait like that, the
    /// oldest of them is to be refused.
    Briefly,
    /// It is refused.
    Refuse,
}

impl Gate {
    /// A gate with this budget, milliseconds.
    pub fn new(budget_ms: u64) -> Gate {
        Gate {
            budget: budget_ms as f64,
            mean: None,
            known: 0.0,
            busy: Busy::default(),
            overload: None,
            wary: 0,
        }
    }

    /// A request comes that cannot run at once, while `queue` waits and up to `limit` may run.
    pub fn arrive(&mut self, now: u64, rank: Rank, queue: Queue, limit: usize) -> Admit {
        if rank >= Rank::Buying {
            let most = (self.budget * CROWD_BUDGETS).max(self.mean.unwrap_or(0.0));
            if self.wait(queue.known, limit).is_some_and(|wait| wait > most) {
                return Admit::Refuse;
            }
            return Admit::Wait;
        }
        let ahead = queue.known + queue.patient;
        if self.overload.is_none() {
            // Those who still wait briefly from an overload that has just ended have their order.
            if self.may_wait(now, ahead + queue.brief, queue.running, limit) {
                return Admit::Wait;
            }
            self.overload = Some(Overload::begin(now));
        }
        if let Some(line) = self.overload.and_then(|overload| overload.line) {
            if self.wait(ahead, limit) <= self.mean.map(|mean| mean * line) {
                return Admit::Wait;
            }
            self.refused(now);
            return Admit::Refuse;
        }
        if self.wait(ahead, limit).unwrap_or(0.0) > PATIENCE_MS as f64 {
            self.refused(now);
            return Admit::Refuse;
        }
        Admit::Briefly
    }

    /// A request was refused that had been admitted, as too old or for want of room.
    pub fn refused(&mut self, now: u64) {
        let overload = self.overload.get_or_insert(Overload::begin(now));
        overload.refused += 1;
    }

    /// A request was served, which took so many milliseconds once it had a worker.
    pub fn served(&mut self, now: u64, took: f64) {
        self.known = (self.known + 1.0).min(MEMORY);
        let mean = self.mean.get_or_insert(took);
        *mean += (took - *mean) / self.known;
        if let Some(overload) = &mut self.overload {
            overload.served += 1;
            self.judge(now);
        }
    }

    /// How many may wait briefly: as many as can be served within [`Gate::patience`], and one.
    pub fn room(&self, limit: usize) -> usize {
        let each = self.mean.unwrap_or(0.0) / limit.max(1) as f64;
        if each <= 0.0 { usize::MAX } else { (PATIENCE_MS as f64 / each) as usize + 1 }
    }

    /// How long a request that was admitted briefly waits, milliseconds.
    pub fn patience(&self) -> u64 {
        PATIENCE_MS
    }

    /// Since when it is overloaded, if it is.
    pub fn overloaded(&mut self, now: u64) -> Option<u64> {
        self.judge(now);
        self.overload.map(|overload| overload.since)
    }

    /// The same as it was when it was last asked.
    pub fn overloaded_since(&self) -> Option<u64> {
        self.overload.map(|overload| overload.since)
    }

    /// How long somebody waits with so many ahead while `limit` run at once, milliseconds; `None`: nothing was
    /// served yet, so nobody knows.
    pub fn wait(&self, ahead: usize, limit: usize) -> Option<f64> {
        Some(ahead as f64 * self.mean? / limit.max(1) as f64)
    }

    /// Mean service time, milliseconds.
    pub fn mean(&self) -> Option<f64> {
        self.mean
    }

    /// Whether the table allows the wait.
    fn may_wait(&mut self, now: u64, ahead: usize, running: usize, limit: usize) -> bool {
        let wait = self.wait(ahead, limit);
        let service = self.mean.unwrap_or(0.0);
        let busy = &mut self.busy;
        if ahead == 0 {
            *busy = Busy::begin(now);
        }
        let so_far = now.saturating_sub(busy.since);
        let is_wary = now < self.wary;
        let budgets = match so_far {
            _ if is_wary => STANDING_BUDGETS,
            ..CROWD_MS => CROWD_BUDGETS,
            CROWD_MS..BURST_MS => 1.0,
            _ => STANDING_BUDGETS,
        };
        let there = running + ahead + 1;
        busy.note(now, there, limit);
        let grown = if so_far < BURST_MS { 0.0 } else { busy.crest as f64 * (STEADY - 1.0) + 2.0 };
        let steady = !is_wary && busy.crest > 0 && there as f64 <= busy.crest as f64 + grown;
        let may = steady || wait.is_none_or(|wait| wait <= (self.budget * budgets).max(service));
        if may && so_far < BURST_MS {
            busy.crest = busy.crest.max(there);
        }
        may
    }

    /// Ends the overload if it is over.
    fn judge(&mut self, now: u64) {
        let Some(overload) = &mut self.overload else { return };
        if now < overload.judged_at {
            return;
        }
        let came = overload.refused + overload.served;
        if overload.refused as f64 <= came as f64 * HARDLY {
            self.overload = None;
            self.wary = now + WARY_MS;
        } else {
            let part = overload.refused as f64 / came as f64;
            let line = (part <= MUCH).then(|| LONGEST - (LONGEST - SHORTEST) * part / MUCH);
            *overload = Overload { judged_at: now + JUDGE_MS, refused: 0, served: 0, line, ..*overload };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two run at once, each takes 50 ms: 40 a second.
    const LIMIT: usize = 2;

    fn gate() -> Gate {
        let mut gate = Gate::new(1_000);
        for _ in 0..20 {
            gate.served(0, 50.0);
        }
        gate
    }

    fn queue(patient: usize, brief: usize) -> Queue {
        Queue { running: LIMIT, known: 0, patient, brief }
    }

    /// How many come in at once at this time, if so many wait.
    fn admitted(gate: &mut Gate, now: u64, waiting: usize) -> usize {
        (waiting..).find(|at| gate.arrive(now, Rank::Visitor, queue(*at, 0), LIMIT) != Admit::Wait).unwrap()
    }

    #[test]
    fn a_crowd_that_comes_at_once_may_wait_for_three_budgets() {
        assert_eq!(
            admitted(&mut gate(), 5_000, 0),
            121,
            "3 s at 40 a second, and one who does not wait for anybody"
        );
    }

    #[test]
    fn then_for_one() {
        let mut gate = gate();
        assert_eq!(gate.arrive(5_000, Rank::Visitor, queue(0, 0), LIMIT), Admit::Wait);
        assert_eq!(admitted(&mut gate, 5_500, 1), 41);
    }

    #[test]
    fn then_for_a_seventh() {
        let mut gate = gate();
        assert_eq!(gate.arrive(5_000, Rank::Visitor, queue(0, 0), LIMIT), Admit::Wait);
        assert_eq!(admitted(&mut gate, 6_000, 1), 6);
        assert_eq!(gate.overloaded(6_001), Some(6_000));
    }

    #[test]
    fn a_queue_that_does_not_grow_may_stay() {
        let mut gate = gate();
        for waiting in 0..100 {
            assert_eq!(gate.arrive(5_000, Rank::Visitor, queue(waiting, 0), LIMIT), Admit::Wait);
        }
        for now in (5_100..60_000).step_by(25) {
            gate.served(now, 50.0);
            assert_eq!(gate.arrive(now, Rank::Visitor, queue(99, 0), LIMIT), Admit::Wait, "at {now}");
        }
        assert_eq!(admitted(&mut gate, 60_000, 100), 112, "a tenth more and two, of all that are there");
    }

    #[test]
    fn one_service_time_is_always_allowed() {
        let mut slow = Gate::new(100);
        slow.served(0, 4_000.0);
        assert_eq!(slow.arrive(1, Rank::Visitor, Queue::default(), LIMIT), Admit::Wait);
        assert_eq!(slow.arrive(2_000, Rank::Visitor, queue(1, 0), LIMIT), Admit::Wait);
        assert_ne!(slow.arrive(2_000, Rank::Visitor, queue(3, 0), LIMIT), Admit::Wait);
    }

    #[test]
    fn nobody_is_refused_before_anything_is_known() {
        assert_eq!(Gate::new(1_000).arrive(1, Rank::Visitor, queue(500, 0), LIMIT), Admit::Wait);
    }

    /// Overloaded since 5 s and heavily so since 6 s, with nobody left from before.
    fn overloaded() -> Gate {
        let mut gate = gate();
        assert_eq!(gate.arrive(5_000, Rank::Visitor, queue(200, 0), LIMIT), Admit::Refuse);
        gate.refused(5_500);
        gate.served(6_000, 50.0);
        gate
    }

    #[test]
    fn who_was_admitted_before_goes_first() {
        let mut gate = overloaded();
        assert_eq!(gate.arrive(6_010, Rank::Visitor, queue(100, 0), LIMIT), Admit::Refuse);
        assert_eq!(gate.arrive(6_010, Rank::Visitor, queue(1, 0), LIMIT), Admit::Briefly);
        assert_eq!(gate.arrive(6_010, Rank::Visitor, queue(0, 9), LIMIT), Admit::Briefly);
        assert_eq!(gate.room(LIMIT), 2, "35 ms at 40 a second, and one");
    }

    #[test]
    fn a_light_overload_keeps_a_short_line_and_a_heavy_one_none() {
        let mut gate = overloaded();
        let second = |gate: &mut Gate, from: u64, refused: usize| {
            (0..refused).for_each(|_| gate.refused(from));
            (0..80).for_each(|at| gate.served(from + at * 25, 50.0));
        };
        second(&mut gate, 7_000, 40);
        assert_eq!(gate.arrive(9_100, Rank::Visitor, queue(0, 0), LIMIT), Admit::Briefly);
        second(&mut gate, 9_100, 30);
        second(&mut gate, 11_200, 30);
        assert_eq!(gate.arrive(13_300, Rank::Visitor, queue(1, 0), LIMIT), Admit::Wait);
        assert_eq!(
            gate.arrive(13_300, Rank::Visitor, queue(2, 0), LIMIT),
            Admit::Refuse,
            "0.8 service times"
        );
        second(&mut gate, 13_300, 5);
        second(&mut gate, 15_400, 5);
        assert_eq!(gate.arrive(17_500, Rank::Visitor, queue(2, 0), LIMIT), Admit::Wait);
        assert_eq!(gate.arrive(17_500, Rank::Visitor, queue(3, 0), LIMIT), Admit::Refuse, "1.3");
        second(&mut gate, 17_500, 40);
        second(&mut gate, 19_600, 40);
        assert_eq!(gate.arrive(21_700, Rank::Visitor, queue(0, 0), LIMIT), Admit::Briefly);
    }

    #[test]
    fn an_overload_begins_as_a_light_one() {
        let mut gate = gate();
        assert_eq!(gate.arrive(5_000, Rank::Visitor, queue(200, 0), LIMIT), Admit::Refuse);
        assert_eq!(gate.arrive(5_001, Rank::Visitor, queue(2, 0), LIMIT), Admit::Wait);
        assert_eq!(gate.arrive(5_001, Rank::Visitor, queue(3, 0), LIMIT), Admit::Refuse);
    }

    #[test]
    fn shortly_after_an_overload_what_comes_is_no_burst() {
        let mut gate = overloaded();
        (0..400).for_each(|at| gate.served(6_000 + at * 25, 50.0));
        assert_eq!(gate.overloaded(16_000), None);
        assert_eq!(gate.arrive(16_000, Rank::Visitor, queue(0, 0), LIMIT), Admit::Wait);
        assert_eq!(admitted(&mut gate, 16_001, 1), 6, "a seventh of a second");
        let mut gate = overloaded();
        (0..400).for_each(|at| gate.served(6_000 + at * 25, 50.0));
        assert_eq!(gate.overloaded(16_000), None);
        assert_eq!(gate.arrive(26_000, Rank::Visitor, queue(0, 0), LIMIT), Admit::Wait);
        assert_eq!(admitted(&mut gate, 26_001, 1), 121);
    }

    #[test]
    fn it_is_over_when_hardly_anybody_is_refused() {
        let mut gate = overloaded();
        for at in 0..400 {
            gate.served(5_000 + at * 25, 50.0);
        }
        assert_eq!(gate.overloaded(15_000), None);
        assert_eq!(gate.arrive(15_000, Rank::Visitor, queue(0, 0), LIMIT), Admit::Wait);
    }

    #[test]
    fn whoever_is_known_does_not_care_for_the_others() {
        let mut gate = overloaded();
        let full = Queue { running: LIMIT, known: 0, patient: 500, brief: 5 };
        assert_eq!(gate.arrive(5_010, Rank::Known, full, LIMIT), Admit::Wait);
        assert_eq!(gate.arrive(5_010, Rank::Known, Queue { known: 120, ..full }, LIMIT), Admit::Wait);
        assert_eq!(gate.arrive(5_010, Rank::Known, Queue { known: 121, ..full }, LIMIT), Admit::Refuse);
        assert_eq!(Gate::new(1).overloaded(0), None);
    }
}
