//! Requests that are sent ahead to a worker that is busy with another.
//!
//! Each scene begins with a request that occupies the only worker, or each worker; the others wait. At its end the
//! first of them gets the worker, and the request of the second one is sent ahead.

use std::time::Duration;

use tokio::task::JoinHandle;

use super::*;

/// A script that occupies a worker at the start.
const BUSY: &str = "sleep:60;head:200;end";
const AHEAD: &str = "head:200;ahead;end";

impl Scene {
    /// The script, behind a gate.
    fn held(&self, gate: &str, script: &str) -> String {
        format!("{};{script}", self.gate(gate))
    }

    /// Sends a request from its own task; the order of calls is the order of requests.
    fn begin(&self, method: &'static str, script: impl Into<String>) -> JoinHandle<Answer> {
        let (scene, script) = (self.clone(), script.into());
        tokio::task::spawn_local(async move { read(scene.ask(method, &script, Content::Empty).await).await })
    }

    /// Waits until the scoreboard shows that a request is offered to a worker, or `taken` by it.
    async fn until_offered(&self, taken: bool) {
        let began = Instant::now();
        let pool = self.site.service.as_ref().unwrap();
        loop {
            let found = pool.shared().lock().seats().iter().any(|seat| match seat {
                Seat::Live(handle) => (1..50).any(|number| {
                    let board = &handle.scoreboard;
                    if taken {
                        board.is_taken(handle.slot, number)
                    } else {
                        board.is_offered(handle.slot, number)
                    }
                }),
                _ => false,
            });
            if found {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "nothing is sent ahead");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn text(task: JoinHandle<Answer>) -> (u16, String) {
    let answer = task.await.unwrap();
    (answer.status, answer.text)
}

fn ok(text: &str) -> (u16, String) {
    (200, text.to_owned())
}

#[test]
fn waiting_requests_are_sent_ahead_in_their_order() {
    Rig::new(|_| ()).play(async |scene| {
        let first = scene.begin("GET", BUSY);
        let file = scene.file("ran");
        let script = format!("note:{file};{AHEAD}");
        let waiting: Vec<_> = (0..5).map(|_| scene.begin("POST", script.clone())).collect();
        let last = scene.begin("GET", format!("head:200;note:{file};body:last;end"));
        assert_eq!(text(first).await.0, 200);
        for (at, task) in waiting.into_iter().enumerate() {
            assert_eq!(text(task).await, ok(if at == 0 { "false" } else { "true" }), "{at}");
        }
        assert_eq!(text(last).await, ok("last"));
        assert_eq!(scene.lines("ran"), 6);
        scene.until(20.0, "the worker is free", |pool| pool.idle == 1 && pool.waiting == 0).await;
        assert_eq!(scene.count(Counter::PhpRequests), 7);
        assert_eq!(scene.get(AHEAD).await.text, "false", "nobody waited");
    });
}

#[test]
fn a_slow_script_holds_up_nobody() {
    Rig::new(|php| (php.workers, php.workers_start) = (2, 2)).play(async |scene| {
        scene.until(20.0, "two workers", |pool| pool.idle == 2).await;
        let busy = scene.begin("GET", BUSY);
        let other = scene.begin("GET", scene.held("other", "head:200;end"));
        let slow = scene.begin("GET", scene.held("slow", "head:200;pid;end"));
        let quick = scene.begin("POST", AHEAD);
        assert_eq!(text(busy).await.0, 200);
        scene.until_offered(false).await;
        scene.open("other");
        assert_eq!(text(other).await.0, 200);
        assert_eq!(text(quick).await, ok("false"), "the other worker has got it, by itself");
        assert!(!slow.is_finished());
        // The worker skips the request that was withdrawn.
        scene.open("slow");
        assert_eq!(slow.await.unwrap().status, 200);
        assert_eq!(scene.get(AHEAD).await.text, "false");
        assert_eq!(scene.count(Counter::PhpRequests), 5);
    });
}

#[test]
fn who_leaves_is_never_run() {
    Rig::new(|_| ()).play(async |scene| {
        let first = scene.begin("GET", BUSY);
        let slow = scene.begin("GET", scene.held("go", "head:200;end"));
        let gone = scene.begin("GET", format!("note:{};head:200;end", scene.file("ran")));
        let last = scene.begin("GET", AHEAD);
        assert_eq!(text(first).await.0, 200);
        scene.until_offered(false).await;
        gone.abort();
        assert!(gone.await.is_err());
        // The last one takes its place.
        scene.until_offered(false).await;
        scene.open("go");
        assert_eq!(text(slow).await.0, 200);
        assert_eq!(text(last).await, ok("true"));
        assert_eq!(scene.lines("ran"), 0);
    });
}

#[test]
fn who_leaves_late_aborts_the_script() {
    Rig::new(|_| ()).play(async |scene| {
        let pid = scene.get("head:200;pid;end").await.text;
        let first = scene.begin("GET", BUSY);
        let quick = scene.begin("GET", scene.held("go", "head:200;end"));
        let script = format!("note:{};aborted;head:200;end", scene.file("ran"));
        let gone = scene.begin("GET", script);
        let last = scene.begin("GET", "head:200;pid;end");
        assert_eq!(text(first).await.0, 200);
        scene.until_offered(false).await;
        scene.open("go");
        // The event loop is busy: the worker takes the next request before its last response is read.
        let began = Instant::now();
        while scene.lines("ran") == 0 {
            assert!(began.elapsed() < Duration::from_secs(20), "the worker does not take it");
            std::thread::sleep(Duration::from_millis(1));
        }
        gone.abort();
        assert_eq!(text(quick).await.0, 200);
        assert_eq!(text(last).await, ok(&pid), "it was told, and is used again");
        assert_eq!(scene.lines("ran"), 1);
    });
}

#[test]
fn a_death_before_is_no_harm() {
    Rig::new(|_| ()).play(async |scene| {
        let first = scene.begin("GET", BUSY);
        let dies = scene.begin("POST", scene.held("go", "die"));
        let next = scene.begin("POST", format!("note:{};{AHEAD}", scene.file("ran")));
        assert_eq!(text(first).await.0, 200);
        scene.until_offered(false).await;
        scene.open("go");
        assert_eq!(text(dies).await.0, 502);
        assert_eq!(text(next).await, ok("false"), "by another worker");
        assert_eq!((scene.lines("ran"), scene.count(Counter::PhpLost)), (1, 1));
    });
}

#[test]
fn a_death_after_it_was_taken_is_judged_as_ever() {
    Rig::new(|_| ()).play(async |scene| {
        for (name, method, before, runs, expected) in [
            ("post", "POST", "", 1, 502),
            ("get", "GET", "", 2, 200),
            ("deaf", "POST", "deaf-once:FILE;", 1, 200),
        ] {
            let first = scene.begin("GET", BUSY);
            let gate = format!("{name}-go");
            let second = scene.begin("GET", scene.held(&gate, "head:200;end"));
            let after = if before.is_empty() { "die-once:FILE;" } else { "" };
            let script = format!("{before}note:{};{after}head:200;end", scene.file(name));
            let dies = scene.begin(method, script.replace("FILE", &scene.file(&format!("{name}-died"))));
            assert_eq!(text(first).await.0, 200);
            scene.until_offered(false).await;
            scene.open(&gate);
            assert_eq!(text(second).await.0, 200);
            assert_eq!(text(dies).await.0, expected, "{name}");
            assert_eq!(scene.lines(name), runs, "{name}");
        }
    });
}

#[test]
fn garbage_behind_the_end_is_no_answer() {
    Rig::new(|_| ()).play(async |scene| {
        let first = scene.begin("GET", BUSY);
        let lies = scene.begin("GET", scene.held("go", "head:200;body:x;end;raw:zzzzzzzzzzzz"));
        let next = scene.begin("POST", format!("note:{};sleep:100;{AHEAD}", scene.file("ran")));
        assert_eq!(text(first).await.0, 200);
        scene.until_offered(false).await;
        scene.open("go");
        assert_eq!(text(lies).await, ok("x"), "its own answer was whole");
        let (status, content) = text(next).await;
        let runs = scene.lines("ran");
        assert!(status == 502 && runs <= 1 || (status, &content[..], runs) == (200, "false", 1), "{status}");
        assert_eq!(scene.get(HELLO).await.text, "hello");
    });
}

#[test]
fn a_worker_that_ends_gives_it_back() {
    Rig::new(|_| ()).play(async |scene| {
        let first = scene.begin("GET", BUSY);
        let ends = scene.begin("GET", scene.held("go", "head:200;pid;end:exiting"));
        let next = scene.begin("POST", "head:200;pid;end");
        assert_eq!(text(first).await.0, 200);
        scene.until_offered(false).await;
        scene.open("go");
        let (ended, new) = (text(ends).await, text(next).await);
        assert_eq!((ended.0, new.0), (200, 200));
        assert_ne!(ended.1, new.1);
        assert_eq!(scene.count(Counter::PhpLost), 0);
    });
}

#[test]
fn work_in_the_background_holds_up_nobody_else() {
    Rig::new(|_| ()).play(async |scene| {
        let first = scene.begin("GET", BUSY);
        let works = scene.begin("GET", scene.held("go", "head:200;end:background;flush;sleep:150;ready"));
        let next = scene.begin("POST", AHEAD);
        let last = scene.begin("POST", "head:200;body:last;end");
        assert_eq!(text(first).await.0, 200);
        scene.until_offered(false).await;
        scene.open("go");
        assert_eq!(text(works).await.0, 200);
        assert_eq!(text(next).await, ok("true"), "the worker takes it when it is ready");
        assert_eq!(text(last).await, ok("last"));
    });
    Rig::new(|php| (php.workers, php.workers_start) = (2, 2)).play(async |scene| {
        scene.until(20.0, "two workers", |pool| pool.idle == 2).await;
        let first = scene.begin("GET", BUSY);
        let other = scene.begin("GET", scene.held("other", "head:200;end"));
        let work = scene.held("work", "ready");
        let works = scene.begin("GET", scene.held("go", &format!("head:200;end:background;flush;{work}")));
        let next = scene.begin("POST", AHEAD);
        assert_eq!(text(first).await.0, 200);
        scene.until_offered(false).await;
        scene.open("go");
        assert_eq!(text(works).await.0, 200);
        scene.open("other");
        assert_eq!(text(other).await.0, 200);
        assert_eq!(text(next).await, ok("false"), "the work goes on");
        scene.open("work");
    });
}

#[test]
fn the_time_in_the_queue_counts_on() {
    Rig::new(|php| php.queue_timeout = Duration::from_secs(1)).play(async |scene| {
        scene.until(20.0, "the worker is up", |pool| pool.idle == 1).await;
        let first = scene.begin("GET", scene.held("first", "head:200;end"));
        let slow = scene.begin("GET", scene.held("slow", "head:200;end"));
        let next = scene.begin("GET", format!("note:{};head:200;end", scene.file("ran")));
        scene.until(20.0, "two wait", |pool| pool.waiting == 2).await;
        scene.open("first");
        assert_eq!(text(first).await.0, 200);
        scene.until_offered(false).await;
        assert_eq!(scene.status().waiting, 1, "it waits, wherever its request is");
        assert_eq!(text(next).await.0, 503);
        assert!(!slow.is_finished());
        scene.open("slow");
        assert_eq!(text(slow).await.0, 200);
        assert_eq!((scene.get(HELLO).await.text, scene.lines("ran")), ("hello".to_owned(), 0));
    });
}

#[test]
fn the_time_of_a_script_begins_when_it_is_its_turn() {
    let change = |php: &mut plan::Php| {
        (php.request_timeout, php.time_limit_max) = (Duration::from_secs(1), Duration::from_secs(90));
    };
    Rig::new(change).play(async |scene| {
        scene.get(HELLO).await;
        // Only the second one may take longer; the third one is sent ahead when that begins.
        let scripts = [BUSY, "ask;sleep:1300;head:200;ahead;end", AHEAD, AHEAD];
        let expected = [ok(""), ok("false"), ok("true"), ok("true")];
        let mut ahead = Vec::new();
        // A machine that stalls may use up the time of one of them: then others show it.
        for _ in 0..10 {
            ahead.clear();
            for task in scripts.map(|script| scene.begin("POST", script)) {
                ahead.push(text(task).await);
            }
            if ahead == expected {
                break;
            }
        }
        assert_eq!(ahead, expected);
        let first = scene.begin("GET", BUSY);
        let quick = scene.begin("GET", "sleep:50;head:200;end");
        let late = scene.begin("POST", "sleep:90000;head:200;end");
        assert_eq!((text(first).await.0, text(quick).await.0, text(late).await.0), (200, 200, 504));
    });
}

#[test]
fn long_requests_wait_for_their_turn() {
    Rig::new(|_| ()).play(async |scene| {
        let first = scene.begin("GET", BUSY);
        let long = |bytes: usize| {
            let scene = scene.clone();
            tokio::task::spawn_local(async move {
                read(scene.ask("POST", "head:200;ahead;end", Content::Memory(vec![b'x'; bytes])).await).await
            })
        };
        let waiting = [long(100), long(100), long(30_000), long(100), long(100_000), long(100), long(100)];
        let expected = ["false", "true", "false", "false", "false", "false", "true"];
        assert_eq!(text(first).await.0, 200);
        for (at, (task, expected)) in waiting.into_iter().zip(expected).enumerate() {
            assert_eq!(text(task).await, ok(expected), "{at}");
        }
        assert_eq!(scene.count(Counter::PhpLost), 0);
    });
}

#[test]
fn a_retired_pool_serves_what_was_sent_ahead() {
    Rig::new(|_| ()).play(async |scene| {
        let first = scene.begin("GET", BUSY);
        let slow = scene.begin("GET", scene.held("go", "head:200;end"));
        let next = scene.begin("POST", AHEAD);
        assert_eq!(text(first).await.0, 200);
        scene.until_offered(false).await;
        scene.site.service.as_ref().unwrap().retire();
        scene.open("go");
        assert_eq!(text(slow).await.0, 200);
        assert_eq!(text(next).await, ok("true"));
    });
}

#[test]
fn several_are_sent_ahead_and_each_is_run_once() {
    Rig::new(|php| (php.workers, php.workers_start) = (2, 2)).play(async |scene| {
        scene.until(20.0, "two workers", |pool| pool.idle == 2).await;
        let file = scene.file("ran");
        let waiting: Vec<_> = (0..60)
            .map(|at| scene.begin("POST", format!("sleep:{};note:{file};head:200;body:{at};end", at % 3)))
            .collect();
        for (at, task) in waiting.into_iter().enumerate() {
            assert_eq!(text(task).await, ok(&at.to_string()));
        }
        assert_eq!((scene.lines("ran"), scene.count(Counter::PhpLost)), (60, 0));
        scene.until(20.0, "both are free", |pool| pool.idle == 2 && pool.waiting == 0).await;
    });
}

#[test]
fn a_lost_host_loses_no_request_that_was_sent_ahead() {
    Rig::new(|_| ()).play(async |scene| {
        let first = scene.begin("GET", BUSY);
        let slow = scene.begin("GET", scene.held("go", "head:200;end"));
        let next = scene.begin("POST", "head:200;body:next;end");
        assert_eq!(text(first).await.0, 200);
        scene.until_offered(false).await;
        let worker = scene.site.service.as_ref().unwrap().pids()[0];
        let parent = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap();
        let host: u32 = parent.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        millrace_sys::Process::open(host).unwrap().kill().unwrap();
        scene.open("go");
        assert_eq!(text(slow).await.0, 200);
        assert_eq!(text(next).await, ok("next"));
    });
}
