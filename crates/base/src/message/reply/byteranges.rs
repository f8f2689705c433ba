//! `multipart/byteranges`: several parts of one representation (RFC 9110 section 14.6).

use std::hash::{BuildHasher, RandomState};

use millrace_wire::ranges::ByteSpan;

use super::Body;

/// Content-Type and content of a response with `spans` of a representation of this type and `length`; `cut` returns a
/// part.
pub fn byteranges(
    media_type: &[u8],
    length: u64,
    spans: &[ByteSpan],
    cut: impl Fn(ByteSpan) -> Body,
) -> (String, Body) {
    // The boundary must not occur in the content: it is random, so no author can have known it.
    let boundary = format!("{:016x}", RandomState::new().hash_one(length));
    let mut parts = Vec::with_capacity(2 * spans.len() + 1);
    for (index, span) in spans.iter().enumerate() {
        let mut head = if index == 0 { Vec::new() } else { b"\r\n".to_vec() };
        head.extend_from_slice(format!("--{boundary}\r\nContent-Type: ").as_bytes());
        head.extend_from_slice(media_type);
        let range = span.content_range(length);
        head.extend_from_slice(format!("\r\nContent-Range: {range}\r\n\r\n").as_bytes());
        parts.push(Body::Bytes(head));
        parts.push(cut(*span));
    }
    parts.push(Body::Bytes(format!("\r\n--{boundary}--\r\n").into()));
    (format!("multipart/byteranges; boundary={boundary}"), Body::Parts(parts))
}
