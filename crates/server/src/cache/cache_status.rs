//! What a response says about the cache: `Cache-Status` (RFC 9211), `Age`, and two fields that other tools look for,
//! `X-Cache` and `X-LiteSpeed-Cache`.

use millrace_pages::status::{self, Forward, Status};
use millrace_pages::{Bypass, Hit, Refusal, StoreOutcome};

use super::fill::Brought;
use millrace_base::message::reply::Reply;

/// Why a response comes from PHP.
#[derive(Clone, Copy, Debug)]
pub struct CacheStatus {
    status: Option<Status<'static>>,
    /// Number of purges that had begun before a script ran for a visitor with cookies of its own.
    orders: u64,
}

impl CacheStatus {
    /// The cache is off: it adds nothing.
    pub const NOTHING: CacheStatus = CacheStatus { status: None, orders: 0 };
    /// There was no page.
    pub const MISS: CacheStatus = CacheStatus::because(Forward::UriMiss, None);
    /// There was no page for this variant, but there are others for the same URL.
    pub const VARIANT_MISS: CacheStatus = CacheStatus::because(Forward::VaryMiss, None);
    /// There was a page, but it is stale.
    pub const STALE: CacheStatus = CacheStatus::because(Forward::Stale, None);
    /// There is a page, but the request asks for a new one.
    pub const REQUEST: CacheStatus = CacheStatus::because(Forward::Request, None);
    /// The page is known to be uncacheable.
    pub const PASS: CacheStatus = CacheStatus::because(Forward::Miss, Some("uncacheable"));
    /// The page has the maximum of variants, and the request wants another one.
    pub const FULL: CacheStatus = CacheStatus::because(Forward::Miss, Some(TOO_MANY_VARIANTS));

    /// The rules of the cache exclude the request.
    pub fn ruled_out(why: &Bypass<'_>) -> CacheStatus {
        match why {
            Bypass::Method => CacheStatus::because(Forward::Method, None),
            why => CacheStatus::bypass(why.detail()),
        }
    }

    /// The cache is bypassed, for a reason in one word.
    pub const fn bypass(why: &'static str) -> CacheStatus {
        CacheStatus::because(Forward::Bypass, Some(why))
    }

    const fn because(why: Forward, detail: Option<&'static str>) -> CacheStatus {
        let status = Status {
            forward: Some(why),
            forward_status: None,
            ttl: None,
            stored: false,
            collapsed: false,
            detail,
        };
        CacheStatus { status: Some(status), orders: 0 }
    }

    /// The same after so many purges have begun.
    pub fn after(self, orders: u64) -> CacheStatus {
        CacheStatus { orders, ..self }
    }

    /// Number of purges that had begun before.
    pub fn orders(self) -> u64 {
        self.orders
    }

    /// The same for a request that waits for a fill which another one has started.
    pub fn collapsed(self) -> CacheStatus {
        CacheStatus { status: self.status.map(|status| Status { collapsed: true, ..status }), ..self }
    }

    /// Whether a script was run because there was no page.
    pub fn is_miss(self) -> bool {
        let misses = [Forward::UriMiss, Forward::VaryMiss, Forward::Stale, Forward::Request];
        self.status.is_some_and(|status| status.forward.is_some_and(|forward| misses.contains(&forward)))
    }

    /// Whether a script was run because cookies identify the visitor.
    pub fn is_for_own_cookies(self) -> bool {
        let detail = self.status.and_then(|status| status.detail);
        detail.is_some_and(|detail| {
            detail == "cookie" || detail.starts_with("cart-") || detail.starts_with("member-")
        })
    }

