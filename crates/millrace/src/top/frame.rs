//! A frame of `top`: from what the server says to lines of text. Everything that is shown comes from the server's JSON, some of it from
//! visitors, so control characters never reach the terminal.

use std::cmp::Ordering;

use serde_json::Value;

use super::findings;

/// What the server said.
pub struct Snapshot {
    /// `/status.json`
    pub status: Value,
    /// `/history.json`
    pub history: Value,
    /// `/doctor.json`
    pub doctor: Value,
}

/// What the person at the terminal has chosen.
#[derive(Default)]
pub struct View {
    /// The column by which sites are sorted.
    pub sort: Sort,
    /// Whether the least comes first.
    pub reversed: bool,
    /// A part of the names of the sites that are shown.
    pub filter: String,
    /// The selected site, counted from the first shown.
    pub selected: usize,
    /// Whether the doctor's findings are shown instead of sites and PHP, and how many of their lines are scrolled away.
    pub findings: Option<usize>,
    /// What the last line asks.
    pub question: Option<Question>,
    /// What came of the last order.
    pub message: Option<String>,
}

/// A question in the last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Which sites to show.
    Filter,
    /// Whether to purge all pages of this site.
    Purge(String),
}

/// A column of the sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Requests per second.
    #[default]
    Rate,
    /// Requests that run PHP, per second.
    Php,
    /// Mean time of PHP.
    Time,
    /// Errors per second.
    Errors,
    /// The name.
    Name,
}

impl Sort {
    /// The next column.
    pub fn next(self) -> Sort {
        match self {
            Sort::Rate => Sort::Php,
            Sort::Php => Sort::Time,
            Sort::Time => Sort::Errors,
            Sort::Errors => Sort::Name,
            Sort::Name => Sort::Rate,
        }
    }

    /// The member of a site's rates.
    fn member(self) -> Option<&'static str> {
        match self {
            Sort::Rate => Some("requests_per_second"),
            Sort::Php => Some("php_per_second"),
            Sort::Time => Some("php_mean_ms"),
            Sort::Errors => Some("errors_per_second"),
            Sort::Name => None,
        }
    }
}

/// A line of a frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// Its text, not wider than the frame.
    pub text: String,
    /// Whether it is emphasized.
    pub is_strong: bool,
}

/// Pools and slow scripts that are shown.
const POOLS: usize = 3;
const SCRIPTS: usize = 3;
/// Columns for the numbers beside a name.
const NUMBERS: usize = 48;

const KEYS: &str = "q quit  s sort  r reverse  / filter  j k select  p purge the site  d doctor";
const KEYS_OF_FINDINGS: &str = "q quit  j k scroll  d back";

/// A frame of at most `width` columns and exactly `height` lines.
pub fn draw(now: &Snapshot, view: &View, (width, height): (usize, usize)) -> Vec<Line> {
    let mut lines = head(now, width);
    let mut below = Vec::new();
    if view.findings.is_none() {
        below.extend(pools(now, width));
        below.extend(scripts(now, width));
        below.push(plain(causes(&now.status)));
    }
    below.push(strong(last_line(view)));
    let room = height.saturating_sub(lines.len() + below.len());
    match view.findings {
        Some(scrolled) => lines.extend(finding_lines(now, scrolled, width, room)),
        None => lines.extend(site_lines(now, view, width, room)),
    }
    lines.resize_with(height.saturating_sub(below.len()).max(lines.len()), || plain(String::new()));
    lines.extend(below);
    lines.truncate(height);
    for line in &mut lines {
        line.text = line.text.chars().take(width).map(|c| if c.is_control() { '?' } else { c }).collect();
    }
    lines
}

/// The doctor's findings below their title.
fn finding_lines(now: &Snapshot, scrolled: usize, width: usize, room: usize) -> Vec<Line> {
    let title = strong("What holds the server back".to_owned());
    let shown = findings::list(&now.doctor, width).into_iter().skip(scrolled);
    std::iter::once(title).chain(shown.take(room.saturating_sub(1))).collect()
}

