//! TLS 1.2 and 1.3 between a TCP socket and a protocol: handshakes, certificates, and a stream that reads and writes
//! plaintext. The protocol itself is rustls's.
//!
//! - [`stream`]: an encrypted connection. It owns no buffer while it is idle: records are deciphered where the thread has
//!   read them, and enciphered into a buffer of the thread;
//! - [`handshake`]: how a connection becomes one;
//! - [`certificates`]: files of certificates and keys, and which of them a client gets;
//! - [`issued`]: certificates that an authority has issued by ACME, and answers to its challenges;
//! - [`client`]: the other end, for asking an authority;
//! - [`terms`]: what all connections of a configuration share.

mod certificates;
mod client;
mod handshake;
mod issued;
mod stream;
mod terms;

pub use certificates::Pair;
pub use client::Trust;
pub use handshake::{Handshakes, begin};
pub use issued::Issued;
pub use stream::TlsStream;
pub use terms::Terms;
