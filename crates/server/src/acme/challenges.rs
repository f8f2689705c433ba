//! The proofs that a name leads to this server: a token at port 80 (RFC 8555 section 8.3), a certificate at port 443
//! (RFC 8737).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::tls::{Issued, Pair, TlsError};

/// The path that a certificate authority requests.
const FOLDER: &[u8] = b"/.well-known/acme-challenge/";

/// Tokens of the orders in progress, with the response to each.
#[derive(Debug, Default)]
pub struct Challenges {
    tokens: Mutex<HashMap<String, String>>,
}

impl Challenges {
    /// See [`super::Acme::answer`]. Files below the folder that are not our tokens belong to the site: other programs
    /// may order certificates, too.
    pub fn answer(&self, method: &str, path: &[u8]) -> Option<String> {
        let token = std::str::from_utf8(path.strip_prefix(FOLDER)?).ok()?;
        self.locked().get(token).filter(|_| matches!(method, "GET" | "HEAD")).cloned()
    }

    pub(super) fn locked(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The responses of one order; removed when the order ends.
pub struct ChallengeAnswers {
    challenges: Arc<Challenges>,
    issued: Arc<Issued>,
    tokens: Vec<String>,
    names: Vec<String>,
}

impl ChallengeAnswers {
    /// No challenges.
    pub fn new(challenges: Arc<Challenges>, issued: Arc<Issued>) -> ChallengeAnswers {
        ChallengeAnswers { challenges, issued, tokens: Vec::new(), names: Vec::new() }
    }

    /// Responds to HTTP requests for `token` with `text`.
    pub fn by_http(&mut self, token: &str, text: &str) {
        self.challenges.locked().insert(token.to_owned(), text.to_owned());
        self.tokens.push(token.to_owned());
    }

    /// Responds to TLS handshakes for `name` with the challenge's protocol with a certificate for `digest`.
    ///
    /// # Errors
    /// The name is invalid in a certificate.
    pub fn by_tls(&mut self, name: &str, digest: &[u8]) -> Result<(), TlsError> {
        self.issued.begin_challenge(name, &Pair::for_challenge(name, digest)?);
        self.names.push(name.to_owned());
        Ok(())
    }
}

impl Drop for ChallengeAnswers {
    fn drop(&mut self) {
        let mut tokens = self.challenges.locked();
        for token in &self.tokens {
            tokens.remove(token);
        }
        for name in &self.names {
            self.issued.end_challenge(name);
        }
    }
}
