//! The status: gathered once, shown as text or as JSON.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millrace_settings::plan::{self, Address, CacheMode};
use serde_json::{Value, json};

use super::connections::Connections;
use super::history::History;
use super::machine::Machine;
use super::objects::{self, SiteObjects};
use super::pages::CacheFigures;
use super::php;
use super::sites::{self, SiteTraffic};
use super::{AdminState, VERSION, certificates, shield, uploads};
use super::{applications, backends};
use crate::acme::Standing;
use crate::htaccess::UnappliedLines;
use crate::serve::{ApplicationStatus, Setup, ShieldStatus};
use millrace_base::context::log::FatalError;
use millrace_base::context::stats::{ALL, Counter, PhpStatus, Registry, ResponseClass, Summary, TABLE};
use millrace_base::context::{HungLoop, ProcessStage};
use millrace_base::message::request::Upload;

/// Lines of `.htaccess` files that the status names.
const HTACCESS_LINES: usize = 10;

/// Requests and bytes of the last minute.
#[derive(Debug, Default)]
pub struct Rates {
    notes: VecDeque<TrafficNote>,
}

#[derive(Clone, Copy, Debug)]
struct TrafficNote {
    at: Instant,
    requests: u64,
    sent: u64,
    accepted: u64,
}

/// Rates per second over the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct TrafficRate {
    requests: f64,
    bytes: f64,
    accepted: f64,
}

impl Rates {
    /// Records the current counters.
    pub fn note(&mut self, now: Instant, stats: &Registry) {
        let (requests, sent) = (stats.value(Counter::Requests), stats.value(Counter::BytesSent));
        let accepted = stats.value(Counter::ConnectionsAccepted);
        self.notes.push_back(TrafficNote { at: now, requests, sent, accepted });
        while self.notes.front().is_some_and(|n| now - n.at > Duration::from_secs(60)) {
            self.notes.pop_front();
        }
    }

    /// Rates per second since the oldest note, which is at most a minute old.
    fn lately(&self, now: Instant, stats: &Registry) -> TrafficRate {
        let Some(oldest) = self.notes.front() else { return TrafficRate::default() };
        let seconds = (now - oldest.at).as_secs_f64();
        let rate = |counter, then: u64| per_second(stats.value(counter).saturating_sub(then), seconds);
        TrafficRate {
            requests: rate(Counter::Requests, oldest.requests),
            bytes: rate(Counter::BytesSent, oldest.sent),
            accepted: rate(Counter::ConnectionsAccepted, oldest.accepted),
        }
    }
}

/// A snapshot of the server.
pub struct Status {
    counters: Vec<u64>,
    started: SystemTime,
    uptime: Duration,
    stage: ProcessStage,
    reloading: Option<String>,
    hung: Vec<HungLoop>,
    machine: Machine,
    connections: Connections,
    lately: TrafficRate,
    answers: [Summary; ResponseClass::ALL.len()],
    first_bytes: [Summary; ResponseClass::ALL.len()],
    pages: CacheFigures,
    objects: Vec<SiteObjects>,
    pools: Vec<PhpStatus>,
    applications: Vec<ApplicationStatus>,
    /// In the plan's order.
    sites: Vec<SiteTraffic>,
    setup: Arc<Setup>,
    uploads: Vec<Arc<Upload>>,
    htaccess: UnappliedLines,
    certificates: Vec<Standing>,
    shield: ShieldStatus,
    fatal: Option<FatalError>,
}

/// Collects the status.
pub fn gather(state: &AdminState, rates: &Rates, history: &History) -> Status {
    let stats = &state.service.process.stats;
    let setup = state.service.setup();
    let server = &setup.plan.server;
    let how = (!server.connection_memory_is_written).then(|| server.memory_shares.to_string());
    Status {
        connections: Connections::gather(&|counter| stats.value(counter), &state.service.process.budget, how),
        counters: ALL.iter().map(|&counter| stats.value(counter)).collect(),
        started: state.started,
        uptime: state.started.elapsed().unwrap_or_default(),
        stage: state.service.process.stage(),
        reloading: state.service.process.reloading(),
        hung: state.service.process.pulses.hung(),
        machine: Machine::read(),
        lately: rates.lately(Instant::now(), stats),
        answers: ResponseClass::ALL.map(|class| stats.answer(class)),
        first_bytes: ResponseClass::ALL.map(|class| stats.first_byte(class)),
        pages: CacheFigures::gather(&state.service, Instant::now()),
        objects: objects::gather(&setup.plan, &state.objects),
        pools: (state.pools)(),
        applications: state.service.applications.status(&setup.plan),
        sites: sites::gather(&setup, stats, history),
        setup,
        uploads: state.service.uploads.running(),
        htaccess: state.service.unapplied_lines(HTACCESS_LINES),
        certificates: (state.certificates)(),
        shield: state.service.shield.status(),
        fatal: state.service.process.log.last_fatal(),
    }
}

