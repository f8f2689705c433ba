//! Why a page is or isn't cached, as text and as JSON.

mod words;

use std::fmt::{self, Write};
use std::time::Duration;

use millrace_pages::judge::READS;
use millrace_pages::{Millis, PeekEntry, PeekPage};
use millrace_wire::encoding::CODINGS;
use serde_json::{Value, json};

use super::pages::{cause_in_words, causes_json};
use super::status::{bytes, duration, grouped};
use crate::cache::{Decision, NotedResponse, Preview};
use crate::serve::explain::Explanation;
use millrace_base::context::stats::{CAUSES_PERIOD, Causes};
use words::{Prediction, bypass, part_of_key, prediction, refusal};

/// Tags that the text shows.
const TAGS_SHOWN: usize = 40;
/// Causes of the site that the text shows.
const CAUSES_SHOWN: usize = 8;
/// Width of the first column.
const COLUMN: usize = 12;
/// Width of the column of rows.
const ROW_COLUMN: usize = 19;

/// The explanation for people.
pub fn text(explained: &Explanation) -> String {
    let mut out = Text(String::new());
    out.line("URL", &explained.url);
    out.line("site", if explained.site.is_empty() { "(any name)" } else { &explained.site });
    if !explained.rules.is_empty() {
        out.line("site rules", &explained.rules.join(", "));
    }
    // Writing to memory can't fail.
    let _ = match &explained.page {
        Some(preview) => page(&mut out, explained, preview),
        None => {
            out.line("result", &explained.result_text);
            Ok(())
        }
    };
    out.head("The walk of the request");
    for (row, found) in
        explained.trail.iter().filter(|(row, found)| !found.is_empty() || *row == explained.row)
    {
        out.line(row, found);
    }
    out.0
}

/// The explanation for programs. Members are only ever added.
pub fn json(explained: &Explanation) -> String {
    let mut value = json!({
        "url": explained.url,
        "site": explained.site,
        "cookies": explained.cookies.iter().map(|(name, state)| json!({ "name": name, "state": state })).collect::<Value>(),
        "rules": explained.rules,
        "decided_by": explained.row,
        "walk": explained.trail.iter().map(|(row, found)| json!({ "row": row, "found": found })).collect::<Value>(),
        "site_lately": {
            "seconds": CAUSES_PERIOD.as_secs(),
            "bypassed": causes_json(&explained.causes.bypassed.lately(explained.now.1)),
            "refused": causes_json(&explained.causes.refused.lately(explained.now.1)),
            "varied": causes_json(&explained.causes.varied.lately(explained.now.1)),
        },
    });
    let more = match &explained.page {
        Some(preview) => page_json(explained, preview),
        None => json!({ "result": explained.result, "result_text": explained.result_text }),
    };
    if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
        value.extend(more);
    }
    format!("{value:#}\n")
}

/// Lines in two columns.
struct Text(String);

impl Text {
    fn line(&mut self, name: &str, text: &str) {
        let text = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect::<String>();
        let width = if name.len() < COLUMN { COLUMN } else { ROW_COLUMN };
        let line = format!("{name:<width$}{text}");
        self.0 += line.trim_end();
        self.0.push('\n');
    }

    fn head(&mut self, text: &str) {
        self.0 += &format!("\n{text}\n");
    }
}

fn page(out: &mut Text, explained: &Explanation, preview: &Preview) -> fmt::Result {
    let now = explained.now.0;
    let Prediction { text, why, .. } = prediction(preview);
    out.line("result", &text);
    let why = match &preview.decision {
        Decision::Bypass { word, name, pattern } => bypass(word, name, pattern, &explained.chosen),
        _ => why,
    };
    if !why.is_empty() {
        out.line("because", &why);
    }
    for (name, state) in &explained.cookies {
        out.line("cookie", &format!("{name}: {state}"));
    }
    out.line("key", &key_text(preview));
    if !preview.variant.is_empty() {
        let parts =
            preview.variant.iter().map(|(name, value)| format!("{name} = \"{}\"", value.escape_debug()));
        let (parts, count) = (parts.collect::<Vec<_>>().join(", "), preview.peek.variants);
        out.line("variant", &format!("{parts}; {count} variants of this page are stored"));
    }
    if !preview.looked_for.is_empty() {
        let names = preview.looked_for.iter().map(|name| if &**name == "*" { "all" } else { name });
        out.line(
            "looks for",
            &format!("cookies: {}; visitors with one get it from PHP", names.collect::<Vec<_>>().join(", ")),
        );
    }
    stored(out, preview, now)?;
    purged_by(out, explained, preview)?;
    lately(out, preview, now)?;
    with_cart(out, explained);
    of_site(out, explained);
    Ok(())
}

