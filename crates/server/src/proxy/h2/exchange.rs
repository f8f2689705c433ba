//! One request on one stream.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use millrace_wire::response::Outline;

use super::head;
use super::pool::StreamSeat;
use crate::proxy::answer::AppHead;
use crate::proxy::exchange::{Begun, ExchangeError, SendLimit, first_content};
use crate::proxy::upload::{UploadContent, UploadState};
use millrace_base::message::reply::Fields;
use millrace_base::message::request::Hints;

/// Bytes of a request that are passed to the library at once: a frame size that every application accepts.
const PIECE: usize = 16 << 10;
/// Bytes of a response that are taken at once.
const TAKEN_BYTES: usize = 64 << 10;
/// More interim responses to one request are no response.
const MOST_INTERIMS: usize = 32;

/// A request that has been sent, or is being sent.
pub struct StreamExchange {
    response: Option<ResponseFuture>,
    /// The content of the response.
    content: Option<RecvStream>,
    /// `None`: all of the request has been sent, or the application takes no more of it.
    send: Option<SendStream<Bytes>>,
    /// The number of its stream.
    id: u32,
    upload: UploadContent,
    /// What has been taken of it, and the library has not got.
    piece: Bytes,
    /// Number of pieces that the library has got.
    moves: u64,
    is_head: bool,
    takes_trailers: bool,
    interims: usize,
    /// The response is complete.
    pub is_over: bool,
    trailers: Fields,
    /// It has failed, behind content that comes first.
    failed: Option<ExchangeError>,
    /// What had arrived on the connection when something last came for this request.
    reads: u64,
    /// Behind the streams: they end before it is free.
    seat: StreamSeat,
}

impl std::fmt::Debug for StreamExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StreamExchange({})", self.id)
    }
}

impl StreamExchange {
    /// Passes a request to the library.
    ///
    /// # Errors
    /// The content, and why the connection does not take it: nothing has been sent.
    pub fn new(
        seat: StreamSeat,
        request: http::Request<()>,
        upload: UploadContent,
        takes_trailers: bool,
    ) -> Result<StreamExchange, (UploadContent, ExchangeError)> {
        let is_head = request.method() == http::Method::HEAD;
        let Some(mut sender) = seat.link.sender() else { return Err((upload, ExchangeError::Refused(GONE))) };
        let has_content = !upload.is_empty();
        match sender.send_request(request, !has_content) {
            Ok((response, send)) => Ok(StreamExchange {
                id: response.stream_id().as_u32(),
                response: Some(response),
                content: None,
                send: has_content.then_some(send),
                upload,
                piece: Bytes::new(),
                moves: 0,
                is_head,
                takes_trailers,
                interims: 0,
                is_over: false,
                trailers: Fields::default(),
                failed: None,
                reads: seat.link.reads(),
                seat,
            }),
            // It has not got a stream.
            Err(_) => {
                seat.link.retire();
                Err((upload, ExchangeError::Refused(GONE)))
            }
        }
    }

    /// Sends the request and waits for the beginning of the response; the arguments are those of
    /// [`crate::proxy::exchange::AppExchange::begin`].
    ///
    /// # Errors
    /// [`ExchangeError`]
    pub async fn begin(
        &mut self,
        hints: Option<&Hints>,
        response: Duration,
        pause: Duration,
    ) -> Result<Begun, ExchangeError> {
        let sleep = pin!(tokio::time::sleep(response));
        let mut limit = SendLimit::new(sleep, response, pause);
        let begun = poll_fn(|cx| {
            let before = self.moves;
            let state = self.poll_send(cx)?;
            limit.note(state, self.moves != before);
            match self.poll_head(cx, hints) {
                Poll::Ready(head) => Poll::Ready(head),
                Poll::Pending => limit.poll(cx).map(Err),
            }
        })
        .await;
        let (outline, head) = begun.inspect_err(|error| self.mind_silence(error))?;
        let mut content = Vec::new();
        self.failed = poll_fn(|cx| {
            let read =
                |out: &mut Vec<u8>| if self.is_over { Poll::Pending } else { self.poll_content(cx, out) };
            Poll::Ready(first_content(&mut content, read))
        })
        .await?;
        Ok(Begun { outline, head, content })
    }

