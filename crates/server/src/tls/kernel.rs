//! Connections with encryption by the kernel, so that files are sent by sendfile.
//!
//! A connection begins with rustls, which is faster for small responses, and switches to the kernel when it has a
//! large file to send. It does not switch back. What the kernel supports is tested once per process, by sending
//! records over a connection to itself ([`ability`]); everything else stays with rustls.

use std::io;
use std::net::{TcpListener, TcpStream as StdStream};
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use millrace_sys::kernel_tls::{self, Cipher, Direction, Keys, Record, Version};
use rustls::server::UnbufferedServerConnection;
use rustls::{CipherSuite, ConnectionTrafficSecrets, ProtocolVersion};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// Types of records (RFC 8446 section 5.1).
const ALERT: u8 = 21;
const APPLICATION_DATA: u8 = 23;
/// Levels and descriptions of alerts (RFC 8446 section 6).
const WARNING: u8 = 1;
const FATAL: u8 = 2;
const CLOSE_NOTIFY: u8 = 0;
const BAD_RECORD_MAC: u8 = 20;
const USER_CANCELED: u8 = 90;
/// Announces the end of data.
const END: [u8; 2] = [WARNING, CLOSE_NOTIFY];

/// After this many records with one key, the connection ends with its current response (RFC 8446 section 5.5 allows
/// 2^24.5 with AES-GCM).
const MOST_RECORDS: u64 = 1 << 23;
/// Interval between checks whether TCP has taken the last records.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

const VERSIONS: [Version; 2] = [Version::Tls12, Version::Tls13];
const CIPHERS: [Cipher; 3] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::Chacha20Poly1305];

/// The versions and ciphers that the kernel supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ability(u8);

impl Ability {
    /// None: all connections stay with rustls.
    pub const NONE: Ability = Ability(0);
    /// All of them. Whether the kernel really supports them is tested.
    #[cfg(test)]
    pub(super) const ALL: Ability = Ability(0b11_1111);

    /// Whether it supports any.
    pub fn is_any(self) -> bool {
        self != Ability::NONE
    }

    fn has(self, version: Version, cipher: Cipher) -> bool {
        self.0 & Ability::bit(version, cipher) != 0
    }

    fn bit(version: Version, cipher: Cipher) -> u8 {
        1 << (version as u8 * CIPHERS.len() as u8 + cipher as u8)
    }

