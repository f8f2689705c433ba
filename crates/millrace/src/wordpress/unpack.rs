//! Archives and folders -> files below one folder, and nowhere else.

use crate::failure::{Explain, Failure};
use flate2::read::GzDecoder;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Component, Path, PathBuf};

/// Maximum number of files; an archive with more can't be WordPress, and is refused.
const FILES_LIMIT: usize = 100_000;
const BYTES_LIMIT: u64 = 2 << 30;

/// The destination of an archive's entry, below the target folder; `None` leaves it out.
pub type Route<'a> = &'a mut dyn FnMut(&Path) -> Option<PathBuf>;

/// Takes every entry under its own name.
pub fn everything(name: &Path) -> Option<PathBuf> {
    Some(name.to_owned())
}

/// Unpacks a zip archive.
pub fn zip(archive: impl Read + Seek, into: &Path, route: Route<'_>) -> Result<(), Failure> {
    let mut archive = zip::ZipArchive::new(archive).or_fail(|| "not a zip archive".into())?;
    let mut out = Out::new(into);
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).or_fail(|| "the zip archive is damaged".into())?;
        if entry.is_dir() {
            continue;
        }
        let name = entry
            .name()
            .map(|name| PathBuf::from(name.as_ref()))
            .or_fail(|| "the zip archive is damaged".into())?;
        if entry.is_symlink() {
            return Err(Failure::new(format!(
                "the archive contains a link, {}, which is not safe",
                name.display()
            )));
        }
        if let Some(target) = route(&name) {
            out.write(&target, &mut entry)?;
        }
    }
    Ok(())
}

/// Unpacks a gzipped tar archive.
pub fn tar_gz(archive: impl Read, into: &Path, route: Route<'_>) -> Result<(), Failure> {
    let mut out = Out::new(into);
    walk_tar_gz(archive, |name, content| match route(name) {
        Some(target) => out.write(&target, content),
        None => Ok(()),
    })
}

/// Shows each file of a gzipped tar archive to `see`.
pub fn walk_tar_gz(
    archive: impl Read,
    mut see: impl FnMut(&Path, &mut dyn Read) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let damaged = || "the .tar.gz archive is damaged".to_owned();
    let mut archive = tar::Archive::new(GzDecoder::new(archive));
    for entry in archive.entries().or_fail(damaged)? {
        let mut entry = entry.or_fail(damaged)?;
        let name = entry.path().or_fail(damaged)?.into_owned();
        let kind = entry.header().entry_type();
        if kind.is_symlink() || kind.is_hard_link() {
            return Err(Failure::new(format!(
                "the archive contains a link, {}, which is not safe",
                name.display()
            )));
        }
        if kind.is_file() {
            see(&name, &mut entry)?;
        }
    }
    Ok(())
}

/// Copies a folder; links are followed, so the copy stands on its own (Debian's package is full of them).
pub fn copy_tree(from: &Path, into: &Path, route: Route<'_>) -> Result<(), Failure> {
    let mut out = Out::new(into);
    copy_level(from, Path::new(""), &mut out, route)
}

fn copy_level(from: &Path, below: &Path, out: &mut Out<'_>, route: Route<'_>) -> Result<(), Failure> {
    let folder = from.join(below);
    // Circular links end here; WordPress itself is 9 levels deep.
    if below.components().count() > 40 {
        return Err(Failure::new(format!(
            "{} is nested too deeply: do links form a loop?",
            folder.display()
        )));
    }
    for entry in fs::read_dir(&folder).or_fail(|| folder.display().to_string())? {
        let name = below.join(entry.or_fail(|| folder.display().to_string())?.file_name());
        let path = from.join(&name);
        let kind = fs::metadata(&path).or_fail(|| path.display().to_string())?;
        let Some(target) = route(&name) else { continue };
        if kind.is_dir() {
            copy_level(from, &name, out, route)?;
        } else if kind.is_file() {
            out.write(&target, &mut File::open(&path).or_fail(|| path.display().to_string())?)?;
        }
    }
    Ok(())
}

/// Writes files below a folder and counts them.
pub struct Out<'a> {
    into: &'a Path,
    files: usize,
    bytes: u64,
}