fn key_text(preview: &Preview) -> String {
    let parts: Vec<(String, String)> = key_parts(preview);
    parts.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

/// The parts of the key with their names; the site's name is not repeated.
fn key_parts(preview: &Preview) -> Vec<(String, String)> {
    let mut parts = preview.key.split(|b| *b == 0).map(String::from_utf8_lossy);
    let mut named = Vec::new();
    for name in ["site", "scheme", "host", "path", "query"] {
        let value = parts.next().unwrap_or_default();
        if name != "site" && !value.is_empty() {
            named.push((name.to_owned(), value.into_owned()));
        }
    }
    named.extend(parts.filter(|part| !part.is_empty()).map(|part| part_of_key(&part)));
    named
}

fn stored(out: &mut Text, preview: &Preview, now: Millis) -> fmt::Result {
    out.head(match preview.decision {
        Decision::Bypass { .. } => "In the cache now, for visitors whose requests don't bypass it",
        _ => "In the cache now",
    });
    let PeekEntry::Page(found) = &preview.peek.entry else {
        let text = match preview.peek.entry {
            PeekEntry::Uncacheable(left) => {
                format!("a note that this page is uncacheable, for {} more", seconds(left as i64))
            }
            _ if preview.peek.is_filling => "nothing; PHP is making the page".to_owned(),
            _ => "nothing".to_owned(),
        };
        out.line("", &text);
        return Ok(());
    };
    let PeekPage { page, terms, age, hits, .. } = found;
    let requested = format!("requested {} times", grouped(u64::from(*hits)));
    out.line("page", &format!("status {}, {} old, {requested}", page.status, seconds(*age as i64)));
    out.line("lifetime", &lifetime(found));
    if let Some(forms) = forms(found) {
        out.line("forms", &forms);
    }
    out.line(
        "",
        &format!(
            "{} of memory; stored {} ago",
            bytes(page.bytes() as u64 + terms.bytes() as u64),
            seconds(now.saturating_sub(page.stored) as i64)
        ),
    );
    Ok(())
}

/// Freshness, and what may be done with it later.
fn lifetime(found: &PeekPage) -> String {
    let PeekPage { terms, ttl_left, grace, .. } = found;
    let later = |time: Millis, what: &str| {
        let left = i64::try_from(time).unwrap_or(i64::MAX).saturating_add((*ttl_left).min(0));
        (left > 0).then(|| format!("for {} {what}", seconds(left)))
    };
    let mut text = match grace {
        None => format!("fresh for {}", seconds(*ttl_left)),
        Some(grace) if grace.purged => "stale since a soft purge".to_owned(),
        Some(_) if terms.no_cache => "PHP has to confirm it each time (no-cache)".to_owned(),
        Some(_) => format!("stale for {}", seconds(-ttl_left)),
    };
    let is_purged = grace.is_some_and(|grace| grace.purged);
    let later = [
        later(terms.stale_while_revalidate, "while PHP makes a new one").filter(|_| !is_purged),
        later(terms.stale_if_error, "if PHP fails"),
    ];
    let later: Vec<String> = later.into_iter().flatten().collect();
    if !later.is_empty() && !terms.no_cache {
        let word = if grace.is_none() { "then stale" } else { "usable" };
        write!(text, "; {word} {}", later.join(", ")).unwrap_or_default();
    }
    text
}

/// Size in each coding.
fn forms(found: &PeekPage) -> Option<String> {
    let forms = CODINGS.iter().rev().filter_map(|coding| {
        let form = found.page.form(*coding)?;
        let size = form.body().len() as u64;
        let is_there = size > 0 || !found.page.is_slim();
        is_there.then(|| format!("{} {}", coding.name(), bytes(size)))
    });
    let forms: Vec<String> = forms.collect();
    (!forms.is_empty()).then(|| forms.join(", "))
}

fn purged_by(out: &mut Text, explained: &Explanation, preview: &Preview) -> fmt::Result {
    if !matches!(preview.peek.entry, PeekEntry::Page(_)) {
        return Ok(());
    }
    out.head("Purged by");
    out.line("", "the URL itself (millrace purge, PURGE, a POST to it), its whole site, everything");
    let (names, unnamed) = tags(preview);
    for name in names.iter().take(TAGS_SHOWN) {
        let words = explained.profile.tag_in_words(name).unwrap_or_else(|| "a purge of this tag".to_owned());
        out.line("", &format!("{name}: {words}"));
    }
    if names.len() > TAGS_SHOWN {
        out.line("", &format!("and {} more tags: --json", names.len() - TAGS_SHOWN));
    }
    if unnamed > 0 {
        out.line(
            "",
            &format!("{unnamed} more tags, whose names are forgotten until PHP makes the page again"),
        );
    }
    Ok(())
}

/// Names of the stored page's tags, and the number of those without a known name. Three tags are the cache's own, and
/// a fourth where the script has read nothing of a cart.
fn tags(preview: &Preview) -> (Vec<&str>, usize) {
    let PeekEntry::Page(found) = &preview.peek.entry else { return (Vec::new(), 0) };
    let site = preview.key.split(|b| *b == 0).next().unwrap_or_default();
    let site = String::from_utf8_lossy(site);
    let responses = preview.history.responses.iter().flat_map(|response| response.grounds.tags.iter());
    let mut names: Vec<&str> = responses
        .map(|name| &**name)
        .filter(|name| found.terms.tags.contains(&millrace_pages::Tag::named(&site, name.as_bytes())))
        .collect();
    names.sort_unstable();
    names.dedup();
    let own = 3 + usize::from(found.terms.tags.contains(&millrace_pages::carts::unread(&site)));
    let unnamed = found.terms.tags.len().saturating_sub(names.len() + own);
    (names, unnamed)
}

fn lately(out: &mut Text, preview: &Preview, now: Millis) -> fmt::Result {
    let history = &preview.history;
    out.head("What PHP said lately about this URL");
    if history.responses.is_empty() {
        out.line("", "nothing that is remembered: it was not asked for a page that could be stored");
    }
    for response in &history.responses {
        out.line("", &format!("{} ago: {}", seconds(now.saturating_sub(response.at) as i64), said(response)));
    }
    if !history.bypasses.is_empty() {
        out.head("Requests for this URL that bypassed the cache lately");
        for bypass in &history.bypasses {
            let what = format!("{} {}", bypass.reason, bypass.name.escape_debug());
            let ago = seconds(now.saturating_sub(bypass.last) as i64);
            out.line("", &format!("{} {}, the last one {ago} ago", grouped(bypass.count), what.trim_end()));
        }
    }
    Ok(())
}

/// One response of PHP.
fn said(response: &NotedResponse) -> String {
    let NotedResponse { status, outcome, grounds, .. } = response;
    let result = match *outcome {
        NotedResponse::STORED => "stored".to_owned(),
        NotedResponse::CONFIRMED => "the stored page is still valid".to_owned(),
        word => format!("not stored ({word}): {}", refusal(word)),
    };
    let says = if grounds.text.is_empty() { String::new() } else { format!(": {}", grounds.text) };
    let because = grounds.because.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    let verb = if grounds.source == READS { "by" } else { "set in" };
    let call = grounds.call.as_ref().map(|place| format!(", {verb} {place}")).unwrap_or_default();
    let is_shown = grounds.source != READS && !grounds.reads.is_empty();
    let reads = if is_shown { format!("; reads {}", grounds.reads.join(", ")) } else { String::new() };
    let cart = grounds.cart.as_ref().map(|text| format!("; reads the cart: {text}")).unwrap_or_default();
    format!("status {status}, {result}; {}{says}{because}{call}{reads}{cart}", grounds.source)
}

/// What differs for visitors with a cart.
fn with_cart(out: &mut Text, explained: &Explanation) {
    if !explained.cart_differences.is_empty() {
        out.head("Differs for visitors with a cart");
    }
    for (is_own, what) in &explained.cart_differences {
        let whose = if *is_own { "" } else { "another page of this kind: " };
        out.line("", &format!("{whose}{what}"));
    }
}

fn of_site(out: &mut Text, explained: &Explanation) {
    let minutes = CAUSES_PERIOD.as_secs() / 60;
    let mut list = |title: &str, causes: &Causes| {
        if !causes.is_empty() {
            out.head(&format!("{title} in the last {minutes} to {} minutes", 2 * minutes));
            causes.leading(CAUSES_SHOWN).iter().for_each(|cause| out.line("", &cause_in_words(cause)));
        }
    };
    list(
        "Requests of the whole site that bypassed the cache",
        &explained.causes.bypassed.lately(explained.now.1),
    );
    list(
        "Responses of the whole site that were not stored",
        &explained.causes.refused.lately(explained.now.1),
    );
    list(
        "Pages of the whole site that vary by what a script has read of the request",
        &explained.causes.varied.lately(explained.now.1),
    );
}

fn page_json(explained: &Explanation, preview: &Preview) -> Value {
    let Prediction { word, text, why } = prediction(preview);
    let now = explained.now.0;
    let ago = |at: Millis| now.saturating_sub(at) as f64 / 1000.0;
    let why = match &preview.decision {
        Decision::Bypass { word, name, pattern } => {
            let text = bypass(word, name, pattern, &explained.chosen);
            json!({ "reason": word, "name": name, "pattern": pattern, "text": text })
        }
        _ if why.is_empty() => Value::Null,
        _ => json!({ "reason": word, "text": why }),
    };
    let parts = key_parts(preview).into_iter().map(|(name, value)| json!({ "name": name, "value": value }));
    let php = preview.history.responses.iter().map(|response| {
        let NotedResponse { at, status, outcome, grounds, .. } = response;
        json!({
            "seconds_ago": ago(*at), "status": status, "outcome": outcome, "source": grounds.source,
            "text": grounds.text, "because": grounds.because, "call": grounds.call, "reads": grounds.reads,
            "tags": grounds.tags,
             "reads_cart": grounds.cart,
        })
    });
    let bypasses = preview.history.bypasses.iter().map(|bypass| {
        json!({
            "reason": bypass.reason, "name": bypass.name, "count": bypass.count,
            "last_seconds_ago": ago(bypass.last),
        })
    });
    json!({
        "result": word,
        "result_text": text,
        "because": why,
        "key": parts.collect::<Value>(),
        "variant": preview.variant.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect::<Value>(),
        "variants": preview.peek.variants,
        "looks_for_cookies": preview.looked_for,
        "differs_with_cart": explained.cart_differences.iter().map(|(is_own, what)| json!({ "what": what, "this_page": is_own })).collect::<Value>(),
        "filling": preview.peek.is_filling,
        "stored": stored_json(explained, preview),
        "php": php.collect::<Value>(),
        "bypassed": bypasses.collect::<Value>(),
    })
}

fn stored_json(explained: &Explanation, preview: &Preview) -> Value {
    let found = match &preview.peek.entry {
        PeekEntry::Page(found) => found,
        PeekEntry::Uncacheable(left) => return json!({ "uncacheable_seconds": *left as f64 / 1000.0 }),
        PeekEntry::Nothing => return Value::Null,
    };
    let PeekPage { page, terms, age, ttl_left, grace, hits } = found;
    let (names, unnamed) = tags(preview);
    let tags = names.iter().map(|name| json!({ "tag": name, "words": explained.profile.tag_in_words(name) }));
    let forms = CODINGS.iter().filter_map(|coding| Some((coding.name(), page.form(*coding)?.body().len())));
    json!({
        "status": page.status,
        "age_seconds": *age as f64 / 1000.0,
        "ttl_seconds": *ttl_left as f64 / 1000.0,
        "fresh": grace.is_none(),
        "purged": grace.is_some_and(|grace| grace.purged),
        "stale_while_revalidate_seconds": terms.stale_while_revalidate / 1000,
        "stale_if_error_seconds": terms.stale_if_error / 1000,
        "requests": hits,
        "bytes": page.bytes() + terms.bytes(),
        "codings": forms.map(|(name, size)| (name.to_owned(), Value::from(size))).collect::<serde_json::Map<_, _>>(),
        "tags": tags.collect::<Value>(),
        "unnamed_tags": unnamed,
    })
}

/// A time in the two largest units.
fn seconds(time: i64) -> String {
    duration(Duration::from_millis(u64::try_from(time).unwrap_or(0)))
}
