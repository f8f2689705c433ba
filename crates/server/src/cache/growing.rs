//! A page that a script is still making: it is collected for the cache and at the same time sent to the requests that
//! may have it already, coded once per coding.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use millrace_wire::encoding::Coding;

use millrace_base::message::reply::{Aside, Coder, ContentSource};

/// Bytes that are held for the slowest reader when the page is too large for the cache.
const KEEP_BYTES: usize = 256 << 10;

/// A reader that starts when there is more content than this gets the page plain, unless it is already being coded:
/// coding all of it at once would delay the thread's other connections. Bytes; some milliseconds.
const CODED_AT_ONCE: usize = 512 << 10;

/// The content so far. Shared by the task that collects it and its readers, possibly on other threads.
#[derive(Debug, Default)]
pub struct Growing {
    state: Mutex<GrowingState>,
}

#[derive(Debug, Default)]
struct GrowingState {
    /// The content as the script makes it.
    plain: Track,
    /// The same in the codings that readers use.
    coded: Vec<CodedTrack>,
    next_reader: u64,
    /// The page is no longer collected: only what readers have not taken yet is held.
    passing: bool,
    /// Whether it was completed, if it has ended.
    end: Option<bool>,
    waiting: Vec<Waker>,
    collector: Option<Waker>,
}

/// Content for readers, in pieces.
#[derive(Debug, Default)]
struct Track {
    pieces: VecDeque<Arc<[u8]>>,
    /// Number of earlier pieces that have been dropped.
    dropped: usize,
    /// Number of pieces that each reader has taken.
    readers: BTreeMap<u64, usize>,
}

#[derive(Debug)]
struct CodedTrack {
    coding: Coding,
    coder: Coder,
    track: Track,
}

impl Growing {
    fn lock(&self) -> MutexGuard<'_, GrowingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a piece.
    pub fn push(&self, piece: &[u8]) {
        let mut state = self.lock();
        state.plain.add(piece);
        state.coded.iter_mut().for_each(|coded| coded.make(|coder, out| coder.push(piece, out)));
        wake(state);
    }

    /// No more content comes; `whole`: the page is complete.
    pub fn end(&self, whole: bool) {
        let mut state = self.lock();
        state.end = Some(whole);
        state.coded.iter_mut().for_each(|coded| coded.end(whole));
        wake(state);
    }

    /// The content in one piece.
    pub fn whole(&self) -> Vec<u8> {
        let state = self.lock();
        let mut all = Vec::with_capacity(state.plain.held());
        state.plain.pieces.iter().for_each(|piece| all.extend_from_slice(piece));
        all
    }

