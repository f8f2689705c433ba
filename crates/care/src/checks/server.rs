//! Millrace: connections, PHP's queue, errors, certificates, logs.

use super::{Certainty, Check, Measured, Rank, Scope, both, error, measure, note, one, warning};
use crate::facts::{Blind, Facts, Span, percent};

/// What the rows are about.
const SCOPE: Scope = Scope::Machine;

pub(super) const CHECKS: &[Check] = &[
    row!(
        "loop-hung",
        "event loops go on",
        "hung_loops of the status",
        error(1.0, "event loops that have not gone round for 5 s"),
        "an event loop goes round several times a second; time in which it waits for a processor does not count",
        "remove what it waits for, or restart Millrace; report it with the lines of the error log",
        "All connections of that event loop wait.",
        High,
        Outage,
        loop_hung
    ),
    row!(
        "php-down",
        "PHP runs",
        "trouble of the status",
        error(1.0, "services whose PHP does not start"),
        "without PHP, only files and cached pages are served",
        "the reason is in the status and in the error log",
        "Every page that is not cached is an error.",
        High,
        Outage,
        php_down
    ),
    row!(
        "fpm-down",
        "php-fpm answers",
        "fastcgi of the status",
        error(1.0, "backends that do not answer"),
        "a backend is taken out after failed connections (docs/php-fpm.md)",
        "start php-fpm, correct php.fastcgi",
        "Every page that is not cached is an error.",
        High,
        Outage,
        fpm_down
    ),
    row!(
        "object-server-down",
        "the server of the object cache answers",
        "object_cache of the status",
        warning(1.0, "sites whose Redis or memcached server does not answer"),
        "without it every lookup is a miss (docs/object-cache.md)",
        "start the server, correct object_cache.redis or object_cache.memcached",
        "Each page asks the database for what the object cache holds.",
        High,
        Work,
        object_server_down
    ),
    row!(
        "object-server-memory",
        "memory of memcached",
        "evictions of memcached",
        note(10.0, "items evicted per second"),
        "memcached's documentation: evictions show that it has too little memory for what is used",
        "-m of memcached",
        "The database is asked again for what was evicted.",
        Medium,
        Pressure,
        object_server_memory
    ),
    row!(
        "conn-refused",
        "connections refused at a limit",
        "connections_refused_total",
        error(1.0, "between the looks"),
        "a limit of the configuration was reached: any loss counts",
        "server.connections, server.connections_per_address",
        "Visitors are turned away.",
        High,
        Limit,
        refused
    ),
    row!(
        "conn-memory",
        "memory for connections",
        "connections_guests_total, connections_gave_way_total",
        both(1.0, 1_000.0, "between the looks; a connection answered with 503 counts 1000"),
        "docs/connections.md: idle connections give way before visitors are refused",
        "server.connection_memory",
        "Idle visitors have to connect again; new ones get a 503.",
        High,
        Limit,
        shed
    ),
    row!(
        "php-refused",
        "requests refused for lack of PHP workers",
        "php_queue_full_total, php_queue_timeouts_total, php_overload_refused_total",
        error(1.0, "between the looks"),
        "any refused visitor counts",
        "php.workers if there is memory and processor time; fewer or cheaper PHP requests",
        "Visitors get a waiting room or a 503.",
        High,
        Symptom,
        php_refused
    ),
    row!(
        "php-wait",
        "wait for a PHP worker",
        "waiting, wait_mean_seconds of the pools in the status",
        both(200.0, 1_000.0, "ms on average in the last minute, while requests wait"),
        "100 to 200 ms is what people notice (RAIL model, web.dev); php.queue_wait is 2 s",
        "php.workers if there is memory and processor time; fewer or cheaper PHP requests",
        "Every uncached page is delayed by this much.",
        High,
        Symptom,
        php_wait
    ),
    row!(
        "php-held",
        "concurrency limit of PHP",
        "held_to of the pools in the status",
        note(1.0, "pools whose limit is below their workers, while requests wait"),
        "docs/php-overload.md: more requests at once would only slow each other down",
        "cheaper scripts, or more processors: more workers would not help",
        "Requests wait because the processors are busy.",
        High,
        Symptom,
        held
    ),
    row!(
        "php-lost",
        "PHP workers that die",
        "php_lost_total",
        both(1.0, 10.0, "between the looks"),
        "any lost worker costs its request",
        "docs/php-limits.md#scripts-that-crash",
        "Visitors get 502, or wait for a second attempt.",
        High,
        Symptom,
        lost
    ),
    row!(
        "php-fatal",
        "fatal errors of scripts",
        "php_failures_total of php_requests_total",
        both(1.0, 10.0, "% of at least 20 requests"),
        "an SLO of 99 % is the least that sites promise (SRE book)",
        "the error log names script and error",
        "Visitors get 500.",
        High,
        Symptom,
        fatal
    ),
    row!(
        "php-timeout",
        "scripts that reach their time limit",
        "php_timeouts_total",
        both(1.0, 10.0, "between the looks"),
        "any terminated script costs its request",
        "php.slow_log = \"1s\" shows where they are",
        "A worker was busy all that time, and the visitor got an error.",
        High,
        Symptom,
        timeouts
    ),
    row!(
        "replies-failed",
        "responses with status 5xx",
        "replies_5xx_total of requests_total",
        both(2.0, 5.0, "% of at least 50 responses"),
        "netdata health.d/web_log: 2 and 5 %",
        "the error log says which",
        "Visitors get errors.",
        High,
        Symptom,
        failed
    ),
    row!(
        "url-slow",
        "the page of the URL",
        "a GET of the URL, if one was given",
        both(1_000.0, 3_000.0, "ms until it is complete"),
        "web.dev: a good time to first byte is at most 800 ms, a poor one more than 1800",
        "the findings above",
        "Visitors wait that long.",
        High,
        Symptom,
        url_slow
    ),
    row!(
        "url-status",
        "status of the page of the URL",
        "a GET of the URL, if one was given",
        error(500.0, "as status"),
        "RFC 9110 section 15.6: 5xx is the server's fault",
        "the error log says why",
        "Visitors get an error.",
        High,
        Symptom,
        url_status
    ),
    row!(
        "links-closed",
        "symbolic links that are not followed",
        "files_links_refused_total",
        warning(1.0, "requests since the start of the server"),
        "docs/files.md: a link out of the root is followed if its owner owns the target, too, or php.folders names the target's folder",
        "php.folders, the target's owner, or files.symlinks",
        "Visitors get 404 for uploads or a release behind the link.",
        High,
        Work,
        links_closed
    ),
    row!(
        "filter-crawl",
        "bots that crawl a shop's filters",
        "shield_filter_total",
        warning(20.0, "requests refused between the looks"),
        "people click a filter a few times a minute; shield.filter allows 120 a minute and address",
        "nothing, if the limit holds them back; else a lower shield.filter",
        "Each combination of filters is a page of its own that PHP has to make.",
        High,
        Symptom,
        filter_crawl
    ),
    row!(
        "sites-unseen",
        "sites that were not looked at",
        "sites of the status",
        note(1.0, "sites beyond the first 50"),
        "each site's files and database take up to a second to look at",
        "`millrace doctor FOLDER` for each of them",
        "What holds these sites back stays unknown.",
        High,
        Advice,
        unseen
    ),
    row!(
        "log-dropped",
        "lines of the access log",
        "log_lines_dropped_total",
        warning(1.0, "dropped between the looks"),
        "any lost line counts",
        "a faster disk for log.access, or log.access = \"off\"",
        "The disk is full or slow, and the log has gaps.",
        High,
        Symptom,
        log
    ),
    row!(
        "certificate",
        "certificates",
        "certificates of the status",
        both(1.0, 3.0, "1: its renewal fails or is late; 3: it is missing or ends within 7 days"),
        "Let's Encrypt recommends renewal 30 days before the end; Millrace does so",
        "the status says why; for ACME, port 80 must be reachable from the Internet; renew the file of a [[tls]]",
        "Browsers reject the site.",
        High,
        Outage,
        certificates
    ),
    row!(
        "tls-handshakes",
        "cost of TLS handshakes",
        "tls_handshakes_total, tls_resumed_total",
        note(200.0, "full handshakes per second, while fewer than 10 % are resumed"),
        "chosen; bench/results/2026-11-22-new-clients.md has what a handshake costs",
        "http.keep_alive; look for clients that do not resume",
        "Processor time goes into handshakes.",
        Medium,
        Advice,
        handshakes
    ),
    row!(
        "htaccess-closed",
        "lines of .htaccess files that close what they cover, or whose firewall is off",
        "htaccess.closing of the status: files that requests have used",
        warning(1.0, "lines"),
        "docs/htaccess.md: a line that restricts access and is not supported closes what it covers; php_value auto_prepend_file starts no firewall",
        "millrace check --htaccess lists them: write each as docs/htaccess.md says, or remove it",
        "What they cover is refused (403), or answered with 500; a firewall that is off protects nothing.",
        High,
        Limit,
        closing_lines
    ),
    row!(
        "htaccess-ignored",
        "lines of .htaccess files that are ignored",
        "htaccess.ignored of the status: files that requests have used",
        note(1.0, "lines"),
        "docs/htaccess.md: what restricts nothing and is not supported is ignored",
        "millrace check --htaccess lists them: remove them, or do the same in the configuration",
        "What they were to do does not happen.",
        High,
        Advice,
        ignored_lines
    ),
    row!(
        "h2-floods",
        "HTTP/2 floods",
        "h2_flood_frames_total, h2_flood_resets_total, h2_flood_heads_total",
        note(1.0, "connections between the looks"),
        "CVE-2023-44487 and the like; Millrace closes these connections",
        "block the address in front, if it goes on",
        "Little: the connections were closed.",
        High,
        Advice,
        floods
    ),
    row!(
        "malformed",
        "requests that are not HTTP",
        "requests_malformed_total of requests_total",
        note(20.0, "% of at least 50 requests"),
        "scanners send a few; a fifth is a misdirected client",
        "the access log shows `malformed`",
        "Little: they are refused early.",
        Medium,
        Advice,
        malformed
    ),
];

