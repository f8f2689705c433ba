//! The keys of `[[site.rule]]`, one row each: the parser, its messages and the table in `docs/rules.md` come from them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::WrittenRule;
use crate::plan::{FieldChange, RequestLimit, RuleTarget};
use crate::problem::{What, shown};
use crate::table::{Kind, Word};
use crate::value::{Raw, Read, Value, elements, is_ours};

/// A key of a rule.
pub(crate) struct RuleKey {
    /// Its name; keys of a table in the rule have a dot: `cache.ttl`.
    pub name: &'static str,
    /// What it is for.
    pub part: RulePart,
    /// What it means, one line.
    pub line: &'static str,
    /// A value, as written after `=`.
    pub example: &'static str,
    /// Names of other servers for it.
    pub elsewhere: &'static [&'static str],
    /// Reads its value; relative paths start at the directory.
    pub read: fn(&mut WrittenRule, &Raw, &Path) -> Read<()>,
}

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RulePart {
    /// It says which requests the rule matches.
    Match,
    /// It says what becomes of the request.
    Action,
    /// It belongs to an action of this name.
    Of(&'static [&'static str]),
    /// It changes responses, or how the page cache treats the request.
    Effect,
}

impl RulePart {
    /// In the table.
    pub fn text(self) -> String {
        match self {
            Match => "matching".to_owned(),
            Action => "action".to_owned(),
            Of(actions) => format!("`{}`", actions.join("`, `")),
            Effect => "effect".to_owned(),
        }
    }
}

use RulePart::{Action, Effect, Match, Of};

const fn key(
    name: &'static str,
    part: RulePart,
    example: &'static str,
    line: &'static str,
    read: fn(&mut WrittenRule, &Raw, &Path) -> Read<()>,
) -> RuleKey {
    RuleKey { name, part, line, example, elsewhere: &[], read }
}

impl RuleKey {
    const fn or(self, elsewhere: &'static [&'static str]) -> RuleKey {
        RuleKey { elsewhere, ..self }
    }
}

/// Maximum number of requests of a limit.
const MOST_REQUESTS: u64 = 1_000_000;

/// Longest lifetime: ten years.
const LONGEST: u64 = 3650 * 24 * 60 * 60 * 1000;

