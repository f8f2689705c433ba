//! What the doctor found, in a frame of `top`: the first finding as a line, all of them as a list of their own.

use serde_json::Value;

use super::frame::{Line, duration, plain, strong};

/// Columns of the names before evidence, impact, cure and certainty.
const INDENT: usize = 11;

/// The line of the frame: the first finding, or why there is none.
pub fn line(doctor: &Value) -> String {
    let text = match reported(doctor) {
        Err(why) => why,
        Ok([]) => nothing(doctor),
        Ok([first]) => title(first),
        Ok([first, rest @ ..]) => format!("{} ({} more: d)", title(first), rest.len()),
    };
    format!("Doctor       {text}")
}

/// The list: each finding with evidence, impact, cure and certainty, in lines of at most `width` columns.
pub fn list(doctor: &Value, width: usize) -> Vec<Line> {
    let findings = match reported(doctor) {
        Err(why) => return paragraph("", &why, width),
        Ok([]) => return paragraph("", &nothing(doctor), width),
        Ok(findings) => findings,
    };
    let mut lines = Vec::new();
    for finding in findings {
        lines.extend(wrapped(&title(finding), width).into_iter().map(strong));
        let evidence = finding["evidence"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for (at, text) in evidence.enumerate() {
            lines.extend(paragraph(if at == 0 { "evidence" } else { "" }, text, width));
        }
        for member in ["impact", "cure", "certainty"] {
            lines.extend(paragraph(member, finding[member].as_str().unwrap_or_default(), width));
        }
        lines.push(plain(String::new()));
    }
    lines.extend(paragraph(
        "",
        "Databases and the files of sites are not examined here; `millrace doctor`, as root, does so.",
        width,
    ));
    lines
}

/// The findings of a report; otherwise why there is no report.
fn reported(doctor: &Value) -> Result<&[Value], String> {
    let seconds = |member: &str| duration(doctor[member].as_f64().unwrap_or(0.0));
    let why = doctor["why"].as_str().unwrap_or("it does not say why");
    match doctor["state"].as_str() {
        Some("ready") => {
            Ok(doctor.pointer("/report/findings").and_then(Value::as_array).map_or(&[], Vec::as_slice))
        }
        Some("examining") => Err(format!("examining the server, for {} now", seconds("seconds"))),
        Some("failed") => Err(format!("failed, again in {}: {why}", seconds("retry_seconds"))),
        _ => Err(format!("no examination: {why}")),
    }
}

fn nothing(doctor: &Value) -> String {
    let checked = doctor.pointer("/report/checked").and_then(Value::as_u64).unwrap_or(0);
    let age = duration(doctor["age_seconds"].as_f64().unwrap_or(0.0));
    format!("nothing holds the server back, by {checked} checks, {age} ago")
}

fn title(finding: &Value) -> String {
    let text = |member: &str| finding[member].as_str().unwrap_or_default();
    format!("{}: {}", text("severity"), text("what"))
}

/// A text beside its name, or at the margin without one.
fn paragraph(name: &str, text: &str, width: usize) -> Vec<Line> {
    let room = width.saturating_sub(INDENT + 2);
    let lines = wrapped(text, room).into_iter().enumerate();
    lines.map(|(at, line)| plain(format!("  {:<INDENT$}{line}", if at == 0 { name } else { "" }))).collect()
}

/// Lines of at most `width` columns, at least 20, broken between words; a longer word has a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(20);
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ready(findings: &[Value]) -> Value {
        json!({ "state": "ready", "age_seconds": 3.0, "report": { "checked": 57, "findings": findings } })
    }

    fn finding(what: &str) -> Value {
        json!({ "id": "opcache-off", "severity": "warning", "what": what, "evidence": ["opcache.enable = 0", "of a.example"],
            "impact": "Every request compiles its scripts.", "cure": "opcache.enable=1 ".repeat(8), "certainty": "high" })
    }

    #[test]
    fn the_line_has_the_first_finding_or_why_there_is_none() {
        for (doctor, expected) in [
            (ready(&[]), "nothing holds the server back, by 57 checks, 3 s ago"),
            (ready(&[finding("opcache is off")]), "warning: opcache is off"),
            (ready(&[finding("opcache is off"), finding("b")]), "warning: opcache is off (1 more: d)"),
            (json!({ "state": "examining", "seconds": 2.0 }), "examining the server, for 2 s now"),
            (
                json!({ "state": "failed", "why": "no thread", "retry_seconds": 7.0 }),
                "failed, again in 7 s: no thread",
            ),
            (json!({ "state": "unavailable", "why": "none here" }), "no examination: none here"),
            (json!(null), "no examination: it does not say why"),
        ] {
            assert_eq!(line(&doctor), format!("Doctor       {expected}"));
        }
    }

    #[test]
    fn the_list_wraps_between_words() {
        let lines = list(&ready(&[finding("opcache is off")]), 60);
        let texts: Vec<&str> = lines.iter().map(|line| line.text.trim_end()).collect();
        assert_eq!(
            texts[..6],
            [
                "warning: opcache is off",
                "  evidence   opcache.enable = 0",
                "             of a.example",
                "  impact     Every request compiles its scripts.",
                "  cure       opcache.enable=1 opcache.enable=1",
                "             opcache.enable=1 opcache.enable=1",
            ]
        );
        assert!(lines[0].is_strong && texts.iter().all(|text| text.chars().count() <= 60), "{texts:?}");
    }
}
