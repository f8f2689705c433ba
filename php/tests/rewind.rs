//! Rewound workers: a script boots once, and each request begins at the point behind the boot. Each test sends the code that
//! runs after the point.

mod driver;
#[path = "rewind/leaks.rs"]
mod leaks;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use driver::{Answer, Ask, Host, PATIENCE, Worker};
use millrace_wire::frames;
use rustix::process::{Pid, Signal, kill_process};

const INI: &str =
    "zend_extension=opcache\nopcache.file_update_protection=0\nvariables_order=GPCS\nrequest_order=GP\n";

/// What a site's front controller is: a boot, the point, a request. The boot leaves the time when it was, which only an exception allows.
const SITE: &str = "<?php
    class Counter { public static $of_class = 0; public $list = []; }
    function counted() { static $calls = 0; return ++$calls; }
    function time_of_boot() { return hrtime(true); }
    $counter = new Counter;
    $boot = time_of_boot();
    $rewound = millrace_rewind_point();
    header('X-Boot: ' . $boot);
    header('X-Rewound: ' . (int) $rewound);
    eval($_SERVER['X_CODE']);";

/// A worker, and what it needs.
struct Stage {
    worker: Worker,
    host: Host,
    script: PathBuf,
}

impl Stage {
    fn new() -> Stage {
        Stage::with("", SITE)
    }

    fn with(ini: &str, site: &str) -> Stage {
        Stage::with_options(ini, site, &["--rewind"])
    }

    fn with_options(ini: &str, site: &str, options: &[&str]) -> Stage {
        let options: Vec<&str> = options.iter().copied().chain(["--rewind-except", "time_of_boot"]).collect();
        let mut host = Host::start(&format!("{INI}{ini}"), &options);
        let script = host.script("index.php", site);
        let worker = host.worker(0);
        Stage { worker, host, script }
    }

    fn ask(&self, code: &str) -> Ask {
        Ask::get(&self.script).set("X_CODE", code)
    }

    fn run(&mut self, code: &str) -> Answer {
        let ask = self.ask(code);
        self.worker.run(&ask)
    }

    /// The answer to a request that began at the point, at the same as the one before it: others are sent until it is so.
    fn rewound(&mut self, code: &str) -> Answer {
        let ask = self.ask(code);
        self.rewound_as(&ask)
    }

    fn rewound_as(&mut self, ask: &Ask) -> Answer {
        let begin = Instant::now();
        let empty = ask.clone().set("X_CODE", "");
        let mut log = Vec::new();
        while begin.elapsed() < PATIENCE {
            let before = self.worker.run(&empty);
            let answer = self.worker.run(ask);
            log.extend(before.log.iter().chain(&answer.log).cloned());
            if answer.values("X-Rewound") == ["1"] && answer.values("X-Boot") == before.values("X-Boot") {
                return answer;
            }
        }
        panic!("no request begins at the point: {log:?}");
    }
}

#[test]
fn requests_begin_where_the_boot_has_ended() {
    let mut stage = Stage::new();
    let code = "echo Counter::$of_class++, counted(), count($counter->list), $_GET['n'] ?? '-';
        $counter->list[] = 1; define('HERE', 1); $GLOBALS['leak'] = 1; function later() {} ";
    let mut boots = std::collections::BTreeSet::new();
    let mut rewound = 0;
    for n in 0..200 {
        let ask = stage.ask(code).set("QUERY_STRING", &format!("n={n}"));
        let answer = stage.worker.run(&ask);
        assert_eq!(answer.text(), format!("010{n}"), "{answer:?}");
        rewound += u32::from(answer.values("X-Rewound") == ["1"]);
        boots.insert(answer.values("X-Boot")[0].to_owned());
    }
    assert!(rewound >= 100, "{rewound} requests began at the point");
    assert!(boots.len() < 100, "{} boots", boots.len());
}

