//! What a request asks of the cache: the key of its page, or the reason why it bypasses the cache.
//!
//! # Fields that are not in the key
//!
//! PHP sees every field of a request, but the key contains only the fields that the rules name. These rules prevent
//! that a client makes the cache serve others a page made for a field of its own:
//!
//! - fields by which applications and frameworks let a proxy change the URL, method, host or scheme
//!   (`X-Original-URL`, `X-HTTP-Method-Override`, `X-Forwarded-Host` ...), and fields that identify a client
//!   (`X-API-Key`, `X-WP-Nonce`, `Cart-Token`), make the request bypass the cache, unless they say what the server
//!   knows anyway: [`CONCERNS`];
//! - fields that the server handles itself from the whole page, and that would make PHP send less (`Range`, `If-*`,
//!   `Accept-Encoding`), are withheld when PHP runs for a fill: [`withheld_from_fill`];
//! - in profile mode the clients' cache directives are withheld, too, and the cookies that are known to have no
//!   effect: [`write_fill_cookies`];
//! - in profile mode an `Accept` that is no browser's for a page is part of the key as it is, and so is the `Content-Type` of a request
//!   without content: frameworks choose JSON, XML or Markdown by them, error pages too, and few say so: [`is_browsers_accept`];
//! - unknown cookies are withheld as well, until a script looks for one: [`crate::looked`];
//! - by the rest (`User-Agent`, `Accept-Language`, `Referer` and `X-*`) a page varies if the application says so in `Vary`, or if its script
//!   has read them: [`crate::read_fields`];
//! - fields for LiteSpeed's cache and for ours are never passed to PHP: [`is_ours_in_request`].

use millrace_wire::percent;

use crate::control::Control;
use crate::key::LONGEST_KEY;
use crate::looked::is_unknown;
use crate::own_script;
use crate::place::Place;
use crate::rules::{Mode, Patterns, Rules, UnknownCookies, VaryCookies};
use crate::visitors::{CartHold, MemberHold};

/// The parts of a request that concern the cache.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a, I> {
    /// As sent; case matters.
    pub method: &'a str,
    /// `http` or `https`, as PHP sees it.
    pub scheme: &'a str,
    /// The requested page.
    pub place: Place<'a>,
    /// The path as PHP sees it in `REQUEST_URI`, without the query.
    pub raw_path: &'a [u8],
    /// What the site's rules do to the page, beyond what its URL determines; empty: nothing.
    pub rules: &'a [u8],
    /// Whether the host is one of the site's names, or the site has none and accepts any.
    pub host_is_known: bool,
    /// Whether it has content.
    pub has_content: bool,
    /// Its fields.
    pub fields: I,
}

/// Properties of a request that may use the cache. They are needed again when the response has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asking {
    /// The method is HEAD. A stored page serves it. If there is none, PHP gets a GET: the key is the same, and PHP's
    /// response to HEAD is not a page.
    pub head: bool,
    /// It asks for a part, which is cut from the stored page.
    pub range: bool,
    /// It has `Authorization`: standard mode only, and the response must allow storing (RFC 9111 section 3.5).
    pub authorization: bool,
    /// Its query differs from the key's: arguments were dropped or sorted. Only a 200 is stored, because a redirect
    /// could lead back to the key under which it is stored.
    pub reduced: bool,
    /// The client's cache directives; standard mode only.
    pub wants: Wants,
}

/// `Cache-Control` of a request (RFC 9111 section 5.2.1), in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Nothing stored may be used without validating.
    pub no_cache: bool,
    /// The response must not be stored.
    pub no_store: bool,
    /// 504 rather than asking the application.
    pub only_if_cached: bool,
    /// Maximum age of a page.
    pub max_age: Option<u64>,
    /// Maximum time for which the page may have been stale.
    pub max_stale: Option<u64>,
    /// Minimum time for which the page must stay fresh.
    pub min_fresh: Option<u64>,
}

