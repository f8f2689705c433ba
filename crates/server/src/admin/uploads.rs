//! Uploads that are running, in the status.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use super::status::bytes;
use millrace_base::message::request::Upload;

/// Uploads that the text lists: the oldest ones.
const SHOWN: usize = 10;

/// The member `uploads` of the status in JSON.
pub fn json(uploads: &[Arc<Upload>], now: Instant) -> Value {
    let one = |upload: &Arc<Upload>| {
        json!({
            "client": upload.client.map(|ip| ip.to_string()),
            "method": upload.method,
            "host": upload.host,
            "path": upload.path,
            "received_bytes": upload.received(),
            "total_bytes": upload.total,
            "seconds": seconds(upload, now),
        })
    };
    uploads.iter().map(one).collect()
}

/// Status text; empty if nothing is being uploaded.
pub fn write(text: &mut String, uploads: &[Arc<Upload>], now: Instant) -> std::fmt::Result {
    if uploads.is_empty() {
        return Ok(());
    }
    writeln!(text, "{:<14}{} running", "Uploads", uploads.len())?;
    for upload in uploads.iter().take(SHOWN) {
        let received = upload.received();
        let rate = received as f64 / seconds(upload, now).max(0.001);
        let of = match upload.total {
            Some(total) => {
                format!("of {}, {} %", bytes(total), (received as f64 * 100.0 / total.max(1) as f64) as u64)
            }
            None => "so far".to_owned(),
        };
        let client = upload.client.map_or("a Unix socket".to_owned(), |ip| ip.to_string());
        let Upload { method, host, path, .. } = &**upload;
        writeln!(
            text,
            "  {:<12}{} {of}, {}/s from {client}: {method} {host}{path}",
            "",
            bytes(received),
            bytes(rate as u64)
        )?;
    }
    match uploads.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(text, "  {:<12}and {more} more", ""),
    }
}

fn seconds(upload: &Upload, now: Instant) -> f64 {
    now.saturating_duration_since(upload.since).as_secs_f64()
}
