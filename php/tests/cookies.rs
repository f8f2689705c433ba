//! Cookies that the server doesn't know: a script that makes a page for all gets them only if it looks for one, and then says so.

mod driver;

use driver::generated::{self, Random};
use driver::{Ask, Host, Worker};
use millrace_wire::frames::NoteKind;

const INI: &str = "zend_extension=opcache\nrequest_order=GPC\n";

/// What a run said about cookies, and its output.
fn run(worker: &mut Worker, script: &std::path::Path, known: &str, withheld: &str) -> (String, String) {
    let mut ask = Ask::get(script).set("MILLRACE_COOKIES", withheld);
    if !known.is_empty() {
        ask = ask.set("HTTP_COOKIE", known);
    }
    let answer = worker.run(&ask);
    let notes: Vec<_> = answer.notes.iter().filter(|(kind, _)| *kind == NoteKind::Cookies).collect();
    assert_eq!(notes.len(), 1, "{}: {:?} {:?}", script.display(), answer.notes, answer.log);
    (notes[0].1.clone(), answer.text())
}

#[test]
fn what_is_looked_for_is_said() {
    let mut host = Host::start(INI, &[]);
    let mut worker = host.worker(0);
    for (at, (code, with_it, with_another)) in [
        ("echo 1;", "-", "-"),
        ("echo $_COOKIE['cur'] ?? 'none';", "+ cur", "- cur"),
        ("echo isset($_COOKIE['cur']);", "+ ?cur", "- ?cur"),
        ("echo array_key_exists('cur', $_COOKIE);", "+ ?cur", "- ?cur"),
        ("namespace A; $name = 'cur'; echo array_key_exists($name, $_COOKIE);", "+ ?cur", "- ?cur"),
        ("namespace A; echo key_exists('cur', $_COOKIE);", "+ ?cur", "- ?cur"),
        ("namespace A; function array_key_exists($name, $all) { return count($all); } echo array_key_exists('cur', $_COOKIE);", "+ *", "+ *"),
        ("namespace A; echo in_array('cur', $_COOKIE);", "+ *", "+ *"),
        ("namespace A; echo array_key_exists(array: $_COOKIE, key: 'cur');", "+ *", "+ *"),
        ("echo empty($_COOKIE['cur']);", "+ cur", "- cur"),
        ("echo $_COOKIE['cur']['a'] ?? '';", "+ cur", "- cur"),
        ("$_COOKIE['mine'] = 1; unset($_COOKIE['mine']);", "-", "-"),
        ("echo $_SERVER['HTTP_HOST'] ?? '', $_GET['cur'] ?? '', $_POST['cur'] ?? '';", "-", "-"),
        ("echo count($_COOKIE);", "+ *", "+ *"),
        ("echo empty($_COOKIE);", "+ *", "+ *"),
        ("echo $_COOKIE['a b'] ?? '';", "+ *", "+ *"),
        ("echo $_COOKIE[''] ?? '';", "+ *", "+ *"),
        ("['known' => $a, 'cur' => $b] = $_COOKIE;", "+ *", "+ *"),
        ("echo 1; fastcgi_finish_request(); echo $_COOKIE['cur'];", "-", "-"),
        ("echo filter_input(INPUT_COOKIE, 'cur'), filter_input(INPUT_GET, 'x');", "+ cur", "- cur"),
        ("echo getenv('HTTP_HOST');", "-", "-"),
        ("function f() { return compact('a') + get_defined_vars(); } @f();", "-", "-"),
    ]
    .into_iter()
    .enumerate()
    {
        let script = host.script(&format!("said{at}.php"), &format!("<?php {code}"));
        assert_eq!(run(&mut worker, &script, "known=1", "cur=USD").0, with_it, "{code}");
        assert_eq!(run(&mut worker, &script, "known=1", "other=USD").0, with_another, "{code}");
        // Nobody asks: the server has not withheld anything.
        let answer = worker.run(&Ask::get(&script).set("HTTP_COOKIE", "cur=USD"));
        assert!(answer.notes.iter().all(|(kind, _)| *kind != NoteKind::Cookies), "{code}");
    }
}

