//! Moodle. Since version 4.5 it has a front controller, r.php, for what is no file.
//!
//! Sources: docs.moodle.org, the pages Nginx (files that are hidden, MDL-69333) and Configuring the Router.

use super::{Caching, NONE, Profile, Rewrite, Then, When, generic};

pub(super) static PROFILE: Profile = Profile {
    rewrites: &[
        Rewrite {
            path: "^/([^./]+/)*(vendor|node_modules|fixtures|behat)/",
            when: When::Always,
            then: Then::Refuse,
        },
        // What is behind a script is a visitor's file: `/pluginfile.php/5/readme.txt`.
        Rewrite { path: "[.]php/", when: When::Always, then: Then::Stay },
        Rewrite {
            path: "/(vendor|node_modules|fixtures|behat)/|/(readme|README|UPGRADING[.]md)|readme[.]txt|/upgrade[.]txt|\
                   composer[.]json|db/install[.]xml|phpunit[.]xml|[.]lock|environment[.]xml",
            when: When::Always,
            then: Then::Refuse,
        },
    ],
    caching: Caching { bypass_cookies: &["MoodleSession*", "MOODLEID*"], ..generic::NOTHING },
    ..NONE
};
