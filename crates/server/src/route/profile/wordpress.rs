//! WordPress and what is built on it.

use super::Profile;

pub(super) static PROFILE: Profile = Profile {
    uploads: &[&["wp-content", "uploads"], &["wp-content", "blogs.dir"], &["wp-content", "upgrade"]],
    never_served_names: &["wp-cli.yml"],
    never_served_prefixes: &["wp-config"],
    never_served_suffixes: &[".wpress"],
};
