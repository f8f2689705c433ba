//! The top figures of the last hour and of the last day, in total and by site, in memory. The control thread notes them every 5 s
//! ([`super::NOTE_EVERY`]); event loops have no part in it.
//!
//! | series | points | memory |
//! | --- | --- | --- |
//! | total | 720 of 5 s, 720 of 2 min | 58 KB |
//! | a site | 360 of 10 s, 180 of 8 min | 11 KB; 5.5 MB for 512 sites |

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{AdminState, NOTE_EVERY};
use millrace_base::context::stats::{Counter, SiteCounter, SiteFigures, Summary};

/// Notes per point, and points, of the last hour and of the last day.
const TOTAL: [(u32, usize); 2] = [(1, 720), (24, 720)];
const SITE: [(u32, usize); 2] = [(2, 360), (96, 180)];

/// Over which time the rates of a site are averaged.
const LATELY: Duration = Duration::from_secs(60);

/// All series.
pub struct History {
    total: Series<Totals>,
    /// By the numbers of the sites, with their names.
    sites: Vec<(Box<str>, Series<SiteFigures>)>,
    last: Instant,
}

impl History {
    /// Begins with these figures.
    pub fn new(totals: Totals, sites: &[(Box<str>, SiteFigures)]) -> History {
        let total = Series::new(TOTAL, totals);
        let mut history = History { total, sites: Vec::new(), last: Instant::now() };
        history.meet(sites);
        history
    }

    /// Notes the current figures.
    pub fn note(&mut self, now: Instant, totals: Totals, sites: &[(Box<str>, SiteFigures)]) {
        let seconds = now.saturating_duration_since(self.last).as_secs_f32();
        // The first tick of the interval comes at once: rates over so short a time would be noise.
        if seconds < NOTE_EVERY.as_secs_f32() / 2.0 {
            return;
        }
        self.last = now;
        self.total.note(totals, seconds);
        for ((_, series), (_, figures)) in self.sites.iter_mut().zip(sites) {
            series.note(*figures, seconds);
        }
        self.meet(sites);
    }

    /// Sites that a reload has added.
    fn meet(&mut self, sites: &[(Box<str>, SiteFigures)]) {
        for (name, figures) in &sites[self.sites.len()..] {
            self.sites.push((name.clone(), Series::new(SITE, *figures)));
        }
    }

    /// The rates of a site in the last minute, by its number; `None`: there are no points yet.
    pub fn lately(&self, number: usize) -> Option<SiteRates> {
        let hour = &self.sites.get(number)?.1.hour;
        let most = (LATELY.as_secs() / hour.spacing().as_secs()) as usize;
        let mut sum = SiteRates::default();
        let count = hour.points.iter().rev().take(most).inspect(|rates| sum.add(rates)).count();
        (count > 0).then(|| sum.divided(count as f32))
    }

    /// The series of the server, or of a site by its name, as of `now`; `None`: there is no such site.
    pub fn json(&self, site: Option<&str>, now: SystemTime) -> Option<Value> {
        let end = now.duration_since(UNIX_EPOCH).unwrap_or_default() - self.last.elapsed();
        match site {
            None => Some(self.total.json(end)),
            Some(site) => {
                // Number 0 may have the name of a real site: that comes later.
                self.sites.iter().rev().find(|(name, _)| **name == *site).map(|(_, series)| series.json(end))
            }
        }
    }
}

/// Figures that only grow, and gauges; what a point says about the time between two of them.
trait Figures: Copy {
    type Point;

    fn since(&self, earlier: &Self, seconds: f32) -> Self::Point;

    /// Points as one list per member.
    fn json(points: &VecDeque<Self::Point>) -> Value;
}

struct Series<F: Figures> {
    hour: Ring<F>,
    day: Ring<F>,
}

impl<F: Figures> Series<F> {
    fn new([hour, day]: [(u32, usize); 2], now: F) -> Series<F> {
        Series { hour: Ring::new(hour, now), day: Ring::new(day, now) }
    }

    fn note(&mut self, now: F, seconds: f32) {
        self.hour.note(now, seconds);
        self.day.note(now, seconds);
    }

    /// `end`: when the last note was made, since 1970.
    fn json(&self, end: Duration) -> Value {
        json!({ "hour": self.hour.json(end), "day": self.day.json(end) })
    }
}

/// Points at equal distances.
struct Ring<F: Figures> {
    /// Notes per point.
    every: u32,
    most: usize,
    /// The figures of the last point.
    last: F,
    /// Notes since the last point, and the time.
    notes: u32,
    seconds: f32,
    /// The oldest first.
    points: VecDeque<F::Point>,
}

impl<F: Figures> Ring<F> {
    fn new((every, most): (u32, usize), last: F) -> Ring<F> {
        Ring { every, most, last, notes: 0, seconds: 0.0, points: VecDeque::new() }
    }

