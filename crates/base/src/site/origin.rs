//! The configuration on which a site's stored pages depend.

use millrace_pages::record::fingerprint;
use millrace_settings::plan;

/// A number for the parts of a site's configuration on which its pages depend: where its scripts are, the rules, and
/// the composition of keys. If the number changes, older pages are not loaded.
pub fn origin(site: &plan::Site) -> u64 {
    let plan::SiteCache {
        mode,
        ignore_arguments,
        key_cookies,
        key_scheme,
        key_device,
        vary_fields,
        ignore_fields,
        ..
    } = &site.cache;
    let keys = (mode, ignore_arguments, key_cookies, key_scheme, key_device, vary_fields, ignore_fields);
    let scripts = (&site.root, site.try_files, &site.front_controller);
    fingerprint(format!("{:?}", (scripts, site.profile, keys)).as_bytes(), 0)
}
