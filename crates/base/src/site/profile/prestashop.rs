//! PrestaShop.
//!
//! Sources: PrestaShop/docs, basics/installation/advanced/nginx.md; PrestaShop/PrestaShop, admin-dev/.htaccess, for the
//! front controllers of the administration and of its API.

use super::{Caching, NONE, Profile, Rewrite, Then, When, generic};

pub(super) static PROFILE: Profile = Profile {
    uploads: &[&["", "img"], &["", "upload"], &["", "download"]],
    closed: &[
        "/app",
        "/bin",
        "/cache",
        "/classes",
        "/config",
        "/controllers",
        "/docs",
        "/localization",
        "/override",
        "/src",
        "/tests",
        "/tools",
        "/translations",
        "/var",
        "/vendor",
    ],
    never_served_endings: &["sass", "yml"],
    rewrites: &[
        // The picture of a product is in a folder of its number, a digit a level.
        Rewrite {
            path: r"^/([0-9]{1,8})(-[\w-]+)?/.+[.](jpe?g|png|webp|avif)$",
            when: When::Always,
            then: Then::Serve("/img/p/$/1$1$2.$3"),
        },
        Rewrite {
            path: r"^/c/([\w.-]+)/.+[.](jpe?g|png|webp|avif)$",
            when: When::Always,
            then: Then::Serve("/img/c/$1.$2"),
        },
        Rewrite {
            path: "^/images_ie/?([^/]+)[.](gif|jpe?g|png)$",
            when: When::Always,
            then: Then::Serve("/js/jquery/plugins/fancybox/images/$1.$2"),
        },
        Rewrite {
            path: "^/api(?:/(.*))?$",
            when: When::Always,
            then: Then::Serve("/webservice/dispatcher.php?url=$1"),
        },
        // Each shop gives this folder another name, which begins with `admin`.
        Rewrite { path: r"^/(admin[\w-]*)/.", when: When::Missing, then: Then::Serve("/$1/index.php") },
    ],
    caching: Caching { bypass_cookies: &["PrestaShop-*", "psAdmin*"], ..generic::NOTHING },
    ..NONE
};
