//! What a response says about its caching, in all fields that applications use.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use super::keep::Keep;
use super::word::LifetimeSource;
use crate::control::{Control, LONGEST, seconds, structured};
use crate::looked::Looked;
use crate::notes::Notes;
use crate::place::Place;
use crate::places::{COUNTRY, Country};
use crate::read_fields::FieldsRead;
use crate::rules::{Mode, Rules};
use crate::vary::{MOBILE, MOBILE_FIELDS, Names};
use crate::{Millis, carts, terms};

/// The content of a response's fields and of its script's notes.
#[derive(Default)]
pub(super) struct Said<'a> {
    pub cache_control: Control,
    has_cache_control: bool,
    pub pragma_no_cache: bool,
    /// Seconds since 1970; `Some(0)`: there is one, but it is not a date.
    expires: Option<u64>,
    date: Option<u64>,
    date_as_sent: Option<&'a [u8]>,
    /// Whether there was an `Age`: of several the first counts.
    is_aged: bool,
    /// Value of `Age` in seconds; `None`: there is no valid one.
    age: Option<u64>,
    millrace: Option<Control>,
    litespeed: Option<Control>,
    cdn: Vec<u8>,
    cdn_read: Option<Control>,
    surrogate: Option<Control>,
    accel: Option<Accel>,
    /// From `millrace_cache_control()`.
    pub note: Option<Control>,
    pub sets_cookie: bool,
    /// Values of `LSC-Cookie`.
    lsc_cookies: Vec<&'a [u8]>,
    pub vary: Names,
    no_vary: bool,
    pub has_validators: bool,
    /// It has a `Cart-Token`, by which a client of WooCommerce's Store API goes on with a cart.
    pub has_token: bool,
    pub content_type: &'a [u8],
    pub tags: Vec<Cow<'a, [u8]>>,
    /// The cookies that its script has looked for.
    pub looked: Looked,
    /// The fields of the request that it has read.
    pub read: FieldsRead<'a>,
    /// Its script has read nothing of its visitor's cart.
    pub is_cart_unread: bool,
    /// Fields that `Connection` names, lower case.
    connection: Vec<Box<str>>,
}

#[derive(Clone, Copy)]
enum Accel {
    Seconds(u64),
    /// Seconds since 1970.
    Until(u64),
}