    fn with(self, change: impl FnOnce(&mut Status<'static>)) -> Status<'static> {
        let mut status = self.status.unwrap_or_default();
        change(&mut status);
        status
    }
}

/// From a stored page, fresh or stale.
pub fn hit(reply: &mut Reply, hit: &Hit) {
    stored(reply, hit, Status::hit(hit.ttl_left));
}

/// From a stored page, for one visitor alone; `word`: what kind of visitor.
pub fn hit_of(reply: &mut Reply, hit: &Hit, word: &'static str) {
    stored(reply, hit, Status { detail: Some(word), ..Status::hit(hit.ttl_left) });
}

/// From a stale page, because PHP failed with this status, or did not respond in time.
pub fn stale_on_error(reply: &mut Reply, hit: &Hit, forward_status: Option<u16>) {
    let detail = Some(if forward_status.is_some() { "stale-if-error" } else { TIMEOUT });
    let failed = Status::forwarded(Forward::Stale);
    stored(reply, hit, Status { ttl: Some(hit.ttl_left), forward_status, detail, ..failed });
}

/// The page did not come in time.
pub fn timed_out(reply: &mut Reply, cache_status: CacheStatus) {
    tell(reply, cache_status.with(|status| status.detail = Some(TIMEOUT)));
}

const TIMEOUT: &str = "timeout";

const TOO_MANY_VARIANTS: &str = "too-many-variants";

/// Why a page that was to be stored was not.
pub fn not_stored(stored: StoreOutcome) -> Option<&'static str> {
    match stored {
        StoreOutcome::Fresh | StoreOutcome::Stale => None,
        StoreOutcome::Purged => Some("purged"),
        StoreOutcome::Expired => Some(Refusal::Expired.word()),
        StoreOutcome::TooLarge => Some(Refusal::TooLarge.word()),
        StoreOutcome::TooManyVariants => Some(TOO_MANY_VARIANTS),
        StoreOutcome::Superseded => Some("superseded"),
    }
}

fn stored(reply: &mut Reply, hit: &Hit, status: Status<'_>) {
    let lines = reply.fields.own_mut();
    lines.reserve(128);
    lines.extend_from_slice(b"Age: ");
    status::age(hit.age, lines);
    lines.extend_from_slice(b"\r\n");
    tell(reply, status);
}

/// From a newly made page.
pub fn made(reply: &mut Reply, brought: &Brought, cache_status: CacheStatus) {
    if brought.age > 0 {
        let lines = reply.fields.own_mut();
        lines.extend_from_slice(b"Age: ");
        status::age(brought.age, lines);
        lines.extend_from_slice(b"\r\n");
    }
    tell(
        reply,
        cache_status.with(|status| {
            status.stored = brought.refused.is_none();
            status.detail = brought.refused;
        }),
    );
}

/// From a page that a script is still making.
pub fn streamed(reply: &mut Reply, cache_status: CacheStatus) {
    tell(reply, cache_status.with(|_| ()));
}

/// PHP's error, for all requests that waited.
pub fn failed(reply: &mut Reply, cache_status: CacheStatus) {
    tell(reply, cache_status.with(|status| status.detail = Some("failed")));
}

/// A response for one visitor only.
pub fn refused(reply: &mut Reply, cache_status: CacheStatus, why: Refusal) {
    tell(reply, cache_status.with(|status| status.detail = Some(why.word())));
}

/// A response that bypassed the cache.
pub fn alone(reply: &mut Reply, cache_status: CacheStatus) {
    if let Some(status) = cache_status.status {
        status_and_word(reply.fields.own_mut(), &status);
    }
}

fn tell(reply: &mut Reply, status: Status<'_>) {
    let lines = reply.fields.own_mut();
    status_and_word(lines, &status);
    if let Some(word) = status.litespeed() {
        lines.extend_from_slice(b"X-LiteSpeed-Cache: ");
        lines.extend_from_slice(word.as_bytes());
        lines.extend_from_slice(b"\r\n");
    }
}

fn status_and_word(lines: &mut Vec<u8>, status: &Status<'_>) {
    lines.extend_from_slice(b"Cache-Status: ");
    status.write(lines);
    lines.extend_from_slice(b"\r\nX-Cache: ");
    lines.extend_from_slice(status.x_cache().as_bytes());
    lines.extend_from_slice(b"\r\n");
}
