//! Times as people write them.

use std::fmt;
use std::time::{Duration, TryFromFloatSecsError};

/// Why a text is no time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTime {
    /// It is not a number with a known unit.
    Form,
    /// It is negative, or longer than can be counted.
    Range(TryFromFloatSecsError),
    /// The first of two times is the longer one.
    Order,
}

impl fmt::Display for NotTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotTime::Form => f.write_str("write a time such as 10s, 500ms, 2m or 1h"),
            NotTime::Range(error) => error.fmt(f),
            NotTime::Order => f.write_str("the longer time must come last"),
        }
    }
}

impl std::error::Error for NotTime {}

/// `10s`, `500ms`, `2m`, `1h`, or seconds.
///
/// # Errors
/// How a time is written.
pub fn duration(text: &str) -> Result<Duration, NotTime> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(NotTime::Form),
    };
    let number: f64 = digits.parse().map_err(|_| NotTime::Form)?;
    Duration::try_from_secs_f64(number * factor).map_err(NotTime::Range)
}

/// `2s`, or `1s-5s` for any time between.
///
/// # Errors
/// How such times are written.
pub fn durations(text: &str) -> Result<(Duration, Duration), NotTime> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let (least, most) = (duration(least)?, duration(most)?);
    if least > most { Err(NotTime::Order) } else { Ok((least, most)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("1.5s").unwrap(), Duration::from_millis(1500));
        assert_eq!(duration("2m").unwrap(), Duration::from_secs(120));
        assert_eq!(duration("250ms").unwrap(), Duration::from_millis(250));
        assert!(matches!(duration("-1s"), Err(NotTime::Range(_))));
        assert_eq!(["s", "1y", ""].map(duration), [const { Err(NotTime::Form) }; 3]);
        assert_eq!(durations("1s-3s").unwrap(), (Duration::from_secs(1), Duration::from_secs(3)));
        assert_eq!(durations("3s-1s"), Err(NotTime::Order));
    }
}
