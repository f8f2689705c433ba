//! Combines the threads' reports into seconds, and applies stages and stop rules.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use super::clock::SECOND;
use super::limits;
use super::server::Watch;
use super::shared::{Gauges, Report, Shared};
use super::versions::{self, Differing, Review};
use crate::plan::{ArrivalModel, Plan};
use crate::record::{End, Failures, Run, Second, Stage, Tally, Tester, Times};
use crate::steps;

/// Puts seconds together.
pub struct Collector {
    shared: Arc<Shared>,
    watch: Watch,
    /// The second that each thread hands over next.
    next: Vec<u32>,
    ended: Vec<bool>,
    /// Seconds that are not complete.
    open: BTreeMap<u32, Open>,
    /// The last seconds, for stop rules.
    window: VecDeque<Box<Tally>>,
    closed: u32,
    busy_seconds: u32,
    /// Where questions about new versions of pages go, until the last one.
    questions: Option<Sender<Review>>,
    /// Responses that may be new versions, and their second.
    differing: Vec<(u32, Differing)>,
}

#[derive(Default)]
struct Open {
    tally: Option<Box<Tally>>,
    users: u64,
    connections: u64,
    cpu: u64,
    busiest: u64,
}

impl Collector {
    /// For a run that has begun.
    pub fn new(shared: Arc<Shared>, watch: Watch, questions: Sender<Review>) -> Collector {
        let threads = shared.threads;
        Collector {
            shared,
            watch,
            next: vec![0; threads],
            ended: vec![false; threads],
            open: BTreeMap::new(),
            window: VecDeque::new(),
            closed: 0,
            busy_seconds: 0,
            questions: Some(questions),
            differing: Vec::new(),
        }
    }

    /// Takes a thread's report. True: a second is complete.
    pub fn take(&mut self, report: Report, run: &mut Run) -> bool {
        let Report { thread, second, tally, gauges, notes, differing, reviews, steps, is_last } = report;
        self.differing.extend(differing.into_iter().map(|differing| (second, differing)));
        if let Some(questions) = &self.questions {
            // Nobody receives them when the run is being aborted.
            reviews.into_iter().for_each(|review| drop(questions.send(review)));
        }
        steps::add(&mut run.steps, &steps);
        for note in notes {
            if !run.notes.contains(&note) && run.notes.len() < 20 {
                run.notes.push(note);
            }
        }
        self.next[thread] = second + 1;
        self.ended[thread] |= is_last;
        self.add(second, tally, gauges, &mut run.tester);
        let complete = (0..self.next.len())
            .filter(|thread| !self.ended[*thread])
            .map(|thread| self.next[thread])
            .min()
            // `finish` handles what is left when all have ended.
            .unwrap_or(self.closed);
        let before = self.closed;
        while self.closed < complete {
            self.close(run, 1.0);
        }
        self.closed > before
    }

    /// There are no more questions about new versions of pages.
    pub fn end_questions(&mut self) {
        self.questions = None;
    }

    /// Completes the last second and the totals of the run.
    pub fn finish(&mut self, run: &mut Run) {
        let now = self.shared.clock.now();
        let planned = self.shared.duration;
        while let Some(last) = self.open.last_key_value().map(|(second, _)| *second) {
            let length = if self.closed == last { now as f64 / SECOND as f64 - f64::from(last) } else { 1.0 };
            self.close(run, length.clamp(0.001, 1.0));
        }
        for (second, differing) in self.differing.drain(..) {
            versions::settle(run, second, &differing);
        }
        run.elapsed = planned.min(Duration::from_nanos(now));
        if run.end.is_none() {
            let is_cut = self.shared.plan.stop.requests.is_some() && Duration::from_nanos(now) < planned;
            run.end = Some(if is_cut { End::Count } else { End::Complete });
        }
        if run.end != Some(End::Complete) {
            run.elapsed = Duration::from_nanos(now);
        }
        if let Some(stage) = run.stages.last_mut() {
            stage.end = run.elapsed.as_secs_f64();
        }
        self.weigh(run);
    }

    fn add(&mut self, second: u32, tally: Box<Tally>, gauges: Gauges, tester: &mut Tester) {
        let open = self.open.entry(second).or_default();
        match &mut open.tally {
            Some(sum) => sum.add(&tally),
            None => open.tally = Some(tally),
        }
        open.users += gauges.users;
        open.connections += gauges.connections;
        open.cpu += gauges.cpu;
        open.busiest = open.busiest.max(gauges.cpu);
        tester.cpu += gauges.cpu as f64 / SECOND as f64;
        tester.missed += gauges.missed;
        tester.latest_start = tester.latest_start.max(gauges.latest_start / 1000);
        tester.most_descriptors = tester.most_descriptors.max(gauges.most_connections);
    }

