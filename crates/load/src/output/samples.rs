//! Sample runs for tests of the outputs.

use super::document::{
    BreakingPoint, Document, FORMAT, JsonChange, JsonDescription, JsonEnd, JsonFinding, JsonOutcome,
    JsonSecond, JsonSetting, JsonStage, JsonStep, JsonTester, JsonWrong, Latency, Machine, Method, Server,
    Summary,
};

/// A ramp in three stages and a hold, in the shape of the published one: slower and slower, in the end with failures.
pub fn ramp(most: u64) -> Document {
    sample(most, 1.0, None)
}

/// The same on a server that breaks at a part of it.
pub fn breaking(most: u64, at: f64) -> Document {
    sample(most, 2.4, Some(at))
}

/// A round in which a change was tried.
pub fn method() -> Method {
    Method {
        held_back: Some(JsonFinding {
            id: "db-pool-size".to_owned(),
            severity: "warning".to_owned(),
            what: "the buffer pool is small".to_owned(),
            evidence: vec!["128 MB of 3 GB".to_owned()],
            cure: "innodb_buffer_pool_size = 2048M".to_owned(),
        }),
        change: Some(JsonChange {
            why: "db-pool-size".to_owned(),
            settings: vec![JsonSetting {
                name: "innodb_buffer_pool_size".to_owned(),
                before: Some("128M".to_owned()),
                after: "2048M".to_owned(),
            }],
        }),
        conclusion: Some("kept: 31 % more".to_owned()),
    }
}

const STAGES: [(&str, f64, f64, f64); 4] = [
    ("0 to 10 %", 0.0, 0.1, 300.0),
    ("10 to 50 %", 0.1, 0.5, 600.0),
    ("50 to 100 %", 0.5, 1.0, 600.0),
    ("hold", 1.0, 1.0, 180.0),
];

fn sample(most: u64, slowness: f64, breaks_at: Option<f64>) -> Document {
    let mut seconds = Vec::new();
    'stages: for (stage, (_, from, to, time)) in STAGES.into_iter().enumerate() {
        for tick in 0..time as u32 {
            let share = from + (to - from) * f64::from(tick + 1) / time;
            seconds.push(second(seconds.len() as u32, stage, share, most, slowness, breaks_at));
            if breaks_at.is_some_and(|at| share > at * 1.02) {
                break 'stages;
            }
        }
    }
    let reached = seconds.last().map_or(0, |second: &JsonSecond| second.stage);
    let broken = breaks_at.map(|at| BreakingPoint {
        second: seconds.len() as u32 - 1,
        load: at * most as f64,
        why: "7.1 % failures over 5 s".to_owned(),
    });
    let stages = STAGES
        .iter()
        .enumerate()
        .take(reached + 1)
        .map(|(index, stage)| stage_of(index, stage, most, &seconds))
        .collect();
    Document {
        format: FORMAT.to_owned(),
        version: "0.1.0".to_owned(),
        description: description(most, if breaks_at.is_some() { "nginx/1.22.1" } else { "Millrace" }),
        outcome: match &broken {
            Some(point) => JsonOutcome {
                end: JsonEnd::Broken,
                text: format!("breaking point: {}", point.why),
                breaking_point: broken.clone(),
            },
            None => JsonOutcome {
                end: JsonEnd::Complete,
                text: "all stages are through".to_owned(),
                breaking_point: None,
            },
        },
        elapsed_seconds: seconds.len() as f64,
        total: summary(&seconds.iter().collect::<Vec<_>>()),
        steps: steps(),
        stages,
        seconds,
        tester: JsonTester {
            cpu_seconds: 812.0,
            busiest_thread: 0.71,
            descriptors: 20_000,
            most_descriptors: 18_100,
            ports: 64_500,
            addresses: 16,
            latest_start_us: 1900,
            missed_arrivals: 0,
            memory_bytes: 1_400_000_000,
            bottlenecks: Vec::new(),
        },
        bisection: Vec::new(),
        bottleneck: None,
        notes: vec!["/?s=x differs by itself: a nonce in <script>".to_owned()],
    }
}

fn second(at: u32, stage: usize, share: f64, most: u64, slowness: f64, breaks_at: Option<f64>) -> JsonSecond {
    let users = (share * most as f64) as u64;
    // A wave, so that lines are not straight; no chance is involved.
    let wave = 1.0 + 0.12 * f64::from(at * 37 % 19) / 19.0 + 0.05 * (f64::from(at) / 9.0).sin();
    let median =
        (9_000.0 + 60_000.0 * share * slowness + 700_000.0 * (share * slowness.sqrt()).powi(6)) * wave;
    let over = breaks_at.map_or(0.0, |limit| ((share - limit * 0.9) / limit).max(0.0) * 0.9);
    let failing = if share > 0.9 { 0.000_6 } else { 0.0 } + over;
    let asked = (users as f64 / 60.0 + 40.0) as u64;
    let failed = (asked as f64 * failing) as u64;
    let (resets, gateway) = (failed / 3, failed - failed / 3);
    let kinds = [("reset", resets), ("status_5xx", gateway)];
    let first_byte = latency(median, asked - failed);
    JsonSecond {
        at,
        stage,
        length: 1.0,
        users,
        connections: users,
        wanted: users as f64,
        begun: asked,
        ok: asked - failed,
        failed,
        failures: kinds.into_iter().filter(|(_, n)| *n > 0).map(|(kind, n)| (kind.to_owned(), n)).collect(),
        pages: 0,
        bytes_in: asked * 14_200,
        bytes_out: asked * 310,
        connects: users / 300,
        connect: latency(median / 20.0, users / 300),
        tls: Latency::default(),
        first_byte,
        last_byte: latency(median * 1.05, asked - failed),
        page: Latency::default(),
        server: Some(Server {
            cpu: Some((0.02 + 0.85 * share * slowness.min(1.6) * wave).min(1.9)),
            memory_bytes: Some((90e6 + 1.3e9 * share * slowness) as u64),
            machine_cpu: Some((0.1 + 1.5 * share * wave).min(2.0)),
            machine_memory_bytes: Some((3e9 + 13e9 * share) as u64),
            listen_drops: Some(0),
            conntrack: None,
            conntrack_limit: None,
            own: None,
        }),
        tester_cpu: 0.05 + 0.6 * share * wave,
        programs: Default::default(),
    }
}

