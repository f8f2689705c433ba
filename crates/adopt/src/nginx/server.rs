//! A `server` block.

use super::lex::Directive;
use super::location::{self, Kind, Location, Precedence};
use super::rewrite::{self, Done};
use super::scope::{self, Scope};
use super::{Http, auth, challenge, limit, php, proxy};
use crate::value::{Adopted, Block, OPEN, Php, Site, Toml, When};
use crate::{listen, pattern};

/// What is collected of a server before its rules have an order.
pub struct Server<'a> {
    pub site: Site,
    pub http: &'a Http,
    /// Its directives, and those that it inherits.
    pub own: Vec<&'a Directive>,
    /// Values of `set $name value`.
    pub variables: Vec<(String, String)>,
    pub locations: Vec<Location<'a>>,
    /// The variables that bypass nginx's cache.
    pub bypass: Vec<String>,
    /// Whether an earlier location runs some of the scripts that a later one refuses.
    pub has_chosen_scripts: bool,
    effects: Vec<(Precedence, Block)>,
    /// Before what lets requests pass: nginx counts a request before it checks access.
    limits: Vec<(Precedence, Block)>,
    /// Before locations are looked for: redirects and rewrites of the server.
    pub early: Vec<Block>,
    actions: Vec<(Precedence, Block)>,
}

/// Directives that control access.
const REFUSING: &[&str] =
    &["allow", "deny", "auth_basic", "auth_basic_user_file", "auth_request", "auth_jwt"];

/// Converts a server, and adds it.
pub fn convert<'a>(directive: &'a Directive, http: &'a Http, adopted: &mut Adopted) {
    // Of these, nginx adds those of the server to those around it.
    let is_added = |directive: &&Directive| directive.name == "more_set_headers";
    let mut own: Vec<&'a Directive> = http.inherited.iter().filter(is_added).collect();
    own.extend(directive.inner());
    let has = |name: &str| directive.inner().iter().any(|inner| inner.name == name);
    own.extend(http.inherited.iter().filter(|inherited| !is_added(inherited) && !has(&inherited.name)));
    let mut server = Server {
        site: Site::new(directive.source.clone()),
        http,
        own,
        variables: constants(directive),
        locations: Vec::new(),
        bypass: bypass_variables(directive),
        has_chosen_scripts: false,
        effects: Vec::new(),
        limits: Vec::new(),
        early: Vec::new(),
        actions: Vec::new(),
    };
    server.site.notes.carried(&directive.source);
    names(directive, &mut server.site);
    server.find_locations(directive, None);
    server.server_scope(adopted);
    server.all_locations();
    adopted.sites.push(server.finish());
}

/// `set $name value` of the server whose value has no variable, and which is set once.
fn constants(directive: &Directive) -> Vec<(String, String)> {
    let sets = || directive.inner().iter().filter(|inner| inner.name == "set");
    let constant = |set: &&Directive| {
        !set.arg(1).contains('$') && sets().filter(|other| other.arg(0) == set.arg(0)).count() == 1
    };
    sets().filter(constant).map(|set| (set.arg(0).to_owned(), set.arg(1).to_owned())).collect()
}

/// `fastcgi_cache_bypass $skip_cache` anywhere in the server.
fn bypass_variables(directive: &Directive) -> Vec<String> {
    let mut found = Vec::new();
    for inner in directive.inner() {
        if matches!(
            inner.name.as_str(),
            "fastcgi_cache_bypass" | "fastcgi_no_cache" | "proxy_cache_bypass" | "proxy_no_cache"
        ) {
            found.extend(inner.args.iter().cloned());
        }
        found.extend(bypass_variables(inner));
    }
    found
}

fn names(directive: &Directive, site: &mut Site) {
    for inner in directive.inner().iter().filter(|inner| inner.name == "server_name") {
        let mut is_carried = false;
        for name in &inner.args {
            match name.as_str() {
                "_" | "" | "\"\"" | "$hostname" | "*" => {}
                name if name.starts_with('~') => {
                    site.notes.lost(
                        &inner.source,
                        "names are no regular expressions: write them, or `*.example.com`",
                    );
                    continue;
                }
                name if name.starts_with('.') => {
                    site.name(&name[1..]);
                    site.name(&format!("*{name}"));
                }
                name if name.trim_start_matches("*.").contains('*') => {
                    site.notes
                        .lost(&inner.source, "a `*` stands at the beginning of a name: write each name");
                    continue;
                }
                name => site.name(name),
            }
            is_carried = true;
        }
        if is_carried {
            site.notes.carried(&inner.source);
        }
    }
}

