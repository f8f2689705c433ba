//! `GET /php.json`: what PHP is doing right now. Costs each busy worker nothing, and a PHP host at most a fork per second.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::AdminState;
use millrace_base::context::stats::{Insight, OpcacheRestart, RunningScript};

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
    count_restarts(&mut service, insight);
    service
}

/// opcache counts its restarts for itself; here none happens in place, and the new PHP begins at 0.
fn count_restarts(service: &mut Value, insight: &Insight) {
    let Some(figures) = service.pointer_mut("/opcache/opcache_statistics") else { return };
    for why in OpcacheRestart::ALL {
        if let Some(count) = figures.get(why.counter()).and_then(Value::as_u64) {
            figures[why.counter()] = json!(count + insight.restarts(why));
        }
    }
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

    #[test]
    fn restarts_of_opcache_are_counted_beyond_a_new_host() {
        let insight = Insight::default();
        let report =
            "{\"opcache\":{\"opcache_statistics\":{\"oom_restarts\":1,\"manual_restarts\":0,\"hits\":5}}}";
        insight.reported(report, std::time::Instant::now());
        (0..2).for_each(|_| insight.replaced(OpcacheRestart::Memory));
        insight.replaced(OpcacheRestart::Reset);
        insight.replaced(OpcacheRestart::Keys);
        let figures = &service("blog", &insight)["opcache"]["opcache_statistics"];
        assert_eq!(*figures, json!({ "oom_restarts": 3, "manual_restarts": 1, "hits": 5 }));
    }
}