impl<'a> Out<'a> {
    /// Writes below `into`.
    pub fn new(into: &'a Path) -> Out<'a> {
        Out { into, files: 0, bytes: 0 }
    }

    /// Writes one file.
    ///
    /// # Errors
    /// When `name` leads out of the folder, a limit is exceeded, or writing fails.
    pub fn write(&mut self, name: &Path, content: &mut dyn Read) -> Result<(), Failure> {
        let mut parts = name.components().peekable();
        if parts.peek().is_none() || !parts.all(|part| matches!(part, Component::Normal(_))) {
            return Err(Failure::new(format!(
                "the archive contains a file with a path outside of it, {}",
                name.display()
            )));
        }
        self.files += 1;
        let path = self.into.join(name);
        let left = BYTES_LIMIT - self.bytes;
        let copied = save(&path, &mut content.take(left + 1)).or_fail(|| path.display().to_string())?;
        self.bytes += copied;
        if copied > left || self.files > FILES_LIMIT {
            return Err(Failure::new("the archive is too large for a WordPress"));
        }
        Ok(())
    }
}

fn save(path: &Path, content: &mut dyn Read) -> io::Result<u64> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    io::copy(content, &mut File::create(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;
    use std::io::{Cursor, Write};

    fn zipped(files: &[(&str, &str)]) -> Cursor<Vec<u8>> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in files {
            writer.start_file(*name, zip::write::SimpleFileOptions::default()).expect("an entry");
            writer.write_all(content.as_bytes()).expect("its content");
        }
        let mut archive = writer.finish().expect("an archive");
        archive.set_position(0);
        archive
    }

    fn tarred(change: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        change(&mut builder);
        let bytes = builder.into_inner().expect("an archive");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&bytes).expect("compressed");
        gzip.finish().expect("compressed")
    }

    fn header(name: &str, size: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        // Set as bytes: tar's own setter refuses the names that this is about.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(size);
        header.set_mode(0o644);
        header.set_cksum();
        header
    }

    #[test]
    fn files_land_where_their_route_says() {
        let scratch = Scratch::new();
        let mut route = |name: &Path| name.strip_prefix("wordpress").ok().map(Path::to_owned);
        zip(zipped(&[("wordpress/a/b.php", "1"), ("readme", "2")]), scratch.path(), &mut route)
            .expect("unpacked");
        let tar = tarred(|b| b.append(&header("wordpress/c.php", 1), &b"3"[..]).expect("an entry"));
        tar_gz(&tar[..], scratch.path(), &mut route).expect("unpacked");
        assert_eq!(fs::read(scratch.path().join("a/b.php")).expect("there"), b"1");
        assert_eq!(fs::read(scratch.path().join("c.php")).expect("there"), b"3");
        assert!(!scratch.path().join("readme").exists());
    }

    #[test]
    fn nothing_gets_out_of_the_folder() {
        let scratch = Scratch::new();
        let into = scratch.path().join("in");
        for name in ["../out", "a/../../out", "/tmp/millrace-out"] {
            zip(zipped(&[(name, "x")]), &into, &mut everything).expect_err(name);
            let tar = tarred(|b| b.append(&header(name, 1), &b"x"[..]).expect("an entry"));
            tar_gz(&tar[..], &into, &mut everything).expect_err(name);
        }
        let link = tarred(|b| {
            let mut header = header("link", 0);
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_link_name("/etc").expect("a name");
            header.set_cksum();
            b.append(&header, io::empty()).expect("an entry");
        });
        tar_gz(&link[..], &into, &mut everything).expect_err("a link");
        assert!(!scratch.path().join("out").exists() && !Path::new("/tmp/millrace-out").exists());
    }

    #[test]
    fn a_damaged_archive_is_an_error() {
        let scratch = Scratch::new();
        let tar = tarred(|b| b.append(&header("a", 3000), &[7_u8; 3000][..]).expect("an entry"));
        tar_gz(&tar[..tar.len() / 2], scratch.path(), &mut everything).expect_err("torn");
        let zip_bytes = zipped(&[("a", "x")]).into_inner();
        zip(Cursor::new(&zip_bytes[..zip_bytes.len() - 8]), scratch.path(), &mut everything)
            .expect_err("torn");
    }

    #[test]
    fn a_folder_is_copied_with_what_its_links_mean() {
        let scratch = Scratch::new();
        let (from, into) = (scratch.path().join("from"), scratch.path().join("into"));
        fs::create_dir_all(from.join("sub")).expect("made");
        fs::write(from.join("sub/file"), "x").expect("written");
        std::os::unix::fs::symlink("sub/file", from.join("link")).expect("linked");
        copy_tree(&from, &into, &mut everything).expect("copied");
        assert!(fs::symlink_metadata(into.join("link")).expect("there").is_file());
        std::os::unix::fs::symlink(".", from.join("circle")).expect("linked");
        copy_tree(&from, &scratch.path().join("again"), &mut everything).expect_err("a circle");
    }
}
