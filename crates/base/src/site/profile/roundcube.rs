//! Roundcube, with the root in its folder `public_html` - since 1.7 it must be - or in the release itself.
//!
//! Source: roundcube/roundcubemail, .htaccess and, since 1.7, public_html/.htaccess.

use super::{Caching, NONE, Profile, Rewrite, Then, When, generic};

pub(super) static PROFILE: Profile = Profile {
    closed: &[
        "/SQL",
        "/bin",
        "/config",
        "/logs",
        "/program/include",
        "/program/lib",
        "/program/localization",
        "/program/steps",
        "/temp",
        "/tests",
        "/vendor",
    ],
    rewrites: &[
        Rewrite {
            path: "/((README|CHANGELOG|SECURITY)[^/]*|meta[.]json|composer[.][^/]*|jsdeps[.]json)$",
            when: When::Always,
            then: Then::Refuse,
        },
        Rewrite {
            path: "^/favicon[.]ico$",
            when: When::Missing,
            then: Then::Serve("/skins/elastic/images/favicon.ico"),
        },
        // Since 1.7 a script serves the files of skins.
        Rewrite {
            path: "^/(skins/elastic/images/favicon[.]ico)$",
            when: When::Missing,
            then: Then::Serve("/static.php/$1"),
        },
    ],
    caching: Caching { bypass_cookies: &["roundcube_sess*", "roundcube_cookies"], ..generic::NOTHING },
    ..NONE
};