fn hung_json(hung: &HungLoop) -> Value {
    json!({ "name": hung.name, "seconds": hung.seconds, "doing": hung.doing })
}

impl Status {
    /// The status as JSON. Members are only ever added.
    pub fn json(&self) -> Value {
        let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let requests = self.value(Counter::Requests);
        json!({
            "version": VERSION,
            "pid": std::process::id(),
            "stage": self.stage_name(),
            "reloading": self.reloading,
            "php_last_fatal": self.fatal.as_ref().map(|fatal| json!({ "at": since(fatal.at), "text": fatal.text })),
            "started": since(self.started),
            "uptime_seconds": self.uptime.as_secs_f64(),
            "hung_loops": self.hung.iter().map(hung_json).collect::<Value>(),
            "threads": self.setup.plan.server.threads,
            "listen": self.setup.plan.server.listen.iter().map(shown).collect::<Value>(),
            "listen_https": self.setup.plan.https.listen.iter().map(shown).collect::<Value>(),
            "connections_open": self.connections.open(),
            "connections": self.connections.states_json(),
            "connection_memory": self.connections.memory_json(),
            "listen_queues": self.connections.queues_json(&self.machine),
            "connections_accepted_per_second": self.lately.accepted,
            "listen_overflows": self.machine.listen_overflows,
            "requests_per_second": self.lately.requests,
            "requests_per_second_since_start": per_second(requests, self.uptime.as_secs_f64()),
            "sent_bytes_per_second": self.lately.bytes,
            "counters": self.counters_json(),
            "latency": self.latency_json(),
            "uploads": uploads::json(&self.uploads, Instant::now()),
            "memory_bytes": self.machine.memory,
            "cpu_seconds": self.machine.cpu.as_secs_f64(),
            "open_descriptors": self.machine.descriptors,
            "descriptor_limit": self.machine.descriptor_limit,
            "cache": self.pages.json(&|counter| self.value(counter)),
            "visitors": self.pages.visitors_json(),
            "object_cache": objects::json(&self.objects),
            "php": self.pools.iter().map(php::json).collect::<Value>(),
            "htaccess": {
                "files": self.htaccess.files,
                "ignored": self.htaccess.ignored,
                "closing": self.htaccess.closing,
                "lines": self.htaccess.lines,
            },
            "applications": self.applications.iter().map(applications::json).collect::<Value>(),
            "certificates": certificates::json(&self.certificates),
            "shield": shield::json(&self.shield, &self.setup.plan.shield, &|counter| self.value(counter)),
            "sites": self.sites_json(),
        })
    }

    fn sites_json(&self) -> Value {
        let services = self.setup.service_names();
        let sites = self.setup.workers.iter().zip(&self.sites).zip(services);
        let mut all = Vec::new();
        for ((workers, traffic), service) in sites {
            let site = &workers.site;
            let content = &site.content;
            let content = json!({
                "limit_bytes": site.plan.body_bytes,
                "refused": content.refused(),
                "largest_refused_bytes": content.largest_refused(),
                "largest_php_bytes": content.largest(),
            });
            all.push(site_json(&site.plan, content, service, traffic));
        }
        Value::Array(all)
    }

