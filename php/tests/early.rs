//! What a script says before its answer: 103 Early Hints.

mod driver;

use driver::{Ask, Host, Sent, Worker};

fn start() -> (Host, Worker) {
    let mut host = Host::start("zend_extension=opcache\n", &[]);
    let worker = host.worker(0);
    (host, worker)
}

/// The links of each EARLY, and the content of the answer.
fn run(worker: &mut Worker, ask: &Ask) -> (Vec<Vec<String>>, String) {
    worker.send(ask);
    let (mut early, mut content) = (Vec::new(), Vec::new());
    loop {
        match worker.next() {
            Sent::Early(fields) => {
                assert!(content.is_empty(), "after the answer's start");
                early.push(fields.into_iter().map(|(name, value)| format!("{name}: {value}")).collect());
            }
            Sent::Body(piece) => content.extend_from_slice(&piece),
            Sent::End(_) => return (early, String::from_utf8(content).unwrap()),
            Sent::Closed => panic!("the worker has gone"),
            _ => {}
        }
    }
}

#[test]
fn links_go_before_the_answer() {
    let (host, mut worker) = start();
    let script = host.script(
        "page.php",
        "<?php header('Link: </a.css>; rel=preload'); header('Link: </b.js>; rel=preload', false); setcookie('a', 'b');
         $said = [headers_send(103), millrace_early_hints('</c>; rel=preload', '<https://d>; rel=preconnect'), millrace_early_hints()];
         echo json_encode([$said, headers_sent(), http_response_code()]);",
    );
    for _ in 0..2 {
        let (early, content) = run(&mut worker, &Ask::get(&script));
        let set = vec!["Link: </a.css>; rel=preload".to_owned(), "Link: </b.js>; rel=preload".to_owned()];
        let given =
            vec!["Link: </c>; rel=preload".to_owned(), "Link: <https://d>; rel=preconnect".to_owned()];
        assert_eq!(early, [set.clone(), given, set]);
        assert_eq!(content, "[[1,true,true],false,200]");
    }
}

#[test]
fn an_answer_that_has_begun_has_no_hints() {
    let (host, mut worker) = start();
    let script = host.script(
        "late.php",
        "<?php header('Link: </a>'); echo 'x'; while (ob_get_level()) ob_end_flush(); flush();
         echo json_encode([headers_send(103), millrace_early_hints('</b>')]);",
    );
    assert_eq!(run(&mut worker, &Ask::get(&script)), (vec![], "x[3,false]".to_owned()));
    let none =
        host.script("none.php", "<?php echo json_encode([headers_send(103), millrace_early_hints()]);");
    assert_eq!(run(&mut worker, &Ask::get(&none)), (vec![], "[1,true]".to_owned()), "nothing to say");
}

#[test]
fn the_head_is_sent_when_asked_for() {
    let (host, mut worker) = start();
    let script = host.script(
        "head.php",
        "<?php ob_start(); header('X-A: 1'); $sent = headers_send(404); usleep(50000); echo $sent;",
    );
    worker.send(&Ask::get(&script));
    let Sent::Head(status, _, fields) = worker.next() else { panic!("no head") };
    assert_eq!((status, fields.iter().any(|field| field.0 == "X-A")), (404, true));
    let Sent::Body(content) = worker.next() else { panic!("no content") };
    assert_eq!(content, b"0");
}

#[test]
fn what_is_no_link_is_refused() {
    let (host, mut worker) = start();
    let code = r#"<?php foreach ([[''], ["a\r\nSet-Cookie: b=1"], ["\0"], ['ok', '']] as $links) {
        try { millrace_early_hints(...$links); echo 'taken '; } catch (ValueError $e) { echo 'refused '; } }
        try { millrace_early_hints([]); } catch (TypeError $e) { echo 'type '; }
        echo headers_send(102), ' '; foreach ([0, 99, 1000] as $status) {
            try { headers_send($status); echo 'taken '; } catch (ValueError $e) { echo 'refused '; } }"#;
    let script = host.script("bad.php", code);
    let expected = "refused refused refused refused type 3 refused refused refused ";
    assert_eq!(run(&mut worker, &Ask::get(&script)), (vec![], expected.to_owned()));
}
