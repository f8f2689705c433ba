//! Connections: their number, their choice, and their failures.

use std::cell::RefCell;

use super::*;

#[test]
fn never_more_connections_than_workers_or_processes() {
    for (workers, children, expected) in [(3, 0, 3), (9, 4, 4)] {
        let (rig, fpms) = rig(1, children, |php| php.workers = workers);
        let ask = |scene: Scene, n: usize| async move {
            let asks: Vec<_> = (0..n)
                .map(|_| {
                    let scene = scene.clone();
                    tokio::task::spawn_local(
                        async move { scene.get("sleep:20;head:A=b;body:x;end").await.text },
                    )
                })
                .collect();
            for ask in asks {
                assert_eq!(ask.await.unwrap(), "x");
            }
        };
        std::thread::scope(|scope| {
            for index in 0..2 {
                let (rig, ask) = (&rig, &ask);
                scope.spawn(move || rig.on_thread(index, async move |scene| ask(scene, 30).await));
            }
        });
        let seen = &fpms[0].seen;
        let most = seen.most.load(Ordering::SeqCst);
        assert!((2..=expected).contains(&most), "{most} at once");
        assert_eq!(fpms[0].requests(), 60);
        let connections = fpms[0].connections();
        // A process that takes a few milliseconds to come back to its connection gets another one.
        assert!(connections < 30, "{connections} connections were made");
    }
}

/// php-fpm with fewer processes than `php.workers`, as Debian's default is; php-fpm does not report it.
#[test]
fn fewer_processes_than_workers() {
    let path = std::env::temp_dir().join(format!("millrace-fpm-{}-few.sock", std::process::id()));
    let fpm = FakeFpm::start_with(&path, 0, 3);
    let rig = Rig::new(|php| {
        php.fastcgi = vec![fpm.backend()];
        php.workers = 8;
    });
    rig.play(async |scene| {
        let burst = async |n: usize, each: usize| {
            let began = Instant::now();
            let idle = Rc::new(RefCell::new(Vec::new()));
            let asks: Vec<_> = (0..n)
                .map(|_| {
                    let (scene, idle) = (scene.clone(), idle.clone());
                    tokio::task::spawn_local(async move {
                        for _ in 0..each {
                            assert_eq!(scene.get("sleep:10;head:A=b;body:x;end").await.text, "x");
                            idle.borrow_mut().push(scene.status().idle);
                        }
                    })
                })
                .collect();
            for ask in asks {
                ask.await.unwrap();
            }
            (idle.take(), began.elapsed())
        };
        // All arrive at once, then no more: no request waits while a connection is idle.
        let (idle, _) = burst(8, 1).await;
        assert_eq!(idle[..7], [0; 7], "idle after each response but the last");
        // One after the other: no request is forgotten.
        let (_, learning) = burst(12, 30).await;
        // It is measured: on a busy machine some may not be seen.
        assert!((1..=3).contains(&scene.status().most), "{:?}", scene.status());
        let before = fpm.connections();
        let (_, knowing) = burst(12, 30).await;
        println!("# as many processes as are known do in {knowing:?} what took {learning:?} before");
        // A process that takes a few milliseconds to come back to its connection gets another one.
        assert!(fpm.connections() <= before + 120, "{} connections were made", fpm.connections() - before);
    });
}

/// One loop has all connections, all idle: another loop's request gets one of them.
#[test]
fn a_kept_connection_goes_to_the_loop_that_needs_it() {
    let (rig, fpms) = rig(1, 0, |_| ());
    let (tell, told) = std::sync::mpsc::channel();
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    std::thread::scope(|scope| {
        let rig = &rig;
        scope.spawn(move || {
            rig.on_thread(0, async move |scene| {
                assert_eq!(scene.get(HELLO).await.text, "hello");
                scene.until_free().await;
                tell.send(()).unwrap();
                let _ = finished.await;
            });
        });
        told.recv().unwrap();
        rig.on_thread(1, async move |scene| {
            // The other loop keeps it until the answer has come.
            assert_eq!(scene.get(HELLO).await.text, "hello");
            finish.send(()).unwrap();
        });
    });
    assert_eq!((fpms[0].connections(), fpms[0].requests()), (1, 2), "the connection itself has moved");
}

