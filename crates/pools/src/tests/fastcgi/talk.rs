//! One request and its response.

use super::super::slow::drain;
use super::*;

#[test]
fn a_short_answer_comes_at_once_over_one_connection() {
    let (rig, fpms) = rig(1, 5, |_| ());
    rig.play(async |scene| {
        for _ in 0..20 {
            let answer = scene.get(HELLO).await;
            assert_eq!((answer.status, &answer.text[..]), (200, "hello"));
            assert_eq!(answer.fields, ["Content-type: text/html"]);
            assert!(answer.end.is_none(), "not a stream");
            scene.until_free().await;
        }
        let status = scene.status();
        assert_eq!((status.idle, status.running, status.most), (1, 0, 1));
        let backend = &status.backends[0];
        assert_eq!((backend.connections, backend.busy, backend.requests, backend.most), (1, 0, 20, Some(5)));
        assert!(backend.up && backend.failures == 0);
        assert_eq!(scene.count(Counter::FastCgiConnections), 1);
    });
    assert_eq!((fpms[0].connections(), fpms[0].requests()), (1, 20));
}

#[test]
fn torn_records_are_put_together() {
    let (rig, _fpms) = rig(1, 0, |_| ());
    rig.play(async |scene| {
        let text = "torn;head:Status=404+Not+Found,X-A=b;body:hello;err:PHP+message:+oops;body:world;end";
        let answer = scene.get(&text.replace("404+Not+Found", "404")).await;
        assert_eq!((answer.status, &answer.text[..]), (404, "helloworld"));
        assert_eq!(answer.fields, ["X-A: b"]);
        scene.until_free().await;
        assert_eq!(scene.get(HELLO).await.text, "hello");
        assert_eq!(scene.count(Counter::FastCgiConnections), 1);
    });
}

#[test]
fn head_status_location_and_words_for_the_server() {
    let (rig, _fpms) = rig(1, 0, |_| ());
    rig.play(async |scene| {
        assert_eq!(scene.get("head:Location=/x;end").await.status, 302);
        scene.until_free().await;
        assert_eq!(scene.get("head:Status=100,A=b;body:x;end").await.status, 500, "no interim answers");
        scene.until_free().await;
        assert_eq!(scene.get("head:Status=999;body:x;end").await.status, 999);
        scene.until_free().await;
        let reply = scene
            .ask("GET", "head:X-Accel-Redirect=/secret,Millrace-Tag=a,B=c;body:x;end", Content::Empty)
            .await;
        assert_eq!(reply.fields.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["B"]);
        assert!(reply.aside.is_some_and(|aside| aside.fields.iter().count() == 2));
        scene.until_free().await;
        let reply = scene.ask("HEAD", "head:Content-Length=5;body:hello;end", Content::Empty).await;
        assert!(matches!(reply.body, Body::Omitted(Some(5))), "{reply:?}");
        scene.until_free().await;
        let reply = scene.ask_in_two("HEAD", "head:A=b;PAUSE;body:hello;end").await;
        assert!(matches!(reply.body, Body::Omitted(None)), "{reply:?}");
        scene.until_free().await;
        for status in [204, 304] {
            let script = format!("head:Status={status};sleep:20;body:nonsense;end");
            let reply = scene.ask("GET", &script, Content::Empty).await;
            assert!(matches!(reply.body, Body::Empty) && reply.status == status, "{reply:?}");
            scene.until_free().await;
        }
        assert_eq!(scene.get(HELLO).await.text, "hello", "what was still said is nobody's answer");
        assert_eq!(scene.count(Counter::PhpLost), 0);
        assert_eq!(scene.count(Counter::FastCgiConnections), 1);
    });
}

#[test]
fn what_is_no_answer() {
    let (rig, _fpms) = rig(1, 0, |_| ());
    rig.play(async |scene| {
        for script in ["garbage", "end", "body:no head;end", "head:A=b;half", "overloaded"] {
            let answer = scene.get(&script.replace(' ', "")).await;
            let expected = if script == "overloaded" { 503 } else { 502 };
            assert_eq!(answer.status, expected, "{script}");
            // After some failures the backend is paused.
            scene.until(20.0, "up again", |_| true).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(scene.get(HELLO).await.text, "hello", "after {script}");
        }
    });
}