#[test]
fn nothing_random_repeats() {
    let mut stage = Stage::new();
    let code = "echo mt_rand(), ' ', rand(), ' ', lcg_value(), ' ', uniqid('', true), ' ', bin2hex(random_bytes(8)), ' ',
        bin2hex(openssl_random_pseudo_bytes(8)), ' ', str_shuffle('abcdefghijklmnop'), ' ', session_create_id(), ' ', hrtime(true), ' ',
        $_SERVER['REQUEST_TIME_FLOAT'];";
    let mut seen = std::collections::HashSet::new();
    for _ in 0..60 {
        for word in stage.rewound(code).text().split(' ') {
            assert!(seen.insert(word.to_owned()), "{word} came twice");
        }
    }
}

#[test]
fn a_request_is_its_own() {
    let mut stage = Stage::with("session.save_path=/tmp\n", SITE);
    let code = "echo json_encode([$_GET, $_COOKIE, $_REQUEST, $_SERVER['HTTP_X'] ?? 0, getenv('HTTP_X'), $_SERVER['PHP_AUTH_USER'] ?? 0,
        getallheaders()['X'] ?? 0, abs(time() - $_SERVER['REQUEST_TIME']) < 2, file_get_contents('php://input')]);";
    for n in 0..20 {
        let ask = stage.ask(code);
        let auth = ["", "Basic dXNlcjpwYXNz"][n % 2];
        let ask = ask
            .set("QUERY_STRING", &format!("a={n}&b[]=x"))
            .set("HTTP_COOKIE", &format!("c={n}"))
            .set("HTTP_X", &n.to_string())
            .set("HTTP_AUTHORIZATION", auth);
        let user = ["0", "\"user\""][n % 2];
        let text = stage.rewound_as(&ask).text();
        let expected = format!(
            r#"[{{"a":"{n}","b":["x"]}},{{"c":"{n}"}},{{"a":"{n}","b":["x"]}},"{n}","{n}",{user},"{n}",true,""]"#
        );
        assert_eq!(text, expected);
    }
}

#[test]
fn head_and_post_and_bodies() {
    let mut stage = Stage::new();
    let code = "header('X-Method: ' . $_SERVER['REQUEST_METHOD']); echo $_SERVER['REQUEST_METHOD'], file_get_contents('php://input');";
    let head = stage.ask(code).set("REQUEST_METHOD", "HEAD");
    let answer = stage.rewound_as(&head);
    assert_eq!(answer.values("X-Method"), ["HEAD"]);
    let mut post = Ask::post(&stage.script, "text/plain", b"content").set("X_CODE", code);
    for _ in 0..5 {
        let answer = stage.worker.run(&post);
        assert_eq!((answer.text().as_str(), answer.values("X-Rewound")), ("POSTcontent", vec!["0"]));
        stage.rewound("");
    }
    post = post.set("REQUEST_METHOD", "GET");
    let answer = stage.worker.run(&post);
    assert_eq!((answer.text().as_str(), answer.values("X-Rewound")), ("GETcontent", vec!["0"]));
}

/// A boot that reads: the image serves only requests in which the same is written.
#[test]
fn what_the_boot_has_read_is_the_key() {
    let reads = [
        ("$_GET['lang'] ?? 'en'", "QUERY_STRING", "lang=de", "lang=fr"),
        ("isset($_COOKIE['user'])", "HTTP_COOKIE", "user=1", "other=1"),
        ("$_SERVER['HTTP_HOST']", "HTTP_HOST", "a.example", "b.example"),
        ("count($_GET)", "QUERY_STRING", "a=1", "a=1&b=1"),
        ("array_key_exists('q', $_GET)", "QUERY_STRING", "q=1", "r=1"),
        ("getenv('HTTP_X')", "HTTP_X", "1", "2"),
        ("implode(',', array_keys($GLOBALS['_COOKIE']))", "HTTP_COOKIE", "a=1", "b=1"),
        (
            "(function () { foreach ($_REQUEST as $name => $value) { $all[] = $name; } return $all[0]; })()",
            "QUERY_STRING",
            "a=1",
            "b=1",
        ),
        ("$_GET[strtolower('A')]['b'] ?? 0", "QUERY_STRING", "a[b]=1", "a[b]=2"),
    ];
    for (read, name, one, other) in reads {
        let site = SITE.replace("$boot =", &format!("$read = {read}; $boot ="));
        let mut stage = Stage::with("", &site);
        let ask = stage.ask("echo json_encode($read);");
        let (one, other) = (ask.clone().set(name, one), ask.set(name, other));
        let of_one = stage.rewound_as(&one).text();
        for _ in 0..3 {
            let answer = stage.worker.run(&other);
            assert_ne!(answer.text(), of_one, "{read}");
            assert_eq!(stage.rewound_as(&one).text(), of_one, "{read}");
        }
        let of_other = stage.rewound_as(&other).text();
        assert_ne!(of_other, of_one, "{read}");
    }
}

