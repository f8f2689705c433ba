//! Which requests go to an application, and the target that it gets.
//!
//! Paths are compared in their normalised form: decoded, without `.`, `..` and empty segments. The application gets
//! the path as its client sent it, because `%2F` and `/` may differ there - unless normalising removed segments: then
//! it gets the normalised path, so that both see the same one, and none is outside of `proxy.path`.

use millrace_settings::plan::{AppUrl, Proxy};
use millrace_wire::percent;

use millrace_base::message::Request;

/// The position of the proxy for `path`, which is normalised: an exact path, else the longest prefix.
pub fn find(proxies: &[Proxy], path: &[u8]) -> Option<usize> {
    let rank = |proxy: &Proxy| {
        let own = proxy.path.as_bytes();
        if own == path {
            return Some(usize::MAX);
        }
        (own.ends_with(b"/") && path.starts_with(own)).then_some(own.len())
    };
    let found = proxies.iter().enumerate().filter_map(|(at, proxy)| Some((rank(proxy)?, at)));
    found.max_by_key(|(rank, _)| *rank).map(|(_, at)| at)
}

/// Appends the target for the application at `url`; `path` is the request's normalised path.
pub fn write(proxy: &Proxy, url: &AppUrl, request: &Request, path: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(url.base.as_bytes());
    let own = proxy.path.as_bytes();
    // The slash at the end of the prefix begins the rest.
    let from = if proxy.strip && own.ends_with(b"/") { own.len() - 1 } else { 0 };
    let raw = request.raw_path();
    // The parser has checked that each % begins three bytes. Less than that, and segments were removed.
    let decoded = raw.len() - 2 * memchr::memchr_iter(b'%', raw).count();
    if decoded == path.len() && raw.starts_with(own) {
        out.extend_from_slice(&raw[from..]);
    } else {
        escape(&path[from..], out);
    }
    if let Some(query) = request.query() {
        out.push(b'?');
        out.extend_from_slice(query);
    }
}

/// Percent-encodes what a path can't contain (RFC 3986 section 3.3).
pub fn escape(path: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(percent::encode(path, b"-._~!$&'()*+,;=:@/").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::head::tests::{proxy, request};
    use millrace_wire::path::normalise;

    #[test]
    fn the_most_specific_path_wins() {
        let paths = ["/", "/api/", "/api/v2/", "/api/v2", "/feed"];
        let proxies: Vec<Proxy> = paths.iter().map(|path| proxy(&format!("path = \"{path}\""))).collect();
        let at = |path: &str| find(&proxies, path.as_bytes()).map(|at| paths[at]);
        assert_eq!((at("/x"), at("/api"), at("/api/")), (Some("/"), Some("/"), Some("/api/")));
        assert_eq!(
            (at("/api/v2"), at("/api/v2/x"), at("/api/v2x")),
            (Some("/api/v2"), Some("/api/v2/"), Some("/api/"))
        );
        assert_eq!((at("/feed"), at("/feed/")), (Some("/feed"), Some("/")));
        assert_eq!(find(&proxies[1..], b"/apis"), None);
    }

    #[test]
    fn the_path_stays_unless_segments_were_removed() {
        let target = |lines: &str, sent: &str| {
            let (proxy, request) = (proxy(lines), request(&format!("GET {sent} HTTP/1.1\nHost: a")));
            let (mut path, mut out) = (Vec::new(), Vec::new());
            normalise(request.raw_path(), &mut path).unwrap();
            assert_eq!(find(std::slice::from_ref(&proxy), &path), Some(0), "{sent}");
            write(&proxy, &proxy.to[0], &request, &path, &mut out);
            String::from_utf8(out).unwrap()
        };
        let keep = "path = \"/api/\"";
        assert_eq!(target(keep, "/api/a%2Fb%20c?x=/../y"), "/api/a%2Fb%20c?x=/../y");
        assert_eq!(target(keep, "/x/../api//a%20%3Fb"), "/api/a%20%3Fb");
        assert_eq!(target(keep, "/%61pi/%2e%2e/api/?"), "/api/?");
        assert_eq!(target(keep, "/%61pi/x"), "/api/x");
        let strip = "path = \"/api/\"\nstrip = true";
        assert_eq!((target(strip, "/api/").as_str(), target(strip, "/api/a%2f").as_str()), ("/", "/a%2f"));
        let base = "path = \"/api/\"\nstrip = true\nto = \"http://a/base/\"";
        assert_eq!(target(base, "/api/x?"), "/base/x?");
        assert_eq!(target("path = \"/feed\"\nto = \"http://a/base\"", "/feed?q"), "/base/feed?q");
    }
}
