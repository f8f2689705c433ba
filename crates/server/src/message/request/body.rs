//! The content of a request, whole: collected before a worker is asked, so that a slow client costs no worker. What is
//! too much for memory goes to a file, by a thread that may wait for the disk.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::context::Spool;

/// Bytes that are written to the file at once.
const PIECE: usize = 256 << 10;

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
    /// Bytes.
    pub fn length(&self) -> u64 {
        match self {
            Content::Empty => 0,
            Content::Memory(bytes) => bytes.len() as u64,
            Content::Spooled { length, .. } => *length,
        }
    }
}

/// Takes content in as it comes.
#[derive(Debug, Default)]
pub struct Collector {
    /// What is not in the file.
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

    /// Bytes of memory that it takes.
    pub fn in_memory(&self) -> usize {
        self.memory.capacity()
    }

    /// Adds a piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.memory.extend_from_slice(piece);
    }

    /// Whether [`Collector::spill`] has to be called before more comes: there are more than `in_memory` bytes.
    pub fn is_full(&self, in_memory: usize) -> bool {
        self.memory.len() > if self.is_spooled() { PIECE.min(in_memory) } else { in_memory }
    }

    /// Whether some of it is in a file.
    pub fn is_spooled(&self) -> bool {
        self.spool.is_some()
    }

    /// Moves what is in memory to the file, which is made in `spool_dir`.
    ///
    /// # Errors
    /// The folder can't be written, or the disk is full.
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
        // The first piece may have been much larger than those that follow.
        memory.shrink_to(2 * PIECE);
        self.memory = memory;
        Ok(())
    }

    /// All of it.
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
