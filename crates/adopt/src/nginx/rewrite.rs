//! `return`, `rewrite`, `if` and `try_files`: redirects, rewrites and front controllers.

use super::lex::Directive;
use super::location::{Kind, Location};
use super::server::Server;
use crate::pattern;
use crate::value::{Block, Source, Toml};

/// What became of a directive.
pub enum Done {
    /// It makes these rules.
    Rules(Vec<Block>),
    /// It is told.
    Yes,
    /// It is none of these.
    No,
}

/// Why nothing is carried over of what only decides about nginx's cache.
pub const CACHE: &str =
    "the page cache is on, and knows logged-in visitors, carts and private pages: docs/cache.md";
const NETWORK: &str = "`site.network` knows the URLs of a WordPress network";
const FRONT: &str = "a site has one front controller: in another folder, a .htaccess file with FallbackResource-like rewrite rules can \
                     name another (docs/htaccess.md)";
const IF: &str =
    "no rule has this condition; there are `host`, `method`, `query`, `header` and `from` (docs/rules.md)";

/// Takes a directive of a server or location.
pub fn take(server: &mut Server<'_>, directive: &Directive, location: Option<&Location<'_>>) -> Done {
    match directive.name.as_str() {
        "return" => returns(server, directive, location),
        "rewrite" => rewrites(server, directive, location),
        "if" => condition(server, directive, location),
        "try_files" => {
            try_files(server, directive, location);
            Done::Yes
        }
        _ => Done::No,
    }
}

fn lost(server: &mut Server<'_>, source: &Source, why: impl Into<String>) -> Done {
    server.site.notes.lost(source, why);
    Done::Yes
}

