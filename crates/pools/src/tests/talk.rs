//! One request and its response.

use std::io::Write;
use std::time::Duration;

use super::*;

#[test]
fn a_short_answer_comes_at_once() {
    Rig::new(|_| ()).play(async |scene| {
        let answer = scene.get(HELLO).await;
        assert_eq!((answer.status, &answer.text[..]), (200, "hello"));
        assert_eq!(answer.fields, ["Content-Type: text/html"]);
        assert!(answer.end.is_none(), "not a stream");
        assert_eq!(scene.status().idle, 1, "the worker is back at once");
        assert_eq!(scene.get("pid;head:200").await.status, 502, "content before the head");
    });
}

#[test]
fn torn_frames_are_put_together() {
    Rig::new(|_| ()).play(async |scene| {
        let answer = scene.get("head:404,X-A:b;body:hello;log:x;body:world;end;torn").await;
        assert_eq!((answer.status, &answer.text[..]), (404, "helloworld"));
        // On a busy machine all of it may have arrived before the first read.
        assert!(matches!(answer.end, None | Some(Ok(()))));
        assert_eq!(scene.get(HELLO).await.text, "hello");
    });
}

#[test]
fn heads_and_empty_answers() {
    Rig::new(|_| ()).play(async |scene| {
        let reply = scene.ask("HEAD", "head:200,Content-Length:5;body:hello;end", Content::Empty).await;
        assert!(matches!(reply.body, Body::Omitted(Some(5))), "{reply:?}");
        let reply = scene.ask("HEAD", "head:200;body:hello;end", Content::Empty).await;
        assert!(matches!(reply.body, Body::Omitted(Some(5))), "{reply:?}");
        for unknown in ["head:200;flush;PAUSE;body:hello;end", "head:200;end"] {
            let reply = scene.ask_in_two("HEAD", unknown).await;
            assert!(matches!(reply.body, Body::Omitted(None)), "{reply:?}");
        }
        for empty in ["head:302,Location:/x;end", "head:500;end"] {
            let reply = scene.ask("HEAD", empty, Content::Empty).await;
            assert!(matches!(reply.body, Body::Omitted(Some(0))), "{reply:?}");
        }
        let reply = scene.ask("HEAD", "head:200,Content-Length:9;body:hello;end", Content::Empty).await;
        assert!(matches!(reply.body, Body::Omitted(Some(5))), "as to GET: {reply:?}");
        for status in [204, 205, 304] {
            let reply =
                scene.ask("HEAD", &format!("head:{status},Content-Length:5;end"), Content::Empty).await;
            assert!(matches!(reply.body, Body::Empty), "{reply:?}");
            let script = format!("head:{status};flush;sleep:20;body:nonsense;end");
            let reply = scene.ask("GET", &script, Content::Empty).await;
            assert!(matches!(reply.body, Body::Empty) && reply.status == status, "{reply:?}");
        }
        assert_eq!(
            scene.get(HELLO).await.text,
            "hello",
            "what the worker still said is not taken for the answer"
        );
        assert_eq!(scene.count(Counter::PhpLost), 0);
    });
}

#[test]
fn output_streams_as_it_comes() {
    Rig::new(|_| ()).play(async |scene| {
        let script = format!("head:200;body:one;flush;{};body:two;end", scene.gate("go"));
        let reply = scene.ask("GET", &script, Content::Empty).await;
        let Body::Stream(mut stream) = reply.body else { panic!("not a stream") };
        let mut piece = Vec::new();
        assert!(stream.next(&mut piece).await.unwrap());
        assert_eq!(piece, b"one", "the script has not made the rest yet");
        scene.open("go");
        assert!(stream.next(&mut piece).await.unwrap());
        assert_eq!(piece, b"onetwo");
        assert!(!stream.next(&mut piece).await.unwrap());
    });
}

#[test]
fn a_slow_client_does_not_hold_the_worker_for_a_medium_answer() {
    Rig::new(|_| ()).play(async |scene| {
        let script = "head:200;flush;PAUSE;fill:200000;end";
        let Body::Stream(mut stream) = scene.ask_in_two("GET", script).await.body else {
            panic!("not a stream")
        };
        assert_eq!(scene.get("head:200;pid;end").await.status, 200, "the one worker is free");
        let mut content = Vec::new();
        while stream.next(&mut content).await.unwrap() {}
        assert_eq!(content.len(), 200_000);
    });
}

