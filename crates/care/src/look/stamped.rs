//! Logs whose lines begin with a local time.
//!
//! The time zone of the program that writes them is not known. But the file was changed when its last line was written: the ages of all lines
//! follow from that one.

use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::SystemTime;

use millrace_wire::date;

use crate::facts::Blind;

/// How much of the end of a log is read.
const TAIL: u64 = 256 << 10;

/// A line of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Stamped {
    /// Seconds since it was written, or since the line before it that has a time.
    pub age: f64,
    /// The line.
    pub text: String,
}

/// The last lines of a log that begin with a time, and those that follow one; `stamp` reads the time in seconds of whichever zone.
///
/// # Errors
/// It cannot be read: why.
pub fn tail(root: &Path, path: &str, stamp: fn(&str) -> Option<f64>) -> Result<Vec<Stamped>, Blind> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => Blind::CouldNotLook(format!("there is no log {path}")),
        ErrorKind::PermissionDenied => Blind::CouldNotLook(format!("{path}: permission denied; run as root")),
        _ => Blind::CouldNotLook(format!("{path}: {error}")),
    };
    let mut file = millrace_sys::open_regular(&root.join(path.trim_start_matches('/'))).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    let quiet = about.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    let start = about.len().saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start)).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    let whole = if start == 0 { &*text } else { text.split_once('\n').map_or("", |(_, rest)| rest) };
    Ok(aged(whole, quiet.unwrap_or_default().as_secs_f64(), stamp))
}

/// The lines with their ages, of a log whose last line was written `quiet` seconds ago.
fn aged(text: &str, quiet: f64, stamp: fn(&str) -> Option<f64>) -> Vec<Stamped> {
    let mut at = None;
    let lines: Vec<(f64, &str)> = text
        .lines()
        .filter_map(|line| {
            at = stamp(line).or(at);
            Some((at?, line))
        })
        .collect();
    let last = at.unwrap_or_default();
    let age = |at: f64| (quiet + last - at).max(0.0);
    lines.into_iter().map(|(at, line)| Stamped { age: age(at), text: line.to_owned() }).collect()
}

/// `2026/11/26 20:14:48 [error] ...`: nginx.
pub fn of_nginx(line: &str) -> Option<f64> {
    let (day, time) = line.get(..19)?.split_once(' ')?;
    let mut parts = day.split('/').map(str::parse);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    Some(date::days(year, month, day)? as f64 * 86_400.0 + seconds(time)?)
}

/// `[26-Nov-2026 20:14:48] WARNING: ...`: php-fpm.
pub fn of_fpm(line: &str) -> Option<f64> {
    let (day, time) = line.strip_prefix('[')?.get(..20)?.split_once(' ')?;
    let mut parts = day.split('-');
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    let days = date::days(year.parse().ok()?, date::month(month)?, day.parse().ok()?)?;
    Some(days as f64 * 86_400.0 + seconds(time)?)
}

fn seconds(time: &str) -> Option<f64> {
    let parts: Vec<f64> = time.split(':').map_while(|part| part.parse().ok()).collect();
    match parts[..] {
        [hours, minutes, seconds] => Some(hours * 3_600.0 + minutes * 60.0 + seconds),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn times() {
        assert_eq!(of_nginx("1970/01/02 00:00:01 [error] 1#1: x"), Some(86_401.0));
        assert_eq!(of_nginx("2000/02/29 12:00:00 x"), Some(951_825_600.0));
        assert_eq!(of_fpm("[26-Nov-2026 20:14:48] NOTICE: x"), Some(1_795_724_088.0));
        assert_eq!(of_fpm("[26-Nov-2026 20:14:48.123456] DEBUG: x"), Some(1_795_724_088.0));
        assert_eq!(of_nginx("2026/11/26 20:14:48 [x"), of_fpm("[26-Nov-2026 20:14:48] x"));
        for torn in
            ["", "2026/11/26", "2026/13/26 20:14:48 x", "2026/11/26T20:14:48 x", "\u{e9}".repeat(20).as_str()]
        {
            assert_eq!(of_nginx(torn), None, "{torn}");
        }
        for torn in [
            "",
            "[26-Nov-2026",
            "[26-Xyz-2026 20:14:48] x",
            "[0x00007f3c01214110] sleep() /srv/a.php:1",
            "26-Nov-2026 20:14:48",
        ] {
            assert_eq!(of_fpm(torn), None, "{torn}");
        }
    }

    #[test]
    fn ages_need_no_time_zone() {
        let text = "of an earlier time\n[26-Nov-2026 20:00:00] a\n  more of a\n[26-Nov-2026 20:01:00] b\n";
        let lines = aged(text, 5.0, of_fpm);
        let found: Vec<(f64, &str)> = lines.iter().map(|line| (line.age, &*line.text)).collect();
        assert_eq!(
            found,
            [(65.0, "[26-Nov-2026 20:00:00] a"), (65.0, "  more of a"), (5.0, "[26-Nov-2026 20:01:00] b")]
        );
        assert_eq!(aged("", 5.0, of_fpm), []);
    }

    #[test]
    fn the_end_of_a_log_is_read() {
        let line = "2026/11/26 20:14:48 [error] 7#7: x\n";
        let tree = Tree::of(&[("var/log/a", &line.repeat(10_000)), ("var/log/folder/b", "")]);
        let lines = tail(tree.root(), "/var/log/a", of_nginx).expect("read");
        assert!(lines.len() > 7_000 && lines.len() < 8_000, "{}", lines.len());
        assert!(lines[0].age < 60.0 && lines[0].text.len() == line.len() - 1, "{:?}", lines[0]);
        for (path, why) in [("/var/log/none", "there is no log"), ("/var/log/folder", "not a regular file")] {
            let said = tail(tree.root(), path, of_nginx).expect_err("none");
            assert!(said.why().contains(why), "{said:?}");
        }
    }
}
