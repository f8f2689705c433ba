//! Life and death of host and workers, and what must not go from one request to the next.

mod driver;

use std::time::{Duration, Instant};

use driver::{Ask, Event, Host, PATIENCE, Sent, Worker};
use millrace_wire::frames;
use rustix::process::{Pid, Signal, kill_process};

const OPCACHE: &str = "zend_extension=opcache\nopcache.file_update_protection=0\n";

/// Built with AddressSanitizer: it catches crashes itself and keeps freed memory for a while.
const SANITIZED: bool = option_env!("MILLRACE_ASAN").is_some();

fn start(more: &str, options: &[&str]) -> (Host, Worker) {
    let mut host = Host::start(&format!("{OPCACHE}{more}"), options);
    let worker = host.worker(0);
    (host, worker)
}

fn send_signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A script that says in the log that it runs, waits for the file `go` and then prints its process id.
fn waiting(host: &Host) -> std::path::PathBuf {
    host.script(
        "waiting.php",
        "<?php error_log('runs'); while (!file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); } echo getmypid();",
    )
}

fn go(host: &Host) {
    std::fs::write(host.root.join("go"), "").unwrap();
}

#[test]
fn the_host_says_what_opcache_and_settings_are_like_now() {
    let (mut host, mut worker) = start("memory_limit=99M\n", &[]);
    let script = host.script("a.php", "<?php echo 'a';");
    let scripts = |text: &str| {
        let (_, rest) = text.split_once("\"num_cached_scripts\":").expect("opcache is on");
        rest.split(',').next().unwrap().parse::<u32>().unwrap()
    };
    let before = host.look();
    assert!(before.contains("\"memory_limit\":\"99M\"") && before.contains("\"php_version\":\""), "{before}");
    assert_eq!(worker.run(&Ask::get(&script)).text(), "a");
    // A child forked later sees what workers have compiled since.
    let after = host.look();
    assert_eq!(scripts(&after), scripts(&before) + 1, "{after}");
    assert_eq!(worker.run(&Ask::get(&script)).text(), "a");
    assert!(host.log.is_empty(), "{:?}", host.log);
}

#[test]
fn what_it_may_not_ask_is_left_out() {
    let (mut host, mut worker) = start("disable_functions=ini_get\nopcache.restrict_api=/nowhere\n", &[]);
    let text = host.look();
    assert!(text.contains("\"php_version\"") && text.contains("\"opcache_enabled\":true"), "{text}");
    assert!(!text.contains("memory_limit"), "{text}");
    let script = host.script("a.php", "<?php echo 'a';");
    assert_eq!(worker.run(&Ask::get(&script)).text(), "a");
    assert!(host.log.is_empty(), "{:?}", host.log);
}

#[test]
fn workers_and_their_programs_are_scheduled_behind_the_server() {
    // Field 41 of /proc/PID/stat is the policy: 0 SCHED_OTHER, 3 SCHED_BATCH. A command's name may hold spaces.
    let (host, mut worker) = start("", &[]);
    let script = host.script(
        "policy.php",
        "<?php $policy = fn($stat) => explode(' ', substr(strrchr($stat, ')'), 2))[38]; \
         echo $policy(file_get_contents('/proc/self/stat')), $policy(shell_exec('cat /proc/self/stat'));",
    );
    assert_eq!(worker.run(&Ask::get(&script)).text(), "33");
}

#[test]
fn the_kernel_ends_workers_and_not_the_server_when_memory_runs_out() {
    let score = |text: String| text.trim().parse::<i32>().unwrap();
    let own = score(std::fs::read_to_string("/proc/self/oom_score_adj").unwrap());
    let (host, mut worker) = start("", &[]);
    let script = host.script("oom.php", "<?php echo shell_exec('cat /proc/self/oom_score_adj');");
    assert_eq!(score(worker.run(&Ask::get(&script)).text()), (own + 300).min(1000));
}

#[test]
fn programs_that_were_left_behind_are_no_zombies() {
    let (host, mut worker) = start("", &[]);
    let leave = "<?php for ($i = 0; $i < 3; $i++) $p[] = proc_open(['true'], [], $ends); echo 'left';";
    let children = format!("/proc/{0}/task/{0}/children", worker.pid);
    assert_eq!(worker.run(&Ask::get(&host.script("leave.php", leave))).text(), "left");
    let script = host.script("next.php", "<?php usleep(10000);");
    for _ in 0..63 {
        worker.run(&Ask::get(&script));
    }
    assert_eq!(std::fs::read_to_string(children).unwrap(), "");
}

