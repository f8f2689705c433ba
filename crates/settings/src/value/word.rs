//! Names of arguments, cookies, paths and fields, with `*` for a variable part.

use std::ops::Range;

use super::{Raw, Read, list};
use crate::plan::NOT;
use crate::problem::{What, shown};
use crate::table::Word;

/// Maximum length of a name, bytes: no cookie has a longer one.
const MOST_BYTES: usize = 256;

/// A list of names of this type; it may be empty.
pub(super) fn list(raw: &Raw, word: Word) -> Read<Vec<(String, Range<usize>)>> {
    let example = format!("{} in quotes, like {}", word.article(), word.example());
    let list = list::elements(raw, &example, |raw, text| {
        let read = match word {
            Word::Path => path(text),
            Word::Field => field(text),
            Word::ReadField => read_field(text),
            Word::Argument => name(text, b"&=#?", "not an argument name"),
            Word::IgnoredArgument => {
                let name = name(text.strip_prefix(NOT).unwrap_or(text), b"&=#?!", "not an argument name");
                name.map(|_| text.to_owned())
            }
            Word::Cookie => name(text, b"=;,\"", "not a cookie name"),
            Word::ArgumentValue => name(text, b"&#?", "not an argument"),
            Word::Method => method(text),
            Word::Function => function(text),
            Word::Code => code(text),
            Word::Variable => variable(text),
        };
        read.map(|text| (text, raw.span.clone())).map_err(|(label, cure)| {
            let cure = cure.unwrap_or_else(|| format!("write it like {}", word.example()));
            wrong(raw, text, label, cure)
        })
    })?;
    list::not_too_long(raw, list)
}

fn wrong(raw: &Raw, text: &str, label: &str, cure: String) -> Vec<super::Wrong> {
    raw.wrong(What::Malformed, format!("cannot contain \"{}\"", shown(text)), label, cure)
}

/// What is wrong, and a fix, if there is a special one.
type Bad = (&'static str, Option<String>);

/// `utm_source`, `utm_*`.
fn name(text: &str, never: &[u8], else_it_is: &'static str) -> Result<String, Bad> {
    let body = text.strip_prefix('*').unwrap_or(text);
    let body = body.strip_suffix('*').unwrap_or(body);
    if body.contains('*') {
        return Err(("`*` is allowed only at the ends", None));
    }
    if body.is_empty() {
        return Err(("would match everything", None));
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
        return Err(("does not start with /", Some(format!("write \"/{}\"", shown(text)))));
    }
    let body = text.strip_prefix('*').unwrap_or(text);
    let body = body.strip_suffix('*').unwrap_or(body);
    if body.contains('*') {
        return Err(("`*` is allowed only at the start and the end", None));
    }
    if body.is_empty() {
        return Err((
            "would match everything",
            Some("list specific paths; cache.mode = \"off\" turns the cache off".to_owned()),
        ));
    }
    if body.contains(['?', '#']) {
        return Err(("more than a path", Some("list arguments in the setting for arguments".to_owned())));
    }
    if body.contains('%') {
        return Err(("percent-encoded", Some("write the path decoded, as users read it".to_owned())));
    }
    if body.split('/').any(|part| matches!(part, "." | "..")) || body.contains("//") {
        return Err(("never matches: paths are normalized before", None));
    }
    if text.len() > 4 * MOST_BYTES || body.contains(char::is_control) {
        return Err(("not a path", None));
    }
    Ok(text.to_owned())
}

/// A method (RFC 9110 section 9.1). Methods are case-sensitive, and all in use are upper case.
fn method(text: &str) -> Result<String, Bad> {
    let legal = |byte: u8| byte.is_ascii_uppercase() || byte == b'-';
    if text.is_empty() || text.len() > 32 || !text.bytes().all(legal) {
        return Err(("not a method", Some("write methods in upper case: \"POST\"".to_owned())));
    }
    Ok(text.to_owned())
}

/// The name of a PHP function, in lower case as PHP stores it.
fn function(text: &str) -> Result<String, Bad> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_\\".contains(&byte);
    if text.is_empty() || text.len() > MOST_BYTES || !text.bytes().all(legal) {
        return Err(("not a function name", None));
    }
    Ok(text.to_ascii_lowercase())
}

