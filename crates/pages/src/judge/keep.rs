//! Which fields of a response are stored with it, and which are for the server alone.

/// The stored parts of a response's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Lower-case names that this response excludes.
    pub(super) dropped: Vec<Box<str>>,
    /// Values of `Set-Cookie` fields that are stored with it: `LSC-Cookie`.
    pub cookies: Vec<Box<[u8]>>,
    /// Names that its `Vary` has besides the application's.
    pub vary: &'static [&'static str],
    /// The value of the stored `Date` field, if the application set one: a cache must not change it (RFC 9110 section
    /// 6.6.1). Without one, the server adds the time of sending.
    pub date: Option<Box<[u8]>>,
}

impl Keep {
    /// Whether a field is stored (RFC 9111 section 3.1). The caller must leave out what the server makes for each
    /// form of a page (`ETag`, `Content-Encoding`, `Content-Length`, `Vary`).
    pub fn keeps(&self, name: &str) -> bool {
        const NEVER: [&str; 15] = [
            "age",
            "cache-status",
            "connection",
            "content-length",
            "date",
            "keep-alive",
            "proxy-authenticate",
            "proxy-authentication-info",
            "proxy-authorization",
            "proxy-connection",
            "set-cookie",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
        ];
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        !is_ours(name) && !NEVER.iter().any(|known| is(known)) && !self.dropped.iter().any(|known| is(known))
    }
}

/// Whether a field of a response is for the server and hidden from clients: how to cache, tags, what to purge.
///
/// `CDN-Cache-Control`, `Cache-Groups` and `Cache-Group-Invalidation` stay: they are for caches in front of the
/// server as well. The LiteSpeed Cache plugin's crawler may see [`CRAWLER_SEES`].
pub fn is_ours(name: &str) -> bool {
    const OURS: [&str; 8] = [
        "cache-tag",
        "edge-cache-tag",
        "lsc-cookie",
        "surrogate-control",
        "surrogate-key",
        "x-accel-expires",
        "x-cache-tags",
        "xkey",
    ];
    let begins = |with: &str| name.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    match name.as_bytes().first().map(u8::to_ascii_lowercase) {
        Some(b'm') => begins("millrace-"),
        Some(b'x') if begins("x-litespeed-") => {
            // Fields that the server itself sends to the plugin, and the plugin's debugging field.
            !name.eq_ignore_ascii_case("x-litespeed-debug") && !name.eq_ignore_ascii_case("x-litespeed-cache")
        }
        Some(b'x' | b's' | b'l' | b'c' | b'e') => OURS.iter().any(|ours| ours.eq_ignore_ascii_case(name)),
        _ => false,
    }
}

/// The one field of [`is_ours`] that the LiteSpeed Cache plugin's crawler reads, to learn that a page is uncacheable.
/// It is sent only to the crawler on the same machine; the crawler's `User-Agent` begins with `lscache_`.
pub const CRAWLER_SEES: &str = "X-LiteSpeed-Cache-Control";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_for_us() {
        for ours in [
            "X-LiteSpeed-Tag",
            "x-litespeed-purge2",
            "X-LiteSpeed-Cache-Control",
            "X-LiteSpeed-Vary",
            "LSC-Cookie",
            "Millrace-Purge",
            "Surrogate-Control",
            "X-Accel-Expires",
            "xkey",
        ] {
            assert!(is_ours(ours) && !Keep::default().keeps(ours), "{ours}");
        }
        for other in [
            "X-LiteSpeed-Cache",
            "X-LiteSpeed-Debug",
            "CDN-Cache-Control",
            "Cache-Groups",
            "X-Cache",
            "",
            "m",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }

    #[test]
    fn fields_that_are_stored() {
        let keep = Keep { dropped: vec!["a".into()], ..Keep::default() };
        for yes in
            ["Content-Type", "Cache-Control", "Expires", "Link", "B", "Clear-Site-Data", "Content-Location"]
        {
            assert!(keep.keeps(yes), "{yes}");
        }
        for no in ["A", "Set-Cookie", "Connection", "TE", "Proxy-Authenticate", "Age", "Keep-Alive"] {
            assert!(!keep.keeps(no), "{no}");
        }
    }
}