/// The keys, in the order of the documentation.
pub(crate) static KEYS: &[RuleKey] = &[
    key("path", Match, "[\"/old\", \"/docs/*.pdf\"]", "The path, decoded: exact, or with `*` for any text, slashes too. `/a/*` is everything below `/a/`.", |rule, raw, _| {
        rule.condition().paths = patterns(raw)?;
        Ok(())
    })
    .or(&["location", "uri", "match", "paths", "prefix"]),
    key("unless_path", Match, "\"/docs/public/*\"", "Paths that the rule does not match, written like `path`.", |rule, raw, _| {
        rule.condition().unless_paths = patterns(raw)?;
        Ok(())
    })
    .or(&["not_path", "except"]),
    key("regex", Match, "'^/tag/([a-z]+)$'", "A regular expression that the path matches; no look-around, so it takes linear time.", |rule, raw, _| {
        rule.regex(raw)
    })
    .or(&["regexp", "pattern", "path_regexp"]),
    key("host", Match, "[\"example.com\", \"*.example.com\"]", "Names of hosts, `*.` in front allowed.", |rule, raw, _| {
        rule.condition().hosts = names(&Kind::HostNames, raw)?;
        Ok(())
    })
    .or(&["hosts", "server_name"]),
    key("method", Match, "[\"POST\", \"PUT\"]", "Request methods; `GET` also stands for `HEAD`.", |rule, raw, _| {
        rule.condition().methods = names(&Kind::Words(Word::Method), raw)?;
        Ok(())
    })
    .or(&["methods", "limit_except"]),
    key("query", Match, "[\"preview\", \"lang=fr\"]", "Query arguments: one of them is there, with this value if one is given; `*` at either end for anything.", |rule, raw, _| {
        rule.condition().queries = names(&Kind::Words(Word::ArgumentValue), raw)?;
        Ok(())
    })
    .or(&["args", "argument", "querystring"]),
    key("header", Match, "\"User-Agent: *crawler*\"", "Header fields of the request: `Name`, or `Name: value` with `*` for any text; case does not matter.", |rule, raw, _| {
        rule.condition().headers = elements(raw, "\"User-Agent: *crawler*\"", header)?;
        Ok(())
    })
    .or(&["request_header", "fields"]),
    key("from", Match, "[\"10.0.0.0/8\", \"/etc/millrace/office.txt\"]", "Addresses and networks of clients, or files with one network a line (the form of country files).", |rule, raw, base| {
        let (networks, files) = networks(raw, base)?;
        rule.condition().from = Some(networks);
        rule.from_files = files;
        Ok(())
    })
    .or(&["remote_addr", "remote_ip", "ip", "address", "client"]),
    key("unless_from", Match, "\"192.0.2.7\"", "Clients that the rule does not match, written like `from`.", |rule, raw, base| {
        let (networks, files) = networks(raw, base)?;
        rule.condition().unless_from = networks;
        rule.unless_from_files = files;
        Ok(())
    })
    .or(&["not_from"]),
    key("redirect", Action, "\"/new/$1\"", "Redirects to a path or URL; `$1` is what the first `*` or group stands for, `$0` the path, `$host` the host.", |rule, raw, _| {
        rule.redirect = Some(target(raw, true)?);
        Ok(())
    })
    .or(&["redir", "redirectmatch", "to"]),
    key("redirects", Action, "\"redirects.csv\"", "Redirects of a file: `from,to` or `from,to,status` in each line. Thousands cost as much as one.", |rule, raw, base| {
        rule.redirects = Some(path(raw, base)?);
        Ok(())
    })
    .or(&["redirect_file", "map", "rewritemap"]),
    key("status", Of(&["redirect", "redirects"]), "302", "Status of the redirect: 301 (default), 302, 303, 307 or 308.", |rule, raw, _| {
        rule.status = Some(status(raw, &[301, 302, 303, 307, 308])?);
        Ok(())
    })
    .or(&["code"]),
    key("rewrite", Action, "\"/index.php?page=$1\"", "Serves another path of the site; the URL in the browser stays. A `?` replaces the query.", |rule, raw, _| {
        rule.rewrite = Some(target(raw, false)?);
        Ok(())
    })
    .or(&["try_files", "rewriterule"]),
    key("alias", Action, "\"/srv/docs\"", "Serves the files of another directory: what `*` stands for is their path there. `path` ends with `/*`; no PHP runs.", |rule, raw, base| {
        rule.alias = Some(path(raw, base)?);
        Ok(())
    })
    .or(&["aliasmatch", "handle_path"]),
    key("root", Action, "\"/srv/other\"", "Serves the files of another directory with the whole path: `/docs/a.pdf` is `/srv/other/docs/a.pdf`. No PHP runs.", |rule, raw, base| {
        rule.root = Some(path(raw, base)?);
        Ok(())
    })
    .or(&["documentroot", "file_server", "share"]),
    key("return", Action, "410", "Responds with this status, 200 or 400 to 599.", |rule, raw, _| {
        rule.returns = Some(returned(raw)?);
        Ok(())
    })
    .or(&["respond"]),
    key("text", Of(&["return"]), "\"Moved out.\"", "The text of the response, as `text/plain`.", |rule, raw, _| {
        rule.text = Some(text(raw)?);
        Ok(())
    })
    .or(&["body"]),
    key("allow", Action, "true", "Lets the request pass: later `deny`, `limit` and `auth` rules do not apply to it.", |rule, raw, _| {
        rule.allow = switch(raw, "allow")?;
        Ok(())
    }),
    key("deny", Action, "true", "Refuses the request with 403.", |rule, raw, _| {
        rule.deny = switch(raw, "deny")?;
        Ok(())
    })
    .or(&["block", "forbid", "abort"]),
    key("limit", Action, "\"60/m\"", "Refuses what a client sends beyond this number of requests per second (`/s`), minute (`/m`) or hour (`/h`), with 429 and `Retry-After`.", |rule, raw, _| {
        rule.limit = Some(limit(raw)?);
        Ok(())
    })
    .or(&["limit_req", "rate_limit", "ratelimit", "rate"]),
    key("burst", Of(&["limit"]), "20", "How many requests a client may send at once, if it has sent none for a while; default: the number of the limit.", |rule, raw, _| {
        rule.burst = Some(burst(raw)?);
        Ok(())
    })
    .or(&["limit_burst"]),
    key("auth.users", Action, "\"/etc/millrace/htpasswd\"", "Asks for a user and password of this file, as `htpasswd` writes it: bcrypt, apr1 or SHA-1; or argon2id, as PHP's `password_hash` writes it.", |rule, raw, base| {
        rule.users = Some(path(raw, base)?);
        Ok(())
    })
    .or(&["auth_basic_user_file", "authuserfile", "basic_auth", "basicauth", "auth.file"]),
    key("auth.realm", Of(&["auth.users"]), "\"Staff\"", "What browsers show when they ask for the password.", |rule, raw, _| {
        rule.realm = Some(text(raw)?);
        Ok(())
    })
    .or(&["auth_basic", "authname"]),
    key("auth.script", Action, "\"/auth.php\"", "Runs this script of the site first: 2xx lets the request pass; 401, 403 and redirects go to the client; all else is an error.", |rule, raw, _| {
        rule.script = Some(script(raw)?);
        Ok(())
    })
    .or(&["auth_request", "forward_auth", "forwardauth", "auth.uri", "auth.request"]),
    key("auth.copy", Of(&["auth.script"]), "[\"X-User\"]", "Header fields of the script's 2xx response that PHP and applications get with the request. Clients cannot send them.", |rule, raw, _| {
        rule.copy = elements(raw, "\"X-User\"", copied_field_name)?;
        Ok(())
    })
    .or(&["auth_request_set", "copy_headers", "authresponseheaders", "auth.copy_headers", "auth.headers"]),
    key("set_header", Effect, "{ X-Frame-Options = \"DENY\" }", "Sets header fields of the response; replaces fields of these names.", |rule, raw, _| {
        fields(rule, raw, FieldChange::Set)
    })
    .or(&["header_set", "more_set_headers", "headers"]),
    key("add_header", Effect, "{ Link = \"</a.css>; rel=preload\" }", "Adds header fields to the response.", |rule, raw, _| {
        fields(rule, raw, FieldChange::Add)
    })
    .or(&["header_add"]),
    key("unset_header", Effect, "[\"X-Powered-By\"]", "Removes header fields from the response.", |rule, raw, _| {
        let names = elements(raw, "\"X-Powered-By\"", own_field_name)?;
        rule.rule.effects.fields.extend(names.into_iter().map(FieldChange::Unset));
        Ok(())
    })
    .or(&["remove_header", "header_unset", "fastcgi_hide_header", "more_clear_headers"]),
    key("expires", Effect, "\"30d\"", "How long browsers keep the response: sets `Expires` and `Cache-Control: max-age`. 0: they ask each time. Of errors only those get it that `on_status` names.", |rule, raw, _| {
        rule.rule.effects.expires = Some(duration(raw, Some("no-cache"))?);
        Ok(())
    })
    .or(&["max_age", "expiresdefault"]),
    key("on_type", Of(&["set_header", "add_header", "unset_header", "expires"]), "[\"text/html\", \"image/*\"]", "Only responses of these media types get the header fields and the expiry.", |rule, raw, _| {
        rule.rule.effects.types = elements(raw, "\"text/html\"", media_type)?;
        Ok(())
    })
    .or(&["type", "content_type", "expiresbytype"]),
    key("on_status", Of(&["set_header", "add_header", "unset_header", "expires"]), "[404, 410]", "Only responses with these statuses get the header fields and the expiry.", |rule, raw, _| {
        rule.rule.effects.statuses = statuses(raw)?;
        Ok(())
    }),
    key("error_page", Effect, "{ 404 = \"/404.html\" }", "Pages of the site instead of the server's own for an error.", |rule, raw, _| {
        rule.rule.effects.error_pages = error_pages(raw)?;
        Ok(())
    })
    .or(&["errordocument", "handle_errors"]),
    key("cache.bypass", Effect, "true", "The request bypasses the page cache.", |rule, raw, _| {
        rule.rule.effects.cache.bypass = switch(raw, "cache.bypass")?;
        Ok(())
    })
    .or(&["fastcgi_cache_bypass", "no_cache"]),
    key("cache.ttl", Effect, "\"1h\"", "Lifetime of pages in the page cache whose response sets none.", |rule, raw, _| {
        rule.rule.effects.cache.ttl = Some(duration(raw, None)?);
        Ok(())
    })
    .or(&["fastcgi_cache_valid"]),
    key("cache.key_cookies", Effect, "[\"currency\"]", "Cookies for whose values the page cache stores pages of their own.", |rule, raw, _| {
        rule.rule.effects.cache.key_cookies = elements(raw, "\"currency\"", cookie)?;
        Ok(())
    })
    .or(&["fastcgi_cache_key"]),
    key("cache.key_device", Effect, "true", "The page cache stores pages of their own for phones and tablets.", |rule, raw, _| {
        rule.rule.effects.cache.key_device = switch(raw, "cache.key_device")?;
        Ok(())
    }),
];

