//! What a script can do to its answer.

mod driver;

use driver::{Ask, Host};

const OPCACHE: &str = "zend_extension=opcache\n";

#[test]
fn hello() {
    let mut host = Host::start(OPCACHE, &[]);
    assert_eq!(host.says("sapi"), Some("fpm-fcgi"));
    assert_eq!(host.says("opcache"), Some("on"), "{:?}", host.ready);
    let script = host.script("hello.php", "<?php echo 'Hello World';");
    let mut worker = host.worker(0);
    for _ in 0..3 {
        let answer = worker.run(&Ask::get(&script));
        assert_eq!((answer.status, &answer.text()[..]), (200, "Hello World"));
        assert!(answer.end.ready && !answer.end.failed);
    }
}
