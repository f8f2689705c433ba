//! The leak hunt: what requests leave behind, and what the next one finds of it.

use std::time::Instant;

#[cfg(sanitized)]
use crate::driver::Sent;
use crate::driver::{Answer, PATIENCE};
use crate::{SITE, Stage};

/// What a request can leave behind. Everything::look() shows each of them, in the same request.
const LEAKS: &[&str] = &[
    // The program.
    "Everything::$of_class = 9; Everything::counted();",
    "$everything->list[] = new stdClass; $everything->other = 1;",
    "$GLOBALS['leak'] = 1;",
    "define('LEAK', 1);",
    "eval('function leak() {} class Leak {}');",
    "class_alias('Everything', 'Nothing');",
    "$_GET['leak'] = $_COOKIE['leak'] = $_SERVER['LEAK'] = 1;",
    "require __DIR__ . '/more.php';",
    "register_tick_function(function () { $GLOBALS['ticked'] = 1; });",
    "declare(ticks=1) { $a = 1; } static $kept; $kept = new stdClass;",
    "$f = new Fiber(function () { Fiber::suspend(); }); $f->start();",
    "$GLOBALS['g'] = (function () { try { yield 1; yield 2; } finally { echo 'end'; } })(); $GLOBALS['g']->current();",
    "gc_disable();",
    "for ($i = 0; $i < 30000; $i++) { $a = new stdClass; $a->a = $a; }",
    // Settings.
    "ini_set('precision', 5); ini_set('memory_limit', '77M'); set_time_limit(7);",
    "ini_set('zlib.output_compression', '1'); ini_set('opcache.enable', '0'); set_include_path('/usr');",
    "ini_set('session.name', 'LEAK'); ini_set('error_log', '/dev/null'); ini_set('display_errors', '1');",
    "ignore_user_abort(true);",
    "error_reporting(0);",
    "putenv('LEAK=1'); putenv('HOME=/nowhere'); putenv('PATH');",
    "Everything::libc()->setenv('LEAK', 'x', 1);",
    "setlocale(LC_ALL, 'C.UTF-8');",
    "setlocale(LC_CTYPE, 'POSIX', 'C.UTF-8'); setlocale(LC_NUMERIC, 'C.UTF-8');",
    "date_default_timezone_set('Asia/Tokyo'); putenv('TZ=Asia/Tokyo');",
    "assert_options(ASSERT_ACTIVE, 0); assert_options(ASSERT_CALLBACK, 'strlen');",
    // Handlers.
    "set_error_handler(fn () => true); set_error_handler(fn () => false);",
    "set_exception_handler(fn () => true);",
    "spl_autoload_register(fn () => 1);",
    "trigger_error('leak', E_USER_NOTICE); error_clear_last(); @trigger_error('leak');",
    "strtok('a b c', ' ');",
    "preg_match('/(?:\\D+|<\\d+>)*[!?]/', str_repeat('foobar ', 100000)); json_decode('{');",
    "mt_srand(1);",
    "srand(1);",
    // Output and sessions.
    "ob_start(); ob_start(fn ($text) => ''); echo 'lost';",
    "ob_start(null, 10); ob_implicit_flush(true);",
    "output_add_rewrite_var('leak', '1');",
    "header('X-Leak: 1'); http_response_code(404); setcookie('leak', '1');",
    "session_save_path(__DIR__); session_id('leakleakleakleakleakleak'); session_start(); $_SESSION['leak'] = 1;",
    "session_name('LEAK'); session_set_cookie_params(5);",
    "session_set_save_handler(new class extends SessionHandler {}, true);",
    // Streams and files.
    "stream_wrapper_unregister('http'); class W { public $context; } stream_wrapper_register('leak', 'W');",
    "stream_filter_register('l.*', 'php_user_filter');",
    "stream_context_set_default(['http' => ['header' => 'X-Leak: 1']]);",
    "for ($i = 0; $i < 9; $i++) $GLOBALS[\"f$i\"] = fopen('/usr/bin/env', 'r'); $f = tmpfile(); fwrite($f, 'x');",
    "$f = opendir('/usr'); $s = stream_socket_server('tcp://127.0.0.1:0'); $p = stream_socket_pair(1, 1, 0);",
    "$s = socket_create(AF_UNIX, SOCK_STREAM, 0); @socket_connect($s, '/nowhere');",
    "stream_socket_server('tcp://127.0.0.1:0'); $p = pfsockopen('udp://127.0.0.1', 9);",
    "$c = curl_init('file:///usr/bin/env'); curl_setopt($c, CURLOPT_RETURNTRANSFER, true); curl_exec($c); $m = curl_multi_init(); curl_share_init();",
    "realpath('/usr/share/doc/../man'); clearstatcache();",
    "$p = proc_open('exit 0', [['pipe', 'r']], $pipes); $child = trim(file_get_contents('/proc/thread-self/children'));
        while (!str_contains(file_get_contents(\"/proc/$child/stat\"), ') Z ')) usleep(100);",
    "$p = popen('exit 0', 'r');",
    // Extensions.
    "mb_internal_encoding('EUC-JP'); mb_substitute_character(33); mb_language('ja'); mb_detect_order('ASCII'); mb_http_output('UTF-8'); mb_regex_encoding('EUC-JP');",
    "libxml_use_internal_errors(true); (new DOMDocument)->loadXML('<a');",
    "libxml_set_streams_context(stream_context_create()); @(new DOMDocument)->loadXML('<a');",
    "ini_set('iconv.internal_encoding', 'EUC-JP'); iconv('UTF-8', 'EUC-JP', 'text');",
    "Locale::setDefault('de_DE'); (new NumberFormatter('xx', 1))->parse('no'); intl_get_error_code();",
    "textdomain('leak'); bindtextdomain('leak', '/tmp');",
    "openssl_pkey_get_private('leak');",
    "dl('sysvmsg.so');",
    // The kernel and C.
    "chdir('/usr');",
    "umask(0);",
    "Everything::libc()->umask(0777);",
    "Everything::libc()->opterr = 77;",
    "Everything::libc()->alarm(100);",
    "Everything::libc()->signal(10, FFI::cast('void *', 1)); Everything::libc()->signal(17, FFI::cast('void *', 1));",
    "$set = FFI::new('unsigned long[1]'); $set[0] = 1 << 11; Everything::libc()->sigprocmask(0, $set, null);",
    "for ($i = 0; $i < 3; $i++) Everything::libc()->open('/usr/bin/env', 0);",
];

/// What can't be seen in the request itself, but perhaps in the next one: memory behind PHP's back, and odd ends.
const ENDS: &[&str] = &[
    "posix_getpwnam('root'); gethostbyname('localhost'); posix_mkfifo('/nowhere/x', 0);",
    "$big = str_repeat('x', 40 << 20); $more = range(1, 500000);",
    "ini_set('memory_limit', '-1'); $big = str_repeat('x', 300 << 20);",
    "$m = Everything::libc(); for ($i = 0; $i < 2000; $i++) $m->malloc(100000); $m->sbrk(1 << 20);",
    "$p = Everything::libc()->mmap(null, 1 << 20, 3, 0x22, -1, 0); FFI::memset($p, 1, 1 << 20);",
    "$p = Everything::libc()->mmap(null, 1 << 20, 3, 0x21, -1, 0); FFI::memset($p, 1, 1 << 20);",
    "$a = []; for ($i = 0; $i < 5000; $i++) $a = [$a]; strlen(serialize($a)); json_encode($a, 0, 100000);",
    "$s = sem_get(77001); sem_acquire($s); $m = shm_attach(77002, 1000); shm_put_var($m, 1, 'leak'); sem_remove($s); shm_remove($m);",
    "function deep($n) { return $n ? 1 + deep($n - 1) : 0; } deep(50000);",
    "function endless($n) { return endless([$n]); } ini_set('memory_limit', '32M'); endless(1);",
    "header_register_callback(function () { echo 'early'; }); ",
    "libxml_set_external_entity_loader(fn () => null);",
    "openlog('leak', LOG_NDELAY, LOG_USER); @syslog(LOG_DEBUG, 'leak');",
    "$c = Everything::libc(); $child = $c->fork(); if ($child === 0) { $c->_exit(0); } $c->waitpid($child, null, 0);",
    "$c = Everything::libc(); $child = $c->fork(); if ($child === 0) { chdir('/'); echo 'child'; exit; } $c->waitpid($child, null, 0);",
    "$c = Everything::libc(); if ($c->fork() === 0) { no_such_function(); } $c->waitpid(-1, null, 0);",
    // Ends of all kinds.
    "exit;",
    "exit(3);",
    "register_shutdown_function(function () { echo ' end'; }); exit(3);",
    "register_shutdown_function(function () { register_shutdown_function(function () { exit(1); }); exit(2); });",
    "register_shutdown_function(function () { $GLOBALS['late'] = 1; define('LATE', 1); chdir('/'); ob_start(); no_such_function(); });",
    "class E { function __destruct() { exit; } } $d = new E; throw new Exception('leak');",
    "class E { function __destruct() { exit('in a destructor'); } } $GLOBALS['d'] = new E;",
    "class D { function __destruct() { no_such_function(); } } $GLOBALS['d'] = new D;",
    "class D { function __destruct() { throw new Exception('leak'); } } $GLOBALS['d'] = new D; $GLOBALS['e'] = new D;",
    "ini_set('memory_limit', '8M'); class D { function __destruct() { $GLOBALS['again'] = new D; } } $GLOBALS['d'] = new D; exit;",
    "class D { function __destruct() { ini_set('memory_limit', '16M'); $a = str_repeat('x', 64 << 20); } } $GLOBALS['d'] = new D;",
    "ob_start(function ($text) { exit('callback'); }); echo 'text';",
    "ob_start(function ($text) { throw new Exception('callback'); }); echo 'text';",
    "ob_start(function ($text) { ob_start(); return 'nested'; }); echo 'text';",
    "ob_start(function ($text) { no_such_function(); }); echo 'text'; exit;",
    "ob_start(function ($text, $phase) { return $GLOBALS['x'] = $phase; }); ob_start(); echo 'text';",
    "header_register_callback(function () { exit('header'); }); echo 'text';",
    "set_error_handler(function () { exit('error'); }); echo $nothing;",
    "set_error_handler(function ($n) { trigger_error('again'); throw new ErrorException('x'); }); echo $nothing;",
    "set_exception_handler(function () { exit('exception'); }); throw new Exception('leak');",
    "set_exception_handler(function () { throw new Exception('again'); }); throw new Exception('leak');",
    "spl_autoload_register(function () { exit('autoload'); }); new NoSuchClass;",
    "(new Fiber(function () { exit('fiber'); }))->start();",
    "(new Fiber(function () { Fiber::suspend(); no_such_function(); }))->start(); $f = new Fiber(fn () => no_such_function()); $f->start();",
    "$f = new Fiber(function () { try { Fiber::suspend(); } finally { exit('finally'); } }); $f->start();",
    "$g = (function () { try { yield 1; } finally { echo 'finally'; exit; } })(); $g->current();",
    "class S { function __toString() { exit('string'); } } echo new S;",
    "class W { public $context; function stream_open() { return true; } function stream_write($x) { return strlen($x); } function stream_close() { exit('close'); } }
        stream_wrapper_register('w', 'W'); $GLOBALS['w'] = fopen('w://x', 'w'); fwrite($GLOBALS['w'], 'x');",
    "session_set_save_handler(new class implements SessionHandlerInterface { function open($a, $b): bool { return true; } function close(): bool { exit('close'); }
        function read($a): string { return ''; } function write($a, $b): bool { exit('write'); } function destroy($a): bool { return true; } function gc($a): int { return 0; } });
        session_start(); $_SESSION['x'] = 1;",
    "register_tick_function(function () { exit('tick'); }); declare(ticks=1) { $x = 1; }",
    "ini_set('memory_limit', '16M'); $big = str_repeat('x', 64 << 20);",
    "ini_set('memory_limit', '16M'); $a = []; while (true) { $a[] = new stdClass; }",
    // The time limit's own signal, earlier.
    "set_time_limit(9); $t = Everything::libc()->new('timer'); $t->value[1] = 5000; Everything::libc()->setitimer(2, FFI::addr($t), null); while (true);",
    "no_such_function();",
    "eval('syntax error');",
    "require '/nowhere';",
    "trigger_error('leak', E_USER_ERROR);",
    "interface I { function f(); } eval('class C implements I {}');",
    "usleep(1); fastcgi_finish_request(); $GLOBALS['late'] = 1; chdir('/'); echo 'lost'; define('LATE', 1); no_such_function();",
    "ignore_user_abort(true); flush(); echo str_repeat('x', 300000); exit;",
    "ob_end_flush(); echo 'text'; flush(); header('X-Late: 1');",
];

/// What can't be put back; the worker's last request.
const BEYOND: &[&str] = &[
    "$thread = FFI::new('unsigned long'); $c = Everything::libc(); $c->pthread_create(FFI::addr($thread), null, $c->dlsym(null, 'pause'), null);",
    "proc_nice(1);",
    "posix_setsid();",
    "posix_setpgid(0, 0);",
];

const EXTENSIONS: [&str; 16] = [
    "ctype",
    "mbstring",
    "iconv",
    "xml",
    "dom",
    "sockets",
    "ffi",
    "posix",
    "gettext",
    "intl",
    "curl",
    "sysvsem",
    "sysvshm",
    "tokenizer",
    "shmop",
    "simplexml",
];

#[test]
fn the_next_request_cannot_tell() {
    leak_hunt(&["--rewind"]);
}

#[test]
fn nor_can_it_on_an_older_kernel() {
    leak_hunt(&["--rewind-compare"]);
}

#[test]
fn nor_can_it_in_the_sandbox() {
    leak_hunt(&["--rewind", "--sandbox", "--folder", "/tmp"]);
}

fn stage(options: &[&str]) -> Stage {
    let extensions: String = EXTENSIONS.iter().map(|name| format!("extension={name}\n")).collect();
    let site = SITE.replace("$boot =", "require __DIR__ . '/everything.php'; $boot =");
    let stage = Stage::with_options(&format!("{extensions}ffi.enable=1\n"), &site, options);
    stage.host.script("everything.php", include_str!("everything.php"));
    stage.host.script("more.php", "<?php function more() {}");
    stage
}

/// Prints all that a request can find, a line for each kind.
const LOOK: &str = "foreach (Everything::look() as $name => $value) {
    echo $name, ' ', json_encode($value, JSON_PARTIAL_OUTPUT_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES), \"\\n\";
}";