/// Paths, exact or with `*`.
fn patterns(raw: &Raw) -> Read<Vec<String>> {
    elements(raw, "a path in quotes, like \"/docs/*\"", |raw, text| {
        let wrong = |label: &str, cure: String| {
            let title = format!("cannot be \"{}\"", shown(text));
            Err(raw.wrong(What::Malformed, title, label, cure))
        };
        if !text.starts_with(['/', '*']) {
            return wrong("does not start with /", format!("write \"/{}\"", shown(text)));
        }
        if text.contains(['?', '#']) {
            return wrong("more than a path", "match the query with the key `query`".to_owned());
        }
        if text.contains('%') {
            let cure = "write the path decoded, as users read it";
            return wrong("percent-encoded", cure.to_owned());
        }
        let segments = || text.split('/').filter(|part| *part == "." || *part == "..");
        if segments().count() > 0 || text.contains("//") {
            return wrong(
                "never matches",
                "paths are normalised before: write the path that remains".to_owned(),
            );
        }
        if text.len() > 1024 || text.contains(char::is_control) {
            return wrong("not a path", "write at most 1024 characters".to_owned());
        }
        Ok(text.to_owned())
    })
}

/// A target with `$1`. A URL only if `url`.
fn target(raw: &Raw, url: bool) -> Read<RuleTarget> {
    let text = text(raw)?;
    let wrong = |label: &str, cure: &str| {
        Err(raw.wrong(What::Malformed, format!("cannot be \"{}\"", shown(&text)), label, cure))
    };
    let begins = |scheme: &str| text.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme));
    let is_url = begins("https://") || begins("http://");
    if is_url && !url {
        return wrong("another site", "write a path of this site; `redirect` leads to other sites");
    }
    if !is_url && (!text.starts_with('/') || text.starts_with("//")) {
        let cure = if url {
            "write a path like \"/new\", or a URL like \"https://example.com/\""
        } else {
            "write a path of this site, like \"/index.php\""
        };
        return wrong("neither a path nor a URL", cure);
    }
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return wrong("a space or control character", "write %20 for a space");
    }
    super::target::parse(&text).or_else(|bad| wrong(&bad, "write $0 to $9 or $host, and $$ for a dollar"))
}

