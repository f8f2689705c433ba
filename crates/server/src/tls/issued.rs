//! Certificates that an authority has issued by ACME, and the responses to its challenges at this port (RFC 8737).
//! They outlive a reload.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;

use super::certificates::Pair;

/// The protocol that an authority offers when it validates a challenge (RFC 8737 section 4).
pub const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

/// Issued certificates, and the challenges before their issue.
#[derive(Debug, Default)]
pub struct Issued {
    /// By the ID under which they are stored.
    pairs: Mutex<Vec<(String, Pair)>>,
    /// By host name.
    challenges: Mutex<HashMap<String, Arc<CertifiedKey>>>,
}

impl Issued {
    /// Adds a certificate. [`super::Terms::refresh`] puts it in force.
    pub fn add(&self, id: &str, pair: Pair) {
        locked(&self.pairs).push((id.to_owned(), pair));
    }

    /// Replaces all certificates. The first may become the one for clients without SNI.
    pub fn replace(&self, pairs: Vec<(String, Pair)>) {
        *locked(&self.pairs) = pairs;
    }

    /// Whether there is one with this ID.
    pub fn has(&self, id: &str) -> bool {
        locked(&self.pairs).iter().any(|(known, _)| known == id)
    }

    /// Responds to TLS handshakes for `name` with the challenge's protocol with this certificate.
    pub fn begin_challenge(&self, name: &str, pair: &Pair) {
        locked(&self.challenges).insert(name.to_owned(), pair.key().clone());
    }

    /// Removes the challenge's certificate.
    pub fn end_challenge(&self, name: &str) {
        locked(&self.challenges).remove(name);
    }

    pub(super) fn pairs(&self) -> Vec<Pair> {
        locked(&self.pairs).iter().map(|(_, pair)| pair.clone()).collect()
    }

    pub(super) fn answer(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        locked(&self.challenges).get(&name.to_ascii_lowercase()).cloned()
    }
}

/// Whether the client is an authority that validates a challenge: it offers only this protocol.
pub fn is_challenge(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|mut offered| {
        offered.next().is_some_and(|first| first == CHALLENGE_PROTOCOL) && offered.next().is_none()
    })
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}
