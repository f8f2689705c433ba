//! Plain PHP, and what no application wants served.

use super::{Caching, Profile};

pub(super) static PROFILE: Profile = Profile {
    uploads: &[&["uploads"]],
    never_served_names: &[],
    never_served_prefixes: &[],
    never_served_suffixes: &[],
    // PHP's own name for a session, and what its frameworks use to know somebody again.
    caching: Caching { bypass_cookies: &["PHPSESSID", "REMEMBERME", "remember_web_*"], ..NOTHING },
};

/// Arguments that tell a site's statistics where a visitor came from, and change nothing in the page.
pub(super) static IGNORED_ARGUMENTS: &[&str] = &[
    // Campaigns: Google Analytics and all who took its names over, Matomo, HubSpot, Mailchimp, Klaviyo, Vero, Marketo.
    "utm_*",
    "mtm_*",
    "matomo_*",
    "pk_*",
    "piwik_*",
    "hsa_*",
    "_hsenc",
    "_hsmi",
    "__hstc",
    "__hssc",
    "__hsfp",
    "hsCtaTracking",
    "mc_cid",
    "mc_eid",
    "_kx",
    "vero_id",
    "vero_conv",
    "mkt_tok",
    "oly_anon_id",
    "oly_enc_id",
    "_openstat",
    "trk_contact",
    "trk_msg",
    "trk_module",
    "trk_sid",
    // Clicks: Google, Meta, Microsoft, Twitter, TikTok, LinkedIn, Pinterest, Reddit, Snap, Yandex, Adobe, Impact.
    "_ga",
    "_gl",
    "_gac",
    "gclid",
    "gclsrc",
    "gbraid",
    "wbraid",
    "dclid",
    "gad_source",
    "gad_campaignid",
    "srsltid",
    "fbclid",
    "fb_action_ids",
    "fb_action_types",
    "fb_source",
    "igsh",
    "igshid",
    "msclkid",
    "twclid",
    "ttclid",
    "li_fat_id",
    "epik",
    "rdt_cid",
    "ScCid",
    "yclid",
    "ysclid",
    "s_kwcid",
    "ef_id",
    "irclickid",
    "wickedid",
    "zanpid",
];

/// Secrets, sources and left-overs that lie in the roots of real sites, whatever the application.
pub(super) static NEVER_SERVED: Profile = Profile {
    uploads: &[],
    never_served_names: &[
        "composer.json",
        "composer.lock",
        "composer.phar",
        "installed.json",
        "auth.json",
        "package.json",
        "package-lock.json",
        "npm-shrinkwrap.json",
        "yarn.lock",
        "pnpm-lock.yaml",
        "gruntfile.js",
        "gulpfile.js",
        "docker-compose.yml",
        "dockerfile",
        "makefile",
        "vagrantfile",
        "web.config",
        "error_log",
        "thumbs.db",
        "phpunit.xml",
        "phpunit.xml.dist",
        "millrace.toml",
        "id_rsa",
    ],
    never_served_prefixes: &["wp-config"],
    never_served_suffixes: &[
        ".inc",
        ".sql",
        ".sql.gz",
        ".sql.bz2",
        ".sql.xz",
        ".sql.zst",
        ".sql.zip",
        ".log",
        ".log.gz",
        ".sqlite",
        ".sqlite3",
        ".db",
        ".ini",
        ".conf",
        ".cfg",
        ".bak",
        ".bkp",
        ".old",
        ".orig",
        ".save",
        ".swp",
        ".swo",
        ".tmp",
        "~",
        ".pem",
        ".key",
        ".sqlite-journal",
        ".sqlite-wal",
        ".sqlite-shm",
        ".dump",
    ],
    caching: NOTHING,
};

/// For a list of rules that says nothing about pages.
const NOTHING: Caching = Caching {
    bypass_cookies: &[],
    bypass_arguments: &[],
    bypass_paths: &[],
    feeds: &[],
    sitemaps: &[],
    apis: &[],
    nonce_marks: &[],
};

/// Whether a file's name says that it holds PHP source. `name` is lower case.
///
/// Asked about files that are not run: `x.php.bak`, `x.php~`, `x.phtml`, `#x.php#`.
pub(super) fn is_php_source(name: &[u8]) -> bool {
    [&b".php"[..], b".phtml", b".phar", b".pht", b".phps"]
        .iter()
        .any(|ending| memchr::memmem::find(name, ending).is_some())
}