#[test]
fn a_closed_socket_ends_the_worker() {
    let (mut host, worker) = start("", &[]);
    assert_eq!(host.board32(0, frames::SLOT_PID), worker.pid);
    wait_until("idle", || host.board32(0, frames::SLOT_STATE) == frames::STATE_IDLE);
    let pid = worker.pid;
    drop(worker);
    let (status, max_rss_kib) = host.exited(pid);
    assert_eq!(status, 0);
    assert!(max_rss_kib > 1000);
    assert_eq!(host.board32(0, frames::SLOT_STATE), frames::STATE_FREE);
    assert_eq!(host.board32(0, frames::SLOT_PID), 0);
    // The slot can be used again.
    let mut worker = host.worker(0);
    let script = host.script("a.php", "<?php echo 'again';");
    assert_eq!(worker.run(&Ask::get(&script)).text(), "again");
}

#[test]
fn several_workers_at_once() {
    let mut host = Host::start(OPCACHE, &[]);
    let script = waiting(&host);
    let mut workers: Vec<Worker> = (0..3).map(|slot| host.worker(slot)).collect();
    for worker in &mut workers {
        worker.send(&Ask::get(&script));
        assert_eq!(worker.next(), Sent::Log("runs".into()));
    }
    for slot in 0..3 {
        assert_eq!(host.board32(slot, frames::SLOT_STATE), frames::STATE_RUNNING);
        assert!(host.board64(slot, frames::SLOT_STARTED_MS) > 0);
    }
    go(&host);
    for worker in &mut workers {
        assert_eq!(worker.answer().text(), worker.pid.to_string());
    }
    let script = host.script("status.php", "<?php $s = fpm_get_status(); echo json_encode([$s['total-processes'], $s['active-processes'], $s['procs'][0]['state']]);");
    wait_until("idle", || (0..3).all(|slot| host.board32(slot, frames::SLOT_STATE) == frames::STATE_IDLE));
    assert_eq!(workers[0].run(&Ask::get(&script)).text(), r#"[3,1,"Running"]"#);
}

#[test]
fn a_killed_worker_is_told() {
    let (mut host, mut worker) = start("", &[]);
    let script = waiting(&host);
    let sequence = worker.send(&Ask::get(&script));
    assert_eq!(worker.next(), Sent::Log("runs".into()));
    assert_eq!(host.board64(0, frames::SLOT_RECEIVED), sequence);
    send_signal(worker.pid, Signal::KILL);
    assert_eq!(worker.next(), Sent::Closed);
    assert_eq!(host.exited(worker.pid).0, 9);
    assert_eq!(host.board32(0, frames::SLOT_STATE), frames::STATE_FREE);
    // What the dead worker acknowledged stays readable until its slot is given away.
    assert_eq!(host.board64(0, frames::SLOT_RECEIVED), sequence);
    assert_eq!(host.board64(0, frames::SLOT_FINISHED), 0);
    assert!(host.worker(0).pid != worker.pid);
    assert_eq!(host.board64(0, frames::SLOT_RECEIVED), 0);
}

#[test]
fn a_crash_in_php_is_told() {
    let (mut host, mut worker) = start("", &[]);
    let script = host.script("crash.php", "<?php posix_kill(getmypid(), 11);");
    let fallback = host
        .script("crash2.php", "<?php echo 'before'; flush(); exec('kill -SEGV ' . getmypid()); sleep(5);");
    let _ = script;
    worker.send(&Ask::get(&fallback));
    assert!(matches!(worker.next(), Sent::Head(200, ..)));
    assert_eq!(worker.next(), Sent::Body(b"before".to_vec()));
    assert_eq!(worker.next(), Sent::Closed);
    let status = host.exited(worker.pid).0;
    assert!(if SANITIZED { status != 0 } else { status & 0x7f == 11 }, "{status}");
}

#[test]
fn sigterm_lets_the_request_finish() {
    let (mut host, mut worker) = start("", &[]);
    let script = waiting(&host);
    worker.send(&Ask::get(&script));
    assert_eq!(worker.next(), Sent::Log("runs".into()));
    send_signal(worker.pid, Signal::TERM);
    std::thread::sleep(Duration::from_millis(30));
    go(&host);
    let answer = worker.answer();
    assert_eq!(answer.text(), worker.pid.to_string());
    assert!(answer.end.exiting);
    assert_eq!(worker.next(), Sent::Closed);
    assert_eq!(host.exited(worker.pid).0, 0);
    // An idle one ends at once.
    let mut idle = host.worker(1);
    send_signal(idle.pid, Signal::TERM);
    assert_eq!(idle.next(), Sent::Closed);
    assert_eq!(host.exited(idle.pid).0, 0);
}

#[test]
fn max_requests_with_jitter() {
    let (mut host, _worker) = start("", &["--max-requests", "16"]);
    let script = host.script("a.php", "<?php echo 1;");
    for slot in 1..4 {
        let mut worker = host.worker(slot);
        let mut served = 0;
        loop {
            served += 1;
            if worker.run(&Ask::get(&script)).end.exiting {
                break;
            }
        }
        assert!((14..=16).contains(&served), "{served}");
        assert_eq!(worker.next(), Sent::Closed);
        assert_eq!(host.exited(worker.pid).0, 0);
    }
}

#[test]
fn retire_ends_the_host_with_its_last_worker() {
    let (mut host, mut worker) = start("", &[]);
    host.retire();
    let script = host.script("a.php", "<?php echo 'still';");
    assert_eq!(worker.run(&Ask::get(&script)).text(), "still");
    // No worker is forked any more.
    let _socket = host.spawn(1);
    assert!(matches!(host.event(), Event::Log(_)));
    assert_eq!(host.event(), Event::Exited { slot: 1, pid: 0, status: 0, max_rss_kib: 0 });
    let pid = worker.pid;
    drop(worker);
    assert_eq!(host.exited(pid).0, 0);
    assert_eq!(host.wait(), Some(0));
}

/// A script may send any signal; a service manager sends SIGTERM to all processes at once.
#[test]
fn signals_do_not_end_the_host() {
    let (mut host, worker) = start("", &[]);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::ALARM] {
        send_signal(host.pid(), signal);
    }
    let pid = worker.pid;
    drop(worker);
    assert_eq!(host.exited(pid).0, 0);
    let pid = host.worker(1).pid;
    host.retire();
    assert_eq!(host.exited(pid).0, 0);
    assert_eq!(host.wait(), Some(0));
}