fn leak_hunt(options: &[&str]) {
    let mut stage = stage(options);
    let clean = stage.rewound(LOOK);
    assert_eq!(clean.status, 200, "{:?}", clean.log);
    let clean = clean.text();
    let noise = differences(&mut stage, "");
    let mut found = Vec::new();
    for leak in LEAKS {
        let seen = differences(&mut stage, leak);
        if seen.iter().all(|name| noise.contains(name)) {
            found.push(format!("the request itself does not see: {leak}"));
        }
    }
    for leak in LEAKS.iter().chain(ENDS) {
        let (before, after) = follow(&mut stage, leak, LOOK);
        let said = before.log.iter().chain(&after.log).filter(|line| line.contains("php.rewind")).cloned();
        let told = after
            .text()
            .lines()
            .map(str::to_owned)
            .filter(|line| !clean.lines().any(|then| then == line))
            .chain(said)
            .collect::<Vec<_>>();
        if !told.is_empty() || after.text().len() != clean.len() {
            found.push(format!("after {leak}: {told:?}"));
        }
    }
    assert!(found.is_empty(), "noise: {noise:?}\n{}", found.join("\n"));
}

/// What a request sees of its own leak: names of Everything::look().
fn differences(stage: &mut Stage, leak: &str) -> Vec<String> {
    let code = format!(
        "$then = []; $then = Everything::look();\n{leak}\nheader('X-Seen: ' . implode(',', Everything::difference($then, Everything::look())));"
    );
    let answer = stage.rewound(&code);
    answer.values("X-Seen").concat().split(',').map(str::to_owned).collect()
}