/// Boots that can't be the boot of several requests; the reason is logged.
#[test]
fn what_forbids_a_point() {
    let boots = [
        ("foreach ($_SERVER as $value) {}", "reads all of $_SERVER"),
        ("$token = random_int(0, 9);", "calls random_int()"),
        // The class is there from PHP 8.2 on.
        ("$c = 'Random\\Randomizer'; class_exists($c) ? new $c : mt_rand();", "calls "),
        ("$key = function_exists($f = 'sodium_crypto_auth_keygen') ? $f() : mt_rand();", "calls "),
        ("$id = $_SERVER['REQUEST_TIME_FLOAT'];", "reads $_SERVER[REQUEST_TIME_FLOAT]"),
        ("$id = fread(fopen('/dev/urandom', 'r'), 8);", "reads a device"),
        ("$id = file_get_contents('/proc/sys/kernel/random/uuid');", "reads a device"),
        ("$_SERVER['HTTPS'] = 'on';", "the boot changes $_SERVER"),
        ("unset($_SERVER['REMOTE_ADDR']);", "the boot changes $_SERVER"),
        ("$_COOKIE['name'] = 'value';", "the boot changes $_COOKIE"),
        (
            "$socket = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);",
            "calls stream_socket_pair()",
        ),
        ("$file = fopen(__DIR__ . '/log', 'a');", "writes a file"),
        ("echo 'early'; flush();", "the answer has begun"),
        ("session_start();", "a session is open"),
    ];
    for (boot, why) in boots {
        let site = SITE.replace("$boot =", &format!("{boot} $boot ="));
        let mut stage = Stage::with("session.save_path=/tmp\n", &site);
        let mut log = Vec::new();
        for _ in 0..30 {
            let answer = stage.run("");
            assert_ne!(answer.values("X-Rewound"), ["1"], "{boot}");
            log.extend(answer.log.into_iter().filter(|line| line.contains("php.rewind")));
        }
        assert!(log.len() == 1 && log[0].contains(why), "{boot}: {log:?}");
    }
}

#[test]
fn the_end_of_a_request_is_php_s_own() {
    let mut stage = Stage::new();
    let file = stage.host.root.join("written");
    let code = format!(
        "register_shutdown_function(function () {{ echo 'S', getcwd(); }});
         class D {{ function __destruct() {{ echo 'D'; }} }} $d = new D;
         ob_start(fn ($text) => strtolower($text)); echo 'OUT';
         $z = fopen('compress.zlib://{}', 'w'); fwrite($z, 'content');",
        file.display()
    );
    for _ in 0..3 {
        assert_eq!(stage.rewound(&code).text(), "outs/d");
        let bytes = std::fs::read(&file).unwrap();
        assert!(bytes.len() > 15 && bytes[..2] == [0x1f, 0x8b], "{bytes:?}");
    }
    let finished = stage.rewound("echo 'first'; fastcgi_finish_request(); echo 'lost'; usleep(1000);");
    assert_eq!(finished.text(), "first");
}

/// As in PHP, they run when objects that only a global variable refers to have gone, and whether any object has a destructor or not.
#[test]
fn output_callbacks_do_not_see_objects_that_have_gone() {
    let callback = "$last = new stdClass; $first = $second = new stdClass;
        ob_start(fn ($text) => $text . (isset($GLOBALS['last']) ? 'there' : 'gone') . (isset($GLOBALS['first']) ? 'there' : 'gone'));";
    let mut stage = Stage::new();
    assert_eq!(stage.rewound(&format!("{callback} echo 'x';")).text(), "xgonethere");
    let with =
        format!("{callback} class D {{ function __destruct() {{ echo 'D'; }} }} $d = new D; echo 'x';");
    assert_eq!(stage.rewound(&with).text(), "xDgonethere");
    let generator = "$generator = (function () { try { yield 1; } finally { echo 'finally'; } })(); $generator->current(); echo 'x';";
    assert_eq!(stage.rewound(generator).text(), "xfinally");
}