fn counter(span: &Span<'_>, name: &str) -> Result<f64, Blind> {
    span.rise(&format!("server.counters.{name}"))
}

fn loop_hung(span: &Span<'_>) -> Measured {
    let hung = span.now.list("server.hung_loops")?;
    let finding = |hung: &Facts| {
        let doing = hung.text("doing");
        measure(
            1.0,
            format!("the event loop {} is stuck", hung.text("name")),
            format!(
                "for {:.0} s: {}",
                hung.figure("seconds").unwrap_or(0.0),
                doing.lines().next().unwrap_or_default()
            ),
            "remove what it waits for, or restart Millrace; the error log has more about it: report that",
        )
    };
    Ok(hung.iter().map(finding).collect())
}

fn php_down(span: &Span<'_>) -> Measured {
    let mut all = Vec::new();
    for service in span.now.list("server.php")? {
        let trouble = service.text("trouble");
        all.push(measure(
            f64::from(u8::from(!trouble.is_empty())),
            format!("PHP of {} does not run", service.text("name")),
            trouble,
            "correct what it says; the error log of the server has more; Millrace tries again by itself",
        ));
    }
    Ok(all)
}

fn fpm_down(span: &Span<'_>) -> Measured {
    let mut all = Vec::new();
    for service in span.now.list("server.php")? {
        for backend in service.list("fastcgi").unwrap_or_default() {
            let address = backend.text("address");
            all.push(measure(
                f64::from(u8::from(!backend.is_on("up"))),
                format!("php-fpm at {address} does not answer"),
                format!("{address} is down"),
                "start php-fpm (`systemctl status 'php*-fpm'`), or correct php.fastcgi",
            ));
        }
    }
    Ok(all)
}

