//! Names what limited a server, from measurements: kernel tables and queues, memory, programs on the processor, PHP's
//! pools, and the failures. It names only what the figures show.

use std::collections::BTreeMap;

use super::document::{Document, JsonProgram, JsonSecond, Kinds, Server};
use super::figures::{count, grouped};
use super::html::words_of;
use super::own::MillraceSummary;
use super::survival;

/// The processor counts as full when this part of all cores was busy.
const FULL: f64 = 0.9;
/// Programs that used less of the machine are not named.
const NAMED: f64 = 0.03;
/// The name of the tester among the programs.
const TESTER: &str = "load tester";

/// The bottleneck in a stage.
pub fn of_stage(document: &Document, index: usize) -> Option<String> {
    let seconds: Vec<&JsonSecond> = document.seconds.iter().filter(|second| second.stage == index).collect();
    let stage = document.stages.get(index)?;
    name(document, &seconds, stage.summary.server, &stage.summary.failures)
}

/// The bottleneck at the heaviest load.
pub fn of_run(document: &Document) -> Option<String> {
    let heavy = survival::most_load(document) * 0.9;
    let seconds: Vec<&JsonSecond> =
        survival::counted(document).filter(|second| survival::load_of(document, second) >= heavy).collect();
    let server = Server::over(seconds.iter().copied());
    name(document, &seconds, server, &document.total.failures)
}

fn name(
    document: &Document,
    seconds: &[&JsonSecond],
    server: Option<Server>,
    failures: &Kinds,
) -> Option<String> {
    let machine = &document.description.machine;
    let cores = machine.cores.max(1) as f64;
    let mut signs = Vec::new();
    let server = server.unwrap_or_default();
    conntrack(&server, &mut signs);
    if server.machine_memory_bytes.is_some_and(|used| used as f64 >= 0.92 * machine.memory_bytes as f64) {
        signs.push("memory: more than 92 % of the machine's memory is in use".to_owned());
    }
    let programs = programs(seconds);
    let is_full = server.machine_cpu.or(server.cpu).is_some_and(|cpu| cpu >= FULL * cores);
    if is_full {
        signs.push(processor(&programs, cores));
    } else {
        signs.extend(programs.iter().find_map(|(name, program)| one_core(name, program, cores)));
    }
    signs.extend(php(seconds, &programs));
    if let Some(own) = server.own.filter(|own| own.refused > 0) {
        signs.push(format!("{} requests refused by the overloaded server", grouped(own.refused)));
    }
    signs.extend(listening_queue(seconds));
    if let Some((kind, number)) = failures.iter().max_by_key(|(_, number)| **number) {
        signs.push(format!("{} failures: {}", grouped(*number), words_of(kind)));
    }
    (!signs.is_empty()).then(|| signs.join("; "))
}

/// The kernel's table of connections.
fn conntrack(server: &Server, signs: &mut Vec<String>) {
    if let (Some(entries), Some(limit)) = (server.conntrack, server.conntrack_limit)
        && entries as f64 >= 0.95 * limit as f64
    {
        let (entries, limit) = (grouped(entries), grouped(limit));
        signs.push(format!("the kernel's connection tracking table is full ({entries} of {limit})"));
    }
}

/// Connections dropped before the server saw them. The kernel counts them for all servers of the machine together: a
/// few may belong to another.
fn listening_queue(seconds: &[&JsonSecond]) -> Option<String> {
    let counts = || seconds.iter().filter_map(|second| second.server?.listen_drops);
    let drops = counts().max()? - counts().min()?;
    let connects: u64 = seconds.iter().map(|second| second.connects).sum();
    (drops >= 10 && drops * 200 > connects)
        .then(|| format!("{} connections dropped: the listen queue was full", grouped(drops)))
}

/// Each program, the tester among them, in the mean of the seconds.
fn programs(seconds: &[&JsonSecond]) -> BTreeMap<String, JsonProgram> {
    let mut sums = BTreeMap::<String, JsonProgram>::new();
    let mut working = BTreeMap::<String, f64>::new();
    for second in seconds {
        for (name, program) in &second.programs {
            let sum = sums.entry(name.clone()).or_default();
            sum.cpu += program.cpu;
            sum.processes = sum.processes.max(program.processes);
            *working.entry(name.clone()).or_default() += f64::from(program.working);
        }
        sums.entry(TESTER.to_owned()).or_default().cpu += second.tester_cpu;
    }
    let number = seconds.len().max(1) as f64;
    for (name, sum) in &mut sums {
        sum.cpu /= number;
        sum.working = working.get(name).map_or(0, |working| (working / number).round() as u32);
    }
    sums
}

