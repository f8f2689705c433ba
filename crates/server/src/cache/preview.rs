//! What the page cache would do with a request, without doing it: for `millrace cache explain`. Nothing is counted, no
//! script runs, and no page becomes wanted by it.

use std::rc::Rc;
use std::sync::Arc;

use millrace_pages::looked::READS;
use millrace_pages::places::COUNTRY;
use millrace_pages::{Bypass, Peek, Rules, ask};

use super::audience::{self, Admission, Admit};
use super::lately::PageHistory;
use super::slot::{PageSlot, peek};
use super::{CacheThread, settle};
use millrace_base::message::Request;
use millrace_base::site::Site;

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
}

/// A decision.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// The stored page counts.
    Lookup,
    /// The same, because PHP has found that the cookies mean nothing.
    LookupAsAnonymous,
    /// The page for such visitors counts: why it is right for them.
    LookupAs(&'static str),
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

/// What the page cache would do with a request; `path` is its normalised path; `admit` knows visitors. `None`: it is off for the site.
pub fn preview(
    thread: &Rc<CacheThread>,
    site: &Arc<Site>,
    request: &Request,
    path: &[u8],
    admit: Admit,
) -> Option<Preview> {
    let rules = site.cache.as_deref()?;
    let mut key = Vec::new();
    let asked = ask(rules, &settle::asked(site, request, path), &mut key);
    let (decision, stripped) = match asked {
        Ok(_) => (Decision::Lookup, None),
        Err(why @ Bypass::Cookie { .. }) => {
            let stripped = site.visitors.without_cookies(request);
            match PageSlot::at(thread, site, &stripped, path).map_err(|why| bypass(&why)) {
                Err(other) => (other, Some(page_only(rules, site, request, path, &mut key))),
                Ok(slot) => {
                    let decision;
                    (decision, key) = admitted(slot, admit(thread, site, request), &why);
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
    Some(Preview { decision, key: key.into(), peek, variant, looked_for, history })
}

/// The key of the page alone, and a request without fields.
fn page_only(rules: &Rules, site: &Site, request: &Request, path: &[u8], key: &mut Vec<u8>) -> Request {
    millrace_pages::ask::write_page_key(rules, &settle::asked(site, request, path), key);
    request.derived(request.head.path_query(), |_| false, &[])
}

/// The decision for a request whose cookies keep it from the public page in the slot, and the key of the page that counts.
fn admitted(mut slot: PageSlot<'_>, admission: Admission, why: &Bypass<'_>) -> (Decision, Vec<u8>) {
    let key = slot.key.clone();
    let decision = match admission {
        Admission::Anybody => Decision::LookupAsAnonymous,
        Admission::Held(why) => bypass(&why),
        Admission::Unknown => bypass(why),
        Admission::Visitor(visitor) => match audience::would_get(&mut slot, &*visitor) {
            Ok(()) => return (Decision::LookupAs(visitor.kind().reason), slot.key),
            Err(why) => bypass(&why),
        },
    };
    (decision, key)
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
