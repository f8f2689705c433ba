//! Keys that no setting has: what is likely meant, and where that is written. A suggestion never does the opposite of what is written.

use super::{Scope, below};
use crate::php_ini;
use crate::problem::{At, Problem, What, shown};
use crate::rule;
use crate::suggest;
use crate::table::{self, Setting};

/// The problem of a key that isn't in the table, with the most likely fix. For a setting that has gone it is a warning: an update must not keep
/// a server from starting.
pub(crate) fn unknown_key(scope: Scope, path: &str, at: &At) -> Problem {
    let name = scope.display(path);
    if let Some(why) = table::gone(name.strip_prefix("site.").unwrap_or(&name)) {
        return Problem::warning(What::UnknownKey, format!("`{name}` has gone: {why}"), "remove the line")
            .at(Some(at), "has no effect");
    }
    let (row_path, _) = table::unnamed(path);
    if let Some(row) = table::rows().find(|row| scope.other().key_of(row) == Some(&*row_path)) {
        let (what, why) = match scope {
            Scope::Global => ("belongs in a site", "each site has its own"),
            Scope::Site => ("cannot be set in a site", "it applies to the whole server"),
            Scope::Tls => ("cannot be set in [[tls]]", "a [[tls]] configures one certificate only"),
            Scope::Proxy => ("cannot be set in [[site.proxy]]", "it applies to the whole server"),
        };
        return Problem::error(What::Misplaced, format!("`{name}` {what}: {why}"), row.where_to_write())
            .at(Some(at), "not here");
    }
    if scope.other().is_table(path) {
        let (what, cure) = match scope {
            Scope::Global => ("belongs in a site", format!("write it as [site.{path}], below a [[site]]")),
            Scope::Site | Scope::Tls | Scope::Proxy => (
                "cannot be set here: it applies to the whole server",
                format!("write [{path}] above the first [[site]]"),
            ),
        };
        return Problem::error(What::Misplaced, format!("`{path}` {what}"), cure).at(Some(at), "not here");
    }
    let cure = match likely(scope, path, at) {
        Some(likely) => likely.cure(),
        None => match known_under(scope, path) {
            Some(known) => format!("remove it; the settings here are {known}"),
            None => "remove it, or look for the setting in `millrace explain all`".to_owned(),
        },
    };
    Problem::error(What::UnknownKey, format!("no setting is named `{}`", shown(&name)), cure)
        .at(Some(at), "unknown")
}

