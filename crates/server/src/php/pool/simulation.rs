//! Gate and pace on a machine that is only counted: arrivals, cores, a database, a slow service, one millisecond after the
//! other. Nothing in it is left to chance but what a fixed seed says.

use std::collections::VecDeque;

use super::gate::{Admit, Gate, Queue, Rank};
use super::pace::{Pace, Seen};

/// What a script does, in turns of a millisecond or so.
#[derive(Clone, Copy, Debug)]
struct Script {
    /// Milliseconds of processor time.
    cpu: f64,
    /// Of the database's time.
    database: f64,
    /// Of a service that is slow, however many ask it.
    service: f64,
}

const PAGE: Script = Script { cpu: 25.0, database: 0.0, service: 0.0 };
const SLOW: Script = Script { cpu: 4.0, database: 0.0, service: 400.0 };
const QUERIES: Script = Script { cpu: 5.0, database: 20.0, service: 0.0 };

/// Who asks.
enum Crowd {
    /// So many a second, whatever becomes of them.
    Open(f64),
    /// So many who ask again as soon as they have an answer.
    Closed(usize),
}

struct Running {
    began: u64,
    came: u64,
    client: usize,
    left: Script,
}

#[derive(Clone, Copy)]
struct Waiting {
    came: u64,
    client: usize,
}

#[derive(Default, Debug)]
struct Tally {
    came: u64,
    served: u64,
    /// Of those who were served, milliseconds in all.
    times: f64,
    refused: u64,
    /// The longest that somebody waited who was refused then.
    late: u64,
    limits: Vec<usize>,
}

impl Tally {
    fn mean(&self) -> f64 {
        self.times / self.served.max(1) as f64
    }

    fn limit(&self) -> f64 {
        self.limits.iter().sum::<usize>() as f64 / self.limits.len() as f64
    }

    fn changes(&self) -> usize {
        self.limits.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }
}

struct Machine {
    now: u64,
    seed: u64,
    cores: f64,
    database: f64,
    workers: usize,
    adaptive: bool,
    gate: Gate,
    pace: Pace,
    running: Vec<Running>,
    patient: VecDeque<Waiting>,
    brief: VecDeque<Waiting>,
    /// When closed-loop clients ask next.
    asks: Vec<(u64, usize)>,
    next: f64,
    cpu: f64,
    ready: f64,
    finished: u64,
    refused: u64,
}

impl Machine {
    fn new(workers: usize) -> Machine {
        Machine {
            now: 1_000,
            seed: 42,
            cores: 2.0,
            database: 2.0,
            workers,
            adaptive: true,
            gate: Gate::new(1_000),
            pace: Pace::new(2, workers),
            running: Vec::new(),
            patient: VecDeque::new(),
            brief: VecDeque::new(),
            asks: Vec::new(),
            next: 0.0,
            cpu: 0.0,
            ready: 0.0,
            finished: 0,
            refused: 0,
        }
    }