    /// The status as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to memory can't fail.
        let _ = self.write_head(&mut text);
        let _ = self.write_traffic(&mut text);
        let _ =
            shield::write(&mut text, &self.shield, &self.setup.plan.shield, &|counter| self.value(counter));
        let _ = uploads::write(&mut text, &self.uploads, Instant::now());
        let _ = self.write_answers(&mut text);
        let _ = applications::write(&mut text, &self.applications);
        if self.setup.sites.iter().any(|site| site.cache.is_some()) {
            let _ = self.pages.write(&mut text, &|counter| self.value(counter));
        }
        let _ = self.write_php(&mut text);
        let _ = objects::write(&mut text, &self.objects);
        let _ = self.write_htaccess(&mut text);
        let _ = certificates::write(&mut text, &self.certificates, SystemTime::now());
        let _ = self.write_sites(&mut text);
        text
    }

    fn value(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    fn stage_name(&self) -> &'static str {
        match self.stage {
            ProcessStage::Running => "running",
            ProcessStage::Draining => "draining",
        }
    }

    fn counters_json(&self) -> Value {
        TABLE.iter().zip(&self.counters).map(|(row, &value)| (row.name, value)).collect()
    }

    fn latency_json(&self) -> Value {
        let class = |class: ResponseClass| {
            let (first, whole) = (&self.first_bytes[class as usize], &self.answers[class as usize]);
            (class.name(), json!({ "first_byte": summary_json(first), "answer": summary_json(whole) }))
        };
        ResponseClass::ALL.into_iter().map(class).collect()
    }

    fn write_head(&self, text: &mut String) -> std::fmt::Result {
        let plan = &self.setup.plan;
        let draining = if self.stage == ProcessStage::Draining {
            ", shutting down: waiting for running requests"
        } else {
            ""
        };
        writeln!(
            text,
            "Millrace {VERSION}, process {}, up {}, {} event loops{draining}",
            std::process::id(),
            duration(self.uptime),
            plan.server.threads
        )?;
        if let Some(what) = &self.reloading {
            writeln!(text, "{:<14}{what}", "Reloading")?;
        }
        for hung in &self.hung {
            writeln!(text, "{:<14}{}", "STUCK", hung.text())?;
        }
        let secure = plan.https.listen.iter().map(|address| format!("{} (HTTPS)", shown(address)));
        let listen: Vec<String> = plan.server.listen.iter().map(shown).chain(secure).collect();
        writeln!(text, "{:<14}{}", "Listening", listen.join(", "))?;
        writeln!(
            text,
            "{:<14}{} memory, {} s CPU time, {} of {} file descriptors\n",
            "Process",
            bytes(self.machine.memory),
            self.machine.cpu.as_secs(),
            grouped(self.machine.descriptors),
            grouped(self.machine.descriptor_limit)
        )
    }

    fn write_traffic(&self, text: &mut String) -> std::fmt::Result {
        let of = |counter| grouped(self.value(counter));
        self.connections.write(text, &self.machine, self.lately.accepted)?;
        let since_start = per_second(self.value(Counter::Requests), self.uptime.as_secs_f64());
        writeln!(
            text,
            "{:<14}{}; {:.1}/s in the last minute, {since_start:.1}/s since start; {} malformed",
            "Requests",
            of(Counter::Requests),
            self.lately.requests,
            of(Counter::RequestsMalformed)
        )?;
        writeln!(
            text,
            "{:<14}2xx {}, 3xx {}, 4xx {}, 5xx {}",
            "Responses",
            of(Counter::Replies2xx),
            of(Counter::Replies3xx),
            of(Counter::Replies4xx),
            of(Counter::Replies5xx)
        )?;
        writeln!(
            text,
            "{:<14}{} received, {} sent; {}/s in the last minute",
            "Bytes",
            bytes(self.value(Counter::BytesReceived)),
            bytes(self.value(Counter::BytesSent)),
            bytes(self.lately.bytes as u64)
        )?;
        let (hits, misses) = (self.value(Counter::FileHits), self.value(Counter::FileMisses));
        writeln!(
            text,
            "{:<14}{} files, {}; hits: {}",
            "File cache",
            of(Counter::FileEntries),
            bytes(self.value(Counter::FileBytes)),
            share(hits, hits + misses)
        )?;
        match self.value(Counter::LogDropped) {
            0 => Ok(()),
            lost => writeln!(text, "{:<14}{} lines dropped: see the error log", "Access log", grouped(lost)),
        }
    }

    fn write_answers(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "\n{:<14}{:>12}{:>12}{:>12}{:>12}{:>12}",
            "Response time", "responses", "mean", "50 % under", "90 % under", "99 % under"
        )?;
        for class in ResponseClass::ALL {
            let summary = &self.answers[class as usize];
            let under = |share| match summary.quantile(share) {
                Some(time) => short(time),
                None if summary.count() == 0 => "-".to_owned(),
                None => "over".to_owned(),
            };
            writeln!(
                text,
                "  {:<12}{:>12}{:>12}{:>12}{:>12}{:>12}",
                class.name(),
                grouped(summary.count()),
                mean(summary).map_or("-".to_owned(), short),
                under(0.5),
                under(0.9),
                under(0.99)
            )?;
        }
        Ok(())
    }

    fn write_php(&self, text: &mut String) -> std::fmt::Result {
        let of = |counter| grouped(self.value(counter));
        writeln!(
            text,
            "\n{:<14}{} requests, {} failed, {} lost their worker, {} retried, {} timed out; refused: {} queue full, \
             {} waited too long",
            "PHP",
            of(Counter::PhpRequests),
            of(Counter::PhpFailures),
            of(Counter::PhpLost),
            of(Counter::PhpRetried),
            of(Counter::PhpTimeouts),
            of(Counter::PhpQueueFull),
            of(Counter::PhpQueueTimeouts)
        )?;
        php::busiest_first(&self.pools).into_iter().try_for_each(|pool| match pool.backends.len() {
            0 => php::write(text, pool),
            _ => backends::write(text, pool),
        })
    }

    /// Nothing, if no request has used an `.htaccess` file.
    fn write_htaccess(&self, text: &mut String) -> std::fmt::Result {
        let UnappliedLines { files, ignored, closing, lines } = &self.htaccess;
        if *files == 0 {
            return Ok(());
        }
        writeln!(
            text,
            "\n{:<14}{files} in use; lines that are ignored {ignored}, that close what they cover or leave a firewall off {closing}",
            ".htaccess"
        )?;
        lines.iter().try_for_each(|line| writeln!(text, "  {line}"))
    }

    fn write_sites(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "\nSites")?;
        for site in &self.setup.plan.sites {
            let names = if site.names.is_empty() { "(any name)".to_owned() } else { site.names.join(", ") };
            writeln!(
                text,
                "  {names}{}  {}  {}{}{}",
                if site.default && !site.names.is_empty() { " (default)" } else { "" },
                site.root.display(),
                site.profile.word(),
                if site.php.is_some() { "" } else { ", without PHP" },
                match (site.php.is_some(), site.cache.mode) {
                    (false, _) | (true, CacheMode::Profile) => "",
                    (true, CacheMode::Standard) => ", page cache by standard header fields only",
                    (true, CacheMode::Off) => ", page cache off",
                }
            )?;
        }
        Ok(())
    }
}

