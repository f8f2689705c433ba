//! Which files scripts consist of, as workers say.

mod driver;

use driver::{Ask, Host};

/// What was said since the last call: how long opcache may run old code, and names of files.
fn said(worker: &mut driver::Worker) -> (String, Vec<String>) {
    let text = worker.code.drain(..).collect::<Vec<_>>().join("");
    let (head, files) = text.split_once('\u{1f}').unwrap_or((&text, ""));
    let names = files.split('\u{1f}').filter(|item| item.contains(" /"));
    let mut names: Vec<String> =
        names.map(|path| path.rsplit('/').next().unwrap_or_default().to_owned()).collect();
    names.sort();
    (head.to_owned(), names)
}

#[test]
fn each_file_is_said_once_for_each_site() {
    let mut host = Host::start("zend_extension=opcache\nopcache.file_update_protection=0\n", &[]);
    let mut worker = host.worker(0);
    host.script("site/part.php", "<?php echo 'part';");
    host.script("site/late, and odd.php", "<?php echo 'late';");
    let script = host.script(
        "site/page.php",
        "<?php include __DIR__ . '/part.php'; if (isset($_GET['late'])) include __DIR__ . '/late, and odd.php';",
    );
    let ask = Ask::get(&script).set("DOCUMENT_ROOT", "/srv/a");
    worker.run(&ask);
    assert_eq!(said(&mut worker), ("ran 2,".to_owned(), vec!["page.php".to_owned(), "part.php".to_owned()]));
    worker.run(&ask);
    assert_eq!(said(&mut worker).1, Vec::<String>::new());
    worker.run(&ask.clone().set("QUERY_STRING", "late=1"));
    assert_eq!(said(&mut worker).1, ["late, and odd.php"]);
    worker.run(&Ask::get(&script).set("DOCUMENT_ROOT", "/srv/b"));
    assert_eq!(said(&mut worker).1, ["page.php", "part.php"], "a host may serve several sites");
    let mut other = host.worker(1);
    other.run(&ask);
    assert_eq!(said(&mut other).1, ["page.php", "part.php"], "each worker says it: one may have died before");
}

#[test]
fn the_server_learns_how_long_old_code_may_run() {
    for (ini, expected) in
        [("opcache.revalidate_freq=7", "ran 7,"), ("opcache.validate_timestamps=0", "ran -,")]
    {
        let mut host = Host::start(&format!("zend_extension=opcache\n{ini}\n"), &[]);
        let mut worker = host.worker(0);
        let script = host.script("page.php", "<?php echo 1;");
        worker.run(&Ask::get(&script));
        assert_eq!(said(&mut worker).0, expected, "{ini}");
    }
}

#[test]
fn thousands_of_files_take_several_notes() {
    let mut host = Host::start("", &[]);
    let mut worker = host.worker(0);
    let count = 3000;
    let script = host.script(
        "page.php",
        &format!("<?php for ($i = 0; $i < {count}; $i++) {{ $f = __DIR__ . \"/generated-file-number-$i.php\"; file_put_contents($f, '<?php return 1;'); include $f; }}"),
    );
    worker.run(&Ask::get(&script));
    assert!(
        worker.code.len() > 1 && worker.code.iter().all(|text| text.starts_with("ran 0,\u{1f}")),
        "{}",
        worker.code.len()
    );
    let files: usize = worker.code.iter().map(|text| text.matches('\u{1f}').count()).sum();
    assert_eq!(files, count + 1);
}

#[test]
fn files_never_have_the_head_sent_before_hooks_have_judged_the_page() {
    let mut host = Host::start("", &[]);
    let mut worker = host.worker(0);
    // The last file is included by a shutdown function, as is the word about the page.
    let script = host.script(
        "page.php",
        "<?php for ($i = 0; $i < 1000; $i++) { $f = __DIR__ . \"/generated-file-number-$i.php\"; file_put_contents($f, '<?php return 1;'); $i < 999 && include $f; }
        register_shutdown_function(function () use ($f) { include $f; millrace_cache_control('public, max-age=60'); });
        echo 'page';",
    );
    worker.send(&Ask::get(&script));
    let first = worker.next();
    assert!(matches!(first, driver::Sent::Head(..)), "{first:?}");
    let files: usize = worker.code.iter().map(|text| text.matches('\u{1f}').count()).sum();
    assert_eq!(files, 1001);
    assert_eq!(worker.answer().notes.len(), 1);
}
