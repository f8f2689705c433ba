//! An encrypted connection.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::net::SendFlags;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus, WriteTraffic,
};
use rustls::{CipherSuite, HandshakeKind, ProtocolVersion, ServerConfig};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::certificates::take_asked;
use super::clients;
use super::kernel::{Ability, Kernel, Received};
use millrace_base::context::poll_receive;
use millrace_base::message::request::{CertifiedClient, Tls};

/// Ciphertext read at once, after the start of an incomplete record. At least the largest record (RFC 8446 section
/// 5.2: 16,384 + 256 + 5 bytes).
const READ_BYTES: usize = 64 << 10;
/// Plaintext encrypted at once. What a slow client does not take waits in the connection.
const WRITE_BYTES: usize = 64 << 10;
/// Plaintext of a record (RFC 8446 section 5.1).
const RECORD_BYTES: usize = 16 << 10;
/// Maximum overhead of a record (RFC 8446 section 5.2; TLS 1.2 adds less).
const RECORD_EXTRA: usize = 256 + 5;
/// Ciphertext made at once: for this much plaintext in full records, and some small ones.
const OUTPUT_BYTES: usize = WRITE_BYTES + (WRITE_BYTES / RECORD_BYTES + 16) * RECORD_EXTRA;

/// Buffers that all encrypted connections of a thread share.
struct Scratch {
    input: Box<[u8]>,
    output: Box<[u8]>,
}

thread_local! {
    /// Never borrowed over an await.
    static SCRATCH: RefCell<Scratch> =
        RefCell::new(Scratch { input: vec![0; READ_BYTES].into(), output: vec![0; OUTPUT_BYTES].into() });
}

/// An encrypted connection over TCP. Reads and writes plaintext.
pub struct TlsStream {
    socket: TcpStream,
    records: Records,
    /// What the kernel may do for it.
    ability: Ability,
    /// The start of a record whose rest has not arrived.
    incoming: Vec<u8>,
    /// Plaintext for which the reader had no room, and how much of it the reader has taken since.
    plain: Vec<u8>,
    taken: usize,
    /// Ciphertext that the socket has not taken, and how much of it has been sent since.
    outgoing: Vec<u8>,
    sent: usize,
    /// The client has announced the end of its data.
    ended: bool,
    /// The name for which the client asked (RFC 6066 section 3).
    server_name: Option<Box<str>>,
    /// Bytes of early data among the plaintext that the reader has not taken yet.
    early_left: usize,
    /// The last read returned early data, and the handshake is not complete yet.
    early: bool,
}

/// What encrypts and decrypts. The stream is boxed as a whole, and few connections get to the smaller variant.
#[expect(clippy::large_enum_variant)]
enum Records {
    Rustls(UnbufferedServerConnection),
    Kernel(Kernel),
}

impl Records {
    fn rustls(&self) -> Option<&UnbufferedServerConnection> {
        if let Records::Rustls(tls) = self { Some(tls) } else { None }
    }

    /// For operations that are only possible with rustls.
    fn rustls_mut(&mut self) -> io::Result<&mut UnbufferedServerConnection> {
        if let Records::Rustls(tls) = self { Ok(tls) } else { Err(io::ErrorKind::Unsupported.into()) }
    }
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// The result of decrypting.
struct Deciphered {
    /// Bytes at the end that are an incomplete record.
    rest: usize,
}

impl TlsStream {
    /// `ability` is what the kernel may do for it, if `config` permits to extract keys.
    pub fn new(
        socket: TcpStream,
        config: Arc<ServerConfig>,
        ability: Ability,
    ) -> Result<TlsStream, rustls::Error> {
        Ok(TlsStream {
            socket,
            records: Records::Rustls(UnbufferedServerConnection::new(config)?),
            ability,
            incoming: Vec::new(),
            plain: Vec::new(),
            taken: 0,
            outgoing: Vec::new(),
            sent: 0,
            ended: false,
            server_name: None,
            early_left: 0,
            early: false,
        })
    }

    /// Whether the handshake was full or resumed.
    pub fn kind(&self) -> Option<HandshakeKind> {
        self.records.rustls()?.handshake_kind()
    }

