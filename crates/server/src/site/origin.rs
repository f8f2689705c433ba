//! What the stored pages of a site depend on.

use millrace_pages::record::fingerprint;
use millrace_settings::plan;

/// A number for what a site is, as far as its pages depend on it: where its scripts are, by which rules, and what the
/// keys of its pages are made of. With another number nobody wants the pages back that were made before.
pub fn origin(site: &plan::Site) -> u64 {
    let plan::SiteCache { mode, ignore_arguments, key_cookies, key_scheme, key_device, vary_fields, .. } =
        &site.cache;
    let keys = (mode, ignore_arguments, key_cookies, key_scheme, key_device, vary_fields);
    let scripts = (&site.root, site.try_files, &site.front_controller);
    fingerprint(format!("{:?}", (scripts, site.profile, keys)).as_bytes(), 0)
}
