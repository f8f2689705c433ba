//! Sections - `<Directory>`, `<Location>`, `<Files>` and their like - as conditions of rules; and access control.

use std::net::IpAddr;

use millrace_htaccess::access;

use super::read::Item;
use crate::pattern;
use crate::value::{Block, Notes, Source, Toml, When};

/// The conditions for the requests of a section in a site with this root.
///
/// # Errors
/// Why no rule has them. An empty reason: the section is about folders that Millrace does not serve.
pub fn when(section: &Item, root: &str) -> Result<When, String> {
    let is_regex = section.arg(0) == "~";
    let text = section.arg(usize::from(is_regex));
    Ok(match section.name.as_str() {
        "directory" if is_regex => return Err("write a rule with `regex` for its paths".to_owned()),
        "directory" => folder(text, root)?,
        "location" if is_regex => regex(text)?,
        "locationmatch" => regex(text)?,
        "location" => below(text),
        "files" if !is_regex => {
            vec![("regex", Toml::Regex(format!("/{}$", wild(text))))]
        }
        "files" | "filesmatch" => of_names(text)?,
        _ => {
            return Err(
                "rules have paths, hosts, methods, header fields and addresses as conditions: docs/rules.md"
                    .to_owned(),
            );
        }
    })
}

/// An expression for a name with wildcards: `*` and `?` match no slash.
fn wild(text: &str) -> String {
    pattern::escaped(text).replace("\\*", "[^/]*").replace("\\?", "[^/]")
}

/// The conditions of a section about files for what restricts access: a folder is answered with its index file, one of `index`, and closed
/// with it.
pub fn guarded(when: &When, index: &[&str]) -> When {
    let mut guarded = when.clone();
    for (_, value) in &mut guarded {
        if let Toml::Regex(regex) = value
            && let Some(with_folders) = pattern::with_folders(regex, index)
        {
            *regex = with_folders;
        }
    }
    guarded
}

fn regex(text: &str) -> Result<When, String> {
    let carried = pattern::carried(text, false)?;
    let unless = (!carried.unless.is_empty()).then_some(("unless_path", Toml::List(carried.unless)));
    Ok([("regex", Toml::Regex(carried.text))].into_iter().chain(unless).collect())
}

/// An expression for the last part of a path.
fn of_names(text: &str) -> Result<When, String> {
    let (flags, plain) = text.strip_prefix("(?i)").map_or(("", text), |plain| ("(?i)", plain));
    let begun = match plain.strip_prefix('^') {
        Some(rest) => format!("/(?:{rest})"),
        None if plain.contains("|^") => return Err("write a rule with `regex` for the paths".to_owned()),
        None => plain.to_owned(),
    };
    let ended = if plain.ends_with('$') || plain.ends_with("$)") { begun } else { format!("{begun}[^/]*$") };
    regex(&format!("{flags}{ended}"))
}

/// `/x` of `<Location>`: it, and what is below it.
pub fn below(path: &str) -> When {
    match path.trim_end_matches('/') {
        "" => When::new(),
        plain if path.ends_with('/') => vec![("path", format!("{plain}/*").into())],
        plain => vec![("path", Toml::List(vec![plain.to_owned(), format!("{plain}/*")]))],
    }
}

/// A folder: the root, or one below it.
fn folder(text: &str, root: &str) -> Result<When, String> {
    let (folder, root) = (text.trim_end_matches('/'), root.trim_end_matches('/'));
    let folder = folder.strip_suffix("/*").unwrap_or(folder);
    if folder.contains(['*', '?', '[']) {
        let rest = folder.strip_prefix(root).filter(|rest| rest.starts_with('/') && !rest.contains('['));
        let Some(rest) = rest.filter(|_| !root.is_empty()) else {
            return Err("write a rule with `path` or `regex` for its paths".to_owned());
        };
        return Ok(vec![("regex", Toml::Regex(format!("^{}/", wild(rest))))]);
    }
    if root == folder || root.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')) {
        return Ok(When::new());
    }
    match folder.strip_prefix(root).filter(|rest| rest.starts_with('/')) {
        Some(rest) if !root.is_empty() => Ok(vec![("path", format!("{rest}/*").into())]),
        _ => Err(String::new()),
    }
}

/// Access control of one section.
#[derive(Default)]
pub struct Access {
    allowed: Vec<String>,
    denied: Vec<String>,
    denies_all: bool,
    allows_all: bool,
    users: Option<String>,
    realm: Option<String>,
    needs_user: bool,
    any: bool,
    source: Option<Source>,
}

