//! What a script can do to its answer.

mod driver;

use std::time::Duration;

use driver::{Ask, Host, Sent, Worker};
use millrace_wire::frames;

const OPCACHE: &str = "zend_extension=opcache\nopcache.file_update_protection=0\n";

fn start() -> (Host, Worker) {
    let mut host = Host::start(OPCACHE, &[]);
    let worker = host.worker(0);
    (host, worker)
}

#[test]
fn hello() {
    let (host, mut worker) = start();
    assert_eq!(host.says("sapi"), Some("fpm-fcgi"));
    assert_eq!(host.says("opcache"), Some("on"), "{:?}", host.ready);
    let script = host.script("hello.php", "<?php echo 'Hello World';");
    for n in 1..=3 {
        let answer = worker.run(&Ask::get(&script));
        assert_eq!((answer.status, &answer.text()[..], &answer.reason[..]), (200, "Hello World", ""));
        assert_eq!(answer.values("Content-type"), ["text/html; charset=UTF-8"]);
        assert!(answer.values("X-Powered-By")[0].starts_with("PHP/8."));
        assert!(answer.end.ready && !answer.end.failed && !answer.end.exiting && !answer.end.aborted);
        assert!(answer.end.peak_bytes >= 200 << 10);
        assert_eq!(host.board64(0, frames::SLOT_RECEIVED), n);
        assert_eq!(host.board64(0, frames::SLOT_FINISHED), n);
    }
}

#[test]
fn a_short_answer_is_one_write() {
    let (host, mut worker) = start();
    let script = host.script("a.php", "<?php header('X-A: b'); echo 'short'; echo ' text';");
    // The first one says which files it has, in a write of its own.
    worker.run(&Ask::get(&script));
    for _ in 0..2 {
        worker.send(&Ask::get(&script));
        assert!(worker.speaks_within(driver::PATIENCE));
        let mut bytes = [0; 4096];
        // A stream socket gives what one sendmsg put there, up to the size asked for.
        let length = driver::receive(&worker.socket, &mut bytes);
        let end = frames::HEADER_BYTES + frames::END_BYTES;
        let last = frames::FrameHeader::decode(&bytes[length - end..]).unwrap();
        assert_eq!((last.kind, last.length as usize), (frames::KIND_END, frames::END_BYTES));
    }
}

#[test]
fn status_as_under_fpm() {
    let (host, mut worker) = start();
    let cases = [
        ("http_response_code(404);", 404, ""),
        ("header('HTTP/1.1 404 Nope');", 404, "Nope"),
        ("header('HTTP/1.0 299 Odd one');", 299, "Odd one"),
        ("header('HTTP/1.1 200 Fine');", 200, ""),
        ("header('Status: 503 Later');", 503, "Later"),
        ("header('Status: 410');", 410, ""),
        ("http_response_code(201); header('Status: 503 Later');", 503, "Later"),
        ("header('HTTP/1.1 404 Nope'); header('Status: 503 Later');", 404, "Nope"),
        ("header('Location: /x');", 302, ""),
        ("header('Location: /x', true, 301);", 301, ""),
        ("header('WWW-Authenticate: Basic realm=x');", 401, ""),
        ("http_response_code(99);", 500, ""),
        ("header('HTTP/1.1 103 Early Hints');", 500, ""),
        // The engine keeps http_response_code from one request to the next: it must be set anew.
        ("", 200, ""),
    ];
    for (at, (code, status, reason)) in cases.iter().enumerate() {
        let script = host.script(&format!("{at}.php"), &format!("<?php {code}"));
        let answer = worker.run(&Ask::get(&script));
        assert_eq!((answer.status, &answer.reason[..]), (*status, *reason), "{code}");
        assert!(answer.values("Status").is_empty(), "{code}");
    }
}

#[test]
fn a_reason_is_cut_where_fpm_cuts_it() {
    let (host, mut worker) = start();
    let script = host.script("reason.php", "<?php header('HTTP/1.1 201 ' . str_repeat('A', 5000));");
    assert_eq!(worker.run(&Ask::get(&script)).reason, "A".repeat(1011));
}

