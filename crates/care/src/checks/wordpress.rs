//! WordPress: options, cron, debugging, caches; files and folders in the document root.

use super::{Certainty, Check, Measured, Rank, Scope, both, bytes, error, note, one, warning};
use crate::facts::Span;

/// What the rows are about.
const SCOPE: Scope = Scope::Site;

pub(super) const CHECKS: &[Check] = &[
    row!(
        "wp-autoload",
        "options that every page loads",
        "size of the autoloaded options",
        both(800_000.0, 3_000_000.0, "bytes"),
        "WordPress's Site Health: 800,000 bytes (WP_Site_Health::get_test_autoloaded_options)",
        "set autoload of the large ones to off, or delete them",
        "Every page that PHP makes reads them.",
        High,
        Work,
        autoload
    ),
    row!(
        "wp-transients",
        "expired transients",
        "options _transient_timeout_... in the past",
        note(1_000.0, "expired transients"),
        "WordPress deletes them once a day; thousands mean that its cron does not run",
        "wp transient delete --expired",
        "The options table grows.",
        Medium,
        Advice,
        transients
    ),
    row!(
        "wp-cron",
        "jobs of wp-cron",
        "option cron: the earliest due job",
        both(900.0, 7_200.0, "seconds overdue"),
        "WordPress's Site Health calls a job missed after 5 minutes; quiet sites run late",
        "a system timer for wp-cron.php",
        "Updates, mails and scheduled posts do not happen.",
        High,
        Symptom,
        cron
    ),
    row!(
        "wp-object-cache",
        "persistent object cache",
        "a listening Redis or Valkey, wp-content/object-cache.php",
        note(1.0, "where one listens and WordPress does not use it"),
        "WordPress's Site Health: persistent object cache",
        "a plugin for the object cache",
        "Each page asks the database for what the cache could hold.",
        Medium,
        Advice,
        object_cache
    ),
    row!(
        "wp-debug",
        "debugging",
        "WP_DEBUG and WP_DEBUG_DISPLAY in wp-config.php",
        warning(1.0, "where errors are shown to visitors"),
        "WordPress documentation: not on live sites",
        "define( 'WP_DEBUG', false );",
        "Errors show paths, and break pages and caching.",
        High,
        Advice,
        debug
    ),
    row!(
        "wp-savequeries",
        "record of all queries",
        "SAVEQUERIES in wp-config.php",
        warning(1.0, "where it is on"),
        "WordPress documentation: it has a performance impact",
        "define( 'SAVEQUERIES', false );",
        "Each query is kept with its backtrace.",
        High,
        Work,
        save_queries
    ),
    row!(
        "wp-script-debug",
        "uncompressed scripts",
        "SCRIPT_DEBUG in wp-config.php",
        note(1.0, "where it is on"),
        "WordPress documentation: for development",
        "define( 'SCRIPT_DEBUG', false );",
        "Browsers load more and larger files.",
        High,
        Advice,
        script_debug
    ),
    row!(
        "wp-debug-log",
        "debug.log",
        "size of wp-content/debug.log",
        note(100e6, "bytes"),
        "a log of this size means thousands of messages per day",
        "delete it; correct what it says",
        "Each message is a write; the disk fills.",
        High,
        Advice,
        debug_log
    ),
    row!(
        "wp-cache-plugin",
        "a second page cache",
        "wp-content/advanced-cache.php, WP_CACHE",
        note(1.0, "where a cache plugin is active, too"),
        "docs/cache.md: Millrace caches pages and purges them itself",
        "deactivate the page cache of the plugin",
        "Pages are stored twice, and the plugin's may be stale when Millrace's is not.",
        Medium,
        Advice,
        cache_plugin
    ),
    row!(
        "wp-updates",
        "pending updates",
        "site transients update_core, update_plugins",
        note(5.0, "updates; one of the core counts 5"),
        "WordPress's Site Health",
        "wp core update, wp plugin update --all",
        "Known security holes stay open.",
        Medium,
        Advice,
        updates
    ),
    row!(
        "wp-plugins",
        "number of plugins",
        "option active_plugins",
        note(50.0, "active plugins"),
        "chosen: each is loaded for each page",
        "deactivate what is not needed",
        "Each page loads all of them.",
        Low,
        Advice,
        plugins
    ),
    row!(
        "wp-maintenance",
        "maintenance mode",
        ".maintenance in the document root",
        warning(600.0, "seconds old"),
        "wp_maintenance(): the file counts for 10 minutes; an older one is left from an update that broke off",
        "delete .maintenance",
        "An update was not completed.",
        Medium,
        Symptom,
        maintenance
    ),
    row!(
        "uploads-closed",
        "folders for uploads",
        "rights of the folders for uploads, and the user of a worker in /proc/PID/status",
        error(1.0, "folders that PHP can't write"),
        "the application's installation guide: the folder belongs to the user of PHP",
        "chown of the folder to the user of PHP",
        "Uploads fail; WordPress says that the folder is not writable.",
        High,
        Outage,
        uploads_closed
    ),
    row!(
        "site-secrets",
        "files that give away secrets",
        "names in the document root: copies of wp-config.php, dumps, .git, .env",
        note(1.0, "files"),
        "docs/files.md: Millrace never serves these names; other servers, and copies of the folder, do",
        "move them out of the document root",
        "Passwords and data are one wrong setting away from the public.",
        High,
        Advice,
        secrets
    ),
    row!(
        "site-tools",
        "scripts that show or change everything",
        "phpinfo.php, info.php, adminer.php in the document root",
        warning(1.0, "scripts"),
        "scanners try these names all day",
        "delete them",
        "Every visitor can run them.",
        High,
        Advice,
        tools
    ),
];

