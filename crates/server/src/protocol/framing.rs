//! What every protocol adds to a response, and which responses have no content.

use crate::protocol::ProtocolThread;
use millrace_base::message::reply::Reply;
use millrace_base::message::request::{Request, Scheme};

/// The value of the field `Server`.
pub(super) const SERVER: &str = "Millrace";

/// Whether the content of a response is sent.
pub(super) fn has_content(request: &Request, reply: &Reply) -> bool {
    !request.is_head() && allows_content(reply.status)
}

/// Whether responses with this status have content (RFC 9110 section 6.4.1).
pub(super) fn allows_content(status: u16) -> bool {
    !matches!(status, 100..=199 | 204 | 304)
}

/// The seconds of `Strict-Transport-Security` (RFC 6797 section 6.1), if the response must have it.
pub(super) fn transport_security(thread: &ProtocolThread, request: &Request) -> Option<u64> {
    if request.ends.scheme != Scheme::Https {
        return None;
    }
    Some(thread.serve.setup().plan.https.hsts.as_secs()).filter(|age| *age > 0)
}
