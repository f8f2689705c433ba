//! Persistent workers boot before they take requests, or fail to.

use super::*;

/// A pool of persistent workers whose boot obeys `script`; `until:GATE` waits for [`Scene::open`].
fn persistent(script: &str, change: impl FnOnce(&mut plan::Php)) -> Rig {
    Rig::logging(|php| {
        let dir = php.program.as_ref().unwrap().parent().unwrap().to_owned();
        let file = dir.join("worker.php");
        std::fs::write(&file, script.replace("GATE", &dir.join("gate").display().to_string())).unwrap();
        php.worker = Some(plan::WorkerScript { file, name: "/worker.php".to_owned(), root: dir });
        change(php);
    })
}

#[test]
fn requests_wait_for_a_boot_and_one_boot_serves_many() {
    let rig = persistent("until:GATE;boot", |_| ());
    rig.play(async |scene| {
        assert_eq!((scene.status().idle, scene.status().running), (0, 0));
        let other = scene.clone();
        let first = tokio::task::spawn_local(async move { other.get("head:200;pid;end").await });
        scene.until(20.0, "it waits", |pool| pool.waiting == 1).await;
        scene.open("gate");
        let first = first.await.unwrap();
        assert_eq!(first.status, 200);
        for _ in 0..5 {
            assert_eq!(scene.get("head:200;pid;end").await.text, first.text);
        }
        assert_eq!(scene.status().trouble, None);
    });
}

#[test]
fn one_that_boots_is_not_forked_again_for_the_same_waiters() {
    let rig = persistent("sleep:300;boot", |php| {
        (php.workers, php.workers_start, php.workers_spare) = (4, 0, 0);
    });
    std::fs::write(
        rig.dir.join("worker.php"),
        format!("note:{};sleep:300;boot", rig.dir.join("boots").display()),
    )
    .unwrap();
    rig.play(async |scene| {
        assert_eq!(scene.get("head:200;end").await.status, 200);
        assert_eq!(scene.lines("boots"), 1);
    });
}

#[test]
fn where_none_boots_nobody_waits() {
    let rig = persistent("fail:no database", |php| php.workers = 2);
    rig.play(async |scene| {
        scene.logged("worker.php failed to boot: no database").await;
        for _ in 0..10 {
            assert_eq!(at_once(scene.get("head:200;end")).status, 503);
        }
        assert_eq!(scene.count(Counter::PhpUnbooted), 10);
        assert!(scene.status().trouble.unwrap().ends_with("failed to boot: no database"));
        let log = scene.logged("its requests get 503").await;
        assert!(log.matches("failed to boot").count() < 20, "{log}");
        std::fs::write(scene.dir.join("worker.php"), "boot").unwrap();
        scene.until(20.0, "booted", |pool| pool.idle == 1 && pool.trouble.is_none()).await;
        assert_eq!(scene.get("head:200;end").await.status, 200);
    });
}

#[test]
fn who_waits_for_a_boot_that_fails_or_dies_is_refused_then() {
    for script in ["sleep:300;fail:why", "sleep:300;die"] {
        let rig = persistent(script, |php| (php.workers_start, php.workers_spare) = (0, 0));
        rig.play(async |scene| {
            assert_eq!(scene.get("head:200;end").await.status, 503);
            assert_eq!(scene.count(Counter::PhpUnbooted), 1);
            let log = scene.logged("failed to boot").await;
            assert!(log.contains("boot: why") || log.contains("exited"), "{log}");
        });
    }
}

#[test]
fn a_boot_that_hangs_is_killed() {
    let rig = persistent("sleep:20000;boot", |php| php.request_timeout = Duration::from_millis(300));
    rig.play(async |scene| {
        assert_eq!(scene.get("head:200;end").await.status, 503);
        scene.logged("failed to boot: it took too long and was killed").await;
    });
}

#[test]
fn workers_that_have_booted_serve_on_while_others_do_not() {
    let rig = persistent("boot", |php| php.workers = 2);
    rig.play(async |scene| {
        let pid = scene.get("head:200;pid;end").await.text;
        std::fs::write(scene.dir.join("worker.php"), "fail:broken").unwrap();
        let ask = |script: String| {
            let scene = scene.clone();
            tokio::task::spawn_local(async move { scene.get(&script).await })
        };
        let running = ask(format!("{};head:200;pid;end", scene.gate("go")));
        scene.until(20.0, "it runs", |pool| pool.running == 1).await;
        let second = ask("head:200;pid;end".into());
        scene.logged("failed to boot: broken").await;
        scene.open("go");
        let second = second.await.unwrap();
        assert_eq!((second.status, &second.text), (200, &pid), "it has waited for the one that works");
        assert_eq!(running.await.unwrap().text, pid);
        assert_eq!(scene.count(Counter::PhpUnbooted), 0);
    });
}

#[test]
fn a_worker_that_ends_while_it_is_idle_is_no_death() {
    let rig = persistent("boot", |_| ());
    rig.play(async |scene| {
        for _ in 0..6 {
            scene.until(20.0, "booted", |pool| pool.idle == 1).await;
            let pid = scene.site.service.as_ref().unwrap().pids()[0];
            rustix::process::kill_process(
                rustix::process::Pid::from_raw(pid as i32).unwrap(),
                rustix::process::Signal::TERM,
            )
            .unwrap();
            while scene.site.service.as_ref().unwrap().pids() == [pid] {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        scene.until(20.0, "booted", |pool| pool.idle == 1).await;
    });
}

/// On a thread of its own, as the control thread does it.
async fn renew(scene: &Scene) -> Result<(), PhpStartError> {
    let pool = scene.site.service.clone().unwrap();
    tokio::task::spawn_blocking(move || pool.renew().map(super::super::Renewal::commit)).await.unwrap()
}

#[test]
fn a_new_php_takes_over_when_its_workers_have_booted() {
    let rig = persistent("boot", |php| (php.workers, php.workers_start, php.workers_spare) = (2, 2, 2));
    rig.play(async |scene| {
        scene.until(20.0, "up", |pool| pool.idle == 2).await;
        let old = scene.get("head:200;pid;end").await.text;
        let boot = format!("note:{};{};boot", scene.file("begun"), scene.gate("go"));
        std::fs::write(scene.dir.join("worker.php"), boot).unwrap();
        let other = scene.clone();
        let renewed = tokio::task::spawn_local(async move { renew(&other).await });
        wait_for("the new workers boot", || scene.lines("begun") > 0).await;
        for _ in 0..20 {
            assert_eq!(scene.get("head:200;pid;end").await.status, 200);
        }
        assert!(!renewed.is_finished(), "it waits for them");
        scene.open("go");
        renewed.await.unwrap().unwrap();
        scene.until(20.0, "both have booted", |pool| pool.idle == 2).await;
        assert_ne!(scene.get("head:200;pid;end").await.text, old);
    });
}

#[test]
fn a_new_php_whose_workers_do_not_boot_is_not_taken() {
    let rig = persistent("boot", |_| ());
    rig.play(async |scene| {
        let old = scene.get("head:200;pid;end").await.text;
        for (script, why) in [("fail:broken", "failed to boot: broken"), ("die", "exited")] {
            std::fs::write(scene.dir.join("worker.php"), script).unwrap();
            let error = renew(&scene).await.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert_eq!(scene.get("head:200;pid;end").await.text, old);
        }
        std::fs::write(scene.dir.join("worker.php"), "boot").unwrap();
        renew(&scene).await.unwrap();
        assert_ne!(scene.get("head:200;pid;end").await.text, old);
    });
}
