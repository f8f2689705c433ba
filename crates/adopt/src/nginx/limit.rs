//! `limit_req`: rules with `limit` and `burst`.

use super::Http;
use super::lex::Directive;
use super::location::{Kind, Location};
use super::php;
use super::server::Server;
use crate::pattern;
use crate::value::{Block, Source, Toml, When};

/// `limit_req_zone`: what is counted, and how many are let through.
#[derive(Debug)]
pub struct Zone {
    name: String,
    key: String,
    /// As a rule has it: `10/s`.
    rate: Option<String>,
    /// How many `limit_req` name it.
    uses: usize,
    pub source: Source,
}

/// The largest `burst` of a rule.
const MOST_REQUESTS: u64 = 1_000_000;
const UNLIMITED: &str = "; until you write it, nothing limits these requests";

impl Zone {
    /// Reads a `limit_req_zone`.
    pub fn read(directive: &Directive) -> Zone {
        let option =
            |name: &str| directive.args.iter().find_map(|arg| arg.strip_prefix(name)).unwrap_or_default();
        let rate = ["s", "m"].iter().find_map(|unit| {
            let number = option("rate=").strip_suffix(&format!("r/{unit}"))?.parse::<u64>().ok()?;
            (1..=MOST_REQUESTS).contains(&number).then(|| format!("{number}/{unit}"))
        });
        Zone {
            name: option("zone=").split(':').next().unwrap_or_default().to_owned(),
            key: directive.arg(0).replace(['{', '}', '"'], ""),
            rate,
            uses: 0,
            source: directive.source.clone(),
        }
    }

    /// Whether a `limit_req` names it.
    pub fn is_named(&self) -> bool {
        self.uses > 0
    }
}

/// Counts how often each zone is named: nginx counts the requests of all these places together.
pub fn count_uses(directives: &[Directive], zones: &mut [Zone]) {
    for directive in directives {
        if directive.name == "limit_req"
            && let Some(name) = directive.args.iter().find_map(|arg| arg.strip_prefix("zone="))
        {
            zones.iter_mut().filter(|zone| zone.name == name).for_each(|zone| zone.uses += 1);
        }
        count_uses(directive.inner(), zones);
    }
}

/// The rules for the `limit_req` of a server (`location` is none) or a location.
pub fn rules<'a>(server: &mut Server<'a>, own: &[Directive], location: Option<&Location<'a>>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for directive in own {
        match rule(server, directive, location) {
            Ok(block) => {
                server.site.notes.carried(&directive.source);
                blocks.push(block);
            }
            Err(why) => server.site.notes.lost(&directive.source, why),
        }
    }
    blocks
}

fn rule<'a>(
    server: &mut Server<'a>,
    directive: &Directive,
    location: Option<&Location<'a>>,
) -> Result<Block, String> {
    let option = |name: &str| directive.args.iter().find_map(|arg| arg.strip_prefix(name));
    let http: &Http = server.http;
    let name = option("zone=").unwrap_or_default();
    let Some(zone) = http.zones.iter().find(|zone| zone.name == name) else {
        return Err(format!("there is no `limit_req_zone` with the name {name}{UNLIMITED}"));
    };
    let Some(rate) = zone.rate.clone() else {
        return Err(format!("the rate of its zone is no number per second or minute{UNLIMITED}"));
    };
    // `burst` of nginx is how many may come beside the one that the rate allows.
    let beyond: u64 = option("burst=").and_then(|number| number.parse().ok()).unwrap_or(0);
    let burst = beyond.saturating_add(1).min(MOST_REQUESTS);
    let written = format!("limit = \"{rate}\", burst = {burst}");
    if !matches!(zone.key.as_str(), "$binary_remote_addr" | "$remote_addr") {
        return Err(format!(
            "nginx counts by {}, a rule by the client's address: if that is right for you, write {written}{UNLIMITED}",
            zone.key
        ));
    }
    if server.effective(&["limit_req_dry_run"], location).first().is_some_and(|dry| dry.arg(0) == "on") {
        return Err(format!("a dry run refuses nothing, and a rule does: write {written}"));
    }
    if location.is_some_and(|location| matches!(location.kind, Kind::Named(_))) {
        return Err(format!(
            "nginx counts what is led here, a rule what is requested: write {written} with the `path` of these requests{UNLIMITED}"
        ));
    }
    let mut caveats = Vec::new();
    let status = server.effective(&["limit_req_status"], location);
    match status.first().map_or("503", |status| status.arg(0)) {
        "429" => {}
        status => caveats.push(format!("the status is 429, not {status}")),
    }
    if beyond > 0 && !directive.args.iter().any(|arg| arg == "nodelay") {
        caveats.push("requests beyond the rate are answered at once, nginx delays them".to_owned());
    }
    if zone.uses > 1 {
        caveats.push(format!(
            "nginx counts all places with the zone {name} together, here each rule counts its own"
        ));
    }
    let mut keys = location.map(|location| location.guarded(&[])).unwrap_or_default();
    except(server, directive, location, &mut keys, &mut caveats);
    if let Some(front) = front_controller_of(server, location) {
        caveats.push(format!(
            "in nginx URLs that {front} answers count, too; for them add a rule with the `path` of these URLs"
        ));
    }
    keys.extend([("limit", rate.into()), ("burst", Toml::Number(burst))]);
    server.site.notes.carried(&zone.source);
    let caveat = (!caveats.is_empty()).then(|| caveats.join("; "));
    Ok(Block { source: directive.source.clone(), keys, caveat })
}