/// `Name`, or `Name: value`.
fn header(raw: &Raw, text: &str) -> Read<(String, Option<String>)> {
    let (name, value) = text.split_once(':').map_or((text, None), |(name, value)| (name, Some(value)));
    let name = field_name(raw, name.trim())?;
    Ok((name, value.map(|value| value.trim().to_owned())))
}

/// The name of a header field.
fn field_name(raw: &Raw, text: &str) -> Read<String> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(token) {
        let title = format!("has an invalid field name \"{}\"", shown(text));
        let cure = "a field name has letters, digits and hyphens, like X-Frame-Options";
        return Err(raw.wrong(What::Malformed, title, "invalid", cure));
    }
    Ok(text.to_owned())
}

/// The name of a header field of a response that the server does not write itself.
fn own_field_name(raw: &Raw, text: &str) -> Read<String> {
    let name = field_name(raw, text)?;
    if is_ours(&name) {
        let cure = "remove it: the server writes this field itself, and responses need it";
        return Err(raw.wrong(
            What::Conflict,
            format!("cannot remove {name}"),
            "written by the server",
            cure,
        ));
    }
    Ok(name)
}

/// The name of a header field that a script gives a request: not one by which the server knows the client, its
/// credentials or the content, and none that PHP would not get.
fn copied_field_name(raw: &Raw, text: &str) -> Read<String> {
    const NOT: [&str; 25] = [
        "accept-encoding",
        "authorization",
        "connection",
        "cookie",
        "early-data",
        "expect",
        "forwarded",
        "host",
        "http2-settings",
        "keep-alive",
        "origin",
        "proxy",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "range",
        "referer",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "via",
        "x-client-ip",
        "x-real-ip",
    ];
    const BEGINS: [&str; 7] =
        ["content-", "if-", "millrace-", "x-forwarded-", "x-litespeed-", "x-lscache", "x-original-"];
    let name = field_name(raw, text)?;
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        let title = format!("cannot copy \"{}\"", shown(text));
        let cure = "PHP gets only names of letters, digits and hyphens: write X-User";
        return Err(raw.wrong(What::Malformed, title, "PHP would not get it", cure));
    }
    let lower = name.to_ascii_lowercase();
    if NOT.contains(&&*lower) || BEGINS.iter().any(|start| lower.starts_with(start)) {
        let title = format!("cannot copy {name}");
        let cure = "let the script send a name of its own, like X-User";
        return Err(raw.wrong(What::Conflict, title, "the client's or the server's", cure));
    }
    Ok(name)
}

