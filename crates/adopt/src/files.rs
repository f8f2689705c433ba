//! Access to the files of a configuration.

use std::io;
use std::path::{Path, PathBuf};

/// Reads files for the converters.
pub trait Files {
    /// The text of a file; bytes that are no UTF-8 are replaced.
    ///
    /// # Errors
    /// The errors of reading it.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// The files that a pattern with `*`, `?` and `[ ]` names, sorted. A folder stands for the files in it.
    fn glob(&self, pattern: &Path) -> Vec<PathBuf>;
}

/// The place of `name` for a configuration in `base`: there, or in up to two folders above it, as configurations name files
/// by the server's own folder (`include snippets/x.conf` in `sites-available/site`).
pub fn found(files: &dyn Files, base: &Path, name: &str) -> Vec<PathBuf> {
    if Path::new(name).is_absolute() {
        return files.glob(Path::new(name));
    }
    base.ancestors()
        .take(3)
        .map(|dir| files.glob(&dir.join(name)))
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

/// Maximum depth of files that include files: a file that includes itself must end somewhere.
pub const DEEPEST_INCLUDE: usize = 16;