/// `the processor: all 2 cores are busy (php-fpm8.2 61 %, nginx 12 %, the tester 9 %)`
fn processor(programs: &BTreeMap<String, JsonProgram>, cores: f64) -> String {
    let mut shares: Vec<(&str, f64)> =
        programs.iter().map(|(name, program)| (name.as_str(), program.cpu / cores)).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shares: Vec<String> = shares
        .iter()
        .filter(|(_, share)| *share >= NAMED)
        .map(|(name, share)| format!("{name} {:.0} %", share * 100.0))
        .collect();
    let who = if shares.is_empty() { String::new() } else { format!(" ({})", shares.join(", ")) };
    format!("CPU: all {} cores are busy{who}", count(cores))
}

/// A program whose few processes each use a whole core, while other cores are free.
fn one_core(name: &str, program: &JsonProgram, cores: f64) -> Option<String> {
    let working = f64::from(program.working);
    let is_bound = working > 0.0
        && working < cores
        && program.cpu >= FULL * working
        && program.processes == program.working;
    let fill = if program.processes == 1 {
        "its only process fully uses one core".to_owned()
    } else {
        format!("each of its {} processes fully uses one core", program.processes)
    };
    is_bound.then(|| format!("{name}: {fill} of {}", count(cores)))
}

/// PHP's pools: reported by Millrace, or derived from php-fpm's processes.
fn php(seconds: &[&JsonSecond], programs: &BTreeMap<String, JsonProgram>) -> Option<String> {
    let told: Vec<MillraceSummary> = seconds.iter().filter_map(|second| second.server?.own).collect();
    if !told.is_empty() {
        let mean =
            |of: fn(&MillraceSummary) -> u64| told.iter().map(of).sum::<u64>() as f64 / told.len() as f64;
        let (running, waiting) = (mean(|own| own.php_running), mean(|own| own.php_waiting));
        return (waiting >= 1.0).then(|| {
            format!("PHP: {} requests wait for a worker while {} run", count(waiting), count(running))
        });
    }
    let (name, pool) = programs.iter().find(|(name, _)| name.starts_with("php-fpm"))?;
    // One of them is the master, which does nothing.
    let workers = pool.processes.saturating_sub(1);
    (workers > 0 && pool.working >= workers).then(|| format!("PHP: all {workers} workers of {name} are busy"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::samples;

    fn busy(programs: &[(&str, f64, u32, u32)], tester: f64, machine: f64) -> Document {
        let mut document = samples::ramp(100);
        for second in &mut document.seconds {
            second.programs = programs
                .iter()
                .map(|(name, cpu, processes, working)| {
                    ((*name).to_owned(), JsonProgram { cpu: *cpu, processes: *processes, working: *working })
                })
                .collect();
            second.tester_cpu = tester;
            second.server = Some(Server { machine_cpu: Some(machine), ..Server::default() });
        }
        document.total.failures.clear();
        document
    }

    #[test]
    fn who_takes_the_processor() {
        let document =
            busy(&[("php-fpm8.2", 1.2, 6, 5), ("nginx", 0.3, 3, 2), ("mariadbd", 0.01, 1, 1)], 0.4, 1.95);
        assert_eq!(
            of_run(&document).unwrap(),
            "CPU: all 2 cores are busy (php-fpm8.2 60 %, load tester 20 %, nginx 15 %); PHP: all 5 workers of \
             php-fpm8.2 are busy"
        );
    }

    #[test]
    fn a_server_with_too_few_processes() {
        let document = busy(&[("nginx", 0.97, 1, 1)], 0.2, 1.2);
        assert_eq!(of_run(&document).unwrap(), "nginx: its only process fully uses one core of 2");
    }

    #[test]
    fn php_that_lets_requests_wait() {
        let mut document = busy(&[("millrace", 0.1, 1, 1)], 0.1, 0.8);
        let mut told = |php_running, php_waiting| {
            let own = Some(MillraceSummary {
                php_limit: 4,
                php_running,
                php_waiting,
                ..MillraceSummary::default()
            });
            document
                .seconds
                .iter_mut()
                .filter_map(|second| second.server.as_mut())
                .for_each(|seen| seen.own = own);
            of_run(&document)
        };
        assert_eq!(told(4, 12).unwrap(), "PHP: 12 requests wait for a worker while 4 run");
        assert_eq!(told(3, 0), None);
    }
}
