//! A site block of a Caddyfile.

use super::check;
use super::lex::CaddyLine;
use crate::pattern;
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
    ("map", "there are no variables; redirects of a map belong into a file: `redirects = \"FILE.csv\"`"),
    ("vars", "there are no variables"),
    ("method", "the method is passed as it is"),
    ("copy_response", "responses are passed as they are"),
    ("intercept", "responses are passed as they are"),
    ("invoke", "named routes do not exist: write the rules where they apply"),
    ("mercure", "there is no Mercure hub in the server: run it beside, and name it in [[site.proxy]]"),
    ("vulcain", "there is no such module"),
    ("php", "Millrace runs PHP in workers of its own"),
];

/// What to write instead of passwords in the Caddyfile.
const PASSWORDS: &str = "put the users into a file as `htpasswd -B` writes it, and write auth = { users = \"FILE\" } instead of `deny`: until \
                         then, all requests are refused";

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

pub struct Converter<'a> {
    pub site: Site,
    pub options: &'a Options,
    /// Conditions of named matchers; `None`: Millrace has none like it.
    matchers: Vec<(String, Result<When, String>)>,
    serves_files: bool,
    /// Rules that end a request, and effects.
    effects: Vec<Block>,
    pub actions: Vec<Block>,
}

/// Converts a site, and adds it.
pub fn convert(block: &CaddyLine, options: &Options, adopted: &mut Adopted) {
    let mut converter = Converter {
        site: Site::new(block.source.clone()),
        options,
        matchers: Vec::new(),
        serves_files: false,
        effects: Vec::new(),
        actions: Vec::new(),
    };
    converter.addresses(block, adopted);
    converter.directives(&block.block, &When::new(), adopted);
    let Converter { mut site, effects, actions, serves_files, .. } = converter;
    if site.root.is_some() && !serves_files && site.php == Php::Off && site.proxies.is_empty() {
        let source = block.source.clone();
        site.notes.lost(&source, "without `file_server` Caddy sends no files of the root; Millrace does");
    }
    site.rules = effects.into_iter().chain(check::ordered(actions)).collect();
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

    fn directives(&mut self, nodes: &[CaddyLine], when: &When, adopted: &mut Adopted) {
        for node in nodes.iter().filter(|node| node.word(0).starts_with('@')) {
            let conditions = matcher(node);
            self.site.notes.carried(&node.whole());
            self.matchers.push((node.word(0).to_owned(), conditions));
        }
        for node in nodes.iter().filter(|node| !node.word(0).starts_with('@')) {
            self.directive(node, when, adopted);
        }
    }

    /// The conditions of a directive: its matcher, in the block's own.
    fn when(&self, node: &CaddyLine, when: &When) -> Result<(When, usize), String> {
        let word = node.word(1);
        let own = if word.starts_with('@') {
            match self.matchers.iter().find(|(name, _)| name == word) {
                Some((_, conditions)) => conditions.clone()?,
                None => return Err(format!("there is no matcher {word}")),
            }
        } else if word == "*" {
            When::new()
        } else if word.starts_with('/') {
            vec![("path", path(word).into())]
        } else {
            return Ok((when.clone(), 1));
        };
        Ok((both(when, own)?, 2))
    }

    fn directive(&mut self, node: &CaddyLine, outer: &When, adopted: &mut Adopted) {
        let name = node.word(0);
        // The first argument of these is no matcher although it begins with a slash.
        let takes_path = node.words.len() == 2 && matches!(name, "root" | "rewrite" | "uri" | "log");
        let (when, at) = match if takes_path { Ok((outer.clone(), 1)) } else { self.when(node, outer) } {
            Ok(found) => found,
            Err(why) => return self.site.notes.lost(&node.whole(), why),
        };
        let args: Vec<String> = node.words.iter().skip(at).cloned().collect();
        match name {
            "root" => self.root(node, &when, &args),
            "file_server" => self.file_server(node, &when),
            "php_fastcgi" | "php_server" => self.php(node, &args),
            "reverse_proxy" => self.proxy(node, &when, &args, false),
            "redir" => self.redirect(node, when, &args),
            "rewrite" => self.rewrite(node, when, &args),
            "try_files" => self.try_files(node, &args),
            "respond" => self.respond(node, when, &args),
            "error" => self.respond(node, when, &args),
            "abort" => self.action(&node.source, when, vec![("return", Toml::Number(403))]),
            "header" => self.header(node, when, &args),
            "basic_auth" | "basicauth" => self.closed(node, when, PASSWORDS.to_owned()),
            "forward_auth" => self.script(node, when, &args),
            "rate_limit" => self.limits(node, &when),
            "handle" | "route" | "handle_path" => {
                self.site.notes.carried(&node.source);
                let strips = name == "handle_path";
                self.handle(node, &when, strips, adopted);
            }
            "handle_errors" => self.errors(node),
            "tls" => self.tls(node, adopted),
            "log" => self.log(node, adopted),
            "request_header" | "uri" => {
                self.site.notes.lost(
                    &node.source,
                    "requests are passed as they are: an application behind a prefix has `strip`",
                );
            }
            _ => self.other(node),
        }
    }

    fn other(&mut self, node: &CaddyLine) {
        let find = |table: &[(&str, &'static str)]| {
            table.iter().find(|(known, _)| *known == node.word(0)).map(|(_, why)| *why)
        };
        match find(NEEDLESS) {
            Some(why) => self.site.notes.needless(&node.whole(), why),
            None => {
                let unknown = "adopt does not know it: docs/settings.md and docs/rules.md have what there is";
                self.site.notes.lost(&node.whole(), find(LOST).unwrap_or(unknown));
            }
        }
    }

    pub fn action(&mut self, source: &Source, when: When, keys: Vec<(&'static str, Toml)>) {
        let keys = when.into_iter().chain(keys).collect();
        self.actions.push(Block { source: source.clone(), keys, caveat: None });
        self.site.notes.carried(source);
    }

    /// Refuses what a password or a check protected, until the owner writes a rule that lets people in.
    pub fn closed(&mut self, node: &CaddyLine, when: When, why: String) {
        self.action(&node.source, when, vec![("deny", Toml::Switch(true))]);
        self.site.notes.lost(&node.whole(), why);
    }

    fn root(&mut self, node: &CaddyLine, when: &When, args: &[String]) {
        let root = args.first().cloned().unwrap_or_default();
        if !when.is_empty() || root.contains('{') {
            let why = ONE_FOLDER;
            return self.site.notes.lost(&node.source, why);
        }
        self.site.root = Some(root);
        self.site.notes.carried(&node.source);
    }

    fn file_server(&mut self, node: &CaddyLine, when: &When) {
        self.serves_files = true;
        self.site.notes.carried(&node.source);
        if node.words.iter().any(|word| word == "browse")
            || node.block.iter().any(|inner| inner.word(0) == "browse")
        {
            self.site.notes.lost(&node.source, "Millrace lists no folders: add an index.html");
        }
        for inner in &node.block {
            match inner.word(0) {
                "hide" => {
                    for name in inner.words.iter().skip(1) {
                        let pattern =
                            name.trim_start_matches("./").trim_end_matches("/*").trim_end_matches('/');
                        let pattern = format!("*/{}", pattern.trim_start_matches('/'));
                        if pattern.contains('{') || pattern.ends_with("/.git") {
                            self.site.notes.needless(&inner.source, "hidden files are never sent");
                            continue;
                        }
                        let keys = when.iter().filter(|(key, _)| *key != "path").cloned();
                        let path = ("path", Toml::List(vec![pattern.clone(), format!("{pattern}/*")]));
                        let keys = keys.chain([path, ("return", Toml::Number(404))]).collect();
                        self.actions.push(Block { source: inner.source.clone(), keys, caveat: None });
                        self.site.notes.carried(&inner.source);
                    }
                }
                "precompressed" => {
                    self.site.notes.needless(&inner.source, "`.br`, `.zst` and `.gz` beside a file are sent")
                }
                "index" => self
                    .site
                    .notes
                    .lost(&inner.source, "`files.index` is for all sites: index.php, index.html, index.htm"),
                "browse" => {}
                _ => self.site.notes.lost(&inner.source, "`root`, `files.index` and rules say what is sent"),
            }
        }
    }

    fn php(&mut self, node: &CaddyLine, args: &[String]) {
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

    fn try_files(&mut self, node: &CaddyLine, args: &[String]) {
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

    fn redirect(&mut self, node: &CaddyLine, when: When, args: &[String]) {
        let status = match args.get(1).map_or("", String::as_str) {
            "permanent" | "301" => 301,
            "" | "temporary" | "302" => 302,
            "303" => 303,
            "307" => 307,
            "308" => 308,
            _ => {
                return self
                    .site
                    .notes
                    .lost(&node.source, "the status of a redirect is 301, 302, 303, 307 or 308");
            }
        };
        match target(args.first().map_or("", String::as_str)) {
            Some(to) => {
                let status = (status != 301).then_some(("status", Toml::Number(status)));
                self.action(
                    &node.source,
                    when,
                    [("redirect", Toml::Text(to))].into_iter().chain(status).collect(),
                );
            }
            None => self.site.notes.lost(&node.source, "a target has $0 to $9 and $host: docs/rules.md"),
        }
    }

    fn rewrite(&mut self, node: &CaddyLine, when: When, args: &[String]) {
        match target(args.first().map_or("", String::as_str)).filter(|to| to.starts_with('/')) {
            Some(to) if when.is_empty() && to.ends_with(".php?") => {
                self.site.settings.set("front_controller", to.trim_end_matches('?'));
                self.site.notes.carried(&node.source);
            }
            Some(to) => self.action(&node.source, when, vec![("rewrite", to.into())]),
            None => self.site.notes.lost(&node.source, "a target has $0 to $9 and $host: docs/rules.md"),
        }
    }

    fn respond(&mut self, node: &CaddyLine, when: When, args: &[String]) {
        let (text, status) = match args {
            [one] => match one.parse::<u64>() {
                Ok(status) => (String::new(), status),
                Err(_) => (one.clone(), if node.word(0) == "error" { 500 } else { 200 }),
            },
            [text, status, ..] => (text.clone(), status.parse().unwrap_or(0)),
            [] => (String::new(), 200),
        };
        if text.contains('{') || !(status == 200 || (400..600).contains(&status)) {
            return self.site.notes.lost(
                &node.source,
                "a rule returns fixed text with 200 or 400 to 599: let a script respond",
            );
        }
        let text = (!text.is_empty()).then_some(("text", text.into()));
        self.action(&node.source, when, [("return", Toml::Number(status))].into_iter().chain(text).collect());
    }

    /// `header [matcher] Name value`, or a block of such lines; `-Name`, `+Name`, `?Name`.
    fn header(&mut self, node: &CaddyLine, when: When, args: &[String]) {
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
                self.site.notes.needless(&source, "Millrace tells no version");
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

    /// A block of directives for some requests.
    fn handle(&mut self, node: &CaddyLine, when: &When, strips: bool, adopted: &mut Adopted) {
        let proxy = node.block.iter().find(|inner| inner.word(0) == "reverse_proxy");
        match proxy {
            Some(proxy) if strips => {
                let args: Vec<String> =
                    proxy.words.iter().skip(1).filter(|word| !word.starts_with('@')).cloned().collect();
                self.proxy(proxy, when, &args, true);
                let rest: Vec<CaddyLine> =
                    node.block.iter().filter(|inner| inner.word(0) != "reverse_proxy").cloned().collect();
                self.directives(&rest, when, adopted);
            }
            _ if strips && node.block.iter().any(|inner| matches!(inner.word(0), "file_server" | "root")) => {
                let why = ONE_FOLDER;
                self.site.notes.lost(&node.whole(), why);
            }
            _ => self.directives(&node.block, when, adopted),
        }
    }

    fn proxy(&mut self, node: &CaddyLine, when: &When, args: &[String], strips: bool) {
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
        let paths = match when.as_slice() {
            [] => vec!["/".to_owned()],
            [("path", Toml::Text(path))] => vec![path.clone()],
            [("path", Toml::List(paths))] => paths.clone(),
            _ => Vec::new(),
        };
        let is_odd =
            |path: &String| path.trim_end_matches('*').contains('*') || to.iter().any(|to| to.contains('{'));
        if paths.is_empty() || to.is_empty() || paths.iter().any(is_odd) {
            let why = "`proxy.path` is a path, or with a slash at its end all below it; `proxy.to` has URLs";
            return self.site.notes.lost(&node.source, why);
        }
        self.site.notes.carried(&node.source);
        for path in paths {
            let path = if path == "*" { "/" } else { path.trim_end_matches('*') };
            let mut all = vec![("path", Toml::Text(path.to_owned())), ("to", Toml::one_or_list(to.clone()))];
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

    /// `handle_errors { rewrite * /404.html; file_server }`
    fn errors(&mut self, node: &CaddyLine) {
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

    fn tls(&mut self, node: &CaddyLine, adopted: &mut Adopted) {
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

    fn log(&mut self, node: &CaddyLine, adopted: &mut Adopted) {
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

/// The conditions of a named matcher.
pub fn matcher(node: &CaddyLine) -> Result<When, String> {
    let lines: Vec<Vec<String>> = if node.words.len() > 1 {
        vec![node.words[1..].to_vec()]
    } else {
        node.block.iter().map(|inner| inner.words.clone()).collect()
    };
    let mut when = When::new();
    for line in lines {
        let (name, args) = (line[0].as_str(), line[1..].to_vec());
        let condition = match name {
            "path" => ("path", Toml::List(args.iter().map(|arg| path(arg)).collect())),
            "path_regexp" => {
                ("regex", Toml::Regex(pattern::carried(args.last().map_or("", String::as_str), false)?.text))
            }
            "host" => ("host", Toml::List(args)),
            "method" => ("method", Toml::List(args)),
            "remote_ip" | "client_ip" => (
                "from",
                Toml::List(args.into_iter().filter(|arg| arg != "forwarded").flat_map(networks).collect()),
            ),
            "header" if args.len() == 2 => ("header", Toml::List(vec![format!("{}: {}", args[0], args[1])])),
            "query" => {
                ("query", Toml::List(args.iter().map(|arg| arg.trim_end_matches("=*").to_owned()).collect()))
            }
            "not" => match args.first().map(String::as_str) {
                Some("path") => ("unless_path", Toml::List(args[1..].iter().map(|arg| path(arg)).collect())),
                Some("remote_ip" | "client_ip") => {
                    ("unless_from", Toml::List(args[1..].iter().cloned().flat_map(networks).collect()))
                }
                _ => {
                    return Err(
                        "rules have `unless_path` and `unless_from`, and no other negation".to_owned()
                    );
                }
            },
            _ => return Err(format!("rules have no condition like `{name}`: docs/rules.md")),
        };
        when.push(condition);
    }
    Ok(when)
}

/// The two sets of conditions together.
pub fn both(outer: &When, own: When) -> Result<When, String> {
    let clash = |key: &str| outer.iter().any(|(known, _)| *known == key);
    let is_path = |key: &str| key == "path" || key == "regex";
    if own.iter().any(|(key, _)| clash(key))
        || (outer.iter().any(|(key, _)| is_path(key)) && own.iter().any(|(key, _)| is_path(key)))
    {
        return if outer.iter().all(|(key, _)| is_path(key)) {
            // The inner path is usually below the outer one.
            Ok(own)
        } else {
            Err("the conditions of both blocks together are more than a rule has".to_owned())
        };
    }
    Ok(outer.iter().cloned().chain(own).collect())
}

/// `private_ranges` is a list of networks.
fn networks(text: String) -> Vec<String> {
    match text.as_str() {
        "private_ranges" => {
            ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::1"]
                .map(str::to_owned)
                .to_vec()
        }
        _ => vec![text],
    }
}

/// A path of Caddy is exact, or has a `*`.
fn path(text: &str) -> String {
    text.to_owned()
}

/// `https://{host}{uri}` as a rule has it; Caddy drops the query unless it is in the target.
fn target(text: &str) -> Option<String> {
    let mut to = text
        .replace("{scheme}://{host}", "https://$host")
        .replace("{host}", "$host")
        .replace("{hostport}", "$host")
        .replace("{uri}", "$0");
    let keeps = text.ends_with("{uri}") || text.ends_with("?{query}");
    to = to.replace("?{query}", "").replace("{path}", "$0");
    for (from, group) in [("{re.1}", "$1"), ("{re.2}", "$2"), ("{re.3}", "$3")] {
        to = to.replace(from, group);
    }
    let fits = !to.contains('{') && (to.starts_with('/') || to.starts_with("http") || to.starts_with("$0"));
    let to = if keeps || to.contains('?') { to } else { format!("{to}?") };
    fits.then_some(to)
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