#[test]
fn a_long_answer_streams_and_a_slow_client_holds_it_up() {
    let (rig, _fpms) = rig(1, 0, |_| ());
    rig.play(async |scene| {
        let script = format!("head:A=b;body:one;{};body:two;end", scene.gate("go"));
        let reply = scene.ask("GET", &script, Content::Empty).await;
        let Body::Stream(mut stream) = reply.body else { panic!("not a stream") };
        let mut piece = Vec::new();
        assert!(stream.next(&mut piece).await.unwrap());
        assert_eq!(piece, b"one", "the script has not made the rest yet");
        scene.open("go");
        while stream.next(&mut piece).await.unwrap() {}
        assert_eq!(piece, b"onetwo");
        drop(stream);

        let reply = scene.ask("GET", "head:A=b;big:20000000;end", Content::Empty).await;
        let Body::Stream(mut stream) = reply.body else { panic!("not a stream") };
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(scene.status().running, 1, "it can't have finished");
        let (mut all, mut most) = (0, 0);
        loop {
            let mut piece = Vec::new();
            if !stream.next(&mut piece).await.unwrap() {
                break;
            }
            most = most.max(piece.len());
            all += piece.len();
        }
        assert_eq!(all, 20_000_000);
        assert!(most < 1 << 20, "{most} bytes were held");
        scene.until(20.0, "kept", |status| status.idle == 1).await;
    });
}

#[test]
fn an_answer_that_breaks_off_is_not_taken_for_whole() {
    let (rig, fpms) = rig(1, 0, |_| ());
    rig.play(async |scene| {
        let answer = scene.get_in_two("head:A=b;body:one;PAUSE;close").await;
        assert!(matches!(answer.end, Some(Err(_))), "{answer:?}");
        let answer = scene.get_in_two("head:Content-Length=9;body:one;PAUSE;end").await;
        assert!(matches!(answer.end, Some(Err(_))), "{answer:?}");
    });
    assert_eq!(fpms[0].requests(), 2, "what has reached the client is not run again");
}

#[test]
fn content_of_any_length_and_from_a_file() {
    let (rig, _fpms) = rig(1, 0, |_| ());
    rig.play(async |scene| {
        for length in [0usize, 1, 16 << 10, (16 << 10) + 1, 65_528, 131_056, 3_000_000] {
            let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
            let mut file = std::fs::File::options();
            let file = file.read(true).write(true).create(true).truncate(true);
            let mut file = file.open(scene.file("spool")).unwrap();
            std::io::Write::write_all(&mut file, &bytes).unwrap();
            let spooled = Content::Spooled { file, length: length as u64 };
            for content in [Content::Memory(bytes), spooled] {
                let answer = read(scene.ask("PUT", "echo", content).await).await;
                assert_eq!(answer.text, format!("{length} {sum}"));
            }
        }
    });
}

/// php-fpm responds without reading the request's content: the client gets the response, and the rest of the content is
/// not taken for a request. Whether all of it was sent by then - because the socket's buffers were large enough, or
/// php-fpm read quickly - or the connection is closed, the next request succeeds.
#[test]
fn an_answer_before_the_content_was_read() {
    let (rig, _fpms) = rig(1, 0, |_| ());
    rig.play(async |scene| {
        let long = || Content::Memory(vec![b'x'; 5_000_000]);
        for content in [Content::Memory(vec![b'x'; 50_000]), long()] {
            let answer = read(scene.ask("PUT", "early;head:A=b;body:nothanks;end", content).await).await;
            assert_eq!(&answer.text[..], "nothanks");
        }
        let answer = read(scene.ask("PUT", "early;head:A=b;body:no;end;close", long()).await).await;
        assert_eq!((answer.status, &answer.text[..]), (200, "no"));
        assert_eq!(scene.get(HELLO).await.text, "hello");
    });
}

