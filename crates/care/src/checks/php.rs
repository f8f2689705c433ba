//! PHP's own settings and opcache, as the PHP hosts report them (`GET /php.json`).

use super::{Certainty, Check, Measure, Measured, Rank, Scope, both, bytes, measure, note, warning};
use crate::facts::{Blind, Facts, Span, percent};

/// What the rows are about.
const SCOPE: Scope = Scope::Machine;

pub(super) const CHECKS: &[Check] = &[
    row!(
        "opcache-off",
        "opcache",
        "opcache_get_status() of the PHP host",
        both(1.0, 2.0, "where it is off: 1, or 2 while PHP is busy"),
        "PHP manual: without opcache, each request compiles every script",
        "php.ini: opcache.enable=1, or install php-opcache",
        "Each request compiles every file again.",
        High,
        Work,
        opcache_off
    ),
    row!(
        "opcache-full",
        "memory of opcache",
        "cache_full, memory_usage, oom_restarts of opcache_get_status()",
        both(90.0, 98.0, "% of the memory used or wasted; full is 100"),
        "PHP manual, opcache.memory_consumption: scripts that do not fit are compiled at each request",
        "php.ini: opcache.memory_consumption",
        "Scripts that do not fit are compiled again at each request.",
        High,
        Work,
        opcache_memory
    ),
    row!(
        "opcache-keys",
        "number of scripts in opcache",
        "num_cached_keys, max_cached_keys, hash_restarts of opcache_get_status()",
        both(90.0, 99.0, "% of the keys"),
        "PHP manual, opcache.max_accelerated_files",
        "php.ini: opcache.max_accelerated_files",
        "Scripts beyond the limit are compiled again at each request.",
        High,
        Work,
        opcache_keys
    ),
    row!(
        "opcache-restarts",
        "restarts of opcache",
        "oom_restarts, hash_restarts, manual_restarts of opcache_get_status()",
        both(1.0, 3.0, "between the looks"),
        "PHP manual, opcache_reset(): everything is compiled again",
        "more opcache.memory_consumption; find the plugin that calls opcache_reset()",
        "All scripts are compiled again, by all workers at once.",
        High,
        Work,
        opcache_restarts
    ),
    row!(
        "opcache-strings",
        "interned strings of opcache",
        "interned_strings_usage of opcache_get_status()",
        warning(95.0, "% of the buffer used"),
        "PHP manual, opcache.interned_strings_buffer (default 8 MB)",
        "php.ini: opcache.interned_strings_buffer",
        "Each worker keeps its own copy of further strings.",
        Medium,
        Work,
        opcache_strings
    ),
    row!(
        "opcache-hits",
        "hits of opcache",
        "hits and misses of opcache_get_status()",
        warning(5.0, "% misses of at least 2000 lookups between the looks"),
        "a running site compiles only what has changed",
        "opcache.validate_timestamps, opcache.file_update_protection; scripts that are generated again and again",
        "Scripts are compiled again.",
        Medium,
        Work,
        opcache_hits
    ),
    row!(
        "php-xdebug",
        "debuggers and profilers",
        "extensions of the PHP host",
        warning(1.0, "loaded: xdebug, pcov, tideways, blackfire, xhprof"),
        "xdebug.org: its documentation advises against it in production",
        "php.ini: remove the line zend_extension=xdebug",
        "Each function call takes longer.",
        High,
        Work,
        debuggers
    ),
    row!(
        "php-realpath",
        "realpath cache",
        "realpath_cache_size and realpath_cache_ttl of php.ini",
        note(1.0, "where the size is below 256 KB, with a site of WordPress or Drupal"),
        "PHP manual: the default is 4096K since 7.0; smaller ones come from old advice",
        "php.ini: realpath_cache_size=4096K",
        "Each include asks the file system for every folder of the path.",
        Medium,
        Advice,
        realpath
    ),
    row!(
        "php-memory-limit",
        "memory limit of PHP",
        "memory_limit of php.ini, the workers' private memory",
        warning(90.0, "% of memory_limit in the largest worker"),
        "PHP ends a script that exceeds memory_limit with a fatal error",
        "php.ini: memory_limit",
        "The next larger page ends in an error.",
        Medium,
        Advice,
        memory_limit
    ),
    row!(
        "php-display-errors",
        "errors shown to visitors",
        "display_errors of php.ini",
        warning(1.0, "where it is on"),
        "PHP manual: never on a public site",
        "php.ini: display_errors=0",
        "Errors show paths and secrets, and break pages and caching.",
        High,
        Advice,
        display_errors
    ),
    row!(
        "php-old",
        "version of PHP",
        "version of the PHP host",
        note(1.0, "versions without security updates of the PHP project"),
        "php.net/supported-versions: 8.1 ended on 2025-12-31, 8.2 on 2026-12-31",
        "a newer PHP",
        "Security holes stay open unless the distribution closes them; newer versions are faster.",
        High,
        Advice,
        version
    ),
    row!(
        "php-sessions",
        "files of sessions",
        "session.save_handler and session.gc_probability of php.ini",
        note(
            1.0,
            "where files are kept and never deleted: gc_probability 0 without the distribution's cleaning job"
        ),
        "Debian deletes them by a timer (phpsessionclean) only in /var/lib/php/sessions",
        "php.ini: session.gc_probability=1",
        "The folder grows until inodes run out.",
        Low,
        Advice,
        sessions
    ),
];

