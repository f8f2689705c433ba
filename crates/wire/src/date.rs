//! The Gregorian calendar, in UTC.

/// The names of the months in dates.
pub const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A second in its calendar parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Year
    pub year: u64,
    /// 1 to 12
    pub month: u64,
    /// 1 to 31
    pub day: u64,
    /// 0 to 23
    pub hour: u64,
    /// 0 to 59
    pub minute: u64,
    /// 0 to 59
    pub second: u64,
}

impl Civil {
    /// From the seconds since 1970.
    pub fn from_unix(seconds: u64) -> Civil {
        let (year, month, day) = of_days(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
        Civil { year, month, day, hour, minute, second }
    }
}

/// The number of a month, from its name.
pub fn month(name: &str) -> Option<u64> {
    (1..).zip(MONTHS).find_map(|(number, known)| (known == name).then_some(number))
}

/// Days from 1970-01-01 to a day of the years 1970 to 9999; `None`: it is none. A day after the end of a short month is one of the next.
pub fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // The year begins in March, see `of_days`.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    Some(before + (month * 153 + 2) / 5 + day - 719_469)
}

/// Year, month and day, this many days after 1970-01-01. Counted from 1 March of year 0 on, in eras of 400 years, so that the leap day is the
/// last of its year (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn of_days(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Day by day, as people count.
    #[test]
    fn every_day_until_2400() {
        let mut passed = 0;
        for year in 1970..=2400 {
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let lengths = [31, 28 + u64::from(is_leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, length) in (1..).zip(lengths) {
                for day in 1..=length {
                    assert_eq!(of_days(passed), (year, month, day));
                    assert_eq!(days(year, month, day), Some(passed));
                    passed += 1;
                }
            }
        }
    }
    #[test]
    fn days_that_are_none() {
        for (year, month, day) in
            [(1969, 12, 31), (10_000, 1, 1), (2026, 0, 1), (2026, 13, 1), (2026, 1, 0), (2026, 1, 32)]
        {
            assert_eq!(days(year, month, day), None, "{year}-{month}-{day}");
        }
        assert_eq!(days(2026, 2, 31), days(2026, 3, 3));
        assert_eq!((month("Jan"), month("Dec"), month("jan")), (Some(1), Some(12), None));
    }

    #[test]
    fn seconds_of_a_day() {
        let last = Civil { year: 2024, month: 12, day: 31, hour: 23, minute: 59, second: 59 };
        assert_eq!(Civil::from_unix(1_735_689_599), last);
    }
}
