//! Clients that read a response more slowly than its script makes it.

use std::time::Duration;

use super::*;
use millrace_base::message::reply::ContentSource;

const MEGABYTE: usize = 1 << 20;

/// A script that writes `megabytes`, each after its number, and notes its end in `done`.
fn long(scene: &Scene, megabytes: usize) -> String {
    let pieces: String = (0..megabytes).map(|n| format!("body:<{n}>;fill:{MEGABYTE};flush;")).collect();
    format!("head:200;flush;PAUSE;{pieces}note:{};end", scene.file("done"))
}

pub(super) async fn begin(scene: &Scene, script: &str) -> Box<dyn ContentSource> {
    match scene.ask_in_two("GET", script).await.body {
        Body::Stream(stream) => stream,
        other => panic!("not a stream: {other:?}"),
    }
}

/// The whole content of a stream, and the longest piece that it gave.
pub(super) async fn drain(stream: &mut dyn ContentSource) -> (Vec<u8>, usize, io::Result<()>) {
    let (mut all, mut most, mut piece) = (Vec::new(), 0, Vec::new());
    let end = loop {
        match stream.next(&mut piece).await {
            Ok(true) => {
                all.extend_from_slice(&piece);
                most = most.max(piece.len());
                piece.clear();
            }
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    (all, most, end)
}

/// The content that [`long`] writes.
fn whole(megabytes: usize) -> Vec<u8> {
    let piece = |n: usize| [format!("<{n}>").into_bytes(), vec![b'x'; MEGABYTE]].concat();
    (0..megabytes).flat_map(piece).collect()
}

/// Waits for the end of a script that notes it in `done`; `why` there might be none.
pub(super) async fn done(scene: &Scene, why: &str) {
    wait_for(why, || scene.lines("done") > 0).await;
}

#[test]
fn a_script_that_has_finished_frees_its_worker() {
    Rig::new(|_| ()).play(async |scene| {
        let mut stream = begin(&scene, &long(&scene, 12)).await;
        done(&scene, "the script waits for its client").await;
        scene.until(20.0, "the worker is free", |status| status.idle == 1).await;
        assert_eq!(scene.get(HELLO).await.text, "hello");
        assert_eq!(scene.count(Counter::PhpSpooled), 1);
        let held = scene.count(Counter::PhpSpoolBytes);
        assert!(held > 10 << 20, "{held} bytes on disk");
        let (all, most, end) = drain(&mut *stream).await;
        assert!(all == whole(12), "{} bytes", all.len());
        assert!(end.is_ok() && most < 400_000, "{most} bytes at once");
        drop(stream);
        assert_eq!(scene.count(Counter::PhpSpoolBytes), 0, "the disk space is given back");
    });
}

#[test]
fn the_disk_space_of_an_answer_is_bounded() {
    let rig = Rig::serving(|server| server.spool_bytes = 6 << 20);
    rig.play(async |scene| {
        let mut stream = begin(&scene, &long(&scene, 12)).await;
        wait_for("on disk", || scene.count(Counter::PhpSpoolBytes) >= 2 << 20).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(scene.lines("done"), 0, "12 MB do not fit");
        let held = scene.count(Counter::PhpSpoolBytes);
        assert!(held <= 3 << 20, "{held} bytes: half of it for one answer");
        let (all, _, end) = drain(&mut *stream).await;
        assert!(all == whole(12) && end.is_ok(), "{} bytes", all.len());
        assert_eq!(scene.count(Counter::PhpSpoolBytes), 0);
    });
}

#[test]
fn a_client_that_keeps_up_costs_no_disk() {
    Rig::new(|_| ()).play(async |scene| {
        let (all, _, end) = drain(&mut *begin(&scene, &long(&scene, 12)).await).await;
        assert!(all == whole(12) && end.is_ok());
        assert_eq!(scene.count(Counter::PhpSpooled), 0);
    });
}

#[test]
fn a_client_that_leaves_reaches_the_script() {
    Rig::new(|_| ()).play(async |scene| {
        let pieces = format!("fill:{MEGABYTE};flush;").repeat(4);
        let script = format!("head:200;flush;PAUSE;{pieces}aborted;note:{};end", scene.file("done"));
        let stream = begin(&scene, &script).await;
        wait_for("on disk", || scene.count(Counter::PhpSpoolBytes) > 0).await;
        assert_eq!(scene.lines("done"), 0);
        drop(stream);
        done(&scene, "the script is told").await;
        scene.until(20.0, "the worker is free", |status| status.idle == 1).await;
        assert_eq!(scene.count(Counter::PhpSpoolBytes), 0);
    });
}

#[test]
fn what_a_dead_worker_has_made_is_sent_before_the_error() {
    Rig::new(|_| ()).play(async |scene| {
        let pieces: String = (0..4).map(|n| format!("body:<{n}>;fill:{MEGABYTE};flush;")).collect();
        let mut stream = begin(&scene, &format!("head:200;flush;PAUSE;{pieces}die")).await;
        scene.until(20.0, "the worker has died", |status| status.busy.is_empty()).await;
        let (all, _, end) = drain(&mut *stream).await;
        assert!(all == whole(4) && end.is_err(), "{} bytes", all.len());
    });
}

#[test]
fn a_disk_that_takes_nothing_holds_the_script_back() {
    let rig = Rig::serving(|server| server.spool_dir = "/nowhere/at/all".into());
    rig.play(async |scene| {
        let mut stream = begin(&scene, &long(&scene, 6)).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(scene.lines("done"), 0);
        let (all, _, end) = drain(&mut *stream).await;
        assert!(all == whole(6) && end.is_ok(), "{} bytes", all.len());
    });
}