#[test]
fn a_stopped_worker_goes_on() {
    let (host, mut worker) = start("extension=posix\n", &[]);
    let script = host.script("stop.php", "<?php posix_kill(getmypid(), 19); echo 'went on';");
    assert_eq!(worker.run(&Ask::get(&script)).text(), "went on");
}

/// What a script does to its process for good does not reach the next one.
#[test]
fn a_worker_whose_limits_were_lowered_ends() {
    for name in ["posix_setrlimit", "(posix_setrlimit(...))"] {
        let (mut host, mut worker) = start("extension=posix\n", &[]);
        let script = host.script(
            "limit.php",
            &format!("<?php $good = {name}(POSIX_RLIMIT_CPU, 5, 5); echo var_export($good);"),
        );
        let answer = worker.run(&Ask::get(&script));
        assert_eq!((answer.text().as_str(), answer.end.exiting), ("true", true), "{name}");
        assert_eq!(host.exited(worker.pid).0, 0);
    }
}

#[test]
fn a_server_that_dies_takes_all_with_it() {
    let (mut host, mut worker) = start("", &["--grace-seconds", "0"]);
    let script =
        host.script("stuck.php", "<?php ignore_user_abort(true); error_log('runs'); while (true) sleep(1);");
    worker.send(&Ask::get(&script));
    assert_eq!(worker.next(), Sent::Log("runs".into()));
    let pid = worker.pid;
    drop(worker);
    host.abandon();
    assert_eq!(host.wait(), Some(0));
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn workers_outlive_their_host_by_their_request() {
    let (mut host, mut worker) = start("", &[]);
    let script = waiting(&host);
    worker.send(&Ask::get(&script));
    assert_eq!(worker.next(), Sent::Log("runs".into()));
    send_signal(host.pid(), Signal::KILL);
    assert_eq!(host.wait(), None);
    go(&host);
    assert_eq!(worker.answer().text(), worker.pid.to_string());
}

#[test]
fn a_broken_frame_ends_the_worker_and_says_why() {
    let mut host = Host::start(OPCACHE, &[]);
    let script = host.script("a.php", "<?php echo 1;");
    let header = |length, kind| frames::FrameHeader { length, kind, flags: 0, extra: 0 }.encode().to_vec();
    let mut lying = header(24, frames::KIND_REQUEST);
    lying.extend_from_slice(&[0xff; 24]);
    let mut out = Vec::new();
    let mut request = frames::RequestFrame::begin(&mut out, 1);
    request.variable(b"A", b"b");
    request.finish(frames::Body::None).unwrap();
    let variable = frames::HEADER_BYTES + frames::REQUEST_BYTES;
    let mut overlong = out.clone();
    overlong[variable + 4] = 200;
    let mut unended = out.clone();
    let last = unended.len() - 1;
    unended[last] = b'x';
    for bytes in [
        header(0, 99),
        header(3, frames::KIND_REQUEST),
        header(u32::MAX, frames::KIND_REQUEST),
        lying,
        overlong,
        unended,
    ] {
        let mut worker = host.worker(0);
        worker.send_raw(&bytes);
        let Sent::Log(text) = worker.next() else { panic!("no message for {bytes:?}") };
        assert!(text.contains("the server sent"), "{text}");
        assert_eq!(worker.next(), Sent::Closed);
        assert_eq!(host.exited(worker.pid).0, 0);
    }
    // One comes twice.
    let mut worker = host.worker(0);
    assert_eq!(worker.run(&Ask::get(&script)).text(), "1");
    worker.send_raw(&out);
    let Sent::Log(text) = worker.next() else { panic!("no message") };
    assert!(text.contains("out of order"), "{text}");
    assert_eq!(worker.next(), Sent::Closed);
    assert_eq!(host.exited(worker.pid).0, 0);
    // A torn one that comes in pieces is no harm, and one that never ends neither.
    let mut worker = host.worker(0);
    assert_eq!(worker.run(&Ask::get(&script)).text(), "1");
    worker.send_raw(&out[..10]);
    let pid = worker.pid;
    drop(worker);
    assert_eq!(host.exited(pid).0, 0);
}

#[test]
fn a_gone_client_aborts_the_script() {
    let (host, mut worker) = start("output_buffering=0\n", &[]);
    let script = host.script(
        "abort.php",
        "<?php register_shutdown_function(function () { error_log(json_encode([connection_aborted(), connection_status()])); });
         echo 'a'; flush(); error_log('runs'); while (!file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); }
         echo 'b'; error_log('not reached');",
    );
    let sequence = worker.send(&Ask::get(&script));
    assert!(matches!(worker.next(), Sent::Head(..)));
    assert_eq!(worker.next(), Sent::Body(b"a".to_vec()));
    assert_eq!(worker.next(), Sent::Log("runs".into()));
    host.client_gone(0, sequence);
    go(&host);
    assert_eq!(worker.next(), Sent::Log("[1,1]".into()));
    let Sent::End(end) = worker.next() else { panic!("no end") };
    assert!(end.aborted && end.ready);
    let script = host.script("next.php", "<?php echo json_encode([connection_aborted(), 'next']);");
    assert_eq!(worker.run(&Ask::get(&script)).text(), r#"[0,"next"]"#);
}

#[test]
fn ignore_user_abort_lets_it_go_on() {
    let (host, mut worker) = start("output_buffering=0\n", &[]);
    let script = host.script(
        "ignore.php",
        "<?php ignore_user_abort(true); error_log('runs'); while (!file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); }
         echo 'b'; flush(); echo str_repeat('c', 100000); error_log('reached ' . connection_aborted());",
    );
    let sequence = worker.send(&Ask::get(&script));
    assert_eq!(worker.next(), Sent::Log("runs".into()));
    host.client_gone(0, sequence);
    go(&host);
    let answer = worker.answer();
    assert_eq!((answer.log, answer.body.len(), answer.end.aborted), (vec!["reached 1".to_owned()], 0, true));
}

#[test]
fn a_socket_that_breaks_aborts_the_script() {
    let (mut host, mut worker) = start("output_buffering=0\n", &[]);
    let script =
        host.script("endless.php", "<?php error_log('runs'); while (true) echo str_repeat('x', 10000);");
    worker.send(&Ask::get(&script));
    assert_eq!(worker.next(), Sent::Log("runs".into()));
    let pid = worker.pid;
    drop(worker);
    assert_eq!(host.exited(pid).0, 0);
}

#[test]
fn max_execution_time_counts_cpu() {
    let (host, mut worker) = start("max_execution_time=1\n", &[]);
    let script = host.script("endless.php", "<?php while (true) {}");
    let answer = worker.run(&Ask::get(&script));
    assert_eq!(answer.status, 500);
    assert!(answer.log[0].contains("Maximum execution time of 1 second exceeded"), "{:?}", answer.log);
    let script = host.script(
        "own.php",
        "<?php set_time_limit(0); $t = microtime(true); while (microtime(true) - $t < 1.3) {} echo 'done';",
    );
    assert_eq!(worker.run(&Ask::get(&script)).text(), "done");
    let script = host.script("sleep.php", "<?php usleep(1200000); echo 'slept';");
    assert_eq!(worker.run(&Ask::get(&script)).text(), "slept");
    let script = host.script(
        "most.php",
        "<?php $cpu = function () { $r = getrusage(); \
             return $r['ru_utime.tv_sec'] + $r['ru_stime.tv_sec'] + ($r['ru_utime.tv_usec'] + $r['ru_stime.tv_usec']) / 1e6; }; \
         $t = $cpu(); while ($cpu() - $t < 0.6) {} echo 'done';",
    );
    for _ in 0..2 {
        assert_eq!(worker.run(&Ask::get(&script)).text(), "done", "every request has all of its time");
    }
    let answer = worker.run(&Ask::get(&host.script("again.php", "<?php while (true) {}")));
    assert_eq!((answer.status, answer.end.failed), (500, true));
}

#[test]
fn memory_limit_costs_one_request() {
    let (host, mut worker) = start("memory_limit=16M\n", &[]);
    let script = host.script("eat.php", "<?php $a = []; while (true) $a[] = str_repeat('x', 100000);");
    let good = host.script("good.php", "<?php echo 'good ', ini_get('memory_limit');");
    for _ in 0..3 {
        let answer = worker.run(&Ask::get(&script));
        assert_eq!((answer.status, answer.end.failed, answer.end.ready), (500, true, true));
        assert!(answer.end.peak_bytes > 8 << 20);
        let answer = worker.run(&Ask::get(&good));
        assert_eq!(answer.text(), "good 16M");
        assert!(answer.end.peak_bytes < 4 << 20);
    }
    assert!(host.board64(0, frames::SLOT_PEAK) > 8 << 20);
}

#[test]
fn nothing_stays_for_the_next_request() {
    let (host, mut worker) = start("", &[]);
    let dirty = host.script(
        "dirty.php",
        "<?php putenv('A=b'); ini_set('display_errors', 'stderr'); ini_set('precision', 3); mb_internal_encoding_if();
         function mb_internal_encoding_if() {} define('MINE', 1); class Mine {} $GLOBALS['x'] = 1; static $n = 5; $_SERVER['mine'] = 1;
         set_error_handler(function () {}); set_time_limit(5); ob_start(); umask(077); error_reporting(0); mt_srand(1); date_default_timezone_set('Asia/Tokyo');
         chdir('/usr'); http_response_code(418); header('X-Mine: 1'); trait T {} spl_autoload_register(function () {});",
    );
    let clean = host.script(
        "clean.php",
        "<?php echo json_encode([getenv('A'), ini_get('display_errors'), ini_get('precision'), defined('MINE'), class_exists('Mine', false),
         isset($x), isset($_SERVER['mine']), ob_get_level(), error_reporting() == E_ALL, date_default_timezone_get(), function_exists('mb_internal_encoding_if'),
         error_get_last(), count(spl_autoload_functions())]);",
    );
    let first = worker.run(&Ask::get(&clean));
    assert_eq!(worker.run(&Ask::get(&dirty)).status, 418);
    let second = worker.run(&Ask::get(&clean));
    assert_eq!(second.text(), first.text());
    assert_eq!((second.status, second.values("X-Mine").len()), (200, 0));
}