    /// Whether HTTP/2 was negotiated (RFC 7301).
    pub fn is_h2(&self) -> bool {
        self.protocol() == Some(b"h2")
    }

    /// The name for which the client asked, if any.
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// The negotiated parameters. `policy` is the number of the policy by which the client was asked for a
    /// certificate.
    pub fn terms(&self, policy: Option<u64>) -> Option<Tls> {
        let tls = self.records.rustls()?;
        let version = match tls.protocol_version()? {
            ProtocolVersion::TLSv1_3 => "TLSv1.3",
            _ => "TLSv1.2",
        };
        let shown = tls.peer_certificates().and_then(|chain| chain.first());
        let certificate = shown.map(|certificate| Arc::new(clients::described(certificate)));
        let client = policy.map(|policy| CertifiedClient { policy, certificate });
        Some(Tls { version, cipher: openssl_name(tls.negotiated_cipher_suite()?.suite()), client })
    }

    /// Memory of its buffers, bytes.
    pub fn held(&self) -> u64 {
        (self.incoming.capacity() + self.plain.capacity() + self.outgoing.capacity()) as u64
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The negotiated protocol (ALPN, RFC 7301).
    pub fn protocol(&self) -> Option<&[u8]> {
        self.records.rustls()?.alpn_protocol()
    }

    pub fn is_handshaking(&self) -> bool {
        self.records.rustls().is_some_and(|tls| tls.is_handshaking())
    }

    /// Whether the kernel encrypts data written to the socket.
    pub fn is_in_kernel(&self) -> bool {
        matches!(self.records, Records::Kernel(_))
    }

    /// Switches to the kernel, if it is supported and nothing is in progress; returns whether it did. All written
    /// data must have been sent.
    ///
    /// # Errors
    /// The kernel does not accept the keys, though it has accepted others of this kind. The connection is unusable.
    pub fn go_to_kernel(&mut self) -> io::Result<bool> {
        let Records::Rustls(tls) = &mut self.records else { return Ok(true) };
        let is_at_rest = !self.ended && self.incoming.is_empty() && self.outgoing.is_empty();
        if !self.ability.is_any() || !is_at_rest || tls.is_handshaking() {
            return Ok(false);
        }
        // In any other state rustls has something to send first.
        if !matches!(tls.process_tls_records(&mut []).state, Ok(ConnectionState::WriteTraffic(_))) {
            return Ok(false);
        }
        let Some(kernel) = Kernel::prepare(&self.socket, tls, self.ability) else {
            self.ability = Ability::NONE;
            return Ok(false);
        };
        let before = std::mem::replace(&mut self.records, Records::Kernel(kernel));
        if let (Records::Rustls(tls), Records::Kernel(kernel)) = (before, &mut self.records) {
            kernel.take_over(&self.socket, tls).inspect_err(|_| {
                // Without keys it would send data unencrypted.
                let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
            })?;
        }
        Ok(true)
    }

    /// Whether so much has been sent that the connection should end with its current response. rustls handles this
    /// itself.
    pub fn is_worn(&self) -> bool {
        matches!(&self.records, Records::Kernel(kernel) if kernel.is_worn(&self.socket))
    }

    /// Whether there are requests in early data that can be served. Not for HTTP/2, where later data on the same
    /// connection would have to be distinguished from them.
    pub fn has_early_requests(&self) -> bool {
        self.early_left > 0 && self.protocol().is_none_or(|protocol| protocol == b"http/1.1")
    }

    /// Whether some of the last read was early data and the handshake is still incomplete: it may be a replay (RFC
    /// 8446 section 8).
    pub fn is_early(&self) -> bool {
        self.early
    }

    /// Notes that the reader has taken `length` bytes of plaintext.
    fn had(&mut self, length: usize) -> usize {
        self.early = self.early_left > 0 && self.is_handshaking();
        self.early_left = self.early_left.saturating_sub(length);
        length
    }

    /// Reads plaintext once. 0: the client sends no more.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            if self.taken < self.plain.len() {
                let length = self.give(buffer);
                return Poll::Ready(Ok(self.had(length)));
            }
            if self.ended {
                return Poll::Ready(Ok(0));
            }
            // The reader may have written before, and the client may wait for that.
            if !self.outgoing.is_empty()
                && let Poll::Ready(Err(error)) = self.poll_flush(cx)
            {
                return Poll::Ready(Err(error));
            }
            let mut room = PlaintextRoom { buffer: &mut *buffer, filled: 0, plain: Vec::new() };
            let more = ready!(self.poll_decipher(cx, &mut |text| room.take(text)))?;
            let filled = room.filled;
            (self.plain, self.taken) = (room.plain, 0);
            self.ended |= !more;
            if filled > 0 {
                return Poll::Ready(Ok(self.had(filled)));
            }
        }
    }

    /// Takes the first bytes of a handshake, which have already been read.
    pub fn begin(&mut self, bytes: &[u8]) -> io::Result<()> {
        SCRATCH.with_borrow_mut(|scratch| {
            let Some(input) = scratch.input.get_mut(..bytes.len()) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            input.copy_from_slice(bytes);
            let mut plain = Vec::new();
            let whole = self.process(input, &mut |text| plain.extend_from_slice(text));
            self.server_name = take_asked();
            let whole = whole?;
            self.plain.append(&mut plain);
            self.incoming.extend_from_slice(&input[input.len() - whole.rest..]);
            Ok(())
        })
    }

    /// Reads the next part of a handshake.
    pub fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut plain = Vec::new();
        let more = ready!(self.poll_decipher(cx, &mut |text| plain.extend_from_slice(text)));
        // Taken in any case: it must not be used for another connection.
        self.server_name = take_asked().or(self.server_name.take());
        let more = more?;
        self.plain.append(&mut plain);
        let ended = !more || self.ended;
        Poll::Ready(if ended { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) })
    }

    /// Ready when the client has ended the connection, or its half of it. Data that it has sent before is stored for
    /// the next read: until that is read, the end is not noticed.
    pub fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.plain.is_empty() && !self.ended {
            if ready!(self.poll_step(cx)).is_err() {
                self.ended = true;
            }
        }
        if self.plain.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn give(&mut self, buffer: &mut [u8]) -> usize {
        let left = &self.plain[self.taken..];
        let length = left.len().min(buffer.len());
        buffer[..length].copy_from_slice(&left[..length]);
        self.taken += length;
        if self.taken == self.plain.len() {
            (self.plain, self.taken) = (Vec::new(), 0);
        }
        length
    }

    /// Reads ciphertext once and passes its plaintext to `take`. False: the socket is at its end.
    fn poll_decipher(&mut self, cx: &mut Context<'_>, take: &mut dyn FnMut(&[u8])) -> Poll<io::Result<bool>> {
        SCRATCH.with_borrow_mut(|scratch| {
            if self.is_in_kernel() {
                return Poll::Ready(Ok(
                    match ready!(Kernel::poll_receive(&self.socket, cx, &mut scratch.input))? {
                        Received::Data(length) => {
                            take(&scratch.input[..length]);
                            true
                        }
                        Received::End => false,
                    },
                ));
            }
            let before = self.incoming.len();
            scratch.input[..before].copy_from_slice(&self.incoming);
            let read = ready!(poll_receive(&self.socket, cx, &mut scratch.input[before..]))?;
            if read == 0 {
                return Poll::Ready(Ok(false));
            }
            let input = &mut scratch.input[..before + read];
            let whole = self.process(input, take)?;
            let rest = &input[input.len() - whole.rest..];
            if rest.is_empty() {
                self.incoming = Vec::new();
            } else {
                self.incoming.clear();
                self.incoming.extend_from_slice(rest);
            }
            Poll::Ready(Ok(true))
        })
    }

    /// Processes the records of `input` in sequence.
    fn process(&mut self, input: &mut [u8], take: &mut dyn FnMut(&[u8])) -> io::Result<Deciphered> {
        let tls = self.records.rustls_mut()?;
        let mut at = 0;
        loop {
            let UnbufferedStatus { mut discard, state } = tls.process_tls_records(&mut input[at..]);
            let mut done = false;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(broken)?;
                        discard += record.discard;
                        take(record.payload);
                    }
                }
                Ok(ConnectionState::ReadEarlyData(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(broken)?;
                        discard += record.discard;
                        self.early_left += record.payload.len();
                        take(record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(&mut self.outgoing, |room| data.encode(room))?;
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    self.ended = true;
                    done = true;
                }
                // The rest of the input is incomplete.
                Ok(_) => done = true,
                Err(error) => {
                    self.say_alert(&mut input[at + discard..]);
                    return Err(broken(error));
                }
            }
            at += discard;
            if done {
                return Ok(Deciphered { rest: input.len() - at });
            }
        }
    }

    /// Sends the alert that tells the client its error, as far as the socket takes it, after rustls's earlier
    /// messages, which may include a certificate. `rest` is unprocessed input: rustls may have looked at its start,
    /// and relies on finding it again.
    fn say_alert(&mut self, rest: &mut [u8]) {
        let Records::Rustls(tls) = &mut self.records else { return };
        // After the last message rustls must not be called again: it would process the invalid input once more.
        while tls.wants_write() {
            let Ok(ConnectionState::EncodeTlsData(mut data)) = tls.process_tls_records(rest).state else {
                break;
            };
            if append(&mut self.outgoing, |room| data.encode(room)).is_err() {
                break;
            }
        }
        let _ = self.try_flush();
    }

    /// Writes plaintext once: as much as is encrypted at once. It then counts as written, and
    /// [`poll_flush`](Self::poll_flush) sends it.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.is_in_kernel() {
            return self.poll_send(cx, |socket| Ok(rustix::io::writev(socket, pieces)?));
        }
        ready!(self.poll_flush(cx))?;
        Poll::Ready(self.encipher(pieces, 0))
    }

    /// Runs a system call that writes plaintext to the socket, when the socket has room. Only if the kernel encrypts.
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        match &mut self.records {
            Records::Kernel(kernel) => kernel.poll_send(&self.socket, cx, || call(self.socket.as_fd())),
            Records::Rustls(_) => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    }

    /// Writes as much as the socket takes without waiting, and perhaps a little more.
    pub fn try_write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Records::Kernel(kernel) = &mut self.records {
            return kernel.try_send(&self.socket, || Ok(rustix::io::writev(&self.socket, pieces)?));
        }
        let mut written = 0;
        let all: usize = pieces.iter().map(|piece| piece.len()).sum();
        while self.try_flush()? && written < all {
            written += self.encipher(pieces, written)?;
        }
        if written == 0 && all > 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(written) }
    }

    /// Whether all written data has been sent.
    pub fn is_flushed(&self) -> bool {
        match &self.records {
            Records::Kernel(kernel) => kernel.is_taken(&self.socket).unwrap_or(false),
            Records::Rustls(_) => self.outgoing.is_empty(),
        }
    }

    /// Sends written data that is still buffered.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Records::Kernel(kernel) = &mut self.records {
            return kernel.poll_taken(&self.socket, cx);
        }
        while !self.try_flush()? {
            ready!(self.socket.poll_write_ready(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Announces the end of data (RFC 8446 section 6.1). [`poll_flush`](Self::poll_flush) sends what the socket does
    /// not take.
    pub fn say_end(&mut self) {
        let rest = &mut self.incoming[..];
        let tls = match &mut self.records {
            Records::Rustls(tls) => tls,
            Records::Kernel(kernel) => return kernel.say_end(&self.socket),
        };
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = tls.process_tls_records(rest).state {
            // A client that can't be told sees the end of the connection.
            let mut alert = [0; 64];
            if let Ok(length) = traffic.queue_close_notify(&mut alert) {
                self.outgoing.extend_from_slice(&alert[..length]);
            }
        }
        let _ = self.try_flush();
    }

    /// Whether no unsent data is left.
    fn try_flush(&mut self) -> io::Result<bool> {
        while self.sent < self.outgoing.len() {
            match send(&self.socket, &self.outgoing[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        if self.sent > 0 {
            (self.outgoing, self.sent) = (Vec::new(), 0);
        }
        Ok(true)
    }

    /// Encrypts the next of `pieces` after their first `from` bytes, and sends what the socket takes. No unsent data
    /// may be left.
    fn encipher(&mut self, pieces: &[IoSlice<'_>], from: usize) -> io::Result<usize> {
        let tls = self.records.rustls_mut()?;
        SCRATCH.with_borrow_mut(|scratch| {
            let output = &mut scratch.output[..];
            let mut length = 0;
            // Responses to key updates go first. rustls may have looked at the start of a message in the stored
            // input.
            let written = loop {
                let rest = &mut self.incoming[..];
                match tls.process_tls_records(rest).state.map_err(broken)? {
                    ConnectionState::WriteTraffic(mut traffic) => {
                        let made = encipher_all(&mut traffic, pieces, from, &mut output[length..])?;
                        length += made.length;
                        break made.taken;
                    }
                    ConnectionState::EncodeTlsData(mut data) => {
                        length += data.encode(&mut output[length..]).map_err(io::Error::other)?;
                    }
                    ConnectionState::TransmitTlsData(data) => data.done(),
                    ConnectionState::PeerClosed => self.ended = true,
                    _ => return Err(io::ErrorKind::BrokenPipe.into()),
                }
            };
            let output = &output[..length];
            let sent = match send(&self.socket, output) {
                Ok(sent) => sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            self.outgoing.extend_from_slice(&output[sent..]);
            Ok(written)
        })
    }
}

/// The result of encrypting.
struct Enciphered {
    /// Bytes of plaintext.
    taken: usize,
    /// Bytes of the records.
    length: usize,
}

/// Puts the records of up to [`WRITE_BYTES`] of `pieces`, after their first `from` bytes, into `output`, as far as
/// there is room.
fn encipher_all(
    traffic: &mut WriteTraffic<'_, rustls::server::ServerConnectionData>,
    pieces: &[IoSlice<'_>],
    from: usize,
    output: &mut [u8],
) -> io::Result<Enciphered> {
    let (mut skip, mut made) = (from, Enciphered { taken: 0, length: 0 });
    for piece in pieces {
        let skipped = skip.min(piece.len());
        skip -= skipped;
        let text = &piece[skipped..];
        let text = &text[..text.len().min(WRITE_BYTES - made.taken)];
        if text.is_empty() {
            continue;
        }
        match traffic.encrypt(text, &mut output[made.length..]) {
            Ok(length) => (made.taken, made.length) = (made.taken + text.len(), made.length + length),
            // Many small pieces, each in its own record: the rest is written next time.
            Err(EncryptError::InsufficientSize(_)) if made.taken > 0 => break,
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    Ok(made)
}

/// Appends what `make` writes into the given room, enlarging it first if `make` asks for more.
fn append(
    output: &mut Vec<u8>,
    mut make: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> io::Result<()> {
    let before = output.len();
    let mut room = 0;
    loop {
        output.resize(before + room, 0);
        match make(&mut output[before..]) {
            Ok(length) => {
                output.truncate(before + length);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size }))
                if required_size > room =>
            {
                room = required_size;
            }
            Err(error) => return Err(io::Error::other(error)),
        }
    }
}

fn send(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    socket.try_io(Interest::WRITABLE, || Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?))
}

/// OpenSSL's name of a cipher suite (openssl-ciphers(1)).
fn openssl_name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        other => other.as_str().unwrap_or("unknown"),
    }
}

fn broken(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// The destination of plaintext: the reader's buffer while it has room, then a buffer of the connection.
struct PlaintextRoom<'a> {
    buffer: &'a mut [u8],
    filled: usize,
    plain: Vec<u8>,
}

impl PlaintextRoom<'_> {
    fn take(&mut self, text: &[u8]) {
        let now = text.len().min(self.buffer.len() - self.filled);
        self.buffer[self.filled..self.filled + now].copy_from_slice(&text[..now]);
        self.filled += now;
        self.plain.extend_from_slice(&text[now..]);
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