/// `60/m`: the number of requests, and the minutes in which they may come.
fn limit(raw: &Raw) -> Read<RequestLimit> {
    let text = text(raw)?;
    let wrong = |label: &str, cure: &str| {
        Err(raw.wrong(What::Malformed, format!("cannot be \"{}\"", shown(&text)), label, cure))
    };
    let unit = text.split_once('/').and_then(|(number, unit)| {
        let digits = number.trim();
        let number = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        Some((number.parse::<u64>().ok()?, unit.trim()))
    });
    let (number, per_minute, minutes) = match unit {
        Some((number, "s")) => (number, 60, 1),
        Some((number, "m")) => (number, 1, 1),
        Some((number, "h")) => (number, 1, 60),
        _ => return wrong("not a limit", "write a number and s, m or h, like \"60/m\""),
    };
    if !(1..=MOST_REQUESTS).contains(&number) {
        return wrong("out of bounds", "write a number from 1 to 1000000; `deny = true` refuses all");
    }
    Ok(RequestLimit { number: number * per_minute, minutes, burst: number })
}

fn burst(raw: &Raw) -> Read<u64> {
    let kind = Kind::Count { min: 1, max: MOST_REQUESTS, zero: None };
    match kind.read(raw, Path::new("/"))? {
        Value::Number(number) => Ok(number),
        other => unreachable!("{other:?}"),
    }
}

