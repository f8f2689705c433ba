//! `proxy_pass` and `grpc_pass`: applications behind the server.

use super::lex::Directive;
use super::location::{Kind, Location};
use super::scope::{duration, plain};
use super::server::Server;
use crate::value::{Block, Toml};

/// Fields that an application gets in any case, or that belong to upgrades.
const TOLD: &[&str] = &[
    "upgrade",
    "connection",
    "x-real-ip",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-scheme",
    "x-original-uri",
    "x-original-method",
    "accept-encoding",
    "forwarded",
    "x-nginx-proxy",
    "proxy",
];

/// `proxy_pass`
pub fn pass(server: &mut Server<'_>, directive: &Directive, location: &Location<'_>) {
    let source = &directive.source;
    let prefix = match &location.kind {
        Kind::Regex(_) => {
            let why = "`proxy.path` is a path, or with a slash at its end all below it: write a [[site.proxy]] for each";
            return server.site.notes.lost(source, why);
        }
        Kind::Named(_) => "/".to_owned(),
        _ => location.prefix().unwrap_or("/").to_owned(),
    };
    let url = match server.expand(directive.arg(0)) {
        url if directive.name == "grpc_pass" => grpc_url(&url),
        url => url,
    };
    let Some((to, path)) = target(server, &url) else {
        return server
            .site
            .notes
            .lost(source, "`proxy.to` takes URLs without variables, like \"http://127.0.0.1:3000\"");
    };
    let strips = path.as_deref().is_some_and(|path| path != prefix);
    if strips && matches!(location.kind, Kind::Exact(_)) {
        return server
            .site
            .notes
            .lost(source, "a single path goes to the same path: let the application answer it");
    }
    let base = if strips { path.unwrap_or_default() } else { String::new() };
    let base = base.trim_end_matches('/');
    let colon = |to: &str| if to.starts_with("unix:") && !base.is_empty() { ":" } else { "" };
    let to: Vec<String> = to.into_iter().map(|to| format!("{to}{}{base}", colon(&to))).collect();
    let mut keys = vec![("to", Toml::one_or_list(to))];
    keys.extend((strips && prefix != "/").then_some(("strip", Toml::Switch(true))));
    keys.extend(options(server, directive, location));
    server.site.notes.carried(source);
    let paths = match &location.kind {
        Kind::Exact(path) => vec![path.clone()],
        _ => crate::listen::proxy_paths(&prefix, strips),
    };
    for path in paths {
        let keys = [("path", Toml::Text(path))].into_iter().chain(keys.clone()).collect();
        server.site.proxy(Block { source: source.clone(), keys, caveat: None });
    }
}

/// What the other directives of a location say about its application.
fn options(server: &Server<'_>, directive: &Directive, location: &Location<'_>) -> Vec<(&'static str, Toml)> {
    let inside = |name: &'static str| {
        let is_it = move |inner: &&Directive| of_proxy(&inner.name) == Some(name);
        location.directive.inner().iter().filter(is_it)
    };
    let mut keys = Vec::new();
    let mut fields = inside("set_header").chain(server.proxy_directives("proxy_set_header"));
    match fields.find(|field| field.arg(0).eq_ignore_ascii_case("host")).map(|field| field.arg(1)) {
        None | Some("$proxy_host") => keys.push(("host", "application".into())),
        Some(host) if !host.contains('$') => keys.push(("host", host.into())),
        Some(_) => {}
    }
    let mut versions = inside("http_version").chain(server.proxy_directives("proxy_http_version"));
    let is_http2 =
        directive.name == "grpc_pass" || versions.next().is_some_and(|version| version.arg(0) == "2");
    keys.extend(is_http2.then(|| ("http", "2".into())));
    let mut buffering = inside("request_buffering").chain(server.proxy_directives("proxy_request_buffering"));
    let streams = directive.name == "grpc_pass" || buffering.next().is_some_and(|set| set.arg(0) == "off");
    keys.extend(streams.then_some(("stream_request", Toml::Switch(true))));
    let time = |name| {
        let time = inside(name).next().and_then(|inner| duration(inner.arg(0)));
        time.filter(|time| time != "60s" && time != "0").map(Toml::Text)
    };
    keys.extend(time("connect_timeout").map(|time| ("connect_timeout", time)));
    if let Some(time) = time("read_timeout") {
        keys.extend([("read_timeout", time.clone()), ("response_timeout", time)]);
    }
    let ca = inside("ssl_trusted_certificate").next();
    keys.extend(ca.map(|ca| ("ca", server.http.file(ca.arg(0)).into())));
    keys
}