fn object_server_down(span: &Span<'_>) -> Measured {
    let mut all = Vec::new();
    for site in
        span.now.list("server.object_cache")?.iter().filter(|site| !site.text("server.kind").is_empty())
    {
        let (kind, setting) = (site.text("server.kind"), site.text("server.setting"));
        let problem = site.text("figures.server.problem");
        all.push(measure(
            f64::from(u8::from(!problem.is_empty())),
            format!("the {kind} server of {}'s object cache does not work", site.text("site")),
            format!("{}: {problem}", site.text("server.address")),
            format!(
                "start {kind}, or correct {setting}; `millrace object-cache status` tells when it answers"
            ),
        ));
    }
    Ok(all)
}

fn object_server_memory(span: &Span<'_>) -> Measured {
    let mut all = Vec::new();
    for site in span.pairs("server.object_cache", "socket")? {
        // Those on no memcached have no such figure.
        let Ok(evicted) = site.rate("figures.server.memcached.evicted") else { continue };
        let limit = site.now("figures.server.memcached.limit_bytes")? / 1_048_576.0;
        all.push(measure(
            evicted,
            format!("memcached evicts {evicted:.0} items per second"),
            format!("{} may use {limit:.0} MiB", site.now.text("server.address")),
            format!("give it more memory than -m {limit:.0} (/etc/memcached.conf), if the machine has it"),
        ));
    }
    Ok(all)
}

