//! Timeouts, the queue, the number of workers.

use std::time::Duration;

use super::slow::drain;
use super::*;

/// A slow script: it ends when the gate `go` is open.
fn held(scene: &Scene) -> String {
    format!("{};head:200;body:slow;end", scene.gate("go"))
}

/// Starts a request and waits until it has its worker, or waits for one.
async fn begin(scene: &Scene, script: &str) -> tokio::task::JoinHandle<Answer> {
    let (other, script) = (scene.clone(), script.to_owned());
    let before = arrived(&scene.status());
    let task = tokio::task::spawn_local(async move { other.get(&script).await });
    scene.until(20.0, "it has arrived", |status| arrived(status) > before).await;
    task
}

#[test]
fn what_takes_too_long_is_killed() {
    Rig::new(|php| php.request_timeout = Duration::from_millis(300)).play(async |scene| {
        let began = Instant::now();
        // It would end after a while, and not with 504.
        let script = format!("note:{};sleep:15000", scene.file("ran"));
        assert_eq!(scene.get(&script).await.status, 504);
        assert!(began.elapsed() > Duration::from_millis(290), "{:?}", began.elapsed());
        assert_eq!(scene.lines("ran"), 1, "not run again");
        assert_eq!(scene.count(Counter::PhpTimeouts), 1);
        let (all, _, end) =
            drain(&mut *scene.stream_in_time("head:200;body:x;flush;sleep:15000").await).await;
        assert!(all == b"x" && end.is_err());
        assert!(scene.count(Counter::PhpTimeouts) >= 2);
        assert_eq!(scene.get_in_time(HELLO).await.text, "hello");
    });
}

#[test]
fn who_ends_when_told_lives_on() {
    let rig = Rig::logging(|php| {
        php.request_timeout = Duration::from_millis(300);
        php.terminate_grace = Duration::from_secs(20);
    });
    rig.play(async |scene| {
        let pid = scene.get("head:200;pid;end").await.text;
        let script = format!("note:{};late;head:504;end:failed", scene.file("ran"));
        let answer = scene.get(&script).await;
        assert_eq!((answer.status, scene.lines("ran")), (504, 1));
        assert!(answer.text.contains("took too long"), "a page of ours, as there is none: {}", answer.text);
        // The response that the script sends at its end stays unchanged.
        let answer = scene.get("late;head:500,X-A:b;body:sorry;end:failed").await;
        assert_eq!((answer.status, &answer.text[..], answer.fields), (500, "sorry", vec!["X-A: b".into()]));
        let answer = scene.get("late;head:200;body:half;end:failed").await;
        assert_eq!((answer.status, &answer.text[..]), (504, "half"), "nobody takes it for the whole");
        let answer = scene.get("head:200;body:some;flush;late;body:-more;end:failed").await;
        assert_eq!((answer.status, &answer.text[..]), (200, "some-more"));
        assert!(answer.end.unwrap().is_err(), "nor this: the connection is to be cut");
        assert_eq!((scene.count(Counter::PhpTimeouts), scene.count(Counter::PhpLost)), (4, 0));
        // A busy machine may find none of them slow before their time is up.
        assert_eq!((scene.count(Counter::PhpFailures), scene.count(Counter::PhpSlow) <= 4), (0, true));
        assert_eq!(scene.get("head:200;pid;end").await.text, pid);
        let log = scene.logged("terminating its script").await;
        assert!(
            log.contains("GET a.test/x.php?note:") && log.contains("(/x.php) exceeded its time limit after "),
            "{log}"
        );
        assert!(!log.contains("killing PHP worker"), "{log}");
    });
}

/// What the host tells of where a script is.
const WAIT: &str = "waiting for the database, in mysqli_query(): poll() for 127.0.0.1:3306\n    #0 mysqli_query()\n    #1 {main} in /x.php:7\n";

