//! The survivability curve: one drawing a question - how long, how much processor, how much memory, how many right - over the same
//! axis of users, so that each can be read, and all of them together.

use super::super::document::Document;
use super::super::figures::{brief, bytes, time};
use super::super::survival::{self, Point, Verdict};
use super::axis::Axis;
use super::chart::{Chart, Form, Mark, Series, room_for};

/// Colours of the runs of a comparison.
pub const RUNS: [&str; 2] = ["c1", "c2"];

/// The curves of one run or of several, each with the name that it has beside the others.
pub fn survival(runs: &[(&Document, &str)]) -> String {
    let curves: Vec<Vec<Point>> = runs.iter().map(|(document, _)| survival::curve(document)).collect();
    let most = runs.iter().map(|(document, _)| survival::most_load(document)).fold(0.0, f64::max);
    let names_room =
        room_for(runs.iter().map(|(_, name)| name.chars().count() + ", median".len()).max().unwrap_or(0));
    let x = Axis::exact(0.0, most, brief);
    let chart = |title: &str, y: Axis, height: f64, series: Vec<Series>| Chart {
        title: title.to_owned(),
        x,
        x_title: "",
        y,
        series,
        marks: breaking_points(runs, false),
        bands: Vec::new(),
        height,
        names_room,
    };
    let one = |name: &str, form: Form, value: &dyn Fn(&Point, &Document) -> Option<f64>| -> Vec<Series> {
        let each = runs.iter().zip(&curves).enumerate();
        each.map(|(index, ((document, run), curve))| Series {
            name: if run.is_empty() {
                name.to_owned()
            } else {
                format!("{run}{}{name}", if name.is_empty() { "" } else { ", " })
            },
            class: RUNS[index % RUNS.len()],
            points: curve.iter().map(|point| (point.load, value(point, document))).collect(),
            form,
        })
        .collect()
    };

    let mut first_byte = one("median", Form::Line, &|point, _| above_zero(point.first_byte.p50_us));
    let mut p99 = one("99 %", if runs.len() > 1 { Form::Dashed } else { Form::Line }, &|point, _| {
        above_zero(point.first_byte.p99_us)
    });
    if runs.len() == 1 {
        p99.iter_mut().for_each(|series| series.class = "c4");
    }
    first_byte.append(&mut p99);
    let values = first_byte.iter().flat_map(|series| series.points.iter().filter_map(|(_, value)| *value));
    let mut times = chart("Time to first byte", Axis::log(values, time), 190.0, Vec::new());
    times.bands = bands(&first_byte);
    times.marks = breaking_points(runs, true);
    times.series = first_byte;

    let area = if runs.len() > 1 { Form::Line } else { Form::Area };
    let single = runs.len() == 1;
    let name = |name: &'static str| if single { name } else { "" };
    let mut cpu = one(name("server"), area, &|point, document| share_of_machine(point.server.cpu, document));
    let mut memory =
        one(name("server"), area, &|point, _| point.server.memory_bytes.map(|bytes| bytes as f64));
    if single {
        let mut machine = one("whole machine", Form::Dashed, &|point, document| {
            share_of_machine(point.server.machine_cpu, document)
        });
        recolour(&mut machine, "c7");
        cpu.append(&mut machine);
        let mut machine = one("whole machine", Form::Dashed, &|point, _| {
            point.server.machine_memory_bytes.map(|b| b as f64)
        });
        recolour(&mut machine, "c7");
        memory.append(&mut machine);
    }
    let most_memory = memory.iter().flat_map(|s| s.points.iter().filter_map(|(_, v)| *v)).fold(0.0, f64::max);
    let success = one(name("successful"), area, &|point, _| Some(point.success * 100.0));
    let least = success.iter().flat_map(|s| s.points.iter().filter_map(|(_, v)| *v)).fold(100.0, f64::min);
    // If all values are between 90 and 100 %, the axis shows only this range.
    let floor = if least >= 90.0 { 90.0 } else { 0.0 };
    let mut right = chart("Successful responses, %", Axis::exact(floor, 100.0, percent_mark), 90.0, success);
    right.x_title = if runs.iter().all(|(document, _)| document.description.open) {
        "arrivals per second"
    } else {
        "concurrent users"
    };
    [
        times,
        chart("CPU, % of the machine", Axis::exact(0.0, 100.0, percent_mark), 110.0, cpu),
        chart("Memory", bytes_axis(most_memory), 90.0, memory),
        right,
    ]
    .iter()
    .map(Chart::html)
    .collect()
}

/// A line where each run broke; the first drawing labels it.
fn breaking_points(runs: &[(&Document, &str)], named: bool) -> Vec<Mark> {
    let mark = |(document, name): &(&Document, &str)| {
        let point = document.outcome.breaking_point.as_ref()?;
        let label = if !named {
            String::new()
        } else if name.is_empty() {
            "breaking point".to_owned()
        } else {
            format!("{name} breaks")
        };
        Some(Mark { x: point.load, label, class: "bad" })
    };
    runs.iter().filter_map(mark).collect()
}

fn recolour(series: &mut [Series], class: &'static str) {
    series.iter_mut().for_each(|series| series.class = class);
}

/// The medians of the verdicts as bands, where the drawing reaches them.
fn bands(series: &[Series]) -> Vec<(f64, &'static str)> {
    let most =
        series.iter().flat_map(|s| s.points.iter().filter_map(|(_, value)| *value)).fold(0.0, f64::max);
    let bound = |verdict: Verdict| verdict.terms().map_or(f64::INFINITY, |(_, median, _)| median * 1000.0);
    let all = Verdict::ALL.map(|verdict| (bound(verdict), super::tone(verdict)));
    let reached = all.iter().take_while(|(bound, _)| *bound < most).count();
    all[..=reached.min(all.len() - 1)].to_vec()
}

/// Bytes from zero to a round number of a binary unit.
pub fn bytes_axis(most: f64) -> Axis {
    let mut unit = 1024.0 * 1024.0;
    while unit * 8.0 < most {
        unit *= 2.0;
    }
    let quarters = (most / (unit / 2.0)).ceil().max(1.0);
    Axis::exact(0.0, quarters * unit / 2.0, bytes).with_step(unit * if quarters > 8.0 { 2.0 } else { 1.0 })
}

/// A logarithmic axis has no place for zero.
fn above_zero(us: u64) -> Option<f64> {
    (us > 0).then_some(us as f64)
}

fn share_of_machine(cores: Option<f64>, document: &Document) -> Option<f64> {
    cores.map(|cores| cores / document.description.machine.cores.max(1) as f64 * 100.0)
}

/// `75 %`
pub fn percent_mark(value: f64) -> String {
    format!("{value:.0} %")
}