/// The path of a script below the root.
fn script(raw: &Raw) -> Read<String> {
    let text = text(raw)?;
    let wrong = |label: &str, cure: String| {
        Err(raw.wrong(What::Malformed, format!("cannot be \"{}\"", shown(&text)), label, cure))
    };
    if !text.starts_with('/') {
        return wrong("does not start with /", format!("write \"/{}\"", shown(&text)));
    }
    if text.contains(['?', '#', '%', '*', '$', '\\']) || text.contains(|c: char| c.is_control()) {
        return wrong("more than a path", "write the path of a script, like \"/auth.php\"".to_owned());
    }
    if text.split('/').any(|part| part == "..") {
        let cure = "write the path of a script of the site below its root, like \"/auth.php\"";
        return wrong("outside the root", cure.to_owned());
    }
    if text.contains("//") || text.split('/').any(|part| part == ".") {
        return wrong("not normalised", "write the path without `//` and `/./`".to_owned());
    }
    if !text.ends_with(".php") {
        let cure = "write the path of a script whose name ends with .php, like \"/auth.php\"";
        return wrong("not a script", cure.to_owned());
    }
    Ok(text)
}

/// The whole name of a cookie: the value of one is part of a key.
fn cookie(raw: &Raw, text: &str) -> Read<String> {
    let token = |byte: u8| byte.is_ascii_graphic() && !b"=;,\"*".contains(&byte);
    if text.is_empty() || !text.bytes().all(token) {
        let title = format!("has an invalid cookie name \"{}\"", shown(text));
        return Err(raw.wrong(What::Malformed, title, "not a name", "write the whole name: \"currency\""));
    }
    Ok(text.to_owned())
}

/// `text/html`, `image/*`.
fn media_type(raw: &Raw, text: &str) -> Read<String> {
    let legal = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_graphic() && b != b';');
    match text.split_once('/') {
        Some((kind, of)) if legal(kind) && legal(of) && !of.contains('/') => Ok(text.to_ascii_lowercase()),
        _ => {
            let title = format!("cannot be \"{}\"", shown(text));
            let cure = "write a media type like \"text/html\" or \"image/*\", without parameters";
            Err(raw.wrong(What::Malformed, title, "not a media type", cure))
        }
    }
}

/// Networks, and files of networks.
type Networks = (Vec<crate::plan::Peers>, Vec<super::FileName>);

fn networks(raw: &Raw, base: &Path) -> Read<Networks> {
    let is_file = |text: &str| text.starts_with(['/', '.']);
    let (mut networks, mut files) = (Vec::new(), Vec::new());
    let found = elements(raw, "\"10.0.0.0/8\"", |raw, text| match is_file(text) {
        true => path(raw, base).map(|file| (None, Some(file))),
        false => match Kind::Networks.read(raw, base)? {
            Value::Networks(networks) => Ok((Some(networks), None)),
            other => unreachable!("{other:?}"),
        },
    })?;
    for (list, file) in found {
        networks.extend(list.into_iter().flatten());
        files.extend(file);
    }
    Ok((networks, files))
}

fn names(kind: &Kind, raw: &Raw) -> Read<Vec<String>> {
    match kind.read(raw, Path::new("/"))? {
        Value::Texts(texts) => Ok(texts.into_iter().map(|(text, _)| text).collect()),
        other => unreachable!("{other:?}"),
    }
}

fn path(raw: &Raw, base: &Path) -> Read<super::FileName> {
    match (Kind::Path { word: None }).read(raw, base)? {
        Value::Path(path) => Ok((path.unwrap_or_else(PathBuf::new), raw.span.clone())),
        other => unreachable!("{other:?}"),
    }
}

