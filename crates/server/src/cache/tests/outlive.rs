//! Several processes in sequence with the same folder.

use std::path::PathBuf;

use millrace_settings::plan::{Plan, Profile};

use super::*;
use millrace_base::testing::Dir;

const DAY: (&str, &str) = ("Cache-Control", "public, max-age=86400, stale-while-revalidate=60");

/// A process with this folder; it shuts down properly.
fn process<F: Future<Output = Scene>>(
    dir: &Dir,
    change: impl FnOnce(&mut Plan),
    scene: impl FnOnce(Scene) -> F,
) {
    let folder: PathBuf = dir.path("pages");
    play(
        Profile::Generic,
        |plan| {
            plan.cache.dir = Some(folder);
            change(plan);
        },
        async |begun: Scene| {
            let ended = scene(begun).await;
            ended.thread.cache.disk().close();
        },
    );
}

/// Waits until all written pages are loaded.
async fn loaded(scene: &Scene) {
    while scene.thread.cache.disk().usage().loading {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A process that makes the page `/a` and stores it.
fn first(dir: &Dir) {
    process(
        dir,
        |_| (),
        async |scene| {
            answers(page(&[DAY, ("Millrace-Tag", "news")], "kept"));
            assert_eq!(scene.get("/a").await.text, "kept");
            scene
        },
    );
}

#[test]
fn a_page_is_there_after_a_restart() {
    let dir = Dir::new("outlive-page");
    first(&dir);
    process(
        &dir,
        |_| (),
        async |scene| {
            loaded(&scene).await;
            let answer = scene.get("/a").await;
            assert_eq!((runs(), &*answer.text), (0, "kept"));
            assert!(answer.cache().starts_with("millrace; hit; ttl="), "{}", answer.cache());
            scene
        },
    );
}

#[test]
fn not_if_its_site_is_another() {
    let dir = Dir::new("outlive-origin");
    first(&dir);
    process(
        &dir,
        |plan| plan.sites[0].root.push("elsewhere"),
        async |scene| {
            loaded(&scene).await;
            answers(page(&[DAY], "other"));
            assert_eq!((scene.get("/a").await.text, runs()), ("other".to_owned(), 1));
            scene
        },
    );
}

#[test]
fn not_after_a_process_without_a_cache() {
    let dir = Dir::new("outlive-off");
    first(&dir);
    // Changes at that time were not noted.
    process(&dir, |plan| plan.sites[0].cache.mode = plan::CacheMode::Off, async |scene| scene);
    process(
        &dir,
        |_| (),
        async |scene| {
            loaded(&scene).await;
            answers(page(&[DAY], "new"));
            assert_eq!((scene.get("/a").await.text, runs()), ("new".to_owned(), 1));
            scene
        },
    );
}

#[test]
fn purges_hold_for_what_is_still_to_be_read() {
    for how in [Hardness::Hard, Hardness::Soft] {
        let dir = Dir::new(&format!("outlive-purge-{how:?}"));
        first(&dir);
        process(
            &dir,
            |_| (),
            async |scene| {
                // Before or after the loader is done: it must not matter.
                scene.purge_everything(how);
                loaded(&scene).await;
                answers(page(&[DAY], "new"));
                let answer = scene.get("/a").await;
                assert_eq!((runs(), &*answer.text), (1, "new"), "{how:?}");
                scene
            },
        );
        process(
            &dir,
            |_| (),
            async |scene| {
                loaded(&scene).await;
                assert_eq!((scene.get("/a").await.text, runs()), ("new".to_owned(), 0));
                scene
            },
        );
    }
}

#[test]
fn a_validated_page_is_as_fresh_after_a_restart_as_before() {
    let dir = Dir::new("outlive-304");
    process(
        &dir,
        |_| (),
        async |scene| {
            let brief = ("Cache-Control", "public, max-age=1, must-revalidate");
            answers(page(&[brief, ("ETag", "\"one\"")], "kept"));
            scene.get("/a").await;
            tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
            answers(unchanged().with("ETag", "\"one\"").with("Cache-Control", "public, max-age=7200"));
            scene.get("/a").await;
            scene
        },
    );
    process(
        &dir,
        |_| (),
        async |scene| {
            loaded(&scene).await;
            let answer = scene.get("/a").await;
            assert_eq!((runs(), &*answer.text), (0, "kept"));
            assert!(answer.field("Cache-Control").contains("7200"), "{:?}", answer.fields);
            scene
        },
    );
}

#[test]
fn more_than_memory_may_hold_is_left_on_the_disk() {
    let dir = Dir::new("outlive-much");
    let body = "x".repeat(100_000);
    process(
        &dir,
        |_| (),
        async |scene| {
            for number in 0..100 {
                answers(page(&[DAY], &body));
                scene.get(&format!("/{number}")).await;
            }
            scene
        },
    );
    process(
        &dir,
        |plan| plan.cache.memory = 2 << 20,
        async |scene| {
            loaded(&scene).await;
            let usage = scene.thread.cache.usage();
            assert!((12..20).contains(&usage.pages) && usage.evicted == 0, "{usage:?}");
            // The newest pages are there.
            scene.get("/99").await;
            assert_eq!(runs(), 0);
            scene
        },
    );
}