#[test]
fn slow_requests_are_noted() {
    let rig = Rig::logging(|php| {
        php.slow_log = Duration::from_millis(150);
        php.request_timeout = Duration::from_millis(500);
    });
    rig.play(async |scene| {
        let began = Instant::now();
        assert_eq!(scene.get("sleep:60;head:200;end").await.status, 200);
        let is_quick = began.elapsed() < Duration::from_millis(150);
        // A machine that stalls may miss one of the moments: then another request shows them.
        for number in 0..10 {
            assert_eq!(scene.get(&format!("sleep:2000{number}")).await.status, 504);
            let asked = format!("GET a.test/x.php?sleep:2000{number} (/x.php)");
            let log = scene.logged(&format!("{asked} is still running")).await;
            assert!(!is_quick || !log.contains("sleep:60"), "{log}");
            if log.matches(&format!("slow: {asked} has been running for ")).count() == 2
                && log.matches(WAIT).count() >= 2
            {
                return;
            }
        }
        let log = scene.logged("").await;
        panic!("not when it was slow, and when its time was nearly up: {log}");
    });
}

/// Whether the worker lives on after this script; a machine that stalls may use up its time, so it is tried a few times.
async fn keeps_its_worker(scene: &Scene, script: &str) -> bool {
    for _ in 0..10 {
        let pid = scene.get_in_time("head:200;pid;end").await.text;
        let text = scene.get(script).await.text;
        if text == "x" && scene.get_in_time("head:200;pid;end").await.text == pid {
            return true;
        }
    }
    false
}

#[test]
fn background_work_has_a_limit_of_its_own() {
    let longer = |php: &mut plan::Php| {
        (php.request_timeout, php.background_timeout) = (Duration::from_secs(1), Duration::from_secs(90));
    };
    Rig::new(longer).play(async |scene| {
        let script = "head:200;body:x;end:background;flush;sleep:1300;ready";
        assert!(keeps_its_worker(&scene, script).await, "longer than the response might have taken");
    });
    let shorter = |php: &mut plan::Php| php.background_timeout = Duration::from_millis(500);
    Rig::logging(shorter).play(async |scene| {
        assert_eq!(scene.get("head:200;body:x;end:background;flush;sleep:90000").await.text, "x");
        assert_eq!(scene.get(HELLO).await.text, "hello");
        scene.logged("see php.background_timeout").await;
        // The same if the client has gone before the end of the response.
        let script = format!("head:200;body:x;flush;{};end:background;flush;sleep:90000", scene.gate("go"));
        drop(scene.ask("GET", &script, Content::Empty).await);
        scene.open("go");
        assert_eq!(scene.get(HELLO).await.text, "hello");
        let told = || std::fs::read_to_string(scene.file("error.log")).unwrap();
        wait_for("twice", || told().matches("see php.background_timeout").count() == 2).await;
    });
}

