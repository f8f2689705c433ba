//! The grounds of a judgement, for people: which field, call or setting has decided it.

use super::said::Said;
use super::word::LifetimeSource;
use super::{Answer, Case, Refusal};
use crate::Millis;
use crate::ask::Asking;
use crate::control::Control;
use crate::place::Place;
use crate::rules::Rules;
use crate::vary::Names;

/// The grounds of a judgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grounds {
    /// What decided: `Cache-Control`, `millrace_cache_control()`, `cache.ttl.page`, `Set-Cookie`.
    pub source: &'static str,
    /// What it says, shortened: `private, max-age=0`; of cookies only the names.
    pub text: Box<str>,
    /// Why an integration says so: `DONOTCACHEPAGE`.
    pub because: Option<Box<str>>,
    /// The call that set the deciding field, as `FILE:LINE`.
    pub call: Option<Box<str>>,
    /// What the script has read of the request, as `NAME by FILE:LINE`, where the page depends on it.
    pub reads: Box<[Box<str>]>,
    /// Names of the page's tags, without repetitions.
    pub tags: Box<[Box<str>]>,
    /// What of the visitor's cart the script has read, and by which code.
    pub cart: Option<Box<str>>,
}

/// The source of a judgement on what a script has read.
pub const READS: &str = "the script reads";
/// Longest text, bytes.
const TEXT_BYTES: usize = 160;
/// Longest name of a tag, bytes; longer ones are left out.
const TAG_BYTES: usize = 120;

/// The grounds for storing a response, or for refusing to; `refused`: why.
pub fn grounds<'a, F>(
    rules: &Rules,
    place: &Place<'_>,
    asking: &Asking,
    answer: &Answer<'a, F>,
    refused: Option<Refusal>,
    now: Millis,
) -> Grounds
where
    F: Iterator<Item = (&'a str, &'a [u8])> + Clone,
{
    let said = Said::hear(rules, answer.fields.clone(), answer.notes);
    let case =
        Case { rules, place, asking, status: answer.status, country: answer.country, said: &said, now };
    let source = LifetimeSource::of(&case).source;
    let mut grounds = match refused {
        Some(Refusal::SetCookie) => fixed("Set-Cookie", &cookie_names(answer)),
        Some(Refusal::Vary) => vary(rules, answer),
        Some(Refusal::Failed) => fixed("the script", "ended in an error, or its response is incomplete"),
        Some(Refusal::Status) => fixed("the status", &answer.status.to_string()),
        Some(Refusal::Authorization) => fixed("Authorization", "in the request"),
        Some(Refusal::Client) => fixed("Cache-Control", "no-store in the request"),
        Some(Refusal::Arguments) => {
            fixed("the query", "its arguments are not in the order of the key, or not part of it")
        }
        Some(Refusal::TooLarge) => fixed("cache.page_bytes", "the response is larger"),
        Some(Refusal::TooManyTags) => fixed("the tags", "the response has too many"),
        Some(Refusal::Token) => fixed("Cart-Token", "the response names a cart for its client"),
        Some(Refusal::Country) => {
            fixed("the country", "the prices on it depend on it, and the visitor's is unknown")
        }
        Some(Refusal::Cookie) => fixed(
            "a cookie",
            "the script has looked for a cookie of this visitor that the cache doesn't know",
        ),
        Some(Refusal::Fields) => fields_read(&said),
        Some(Refusal::HandedOver) => fixed("X-Accel-Redirect or X-Sendfile", "the script hands over a file"),
        None | Some(_) => Grounds { source, text: short(&value_of(source, answer)), ..Grounds::default() },
    };
    grounds.because = said.note.as_ref().and_then(|note| note.because.clone()).filter(|_| {
        matches!(refused, None | Some(Refusal::NoStore | Refusal::Private)) && source == LifetimeSource::HOOKS
    });
    grounds.call = match grounds.source {
        _ if refused == Some(Refusal::Fields) => grounds.call,
        "Set-Cookie" => call(&answer.notes.origins, "cookie "),
        "Cache-Control" => call(&answer.notes.origins, "cache-control "),
        _ => grounds.because.as_deref().and_then(|because| match because {
            "Set-Cookie" => call(&answer.notes.origins, "cookie "),
            because if because.starts_with("Cache-Control") => call(&answer.notes.origins, "cache-control "),
            _ => None,
        }),
    };
    grounds.reads = said.read.lines.iter().map(|(name, place)| format!("{name} by {place}").into()).collect();
    let mut tags: Vec<Box<str>> = said.tags.iter().filter_map(|tag| name_of_tag(tag)).collect();
    tags.sort_unstable();
    tags.dedup();
    grounds.tags = tags.into();
    let cart = answer.notes.cart.as_deref().and_then(|note| note.strip_prefix(b"+ "));
    grounds.cart = cart.map(|text| short(&String::from_utf8_lossy(text)));
    grounds
}