#[test]
fn the_queue_is_bounded_by_count_and_time() {
    let (rig, fpms) = rig(1, 0, |php| {
        (php.queue, php.queue_timeout) = (2, Duration::from_millis(200));
    });
    rig.play(async |scene| {
        let ask = |script: &str| {
            let (scene, script) = (scene.clone(), script.to_owned());
            tokio::task::spawn_local(async move { (scene.get(&script).await.status, Instant::now()) })
        };
        let held = |gate: &str| format!("{};head:A=b;end", scene.gate(gate));
        let began = Instant::now();
        let asks = [ask(&held("first")), ask(HELLO), ask(HELLO), ask(HELLO)];
        let [first, second, third, fourth] = asks;
        assert_eq!(fourth.await.unwrap().0, 503);
        assert_eq!(scene.count(Counter::PhpQueueFull), 1, "as many wait as may");
        for ask in [second, third] {
            let (status, at) = ask.await.unwrap();
            assert_eq!(status, 503);
            assert!((at - began).as_millis() >= 200, "{:?}", at - began);
        }
        assert!(!first.is_finished());
        scene.open("first");
        assert_eq!(first.await.unwrap().0, 200);
        assert_eq!((scene.count(Counter::PhpQueueFull), scene.count(Counter::PhpQueueTimeouts)), (1, 2));
        assert_eq!(scene.status().waiting, 0);
        // A request that leaves the queue is not run.
        let slow = ask(&held("slow"));
        scene.until(20.0, "it runs", |status| status.running == 1).await;
        let left = tokio::time::timeout(Duration::from_millis(50), scene.get(HELLO)).await;
        assert!(left.is_err_and(|_| !slow.is_finished()));
        scene.open("slow");
        assert_eq!(slow.await.unwrap().0, 200);
        scene.until(20.0, "kept", |status| status.idle == 1 && status.waiting == 0).await;
    });
    assert_eq!(fpms[0].requests(), 2);
}

/// An idle connection that php-fpm has closed costs no request anything, whatever its method.
#[test]
fn kept_connections_that_were_closed() {
    let (rig, _fpms) = rig(1, 0, |php| php.workers = 3);
    rig.play(async |scene| {
        for method in ["GET", "POST"] {
            // It closes them right after its response, or some time later.
            for pause in [0, 60] {
                let sent = format!("head:A=b;body:x;end;sleep:{pause};close");
                assert_eq!(scene.get(&sent).await.text, "x");
                tokio::time::sleep(Duration::from_millis(2 * pause + 10)).await;
                let answer = read(scene.ask(method, HELLO, Content::Empty).await).await;
                assert_eq!((answer.status, &answer.text[..]), (200, "hello"), "{method} {pause}");
            }
        }
        for _ in 0..30 {
            // At the same moment: php-fpm does so with pm.max_requests.
            let answer = read(scene.ask("POST", "head:A=b;body:x;end;close", Content::Empty).await).await;
            assert_eq!(answer.text, "x");
        }
    });
}

#[test]
fn what_had_begun_is_run_again_once_and_only_if_it_may_be() {
    let (rig, _fpms) = rig(1, 0, |_| ());
    rig.play(async |scene| {
        let script = |name: &str| {
            let (line, first) = (scene.file(name), scene.file(&format!("{name}-first")));
            format!("line:{line};first:{first};{HELLO}")
        };
        assert_eq!(scene.get(&script("get")).await.text, "hello");
        assert_eq!((scene.lines("get"), scene.count(Counter::PhpRetried)), (2, 1));
        assert_eq!(scene.post(&script("post")).await.status, 502);
        assert_eq!(scene.lines("post"), 1);
        let always = format!("line:{};close", scene.file("always"));
        assert_eq!(scene.get(&always).await.status, 502);
        assert_eq!(scene.lines("always"), 2, "once again");
    });
}

