//! The end of a run on a terminal: its results in a screen of text.

use std::fmt::Write;

use super::document::{Document, JsonWrong, Latency, Method, Summary};
use super::figures::{bytes, count, grouped, percent, span, time};
use super::html::{self, headline, words_of};
use super::survival::{self, Level};

/// The final table, with a line end at its end.
pub fn table(document: &Document) -> String {
    let mut text = String::new();
    // Writing to memory can't fail.
    let _ = write_all(document, &mut text);
    text
}

/// Two runs at the same levels, in the shape of the published table, as Markdown.
pub fn comparison(a: (&Document, &str), b: (&Document, &str)) -> String {
    let names = html::names(a, b);
    let runs = [(a.0, names[0].as_str()), (b.0, names[1].as_str())];
    let open = runs.iter().all(|(document, _)| document.description.open);
    let mut text = format!("| {} |", if open { "arrivals per second" } else { "concurrent users" });
    for (_, name) in runs {
        let _ = write!(text, " {name}: first byte, 50 % / 99 % | success | CPU | memory | verdict |");
    }
    let _ = writeln!(text, "\n| ---: |{}", " ---: | ---: | ---: | ---: | --- |".repeat(2));
    for levels in survival::levels_of_both(runs.map(|(document, _)| document)) {
        let _ = write!(text, "| {} |", count(levels[0].load));
        for ((document, _), level) in runs.iter().zip(&levels) {
            let _ = write!(text, " {} |", compared_cells(document, level));
        }
        text.push('\n');
    }
    text
}

fn compared_cells(document: &Document, level: &Level) -> String {
    let Some(point) = level.point else { return "- | - | - | - | not reached".to_owned() };
    let cores = document.description.machine.cores.max(1) as f64;
    [
        format!("{} / {}", time(point.first_byte.p50_us as f64), time(point.first_byte.p99_us as f64)),
        percent(point.success),
        point.server.cpu.map_or("-".to_owned(), |cpu| format!("{:.0} %", cpu / cores * 100.0)),
        point.server.memory_bytes.map_or("-".to_owned(), |memory| bytes(memory as f64)),
        point.verdict().name().to_owned(),
    ]
    .join(" | ")
}

fn write_all(document: &Document, text: &mut String) -> std::fmt::Result {
    let total = &document.total;
    writeln!(text, "{}", headline(document))?;
    writeln!(text, "{:<14}{}, {}", "Ended", document.outcome.text, span(document.elapsed_seconds))?;
    let target = &document.description;
    writeln!(
        text,
        "{:<14}{} {}, {}, {}\n",
        "Target", target.target, target.scenario, target.arrivals, target.protocol
    )?;
    writeln!(
        text,
        "{:<14}{} of {} successful ({}), {} per second",
        "Responses",
        grouped(total.ok),
        grouped(total.ok + total.failed),
        percent(total.success_share),
        count(total.ok_per_second)
    )?;
    if total.pages + total.pages_failed > 0 {
        let (pages, failed) = (grouped(total.pages), grouped(total.pages_failed));
        writeln!(
            text,
            "{:<14}{pages} full page loads, {} per second, {failed} failed",
            "Pages",
            count(total.pages_per_second)
        )?;
    }
    writeln!(
        text,
        "{:<14}{} received ({}/s), {} sent; {} connections opened{}",
        "Transfer",
        bytes(total.bytes_in as f64),
        bytes(total.bytes_in_per_second),
        bytes(total.bytes_out as f64),
        grouped(total.connects),
        match total.redirects {
            0 => String::new(),
            followed => format!("; {} redirects followed", grouped(followed)),
        }
    )?;
    write_server(total, text)?;
    write_latencies(total, text)?;
    write_failures(total, text)?;
    write_steps(document, text)?;
    write_stages(document, text)?;
    write_levels(document, text)?;
    for trial in &document.bisection {
        let held = if trial.held { "holds" } else { "breaks" };
        writeln!(text, "{:<14}{} {held}: {}", "Trial", count(trial.load), trial.why)?;
    }
    if let Some(bottleneck) = &document.bottleneck {
        writeln!(text, "\n{:<14}{bottleneck}", "Bottleneck")?;
    }
    for line in &document.tester.bottlenecks {
        writeln!(text, "\nwarning: the load tester reached its own limit: {line}")?;
    }
    document.notes.iter().try_for_each(|note| writeln!(text, "note: {note}"))
}

