//! Workers and hosts die.

use std::time::Duration;

use super::*;
use millrace_sys::Process as Victim;

#[test]
fn not_begun_is_run_again_whatever_its_method() {
    Rig::new(|_| ()).play(async |scene| {
        for method in ["GET", "POST"] {
            let script = format!("deaf-once:{};{HELLO}", scene.file(method));
            let answer = read(scene.ask(method, &script, Content::Empty).await).await;
            assert_eq!((answer.status, &answer.text[..]), (200, "hello"), "{method}");
        }
        assert_eq!(scene.count(Counter::PhpRetried), 2);
    });
}

#[test]
fn begun_is_run_again_once_if_idempotent() {
    Rig::new(|_| ()).play(async |scene| {
        let script = format!("note:{};die-once:{};{HELLO}", scene.file("get"), scene.file("died"));
        assert_eq!(scene.get(&script).await.text, "hello");
        assert_eq!(scene.lines("get"), 2);
        let script = format!("note:{};die-once:{};{HELLO}", scene.file("post"), scene.file("died2"));
        assert_eq!(scene.post(&script).await.status, 502);
        assert_eq!(scene.lines("post"), 1, "a POST is not run twice");
        let script = format!("note:{};die", scene.file("always"));
        assert_eq!(scene.get(&script).await.status, 502);
        assert_eq!(scene.lines("always"), 2);
        assert_eq!(scene.get(HELLO).await.text, "hello");
    });
}

/// A script that notes each run in `ran` and then crashes its worker.
fn deadly(scene: &Scene, ran: &str) -> String {
    format!("note:{};log:now;flush;raw:x;flush;crash", scene.file(ran))
}

#[test]
fn the_request_that_kills_is_not_run_for_a_while_and_others_of_its_page_are() {
    let rig = Rig::logging(|php| php.crash_pause = Duration::from_secs(60));
    rig.play(async |scene| {
        let script = deadly(&scene, "ran");
        // The first crash does not count: before it, requests were not watched.
        for _ in 0..3 {
            assert_eq!(scene.post(&script).await.status, 502);
        }
        for _ in 0..3 {
            let answers = (scene.post(&script).await, scene.get(HELLO).await, scene.post(HELLO).await);
            assert_eq!((answers.0.status, answers.1.status, answers.2.status), (500, 200, 200));
        }
        assert_eq!((scene.lines("ran"), scene.count(Counter::PhpCrashRefused)), (3, 3), "not run");
        assert_eq!(scene.post_to("/x.php/other", HELLO).await.text, "hello", "the same script, another page");
        let log = scene.logged("this request killed PHP workers").await;
        assert!(
            log.contains(
                "/x.php kills PHP workers when it runs for a.test/x.php: running its requests only a few"
            ),
            "{log}"
        );
        assert!(log.contains("without running it for the next 60s: POST a.test/x.php?note:"), "{log}");
        assert!(log.contains("SIGABRT") && log.contains("while running POST a.test/x.php?note:"), "{log}");
    });
}

