//! Early hints (RFC 8297): fields that a client gets before its response.

use std::fmt;
use std::rc::Weak;

/// A connection that can send early hints.
pub trait TakesHints: fmt::Debug {
    /// Sends these lines, if the request with this number still waits for its response. Never waits.
    fn hint(&self, number: u64, lines: &[u8]);
}

/// Sends hints from a script to the waiting client, past everything between them: the script may run for a cached
/// page, in a task that outlives the request.
#[derive(Clone, Debug)]
pub struct Hints {
    /// The connection; a script does not keep it open.
    to: Weak<dyn TakesHints>,
    /// The number of the waiting request.
    number: u64,
}

impl Hints {
    /// For the request `number` of the connection `to`.
    pub fn new(to: Weak<dyn TakesHints>, number: u64) -> Hints {
        Hints { to, number }
    }

    /// The number of the request.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Sends complete lines of fields.
    pub fn send(&self, lines: &[u8]) {
        if let Some(to) = self.to.upgrade() {
            to.hint(self.number, lines);
        }
    }
}
