//! The judgement on a response: stored, under which terms, or refused, and why.
//!
//! The rules are those of RFC 9111 for a shared cache. The first source that says anything determines the lifetime:
//!
//! 1. `millrace_cache_control()`, `Millrace-Cache-Control`, and `X-LiteSpeed-Cache-Control` where the site obeys LiteSpeed's fields;
//! 2. `CDN-Cache-Control` (RFC 9213): if it is valid, `Cache-Control` and `Expires` don't count;
//! 3. `Surrogate-Control`;
//! 4. `X-Accel-Expires`;
//! 5. `millrace_cache_control()` as a fallback, which integrations call on pages that know nothing about a cache: a
//!    refusal in it always counts, a permission yields to every refusal of the page's own `Cache-Control`;
//! 6. `Cache-Control`, then `Expires`;
//! 7. in profile mode, the profile: a lifetime for each kind of response.
//!
//! Nothing is guessed from `Last-Modified`. Some responses are never stored, whatever these sources say: one that
//! sets a cookie (except by LiteSpeed's `LSC-Cookie`) or has a `Cart-Token`, one to a request with `Authorization` unless RFC 9111 section
//! 3.5 allows it, a partial one, one that ended in an error, one that is too large.

mod freshen;
mod grounds;
mod keep;
mod said;
mod word;

pub use freshen::{Freshened, Validators, freshen};
pub use grounds::{Grounds, READS, grounds};
pub use keep::{CRAWLER_SEES, Keep, is_ours};

use crate::ask::Asking;
use crate::notes::Notes;
use crate::place::Place;
use crate::places::Country;
use crate::rules::{Mode, NONCE_LIFE, ReadFields, Rules};
use crate::terms::MOST_TAGS;
use crate::{Millis, Tag, Terms, carts};
use said::Said;
use word::LifetimeSource;

/// The application's response to a request that led a fill.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a, F> {
    /// Its status code.
    pub status: u16,
    /// Its fields, all as the application set them.
    pub fields: F,
    /// What the script reported by functions.
    pub notes: &'a Notes,
    /// The country of the client, if it is known.
    pub country: Option<Country>,
    /// Its content; empty if not known yet.
    pub content: &'a [u8],
    /// The script ended in a fatal error, its worker died, or the content is incomplete.
    pub failed: bool,
}

/// The judgement on a response.
#[derive(Debug)]
pub enum Verdict {
    /// It is stored.
    Store {
        /// Under these terms.
        terms: Terms,
        /// With these of its fields.
        keep: Keep,
    },
    /// It is not stored.
    Refuse {
        /// Why.
        why: Refusal,
        /// How long later requests should not wait for a fill that the same request leads; 0: the next response may
        /// be cacheable.
        remember: Millis,
    },
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The script ended in an error, or the content is not complete.
    Failed,
    /// Responses with this status are never stored.
    Status,
    /// `no-store`
    NoStore,
    /// `private`
    Private,
    /// `no-cache`, without a validator.
    NoCache,
    /// It sets a cookie.
    SetCookie,
    /// It names a cart for its client: `Cart-Token`.
    Token,
    /// The request had `Authorization`, and the response does not say that it is public (RFC 9111 section 3.5).
    Authorization,
    /// It varies by everything, or by something that the rules forbid.
    Vary,
    /// It is for visitors in one country, and it is not certain that the client is one.
    Country,
    /// It is stale when it arrives.
    Expired,
    /// No source says how long it is valid.
    NoLifetime,
    /// It is too large.
    TooLarge,
    /// It has so many tags that a purge might miss it.
    TooManyTags,
    /// The client asked not to store it.
    Client,
    /// The request's query differs from the key's, and this is not an ordinary page: see [`Asking::reduced`].
    Arguments,
    /// It depends on a cookie of its visitor that the cache doesn't know.
    Cookie,
    /// Its script has read of the request what only this client sends, or all fields.
    Fields,
    /// The script handed a file over instead of a page: `X-Accel-Redirect`, `X-Sendfile`.
    HandedOver,
}