/// The first call of this kind: `cookie NAME by FILE:LINE` or `cache-control by FILE:LINE`, one in a line.
fn call(origins: &[u8], kind: &str) -> Option<Box<str>> {
    let line = origins.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(kind.as_bytes()))?;
    let line = String::from_utf8_lossy(line);
    let (_, place) = line.rsplit_once("by ")?;
    Some(place.into())
}

/// What was read for which there can be no variant, and where.
fn fields_read(said: &Said<'_>) -> Grounds {
    let (name, place) = said.read.never.or(said.read.all).unwrap_or_default();
    let what = if name == "*" { "all fields of the request" } else { name };
    Grounds { call: Some(place.into()).filter(|_| !place.is_empty()), ..fixed(READS, what) }
}

fn fixed(source: &'static str, text: &str) -> Grounds {
    Grounds { source, text: short(text), ..Grounds::default() }
}

fn name_of_tag(tag: &[u8]) -> Option<Box<str>> {
    std::str::from_utf8(tag).ok().filter(|tag| tag.len() <= TAG_BYTES).map(Box::from)
}

/// What a source says: the values of the field, or the arguments of the call.
fn value_of<'a, F>(source: &str, answer: &Answer<'a, F>) -> String
where
    F: Iterator<Item = (&'a str, &'a [u8])> + Clone,
{
    if source == LifetimeSource::CALL || source == LifetimeSource::HOOKS {
        let said = String::from_utf8_lossy(&answer.notes.control);
        let shown = |directive: &&str| {
            !directive.eq_ignore_ascii_case("fallback") && Control::because_of(directive.as_bytes()).is_none()
        };
        return said.split(',').map(str::trim).filter(shown).collect::<Vec<_>>().join(", ");
    }
    let values = answer.fields.clone().filter(|(name, _)| name.eq_ignore_ascii_case(source));
    values.map(|(_, value)| String::from_utf8_lossy(value)).collect::<Vec<_>>().join(", ")
}

/// Names of the cookies that a response sets. Their values may be secret.
fn cookie_names<'a, F>(answer: &Answer<'a, F>) -> String
where
    F: Iterator<Item = (&'a str, &'a [u8])> + Clone,
{
    let set = answer.fields.clone().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    let name = |value: &[u8]| {
        let end = memchr::memchr(b'=', value).unwrap_or(value.len());
        String::from_utf8_lossy(value[..end].trim_ascii()).into_owned()
    };
    let mut names: Vec<String> = set.map(|(_, value)| name(value)).collect();
    names.dedup();
    names.join(", ")
}

/// The members of `Vary` that are not allowed.
fn vary<'a, F>(rules: &Rules, answer: &Answer<'a, F>) -> Grounds
where
    F: Iterator<Item = (&'a str, &'a [u8])> + Clone,
{
    let values = || answer.fields.clone().filter(|(name, _)| name.eq_ignore_ascii_case("vary"));
    let members = values().flat_map(|(_, value)| value.split(|b| *b == b',')).map(<[u8]>::trim_ascii);
    let is_refused = |member: &&[u8]| {
        let mut names = Names::default();
        names.add(rules, member);
        names.refused
    };
    let refused: Vec<_> = members.filter(is_refused).map(String::from_utf8_lossy).collect();
    match refused.is_empty() {
        false => fixed("Vary", &refused.join(", ")),
        true => fixed("Content-Encoding", "the script has compressed the response for its first client"),
    }
}

