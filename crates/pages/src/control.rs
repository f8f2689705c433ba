//! `Cache-Control` and fields with its grammar (RFC 9111 section 5.2): anything unclear is never read as a
//! permission; and the strict dictionaries of targeted fields (RFC 9213).

use crate::places::Country;

/// The longest lifetime that differs from "for ever", in seconds (RFC 9111 section 1.2.2).
pub(crate) const LONGEST: u64 = 1 << 31;

/// Directives of a response or a request. Times in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// `public`
    pub public: bool,
    /// `private`, not restricted to fields.
    pub private: bool,
    /// `no-store`
    pub no_store: bool,
    /// `no-cache`, not restricted to fields.
    pub no_cache: bool,
    /// `must-revalidate`
    pub must_revalidate: bool,
    /// `proxy-revalidate`
    pub proxy_revalidate: bool,
    /// `must-understand`
    pub must_understand: bool,
    /// `only-if-cached`
    pub only_if_cached: bool,
    /// `nonce`: Millrace's own; the page contains something that is valid for a limited time.
    pub nonce: bool,
    /// `country=DE`: Millrace's own; the page is one for visitors in this country. Without a value: for visitors in an unknown one.
    pub country: Option<Option<Country>>,
    /// `mobile`: Millrace's own; the page depends on what WordPress's `wp_is_mobile()` says ([`crate::vary::MOBILE`]).
    pub mobile: bool,
    /// `user-agent`: Millrace's own; the page depends on the client's fields in a way that is not known
    /// ([`crate::vary::MOBILE_FIELDS`]).
    pub user_agent: bool,
    /// `fallback`: Millrace's own; it is no stronger than what an integration says about all pages.
    pub fallback: bool,
    /// `max-age`
    pub max_age: Option<u64>,
    /// `s-maxage`
    pub s_maxage: Option<u64>,
    /// `stale-while-revalidate` (RFC 5861)
    pub stale_while_revalidate: Option<u64>,
    /// `stale-if-error` (RFC 5861)
    pub stale_if_error: Option<u64>,
    /// `max-stale`; without a value: any time.
    pub max_stale: Option<u64>,
    /// `min-fresh`
    pub min_fresh: Option<u64>,
    /// Fields that `no-cache="..."` names; lower case. Counts for responses with one of these fields.
    pub no_cache_fields: Vec<Box<str>>,
    /// Fields that `private="..."` names; lower case.
    pub private_fields: Vec<Box<str>>,
    /// `because`: Millrace's own; why an integration says this, for people.
    pub because: Option<Box<str>>,
}

impl Control {
    /// Reads one value with the tolerant grammar.
    pub fn parse(value: &[u8]) -> Control {
        let mut control = Control::default();
        control.add(value);
        control
    }

    /// Adds another line of the same field. Of two values of a directive the smaller counts; an invalid number counts
    /// as 0 (RFC 9111 section 4.2.1: such a response is stale).
    pub fn add(&mut self, value: &[u8]) {
        let mut rest = value;
        loop {
            let end = match end_of_item(rest) {
                Some(end) => end,
                None => {
                    // An unclosed quote may hide anything.
                    self.no_store = true;
                    return;
                }
            };
            self.directive(&rest[..end]);
            if end == rest.len() {
                return;
            }
            rest = &rest[end + 1..];
        }
    }

