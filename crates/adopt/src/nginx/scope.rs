//! What a server and its locations have alike: header fields, expiry, error pages, access, passwords.

use super::auth;
use super::lex::Directive;
use super::location::Location;
use super::server::Server;
use super::table::{self, LOST, NEEDLESS};
use crate::value::{Block, Notes, Site, Source, Toml, When};

/// The directives of one server or location that become one rule each, collected.
#[derive(Default)]
pub struct Scope {
    /// Fields of responses of any status, and of successful ones.
    always: Vec<(String, Toml)>,
    successful: Vec<(String, Toml)>,
    expires: Option<String>,
    error_pages: Vec<(String, Toml)>,
    access: Vec<(bool, String)>,
    users: Option<String>,
    realm: Option<String>,
    /// `auth_basic off`.
    is_open: bool,
    /// It has a check of its own: addresses, a password, a script.
    own_access: bool,
    own_password: bool,
    own_request: bool,
    own_satisfy: bool,
    /// `auth_request`: its URI, and where it is.
    request: Option<(String, Source)>,
    /// What can't be checked here is refused.
    is_closed: bool,
    any: bool,
    effects_from: Option<Source>,
    access_from: Option<Source>,
}

/// Statuses for which nginx adds fields without `always` (`ngx_http_headers_filter_module`).
const SUCCESSFUL: [u64; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];

