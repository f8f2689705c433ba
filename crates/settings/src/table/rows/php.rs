//! `[php]`: how PHP runs. All of it may stand in a site's `[site.php]` too.

use std::time::Duration;

use super::{DAY, GB, H, MB, MS, ROW, S, count, count_or_zero, duration};
use crate::plan::PhpPool;
use crate::resolve::View;
use crate::table::{Default, Kind, Place, Setting, Word};
use crate::value::Value;

pub(super) static PHP: &[Setting] = &[
    Setting {
        key: "php.enabled",
        place: Place::Both,
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether PHP runs. Without it `.php` files are refused, never sent as text.",
        reason: "A site of static files needs no workers.",
        example: "false",
        elsewhere: &["php_admin_flag", "engine"],
        ..ROW
    },
    Setting {
        key: "php.program",
        place: Place::Both,
        kind: Kind::Path { word: None },
        default: Default::Unset("`millrace-php` beside the server's own program, then in PATH"),
        line: "The program that runs PHP.",
        reason: "One is built for each PHP version; a site can name its own.",
        example: "\"/usr/lib/millrace/8.3/millrace-php\"",
        elsewhere: &["php_binary"],
        ..ROW
    },
    Setting {
        key: "php.workers",
        place: Place::Both,
        kind: count(1, 10_000),
        default: Default::Computed {
            says: "found by measuring: as many as have room in 75% of the memory that others leave, by what a worker has of \
                   its own, at most 8 a core or 16; until that is known 4 a core",
            from: workers,
        },
        line: "Most PHP workers at once: requests that run PHP at the same time.",
        reason: "Workers are forked when requests wait, and end when they are idle; this bounds them, for a machine that \
                 swaps is down. PHP waits for the database about as long as it works, so a few a core keep the cores busy. The \
                 log and `millrace status` say how the number was found.",
        example: "17",
        elsewhere: &["max_children", "pm.max_children", "num_threads", "max_threads", "maxrequestworkers"],
        ..ROW
    },
    Setting {
        key: "php.workers_start",
        place: Place::Both,
        kind: count(0, 10_000),
        default: Default::Computed {
            says: "one a core, at most php.workers",
            from: |view| Value::Number((view.environment().cores as u64).min(view.number("php.workers"))),
        },
        line: "Workers started with the server.",
        reason: "A further one is forked when it is needed, which takes milliseconds: PHP itself has started already.",
        example: "1",
        elsewhere: &["start_servers", "pm.start_servers"],
        ..ROW
    },
    Setting {
        key: "php.workers_spare",
        place: Place::Both,
        kind: count(0, 10_000),
        default: Default::Computed {
            says: "as php.workers_start",
            from: |view| Value::Number(view.number("php.workers_start").min(view.number("php.workers"))),
        },
        line: "Idle workers that are kept however long they are idle.",
        reason: "The first visitor after a quiet hour finds a worker ready.",
        example: "0",
        elsewhere: &[
            "min_spare_servers",
            "pm.min_spare_servers",
            "max_spare_servers",
            "pm.max_spare_servers",
        ],
        ..ROW
    },
    Setting {
        key: "php.idle_timeout",
        place: Place::Both,
        kind: duration(S, DAY),
        default: Default::Fixed("60s"),
        line: "A worker idle for longer than this ends, if more than `workers_spare` are idle.",
        reason: "Gives memory back after a crowd, without forking and ending workers all the time.",
        example: "\"10s\"",
        elsewhere: &["process_idle_timeout", "pm.process_idle_timeout"],
        ..ROW
    },
    Setting {
        key: "php.max_requests",
        place: Place::Both,
        kind: count_or_zero("never", 1, u64::MAX >> 1),
        default: Default::Fixed("10000"),
        line: "Requests after which a worker is replaced.",
        reason: "Extensions leak; a fork every ten thousand requests costs nothing that can be measured.",
        example: "500",
        elsewhere: &["pm.max_requests", "max_requests_per_child", "maxconnectionsperchild"],
        ..ROW
    },
    Setting {
        key: "php.worker_memory",
        place: Place::Both,
        kind: Kind::Size { min: 16 * MB, max: 1024 * GB, zero: Some("no bound") },
        default: Default::Unset("twice a worker's part of the memory that all may use, at least 256MB"),
        line: "A worker that has more memory of its own - not shared with others - is replaced after its request.",
        reason: "What a script has needed once, and what extensions leak, a process keeps. PHP's memory_limit bounds a request, \
                 and this what is left after it.",
        example: "\"200MB\"",
        elsewhere: &["max_memory", "worker_max_memory", "rlimit_as"],
        ..ROW
    },
    Setting {
        key: "php.worker_script",
        place: Place::Both,
        kind: Kind::UrlPath { word: "off" },
        default: Default::Unset("off: every request starts its script anew"),
        line: "Script below the root, or elsewhere by its absolute path, that is started once a worker and serves requests by \
               millrace_handle_request(). What the front controller would answer goes to these workers.",
        reason: "An application that is written for it spares its boot in every request. Workers of other scripts are as ever.",
        example: "\"/worker.php\"",
        elsewhere: &["worker", "frankenphp_worker", "pool.command", "octane"],
        ..ROW
    },
    Setting {
        key: "php.worker_requests",
        place: Place::Both,
        kind: count_or_zero("never", 1, u64::MAX >> 1),
        default: Default::Fixed("1000"),
        line: "Requests after which a worker of `worker_script` is replaced by one that boots it anew.",
        reason: "What the application keeps in memory between requests may grow; a boot every thousand requests is hardly seen.",
        example: "500",
        elsewhere: &["max_loops", "loop_max", "frankenphp_loop_max", "max_jobs"],
        ..ROW
    },
    Setting {
        key: "php.request_timeout",
        place: Place::Both,
        kind: Kind::Duration { min: 100 * MS, max: 7 * DAY, zero: Some("none") },
        default: Default::Fixed("5m"),
        line: "Wall-clock time of one request. Beyond it the script is ended and the client gets 504.",
        reason: "PHP's own max_execution_time doesn't count waiting: a hung database or remote service would hold a \
                 worker for ever. Imports and updates get by with five minutes. When four fifths of it have passed the log \
                 says where the script is.",
        example: "\"30s\"",
        elsewhere: &["request_terminate_timeout", "proxy_read_timeout"],
        ..ROW
    },
    Setting {
        key: "php.terminate_grace",
        place: Place::Both,
        kind: Kind::Duration { min: 10 * MS, max: H, zero: Some("killed at once") },
        default: Default::Fixed("5s"),
        line: "How long a script whose time is up may take for its shutdown functions before its worker is killed.",
        reason: "It is ended as by max_execution_time: locks are given back, error pages are shown. What doesn't end by \
                 that, or can't, has had its time.",
        example: "\"1s\"",
        elsewhere: &["process_control_timeout"],
        ..ROW
    },
    Setting {
        key: "php.slow_log",
        place: Place::Both,
        kind: Kind::Duration { min: 10 * MS, max: 7 * DAY, zero: Some("only before a time-out") },
        default: Default::Fixed("0"),
        line: "A request that takes longer than this is noted in the error log, with PHP's backtrace and what it waits for.",
        reason: "Without stopping the script; a request near its time-out is noted in any case.",
        example: "\"5s\"",
        elsewhere: &["request_slowlog_timeout", "slowlog"],
        ..ROW
    },
    Setting {
        key: "php.crash_pause",
        place: Place::Both,
        kind: Kind::Duration { min: S, max: DAY, zero: Some("never") },
        default: Default::Fixed("1m"),
        line: "A request that has killed two workers is answered 500, without being run, for that long; others of its \
               page run, a few at a time.",
        reason: "A crash costs its worker, and others wait while it is replaced. Each time the request crashes again when it \
                 is tried after that, its pause doubles, up to sixteen times. One input that crashes never takes its page \
                 away from others.",
        example: "\"10m\"",
        elsewhere: &["emergency_restart_threshold", "emergency_restart_interval"],
        ..ROW
    },
    Setting {
        key: "php.queue",
        place: Place::Both,
        kind: count(0, 1_000_000),
        default: Default::Fixed("1000"),
        line: "Requests that may wait for a worker. Beyond: 503 at once.",
        reason: "In a crowd a quick refusal is better than an answer after everybody has left.",
        example: "100",
        elsewhere: &["listen.backlog"],
        ..ROW
    },
    Setting {
        key: "php.queue_timeout",
        place: Place::Both,
        kind: duration(100 * MS, H),
        default: Default::Fixed("30s"),
        line: "How long a request may wait for a worker. Beyond: 503.",
        reason: "Visitors give up before; answering them then is work for nobody.",
        example: "\"5s\"",
        elsewhere: &["max_wait_time"],
        ..ROW
    },
    Setting {
        key: "php.queue_wait",
        place: Place::Both,
        kind: Kind::Duration { min: 10 * MS, max: H, zero: Some("as long as `queue_timeout`") },
        default: Default::Fixed("2s"),
        line: "How long a request may wait for a worker. A request that can get one within that time waits, in order of arrival; any \
               other is refused at once: 503.",
        reason: "People wait two seconds for a page and are glad to have it; a request that would wait longer is better off in the waiting \
                 room (`php.waiting_room`) than in a queue that only grows. The wait is estimated from how fast requests are \
                 served. Visitors who are logged in or have a cart, and steps on the way to an order, go first and wait up to five times as long.",
        example: "\"3s\"",
        elsewhere: &["max_queue_wait", "queue_wait_timeout"],
        ..ROW
    },
    Setting {
        key: "php.adaptive",
        place: Place::Both,
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether fewer requests run at once while more of them would only make each slower.",
        reason: "Two cores run three or four pages best, sixteen only take turns; but sixteen pages that wait for a slow \
                 service may. The server sees which it is, never goes below one a core, and says it in `millrace status`.",
        example: "false",
        elsewhere: &["adaptive_concurrency"],
        ..ROW
    },
    Setting {
        key: "php.compress",
        place: Place::Both,
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether answers of PHP that the page cache does not keep are compressed on their way, for clients that can read it.",
        reason: "Text shrinks to about a quarter in less time than sending the rest would take. From `files.compress_from` on. Switch \
                 it off where pages show a secret beside what a stranger may put into them (BREACH), or scripts compress by \
                 themselves.",
        example: "false",
        elsewhere: &[
            "gzip_proxied",
            "gzip_types",
            "gzip_comp_level",
            "mod_deflate",
            "encode",
            "zlib.output_compression",
        ],
        ..ROW
    },
    Setting {
        key: "php.waiting_room",
        place: Place::Both,
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether a browser that asks for a page and cannot be served within `php.queue_wait` gets a place in the waiting room: a \
               page that says how long it takes and reloads by itself, and a cookie that keeps its place.",
        reason: "A visitor who sees that the line moves stays; one who sees an error reloads, which makes the crowd larger, or leaves. \
                 The browser that has waited longest goes first. Programs get the plain 503.",
        example: "false",
        elsewhere: &["queue_it"],
        ..ROW
    },
    Setting {
        key: "php.waiting_page",
        place: Place::Both,
        kind: Kind::Path { word: None },
        default: Default::Unset(
            "a page of the server's own, in English, German, French, Spanish, Portuguese or Japanese",
        ),
        line: "The page of the waiting room, in HTML. `{{wait_seconds}}`, `{{time}}`, `{{title}}`, `{{busy}}`, `{{what_to_do}}`, `{{language}}` and \
               `{{retry_seconds}}` are filled in.",
        reason: "A shop tells its customers in its own words and colours that their place is kept. The header field `Refresh` reloads it, \
                 whatever it says. Read at the start and at a reload.",
        example: "\"/etc/millrace-test/waiting.html\"",
        elsewhere: &["error_page"],
        ..ROW
    },
    Setting {
        key: "php.overload_page",
        place: Place::Both,
        kind: Kind::Path { word: None },
        default: Default::Unset("a short page of the server's own"),
        line: "The file, in HTML, that visitors get with a 503 when there is no PHP worker for them.",
        reason: "A shop tells its customers in its own words, and in their language, to come back in a moment. Read at the start and \
                 by a reload.",
        example: "\"overload.html\"",
        elsewhere: &["errordocument", "error_page"],
        ..ROW
    },
    Setting {
        key: "php.ini_file",
        place: Place::Both,
        kind: Kind::Path { word: None },
        default: Default::Unset("the distribution's php.ini and conf.d of the embed SAPI"),
        line: "The ini file PHP starts with instead of the distribution's; its `extension=` lines work.",
        reason: "As `php -c FILE`: one file says all, nothing else is read.",
        example: "\"php.ini\"",
        elsewhere: &["php_ini", "phprc", "php_ini_file", "phpinidir"],
        ..ROW
    },
    Setting {
        key: "php.ini",
        place: Place::Both,
        kind: Kind::Ini,
        default: Default::Unset(
            "PHP's ini files decide; but without `php.ini_file`, `post_max_size` and `upload_max_filesize` follow `body_bytes`",
        ),
        line: "ini values on top of every file, as `php -d` sets them: a table `[php.ini]`.",
        reason: "What a site needs stands with the site. `[site.php.ini]` is laid over `[php.ini]`, value by value.",
        example: "{ memory_limit = \"256M\", \"opcache.enable\" = true }",
        elsewhere: &["php_value", "php_admin_value", "php_flag", "php_server"],
        ..ROW
    },
    Setting {
        key: "php.env",
        place: Place::Both,
        kind: Kind::Environment,
        default: Default::Unset("scripts have USER and HOME only"),
        line: "Environment variables of scripts: a table `[php.env]`.",
        reason: "Applications in containers are configured so. As php-fpm's `env[...]`: in getenv(), $_SERVER and, if PHP fills that, $_ENV. \
                 Behind `php.fastcgi` they go along with each request. `[site.php.env]` is laid over `[php.env]`, value by value.",
        example: "{ WORDPRESS_DB_HOST = \"db\" }",
        elsewhere: &["fastcgi_param", "setenv", "php_env"],
        ..ROW
    },
    Setting {
        key: "php.env_pass",
        place: Place::Both,
        kind: Kind::Words(Word::Variable),
        default: Default::Unset("none"),
        line: "Variables of the server's own environment that scripts get, too.",
        reason: "None unless named: a server's environment often has secrets that are no business of a site.",
        example: "[\"WORDPRESS_*\"]",
        elsewhere: &["clear_env", "passenv"],
        ..ROW
    },
    Setting {
        key: "php.user",
        place: Place::Both,
        kind: Kind::Name,
        default: Default::Unset("the user that runs the server"),
        line: "User that PHP runs as. Only a server started as root can change it.",
        reason: "Sites of different users cannot read each other's files; a hole in one stays in one.",
        example: "\"www-data\"",
        elsewhere: &["username", "suexecusergroup", "listen.owner"],
        ..ROW
    },
    Setting {
        key: "php.group",
        place: Place::Both,
        kind: Kind::Name,
        default: Default::Unset("the first group of `php.user`"),
        line: "Group that PHP runs as.",
        reason: "For files that a group shares.",
        example: "\"www-data\"",
        elsewhere: &["listen.group"],
        ..ROW
    },
    Setting {
        key: "php.sandbox",
        place: Place::Both,
        kind: Kind::Choice(&[
            ("on", "no privileges, no files elsewhere, no system calls of administrators"),
            ("privileges", "no privileges"),
            ("off", "only what the user may not"),
        ]),
        default: Default::Fixed("on"),
        line: "What scripts, and programs that they start, are kept from besides what their user may not do.",
        reason: "A hole in a plugin should not open the machine. `on` is no_new_privs, Landlock (Linux 5.19) and seccomp: scripts use \
                 their sites' folders, `php.folders` and a temporary folder, and read the system's programs, libraries and /etc. \
                 Neither set-user-ID programs nor signals to others. It costs 0.1% of a page of WordPress.",
        example: "\"privileges\"",
        elsewhere: &["nonewprivileges", "protectsystem", "chroot", "suexec"],
        ..ROW
    },
    Setting {
        key: "php.folders",
        place: Place::Both,
        kind: Kind::Folders,
        default: Default::Unset("none"),
        line: "Folders that scripts may use besides the site's root: for `php.sandbox` and `php.open_basedir`.",
        reason: "Known already: folders of `site.sendfile_roots` and `site.internal`; the folder above the root if it has a \
                 composer.json, or - to read - WordPress' wp-config.php; those that PHP's ini values name for sessions and logs.",
        example: "[\"/srv/shared/media\"]",
        elsewhere: &["readwritepaths", "open_basedir_extra"],
        ..ROW
    },
    Setting {
        key: "php.open_basedir",
        place: Place::Both,
        kind: Kind::Choice(&[
            ("auto", "if the sandbox is on and the kernel cannot watch folders"),
            ("site", "always"),
            ("off", "never"),
        ]),
        default: Default::Fixed("auto"),
        line: "Whether PHP's open_basedir is set to the site's folders and the temporary one.",
        reason: "With open_basedir PHP looks at every part of every path anew: 12% more instructions for a page of WordPress. \
                 Landlock does the same in the kernel, for programs that scripts start, too, for less than 0.1%.",
        example: "\"site\"",
        elsewhere: &["php_admin_value[open_basedir]"],
        ..ROW
    },
    Setting {
        key: "php.disable_functions",
        place: Place::Both,
        kind: Kind::Words(Word::Function),
        default: Default::Unset("those of PHP's ini files"),
        line: "PHP functions that there are not, besides those that the ini files name.",
        reason: "Few sites need exec(), and most break-ins use it.",
        example: "[\"exec\", \"shell_exec\", \"system\", \"passthru\", \"proc_open\", \"popen\"]",
        elsewhere: &["php_admin_value[disable_functions]"],
        ..ROW
    },
    Setting {
        key: "php.temp_dir",
        place: Place::Both,
        kind: Kind::Path { word: Some("off") },
        default: Default::Fixed("/tmp"),
        line: "Folder where PHP's temporary folders are made, one for each set of workers; or `off` for PHP's own choice.",
        reason: "Uploads of one site are not where scripts of another look. It is closed to other users, is what sys_get_temp_dir() \
                 and TMPDIR say, and goes with its workers.",
        example: "\"/var/tmp\"",
        elsewhere: &["upload_tmp_dir", "sys_temp_dir", "privatetmp", "client_body_temp_path"],
        ..ROW
    },
    Setting {
        key: "php.keep_database_connections",
        place: Place::Both,
        kind: Kind::Switch,
        default: Default::Fixed("false"),
        line: "Whether workers keep their scripts' database connections for the next request; those of mysqli, which WordPress and most others use.",
        reason: "Over a Unix socket a connection costs 0.05 ms of CPU, and a kept one 0.03 ms, since it is reset after each request: \
                 nothing to a page of WordPress. To a database on another machine, or with TLS, a page saves some journeys there and \
                 back. PDO's connections can't be reset and are left alone.",
        example: "true",
        elsewhere: &["mysqli.allow_persistent", "pdo::attr_persistent"],
        ..ROW
    },
    Setting {
        key: "php.fastcgi",
        place: Place::Both,
        kind: Kind::Backends { word: "off" },
        default: Default::Unset("PHP runs in workers of Millrace's own"),
        line: "php-fpm runs PHP: one address or several, of which the least busy gets a request. In short: \
               `php = \"fastcgi:unix:/run/php/php8.2-fpm.sock\"`.",
        reason: "For a php-fpm that is there already, in another container or on another machine. Its workers cost \
                 more a request, and its own pool settings hold. At most `php.workers` connections are open to all of \
                 them together, each of which takes a process there (`pm.max_children`).",
        example: "[\"unix:/run/php/php8.2-fpm.sock\", \"127.0.0.1:9000\"]",
        elsewhere: &["fastcgi_pass", "php_fastcgi", "proxyfcgi", "upstream"],
        ..ROW
    },
    Setting {
        key: "php.fastcgi_root",
        place: Place::Both,
        kind: Kind::Path { word: None },
        default: Default::Unset("the site's root as Millrace sees it"),
        line: "The site's root as php-fpm sees it: what DOCUMENT_ROOT and SCRIPT_FILENAME begin with.",
        reason: "In a container, or under `chroot`, the same files have another path.",
        example: "\"/var/www/html\"",
        elsewhere: &["fastcgi_param"],
        ..ROW
    },
    Setting {
        key: "php.fastcgi_connect_timeout",
        place: Place::Both,
        kind: duration(10 * MS, 60 * S),
        default: Default::Fixed("1s"),
        line: "How long a connection to php-fpm may take to be made. Beyond: another is tried.",
        reason: "On one machine it takes microseconds, in one network milliseconds; what takes longer is down.",
        example: "\"250ms\"",
        elsewhere: &["connect_timeout"],
        ..ROW
    },
    Setting {
        key: "php.fastcgi_read_timeout",
        place: Place::Both,
        kind: Kind::Duration { min: 100 * MS, max: 7 * DAY, zero: Some("none") },
        default: Default::Fixed("0"),
        line: "Longest pause between two pieces of php-fpm's answer. Beyond: the connection is closed, 504.",
        reason: "`request_timeout` holds for the whole answer; this is for answers that may take for ever as long as \
                 something comes.",
        example: "\"60s\"",
        elsewhere: &["read_timeout", "proxy_timeout"],
        ..ROW
    },
];