#[test]
fn fields_of_the_answer() {
    let (host, mut worker) = start();
    let script = host.script(
        "fields.php",
        r#"<?php
        header_remove('X-Powered-By');
        setcookie('a', '1'); setcookie('b', '2');
        header('X-One: first'); header('X-One: second'); header('X-Two: 1'); header('X-Two: 2', false);
        header('no colon'); header('Bad Name: x');
        @header("X-Split: a\r\nX-Evil: b"); @header("X-Nul: a\0b");
        header('X-Empty:');
        echo json_encode(apache_response_headers()['X-One']);"#,
    );
    let answer = worker.run(&Ask::get(&script));
    assert_eq!(answer.values("Set-Cookie"), ["a=1", "b=2"]);
    assert_eq!(answer.values("X-One"), ["second"]);
    assert_eq!(answer.values("X-Two"), ["1", "2"]);
    assert_eq!(answer.values("X-Empty"), [""]);
    assert_eq!(answer.text(), "\"second\"");
    for name in ["X-Powered-By", "X-Split", "X-Evil", "X-Nul", "Bad Name", "no colon"] {
        assert!(answer.values(name).is_empty(), "{name}");
    }
    assert_eq!(
        answer.log.iter().filter(|text| text.contains("its name is illegal")).count(),
        2,
        "{:?}",
        answer.log
    );
}

#[test]
fn many_and_long_fields() {
    let (host, mut worker) = start();
    let script = host.script(
        "many.php",
        "<?php for ($i = 0; $i < 2000; $i++) header(\"X-$i: \" . str_repeat('v', 100)); echo 'body';",
    );
    let answer = worker.run(&Ask::get(&script));
    assert_eq!(
        answer.fields.iter().filter(|(name, _)| name.starts_with("X-") && name != "X-Powered-By").count(),
        2000
    );
    assert_eq!(answer.text(), "body");
    let script = host.script("huge.php", "<?php header('X-Huge: ' . str_repeat('v', 2 << 20)); echo 'body';");
    let answer = worker.run(&Ask::get(&script));
    assert_eq!((answer.status, answer.fields.len()), (500, 0));
    assert!(answer.log[0].contains("more than 1 MB"), "{:?}", answer.log);
}

#[test]
fn not_modified_has_no_type_and_head_comes_as_get() {
    let (host, mut worker) = start();
    let script = host.script("304.php", "<?php http_response_code(304);");
    assert!(worker.run(&Ask::get(&script)).values("Content-type").is_empty());
    let script = host.script(
        "head.php",
        "<?php header('Content-Length: 5'); echo 'hello'; error_log('still ' . 'running');",
    );
    let answer = worker.run(&Ask::get(&script).set("REQUEST_METHOD", "HEAD"));
    assert_eq!(
        (answer.status, &answer.body[..], answer.values("Content-Length")),
        (200, &b"hello"[..], vec!["5"])
    );
    assert_eq!(answer.log, ["still running"]);
}

/// The server needs the start of the content to know what it would say of the answer to GET.
#[test]
fn of_the_answer_to_head_only_the_start_comes() {
    let (host, mut worker) = start();
    let script = host.script(
        "head.php",
        "<?php $s = str_repeat('0123456789', 1000); for ($i = 0; $i < 100; $i++) { echo $s; if ($i % 7 == 0) flush(); }
         error_log('wrote ' . $i);",
    );
    let answer = worker.run(&Ask::get(&script).set("REQUEST_METHOD", "HEAD"));
    assert_eq!((answer.status, answer.body.len()), (200, frames::BODY_OF_HEAD_MAX));
    assert_eq!(answer.log, ["wrote 100"], "the script is not aborted");
    assert_eq!(worker.run(&Ask::get(&script)).body.len(), 1_000_000);
}

#[test]
fn output_larger_than_memory() {
    let (host, mut worker) = start();
    let script = host.script(
        "large.php",
        "<?php ini_set('memory_limit', '8M'); $s = str_repeat('0123456789', 7001);
         for ($i = 0; $i < 1000; $i++) echo $s;",
    );
    let answer = worker.run(&Ask::get(&script));
    assert_eq!(answer.body.len(), 70_010_000);
    assert!(answer.body.chunks(10).all(|piece| piece == b"0123456789"));
    let script = host.script("one.php", "<?php echo str_repeat('x', 5 << 20);");
    assert_eq!(worker.run(&Ask::get(&script)).body.len(), 5 << 20);
    let script = host.script("small.php", "<?php for ($i = 0; $i < 50000; $i++) echo $i % 10;");
    let answer = worker.run(&Ask::get(&script));
    assert_eq!(answer.body.len(), 50_000);
    assert!(answer.body.iter().enumerate().all(|(i, byte)| *byte == b'0' + (i % 10) as u8));
}

