//! `forward_auth` and `rate_limit`: scripts that decide, and limits.

use super::conditions::{both, matcher};
use super::lex::CaddyLine;
use super::site::Converter;
use crate::value::{Block, Php, Toml, When, is_copied};

/// What to write for a check that can't be carried over.
const SCRIPT: &str = "write auth = { script = \"/auth.php\" } with a script of the site instead of `deny` (docs/rules.md; docs/adopt.md has one that \
                      asks an application): until then, all requests are refused";
const UNLIMITED: &str = "until you write it, nothing limits these requests";

impl Converter<'_> {
    /// `forward_auth` to a script of the site, which its upstream runs by FastCGI.
    pub fn script(&mut self, node: &CaddyLine, when: When, args: &[String]) {
        let (table, caveat) = match script(node, args, self.site.root.as_deref()) {
            Ok(found) => found,
            Err(why) => return self.closed(node, when, format!("{why}: {SCRIPT}")),
        };
        if self.site.php == Php::Off {
            self.site.php = match args.first().filter(|_| self.options.keep_fpm) {
                Some(address) => Php::Fastcgi(vec![address.replace("unix//", "unix:/")]),
                None => Php::Own,
            };
        }
        // One 2xx lets a request pass all of them.
        if self.actions.iter().any(|rule| rule.get("auth").is_some_and(|known| *known != table)) {
            let why =
                "one script lets a request pass, and the site has two: let one decide about all its paths";
            return self.closed(node, when, format!("{why}: {SCRIPT}"));
        }
        self.also_where_moved(&node.source, &when, &[("auth", table.clone())]);
        let keys = when.into_iter().chain([("auth", table)]).collect();
        self.actions.push(Block { source: node.source.clone(), keys, caveat });
        self.site.notes.carried(&node.whole());
        node.block.iter().for_each(|inner| self.site.notes.carried(&inner.whole()));
    }

    /// `rate_limit` of the module of this name: its zones.
    pub fn limits(&mut self, node: &CaddyLine, when: &When) {
        let zones: Vec<&CaddyLine> = node.block.iter().filter(|inner| inner.word(0) == "zone").collect();
        if zones.is_empty() {
            return self.site.notes.lost(&node.whole(), "it has no zone");
        }
        self.site.notes.carried(&node.source);
        for inner in node.block.iter().filter(|inner| inner.word(0) != "zone") {
            self.site.notes.needless(&inner.whole(), "each server counts for itself, in memory");
        }
        for zone in zones {
            match limit(zone, when) {
                Ok((keys, caveat)) => {
                    self.actions.push(Block { source: zone.source.clone(), keys, caveat });
                    self.site.notes.carried(&zone.whole());
                }
                Err(why) => self.site.notes.lost(&zone.whole(), format!("{why}; {UNLIMITED}")),
            }
        }
    }
}

/// The order in which rules decide as Caddy does: limits and refusals before what lets requests pass, and that before fixed responses.
pub fn ordered(actions: Vec<Block>) -> Vec<Block> {
    let (first, rest): (Vec<Block>, Vec<Block>) =
        actions.into_iter().partition(|rule| rule.get("limit").is_some());
    if rest.iter().all(|rule| rule.get("auth").is_none()) {
        return first.into_iter().chain(rest).collect();
    }
    let (denied, rest): (Vec<Block>, Vec<Block>) =
        rest.into_iter().partition(|rule| rule.get("deny").is_some());
    let (asked, rest): (Vec<Block>, Vec<Block>) =
        rest.into_iter().partition(|rule| rule.get("auth").is_some());
    first.into_iter().chain(denied).chain(asked).chain(rest).collect()
}