#[test]
fn workers_draw_different_random_numbers() {
    let mut host = Host::start(OPCACHE, &[]);
    let script = host.script("r.php", "<?php echo mt_rand(), ' ', rand(), ' ', lcg_value(), ' ', uniqid('', true), ' ', bin2hex(random_bytes(8));");
    let mut seen = std::collections::HashSet::new();
    for slot in 0..3 {
        let mut worker = host.worker(slot);
        for _ in 0..3 {
            for number in worker.run(&Ask::get(&script)).text().split(' ') {
                assert!(seen.insert(number.to_owned()), "{number} came twice");
            }
        }
    }
}

#[test]
fn sessions() {
    let (mut host, mut worker) = start("session.save_path=\"/tmp\"\nsession.use_strict_mode=0\n", &[]);
    let script =
        host.script("s.php", "<?php session_start(); echo $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;");
    let answer = worker.run(&Ask::get(&script));
    let cookie = answer.values("Set-Cookie")[0].split(';').next().unwrap().to_owned();
    assert_eq!(answer.text(), "1");
    assert_eq!(worker.run(&Ask::get(&script).set("HTTP_COOKIE", &cookie)).text(), "2");
    let mut other = host.worker(1);
    assert_eq!(other.run(&Ask::get(&script).set("HTTP_COOKIE", &cookie)).text(), "3");
    let destroy = host.script("d.php", "<?php session_start(); session_destroy(); echo 'gone';");
    assert_eq!(worker.run(&Ask::get(&destroy).set("HTTP_COOKIE", &cookie)).text(), "gone");
}