fn refused(span: &Span<'_>) -> Measured {
    let lost = counter(span, "connections_refused_total")?;
    let open = span.now("server.connections_open")?;
    one(
        lost,
        format!("Millrace refused {lost:.0} connections at a limit"),
        format!("connections_refused_total +{lost:.0} in {:.0} s; {open:.0} open", span.seconds),
        "raise server.connections, or server.connections_per_address if they come from one address (`millrace explain server.connections` says what they are now)",
    )
}

fn shed(span: &Span<'_>) -> Measured {
    let (shed, gave_way) =
        (counter(span, "connections_guests_total")?, counter(span, "connections_gave_way_total")?);
    let gave_way = if super::limits::memory_is_short(span)? { gave_way } else { 0.0 };
    let used = span.now("server.connection_memory.used_bytes")?;
    let budget = span.now("server.connection_memory.budget_bytes").unwrap_or(0.0);
    one(
        gave_way + shed * 1_000.0,
        "the memory for connections is used up",
        format!(
            "{gave_way:.0} idle connections closed, {shed:.0} answered with 503 in {:.0} s; {} of {}",
            span.seconds,
            super::bytes(used),
            super::bytes(budget)
        ),
        format!(
            "server.connection_memory = \"{}\" (now {})",
            super::size_up(budget * 2.0),
            super::bytes(budget)
        ),
    )
}

/// What the pools are, for the evidence: `front: 16 of 16 busy, 40 waiting`.
fn pools(span: &Span<'_>) -> Result<String, Blind> {
    let mut texts = Vec::new();
    for service in span.now.list("server.php")? {
        for pool in service.list("pools").unwrap_or_default() {
            let of = |name| pool.figure(name).unwrap_or(0.0);
            let busy = of("running") > 0.0 || of("waiting") > 0.0;
            if busy {
                texts.push(format!(
                    "{}: {:.0} of {:.0} workers busy, {:.0} waiting",
                    pool.text("name"),
                    of("running"),
                    of("limit"),
                    of("waiting")
                ));
            }
        }
    }
    Ok(texts.join("; "))
}

/// What would help PHP: more workers only if there are processors and memory for them.
fn workers_cure(span: &Span<'_>) -> String {
    let most: f64 = span
        .now
        .list("server.php")
        .unwrap_or_default()
        .iter()
        .filter_map(|php| php.figure("workers_most").ok())
        .sum();
    let idle = span.rise("cpu.idle").unwrap_or(0.0);
    let total = span.rise("cpu.total").unwrap_or(0.0);
    if percent(idle, total) >= 20.0 {
        format!(
            "php.workers = {:.0} (now {most:.0}): the processors are {:.0} % idle, so the scripts wait for something; the findings above, or php.slow_log = \"1s\", say for what",
            most * 2.0,
            percent(idle, total)
        )
    } else {
        format!(
            "cheaper scripts, more hits of the page cache, or more processors; more workers (now {most:.0}) would not help: the processors are busy"
        )
    }
}

fn php_refused(span: &Span<'_>) -> Measured {
    let full = counter(span, "php_queue_full_total")?;
    let late = counter(span, "php_queue_timeouts_total")?;
    let overload = counter(span, "php_overload_refused_total")?;
    let all = full + late + overload;
    one(
        all,
        format!("{all:.0} requests were refused because no PHP worker was free"),
        format!(
            "queue full {full:.0}, waited too long {late:.0}, would wait too long {overload:.0}; {}",
            pools(span)?
        ),
        workers_cure(span),
    )
}

fn php_wait(span: &Span<'_>) -> Measured {
    let mut all = Vec::new();
    for service in span.now.list("server.php")? {
        for pool in service.list("pools").unwrap_or_default() {
            let wait = pool.figure("wait_mean_seconds")? * 1_000.0;
            let waiting = pool.figure("waiting")?;
            let name = pool.text("name");
            all.push(measure(
                if waiting > 0.0 { wait } else { 0.0 },
                format!("requests of the pool {name} wait {wait:.0} ms for a PHP worker"),
                format!(
                    "{:.0} waited in the last minute, {:.1} s at most; {}",
                    pool.figure("waited_last_minute")?,
                    pool.figure("wait_most_seconds")?,
                    pools(span)?
                ),
                workers_cure(span),
            ));
        }
    }
    Ok(all)
}

