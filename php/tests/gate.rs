//! The gate of rewound workers: which functions of PHP a boot may call whose memory serves other requests (`c/rewind/gate.c`).

mod driver;
#[path = "gate/lists.rs"]
#[allow(dead_code)]
mod lists;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use driver::{Answer, Ask, Host, Worker};

const INI: &str = "zend_extension=opcache\nopcache.file_update_protection=0\nvariables_order=EGPCS\nrequest_order=GP\n\
    memory_limit=256M\ndisplay_errors=0\nlog_errors=0\n";
/// Extensions that others need come first.
const FIRST: [&str; 5] = ["mysqlnd", "pdo", "xml", "dom", "opcache"];

/// The names of all functions, and of all methods of classes, which are in lower case as in the lists.
const TABLE: &str = r"<?php
    echo strtolower(implode(PHP_EOL, get_defined_functions()['internal'])), PHP_EOL;
    foreach (get_declared_classes() as $class) {
        $reflection = new ReflectionClass($class);
        foreach ($reflection->isInternal() ? $reflection->getMethods() : [] as $method) {
            if ($method->class === $reflection->name && !$method->isAbstract()) { echo strtolower($class . '::' . $method->name), PHP_EOL; }
        }
    }";

fn list(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/rewind/functions").join(name);
    std::fs::read_to_string(file).unwrap()
}

/// Lines that load all extensions of the PHP in use.
fn extensions() -> String {
    let mut host = Host::start("", &[]);
    let script = host.script("where.php", "<?php echo ini_get('extension_dir');");
    let folder = host.worker(0).run(&Ask::get(&script)).text();
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let all: BTreeSet<String> =
        files.filter_map(|name| name.to_str()?.strip_suffix(".so").map(str::to_owned)).collect();
    let first = FIRST.iter().copied().filter(|name| all.contains(*name) && *name != "opcache");
    let others = all.iter().map(String::as_str).filter(|name| !FIRST.contains(name));
    first.chain(others).map(|name| format!("extension={name}\n")).collect()
}

/// Each function and method of each extension has its place: pure, recorded, own or refused. One that has none is refused at run time.
/// Look at it: does it read a clock, random values, the visitor, the machine? Does it write, or talk to others?
#[test]
fn every_function_has_its_place() {
    let mut places: BTreeMap<String, &str> = BTreeMap::new();
    let recorded = lists::recorded(&list("recorded")).into_iter().map(|(_, name, _)| ("recorded", name));
    let others = ["pure", "own", "refused"]
        .map(|place| lists::names(&list(place)).into_iter().map(move |name| (place, name)));
    for (place, name) in recorded.chain(others.into_iter().flatten()) {
        let other = places.insert(name.clone(), place);
        assert_eq!(other, None, "{name} is {place}, too");
    }
    let starts: Vec<&str> = places.keys().filter_map(|name| name.strip_suffix('*')).collect();
    let mut host = Host::start(&format!("{INI}{}ffi.enable=1\n", extensions()), &["--rewind"]);
    let script = host.script("table.php", TABLE);
    let text = host.worker(0).run(&Ask::get(&script)).text();
    let table: Vec<&str> = text.lines().collect();
    assert!(table.len() > 2_000, "{} functions", table.len());
    let placeless: Vec<_> = table
        .iter()
        .filter(|name| !places.contains_key(**name) && !starts.iter().any(|start| name.starts_with(start)))
        .collect();
    assert!(placeless.is_empty(), "in none of the lists: {placeless:?}");
    let pure = table.iter().filter(|name| places.get(**name) == Some(&"pure")).count();
    println!("{} functions, {pure} pure", table.len());
}

/// A script whose boot is `boot`; what it has made is in `$made`.
fn site(boot: &str) -> String {
    format!(
        "<?php
        function time_of_boot() {{ return hrtime(true); }}
        $made = null;
        {boot}
        $boot = time_of_boot();
        $rewound = function_exists('millrace_rewind_point') && millrace_rewind_point();
        header('X-Boot: ' . $boot);
        header('X-Rewound: ' . (int) $rewound);
        echo is_scalar($made) || is_array($made) ? json_encode($made, JSON_PARTIAL_OUTPUT_ON_ERROR) : gettype($made);"
    )
}