/// `set_time_limit()` gives a script more time, up to `php.time_limit_max`, before its response and behind it; never less.
#[test]
fn a_script_may_ask_for_more_time() {
    let limits = |most: Duration| {
        move |php: &mut plan::Php| {
            (php.request_timeout, php.background_timeout) =
                (Duration::from_millis(500), Duration::from_millis(500));
            php.time_limit_max = most;
        }
    };
    Rig::new(limits(Duration::from_secs(90))).play(async |scene| {
        for ask in ["ask", "ask:80000"] {
            let script = format!("{ask};sleep:800;{HELLO}");
            assert_eq!(scene.get_in_time(&script).await.text, "hello", "{ask}");
        }
        let script = "ask;head:200;body:x;end:background;flush;sleep:800;ready";
        assert!(keeps_its_worker(&scene, script).await, "nor is it ended behind its response");
    });
    Rig::logging(limits(Duration::from_millis(1500))).play(async |scene| {
        // The next request of the same worker has asked for nothing; one that asks for less than it has gets what it has.
        for late in ["sleep:90000", "ask:10;sleep:90000"] {
            assert_eq!(scene.get(late).await.status, 504);
        }
        let mut longest = Duration::ZERO;
        for _ in 0..10 {
            let began = Instant::now();
            assert_eq!(scene.get("ask;sleep:90000").await.status, 504);
            longest = longest.max(began.elapsed());
            // A machine that stalls may not come to what it asks for.
            if longest >= Duration::from_millis(1500) {
                break;
            }
        }
        assert!(longest >= Duration::from_millis(1500), "{longest:?}");
        scene.logged("see php.time_limit_max").await;
    });
    let unlimited = |php: &mut plan::Php| {
        (php.request_timeout, php.time_limit_max) = (Duration::from_millis(300), Duration::ZERO);
    };
    Rig::new(unlimited).play(async |scene| {
        assert_eq!(scene.get_in_time(&format!("ask;sleep:1200;{HELLO}")).await.text, "hello");
        assert_eq!(scene.get("ask:400;sleep:90000").await.status, 504);
    });
    // Not above `request_timeout`: not heard.
    let deaf = |php: &mut plan::Php| {
        (php.request_timeout, php.time_limit_max) = (Duration::from_millis(300), Duration::from_millis(100));
    };
    Rig::new(deaf).play(async |scene| assert_eq!(scene.get("ask;sleep:90000").await.status, 504));
}

/// Neither a client that takes its time nor a stream that goes on for long uses up the time of the script.
#[test]
fn only_the_time_of_the_script_counts() {
    let change = |php: &mut plan::Php| php.request_timeout = Duration::from_millis(800);
    let rig = Rig::start_with(change, |server| server.spool_bytes = 0, |_| Log::quiet()).unwrap();
    rig.play(async |scene| {
        let script = "head:200;body:1;flush;".to_owned() + &"sleep:150;body:1;flush;".repeat(7) + "end";
        let events = scene.get_in_time(&script).await;
        assert_eq!((&events.text[..], events.end.map(|end| end.is_ok())), ("11111111", Some(true)));

        // A machine that stalls may use up the time of some of them.
        let mut length = 0;
        for _ in 0..10 {
            let mut stream = scene.stream_in_time("head:200;fill:8000000;body:x;end").await;
            tokio::time::sleep(Duration::from_millis(1200)).await;
            let (all, _, end) = drain(&mut *stream).await;
            length = if end.is_ok() { all.len() } else { 0 };
            if length > 0 {
                break;
            }
        }
        assert_eq!(length, 8_000_001);

        // Its client has caught up: its own time counts again.
        let mut stream = scene.stream_in_time("head:200;fill:8000000;flush;sleep:90000").await;
        tokio::time::sleep(Duration::from_millis(1200)).await;
        let mut piece = Vec::new();
        while let Ok(more) = stream.next(&mut piece).await {
            assert!(more, "it has not ended");
            piece.clear();
        }
        // And when its client has gone while it was held up.
        drop(scene.stream_in_time("head:200;fill:8000000;flush;sleep:90000").await);
        assert_eq!(scene.get_in_time(HELLO).await.text, "hello");
    });
}

#[test]
fn a_full_queue_refuses_at_once() {
    Rig::new(|php| php.queue = 1).play(async |scene| {
        scene.get(HELLO).await;
        let first = begin(&scene, &held(&scene)).await;
        let second = begin(&scene, HELLO).await;
        let refused = scene.get(HELLO).await;
        assert_eq!((refused.status, first.is_finished()), (503, false));
        assert_eq!(scene.count(Counter::PhpQueueTimeouts), 0);
        scene.open("go");
        assert!(
            refused.fields.iter().any(|field| field.starts_with("Retry-After: ")),
            "{:?}",
            refused.fields
        );
        assert_eq!(scene.count(Counter::PhpQueueFull), 1);
        assert_eq!((first.await.unwrap().text, second.await.unwrap().text), ("slow".into(), "hello".into()));
    });
}

