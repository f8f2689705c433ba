//! Answers as bytes: status line, fields, framing, and the pump of each kind of body.

use std::future::poll_fn;
use std::io::{self, IoSlice, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::task::Poll;

use millrace_wire::{chunked, decimal};
use rustix::net::SendFlags;

use super::connection::knows_chunks;
use super::{Connection, ConnectionPhase, flush, write_all};
use crate::context::stats::Counter;
use crate::message::Request;
use crate::message::reply::{Body, ContentSource, Reply, reason_phrase};
use crate::protocol::ProtocolThread;
use crate::protocol::framing::{SERVER, allows_content, has_content, transport_security};

/// Content up to this size is copied behind its head: that costs less than a system call with two pieces.
const COPY_BYTES: usize = 4096;
/// Bytes given to one sendfile call: others of the thread want to send, too.
const SENDFILE_BYTES: u64 = 1024 * 1024;

/// A file from this size on makes an encrypted connection go over to the kernel, where that can encipher: getting there costs as
/// much as some small answers.
const KERNEL_BYTES: u64 = 256 * 1024;

/// Bytes of a file that are read at once where sendfile can't be used.
const FILE_BYTES: usize = 64 * 1024;

/// What became of an answer.
pub(super) struct SentResponse {
    /// Bytes of content.
    pub(super) bytes: u64,
    /// Whether all of it has left.
    pub(super) whole: bool,
}

/// How the end of the content is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// The status or method allows no content.
    Nothing,
    Length(u64),
    Chunked,
    /// By the end of the connection: HTTP/1.0, length unknown.
    Close,
}

/// Appends an answer whose content is in memory; only its head, if the content follows from elsewhere.
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

/// Appends an answer to something that was no request; the connection ends with it.
pub(super) fn refusal(thread: &ProtocolThread, reply: &Reply, output: &mut Vec<u8>) {
    status_line(thread, reply, output);
    for block in reply.fields.blocks() {
        output.extend_from_slice(block);
    }
    let content: &[u8] = if let Body::Bytes(bytes) = &reply.body { bytes } else { &[] };
    let _ = write!(output, "Content-Length: {}\r\nConnection: close\r\n\r\n", content.len());
    output.extend_from_slice(content);
}

/// Sends an answer of any kind, `before` before it.
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
    let mut pump = ResponseSender { connection, head: output, content: 0 };
    let result = match (framing, reply.body) {
        (Framing::Nothing, _) => pump.flush().await,
        (_, Body::Stream(stream)) => pump.stream(stream, framing).await,
        (_, Body::Parts(parts)) => pump.parts(parts).await,
        (_, body) => pump.body(&body).await,
    };
    let whole = result.is_ok() && framing != Framing::Close;
    SentResponse { bytes: pump.content, whole }
}

/// Bytes of memory that content takes until it has left.
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
        // RFC 9112 section 6.3: an answer to HEAD has the fields of the one to GET, as far as they are known.
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
    thread.clock.with_date(|date| output.extend_from_slice(date.as_bytes()));
    output.extend_from_slice(b"\r\n");
}

/// Sends a head and what follows it.
struct ResponseSender<'a> {
    connection: &'a Connection,
    /// What has to leave before any content: the head, or the size of a chunk.
    head: Vec<u8>,
    /// Bytes of content that have left.
    content: u64,
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

    /// The head leaves in one packet with the start of the file: MSG_MORE.
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
                // The file has become shorter since its length was told: the client must notice.
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => {
                    at += n as u64;
                    self.content += n as u64;
                }
            }
        }
        flush(self.connection).await
    }

    /// Whether the kernel can send so much of a file by itself.
    async fn goes_by_sendfile(&self, length: u64) -> io::Result<bool> {
        if self.connection.stream().sends_files() {
            return Ok(true);
        }
        if length < KERNEL_BYTES {
            return Ok(false);
        }
        flush(self.connection).await?;
        let goes = self.connection.stream().go_to_kernel()?;
        self.connection.thread.stats.add(Counter::TlsKernel, goes.into());
        Ok(goes)
    }

    /// A file through a buffer: where the kernel can't send it by itself.
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

    /// A system call that writes to the socket, when it can.
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
        self.connection.thread.stats.add(Counter::BytesSent, written as u64);
        self.connection.progress();
        Ok(written)
    }

    /// Content that a script is still making. It is sent as it comes: pieces are what the script flushed.
    async fn stream(&mut self, mut stream: Box<dyn ContentSource>, framing: Framing) -> io::Result<()> {
        let mut piece = Vec::new();
        let mut left = if let Framing::Length(length) = framing { Some(length) } else { None };
        self.flush().await?;
        while stream.next(&mut piece).await? {
            self.connection.enter(ConnectionPhase::Running);
            self.connection.works_with(piece.capacity());
            if let Some(left) = &mut left {
                // More than the script announced would be taken for the next answer.
                piece.truncate((*left).min(piece.len() as u64) as usize);
                *left -= piece.len() as u64;
            }
            self.piece(&piece, framing).await?;
            piece.clear();
        }
        match (framing, left) {
            (Framing::Chunked, _) => {
                self.head.extend_from_slice(chunked::END);
                self.flush().await
            }
            (_, Some(1..)) => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
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
