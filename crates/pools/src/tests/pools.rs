//! Shares of the workers: a full pool does not slow down the others.

use tokio::task::{JoinHandle, spawn_local};

use super::*;
use crate::pool::growth::EXTRA;

/// Four workers; POST requests run in the pool `admin`, PUT requests in `background`. All pools have the defaults.
pub(super) fn rig(change: impl FnOnce(&mut plan::Php)) -> Rig {
    Rig::new(|php| {
        (php.workers, php.workers_start, php.workers_spare) = (4, 4, 4);
        for (name, method) in [("admin", "POST"), ("background", "PUT")] {
            let front = php.pools[0].clone();
            php.pools.push(plan::PhpPool { name: name.into(), methods: vec![method.into()], ..front });
        }
        php.pools[0].nice = 5;
        php.pools[2].nice = 10;
        change(php);
    })
}

impl Scene {
    /// Starts `count` requests at once, and waits until the workers have as many of them as they get.
    async fn crowd(&self, count: usize, method: &'static str, script: &str) -> Vec<JoinHandle<u16>> {
        let expected = arrived(&self.status()) + count as u64;
        let ask = |_| {
            let (scene, script) = (self.clone(), script.to_owned());
            spawn_local(async move { read(scene.ask(method, &script, Content::Empty).await).await.status })
        };
        let tasks = (0..count).map(ask).collect();
        self.until(20.0, "all have arrived", |status| arrived(status) >= expected).await;
        tasks
    }

    /// Starts a crowd; its scripts end when that gate is opened.
    async fn held_crowd(&self, count: usize, method: &'static str, gate: &str) -> Vec<JoinHandle<u16>> {
        self.crowd(count, method, &format!("{};head:200;end", self.gate(gate))).await
    }
}

async fn all_served(tasks: Vec<JoinHandle<u16>>) {
    for task in tasks {
        assert_eq!(task.await.unwrap(), 200);
    }
}

#[test]
fn a_full_pool_does_not_slow_the_others() {
    rig(|_| ()).play(async |scene| {
        scene.until(20.0, "up", |pool| pool.idle == 4).await;
        for (full, other, running) in [("POST", "GET", 2), ("GET", "POST", 3)] {
            let tasks = scene.held_crowd(8, full, full).await;
            let pool = scene.status();
            assert_eq!((pool.running, pool.waiting), (running, 8 - running), "{full}");
            assert_eq!(read(scene.ask(other, HELLO, Content::Empty).await).await.text, "hello");
            assert!(tasks.iter().all(|task| !task.is_finished()), "{other} beside {full}");
            scene.open(full);
            all_served(tasks).await;
        }
    });
}

/// Opens the gate when the request waits behind those that the gate holds.
async fn open_meanwhile<T>(scene: Scene, gate: &'static str, asked: impl Future<Output = T>) -> T {
    let waiting = scene.status().waiting + 1;
    let opening = async {
        scene.until(20.0, "it waits", |pool| pool.waiting == waiting).await;
        scene.open(gate);
    };
    tokio::join!(asked, opening).0
}

/// A client that leaves while its request waits takes the request with it, but not a request that runs in the
/// background.
#[test]
fn what_runs_in_the_background_outlives_its_client() {
    rig(|_| ()).play(async |scene| {
        scene.until(20.0, "up", |pool| pool.idle == 4).await;
        for (method, runs) in [("POST", 0), ("PUT", 1)] {
            let tasks = scene.held_crowd(5, method, method).await;
            let mut request =
                scene.request(method, &format!("note:{};head:200;end", scene.file("ran")), Content::Empty);
            let left = std::future::ready(());
            let (script, opener) = (script(), scene.clone());
            let asked = run_while(&scene.thread, &scene.site, &mut request, &script, left);
            // One that has left does not wait for the others.
            let reply = if runs == 0 { at_once(asked) } else { open_meanwhile(opener, method, asked).await };
            assert_eq!((reply.is_some(), scene.lines("ran")), (runs > 0, runs), "{method}");
            scene.open(method);
            all_served(tasks).await;
        }
    });
}