/// A request may wait while a worker is forked for it, but not for a busy worker: `php.queue = 0` permits all workers.
#[test]
fn who_gets_a_worker_of_his_own_takes_no_place_in_the_queue() {
    let change = |php: &mut plan::Php| (php.workers, php.queue) = (4, 0);
    Rig::new(change).play(async |scene| {
        let mut running = Vec::new();
        for _ in 0..4 {
            running.push(begin(&scene, &held(&scene)).await);
        }
        scene.until(20.0, "all run", |pool| pool.running == 4).await;
        assert_eq!(scene.get(HELLO).await.status, 503);
        scene.open("go");
        for answer in running {
            assert_eq!(answer.await.unwrap().text, "slow");
        }
    });
}

#[test]
fn who_waits_too_long_is_refused() {
    Rig::new(|php| php.queue_timeout = Duration::from_millis(200)).play(async |scene| {
        scene.until(20.0, "the worker is up", |pool| pool.idle == 1).await;
        let first = begin(&scene, &held(&scene)).await;
        let began = Instant::now();
        assert_eq!(scene.get(HELLO).await.status, 503);
        assert!(began.elapsed() > Duration::from_millis(150), "{:?}", began.elapsed());
        assert_eq!((scene.count(Counter::PhpQueueTimeouts), scene.status().waiting), (1, 0));
        scene.open("go");
        assert_eq!(first.await.unwrap().text, "slow");
    });
}

#[test]
fn who_gives_up_leaves_the_queue() {
    Rig::new(|_| ()).play(async |scene| {
        scene.until(20.0, "the worker is up", |pool| pool.idle == 1).await;
        let first = begin(&scene, &held(&scene)).await;
        let waiting = begin(&scene, HELLO).await;
        assert_eq!(scene.status().waiting, 1);
        waiting.abort();
        scene.until(20.0, "the queue is empty", |pool| pool.waiting == 0).await;
        scene.open("go");
        assert_eq!(first.await.unwrap().text, "slow");
        assert_eq!(scene.get(HELLO).await.text, "hello");
    });
}

#[test]
fn first_come_first_served() {
    Rig::new(|_| ()).play(async |scene| {
        let first = begin(&scene, &held(&scene)).await;
        let file = scene.file("order");
        let waiting = (0..5).map(|number| {
            let (scene, script) = (scene.clone(), format!("note:{file}={number};sleep:5;{HELLO}"));
            tokio::task::spawn_local(async move {
                scene.thread.clock.read();
                scene.get(&script).await
            })
        });
        let waiting: Vec<_> = waiting.collect();
        scene.until(20.0, "all wait", |pool| pool.waiting == 5).await;
        scene.open("go");
        first.await.unwrap();
        for task in waiting {
            assert_eq!(task.await.unwrap().text, "hello");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "0\n1\n2\n3\n4\n");
    });
}

