//! Sites of one name become one site: other servers have one for each port, Millrace has one for each name.

use crate::value::{Adopted, Block, Php, Site, Source, Toml, is_challenges};

/// Merges the sites of each name, and what only redirects to another site.
pub fn merge(adopted: &mut Adopted) {
    let (redirects, mut sites): (Vec<Site>, Vec<Site>) =
        std::mem::take(&mut adopted.sites).into_iter().partition(|site| redirect_of(site).is_some());
    // Of two sites with one name, the one with HTTPS has the content.
    sites.sort_by_key(|site| !site.secure);
    let mut merged: Vec<Site> = Vec::new();
    for site in sites {
        match merged.iter_mut().find(|known| shares_name(known, &site)) {
            Some(known) => join(known, site),
            None => merged.push(site),
        }
    }
    merged.sort_by_key(|site| (site.source.place.file.clone(), site.source.place.line));
    for site in redirects {
        redirect(&mut merged, site);
    }
    nameless(&mut merged);
    let ends_elsewhere =
        ["https.listen", "server.trusted_proxies"].iter().all(|key| adopted.settings.get(key).is_none());
    for site in
        merged.iter_mut().filter(|site| ends_elsewhere && site.settings.get("redirect.https").is_some())
    {
        let why = "it redirects to HTTPS, which a server before it ends: name that one with `server.trusted_proxies`, or visitors are \
                   redirected for ever";
        site.notes.lost(&site.source.clone(), why);
    }
    adopted.sites = merged;
}

/// The rule and the target of a site that does nothing but redirect, and answer certificate authorities.
fn redirect_of(site: &Site) -> Option<(Option<&Block>, String)> {
    if !site.proxies.iter().all(Block::is_challenge) {
        return None;
    }
    let acts =
        |rule: &&Block| !rule.is_challenge() && !rule.keys.iter().all(|(key, _)| EFFECTS.contains(key));
    let mut acting = site.rules.iter().filter(acts);
    let (first, more) = (acting.next(), acting.next());
    if let Some(rule) = first
        && let Some(Toml::Text(to)) = rule.get("redirect")
        && rule.keys.iter().all(is_for_all)
    {
        // Nothing behind it is reached: no other rule, no script, no file.
        return Some((Some(rule), to.clone()));
    }
    let is_bare = site.php == Php::Off && site.settings.get("front_controller").is_none();
    let is_404 = |rule: &Block| rule.get("return") == Some(&Toml::Number(404)) && rule.keys.len() == 1;
    let answers = match first {
        Some(rule) => more.is_some() || !is_404(rule),
        None => site.root.is_some(),
    };
    let to_https = site.settings.get("redirect.https").is_some();
    (is_bare && to_https && !answers).then(|| (None, "https://$host$0".to_owned()))
}

/// Whether a key of a redirect leaves it for all requests but those of certificate authorities.
fn is_for_all((key, value): &(&str, Toml)) -> bool {
    match *key {
        "unless_path" => is_challenges(value),
        key => matches!(key, "redirect" | "status"),
    }
}

/// Keys of rules that do not decide what becomes of a request.
const EFFECTS: &[&str] = &[
    "path",
    "regex",
    "unless_path",
    "set_header",
    "add_header",
    "unset_header",
    "error_page",
    "expires",
    "on_status",
    "on_type",
];

fn shares_name(one: &Site, other: &Site) -> bool {
    one.names.iter().any(|name| other.names.contains(name))
        || (one.names.is_empty() && other.names.is_empty())
}

/// Adds a second site of the same name, which another port has.
fn join(known: &mut Site, other: Site) {
    let same = |one: &[Block], two: &[Block]| {
        one.iter().map(|block| &block.keys).eq(two.iter().map(|block| &block.keys))
    };
    let is_same =
        known.root == other.root && same(&known.rules, &other.rules) && same(&known.proxies, &other.proxies);
    other.names.iter().for_each(|name| known.name(name));
    let only_redirects = known.secure && !other.secure && other.settings.get("redirect.https").is_some();
    known.default |= other.default;
    known.secure |= other.secure;
    known.plain |= other.plain;
    known.notes.append(other.notes);
    if is_same || only_redirects {
        if only_redirects {
            known.settings.set("redirect.https", Toml::Switch(true));
        }
        known.notes.needless(&other.source, "a site is the same over HTTP and HTTPS");
    } else if other.root.is_none() && other.proxies.is_empty() && other.rules.is_empty() {
        known.notes.needless(&other.source, "it has no content of its own");
    } else {
        let why = format!(
            "a name is one site on all ports: what it does otherwise than {} is missing; set `redirect.https`, or give it a name of \
             its own",
            known.source.place
        );
        known.notes.lost(&other.source, why);
    }
}

