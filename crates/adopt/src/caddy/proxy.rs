//! `reverse_proxy`: applications.

use super::conditions;
use super::flow::CaddyScope;
use super::lex::CaddyLine;
use super::site::Converter;
use crate::value::{Block, Toml, When};

/// How upstreams begin that speak HTTP/2 without TLS.
const H2C: &str = "h2c://";

/// Whether these `versions` of a transport are HTTP/2 only: with others, Caddy chooses.
fn is_http2(versions: &[String]) -> bool {
    !versions.is_empty() && versions.iter().all(|version| matches!(version.as_str(), "2" | "h2c"))
}

/// Options of `reverse_proxy` for what Millrace does by itself.
const PROXY_OPTIONS: &[&str] = &[
    "transport",
    "tls",
    "flush_interval",
    "lb_policy",
    "lb_try_duration",
    "lb_try_interval",
    "health_uri",
    "health_interval",
    "health_timeout",
    "health_status",
    "fail_duration",
    "max_fails",
    "unhealthy_status",
    "keepalive",
    "keepalive_idle_conns",
    "versions",
    "trusted_proxies",
    "buffer_requests",
    "compression",
];

impl Converter<'_> {
    pub fn proxy(&mut self, node: &CaddyLine, when: &When, args: &[String], scope: &CaddyScope) {
        let mut to: Vec<String> = args.iter().map(|arg| upstream(arg)).collect();
        let mut keys: Vec<(&'static str, Toml)> = Vec::new();
        let mut speaks_http2 = args.iter().any(|arg| arg.starts_with(H2C));
        for inner in node.block.iter().flat_map(|inner| [inner].into_iter().chain(&inner.block)) {
            if inner.word(0) == "to" {
                to.extend(inner.words.iter().skip(1).map(|arg| upstream(arg)));
                speaks_http2 |= inner.words.iter().any(|arg| arg.starts_with(H2C));
                self.site.notes.carried(&inner.source);
            } else if inner.word(0) == "versions" && is_http2(&inner.words[1..]) {
                speaks_http2 = true;
                self.site.notes.carried(&inner.source);
            } else {
                keys.extend(self.proxy_option(inner));
            }
        }
        if speaks_http2 {
            // Caddy never collects requests first, and gRPC needs that.
            keys.extend([("http", "2".into()), ("stream_request", Toml::Switch(true))]);
        }
        // What other blocks have taken is an application's with a longer path, or a rule's: rules come first.
        let is_for_paths = when.iter().all(|(key, _)| matches!(*key, "path" | "unless_path"));
        let paths = match conditions::of(when, "path") {
            _ if !is_for_paths => Vec::new(),
            None => vec!["/".to_owned()],
            Some(paths) => paths.iter().flat_map(|path| of_proxy(path)).collect(),
        };
        let strips = !scope.prefix.is_empty();
        let strips_more =
            strips && paths.iter().any(|path| *path != format!("{}/", scope.prefix) && *path != scope.prefix);
        let is_odd = |path: &String| path.contains('*') || to.iter().any(|to| to.contains('{'));
        if paths.is_empty() || strips_more || to.is_empty() || paths.iter().any(is_odd) {
            let why = "`proxy.path` is a path, or with a slash at its end all below it; `proxy.to` has URLs";
            return self.site.notes.lost(&node.source, why);
        }
        self.site.notes.carried(&node.source);
        for path in paths {
            let mut all = vec![("path", Toml::Text(path.clone())), ("to", Toml::one_or_list(to.clone()))];
            all.extend((strips && path != "/").then_some(("strip", Toml::Switch(true))));
            all.extend(keys.iter().cloned());
            self.site.proxy(Block { source: node.source.clone(), keys: all, caveat: None });
        }
    }

    /// An option of `reverse_proxy`, or of its transport, as a key of a proxy.
    fn proxy_option(&mut self, option: &CaddyLine) -> Option<(&'static str, Toml)> {
        let (name, first) = (option.word(0), option.word(1));
        let key = match name {
            "header_up" if first.eq_ignore_ascii_case("host") => match option.word(2) {
                host if host.contains("upstream") => ("host", "application".into()),
                host if host.contains('{') => ("host", "visitor".into()),
                host => ("host", host.into()),
            },
            "dial_timeout" => ("connect_timeout", first.into()),
            "response_header_timeout" => ("response_timeout", first.into()),
            "read_timeout" => ("read_timeout", first.into()),
            "tls_trust_pool" | "tls_trusted_ca_certs" => {
                ("ca", option.words.last().cloned().unwrap_or_default().into())
            }
            "header_up" if first.to_ascii_lowercase().starts_with("x-") || first.starts_with('-') => {
                let why = "an application gets the client's address, the host and the scheme";
                self.site.notes.needless(&option.source, why);
                return None;
            }
            _ if PROXY_OPTIONS.contains(&name) => {
                let why = "the copy with the fewest requests gets the next; one that fails rests";
                self.site.notes.needless(&option.source, why);
                return None;
            }
            _ => {
                let why = "requests and responses of an application are passed as they are";
                self.site.notes.lost(&option.whole(), why);
                return None;
            }
        };
        self.site.notes.carried(&option.source);
        Some(key)
    }
}

/// `localhost:3000`, `http://x`, `unix//run/x.sock`, `h2c://x`.
fn upstream(text: &str) -> String {
    if let Some(path) = text.strip_prefix("unix/") {
        return format!("unix:{path}");
    }
    let text = text.strip_prefix(H2C).unwrap_or(text);
    match text {
        _ if text.contains("://") => text.to_owned(),
        _ if text.starts_with(':') => format!("http://127.0.0.1{text}"),
        _ if text.chars().all(|c| c.is_ascii_digit()) => format!("http://127.0.0.1:{text}"),
        _ if text.contains(':') => format!("http://{text}"),
        _ => format!("http://{text}:80"),
    }
}

/// `/a/*` as paths of a proxy: `/a/`, which is all below it. `/a*` is `/a`, too.
fn of_proxy(path: &str) -> Vec<String> {
    match path.strip_suffix('*') {
        None => vec![path.to_owned()],
        Some("") => vec!["/".to_owned()],
        Some(below) if below.ends_with('/') => vec![below.to_owned()],
        Some(start) => vec![start.to_owned(), format!("{start}/")],
    }
}