/// More than the worker lends to requests, and less; a boot that has needed much itself; and the boot of the next image.
#[test]
fn memory_that_requests_take_is_taken_again() {
    let boot = SITE.replace("$boot =", "$large = range(1, 300000); $boot =");
    let mut stage = Stage::with("memory_limit=256M\n", &boot);
    let code = "$list = []; for ($n = 0; $n < $_GET['n']; $n++) { $list[] = str_repeat(chr(97 + $n % 26), 1 << 20); }
        echo array_sum($large), ' ', md5(implode('', $list));";
    let mut rewound = 0;
    for n in (0..60).map(|n| n * 37 % 61) {
        let ask = stage.ask(code).set("QUERY_STRING", &format!("n={n}"));
        let ordinary = stage.ask("echo 'ordinary';").set("REQUEST_METHOD", "POST");
        let answer = stage.worker.run(&ask);
        let expected = stage.worker.run(&ask);
        assert_eq!(answer.text(), expected.text(), "{n}");
        assert!(answer.text().starts_with("45000150000 "), "{}", answer.text());
        rewound += u32::from(expected.values("X-Rewound") == ["1"]);
        if n % 7 == 0 {
            assert_eq!(stage.worker.run(&ordinary).text(), "ordinary");
        }
    }
    assert!(rewound >= 20, "{rewound} requests began at the point");
}

/// What the boot may have left of cycles is no burden to requests: they would run the garbage collector over all that the boot has made.
#[test]
fn the_boot_leaves_no_possible_cycles() {
    let boot = "for ($n = 0; $n < 9000; $n++) { $kept[$n] = new Counter; $again = $kept[$n]; } $boot =";
    let mut stage = Stage::with("", &SITE.replace("$boot =", boot));
    let roots: u32 = stage.rewound("echo gc_status()['roots'];").text().parse().unwrap();
    assert!(roots < 1000, "{roots}");
}

/// An image lives for a second, and until something may have changed.
#[test]
fn images_are_not_old() {
    let mut stage = Stage::with(
        "opcache.revalidate_freq=0\n",
        &SITE.replace("$boot =", "$set = (int) file_get_contents(__DIR__ . '/set'); $boot ="),
    );
    let set = stage.host.root.join("set");
    std::fs::write(&set, "1").unwrap();
    assert_eq!(stage.rewound("echo $set;").text(), "1");
    std::fs::write(&set, "2").unwrap();
    let changed = Instant::now();
    loop {
        let began = changed.elapsed();
        let text = stage.run("echo $set;").text();
        if text == "2" {
            break;
        }
        assert!(began < Duration::from_secs(1), "after {began:?}: {text}");
    }
    let changes: [(&str, &str); 2] = [("POST", ""), ("GET", "millrace_rewind_changed();")];
    for (n, (method, code)) in changes.iter().enumerate() {
        assert_eq!(stage.rewound("echo $set;").text(), (n + 2).to_string());
        let write = format!("{code} file_put_contents(__DIR__ . '/set', '{}');", n + 3);
        let ask = stage.ask(&write).set("REQUEST_METHOD", method);
        stage.worker.run(&ask);
        assert_eq!(stage.run("echo $set;").text(), (n + 3).to_string(), "{method} {code}");
    }
}