/// A rewound worker for many scripts, and an ordinary one.
struct Stage {
    rewound: Worker,
    ordinary: Worker,
    host: Host,
    _other: Host,
}

impl Stage {
    fn new() -> Stage {
        let ini = format!("{INI}{}session.save_path=/tmp\nallow_url_include=1\n", extensions());
        let mut host = Host::start(&ini, &["--rewind", "--rewind-except", "time_of_boot"]);
        let mut other = Host::start(&ini, &[]);
        std::fs::write(host.root.join("read"), "content").unwrap();
        Stage { rewound: host.worker(0), ordinary: other.worker(0), host, _other: other }
    }

    /// Two visitors that differ in all that a script can read of a request.
    fn visitors(&self, script: &Path) -> [Ask; 2] {
        ["1", "2"].map(|who| {
            Ask::get(script)
                .set("QUERY_STRING", &format!("name={who}&a={who}"))
                .set("HTTP_COOKIE", &format!("name={who}; b={who}"))
                .set("HTTP_NAME", who)
                .set("HTTP_USER_AGENT", who)
                .set("HTTP_ACCEPT", &format!("text/{who}"))
                .set("REMOTE_ADDR", &format!("192.0.2.{who}"))
                .set("HTTP_AUTHORIZATION", &format!("Bearer {who}"))
        })
    }

    /// What is wrong with a boot, or `None`; and whether requests have shared it. Some requests are sent until an image has served some.
    fn share(&mut self, name: &str, boot: &str) -> (Vec<Answer>, BTreeMap<String, u32>) {
        let script = self.host.script(name, &site(boot));
        let [one, other] = self.visitors(&script);
        let mut answers = Vec::new();
        let mut boots: BTreeMap<String, u32> = BTreeMap::new();
        for n in 0..14 {
            let ask = if n % 7 < 5 { &one } else { &other };
            let answer = self.rewound.run(ask);
            *boots.entry(answer.values("X-Boot").concat()).or_default() += 1;
            answers.push(answer);
        }
        (answers, boots)
    }
}

fn is_rewound(answer: &Answer) -> bool {
    answer.values("X-Rewound") == ["1"]
}

