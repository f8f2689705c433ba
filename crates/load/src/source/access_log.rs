//! Replays an access log: its visitors' requests, at the original speed or faster.
//!
//! Reads the combined format of nginx, Apache and Millrace. Only GET and HEAD are repeated: a second POST could have
//! any effect.

use std::collections::HashMap;
use std::time::Duration;

use millrace_wire::date;

use super::{Problem, shown};
use crate::scenario::{Flow, Origin, Request, Scenario};
use crate::url::Url;

/// The most requests that are taken.
pub const MOST_REQUESTS: usize = 10_000_000;

/// The result of reading a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The requests, each at its time.
    pub scenario: Scenario,
    /// How many lines were left out because of their method.
    pub other_methods: usize,
    /// How many lines were no requests.
    pub unreadable: usize,
    /// The first of them.
    pub first_unreadable: Option<Problem>,
}

/// Reads a log of `origin`, to be replayed `speed` times as fast as it was.
///
/// # Errors
/// No line of it is a request.
pub fn read(text: &str, origin: &Origin, speed: f64) -> Result<Replay, Problem> {
    let base = Url { origin: origin.clone(), target: "/".to_owned() };
    let mut entries: Vec<(i64, usize)> = Vec::new();
    let mut flows: Vec<Flow> = Vec::new();
    let mut known: HashMap<(bool, String), usize> = HashMap::new();
    let (mut other_methods, mut unreadable, mut first_unreadable) = (0, 0, None);
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let Some((time, method, target)) = entry(line) else {
            unreadable += 1;
            first_unreadable.get_or_insert_with(|| not_a_request(index + 1, line));
            continue;
        };
        if !matches!(method, "GET" | "HEAD") || !target.starts_with('/') {
            other_methods += 1;
            continue;
        }
        if entries.len() == MOST_REQUESTS {
            break;
        }
        let is_head = method == "HEAD";
        let flow = *known.entry((is_head, target.to_owned())).or_insert_with(|| {
            let mut flow = Flow::get(1, base.with_target(target).target);
            flow.steps[0].request = Request { method: method.to_owned(), ..flow.steps[0].request.clone() };
            flows.push(flow);
            flows.len() - 1
        });
        entries.push((time, flow));
    }
    if entries.is_empty() {
        return Err(first_unreadable.unwrap_or_else(|| {
            Problem::new(
                0,
                "it contains no GET or HEAD requests",
                "use the site's access log in the combined format",
            )
        }));
    }
    let scenario = Scenario {
        name: format!("replay of {} requests", entries.len()),
        flows,
        timeline: Some(timeline(entries, speed)),
        ..Scenario::weighted(origin.clone(), Vec::new())
    };
    Ok(Replay { scenario, other_methods, unreadable, first_unreadable })
}

fn not_a_request(line: usize, text: &str) -> Problem {
    Problem::new(
        line,
        format!("{} is not a line of an access log", shown(text)),
        "the combined format is: ADDRESS - USER [DAY/MONTH/YEAR:H:M:S ZONE] \"GET /PATH HTTP/1.1\" STATUS BYTES ...",
    )
}

/// When each request starts. A log has only seconds: the requests of one second are spread over it evenly.
fn timeline(mut entries: Vec<(i64, usize)>, speed: f64) -> Vec<(Duration, usize)> {
    // Lines are written when a response ends, and their times may be of when it began.
    entries.sort_by_key(|(time, _)| *time);
    let first = entries[0].0;
    let speed = if speed.is_finite() && speed > 0.0 { speed } else { 1.0 };
    let mut timeline = Vec::with_capacity(entries.len());
    for second in entries.chunk_by(|a, b| a.0 == b.0) {
        for (index, (time, flow)) in second.iter().enumerate() {
            let at = (time - first) as f64 + index as f64 / second.len() as f64;
            timeline.push((Duration::try_from_secs_f64(at / speed).unwrap_or(Duration::MAX), *flow));
        }
    }
    timeline
}

/// Time (seconds since 1970), method and target of a line.
pub fn entry(line: &str) -> Option<(i64, &str, &str)> {
    let (_, rest) = line.split_once('[')?;
    let (time, rest) = rest.split_once(']')?;
    let request = rest.trim_start().strip_prefix('"')?;
    // A quote in a request is written as \" or \x22.
    let end = request.match_indices('"').map(|(at, _)| at).find(|at| !request[..*at].ends_with('\\'))?;
    let mut words = request[..end].split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let is_method = !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase());
    is_method.then_some(())?;
    Some((seconds(time)?, method, target))
}

