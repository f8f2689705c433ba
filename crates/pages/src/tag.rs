//! Tags, by which pages are purged.

use crate::Key;
use crate::place::Place;

/// The name of a group of pages of one site: 64 bits of a hash that is the same in every process, because it is
/// stored on disk.
///
/// Every page carries implicit tags: the whole site; host and path; host, path and query. The application sets named
/// tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

impl Tag {
    /// Every page of a site.
    pub fn site(site: &str) -> Tag {
        Tag::of(b's', &[site.as_bytes()])
    }

    /// All pages of a path, with any query. `host` as in [`Place`], `path` normalised.
    pub fn path(site: &str, host: &str, path: &[u8]) -> Tag {
        Tag::of(b'p', &[site.as_bytes(), host.as_bytes(), path])
    }

    /// The page of a path and query, in all its variants. `query` as in keys: with its `?`, or empty.
    pub fn url(site: &str, host: &str, path: &[u8], query: &[u8]) -> Tag {
        Tag::of(b'u', &[site.as_bytes(), host.as_bytes(), path, query])
    }

    /// A group of pages that the application has named.
    pub fn named(site: &str, name: &[u8]) -> Tag {
        Tag::of(b'n', &[site.as_bytes(), name])
    }

    /// The implicit tags of a page. `query` as in [`Tag::url`].
    pub fn implicit(place: &Place<'_>, query: &[u8]) -> [Tag; 3] {
        [
            Tag::site(place.site),
            Tag::path(place.site, place.host, place.path),
            Tag::url(place.site, place.host, place.path, query),
        ]
    }

    fn of(kind: u8, parts: &[&[u8]]) -> Tag {
        let mut hash = mix(SEED, u64::from(kind));
        for part in parts {
            hash = part_hash(hash, part);
        }
        // 0 is reserved as a tag that no page has.
        Tag(mix(hash, FINAL).max(1))
    }
}

const SEED: u64 = 0x243f_6a88_85a3_08d3;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const FINAL: u64 = 0x1319_8a2e_0370_7344;

/// One step: folds a 128-bit product.
fn mix(hash: u64, word: u64) -> u64 {
    let product =
        u128::from(hash ^ word.wrapping_mul(FACTOR) ^ FINAL) * u128::from(FACTOR ^ hash.rotate_left(32));
    (product as u64) ^ (product >> 64) as u64 ^ hash.rotate_left(17)
}

/// The length goes first, so that parts never run into each other.
fn part_hash(hash: u64, part: &[u8]) -> u64 {
    let mut hash = mix(hash, part.len() as u64);
    for chunk in part.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = mix(hash, u64::from_le_bytes(word));
    }
    hash
}

/// What to purge. URLs and sites are purged by implicit tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// All pages of all sites.
    Everything,
    /// All pages that carry the tag.
    Tag(Tag),
    /// All pages whose path begins with this one.
    Prefix {
        /// Name of the site.
        site: Box<str>,
        /// Only this host; `None`: all hosts of the site.
        host: Option<Box<str>>,
        /// As in keys: normalised.
        path: Box<[u8]>,
    },
}

impl Purge {
    /// Whether a prefix purge covers the page with this key. False for [`Purge::Tag`]: keys don't contain tags.
    pub fn covers(&self, key: Key<'_>) -> bool {
        match self {
            Purge::Everything => true,
            Purge::Tag(_) => false,
            Purge::Prefix { site, host, path } => {
                let (its_site, its_host, its_path) = key.place();
                its_site == site.as_bytes()
                    && host.as_ref().is_none_or(|host| host.as_bytes() == its_host)
                    && its_path.starts_with(path)
            }
        }
    }
}

/// How a purge takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hardness {
    /// The pages become stale.
    Soft,
    /// The pages are gone.
    Hard,
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn tags_are_the_same_in_every_process() {
        // They are stored on disk: if this fails, the format of the files must change, too.
        assert_eq!(Tag::site("a").0, 5567773420255879662);
        assert_eq!(Tag::named("a.test", b"post:17").0, 5192067874509286097);
    }

    #[test]
    fn different_things_have_different_tags() {
        let mut seen = HashSet::new();
        for n in 0..100_000u32 {
            assert!(seen.insert(Tag::named("a", format!("post:{n}").as_bytes())));
            assert!(seen.insert(Tag::path("a", "a.test", format!("/post:{n}").as_bytes())));
        }
        for (site, host, path) in
            [("a", "bc", "d"), ("ab", "c", "d"), ("a", "b", "cd"), ("", "abc", "d"), ("a", "bc", "d\0")]
        {
            assert!(seen.insert(Tag::path(site, host, path.as_bytes())));
        }
        assert!(seen.insert(Tag::url("a", "bc", b"d", b"")));
        assert!(seen.insert(Tag::site("a")));
    }

    #[test]
    fn bits_are_spread() {
        let mut ones = [0u32; 64];
        for n in 0..4096u32 {
            let hash = Tag::named("site", n.to_string().as_bytes()).0;
            ones.iter_mut().enumerate().for_each(|(bit, count)| *count += (hash >> bit & 1) as u32);
        }
        assert!(ones.iter().all(|count| (1850..2250).contains(count)), "{ones:?}");
    }
}