/// The front controller, if the location is the one for scripts, to which nginx leads URLs without a file.
pub fn front_controller_of(server: &Server<'_>, location: Option<&Location<'_>>) -> Option<String> {
    let location = location?;
    let Kind::Regex(regex) = &location.kind else { return None };
    let runs_php = location.directive.inner().iter().any(|inner| inner.name == "fastcgi_pass");
    if !runs_php || !php::is_general(regex) {
        return None;
    }
    server.front_controller_of_all()
}

/// Leaves out the paths of locations that this limit is not for.
fn except<'a>(
    server: &Server<'a>,
    directive: &Directive,
    location: Option<&Location<'a>>,
    keys: &mut When,
    caveats: &mut Vec<String>,
) {
    let prefix = match location {
        None => "/",
        Some(Location { kind: Kind::Exact(_), .. }) => return,
        Some(Location { kind: Kind::Regex(regex), .. }) => {
            let matcher = pattern::compile(regex);
            let is_other = |path: &str| matcher.as_ref().is_some_and(|regex| regex.is_match(path.as_bytes()));
            let before = server.locations.iter().filter_map(|other| match &other.kind {
                Kind::Exact(path) if is_other(path) => Some(path.clone()),
                Kind::First(path) => Some(format!("{path}*")),
                _ => None,
            });
            let before: Vec<String> = before.collect();
            keys.extend((!before.is_empty()).then_some(("unless_path", Toml::List(before))));
            return;
        }
        Some(location) => location.prefix().unwrap_or("/"),
    };
    let mut paths = Vec::new();
    for other in &server.locations {
        let limits = server.effective(&["limit_req"], Some(other));
        if limits.iter().any(|limit| limit.source == directive.source) {
            continue;
        }
        match &other.kind {
            Kind::Exact(path) if path.starts_with(prefix) => paths.push(path.clone()),
            Kind::First(path) | Kind::Prefix(path)
                if path.len() > prefix.len() && path.starts_with(prefix) =>
            {
                paths.push(format!("{path}*"));
            }
            // An expression does not come before `^~`.
            Kind::Regex(_) if location.is_some_and(|location| matches!(location.kind, Kind::First(_))) => {}
            Kind::Regex(regex) => match endings(regex) {
                Some(endings) => paths.extend(endings),
                None => caveats.push(format!("what the location {regex} has counts, too")),
            },
            _ => {}
        }
    }
    if !paths.is_empty() {
        keys.push(("unless_path", Toml::List(paths)));
    }
}

/// `*.css` and `*.js` of `\.(css|js)$`.
fn endings(regex: &str) -> Option<Vec<String>> {
    let plain = regex.strip_prefix("(?i)").unwrap_or(regex);
    let plain = plain.strip_prefix("^.+").or_else(|| plain.strip_prefix("^.*")).unwrap_or(plain);
    let names = plain.strip_prefix("\\.")?;
    let names = pattern::alternatives(names.strip_suffix('$')?)?;
    Some(names.into_iter().map(|name| format!("*.{name}")).collect())
}
