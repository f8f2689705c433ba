//! The content of a response, in pieces that can be sent at once.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};

use millrace_base::message::reply::{Body, ContentSource, Fields};

/// Bytes that the library sends without copying them.
#[derive(Debug)]
pub(super) enum Piece {
    /// A part of a cached value.
    Kept(Arc<[u8]>, usize, usize),
    /// Made for this response.
    Made(Bytes),
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        match self {
            Piece::Kept(_, start, end) => end - start,
            Piece::Made(bytes) => bytes.len(),
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Piece::Kept(bytes, start, end) => &bytes[*start..*end],
            Piece::Made(bytes) => bytes,
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Piece::Kept(_, start, end) => *start = (*start + count).min(*end),
            Piece::Made(bytes) => bytes.advance(count),
        }
    }
}

/// The unsent content of a response.
pub(super) enum UnsentContent {
    /// From a cache.
    Kept(Arc<[u8]>, usize, usize),
    /// Made for this response.
    Made(Bytes),
    /// A part of a file: start, end.
    File(Rc<File>, u64, u64),
    /// Several parts in sequence.
    Parts(VecDeque<UnsentContent>),
    /// Still being made.
    Stream(Box<SourceStream>),
}

/// Content that is still being made.
pub(super) struct SourceStream {
    source: Box<dyn ContentSource>,
    /// The latest piece.
    piece: Bytes,
    /// Remaining bytes, if its maker announced the length.
    left: Option<u64>,
    ended: bool,
    /// The trailers, once it has ended.
    trailers: Fields,
}

impl UnsentContent {
    /// The content of `body`; `None`: it has none.
    pub(super) fn of(body: Body) -> Option<UnsentContent> {
        Some(match body {
            Body::Empty | Body::Omitted(_) => return None,
            Body::Bytes(bytes) if bytes.is_empty() => return None,
            Body::Shared { start, end, .. } if start == end => return None,
            Body::File { length: 0, .. } => return None,
            Body::Bytes(bytes) => UnsentContent::Made(bytes.into()),
            Body::Shared { bytes, start, end } => UnsentContent::Kept(bytes, start, end),
            Body::File { file, offset, length } => UnsentContent::File(file, offset, offset + length),
            Body::Parts(parts) => {
                UnsentContent::Parts(parts.into_iter().filter_map(UnsentContent::of).collect())
            }
            Body::Stream(source) => {
                let left = source.length();
                UnsentContent::Stream(Box::new(SourceStream {
                    source,
                    piece: Bytes::new(),
                    left,
                    ended: false,
                    trailers: Fields::default(),
                }))
            }
        })
    }

    /// Number of available bytes; `None`: it has ended.
    ///
    /// # Errors
    /// Its maker can't finish it.
    pub(super) fn poll_there(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<u64>>> {
        let there = match self {
            UnsentContent::Kept(_, start, end) => (*end - *start) as u64,
            UnsentContent::Made(bytes) => bytes.len() as u64,
            UnsentContent::File(_, start, end) => *end - *start,
            UnsentContent::Stream(stream) => return stream.poll_there(cx),
            UnsentContent::Parts(parts) => loop {
                let Some(part) = parts.front_mut() else { break 0 };
                match ready!(part.poll_there(cx))? {
                    None => drop(parts.pop_front()),
                    there => return Poll::Ready(Ok(there)),
                }
            },
        };
        Poll::Ready(Ok(Some(there).filter(|there| *there > 0)))
    }

    /// Takes the next `count` available bytes, or some of them.
    ///
    /// # Errors
    /// The file can't be read, or is now shorter than its announced length: the client must notice.
    pub(super) fn take(&mut self, count: usize) -> io::Result<Piece> {
        Ok(match self {
            UnsentContent::Kept(bytes, start, _) => {
                let from = *start;
                *start += count;
                Piece::Kept(bytes.clone(), from, *start)
            }
            UnsentContent::Made(bytes) => Piece::Made(bytes.split_to(count)),
            UnsentContent::File(file, start, _) => {
                let bytes = read_at(file, *start, count)?;
                *start += bytes.len() as u64;
                Piece::Made(bytes.into())
            }
            UnsentContent::Parts(parts) => {
                parts.front_mut().ok_or(io::ErrorKind::UnexpectedEof).map_err(io::Error::from)?.take(count)?
            }
            UnsentContent::Stream(stream) => Piece::Made(stream.piece.split_to(count)),
        })
    }

    /// Its memory in bytes, without cached values.
    pub(super) fn in_memory(&self) -> usize {
        match self {
            UnsentContent::Kept(..) | UnsentContent::File(..) => 0,
            UnsentContent::Made(bytes) => bytes.len(),
            UnsentContent::Parts(parts) => parts.iter().map(UnsentContent::in_memory).sum(),
            UnsentContent::Stream(stream) => stream.piece.len(),
        }
    }

    /// Whether it is known that nothing follows.
    pub(super) fn is_over(&self) -> bool {
        match self {
            UnsentContent::Kept(_, start, end) => start == end,
            UnsentContent::Made(bytes) => bytes.is_empty(),
            UnsentContent::File(_, start, end) => start == end,
            UnsentContent::Parts(parts) => parts.iter().all(UnsentContent::is_over),
            UnsentContent::Stream(stream) => stream.piece.is_empty() && stream.is_over(),
        }
    }

    /// The trailers, after the end.
    pub(super) fn take_trailers(&mut self) -> Fields {
        match self {
            UnsentContent::Stream(stream) => std::mem::take(&mut stream.trailers),
            _ => Fields::default(),
        }
    }
}

impl SourceStream {
    /// Whether it is known that neither content nor trailers follow the latest piece.
    fn is_over(&self) -> bool {
        match self.ended {
            true => self.trailers.is_empty(),
            false => self.left == Some(0) && !self.source.may_have_trailers(),
        }
    }

