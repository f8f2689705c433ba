//! The survivability curve: how a server did under each load, whenever that was; the levels of its table, and the verdicts.

use super::document::{Document, JsonSecond, Latency, Server};

/// The most points of a curve.
const MOST_POINTS: usize = 72;
/// Levels of the table of published comparisons; below a tenth of them, the same shares of the reached load.
const LEVELS: [f64; 6] = [10e3, 100e3, 250e3, 500e3, 850e3, 1e6];

/// How the server coped with a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// No user notices the load.
    UltraFast,
    /// People are served as they expect.
    Stable,
    /// They are served, but they wait.
    Sluggish,
    /// Past the breaking point.
    Failing,
}

impl Verdict {
    /// All, best first.
    pub const ALL: [Verdict; 4] = [Verdict::UltraFast, Verdict::Stable, Verdict::Sluggish, Verdict::Failing];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::UltraFast => "Ultra-fast",
            Verdict::Stable => "Stable",
            Verdict::Sluggish => "Sluggish",
            Verdict::Failing => "Failing",
        }
    }

    /// Its conditions: minimum share of successful responses, maximum median and 99th percentile of the time to first
    /// byte (ms).
    pub fn terms(self) -> Option<(f64, f64, f64)> {
        match self {
            Verdict::UltraFast => Some((0.999, 50.0, 250.0)),
            Verdict::Stable => Some((0.99, 250.0, 1000.0)),
            Verdict::Sluggish => Some((0.95, 5000.0, f64::INFINITY)),
            Verdict::Failing => None,
        }
    }

    /// Its conditions, as text.
    pub fn words(self) -> String {
        let least = |share| super::figures::percent(share);
        let most = |ms: f64| super::figures::time(ms * 1000.0);
        match self.terms() {
            Some((share, median, p99)) if p99.is_finite() => {
                format!(
                    "at least {} successful, median at most {}, 99 % within {}",
                    least(share),
                    most(median),
                    most(p99)
                )
            }
            Some((share, median, _)) => {
                format!("at least {} successful, median at most {}", least(share), most(median))
            }
            None => "anything worse; the breaking point is at 5 % failures".to_owned(),
        }
    }

    fn of(point: &Point) -> Verdict {
        let holds = |verdict: &Verdict| {
            verdict.terms().is_none_or(|(share, median, p99)| {
                point.success >= share
                    && point.first_byte.p50_us as f64 <= median * 1000.0
                    && point.first_byte.p99_us as f64 <= p99 * 1000.0
            })
        };
        Verdict::ALL.into_iter().find(holds).unwrap_or(Verdict::Failing)
    }
}

/// How the server did under a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Users, or arrivals a second.
    pub load: f64,
    /// Time to first byte: the median of the seconds' figures, each as heavy as its responses.
    pub first_byte: Latency,
    /// Share of right responses.
    pub success: f64,
    /// Right responses a second.
    pub ok_per_second: f64,
    /// The server, as far as it could be seen.
    pub server: Server,
}

impl Point {
    /// For some seconds; `None` if no response ended in them.
    fn of(load: f64, seconds: &[&JsonSecond]) -> Option<Point> {
        let sum = |of: fn(&JsonSecond) -> u64| seconds.iter().map(|s| of(s)).sum::<u64>() as f64;
        let (ok, failed) = (sum(|s| s.ok), sum(|s| s.failed));
        let time: f64 = seconds.iter().map(|s| s.length).sum();
        (ok + failed > 0.0 && time > 0.0).then(|| Point {
            load,
            first_byte: middle(seconds),
            success: ok / (ok + failed),
            ok_per_second: ok / time,
            server: Server::over(seconds.iter().copied()).unwrap_or_default(),
        })
    }

    /// How the server coped with the load.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self)
    }
}

/// The typical second: each figure is the weighted median of the seconds' own.
fn middle(seconds: &[&JsonSecond]) -> Latency {
    let median = |of: fn(&Latency) -> u64| {
        let mut values: Vec<(u64, u64)> = seconds
            .iter()
            .filter(|s| s.first_byte.count > 0)
            .map(|s| (of(&s.first_byte), s.first_byte.count))
            .collect();
        values.sort_unstable();
        let half = values.iter().map(|(_, weight)| weight).sum::<u64>().div_ceil(2);
        let mut seen = 0;
        let reaches = |(value, weight): &(u64, u64)| {
            seen += weight;
            (seen >= half).then_some(*value)
        };
        values.iter().find_map(reaches).unwrap_or(0)
    };
    Latency {
        count: seconds.iter().map(|s| s.first_byte.count).sum(),
        mean_us: 0.0,
        min_us: median(|l| l.min_us),
        p50_us: median(|l| l.p50_us),
        p90_us: median(|l| l.p90_us),
        p95_us: median(|l| l.p95_us),
        p99_us: median(|l| l.p99_us),
        p999_us: median(|l| l.p999_us),
        max_us: median(|l| l.max_us),
    }
}

