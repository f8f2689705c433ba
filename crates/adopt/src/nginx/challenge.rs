//! Locations for certificate authorities: `/.well-known/acme-challenge/`, where certbot, acme.sh and their like leave files or listen.

use super::location::{Kind, Location};
use super::server::Server;
use crate::value::{Block, CHALLENGES, Toml};

/// Why such a location may be left out.
pub const NEEDLESS: &str =
    "`https.acme` answers certificate authorities by itself; files below /.well-known/ are served";

impl<'a> Server<'a> {
    /// Whether certificate authorities get what they ask for without this location: its files are in the root, and nothing else
    /// refuses or redirects them.
    pub fn is_needless_challenge(&self, location: &Location<'a>) -> bool {
        if !location.prefix().is_some_and(|prefix| prefix.starts_with(CHALLENGES)) {
            return false;
        }
        // Such a server redirects before it looks for a location.
        if self.own.iter().any(|own| own.name == "return") {
            return true;
        }
        let is_elsewhere = self.is_elsewhere(location);
        match self.redirects_whole() {
            true => !is_elsewhere && self.own_root().is_none(),
            false => !is_elsewhere && !self.is_spared(location) && !self.has_refusing_regex(location),
        }
    }

    /// The folder for challenges of a server that redirects all other requests: the site that it leads to may have another one.
    pub fn challenge_of_redirects(&self, location: &Location<'a>) -> Option<Block> {
        let is_challenge = location.prefix().is_some_and(|prefix| prefix.starts_with(CHALLENGES));
        if !is_challenge || !self.redirects_whole() || self.is_elsewhere(location) {
            return None;
        }
        let root = ("root", Toml::Text(self.own_root()?));
        let keys = location.when().into_iter().chain([root]).collect();
        Some(Block { source: location.directive.source.clone(), keys, caveat: None })
    }

    /// Whether the location `/` redirects.
    fn redirects_whole(&self) -> bool {
        self.locations.iter().any(|other| {
            other.kind == Kind::Whole && other.directive.inner().iter().any(|inner| inner.name == "return")
        })
    }

    /// Whether the location has files of another folder, or something that answers in its place.
    fn is_elsewhere(&self, location: &Location<'a>) -> bool {
        location.directive.inner().iter().any(|inner| {
            matches!(inner.name.as_str(), "root" | "alias" | "rewrite" | "return")
                || inner.name.ends_with("_pass")
        })
    }
}