fn held(span: &Span<'_>) -> Measured {
    let mut all = Vec::new();
    for service in span.now.list("server.php")? {
        for pool in service.list("pools").unwrap_or_default() {
            let Ok(limit) = pool.figure("held_to") else { continue };
            let (waiting, most) = (pool.figure("waiting")?, pool.figure("limit")?);
            all.push(measure(
                f64::from(u8::from(waiting > 0.0 && limit < most)),
                format!("the pool {} runs only {limit:.0} requests at once", pool.text("name")),
                format!("held_to {limit:.0}, {most:.0} workers, {waiting:.0} waiting"),
                "cheaper scripts, more hits of the page cache, or more processors; php.adaptive = false would only make all of them slower",
            ));
        }
    }
    Ok(all)
}

fn lost(span: &Span<'_>) -> Measured {
    let lost = counter(span, "php_lost_total")?;
    one(
        lost,
        format!("{lost:.0} PHP workers died while they ran a request"),
        format!("php_lost_total +{lost:.0} in {:.0} s", span.seconds),
        "the error log names script, signal and frames; if the kernel killed them, see oom and cgroup-oom",
    )
}

fn fatal(span: &Span<'_>) -> Measured {
    let (failed, all) = (counter(span, "php_failures_total")?, counter(span, "php_requests_total")?);
    one(
        if all >= 20.0 { percent(failed, all) } else { 0.0 },
        "scripts end in fatal errors",
        match span.now.text("server.php_last_fatal.text") {
            "" => format!("{failed:.0} of {all:.0} PHP requests in {:.0} s", span.seconds),
            text => {
                format!("{failed:.0} of {all:.0} PHP requests in {:.0} s, the last one: {text}", span.seconds)
            }
        },
        "mend the file that the message names; if it is a plugin's that was updated last, put the old version back (the error log has every message: log.error)",
    )
}

fn timeouts(span: &Span<'_>) -> Measured {
    let ended = counter(span, "php_timeouts_total")?;
    one(
        ended,
        format!("{ended:.0} scripts were terminated because they took too long"),
        format!("php_timeouts_total +{ended:.0} in {:.0} s", span.seconds),
        "the error log says where they were; php.slow_log = \"1s\" shows it earlier; the limit is php.request_timeout",
    )
}

fn failed(span: &Span<'_>) -> Measured {
    let (failed, all) = (counter(span, "replies_5xx_total")?, counter(span, "requests_total")?);
    one(
        if all >= 50.0 { percent(failed, all) } else { 0.0 },
        "visitors get errors",
        format!("{failed:.0} of {all:.0} responses with status 5xx in {:.0} s", span.seconds),
        "the error log of the server (log.error) has the reasons; the findings above may be one",
    )
}

fn url_slow(span: &Span<'_>) -> Measured {
    // The first look may have filled the cache.
    let (first, second) = (span.before.figure("url.milliseconds")?, span.now("url.milliseconds")?);
    one(
        first.min(second),
        format!("the page takes {:.0} ms", first.min(second)),
        format!("{first:.0} and {second:.0} ms; Cache-Status: {}", span.now.text("url.cache")),
        "the findings above; php.slow_log = \"1s\" shows where the script is; docs/cache.md why the page is not cached",
    )
}

fn url_status(span: &Span<'_>) -> Measured {
    let status = span.now("url.status")?;
    one(
        status,
        format!("the page answers with {status:.0}"),
        format!("status {status:.0}"),
        "the error log of the server (log.error) says why",
    )
}

fn log(span: &Span<'_>) -> Measured {
    let lost = counter(span, "log_lines_dropped_total")?;
    one(
        lost,
        format!("{lost:.0} lines of the access log were dropped"),
        format!("log_lines_dropped_total +{lost:.0} in {:.0} s", span.seconds),
        "free space on the disk of log.access, a faster disk for it, or log.access = \"off\"",
    )
}