/// All cookies are there from the moment on at which the script looks for one, as if they always had been.
#[test]
fn what_was_withheld_is_there_when_it_is_looked_for() {
    let mut host = Host::start(INI, &[]);
    let mut worker = host.worker(0);
    let code = "<?php $_COOKIE['own'] = 'o'; $before = $_SERVER['REQUEST_METHOD']; $cur = $_COOKIE['cur'];
        echo json_encode([$cur, $_COOKIE, $_REQUEST, $_SERVER['HTTP_COOKIE'], getenv('HTTP_COOKIE'),
            getallheaders()['Cookie'], filter_input(INPUT_COOKIE, 'cur'), filter_input_array(INPUT_COOKIE),
            filter_input(INPUT_SERVER, 'HTTP_COOKIE'), filter_input_array(INPUT_SERVER)['HTTP_COOKIE']]);";
    let script = host.script("all.php", code);
    let (note, text) = run(&mut worker, &script, "known=1; x[a]=2", "cur=US%44; y[b]=3");
    assert_eq!(note, "+ *");
    let all = r#"{"known":"1","x":{"a":"2"},"cur":"USD","y":{"b":"3"}}"#;
    let own = all.replacen(r#""cur""#, r#""own":"o","cur""#, 1);
    let sent = "known=1; x[a]=2; cur=US%44; y[b]=3";
    let expected = format!(r#"["USD",{own},{all},"{sent}","{sent}","{sent}","USD",{all},"{sent}","{sent}"]"#);
    assert_eq!(text, expected);
    // None was known.
    let (note, text) = run(&mut worker, &script, "", "cur=EUR");
    assert_eq!((note.as_str(), text.contains(r#""cur=EUR","cur=EUR""#)), ("+ *", true), "{text}");
    // The next request has nothing of it.
    let plain = host.script("plain.php", "<?php echo $_COOKIE['known'] ?? 'none', count($_COOKIE);");
    assert_eq!(run(&mut worker, &plain, "", ""), ("- *".to_owned(), "none0".to_owned()));
}

/// WordPress escapes what it copies; so is what comes later.
#[test]
fn wordpress_copies_the_arrays() {
    let mut host = Host::start(INI, &[]);
    let mut worker = host.worker(0);
    std::fs::create_dir_all(host.script("at.php", "").with_file_name("wp-includes")).unwrap();
    let core = "<?php
        function add_magic_quotes($all) {
            foreach ($all as $k => $v) { $all[$k] = is_array($v) ? add_magic_quotes($v) : (is_string($v) ? addslashes($v) : $v); }
            return $all;
        }
        function wp_fix_server_vars() { $_SERVER = array_merge(['SERVER_SOFTWARE' => ''], $_SERVER); }
        function wp_magic_quotes() { $_COOKIE = add_magic_quotes($_COOKIE); $_SERVER = add_magic_quotes($_SERVER); $_REQUEST = array_merge($_GET, $_POST); }
        function other() { return count($_COOKIE); }";
    host.script("wp-includes/load.php", core);
    let boot = "<?php require __DIR__ . '/wp-includes/load.php'; wp_fix_server_vars(); wp_magic_quotes();";
    let silent = host.script("silent.php", boot);
    assert_eq!(run(&mut worker, &silent, "", "cur=it's").0, "-");
    let reads = host.script(
        "reads.php",
        &format!("{boot} echo $_COOKIE['cur'], $_SERVER['HTTP_COOKIE'], $_REQUEST['cur'] ?? '-';"),
    );
    assert_eq!(run(&mut worker, &reads, "", "cur=it's"), ("+ *".to_owned(), r"it\'scur=it\'s-".to_owned()));
    let arguments = host.script(
        "arguments.php",
        &format!("{boot} foreach (range(1, 99) as $n) {{ $_REQUEST[\"argument-$n\"] ?? ''; }} echo count($_REQUEST);"),
    );
    assert_eq!(run(&mut worker, &arguments, "", "cur=1").0, "-", "WordPress's own $_REQUEST has no cookies");
    let other = host.script("other.php", &format!("{boot} other();"));
    assert_eq!(run(&mut worker, &other, "", "cur=it's").0, "+ *");
}

/// Where fetches can't be watched, nothing is withheld, and everything counts as read.
#[test]
fn with_a_jit_all_cookies_count() {
    let mut host = Host::start(&format!("{INI}opcache.jit_buffer_size=16M\nopcache.jit=tracing\n"), &[]);
    let mut worker = host.worker(0);
    let script = host.script("jit.php", "<?php echo count($_COOKIE), $_COOKIE['cur'] ?? '';");
    assert_eq!(run(&mut worker, &script, "known=1", "cur=USD"), ("+ *".to_owned(), "2USD".to_owned()));
    assert_eq!(run(&mut worker, &script, "known=1", ""), ("- *".to_owned(), "1".to_owned()));
}

// ---- generated scripts ----

/// Ways to the value of the cookie `cur`, in any scope.
const WAYS: &[&str] = &[
    "($_COOKIE['cur'] ?? '')",
    "(isset($_COOKIE['cur']) ? $_COOKIE['cur'] : '')",
    "@$_COOKIE['c' . 'ur']",
    "@$_COOKIE[strrev('ruc')]",
    "(string) ($_REQUEST['cur'] ?? '')",
    "@$GLOBALS['_COOKIE']['cur']",
    "@$GLOBALS['_' . 'COOKIE']['cur']",
    "implode(',', $_COOKIE)",
    "json_encode($_COOKIE)",
    "serialize($_COOKIE)",
    "http_build_query($_COOKIE)",
    "print_r($_COOKIE, true)",
    "var_export($_COOKIE, true)",
    "implode(array_map('strval', $_COOKIE))",
    "implode(array_filter($_COOKIE))",
    "implode(array_column([$_COOKIE], 'cur'))",
    "implode(array_intersect_key($_COOKIE, ['cur' => 1]))",
    "implode(array_merge([], $_COOKIE))",
    "implode([...array_values($_COOKIE)])",
    "implode(array_keys(array_flip($_COOKIE)))",
    "implode((new ArrayObject($_COOKIE))->getArrayCopy())",
    "implode(iterator_to_array(new ArrayIterator($_COOKIE)))",
    "((object) $_COOKIE)->cur",
    "(function () { foreach ($_COOKIE as $k => $v) { if ($k === 'cur') { return $v; } } return ''; })()",
    "(function () { foreach ($_COOKIE as &$v) { $w = $v; } return $w ?? ''; })()",
    "(function () { ['cur' => $v] = $_COOKIE + ['cur' => '']; return $v; })()",
    "(function () { @['none' => $n, 'cur' => $v] = $_COOKIE; return $v; })()",
    "(function () { list('cur' => $v) = $_COOKIE; return $v; })()",
    "(function () { extract($_COOKIE); return $cur ?? ''; })()",
    "(function () { extract($GLOBALS, EXTR_PREFIX_ALL, 'p'); return $p__COOKIE['cur'] ?? ''; })()",
    "(function () { $r = &$_COOKIE; return $r['cur'] ?? ''; })()",
    "(function () { $r = &$_COOKIE['cur']; return $r; })()",
    "(function () { $_COOKIE['cur'] ??= ''; return $_COOKIE['cur']; })()",
    "(function () { $_COOKIE['cur'] .= ''; return $_COOKIE['cur']; })()",
    "(function () { foreach ($GLOBALS as $k => $v) { if ($k === '_COOKIE') { return $v['cur'] ?? ''; } } })()",
    "(function () { $all = $GLOBALS; return $all['_COOKIE']['cur'] ?? ''; })()",
    "(function (array $c) { return $c['cur'] ?? ''; })($_COOKIE)",
    "(function () { yield $_COOKIE; })()->current()['cur']",
    "(match (true) { isset($_COOKIE['cur']) => $_COOKIE['cur'], default => '' })",
    "(fn () => $_COOKIE['cur'] ?? '')()",
    "(static fn ($n) => $_COOKIE[$n] ?? '')('cur')",
    "@$_SERVER['HTTP_COOKIE']",
    "(string) getenv('HTTP_COOKIE')",
    "@getenv()['HTTP_COOKIE']",
    "implode(' ', $_SERVER['argv'] ?? []) . @$_SERVER['HTTP_' . 'COOKIE']",
    "implode(' ', array_filter($_SERVER, 'is_string'))",
    "@getallheaders()['Cookie']",
    "implode(apache_request_headers())",
    "(string) filter_input(INPUT_COOKIE, 'cur')",
    "(string) filter_input(var_name: 'cur', type: INPUT_COOKIE)",
    "implode(filter_input_array(INPUT_COOKIE) ?: [])",
    "(string) filter_input(INPUT_SERVER, 'HTTP_COOKIE')",
    "implode(array_filter(filter_input_array(INPUT_SERVER) ?: [], 'is_string'))",
    "(string) call_user_func('filter_input', INPUT_COOKIE, 'cur')",
    "(string) (new ReflectionFunction('filter_input'))->invoke(INPUT_COOKIE, 'cur')",
    "(string) (filter_input(...))(INPUT_COOKIE, 'cur')",
    "(function () { ob_start(); phpinfo(INFO_VARIABLES); return ob_get_clean(); })()",
    "(string) array_reduce([$_COOKIE], fn ($a, $c) => $a . ($c['cur'] ?? ''))",
    "(function () { array_walk($_COOKIE, function ($v) use (&$w) { $w = $v; }); return $w ?? ''; })()",
    "(array_key_exists('cur', $_COOKIE) ? end($_COOKIE) : '')",
    "(call_user_func('array_key_exists', 'cur', $_COOKIE) ? end($_COOKIE) : '')",
    "(function ($exists) { return $exists('cur', $_COOKIE) ? $_COOKIE['cur'] : ''; })('array_key_exists')",
    "(function () { $c = $_COOKIE; return array_pop($c); })()",
];

/// Ways that are open in the global scope only.
const GLOBAL_WAYS: &[&str] = &[
    "@compact('_COOKIE')['_COOKIE']['cur']",
    "@compact(['_COOKIE', ['_GET']])['_COOKIE']['cur']",
    "@get_defined_vars()['_COOKIE']['cur']",
    "@${'_COOKIE'}['cur']",
    "@${'_' . 'COOKIE'}['cur']",
];

#[test]
fn no_generated_script_gets_a_cookie_unseen() {
    let mut host = Host::start(INI, &[]);
    let mut worker = host.worker(0);
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for at in 0..400 {
        let code = random.script(WAYS, GLOBAL_WAYS, at);
        let script = random.file(&host, at, &format!("<?php {code}"));
        let (note, text) = run(&mut worker, &script, "known=1", "cur=S3CRET");
        assert!(text.contains("S3CRET"), "the visitor's own page lacks it: {code}\n{text}");
        assert!(note.starts_with("+ "), "{note}: {code}");
        let (note, text) = run(&mut worker, &script, "known=1", "other=S3CRET");
        assert!(!text.contains("S3CRET") || note.starts_with('+'), "{note}: {code}");
        let (note, _) = run(&mut worker, &script, "known=1", "");
        assert!(note.contains('*') || note.contains("cur"), "{note}: {code}");
    }
}

/// Every function of this PHP that can be called without arguments: what it gives away of cookies is noticed.
#[test]
fn no_function_of_php_gives_a_cookie_away_unseen() {
    let mut host = Host::start(INI, &[]);
    let mut worker = host.worker(0);
    let mut seen = Vec::new();
    for (name, script) in generated::calls(&host, &mut worker, "") {
        let ask = Ask::get(&script).set("MILLRACE_COOKIES", "cur=S3CRET").set("HTTP_COOKIE", "known=1");
        let answer = worker.run(&ask);
        assert!(answer.text().starts_with("ran "), "{name}: {:?}", answer.log);
        assert!(!answer.end.exiting, "{name}");
        if answer.text().contains("S3CRET") {
            let note = answer.notes.iter().find(|(kind, _)| *kind == NoteKind::Cookies);
            assert!(note.is_some_and(|(_, note)| note.starts_with('+')), "{name}");
            seen.push(name);
        }
    }
    generated::assert_known(&seen);
}
