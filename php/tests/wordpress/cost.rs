//! What the hooks cost a page. Needs the program `perf`: time is too uneven for a part in two hundred, instructions are not.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::driver::Ask;
use crate::site::Site;

const REQUESTS: u32 = 100;
/// Instructions: 0.2 ms on a machine that takes 25 to 30 ms for such a page.
const MOST: f64 = 1.6e6;

#[test]
#[ignore = "needs a WordPress: tests/hooks/run; and perf"]
fn hooks_cost_little() {
    let mut site = Site::start("");
    site.change("for ($i = 0; $i < 20; $i++) wp_insert_post(['post_title' => \"p $i\", 'post_status' => 'publish', 'tags_input' => [\"t$i\"]])");
    for uri in ["/", "/a/"] {
        let with = site.ask_page(uri);
        let mut without = with.clone();
        without.variables.retain(|(name, _)| name != "MILLRACE_INJECT");
        for _ in 0..10 {
            site.worker.run(&with);
            site.worker.run(&without);
        }
        let (bare, time) = instructions(&mut site, &without);
        let (all, _) = instructions(&mut site, &with);
        let cost = all - bare;
        let ms = cost / bare * time;
        println!(
            "{uri}: {ms:.3} ms of {time:.1} ms ({:.0} of {:.0} thousand instructions)",
            cost / 1e3,
            all / 1e3
        );
        assert!(cost < MOST, "{uri}: the hooks cost {cost} instructions");
    }
    let script = site.host.script(
        "cached.php",
        "<?php $cached = preg_grep('#/inject/wordpress#', array_keys(opcache_get_status()['scripts'])); sort($cached); echo implode(' ', $cached);",
    );
    let cached = site.worker.run(&Ask::get(&script)).text();
    let inject = Path::new(env!("CARGO_MANIFEST_DIR")).join("inject");
    // All but rewind.php, which only rewound workers load.
    let files = std::fs::read_dir(inject.join("wordpress")).unwrap().count();
    assert_eq!(cached.split(' ').count(), files, "opcache holds: {cached}");
}

/// Instructions and milliseconds of one request, on average.
fn instructions(site: &mut Site, ask: &Ask) -> (f64, f64) {
    let file = site.host.root.join("perf");
    let mut perf = Command::new("perf")
        .args(["stat", "-x,", "-e", "instructions:u,task-clock", "-p", &site.worker.pid.to_string(), "-o"])
        .arg(&file)
        .spawn()
        .expect("perf is not installed");
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..REQUESTS {
        site.worker.run(ask);
    }
    kill_process(Pid::from_child(&perf), Signal::INT).unwrap();
    perf.wait().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let value = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{text}"));
        line.split(',').next().unwrap().parse::<f64>().unwrap() / f64::from(REQUESTS)
    };
    (value("instructions"), value("task-clock"))
}
