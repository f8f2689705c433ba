//! What every protocol adds to an answer, and where an answer has no content.

use crate::message::reply::Reply;
use crate::message::request::{Request, Scheme};
use crate::protocol::ProtocolThread;

/// What all answers say of who sent them.
pub(super) const SERVER: &str = "Millrace";

/// Whether the content of an answer is sent.
pub(super) fn has_content(request: &Request, reply: &Reply) -> bool {
    !request.is_head() && allows_content(reply.status)
}

/// Whether answers of this status have content (RFC 9110 section 6.4.1).
pub(super) fn allows_content(status: u16) -> bool {
    !matches!(status, 100..=199 | 204 | 304)
}

/// The seconds of `Strict-Transport-Security` (RFC 6797 section 6.1), where it is to be said.
pub(super) fn transport_security(thread: &ProtocolThread, request: &Request) -> Option<u64> {
    if request.ends.scheme != Scheme::Https {
        return None;
    }
    Some(thread.setup().plan.https.hsts.as_secs()).filter(|age| *age > 0)
}