impl Access {
    /// Takes a directive, if it is one of access control. `file` makes names of files absolute.
    pub fn take(&mut self, item: &Item, notes: &mut Notes) -> bool {
        let source = &item.source;
        let words: Vec<String> = item.args.iter().map(|arg| arg.to_ascii_lowercase()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match (item.name.as_str(), words.as_slice()) {
            ("order" | "authtype" | "authbasicprovider", _) => {}
            ("satisfy", [how]) => self.any = *how == "any",
            ("authname", _) => self.realm = Some(item.args.join(" ")),
            ("authuserfile", _) => self.users = Some(item.arg(0).to_owned()),
            ("requireany" | "requireall", _) => {
                self.any |= item.name == "requireany";
                for inner in item.items() {
                    if !self.take(inner, notes) {
                        notes.lost(
                            &inner.whole(),
                            "rules have `from`, `unless_from` and `auth`: docs/rules.md",
                        );
                    }
                }
            }
            ("require", ["all", "granted"]) | ("allow", ["from", "all"]) => self.allows_all = true,
            ("require", ["all", "denied"]) | ("deny", ["from", "all"]) => self.denies_all = true,
            ("require", ["valid-user"]) => self.needs_user = true,
            ("require", ["local"]) => self.allowed.extend(["127.0.0.0/8".to_owned(), "::1".to_owned()]),
            ("require", ["not", "ip", networks @ ..])
                if networks.iter().all(|text| network(text).is_some()) =>
            {
                self.denied.extend(networks.iter().filter_map(|text| network(text)));
            }
            ("require", ["ip", networks @ ..]) | ("allow", ["from", networks @ ..])
                if networks.iter().all(|text| network(text).is_some()) =>
            {
                self.allowed.extend(networks.iter().filter_map(|text| network(text)));
            }
            ("deny", ["from", networks @ ..]) if networks.iter().all(|text| network(text).is_some()) => {
                self.denied.extend(networks.iter().filter_map(|text| network(text)));
            }
            ("require" | "allow" | "deny" | "authgroupfile" | "authdigestprovider" | "authldapurl", _) => {
                // Refused until the owner writes a rule that lets people in.
                self.denies_all = true;
                self.source.get_or_insert_with(|| source.clone());
                let why = "rules have `from` and `unless_from` with networks, and `auth` for all users of a file: until you write it, \
                           all requests are refused";
                notes.lost(source, why);
                return true;
            }
            _ => return false,
        }
        self.source.get_or_insert_with(|| source.clone());
        notes.carried(source);
        true
    }

    /// Whether it says anything.
    pub fn is_written(&self) -> bool {
        self.source.is_some()
    }

    /// Its rules.
    pub fn rules(self, when: &When) -> Vec<Block> {
        let Some(source) = self.source else { return Vec::new() };
        let rule = |keys: Vec<(&'static str, Toml)>| {
            let keys = when.iter().cloned().chain(keys).collect();
            Block { source: source.clone(), keys, caveat: None }
        };
        let (allow, deny) = (("allow", Toml::Switch(true)), ("deny", Toml::Switch(true)));
        let password = self.users.filter(|_| self.needs_user).map(|users| {
            let realm = self.realm.unwrap_or_else(|| "Restricted".to_owned());
            rule(vec![(
                "auth",
                Toml::Table(vec![("users".into(), users.into()), ("realm".into(), realm.into())]),
            )])
        });
        let mut rules = Vec::new();
        if !self.denied.is_empty() {
            rules.push(rule(vec![("from", Toml::List(self.denied)), deny.clone()]));
        }
        match (self.allowed.is_empty(), self.any && password.is_some()) {
            (false, true) => rules.push(rule(vec![("from", Toml::List(self.allowed)), allow])),
            (false, false) if !self.allows_all => {
                rules.push(rule(vec![("unless_from", Toml::List(self.allowed)), deny]))
            }
            (true, _) if self.denies_all && password.is_none() => rules.push(rule(vec![deny])),
            (true, _) if self.allows_all && password.is_none() && !when.is_empty() => {
                rules.push(rule(vec![allow]))
            }
            _ => {}
        }
        rules.extend(password);
        rules
    }
}

/// A network as rules have it: `10.1` is `10.1.0.0/16` in Apache. `None`: it is none, or has a netmask with gaps, or one behind a part of an address.
fn network(text: &str) -> Option<String> {
    let is_part_with_mask = text.split_once('/').is_some_and(|(ip, _)| ip.parse::<IpAddr>().is_err());
    access::network(text).ok().filter(|_| !is_part_with_mask).map(|network| network.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_written_as_rules_have_them() {
        for (apache, rule) in [
            ("10.1.2.3", Some("10.1.2.3")),
            ("10.1.2.3/8", Some("10.0.0.0/8")),
            ("10.1.0.0/255.255.0.0", Some("10.1.0.0/16")),
            ("10.1", Some("10.1.0.0/16")),
            ("10.", Some("10.0.0.0/8")),
            ("2001:db8::1/32", Some("2001:db8::/32")),
            ("10.0.0.0/255.0.255.0", None),
            ("10.0.0.0/33", None),
            ("10.1/16", None),
            ("2001:db8::/255.0.0.0", None),
            ("example.org", None),
        ] {
            assert_eq!(network(apache).as_deref(), rule, "{apache}");
        }
    }
}
