//! A virtual host of OpenLiteSpeed.

use super::lex::Entry;
use crate::merge;
use crate::pattern;
use crate::value::{Adopted, Block, CHALLENGES, INDEX, ONE_FOLDER, Options, Php, Site, Toml};

/// What the variables of a configuration stand for.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// `$SERVER_ROOT`.
    pub root: String,
    /// `$VH_NAME`.
    pub name: String,
    /// `$VH_ROOT`.
    pub host_root: String,
}

impl Names {
    /// Replaces the variables.
    pub fn expand(&self, text: &str) -> String {
        text.replace("$SERVER_ROOT", &self.root)
            .replace("$VH_ROOT", &self.host_root)
            .replace("$VH_NAME", &self.name)
    }
}

/// Converts the content of a virtual host.
pub fn of_nodes(site: &mut Site, nodes: &[Entry], names: &Names, options: &Options, adopted: &mut Adopted) {
    // Without a script handler of its own, a virtual host has the server's.
    if site.php == Php::Off {
        site.php = Php::Own;
    }
    for node in nodes {
        let source = &node.source;
        match node.name.as_str() {
            "docroot" => {
                site.root = Some(names.expand(&node.value).trim_end_matches('/').to_owned());
                site.notes.carried(source);
            }
            "vhdomain" | "vhaliases" => {
                for name in node.value.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                    site.name(&names.expand(name));
                }
                site.notes.carried(source);
            }
            "extprocessor" => processor(site, node, options),
            "scripthandler" => site.notes.needless(&node.whole(), "PHP runs files that end with .php"),
            "phpinioverride" => ini(site, node),
            "rewrite" => rewrite(site, node),
            "context" => context(site, node, nodes, names),
            "vhssl" => {
                if !node.get("keyfile").is_empty() {
                    adopted
                        .certificate(&names.expand(node.get("certfile")), &names.expand(node.get("keyfile")));
                    site.secure = true;
                }
                site.notes.carried(&node.whole());
            }
            "errorlog" | "accesslog" => {
                if node.get("useserver") != "1" {
                    let mut own = node.clone();
                    own.value = names.expand(&own.value);
                    log(&own, &names.root, adopted);
                }
            }
            "errorpage" => error_page(site, node),
            "accesscontrol" => access(site, node, &[]),
            "websocket" => {
                let to = Toml::Text(format!("http://{}", node.get("address")));
                let keys = vec![("path", node.value.as_str().into()), ("to", to)];
                site.proxy(Block { source: source.clone(), keys, caveat: None });
                site.notes.carried(&node.whole());
            }
            "realm" => {
                site.notes.lost(&node.whole(), "write a rule with `auth` for its paths: docs/rules.md")
            }
            "index" => index(site, node),
            "adminemails" | "enablegzip" | "enablebr" | "enableipgeo" | "cgroups" | "expires" | "general"
            | "module" | "awstats" | "hotlinkctrl" | "allowbrowse" | "autoindex" | "serverindex"
            | "lsrecaptcha" | "note" => hosts_own(site, node),
            _ => {
                site.notes.lost(&node.whole(), "not supported by adopt; docs/settings.md lists the settings")
            }
        }
    }
}

fn hosts_own(site: &mut Site, node: &Entry) {
    let is_on = |key: &str| node.get(key) == "1";
    if is_on("enablehotlinkctrl") {
        site.notes.lost(
            &node.whole(),
            "a rule with `header = \"Referer: ...\"` refuses requests of other sites: docs/rules.md",
        );
    } else if node.is("autoindex") && node.value == "1" {
        site.notes.lost(&node.source, "Millrace lists no folders: add an index.html");
    } else {
        site.notes.needless(&node.whole(), "compression, caching and HTTP/2 are on; folders are not listed");
    }
}