/// Fields that the server writes itself.
const OURS: &[&str] = &[
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Scope {
    /// Takes a directive, if it is one of these.
    pub fn take(&mut self, directive: &Directive, server: &mut Server<'_>) -> bool {
        let has_requests = auth::is_used(server);
        let (http, site) = (server.http, &mut server.site);
        let source = &directive.source;
        match directive.name.as_str() {
            "add_header" => {
                self.field(source, (directive.arg(0), directive.arg(1)), directive.arg(2) == "always", site)
            }
            "more_set_headers" => self.fields(directive, site),
            "expires" => self.expiry(directive, &mut site.notes),
            "error_page" => self.error_page(directive, site, has_requests),
            "allow" | "deny" => {
                let is_network =
                    |text: &str| text == "all" || text.parse::<std::net::IpAddr>().is_ok() || is_block(text);
                if !is_network(directive.arg(0)) {
                    site.notes.lost(source, "`from` of a rule takes addresses and networks");
                    return true;
                }
                self.access.push((directive.name == "allow", directive.arg(0).to_owned()));
                self.own_access = true;
                self.access_from.get_or_insert_with(|| source.clone());
                site.notes.carried(source);
            }
            "auth_basic" if directive.arg(0) == "off" => {
                self.is_open = true;
                self.own_password = true;
                self.access_from.get_or_insert_with(|| source.clone());
                site.notes.carried(source);
            }
            "auth_basic" => {
                self.realm = Some(directive.arg(0).to_owned());
                self.own_password = true;
                site.notes.carried(source);
            }
            "auth_basic_user_file" => {
                if directive.arg(0).contains('$') {
                    site.notes
                        .lost(source, "Millrace has no variables: write a rule with `auth` for each file");
                    return true;
                }
                self.users = Some(http.file(directive.arg(0)));
                self.own_password = true;
                self.access_from.get_or_insert_with(|| source.clone());
                site.notes.carried(source);
            }
            "auth_request" => {
                self.own_request = true;
                if directive.arg(0) == "off" {
                    site.notes.carried(source);
                } else {
                    self.request = Some((directive.arg(0).to_owned(), source.clone()));
                }
                self.access_from.get_or_insert_with(|| source.clone());
            }
            "auth_jwt" if directive.arg(0) != "off" => {
                self.is_closed = true;
                self.access_from.get_or_insert_with(|| source.clone());
                site.notes.lost(source, format!("no rule checks tokens: {SCRIPT}"));
            }
            "satisfy" => {
                self.own_satisfy = true;
                self.any = directive.arg(0) == "any";
                site.notes.carried(source);
            }
            _ => return false,
        }
        true
    }

    /// `more_set_headers "Name: value" ...` of the module headers-more: for all statuses, and a later one replaces an earlier one.
    fn fields(&mut self, directive: &Directive, site: &mut Site) {
        let source = &directive.source;
        if directive.args.iter().any(|text| text.starts_with('-')) {
            let why = "no rule knows the status or type of a response: let the application send the field";
            return site.notes.lost(source, why);
        }
        for text in &directive.args {
            let (name, value) = text.split_once(':').unwrap_or((text, ""));
            let name = name.trim();
            self.always.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            self.field(source, (name, value.trim()), true, site);
        }
    }

    fn field(&mut self, source: &Source, (name, value): (&str, &str), always: bool, site: &mut Site) {
        if OURS.contains(&name.to_ascii_lowercase().as_str()) {
            return site.notes.lost(source, "the server writes this field itself");
        }
        if name.eq_ignore_ascii_case("alt-svc") {
            return site.notes.needless(source, "there is no HTTP/3 to announce");
        }
        if value.contains('$') {
            return site.notes.lost(
                source,
                "Millrace has no variables: let the application send the field, or write the value",
            );
        }
        if value.is_empty() {
            return site.notes.needless(source, "a field without a value is not sent");
        }
        let list = if always { &mut self.always } else { &mut self.successful };
        list.push((name.to_owned(), Toml::Text(value.split_whitespace().collect::<Vec<_>>().join(" "))));
        self.effects_from.get_or_insert_with(|| source.clone());
        site.notes.carried(source);
    }

    fn expiry(&mut self, directive: &Directive, notes: &mut Notes) {
        let source = &directive.source;
        let text = match directive.arg(0) {
            "modified" => directive.arg(1),
            text => text,
        };
        let expires = match text {
            "off" => return notes.needless(source, "no rule, no expiry"),
            "max" => Some("3650d".to_owned()),
            "epoch" => Some("0".to_owned()),
            _ if text.starts_with('-') => Some("0".to_owned()),
            _ => duration(text),
        };
        match expires {
            Some(expires) => {
                self.expires = Some(expires);
                self.effects_from.get_or_insert_with(|| source.clone());
                notes.carried(source);
            }
            None => notes.lost(source, "write a rule with `expires` for each type: docs/rules.md"),
        }
    }

    fn error_page(&mut self, directive: &Directive, site: &mut Site, has_requests: bool) {
        let source = &directive.source;
        if has_requests && directive.args.iter().any(|code| code == "401" || code == "403") {
            let why = "the client gets the response of the script of `auth`: let it redirect, header('Location: /login.php', true, 302)";
            return site.notes.lost(source, why);
        }
        let Some((page, codes)) = directive.args.split_last() else { return };
        let changes = codes.iter().any(|code| code.starts_with('='));
        let script = page.split('?').next().unwrap_or(page);
        if script.ends_with(".php") && codes.iter().any(|code| code == "404") {
            site.settings.set("front_controller", script);
            return site.notes.carried(source);
        }
        if page.starts_with('@') || page.contains("://") || page.contains('$') {
            return site
                .notes
                .lost(source, "an error page is a path of the site: write a page that links there");
        }
        if changes {
            return site
                .notes
                .lost(source, "an error keeps its status: `error_page` of a rule without a new status");
        }
        for code in codes {
            // 497 is nginx's own: HTTP on a TLS port.
            if code
                .parse::<u16>()
                .is_ok_and(|code| (400..600).contains(&code) && !(494..=499).contains(&code))
            {
                self.error_pages.push((code.clone(), page.as_str().into()));
            }
        }
        self.effects_from.get_or_insert_with(|| source.clone());
        site.notes.carried(source);
    }

    /// The rules for header fields, expiry and error pages.
    pub fn effects(&mut self, when: &When) -> Vec<Block> {
        let Some(source) = self.effects_from.clone() else { return Vec::new() };
        self.fold_expiry();
        let block = |keys: Vec<(&'static str, Toml)>| {
            let keys = when.iter().cloned().chain(keys).collect();
            Block { source: source.clone(), keys, caveat: None }
        };
        let mut blocks = Vec::new();
        let mut general = Vec::new();
        let table = |list: &mut Vec<(String, Toml)>| Toml::Table(unique(std::mem::take(list)));
        if !self.always.is_empty() {
            general.push(("set_header", table(&mut self.always)));
        }
        if !self.error_pages.is_empty() {
            general.push(("error_page", table(&mut self.error_pages)));
        }
        if !general.is_empty() {
            blocks.push(block(general));
        }
        let mut successful = Vec::new();
        if !self.successful.is_empty() {
            successful.push(("set_header", table(&mut self.successful)));
        }
        if let Some(expires) = self.expires.take() {
            successful.push(("expires", expires.into()));
        }
        if !successful.is_empty() {
            successful.push(("on_status", Toml::Numbers(SUCCESSFUL.to_vec())));
            blocks.push(block(successful));
        }
        blocks
    }

    /// With a Cache-Control of its own, nginx sends two such fields: one that says both is the same.
    fn fold_expiry(&mut self) {
        let Some(expires) = self.expires.as_deref().and_then(seconds) else { return };
        let lists = self.always.iter_mut().chain(&mut self.successful);
        for (_, value) in lists.filter(|(name, _)| name.eq_ignore_ascii_case("cache-control")) {
            if let Toml::Text(text) = value
                && !text.contains("max-age")
            {
                *text = format!("max-age={expires}, {text}");
            }
            self.expires = None;
        }
    }

    /// The rules for access, passwords and scripts that decide. A pass exempts from later rules, so they are complete: with what
    /// the location inherits.
    pub fn access(
        &mut self,
        server: &mut Server<'_>,
        location: Option<&Location<'_>>,
        when: &When,
    ) -> Vec<Block> {
        let Some(source) = self.access_from.clone() else { return Vec::new() };
        if let Some(location) = location {
            self.inherit(server, location);
        }
        // The first that fits counts: nothing comes behind one that fits all.
        if let Some(all) = self.access.iter().position(|(_, who)| who == "all") {
            self.access.truncate(all + 1);
        }
        let rule = |keys: Vec<(&'static str, Toml)>| {
            let keys = when.iter().cloned().chain(keys).collect();
            Block { source: source.clone(), keys, caveat: None }
        };
        let auth = self.auth(server, location).map(|keys| rule(vec![keys]));
        let mut rules: Vec<Block> = match auth.is_some() {
            true => self.before_auth().into_iter().map(rule).collect(),
            false => self.by_address().into_iter().map(rule).collect(),
        };
        let is_opened = self.is_open || self.own_request;
        if auth.is_none() && is_opened && !rules.iter().any(|rule| rule.get("allow").is_some()) {
            rules.push(rule(vec![ALLOW]));
        }
        rules.extend(auth);
        rules
    }

    /// Adds what the location does not say by itself.
    fn inherit(&mut self, server: &Server<'_>, location: &Location<'_>) {
        let outer = |names: &[&str]| server.inherited(names, Some(location));
        if !self.own_access {
            let listed = outer(&["allow", "deny"]);
            self.access.extend(listed.iter().map(|inner| (inner.name == "allow", inner.arg(0).to_owned())));
        }
        let realm = server.effective(&["auth_basic"], Some(location)).pop();
        if realm.as_ref().is_none_or(|realm| realm.arg(0) != "off") {
            let users = outer(&["auth_basic_user_file"]).pop().map(|users| server.http.file(users.arg(0)));
            self.users = self.users.take().or(users);
            self.realm = realm.map(|realm| realm.arg(0).to_owned());
        }
        if !self.own_request
            && let Some(outer) = outer(&["auth_request"]).pop().filter(|outer| outer.arg(0) != "off")
        {
            self.request = Some((outer.arg(0).to_owned(), outer.source.clone()));
        }
        self.is_closed |= outer(&["auth_jwt"]).pop().is_some_and(|outer| outer.arg(0) != "off");
        if !self.own_satisfy {
            self.any = outer(&["satisfy"]).pop().is_some_and(|satisfy| satisfy.arg(0) == "any");
        }
    }

    /// The password or the script that a client needs; what can't be checked is refused.
    fn auth(
        &mut self,
        server: &mut Server<'_>,
        location: Option<&Location<'_>>,
    ) -> Option<(&'static str, Toml)> {
        if self.is_closed {
            return Some(DENY);
        }
        let password = self.users.as_ref().map(|users| {
            let realm = self.realm.clone().unwrap_or_else(|| "Restricted".to_owned());
            Toml::Table(vec![("users".into(), users.as_str().into()), ("realm".into(), realm.into())])
        });
        let Some((uri, source)) = self.request.clone() else { return password.map(|table| ("auth", table)) };
        let script = match auth::table(server, &uri, location) {
            Ok(script) => script,
            Err(why) => {
                for set in server.effective(&["auth_request_set"], location) {
                    server.site.notes.lost(&set.source, "it belongs to `auth_request`");
                }
                server.site.notes.lost(&source, format!("{why}. {SCRIPT}"));
                return Some(DENY);
            }
        };
        if password.is_some() {
            let why = "a password or a script lets a request pass, not both together: let the script check $_SERVER['PHP_AUTH_USER'] and \
                       PHP_AUTH_PW, and write `auth` with it instead of `deny`: until then, all requests are refused";
            let source = self.access_from.as_ref().unwrap_or(&source);
            server.site.notes.lost(source, why);
            return Some(DENY);
        }
        server.site.notes.carried(&source);
        Some(("auth", script))
    }

    /// What addresses decide if a password or a script comes after them: only refusals, or with `satisfy any` only passes.
    fn before_auth(&self) -> Vec<Vec<(&'static str, Toml)>> {
        let decides = |is_allowed: bool| is_allowed == self.any;
        // Networks that a rule is for, and those that come before them.
        let (mut rules, mut others) = (Vec::<(Vec<String>, Vec<String>)>::new(), Vec::new());
        let mut is_done = false;
        for (is_allowed, who) in &self.access {
            match (decides(*is_allowed), rules.last_mut()) {
                _ if is_done => {}
                (true, Some((listed, unless))) if who != "all" && *unless == others && !listed.is_empty() => {
                    listed.push(who.clone());
                }
                (true, _) => {
                    let listed = if who == "all" { Vec::new() } else { vec![who.clone()] };
                    rules.push((listed, others.clone()));
                }
                (false, _) if who != "all" => others.push(who.clone()),
                (false, _) => {}
            }
            is_done |= who == "all";
        }
        let action = if self.any { ALLOW } else { DENY };
        let keys = |(listed, unless): (Vec<String>, Vec<String>)| {
            let from = (!listed.is_empty()).then_some(("from", Toml::List(listed)));
            let unless = (!unless.is_empty()).then_some(("unless_from", Toml::List(unless)));
            from.into_iter().chain(unless).chain([action.clone()]).collect()
        };
        rules.into_iter().map(keys).collect()
    }

    /// What addresses decide alone.
    fn by_address(&self) -> Vec<Vec<(&'static str, Toml)>> {
        let listed: Vec<String> =
            self.access.iter().filter(|(_, who)| who != "all").map(|(_, who)| who.clone()).collect();
        let only = |allow: bool| self.access.iter().all(|(is, who)| who == "all" || *is == allow);
        let ends = self.access.iter().rev().find(|(_, who)| who == "all").map(|(allow, _)| *allow);
        match (listed.is_empty(), ends) {
            (true, None) => Vec::new(),
            (true, Some(false)) => vec![vec![DENY]],
            (true, Some(true)) => vec![vec![ALLOW]],
            (false, Some(false)) if only(true) => vec![vec![("unless_from", Toml::List(listed)), DENY]],
            (false, Some(false)) if only(false) => vec![vec![DENY]],
            (false, _) if only(false) => vec![vec![("from", Toml::List(listed)), DENY]],
            _ => {
                let each = |(is_allowed, who): &(bool, String)| {
                    let from = (who != "all").then(|| ("from", Toml::List(vec![who.clone()])));
                    from.into_iter().chain([if *is_allowed { ALLOW } else { DENY }]).collect()
                };
                self.access.iter().map(each).collect()
            }
        }
    }
}

const DENY: (&str, Toml) = ("deny", Toml::Switch(true));
const ALLOW: (&str, Toml) = ("allow", Toml::Switch(true));

/// What to write for a check that can't be carried over.
const SCRIPT: &str = "Write auth = { script = \"/auth.php\" } with a script of the site instead of `deny` (docs/rules.md): until then, all \
                      requests are refused";

/// The last value of each name.
fn unique(list: Vec<(String, Toml)>) -> Vec<(String, Toml)> {
    let mut out: Vec<(String, Toml)> = Vec::new();
    for (name, value) in list {
        match out.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            Some(entry) => entry.1 = value,
            None => out.push((name, value)),
        }
    }
    out
}