fn short(text: &str) -> Box<str> {
    let mut end = text.len().min(TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notes::{Note, Notes};
    use crate::{Verdict, judge};

    /// The word of the judgement, and its grounds in one line.
    fn of(fields: &[(&str, &str)], note: &str) -> String {
        let rules = Rules::profile();
        let place = Place { site: "a", host: "a.test", path: b"/", query: None };
        let (asking, mut notes) = (Asking::default(), Notes::default());
        if !note.is_empty() {
            notes.add(Note::Control, note.as_bytes());
        }
        let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
        let answer =
            Answer { status: 200, fields, notes: &notes, content: b"x", failed: false, country: None };
        let refused = match judge(&rules, &place, &asking, &answer, 0) {
            Verdict::Store { .. } => None,
            Verdict::Refuse { why, .. } => Some(why),
        };
        let Grounds { source, text, because, tags, .. } =
            grounds(&rules, &place, &asking, &answer, refused, 0);
        let word = refused.map_or("stored", Refusal::word);
        format!("{word} by {source}: {text} [{}] {}", because.as_deref().unwrap_or(""), tags.join(" "))
    }

    #[test]
    fn the_deciding_source_is_named() {
        for (fields, note, expected) in [
            (
                &[("Cache-Control", "public, max-age=60")][..],
                "",
                "stored by Cache-Control: public, max-age=60 [] ",
            ),
            (
                &[("Cache-Control", "private"), ("Millrace-Tag", "b, a, b")],
                "",
                "private by Cache-Control: private [] a b",
            ),
            (
                &[("Cache-Control", "private"), ("X-LiteSpeed-Cache-Control", "public,max-age=9")],
                "",
                "stored by X-LiteSpeed-Cache-Control: public,max-age=9 [] ",
            ),
            (
                &[("Set-Cookie", "a=secret; path=/"), ("Set-Cookie", "b=2")],
                "",
                "set-cookie by Set-Cookie: a, b [] ",
            ),
            (&[("Vary", "Accept-Encoding, X-Country")], "", "vary by Vary: X-Country [] "),
            (
                &[],
                "no-store, because=DONOTCACHEPAGE, fallback",
                "no-store by the application's hooks: no-store [DONOTCACHEPAGE] ",
            ),
            (
                &[],
                "public, max-age=60, fallback",
                "stored by the application's hooks: public, max-age=60 [] ",
            ),
            (&[], "private", "private by millrace_cache_control(): private [] "),
            (&[("Pragma", "no-cache")], "", "no-cache by Pragma: no-cache [] "),
            (
                &[("Expires", "Thu, 01 Jan 1970 00:00:00 GMT")],
                "",
                "expired by Expires: Thu, 01 Jan 1970 00:00:00 GMT [] ",
            ),
            (&[("X-Accel-Expires", "0")], "", "expired by X-Accel-Expires: 0 [] "),
            (&[("Content-Type", "text/html")], "", "no-lifetime by cache.ttl.page:  [] "),
        ] {
            assert_eq!(of(fields, note), expected);
        }
    }

    #[test]
    fn the_call_behind_a_field() {
        let origins = b"cache-control by /s/a.php:3\ncookie x by y by /s/b c.php:7\ncookie z by /s/d.php:1";
        assert_eq!(call(origins, "cookie ").as_deref(), Some("/s/b c.php:7"));
        assert_eq!(call(origins, "cache-control ").as_deref(), Some("/s/a.php:3"));
        assert_eq!(call(b"", "cookie "), None);
        assert_eq!(call(b"cookie x", "cookie "), None);
    }

    #[test]
    fn texts_are_bounded() {
        let long = "x".repeat(500);
        let found = of(&[("Cache-Control", &format!("private, {long}"))], "");
        assert!(found.len() < 250, "{found}");
        let tags = of(&[("Millrace-Tag", &long)], "");
        assert!(!tags.contains("xxx"), "{tags}");
    }
}
