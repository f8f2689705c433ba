//! Latency, throughput, users, failures and processors over the seconds of a run.

use super::super::document::{Document, JsonSecond};
use super::super::figures::{brief, time};
use super::axis::Axis;
use super::chart::{Chart, Form, Mark, Series, room_for};
use super::curves::{RUNS, bytes_axis};
use super::tables::words_of;

/// The most points of a line.
const MOST_POINTS: usize = 240;
/// Colours of kinds of failures.
const KINDS: [&str; 6] = ["c2", "c4", "c5", "c6", "c8", "c7"];

/// Some seconds in a row.
struct TimelinePoint<'a> {
    /// Its middle.
    at: f64,
    seconds: &'a [JsonSecond],
}

impl TimelinePoint<'_> {
    /// A second's rate of a counter.
    fn rate(&self, of: impl Fn(&JsonSecond) -> u64) -> Option<f64> {
        let time: f64 = self.seconds.iter().map(|second| second.length).sum();
        (time > 0.0).then(|| self.seconds.iter().map(of).sum::<u64>() as f64 / time)
    }

    fn mean(&self, of: impl Fn(&JsonSecond) -> Option<f64>) -> Option<f64> {
        let all: Vec<f64> = self.seconds.iter().filter_map(of).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    /// The worst of the seconds: a spike must not vanish.
    fn worst(&self, of: impl Fn(&JsonSecond) -> u64) -> Option<f64> {
        self.seconds.iter().map(of).max().filter(|us| *us > 0).map(|us| us as f64)
    }

    /// The seconds' mean, each as heavy as its responses.
    fn typical(&self, of: impl Fn(&JsonSecond) -> u64) -> Option<f64> {
        let weight: u64 = self.seconds.iter().map(|second| second.first_byte.count).sum();
        let sum: f64 =
            self.seconds.iter().map(|second| of(second) as f64 * second.first_byte.count as f64).sum();
        (sum > 0.0).then(|| sum / weight as f64)
    }
}

fn moments(document: &Document) -> Vec<TimelinePoint<'_>> {
    let each = document.seconds.len().div_ceil(MOST_POINTS).max(1);
    let moment = |seconds: &'_ [JsonSecond]| {
        (f64::from(seconds[0].at) + f64::from(seconds[seconds.len() - 1].at) + 1.0) / 2.0
    };
    document.seconds.chunks(each).map(|seconds| TimelinePoint { at: moment(seconds), seconds }).collect()
}

/// The charts of a run.
pub fn charts(document: &Document) -> String {
    let moments = moments(document);
    let line = |name: &str, class, form, value: &dyn Fn(&TimelinePoint<'_>) -> Option<f64>| Series {
        name: name.to_owned(),
        class,
        points: moments.iter().map(|moment| (moment.at, value(moment))).collect(),
        form,
    };
    let names_room = room_for("whole machine".len());
    let end = document.elapsed_seconds.max(moments.last().map_or(0.0, |moment| moment.at));
    let chart = |title: &str, y: Axis, height, series| Chart {
        title: title.to_owned(),
        x: Axis::seconds(end),
        x_title: "time since the start",
        y,
        series,
        marks: stage_marks(document),
        bands: Vec::new(),
        height,
        names_room,
    };

    let latency = vec![
        line("50 %", "c1", Form::Line, &|m| m.typical(|s| s.first_byte.p50_us)),
        line("90 %", "c3", Form::Line, &|m| m.typical(|s| s.first_byte.p90_us)),
        line("99 %", "c4", Form::Line, &|m| m.worst(|s| s.first_byte.p99_us)),
    ];
    let mut rates = vec![line("successful", "c1", Form::Area, &|m| m.rate(|s| s.ok))];
    if document.total.failed > 0 {
        rates.push(line("failed", "c2", Form::Line, &|m| m.rate(|s| s.failed)));
    }
    let pages =
        vec![line("pages", "c3", Form::Area, &|m| m.rate(|s| s.pages).filter(|_| document.total.pages > 0))];
    let received = vec![line("received", "c8", Form::Area, &|m| m.rate(|s| s.bytes_in))];
    let mut people = vec![line("users", "c1", Form::Area, &|m| m.mean(|s| Some(s.users as f64)))];
    people.push(line("connections", "c5", Form::Dashed, &|m| m.mean(|s| Some(s.connections as f64))));
    let cores = vec![
        line("server", "c1", Form::Area, &|m| m.mean(|s| s.server?.cpu)),
        line("load tester", "c5", Form::Line, &|m| m.mean(|s| Some(s.tester_cpu))),
        line("whole machine", "c7", Form::Dashed, &|m| m.mean(|s| s.server?.machine_cpu)),
    ];
    let memory = vec![
        line("server", "c1", Form::Area, &|m| m.mean(|s| s.server?.memory_bytes.map(|b| b as f64))),
        line("whole machine", "c7", Form::Dashed, &|m| {
            m.mean(|s| s.server?.machine_memory_bytes.map(|b| b as f64))
        }),
    ];
    let failures = failures(document, &moments);
    let stacked = moments.iter().filter_map(|m| m.rate(|s| s.failed)).fold(0.0, f64::max);
    let machine_cores = document.description.machine.cores as f64;
    [
        chart("Time to first byte", Axis::log(values(&latency), time), 190.0, latency),
        chart("Responses per second", Axis::linear(most(&rates), brief), 140.0, rates),
        chart("Full page loads per second", Axis::linear(most(&pages), brief), 110.0, pages),
        chart("Failed requests per second, by kind", Axis::linear(stacked, brief), 110.0, failures),
        chart("Users and connections", Axis::linear(most(&people), brief), 110.0, people),
        chart("Bytes received per second", bytes_axis(most(&received)), 90.0, received),
        chart("CPU cores in use", Axis::linear(most(&cores).max(machine_cores), brief), 110.0, cores),
        chart("Memory", bytes_axis(most(&memory)), 100.0, memory),
    ]
    .iter()
    .map(Chart::html)
    .collect()
}