/// Why a request bypasses the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass<'a> {
    /// The cache is off for this site.
    Off,
    /// Neither GET nor HEAD.
    Method,
    /// A GET with content.
    Content,
    /// The host is not one of the site's, or not in the form that browsers send: lower case, without the scheme's
    /// default port.
    Host,
    /// The path matches a rule.
    Path(&'a str),
    /// An argument matches a rule.
    Argument(&'a str),
    /// A cookie matches a rule.
    Cookie {
        /// The pattern that it matches.
        pattern: &'a str,
        /// Its name.
        name: &'a [u8],
    },
    /// The visitor has a proven cart, and must get this page from PHP.
    Cart(CartHold),
    /// The visitor is logged in, and must get this page from PHP.
    Member(MemberHold),
    /// The page differs by country, and that of the client is unknown.
    Country,
    /// It has a cookie that the cache doesn't know, and the page's script looks for it, or might; its name.
    UnknownCookie(&'a [u8]),
    /// A field outside of the key could change the page; its name in lower case.
    Field(&'static str),
    /// The client has authenticated itself.
    Authorization,
    /// The key would be too long.
    KeyTooLong,
}

impl Bypass<'_> {
    /// All words that [`Bypass::word`] returns.
    pub const WORDS: [&'static str; 14] = [
        "off",
        "method",
        "content",
        "host",
        "path",
        "argument",
        "cookie",
        "field",
        "authorization",
        "key-too-long",
        "cart",
        "country",
        "member",
        "unknown-cookie",
    ];

    /// A word for `Cache-Status` and counters. Stable.
    pub fn word(&self) -> &'static str {
        let at = match self {
            Bypass::Off => 0,
            Bypass::Method => 1,
            Bypass::Content => 2,
            Bypass::Host => 3,
            Bypass::Path(_) => 4,
            Bypass::Argument(_) => 5,
            Bypass::Cookie { .. } => 6,
            Bypass::Field(_) => 7,
            Bypass::Authorization => 8,
            Bypass::KeyTooLong => 9,
            Bypass::Cart(_) => 10,
            Bypass::Country => 11,
            Bypass::Member(_) => 12,
            Bypass::UnknownCookie(_) => 13,
        };
        Self::WORDS[at]
    }

    /// The exact cause: a path, argument, cookie or field, if it is text.
    pub fn what(&self) -> Option<&str> {
        match self {
            Bypass::Path(what) | Bypass::Argument(what) | Bypass::Field(what) => Some(what),
            Bypass::Cookie { name, .. } | Bypass::UnknownCookie(name) => std::str::from_utf8(name).ok(),
            Bypass::Cart(why) => Some(why.word()),
            Bypass::Member(why) => Some(why.word()),
            _ => None,
        }
    }

    /// A word for `Cache-Status`: as [`Bypass::word`], and for a cart or a member the exact reason. Stable.
    pub fn detail(&self) -> &'static str {
        match self {
            Bypass::Cart(why) => why.word(),
            Bypass::Member(why) => why.word(),
            other => other.word(),
        }
    }
}

/// Writes the key of the requested page into `key`, after clearing it, or returns why there is none. Does not
/// allocate if `key` has capacity.
///
/// # Errors
/// PHP must serve the request as if there was no cache.
pub fn ask<'a, I>(rules: &'a Rules, asked: &Asked<'a, I>, key: &mut Vec<u8>) -> Result<Asking, Bypass<'a>>
where
    I: Iterator<Item = (&'a str, &'a [u8])> + Clone,
{
    let mut asking = Asking { head: asked.method == "HEAD", ..Asking::default() };
    if rules.mode == Mode::Off {
        return Err(Bypass::Off);
    }
    if !asking.head && asked.method != "GET" {
        return Err(Bypass::Method);
    }
    if asked.has_content {
        return Err(Bypass::Content);
    }
    let place = &asked.place;
    if !asked.host_is_known || !is_plain_host(place.host, asked.scheme) {
        return Err(Bypass::Host);
    }
    let is_own_script = || own_script::sends(rules, asked.fields.clone());
    if let Some(path) = rules.bypass_path(place.path, is_own_script) {
        return Err(Bypass::Path(path));
    }
    if let Some(argument) = named_argument(&rules.bypass_arguments, place.query) {
        return Err(Bypass::Argument(argument));
    }
    asking.reduced = write_place(rules, asked, key);
    read_fields(rules, asked, &mut asking, key)?;
    if key.len() > LONGEST_KEY { Err(Bypass::KeyTooLong) } else { Ok(asking) }
}

/// Writes the part of a request's key that all variants of its page share into `key`, after clearing it, also for a
/// request that bypasses the cache. The query of a request without a page is written all the same.
pub fn write_page_key<I>(rules: &Rules, asked: &Asked<'_, I>, key: &mut Vec<u8>) {
    write_place(rules, asked, key);
    key.truncate(LONGEST_KEY);
}