/// Boots that give one visitor what is another's, or that do once what each request has to do: none of them has an image, and the log says why.
#[test]
fn what_no_boot_may_do() {
    let boots: &[(&str, &str)] = &[
        // Sessions.
        ("session_start(['read_and_close' => true]); $made = $_SESSION;", "session_start()"),
        ("session_start(); session_write_close(); $made = session_id();", "session_start()"),
        ("session_id('abc'); @session_start(['use_cookies' => 0, 'read_and_close' => 1]);", "session_start()"),
        // Ids made of the time, and of what no two requests have.
        ("$made = md5(microtime());", "microtime()"),
        ("$made = hrtime(true);", "hrtime()"),
        ("$made = gettimeofday()['usec'];", "gettimeofday()"),
        ("$made = $_SERVER['REQUEST_TIME_FLOAT'];", "REQUEST_TIME_FLOAT"),
        ("$made = filter_input(INPUT_SERVER, 'REQUEST_TIME_FLOAT');", "REQUEST_TIME_FLOAT"),
        ("$made = getrusage()['ru_utime.tv_usec'];", "getrusage()"),
        ("$made = (new IntlGregorianCalendar)->getTime();", "IntlGregorianCalendar::__construct()"),
        ("$made = IntlCalendar::getNow();", "IntlCalendar::getNow()"),
        ("$made = unserialize('O:8:\"DateTime\":3:{s:4:\"date\";s:3:\"now\";s:13:\"timezone_type\";i:3;s:8:\"timezone\";s:3:\"UTC\";}')->format('u');", "DateTime::__unserialize()"),
        ("$made = bin2hex(file_get_contents('/dev/urandom', false, null, 0, 8));", "a device"),
        // Cookies, and all that a visitor has sent.
        ("setcookie('basket', '1');", "setcookie()"),
        ("header('Set-Cookie: basket=1');", "header()"),
        ("header(\" set-cookie: basket=1\");", "header()"),
        ("$made = compact('_COOKIE');", "compact()"),
        ("$made = get_defined_vars()['_GET'];", "get_defined_vars()"),
        ("$made = getallheaders();", "getallheaders()"),
        ("$made = getenv();", "getenv()"),
        ("$made = filter_input_array(INPUT_COOKIE);", "filter_input_array()"),
        ("ob_start(); phpinfo(INFO_VARIABLES); $made = ob_get_clean();", "phpinfo()"),
        ("$made = count($_SERVER) . $_SERVER['HTTP_NAME']; foreach ($_SERVER as $name => $value) {}", "reads all of $_SERVER"),
        // What is done once and then skipped.
        ("file_put_contents(__DIR__ . '/log', 'x', FILE_APPEND);", "file_put_contents()"),
        ("fclose(fopen(__DIR__ . '/log', 'a'));", "writes a file"),
        ("fopen(__DIR__ . '/read', 'r+');", "writes a file"),
        ("(new SplFileObject(__DIR__ . '/log', 'a'))->fwrite('x');", "SplFileObject::__construct()"),
        ("(new DOMDocument)->save(__DIR__ . '/log');", "writes a file"),
        ("error_log('x', 3, __DIR__ . '/log');", "error_log()"),
        ("touch(__DIR__ . '/log');", "touch()"),
        ("$file = fopen(__DIR__ . '/read', 'r'); flock($file, LOCK_EX);", "flock()"),
        ("syslog(LOG_DEBUG, 'x');", "syslog()"),
        ("`true`;", "shell_exec()"),
        // Others are talked to.
        ("@file_get_contents('http://127.0.0.1:1/');", "opens http://"),
        ("@fopen('https://127.0.0.1:1/', 'r');", "opens https://"),
        ("@copy('http://127.0.0.1:1/', __DIR__ . '/log');", "copy()"),
        ("@get_headers('http://127.0.0.1:1/');", "get_headers()"),
        ("@simplexml_load_file('http://127.0.0.1:1/');", "opens http://"),
        ("@(new DOMDocument)->load('ftp://127.0.0.1:1/x');", "opens ftp://"),
        ("@include 'http://127.0.0.1:1/';", "opens http://"),
        ("@getimagesize('http://127.0.0.1:1/');", "opens http://"),
        ("(new ZipArchive)->open(__DIR__ . '/zip', ZipArchive::CREATE);", "ZipArchive::open()"),
        ("file_exists('phar://' . __DIR__ . '/a.phar/x');", "opens phar://"),
        ("@stream_socket_client('udp://127.0.0.1:9');", "stream_socket_client()"),
        ("@fsockopen('127.0.0.1', 1);", "fsockopen()"),
        ("curl_init('http://127.0.0.1:1/');", "curl_init()"),
        ("gethostbyname('localhost');", "gethostbyname()"),
        ("fopen('php://stderr', 'w');", "opens a descriptor"),
        ("fopen('php://filter/resource=http://127.0.0.1:1/', 'r');", "opens http://"),
        ("try { new PDO('mysql:host=127.0.0.1;port=1'); } catch (PDOException) {}", "PDO::__construct()"),
        ("$db = new PDO('sqlite::memory:'); $db->exec('CREATE TABLE t (a)');", "PDO::exec()"),
        // The same in other ways.
        ("$made = array_map('mt_rand', [1], [1 << 30]);", "mt_rand()"),
        ("$made = call_user_func_array('random_int', [1, 1 << 30]);", "random_int()"),
        ("$random = random_bytes(...); $made = bin2hex($random(8));", "random_bytes()"),
        ("$made = Closure::fromCallable('uniqid')();", "uniqid()"),
        ("$made = (new ReflectionFunction('lcg_value'))->invoke();", "lcg_value()"),
        ("$made = (new ReflectionClass('Random\\Randomizer'))->newInstance()->getInt(1, 1 << 30);", "Random\\Randomizer::__construct()"),
        ("$made = (new ReflectionClass('Random\\Engine\\Secure'))->newInstance()->generate();", "Random\\Engine\\Secure::generate()"),
        ("$list = [1, 2, 3]; shuffle($list); $made = $list;", "shuffle()"),
        ("ob_start('uniqid'); echo 'x'; $made = ob_get_clean();", "uniqid()"),
        ("class D { public $d; function __destruct() { file_put_contents(__DIR__ . '/log', 'x'); } } $d = new D; $d->d = $d; unset($d);", "file_put_contents()"),
        // What is there at the point.
        ("$made = new Random\\Engine\\Secure;", "an object of the class Random\\Engine\\Secure"),
        ("$made = new class extends XMLReader {};", "an object of the class XMLReader"),
        ("$made = (new ReflectionClass('SplFileObject'))->newInstanceWithoutConstructor();", "an object of the class SplFileObject"),
        ("$_SESSION = ['name' => 1];", "there is a session"),
        ("$made = opendir(__DIR__);", "a stream is open: dir"),
        ("class W { public $context; function stream_open() { return true; } function stream_stat() { return []; } }
            stream_wrapper_register('own', 'W'); $file = fopen('own://x', 'r');", "a stream is open: user-space"),
    ];
    let mut stage = Stage::new();
    let mut wrong = Vec::new();
    for (n, (boot, why)) in boots.iter().enumerate() {
        // The classes of random numbers are there from PHP 8.2 on.
        let (answers, _) = stage.share(&format!("no-{n}.php"), boot);
        let log: Vec<&String> =
            answers.iter().flat_map(|answer| &answer.log).filter(|line| line.contains("no image")).collect();
        if answers.iter().any(is_rewound) || log.is_empty() || !log.iter().all(|line| line.contains(why)) {
            let rewound = answers.iter().filter(|answer| is_rewound(answer)).count();
            wrong.push(format!("{boot}: {rewound} rewound, {log:?}, {:?}", answers[0].text()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Boots that read what is compared, or what is the same for all: their requests share an image, and each visitor sees what he would see without one.
#[test]
fn what_a_boot_may_do() {
    let boots: &[(&str, &str)] = &[
        ("$made = (new DateTime)->format('u');", "\"000000\""),
        ("$made = date_create('tomorrow noon')->format('H:i:s.u');", "\"12:00:00.000000\""),
        (
            "$made = DateTime::createFromFormat('Y-m-d', '2026-01-02')->format('Y-m-d u');",
            "\"2026-01-02 000000\"",
        ),
        ("$made = (new DateTimeImmutable('2026-01-02 03:04:05.678'))->format('u');", "\"678000\""),
        ("$made = date('Y-m-d', 86400) . strtotime('2026-01-02 UTC');", "\"1970-01-021767312000\""),
        ("$made = time() - $_SERVER['REQUEST_TIME'] < 2;", "true"),
        (
            "$made = is_file(__DIR__ . '/read') . file_get_contents(__DIR__ . '/read') . filesize(__DIR__ . '/read');",
            "\"1content7\"",
        ),
        ("$made = (new SplFileInfo(__DIR__ . '/read'))->getSize();", "7"),
        (
            "$made = file_get_contents('data:,text') . stream_get_contents(fopen('php://memory', 'r'));",
            "\"text\"",
        ),
        ("$made = (function () { $a = 1; return compact('a'); })();", "{\"a\":1}"),
        ("header('X-Kind: 1'); $made = headers_list()[1] ?? 0;", "\"X-Kind: 1\""),
        ("$made = getenv('HTTP_NONE');", "false"),
        ("$made = filter_input(INPUT_COOKIE, 'none');", "null"),
        ("$made = session_status();", "1"),
        ("$made = json_encode(simplexml_load_string('<a><b>1</b></a>'));", "\"{\\\"b\\\":\\\"1\\\"}\""),
    ];
    let mut stage = Stage::new();
    let mut wrong = Vec::new();
    for (n, (boot, made)) in boots.iter().enumerate() {
        let (answers, boots) = stage.share(&format!("may-{n}.php"), boot);
        let good = answers
            .iter()
            .filter(|answer| is_rewound(answer))
            .all(|answer| answer.text() == *made || (*made == "null" && answer.text() == "NULL"));
        if !good || !answers.iter().any(is_rewound) {
            wrong.push(format!(
                "{boot}: {boots:?} {:?} {:?}",
                answers[0].text(),
                answers.iter().flat_map(|answer| &answer.log).collect::<Vec<_>>()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The texts in `php.rewind_except` and in `functions/known` are those that were read: what only looks otherwise is the same, all else is not.
#[test]
fn exceptions_hold_for_known_texts() {
    const TEXT: &str = "function make($n) { return $n . md5(uniqid() . 'a  b'); }";
    let same = [
        TEXT,
        "function make( $n )\n{\n\t// it's a comment\n\treturn $n . md5( uniqid() . 'a  b' ); # \"another\n}",
        "/** Of it. */\r\nfunction make($n) { /* return 1; */ return $n . md5(uniqid()\r\n\t. 'a  b'); } // its end",
    ];
    let other = [
        "function make($n) { return $n . md5(uniqid() . 'a b'); }",
        "function make($n) { return $n . md5(uniqid() . \"a  b\"); }",
        "function make($n) { return $n . md5(uniqid() . 'a  b//'); }",
        "function make($n) { return $n . md5(uniqid() . uniqid() . 'a  b'); }",
        "function make($n) { return $n . uniqid() . md5('a  b'); }",
        "function make($n) { return $n . md5(uniqid() . 'a  b'); } function more() {}",
        "function make($n) { return $n . md5(uniqid() . <<<A\na  b\nA); }",
        "function make($n) { $a = ['//' => 1]; return \"{$a['//']}\" . md5(uniqid() . 'a  b'); }",
        "function make($n) { ?><?php return $n . md5(uniqid() . 'a  b'); }",
        "function make($n) { // it\rreturn uniqid() . uniqid();\n return $n . md5(uniqid() . 'a  b'); }",
        "eval('function make($n) { return $n . md5(uniqid() . \"a  b\"); }');",
    ];
    let ini = format!("{INI}opcache.revalidate_freq=0\n");
    let texts = |some: &[&str]| some.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let write = |host: &Host, name: &str, texts: Vec<String>| -> Vec<PathBuf> {
        let one = |(n, text)| {
            host.script(&format!("{name}-{n}.php"), &site(&format!("{text}\n$made = strlen(make(1));")))
        };
        texts.iter().enumerate().map(one).collect()
    };
    let mut plain = Host::start(&ini, &["--rewind", "--rewind-except", "time_of_boot"]);
    let scripts = write(&plain, "text", texts(&[TEXT, other[6], other[7], other[8], other[10]]));
    await_old(&scripts);
    let mut worker = plain.worker(0);
    let refusals: Vec<String> = scripts.iter().map(|script| refusal(&mut worker, script)).collect();
    let digits =
        refusals[0].split_once("with @").expect(&refusals[0]).1.split(' ').next().unwrap().to_owned();
    assert_eq!(digits.len(), 16, "{refusals:?}");
    assert!(refusals[1..].iter().all(|line| !line.contains('@')), "{refusals:?}");

    let excepted = format!("time_of_boot,make@{digits}");
    let mut host = Host::start(&ini, &["--rewind", "--rewind-except", &excepted]);
    let (good, bad) = (write(&host, "same", texts(&same)), write(&host, "other", texts(&other)));
    await_old(&bad);
    let mut worker = host.worker(0);
    for script in good {
        let rewound = (0..20).any(|_| is_rewound(&worker.run(&Ask::get(&script))));
        assert!(rewound, "no image: {}", std::fs::read_to_string(script).unwrap());
    }
    for script in bad {
        let text = std::fs::read_to_string(&script).unwrap();
        assert!(refusal(&mut worker, &script).contains("calls uniqid() in make"), "{text}");
        assert!((0..6).all(|_| !is_rewound(&worker.run(&Ask::get(&script)))), "an image: {text}");
    }
}

/// If WordPress's own function acts for a plugin, the refusal names the plugin, and advises no exception: that would hold for all callers.
#[test]
fn who_calls_wordpress_is_named() {
    let mut host = Host::start(INI, &["--rewind", "--rewind-except", "time_of_boot"]);
    host.script("wp-includes/class-wpdb.php", "<?php class wpdb { function query() { return uniqid(); } }");
    host.script("wp-content/plugins/a/a.php", "<?php function a_boots() { return (new wpdb)->query(); }");
    let script = host.script(
        "index.php",
        &site("require 'wp-includes/class-wpdb.php'; require 'wp-content/plugins/a/a.php'; $made = strlen(a_boots());"),
    );
    let why = refusal(&mut host.worker(0), &script);
    assert!(why.contains("calls uniqid() in wpdb::query, ") && !why.contains("rewind_except"), "{why}");
    assert!(why.contains(" (for a_boots, ") && why.contains("/plugins/a/a.php:1)"), "{why}");
}

/// Until the files are so old that what PHP has compiled is certainly what they have.
fn await_old(files: &[PathBuf]) {
    let is_young = |file: &PathBuf| {
        file.metadata().unwrap().modified().unwrap().elapsed().is_ok_and(|age| age.as_secs() < 4)
    };
    while files.iter().any(is_young) {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// What the log says when the boot of a script is refused: each request is of another kind.
fn refusal(worker: &mut Worker, script: &Path) -> String {
    let ask = |n: u32| Ask::get(script).set("QUERY_STRING", &format!("n{n}=1"));
    let mut lines = (0..20).flat_map(|n| worker.run(&ask(n)).log);
    lines.find(|line| line.contains("no image")).unwrap_or_default()
}

/// What WordPress's functions may do, a function of that name in a plugin's folder may not.
#[test]
fn exceptions_of_wordpress_are_its_own() {
    let functions = [
        ("wp-includes/load.php", "function timer_start() { return microtime(true); } timer_start();"),
        (
            "wp-admin/includes/file.php",
            "function get_filesystem_method() { fclose(fopen($f = __DIR__ . '/' . uniqid(), 'w')); unlink($f); } get_filesystem_method();",
        ),
    ];
    let mut host = Host::start(INI, &["--rewind", "--rewind-except", "time_of_boot"]);
    let mut worker = host.worker(0);
    for (n, (file, code)) in functions.iter().enumerate() {
        for (folder, is_good) in [("", true), ("wp-content/plugins/x/", false)] {
            host.script(&format!("{folder}{file}"), &format!("<?php {code}"));
            let boot = format!("define('ABSPATH', __DIR__ . '/'); require __DIR__ . '/{folder}{file}';");
            let script = host.script(&format!("core-{n}-{is_good}.php"), &site(&boot));
            let answers: Vec<Answer> = (0..12).map(|_| worker.run(&Ask::get(&script))).collect();
            assert_eq!(answers.iter().any(is_rewound), is_good, "{folder}{file}: {:?}", answers[3].log);
        }
    }
}

/// Each text of a plugin's function has a digest, and calls what is refused otherwise.
#[test]
fn known_texts_are_well_formed() {
    let recorded = lists::recorded(&list("recorded"));
    let pure = lists::names(&list("pure"));
    for one in lists::known(&list("known")) {
        assert!(
            one.digest.len() == 64 && one.digest.bytes().all(|digit| b"0123456789abcdef".contains(&digit)),
            "{}",
            one.name
        );
        assert!(!one.name.is_empty() && !one.calls.is_empty(), "{}: {}", one.name, one.digest);
        let is_open = pure.contains(&one.calls) || recorded.iter().any(|(_, name, _)| *name == one.calls);
        assert!(!is_open, "{} may call {} anyway", one.name, one.calls);
    }
}

/// What differs from process to process, or from run to run of one process, and says nothing of a visitor or of the time.
const OF_PROCESS: [&str; 12] = [
    "getmypid",
    "posix_getpid",
    "memory_get_usage",
    "memory_get_peak_usage",
    "memory_reset_peak_usage",
    "realpath_cache_size",
    "realpath_cache_get",
    "spl_object_id",
    "spl_object_hash",
    "get_included_files",
    "get_required_files",
    "SplObjectStorage::getHash",
];

/// Functions taken at random from the function table, with arguments made by reflection, called in a random way: what a request that shares
/// a boot shows its visitor is what an ordinary one shows him; and what two ordinary requests show each in its own way is not shared.
/// GATE_CALLS and GATE_SEED: other numbers.
#[test]
fn boots_with_any_function() {
    let number =
        |name: &str, otherwise: u32| std::env::var(name).map_or(otherwise, |text| text.parse().unwrap());
    let (count, seed) = (number("GATE_CALLS", 400), number("GATE_SEED", 1));
    let mut stage = Stage::new();
    let generator = stage.host.script("calls.php", include_str!("gate/calls.php"));
    let calls =
        stage.ordinary.run(&Ask::get(&generator).set("QUERY_STRING", &format!("COUNT={count}&SEED={seed}")));
    let calls = calls.text();
    assert_eq!(calls.lines().count() as u32, count, "{calls}");
    let (mut wrong, mut shared, mut refused) = (Vec::new(), 0, 0);
    for (n, line) in calls.lines().enumerate() {
        let (name, code) = line.split_once('\t').unwrap();
        let boot = format!(
            "try {{ $made = {code}; }} catch (Throwable $e) {{ $made = get_class($e) . $e->getMessage(); }}"
        );
        let (answers, boots) = stage.share(&format!("call-{n}.php"), &boot);
        let is_shared = boots.len() < answers.len();
        shared += u32::from(is_shared);
        refused +=
            u32::from(answers.iter().flat_map(|answer| &answer.log).any(|line| line.contains("no image")));
        if is_shared && !OF_PROCESS.contains(&name) {
            wrong.extend(
                differs(&mut stage, &format!("call-{n}.php"), &answers)
                    .map(|why| format!("{name}: {code}: {why}")),
            );
        }
    }
    println!("{count} calls: {shared} shared, {refused} refused");
    assert!(shared > count / 5, "{shared} of {count} boots were shared");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with the answers of requests that shared a boot, or `None`. The clock may have ticked between a request and another one.
fn differs(stage: &mut Stage, script: &str, answers: &[Answer]) -> Option<String> {
    let visitors = stage.visitors(&stage.host.root.join(script));
    let mut run = || [0, 1, 0].map(|who: usize| stage.ordinary.run(&visitors[who]).text());
    let expected: Vec<[String; 3]> = (0..3).map(|_| run()).collect();
    if expected.iter().all(|[first, _, again]| first != again) {
        return Some(format!("it is never the same, as in {:?}, but shared", expected[0]));
    }
    let is_clock = expected.windows(2).any(|runs| runs[0] != runs[1]) || expected[0][0] != answers[0].text();
    let rewound = answers.iter().enumerate().filter(|(_, answer)| is_rewound(answer));
    rewound
        .filter_map(|(n, answer)| {
            let expected = &expected[0][usize::from(n % 7 >= 5)];
            (answer.text() != *expected && !is_clock)
                .then(|| format!("{:?} instead of {expected:?}", answer.text()))
        })
        .next()
}
