//! A request on its way to an application: the header section, then the content, from memory, a spooled file, or the client
//! while it sends it, as fast as the application takes it.

use std::cell::RefCell;
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll, ready};

use millrace_wire::chunked;

use super::exchange::ExchangeError;
use super::stream::AppStream;
use millrace_base::message::Request;
use millrace_base::message::request::{Content, ContentStream};

/// Content of this length is copied behind the header section: one system call sends both.
const SHORT: usize = 16 << 10;
/// Bytes read from a file at once.
const PIECE: usize = 64 << 10;
/// A larger buffer is not kept.
const BUFFER_KEEP: usize = 64 << 10;

thread_local! {
    /// For header sections; taken while a request is sent.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The thread's buffer for a header section, empty.
pub fn spare_buffer() -> Vec<u8> {
    let mut buffer = BUFFER.take();
    buffer.clear();
    buffer
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadState {
    /// The application has not taken all that is here.
    Sending,
    /// The client has not sent all of it.
    Waiting,
    /// Nothing is left to send, or the application takes no more.
    Sent,
}

/// The content of a request.
#[derive(Debug, Default)]
pub struct UploadContent {
    /// What was collected.
    stored: Content,
    /// Bytes of it that have been taken.
    at: u64,
    /// What is still arriving, behind nothing that was collected.
    stream: Option<Box<dyn ContentStream>>,
    /// Some of the stream has been taken.
    is_spent: bool,
    has_ended: bool,
}

impl UploadContent {
    /// Takes that of a request.
    pub fn of(request: &mut Request) -> UploadContent {
        let (stored, stream) = (std::mem::take(&mut request.content), request.stream.take());
        UploadContent { stored, stream, ..UploadContent::default() }
    }

    /// Gives it back for another attempt. Whether it can be sent again.
    pub fn give_back(self, request: &mut Request) -> bool {
        request.content = self.stored;
        request.stream = self.stream.filter(|_| !self.is_spent);
        !self.is_spent
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.stream.is_none() && self.stored.length() == 0
    }

    /// Whether it is known that nothing is left to take.
    pub fn is_over(&self) -> bool {
        match self.stream {
            Some(_) => self.has_ended,
            None => self.at == self.stored.length(),
        }
    }

    /// All of it, if it is short, and here.
    fn take_short(&mut self) -> &[u8] {
        match &self.stored {
            Content::Memory(bytes) if bytes.len() <= SHORT && self.at == 0 => {
                self.at = bytes.len() as u64;
                bytes
            }
            _ => &[],
        }
    }

    /// Appends the next piece to `buffer`, up to `most` bytes of what was collected; `false` at the end. It waits only for
    /// the client.
    ///
    /// # Errors
    /// The client fails, or the spooled file can't be read.
    pub fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        buffer: &mut Vec<u8>,
    ) -> Poll<Result<bool, ExchangeError>> {
        if self.is_over() {
            return Poll::Ready(Ok(false));
        }
        if let Some(stream) = &mut self.stream {
            let more = ready!(stream.poll_piece(cx, buffer)).map_err(ExchangeError::Client)?;
            (self.is_spent, self.has_ended) = (true, !more);
            return Poll::Ready(Ok(more));
        }
        let length = (self.stored.length() - self.at).min(most as u64) as usize;
        let before = buffer.len();
        match &self.stored {
            Content::Empty => {}
            Content::Memory(bytes) => buffer.extend_from_slice(&bytes[self.at as usize..][..length]),
            Content::Spooled { file, .. } => {
                buffer.resize(before + length, 0);
                file.read_exact_at(&mut buffer[before..], self.at).map_err(ExchangeError::Lost)?;
            }
        }
        self.at += length as u64;
        Poll::Ready(Ok(true))
    }
}

/// What is still to be sent on a connection of HTTP/1.1.
#[derive(Debug)]
pub struct AppUpload {
    buffer: Vec<u8>,
    sent: usize,
    content: UploadContent,
    /// It is sent in chunks: its length is unknown.
    is_chunked: bool,
    /// All of it has entered the buffer.
    is_whole: bool,
    /// Number of pieces that the socket has taken.
    moves: u64,
    /// The application takes no more of it.
    is_cut: bool,
    /// Some of it may have arrived there.
    is_begun: bool,
}

impl AppUpload {
    /// The request with this header section and content.
    pub fn new(head: Vec<u8>, mut content: UploadContent) -> AppUpload {
        let is_chunked = content.stream.as_ref().is_some_and(|stream| stream.length().is_none());
        let mut buffer = head;
        buffer.extend_from_slice(content.take_short());
        let is_whole = content.is_over();
        AppUpload { buffer, sent: 0, content, is_chunked, is_whole, moves: 0, is_cut: false, is_begun: false }
    }

    /// Whether all of it has been sent.
    pub fn is_sent(&self) -> bool {
        !self.is_cut && self.sent == self.buffer.len() && self.is_whole
    }

    /// A number that changes when some of it is sent.
    pub fn progress(&self) -> u64 {
        self.moves
    }

    /// Whether some of it may have arrived there.
    pub fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Sends as much as there is and the socket takes. If the application takes no more of it, it may still respond.
    ///
    /// # Errors
    /// The client fails, or the spooled file can't be read.
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut AppStream,
    ) -> Result<UploadState, ExchangeError> {
        while !self.is_cut {
            if self.sent == self.buffer.len() {
                match self.next_piece(cx)? {
                    Poll::Ready(true) => continue,
                    next => return Ok(self.flush(cx, stream, next.is_pending())),
                }
            }
            match stream.poll_write(cx, &self.buffer[self.sent..]) {
                Poll::Pending => return Ok(UploadState::Sending),
                Poll::Ready(Ok(written @ 1..)) => {
                    self.sent += written;
                    self.moves += 1;
                    self.is_begun = true;
                }
                Poll::Ready(Ok(0) | Err(_)) => self.is_cut = true,
            }
        }
        Ok(UploadState::Sent)
    }

    fn flush(&mut self, cx: &mut Context<'_>, stream: &mut AppStream, waits: bool) -> UploadState {
        match stream.poll_flush(cx) {
            Poll::Pending => return UploadState::Sending,
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_gone)) => self.is_cut = true,
        }
        if waits && !self.is_cut { UploadState::Waiting } else { UploadState::Sent }
    }

    /// Puts the next piece into the buffer, all of which has been sent; `false`: there is none.
    fn next_piece(&mut self, cx: &mut Context<'_>) -> Result<Poll<bool>, ExchangeError> {
        if self.is_whole {
            return Ok(Poll::Ready(false));
        }
        let mut piece = std::mem::take(&mut self.buffer);
        piece.clear();
        self.sent = 0;
        let more = self.content.poll_piece(cx, PIECE, &mut piece);
        if self.is_chunked && more.is_ready() {
            self.buffer = Vec::with_capacity(piece.len() + 16);
            chunked::encode(&piece, &mut self.buffer);
        } else {
            self.buffer = piece;
        }
        let Poll::Ready(more) = more else { return Ok(Poll::Pending) };
        if !more? {
            self.is_whole = true;
            if self.is_chunked {
                self.buffer.extend_from_slice(chunked::END);
            }
            return Ok(Poll::Ready(self.is_chunked));
        }
        self.is_whole = !self.is_chunked && self.content.is_over();
        Ok(Poll::Ready(true))
    }
}