/// The part of the key that does not depend on fields. Returns whether its query differs from the request's.
fn write_place<I>(rules: &Rules, asked: &Asked<'_, I>, key: &mut Vec<u8>) -> bool {
    let place = &asked.place;
    let scheme = if rules.schemes_share { "" } else { asked.scheme };
    key.clear();
    for part in [place.site.as_bytes(), scheme.as_bytes(), place.host.as_bytes(), place.path] {
        key.extend_from_slice(part);
        key.push(0);
    }
    let reduced = place.write_query(rules, key);
    key.push(0);
    if asked.raw_path != place.path {
        item(key, b'p', asked.raw_path);
    }
    if !asked.rules.is_empty() {
        item(key, b'r', asked.rules);
    }
    reduced
}

/// Appends to the key of a public page what makes it that of the page for members with these rights.
pub fn write_role(key: &mut Vec<u8>, role: &[u8]) {
    item(key, b'm', role);
}

/// Appends an item to the extra part of a key.
fn item(key: &mut Vec<u8>, kind: u8, value: &[u8]) {
    key.push(kind);
    key.extend_from_slice(value);
    key.push(0);
}

/// Whether a host has the form that browsers send. Without a branch per byte if it has no port, because every request
/// passes here.
fn is_plain_host(host: &str, scheme: &str) -> bool {
    let bytes = host.as_bytes();
    let (odd, colon) = bytes.iter().fold((false, false), |(odd, colon), byte| {
        (odd | byte.is_ascii_uppercase() | (*byte == 0), colon | (*byte == b':'))
    });
    if odd || matches!(bytes.last(), None | Some(b'.' | b':')) {
        return false;
    }
    let usual_port = if scheme == "https" { ":443" } else { ":80" };
    !colon || !(host.starts_with(':') || host.contains(".:") || host.ends_with(usual_port))
}

/// The first argument of a query that makes a request bypass the cache; most such arguments trigger an action.
pub fn bypass_argument<'a>(rules: &'a Rules, query: Option<&[u8]>) -> Option<&'a str> {
    named_argument(&rules.bypass_arguments, query)
}

/// The first argument that bypasses. Names are compared in their encoded form: another encoding has its own key
/// anyway.
fn named_argument<'a>(patterns: &'a Patterns, query: Option<&[u8]>) -> Option<&'a str> {
    let query = query.filter(|query| !query.is_empty() && !patterns.is_empty())?;
    query.split(|b| matches!(b, b'&' | b';')).find_map(|argument| {
        let end = argument.iter().position(|b| matches!(b, b'=' | b'[' | b'%'));
        patterns.find(&argument[..end.unwrap_or(argument.len())])
    })
}

fn read_fields<'a, I>(
    rules: &'a Rules,
    asked: &Asked<'a, I>,
    asking: &mut Asking,
    key: &mut Vec<u8>,
) -> Result<(), Bypass<'a>>
where
    I: Iterator<Item = (&'a str, &'a [u8])> + Clone,
{
    let profile = rules.mode == Mode::Profile;
    let mut accepts = Accepts::default();
    let mut device = Device::Desktop;
    for (name, value) in asked.fields.clone() {
        let Some((known, concern)) = concern_of(name) else { continue };
        match concern {
            FieldConcern::Cookie => cookies(rules, value, key)?,
            FieldConcern::Authorization if profile => return Err(Bypass::Authorization),
            FieldConcern::Authorization => asking.authorization = true,
            FieldConcern::Control if !profile => asking.wants.add(value),
            FieldConcern::Pragma if !profile => asking.wants.pragma(value),
            FieldConcern::Range => asking.range = true,
            FieldConcern::Accept if profile => accepts.add(value, key),
            FieldConcern::ContentType if profile => item(key, b't', value),
            FieldConcern::Agent if rules.key_device => device = Device::of(value),
            FieldConcern::Identity if !profile => {}
            FieldConcern::Override | FieldConcern::Identity => return Err(Bypass::Field(known)),
            FieldConcern::Scheme | FieldConcern::Host | FieldConcern::Port => {
                told(asked.scheme, asked.place.host, concern, value, key).ok_or(Bypass::Field(known))?;
            }
            FieldConcern::Control | FieldConcern::Pragma | FieldConcern::Agent => {}
            FieldConcern::Accept | FieldConcern::ContentType => {}
        }
    }
    accepts.end(key);
    if rules.key_device {
        item(key, b'd', device.word().as_bytes());
    }
    Ok(())
}

