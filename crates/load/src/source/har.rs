//! A browser's recording (HTTP Archive 1.2) as a scenario: one flow with the visited pages and the submitted forms.
//!
//! The parts of a page are not taken from the recording but found in the page again, as a browser would: a recorded
//! style sheet may have another name by now. Taken are pages, and requests of scripts.

use serde::Deserialize;
use std::time::Duration;

use super::Problem;
use crate::scenario::{Flow, Request, Scenario, Step};
use crate::url::Url;

/// Shorter pauses come from the browser, not from the person.
const LEAST_THOUGHT: f64 = 0.5;
/// The most requests that are taken.
const MOST_STEPS: usize = 1000;
/// Fields that the tester sets itself, or that belong to the recorded connection.
const OWN_FIELDS: [&str; 16] = [
    "host",
    "connection",
    "content-length",
    "accept-encoding",
    "cookie",
    "user-agent",
    "if-none-match",
    "if-modified-since",
    "cache-control",
    "pragma",
    "keep-alive",
    "transfer-encoding",
    "te",
    "upgrade",
    "upgrade-insecure-requests",
    "priority",
];

/// The result of reading a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The flow.
    pub scenario: Scenario,
    /// Requests to other servers, which are left out.
    pub foreign: usize,
    /// Parts of pages, which are found again.
    pub parts: usize,
}

#[derive(Deserialize)]
struct Archive {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    started_date_time: String,
    request: Asked,
    #[serde(default)]
    response: Answered,
    #[serde(default, rename = "_resourceType")]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Field>,
    post_data: Option<Posted>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct Posted {
    #[serde(default)]
    text: String,
}

#[derive(Default, Deserialize)]
struct Answered {
    #[serde(default)]
    content: HarContent,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarContent {
    #[serde(default)]
    mime_type: String,
}

/// Reads a recording; the server is the one of its first request.
///
/// # Errors
/// It is invalid, or contains nothing that can be requested.
pub fn read(text: &str) -> Result<Recording, Problem> {
    let archive: Archive = serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| {
        Problem::new(
            error.line(),
            format!("it is not an HTTP archive: {error}"),
            "export it again: developer tools, network, export HAR",
        )
    })?;
    let first = archive.log.entries.iter().find_map(|entry| Url::parse(&entry.request.url).ok());
    let Some(first) = first else {
        return Err(Problem::new(0, "it contains no requests", "record with the network tab open"));
    };
    let mut steps: Vec<(f64, Step)> = Vec::new();
    let (mut foreign, mut parts) = (0, 0);
    for entry in &archive.log.entries {
        match Url::parse(&entry.request.url) {
            Ok(url) if url.origin != first.origin => foreign += 1,
            Ok(_) if is_part(entry) => parts += 1,
            Ok(url) if steps.len() < MOST_STEPS => {
                steps.push((seconds(&entry.started_date_time).unwrap_or(0.0), step(entry, url)))
            }
            _ => {}
        }
    }
    think(&mut steps);
    let steps: Vec<Step> = steps.into_iter().map(|(_, step)| step).collect();
    if steps.is_empty() {
        return Err(Problem::new(
            0,
            "it contains only parts of pages",
            "start recording before the first page loads",
        ));
    }
    let name = format!("recording of {} requests", steps.len());
    let scenario = Scenario {
        name: name.clone(),
        flows: vec![Flow { name, weight: 1, steps }],
        cookies: true,
        ..Scenario::weighted(first.origin, Vec::new())
    };
    Ok(Recording { scenario, foreign, parts })
}

/// Whether a page fetched it without a script: such parts are found again.
fn is_part(entry: &Entry) -> bool {
    let mime = &entry.response.content.mime_type;
    let by_kind = matches!(
        entry.kind.as_str(),
        "stylesheet" | "script" | "image" | "font" | "media" | "manifest" | "preflight"
    );
    let by_mime = entry.kind.is_empty()
        && (["image/", "font/", "text/css", "application/font"].iter().any(|lead| mime.starts_with(lead))
            || mime.contains("javascript"));
    entry.request.method == "GET" && (by_kind || by_mime) || entry.request.method == "OPTIONS"
}

fn step(entry: &Entry, url: Url) -> Step {
    let asked = &entry.request;
    let is_page = entry.kind == "document"
        || entry.kind.is_empty()
            && entry.response.content.mime_type.starts_with("text/html")
            && asked.method == "GET";
    let is_own = |name: &str| OWN_FIELDS.contains(&name) || name.starts_with(':') || name.starts_with("sec-");
    let fields = asked.headers.iter().filter(|field| !is_own(&field.name.to_ascii_lowercase()));
    let request = Request {
        method: asked.method.to_ascii_uppercase(),
        target: url.target,
        fields: fields.map(|field| (field.name.clone(), field.value.clone())).collect(),
        body: asked.post_data.as_ref().map(|posted| posted.text.clone().into_bytes()).unwrap_or_default(),
    };
    // Where a redirect led to, the recording has as a request of its own.
    Step { page: is_page, redirects: Some(0), ..Step::new(request) }
}

/// In the order of their times; pauses become thoughts.
fn think(steps: &mut [(f64, Step)]) {
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    for index in 1..steps.len() {
        let pause = steps[index].0 - steps[index - 1].0;
        if pause >= LEAST_THOUGHT
            && let Ok(pause) = Duration::try_from_secs_f64(pause)
        {
            steps[index - 1].1.think = Some((pause, pause));
        }
    }
}

/// Seconds of a day and days, as far as they are needed for differences: `2026-11-22T06:28:25.123Z`.
fn seconds(time: &str) -> Option<f64> {
    let (date, clock) = time.split_once('T')?;
    let day: f64 = date.rsplit('-').next()?.parse().ok()?;
    let end = clock.find(['Z', '+', '-']).unwrap_or(clock.len());
    let mut parts = clock[..end].split(':').map(|part| part.parse::<f64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    Some(((day * 24.0 + hour) * 60.0 + minute) * 60.0 + second).filter(|seconds| seconds.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HAR: &str = r#"{ "log": { "version": "1.2", "creator": {}, "entries": [
      { "startedDateTime": "2026-11-22T06:28:25.000Z", "_resourceType": "document", "request": { "method": "GET", "url": "http://a.test/shop/",
        "headers": [ { "name": "Host", "value": "a.test" }, { "name": "Accept-Language", "value": "de" }, { "name": "Cookie", "value": "x=1" } ] },
        "response": { "status": 200, "content": { "mimeType": "text/html" } } },
      { "startedDateTime": "2026-11-22T06:28:25.100Z", "_resourceType": "stylesheet", "request": { "method": "GET", "url": "http://a.test/a.css" }, "response": {} },
      { "startedDateTime": "2026-11-22T06:28:25.200Z", "_resourceType": "script", "request": { "method": "GET", "url": "https://cdn.test/a.js" } },
      { "startedDateTime": "2026-11-22T06:28:29.000Z", "_resourceType": "xhr", "request": { "method": "POST", "url": "http://a.test/?wc-ajax=add_to_cart",
        "headers": [ { "name": "content-type", "value": "application/x-www-form-urlencoded" }, { "name": ":path", "value": "/" } ],
        "postData": { "mimeType": "application/x-www-form-urlencoded", "text": "product_id=7" } } } ] } }"#;

