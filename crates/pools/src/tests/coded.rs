//! Long responses that are compressed while they are made.

use std::io::Read;

use millrace_wire::encoding::Coding;

use super::slow::{begin, done, drain};
use super::*;
use millrace_base::message::reply::ContentSource;

const MEGABYTE: usize = 1 << 20;

/// The stream of a script's response, compressed.
async fn coded(scene: &Scene, script: &str) -> Box<dyn ContentSource> {
    let mut stream = begin(scene, script).await;
    assert!(stream.code(Coding::Gzip) && stream.length().is_none());
    stream
}

/// The part of it that can be decompressed, and whether it is complete.
fn read_out(coded: &[u8]) -> (Vec<u8>, bool) {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    let mut reader = flate2::read::GzDecoder::new(coded);
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return (all, true),
            Ok(count) => all.extend_from_slice(&piece[..count]),
            Err(_) => return (all, false),
        }
    }
}

#[test]
fn what_a_script_flushes_can_be_read_at_once() {
    Rig::new(|_| ()).play(async |scene| {
        let (first, second) = (scene.gate("first"), scene.gate("second"));
        let script = format!("head:200;body:one;flush;{first};body:,two;flush;{second};body:,three;end");
        let mut stream = coded(&scene, &script).await;
        let mut all = Vec::new();
        for (expected, gate) in [("one", "first"), ("one,two", "second"), ("one,two,three", "last")] {
            while read_out(&all).0 != expected.as_bytes() {
                assert!(stream.next(&mut all).await.unwrap(), "it ended at {expected}");
            }
            scene.open(gate);
        }
        while stream.next(&mut all).await.unwrap() {}
        assert_eq!(read_out(&all), (b"one,two,three".to_vec(), true));
    });
}

#[test]
fn it_shrinks_before_it_waits_for_a_slow_client() {
    Rig::new(|_| ()).play(async |scene| {
        let pieces = format!("fill:{MEGABYTE};flush;").repeat(12);
        let script = format!("head:200;flush;PAUSE;{pieces}note:{};end", scene.file("done"));
        let mut stream = coded(&scene, &script).await;
        done(&scene, "the script waits for its client").await;
        scene.until(20.0, "the worker is free", |status| status.idle == 1).await;
        assert_eq!(scene.count(Counter::PhpSpooled), 0, "twelve megabytes of one letter");
        let (all, _, end) = drain(&mut *stream).await;
        assert!(end.is_ok() && all.len() < MEGABYTE / 4);
        assert!(read_out(&all) == (vec![b'x'; 12 * MEGABYTE], true));
    });
}

#[test]
fn what_does_not_shrink_waits_on_disk() {
    Rig::new(|_| ()).play(async |scene| {
        let pieces = format!("noise:{MEGABYTE};flush;").repeat(4);
        let script = format!("head:200;flush;PAUSE;{pieces}note:{};end", scene.file("done"));
        let mut stream = coded(&scene, &script).await;
        done(&scene, "the script waits for its client").await;
        assert_eq!(scene.count(Counter::PhpSpooled), 1);
        let (all, _, end) = drain(&mut *stream).await;
        assert!(end.is_ok() && read_out(&all) == (fake::noise(MEGABYTE).repeat(4), true));
        assert_eq!(scene.count(Counter::PhpSpoolBytes), 0);
        assert!(!begin(&scene, &script).await.code(Coding::Identity));
    });
}

#[test]
fn a_client_has_all_that_was_announced_while_the_script_goes_on() {
    Rig::new(|_| ()).play(async |scene| {
        let script = format!(
            "head:200,Content-Length:8;body:hello;flush;PAUSE;body:_world;flush;{};note:{};end",
            scene.gate("go"),
            scene.file("done")
        );
        let mut stream = coded(&scene, &script).await;
        let (all, _, end) = drain(&mut *stream).await;
        assert!(end.is_ok() && read_out(&all) == (b"hello_wo".to_vec(), true));
        assert_eq!(scene.lines("done"), 0, "the script was waited for");
        drop(stream);
        scene.open("go");
        done(&scene, "the script goes on").await;
        assert_eq!(scene.get("head:200;body:next;end").await.text, "next");
    });
}

#[test]
fn less_than_was_announced_is_an_error_and_so_is_a_death() {
    Rig::new(|_| ()).play(async |scene| {
        for script in
            ["head:200,Content-Length:80;body:hello;flush;PAUSE;end", "head:200;body:hello;flush;PAUSE;die"]
        {
            let (all, _, end) = drain(&mut *coded(&scene, script).await).await;
            assert_eq!(read_out(&all), (b"hello".to_vec(), false));
            assert!(end.is_err(), "{script}");
        }
    });
}

#[test]
fn a_client_that_leaves_reaches_the_script() {
    Rig::new(|_| ()).play(async |scene| {
        let script = format!("head:200;body:hello;flush;aborted;note:{};end", scene.file("done"));
        let mut stream = coded(&scene, &script).await;
        assert!(stream.next(&mut Vec::new()).await.unwrap());
        drop(stream);
        done(&scene, "the script is told").await;
    });
}

#[test]
fn it_may_be_coded_after_some_or_all_of_it_has_come() {
    Rig::new(|_| ()).play(async |scene| {
        // With less than a full front, with more than that, and with everything.
        for (size, last) in [(1000, "aborted;"), (450_000, "aborted;"), (1000, ""), (400_000, "")] {
            let script = format!("head:200;body:<;flush;PAUSE;fill:{size};flush;{last}end");
            let mut stream = begin(&scene, &script).await;
            let is_over = || !last.is_empty() || scene.status().idle == 1;
            wait_for("it has come", || stream.there() > 200_000.min(size) && is_over()).await;
            assert!(stream.code(Coding::Zstd), "{size} {last}");
            let mut all = Vec::new();
            let began = Instant::now();
            while zstd_text(&all).len() < size + 1 {
                assert!(began.elapsed() < Duration::from_secs(20), "{size} {last}");
                assert!(stream.next(&mut all).await.unwrap());
            }
            assert!(zstd_text(&all) == [b"<".to_vec(), vec![b'x'; size]].concat());
        }
    });
}

fn zstd_text(coded: &[u8]) -> Vec<u8> {
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    let mut reader = zstd::stream::read::Decoder::new(coded).unwrap();
    while let Ok(count @ 1..) = reader.read(&mut piece) {
        all.extend_from_slice(&piece[..count]);
    }
    all
}
