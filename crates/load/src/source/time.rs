//! Times as people write them.

use std::time::Duration;

/// `10s`, `500ms`, `2m`, `1h`, or seconds.
///
/// # Errors
/// How a time is written.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("write a time such as 10s, 500ms, 2m or 1h".to_owned()),
    };
    let number: f64 = digits.parse().map_err(|_| "write a time such as 10s, 500ms, 2m or 1h".to_owned())?;
    Duration::try_from_secs_f64(number * factor).map_err(|error| error.to_string())
}

/// `2s`, or `1s-5s` for any time between.
///
/// # Errors
/// How such times are written.
pub fn durations(text: &str) -> Result<(Duration, Duration), String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let (least, most) = (duration(least)?, duration(most)?);
    if least > most { Err("the longer time must come last".to_owned()) } else { Ok((least, most)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("1.5s").unwrap(), Duration::from_millis(1500));
        assert_eq!(duration("2m").unwrap(), Duration::from_secs(120));
        assert_eq!(duration("250ms").unwrap(), Duration::from_millis(250));
        assert!(
            duration("-1s").is_err()
                && duration("s").is_err()
                && duration("1y").is_err()
                && duration("").is_err()
        );
        assert_eq!(durations("1s-3s").unwrap(), (Duration::from_secs(1), Duration::from_secs(3)));
        assert!(durations("3s-1s").is_err());
    }
}
