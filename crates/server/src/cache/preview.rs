//! What the page cache would do with a request, without doing it: for `millrace cache explain`. Nothing is counted, no
//! script runs, and no page becomes wanted by it.

use std::sync::Arc;

use millrace_pages::ask::write_role;
use millrace_pages::carts::PageProof;
use millrace_pages::looked::READS;
use millrace_pages::places::COUNTRY;
use millrace_pages::visitors::{CartHold, MemberHold, MemberPass, Pass};
use millrace_pages::{Bypass, Key, Peek, PeekEntry, PeekPage, Rules, ask};

use super::lately::PageHistory;
use super::{CacheThread, cart, member, settle};
use millrace_base::message::Request;
use millrace_base::site::Site;
use millrace_base::site::visitors::CachePermit;

/// What the page cache would do with a request.
#[derive(Debug)]
pub struct Preview {
    /// The decision.
    pub decision: Decision,
    /// The key of the page; without the parts that depend on fields, if the request bypasses the cache.
    pub key: Box<[u8]>,
    /// What is stored for the request; if it bypasses the cache, for a visitor without such cookies.
    pub peek: Peek,
    /// The values of the request that distinguish variants, with the names of their fields.
    pub variant: Vec<(Box<str>, String)>,
    /// A visitor with one of these cookies does not get the page; `*`: any cookie that the cache does not know.
    pub looked_for: Vec<Box<str>>,
    /// What PHP said lately, and what bypassed the cache.
    pub history: PageHistory,
    /// What differs for visitors with a cart; true: on this page, false: on another one of its kind.
    pub cart_differences: Vec<(bool, Box<str>)>,
}

/// A decision.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// The stored page counts.
    Lookup,
    /// The same, because PHP has found that the cookies mean nothing.
    LookupAsAnonymous,
    /// The public page counts, although the visitor has a cart.
    LookupWithCart,
    /// The page for members with the visitor's rights counts.
    LookupAsMember,
    /// The request bypasses the cache.
    Bypass {
        /// As in `Cache-Status`.
        word: &'static str,
        /// The cookie, path, argument or field behind it.
        name: String,
        /// The pattern of the profile or of a setting that it matches.
        pattern: String,
    },
}

/// What the page cache would do with a request; `path` is its normalised path. `None`: it is off for the site.
pub fn preview(thread: &CacheThread, site: &Site, request: &Request, path: &[u8]) -> Option<Preview> {
    let rules = site.cache.as_deref()?;
    let mut key = Vec::new();
    let asked = ask(rules, &settle::asked(site, request, path), &mut key);
    let (decision, stripped) = match asked {
        Ok(_) => (Decision::Lookup, None),
        Err(why @ Bypass::Cookie { .. }) => {
            let stripped = site.visitors.without_cookies(request);
            let asked = ask(rules, &settle::asked(site, &stripped, path), &mut key);
            match asked.map_err(|why| bypass(&why)) {
                Err(other) => (other, Some(page_only(rules, site, request, path, &mut key))),
                Ok(_) => {
                    let decision = by_permit(thread, site, rules, &stripped, &mut key, request, &why);
                    (decision, Some(stripped))
                }
            }
        }
        Err(why) => {
            let decision = bypass(&why);
            (decision, Some(page_only(rules, site, request, path, &mut key)))
        }
    };
    let request = stripped.as_ref().unwrap_or(request);
    let peek = peek(thread, site, rules, request, &key);
    let meant = peek.vary.iter().find_map(|name| settle::meant_cookie(rules, request, name));
    // PHP finds out the country of an address that is new.
    let lacks_country = peek.vary.iter().any(|name| **name == *COUNTRY)
        && site.visitors.country(&thread.context, request).is_none();
    let decision = match (decision, meant) {
        (Decision::Lookup | Decision::LookupAsAnonymous, _) if lacks_country => bypass(&Bypass::Country),
        (Decision::Lookup | Decision::LookupAsAnonymous, Some(cookie)) => {
            bypass(&Bypass::UnknownCookie(cookie))
        }
        (decision, _) => decision,
    };
    let value = |name: &str| {
        let mut value = Vec::new();
        settle::select(thread, site, rules, request, name, &mut value);
        // The sign only distinguishes an empty field from a missing one.
        String::from_utf8_lossy(value.strip_prefix(b"=").unwrap_or(&value)).into_owned()
    };
    let fields = peek.vary.iter().filter(|name| !name.starts_with(READS));
    let variant = fields.map(|name| (name.clone(), value(name))).collect();
    let looked_for = peek.vary.iter().filter_map(|name| name.strip_prefix(READS)).map(Box::from).collect();
    let history = thread.cache.lately.of(&key);
    let cart_differences = match &peek.entry {
        PeekEntry::Page(PeekPage { terms, .. }) => {
            site.visitors.with_proofs(&thread.context, |proofs, now| {
                proofs.differences(&terms.tags, Key::new(&key).hash, now)
            })
        }
        _ => Vec::new(),
    };
    Some(Preview { decision, key: key.into(), peek, variant, looked_for, history, cart_differences })
}