    #[test]
    fn pages_and_what_scripts_sent() {
        let recording = read(HAR).unwrap();
        assert_eq!((recording.foreign, recording.parts), (1, 1));
        let scenario = recording.scenario;
        assert!(scenario.cookies && scenario.origin.host == "a.test");
        let [page, post] = scenario.flows[0].steps.as_slice() else { panic!() };
        assert!(page.page && !post.page);
        assert_eq!(page.request.fields, [("Accept-Language".to_owned(), "de".to_owned())]);
        assert_eq!(page.think, Some((Duration::from_secs(4), Duration::from_secs(4))));
        assert_eq!(
            (post.request.method.as_str(), post.request.target.as_str()),
            ("POST", "/?wc-ajax=add_to_cart")
        );
        assert_eq!(post.request.body, b"product_id=7");
        assert_eq!(post.request.fields.len(), 1);
    }

    #[test]
    fn what_is_none() {
        assert_eq!(read("{\n\"log\": 1}").unwrap_err().line, 2);
        assert_eq!(read(r#"{"log":{"entries":[]}}"#).unwrap_err().line, 0);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(at in 0..HAR.len(), more in "[\"{}\\[\\]:,0-9a-zT-]{0,6}") {
            let _ = read(&format!("{}{more}{}", &HAR[..at], &HAR[at..]));
        }
    }
}
