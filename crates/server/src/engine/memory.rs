//! The machine's free memory, and the connections' part of it.

use std::time::Duration;

use millrace_settings::plan::Server;

use crate::serve::Service;
use millrace_base::context::available_memory;
use millrace_base::context::budget::PLAIN_BYTES;
use millrace_base::context::log::Log;

/// Interval between checks.
pub const LOOK: Duration = Duration::from_secs(1);
/// Connections must not use this last part of the machine's memory, whatever their budget is.
const KEPT: u64 = 32;

/// Logs the memory budget of connections, and how it was computed.
pub fn announce(server: &Server, log: &Log) {
    let most = server.connection_memory;
    let (gigabytes, about) = (most as f64 / f64::from(1 << 30), most / PLAIN_BYTES);
    if most > 0 && !server.connection_memory_is_written {
        log.info(format_args!(
            "server.connection_memory = {gigabytes:.2} GB, enough for about {about} idle connections: {}",
            server.memory_shares
        ));
    }
}

/// If other programs use the machine's memory, connections get no more.
pub fn heed(service: &Service) {
    let setup = service.setup();
    let server = &setup.plan.server;
    if let Some(available) = available_memory().filter(|_| server.connection_memory > 0) {
        service.process.budget.heed(available, server.memory_shares.machine / KEPT);
    }
}
