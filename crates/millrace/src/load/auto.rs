//! `--rounds auto`: the rounds of [`super::rounds`] on a real server, with the doctor and the settings of the tuner of this machine.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use millrace_care::checks::Examination;
use millrace_care::tune::changes::{Change, changes};
use millrace_care::tune::journal::{self, Journal};
use millrace_care::tune::proposal::{Proposal, Wish};
use millrace_care::tune::root::Root;
use millrace_care::tune::{Refusal, Server};
use millrace_load::engine::{self, Control};
use millrace_load::output::document::{JsonChange, JsonFinding, JsonSetting, Method};
use millrace_load::plan::{Curve, Plan, Segment};
use millrace_load::record::{End, Run};
use millrace_load::scenario::Scenario;
use millrace_load::threshold::Condition;
use millrace_load::url::Url;

use super::args::LoadArgs;
use super::results::Results;
use super::rounds::{Bench, Halt, Round, play};
use super::run;
use super::watch::Watch;
use crate::args::{AdminArgs, DoctorArgs, TuneArgs};
use crate::doctor::Patient;
use crate::failure::{Explain, Failure};
use crate::tune;

/// How long a server may take until it answers again after its restart.
const PATIENCE: Duration = Duration::from_secs(60);
/// Without `--slo`: a load that fails more often is not one that the server holds.
const USUAL_SLO: &str = "errors<5%";
/// After a restart caches are empty, and processes are few: parts of a round with this share of its time pass before it begins, ...
const WARM_UP: u32 = 3;
/// ... until one is no more than so many times as fast as the one before ...
const STEADY: f64 = 1.05;
/// ... or so many have passed.
const WARM_UPS_MOST: u32 = 6;

/// Rounds until nothing helps any more.
///
/// # Errors
/// The settings of the tuner can't be changed here, the server does not come back after a restart, or a file can't be written.
pub fn load(
    args: &LoadArgs,
    plan: Plan,
    scenario: Scenario,
    control: Control,
    results: Results,
) -> Result<(), Failure> {
    let patient = patient(args, &plan)?;
    let tuner = args.tuning.tune.then(|| Tuner::new(args, &plan)).transpose()?;
    let slo = match args.stop.slo.is_empty() {
        true => vec![USUAL_SLO.parse().or_fail(|| USUAL_SLO.to_owned())?],
        false => args.stop.slo.clone(),
    };
    let (all, notes) = (None, Vec::new());
    let mut auto = Auto { plan, scenario, control, results, patient, tuner, slo, all, notes };
    let ended = play(&mut auto, args.arrivals.users.unwrap_or(10), args.tuning.tune);
    let is_complete = ended.is_ok();
    let failed = match ended {
        Ok(why) => {
            auto.notes.push(format!("the rounds ended: {why}"));
            None
        }
        Err(Halt::Interrupted) => None,
        Err(Halt::Failed(failure)) => Some(failure),
    };
    let put_back = auto.end(args.tuning.keep && is_complete);
    let written = match auto.all {
        Some(mut all) => {
            all.notes.append(&mut auto.notes);
            auto.results.end(&all)
        }
        None => Ok(()),
    };
    put_back.and(failed.map_or(Ok(()), Err)).and(written)
}

/// What the doctor looks at: the server under test, and the sites that it may look at.
///
/// # Errors
/// There is no such site, or the server is on another machine and so the folder isn't its site.
pub fn patient(args: &LoadArgs, plan: &Plan) -> Result<Arc<Patient>, Failure> {
    let site = args.tuning.site.as_ref().map(|site| site.display().to_string());
    let is_remote = !is_here(plan);
    if is_remote && site.is_some() {
        return Err(Failure::new("--site names a folder of this machine, and the server is on another one")
            .next("omit --site, or run the command there"));
    }
    Patient::of(&DoctorArgs { site, admin: admin(args, plan), ..DoctorArgs::default() }, is_remote)
        .map(Arc::new)
}

/// Whether the server under test is on this machine.
fn is_here(plan: &Plan) -> bool {
    plan.connect_to.is_some_and(engine::is_here)
}

