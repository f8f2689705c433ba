//! Persistent workers: a script that is started once and serves many requests. Each test sends the code that its
//! handler runs.

mod driver;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use driver::{Answer, Ask, Host, PATIENCE, Sent, Worker};
use millrace_wire::frames;
use rustix::process::{Pid, Signal, kill_process};

const INI: &str = "zend_extension=opcache\nopcache.file_update_protection=0\nvariables_order=GPCS\nrequest_order=GP\n\
    register_argc_argv=0\nopcache.revalidate_freq=0\n";

/// The handler runs what the request says.
const LOOP: &str = "while (millrace_handle_request(function () { eval($_SERVER['X_CODE']); })) { }";

/// A folder for the script, gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("millrace-handler-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn script(&self) -> PathBuf {
        self.0.join("worker.php")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A worker whose script has come to its loop, and what it needs.
struct Stage {
    worker: Worker,
    host: Host,
    folder: Folder,
}

impl Stage {
    /// A script of `boot` and the loop.
    fn new(ini: &str, boot: &str) -> Stage {
        Stage::with(ini, &format!("{boot}\n{LOOP}"), &[])
    }

    fn with(ini: &str, code: &str, options: &[&str]) -> Stage {
        let (stage, (booted, log)) = Stage::try_with(ini, code, options);
        assert_eq!((booted, log), (Ok(()), vec![]));
        stage
    }

    fn try_with(ini: &str, code: &str, options: &[&str]) -> (Stage, (Result<(), String>, Vec<String>)) {
        let folder = Folder::new();
        std::fs::write(folder.script(), format!("<?php {code}")).unwrap();
        let (script, root) = (folder.script(), folder.0.clone());
        let own =
            ["--worker-script", script.to_str().unwrap(), "--worker-name", "/worker.php", "--worker-root"];
        let words = [&own[..], &[root.to_str().unwrap()], options].concat();
        let mut host = Host::start(&format!("{INI}{ini}"), &words);
        let mut worker = host.worker(0);
        let boot = worker.boot();
        (Stage { worker, host, folder }, boot)
    }

    fn ask(&self, code: &str) -> Ask {
        Ask::get(&self.folder.script()).set("X_CODE", code)
    }

    fn answer(&mut self, code: &str) -> Answer {
        let ask = self.ask(code);
        self.worker.run(&ask)
    }

    /// What a handler prints that does nothing wrong.
    fn run(&mut self, code: &str) -> String {
        let answer = self.answer(code);
        assert_eq!((&answer.log, answer.end.failed, answer.end.exiting), (&vec![], false, false), "{code}");
        answer.text()
    }

    /// Waits for the worker's end; starts and boots another one.
    fn next_worker(&mut self) {
        let pid = self.worker.pid;
        assert_eq!(self.host.exited(pid).0, 0);
        self.worker = self.host.worker(0);
        assert_eq!(self.worker.boot().0, Ok(()));
    }
}