fn autoload(span: &Span<'_>) -> Measured {
    let (size, count) = (span.now("wordpress.autoload_bytes")?, span.now("wordpress.autoload_options")?);
    let largest = span.now.list("wordpress.autoload_largest").unwrap_or_default();
    let name = |option: &crate::facts::Facts| {
        format!("{} ({})", option.text("name"), bytes(option.figure("bytes").unwrap_or(0.0)))
    };
    let names: Vec<String> = largest.iter().take(3).map(name).collect();
    let first = largest.first().map_or("NAME", |option| option.text("name"));
    one(
        size,
        format!("every page loads {} of options", bytes(size)),
        format!("{count:.0} autoloaded options; the largest: {}", names.join(", ")),
        format!(
            "wp option set-autoload {first} off (if the plugin that wrote it is gone: wp option delete {first}); then the next largest"
        ),
    )
}

fn transients(span: &Span<'_>) -> Measured {
    let count = span.now("wordpress.transients_expired")?;
    one(
        count,
        format!("{count:.0} expired transients are in the database"),
        format!("{count:.0} options _transient_timeout_... in the past"),
        "wp transient delete --expired; then see wp-cron: WordPress deletes them once a day",
    )
}

fn cron(span: &Span<'_>) -> Measured {
    let (late, count) = (span.now("wordpress.cron_late_seconds")?, span.now("wordpress.cron_late")?);
    let job = span.now.text("wordpress.cron_first");
    let cure = if span.now.is_on("config.DISABLE_WP_CRON") {
        "DISABLE_WP_CRON is set, and nothing runs it: `*/5 * * * * www-data wp cron event run --due-now --path=SITE` in /etc/cron.d"
    } else {
        "`wp cron event run --due-now` shows which job fails or hangs; then a system timer for it and DISABLE_WP_CRON"
    };
    one(
        late,
        format!("{count:.0} jobs of wp-cron are overdue"),
        format!("the oldest, {job}, by {:.0} minutes", late / 60.0),
        cure,
    )
}

fn object_cache(span: &Span<'_>) -> Measured {
    let redis = span.now("files.redis").map_err(|_| no_wordpress())?;
    let used = span.now("files.object_cache")?;
    one(
        if used == 0.0 { redis } else { 0.0 },
        "a Redis listens, and WordPress does not use it",
        "wp-content/object-cache.php is missing",
        "install the plugin redis-cache and enable its object cache: wp plugin install redis-cache --activate && wp redis enable",
    )
}

