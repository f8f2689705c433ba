//! `fastcgi_pass` and its parameters.

use super::lex::Directive;
use super::scope::{duration, seconds};
use super::server::Server;
use crate::value::{Php, Toml};

/// Parameters that every php-fpm gets; a `*` stands for the rest of a name.
const STANDARD: &[&str] = &[
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REQUEST_*",
    "CONTENT_*",
    "DOCUMENT_*",
    "SERVER_*",
    "GATEWAY_INTERFACE",
    "REMOTE_*",
    "HTTPS",
    "REDIRECT_STATUS",
    "HTTP_PROXY",
    "HTTP_HOST",
    "HTTP_X_FORWARDED_*",
    "SSL_*",
];

/// Whether an expression is for all scripts.
pub fn is_general(regex: &str) -> bool {
    let plain = regex.trim_start_matches("(?i)");
    plain.starts_with("\\.php")
        || plain.starts_with("[^/]\\.php")
        || plain.starts_with("^(.+\\.php)")
        || plain.starts_with("^.+\\.php")
}

/// `fastcgi_pass`
pub fn pass(server: &mut Server<'_>, directive: &Directive) {
    let source = &directive.source;
    let backend = server.expand(directive.arg(0));
    if !server.http.keep_fpm {
        server.site.php = Php::Own;
        let why = "Millrace runs PHP in workers of its own; --keep-fpm keeps php-fpm";
        server.site.notes.needless(source, why);
        return;
    }
    match addresses(server, &backend) {
        Some(addresses) => {
            let is_other = matches!(&server.site.php, Php::Fastcgi(known) if *known != addresses);
            if is_other {
                return server.site.notes.lost(
                    source,
                    "a site has one php-fpm: `php.fastcgi` takes several addresses with the same scripts",
                );
            }
            server.site.php = Php::Fastcgi(addresses);
            server.site.notes.carried(source);
        }
        None => server.site.notes.lost(source, "php.fastcgi takes unix:/PATH and HOST:PORT"),
    }
}

/// The addresses of a backend: its own, or those of the upstream of this name.
fn addresses(server: &mut Server<'_>, backend: &str) -> Option<Vec<String>> {
    let Some(upstream) = server.http.upstreams.iter().find(|upstream| upstream.arg(0) == backend) else {
        let is_address = backend.starts_with("unix:/")
            || backend.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        return is_address.then(|| vec![backend.to_owned()]);
    };
    Some(super::proxy::servers(server, upstream))
}

/// Other directives of FastCGI.
pub fn take(server: &mut Server<'_>, directive: &Directive) {
    let source = &directive.source;
    match directive.name.as_str() {
        "fastcgi_param" => parameter(server, directive),
        "fastcgi_read_timeout" => {
            // The setting's default is five minutes.
            match duration(directive.arg(0)).filter(|text| seconds(text).is_some_and(|seconds| seconds > 300))
            {
                Some(time) => {
                    server.site.settings.set("php.request_timeout", time);
                    server.site.notes.carried(source);
                }
                None => server.site.notes.needless(source, "`php.request_timeout` is 5m, unless set"),
            }
        }
        name => super::scope::plain(name, directive, &mut server.site.notes),
    }
}

fn parameter(server: &mut Server<'_>, directive: &Directive) {
    let (source, name, value) = (&directive.source, directive.arg(0), server.expand(directive.arg(1)));
    let is_standard = STANDARD.iter().any(|known| match known.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => *known == name,
    });
    if name == "PHP_VALUE" || name == "PHP_ADMIN_VALUE" {
        for line in value.split(['\n', ';']).flat_map(|line| line.split("\\n")) {
            if let Some((key, value)) = line.split_once('=') {
                let key = format!("php.ini.{}", crate::write::name(key.trim()));
                server.site.settings.set(&key, value.trim().trim_matches('"'));
            }
        }
        server.site.notes.carried(source);
    } else if is_standard {
        server.site.notes.needless(source, "Millrace sets PHP's variables");
    } else if let Some(field) = super::auth::field_of(server, &value) {
        let known = format!("HTTP_{}", field.to_ascii_uppercase().replace('-', "_"));
        if name == known {
            server.site.notes.carried(source);
        } else {
            let why = format!("PHP finds it as $_SERVER['{known}'], not as {name}");
            server.site.notes.lost(source, why);
        }
    } else if ["HTTP_X_ORIGINAL_URI", "HTTP_X_ORIGINAL_METHOD"].contains(&name) {
        server.site.notes.needless(source, "a script of `auth` gets X-Original-URI and X-Original-Method");
    } else if name == "X_ORIGINAL_URI" {
        server.site.notes.lost(source, "a script of `auth` finds it as $_SERVER['HTTP_X_ORIGINAL_URI']");
    } else if value.contains('$') {
        server.site.notes.lost(source, "Millrace has no variables: `php.env` takes fixed values");
    } else {
        server.site.settings.set(&format!("php.env.{}", crate::write::name(name)), Toml::Text(value));
        server.site.notes.carried(source);
    }
}
