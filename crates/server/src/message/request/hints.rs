//! Early hints (RFC 8297): what a client is told before its answer.

use std::fmt;
use std::rc::Weak;

/// A connection that may be told something before the answer.
pub trait TakesHints: fmt::Debug {
    /// Sends these lines, if the request of this number is still waiting for its answer. Never waits.
    fn hint(&self, number: u64, lines: &[u8]);
}

/// The way from a script back to the client that waits for it, past everything between them: the script may run for a
/// page of the cache, in a task that outlives the request.
#[derive(Clone, Debug)]
pub struct Hints {
    /// The connection; a script does not keep it open.
    to: Weak<dyn TakesHints>,
    /// Which of its requests waits.
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

    /// Sends whole lines of fields.
    pub fn send(&self, lines: &[u8]) {
        if let Some(to) = self.to.upgrade() {
            to.hint(self.number, lines);
        }
    }
}