fn debug(span: &Span<'_>) -> Measured {
    let shown = span.now("config.WP_DEBUG")? * span.now("config.WP_DEBUG_DISPLAY")?;
    one(
        shown,
        "WordPress shows its errors to visitors",
        "WP_DEBUG is on, WP_DEBUG_DISPLAY is not off",
        "define( 'WP_DEBUG', false ); in wp-config.php (now true); or define( 'WP_DEBUG_DISPLAY', false );",
    )
}

fn save_queries(span: &Span<'_>) -> Measured {
    one(
        span.now("config.SAVEQUERIES")?,
        "WordPress records every query",
        "SAVEQUERIES is on",
        "define( 'SAVEQUERIES', false ); in wp-config.php (now true)",
    )
}

fn script_debug(span: &Span<'_>) -> Measured {
    one(
        span.now("config.SCRIPT_DEBUG")?,
        "WordPress sends uncompressed scripts",
        "SCRIPT_DEBUG is on",
        "define( 'SCRIPT_DEBUG', false ); in wp-config.php (now true)",
    )
}

fn debug_log(span: &Span<'_>) -> Measured {
    let size = span.now("files.debug_log_bytes").map_err(|_| no_wordpress())?;
    one(
        size,
        format!("wp-content/debug.log has {}", bytes(size)),
        bytes(size),
        "read its end, correct what it says, then delete it; define( 'WP_DEBUG_LOG', false ); in wp-config.php stops it",
    )
}

fn no_wordpress() -> crate::facts::Blind {
    crate::facts::Blind::DoesNotApply("the site is no WordPress".to_owned())
}

fn cache_plugin(span: &Span<'_>) -> Measured {
    let there = span.now("files.advanced_cache").map_err(|_| no_wordpress())?;
    one(
        there * span.now("config.WP_CACHE")?,
        "a plugin caches pages, too",
        "wp-content/advanced-cache.php is there, WP_CACHE is on",
        "deactivate the page cache of the plugin, and define( 'WP_CACHE', false ); in wp-config.php (now true)",
    )
}

fn updates(span: &Span<'_>) -> Measured {
    let of = |name: &str| span.now(&format!("wordpress.updates_{name}")).unwrap_or(0.0);
    span.now("wordpress.autoload_bytes")?;
    let (core, plugins, themes) = (of("core"), of("plugins"), of("themes"));
    one(
        core * 5.0 + plugins + themes,
        "updates are pending",
        format!("core {core:.0}, plugins {plugins:.0}, themes {themes:.0}"),
        "after a backup: wp core update && wp plugin update --all && wp theme update --all",
    )
}

fn plugins(span: &Span<'_>) -> Measured {
    let count = span.now("wordpress.plugins")?;
    one(
        count,
        format!("{count:.0} plugins are active"),
        format!("{count:.0} entries of active_plugins"),
        "deactivate what is not needed: wp plugin list --status=active",
    )
}

fn maintenance(span: &Span<'_>) -> Measured {
    let age = span.now("files.maintenance_seconds").map_err(|_| no_wordpress())?;
    one(
        age,
        "an update broke off and left .maintenance behind",
        format!(".maintenance is {:.0} minutes old", age / 60.0),
        "run the update again (wp core update, wp plugin update --all), then delete .maintenance",
    )
}

fn uploads_closed(span: &Span<'_>) -> Measured {
    let (closed, user) = (span.now.list("uploads.closed")?, span.now.text("uploads.user"));
    let Some(first) = closed.first() else {
        return one(0.0, "PHP can't write its folder for uploads", "", "");
    };
    let (path, why) = (first.text("path"), first.text("why"));
    let cure = match why.contains(" has mode ") {
        true => format!("chown -R {user}: {path}; if a folder above it is closed, chmod o+x for that one"),
        false => format!("make {path} a folder that {user} can write: {why}"),
    };
    one(closed.len() as f64, format!("PHP, which runs as {user}, can't write {path}"), why, cure)
}

