//! Detects the application in a directory.

use std::path::Path;

use crate::environment::{Disk, Found};
use crate::plan::Profile;

/// Detects it by files that every release of the application has.
pub(crate) fn detect(root: &Path, disk: &dyn Disk) -> Profile {
    let has = |name: &str| disk.look(&root.join(name)) == Found::File;
    // wp-config.php may be in the directory above WordPress, so it only counts with WordPress's own files.
    let config = has("wp-config.php") || (has("wp-blog-header.php") && has("../wp-config.php"));
    // WordPress in its own directory: the root has only an index.php that loads it.
    let elsewhere = || {
        let index = disk.read(&root.join("index.php"));
        has("index.php") && index.is_ok_and(|text| text.contains("/wp-blog-header.php"))
    };
    if has("wp-load.php") || has("wp-includes/version.php") || config || elsewhere() {
        Profile::WordPress
    } else if has("core/lib/Drupal.php")
        // Drupal 7, and its fork Backdrop.
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

/// The directory below `root` that the user probably meant, if `root` is a project with separate public files.
pub(crate) fn public_folder(root: &Path, disk: &dyn Disk) -> Option<&'static str> {
    let has = |name: &str| disk.look(&root.join(name)) == Found::File;
    let project = has("composer.json") && !has("index.php") && !has("index.html");
    ["web", "public", "docroot"].into_iter().find(|folder| project && has(&format!("{folder}/index.php")))
}