fn summary_json(summary: &Summary) -> Value {
    let seconds = |time: Option<Duration>| time.map(|t| t.as_secs_f64());
    json!({
        "count": summary.count(),
        "mean_seconds": seconds(mean(summary)),
        "p50_seconds": seconds(summary.quantile(0.5)),
        "p90_seconds": seconds(summary.quantile(0.9)),
        "p99_seconds": seconds(summary.quantile(0.99)),
    })
}

fn site_json(plan: &plan::Site, content: Value, service: Option<String>, traffic: &SiteTraffic) -> Value {
    json!({
        "names": plan.names,
        "default": plan.default,
        "root": plan.root.display().to_string(),
        "profile": plan.profile.word(),
        "php": plan.php.is_some(),
        "php_service": service,
        "cache": cache_mode(plan),
        "content": content,
        "traffic": sites::json(traffic),
    })
}

fn cache_mode(site: &plan::Site) -> &'static str {
    match site.cache.mode {
        _ if site.php.is_none() => "off",
        CacheMode::Off => "off",
        CacheMode::Standard => "standard",
        CacheMode::Profile => "profile",
    }
}

fn shown(address: &Address) -> String {
    match address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => format!("unix:{}", path.display()),
    }
}

fn mean(summary: &Summary) -> Option<Duration> {
    summary.sum.checked_div(summary.count()).map(Duration::from_micros)
}

fn per_second(amount: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount as f64 / seconds } else { 0.0 }
}

pub(super) fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "none".to_owned() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}

/// `1234567` as `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = number as f64;
    let mut unit = "bytes";
    for next in UNITS {
        if value < 1_024.0 {
            break;
        }
        value /= 1_024.0;
        unit = next;
    }
    if unit == "bytes" { format!("{number} bytes") } else { format!("{value:.1} {unit}") }
}

/// The two largest units of a long time.
pub(super) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A short time in the unit that fits.
pub(super) fn short(time: Duration) -> String {
    match time.as_micros() {
        0..1_000 => format!("{} us", time.as_micros()),
        1_000..1_000_000 => format!("{:.1} ms", time.as_secs_f64() * 1_000.0),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_for_people() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1_023, 1_024, 1_572_864].map(bytes), ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 MiB"]);
        let times = [5, 65, 7_265, 180_000].map(|s| duration(Duration::from_secs(s)));
        assert_eq!(times, ["5 s", "1 min 5 s", "2 h 1 min", "2 d 2 h"]);
        let times = [100, 2_500, 30_000_000].map(|us| short(Duration::from_micros(us)));
        assert_eq!(times, ["100 us", "2.5 ms", "30.0 s"]);
        assert_eq!((share(0, 0), share(1, 3)), ("none".to_owned(), "33.3 %".to_owned()));
    }

    #[test]
    fn rates_look_back_a_minute() {
        let stats = Registry::new(1);
        let slot = stats.slot(0);
        let start = Instant::now();
        let mut rates = Rates::default();
        assert_eq!(rates.lately(start, &stats), TrafficRate::default());
        slot.add(Counter::Requests, 1_000_000);
        for second in (0..=120).step_by(5) {
            rates.note(start + Duration::from_secs(second), &stats);
            slot.add(Counter::Requests, 50);
            slot.add(Counter::ConnectionsAccepted, 5);
        }
        let lately = rates.lately(start + Duration::from_secs(125), &stats);
        assert_eq!(lately, TrafficRate { requests: 10.0, bytes: 0.0, accepted: 1.0 });
        assert_eq!(rates.notes.len(), 13);
    }
}