/// Names in the document root: secrets, or tools.
fn names(span: &Span<'_>, want_tools: bool) -> Result<Vec<String>, crate::facts::Blind> {
    let is_tool =
        |name: &str| matches!(name.to_ascii_lowercase().as_str(), "phpinfo.php" | "info.php" | "adminer.php");
    let all = span.now.list("files.secrets")?.iter().map(|file| file.text("name"));
    Ok(all.filter(|name| is_tool(name) == want_tools).map(str::to_owned).collect())
}

fn secrets(span: &Span<'_>) -> Measured {
    let names = names(span, false)?;
    let root = span.now.text("root");
    one(
        names.len() as f64,
        "files in the document root hold secrets",
        names.join(", "),
        format!("mv {root}/{} somewhere outside of {root}", names.first().map_or("", String::as_str)),
    )
}

fn tools(span: &Span<'_>) -> Measured {
    let names = names(span, true)?;
    let root = span.now.text("root");
    one(
        names.len() as f64,
        "scripts in the document root show or change everything",
        names.join(", "),
        format!("rm {root}/{}", names.first().map_or("", String::as_str)),
    )
}

#[cfg(test)]
mod tests {
    use crate::facts::Facts;
    use crate::testing::{Pair, case};

    fn set(name: &'static str, value: f64) -> impl Fn(&mut Pair) {
        move |p: &mut Pair| p.site().set(name, value)
    }

    #[test]
    fn options() {
        case("wp-autoload", set("wordpress.autoload_bytes", 5e6), set("wordpress.autoload_bytes", 799_999.0));
        case(
            "wp-transients",
            set("wordpress.transients_expired", 3_000.0),
            set("wordpress.transients_expired", 30.0),
        );
        case(
            "wp-cron",
            set("wordpress.cron_late_seconds", 4_000.0),
            set("wordpress.cron_late_seconds", 400.0),
        );
        case("wp-updates", set("wordpress.updates_core", 1.0), set("wordpress.updates_plugins", 2.0));
        case("wp-plugins", set("wordpress.plugins", 60.0), set("wordpress.plugins", 20.0));
    }

    #[test]
    fn configuration() {
        case("wp-debug", set("config.WP_DEBUG", 1.0), set("config.WP_DEBUG_DISPLAY", 1.0));
        case("wp-savequeries", set("config.SAVEQUERIES", 1.0), set("config.SAVEQUERIES", 0.0));
        case("wp-script-debug", set("config.SCRIPT_DEBUG", 1.0), set("config.SCRIPT_DEBUG", 0.0));
        let both = |p: &mut Pair| {
            p.site().set("files.advanced_cache", 1.0);
            p.site().set("config.WP_CACHE", 1.0);
        };
        case("wp-cache-plugin", both, set("files.advanced_cache", 1.0));
    }

    #[test]
    fn files() {
        let redis = |used: f64| {
            move |p: &mut Pair| {
                p.site().set("files.redis", 1.0);
                p.site().set("files.object_cache", used);
            }
        };
        case("wp-object-cache", redis(0.0), redis(1.0));
        case("wp-debug-log", set("files.debug_log_bytes", 2e8), set("files.debug_log_bytes", 2e6));
        case(
            "wp-maintenance",
            set("files.maintenance_seconds", 4_000.0),
            set("files.maintenance_seconds", 60.0),
        );
        let file = |name: &'static str| {
            move |p: &mut Pair| {
                let mut one = Facts::default();
                one.say("name", name);
                p.site().put("files.secrets", vec![one]);
            }
        };
        let closed = |p: &mut Pair| {
            let mut folder = Facts::default();
            folder.say("path", "/srv/www/wp-content/uploads");
            folder.say("why", "/srv/www/wp-content/uploads has mode 755 and owner 0:0");
            p.site().put("uploads.closed", vec![folder]);
        };
        case("uploads-closed", closed, set("uploads.looked", 3.0));
        case("site-secrets", file("dump.sql"), file("phpinfo.php"));
        case("site-tools", file("phpinfo.php"), file("dump.sql"));
    }
}
