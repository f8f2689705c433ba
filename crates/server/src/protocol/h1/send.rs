//! Responses as bytes: status line, fields, framing, and a sender for each kind of content.

use std::future::poll_fn;
use std::io::{self, IoSlice, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::task::Poll;

use millrace_wire::{chunked, decimal};
use rustix::net::SendFlags;

use super::connection::knows_chunks;
use super::{Connection, ConnectionPhase, flush, write_all};
use crate::protocol::ProtocolThread;
use crate::protocol::framing::{SERVER, allows_content, has_content, transport_security};
use millrace_base::context::stats::Counter;
use millrace_base::message::Request;
use millrace_base::message::reply::{Body, ContentSource, Reply, reason_phrase};

/// Content up to this size is copied behind its head: this costs less than a system call with two pieces.
const COPY_BYTES: usize = 4096;
/// Bytes per sendfile call: other connections of the thread need their turn.
const SENDFILE_BYTES: u64 = 1024 * 1024;

/// From this file size on, an encrypted connection switches to kernel TLS, if available: switching costs as much as
/// several small responses.
const KERNEL_BYTES: u64 = 256 * 1024;

/// Bytes read at once from a file that can't be sent by sendfile.
const FILE_BYTES: usize = 64 * 1024;

/// The result of sending a response.
pub(super) struct SentResponse {
    /// Bytes of content.
    pub(super) bytes: u64,
    /// Whether all of it was sent.
    pub(super) whole: bool,
}

/// How the client recognises the end of the content.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// The status or method allows no content.
    Nothing,
    Length(u64),
    Chunked,
    /// By the end of the connection: HTTP/1.0, length unknown.
    Close,
}

/// Appends a response with its content from memory; only its head, if the content follows from elsewhere.
pub(super) fn short(
    thread: &ProtocolThread,
    request: &Request,
    reply: &Reply,
    with_content: bool,
    close: bool,
    output: &mut Vec<u8>,
) {
    head(thread, request, reply, framing(request, reply), close, output);
    if !with_content || !has_content(request, reply) {
        return;
    }
    match &reply.body {
        Body::Bytes(bytes) => output.extend_from_slice(bytes),
        Body::Shared { bytes, start, end } => output.extend_from_slice(&bytes[*start..*end]),
        Body::Empty | Body::Omitted(_) | Body::File { .. } | Body::Parts(_) | Body::Stream(_) => {}
    }
}

/// Appends the response to an invalid request; the connection then ends.
pub(super) fn refusal(thread: &ProtocolThread, reply: &Reply, output: &mut Vec<u8>) {
    status_line(thread, reply, output);
    for block in reply.fields.blocks() {
        output.extend_from_slice(block);
    }
    let content: &[u8] = if let Body::Bytes(bytes) = &reply.body { bytes } else { &[] };
    let _ = write!(output, "Content-Length: {}\r\nConnection: close\r\n\r\n", content.len());
    output.extend_from_slice(content);
}

/// Sends any response, `before` first.
pub(super) async fn reply(
    connection: &Connection,
    request: &Request,
    before: Vec<u8>,
    reply: Reply,
    close: bool,
) -> SentResponse {
    let mut framing = framing(request, &reply);
    let close = close || framing == Framing::Close;
    let mut output = connection.thread.buffers.spare.take();
    output.clear();
    output.extend_from_slice(&before);
    head(&connection.thread, request, &reply, framing, close, &mut output);
    if request.is_head() {
        framing = Framing::Nothing;
    }
    connection.works_with(output.capacity() + in_memory(connection, &reply.body));
    let takes_trailers = request.takes_trailers();
    let mut pump = ResponseSender { connection, head: output, content: 0, takes_trailers };
    let result = match (framing, reply.body) {
        (Framing::Nothing, _) => pump.flush().await,
        (_, Body::Stream(stream)) => pump.stream(stream, framing).await,
        (_, Body::Parts(parts)) => pump.parts(parts).await,
        (_, body) => pump.body(&body).await,
    };
    let whole = result.is_ok() && framing != Framing::Close;
    SentResponse { bytes: pump.content, whole }
}

/// Memory of content until it has been sent, bytes.
fn in_memory(connection: &Connection, body: &Body) -> usize {
    match body {
        Body::Bytes(bytes) => bytes.capacity(),
        Body::Parts(parts) => parts.iter().map(|part| in_memory(connection, part)).sum(),
        Body::File { .. } if !connection.stream().sends_files() => FILE_BYTES,
        Body::Empty | Body::Omitted(_) | Body::Shared { .. } | Body::File { .. } | Body::Stream(_) => 0,
    }
}