/// How many lines of the findings can be scrolled away in a frame of this size: the last ones stay.
pub fn most_scrolled(now: &Snapshot, (width, height): (usize, usize)) -> usize {
    // Beside the head: the title and the last line.
    let rows = height.saturating_sub(head(now, width).len() + 2);
    findings::list(&now.doctor, width).len().saturating_sub(rows)
}

/// A line that is not emphasized.
pub fn plain(text: String) -> Line {
    Line { text, is_strong: false }
}

/// An emphasized line.
pub fn strong(text: String) -> Line {
    Line { text, is_strong: true }
}

fn head(now: &Snapshot, width: usize) -> Vec<Line> {
    let status = &now.status;
    let number = |pointer: &str| status.pointer(pointer).and_then(Value::as_f64);
    let whole = |pointer: &str| grouped(number(pointer).unwrap_or(0.0));
    let php = |member: &str| {
        each(status, "/php")
            .filter_map(|php| php.pointer(member)?.as_f64())
            .fold(0.0, |sum, value| sum + value)
    };
    let latest = |name: &str| minute(&now.history, name);
    let word = |member: &str| status[member].as_str().unwrap_or("").to_owned();
    let sites = each(status, "/sites").count();
    vec![
        strong(format!(
            "Millrace {}, {}, up {}, {sites} {}",
            word("version"),
            word("stage"),
            duration(number("/uptime_seconds").unwrap_or(0.0)),
            if sites == 1 { "site" } else { "sites" }
        )),
        plain(format!(
            "Requests     {}/s, {}/s sent; page cache hits {}",
            rate(number("/requests_per_second")),
            bytes(number("/sent_bytes_per_second").unwrap_or(0.0)),
            percent(latest("hit_ratio"))
        )),
        plain(format!(
            "Responses    50 % under {}, 95 % under {}; 5xx {}/s, {} in all",
            time(latest("p50_ms")),
            time(latest("p95_ms")),
            rate(latest("errors_per_second")),
            whole("/counters/replies_5xx_total")
        )),
        plain(format!(
            "PHP          {} of {} workers busy, {} requests waiting",
            grouped(php("/workers/running") + php("/workers/background")),
            grouped(php("/workers_most")),
            grouped(php("/waiting"))
        )),
        plain(format!(
            "Connections  {} open: {} idle, {} reading, {} running, {} writing",
            whole("/connections_open"),
            whole("/connections/idle"),
            whole("/connections/reading"),
            whole("/connections/running"),
            whole("/connections/writing")
        )),
        plain(findings::line(&now.doctor)),
        plain(curve(&now.history, width)),
    ]
}

/// A figure of the last minute, the time of all others of the frame: of its points by the requests that each had.
fn minute(history: &Value, name: &str) -> Option<f64> {
    /// Of five seconds each.
    const POINTS: usize = 12;
    let points = |name: &str| {
        let list = history.pointer(&format!("/hour/points/{name}")).and_then(Value::as_array);
        list.into_iter().flatten().rev().take(POINTS).map(Value::as_f64).collect::<Vec<_>>()
    };
    if name.ends_with("_per_second") {
        let all: Vec<f64> = points(name).into_iter().flatten().collect();
        return (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64);
    }
    let weighed = points(name).into_iter().zip(points("requests_per_second"));
    let weighed = weighed.filter_map(|(value, requests)| Some((value?, requests?)));
    let (sum, weight) = weighed.fold((0.0, 0.0), |(sum, all), (value, by)| (sum + value * by, all + by));
    (weight > 0.0).then(|| sum / weight)
}

/// The requests of the last minutes as a curve in one line.
fn curve(history: &Value, width: usize) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let rates = history.pointer("/hour/points/requests_per_second").and_then(Value::as_array);
    let rates: Vec<f64> = rates.into_iter().flatten().filter_map(Value::as_f64).collect();
    let most = rates.iter().rev().take(width).copied().fold(0.0, f64::max);
    let label = format!("Curve        0 to {}/s ", rate(Some(most)));
    let room = width.saturating_sub(label.chars().count());
    let shown = &rates[rates.len().saturating_sub(room)..];
    let step = |rate: &f64| STEPS[if most > 0.0 { ((rate / most * 7.0).round() as usize).min(7) } else { 0 }];
    label + &shown.iter().map(step).collect::<String>()
}

