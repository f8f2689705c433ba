//! `millrace load`: the command line of the load tester.

mod args;
mod auto;
mod results;
mod rounds;
mod sources;
mod watch;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use args::LoadArgs;
use args::Rounds;
use millrace_care::checks::Examination;
use millrace_load::engine::{self, Control};
use millrace_load::output::document::Method;
use millrace_load::output::k6;
use millrace_load::plan::{ArrivalModel, Certificates, Curve, Plan, Segment, Stop};
use millrace_load::record::{End, Run};
use millrace_load::scenario::{Check, Dynamic, Flow, Origin, Request, Scenario, Step};
use millrace_load::threshold::Condition;

use crate::failure::{Explain, Failure};
use results::Results;
use watch::Watch;

/// Loads a server and shows how it bore that.
pub fn load(args: &LoadArgs) -> Result<(), Failure> {
    if !args.output.compare.is_empty() {
        return results::compare(&args.output);
    }
    check_combination(args)?;
    let mut plan = plan_of(args)?;
    let scenario = scenario_of(args, &plan)?;
    if args.output.export.is_some() {
        print!("{}", k6::script(&scenario, &plan));
        return Ok(());
    }
    plan.connect_to = Some(check_target(args, &scenario.origin)?);
    let control = Control {
        interrupted: stop_on_interrupt()?,
        server_pids: args.tester.server_pid.clone(),
        metrics: args.tester.metrics.clone(),
    };
    let results = Results::new(&args.output)?;
    match &args.arrivals.rounds {
        Some(Rounds::Auto) => auto::load(args, plan, scenario, control, results),
        _ => constant(args, &plan, &scenario, &control, results),
    }
}

/// One run. In rounds, the doctor is asked.
fn constant(
    args: &LoadArgs,
    plan: &Plan,
    scenario: &Scenario,
    control: &Control,
    mut results: Results,
) -> Result<(), Failure> {
    let rounds: Vec<Duration> = plan.curve.stages.iter().map(|stage| stage.time).collect();
    let is_asked = args.arrivals.rounds.is_some() && rounds.iter().any(|time| *time >= watch::LEAST_ROUND);
    let patient = is_asked.then(|| auto::patient(args, plan)).transpose()?;
    let mut watch = None;
    let mut seen = |run: &Run| {
        if let (None, Some(patient)) = (&watch, &patient) {
            watch = Some(Watch::begin(patient.clone(), Instant::now() - run.elapsed, rounds.clone()));
        }
        results.second(run);
    };
    let run = run(plan, scenario, control, &mut seen)?;
    let found = watch.map(Watch::end).unwrap_or_default();
    let method = |found: &Option<Examination>| {
        let held_back = found.as_ref().and_then(auto::first);
        Method { held_back, ..Method::default() }
    };
    results.methods = found.iter().map(method).collect();
    results.end(&run)?;
    judge(&args.stop.fail_if, &run)
}

/// The exit status: whether anything succeeded, and no condition of `--fail-if` is true.
///
/// # Errors
/// What failed. A run that the user has interrupted, or that was to break the server, need not have succeeded.
fn judge(fail_if: &[Condition], run: &Run) -> Result<(), Failure> {
    let broken: Vec<_> =
        fail_if.iter().filter(|condition| condition.holds(&run.total, run.elapsed)).collect();
    if !broken.is_empty() {
        let words = broken.iter().map(|condition| condition.with_figure(&run.total, run.elapsed));
        return Err(Failure::new(format!("failed: {}", words.collect::<Vec<_>>().join(", "))));
    }
    if run.total.ok > 0 || matches!(run.end, Some(End::Interrupted | End::Broken { .. })) {
        return Ok(());
    }
    let kinds: Vec<_> = run.total.failures.kinds().map(|(kind, n)| format!("{n} {}", kind.words())).collect();
    let kinds = if kinds.is_empty() { "no response in time".to_owned() } else { kinds.join(", ") };
    Err(Failure::new(format!("no request succeeded ({kinds})"))
        .next("check that the server runs at this address, and that the URL and the checks are right"))
}

fn run(
    plan: &Plan,
    scenario: &Scenario,
    control: &Control,
    seen: &mut dyn FnMut(&Run),
) -> Result<Run, Failure> {
    engine::run(plan, scenario, std::env::args().collect(), control, seen)
        .map_err(|error| Failure::new(format!("cannot start the load test: {error}")))
}