/// The admin address of the server under test. If none is found, one at which nothing answers: another server's figures would be wrong.
fn admin(args: &LoadArgs, plan: &Plan) -> AdminArgs {
    let found = || plan.connect_to.and_then(engine::admin_address);
    let admin = args.tester.metrics.clone().or_else(found).unwrap_or_else(|| "unix:/".to_owned());
    AdminArgs { admin: Some(admin), ..AdminArgs::default() }
}

/// What to cure first.
pub fn first(all: &Examination) -> Option<JsonFinding> {
    all.findings.first().map(|finding| JsonFinding {
        id: finding.id.to_owned(),
        severity: finding.severity.name().to_owned(),
        what: finding.what.clone(),
        evidence: finding.evidence.clone(),
        cure: finding.cure.clone(),
    })
}

/// The settings of this machine.
struct Tuner {
    root: Root,
    wish: Wish,
    restart: Option<String>,
    /// Names of the settings of ours that are in force; `None`: unknown.
    in_force: Option<Vec<&'static str>>,
    /// Names of settings that have no effect here, or that the kernel does not let us set.
    fixed: Vec<String>,
    /// Settings that only their owner can write, and so get no round.
    by_hand: Vec<String>,
}

/// The server under test, and all rounds so far.
struct Auto {
    plan: Plan,
    scenario: Scenario,
    control: Control,
    results: Results,
    patient: Arc<Patient>,
    tuner: Option<Tuner>,
    /// What a load must fulfil to count as one that the server holds.
    slo: Vec<Condition>,
    all: Option<Run>,
    notes: Vec<String>,
}

impl Bench for Auto {
    fn measure(&mut self, users: u32, tried: Option<&Change>) -> Result<Round, Halt> {
        self.plan.curve = self.round_of(users, 1);
        let (patient, time) = (self.patient.clone(), self.time());
        let mut watch = None;
        let results = &mut self.results;
        let run = run(&self.plan, &self.scenario, &self.control, &mut |run| {
            watch.get_or_insert_with(|| {
                Watch::begin(patient.clone(), Instant::now() - run.elapsed, vec![time])
            });
            results.show(run);
        })?;
        let found = watch.map(Watch::end).unwrap_or_default().pop().flatten();
        let change = tried.map(to_json);
        let held_back = found.as_ref().and_then(first);
        self.results.methods.push(Method { held_back, change, conclusion: None });
        let round = Round {
            rate: rate(&run),
            failed: run.total.failed_share(),
            broken: self.broken(&run),
            findings: found.iter().flat_map(|all| &all.findings).map(|finding| finding.id).collect(),
        };
        let end = run.end.clone();
        self.add(run, &round);
        match end {
            Some(End::Interrupted) => Err(Halt::Interrupted),
            Some(End::Impossible(why)) => Err(Failure::new(why).into()),
            _ => Ok(round),
        }
    }

    fn conclude(&mut self, conclusion: String) {
        let line = format!("  {conclusion}");
        if let Some(method) = self.results.methods.last_mut() {
            method.conclusion = Some(conclusion);
        }
        if let Some(all) = &self.all {
            self.results.round(all, &line);
        }
    }

    fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    fn changes(&mut self, findings: &[&'static str]) -> Result<Vec<Change>, Halt> {
        let Some(tuner) = &mut self.tuner else { return Ok(Vec::new()) };
        let wish = Wish { without: tuner.fixed.clone(), ..tuner.wish.clone() };
        let proposal = Proposal::of(&wish).map_err(Failure::from)?;
        // The first rounds show how much memory a worker takes; all values that follow rest on that.
        tuner.wish.worker = proposal.worker;
        tuner.by_hand = proposal.by_hand();
        let lines = proposal.in_configuration();
        if !lines.is_empty() {
            let lines = lines.join(", ");
            let where_to =
                "in the configuration of Millrace, which is yours; `millrace tune` prints the lines";
            tuner.by_hand.push(format!("{lines}: {where_to}"));
        }
        Ok(changes(&proposal, findings, tuner.restart.is_none()))
    }

    fn set(&mut self, changes: &[Change]) -> Result<Option<String>, Halt> {
        let Some(tuner) = &mut self.tuner else { return Ok(None) };
        if let Some(why) = tuner.set(changes)? {
            return Ok(Some(why));
        }
        if tuner.restart()? {
            self.warm_up()?;
        }
        Ok(None)
    }
}

impl Auto {
    /// How long a round takes.
    fn time(&self) -> Duration {
        self.plan.curve.stages.first().map_or(Duration::ZERO, |stage| stage.time)
    }

