//! The content of a request, whole: collected before a worker is asked, so that a slow client costs no worker.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

/// A request's content.
#[derive(Debug, Default)]
pub enum Content {
    /// None was sent.
    #[default]
    Empty,
    /// Short enough to stay in memory.
    Memory(Vec<u8>),
    /// In a file without a name, at offset 0.
    Spooled {
        /// The file; its name is already gone.
        file: File,
        /// Bytes in it.
        length: u64,
    },
}

impl Content {
    /// Bytes so far.
    pub fn length(&self) -> u64 {
        match self {
            Content::Empty => 0,
            Content::Memory(bytes) => bytes.len() as u64,
            Content::Spooled { length, .. } => *length,
        }
    }

    /// Adds a piece; beyond `in_memory` bytes all of it moves to a file in `spool_dir`.
    ///
    /// # Errors
    /// The spool directory can't be written, or the disk is full.
    pub fn push(&mut self, piece: &[u8], in_memory: usize, spool_dir: &Path) -> io::Result<()> {
        match self {
            Content::Empty if piece.len() <= in_memory => *self = Content::Memory(piece.to_vec()),
            Content::Memory(bytes) if bytes.len() + piece.len() <= in_memory => {
                bytes.extend_from_slice(piece)
            }
            Content::Spooled { file, length } => {
                file.write_all(piece)?;
                *length += piece.len() as u64;
            }
            Content::Empty | Content::Memory(_) => {
                let mut file = nameless_file(spool_dir)?;
                if let Content::Memory(bytes) = self {
                    file.write_all(bytes)?;
                }
                let length = self.length();
                *self = Content::Spooled { file, length };
                return self.push(piece, in_memory, spool_dir);
            }
        }
        Ok(())
    }

    /// Ready to be read from the start.
    ///
    /// # Errors
    /// The spooled file can't be positioned.
    pub fn finish(&mut self) -> io::Result<()> {
        match self {
            Content::Spooled { file, .. } => file.seek(SeekFrom::Start(0)).map(|_| ()),
            _ => Ok(()),
        }
    }
}

/// A file that vanishes with its last descriptor. Not every file system has `O_TMPFILE`, hence the second way.
fn nameless_file(dir: &Path) -> io::Result<File> {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBER: AtomicU64 = AtomicU64::new(0);

    let mode = Mode::RUSR | Mode::WUSR;
    if let Ok(file) = openat(CWD, dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        return Ok(file.into());
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = dir.join(format!("millrace-{}-{number}", std::process::id()));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat(CWD, &path, flags, mode)?;
    std::fs::remove_file(&path)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn moves_to_a_file_past_the_bound() {
        let dir = std::env::temp_dir();
        let mut content = Content::default();
        content.push(b"abc", 4, &dir).unwrap();
        assert!(matches!(content, Content::Memory(_)));
        content.push(b"de", 4, &dir).unwrap();
        content.push(b"f", 4, &dir).unwrap();
        assert_eq!(content.length(), 6);
        content.finish().unwrap();
        let Content::Spooled { mut file, .. } = content else { panic!("still in memory") };
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "abcdef");
    }

    #[test]
    fn says_when_it_cannot_spool() {
        let mut content = Content::default();
        assert!(content.push(b"abc", 1, Path::new("/nowhere/at/all")).is_err());
    }
}