/// What an untrusted proxy says about scheme, host and port. PHP may believe it. If it agrees with what the server
/// knows, it has no effect; another scheme makes another page; anything else bypasses the cache.
fn told(scheme: &str, host: &str, concern: FieldConcern, value: &[u8], key: &mut Vec<u8>) -> Option<()> {
    let value = std::str::from_utf8(value).ok()?.trim();
    match concern {
        FieldConcern::Scheme => {
            let https = match value {
                "https" | "on" | "1" => true,
                "http" | "off" | "0" => false,
                // CF-Visitor
                _ => match value.split_once("\"scheme\":\"")?.1 {
                    "https\"}" => true,
                    "http\"}" => false,
                    _ => return None,
                },
            };
            if https != (scheme == "https") {
                item(key, b's', if https { b"s" } else { b"" });
            }
            Some(())
        }
        FieldConcern::Port => {
            let port = match host.rsplit_once(':') {
                Some((_, port)) if !port.ends_with(']') => port,
                _ if scheme == "https" => "443",
                _ => "80",
            };
            (value == port).then_some(())
        }
        _ => (value == host).then_some(()),
    }
}

/// Applies the cookies of one field line.
fn cookies<'a>(rules: &'a Rules, value: &'a [u8], key: &mut Vec<u8>) -> Result<(), Bypass<'a>> {
    let bypasses_unknown = rules.unknown_cookies == UnknownCookies::Bypass;
    if rules.bypass_cookies.is_empty() && rules.key_cookies.is_empty() && !bypasses_unknown {
        return Ok(());
    }
    for (name, cookie) in each_cookie(value) {
        let mut room = [0; 128];
        // An overlong name can't be a cookie of an application.
        let Some(seen) = as_php_sees(name, &mut room) else {
            if bypasses_unknown {
                return Err(Bypass::UnknownCookie(name));
            }
            continue;
        };
        if let Some(pattern) = rules.bypass_cookies.find(seen)
            && !rules.is_harmless(seen)
        {
            return Err(Bypass::Cookie { pattern, name });
        }
        if bypasses_unknown && is_unknown(rules, seen) {
            return Err(Bypass::UnknownCookie(name));
        }
        if rules.key_cookies.matches(seen) {
            item(key, b'c', cookie);
        }
    }
    Ok(())
}

/// Name and whole text (`name=value`) of each cookie of a field.
pub(crate) fn each_cookie(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    value.split(|b| *b == b';').map(<[u8]>::trim_ascii).filter(|cookie| !cookie.is_empty()).map(|cookie| {
        let name = cookie[..memchr::memchr(b'=', cookie).unwrap_or(cookie.len())].trim_ascii_end();
        (name, cookie)
    })
}

/// The name in `$_COOKIE` that PHP derives from a cookie's name: `a.b` becomes `a_b` (main/php_variables.c), so
/// `wordpress.logged.in_x` is as good for a login as `wordpress_logged_in_x`. Older PHP also decodes `%5F`. `None`:
/// too long for `room`.
pub(crate) fn as_php_sees<'n>(name: &'n [u8], room: &'n mut [u8; 128]) -> Option<&'n [u8]> {
    if name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')) {
        return Some(name);
    }
    let mut length = 0;
    let mut rest = name;
    while let Some((octet, after)) = percent::split_first(rest) {
        rest = after;
        let seen = if matches!(octet, b'.' | b' ' | b'+') { b'_' } else { octet };
        // Only a closed bracket ends a name; the part before the first one names the array.
        if seen == b'[' && rest.contains(&b']') || seen == 0 {
            break;
        }
        let seen = if seen == b'[' { b'_' } else { seen };
        *room.get_mut(length)? = seen;
        length += 1;
    }
    Some(&room[..length])
}

/// Appends a cookie to those of a `Cookie` field.
pub(crate) fn add_cookie(out: &mut Vec<u8>, cookie: &[u8]) {
    if !out.is_empty() {
        out.extend_from_slice(b"; ");
    }
    out.extend_from_slice(cookie);
}