/// The load of a second: present users, or intended arrivals.
pub fn load_of(document: &Document, second: &JsonSecond) -> f64 {
    if document.description.open { second.wanted } else { second.users as f64 }
}

/// The seconds that show how the server held a load. After the breaking point the load ends: users leave, and later
/// failures are not the fault of the remaining ones.
pub fn counted(document: &Document) -> impl Iterator<Item = &JsonSecond> + Clone {
    let last = document.outcome.breaking_point.as_ref().map_or(u32::MAX, |point| point.second);
    document.seconds.iter().filter(move |second| second.at <= last)
}

/// The most load that was reached.
pub fn most_load(document: &Document) -> f64 {
    counted(document).map(|second| load_of(document, second)).fold(0.0, f64::max)
}

/// The curve, by rising load. Seconds of about the same load are one point.
pub fn curve(document: &Document) -> Vec<Point> {
    let most = most_load(document);
    if most <= 0.0 {
        return Vec::new();
    }
    let step = most / MOST_POINTS as f64;
    let mut bins: Vec<Vec<&JsonSecond>> = vec![Vec::new(); MOST_POINTS + 1];
    for second in counted(document) {
        bins[(load_of(document, second) / step).round() as usize].push(second);
    }
    let point = |seconds: Vec<&JsonSecond>| {
        let load = seconds.iter().map(|s| load_of(document, s)).sum::<f64>() / seconds.len().max(1) as f64;
        Point::of(load, &seconds)
    };
    bins.into_iter().filter_map(point).collect()
}

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Users, or arrivals a second.
    pub load: f64,
    /// The server's results; `None`: it did not get so far, or nothing ended there.
    pub point: Option<Point>,
}

/// The table: at each level the results while the load was within a twentieth of it, or nearest to it.
pub fn levels(document: &Document) -> Vec<Level> {
    let reached = most_load(document);
    let all = steps(reached).into_iter().map(|load| level(document, load));
    all.filter(|level| level.point.is_some() || level.load > reached).collect()
}

/// The table of two runs, at the same levels: the published ones as far as the higher run got, and the end of each.
pub fn levels_of_both(runs: [&Document; 2]) -> Vec<[Level; 2]> {
    let ends = runs.map(most_load);
    let mut loads = steps(ends[0].max(ends[1]));
    for end in ends.map(two_digits_of) {
        if !loads.iter().any(|load| (load - end).abs() <= end * 0.05) {
            loads.push(end);
        }
    }
    loads.sort_by(f64::total_cmp);
    let both =
        loads.into_iter().filter(|load| *load > 0.0).map(|load| runs.map(|document| level(document, load)));
    both.filter(|levels| levels.iter().any(|level| level.point.is_some())).collect()
}

fn level(document: &Document, load: f64) -> Level {
    Level { load, point: if load <= most_load(document) * 1.02 { at(document, load) } else { None } }
}

/// Round loads up to `most`, in the shape of the published table.
fn steps(most: f64) -> Vec<f64> {
    if most <= 0.0 {
        return Vec::new();
    }
    let mut steps: Vec<f64> = if most >= LEVELS[1] {
        LEVELS.iter().copied().filter(|level| *level <= most * 1.02).collect()
    } else {
        LEVELS.iter().map(|level| two_digits(level / 1e6 * most)).collect()
    };
    if steps.last().is_none_or(|last| most > last * 1.05) {
        steps.push(two_digits(most));
    }
    steps.retain(|level| *level >= 1.0);
    steps.dedup();
    steps
}

fn two_digits_of(load: f64) -> f64 {
    if load >= 1.0 { two_digits(load) } else { 0.0 }
}

/// To two digits, downwards, so that it was reached.
fn two_digits(number: f64) -> f64 {
    let unit = 10f64.powf(number.log10().floor() - 1.0).max(1.0);
    (number / unit + 1e-9).floor() * unit
}

