//! Roundcube.
//!
//! Source: roundcube/roundcubemail, .htaccess.

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
    ],
    caching: Caching { bypass_cookies: &["roundcube_sess*", "roundcube_cookies"], ..generic::NOTHING },
    ..NONE
};