#[test]
fn nothing_is_borrowed_that_is_not_allowed() {
    let rig = rig(|php| php.pools.iter_mut().for_each(|pool| pool.borrow = Some(0)));
    rig.play(async |scene| {
        scene.until(20.0, "up", |pool| pool.idle == 4).await;
        for (method, running) in [("GET", 2), ("POST", 1), ("PUT", 1)] {
            let tasks = scene.held_crowd(3, method, method).await;
            assert_eq!(scene.status().running, running, "{method}");
            scene.open(method);
            all_served(tasks).await;
        }
    });
}

#[test]
fn a_pool_has_a_queue_of_its_own() {
    rig(|_| ()).play(async |scene| {
        scene.until(20.0, "up", |pool| pool.idle == 4).await;
        let front = scene.held_crowd(10, "GET", "go").await;
        let admin = scene.held_crowd(3, "POST", "go").await;
        let waiting: Vec<u64> = scene.status().pools.iter().map(|pool| pool.waiting).collect();
        assert_eq!(waiting, [7, 2, 0]);
        scene.open("go");
        all_served(admin).await;
        all_served(front).await;
    });
}

#[test]
fn a_worker_that_ends_makes_room_for_another_pool_s_waiter() {
    rig(|_| ()).play(async |scene| {
        scene.until(20.0, "up", |pool| pool.idle == 4).await;
        let dying = scene.crowd(2, "POST", &format!("{};die", scene.gate("go"))).await;
        let waiting = scene.crowd(1, "POST", HELLO).await;
        assert_eq!(scene.status().waiting, 1);
        scene.open("go");
        all_served(waiting).await;
        for task in dying {
            assert_eq!(task.await.unwrap(), 502);
        }
        scene
            .until(20.0, "all are idle", |pool| pool.idle == 4 && pool.pools.iter().all(|l| l.running == 0))
            .await;
    });
}

#[test]
fn all_pools_share_one_worker() {
    rig(|php| (php.workers, php.workers_start, php.workers_spare) = (1, 1, 1)).play(async |scene| {
        let tasks = [
            scene.crowd(3, "GET", "sleep:20;head:200;end").await,
            scene.crowd(3, "POST", "sleep:20;head:200;end").await,
            scene.crowd(3, "PUT", "sleep:20;head:200;end").await,
        ];
        for tasks in tasks {
            all_served(tasks).await;
        }
        assert_eq!(scene.site.service.as_ref().unwrap().pids().len(), 1);
    });
}

#[test]
fn pools_give_way_as_they_are_told() {
    rig(|php| (php.workers_start, php.workers_spare) = (1, 1)).play(async |scene| {
        let own = rustix::process::getpriority_process(None).unwrap();
        for (method, nice) in [("PUT", 10), ("GET", 5), ("POST", 0)] {
            // A worker that there are enough of may be gone when it is looked at.
            let began = Instant::now();
            loop {
                let pid = read(scene.ask(method, "head:200;pid;end", Content::Empty).await).await.text;
                let pid = rustix::process::Pid::from_raw(pid.parse().unwrap());
                match rustix::process::getpriority_process(pid) {
                    // The kernel knows no more than 19.
                    Ok(found) if found == (own + nice).min(19) => break,
                    found => assert!(began.elapsed().as_secs() < 20, "{method}: {found:?}"),
                }
            }
        }
    });
}

/// As if the server had no right to lower a nice value: a worker with a raised one is not used for admins again.
#[test]
fn without_the_right_admins_get_workers_of_their_own() {
    let rig = rig(|php| (php.workers, php.workers_start, php.workers_spare) = (2, 2, 2));
    rig.pool().shared().forbid_lowering();
    rig.play(async |scene| {
        scene.until(20.0, "up", |pool| pool.idle == 2).await;
        all_served(scene.crowd(2, "GET", "sleep:100;head:200;end").await).await;
        let before = rig.pool().pids();
        let pid = |method: &'static str| {
            let scene = scene.clone();
            async move {
                read(scene.ask(method, "head:200;pid;end", Content::Empty).await)
                    .await
                    .text
                    .parse::<u32>()
                    .unwrap()
            }
        };
        let admin = pid("POST").await;
        assert!(!before.contains(&admin), "a fresh one");
        assert_eq!(pid("POST").await, admin, "and it stays");
        assert!(before.contains(&pid("GET").await), "visitors take one that gives way already");
        assert!(rig.pool().pids().len() <= 2 + EXTRA);
        scene.until(20.0, "two are left", |pool| pool.idle == 2 && pool.exiting == 0).await;
    });
}
