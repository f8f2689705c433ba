//! Messages of HTTP as values (RFC 9110 section 6): what a client asks, and what it gets. Neither knows by which version of the
//! protocol it travels.

pub mod reply;
pub mod request;

pub use reply::Reply;
pub use request::Request;

/// The host of an authority: without port, without the dot of a fully qualified name.
pub fn host_of(authority: &str) -> &str {
    let host = match authority.rfind(':') {
        // In `[::1]` the last colon is the address's own.
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        _ => authority,
    };
    host.strip_suffix('.').unwrap_or(host)
}