fn write_server(total: &Summary, text: &mut String) -> std::fmt::Result {
    let Some(server) = &total.server else { return Ok(()) };
    let cpu = server.cpu.map_or("?".to_owned(), |cpu| format!("{cpu:.2}"));
    let memory = server.memory_bytes.map_or("?".to_owned(), |memory| bytes(memory as f64));
    writeln!(text, "{:<14}{cpu} cores on average, peak memory {memory}", "Server")?;
    let own = server.own.map(|own| own.words()).unwrap_or_default();
    if own.is_empty() { Ok(()) } else { writeln!(text, "{:<14}{}", "  reports", own.join("; ")) }
}

fn write_latencies(total: &Summary, text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "\n{:<14}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "Time", "mean", "50 %", "90 %", "99 %", "99.9 %", "max"
    )?;
    for (name, Latency { mean_us, p50_us, p90_us, p99_us, p999_us, max_us, .. }) in total.latencies() {
        write!(text, "{name:<14}{:>10}", time(*mean_us))?;
        for us in [p50_us, p90_us, p99_us, p999_us, max_us] {
            write!(text, "{:>10}", time(*us as f64))?;
        }
        writeln!(text)?;
    }
    Ok(())
}

fn write_failures(total: &Summary, text: &mut String) -> std::fmt::Result {
    if total.failed == 0 {
        return Ok(());
    }
    writeln!(text, "\n{:<26}{:>12}", "Failed", grouped(total.failed))?;
    for (kind, number) in &total.failures {
        writeln!(text, "  {:<24}{:>12}", words_of(kind), grouped(*number))?;
    }
    let statuses: Vec<String> =
        total.statuses.iter().map(|(status, number)| format!("{status}: {}", grouped(*number))).collect();
    if statuses.is_empty() { Ok(()) } else { writeln!(text, "  by status: {}", statuses.join(", ")) }
}

fn write_stages(document: &Document, text: &mut String) -> std::fmt::Result {
    if document.stages.len() < 2 {
        return Ok(());
    }
    let with_pages = document.total.pages > 0;
    let rate = if with_pages { "pages/s" } else { "ok/s" };
    writeln!(text, "\n{:<26}{:>8}{:>10}{:>10}{:>10}{:>10}", "Stage", "time", rate, "50 %", "99 %", "failed")?;
    for stage in &document.stages {
        let summary = &stage.summary;
        let (rate, latency) = if with_pages {
            (summary.pages_per_second, &summary.page)
        } else {
            (summary.ok_per_second, &summary.last_byte)
        };
        writeln!(
            text,
            "{:<26}{:>8}{:>10}{:>10}{:>10}{:>10}",
            stage.name,
            span(summary.seconds.round()),
            count(rate),
            time(latency.p50_us as f64),
            time(latency.p99_us as f64),
            grouped(summary.failed)
        )?;
        let Method { held_back, change, conclusion } = &stage.method;
        let change = change.as_ref().map(|change| ("changed", change.words()));
        let found = held_back.as_ref().map(|found| ("held back", found.words()));
        let conclusion = conclusion.as_ref().map(|conclusion| ("so", conclusion.clone()));
        for (name, words) in [change, found, conclusion].into_iter().flatten() {
            writeln!(text, "  {name:<10}{words}")?;
        }
    }
    Ok(())
}

/// Steps that are shown on a terminal; the report and the JSON file have all.
const MOST_STEPS: usize = 20;
/// Characters of a step's name on a terminal.
const STEP_WIDTH: usize = 72;

