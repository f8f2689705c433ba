//! Names of arguments, cookies, paths and fields, with `*` for a variable part.

use std::ops::Range;

use super::{Raw, Read, list};
use crate::problem::{What, shown};
use crate::table::Word;

/// Longest name: what is longer than a cookie's name ever is was not meant.
const MOST_BYTES: usize = 256;

/// A list of names of this sort; it may be empty.
pub(super) fn list(raw: &Raw, word: Word) -> Read<Vec<(String, Range<usize>)>> {
    let example = format!("{} in quotes, like {}", word.article(), word.example());
    let list = list::elements(raw, &example, |raw, text| {
        let read = match word {
            Word::Path => path(text),
            Word::Field => field(text),
            Word::Argument => name(text, b"&=#?", "not an argument's name"),
            Word::Cookie => name(text, b"=;,\"", "not a cookie's name"),
            Word::ArgumentValue => name(text, b"&#?", "not an argument"),
            Word::Method => method(text),
            Word::Function => function(text),
        };
        read.map(|text| (text, raw.span.clone())).map_err(|(label, cure)| {
            let cure = cure.unwrap_or_else(|| format!("write it like {}", word.example()));
            wrong(raw, text, label, cure)
        })
    })?;
    list::not_too_long(raw, list)
}

fn wrong(raw: &Raw, text: &str, label: &str, cure: String) -> Vec<super::Wrong> {
    raw.wrong(What::Malformed, format!("cannot hold \"{}\"", shown(text)), label, cure)
}

/// What is wrong, and a cure of its own.
type Bad = (&'static str, Option<String>);

/// `utm_source`, `utm_*`.
fn name(text: &str, never: &[u8], else_it_is: &'static str) -> Result<String, Bad> {
    let body = text.strip_prefix('*').unwrap_or(text);
    let body = body.strip_suffix('*').unwrap_or(body);
    if body.contains('*') {
        return Err(("`*` stands only at the ends", None));
    }
    if body.is_empty() {
        return Err(("that would be all of them", None));
    }
    let legal = |byte: u8| byte.is_ascii_graphic() && !never.contains(&byte);
    if text.len() > MOST_BYTES || !body.bytes().all(legal) {
        return Err((else_it_is, None));
    }
    Ok(text.to_owned())
}

/// `/api`, `/feed*`, `*/cart`, `*.pdf`.
fn path(text: &str) -> Result<String, Bad> {
    if !text.starts_with(['/', '*']) {
        return Err(("does not begin with /", Some(format!("write \"/{}\"", shown(text)))));
    }
    let body = text.strip_prefix('*').unwrap_or(text);
    let body = body.strip_suffix('*').unwrap_or(body);
    if body.contains('*') {
        return Err(("`*` stands only in front and at the end", None));
    }
    if body.is_empty() {
        return Err((
            "that would be all of them",
            Some(
                "name those that are meant; all of them bypass the cache with cache.mode = \"off\""
                    .to_owned(),
            ),
        ));
    }
    if body.contains(['?', '#']) {
        return Err(("not a path alone", Some("name arguments in the list of arguments".to_owned())));
    }
    if body.contains('%') {
        return Err(("percent-encoded", Some("write the path as people read it, decoded".to_owned())));
    }
    if body.split('/').any(|part| matches!(part, "." | "..")) || body.contains("//") {
        return Err(("such a path never comes: it is normalised before", None));
    }
    if text.len() > 4 * MOST_BYTES || body.contains(char::is_control) {
        return Err(("not a path", None));
    }
    Ok(text.to_owned())
}

/// A method (RFC 9110 section 9.1). Case counts, and all that are in use are upper case.
fn method(text: &str) -> Result<String, Bad> {
    let legal = |byte: u8| byte.is_ascii_uppercase() || byte == b'-';
    if text.is_empty() || text.len() > 32 || !text.bytes().all(legal) {
        return Err(("not a method", Some("write methods in capitals: \"POST\"".to_owned())));
    }
    Ok(text.to_owned())
}

/// A PHP function's name in lower case, as PHP has it.
fn function(text: &str) -> Result<String, Bad> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_\\".contains(&byte);
    if text.is_empty() || text.len() > MOST_BYTES || !text.bytes().all(legal) {
        return Err(("not a function's name", None));
    }
    Ok(text.to_ascii_lowercase())
}

