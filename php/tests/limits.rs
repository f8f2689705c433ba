//! Requests whose time is up, workers that crash, and where a worker is.

mod driver;

use std::time::Duration;

use driver::{Answer, Ask, Host, Sent, Worker};
use millrace_wire::frames;
use rustix::process::{Pid, Signal, kill_process};

const OPCACHE: &str = "zend_extension=opcache\nopcache.file_update_protection=0\n";

/// Built with AddressSanitizer: it tells crashes itself.
const SANITIZED: bool = option_env!("MILLRACE_ASAN").is_some();

fn start(more: &str) -> (Host, Worker) {
    let mut host = Host::start(&format!("{OPCACHE}{more}"), &[]);
    let worker = host.worker(0);
    (host, worker)
}

/// Runs a script that says in the log that it has begun, and waits for that.
fn begin(host: &Host, worker: &mut Worker, code: &str) -> u64 {
    let script = host.script("x.php", &format!("<?php\n{code}"));
    let sequence = worker.send(&Ask::get(&script));
    assert_eq!(worker.next(), Sent::Log("begun".into()));
    // It goes on to what it waits in.
    std::thread::sleep(Duration::from_millis(60));
    sequence
}

/// What the server does when the time of a request is up, until the answer has come.
fn end(host: &Host, worker: &mut Worker, sequence: u64) -> Answer {
    host.terminate(0, sequence);
    kill_process(Pid::from_raw(worker.pid as i32).unwrap(), Signal::URG).unwrap();
    // Again and again: it may not be in its wait yet.
    let is_acknowledged = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        let waits = host.board64(0, frames::SLOT_TERMINATE) != 0;
        if waits {
            host.let_go(0, false);
        }
        !waits
    });
    assert!(is_acknowledged, "it waits on");
    worker.answer()
}

/// Runs `code`, which would take longer than the driver's patience, and ends it.
fn ended(code: &str) -> Answer {
    let (host, mut worker) = start("display_errors=0\n");
    let sequence = begin(&host, &mut worker, code);
    let answer = end(&host, &mut worker, sequence);
    assert!(answer.end.failed && answer.end.ready && !answer.end.exiting, "{answer:?}");
    assert_eq!(host.board64(0, frames::SLOT_TERMINATE), 0);
    // The worker serves on.
    let script = host.script("next.php", "<?php echo 'next';");
    let next = worker.run(&Ask::get(&script));
    assert_eq!((next.status, next.text().as_str(), next.end.failed), (200, "next", false));
    answer
}

#[test]
fn an_endless_loop_is_ended() {
    let answer = ended("error_log('begun'); while (true) { }");
    assert_eq!((answer.status, answer.text().as_str()), (504, ""));
    let log = answer.log.join("\n");
    assert!(log.contains("Maximum wall-clock time exceeded: terminated after "), "{log}");
    assert!(log.contains("x.php on line 2") || log.contains("x.php:2"), "{log}");
}

#[test]
fn a_sleep_is_ended_early() {
    for code in [
        "error_log('begun'); sleep(30); echo 'slept'; function f() { } f();",
        // A script that comes to its end after what was cut short is not taken at its word.
        "error_log('begun'); sleep(30);",
        "error_log('begun'); usleep(30_000_000); for ($i = 0; $i < 2; $i++) { }",
        "error_log('begun'); $s = [STREAM_PF_UNIX]; $s = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); \
         $r = [$s[0]]; $w = $e = null; @stream_select($r, $w, $e, 30);",
    ] {
        let answer = ended(code);
        assert_eq!(answer.status, 504, "{code}");
    }
}

#[test]
fn a_lock_is_not_waited_for_any_more() {
    let answer = ended(
        "$a = fopen(__FILE__, 'r'); flock($a, LOCK_EX); $b = fopen(__FILE__, 'r'); error_log('begun'); \
         flock($b, LOCK_EX); function f() { } f(); echo 'not this';",
    );
    assert_eq!((answer.status, answer.text().as_str()), (504, ""));
}

/// PHP begins to wait again after a signal: as mysqli does.
#[test]
fn a_socket_that_is_waited_for_is_shut_down() {
    let answer = ended(
        "$s = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); error_log('begun'); \
         $got = fread($s[0], 100); function f() { } f(); echo 'not this';",
    );
    assert_eq!((answer.status, answer.text().as_str()), (504, ""));
}

