//! The dashboard for Grafana and the alerts for Prometheus ask for metrics that exist.

use std::collections::BTreeSet;

fn read(path: &str) -> String {
    let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts = text.match_indices("millrace_").map(|(at, _)| at);
    starts.map(|at| text[at..].chars().take_while(|c| is_name(*c)).collect()).collect()
}

/// The metrics of the generated page with their kinds; histograms by the names of their samples.
fn documented() -> BTreeSet<String> {
    let page = read("docs/counters.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.flat_map(|(name, rest)| match rest.starts_with("histogram") {
        true => ["bucket", "sum", "count"].map(|part| format!("{name}_{part}")).to_vec(),
        false => vec![name.to_owned()],
    })
    .collect()
}

#[test]
fn every_metric_exists() {
    let documented = documented();
    assert!(documented.len() > 100 && documented.contains("millrace_answer_seconds_bucket"));
    for (file, least) in [("packaging/monitoring/grafana.json", 25), ("packaging/monitoring/alerts.yml", 10)]
    {
        let asked = names(&read(file));
        let unknown: Vec<&String> = asked.difference(&documented).collect();
        assert!(
            unknown.is_empty(),
            "{file} asks for metrics that docs/counters.md does not have: {unknown:?}"
        );
        assert!(asked.len() >= least, "{file} asks for only {} metrics", asked.len());
    }
}

#[test]
fn the_dashboard_is_json_and_every_panel_has_a_query() {
    let board: serde_json::Value = serde_json::from_str(&read("packaging/monitoring/grafana.json")).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let curves: Vec<_> = panels.iter().filter(|panel| panel["type"] != "row").collect();
    assert!(curves.len() >= 10);
    for panel in curves {
        let targets = panel["targets"].as_array().unwrap();
        assert!(
            !targets.is_empty()
                && targets.iter().all(|t| t["expr"].as_str().is_some_and(|e| e.contains("millrace_"))),
            "{panel}"
        );
    }
}
