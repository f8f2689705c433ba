//! A site block of a Caddyfile.

use super::check;
use super::flow::CaddyScope;
use super::lex::CaddyLine;
use super::respond::Moved;
use crate::value::{Adopted, Block, ONE_FOLDER, Options, Php, Site, Source, Toml, When};

/// Directives that Millrace does without being told.
const NEEDLESS: &[(&str, &str)] = &[
    ("encode", "compression is on: gzip, brotli and zstd, and compressed pages are cached"),
    ("log_skip", "the access log has every request"),
    ("bind", "`server.listen` and `https.listen` have the addresses"),
    ("push", "browsers have given server push up; scripts may send early hints"),
    ("templates", "templates are PHP's"),
];

/// Directives that have no equal.
const LOST: &[(&str, &str)] = &[
    ("request_body", "`body_bytes` of the site is for all of it"),
    ("acme_server", "Millrace is no certificate authority"),
    ("metrics", "`admin.listen` has metrics"),
    ("tracing", "there is no tracing"),
    ("map", "Millrace has no variables; redirects of a map belong into a file: `redirects = \"FILE.csv\"`"),
    ("vars", "Millrace has no variables: write the value into each rule that uses it"),
    ("method", "the method is passed as it is"),
    ("copy_response", "responses are passed as they are"),
    ("intercept", "responses are passed as they are"),
    ("invoke", "named routes do not exist: write the rules where they apply"),
    ("mercure", "there is no Mercure hub in the server: run it beside, and name it in [[site.proxy]]"),
    ("vulcain", "there is no such module"),
    ("php", "Millrace runs PHP in workers of its own"),
];

pub struct Converter<'a> {
    pub site: Site,
    pub options: &'a Options,
    /// Conditions of named matchers, or why rules have none like it.
    pub matchers: Vec<(String, Result<When, String>)>,
    pub serves_files: bool,
    /// Files of the site's folder that an application for all paths must not get.
    pub files: Vec<(Source, When)>,
    /// Rules that change responses.
    pub effects: Vec<Block>,
    /// Rules that end a request, in the order in which they decide.
    pub actions: Vec<Block>,
    /// Rules for folders that are chosen by `root` with a matcher: behind all that responds.
    pub folders: Vec<Block>,
    /// Where requests are led to another path.
    pub moved: Vec<Moved>,
}

/// Converts a site, and adds it.
pub fn convert(block: &CaddyLine, options: &Options, adopted: &mut Adopted) {
    let mut converter = Converter {
        site: Site::new(block.source.clone()),
        options,
        matchers: Vec::new(),
        serves_files: false,
        files: Vec::new(),
        effects: Vec::new(),
        actions: Vec::new(),
        folders: Vec::new(),
        moved: Vec::new(),
    };
    converter.addresses(block, adopted);
    converter.directives(&block.block, &CaddyScope::default(), adopted);
    converter.files_beside_an_application();
    let Converter { mut site, effects, actions, folders, serves_files, .. } = converter;
    if site.root.is_some() && !serves_files && site.php == Php::Off && site.proxies.is_empty() {
        let source = block.source.clone();
        site.notes.lost(&source, "without `file_server` Caddy sends no files of the root; Millrace does");
    }
    site.rules = effects.into_iter().chain(check::ordered(actions)).chain(folders).collect();
    adopted.sites.push(site);
}