/// Two requests that follow each other, with one image.
fn follow(stage: &mut Stage, first: &str, second: &str) -> (Answer, Answer) {
    let begin = Instant::now();
    loop {
        let (before, after) = (stage.run(first), stage.run(second));
        let boots = [&before, &after]
            .map(|answer| (answer.values("X-Rewound").concat(), answer.values("X-Boot").concat()));
        if boots[0].0 == "1" && boots[0] == boots[1] {
            return (before, after);
        }
        assert!(begin.elapsed() < PATIENCE, "no request begins at the point after {first}: {before:?}");
    }
}

/// The worker ends instead of going on in a state that is not the point's.
#[test]
fn what_cannot_be_put_back_ends_the_worker() {
    for leak in BEYOND {
        let mut stage = stage(&["--rewind"]);
        stage.rewound("");
        let ask = stage.ask(&format!("{leak} echo 'done';"));
        while stage.worker.run(&ask).values("X-Rewound") != ["1"] {}
        let (status, _) = stage.host.exited(stage.worker.pid);
        assert_eq!(status, 0, "{leak}");
    }
}

/// AddressSanitizer knows which memory is free in a request that began at the point.
#[test]
#[cfg(sanitized)]
fn the_sanitizer_goes_on() {
    let mut stage = stage(&["--rewind"]);
    for _ in 0..20 {
        stage
            .rewound("$c = Everything::libc(); $p = $c->malloc(100); FFI::memset($p, 1, 100); $c->free($p);");
    }
    let wrong = stage.ask("$c = Everything::libc(); $p = $c->malloc(100); $c->free($p); FFI::memset($p, 1, 100); echo 'not seen';");
    let pid = stage.worker.pid;
    stage.worker.send(&wrong);
    while let Sent::Head(..) | Sent::Body(_) | Sent::Log(_) = stage.worker.next() {}
    assert_ne!(stage.host.exited(pid).0, 0);
}
