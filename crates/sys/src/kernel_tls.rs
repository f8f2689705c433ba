//! TLS records encrypted and decrypted by the kernel (the upper layer protocol `tls` of TCP sockets; Linux's
//! Documentation/networking/tls.rst). The caller does the handshake and passes the keys to the kernel.
//!
//! The order is: [`attach`], then [`set_keys`] for [`Direction::Receive`] and [`Direction::Send`]. From then on
//! writes to the socket, including sendfile, are plaintext sent as records of application data; [`send_record`] sends
//! other types of records, and [`receive_record`] reads all types.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use zeroize::Zeroizing;

use crate::option;

/// Maximum size of an option's value, bytes: `struct tls12_crypto_info_aes_gcm_256`.
const MOST_BYTES: usize = 56;

/// States of TCP in which something can be sent (`net/tcp_states.h` of Linux).
const ESTABLISHED: u8 = 1;
const CLOSE_WAIT: u8 = 8;

/// Room for a control message of one byte, aligned as the kernel wants it.
type Control = [u64; 4];

/// A version of TLS that the kernel knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// TLS 1.2 (RFC 5246)
    Tls12,
    /// TLS 1.3 (RFC 8446)
    Tls13,
}

/// A cipher that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES-GCM with a key of 16 bytes
    Aes128Gcm,
    /// AES-GCM with a key of 32 bytes
    Aes256Gcm,
    /// ChaCha20-Poly1305
    Chacha20Poly1305,
}

/// The direction of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Sent data.
    Send,
    /// Received data.
    Receive,
}

/// Keys of one direction, and where it stands.
pub struct Keys<'a> {
    /// The negotiated version.
    pub version: Version,
    /// With it.
    pub cipher: Cipher,
    /// As long as the cipher wants it.
    pub key: &'a [u8],
    /// For AES-GCM in TLS 1.2: the implicit part of the nonce, then the explicit part of the next record sent; the
    /// kernel adds 1 for each record (RFC 5288 section 3). Otherwise the value that is combined with the record's
    /// number by XOR (RFC 8446 section 5.3).
    pub iv: [u8; 12],
    /// The number of the next record.
    pub sequence: u64,
}

/// A record, or a part of one, that has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its type (RFC 8446 section 5.1); `None`: the other side has closed the connection.
    pub kind: Option<u8>,
    /// Bytes of plaintext.
    pub length: usize,
}

/// Data given to a TCP socket for sending, in bytes of its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Acknowledged by the other side since the connection began.
    pub acknowledged: u64,
    /// Not acknowledged yet.
    pub queued: u64,
    /// Neither side has ended that direction.
    pub goes_on: bool,
}

