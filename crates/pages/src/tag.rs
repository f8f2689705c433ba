//! What pages are purged by.

use crate::Key;

/// The name of a group of pages of one site: 64 bits of a hash that is the same in every process, for it goes to disk.
///
/// Every page carries implicit tags: the whole site; host and path; host, path and query. Named tags are what the
/// application says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// What to purge. URLs and sites are purged by implicit tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// All pages of all sites.
    Everything,
    /// All pages that carry the tag.
    Tag(Tag),
    /// All pages whose path begins so.
    Prefix {
        /// Name of the site.
        site: Box<str>,
        /// Only of this host; none: of every host of the site.
        host: Option<Box<str>>,
        /// As in keys: normalised.
        path: Box<[u8]>,
    },
}

impl Purge {
    /// Whether a prefix purge is about the page of this key. [`Purge::Tag`] says no: keys don't tell tags.
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
