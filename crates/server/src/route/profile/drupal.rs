//! Drupal 8 and later. The endings are those that Drupal's own `.htaccess` refuses.

use millrace_settings::plan::PhpPool;

use super::{Caching, LaneRule, Profile};

pub(super) static PROFILE: Profile = Profile {
    uploads: &[&["sites", "*", "files"]],
    never_served_names: &["root", "repository", "tag", "template"],
    never_served_prefixes: &["entries"],
    never_served_suffixes: &[
        ".engine", ".install", ".make", ".module", ".profile", ".po", ".sh", ".theme", ".twig", ".tpl",
        ".xtmpl", ".yml", ".yaml",
    ],
    caching: Caching {
        // A session for http, one for https; NO_CACHE is set by those modules that follow Pressflow.
        bypass_cookies: &["SESS*", "SSESS*", "NO_CACHE"],
        bypass_arguments: &["token", "form_token", "_format"],
        bypass_paths: &[
            "/user",
            "/admin",
            "/batch",
            "/cron",
            "/core/install.php",
            "/core/rebuild.php",
            "/update.php",
            "/install.php",
            "/node/add",
            "/system/files",
            "/system/temporary",
            "/cart",
            "/checkout",
            // A site in several languages has them below /de, /fr.
            "*/user/login",
            "*/user/logout",
            "*/user/password",
            "*/user/register",
            "*/user/reset",
        ],
        feeds: &["*/rss.xml", "*/feed"],
        sitemaps: &["*/sitemap.xml", "*/sitemaps"],
        apis: &["*/jsonapi"],
        nonce_marks: &[],
        vary_by_known_cookies: true,
        faithful: false,
    },
    doors: &["/admin", "/update.php", "/core/rebuild.php", "*/user/login", "*/user/reset"],
    lanes: &[
        // What nobody waits for: cron by its URL, webhooks of payment services.
        LaneRule {
            pool: PhpPool::BACKGROUND,
            paths: &["/cron", "/core/cron.php", "/payment/notify"],
            ..LaneRule::ANY
        },
        // A session: who is logged in, or has a cart.
        LaneRule { pool: PhpPool::ADMIN, by_session: true, cookies: &["SESS*", "SSESS*"], ..LaneRule::ANY },
        LaneRule {
            pool: PhpPool::ADMIN,
            by_session: true,
            paths: &[
                "/admin",
                "/batch",
                "/update.php",
                "/core/rebuild.php",
                "/node/add",
                "*/user/login",
                "*/user/reset",
            ],
            ..LaneRule::ANY
        },
        LaneRule {
            pool: PhpPool::ADMIN,
            by_session: true,
            methods: LaneRule::CHANGING,
            paths: &["*/jsonapi"],
            ..LaneRule::ANY
        },
    ],
};