/// A measure for each PHP service whose host has reported.
fn each(span: &Span<'_>, of: impl Fn(&Span<'_>) -> Result<Measure, Blind>) -> Measured {
    let services = span.pairs("php.services", "name")?;
    let mut all = Vec::new();
    let mut why = Blind::DoesNotApply("Millrace runs no PHP of its own here".to_owned());
    for service in &services {
        match of(service) {
            Ok(measure) => all.push(measure),
            Err(blind) => why = blind,
        }
    }
    if all.is_empty() { Err(why) } else { Ok(all) }
}

/// A setting of php.ini as a size in bytes: `128M`. -1 is no limit.
pub(super) fn size(text: &str) -> Option<f64> {
    let text = text.trim();
    let (digits, factor) = match text.chars().last()?.to_ascii_uppercase() {
        'K' => (&text[..text.len() - 1], 1_024.0),
        'M' => (&text[..text.len() - 1], 1_048_576.0),
        'G' => (&text[..text.len() - 1], 1_073_741_824.0),
        _ => (text, 1.0),
    };
    digits.trim().parse::<f64>().ok().map(|value| value * factor)
}

fn setting<'a>(service: &'a Facts, name: &str) -> Result<&'a str, Blind> {
    service.word(&format!("settings.{name}"))
}

fn is_on(text: &str) -> bool {
    matches!(text.to_ascii_lowercase().as_str(), "1" | "on" | "yes" | "true" | "stdout")
}

fn opcache_off(span: &Span<'_>) -> Measured {
    let busy = span.rate("server.counters.php_requests_total")?;
    each(span, |service| {
        let is_on = service.now("opcache.opcache_enabled").unwrap_or(0.0) != 0.0;
        service
            .now
            .word("settings.opcache.enable")
            .map(|_| ())
            .or_else(|why| if is_on { Ok(()) } else { Err(why) })?;
        let name = service.now.text("name");
        Ok(measure(
            if is_on {
                0.0
            } else if busy >= 1.0 {
                2.0
            } else {
                1.0
            },
            format!("opcache is off for {name}"),
            format!(
                "opcache.enable = {}; {busy:.0} PHP requests per second",
                service.now.text("settings.opcache.enable")
            ),
            "[php] ini = { \"opcache.enable\" = \"1\" }, then `millrace reload`; if the extension is missing: install php-opcache",
        ))
    })
}

