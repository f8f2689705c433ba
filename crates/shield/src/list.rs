//! Lists of networks in files: bans of other programs, networks of crawlers.
//!
//! ```text
//! # a comment; `# date: 2026-11-01` tells when the list was made
//! 192.0.2.1
//! 192.0.2.0/24   1780000000              until this second since 1970
//! 2001:db8::/32  2026-12-24T18:00:00Z    # a note
//! *.search.example                       hosts below this domain: only of crawlers
//! ```
//!
//! Or the JSON in which search engines publish the networks of their crawlers:
//! `{"creationTime": "...", "prefixes": [{"ipv4Prefix": "..."}, {"ipv6Prefix": "..."}]}`.

use millrace_wire::date;
use millrace_wire::network::Network;
use serde_json::Value;

/// Maximum number of problems that are reported of one file.
const MOST_PROBLEMS: usize = 5;

/// A line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The network.
    pub network: Network,
    /// Seconds since 1970; `u64::MAX`: without an end.
    pub until: u64,
    /// The text behind `#`.
    pub note: String,
}

/// A list as it is in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// Its networks.
    pub entries: Vec<Entry>,
    /// Its domains, in lower case and without `*.`.
    pub domains: Vec<Box<str>>,
    /// When it was made, as written.
    pub date: Option<String>,
    /// What is wrong with it, by line.
    pub problems: Vec<String>,
}

/// Reads a list. Lines with a mistake are left out and reported.
#[must_use]
pub fn parse(text: &str) -> List {
    if text.trim_start().starts_with('{') { published(text) } else { lines(text) }
}

fn lines(text: &str) -> List {
    let mut list = List::default();
    for (number, line) in text.lines().enumerate() {
        let (words, note) = line.split_once('#').unwrap_or((line, ""));
        let note = note.trim();
        if let Some(date) = note.strip_prefix("date:").filter(|_| words.trim().is_empty()) {
            list.date = Some(date.trim().to_owned());
        }
        let mut words = words.split_ascii_whitespace();
        let Some(network) = words.next() else { continue };
        if let Some(name) = network.strip_prefix("*.") {
            match domain(name) {
                Ok(domain) => list.domains.push(domain),
                Err(why) => list.complain(format!("line {}: {why}", number + 1)),
            }
            continue;
        }
        let read = network.parse().and_then(|network| Ok((network, words.next().map_or(Ok(u64::MAX), end)?)));
        match read {
            Ok((network, until)) => list.entries.push(Entry { network, until, note: note.to_owned() }),
            Err(why) => list.complain(format!("line {}: {why}", number + 1)),
        }
    }
    list
}

/// The domain whose hosts a line is about.
fn domain(name: &str) -> Result<Box<str>, String> {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if !name.split('.').all(is_label) {
        return Err(format!("\"*.{name}\" is no domain: write *.search.example"));
    }
    if !name.contains('.') {
        return Err(format!(
            "\"*.{name}\" is too wide: write the operator's own domain, such as *.search.{name}"
        ));
    }
    Ok(name.to_ascii_lowercase().into())
}

/// The end of an entry: seconds since 1970, or RFC 3339 in UTC.
fn end(word: &str) -> Result<u64, String> {
    let end = word.parse().ok().or_else(|| utc(word));
    end.ok_or_else(|| format!("{word:?} is no end: write 2026-12-24T18:00:00Z, or seconds since 1970"))
}