#[test]
fn the_least_busy_backend_gets_the_request() {
    let (rig, fpms) = rig(3, 0, |php| php.workers = 9);
    rig.play(async |scene| {
        let slow: Vec<_> = (0..3)
            .map(|_| {
                let (script, scene) = (format!("{};head:A=b;end", scene.gate("go")), scene.clone());
                tokio::task::spawn_local(async move { scene.get(&script).await.status })
            })
            .collect();
        let one_each = |status: &PhpStatus| status.backends.iter().all(|backend| backend.busy == 1);
        scene.until(20.0, "one runs at each", one_each).await;
        scene.open("go");
        for ask in slow {
            assert_eq!(ask.await.unwrap(), 200);
        }
        for _ in 0..27 {
            // A process that has not come back to its connection yet can't be chosen.
            scene.until(20.0, "all processes wait", |_| scene.idle_processes() == 3).await;
            scene.get(HELLO).await;
        }
    });
    let requests: Vec<usize> = fpms.iter().map(FakeFpm::requests).collect();
    assert_eq!(requests, [10, 10, 10]);
}

#[test]
fn a_backend_that_is_down_gets_nothing_and_is_found_again() {
    let (rig, mut fpms) = rig(2, 0, |php| php.workers = 4);
    rig.play(async |scene| {
        for _ in 0..4 {
            assert_eq!(scene.get(HELLO).await.status, 200);
        }
        let gone = fpms.remove(0);
        let path = match gone.backend() {
            plan::Backend::Unix(path) => path,
            plan::Backend::Tcp(_) => unreachable!(),
        };
        gone.kill();
        for method in ["GET", "POST"].repeat(10) {
            let answer = read(scene.ask(method, HELLO, Content::Empty).await).await;
            assert_eq!((answer.status, &answer.text[..]), (200, "hello"), "{method}");
        }
        let status = scene.status();
        assert!(!status.backends[0].up && status.backends[1].up && status.trouble.is_none());
        assert!(status.backends[0].trouble.is_some());
        let again = FakeFpm::start(&path, 0);
        let began = Instant::now();
        while again.requests() == 0 {
            assert!(began.elapsed() < Duration::from_secs(20), "not found again");
            let slow = || async { scene.get("sleep:20;head:A=b;end").await.status };
            assert_eq!(tokio::join!(slow(), slow(), slow()), (200, 200, 200));
        }
        assert!(scene.status().backends[0].up);
    });
}

/// All are down for a moment, as when php-fpm is restarted: requests wait for them, whatever their method. All are down
/// for good: requests are refused at once.
#[test]
fn a_restart_costs_no_request_and_an_outage_no_patience() {
    let (rig, mut fpms) = rig(1, 0, |php| (php.workers, php.queue_timeout) = (4, Duration::from_secs(60)));
    rig.play(async |scene| {
        assert_eq!(scene.get(HELLO).await.status, 200);
        let gone = fpms.remove(0);
        let plan::Backend::Unix(path) = gone.backend() else { unreachable!() };
        gone.kill();
        let asks: Vec<_> = ["GET", "POST"]
            .repeat(10)
            .into_iter()
            .map(|method| {
                let scene = scene.clone();
                tokio::task::spawn_local(async move {
                    read(scene.ask(method, HELLO, Content::Empty).await).await.status
                })
            })
            .collect();
        scene.until(20.0, "it is down", |status| !status.backends[0].up).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let again = FakeFpm::start(&path, 0);
        for ask in asks {
            assert_eq!(ask.await.unwrap(), 200);
        }
        assert!(scene.status().backends[0].up);
        again.kill();
        let began = Instant::now();
        assert_eq!(scene.get(HELLO).await.status, 503);
        assert!((2..30).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
        assert_eq!(at_once(scene.get(HELLO)).status, 503);
        assert!(scene.status().trouble.is_some());
    });
}

#[test]
fn idle_connections_are_closed_after_a_while() {
    let (rig, fpms) = rig(1, 0, |php| php.idle_timeout = Duration::from_millis(300));
    rig.play(async |scene| {
        assert_eq!(scene.get(HELLO).await.status, 200);
        assert_eq!(scene.status().idle, 1);
        scene.until(20.0, "closed", |status| status.idle == 0 && status.backends[0].connections == 0).await;
        assert_eq!(scene.get(HELLO).await.status, 200);
        rig.pool().retire();
        scene.until(20.0, "closed", |status| status.idle == 0).await;
        assert_eq!(scene.get(HELLO).await.status, 200, "requests that still come are served");
        assert_eq!(scene.status().idle, 0);
    });
    assert_eq!(fpms[0].connections(), 3);
}