impl Refusal {
    /// A word for `Cache-Status` and counters. Stable.
    pub fn word(self) -> &'static str {
        match self {
            Refusal::Failed => "failed",
            Refusal::Status => "status",
            Refusal::NoStore => "no-store",
            Refusal::Private => "private",
            Refusal::NoCache => "no-cache",
            Refusal::SetCookie => "set-cookie",
            Refusal::Token => "token",
            Refusal::Authorization => "authorization",
            Refusal::Vary => "vary",
            Refusal::Country => "country",
            Refusal::Expired => "expired",
            Refusal::NoLifetime => "no-lifetime",
            Refusal::TooLarge => "too-large",
            Refusal::TooManyTags => "too-many-tags",
            Refusal::Client => "client",
            Refusal::Arguments => "arguments",
            Refusal::Cookie => "cookie",
            Refusal::Fields => "fields",
            Refusal::HandedOver => "handed-over",
        }
    }

    /// Whether the next response to the same request may be cacheable.
    fn passes(self) -> bool {
        use Refusal::*;
        matches!(self, Failed | Status | Client | Arguments | Authorization | Cookie)
    }
}

/// Judges a response. For a 304, see [`freshen`].
pub fn judge<'a, F>(
    rules: &Rules,
    place: &Place<'_>,
    asking: &Asking,
    answer: &Answer<'a, F>,
    now: Millis,
) -> Verdict
where
    F: Iterator<Item = (&'a str, &'a [u8])> + Clone,
{
    let said = Said::hear(rules, answer.fields.clone(), answer.notes);
    let case =
        Case { rules, place, asking, status: answer.status, country: answer.country, said: &said, now };
    match case.terms(answer.content, answer.failed) {
        Ok(terms) => Verdict::Store { terms, keep: said.keep() },
        // That a page was not for this client's country says nothing about others, but some may come from the same country.
        Err(why) if said.country().is_some() => {
            Verdict::Refuse { why, remember: rules.remember_refusal.min(UNKNOWN_COUNTRY) }
        }
        Err(why) => refuse(rules, why),
    }
}

/// How long it is remembered that a page that differs by country could not be stored for one visitor. Short: visitors from known
/// countries would get it from PHP as well. Not 0: with a country that is never known, all requests for the page would wait for each other.
const UNKNOWN_COUNTRY: Millis = 2000;

/// The tags that the refused response would have had: purging one makes the cache forget that it is uncacheable. If
/// there are very many, only the first count.
pub fn tags<'a, F>(rules: &Rules, place: &Place<'_>, answer: &Answer<'a, F>) -> Box<[Tag]>
where
    F: Iterator<Item = (&'a str, &'a [u8])> + Clone,
{
    let said = Said::hear(rules, answer.fields.clone(), answer.notes);
    let mut tags = all_tags(rules, place, &said);
    tags.truncate(MOST_TAGS);
    tags.sort_unstable();
    tags.dedup();
    tags.into()
}

/// Implicit and then named tags, with repetitions.
fn all_tags(rules: &Rules, place: &Place<'_>, said: &Said<'_>) -> Vec<Tag> {
    let mut query = Vec::new();
    place.write_query(rules, &mut query);
    let mut tags = Tag::implicit(place, &query).to_vec();
    tags.extend(said.tags.iter().map(|name| Tag::named(place.site, name)));
    tags
}

fn refuse(rules: &Rules, why: Refusal) -> Verdict {
    Verdict::Refuse { why, remember: if why.passes() { 0 } else { rules.remember_refusal } }
}

/// The input of a judgement.
struct Case<'c, 'a> {
    rules: &'c Rules,
    place: &'c Place<'c>,
    asking: &'c Asking,
    status: u16,
    country: Option<Country>,
    said: &'c Said<'a>,
    now: Millis,
}

impl Case<'_, '_> {
    fn terms(&self, content: &[u8], failed: bool) -> Result<Terms, Refusal> {
        let Case { rules, said, .. } = self;
        let objections = [
            (failed, Refusal::Failed),
            (self.asking.reduced && self.status != 200, Refusal::Arguments),
            (content.len() > rules.largest_page, Refusal::TooLarge),
            (said.vary.refused, Refusal::Vary),
            (
                said.country().is_some_and(|country| country.is_none() || country != self.country),
                Refusal::Country,
            ),
            (said.sets_cookie, Refusal::SetCookie),
            (said.has_token, Refusal::Token),
            (said.looked.is_own, Refusal::Cookie),
        ];
        if let Some((_, why)) = objections.into_iter().find(|(holds, _)| *holds) {
            return Err(why);
        }
        let word = LifetimeSource::of(self);
        let counts_reads = self.counts_reads(&word)?;
        self.may_store(&word)?;
        let mut terms = Terms {
            ttl: word.ttl.unwrap_or(0).min(rules.longest_life),
            age: said.age(self.now),
            no_cache: word.control.no_cache,
            must_revalidate: word.forbids_stale(),
            vary: said.vary_names(counts_reads),
            tags: self.tags()?,
            ..Terms::default()
        };
        graces(rules, &word, &mut terms);
        if terms.age >= terms.ttl && !age_graces(&mut terms) && !said.has_validators {
            return Err(Refusal::Expired);
        }
        let has_mark = |mark: &str| memchr::memmem::find(content, mark.as_bytes()).is_some();
        if said.nonce() || rules.nonce_marks.iter().any(|mark| has_mark(mark)) {
            cap(&mut terms, NONCE_LIFE);
        }
        Ok(terms)
    }