/// PHP by LSAPI is the server's own; another program is an application.
fn processor(site: &mut Site, node: &Entry, options: &Options) {
    let address = node.get("address").replace("UDS:/", "unix:").replace("uds:/", "unix:");
    match node.get("type") {
        "fcgi" if options.keep_fpm && !address.is_empty() => {
            site.php = Php::Fastcgi(vec![address.replace("unix://", "unix:/")]);
            site.notes.carried(&node.whole());
        }
        "proxy" => site.notes.carried(&node.whole()),
        _ => {
            if !node.get("extuser").is_empty() {
                site.settings.set("php.user", node.get("extuser"));
            }
            site.notes
                .needless(&node.whole(), "Millrace runs PHP in workers of its own; --keep-fpm keeps php-fpm");
        }
    }
}

/// Lines of `php_admin_value memory_limit 256M`.
fn ini(site: &mut Site, node: &Entry) {
    for inner in &node.inner {
        let (key, value) = inner.value.split_once(char::is_whitespace).unwrap_or((&inner.value, ""));
        if key == "open_basedir" {
            site.notes.lost(
                &inner.source,
                "`php.open_basedir`, `php.sandbox` and `php.folders` keep scripts in the site's folders",
            );
            continue;
        }
        let value = match (inner.name.ends_with("flag"), value.trim().trim_matches('"')) {
            (true, value) => Toml::Switch(matches!(value.to_ascii_lowercase().as_str(), "on" | "1")),
            (false, value) => value.into(),
        };
        site.settings.set(&format!("php.ini.{}", crate::write::name(key)), value);
        site.notes.carried(&inner.source);
    }
    site.notes.carried(&node.source);
}

fn rewrite(site: &mut Site, node: &Entry) {
    let is_off = node.get("enable") == "0";
    if node.get("autoloadhtaccess") == "0" {
        site.settings.set("htaccess", "off");
    }
    site.notes.carried(&node.source);
    for inner in &node.inner {
        if !inner.is("rules") || inner.value.is_empty() || is_off {
            site.notes.needless(
                &inner.source,
                "`htaccess` says whether .htaccess files count; they do as soon as they change",
            );
        } else if inner.value.contains("index.php") && inner.value.contains("!-f") {
            site.settings.set("front_controller", "/index.php");
            site.notes.carried(&inner.source);
        } else if inner.value.to_ascii_lowercase().contains("rewritefile") {
            site.notes.needless(&inner.source, ".htaccess files are read by themselves");
        } else {
            let text = inner.value.replace('\n', "; ");
            let source = crate::value::Source { text: format!("rules {text}"), ..inner.source.clone() };
            let why = "write them into the .htaccess file of the root, where Millrace applies them (docs/htaccess.md)";
            site.notes.lost(&source, why);
        }
    }
}

