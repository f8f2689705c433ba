//! What scripts do with their time: samples of the workers between the looks.

use std::collections::BTreeMap;

use super::{Certainty, Check, Measure, Measured, Rank, Scope, both, error, measure, warning};
use crate::facts::{Blind, Facts, Span, percent};

/// Fewer samples say nothing.
const SAMPLES: f64 = 5.0;
/// Fewer busy workers on average hold nothing back.
const BUSY: f64 = 0.2;

macro_rules! waiting {
    ($id:literal, $title:literal, $kinds:literal, $cure:literal, $cost:literal, $measure:ident) => {
        Check {
            id: $id,
            title: $title,
            signal: concat!("samples of the PHP workers: ", $kinds),
            at: both(30.0, 50.0, "% of the samples of at least 0.2 busy workers"),
            source: "a share of the samples is a share of the workers' time; half of it is what holds PHP back",
            cure: $cure,
            cost: $cost,
            certainty: Certainty::High,
            rank: Rank::Work,
            scope: Scope::Machine,
            measure: $measure,
        }
    };
}

pub(super) const CHECKS: &[Check] = &[
    waiting!(
        "script-sleeps",
        "scripts that sleep",
        "sleep(), usleep()",
        "remove the call, or the plugin that makes it",
        "A worker does nothing, and no other request can have it.",
        sleeps
    ),
    waiting!(
        "script-remote",
        "scripts that wait for other servers",
        "curl, sockets",
        "a short timeout, a cache for the response, or wp-cron for the call",
        "Visitors wait for a server that is not yours; when it hangs, all workers hang.",
        remote
    ),
    waiting!(
        "script-names",
        "scripts that wait for a name server",
        "name servers",
        "a name server that answers: /etc/resolv.conf, or a local resolver",
        "Every call of another server waits until the name server's time-out is over (5 s for each try).",
        names
    ),
    waiting!(
        "script-locks",
        "scripts that wait for locks",
        "sessions, flock()",
        "session_write_close() early; a plugin without sessions",
        "Requests of one visitor run one after the other.",
        locks
    ),
    waiting!(
        "script-programs",
        "scripts that wait for programs",
        "exec(), proc_open()",
        "a job in the background instead of a program in the request",
        "A worker waits for a program.",
        programs
    ),
    waiting!(
        "script-database",
        "scripts that wait for the database",
        "mysqli, PDO, sockets of databases",
        "the findings about the database; an object cache",
        "PHP waits; more workers make it worse.",
        database
    ),
    Check {
        id: "script-hog",
        title: "plugins that use most of PHP's time",
        signal: "samples of the PHP workers: the innermost plugin or theme; plugins that are what a site is for don't count (shops, forums, courses)",
        at: warning(40.0, "% of at least 20 samples that compute"),
        source: "WordPress itself, its theme and the plugin that makes a shop of it take most of the time of a healthy site",
        cure: "update or configure the plugin, or replace it",
        cost: "Every page that PHP makes takes longer by that.",
        certainty: Certainty::Medium,
        rank: Rank::Work,
        scope: Scope::Machine,
        measure: hog,
    },
    Check {
        id: "ajax-poll",
        title: "pages that poll admin-ajax.php",
        signal: "samples of the PHP workers: the path of the request",
        at: warning(30.0, "% of at least 20 samples"),
        source: "WordPress' heartbeat asks every 15 to 60 s for each open back office; a plugin that polls more often costs a WordPress boot each time",
        cure: "a longer interval of the heartbeat, or the plugin that polls",
        cost: "PHP workers boot WordPress for requests that nobody waits for.",
        certainty: Certainty::Medium,
        rank: Rank::Work,
        scope: Scope::Machine,
        measure: polls,
    },
    Check {
        id: "script-stuck",
        title: "scripts that run for long",
        signal: "samples of the PHP workers: time of the request",
        at: error(1.0, "requests of visitors that run for 10 s or longer"),
        source: "visitors do not wait that long: php.queue_wait is 2 s",
        cure: "php.request_timeout; find what it waits for",
        cost: "Each of them takes a worker away.",
        certainty: Certainty::High,
        rank: Rank::Work,
        scope: Scope::Machine,
        measure: stuck,
    },
];

/// All samples, if there are enough.
fn runs<'a>(span: &Span<'a>) -> Result<(f64, &'a [Facts]), Blind> {
    let taken = span.now("samples.taken")?;
    if taken < SAMPLES {
        return Err(Blind::CouldNotLook(format!("only {taken} samples were taken")));
    }
    Ok((taken, span.now.list("samples.runs")?))
}