/// The value of `auth`, and in what it differs.
fn script(node: &CaddyLine, args: &[String], root: Option<&str>) -> Result<(Toml, Option<String>), String> {
    let of = |name: &str| node.block.iter().find(|inner| inner.word(0) == name);
    let upstream = args.first().map_or("its upstream", String::as_str);
    let Some(transport) = of("transport").filter(|transport| transport.word(1) == "fastcgi") else {
        return Err(format!(
            "the application at {upstream} decides, and `auth.script` runs a script of the site"
        ));
    };
    let other =
        |inner: &&CaddyLine| inner.word(0) == "root" && root.is_some_and(|root| root != inner.word(1));
    if let Some(other) = transport.block.iter().find(other) {
        return Err(format!("its script is below {}: put it into the site's root", other.word(1)));
    }
    let uri = of("uri").map_or("", |uri| uri.word(1));
    if !uri.starts_with('/') || !uri.ends_with(".php") || uri.contains(['?', '{', '#', '%', '*', '$', '\\']) {
        return Err("`auth.script` names one script below the root, without variables and a query".to_owned());
    }
    if let Some(other) =
        node.block.iter().find(|inner| !matches!(inner.word(0), "transport" | "uri" | "copy_headers"))
    {
        return Err(format!("`{}` changes what the script is asked", other.word(0)));
    }
    let words = |inner: &CaddyLine| inner.words.clone();
    let copied = node.block.iter().filter(|inner| inner.word(0) == "copy_headers").flat_map(|inner| {
        inner.words.iter().skip(1).cloned().chain(inner.block.iter().flat_map(words)).collect::<Vec<_>>()
    });
    let (mut names, mut renamed) = (Vec::new(), Vec::new());
    for name in copied {
        let (from, to) = name.split_once('>').unwrap_or((&name, &name));
        if from != to {
            renamed.push(format!("PHP and applications get {from}, not as {to}"));
        }
        match is_copied(from) {
            true => names.push(from.to_owned()),
            false => renamed.push(format!("{from} is not copied: a script cannot give a request this field")),
        }
    }
    let mut table = vec![("script".to_owned(), Toml::Text(uri.to_owned()))];
    table.extend((!names.is_empty()).then_some(("copy".to_owned(), Toml::List(names))));
    Ok((Toml::Table(table), (!renamed.is_empty()).then(|| renamed.join("; "))))
}

/// The keys of a zone's rule, and in what it differs.
fn limit(zone: &CaddyLine, when: &When) -> Result<(When, Option<String>), String> {
    let of = |name: &str| zone.block.iter().find(|inner| inner.word(0) == name);
    let key = of("key").map_or("", |key| key.word(1));
    let events =
        of("events").and_then(|events| events.word(1).parse::<u64>().ok()).filter(|events| *events > 0);
    let window = of("window").and_then(|window| seconds(window.word(1))).filter(|seconds| *seconds > 0);
    let (Some(events), Some(window)) = (events, window) else {
        return Err("a limit needs `events`, more than none, and a `window`: write `limit` and `burst` of a rule (docs/rules.md)".to_owned());
    };
    let rate = [(1, "s"), (60, "m"), (3600, "h")].iter().find_map(|(unit, name)| {
        let whole = (events * unit).is_multiple_of(window);
        whole.then(|| format!("{}/{name}", events * unit / window))
    });
    let Some(rate) = rate.filter(|_| events <= 1_000_000) else {
        return Err(format!(
            "{events} in {window} seconds is no whole number per hour: write `limit` of a rule with one near it, and burst = {events}"
        ));
    };
    let known = ["{remote_host}", "{http.request.remote.host}", "{client_ip}", "{http.vars.client_ip}"];
    if !known.contains(&key) {
        let what = if key.is_empty() { "all clients together" } else { key };
        return Err(format!(
            "it counts by {what}, a rule by the client's address: if that is right for you, write limit = \"{rate}\", burst = {events}"
        ));
    }
    let mut keys = when.clone();
    for inner in zone.block.iter().filter(|inner| inner.word(0) == "match") {
        keys = both(&keys, &matcher(inner)?)?.ok_or("no request matches its conditions")?;
    }
    keys.extend([("limit", rate.into()), ("burst", Toml::Number(events))]);
    let caveat = "what `burst` allows comes back at the rate of the limit; Caddy's window slides: it never has more than `events`";
    Ok((keys, Some(caveat.to_owned())))
}

/// `10s`, `1m`, `1h30m`, `24h` in seconds.
fn seconds(text: &str) -> Option<u64> {
    let (mut all, mut rest) = (0u64, text);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let unit = match &after[..end] {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return None,
        };
        all = all.checked_add(number.parse::<u64>().ok()?.checked_mul(unit)?)?;
        rest = &after[end..];
    }
    Some(all).filter(|all| *all > 0)
}