    fn directive(&mut self, item: &[u8]) {
        let (name, value) = match memchr::memchr(b'=', item) {
            Some(at) => (&item[..at], Some(&item[at + 1..])),
            None => (item, None),
        };
        let spaced = value.is_some_and(|v| name.ends_with(b" ") || v.starts_with(b" "));
        let (name, value) = (name.trim_ascii(), value.map(<[u8]>::trim_ascii));
        let text = value.map(unquoted);
        let number = || if spaced { 0 } else { text.and_then(seconds).unwrap_or(0) };
        let is = |directive: &str| name.eq_ignore_ascii_case(directive.as_bytes());
        match name.len() {
            5 if is("nonce") => self.nonce = true,
            6 if is("public") => self.public = true,
            6 if is("mobile") => self.mobile = true,
            7 if is("private") => match names(text) {
                Some(names) => self.private_fields.extend(names),
                None => self.private = true,
            },
            7 if is("country") => self.country = Some(value.and_then(Country::parse)),
            7 if is("because") => self.because = Control::because_of(item),
            7 if is("max-age") => smaller(&mut self.max_age, number()),
            8 if is("no-store") => self.no_store = true,
            8 if is("no-cache") => match names(text) {
                Some(names) => self.no_cache_fields.extend(names),
                None => self.no_cache = true,
            },
            8 if is("fallback") => self.fallback = true,
            8 if is("s-maxage") => smaller(&mut self.s_maxage, number()),
            9 if is("max-stale") => smaller(&mut self.max_stale, text.map_or(LONGEST, |_| number())),
            9 if is("min-fresh") => {
                // Here the larger value is stricter.
                self.min_fresh = self.min_fresh.max(Some(text.and_then(seconds).unwrap_or(LONGEST)));
            }
            10 if is("user-agent") => self.user_agent = true,
            14 if is("stale-if-error") => smaller(&mut self.stale_if_error, number()),
            14 if is("only-if-cached") => self.only_if_cached = true,
            15 if is("must-revalidate") => self.must_revalidate = true,
            15 if is("must-understand") => self.must_understand = true,
            16 if is("proxy-revalidate") => self.proxy_revalidate = true,
            22 if is("stale-while-revalidate") => smaller(&mut self.stale_while_revalidate, number()),
            _ => {}
        }
    }

    /// The value of a directive `because=TEXT`; `None`: it is another one.
    pub(crate) fn because_of(directive: &[u8]) -> Option<Box<str>> {
        let text = directive.trim_ascii().strip_prefix(b"because=")?;
        Some(String::from_utf8_lossy(unquoted(text)).into())
    }

    /// Reads a targeted field (RFC 9213 section 2.2): a dictionary of structured fields. `None`: it is invalid and
    /// must be ignored. Of members with the wrong type only the member is ignored.
    pub fn parse_targeted(value: &[u8]) -> Option<Control> {
        let mut control = Control::default();
        for (name, value) in structured::dictionary(value)? {
            let flag = value == structured::Item::True;
            let number = match value {
                structured::Item::Integer(n) => Some(u64::try_from(n).unwrap_or(0).min(LONGEST)),
                _ => None,
            };
            match name {
                b"public" => control.public = flag,
                b"private" => control.private = flag,
                b"no-store" => control.no_store = flag,
                b"no-cache" => control.no_cache = flag,
                b"must-revalidate" => control.must_revalidate = flag,
                b"proxy-revalidate" => control.proxy_revalidate = flag,
                b"must-understand" => control.must_understand = flag,
                b"max-age" => control.max_age = number,
                b"s-maxage" => control.s_maxage = number,
                b"stale-while-revalidate" => control.stale_while_revalidate = number,
                b"stale-if-error" => control.stale_if_error = number,
                _ => {}
            }
        }
        Some(control)
    }

    /// Adds a line of `Surrogate-Control` (Edge Architecture Specification 1.0): `max-age=60+30` allows 30 seconds of
    /// staleness; directives for another surrogate, by `;name`, are skipped.
    pub fn add_surrogate(&mut self, value: &[u8]) {
        for item in value.split(|b| *b == b',') {
            let mut parts = item.splitn(2, |b| *b == b';');
            let directive = parts.next().unwrap_or_default().trim_ascii();
            let target = parts.next().map(<[u8]>::trim_ascii);
            if target.is_some_and(|target| !target.eq_ignore_ascii_case(b"millrace")) {
                continue;
            }
            match directive.split_once_byte(b'+') {
                Some((life, grace)) if directive.to_ascii_lowercase().starts_with(b"max-age") => {
                    self.add(life);
                    smaller(&mut self.stale_while_revalidate, seconds(grace.trim_ascii()).unwrap_or(0));
                }
                _ => self.add(directive),
            }
        }
    }

    /// Whether it says if, or for how long, the response may be stored.
    pub fn decides(&self) -> bool {
        self.public || self.no_store || self.private || self.no_cache || self.lifetime().is_some()
    }