/// The key of the page alone, and a request without fields.
fn page_only(rules: &Rules, site: &Site, request: &Request, path: &[u8], key: &mut Vec<u8>) -> Request {
    millrace_pages::ask::write_page_key(rules, &settle::asked(site, request, path), key);
    request.derived(request.head.path_query(), |_| false, &[])
}

/// The decision for a request whose cookies identify a visitor; `key` is that of the public page, and becomes that of the page for members
/// if this is what counts.
fn by_permit(
    thread: &CacheThread,
    site: &Site,
    rules: &Rules,
    stripped: &Request,
    key: &mut Vec<u8>,
    request: &Request,
    why: &Bypass<'_>,
) -> Decision {
    match site.visitors.would_permit(&thread.context, request) {
        CachePermit::Anonymous => Decision::LookupAsAnonymous,
        CachePermit::Cart(pass) => with_cart(thread, site, rules, stripped, key, &pass),
        CachePermit::Held(hold) => bypass(&Bypass::Cart(hold)),
        CachePermit::Member(pass) => as_member(thread, site, rules, stripped, key, &pass),
        CachePermit::HeldMember(hold) => bypass(&Bypass::Member(hold)),
        CachePermit::None => bypass(why),
    }
}

fn as_member(
    thread: &CacheThread,
    site: &Site,
    rules: &Rules,
    stripped: &Request,
    key: &mut Vec<u8>,
    pass: &MemberPass,
) -> Decision {
    let mut own = key.clone();
    write_role(&mut own, &pass.role);
    let found = match peek(thread, site, rules, stripped, &own).entry {
        PeekEntry::Page(PeekPage { page, terms, grace: None, .. }) => {
            member::may_have(thread, site, (&own, page.stored), &terms, pass)
        }
        _ => Err(MemberHold::Page),
    };
    match found {
        Ok(()) => {
            *key = own;
            Decision::LookupAsMember
        }
        Err(why) => bypass(&Bypass::Member(why)),
    }
}

fn with_cart(
    thread: &CacheThread,
    site: &Site,
    rules: &Rules,
    stripped: &Request,
    key: &[u8],
    pass: &Arc<Pass>,
) -> Decision {
    let held = |hold| bypass(&Bypass::Cart(hold));
    match peek(thread, site, rules, stripped, key).entry {
        PeekEntry::Page(PeekPage { terms, grace: None, .. }) => {
            if !cart::is_unread(site, &terms) {
                return held(CartHold::Reads);
            }
            match cart::proof(thread, site, key, &terms, pass) {
                PageProof::Proven => Decision::LookupWithCart,
                PageProof::Unproven => held(CartHold::Unproven),
                PageProof::Differs => held(CartHold::Differs),
            }
        }
        _ => held(CartHold::Page),
    }
}

fn bypass(why: &Bypass<'_>) -> Decision {
    let pattern = match why {
        Bypass::Cookie { pattern, .. } => pattern,
        Bypass::Path(pattern) | Bypass::Argument(pattern) => pattern,
        _ => "",
    };
    // Of a path the rule is known, not the path.
    let name = why.what().filter(|_| !matches!(why, Bypass::Cart(_) | Bypass::Member(_))).unwrap_or_default();
    Decision::Bypass { word: why.detail(), name: name.to_owned(), pattern: pattern.to_owned() }
}

fn peek(thread: &CacheThread, site: &Site, rules: &Rules, request: &Request, key: &[u8]) -> Peek {
    let (key, cache) = (Key::new(key), &thread.cache);
    let mut select = |name: &str, out: &mut Vec<u8>| settle::select(thread, site, rules, request, name, out);
    cache.lock(cache.shard_of(key)).peek(key, &mut select, cache.now(&thread.context))
}
