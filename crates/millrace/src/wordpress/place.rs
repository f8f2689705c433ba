//! The folder that a new site is made in.

use crate::failure::{Explain, Failure};
use crate::rights::act_in;
use std::fs;
use std::path::{Path, PathBuf};

/// Stands in the staging folder while it is one; a folder with it was left behind by a run that was killed.
const MARK: &str = ".millrace-part";

/// DIR, and the staging folder beside it (or in it, where DIR exists already) that becomes it. Dropped unfinished, the staging
/// folder is removed.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
    staging: PathBuf,
    inside: bool,
    done: bool,
}

impl Place {
    /// Checks that `dir` is free and makes the staging folder. From here on this process has the rights of the owner of `dir`, or, if
    /// it doesn't exist, of the folder that it will be in.
    ///
    /// # Errors
    /// When `dir` is a file, isn't empty, or can't be written.
    pub fn prepare(dir: &Path) -> Result<Place, Failure> {
        let dir = std::path::absolute(dir).or_fail(|| format!("{}", dir.display()))?;
        let dir = act_where_it_will_be(&dir)?;
        let inside = match fs::read_dir(&dir) {
            Ok(entries) => {
                refuse_full(&dir, entries)?;
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => return Err(Failure::new(format!("{}: {error}", dir.display()))),
        };
        let staging = if inside { dir.join(".part") } else { beside(&dir)? };
        if staging.join(MARK).exists() {
            fs::remove_dir_all(&staging).or_fail(|| format!("cannot remove {}", staging.display()))?;
        }
        let make = || -> std::io::Result<()> {
            if let Some(parent) = staging.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::create_dir(&staging)?;
            fs::write(staging.join(MARK), "")
        };
        make().or_fail(|| format!("cannot create {}", staging.display()))?;
        Ok(Place { dir, staging, inside, done: false })
    }

    /// Where the site is put together.
    pub fn staging(&self) -> &Path {
        &self.staging
    }

    /// The staging folder becomes DIR.
    pub fn finish(mut self) -> Result<PathBuf, Failure> {
        let swap = || -> std::io::Result<()> {
            fs::remove_file(self.staging.join(MARK))?;
            if !self.inside {
                return fs::rename(&self.staging, &self.dir);
            }
            for entry in fs::read_dir(&self.staging)? {
                let entry = entry?;
                fs::rename(entry.path(), self.dir.join(entry.file_name()))?;
            }
            fs::remove_dir(&self.staging)
        };
        swap().or_fail(|| format!("cannot move the new site to {}", self.dir.display()))?;
        self.done = true;
        Ok(self.dir.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.done {
            // An error here can't be handled: the original failure is already being reported.
            let _ = fs::remove_dir_all(&self.staging);
        }
    }
}

fn act_where_it_will_be(dir: &Path) -> Result<PathBuf, Failure> {
    let there = dir.ancestors().find(|above| above.symlink_metadata().is_ok()).unwrap_or(dir);
    if !there.is_dir() {
        return Err(Failure::new(format!("{} is not a folder", there.display())).next("name another folder"));
    }
    let rest = dir.strip_prefix(there).unwrap_or(Path::new(""));
    let there = act_in(there)?;
    // Joining nothing would add a slash.
    Ok(if rest.as_os_str().is_empty() { there } else { there.join(rest) })
}

/// Existing files in DIR belong to the user; only a leftover staging folder may be removed.
fn refuse_full(dir: &Path, entries: fs::ReadDir) -> Result<(), Failure> {
    for entry in entries {
        let entry = entry.or_fail(|| dir.display().to_string())?;
        if !(entry.file_name() == ".part" && entry.path().join(MARK).exists()) {
            return Err(Failure::new(format!(
                "{} is not empty (it contains {})",
                dir.display(),
                entry.file_name().to_string_lossy()
            ))
            .next("name a folder that does not exist; Millrace creates it"));
        }
    }
    Ok(())
}

fn beside(dir: &Path) -> Result<PathBuf, Failure> {
    let mut name = dir
        .file_name()
        .ok_or_else(|| Failure::new(format!("{} is not a folder name", dir.display())))?
        .to_owned();
    name.push(".part");
    Ok(dir.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .expect("a folder")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_finished_site_is_there_whole() {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path().join("empty")).expect("made");
        for name in ["new", "a/b/deep", "empty"] {
            let dir = scratch.path().join(name);
            let place = Place::prepare(&dir).expect("free");
            fs::write(place.staging().join("index.php"), "x").expect("written");
            assert_eq!(place.finish().expect("moved"), dir);
            assert_eq!(names(&dir), ["index.php"], "{name}");
        }
    }

    #[test]
    fn an_unfinished_site_leaves_nothing() {
        let scratch = Scratch::new();
        let place = Place::prepare(&scratch.path().join("new")).expect("free");
        fs::write(place.staging().join("index.php"), "x").expect("written");
        drop(place);
        assert!(names(scratch.path()).is_empty());
    }

    #[test]
    fn a_folder_in_use_is_refused_and_kept() {
        let scratch = Scratch::new();
        fs::write(scratch.path().join("mine"), "x").expect("written");
        let error = Place::prepare(scratch.path()).expect_err("not empty");
        assert!(error.to_string().contains("is not empty (it contains mine)"), "{error}");
        Place::prepare(&scratch.path().join("mine")).expect_err("a file");
        assert_eq!(names(scratch.path()), ["mine"]);
    }

    #[test]
    fn what_a_killed_run_left_is_cleared() {
        let scratch = Scratch::new();
        let dir = scratch.path().join("new");
        std::mem::forget(Place::prepare(&dir).expect("free"));
        assert_eq!(names(scratch.path()), ["new.part"]);
        drop(Place::prepare(&dir).expect("free again"));
        fs::create_dir(scratch.path().join("other.part")).expect("made");
        Place::prepare(&scratch.path().join("other")).expect_err("somebody else's .part");
        assert_eq!(names(scratch.path()), ["other.part"]);
    }
}