    fn note(&mut self, now: F, seconds: f32) {
        self.notes += 1;
        self.seconds += seconds;
        if self.notes < self.every {
            return;
        }
        if self.points.len() == self.most {
            self.points.pop_front();
        }
        self.points.push_back(now.since(&self.last, self.seconds));
        (self.last, self.notes, self.seconds) = (now, 0, 0.0);
    }

    fn spacing(&self) -> Duration {
        NOTE_EVERY * self.every
    }

    fn json(&self, end: Duration) -> Value {
        json!({
            "every_seconds": self.spacing().as_secs(),
            "end": end.saturating_sub(NOTE_EVERY * self.notes).as_secs(),
            "points": F::json(&self.points),
        })
    }
}

/// The figures of the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    requests: u64,
    errors: u64,
    sent: u64,
    hits: u64,
    /// Requests that the page cache could answer or that bypassed it.
    asked: u64,
    answers: Summary,
    busy: u64,
    waiting: u64,
    connections: u64,
}

impl Totals {
    /// Reads the counters and the PHP pools.
    pub fn gather(state: &AdminState) -> Totals {
        let value = |counter| state.service.process.stats.value(counter);
        let hits = value(Counter::CacheHits) + value(Counter::CacheStale);
        let made = value(Counter::CacheMisses) + value(Counter::CacheCollapsed);
        let pools = (state.pools)();
        Totals {
            requests: value(Counter::Requests),
            errors: value(Counter::Replies5xx),
            sent: value(Counter::BytesSent),
            hits,
            asked: hits + made + value(Counter::CacheBypassed) + value(Counter::CachePassed),
            answers: state.service.process.stats.all_answers(),
            busy: pools.iter().map(|php| php.running + php.background).sum(),
            waiting: pools.iter().map(|php| php.waiting).sum(),
            connections: super::connections::open(&value),
        }
    }
}

/// Rates per second, shares from 0 to 1, times in milliseconds; gauges as they were at the end.
pub struct TotalPoint {
    requests: f32,
    errors: f32,
    sent: f32,
    /// Not a number: no request for a page.
    hit_ratio: f32,
    /// Upper bounds; not a number: no request.
    p50: f32,
    p95: f32,
    busy: u32,
    waiting: u32,
    connections: u32,
}

impl Figures for Totals {
    type Point = TotalPoint;

    fn since(&self, earlier: &Totals, seconds: f32) -> TotalPoint {
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f32 / seconds;
        let answers = self.answers.since(&earlier.answers);
        let under = |share| answers.quantile(share).map_or(f32::NAN, |time| time.as_secs_f32() * 1e3);
        TotalPoint {
            requests: rate(self.requests, earlier.requests),
            errors: rate(self.errors, earlier.errors),
            sent: rate(self.sent, earlier.sent),
            hit_ratio: rate(self.hits, earlier.hits) / rate(self.asked, earlier.asked),
            p50: under(0.5),
            p95: under(0.95),
            busy: self.busy as u32,
            waiting: self.waiting as u32,
            connections: self.connections as u32,
        }
    }

    fn json(points: &VecDeque<TotalPoint>) -> Value {
        let list =
            |member: fn(&TotalPoint) -> f32| points.iter().map(|p| rounded(member(p))).collect::<Value>();
        json!({
            "requests_per_second": list(|p| p.requests),
            "errors_per_second": list(|p| p.errors),
            "sent_bytes_per_second": list(|p| p.sent),
            "hit_ratio": list(|p| p.hit_ratio),
            "p50_ms": list(|p| p.p50),
            "p95_ms": list(|p| p.p95),
            "php_busy": list(|p| p.busy as f32),
            "php_waiting": list(|p| p.waiting as f32),
            "connections": list(|p| p.connections as f32),
        })
    }
}

/// Rates of a site, per second.
#[derive(Clone, Copy, Debug, Default)]
pub struct SiteRates {
    requests: f32,
    errors: f32,
    hits: f32,
    /// Requests that the page cache could answer or that bypassed it.
    asked: f32,
    php: f32,
    /// Seconds of PHP per second.
    php_seconds: f32,
}

impl SiteRates {
    fn each(&mut self) -> [&mut f32; 6] {
        [
            &mut self.requests,
            &mut self.errors,
            &mut self.hits,
            &mut self.asked,
            &mut self.php,
            &mut self.php_seconds,
        ]
    }

    fn add(&mut self, other: &SiteRates) {
        let mut other = *other;
        self.each().into_iter().zip(other.each()).for_each(|(sum, value)| *sum += *value);
    }

    fn divided(mut self, by: f32) -> SiteRates {
        self.each().into_iter().for_each(|value| *value /= by);
        self
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        json!({
            "requests_per_second": rounded(self.requests),
            "errors_per_second": rounded(self.errors),
            "hit_ratio": rounded(self.hits / self.asked),
            "php_per_second": rounded(self.php),
            "php_mean_ms": rounded(self.php_seconds / self.php * 1e3),
        })
    }
}

