//! A new PHP takes over from the current one.

use std::time::Duration;

use super::*;

async fn host_of(scene: &Scene) -> (String, String) {
    let worker = scene.get("head:200;pid;end").await.text;
    let stat = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap();
    (stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().to_owned(), worker)
}

/// On a thread of its own, as the control thread does it.
async fn renew(scene: &Scene) -> Result<(), PhpStartError> {
    let pool = scene.site.service.clone().unwrap();
    tokio::task::spawn_blocking(move || pool.renew().map(super::super::Renewal::commit)).await.unwrap()
}

#[test]
fn what_runs_finishes_and_what_comes_has_the_new_one() {
    let rig = Rig::new(|php| (php.workers, php.workers_start, php.workers_spare) = (3, 3, 3));
    rig.play(async |scene| {
        scene.until(20.0, "up", |pool| pool.idle == 3).await;
        let (old, worker) = host_of(&scene).await;
        let other = scene.clone();
        let script = format!("{};head:200;pid;end", scene.gate("go"));
        let running = tokio::task::spawn_local(async move { other.get(&script).await.text });
        scene.until(20.0, "it runs", |pool| pool.running == 1).await;
        renew(&scene).await.unwrap();
        let status = scene.status();
        assert_eq!(status.idle + status.starting, 3, "as many as before, forked before the change");
        let (new, _) = host_of(&scene).await;
        assert_ne!(old, new);
        assert!(runs(&old), "it waits for its last worker");
        scene.open("go");
        assert_eq!(running.await.unwrap(), worker);
        let began = Instant::now();
        while runs(&old) || runs(&worker) {
            assert!(began.elapsed() < Duration::from_secs(20), "the old host stays");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(host_of(&scene).await.0, new);
    });
}

#[test]
fn a_crash_in_the_old_one_is_told() {
    let rig = Rig::logging(|_| ());
    rig.play(async |scene| {
        let other = scene.clone();
        let script = format!("head:200;body:part;flush;{};crash", scene.gate("go"));
        let running = tokio::task::spawn_local(async move { other.post(&script).await });
        scene.until(20.0, "it runs", |pool| pool.running == 1).await;
        renew(&scene).await.unwrap();
        scene.open("go");
        let answer = running.await.unwrap();
        assert_eq!((answer.status, &answer.text[..]), (200, "part"));
        assert!(answer.end.unwrap().is_err());
        let log = scene.logged("SIGABRT").await;
        assert!(log.contains("while running POST a.test/x.php"), "{log}");
        let log = scene.logged("is incomplete").await;
        assert!(log.contains("the response to POST a.test/x.php"), "{log}");
    });
}

#[test]
fn who_waits_is_served_by_the_new_one() {
    let rig = Rig::new(|_| ());
    rig.play(async |scene| {
        let (_, worker) = host_of(&scene).await;
        let mut asked = Vec::new();
        for _ in 0..4 {
            let other = scene.clone();
            let script = format!("{};head:200;pid;end", scene.gate("go"));
            let ask = async move { other.get(&script).await };
            asked.push(tokio::task::spawn_local(ask));
        }
        scene.until(20.0, "one runs", |pool| (pool.running, pool.waiting) == (1, 3)).await;
        renew(&scene).await.unwrap();
        scene.open("go");
        let mut pids = Vec::new();
        for answer in asked {
            let answer = answer.await.unwrap();
            assert_eq!(answer.status, 200);
            pids.push(answer.text);
        }
        assert_eq!(pids.iter().filter(|pid| **pid == worker).count(), 1, "{pids:?}: only what ran");
    });
}

#[test]
fn a_new_one_that_does_not_start_changes_nothing() {
    let broken = std::env::temp_dir().join(format!("millrace-renewal-{}", std::process::id()));
    let rig = Rig::new(|php| {
        php.ini.insert("fake.fail".into(), "the ini file is broken".into());
        php.ini.insert("fake.while".into(), broken.display().to_string());
    });
    std::fs::write(&broken, "").unwrap();
    rig.play(async |scene| {
        let before = host_of(&scene).await;
        let error = renew(&scene).await.unwrap_err().to_string();
        assert!(error.contains("the ini file is broken"), "{error}");
        assert_eq!(host_of(&scene).await, before, "the old PHP and its worker stay");
        std::fs::remove_file(&broken).unwrap();
        renew(&scene).await.unwrap();
        assert_ne!(host_of(&scene).await.0, before.0);
    });
}

#[test]
fn a_dropped_renewal_leaves_nothing() {
    let mark = format!("renewal-mark-{}", std::process::id());
    let rig = Rig::new(|php| drop(php.ini.insert("fake.mark".into(), mark.clone())));
    rig.play(async |scene| {
        let before = host_of(&scene).await;
        let pool = scene.site.service.clone().unwrap();
        let renewal = tokio::task::spawn_blocking(move || pool.renew().unwrap()).await.unwrap();
        assert_eq!(marked(&mark), 4, "two hosts with a worker each");
        drop(renewal);
        assert_eq!(host_of(&scene).await, before);
        let began = Instant::now();
        while marked(&mark) > 2 {
            assert!(began.elapsed() < Duration::from_secs(20), "{} processes", marked(&mark));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

/// Number of processes with this word in their environment; FakePhp's processes get their arguments there.
fn marked(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let environment = |process: std::fs::DirEntry| std::fs::read(process.path().join("environ"));
    let has = |text: Vec<u8>| memchr::memmem::find(&text, mark.as_bytes()).is_some();
    processes
        .filter(|process| process.file_name().as_encoded_bytes()[0].is_ascii_digit())
        .flat_map(environment)
        .filter(|text| has(text.clone()))
        .count()
}

#[test]
fn under_load_nothing_fails() {
    let rig = Rig::new(|php| (php.workers, php.workers_start, php.workers_spare) = (3, 3, 3));
    rig.play(async |scene| {
        let mut clients = Vec::new();
        for _ in 0..8 {
            let other = scene.clone();
            clients.push(tokio::task::spawn_local(async move {
                for _ in 0..60 {
                    let answer = other.post("sleep:3;head:200;body:x;end").await;
                    assert_eq!((answer.status, &answer.text[..]), (200, "x"));
                }
            }));
        }
        for _ in 0..5 {
            renew(&scene).await.unwrap();
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
        for client in clients {
            client.await.unwrap();
        }
    });
}