fn opcache_memory(span: &Span<'_>) -> Measured {
    each(span, |service| {
        let of = |name: &str| service.now(&format!("opcache.memory_usage.{name}"));
        let (used, free, wasted) = (of("used_memory")?, of("free_memory")?, of("wasted_memory")?);
        let all = used + free + wasted;
        let is_full = service.now("opcache.cache_full")? != 0.0;
        let scripts = service.now("opcache.opcache_statistics.num_cached_scripts")?;
        let misses = service.rise("opcache.opcache_statistics.misses")?;
        Ok(measure(
            if is_full {
                100.0
            } else {
                percent(used + wasted, all).min(99.9) * f64::from(u8::from(free < 16e6))
            },
            format!("the opcache of {} is full", service.now.text("name")),
            format!(
                "{} of {} used, {} wasted; {scripts:.0} scripts; {misses:.0} compilations between the looks",
                bytes(used),
                bytes(all),
                bytes(wasted)
            ),
            format!(
                "[php] ini = {{ \"opcache.memory_consumption\" = \"{}\" }} (now {:.0}), then `millrace reload`",
                (all / 1_048_576.0 * 2.0).ceil().max(128.0),
                all / 1_048_576.0
            ),
        ))
    })
}

fn opcache_keys(span: &Span<'_>) -> Measured {
    each(span, |service| {
        let of = |name: &str| service.now(&format!("opcache.opcache_statistics.{name}"));
        let (used, most) = (of("num_cached_keys")?, of("max_cached_keys")?);
        Ok(measure(
            percent(used, most),
            format!("the opcache of {} can hold no more scripts", service.now.text("name")),
            format!("{used:.0} of {most:.0} keys"),
            format!(
                "[php] ini = {{ \"opcache.max_accelerated_files\" = \"{:.0}\" }} (now {}), then `millrace reload`",
                most * 2.0,
                service.now.text("settings.opcache.max_accelerated_files")
            ),
        ))
    })
}

fn opcache_restarts(span: &Span<'_>) -> Measured {
    each(span, |service| {
        let of = |name: &str| service.rise(&format!("opcache.opcache_statistics.{name}"));
        let (memory, hash, manual) = (of("oom_restarts")?, of("hash_restarts")?, of("manual_restarts")?);
        let cure = if manual > memory + hash {
            "find the plugin that calls opcache_reset(): `grep -r opcache_reset wp-content/plugins`"
                .to_owned()
        } else {
            format!(
                "[php] ini = {{ \"opcache.memory_consumption\" = \"256\", \"opcache.max_accelerated_files\" = \"20000\" }} (now {} and {}), then `millrace reload`",
                service.now.text("settings.opcache.memory_consumption"),
                service.now.text("settings.opcache.max_accelerated_files")
            )
        };
        Ok(measure(
            memory + hash + manual,
            format!("the opcache of {} starts again and again", service.now.text("name")),
            format!(
                "restarts between the looks: {memory:.0} for memory, {hash:.0} for keys, {manual:.0} by scripts"
            ),
            cure,
        ))
    })
}

fn opcache_strings(span: &Span<'_>) -> Measured {
    each(span, |service| {
        let of = |name: &str| service.now(&format!("opcache.interned_strings_usage.{name}"));
        let (used, all) = (of("used_memory")?, of("buffer_size")?);
        Ok(measure(
            percent(used, all),
            format!("the buffer of interned strings of {} is full", service.now.text("name")),
            format!("{} of {}", bytes(used), bytes(all)),
            format!(
                "[php] ini = {{ \"opcache.interned_strings_buffer\" = \"{:.0}\" }} (now {}), then `millrace reload`",
                (all / 1_048_576.0 * 2.0).ceil(),
                service.now.text("settings.opcache.interned_strings_buffer")
            ),
        ))
    })
}

fn opcache_hits(span: &Span<'_>) -> Measured {
    each(span, |service| {
        let of = |name: &str| service.rise(&format!("opcache.opcache_statistics.{name}"));
        let (hits, misses) = (of("hits")?, of("misses")?);
        // A script that is compiled for the first time misses, too: after a start and a deploy that is as it should be.
        let new = of("num_cached_scripts")?.max(0.0);
        let again = (misses - new).max(0.0);
        Ok(measure(
            if hits + misses >= 2_000.0 { percent(again, hits + misses) } else { 0.0 },
            format!("scripts of {} are compiled again and again", service.now.text("name")),
            format!("{misses:.0} misses, {new:.0} of them of new scripts, {hits:.0} hits between the looks"),
            "if opcache-full or opcache-keys is reported, cure that first; else find scripts that change all the time (caches that plugins write as PHP)",
        ))
    })
}

