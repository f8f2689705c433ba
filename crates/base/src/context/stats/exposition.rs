//! Prometheus text, version 0.0.4: what a scraper of the admin address reads.

use std::fmt::{Display, Write};

use super::latency::{BOUNDS, Summary};
use super::table::Row;

/// Text that grows by metric families.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

impl Exposition {
    /// The media type of the text.
    pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    /// Begins the samples of a row; they follow at once.
    pub fn family(&mut self, row: &Row) {
        let Row { name, kind, help } = row;
        // Writing to memory can't fail.
        let _ = write!(self.text, "# HELP millrace_{name} {help}\n# TYPE millrace_{name} {}\n", kind.name());
    }

    /// Adds a sample of a row.
    pub fn sample(&mut self, row: &Row, labels: &[(&str, &str)], value: impl Display) {
        self.line(row.name, "", labels, value);
    }

    /// Adds a histogram with one label.
    pub fn histogram(&mut self, row: &Row, label: (&str, &str), summary: &Summary) {
        let mut below = 0;
        for (count, bound) in summary.buckets.iter().zip(BOUNDS) {
            below += count;
            self.line(row.name, "_bucket", &[label, ("le", &seconds(bound))], below);
        }
        self.line(row.name, "_bucket", &[label, ("le", "+Inf")], summary.count());
        self.line(row.name, "_sum", &[label], seconds(summary.sum));
        self.line(row.name, "_count", &[label], summary.count());
    }

    /// The complete text.
    pub fn into_text(self) -> String {
        self.text
    }

    fn line(&mut self, name: &str, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "millrace_{name}{suffix}");
        for (i, (label, value)) in labels.iter().enumerate() {
            let open = if i == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{open}{label}=\"{}\"", escaped(value));
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

/// Microseconds as seconds, without trailing zeros.
fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Counter, Registry, ResponseClass, TABLE, table};
    use super::*;

    #[test]
    fn counters_and_histograms() {
        let registry = Registry::new(2);
        registry.slot(0).add(Counter::Requests, 40);
        registry.slot(1).add(Counter::Requests, 2);
        registry.slot(0).took(ResponseClass::Php, Duration::from_micros(240), Duration::from_millis(3));
        registry.slot(1).took(ResponseClass::Php, Duration::from_micros(90), Duration::from_secs(60));
        let mut exposition = Exposition::default();
        registry.expose(&mut exposition);
        let text = exposition.into_text();
        for expected in [
            "# HELP millrace_requests_total Answered requests.\n# TYPE millrace_requests_total counter\n\
             millrace_requests_total 42\n",
            "# TYPE millrace_connections_idle gauge\nmillrace_connections_idle 0\n",
            "# TYPE millrace_first_byte_seconds histogram\n",
            "millrace_first_byte_seconds_bucket{class=\"php\",le=\"0.0001\"} 1\n\
             millrace_first_byte_seconds_bucket{class=\"php\",le=\"0.00025\"} 2\n",
            "millrace_answer_seconds_bucket{class=\"php\",le=\"30\"} 1\n\
             millrace_answer_seconds_bucket{class=\"php\",le=\"+Inf\"} 2\n\
             millrace_answer_seconds_sum{class=\"php\"} 60.003\n\
             millrace_answer_seconds_count{class=\"php\"} 2\n",
            "millrace_answer_seconds_sum{class=\"file\"} 0\n",
        ] {
            assert!(text.contains(expected), "{expected}\n is not in\n{text}");
        }
        assert_eq!(text.matches("# TYPE").count(), TABLE.len() + 2);
    }

    #[test]
    fn labels_are_escaped() {
        let mut exposition = Exposition::default();
        exposition.sample(&table::PHP_WORKERS, &[("site", "a\"b\\c\nd"), ("state", "idle")], 3);
        assert_eq!(
            exposition.into_text(),
            "millrace_php_workers{site=\"a\\\"b\\\\c\\nd\",state=\"idle\"} 3\n"
        );
    }
}
