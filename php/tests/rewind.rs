//! Rewound workers: a script boots once, and each request begins at the point behind the boot. Each test sends the code that
//! runs after the point.

mod driver;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use driver::{Answer, Ask, Host, PATIENCE, Worker};

const INI: &str = "zend_extension=opcache\nopcache.file_update_protection=0\nvariables_order=GPCS\nrequest_order=GP\n";

/// What a site's front controller is: a boot, the point, a request. The boot leaves the time when it was.
const SITE: &str = "<?php
    class Counter { public static $of_class = 0; public $list = []; }
    function counted() { static $calls = 0; return ++$calls; }
    $counter = new Counter;
    $boot = hrtime(true);
    $rewound = millrace_rewind_point();
    header('X-Boot: ' . $boot);
    header('X-Rewound: ' . (int) $rewound);
    eval($_SERVER['X_CODE']);";

/// A worker, and what it needs.
struct Stage {
    worker: Worker,
    host: Host,
    script: PathBuf,
}

impl Stage {
    fn new() -> Stage {
        Stage::with("", SITE)
    }

    fn with(ini: &str, site: &str) -> Stage {
        let mut host = Host::start(&format!("{INI}{ini}"), &["--rewind"]);
        let script = host.script("index.php", site);
        let worker = host.worker(0);
        Stage { worker, host, script }
    }

    fn ask(&self, code: &str) -> Ask {
        Ask::get(&self.script).set("X_CODE", code)
    }

    fn run(&mut self, code: &str) -> Answer {
        let ask = self.ask(code);
        self.worker.run(&ask)
    }

    /// The answer to a request that began at the point, at the same as the one before it: others are sent until it is so.
    fn rewound(&mut self, code: &str) -> Answer {
        let ask = self.ask(code);
        self.rewound_as(&ask)
    }

    fn rewound_as(&mut self, ask: &Ask) -> Answer {
        let begin = Instant::now();
        let empty = ask.clone().set("X_CODE", "");
        while begin.elapsed() < PATIENCE {
            let before = self.worker.run(&empty);
            let answer = self.worker.run(ask);
            if answer.values("X-Rewound") == ["1"] && answer.values("X-Boot") == before.values("X-Boot") {
                return answer;
            }
        }
        panic!("no request begins at the point: {:?}", self.run(""));
    }
}

#[test]
fn requests_begin_where_the_boot_has_ended() {
    let mut stage = Stage::new();
    let code = "echo Counter::$of_class++, counted(), count($counter->list), $_GET['n'] ?? '-';
        $counter->list[] = 1; define('HERE', 1); $GLOBALS['leak'] = 1; function later() {} ";
    let mut boots = std::collections::BTreeSet::new();
    let mut rewound = 0;
    for n in 0..200 {
        let ask = stage.ask(code).set("QUERY_STRING", &format!("n={n}"));
        let answer = stage.worker.run(&ask);
        assert_eq!(answer.text(), format!("010{n}"), "{answer:?}");
        rewound += u32::from(answer.values("X-Rewound") == ["1"]);
        boots.insert(answer.values("X-Boot")[0].to_owned());
    }
    assert!(rewound >= 100, "{rewound} requests began at the point");
    assert!(boots.len() < 100, "{} boots", boots.len());
}