/// Otherwise only killing would help: PHP waits for the program's end.
#[test]
fn a_program_that_is_waited_for_is_ended() {
    for call in [
        "exec('sleep 31'); ",
        "echo shell_exec('sleep 31; echo more'); ",
        "passthru('sleep 31 | cat'); ",
        "$p = proc_open(['sleep', '31'], [1 => ['pipe', 'w']], $ends); fgets($ends[1]); ",
        // Its standard output is the pipe that exec() reads to its end.
        "exec('sleep 3 &'); ",
    ] {
        let code = format!("error_log('begun'); {call} function f() {{ }} f(); echo 'not this';");
        let answer = ended(&code);
        assert_eq!((answer.status, answer.text().as_str()), (504, ""), "{call}");
    }
}

#[test]
fn a_program_that_does_not_end_is_killed_and_one_in_the_background_is_not() {
    let (host, mut worker) = start("display_errors=0\n");
    let before = "<?php $p = proc_open(['sleep', '30'], [], $ends); echo proc_get_status($p)['pid'];";
    let before = worker.run(&Ask::get(&host.script("before.php", before))).text();
    std::thread::sleep(Duration::from_millis(100));
    let code = "exec('sleep 32 >/dev/null 2>&1 & echo $!', $out); file_put_contents(__DIR__ . '/pid', $out[0]); \
                error_log('begun'); exec(\"trap '' TERM; sleep 33; sleep 34; sleep 35\");";
    let sequence = begin(&host, &mut worker, code);
    host.terminate(0, sequence);
    host.let_go(0, false);
    assert!(!worker.speaks_within(Duration::from_millis(200)), "the shell ends by SIGTERM");
    host.let_go(0, true);
    assert_eq!(worker.answer().status, 504);
    let background = std::fs::read_to_string(host.root.join("pid")).unwrap();
    for (pid, expected) in [(background, b"sleep\x0032\0"), (before, b"sleep\x0030\0")] {
        assert_eq!(std::fs::read(format!("/proc/{pid}/cmdline")).unwrap(), expected);
        kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    }
}

#[test]
fn shutdown_functions_and_buffers_have_their_say() {
    let answer = ended(
        "ob_start(fn($text) => strtoupper($text)); register_shutdown_function(function () { echo 'bye'; error_log('shut down'); }); \
         echo 'so far '; error_log('begun'); while (true) { }",
    );
    assert_eq!((answer.status, answer.text().as_str()), (504, "SO FAR BYE"));
    assert!(answer.log.iter().any(|line| line == "shut down"), "{answer:?}");
}

#[test]
fn a_status_of_the_shutdown_function_holds() {
    let answer = ended(
        "register_shutdown_function(function () { http_response_code(500); header('X-Page: error'); echo 'an error page'; }); \
         header('HTTP/1.1 200 Fine'); error_log('begun'); while (true) { }",
    );
    assert_eq!((answer.status, answer.text().as_str()), (500, "an error page"));
    assert_eq!(answer.values("X-Page"), ["error"]);
}

#[test]
fn what_was_sent_stays_sent() {
    let (host, mut worker) = start("display_errors=0\n");
    let sequence = begin(
        &host,
        &mut worker,
        "register_shutdown_function(fn() => print('bye')); header('X: y'); \
         error_log('begun'); echo 'some'; flush(); while (true) { }",
    );
    assert!(matches!(worker.next(), Sent::Head(200, ..)));
    assert_eq!(worker.next(), Sent::Body(b"some".to_vec()));
    host.terminate(0, sequence);
    kill_process(Pid::from_raw(worker.pid as i32).unwrap(), Signal::URG).unwrap();
    assert!(matches!(worker.next(), Sent::Log(text) if text.contains("wall-clock")));
    assert_eq!(worker.next(), Sent::Body(b"bye".to_vec()));
    assert!(matches!(worker.next(), Sent::End(end) if end.failed && end.ready));
}