/// The share of the samples that wait for one of `kinds`; who is to blame most often, and where.
fn share(span: &Span<'_>, kinds: &[&str], what: &str, cure: &str) -> Measured {
    let (taken, runs) = runs(span)?;
    let waiting: Vec<&Facts> = runs.iter().filter(|run| kinds.contains(&run.text("kind"))).collect();
    let value = if waiting.len() as f64 / taken >= BUSY {
        percent(waiting.len() as f64, runs.len() as f64)
    } else {
        0.0
    };
    let of = |name: &'static str| most(waiting.iter().map(|run| run.text(name)));
    let (blame, _) = of("blame");
    let (place, _) = of("place");
    let (script, _) = of("page");
    let who = if blame.is_empty() { script.to_owned() } else { blame.to_owned() };
    let mut found = measure(
        value,
        format!("{what}: {who}"),
        format!(
            "{} of {} samples of {:.1} busy workers, {}",
            waiting.len(),
            runs.len(),
            runs.len() as f64 / taken,
            of("waits").0
        ),
        format!("{cure} ({who})"),
    );
    if !place.is_empty() {
        found.evidence.push(format!("at {place}"));
    }
    if !script.is_empty() {
        found.evidence.push(format!("page {script}"));
    }
    Ok(vec![found])
}

/// The most frequent text, and how often it is there.
fn most<'a>(texts: impl Iterator<Item = &'a str>) -> (&'a str, usize) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for text in texts.filter(|text| !text.is_empty()) {
        *counts.entry(text).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).unwrap_or(("", 0))
}

fn sleeps(span: &Span<'_>) -> Measured {
    share(span, &["sleep"], "PHP workers sleep", "remove the call of sleep(), or deactivate what makes it")
}

fn remote(span: &Span<'_>) -> Measured {
    share(
        span,
        &["remote"],
        "PHP workers wait for another server",
        "give the call a timeout of 1 s and cache its result in a transient, or make it from wp-cron; deactivate what makes it until then",
    )
}

fn names(span: &Span<'_>) -> Measured {
    share(
        span,
        &["names"],
        "PHP workers wait for a name server, which does not answer, or slowly",
        "`dig example.com @ADDRESS` for each nameserver of /etc/resolv.conf: remove one that does not answer, add `options timeout:1 attempts:2`, or run a local resolver (unbound, systemd-resolved); the call itself comes from",
    )
}

fn locks(span: &Span<'_>) -> Measured {
    share(
        span,
        &["lock"],
        "PHP workers wait for a lock",
        "session_write_close() as soon as the session is read, or deactivate what begins sessions",
    )
}

fn programs(span: &Span<'_>) -> Measured {
    share(
        span,
        &["program"],
        "PHP workers wait for another program",
        "run it from wp-cron or a queue instead of the request",
    )
}

fn database(span: &Span<'_>) -> Measured {
    share(
        span,
        &["database"],
        "PHP workers wait for the database",
        "see the findings about the database (db-...); fewer queries: an object cache, fewer plugins",
    )
}

fn hog(span: &Span<'_>) -> Measured {
    let (_, runs) = runs(span)?;
    let computing: Vec<&Facts> = runs.iter().filter(|run| run.text("kind") == "cpu").collect();
    let plugins = computing.iter().map(|run| run.text("blame")).filter(|blame| is_extra(blame));
    let (name, count) = most(plugins);
    let (place, _) =
        most(computing.iter().filter(|run| run.text("blame") == name).map(|run| run.text("place")));
    Ok(vec![measure(
        if computing.len() >= 20 { percent(count as f64, computing.len() as f64) } else { 0.0 },
        format!("the {name} uses most of PHP's time"),
        format!("{count} of {} samples, most often at {place}", computing.len()),
        format!(
            "update or configure the {name}; measure a page without it (deactivate it on a copy of the site) before you replace it"
        ),
    )])
}

fn polls(span: &Span<'_>) -> Measured {
    let (_, runs) = runs(span)?;
    let polls: Vec<&Facts> =
        runs.iter().filter(|run| run.text("page").ends_with("/wp-admin/admin-ajax.php")).collect();
    let (blame, _) = most(polls.iter().map(|run| run.text("blame")));
    let who = if blame.is_empty() {
        "most likely WordPress' heartbeat".to_owned()
    } else {
        format!("most often the {blame}")
    };
    Ok(vec![measure(
        if runs.len() >= 20 { percent(polls.len() as f64, runs.len() as f64) } else { 0.0 },
        format!("pages poll admin-ajax.php: {who}"),
        format!("{} of {} samples", polls.len(), runs.len()),
        "the browser's developer tools (network) show `action` of the requests; for `heartbeat`: add_filter('heartbeat_settings', fn ($s) => ['interval' => 60] + $s), and close forgotten tabs of the back office; else configure or replace the plugin that polls",
    )])
}

