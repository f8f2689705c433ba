//! The applications' part of the status.

use std::fmt::Write;

use serde_json::{Value, json};

use super::status::grouped;
use crate::serve::ApplicationStatus;

/// Status text: a line for each application that has got requests or checks.
pub fn write(text: &mut String, applications: &[ApplicationStatus]) -> std::fmt::Result {
    if !applications.is_empty() {
        writeln!(text, "\nApplications")?;
    }
    for application in applications {
        writeln!(
            text,
            "  {} {}: {} connections, {} busy; {} requests, {} failures",
            application.url,
            if application.up { "up" } else { "DOWN" },
            application.connections,
            application.busy,
            grouped(application.requests),
            grouped(application.failures)
        )?;
        if let Some(trouble) = &application.trouble {
            writeln!(text, "    {trouble}")?;
        }
    }
    Ok(())
}

/// Status as JSON.
pub fn json(application: &ApplicationStatus) -> Value {
    json!({
        "url": application.url,
        "up": application.up,
        "connections": application.connections,
        "busy": application.busy,
        "requests": application.requests,
        "failures": application.failures,
        "trouble": application.trouble,
    })
}