fn rule(
    server: &mut Server<'_>,
    source: &Source,
    keys: Vec<(&'static str, Toml)>,
    caveat: Option<&str>,
) -> Done {
    server.site.notes.carried(source);
    Done::Rules(vec![Block { source: source.clone(), keys, caveat: caveat.map(str::to_owned) }])
}

fn when(location: Option<&Location<'_>>) -> Vec<(&'static str, Toml)> {
    location.map(Location::when).unwrap_or_default()
}

fn returns(server: &mut Server<'_>, directive: &Directive, location: Option<&Location<'_>>) -> Done {
    let source = &directive.source;
    if location.is_some_and(|location| matches!(location.kind, Kind::Named(_))) {
        let why = "no URL is there: `error_page` and `try_files` lead requests there, and a rule with `redirect` or `return` is for URLs";
        return lost(server, source, why);
    }
    let (code, text) = match (directive.arg(0).parse::<u64>(), directive.args.len()) {
        (Ok(code), 1) => (code, None),
        (Ok(code), _) => (code, Some(directive.arg(1))),
        (Err(_), _) => (302, Some(directive.arg(0))),
    };
    let mut keys = when(location);
    match (code, text) {
        (301 | 302 | 303 | 307 | 308, Some(to)) => {
            let groups = location.map(|location| location.groups.as_slice()).unwrap_or_default();
            match target(server, to, groups, false) {
                Ok(to) => {
                    keys.push(("redirect", to.into()));
                    keys.extend((code != 301).then_some(("status", Toml::Number(code))));
                    rule(server, source, keys, None)
                }
                Err(why) => lost(server, source, why),
            }
        }
        (444, _) => {
            keys.push(("return", Toml::Number(403)));
            rule(server, source, keys, Some("403: a connection is not closed without a response"))
        }
        (200 | 400..=599, text) => {
            let text = text.unwrap_or_default();
            if text.contains('$') {
                return lost(server, source, "Millrace has no variables in a `text`: let a script respond");
            }
            keys.push(("return", Toml::Number(code)));
            if !text.is_empty() {
                keys.push(("text", text.into()));
            }
            rule(server, source, keys, None)
        }
        _ => lost(server, source, "a rule returns 200 or 400 to 599: let a script respond with this status"),
    }
}

/// A target as rules have it. nginx keeps the query of a `rewrite`, and drops the one of a `return`.
fn target(
    server: &Server<'_>,
    text: &str,
    groups: &[Option<String>],
    keeps_query: bool,
) -> Result<String, String> {
    let text = server.expand(text).replace("${", "$").replace('}', "");
    for ending in ["$is_args$args", "?$args", "?$query_string", "$is_args$query_string"] {
        if let Some(rest) = text.strip_suffix(ending) {
            return match rest.strip_suffix("$uri") {
                Some(start) => references(server, &format!("{start}$request_uri"), groups, keeps_query),
                // A target without `?` keeps the query.
                None => references(server, rest, groups, true),
            };
        }
    }
    references(server, &text, groups, keeps_query)
}

/// Replaces the variables of a target.
fn references(
    server: &Server<'_>,
    text: &str,
    groups: &[Option<String>],
    keeps_query: bool,
) -> Result<String, String> {
    let scheme = if server.site.secure || !server.site.plain { "https" } else { "http" };
    let name = server.site.names.first().cloned().unwrap_or_default();
    let (mut out, mut rest, mut has_query) = (String::new(), text, keeps_query);
    // A redirect to the same host and scheme is one to a path.
    for same in ["$scheme://$host/", "$scheme://$http_host/", "$scheme://$server_name/"] {
        if rest.starts_with(same) {
            rest = &rest[same.len() - 1..];
        }
    }
    for same in ["$scheme://$host$", "$scheme://$http_host$"] {
        if rest.starts_with(same) {
            rest = &rest[same.len() - 1..];
        }
    }
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        let end = if after.starts_with(|c: char| c.is_ascii_digit()) { 1 } else { end };
        let variable = &after[..end];
        rest = &after[end..];
        match variable {
            "scheme" => out.push_str(scheme),
            "host" | "http_host" => out.push_str("$host"),
            "server_name" if !name.is_empty() => out.push_str(&name),
            "request_uri" if rest.is_empty() || rest == "?" => {
                has_query = true;
                rest = "";
                out.push_str("$0");
            }
            "uri" | "document_uri" | "request_uri" => out.push_str("$0"),
            digit if digit.bytes().all(|b| b.is_ascii_digit()) && !digit.is_empty() => {
                out.push('$');
                out.push_str(digit);
            }
            named => match groups.iter().position(|group| group.as_deref() == Some(named)) {
                Some(group) if group < 10 => out.push_str(&format!("${group}")),
                _ => {
                    return Err(format!(
                        "there is no variable like ${named}: write the target, or let a script redirect"
                    ));
                }
            },
        }
    }
    out.push_str(rest);
    if !out.starts_with('/')
        && !out.starts_with("http://")
        && !out.starts_with("https://")
        && !out.starts_with("$0")
    {
        return Err("a redirect leads to a path or a URL".to_owned());
    }
    Ok(if has_query || out.contains('?') { out } else { format!("{out}?") })
}

fn rewrites(server: &mut Server<'_>, directive: &Directive, location: Option<&Location<'_>>) -> Done {
    let source = &directive.source;
    let (regex, to, flag) = (server.expand(directive.arg(0)), directive.arg(1), directive.arg(2));
    if location.is_some_and(|location| matches!(location.kind, Kind::Named(_))) {
        // The front controller of this name: see `try_files`.
        return Done::Yes;
    }
    let is_redirect =
        matches!(flag, "permanent" | "redirect") || to.starts_with("http") || to.starts_with("$scheme");
    let script = to.split('?').next().unwrap_or_default();
    if !is_redirect && is_everything(&regex) && script.ends_with(".php") && covers_all(location) {
        return front_controller(server, source, script);
    }
    if regex.contains("wp-") && to.contains('$') && !is_redirect && regex.contains(".*") {
        server.site.notes.needless(source, NETWORK);
        return Done::Yes;
    }
    let (mut keys, groups) = match rewrite_condition(&regex, to, location) {
        Ok(found) => found,
        Err(why) => return lost(server, source, why),
    };
    let to = if keys.iter().any(|(key, _)| *key == "regex") {
        to.to_owned()
    } else {
        to.replace("/$1", "$0").replace("$1", "$0")
    };
    let to = match target(server, &to, &groups, true) {
        Ok(to) => to,
        Err(why) => return lost(server, source, why),
    };
    let has_query = to.trim_end_matches('?').contains('?');
    let caveat = has_query.then_some("the query of the request is replaced; nginx adds it to this one");
    if is_redirect {
        keys.push(("redirect", to.into()));
        keys.extend((flag != "permanent").then_some(("status", Toml::Number(302))));
    } else {
        keys.push(("rewrite", to.into()));
    }
    rule(server, source, keys, caveat)
}

