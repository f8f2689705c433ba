//! `GET /healthz` and `GET /readyz`: whether the process lives and goes on, and whether it should get requests.

use std::time::Duration;

use super::AdminState;
use super::caller::Caller;
use super::http::{AdminRequest, AdminResponse};
use millrace_base::context::stats::PhpStatus;
use millrace_base::context::{HungLoop, ProcessStage};

/// Longest time for which an event loop is made to hang, seconds.
const LONGEST_HANG: u64 = 600;

/// The process lives, or there would be no response; its event loops go on, or the response names those that don't.
pub fn alive(state: &AdminState) -> AdminResponse {
    let hung = hung(state);
    match hung.is_empty() {
        true => AdminResponse::text(200, "ok\n"),
        false => AdminResponse::text(503, hung.join("\n") + "\n"),
    }
}

/// The event loops that hang, a sentence each.
fn hung(state: &AdminState) -> Vec<String> {
    state.service.process.pulses.hung().iter().map(HungLoop::text).collect()
}

/// Makes an event loop hang.
pub fn hang(state: &AdminState, asked: &AdminRequest) -> AdminResponse {
    if asked.caller != Caller::Owner {
        return AdminResponse::text(403, "Only through a Unix socket, which only its owner can open.\n");
    }
    let form = asked.form();
    let value = |name: &str| form.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let number = |name: &str| value(name).and_then(|value| value.parse::<u64>().ok());
    let (Some(number), Some(seconds @ 1..=LONGEST_HANG)) = (number("loop"), number("seconds")) else {
        let text = format!(
            "Send loop=NUMBER&seconds=1..{LONGEST_HANG}, and how=compute for a loop that does not sleep.\n"
        );
        return AdminResponse::text(422, text);
    };
    let computes = value("how") == Some("compute");
    match (state.hang)(number as usize, Duration::from_secs(seconds), computes) {
        true => AdminResponse::text(200, format!("event loop {number} hangs for {seconds} s\n")),
        false => AdminResponse::text(422, format!("there is no event loop {number}\n")),
    }
}

/// 200, or 503 and the reasons, one per line. While the server starts, the admin address accepts connections but responds only
/// when all listeners are open, so a probe waits or times out.
pub fn ready(state: &AdminState) -> AdminResponse {
    let mut reasons = reasons(state.service.process.stage(), &(state.pools)());
    reasons.extend(hung(state));
    match reasons.is_empty() {
        true => AdminResponse::text(200, "ready\n"),
        false => AdminResponse::text(503, reasons.join("\n") + "\n"),
    }
}

fn reasons(stage: ProcessStage, pools: &[PhpStatus]) -> Vec<String> {
    if stage == ProcessStage::Draining {
        return vec!["draining: the server is shutting down; send requests to another one".to_owned()];
    }
    pools.iter().filter_map(|php| Some(format!("PHP of {}: {}", php.name, why_not(php)?))).collect()
}

/// Why a PHP host can't run a script. php-fpm does not count: only a request tests whether a backend is up again, and a server that is
/// not ready would get none.
fn why_not(php: &PhpStatus) -> Option<String> {
    match &php.trouble {
        _ if !php.backends.is_empty() => None,
        Some(trouble) => Some(trouble.clone()),
        None if php.php_version.is_empty() => Some("starting".to_owned()),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_base::context::stats::BackendStatus;

    #[test]
    fn why_it_is_not_ready() {
        let running = PhpStatus { name: "a".into(), php_version: "8.2.7".into(), ..PhpStatus::default() };
        let starting = PhpStatus { name: "b".into(), ..PhpStatus::default() };
        let broken = PhpStatus { trouble: Some("no libphp".into()), ..running.clone() };
        let fpm = PhpStatus { backends: vec![BackendStatus::default()], ..starting.clone() };
        let of = |php: &PhpStatus| reasons(ProcessStage::Running, std::slice::from_ref(php));
        assert!(of(&running).is_empty() && of(&fpm).is_empty());
        assert!(reasons(ProcessStage::Running, &[]).is_empty());
        assert_eq!(of(&starting), ["PHP of b: starting"]);
        assert_eq!(of(&broken), ["PHP of a: no libphp"]);
        assert!(reasons(ProcessStage::Draining, &[running])[0].starts_with("draining"));
    }
}
