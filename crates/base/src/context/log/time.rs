//! Times as logs write them, always in UTC: no time zone file is read and no hour occurs twice a year.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A point in time in its calendar parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    milli: u32,
}

impl Civil {
    /// From a wall-clock reading; times before 1970 count as 1970.
    pub fn new(at: SystemTime) -> Civil {
        Civil::from_unix(at.duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    /// From the time since 1970.
    pub fn from_unix(since: Duration) -> Civil {
        let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (year, month, day) = millrace_sys::date::of_days(days);
        Civil {
            year,
            month,
            day,
            hour: second / 3_600,
            minute: second / 60 % 60,
            second: second % 60,
            milli: since.subsec_millis(),
        }
    }

    /// `2026-11-21T21:10:43.120Z` (RFC 3339).
    pub fn write_rfc3339(self, out: &mut Vec<u8>) {
        let Civil { year, month, day, hour, minute, second, milli } = self;
        // Writing to memory can't fail.
        let _ = write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z");
    }

    /// `21/Nov/2026:21:10:43 +0000`, as in the common log format.
    pub fn write_common_log(self, out: &mut Vec<u8>) {
        let Civil { year, month, day, hour, minute, second, .. } = self;
        let month = MONTHS[month as usize - 1];
        let _ = write!(out, "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(seconds: u64, millis: u32) -> (String, String) {
        let civil = Civil::from_unix(Duration::new(seconds, millis * 1_000_000));
        let (mut rfc3339, mut common) = (Vec::new(), Vec::new());
        civil.write_rfc3339(&mut rfc3339);
        civil.write_common_log(&mut common);
        (String::from_utf8(rfc3339).unwrap(), String::from_utf8(common).unwrap())
    }

    #[test]
    fn known_dates() {
        let cases = [
            (0, "1970-01-01T00:00:00.007Z", "01/Jan/1970:00:00:00 +0000"),
            (951_782_400, "2000-02-29T00:00:00.007Z", "29/Feb/2000:00:00:00 +0000"),
            (951_868_799, "2000-02-29T23:59:59.007Z", "29/Feb/2000:23:59:59 +0000"),
            (1_795_295_443, "2026-11-21T21:10:43.007Z", "21/Nov/2026:21:10:43 +0000"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z", "01/Mar/2100:00:00:00 +0000"),
            (1_735_689_599, "2024-12-31T23:59:59.007Z", "31/Dec/2024:23:59:59 +0000"),
        ];
        for (seconds, rfc3339, common) in cases {
            assert_eq!(both(seconds, 7), (rfc3339.to_owned(), common.to_owned()));
        }
    }
}