impl Figures for SiteFigures {
    type Point = SiteRates;

    fn since(&self, earlier: &SiteFigures, seconds: f32) -> SiteRates {
        let new = SiteFigures::since(self, earlier);
        let rate = |count: u64| count as f32 / seconds;
        let of = |counter| rate(new.get(counter));
        let hits = of(SiteCounter::CacheHits);
        SiteRates {
            requests: rate(new.requests()),
            errors: of(SiteCounter::Replies5xx),
            hits,
            asked: hits + of(SiteCounter::CacheMisses) + of(SiteCounter::CacheBypassed),
            php: of(SiteCounter::PhpRequests),
            php_seconds: of(SiteCounter::PhpMicros) / 1e6,
        }
    }

    fn json(points: &VecDeque<SiteRates>) -> Value {
        let list =
            |member: fn(&SiteRates) -> f32| points.iter().map(|p| rounded(member(p))).collect::<Value>();
        json!({
            "requests_per_second": list(|p| p.requests),
            "errors_per_second": list(|p| p.errors),
            "hit_ratio": list(|p| p.hits / p.asked),
            "php_per_second": list(|p| p.php),
            "php_mean_ms": list(|p| p.php_seconds / p.php * 1e3),
        })
    }
}

/// With three decimals; what is not a number becomes null.
fn rounded(value: f32) -> Option<f64> {
    value.is_finite().then(|| (f64::from(value) * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_base::context::stats::Registry;

    fn totals(requests: u64) -> Totals {
        Totals { requests, hits: requests / 2, asked: requests, busy: requests, ..Totals::default() }
    }

    #[test]
    fn an_hour_and_a_day() {
        let start = Instant::now();
        let mut history = History::new(Totals::default(), &[]);
        history.last = start;
        // 25 hours at 2 requests per second.
        let notes = 25 * 720;
        for note in 1..=notes {
            history.note(start + NOTE_EVERY * note, totals(u64::from(note) * 10), &[]);
        }
        let (hour, day) = (&history.total.hour, &history.total.day);
        assert_eq!((hour.points.len(), day.points.len()), (720, 720));
        assert!(hour.points.iter().chain(&day.points).all(|p| p.requests == 2.0 && p.hit_ratio == 0.5));
        assert_eq!((hour.points[719].busy, day.points[719].busy), (notes * 10, notes * 10));
        assert_eq!((hour.points[718].busy, day.points[718].busy), (notes * 10 - 10, notes * 10 - 240));
        assert!(hour.points.capacity() <= 1024, "its memory is bounded");
    }

    #[test]
    fn sites_by_their_numbers() {
        let stats = Registry::new(1);
        let (a, slot) = (stats.site_number("a"), stats.slot(0));
        let start = Instant::now();
        let mut history = History::new(Totals::default(), &stats.sites());
        history.last = start;
        assert!(history.lately(a).is_none());
        for note in 1..=40 {
            slot.add_site(a, SiteCounter::Replies2xx, if note > 20 { 50 } else { 0 });
            slot.add_site(a, SiteCounter::CacheHits, 30);
            slot.add_site(a, SiteCounter::CacheMisses, 10);
            history.note(start + NOTE_EVERY * note, totals(0), &stats.sites());
        }
        // A reload brings a site: its series begins then.
        let b = stats.site_number("b");
        history.note(start + NOTE_EVERY * 41, totals(0), &stats.sites());
        slot.add_site(b, SiteCounter::Replies5xx, 20);
        (42..=43).for_each(|note| history.note(start + NOTE_EVERY * note, totals(0), &stats.sites()));
        let lately = history.lately(a).unwrap().json();
        assert_eq!(lately["hit_ratio"], 0.75);
        let json = history.json(Some("a"), SystemTime::now()).unwrap();
        let rates = json["hour"]["points"]["requests_per_second"].as_array().unwrap();
        assert_eq!((rates.len(), rates[9].as_f64(), rates[10].as_f64()), (21, Some(0.0), Some(10.0)));
        assert_eq!(
            history.json(Some("b"), SystemTime::now()).unwrap()["hour"]["points"]["errors_per_second"][0],
            2.0
        );
        assert!(history.json(Some("c"), SystemTime::now()).is_none());
    }

    #[test]
    fn nothing_happened() {
        let start = Instant::now();
        let mut history = History::new(Totals::default(), &[]);
        history.last = start;
        history.note(start + NOTE_EVERY / 5, Totals::default(), &[]);
        assert!(history.total.hour.points.is_empty(), "the first tick comes at once");
        history.note(start + NOTE_EVERY, Totals::default(), &[]);
        let json = history.json(None, SystemTime::now()).unwrap();
        let points = &json["hour"]["points"];
        assert!(points["hit_ratio"][0].is_null() && points["p95_ms"][0].is_null(), "{json}");
        assert_eq!(
            (&points["requests_per_second"][0], &json["day"]["every_seconds"]),
            (&json!(0.0), &json!(120))
        );
    }
}
