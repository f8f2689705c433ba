//! A connection to an application, which requests share. A task drives it until it ends.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{self, SendRequest};
use millrace_settings::plan::Proxy;
use tokio::sync::{Notify, oneshot};

use super::line::AppLine;
use crate::proxy::connect::{AppConnection, ConnectError, KnownApplication, Opened, ProxyThread};

/// Bytes of a response that its client has not taken: more do not arrive (RFC 9113 section 5.2).
pub(super) const STREAM_BYTES: u32 = 128 << 10;
/// Maximum requests in progress on a connection.
pub(super) const MOST_STREAMS: usize = 100;
/// Bytes of a request that the library buffers.
const SEND_BYTES: usize = 64 << 10;
/// Memory beside the content of small DATA frames that their clients have not taken. Flow control does not count it: an
/// application that exceeds it floods the server, and its connection ends.
const SMALL_BYTES: usize = 16 << 20;
/// Maximum size of a header section, each field counted with 32 bytes more (RFC 9113 section 6.5.2).
const HEAD_BYTES: u32 = 64 << 10;
/// How long an application may take to read the end of a connection.
const FAREWELL: Duration = Duration::from_secs(1);
/// Rounds per turn: other connections of the thread need their turn.
const MOST_ROUNDS: usize = 16;

type ClientLibrary = client::Connection<AppLine, Bytes>;

/// A connection that requests share.
#[derive(Debug)]
pub struct AppLink {
    line: AppLine,
    /// `None`: it takes no more requests.
    requests: RefCell<Option<SendRequest<Bytes>>>,
    /// Requests in progress.
    streams: Cell<usize>,
    /// A request has been sent on it.
    is_used: Cell<bool>,
    /// When it became idle, a tick of the thread's clock.
    idle_since: Cell<u64>,
    /// Why it has ended.
    end: RefCell<Option<String>>,
    /// Counts it until then.
    open: RefCell<Option<Opened>>,
    /// It is idle, and gets no more requests.
    is_left: Notify,
}

impl AppLink {
    /// Makes a connection, and waits for the application's settings: they say how many requests it takes at a time, and
    /// that it speaks HTTP/2 at all.
    ///
    /// # Errors
    /// [`ConnectError`]
    pub async fn open(
        thread: &Rc<ProxyThread>,
        application: &KnownApplication,
        proxy: &Proxy,
    ) -> Result<Rc<AppLink>, ConnectError> {
        let opening = async {
            let connection = thread.socket(application, true).await?;
            AppLink::greet(thread, connection).await.map_err(ConnectError::refused)
        };
        let opened = tokio::time::timeout(proxy.connect_timeout, opening).await;
        thread.context.clock.read();
        opened.map_err(|_| ConnectError::Late)?
    }

    async fn greet(thread: &Rc<ProxyThread>, connection: AppConnection) -> io::Result<Rc<AppLink>> {
        let AppConnection { stream, open, .. } = connection;
        let line = AppLine::new(stream);
        let shaken = client().handshake(line.clone()).await;
        let (requests, library) = shaken.map_err(|error| no_http2(&error.to_string()))?;
        let link = Rc::new(AppLink {
            line,
            requests: RefCell::new(Some(requests)),
            streams: Cell::new(0),
            is_used: Cell::new(false),
            idle_since: Cell::new(thread.context.clock.ticks()),
            end: RefCell::default(),
            open: RefCell::new(Some(open)),
            is_left: Notify::new(),
        });
        let (settled, settling) = oneshot::channel();
        // Who waits no longer, because it took too long, closes it.
        let guard = Unsettled(Some(link.clone()));
        tokio::task::spawn_local(drive(link.clone(), library, settled));
        if settling.await.is_err() {
            return Err(match link.line.is_http1() {
                true => no_http2("it responds in HTTP/1"),
                false => no_http2(link.end.borrow().as_deref().unwrap_or("it closed the connection")),
            });
        }
        guard.pass();
        Ok(link)
    }

    /// Whether it takes one more request.
    pub(super) fn has_room(&self) -> bool {
        let mut requests = self.requests.borrow_mut();
        let Some(sender) = &mut *requests else { return false };
        // The library returns an error if the application takes no more, and never waits here.
        if let Poll::Ready(Err(_)) = sender.poll_ready(&mut Context::from_waker(Waker::noop())) {
            *requests = None;
            return false;
        }
        self.streams.get() < MOST_STREAMS.min(sender.current_max_send_streams())
    }

