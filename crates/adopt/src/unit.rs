//! NGINX Unit: the JSON of its control API.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use crate::files::Files;
use crate::listen;
use crate::value::{Adopted, Block, ONE_FOLDER, Options, Php, Place, Site, Source, Toml, When};

/// Converts a file.
pub fn adopt(path: &Path, files: &dyn Files, _: &Options) -> Result<Adopted, String> {
    let text = files.read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let json: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    // The whole of the control API has it in `config`.
    let config = json.get("config").unwrap_or(&json);
    let mut unit =
        Unit { config, file: path.to_string_lossy().into(), text: &text, adopted: Adopted::default() };
    unit.settings();
    let Some(listeners) = config.get("listeners").and_then(Value::as_object) else {
        return Err(format!("{} has no listeners", path.display()));
    };
    for (address, listener) in listeners {
        unit.listener(address, listener);
    }
    listen::widest(&mut unit.adopted);
    Ok(unit.adopted)
}

struct Unit<'a> {
    config: &'a Value,
    file: Arc<str>,
    text: &'a str,
    adopted: Adopted,
}

/// A site in the making.
struct Draft {
    site: Site,
    depth: usize,
}

impl Unit<'_> {
    /// A member with its line: the first with this name, because JSON values have no places.
    fn source(&self, name: &str, text: String) -> Source {
        let quoted = format!("\"{name}\"");
        let at = self.text.find(&quoted).unwrap_or(0);
        let line = u32::try_from(self.text[..at].matches('\n').count() + 1).unwrap_or(u32::MAX);
        Source { place: Place { file: self.file.clone(), line }, text }
    }

    fn member(&self, name: &str, value: &Value) -> Source {
        self.source(name, format!("{name} {value}"))
    }

    /// What holds for the whole server.
    fn settings(&mut self) {
        let Some(members) = self.config.as_object() else { return };
        for (name, value) in members {
            let source = self.member(name, value);
            match (name.as_str(), value) {
                ("listeners" | "routes" | "applications" | "upstreams" | "certificates", _) => {}
                ("access_log", Value::String(file)) => {
                    self.adopted.settings.set("log.access", file.as_str());
                    self.adopted.notes.carried(&source);
                }
                ("access_log", _) => match value.get("path").and_then(Value::as_str) {
                    Some(file) => {
                        self.adopted.settings.set("log.access", file);
                        self.adopted.notes.carried(&source);
                    }
                    None => self.adopted.notes.needless(&source, "`log.access_format` is combined or json"),
                },
                ("settings", _) => {
                    if let Some(bytes) = value.pointer("/http/max_body_size").and_then(Value::as_u64) {
                        self.adopted.settings.set("http.body_bytes", format!("{bytes}B"));
                    }
                    self.adopted.notes.carried(&source);
                }
                _ => self
                    .adopted
                    .notes
                    .lost(&source, "not supported by adopt; docs/settings.md lists the settings"),
            }
        }
    }

    fn listener(&mut self, address: &str, listener: &Value) {
        let source = self.member(address, listener);
        let Some(listen) = listen::address(address, 80) else {
            return self
                .adopted
                .notes
                .lost(&source, "`server.listen` takes an address and a port, or unix:/PATH");
        };
        let secure = listener.get("tls").is_some();
        self.adopted.settings.add(if secure { "https.listen" } else { "server.listen" }, &listen);
        if secure {
            let why = "export the certificate from Unit with its key, and write [[tls]] with `cert` and `key`, or https.acme = true";
            self.adopted.notes.lost(&source, why);
        }
        if let Some(from) = listener.pointer("/forwarded/source") {
            for network in texts(from) {
                self.adopted.settings.add("server.trusted_proxies", &network);
            }
        }
        self.adopted.notes.carried(&source);
        let mut draft =
            Draft { site: Site::new(self.source(address, format!("listener {address}"))), depth: 0 };
        draft.site.secure = secure;
        draft.site.plain = !secure;
        draft.site.default = self.adopted.sites.is_empty();
        if let Some(pass) = listener.get("pass").and_then(Value::as_str) {
            self.pass(pass, &When::new(), &mut draft);
        }
        // Rules that name hosts make the site's names.
        for rule in &draft.site.rules {
            if let Some(Toml::List(hosts)) = rule.get("host") {
                for host in hosts.clone() {
                    if !draft.site.names.contains(&host) {
                        draft.site.names.push(host);
                    }
                }
            }
        }
        self.adopted.sites.push(draft.site);
    }

    /// `applications/NAME/TARGET`, `routes/NAME`, `upstreams/NAME`.
    fn pass(&mut self, pass: &str, when: &When, draft: &mut Draft) {
        let parts: Vec<String> = pass.split('/').map(|part| part.replace("%2F", "/")).collect();
        let source = self.source("pass", format!("pass {pass}"));
        draft.depth += 1;
        if draft.depth > 64 {
            return draft.site.notes.lost(&source, "routes that lead to each other");
        }
        match parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["routes", rest @ ..] => {
                let routes = rest.iter().fold(self.config.get("routes"), |value, name| value?.get(name));
                for route in routes.and_then(Value::as_array).cloned().unwrap_or_default() {
                    self.route(&route, when, draft);
                }
                draft.site.notes.carried(&source);
            }
            ["applications", name, target @ ..] => {
                self.application(name, target.first().copied(), when, draft)
            }
            ["upstreams", name] => {
                let servers =
                    self.config.pointer(&format!("/upstreams/{name}/servers")).and_then(Value::as_object);
                let to: Vec<String> = servers
                    .map(|servers| servers.keys().map(|address| format!("http://{address}")).collect())
                    .unwrap_or_default();
                self.proxy(to, when, &source, draft);
            }
            _ => draft.site.notes.lost(&source, "Millrace has no variables: write a [[site]] for each"),
        }
    }

    fn route(&mut self, route: &Value, outer: &When, draft: &mut Draft) {
        let source = self.source("match", format!("route {route}"));
        let when = match conditions(route.get("match").unwrap_or(&Value::Null)) {
            Ok(own) => outer.iter().cloned().chain(own).collect::<When>(),
            Err(why) => return draft.site.notes.lost(&source, why),
        };
        let Some(action) = route.get("action") else { return };
        self.action(action, &when, &source, draft);
    }

    fn action(&mut self, action: &Value, when: &When, source: &Source, draft: &mut Draft) {
        let text = |name: &str| action.get(name).and_then(Value::as_str).map(str::to_owned);
        let rule = |keys: Vec<(&'static str, Toml)>, draft: &mut Draft| {
            let keys = when.iter().cloned().chain(keys).collect();
            draft.site.rules.push(Block { source: source.clone(), keys, caveat: None });
            draft.site.notes.carried(source);
        };
        if let Some(headers) = action.get("response_headers").and_then(Value::as_object) {
            let set: Vec<(String, Toml)> = headers
                .iter()
                .filter_map(|(name, value)| {
                    Some((name.clone(), value.as_str().filter(|text| !text.contains('$'))?.into()))
                })
                .collect();
            if !set.is_empty() {
                rule(vec![("set_header", Toml::Table(set))], draft);
            }
        }
        if let Some(status) = action.get("return").and_then(Value::as_u64) {
            match (status, text("location").and_then(|to| target(&to))) {
                (301 | 302 | 303 | 307 | 308, Some(to)) => {
                    let status = (status != 301).then_some(("status", Toml::Number(status)));
                    rule([("redirect", Toml::Text(to))].into_iter().chain(status).collect(), draft);
                }
                (200 | 400..=599, _) => rule(vec![("return", Toml::Number(status))], draft),
                _ => draft.site.notes.lost(
                    source,
                    "a rule returns 200 or 400 to 599, or redirects to a target without variables",
                ),
            }
            return;
        }
        if let Some(to) = text("rewrite") {
            match target(&to).filter(|to| to.starts_with('/')) {
                Some(to) => rule(vec![("rewrite", to.into())], draft),
                None => draft.site.notes.lost(source, "a target has $0 to $9 and $host: docs/rules.md"),
            }
        }
        if let Some(share) = action.get("share") {
            self.share(share, action.get("fallback"), when, source, draft);
        } else if let Some(pass) = text("pass") {
            self.pass(&pass, when, draft);
        } else if let Some(to) = text("proxy") {
            self.proxy(vec![to.replace("http://unix:", "unix:")], when, source, draft);
        }
    }

    /// Files, and what answers for those that are missing.
    fn share(
        &mut self,
        share: &Value,
        fallback: Option<&Value>,
        when: &When,
        source: &Source,
        draft: &mut Draft,
    ) {
        let first = texts(share).into_iter().next().unwrap_or_default();
        match first.strip_suffix("$uri").map(|root| root.trim_end_matches('/').to_owned()) {
            Some(root)
                if draft.site.root.as_ref().is_none_or(|known| *known == root) && !root.contains('$') =>
            {
                draft.site.root = Some(root);
                draft.site.notes.carried(source);
            }
            _ => {
                let why = ONE_FOLDER;
                return draft.site.notes.lost(source, why);
            }
        }
        if let Some(fallback) = fallback {
            self.action(fallback, when, source, draft);
        }
    }

    fn application(&mut self, name: &str, target: Option<&str>, when: &When, draft: &mut Draft) {
        let Some(application) =
            self.config.pointer(&format!("/applications/{}", name.replace('/', "~1"))).cloned()
        else {
            let source = self.source(name, format!("applications/{name}"));
            return draft.site.notes.lost(&source, "there is no application of this name");
        };
        let source = self
            .source(name, format!("application {name} {}", application.get("type").unwrap_or(&Value::Null)));
        let kind = application.get("type").and_then(Value::as_str).unwrap_or_default();
        if !kind.starts_with("php") {
            let why = "Millrace starts PHP only: let the application have a server of its own, and name it in [[site.proxy]]";
            return draft.site.notes.lost(&source, why);
        }
        let of = |key: &str| {
            let own = target.and_then(|target| application.pointer(&format!("/targets/{target}/{key}")));
            own.or_else(|| application.get(key)).and_then(Value::as_str).map(str::to_owned)
        };
        let root = of("root").unwrap_or_default().trim_end_matches('/').to_owned();
        let site = &mut draft.site;
        match &site.root {
            Some(known) if *known != root => {
                return site.notes.lost(
                    &source,
                    format!(
                        "a site has one folder, this one {known}: give the application a site of its own"
                    ),
                );
            }
            _ => site.root = Some(root),
        }
        site.php = Php::Own;
        if let Some(script) = of("script")
            && when.iter().all(|(key, _)| matches!(*key, "host" | "unless_path"))
        {
            site.settings.set("front_controller", format!("/{}", script.trim_start_matches('/')));
        }
        if let Some(user) = of("user") {
            site.settings.set("php.user", user);
        }
        for (key, setting) in
            [("/options/admin", "php.ini"), ("/options/user", "php.ini"), ("/environment", "php.env")]
        {
            for (name, value) in application.pointer(key).and_then(Value::as_object).into_iter().flatten() {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                site.settings.set(&format!("{setting}.{}", crate::write::name(name)), value);
            }
        }
        let most = application
            .get("processes")
            .and_then(|processes| processes.as_u64().or_else(|| processes.get("max")?.as_u64()));
        if let Some(most) = most {
            site.settings.set("php.workers", Toml::Number(most));
        }
        if let Some(file) = application.pointer("/options/file").and_then(Value::as_str) {
            site.settings.set("php.ini_file", file);
        }
        site.notes.carried(&source);
        if let Some(seconds) = application.pointer("/limits/timeout").and_then(Value::as_u64) {
            site.settings.set("php.request_timeout", format!("{seconds}s"));
        }
    }

    fn proxy(&mut self, to: Vec<String>, when: &When, source: &Source, draft: &mut Draft) {
        let paths: Vec<String> = match when.as_slice() {
            [] | [("host", _)] => vec!["/".to_owned()],
            [("path", Toml::List(paths))] => {
                paths.iter().map(|path| path.trim_end_matches('*').to_owned()).collect()
            }
            _ => Vec::new(),
        };
        if to.is_empty()
            || paths.is_empty()
            || paths.iter().any(|path| path.contains('*') || !path.starts_with('/'))
        {
            return draft.site.notes.lost(
                source,
                "`proxy.path` is a path, or with a slash at its end all below it; `proxy.to` has URLs",
            );
        }
        for path in paths {
            let to = Toml::one_or_list(to.clone());
            let keys = vec![("path", Toml::Text(path)), ("to", to)];
            draft.site.proxy(Block { source: source.clone(), keys, caveat: None });
        }
        draft.site.notes.carried(source);
    }
}

