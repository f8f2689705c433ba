//! The report: one HTML file that needs nothing else. No script, no font, no picture from anywhere: what is drawn is inline SVG.
//!
//! [`report`] is of one run, [`comparison`] of two. Both are made of [`Document`]s, so that they can be made again from JSON.

mod axis;
mod chart;
mod compare;
mod curves;
mod tables;
mod timeline;

use std::fmt::Write;

pub use compare::{comparison, names};
pub use tables::words_of;

use super::document::{Document, End};
use super::figures::{bytes, count, grouped, moment, percent, span, time};
use super::survival::{self, Verdict};
use tables::{Cell, Table};

/// The report of a run.
pub fn report(document: &Document) -> String {
    let mut html = head(&format!("Load test of {}", document.server_name()));
    // Writing to memory can't fail.
    let _ = write!(html, "<header><h1>Load test of {}</h1>", escape(document.server_name()));
    let description = &document.description;
    let _ = write!(
        html,
        "<p>{} &middot; {} &middot; {}</p><p>{} &middot; {} &middot; {} on {}</p></header>",
        escape(&description.target),
        escape(&description.scenario),
        escape(&description.protocol),
        escape(&description.arrivals),
        span(document.elapsed_seconds),
        moment(description.started),
        escape(&description.machine.name),
    );
    result(document, &mut html);
    warnings(document, &mut html);
    tiles(document, &mut html);
    survivability(document, &mut html);
    over_time(document, &mut html);
    figures(document, &mut html);
    conditions(document, &mut html);
    html + FOOT
}

const FOOT: &str = "<footer>Made by <code>millrace load</code>. Time to first byte is measured from the moment a request was sent; \
     where arrivals are a rate, from the moment it was due.</footer></main></body></html>\n";

/// The beginning of a page. Its policy forbids what the page must not need.
fn head(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{}</style></head><body><main>\n",
        escape(title),
        include_str!("style.css")
    )
}

/// Text as it has to stand in HTML, attributes included.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

fn tone(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::UltraFast => "good",
        Verdict::Stable => "fine",
        Verdict::Sluggish => "warn",
        Verdict::Failing => "bad",
    }
}

/// The one sentence to take home.
fn result(document: &Document, html: &mut String) {
    let most = survival::levels(document).into_iter().rev().find_map(|level| level.point);
    let verdict = match (document.outcome.end, most) {
        (End::Broken | End::Impossible, _) | (_, None) => Verdict::Failing,
        (_, Some(point)) => point.verdict(),
    };
    let _ =
        write!(html, "<section class=\"result {}\"><p>{}</p>", tone(verdict), escape(&headline(document)));
    if document.outcome.end != End::Broken {
        let _ = write!(html, "<p>How it ended: {}.</p>", escape(&document.outcome.text));
    }
    if let Some(bottleneck) = &document.bottleneck {
        let _ = write!(html, "<p>What held it back: {}</p>", escape(bottleneck));
    }
    html.push_str("</section>\n");
}

/// What came of the run, in a sentence.
pub fn headline(document: &Document) -> String {
    let unit = document.load_unit();
    if let Some(point) = &document.outcome.breaking_point {
        return format!("Broke at {} {unit}: {}.", count(point.load), point.why);
    }
    let Some(point) = survival::levels(document).into_iter().rev().find_map(|level| level.point) else {
        return "No request came to an end.".to_owned();
    };
    let (median, p99) = (time(point.first_byte.p50_us as f64), time(point.first_byte.p99_us as f64));
    format!(
        "{} at {} {unit}: {} of the responses right, first byte after {median} (median) and {p99} (99 %), {} right responses a second.",
        point.verdict().name(),
        count(survival::most_load(document)),
        percent(point.success),
        count(point.ok_per_second),
    )
}

/// What the reader has to know before the figures: that they may be the tester's own.
fn warnings(document: &Document, html: &mut String) {
    if !document.tester.bottlenecks.is_empty() {
        html.push_str(
            "<section class=\"warning\"><h2>The tester was at its own limits</h2>\
             <p>The figures are at least in part the tester's, not the server's.</p>",
        );
        list(&document.tester.bottlenecks, html);
        html.push_str("</section>\n");
    }
}

