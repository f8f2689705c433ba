//! What the shield has to know of a request. It is read before the cache makes the request anonymous.

use std::net::IpAddr;

use millrace_shield::{Class, Target};

use super::attend::CrawlerList;
use super::names::HostNames;
use crate::context::Context;
use crate::message::Request;
use crate::message::request::Content;
use crate::site::Site;

/// A longer form is not searched, bytes.
const FORM_BYTES: usize = 64 << 10;

/// A request that needs PHP, as the shield sees it.
#[derive(Clone, Copy, Debug)]
pub struct ShieldRequest {
    /// Its client.
    pub(super) address: IpAddr,
    /// Which limit it falls under.
    pub(super) class: Class,
    /// Who sends it.
    pub(super) standpoint: Standpoint,
    /// It says that it comes from others, by way of its address, which is no trusted proxy: perhaps a CDN that the configuration does
    /// not name. A program can say so, too.
    pub(super) is_relayed: bool,
}

/// Who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standpoint {
    /// Nothing is known.
    Stranger,
    /// It comes from a link or form of the site itself, as it says.
    FromHere,
    /// PHP has found that it is logged in, or has a cart.
    Proven,
    /// A crawler with an address or a host name that its operator publishes.
    Crawler,
    /// It says that it is a crawler, and is not.
    FalseCrawler,
}

impl ShieldRequest {
    /// What is known of a request.
    pub(super) fn of(
        context: &Context,
        site: &Site,
        request: &Request,
        address: IpAddr,
        (crawlers, names): (&[CrawlerList], &HostNames),
    ) -> ShieldRequest {
        let form = match &request.content {
            Content::Memory(content) if content.len() <= FORM_BYTES => content.as_slice(),
            _ => b"",
        };
        let target = Target {
            method: request.head.method(),
            path: request.raw_path(),
            query: request.query().unwrap_or_default(),
            form,
        };
        let standpoint = if site.visitors.is_proven(context, request) {
            Standpoint::Proven
        } else if let Some(is_true) = claims_to_crawl(context, request, address, (crawlers, names)) {
            if is_true { Standpoint::Crawler } else { Standpoint::FalseCrawler }
        } else if comes_from_here(request) {
            Standpoint::FromHere
        } else {
            Standpoint::Stranger
        };
        ShieldRequest { address, class: Class::of(&target), standpoint, is_relayed: is_relayed(request) }
    }
}

/// Whether a proxy that is not trusted seems to have sent a request.
fn is_relayed(request: &Request) -> bool {
    const FIELDS: [&str; 4] = ["x-forwarded-for", "forwarded", "cf-connecting-ip", "true-client-ip"];
    !request.is_forwarded && FIELDS.into_iter().any(|name| request.head.field(name).is_some())
}

/// Whether a client that says it is a crawler is it; `None`: it says nothing of the kind, or of no crawler that is known, or DNS has not
/// answered yet.
fn claims_to_crawl(
    context: &Context,
    request: &Request,
    address: IpAddr,
    (crawlers, names): (&[CrawlerList], &HostNames),
) -> Option<bool> {
    if crawlers.is_empty() {
        return None;
    }
    let agent = request.head.field("user-agent")?.to_ascii_lowercase();
    let named: Vec<_> = crawlers.iter().filter(|crawler| crawler.is_named_in(&agent)).collect();
    if named.is_empty() || named.iter().any(|crawler| crawler.has(address)) {
        return (!named.is_empty()).then_some(true);
    }
    let domains =
        named.into_iter().map(|crawler| crawler.domains.as_slice()).find(|domains| !domains.is_empty());
    domains.map_or(Some(false), |domains| names.ask(address, context.clock.now()).is_below(domains))
}

/// Whether a browser says that a link, form or script of the site itself sends the request: by `Sec-Fetch-Site` (Fetch Metadata),
/// or because `Referer` or `Origin` names the requested host. A program can say so, too: it proves nothing, and only sorts those out
/// that don't even try.
fn comes_from_here(request: &Request) -> bool {
    if request.head.field("sec-fetch-site") == Some(b"same-origin") {
        return true;
    }
    let own = request.authority().as_bytes();
    ["referer", "origin"].into_iter().filter_map(|name| request.head.field(name)).any(|url| {
        let rest = url.strip_prefix(b"https://").or_else(|| url.strip_prefix(b"http://"));
        let host = rest.map(|rest| rest.split(|byte| *byte == b'/').next().unwrap_or_default());
        host.is_some_and(|host| !host.is_empty() && host.eq_ignore_ascii_case(own))
    })
}

#[cfg(test)]
mod tests {
    use millrace_wire::head::{Head, Limits};

    use super::*;
    use crate::message::request::{Ends, Scheme};

    #[test]
    fn links_of_the_site_itself() {
        let is = |field: &str| {
            let mut head = Head::default();
            let text = format!("GET / HTTP/1.1\r\nHost: shop.test:81\r\n{field}\r\n\r\n");
            head.parse(text.as_bytes(), &Limits { bytes: 4096, fields: 50, target: 100 }).unwrap().unwrap();
            let ends = Ends { client: None, local: None, scheme: Scheme::Http, tls: None };
            comes_from_here(&Request::direct(head, ends))
        };
        for field in [
            "Referer: http://shop.test:81/a",
            "Origin: https://SHOP.test:81",
            "Referer: https://shop.test:81",
            "Sec-Fetch-Site: same-origin",
        ] {
            assert!(is(field), "{field}");
        }
        for field in [
            "Referer: http://shop.test:81.evil/",
            "Referer: shop.test:81",
            "Referer: http://other/",
            "X: 1",
            "Origin: null",
        ] {
            assert!(!is(field), "{field}");
        }
    }
}