    /// Whether it forbids a shared cache to store, or to use without validation.
    pub fn refuses(&self) -> bool {
        self.no_store || self.private || self.no_cache || self.lifetime() == Some(0)
    }

    /// Lifetime for a shared cache in seconds (RFC 9111 section 4.2.1), if it contains one.
    pub fn lifetime(&self) -> Option<u64> {
        self.s_maxage.or(self.max_age)
    }
}

trait SplitOnce {
    fn split_once_byte(&self, byte: u8) -> Option<(&[u8], &[u8])>;
}

impl SplitOnce for [u8] {
    fn split_once_byte(&self, byte: u8) -> Option<(&[u8], &[u8])> {
        memchr::memchr(byte, self).map(|at| (&self[..at], &self[at + 1..]))
    }
}

fn smaller(slot: &mut Option<u64>, value: u64) {
    *slot = Some(slot.map_or(value, |old| old.min(value)));
}

/// A number of seconds: digits only. Too large numbers count as "for ever".
pub(crate) fn seconds(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value =
        text.iter().try_fold(0u64, |n, digit| n.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    Some(value.unwrap_or(LONGEST).min(LONGEST))
}

/// The position of the first comma outside of quotes, or the end. `None`: a quote is never closed.
fn end_of_item(text: &[u8]) -> Option<usize> {
    let mut quoted = false;
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => quoted = !quoted,
            b'\\' if quoted => at += 1,
            b',' if !quoted => return Some(at),
            _ => {}
        }
        at += 1;
    }
    (!quoted).then_some(text.len())
}

/// The fields to which `no-cache` and `private` are restricted (sections 5.2.2.4 and 5.2.2.7), if any.
fn names(list: Option<&[u8]>) -> Option<Vec<Box<str>>> {
    let names = list?.split(|b| *b == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty());
    let names: Vec<_> = names.map(|name| String::from_utf8_lossy(name).to_ascii_lowercase().into()).collect();
    (!names.is_empty()).then_some(names)
}

/// Removes the quotes; a pair `\x` inside stays unchanged: no directive needs one.
fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")).unwrap_or(value)
}

pub(crate) mod structured {
    //! The part of RFC 9651 that dictionaries of directives and lists of strings need. Any violation of the grammar
    //! makes the whole field invalid.