/// `context /path/ { type ...; location ... }`
fn context(site: &mut Site, node: &Entry, nodes: &[Entry], names: &Names) {
    let uri = node.value.clone();
    let root = site.root.clone().unwrap_or_default();
    let when = match uri.strip_prefix("exp:") {
        Some(regex) => match pattern::carried(regex.trim(), false) {
            Ok(carried) => vec![("regex", Toml::Regex(carried.text))],
            Err(why) => return site.notes.lost(&node.whole(), why),
        },
        None if uri == "/" => Vec::new(),
        None => vec![("path", Toml::Text(format!("{}*", uri)))],
    };
    let rule = |keys: Vec<(&'static str, Toml)>| Block {
        source: node.source.clone(),
        keys: when.iter().cloned().chain(keys).collect(),
        caveat: None,
    };
    match node.get("type").to_ascii_lowercase().as_str() {
        "redirect" => return redirect(site, node, &uri, rule),
        "proxy" | "webserver" => return proxy(site, node, nodes, &uri),
        "cgi" | "servlet" | "appserver" | "lsapi" | "fcgi" => {
            let why = "Millrace starts no other programs: let the application have a server of its own, and name it in [[site.proxy]]";
            return site.notes.lost(&node.whole(), why);
        }
        _ => {}
    }
    let location = names.expand(node.get("location")).replace("$DOC_ROOT", &root);
    let is_own = location.is_empty()
        || location.trim_end_matches('/') == format!("{root}{uri}").trim_end_matches('/')
        || !location.starts_with('/');
    if uri.starts_with(CHALLENGES) && is_own {
        return site.notes.needless(&node.whole(), "`https.acme` answers certificate authorities by itself");
    }
    if uri.starts_with(CHALLENGES) {
        // The folder of certbot or its like: renewals go on until `https.acme` is set.
        let path = format!("{}/*", uri.trim_end_matches('/'));
        let keys = vec![("path", path.into()), ("alias", location.trim_end_matches('/').into())];
        let source = node.source.clone();
        merge::open_challenges(vec![Block { source, keys, caveat: None }], &mut site.rules);
        return site.notes.carried(&node.whole());
    }
    if !is_own {
        return site.notes.lost(&node.whole(), ONE_FOLDER);
    }
    if node.get("allowbrowse") == "0" {
        site.rules.push(rule(vec![("deny", Toml::Switch(true))]));
    }
    site.rules.extend(effects(node).into_iter().map(|key| rule(vec![key])));
    if !node.get("realm").is_empty() {
        // Refused until the owner names the file of users.
        site.rules.push(rule(vec![("deny", Toml::Switch(true))]));
        let why = "write auth = { users = \"FILE\" } with the file of the realm instead of `deny`: until then, all requests are refused";
        site.notes.lost(&node.whole(), why);
    }
    for inner in &node.inner {
        match inner.name.as_str() {
            "accesscontrol" => access(site, inner, &when),
            "rewrite" if uri == "/" || inner.get("rules").is_empty() => rewrite(site, inner),
            "rewrite" => site
                .notes
                .lost(&inner.whole(), "write them into a .htaccess file of the folder (docs/htaccess.md)"),
            "phpinioverride" if inner.inner.is_empty() => {}
            "phpinioverride" => site.notes.lost(&inner.whole(), "`php.ini` is for the whole site"),
            _ => {}
        }
    }
    site.notes.carried(&node.whole());
}

