//! php-fpm's part of the status.

use std::fmt::Write;

use serde_json::{Value, json};

use super::php;
use super::status::grouped;
use millrace_base::context::stats::{BackendStatus, PhpStatus};

/// Status text: a line for the pool, and one for each backend.
pub fn write(text: &mut String, pool: &PhpStatus) -> std::fmt::Result {
    writeln!(
        text,
        "  {:<11} PHP over FastCGI; up to {} connections: {} idle, {} running; {} requests waiting",
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
    php::write_pools(text, pool)
}

/// Status as JSON.
pub fn json(backend: &BackendStatus) -> Value {
    json!({
        "address": backend.address,
        "up": backend.up,
        "connections": backend.connections,
        "connections_most": backend.most,
        "busy": backend.busy,
        "requests": backend.requests,
        "failures": backend.failures,
        "trouble": backend.trouble,
    })
}