#[test]
fn the_script_boots_once_and_statics_stay() {
    let mut stage = Stage::new(
        "",
        "$GLOBALS['booted'] = getmypid(); function count_up() { static $n = 0; return ++$n; }",
    );
    let pid = stage.worker.pid;
    for n in 1..=5 {
        assert_eq!(stage.run("echo count_up(), ' ', $GLOBALS['booted'];"), format!("{n} {pid}"));
    }
    // It counts when the answer has left.
    let start = Instant::now();
    while stage.host.board64(0, frames::SLOT_REQUESTS) != 5
        || stage.host.board32(0, frames::SLOT_STATE) != frames::STATE_IDLE
    {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn superglobals_are_those_of_the_request() {
    let mut stage =
        Stage::new("", "$GLOBALS['boot'] = $_SERVER['MILLRACE_WORKER'] . $_SERVER['SCRIPT_NAME'];");
    let show = "echo json_encode([$_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST, isset($_SESSION), $_SERVER['HTTP_X'] ?? null]); \
        $_GET['left'] = $_POST['left'] = $_COOKIE['left'] = $_FILES['left'] = $_REQUEST['left'] = $_SERVER['HTTP_X'] = $_SERVER['LEFT'] = 1;";
    let ask = stage.ask(show).set("QUERY_STRING", "a=1").set("HTTP_COOKIE", "c=3").set("HTTP_X", "x");
    assert_eq!(stage.worker.run(&ask).text(), r#"[{"a":"1"},[],{"c":"3"},[],{"a":"1"},false,"x"]"#);
    assert_eq!(stage.run(show), "[[],[],[],[],[],false,null]");
    let mut post = Ask::post(&stage.folder.script(), "application/x-www-form-urlencoded", b"p=2&q[]=1");
    post = post.set("X_CODE", show).set("QUERY_STRING", "b=2");
    assert_eq!(
        stage.worker.run(&post).text(),
        r#"[{"b":"2"},{"p":"2","q":["1"]},[],[],{"b":"2","p":"2","q":["1"]},false,null]"#
    );
    assert_eq!(stage.run(show), "[[],[],[],[],[],false,null]");
    assert_eq!(
        stage.run("echo isset($_SERVER['LEFT']) ? 'left' : 'none', $_SERVER['FRANKENPHP_WORKER'] ?? 0;"),
        "none1"
    );
    assert_eq!(stage.run("echo $GLOBALS['boot'];"), "1/worker.php");
    assert_eq!(stage.run("echo $_SERVER['REQUEST_METHOD'], is_float($_SERVER['REQUEST_TIME_FLOAT']), time() - $_SERVER['REQUEST_TIME'] < 3;"), "GET11");
}

#[test]
fn superglobals_that_code_uses_which_came_later_are_there() {
    let mut stage = Stage::new("", "");
    let file = stage.folder.0.join("late.php");
    std::fs::write(&file, "<?php return json_encode([$_REQUEST, $_ENV]);").unwrap();
    for n in ["1", "2"] {
        let code = "echo include __DIR__ . '/late.php';"
            .replace("__DIR__", &format!("'{}'", stage.folder.0.display()));
        let ask = stage.ask(&code).set("QUERY_STRING", &format!("n={n}"));
        assert_eq!(stage.worker.run(&ask).text(), format!(r#"[{{"n":"{n}"}},[]]"#));
    }
}

#[test]
fn the_environment_is_the_boots() {
    let mut stage = Stage::new("", "$_ENV['DOT'] = 'env'; putenv('BOOT=1'); putenv('BOTH=boot');");
    let show = "echo json_encode($_ENV), getenv('BOOT'), getenv('BOTH'), var_export(getenv('OWN'), true); \
        $_ENV['OWN'] = 2; putenv('OWN=2');";
    for _ in 0..3 {
        assert_eq!(stage.run(show), r#"{"DOT":"env"}1bootfalse"#);
    }
}

#[test]
fn input_and_uploads() {
    let mut stage = Stage::new("", "");
    let read = "echo file_get_contents('php://input'), '|', stream_get_contents($GLOBALS['in'] = fopen('php://input', 'r'));";
    let post = |stage: &Stage, kind: &str, body: &[u8], code: &str| {
        Ask::post(&stage.folder.script(), kind, body).set("X_CODE", code)
    };
    for text in ["one", "two"] {
        let ask = post(&stage, "application/json", text.as_bytes(), read);
        assert_eq!(stage.worker.run(&ask).text(), format!("{text}|{text}"));
    }
    assert_eq!(
        stage.run("echo '[', file_get_contents('php://input'), ']', get_resource_type($GLOBALS['in']);"),
        "[]Unknown"
    );
    let body =
        b"--X\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\n\r\nhello\r\n--X--\r\n";
    let code = "$f = $_FILES['f']; $GLOBALS['tmp'] = $f['tmp_name']; \
        echo $f['name'], file_get_contents($f['tmp_name']), is_uploaded_file($f['tmp_name']) ? 'yes' : 'no';";
    let ask = post(&stage, "multipart/form-data; boundary=X", body, code);
    assert_eq!(stage.worker.run(&ask).text(), "a.txthelloyes");
    let gone = "echo file_exists($GLOBALS['tmp']) ? 'there' : 'gone', is_uploaded_file($GLOBALS['tmp']) ? 'yes' : 'no', count($_FILES);";
    assert_eq!(stage.run(gone), "goneno0");
    let large = vec![b'x'; 300_000];
    let ask = post(&stage, "text/plain", &large, "echo strlen(file_get_contents('php://input'));");
    assert_eq!(stage.worker.run(&ask).text(), "300000");
}

/// No file or memory of a request's content is kept.
#[test]
fn contents_leave_nothing_open() {
    let mut stage = Stage::new("", "");
    let count = "echo count(scandir('/proc/self/fd')), ' ', count(get_resources());";
    let mut before = String::new();
    for n in 0..20 {
        if n == 1 {
            // The default context of streams is made once.
            before = stage.run(count);
        }
        let code = "strlen(file_get_contents('php://input')); fopen('php://input', 'r');";
        let ask = Ask::post(&stage.folder.script(), "text/plain", &vec![b'y'; 3_000_000]).set("X_CODE", code);
        stage.worker.run(&ask);
    }
    assert_eq!(stage.run(count), before);
}

#[test]
fn headers_and_status_begin_anew() {
    let mut stage = Stage::new("", "");
    let answer = stage.answer("http_response_code(404); header('X-One: 1'); setcookie('a', 'b'); header_remove('X-Powered-By'); echo 'x';");
    assert_eq!((answer.status, answer.values("x-one")), (404, vec!["1"]));
    let answer = stage.answer("echo json_encode([headers_sent(), http_response_code(), headers_list()]);");
    assert_eq!(answer.status, 200);
    assert!(answer.values("x-one").is_empty() && answer.values("set-cookie").is_empty());
    assert!(answer.text().starts_with("[false,200,[\"X-Powered-By:"), "{}", answer.text());
    let answer = stage.answer("header('HTTP/1.1 418 Short and stout'); header('Content-Type: text/plain');");
    assert_eq!((answer.status, &answer.reason[..]), (418, "Short and stout"));
    let answer = stage.answer("flush(); echo headers_sent() ? 'sent' : 'not', json_encode(getallheaders());");
    assert_eq!((answer.status, &answer.text()[..]), (200, "not{\"Host\":\"example.org\"}"));
    assert_eq!(answer.values("content-type"), ["text/html; charset=UTF-8"]);
    let answer = stage.answer("header_register_callback(function () { header('X-Late: 1'); }); echo 1;");
    assert_eq!(answer.values("x-late"), ["1"]);
    assert!(stage.answer("echo 1;").values("x-late").is_empty());
}

#[test]
fn output_buffers_end_with_the_request() {
    let mut stage = Stage::new("output_buffering=0\n", "echo 'boot'; ob_start();");
    assert_eq!(
        stage.run("ob_start(fn ($t) => strtoupper($t)); ob_start(); echo 'abc'; echo ob_get_level();"),
        "ABC2"
    );
    assert_eq!(stage.run("echo ob_get_level();"), "0");
    assert_eq!(stage.run("output_reset_rewrite_vars(); ob_implicit_flush(); echo 'x';"), "x");
    let mut buffered = Stage::new("output_buffering=4096\n", "");
    for _ in 0..2 {
        assert_eq!(buffered.run("echo ob_get_level(); header('X: 1');"), "1");
    }
}

#[test]
fn what_is_printed_between_requests_is_dropped() {
    let code = "echo 'boot'; do { $go = millrace_handle_request(function () { echo 'in'; }); echo 'between'; header('X: 1'); \
        ob_start(); echo 'more'; } while ($go);";
    let mut stage = Stage::with("display_errors=0\nlog_errors=0\n", code, &[]);
    for _ in 0..3 {
        let answer = stage.answer("");
        assert_eq!((&answer.text()[..], answer.values("x").len()), ("in", 0));
    }
}

#[test]
fn compression_is_negotiated_each_time() {
    let mut stage = Stage::new("zlib.output_compression=1\n", "");
    let code = "echo str_repeat('x', 5000);";
    for coding in ["gzip", "", "gzip", ""] {
        let ask = stage.ask(code).set("HTTP_ACCEPT_ENCODING", coding);
        let answer = stage.worker.run(&ask);
        assert_eq!(answer.values("content-encoding"), if coding.is_empty() { vec![] } else { vec![coding] });
        assert_eq!(answer.body.len() == 5000, coding.is_empty());
    }
}

#[test]
fn exit_ends_the_request_alone() {
    let mut stage = Stage::new("", "$GLOBALS['n'] = 0;");
    assert_eq!(stage.run("$GLOBALS['n']++; echo 'a'; exit; echo 'b';"), "a");
    assert_eq!(stage.run("register_shutdown_function(function () { echo 'down'; }); die('bye');"), "byedown");
    assert_eq!(stage.run("register_shutdown_function(function () { echo 'x'; exit; }); exit(3);"), "x");
    assert_eq!(
        stage.run("function f() { try { exit; } finally { echo 'no'; } } ob_start(); echo 'kept'; f();"),
        "kept"
    );
    assert_eq!(stage.run("echo $GLOBALS['n'];"), "1");
}

#[test]
fn an_exception_is_a_500_and_the_script_goes_on() {
    let mut stage = Stage::new("", "$GLOBALS['n'] = 7;");
    for _ in 0..3 {
        let answer = stage.answer("throw new RuntimeException('oh');");
        assert_eq!((answer.status, answer.end.failed, answer.end.exiting), (500, true, false));
        assert!(answer.log.iter().any(|l| l.contains("Uncaught RuntimeException: oh")), "{:?}", answer.log);
    }
    assert_eq!(stage.run("echo $GLOBALS['n'], json_encode(error_get_last());"), "7null");
    assert_eq!(stage.run("set_exception_handler(function ($e) { echo 'caught ', $e->getMessage(); }); throw new Exception('x');"), "caught x");
}

#[test]
fn shutdown_functions_run_at_the_end_of_their_request() {
    let boot = "register_shutdown_function(function () { error_log('end of the script'); });";
    let mut stage = Stage::with("", &format!("{boot}{LOOP}"), &["--max-requests", "4"]);
    let code = "register_shutdown_function(function ($x) { echo $x; register_shutdown_function(function () { echo 'inner'; }); }, 'outer'); echo 'body ';";
    assert_eq!(stage.run(code), "body outerinner");
    assert_eq!(stage.run("echo 'next';"), "next");
    let answer = stage.answer("register_shutdown_function(function () { throw new Exception('late'); });");
    assert!(answer.end.failed && !answer.end.exiting);
    assert!(stage.answer("").end.exiting);
    assert_eq!(stage.worker.next(), Sent::Log("end of the script".into()));
}

#[test]
fn a_fatal_error_is_answered_and_ends_the_worker() {
    for (code, message) in [
        (
            "register_shutdown_function(function () { echo 'down', error_get_last()['type']; }); echo 'a'; ini_set('memory_limit', '8M'); str_repeat('x', 100_000_000);",
            "Allowed memory size",
        ),
        (
            "register_shutdown_function(function () { echo 'down', error_get_last()['type']; }); echo 'a'; trigger_error('end', E_USER_ERROR);",
            "end",
        ),
        (
            "register_shutdown_function(function () { trigger_error('late', E_USER_ERROR); }); echo 'a';",
            "late",
        ),
        ("ob_start(function ($t) { trigger_error('in a buffer', E_USER_ERROR); }); echo 'a';", "in a buffer"),
    ] {
        let mut stage = Stage::new("", "register_shutdown_function(function () { echo ' boot'; });");
        let answer = stage.answer(code);
        assert!(answer.end.failed && answer.end.exiting, "{code} {answer:?}");
        assert!(answer.log.iter().any(|line| line.contains(message)), "{:?}", answer.log);
        if code.contains("'down'") {
            assert!(answer.text().contains(" bootdown"), "{code}: {answer:?}");
        }
        stage.next_worker();
        assert_eq!(stage.run("echo 'fine';"), "fine");
    }
}

#[test]
fn ini_values_are_put_back() {
    let boot = "ini_set('precision', '5'); ini_set('user_agent', 'boot'); set_time_limit(77);";
    let mut stage = Stage::new("max_execution_time=30\n", boot);
    let show = "echo json_encode(array_map('ini_get', ['precision', 'user_agent', 'max_execution_time', 'memory_limit', \
        'ignore_user_abort', 'display_errors', 'date.timezone', 'error_reporting']));";
    let first = stage.run(show);
    assert!(first.starts_with(r#"["5","boot","77","#), "{first}");
    let change = "ini_set('precision', '7'); ini_restore('user_agent'); set_time_limit(3); ini_set('memory_limit', '77M'); \
        ignore_user_abort(true); ini_set('display_errors', '1'); ini_set('date.timezone', 'Asia/Tokyo'); error_reporting(0);";
    for _ in 0..3 {
        stage.run(change);
        assert_eq!(stage.run(show), first);
    }
}

#[test]
fn the_process_is_put_back() {
    let boot = "chdir(sys_get_temp_dir()); umask(027); setlocale(LC_CTYPE, 'C.UTF-8'); date_default_timezone_set('Europe/Berlin');";
    let mut stage = Stage::new("", boot);
    let show = "echo getcwd(), decoct(umask()), setlocale(LC_CTYPE, 0), date_default_timezone_get();";
    let first = stage.run(show);
    assert!(first.ends_with("27C.UTF-8Europe/Berlin"), "{first}");
    for _ in 0..3 {
        stage.run("chdir('/'); umask(0); setlocale(LC_ALL, 'C'); date_default_timezone_set('Asia/Tokyo');");
        assert_eq!(stage.run(show), first);
    }
}

#[test]
fn random_numbers_are_not_repeated() {
    let mut stage = Stage::new("", "mt_srand(1);");
    let a = stage.run("mt_srand(42); echo mt_rand();");
    let b = stage.run("echo mt_rand();");
    let c = stage.run("mt_srand(42); mt_rand(); echo mt_rand();");
    assert_ne!(b, c, "the seed of another request");
    assert_eq!(a, stage.run("mt_srand(42); echo mt_rand();"));
}

#[test]
fn sessions() {
    let folder = Folder::new();
    let ini = format!("session.save_path={}\nsession.use_strict_mode=0\n", folder.0.display());
    let mut stage = Stage::new(&ini, "");
    let count = "session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; echo session_id(), ':', $_SESSION['n'];";
    let with = |stage: &mut Stage, id: &str| {
        let ask = stage.ask(count).set("HTTP_COOKIE", &format!("PHPSESSID={id}"));
        stage.worker.run(&ask)
    };
    assert_eq!(with(&mut stage, "aaaaaaaaaaaaaaaaaaaaaaaaaa").text(), "aaaaaaaaaaaaaaaaaaaaaaaaaa:1");
    assert_eq!(with(&mut stage, "bbbbbbbbbbbbbbbbbbbbbbbbbb").text(), "bbbbbbbbbbbbbbbbbbbbbbbbbb:1");
    assert_eq!(with(&mut stage, "aaaaaaaaaaaaaaaaaaaaaaaaaa").text(), "aaaaaaaaaaaaaaaaaaaaaaaaaa:2");
    assert_eq!(
        stage.run("echo session_status(), session_id(), isset($_SESSION) ? 'left' : 'none';"),
        "1none"
    );
    // Without a cookie each visitor gets one of his own.
    let (one, two) = (stage.answer(count), stage.answer(count));
    assert_ne!(one.text(), two.text());
    assert_eq!((one.values("set-cookie").len(), two.values("set-cookie").len()), (1, 1));
}

#[test]
fn a_save_handler_of_the_boot_stays_and_one_of_a_request_does_not() {
    let boot = "class Own implements SessionHandlerInterface { public static $data = []; \
        function open($p, $n): bool { return true; } function close(): bool { return true; } \
        function read($i): string { return self::$data[$i] ?? ''; } function write($i, $d): bool { self::$data[$i] = $d; return true; } \
        function destroy($i): bool { return true; } function gc($m): int { return 0; } }";
    let count = "session_id('x'); session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; echo $_SESSION['n'], ini_get('session.save_handler');";
    let folder = Folder::new();
    let ini = format!("session.save_path={}\n", folder.0.display());
    let mut stage = Stage::new(&ini, &format!("{boot} session_set_save_handler(new Own());"));
    for n in 1..=3 {
        assert_eq!(stage.run(count), format!("{n}user"));
    }
    let mut other = Stage::new(&ini, boot);
    for n in 1..=3 {
        assert_eq!(other.run(&format!("session_set_save_handler(new Own()); {count}")), format!("{n}user"));
        assert_eq!(other.run(count), format!("{n}files"));
    }
}

#[test]
fn filters_see_this_request() {
    let mut stage = Stage::new("", "");
    for value in ["1", "2"] {
        let ask = stage.ask("echo filter_input(INPUT_GET, 'a'), filter_input(INPUT_COOKIE, 'c'), filter_input(INPUT_SERVER, 'QUERY_STRING');");
        let ask = ask.set("QUERY_STRING", &format!("a={value}")).set("HTTP_COOKIE", &format!("c={value}"));
        assert_eq!(stage.worker.run(&ask).text(), format!("{value}{value}a={value}"));
    }
    assert_eq!(
        stage.run("echo json_encode([filter_input(INPUT_GET, 'a'), filter_input(INPUT_COOKIE, 'c')]);"),
        "[null,null]"
    );
}

#[test]
fn passwords_of_one_request_are_not_the_next_ones() {
    let mut stage = Stage::new("", "");
    let show = "echo $_SERVER['PHP_AUTH_USER'] ?? 'nobody';";
    let ask = stage.ask(show).set("HTTP_AUTHORIZATION", "Basic YWxpY2U6c2VjcmV0");
    assert_eq!(stage.worker.run(&ask).text(), "alice");
    assert_eq!(stage.run(show), "nobody");
}

#[test]
fn finishing_early_goes_on_in_the_background() {
    let mut stage = Stage::new("", "");
    let ask = stage.ask("echo 'page'; fastcgi_finish_request(); echo 'dropped'; $GLOBALS['later'] = 'done';");
    stage.worker.send(&ask);
    let answer = stage.worker.answer();
    assert_eq!((&answer.text()[..], answer.end.ready), ("page", false));
    assert_eq!(stage.run("echo $GLOBALS['later'];"), "done");
}

#[test]
fn a_client_that_goes_ends_the_request_alone() {
    let mut stage = Stage::new("output_buffering=0\n", "$GLOBALS['n'] = 0;");
    let code = "$GLOBALS['n']++; register_shutdown_function(function () { $GLOBALS['status'] = connection_status(); }); \
        for ($i = 0; $i < 2000; $i++) { echo 'x'; flush(); usleep(1000); } $GLOBALS['n'] = 'came to the end';";
    let ask = stage.ask(code);
    let sequence = stage.worker.send(&ask);
    assert!(matches!(stage.worker.next(), Sent::Head(..)));
    stage.host.client_gone(0, sequence);
    let end = loop {
        if let Sent::End(end) = stage.worker.next() {
            break end;
        }
    };
    assert!(end.aborted && end.ready && !end.exiting && !end.failed, "{end:?}");
    assert_eq!(stage.run("echo $GLOBALS['n'], $GLOBALS['status'], connection_status();"), "110");
    let ask = stage.ask(&code.replace("2000", "20").replace("$GLOBALS['n']++;", "ignore_user_abort(true);"));
    let sequence = stage.worker.send(&ask);
    stage.host.client_gone(0, sequence);
    while !matches!(stage.worker.next(), Sent::End(_)) {}
    assert_eq!(stage.run("echo $GLOBALS['n'];"), "came to the end");
}

#[test]
fn the_time_limit_is_each_requests_own() {
    let mut stage = Stage::new("max_execution_time=1\n", "");
    let burn = "$end = hrtime(true) + 7e8; while (hrtime(true) < $end) { } echo 'ok';";
    for _ in 0..3 {
        assert_eq!(stage.run(burn), "ok", "0.7 s each are less than the limit, together more");
    }
    let answer = stage.answer("while (true) { }");
    assert!(answer.log.iter().any(|line| line.contains("Maximum execution time")), "{:?}", answer.log);
    assert!(answer.end.exiting);
}

#[test]
fn memory_is_given_back() {
    let mut stage = Stage::new(
        "",
        "class Node { public $self; public $data; function __construct() { $this->self = $this; $this->data = str_repeat('x', 1000); } }",
    );
    stage.run("str_repeat('x', 50_000_000);");
    let peak = stage.run("echo memory_get_peak_usage();").parse::<u64>().unwrap();
    assert!(peak < 10_000_000, "the peak of another request: {peak}");
    let usage = |stage: &mut Stage| stage.run("echo memory_get_usage();").parse::<i64>().unwrap();
    let before = usage(&mut stage);
    for _ in 0..100 {
        stage.run("for ($i = 0; $i < 300; $i++) { new Node(); } $_GET['big'] = str_repeat('y', 1_000_000);");
    }
    let grown = usage(&mut stage) - before;
    // 30,000 nodes are 40 MB; as many as PHP's collector lets stand are there.
    assert!(grown < 8_000_000, "{grown} bytes are left");
}

#[test]
fn a_limit_of_requests_ends_the_script() {
    let mut stage = Stage::with("", &format!("{LOOP} error_log('over');"), &["--max-requests", "3"]);
    assert_eq!((stage.run("echo 1;"), stage.run("echo 2;")), ("1".into(), "2".into()));
    let answer = stage.answer("echo 3;");
    assert_eq!((&answer.text()[..], answer.end.exiting), ("3", true));
    assert_eq!((stage.worker.next(), stage.worker.next()), (Sent::Log("over".into()), Sent::Closed));
}

#[test]
fn a_script_that_leaves_its_loop_ends_the_worker() {
    let mut stage =
        Stage::with("", "for ($i = 0; $i < 2; $i++) { millrace_handle_request(fn () => print('x')); }", &[]);
    for _ in 0..2 {
        assert_eq!(stage.answer("").text(), "x");
    }
    assert_eq!(stage.worker.next(), Sent::Closed);
}

#[test]
fn a_boot_that_fails_says_why() {
    for (code, expected) in [
        ("echo 'Hello';", "it ended without calling millrace_handle_request()"),
        ("exit;", "it ended without calling millrace_handle_request()"),
        ("throw new LogicException('no database');", "Uncaught LogicException: no database in "),
        ("echo 1 +;", "syntax error"),
        ("require 'missing.php';", "missing.php"),
    ] {
        let (mut stage, (booted, _)) = Stage::try_with("", code, &[]);
        let message = booted.unwrap_err();
        assert!(message.contains(expected), "{message}");
        assert!(!message.contains('\n'));
        assert_eq!(stage.worker.next(), Sent::Closed);
        let pid = stage.worker.pid;
        assert_eq!(stage.host.exited(pid).0, 0);
    }
}

#[test]
fn a_handler_cannot_call_it_and_must_be_callable() {
    let mut stage = Stage::new(
        "",
        "try { millrace_handle_request('no_such_function'); } catch (TypeError $e) { $GLOBALS['e'] = $e->getMessage(); }",
    );
    assert!(stage.run("echo $GLOBALS['e'];").contains("must be a valid callback"));
    let code = "try { millrace_handle_request(fn () => 1); } catch (Error $e) { echo $e->getMessage(); }";
    assert_eq!(stage.run(code), "millrace_handle_request() cannot be called by a handler");
}

#[test]
fn the_name_that_frankenphp_gave_it() {
    let code = "if (!$_SERVER['FRANKENPHP_WORKER']) exit; while (frankenphp_handle_request(function () { \
        echo $_SERVER['FRANKENPHP_WORKER'], $_SERVER['MILLRACE_WORKER'], getenv('FRANKENPHP_WORKER'); })) { }";
    let mut stage = Stage::with("", code, &[]);
    for _ in 0..2 {
        assert_eq!(stage.answer("").text(), "111");
    }
}

#[test]
fn a_script_of_one_request_runs_its_handler_once() {
    let mut host = Host::start(INI, &[]);
    let mut worker = host.worker(0);
    let script = host.script(
        "one.php",
        "<?php $n = 0; while (millrace_handle_request(function () use (&$n) { echo ++$n, $_GET['a']; })) { } \
         echo function_exists('frankenphp_handle_request') ? 'f' : '';",
    );
    for a in ["x", "y"] {
        assert_eq!(
            worker.run(&Ask::get(&script).set("QUERY_STRING", &format!("a={a}"))).text(),
            format!("1{a}")
        );
    }
}

#[test]
fn a_changed_file_ends_the_worker() {
    let part = "file_exists($f = __DIR__ . '/part.php') || file_put_contents($f, '<?php function part() { return 1; }'); require $f;";
    let mut stage = Stage::new("", part);
    assert_eq!(stage.run("echo part();"), "1");
    std::fs::write(stage.folder.0.join("part.php"), "<?php function part() { return 22; }").unwrap();
    // Idle: it looks by itself every two seconds.
    loop {
        match stage.worker.next() {
            Sent::Log(text) => assert!(text.contains("part.php has changed"), "{text}"),
            Sent::Closed => break,
            other => panic!("{other:?}"),
        }
    }
    stage.next_worker();
    assert_eq!(stage.run("echo part();"), "22");
    std::fs::write(stage.folder.0.join("part.php"), "<?php function part() { return 333; }").unwrap();
    // Busy: with an answer.
    let start = Instant::now();
    while !stage.answer("usleep(100000);").end.exiting {
        assert!(start.elapsed() < PATIENCE);
    }
    assert_eq!(stage.worker.next(), Sent::Closed);
    stage.next_worker();
    assert_eq!(stage.run("echo part();"), "333");
}

#[test]
fn files_are_not_looked_at_where_opcache_does_not() {
    let mut stage = Stage::new("opcache.validate_timestamps=0\n", "");
    std::fs::write(stage.folder.script(), "<?php broken").unwrap();
    assert!(!stage.worker.speaks_within(Duration::from_secs(5)));
    assert_eq!(stage.run("echo 1;"), "1");
}

#[test]
fn sigterm_and_offers() {
    let mut stage = Stage::new("", "");
    let (busy, next) = (stage.ask("usleep(200000); echo 'busy';"), stage.ask("echo 'next';"));
    stage.worker.send(&busy);
    let sequence = stage.worker.offer(&stage.host, &next);
    assert_eq!(stage.worker.answer().text(), "busy");
    assert_eq!(stage.worker.answer_offered().text(), "next");
    assert_eq!(stage.host.offered(0, sequence), sequence * 2 + 1);
    let go = stage.folder.0.join("go");
    let wait = format!("while (!file_exists('{}')) {{ usleep(1000); }}", go.display());
    stage.worker.send(&stage.ask(&format!("error_log('begun'); {wait} echo 'busy';")));
    assert_eq!(stage.worker.next(), Sent::Log("begun".into()));
    kill_process(Pid::from_raw(stage.worker.pid as i32).unwrap(), Signal::TERM).unwrap();
    std::fs::write(go, "").unwrap();
    let answer = stage.worker.answer();
    assert_eq!((&answer.text()[..], answer.end.exiting), ("busy", true));
    let pid = stage.worker.pid;
    assert_eq!(stage.host.exited(pid).0, 0);
}

#[test]
fn a_handler_whose_time_is_up_is_answered_and_ends_the_worker() {
    let mut stage = Stage::new("display_errors=0\n", "register_shutdown_function(fn() => print('bye'));");
    let first = stage.answer("echo 'first';");
    assert_eq!((first.text().as_str(), first.end.failed), ("first", false));
    let sequence = stage.worker.send(&stage.ask("error_log('begun'); while (true) { }"));
    assert_eq!(stage.worker.next(), Sent::Log("begun".into()));
    stage.host.terminate(0, sequence);
    kill_process(Pid::from_raw(stage.worker.pid as i32).unwrap(), Signal::URG).unwrap();
    let answer = stage.worker.answer();
    assert_eq!((answer.status, answer.text().as_str()), (504, "bye"));
    assert!(answer.end.failed && answer.end.exiting, "{answer:?}");
    assert!(answer.log.iter().any(|line| line.contains("Maximum wall-clock time exceeded")), "{answer:?}");
    stage.next_worker();
    assert_eq!(stage.run("echo 'next';"), "next");
}

#[test]
fn a_signal_between_two_requests_ends_nothing() {
    let mut stage = Stage::new("", "");
    assert_eq!(stage.run("echo 'first';"), "first");
    kill_process(Pid::from_raw(stage.worker.pid as i32).unwrap(), Signal::URG).unwrap();
    stage.host.let_go(0, false);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(stage.run("echo 'second';"), "second");
}