#[test]
fn opcache_reset_under_load() {
    let mut host = Host::start(&format!("{OPCACHE}opcache.revalidate_freq=0\n"), &[]);
    for i in 0..30 {
        host.script(&format!("lib{i}.php"), &format!("<?php class Lib{i} {{ const N = {i}; public $a = [1, 'x' => [2, 3]]; function f() {{ return self::N; }} }}"));
    }
    let script = host.script("load.php", "<?php $s = 0; for ($i = 0; $i < 30; $i++) { require_once __DIR__ . \"/lib$i.php\"; $c = \"Lib$i\"; $s += (new $c)->f(); } echo $s;");
    let reset = host.script(
        "reset.php",
        "<?php echo json_encode([opcache_reset(), opcache_invalidate(__DIR__ . '/lib3.php', true)]);",
    );
    let workers: Vec<Worker> = (0..3).map(|slot| host.worker(slot)).collect();
    std::thread::scope(|scope| {
        for (n, mut worker) in workers.into_iter().enumerate() {
            let (script, reset) = (&script, &reset);
            scope.spawn(move || {
                for i in 0..300 {
                    if n == 0 && i % 10 == 0 {
                        assert_eq!(worker.run(&Ask::get(reset)).status, 200);
                    }
                    let answer = worker.run(&Ask::get(script));
                    assert_eq!((answer.status, &answer.text()[..]), (200, "435"), "{:?}", answer.log);
                }
            });
        }
    });
}