/// Rejects combinations in which an option would be silently ignored.
fn check_combination(args: &LoadArgs) -> Result<(), Failure> {
    let who = &args.arrivals;
    let is_open = who.rate.is_some() || who.rates.is_some() || args.source.replay.is_some();
    let open_only = [("--connections", who.connections.is_some())];
    let closed_only = [("--every", who.every.is_some()), ("--think", who.think.is_some())];
    let (wrong, what) = if is_open { (&closed_only[..], "users") } else { (&open_only[..], "arrivals") };
    if let Some((name, _)) = wrong.iter().find(|(_, is_given)| *is_given) {
        let next =
            if is_open { "give --users or --ramp instead of a rate" } else { "give --rate or --rates" };
        return Err(Failure::new(format!("{name} works only with {what}")).next(next));
    }
    if args.source.replay.is_some() && (who.users.is_some() || who.ramp.is_some() || who.rounds.is_some()) {
        return Err(Failure::new("--replay has its own visitors").next("omit --users, or use --urls-from"));
    }
    if args.protocol.pipeline > 1 && args.source.scenario.is_some() {
        return Err(
            Failure::new("--pipeline works only with single requests").next("omit it with --scenario")
        );
    }
    check_rounds(args, is_open)
}

/// Rounds have users, and automatic rounds choose when they end.
fn check_rounds(args: &LoadArgs, is_open: bool) -> Result<(), Failure> {
    let who = &args.arrivals;
    let Some(rounds) = &who.rounds else { return Ok(()) };
    let wrong = |what: &str, next: &str| Err(Failure::new(what).next(next));
    if is_open || who.ramp.is_some() || who.hold.is_some() {
        return wrong("--rounds has its own numbers of users", "omit the other load, or omit --rounds");
    }
    match rounds {
        Rounds::Users(_) if who.users.is_some() => {
            wrong("--rounds has its own numbers of users", "omit --users, or write --rounds auto")
        }
        Rounds::Users(_) if args.tuning.tune => {
            wrong("--tune works only with --rounds auto", "write --rounds auto")
        }
        Rounds::Auto if !args.stop.fail_if.is_empty() => wrong(
            "--fail-if doesn't work with --rounds auto, which puts on more load than the server holds",
            "omit it; --slo says what a load must fulfil",
        ),
        Rounds::Users(_) if !args.stop.slo.is_empty() => {
            wrong("--slo works only with --rounds auto", "write --rounds auto, or use --fail-if")
        }
        Rounds::Auto if args.stop.requests.is_some() || args.stop.bisect => {
            wrong("--requests and --bisect don't work with --rounds auto", "give --time for each round")
        }
        Rounds::Auto if who.time.is_some_and(|time| time < watch::LEAST_ROUND) => {
            wrong("a round of --rounds auto takes 2 s or more", "the doctor needs that long: --time 10s")
        }
        Rounds::Auto | Rounds::Users(_) => Ok(()),
    }
}

fn scenario_of(args: &LoadArgs, plan: &Plan) -> Result<Scenario, Failure> {
    let mut scenario = sources::scenario(args, plan)?;
    let what = &args.scenario;
    scenario.cookies |= what.cookies;
    scenario.browser_cache |= what.browser_cache;
    scenario.fields.extend(what.fields.iter().cloned());
    let dynamic = what.dynamic.iter().cloned();
    scenario.dynamic.extend(dynamic.map(|(before, after)| Dynamic { before, after }));
    for step in scenario.flows.iter_mut().flat_map(|flow: &mut Flow| &mut flow.steps) {
        adapt(step, args);
    }
    Ok(scenario)
}

/// Applies the command line's options for all requests to a step.
fn adapt(step: &mut Step, args: &LoadArgs) {
    let what = &args.scenario;
    step.page |= what.page;
    step.redirects = what.redirects.or(step.redirects);
    if step.request.method == "GET" {
        step.request = Request {
            method: what.method.to_ascii_uppercase(),
            body: what.data.clone().unwrap_or_default().into_bytes(),
            ..std::mem::take(&mut step.request)
        };
    }
    if !what.status.is_empty() {
        step.checks.push(Check::Status(what.status.clone()));
    }
    step.checks.extend(what.text.iter().cloned().map(Check::Text));
    step.checks.extend(what.no_text.iter().cloned().map(Check::NoText));
    step.checks.extend(what.length.map(Check::Length));
}