/// A request field's name in lower case (RFC 9110 section 5.1).
fn field(text: &str) -> Result<String, Bad> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'+-.^_`|~".contains(&byte);
    if text.is_empty() || text.len() > MOST_BYTES || !text.bytes().all(token) {
        return Err(("not a field's name", None));
    }
    if text.eq_ignore_ascii_case("cookie") {
        return Err((
            "would make a copy for every visitor",
            Some("name the cookies that matter in cache.key_cookies".to_owned()),
        ));
    }
    Ok(text.to_ascii_lowercase())
}

impl Word {
    /// What a list of these has to be.
    pub(super) fn bounds(self) -> &'static str {
        match self {
            Self::Argument => "names of arguments, `*` at either end for anything: \"ref\", \"utm_*\"",
            Self::Cookie => "names of cookies, `*` at either end for anything: \"member\", \"sess_*\"",
            Self::Path => {
                "paths: \"/api\" with all below it, \"/feed*\" whatever begins so, \"*/cart\" at any depth, \"*.pdf\" whatever ends so"
            }
            Self::Field => "names of request fields, like \"Accept-Language\"",
            Self::ArgumentValue => {
                "arguments, `*` at either end for anything: \"ref\", \"utm_*\", \"action=export\""
            }
            Self::Method => "methods: \"POST\"",
            Self::Function => "names of PHP functions: \"exec\", \"mail\"",
        }
    }

    /// The sort, for a table's column.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Argument => "arguments",
            Self::Cookie => "cookies",
            Self::Path => "paths",
            Self::Field => "fields",
            Self::ArgumentValue => "arguments",
            Self::Method => "methods",
            Self::Function => "functions",
        }
    }

    fn article(self) -> &'static str {
        match self {
            Self::Argument => "an argument's name",
            Self::Cookie => "a cookie's name",
            Self::Path => "a path",
            Self::Field => "a field's name",
            Self::ArgumentValue => "an argument",
            Self::Method => "a method",
            Self::Function => "a function's name",
        }
    }

    fn example(self) -> &'static str {
        match self {
            Self::Argument => "\"utm_*\"",
            Self::Cookie => "\"member_*\"",
            Self::Path => "\"/account\" or \"*/cart\"",
            Self::Field => "\"Accept-Language\"",
            Self::ArgumentValue => "\"action=export\"",
            Self::Method => "\"POST\"",
            Self::Function => "\"exec\"",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(word: Word, text: &str) -> Option<String> {
        let raw = Raw { form: super::super::Form::Text(text.to_owned()), span: 0..text.len() };
        list(&raw, word).ok().map(|mut list| list.remove(0).0)
    }

    #[test]
    fn names_and_patterns() {
        for (word, good) in [
            (Word::Argument, "utm_*"),
            (Word::Argument, "filter[colour]"),
            (Word::Cookie, "wordpress_logged_in_*"),
            (Word::Cookie, "SESS*"),
            (Word::Cookie, "*_session"),
            (Word::Path, "/api"),
            (Word::Path, "/feed*"),
            (Word::Path, "*/cart"),
            (Word::Path, "*.pdf"),
            (Word::Path, "*/caf\u{e9}*"),
            (Word::Path, "/"),
            (Word::ArgumentValue, "action=heartbeat"),
            (Word::ArgumentValue, "utm_*"),
            (Word::Method, "POST"),
            (Word::Function, "shell_exec"),
        ] {
            assert_eq!(read(word, good).as_deref(), Some(good), "{word:?}");
        }
        assert_eq!(read(Word::Field, "X-Country").as_deref(), Some("x-country"));
    }

    #[test]
    fn what_is_none() {
        for (word, bad) in [
            (Word::Argument, "*"),
            (Word::Argument, "**"),
            (Word::Argument, ""),
            (Word::Argument, "a=b"),
            (Word::Argument, "?a"),
            (Word::Argument, "a*b"),
            (Word::Argument, "a b"),
            (Word::Cookie, "*"),
            (Word::Cookie, "a;b"),
            (Word::Cookie, "a=1"),
            (Word::Path, "api"),
            (Word::Path, "*"),
            (Word::Path, "**"),
            (Word::Path, "/a*b"),
            (Word::Path, "/a?b=c"),
            (Word::Path, "/a%2fb"),
            (Word::Path, "/../b"),
            (Word::Path, "//b"),
            (Word::Field, "cookie"),
            (Word::Field, "X Country"),
            (Word::Field, "X-*"),
            (Word::ArgumentValue, "a&b"),
            (Word::Method, "post"),
            (Word::Method, "*"),
        ] {
            assert_eq!(read(word, bad), None, "{word:?} {bad:?}");
        }
        assert_eq!(read(Word::Argument, &"a".repeat(MOST_BYTES + 1)), None);
    }
}
