//! `GET /healthz` and `GET /readyz`: whether the process lives, and whether it should get requests.

use super::AdminState;
use super::http::AdminResponse;
use crate::context::ProcessStage;
use crate::context::stats::PhpStatus;

/// The process lives, or there would be no response.
pub fn alive() -> AdminResponse {
    AdminResponse::text(200, "ok\n")
}

/// 200, or 503 and the reasons, one per line. While the server starts, the admin address accepts connections but responds only
/// when all listeners are open, so a probe waits or times out.
pub fn ready(state: &AdminState) -> AdminResponse {
    let reasons = reasons(state.process.stage(), &(state.pools)());
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
    use crate::context::stats::BackendStatus;

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
