//! OpenCart 3 and later.
//!
//! Source: opencart/opencart, upload/.htaccess.txt.

use super::{Caching, NONE, Profile, Rewrite, Then, When, generic};

pub(super) static PROFILE: Profile = Profile {
    uploads: &[&["", "image"]],
    closed: &["/system"],
    rewrites: &[
        Rewrite { path: "[.](ico|gif|jpe?g|png|webp|js|css|svg)$", when: When::Missing, then: Then::Refuse },
        Rewrite { path: "^/(.+)$", when: When::Missing, then: Then::Serve("/index.php?_route_=$1") },
    ],
    caching: Caching { bypass_cookies: &["OCSESSID", "currency", "language"], ..generic::NOTHING },
    ..NONE
};