/// Appends the part of a `Cookie` field that PHP may see when it runs for a shared page: all but the harmless cookies; if it is known which
/// ones matter to the application, only these. If nothing is appended, the field must be omitted. Returns whether anything was omitted.
pub fn write_fill_cookies(rules: &Rules, value: &[u8], out: &mut Vec<u8>) -> bool {
    let is_shown = |name: &[u8]| {
        let mut room = [0; 128];
        // By PHP's name for it, as everywhere: `_ga.x` is `_ga_x` to a script.
        let seen = as_php_sees(name, &mut room).unwrap_or(name);
        match &rules.vary_cookies {
            VaryCookies::Only(known) => known.matches(seen) || rules.key_cookies.matches(seen),
            _ => !rules.is_harmless(seen),
        }
    };
    if rules.mode != Mode::Profile || each_cookie(value).all(|(name, _)| is_shown(name)) {
        out.extend_from_slice(value);
        return false;
    }
    let start = out.len();
    for (_, cookie) in each_cookie(value).filter(|(name, _)| is_shown(name)) {
        if out.len() > start {
            out.extend_from_slice(b"; ");
        }
        out.extend_from_slice(cookie);
    }
    true
}

/// Whether a request field says which address a client has.
pub fn names_client(name: &str) -> bool {
    const FIELDS: [&str; 9] = [
        "x-forwarded-for",
        "x-real-ip",
        "client-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-originating-ip",
        "cf-connecting-ip",
        "true-client-ip",
        "fastly-client-ip",
    ];
    FIELDS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Whether requests with different values of this field never share a page: its value is part of the key, or one that may change the page
/// makes the request bypass the cache. Profile mode only.
pub fn distinguishes(rules: &Rules, name: &str) -> bool {
    use FieldConcern::*;
    concern_of(name).is_some_and(|(_, concern)| match concern {
        Cookie | Authorization | ContentType | Override | Identity | Scheme | Host | Port => true,
        Agent => rules.key_device,
        // Those of browsers are not told apart.
        Accept => false,
        Control | Pragma | Range => false,
    })
}

/// Whether PHP must not see a request field when it runs for a fill; the validators of a stored page replace such
/// fields. In profile mode this includes the clients' cache directives, which are ignored there, and fields with
/// clients' addresses.
pub fn withheld_from_fill(rules: &Rules, name: &str) -> bool {
    const ALWAYS: [&str; 7] = [
        "range",
        "if-range",
        "if-match",
        "if-none-match",
        "if-modified-since",
        "if-unmodified-since",
        "accept-encoding",
    ];
    let is = |list: &[&str]| list.iter().any(|known| known.eq_ignore_ascii_case(name));
    // A client's address doesn't belong in a shared page, unless pages may vary by it.
    let of_the_client =
        || names_client(name) && !rules.vary_fields.matches(name.to_ascii_lowercase().as_bytes());
    let profile = rules.mode == Mode::Profile;
    if rules.faithful {
        // It gets unchanged requests, except arguments for statistics and clients' addresses.
        return profile && of_the_client();
    }
    is(&ALWAYS) || profile && (is(&["cache-control", "pragma", "te"]) || of_the_client())
}

/// Whether a request field is reserved for communication between caches and this server. Clients must not send it,
/// and PHP never sees it: the LiteSpeed Cache plugin would believe it.
pub fn is_ours_in_request(name: &str) -> bool {
    let begins = |with: &str| name.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    begins("x-litespeed-") || begins("x-lscache") || begins("x-litemage") || begins("millrace-")
}

impl Wants {
    fn add(&mut self, value: &[u8]) {
        let control = Control::parse(value);
        self.no_cache |= control.no_cache;
        self.no_store |= control.no_store;
        self.only_if_cached |= control.only_if_cached;
        self.max_age = self.max_age.into_iter().chain(control.max_age).min();
        self.max_stale = self.max_stale.into_iter().chain(control.max_stale).min();
        self.min_fresh = self.min_fresh.max(control.min_fresh);
    }

    /// RFC 9111 section 5.4: `Pragma: no-cache` counts only without `Cache-Control`; clients that send both say the
    /// same, or something stricter, in `Cache-Control`.
    fn pragma(&mut self, value: &[u8]) {
        self.no_cache |= value.trim_ascii().eq_ignore_ascii_case(b"no-cache");
    }

    /// Whether a page of age `age` that stays fresh for `left` (both in milliseconds; `left` is negative if it is
    /// stale) may be sent without asking the application. For stale pages this counts only if `stale_allowed`: the
    /// page itself does not forbid it.
    pub fn allow(&self, age: u64, left: i64, stale_allowed: bool) -> bool {
        let seconds = |s: u64| s.saturating_mul(1000).min(i64::MAX as u64) as i64;
        let fresh_enough = if left > 0 {
            self.min_fresh.is_none_or(|min| left >= seconds(min))
        } else {
            stale_allowed && self.max_stale.is_some_and(|most| -left <= seconds(most))
        };
        !self.no_cache && fresh_enough && self.max_age.is_none_or(|most| age as i64 <= seconds(most))
    }
}

/// Whether an `Accept` is what browsers send for a page, or `*/*`, which says nothing: requests with such a value, or without one, share
/// pages unless these say `Vary: Accept`. All others have keys of their own, because a script may choose by anything else in the value. Browsers have differed only in the formats of images that they name, and in signed exchanges.
fn is_browsers_accept(value: &[u8]) -> bool {
    let Some(rest) = value.strip_prefix(b"text/html,application/xhtml+xml,application/xml;q=0.9,") else {
        return value == b"*/*" || value == CRAWLERS_ACCEPT;
    };
    let Some(anything) = memchr::memchr(b'*', rest) else { return false };
    let (images, end) = rest.split_at(anything);
    let is_image = |member: &[u8]| {
        let format = member.strip_prefix(b"image/").and_then(|member| member.strip_suffix(b","));
        format.is_some_and(|format| {
            format.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-'))
        })
    };
    let signed = end.strip_prefix(b"*/*;q=0.8");
    images.split_inclusive(|b| *b == b',').all(is_image)
        && signed.is_some_and(|signed| signed.is_empty() || SIGNED_EXCHANGES.contains(&signed))
}

/// What Chrome and its relatives add, from the newest to the oldest.
const SIGNED_EXCHANGES: [&[u8]; 3] = [
    b",application/signed-exchange;v=b3;q=0.7",
    b",application/signed-exchange;v=b3;q=0.9",
    b",application/signed-exchange;v=b3",
];

/// Google's crawler.
const CRAWLERS_ACCEPT: &[u8] =
    b"text/html,application/xhtml+xml,application/signed-exchange;v=b3,application/xml;q=0.9,*/*;q=0.8";

/// What browsers accept that name no formats of images: Safari, and Firefox today.
pub const PLAIN_ACCEPT: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// The `Accept` lines of a request.
#[derive(Default)]
struct Accepts<'a> {
    /// The last line, which is not in the key yet.
    last: Option<&'a [u8]>,
    /// Others are.
    several: bool,
}

