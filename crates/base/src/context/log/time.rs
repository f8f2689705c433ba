//! Times as logs write them, always in UTC: no time zone file is read and no hour occurs twice a year.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use millrace_wire::date::{Civil, MONTHS};

/// A point in time in its calendar parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CivilTime {
    civil: Civil,
    milli: u32,
}

impl CivilTime {
    /// From a wall-clock reading; times before 1970 count as 1970.
    pub fn new(at: SystemTime) -> CivilTime {
        CivilTime::from_unix(at.duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    /// From the time since 1970.
    pub fn from_unix(since: Duration) -> CivilTime {
        CivilTime { civil: Civil::from_unix(since.as_secs()), milli: since.subsec_millis() }
    }

    /// `2026-11-21T21:10:43.120Z` (RFC 3339).
    pub fn write_rfc3339(self, out: &mut Vec<u8>) {
        let (Civil { year, month, day, hour, minute, second }, milli) = (self.civil, self.milli);
        // Writing to memory can't fail.
        let _ = write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z");
    }

    /// `21/Nov/2026:21:10:43 +0000`, as in the common log format.
    pub fn write_common_log(self, out: &mut Vec<u8>) {
        let Civil { year, month, day, hour, minute, second } = self.civil;
        let month = MONTHS[month as usize - 1];
        let _ = write!(out, "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(seconds: u64, millis: u32) -> (String, String) {
        let time = CivilTime::from_unix(Duration::new(seconds, millis * 1_000_000));
        let (mut rfc3339, mut common) = (Vec::new(), Vec::new());
        time.write_rfc3339(&mut rfc3339);
        time.write_common_log(&mut common);
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