fn latency(median: f64, count: u64) -> Latency {
    let us = |times: f64| (median * times) as u64;
    Latency {
        count,
        mean_us: (median * 1.2).round(),
        min_us: us(0.3),
        p50_us: us(1.0),
        p90_us: us(1.9),
        p95_us: us(2.4),
        p99_us: us(4.1),
        p999_us: us(7.3),
        max_us: us(11.0),
    }
}

fn stage_of(
    index: usize,
    (name, from, to, _): &(&str, f64, f64, f64),
    most: u64,
    seconds: &[JsonSecond],
) -> JsonStage {
    let own: Vec<&JsonSecond> = seconds.iter().filter(|second| second.stage == index).collect();
    JsonStage {
        name: (*name).to_owned(),
        begin: own.first().map_or(0.0, |second| f64::from(second.at)),
        end: own.last().map_or(0.0, |second| f64::from(second.at) + 1.0),
        from: from * most as f64,
        to: to * most as f64,
        round: false,
        summary: summary(&own),
        bottleneck: None,
        method: Method::default(),
    }
}

fn steps() -> Vec<JsonStep> {
    let step = |name: &str, failed, wrong| JsonStep {
        name: name.to_owned(),
        ok: 1000,
        failed,
        failures: [("wrong_content".to_owned(), failed)]
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect(),
        last_byte: latency(900.0, 1000),
        wrong,
    };
    let wrong = JsonWrong {
        target: "/?wc-ajax=add_to_cart".to_owned(),
        expected: "the text \"cart_hash\"".to_owned(),
        found: "512 bytes: \"<!DOCTYPE html>\"".to_owned(),
    };
    vec![step("GET /", 0, Vec::new()), step("buyer 2: POST /?wc-ajax=add_to_cart", 3, vec![wrong])]
}

fn summary(seconds: &[&JsonSecond]) -> Summary {
    let sum = |of: fn(&JsonSecond) -> u64| seconds.iter().map(|second| of(second)).sum::<u64>();
    let time = seconds.len() as f64;
    let (ok, failed) = (sum(|s| s.ok), sum(|s| s.failed));
    let mut failures = super::document::Kinds::new();
    for (kind, count) in seconds.iter().flat_map(|second| &second.failures) {
        *failures.entry(kind.clone()).or_default() += count;
    }
    let median = seconds.iter().map(|s| s.first_byte.p50_us as f64).sum::<f64>() / time;
    Summary {
        seconds: time,
        begun: ok + failed,
        responses: ok + failed,
        ok,
        failed,
        success_share: ok as f64 / (ok + failed) as f64,
        statuses: [("200".to_owned(), ok)]
            .into_iter()
            .chain(failures.get("status_5xx").map(|n| ("502".to_owned(), *n)))
            .collect(),
        failures,
        flows: ok,
        flows_failed: failed,
        bytes_in: sum(|s| s.bytes_in),
        bytes_out: sum(|s| s.bytes_out),
        connects: sum(|s| s.connects),
        ok_per_second: ok as f64 / time,
        bytes_in_per_second: sum(|s| s.bytes_in) as f64 / time,
        connect: latency(median / 20.0, sum(|s| s.connects)),
        first_byte: latency(median, ok),
        last_byte: latency(median * 1.05, ok),
        server: Server::over(seconds.iter().copied()),
        ..Summary::default()
    }
}

fn description(most: u64, server: &str) -> JsonDescription {
    let command = format!(
        "millrace load http://127.0.0.1:25080/ --ramp 0:{}:5m,{}:10m,{most}:10m --hold 3m",
        most / 10,
        most / 2
    );
    JsonDescription {
        command: command.split(' ').map(str::to_owned).collect(),
        target: "http://127.0.0.1:25080".to_owned(),
        scenario: "/".to_owned(),
        arrivals: format!("0 to {most} users in 25 min, held 3 min"),
        open: false,
        protocol: "HTTP/1.1".to_owned(),
        accept_encoding: "gzip, deflate, br, zstd".to_owned(),
        keep_alive: true,
        pipeline: 1,
        timeout_seconds: 30.0,
        threads: 56,
        started: 1_795_329_305.0,
        machine: Machine { name: "bench".to_owned(), cores: 2, memory_bytes: 24 << 30 },
        server: Some(server.to_owned()),
    }
}
