//! TYPO3, with the root in a project's `public` or, without Composer, in the release itself.
//!
//! Source: TYPO3/typo3, typo3/sysext/install/Resources/Private/FolderStructureTemplateFiles/root-htaccess.

use super::{Caching, NONE, Profile, Rewrite, Then, When, generic};

pub(super) static PROFILE: Profile = Profile {
    uploads: &[&["", "fileadmin"], &["", "typo3temp"], &["", "uploads"]],
    closed: &["/vendor", "/typo3_src", "/typo3temp/var"],
    never_served_names: &[
        "changelog",
        "changelog.md",
        "changelog.txt",
        "ext_conf_template.txt",
        "ext_typoscript_constants.txt",
        "ext_typoscript_setup.txt",
        "license",
        "license.md",
        "license.txt",
        "readme",
        "readme.md",
        "readme.txt",
        "todo",
        "todo.md",
        "todo.txt",
    ],
    never_served_endings: &["dist", "fla", "rc", "ts", "tsconfig", "typoscript", "yaml", "yml"],
    rewrites: &[
        // A version in a file's name makes browsers load it again.
        Rewrite {
            path: "^/(.+)[.][0-9]+[.](js|css|png|jpg|gif|gz)$",
            when: When::Missing,
            then: Then::Serve("/$1.$2"),
        },
        Rewrite {
            path: "_(recycler|temp)_/|^/fileadmin/templates/.*[.](txt|ts)$|/(?i:flexform[^./]*[.]xml|locallang[^./]*[.](xml|xlf))$",
            when: When::Always,
            then: Then::Refuse,
        },
        Rewrite {
            path: "^/(typo3conf/ext|typo3/sysext|typo3/ext)/[^/]+/\
                   (Configuration|Resources/Private|Tests?|Documentation|docs?)/",
            when: When::Always,
            then: Then::Refuse,
        },
        Rewrite {
            path: "^/(fileadmin|typo3conf|typo3temp|uploads)/",
            when: When::Missing,
            then: Then::Refuse,
        },
        // The administration has a front controller of its own, until version 13.
        Rewrite { path: "^/typo3/.", when: When::Missing, then: Then::Serve("/typo3/index.php") },
    ],
    caching: Caching {
        bypass_cookies: &["fe_typo_user", "be_typo_user", "be_lastLoginProvider"],
        ..generic::NOTHING
    },
    ..NONE
};
