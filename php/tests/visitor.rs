//! What a worker finds out about the visitor: by PHP's sessions, and what a script says.

mod driver;

use driver::{Answer, Ask, Host, Worker};
use millrace_wire::frames::NoteKind;

/// A worker whose sessions are files in a folder of its own.
fn start() -> (Host, Worker) {
    let mut host = Host::start("zend_extension=opcache\nsession.use_strict_mode=0\n", &[]);
    let worker = host.worker(0);
    (host, worker)
}

/// What was said of the visitor.
fn said(answer: &Answer) -> Vec<String> {
    let visitor = answer.notes.iter().filter(|(kind, _)| *kind == NoteKind::Visitor);
    visitor.map(|(_, text)| text.clone()).collect()
}

fn run(worker: &mut Worker, ask: &Ask) -> Vec<String> {
    said(&worker.run(ask))
}

#[test]
fn sessions() {
    let (host, mut worker) = start();
    let start = "<?php session_start();";
    let script = |name: &str, code: &str| host.script(name, code);
    let (looks, adds) =
        (script("looks.php", start), script("adds.php", &format!("{start} $_SESSION['a'] = 1;")));
    let plain = script("plain.php", "<?php echo 1;");
    let ask = |script: &std::path::Path, cookie: &str| Ask::get(script).set("HTTP_COOKIE", cookie);
    let mut check = |script: &std::path::Path, cookie: &str, expected: &str| {
        assert_eq!(run(&mut worker, &ask(script, cookie)), [expected], "{} {cookie}", script.display());
    };
    check(&plain, "PHPSESSID=aaa", "end session=PHPSESSID:absent");
    check(&looks, "PHPSESSID=aaa", "end session=PHPSESSID:empty");
    check(&adds, "PHPSESSID=aaa", "end session=PHPSESSID:filled");
    check(&looks, "PHPSESSID=aaa", "end session=PHPSESSID:filled");
    check(&plain, "PHPSESSID=aaa", "end session=PHPSESSID:filled");
    check(&plain, "PHPSESSID=../aaa", "end session=PHPSESSID:absent");
    check(&plain, "other=1", "end");
    check(&adds, "other=1", "end");
    // The cookie names another one than the script has taken.
    check(&script("own.php", "<?php session_id('bbb'); session_start();"), "PHPSESSID=aaa", "end");
    let strict = "<?php ini_set('session.use_strict_mode', 1); session_start(); $_SESSION['a'] = 1;";
    check(&script("strict.php", strict), "PHPSESSID=nobodys", "end session=PHPSESSID:absent");
    let closed = "<?php session_start(['read_and_close' => true]);";
    check(&script("closed.php", closed), "PHPSESSID=aaa", "end session=PHPSESSID:filled");
    let renamed = "<?php session_start(); session_regenerate_id(true);";
    check(&script("renamed.php", renamed), "PHPSESSID=aaa", "end session=PHPSESSID:gone");
    check(&plain, "PHPSESSID=aaa", "end session=PHPSESSID:absent");
    check(
        &script("ends.php", "<?php session_start(); session_destroy();"),
        "PHPSESSID=ccc",
        "end session=PHPSESSID:absent",
    );
    let elsewhere = "<?php session_save_path(sys_get_temp_dir()); session_start();";
    check(&script("elsewhere.php", elsewhere), "PHPSESSID=ddd", "end elsewhere session=PHPSESSID:unsure");
    let named = "<?php session_name('shop'); session_start(); $_SESSION['a'] = 1;";
    check(&script("named.php", named), "shop=eee", "end session=shop:filled");
    check(
        &script("fails.php", "<?php session_start(); nothing();"),
        "PHPSESSID=fff",
        "end failed session=PHPSESSID:empty",
    );
}

/// Who is logged in may be in the handler's own row, or stored by the session's name: `$_SESSION` is empty all the same.
#[test]
fn an_empty_session_proves_nothing_if_more_may_be_kept_by_its_name() {
    let (host, mut worker) = start();
    let class =
        "class Own extends SessionHandler {} session_set_save_handler(new Own(), true); session_start();";
    let functions = "$no = fn () => true; session_set_save_handler($no, $no, fn () => '', $no, $no, fn () => 1); session_start();";
    for (at, code) in [
        class,
        functions,
        "$no = fn () => true; session_set_save_handler($no, $no, fn () => '', $no, $no, fn () => 1);",
        "session_start(); session_id();",
        "session_start(); $cart = md5(session_id());",
        "session_start(); (fn () => call_user_func('session_id'))();",
        "session_start(); $f = session_id(...); $f();",
        "session_start(); $cart = $_COOKIE['PHPSESSID'];",
        "$cart = $_COOKIE['PHPSESSID'] ?? '';",
        "session_start(); $cart = $_COOKIE[session_name()];",
        "session_start(); foreach ($_COOKIE as $cart);",
        "session_start(); $cart = $_SERVER['HTTP_COOKIE'];",
        "session_start(); $cart = filter_input(INPUT_COOKIE, 'PHPSESSID');",
    ]
    .into_iter()
    .enumerate()
    {
        let script = host.script(&format!("keyed{at}.php"), &format!("<?php {code}"));
        let said = run(&mut worker, &Ask::get(&script).set("HTTP_COOKIE", "PHPSESSID=keyed"));
        assert!(
            said.len() == 1 && said[0].starts_with("end elsewhere session=PHPSESSID:"),
            "{code}: {said:?}"
        );
    }
    for code in ["if (!session_id()) session_start();", "if (isset($_COOKIE['PHPSESSID'])) session_start();"]
    {
        let script = host.script("plain.php", &format!("<?php {code}"));
        let said = run(&mut worker, &Ask::get(&script).set("HTTP_COOKIE", "PHPSESSID=plain"));
        assert_eq!(said, ["end session=PHPSESSID:empty"], "{code}");
    }
}

#[test]
fn what_a_script_says() {
    let (host, mut worker) = start();
    let code =
        "<?php echo json_encode([millrace_visitor('login', 'by=a', 'user=1'), millrace_visitor('end')]);
        foreach ([['a b'], ['none', \"x\\n\"], [1, []]] as $bad) {
            try { millrace_visitor(...$bad); echo 'said'; } catch (ValueError | TypeError $e) {}
        }";
    let answer = worker.run(&Ask::get(&host.script("says.php", code)));
    assert_eq!(answer.text(), "[true,false]", "{:?}", answer.log);
    assert_eq!(said(&answer), ["login by=a user=1", "end"]);
    // Who has no cookies is nobody, and nothing is said.
    assert_eq!(run(&mut worker, &Ask::get(&host.script("plain.php", "<?php echo 1;"))), [] as [&str; 0]);
}

#[test]
fn after_its_answer_the_script_still_speaks() {
    let (host, mut worker) = start();
    let code = "<?php session_start(); echo 1; fastcgi_finish_request(); $_SESSION['late'] = 1; millrace_visitor('own');";
    let ask = Ask::get(&host.script("late.php", code)).set("HTTP_COOKIE", "PHPSESSID=late");
    worker.send(&ask);
    let mut seen = Vec::new();
    loop {
        match worker.next() {
            driver::Sent::Note(NoteKind::Origin, _) => {}
            driver::Sent::Note(kind, text) => seen.push(format!("{kind:?} {text}")),
            driver::Sent::End(_) => seen.push("end".to_owned()),
            driver::Sent::Ready(_) => break,
            _ => {}
        }
    }
    assert_eq!(seen, ["end", "Visitor own", "Visitor end session=PHPSESSID:filled"]);
}
