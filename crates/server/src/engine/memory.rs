//! The machine's memory: what is left of it, and what connections may have of that.

use std::time::Duration;

use millrace_settings::plan::Server;

use crate::context::available_memory;
use crate::context::budget::PLAIN_BYTES;
use crate::context::log::Log;
use crate::serve::Service;

/// How often it is looked at.
pub const LOOK: Duration = Duration::from_secs(1);
/// Connections may not grow into the last part of the machine's memory, whatever their budget is.
const KEPT: u64 = 32;

/// Says how much memory connections may have, and how that was found.
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

/// Where others have taken the machine's memory connections get no more of it.
pub fn heed(process: &Service) {
    let setup = process.setup();
    let server = &setup.plan.server;
    if let Some(available) = available_memory().filter(|_| server.connection_memory > 0) {
        process.budget.heed(available, server.memory_shares.machine / KEPT);
    }
}