    /// An item without its parameters, which are not used here.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Item {
        Integer(i64),
        /// `?1`, and a dictionary's key without a value.
        True,
        False,
        String(Vec<u8>),
        /// Decimals, tokens, byte sequences, dates, inner lists: valid, but not used here.
        Other,
    }

    /// A dictionary (section 4.2.2); of two members with the same key the later counts.
    pub fn dictionary(text: &[u8]) -> Option<Vec<(&[u8], Item)>> {
        let mut rest = spaces(text);
        let mut members: Vec<(&[u8], Item)> = Vec::new();
        while !rest.is_empty() {
            let name = key(&mut rest)?;
            let value = match rest.strip_prefix(b"=") {
                Some(after) => {
                    rest = after;
                    item(&mut rest)?
                }
                None => Item::True,
            };
            parameters(&mut rest)?;
            members.retain(|(other, _)| *other != name);
            members.push((name, value));
            next_member(&mut rest)?;
        }
        Some(members)
    }

    /// A list (section 4.2.1).
    pub fn list(text: &[u8]) -> Option<Vec<Item>> {
        let mut rest = spaces(text);
        let mut items = Vec::new();
        while !rest.is_empty() {
            items.push(item(&mut rest)?);
            parameters(&mut rest)?;
            next_member(&mut rest)?;
        }
        Some(items)
    }

    fn spaces(text: &[u8]) -> &[u8] {
        &text[text.iter().position(|b| *b != b' ').unwrap_or(text.len())..]
    }

    /// Advances to the next member, or to the end; a trailing comma is an error.
    fn next_member(rest: &mut &[u8]) -> Option<()> {
        let blank = |text: &[u8]| text.iter().position(|b| !matches!(b, b' ' | b'\t')).unwrap_or(text.len());
        *rest = &rest[blank(rest)..];
        if rest.is_empty() {
            return Some(());
        }
        let after = rest.strip_prefix(b",")?;
        *rest = &after[blank(after)..];
        (!rest.is_empty()).then_some(())
    }

    fn key<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
        let text = *rest;
        let legal = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-.*".contains(b);
        let end = text.iter().position(|b| !legal(b)).unwrap_or(text.len());
        let (name, after) = text.split_at(end);
        *rest = after;
        name.first().filter(|b| b.is_ascii_lowercase() || **b == b'*').map(|_| name)
    }

    fn parameters(rest: &mut &[u8]) -> Option<()> {
        while let Some(after) = rest.strip_prefix(b";") {
            *rest = spaces(after);
            key(rest)?;
            if let Some(after) = rest.strip_prefix(b"=") {
                *rest = after;
                item(rest)?;
            }
        }
        Some(())
    }

    fn item(rest: &mut &[u8]) -> Option<Item> {
        match rest.first()? {
            b'-' | b'0'..=b'9' => number(rest),
            b'"' => string(rest),
            b'?' => {
                let item = match rest.get(1)? {
                    b'1' => Item::True,
                    b'0' => Item::False,
                    _ => return None,
                };
                *rest = &rest[2..];
                Some(item)
            }
            b':' => {
                let end = 1 + memchr::memchr(b':', &rest[1..])?;
                let legal = |b: &u8| b.is_ascii_alphanumeric() || b"+/=".contains(b);
                rest[1..end].iter().all(legal).then(|| *rest = &rest[end + 1..])?;
                Some(Item::Other)
            }
            b'@' => {
                *rest = &rest[1..];
                number(rest).filter(|item| matches!(item, Item::Integer(_))).map(|_| Item::Other)
            }
            b'(' => inner_list(rest),
            b'*' => Some(token(rest)),
            b if b.is_ascii_alphabetic() => Some(token(rest)),
            _ => None,
        }
    }

    fn token(rest: &mut &[u8]) -> Item {
        let legal = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(b);
        *rest = &rest[rest.iter().position(|b| !legal(b)).unwrap_or(rest.len())..];
        Item::Other
    }

    fn inner_list(rest: &mut &[u8]) -> Option<Item> {
        *rest = spaces(&rest[1..]);
        loop {
            if let Some(after) = rest.strip_prefix(b")") {
                *rest = after;
                return Some(Item::Other);
            }
            if rest.starts_with(b"(") {
                return None;
            }
            item(rest)?;
            parameters(rest)?;
            if !matches!(rest.first()?, b' ' | b')') {
                return None;
            }
            *rest = spaces(rest);
        }
    }

    fn number(rest: &mut &[u8]) -> Option<Item> {
        let text = *rest;
        let unsigned = text.strip_prefix(b"-").unwrap_or(text);
        let digits = unsigned.iter().position(|b| !b.is_ascii_digit()).unwrap_or(unsigned.len());
        if digits == 0 || digits > 15 {
            return None;
        }
        let after = &unsigned[digits..];
        if let Some(fraction) = after.strip_prefix(b".") {
            let places = fraction.iter().position(|b| !b.is_ascii_digit()).unwrap_or(fraction.len());
            *rest = &fraction[places..];
            return ((1..=3).contains(&places) && digits <= 12).then_some(Item::Other);
        }
        *rest = after;
        let value: i64 = std::str::from_utf8(&unsigned[..digits]).ok()?.parse().ok()?;
        Some(Item::Integer(if text.len() > unsigned.len() { -value } else { value }))
    }

    fn string(rest: &mut &[u8]) -> Option<Item> {
        let mut out = Vec::new();
        let mut at = 1;
        loop {
            match *rest.get(at)? {
                b'"' => {
                    *rest = &rest[at + 1..];
                    return Some(Item::String(out));
                }
                b'\\' => {
                    at += 1;
                    out.push(*rest.get(at).filter(|b| matches!(b, b'"' | b'\\'))?);
                }
                byte @ 0x20..=0x7e => out.push(byte),
                _ => return None,
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests;