/// An image that is compared with what its boot has read outlives a second, and requests that may have written: until something is
/// different, in a file that it has opened, in one that it has only looked for, or as its application says.
#[test]
fn images_that_are_compared_live_longer() {
    let site = SITE.replace("$boot =", "$read = file_get_contents(__DIR__ . '/read') . (int) is_readable(__DIR__ . '/late/file'); $boot =").replace(
        "millrace_rewind_point()",
        "millrace_rewind_point(compare: fn () => !file_exists(__DIR__ . '/other/changed') && millrace_rewind_queries() === [])",
    );
    let mut stage = Stage::with("opcache.revalidate_freq=0\n", &site);
    let [read, other, late] = ["read", "other", "late"].map(|name| stage.host.root.join(name));
    std::fs::create_dir(&other).unwrap();
    std::fs::create_dir(&late).unwrap();
    std::fs::write(&read, "1").unwrap();
    let boot = |answer: &Answer| answer.values("X-Boot").join("");
    // Files that have just been written make images that are not compared.
    let old = |stage: &mut Stage| {
        let (begin, mut since) = (Instant::now(), (String::new(), Instant::now()));
        while since.1.elapsed() < Duration::from_millis(1500) {
            let now = boot(&stage.run("millrace_rewind_changed();"));
            if now != since.0 {
                since = (now, Instant::now());
            }
            assert!(begin.elapsed() < PATIENCE, "no image lives for more than a second");
        }
        since.0
    };
    let first = old(&mut stage);
    std::fs::write(&read, "2").unwrap();
    let now = stage.run("echo $read;");
    assert_eq!((now.text().as_str(), boot(&now) != first), ("20", true));
    let second = old(&mut stage);
    std::fs::write(late.join("file"), "").unwrap();
    let now = stage.run("echo $read;");
    assert_eq!((now.text().as_str(), boot(&now) != second), ("21", true));
    let second = old(&mut stage);
    std::fs::write(other.join("changed"), "").unwrap();
    assert_ne!(boot(&stage.run("")), second);
}

/// A folder that the boot has read from may change all the time, as long as its files have the same names afterwards.
#[test]
fn files_that_come_and_go_are_no_change() {
    let site = SITE
        .replace("$boot =", "$read = implode(' ', scandir(__DIR__ . '/parts')); $boot =")
        .replace("millrace_rewind_point()", "millrace_rewind_point(compare: fn () => true)");
    let mut stage = Stage::with("opcache.revalidate_freq=0\n", &site);
    let parts = stage.host.root.join("parts");
    std::fs::create_dir(&parts).unwrap();
    std::fs::write(parts.join("one"), "").unwrap();
    let boot = |answer: &Answer| answer.values("X-Boot").join("");
    let test = "touch(__DIR__ . '/parts/test'); unlink(__DIR__ . '/parts/test'); millrace_rewind_changed(); echo $read;";
    let (begin, mut since) = (Instant::now(), (String::new(), Instant::now()));
    while since.1.elapsed() < Duration::from_millis(1500) {
        // The clock of the times of files ticks every 10 ms or more often: a boot in the same tick may have seen the folder before the change.
        std::thread::sleep(Duration::from_millis(12));
        let answer = stage.run(test);
        assert_eq!(answer.text(), ". .. one");
        if boot(&answer) != since.0 {
            since = (boot(&answer), Instant::now());
        }
        assert!(begin.elapsed() < PATIENCE, "no image lives for more than a second");
    }
    std::fs::write(parts.join("two"), "").unwrap();
    assert_eq!(stage.run("millrace_rewind_changed(); echo $read;").text(), ". .. one two");
}

/// A file that the boot has opened: a request may close it, and open another one in its place.
#[test]
fn files_that_were_open_at_the_point_are_open_again() {
    let site = SITE.replace("$boot =", "$file = fopen(__DIR__ . '/read', 'r'); fread($file, 2); $boot =");
    let mut stage = Stage::with("", &site);
    std::fs::write(stage.host.root.join("read"), "abcdef").unwrap();
    for _ in 0..5 {
        let code = "echo fread($file, 2); fclose($file); $other = fopen('/usr/bin/env', 'r');";
        assert_eq!(stage.rewound(code).text(), "cd");
        assert_eq!(
            stage.rewound("echo fread($file, 4), count(scandir('/proc/self/fd'));").text()[..4],
            *"cdef"
        );
    }
}