/// The conditions of a rewrite: its expression, or those of its location if the expression matches everything.
#[expect(clippy::type_complexity, reason = "conditions, and the names of groups")]
fn rewrite_condition(
    regex: &str,
    to: &str,
    location: Option<&Location<'_>>,
) -> Result<(Vec<(&'static str, Toml)>, Vec<Option<String>>), String> {
    let own = when(location);
    let only_path = !to.contains("$1")
        || matches!(regex, "^(.*)$" | "(.*)" | "^(.*)")
        || to.contains("/$1") && !to.contains("=$1");
    if is_everything(regex) && only_path {
        return Ok((own, Vec::new()));
    }
    let carried = pattern::carried(regex, false)?;
    let begins =
        |prefix: &str| regex.strip_prefix('^').is_some_and(|rest| rest.replace('\\', "").starts_with(prefix));
    let fits = match location.map(|location| &location.kind) {
        None | Some(Kind::Whole) => true,
        // What the rewrite matches must be a part of what the location matches.
        Some(Kind::Regex(own)) => {
            let start = own.strip_prefix('^').map(|rest| rest.replace('\\', ""));
            *own == carried.text || start.is_some_and(|start| is_plain(&start) && begins(&start))
        }
        Some(Kind::Exact(prefix) | Kind::First(prefix) | Kind::Prefix(prefix)) => begins(prefix),
        Some(Kind::Named(_)) => false,
    };
    if !fits {
        return Err("the expression begins elsewhere than its location: write a rule with `regex` for both"
            .to_owned());
    }
    let unless = (!carried.unless.is_empty()).then_some(("unless_path", Toml::List(carried.unless)));
    let keys = [("regex", Toml::Regex(carried.text))].into_iter().chain(unless).collect();
    Ok((keys, carried.groups))
}

/// Whether a text has no character that means something in an expression, but for a dot.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte))
}

fn is_everything(regex: &str) -> bool {
    matches!(
        regex,
        "^" | ".*"
            | "^.*$"
            | "^.*"
            | "^/"
            | "^/.*$"
            | "^/.*"
            | "^(.*)$"
            | "^/(.*)$"
            | "(.*)"
            | "^(.*)"
            | "^/(.*)"
            | "."
            | "^(.+)$"
            | "^/(.+)$"
    )
}

fn covers_all(location: Option<&Location<'_>>) -> bool {
    location.is_none_or(|location| location.kind == Kind::Whole)
}

/// Sets the script that answers URLs without a file.
fn front_controller(server: &mut Server<'_>, source: &Source, script: &str) -> Done {
    let known = server.site.settings.get("front_controller");
    if known.is_some_and(|known| *known != Toml::from(script)) {
        return lost(server, source, FRONT);
    }
    server.site.settings.set("front_controller", script);
    server.site.notes.carried(source);
    Done::Yes
}