#[test]
fn the_request_that_kills_is_tried_again_after_a_pause() {
    let rig = Rig::logging(|php| php.crash_pause = Duration::from_secs(1));
    rig.play(async |scene| {
        let script = deadly(&scene, "ran");
        let asked = Instant::now();
        for _ in 0..3 {
            assert_eq!(scene.post(&script).await.status, 502);
        }
        while scene.post(&script).await.status != 502 {
            assert!(asked.elapsed() < Duration::from_secs(20), "it is never tried again");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(asked.elapsed() > Duration::from_millis(900));
        let log = scene.logged("without running it for the next 2s").await;
        assert_eq!(log.matches("this request killed").count(), 2, "{log}");
    });
}

#[test]
fn a_page_that_kills_is_run_once_for_each_request() {
    let rig = Rig::logging(|php| php.crash_pause = Duration::from_secs(60));
    rig.play(async |scene| {
        for (number, runs) in [(0, 2), (1, 1), (2, 1)] {
            let ran = format!("ran{number}");
            assert_eq!(scene.get(&deadly(&scene, &ran)).await.status, 502);
            assert_eq!(scene.lines(&ran), runs, "{number}");
        }
        assert_eq!(scene.get(HELLO).await.status, 200);
    });
}

#[test]
fn who_varies_a_request_that_kills_takes_no_more_than_his_share_of_the_workers() {
    let rig = Rig::logging(|php| (php.crash_pause, php.workers) = (Duration::from_secs(60), 4));
    rig.play(async |scene| {
        for _ in 0..2 {
            assert_eq!(scene.post(&deadly(&scene, "ran")).await.status, 502);
        }
        // Twenty different ones at once; they show how many run at a time.
        let attack: Vec<_> = (0..20)
            .map(|number| {
                let (scene, file) = (scene.clone(), scene.file("at-once"));
                let script = format!("log:now;flush;note:{file};raw:{number};flush;sleep:100;crash");
                tokio::task::spawn_local(async move { scene.post(&script).await.status })
            })
            .collect();
        while scene.lines("at-once") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let most = scene.site.service.as_ref().unwrap().status("").running;
        assert!(most <= 2, "{most} of 4 workers");
        assert_eq!(scene.post_to("/x.php/other", HELLO).await.text, "hello");
        for one in attack {
            assert_eq!(one.await.unwrap(), 502, "each is run, once");
        }
        assert_eq!(scene.lines("at-once"), 20);
        assert!(scene.count(Counter::PhpCrashLimited) >= 20);
        assert_eq!(scene.count(Counter::PhpCrashRefused), 0);
    });
}

#[test]
fn a_page_whose_workers_are_killed_from_outside_is_not_to_blame() {
    let rig = Rig::logging(|php| php.crash_pause = Duration::from_secs(60));
    rig.play(async |scene| {
        for number in 1..5 {
            assert_eq!(scene.post("die").await.status, 502);
            let mut log = String::new();
            while log.matches("(SIGKILL)").count() < number {
                log = scene.logged("(SIGKILL)").await;
            }
            assert!(log.contains("by another process") || log.contains("out-of-memory"), "{log}");
        }
        assert_eq!(scene.post(HELLO).await.text, "hello");
    });
}

#[test]
fn a_page_is_not_to_blame_if_all_workers_are_killed_at_once() {
    let rig = Rig::logging(|php| (php.crash_pause, php.workers) = (Duration::from_secs(60), 4));
    rig.play(async |scene| {
        for _ in 0..3 {
            // Each is tried twice.
            let all = tokio::join!(scene.get("die"), scene.get("die"), scene.get("die"), scene.get("die"));
            assert_eq!([all.0.status, all.1.status, all.2.status, all.3.status], [502; 4]);
        }
        assert_eq!(scene.count(Counter::PhpCrashRefused), 0);
    });
}

#[test]
fn dead_in_the_middle_of_the_head() {
    Rig::new(|_| ()).play(async |scene| {
        let script = format!("raw:{};flush;die-once:{};{HELLO}", "%01%02", scene.file("died"));
        // Three bytes: not a frame, but not invalid yet either.
        let script = script.replace("%01%02", "abc");
        assert_eq!(scene.post(&script).await.status, 502);
        assert_eq!(scene.get(HELLO).await.text, "hello");
    });
}

#[test]
fn dead_after_something_was_sent() {
    Rig::new(|_| ()).play(async |scene| {
        let script = format!("note:{};head:200;body:half;flush;PAUSE;die", scene.file("ran"));
        let answer = scene.get_in_two(&script).await;
        assert_eq!((answer.status, &answer.text[..]), (200, "half"));
        assert!(answer.end.unwrap().is_err(), "the protocol must cut the connection");
        assert_eq!(scene.lines("ran"), 1, "not run again");
        assert_eq!(scene.get(HELLO).await.text, "hello");
        assert_eq!(scene.count(Counter::PhpLost), 1);
    });
}

#[test]
fn garbage_costs_its_worker() {
    Rig::new(|_| ()).play(async |scene| {
        let before = scene.get("head:200;pid;end").await.text;
        assert_eq!(
            scene.get("raw:this is no frame at all;sleep:9000".replace(' ', "_").as_str()).await.status,
            502
        );
        let script = "head:200;body:x;flush;PAUSE;raw:garbage_for_a_frame;flush;sleep:9000";
        assert!(scene.get_in_two(script).await.end.unwrap().is_err());
        let after = scene.get("head:200;pid;end").await.text;
        assert_ne!(before, after);
        gone(&before).await;
    });
}

#[test]
fn idle_workers_that_die_are_replaced() {
    Rig::new(|php| (php.workers, php.workers_start, php.workers_spare) = (3, 3, 3)).play(async |scene| {
        scene.until(20.0, "all up", |pool| pool.idle == 3).await;
        let pid: u32 = scene.get("head:200;pid;end").await.text.parse().unwrap();
        Victim::open(pid).unwrap().kill().unwrap();
        // Whether the pool has noticed it yet or not, the request succeeds.
        assert_eq!(scene.post(HELLO).await.text, "hello");
        scene.until(20.0, "whole again", |pool| pool.idle == 3).await;
    });
}

#[test]
fn workers_that_always_die_are_not_forked_without_pause() {
    Rig::new(|_| ()).play(async |scene| {
        let began = Instant::now();
        let answer = scene.post("deaf").await;
        assert_eq!(answer.status, 502);
        assert_eq!(scene.count(Counter::PhpRetried), 4, "five attempts in all");
        assert!(began.elapsed() > Duration::from_millis(100), "with pauses");
        assert_eq!(scene.get(HELLO).await.text, "hello");
    });
}

#[test]
fn a_worker_that_ends_in_order_is_replaced() {
    Rig::new(|_| ()).play(async |scene| {
        let first = scene.get("head:200;pid;end:exiting").await.text;
        let second = scene.get("head:200;pid;end").await.text;
        assert_ne!(first, second);
        assert_eq!((scene.count(Counter::PhpLost), scene.count(Counter::PhpRetried)), (0, 0));
    });
}

/// Waits for a process to end.
async fn gone(pid: &str) {
    wait_for("the process ends", || !runs(pid)).await;
}

/// The parent of a process.
fn parent(pid: &str) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    text.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_host_that_dies_is_started_again() {
    let rig = Rig::new(|php| (php.workers, php.workers_start, php.workers_spare) = (2, 2, 2));
    rig.play(async |scene| {
        scene.until(20.0, "all up", |pool| pool.idle == 2).await;
        let other = scene.clone();
        let slow = format!("head:200;pid;flush;{};body:-end;end", scene.gate("go"));
        let running = tokio::task::spawn_local(async move { other.get(&slow).await });
        scene.until(20.0, "it runs", |pool| pool.running == 1).await;
        let idle = scene.get("head:200;pid;end").await.text;
        let host = Victim::open(parent(&idle)).unwrap();
        host.kill().unwrap();
        // Until the pool notices, its idle workers still serve.
        let killed = Instant::now();
        let mut answer = scene.get("head:200;pid;end").await;
        while answer.text == idle {
            assert!(killed.elapsed() < Duration::from_secs(20), "it is not noticed");
            answer = scene.get("head:200;pid;end").await;
        }
        assert_eq!(answer.status, 200, "served by the new host");
        assert_ne!(parent(&answer.text), host.id());
        assert!(!running.is_finished());
        scene.open("go");
        scene.until(20.0, "whole again", |pool| pool.idle == 2).await;
        let answer = running.await.unwrap();
        assert!(answer.text.ends_with("-end") && answer.end.unwrap().is_ok(), "what ran has finished");
        let pid = answer.text.trim_end_matches("-end");
        gone(pid).await;
    });
}

#[test]
fn a_host_that_does_not_come_up_again_is_tried_until_it_does() {
    let dir = std::env::temp_dir().join(format!("millrace-host-{}", std::process::id()));
    let path = dir.display().to_string();
    let rig = Rig::new(|php| {
        php.ini.insert("fake.words".into(), "out of luck".into());
        // Fails only if this file can be created: not now, because there is no such directory.
        php.ini.insert("fake.once".into(), format!("{path}/once"));
    });
    rig.play(async |scene| {
        let pid = scene.get("head:200;pid;end").await.text;
        std::fs::create_dir(&dir).unwrap();
        Victim::open(parent(&pid)).unwrap().kill().unwrap();
        scene
            .until(20.0, "trouble", |pool| pool.trouble.as_deref().is_some_and(|t| t.contains("out of luck")))
            .await;
        assert_eq!(scene.get(HELLO).await.text, "hello");
        assert_eq!(scene.status().trouble, None);
    });
    std::fs::remove_dir_all(&dir).unwrap();
}
