//! One request on one connection, until the header section of its response, and what has arrived with it, is there.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use millrace_wire::chunked::Malformed;
use millrace_wire::response::{self, Item, Outline, Reader};
use tokio::time::Sleep;

use super::answer::{self, AppHead};
use super::connect::AppConnection;
use super::switch::Switch;
use super::upload::{AppUpload, UploadState};
use millrace_base::message::reply::{Fields, lines};
use millrace_base::message::request::Hints;

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Content that is collected, if it is there, before the response begins: a short one is sent whole.
const FIRST_BYTES: usize = 64 << 10;

thread_local! {
    /// Input stays here until it is parsed: no connection owns a buffer.
    static INPUT: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Lends the thread's buffer for input.
pub fn with_input<T>(read: impl FnOnce(&mut [u8]) -> T) -> T {
    INPUT.with_borrow_mut(|input| read(input))
}

/// A connection with a request on it.
#[derive(Debug)]
pub struct AppExchange {
    /// The connection.
    pub connection: AppConnection,
    /// The request, as far as it has not been sent.
    pub upload: AppUpload,
    reader: Reader,
    is_head: bool,
    /// The client takes trailers.
    takes_trailers: bool,
    /// What the client wants to switch to.
    switch: Option<Switch>,
    /// The start of a header section.
    rest: Vec<u8>,
    /// Bytes of the response have arrived.
    pub heard: bool,
    /// The response is complete.
    pub is_over: bool,
    /// What follows the content, for the client.
    trailers: Fields,
    /// Something follows the response that was not asked for.
    has_more: bool,
    outline: Option<Outline>,
    /// It has failed, behind content that comes first.
    failed: Option<ExchangeError>,
}

/// The beginning of a response.
#[derive(Debug)]
pub struct Begun {
    /// Status, length, and whether the connection can take another request.
    pub outline: Outline,
    /// Its fields.
    pub head: AppHead,
    /// The content that has arrived.
    pub content: Vec<u8>,
}

/// Why there is no response, or not all of it.
#[derive(Debug)]
pub enum ExchangeError {
    /// The connection broke.
    Lost(io::Error),
    /// It ended in the middle.
    Cut,
    /// The application took too long; the setting that says so.
    Late(&'static str),
    /// This is not a response.
    Malformed(Malformed),
    /// The same over HTTP/2.
    Protocol(String),
    /// It has not processed the request, and says so: the reason.
    Refused(&'static str),
    /// HTTP/2 has no way to say this request.
    Unsendable,
    /// The client has not sent the whole content: the status for it.
    Client(u16),
}

impl ExchangeError {
    /// Whether the connection was lost: the request may have arrived there, and may not have been processed.
    pub fn is_loss(&self) -> bool {
        matches!(self, ExchangeError::Lost(_) | ExchangeError::Cut)
    }
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExchangeError::Lost(error) => write!(f, "the connection broke: {error}"),
            ExchangeError::Cut => f.write_str("the connection ended before the response was complete"),
            ExchangeError::Late(setting) => write!(f, "it took too long ({setting})"),
            ExchangeError::Malformed(why) => write!(f, "it sent an invalid response: {why}"),
            ExchangeError::Protocol(why) => write!(f, "it sent an invalid response: {why}"),
            ExchangeError::Refused(why) => f.write_str(why),
            ExchangeError::Client(413) => f.write_str("the client sends more content than site.body_bytes"),
            ExchangeError::Client(408) => {
                f.write_str("the client does not send its content in time (http.body_timeout)")
            }
            ExchangeError::Client(_) => f.write_str("the client has not sent all of its content"),
            ExchangeError::Unsendable => f.write_str("HTTP/2 has no way to say this host, method or target"),
        }
    }
}

impl AppExchange {
    /// A request that is about to be sent.
    pub fn new(
        connection: AppConnection,
        upload: AppUpload,
        is_head: bool,
        switch: Option<Switch>,
    ) -> AppExchange {
        AppExchange {
            connection,
            upload,
            reader: Reader::default(),
            is_head,
            takes_trailers: false,
            switch,
            rest: Vec::new(),
            heard: false,
            is_over: false,
            trailers: Fields::default(),
            has_more: false,
            outline: None,
            failed: None,
        }
    }

    /// The same for a client that takes trailers.
    pub fn with_trailers(self, takes_trailers: bool) -> AppExchange {
        AppExchange { takes_trailers, ..self }
    }

    /// Sends the request and waits for the beginning of the response. `hints`: the client's way to get early hints; `response`: time limit from the end of the request on;
    /// `pause`: for each piece of the request.
    ///
    /// # Errors
    /// [`ExchangeError`]
    pub async fn begin(
        &mut self,
        hints: Option<&Hints>,
        response: Duration,
        pause: Duration,
    ) -> Result<Begun, ExchangeError> {
        let mut content = Vec::new();
        let sleep = std::pin::pin!(tokio::time::sleep(response));
        let mut limit = SendLimit::new(sleep, response, pause);
        let head = poll_fn(|cx| {
            let before = self.upload.progress();
            let state = self.upload.poll_send(cx, &mut self.connection.stream)?;
            limit.note(state, self.upload.progress() != before);
            match self.poll_head(cx, hints, &mut content) {
                Poll::Ready(head) => Poll::Ready(head),
                Poll::Pending => limit.poll(cx).map(Err),
            }
        })
        .await?;
        let outline = self.outline.unwrap_or(Outline { status: 502, keep_alive: false, length: None });
        if outline.status == 101 {
            content = std::mem::take(&mut self.rest);
            return Ok(Begun { outline, head, content });
        }
        self.failed = poll_fn(|cx| {
            let read =
                |out: &mut Vec<u8>| if self.is_over { Poll::Pending } else { self.poll_content(cx, out) };
            Poll::Ready(first_content(&mut content, read))
        })
        .await?;
        Ok(Begun { outline, head, content })
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        hints: Option<&Hints>,
        content: &mut Vec<u8>,
    ) -> Poll<Result<AppHead, ExchangeError>> {
        let mut head = None;
        // Lent to the closure, which reads heads while the exchange reads bytes.
        let (switch, takes_trailers) = (self.switch.take(), self.takes_trailers);
        let polled = loop {
            let polled = self.poll_read(cx, |item, bytes| match item {
                Some(Item::Head(outline)) => {
                    head = Some(read_head(outline.status, bytes, takes_trailers, switch.as_ref()));
                }
                Some(Item::Content(piece)) => content.extend_from_slice(piece),
                Some(Item::End) => {}
                None => {
                    let lines = answer::links(response::values(bytes, "link"));
                    if !lines.is_empty() {
                        hints.iter().for_each(|hints| hints.send(&lines));
                    }
                }
            });
            match (polled, head.take()) {
                (Poll::Ready(Err(error)), _) => break Poll::Ready(Err(error)),
                (_, Some(head)) => break Poll::Ready(head.map_err(ExchangeError::Malformed)),
                (Poll::Ready(Ok(())), None) => {}
                (Poll::Pending, None) => break Poll::Pending,
            }
        };
        self.switch = switch;
        polled
    }

    /// Reads once, and appends content to `out`; the response may be over then.
    ///
    /// # Errors
    /// [`ExchangeError`]
    pub fn poll_content(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<(), ExchangeError>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        // An application may respond before it has taken the whole request.
        if !self.upload.is_sent() {
            let _ = self.upload.poll_send(cx, &mut self.connection.stream)?;
        }
        self.poll_read(cx, |item, _| {
            if let Some(Item::Content(piece)) = item {
                out.extend_from_slice(piece);
            }
        })
    }

    /// Whether the response, which is over, has trailers for the client.
    pub fn has_trailers(&self) -> bool {
        !self.trailers.is_empty()
    }

    /// The trailers for the client, once the response is over.
    pub fn take_trailers(&mut self) -> Fields {
        std::mem::take(&mut self.trailers)
    }

    /// Whether the connection can take another request.
    pub fn can_go_on(&self) -> bool {
        let keeps = self.outline.is_some_and(|outline| outline.keep_alive);
        keeps && self.is_over && !self.has_more && self.upload.is_sent()
    }

    /// Reads once, and passes each item to `take` with the bytes that it was read from.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(Option<&Item<'_>>, &[u8]),
    ) -> Poll<Result<(), ExchangeError>> {
        with_input(|input| {
            let read = match self.connection.stream.poll_read(cx, input) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(read)) => read,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(ExchangeError::Lost(error))),
            };
            if read == 0 {
                return Poll::Ready(self.end());
            }
            self.heard = true;
            let mut rest = std::mem::take(&mut self.rest);
            let bytes = if rest.is_empty() {
                &input[..read]
            } else {
                rest.extend_from_slice(&input[..read]);
                &rest
            };
            let taken = self.read_items(bytes, &mut take).map_err(ExchangeError::Malformed)?;
            self.has_more = self.is_over && taken < bytes.len();
            if !self.is_over && taken < bytes.len() {
                self.rest = bytes[taken..].to_vec();
            }
            Poll::Ready(Ok(()))
        })
    }

    fn read_items(
        &mut self,
        bytes: &[u8],
        take: &mut impl FnMut(Option<&Item<'_>>, &[u8]),
    ) -> Result<usize, Malformed> {
        let mut used = 0;
        loop {
            let was_within = self.reader.is_within();
            let (taken, item) = self.reader.read(&bytes[used..], self.is_head)?;
            let read = &bytes[used..used + taken];
            used += taken;
            match &item {
                Some(Item::Head(outline)) => {
                    self.outline = Some(*outline);
                    if outline.status == 101 {
                        take(item.as_ref(), read);
                        return Ok(used);
                    }
                }
                Some(Item::End) => {
                    self.is_over = true;
                    self.trailers = answer::trailers(lines(&self.reader.take_trailers()));
                }
                Some(Item::Content(_)) => {}
                None if taken == 0 => return Ok(used),
                // A part of the framing, not an interim response.
                None if was_within => continue,
                None => {}
            }
            take(item.as_ref(), read);
            if self.is_over {
                return Ok(used);
            }
        }
    }

    /// The connection has ended.
    fn end(&mut self) -> Result<(), ExchangeError> {
        if self.reader.may_end() {
            self.is_over = true;
            return Ok(());
        }
        Err(ExchangeError::Cut)
    }
}

