//! How busy the processor is with a pool's workers, a few times a second, for [`concurrency`](crate::php::pool::concurrency_limit); and what its
//! [`admission`](crate::php::pool::admission) says of that in the log.

use std::collections::HashMap;

use super::Supervisor;
use crate::php::pool::concurrency_limit::PoolSample;
use crate::php::pool::{Seat, WorkersState};

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
    /// Since when each pool is overloaded, and how many it had refused.
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
    /// Looks how the workers get on, and sets how many of them each pool may have at once.
    pub(super) fn observe(&mut self) {
        let now = self.now();
        if now < self.observed.at + EVERY_MS {
            return;
        }
        self.observed.at = now;
        let mut state = self.shared.lock();
        let seen = |running: usize, waiting: usize, (finished, refused): (u64, u64)| PoolSample {
            busy: running,
            finished,
            pressed: waiting > 0 || refused > 0,
            ..PoolSample::default()
        };
        let pools = state.pools.iter_mut();
        let mut pools: Vec<PoolSample> = pools
            .map(|pool| seen(pool.running, pool.queue.waiters.len(), std::mem::take(&mut pool.lately)))
            .collect();
        let live = state.seats().iter().filter_map(|seat| match seat {
            Seat::Live(handle) => Some((handle.pid(), handle.pool())),
            _ => None,
        });
        let stuck = stuck(&state, now);
        let active = pools.iter().any(|seen| seen.finished > 0 || seen.busy > 0);
        let processes: Vec<(u32, usize)> = if active { live.collect() } else { Vec::new() };
        drop(state);
        self.measure(&processes, &mut pools);
        self.set_throttles(now, &pools, &stuck);
    }

    /// Adds what each pool's workers used since the last time.
    fn measure(&mut self, processes: &[(u32, usize)], pools: &mut [PoolSample]) {
        let mut times = HashMap::with_capacity(processes.len());
        for (pid, pool) in processes {
            let Some(seen) = pools.get_mut(*pool) else { continue };
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

    /// Each pool may have as many at once as are of use, besides those that are `stuck`.
    fn set_throttles(&mut self, now: u64, seen: &[PoolSample], stuck: &[usize]) {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let (mut raised, mut news) = (false, Vec::new());
        self.observed.overloads.resize(seen.len(), None);
        let pools = state.pools.iter_mut().zip(seen.iter().zip(stuck)).zip(&shared.settings.pools);
        for (((pool, (seen, stuck)), settings), told) in pools.zip(&mut self.observed.overloads) {
            pool.concurrency.look(now, seen);
            let throttle = match settings.adaptive && pool.concurrency.is_holding_back() {
                true => pool.concurrency.limit() + stuck,
                false => usize::MAX,
            };
            raised |= throttle > pool.throttle && pool.queue.waiters.len() > 0;
            (pool.throttle, pool.stuck) = (throttle, *stuck);
            pool.queue.admission.used(seen.cpu_us.unwrap_or(0), seen.finished);
            let overload = pool.queue.admission.overloaded_since(now);
            if overload.is_some() != told.is_some() {
                news.push((&settings.name, overload.or(*told).unwrap_or(now), overload.is_some()));
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

/// How many workers of each pool run something that is not like the rest: endless loops, imports, what waits for a service
/// that does not answer. They would hold what places there are, and nobody else would be served.
fn stuck(state: &WorkersState, now: u64) -> Vec<usize> {
    let mut stuck = vec![0; state.pools.iter().count()];
    for seat in state.seats() {
        let Seat::Live(handle) = seat else { continue };
        let (Some(since), pool) = (handle.busy_since(), handle.pool()) else { continue };
        let Some((_, of)) = state.pools.iter().nth(pool) else { continue };
        let usual = of.queue.admission.mean().unwrap_or(0.0) * STUCK_MEANS;
        if since + STUCK_MS.max(usual as u64) <= now {
            stuck[pool] += 1;
        }
    }
    stuck
}
