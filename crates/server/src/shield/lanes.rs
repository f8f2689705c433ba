//! The shares of classes at each site, and the line for what is beyond them.
//!
//! A class that has lately used up its share of PHP's time runs in the pool `background`, whose workers have a lower priority, and only a
//! few at once. So it gets what others leave of the processor. The database does not know of priorities: while others need PHP, too, each
//! place is kept free for a while after a run. Requests that come from links of the site itself still run as
//! visitors' requests, as long as they are few.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use millrace_settings::plan::ShieldMode;
use millrace_shield::{Class, Share};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::request::Standpoint;
use super::{Shield, ShieldRequest};
use millrace_base::context::Context;
use millrace_base::context::stats::Counter;
use millrace_base::message::Request;
use millrace_base::message::reply::Reply;
use millrace_base::site::Site;

/// One in so many workers runs requests beyond their class's share; at least one does.
const PART: usize = 8;
/// Maximum number of requests that wait for such a worker.
const WAITING: usize = 16;
/// How long a request waits for it, and how long a crawler does.
const PATIENCE: Duration = Duration::from_secs(2);
const CRAWLERS_PATIENCE: Duration = Duration::from_secs(30);
/// While others need PHP, a place stays free for so many times the time of the run.
const PAUSE: u32 = 3;
/// Maximum of that time.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The lanes of all sites.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// By the numbers of the sites.
    sites: Mutex<HashMap<usize, Arc<SiteLanes>>>,
    /// Requests that went to PHP as any visitor's.
    ordinary: AtomicU64,
}

/// The lanes of a site.
#[derive(Debug)]
struct SiteLanes {
    shares: Mutex<[Share; Class::ALL.len()]>,
    workers: usize,
    aside: Lane,
    crawlers: Lane,
}

/// Places for requests beyond the share of their class.
#[derive(Debug)]
struct Lane {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// A request that runs on the account of its class; it ends when this is dropped.
#[derive(Debug)]
pub struct ShieldPass {
    context: Rc<Context>,
    shield: Arc<Shield>,
    site: Arc<SiteLanes>,
    class: Class,
    begun: Instant,
    part: u64,
    /// For one that runs beyond the share of its class.
    place: Option<OwnedSemaphorePermit>,
    /// Ordinary requests before it.
    ordinary: u64,
}

impl Drop for ShieldPass {
    fn drop(&mut self) {
        let now = self.context.clock.now();
        let took = now.saturating_duration_since(self.begun);
        let micros = self.shield.micros(now);
        self.site.shares()[self.class as usize].end(took.as_micros() as u64, self.part, micros);
        let is_busy = self.shield.lanes.ordinary.load(Ordering::Relaxed) != self.ordinary;
        if let Some(place) = self.place.take() {
            give_back(place, took, is_busy);
        }
    }
}

/// Frees a place after a run that `took` so long: later if others need PHP, too.
fn give_back(place: OwnedSemaphorePermit, took: Duration, is_busy: bool) {
    // Without a runtime the server is ending.
    let Some(runtime) = Handle::try_current().ok().filter(|_| is_busy) else { return };
    let pause = (took * PAUSE).min(LONGEST_PAUSE);
    runtime.spawn(async move {
        tokio::time::sleep(pause).await;
        drop(place);
    });
}

impl Lanes {
    /// Lets a request run on the account of its class; the error is its response.
    pub(super) async fn enter(
        &self,
        context: &Rc<Context>,
        shield: &Arc<Shield>,
        site: &Site,
        seen: &ShieldRequest,
        request: &mut Request,
    ) -> Result<Option<ShieldPass>, Reply> {
        let plan = context.plan();
        if !seen.class.has_share() || plan.shield.share == 0 {
            self.count_ordinary();
            return Ok(None);
        }
        let lanes = self.of(site);
        // Thousandths of one processor.
        let part = plan.shield.share * 10 * cores();
        let pass = |place: Option<OwnedSemaphorePermit>| {
            if place.is_none() {
                self.count_ordinary();
            }
            let ordinary = self.ordinary.load(Ordering::Relaxed);
            lanes.shares()[seen.class as usize].begin();
            let (context, shield, site) = (context.clone(), shield.clone(), lanes.clone());
            let (class, begun) = (seen.class, context.clock.now());
            Ok(Some(ShieldPass { context, shield, site, class, begun, part, place, ordinary }))
        };
        if lanes.lets_pass(seen, part, shield.micros(context.clock.now())) {
            return pass(None);
        }
        if plan.shield.mode == ShieldMode::Watch {
            context.stats.add(Counter::ShieldWatched, 1);
            return pass(None);
        }
        let (lane, patience) = match seen.standpoint {
            Standpoint::Crawler => (&lanes.crawlers, CRAWLERS_PATIENCE),
            _ => (&lanes.aside, PATIENCE),
        };
        if lane.places.available_permits() == 0 {
            lanes.shares()[seen.class as usize].press(shield.micros(context.clock.now()));
        }
        let Some(place) = lane.wait(patience).await else {
            context.stats.add(Counter::ShieldFull, 1);
            return Err(site.turned_away());
        };
        context.stats.add(Counter::ShieldAside, 1);
        request.found.runs_aside = true;
        // The time in the line is not PHP's.
        context.clock.read();
        pass(Some(place))
    }

