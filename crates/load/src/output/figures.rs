//! Numbers for people: the same in the table, on the screen and in the report.

use millrace_wire::date::Civil;

/// `1234567.8` as `1,234,568`; below ten with a decimal place.
pub fn count(number: f64) -> String {
    if number.abs() < 9.95 && (number.fract() * 10.0).round() != 0.0 {
        return format!("{number:.1}");
    }
    grouped(number.round().max(0.0) as u64)
}

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1234567` as `1.23M`: for axes and narrow columns.
pub fn brief(number: f64) -> String {
    for (unit, name) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if number.abs() >= unit * 0.9995 {
            return format!("{}{name}", three_digits(number / unit));
        }
    }
    three_digits(number)
}

/// Microseconds in the unit that fits: `820 us`, `1.25 ms`, `3.4 s`.
pub fn time(us: f64) -> String {
    match us {
        us if us < 999.5 => format!("{} us", us.round()),
        us if us < 999_500.0 => format!("{} ms", three_digits(us / 1e3)),
        us if us < 100e6 => format!("{} s", three_digits(us / 1e6)),
        us => format!("{} min", three_digits(us / 60e6)),
    }
}

/// Bytes, in units of 1024.
pub fn bytes(number: f64) -> String {
    for (unit, name) in [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if number >= unit as f64 * 0.9995 {
            return format!("{} {name}", three_digits(number / unit as f64));
        }
    }
    format!("{} B", number.round())
}

/// A share of one as `99.95 %`: never 100 % unless all of it is, never 0 % unless nothing is.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 100.0 || percent <= 0.0 {
        return format!("{percent:.0} %");
    }
    let near = percent.min(100.0 - percent);
    let digits = match near {
        near if near >= 10.0 => 0,
        near if near >= 1.0 => 1,
        near if near >= 0.01 => 2,
        _ => 4,
    };
    let rounded = format!("{percent:.digits$}");
    let rounded =
        if rounded.contains('.') { rounded.trim_end_matches('0').trim_end_matches('.') } else { &rounded };
    if rounded == "100" { "99.9999 %".to_owned() } else { format!("{rounded} %") }
}

/// Seconds as `12.3 s`, `3 min 20 s`, `1 h 5 min`.
pub fn span(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{} s", three_digits(seconds)),
        60..3600 if whole.is_multiple_of(60) => format!("{} min", whole / 60),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

/// Seconds since 1970 as `2026-11-22 06:28:25 UTC`.
pub fn moment(since_1970: f64) -> String {
    let seconds = since_1970.max(0.0) as u64;
    let Civil { year, month, day, hour, minute, second } = Civil::from_unix(seconds);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// As many decimal places as make three digits, without zeros at the end.
fn three_digits(number: f64) -> String {
    let digits = match number.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{number:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(
            [0.0, 0.26, 9.99, 12.4, 999.5, 1_234_567.0].map(count),
            ["0", "0.3", "10", "12", "1,000", "1,234,567"][..]
        );
        assert_eq!(
            [0.0, 12.0, 999.9, 1500.0, 850_000.0, 1e6, 2.5e9].map(brief),
            ["0", "12", "1k", "1.5k", "850k", "1M", "2.5G"]
        );
        assert_eq!(
            [0.0, 999.0, 1250.0, 145_000.0, 999_600.0, 3.4e6].map(time),
            ["0 us", "999 us", "1.25 ms", "145 ms", "1 s", "3.4 s"]
        );
        assert_eq!(
            [5.0, 1024.0, 1.5e9, 480.0 * 1_073_741_824.0].map(bytes),
            ["5 B", "1 KiB", "1.4 GiB", "480 GiB"]
        );
        assert_eq!([5.0, 60.0, 200.0, 3900.0].map(span), ["5 s", "1 min", "3 min 20 s", "1 h 5 min"]);
    }

    #[test]
    fn shares_never_lie_about_the_ends() {
        let shares = [1.0, 0.999_999_9, 0.9991, 0.991, 0.5, 0.05, 0.000_004, 0.0];
        let texts = ["100 %", "99.9999 %", "99.91 %", "99.1 %", "50 %", "5 %", "0.0004 %", "0 %"];
        assert_eq!(shares.map(percent), texts);
    }

    #[test]
    fn moments() {
        assert_eq!(moment(0.0), "1970-01-01 00:00:00 UTC");
        assert_eq!(moment(951_782_400.0), "2000-02-29 00:00:00 UTC");
        assert_eq!(moment(1_795_329_305.9), "2026-11-22 06:35:05 UTC");
    }
}
