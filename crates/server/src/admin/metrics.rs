//! `GET /metrics`: the table of counters, and what is measured on request.

use std::time::{Instant, UNIX_EPOCH};

use super::http::AdminResponse;
use super::machine::Machine;
use super::pages::CacheFigures;
use super::{AdminState, VERSION, certificates, objects, rewind, sites};
use millrace_base::context::stats::{Exposition, PhpStatus, PoolStatus, Row, table};

/// Everything as Prometheus text.
pub fn answer(state: &AdminState, now: Instant) -> AdminResponse {
    let mut out = Exposition::default();
    measured(&mut out, state);
    sites::expose(&mut out, &state.service.process.stats.sites());
    CacheFigures::gather(&state.service, now).expose(&mut out);
    objects::expose(&mut out, &objects::gather(&state.service.setup().plan, &state.objects));
    certificates::expose(&mut out, &(state.certificates)());
    let php = (state.pools)();
    pools(&mut out, &php);
    rewind::expose(&mut out, &php);
    state.service.process.stats.expose(&mut out);
    AdminResponse::new(200, Exposition::MEDIA_TYPE, out.into_text())
}

fn measured(out: &mut Exposition, state: &AdminState) {
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
    let budget = &state.service.process.budget;
    let amounts: [(&Row, u64); 8] = [
        (&table::LOOPS_HUNG, state.service.process.pulses.hung().len() as u64),
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

fn pools(out: &mut Exposition, pools: &[PhpStatus]) {
    out.family(&table::PHP_WORKERS);
    for php in pools {
        for (state, count) in php.workers() {
            out.sample(&table::PHP_WORKERS, &[("site", &php.name), ("state", state)], count);
        }
    }
    let mut amounts = |row: &Row, value: fn(&PhpStatus) -> u64| {
        out.family(row);
        for php in pools {
            out.sample(row, &[("site", &php.name)], value(php));
        }
    };
    amounts(&table::PHP_WORKERS_MOST, |php| php.most);
    amounts(&table::PHP_WAITING, |php| php.waiting);
    amounts(&table::PHP_MEMORY, |php| php.memory);
    let mut of_pools = |row: &Row, value: fn(&PoolStatus) -> f64| {
        out.family(row);
        for (php, pool) in pools.iter().flat_map(|php| php.pools.iter().map(move |pool| (php, pool))) {
            out.sample(row, &[("site", &php.name), ("pool", &pool.name)], value(pool));
        }
    };
    of_pools(&table::PHP_POOL_RUNNING, |pool| pool.running as f64);
    of_pools(&table::PHP_POOL_LIMIT, |pool| pool.limit as f64);
    of_pools(&table::PHP_POOL_WAITING, |pool| pool.waiting as f64);
    of_pools(&table::PHP_POOL_WAITING_ROOM, |pool| pool.waiting_room as f64);
    of_pools(&table::PHP_POOL_EXPECTED_WAIT, |pool| pool.expected_wait.unwrap_or_default().as_secs_f64());
    of_pools(&table::PHP_POOL_SERVED, |pool| pool.served as f64);
    of_pools(&table::PHP_POOL_REFUSED, |pool| pool.refused as f64);
    of_pools(&table::PHP_POOL_LATE, |pool| pool.late as f64);
}
