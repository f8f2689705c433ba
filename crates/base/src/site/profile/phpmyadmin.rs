//! phpMyAdmin 4.8 to 5.
//!
//! Sources: phpmyadmin/phpmyadmin, doc/setup.rst, "Securing your phpMyAdmin installation"; the release's .htaccess
//! files in libraries and templates; `$cfg['TempDir']` in doc/config.rst.

use super::{Caching, NONE, Profile, generic};

pub(super) static PROFILE: Profile = Profile {
    closed: &[
        "/libraries",
        "/setup/frames",
        "/setup/lib",
        "/setup/libs",
        "/sql",
        "/templates",
        "/tmp",
        "/vendor",
    ],
    caching: Caching {
        bypass_cookies: &["phpMyAdmin*", "pmaUser-*", "pmaAuth-*", "pma_*"],
        ..generic::NOTHING
    },
    ..NONE
};
