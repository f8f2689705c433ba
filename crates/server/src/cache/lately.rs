//! What PHP said lately about pages, and why requests for them bypassed the cache, for `millrace cache explain`. The
//! store knows tags only by their hashes; this table has their names.
//!
//! It is filled after each run of PHP for a page and at each bypass, never on the path of a hit. It owns at most
//! [`MOST_BYTES`] beside the memory of the cache: of two halves, the new one becomes the old one when it is full, and the
//! old one is dropped. A page that is noted or looked up moves to the new half.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use millrace_pages::judge::Grounds;
use millrace_pages::{Bypass, Millis};

/// Maximum memory of the table, bytes, roughly.
const MOST_BYTES: usize = 4 << 20;

/// Number of responses that are remembered for a page.
const RESPONSES: usize = 4;

/// Number of different causes of bypasses that are remembered for a page.
const BYPASSES: usize = 8;

/// What PHP said about a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedResponse {
    /// When.
    pub at: Millis,
    /// Key of the page, with its extra part.
    pub key: Box<[u8]>,
    /// Status code.
    pub status: u16,
    /// `stored`, or why not, in a word.
    pub outcome: &'static str,
    /// What decided that.
    pub grounds: Grounds,
}

impl NotedResponse {
    /// The outcome of a response that was stored.
    pub const STORED: &'static str = "stored";
    /// The outcome of a 304: the stored page is still valid.
    pub const CONFIRMED: &'static str = "confirmed";

    /// PHP has confirmed the stored page. The response has no tags; the page keeps its own.
    pub fn confirmed(key: &[u8], at: Millis, grounds: Grounds) -> NotedResponse {
        NotedResponse { at, key: key.into(), status: 304, outcome: NotedResponse::CONFIRMED, grounds }
    }

    /// Whether the page is stored, as far as this response is concerned.
    pub fn is_stored(&self) -> bool {
        matches!(self.outcome, NotedResponse::STORED | NotedResponse::CONFIRMED)
    }
}

/// Requests for a page that bypassed the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BypassCount {
    /// The reason in a word.
    pub reason: &'static str,
    /// The cookie, argument or field behind it.
    pub name: Box<str>,
    /// Number of requests.
    pub count: u64,
    /// The time of the last one.
    pub last: Millis,
}

/// What is known about a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageHistory {
    /// The latest responses of PHP, the newest first.
    pub responses: Vec<NotedResponse>,
    /// The latest causes of bypasses.
    pub bypasses: Vec<BypassCount>,
}

/// The table.
#[derive(Debug, Default)]
pub struct Lately(Mutex<Halves>);

#[derive(Debug, Default)]
struct Halves {
    new: HashMap<Box<[u8]>, PageHistory>,
    old: HashMap<Box<[u8]>, PageHistory>,
    /// Bytes of the new half.
    bytes: usize,
}

impl Lately {
    /// PHP has responded for a page.
    pub fn note(&self, response: NotedResponse) {
        let page: Box<[u8]> = page_of(&response.key).into();
        self.change(&page, |history| {
            history.responses.truncate(RESPONSES - 1);
            history.responses.insert(0, response);
        });
    }

    /// A request for the page with this key bypassed the cache.
    pub fn bypassed(&self, key: &[u8], why: &Bypass<'_>, now: Millis) {
        let (reason, name) = (why.word(), why.what().unwrap_or_default());
        self.change(page_of(key), |history| {
            let list = &mut history.bypasses;
            let known = list.iter_mut().find(|known| known.reason == reason && *known.name == *name);
            if let Some(known) = known {
                (known.count, known.last) = (known.count + 1, now);
                return;
            }
            if list.len() == BYPASSES
                && let Some(oldest) = (0..BYPASSES).min_by_key(|at| list[*at].last)
            {
                list.swap_remove(oldest);
            }
            let name = shortened(name);
            list.push(BypassCount { reason, name, count: 1, last: now });
        });
    }

    /// What is known about the page with this key.
    pub fn of(&self, key: &[u8]) -> PageHistory {
        let halves = self.lock();
        let page = page_of(key);
        halves.new.get(page).or_else(|| halves.old.get(page)).cloned().unwrap_or_default()
    }