#[test]
fn work_after_the_answer_is_ended_too() {
    let (host, mut worker) = start("");
    let script = host
        .script("x.php", "<?php echo 'x'; fastcgi_finish_request(); error_log('begun'); while (true) { }");
    let sequence = worker.send(&Ask::get(&script));
    assert!(matches!(worker.next(), Sent::Head(200, ..)));
    assert_eq!(worker.next(), Sent::Body(b"x".to_vec()));
    assert!(matches!(worker.next(), Sent::End(end) if !end.ready));
    assert_eq!(worker.next(), Sent::Log("begun".into()));
    host.terminate(0, sequence);
    kill_process(Pid::from_raw(worker.pid as i32).unwrap(), Signal::URG).unwrap();
    assert!(matches!(worker.next(), Sent::Log(text) if text.contains("wall-clock")));
    assert!(matches!(worker.next(), Sent::Ready(end) if end.failed));
}

/// Milliseconds that the scoreboard has while the script runs: at least, at most.
#[test]
fn the_scoreboard_has_the_time_that_a_script_asks_for() {
    let (host, mut worker) = start("max_execution_time=30\n");
    for (number, (code, least, most)) in [
        ("", 0, 0),
        ("set_time_limit(0);", u64::MAX, u64::MAX),
        ("", 0, 0),
        ("ini_set('max_execution_time', 600);", 600_000, 660_000),
        // It is counted from the call on, as PHP counts it, and the last one holds.
        ("set_time_limit(0); usleep(50000); set_time_limit(100);", 100_040, 160_000),
        ("ini_set('max_execution_time', '-1');", u64::MAX, u64::MAX),
        ("ini_set('memory_limit', '1G');", 0, 0),
    ]
    .into_iter()
    .enumerate()
    {
        let waits =
            "error_log('begun'); while (!file_exists(__FILE__ . '.go')) { usleep(1000); clearstatcache(); }";
        let script = host.script(&format!("{number}.php"), &format!("<?php {code} {waits}"));
        worker.send(&Ask::get(&script));
        assert_eq!(worker.next(), Sent::Log("begun".into()));
        let asked = host.board64(0, frames::SLOT_ASKED_MS);
        host.script(&format!("{number}.php.go"), "");
        assert_eq!(worker.answer().status, 200, "{code}");
        assert!((least..=most).contains(&asked), "{code}: {asked}");
    }
}

#[test]
fn a_signal_about_another_request_changes_nothing() {
    let (host, mut worker) = start("");
    let code = "error_log('begun'); $left = 300_000; while ($left > 0) { $t = hrtime(true); usleep($left); \
                $left -= intdiv(hrtime(true) - $t, 1000); } echo 'done';";
    let sequence = begin(&host, &mut worker, code);
    host.terminate(0, sequence + 1);
    kill_process(Pid::from_raw(worker.pid as i32).unwrap(), Signal::URG).unwrap();
    host.let_go(0, false);
    let answer = worker.answer();
    assert_eq!((answer.status, answer.text().as_str(), answer.end.failed), (200, "done", false));
}

#[test]
fn it_is_ended_in_the_file_that_runs_before_the_script() {
    let (host, mut worker) = start("display_errors=0\n");
    let inject = host.script("inject.php", "<?php error_log('begun'); while (true) { }");
    let script = host.script("x.php", "<?php error_log('not this'); echo 'x';");
    let ask = Ask::get(&script).set(frames::INJECT_VARIABLE, inject.to_str().unwrap());
    let sequence = worker.send(&ask);
    assert_eq!(worker.next(), Sent::Log("begun".into()));
    let answer = end(&host, &mut worker, sequence);
    assert_eq!((answer.status, answer.text().as_str()), (504, ""));
    assert!(!answer.log.iter().any(|line| line == "not this"), "{answer:?}");
}

