//! When a page is fresh, stale, or no longer useful.

use crate::{Grace, Millis, Terms};

/// How long a page that may not even be used when stale is kept for validation, in milliseconds.
pub const RETAINED: Millis = 3_600_000;

/// The largest part of a lifetime that is cut off, so that pages stored together don't expire together: 1/16.
const JITTER: u64 = 16;

/// The state of a page at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// To be sent.
    Fresh,
    /// To be validated, or sent if necessary.
    Stale(Grace),
    /// To be removed.
    Useless,
}

/// The time at which a page that arrived at `came` becomes stale. Depends only on the arguments: the same key always
/// loses the same part of its lifetime.
pub fn expiry(terms: &Terms, came: Millis, hash: u64) -> Millis {
    let lifetime = terms.ttl.saturating_sub(terms.age);
    // The upper half: the lower one chose the shard and the position in the index.
    let part = hash >> 32;
    let cut = ((u128::from(lifetime / JITTER) * u128::from(part)) >> 32) as Millis;
    came.saturating_add(lifetime - cut)
}

/// The state at `now` of a page that expires at `expires`.
pub fn state(terms: &Terms, expires: Millis, purged: bool, validators: bool, now: Millis) -> Freshness {
    if now < expires && !purged && !terms.no_cache {
        return Freshness::Fresh;
    }
    let late = now.saturating_sub(expires);
    let never = terms.no_cache || terms.must_revalidate;
    let grace = Grace {
        while_revalidating: !never && late < terms.stale_while_revalidate,
        on_error: !never && late < terms.stale_if_error,
        purged,
    };
    if grace.while_revalidating || grace.on_error || (validators && late < RETAINED) {
        Freshness::Stale(grace)
    } else {
        Freshness::Useless
    }
}