fn framing(request: &Request, reply: &Reply) -> Framing {
    if !allows_content(reply.status) {
        return Framing::Nothing;
    }
    match reply.body.length() {
        Some(length) => Framing::Length(length),
        // RFC 9112 section 6.3: a response to HEAD has the fields of the one to GET, as far as they are known.
        None if request.is_head() => Framing::Nothing,
        None if knows_chunks(request) => Framing::Chunked,
        None => Framing::Close,
    }
}

fn head(
    thread: &ProtocolThread,
    request: &Request,
    reply: &Reply,
    framing: Framing,
    close: bool,
    output: &mut Vec<u8>,
) {
    status_line(thread, reply, output);
    for block in reply.fields.blocks() {
        output.extend_from_slice(block);
    }
    if let Some(age) = transport_security(thread, request) {
        output.extend_from_slice(b"Strict-Transport-Security: max-age=");
        decimal::push(age, output);
        output.extend_from_slice(b"\r\n");
    }
    match framing {
        Framing::Length(length) => {
            output.extend_from_slice(b"Content-Length: ");
            decimal::push(length, output);
            output.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => output.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::Nothing | Framing::Close => {}
    }
    if close {
        output.extend_from_slice(b"Connection: close\r\n");
    } else if !knows_chunks(request) {
        output.extend_from_slice(b"Connection: keep-alive\r\n");
    }
    output.extend_from_slice(b"\r\n");
}

fn status_line(thread: &ProtocolThread, reply: &Reply, output: &mut Vec<u8>) {
    output.extend_from_slice(b"HTTP/1.1 ");
    decimal::push(reply.status.into(), output);
    output.push(b' ');
    output.extend_from_slice(reply.reason.as_deref().unwrap_or(reason_phrase(reply.status)).as_bytes());
    output.extend_from_slice(b"\r\nServer: ");
    output.extend_from_slice(SERVER.as_bytes());
    if reply.dated {
        return output.extend_from_slice(b"\r\n");
    }
    output.extend_from_slice(b"\r\nDate: ");
    thread.context.clock.with_date(|date| output.extend_from_slice(date.as_bytes()));
    output.extend_from_slice(b"\r\n");
}

/// Sends a head and its content.
struct ResponseSender<'a> {
    connection: &'a Connection,
    /// Bytes before the next content: the head, or the size of a chunk.
    head: Vec<u8>,
    /// Bytes of content sent.
    content: u64,
    /// The client takes trailers.
    takes_trailers: bool,
}