/// Plugins that make the pages of their kind of site: most of PHP's time is theirs on a healthy one.
const APPLICATIONS: [&str; 9] = [
    "woocommerce",
    "easy-digital-downloads",
    "buddypress",
    "bbpress",
    "sfwd-lms",
    "lifterlms",
    "learnpress",
    "tutor",
    "the-events-calendar",
];

/// Whether a plugin is to blame that is not what the site is for.
fn is_extra(blame: &str) -> bool {
    let name = blame.split_once("plugin ").map(|(_, name)| name);
    name.is_some_and(|name| !APPLICATIONS.contains(&name))
}

fn stuck(span: &Span<'_>) -> Measured {
    let (_, runs) = runs(span)?;
    let mut longest: BTreeMap<u64, &Facts> = BTreeMap::new();
    for run in runs {
        // Jobs in the background may take their time.
        if run.figure("seconds")? >= 10.0 && !run.text("page").contains("/wp-cron.php") {
            longest.insert(run.figure("pid")? as u64, run);
        }
    }
    let count = longest.len() as f64;
    let all: Vec<Measure> = longest
        .into_values()
        .take(1)
        .map(|run| {
            let waits = run.text("waits");
            let doing = if waits.is_empty() { "it computes".to_owned() } else { format!("it waits {waits}") };
            measure(
                count,
                format!("{count:.0} requests have been running for more than 10 s: {}", run.text("page")),
                format!("{:.0} s, {doing}; {}", run.figure("seconds").unwrap_or(0.0), run.text("place")),
                format!("php.request_timeout limits how long a script may run (`millrace explain php.request_timeout`); the cause is in {}", if run.text("blame").is_empty() { run.text("script") } else { run.text("blame") }),
            )
        })
        .collect();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use crate::facts::Facts;
    use crate::testing::{Pair, case};

    /// `count` samples of a kind, of 20 looks.
    fn sampled(count: usize, kind: &'static str, blame: &'static str, seconds: f64) -> impl Fn(&mut Pair) {
        move |p: &mut Pair| {
            let mut run = Facts::default();
            for (name, text) in [
                ("kind", kind),
                ("blame", blame),
                ("place", "/srv/a.php:7"),
                ("page", "a.test/"),
                ("waits", "for it"),
            ] {
                run.say(name, text);
            }
            run.set("seconds", seconds);
            run.set("pid", 7.0);
            p.now.set("samples.taken", 20.0);
            p.now.items("samples.runs").extend(std::iter::repeat_n(run, count));
        }
    }

    #[test]
    fn waiting() {
        case(
            "script-sleeps",
            sampled(60, "sleep", "plugin slow", 0.5),
            sampled(3, "sleep", "plugin slow", 0.5),
        );
        case("script-remote", sampled(60, "remote", "plugin ads", 0.5), sampled(60, "cpu", "", 0.5));
        case(
            "script-names",
            sampled(60, "names", "plugin ads", 0.5),
            sampled(60, "remote", "plugin ads", 0.5),
        );
        case("script-locks", sampled(60, "lock", "", 0.5), sampled(3, "lock", "", 0.5));
        case("script-programs", sampled(60, "program", "", 0.5), sampled(3, "program", "", 0.5));
        case("script-database", sampled(60, "database", "", 0.5), sampled(3, "database", "", 0.5));
    }

    #[test]
    fn the_plugin_is_named() {
        let mut pair = Pair::healthy();
        sampled(60, "sleep", "plugin slow", 0.5)(&mut pair);
        let found = pair.finding("script-sleeps");
        assert_eq!(found.what, "PHP workers sleep: plugin slow");
        assert!(found.evidence.iter().any(|line| line == "at /srv/a.php:7"), "{found:?}");
    }

    #[test]
    fn computing() {
        case(
            "script-hog",
            sampled(40, "cpu", "plugin counter", 0.5),
            sampled(40, "cpu", "theme twenty", 0.5),
        );
        case(
            "script-hog",
            sampled(40, "cpu", "must-use plugin counter", 0.5),
            sampled(40, "cpu", "plugin woocommerce", 0.5),
        );
        let at = |page: &'static str| {
            move |p: &mut Pair| {
                sampled(40, "cpu", "", 0.1)(p);
                p.now.items("samples.runs").iter_mut().for_each(|run| run.say("page", page));
            }
        };
        case("ajax-poll", at("a.test/wp-admin/admin-ajax.php"), at("a.test/shop/"));
        case("script-stuck", sampled(1, "cpu", "", 12.0), sampled(1, "cpu", "", 9.0));
    }
}
