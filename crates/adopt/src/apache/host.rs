//! A virtual host.

use super::read::Item;
use super::rewrite::RewritePlace;
use super::section::{self, Access};
use super::{MainServer, rewrite, table};
use crate::listen;
use crate::merge;
use crate::pattern;
use crate::value::{Adopted, Block, CHALLENGES, INDEX, OPEN, Php, Site, Source, Toml, When};

/// What is collected of a host before its rules have an order.
pub struct Host<'a> {
    pub site: Site,
    pub server: &'a MainServer,
    root: String,
    preserves_host: bool,
    /// `BalancerMember`s by the name of their balancer.
    balancers: Vec<(String, Vec<String>)>,
    effects: Vec<Block>,
    /// Folders for certificate authorities.
    challenges: Vec<Block>,
    /// Of rewrite rules, which Apache applies before `Redirect`.
    pub actions: Vec<Block>,
    redirects: Vec<Block>,
    /// Access control of each section, and which of them decides.
    access: Vec<(SectionRank, bool, Vec<Block>)>,
    /// The most specific folder whose `AllowOverride` counts.
    overrides: usize,
}

/// Apache merges sections of folders by their length, then those of files, then those of locations; the last one decides.
type SectionRank = (u8, usize, usize);

/// Converts a `<VirtualHost>`, and adds it.
pub fn convert(section: &Item, server: &MainServer, adopted: &mut Adopted) {
    let mut site = Site::new(section.source.clone());
    site.notes.carried(&section.source);
    let turns_on =
        section.items().iter().any(|item| item.name == "sslengine" && item.arg(0).eq_ignore_ascii_case("on"));
    for text in &section.args {
        let address = listen::address(text, 80);
        let secure = turns_on || address.as_deref().and_then(listen::port) == Some(443);
        let Some(address) = address else {
            site.notes.lost(&section.source, "the address of a host is an address and a port");
            continue;
        };
        adopted.settings.add(if secure { "https.listen" } else { "server.listen" }, &address);
        site.secure |= secure;
        site.plain |= !secure;
        site.default |= text.starts_with("_default_");
    }
    // What the server says outside of hosts holds for each host, unless it says otherwise.
    let has = |name: &str| section.items().iter().any(|item| item.name == name && item.inner.is_none());
    let inherited = server.inherited.iter().filter(|item| item.is_section() || !has(&item.name));
    let inherited = inherited.filter(|item| !matches!(item.name.as_str(), "documentroot" | "servername"));
    let items: Vec<Item> = inherited.chain(section.items()).cloned().collect();
    of_items(site, &items, server, adopted);
}

/// Converts the items of a host, and adds it.
pub fn of_items(site: Site, items: &[Item], server: &MainServer, adopted: &mut Adopted) {
    let of = |name: &str| items.iter().rev().find(|item| item.name == name);
    let root =
        of("documentroot").map(|item| item.arg(0).trim_end_matches('/').to_owned()).unwrap_or_default();
    let preserves_host = of("proxypreservehost").is_some_and(|item| item.arg(0).eq_ignore_ascii_case("on"));
    let mut host = Host {
        site,
        server,
        root,
        preserves_host,
        balancers: Vec::new(),
        effects: Vec::new(),
        challenges: Vec::new(),
        actions: Vec::new(),
        redirects: Vec::new(),
        access: Vec::new(),
        overrides: 0,
    };
    host.find_balancers(items);
    host.scope(items, &When::new(), None, adopted);
    if let Some(at) = host.site.settings.0.iter().position(|(key, _)| key == "certificate")
        && let (_, Toml::Text(file)) = host.site.settings.0.remove(at)
    {
        // Without a file of its own, the key is in the certificate's.
        adopted.certificate(&file, &file);
    }
    if host.site.php == Php::Off && host.site.proxies.is_empty() && host.site.root.is_some() {
        // With mod_php nothing in a virtual host says that PHP runs.
        host.site.php = Php::Own;
    }
    let Host { mut site, effects, challenges, actions, redirects, mut access, .. } = host;
    // In Apache the last section decides about access; here the first rule.
    access.sort_by_key(|(rank, ..)| std::cmp::Reverse(*rank));
    // Of those for the whole site only the last counts.
    let whole = access.iter().position(|(_, is_whole, _)| *is_whole).unwrap_or(access.len());
    let mut number = 0;
    access.retain(|(_, is_whole, _)| {
        number += 1;
        !is_whole || number - 1 == whole
    });
    let access = access.into_iter().flat_map(|(.., rules)| rules);
    site.rules = effects.into_iter().chain(actions).chain(redirects).chain(access).collect();
    merge::open_challenges(challenges, &mut site.rules);
    adopted.sites.push(site);
}

