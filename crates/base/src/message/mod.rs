//! HTTP messages as values (RFC 9110 section 6): requests and responses, independent of the version of the protocol.

pub mod reply;
pub mod request;
mod step;

pub use reply::Reply;
pub use request::Request;
pub use step::Step;

/// The host of an authority: without port, and without the dot of a fully qualified name.
pub fn host_of(authority: &str) -> &str {
    let host = match authority.rfind(':') {
        // In `[::1]` the last colon belongs to the address.
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        _ => authority,
    };
    host.strip_suffix('.').unwrap_or(host)
}