    fn change(&self, page: &[u8], change: impl FnOnce(&mut PageHistory)) {
        let halves = &mut *self.lock();
        if !halves.new.contains_key(page) {
            let history = halves.old.remove(page).unwrap_or_default();
            halves.bytes += page.len() + history.bytes();
            halves.new.insert(page.into(), history);
        }
        let Some(history) = halves.new.get_mut(page) else { return };
        let before = history.bytes();
        change(history);
        halves.bytes = (halves.bytes + history.bytes()).saturating_sub(before);
        if halves.bytes > MOST_BYTES / 2 {
            halves.old = std::mem::take(&mut halves.new);
            halves.bytes = 0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Halves> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PageHistory {
    /// Its memory, bytes, roughly: each allocation has some overhead.
    fn bytes(&self) -> usize {
        const EACH: usize = 16;
        let of_response = |response: &NotedResponse| {
            let Grounds { text, because, call, tags, .. } = &response.grounds;
            let tags: usize = tags.iter().map(|tag| size_of::<Box<str>>() + EACH + tag.len()).sum();
            let texts =
                text.len() + [because, call].into_iter().flatten().map(|text| text.len()).sum::<usize>();
            size_of::<NotedResponse>() + response.key.len() + texts + tags + 3 * EACH
        };
        let responses: usize = self.responses.iter().map(of_response).sum();
        let of_bypass = |bypass: &BypassCount| size_of::<BypassCount>() + EACH + bypass.name.len();
        let bypasses: usize = self.bypasses.iter().map(of_bypass).sum();
        size_of::<PageHistory>() + 2 * EACH + responses + bypasses
    }
}

/// The part of a key that all variants of a page share: site, scheme, host, path and query, each with its end.
fn page_of(key: &[u8]) -> &[u8] {
    const PARTS: usize = 5;
    let mut ends = memchr::memchr_iter(0, key);
    ends.nth(PARTS - 1).map_or(key, |end| &key[..=end])
}

/// The start of a name that a client has sent.
fn shortened(name: &str) -> Box<str> {
    const NAME_BYTES: usize = 80;
    name.chars()
        .scan(0, |length, c| {
            *length += c.len_utf8();
            (*length <= NAME_BYTES).then_some(c)
        })
        .collect::<String>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(key: &[u8], at: Millis) -> NotedResponse {
        NotedResponse { at, key: key.into(), status: 200, outcome: "stored", grounds: Grounds::default() }
    }

    #[test]
    fn variants_share_a_page_and_the_newest_comes_first() {
        let lately = Lately::default();
        lately.note(response(b"s\0http\0h\0/\0\0", 1));
        lately.note(response(b"s\0http\0h\0/\0\0dmobile\0", 2));
        lately.note(response(b"s\0http\0h\0/\0?a\0", 3));
        let at = |key: &[u8]| lately.of(key).responses.iter().map(|response| response.at).collect::<Vec<_>>();
        assert_eq!(at(b"s\0http\0h\0/\0\0c_lscache_vary=x\0"), [2, 1]);
        assert_eq!(at(b"s\0http\0h\0/\0?a\0"), [3]);
        (4..20).for_each(|n| lately.note(response(b"s\0http\0h\0/\0\0", n)));
        assert_eq!(at(b"s\0http\0h\0/\0\0"), [19, 18, 17, 16]);
    }

    #[test]
    fn causes_of_bypasses_are_counted() {
        let (lately, key) = (Lately::default(), b"s\0http\0h\0/\0\0");
        let by = |name: &'static str| Bypass::Cookie { pattern: "*", name: name.as_bytes() };
        lately.bypassed(key, &by("a"), 1);
        lately.bypassed(key, &by("a"), 2);
        lately.bypassed(key, &Bypass::Method, 3);
        let shown = |history: &PageHistory| {
            let list = history.bypasses.iter();
            list.map(|by| format!("{} {} {} {}", by.reason, by.name, by.count, by.last)).collect::<Vec<_>>()
        };
        assert_eq!(shown(&lately.of(key)), ["cookie a 2 2", "method  1 3"]);
        let long: &'static str = Box::leak("\u{e9}".repeat(90).into_boxed_str());
        (0..20).for_each(|n| lately.bypassed(key, &by(Box::leak(format!("{n}").into_boxed_str())), 4 + n));
        lately.bypassed(key, &by(long), 30);
        let history = lately.of(key);
        assert_eq!(history.bypasses.len(), BYPASSES);
        assert!(history.bypasses.iter().any(|by| *by.name == *"\u{e9}".repeat(40)));
    }

    #[test]
    fn it_is_bounded_and_forgets_the_oldest() {
        let lately = Lately::default();
        let key = |n: u64| format!("s\0http\0h\0/{n}\0\0").into_bytes();
        let tags: Box<[Box<str>]> = (0..50).map(|n| format!("post-{n}").into()).collect();
        for n in 0..5_000 {
            let grounds = Grounds { tags: tags.clone(), ..Grounds::default() };
            lately.note(NotedResponse { grounds, ..response(&key(n), n) });
            // A page that is used stays.
            lately.bypassed(&key(0), &Bypass::Method, n);
        }
        let halves = lately.lock();
        let bytes: usize = [&halves.new, &halves.old]
            .into_iter()
            .flat_map(|half| half.iter().map(|(key, history)| key.len() + history.bytes()))
            .sum();
        assert!(bytes <= MOST_BYTES + 10_000 && bytes > MOST_BYTES / 2, "{bytes}");
        drop(halves);
        assert!(lately.of(&key(1)).responses.is_empty());
        assert_eq!(lately.of(&key(4_999)).responses.len(), 1);
        assert_eq!(lately.of(&key(0)).bypasses[0].count, 5_000);
    }
}
