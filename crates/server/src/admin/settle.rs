//! `POST /debug/settle`: waits until all has ended that had begun before, so that whoever has made requests finds all that comes of them. Tests
//! send it instead of asking again and again.
//!
//! It covers the event loops' requests, responses that PHP still makes, scripts that go on behind them, pages that are made for the cache, warm-up visits - also of pages that
//! were purged before -, looks at databases and code that have begun, purges that PHP outside of Millrace has left, pages that wait to be written
//! to disk, and lines of both logs. It does not cover php-fpm behind its responses, starts and ends of PHP's processes, and reloads.

use std::time::{Duration, Instant};

use super::AdminState;
use super::caller::Caller;
use super::http::{AdminRequest, AdminResponse};

/// A request purges pages, a visit makes one of them again, that run purges others, and they are visited: what follows in a further round
/// is no more work of what began before.
const ROUNDS: usize = 4;
/// How often it looks at scripts that go on behind their responses.
const SCRIPTS_EVERY: Duration = Duration::from_millis(5);
/// How long it waits, seconds.
const USUAL: u64 = 30;
const LONGEST: u64 = 600;

/// 200 when all has ended; 503 and what has not when the time is over.
pub async fn settle(state: &AdminState, asked: &AdminRequest) -> AdminResponse {
    if asked.caller != Caller::Owner {
        return AdminResponse::text(403, "Only through a Unix socket, which only its owner can open.\n");
    }
    let form = asked.form();
    let seconds = form.iter().find(|(name, _)| name == "seconds").map(|(_, value)| value.parse::<u64>());
    let Ok(seconds @ 1..=LONGEST) = seconds.unwrap_or(Ok(USUAL)) else {
        return AdminResponse::text(
            422,
            format!("Send seconds=1..{LONGEST}, or nothing for {USUAL} seconds.\n"),
        );
    };
    let until = Instant::now() + Duration::from_secs(seconds);
    match tokio::time::timeout_at(until.into(), rounds(state, until)).await {
        Ok(response) => response,
        Err(_) => AdminResponse::text(503, format!("not settled after {seconds} s\n")),
    }
}

async fn rounds(state: &AdminState, until: Instant) -> AdminResponse {
    state.service.left_looks.settle(&state.service.process).await;
    for _ in 0..ROUNDS {
        // The loops say what is open, a moment before the time is over.
        let patience = until.saturating_duration_since(Instant::now()).mul_f32(0.9);
        match (state.settle)(patience).await {
            Ok(open) if open.is_none() => {}
            Ok(open) => return AdminResponse::text(503, format!("not settled: {open}\n")),
            Err(why) => return AdminResponse::text(503, format!("{why}\n")),
        }
        let left = scripts_end(state, Instant::now() + patience).await;
        if left > 0 {
            let scripts = if left == 1 { "script" } else { "scripts" };
            return AdminResponse::text(503, format!("not settled: {left} {scripts} without a client\n"));
        }
    }
    state.service.cache.disk().settle().await;
    state.service.process.log.settle().await;
    AdminResponse::text(200, "settled\n")
}

/// Waits for the scripts that run; they go on behind their responses, and purge then. How many still run when the time is over.
async fn scripts_end(state: &AdminState, until: Instant) -> usize {
    let mut runs = state.service.setup().php_runs();
    while !runs.is_empty() && Instant::now() < until {
        tokio::time::sleep(SCRIPTS_EVERY).await;
        let now = state.service.setup().php_runs();
        runs.retain(|run| now.contains(run));
    }
    runs.len()
}
