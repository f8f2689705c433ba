//! `millrace load`: the command line of the load tester.

mod args;
mod results;
mod sources;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use args::LoadArgs;
use millrace_load::engine::{self, Control};
use millrace_load::output::k6;
use millrace_load::plan::{Arrivals, Curve, Plan, Segment, Stop};
use millrace_load::scenario::{Check, Dynamic, Flow, Request, Scenario, Step};

use crate::failure::{Explain, Failure};
use results::Results;

/// Loads a server and shows how it bore that.
pub fn load(args: &LoadArgs) -> Result<(), Failure> {
    if !args.output.compare.is_empty() {
        return results::compare(&args.output);
    }
    let scenario = scenario_of(args)?;
    let plan = plan_of(args);
    if args.output.export.is_some() {
        print!("{}", k6::script(&scenario, &plan));
        return Ok(());
    }
    check_target(args, &scenario)?;
    let control = Control {
        interrupted: stop_on_interrupt()?,
        server_pids: args.tester.server_pid.clone(),
        metrics: args.tester.metrics.clone(),
    };
    let command = std::env::args().collect();
    let mut results = Results::new(&args.output);
    let run = engine::run(&plan, &scenario, command, &control, &mut |run| results.second(run))
        .map_err(|error| Failure::new(format!("the load test can't begin: {error}")))?;
    results.end(&run)
}

fn scenario_of(args: &LoadArgs) -> Result<Scenario, Failure> {
    let mut scenario = sources::scenario(args)?;
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

/// Puts what the command line says of all requests into a step.
fn adapt(step: &mut Step, args: &LoadArgs) {
    let what = &args.scenario;
    step.page |= what.page;
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

fn plan_of(args: &LoadArgs) -> Plan {
    let (who, how) = (&args.arrivals, &args.protocol);
    let arrivals = if who.rate.is_some() || who.rates.is_some() { Arrivals::Open } else { Arrivals::Closed };
    Plan {
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
    }
}

fn curve_of(args: &LoadArgs) -> Curve {
    let who = &args.arrivals;
    // Counted requests are waited for; a day is for ever.
    let is_counted = args.stop.requests.is_some();
    let time = if is_counted { std::time::Duration::from_secs(86_400) } else { who.time };
    let mut curve = match (&who.ramp, &who.rates, &who.rounds, who.rate) {
        (Some(curve), ..) | (_, Some(curve), ..) => curve.clone(),
        (_, _, Some(rounds), _) => {
            let round = |users: &u32| {
                let users = f64::from(*users);
                Segment { from: users, to: users, time: who.time, round: true }
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
fn check_target(args: &LoadArgs, scenario: &Scenario) -> Result<(), Failure> {
    if args.tester.i_own_this_target {
        return Ok(());
    }
    let address = match args.protocol.connect_to {
        Some(address) => address,
        None => engine::resolve(&scenario.origin)
            .map_err(|error| Failure::new(format!("there is no such server: {error}")))?,
    };
    if engine::is_private(address.ip()) {
        return Ok(());
    }
    Err(Failure::new(format!("{} ({}) is not on this machine or a private network", scenario.origin, address.ip()))
        .detail(
            "a load test is an attack on whoever has not agreed to it: it can take the server down, cost its owner money, and \
             is a crime in many countries",
        )
        .next("if it is yours, or its owner has agreed, say so with --i-own-this-target"))
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
    engine::on_interrupt(on_signal).or_fail(|| "signals can't be waited for".to_owned())?;
    Ok(interrupted)
}