impl Host<'_> {
    /// The directives of the host, or of one of its sections.
    fn scope(&mut self, items: &[Item], when: &When, section: Option<&Item>, adopted: &mut Adopted) {
        let mut access = Access::default();
        let mut rewrites = rewrite::Rewrites::default();
        let place = match section {
            None => RewritePlace::Host,
            Some(_) if when.is_empty() => RewritePlace::Root,
            Some(_) => RewritePlace::Part,
        };
        for item in items {
            if access.take(item, &mut self.site.notes) || rewrites.take(item, self, place) {
                continue;
            }
            match item.is_section() {
                true => self.section(item, when, adopted),
                false => self.directive(item, when, section, adopted),
            }
        }
        if access.is_written() {
            let rank = match section.map(|section| (section.name.as_str(), section.arg(0).len())) {
                None => (0, 0, self.access.len()),
                Some(("directory", length)) => (0, length, self.access.len()),
                Some(("files" | "filesmatch", _)) => (1, 0, self.access.len()),
                Some(_) => (2, 0, self.access.len()),
            };
            let guarded = if rank.0 == 1 { section::guarded(when, &INDEX) } else { when.clone() };
            let mut rules = access.rules(&guarded);
            if guarded != *when {
                let caveat = "and for folders, which are answered with their index file";
                rules.iter_mut().for_each(|rule| rule.caveat = Some(caveat.to_owned()));
            }
            self.access.push((rank, when.is_empty(), rules));
        }
    }

    fn section(&mut self, item: &Item, outer: &When, adopted: &mut Adopted) {
        if matches!(
            item.name.as_str(),
            "limit" | "limitexcept" | "proxy" | "proxymatch" | "else" | "elseif" | "if" | "macro"
        ) {
            return self.special(item);
        }
        match section::when(item, &self.root) {
            Ok(mut own) => {
                if !outer.is_empty() && !own.is_empty() {
                    own = match within(outer, &own) {
                        Some(both) => both,
                        None => {
                            return self
                                .site
                                .notes
                                .lost(&item.whole(), "write one rule for both sections: docs/rules.md");
                        }
                    };
                } else if own.is_empty() {
                    own.clone_from(outer);
                }
                self.site.notes.carried(&item.source);
                self.scope(item.items(), &own, Some(item), adopted);
            }
            Err(why) if why.is_empty() => {
                self.site.notes.needless(&item.whole(), "Millrace sends files of the sites' roots only");
            }
            Err(why) => {
                self.site.notes.lost(&item.whole(), format!("{why}{}", open(item)));
            }
        }
    }

    /// `<Proxy>`, `<Limit>`, `<If>`.
    fn special(&mut self, item: &Item) {
        let is_balancer = item.arg(0).starts_with("balancer://");
        let harmless = item.items().iter().all(|inner| {
            is_balancer
                || matches!(inner.name.as_str(), "order" | "allow" | "require" | "proxyset" | "setenv")
        });
        if item.name.starts_with("proxy") && harmless {
            self.site.notes.needless(
                &item.whole(),
                "Millrace is no forward proxy; the copy with the fewest requests gets the next",
            );
        } else {
            let why = "a rule has `method`, `path`, `header` and `from` as conditions; in a .htaccess file <If> works";
            self.site.notes.lost(&item.whole(), format!("{why}{}", open(item)));
        }
    }

    fn find_balancers(&mut self, items: &[Item]) {
        for item in items.iter().filter(|item| item.name == "proxy" && item.arg(0).starts_with("balancer://"))
        {
            let members = item.items().iter().filter(|inner| inner.name == "balancermember");
            let members = members.map(|inner| inner.arg(0).trim_end_matches('/').to_owned()).collect();
            self.balancers.push((item.arg(0).trim_end_matches('/').to_owned(), members));
        }
    }

    fn directive(&mut self, item: &Item, when: &When, section: Option<&Item>, adopted: &mut Adopted) {
        let source = &item.source;
        match item.name.as_str() {
            "servername" | "serveralias" => self.names(item),
            "documentroot" => {
                self.site.root = Some(item.arg(0).to_owned());
                self.site.notes.carried(source);
            }
            "sslengine" => self.site.notes.carried(source),
            "sslcertificatefile"
            | "sslcertificatekeyfile"
            | "sslcertificatechainfile"
            | "sslcacertificatefile"
            | "sslverifyclient" => self.tls(item, adopted),
            "customlog" | "errorlog" => self.log(item, adopted),
            "redirect" | "redirectpermanent" | "redirecttemp" | "redirectmatch" => {
                self.redirect(item, section)
            }
            "header" => self.header(item, when),
            "expiresbytype" | "expiresdefault" => self.expires(item, when),
            "errordocument" => self.error_document(item, when),
            "alias" | "aliasmatch" => self.alias(item),
            "proxypass" | "proxypassmatch" => self.proxy(item, section),
            "sethandler" => self.handler(item),
            "fallbackresource" => self.fallback(item, when),
            "directoryindex" => self.index(item),
            "allowoverride" => self.override_of(item, when, section),
            "allowoverridelist" => {
                self.site.notes.needless(source, "`.htaccess` files may say what docs/htaccess.md has")
            }
            "options" => self.options(item),
            "setenv" if item.arg(0).to_ascii_lowercase().starts_with("rate-") => {
                self.site.notes.lost(
                    source,
                    "responses are not slowed down; requests have `limit` of a rule: docs/rules.md",
                );
            }
            "setenv" => {
                self.site.settings.set(&format!("php.env.{}", crate::write::name(item.arg(0))), item.arg(1));
                self.site.notes.carried(source);
            }
            "php_value" | "php_admin_value" | "php_flag" | "php_admin_flag" => self.php_value(item),
            "limitrequestbody" => {
                let bytes = item.arg(0).parse::<u64>().unwrap_or(0);
                self.site
                    .settings
                    .set("body_bytes", if bytes == 0 { "1TB".to_owned() } else { format!("{bytes}B") });
                self.site.notes.carried(source);
            }
            _ => table::tell(item, &mut self.site.notes),
        }
    }

    fn names(&mut self, item: &Item) {
        for name in &item.args {
            let name = name.split_once("://").map_or(name.as_str(), |(_, name)| name);
            let name = name.split(':').next().unwrap_or_default();
            if name.trim_start_matches("*.").contains(['*', '?']) {
                self.site
                    .notes
                    .lost(&item.source, "a `*` stands at the beginning of a name: write each name");
            } else {
                self.site.name(name);
            }
        }
        self.site.notes.carried(&item.source);
    }

    fn tls(&mut self, item: &Item, adopted: &mut Adopted) {
        let source = &item.source;
        match item.name.as_str() {
            "sslcertificatefile" => self.site.settings.set("certificate", item.arg(0)),
            "sslcertificatekeyfile" => {
                match self.site.settings.0.iter().position(|(key, _)| key == "certificate") {
                    Some(at) => {
                        if let (_, Toml::Text(cert)) = self.site.settings.0.remove(at) {
                            adopted.certificate(&cert, item.arg(0));
                        }
                    }
                    None => {
                        return self.site.notes.lost(source, "write the certificate and its key as [[tls]]");
                    }
                }
            }
            "sslcacertificatefile" => self.site.settings.set("client_ca", item.arg(0)),
            "sslverifyclient" => {
                let verify = match item.arg(0).to_ascii_lowercase().as_str() {
                    "require" => "required",
                    "none" => "off",
                    _ => "optional",
                };
                self.site.settings.set("client_verify", verify);
            }
            _ => {
                return self
                    .site
                    .notes
                    .lost(source, "append this file to the certificate: a `cert` has its chain in it");
            }
        }
        self.site.notes.carried(source);
    }

    /// A log. Millrace has one for all sites: the first.
    fn log(&mut self, item: &Item, adopted: &mut Adopted) {
        let key = if item.name == "customlog" { "log.access" } else { "log.error" };
        let (file, source) = (item.arg(0), &item.source);
        if file.starts_with('|') || file.starts_with("syslog") || file == "/dev/null" {
            return self.site.notes.lost(
                source,
                "logs go to a file, or errors to stderr, from where the service manager takes them",
            );
        }
        match adopted.settings.get(key) {
            None => {
                adopted.settings.set(key, file);
                self.site.notes.carried(source);
            }
            Some(Toml::Text(known)) if known == file => self.site.notes.carried(source),
            Some(_) => self
                .site
                .notes
                .lost(source, format!("there is one log for all sites, with the host in `json`: {key}")),
        }
    }

    /// `Redirect [status] /from to`; in a section, only `Redirect [status] to`.
    fn redirect(&mut self, item: &Item, section: Option<&Item>) {
        let source = &item.source;
        let word = item.arg(0).to_ascii_lowercase();
        let (status, rest) = match (item.name.as_str(), word.as_str()) {
            ("redirectpermanent", _) => (301, &item.args[..]),
            ("redirecttemp", _) => (302, &item.args[..]),
            (_, "permanent") => (301, &item.args[1..]),
            (_, "temp") => (302, &item.args[1..]),
            (_, "seeother") => (303, &item.args[1..]),
            (_, "gone") => (410, &item.args[1..]),
            (_, number) if number.parse::<u64>().is_ok() => (number.parse().unwrap_or(302), &item.args[1..]),
            _ => (302, &item.args[..]),
        };
        let section_path =
            section.filter(|section| section.name == "location").map(|section| section.arg(0).to_owned());
        let (from, to) = match (rest, section_path) {
            ([from, to], None) => (from.clone(), to.clone()),
            ([from], None) if status >= 400 => (from.clone(), String::new()),
            ([to], Some(from)) => (from, to.clone()),
            _ => {
                return self
                    .site
                    .notes
                    .lost(source, "write a rule with `path` and `redirect`: docs/rules.md");
            }
        };
        let condition = if item.name == "redirectmatch" {
            match pattern::carried(&from, false) {
                Ok(carried) => Some(("regex", Toml::Regex(carried.text))),
                Err(why) => return self.site.notes.lost(source, why),
            }
        } else if from == "/" {
            None
        } else {
            let plain = from.trim_end_matches('/');
            let rest = if from.ends_with('/') { "/(.*)$" } else { "(/.*)?$" };
            Some(("regex", Toml::Regex(format!("^{}{rest}", pattern::escaped(plain)))))
        };
        let mut keys: Vec<(&'static str, Toml)> = condition.into_iter().collect();
        if (400..600).contains(&status) {
            keys.push(("return", Toml::Number(status)));
        } else {
            let to = match (item.name.as_str(), from.as_str()) {
                ("redirectmatch", _) => to,
                (_, "/") => format!("{}$0", to.trim_end_matches('/')),
                _ => format!("{to}$1"),
            };
            if !to.starts_with('/') && !to.starts_with("http") {
                return self.site.notes.lost(source, "a redirect leads to a path or a URL");
            }
            keys.push(("redirect", to.into()));
            keys.extend((status != 301).then_some(("status", Toml::Number(status))));
        }
        self.site.notes.carried(source);
        self.redirects.push(Block { source: source.clone(), keys, caveat: None });
    }

    /// `Header [always] set Name "value"`
    fn header(&mut self, item: &Item, when: &When) {
        let source = &item.source;
        let always = item.arg(0).eq_ignore_ascii_case("always");
        let at = usize::from(always || item.arg(0).eq_ignore_ascii_case("onsuccess"));
        let (what, name, value) = (item.arg(at).to_ascii_lowercase(), item.arg(at + 1), item.arg(at + 2));
        let name = name.trim_end_matches(':');
        let odd = value.contains('%') && value.contains('{')
            || value.starts_with("expr=")
            || item.args.len() > at + 3;
        let keys = match what.as_str() {
            _ if odd => None,
            "unset" => Some(("unset_header", Toml::List(vec![name.to_owned()]))),
            "set" | "setifempty" => Some(("set_header", Toml::Table(vec![(name.to_owned(), value.into())]))),
            "append" | "add" | "merge" => {
                Some(("add_header", Toml::Table(vec![(name.to_owned(), value.into())])))
            }
            _ => None,
        };
        let Some(change) = keys else {
            let why = "a rule sets, adds and removes fields with fixed values; a .htaccess file can do more (docs/htaccess.md)";
            return self.site.notes.lost(source, why);
        };
        self.site.notes.carried(source);
        // Lines that follow each other are one rule.
        if let Some(Block { keys, .. }) = self.effects.last_mut()
            && let Some(((known, Toml::Table(table)), before)) = keys.split_last_mut()
            && let (key, Toml::Table(more)) = &change
            && known == key
            && before == when.as_slice()
        {
            return table.extend(more.iter().cloned());
        }
        let keys = when.iter().cloned().chain([change]).collect();
        self.effects.push(Block { source: source.clone(), keys, caveat: None });
    }

    /// `ExpiresByType image/png "access plus 1 month"`
    fn expires(&mut self, item: &Item, when: &When) {
        let by_type = item.name == "expiresbytype";
        let text = item.args.iter().skip(usize::from(by_type)).cloned().collect::<Vec<_>>().join(" ");
        let Some(time) = duration(&text) else {
            return self
                .site
                .notes
                .lost(&item.source, "`expires` of a rule is a time after the request: docs/rules.md");
        };
        self.site.notes.carried(&item.source);
        if by_type
            && let Some(last) = self.effects.last_mut()
            && last.get("expires") == Some(&Toml::Text(time.clone()))
            && last.keys.len() == when.len() + 2
            && last.keys.starts_with(when)
            && let Some((_, Toml::List(types))) = last.keys.iter_mut().find(|(key, _)| *key == "on_type")
        {
            return types.push(item.arg(0).to_owned());
        }
        let on_type = by_type.then(|| ("on_type", Toml::List(vec![item.arg(0).to_owned()])));
        let keys = when.iter().cloned().chain([("expires", Toml::Text(time))]).chain(on_type).collect();
        // Of rules the last one counts; Apache asks for the media type first, wherever the lines stand.
        let is_by_type = |block: &Block| block.get("expires").is_some() && block.get("on_type").is_some();
        let first = self.effects.iter().position(is_by_type).filter(|_| !by_type);
        let at = first.unwrap_or(self.effects.len());
        self.effects.insert(at, Block { source: item.source.clone(), keys, caveat: None });
    }

    fn error_document(&mut self, item: &Item, when: &When) {
        let page = item.arg(1);
        if !page.starts_with('/') || page.contains('%') {
            return self.site.notes.lost(
                &item.source,
                "an error page is a path of the site: write a page with this text or link",
            );
        }
        let table = Toml::Table(vec![(item.arg(0).to_owned(), page.into())]);
        let keys = when.iter().cloned().chain([("error_page", table)]).collect();
        self.effects.push(Block { source: item.source.clone(), keys, caveat: None });
        self.site.notes.carried(&item.source);
    }

    fn alias(&mut self, item: &Item) {
        let (path, folder) = (item.arg(0).trim_end_matches('/'), item.arg(1).trim_end_matches('/'));
        if format!("{}{path}", self.root) == folder {
            return self.site.notes.needless(&item.source, "it is the folder of the site with this name");
        }
        if path == "/icons" || path == "/error" {
            return self
                .site
                .notes
                .needless(&item.source, "Millrace lists no folders, and has error pages of its own");
        }
        if path.starts_with(CHALLENGES) && item.name == "alias" {
            // The folder of certbot or its like: renewals go on until `https.acme` is set.
            let keys = vec![("path", format!("{path}/*").into()), ("alias", folder.into())];
            self.challenges.push(Block { source: item.source.clone(), keys, caveat: None });
            return self.site.notes.carried(&item.source);
        }
        let why = format!(
            "write a rule: path = \"{path}/*\", alias = \"{folder}\"; with what the folder's own sections refuse as `deny` or `auth` before it"
        );
        self.site.notes.lost(&item.source, why);
    }

    fn proxy(&mut self, item: &Item, section: Option<&Item>) {
        let source = &item.source;
        let inside =
            section.filter(|section| section.name == "location").map(|section| section.arg(0).to_owned());
        let (path, url) = match inside {
            Some(path) => (path, item.arg(0).to_owned()),
            None => (item.arg(0).to_owned(), item.arg(1).to_owned()),
        };
        if url.contains("fcgi://") {
            return self.fastcgi(source, &url);
        }
        if url.starts_with("ws://") || url.starts_with("wss://") {
            return self
                .site
                .notes
                .needless(source, "upgrades (WebSocket) pass to the application of the path");
        }
        if item.name == "proxypassmatch" || url == "!" || !path.starts_with('/') {
            let why = "`proxy.path` is a path, or with a slash at its end all below it: write a [[site.proxy]] for each; what no proxy has \
                       are files and PHP";
            return self.site.notes.lost(source, why);
        }
        let (to, base) = self.urls(&url);
        let strips = base.trim_end_matches('/') != path.trim_end_matches('/');
        let to: Vec<String> = to
            .iter()
            .map(|to| if strips { format!("{to}{}", base.trim_end_matches('/')) } else { to.clone() })
            .collect();
        let speaks_http2 = to.iter().any(|to| to.starts_with("h2"));
        let scheme = |to: &String| to.replacen("h2c://", "http://", 1).replacen("h2://", "https://", 1);
        let to: Vec<String> = to.iter().map(scheme).collect();
        if to.is_empty() || to.iter().any(|to| !to.starts_with("http") && !to.starts_with("unix:")) {
            return self.site.notes.lost(source, "`proxy.to` takes URLs with http, https or unix");
        }
        let paths = crate::listen::proxy_paths(&path, strips);
        for one in paths {
            let mut keys = vec![("path", Toml::Text(one))];
            keys.push(("to", Toml::one_or_list(to.clone())));
            keys.extend((strips && path != "/").then_some(("strip", Toml::Switch(true))));
            keys.extend(speaks_http2.then(|| ("http", "2".into())));
            keys.extend((!self.preserves_host).then(|| ("host", "application".into())));
            let timeout = item.args.iter().find_map(|arg| arg.strip_prefix("timeout="));
            for key in ["read_timeout", "response_timeout"] {
                keys.extend(timeout.map(|time| (key, format!("{time}s").into())));
            }
            self.site.proxy(Block { source: source.clone(), keys, caveat: None });
        }
        self.site.notes.carried(source);
    }

    /// The URLs without their path, and the path.
    fn urls(&self, url: &str) -> (Vec<String>, String) {
        if let Some((_, members)) =
            self.balancers.iter().find(|(name, _)| url.trim_end_matches('/').starts_with(name.as_str()))
        {
            return (
                members.clone(),
                url.splitn(4, '/').nth(3).map(|path| format!("/{path}")).unwrap_or_default(),
            );
        }
        if let Some((socket, rest)) = url.strip_prefix("unix:").and_then(|rest| rest.split_once('|')) {
            let path = rest.splitn(4, '/').nth(3).map(|path| format!("/{path}")).unwrap_or_default();
            return (vec![format!("unix:{socket}")], path);
        }
        let end = url
            .find("://")
            .and_then(|at| url[at + 3..].find('/').map(|end| at + 3 + end))
            .unwrap_or(url.len());
        (vec![url[..end].to_owned()], url[end..].to_owned())
    }

    /// `proxy:unix:/run/php/x.sock|fcgi://localhost`
    fn handler(&mut self, item: &Item) {
        let handler = item.arg(0);
        if handler.contains("fcgi://") {
            self.fastcgi(&item.source, handler);
        } else if handler.contains("php") || handler == "None" || handler == "default-handler" {
            self.site.notes.needless(&item.source, "PHP runs files that end with .php");
        } else if handler == "server-status" || handler == "server-info" {
            self.site.notes.needless(&item.source, "`millrace status` and `admin.listen` show it");
        } else {
            self.site.notes.lost(&item.source, "files are sent, and PHP runs; there are no other handlers");
        }
    }

    fn fastcgi(&mut self, source: &Source, url: &str) {
        let url = url.trim_start_matches("proxy:");
        let address = match url.strip_prefix("unix:").and_then(|rest| rest.split_once('|')) {
            Some((socket, _)) => format!("unix:{socket}"),
            None => url
                .split("fcgi://")
                .nth(1)
                .unwrap_or_default()
                .split('/')
                .next()
                .unwrap_or_default()
                .to_owned(),
        };
        if self.server.keep_fpm && !address.is_empty() {
            self.site.php = Php::Fastcgi(vec![address]);
            self.site.notes.carried(source);
        } else {
            self.site.php = Php::Own;
            self.site
                .notes
                .needless(source, "Millrace runs PHP in workers of its own; --keep-fpm keeps php-fpm");
        }
    }

    fn fallback(&mut self, item: &Item, when: &When) {
        let script = item.arg(0);
        if when.is_empty() && script.ends_with(".php") && script.starts_with('/') {
            self.site.settings.set("front_controller", script);
            self.site.notes.carried(&item.source);
        } else if script == "disabled" {
            self.site.notes.needless(&item.source, "there is no other front controller");
        } else {
            self.site.notes.lost(&item.source, "a site has one front controller, a script: a .htaccess file in the folder can name another by rewrite rules");
        }
    }

    fn index(&mut self, item: &Item) {
        // Debian's list has names of other languages, which no site has.
        let odd = |name: &&String| {
            !INDEX.contains(&name.as_str())
                && !matches!(name.as_str(), "index.cgi" | "index.pl" | "index.xhtml" | "disabled")
        };
        let is_off = item.args.last().is_some_and(|name| name == "disabled");
        match item.args.iter().find(odd) {
            _ if is_off => {
                let why = "a folder is answered with its index file: a rule with regex = '/$' and return = 403 closes all folders";
                self.site.notes.lost(&item.source, why);
            }
            None => {
                self.site.notes.needless(&item.source, "`files.index` is index.php, index.html, index.htm")
            }
            Some(_) => {
                self.site.notes.lost(&item.source, "`files.index` is for all sites: add the name there")
            }
        }
    }

    fn override_of(&mut self, item: &Item, when: &When, section: Option<&Item>) {
        let length = section.map_or(0, |section| section.arg(0).len());
        self.site.notes.carried(&item.source);
        if !when.is_empty() || length < self.overrides {
            return;
        }
        self.overrides = length;
        self.site.settings.0.retain(|(key, _)| key != "htaccess");
        if item.arg(0).eq_ignore_ascii_case("none") {
            self.site.settings.set("htaccess", "off");
        }
    }

    fn options(&mut self, item: &Item) {
        let lost = item.args.iter().find(|arg| {
            matches!(
                arg.trim_start_matches('+').to_ascii_lowercase().as_str(),
                "indexes" | "includes" | "execcgi" | "all"
            )
        });
        match lost {
            Some(option) => {
                let why = format!(
                    "{option}: Millrace lists no folders, starts no programs, and has no server-side includes"
                );
                self.site.notes.lost(&item.source, why);
            }
            None => self.site.notes.needless(
                &item.source,
                "`files.symlinks` says where links may lead; folders are never listed",
            ),
        }
    }

    fn php_value(&mut self, item: &Item) {
        let key = format!("php.ini.{}", crate::write::name(item.arg(0)));
        let value = match (item.name.ends_with("flag"), item.arg(1).to_ascii_lowercase().as_str()) {
            (true, "on" | "1" | "true") => Toml::Switch(true),
            (true, _) => Toml::Switch(false),
            _ => item.arg(1).into(),
        };
        if item.arg(0) == "open_basedir" {
            return self.site.notes.lost(
                &item.source,
                "`php.open_basedir`, `php.sandbox` and `php.folders` keep scripts in the site's folders",
            );
        }
        self.site.settings.set(&key, value);
        self.site.notes.carried(&item.source);
    }
}