/// The probable meaning of an unknown key.
enum Likely {
    /// It would switch something on or off: what does that instead.
    Switch(String),
    /// A setting of PHP's own.
    Php(String),
    /// Its last part is the name of a setting in another table.
    Moved(&'static Setting),
    /// Another server's name for a setting.
    Renamed(&'static Setting),
    /// A misspelt name of the same table.
    Misspelt(String),
}

impl Likely {
    fn cure(&self) -> String {
        match self {
            Self::Switch(cure) | Self::Php(cure) => cure.clone(),
            Self::Moved(row) => format!("did you mean `{}`? {}", row.key, row.where_to_write()),
            Self::Renamed(row) => format!("here it is called `{}`: {}", row.key, row.where_to_write()),
            Self::Misspelt(word) => format!("did you mean `{word}`?"),
        }
    }
}

/// What switches the parts on and off that have no `enabled`: the table, and what to do for on and for off.
const SWITCHES: &[(&str, &str, &str)] = &[
    (
        "cache",
        "remove the line: pages are cached unless `cache.mode` is \"off\"",
        "write `mode = \"off\"` under [cache]: `cache.mode` says whether pages are cached",
    ),
    (
        "https",
        "write `listen = [\":443\"]` under [https]: with addresses in `https.listen`, HTTPS is on",
        "remove `listen` from [https]: without addresses in `https.listen`, HTTPS is off",
    ),
    (
        "acme",
        "write `acme = true` under [https]: `https.acme` says whether certificates are obtained automatically",
        "write `acme = false` under [https]: `https.acme` says whether certificates are obtained automatically",
    ),
    (
        "admin",
        "remove the line: the admin address is on unless `admin.listen` is \"off\"",
        "write `listen = \"off\"` under [admin]: `admin.listen` is the admin address",
    ),
    (
        "log",
        "name a file: write `access = \"/var/log/millrace/access.log\"` under [log]",
        "write `access = \"off\"` under [log]: `log.access` is the access log",
    ),
    (
        "shield",
        "remove the line: `shield.mode` says whether requests are limited",
        "write `mode = \"off\"` under [shield]: `shield.mode` says whether requests are limited",
    ),
    (
        "files",
        "remove the line: files below `site.root` are always served",
        "write a rule for the paths that must not be served (docs/rules.md)",
    ),
];

/// Words for on, and for off, that no table of settings means in another way.
const ON: &[&str] = &["enabled", "enable", "on", "active", "is_enabled"];
const OFF: &[&str] = &["disabled", "disable", "off"];

/// What to do instead of `[TABLE] enabled = true`.
fn switch(table: &str, last: &str, value: Option<&str>) -> Option<Likely> {
    let is_on = match (ON.contains(&last), OFF.contains(&last)) {
        (false, false) => return None,
        (is_on, _) => is_on != matches!(value, Some("false" | "0" | "\"off\"" | "\"false\"" | "\"no\"")),
    };
    let own = ON.iter().find_map(|word| table::find(&join(table, word)));
    let cure = match (SWITCHES.iter().find(|(name, ..)| *name == table), own) {
        (Some((_, on, off)), _) => if is_on { *on } else { *off }.to_owned(),
        (None, Some(row)) => format!("write `{} = {is_on}` under {}", row.last(), row.header()),
        (None, None) => {
            "remove it: what is configured is on; `millrace explain all` lists what turns parts off"
                .to_owned()
        }
    };
    Some(Likely::Switch(cure))
}

/// What to write instead of a setting of PHP's own that stands among ours. `is_near`: misspelt ones count, too.
fn of_php(scope: Scope, path: &str, value: Option<&str>, is_near: bool) -> Option<Likely> {
    let path = path.strip_prefix("php.").unwrap_or(path);
    let header = if scope == Scope::Site { "[site.php.ini]" } else { "[php.ini]" };
    let near = if is_near { php_ini::misspelt(path) } else { None };
    if let Some(name) = php_ini::known(path).or(near) {
        let value = match value {
            Some(value) if php_ini::wrong(name, value.trim_matches(['"', '\''])).is_none() => {
                value.to_owned()
            }
            _ => "...".to_owned(),
        };
        let table = header.replace(".ini]", "]");
        return Some(Likely::Php(format!(
            "it is a setting of PHP's own: write `ini = {{ {name} = {value} }}` under {table}"
        )));
    }
    php_ini::is_prefix(path).then(|| {
        let header = header.replace("ini]", &format!("ini.{path}]"));
        Likely::Php(format!("these are settings of PHP's own: write them under {header}"))
    })
}

/// The value behind a key, if it is on one line.
fn written_value(at: &At) -> Option<&str> {
    let rest = at.origin.text.get(at.span.end..)?.lines().next()?;
    let value = rest.trim_start_matches(['"', '\'']).trim_start().strip_prefix('=')?;
    let end = match value.trim_start().chars().next()? {
        quote @ ('"' | '\'') => value.match_indices(quote).nth(1)?.0 + 1,
        _ => value.find(['#', ',', '}']).unwrap_or(value.len()),
    };
    Some(value[..end].trim()).filter(|value| !value.is_empty())
}

fn likely(scope: Scope, path: &str, at: &At) -> Option<Likely> {
    let last = path.rsplit('.').next().unwrap_or(path);
    let table = path.strip_suffix(last).unwrap_or("").trim_end_matches('.');
    let value = written_value(at);
    let rules = (scope == Scope::Site && table.is_empty()).then_some(rule::NAME);
    let neighbours = || {
        let names = table::rows().filter_map(|row| below(scope.key_of(row)?, table)?.split('.').next());
        names.chain(rules)
    };
    let same_table = |row: &&'static Setting| scope.key_of(row).and_then(|key| below(key, table)).is_some();
    let is_alias =
        |row: &&Setting| row.elsewhere.iter().any(|name| name.eq_ignore_ascii_case(last) || *name == path);
    if let Some(found) = switch(table, last, value) {
        return Some(found);
    }
    // Names of PHP's own settings mean those wherever PHP is configured, or no part in particular.
    let is_phps = table.is_empty() || table.starts_with("php");
    if let Some(found) = of_php(scope, path, value, false).filter(|_| is_phps) {
        return Some(found);
    }
    if let Some(row) = table::rows().find(|row| row.last() == last) {
        return Some(Likely::Moved(row));
    }
    let alias = table::rows().filter(same_table).find(is_alias).or_else(|| table::rows().find(is_alias));
    if let Some(word) = suggest::nearest(last, neighbours()) {
        return Some(Likely::Misspelt(scope.display(&join(table, word))));
    }
    if let Some(row) = alias {
        return Some(Likely::Renamed(row));
    }
    if let Some(found) = of_php(scope, path, value, true) {
        return Some(found);
    }
    let word = suggest::nearest(last, table::rows().map(Setting::last))?;
    table::rows().find(|row| row.last() == word).map(Likely::Moved)
}

fn join(table: &str, name: &str) -> String {
    if table.is_empty() { name.to_owned() } else { format!("{table}.{name}") }
}

/// The names in the table of `path`, if there are at most 14.
fn known_under(scope: Scope, path: &str) -> Option<String> {
    let table = path.rsplit_once('.').map_or("", |(table, _)| table);
    let mut names: Vec<&str> =
        table::rows().filter_map(|row| below(scope.key_of(row)?, table)?.split('.').next()).collect();
    names.sort_unstable();
    names.dedup();
    if scope == Scope::Global && table.is_empty() {
        names.extend(["site", "tls"]);
    }
    (1..=14).contains(&names.len()).then(|| names.join(", "))
}
