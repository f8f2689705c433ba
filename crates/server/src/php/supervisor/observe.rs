//! How busy the processor is with a pool's workers, a few times a second, for [`pace`](crate::php::pool::pace); and what its
//! [`admission`](crate::php::pool::admission) says of that in the log.

use std::collections::HashMap;

use super::Supervisor;
use crate::php::pool::pace::Seen;
use crate::php::pool::{Seat, State};

/// Not more often than that, milliseconds.
const EVERY_MS: u64 = 90;
/// What takes longer than that, milliseconds, and than so many times the mean, is not like the rest.
const STUCK_MS: u64 = 2_000;
const STUCK_MEANS: f64 = 10.0;

/// What was seen the last time.
#[derive(Debug, Default)]
pub(super) struct Observed {
    at: u64,
    /// Times of the workers, by process id.
    times: HashMap<u32, Times>,
    /// Since when each lane is overloaded, and how many it had refused.
    overloads: Vec<Option<u64>>,
}

/// What the kernel says of a process: see `/proc/PID/schedstat` in proc(5).
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// On a core, nanoseconds.
    cpu: u64,
    /// Ready to run and without a core.
    ready: u64,
}

impl Times {
    fn read(pid: u32) -> Option<Times> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        let mut words = text.split_ascii_whitespace().map(str::parse);
        Some(Times { cpu: words.next()?.ok()?, ready: words.next()?.ok()? })
    }
}

impl Supervisor {
    /// Looks how the workers get on, and sets how many of them each lane may have at once.
    pub(super) fn observe(&mut self) {
        let now = self.now();
        if now < self.observed.at + EVERY_MS {
            return;
        }
        self.observed.at = now;
        let mut state = self.shared.lock();
        let seen = |running: usize, waiting: usize, (finished, refused): (u64, u64)| Seen {
            busy: running,
            finished,
            pressed: waiting > 0 || refused > 0,
            ..Seen::default()
        };
        let lanes = state.lanes.iter_mut();
        let mut lanes: Vec<Seen> = lanes
            .map(|lane| seen(lane.running, lane.queue.waiters.len(), std::mem::take(&mut lane.lately)))
            .collect();
        let live = state.seats().iter().filter_map(|seat| match seat {
            Seat::Live(card) => Some((card.pid(), card.lane())),
            _ => None,
        });
        let stuck = stuck(&state, now);
        let active = lanes.iter().any(|seen| seen.finished > 0 || seen.busy > 0);
        let processes: Vec<(u32, usize)> = if active { live.collect() } else { Vec::new() };
        drop(state);
        self.measure(&processes, &mut lanes);
        self.set_throttles(now, &lanes, &stuck);
    }

    /// Adds what each lane's workers used since the last time.
    fn measure(&mut self, processes: &[(u32, usize)], lanes: &mut [Seen]) {
        let mut times = HashMap::with_capacity(processes.len());
        for (pid, lane) in processes {
            let Some(seen) = lanes.get_mut(*lane) else { continue };
            let Some(now) = Times::read(*pid) else { continue };
            let before = self.observed.times.get(pid).copied().unwrap_or(now);
            let add = |sum: &mut Option<u64>, before: u64, now: u64| {
                *sum = Some(sum.unwrap_or(0) + now.saturating_sub(before) / 1_000);
            };
            add(&mut seen.cpu_us, before.cpu, now.cpu);
            add(&mut seen.ready_us, before.ready, now.ready);
            times.insert(*pid, now);
        }
        if !processes.is_empty() {
            self.observed.times = times;
        }
    }

    /// Each lane may have as many at once as are of use, besides those that are `stuck`.
    fn set_throttles(&mut self, now: u64, seen: &[Seen], stuck: &[usize]) {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let (mut raised, mut news) = (false, Vec::new());
        self.observed.overloads.resize(seen.len(), None);
        let lanes = state.lanes.iter_mut().zip(seen.iter().zip(stuck)).zip(&shared.settings.pools);
        for (((lane, (seen, stuck)), pool), told) in lanes.zip(&mut self.observed.overloads) {
            lane.pace.look(now, seen);
            let throttle = match pool.adaptive && lane.pace.is_holding_back() {
                true => lane.pace.limit() + stuck,
                false => usize::MAX,
            };
            raised |= throttle > lane.throttle && lane.queue.waiters.len() > 0;
            (lane.throttle, lane.stuck) = (throttle, *stuck);
            lane.queue.admission.used(seen.cpu_us.unwrap_or(0), seen.finished);
            let overload = lane.queue.admission.overloaded_since(now);
            if overload.is_some() != told.is_some() {
                news.push((&pool.name, overload.or(*told).unwrap_or(now), overload.is_some()));
            }
            *told = overload;
        }
        if raised {
            shared.pump(state, now);
        } else {
            drop(state);
        }
        for (name, since, begins) in news {
            if begins {
                shared.log.warn(format_args!(
                    "PHP pool {name} is overloaded: refusing requests that would wait too long; see `millrace \
                     status` and php.queue_wait"
                ));
            } else {
                let seconds = now.saturating_sub(since) / 1_000;
                shared.log.info(format_args!("PHP pool {name} is no longer overloaded, after {seconds} s"));
            }
        }
    }
}

/// How many workers of each lane run something that is not like the rest: endless loops, imports, what waits for a service
/// that does not answer. They would hold what places there are, and nobody else would be served.
fn stuck(state: &State, now: u64) -> Vec<usize> {
    let mut stuck = vec![0; state.lanes.iter().count()];
    for seat in state.seats() {
        let Seat::Live(card) = seat else { continue };
        let (Some(since), lane) = (card.busy_since(), card.lane()) else { continue };
        let Some((_, of)) = state.lanes.iter().nth(lane) else { continue };
        let usual = of.queue.admission.mean().unwrap_or(0.0) * STUCK_MEANS;
        if since + STUCK_MS.max(usual as u64) <= now {
            stuck[lane] += 1;
        }
    }
    stuck
}
