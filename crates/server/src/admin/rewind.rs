//! Rewound workers in the answers of the admin address.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::http::{AdminRequest, AdminResponse};
use super::status::{grouped, share, short};
use millrace_base::context::stats::{
    ComparedStatus, Exposition, ORDINARY, PhpStatus, RewindDifference, RewindKey, RewindStatus, Row, table,
};

/// Keys that the text names: the most used ones.
const KEYS_SHOWN: usize = 4;
/// How many of the things that a boot reads the text names.
const READS_SHOWN: usize = 8;

/// Status text.
pub(super) fn write(text: &mut String, rewind: &RewindStatus) -> std::fmt::Result {
    let ordinary = rewind.ordinary_sum();
    let all = rewind.rewound.saturating_add(ordinary);
    write!(
        text,
        "  {:<12}rewind      images: {} now, {} made; {} of {} requests began in one ({})",
        "",
        grouped(rewind.images),
        grouped(rewind.made),
        grouped(rewind.rewound),
        grouped(all),
        share(rewind.rewound, all)
    )?;
    if rewind.put > 0 {
        let time = short(rewind.put_mean());
        write!(text, "; memory put back in {time}, {} pages, on average", grouped(rewind.pages_mean()))?;
    }
    writeln!(text)?;
    if ordinary > 0 {
        writeln!(text, "  {:<12}ordinary    {}", "", reasons(rewind))?;
    }
    if let Some(why) = &rewind.refusal {
        writeln!(text, "  {:<12}refused     {why}", "")?;
    }
    if rewind.ended > 0 {
        let workers = match rewind.ended {
            1 => "1 worker had to end because its memory".to_owned(),
            ended => format!("{} workers had to end because their memory", grouped(ended)),
        };
        let reason = rewind.ending.as_deref().unwrap_or("unknown");
        writeln!(text, "  {:<12}ended       {workers} could not be put back; latest reason: {reason}", "")?;
    }
    if let Some(compared) = &rewind.compared {
        write_compared(text, compared)?;
    }
    rewind.keys.iter().take(KEYS_SHOWN).try_for_each(|key| write_key(text, key))
}

/// What comparisons have found.
fn write_compared(text: &mut String, compared: &ComparedStatus) -> std::fmt::Result {
    let ComparedStatus { same, unsure, different, differences } = compared;
    let [same, unsure, different] = [same, unsure, different].map(|count| grouped(*count));
    writeln!(text, "  {:<12}compared    {same} the same; {unsure} unsure; {different} different", "")?;
    for RewindDifference { url, ordinary, rewound, .. } in differences {
        writeln!(
            text,
            "  {:<12}different   {url}: {rewound:?} instead of {ordinary:?}; off until PHP is reloaded",
            ""
        )?;
    }
    Ok(())
}

/// Reasons with their counts, the most frequent first.
fn reasons(rewind: &RewindStatus) -> String {
    let mut reasons: Vec<(u64, &str)> =
        rewind.ordinary.iter().zip(ORDINARY).map(|(count, (_, why))| (*count, why)).collect();
    reasons.retain(|(count, _)| *count > 0);
    reasons.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let reasons: Vec<String> =
        reasons.into_iter().map(|(count, why)| format!("{} {why}", grouped(count))).collect();
    reasons.join("; ")
}

fn write_key(text: &mut String, key: &RewindKey) -> std::fmt::Result {
    let mut reads = key.reads[..key.reads.len().min(READS_SHOWN)].join(", ");
    if key.reads.is_empty() {
        reads.push_str("nothing of its request");
    } else if key.reads.len() > READS_SHOWN {
        let more = key.reads.len() - READS_SHOWN;
        write!(reads, " and {more} more (millrace status --json)")?;
    }
    writeln!(
        text,
        "  {:<12}key         {} reads {reads}; images: {}, requests: {}",
        "",
        key.script,
        grouped(key.images),
        grouped(key.rewound)
    )
}

