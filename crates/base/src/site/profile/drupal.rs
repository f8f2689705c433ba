//! Drupal 7 and later, and Backdrop, which is based on Drupal 7. The endings are the ones that Drupal's own
//! `.htaccess` refuses; 7 has no folder `core`, and Backdrop keeps its files in `files` in the root.

use millrace_settings::plan::PhpPool;

use super::{Caching, NONE, PoolRule, Profile, TagWords};

pub(super) static PROFILE: Profile = Profile {
    uploads: &[&["sites", "*", "files"], &["", "files"]],
    private: &[
        &["", "sites", "*", "private"],
        &["", "sites", "*", "files", "private"],
        &["", "sites", "*", "files", "config_*"],
        &["", "files", "private"],
        // Backdrop's whole configuration.
        &["", "files", "config_*"],
    ],
    // As the `.htaccess` of Drupal 8 and of Backdrop has it; in Drupal 7 they are in the root.
    moved: &[
        ("/authorize.php", "/core/authorize.php"),
        ("/cron.php", "/core/cron.php"),
        ("/install.php", "/core/install.php"),
        ("/rebuild.php", "/core/rebuild.php"),
        ("/update.php", "/core/update.php"),
    ],
    never_served_names: &["root", "repository", "tag", "template"],
    never_served_prefixes: &["entries"],
    never_served_endings: &[
        "engine", "info", "install", "make", "mysql", "pgsql", "po", "profile", "test", "theme", "xtmpl",
        "yaml", "yml",
    ],
    caching: Caching {
        // A session for http, one for https; modules that follow Pressflow set NO_CACHE.
        bypass_cookies: &["SESS*", "SSESS*", "NO_CACHE"],
        bypass_arguments: &["token", "form_token", "_format"],
        bypass_paths: &[
            "/user",
            "/admin",
            "/batch",
            "/cron",
            "/core/authorize.php",
            "/core/cron.php",
            "/core/install.php",
            "/core/rebuild.php",
            "/core/update.php",
            "/authorize.php",
            "/cron.php",
            "/update.php",
            "/install.php",
            "/xmlrpc.php",
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
        open_paths: &[],
        script_paths: &[],
        feeds: &["*/rss.xml", "*/feed"],
        sitemaps: &["*/sitemap.xml", "*/sitemaps"],
        apis: &["*/jsonapi"],
        nonce_marks: &[],
        vary_by_known_cookies: true,
        faithful: false,
    },
    doors: &["/admin", "/update.php", "/core/rebuild.php", "*/user/login", "*/user/reset"],
    pools: &[
        // Requests without a waiting client: cron by its URL, webhooks of payment services.
        PoolRule {
            pool: PhpPool::BACKGROUND,
            paths: &["/cron", "/cron.php", "/core/cron.php", "/xmlrpc.php", "/payment/notify"],
            ..PoolRule::ANY
        },
        // A session: the visitor is logged in or has a cart.
        PoolRule { pool: PhpPool::ADMIN, by_session: true, cookies: &["SESS*", "SSESS*"], ..PoolRule::ANY },
        PoolRule {
            pool: PhpPool::ADMIN,
            by_session: true,
            paths: &[
                "/admin",
                "/batch",
                "/update.php",
                "/authorize.php",
                "/core/update.php",
                "/core/authorize.php",
                "/core/rebuild.php",
                "/node/add",
                "*/user/login",
                "*/user/reset",
            ],
            ..PoolRule::ANY
        },
        PoolRule {
            pool: PhpPool::ADMIN,
            by_session: true,
            methods: PoolRule::CHANGING,
            paths: &["*/jsonapi"],
            ..PoolRule::ANY
        },
    ],
    // Drupal Commerce: the form that adds to the cart is on the product's own page, and can't be recognised by its
    // path.
    buying: &[PoolRule { paths: &["*/cart", "*/checkout"], ..PoolRule::ANY }],
    reading: &[],
    // Core's cache tags (https://www.drupal.org/docs/drupal-apis/cache-api/cache-tags).
    tags: &[
        TagWords { tag: "node:*", words: "a change of node {}" },
        TagWords { tag: "node_list*", words: "a new, changed or removed node" },
        TagWords { tag: "user:*", words: "a change of user {}" },
        TagWords { tag: "user_list", words: "a new, changed or removed user" },
        TagWords { tag: "taxonomy_term:*", words: "a change of term {}" },
        TagWords { tag: "taxonomy_term_list*", words: "a new, changed or removed term" },
        TagWords { tag: "config:*", words: "a change of the configuration {}" },
        TagWords { tag: "block_view", words: "a change of any block" },
        TagWords { tag: "rendered", words: "a change of the theme or of a display" },
        TagWords { tag: "http_response", words: "a rebuild of all caches" },
        TagWords { tag: "library_info", words: "a change of a module or theme" },
    ],
    ..NONE
};
