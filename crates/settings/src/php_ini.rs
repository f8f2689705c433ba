//! PHP's own settings, which `php.ini` and its relatives take: their names, and which values PHP understands. PHP itself ignores
//! a name that it doesn't know, and makes the most of a value that it doesn't understand: usually 0.

mod names;

use crate::suggest;
use IniKind::{Number, Size, Switch, Text};
use names::NAMES;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IniKind {
    /// On or off.
    Switch,
    /// A whole number, at least this.
    Number(i64),
    /// Bytes, with `K`, `M` or `G`; less than this is a mistake, except for 0 and -1.
    Size(i64),
    /// Anything.
    Text,
}

/// Values of switches that are numbers or words at the same time, as documented for each.
const WORDS: &[(&str, &[&str])] = &[("display_errors", &["stderr", "stdout"])];

/// The name of PHP's setting that this is, in PHP's spelling.
pub(crate) fn known(name: &str) -> Option<&'static str> {
    NAMES.iter().map(|(known, _)| *known).find(|known| known.eq_ignore_ascii_case(name))
}

/// Whether settings of PHP begin with this and a dot: `opcache`.
pub(crate) fn is_prefix(name: &str) -> bool {
    NAMES.iter().any(|(known, _)| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

/// What an unknown name is likely a misspelling of. An extension may bring settings that this table lacks: only near names of the
/// same part of PHP count.
pub(crate) fn misspelt(name: &str) -> Option<&'static str> {
    const NEAR: usize = 2;
    if known(name).is_some() || name.len() < 6 {
        return None;
    }
    let part = |name: &str| name.rsplit_once('.').map(|(part, _)| part.to_owned());
    let same = NAMES.iter().map(|(known, _)| *known).filter(|known| part(known) == part(name));
    // `opcache_enable`, `opcache-enable`.
    let dotted =
        NAMES.iter().map(|(known, _)| *known).find(|known| known.replace('.', "_") == name.replace('-', "_"));
    dotted.or_else(|| suggest::within(NEAR, name, same))
}

/// Why PHP does not understand `value` for `name`: what it does instead, and what to write.
pub(crate) fn wrong(name: &str, value: &str) -> Option<(String, String)> {
    let (_, kind) = NAMES.iter().find(|(known, _)| *known == name)?;
    let value = value.trim();
    // Variables and expressions are PHP's to evaluate.
    if value.contains(['$', '|', '&', '~', '^', '(', '!']) {
        return None;
    }
    match *kind {
        Text if WORDS.iter().any(|(known, _)| *known == name) => switch(name, value),
        Text => None,
        Switch => switch(name, value),
        Number(least) => number(name, value, least),
        Size(least) => size(name, value, least),
    }
}

fn switch(name: &str, value: &str) -> Option<(String, String)> {
    const ON_OFF: &[&str] = &["", "on", "off", "yes", "no", "true", "false", "none"];
    let low = value.to_ascii_lowercase();
    let words = WORDS.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, words)| words);
    let is_one = ON_OFF.contains(&&*low) || words.contains(&&*low) || low.parse::<i64>().is_ok();
    (!is_one).then(|| (format!("PHP takes {name} = \"{value}\" as off"), "write true or false".to_owned()))
}

fn number(name: &str, value: &str, least: i64) -> Option<(String, String)> {
    let megabytes = matches!(name, "opcache.memory_consumption" | "opcache.interned_strings_buffer");
    let digits = if megabytes { value.trim_end_matches(['M', 'm']) } else { value };
    let cure = if megabytes { "write the number of megabytes, like 256" } else { "write a whole number" };
    match digits.parse::<i64>() {
        Ok(number) if number >= least => None,
        Ok(_) => Some((format!("{name} must be at least {least}"), cure.to_owned())),
        Err(_) => Some((format!("{name} = \"{value}\" is not a number"), cure.to_owned())),
    }
}

fn size(name: &str, value: &str, least: i64) -> Option<(String, String)> {
    let digits = value.trim_end_matches(['K', 'k', 'M', 'm', 'G', 'g']);
    let unit = &value[digits.len()..];
    let number = digits.trim_end().parse::<i64>();
    let bytes = |number: i64| match unit.to_ascii_uppercase().as_str() {
        "" => Some(number),
        "K" => number.checked_mul(1 << 10),
        "M" => number.checked_mul(1 << 20),
        "G" => number.checked_mul(1 << 30),
        _ => None,
    };
    let example = value.chars().take_while(char::is_ascii_digit).collect::<String>();
    let is_gigabytes =
        value.to_ascii_lowercase().trim_start_matches(char::is_numeric).trim_start().starts_with('g');
    let unit = if is_gigabytes { "G" } else { "M" };
    let example = if example.is_empty() { "256M".to_owned() } else { format!("{example}{unit}") };
    let cure = format!("write {name} = \"{example}\": PHP's units are K, M and G");
    match number.ok().and_then(bytes) {
        Some(0 | -1) => None,
        Some(bytes) if bytes >= least => None,
        Some(bytes) => Some((format!("{name} = \"{value}\" is {bytes} bytes"), cure)),
        None => Some((format!("PHP does not understand {name} = \"{value}\""), cure)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_php_understands_and_others() {
        for (name, good, bad) in [
            (
                "memory_limit",
                &["256M", "-1", "1g", "134217728", "${LIMIT}", "512K * 1024 | 0"][..],
                &["256", "256MB", "lots", "", "1.5G", "2T"][..],
            ),
            ("post_max_size", &["0", "64M", "8388608"], &["64", "64 megabytes"]),
            ("max_execution_time", &["0", "30", "-1"], &["none", "30s", ""]),
            ("opcache.memory_consumption", &["128", "128M"], &["4", "1G", "128MB"]),
            ("display_errors", &["stderr", "On", "0", "", "stdout"], &["screen"]),
            ("log_errors", &["1", "true", "off"], &["maybe"]),
            ("date.timezone", &["Europe/Berlin", "anything"], &[]),
            ("unknown.name", &["x"], &[]),
        ] {
            good.iter().for_each(|value| assert_eq!(wrong(name, value), None, "{name} = {value}"));
            bad.iter().for_each(|value| assert!(wrong(name, value).is_some(), "{name} = {value}"));
        }
    }

    #[test]
    fn names_near_and_far() {
        for (name, expected) in [
            ("memory_limt", Some("memory_limit")),
            ("memory-limit", Some("memory_limit")),
            ("opcache_enable", Some("opcache.enable")),
            ("opcache.memory_consumtion", Some("opcache.memory_consumption")),
            ("upload_max_file_size", Some("upload_max_filesize")),
            ("memory_limit", None),
            ("redis.session.locking_enabled", None),
            ("newrelic.appname", None),
        ] {
            assert_eq!(misspelt(name), expected, "{name}");
        }
    }

    /// No name of the table counts as a misspelling of another one, whatever stands in front of it.
    #[test]
    fn the_table_is_sorted_and_has_no_name_twice() {
        let mut sorted: Vec<String> = NAMES.iter().map(|(name, _)| name.to_lowercase()).collect();
        sorted.sort();
        sorted.dedup();
        assert!(sorted.iter().zip(NAMES).all(|(one, (other, _))| *one == other.to_lowercase()));
        assert_eq!(sorted.len(), NAMES.len());
    }
}