/// As JSON.
pub(super) fn json(rewind: &RewindStatus) -> Value {
    let ordinary = ORDINARY.iter().zip(rewind.ordinary).map(|((label, _), count)| (*label, count));
    json!({
        "images": rewind.images,
        "images_made": rewind.made,
        "rewound": rewind.rewound,
        "ordinary": ordinary.collect::<Value>(),
        "put_back": rewind.put,
        "put_back_seconds_mean": rewind.put_mean().as_secs_f64(),
        "put_back_pages_mean": rewind.pages_mean(),
        "ended": rewind.ended,
        "refusal": rewind.refusal,
        "ending": rewind.ending,
        "keys": rewind.keys.iter().map(key_json).collect::<Value>(),
        "compared": rewind.compared.as_ref().map(compared_json),
    })
}

fn compared_json(compared: &ComparedStatus) -> Value {
    let difference =
        |one: &RewindDifference| json!({ "url": one.url, "ordinary": one.ordinary, "rewound": one.rewound });
    json!({
        "same": compared.same,
        "unsure": compared.unsure,
        "different": compared.different,
        "differences": compared.differences.iter().map(difference).collect::<Value>(),
    })
}

fn key_json(key: &RewindKey) -> Value {
    json!({ "script": key.script, "reads": key.reads, "images": key.images, "rewound": key.rewound })
}

/// A whole response of a difference: `php` is the service's name in the status, `number` 1 its newest
/// difference, `run` is `ordinary` or `rewound`.
pub(super) fn difference(pools: &[PhpStatus], asked: &AdminRequest) -> AdminResponse {
    let php = asked.argument("php");
    // What is no number names no difference.
    let number = asked.argument("number").map_or(1, |number| number.parse().unwrap_or(0));
    let responses = pools
        .iter()
        .filter(|pool| php.as_ref().is_none_or(|php| pool.name == *php))
        .filter_map(|pool| pool.rewind.as_ref()?.compared.as_ref())
        .flat_map(|compared| &compared.differences)
        .nth(usize::wrapping_sub(number, 1))
        .map(|difference| &difference.responses);
    match (responses, asked.argument("run").as_deref().unwrap_or_default()) {
        (None, _) => AdminResponse::text(
            404,
            "There is no such difference; /status.json lists them as php[].rewind.compared.differences.\n",
        ),
        (Some(responses), "ordinary") => AdminResponse::text(200, responses.ordinary.clone()),
        (Some(responses), "rewound") => AdminResponse::text(200, responses.rewound.clone()),
        _ => AdminResponse::text(
            422,
            "run has to be ordinary or rewound, as in /rewind-difference?number=1&run=ordinary\n",
        ),
    }
}

/// As metrics, for the sites that have rewound workers.
pub(super) fn expose(out: &mut Exposition, pools: &[PhpStatus]) {
    let mut amounts = |row: &Row, value: fn(&RewindStatus) -> f64| {
        out.family(row);
        for (site, rewind) in sites(pools) {
            out.sample(row, &[("site", site)], value(rewind));
        }
    };
    amounts(&table::PHP_REWIND_IMAGES, |rewind| rewind.images as f64);
    amounts(&table::PHP_REWIND_MADE, |rewind| rewind.made as f64);
    amounts(&table::PHP_REWIND_REQUESTS, |rewind| rewind.rewound as f64);
    amounts(&table::PHP_REWIND_PUT, |rewind| rewind.put as f64);
    amounts(&table::PHP_REWIND_PUT_SECONDS, |rewind| rewind.put_time.as_secs_f64());
    amounts(&table::PHP_REWIND_PUT_PAGES, |rewind| rewind.put_pages as f64);
    amounts(&table::PHP_REWIND_ENDED, |rewind| rewind.ended as f64);
    let row = &table::PHP_REWIND_ORDINARY;
    out.family(row);
    for (site, rewind) in sites(pools) {
        for ((reason, _), count) in ORDINARY.iter().zip(rewind.ordinary) {
            out.sample(row, &[("site", site), ("reason", reason)], count);
        }
    }
    let row = &table::PHP_REWIND_COMPARED;
    out.family(row);
    for (site, rewind) in sites(pools) {
        let Some(ComparedStatus { same, unsure, different, .. }) = &rewind.compared else { continue };
        for (outcome, count) in [("same", same), ("unsure", unsure), ("different", different)] {
            out.sample(row, &[("site", site), ("outcome", outcome)], *count);
        }
    }
}

