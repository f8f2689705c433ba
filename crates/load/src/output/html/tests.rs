use super::super::samples;
use super::*;
use crate::output::document::{JsonStage, JsonTrial, Server};
use crate::output::own::MillraceSummary;

/// Writes a sample into the folder `MILLRACE_SAMPLES`, for viewing.
fn keep(name: &str, html: &str) {
    if let Ok(folder) = std::env::var("MILLRACE_SAMPLES") {
        std::fs::write(std::path::Path::new(&folder).join(name), html).unwrap();
    }
}

/// Elements are closed in the order in which they were opened.
fn assert_balanced(html: &str) {
    const VOID: [&str; 3] = ["meta", "link", "br"];
    let mut open = Vec::new();
    for tag in html.split('<').skip(1).filter(|tag| !tag.starts_with('!')) {
        let inside = tag.split('>').next().unwrap();
        let name = inside.split([' ', '\n']).next().unwrap();
        if let Some(closed) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed.to_owned()), "{tag}");
        } else if !VOID.contains(&name) && !inside.ends_with('/') {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

fn assert_self_contained(html: &str) {
    for outside in ["src=", "@import", "url(", "<script", "href=\"h", "href=\"/"] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn a_ramp() {
    let document = samples::ramp(1_000_000);
    let html = report(&document);
    keep("ramp.html", &html);
    assert_balanced(&html);
    assert_self_contained(&html);
    for text in [
        "Sluggish at 1,000,000 users",
        "850,000",
        "Ultra-fast",
        "Time to first byte",
        "--hold 3m",
        "a nonce in &lt;script&gt;",
    ] {
        assert!(html.contains(text), "{text}");
    }
    assert!(html.len() < 400_000, "{}", html.len());
}

#[test]
fn a_server_that_breaks() {
    let mut document = samples::breaking(100_000, 0.62);
    document.tester.bottlenecks.push("A thread was busy all the time: use --threads 4".to_owned());
    document.total.redirects = 4321;
    let own = MillraceSummary { cache_hits: 3, cache_misses: 1, ..MillraceSummary::default() };
    document.total.server = document.total.server.map(|server| Server { own: Some(own), ..server });
    document.bottleneck = Some("php-fpm: all 20 processes are busy (pm.max_children)".to_owned());
    let html = report(&document);
    keep("broken.html", &html);
    assert_balanced(&html);
    for text in [
        "Broke at 62,000 users",
        "The load tester reached its own limits",
        "4,321",
        "75 % hits of 4 lookups",
        "pm.max_children",
        "status 5xx",
        "connection reset",
    ] {
        assert!(html.contains(text), "{text}");
    }
}

#[test]
fn rounds_name_what_held_them_back() {
    let mut document = samples::ramp(2000);
    let round = |number: usize, stage: &JsonStage| JsonStage {
        name: format!("round {number}"),
        round: true,
        ..stage.clone()
    };
    document.stages =
        document.stages.iter().enumerate().map(|(index, stage)| round(index + 1, stage)).collect();
    let mut server = document.stages[1].summary.server.unwrap();
    (server.conntrack, server.conntrack_limit) = (Some(65_536), Some(65_536));
    document.stages[1].summary.server = Some(server);
    document.stages[2].bottleneck = Some("the 120 Mbit/s line".to_owned());
    assert!(!report(&document).contains("Conclusion"));
    document.stages[1].method = samples::method();
    document.total.pages = 4000;
    document.total.pages_per_second = 70.0;
    document.bisection = vec![
        JsonTrial { load: 400.0, held: true, why: "p99 31 ms".to_owned() },
        JsonTrial { load: 500.0, held: false, why: "p99 1.4 s".to_owned() },
    ];
    let html = report(&document);
    keep("rounds.html", &html);
    assert_balanced(&html);
    for text in [
        "<h2>Rounds</h2>",
        "connection tracking table is full (65,536 of 65,536)",
        "the 120 Mbit/s line",
        "Conclusion",
        "db-pool-size: the buffer pool is small (128 MB of 3 GB)",
        "innodb_buffer_pool_size 128M -&gt; 2048M",
        "kept: 31 % more",
        "Pages/s",
        "p99 1.4 s",
    ] {
        assert!(html.contains(text), "{text}");
    }
}

#[test]
fn two_servers() {
    let (a, b) = (samples::breaking(1_000_000, 0.62), samples::ramp(1_000_000));
    let html = comparison((&a, "nginx + php-fpm"), (&b, ""));
    keep("comparison.html", &html);
    assert_balanced(&html);
    assert_self_contained(&html);
    for text in ["nginx + php-fpm and Millrace under load", "nginx + php-fpm breaks", "not reached", "Ratio"]
    {
        assert!(html.contains(text), "{text}");
    }
    assert!(!html.contains("Before you compare"), "the same conditions");
    let mut other = a.clone();
    other.description.protocol = "HTTP/2 over TLS".to_owned();
    let html = comparison((&a, ""), (&other, ""));
    assert!(html.contains("The protocol differs") && html.contains("nginx/1.22.1 (A)"));
}

#[test]
fn what_has_hardly_begun() {
    let mut document = samples::ramp(10);
    document.seconds.truncate(1);
    assert_balanced(&report(&document));
    document.seconds.clear();
    document.stages.clear();
    let html = report(&document);
    assert_balanced(&html);
    assert!(html.contains("No request completed."));
    assert_balanced(&comparison((&document, ""), (&samples::ramp(10), "")));
}

#[test]
fn commands_can_be_typed_again() {
    let words = ["millrace", "load", "http://a/?x=1&y=2", "it's"].map(str::to_owned);
    assert_eq!(command_line(&words), "millrace load 'http://a/?x=1&y=2' 'it'\\''s'");
}
