//! The PHP file of ours that runs before the site's script.

mod driver;

use std::path::Path;

use driver::{Ask, Host, Worker};

fn start(more: &str) -> (Host, Worker) {
    let ini = format!("zend_extension=opcache\nopcache.file_update_protection=0\n{more}");
    let mut host = Host::start(&ini, &[]);
    let worker = host.worker(0);
    (host, worker)
}

fn with(script: &Path, inject: &Path) -> Ask {
    Ask::get(script).set("MILLRACE_INJECT", inject.to_str().unwrap())
}

#[test]
fn runs_before_the_script_and_is_not_seen() {
    let (host, mut worker) = start("");
    let inject = host.script("of ours/inject.php", "<?php $GLOBALS['ours'] = basename(getcwd()); $kept = 1;");
    let script = host.script(
        "site/page.php",
        "<?php echo json_encode([$ours, $kept, array_map('basename', get_included_files()), isset($_SERVER['MILLRACE_INJECT']),
         getenv('MILLRACE_INJECT'), basename($_SERVER['SCRIPT_FILENAME']), debug_backtrace()]);",
    );
    for _ in 0..3 {
        let answer = worker.run(&with(&script, &inject));
        assert_eq!(answer.text(), r#"["site",1,["page.php"],false,false,"page.php",[]]"#, "{:?}", answer.log);
    }
    let plain = host.script("site/plain.php", "<?php echo json_encode(isset($ours));");
    assert_eq!(worker.run(&Ask::get(&plain)).text(), "false");
}

#[test]
fn its_errors_are_logged_and_harm_nothing() {
    let (host, mut worker) = start("");
    let script = host
        .script("page.php", "<?php echo 'page ', $_POST['a'] ?? '-', ' ', file_get_contents('php://input');");
    let cases = [
        ("throw new Exception('ours');", "Uncaught Exception: ours"),
        ("undefined_function();", "Call to undefined function"),
        ("if (", "Parse error"),
        ("trigger_error('fatal of ours', E_USER_ERROR);", "fatal of ours"),
        ("ini_set('memory_limit', '4M'); $a = str_repeat('x', 1 << 24);", "Allowed memory size"),
        ("echo $undefined;", "Undefined variable"),
        ("exit('');", ""),
    ];
    for (at, (code, log)) in cases.iter().enumerate() {
        let inject = host.script(&format!("inject{at}.php"), &format!("<?php {code}"));
        let mut ask = with(&script, &inject)
            .set("REQUEST_METHOD", "POST")
            .set("CONTENT_TYPE", "application/x-www-form-urlencoded");
        ask.body = b"a=1".to_vec();
        for _ in 0..2 {
            let answer = worker.run(&ask);
            assert_eq!((answer.status, &answer.text()[..]), (200, "page 1 a=1"), "{code}: {:?}", answer.log);
            assert!(answer.log.join("\n").contains(log), "{code}: {:?}", answer.log);
            assert!(answer.end.ready && !answer.end.failed, "{code}: {:?}", answer.end);
        }
    }
}

#[test]
fn open_basedir_is_the_sites() {
    let (host, _) = start("");
    let inject = host.script("ours.php", "<?php $ours = 1;");
    let script = host.script(
        "site/page.php",
        "<?php echo json_encode([$ours ?? 0, @file_get_contents(__DIR__ . '/../ours.php')]);",
    );
    let ini = format!("zend_extension=opcache\nopen_basedir={}/site\n", host.root.display());
    let mut caged = Host::start(&ini, &[]);
    let mut worker = caged.worker(0);
    for _ in 0..2 {
        let answer = worker.run(&with(&script, &inject));
        assert_eq!(answer.text(), "[1,false]", "{:?}", answer.log);
    }
}

/// The steps of WordPress that matter: plugin.php turns $wp_filter into hooks, got_url_rewrite() applies the filter.
#[test]
fn wordpress_learns_that_rewriting_works() {
    let (host, mut worker) = start("");
    let inject = Path::new(env!("CARGO_MANIFEST_DIR")).join("inject/wordpress.php");
    let script = host.script(
        "wp.php",
        r#"<?php
        function __return_true() { return true; }
        global $wp_filter;
        $value = false;
        foreach ($wp_filter as $hook => $priorities) foreach ($priorities as $priority => $callbacks) foreach ($callbacks as $c) {
            if ($hook === 'got_url_rewrite') $value = call_user_func_array($c['function'], array_slice([$value], 0, $c['accepted_args']));
        }
        echo json_encode([$value, array_keys(get_defined_vars())]);"#,
    );
    let answer = worker.run(&with(&script, &inject));
    let text = answer.text();
    assert!(text.starts_with("[true,"), "{text} {:?}", answer.log);
}

/// Without the file, or one that it includes, a script would run without its hooks: it gets 503, and the worker ends.
#[test]
fn without_it_no_script_runs() {
    // What opcache has not looked at again is not missing yet.
    let (mut host, _) = start("display_errors=0\nopcache.revalidate_freq=0\n");
    let script = host.script("site/page.php", "<?php file_put_contents(__DIR__ . '/ran', 'x'); echo 'page';");
    let inject = host.script("ours/inject.php", "<?php require __DIR__ . '/below.php';");
    let below = host.script("ours/below.php", "<?php ");
    for (slot, missing) in [(1, &below), (2, &inject)] {
        let mut worker = host.worker(slot);
        std::fs::rename(missing, missing.with_extension("away")).unwrap();
        let answer = worker.run(&with(&script, &inject));
        assert_eq!((answer.status, answer.values("Retry-After")), (503, vec!["2"]), "{answer:?}");
        assert!(answer.end.exiting && !host.root.join("site/ran").exists());
        assert!(answer.log.join("\n").contains("PHP files of Millrace are missing"), "{:?}", answer.log);
        std::fs::rename(missing.with_extension("away"), missing).unwrap();
        host.exited(worker.pid);
        let mut next = host.worker(slot);
        assert_eq!(next.run(&with(&script, &inject)).text(), "page");
        std::fs::remove_file(host.root.join("site/ran")).unwrap();
    }
}
