//! Projects whose public folder has a front controller and little else: Laravel, Symfony, Craft CMS, CodeIgniter 4.
//!
//! Sources: laravel/docs, deployment.md; symfony/symfony-docs, setup/web_server_configuration.rst; craftcms/craft,
//! web/.htaccess; codeigniter4/CodeIgniter4, public/.htaccess.

use super::{Caching, NONE, Profile, Rewrite, Then, When, generic};

pub(super) static LARAVEL: Profile = Profile {
    // `storage` is a link to what visitors have uploaded.
    uploads: &[&["", "storage"], &["uploads"]],
    caching: Caching { bypass_cookies: &["*_session", "remember_*"], ..generic::NOTHING },
    ..NONE
};

pub(super) static SYMFONY: Profile = Profile {
    uploads: &[&["uploads"]],
    // "All other files ending in .php will be denied."
    scripts: &["/index.php"],
    caching: Caching { bypass_cookies: &["REMEMBERME"], ..generic::NOTHING },
    ..NONE
};

pub(super) static CRAFT: Profile = Profile {
    uploads: &[&["uploads"], &["", "cpresources"]],
    rewrites: &[
        // Browsers ask for them everywhere.
        Rewrite {
            path: "(?i)^/(favicon[.]ico|apple-touch-icon.*[.]png)$",
            when: When::Missing,
            then: Then::Refuse,
        },
    ],
    caching: Caching { bypass_cookies: &["CraftSessionId", "*_identity"], ..generic::NOTHING },
    ..NONE
};

pub(super) static CODEIGNITER: Profile = Profile {
    uploads: &[&["uploads"]],
    caching: Caching { bypass_cookies: &["ci_session*"], ..generic::NOTHING },
    ..NONE
};
