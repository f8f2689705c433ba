//! The files of a run: rewritten after each stage, so that an interrupted run keeps its results.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::csv::csv;
use super::document::Document;
use super::html;

/// Destinations of results; `None` for unwanted ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// `--json`
    pub json: Option<PathBuf>,
    /// `--csv`
    pub csv: Option<PathBuf>,
    /// `--report`
    pub report: Option<PathBuf>,
}

impl Files {
    /// Checks that they are writable. Their contents stay.
    ///
    /// # Errors
    /// The first that is not writable, with its name.
    pub fn check(&self) -> io::Result<()> {
        let paths = [&self.json, &self.csv, &self.report].into_iter().flatten();
        for path in paths.filter(|path| path.as_os_str() != "-") {
            if path.is_dir() {
                return Err(io::Error::other(format!("{} is a folder", path.display())));
            }
            if !path.exists() {
                replace(path, "").and_then(|()| std::fs::remove_file(path))?;
            }
        }
        Ok(())
    }

    /// Writes all files, each atomically. `-` is standard output: written only at the end.
    ///
    /// # Errors
    /// The first that can't be written, with its name.
    pub fn write(&self, document: &Document, is_last: bool) -> io::Result<()> {
        let write = |path: &Option<PathBuf>, make: &dyn Fn(&Document) -> String| match path {
            Some(path) if path.as_os_str() == "-" => {
                if is_last {
                    io::stdout().write_all(make(document).as_bytes())
                } else {
                    Ok(())
                }
            }
            Some(path) => replace(path, &make(document)),
            None => Ok(()),
        };
        write(&self.json, &Document::json)?;
        write(&self.csv, &csv)?;
        write(&self.report, &html::report)
    }
}

/// Replaces the contents of a file by `text`.
///
/// # Errors
/// It is not writable; the message has the name.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    // A device or a pipe can't be replaced.
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return std::fs::write(path, text).map_err(named);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path)).map_err(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::samples;

    #[test]
    fn all_are_written_and_replaced() {
        let folder = std::env::temp_dir().join(format!("millrace-load-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let place = |name: &str| Some(folder.join(name));
        let files = Files { json: place("a.json"), csv: place("a.csv"), report: place("a.html") };
        let document = samples::ramp(100);
        files.check().unwrap();
        files.write(&samples::breaking(100, 0.5), false).unwrap();
        files.check().unwrap();
        files.write(&document, true).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(Document::from_json(&read("a.json")), Ok(document));
        assert!(read("a.html").starts_with("<!DOCTYPE html>") && read("a.csv").starts_with("second,"));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3, "nothing else is left");
        let nowhere = Files { json: place("none/a.json"), ..Files::default() };
        assert!(nowhere.check().unwrap_err().to_string().contains("none/a.json"));
        assert!(nowhere.write(&samples::ramp(10), true).unwrap_err().to_string().contains("none/a.json"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