/// A context of type `redirect`.
fn redirect(site: &mut Site, node: &Entry, uri: &str, rule: impl Fn(Vec<(&'static str, Toml)>) -> Block) {
    let status = node.get("statuscode").parse::<u64>().unwrap_or(302);
    let to = node.get("location");
    if !matches!(status, 301 | 302 | 303 | 307 | 308) || !(to.starts_with('/') || to.starts_with("http")) {
        let why = "a redirect leads to a path or a URL, with 301, 302, 303, 307 or 308";
        return site.notes.lost(&node.whole(), why);
    }
    let to = if to.ends_with('/') && uri.ends_with('/') { format!("{to}$1") } else { to.to_owned() };
    let status = (status != 301).then_some(("status", Toml::Number(status)));
    site.rules.push(rule([("redirect", Toml::Text(to))].into_iter().chain(status).collect()));
    site.notes.carried(&node.whole());
}

/// Header fields and expiry of a context.
fn effects(node: &Entry) -> Vec<(&'static str, Toml)> {
    let mut effects = Vec::new();
    for line in node.get("extraheaders").lines().map(str::trim).filter(|line| !line.is_empty()) {
        let line =
            line.trim_start_matches("Header ").trim_start_matches("always ").trim_start_matches("set ");
        let (name, value) = line.split_once([':', ' ']).unwrap_or((line, ""));
        let field = (name.trim().to_owned(), value.trim().trim_matches('"').into());
        effects.push(("set_header", Toml::Table(vec![field])));
    }
    let seconds = node.get("expiresdefault").strip_prefix('A').and_then(|text| text.parse::<u64>().ok());
    effects.extend(seconds.map(|seconds| ("expires", format!("{seconds}s").into())));
    effects
}

fn proxy(site: &mut Site, node: &Entry, nodes: &[Entry], uri: &str) {
    let handler = node.get("handler");
    let processor = nodes.iter().find(|other| other.is("extprocessor") && other.value == handler);
    let address = processor.map(|processor| processor.get("address")).unwrap_or_default();
    if address.is_empty() || !uri.starts_with('/') {
        return site.notes.lost(
            &node.whole(),
            "the processor of this name is not in the virtual host: name its URL in [[site.proxy]]",
        );
    }
    let to = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    for path in crate::listen::proxy_paths(uri, false) {
        let keys = vec![("path", Toml::Text(path)), ("to", to.clone().into())];
        site.proxy(Block { source: node.source.clone(), keys, caveat: None });
    }
    site.notes.carried(&node.whole());
}

/// `accessControl { allow 10.0.0.0/8; deny ALL }`
fn access(site: &mut Site, node: &Entry, when: &[(&'static str, Toml)]) {
    let list = |name: &str| -> Vec<String> {
        let words = node.get(name).split([',', ' ']).map(|word| word.trim().trim_end_matches('T').to_owned());
        words.filter(|word| !word.is_empty()).collect()
    };
    let is_all =
        |word: &String| word == "*" || word.eq_ignore_ascii_case("all") || word.eq_ignore_ascii_case("al");
    let (allow, deny) = (list("allow"), list("deny"));
    let keys = match (allow.iter().any(is_all), deny.iter().any(is_all)) {
        (_, true) if allow.is_empty() || allow.iter().any(is_all) => vec![("deny", Toml::Switch(true))],
        (_, true) => vec![("unless_from", Toml::List(allow)), ("deny", Toml::Switch(true))],
        (_, false) if !deny.is_empty() => vec![("from", Toml::List(deny)), ("deny", Toml::Switch(true))],
        _ => return site.notes.needless(&node.whole(), "every client may connect"),
    };
    let keys = when.iter().cloned().chain(keys).collect();
    site.rules.push(Block { source: node.source.clone(), keys, caveat: None });
    site.notes.carried(&node.whole());
}

/// `errorpage 404 { url /404.html }`
fn error_page(site: &mut Site, node: &Entry) {
    let url = node.get("url");
    if !url.starts_with('/') {
        return site.notes.lost(&node.whole(), "an error page is a path of the site");
    }
    let table = Toml::Table(vec![(node.value.clone(), url.into())]);
    site.rules.push(Block { source: node.source.clone(), keys: vec![("error_page", table)], caveat: None });
    site.notes.carried(&node.whole());
}

fn index(site: &mut Site, node: &Entry) {
    match node
        .get("indexfiles")
        .split(',')
        .map(str::trim)
        .find(|name| !name.is_empty() && !INDEX.contains(name))
    {
        None => site.notes.needless(&node.whole(), "`files.index` is index.php, index.html, index.htm"),
        Some(_) => site.notes.lost(&node.whole(), "`files.index` is for all sites: add the name there"),
    }
}

/// A log. Millrace has one for all sites: the first.
pub fn log(node: &Entry, root: &str, adopted: &mut Adopted) {
    let key = if node.is("accesslog") { "log.access" } else { "log.error" };
    let file = node.value.replace("$SERVER_ROOT", root);
    if file.is_empty() {
        return adopted.notes.needless(&node.whole(), "the log of the server");
    }
    let file = if file.starts_with('/') { file } else { format!("{root}/{file}") };
    match adopted.settings.get(key) {
        None => {
            adopted.settings.set(key, file);
            adopted.notes.carried(&node.whole());
        }
        Some(Toml::Text(known)) if *known == file => adopted.notes.carried(&node.whole()),
        Some(_) => adopted
            .notes
            .lost(&node.whole(), format!("there is one log for all sites, with the host in `json`: {key}")),
    }
}