/// The strings of a value.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) => list.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

/// The conditions of a `match`.
fn conditions(value: &Value) -> Result<When, String> {
    let mut when = When::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let list = texts(value);
        let (not, list): (Vec<String>, Vec<String>) =
            list.into_iter().partition(|text| text.starts_with('!'));
        let not: Vec<String> = not.iter().map(|text| text[1..].to_owned()).collect();
        if list.iter().chain(&not).any(|text| text.starts_with('~')) {
            return Err("write a rule with `regex`: docs/rules.md".to_owned());
        }
        let keys = match name.as_str() {
            "uri" => ("path", "unless_path"),
            "source" => ("from", "unless_from"),
            "host" => ("host", ""),
            "method" => ("method", ""),
            "scheme" => return Err("`redirect.https` leads from http to https".to_owned()),
            _ => return Err(format!("rules have no condition like `{name}`: docs/rules.md")),
        };
        if !not.is_empty() && keys.1.is_empty() {
            return Err(format!("rules have no negation of `{name}`: docs/rules.md"));
        }
        when.extend((!list.is_empty()).then_some((keys.0, Toml::List(list))));
        when.extend((!not.is_empty()).then_some((keys.1, Toml::List(not))));
    }
    Ok(when)
}

/// `https://$host$request_uri` as a rule has it.
fn target(text: &str) -> Option<String> {
    let keeps = text.ends_with("$request_uri");
    let to = text.replace("$request_uri", "$0").replace("$uri", "$0").replace("${host}", "$host");
    let rest = to.replace("$host", "").replace("$0", "");
    let fits = !rest.contains('$') && (to.starts_with('/') || to.starts_with("http"));
    fits.then(|| if keeps || to.contains('?') { to.clone() } else { format!("{to}?") })
}
