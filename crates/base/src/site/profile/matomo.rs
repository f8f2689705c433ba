//! Matomo.
//!
//! Sources: matomo-org/matomo-nginx, sites-available/matomo.conf; matomo-org/matomo,
//! plugins/Installation/ServerFilesGenerator.php, which writes .htaccess files.

use super::{Caching, NONE, Profile, Rewrite, Then, When, generic};

pub(super) static PROFILE: Profile = Profile {
    // `console` is a script for the command line.
    closed: &["/config", "/tmp", "/core", "/lang", "/console"],
    scripts: &[
        "/index.php",
        "/matomo.php",
        "/piwik.php",
        "/js/index.php",
        "/plugins/HeatmapSessionRecording/configs.php",
    ],
    rewrites: &[
        // Of these folders visitors get what a browser shows, and nothing else.
        Rewrite {
            path: "^/plugins/(.+/manifest[.]json|HeatmapSessionRecording/configs[.]php)$",
            when: When::Always,
            then: Then::Stay,
        },
        Rewrite {
            path: "[.](gif|ico|jpe?g|png|svg|js|css|html?|mp3|mp4|wav|ogg|avi|ttf|eot|woff2?)$",
            when: When::Always,
            then: Then::Stay,
        },
        Rewrite {
            path: "^/(libs|vendor|plugins|misc|node_modules)(/|$)",
            when: When::Always,
            then: Then::Refuse,
        },
    ],
    caching: Caching {
        bypass_cookies: &["MATOMO_SESSID", "PIWIK_SESSID", "piwik_auth", "matomo_auth"],
        ..generic::NOTHING
    },
    ..NONE
};
