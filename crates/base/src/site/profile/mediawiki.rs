//! MediaWiki, in the root or in `/w/`. Its articles have readable URLs if LocalSettings.php says where
//! (`$wgArticlePath`); the settings crate reads it.
//!
//! Sources: www.mediawiki.org, Manual:Short URL/Nginx; the .htaccess files of the release (includes, languages,
//! maintenance, vendor, cache, images).

use super::{Caching, NONE, Profile, generic};

pub(super) static PROFILE: Profile = Profile {
    uploads: &[&["", "images"], &["", "w", "images"]],
    closed: &[
        "/cache",
        "/images/deleted",
        "/includes",
        "/languages",
        "/maintenance",
        "/tests",
        "/vendor",
        "/w/cache",
        "/w/images/deleted",
        "/w/includes",
        "/w/languages",
        "/w/maintenance",
        "/w/tests",
        "/w/vendor",
    ],
    scripts: &[
        "/index.php",
        "/api.php",
        "/img_auth.php",
        "/load.php",
        "/mw-config/index.php",
        "/opensearch_desc.php",
        "/rest.php",
        "/thumb.php",
        "/thumb_handler.php",
        "/w/index.php",
        "/w/api.php",
        "/w/img_auth.php",
        "/w/load.php",
        "/w/mw-config/index.php",
        "/w/opensearch_desc.php",
        "/w/rest.php",
        "/w/thumb.php",
        "/w/thumb_handler.php",
    ],
    // Names begin with the database's.
    caching: Caching { bypass_cookies: &["*_session", "*UserID", "*UserName", "*Token"], ..generic::NOTHING },
    ..NONE
};