/// A site with its rates.
#[derive(Clone, Copy)]
pub struct SiteView<'a> {
    name: &'a str,
    lately: &'a Value,
    requests: Option<f64>,
}

impl SiteView<'_> {
    fn rate(&self, member: &str) -> Option<f64> {
        self.lately[member].as_f64()
    }
}

/// The sites that the view shows, in its order.
pub fn sites<'a>(now: &'a Snapshot, view: &View) -> Vec<SiteView<'a>> {
    let one = |site: &'a Value| SiteView {
        name: site.pointer("/names/0").and_then(Value::as_str).unwrap_or("default"),
        lately: &site["traffic"]["last_minute"],
        requests: site.pointer("/traffic/requests").and_then(Value::as_f64),
    };
    let filter = view.filter.to_lowercase();
    let mut sites: Vec<SiteView> = each(&now.status, "/sites")
        .map(one)
        .filter(|site| site.name.to_lowercase().contains(&filter))
        .collect();
    sites.sort_by(|a, b| {
        let order = match view.sort.member() {
            None => Ordering::Equal,
            Some(member) => b.rate(member).unwrap_or(-1.0).total_cmp(&a.rate(member).unwrap_or(-1.0)),
        };
        order.then_with(|| a.name.cmp(b.name))
    });
    if view.reversed {
        sites.reverse();
    }
    sites
}

/// The name of the selected site.
pub fn selected(now: &Snapshot, view: &View) -> Option<String> {
    sites(now, view).get(view.selected).map(|site| site.name.to_owned())
}

fn site_lines(now: &Snapshot, view: &View, width: usize, room: usize) -> Vec<Line> {
    let name = width.saturating_sub(NUMBERS + 2).max(12);
    let title = |text: &str, sort: Sort| if view.sort == sort { format!("{text}*") } else { text.to_owned() };
    let mut lines = vec![strong(format!(
        "  {:<name$}{:>9}{:>8}{:>8}{:>9}{:>8}{:>6}",
        title("Site", Sort::Name),
        title("req/s", Sort::Rate),
        "hits",
        title("PHP/s", Sort::Php),
        title("mean", Sort::Time),
        title("err/s", Sort::Errors),
        "all"
    ))];
    let sites = sites(now, view);
    let rows = room.saturating_sub(1).max(1);
    let first = (view.selected + 1).saturating_sub(rows);
    for (at, site) in sites.iter().enumerate().skip(first).take(rows) {
        let text = format!(
            "{} {}{:>9}{:>8}{:>8}{:>9}{:>8}{:>6}",
            if at == view.selected { '>' } else { ' ' },
            cell(site.name, name),
            rate(site.rate("requests_per_second")),
            percent(site.rate("hit_ratio")),
            rate(site.rate("php_per_second")),
            time(site.rate("php_mean_ms")),
            rate(site.rate("errors_per_second")),
            site.requests.map_or("-".to_owned(), short)
        );
        lines.push(Line { text, is_strong: at == view.selected });
    }
    if sites.is_empty() {
        lines.push(plain(format!("  no site's name contains {}", view.filter)));
    }
    lines
}

