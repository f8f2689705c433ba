//! Start, reload, shutdown; several event loops.

use std::time::Duration;

use super::*;

#[test]
fn says_why_php_does_not_start() {
    let start = |change: &dyn Fn(&mut plan::Php)| Rig::start(change).map(|_| ()).unwrap_err().to_string();
    let error = start(&|php| drop(php.ini.insert("fake.fail".into(), "no such user".into())));
    assert!(error.contains("no such user"), "{error}");
    let error = start(&|php| {
        drop(php.ini.insert("fake.fail".into(), "its own start;PHP Fatal error: no preload".into()))
    });
    assert!(error.ends_with("PHP did not start: its own start:\nPHP Fatal error: no preload"), "{error}");
    let error = start(&|php| drop(php.ini.insert("fake.words".into(), "libphp.so: cannot open".into())));
    assert!(error.contains("libphp.so: cannot open") && error.contains("status 3"), "{error}");
    let error = start(&|php| drop(php.ini.insert("fake.protocol".into(), "99".into())));
    assert!(error.contains("another version"), "{error}");
    let error = start(&|php| php.program = Some("/nowhere/millrace-php".into()));
    assert!(error.contains("cannot start /nowhere/millrace-php"), "{error}");
}

/// IDs of this host's processes and of the host itself, read through a worker.
async fn processes(scene: &Scene) -> Vec<String> {
    let worker = scene.get("head:200;pid;end").await.text;
    let stat = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap();
    let host = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().to_owned();
    vec![worker, host]
}

fn all_gone(processes: &[String]) -> bool {
    processes.iter().all(|pid| !runs(pid))
}

#[test]
fn a_retired_pool_finishes_and_ends() {
    let rig = Rig::new(|php| (php.workers, php.workers_start, php.workers_spare) = (2, 2, 2));
    rig.play(async |scene| {
        scene.until(20.0, "up", |pool| pool.idle == 2).await;
        let processes = processes(&scene).await;
        let other = scene.clone();
        let script = format!("{};head:200;body:late;end", scene.gate("go"));
        let running = tokio::task::spawn_local(async move { other.get(&script).await });
        scene.until(20.0, "it runs", |pool| pool.running == 1).await;
        scene.site.service.as_ref().unwrap().retire();
        scene.until(20.0, "idle ones end", |pool| pool.idle == 0 && pool.exiting == 0).await;
        scene.open("go");
        assert_eq!(scene.get(HELLO).await.text, "hello", "a request of the old set-up is served");
        assert_eq!(running.await.unwrap().text, "late");
        scene.until(20.0, "none is left", |pool| pool.idle + pool.running + pool.exiting == 0).await;
        assert!(!all_gone(&processes[1..]), "the host waits for the last who has the pool");
        drop(scene);
        let Rig { .. } = &rig;
        rig.pool().stop(Duration::ZERO);
        assert!(all_gone(&processes));
    });
}

#[test]
fn a_dropped_pool_leaves_nothing() {
    let mut rig = Rig::new(|_| ());
    let mut seen = Vec::new();
    rig.play(async |scene| seen = processes(&scene).await);
    // Another pool takes its place; nothing refers to the old one.
    let other = Rig::new(|_| ());
    rig.site = Arc::clone(&other.site);
    let began = Instant::now();
    while !all_gone(&seen) {
        assert!(began.elapsed() < Duration::from_secs(20), "{seen:?} are still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Stops PHP on a thread of its own, as the control thread does it.
fn stop(scene: &Scene, grace: Duration) -> tokio::task::JoinHandle<()> {
    let site = scene.site.clone();
    tokio::task::spawn_blocking(move || site.service.as_ref().unwrap().stop(grace))
}

#[test]
fn stop_gives_time() {
    let rig = Rig::new(|php| (php.workers, php.workers_start) = (2, 2));
    rig.play(async |scene| {
        let seen = processes(&scene).await;
        let (other, script) = (scene.clone(), format!("{};head:200;body:x;end", scene.gate("go")));
        let running = tokio::task::spawn_local(async move { other.get(&script).await });
        scene.until(20.0, "it runs", |pool| pool.running == 1).await;
        let began = Instant::now();
        let stopping = stop(&scene, Duration::from_secs(60));
        while scene.get(HELLO).await.status != 503 {
            assert!(began.elapsed() < Duration::from_secs(20), "others are still let in");
        }
        assert!(!running.is_finished() && !stopping.is_finished());
        scene.open("go");
        assert_eq!(running.await.unwrap().text, "x");
        stopping.await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(30), "it waits for no one else");
        assert!(all_gone(&seen));
    });
}

#[test]
fn stop_kills_what_takes_more_time() {
    let rig = Rig::new(|php| php.request_timeout = Duration::from_secs(90));
    rig.play(async |scene| {
        let seen = processes(&scene).await;
        let other = scene.clone();
        let endless = tokio::task::spawn_local(async move { other.get("sleep:90000").await });
        scene.until(20.0, "it runs", |pool| pool.running == 1).await;
        let began = Instant::now();
        stop(&scene, Duration::from_millis(400)).await.unwrap();
        assert!(began.elapsed() > Duration::from_millis(390), "{:?}", began.elapsed());
        assert_eq!(endless.await.unwrap().status, 503, "killed, and no worker for another attempt");
        assert!(all_gone(&seen));
    });
}

#[test]
fn workers_move_between_event_loops() {
    let rig = Rig::new(|_| ());
    let mut pids = Vec::new();
    for round in 0..4 {
        rig.on_thread(round % 2, async |scene| pids.push(scene.get("head:200;pid;end").await.text));
    }
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
}

#[test]
fn a_worker_goes_to_who_waits_on_another_loop() {
    let rig = Rig::new(|_| ());
    std::thread::scope(|scope| {
        let rig = &rig;
        let first = scope.spawn(move || {
            rig.on_thread(0, async |scene| {
                for _ in 0..200 {
                    assert_eq!(scene.get(HELLO).await.text, "hello");
                }
            });
        });
        rig.on_thread(1, async |scene| {
            for _ in 0..200 {
                assert_eq!(scene.get(HELLO).await.text, "hello");
            }
        });
        first.join().unwrap();
    });
}