    /// A way to send a request; `None`: it takes no more.
    pub(super) fn sender(&self) -> Option<SendRequest<Bytes>> {
        self.requests.borrow().clone()
    }

    /// It gets no more requests, and ends after those in progress.
    pub fn retire(&self) {
        self.requests.take();
        if self.is_idle() {
            self.is_left.notify_one();
        }
    }

    /// Whether it may get requests.
    pub(super) fn is_open(&self) -> bool {
        self.requests.borrow().is_some()
    }

    /// Whether no request is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.streams.get() == 0
    }

    /// When it became idle.
    pub(super) fn idle_since(&self) -> u64 {
        self.idle_since.get()
    }

    /// A request begins; returns whether it is not the first one.
    pub(super) fn begin(&self) -> bool {
        self.streams.set(self.streams.get() + 1);
        self.is_used.replace(true)
    }

    /// A request has ended at `now`.
    pub(super) fn finish(&self, now: u64) {
        self.streams.set(self.streams.get() - 1);
        self.idle_since.set(now);
        if self.is_idle() && !self.is_open() {
            self.is_left.notify_one();
        }
    }

    /// A number that changes when something arrives.
    pub(super) fn reads(&self) -> u64 {
        self.line.reads()
    }

    /// Whether the application has ended its half of this stream.
    pub(super) fn has_ended(&self, stream: u32) -> bool {
        self.line.has_ended(stream)
    }

    /// Makes the library read and write as far as that goes without waiting.
    fn turn(
        &self,
        cx: &mut Context<'_>,
        library: &mut ClientLibrary,
        settled: &mut Option<oneshot::Sender<()>>,
    ) -> Poll<Result<(), String>> {
        self.line.begin_turn();
        for _ in 0..MOST_ROUNDS {
            let polled = Pin::new(&mut *library).poll(cx);
            // Until the application's settings arrive, it is the number that this server has chosen.
            if library.max_concurrent_send_streams() > 0
                && let Some(settled) = settled.take()
            {
                // Its opener may wait no longer.
                let _ = settled.send(());
            }
            let was_full = self.line.is_full();
            let left = self.line.poll_leave(cx);
            match (polled, left) {
                (Poll::Ready(end), _) => return Poll::Ready(end.map_err(|error| error.to_string())),
                (_, Poll::Ready(Err(error))) => return Poll::Ready(Err(error.to_string())),
                (_, Poll::Ready(Ok(()))) if was_full => {}
                _ => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Closes a link that nobody waits for any more.
struct Unsettled(Option<Rc<AppLink>>);

impl Unsettled {
    fn pass(mut self) {
        self.0 = None;
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        if let Some(link) = self.0.take() {
            link.retire();
        }
    }
}

/// What the library is to do. No stream is opened before the application's settings have arrived.
fn client() -> client::Builder {
    let mut builder = client::Builder::new();
    builder
        .enable_push(false)
        .initial_max_send_streams(0)
        .initial_window_size(STREAM_BYTES)
        .initial_connection_window_size(STREAM_BYTES * MOST_STREAMS as u32)
        .max_header_list_size(HEAD_BYTES)
        .max_send_buffer_size(SEND_BYTES)
        .data_frame_budget(SMALL_BYTES);
    builder
}

async fn drive(link: Rc<AppLink>, mut library: ClientLibrary, settled: oneshot::Sender<()>) {
    let mut settled = Some(settled);
    let end = tokio::select! {
        biased;
        end = poll_fn(|cx| link.turn(cx, &mut library, &mut settled)) => end,
        // The application may not read what says so.
        () = async { link.is_left.notified().await; tokio::time::sleep(FAREWELL).await } => Ok(()),
    };
    link.retire();
    *link.end.borrow_mut() = Some(match end {
        Ok(()) => "it closed the connection".to_owned(),
        Err(why) => why,
    });
    // Streams in progress end with the library. Only then those who wait look for the reason.
    drop((library, settled));
    link.line.close();
    link.open.take();
}

fn no_http2(why: &str) -> io::Error {
    io::Error::other(format!("it does not speak HTTP/2 as proxy.http says: {why}"))
}