impl Converter<'_> {
    /// `example.com, www.example.com`, `:8080`, `http://example.com`, `localhost:2015`.
    fn addresses(&mut self, block: &CaddyLine, adopted: &mut Adopted) {
        for address in
            block.words.iter().flat_map(|word| word.split(',')).map(str::trim).filter(|word| !word.is_empty())
        {
            let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
            let rest = rest.split('/').next().unwrap_or_default();
            let (host, port) = match rest.rsplit_once(':') {
                Some((host, port)) if port.parse::<u16>().is_ok() => (host, port.parse::<u16>().ok()),
                _ => (rest, None),
            };
            if address.contains("{$") || host.contains('{') {
                self.site
                    .notes
                    .lost(&block.source, "set the variables of the environment, or write the address");
                continue;
            }
            let is_local = host.is_empty() || host == "localhost" || host.parse::<std::net::IpAddr>().is_ok();
            let plain = scheme == "http"
                || port == Some(80)
                || (host.is_empty() && port != Some(443))
                || (scheme.is_empty() && is_local && port.is_some_and(|port| port != 443));
            let port = port.unwrap_or(if plain { 80 } else { 443 });
            adopted.settings.add(if plain { "server.listen" } else { "https.listen" }, &format!(":{port}"));
            self.site.secure |= !plain;
            self.site.plain |= plain;
            if !plain {
                // Caddy redirects to HTTPS by itself, and so does this.
                self.site.settings.set("redirect.https", Toml::Switch(true));
                let has_own = block.block.iter().any(|inner| {
                    inner.word(0) == "tls" && (inner.words.len() == 3 || inner.word(1) == "internal")
                });
                if !has_own {
                    let key = if is_local { "https.self_signed" } else { "https.acme" };
                    adopted.settings.set(key, Toml::Switch(true));
                }
            }
            match host {
                "" | "*" => self.site.default = true,
                host if host.trim_start_matches("*.").contains('*') => {
                    self.site
                        .notes
                        .lost(&block.source, "a `*` stands at the beginning of a name: write each name");
                }
                host => self.site.name(host),
            }
        }
        self.site.notes.carried(&block.source);
    }

    pub fn other(&mut self, node: &CaddyLine) {
        let find = |table: &[(&str, &'static str)]| {
            table.iter().find(|(known, _)| *known == node.word(0)).map(|(_, why)| *why)
        };
        match find(NEEDLESS) {
            Some(why) => self.site.notes.needless(&node.whole(), why),
            None => {
                let unknown = "not supported by adopt; docs/settings.md and docs/rules.md list the settings";
                self.site.notes.lost(&node.whole(), find(LOST).unwrap_or(unknown));
            }
        }
    }

    pub fn action(&mut self, source: &Source, when: When, keys: Vec<(&'static str, Toml)>) {
        self.also_where_moved(source, &when, &keys);
        let keys = when.into_iter().chain(keys).collect();
        self.actions.push(Block { source: source.clone(), keys, caveat: None });
        self.site.notes.carried(source);
    }

    /// Refuses what a password or a check protected, until the owner writes a rule that lets people in.
    pub fn closed(&mut self, node: &CaddyLine, when: When, why: String) {
        self.action(&node.source, when, vec![("deny", Toml::Switch(true))]);
        self.site.notes.lost(&node.whole(), why);
    }

    pub fn php(&mut self, node: &CaddyLine, args: &[String], scope: &CaddyScope) {
        if !scope.prefix.is_empty() || scope.folder.is_some() {
            return self
                .site
                .notes
                .lost(&node.source, format!("PHP runs below the site's root only: {ONE_FOLDER}"));
        }
        let addresses: Vec<String> = args.iter().map(|arg| arg.replace("unix//", "unix:/")).collect();
        if self.options.keep_fpm && node.word(0) == "php_fastcgi" && !addresses.is_empty() {
            self.site.php = Php::Fastcgi(addresses);
            self.site.notes.carried(&node.source);
        } else {
            self.site.php = Php::Own;
            self.site
                .notes
                .needless(&node.source, "Millrace runs PHP in workers of its own; --keep-fpm keeps php-fpm");
        }
        self.serves_files |= node.word(0) == "php_server";
        // Both directives try the file, then /index.php.
        self.site.settings.set("front_controller", "/index.php");
        for inner in &node.block {
            match inner.word(0) {
                "env" => {
                    self.site
                        .settings
                        .set(&format!("php.env.{}", crate::write::name(inner.word(1))), inner.word(2));
                    self.site.notes.carried(&inner.source);
                }
                "try_files" => self.try_files(inner, &inner.words[1..]),
                "root" => {
                    self.site.settings.set("php.fastcgi_root", inner.word(1));
                    self.site.notes.carried(&inner.source);
                }
                "index" => self
                    .site
                    .settings
                    .set("front_controller", format!("/{}", inner.word(1).trim_start_matches('/'))),
                "split"
                | "resolve_root_symlink"
                | "dial_timeout"
                | "read_timeout"
                | "write_timeout"
                | "capture_stderr"
                | "trusted_proxies" => {
                    self.site.notes.needless(
                        &inner.source,
                        "`php.request_timeout`, PATH_INFO and the log of errors are Millrace's",
                    );
                }
                "worker" => self.site.notes.lost(
                    &inner.source,
                    "persistent workers have `php.worker_script`: docs/php-persistent.md",
                ),
                _ => self.site.notes.lost(&inner.source, "docs/php-fpm.md has the settings"),
            }
        }
    }

    pub fn try_files(&mut self, node: &CaddyLine, args: &[String]) {
        let fallback = args.last().map(String::as_str).unwrap_or_default();
        let script = fallback.split(['?', '{']).next().unwrap_or_default();
        let odd = args
            .iter()
            .rev()
            .skip(1)
            .any(|arg| !matches!(arg.as_str(), "{path}" | "{path}/" | "{path}/index.php"));
        if script.ends_with(".php") && !odd {
            self.site.settings.set("front_controller", script);
            self.site.notes.carried(&node.source);
        } else if !odd && ["=404", "{path}", "{path}/"].contains(&fallback) {
            self.site.notes.needless(&node.source, "files, else 404");
        } else {
            let why = "Millrace looks for the file and the folder, then runs the front controller, which is a script: a .htaccess file \
                       with RewriteCond %{REQUEST_FILENAME} !-f can do more (docs/htaccess.md)";
            self.site.notes.lost(&node.source, why);
        }
    }

    /// `header [matcher] Name value`, or a block of such lines; `-Name`, `+Name`, `?Name`.
    pub fn header(&mut self, node: &CaddyLine, when: When, args: &[String]) {
        let lines: Vec<(Source, Vec<String>)> = match args {
            [] => node.block.iter().map(|inner| (inner.source.clone(), inner.words.clone())).collect(),
            args => vec![(node.source.clone(), args.to_vec())],
        };
        let (mut set, mut add, mut unset) = (Vec::new(), Vec::new(), Vec::new());
        for (source, words) in lines {
            let (name, value) = (words[0].as_str(), words.get(1).cloned().unwrap_or_default());
            let is_own = ["server", "date", "connection", "content-length"]
                .contains(&name.trim_start_matches(['-', '+', '?', '>']).to_ascii_lowercase().as_str());
            if is_own && name.starts_with('-') {
                self.site.notes.needless(&source, "Millrace never sends its version");
            } else if words.len() > 2 || value.contains('{') || is_own || name == "defer" {
                self.site
                    .notes
                    .lost(&source, "a rule sets, adds and removes fields with fixed values: docs/rules.md");
            } else {
                match name.chars().next() {
                    Some('-') if !name.contains('*') => unset.push(name[1..].to_owned()),
                    Some('+') => add.push((name[1..].to_owned(), Toml::Text(value))),
                    Some('-') => {
                        self.site.notes.lost(&source, "name each field");
                        continue;
                    }
                    _ => set.push((name.trim_start_matches(['?', '>']).to_owned(), Toml::Text(value))),
                }
                self.site.notes.carried(&source);
            }
        }
        let mut keys = when;
        let before = keys.len();
        keys.extend((!set.is_empty()).then_some(("set_header", Toml::Table(set))));
        keys.extend((!add.is_empty()).then_some(("add_header", Toml::Table(add))));
        keys.extend((!unset.is_empty()).then_some(("unset_header", Toml::List(unset))));
        if keys.len() > before {
            self.effects.push(Block { source: node.source.clone(), keys, caveat: None });
        }
        if !node.block.is_empty() {
            self.site.notes.carried(&node.source);
        }
    }

    /// `handle_errors { rewrite * /404.html; file_server }`
    pub fn errors(&mut self, node: &CaddyLine) {
        let page = node
            .block
            .iter()
            .find(|inner| inner.word(0) == "rewrite")
            .map(|inner| inner.words.last().cloned().unwrap_or_default());
        let codes: Vec<&String> =
            node.words.iter().skip(1).filter(|word| word.parse::<u16>().is_ok()).collect();
        match page.filter(|page| page.starts_with('/') && !page.contains('{')) {
            Some(page) => {
                let codes = if codes.is_empty() {
                    vec!["404".to_owned()]
                } else {
                    codes.into_iter().cloned().collect()
                };
                let table = codes.into_iter().map(|code| (code, page.as_str().into())).collect();
                self.effects.push(Block {
                    source: node.source.clone(),
                    keys: vec![("error_page", Toml::Table(table))],
                    caveat: None,
                });
                self.site.notes.carried(&node.whole());
            }
            None => self
                .site
                .notes
                .lost(&node.whole(), "`error_page` of a rule names a page of the site for each status"),
        }
    }

    pub fn tls(&mut self, node: &CaddyLine, adopted: &mut Adopted) {
        match (node.word(1), node.word(2)) {
            ("internal", _) => {
                adopted.settings.set("https.self_signed", Toml::Switch(true));
                self.site.notes.carried(&node.source);
            }
            (cert, key) if !key.is_empty() => {
                adopted.certificate(cert, key);
                self.site.notes.carried(&node.source);
            }
            (mail, _) if mail.contains('@') => {
                adopted.settings.set("acme.email", mail);
                self.site.notes.carried(&node.source);
            }
            _ => {}
        }
        for inner in &node.block {
            match inner.word(0) {
                "protocols" | "ciphers" | "curves" | "alpn" => self.site.notes.needless(&inner.source, "TLS 1.2 and 1.3, only secure ciphers"),
                "dns" => self.site.notes.lost(&inner.source, "names are proved over HTTP or TLS, not by DNS: wildcard certificates come from elsewhere, as [[tls]]"),
                _ => self.site.notes.lost(&inner.whole(), "docs/https.md has what there is for certificates"),
            }
        }
    }

    pub fn log(&mut self, node: &CaddyLine, adopted: &mut Adopted) {
        let output = node.block.iter().find(|inner| inner.word(0) == "output" && inner.word(1) == "file");
        match output {
            Some(output) if adopted.settings.get("log.access").is_none() => {
                adopted.settings.set("log.access", output.word(2));
                adopted.settings.set("log.access_format", "json");
                self.site.notes.carried(&node.whole());
            }
            _ => self.site.notes.needless(
                &node.whole(),
                "`log.access` has one log for all sites; logrotate cuts it, then `millrace reload`",
            ),
        }
    }
}