impl<'a> Server<'a> {
    fn find_locations(&mut self, block: &'a Directive, outer: Option<(&Location<'a>, usize)>) {
        for directive in block.inner().iter().filter(|inner| inner.name == "location") {
            match Location::read(directive, outer) {
                Ok(location) => {
                    self.locations.push(location.clone());
                    self.find_locations(directive, Some((&location, self.locations.len() - 1)));
                }
                Err(why) => {
                    let closes = |inner: &Directive| {
                        matches!(inner.name.as_str(), "deny" | "auth_basic" | "auth_request" | "return")
                    };
                    let open = if directive.inner().iter().any(closes) { OPEN } else { "" };
                    self.site.notes.lost(&directive.whole(), format!("{why}{open}"));
                }
            }
        }
    }

    /// The directives of these names that count for a location, or for the server: those of the innermost level that has any.
    pub fn effective(&self, names: &[&str], location: Option<&Location<'_>>) -> Vec<Directive> {
        let own = location.map(|location| named(location.directive.inner(), names)).unwrap_or_default();
        if own.is_empty() { self.inherited(names, location) } else { own }
    }

    /// As [`Server::effective`], without the location's own.
    pub fn inherited(&self, names: &[&str], location: Option<&Location<'_>>) -> Vec<Directive> {
        let outer = location.into_iter().flat_map(|location| &location.outer);
        let own = self.own.iter().filter(|own| names.contains(&own.name.as_str()));
        outer
            .map(|outer| named(outer.inner(), names))
            .find(|found| !found.is_empty())
            .unwrap_or_else(|| own.map(|own| (*own).clone()).collect())
    }

    /// All directives of the server, also those of its locations.
    pub fn everywhere(&self) -> Vec<&'a Directive> {
        fn add<'a>(directive: &'a Directive, all: &mut Vec<&'a Directive>) {
            all.push(directive);
            directive.inner().iter().for_each(|inner| add(inner, all));
        }
        let mut all = Vec::new();
        self.own.iter().for_each(|own| add(own, &mut all));
        all
    }

    /// Replaces constant variables.
    pub fn expand(&self, text: &str) -> String {
        self.variables.iter().fold(text.to_owned(), |text, (name, value)| {
            let braced = format!("${{{}}}", name.trim_start_matches('$'));
            text.replace(&braced, value).replace(name.as_str(), value)
        })
    }

    /// The server's own directives.
    fn server_scope(&mut self, adopted: &mut Adopted) {
        let mut scope = Scope::default();
        let none = When::new();
        let limits = self.effective(&["limit_req"], None);
        let limits = limit::rules(self, &limits, None);
        self.limits.extend(limits.into_iter().map(|block| (vec![location::LAST], block)));
        for directive in self.own.clone() {
            if scope.take(directive, self) {
                continue;
            }
            match rewrite::take(self, directive, None) {
                Done::Rules(rules) => self.early.extend(rules),
                Done::Yes => {}
                Done::No => self.of_server(directive, adopted),
            }
        }
        self.effects.extend(scope.effects(&none).into_iter().map(|block| (vec![location::LAST], block)));
        let access = scope.access(self, None, &none);
        self.actions.extend(access.into_iter().map(|block| (vec![location::LAST], block)));
    }

    fn of_server(&mut self, directive: &Directive, adopted: &mut Adopted) {
        let source = &directive.source;
        match directive.name.as_str() {
            "location" | "server_name" | "ssl_certificate_key" | "limit_req" => {}
            "listen" => self.listen(directive, adopted),
            "ssl_certificate" => self.certificate(directive, adopted),
            "ssl_client_certificate" => {
                self.site.settings.set("client_ca", self.http.file(directive.arg(0)));
                self.site.notes.carried(source);
            }
            "ssl_verify_client" => {
                let verify = match directive.arg(0) {
                    "on" => "required",
                    "off" => "off",
                    _ => "optional",
                };
                self.site.settings.set("client_verify", verify);
                self.site.notes.carried(source);
            }
            "root" => self.root(directive),
            "set" => self.set(directive),
            "access_log" | "error_log" => super::log(directive, self.http, adopted),
            "set_real_ip_from" => super::real_ip(directive, adopted),
            "real_ip_header" | "real_ip_recursive" => {
                self.site
                    .notes
                    .needless(source, "X-Forwarded-For of `server.trusted_proxies` counts, from its end");
            }
            _ => self.common(directive),
        }
    }

    /// Directives that servers and locations have.
    fn common(&mut self, directive: &Directive) {
        let source = &directive.source;
        match directive.name.as_str() {
            "index" => self.index(directive),
            "limit_req_status" | "limit_req_dry_run" => self.site.notes.carried(source),
            "auth_request_set" if auth::is_used(self) => {}
            "auth_request_set" => self.site.notes.needless(source, "no `auth_request` is there"),
            "client_max_body_size" => self.body_size(directive),
            name if name.starts_with("fastcgi_") => php::take(self, directive),
            name if name.starts_with("proxy_") || name.starts_with("grpc_") => proxy::take(self, directive),
            "access_log" | "error_log" => {
                self.site
                    .notes
                    .needless(source, "the access log has every request; `log.level` is for errors");
            }
            name => scope::plain(name, directive, &mut self.site.notes),
        }
    }

    fn listen(&mut self, directive: &Directive, adopted: &mut Adopted) {
        let source = &directive.source;
        let has = |option: &str| directive.args.iter().any(|arg| arg == option);
        let Some(address) = listen::address(directive.arg(0), 80) else {
            let why = "`server.listen` takes an address and a port: write the address of the name";
            return self.site.notes.lost(source, why);
        };
        if has("quic") || has("http3") {
            return self.site.notes.lost(source, "there is no HTTP/3; browsers use HTTP/2");
        }
        if has("proxy_protocol") {
            let why = "Millrace does not support the PROXY protocol: let the balancer send X-Forwarded-For, and set server.trusted_proxies";
            self.site.notes.lost(source, why);
        }
        let secure = has("ssl") || self.own.iter().any(|own| own.name == "ssl" && own.arg(0) == "on");
        adopted.settings.add(if secure { "https.listen" } else { "server.listen" }, &address);
        self.site.secure |= secure;
        self.site.plain |= !secure;
        self.site.default |= has("default_server") || has("default");
        self.site.notes.carried(source);
    }

    /// Certificates and keys belong together in their order.
    fn certificate(&mut self, directive: &Directive, adopted: &mut Adopted) {
        let of = |name: &str| self.own.iter().filter(|own| own.name == name).copied().collect::<Vec<_>>();
        let at = of("ssl_certificate").iter().position(|own| own.source == directive.source);
        let keys = of("ssl_certificate_key");
        match at.and_then(|at| keys.get(at)) {
            Some(key) if !directive.arg(0).contains('$') && !key.arg(0).contains('$') => {
                adopted.certificate(&self.http.file(directive.arg(0)), &self.http.file(key.arg(0)));
                self.site.notes.carried(&key.source);
                self.site.notes.carried(&directive.source);
            }
            _ => {
                let why = "a certificate needs a file and the file of its key: write [[tls]]";
                self.site.notes.lost(&directive.source, why);
            }
        }
    }

    fn root(&mut self, directive: &Directive) {
        let root = self.expand(directive.arg(0));
        if root.contains('$') {
            return self
                .site
                .notes
                .lost(&directive.source, "Millrace has no variables: write a [[site]] for each folder");
        }
        self.site.root.get_or_insert(root);
        self.site.notes.carried(&directive.source);
    }

    fn set(&mut self, directive: &Directive) {
        let (source, name) = (&directive.source, directive.arg(0));
        if self.variables.iter().any(|(known, _)| known == name) {
            self.site.notes.carried(source);
        } else if rewrite::is_of_cache(self, directive) {
            self.site.notes.needless(source, rewrite::CACHE);
        } else if directive.arg(1).starts_with("$fastcgi_") {
            self.site.notes.needless(source, "Millrace sets PHP's variables");
        } else {
            self.site
                .notes
                .lost(source, "Millrace has no variables: write the value into each rule that uses it");
        }
    }

    /// Millrace tries index.php before index.html.
    fn index(&mut self, directive: &Directive) {
        let known = ["index.php", "index.html", "index.htm", "index.nginx-debian.html"];
        let odd = directive.args.iter().find(|name| !known.contains(&name.as_str()));
        match odd {
            None => self
                .site
                .notes
                .needless(&directive.source, "`files.index` is index.php, index.html, index.htm"),
            Some(name) if name.starts_with('/') => {
                self.site.notes.lost(
                    &directive.source,
                    "an index file is a name; `front_controller` answers other URLs",
                );
            }
            Some(_) => {
                let why = "`files.index` is for all sites: add the name there";
                self.site.notes.lost(&directive.source, why);
            }
        }
    }

    fn body_size(&mut self, directive: &Directive) {
        let bytes = |text: &str| {
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            let unit = ["B", "KB", "MB", "GB", "TB"].iter().position(|unit| *unit == &text[end..])?;
            text[..end].parse::<u64>().ok().and_then(|number| number.checked_mul(1 << (10 * unit)))
        };
        let Some(size) = scope::size(directive.arg(0)) else {
            return self.site.notes.lost(&directive.source, "not a size: set body_bytes");
        };
        // A site has one limit: the largest of its locations.
        match self.site.settings.get("body_bytes") {
            Some(Toml::Text(known)) if bytes(known) >= bytes(&size) => {}
            _ => self.site.settings.set("body_bytes", size),
        }
        self.site.notes.carried(&directive.source);
    }

    fn all_locations(&mut self) {
        let mut order: Vec<usize> = (0..self.locations.len()).collect();
        order.sort_by_key(|number| self.locations[*number].precedence(*number));
        for number in order {
            let location = self.locations[number].clone();
            self.location(&location, &location.precedence(number));
        }
    }

    fn location(&mut self, location: &Location<'a>, place: &Precedence) {
        let directive = location.directive;
        self.site.notes.carried(&directive.source);
        if self.is_needless_challenge(location) {
            return self.site.notes.needless(&directive.whole(), challenge::NEEDLESS);
        }
        let (when, mut scope) = (location.when(), Scope::default());
        let mut rules = Vec::new();
        let mut folders = Vec::new();
        for inner in directive.inner().iter().filter(|inner| inner.name != "location") {
            if matches!(inner.name.as_str(), "alias" | "root")
                && let Some(block) = self.other_files(inner, location)
            {
                folders.push(block);
                continue;
            }
            if scope.take(inner, self) {
                continue;
            }
            match rewrite::take(self, inner, Some(location)) {
                Done::Rules(more) => rules.extend(more),
                Done::Yes => {}
                Done::No => self.of_location(inner, location),
            }
        }
        self.leave_to_others(location, &mut rules);
        if location.kind == Kind::Whole {
            // The location `/` is the server for all that no other location has.
            self.early.append(&mut rules);
        }
        let effects = scope.effects(&when);
        self.effects.extend(effects.into_iter().map(|block| (place.clone(), block)));
        let limits = named(directive.inner(), &["limit_req"]);
        let limits = limit::rules(self, &limits, Some(location));
        self.limits.extend(limits.into_iter().map(|block| (place.clone(), block)));
        rules.extend(self.access(&mut scope, location));
        rules.extend(self.internal(location));
        rules.extend(folders);
        rules.extend(self.challenge_of_redirects(location));
        self.spare(location, &mut rules);
        self.actions.extend(rules.into_iter().map(|block| (place.clone(), block)));
    }

    /// The rules that control access to the location.
    fn access(&mut self, scope: &mut Scope, location: &Location<'a>) -> Vec<Block> {
        let Some(front) = limit::front_controller_of(self, Some(location)) else {
            let guarded = location.guarded(&self.index_names(location));
            let mut blocks = scope.access(self, Some(location), &guarded);
            if guarded != location.guarded(&[]) {
                // If a folder has a location of its own that closes it, that location decides.
                let closed = self.closed_folders();
                for block in &mut blocks {
                    block.caveat =
                        Some("and for folders, because nginx looks here for their index file".to_owned());
                    if !closed.is_empty() {
                        except(block, &closed);
                    }
                }
            }
            return blocks;
        };
        // In nginx URLs without a file come to the location for scripts, and are refused there.
        let mut blocks = scope.access(self, Some(location), &When::new());
        let caveat = format!(
            "for all paths, because in nginx URLs that {front} answers come here, too; except files with `unless_path`"
        );
        blocks.iter_mut().for_each(|block| block.caveat = Some(caveat.clone()));
        blocks
    }

    fn closed_folders(&self) -> Vec<String> {
        let closes = |inner: &Directive| REFUSING.contains(&inner.name.as_str()) && inner.name != "allow";
        let closed = self.locations.iter().filter(|other| other.directive.inner().iter().any(closes));
        closed.filter_map(|other| Some(format!("{}*", other.prefix()?))).filter(|path| path != "/*").collect()
    }

    /// The names of index files that count for a location.
    fn index_names(&self, location: &Location<'_>) -> Vec<String> {
        let named = self.effective(&["index"], Some(location)).pop();
        named.map_or_else(|| vec!["index.html".to_owned()], |directive| directive.args)
    }

    /// What only nginx itself requests is 404 for clients, if they could reach it by this path.
    fn internal(&self, location: &Location<'_>) -> Option<Block> {
        let source = directive_of(location, "internal")?.source.clone();
        let is_reached =
            ["proxy_pass", "grpc_pass"].iter().any(|name| directive_of(location, name).is_some())
                || directive_of(location, "fastcgi_pass").is_some()
                    && location.prefix().is_some_and(|path| path.ends_with(".php"));
        let when = location.guarded(&[]);
        (is_reached && !when.is_empty()).then(|| Block {
            source,
            keys: when.into_iter().chain([("return", Toml::Number(404))]).collect(),
            caveat: None,
        })
    }

    /// Keeps redirects and responses of a location from requests that a more specific one has, because in nginx only one counts.
    fn leave_to_others(&self, location: &Location<'a>, rules: &mut [Block]) {
        let Some(prefix) = location.prefix().filter(|_| !matches!(location.kind, Kind::Exact(_))) else {
            return;
        };
        let returns =
            |other: &Location<'_>| other.directive.inner().iter().any(|inner| inner.name == "return");
        let others =
            self.locations.iter().filter(|other| !returns(other) && !self.is_needless_challenge(other));
        let paths: Vec<String> = others
            .filter_map(|other| match &other.kind {
                Kind::Exact(path) if path.starts_with(prefix) => Some(path.clone()),
                Kind::First(path) | Kind::Prefix(path)
                    if path.len() > prefix.len() && path.starts_with(prefix) =>
                {
                    Some(format!("{path}*"))
                }
                _ => None,
            })
            .collect();
        let leads_away = |rule: &&mut Block| ["redirect", "return"].iter().any(|key| rule.get(key).is_some());
        for rule in rules.iter_mut().filter(leads_away).filter(|_| !paths.is_empty()) {
            except(rule, &paths);
        }
    }

    /// Keeps rules of expressions from requests that another location has before: `= /index.php` before `~ \.php$`.
    fn spare(&mut self, location: &Location<'a>, rules: &mut Vec<Block>) {
        let runs_php = location.directive.inner().iter().any(|inner| inner.name == "fastcgi_pass");
        match &location.kind {
            Kind::Regex(regex) => {
                let Some(matcher) = pattern::compile(regex) else { return };
                let exact = self.locations.iter().filter_map(|other| match &other.kind {
                    Kind::Exact(path) if matcher.is_match(path.as_bytes()) => Some(path.clone()),
                    _ => None,
                });
                let exact: Vec<String> = exact.collect();
                for rule in rules.iter_mut().filter(|rule| rule.get("regex").is_some() && !exact.is_empty()) {
                    except(rule, &exact);
                }
                let leads_away =
                    |rule: &&mut Block| ["redirect", "return"].iter().any(|key| rule.get(key).is_some());
                let first = self.before_expressions(regex);
                for rule in rules.iter_mut().filter(leads_away).filter(|_| !first.is_empty()) {
                    except(rule, &first);
                }
                if self.has_chosen_scripts {
                    rules.iter_mut().for_each(refuse_instead);
                }
                let is_closed = !self.inherited(REFUSING, Some(location)).is_empty();
                if runs_php
                    && !php::is_general(regex)
                    && rules.is_empty()
                    && self.refuses_scripts()
                    && !is_closed
                {
                    self.has_chosen_scripts = true;
                    rules.push(Block {
                        source: location.directive.source.clone(),
                        keys: location.when().into_iter().chain([("allow", Toml::Switch(true))]).collect(),
                        caveat: Some("these scripts run, whatever later rules refuse".to_owned()),
                    });
                }
            }
            // A location with an expression for scripts comes before one with a plain prefix.
            Kind::Prefix(_) if self.runs_scripts_by_regex() => {
                let scripts = ["*.php".to_owned(), "*.php/*".to_owned()];
                // What the server refuses holds for scripts, although the location has it open.
                let is_closed = self.own.iter().any(|own| REFUSING.contains(&own.name.as_str()));
                let leads_away = |rule: &&mut Block| {
                    ["redirect", "return", "rewrite"].iter().any(|key| rule.get(key).is_some())
                        || is_closed && rule.get("allow").is_some()
                };
                for rule in rules.iter_mut().filter(leads_away).filter(|rule| rule.get("path").is_some()) {
                    except(rule, &scripts);
                }
            }
            _ => {}
        }
        if rules.is_empty() && self.is_spared(location) {
            rules.push(Block {
                source: location.directive.source.clone(),
                keys: location.when().into_iter().chain([("allow", Toml::Switch(true))]).collect(),
                caveat: None,
            });
        }
    }

    /// The paths of `^~` that come before an expression which may match them.
    fn before_expressions(&self, regex: &str) -> Vec<String> {
        let may_match = |path: &str| {
            !regex.starts_with('^')
                || pattern::compile(regex).is_some_and(|regex| regex.is_match(path.as_bytes()))
        };
        let first = self.locations.iter().filter_map(|other| match &other.kind {
            Kind::First(path) if may_match(path) => Some(format!("{path}*")),
            _ => None,
        });
        first.collect()
    }

    /// Whether an expression that a location keeps from its requests answers them with a status.
    pub fn has_refusing_regex(&self, location: &Location<'a>) -> bool {
        let is_first = matches!(location.kind, Kind::Exact(_) | Kind::First(_));
        let path = location.prefix().unwrap_or_default();
        is_first
            && self.locations.iter().any(|other| match &other.kind {
                Kind::Regex(regex) => {
                    let returns = other.directive.inner().iter().any(|inner| inner.name == "return");
                    let fits = pattern::compile(regex).is_some_and(|regex| regex.is_match(path.as_bytes()));
                    returns && fits
                }
                _ => false,
            })
    }

    /// Whether a location that refuses nothing has requests that a less specific one refuses: in nginx only one counts.
    pub fn is_spared(&self, location: &Location<'a>) -> bool {
        let refuses = |inner: &&Directive| REFUSING.contains(&inner.name.as_str());
        // What the server refuses holds for its locations, too, and what a location refuses for those in it.
        if !self.inherited(REFUSING, Some(location)).is_empty() {
            return false;
        }
        let before_regex = matches!(location.kind, Kind::Exact(_) | Kind::First(_));
        let Some(path) = location.prefix().filter(|path| *path != "/") else { return false };
        self.locations.iter().any(|other| {
            let covers = match &other.kind {
                Kind::Regex(regex) => {
                    let is_exact = matches!(location.kind, Kind::Exact(_));
                    let fits =
                        || pattern::compile(regex).is_some_and(|regex| regex.is_match(path.as_bytes()));
                    before_regex && (!is_exact || fits())
                }
                Kind::Whole => true,
                Kind::First(prefix) | Kind::Prefix(prefix) => {
                    prefix.len() < path.len() && path.starts_with(prefix)
                }
                _ => false,
            };
            covers && other.directive.inner().iter().any(|inner| refuses(&inner))
        })
    }

    /// Whether a location with an expression has this directive; of those whose text has `part`.
    fn has_in_regex(&self, part: &str, names: &[&str]) -> bool {
        self.locations.iter().any(|location| {
            matches!(&location.kind, Kind::Regex(regex) if regex.contains(part))
                && location.directive.inner().iter().any(|inner| names.contains(&inner.name.as_str()))
        })
    }

    fn refuses_scripts(&self) -> bool {
        self.has_in_regex("php", &["deny", "return"])
    }

    fn runs_scripts_by_regex(&self) -> bool {
        self.has_in_regex("php", &["fastcgi_pass"])
    }

    fn of_location(&mut self, directive: &'a Directive, location: &Location<'a>) {
        let source = &directive.source;
        match directive.name.as_str() {
            "limit_req" => {}
            "root" if location.kind == Kind::Whole => self.root(directive),
            "root" => {
                let root = self.expand(directive.arg(0));
                let own = self.site.root.clone().or_else(|| self.own_root());
                if own.as_deref() == Some(root.as_str()) {
                    self.site.notes.needless(source, "the root of the site");
                } else {
                    self.other_folder(directive, location, &root);
                }
            }
            "alias" => {
                let folder = self.expand(directive.arg(0));
                self.other_folder(directive, location, &folder);
            }
            "internal" => {
                let why = "`internal` of the site has folders that only X-Accel-Redirect reaches";
                match directive_of(location, "alias") {
                    Some(_) => self.site.notes.carried(source),
                    None if self.internal(location).is_some() => self.site.notes.carried(source),
                    None if location.prefix().is_some_and(|path| auth::is_asked(self, path)) => {
                        self.site.notes.needless(source, "no URL leads to the script by this path");
                    }
                    None if matches!(location.kind, Kind::Exact(_)) => {
                        self.site
                            .notes
                            .needless(source, "an error page does no harm when it is requested itself");
                    }
                    None => self.site.notes.lost(source, why),
                }
            }
            "set" => self.set(directive),
            "fastcgi_pass" => php::pass(self, directive),
            "proxy_pass" | "grpc_pass" => proxy::pass(self, directive, location),
            _ => self.common(directive),
        }
    }

    /// Directives for applications that the server has for its locations.
    pub fn proxy_directives(&self, name: &'static str) -> impl Iterator<Item = &'a Directive> {
        self.own.iter().copied().filter(move |own| own.name == name)
    }

    /// The front controller that the location `/` names, or the server.
    pub fn front_controller_of_all(&self) -> Option<String> {
        let whole = self.locations.iter().find(|location| location.kind == Kind::Whole);
        let inner = whole.into_iter().flat_map(|location| location.directive.inner());
        let fallback = inner.chain(self.own.iter().copied()).find(|inner| inner.name == "try_files");
        let last = fallback.and_then(|fallback| fallback.args.last())?;
        if last.starts_with('@') { rewrite::script_of(self.named(last)) } else { rewrite::script_in(last) }
    }

    /// The directives of a named location.
    pub fn named(&self, name: &str) -> &'a [Directive] {
        let named =
            self.locations.iter().find(|other| matches!(&other.kind, Kind::Named(known) if known == name));
        named.map(|named| named.directive.inner()).unwrap_or_default()
    }

    /// The server's own root, which may stand below its locations.
    pub fn own_root(&self) -> Option<String> {
        self.own.iter().find(|own| own.name == "root").map(|own| self.expand(own.arg(0)))
    }

    /// A rule for the files of another folder; `None`: it is the site's own, or the location does more than a rule can.
    fn other_files(&mut self, directive: &Directive, location: &Location<'_>) -> Option<Block> {
        const MORE: [&str; 7] =
            ["internal", "fastcgi_pass", "proxy_pass", "grpc_pass", "uwsgi_pass", "rewrite", "location"];
        let folder = self.expand(directive.arg(0));
        let does_more = MORE.iter().any(|name| directive_of(location, name).is_some());
        // With a fallback, a missing file is a page.
        let falls_back = directive_of(location, "try_files")
            .is_some_and(|files| files.args.last().is_none_or(|last| !last.starts_with('=')));
        let own = self.site.root.clone().or_else(|| self.own_root());
        let is_own = own.as_deref() == Some(folder.as_str()) && directive.name == "root";
        if does_more || falls_back || is_own || folder.contains('$') || !folder.starts_with('/') {
            return None;
        }
        let paths = |prefix: &str| match prefix.trim_end_matches('/') {
            // Without a slash nginx also serves what only begins alike: `/docs-old` below `/srv/docs-old`.
            bare if bare.len() == prefix.len() => Toml::List(vec![bare.to_owned(), format!("{bare}/*")]),
            bare => format!("{bare}/*").into(),
        };
        let when = match (&location.kind, directive.name.as_str()) {
            (Kind::First(prefix) | Kind::Prefix(prefix), "alias") => {
                // `location /a/ { alias /srv/b; }` has files like /srv/bx.
                let is_whole = !prefix.ends_with('/') || folder.ends_with('/');
                is_whole.then(|| vec![("path", paths(prefix))])?
            }
            // An exact one is mostly an error page, which is looked for below the root.
            (Kind::First(_) | Kind::Prefix(_) | Kind::Regex(_), "root") => location.when(),
            _ => return None,
        };
        let folder = match folder.trim_end_matches('/') {
            "" => return None,
            folder => folder.to_owned(),
        };
        let key = if directive.name == "alias" { "alias" } else { "root" };
        self.site.notes.carried(&directive.source);
        let keys = when.into_iter().chain([(key, folder.into())]).collect();
        let may_lose = matches!(location.kind, Kind::Prefix(_))
            && self.locations.iter().any(|other| matches!(other.kind, Kind::Regex(_)));
        let caveat = may_lose.then(|| {
            "nginx looks below the root for files that a location with an expression matches".to_owned()
        });
        Some(Block { source: directive.source.clone(), keys, caveat })
    }

    /// A location with files of another folder that no rule serves.
    fn other_folder(&mut self, directive: &Directive, location: &Location<'_>, folder: &str) {
        let source = &directive.source;
        let is_plain = !folder.contains('$');
        match (&location.kind, directive_of(location, "internal")) {
            (Kind::First(prefix) | Kind::Prefix(prefix), Some(_)) if is_plain => {
                let prefix = format!("{}/", prefix.trim_end_matches('/'));
                let table = vec![(prefix, folder.trim_end_matches('/').into())];
                match self.site.settings.0.iter_mut().find(|(key, _)| key == "internal") {
                    Some((_, Toml::Table(known))) => known.extend(table),
                    _ => self.site.settings.set("internal", Toml::Table(table)),
                }
                self.site.notes.carried(source);
            }
            _ => {
                let inside = location.prefix().unwrap_or("/x").trim_matches('/').to_owned();
                let why = format!(
                    "no rule does all that this location does: write one with `alias` or `root`, or link the folder into the \
                     site's (as root: ln -s {folder} ROOT/{inside})"
                );
                self.site.notes.lost(source, why);
            }
        }
    }

    fn finish(mut self) -> Site {
        // Later effects replace earlier ones: the most specific location last.
        self.effects.sort_by(|(a, _), (b, _)| b.cmp(a));
        self.actions.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.limits.sort_by(|(a, _), (b, _)| a.cmp(b));
        let effects = self.effects.into_iter().map(|(_, block)| block);
        let limits = self.limits.into_iter().map(|(_, block)| block);
        let actions = self.actions.into_iter().map(|(_, block)| block);
        self.site.rules = effects.chain(self.early).chain(limits).chain(actions).collect();
        if self.site.php == Php::Off
            && let Some(at) = self.site.settings.0.iter().position(|(key, _)| key == "front_controller")
        {
            self.site.settings.0.remove(at);
            let source = self.site.source.clone();
            self.site.notes.lost(&source, "it names a script for URLs without a file, but runs no PHP");
        }
        self.site
    }
}

/// The directives of these names.
fn named(directives: &[Directive], names: &[&str]) -> Vec<Directive> {
    directives.iter().filter(|inner| names.contains(&inner.name.as_str())).cloned().collect()
}

fn directive_of<'d>(location: &Location<'d>, name: &str) -> Option<&'d Directive> {
    location.directive.inner().iter().find(|inner| inner.name == name)
}

/// Adds paths for which a rule does not apply.
fn except(rule: &mut Block, paths: &[String]) {
    match rule.keys.iter_mut().find(|(key, _)| *key == "unless_path") {
        Some((_, Toml::List(known))) => known.extend(paths.iter().cloned()),
        _ => rule.keys.insert(rule.keys.len().min(1), ("unless_path", Toml::List(paths.to_vec()))),
    }
}

/// `return 404` as a refusal, which an earlier `allow` spares.
fn refuse_instead(rule: &mut Block) {
    if matches!(rule.get("return"), Some(Toml::Number(403 | 404))) {
        rule.keys.retain(|(key, _)| *key != "return");
        rule.keys.push(("deny", Toml::Switch(true)));
        rule.caveat = Some("the status is 403".to_owned());
    }
}
