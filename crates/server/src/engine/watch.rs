//! Finds event loops that hang.
//!
//! A loop beats with each of its sweeps, four times a second, idle or not. It is hung when it has not beaten for [`HUNG`], in which it could have:
//!
//! ```text
//!  since the last look                          counts as silence
//!  it has beaten                                 0, and what was before is forgotten
//!  ready, and has not run: all processors busy   0
//!  ready, and has run: it computes               the time for which it has run
//!  sleeps, or waits for a disk                   the time, without what it waited for a processor
//! ```
//!
//! So a busy machine, where loops run late, is no reason; nor is one that was asleep as a whole, because then the control thread looks late, too, and
//! a look counts [`LONGEST_LOOK`] at most.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_sys::{ThreadTimes, thread_report, thread_times};

use crate::serve::Service;
use millrace_base::context::{HungLoop, Pulse};

/// Interval between looks.
pub const LOOK: Duration = Duration::from_secs(1);
/// What a look counts at most.
const LONGEST_LOOK: Duration = Duration::from_secs(2);
/// Silence after which a loop is hung.
const HUNG: Duration = Duration::from_secs(5);

/// What is known about all event loops.
#[derive(Debug, Default)]
pub struct LoopWatch {
    last: Option<Instant>,
    loops: Vec<WatchedLoop>,
}

#[derive(Debug)]
struct WatchedLoop {
    pulse: Arc<Pulse>,
    silence: Silence,
    is_told: bool,
}

/// How long a loop has not beaten.
#[derive(Debug, Default)]
struct Silence {
    beats: u64,
    times: ThreadTimes,
    lasts: Duration,
}

impl Silence {
    /// After `passed` since the last look; returns how long it lasts.
    fn look(&mut self, beats: u64, times: ThreadTimes, passed: Duration) -> Duration {
        let ran = times.run.saturating_sub(self.times.run);
        let waited = times.waited.saturating_sub(self.times.waited);
        self.times = times;
        if std::mem::replace(&mut self.beats, beats) != beats {
            self.lasts = Duration::ZERO;
        } else if times.is_ready {
            self.lasts += ran.min(passed);
        } else {
            self.lasts += passed.saturating_sub(waited);
        }
        self.lasts
    }
}

impl LoopWatch {
    /// Looks at all event loops, writes into the log what has changed, and publishes which are hung.
    pub fn look(&mut self, service: &Service) {
        let now = Instant::now();
        let passed = self.last.replace(now).map_or(Duration::ZERO, |last| now - last).min(LONGEST_LOOK);
        let living = service.process.pulses.living();
        self.loops.retain(|known| living.iter().any(|pulse| Arc::ptr_eq(pulse, &known.pulse)));
        for pulse in living {
            if !self.loops.iter().any(|known| Arc::ptr_eq(&known.pulse, &pulse)) {
                self.loops.push(WatchedLoop { pulse, silence: Silence::default(), is_told: false });
            }
        }
        let hung = self.loops.iter_mut().filter_map(|known| known.look(service, passed)).collect();
        service.process.pulses.set_hung(hung);
    }
}

impl WatchedLoop {
    fn look(&mut self, service: &Service, passed: Duration) -> Option<HungLoop> {
        // Without figures of the kernel it counts as asleep.
        let times = thread_times(self.pulse.thread).unwrap_or_default();
        let silence = self.silence.look(self.pulse.beats(), times, passed);
        let name = &self.pulse.name;
        if silence < HUNG {
            if std::mem::take(&mut self.is_told) {
                service.process.log.warn(format_args!("the event loop {name} goes on"));
            }
            return None;
        }
        let report = thread_report(self.pulse.thread);
        let doing = match self.site(service) {
            Some(site) => format!("the last request was for {site}; {report}"),
            None => report,
        };
        if !std::mem::replace(&mut self.is_told, true) {
            service.process.log.error(format_args!(
                "the event loop {name} has been stuck for {} s: {doing}\nIts connections wait; restart Millrace if it does not go on, and report \
                 this with the lines above",
                silence.as_secs()
            ));
        }
        Some(HungLoop { name: name.clone(), seconds: silence.as_secs(), doing })
    }

    /// The site whose request came last.
    fn site(&self, service: &Service) -> Option<String> {
        let setup = service.setup();
        let site = setup.sites.get(self.pulse.site()?)?;
        Some(site.name().unwrap_or("any host").to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn times(run: u64, waited: u64, is_ready: bool) -> ThreadTimes {
        ThreadTimes { run: Duration::from_millis(run), waited: Duration::from_millis(waited), is_ready }
    }

    #[test]
    fn what_counts_as_silence() {
        let mut silence = Silence::default();
        assert_eq!(silence.look(1, times(10, 0, false), SECOND), Duration::ZERO);
        assert_eq!(silence.look(1, times(10, 0, false), SECOND), SECOND, "it sleeps");
        assert_eq!(silence.look(1, times(10, 300, false), SECOND).as_millis(), 1_700, "it has waited");
        assert_eq!(
            silence.look(1, times(10, 300, true), SECOND).as_millis(),
            1_700,
            "it waits for a processor"
        );
        assert_eq!(
            silence.look(1, times(510, 800, true), SECOND).as_millis(),
            2_200,
            "it computes half of the time"
        );
        assert_eq!(silence.look(1, times(510, 5_000, false), SECOND).as_millis(), 2_200);
        assert_eq!(
            silence.look(1, ThreadTimes::default(), SECOND).as_millis(),
            3_200,
            "the kernel does not tell"
        );
        assert_eq!(silence.look(2, times(520, 5_000, false), SECOND), Duration::ZERO, "it goes on");
    }

    /// However busy the machine is, a loop that gets a tenth of a processor is not hung by that.
    #[test]
    fn a_starving_loop_is_not_hung() {
        let mut silence = Silence::default();
        silence.look(1, times(0, 0, true), SECOND);
        for second in 1..40 {
            let lasts = silence.look(1, times(second * 100, (second - 1) * 900, second % 3 > 0), SECOND);
            assert!(lasts < HUNG, "{second}: {lasts:?}");
        }
    }
}