/// filter_input() has arrays of its own, which PHP fills while a request starts.
#[test]
fn filter_input_reads_the_request_at_hand() {
    let mut stage = Stage::new();
    for n in 0..30 {
        let ask = stage.ask("echo json_encode([filter_input(INPUT_GET, 'a'), filter_input(INPUT_COOKIE, 'c'), filter_has_var(INPUT_SERVER, 'X_ONCE')]);");
        let (name, cookie) = (if n % 2 == 0 { "a" } else { "b" }, format!("c={n}"));
        let mut ask = ask.set("QUERY_STRING", &format!("{name}={n}"));
        if n % 3 == 0 {
            ask = ask.set("HTTP_COOKIE", &cookie).set("X_ONCE", "1");
        }
        let value = |is: bool| if is { format!("\"{n}\"") } else { "null".to_owned() };
        let expected = format!("[{},{},{}]", value(n % 2 == 0), value(n % 3 == 0), n % 3 == 0);
        let answer = stage.worker.run(&ask);
        assert_eq!(answer.text(), expected, "request {n}, {answer:?}");
    }
    assert!(stage.run("").values("X-Boot").len() == 1);
}

/// PHP compresses for the client at hand: with output_compression and with an output handler of the boot.
#[test]
fn compression_is_for_the_request_at_hand() {
    let by_handler = SITE.replace("$boot =", "ob_start('ob_gzhandler'); $boot =");
    for (ini, site) in
        [("zlib.output_compression=On\n", SITE), ("", &by_handler), ("output_handler=ob_gzhandler\n", SITE)]
    {
        let mut stage = Stage::with(ini, site);
        for n in 0..30 {
            let mut ask = stage.ask("echo str_repeat('text ', 400);");
            if n % 2 == 0 {
                ask = ask.set("HTTP_ACCEPT_ENCODING", "gzip");
            }
            let answer = stage.worker.run(&ask);
            let coded = answer.values("Content-Encoding") == ["gzip"];
            assert_eq!(
                (coded, answer.body.starts_with(b"text")),
                (n % 2 == 0, n % 2 != 0),
                "{ini:?} request {n} {answer:?}"
            );
        }
    }
}

/// The callbacks of buffers that the boot has opened run for each request, and not for an image that is thrown away: a cache would store an empty page.
#[test]
fn output_callbacks_of_a_dropped_image_do_not_run() {
    let callback = "ob_start(function ($text) { file_put_contents(__DIR__ . '/seen', strlen($text) . PHP_EOL, FILE_APPEND); return $text; }); $boot =";
    let mut stage = Stage::with("", &SITE.replace("$boot =", callback));
    let mut rewound = 0;
    for n in 0..60 {
        // Requests that don't fit end the image.
        let ask = stage.ask("echo 'content';");
        let ask = if n % 6 == 5 {
            Ask::post(&stage.script, "text/plain", b"x").set("X_CODE", "echo 'content';")
        } else {
            ask
        };
        let answer = stage.worker.run(&ask);
        assert_eq!(answer.text(), "content");
        rewound += u32::from(answer.values("X-Rewound") == ["1"]);
    }
    let seen = std::fs::read_to_string(stage.host.root.join("seen")).unwrap();
    let lines: Vec<&str> = seen.lines().collect();
    assert!(rewound > 10, "{rewound} requests began at the point");
    assert_eq!((lines.len(), lines.iter().all(|line| *line == "7")), (60, true), "{lines:?}");
}

/// What the comparison throws says that the image is not right: the request runs the ordinary way, and does not see it.
#[test]
fn a_comparison_that_throws_finds_a_change() {
    let compare = "millrace_rewind_point(compare: fn () => throw new Exception('not for the request'))";
    let mut stage = Stage::with("", &SITE.replace("millrace_rewind_point()", compare));
    for n in 0..60 {
        let answer = stage.run("millrace_rewind_changed(); echo 'good';");
        assert_eq!((answer.status, answer.text()), (200, "good".to_owned()), "request {n}: {answer:?}");
    }
}

