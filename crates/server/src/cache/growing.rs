//! A page that a script is still making: it is collected for the cache, and at the same time sent to whoever may
//! have it already.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::reply::{Aside, Source};

/// Bytes that are held for the slowest reader once the page is known to be too large for the cache.
const KEEP_BYTES: usize = 256 << 10;

/// The content so far. Shared by the task that collects it and its readers, which may be on other threads.
#[derive(Debug, Default)]
pub struct Growing {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<Arc<[u8]>>,
    /// Pieces before those, which nobody needs any more.
    dropped: usize,
    /// Pieces that each reader has taken.
    readers: BTreeMap<u64, usize>,
    next_reader: u64,
    /// The page is not collected any more: only what readers have not taken yet is held.
    passing: bool,
    /// Whether it was finished well, if it has ended.
    end: Option<bool>,
    waiting: Vec<Waker>,
    collector: Option<Waker>,
}

impl Growing {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a piece.
    pub fn push(&self, piece: &[u8]) {
        let mut state = self.lock();
        state.pieces.push_back(piece.into());
        wake(state);
    }

    /// Nothing more comes; `whole`: because that was all.
    pub fn end(&self, whole: bool) {
        let mut state = self.lock();
        state.end = Some(whole);
        wake(state);
    }

    /// All of it in one piece.
    pub fn whole(&self) -> Vec<u8> {
        let state = self.lock();
        let mut all = Vec::with_capacity(state.pieces.iter().map(|piece| piece.len()).sum());
        state.pieces.iter().for_each(|piece| all.extend_from_slice(piece));
        all
    }

    /// From now on there are only its readers, and no more will come. Waits until they have taken nearly all; false if
    /// none is left.
    pub async fn pass(&self) -> bool {
        poll_fn(|cx| {
            let mut state = self.lock();
            state.passing = true;
            state.drop_taken();
            let held: usize = state.pieces.iter().map(|piece| piece.len()).sum();
            if state.readers.is_empty() {
                return Poll::Ready(false);
            }
            if held <= KEEP_BYTES {
                return Poll::Ready(true);
            }
            state.collector = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// A reader from the start, which gives the announced `length` and no more. `None`: the start is held no longer.
    pub fn reader(self: &Arc<Growing>, length: Option<u64>) -> Option<Box<dyn Source>> {
        let mut state = self.lock();
        if state.dropped > 0 {
            return None;
        }
        let id = state.next_reader;
        state.next_reader += 1;
        state.readers.insert(id, 0);
        drop(state);
        Some(Box::new(Reader { growing: self.clone(), id, left: length }))
    }
}

impl State {
    fn drop_taken(&mut self) {
        let slowest = self.readers.values().copied().min().unwrap_or(usize::MAX);
        while self.passing && self.dropped < slowest && self.pieces.pop_front().is_some() {
            self.dropped += 1;
        }
    }
}

fn wake(mut state: MutexGuard<'_, State>) {
    let waiting = std::mem::take(&mut state.waiting);
    drop(state);
    waiting.into_iter().for_each(Waker::wake);
}

/// Reads a growing page at its own pace.
#[derive(Debug)]
struct Reader {
    growing: Arc<Growing>,
    id: u64,
    left: Option<u64>,
}

impl Source for Reader {
    fn length(&self) -> Option<u64> {
        self.left
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        if self.left == Some(0) {
            return Poll::Ready(Ok(false));
        }
        let mut state = self.growing.lock();
        let at = state.readers.get(&self.id).copied().unwrap_or(0);
        if let Some(piece) = state.pieces.get(at - state.dropped).cloned() {
            state.readers.insert(self.id, at + 1);
            state.drop_taken();
            let collector = state.collector.take();
            drop(state);
            collector.into_iter().for_each(Waker::wake);
            let most = self.left.map_or(piece.len(), |left| left.min(piece.len() as u64) as usize);
            buffer.extend_from_slice(&piece[..most]);
            self.left = self.left.map(|left| left - most as u64);
            return Poll::Ready(Ok(true));
        }
        match (state.end, self.left) {
            (Some(true), None) => Poll::Ready(Ok(false)),
            (Some(_), _) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            (None, _) => {
                state.waiting.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn take_aside(&mut self) -> Option<Box<Aside>> {
        None
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.growing.lock();
        state.readers.remove(&self.id);
        state.drop_taken();
        let collector = state.collector.take();
        drop(state);
        collector.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(source: &mut dyn Source) -> io::Result<Vec<u8>> {
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
                let held: usize = maker.lock().pieces.iter().map(|piece| piece.len()).sum();
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
}
