//! `GET /metrics`: the table of counters, and what is measured on request.

use std::time::UNIX_EPOCH;

use super::http::Answer;
use super::machine::Machine;
use super::pages::Figures;
use super::{State, VERSION, certificates};
use crate::context::stats::{Exposition, LaneStatus, PoolStatus, Row, table};

/// Everything as Prometheus text.
pub fn answer(state: &State) -> Answer {
    let mut out = Exposition::default();
    measured(&mut out, state);
    Figures::gather(&state.process).expose(&mut out);
    certificates::expose(&mut out, &state.process.acme.standing());
    pools(&mut out, &(state.pools)());
    state.process.stats.expose(&mut out);
    Answer::new(200, Exposition::MEDIA_TYPE, out.into_text())
}

fn measured(out: &mut Exposition, state: &State) {
    let machine = Machine::read();
    let started = state.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    out.family(&table::BUILD);
    out.sample(&table::BUILD, &[("version", VERSION)], 1);
    let seconds: [(&Row, f64); 2] =
        [(&table::STARTED, started.as_secs_f64()), (&table::CPU, machine.cpu.as_secs_f64())];
    for (row, value) in seconds {
        out.family(row);
        out.sample(row, &[], value);
    }
    let budget = &state.process.budget;
    let amounts: [(&Row, u64); 7] = [
        (&table::MEMORY, machine.memory),
        (&table::DESCRIPTORS, machine.descriptors),
        (&table::DESCRIPTOR_LIMIT, machine.descriptor_limit),
        (&table::CONNECTION_MEMORY, budget.used()),
        (&table::CONNECTION_BUDGET, budget.most().unwrap_or(0)),
        (&table::LISTEN_OVERFLOWS, machine.listen_overflows.unwrap_or(0)),
        (&table::LISTEN_DROPS, machine.listen_drops.unwrap_or(0)),
    ];
    for (row, value) in amounts {
        out.family(row);
        out.sample(row, &[], value);
    }
}

fn pools(out: &mut Exposition, pools: &[PoolStatus]) {
    out.family(&table::PHP_WORKERS);
    for pool in pools {
        for (state, count) in pool.workers() {
            out.sample(&table::PHP_WORKERS, &[("site", &pool.name), ("state", state)], count);
        }
    }
    let mut amounts = |row: &Row, value: fn(&PoolStatus) -> u64| {
        out.family(row);
        for pool in pools {
            out.sample(row, &[("site", &pool.name)], value(pool));
        }
    };
    amounts(&table::PHP_WORKERS_MOST, |pool| pool.most);
    amounts(&table::PHP_WAITING, |pool| pool.waiting);
    amounts(&table::PHP_MEMORY, |pool| pool.memory);
    amounts(&table::PHP_DATABASE_KEPT, |pool| pool.database.kept);
    amounts(&table::PHP_DATABASE_OPENED, |pool| pool.database.opened);
    amounts(&table::PHP_DATABASE_REUSED, |pool| pool.database.reused);
    let mut of_pools = |row: &Row, value: fn(&LaneStatus) -> f64| {
        out.family(row);
        for (pool, lane) in pools.iter().flat_map(|pool| pool.lanes.iter().map(move |lane| (pool, lane))) {
            out.sample(row, &[("site", &pool.name), ("pool", &lane.name)], value(lane));
        }
    };
    of_pools(&table::PHP_POOL_RUNNING, |lane| lane.running as f64);
    of_pools(&table::PHP_POOL_LIMIT, |lane| lane.limit as f64);
    of_pools(&table::PHP_POOL_WAITING, |lane| lane.waiting as f64);
    of_pools(&table::PHP_POOL_WAITING_ROOM, |lane| lane.waiting_room as f64);
    of_pools(&table::PHP_POOL_EXPECTED_WAIT, |lane| lane.expected_wait.unwrap_or_default().as_secs_f64());
    of_pools(&table::PHP_POOL_SERVED, |lane| lane.served as f64);
    of_pools(&table::PHP_POOL_REFUSED, |lane| lane.refused as f64);
    of_pools(&table::PHP_POOL_LATE, |lane| lane.late as f64);
}
