//! TLS 1.2 and 1.3 between a TCP socket and a protocol: handshakes, certificates, and a stream that reads and writes
//! plaintext. The protocol itself is rustls's.
//!
//! - [`stream`]: an encrypted connection. It owns no buffer while it is idle: records are deciphered where the thread has
//!   read them, and enciphered into a buffer of the thread;
//! - [`hello`]: on what terms a connection is, by the site that it asks for; and who speaks no TLS at all;
//! - [`certificates`]: files of certificates and keys, and which of them a client gets;
//! - [`staple`]: what authorities say of them (OCSP);
//! - [`issued`]: certificates that an authority has issued by ACME, and answers to its challenges;
//! - [`kernel`]: connections whose records the kernel makes, so that large files leave by sendfile;
//! - [`client`]: the other end, for asking an authority;
//! - [`clients`]: certificates of clients;
//! - [`error`]: why there is none of that;
//! - [`terms`]: what all connections of a configuration share.

mod certificates;
mod client;
mod clients;
mod error;
pub mod hello;
mod issued;
mod kernel;
mod staple;
mod stream;
mod terms;

pub use certificates::Pair;
pub use client::{Trust, system_certificates};
pub use error::TlsError;
pub use issued::{CHALLENGE_PROTOCOL, Issued};
pub use kernel::{Ability, ability};
pub use stream::TlsStream;
pub use terms::Terms;
