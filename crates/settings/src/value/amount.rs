//! Counts, sizes and durations: numbers with a unit and bounds.

use std::time::Duration;

use super::{Form, Raw, Read};
use crate::problem::{What, shown};

/// Sizes: KB is 1024 bytes in every spelling.
const SIZES: &[(&str, u64)] = &[
    ("b", 1),
    ("k", 1 << 10),
    ("kb", 1 << 10),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1 << 20),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1 << 30),
    ("gib", 1 << 30),
    ("t", 1 << 40),
    ("tb", 1 << 40),
    ("tib", 1 << 40),
];

/// Durations in milliseconds.
const TIMES: &[(&str, u64)] = &[("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// A whole number.
pub(super) fn count(raw: &Raw, min: u64, max: u64, zero: Option<&str>) -> Read<u64> {
    let number = match &raw.form {
        Form::Integer(number) => *number,
        Form::Bare(text) => match text.replace('_', "").parse() {
            Ok(number) => number,
            Err(_) => {
                let title = format!("cannot be \"{}\"", shown(text));
                return Err(raw.wrong(
                    What::Malformed,
                    title,
                    "not a whole number",
                    format!("write a number like {min}"),
                ));
            }
        },
        Form::Text(text) if text.trim().parse::<u64>().is_ok() => {
            return Err(
                raw.wrong_type("must be a whole number", format!("remove the quotes: {}", text.trim()))
            );
        }
        Form::Float(number) => {
            let nearest = number.round().clamp(min as f64, max as f64) as u64;
            return Err(raw.wrong_type("must be a whole number", format!("write {nearest}")));
        }
        _ => {
            return Err(
                raw.wrong_type("must be a whole number", format!("write a number like {}", min.max(1)))
            );
        }
    };
    let Ok(number) = u64::try_from(number) else {
        let cure = format!("write {} or more", zero.map_or(min, |_| 0));
        return Err(raw.wrong(What::OutOfBounds, "cannot be negative", "less than 0", cure));
    };
    within(raw, number, min, max, zero, number_text)
}

/// Bytes.
pub(super) fn size(raw: &Raw, min: u64, max: u64, zero: Option<&str>) -> Read<u64> {
    let text = match &raw.form {
        Form::Integer(number) if *number >= 0 => {
            return within(raw, number.unsigned_abs(), min, max, zero, size_text);
        }
        Form::Integer(_) => {
            let cure = format!("write {} or more", size_text(min));
            return Err(raw.wrong(What::OutOfBounds, "cannot be negative", "less than 0", cure));
        }
        Form::Text(text) | Form::Bare(text) => text,
        _ => {
            return Err(
                raw.wrong_type("must be a size", "write a number with a unit in quotes, like \"64MB\"")
            );
        }
    };
    match measure(&text.to_ascii_lowercase(), SIZES, Some("b")) {
        Ok(bytes) => within(raw, bytes, min, max, zero, size_text),
        Err(Unreadable::Unit(unit)) => Err(raw.wrong(
            What::Malformed,
            format!("cannot be \"{}\"", shown(text)),
            format!("\"{}\" is not a unit of size", shown(&unit)),
            "write B, KB (1024 bytes), MB, GB or TB after the number, like \"64MB\"",
        )),
        Err(Unreadable::Fraction) => Err(fraction(raw, text, "1536KB for 1.5MB")),
        Err(Unreadable::TooMuch) => Err(too_much(raw, &size_text(max))),
        Err(Unreadable::Number) => Err(raw.wrong(
            What::Malformed,
            format!("cannot be \"{}\"", shown(text)),
            "not a size",
            "write a number with a unit, like \"64MB\"",
        )),
    }
}

/// A span of time.
pub(super) fn duration(raw: &Raw, min: u64, max: u64, zero: Option<&str>) -> Read<Duration> {
    let show = |milliseconds| duration_text(Duration::from_millis(milliseconds));
    let text = match &raw.form {
        Form::Integer(0) => return within(raw, 0, min, max, zero, show).map(Duration::from_millis),
        Form::Integer(number) if *number > 0 => {
            let cure = format!("write \"{number}s\" for seconds, \"{number}ms\" for milliseconds");
            return Err(raw.wrong_type("must be a duration with a unit", cure));
        }
        Form::Integer(_) => {
            let cure = format!("write {} or more", show(zero.map_or(min, |_| 0)));
            return Err(raw.wrong(What::OutOfBounds, "cannot be negative", "less than 0", cure));
        }
        Form::Text(text) | Form::Bare(text) => text,
        _ => {
            return Err(
                raw.wrong_type("must be a duration", "write a number with a unit in quotes, like \"10s\"")
            );
        }
    };
    let milliseconds = match measure(text, TIMES, None) {
        Ok(milliseconds) => milliseconds,
        Err(Unreadable::Number) => {
            return Err(raw.wrong(
                What::Malformed,
                format!("cannot be \"{}\"", shown(text)),
                "not a duration",
                "write a number with a unit, like \"500ms\", \"10s\", \"2m\" or \"1h\"",
            ));
        }
        Err(Unreadable::Unit(unit)) if unit.is_empty() => {
            let number = text.trim();
            return Err(raw.wrong(
                What::Malformed,
                "needs a unit",
                "seconds? minutes?",
                format!("write \"{number}s\" for seconds, \"{number}ms\" for milliseconds, \"{number}m\" for minutes"),
            ));
        }
        Err(Unreadable::Unit(unit)) => {
            return Err(raw.wrong(
                What::Malformed,
                format!("cannot be \"{}\"", shown(text)),
                format!("\"{}\" is not a unit of time", shown(&unit)),
                "write ms, s, m (minutes), h or d after the number, like \"10s\"",
            ));
        }
        Err(Unreadable::Fraction) => return Err(fraction(raw, text, "1500ms for 1.5s")),
        Err(Unreadable::TooMuch) => return Err(too_much(raw, &show(max))),
    };
    within(raw, milliseconds, min, max, zero, show).map(Duration::from_millis)
}

/// `64MB`, `1100B`: exact, in the largest unit that divides it.
pub(crate) fn size_text(bytes: u64) -> String {
    let unit = [(40, "TB"), (30, "GB"), (20, "MB"), (10, "KB")]
        .into_iter()
        .find(|(shift, _)| bytes != 0 && bytes.trailing_zeros() >= *shift);
    match unit {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => format!("{bytes}B"),
    }
}

/// `10s`, `500ms`, `1d`: exact, in the largest unit that divides it.
pub(crate) fn duration_text(duration: Duration) -> String {
    let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if milliseconds == 0 {
        return "0s".to_owned();
    }
    let (unit, length) =
        TIMES.iter().rev().find(|(_, length)| milliseconds.is_multiple_of(*length)).unwrap_or(&TIMES[0]);
    format!("{}{unit}", milliseconds / length)
}

/// `10,000`.
pub(crate) fn number_text(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Why a string is not an amount.
enum Unreadable {
    Number,
    Fraction,
    Unit(String),
    TooMuch,
}

/// Reads `10s`, `1h30m`, `64 MB`; a bare number has the unit `bare`, and `0` needs none.
fn measure(text: &str, units: &[(&str, u64)], bare: Option<&str>) -> Result<u64, Unreadable> {
    let mut rest = text.trim();
    let mut sum: u64 = 0;
    if rest == "0" {
        return Ok(0);
    }
    loop {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        if number.is_empty() {
            return Err(Unreadable::Number);
        }
        if after.starts_with(['.', ',']) {
            return Err(Unreadable::Fraction);
        }
        let after = after.trim_start();
        let letters = after.len() - after.trim_start_matches(|c: char| !c.is_ascii_digit() && c != ' ').len();
        let (unit, after) = after.split_at(letters);
        let name = if unit.is_empty() { bare.unwrap_or("") } else { unit };
        let Some((_, length)) = units.iter().find(|(known, _)| *known == name) else {
            return Err(Unreadable::Unit(unit.to_owned()));
        };
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*length));
        sum = part.and_then(|part| sum.checked_add(part)).ok_or(Unreadable::TooMuch)?;
        rest = after.trim_start();
        if rest.is_empty() {
            return Ok(sum);
        }
    }
}

fn within(
    raw: &Raw,
    number: u64,
    min: u64,
    max: u64,
    zero: Option<&str>,
    show: impl Fn(u64) -> String,
) -> Read<u64> {
    if (min..=max).contains(&number) || (number == 0 && zero.is_some()) {
        return Ok(number);
    }
    let (title, label, cure) = if number < min {
        let cure = format!("write {} or more", show(min));
        ("is too low", format!("{} is less than {}", show(number), show(min)), cure)
    } else {
        let cure = format!("write {} or less", show(max));
        ("is too high", format!("{} is more than {}", show(number), show(max)), cure)
    };
    let cure = match zero {
        Some(meaning) => format!("{cure}, or 0 ({meaning})"),
        None => cure,
    };
    Err(raw.wrong(What::OutOfBounds, title, label, cure))
}

fn fraction(raw: &Raw, text: &str, example: &str) -> Vec<super::Wrong> {
    let title = format!("cannot be \"{}\"", shown(text));
    raw.wrong(
        What::Malformed,
        title,
        "a fraction",
        format!("write whole numbers in a smaller unit: {example}"),
    )
}

fn too_much(raw: &Raw, max: &str) -> Vec<super::Wrong> {
    raw.wrong(What::OutOfBounds, "is too high", format!("more than {max}"), format!("write {max} or less"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> Option<u64> {
        measure(text, TIMES, None).ok()
    }

    #[test]
    fn durations_are_read_with_their_units() {
        assert_eq!(ms("500ms"), Some(500));
        assert_eq!(ms("10s"), Some(10_000));
        assert_eq!(ms("2m"), Some(120_000));
        assert_eq!(ms("1h"), Some(3_600_000));
        assert_eq!(ms("1h30m"), Some(5_400_000));
        assert_eq!(ms(" 1h 30m "), Some(5_400_000));
        assert_eq!(ms("1 d"), Some(86_400_000));
        assert_eq!(ms("0"), Some(0));
        for bad in
            ["", "s", "10", "10x", "-1s", "1.5s", "1,5s", "10S", "99999999999999999999s", "9999999999999999d"]
        {
            assert_eq!(ms(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_kilobyte_is_1024_bytes_in_every_spelling() {
        let bytes = |text: &str| measure(&text.to_ascii_lowercase(), SIZES, Some("b")).ok();
        for text in ["1KB", "1kb", "1K", "1KiB", "1024", "1024B", "1 KB"] {
            assert_eq!(bytes(text), Some(1024), "{text}");
        }
        assert_eq!(bytes("64MB"), Some(64 << 20));
        assert_eq!(bytes("2G"), Some(2 << 30));
        assert_eq!(bytes("1.5MB"), None);
        assert_eq!(bytes("99999999TB"), None);
        assert_eq!(bytes("1 parsec"), None);
    }

    #[test]
    fn amounts_are_shown_exactly() {
        assert_eq!(size_text(64 << 20), "64MB");
        assert_eq!(size_text(1100), "1100B");
        assert_eq!(size_text(1536), "1536B");
        assert_eq!(size_text(0), "0B");
        assert_eq!(duration_text(Duration::from_millis(1500)), "1500ms");
        assert_eq!(duration_text(Duration::from_secs(90)), "90s");
        assert_eq!(duration_text(Duration::from_secs(86_400)), "1d");
        assert_eq!(number_text(1_234_567), "1,234,567");
        assert_eq!(number_text(12), "12");
    }
}