/// The most that it can come to by measuring: 8 a core or 16, and no more than have room in 75 % of all memory with 16 MB
/// each.
fn workers(view: &View<'_>) -> Value {
    let environment = view.environment();
    let by_cores = (8 * environment.cores as u64).max(16);
    let by_memory = environment.memory / 4 * 3 / (16 * MB);
    Value::Number(by_cores.min(by_memory).clamp(1, 10_000))
}

pub(super) static POOL: &[Setting] = &[
    Setting {
        key: "php.pool.NAME.workers",
        place: Place::Both,
        kind: count(1, 10_000),
        default: Default::Unset(
            "`background` has an eighth of `php.workers`, or two, `front` what the others leave, at least half, the others a quarter",
        ),
        line: "Workers of its own: requests that run in it at the same time, without borrowing.",
        reason: "Where all of a site share their workers, whoever comes first takes them all: a crowd locks out those who \
                 could do something about it, and three reports in the back office stop the shop.",
        example: "3",
        elsewhere: &["max_children", "pm.max_children", "num_threads", "size"],
        ..ROW
    },
    Setting {
        key: "php.pool.NAME.keep",
        place: Place::Both,
        kind: count(0, 10_000),
        default: Default::Unset(
            "`front` keeps three quarters of its own, `background` none, the others all; but one worker is for all",
        ),
        line: "Of its own workers, those that no other pool may borrow, even when nothing runs in it.",
        reason: "So many requests find a worker at once whatever the others do. What is not kept is lent.",
        example: "1",
        elsewhere: &["min_spare_servers", "reserve", "guaranteed"],
        ..ROW
    },
    Setting {
        key: "php.pool.NAME.borrow",
        place: Place::Both,
        kind: count(0, 10_000),
        default: Default::Unset(
            "`front` and `admin` may borrow whatever the others do not keep, the others nothing",
        ),
        line: "Workers that it may borrow of other pools while those have no use for them.",
        reason: "A worker that is idle is no use to anybody; one that comes back a moment late is a small price.",
        example: "2",
        elsewhere: &["burst", "overflow", "max_overflow"],
        ..ROW
    },
    Setting {
        key: "php.pool.NAME.queue",
        place: Place::Both,
        kind: count(0, 1_000_000),
        default: Default::Computed {
            says: "php.queue",
            from: |view| Value::Number(view.number("php.queue")),
        },
        line: "Requests that may wait for a worker of it. Beyond: 503 at once.",
        reason: "A crowd in front of one pool takes no place of the others.",
        example: "100",
        elsewhere: &["listen.backlog", "backlog"],
        ..ROW
    },
    Setting {
        key: "php.pool.NAME.queue_timeout",
        place: Place::Both,
        kind: duration(100 * MS, H),
        default: Default::Computed {
            says: "php.queue_timeout",
            from: |view| Value::Duration(view.duration("php.queue_timeout")),
        },
        line: "How long a request may wait for a worker of it. Beyond: 503.",
        reason: "A webhook is sent again after a minute; a visitor is gone after seconds.",
        example: "\"5s\"",
        elsewhere: &["max_wait_time"],
        ..ROW
    },
    Setting {
        key: "php.pool.NAME.queue_wait",
        place: Place::Both,
        kind: Kind::Duration { min: 10 * MS, max: H, zero: Some("as long as `queue_timeout`") },
        default: Default::Computed {
            says: "php.queue_wait; 0 for `background`",
            from: |view| {
                let any = view.pool_name() == Some(PhpPool::BACKGROUND);
                Value::Duration(if any { Duration::ZERO } else { view.duration("php.queue_wait") })
            },
        },
        line: "How long a request may wait for a worker of it. A request that would wait longer is refused at once.",
        reason: "Nobody looks at what is done in the background: it may wait as long as it takes.",
        example: "\"3s\"",
        elsewhere: &["max_queue_wait"],
        ..ROW
    },
    Setting {
        key: "php.pool.NAME.request_timeout",
        place: Place::Both,
        kind: Kind::Duration { min: 100 * MS, max: 7 * DAY, zero: Some("none") },
        default: Default::Computed {
            says: "php.request_timeout",
            from: |view| Value::Duration(view.duration("php.request_timeout")),
        },
        line: "Wall-clock time of one request in it.",
        reason: "An import in the back office may take its five minutes; a page that takes one has no reader any more.",
        example: "\"30s\"",
        elsewhere: &["request_terminate_timeout", "fastcgi_read_timeout"],
        ..ROW
    },
    Setting {
        key: "php.pool.NAME.nice",
        place: Place::Both,
        kind: count(0, 19),
        default: Default::Computed {
            says: "0 for `admin` and where there is one pool only, 10 for `background`, 5 for the others",
            from: nice,
        },
        line: "How much its workers give way to others when the processor is short, beyond what the server itself does.",
        reason: "With more visitors than the machine can serve, those who work at the site still get their pages soon. A \
                 server without CAP_SYS_NICE has other workers for pools that give way less.",
        example: "15",
        elsewhere: &["process.priority", "worker_priority", "priority"],
        ..ROW
    },
    Setting {
        key: "php.pool.NAME.paths",
        place: Place::Both,
        kind: Kind::Words(Word::Path),
        default: Default::Unset("what the profile knows"),
        line: "Paths of requests that run in it, written as for `cache.bypass_paths`.",
        reason: "A request runs in the first pool of which it has a path, a cookie or an argument - and one of its methods, if \
                 it names any. What is written comes before what the profile knows; what fits none runs in `front`.",
        example: "[\"/api\", \"*/export\"]",
        elsewhere: &["location", "match", "path", "route"],
        ..ROW
    },
    Setting {
        key: "php.pool.NAME.methods",
        place: Place::Both,
        kind: Kind::Words(Word::Method),
        default: Default::Unset("any method"),
        line: "Methods of requests that run in it; with paths, cookies or arguments both have to fit.",
        reason: "What changes something and what reads can have workers of their own.",
        example: "[\"POST\", \"PUT\"]",
        elsewhere: &["limit_except", "method"],
        ..ROW
    },
    Setting {
        key: "php.pool.NAME.cookies",
        place: Place::Both,
        kind: Kind::Words(Word::Cookie),
        default: Default::Unset("what the profile knows"),
        line: "Cookies of requests that run in it: names, `*` at either end for anything.",
        reason: "For members of an application that Millrace does not know.",
        example: "[\"member_*\"]",
        elsewhere: &["cookie"],
        ..ROW
    },
    Setting {
        key: "php.pool.NAME.arguments",
        place: Place::Both,
        kind: Kind::Words(Word::ArgumentValue),
        default: Default::Unset("what the profile knows"),
        line: "Arguments of requests that run in it, in the query or in a form of up to 64KB: names, or names with a value.",
        reason: "Applications with one script for everything say by an argument what is to be done.",
        example: "[\"action=export\", \"sync_*\"]",
        elsewhere: &["args", "query"],
        ..ROW
    },
];

fn nice(view: &View<'_>) -> Value {
    Value::Number(match view.pool_name() {
        Some(PhpPool::ADMIN) => 0,
        Some(PhpPool::BACKGROUND) => 10,
        _ if view.pool_names().len() == 1 => 0,
        _ => 5,
    })
}
