//! CPU time of a worker for `echo 'Hello World'`, transport included: `cargo bench -p millrace-php [-- REQUESTS]`.
//!
//! The driver of the tests plays the server on another core. The worker's time is utime and stime of /proc/PID/stat.

#[path = "../tests/driver/mod.rs"]
mod driver;

use driver::{Ask, Host};

fn main() {
    let requests: u64 = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(200_000);
    let mut host = Host::with_distribution(&["-d", "opcache.file_update_protection=0"]);
    println!("PHP {}, opcache {}", host.says("php_version").unwrap(), host.says("opcache").unwrap());
    let hello = host.script("hello.php", "<?php echo \"Hello World\";");
    let server = host.script("server.php", "<?php echo count($_SERVER) > 20 ? 'many' : 'few';");
    let mut worker = host.worker(0);
    for (name, script) in [("hello", &hello), ("$_SERVER", &server)] {
        let mut ask = Ask::get(script);
        for (name, value) in [
            ("HTTP_USER_AGENT", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
            ("HTTP_ACCEPT", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
            ("HTTP_ACCEPT_LANGUAGE", "de,en-US;q=0.7,en;q=0.3"),
            ("HTTP_ACCEPT_ENCODING", "gzip, deflate, br, zstd"),
            ("HTTP_COOKIE", "a=1; b=2"),
            ("REMOTE_PORT", "54321"),
            ("SERVER_ADDR", "192.0.2.2"),
            ("SERVER_PORT", "80"),
            ("REQUEST_SCHEME", "http"),
            ("REDIRECT_STATUS", "200"),
            ("CONTENT_TYPE", ""),
            ("CONTENT_LENGTH", ""),
        ] {
            ask = ask.set(name, value);
        }
        for _ in 0..1000 {
            assert_eq!(worker.run(&ask).status, 200);
        }
        let before = cpu_us(worker.pid);
        for _ in 0..requests {
            worker.run(&ask);
        }
        let spent = cpu_us(worker.pid) - before;
        println!("{name}: {:.2} us of CPU a request in the worker", spent as f64 / requests as f64);
    }
}

/// utime and stime of a process, microseconds; the clock of /proc ticks 100 times a second.
fn cpu_us(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = text.rsplit_once(") ").unwrap().1.split(' ').collect();
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * 10_000
}