fn switch(raw: &Raw, name: &str) -> Read<bool> {
    match Kind::Switch.read(raw, Path::new("/"))? {
        Value::Switch(true) => Ok(true),
        Value::Switch(false) => {
            let cure = format!("write `{name} = true`, or remove the line");
            Err(raw.wrong(What::OutOfBounds, "does nothing if it is false", "false", cure))
        }
        other => unreachable!("{other:?}"),
    }
}

fn duration(raw: &Raw, zero: Option<&'static str>) -> Read<Duration> {
    match (Kind::Duration { min: 1000, max: LONGEST, zero }).read(raw, Path::new("/"))? {
        Value::Duration(duration) => Ok(duration),
        other => unreachable!("{other:?}"),
    }
}

fn text(raw: &Raw) -> Read<String> {
    raw.text().map(str::to_owned).ok_or_else(|| raw.wrong_type("must be a string", "write it in quotes"))
}

fn number(raw: &Raw) -> Read<u16> {
    match (Kind::Count { min: 100, max: 599, zero: None }).read(raw, Path::new("/"))? {
        Value::Number(number) => Ok(u16::try_from(number).unwrap_or(u16::MAX)),
        other => unreachable!("{other:?}"),
    }
}

fn status(raw: &Raw, known: &[u16]) -> Read<u16> {
    let status = number(raw)?;
    if !known.contains(&status) {
        let words: Vec<String> = known.iter().map(u16::to_string).collect();
        let cure = format!("write one of {}", words.join(", "));
        return Err(raw.wrong(What::OutOfBounds, format!("cannot be {status}"), "not a redirect", cure));
    }
    Ok(status)
}

fn returned(raw: &Raw) -> Read<u16> {
    let status = number(raw)?;
    let wrong = |label: &str, cure: &str| {
        Err(raw.wrong(What::OutOfBounds, format!("cannot be {status}"), label, cure))
    };
    match status {
        300..=399 => wrong("a redirect", "use `redirect = \"...\"` with `status`"),
        401 => wrong("needs a challenge", "use `auth`, which asks for a password"),
        200 | 400..=599 => Ok(status),
        _ => wrong("not a response of its own", "write 200, or a status from 400 to 599"),
    }
}

/// Numbers in a list.
fn statuses(raw: &Raw) -> Read<Vec<u16>> {
    let one = std::slice::from_ref(raw);
    raw.list().unwrap_or(one).iter().map(number).collect()
}

fn fields(rule: &mut WrittenRule, raw: &Raw, change: fn(String, String) -> FieldChange) -> Read<()> {
    match Kind::Fields.read(raw, Path::new("/"))? {
        Value::Pairs(pairs) => {
            rule.rule.effects.fields.extend(pairs.into_iter().map(|(name, value)| change(name, value)));
            Ok(())
        }
        other => unreachable!("{other:?}"),
    }
}

fn error_pages(raw: &Raw) -> Read<Vec<(u16, String)>> {
    let Some(entries) = raw.table() else {
        return Err(raw.wrong_type("must be a table", "write it like { 404 = \"/404.html\" }"));
    };
    let mut pages = Vec::new();
    for entry in entries {
        let status = entry.name.parse().ok().filter(|status| (400..=599).contains(status));
        let Some(status) = status else {
            let title = format!("has a page for \"{}\"", shown(&entry.name));
            let cure = "write a status from 400 to 599";
            return Err(entry.value.wrong(What::OutOfBounds, title, "not an error", cure));
        };
        let page = text(&entry.value)?;
        if !page.starts_with('/') || page.starts_with("//") || page.contains(|c: char| c.is_control()) {
            let title = format!("cannot be \"{}\"", shown(&page));
            let cure = "write a path of the site, like \"/404.html\"";
            return Err(entry.value.wrong(What::Malformed, title, "not a path", cure));
        }
        pages.push((status, page));
    }
    Ok(pages)
}
