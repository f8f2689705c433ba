//! Thresholds: conditions on the figures of a run, such as `p95>500ms` or `errors>1%`.
//!
//! `--fail-if` lists what must not be true, `--slo` what must be. Both have the same form: a figure, `<` or `>`, a value with its unit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::record::Tally;
use crate::source::time::duration;

/// A figure, compared with a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// As it was written.
    text: String,
    figure: Figure,
    is_above: bool,
    value: f64,
}

/// What a condition looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    /// A percentile of a time, microseconds: 0.95.
    Percentile(Timed, f64),
    /// Arithmetic mean, microseconds.
    Mean(Timed),
    /// The longest, microseconds.
    Longest(Timed),
    /// Failed requests.
    Failed,
    /// Failed requests as a share of all: 0 to 1.
    FailedShare,
    /// Successful responses per second.
    Rate,
}

/// Which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timed {
    LastByte,
    FirstByte,
    Page,
}

/// Why a text is no condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCondition {
    /// There is no `<` or `>` in it.
    Form,
    /// There is no such figure.
    Figure(String),
    /// The value does not fit the figure: an example.
    Value(&'static str),
}

impl fmt::Display for NotCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotCondition::Form => {
                f.write_str("write a figure, < or >, and a value: 'p95>500ms' or 'errors>1%'")
            }
            NotCondition::Figure(name) => write!(
                f,
                "there is no figure `{name}`: write p50, p90, p95, p99, p999, mean or max, the same after `first-byte.` or `page.`, \
                 errors or rate"
            ),
            NotCondition::Value(example) => write!(f, "write the value as in {example}"),
        }
    }
}

impl std::error::Error for NotCondition {}

impl FromStr for Condition {
    type Err = NotCondition;

    fn from_str(text: &str) -> Result<Condition, NotCondition> {
        let at = text.find(['<', '>']).ok_or(NotCondition::Form)?;
        let (name, value) = (text[..at].trim(), text[at + 1..].trim());
        let is_above = text[at..].starts_with('>');
        let (figure, value) = match name {
            "errors" => match value.strip_suffix('%') {
                Some(percent) => (Figure::FailedShare, number(percent, "errors>1%")? / 100.0),
                None => (Figure::Failed, number(value, "errors>1% or errors>10")?),
            },
            "rate" => (Figure::Rate, number(value, "rate<100")?),
            name => {
                let figure = Figure::timed(name).ok_or_else(|| NotCondition::Figure(name.to_owned()))?;
                let time = duration(value).map_err(|_| NotCondition::Value("p95>500ms"))?;
                (figure, time.as_secs_f64() * 1e6)
            }
        };
        Ok(Condition { text: text.replace(' ', ""), figure, is_above, value })
    }
}

fn number(text: &str, example: &'static str) -> Result<f64, NotCondition> {
    let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or(NotCondition::Value(example))
}

impl Figure {
    fn timed(name: &str) -> Option<Figure> {
        let (timed, name) = match name.split_once('.') {
            None => (Timed::LastByte, name),
            Some(("first-byte", name)) => (Timed::FirstByte, name),
            Some(("page", name)) => (Timed::Page, name),
            Some(_) => return None,
        };
        Some(match name {
            "p50" => Figure::Percentile(timed, 0.5),
            "p90" => Figure::Percentile(timed, 0.9),
            "p95" => Figure::Percentile(timed, 0.95),
            "p99" => Figure::Percentile(timed, 0.99),
            "p999" => Figure::Percentile(timed, 0.999),
            "mean" => Figure::Mean(timed),
            "max" => Figure::Longest(timed),
            _ => return None,
        })
    }

    /// `None`: nothing was timed.
    fn of(self, tally: &Tally, elapsed: Duration) -> Option<f64> {
        let times = |timed, value: &dyn Fn(&Histogram<u64>) -> f64| {
            let histogram = match timed {
                Timed::LastByte => &tally.last_byte,
                Timed::FirstByte => &tally.first_byte,
                Timed::Page => &tally.page,
            };
            (!histogram.is_empty()).then(|| value(histogram))
        };
        match self {
            Figure::Percentile(timed, share) => times(timed, &|all| all.value_at_quantile(share) as f64),
            Figure::Mean(timed) => times(timed, &|all| all.mean()),
            Figure::Longest(timed) => times(timed, &|all| all.max() as f64),
            Figure::Failed => Some(tally.failures.total() as f64),
            Figure::FailedShare => Some(tally.failed_share()),
            Figure::Rate => Some(tally.ok as f64 / elapsed.as_secs_f64().max(0.001)),
        }
    }

    fn words(self, value: f64) -> String {
        match self {
            Figure::Failed => format!("{value:.0}"),
            Figure::FailedShare => format!("{:.2} %", value * 100.0),
            Figure::Rate => format!("{value:.1}/s"),
            _ => format!("{:.1} ms", value / 1000.0),
        }
    }
}

impl Condition {
    /// Whether it is true of the events of a span of time; of something that was never timed, no condition is.
    pub fn holds(&self, tally: &Tally, elapsed: Duration) -> bool {
        self.figure
            .of(tally, elapsed)
            .is_some_and(|figure| if self.is_above { figure > self.value } else { figure < self.value })
    }

    /// It, and the figure: `p95>500ms (it is 612.3 ms)`.
    pub fn with_figure(&self, tally: &Tally, elapsed: Duration) -> String {
        let figure = self.figure.of(tally, elapsed);
        let figure = figure
            .map_or("nothing was timed".to_owned(), |figure| format!("it is {}", self.figure.words(figure)));
        format!("{self} ({figure})")
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Failure;

    fn tally() -> Tally {
        let mut tally = Tally { ok: 98, ..Tally::default() };
        (0..2).for_each(|_| tally.failures.count(Failure::Status5xx));
        (1..=100).for_each(|time| tally.last_byte.record(time * 10_000).unwrap());
        tally
    }

    #[test]
    fn conditions_look_at_their_figure() {
        let holds = |text: &str| text.parse::<Condition>().unwrap().holds(&tally(), Duration::from_secs(10));
        for (text, is) in [
            ("p95>500ms", true),
            ("p50 < 1s", true),
            ("p99<900ms", false),
            ("max>2s", false),
            ("mean>500ms", true),
            ("errors>1%", true),
            ("errors<2%", false),
            ("errors>2", false),
            ("rate>9", true),
            ("rate<9.8", false),
            ("page.p95<1h", false),
            ("first-byte.p50>0s", false),
        ] {
            assert_eq!(holds(text), is, "{text}");
        }
        let condition: Condition = "p95 > 500ms".parse().unwrap();
        assert_eq!(condition.with_figure(&tally(), Duration::from_secs(10)), "p95>500ms (it is 950.3 ms)");
    }

    #[test]
    fn other_texts_are_none() {
        let problem = |text: &str| text.parse::<Condition>().unwrap_err();
        assert_eq!(problem("p95"), NotCondition::Form);
        assert_eq!(problem("p95>"), NotCondition::Value("p95>500ms"));
        assert_eq!(problem("p42>1s"), NotCondition::Figure("p42".to_owned()));
        assert_eq!(problem("body.p95>1s"), NotCondition::Figure("body.p95".to_owned()));
        assert_eq!(problem("errors>few%"), NotCondition::Value("errors>1%"));
        assert_eq!(problem("rate<-1"), NotCondition::Value("rate<100"));
    }
}