    /// In (0, 1].
    fn chance(&mut self) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        ((self.seed >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn play(&mut self, seconds: u64, crowd: &Crowd, scripts: &[Script]) -> Tally {
        let mut tally = Tally::default();
        if let Crowd::Closed(clients) = crowd {
            self.asks = (0..*clients).map(|client| (self.now + 1, client)).collect();
        }
        self.next = self.now as f64;
        for _ in 0..seconds * 1_000 {
            self.now += 1;
            self.arrivals(crowd, scripts, &mut tally);
            self.turn(crowd, scripts, &mut tally);
            if self.now.is_multiple_of(100) {
                self.look();
                tally.limits.push(self.limit());
            }
        }
        self.asks.clear();
        tally
    }

    fn limit(&self) -> usize {
        if self.adaptive { self.pace.limit() } else { self.workers }
    }

    fn arrivals(&mut self, crowd: &Crowd, scripts: &[Script], tally: &mut Tally) {
        if let Crowd::Open(rate) = crowd {
            while self.next <= self.now as f64 {
                self.next += -self.chance().ln() * 1_000.0 / rate;
                self.arrive(usize::MAX, crowd, scripts, tally);
            }
        }
        let due: Vec<usize> =
            self.asks.extract_if(.., |(at, _)| *at <= self.now).map(|(_, client)| client).collect();
        for client in due {
            self.arrive(client, crowd, scripts, tally);
        }
    }

    fn arrive(&mut self, client: usize, crowd: &Crowd, scripts: &[Script], tally: &mut Tally) {
        tally.came += 1;
        let waiting = Waiting { came: self.now, client };
        let limit = self.limit();
        if self.running.len() < limit {
            return self.begin(waiting, scripts);
        }
        let running = self.running.len();
        let queue = Queue { running, known: 0, patient: self.patient.len(), brief: self.brief.len() };
        match self.gate.arrive(self.now, Rank::Visitor, queue, limit) {
            Admit::Wait => self.patient.push_back(waiting),
            Admit::Refuse => self.refuse(waiting, crowd, tally),
            Admit::Briefly => {
                self.brief.push_back(waiting);
                if self.brief.len() > self.gate.room(limit) {
                    self.gate.refused(self.now);
                    let oldest = self.brief.pop_front().unwrap();
                    self.refuse(oldest, crowd, tally);
                }
            }
        }
    }

    fn refuse(&mut self, waiting: Waiting, crowd: &Crowd, tally: &mut Tally) {
        self.refused += 1;
        tally.refused += 1;
        tally.late = tally.late.max(self.now - waiting.came);
        if matches!(crowd, Crowd::Closed(_)) {
            self.asks.push((self.now + 1, waiting.client));
        }
    }

    fn begin(&mut self, waiting: Waiting, scripts: &[Script]) {
        let at = (self.chance() * scripts.len() as f64) as usize % scripts.len();
        // Half of it always, the rest by chance: pages differ.
        let part = 0.5 + self.chance();
        let Script { cpu, database, service } = scripts[at];
        let left = Script { cpu: cpu * part, database: database * part, service: service * part };
        self.running.push(Running { began: self.now, came: waiting.came, client: waiting.client, left });
    }

    fn turn(&mut self, crowd: &Crowd, scripts: &[Script], tally: &mut Tally) {
        let patience = self.gate.patience();
        while self.brief.front().is_some_and(|waiting| waiting.came + patience <= self.now) {
            let waiting = self.brief.pop_front().unwrap();
            self.gate.refused(self.now);
            self.refuse(waiting, crowd, tally);
        }
        // Database first, then the service, then the processor: the order does not matter here.
        let queries = self.running.iter().filter(|run| run.left.database > 0.0).count();
        let ready =
            self.running.iter().filter(|run| run.left.database <= 0.0 && run.left.service <= 0.0).count();
        let query = (self.database / queries.max(1) as f64).min(1.0);
        let core = (self.cores / ready.max(1) as f64).min(1.0);
        for run in &mut self.running {
            if run.left.database > 0.0 {
                run.left.database -= query;
            } else if run.left.service > 0.0 {
                run.left.service -= 1.0;
            } else {
                run.left.cpu -= core;
                self.cpu += core;
                self.ready += 1.0 - core;
            }
        }
        let done: Vec<Running> = self.running.extract_if(.., |run| run.left.cpu <= 0.0).collect();
        for run in done {
            self.finished += 1;
            tally.served += 1;
            tally.times += (self.now - run.came) as f64;
            self.gate.served(self.now, (self.now - run.began) as f64);
            if matches!(crowd, Crowd::Closed(_)) {
                self.asks.push((self.now + 1, run.client));
            }
        }
        while self.running.len() < self.limit() {
            let Some(next) = self.patient.pop_front().or_else(|| self.brief.pop_back()) else { break };
            self.begin(next, scripts);
        }
    }

    fn look(&mut self) {
        let seen = Seen {
            busy: self.running.len(),
            cpu_us: Some((std::mem::take(&mut self.cpu) * 1e3) as u64),
            ready_us: Some((std::mem::take(&mut self.ready) * 1e3) as u64),
            finished: std::mem::take(&mut self.finished),
            pressed: self.patient.len() + self.brief.len() > 0 || std::mem::take(&mut self.refused) > 0,
        };
        self.pace.look(self.now, &seen);
    }
}

/// 80 pages of 25 ms a second are what two cores can do.
const CAPACITY: f64 = 80.0;

#[test]
fn overload_of_any_size_serves_as_many_and_as_quickly() {
    for times in [1.0, 1.5, 2.0, 5.0, 10.0] {
        let mut machine = Machine::new(16);
        machine.play(5, &Crowd::Open(CAPACITY * times), &[PAGE]);
        let tally = machine.play(30, &Crowd::Open(CAPACITY * times), &[PAGE]);
        let rate = tally.served as f64 / 30.0;
        // Visitors who come by chance, exactly as many as can be served, leave the cores idle by turns: that is lost.
        assert!(rate > CAPACITY * 0.89, "{times}: {rate:.1} a second");
        assert!(tally.mean() < 3.0 * 25.0, "{times}: {:.0} ms", tally.mean());
        assert!(tally.late <= 45, "{times}: refused after {} ms", tally.late);
        assert!((2.0..=4.0).contains(&tally.limit()), "{times}: {:.1} at once", tally.limit());
    }
}

#[test]
fn what_can_be_served_is_not_refused() {
    for part in [0.3, 0.7, 0.85] {
        let tally = Machine::new(16).play(60, &Crowd::Open(CAPACITY * part), &[PAGE]);
        assert!(tally.refused * 500 <= tally.came, "{part}: {} of {} refused", tally.refused, tally.came);
    }
}

#[test]
fn a_burst_waits() {
    let mut machine = Machine::new(16);
    machine.play(5, &Crowd::Open(20.0), &[PAGE]);
    let tally = machine.play(1, &Crowd::Open(CAPACITY * 1.6), &[PAGE]);
    let after = machine.play(4, &Crowd::Open(20.0), &[PAGE]);
    assert_eq!((tally.refused, after.refused), (0, 0));
    assert!(tally.came > 100);
}

#[test]
fn a_closed_loop_waits() {
    for clients in [5, 20, 100] {
        let mut machine = Machine::new(16);
        machine.play(2, &Crowd::Open(20.0), &[PAGE]);
        let tally = machine.play(30, &Crowd::Closed(clients), &[PAGE]);
        assert_eq!(tally.refused, 0, "{clients} clients");
        assert!(tally.served as f64 / 30.0 > CAPACITY * 0.9, "{clients} clients: {} served", tally.served);
    }
}

#[test]
fn a_crowd_at_the_start_does_not_stay() {
    let mut machine = Machine::new(16);
    machine.play(2, &Crowd::Open(20.0), &[PAGE]);
    machine.play(1, &Crowd::Open(CAPACITY * 1.7), &[PAGE]);
    machine.play(4, &Crowd::Open(CAPACITY), &[PAGE]);
    let tally = machine.play(30, &Crowd::Open(CAPACITY), &[PAGE]);
    assert!(tally.mean() < 3.3 * 25.0, "{:.0} ms", tally.mean());
    assert!(tally.served as f64 / 30.0 > CAPACITY * 0.89);
}

#[test]
fn scripts_that_wait_for_a_service_run_all_at_once() {
    let mut machine = Machine::new(16);
    machine.play(5, &Crowd::Closed(40), &[SLOW]);
    let tally = machine.play(60, &Crowd::Closed(40), &[SLOW]);
    assert!(tally.limit() > 15.0, "{:.1} at once", tally.limit());
    // Also after pages that kept the processor busy.
    machine.play(10, &Crowd::Open(400.0), &[PAGE]);
    assert!(machine.limit() <= 4);
    machine.play(15, &Crowd::Closed(40), &[SLOW]);
    let tally = machine.play(20, &Crowd::Closed(40), &[SLOW]);
    assert!(tally.limit() > 14.0, "{:.1} at once", tally.limit());
}

#[test]
fn a_full_database_gets_fewer_at_once() {
    let mut machine = Machine::new(32);
    machine.play(10, &Crowd::Open(30.0), &[QUERIES]);
    machine.play(30, &Crowd::Open(400.0), &[QUERIES]);
    let tally = machine.play(60, &Crowd::Open(400.0), &[QUERIES]);
    let rate = tally.served as f64 / 60.0;
    assert!(tally.limit() < 8.0, "{:.1} at once", tally.limit());
    assert!(rate > 90.0, "{rate:.1} of 100 a second");
}

#[test]
fn a_mixture_of_quick_and_slow_finds_its_number_and_stays() {
    let quick = Script { cpu: 3.0, database: 0.0, service: 0.0 };
    let mut machine = Machine::new(16);
    machine.play(10, &Crowd::Open(400.0), &[PAGE, quick, SLOW]);
    let tally = machine.play(60, &Crowd::Open(400.0), &[PAGE, quick, SLOW]);
    assert!(tally.changes() < 60, "{} changes", tally.changes());
    assert!(tally.limit() > 10.0);
}

#[test]
fn the_limit_does_not_swing() {
    let mut machine = Machine::new(16);
    machine.play(10, &Crowd::Open(400.0), &[PAGE]);
    let tally = machine.play(60, &Crowd::Open(400.0), &[PAGE]);
    assert!(tally.changes() <= 6, "{} changes", tally.changes());
}
