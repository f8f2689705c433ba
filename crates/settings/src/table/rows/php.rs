//! PHP: ini values, environment and time limits.

use super::{BOTH, DAY, Default, H, Kind, MS, Page, S, Setting, Word};

pub(super) static PAGE: Page = Page {
    name: "php",
    title: "PHP: ini values, environment and time limits",
    line: "Which PHP to run, with which configuration, and how long a script may run.",
    guide: "php.md",
    rows: ROWS,
};

/// The versions that `php/build.rs` can build for, newest first.
static VERSIONS: &[(&str, &str)] = &[
    ("8.4", "the program `millrace-php8.4`"),
    ("8.3", "`millrace-php8.3`"),
    ("8.2", "`millrace-php8.2`"),
    ("8.1", "`millrace-php8.1`"),
    ("auto", "`millrace-php` if there is one, as after a build, else the newest of these"),
];

static ROWS: &[Setting] = &[
    Setting {
        key: "php.enabled",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether to run PHP. Without it the server refuses `.php` files and never sends them as text.",
        reason: "A site of static files needs no workers.",
        example: "false",
        elsewhere: &["php_admin_flag", "engine"],
        ..BOTH
    },
    Setting {
        key: "php.program",
        kind: Kind::Path { word: None },
        default: Default::Unset("found by `php.version`"),
        line: "Program that runs PHP.",
        reason: "There is one for each PHP version. Programs of packages are found by `php.version`; this setting is for those that are elsewhere.",
        example: "\"/usr/lib/millrace/8.3/millrace-php\"",
        elsewhere: &["php_binary"],
        ..BOTH
    },
    Setting {
        key: "php.version",
        kind: Kind::Choice(VERSIONS),
        default: Default::Fixed("auto"),
        line: "PHP version to run, if several are installed.",
        reason: "Packages put a program for each version into one folder (Debian: `/usr/lib/millrace/millrace-php8.2` from the package \
                 `millrace-php8.2`). Programs are looked for beside the server's own program, in `../lib/millrace` from there, and in PATH. \
                 A site's `php.version` overrides `[php] program`.",
        example: "\"8.2\"",
        elsewhere: &["php_version", "phpversion"],
        ..BOTH
    },
    Setting {
        key: "php.ini_file",
        kind: Kind::Path { word: None },
        default: Default::Unset("the distribution's php.ini and conf.d of the embed SAPI"),
        line: "Ini file that PHP reads instead of the distribution's; its `extension=` lines work.",
        reason: "As with `php -c FILE`, PHP reads this file and no other.",
        example: "\"php.ini\"",
        elsewhere: &["php_ini", "phprc", "php_ini_file", "phpinidir"],
        ..BOTH
    },
    Setting {
        key: "php.ini",
        kind: Kind::Ini,
        default: Default::Unset(
            "PHP's ini files apply; without `php.ini_file`, `post_max_size` and `upload_max_filesize` follow \
             `body_bytes`",
        ),
        line: "PHP ini values that override every ini file, as `php -d` does: a table `[php.ini]`.",
        reason: "They keep a site's PHP configuration with the site. `[site.php.ini]` overrides `[php.ini]`, \
                 value by value.",
        example: "{ memory_limit = \"256M\", \"opcache.enable\" = true }",
        elsewhere: &["php_value", "php_admin_value", "php_flag", "php_server"],
        ..BOTH
    },
    Setting {
        key: "php.env",
        kind: Kind::Environment,
        default: Default::Unset("only USER and HOME"),
        line: "Environment variables of scripts: a table `[php.env]`.",
        reason: "Applications in containers are configured this way. As with php-fpm's `env[...]`, scripts \
                 find them in getenv(), $_SERVER and, if PHP fills it, $_ENV. With `php.fastcgi` each \
                 request carries them. `[site.php.env]` overrides `[php.env]`, value by value.",
        example: "{ WORDPRESS_DB_HOST = \"db\" }",
        elsewhere: &["fastcgi_param", "setenv", "php_env"],
        ..BOTH
    },
    Setting {
        key: "php.env_pass",
        kind: Kind::Words(Word::Variable),
        default: Default::Unset("none"),
        line: "Variables of the server's own environment to pass to scripts.",
        reason: "None by default: a server's environment often contains secrets that a site must not see.",
        example: "[\"WORDPRESS_*\"]",
        elsewhere: &["clear_env", "passenv"],
        ..BOTH
    },
    Setting {
        key: "php.request_timeout",
        kind: Kind::Duration { min: 100 * MS, max: 7 * DAY, zero: Some("no limit") },
        default: Default::Fixed("5m"),
        line: "Maximum wall-clock time that a script takes before its response, or until its next content. A \
               script that takes longer is ended, and its client gets 504.",
        reason: "PHP's own max_execution_time doesn't count waiting: a hung database or remote service would \
                 hold a worker forever. Five minutes are enough for imports and updates. The time of the client \
                 does not count: a long download ends when it is complete, and a stream of events lives as long as \
                 something is sent now and then. After four fifths of the time the log shows where the script is.",
        example: "\"30s\"",
        elsewhere: &["request_terminate_timeout", "proxy_read_timeout"],
        ..BOTH
    },
    Setting {
        key: "php.time_limit_max",
        kind: Kind::Duration { min: 100 * MS, max: 7 * DAY, zero: Some("no limit") },
        default: Default::Fixed("1h"),
        line: "Maximum wall-clock time that a script may give itself by `set_time_limit()` or `max_execution_time` (`ini_set()`, `.user.ini`). \
               Not above `php.request_timeout`: scripts can't have more than that.",
        reason: "Imports, exports and backups ask for more time by `set_time_limit(0)`, and expect to get it, as with php-fpm. \
                 Shops ask for it at every checkout, too: without a limit, a hung payment service or database would hold \
                 their workers forever. The limit counts as `php.request_timeout` does, and for work behind the response as \
                 `php.background_timeout`. With `php.fastcgi`, php-fpm doesn't say what its scripts ask for.",
        example: "\"6h\"",
        elsewhere: &["lsapi_max_process_time"],
        ..BOTH
    },
    Setting {
        key: "php.background_timeout",
        kind: Kind::Duration { min: 100 * MS, max: 7 * DAY, zero: Some("no limit") },
        default: Default::Fixed("1h"),
        line: "Maximum wall-clock time that a script goes on behind its response (`fastcgi_finish_request()`). A script \
               that takes longer is ended.",
        reason: "No client waits for such work: imports, mails and queues of jobs may take their time. A hung one \
                 would hold its worker forever. With `php.fastcgi`, php-fpm's `request_terminate_timeout` limits it.",
        example: "\"10m\"",
        elsewhere: &["request_terminate_timeout"],
        ..BOTH
    },
    Setting {
        key: "php.terminate_grace",
        kind: Kind::Duration { min: 10 * MS, max: H, zero: Some("kill at once") },
        default: Default::Fixed("5s"),
        line: "How long a script that has exceeded its time may run its shutdown functions before its worker \
               is killed.",
        reason: "The script ends as by max_execution_time: it releases locks and shows its error page. A \
                 script that doesn't end this way, or can't, is killed.",
        example: "\"1s\"",
        elsewhere: &["process_control_timeout"],
        ..BOTH
    },
    Setting {
        key: "php.slow_log",
        kind: Kind::Duration { min: 10 * MS, max: 7 * DAY, zero: Some("only before a timeout") },
        default: Default::Fixed("0"),
        line: "Run time after which a request is reported in the error log, with PHP's backtrace and what it \
               waits for.",
        reason: "The script continues to run. A request near its timeout is reported in any case.",
        example: "\"5s\"",
        elsewhere: &["request_slowlog_timeout", "slowlog"],
        ..BOTH
    },
    Setting {
        key: "php.crash_pause",
        kind: Kind::Duration { min: S, max: DAY, zero: Some("never") },
        default: Default::Fixed("1m"),
        line: "How long a request that has killed two workers gets 500 without being run; other requests for \
               its page run, a few at a time.",
        reason: "A crash costs its worker, and other requests wait while it is replaced. Each time the \
                 request crashes again after the pause, the pause doubles, up to sixteen times. One input \
                 that crashes never blocks its page for others.",
        example: "\"10m\"",
        elsewhere: &["emergency_restart_threshold", "emergency_restart_interval"],
        ..BOTH
    },
    Setting {
        key: "php.rewind",
        kind: Kind::Choice(&[
            ("wordpress", "`auto` for WordPress, otherwise `off`"),
            ("off", "every request starts its script from the beginning"),
            (
                "auto",
                "as `on`, and now and then a request is run both ways; where the responses differ, requests of that kind start from the beginning again",
            ),
            ("on", "from millrace_rewind_point(), where it can"),
        ]),
        default: Default::Fixed("off"),
        line: "Whether requests begin where the boot of their application has ended: after each request a worker \
               puts its memory back.",
        reason: "Most of what an application does before it looks at its request is the same each time. It \
                 needs an application that calls millrace_rewind_point(), as WordPress does here by itself. \
                 A boot that opens a session, makes a random id, or writes anything is not shared: its \
                 requests start from the beginning, and `millrace status` says why. It disables opcache's \
                 JIT.",
        example: "\"on\"",
        elsewhere: &["zygote", "checkpoint", "snapshot"],
        ..BOTH
    },
    Setting {
        key: "php.rewind_except",
        kind: Kind::Words(Word::Code),
        default: Default::Unset("none but some of WordPress's own, and known texts of plugins"),
        line: "Functions of scripts that may call, in a boot that requests share (`rewind`), what is refused there.",
        reason: "What such a function draws, reads or writes is then the same for all visitors who share the \
                 boot, and is not done again for them. `millrace status` says \"no image: random_bytes() in \
                 X\", with the name to write here, and digits for `name@digits`, which holds only for this \
                 text of the function: only do so if the result is never shown and nothing that it does is \
                 missed.",
        example: "[\"Logger::__construct@0f5d3c2b19a84e76\"]",
        ..BOTH
    },
];
