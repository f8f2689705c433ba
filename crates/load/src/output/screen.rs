//! The progress of a run: on a terminal a few lines that are redrawn each second, elsewhere a plain line now and
//! then.
//!
//! Nothing is read from the terminal, and earlier output stays: only the screen's own lines are redrawn.

use std::io::{self, IsTerminal, Write};

use super::figures::{brief, bytes, grouped, span, time};
use crate::record::{Run, Second, Stage};

/// Seconds between plain lines, without a terminal.
const PLAIN_EVERY: usize = 5;
/// Seconds that the curve shows.
const CURVE: usize = 60;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// How it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Not at all.
    Quiet,
    /// A line now and then.
    Plain,
    /// Drawn over, in colours or without.
    Live {
        /// Whether colours are wanted.
        colour: bool,
    },
}

impl Style {
    /// The style for standard error and the environment: colours unless `NO_COLOR` is set (no-color.org), no
    /// redrawing on a dumb terminal.
    pub fn fitting() -> Style {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if io::stderr().is_terminal() && !dumb {
            Style::Live { colour: !set("NO_COLOR") }
        } else {
            Style::Plain
        }
    }
}

/// Shows a run on `out`.
#[derive(Debug)]
pub struct Screen<W> {
    out: W,
    style: Style,
    /// Lines that are drawn over the next time.
    drawn: usize,
    /// Seconds that were shown.
    shown: usize,
}

impl<W: Write> Screen<W> {
    /// A screen that has shown nothing yet.
    pub fn new(out: W, style: Style) -> Screen<W> {
        Screen { out, style, drawn: 0, shown: 0 }
    }

    /// Shows the results so far; called after each second. A terminal that has gone does not stop the run.
    pub fn show(&mut self, run: &Run) {
        let _ = match self.style {
            Style::Quiet => Ok(()),
            Style::Plain => self.plain(run),
            Style::Live { colour } => self.live(run, colour),
        };
    }

    /// Takes the live lines away, so that the table has their place.
    pub fn end(&mut self) {
        if self.drawn > 0 {
            let _ = write!(self.out, "\x1b[{}A\r\x1b[J", self.drawn);
            let _ = self.out.flush();
            self.drawn = 0;
        }
    }

    fn plain(&mut self, run: &Run) -> io::Result<()> {
        if run.seconds.len() < self.shown + PLAIN_EVERY {
            return Ok(());
        }
        let new = &run.seconds[self.shown..];
        self.shown = run.seconds.len();
        let sum = ScreenPoint::of(new);
        writeln!(self.out, "{:>8}  {}  {}", span(f64::from(sum.at) + 1.0), stage_name(run), sum.line())
    }

    fn live(&mut self, run: &Run, colour: bool) -> io::Result<()> {
        let lines = lines(run, colour);
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A\r", self.drawn));
        }
        for line in &lines {
            // Cleared to the end, and wrapped nowhere: a line that is too long would be drawn twice.
            text.push_str(&format!("\x1b[?7l{line}\x1b[K\x1b[?7h\n"));
        }
        text.push_str("\x1b[J");
        self.drawn = lines.len();
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

/// A few seconds taken together.
struct ScreenPoint {
    at: u32,
    users: u64,
    connections: u64,
    ok: f64,
    failed: f64,
    bytes_in: f64,
    p50: u64,
    p99: u64,
}

impl ScreenPoint {
    fn of(seconds: &[Second]) -> ScreenPoint {
        let length: f64 = seconds.iter().map(|second| second.length).sum::<f64>().max(1e-3);
        let rate = |of: &dyn Fn(&Second) -> u64| seconds.iter().map(of).sum::<u64>() as f64 / length;
        let last = seconds.last();
        ScreenPoint {
            at: last.map_or(0, |second| second.at),
            users: last.map_or(0, |second| second.users),
            connections: last.map_or(0, |second| second.connections),
            ok: rate(&|second| second.ok),
            failed: rate(&|second| second.failures.total()),
            bytes_in: rate(&|second| second.bytes_in),
            p50: last.map_or(0, |second| second.first_byte.p50),
            p99: seconds.iter().map(|second| second.first_byte.p99).max().unwrap_or(0),
        }
    }

    fn line(&self) -> String {
        format!(
            "{} users  {} connections  {}/s ok  {}/s failed  first byte {} / {}  {}/s",
            grouped(self.users),
            grouped(self.connections),
            brief(self.ok),
            brief(self.failed),
            time(self.p50 as f64),
            time(self.p99 as f64),
            bytes(self.bytes_in)
        )
    }
}

fn stage_name(run: &Run) -> &str {
    run.stages.last().map_or("", |stage: &Stage| &stage.name)
}

/// The live lines.
fn lines(run: &Run, colour: bool) -> Vec<String> {
    let paint = |code: &str, text: String| if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text };
    let last = run.seconds.last().map_or(&[][..], std::slice::from_ref);
    let now = ScreenPoint::of(last);
    let failed_share = run.total.failed_share();
    let failed = format!("{}/s failed", brief(now.failed));
    let tone = if failed_share >= 0.05 {
        "31"
    } else if run.total.failures.total() > 0 {
        "33"
    } else {
        "32"
    };
    let recent = |of: &dyn Fn(&Second) -> f64| -> Vec<f64> {
        run.seconds[run.seconds.len().saturating_sub(CURVE)..].iter().map(of).collect()
    };
    let rates = recent(&|second| second.ok as f64);
    let p99 = recent(&|second| second.first_byte.p99 as f64);
    let mut lines = vec![
        format!(
            "{}  {}  {}",
            paint("1", run.description.target.clone()),
            stage_name(run),
            paint("2", span(f64::from(now.at) + 1.0))
        ),
        format!("  {} users  {} connections", grouped(now.users), grouped(now.connections)),
        format!(
            "  {}  {}  {}/s",
            paint("1", format!("{}/s ok", brief(now.ok))),
            paint(tone, failed),
            bytes(now.bytes_in)
        ),
        format!("  first byte {} median, {} 99 %", time(now.p50 as f64), time(now.p99 as f64)),
        format!("  {}  ok/s", paint("34", sparkline(&rates))),
        format!("  {}  99 %", paint("35", sparkline(&p99))),
    ];
    if let Some(server) = run.seconds.last().and_then(|second| second.server.as_ref()) {
        let cpu = server.cpu.map_or("?".to_owned(), |cpu| format!("{cpu:.2}"));
        let memory = server.memory.map_or("?".to_owned(), |memory| bytes(memory as f64));
        lines.push(format!(
            "  server {cpu} cores, {memory}; load tester {:.2} cores",
            run.seconds[run.seconds.len() - 1].tester_cpu
        ));
    }
    let kinds: Vec<String> = run
        .total
        .failures
        .kinds()
        .map(|(kind, number)| format!("{}: {}", kind.words(), grouped(number)))
        .collect();
    if !kinds.is_empty() {
        lines.push(paint(tone, format!("  {}", kinds.join("  "))));
    }
    lines
}