    fn poll_there(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<u64>>> {
        while self.piece.is_empty() {
            if self.ended || self.is_over() {
                return Poll::Ready(Ok(None));
            }
            let mut piece = Vec::new();
            if !ready!(self.source.poll_next(cx, &mut piece))? {
                self.ended = true;
                self.trailers = self.source.take_trailers();
                return Poll::Ready(match self.left {
                    Some(1..) => Err(io::ErrorKind::UnexpectedEof.into()),
                    _ => Ok(None),
                });
            }
            if let Some(left) = &mut self.left {
                // Excess content would break the rules of the protocol.
                piece.truncate((*left).min(piece.len() as u64) as usize);
                *left -= piece.len() as u64;
            }
            self.piece = piece.into();
        }
        Poll::Ready(Ok(Some(self.piece.len() as u64)))
    }
}

fn read_at(file: &File, offset: u64, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(most);
    match rustix::io::pread(file, rustix::buffer::spare_capacity(&mut bytes), offset)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::task::Waker;

    /// All of it, in pieces of at most `most` bytes; and whether it was known at the last one that nothing follows.
    fn all(content: &mut UnsentContent, most: usize) -> io::Result<(Vec<u8>, bool)> {
        let mut cx = Context::from_waker(Waker::noop());
        let (mut out, mut over) = (Vec::new(), false);
        while let Poll::Ready(there) = content.poll_there(&mut cx) {
            let Some(there) = there? else { break };
            let piece = content.take(most.min(there as usize))?;
            out.extend_from_slice(piece.chunk());
            over = content.is_over();
        }
        Ok((out, over))
    }

    fn file(text: &[u8]) -> Rc<File> {
        let path = std::env::temp_dir().join(format!("millrace-h2-{}-{}", std::process::id(), text.len()));
        let mut file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(text).unwrap();
        Rc::new(file)
    }

    #[test]
    fn every_kind_comes_whole() {
        let kept: Arc<[u8]> = b"-kept-"[..].into();
        let kept = || Body::Shared { bytes: kept.clone(), start: 1, end: 5 };
        let made = || Body::Bytes(b"made".to_vec());
        let part = || Body::File { file: file(b"a long file"), offset: 2, length: 4 };
        let parts = Body::Parts(vec![made(), Body::Empty, part(), kept()]);
        for (body, expected) in
            [(kept(), "kept"), (made(), "made"), (part(), "long"), (parts, "madelongkept")]
        {
            let mut content = UnsentContent::of(body).unwrap();
            assert_eq!(all(&mut content, 3).unwrap(), (expected.into(), true));
        }
        assert!(
            UnsentContent::of(Body::Empty).is_none() && UnsentContent::of(Body::Bytes(Vec::new())).is_none()
        );
    }

    #[test]
    fn a_file_that_became_shorter_is_noticed() {
        let mut content =
            UnsentContent::of(Body::File { file: file(b"short"), offset: 0, length: 50 }).unwrap();
        assert_eq!(all(&mut content, 10).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    /// Pieces in sequence.
    #[derive(Debug, Default)]
    struct Pieces(Vec<&'static [u8]>, Option<u64>, Fields);

    impl ContentSource for Pieces {
        fn length(&self) -> Option<u64> {
            self.1
        }

        fn poll_next(&mut self, _: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<bool>> {
            if self.0.is_empty() {
                return Poll::Ready(Ok(false));
            }
            buffer.extend_from_slice(self.0.remove(0));
            Poll::Ready(Ok(true))
        }

        fn may_have_trailers(&self) -> bool {
            !self.2.is_empty()
        }

        fn take_trailers(&mut self) -> Fields {
            std::mem::take(&mut self.2)
        }

        fn take_aside(&mut self) -> Option<Box<millrace_base::message::reply::Aside>> {
            None
        }
    }

    #[test]
    fn trailers_come_behind_the_content() {
        for length in [None, Some(5)] {
            let mut trailers = Fields::default();
            trailers.push("X-Sum", b"1");
            let source = Box::new(Pieces(vec![b"hello"], length, trailers));
            let mut content = UnsentContent::of(Body::Stream(source)).unwrap();
            assert_eq!(all(&mut content, 10).unwrap(), (b"hello".to_vec(), false), "{length:?}");
            assert_eq!(content.take_trailers().blocks().concat(), b"X-Sum: 1\r\n", "{length:?}");
            assert!(content.is_over());
        }
    }

    #[test]
    fn what_is_being_made_ends_as_it_was_announced() {
        let stream = |pieces: &[&'static [u8]], length| {
            let source = Box::new(Pieces(pieces.to_vec(), length, Fields::default()));
            all(&mut UnsentContent::of(Body::Stream(source)).unwrap(), 4)
        };
        assert_eq!(stream(&[b"hello", b"", b" world"], None).unwrap(), (b"hello world".to_vec(), false));
        assert_eq!(stream(&[b"hello", b" world"], Some(11)).unwrap(), (b"hello world".to_vec(), true));
        assert_eq!(stream(&[b"hello", b" world"], Some(8)).unwrap(), (b"hello wo".to_vec(), true));
        assert!(stream(&[b"hello"], Some(8)).is_err());
    }
}