fn links_closed(span: &Span<'_>) -> Measured {
    let refused = span.now("server.counters.files_links_refused_total")?;
    one(
        refused,
        "visitors get 404 for what is behind symbolic links out of a site's root",
        format!("files_links_refused_total {refused:.0}"),
        "the error log and `millrace check` name link and target; then name the target's folder in php.folders, or have link and target owned by the same user (`millrace explain files.symlinks`)",
    )
}

fn filter_crawl(span: &Span<'_>) -> Measured {
    let refused = counter(span, "shield_filter_total")?;
    one(
        refused,
        "a bot crawls the filters of a shop",
        format!("shield_filter_total +{refused:.0} in {:.0} s", span.seconds),
        "the access log has its addresses (status 429, `filter_` or `orderby` in the query): `millrace shield ban NETWORK`, or Disallow: /*?*filter_ in robots.txt if it honours that; the limit is shield.filter",
    )
}

fn unseen(span: &Span<'_>) -> Measured {
    let left = span.now("sites_left")?;
    one(
        left,
        format!("{left:.0} sites were not looked at"),
        format!(
            "the files and databases of the first {} sites were looked at",
            span.now.list("sites")?.len()
        ),
        "run `millrace doctor FOLDER` with the folder of each site that concerns you",
    )
}

fn certificates(span: &Span<'_>) -> Measured {
    const DAY: f64 = 86_400.0;
    let now = span.now("now.seconds")?;
    let mut all = Vec::new();
    for one in span.now.list("server.certificates")? {
        let names = one.text("names");
        let left = one.figure("ends").map_or(f64::NEG_INFINITY, |ends| (ends - now) / DAY);
        let missing = one.text("missing");
        let file = one.text("file");
        let is_own = !file.is_empty();
        let value = match (left, one.text("problem")) {
            _ if !missing.is_empty() => 3.0,
            // One that is being requested for the first time has no problem yet.
            (f64::NEG_INFINITY, "") => 0.0,
            // The life of one from a file may be six days: only one that is late has a problem.
            (left, "") if left > 0.0 && is_own => 0.0,
            (left, _) if left < 7.0 => 3.0,
            (_, "") => 0.0,
            _ => 1.0,
        };
        let state = if left.is_finite() { format!("{left:.0} days left") } else { "none yet".to_owned() };
        all.push(measure(
            value,
            format!("the certificate of {names} is missing, ends soon, or cannot be renewed"),
            format!(
                "{state}; {}{}",
                one.text("problem"),
                if missing.is_empty() { String::new() } else { format!("; not valid for {missing}") }
            ),
            if is_own {
                format!("renew {file} and its key (certbot renew, acme.sh --cron); the server reads new files by itself")
            } else {
                "make port 80 of these names reach this server, then `millrace reload`; docs/https.md has more".to_owned()
            },
        ));
    }
    Ok(all)
}

fn handshakes(span: &Span<'_>) -> Measured {
    let (all, resumed) = (counter(span, "tls_handshakes_total")?, counter(span, "tls_resumed_total")?);
    let full = (all - resumed) / span.seconds;
    one(
        if percent(resumed, all) < 10.0 { full } else { 0.0 },
        "almost no TLS connection resumes a session",
        format!("{full:.0} full handshakes per second, {resumed:.0} of {all:.0} resumed"),
        "a longer http.keep_alive; where a proxy in front connects for each request, let it keep its connections",
    )
}

fn floods(span: &Span<'_>) -> Measured {
    let mut sum = 0.0;
    for name in ["h2_flood_frames_total", "h2_flood_resets_total", "h2_flood_heads_total"] {
        sum += counter(span, name)?;
    }
    one(
        sum,
        format!("{sum:.0} HTTP/2 connections were closed because of a flood"),
        format!("+{sum:.0} in {:.0} s", span.seconds),
        "if it goes on, block the address in front: the access log names it",
    )
}

fn closing_lines(span: &Span<'_>) -> Measured {
    let count = span.now("server.htaccess.closing")?;
    one(
        count,
        format!("{count:.0} lines of .htaccess files close what they cover, or leave a firewall off"),
        span.now.text("server.htaccess.lines"),
        "`millrace check --htaccess` lists them: write each as docs/htaccess.md says, or remove it",
    )
}