/// A curve of bars between 0 and the highest.
fn sparkline(values: &[f64]) -> String {
    let most = values.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| {
        if most <= 0.0 { BARS[0] } else { BARS[((value / most * 8.0).ceil() as usize).clamp(1, 8) - 1] }
    };
    let line: String = values.iter().map(bar).collect();
    format!("{line:<CURVE$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{self, Failure, Failures, Tally, Times};
    use std::time::{Duration, SystemTime};

    fn run(seconds: u32) -> Run {
        let second = |at| Second {
            at,
            stage: 0,
            length: 1.0,
            users: 64,
            connections: 64,
            wanted: 64.0,
            begun: 1000,
            ok: 1000 * u64::from(at + 1),
            pages: 0,
            bytes_in: 1 << 20,
            bytes_out: 0,
            connects: 0,
            failures: Failures::default(),
            connect: Times::default(),
            tls: Times::default(),
            first_byte: Times { count: 1, p50: 800, p99: 2500, ..Times::default() },
            last_byte: Times::default(),
            page: Times::default(),
            server: None,
            tester_cpu: 0.5,
        };
        let description = record::Description {
            command: Vec::new(),
            target: "http://127.0.0.1:25080".to_owned(),
            scenario: "/".to_owned(),
            arrivals: "64 users".to_owned(),
            open: false,
            protocol: "HTTP/1.1".to_owned(),
            accept_encoding: String::new(),
            keep_alive: true,
            pipeline: 1,
            timeout: Duration::from_secs(30),
            threads: 2,
            started: SystemTime::UNIX_EPOCH,
            machine: "m".to_owned(),
            cores: 2,
            memory: 0,
            server: None,
        };
        Run {
            description,
            stages: vec![Stage {
                name: "hold".to_owned(),
                begin: 0.0,
                end: 1.0,
                from: 64.0,
                to: 64.0,
                tally: Tally::default(),
                round: false,
            }],
            seconds: (0..seconds).map(second).collect(),
            total: Tally::default(),
            steps: Vec::new(),
            elapsed: Duration::from_secs(u64::from(seconds)),
            tester: record::Tester::default(),
            end: None,
            bisection: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn shown(style: Style, run: &Run) -> String {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, style);
        screen.show(run);
        screen.end();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn plain_lines_come_now_and_then() {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, Style::Plain);
        for seconds in 1..=11 {
            screen.show(&run(seconds));
        }
        screen.end();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(
            text.starts_with(
                "     5 s  hold  64 users  64 connections  3k/s ok  0/s failed  first byte 800 us / 2.5 ms"
            ),
            "{text}"
        );
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn live_lines_are_drawn_over_and_taken_away() {
        let mut failing = run(3);
        failing.total.failures.count(Failure::Reset);
        let text = shown(Style::Live { colour: true }, &failing);
        assert!(
            text.contains("\x1b[31m") && text.contains("connection reset or closed: 1") && text.contains('█'),
            "{text}"
        );
        let drawn = text.matches('\n').count();
        assert!(text.ends_with(&format!("\x1b[{drawn}A\r\x1b[J")), "{text:?}");
        let plain = shown(Style::Live { colour: false }, &failing);
        assert!(!plain.contains("\x1b[31m") && !plain.contains("\x1b[1m"), "{plain:?}");
        assert_eq!(shown(Style::Quiet, &failing), "");
    }

    #[test]
    fn curves_reach_from_low_to_high() {
        assert_eq!(sparkline(&[0.0, 1.0, 4.0, 8.0]).trim_end(), "▁▁▄█");
        assert_eq!(sparkline(&[0.0, 0.0]).trim_end(), "▁▁");
        assert_eq!(sparkline(&[]).chars().count(), CURVE);
        assert!(!shown(Style::Live { colour: true }, &run(0)).is_empty(), "before the first second");
    }

    #[test]
    fn a_run_becomes_a_document() {
        let mut run = run(3);
        run.total.failures.count(Failure::ShortBody);
        run.total.statuses[100] = 7;
        run.end = Some(record::End::Broken { second: 2, at: 64.0, why: "p99 over 1 s".to_owned() });
        let document = super::super::document::Document::of(&run);
        assert_eq!(document.total.failures["short_body"], 1);
        assert_eq!(document.total.statuses["200"], 7);
        assert_eq!(document.outcome.breaking_point.as_ref().unwrap().load, 64.0);
        assert_eq!(super::super::document::Document::from_json(&document.json()), Ok(document));
    }
}