fn pools(now: &Snapshot, width: usize) -> Vec<Line> {
    let name = width.saturating_sub(NUMBERS + 2).max(12);
    let mut lines = vec![strong(format!(
        "  {:<name$}{:>9}{:>8}{:>8}{:>9}{:>8}",
        "PHP pool", "busy", "limit", "waiting", "mean", "refused"
    ))];
    let all = each(&now.status, "/php").flat_map(|php| each(php, "/pools").map(move |pool| (php, pool)));
    let mut all: Vec<(&Value, &Value)> = all.collect();
    let count = |pool: &Value, member: &str| pool[member].as_f64().unwrap_or(0.0);
    all.sort_by(|(_, a), (_, b)| {
        let busy = |pool: &Value| count(pool, "running") + count(pool, "waiting");
        busy(b).total_cmp(&busy(a)).then(count(b, "served").total_cmp(&count(a, "served")))
    });
    for (php, pool) in all.into_iter().take(POOLS) {
        let of = |value: &Value| value["name"].as_str().unwrap_or("").to_owned();
        lines.push(plain(format!(
            "  {}{:>9}{:>8}{:>8}{:>9}{:>8}",
            cell(&format!("{} {}", of(php), of(pool)), name),
            grouped(count(pool, "running")),
            grouped(count(pool, "limit")),
            grouped(count(pool, "waiting")),
            time(pool["service_seconds"].as_f64().map(|seconds| seconds * 1e3)),
            short(count(pool, "refused") + count(pool, "late"))
        )));
    }
    lines
}

fn scripts(now: &Snapshot, width: usize) -> Vec<Line> {
    let mut all: Vec<&Value> = each(&now.status, "/php").flat_map(|php| each(php, "/slowest")).collect();
    let took = |script: &Value| script["most_seconds"].as_f64().unwrap_or(0.0);
    all.sort_by(|a, b| took(b).total_cmp(&took(a)));
    let nothing = if all.is_empty() { ": none" } else { "" };
    let mut lines = vec![strong(format!("  Slowest scripts of the last minutes{nothing}"))];
    for script in all.into_iter().take(SCRIPTS) {
        let page = script["page"].as_str().unwrap_or("");
        let times = script["count"].as_f64().unwrap_or(0.0);
        let column = width.saturating_sub(19);
        // A name that is too long for its column stands in lines of its own, whole.
        let is_long = page.chars().count() >= column && width > 4;
        if is_long {
            let letters: Vec<char> = page.chars().collect();
            lines.extend(
                letters.chunks(width - 4).map(|part| plain(format!("  {}", part.iter().collect::<String>()))),
            );
        }
        lines.push(plain(format!(
            "  {}{:>9}{:>8}",
            cell(if is_long { "" } else { page }, column),
            time(Some(took(script) * 1e3)),
            format!("{}x", short(times))
        )));
    }
    lines
}

/// What bypassed the cache most often lately.
fn causes(status: &Value) -> String {
    let mut sums: Vec<(String, f64)> = Vec::new();
    for cause in each(status, "/cache/sites").flat_map(|site| each(site, "/bypassed_lately")) {
        let text = |member: &str| cause[member].as_str().unwrap_or("");
        let name = format!("{} {}", text("reason"), text("name")).trim_end().to_owned();
        let count = cause["count"].as_f64().unwrap_or(0.0);
        match sums.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += count,
            None => sums.push((name, count)),
        }
    }
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    let list: Vec<String> =
        sums.iter().take(3).map(|(name, count)| format!("{} {name}", short(*count))).collect();
    format!("Bypass       {}", if list.is_empty() { "no request lately".to_owned() } else { list.join(", ") })
}

fn last_line(view: &View) -> String {
    match (&view.question, &view.message) {
        (Some(Question::Filter), _) => format!("Sites whose name contains: {}_  (Enter, Esc)", view.filter),
        (Some(Question::Purge(site)), _) => {
            format!("Purge all cached pages of {site}? y: yes, any other key: no")
        }
        (None, Some(message)) => message.clone(),
        (None, None) if view.findings.is_some() => KEYS_OF_FINDINGS.to_owned(),
        (None, None) => KEYS.to_owned(),
    }
}

/// The elements of a list in a document.
fn each<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// A text in so many columns, the last one empty.
fn cell(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length < width {
        return format!("{text}{}", " ".repeat(width - length));
    }
    let start: String = text.chars().take(width.saturating_sub(2)).collect();
    format!("{start}… ")
}

