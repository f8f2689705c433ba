//! Entity-tags that a script set as strong ones, and that were sent as weak ones because the response was coded (RFC
//! 9110 section 8.8.1). The client sends the weak one back; a script that compares it with its own would not
//! recognise it. So changed tags are remembered, and restored in `If-None-Match` and `If-Match`; a script's own `W/`
//! tags stay weak.
//!
//! Only hashes of the tag and its resource are stored, a few thousand for all threads. A forgotten one only costs a
//! 304.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of remembered tags.
const PLACES: usize = 4096;

static NOTED: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

/// A resource: its authority, path and query.
pub type Resource<'a> = (&'a str, &'a [u8]);

/// Notes that the strong `tag` of `resource` was sent as a weak one.
pub fn note(resource: Resource<'_>, tag: &[u8]) {
    let hash = hash(resource, tag);
    NOTED[hash as usize % PLACES].store(hash, Ordering::Relaxed);
}

/// A list of entity-tags as the script knows them; `None`: none of them was changed.
pub fn restored(resource: Resource<'_>, list: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut rest, mut changed) = (Vec::with_capacity(list.len()), list, false);
    while let Some(quote) = memchr::memchr(b'"', rest) {
        let Some(length) = memchr::memchr(b'"', &rest[quote + 1..]) else { break };
        let (before, tag) = (&rest[..quote], &rest[quote..quote + length + 2]);
        let is_ours = before.ends_with(b"W/") && is_noted(resource, tag);
        changed |= is_ours;
        out.extend_from_slice(if is_ours { &before[..before.len() - 2] } else { before });
        out.extend_from_slice(tag);
        rest = &rest[quote + length + 2..];
    }
    out.extend_from_slice(rest);
    changed.then_some(out)
}

fn is_noted(resource: Resource<'_>, tag: &[u8]) -> bool {
    let hash = hash(resource, tag);
    NOTED[hash as usize % PLACES].load(Ordering::Relaxed) == hash
}

fn hash(resource: Resource<'_>, tag: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (resource, tag).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_changed_is_undone() {
        let (page, other): (Resource<'_>, Resource<'_>) = (("a.test", b"/tags?1"), ("a.test", b"/tags?2"));
        note(page, b"\"a\"");
        note(page, b"\"b,c\"");
        let table: &[(&str, Option<&str>)] = &[
            ("W/\"a\"", Some("\"a\"")),
            ("\"a\"", None),
            ("W/\"x\"", None),
            ("*", None),
            ("", None),
            ("W/\"a", None),
            ("W/\"x\", W/\"b,c\" , \"y\"", Some("W/\"x\", \"b,c\" , \"y\"")),
            ("W/\"a\", W/\"", Some("\"a\", W/\"")),
        ];
        for (list, expected) in table {
            let restored = restored(page, list.as_bytes());
            assert_eq!(restored.as_deref(), expected.map(str::as_bytes), "{list}");
        }
        assert_eq!(restored(other, b"W/\"a\""), None);
    }
}
