//! `GET /php.json`: what PHP is doing right now. Costs each busy worker nothing, and a PHP host at most a fork per second.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::AdminState;
use millrace_base::context::stats::{Insight, RunningScript};

/// How long the reports may take; what has not arrived by then is left out.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(2);

/// The response as a value.
pub(super) async fn value(state: &AdminState) -> Value {
    let services = state.service.setup().look_into_php();
    let deadline = Instant::now() + PATIENCE;
    while !services.iter().all(|(_, insight)| insight.is_complete()) && Instant::now() < deadline {
        tokio::time::sleep(PAUSE).await;
    }
    let services: Vec<Value> = services.iter().map(|(name, insight)| service(name, insight)).collect();
    json!({ "services": services })
}

fn service(name: &str, insight: &Insight) -> Value {
    let (running, report) = insight.get();
    // Lines of JSON from the host: each is an object.
    let mut service = json!({ "name": name, "running": running.iter().map(run).collect::<Value>() });
    for line in report.lines() {
        if let (Ok(Value::Object(members)), Some(service)) =
            (serde_json::from_str(line), service.as_object_mut())
        {
            service.extend(members);
        }
    }
    service
}

fn run(run: &RunningScript) -> Value {
    json!({
        "pid": run.pid,
        "script": run.script,
        "page": run.page,
        "seconds": run.time.as_secs_f64(),
        "waits": run.waits,
        "frames": run.frames,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_report_becomes_members() {
        let insight = Insight::default();
        insight.reported(
            "{\"opcache\":{\"opcache_enabled\":true}}\nnoise\n{\"php_version\":\"8.2\"}",
            std::time::Instant::now(),
        );
        let value = service("blog", &insight);
        assert_eq!(
            (&value["name"], &value["opcache"]["opcache_enabled"], &value["php_version"]),
            (&json!("blog"), &json!(true), &json!("8.2"))
        );
    }
}
