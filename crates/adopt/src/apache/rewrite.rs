//! `RewriteCond` and `RewriteRule`, of a virtual host or of a folder's section.

use millrace_htaccess::lines;

use super::host::Host;
use super::read::Item;
use crate::pattern;
use crate::value::{Block, Toml};

/// Where rules go that no rule of Millrace is like.
const HTACCESS: &str = "write it into the .htaccess file of the root, without the slash at the beginning of the pattern: Millrace applies \
                        it there (docs/htaccess.md)";

/// The same for rules of a part of the site.
const OF_FOLDER: &str =
    "write it into the .htaccess file of this folder: Millrace applies it there (docs/htaccess.md)";

/// Where a rule stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RewritePlace {
    /// In the virtual host, outside of sections: patterns begin with a slash.
    Host,
    /// In a section for the whole site.
    Root,
    /// In a section for a part of it.
    Part,
}

/// The conditions that precede the next rule.
#[derive(Default)]
pub struct Rewrites {
    conditions: Vec<Item>,
}

/// What the conditions of a rule come to.
#[derive(Default)]
struct Conditions {
    keys: Vec<(&'static str, Toml)>,
    /// The request is not encrypted.
    is_plain: bool,
    /// No file has this name.
    is_missing: bool,
}

impl Rewrites {
    /// Takes a directive, if it is one of these.
    pub fn take(&mut self, item: &Item, host: &mut Host<'_>, place: RewritePlace) -> bool {
        match item.name.as_str() {
            "rewritecond" => self.conditions.push(item.clone()),
            "rewriterule" => {
                let conditions = std::mem::take(&mut self.conditions);
                let result = match place {
                    RewritePlace::Part => Err(OF_FOLDER.to_owned()),
                    _ => rule(item, &conditions, host, place == RewritePlace::Root),
                };
                if let Err(why) = result {
                    for condition in &conditions {
                        host.site.notes.lost(&condition.source, why.clone());
                    }
                    host.site.notes.lost(&item.source, why);
                } else {
                    conditions.iter().for_each(|condition| host.site.notes.carried(&condition.source));
                    host.site.notes.carried(&item.source);
                }
            }
            _ => return false,
        }
        true
    }
}

fn rule(item: &Item, conditions: &[Item], host: &mut Host<'_>, in_folder: bool) -> Result<(), String> {
    let arguments = lines::rewrite_arguments(&item.rest);
    let (Some(regex), Some(to)) = (arguments.first(), arguments.get(1)) else {
        return Err(HTACCESS.to_owned());
    };
    let flags = arguments.get(2).map_or("", |flags| flags.trim_matches(['[', ']']));
    let flags: Vec<String> =
        flags.split(',').map(|flag| flag.trim().to_owned()).filter(|flag| !flag.is_empty()).collect();
    let has = |name: &str| flags.iter().any(|flag| flag.eq_ignore_ascii_case(name));
    let found = read(conditions, host)?;
    let script = format!("/{}", to.trim_start_matches('/').split('?').next().unwrap_or_default());
    if found.is_missing && script.ends_with(".php") && !script.contains(['$', '%']) {
        host.site.settings.set("front_controller", script);
        return Ok(());
    }
    if *to == "-" && script == "/-" && (*regex == "^index\\.php$" || *regex == "^/index\\.php$") {
        return Ok(());
    }
    if found.is_missing {
        return Err(HTACCESS.to_owned());
    }
    let status = status(&flags);
    let is_redirect = status.is_some() || to.starts_with("http://") || to.starts_with("https://");
    let all = EVERYTHING.contains(regex);
    if found.is_plain && is_redirect && all && to.starts_with("https://") && found.keys.is_empty() {
        host.site.settings.set("redirect.https", Toml::Switch(true));
        return Ok(());
    }
    if found.is_plain {
        return Err(HTACCESS.to_owned());
    }
    let mut keys = found.keys;
    if !all || (to.contains("$1") && !is_whole_path(to, regex)) {
        if keys.iter().any(|(key, _)| matches!(*key, "path" | "regex")) || regex.starts_with('!') {
            return Err(HTACCESS.to_owned());
        }
        let regex = match (in_folder, regex.strip_prefix('^')) {
            (true, Some(rest)) => format!("^/{}", rest.trim_start_matches("/?").trim_start_matches('/')),
            _ => (*regex).to_owned(),
        };
        let carried = pattern::carried(&regex, has("NC") || has("nocase"))?;
        keys.push(("regex", Toml::Regex(carried.text)));
        keys.extend((!carried.unless.is_empty()).then_some(("unless_path", Toml::List(carried.unless))));
    }
    if has("F") || has("forbidden") {
        keys.push(("return", Toml::Number(403)));
    } else if has("G") || has("gone") {
        keys.push(("return", Toml::Number(410)));
    } else if *to == "-" || flags.iter().any(|flag| flag.contains('=') && !is_status(flag) || is_other(flag))
    {
        return Err(HTACCESS.to_owned());
    } else {
        let drops_query = has("QSD") || has("qsdiscard");
        let target = target(to, regex, all, drops_query).ok_or_else(|| HTACCESS.to_owned())?;
        keys.extend(leads(target, is_redirect.then_some(status.unwrap_or(302)))?);
    }
    let queries = to.contains('?') && !to.ends_with('?') && (has("QSA") || has("qsappend"));
    let caveat =
        queries.then(|| "the query of the request is replaced; Apache adds it to this one".to_owned());
    host.actions.push(Block { source: item.source.clone(), keys, caveat });
    Ok(())
}

/// Expressions that every path matches.
const EVERYTHING: &[&str] = &[
    "^", ".*", "^.*$", "(.*)", "^(.*)$", "^(.*)", "(.*)$", "^/?(.*)", "^/?(.*)$", "^/(.*)$", "^/(.*)",
    "^/.*$", "^/.*", "^/",
];

/// `R`, `R=301`.
fn is_status(flag: &str) -> bool {
    matches!(flag.split('=').next().unwrap_or_default().to_ascii_lowercase().as_str(), "r" | "redirect")
}

/// Flags for which rules have no equal.
fn is_other(flag: &str) -> bool {
    matches!(flag.to_ascii_lowercase().as_str(), "p" | "proxy" | "c" | "chain" | "s" | "skip")
}

/// The status that the flags say, if they redirect.
fn status(flags: &[String]) -> Option<u64> {
    flags.iter().find(|flag| is_status(flag)).map(|flag| match flag.split_once('=').map(|(_, value)| value) {
        Some(value) if value.eq_ignore_ascii_case("permanent") => 301,
        Some(value) => value.parse().unwrap_or(302),
        None => 302,
    })
}

/// The keys of a redirect, or of a rewrite without a status.
fn leads(target: String, status: Option<u64>) -> Result<Vec<(&'static str, Toml)>, String> {
    Ok(match status {
        None => vec![("rewrite", target.into())],
        Some(301) => vec![("redirect", target.into())],
        Some(status @ (302 | 303 | 307 | 308)) => {
            vec![("redirect", target.into()), ("status", Toml::Number(status))]
        }
        Some(_) => return Err(HTACCESS.to_owned()),
    })
}

/// `https://x/$1` with `^/(.*)$`, or `https://x$1` with `^(.*)$`: the whole path.
fn is_whole_path(to: &str, regex: &str) -> bool {
    let ends = to.matches('$').count() == 1 && !to.contains('?');
    ends && if matches!(regex, "^/(.*)$" | "^/(.*)" | "^/?(.*)" | "^/?(.*)$") {
        to.ends_with("/$1")
    } else {
        to.ends_with("$1")
    }
}

/// A target as rules have it.
fn target(to: &str, regex: &str, all: bool, drops_query: bool) -> Option<String> {
    let host = to.replace("%{HTTP_HOST}", "$host").replace("%{SERVER_NAME}", "$host");
    let uri =
        host.replace("/%{REQUEST_URI}", "$0").replace("%{REQUEST_URI}", "$0").replace("%{THE_REQUEST}", "%");
    let uri = uri.replace("$0?%{QUERY_STRING}", "$0");
    let whole =
        if all && is_whole_path(&uri, regex) { uri.replace("/$1", "$0").replace("$1", "$0") } else { uri };
    let whole = if whole.starts_with(['/', 'h']) { whole } else { format!("/{whole}") };
    let whole = whole.replace("/$0", "$0");
    let whole = if whole.starts_with("$0") { return None } else { whole };
    if whole.contains(['%', ' ']) || !(whole.starts_with('/') || whole.starts_with("http")) {
        return None;
    }
    Some(if drops_query && !whole.contains('?') { format!("{whole}?") } else { whole })
}

/// What the conditions of a rule come to.
fn read(conditions: &[Item], host: &Host<'_>) -> Result<Conditions, String> {
    let mut found = Conditions::default();
    let mut alternatives: Vec<String> = Vec::new();
    for condition in conditions {
        let arguments = lines::rewrite_arguments(&condition.rest);
        let (Some(test), Some(value)) = (arguments.first(), arguments.get(1)) else {
            return Err(HTACCESS.to_owned());
        };
        let flags = arguments.get(2).map_or(String::new(), |flags| flags.to_ascii_uppercase());
        let is_or = flags.contains("OR");
        let plain = value.trim_start_matches('^').trim_end_matches('$');
        match test.to_ascii_uppercase().as_str() {
            "%{HTTPS}" if matches!(*value, "off" | "!=on" | "!on" | "!^on$" | "=off") => {
                found.is_plain = true
            }
            "%{SERVER_PORT}" if matches!(*value, "80" | "^80$" | "!443" | "!^443$" | "=80") => {
                found.is_plain = true
            }
            "%{HTTP:X-FORWARDED-PROTO}"
                if value.contains("https") && value.starts_with('!') || *value == "=http" =>
            {
                found.is_plain = true
            }
            "%{REQUEST_FILENAME}"
            | "%{DOCUMENT_ROOT}%{REQUEST_URI}"
            | "%{DOCUMENT_ROOT}/%{REQUEST_FILENAME}"
                if matches!(*value, "!-f" | "!-d" | "!-l") =>
            {
                found.is_missing = true
            }
            "%{HTTP_HOST}" | "%{SERVER_NAME}" => {
                let hosts = hosts(value, host).ok_or_else(|| HTACCESS.to_owned())?;
                alternatives.extend(hosts);
                if !is_or {
                    found.keys.push(("host", Toml::List(std::mem::take(&mut alternatives))));
                }
                continue;
            }
            "%{REQUEST_URI}" if value.starts_with("!^/") && is_plain_text(&plain[2..]) => {
                let path = value.trim_start_matches("!^").trim_end_matches('$').replace('\\', "");
                let paths = if value.ends_with('$') { vec![path] } else { vec![format!("{path}*")] };
                match found.keys.iter_mut().find(|(key, _)| *key == "unless_path") {
                    Some((_, Toml::List(known))) => known.extend(paths),
                    _ => found.keys.push(("unless_path", Toml::List(paths))),
                }
            }
            "%{HTTP_USER_AGENT}" | "%{HTTP_REFERER}"
                if flags.contains("NC") && !value.starts_with(['!', '^']) && !is_or =>
            {
                let field =
                    if test.to_ascii_uppercase().contains("REFERER") { "Referer" } else { "User-Agent" };
                let words = pattern::alternatives(value).ok_or_else(|| HTACCESS.to_owned())?;
                let tests = words.into_iter().map(|word| format!("{field}: *{word}*")).collect();
                found.keys.push(("header", Toml::List(tests)));
            }
            "%{REQUEST_METHOD}" if value.starts_with('^') => {
                let words = pattern::alternatives(value).ok_or_else(|| HTACCESS.to_owned())?;
                found.keys.push(("method", Toml::List(words)));
            }
            "%{REMOTE_ADDR}" if plain.replace('\\', "").parse::<std::net::IpAddr>().is_ok() && !is_or => {
                found.keys.push(("from", Toml::List(vec![plain.replace('\\', "")])));
            }
            _ => return Err(HTACCESS.to_owned()),
        }
        if is_or && !found.is_missing && !found.is_plain {
            return Err(HTACCESS.to_owned());
        }
    }
    if alternatives.is_empty() { Ok(found) } else { Err(HTACCESS.to_owned()) }
}

fn is_plain_text(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_/.\\".contains(&b))
}

/// The hosts of `%{HTTP_HOST}`.
fn hosts(value: &str, host: &Host<'_>) -> Option<Vec<String>> {
    let (value, negated) = value.strip_prefix('!').map_or((value, false), |value| (value, true));
    let plain = value.trim_start_matches(['^', '=']).trim_end_matches('$').replace('\\', "");
    let names = &host.site.names;
    let of = |fits: &dyn Fn(&String) -> bool| {
        let found: Vec<String> = names.iter().filter(|name| fits(name) != negated).cloned().collect();
        (!found.is_empty()).then_some(found)
    };
    match value {
        "^www\\." | "^www." | "^www\\.(.*)$" | "^www\\.(.+)$" if !negated || !names.is_empty() => {
            of(&|name| name.starts_with("www."))
        }
        _ if negated => of(&|name| *name == plain),
        _ if plain.contains('.') && is_plain_text(&plain) && !plain.contains('/') => Some(vec![plain]),
        _ => None,
    }
}
