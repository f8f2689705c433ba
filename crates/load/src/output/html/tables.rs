//! The tables of the report.

use std::fmt::Write;

use super::super::bottleneck;
use super::super::document::{Document, JsonChange, JsonStage, Latency, Method, Summary};
use super::super::figures::{brief, bytes, count, grouped, percent, span, time};
use super::super::survival::{self, Level};
use super::{escape, tone};
use crate::record::Failure;

/// A table: numbers to the right, text to the left.
pub struct Table {
    groups: String,
    head: Vec<String>,
    rows: String,
}

/// The text of a cell, and its style.
pub struct Cell {
    class: &'static str,
    html: String,
}

impl Cell {
    /// A number.
    pub fn number(text: impl AsRef<str>) -> Cell {
        Cell { class: "", html: escape(text.as_ref()) }
    }

    /// The first cell of a line.
    pub fn key(text: impl AsRef<str>) -> Cell {
        Cell { class: "key", html: escape(text.as_ref()) }
    }

    /// A sentence.
    pub fn text(text: impl AsRef<str>) -> Cell {
        Cell { class: "text", html: escape(text.as_ref()) }
    }

    /// A judgement in its colour.
    pub fn verdict(tone: &str, text: &str) -> Cell {
        Cell { class: "judged", html: format!("<span class=\"verdict {tone}\">{}</span>", escape(text)) }
    }

    /// Nothing is known.
    pub fn none() -> Cell {
        Cell::number("\u{2013}")
    }
}

impl Table {
    /// With these heads of columns. One with a `|` before it is of text.
    pub fn new<const N: usize>(head: [&str; N]) -> Table {
        Table { groups: String::new(), head: head.map(str::to_owned).into(), rows: String::new() }
    }

    /// A line above the heads: name, class and how many columns it spans.
    pub fn group(&mut self, name: &str, class: &str, columns: usize) {
        let class = if name.is_empty() { String::new() } else { format!(" class=\"group {class}\"") };
        let _ = write!(self.groups, "<th colspan=\"{columns}\"{class}>{}</th>", escape(name));
    }

    /// One more line.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push_str("<tr>");
        for cell in cells {
            let class =
                if cell.class.is_empty() { String::new() } else { format!(" class=\"{}\"", cell.class) };
            let _ = write!(self.rows, "<td{class}>{}</td>", cell.html);
        }
        self.rows.push_str("</tr>");
    }

    /// The table.
    pub fn html(&self) -> String {
        let mut html = "<div class=\"scroll\"><table><thead>".to_owned();
        if !self.groups.is_empty() {
            let _ = write!(html, "<tr>{}</tr>", self.groups);
        }
        html.push_str("<tr>");
        for head in &self.head {
            let (class, name) =
                head.strip_prefix('|').map_or(("", head.as_str()), |name| (" class=\"text\"", name));
            let _ = write!(html, "<th{class}>{}</th>", escape(name));
        }
        let _ = write!(html, "</tr></thead><tbody>{}</tbody></table></div>", self.rows);
        html
    }
}

/// The table of published comparisons: time to first byte, processor, memory and verdict at each number of users.
pub fn levels(document: &Document) -> String {
    let load = if document.description.open { "Arrivals per second" } else { "Concurrent users" };
    let mut table = Table::new([
        load,
        "First byte, median",
        "99 %",
        "Successful responses",
        "Successful/s",
        "Server CPU",
        "Server memory",
        "|Verdict",
    ]);
    for level in survival::levels(document) {
        let mut cells = vec![Cell::key(count(level.load))];
        cells.extend(level_cells(document, &level, true));
        table.row(cells);
    }
    table.html()
}

/// A level's cells except its load: with `full`, all columns of [`levels`], otherwise those of a comparison.
pub fn level_cells(document: &Document, level: &Level, full: bool) -> Vec<Cell> {
    let Some(point) = &level.point else {
        let mut cells: Vec<Cell> = (0..if full { 6 } else { 4 }).map(|_| Cell::none()).collect();
        cells.push(Cell::verdict("quiet", "not reached"));
        return cells;
    };
    let us = |us: u64| Cell::number(time(us as f64));
    let mut cells = vec![us(point.first_byte.p50_us), us(point.first_byte.p99_us)];
    if full {
        cells.push(Cell::number(percent(point.success)));
        cells.push(Cell::number(count(point.ok_per_second)));
    }
    cells.push(cpu_cell(document, point.server.cpu));
    cells.push(bytes_cell(point.server.memory_bytes));
    let verdict = point.verdict();
    cells.push(Cell::verdict(tone(verdict), verdict.name()));
    cells
}

/// Processor time as a share of the machine.
fn cpu_cell(document: &Document, cpu: Option<f64>) -> Cell {
    let cores = document.description.machine.cores.max(1) as f64;
    cpu.map_or_else(Cell::none, |cpu| Cell::number(format!("{:.0} %", cpu / cores * 100.0)))
}

/// One of the figures of `latency`, if anything was timed.
fn time_cell(latency: &Latency, us: u64) -> Cell {
    if latency.count == 0 { Cell::none() } else { Cell::number(time(us as f64)) }
}

fn bytes_cell(number: Option<u64>) -> Cell {
    number.map_or_else(Cell::none, |number| Cell::number(bytes(number as f64)))
}

/// How long each part of a request took, over the whole run.
pub fn latencies(total: &Summary) -> String {
    let mut table = Table::new(["", "Timed", "Mean", "Min", "50 %", "90 %", "95 %", "99 %", "99.9 %", "Max"]);
    for (name, latency) in total.latencies() {
        let Latency { count, mean_us, min_us, p50_us, p90_us, p95_us, p99_us, p999_us, max_us } = *latency;
        let mut cells = vec![Cell::key(name), Cell::number(grouped(count)), Cell::number(time(mean_us))];
        let times = [min_us, p50_us, p90_us, p95_us, p99_us, p999_us, max_us];
        cells.extend(times.map(|us| Cell::number(time(us as f64))));
        table.row(cells);
    }
    table.html()
}

