//! What a response says about the cache: `Cache-Status` (RFC 9211), and the fields that tools read.

use millrace_wire::decimal;

use crate::Millis;

/// Millrace's name in `Cache-Status`.
pub const NAME: &str = "millrace";

/// Why a request went to the application (RFC 9211 section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// The cache was bypassed.
    Bypass,
    /// The method can't be served from the cache.
    Method,
    /// No page was stored for the URL.
    UriMiss,
    /// No page was stored for this variant.
    VaryMiss,
    /// A page was stored, but it is stale.
    Stale,
    /// A page was stored, but the request asks for a new one.
    Request,
    /// The response is known to be uncacheable.
    Miss,
}

impl Forward {
    fn text(self) -> &'static str {
        match self {
            Forward::Bypass => "bypass",
            Forward::Method => "method",
            Forward::UriMiss => "uri-miss",
            Forward::VaryMiss => "vary-miss",
            Forward::Stale => "stale",
            Forward::Request => "request",
            Forward::Miss => "miss",
        }
    }
}

/// The cache status of one response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status<'a> {
    /// Why the application was asked; `None`: it is a hit.
    pub forward: Option<Forward>,
    /// The status of the application's response, if it differs from the sent one: 304.
    pub forward_status: Option<u16>,
    /// Remaining freshness in milliseconds; negative if it is stale.
    pub ttl: Option<i64>,
    /// The response was stored.
    pub stored: bool,
    /// It was the response to another request.
    pub collapsed: bool,
    /// A word of [`crate::Bypass`], [`crate::Refusal`], or of the server.
    pub detail: Option<&'a str>,
}

impl Status<'_> {
    /// A page from the cache.
    pub fn hit(ttl_left: i64) -> Status<'static> {
        Status { ttl: Some(ttl_left), ..Status::default() }
    }

    /// A response from the application.
    pub fn forwarded(why: Forward) -> Status<'static> {
        Status { forward: Some(why), ..Status::default() }
    }

    /// Appends the member of `Cache-Status`: `millrace; hit; ttl=30`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(NAME.as_bytes());
        match self.forward {
            None => out.extend_from_slice(b"; hit"),
            Some(why) => {
                out.extend_from_slice(b"; fwd=");
                out.extend_from_slice(why.text().as_bytes());
            }
        }
        if let Some(status) = self.forward_status {
            number(out, b"; fwd-status=", i64::from(status));
        }
        if let Some(ttl) = self.ttl {
            number(out, b"; ttl=", ttl.div_euclid(1000));
        }
        if self.stored {
            out.extend_from_slice(b"; stored");
        }
        if self.collapsed {
            out.extend_from_slice(b"; collapsed");
        }
        if let Some(detail) = self.detail {
            out.extend_from_slice(b"; detail=");
            write_detail(detail, out);
        }
    }

    /// The value of `X-LiteSpeed-Cache`. The LiteSpeed Cache plugin's crawler blacklists pages without this field; so
    /// it is `miss` for stored pages, and absent after a bypass.
    pub fn litespeed(&self) -> Option<&'static str> {
        match self.forward {
            None => Some("hit"),
            Some(Forward::Bypass | Forward::Method) => None,
            Some(_) => Some("miss"),
        }
    }

    /// The value of `X-Cache`, which WordPress's Site Health and many tools read.
    pub fn x_cache(&self) -> &'static str {
        match (self.forward, self.ttl) {
            // Only a previously stored page has a lifetime.
            (None, Some(..=0)) | (Some(Forward::Stale), Some(_)) => "STALE",
            (None, _) => "HIT",
            (Some(Forward::Bypass | Forward::Method), _) => "BYPASS",
            (Some(_), _) => "MISS",
        }
    }
}

/// The value of `Age` (RFC 9111 section 5.1) for a page of this age in milliseconds.
pub fn age(age: Millis, out: &mut Vec<u8>) {
    number(out, b"", (age / 1000).min(1 << 31) as i64);
}

fn number(out: &mut Vec<u8>, before: &[u8], value: i64) {
    out.extend_from_slice(before);
    if value < 0 {
        out.push(b'-');
    }
    decimal::push(value.unsigned_abs(), out);
}

/// As a token if possible, otherwise as a string (RFC 9651 section 3.3); other text is left out.
fn write_detail(detail: &str, out: &mut Vec<u8>) {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&b);
    if detail.starts_with(|c: char| c.is_ascii_alphabetic()) && detail.bytes().all(token) {
        return out.extend_from_slice(detail.as_bytes());
    }
    out.push(b'"');
    for byte in detail.bytes().filter(|b| (0x20..0x7f).contains(b)) {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::structured;
    use proptest::prelude::*;

    fn text(status: Status<'_>) -> String {
        let mut out = Vec::new();
        status.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn members_of_rfc_9211() {
        assert_eq!(text(Status::hit(30_999)), "millrace; hit; ttl=30");
        assert_eq!(text(Status::hit(-1)), "millrace; hit; ttl=-1");
        let miss = Status::forwarded(Forward::UriMiss);
        assert_eq!(text(Status { stored: true, ..miss }), "millrace; fwd=uri-miss; stored");
        let validated =
            Status { forward_status: Some(304), ttl: Some(60_000), ..Status::forwarded(Forward::Stale) };
        assert_eq!(text(validated), "millrace; fwd=stale; fwd-status=304; ttl=60");
        let bypass = Status { detail: Some("cookie"), ..Status::forwarded(Forward::Bypass) };
        assert_eq!(text(bypass), "millrace; fwd=bypass; detail=cookie");
        assert_eq!(text(Status { collapsed: true, ..miss }), "millrace; fwd=uri-miss; collapsed");
        assert_eq!(
            text(Status { detail: Some("a \"b\"\n"), ..miss }),
            r#"millrace; fwd=uri-miss; detail="a \"b\"""#
        );
    }

    #[test]
    fn what_tools_look_for() {
        let (hit, bypass) = (Status::hit(1), Status::forwarded(Forward::Bypass));
        assert_eq!((hit.litespeed(), hit.x_cache()), (Some("hit"), "HIT"));
        assert_eq!((bypass.litespeed(), bypass.x_cache()), (None, "BYPASS"));
        assert_eq!(Status::hit(0).x_cache(), "STALE");
        assert_eq!(Status::forwarded(Forward::UriMiss).litespeed(), Some("miss"));
        let mut out = Vec::new();
        age(5999, &mut out);
        assert_eq!(out, b"5");
    }

    proptest! {
        #[test]
        fn it_is_always_a_structured_list(detail in ".*", ttl in any::<i64>()) {
            // RFC 9651 allows fifteen digits.
            let ttl = ttl % 1_000_000_000_000;
            let status = Status { detail: Some(&detail), ttl: Some(ttl), ..Status::forwarded(Forward::Stale) };
            prop_assert_eq!(structured::list(text(status).as_bytes()).map(|list| list.len()), Some(1));
        }
    }
}
