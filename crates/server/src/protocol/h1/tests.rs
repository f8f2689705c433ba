//! The loop of a connection, driven by clients in memory.

use millrace_wire::head::{Head, Limits};

use super::{Connection, content};
use crate::protocol::tests::{HOUR, SMALL, TestLoop, large, play, splits};
use crate::serve::ExchangeTrouble;
use millrace_base::context::stats::Counter;
use millrace_base::message::Request;
use millrace_base::message::request::Content;

const GET: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n";

/// Requests of all kinds; the last one ends the connection.
const MANY: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n\
    HEAD /a.txt HTTP/1.1\r\nHost: a\r\n\r\n\
    POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
    POST /x.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: v\r\n\r\n\
    \r\nGET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// As text, without parts that change with time.
fn shown(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    text.split_inclusive("\r\n").filter(|line| !line.starts_with("Date: ")).collect()
}

fn statuses(answer: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(answer);
    text.split("HTTP/1.1 ").skip(1).map(|answer| answer[..3].parse().unwrap()).collect()
}

fn ends_connection(answer: &[u8]) -> bool {
    shown(answer).contains("\r\nConnection: close\r\n")
}

#[test]
fn requests_get_the_same_answers_in_whatever_pieces_they_come() {
    play(async || {
        let scene = TestLoop::new(|_| ());
        let whole = scene.answer([MANY]).await;
        assert_eq!(statuses(&whole), [200, 200, 500, 500, 404]);
        for pieces in splits(MANY) {
            let answer = scene.answer(pieces.iter().copied()).await;
            assert_eq!(shown(&answer), shown(&whole), "{} bytes first", pieces[0].len());
        }
    });
}

