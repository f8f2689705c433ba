//! The doctor of a running server, for its dashboard and `millrace top`: looks at the machine and the server, not at databases and the
//! files of sites, which `millrace doctor` asks with credentials of their own. Neither at the list of all sockets: it is as long as there
//! are connections.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use millrace_care::checks::examine;
use millrace_care::facts::{Blind, Facts, Span};
use millrace_care::look::{Sources, look};
use millrace_care::report;
use millrace_server::Doctor;
use serde_json::Value;

use super::sample;

/// Time in which PHP is sampled before the second look; also the distance of the first two looks.
const SAMPLED: Duration = Duration::from_secs(2);
/// An older look belongs to another page: the rates since then say nothing about now.
const RECENT: Duration = Duration::from_secs(30);

/// The doctor that the server asks, in a thread of its own. Each report compares the machine with the look of the report before.
pub fn doctor() -> Doctor {
    let last = Mutex::new(None);
    Arc::new(move |ask: &dyn Fn(&str) -> Result<Value, String>| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        report_now(ask, SAMPLED, &mut last)
    })
}

fn report_now(
    ask: &dyn Fn(&str) -> Result<Value, String>,
    sampled: Duration,
    last: &mut Option<(Facts, Instant)>,
) -> Value {
    let recent = last.take().filter(|(_, at)| at.elapsed() < RECENT);
    let (before, at) = recent.unwrap_or_else(|| (look_once(ask), Instant::now()));
    let samples = sample(ask, Instant::now() + sampled, &|| false);
    let now_at = Instant::now();
    let mut now = look_once(ask);
    now.add("samples", samples.finish());
    let seconds = (now_at - at).as_secs_f64();
    let all = examine(&Span { before: &before, now: &now, seconds });
    *last = Some((now, now_at));
    report::json(&all, seconds)
}

fn look_once(ask: &dyn Fn(&str) -> Result<Value, String>) -> Facts {
    let sources = Sources {
        root: "/".into(),
        ask,
        sites: Vec::new(),
        probe: None,
        is_remote: false,
        counts_ports: false,
    };
    let mut facts = look(&sources);
    facts.add("url", Err(Blind::DoesNotApply("no URL was given".to_owned())));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The server has refused more connections at each look.
    #[test]
    fn each_report_has_the_rise_since_the_one_before() {
        let looks = std::cell::Cell::new(0);
        let ask = |path: &str| match path {
            "/status.json" => {
                looks.set(looks.get() + 1);
                Ok(
                    json!({ "connections_open": 1, "counters": { "connections_refused_total": looks.get() * 5 } }),
                )
            }
            _ => Ok(json!({ "services": [] })),
        };
        let mut last = None;
        for looked in [2, 3] {
            let report = report_now(&ask, Duration::from_millis(10), &mut last);
            let found = report["findings"].as_array().expect("a list");
            assert!(found.iter().any(|one| one["id"] == "conn-refused"), "{report}");
            assert_eq!(looks.get(), looked, "the second report needs one look only");
            let blind = report["could_not_look"].as_array().expect("a list");
            assert!(blind.iter().any(|one| one["id"] == "net-ports"), "no list of all sockets: {report}");
        }
    }
}
