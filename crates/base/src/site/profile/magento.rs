//! Magento 2; the root is its folder `pub`.
//!
//! Source: magento/magento2, nginx.conf.sample, and pub/.htaccess for cron.php.

use super::{Caching, NONE, Profile, Rewrite, Then, When, generic};

pub(super) static PROFILE: Profile = Profile {
    uploads: &[&["", "media"], &["", "static"]],
    closed: &["/media/custom_options", "/media/customer", "/media/downloadable", "/media/import"],
    scripts: &[
        "/index.php",
        "/get.php",
        "/static.php",
        "/health_check.php",
        "/errors/404.php",
        "/errors/503.php",
        "/errors/report.php",
    ],
    rewrites: &[
        // URLs of a time when the root was the project.
        Rewrite { path: "^/pub/((media|static)/.*)$", when: When::Missing, then: Then::Serve("/$1") },
        // The version makes browsers load a file again.
        Rewrite { path: "^/static/version[0-9]*/(.*)$", when: When::Always, then: Then::Serve("/static/$1") },
        Rewrite { path: "^/static/(.+)$", when: When::Missing, then: Then::Serve("/static.php?resource=$1") },
        Rewrite {
            path: "(?i)^/(media/theme_customization|errors)/.*[.]xml$",
            when: When::Always,
            then: Then::Refuse,
        },
        Rewrite { path: "^/media/.", when: When::Missing, then: Then::Serve("/get.php") },
    ],
    caching: Caching {
        bypass_cookies: &["X-Magento-Vary", "admin", "private_content_version"],
        ..generic::NOTHING
    },
    ..NONE
};