fn plan_of(args: &LoadArgs) -> Result<Plan, Failure> {
    let (who, how) = (&args.arrivals, &args.protocol);
    let arrivals =
        if who.rate.is_some() || who.rates.is_some() { ArrivalModel::Open } else { ArrivalModel::Closed };
    Ok(Plan {
        arrivals,
        curve: curve_of(args),
        every: who.every,
        think: who.think,
        connections: who.connections,
        page_connections: args.scenario.page_connections,
        http2: how.http2,
        keep_alive: !how.no_keep_alive,
        pipeline: how.pipeline,
        resumption: !how.full_handshakes,
        certificates: certificates_of(args)?,
        accept_encoding: how.accept_encoding.clone(),
        timeout: how.timeout,
        threads: args.tester.threads,
        sameness: !args.scenario.no_sameness,
        stop: Stop {
            requests: args.stop.requests,
            failed_share: args.stop.break_at,
            p99: args.stop.break_p99,
            window: args.stop.window,
        },
        bisect: args.stop.bisect,
        connect_to: how.connect_to,
        sources: how.source.clone(),
    })
}

fn certificates_of(args: &LoadArgs) -> Result<Certificates, Failure> {
    let file = match &args.protocol.verify_certificate {
        None => return Ok(Certificates::Any),
        Some(Some(file)) => file.clone(),
        Some(None) => millrace_server::system_certificates().ok_or_else(|| {
            Failure::new("the system has no trusted certificate authorities")
                .next("install the package ca-certificates, or give a file: --verify-certificate=FILE")
        })?,
    };
    std::fs::metadata(&file).or_fail(|| format!("cannot read {}", file.display()))?;
    Ok(Certificates::TrustedBy(file))
}

fn curve_of(args: &LoadArgs) -> Curve {
    let who = &args.arrivals;
    // Counted requests are waited for; a day is for ever.
    let usual = Duration::from_secs(if args.stop.requests.is_some() { 86_400 } else { 10 });
    let time = who.time.unwrap_or(usual);
    let mut curve = match (&who.ramp, &who.rates, &who.rounds, who.rate) {
        (Some(curve), ..) | (_, Some(curve), ..) => curve.clone(),
        (_, _, Some(Rounds::Users(rounds)), _) => {
            let round = |users: &u32| {
                let users = f64::from(*users);
                Segment { from: users, to: users, time, round: true }
            };
            Curve { stages: rounds.iter().map(round).collect() }
        }
        (.., Some(rate)) => Curve::constant(rate, time),
        _ => Curve::constant(f64::from(who.users.unwrap_or(10)), time),
    };
    if let (Some(time), Some(last)) = (who.hold, curve.stages.last()) {
        curve.stages.push(Segment { from: last.to, to: last.to, time, round: false });
    }
    curve
}

/// Load is only for servers of one's own.
fn check_target(args: &LoadArgs, origin: &Origin) -> Result<SocketAddr, Failure> {
    let address = match args.protocol.connect_to {
        Some(address) => address,
        None => engine::resolve(origin).map_err(|error| {
            Failure::new(format!("cannot find the server: {error}"))
                .next("check the name, or give the server's address: --connect-to ADDR:PORT")
        })?,
    };
    own(origin, address, args.tester.i_own_this_target)
}

/// The address, if it is on this machine or a private network, or its owner has been confirmed.
pub fn own(origin: &Origin, address: SocketAddr, is_confirmed: bool) -> Result<SocketAddr, Failure> {
    if is_confirmed || engine::is_private(address.ip()) {
        return Ok(address);
    }
    Err(Failure::new(format!("{origin} ({}) is not on this machine or a private network", address.ip()))
        .detail(
            "without its owner's consent, a load test is an attack: it can take the server down, cost its owner \
             money, and is a crime in many countries",
        )
        .next("if you own it, or have its owner's permission, add --i-own-this-target"))
}

/// The first Ctrl-C (or SIGTERM) ends the run with its results, the second one ends at once.
fn stop_on_interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let seen = interrupted.clone();
    let on_signal = move || {
        if seen.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    engine::on_interrupt(on_signal).or_fail(|| "cannot wait for signals".to_owned())?;
    Ok(interrupted)
}