fn debuggers(span: &Span<'_>) -> Measured {
    each(span, |service| {
        let extensions = service.now.word("extensions")?.to_ascii_lowercase();
        let known = ["xdebug", "pcov", "tideways", "blackfire", "xhprof"];
        let loaded: Vec<&str> =
            extensions.split(',').map(str::trim).filter(|name| known.contains(name)).collect();
        let name = loaded.first().unwrap_or(&"xdebug");
        Ok(measure(
            loaded.len() as f64,
            format!("{} is loaded in the PHP of {}", loaded.join(", "), service.now.text("name")),
            format!("extensions: {}", loaded.join(", ")),
            format!(
                "phpdismod -s embed {name}, or remove the line of {name} from php.ini; then `millrace reload`"
            ),
        ))
    })
}

fn realpath(span: &Span<'_>) -> Measured {
    let sites = span.now.list("server.sites")?;
    let is_large = sites.iter().any(|site| site.text("profile") != "generic");
    each(span, |service| {
        let text = setting(service.now, "realpath_cache_size")?;
        let bytes = size(text).unwrap_or(f64::MAX);
        Ok(measure(
            f64::from(u8::from(is_large && bytes < 262_144.0)),
            format!("the realpath cache of {} is small", service.now.text("name")),
            format!("realpath_cache_size = {text}"),
            format!(
                "[php] ini = {{ realpath_cache_size = \"4096K\", realpath_cache_ttl = \"600\" }} (now {text}), then `millrace reload`"
            ),
        ))
    })
}

fn memory_limit(span: &Span<'_>) -> Measured {
    let workers = span.now.list("server.php")?;
    each(span, |service| {
        let text = setting(service.now, "memory_limit")?;
        let limit = size(text).filter(|limit| *limit > 0.0).unwrap_or(f64::MAX);
        let name = service.now.text("name");
        let own = workers
            .iter()
            .filter(|php| php.text("name") == name)
            .flat_map(|php| php.list("each").unwrap_or_default());
        let largest = own.filter_map(|worker| worker.figure("own_bytes").ok()).fold(0.0, f64::max);
        Ok(measure(
            percent(largest, limit),
            format!("a script of {name} comes near to memory_limit"),
            format!("the largest worker has {} of its own; memory_limit = {text}", bytes(largest)),
            format!(
                "[php] ini = {{ memory_limit = \"{}\" }} (now {text}), then `millrace reload`; or find the script: `millrace status` shows the workers' memory",
                super::size_up(limit * 1.5)
            ),
        ))
    })
}

fn display_errors(span: &Span<'_>) -> Measured {
    each(span, |service| {
        let text = setting(service.now, "display_errors")?;
        Ok(measure(
            f64::from(u8::from(is_on(text))),
            format!("PHP shows its errors to the visitors of {}", service.now.text("name")),
            format!("display_errors = {text}"),
            format!(
                "[php] ini = {{ display_errors = \"0\", log_errors = \"1\" }} (now {text}), then `millrace reload`"
            ),
        ))
    })
}

/// The PHP project's last day of security updates, as days since 1970.
const ENDS: &[(&str, f64)] = &[
    ("7.", 19_324.0),
    ("8.0", 19_687.0),
    ("8.1", 20_453.0),
    ("8.2", 20_818.0),
    ("8.3", 21_183.0),
    ("8.4", 21_549.0),
    ("8.5", 21_914.0),
];

fn version(span: &Span<'_>) -> Measured {
    let today = span.now("now.seconds")? / 86_400.0;
    each(span, |service| {
        let version = service.now.word("php_version")?;
        let end = ENDS.iter().find(|(start, _)| version.starts_with(start)).map_or(f64::MAX, |(_, end)| *end);
        Ok(measure(
            f64::from(u8::from(today > end)),
            format!("PHP {version} gets no updates from the PHP project any more"),
            format!("PHP {version}"),
            "install a newer PHP (8.4), then rebuild or reinstall millrace-php for it; a distribution with security support of its own may be enough",
        ))
    })
}

