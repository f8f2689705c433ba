//! Pools and their queues, over connections.

use tokio::task::{JoinHandle, spawn_local};

use super::*;

/// Four connections; POST requests run in the pool `admin`, PUT requests in `background`. All pools have the defaults.
fn pools() -> (Rig, Vec<FakeFpm>) {
    rig(1, 0, |php| {
        php.workers = 4;
        for (name, method) in [("admin", "POST"), ("background", "PUT")] {
            let front = php.pools[0].clone();
            php.pools.push(plan::PhpPool { name: name.into(), methods: vec![method.into()], ..front });
        }
    })
}

/// Starts `count` requests at once, and waits until `most` of them run; they end when the gate of this name is open.
async fn crowd(scene: &Scene, count: usize, method: &'static str, most: u64) -> Vec<JoinHandle<u16>> {
    let ask = |_| {
        let (script, scene) = (format!("{};head:A=b;body:slow;end", scene.gate(method)), scene.clone());
        spawn_local(async move { read(scene.ask(method, &script, Content::Empty).await).await.status })
    };
    let tasks = (0..count).map(ask).collect();
    let is_full = |status: &PhpStatus| (status.running, status.waiting) == (most, count as u64 - most);
    scene.until(20.0, "as many run as may", is_full).await;
    tasks
}

#[test]
fn a_full_pool_does_not_slow_the_others() {
    let (rig, fpms) = pools();
    rig.play(async |scene| {
        for (full, other, most) in [("POST", "GET", 2), ("GET", "POST", 3), ("PUT", "GET", 1)] {
            let tasks = crowd(&scene, 8, full, most).await;
            assert_eq!(read(scene.ask(other, HELLO, Content::Empty).await).await.text, "hello");
            assert!(tasks.iter().all(|task| !task.is_finished()), "{other} beside {full}");
            scene.open(full);
            for task in tasks {
                assert_eq!(task.await.unwrap(), 200);
            }
        }
        let names: Vec<_> = scene.status().pools.into_iter().map(|pool| (pool.name, pool.served)).collect();
        assert_eq!(names, [("front".into(), 10), ("admin".into(), 9), ("background".into(), 8)]);
    });
    assert!(fpms[0].seen.most.load(Ordering::SeqCst) <= 4);
}

/// A request that waits for its pool's turn gets the connection that becomes free at the same time.
#[test]
fn the_connection_goes_with_the_place() {
    let (rig, fpms) = rig(1, 0, |php| php.workers = 2);
    rig.play(async |scene| {
        let asks: Vec<_> = (0..20)
            .map(|_| {
                let scene = scene.clone();
                spawn_local(async move { scene.get("sleep:5;head:A=b;body:x;end").await.text })
            })
            .collect();
        for ask in asks {
            assert_eq!(ask.await.unwrap(), "x");
        }
    });
    // A process that takes a few milliseconds to come back to its connection gets another one; each has a place.
    let (connections, most) = (fpms[0].connections(), fpms[0].seen.most.load(Ordering::SeqCst));
    assert!(most <= 2 && fpms[0].requests() == 20, "{most} at once");
    assert!(connections < 15, "{connections} connections were made");
}

/// A browser that was refused gets a place, as with our own workers.
#[test]
fn there_is_a_waiting_room() {
    let (rig, _fpms) = rig(1, 0, |php| {
        (php.workers, php.queue) = (1, 0);
    });
    rig.play(async |scene| {
        let tasks = crowd(&scene, 1, "GET", 1).await;
        let mut request = scene.request("GET", HELLO, Content::Empty);
        let text = format!("GET /x.php?{HELLO} HTTP/1.1\r\nHost: a.test\r\nAccept: text/html\r\n\r\n");
        request.head.parse(text.as_bytes(), &LIMITS).unwrap().unwrap();
        let reply = run(&scene.thread, &scene.site, &mut request, &script()).await;
        assert!(reply.status == 503 && reply.is_turned_away());
        let page = crate::seat(&scene.thread, &scene.site, &request, &script(), reply);
        assert!(page.fields.has("set-cookie"));
        assert_eq!(scene.status().pools[0].waiting_room, 1);
        scene.open("GET");
        for task in tasks {
            assert_eq!(task.await.unwrap(), 200);
        }
    });
}

/// A script that goes on behind its response (`fastcgi_finish_request`) holds up no request, whatever its method, while
/// another process waits for one.
#[test]
fn no_request_waits_behind_a_response() {
    let (rig, fpms) = rig(1, 0, |php| php.workers = 4);
    rig.play(async |scene| {
        let file = scene.file("go");
        let behind = format!("head:A=b;body:x;end;until:{file}");
        // They become idle in an order in which the last ones are busy, then the first ones.
        for round in [["a", "x", "x", "x"], ["x", "b", "x", "x"]] {
            for which in round {
                let script = if which == "x" { HELLO } else { &behind };
                for method in ["GET", "POST", "GET"] {
                    let asked =
                        scene.ask(method, if method == "POST" { HELLO } else { script }, Content::Empty);
                    let answer =
                        tokio::time::timeout(Duration::from_secs(20), async { read(asked.await).await });
                    assert_eq!(answer.await.expect("it waits behind another script").status, 200);
                }
            }
        }
        assert!(!std::path::Path::new(&file).exists());
        std::fs::write(&file, "").unwrap();
        scene.until(20.0, "all are idle", |status| status.running == 0).await;
        assert_eq!(scene.get(HELLO).await.text, "hello");
    });
    assert_eq!(fpms[0].requests(), 25, "none was run twice");
}