/// Reads content that is there already, up to a limit; an error behind content comes with it, for the read after that.
///
/// # Errors
/// There is no content.
pub fn first_content(
    content: &mut Vec<u8>,
    mut read: impl FnMut(&mut Vec<u8>) -> Poll<Result<(), ExchangeError>>,
) -> Result<Option<ExchangeError>, ExchangeError> {
    while content.len() < FIRST_BYTES {
        match read(content) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) if content.is_empty() => return Err(error),
            Poll::Ready(Err(error)) => return Ok(Some(error)),
            Poll::Pending => break,
        }
    }
    Ok(None)
}

/// Reads a header section; one that switches protocols must be what the client asked for.
fn read_head(
    status: u16,
    bytes: &[u8],
    takes_trailers: bool,
    switch: Option<&Switch>,
) -> Result<AppHead, Malformed> {
    let mut head = answer::read(&response::fields(bytes), takes_trailers);
    if status == 101 {
        let agreed = switch.and_then(|switch| switch.agreed(bytes, &head.fields));
        let (status, fields) =
            agreed.ok_or(Malformed("it switches protocols otherwise than it was asked to"))?;
        (head.switched, head.fields) = (Some(status), fields);
    }
    Ok(head)
}

/// The time limits of a request until its response begins: for each piece of it, then for the response.
pub struct SendLimit<'a> {
    sleep: Pin<&'a mut Sleep>,
    response: Duration,
    pause: Duration,
    state: UploadState,
}

