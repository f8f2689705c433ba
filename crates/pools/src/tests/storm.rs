//! Everything at once: two event loops, responses of all kinds, clients that leave, workers and hosts that are killed.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::*;
use millrace_sys::Process as Victim;

/// Scripts, and whether each can end well.
const KINDS: [(&str, bool); 8] = [
    (HELLO, true),
    ("sleep:3;head:200;pid;end", true),
    ("head:200;flush;fill:100000;flush;sleep:2;fill:400000;end", true),
    ("head:200;body:x;end:background;flush;sleep:5;ready", true),
    ("head:200;body:x;end:exiting", true),
    ("head:200;body:x;torn;end", true),
    ("die", false),
    ("head:200;body:x;flush;sleep:1;die", false),
];

/// A pseudo-random number from a seed.
fn scatter(number: u64) -> u64 {
    let mixed = (number ^ (number >> 15)).wrapping_mul(0x2545_f491_4f6c_dd1d);
    mixed ^ (mixed >> 29)
}

async fn ask_many(scene: Scene, seed: u64) {
    for round in 0..40 {
        let dice = scatter(seed * 1000 + round);
        let (script, good) = KINDS[(dice % KINDS.len() as u64) as usize];
        let patience = if dice.is_multiple_of(11) { dice % 7 } else { 90_000 };
        let method = ["POST", "GET", "PUT", "GET"][dice as usize / 8 % 4];
        let asked = async { read(scene.ask(method, script, Content::Empty).await).await };
        match tokio::time::timeout(Duration::from_millis(patience), asked).await {
            // Killed from outside: 502 or a broken end, whatever the script.
            Ok(answer) => {
                // Refused: a pool whose visitors wait too long, which happens if the machine is too busy.
                assert!(matches!(answer.status, 200 | 502 | 503), "{script}: {answer:?}");
                let whole = answer.status == 200 && !matches!(answer.end, Some(Err(_)));
                assert!(good || !whole, "{script} came to a good end: {answer:?}");
            }
            Err(_) => assert!(patience < 100, "{script} hangs"),
        }
    }
}

#[test]
fn the_pool_survives() {
    survives(&Rig::new(|php| (php.workers, php.workers_start, php.workers_spare) = (4, 4, 4)), false);
}

/// With pools, and a number of workers that changes all the time.
#[test]
fn the_pools_survive() {
    survives(&pools::rig(|_| ()), true);
}

/// The same if workers with a raised nice value can't be used by some pools.
#[test]
fn the_pools_survive_without_the_right_to_hurry() {
    let rig = pools::rig(|_| ());
    rig.pool().shared().forbid_lowering();
    survives(&rig, true);
}

fn survives(rig: &Rig, changes: bool) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for index in 0..2 {
            scope.spawn(move || {
                rig.on_thread(index, async |scene| {
                    let tasks: Vec<_> = (0..4)
                        .map(|task| {
                            let seed = (index * 4 + task + 1) as u64;
                            tokio::task::spawn_local(ask_many(scene.clone(), seed))
                        })
                        .collect();
                    for task in tasks {
                        task.await.unwrap();
                    }
                });
            });
        }
        scope.spawn(|| {
            let began = Instant::now();
            let mut number = 1;
            while began.elapsed() < Duration::from_secs(2) {
                std::thread::sleep(Duration::from_millis(40));
                number = scatter(number + 1);
                if changes {
                    rig.pool().shared().lock().pools.set_most(1 + number as usize % 6);
                }
                let pids = rig.pool().pids();
                let victim = pids.get(number as usize % pids.len().max(1)).and_then(|pid| Victim::open(*pid));
                // It may have ended by itself.
                let _ = victim.map(|victim| victim.kill());
            }
            rig.pool().shared().lock().pools.set_most(4);
            over.store(true, Ordering::Relaxed);
        });
    });
    assert!(over.load(Ordering::Relaxed));
    rig.play(async |scene| {
        // After changes, the number of workers may be lower; it grows again on demand.
        let whole = if changes { 1 } else { 4 };
        let quiet = |pool: &PhpStatus| pool.idle >= whole && pool.running + pool.waiting + pool.exiting == 0;
        scene.until(20.0, "whole again", quiet).await;
        assert!(scene.status().pools.iter().all(|pool| pool.running == 0), "{:?}", scene.status().pools);
        for method in ["GET", "POST", "PUT"] {
            assert_eq!(read(scene.ask(method, HELLO, Content::Empty).await).await.text, "hello");
        }
    });
}