#[test]
fn events_stream() {
    let (host, mut worker) = start();
    let script = host.script(
        "events.php",
        r#"<?php header('Content-Type: text/event-stream');
        for ($i = 0; $i < 3; $i++) { echo "data: $i\n\n"; flush(); while (!file_exists(__DIR__ . "/go$i")) { usleep(1000); clearstatcache(); } }"#,
    );
    worker.send(&Ask::get(&script));
    let Sent::Head(200, _, fields) = worker.next() else { panic!("no head") };
    assert!(
        fields.contains(&("Content-type".into(), "text/event-stream;charset=UTF-8".into())),
        "{fields:?}"
    );
    for i in 0..3 {
        assert_eq!(worker.next(), Sent::Body(format!("data: {i}\n\n").into_bytes()));
        std::fs::write(host.root.join(format!("go{i}")), "").unwrap();
    }
    assert!(matches!(worker.next(), Sent::End(_)));
}

#[test]
fn headers_sent_and_flush() {
    let (host, mut worker) = start();
    let script = host.script(
        "sent.php",
        "<?php flush(); echo json_encode(headers_sent()); flush(); echo json_encode(headers_sent());
         @header('X-Late: 1'); echo error_get_last()['message'] ?? 'none';",
    );
    let answer = worker.run(&Ask::get(&script));
    assert!(answer.text().starts_with("falsetrueCannot modify header information"), "{}", answer.text());
    assert!(answer.values("X-Late").is_empty());
}

#[test]
fn a_finished_answer_leaves_before_the_script_ends() {
    let (host, mut worker) = start();
    let script = host.script(
        "finish.php",
        r#"<?php echo 'seen'; var_export(function_exists('fastcgi_finish_request'));
        $first = fastcgi_finish_request(); $second = fastcgi_finish_request();
        echo str_repeat('unseen', 100000); flush();
        while (!file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); }
        error_log("went on: " . json_encode([$first, $second, connection_aborted(), headers_sent()]));"#,
    );
    worker.send(&Ask::get(&script));
    assert!(matches!(worker.next(), Sent::Head(200, ..)));
    assert_eq!(worker.next(), Sent::Body(b"seentrue".to_vec()));
    let Sent::End(end) = worker.next() else { panic!("no end") };
    assert!(!end.ready);
    assert_eq!(host.board32(0, frames::SLOT_STATE), frames::STATE_BACKGROUND);
    assert_eq!(host.board64(0, frames::SLOT_FINISHED), 1);
    assert!(!worker.speaks_within(Duration::from_millis(50)));
    std::fs::write(host.root.join("go"), "").unwrap();
    assert_eq!(worker.next(), Sent::Log("went on: [true,false,0,true]".into()));
    let Sent::Ready(ready) = worker.next() else { panic!("no READY") };
    assert!(ready.ready && !ready.exiting);
    let script = host.script("next.php", "<?php echo 'next';");
    assert_eq!(worker.run(&Ask::get(&script)).text(), "next");
}

#[test]
fn a_fatal_error_is_500_logged_and_not_shown() {
    let (host, mut worker) = start();
    let cases = [
        ("echo 'x';\nundefined_function();", "PHP Fatal error:  Uncaught Error: Call to undefined function"),
        ("throw new Exception('mine');", "PHP Fatal error:  Uncaught Exception: mine"),
        ("if (", "PHP Parse error:"),
        ("trigger_error('own', E_USER_ERROR);", "PHP Fatal error:  own"),
        (
            "ini_set('memory_limit', '4M'); $a = str_repeat('x', 1 << 24);",
            "PHP Fatal error:  Allowed memory size",
        ),
        ("require 'missing.php';", "PHP Fatal error:  Uncaught"),
    ];
    for (at, (code, log)) in cases.iter().enumerate() {
        let name = format!("fatal{at}.php");
        let script = host.script(&name, &format!("<?php ob_start(); {code}"));
        let answer = worker.run(&Ask::get(&script));
        assert_eq!(answer.status, 500, "{code}");
        assert!(!answer.text().contains("error"), "{code}: {}", answer.text());
        let all = answer.log.join("\n");
        assert!(all.contains(log.trim_end_matches("Uncaught")) && all.contains(&name), "{code}: {all}");
        assert!(answer.end.failed && answer.end.ready, "{code}");
    }
    let script = host.script("good.php", "<?php echo 'lives';");
    assert_eq!(worker.run(&Ask::get(&script)).text(), "lives");
    let script = host.script("late.php", "<?php echo 'sent'; flush(); undefined_function();");
    let answer = worker.run(&Ask::get(&script));
    assert_eq!((answer.status, answer.end.failed), (200, true));
}