fn list(lines: &[String], html: &mut String) {
    html.push_str("<ul>");
    for line in lines {
        let _ = write!(html, "<li>{}</li>", escape(line));
    }
    html.push_str("</ul>");
}

fn tiles(document: &Document, html: &mut String) {
    let total = &document.total;
    html.push_str("<div class=\"tiles\">");
    let mut tile = |value: String, name: &str, more: String| {
        let _ = write!(html, "<div><span>{name}</span><b>{value}</b><small>{}</small></div>", escape(&more));
    };
    let us = |us: u64| time(us as f64);
    tile(
        percent(total.success_share),
        "Right responses",
        format!("{} of {}", grouped(total.ok), grouped(total.ok + total.failed)),
    );
    tile(
        count(total.ok_per_second),
        "Right responses a second",
        format!("{}/s received", bytes(total.bytes_in_per_second)),
    );
    if total.pages + total.pages_failed > 0 {
        let more = format!("{} loads, {} failed", grouped(total.pages), grouped(total.pages_failed));
        tile(count(total.pages_per_second), "Full page loads a second", more);
    }
    tile(
        us(total.first_byte.p50_us),
        "First byte, median",
        format!("99 % within {}", us(total.first_byte.p99_us)),
    );
    if total.page.count > 0 {
        tile(us(total.page.p50_us), "Page load, median", format!("99 % within {}", us(total.page.p99_us)));
    }
    let connections = document.seconds.iter().map(|second| second.connections).max().unwrap_or(0);
    let users = document.seconds.iter().map(|second| second.users).max().unwrap_or(0);
    tile(grouped(users), "Users at most", format!("{} connections at once", grouped(connections)));
    if let Some(server) = &total.server {
        let most_cpu = document.seconds.iter().filter_map(|s| s.server?.cpu).reduce(f64::max);
        if let Some(cpu) = most_cpu {
            let mean = server.cpu.unwrap_or(0.0);
            tile(format!("{cpu:.2}"), "Server's cores at most", format!("{mean:.2} in the mean"));
        }
        if let Some(memory) = server.memory_bytes {
            let machine = server.machine_memory_bytes.map(|m| format!("{} on the machine", bytes(m as f64)));
            tile(bytes(memory as f64), "Server's memory at most", machine.unwrap_or_default());
        }
    }
    html.push_str("</div>\n");
}

fn survivability(document: &Document, html: &mut String) {
    html.push_str("<section><h2>Survivability</h2>");
    let curve = survival::curve(document);
    if curve.len() > 1 {
        let _ = write!(
            html,
            "<p>How the server did under each number of {}, whenever that was.</p>",
            document.load_unit()
        );
        html.push_str(&curves::survival(&[(document, "")]));
    } else {
        html.push_str(
            "<p>The load was constant: a curve needs one that rises (<code>--ramp 0:1000:1m</code>).</p>",
        );
    }
    html.push_str(&tables::levels(document));
    html.push_str(&terms());
    html.push_str("</section>\n");
}

/// What the verdicts mean.
fn terms() -> String {
    let mut html = "<div class=\"terms\"><dl>".to_owned();
    for verdict in Verdict::ALL {
        let (tone, name, words) = (tone(verdict), verdict.name(), verdict.words());
        let _ =
            write!(html, "<dt><span class=\"verdict {tone}\">{name}</span></dt><dd>{}</dd>", escape(&words));
    }
    html + "</dl></div>"
}

fn over_time(document: &Document, html: &mut String) {
    if document.seconds.len() < 2 {
        return;
    }
    html.push_str("<section><h2>Over time</h2>");
    html.push_str(&timeline::charts(document));
    html.push_str("</section>\n");
}