fn ignored_lines(span: &Span<'_>) -> Measured {
    let count = span.now("server.htaccess.ignored")?;
    one(
        count,
        format!("{count:.0} lines of .htaccess files are ignored"),
        span.now.text("server.htaccess.lines"),
        "`millrace check --htaccess` lists them: remove them, or do the same in the configuration",
    )
}

fn malformed(span: &Span<'_>) -> Measured {
    let (bad, all) = (counter(span, "requests_malformed_total")?, counter(span, "requests_total")?);
    one(
        if all + bad >= 50.0 { percent(bad, all + bad) } else { 0.0 },
        "many requests are not HTTP",
        format!("{bad:.0} of {:.0} in {:.0} s", all + bad, span.seconds),
        "look at `malformed` in the access log (log.access_format = \"json\"): a client may speak TLS to a plain port",
    )
}

#[cfg(test)]
mod tests {
    use crate::facts::Facts;
    use crate::testing::{Pair, case};

    fn counts(counts: &'static [(&'static str, f64)]) -> impl Fn(&mut Pair) {
        move |p: &mut Pair| {
            for (name, rise) in counts {
                p.rise(&format!("server.counters.{name}"), *rise);
            }
        }
    }

    #[test]
    fn loops_go_on() {
        let stuck = |p: &mut Pair| {
            let mut hung = Facts::default();
            hung.say("name", "loop-1");
            hung.say("doing", "it sleeps in read of /proc/kmsg\n more");
            hung.set("seconds", 7.0);
            p.now.put("server.hung_loops", vec![hung]);
        };
        case("loop-hung", stuck, |_| ());
    }

    #[test]
    fn php_and_fpm_are_up() {
        case("php-down", |p| p.now.items("server.php")[0].say("trouble", "no libphp"), |_| ());
        let fpm = |up: f64| {
            move |p: &mut Pair| {
                let mut backend = Facts::default();
                backend.say("address", "/run/php/fpm.sock");
                backend.set("up", up);
                p.now.items("server.php")[0].put("fastcgi", vec![backend]);
            }
        };
        case("fpm-down", fpm(0.0), fpm(1.0));
    }

    #[test]
    fn the_server_of_the_object_cache() {
        let objects = |problem: &'static str, evicted: f64| {
            move |p: &mut Pair| {
                for (looks, count) in [(&mut p.before, 5.0), (&mut p.now, 5.0 + evicted)] {
                    let mut site = Facts::default();
                    for (name, word) in [
                        ("site", "a.test"),
                        ("socket", "/run/a.sock"),
                        ("server.kind", "memcached"),
                        ("server.address", "10.0.0.5:11211"),
                        ("server.setting", "object_cache.memcached"),
                        ("figures.server.problem", problem),
                    ] {
                        site.say(name, word);
                    }
                    site.set("figures.server.memcached.evicted", count);
                    site.set("figures.server.memcached.limit_bytes", 6.4e7);
                    looks.put("server.object_cache", vec![site]);
                }
            }
        };
        case("object-server-down", objects("it is memcached 1.5.6", 0.0), objects("", 0.0));
        case("object-server-memory", objects("", 1e6), objects("", 1.0));
    }

    #[test]
    fn connections() {
        case("conn-refused", counts(&[("connections_refused_total", 5.0)]), |p| {
            p.both("server.counters.connections_refused_total", 9.0)
        });
        let closed = |used: f64| {
            move |p: &mut Pair| {
                p.rise("server.counters.connections_gave_way_total", 9.0);
                p.now.set("server.connection_memory.used_bytes", used);
            }
        };
        // With memory left, it was for descriptors.
        case("conn-memory", closed(0.95e9), closed(1e6));
    }

    #[test]
    fn pools() {
        case("php-refused", counts(&[("php_overload_refused_total", 5.0)]), |_| ());
        let pool = |waiting: f64, wait: f64| {
            move |p: &mut Pair| {
                let pool = &mut p.now.items("server.php")[0].items("pools")[0];
                pool.set("waiting", waiting);
                pool.set("wait_mean_seconds", wait);
            }
        };
        case("php-wait", pool(4.0, 0.5), pool(0.0, 0.5));
        let held = |waiting: f64| {
            move |p: &mut Pair| {
                let pool = &mut p.now.items("server.php")[0].items("pools")[0];
                pool.set("waiting", waiting);
                pool.set("held_to", 3.0);
            }
        };
        case("php-held", held(4.0), held(0.0));
    }

    #[test]
    fn more_workers_only_if_they_help() {
        let mut pair = Pair::healthy();
        counts(&[("php_queue_full_total", 5.0)])(&mut pair);
        assert!(
            pair.finding("php-refused").cure.starts_with("php.workers = 32 (now 16)"),
            "{:?}",
            pair.finding("php-refused")
        );
        pair.now.set("cpu.idle", pair.before.figure("cpu.idle").expect("idle"));
        assert!(pair.finding("php-refused").cure.contains("would not help"));
    }

    #[test]
    fn errors() {
        case("php-lost", counts(&[("php_lost_total", 1.0)]), |_| ());
        case(
            "php-fatal",
            counts(&[("php_failures_total", 5.0), ("php_requests_total", 100.0)]),
            counts(&[("php_failures_total", 5.0), ("php_requests_total", 10.0)]),
        );
        case("php-timeout", counts(&[("php_timeouts_total", 1.0)]), |_| ());
        case(
            "replies-failed",
            counts(&[("replies_5xx_total", 50.0), ("requests_total", 1_000.0)]),
            counts(&[("replies_5xx_total", 5.0), ("requests_total", 1_000.0)]),
        );
        let mut pair = Pair::healthy();
        counts(&[("php_failures_total", 50.0), ("php_requests_total", 100.0)])(&mut pair);
        pair.now
            .say("server.php_last_fatal.text", "php a.test /index.php: PHP Fatal error:  Uncaught Error: no");
        let found = pair.finding("php-fatal");
        assert!(
            found.evidence[0]
                .ends_with("the last one: php a.test /index.php: PHP Fatal error:  Uncaught Error: no"),
            "{found:?}"
        );
        let refused =
            |count: f64| move |p: &mut Pair| p.both("server.counters.files_links_refused_total", count);
        case("links-closed", refused(1.0), refused(0.0));
        case(
            "filter-crawl",
            counts(&[("shield_filter_total", 50.0)]),
            counts(&[("shield_filter_total", 5.0)]),
        );
        case("sites-unseen", |p| p.now.set("sites_left", 7.0), |p| p.now.set("sites_left", 0.0));
        case("log-dropped", counts(&[("log_lines_dropped_total", 1.0)]), |_| ());
        case(
            "malformed",
            counts(&[("requests_malformed_total", 1_000.0)]),
            counts(&[("requests_malformed_total", 5.0)]),
        );
        case("h2-floods", counts(&[("h2_flood_resets_total", 1.0)]), |_| ());
        let lines = |name: &'static str, count: f64| {
            move |p: &mut Pair| p.now.set(format!("server.htaccess.{name}"), count)
        };
        case("htaccess-closed", lines("closing", 1.0), lines("ignored", 1.0));
        case("htaccess-ignored", lines("ignored", 2.0), lines("closing", 1.0));
    }

    #[test]
    fn the_page_of_the_url() {
        let url = |name: &'static str, value: f64| {
            move |p: &mut Pair| {
                for (name, value) in [("milliseconds", 90.0), ("status", 200.0), (name, value)] {
                    p.both(&format!("url.{name}"), value);
                }
            }
        };
        case("url-slow", url("milliseconds", 4_000.0), url("milliseconds", 400.0));
        case("url-status", url("status", 503.0), url("status", 404.0));
    }

    #[test]
    fn certificates() {
        let ends = |days: f64, problem: &'static str| {
            move |p: &mut Pair| {
                let now = p.now.figure("now.seconds").expect("a time");
                let one = &mut p.now.items("server.certificates")[0];
                one.set("ends", now + days * 86_400.0);
                one.say("problem", problem);
            }
        };
        case("certificate", ends(3.0, ""), ends(20.0, ""));
        case("certificate", ends(20.0, "connection refused"), ends(20.0, ""));
        let own = |days: f64, problem: &'static str| {
            move |p: &mut Pair| {
                ends(days, problem)(p);
                p.now.items("server.certificates")[0].say("file", "/etc/ssl/a.pem");
            }
        };
        case("certificate", own(3.0, "late"), own(3.0, ""));
        case("certificate", own(-1.0, ""), own(60.0, ""));
        case(
            "tls-handshakes",
            counts(&[("tls_handshakes_total", 2_000.0)]),
            counts(&[("tls_handshakes_total", 2_000.0), ("tls_resumed_total", 1_000.0)]),
        );
    }
}
