//! Which application a folder holds.

use std::path::Path;

use crate::environment::{Disk, Found};
use crate::plan::Profile;

/// Finds out by files that every release of the application has.
pub(crate) fn detect(root: &Path, disk: &dyn Disk) -> Profile {
    let has = |name: &str| disk.look(&root.join(name)) == Found::File;
    // wp-config.php may stand one folder above WordPress, so it only counts beside WordPress's own files.
    let config = has("wp-config.php") || (has("wp-blog-header.php") && has("../wp-config.php"));
    // WordPress in a directory of its own: the root has only an index.php that goes on there.
    let elsewhere = || {
        let index = disk.read(&root.join("index.php"));
        has("index.php") && index.is_ok_and(|text| text.contains("/wp-blog-header.php"))
    };
    if has("wp-load.php") || has("wp-includes/version.php") || config || elsewhere() {
        Profile::WordPress
    } else if has("core/lib/Drupal.php")
        // Drupal 7, and Backdrop, which comes of it.
        || (has("modules/system/system.module") && has("includes/bootstrap.inc"))
        || (has("core/modules/system/system.module") && has("core/includes/bootstrap.inc"))
    {
        Profile::Drupal
    } else {
        Profile::Generic
    }
}

/// The script that answers an application's readable URLs.
pub(crate) fn front_controller(profile: Profile) -> Option<&'static str> {
    match profile {
        Profile::WordPress | Profile::Drupal => Some("/index.php"),
        Profile::Generic => None,
    }
}

/// The folder below `root` that was probably meant, if `root` is a project that keeps its public files apart.
pub(crate) fn public_folder(root: &Path, disk: &dyn Disk) -> Option<&'static str> {
    let has = |name: &str| disk.look(&root.join(name)) == Found::File;
    let project = has("composer.json") && !has("index.php") && !has("index.html");
    ["web", "public", "docroot"].into_iter().find(|folder| project && has(&format!("{folder}/index.php")))
}
