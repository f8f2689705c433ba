//! Caddy: a Caddyfile. Snippets and imports are resolved first, then each site block is converted.

mod check;
mod conditions;
mod files;
mod flow;
mod lex;
mod order;
mod paths;
mod proxy;
mod respond;
mod site;

use std::path::Path;

use crate::files::Files;
use crate::value::{Adopted, Options, Toml};
use lex::CaddyLine;

/// Converts a file.
pub fn adopt(path: &Path, files: &dyn Files, options: &Options) -> Result<Adopted, String> {
    let mut adopted = Adopted::default();
    let blocks = lex::read(path, files, &mut adopted.notes)?;
    let mut has_sites = false;
    for block in &blocks {
        if block.words.is_empty() {
            global(block, &mut adopted);
        } else {
            has_sites = true;
            site::convert(block, options, &mut adopted);
        }
    }
    if !has_sites {
        return Err(format!("{} has no site", path.display()));
    }
    if adopted.settings.get("https.listen").is_some() && adopted.settings.get("https.acme").is_some() {
        // Caddy asks for certificates without being told; its user has agreed by `email` or by running it.
        adopted.settings.set("acme.terms_agreed", Toml::Switch(true));
        adopted.settings.add("server.listen", ":80");
    }
    crate::listen::widest(&mut adopted);
    Ok(adopted)
}

/// The block of global options.
fn global(block: &CaddyLine, adopted: &mut Adopted) {
    for option in &block.block {
        let source = &option.source;
        match option.words[0].as_str() {
            "email" => {
                adopted.settings.set("acme.email", option.word(1));
                adopted.notes.carried(source);
            }
            "acme_ca" => {
                adopted.settings.set("acme.directory", option.word(1));
                adopted.notes.carried(source);
            }
            "admin" | "persist_config" | "grace_period" | "shutdown_delay" | "default_bind" | "order" | "local_certs" | "debug"
            | "storage" | "skip_install_trust" | "auto_https" | "http_port" | "https_port" | "frankenphp" => {
                let why = match option.words[0].as_str() {
                    "frankenphp" => "Millrace runs PHP in workers of its own: `php.workers`",
                    "auto_https" | "local_certs" | "storage" | "skip_install_trust" => {
                        "certificates are those of [[tls]], or automatic with `https.acme`; `acme.dir` has them"
                    }
                    "http_port" | "https_port" | "default_bind" => {
                        return adopted.notes.lost(source, "write the addresses with `server.listen` and `https.listen`");
                    }
                    _ => "`admin.listen`, `server.shutdown_grace` and `log.level` have defaults",
                };
                adopted.notes.needless(&option.whole(), why);
            }
            "servers" => adopted.notes.lost(
                &option.whole(),
                "`server.trusted_proxies`, `http.head_timeout` and their like are settings of all sites: docs/settings.md",
            ),
            _ => adopted.notes.lost(&option.whole(), "a global option that Millrace lacks: docs/settings.md has what there is"),
        }
    }
}