#[test]
fn workers_grow_with_demand_and_end_when_idle() {
    let rig = Rig::new(|php| {
        (php.workers, php.workers_start, php.workers_spare) = (4, 1, 2);
        php.idle_timeout = Duration::from_secs(1);
    });
    rig.play(async |scene| {
        // Spare workers are not ended, so they are there from the start.
        scene.until(20.0, "up", |pool| pool.idle == 2).await;
        let tasks: Vec<_> = (0..8).map(|_| spawn_slow(&scene)).collect();
        scene.until(20.0, "four run", |pool| pool.running == 4 && pool.waiting == 4).await;
        let busy = scene.status().busy;
        assert!(busy.len() == 4 && busy.iter().all(|worker| worker.script == "/x.php"), "{busy:?}");
        let began = Instant::now();
        scene.open("go");
        for task in tasks {
            assert_eq!(task.await.unwrap(), "slow");
        }
        scene.until(20.0, "two are left", |pool| pool.idle == 2 && pool.exiting == 0).await;
        assert!(began.elapsed() >= Duration::from_millis(900), "after {:?}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(1300)).await;
        assert_eq!(scene.status().idle, 2, "spare ones stay");
    });
}

#[test]
fn without_spare_none_stays() {
    let rig = Rig::new(|php| {
        (php.workers_start, php.workers_spare) = (0, 0);
        php.idle_timeout = Duration::from_millis(100);
    });
    rig.play(async |scene| {
        assert_eq!(scene.status().workers().iter().map(|(_, count)| count).sum::<u64>(), 0);
        assert_eq!(scene.get(HELLO).await.text, "hello");
        scene.until(20.0, "none is left", |pool| pool.idle + pool.exiting == 0).await;
        assert_eq!(scene.get(HELLO).await.text, "hello");
    });
}

#[test]
fn how_many_there_may_be_is_measured() {
    let rig = Rig::new(|php| {
        (php.workers_measured, php.workers, php.workers_first) = (true, 5, 2);
        (php.workers_start, php.workers_spare) = (1, 1);
    });
    rig.play(async |scene| {
        assert_eq!((scene.status().most, scene.status().most_how), (2, None));
        for _ in 0..12 {
            scene.get(HELLO).await;
        }
        scene.until(20.0, "measured", |pool| pool.most == 5).await;
        let pool = scene.status();
        let how = pool.most_how.clone().unwrap();
        assert!(how.contains(" MB per worker (measured over 1 worker) would be "), "{how}");
        let worker = &pool.each[0];
        assert!(worker.own > 0 && worker.own <= worker.memory && worker.requests >= 12, "{worker:?}");
        let tasks: Vec<_> = (0..8).map(|_| spawn_slow(&scene)).collect();
        scene.until(20.0, "five run", |pool| pool.running == 5 && pool.waiting == 3).await;
        scene.open("go");
        for task in tasks {
            assert_eq!(task.await.unwrap(), "slow");
        }
    });
}

fn spawn_slow(scene: &Scene) -> tokio::task::JoinHandle<String> {
    let (scene, script) = (scene.clone(), held(scene));
    tokio::task::spawn_local(async move { scene.get(&script).await.text })
}

#[test]
fn a_worker_with_too_much_memory_is_replaced_after_its_request() {
    let rig = Rig::new(|php| php.worker_memory = Some(100 << 20));
    rig.play(async |scene| {
        let pid = scene.get("head:200;pid;end").await.text;
        assert_eq!(
            scene.get("eat:150;sleep:300;head:200;pid;end").await.text,
            pid,
            "not in the middle of it"
        );
        scene
            .until(20.0, "another one is idle", |pool| {
                pool.idle == 1 && pool.each.iter().all(|worker| worker.pid.to_string() != pid)
            })
            .await;
        let other = scene.get("eat:30;head:200;pid;end").await.text;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(scene.get("head:200;pid;end").await.text, other, "this one may have that");
    });
}

#[test]
fn what_is_slow_is_told() {
    Rig::new(|_| ()).play(async |scene| {
        scene.get(HELLO).await;
        let first = begin(&scene, &held(&scene)).await;
        let second = begin(&scene, HELLO).await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        scene.open("go");
        first.await.unwrap();
        second.await.unwrap();
        let pool = scene.status();
        assert_eq!((&*pool.slowest[0].script, pool.slowest.len()), ("/x.php", 1));
        // On a busy machine the quick ones are slow, too.
        assert!((1..=3).contains(&pool.slowest[0].count), "{pool:?}");
        assert!(pool.slowest[0].most >= Duration::from_millis(390), "{pool:?}");
        let pool = &pool.pools[0];
        assert_eq!((pool.served, pool.refused, pool.late), (3, 0, 0));
        // The first one waited, too, if its worker was not up yet.
        assert!((1..=2).contains(&pool.waited) && pool.wait_mean <= pool.wait_most, "{pool:?}");
        assert!(pool.wait_most > Duration::from_millis(200), "{pool:?}");
    });
}