impl<'a> Said<'a> {
    pub fn hear<F>(rules: &Rules, fields: F, notes: &'a Notes) -> Said<'a>
    where
        F: Iterator<Item = (&'a str, &'a [u8])> + Clone,
    {
        let mut said = Said::default();
        for (name, value) in fields.clone() {
            said.field(rules, name, value);
        }
        said.restrictions(fields);
        if !notes.control.is_empty() {
            said.note = Some(Control::parse(&notes.control));
        }
        said.split_tags(&notes.tags, b",");
        said.looked = Looked::hear(rules, notes, &said.own_vary_names());
        said.read = FieldsRead::hear(rules, notes);
        said.is_cart_unread = notes.cart.as_deref() == Some(carts::UNREAD);
        said.cdn_read = if said.cdn.is_empty() { None } else { Control::parse_targeted(&said.cdn) };
        said
    }

    fn field(&mut self, rules: &Rules, name: &str, value: &'a [u8]) {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match name.len() {
            3 if is("age") && !self.is_aged => (self.is_aged, self.age) = (true, age(value)),
            4 if is("date") => {
                self.date = date(value);
                self.date_as_sent = self.date.map(|_| value);
            }
            4 if is("vary") => self.vary.add(rules, value),
            4 if is("etag") => self.has_validators = true,
            4 if is("xkey") => self.split_tags(value, b" ,"),
            6 if is("pragma") => self.pragma_no_cache |= value.trim_ascii().eq_ignore_ascii_case(b"no-cache"),
            7 if is("expires") => {
                let until = date(value).unwrap_or(0);
                self.expires = Some(self.expires.map_or(until, |other| other.min(until)));
            }
            9 if is("cache-tag") => self.split_tags(value, b","),
            10 if is("set-cookie") => self.sets_cookie = true,
            10 if is("cart-token") => self.has_token = true,
            10 if is("connection") => self.connection.extend(
                value
                    .split(|b| *b == b',')
                    .map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase().into()),
            ),
            10 if is("lsc-cookie") => self.lsc_cookies.push(value),
            12 if is("content-type") => self.content_type = value,
            12 if is("cache-groups") => self.groups(value),
            12 if is("x-cache-tags") => self.split_tags(value, b" ,"),
            12 if is("millrace-tag") => self.split_tags(value, b","),
            13 if is("cache-control") => {
                self.has_cache_control = true;
                self.cache_control.add(value);
            }
            13 if is("last-modified") => self.has_validators |= date(value).is_some(),
            13 if is("surrogate-key") => self.split_tags(value, b" "),
            14 if is("edge-cache-tag") => self.split_tags(value, b","),
            15 if is("x-litespeed-tag") && rules.litespeed => self.split_tags(value, b","),
            15 if is("x-accel-expires") => self.accel = Accel::read(value),
            16 if is("x-litespeed-vary") && rules.litespeed => self.vary.add_litespeed(value),
            17 if is("cdn-cache-control") => {
                if !self.cdn.is_empty() {
                    self.cdn.extend_from_slice(b", ");
                }
                self.cdn.extend_from_slice(value);
            }
            17 if is("surrogate-control") => self.surrogate.get_or_insert_default().add_surrogate(value),
            19 if is("x-drupal-cache-tags") => self.split_tags(value, b" "),
            22 if is("millrace-cache-control") => {
                self.millrace.get_or_insert_default().add(value);
            }
            25 if is("x-litespeed-cache-control") && rules.litespeed => self.litespeed(value),
            _ => {}
        }
    }

    /// Directives for single fields count for the whole response, if it has one of these fields.
    fn restrictions(&mut self, fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone) {
        let any = |list: &[Box<str>]| {
            !list.is_empty()
                && fields.clone().any(|(name, _)| list.iter().any(|listed| listed.eq_ignore_ascii_case(name)))
        };
        let control = &self.cache_control;
        let (no_cache, private) = (any(&control.no_cache_fields), any(&control.private_fields));
        self.cache_control.no_cache |= no_cache;
        self.cache_control.private |= private;
    }

    /// `no-cache`, `public` or `private`, and more. Here `no-cache` means not to store.
    fn litespeed(&mut self, value: &[u8]) {
        let control = self.litespeed.get_or_insert_default();
        control.add(value);
        control.no_store |= control.no_cache;
        self.no_vary |=
            value.split(|b| *b == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(b"no-vary"));
    }

    fn split_tags(&mut self, value: &'a [u8], separators: &[u8]) {
        let names = value.split(|b| separators.contains(b)).map(<[u8]>::trim_ascii);
        // One more than allowed, so that the excess is noticed and no list gets too long.
        let most = (4 * terms::MOST_TAGS + 1).saturating_sub(self.tags.len());
        self.tags.extend(names.filter(|name| !name.is_empty()).map(Cow::Borrowed).take(most));
    }

    /// RFC 9875 section 2: a list of strings; anything else is ignored.
    fn groups(&mut self, value: &[u8]) {
        for item in structured::list(value).unwrap_or_default() {
            if let structured::Item::String(name) = item {
                self.tags.push(Cow::Owned(name));
            }
        }
    }

    /// The control addressed to caches like this one, with its source's name. One that decides nothing - Symfony's `Surrogate-Control:
    /// content="ESI/1.0"`, LiteSpeed's `esi=on` - is skipped, because it might hide a `private` in the next one.
    /// Standard mode follows RFC 9213 section 2.2: beside `CDN-Cache-Control`, whatever it contains, `Cache-Control`
    /// is ignored.
    pub fn targeted(&self, mode: Mode, now: Millis) -> Option<(&'static str, Cow<'_, Control>)> {
        let by_function = self.note.as_ref().filter(|note| !note.fallback);
        let sources = [
            (LifetimeSource::CALL, by_function),
            ("Millrace-Cache-Control", self.millrace.as_ref()),
            ("X-LiteSpeed-Cache-Control", self.litespeed.as_ref()),
            ("CDN-Cache-Control", self.cdn_read.as_ref()),
            ("Surrogate-Control", self.surrogate.as_ref()),
        ];
        for (source, control) in sources {
            let counts = |control: &&Control| {
                control.decides() || mode == Mode::Standard && source == "CDN-Cache-Control"
            };
            if let Some(control) = control.filter(counts) {
                return Some((source, Cow::Borrowed(control)));
            }
        }
        let accel = self.accel?;
        let max_age = match accel {
            Accel::Seconds(seconds) => seconds,
            Accel::Until(until) => until.saturating_sub(now / 1000).min(LONGEST),
        };
        Some(("X-Accel-Expires", Cow::Owned(Control { max_age: Some(max_age), ..Control::default() })))
    }

    /// Lifetime by `Expires` (RFC 9111 sections 4.2.1 and 5.3).
    pub fn expires(&self, now: Millis) -> Option<Millis> {
        let date = self.date.unwrap_or(now / 1000);
        self.expires.map(|until| until.saturating_sub(date) * 1000)
    }

    /// The page says only that it expired in the past, by `Expires`.
    pub fn no_cache_control_but_expired(&self, now: Millis) -> bool {
        !self.has_cache_control && self.expires(now) == Some(0)
    }

    /// RFC 9111 section 4.2.3, without the response's delay.
    pub fn age(&self, now: Millis) -> Millis {
        let apparent = self.date.map_or(0, |date| (now / 1000).saturating_sub(date) * 1000);
        apparent.max(self.age.unwrap_or(0) * 1000)
    }

    /// The names that the response itself gives.
    fn own_vary_names(&self) -> Vec<Box<str>> {
        let names = self.vary.names.iter();
        names.filter(|name| !(self.no_vary && name.starts_with("cookie="))).cloned().collect()
    }

    /// All names by which the page varies; `read`: those of fields that were read among them.
    pub fn vary_names(&self, read: bool) -> Box<[Box<str>]> {
        let country = self.country().map(|_| Box::from(COUNTRY));
        let devices = self.devices().iter().map(|name| Box::from(*name));
        let read = self.read.names.iter().filter(|_| read).cloned();
        let looked = self.looked.names.iter().cloned();
        let more = country.into_iter().chain(devices).chain(looked).chain(read);
        Names { names: self.own_vary_names().into_iter().chain(more).collect(), refused: false }.finish()
    }

    /// By what an integration says that the page depends on the client's device.
    fn devices(&self) -> &'static [&'static str] {
        match &self.note {
            Some(note) if note.user_agent => &MOBILE_FIELDS,
            Some(note) if note.mobile => &[MOBILE],
            _ => &[],
        }
    }

    /// The country for which the page is, if it is for one; `Some(None)`: that is unknown.
    pub fn country(&self) -> Option<Option<Country>> {
        self.note.as_ref().and_then(|note| note.country)
    }

    /// Whether it says anything about lifetime.
    pub fn speaks(&self, mode: Mode) -> bool {
        let targeted = || self.targeted(mode, 0).is_some();
        self.has_cache_control || self.expires.is_some() || self.note.is_some() || targeted()
    }

    /// Whether the application says that the page contains something that is valid for a limited time.
    pub fn nonce(&self) -> bool {
        [&self.note, &self.millrace].into_iter().flatten().any(|control| control.nonce)
    }

    pub fn keep(&self) -> Keep {
        let public = self.litespeed.as_ref().is_some_and(|control| !control.no_store && !control.private);
        let cookies =
            if public { self.lsc_cookies.iter().map(|c| Box::from(*c)).collect() } else { Vec::new() };
        // What caches in front of the server and browsers have to know of it.
        let vary = if self.devices().is_empty() { &[][..] } else { &MOBILE_FIELDS };
        Keep { dropped: self.connection.clone(), cookies, vary, date: self.date_as_sent.map(Box::from) }
    }
}

