//! Nextcloud.
//!
//! Sources: nextcloud/documentation, admin_manual/installation/nginx-root.conf.sample; nextcloud/server, .htaccess.

use super::{Caching, NONE, Profile, Rewrite, Then, When, generic};

pub(super) static PROFILE: Profile = Profile {
    closed: &[
        "/3rdparty",
        "/build",
        "/config",
        "/data",
        "/lib",
        "/templates",
        "/tests",
        "/core/shipped.json",
    ],
    scripts: &[
        "/index.php",
        "/remote.php",
        "/public.php",
        "/cron.php",
        "/status.php",
        "/core/ajax/update.php",
        "/ocs/v1.php",
        "/ocs/v2.php",
        "/updater",
        "/ocs-provider",
        "*/richdocumentscode/proxy.php",
        "*/richdocumentscode_arm64/proxy.php",
    ],
    // Old applications have routes that are called like their scripts.
    others_are_pages: true,
    // `/apps/files/` is a page and a folder.
    folders_are_pages: true,
    rewrites: &[
        Rewrite {
            path: "^/[.]well-known/(carddav|caldav)/?$",
            when: When::Always,
            then: Then::Redirect(301, "/remote.php/dav/"),
        },
        Rewrite { path: "^/remote/", when: When::Always, then: Then::Serve("/remote.php") },
        Rewrite { path: "^/(autotest|occ|issue|indie|db_|console)", when: When::Always, then: Then::Refuse },
    ],
    programs: &["/remote.php/", "/remote/", "/public.php/", "/ocs/", "/index.php/apps/", "/apps/"],
    // Links without index.php.
    variables: &[("front_controller_active", "true")],
    // The session's name is the instance's: `oc` and random characters.
    caching: Caching { bypass_cookies: &["oc*", "nc_*", "__Host-nc_*"], ..generic::NOTHING },
    ..NONE
};
