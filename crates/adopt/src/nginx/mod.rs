//! nginx: `nginx.conf`, or a file of `sites-available`.
//!
//! A request belongs to one location of nginx, but all rules of Millrace that match it apply. So the rules are written in the
//! order in which they decide alike: effects of the server first, then of its locations, the most specific ones last;
//! then actions, the most specific ones first; then what the server refuses.

mod auth;
mod challenge;
mod lex;
mod limit;
mod location;
mod php;
mod proxy;
mod rewrite;
mod scope;
mod server;
mod table;

use std::path::{Path, PathBuf};

use crate::files::Files;
use crate::listen;
use crate::value::{Adopted, Options, Toml};
use lex::Directive;

/// What servers inherit from `http`, and refer to.
#[derive(Default)]
struct Http {
    /// Directives that each server has unless it has its own.
    inherited: Vec<Directive>,
    /// `upstream NAME { }`.
    upstreams: Vec<Directive>,
    /// `limit_req_zone`
    zones: Vec<limit::Zone>,
    keep_fpm: bool,
    /// Where relative names of files start.
    base: PathBuf,
}

impl Http {
    /// A file, by its name in the configuration.
    fn file(&self, name: &str) -> String {
        self.base.join(name).to_string_lossy().into_owned()
    }
}

/// Directives that servers inherit.
const INHERITED: &[&str] = &[
    "root",
    "index",
    "add_header",
    "more_set_headers",
    "expires",
    "error_page",
    "allow",
    "deny",
    "auth_basic",
    "auth_basic_user_file",
    "auth_request",
    "auth_request_set",
    "satisfy",
    "limit_req",
    "limit_req_status",
    "limit_req_dry_run",
    "ssl_certificate",
    "ssl_certificate_key",
    "fastcgi_read_timeout",
    "proxy_set_header",
    "proxy_read_timeout",
    "proxy_http_version",
    "proxy_request_buffering",
];

/// Converts a file.
pub fn adopt(path: &Path, files: &dyn Files, options: &Options) -> Result<Adopted, String> {
    let mut adopted = Adopted::default();
    let directives = lex::read(path, files, &mut adopted.notes)?;
    let base = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut http = Http { keep_fpm: options.keep_fpm, base, ..Http::default() };
    let mut servers = Vec::new();
    top(&directives, &mut http, &mut servers, &mut adopted);
    if servers.is_empty() {
        return Err(format!(
            "{} has no server block, nor do the files that it includes: name the file that has them",
            path.display()
        ));
    }
    limit::count_uses(&directives, &mut http.zones);
    for server in servers {
        server::convert(server, &http, &mut adopted);
    }
    let told = adopted.all_notes();
    for upstream in http.upstreams.iter().filter(|upstream| !told.carried.contains(&upstream.source)) {
        adopted.notes.needless(&upstream.whole(), "no application is there: Millrace runs PHP itself");
    }
    for zone in http.zones.iter().filter(|zone| !told.carried.contains(&zone.source)) {
        match zone.is_named() {
            true => adopted.notes.lost(&zone.source, "no rule comes of its `limit_req`: see there"),
            false => adopted.notes.needless(&zone.source, "no `limit_req` names it"),
        }
    }
    listen::widest(&mut adopted);
    Ok(adopted)
}

/// Directives outside of servers.
fn top<'a>(
    directives: &'a [Directive],
    http: &mut Http,
    servers: &mut Vec<&'a Directive>,
    adopted: &mut Adopted,
) {
    for directive in directives {
        let source = &directive.source;
        match directive.name.as_str() {
            "http" => {
                adopted.notes.carried(source);
                top(directive.inner(), http, servers, adopted);
            }
            "server" => servers.push(directive),
            "upstream" => http.upstreams.push(directive.clone()),
            // One setting for all sites: the stricter one, if there are two.
            "disable_symlinks" if directive.arg(0) == "on" => {
                adopted.settings.set("files.symlinks", "inside");
                adopted.notes.carried(source);
            }
            "user" => {
                // Scripts run as this user in most set-ups; a php-fpm has its own.
                if directive.arg(0) == "root" {
                    adopted
                        .notes
                        .lost(source, "scripts do not run as root: name another user with `php.user`");
                } else if http.keep_fpm {
                    adopted.notes.needless(source, "the service manager says as which user Millrace runs");
                } else {
                    adopted.settings.set("php.user", directive.arg(0));
                    adopted.notes.carried(source);
                }
            }
            "map" if directive.arg(0) == "$http_upgrade" => {
                adopted.notes.needless(&directive.whole(), "upgrades (WebSocket) pass to applications");
            }
            "limit_req_zone" => http.zones.push(limit::Zone::read(directive)),
            "client_max_body_size" => match scope::size(directive.arg(0)) {
                Some(size) => {
                    adopted.settings.set("http.body_bytes", size);
                    adopted.notes.carried(source);
                }
                None => adopted.notes.lost(source, "not a size: set http.body_bytes"),
            },
            "access_log" | "error_log" => log(directive, http, adopted),
            "set_real_ip_from" => real_ip(directive, adopted),
            "real_ip_header" | "real_ip_recursive" => {
                adopted
                    .notes
                    .needless(source, "X-Forwarded-For of `server.trusted_proxies` counts, from its end");
            }
            name if INHERITED.contains(&name) => http.inherited.push(directive.clone()),
            name => scope::plain(name, directive, &mut adopted.notes),
        }
    }
}

/// A log. Millrace has one for all sites: the first.
fn log(directive: &Directive, http: &Http, adopted: &mut Adopted) {
    let key = if directive.name == "access_log" { "log.access" } else { "log.error" };
    let file = directive.arg(0);
    let source = &directive.source;
    if file == "off" || file == "/dev/null" {
        return adopted
            .notes
            .needless(source, "there is one access log for all sites, off unless `log.access` is set");
    }
    if file.starts_with("syslog:") || file == "memory" || file.contains('$') {
        return adopted.notes.lost(
            source,
            "logs go to a file, or errors to stderr, from where the service manager takes them",
        );
    }
    if file == "stderr" || file.starts_with("/dev/std") {
        return adopted
            .notes
            .needless(source, "errors go to stderr unless `log.error` is set; `log.access` takes a file");
    }
    let file = http.file(file);
    match adopted.settings.get(key) {
        None => {
            adopted.settings.set(key, file);
            adopted.notes.carried(source);
        }
        Some(Toml::Text(known)) if *known == file => adopted.notes.carried(source),
        Some(_) => adopted
            .notes
            .lost(source, format!("there is one log for all sites, with the host in `json`: {key}")),
    }
}

fn real_ip(directive: &Directive, adopted: &mut Adopted) {
    let text = directive.arg(0);
    let from = if text == "unix:" { "unix" } else { text };
    if from == "unix" || from.split('/').next().is_some_and(|ip| ip.parse::<std::net::IpAddr>().is_ok()) {
        adopted.settings.add("server.trusted_proxies", from);
        adopted.notes.carried(&directive.source);
    } else {
        adopted
            .notes
            .lost(&directive.source, "`server.trusted_proxies` takes addresses and networks, no names");
    }
}