    /// The first condition of `--slo` that does not hold, with its figure.
    fn broken(&self, run: &Run) -> Option<String> {
        let broken = self.slo.iter().find(|condition| !condition.holds(&run.total, run.elapsed));
        broken.map(|condition| condition.with_figure(&run.total, run.elapsed))
    }

    fn round_of(&self, users: u32, share: u32) -> Curve {
        let (users, time) = (f64::from(users), self.time() / share);
        Curve { stages: vec![Segment { from: users, to: users, time, round: false }] }
    }

    fn add(&mut self, mut run: Run, round: &Round) {
        let number = self.all.as_ref().map_or(0, |all| all.stages.len()) + 1;
        for stage in &mut run.stages {
            stage.name = format!("round {number}: {} users", stage.to);
            stage.round = true;
        }
        match &mut self.all {
            Some(all) => all.append(run),
            None => self.all = Some(run),
        }
        if let Some(all) = &mut self.all {
            all.description.arrivals = format!("{} rounds", all.stages.len());
            let Some(method) = self.results.methods.last() else { return };
            let change = method.change.as_ref().map(|change| format!(", {}", change.words()));
            let found = method.held_back.as_ref().map_or("nothing found".to_owned(), JsonFinding::words);
            let name = all.stages.last().map_or("", |stage| &stage.name);
            let line = format!("{name}{}: {:.1}/s; {found}", change.unwrap_or_default(), round.rate);
            self.results.round(all, &line);
        }
    }

    /// Waits until the server answers again after a restart, and fills its caches.
    fn warm_up(&mut self) -> Result<(), Halt> {
        self.await_answer()?;
        let users = self.plan.curve.stages.first().map_or(1.0, |stage| stage.to) as u32;
        let plan = Plan { curve: self.round_of(users, WARM_UP), ..self.plan.clone() };
        let mut before = 0.0;
        for _ in 0..WARM_UPS_MOST {
            let results = &mut self.results;
            let warmed = run(&plan, &self.scenario, &self.control, &mut |run| results.show(run))?;
            if warmed.end == Some(End::Interrupted) {
                return Err(Halt::Interrupted);
            }
            let now = rate(&warmed);
            if before > 0.0 && now <= before * STEADY {
                break;
            }
            before = now;
        }
        Ok(())
    }

    fn await_answer(&self) -> Result<(), Halt> {
        let Some(target) = self.plan.connect_to else { return Ok(()) };
        let first = self.scenario.flows.first().and_then(|flow| flow.steps.first());
        let path = first.map_or("/", |step| step.request.target.as_str());
        let url = Url { origin: self.scenario.origin.clone(), target: path.to_owned() };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let why = match engine::fetch(&self.plan, &url, target) {
                Ok(_) => return Ok(()),
                Err(why) => why,
            };
            if self.control.interrupted.load(Ordering::Relaxed) {
                return Err(Halt::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(Failure::new(format!("{url} does not answer after --restart: {why}"))
                    .next("look at the logs of what was restarted; all settings are put back")
                    .into());
            }
            sleep(Duration::from_millis(100));
        }
    }