/// Keeps the buffer for the next request; returns the content.
pub fn keep_buffer(upload: AppUpload) -> UploadContent {
    if upload.buffer.capacity() <= BUFFER_KEEP {
        BUFFER.set(upload.buffer);
    }
    upload.content
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Pieces, and where the client pauses.
    #[derive(Debug)]
    struct Arriving(Vec<Option<&'static [u8]>>, Option<u64>);

    impl ContentStream for Arriving {
        fn length(&self) -> Option<u64> {
            self.1
        }

        fn poll_piece(&mut self, _: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<Result<bool, u16>> {
            if self.0.is_empty() {
                return Poll::Ready(Ok(false));
            }
            let Some(piece) = self.0.remove(0) else { return Poll::Pending };
            buffer.extend_from_slice(piece);
            Poll::Ready(if piece == b"!" { Err(408) } else { Ok(true) })
        }
    }

    fn streaming(pieces: &[Option<&'static [u8]>], length: Option<u64>) -> UploadContent {
        let stream = Box::new(Arriving(pieces.to_vec(), length));
        UploadContent { stream: Some(stream), ..UploadContent::default() }
    }

    /// What the application gets of it until nothing more is there, each time that it waits for the client.
    fn sent(content: UploadContent) -> (Vec<String>, UploadState) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
            one.set_nonblocking(true).unwrap();
            other.set_nonblocking(true).unwrap();
            let one = tokio::net::UnixStream::from_std(one).unwrap();
            one.writable().await.unwrap();
            let (mut stream, mut upload) = (AppStream::Unix(one), AppUpload::new(b"head ".to_vec(), content));
            let (mut all, mut cx) = (Vec::new(), Context::from_waker(Waker::noop()));
            loop {
                let state = upload.poll_send(&mut cx, &mut stream).unwrap();
                let mut bytes = [0; 1000];
                let read = std::io::Read::read(&mut other, &mut bytes).unwrap_or(0);
                all.push(String::from_utf8(bytes[..read].to_vec()).unwrap());
                if state != UploadState::Waiting {
                    assert_eq!(upload.is_sent(), state == UploadState::Sent);
                    return (all, state);
                }
                assert!(!upload.is_sent());
            }
        })
    }

    #[test]
    fn what_arrives_is_sent_at_once() {
        let pieces = [Some(&b"one"[..]), None, Some(b"two"), Some(b"three"), None];
        let expected =
            ["head 3\r\none\r\n", "3\r\ntwo\r\n5\r\nthree\r\n", "0\r\n\r\n"].map(str::to_owned).to_vec();
        assert_eq!(sent(streaming(&pieces, None)), (expected, UploadState::Sent));
        let expected = ["head one", "twothree", ""].map(str::to_owned).to_vec();
        assert_eq!(sent(streaming(&pieces, Some(11))), (expected, UploadState::Sent));
        let stored = UploadContent { stored: Content::Memory(b"short".to_vec()), ..UploadContent::default() };
        assert_eq!(sent(stored), (vec!["head short".to_owned()], UploadState::Sent));
    }

    #[test]
    fn only_what_was_not_taken_can_be_sent_again() {
        let mut request = crate::proxy::head::tests::request("POST / HTTP/1.1\nHost: a");
        let mut cx = Context::from_waker(Waker::noop());
        for (pieces, again) in [(vec![None], true), (vec![Some(&b"a"[..])], false)] {
            request.stream = streaming(&pieces, None).stream;
            let mut content = UploadContent::of(&mut request);
            assert!(request.stream.is_none() && !content.is_empty() && !content.is_over());
            let _ = content.poll_piece(&mut cx, 10, &mut Vec::new());
            assert_eq!((content.give_back(&mut request), request.stream.is_some()), (again, again));
        }
        let mut content = streaming(&[Some(b"!")], None);
        let failed = content.poll_piece(&mut cx, 10, &mut Vec::new());
        assert!(matches!(failed, Poll::Ready(Err(ExchangeError::Client(408)))));
    }
}