/// The steps, if there are several; and what was wrong with their content.
fn write_steps(document: &Document, text: &mut String) -> std::fmt::Result {
    let steps = &document.steps;
    if steps.len() > 1 {
        writeln!(text, "\n{:>12}{:>10}{:>10}{:>10}  step", "successful", "failed", "50 %", "99 %")?;
    }
    for step in steps.iter().take(if steps.len() > 1 { MOST_STEPS } else { 0 }) {
        let name: String = step.name.chars().take(STEP_WIDTH).collect();
        let times = [step.last_byte.p50_us, step.last_byte.p99_us].map(|us| match step.last_byte.count {
            0 => "-".to_owned(),
            _ => time(us as f64),
        });
        let [p50, p99] = times;
        writeln!(text, "{:>12}{:>10}{p50:>10}{p99:>10}  {name}", grouped(step.ok), grouped(step.failed))?;
    }
    if steps.len() > MOST_STEPS {
        writeln!(text, "{:>44}{} more: --report or --json", "", steps.len() - MOST_STEPS)?;
    }
    for step in steps {
        for JsonWrong { target, expected, found } in &step.wrong {
            writeln!(text, "\nWrong content in {}", step.name)?;
            if !step.name.ends_with(target) {
                writeln!(text, "  URL       {target}")?;
            }
            writeln!(text, "  expected  {expected}\n  found     {found}")?;
        }
    }
    Ok(())
}

fn write_levels(document: &Document, text: &mut String) -> std::fmt::Result {
    let levels = survival::levels(document);
    if levels.len() < 2 {
        return Ok(());
    }
    let load = if document.description.open { "Arrivals/s" } else { "Users" };
    writeln!(
        text,
        "\n{load:<14}{:>10}{:>10}{:>10}{:>8}{:>12}  verdict",
        "50 %", "99 %", "success", "CPU", "memory"
    )?;
    let cores = document.description.machine.cores.max(1) as f64;
    for level in levels {
        let Some(point) = level.point else { continue };
        writeln!(
            text,
            "{:<14}{:>10}{:>10}{:>10}{:>8}{:>12}  {}",
            count(level.load),
            time(point.first_byte.p50_us as f64),
            time(point.first_byte.p99_us as f64),
            percent(point.success),
            point.server.cpu.map_or("-".to_owned(), |cpu| format!("{:.0} %", cpu / cores * 100.0)),
            point.server.memory_bytes.map_or("-".to_owned(), |memory| bytes(memory as f64)),
            point.verdict().name()
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::samples;

    #[test]
    fn everything_is_on_one_screen() {
        let mut document = samples::breaking(100_000, 0.62);
        document.tester.bottlenecks.push("out of local ports: give more --source addresses".to_owned());
        let text = table(&document);
        for part in [
            "Broke at 62,000 users",
            "First byte",
            "99.9 %",
            "status 5xx",
            "502: ",
            "10 to 50 %",
            "Stable",
            "out of local ports",
        ] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
        assert!(text.lines().count() < 50 && text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }

    #[test]
    fn rounds_say_what_held_them_back() {
        let mut document = samples::ramp(100);
        document.stages[1].method = samples::method();
        let text = table(&document);
        for line in [
            "  changed   db-pool-size: innodb_buffer_pool_size 128M -> 2048M",
            "  held back db-pool-size: the buffer pool is small (128 MB of 3 GB)",
            "  so        kept: 31 % more",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is missing:\n{text}");
        }
        assert_eq!(Document::from_json(&document.json()), Ok(document));
    }

    #[test]
    fn two_runs_side_by_side() {
        let (a, b) = (samples::breaking(1_000_000, 0.62), samples::ramp(1_000_000));
        let text = comparison((&a, "nginx"), (&b, "Millrace"));
        let bars = |line: &str| line.matches('|').count();
        assert!(text.lines().all(|line| bars(line) == 12), "{text}");
        assert!(
            text.contains("| 630,000 |") && text.contains("not reached") && text.contains("Sluggish"),
            "{text}"
        );
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        let mut document = samples::ramp(10);
        (document.seconds, document.stages) = (Vec::new(), Vec::new());
        document.total = Summary::default();
        let text = table(&document);
        assert!(text.starts_with("No request completed.") && !text.contains("Failed"), "{text}");
    }
}