/// `wp_cron`, `Class::method`, `folder/file.php`; each may have `@` and the beginning of the SHA-256 of its text behind it.
fn code(text: &str) -> Result<String, Bad> {
    let legal = |byte: u8| !byte.is_ascii_control() && !b",\"' ".contains(&byte);
    if text.is_empty() || text.len() > MOST_BYTES || !text.bytes().all(legal) {
        return Err(("not a function, method or file", None));
    }
    let digits = text.rsplit_once('@').map(|(_, tail)| tail).filter(|tail| !tail.contains(['/', '.']));
    let is_digest =
        |tail: &str| (16..=64).contains(&tail.len()) && tail.bytes().all(|digit| digit.is_ascii_hexdigit());
    if digits.is_some_and(|tail| !is_digest(tail)) {
        return Err(("16 to 64 hexadecimal digits come after the @", None));
    }
    Ok(text.to_owned())
}

/// `WORDPRESS_*`: an environment variable of the server.
fn variable(text: &str) -> Result<String, Bad> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'*';
    if !text.bytes().all(legal) {
        return Err(("not a variable name", None));
    }
    match reserved_variable(text).filter(|_| !text.contains('*')) {
        Some((label, cure)) => Err((label, Some(cure.to_owned()))),
        None => name(text, b"=", "not a variable name"),
    }
}

/// Why scripts can't have an environment variable with this name, and what to do instead.
pub(crate) fn reserved_variable(name: &str) -> Option<(&'static str, &'static str)> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins = |start: &str| name.len() >= start.len() && name[..start.len()].eq_ignore_ascii_case(start);
    if name.is_empty()
        || name.len() > MOST_BYTES
        || !name.bytes().all(legal)
        || name.as_bytes()[0].is_ascii_digit()
    {
        return Some(("not a variable name", "write letters, digits and _, like WORDPRESS_DB_HOST"));
    }
    if begins("HTTP_") {
        return Some((
            "reserved for request header fields",
            "choose another name: a client could send a field with this name, and scripts could not tell them apart",
        ));
    }
    if matches!(name, "PHP_VALUE" | "PHP_ADMIN_VALUE" | "PHP_FLAG" | "PHP_ADMIN_FLAG") {
        return Some(("php-fpm reads ini values from it", "set ini values with php.ini"));
    }
    if REQUESTS.contains(&name) || begins("SSL_") || begins("MILLRACE_") || begins("ORIG_") {
        return Some(("every request sets it", "choose another name"));
    }
    None
}

/// Variables that every request sets (RFC 3875 section 4.1, and those that nginx and PHP add).
const REQUESTS: &[&str] = &[
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "FCGI_ROLE",
    "GATEWAY_INTERFACE",
    "HTTP2",
    "HTTPS",
    "LSWS_EDITION",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "PHP_AUTH_DIGEST",
    "PHP_AUTH_PW",
    "PHP_AUTH_USER",
    "PHP_SELF",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REMOTE_HOST",
    "REMOTE_IDENT",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_TIME",
    "REQUEST_TIME_FLOAT",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SCRIPT_URI",
    "SCRIPT_URL",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
    "argc",
    "argv",
];

/// The name of a request header field, in lower case (RFC 9110 section 5.1).
fn field(text: &str) -> Result<String, Bad> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'+-.^_`|~".contains(&byte);
    if text.is_empty() || text.len() > MOST_BYTES || !text.bytes().all(token) {
        return Err(("not a field name", None));
    }
    if text.eq_ignore_ascii_case("cookie") {
        return Err((
            "would store a copy for every visitor",
            Some("list the cookies that matter in cache.key_cookies".to_owned()),
        ));
    }
    Ok(text.to_ascii_lowercase())
}

/// The same, or PHP's variable for it, or about the client; with `*` for anything: in lower case, with hyphens.
fn read_field(text: &str) -> Result<String, Bad> {
    let name = text.strip_prefix("HTTP_").unwrap_or(text).replace('_', "-");
    let core = name.strip_prefix('*').unwrap_or(&name);
    match field(core.strip_suffix('*').unwrap_or(core)) {
        _ if name == "*" => Ok(name),
        Ok(_) => Ok(name.to_ascii_lowercase()),
        Err(("would store a copy for every visitor", _)) => Err((
            "is no field of this kind",
            Some("list cookies in cache.key_cookies or cache.bypass_cookies".to_owned()),
        )),
        Err(bad) => Err(bad),
    }
}