fn rate(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(value) if value >= 100.0 => short(value),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn time(ms: Option<f64>) -> String {
    match ms {
        None => "-".to_owned(),
        Some(ms) if ms < 1.0 => format!("{:.0} us", ms * 1e3),
        Some(ms) if ms < 1e3 => format!("{ms:.*} ms", if ms < 10.0 { 1 } else { 0 }),
        Some(ms) => format!("{:.1} s", ms / 1e3),
    }
}

fn bytes(value: f64) -> String {
    match value {
        ..1024.0 => format!("{value:.0} B"),
        ..1_048_576.0 => format!("{:.1} KiB", value / 1024.0),
        _ => format!("{:.1} MiB", value / 1_048_576.0),
    }
}

/// At most five columns: 12345, 123k, 12M.
fn short(value: f64) -> String {
    match value {
        ..99_999.5 => format!("{value:.0}"),
        ..999_500.0 => format!("{:.0}k", value / 1e3),
        ..1e9 => format!("{:.0}M", value / 1e6),
        _ => format!("{:.0}G", value / 1e9),
    }
}

/// `1234567` as `1,234,567`.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

/// `5 s`, `2 min`, `1 h 2 min`, `1 d 1 h`.
pub fn duration(seconds: f64) -> String {
    let minutes = seconds as u64 / 60;
    match minutes {
        0 => format!("{seconds:.0} s"),
        1..60 => format!("{minutes} min"),
        60..1_440 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} d {} h", minutes / 1_440, minutes / 60 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn site(name: &str, rate: f64, mean: Option<f64>) -> Value {
        let lately = json!({ "requests_per_second": rate, "hit_ratio": 0.5, "php_per_second": rate / 2.0, "php_mean_ms": mean, "errors_per_second": 0.0 });
        json!({ "names": [name], "traffic": { "requests": 1234567, "last_minute": lately } })
    }

    fn now(sites: Vec<Value>) -> Snapshot {
        let pool = json!({ "name": "front", "running": 2, "limit": 4, "waiting": 1, "service_seconds": 0.0123, "refused": 3, "late": 0, "served": 9 });
        let slow = json!({ "page": "a.example/\u{1b}[2Jx", "most_seconds": 1.5, "count": 2 });
        let php = json!({ "name": "a.example", "workers": { "running": 2, "background": 0 }, "workers_most": 4, "waiting": 1, "pools": [pool], "slowest": [slow] });
        let causes = json!([{ "site": "a.example", "bypassed_lately": [{ "reason": "cookie", "name": "PHPSESSID", "count": 7 }] }]);
        Snapshot {
            status: json!({ "version": "0.1.0", "stage": "running", "uptime_seconds": 3725.0, "requests_per_second": 12.34, "sent_bytes_per_second": 2048.0,
                "counters": { "replies_5xx_total": 12345 }, "connections_open": 3, "php": [php], "cache": { "sites": causes }, "sites": sites }),
            history: json!({ "hour": { "points": { "requests_per_second": [0.0, 5.0, 10.0], "hit_ratio": [null, 0.5, 0.875], "p50_ms": [0.1], "p95_ms": [25.0], "errors_per_second": [0.0] } } }),
            doctor: json!({ "state": "examining", "seconds": 1.0 }),
        }
    }

    fn text(now: &Snapshot, view: &View, size: (usize, usize)) -> String {
        draw(now, view, size).into_iter().map(|line| line.text.trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn a_frame() {
        let now = now(vec![site("a.example", 2.0, Some(12.0)), site("b.example", 150.0, None)]);
        let expected = "\
Millrace 0.1.0, running, up 1 h 2 min, 2 sites
Requests     12.3/s, 2.0 KiB/s sent; page cache hits 75.0 %
Responses    50 % under 100 us, 95 % under 25 ms; 5xx 0/s, 12,345 in all
PHP          2 of 4 workers busy, 1 requests waiting
Connections  3 open: 0 idle, 0 reading, 0 running, 0 writing
Doctor       examining the server, for 1 s now
Curve        0 to 10.0/s ▁▅█
  Site                             req/s*    hits   PHP/s     mean   err/s   all
> b.example                           150  50.0 %    75.0        -       0    1M
  a.example                          2.00  50.0 %    1.00    12 ms       0    1M

  PHP pool                           busy   limit waiting     mean refused
  a.example front                       2       4       1    12 ms       3
  Slowest scripts of the last minutes
  a.example/?[2Jx                                                  1.5 s      2x
Bypass       7 cookie PHPSESSID
q quit  s sort  r reverse  / filter  j k select  p purge the site  d doctor
";
        assert_eq!(text(&now, &View::default(), (80, 17)), expected);
    }

    #[test]
    fn findings_are_scrolled_to_their_end_and_no_further() {
        let found = |n: usize| json!({ "severity": "note", "what": format!("finding {n}"), "evidence": [], "impact": "i", "cure": "c", "certainty": "low" });
        let report = json!({ "checked": 9, "findings": (0..9).map(found).collect::<Value>() });
        let now = Snapshot { doctor: json!({ "state": "ready", "report": report }), ..now(Vec::new()) };
        let shown = |scrolled| text(&now, &View { findings: Some(scrolled), ..View::default() }, (80, 24));
        let (top, end) = (shown(0), shown(most_scrolled(&now, (80, 24))));
        assert!(
            top.contains("Doctor       note: finding 0 (8 more: d)") && !top.contains("PHP pool"),
            "{top}"
        );
        assert!(top.contains("\nnote: finding 0\n") && !top.contains("\nnote: finding 8\n"), "{top}");
        assert!(end.contains("\nnote: finding 8\n") && end.contains("as root, does so."), "{end}");
        assert!(end.ends_with("d back\n") && end.lines().count() == 24, "{end}");
    }

    #[test]
    fn sites_are_sorted_filtered_and_scrolled() {
        let many = now((0..300)
            .map(|n| site(&format!("site{n:03}.example"), f64::from(n), Some(f64::from(300 - n))))
            .collect());
        let first = |view: &View| sites(&many, view)[0].name;
        assert_eq!(first(&View::default()), "site299.example");
        assert_eq!(first(&View { reversed: true, ..View::default() }), "site000.example");
        assert_eq!(first(&View { sort: Sort::Time, ..View::default() }), "site000.example");
        let filtered = View { filter: "SITE12".to_owned(), sort: Sort::Name, ..View::default() };
        assert_eq!((sites(&many, &filtered).len(), first(&filtered)), (10, "site120.example"));
        let low = View { selected: 150, ..View::default() };
        assert!(
            text(&many, &low, (80, 24)).contains("> site149.example"),
            "the selected site is always visible"
        );
        assert_eq!(selected(&many, &low).as_deref(), Some("site149.example"));
        let none = View { filter: "nowhere".to_owned(), ..View::default() };
        assert!(
            text(&many, &none, (80, 24)).contains("no site's name contains nowhere")
                && selected(&many, &none).is_none()
        );
    }

    #[test]
    fn every_size_fits() {
        let many = now((0..30).map(|n| site(&"x".repeat(100 + n), 1e9, Some(1e7))).collect());
        for size in [(80, 24), (40, 10), (200, 60), (1, 1), (0, 0)] {
            let none = Snapshot { status: json!({}), history: json!(null), doctor: json!(null) };
            for (now, findings) in [(&many, None), (&many, Some(3)), (&none, None), (&none, Some(0))] {
                let lines = draw(now, &View { findings, ..View::default() }, size);
                assert_eq!(lines.len(), size.1);
                assert!(lines.iter().all(|line| line.text.chars().count() <= size.0), "{size:?}");
            }
        }
    }

    #[test]
    fn figures() {
        assert_eq!([0.0, 999.0, 1234567.0].map(grouped), ["0", "999", "1,234,567"]);
        assert_eq!([5.0, 99_999.0, 123_456.0, 2e7, 3e9].map(short), ["5", "99999", "123k", "20M", "3G"]);
        assert_eq!([5.0, 125.0, 90_061.0].map(duration), ["5 s", "2 min", "1 d 1 h"]);
        assert_eq!(
            [Some(0.5), Some(5.0), Some(50.0), Some(5e3), None].map(time),
            ["500 us", "5.0 ms", "50 ms", "5.0 s", "-"]
        );
    }
}
