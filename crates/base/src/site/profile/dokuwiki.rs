//! DokuWiki. With `$conf['userewrite'] = 1` its links have no script's name; such URLs work with any setting.
//!
//! Source: dokuwiki/dokuwiki, .htaccess.dist, and the .htaccess files in bin, conf, data, inc and vendor.

use super::{Caching, NONE, Profile, Rewrite, Then, When, generic};

pub(super) static PROFILE: Profile = Profile {
    closed: &["/bin", "/conf", "/data", "/inc", "/vendor"],
    never_served_names: &["copying", "readme", "version"],
    rewrites: &[
        Rewrite {
            path: "^/_media/(.*)$",
            when: When::Always,
            then: Then::Serve("/lib/exe/fetch.php?media=$1"),
        },
        Rewrite {
            path: "^/_detail/(.*)$",
            when: When::Always,
            then: Then::Serve("/lib/exe/detail.php?media=$1"),
        },
        Rewrite {
            path: "^/_export/([^/]+)/(.*)$",
            when: When::Always,
            then: Then::Serve("/doku.php?do=export_$1&id=$2"),
        },
        Rewrite { path: "^/(.+)$", when: When::Missing, then: Then::Serve("/doku.php?id=$1") },
    ],
    caching: Caching { bypass_cookies: &["DokuWiki*", "DW*", "DOKU_PREFS"], ..generic::NOTHING },
    ..NONE
};
