//! The queue and the concurrency limit on a simulated machine: arrivals, cores, a database, a slow service, in steps
//! of one millisecond. All randomness comes from a fixed seed.

mod limiters;
mod waiting_room;

use std::net::IpAddr;

use super::admission::Rank;
use super::concurrency_limit::{ConcurrencyLimit, PoolSample};
use super::request_queue::{Applicant, Capacity, RequestQueue};
use limiters::Limiter;

/// The work of a script, in turns of about a millisecond.
#[derive(Clone, Copy, Debug)]
struct Script {
    /// Milliseconds of processor time.
    cpu: f64,
    /// Milliseconds of the database's time.
    database: f64,
    /// Milliseconds of a service that is slow, however many requests it gets.
    service: f64,
}

const PAGE: Script = Script { cpu: 25.0, database: 0.0, service: 0.0 };
const SLOW: Script = Script { cpu: 4.0, database: 0.0, service: 400.0 };
const QUERIES: Script = Script { cpu: 5.0, database: 20.0, service: 0.0 };

/// The clients.
enum Crowd {
    /// Requests per second, whatever becomes of them.
    Open(f64),
    /// Number of clients that send the next request as soon as they have a response.
    Closed(usize),
}

struct Running {
    began: u64,
    came: u64,
    client: usize,
    left: Script,
}

/// A waiting request.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    came: u64,
    client: usize,
}

#[derive(Default, Debug)]
struct Tally {
    came: u64,
    served: u64,
    /// Duration of each served request, milliseconds.
    times: Vec<u64>,
    refused: u64,
    limits: Vec<usize>,
}

impl Tally {
    /// The time within which 99 of 100 were served.
    fn p99(&mut self) -> u64 {
        self.times.sort_unstable();
        self.times.get(self.times.len() * 99 / 100).copied().unwrap_or(0)
    }

    /// The part of the requests that was served, without the ones that still wait.
    fn part(&self) -> f64 {
        self.served as f64 / (self.served + self.refused).max(1) as f64
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
    queue: RequestQueue<Waiting>,
    limiter: Box<dyn Limiter>,
    running: Vec<Running>,
    /// When closed-loop clients send their next request.
    asks: Vec<(u64, usize)>,
    next: f64,
    cpu: f64,
    ready: f64,
    finished: u64,
    refused: u64,
}

/// `php.queue_wait`, milliseconds.
const BUDGET: u64 = 2_000;

impl Machine {
    fn new(workers: usize) -> Machine {
        Machine::with(workers, Box::new(ConcurrencyLimit::new(2, workers)))
    }

    fn with(workers: usize, limiter: Box<dyn Limiter>) -> Machine {
        Machine {
            now: 1_000,
            seed: 42,
            cores: 2.0,
            database: 2.0,
            workers,
            queue: RequestQueue::new(Some(BUDGET)),
            limiter,
            running: Vec::new(),
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
        self.some(seconds * 1_000, crowd, scripts, &mut tally);
        self.asks.clear();
        tally
    }

    /// Runs for `milliseconds`.
    fn some(&mut self, milliseconds: u64, crowd: &Crowd, scripts: &[Script], tally: &mut Tally) {
        for _ in 0..milliseconds {
            self.now += 1;
            self.arrivals(crowd, scripts, tally);
            self.turn(crowd, scripts, tally);
            if self.now.is_multiple_of(100) {
                self.look();
                tally.limits.push(self.limit());
            }
        }
    }

    fn limit(&self) -> usize {
        self.limiter.limit().min(self.workers)
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
        let from =
            Applicant { rank: Rank::Visitor, address: Some(IpAddr::from([127, 0, 0, 1])), place: None };
        if !self.enter(client, &from, scripts) {
            self.refused += 1;
            tally.refused += 1;
            if matches!(crowd, Crowd::Closed(_)) {
                self.asks.push((self.now + 1, client));
            }
        }
    }

    /// A request arrives: it runs, waits, or is refused.
    fn enter(&mut self, client: usize, from: &Applicant, scripts: &[Script]) -> bool {
        let waiting = Waiting { came: self.now, client };
        if self.running.len() < self.limit() {
            self.begin(waiting, scripts);
            return true;
        }
        let Some(turn) = self.queue.admit(self.now, from, self.capacity()) else { return false };
        self.queue.waiters.push(0, turn, self.now, None, None, waiting);
        true
    }

    fn capacity(&self) -> Capacity {
        Capacity { limit: self.limit(), cores: 2, running: self.running.len() }
    }

    fn begin(&mut self, waiting: Waiting, scripts: &[Script]) {
        let at = (self.chance() * scripts.len() as f64) as usize % scripts.len();
        // Half of it is fixed, the rest random: pages differ.
        let part = 0.5 + self.chance();
        let Script { cpu, database, service } = scripts[at];
        let left = Script { cpu: cpu * part, database: database * part, service: service * part };
        self.running.push(Running { began: self.now, came: waiting.came, client: waiting.client, left });
    }

    fn turn(&mut self, crowd: &Crowd, scripts: &[Script], tally: &mut Tally) {
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
            tally.times.push(self.now - run.came);
            self.queue.served(self.now, (self.now - run.began) as f64);
            self.limiter.served((self.now - run.began) as f64);
            if matches!(crowd, Crowd::Closed(_)) {
                self.asks.push((self.now + 1, run.client));
            }
        }
        while self.running.len() < self.limit() {
            let Some((_, next)) = self.queue.next(None, true) else { break };
            self.begin(next.wake, scripts);
        }
    }