impl<'a> Accepts<'a> {
    fn add(&mut self, value: &'a [u8], key: &mut Vec<u8>) {
        if let Some(before) = self.last.replace(value) {
            // PHP gets the lines joined, so that none of them stands for itself.
            item(key, b'a', before);
            self.several = true;
        }
    }

    fn end(self, key: &mut Vec<u8>) {
        if let Some(value) = self.last
            && (self.several || !is_browsers_accept(value))
        {
            item(key, b'a', value);
        }
    }
}

/// Class of a client's device, as applications distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// None of the others.
    Desktop,
    /// A telephone.
    Mobile,
    /// A tablet.
    Tablet,
}

impl Device {
    /// Determined from the `User-Agent` field. Devices for which WordPress's `wp_is_mobile()` is true are telephones
    /// or tablets.
    pub fn of(agent: &[u8]) -> Device {
        let has = |text: &str| memchr::memmem::find(agent, text.as_bytes()).is_some();
        if has("iPad") || has("Tablet") || has("Silk/") || has("Kindle") || has("Android") && !has("Mobile") {
            Device::Tablet
        } else if ["Mobile", "Android", "BlackBerry", "Opera Mini", "Opera Mobi"].iter().any(|word| has(word))
        {
            Device::Mobile
        } else {
            Device::Desktop
        }
    }

    /// For keys.
    pub fn word(self) -> &'static str {
        match self {
            Device::Desktop => "desktop",
            Device::Mobile => "mobile",
            Device::Tablet => "tablet",
        }
    }
}