    /// From now on content is held only for the current readers. Waits until they have taken nearly all; false if
    /// none is left.
    pub async fn pass(&self) -> bool {
        poll_fn(|cx| {
            let mut state = self.lock();
            state.passing = true;
            state.drop_taken();
            if state.tracks().all(|track| track.readers.is_empty()) {
                return Poll::Ready(false);
            }
            if state.tracks().map(|track| track.held()).sum::<usize>() <= KEEP_BYTES {
                return Poll::Ready(true);
            }
            state.collector = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// A reader from the start, which returns the announced `length` and no more. `None`: the start is no longer
    /// held.
    pub fn reader(self: &Arc<Growing>, length: Option<u64>) -> Option<Box<dyn ContentSource>> {
        let mut state = self.lock();
        if state.plain.dropped > 0 {
            return None;
        }
        let id = state.next_reader;
        state.next_reader += 1;
        state.plain.readers.insert(id, 0);
        drop(state);
        Some(Box::new(GrowingReader { growing: self.clone(), id, coding: Coding::Identity, left: length }))
    }
}

impl GrowingState {
    fn tracks(&mut self) -> impl Iterator<Item = &mut Track> {
        [&mut self.plain].into_iter().chain(self.coded.iter_mut().map(|coded| &mut coded.track))
    }

    fn drop_taken(&mut self) {
        if self.passing {
            self.tracks().for_each(Track::drop_taken);
        }
    }

    /// The track in a coding, from its start; created if there is none yet. `announced`: length of the page as
    /// announced. `None`: its start is no longer held, or it is too late to begin.
    fn track_in(&mut self, coding: Coding, announced: Option<u64>) -> Option<&mut Track> {
        let known = self.coded.iter().position(|coded| coded.coding == coding);
        let at = match known {
            Some(at) => at,
            None if self.plain.held() > CODED_AT_ONCE => return None,
            None => {
                let coder = Coder::new(coding, announced)?;
                let mut coded = CodedTrack { coding, coder, track: Track::default() };
                for piece in &self.plain.pieces {
                    coded.make(|coder, out| coder.push(piece, out));
                }
                self.end.into_iter().for_each(|whole| coded.end(whole));
                self.coded.push(coded);
                self.coded.len() - 1
            }
        };
        Some(&mut self.coded[at].track).filter(|track| track.dropped == 0)
    }

    /// The next piece for a reader of the page in a coding.
    fn take(&mut self, reader: u64, coding: Coding) -> Option<Arc<[u8]>> {
        if coding == Coding::Identity {
            return self.plain.take(reader);
        }
        let coded = self.coded.iter_mut().find(|coded| coded.coding == coding)?;
        coded.track.take(reader).or_else(|| {
            // The reader has taken all pieces: what is still in the coder is for it.
            coded.make(Coder::flush);
            coded.track.take(reader)
        })
    }

    /// Whether a reader that has taken all pieces has the complete page.
    fn is_complete(&self, coding: Coding, left: Option<u64>) -> bool {
        match self.coded.iter().find(|coded| coded.coding == coding) {
            Some(coded) => coded.coder.is_whole(),
            None => left == Some(0) || left.is_none() && self.end == Some(true),
        }
    }

    fn leave(&mut self, reader: u64) {
        for track in self.tracks() {
            track.readers.remove(&reader);
        }
        // An encoder takes memory; later readers get the plain pieces.
        self.coded.retain(|coded| !coded.track.readers.is_empty());
        self.drop_taken();
    }
}

impl Track {
    fn add(&mut self, piece: &[u8]) {
        if !piece.is_empty() {
            self.pieces.push_back(piece.into());
        }
    }

    fn take(&mut self, reader: u64) -> Option<Arc<[u8]>> {
        let taken = self.readers.get_mut(&reader)?;
        let piece = self.pieces.get(*taken - self.dropped).cloned()?;
        *taken += 1;
        Some(piece)
    }

    fn held(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum()
    }

    fn drop_taken(&mut self) {
        let slowest = self.readers.values().copied().min().unwrap_or(usize::MAX);
        while self.dropped < slowest && self.pieces.pop_front().is_some() {
            self.dropped += 1;
        }
    }
}

impl CodedTrack {
    /// Runs the coder and appends its output to the track.
    fn make(&mut self, make: impl FnOnce(&mut Coder, &mut Vec<u8>)) {
        let mut out = Vec::new();
        make(&mut self.coder, &mut out);
        self.track.add(&out);
    }

    fn end(&mut self, whole: bool) {
        if whole { self.make(Coder::end) } else { self.coder.give_up() }
    }
}

fn wake(mut state: MutexGuard<'_, GrowingState>) {
    let waiting = std::mem::take(&mut state.waiting);
    drop(state);
    waiting.into_iter().for_each(Waker::wake);
}

/// Reads a growing page at its own pace.
#[derive(Debug)]
struct GrowingReader {
    growing: Arc<Growing>,
    id: u64,
    coding: Coding,
    /// Remaining bytes of the announced length; unknown for coded content.
    left: Option<u64>,
}

impl ContentSource for GrowingReader {
    fn length(&self) -> Option<u64> {
        self.left
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        if self.left == Some(0) {
            return Poll::Ready(Ok(false));
        }
        let mut state = self.growing.lock();
        if let Some(piece) = state.take(self.id, self.coding) {
            state.drop_taken();
            let collector = state.collector.take();
            drop(state);
            collector.into_iter().for_each(Waker::wake);
            let most = self.left.map_or(piece.len(), |left| left.min(piece.len() as u64) as usize);
            buffer.extend_from_slice(&piece[..most]);
            self.left = self.left.map(|left| left - most as u64);
            return Poll::Ready(Ok(true));
        }
        if state.is_complete(self.coding, self.left) {
            return Poll::Ready(Ok(false));
        }
        if state.end.is_some() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        state.waiting.push(cx.waker().clone());
        Poll::Pending
    }

    fn code(&mut self, coding: Coding) -> bool {
        let mut state = self.growing.lock();
        let Some(track) = state.track_in(coding, self.left) else { return false };
        track.readers.insert(self.id, 0);
        state.plain.readers.remove(&self.id);
        state.drop_taken();
        drop(state);
        (self.coding, self.left) = (coding, None);
        true
    }

    fn take_aside(&mut self) -> Option<Box<Aside>> {
        None
    }
}

impl Drop for GrowingReader {
    fn drop(&mut self) {
        let mut state = self.growing.lock();
        state.leave(self.id);
        let collector = state.collector.take();
        drop(state);
        collector.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_base::testing::readable;

    async fn read(source: &mut dyn ContentSource) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        while poll_fn(|cx| source.poll_next(cx, &mut all)).await? {}
        Ok(all)
    }

    #[tokio::test]
    async fn readers_start_at_the_beginning_whenever_they_come() {
        let growing = Arc::new(Growing::default());
        let mut early = growing.reader(None).unwrap();
        let maker = growing.clone();
        let making = tokio::spawn(async move {
            tokio::task::yield_now().await;
            maker.push(b"one ");
            tokio::task::yield_now().await;
            maker.push(b"two");
            maker.end(true);
        });
        assert_eq!(read(&mut *early).await.unwrap(), b"one two");
        making.await.unwrap();
        assert_eq!(growing.whole(), b"one two");
        assert_eq!(read(&mut *growing.reader(None).unwrap()).await.unwrap(), b"one two");
        assert_eq!(read(&mut *growing.reader(Some(5)).unwrap()).await.unwrap(), b"one t");
        assert!(read(&mut *growing.reader(Some(8)).unwrap()).await.is_err());
    }

    #[tokio::test]
    async fn a_page_that_breaks_off_is_an_error() {
        let growing = Arc::new(Growing::default());
        growing.push(b"half");
        growing.end(false);
        assert!(read(&mut *growing.reader(None).unwrap()).await.is_err());
    }

    #[tokio::test]
    async fn a_page_too_large_to_keep_is_held_only_for_its_slowest_reader() {
        let growing = Arc::new(Growing::default());
        let (mut fast, mut slow) = (growing.reader(None).unwrap(), growing.reader(None).unwrap());
        let maker = growing.clone();
        let making = tokio::spawn(async move {
            for _ in 0..64 {
                maker.push(&[1; 64 << 10]);
                assert!(maker.pass().await);
                let held: usize = maker.lock().tracks().map(|track| track.held()).sum();
                assert!(held <= KEEP_BYTES);
            }
            maker.end(true);
        });
        let (all, too) = tokio::join!(read(&mut *fast), read(&mut *slow));
        assert_eq!((all.unwrap().len(), too.unwrap().len()), (4 << 20, 4 << 20));
        assert!(growing.reader(None).is_none(), "it would begin in the middle");
        drop((fast, slow));
        making.await.unwrap();
        growing.push(b"more");
        assert!(!growing.pass().await, "nobody reads any more");
    }
    #[tokio::test]
    async fn all_who_want_a_coding_share_one_encoder_and_wait_for_nothing() {
        let growing = Arc::new(Growing::default());
        growing.push(b"one ");
        let (mut early, mut late) = (growing.reader(Some(7)).unwrap(), growing.reader(Some(7)).unwrap());
        let plain = growing.reader(Some(7)).unwrap();
        assert!(early.code(Coding::Gzip) && early.length().is_none());
        let (mut all, mut now) = (Vec::new(), Context::from_waker(Waker::noop()));
        while let Poll::Ready(more) = early.poll_next(&mut now, &mut all) {
            assert!(more.unwrap());
        }
        assert_eq!(readable(Coding::Gzip, &all), b"one ", "what the script flushed is there");
        growing.push(b"two and what was not announced");
        assert!(late.code(Coding::Gzip));
        assert_eq!(growing.lock().coded.len(), 1);
        while early.next(&mut all).await.unwrap() {}
        assert_eq!(readable(Coding::Gzip, &all), b"one two");
        assert_eq!(read(&mut *late).await.unwrap(), all, "the script goes on, they have all");
        drop((early, late));
        assert!(growing.lock().coded.is_empty());
        growing.end(true);
        let mut last = growing.reader(None).unwrap();
        assert!(last.code(Coding::Zstd));
        let coded = read(&mut *last).await.unwrap();
        assert_eq!(readable(Coding::Zstd, &coded), b"one two and what was not announced");
        drop((plain, last));
        growing.push(&vec![b'x'; CODED_AT_ONCE]);
        assert!(!growing.reader(None).unwrap().code(Coding::Zstd), "it would take a while");
    }

    #[tokio::test]
    async fn a_coded_page_that_breaks_off_or_is_too_short_is_an_error() {
        for (announced, whole) in [(None, false), (Some(9), true)] {
            let growing = Arc::new(Growing::default());
            let mut reader = growing.reader(announced).unwrap();
            assert!(reader.code(Coding::Gzip));
            growing.push(b"half");
            growing.end(whole);
            assert!(read(&mut *reader).await.is_err(), "{announced:?}");
        }
    }

    #[tokio::test]
    async fn a_coded_page_too_large_to_keep_is_held_only_for_its_slowest_reader() {
        let growing = Arc::new(Growing::default());
        let mut reader = growing.reader(None).unwrap();
        assert!(reader.code(Coding::Gzip));
        // Incompressible content.
        let hash = |n: u32| n.wrapping_mul(2_654_435_769).rotate_left(n % 31).wrapping_mul(n).to_le_bytes();
        let piece: Vec<u8> = (1..16 << 10).flat_map(hash).collect();
        let (maker, made) = (growing.clone(), piece.clone());
        let making = tokio::spawn(async move {
            for _ in 0..32 {
                maker.push(&made);
                assert!(maker.pass().await);
                let held: usize = maker.lock().tracks().map(|track| track.held()).sum();
                assert!(held <= KEEP_BYTES);
            }
            maker.end(true);
        });
        let coded = read(&mut *reader).await.unwrap();
        making.await.unwrap();
        assert!(coded.len() > KEEP_BYTES && readable(Coding::Gzip, &coded) == piece.repeat(32));
    }
}
