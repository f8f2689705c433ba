//! What a page is stored under.

use std::hash::BuildHasher;
use std::sync::OnceLock;

use hashbrown::DefaultHashBuilder;

/// The longest key in bytes; a request with a longer one bypasses the cache.
pub const LONGEST_KEY: usize = 8192;

/// The bytes `site NUL scheme NUL host NUL path NUL query [NUL extra]` with their hash. `scheme` is empty where both
/// schemes share pages; `extra` are values of cookies and the class of device, where a site keys by them.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// What is compared.
    pub bytes: &'a [u8],
    /// Of the bytes; the same for equal bytes while this process lives, and another in the next.
    pub hash: u64,
}

impl<'a> Key<'a> {
    /// The key of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Key<'a> {
        static SEED: OnceLock<DefaultHashBuilder> = OnceLock::new();
        Key { bytes, hash: SEED.get_or_init(DefaultHashBuilder::default).hash_one(bytes) }
    }

    /// Site, host and path.
    pub fn place(&self) -> (&'a [u8], &'a [u8], &'a [u8]) {
        let mut parts = self.bytes.split(|&b| b == 0);
        let site = parts.next().unwrap_or_default();
        let _scheme = parts.next();
        (site, parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    }
}