fn at(document: &Document, load: f64) -> Option<Point> {
    let distance = |second: &&JsonSecond| (load_of(document, second) - load).abs();
    let near: Vec<&JsonSecond> = counted(document).filter(|s| distance(s) <= load * 0.05).collect();
    if let Some(point) = Point::of(load, &near) {
        return Some(point);
    }
    // A steep ramp may pass the level within a second.
    counted(document).find(|second| load_of(document, second) < load)?;
    let ended = counted(document).filter(|s| s.ok + s.failed > 0);
    let nearest = ended.min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    (distance(&nearest) <= load * 0.25).then(|| Point::of(load, &[nearest]))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::samples;

    #[test]
    fn levels_have_the_published_shape() {
        assert_eq!(steps(1e6), LEVELS);
        assert_eq!(steps(120e3), [10e3, 100e3, 120e3]);
        assert_eq!(steps(2000.0), [20.0, 200.0, 500.0, 1000.0, 1700.0, 2000.0]);
        assert_eq!(steps(50.0), [5.0, 12.0, 25.0, 42.0, 50.0]);
        assert_eq!(steps(1.0), [1.0]);
        assert_eq!(steps(0.0), [0.0; 0]);
    }

    #[test]
    fn verdicts_of_the_published_systems() {
        let verdict = |success, p50_ms: u64, p99_ms: u64| {
            let first_byte = Latency { p50_us: p50_ms * 1000, p99_us: p99_ms * 1000, ..Latency::default() };
            Point { load: 1.0, first_byte, success, ok_per_second: 1.0, server: Server::default() }.verdict()
        };
        assert_eq!(verdict(1.0, 12, 40), Verdict::UltraFast);
        assert_eq!(verdict(1.0, 65, 180), Verdict::Stable);
        assert_eq!(verdict(1.0, 145, 500), Verdict::Stable);
        assert_eq!(verdict(0.991, 820, 3000), Verdict::Sluggish);
        assert_eq!(verdict(0.94, 10, 20), Verdict::Failing);
        assert_eq!(verdict(1.0, 6000, 9000), Verdict::Failing);
    }

    #[test]
    fn a_ramp_becomes_a_curve() {
        let document = samples::ramp(1_000_000);
        let curve = curve(&document);
        assert!(curve.len() > 40 && curve.len() <= MOST_POINTS + 1, "{}", curve.len());
        assert!(curve.is_sorted_by(|a, b| a.load < b.load));
        let levels = levels(&document);
        assert_eq!(levels.iter().map(|level| level.load).collect::<Vec<_>>(), LEVELS);
        let verdicts: Vec<_> = levels.iter().map(|level| level.point.unwrap().verdict()).collect();
        assert!(verdicts.is_sorted(), "{verdicts:?}");
        assert_eq!(verdicts[0], Verdict::UltraFast);
    }

    #[test]
    fn two_runs_are_shown_at_the_same_levels_and_where_each_ended() {
        let (broken, whole) = (samples::breaking(1_000_000, 0.062), samples::ramp(1_000_000));
        let levels = levels_of_both([&broken, &whole]);
        let loads: Vec<f64> = levels.iter().map(|both| both[0].load).collect();
        let end = two_digits(most_load(&broken));
        assert!(
            loads.is_sorted() && loads.contains(&end) && LEVELS.iter().all(|load| loads.contains(load)),
            "{loads:?}"
        );
        let reached = |index: usize| levels.iter().filter(|both| both[index].point.is_some()).count();
        assert_eq!((reached(0), reached(1)), (2, 7));
    }

    #[test]
    fn what_comes_after_the_breaking_point_is_not_in_the_curve() {
        let mut document = samples::breaking(1_000_000, 0.5);
        let before = curve(&document);
        let last = document.seconds.last().unwrap().clone();
        document.outcome.breaking_point.as_mut().unwrap().second = last.at;
        for left in 1..10 {
            let (at, users) = (last.at + left, last.users / 10 * u64::from(10 - left));
            document.seconds.push(JsonSecond { at, users, ok: 0, failed: 5000, ..last.clone() });
        }
        assert_eq!(curve(&document), before);
    }

    #[test]
    fn constant_and_empty_runs() {
        let mut document = samples::ramp(100);
        document.seconds.iter_mut().for_each(|second| second.users = 64);
        assert_eq!(curve(&document).len(), 1);
        assert_eq!(levels(&document).len(), 1);
        document.seconds.clear();
        assert!(curve(&document).is_empty() && levels(&document).is_empty());
    }
}
