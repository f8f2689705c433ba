//! What tests of several crates use.

use std::io::Read;
use std::path::{Path, PathBuf};

use millrace_settings::plan;
use millrace_wire::encoding::Coding;

/// A directory that is deleted with its test.
#[derive(Debug)]
pub struct Dir(PathBuf);

impl Dir {
    /// A new one; only one test has this name.
    ///
    /// # Panics
    ///
    /// If it can't be made.
    pub fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("millrace-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).expect("a new directory");
        Dir(dir)
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Settings of a log that writes errors to this file.
pub fn plan(error: &Path) -> plan::Log {
    plan::Log {
        access: None,
        access_format: plan::AccessFormat::Combined,
        error: Some(error.to_owned()),
        level: plan::Level::Info,
    }
}

/// The lines of a log without their time.
///
/// # Panics
///
/// If there is no such file.
pub fn texts(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("a log");
    text.lines().map(|line| line.split_once("Z ").map_or(line, |(_, rest)| rest).to_owned()).collect()
}

/// What is readable of coded content that may not have an end yet.
///
/// # Panics
///
/// If there is no decoder.
pub fn readable(coding: Coding, coded: &[u8]) -> Vec<u8> {
    let mut reader: Box<dyn Read> = match coding {
        Coding::Identity => Box::new(coded),
        Coding::Gzip => Box::new(flate2::read::GzDecoder::new(coded)),
        Coding::Zstd => Box::new(zstd::stream::read::Decoder::new(coded).expect("a decoder")),
        Coding::Brotli => Box::new(brotli::Decompressor::new(coded, 4096)),
    };
    let (mut all, mut piece) = (Vec::new(), [0; 1000]);
    while let Ok(count @ 1..) = reader.read(&mut piece) {
        all.extend_from_slice(&piece[..count]);
    }
    all
}