/// Rounds of [`memory_does_not_grow`]; MILLRACE_ROUNDS makes it a soak test.
fn rounds() -> u32 {
    std::env::var("MILLRACE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(400)
}

#[test]
fn memory_does_not_grow() {
    let (host, mut worker) = start("", &[]);
    let script = host.script(
        "work.php",
        "<?php header('X-A: b'); ini_set('memory_limit', '64M'); session_id(); $a = range(1, 1000); preg_match('/a(b+)/', 'abbb', $m); error_log('x');
         register_shutdown_function(function () use ($a) { echo count($a); }); echo json_encode($_SERVER); getallheaders(); getenv();",
    );
    let inject = host.script("inject.php", "<?php $ours = new ArrayObject([1]);");
    let fatal = host.script("fatal.php", "<?php $a = range(1, 100); undefined_function();");
    let ask = Ask::post(&script, "application/x-www-form-urlencoded", b"a=1&b=2")
        .set("HTTP_AUTHORIZATION", "Basic dXNlcjpwYTpzcw==")
        .set("MILLRACE_INJECT", inject.to_str().unwrap());
    let resident = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4
    };
    let round = |worker: &mut Worker| {
        for _ in 0..rounds() {
            assert_eq!(worker.run(&ask).status, 200);
            assert_eq!(worker.run(&Ask::get(&fatal)).status, 500);
            assert_eq!(worker.run(&Ask::get(&host.root.join("none.php"))).status, 404);
        }
        resident(worker.pid)
    };
    let first = round(&mut worker);
    let second = round(&mut worker);
    let third = round(&mut worker);
    assert!(
        SANITIZED || (third <= second + 64 && second <= first + 256),
        "KiB resident: {first} {second} {third}"
    );
    eprintln!("KiB resident: {first} {second} {third}");
}