fn sessions(span: &Span<'_>) -> Measured {
    each(span, |service| {
        let handler = setting(service.now, "session.save_handler")?;
        let (path, chance) =
            (setting(service.now, "session.save_path")?, setting(service.now, "session.gc_probability")?);
        let is_cleaned = chance.trim() != "0" || path.is_empty() || path.ends_with("/var/lib/php/sessions");
        Ok(measure(
            f64::from(u8::from(handler == "files" && !is_cleaned)),
            format!("nothing deletes the old sessions of {}", service.now.text("name")),
            format!("session.save_path = {path}, session.gc_probability = {chance}"),
            "[php] ini = { \"session.gc_probability\" = \"1\", \"session.gc_divisor\" = \"1000\" } (now 0), then `millrace reload`",
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::size;
    use crate::testing::{Pair, case};

    fn set(name: &'static str, value: f64) -> impl Fn(&mut Pair) {
        move |p: &mut Pair| p.now.items("php.services")[0].set(name, value)
    }

    fn say(name: &'static str, text: &'static str) -> impl Fn(&mut Pair) {
        move |p: &mut Pair| p.now.items("php.services")[0].say(name, text)
    }

    fn rise(name: &'static str, by: f64) -> impl Fn(&mut Pair) {
        move |p: &mut Pair| p.rise_of("php.services", 0, name, by)
    }

    #[test]
    fn sizes() {
        assert_eq!(
            ["128M", "4096K", "1g", "99", "-1"].map(size),
            [Some(134_217_728.0), Some(4_194_304.0), Some(1_073_741_824.0), Some(99.0), Some(-1.0)]
        );
        assert_eq!((size(""), size("many")), (None, None));
    }

    #[test]
    fn opcache() {
        case("opcache-off", set("opcache.opcache_enabled", 0.0), |_| ());
        let used = |used: f64, free: f64| {
            move |p: &mut Pair| {
                set("opcache.memory_usage.used_memory", used)(p);
                set("opcache.memory_usage.free_memory", free)(p);
            }
        };
        case("opcache-full", set("opcache.cache_full", 1.0), used(100e6, 34e6));
        // 95 % of 1 GB leave room for 50 MB of scripts.
        case("opcache-full", used(130e6, 4e6), used(950e6, 50e6));
        case(
            "opcache-keys",
            set("opcache.opcache_statistics.num_cached_keys", 16_200.0),
            set("opcache.opcache_statistics.num_cached_keys", 9_000.0),
        );
        case("opcache-restarts", rise("opcache.opcache_statistics.oom_restarts", 1.0), |p| {
            p.before.items("php.services")[0].set("opcache.opcache_statistics.oom_restarts", 4.0);
            p.now.items("php.services")[0].set("opcache.opcache_statistics.oom_restarts", 4.0);
        });
        case(
            "opcache-strings",
            set("opcache.interned_strings_usage.used_memory", 8.3e6),
            set("opcache.interned_strings_usage.used_memory", 7e6),
        );
        let lookups = |hits: f64, misses: f64| {
            move |p: &mut Pair| {
                rise("opcache.opcache_statistics.hits", hits)(p);
                rise("opcache.opcache_statistics.misses", misses)(p);
            }
        };
        case("opcache-hits", lookups(9_000.0, 900.0), lookups(100.0, 500.0));
    }

    #[test]
    fn settings() {
        case(
            "php-xdebug",
            say("extensions", "Core,date,xdebug,zip"),
            say("extensions", "Core,date,xdebug_not,zip"),
        );
        case(
            "php-realpath",
            say("settings.realpath_cache_size", "16K"),
            say("settings.realpath_cache_size", "4096K"),
        );
        let grown = |p: &mut Pair| p.now.items("server.php")[0].items("each")[0].set("own_bytes", 125e6);
        case("php-memory-limit", grown, |_| ());
        case("php-display-errors", say("settings.display_errors", "1"), say("settings.display_errors", "0"));
        case("php-old", say("php_version", "8.0.30"), say("php_version", "8.4.1"));
        let never = |p: &mut Pair| {
            say("settings.session.save_path", "/srv/sessions")(p);
            say("settings.session.gc_probability", "0")(p);
        };
        case("php-sessions", never, say("settings.session.gc_probability", "0"));
    }
}