#[test]
fn a_client_that_has_little_room_gets_the_same_answers() {
    play(async || {
        let scene = TestLoop::new(|_| ());
        let whole = scene.answer([MANY]).await;
        for room in [1, 7, 300] {
            let client = scene.connect();
            client.set_room(room);
            client.send(MANY);
            assert_eq!(shown(&client.rest().await), shown(&whole), "room for {room} bytes");
        }
        let client = scene.connect();
        client.set_room(10_000);
        client.send(b"GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let answer = client.rest().await;
        assert!(answer.ends_with(&large()), "{} bytes", answer.len());
    });
}

#[test]
fn an_answer_to_head_is_that_to_get_without_content() {
    play(async || {
        let scene = TestLoop::new(|_| ());
        for path in ["/a.txt", "/large.bin", "/none"] {
            let ask = async |method: &str| {
                let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n");
                shown(&scene.answer([request.as_bytes()]).await)
            };
            let (get, head) = (ask("GET").await, ask("HEAD").await);
            let (fields, content) = get.split_once("\r\n\r\n").unwrap();
            assert!(head.strip_suffix("\r\n\r\n") == Some(fields) && !content.is_empty(), "{path}: {head}");
        }
    });
}

#[test]
fn a_connection_is_kept_as_both_ends_agree() {
    play(async || {
        let scene = TestLoop::new(|http| http.keep_alive_requests = 2);
        let client = scene.connect();
        client.send(GET.repeat(3));
        let answer = client.rest().await;
        assert_eq!(statuses(&answer), [200, 200], "the limit");
        assert!(answer.ends_with(SMALL.as_bytes()) && ends_connection(&answer));

        let scene = TestLoop::new(|_| ());
        let old = |fields: &str| format!("GET /a.txt HTTP/1.0\r\n{fields}\r\n").into_bytes();
        let client = scene.connect();
        client.send(old("Connection: keep-alive\r\n"));
        let answer = client.wait(|answer| answer.ends_with(SMALL.as_bytes())).await;
        assert!(shown(&answer).contains("\r\nConnection: keep-alive\r\n"));
        client.send(old(""));
        assert!(ends_connection(&client.rest().await), "HTTP/1.0 unless it asks");
        scene.is_over().await;
    });
}

#[test]
fn what_is_no_request_is_refused_and_ends_the_connection() {
    let fields = |count: usize| "A: b\r\n".repeat(count);
    let cases = [
        (400, "GET /a.txt HTTP/1.1\r\n\r\n".to_owned()),
        (400, "GET /a.txt HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_owned()),
        (400, "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_owned()),
        (411, "POST /x.php HTTP/1.0\r\nContent-Type: a/b\r\n\r\n".to_owned()),
        (414, format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(200))),
        (417, "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: tea\r\n\r\n".to_owned()),
        (431, format!("GET /a.txt HTTP/1.1\r\nHost: a\r\n{}\r\n", fields(20))),
        (431, format!("GET /a.txt HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n", "x".repeat(500))),
        (501, "POST /x.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n".to_owned()),
        (505, "GET /a.txt HTTP/3.7\r\nHost: a\r\n\r\n".to_owned()),
    ];
    play(async || {
        let scene =
            TestLoop::new(|http| (http.target_bytes, http.head_bytes, http.head_fields) = (100, 400, 10));
        for (status, request) in cases {
            let both = [request.as_bytes(), GET].concat();
            let before = scene.count(Counter::RequestsMalformed);
            let mut ways = 0;
            for pieces in splits(&both) {
                ways += 1;
                let client = scene.connect();
                pieces.iter().for_each(|piece| client.send(piece));
                let answer = client.rest().await;
                assert_eq!(statuses(&answer), [status], "{request:?}");
                assert!(ends_connection(&answer), "{request:?}");
                // Further input is read, otherwise the client would get a reset instead of its response.
                client.send("more");
                client.is_read().await;
                assert!(!client.is_reset(), "{request:?}");
            }
            assert_eq!(scene.count(Counter::RequestsMalformed) - before, ways, "{request:?}");
        }
        scene.is_over().await;
    });
}

#[test]
fn a_head_has_its_time_and_so_has_a_pause_between_requests() {
    play(async || {
        let scene = TestLoop::new(|_| ());
        let client = scene.connect();
        client.send("GET /a.txt HTTP/1.1\r\nHo");
        scene.until(Counter::ConnectionsReading, 1).await;
        scene.sweep(HOUR / 2);
        client.send("st: a\r\n\r\n");
        let answer = client.wait(|answer| answer.ends_with(SMALL.as_bytes())).await;
        assert_eq!(statuses(&answer), [200], "in time");
        scene.until(Counter::ConnectionsIdle, 1).await;
        scene.sweep(HOUR / 2);
        client.send("GET /a.txt HTTP/1.1\r\n");
        scene.until(Counter::ConnectionsReading, 1).await;
        scene.sweep(HOUR);
        let answer = client.rest().await;
        assert!(statuses(&answer) == [408] && ends_connection(&answer), "{}", shown(&answer));

        let idle = scene.connect();
        idle.send(GET);
        idle.wait(|answer| answer.ends_with(SMALL.as_bytes())).await;
        scene.until(Counter::ConnectionsIdle, 1).await;
        scene.sweep(HOUR);
        assert_eq!(idle.rest().await, b"", "no words for a client that asks for nothing");

        let slow = scene.connect();
        slow.send("POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
        scene.until(Counter::ConnectionsReading, 1).await;
        scene.sweep(HOUR);
        assert_eq!(statuses(&slow.rest().await), [408], "content has its time, too");
        assert_eq!(scene.count(Counter::ConnectionsTimedOut), 3);
        scene.is_over().await;
    });
}

#[test]
fn a_client_that_takes_nothing_is_cut_off() {
    play(async || {
        let scene = TestLoop::new(|_| ());
        let client = scene.connect();
        client.set_room(1000);
        client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        scene.until(Counter::ConnectionsWriting, 1).await;
        assert_eq!(client.untaken(), 1000);
        scene.sweep(HOUR / 2);
        assert!(!client.is_answered());
        scene.sweep(HOUR);
        assert!(client.is_reset() && client.is_answered());
        scene.is_over().await;
    });
}

#[test]
fn a_server_that_ends_lets_requests_finish() {
    play(async || {
        let scene = TestLoop::new(|_| ());
        let (idle, reads) = (scene.connect(), scene.connect());
        idle.send(GET);
        idle.wait(|answer| answer.ends_with(SMALL.as_bytes())).await;
        reads.send("GET /a.txt HTTP/1.1\r\n");
        scene.until(Counter::ConnectionsReading, 1).await;
        scene.until(Counter::ConnectionsIdle, 1).await;
        scene.drain();
        assert_eq!(idle.rest().await, b"");
        assert!(!reads.is_answered());
        reads.send("Host: a\r\n\r\n");
        let answer = reads.rest().await;
        assert!(statuses(&answer) == [200] && ends_connection(&answer), "{}", shown(&answer));
        scene.is_over().await;
    });
}

#[test]
fn a_client_is_told_to_go_on_only_if_its_content_is_wanted_and_has_not_come() {
    play(async || {
        let scene = TestLoop::new(|_| ());
        let head = |path: &str| {
            format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        };
        let client = scene.connect();
        client.send(head("/x.php"));
        let told = client.wait(|answer| answer.ends_with(b"\r\n\r\n")).await;
        assert_eq!(told, b"HTTP/1.1 100 Continue\r\n\r\n");
        client.send("hello");
        client.end();
        assert_eq!(statuses(&client.rest().await), [500]);

        let both = head("/x.php") + "hello";
        assert_eq!(statuses(&scene.answer([both.as_bytes()]).await), [500], "it is here already");

        let client = scene.connect();
        client.send(head("/a.txt"));
        let answer = client.rest().await;
        assert!(statuses(&answer) == [405] && ends_connection(&answer), "nobody reads it");
        drop(client);
        scene.is_over().await;
    });
}

/// The content read when it arrives in `pieces` behind its head, and the bytes left behind it.
async fn read(scene: &TestLoop, framing: &str, pieces: &[&[u8]]) -> (Result<Vec<u8>, u16>, Vec<u8>) {
    let (accepted, client) = scene.accepted();
    let ends = accepted.ends.clone();
    let connection = Connection::new(scene.thread.clone(), accepted);
    let text = format!("POST /x.php HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
    let mut head = Head::default();
    head.parse(text.as_bytes(), &Limits { bytes: 1000, fields: 9, target: 99 }).unwrap().unwrap();
    let mut request = Request::direct(head, ends);
    let mut rest = pieces[0].to_vec();
    pieces[1..].iter().for_each(|piece| client.send(piece));
    client.end();
    let setup = scene.thread.serve.setup();
    let read = match content::read(&connection, &mut request, &mut rest, &setup.plan, 20).await {
        Ok(()) => Ok(match request.content {
            Content::Memory(bytes) => bytes,
            other => panic!("{other:?}"),
        }),
        Err(ExchangeTrouble::Answer(reply)) => Err(reply.status),
        Err(ExchangeTrouble::Gone) => Err(0),
    };
    // Pieces that have not been requested yet.
    let left = poll_left(&connection).await;
    (read, [rest, left].concat())
}

async fn poll_left(connection: &Connection) -> Vec<u8> {
    let mut left = Vec::new();
    while let Ok(count) = super::wait(connection, false).await {
        left.extend_from_slice(&connection.thread.buffers.input.borrow()[..count]);
    }
    left
}

#[test]
fn content_ends_where_its_framing_says() {
    const CHUNKED: &str = "Transfer-Encoding: chunked";
    play(async || {
        let scene = TestLoop::new(|_| ());
        for (framing, bytes, content, behind) in [
            ("Content-Length: 5", "helloGET /", Ok("hello"), "GET /"),
            (CHUNKED, "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\nGET /", Ok("hello"), "GET /"),
            (
                CHUNKED,
                "0003;a=\"b\"\r\nhel\r\n02\r\nlo\r\n0\r\nTrailer: x\r\n\r\nGET /",
                Ok("hello"),
                "GET /",
            ),
            (CHUNKED, "3\r\nhel\r\n2\r\nlo\r\n", Err(0), ""),
            ("Content-Length: 5", "hell", Err(0), ""),
        ] {
            for pieces in splits(bytes.as_bytes()) {
                let (read, left) = read(&scene, framing, &pieces).await;
                let expected = content.map(|content| content.as_bytes().to_vec());
                assert_eq!(read, expected, "{bytes:?}, {} bytes first", pieces[0].len());
                if content.is_ok() {
                    assert_eq!(left, behind.as_bytes(), "{bytes:?}, {} bytes first", pieces[0].len());
                }
            }
        }
        for (framing, bytes, status) in [
            (CHUNKED, "x\r\n", 400),
            (CHUNKED, "3\r\nhello\r\n", 400),
            (CHUNKED, "15\r\n123456789012345678901\r\n", 413),
            ("Content-Length: 21", "1", 413),
        ] {
            for pieces in splits(bytes.as_bytes()) {
                assert_eq!(read(&scene, framing, &pieces).await.0, Err(status), "{bytes:?}");
            }
        }
    });
}

#[test]
fn whoever_goes_in_the_middle_of_something_leaves_nothing_behind() {
    play(async || {
        let scene = TestLoop::new(|_| ());
        for bytes in ["", "GET", "GET /a.txt HTTP/1.1\r\nHost: a\r\n"] {
            assert_eq!(scene.answer([bytes.as_bytes()]).await, b"", "{bytes:?}");
        }
        let content = "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel";
        assert_eq!(scene.answer([content.as_bytes()]).await, b"");
        let client = scene.connect();
        client.set_room(1000);
        client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        scene.until(Counter::ConnectionsWriting, 1).await;
        drop(client);
        scene.is_over().await;
        let open = [Counter::ConnectionsIdle, Counter::ConnectionsReading, Counter::ConnectionsWriting];
        assert_eq!(open.map(|counter| scene.count(counter)), [0; 3]);
    });
}
