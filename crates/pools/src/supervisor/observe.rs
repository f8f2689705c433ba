//! Measures a few times a second how busy a pool's workers keep the processor, for
//! [`concurrency`](crate::pool::concurrency_limit); and logs what [`admission`](crate::pool::admission)
//! reports about overload.

use std::collections::HashMap;
use std::fmt::Debug;

use millrace_settings::plan::PhpPool;

use super::Supervisor;
use crate::pool::Seat;
use crate::pool::concurrency_limit::PoolSample;
use crate::pool::pools::{Pool, Pools};
use millrace_base::context::log::Log;

/// Minimum interval, milliseconds.
const EVERY_MS: u64 = 90;
/// A request that has run for longer than this, milliseconds, and than this multiple of the mean, counts as stuck.
const STUCK_MS: u64 = 2_000;
const STUCK_MEANS: f64 = 10.0;

/// The previous observation.
#[derive(Debug, Default)]
pub struct Observed {
    at: u64,
    /// Times of the workers by process ID.
    times: HashMap<u32, Times>,
    /// Since when each pool is overloaded.
    overloads: Vec<Option<u64>>,
}

/// The kernel's times of a process: see `/proc/PID/schedstat` in proc(5).
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// On a core, nanoseconds.
    cpu: u64,
    /// Ready to run, without a core, nanoseconds.
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
    /// Observes the workers, and sets how many of each pool may run at once.
    pub(super) fn observe(&mut self) {
        let now = self.now();
        if !self.observed.is_due(now) {
            return;
        }
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let mut seen = look(&mut state.pools);
        let live = || {
            state.seats().iter().filter_map(|seat| match seat {
                Seat::Live(handle) => Some(handle),
                _ => None,
            })
        };
        let busy = live().filter_map(|handle| Some((handle.pool(), handle.busy_since()?)));
        let stuck = stuck(&state.pools, busy, now);
        let active = seen.iter().any(|seen| seen.finished > 0 || seen.busy > 0);
        let processes: Vec<(u32, usize)> =
            live().filter(|_| active).map(|handle| (handle.pid(), handle.pool())).collect();
        drop(state);
        self.observed.measure(&processes, &mut seen);
        let mut state = shared.lock();
        let (raised, news) =
            self.observed.set_throttles(now, &mut state.pools, &shared.settings.pools, &seen, &stuck);
        if raised {
            shared.pump(state, now);
        } else {
            drop(state);
        }
        news.iter().for_each(|news| news.tell(&shared.log));
    }
}

impl Observed {
    /// Whether it is time for the next observation.
    pub fn is_due(&mut self, now: u64) -> bool {
        let is_due = now >= self.at + EVERY_MS;
        if is_due {
            self.at = now;
        }
        is_due
    }

    /// Adds what each pool's processes used since the previous observation.
    pub fn measure(&mut self, processes: &[(u32, usize)], pools: &mut [PoolSample]) {
        let mut times = HashMap::with_capacity(processes.len());
        for (pid, pool) in processes {
            let Some(seen) = pools.get_mut(*pool) else { continue };
            let Some(now) = Times::read(*pid) else { continue };
            let before = self.times.get(pid).copied().unwrap_or(now);
            let add = |sum: &mut Option<u64>, before: u64, now: u64| {
                *sum = Some(sum.unwrap_or(0) + now.saturating_sub(before) / 1_000);
            };
            add(&mut seen.cpu_us, before.cpu, now.cpu);
            add(&mut seen.ready_us, before.ready, now.ready);
            times.insert(*pid, now);
        }
        if !processes.is_empty() {
            self.times = times;
        }
    }

    /// Sets for each pool how many useful requests may run at once, besides the `stuck` ones. Returns whether a pool
    /// may run more than before, and what to log.
    pub fn set_throttles<'a, L: Debug>(
        &mut self,
        now: u64,
        pools: &mut Pools<L>,
        settings: &'a [PhpPool],
        seen: &[PoolSample],
        stuck: &[usize],
    ) -> (bool, Vec<News<'a>>) {
        let (mut raised, mut news) = (false, Vec::new());
        self.overloads.resize(seen.len(), None);
        let pools = pools.iter_mut().zip(seen.iter().zip(stuck)).zip(settings);
        for (((pool, (seen, stuck)), settings), told) in pools.zip(&mut self.overloads) {
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
                let since = overload.or(*told).unwrap_or(now);
                let over = overload.is_none().then(|| now.saturating_sub(since) / 1_000);
                news.push(News { pool: &settings.name, over });
            }
            *told = overload;
        }
        (raised, news)
    }
}

/// An overload begins or ends.
#[derive(Debug)]
pub struct News<'a> {
    pool: &'a str,
    /// It ended, after this many seconds.
    over: Option<u64>,
}

impl News<'_> {
    /// Logs it.
    pub fn tell(&self, log: &Log) {
        let name = self.pool;
        match self.over {
            None => log.warn(format_args!(
                "PHP pool {name} is overloaded: refusing requests that would wait too long; see `millrace status` \
                 and php.queue_wait"
            )),
            Some(seconds) => {
                log.info(format_args!("PHP pool {name} is no longer overloaded, after {seconds} s"));
            }
        }
    }
}

/// Returns each pool's sample since the previous observation.
pub fn look<L: Debug>(pools: &mut Pools<L>) -> Vec<PoolSample> {
    let seen = |running: usize, waiting: usize, (finished, refused): (u64, u64)| PoolSample {
        busy: running,
        finished,
        pressed: waiting > 0 || refused > 0,
        ..PoolSample::default()
    };
    let pools = pools.iter_mut();
    pools.map(|pool| seen(pool.running, pool.queue.waiters.len(), std::mem::take(&mut pool.lately))).collect()
}

/// Number of stuck requests in each pool: endless loops, imports, requests that wait for a service that doesn't
/// respond. They would occupy all places under the concurrency limit, and no other request would be served. `busy`:
/// for each running request its pool and its start.
pub fn stuck<L: Debug>(pools: &Pools<L>, busy: impl Iterator<Item = (usize, u64)>, now: u64) -> Vec<usize> {
    let usual = |pool: &Pool<L>| pool.queue.admission.mean().unwrap_or(0.0) * STUCK_MEANS;
    let limits: Vec<u64> = pools.iter().map(|(_, pool)| STUCK_MS.max(usual(pool) as u64)).collect();
    let mut stuck = vec![0; limits.len()];
    for (pool, since) in busy {
        if limits.get(pool).is_some_and(|limit| since + limit <= now) {
            stuck[pool] += 1;
        }
    }
    stuck
}
