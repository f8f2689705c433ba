//! The rules of a site for a request, before its path is looked up.
//!
//! Each rule responds to the request or passes it to the next one. Today: client certificates, and early data. Rules
//! from a site's configuration - redirects, access, limits, proxying - belong here, after these two.

use crate::message::Request;
use crate::message::reply::{Reply, plain};
use crate::route;
use crate::site::Site;

/// A rule: its response, or `None` if the request passes.
type Rule = fn(&Site, &Request) -> Option<Reply>;

/// All rules, in their order.
const RULES: [Rule; 2] = [client_certificate, early_data];

/// The response of the first rule that has one; `None`: the request passes all rules.
pub fn answer(site: &Site, request: &Request) -> Option<Reply> {
    RULES.iter().find_map(|rule| rule(site, request))
}

fn client_certificate(site: &Site, request: &Request) -> Option<Reply> {
    route::stranger(site, request).map(plain)
}

/// A replay of an unsafe request in early data would repeat its effect (RFC 8470 section 5.2).
fn early_data(_: &Site, request: &Request) -> Option<Reply> {
    let is_safe = matches!(request.head.method(), "GET" | "HEAD");
    (request.is_early() && !is_safe).then(|| plain(425))
}