/// Gives a connected TCP socket the layer; until it has keys nothing is different.
///
/// # Errors
/// The kernel has no TLS (ENOENT), or the socket is not connected any more (ENOTCONN).
pub fn attach(socket: impl AsFd) -> io::Result<()> {
    option::set(socket, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")
}

/// Gives the layer the keys of a direction.
///
/// # Errors
/// The kernel does not know version or cipher (EINVAL, ENOENT), the key has not the right length (EINVAL), or the direction has keys
/// that this kernel can't change (EBUSY).
pub fn set_keys(socket: impl AsFd, direction: Direction, keys: &Keys<'_>) -> io::Result<()> {
    let (bytes, length) = as_written(keys)?;
    option::set(socket, libc::SOL_TLS, name(direction), &bytes[..length])
}

/// The number of the next record that the kernel will send.
///
/// # Errors
/// The direction has no keys, or the kernel does not report it for this cipher (before Linux 5.16).
pub fn next_record(socket: impl AsFd, cipher: Cipher) -> io::Result<u64> {
    let mut bytes = Zeroizing::new([0u8; MOST_BYTES]);
    let length = layout(cipher).length();
    option::get(socket, libc::SOL_TLS, name(Direction::Send), &mut bytes[..length])?;
    let mut sequence = [0; 8];
    sequence.copy_from_slice(&bytes[length - 8..length]);
    Ok(u64::from_be_bytes(sequence))
}

/// Sends a record of another type than application data, after earlier written data; all of it or nothing.
///
/// # Errors
/// As send(2).
pub fn send_record(socket: impl AsFd, kind: u8, content: &[u8]) -> io::Result<()> {
    let mut control = Control::default();
    let mut piece = libc::iovec { iov_base: content.as_ptr().cast_mut().cast(), iov_len: content.len() };
    let mut message = message(&mut piece, &mut control);
    // SAFETY: CMSG_SPACE only computes. CMSG_FIRSTHDR returns the start of `control`, which is aligned for a header
    // and has room for one with its byte; only these are written. The kernel only reads what `piece` points to.
    let sent = unsafe {
        message.msg_controllen = libc::CMSG_SPACE(1) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_TLS;
        (*header).cmsg_type = libc::TLS_SET_RECORD_TYPE;
        (*header).cmsg_len = libc::CMSG_LEN(1) as usize;
        *libc::CMSG_DATA(header) = kind;
        libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    match sent {
        0.. if sent as usize == content.len() => Ok(()),
        0.. => Err(io::ErrorKind::WriteZero.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads from one record, or from several of application data.
///
/// # Errors
/// As recv(2); EBADMSG: the record has been tampered with.
pub fn receive_record(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Record> {
    let mut control = Control::default();
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut message = message(&mut piece, &mut control);
    // SAFETY: the kernel writes no more into `buffer` and `control` than the lengths in `message`, and both outlive
    // the call.
    let read = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, 0) };
    if read < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has set msg_controllen to the length it has written; a complete header is followed by its
    // byte.
    let kind = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let is_ours = !header.is_null()
            && (*header).cmsg_level == libc::SOL_TLS
            && (*header).cmsg_type == libc::TLS_GET_RECORD_TYPE;
        is_ours.then(|| *libc::CMSG_DATA(header))
    };
    Ok(Record { kind, length: read as usize })
}

/// How much data a TCP socket has been given for sending. Never too high: data acknowledged during the call may be
/// missing.
///
/// # Errors
/// It is not a TCP socket.
pub fn sent(socket: impl AsFd) -> io::Result<Sent> {
    let info = option::tcp_info(&socket)?;
    let queued = option::unread(&socket)?;
    let goes_on = matches!(info.tcpi_state, ESTABLISHED | CLOSE_WAIT);
    Ok(Sent { acknowledged: info.tcpi_bytes_acked, queued, goes_on })
}

fn name(direction: Direction) -> libc::c_int {
    match direction {
        Direction::Send => libc::TLS_TX,
        Direction::Receive => libc::TLS_RX,
    }
}

/// A message of one piece with room for a control message; it must not outlive the two.
fn message(piece: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: `msghdr` is made of integers and pointers: all zeros are an empty one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>();
    message
}

/// The fields of the kernel's structures after version and cipher (two bytes each), in bytes: `iv`, `key`, `salt`,
/// `rec_seq`.
struct Layout {
    number: u16,
    iv: usize,
    key: usize,
    salt: usize,
}

impl Layout {
    fn length(&self) -> usize {
        4 + self.iv + self.key + self.salt + 8
    }
}

fn layout(cipher: Cipher) -> Layout {
    match cipher {
        Cipher::Aes128Gcm => Layout { number: libc::TLS_CIPHER_AES_GCM_128, iv: 8, key: 16, salt: 4 },
        Cipher::Aes256Gcm => Layout { number: libc::TLS_CIPHER_AES_GCM_256, iv: 8, key: 32, salt: 4 },
        Cipher::Chacha20Poly1305 => {
            Layout { number: libc::TLS_CIPHER_CHACHA20_POLY1305, iv: 12, key: 32, salt: 0 }
        }
    }
}

/// Keys as the kernel takes them, and how many bytes that are.
fn as_written(keys: &Keys<'_>) -> io::Result<(Zeroizing<[u8; MOST_BYTES]>, usize)> {
    let layout = layout(keys.cipher);
    if keys.key.len() != layout.key {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let version = match keys.version {
        Version::Tls12 => libc::TLS_1_2_VERSION,
        Version::Tls13 => libc::TLS_1_3_VERSION,
    };
    let (salt, iv) = keys.iv.split_at(layout.salt);
    let mut bytes = Zeroizing::new([0; MOST_BYTES]);
    let mut at = 0;
    let sequence = keys.sequence.to_be_bytes();
    for part in [&version.to_ne_bytes()[..], &layout.number.to_ne_bytes(), iv, keys.key, salt, &sequence] {
        bytes[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    Ok((bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn keys_are_written_as_the_kernel_has_them() {
        let iv = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let of = |cipher, key| Keys { version: Version::Tls13, cipher, key, iv, sequence: 0x0102 };
        let (bytes, length) = as_written(&of(Cipher::Aes128Gcm, &[7; 16])).unwrap();
        assert_eq!(length, size_of::<libc::tls12_crypto_info_aes_gcm_128>());
        assert_eq!(bytes[4..12], [5, 6, 7, 8, 9, 10, 11, 12], "iv");
        assert_eq!(bytes[12..28], [7; 16], "key");
        assert_eq!(bytes[28..40], [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 1, 2], "salt and sequence");
        let (_, length) = as_written(&of(Cipher::Aes256Gcm, &[7; 32])).unwrap();
        assert_eq!(length, size_of::<libc::tls12_crypto_info_aes_gcm_256>());
        let (bytes, length) = as_written(&of(Cipher::Chacha20Poly1305, &[7; 32])).unwrap();
        assert_eq!((length, &bytes[4..16]), (56, &iv[..]));
        assert!(as_written(&of(Cipher::Aes256Gcm, &[7; 16])).is_err());
    }

    #[test]
    fn what_was_written_is_queued_or_acknowledged() {
        let (mut near, mut far) = pair();
        let before = sent(&near).unwrap();
        near.write_all(&[0; 1000]).unwrap();
        let all = |now: Sent| now.acknowledged + now.queued - before.acknowledged - before.queued;
        assert!(all(sent(&near).unwrap()) <= 1000);
        while sent(&near).unwrap().queued > 0 {
            std::thread::yield_now();
        }
        assert_eq!(all(sent(&near).unwrap()), 1000);
        assert!(sent(&near).unwrap().goes_on);
        // Closed with something unread it would be reset.
        far.read_exact(&mut [0; 1000]).unwrap();
        drop(far);
        near.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(!sent(&near).unwrap().goes_on);
        assert!(sent(std::fs::File::open("/dev/null").unwrap()).is_err());
    }

    #[test]
    fn sockets_without_the_layer_refuse_keys_and_records_are_plain_bytes() {
        let (near, mut far) = pair();
        let keys = Keys {
            version: Version::Tls13,
            cipher: Cipher::Aes128Gcm,
            key: &[0; 16],
            iv: [0; 12],
            sequence: 0,
        };
        assert!(set_keys(&near, Direction::Send, &keys).is_err());
        assert!(next_record(&near, Cipher::Aes128Gcm).is_err());
        far.write_all(b"abc").unwrap();
        assert_eq!(receive_record(&near, &mut [0; 8]).unwrap(), Record { kind: None, length: 3 });
    }
}
