//! The files of another server's configuration, on the disk.

use std::io;
use std::path::{Component, Path, PathBuf};

use millrace_adopt::Files;
use millrace_htaccess::effort;
use millrace_htaccess::glob::{self, Slash};

/// The disk.
pub struct OnDisk;

/// Largest file of a configuration, bytes.
const LARGEST: u64 = 16 << 20;
/// Most files that one pattern names.
const MOST_FILES: usize = 10_000;

impl Files for OnDisk {
    fn read(&self, path: &Path) -> io::Result<String> {
        text_of(path)
    }

    fn glob(&self, pattern: &Path) -> Vec<PathBuf> {
        let mut found = vec![PathBuf::new()];
        for part in pattern.components() {
            found = match part {
                Component::Normal(name) if is_pattern(&name.to_string_lossy()) => found
                    .iter()
                    .flat_map(|dir| matching(dir, &name.to_string_lossy()))
                    .take(MOST_FILES)
                    .collect(),
                part => found.into_iter().map(|dir| dir.join(part)).collect(),
            };
        }
        let of_folder = |path: PathBuf| if path.is_dir() { matching(&path, "*") } else { vec![path] };
        found
            .into_iter()
            .filter(|path| path.exists())
            .flat_map(of_folder)
            .filter(|path| path.is_file())
            .collect()
    }
}

/// The text of a file; bytes that are no UTF-8 are replaced.
pub fn text_of(path: &Path) -> io::Result<String> {
    if std::fs::metadata(path)?.len() > LARGEST {
        return Err(io::Error::other("it is larger than 16 MB: is it a configuration?"));
    }
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}

fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// The names in a folder that match, sorted; hidden ones only if the pattern begins with a dot.
fn matching(dir: &Path, pattern: &str) -> Vec<PathBuf> {
    let folder = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let fits = |name: &String| {
        effort::begin();
        glob::matches(pattern.as_bytes(), name.as_bytes(), Slash::Plain).unwrap_or(false)
            && name.starts_with('.') == pattern.starts_with('.')
    };
    let mut names: Vec<String> = names.filter(fits).collect();
    names.sort();
    names.into_iter().map(|name| dir.join(name)).collect()
}
