//! Two runs in one picture: the same load on two servers, or on one before and after a change.

use std::fmt::Write;

use super::super::document::Document;
use super::super::figures::{bytes, count, grouped, percent, time};
use super::super::survival;
use super::curves::RUNS;
use super::tables::{Cell, Table, level_cells};
use super::{FOOT, command_line, conditions_differ, curves, escape, head, headline, terms, timeline};

/// The comparison of two runs, each with the name that it shall have; an empty one: that of its server.
pub fn comparison(a: (&Document, &str), b: (&Document, &str)) -> String {
    let names = names(a, b);
    let runs = [(a.0, names[0].as_str()), (b.0, names[1].as_str())];
    let title = format!("{} and {} under load", names[0], names[1]);
    let mut html = head(&title);
    let _ = write!(html, "<header><h1>{}</h1>", escape(&title));
    conditions(&runs, &mut html);
    html.push_str("</header>\n");
    results(&runs, &mut html);
    warnings(&runs, &mut html);
    survivability(&runs, &mut html);
    let _ = writeln!(html, "<section><h2>Summary</h2>{}</section>", totals(&runs));
    let _ = writeln!(html, "<section><h2>Over time</h2>{}</section>", timeline::compared(&runs));
    html.push_str("<section><h2>Commands</h2>");
    for (document, _) in runs {
        let _ = write!(html, "<pre>{}</pre>", escape(&command_line(&document.description.command)));
    }
    html.push_str("</section>\n");
    html + FOOT
}

/// The conditions of both runs, once if they are the same.
fn conditions(runs: &[(&Document, &str); 2], html: &mut String) {
    let load = |document: &Document| {
        let description = &document.description;
        let parts = [&description.scenario, &description.arrivals, &description.protocol];
        parts.map(|part| escape(part)).join(" &middot; ")
    };
    let texts = runs.map(|(document, _)| load(document));
    if texts[0] == texts[1] {
        let _ = write!(html, "<p>{}</p>", texts[0]);
        return;
    }
    for ((_, name), text) in runs.iter().zip(texts) {
        let _ = write!(html, "<p>{}: {text}</p>", escape(name));
    }
}

/// Short names that distinguish the two: given names, otherwise the servers'.
pub fn names(a: (&Document, &str), b: (&Document, &str)) -> [String; 2] {
    let own = |(document, name): (&Document, &str)| {
        if name.is_empty() { document.server_name().to_owned() } else { name.to_owned() }
    };
    let names = [own(a), own(b)];
    if names[0] == names[1] { [format!("{} (A)", names[0]), format!("{} (B)", names[1])] } else { names }
}

fn results(runs: &[(&Document, &str); 2], html: &mut String) {
    html.push_str("<section class=\"result both\">");
    for (index, (document, name)) in runs.iter().enumerate() {
        let _ = write!(
            html,
            "<p class=\"{}\"><b>{}</b>: {}",
            RUNS[index],
            escape(name),
            escape(&headline(document))
        );
        if let Some(bottleneck) = &document.bottleneck {
            let _ = write!(html, "<br><small>Bottleneck: {}</small>", escape(bottleneck));
        }
        html.push_str("</p>");
    }
    html.push_str("</section>\n");
}

/// Differences that make the two hard to compare.
fn warnings(runs: &[(&Document, &str); 2], html: &mut String) {
    let mut lines = conditions_differ(runs[0].0, runs[1].0);
    for (document, name) in runs {
        lines.extend(
            document
                .tester
                .bottlenecks
                .iter()
                .map(|line| format!("{name}: the load tester reached its own limit: {line}")),
        );
    }
    if !lines.is_empty() {
        html.push_str("<section class=\"warning\"><h2>Before you compare</h2>");
        super::list(&lines, html);
        html.push_str("</section>\n");
    }
}

fn survivability(runs: &[(&Document, &str); 2], html: &mut String) {
    html.push_str("<section><h2>Survivability</h2>");
    if runs.iter().any(|(document, _)| survival::curve(document).len() > 1) {
        html.push_str(
            "<p>Results at each load, whenever the test reached it. Solid: median; dashed: 99 %.</p>",
        );
        html.push_str(&curves::survival(runs));
    }
    html.push_str(&levels(runs));
    html.push_str(&terms());
    html.push_str("</section>\n");
}

/// The table of published comparisons, two servers beside each other.
fn levels(runs: &[(&Document, &str); 2]) -> String {
    let open = runs.iter().all(|(document, _)| document.description.open);
    let columns = ["First byte", "99 %", "CPU", "Memory", "|Verdict"];
    let [a, b, c, d, e] = columns;
    let mut table = Table::new([
        if open { "Arrivals per second" } else { "Concurrent users" },
        a,
        b,
        c,
        d,
        e,
        a,
        b,
        c,
        d,
        e,
    ]);
    table.group("", "", 1);
    for (index, (_, name)) in runs.iter().enumerate() {
        table.group(name, RUNS[index], columns.len());
    }
    for levels in survival::levels_of_both(runs.map(|(document, _)| document)) {
        let mut cells = vec![Cell::key(count(levels[0].load))];
        for ((document, _), level) in runs.iter().zip(&levels) {
            cells.extend(level_cells(document, level, false));
        }
        table.row(cells);
    }
    table.html()
}

/// Figure by figure, and how many times as much the second one has.
fn totals(runs: &[(&Document, &str); 2]) -> String {
    let mut table = Table::new(["", runs[0].1, runs[1].1, "Ratio"]);
    let mut line = |name: &str, of: &dyn Fn(&Document) -> Option<f64>, shown: &dyn Fn(f64) -> String| {
        let values = runs.map(|(document, _)| of(document));
        if values == [None, None] {
            return;
        }
        let cell = |value: Option<f64>| value.map_or_else(Cell::none, |value| Cell::number(shown(value)));
        let ratio = match values {
            [Some(a), Some(b)] if a > 0.0 && b > 0.0 => Cell::number(format!("{:.2}", b / a)),
            _ => Cell::none(),
        };
        table.row([Cell::key(name), cell(values[0]), cell(values[1]), ratio]);
    };
    let timed = |us: u64| (us > 0).then_some(us as f64);
    line("Highest load", &|d| Some(survival::most_load(d)), &count);
    line("Successful responses", &|d| Some(d.total.success_share), &percent);
    line("Successful responses per second", &|d| Some(d.total.ok_per_second), &count);
    line(
        "Full page loads per second",
        &|d| Some(d.total.pages_per_second).filter(|rate| *rate > 0.0),
        &count,
    );
    line("First byte, median", &|d| timed(d.total.first_byte.p50_us), &time);
    line("First byte, 99 %", &|d| timed(d.total.first_byte.p99_us), &time);
    line("Last byte, 99 %", &|d| timed(d.total.last_byte.p99_us), &time);
    line("Full page, median", &|d| timed(d.total.page.p50_us), &time);
    line("Failed requests", &|d| Some(d.total.failed as f64), &|n| grouped(n as u64));
    line("Bytes received per second", &|d| Some(d.total.bytes_in_per_second), &bytes);
    line("Server CPU cores, average", &|d| d.total.server?.cpu, &|cores| format!("{cores:.2}"));
    line("Server memory, peak", &|d| d.total.server?.memory_bytes.map(|b| b as f64), &bytes);
    table.html()
}