/// Where the boot has read the clock, an image lives no longer than the second in which it has.
#[test]
fn an_image_that_knows_the_time_lives_for_its_second() {
    let site = SITE
        .replace("$boot =", "$second = time(); $boot =")
        .replace("millrace_rewind_point()", "millrace_rewind_point(compare: fn () => true)");
    let mut stage = Stage::with("", &site);
    let (begin, mut rewound) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_secs(4) {
        let answer = stage.run("echo $second, ' ', $_SERVER['REQUEST_TIME'];");
        let text = answer.text();
        let (second, of_request) = text.split_once(' ').unwrap();
        if answer.values("X-Rewound") == ["1"] {
            assert_eq!(second, of_request, "{answer:?}");
            rewound += 1;
        }
    }
    assert!(rewound > 0, "no request began at the point");
}

/// One kind of request whose boot is refused does not cost the others their image.
#[test]
fn a_refusal_holds_for_its_kind() {
    let mut stage = Stage::with(
        "",
        &SITE.replace("$boot =", "if (isset($_GET['random'])) { $random = mt_rand(); } $boot ="),
    );
    let (mut rewound, mut attempts) = (0, 0);
    for n in 0..200 {
        let ask =
            stage.ask("echo $random ?? '-';").set("REQUEST_URI", if n % 5 == 0 { "/?random=1" } else { "/" });
        let ask = ask.set("QUERY_STRING", if n % 5 == 0 { "random=1" } else { "" });
        let answer = stage.worker.run(&ask);
        let is_rewound = answer.values("X-Rewound") == ["1"];
        assert!(n % 5 != 0 || !is_rewound, "{answer:?}");
        rewound += u32::from(is_rewound);
        attempts += answer.log.iter().filter(|line| line.contains("no image")).count();
    }
    assert!(rewound > 60 && attempts <= 1, "{rewound} of 160 began at the point, {attempts} complaints");
}

/// With `auto` only requests are run again that have done nothing outside of their process behind the point either.
#[test]
fn what_acts_behind_the_point_is_not_run_again() {
    let mut stage = Stage::new();
    let again = [
        "echo mt_rand(), microtime();",
        "header('X-A: 1'); setlocale(LC_ALL, 'C'); echo file_get_contents(__FILE__);",
        "array_map('rand', [1], [2]);",
    ];
    let once = [
        "@file_get_contents('http://127.0.0.1:1/');",
        "@fopen('http://127.0.0.1:1/', 'r');",
        "@get_headers('http://127.0.0.1:1/');",
        "$f = 'fsockopen'; @$f('127.0.0.1', 1);",
        "@stream_socket_client('udp://127.0.0.1:9');",
        "setcookie('a', '1');",
        "error_log('x');",
        "touch(__DIR__ . '/touched');",
        "session_start();",
        "(new ReflectionFunction('exec'))->invoke('true');",
        "file_put_contents('php://stderr', '');",
    ];
    for (code, expected) in again.map(|code| (code, true)).into_iter().chain(once.map(|code| (code, false))) {
        assert_eq!(stage.rewound(code).end.repeatable, expected, "{code}");
    }
}

/// What is run again to be compared ends before it acts, also in a worker without an image, where it would be a boot.
#[test]
fn what_is_run_again_does_not_act() {
    let mut stage = Stage::new();
    let mark = stage.host.root.join("acted");
    let mut again = stage.ask(&format!("echo 'before'; touch('{}'); echo 'after';", mark.display()));
    again.flags = frames::FLAG_AGAIN;
    for n in 0..20 {
        let answer = stage.worker.run(&again);
        assert!(!mark.exists() && !answer.text().contains("after"), "{n}: {answer:?}");
    }
}

/// Functions that are watched can be called in any way: by a closure of the function, too, and as a method of a class that extends PHP's.
#[test]
fn watched_functions_work_in_all_ways() {
    let extensions = "extension=pdo\nextension=pdo_sqlite\n";
    let calls = "class Own extends PDO {} $own = new Own('sqlite::memory:'); $query = $own->query(...); $random = random_int(...); $run = Closure::fromCallable('exec');
        $found = $query('SELECT 9')->fetchColumn(); unset($own, $query); $all = $random(7, 7) . $run('echo 8') . $found . implode(array_map('mt_rand', [1], [1]));";
    let mut after = Stage::with(extensions, SITE);
    assert_eq!(after.rewound(&format!("{calls} echo $all;")).text(), "7891");
    let mut before = Stage::with(extensions, &SITE.replace("$boot =", &format!("{calls} $boot =")));
    for _ in 0..5 {
        assert_eq!(before.run("echo $all;").text(), "7891");
    }
}