/// Puts a site that only redirects into the site that it leads to, or into the first.
fn redirect(sites: &mut Vec<Site>, mut site: Site) {
    let Some((rule, to)) = redirect_of(&site) else { return };
    let rule = rule.cloned();
    let (scheme, rest) = to.split_once("://").unwrap_or(("", ""));
    let (host, path) = rest.find(['/', '$']).filter(|at| *at > 0).map_or((rest, ""), |at| rest.split_at(at));
    let (host, path) = rest.strip_prefix("$host").map_or((host, path), |path| ("$host", path));
    let keeps_path = path == "$0";
    let goes_to = |known: &Site| {
        if host == "$host" { shares_name(known, &site) } else { known.names.iter().any(|name| name == host) }
    };
    let Some(at) = sites.iter().position(goes_to).or(if sites.is_empty() { None } else { Some(0) }) else {
        sites.push(site);
        return;
    };
    let is_target = goes_to(&sites[at]);
    let target = &mut sites[at];
    if site.names.is_empty() && !(is_target && scheme == "https" && keeps_path) && host != "$host" {
        return catch_all(sites, site);
    }
    let target_secure = target.secure;
    move_challenges(&mut site, target);
    let own: Vec<String> =
        site.names.iter().filter(|name| host != "$host" && *name != host).cloned().collect();
    target.notes.append(site.notes);
    target.notes.carried(&site.source);
    target.default |= site.default;
    if scheme == "https" && keeps_path && (is_target || host == "$host") && site.plain {
        if target_secure {
            target.settings.set("redirect.https", Toml::Switch(true));
        } else {
            target.notes.lost(&site.source, "it redirects to HTTPS, but there is no site with it: add [https] and redirect = { https = true }");
        }
    }
    let is_www = is_target && keeps_path && own.iter().all(|name| *name == format!("www.{host}"));
    let is_bare = is_target && keeps_path && own.iter().all(|name| host == format!("www.{name}"));
    for name in &site.names {
        target.name(name);
    }
    if own.is_empty() {
        return;
    }
    if is_www {
        target.settings.set("redirect.www", "remove");
    } else if is_bare {
        target.settings.set("redirect.www", "add");
    } else {
        let mut keys = vec![("host", Toml::List(own))];
        keys.extend(rule.iter().flat_map(|rule| rule.keys.clone()));
        let source: Source = rule.map_or(site.source, |rule| rule.source);
        let first =
            target.rules.iter().position(|rule| rule.get("host").is_none()).unwrap_or(target.rules.len());
        target.rules.insert(first, Block { source, keys, caveat: None });
    }
}

/// Moves what answers certificate authorities: it stays open, whatever rules of the other site close or redirect. Unless that has
/// the same names on another port, it is for the names of this one only.
fn move_challenges(site: &mut Site, target: &mut Site) {
    let is_same = site.names.iter().all(|name| target.names.contains(name));
    let (mut challenges, others): (Vec<Block>, Vec<Block>) =
        std::mem::take(&mut site.rules).into_iter().partition(Block::is_challenge);
    site.rules = others;
    for rule in challenges.iter_mut().filter(|_| !is_same) {
        rule.keys.insert(0, ("host", Toml::List(site.names.clone())));
    }
    let new = |rule: &Block| !target.rules.iter().any(|known| known.keys == rule.keys);
    let challenges: Vec<Block> = challenges.into_iter().filter(new).collect();
    open_challenges(challenges, &mut target.rules);
    for block in std::mem::take(&mut site.proxies) {
        target.proxy(block);
    }
}

/// Puts rules for certificate authorities before all others, and exempts them from what these refuse.
pub fn open_challenges(challenges: Vec<Block>, rules: &mut Vec<Block>) {
    let refuses = |rule: &Block| ["deny", "auth", "limit"].iter().any(|key| rule.get(key).is_some());
    let is_refused = rules.iter().any(refuses);
    let pass = |rule: &Block| {
        let conditions = rule.keys.iter().filter(|(key, _)| matches!(*key, "host" | "path")).cloned();
        let keys = conditions.chain([("allow", Toml::Switch(true))]).collect();
        Block { source: rule.source.clone(), keys, caveat: None }
    };
    let passes: Vec<Block> =
        challenges.iter().filter(|rule| is_refused && rule.get("allow").is_none()).map(pass).collect();
    rules.splice(0..0, passes.into_iter().chain(challenges));
}

/// A site for unknown names that only redirects: it needs a folder, although it sends no file.
fn catch_all(sites: &mut Vec<Site>, mut site: Site) {
    site.root = site.root.or_else(|| sites.iter().find_map(|known| known.root.clone()));
    site.default = true;
    sites.push(site);
}

/// The root of a site that sends no file.
const EMPTY: &str = "/srv/empty";

/// A site without a name must be the default one.
fn nameless(sites: &mut [Site]) {
    let folder = sites.iter().find_map(|site| site.root.clone());
    let chosen = sites.iter().position(|site| site.default && site.names.is_empty());
    let chosen = chosen.or_else(|| sites.iter().position(|site| site.default));
    let chosen = chosen.or_else(|| sites.iter().position(|site| site.names.is_empty())).unwrap_or(0);
    for (number, site) in sites.iter_mut().enumerate() {
        site.default = number == chosen && (number != 0 || site.default);
        let is_covered = site.proxies.iter().any(|proxy| proxy.get("path") == Some(&Toml::from("/")));
        if site.root.is_none() && !is_covered {
            // Rules need no file, but a site has a folder.
            site.root.clone_from(&folder);
            if folder.is_none() {
                let source = site.source.clone();
                site.notes.lost(
                    &source,
                    format!("it has no folder: create an empty one (mkdir -p {EMPTY}), or correct `root`"),
                );
                site.root = Some(EMPTY.to_owned());
            }
        }
        if number != chosen && site.names.is_empty() {
            let source = site.source.clone();
            site.notes
                .lost(&source, "no request reaches a site without names: add `names`, or `default = true`");
        }
    }
}
