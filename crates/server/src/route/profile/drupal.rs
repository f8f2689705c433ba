//! Drupal 8 and later. The endings are those that Drupal's own `.htaccess` refuses.

use super::Profile;

pub(super) static PROFILE: Profile = Profile {
    uploads: &[&["sites", "*", "files"]],
    never_served_names: &["root", "repository", "tag", "template"],
    never_served_prefixes: &["entries"],
    never_served_suffixes: &[
        ".engine", ".install", ".make", ".module", ".profile", ".po", ".sh", ".theme", ".twig", ".tpl",
        ".xtmpl", ".yml", ".yaml",
    ],
};
