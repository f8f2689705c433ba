//! A request as an evaluation sees it.

use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;

use millrace_htaccess::Request as View;
use millrace_htaccess::request::{RequestFields, Watched};
use millrace_settings::{Plan, plan};
use millrace_wire::head::{Framing, Head, Version};

use millrace_base::context::Context;
use millrace_base::message::host_of;
use millrace_base::message::request::{Ends, Request, Scheme};
use millrace_base::site::Site;

/// Calls `use_it` with the view of a request for `path` and `query`.
pub fn with<T>(
    context: &Context,
    site: &Site,
    request: &Request,
    path: &[u8],
    query: Option<&[u8]>,
    use_it: impl FnOnce(&View<'_>) -> T,
) -> T {
    let parts = RequestParts {
        head: &request.head,
        ends: &request.ends,
        authority: request.authority(),
        now: context.clock.unix_time().as_secs(),
    };
    view(&parts, &context.plan(), &site.plan, path, query, use_it)
}

/// What a thread beside the event loop needs of a request.
#[derive(Debug)]
pub struct Subject {
    head: Head,
    ends: Ends,
    authority: Box<str>,
    now: u64,
}

impl Subject {
    /// That of a request.
    pub fn of(context: &Context, request: &Request) -> Subject {
        Subject {
            head: request.head.clone(),
            ends: request.ends.clone(),
            authority: request.authority().into(),
            now: context.clock.unix_time().as_secs(),
        }
    }

    /// Calls `use_it` with its view.
    pub fn with<T>(
        &self,
        plan: &Plan,
        site: &plan::Site,
        path: &[u8],
        query: Option<&[u8]>,
        use_it: impl FnOnce(&View<'_>) -> T,
    ) -> T {
        let Subject { head, ends, authority, now } = self;
        view(&RequestParts { head, ends, authority, now: *now }, plan, site, path, query, use_it)
    }
}

/// Of a request.
struct RequestParts<'r> {
    head: &'r Head,
    ends: &'r Ends,
    authority: &'r str,
    /// Seconds since 1970.
    now: u64,
}

fn view<T>(
    parts: &RequestParts<'_>,
    plan: &Plan,
    site: &plan::Site,
    path: &[u8],
    query: Option<&[u8]>,
    use_it: impl FnOnce(&View<'_>) -> T,
) -> T {
    let RequestParts { head, ends, authority, now } = *parts;
    let canonical = |ip: IpAddr| ip.to_canonical();
    let root = site.root.as_os_str().as_bytes();
    let usual_port = if ends.scheme == Scheme::Https { 443 } else { 80 };
    let name = site.names.first().map(String::as_str);
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
        server_name: name.filter(|name| !name.starts_with('*')).unwrap_or_else(|| host_of(authority)),
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
        now: Watched::new(now),
        root: root.strip_suffix(b"/").unwrap_or(root),
        software: concat!("Millrace/", env!("CARGO_PKG_VERSION")),
        index: &plan.files.index,
    };
    use_it(&view)
}
