//! What the rules of a site say to a request before its path is looked up.
//!
//! Each rule answers the request or lets it pass to the next one. Today: certificates of clients, and early data. Rules that a site
//! writes itself - redirects, access, limits, proxying - belong here, behind these two.

use crate::message::Request;
use crate::message::reply::{Reply, plain};
use crate::route;
use crate::site::Site;

/// A rule: its answer, or `None` if the request passes.
type Rule = fn(&Site, &Request) -> Option<Reply>;

/// All rules, in their order.
const RULES: [Rule; 2] = [client_certificate, early_data];

/// The answer of the first rule that has one; `None`: the request goes on its way.
pub fn answer(site: &Site, request: &Request) -> Option<Reply> {
    RULES.iter().find_map(|rule| rule(site, request))
}

fn client_certificate(site: &Site, request: &Request) -> Option<Reply> {
    route::stranger(site, request).map(plain)
}

/// A copy of an unsafe request that came as early data would do the same once more (RFC 8470 section 5.2).
fn early_data(_: &Site, request: &Request) -> Option<Reply> {
    let is_safe = matches!(request.head.method(), "GET" | "HEAD");
    (request.is_early() && !is_safe).then(|| plain(425))
}