/// Seconds since 1970 of `2026-12-24T18:00:00Z`.
fn utc(word: &str) -> Option<u64> {
    let (day, time) = word.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, by: char| -> Option<Vec<u64>> {
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        text.split(by).map(|part| is_number(part).then(|| part.parse().ok())?).collect()
    };
    let time = time.split('.').next()?;
    let ([year, month, day], [hour, minute, second]) =
        (<[u64; 3]>::try_from(numbers(day, '-')?).ok()?, <[u64; 3]>::try_from(numbers(time, ':')?).ok()?);
    let fits = hour < 24 && minute < 60 && second < 61;
    let days = date::days(year, month, day).filter(|_| fits)?;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

fn published(text: &str) -> List {
    let mut list = List::default();
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(why) => {
            list.complain(format!("not JSON: {why}"));
            return list;
        }
    };
    list.date = value["creationTime"].as_str().map(str::to_owned);
    let Some(prefixes) = value["prefixes"].as_array() else {
        list.complain("it has no member \"prefixes\"".to_owned());
        return list;
    };
    for (number, prefix) in prefixes.iter().enumerate() {
        let text = ["ipv4Prefix", "ipv6Prefix"].into_iter().find_map(|name| prefix[name].as_str());
        match text.unwrap_or("").parse() {
            Ok(network) => list.entries.push(Entry { network, until: u64::MAX, note: String::new() }),
            Err(why) => list.complain(format!("prefix {}: {why}", number + 1)),
        }
    }
    list
}

impl List {
    fn complain(&mut self, problem: String) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(problem);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, u64)> {
        parse(text).entries.into_iter().map(|entry| (entry.network.to_string(), entry.until)).collect()
    }

    #[test]
    fn lines_of_a_list() {
        let text = "# date: 2026-11-01\n\n192.0.2.1\n 192.0.2.0/24 1780000000 # note # more\r\n\
                    2001:db8::/32\t2026-12-24T18:00:00Z";
        let expected =
            [("192.0.2.1", u64::MAX), ("192.0.2.0/24", 1_780_000_000), ("2001:db8::/32", 1_798_135_200)];
        assert_eq!(found(text), expected.map(|(network, until)| (network.to_owned(), until)));
        let list = parse(text);
        assert_eq!((list.date.as_deref(), list.problems.len()), (Some("2026-11-01"), 0));
        assert_eq!(list.entries[1].note, "note # more");
    }

    #[test]
    fn mistakes_are_reported_by_line_and_the_rest_counts() {
        let list = parse("1.2.3.4\nx\n1.2.3.5 soon\n1.2.3.6 2026-13-01T00:00:00Z\n1.2.3.7");
        assert_eq!(list.entries.len(), 2);
        assert!(list.problems[0].starts_with("line 2: \"x\" is no address"), "{:?}", list.problems);
        assert!(list.problems[1].starts_with("line 3: \"soon\" is no end"), "{:?}", list.problems);
        assert_eq!(list.problems.len(), 3);
        assert_eq!(parse(&"x\n".repeat(100)).problems.len(), MOST_PROBLEMS);
    }

    #[test]
    fn domains() {
        let list = parse("*.Search.example # its hosts\n192.0.2.1\n*.example\n*.\n*.a..b\n*.a_b.c");
        assert_eq!((list.domains.as_slice(), list.entries.len()), (&["search.example".into()][..], 1));
        assert!(list.problems[0].starts_with("line 3: \"*.example\" is too wide"), "{:?}", list.problems);
        assert!(list.problems[1].starts_with("line 4: \"*.\" is no domain"), "{:?}", list.problems);
        assert_eq!(list.problems.len(), 4);
    }

    #[test]
    fn as_search_engines_publish_it() {
        let text = r#"{"creationTime": "2026-11-01T00:00:00", "prefixes": [{"ipv6Prefix": "2001:db8::/64"},
                       {"ipv4Prefix": "192.0.2.0/27"}, {"other": 1}]}"#;
        let list = parse(text);
        assert_eq!((list.entries.len(), list.date.as_deref()), (2, Some("2026-11-01T00:00:00")));
        assert_eq!(list.problems.len(), 1);
        for bad in ["{", "{}", "{\"prefixes\": 1}"] {
            assert_eq!(parse(bad).problems.len(), 1, "{bad}");
        }
    }

    #[test]
    fn times() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:30:15Z", Some(951_827_415)),
            ("2026-12-24T18:00:00.5Z", Some(1_798_135_200)),
            ("2026-12-24", None),
            ("2026-12-24T18:00:00", None),
            ("2026-12-24T18:00Z", None),
            ("1969-12-31T23:59:59Z", None),
            ("-1-1-1T0:0:0Z", None),
        ] {
            assert_eq!(utc(text), seconds, "{text}");
        }
    }
}