/// What a note about a section that is not carried over has to add: it closes something.
fn open(section: &Item) -> &'static str {
    let closes = |item: &Item| matches!(item.name.as_str(), "require" | "deny" | "authuserfile");
    fn any(section: &Item, closes: &dyn Fn(&Item) -> bool) -> bool {
        section.items().iter().any(|item| closes(item) || any(item, closes))
    }
    if any(section, &closes) { OPEN } else { "" }
}

/// The conditions of a section in another.
fn within(outer: &When, own: &When) -> Option<When> {
    match (outer.as_slice(), own.as_slice()) {
        ([("path", Toml::Text(path))], [("regex", Toml::Regex(regex)), rest @ ..]) => {
            let prefix = pattern::escaped(path.trim_end_matches('*'));
            let (flags, plain) =
                regex.strip_prefix("(?i)").map_or(("", regex.as_str()), |plain| ("(?i)", plain));
            let prefix = prefix.trim_end_matches('/');
            let joined = ("regex", Toml::Regex(format!("{flags}^{prefix}.*(?:{plain})")));
            Some([joined].into_iter().chain(rest.iter().cloned()).collect())
        }
        _ => None,
    }
}

/// `access plus 1 month 2 days`, `A2592000`, as rules have it.
fn duration(text: &str) -> Option<String> {
    let text = text.trim().trim_matches('"');
    if let Some(seconds) = text.strip_prefix('A').and_then(|seconds| seconds.parse::<u64>().ok()) {
        return Some(if seconds == 0 { "0".to_owned() } else { format!("{seconds}s") });
    }
    let rest = text.strip_prefix("access").or_else(|| text.strip_prefix("now"))?.trim();
    let mut words = rest.strip_prefix("plus").unwrap_or(rest).split_whitespace();
    let mut seconds: u64 = 0;
    while let Some(number) = words.next() {
        let unit = match words.next()?.trim_end_matches('s') {
            "year" => 365 * 86_400,
            "month" => 30 * 86_400,
            "week" => 7 * 86_400,
            "day" => 86_400,
            "hour" => 3600,
            "minute" => 60,
            "second" => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.parse::<u64>().ok()?.checked_mul(unit)?)?;
    }
    Some(match seconds {
        0 => "0".to_owned(),
        whole if whole % 86_400 == 0 => format!("{}d", whole / 86_400),
        seconds => format!("{seconds}s"),
    })
}
