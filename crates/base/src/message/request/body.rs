//! The content of a request, collected completely before a worker is needed, so that a slow client occupies no
//! worker. Content that is too large for memory goes to a file, through a thread that may wait for the disk.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::context::Spool;

/// Bytes written to the file at once.
const PIECE: usize = 256 << 10;

/// A request's content.
#[derive(Debug, Default)]
pub enum Content {
    /// None was sent.
    #[default]
    Empty,
    /// Short enough to stay in memory.
    Memory(Vec<u8>),
    /// In an unnamed file, from offset 0.
    Spooled {
        /// The file; its name is already gone.
        file: File,
        /// Bytes in it.
        length: u64,
    },
}

impl Content {
    /// Length, bytes.
    pub fn length(&self) -> u64 {
        match self {
            Content::Empty => 0,
            Content::Memory(bytes) => bytes.len() as u64,
            Content::Spooled { length, .. } => *length,
        }
    }
}

/// Collects content as it arrives.
#[derive(Debug, Default)]
pub struct Collector {
    /// The part that is not in the file.
    memory: Vec<u8>,
    spool: Option<Spool>,
    /// Bytes in the file.
    written: u64,
}

impl Collector {
    /// Bytes so far.
    pub fn length(&self) -> u64 {
        self.written + self.memory.len() as u64
    }

    /// Its memory, bytes.
    pub fn in_memory(&self) -> usize {
        self.memory.capacity()
    }

    /// Adds a piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.memory.extend_from_slice(piece);
    }

    /// Whether [`Collector::spill`] must be called before more is added: there are more than `in_memory` bytes.
    pub fn is_full(&self, in_memory: usize) -> bool {
        self.memory.len() > if self.is_spooled() { PIECE.min(in_memory) } else { in_memory }
    }

    /// Whether part of it is in a file.
    pub fn is_spooled(&self) -> bool {
        self.spool.is_some()
    }

    /// Moves content from memory to the file, which is created in `spool_dir`.
    ///
    /// # Errors
    /// The folder is not writable, or the disk is full.
    pub async fn spill(&mut self, spool_dir: &Path) -> io::Result<()> {
        let spool = match &mut self.spool {
            Some(spool) => spool,
            none => none.insert(Spool::create(spool_dir)?),
        };
        let length = self.memory.len();
        let (mut memory, written) = spool.write(std::mem::take(&mut self.memory), self.written).await;
        written?;
        self.written += length as u64;
        memory.clear();
        // The first piece may have been much larger than the later ones.
        memory.shrink_to(2 * PIECE);
        self.memory = memory;
        Ok(())
    }

    /// The complete content.
    ///
    /// # Errors
    /// As [`Collector::spill`].
    pub async fn finish(mut self, spool_dir: &Path) -> io::Result<Content> {
        if self.is_spooled() && !self.memory.is_empty() {
            self.spill(spool_dir).await?;
        }
        Ok(match self.spool {
            Some(spool) => Content::Spooled { file: spool.into_file()?, length: self.written },
            None if self.memory.is_empty() => Content::Empty,
            None => Content::Memory(self.memory),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[tokio::test]
    async fn moves_to_a_file_past_the_bound() {
        let dir = std::env::temp_dir();
        let mut content = Collector::default();
        content.push(b"abcd");
        assert!(!content.is_full(4) && !content.is_spooled());
        content.push(b"e");
        assert!(content.is_full(4));
        content.spill(&dir).await.unwrap();
        assert!(content.is_spooled() && !content.is_full(4));
        content.push(b"f");
        assert_eq!(content.length(), 6);
        let Content::Spooled { mut file, length: 6 } = content.finish(&dir).await.unwrap() else {
            panic!("still in memory")
        };
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "abcdef");
    }

    #[tokio::test]
    async fn short_content_stays_in_memory() {
        let nowhere = Path::new("/nowhere/at/all");
        assert!(matches!(Collector::default().finish(nowhere).await, Ok(Content::Empty)));
        let mut content = Collector::default();
        content.push(b"abc");
        assert!(matches!(content.finish(nowhere).await, Ok(Content::Memory(bytes)) if bytes == b"abc"));
    }

    #[tokio::test]
    async fn says_when_it_cannot_spool() {
        let mut content = Collector::default();
        content.push(b"abc");
        assert!(content.spill(Path::new("/nowhere/at/all")).await.is_err());
    }
}
