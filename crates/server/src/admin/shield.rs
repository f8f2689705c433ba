//! The shield, for people and programs: `millrace shield`, and its part of the status.

use std::fmt::Write;

use millrace_settings::plan::{self, ShieldMode};
use serde_json::{Value, json};

use super::status::{duration, grouped};
use crate::serve::{BanStatus, CrawlerStatus, ShieldReport, ShieldStatus};
use millrace_base::context::stats::Counter;

/// Refusals by class, with the names of their settings.
const CLASSES: [(&str, Counter); 8] = [
    ("login", Counter::ShieldLogin),
    ("xmlrpc", Counter::ShieldXmlrpc),
    ("search", Counter::ShieldSearch),
    ("filter", Counter::ShieldFilter),
    ("cart", Counter::ShieldCart),
    ("users", Counter::ShieldUsers),
    ("not_found", Counter::ShieldNotFound),
    ("php", Counter::ShieldPhp),
];

/// What came of an order, as JSON.
pub fn report_json(report: &ShieldReport) -> Value {
    match report {
        ShieldReport::Bans(bans) => json!({ "bans": bans.iter().map(ban_json).collect::<Value>() }),
        ShieldReport::Banned(ban, unsaved) => json!({ "banned": ban_json(ban), "not_stored": unsaved }),
        ShieldReport::Unbanned(was, unsaved) => json!({ "was_banned": was, "not_stored": unsaved }),
        ShieldReport::Address(known) => {
            let limit = |(name, left, most): &(&'static str, u64, u64)| json!({ "class": name, "left_at_once": left, "most_at_once": most });
            json!({
                "address": known.address.to_string(),
                "client": known.client.to_string(),
                "exempt": known.is_exempt,
                "ban": known.ban.as_ref().map(ban_json),
                "listed": known.listed.map(|(network, until)| {
                    json!({ "network": network.to_string(), "until": until })
                }),
                "crawler": known.crawler,
                "limits": known.limits.iter().map(limit).collect::<Value>(),
            })
        }
    }
}

fn ban_json(ban: &BanStatus) -> Value {
    json!({
        "network": ban.network.to_string(),
        "since": ban.since,
        "until": ban.until,
        "seconds_left": ban.left.as_secs(),
        "times": ban.times,
        "by": by(ban),
        "reason": ban.reason,
    })
}

fn by(ban: &BanStatus) -> &'static str {
    if ban.by_admin { "administrator" } else { "shield" }
}

/// The same as text.
pub fn report_text(report: &ShieldReport) -> String {
    let mut text = String::new();
    // Writing to memory can't fail.
    let _ = write_report(&mut text, report);
    text
}

fn write_report(text: &mut String, report: &ShieldReport) -> std::fmt::Result {
    match report {
        ShieldReport::Bans(bans) if bans.is_empty() => writeln!(text, "no bans"),
        ShieldReport::Bans(bans) => bans.iter().try_for_each(|ban| writeln!(text, "{}", ban_text(ban))),
        ShieldReport::Banned(ban, unsaved) => {
            writeln!(text, "banned {}", ban_text(ban))?;
            write_unsaved(
                text,
                unsaved.as_deref(),
                "the ban is only in memory, until the server is restarted",
            )
        }
        ShieldReport::Unbanned(true, unsaved) => {
            writeln!(text, "the ban has ended")?;
            write_unsaved(text, unsaved.as_deref(), "it is back when the server is restarted")
        }
        ShieldReport::Unbanned(false, _) => {
            writeln!(text, "there was no ban of exactly this network; millrace shield list shows all bans")
        }
        ShieldReport::Address(known) => {
            writeln!(text, "{:<12}{} (as a client: {})", "address", known.address, known.client)?;
            if known.is_exempt {
                return writeln!(
                    text,
                    "{:<12}the shield does not apply to it: shield.exempt, shield.mode",
                    "exempt"
                );
            }
            match &known.ban {
                Some(ban) => writeln!(text, "{:<12}{}", "banned", ban_text(ban))?,
                None => writeln!(text, "{:<12}no", "banned")?,
            }
            match known.listed {
                Some((network, None)) => writeln!(text, "{:<12}{network}, without an end", "in a list")?,
                Some((network, Some(until))) => {
                    writeln!(text, "{:<12}{network}, until {until} (seconds since 1970)", "in a list")?;
                }
                None => writeln!(text, "{:<12}no", "in a list")?,
            }
            writeln!(text, "{:<12}{}", "crawler", known.crawler.as_deref().unwrap_or("no"))?;
            known.limits.iter().try_for_each(|(name, left, most)| {
                writeln!(text, "{name:<12}may send {left} of {most} at once")
            })
        }
    }
}

/// What becomes of a change that is not on disk, and why.
fn write_unsaved(text: &mut String, why: Option<&str>, what: &str) -> std::fmt::Result {
    why.map_or(Ok(()), |why| writeln!(text, "warning: {what}: {why}"))
}

fn ban_text(ban: &BanStatus) -> String {
    let BanStatus { network, left, times, reason, .. } = ban;
    let times = if *times > 1 { format!(", {times} times in a row") } else { String::new() };
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    format!("{network} for {}, by the {}{times}{reason}", duration(*left), by(ban))
}

/// Its part of the status, as JSON.
pub fn json(status: &ShieldStatus, settings: &plan::Shield, value: &dyn Fn(Counter) -> u64) -> Value {
    let refused: Value = CLASSES.iter().map(|(name, counter)| (*name, value(*counter))).collect();
    let crawler = |CrawlerStatus { name, networks, domains, date }: &CrawlerStatus| json!({ "name": name, "networks": networks, "domains": domains, "date": date });
    json!({
        "mode": mode(settings),
        "bans": status.bans,
        "listed_networks": status.listed,
        "crawlers": status.crawlers.iter().map(crawler).collect::<Value>(),
        "refused": refused,
        "low_priority": value(Counter::ShieldAside),
        "refused_full": value(Counter::ShieldFull),
        "refused_banned": value(Counter::ShieldBanned),
        "watched": value(Counter::ShieldWatched),
    })
}

/// Its line of the status.
pub fn write(
    text: &mut String,
    status: &ShieldStatus,
    settings: &plan::Shield,
    value: &dyn Fn(Counter) -> u64,
) -> std::fmt::Result {
    let of = |counter| grouped(value(counter));
    let refused: Vec<String> = CLASSES
        .iter()
        .filter(|(_, counter)| value(*counter) > 0)
        .map(|(name, counter)| format!("{name} {}", of(*counter)))
        .collect();
    let refused = if refused.is_empty() { "none".to_owned() } else { refused.join(", ") };
    write!(
        text,
        "{:<14}{}; {} bans, {} listed networks; refused: {refused}, banned {}, class full {}; low priority: {}",
        "Shield",
        mode(settings),
        grouped(status.bans as u64),
        grouped(status.listed as u64),
        of(Counter::ShieldBanned),
        of(Counter::ShieldFull),
        of(Counter::ShieldAside)
    )?;
    match value(Counter::ShieldWatched) {
        0 => writeln!(text),
        watched => writeln!(text, "; would have refused or slowed: {}", grouped(watched)),
    }
}

fn mode(settings: &plan::Shield) -> &'static str {
    match settings.mode {
        ShieldMode::On => "on",
        ShieldMode::Watch => "watch",
        ShieldMode::Off => "off",
    }
}