fn is_block(text: &str) -> bool {
    text.split_once('/')
        .is_some_and(|(ip, bits)| ip.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok())
}

/// `30d`, `1y`, `1M`, `24h`, `3600` as Millrace writes it.
pub fn duration(text: &str) -> Option<String> {
    let text = text.trim();
    if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
        return Some(if text.trim_start_matches('0').is_empty() {
            "0".to_owned()
        } else {
            format!("{text}s")
        });
    }
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "ms" | "s" | "m" | "h" | "d" => format!("{number}{unit}"),
        "w" => format!("{}d", number.checked_mul(7)?),
        "M" => format!("{}d", number.checked_mul(30)?),
        "y" => format!("{}d", number.checked_mul(365)?),
        _ => return None,
    })
}

/// Seconds of a duration that [`duration`] has written.
pub fn seconds(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let unit = match &text[end..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// `64m` as Millrace writes it; 0 means no limit there.
pub fn size(text: &str) -> Option<String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let unit = match text[end..].to_ascii_lowercase().as_str() {
        _ if number == 0 => return Some("1TB".to_owned()),
        "" | "b" => "B",
        "k" | "kb" => "KB",
        "m" | "mb" => "MB",
        "g" | "gb" => "GB",
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}

/// A directive of the tables, with its block.
pub fn plain(name: &str, directive: &Directive, notes: &mut Notes) {
    let source = directive.whole();
    match table::find(NEEDLESS, name) {
        Some(why) => notes.needless(&source, why),
        None if directive.arg(0) == "off" => notes.needless(&source, "it is off"),
        None => notes.lost(&source, table::find(LOST, name).unwrap_or(UNKNOWN)),
    }
}

/// Why a directive that is in no table is not carried over.
const UNKNOWN: &str = "not supported by adopt; docs/settings.md and docs/rules.md list the settings";