impl ResponseSender<'_> {
    async fn flush(&mut self) -> io::Result<()> {
        let head = std::mem::take(&mut self.head);
        write_all(self.connection, &mut [IoSlice::new(&head)]).await
    }

    async fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut head = std::mem::take(&mut self.head);
        if bytes.len() <= COPY_BYTES {
            head.extend_from_slice(bytes);
            write_all(self.connection, &mut [IoSlice::new(&head)]).await?;
            self.connection.thread.buffers.keep_spare(head);
        } else {
            write_all(self.connection, &mut [IoSlice::new(&head), IoSlice::new(bytes)]).await?;
        }
        self.content += bytes.len() as u64;
        Ok(())
    }

    async fn body(&mut self, body: &Body) -> io::Result<()> {
        match body {
            Body::Bytes(bytes) => self.bytes(bytes).await,
            Body::Shared { bytes, start, end } => self.bytes(&bytes[*start..*end]).await,
            Body::File { file, offset, length } => self.file(file, *offset, *length).await,
            Body::Empty | Body::Omitted(_) | Body::Parts(_) | Body::Stream(_) => self.flush().await,
        }
    }

    async fn parts(&mut self, parts: Vec<Body>) -> io::Result<()> {
        for part in &parts {
            self.body(part).await?;
        }
        self.flush().await
    }

    /// The head and the start of the file share a packet: MSG_MORE.
    async fn file(&mut self, file: &std::fs::File, offset: u64, length: u64) -> io::Result<()> {
        if !self.goes_by_sendfile(length).await? {
            return self.read_file(file, offset, length).await;
        }
        let head = std::mem::take(&mut self.head);
        let flags = if length > 0 { SendFlags::MORE | SendFlags::NOSIGNAL } else { SendFlags::NOSIGNAL };
        let mut sent = 0;
        while sent < head.len() {
            sent += self.call(|socket| Ok(rustix::net::send(socket, &head[sent..], flags)?)).await?;
        }
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let most = (end - at).min(SENDFILE_BYTES) as usize;
            let send = |socket: std::os::fd::BorrowedFd<'_>| {
                let mut from = at;
                Ok(rustix::fs::sendfile(socket, file.as_fd(), Some(&mut from), most)?)
            };
            match self.call(send).await? {
                // The file is now shorter than its announced length: the client must notice.
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => {
                    at += n as u64;
                    self.content += n as u64;
                }
            }
        }
        flush(self.connection).await
    }

    /// Whether the kernel can send this much of a file by itself.
    async fn goes_by_sendfile(&self, length: u64) -> io::Result<bool> {
        if self.connection.stream().sends_files() {
            return Ok(true);
        }
        if length < KERNEL_BYTES {
            return Ok(false);
        }
        flush(self.connection).await?;
        let goes = self.connection.stream().go_to_kernel()?;
        self.connection.thread.context.stats.add(Counter::TlsKernel, goes.into());
        Ok(goes)
    }

    /// Sends a file through a buffer, if the kernel can't send it by itself.
    async fn read_file(&mut self, file: &std::fs::File, offset: u64, length: u64) -> io::Result<()> {
        let mut piece = vec![0; FILE_BYTES.min(length as usize)];
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let most = piece.len().min((end - at) as usize);
            match file.read_at(&mut piece[..most], at)? {
                // As above.
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => {
                    self.bytes(&piece[..n]).await?;
                    at += n as u64;
                }
            }
        }
        self.flush().await
    }

    /// Calls a system call that writes to the socket, when the socket has room.
    async fn call(
        &self,
        mut call: impl FnMut(std::os::fd::BorrowedFd<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let written = poll_fn(|cx| match self.connection.stream().poll_write_with(cx, &mut call) {
            Poll::Pending => {
                self.connection.enter(ConnectionPhase::Writing);
                Poll::Pending
            }
            ready => ready,
        })
        .await?;
        self.connection.thread.context.stats.add(Counter::BytesSent, written as u64);
        self.connection.progress();
        Ok(written)
    }

    /// Sends content that a script is still making, as it arrives: a piece is what the script flushed.
    async fn stream(&mut self, mut stream: Box<dyn ContentSource>, framing: Framing) -> io::Result<()> {
        let mut piece = Vec::new();
        let mut left = if let Framing::Length(length) = framing { Some(length) } else { None };
        self.flush().await?;
        while self.next(&mut *stream, &mut piece).await? {
            self.connection.enter(ConnectionPhase::Running);
            self.connection.works_with(piece.capacity());
            if let Some(left) = &mut left {
                // The client would take excess content for the next response.
                piece.truncate((*left).min(piece.len() as u64) as usize);
                *left -= piece.len() as u64;
            }
            self.piece(&piece, framing).await?;
            piece.clear();
        }
        match (framing, left) {
            (Framing::Chunked, _) => {
                match stream.take_trailers() {
                    trailers if self.takes_trailers => {
                        chunked::encode_end(&trailers.blocks().concat(), &mut self.head);
                    }
                    _ => self.head.extend_from_slice(chunked::END),
                }
                self.flush().await
            }
            (_, Some(1..)) => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// The next piece; an error if the client goes before it comes, and its maker minds.
    async fn next(&self, stream: &mut dyn ContentSource, piece: &mut Vec<u8>) -> io::Result<bool> {
        if !stream.minds_its_client() {
            return stream.next(piece).await;
        }
        poll_fn(|cx| match stream.poll_next(cx, piece) {
            Poll::Pending => {
                self.connection.stream().poll_gone(cx).map(|()| Err(io::ErrorKind::BrokenPipe.into()))
            }
            ready => ready,
        })
        .await
    }

    async fn piece(&mut self, piece: &[u8], framing: Framing) -> io::Result<()> {
        if framing != Framing::Chunked || piece.is_empty() {
            return self.bytes(piece).await;
        }
        let mut size = Vec::with_capacity(16);
        chunked::encode_size(piece.len(), &mut size);
        let mut pieces = [IoSlice::new(&size), IoSlice::new(piece), IoSlice::new(b"\r\n")];
        write_all(self.connection, &mut pieces).await?;
        self.content += piece.len() as u64;
        Ok(())
    }
}