fn sites(pools: &[PhpStatus]) -> impl Iterator<Item = (&str, &RewindStatus)> {
    pools.iter().filter_map(|php| Some((&php.name[..], php.rewind.as_ref()?)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn status() -> RewindStatus {
        RewindStatus {
            images: 2,
            made: 14,
            rewound: 1_234,
            ordinary: [30, 9, 0, 0, 0, 0, 12, 0, 0],
            put: 1_234,
            put_time: Duration::from_micros(410) * 1_234,
            put_pages: 312 * 1_234,
            ended: 1,
            refusal: Some("a session is open".to_owned()),
            ending: Some("a thread runs".to_owned()),
            keys: vec![
                RewindKey {
                    script: "/srv/index.php".to_owned(),
                    reads: vec!["$_COOKIE[lang]".to_owned(), "getenv(STAGE)".to_owned()],
                    images: 2,
                    rewound: 1_200,
                },
                RewindKey { script: "/srv/a.php".to_owned(), reads: Vec::new(), images: 0, rewound: 34 },
            ],
            compared: Some(ComparedStatus {
                same: 1_200,
                unsure: 2,
                different: 1,
                differences: vec![RewindDifference {
                    url: "http://a.test/?n=1".to_owned(),
                    ordinary: "<b>Anna".to_owned(),
                    rewound: "<b>\"Bert\"".to_owned(),
                    ..RewindDifference::default()
                }],
            }),
        }
    }

    #[test]
    fn lines_for_people() {
        let mut text = String::new();
        write(&mut text, &status()).unwrap();
        let lines: Vec<&str> = text.lines().map(|line| line.trim_start()).collect();
        assert_eq!(
            lines,
            [
                "rewind      images: 2 now, 14 made; 1,234 of 1,285 requests began in one (96.0 %); memory put back \
                 in 410 us, 312 pages, on average",
                "ordinary    30 method or content; 12 the point was refused; 9 no image",
                "refused     a session is open",
                "ended       1 worker had to end because its memory could not be put back; latest reason: a thread runs",
                "compared    1,200 the same; 2 unsure; 1 different",
                "different   http://a.test/?n=1: \"<b>\\\"Bert\\\"\" instead of \"<b>Anna\"; off until PHP is reloaded",
                "key         /srv/index.php reads $_COOKIE[lang], getenv(STAGE); images: 2, requests: 1,200",
                "key         /srv/a.php reads nothing of its request; images: 0, requests: 34",
            ]
        );
        text.clear();
        write(&mut text, &RewindStatus::default()).unwrap();
        assert_eq!(text.trim(), "rewind      images: 0 now, 0 made; 0 of 0 requests began in one (none)");
    }

    #[test]
    fn long_keys_are_cut() {
        let reads = (0..11).map(|n| format!("$_GET[{n}]")).collect();
        let key = RewindKey { script: "/a.php".to_owned(), reads, images: 1, rewound: 2 };
        let mut text = String::new();
        write_key(&mut text, &key).unwrap();
        assert!(text.contains("$_GET[7] and 3 more (") && !text.contains("$_GET[8]"), "{text}");
    }

    #[test]
    fn members_for_programs() {
        let json = json(&status());
        assert_eq!((&json["ordinary"]["method"], &json["ordinary"]["key"]), (&json!(30), &json!(0)));
        assert_eq!(json["put_back_seconds_mean"], json!(0.00041));
        assert_eq!(json["keys"][0]["reads"], json!(["$_COOKIE[lang]", "getenv(STAGE)"]));
    }

    #[test]
    fn metrics_of_sites_that_rewind() {
        let blog = PhpStatus { name: "blog".to_owned(), rewind: Some(status()), ..Default::default() };
        let other = PhpStatus { name: "other".to_owned(), ..Default::default() };
        let mut out = Exposition::default();
        expose(&mut out, &[blog, other]);
        let text = out.into_text();
        for line in [
            "millrace_php_rewind_images{site=\"blog\"} 2\n",
            "millrace_php_rewind_requests_total{site=\"blog\"} 1234\n",
            "millrace_php_rewind_put_back_seconds_total{site=\"blog\"} 0.50594\n",
            "millrace_php_rewind_ordinary_total{site=\"blog\",reason=\"refused\"} 12\n",
        ] {
            assert!(text.contains(line), "{line}\n is not in\n{text}");
        }
        assert!(!text.contains("site=\"other\""), "{text}");
    }
}
