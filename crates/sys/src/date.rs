//! The Gregorian calendar.

/// Year, month and day, this many days after 1970-01-01. Counted from 1 March of year 0 on, in eras of 400 years, so that the leap day is the
/// last of its year (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
pub fn of_days(days: u64) -> (u64, u64, u64) {
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
        let mut days = 0;
        for year in 1970..=2400 {
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let lengths = [31, 28 + u64::from(is_leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, length) in (1..).zip(lengths) {
                for day in 1..=length {
                    assert_eq!(of_days(days), (year, month, day));
                    days += 1;
                }
            }
        }
    }
}