impl<'a> SendLimit<'a> {
    /// A request that begins now; `sleep` takes as long as `response`.
    pub fn new(sleep: Pin<&'a mut Sleep>, response: Duration, pause: Duration) -> SendLimit<'a> {
        SendLimit { sleep, response, pause, state: UploadState::Sent }
    }

    /// What the request waits for now. `moved`: some of it has just been sent.
    pub fn note(&mut self, state: UploadState, moved: bool) {
        let is_new = state != std::mem::replace(&mut self.state, state);
        match state {
            UploadState::Sending if is_new || moved => self.sleep.set(tokio::time::sleep(self.pause)),
            UploadState::Sent if is_new => self.sleep.set(tokio::time::sleep(self.response)),
            _ => {}
        }
    }

    /// Ready when the time is up. The client has a time limit of its own.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeError> {
        let setting = match self.state {
            UploadState::Waiting => return Poll::Pending,
            UploadState::Sending => "proxy.read_timeout",
            UploadState::Sent => "proxy.response_timeout",
        };
        self.sleep.as_mut().poll(cx).map(|()| ExchangeError::Late(setting))
    }
}

/// A time limit that begins again with each piece. It costs nothing while pieces are there.
#[derive(Debug, Default)]
pub struct PauseLimit(Option<Pin<Box<Sleep>>>, bool);

impl PauseLimit {
    /// A piece has come.
    pub fn restart(&mut self) {
        self.1 = false;
    }

    /// Ready when none has come for this time.
    pub fn poll(&mut self, cx: &mut Context<'_>, time: Duration) -> Poll<()> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        if !std::mem::replace(&mut self.1, true) {
            sleep.as_mut().set(tokio::time::sleep(time));
        }
        sleep.as_mut().poll(cx)
    }
}
