//! php-fpm's part of the status.

use std::fmt::Write;

use super::json::Json;
use super::status::grouped;
use crate::context::stats::{BackendStatus, PoolStatus};

/// Status text: a line for the pool, and one for each backend.
pub fn write(text: &mut String, pool: &PoolStatus) -> std::fmt::Result {
    writeln!(
        text,
        "  {:<12}PHP over FastCGI; up to {} connections: {} idle, {} running; {} requests waiting",
        pool.name, pool.most, pool.idle, pool.running, pool.waiting
    )?;
    for backend in &pool.backends {
        let most = backend.most.map(|most| format!(" of {most}")).unwrap_or_default();
        writeln!(
            text,
            "  {:<12}{} {}: {}{most} connections, {} busy; {} requests, {} failures",
            "",
            backend.address,
            if backend.up { "up" } else { "DOWN" },
            backend.connections,
            backend.busy,
            grouped(backend.requests),
            grouped(backend.failures)
        )?;
        if let Some(trouble) = &backend.trouble {
            writeln!(text, "  {:<12}  {trouble}", "")?;
        }
    }
    Ok(())
}

/// Status as JSON.
pub fn json(backend: &BackendStatus) -> Json {
    Json::object([
        ("address", backend.address.as_str().into()),
        ("up", backend.up.into()),
        ("connections", backend.connections.into()),
        ("connections_most", backend.most.into()),
        ("busy", backend.busy.into()),
        ("requests", backend.requests.into()),
        ("failures", backend.failures.into()),
        ("trouble", backend.trouble.clone().into()),
    ])
}