    /// Puts the settings back, or says which ones stay.
    fn end(&mut self, keep: bool) -> Result<(), Failure> {
        let Some(tuner) = &mut self.tuner else { return Ok(()) };
        let names = tuner.in_force.clone().unwrap_or_default();
        self.notes.extend(tuner.by_hand.drain(..).map(|line| format!("not tried: {line}")));
        if keep && tuner.in_force.is_some() {
            if !names.is_empty() {
                let note = format!("in force: {}; `millrace tune --undo` takes them back", names.join(", "));
                self.notes.push(note);
            }
            return Ok(());
        }
        if journal::undo(&tuner.root)?.is_none() {
            return Ok(());
        }
        tuner.in_force = Some(Vec::new());
        if !names.is_empty() {
            let note =
                format!("put back at the end: {}; --keep leaves in force what has helped", names.join(", "));
            self.notes.push(note);
        }
        // Also after Ctrl-C, what runs must run with the settings that are in its files.
        tuner.restart().map(|_| ())
    }
}

impl Tuner {
    fn new(args: &LoadArgs, plan: &Plan) -> Result<Tuner, Failure> {
        if !is_here(plan) {
            return Err(Failure::new(
                "--tune changes settings of this machine, and the server is on another one",
            )
            .next("run the command there, or omit --tune: the table says what to change"));
        }
        let root = Root::new("/");
        if Journal::read(&root)?.is_some() {
            return Err(Failure::new("settings of `millrace tune` are in force already").next(
                "`millrace tune --undo` takes them back; rounds begin with the machine as it is without them",
            ));
        }
        let ask = TuneArgs { memory: 75, admin: admin(args, plan), ..TuneArgs::default() };
        let mut wish = tune::wish(&ask, &root)?;
        let restart = args.tuning.restart.clone();
        let is_millrace =
            args.tester.metrics.is_some() || plan.connect_to.and_then(engine::admin_address).is_some();
        // A Millrace with sites of its own may be here, too; what counts is the server under load.
        wish.server = is_millrace.then_some(Server::Millrace);
        // The tuner's limits are those of the unit of Millrace.
        let fixed = if is_millrace { Vec::new() } else { vec!["LimitNOFILE".to_owned()] };
        Ok(Tuner { root, wish, restart, in_force: Some(Vec::new()), fixed, by_hand: Vec::new() })
    }

    /// Puts exactly these settings in force, as far as that goes without a restart. `Some`: it can't be done.
    fn set(&mut self, changes: &[Change]) -> Result<Option<String>, Failure> {
        let names: Vec<&'static str> =
            changes.iter().flat_map(|change| &change.settings).map(|setting| setting.name).collect();
        self.in_force = None;
        let refused = |why: Refusal| Ok(Some(why.to_string()));
        if names.is_empty() {
            journal::undo(&self.root)?;
        } else {
            let proposal = match Proposal::of(&self.wish.only(&names)) {
                Ok(proposal) => proposal,
                Err(why) => return refused(why),
            };
            let done = match journal::apply(&proposal, None, &|| Ok(())) {
                Ok(done) => done,
                Err(why) => return refused(why),
            };
            let problems = done.kernel.into_iter().filter_map(|value| Some((value.name, value.problem?)));
            let problems: Vec<(String, String)> = problems.collect();
            self.fixed.extend(problems.iter().map(|(name, _)| name.clone()));
            if !problems.is_empty() {
                let each = problems.iter().map(|(name, why)| format!("{name}: {why}"));
                return Ok(Some(each.collect::<Vec<_>>().join(", ")));
            }
        }
        self.in_force = Some(names);
        Ok(None)
    }

    /// Runs the user's command; whether there is one.
    fn restart(&self) -> Result<bool, Failure> {
        let Some(command) = &self.restart else { return Ok(false) };
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null());
        let status = shell.status().or_fail(|| "cannot run sh".to_owned())?;
        if status.success() {
            return Ok(true);
        }
        Err(Failure::new(format!("`{command}` of --restart failed: {status}"))
            .next("run it by hand: it must restart what reads the changed settings; the settings themselves are put back"))
    }
}

/// Whole pages per second, or responses.
fn rate(run: &Run) -> f64 {
    let done = if run.total.pages > 0 { run.total.pages } else { run.total.ok };
    done as f64 / run.elapsed.as_secs_f64().max(0.001)
}

fn to_json(change: &Change) -> JsonChange {
    let settings = change.settings.iter().map(|setting| JsonSetting {
        name: setting.name.to_owned(),
        before: setting.now.clone(),
        after: setting.next.clone(),
    });
    JsonChange { why: change.why.to_owned(), settings: settings.collect() }
}