    /// For the log.
    pub fn shown(self) -> String {
        let named = |version, name| {
            let known = CIPHERS.into_iter().filter(|cipher| self.has(version, *cipher));
            let known: Vec<_> = known.map(|cipher| format!("{cipher:?}")).collect();
            (!known.is_empty()).then(|| format!("{name} with {}", known.join(", ")))
        };
        let both = [named(Version::Tls13, "TLS 1.3"), named(Version::Tls12, "TLS 1.2")];
        both.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// What this machine's kernel supports, or why it supports nothing; tested on the first call.
///
/// # Errors
/// The error is for the log: all connections stay with rustls, and the administrator may load the kernel's module.
pub fn ability() -> &'static io::Result<Ability> {
    static ABILITY: OnceLock<io::Result<Ability>> = OnceLock::new();
    ABILITY.get_or_init(|| {
        // For a superuser the kernel would load its module. That decision is the administrator's.
        let layers = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_ulp");
        if layers.is_ok_and(|layers| !layers.split_ascii_whitespace().any(|layer| layer == "tls")) {
            return Err(io::Error::other("the kernel module `tls` is not loaded (modprobe tls)"));
        }
        try_all().map_err(|error| io::Error::other(format!("a test connection failed: {error}")))
    })
}

/// The supported ones; the last failure, if there is none.
fn try_all() -> io::Result<Ability> {
    let (mut able, mut failure) = (Ability::NONE, io::Error::from(io::ErrorKind::Unsupported));
    for version in VERSIONS {
        for cipher in CIPHERS {
            match try_out(version, cipher) {
                Ok(()) => able.0 |= Ability::bit(version, cipher),
                Err(error) => failure = error,
            }
        }
    }
    if able.is_any() { Ok(able) } else { Err(failure) }
}

/// Sends records over a connection to itself, and checks that they arrive and that the kernel's counts match.
fn try_out(version: Version, cipher: Cipher) -> io::Result<()> {
    const TEXT: &[u8] = b"enciphered by the kernel";
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = StdStream::connect(listener.local_addr()?)?;
    let (far, from) = listener.accept()?;
    if from != near.local_addr()? {
        return Err(io::ErrorKind::ConnectionAborted.into());
    }
    far.set_read_timeout(Some(Duration::from_secs(1)))?;
    let key = [0x5a; 32];
    let key = &key[..if cipher == Cipher::Aes128Gcm { 16 } else { 32 }];
    let keys = Keys { version, cipher, key, iv: [7; 12], sequence: 5 };
    for (socket, direction) in [(&near, Direction::Send), (&far, Direction::Receive)] {
        kernel_tls::attach(socket)?;
        kernel_tls::set_keys(socket, direction, &keys)?;
    }
    let before = standing(&near)?;
    rustix::io::write(&near, TEXT)?;
    kernel_tls::send_record(&near, ALERT, &END)?;
    let mut buffer = [0; 64];
    for (kind, text) in [(APPLICATION_DATA, TEXT), (ALERT, &END)] {
        let record = kernel_tls::receive_record(&far, &mut buffer)?;
        if record.kind != Some(kind) || buffer[..record.length] != *text {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    let told = (kernel_tls::next_record(&near, cipher)?, standing(&near)? - before);
    let right = (keys.sequence + 2, (TEXT.len() + END.len()) as u64 + 2 * extra(version, cipher));
    if told == right { Ok(()) } else { Err(io::Error::other(format!("{told:?} instead of {right:?}"))) }
}

/// The overhead of a record: header, nonce, type, tag.
fn extra(version: Version, cipher: Cipher) -> u64 {
    match (version, cipher) {
        (Version::Tls13, _) => 5 + 1 + 16,
        (Version::Tls12, Cipher::Chacha20Poly1305) => 5 + 16,
        (Version::Tls12, _) => 5 + 8 + 16,
    }
}

/// Number of bytes given to the socket since its connection began; no other thread may write meanwhile.
fn standing(socket: impl std::os::fd::AsFd) -> io::Result<u64> {
    let mut before = kernel_tls::sent(&socket)?;
    loop {
        let now = kernel_tls::sent(&socket)?;
        // Bytes acknowledged between the kernel's two counters are missing in one of them.
        if now.acknowledged == before.acknowledged {
            return Ok(before.acknowledged + before.queued);
        }
        before = now;
    }
}

/// The kernel's part of a connection that has switched.
pub(super) struct Kernel {
    version: Version,
    cipher: Cipher,
    /// The byte of the stream and the number of the record at which it began.
    from_byte: u64,
    from_record: u64,
    /// Plaintext given to it since.
    written: u64,
    /// The client must still be told that no more data follows.
    owes_end: bool,
    /// When the next check is due whether TCP has taken everything.
    again: Option<Pin<Box<Sleep>>>,
}

/// Received data.
pub(super) enum Received {
    /// Number of bytes of plaintext.
    Data(usize),
    /// The client sends no more, or nothing that can be read.
    End,
}

impl Kernel {
    /// Prepares a socket; everything that `tls` has made must have been sent, and all read data used. Nothing changes
    /// before [`take_over`](Self::take_over). `None`: it stays with rustls.
    pub(super) fn prepare(
        socket: &TcpStream,
        tls: &UnbufferedServerConnection,
        ability: Ability,
    ) -> Option<Kernel> {
        let version = match tls.protocol_version()? {
            ProtocolVersion::TLSv1_2 => Version::Tls12,
            ProtocolVersion::TLSv1_3 => Version::Tls13,
            _ => return None,
        };
        let cipher = cipher(tls.negotiated_cipher_suite()?.suite())?;
        if !ability.has(version, cipher) || kernel_tls::attach(socket).is_err() {
            return None;
        }
        let from_byte = standing(socket).ok()?;
        Some(Kernel { version, cipher, from_byte, from_record: 0, written: 0, owes_end: false, again: None })
    }

    /// Gives the kernel the keys of `tls`.
    ///
    /// # Errors
    /// It does not accept them, though it has accepted others of this kind: the connection is unusable.
    pub(super) fn take_over(
        &mut self,
        socket: &TcpStream,
        tls: UnbufferedServerConnection,
    ) -> io::Result<()> {
        let (secrets, _) = tls.dangerous_into_kernel_connection().map_err(io::Error::other)?;
        let (next_in, incoming) = secrets.rx;
        let (next_out, outgoing) = secrets.tx;
        self.from_record = next_out;
        self.give(socket, Direction::Receive, next_in, &incoming)?;
        self.give(socket, Direction::Send, next_out, &outgoing)
    }

    fn give(
        &self,
        socket: &TcpStream,
        direction: Direction,
        sequence: u64,
        secrets: &ConnectionTrafficSecrets,
    ) -> io::Result<()> {
        let (version, cipher) = (self.version, self.cipher);
        let (key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv }
            | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
            | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (key.as_ref(), iv.as_ref()),
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        let mut iv: [u8; 12] = iv.try_into().map_err(io::Error::other)?;
        if version == Version::Tls12 && cipher != Cipher::Chacha20Poly1305 {
            iv = unused_nonce(iv);
        }
        kernel_tls::set_keys(socket, direction, &Keys { version, cipher, key, iv, sequence })
    }

    /// Reads once.
    pub(super) fn poll_receive(
        socket: &TcpStream,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<Received>> {
        loop {
            ready!(socket.poll_read_ready(cx))?;
            match socket.try_io(Interest::READABLE, || kernel_tls::receive_record(socket, buffer)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    if error.raw_os_error() == Some(rustix::io::Errno::BADMSG.raw_os_error()) {
                        // The next call would get this error, too, and do nothing.
                        let _ = socket.take_error();
                        let _ = kernel_tls::send_record(socket, ALERT, &[FATAL, BAD_RECORD_MAC]);
                    }
                    return Poll::Ready(Err(error));
                }
                Ok(record) => {
                    if let Some(received) = received(record, buffer)? {
                        return Poll::Ready(Ok(received));
                    }
                }
            }
        }
    }

    /// Writes once, when the socket has room.
    pub(super) fn poll_send(
        &mut self,
        socket: &TcpStream,
        cx: &mut Context<'_>,
        mut call: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(socket.poll_write_ready(cx))?;
            match self.try_send(socket, &mut call) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// Writes once, as much as fits.
    pub(super) fn try_send(
        &mut self,
        socket: &TcpStream,
        call: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let sent = socket.try_io(Interest::WRITABLE, call)?;
        self.written += sent as u64;
        Ok(sent)
    }

    /// Ready when TCP has taken everything that was written. The rest would be lost when the socket is closed: the
    /// kernel encrypts one record more than it has room for, and sends it when there is room.
    pub(super) fn poll_taken(&mut self, socket: &TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.is_taken(socket)? {
            if self.owes_end {
                self.say_end(socket);
            }
            let again = self.again.get_or_insert_with(|| Box::pin(sleep(LOOK_AGAIN)));
            ready!(again.as_mut().poll(cx));
            self.again = None;
        }
        self.again = None;
        Poll::Ready(Ok(()))
    }

    /// Whether TCP has taken everything that was written.
    pub(super) fn is_taken(&self, socket: &TcpStream) -> io::Result<bool> {
        let records = kernel_tls::next_record(socket, self.cipher)? - self.from_record;
        let sent = kernel_tls::sent(socket)?;
        let all = self.from_byte + self.written + records * extra(self.version, self.cipher);
        if sent.acknowledged + sent.queued >= all && !self.owes_end {
            return Ok(true);
        }
        if sent.goes_on { Ok(false) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    /// Whether so much has been sent with these keys that they should only be used for the current response.
    pub(super) fn is_worn(&self, socket: &TcpStream) -> bool {
        kernel_tls::next_record(socket, self.cipher).is_ok_and(|next| next > MOST_RECORDS)
    }

    /// Announces the end of data, as the last message; if there is no room for it now,
    /// [`poll_taken`](Self::poll_taken) sends it.
    pub(super) fn say_end(&mut self, socket: &TcpStream) {
        let said = kernel_tls::send_record(socket, ALERT, &END);
        self.owes_end = said.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        if said.is_ok() {
            self.written += END.len() as u64;
        }
    }
}

/// The meaning of a record; `None`: none.
fn received(record: Record, buffer: &[u8]) -> io::Result<Option<Received>> {
    match record.kind {
        Some(APPLICATION_DATA) if record.length == 0 => Ok(None),
        Some(APPLICATION_DATA) => Ok(Some(Received::Data(record.length))),
        Some(ALERT) => match buffer[..record.length] {
            [_, CLOSE_NOTIFY] => Ok(Some(Received::End)),
            [_, USER_CANCELED] => Ok(None),
            _ => Err(io::ErrorKind::ConnectionReset.into()),
        },
        // New keys (RFC 8446 section 4.6.3), or another handshake (TLS 1.2): not possible with the kernel.
        Some(_) | None => Ok(Some(Received::End)),
    }
}

fn cipher(suite: CipherSuite) -> Option<Cipher> {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => Some(Cipher::Aes128Gcm),
        CipherSuite::TLS13_AES_256_GCM_SHA384
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => Some(Cipher::Aes256Gcm),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => Some(Cipher::Chacha20Poly1305),
        _ => None,
    }
}

/// The kernel's first nonce of AES-GCM in TLS 1.2, chosen so that it never uses one that rustls has used: two records
/// with the same nonce reveal the key. rustls computes the explicit part XOR the number of the record, the kernel
/// adds 1 for each record. As long as neither makes 2^32 of them, the highest bit and its 31 neighbours keep them
/// apart.
fn unused_nonce(mut iv: [u8; 12]) -> [u8; 12] {
    iv[4] ^= 0x80;
    iv[8..].fill(0);
    iv
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{IoSlice, Read, Write};
    use std::sync::Arc;

    use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};

    use super::super::{TlsStream, terms};
    use super::*;

    /// Both ends' configurations, with a certificate for `localhost`.
    fn configurations() -> (ServerConfig, ClientConfig) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = CertificateDer::from(made.cert);
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let mut server = ServerConfig::builder_with_provider(terms::provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key.into())
            .unwrap();
        let client = ClientConfig::builder_with_provider(terms::provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        server.enable_secret_extraction = true;
        (server, client)
    }

    async fn say(stream: &mut TlsStream, text: &[u8]) {
        let mut left = text;
        while !left.is_empty() {
            let written = poll_fn(|cx| stream.poll_write(cx, &[IoSlice::new(left)])).await.unwrap();
            left = &left[written..];
        }
        poll_fn(|cx| stream.poll_flush(cx)).await.unwrap();
    }

    /// Both ways, whether this machine's kernel supports it or not: the client never notices.
    #[tokio::test]
    async fn a_connection_goes_on_if_the_kernel_cant() {
        let (server, client) = configurations();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = std::thread::spawn(move || {
            let name = ServerName::try_from("localhost").unwrap();
            let connection = ClientConnection::new(Arc::new(client), name).unwrap();
            let mut stream = StreamOwned::new(connection, StdStream::connect(address).unwrap());
            stream.write_all(b"first").unwrap();
            let mut got = vec![0; 6];
            stream.read_exact(&mut got).unwrap();
            stream.write_all(b"second").unwrap();
            // Fails if the end is not announced.
            stream.read_to_end(&mut got).unwrap();
            got
        });
        let (socket, _) = listener.accept().await.unwrap();
        let mut stream = TlsStream::new(socket, Arc::new(server), Ability::ALL).unwrap();
        while stream.is_handshaking() {
            poll_fn(|cx| stream.poll_flush(cx)).await.unwrap();
            poll_fn(|cx| stream.poll_step(cx)).await.unwrap();
        }
        let mut buffer = [0; 100];
        assert_eq!(poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await.unwrap(), 5);
        say(&mut stream, b"before").await;
        let goes = stream.go_to_kernel().unwrap();
        assert_eq!(goes, stream.is_in_kernel());
        assert!(goes || ability().is_err());
        assert_eq!(poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await.unwrap(), 6);
        assert_eq!(buffer[..6], *b"second");
        let large = vec![b'x'; 300_000];
        say(&mut stream, &large).await;
        assert!(stream.is_flushed());
        stream.say_end();
        poll_fn(|cx| stream.poll_flush(cx)).await.unwrap();
        drop(stream);
        assert_eq!(client.join().unwrap(), [b"before", &large[..]].concat());
    }

    #[test]
    fn what_is_found_out_agrees_with_what_the_kernel_says() {
        let has_it = || {
            let layers = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_ulp").unwrap_or_default();
            layers.split_ascii_whitespace().any(|layer| layer == "tls")
        };
        // Another test of a superuser may cause it to be loaded meanwhile.
        let before = has_it();
        let able = ability();
        assert!(if before { able.is_ok() } else { able.is_err() || has_it() }, "{able:?}");
    }

    #[test]
    fn abilities_are_told() {
        let mut able = Ability::NONE;
        assert_eq!((able.is_any(), able.shown()), (false, String::new()));
        able.0 |= Ability::bit(Version::Tls13, Cipher::Aes256Gcm);
        assert!(able.has(Version::Tls13, Cipher::Aes256Gcm) && !able.has(Version::Tls12, Cipher::Aes256Gcm));
        assert_eq!(able.shown(), "TLS 1.3 with Aes256Gcm");
        assert_eq!(Ability::ALL.shown().matches("Chacha20Poly1305").count(), 2);
    }

    #[test]
    fn the_kernel_never_meets_a_nonce_of_rustls() {
        for explicit in [0u64, u64::MAX, 0x0123_4567_89ab_cdef, 0x7fff_ffff_ffff_ffff] {
            let mut iv = [9; 12];
            iv[4..].copy_from_slice(&explicit.to_be_bytes());
            let ours = unused_nonce(iv);
            assert_eq!(ours[..4], iv[..4]);
            let first = u64::from_be_bytes(ours[4..].try_into().unwrap());
            for made in [0, 1, u64::from(u32::MAX)] {
                for used in [0, 1, 12_345, u64::from(u32::MAX)] {
                    assert_ne!((first + made) >> 32, (explicit ^ used) >> 32);
                }
            }
        }
    }

    #[test]
    fn alerts_end_the_connection_or_break_it() {
        let alert = |bytes: &[u8]| received(Record { kind: Some(ALERT), length: bytes.len() }, bytes);
        assert!(matches!(alert(&END), Ok(Some(Received::End))));
        assert!(matches!(alert(&[WARNING, USER_CANCELED]), Ok(None)));
        assert!(alert(&[FATAL, BAD_RECORD_MAC]).is_err());
        assert!(matches!(
            received(Record { kind: Some(22), length: 5 }, &[24, 0, 0, 1, 0]),
            Ok(Some(Received::End))
        ));
        assert!(matches!(received(Record { kind: Some(APPLICATION_DATA), length: 0 }, &[]), Ok(None)));
    }
}