/// A directive of either module without the module's name.
fn of_proxy(name: &str) -> Option<&str> {
    name.strip_prefix("proxy_").or_else(|| name.strip_prefix("grpc_"))
}

/// The URL of `grpc_pass` as `proxy_pass` has it.
fn grpc_url(url: &str) -> String {
    match url.split_once("://") {
        Some(("grpcs", rest)) => format!("https://{rest}"),
        Some((_, rest)) => format!("http://{rest}"),
        None => format!("http://{url}"),
    }
}

/// The URLs without their path, and the path.
fn target(server: &mut Server<'_>, url: &str) -> Option<(Vec<String>, Option<String>)> {
    if url.contains('$') {
        return None;
    }
    let (scheme, rest) = url.split_once("://")?;
    if let Some(socket) = rest.strip_prefix("unix:") {
        let (socket, path) =
            socket.split_once(':').map_or((socket, None), |(socket, path)| (socket, Some(path.to_owned())));
        return Some((vec![format!("unix:{socket}")], path.filter(|path| !path.is_empty())));
    }
    let (host, path) = rest.find('/').map_or((rest, None), |at| (&rest[..at], Some(rest[at..].to_owned())));
    let upstream = server.http.upstreams.iter().find(|upstream| upstream.arg(0) == host);
    let to = match upstream {
        Some(upstream) => {
            let servers = servers(server, upstream);
            servers
                .into_iter()
                .map(|to| if to.starts_with("unix:") { to } else { format!("{scheme}://{to}") })
                .collect()
        }
        None => vec![format!("{scheme}://{host}")],
    };
    Some((to, path))
}

/// The servers of an upstream.
pub fn servers(server: &mut Server<'_>, upstream: &Directive) -> Vec<String> {
    let notes = &mut server.site.notes;
    notes.carried(&upstream.source);
    let mut all = Vec::new();
    for inner in upstream.inner() {
        let has = |option: &str| inner.args.iter().any(|arg| arg.starts_with(option));
        match inner.name.as_str() {
            "server" if has("down") => notes.needless(&inner.source, "it is down"),
            "server" if has("backup") => {
                notes.lost(&inner.source, "all copies get requests: there is none that only stands by");
            }
            "server" => {
                notes.carried(&inner.source);
                all.push(inner.arg(0).to_owned());
            }
            "ip_hash" | "hash" | "sticky" => {
                notes.lost(
                    &inner.source,
                    "a client has no copy of its own: keep sessions where all copies find them",
                );
            }
            _ => notes.needless(
                &inner.source,
                "the copy with the fewest requests gets the next; connections are kept",
            ),
        }
    }
    all
}

/// Other directives of the proxy.
pub fn take(server: &mut Server<'_>, directive: &Directive) {
    let (source, name) = (&directive.source, directive.arg(0).to_ascii_lowercase());
    match of_proxy(&directive.name).unwrap_or_default() {
        "set_header" if name == "host" || TOLD.contains(&name.as_str()) => {
            server.site.notes.needless(
                source,
                "an application gets the host, the client's address, the scheme, and upgrades",
            );
        }
        "set_header" if super::auth::field_of(server, directive.arg(1)).is_some() => {
            let field = super::auth::field_of(server, directive.arg(1)).unwrap_or_default();
            match field.eq_ignore_ascii_case(&name) {
                true => server.site.notes.carried(source),
                false => {
                    let why = format!("the application gets it as {field}, not as {}", directive.arg(0));
                    server.site.notes.lost(source, why);
                }
            }
        }
        "set_header" => {
            server.site.notes.lost(
                source,
                "no field is added to an application's requests: configure it in the application",
            );
        }
        "connect_timeout" | "read_timeout" | "ssl_trusted_certificate" => server.site.notes.carried(source),
        "http_version" if name == "2" => server.site.notes.carried(source),
        "request_buffering" if name == "off" => server.site.notes.carried(source),
        "send_timeout" => server.site.notes.needless(source, "`proxy.read_timeout` is for both directions"),
        _ => plain(&directive.name, directive, &mut server.site.notes),
    }
}