#[test]
fn a_trace_names_frames_and_what_is_waited_for() {
    let (mut host, mut worker) = start("");
    host.script("inner.php", "<?php\nfunction nap() {\n  sleep(20);\n}\nfinal class Deep { static function down($n) {\n  $n ? self::down($n - 1) : nap();\n} }\n(function () {\n  Deep::down(2); })();\n");
    let sequence = begin(&host, &mut worker, "error_log('begun');\ninclude __DIR__ . '/inner.php';");
    let (traced, text) = host.trace(0);
    assert_eq!(traced, sequence);
    let root = host.root.to_str().unwrap();
    let expected = format!(
        "sleep()\n#0 sleep()\n#1 nap() in {root}/inner.php:3\n#2 Deep::down() in {root}/inner.php:6\n\
         #3 Deep::down() in {root}/inner.php:6\n#4 Deep::down() in {root}/inner.php:6\n\
         #5 {{closure}}() in {root}/inner.php:9\n#6 include in {root}/inner.php:9\n#7 {{main}} in {root}/x.php:3"
    );
    // PHP 8.4 names the place of a closure, too.
    assert_eq!(text.replace(&format!("{{closure:{root}/inner.php:8}}"), "{closure}"), expected);
    // The sleep was not disturbed.
    assert!(!worker.speaks_within(Duration::from_millis(200)));
}

#[test]
fn a_trace_says_what_a_socket_leads_to() {
    let (mut host, mut worker) = start("");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    begin(&host, &mut worker, &format!("$s = fsockopen('tcp://{address}'); error_log('begun');\nfgets($s);"));
    let (_, text) = host.trace(0);
    let first = text.lines().next().unwrap();
    assert!(first.ends_with(&format!(" for {address}")), "{text}");
    assert!(text.contains("\n#0 fgets()\n#1 {main} in "), "{text}");
}

#[test]
fn a_trace_of_a_loop_and_of_nothing() {
    let (mut host, mut worker) = start("");
    let (sequence, text) = host.trace(0);
    assert_eq!(sequence, 0);
    assert!(text.ends_with('\n') && text.lines().count() <= 1, "no frames: {text:?}");
    begin(
        &host,
        &mut worker,
        "error_log('begun'); function f($n) { $n && f($n - 1); while (true) { } } f(100);",
    );
    let (_, text) = host.trace(0);
    assert!(text.starts_with("running\n#0 f() in "), "{text}");
    assert!(text.ends_with("\n..."), "{text}");
    assert_eq!(text.lines().count(), 42);
}

/// Memory that changes while it is read gives a text all the same.
#[test]
fn traces_of_a_busy_worker() {
    let (mut host, mut worker) = start("");
    begin(
        &host,
        &mut worker,
        "error_log('begun'); function f($n) { return $n ? f($n - 1) + array_sum(array_map(fn($x) => strlen(\"$x\"), [1, 2])) : 0; } \
         while (true) { eval('function g' . mt_rand() . '() { return f(9); }'); f(5); }",
    );
    for _ in 0..500 {
        let (_, text) = host.trace(0);
        assert!(text.len() <= frames::TRACE_MAX);
    }
}

#[test]
fn a_crash_leaves_its_place() {
    let (mut host, mut worker) = start("");
    begin(
        &host,
        &mut worker,
        "function crash() {\n exec('kill -SEGV ' . getmypid()); usleep(20_000_000); }\nerror_log('begun');\ncrash();",
    );
    let status = host.exited(worker.pid).0;
    if SANITIZED {
        return;
    }
    assert_eq!(status & 0x7f, 11);
    let root = host.root.to_str().unwrap();
    assert!(host.report.starts_with("sent by process "), "{}", host.report);
    assert!(
        host.report.ends_with(&format!("crash() in {root}/x.php:3\n#2 {{main}} in {root}/x.php:5")),
        "{}",
        host.report
    );
    // Nothing of it is left for the next one.
    let other = host.worker(0);
    kill_process(Pid::from_raw(other.pid as i32).unwrap(), Signal::KILL).unwrap();
    assert_eq!(host.exited(other.pid).0, 9);
    assert_eq!(host.report, "");
}

#[test]
fn a_stack_that_is_used_up() {
    // PHP 8.3 would throw an error before the stack ends.
    let (mut host, mut worker) = start("memory_limit=-1\nzend.max_allowed_stack_size=-1\n");
    begin(
        &host,
        &mut worker,
        "error_log('begun');\nfunction down($n) { array_map('down', [$n + 1]); }\ndown(1);",
    );
    let status = host.exited(worker.pid).0;
    if SANITIZED {
        return;
    }
    assert_eq!(status & 0x7f, 11);
    let text = &host.report;
    assert!(text.starts_with("stack overflow: endless recursion?\n#0 "), "{text}");
    assert!(text.contains("down() in ") && text.ends_with("\n..."), "{text}");
}