/// `10/Oct/2000:13:55:36 -0700`
fn seconds(time: &str) -> Option<i64> {
    let (day, rest) = time.split_once(':')?;
    let (clock, zone) = rest.split_once(' ').unwrap_or((rest, "+0000"));
    let mut parts = day.split('/');
    let (day, month, year) =
        (parts.next()?.parse().ok()?, date::month(parts.next()?)?, parts.next()?.parse().ok()?);
    let days = date::days(year, month, day)? as i64;
    let mut clock =
        clock.split(':').map(|part| part.parse::<i64>().ok().filter(|part| (0..=60).contains(part)));
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let digits: i64 = zone.get(1..)?.parse().ok().filter(|digits| (0..=9999).contains(digits))?;
    let offset = sign * (digits / 100 * 3600 + digits % 100 * 60);
    Some(days * 86_400 + hour * 3600 + minute * 60 + second - offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOG: &str = r#"1.2.3.4 - - [22/Nov/2026:06:28:25 +0000] "GET / HTTP/1.1" 200 1234 "-" "Mozilla/5.0 (a) [b]"
1.2.3.4 - - [22/Nov/2026:07:28:27 +0100] "GET /a.css?x=\"1 HTTP/1.1" 200 10 "http://a/" "x"
::1 - bob [22/Nov/2026:06:28:27 +0000] "HEAD / HTTP/1.1" 200 0 "-" "-"
::1 - - [22/Nov/2026:06:28:26 +0000] "POST /wp-login.php HTTP/1.1" 302 0 "-" "-"
5.6.7.8 - - [22/Nov/2026:06:28:28 +0000] "\x16\x03\x01" 400 0 "-" "-"
5.6.7.8 - - [22/Nov/2026:06:28:29 +0000] "GET / HTTP/2.0" 200 1234 "-" "-"
"#;

    fn origin() -> Origin {
        Origin { tls: false, host: "a.test".to_owned(), port: 80 }
    }

    #[test]
    fn requests_at_their_times() {
        let replay = read(LOG, &origin(), 1.0).unwrap();
        let flows = &replay.scenario.flows;
        let named: Vec<_> =
            flows.iter().map(|f| (f.steps[0].request.method.as_str(), f.name.as_str())).collect();
        assert_eq!(named, [("GET", "/"), ("GET", "/a.css?x=\\%221"), ("HEAD", "/")]);
        let times: Vec<_> =
            replay.scenario.timeline.unwrap().iter().map(|(t, f)| (t.as_millis(), *f)).collect();
        assert_eq!(times, [(0, 0), (2000, 1), (2500, 2), (4000, 0)]);
        assert_eq!((replay.other_methods, replay.unreadable), (1, 1));
        assert_eq!(replay.first_unreadable.unwrap().line, 5);
        let fast = read(LOG, &origin(), 4.0).unwrap().scenario.timeline.unwrap();
        assert_eq!(fast[3].0, Duration::from_secs(1));
    }

    #[test]
    fn no_log_at_all() {
        let problem = read("hello\n", &origin(), 1.0).unwrap_err();
        assert!(
            problem.to_string().starts_with("line 1: `hello` is not a line of an access log"),
            "{problem}"
        );
        assert_eq!(read("", &origin(), 1.0).unwrap_err().line, 0);
    }

    #[test]
    fn dates() {
        assert_eq!(seconds("01/Jan/1970:00:00:00 +0000"), Some(0));
        assert_eq!(seconds("29/Feb/2000:00:00:00 +0000"), Some(951_782_400));
        assert_eq!(seconds("10/Oct/2000:13:55:36 -0700"), Some(971_211_336));
        assert_eq!(seconds("32/Jan/1970:00:00:00 +0000"), None);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(line in "[0-9a-zA-Z /:\\[\\]\"\\\\+.é-]{0,80}", speed in any::<f64>()) {
            let _ = read(&line, &origin(), speed);
            let _ = read(&format!("- [{}] \"GET / H\"", line), &origin(), speed);
        }
    }
}
