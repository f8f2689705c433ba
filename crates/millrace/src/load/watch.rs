//! Asks the doctor while there is load: a look when a round has begun, another one before it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use millrace_care::checks::Examination;

use crate::doctor::Patient;

/// The doctor is asked in rounds of this length and longer: two looks take time, and need some in between.
pub const LEAST_ROUND: Duration = Duration::from_secs(2);
/// From the beginning of a round to the first look: connections are opened meanwhile.
const LEAD: Duration = Duration::from_millis(500);
/// From the second look to the end of a round, at most, and as a part of the round: a look must end while there is still load.
const TAIL: (Duration, u32) = (Duration::from_millis(1_500), 4);
/// How often the thread looks whether the load has ended early.
const TICK: Duration = Duration::from_millis(100);

/// The thread that asks.
pub struct Watch {
    thread: JoinHandle<Vec<Option<Examination>>>,
    is_over: Arc<AtomicBool>,
}

impl Watch {
    /// Begins to watch rounds of these lengths, the first of which began at `start`.
    pub fn begin(patient: Arc<Patient>, start: Instant, rounds: Vec<Duration>) -> Watch {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        Watch { thread: spawn(move || watch(&patient, start, &rounds, &over)), is_over }
    }

    /// The load has ended. What was found in each round; `None`: the doctor was not asked in it.
    pub fn end(self) -> Vec<Option<Examination>> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn watch(
    patient: &Patient,
    start: Instant,
    rounds: &[Duration],
    over: &AtomicBool,
) -> Vec<Option<Examination>> {
    let is_over = || over.load(Ordering::Relaxed);
    let mut begin = start;
    let mut found = Vec::new();
    for length in rounds {
        let end = begin + *length;
        while Instant::now() < begin + LEAD && !is_over() {
            sleep(TICK);
        }
        if is_over() {
            break;
        }
        let is_asked = *length >= LEAST_ROUND;
        let due = end - TAIL.0.min(*length / TAIL.1);
        found.push(is_asked.then(|| patient.examine(&patient.look(), due, &is_over).0));
        begin = end;
    }
    found
}