    /// A second is complete.
    fn close(&mut self, run: &mut Run, length: f64) {
        let at = self.closed;
        self.closed += 1;
        let open = self.open.remove(&at).unwrap_or_default();
        let tally = open.tally.unwrap_or_default();
        let begin = f64::from(at);
        let stage = self.stage(run, begin);
        run.stages[stage].end = begin + length;
        run.stages[stage].tally.add(&tally);
        run.total.add(&tally);
        run.elapsed = Duration::from_secs_f64(begin + length);
        let busiest = open.busiest as f64 / SECOND as f64 / length;
        if length > 0.5 {
            run.tester.busiest_thread = run.tester.busiest_thread.max(busiest);
            self.busy_seconds += u32::from(busiest > 0.95);
        }
        let wanted = self.shared.plan.curve.at(begin + length * 0.999);
        let mut second = second_of(&tally);
        (second.at, second.stage, second.length) = (at, stage, length);
        (second.users, second.connections, second.wanted) = (open.users, open.connections, wanted);
        second.tester_cpu = open.cpu as f64 / SECOND as f64 / length;
        second.server = self.watch.sample();
        run.seconds.push(second);
        self.window.push_back(tally);
        let most = self.shared.plan.stop.window.as_secs().max(1) as usize;
        while self.window.len() > most {
            self.window.pop_front();
        }
        if run.end.is_none() && length == 1.0 && self.window.len() == most {
            // The intended load includes users that can't connect; the actual load does not.
            let load = match self.shared.plan.arrivals {
                ArrivalModel::Closed => wanted.min(open.users as f64),
                ArrivalModel::Open => wanted,
            };
            run.end = broken(&self.shared.plan, &self.window, at, load);
        }
    }

    /// The stage that a second belongs to; begun if it is the first of it.
    fn stage(&mut self, run: &mut Run, begin: f64) -> usize {
        let curve = &self.shared.plan.curve;
        let last = curve.stages.len().saturating_sub(1);
        let index = curve.stage_at(begin + 0.5).map_or(last, |(index, _)| index);
        while run.stages.len() <= index {
            let number = run.stages.len();
            let Some(segment) = curve.stages.get(number) else { break };
            let rounds = curve.stages[..=number].iter().filter(|stage| stage.round).count();
            run.stages.push(Stage {
                name: name_of(segment, rounds, self.shared.plan.arrivals),
                begin,
                end: begin,
                from: segment.from,
                to: segment.to,
                tally: Tally::default(),
                round: segment.round,
            });
        }
        index.min(run.stages.len() - 1)
    }

    /// Determines whether the tester itself was the bottleneck.
    fn weigh(&mut self, run: &mut Run) {
        let bottlenecks = limits::bottlenecks(run, &self.shared, self.busy_seconds);
        let tester = &mut run.tester;
        tester.descriptors = self.shared.descriptors();
        tester.ports = super::connect::ports();
        tester.addresses = self.shared.addresses();
        tester.memory = limits::peak_memory();
        tester.bottlenecks = bottlenecks;
    }
}

fn name_of(segment: &crate::plan::Segment, round: usize, arrivals: ArrivalModel) -> String {
    let unit = if arrivals == ArrivalModel::Open { "per second" } else { "users" };
    match (segment.round, segment.from == segment.to) {
        (true, _) => format!("round {round}: {} {unit}", segment.to),
        (_, true) => format!("{} {unit}", segment.to),
        (_, false) => format!("{} to {} {unit}", segment.from, segment.to),
    }
}

fn second_of(tally: &Tally) -> Second {
    Second {
        at: 0,
        stage: 0,
        length: 1.0,
        users: 0,
        connections: 0,
        wanted: 0.0,
        begun: tally.begun,
        ok: tally.ok,
        pages: tally.pages,
        bytes_in: tally.bytes_in,
        bytes_out: tally.bytes_out,
        connects: tally.connects,
        failures: tally.failures,
        connect: Times::of(&tally.connect),
        tls: Times::of(&tally.tls),
        first_byte: Times::of(&tally.first_byte),
        last_byte: Times::of(&tally.last_byte),
        page: Times::of(&tally.page),
        server: None,
        tester_cpu: 0.0,
    }
}

/// Whether the breaking point is reached.
fn broken(plan: &Plan, window: &VecDeque<Box<Tally>>, second: u32, at: f64) -> Option<End> {
    let seconds = window.len();
    if let Some(most) = plan.stop.failed_share {
        let (mut failures, mut ok) = (Failures::default(), 0);
        for tally in window {
            failures.add(&tally.failures);
            ok += tally.ok;
        }
        let failed = failures.total();
        let share = failed as f64 / (ok + failed).max(1) as f64;
        if share > most {
            let kinds: Vec<_> = failures.kinds().map(|(kind, n)| format!("{n} {}", kind.words())).collect();
            let why = format!(
                "{:.1} % of requests failed within {seconds} s ({})",
                share * 100.0,
                kinds.join(", ")
            );
            return Some(End::Broken { second, at, why });
        }
    }
    if let Some(most) = plan.stop.p99 {
        let mut sum = crate::record::histogram();
        for tally in window {
            if !tally.last_byte.is_empty() {
                sum.add(&tally.last_byte).ok()?;
            }
        }
        let p99 = Duration::from_micros(Times::of(&sum).p99);
        if p99 > most {
            let (p99, most) = (p99.as_secs_f64() * 1000.0, most.as_secs_f64() * 1000.0);
            let why = format!("p99 {p99:.0} ms within {seconds} s, limit {most:.0} ms");
            return Some(End::Broken { second, at, why });
        }
    }
    None
}
