//! How far the files of a site reach: with whose rights they are opened, and where links may lead besides the root.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use millrace_settings::plan;
use millrace_sys::{Entered, Rights};

/// A user without rights, for a site whose own user is unknown.
const NOBODY: u32 = 65_534;

/// How far the files of a site reach.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// `None`: the server's own rights, which the site's scripts have, too.
    rights: Option<Arc<Rights>>,
    /// Folders that the site's scripts may use, by their real names.
    folders: Arc<[PathBuf]>,
}

impl Reach {
    /// That of a site. A server that is not root has only its own rights. Root opens files as the user of the site's scripts (`php.user`),
    /// else as the owner of the site's root.
    pub fn of(site: &plan::Site) -> Reach {
        let is_root = rustix::process::geteuid().is_root();
        let php = site.php.as_ref().or(site.persistent.as_ref());
        let folders = php.map_or(&[][..], |php| &php.folders).iter();
        let folders = folders.filter_map(|folder| std::fs::canonicalize(&folder.path).ok()).collect();
        let rights = if is_root { rights_of(site, php) } else { None };
        Reach { rights: rights.map(Arc::new), folders }
    }

    /// Takes on the rights of the site's user on this thread, until the guard is dropped.
    ///
    /// # Errors
    /// The kernel refuses it: the site's files must not be touched.
    pub fn enter(&self) -> io::Result<Option<Entered>> {
        self.rights.as_ref().map_or(Ok(None), |rights| rights.enter())
    }

    /// The ID of the user whose rights it has.
    pub fn user(&self) -> u32 {
        self.rights.as_ref().map_or_else(|| rustix::process::geteuid().as_raw(), |rights| rights.uid())
    }

    /// Folders that the site's scripts may use, by their real names.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }
}

fn rights_of(site: &plan::Site, php: Option<&plan::Php>) -> Option<Rights> {
    let nobody = Rights::of_id(NOBODY, NOBODY);
    let rights = match php.and_then(|php| php.user.as_deref()) {
        Some(name) => {
            // PHP does not start without user and group.
            let Some(account) = millrace_sys::user(name) else { return Some(nobody) };
            let group = php.and_then(|php| php.group.as_deref()).map(millrace_sys::group_id);
            let group = match group {
                Some(None) => return Some(nobody),
                known => known.flatten(),
            };
            Rights::of_user(name, account, group).unwrap_or(nobody)
        }
        None => {
            // Without a root there are no files.
            let root = std::fs::metadata(&site.root).ok()?;
            Rights::of_id(root.uid(), if root.gid() == 0 { NOBODY } else { root.gid() })
        }
    };
    // Its scripts are root, too.
    (rights.uid() != 0).then_some(rights)
}