    fn look(&mut self) {
        let seen = PoolSample {
            busy: self.running.len(),
            cpu_us: Some((std::mem::take(&mut self.cpu) * 1e3) as u64),
            ready_us: Some((std::mem::take(&mut self.ready) * 1e3) as u64),
            finished: std::mem::take(&mut self.finished),
            pressed: self.queue.waiters.len() > 0 || std::mem::take(&mut self.refused) > 0,
        };
        self.queue.admission.used(seen.cpu_us.unwrap_or(0), seen.finished);
        self.limiter.look(self.now, &seen);
    }
}

/// Two cores can do 80 pages of 25 ms per second.
const CAPACITY: f64 = 80.0;

#[test]
fn overload_of_any_size_serves_as_many_and_none_late() {
    for times in [1.5, 2.0, 5.0, 10.0] {
        let mut machine = Machine::new(16);
        machine.play(5, &Crowd::Open(CAPACITY * times), &[PAGE]);
        let mut tally = machine.play(30, &Crowd::Open(CAPACITY * times), &[PAGE]);
        let rate = tally.served as f64 / 30.0;
        assert!(rate > CAPACITY * 0.95, "{times}: {rate:.1} a second");
        let p99 = tally.p99();
        assert!(p99 <= BUDGET + BUDGET / 10, "{times}: {p99} ms");
        assert!((2.0..=4.0).contains(&tally.limit()), "{times}: {:.1} at once", tally.limit());
    }
}

#[test]
fn a_crowd_that_comes_out_of_quiet_is_told_at_once_too() {
    let mut machine = Machine::new(16);
    machine.play(5, &Crowd::Open(20.0), &[PAGE]);
    let mut tally = machine.play(30, &Crowd::Open(CAPACITY * 10.0), &[PAGE]);
    let p99 = tally.p99();
    assert!(p99 <= BUDGET * 5 / 4, "{p99} ms");
}

#[test]
fn what_can_be_served_is_served() {
    for (part, least) in [(0.3, 1.0), (0.7, 1.0), (0.9, 0.995), (1.0, 0.97)] {
        let tally = Machine::new(16).play(120, &Crowd::Open(CAPACITY * part), &[PAGE]);
        assert!(tally.part() >= least, "{part}: {} of {} refused", tally.refused, tally.came);
    }
}

#[test]
fn a_burst_waits() {
    let mut machine = Machine::new(16);
    machine.play(5, &Crowd::Open(20.0), &[PAGE]);
    let tally = machine.play(1, &Crowd::Open(CAPACITY * 2.5), &[PAGE]);
    let after = machine.play(4, &Crowd::Open(20.0), &[PAGE]);
    assert_eq!((tally.refused, after.refused), (0, 0));
    assert!(tally.came > 150);
}

#[test]
fn a_closed_loop_waits() {
    // The last would wait for three seconds.
    for clients in [8, 32, 128, 240] {
        let mut machine = Machine::new(16);
        machine.play(2, &Crowd::Open(20.0), &[PAGE]);
        let tally = machine.play(30, &Crowd::Closed(clients), &[PAGE]);
        assert_eq!(tally.refused, 0, "{clients} clients");
        assert!(tally.served as f64 / 30.0 > CAPACITY * 0.97, "{clients} clients: {} served", tally.served);
    }
}

/// One address floods a queue in which others, and shoppers, arrive now and then.
#[test]
fn one_address_keeps_nobody_out() {
    let mut machine = Machine::new(16);
    let mut of_others = Tally::default();
    let crowd = Crowd::Open(CAPACITY * 5.0);
    machine.play(5, &crowd, &[PAGE]);
    for second in 0..20u8 {
        for at in 0..20u8 {
            for rank in [Rank::Visitor, Rank::Buying] {
                of_others.came += 1;
                let address = Some(IpAddr::from([10, second, at, 1]));
                let from = Applicant { rank, address, place: None };
                of_others.refused += u64::from(!machine.enter(usize::MAX, &from, &[PAGE]));
            }
            machine.some(50, &crowd, &[PAGE], &mut Tally::default());
        }
    }
    assert_eq!(of_others.refused, 0, "of {}", of_others.came);
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