#[test]
fn without_disk_space_a_long_answer_is_held_back() {
    Rig::serving(|server| server.spool_bytes = 0).play(async |scene| {
        let pieces = "fill:1000000;flush;".repeat(8);
        let script = format!("head:200;flush;PAUSE;{pieces}note:{};end", scene.file("done"));
        let Body::Stream(mut stream) = scene.ask_in_two("GET", &script).await.body else {
            panic!("not a stream")
        };
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(scene.lines("done"), 0, "the script waits for its client");
        let (mut total, mut most, mut piece) = (0, 0, Vec::new());
        while stream.next(&mut piece).await.unwrap() {
            (total, most) = (total + piece.len(), most.max(piece.len()));
            piece.clear();
        }
        assert_eq!(total, 8_000_000);
        assert!(most < 400_000, "{most} bytes were held");
    });
}

#[test]
fn announced_lengths_are_kept() {
    Rig::new(|_| ()).play(async |scene| {
        let whole = "head:200,Content-Length:3;body:hello;end";
        assert_eq!(scene.get(whole).await.text, "hel", "as in a stream, and as nginx does");
        let short = scene.ask("GET", "head:200,Content-Length:9;body:hello;end", Content::Empty).await;
        assert!(short.aside.is_some_and(|aside| aside.failed), "not all that was meant: not for the cache");
        let long = "head:200,Content-Length:3;flush;PAUSE;body:hello;end";
        let reply = scene.ask_in_two("GET", long).await;
        assert_eq!(reply.body.length(), Some(3));
        let answer = read(reply).await;
        assert_eq!((&answer.text[..], answer.end.unwrap().is_ok()), ("hel", true));
        let short = scene.get_in_two("head:200,Content-Length:9;flush;PAUSE;body:hello;end").await;
        assert_eq!((&short.text[..], short.end.unwrap().is_err()), ("hello", true));
    });
}

#[test]
fn content_arrives_whole_however_it_is_kept() {
    Rig::new(|_| ()).play(async |scene| {
        let echo = "head:200;input;end";
        let letters = |count: usize| (0..count).map(|i| b'a' + (i % 26) as u8).collect::<Vec<u8>>();
        for size in [0, 1, 65_536, 65_537, 900_000] {
            let content = Content::Memory(letters(size));
            let answer = read(scene.ask("POST", echo, content).await).await;
            assert!(answer.text.as_bytes() == letters(size), "{size} bytes in memory");
        }
        let spooled = |size: usize| {
            let mut file = tempfile(&scene);
            file.write_all(&letters(size)).unwrap();
            Content::Spooled { file, length: size as u64 }
        };
        let answer = read(scene.ask("POST", echo, spooled(300_000)).await).await;
        assert!(answer.text.as_bytes() == letters(300_000), "spooled");
        let again = format!("input;die-once:{};head:200;input;end", scene.file("died"));
        let again = again.strip_prefix("input;").unwrap();
        let answer = read(scene.ask("PUT", again, spooled(300_000)).await).await;
        assert!(answer.text.as_bytes() == letters(300_000), "read again by a second worker");
    });
}

fn tempfile(scene: &Scene) -> std::fs::File {
    let path = scene.dir.join("spooled");
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true).open(path).unwrap()
}

#[test]
fn the_background_part_holds_the_worker_not_the_client() {
    Rig::new(|_| ()).play(async |scene| {
        let script = format!(
            "head:200;body:hello;end:background;flush;{};note:{};ready",
            scene.gate("go"),
            scene.file("ran")
        );
        assert_eq!(scene.get(&script).await.text, "hello", "while the rest still waits");
        assert_eq!((scene.lines("ran"), scene.status().idle), (0, 0));
        let other = scene.clone();
        let next = tokio::task::spawn_local(async move { other.get(HELLO).await.text });
        scene.until(20.0, "it waits for the worker", |pool| pool.waiting == 1).await;
        scene.open("go");
        assert_eq!(next.await.unwrap(), "hello", "served by the same worker, afterwards");
        assert_eq!(scene.lines("ran"), 1);
    });
}

#[test]
fn who_goes_is_told_to_the_script() {
    Rig::new(|_| ()).play(async |scene| {
        let file = scene.file("told");
        let script = format!("note:{};aborted;note:{file};head:200;body:x;end", scene.file("began"));
        let other = scene.clone();
        let waiting = tokio::task::spawn_local(async move { other.get(&script).await });
        wait_for("the script runs", || scene.lines("began") == 1).await;
        waiting.abort();
        assert!(waiting.await.is_err(), "the client went before the head");
        assert_eq!(scene.get(HELLO).await.text, "hello", "the worker was not killed");
        assert_eq!(scene.lines("told"), 1);

        let script = format!("head:200;body:x;flush;aborted;note:{file};body:y;end");
        let reply = scene.ask("GET", &script, Content::Empty).await;
        assert!(matches!(reply.body, Body::Stream(_)));
        drop(reply);
        assert_eq!(scene.get(HELLO).await.text, "hello");
        assert_eq!((scene.lines("told"), scene.count(Counter::PhpLost)), (2, 0));
    });
}