    /// Whether the page varies by the fields that its script has read.
    fn counts_reads(&self, word: &LifetimeSource) -> Result<bool, Refusal> {
        let read = &self.said.read;
        let is_own = word.is_own(self);
        if read.lines.is_empty() || is_own && self.rules.read_fields == ReadFields::Unsaid {
            return Ok(false);
        }
        // Frameworks look at all fields before they know which ones matter, and then say so.
        let depends_on_all = read.all.is_some() && !is_own;
        if read.never.is_some() || depends_on_all { Err(Refusal::Fields) } else { Ok(true) }
    }

    /// RFC 9111 section 3.
    fn may_store(&self, word: &LifetimeSource) -> Result<(), Refusal> {
        let (control, status, standard) = (&word.control, self.status, self.rules.mode == Mode::Standard);
        // 206 would have to be combined, and 304 has no content.
        if status < 200 || matches!(status, 206 | 304) || !standard && status >= 500 {
            return Err(Refusal::Status);
        }
        // Section 5.2.2.3: for a status whose rules we implement, no-store is ignored.
        let understood =
            matches!(status, 200 | 203 | 204 | 300 | 301 | 302 | 303 | 307 | 308 | 404 | 405 | 410 | 414);
        if control.must_understand && !understood {
            return Err(Refusal::Status);
        }
        if control.no_store && !(control.must_understand && standard) {
            return Err(Refusal::NoStore);
        }
        if control.private {
            return Err(Refusal::Private);
        }
        if self.asking.wants.no_store {
            return Err(Refusal::Client);
        }
        // Section 3.5.
        let for_all = control.public || control.must_revalidate || control.s_maxage.is_some();
        if self.asking.authorization && !for_all {
            return Err(Refusal::Authorization);
        }
        if control.no_cache {
            return if self.said.has_validators { Ok(()) } else { Err(Refusal::NoCache) };
        }
        match word.ttl {
            None => Err(Refusal::NoLifetime),
            Some(0) => Err(Refusal::Expired),
            Some(_) => Ok(()),
        }
    }

    fn tags(&self) -> Result<Box<[Tag]>, Refusal> {
        if self.said.tags.len() > 4 * MOST_TAGS {
            return Err(Refusal::TooManyTags);
        }
        let mut tags = all_tags(self.rules, self.place, self.said);
        if self.said.is_cart_unread && self.rules.mode == Mode::Profile {
            tags.push(carts::unread(self.place.site));
        }
        tags.sort_unstable();
        tags.dedup();
        if tags.len() > MOST_TAGS { Err(Refusal::TooManyTags) } else { Ok(tags.into()) }
    }
}

/// How long it may be used when stale (RFC 5861). The application's value is bounded; without one, the rules apply.
fn graces(rules: &Rules, word: &LifetimeSource, terms: &mut Terms) {
    let asked = |seconds: Option<u64>, usual: Millis| match seconds {
        Some(seconds) => (seconds * 1000).min(rules.grace.most),
        None => usual,
    };
    let control = &word.control;
    if terms.no_cache || terms.must_revalidate {
        return;
    }
    terms.stale_while_revalidate = asked(control.stale_while_revalidate, rules.grace.while_revalidating);
    terms.stale_if_error = asked(control.stale_if_error, rules.grace.on_error);
}

/// It was stale when it arrived: that time counts. Returns whether it may be used at all without validation.
fn age_graces(terms: &mut Terms) -> bool {
    let late = terms.age - terms.ttl;
    terms.stale_while_revalidate = terms.stale_while_revalidate.saturating_sub(late);
    terms.stale_if_error = terms.stale_if_error.saturating_sub(late);
    terms.stale_while_revalidate.max(terms.stale_if_error) > 0
}

/// Limits its whole life, fresh and stale.
fn cap(terms: &mut Terms, most: Millis) {
    terms.ttl = terms.ttl.min(most);
    terms.stale_while_revalidate = terms.stale_while_revalidate.min(most - terms.ttl);
    terms.stale_if_error = terms.stale_if_error.min(most - terms.ttl);
}

#[cfg(test)]
mod tests;