/// Stages, or rounds: the results of each, and its bottleneck.
pub fn stages(document: &Document, rounds: bool) -> String {
    let load = if document.description.open { "Arrivals per second" } else { "Users" };
    let with_pages = document.total.pages + document.total.pages_failed > 0;
    let (rate, latency) = if with_pages { ("Pages/s", "Page") } else { ("Ok/s", "Last byte") };
    let mut table = Table::new([
        if rounds { "Round" } else { "Stage" },
        load,
        "Time",
        rate,
        &format!("{latency}, 50 %"),
        "99 %",
        "Failed",
        "Server CPU",
        "Memory",
        "|Bottleneck",
    ]);
    let has_method = document.stages.iter().any(|stage| stage.method != Method::default());
    if has_method && rounds {
        table.head.extend(["|Doctor", "|Changed", "|Conclusion"].map(str::to_owned));
    }
    for stage in document.stages.iter().filter(|stage| stage.round == rounds) {
        let summary = &stage.summary;
        let (rate, latency) = if with_pages {
            (summary.pages_per_second, &summary.page)
        } else {
            (summary.ok_per_second, &summary.last_byte)
        };
        let server = summary.server.unwrap_or_default();
        let mut cells = vec![
            Cell::key(&stage.name),
            Cell::number(load_of(stage)),
            Cell::number(span(summary.seconds)),
            Cell::number(count(rate)),
            time_cell(latency, latency.p50_us),
            time_cell(latency, latency.p99_us),
            Cell::number(failed(summary)),
            cpu_cell(document, server.cpu),
            bytes_cell(server.memory_bytes),
            Cell::text(held_back(document, stage)),
        ];
        if has_method && rounds {
            let Method { held_back, change, conclusion } = &stage.method;
            let found = held_back.as_ref().map(|found| format!("{}; cure: {}", found.words(), found.cure));
            let texts = [found, change.as_ref().map(JsonChange::words), conclusion.clone()];
            cells.extend(texts.map(|text| Cell::text(text.unwrap_or_default())));
        }
        table.row(cells);
    }
    table.html()
}

/// `500`, or `0 to 500k`.
fn load_of(stage: &JsonStage) -> String {
    if stage.from == stage.to {
        count(stage.to)
    } else {
        format!("{} to {}", brief(stage.from), brief(stage.to))
    }
}

/// `123 (0.2 %)`, or `0`.
fn failed(summary: &Summary) -> String {
    if summary.failed == 0 {
        "0".to_owned()
    } else {
        format!("{} ({})", grouped(summary.failed), percent(1.0 - summary.success_share))
    }
}

/// The bottleneck of a stage: the known one, otherwise what the evidence suggests.
fn held_back(document: &Document, stage: &JsonStage) -> String {
    let index = document.stages.iter().position(|other| other == stage).unwrap_or(0);
    let known = stage.bottleneck.clone().or_else(|| bottleneck::of_stage(document, index));
    known.unwrap_or_else(|| "none found".to_owned())
}

/// Failures by kind, and responses by status.
pub fn failures(total: &Summary) -> String {
    let mut table = Table::new(["Kind", "Requests", "Share of all"]);
    let all = (total.ok + total.failed).max(1) as f64;
    let mut kinds: Vec<_> = total.failures.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (kind, count) in kinds {
        table.row([
            Cell::key(words_of(kind)),
            Cell::number(grouped(*count)),
            Cell::number(percent(*count as f64 / all)),
        ]);
    }
    let statuses: Vec<String> =
        total.statuses.iter().map(|(status, count)| format!("{status}: {}", grouped(*count))).collect();
    format!(
        "{}<p>Responses by status: {}.</p>",
        table.html(),
        if statuses.is_empty() { "none".to_owned() } else { statuses.join(", ") }
    )
}

/// The requests by step of the scenario.
pub fn steps(document: &Document) -> String {
    let mut table = Table::new(["|Step", "Successful", "Failed", "|Failures", "50 %", "95 %", "99 %", "Max"]);
    for step in &document.steps {
        let failures: Vec<String> = step
            .failures
            .iter()
            .map(|(kind, count)| format!("{} {}", grouped(*count), words_of(kind)))
            .collect();
        let Latency { p50_us, p95_us, p99_us, max_us, .. } = step.last_byte;
        let mut cells = vec![
            Cell::text(&step.name),
            Cell::number(grouped(step.ok)),
            Cell::number(grouped(step.failed)),
            Cell::text(failures.join(", ")),
        ];
        cells.extend([p50_us, p95_us, p99_us, max_us].map(|us| time_cell(&step.last_byte, us)));
        table.row(cells);
    }
    table.html()
}

/// What was wrong with the content of responses; empty: nothing.
pub fn wrong(document: &Document) -> String {
    let mut table = Table::new(["|Step", "|URL", "|Expected", "|Found"]);
    let mut is_empty = true;
    for step in &document.steps {
        for wrong in &step.wrong {
            is_empty = false;
            table.row([&step.name, &wrong.target, &wrong.expected, &wrong.found].map(Cell::text));
        }
    }
    if is_empty { String::new() } else { table.html() }
}

/// A kind of failure for people; its own name if this version doesn't know it.
pub fn words_of(kind: &str) -> &str {
    Failure::ALL.into_iter().find(|known| known.name() == kind).map_or(kind, |known| known.words())
}