/// Figures of several runs that can share a drawing: the typical user's, and the results.
pub fn compared(runs: &[(&Document, &str)]) -> String {
    let end = runs.iter().map(|(document, _)| document.elapsed_seconds).fold(0.0, f64::max);
    let names_room =
        room_for(runs.iter().map(|(_, name)| name.chars().count() + ", median".len()).max().unwrap_or(0));
    let lines = |name: &str, form, value: &dyn Fn(&TimelinePoint<'_>) -> Option<f64>| -> Vec<Series> {
        let each = runs.iter().enumerate();
        each.map(|(index, (document, run))| Series {
            name: if name.is_empty() { (*run).to_owned() } else { format!("{run}, {name}") },
            class: RUNS[index % RUNS.len()],
            points: moments(document).iter().map(|moment| (moment.at, value(moment))).collect(),
            form,
        })
        .collect()
    };
    let chart = |title: &str, y: Axis, height, series| Chart {
        title: title.to_owned(),
        x: Axis::seconds(end),
        x_title: "time since the start",
        y,
        series,
        marks: Vec::new(),
        bands: Vec::new(),
        height,
        names_room,
    };
    let mut latency = lines("median", Form::Line, &|m| m.typical(|s| s.first_byte.p50_us));
    latency.append(&mut lines("99 %", Form::Dashed, &|m| m.worst(|s| s.first_byte.p99_us)));
    let rates = lines("", Form::Line, &|m| m.rate(|s| s.ok));
    let failed = lines("", Form::Line, &|m| m.rate(|s| s.failed));
    let mut html = chart("Time to first byte", Axis::log(values(&latency), time), 190.0, latency).html();
    html += &chart("Successful responses per second", Axis::linear(most(&rates), brief), 140.0, rates).html();
    if runs.iter().any(|(document, _)| document.total.failed > 0) {
        html +=
            &chart("Failed requests per second", Axis::linear(most(&failed), brief), 110.0, failed).html();
    }
    html
}

/// Failures by kind: the most frequent ones in colours of their own, the rest together.
fn failures(document: &Document, moments: &[TimelinePoint<'_>]) -> Vec<Series> {
    let mut kinds: Vec<(&String, u64)> =
        document.total.failures.iter().map(|(kind, count)| (kind, *count)).collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let own = if kinds.len() > KINDS.len() { KINDS.len() - 1 } else { kinds.len() };
    let series = |name: &str, class, of: &dyn Fn(&JsonSecond) -> u64| Series {
        name: name.to_owned(),
        class,
        points: moments.iter().map(|moment| (moment.at, moment.rate(of))).collect(),
        form: Form::Stacked,
    };
    let number = |second: &JsonSecond, kind: &String| second.failures.get(kind).copied().unwrap_or(0);
    let mut all: Vec<Series> = kinds[..own]
        .iter()
        .zip(KINDS)
        .map(|((kind, _), class)| series(words_of(kind), class, &|s| number(s, kind)))
        .collect();
    if own < kinds.len() {
        let rest = &kinds[own..];
        all.push(series("others", KINDS[own], &|s| rest.iter().map(|(kind, _)| number(s, kind)).sum()));
    }
    all
}

/// Where stages begin, but the first; many of them would cover the drawing.
fn stage_marks(document: &Document) -> Vec<Mark> {
    if document.stages.len() > 8 {
        return Vec::new();
    }
    let mut marks: Vec<Mark> = document
        .stages
        .iter()
        .skip(1)
        .map(|stage| Mark { x: stage.begin, label: String::new(), class: "quiet" })
        .collect();
    if let Some(point) = &document.outcome.breaking_point {
        marks.push(Mark {
            x: f64::from(point.second) + 0.5,
            label: "breaking point".to_owned(),
            class: "bad",
        });
    }
    marks
}

fn values(series: &[Series]) -> impl Iterator<Item = f64> + '_ {
    series.iter().flat_map(|series| series.points.iter().filter_map(|(_, value)| *value))
}

fn most(series: &[Series]) -> f64 {
    values(series).fold(0.0, f64::max)
}