fn figures(document: &Document, html: &mut String) {
    let _ = writeln!(html, "<section><h2>Times</h2>{}</section>", tables::latencies(&document.total));
    let is_round = document.stages.iter().any(|stage| stage.round);
    if is_round {
        html.push_str("<section><h2>Rounds</h2><p>Load in rounds: look at every layer, name the one thing that holds it back, change that, run again.</p>");
        html.push_str(&tables::stages(document, true));
        html.push_str("</section>\n");
    }
    if document.stages.iter().any(|stage| !stage.round) {
        let _ = writeln!(html, "<section><h2>Stages</h2>{}</section>", tables::stages(document, false));
    }
    if document.total.failed > 0 {
        let _ =
            writeln!(html, "<section><h2>What failed</h2>{}</section>", tables::failures(&document.total));
    }
    if !document.bisection.is_empty() {
        html.push_str("<section><h2>The highest load that holds</h2>");
        let mut table = Table::new(["Load", "|Held", "|Why"]);
        for trial in &document.bisection {
            let held = if trial.held { ("good", "yes") } else { ("bad", "no") };
            table.row([Cell::key(count(trial.load)), Cell::verdict(held.0, held.1), Cell::text(&trial.why)]);
        }
        let _ = writeln!(html, "{}</section>", table.html());
    }
}

/// Under which conditions the figures hold.
fn conditions(document: &Document, html: &mut String) {
    let description = &document.description;
    let tester = &document.tester;
    html.push_str("<section><h2>Conditions</h2><dl>");
    let mut line = |name: &str, value: String| {
        let _ = write!(html, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    };
    let machine = &description.machine;
    line(
        "Machine",
        format!(
            "{}, {} processors, {} memory",
            machine.name,
            machine.cores,
            bytes(machine.memory_bytes as f64)
        ),
    );
    let kept = if description.keep_alive { "connections kept" } else { "a connection each" };
    let pipeline = if description.pipeline > 1 {
        format!(", {} requests at once on each", description.pipeline)
    } else {
        String::new()
    };
    line(
        "Requests",
        format!(
            "{}, {kept}{pipeline}, time limit {}",
            description.protocol,
            span(description.timeout_seconds)
        ),
    );
    let encoding = if description.accept_encoding.is_empty() { "none" } else { &description.accept_encoding };
    line("Accept-Encoding", encoding.to_owned());
    line(
        "Connections opened",
        format!(
            "{}, {} TLS sessions resumed",
            grouped(document.total.connects),
            grouped(document.total.resumed)
        ),
    );
    if document.total.redirects > 0 {
        line("Redirects followed", grouped(document.total.redirects));
    }
    let own = document.total.server.and_then(|server| server.own).map(|own| own.words()).unwrap_or_default();
    if !own.is_empty() {
        line("The server says", own.join("; "));
    }
    line(
        "Tester",
        format!(
            "{} threads, {} of processor time, {} memory; the busiest thread {} busy in its busiest second; arrivals at most {} late",
            description.threads,
            span(tester.cpu_seconds),
            bytes(tester.memory_bytes as f64),
            percent(tester.busiest_thread.min(1.0)),
            time(tester.latest_start_us as f64)
        ),
    );
    line(
        "Its limits",
        format!(
            "{} of {} descriptors a thread used; {} ports on each of {} source addresses",
            grouped(tester.most_descriptors),
            grouped(tester.descriptors),
            grouped(tester.ports),
            grouped(tester.addresses)
        ),
    );
    html.push_str("</dl>");
    if !document.notes.is_empty() {
        list(&document.notes, html);
    }
    let _ = writeln!(html, "<pre>{}</pre></section>", escape(&command_line(&description.command)));
}

/// In what two runs differ that should be the same.
fn conditions_differ(a: &Document, b: &Document) -> Vec<String> {
    let (a, b) = (&a.description, &b.description);
    let machine = |m: &super::document::Machine| format!("{} with {} processors", m.name, m.cores);
    let pairs = [
        ("scenario", a.scenario.clone(), b.scenario.clone()),
        ("load", a.arrivals.clone(), b.arrivals.clone()),
        ("protocol", a.protocol.clone(), b.protocol.clone()),
        ("Accept-Encoding", a.accept_encoding.clone(), b.accept_encoding.clone()),
        ("connections kept", a.keep_alive.to_string(), b.keep_alive.to_string()),
        ("machine of the tester", machine(&a.machine), machine(&b.machine)),
    ];
    let differ = pairs.into_iter().filter(|(_, a, b)| a != b);
    differ.map(|(what, a, b)| format!("Not the same {what}: {a}, and {b}.")).collect()
}

/// The command as it can be typed again.
pub fn command_line(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    let quoted = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
