//! Drupal 8 and later. The endings are those that Drupal's own `.htaccess` refuses.

use super::{Caching, Profile};

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
};
