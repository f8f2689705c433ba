//! Bytes over a socket, in the clear or over TLS.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustls::{ClientConnection, HandshakeKind};

use super::connection::failure_of;
use crate::record::Failure;

/// A socket that never blocks, and TLS on it.
#[derive(Debug)]
pub struct Transport {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
}

/// Why nothing more is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It is not: nothing is there at the moment.
    Not,
    /// The other side has closed.
    Closed,
    /// The other side has reset the connection.
    Reset,
    /// A TLS record is wrong, or the handshake failed.
    Tls,
    /// Another error.
    Other(Errno),
}

impl Transport {
    /// On this socket.
    pub fn new(socket: OwnedFd, tls: Option<Box<ClientConnection>>) -> Transport {
        Transport { socket, tls }
    }

    /// The socket.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Whether it is encrypted.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether the TLS session is a resumed one.
    pub fn is_resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.handshake_kind() == Some(HandshakeKind::Resumed))
    }

    /// Why TLS failed, after [`Broken::Tls`].
    pub fn tls_error(&mut self) -> Option<String> {
        // The error stays the same once there is one.
        self.tls.as_mut()?.process_new_packets().err().map(|error| error.to_string())
    }

    /// Reads available data, up to the length of `into`; never 0 bytes.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, Broken> {
        let Some(tls) = &mut self.tls else { return receive(&self.socket, into) };
        loop {
            match tls.reader().read(into) {
                Ok(0) => return Err(Broken::Closed),
                Ok(read) => return Ok(read),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The connection ended without TLS's own end: as far as HTTP is concerned it has ended.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(Broken::Closed),
                Err(_) => return Err(Broken::Tls),
            }
            take_records(&self.socket, tls, into)?;
        }
    }

    /// Sends as much as possible from the start of `out`, and removes it there.
    pub fn write(&mut self, out: &mut Vec<u8>, count: &mut u64) -> Result<(), Broken> {
        let Some(tls) = &mut self.tls else {
            while !out.is_empty() {
                match rustix::net::send(&self.socket, out, SendFlags::NOSIGNAL) {
                    Ok(sent) => {
                        *count += sent as u64;
                        if sent == out.len() {
                            out.clear();
                        } else {
                            out.drain(..sent);
                        }
                    }
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return Ok(()),
                    Err(errno) => return Err(Broken::of(errno)),
                }
            }
            return Ok(());
        };
        loop {
            if !out.is_empty() {
                let taken = tls.writer().write(out).map_err(|_| Broken::Tls)?;
                *count += taken as u64;
                out.drain(..taken);
            }
            send_records(&self.socket, tls)?;
            if out.is_empty() || tls.wants_write() {
                return Ok(());
            }
        }
    }

    /// Continues the TLS handshake; returns whether it is complete.
    pub fn handshake(&mut self, buffer: &mut [u8]) -> Result<bool, Broken> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        loop {
            send_records(&self.socket, tls)?;
            if !tls.is_handshaking() {
                return Ok(true);
            }
            match take_records(&self.socket, tls, buffer) {
                Ok(()) => {}
                Err(Broken::Not) => return Ok(false),
                Err(broken) => return Err(broken),
            }
        }
    }
}

impl Transport {
    /// The protocol that was agreed on in the TLS handshake.
    pub fn protocol(&self) -> Option<&[u8]> {
        self.tls.as_ref().and_then(|tls| tls.alpn_protocol())
    }
}

impl Broken {
    fn of(errno: Errno) -> Broken {
        match errno {
            Errno::AGAIN => Broken::Not,
            Errno::CONNRESET => Broken::Reset,
            Errno::PIPE => Broken::Closed,
            other => Broken::Other(other),
        }
    }

    /// The failure as which it counts.
    pub fn failure(self) -> Failure {
        match self {
            Broken::Not | Broken::Closed | Broken::Reset => Failure::Reset,
            Broken::Tls => Failure::Tls,
            Broken::Other(errno) => failure_of(errno),
        }
    }
}

fn receive(socket: &OwnedFd, into: &mut [u8]) -> Result<usize, Broken> {
    loop {
        match rustix::net::recv(socket, &mut *into, RecvFlags::empty()) {
            Ok((0, _)) => return Err(Broken::Closed),
            Ok((read, _)) => return Ok(read),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Broken::of(errno)),
        }
    }
}

/// Reads from the socket through `buffer`, and decrypts.
fn take_records(socket: &OwnedFd, tls: &mut ClientConnection, buffer: &mut [u8]) -> Result<(), Broken> {
    let most = buffer.len().min(16 << 10);
    let mut records = match receive(socket, &mut buffer[..most]) {
        Ok(read) => &buffer[..read],
        Err(Broken::Closed) if !tls.is_handshaking() => {
            // An empty read tells TLS about the end; the caller above interprets it.
            let _ = tls.read_tls(&mut io::empty());
            let _ = tls.process_new_packets();
            return Ok(());
        }
        Err(broken) => return Err(broken),
    };
    while !records.is_empty() {
        tls.read_tls(&mut records).map_err(|_| Broken::Tls)?;
        if tls.process_new_packets().is_err() {
            // The alert tells the reason to the other side.
            let _ = send_records(socket, tls);
            return Err(Broken::Tls);
        }
    }
    Ok(())
}

fn send_records(socket: &OwnedFd, tls: &mut ClientConnection) -> Result<(), Broken> {
    while tls.wants_write() {
        match tls.write_tls(&mut Sender(socket)) {
            Ok(_) => {}
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::AGAIN) => return Ok(()),
                Some(errno) => return Err(Broken::of(errno)),
                None => return Err(Broken::Tls),
            },
        }
    }
    Ok(())
}

/// A socket as rustls wants it.
struct Sender<'a>(&'a OwnedFd);

impl Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
