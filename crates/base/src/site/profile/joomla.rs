//! Joomla 3 and later.
//!
//! Sources: joomla/joomla-cms, htaccess.txt and web.config.txt; docs.joomla.org, the page Nginx, for the folders in
//! which no script runs.

use super::{Caching, NONE, Profile, Rewrite, Then, When, generic};

pub(super) static PROFILE: Profile = Profile {
    // The page names images, cache, media, logs and tmp, at any depth.
    uploads: &[&["images"], &["cache"], &["media"], &["logs"], &["tmp"]],
    // Log files are scripts that print themselves without a server's help; `cli` is for the command line.
    closed: &["/logs", "/administrator/logs", "/cli"],
    never_served_names: &["htaccess.txt", "web.config.txt"],
    rewrites: &[
        // The web services have a front controller of their own.
        Rewrite { path: "^/api(/|$)", when: When::Missing, then: Then::Serve("/api/index.php") },
    ],
    // Sessions have names of 32 hexadecimal digits, which no pattern finds: Joomla sends `Cache-Control: no-store` with
    // each page of a session.
    caching: Caching { bypass_cookies: &["joomla_remember_me_*", "joomla_user_state"], ..generic::NOTHING },
    ..NONE
};