/// How a request field concerns the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldConcern {
    Cookie,
    Authorization,
    Control,
    Pragma,
    Range,
    Accept,
    ContentType,
    Agent,
    /// An application or framework lets it change what is requested.
    Override,
    /// It identifies the client or the purpose, but pages don't `Vary` by it. Standard mode trusts that they do.
    Identity,
    /// It names the scheme of the client's request.
    Scheme,
    /// It names the host of the client's request.
    Host,
    /// It names the port of the client's request.
    Port,
}

/// All fields that concern the cache, the shorter ones first: [`STARTS`] relies on it.
const CONCERNS: &[(&str, FieldConcern)] = &[
    ("nonce", FieldConcern::Identity),
    ("range", FieldConcern::Range),
    ("accept", FieldConcern::Accept),
    ("cookie", FieldConcern::Cookie),
    ("pragma", FieldConcern::Pragma),
    ("x-host", FieldConcern::Host),
    ("api-key", FieldConcern::Identity),
    ("x-scheme", FieldConcern::Scheme),
    ("forwarded", FieldConcern::Override),
    ("x-api-key", FieldConcern::Identity),
    ("cart-token", FieldConcern::Identity),
    ("cf-visitor", FieldConcern::Scheme),
    ("user-agent", FieldConcern::Agent),
    ("x-wp-nonce", FieldConcern::Identity),
    ("x-auth-token", FieldConcern::Identity),
    ("content-type", FieldConcern::ContentType),
    ("x-csrf-token", FieldConcern::Identity),
    ("x-url-scheme", FieldConcern::Scheme),
    ("x-xsrf-token", FieldConcern::Identity),
    ("authorization", FieldConcern::Authorization),
    ("cache-control", FieldConcern::Control),
    ("x-http-method", FieldConcern::Override),
    ("x-rewrite-url", FieldConcern::Override),
    ("x-script-name", FieldConcern::Override),
    ("x-access-token", FieldConcern::Identity),
    ("x-original-uri", FieldConcern::Override),
    ("x-original-url", FieldConcern::Override),
    ("x-override-url", FieldConcern::Override),
    ("front-end-https", FieldConcern::Scheme),
    ("x-forwarded-ssl", FieldConcern::Scheme),
    ("x-forwarded-uri", FieldConcern::Override),
    ("x-forwarded-url", FieldConcern::Override),
    ("x-original-host", FieldConcern::Host),
    ("x-original-path", FieldConcern::Override),
    ("x-forwarded-host", FieldConcern::Host),
    ("x-forwarded-path", FieldConcern::Override),
    ("x-forwarded-port", FieldConcern::Port),
    ("x-requested-with", FieldConcern::Identity),
    ("x-forwarded-proto", FieldConcern::Scheme),
    ("x-method-override", FieldConcern::Override),
    ("x-original-method", FieldConcern::Override),
    ("x-forwarded-prefix", FieldConcern::Override),
    ("x-forwarded-scheme", FieldConcern::Scheme),
    ("x-forwarded-server", FieldConcern::Host),
    ("x-forwarded-method", FieldConcern::Override),
    ("proxy-authorization", FieldConcern::Authorization),
    ("x-http-host-override", FieldConcern::Host),
    ("x-forwarded-protocol", FieldConcern::Scheme),
    ("x-envoy-original-path", FieldConcern::Override),
    ("x-http-method-override", FieldConcern::Override),
    ("x-original-forwarded-host", FieldConcern::Host),
    ("cloudfront-forwarded-proto", FieldConcern::Scheme),
];

fn concern_of(name: &str) -> Option<(&'static str, FieldConcern)> {
    let of_this_length = STARTS.get(name.len())?..STARTS.get(name.len() + 1)?;
    let candidates = &CONCERNS[usize::from(*of_this_length.start)..usize::from(*of_this_length.end)];
    candidates.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).copied()
}

/// Start in [`CONCERNS`] of the names of each length.
const STARTS: [u8; 32] = {
    let mut starts = [0; 32];
    let (mut length, mut at) = (0, 0);
    while length < starts.len() {
        while at < CONCERNS.len() && CONCERNS[at].0.len() < length {
            at += 1;
        }
        starts[length] = at as u8;
        length += 1;
    }
    starts
};

#[cfg(test)]
mod tests;