impl Word {
    /// The value of a list of these names.
    pub(super) fn bounds(self) -> &'static str {
        match self {
            Self::Argument => "names of arguments, `*` at either end for anything: \"ref\", \"utm_*\"",
            Self::IgnoredArgument => {
                "names of arguments, `*` at either end for anything, `!` in front for all but these: \"ref\", \"mc_*\", \"!gclid\""
            }
            Self::Cookie => "names of cookies, `*` at either end for anything: \"member\", \"sess_*\"",
            Self::Path => {
                "paths: \"/api\" and everything below it, \"/feed*\" as a prefix, \"*/cart\" at any depth, \"*.pdf\" as a suffix"
            }
            Self::Field => "names of request header fields, like \"Accept-Language\"",
            Self::ReadField => {
                "names of request header fields or variables, `*` at either end for anything: \"User-Agent\", \"REMOTE_ADDR\""
            }
            Self::ArgumentValue => {
                "arguments, `*` at either end for anything: \"ref\", \"utm_*\", \"action=export\""
            }
            Self::Method => "methods: \"POST\"",
            Self::Function => "names of PHP functions: \"exec\", \"mail\"",
            Self::Code => {
                "functions of scripts: \"function\", \"Class::method\", or \"folder/file.php\" for code outside of functions; with \"@digits\" only one text of it"
            }
            Self::Variable => {
                "names of environment variables, `*` at either end for anything: \"APP_KEY\", \"WORDPRESS_*\""
            }
        }
    }

    /// The type in one word.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Argument | Self::IgnoredArgument => "arguments",
            Self::Cookie => "cookies",
            Self::Path => "paths",
            Self::Field | Self::ReadField => "fields",
            Self::ArgumentValue => "arguments",
            Self::Method => "methods",
            Self::Function | Self::Code => "functions",
            Self::Variable => "variables",
        }
    }

    fn article(self) -> &'static str {
        match self {
            Self::Argument | Self::IgnoredArgument => "an argument name",
            Self::Cookie => "a cookie name",
            Self::Path => "a path",
            Self::Field | Self::ReadField => "a field name",
            Self::ArgumentValue => "an argument",
            Self::Method => "a method",
            Self::Function => "a function name",
            Self::Code => "a function",
            Self::Variable => "a variable name",
        }
    }

    fn example(self) -> &'static str {
        match self {
            Self::Argument | Self::IgnoredArgument => "\"utm_*\"",
            Self::Cookie => "\"member_*\"",
            Self::Path => "\"/account\" or \"*/cart\"",
            Self::Field => "\"Accept-Language\"",
            Self::ReadField => "\"User-Agent\"",
            Self::ArgumentValue => "\"action=export\"",
            Self::Method => "\"POST\"",
            Self::Function => "\"exec\"",
            Self::Code => "\"Logger::__construct\"",
            Self::Variable => "\"WORDPRESS_*\"",
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
            (Word::IgnoredArgument, "ref"),
            (Word::IgnoredArgument, "!utm_*"),
            (Word::IgnoredArgument, "!*_id"),
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
            (Word::Code, "App\\Log::__construct"),
            (Word::Code, "plugins/log.php"),
            (Word::Code, "plugin@2/log.php"),
            (Word::Code, "Log::__construct@0f5d3c2b19a84e76"),
        ] {
            assert_eq!(read(word, good).as_deref(), Some(good), "{word:?}");
        }
        assert_eq!(read(Word::Field, "X-Country").as_deref(), Some("x-country"));
        for (written, name) in [
            ("User-Agent", "user-agent"),
            ("HTTP_USER_AGENT", "user-agent"),
            ("REMOTE_ADDR", "remote-addr"),
            ("X-*", "x-*"),
            ("*", "*"),
        ] {
            assert_eq!(read(Word::ReadField, written).as_deref(), Some(name));
        }
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
            (Word::Code, "Log::__construct@"),
            (Word::Code, "Log::__construct@0f5d"),
            (Word::Code, "Log::__construct@0f5d3c2b19a84e7x"),
            (Word::IgnoredArgument, "!"),
            (Word::IgnoredArgument, "!!a"),
            (Word::IgnoredArgument, "!*"),
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
            (Word::ReadField, "Cookie"),
            (Word::ReadField, "User Agent"),
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
