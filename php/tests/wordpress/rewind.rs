//! Rewound workers serve the pages that ordinary ones do.


use crate::driver::{Host, Worker};
use crate::site::{INI, PAGES, Site};

/// A site, and another host for it whose workers are rewound.
struct Both {
    site: Site,
    host: Host,
    worker: Worker,
}

impl Both {
    fn start() -> Both {
        let site = Site::start("");
        let mut host = Host::start(INI, &["--rewind"]);
        let worker = host.worker(0);
        Both { site, host, worker }
    }
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn pages_are_the_same() {
    let mut both = Both::start();
    for round in 0..12 {
        for uri in PAGES {
            let ask = both.site.ask_page(uri);
            let ordinary = both.site.worker.run(&ask);
            let rewound = both.worker.run(&ask);
            for line in &rewound.log {
                println!("{round} {uri}: {line}");
            }
            assert_eq!(plain(&rewound.text()), plain(&ordinary.text()), "{round} {uri}");
        }
    }
}

/// Without what WordPress draws by lot: the server of an avatar without an address.
fn plain(text: &str) -> String {
    text.replace("1.gravatar", "0.gravatar").replace("2.gravatar", "0.gravatar")
}

/// CPU of a process so far, nanoseconds.
fn cpu(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn pages_cost_less() {
    let mut both = Both::start();
    for uri in ["/", "/a/"] {
        let ask = both.site.ask_page(uri);
        let mut costs = [Vec::new(), Vec::new()];
        for round in 0..6 {
            for (kind, worker) in [&mut both.site.worker, &mut both.worker].into_iter().enumerate() {
                let before = cpu(worker.pid);
                for _ in 0..25 {
                    for line in worker.run(&ask).log {
                        println!("{line}");
                    }
                }
                if round > 1 {
                    costs[kind].push((cpu(worker.pid) - before) / 25_000);
                }
            }
        }
        for cost in &mut costs {
            cost.sort_unstable();
        }
        println!("{uri}: ordinary {} us, rewound {} us of CPU", costs[0][2], costs[1][2]);
    }
}