/// Seconds of an `Age` (RFC 9111 section 5.1): of a list the first member counts, invalid numbers are ignored.
fn age(value: &[u8]) -> Option<u64> {
    seconds(value.split(|b| *b == b',').next().unwrap_or_default().trim_ascii())
}

impl Accel {
    /// `60`, `0`, `@1700000000` (seconds since 1970); other values, such as `off`, mean not to cache.
    fn read(value: &[u8]) -> Option<Accel> {
        let value = value.trim_ascii();
        match value.strip_prefix(b"@") {
            // Not by `seconds`, which bounds its result.
            Some(until) => Some(Accel::Until(std::str::from_utf8(until).ok()?.parse().unwrap_or(0))),
            None => Some(Accel::Seconds(seconds(value).unwrap_or(0))),
        }
    }
}

/// A date in seconds since 1970, in any of the three formats of RFC 9110 section 5.6.7; dates before 1970 give 0.
/// Case is ignored (RFC 9111 section 4.2), and so is a day of the week that doesn't fit the date.
pub(super) fn date(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let date = httpdate::parse_http_date(text).ok().or_else(|| lenient_date(text))?;
    Some(date.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// The longest date: `Wednesday, 09-Nov-94 08:49:37 GMT`, bytes.
const LONGEST_DATE: usize = 33;

/// The same in the usual case, and with the correct day of the week.
fn lenient_date(text: &str) -> Option<SystemTime> {
    const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    if text.len() > LONGEST_DATE || !text.is_ascii() {
        return None;
    }
    let text = in_usual_case(text);
    let (said, rest) = text.split_at(text.find(|c: char| !c.is_ascii_alphabetic())?);
    let is_short = said.len() == 3;
    let names = DAYS.map(|day| if is_short { &day[..3] } else { day });
    if !names.contains(&said) {
        return None;
    }
    names.iter().find_map(|day| httpdate::parse_http_date(&format!("{day}{rest}")).ok())
}

/// Each word with a capital initial; the zone in capitals.
fn in_usual_case(text: &str) -> String {
    let mut before = ' ';
    let cased = text.chars().map(|c| {
        let is_first = !std::mem::replace(&mut before, c).is_ascii_alphabetic();
        if is_first { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
    });
    let cased: String = cased.collect();
    cased.strip_suffix("Gmt").map(|start| format!("{start}GMT")).unwrap_or(cased)
}

/// The profile's lifetime for a response about which the application says nothing, with the name of its setting;
/// `None`: there is none for such a response.
pub(super) fn usual_lifetime(
    rules: &Rules,
    place: &Place<'_>,
    status: u16,
    content_type: &[u8],
) -> Option<(&'static str, Millis)> {
    let lifetimes = &rules.lifetimes;
    let kind = content_type.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    let is = |known: &str| kind.eq_ignore_ascii_case(known.as_bytes());
    let is_feed = || {
        is("application/rss+xml")
            || is("application/atom+xml")
            || is("application/rdf+xml")
            || rules.feed_paths.find(place.path).is_some()
    };
    Some(match status {
        301 | 308 => ("cache.ttl.redirect", lifetimes.redirect),
        404 | 410 => ("cache.ttl.not_found", lifetimes.not_found),
        200 if rules.sitemap_paths.find(place.path).is_some() => ("cache.ttl.sitemap", lifetimes.sitemap),
        200 if rules.rest_paths.find(place.path).is_some() => ("cache.ttl.api", lifetimes.rest),
        200 if is_feed() => ("cache.ttl.feed", lifetimes.feed),
        200 if is("text/html") || is("application/xhtml+xml") => ("cache.ttl.page", lifetimes.page),
        200 => ("cache.ttl.other", lifetimes.other),
        _ => return None,
    })
}