/// An `if` block.
fn condition(server: &mut Server<'_>, directive: &Directive, location: Option<&Location<'_>>) -> Done {
    let text = directive.args.join(" ");
    let test = text.trim();
    let test = test.strip_prefix('(').unwrap_or(test);
    let test = test.strip_suffix(')').unwrap_or(test).trim();
    let whole = directive.whole();
    let inner = directive.inner();
    if inner.iter().all(|inner| inner.name == "set" || inner.name == "break") {
        return cache_condition(server, directive, test);
    }
    if test.starts_with("!-") && test.ends_with("$request_filename") {
        return missing_file(server, inner, &whole);
    }
    if inner.len() != 1 || !matches!(inner[0].name.as_str(), "return" | "rewrite") {
        return lost(server, &whole, IF);
    }
    let (variable, operator, value) = parts(test);
    let is_http = match variable {
        "$scheme" => matches!((operator, value), ("=", "http") | ("!=", "https")),
        "$https" => operator == "=" && value.is_empty() || (operator, value) == ("!=", "on"),
        "$server_port" => matches!((operator, value), ("=", "80") | ("!=", "443")),
        "$http_x_forwarded_proto" => matches!((operator, value), ("=", "http") | ("!=", "https")),
        _ => false,
    };
    let to_https = inner[0].args.iter().any(|arg| arg.starts_with("https://"));
    if is_http && to_https && covers_all(location) {
        server.site.settings.set("redirect.https", Toml::Switch(true));
        server.site.notes.carried(&whole);
        return Done::Yes;
    }
    let Some(test) = simple_test(server, variable, operator, value) else { return lost(server, &whole, IF) };
    let same = |to: &str| {
        to.starts_with("https://$host$request_uri") || to.starts_with("https://$server_name$request_uri")
    };
    if test.0 == "host"
        && covers_all(location)
        && server.site.plain
        && !server.site.secure
        && same(inner[0].args.last().map_or("", String::as_str))
    {
        // What certbot writes into servers of port 80.
        server.site.settings.set("redirect.https", Toml::Switch(true));
        server.site.notes.carried(&whole);
        return Done::Yes;
    }
    let has_path = |(key, _): &(&'static str, Toml)| matches!(*key, "path" | "regex");
    if has_path(&test) && (inner[0].name == "rewrite" || when(location).iter().any(has_path)) {
        return lost(server, &whole, "a rule has one path or expression: write one with `regex` for both");
    }
    match take(server, &inner[0], location) {
        Done::Rules(mut rules) => {
            for rule in &mut rules {
                rule.keys.insert(0, test.clone());
                rule.source = whole.clone();
            }
            server.site.notes.carried(&whole);
            Done::Rules(rules)
        }
        other => other,
    }
}

/// `$host = example.com`: variable, operator, value.
fn parts(test: &str) -> (&str, &str, &str) {
    let (variable, rest) = test.split_once(char::is_whitespace).unwrap_or((test, ""));
    let rest = rest.trim_start();
    let (operator, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    (variable, operator, value.trim().trim_matches('"'))
}

/// A condition as a key of a rule; `None`: rules have none like it.
fn simple_test(
    server: &Server<'_>,
    variable: &str,
    operator: &str,
    value: &str,
) -> Option<(&'static str, Toml)> {
    let words = || pattern::alternatives(value);
    match (variable, operator) {
        ("$host" | "$http_host", _) => {
            hosts(server, operator, value).map(|hosts| ("host", Toml::List(hosts)))
        }
        ("$request_method", "=") => Some(("method", Toml::List(vec![value.to_owned()]))),
        ("$request_method", "~" | "~*") if value.starts_with('^') => {
            words().map(|words| ("method", Toml::List(words)))
        }
        ("$uri" | "$document_uri" | "$request_uri", "~" | "~*") if !value.contains(['?', '=', '&']) => {
            // What a client has sent begins with the path; the path alone is the part that leads to files.
            let carried =
                pattern::carried(value, operator == "~*").ok().filter(|carried| carried.unless.is_empty());
            carried.map(|carried| ("regex", Toml::Regex(carried.text)))
        }
        ("$uri" | "$document_uri", "=") if value.starts_with('/') && !value.contains('*') => {
            Some(("path", value.into()))
        }
        (name, "" | "=") if name.starts_with("$arg_") => {
            let name = &name["$arg_".len()..];
            let value = if operator == "=" { format!("={value}") } else { String::new() };
            Some(("query", Toml::List(vec![format!("{name}{value}")])))
        }
        (name, "") if name.starts_with("$http_") => {
            Some(("header", Toml::List(vec![name["$http_".len()..].replace('_', "-")])))
        }
        ("$remote_addr", "=") => Some(("from", Toml::List(vec![value.to_owned()]))),
        ("$http_user_agent" | "$http_referer", "~*") if !value.starts_with('^') && !value.ends_with('$') => {
            let field = if variable == "$http_referer" { "Referer" } else { "User-Agent" };
            let tests = words()?.into_iter().map(|word| format!("{field}: *{word}*"));
            Some(("header", Toml::List(tests.collect())))
        }
        _ => None,
    }
}

/// The hosts of a condition; `None`: it is not so simple.
fn hosts(server: &Server<'_>, operator: &str, value: &str) -> Option<Vec<String>> {
    let known = &server.site.names;
    let value = server.expand(value);
    match operator {
        "=" => Some(vec![value]),
        "!=" => {
            let others: Vec<String> = known.iter().filter(|name| **name != value).cloned().collect();
            (!others.is_empty()).then_some(others)
        }
        "~" | "~*" if value.starts_with("^www\\.") => {
            let www: Vec<String> = known.iter().filter(|name| name.starts_with("www.")).cloned().collect();
            (!www.is_empty()).then_some(www)
        }
        "~" | "~*" => {
            pattern::alternatives(&value).filter(|words| words.iter().all(|word| word.contains('.')))
        }
        _ => None,
    }
}

/// `if (!-e $request_filename) { rewrite ... }`
fn missing_file(server: &mut Server<'_>, inner: &[Directive], whole: &Source) -> Done {
    let mut done = Done::Yes;
    for directive in inner {
        let (regex, to) = (directive.arg(0), directive.arg(1));
        let script = to.split('?').next().unwrap_or_default();
        done = match directive.name.as_str() {
            "break" => Done::Yes,
            "rewrite" if script.ends_with(".php") && !script.contains('$') => {
                front_controller(server, &directive.source, script)
            }
            "rewrite" if regex.contains("wp-") || (regex.contains("php") && to.starts_with('$')) => {
                server.site.notes.needless(&directive.source, NETWORK);
                Done::Yes
            }
            _ => lost(server, &directive.source, IF),
        };
    }
    server.site.notes.carried(whole);
    done
}

/// Whether a `set` is only of nginx's cache, or of a cache plugin's files.
pub fn is_of_cache(server: &Server<'_>, set: &Directive) -> bool {
    let name = set.arg(0);
    server.bypass.iter().any(|known| known == name)
        || ["cache", "skip", "rocket", "supercache", "w3tc", "bypass"].iter().any(|word| name.contains(word))
}

/// `if (...) { set $skip_cache 1; }`
fn cache_condition(server: &mut Server<'_>, directive: &Directive, test: &str) -> Done {
    let whole = directive.whole();
    let sets = || directive.inner().iter().filter(|inner| inner.name == "set");
    if directive.inner().iter().any(|inner| inner.name == "set")
        && !sets().all(|set| is_of_cache(server, set))
    {
        return lost(
            server,
            &whole,
            "Millrace has no variables: write the value into each rule that uses it",
        );
    }
    let (variable, operator, value) = parts(test);
    let by_path = matches!(variable, "$request_uri" | "$uri" | "$document_uri") && operator.starts_with('~');
    let is_own =
        |value: &str| value.contains("wp-") || value.contains("sitemap") || value.contains("checkout");
    if by_path && !is_own(value) {
        return match pattern::carried(value, operator == "~*") {
            Ok(carried) => {
                let bypass = Toml::Table(vec![("bypass".to_owned(), Toml::Switch(true))]);
                rule(server, &whole, vec![("regex", Toml::Regex(carried.text)), ("cache", bypass)], None)
            }
            Err(why) => lost(server, &whole, why),
        };
    }
    let knows = |value: &str| {
        ["wordpress", "comment_author", "wp-postpass", "woocommerce"].iter().any(|word| value.contains(word))
    };
    if variable.contains("cookie") && !knows(value) {
        return lost(server, &whole, "name the cookies with `cache.bypass_cookies`");
    }
    server.site.notes.needless(&whole, CACHE);
    Done::Yes
}

fn try_files(server: &mut Server<'_>, directive: &Directive, location: Option<&Location<'_>>) {
    let source = &directive.source;
    let fallback = directive.args.last().cloned().unwrap_or_default();
    let looks: Vec<&String> = directive.args.iter().rev().skip(1).collect();
    let odd = looks.iter().find(|look| {
        !matches!(
            look.as_str(),
            "$uri"
                | "$uri/"
                | "$document_uri"
                | "$fastcgi_script_name"
                | "${uri}"
                | "$uri/index.html"
                | "$uri/index.php"
        ) && !look.contains("cache")
    });
    let script = fallback.split(['?', '$']).next().unwrap_or_default();
    if let Some(odd) = odd {
        let why = format!(
            "Millrace looks for the file and the folder, not for {odd}: a .htaccess file can (docs/htaccess.md)"
        );
        server.site.notes.lost(source, why);
    } else if fallback == "=404" || (fallback.starts_with("$uri") && !fallback.contains(".php")) {
        server.site.notes.needless(source, "files, else 404");
    } else if let Some(code) = fallback.strip_prefix('=') {
        server.site.notes.lost(source, format!("a missing file is 404, not {code}"));
    } else if fallback.starts_with('@') {
        named_fallback(server, directive, location, &fallback);
    } else if script.ends_with(".php") && covers_all(location) {
        front_controller(server, source, script);
    } else if script.ends_with(".php") {
        let is_same = server.front_controller_of_all().as_deref() == Some(script);
        match is_same {
            true => server.site.notes.needless(source, "the site's front controller"),
            false => server.site.notes.lost(source, FRONT),
        }
    } else if fallback.contains("cache") {
        server.site.notes.needless(source, CACHE);
    } else {
        let why = format!(
            "a front controller is a script: for an application in JavaScript, put a .htaccess file with RewriteCond \
             %{{REQUEST_FILENAME}} !-f and RewriteRule ^ {script} into the root (docs/htaccess.md)"
        );
        server.site.notes.lost(source, why);
    }
}

/// `try_files ... @name`: what the location of that name does.
fn named_fallback(
    server: &mut Server<'_>,
    directive: &Directive,
    location: Option<&Location<'_>>,
    name: &str,
) {
    let source = &directive.source;
    let inner: Vec<Directive> = server.named(name).to_vec();
    match script_of(&inner) {
        Some(script) if covers_all(location) => {
            front_controller(server, source, &script);
        }
        Some(script) if server.front_controller_of_all().as_deref() == Some(script.as_str()) => {
            server.site.notes.needless(source, "the site's front controller");
        }
        None if inner.iter().any(|inner| matches!(inner.name.as_str(), "proxy_pass" | "grpc_pass")) => {
            server.site.notes.needless(source, "the application of the location answers");
        }
        _ => server.site.notes.lost(source, FRONT),
    }
    for inner in inner.iter().filter(|inner| inner.name == "rewrite" || inner.name == "try_files") {
        server.site.notes.carried(&inner.source);
    }
}

/// The script that a named location runs.
pub fn script_of(inner: &[Directive]) -> Option<String> {
    inner.iter().find_map(|inner| match inner.name.as_str() {
        "rewrite" => script_in(inner.arg(1)),
        "try_files" => inner.args.last().and_then(|last| script_in(last)),
        "fastcgi_param" if inner.arg(0) == "SCRIPT_FILENAME" => {
            inner.arg(1).rsplit_once('/').and_then(|(_, script)| script_in(&format!("/{script}")))
        }
        _ => None,
    })
}

/// `/index.php` of `/index.php?$args` and `/index.php/$1`.
pub fn script_in(text: &str) -> Option<String> {
    let script = text.find(".php").map(|at| &text[..at + ".php".len()])?;
    (script.starts_with('/') && !script.contains('$')).then(|| script.to_owned())
}
