//! A request as an evaluation sees it.

use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;

use millrace_htaccess::Request as View;
use millrace_htaccess::request::{RequestFields, Watched};
use millrace_wire::head::{Framing, Version};

use crate::context::Context;
use crate::message::host_of;
use crate::message::request::{Request, Scheme};
use crate::site::Site;

/// Calls `use_it` with the view of a request for `path` and `query`.
pub fn with<T>(
    context: &Context,
    site: &Site,
    request: &Request,
    path: &[u8],
    query: Option<&[u8]>,
    use_it: impl FnOnce(&View<'_>) -> T,
) -> T {
    let (head, ends) = (&request.head, &request.ends);
    let canonical = |ip: IpAddr| ip.to_canonical();
    let root = site.plan.root.as_os_str().as_bytes();
    let plan = context.plan();
    let usual_port = if ends.scheme == Scheme::Https { 443 } else { 80 };
    let authority = request.authority();
    let view = View {
        method: head.method(),
        path,
        query: query.filter(|query| !query.is_empty()),
        target: head.path_query(),
        protocol: match head.version() {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
        },
        authority,
        server_name: site.name().filter(|name| !name.starts_with('*')).unwrap_or_else(|| host_of(authority)),
        https: ends.scheme == Scheme::Https,
        remote: Watched::new(ends.client_ip()),
        remote_port: Watched::new(ends.client.map_or(0, |client| client.port())),
        local: ends.local.map(|local| canonical(local.ip())),
        port: ends.local.map_or(usual_port, |local| local.port()),
        fields: RequestFields::new(head.fields().collect()),
        content_length: Watched::new(match head.framing() {
            Framing::Length(length) => Some(length),
            Framing::None | Framing::Chunked => None,
        }),
        now: Watched::new(context.clock.unix_time().as_secs()),
        root: root.strip_suffix(b"/").unwrap_or(root),
        software: concat!("Millrace/", env!("CARGO_PKG_VERSION")),
        index: &plan.files.index,
    };
    use_it(&view)
}
