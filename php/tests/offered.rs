//! Requests that are sent ahead to a worker that is busy: it runs those that it can take.

mod driver;

use driver::{Ask, Host, Worker};
use millrace_wire::frames;
use std::time::Duration;

const OPCACHE: &str = "zend_extension=opcache\nopcache.file_update_protection=0\n";

/// A worker that runs a script until [`let_go`], and a script that tells its query.
fn busy() -> (Host, Worker, Ask) {
    let mut host = Host::start(OPCACHE, &[]);
    let waits = host.script(
        "waits.php",
        "<?php while (!file_exists(__DIR__ . '/go')) { usleep(500); clearstatcache(); } echo 'first';",
    );
    let tells =
        host.script("tells.php", "<?php echo $_SERVER['QUERY_STRING'], file_get_contents('php://input');");
    let mut worker = host.worker(0);
    worker.send(&Ask::get(&waits));
    (host, worker, Ask::get(&tells))
}

fn let_go(host: &Host) {
    host.script("go", "");
}

#[test]
fn an_offered_request_is_taken_and_run() {
    let (host, mut worker, ask) = busy();
    let sequence = worker.offer(&host, &ask.clone().set("QUERY_STRING", "a"));
    assert!(!worker.speaks_within(Duration::from_millis(50)));
    assert_eq!(host.offered(0, sequence), sequence * 2, "not before its turn");
    assert_eq!(host.board64(0, frames::SLOT_RECEIVED), sequence - 1);
    let_go(&host);
    assert_eq!(worker.answer().text(), "first");
    assert_eq!(worker.answer_offered().text(), "a");
    assert_eq!(host.offered(0, sequence), sequence * 2 + 1);
    assert_eq!(host.board64(0, frames::SLOT_FINISHED), sequence);
    assert_eq!(worker.run(&ask.set("QUERY_STRING", "b")).text(), "b");
}

#[test]
fn one_that_was_taken_back_is_passed_over() {
    let (host, mut worker, ask) = busy();
    let sequence = worker.offer(&host, &ask.clone().set("QUERY_STRING", "a"));
    host.set_offered(0, sequence, 0);
    let_go(&host);
    assert_eq!(worker.answer().text(), "first");
    assert!(!worker.speaks_within(Duration::from_millis(50)));
    assert_eq!(host.board64(0, frames::SLOT_RECEIVED), sequence - 1);
    // The next one, with a descriptor, is not mistaken for it.
    let post = Ask::post(&host.script("in.php", "<?php readfile('php://input');"), "text/plain", b"content");
    assert_eq!(worker.run(&post.by_descriptor()).text(), "content");
    assert_eq!(host.board64(0, frames::SLOT_RECEIVED), sequence + 1);
}

#[test]
fn a_descriptor_behind_one_that_was_taken_back_is_kept() {
    let (host, mut worker, ask) = busy();
    let sequence = worker.offer(&host, &ask);
    host.set_offered(0, sequence, 0);
    let post = Ask::post(&host.script("in.php", "<?php readfile('php://input');"), "text/plain", b"content");
    worker.send(&post.by_descriptor());
    let_go(&host);
    assert_eq!(worker.answer().text(), "first");
    assert_eq!(worker.answer_offered().text(), "content");
}

#[test]
fn two_may_be_on_their_way() {
    let (host, mut worker, ask) = busy();
    for text in ["a", "b"] {
        let sequence = worker.offer(&host, &ask.clone().set("QUERY_STRING", text));
        assert_eq!(host.offered(0, sequence), sequence * 2);
    }
    let_go(&host);
    assert_eq!(worker.answer().text(), "first");
    assert_eq!(worker.answer_offered().text(), "a");
    assert_eq!(worker.answer_offered().text(), "b");
}

#[test]
fn a_worker_that_ends_takes_none() {
    let mut host = Host::start(OPCACHE, &["--max-requests", "1"]);
    let script = host.script("a.php", "<?php usleep(50000); echo 1;");
    let mut worker = host.worker(0);
    worker.send(&Ask::get(&script));
    let sequence = worker.offer(&host, &Ask::get(&script));
    let answer = worker.answer();
    assert!(answer.end.exiting);
    assert_eq!(worker.next(), driver::Sent::Closed);
    assert_eq!(host.offered(0, sequence), sequence * 2);
    assert_eq!(host.exited(worker.pid).0, 0);
}
