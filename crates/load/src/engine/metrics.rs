//! Metrics of a Millrace server: `GET /metrics` of its admin address, the figures of `millrace status`.

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use millrace_wire::response::Collector;

use crate::record::MillraceSample;

/// How long metrics are waited for: a second must not become longer by it.
const PATIENCE: Duration = Duration::from_millis(300);
/// Bytes of metrics that are read.
const MOST_BYTES: u64 = 4 << 20;

/// A server's metrics, second by second.
#[derive(Debug)]
pub struct Metrics {
    address: String,
    last: Option<Totals>,
}

/// A server's counters since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Totals {
    php_requests: f64,
    hits: f64,
    misses: f64,
    refused: f64,
}

impl Metrics {
    /// The metrics at this address: `127.0.0.1:9100` or `unix:/PATH`.
    pub fn at(address: &str) -> Metrics {
        let mut metrics = Metrics { address: address.to_owned(), last: None };
        metrics.sample();
        metrics
    }

    /// The metrics of these processes, if they are a Millrace: at one of their listening Unix sockets.
    pub fn of(pids: &[u32]) -> Option<Metrics> {
        let is_millrace = |pid: &&u32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "millrace")
        };
        let pid = pids.iter().find(is_millrace)?;
        let found = listening_paths(*pid).into_iter().map(|path| Metrics::at(&format!("unix:{path}")));
        found.into_iter().find(|metrics| metrics.last.is_some())
    }

    /// The address of the metrics.
    pub fn into_address(self) -> String {
        self.address
    }

    /// The current state, and the events since the last call; `None`: the server doesn't respond.
    pub fn sample(&mut self) -> Option<MillraceSample> {
        let text = ask(&self.address)?;
        if !text.contains("millrace_build_info") {
            return None;
        }
        let (mut own, totals) = read(&text);
        let last = self.last.replace(totals).unwrap_or(totals);
        let since = |now: f64, before: f64| (now - before).max(0.0) as u64;
        own.php_requests = since(totals.php_requests, last.php_requests);
        own.cache_hits = since(totals.hits, last.hits);
        own.cache_misses = since(totals.misses, last.misses);
        own.refused = since(totals.refused, last.refused);
        Some(own)
    }
}

/// Gauges, and totals, out of the text of metrics; pools are added up.
fn read(text: &str) -> (MillraceSample, Totals) {
    let (mut own, mut totals) = (MillraceSample::default(), Totals::default());
    for line in text.lines().filter(|line| line.starts_with("millrace_")) {
        let Some((name, value)) = line.rsplit_once(' ') else { continue };
        let Ok(value) = value.parse::<f64>() else { continue };
        let (name, labels) = name.split_once('{').unwrap_or((name, ""));
        let gauge = value.max(0.0) as u64;
        match name.trim_start_matches("millrace_") {
            "connections_idle" | "connections_reading" | "connections_running" | "connections_writing" => {
                own.connections += gauge;
            }
            "php_workers" if labels.contains("state=\"running\"") => own.php_running += gauge,
            "php_workers_most" => own.php_limit += gauge,
            "php_waiting" => own.php_waiting += gauge,
            "php_requests_total" => totals.php_requests += value,
            "cache_hits_total" | "cache_stale_total" => totals.hits += value,
            "cache_misses_total" | "cache_collapsed_total" => totals.misses += value,
            "connections_refused_total"
            | "php_queue_full_total"
            | "php_queue_timeouts_total"
            | "php_overload_refused_total" => totals.refused += value,
            _ => {}
        }
    }
    (own, totals)
}

/// The Unix sockets that a process listens on, by their paths.
fn listening_paths(pid: u32) -> Vec<String> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let own: HashSet<String> = descriptors
        .filter_map(|descriptor| Some(fs::read_link(descriptor.path()).ok()?.to_string_lossy().into_owned()))
        .collect();
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let path_of = |line: &str| {
        let columns: Vec<_> = line.split_whitespace().collect();
        // Number, references, protocol, flags (here: listens), type, state, inode, path.
        let [_, _, _, "00010000", _, _, inode, path] = columns.as_slice() else { return None };
        (path.starts_with('/') && own.contains(&format!("socket:[{inode}]"))).then(|| (*path).to_owned())
    };
    table.lines().filter_map(path_of).collect()
}

fn ask(address: &str) -> Option<String> {
    match address.strip_prefix("unix:") {
        Some(path) => {
            let stream = UnixStream::connect(path).ok()?;
            stream.set_read_timeout(Some(PATIENCE)).ok()?;
            stream.set_write_timeout(Some(PATIENCE)).ok()?;
            exchange(stream)
        }
        None => {
            let stream = TcpStream::connect_timeout(&address.parse().ok()?, PATIENCE).ok()?;
            stream.set_read_timeout(Some(PATIENCE)).ok()?;
            stream.set_write_timeout(Some(PATIENCE)).ok()?;
            exchange(stream)
        }
    }
}

fn exchange(mut stream: impl Read + Write) -> Option<String> {
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: millrace\r\n\r\n").ok()?;
    let mut bytes = Vec::new();
    stream.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    let mut collector = Collector::new(false, bytes.len());
    let response = match collector.feed(&bytes).ok()? {
        Some(response) => response,
        None => collector.end().ok()?,
    };
    (response.status == 200).then(|| response.text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn metrics(hits: u32) -> String {
        format!(
            "# HELP millrace_x a sentence\nmillrace_build_info{{version=\"1\"}} 1\nmillrace_connections_idle 3\n\
             millrace_connections_running 2\nmillrace_php_workers{{site=\"a\",state=\"running\"}} 4\n\
             millrace_php_workers{{site=\"a\",state=\"idle\"}} 9\nmillrace_php_workers_most{{site=\"a\"}} 8\n\
             millrace_php_workers_most{{site=\"b\"}} 8\nmillrace_php_waiting{{site=\"a\"}} 5\n\
             millrace_cache_hits_total {hits}\nmillrace_cache_stale_total 1\nmillrace_cache_misses_total 2\n"
        )
    }

    #[test]
    fn gauges_are_as_they_are_and_totals_since_the_last_time() {
        let folder = std::env::temp_dir().join(format!("millrace-load-metrics-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("admin.sock");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(listening_paths(std::process::id()).contains(&path.to_string_lossy().into_owned()));
        let serve = std::thread::spawn(move || {
            for hits in [10, 17] {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 1024]).unwrap();
                write!(stream, "HTTP/1.0 200 OK\r\n\r\n{}", metrics(hits)).unwrap();
            }
        });
        let mut metrics = Metrics::at(&format!("unix:{}", path.display()));
        let own = metrics.sample().unwrap();
        assert_eq!((own.connections, own.php_running, own.php_limit, own.php_waiting), (5, 4, 16, 5));
        assert_eq!((own.cache_hits, own.cache_misses), (7, 0));
        serve.join().unwrap();
        assert_eq!(metrics.sample(), None, "nobody is there any more");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