/// REWIND_REQUESTS: another number.
#[test]
fn ten_thousand_requests_leave_nothing() {
    let requests = std::env::var("REWIND_REQUESTS").map_or(10_000, |text| text.parse().unwrap());
    let mut stage = Stage::new();
    let code = "$f = fopen('/usr/bin/env', 'r'); $GLOBALS['x'] = str_repeat('x', 300000); $a = range(1, 20000); strtoupper($x);
        echo count(scandir('/proc/self/fd')), ' ', substr_count(file_get_contents('/proc/self/maps'), \"\\n\");";
    let resident = |pid: u32| -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
        text.split(' ').nth(1).unwrap().parse().unwrap()
    };
    let ask = stage.ask(code);
    let mut first = (0, String::new());
    for n in 0..requests {
        stage.worker.run(&ask);
        if n == 1000 {
            first = (resident(stage.worker.pid), stage.rewound(code).text());
        }
    }
    let last = (resident(stage.worker.pid), stage.rewound(code).text());
    assert_eq!(last.1.split(' ').next(), first.1.split(' ').next(), "descriptors");
    assert!(
        last.0 < first.0 + 512,
        "pages in memory: {} after 1,000 requests, {} after {requests}",
        first.0,
        last.0
    );
}

/// A worker that is killed while it puts its memory back costs nothing but itself: others go on with images of their own.
#[test]
fn a_killed_worker_costs_only_itself() {
    let mut stage = Stage::with("", &SITE.replace("$boot =", "$big = str_repeat('x', 48 << 20); $boot ="));
    let dirty = stage.ask("for ($i = 0; $i < strlen($big); $i += 4096) { $big[$i] = 'y'; } echo 'good';");
    let (mut killed, begin) = (0, Instant::now());
    for n in 0_u64.. {
        let mut other = stage.host.worker(1);
        while other.run(&dirty).values("X-Rewound") != ["1"] {}
        let answered = Instant::now();
        while !is_in_controller(other.pid) && answered.elapsed() < Duration::from_millis(50) {}
        std::thread::sleep(Duration::from_micros(n % 20 * 100));
        killed += u32::from(is_in_controller(other.pid));
        kill_process(Pid::from_raw(other.pid as i32).unwrap(), Signal::KILL).unwrap();
        assert_eq!(stage.run("echo 'good', $big[4096];").text(), "goodx");
        stage.host.exited(other.pid);
        if killed == 20 {
            break;
        }
        assert!(begin.elapsed() < 2 * PATIENCE, "{killed} of {n} workers were putting their memory back");
    }
    assert_eq!(stage.rewound("echo 'good', $big[4096];").text(), "goodx");
}

/// Whether the process runs on the controller's stack: all signals are blocked there, and nowhere else.
fn is_in_controller(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    u64::from_str_radix(blocked.trim(), 16).unwrap() & 0xff == 0xff & !(1 << (9 - 1))
}

/// An image points into opcache's memory, so opcache waits with a restart until no worker is at its point any more.
#[test]
fn a_worker_with_nothing_to_do_leaves_the_point() {
    let mut stage = Stage::with("opcache.force_restart_timeout=3600\n", SITE);
    let mut other = stage.host.worker(1);
    stage.rewound("");
    let reset = stage.ask("opcache_reset(); echo 'reset';");
    assert_eq!(other.run(&reset).text(), "reset");
    let begin = Instant::now();
    let count = stage.ask("echo opcache_get_status(false)['opcache_statistics']['manual_restarts'];");
    while other.run(&count).text() != "1" {
        assert!(begin.elapsed() < PATIENCE, "opcache has not restarted");
    }
    assert_eq!(stage.rewound("echo 'good';").text(), "good");
}