    /// Appends content that has arrived to `out`; the response may be over then. Only what is taken makes room for more.
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
        let _ = self.poll_send(cx)?;
        let before = out.len();
        while !self.is_over && out.len() - before < TAKEN_BYTES {
            match self.poll_piece(cx, out) {
                Poll::Ready(Ok(())) => self.reads = self.seat.link.reads(),
                Poll::Ready(Err(error)) if out.len() == before => return Poll::Ready(Err(error)),
                Poll::Ready(Err(error)) => {
                    self.failed = Some(error);
                    break;
                }
                Poll::Pending if out.len() == before => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether something has come back.
    pub fn heard(&self) -> bool {
        self.content.is_some() || self.interims > 0
    }

    /// Whether its connection has carried another request before, and nothing has arrived on it since this one: it may
    /// have ended before.
    pub fn is_stale(&self) -> bool {
        self.seat.was_used && self.seat.link.reads() == self.reads && !self.heard()
    }

    /// A time limit has passed. If nothing at all has arrived on the connection meanwhile, it may be dead without a word:
    /// it gets no more requests.
    pub fn mind_silence(&self, error: &ExchangeError) {
        if matches!(error, ExchangeError::Late(_)) && self.seat.link.reads() == self.reads {
            self.seat.link.retire();
        }
    }

    /// Whether the response, which is over, has trailers for the client.
    pub fn has_trailers(&self) -> bool {
        !self.trailers.is_empty()
    }

    /// The trailers for the client, once the response is over.
    pub fn take_trailers(&mut self) -> Fields {
        std::mem::take(&mut self.trailers)
    }

    /// The content of the request, for another attempt.
    pub fn into_upload(self) -> UploadContent {
        self.upload
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        hints: Option<&Hints>,
    ) -> Poll<Result<(Outline, AppHead), ExchangeError>> {
        let Some(response) = &mut self.response else { return Poll::Ready(Err(ExchangeError::Cut)) };
        while let Poll::Ready(Some(interim)) = response.poll_informational(cx) {
            let interim = interim.map_err(failure)?;
            self.interims += 1;
            if self.interims > MOST_INTERIMS || interim.status() == http::StatusCode::SWITCHING_PROTOCOLS {
                return Poll::Ready(Err(malformed("interim responses that nobody asked for")));
            }
            let lines = head::links(interim.headers());
            if !lines.is_empty() {
                hints.iter().for_each(|hints| hints.send(&lines));
            }
        }
        let (parts, content) = ready!(Pin::new(response).poll(cx)).map_err(failure)?.into_parts();
        self.reads = self.seat.link.reads();
        let status = parts.status.as_u16();
        if !(200..=599).contains(&status) {
            return Poll::Ready(Err(malformed("the status code is not in 200-599")));
        }
        let head = head::response(&parts.headers, self.takes_trailers);
        let has_content = !self.is_head && !matches!(status, 204 | 304);
        let length = head.length.filter(|_| has_content);
        match has_content && !content.is_end_stream() {
            true => self.content = Some(content),
            false => self.end(Fields::default()),
        }
        Poll::Ready(Ok((Outline { status, keep_alive: true, length }, head)))
    }

    /// Takes one piece of the content, or its end.
    fn poll_piece(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<(), ExchangeError>> {
        let Some(content) = &mut self.content else { return Poll::Ready(Err(ExchangeError::Cut)) };
        let ended = match ready!(content.poll_data(cx)) {
            Some(Ok(piece)) => {
                out.extend_from_slice(&piece);
                // It fails only for more than has arrived.
                let _ = content.flow_control().release_capacity(piece.len());
                if content.is_end_stream() {
                    self.end(Fields::default());
                }
                return Poll::Ready(Ok(()));
            }
            Some(Err(error)) => Err(error),
            None => ready!(content.poll_trailers(cx)),
        };
        match ended {
            Ok(trailers) => self.end(trailers.as_ref().map(head::trailers).unwrap_or_default()),
            // The response is complete, and the application wants no more of the request (RFC 9113 section 8.1).
            Err(error) if error.reason() == Some(Reason::NO_ERROR) && self.seat.link.has_ended(self.id) => {
                self.end(Fields::default());
            }
            Err(error) => return Poll::Ready(Err(failure(error))),
        }
        Poll::Ready(Ok(()))
    }

    /// The response is complete. What has not been sent of the request is not wanted: the stream is reset.
    fn end(&mut self, trailers: Fields) {
        (self.is_over, self.trailers) = (true, trailers);
        (self.response, self.content, self.send) = (None, None, None);
    }

    /// Passes as much of the request to the library as there is, and the application has room for. If the application
    /// takes no more of it, it may still respond.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<UploadState, ExchangeError> {
        while let Some(send) = &mut self.send {
            if self.piece.is_empty() {
                let mut piece = Vec::new();
                let Poll::Ready(more) = self.upload.poll_piece(cx, PIECE, &mut piece)? else {
                    return Ok(UploadState::Waiting);
                };
                self.piece = piece.into();
                if !more {
                    // The response says more than the error of a stream that has ended.
                    let _ = send.send_data(Bytes::new(), true);
                    self.send = None;
                    break;
                }
            }
            let wanted = self.piece.len().min(PIECE);
            send.reserve_capacity(wanted);
            let mut room = send.capacity().min(wanted);
            if room == 0 && wanted > 0 {
                room = match send.poll_capacity(cx) {
                    Poll::Pending => return Ok(UploadState::Sending),
                    Poll::Ready(Some(Ok(room))) => room.min(wanted),
                    Poll::Ready(Some(Err(_)) | None) => {
                        self.send = None;
                        break;
                    }
                };
            }
            let piece = self.piece.split_to(room);
            let is_last = self.piece.is_empty() && self.upload.is_over();
            let is_refused = (room > 0 || is_last) && send.send_data(piece, is_last).is_err();
            self.moves += 1;
            if is_last || is_refused {
                self.send = None;
            }
        }
        Ok(UploadState::Sent)
    }
}

/// Why a request was not processed.
const GONE: &str = "the connection takes no more requests (GOAWAY)";

/// The library's error as ours.
fn failure(error: h2::Error) -> ExchangeError {
    let is_remote = error.is_remote();
    match error.reason() {
        // The library reports it only for streams beyond the last one that was processed (RFC 9113 section 6.8).
        Some(_) if is_remote && error.is_go_away() => ExchangeError::Refused(GONE),
        Some(Reason::REFUSED_STREAM) if is_remote => {
            ExchangeError::Refused("it refused the request before processing it (REFUSED_STREAM)")
        }
        Some(_) if is_remote => ExchangeError::Lost(std::io::Error::other(error)),
        Some(_) => ExchangeError::Protocol(format!("it breaks the rules of HTTP/2: {error}")),
        None => match error.into_io() {
            Some(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExchangeError::Cut,
            Some(error) => ExchangeError::Lost(error),
            None => ExchangeError::Cut,
        },
    }
}

fn malformed(why: &str) -> ExchangeError {
    ExchangeError::Protocol(why.to_owned())
}