#[test]
fn paths_are_those_that_php_fpm_sees() {
    let (rig, _fpms) = rig(1, 0, |_| ());
    let mut plan = rig.site.plan.clone();
    plan.root = "/srv/site".into();
    plan.fastcgi_root = Some("/var/www/html".into());
    let pool = rig.site.service.clone();
    let site = Arc::new(SiteWorkers { site: Site::new(0, plan), service: pool, persistent: None });
    rig.play(async |mut scene| {
        scene.site = site;
        for (variable, expected) in [
            ("SCRIPT_FILENAME", "/var/www/html/a/b.php"),
            ("DOCUMENT_ROOT", "/var/www/html"),
            ("SCRIPT_NAME", "/a/b.php"),
            ("PATH_INFO", "/i"),
            ("REDIRECT_STATUS", "200"),
            ("REQUEST_METHOD", "GET"),
            ("HTTP_HOST", "a.test"),
            ("GATEWAY_INTERFACE", "CGI/1.1"),
        ] {
            let mut request = scene.request("GET", &format!("variable:{variable}"), Content::Empty);
            let script = Script {
                filename: (*b"/srv/site/a/b.php").into(),
                name: b"/a/b.php".to_vec(),
                path_info: b"/i".to_vec(),
                workers: WorkerKind::Ordinary,
            };
            let answer = read(run(&scene.thread, &scene.site, &mut request, &script).await).await;
            assert_eq!(answer.text, expected, "{variable}");
        }
    });
}

/// A client that leaves closes its connection, so php-fpm learns of it.
#[test]
fn the_client_leaves() {
    let (rig, fpms) = rig(1, 0, |_| ());
    rig.play(async |scene| {
        let other = scene.clone();
        let asking = tokio::task::spawn_local(async move { other.get("never").await });
        wait_for("it runs", || fpms[0].requests() == 1).await;
        asking.abort();
        scene.until(20.0, "closed", |status| status.backends[0].connections == 0).await;
        assert_eq!(scene.get(HELLO).await.text, "hello");
        let reply = scene.ask("GET", "head:A=b;body:x;never", Content::Empty).await;
        drop(reply);
        scene.until(20.0, "closed", |status| status.backends[0].connections == 0).await;
    });
    let began = Instant::now();
    while fpms[0].seen.open.load(Ordering::SeqCst) > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "php-fpm has not been told");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn too_late_is_504() {
    let (rig, _fpms) = rig(1, 0, |php| php.request_timeout = Duration::from_millis(300));
    rig.play(async |scene| {
        for script in ["never", &format!("{};head:A=b;end", scene.gate("never"))] {
            let began = Instant::now();
            assert_eq!(scene.get(script).await.status, 504);
            assert!((300..15_000).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
        }
        assert_eq!(scene.count(Counter::PhpTimeouts), 2);
        let mut stream = scene.stream_in_time("head:A=b;body:x;never").await;
        assert!(drain(&mut *stream).await.2.is_err());
        assert!(scene.count(Counter::PhpTimeouts) >= 3);
        assert_eq!(scene.get_in_time(HELLO).await.text, "hello");
    });
}

/// Each piece of content gives the script more time, with a limit of silence or without; a hanging one is ended.
#[test]
fn only_the_time_of_the_script_counts() {
    for silence in [0, 20_000] {
        let (rig, _fpms) = rig(1, 0, |php| {
            php.request_timeout = Duration::from_secs(1);
            php.fastcgi_read_timeout = Duration::from_millis(silence);
        });
        rig.play(async |scene| {
            let events = "head:A=b;body:1;".to_owned() + &"sleep:300;body:1;".repeat(5) + "end";
            assert_eq!(scene.get_in_time(&events).await.text, "111111");
            let mut stream = scene.stream_in_time("head:A=b;body:1;sleep:300;body:1;never").await;
            let (all, _, end) = drain(&mut *stream).await;
            assert!(b"11".starts_with(&all[..]) && end.is_err(), "{all:?}");
        });
    }
}

#[test]
fn silence_is_504_but_not_a_slow_client() {
    let (rig, _fpms) = rig(1, 0, |php| php.fastcgi_read_timeout = Duration::from_secs(1));
    rig.play(async |scene| {
        assert_eq!(scene.get("never").await.status, 504);
        let spoken =
            scene.get_in_time("head:A=b;body:1;sleep:400;body:2;sleep:400;body:3;sleep:400;body:4;end").await;
        assert_eq!(spoken.text, "1234");
        let mut stream = scene.stream_in_time("head:A=b;big:5000000;end").await;
        tokio::time::sleep(Duration::from_millis(1300)).await;
        let mut content = Vec::new();
        while stream.next(&mut content).await.unwrap() {}
        assert_eq!(content.len(), 5_000_000);
    });
}