    /// A request goes to PHP as any visitor's.
    pub(super) fn count_ordinary(&self) {
        self.ordinary.fetch_add(1, Ordering::Relaxed);
    }

    fn of(&self, site: &Site) -> Arc<SiteLanes> {
        let workers = site.plan.php.as_ref().map_or(1, |php| php.workers);
        let mut all = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(&site.number) {
            Some(lanes) if lanes.workers == workers => lanes.clone(),
            _ => {
                let new = Arc::new(SiteLanes::new(workers));
                all.insert(site.number, new.clone());
                new
            }
        }
    }
}

impl SiteLanes {
    fn new(workers: usize) -> SiteLanes {
        let lane = || {
            let places = Arc::new(Semaphore::new((workers / PART).max(1)));
            Lane { places, waiting: AtomicUsize::new(0) }
        };
        SiteLanes { shares: Mutex::default(), workers, aside: lane(), crawlers: lane() }
    }

    fn shares(&self) -> MutexGuard<'_, [Share; Class::ALL.len()]> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request runs as any visitor's.
    fn lets_pass(&self, seen: &ShieldRequest, part: u64, now: u64) -> bool {
        let share = &mut self.shares()[seen.class as usize];
        if share.is_used_up(part, now) {
            share.press(now);
        }
        let is_from_here = matches!(seen.standpoint, Standpoint::FromHere | Standpoint::Proven);
        !share.is_pressed(now) || is_from_here && share.running() < self.workers as u64 / 2
    }
}

impl Lane {
    /// A place, as soon as there is one; `None`: there is none in time, or too many wait.
    async fn wait(&self, patience: Duration) -> Option<OwnedSemaphorePermit> {
        struct Leaves<'a>(&'a AtomicUsize);
        impl Drop for Leaves<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let is_full = self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING;
        let _leaves = Leaves(&self.waiting);
        if is_full {
            return self.places.clone().try_acquire_owned().ok();
        }
        tokio::time::timeout(patience, self.places.clone().acquire_owned()).await.ok()?.ok()
    }
}

fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART_OF_TWO: u64 = 500;

    #[test]
    fn beyond_the_share_only_links_of_the_site_pass_and_only_some() {
        let lanes = SiteLanes::new(8);
        let of = |standpoint| ShieldRequest {
            address: [192, 0, 2, 1].into(),
            class: Class::Filter,
            standpoint,
            is_foreign: false,
            tries_password: false,
            is_relayed: false,
            is_for_programs: false,
            is_banned: false,
        };
        let ask = |standpoint| {
            let passes = lanes.lets_pass(&of(standpoint), PART_OF_TWO, 1_000);
            lanes.shares()[Class::Filter as usize].begin();
            passes
        };
        assert!(ask(Standpoint::Stranger));
        lanes.shares()[Class::Filter as usize].end(5_000_000, PART_OF_TWO, 1_000);
        assert!(!ask(Standpoint::Stranger) && !ask(Standpoint::Crawler));
        let clicks = [(); 3].map(|()| ask(Standpoint::FromHere));
        assert_eq!(clicks, [true, true, false], "up to half of the workers");
        let search = ShieldRequest { class: Class::Search, ..of(Standpoint::Stranger) };
        assert!(lanes.lets_pass(&search, PART_OF_TWO, 1_000), "another class");
    }

    #[tokio::test]
    async fn while_others_need_php_a_place_stays_free_for_a_while() {
        let places = Arc::new(Semaphore::new(1));
        let take = async || places.clone().acquire_owned().await.unwrap();
        give_back(take().await, Duration::from_secs(3600), false);
        assert_eq!(places.available_permits(), 1);
        give_back(take().await, Duration::from_millis(10), true);
        assert_eq!(places.available_permits(), 0);
        drop(take().await);
    }

    #[tokio::test]
    async fn a_line_is_bounded_and_served_in_order() {
        let lane = Lane { places: Arc::new(Semaphore::new(1)), waiting: AtomicUsize::new(0) };
        let place = lane.wait(PATIENCE).await;
        assert!(place.is_some());
        lane.waiting.store(WAITING, Ordering::Relaxed);
        assert!(lane.wait(PATIENCE).await.is_none(), "too many wait");
        lane.waiting.store(0, Ordering::Relaxed);
        assert!(lane.wait(Duration::ZERO).await.is_none(), "none in time");
        drop(place);
        assert!(lane.wait(Duration::ZERO).await.is_some());
        assert_eq!(lane.waiting.load(Ordering::Relaxed), 0);
    }
}
