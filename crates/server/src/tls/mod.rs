//! TLS 1.2 and 1.3 between a TCP socket and a protocol: handshakes, certificates, and a stream that reads and writes
//! plaintext. rustls implements the protocol.
//!
//! - [`stream`]: an encrypted connection. It owns no buffer while it is idle: records are decrypted where the thread
//!   has read them, and encrypted into a buffer of the thread;
//! - [`hello`]: the terms of a connection, by the requested site; and clients without TLS;
//! - [`certificates`]: files of certificates and keys, and which of them a client gets;
//! - [`issued`]: certificates that an authority has issued by ACME, and responses to its challenges;
//! - [`kernel`]: connections with encryption by the kernel, so that large files are sent by sendfile;
//! - [`client`]: the other end, for requests to an authority; [`outgoing`]: the same for applications;
//! - [`clients`]: certificates of clients;
//! - [`inspect`]: what is wrong with files of certificates, for a configuration that is checked;
//! - [`error`]: the errors of all these;
//! - [`terms`]: what all connections of a configuration share.

mod certificates;
mod client;
mod clients;
mod error;
pub mod hello;
mod inspect;
mod issued;
mod kernel;
mod outgoing;
mod stream;
mod terms;

pub use certificates::Pair;
pub use client::{Trust, system_certificates};
pub use error::{TlsError, refusal};
pub use inspect::CertificateFiles;
pub use issued::{CHALLENGE_PROTOCOL, Issued};
pub use kernel::{Ability, ability};
pub use outgoing::OutgoingTls;
pub use stream::TlsStream;
pub use terms::Terms;