#[test]
fn a_fatal_error_is_shown_with_display_errors() {
    let mut host = Host::start(&format!("{OPCACHE}display_errors=1\nhtml_errors=0\nlog_errors=0\n"), &[]);
    let mut worker = host.worker(0);
    let script = host.script("fatal.php", "<?php undefined_function();");
    let answer = worker.run(&Ask::get(&script));
    assert!(answer.status == 200 && answer.text().contains("Fatal error: Uncaught Error"), "{answer:?}");
    assert!(answer.log.is_empty());
}

#[test]
fn exit_anywhere() {
    let (host, mut worker) = start();
    let cases = [
        ("echo 'a'; exit; echo 'b';", "a"),
        ("echo 'a'; exit('b');", "ab"),
        ("register_shutdown_function(function () { echo 'end'; exit; }); echo 'a'; exit;", "aend"),
        ("ob_start(function ($s) { return strtoupper($s); }); echo 'a'; exit;", "A"),
        ("function f() { exit('in f'); } f();", "in f"),
        ("class A { function __destruct() { echo 'gone'; } } $a = new A; exit('x');", "xgone"),
        (
            "set_exception_handler(function ($e) { echo $e->getMessage(); }); throw new Exception('handled');",
            "handled",
        ),
        ("session_start(); $_SESSION['a'] = 1; exit('session');", "session"),
    ];
    for (at, (code, expected)) in cases.iter().enumerate() {
        let script = host.script(&format!("exit{at}.php"), &format!("<?php {code}"));
        for _ in 0..2 {
            let answer = worker.run(&Ask::get(&script));
            assert_eq!((&answer.text()[..], answer.end.ready), (*expected, true), "{code} {:?}", answer.log);
        }
    }
}

#[test]
fn messages_for_the_log() {
    let (host, mut worker) = start();
    let script = host.script(
        "log.php",
        "<?php error_log('one'); error_log(\"two\\nlines\"); echo $undefined; error_log(str_repeat('x', 100000));
         file_put_contents(__DIR__ . '/own.log', ''); ini_set('error_log', __DIR__ . '/own.log'); error_log('three');",
    );
    let answer = worker.run(&Ask::get(&script));
    assert_eq!(answer.log[0], "one");
    assert_eq!(answer.log[1], "two\nlines");
    assert!(
        answer.log[2].starts_with("PHP Warning:  Undefined variable $undefined in /"),
        "{:?}",
        answer.log[2]
    );
    assert!(answer.log[2].ends_with("log.php on line 1"), "{:?}", answer.log[2]);
    assert_eq!((answer.log[3].len(), answer.log.len()), (frames::LOG_MAX, 4));
    assert!(std::fs::read_to_string(host.root.join("own.log")).unwrap().contains("] three"));
}

#[test]
fn the_next_request_finds_no_function_or_constant_of_this_one() {
    let (host, mut worker) = start();
    // Enough of them to make PHP's tables grow, which squeezes holes out of them.
    let many = "<?php function first() {} define('FIRST', 1);\
                for ($i = 0; $i < 5000; $i++) { eval(\"function f$i() {} define('C$i', 1);\"); }\
                echo count(get_defined_functions()['user']), ' ', count(get_defined_constants(true)['user']);";
    let script = host.script("many.php", many);
    for _ in 0..3 {
        let answer = worker.run(&Ask::get(&script));
        assert_eq!((answer.status, &answer.text()[..]), (200, "5001 5001"));
    }
}
