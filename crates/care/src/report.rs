//! What the doctor says: as text for people, as JSON for programs, and the reference page and schema of both.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::checks::{Check, Examination, Finding, Scope, Severity, table};

/// How to write a report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Names of checks that found nothing, and the reasons of those that could not look, one by one.
    pub verbose: bool,
    /// Colors of a terminal.
    pub color: bool,
}

/// The report for people: what holds the site back first, then the rest, then what was checked and is well.
pub fn text(all: &Examination, seconds: f64, style: Style) -> String {
    let mut out = String::new();
    // Writing to memory can't fail.
    let _ = write_text(&mut out, all, seconds, style);
    out
}

fn write_text(out: &mut String, all: &Examination, seconds: f64, style: Style) -> std::fmt::Result {
    for (at, finding) in all.findings.iter().enumerate() {
        write_finding(out, finding, style)?;
        if at == 0 && all.findings.len() > 1 {
            writeln!(out, "  (this one first; the {} below may go away with it)", all.findings.len() - 1)?;
        }
        writeln!(out)?;
    }
    let count = |severity| all.findings.iter().filter(|finding| finding.severity == severity).count();
    match all.findings.len() {
        0 => writeln!(
            out,
            "Nothing holds this machine back, as far as {} checks saw in {seconds:.0} s.",
            all.checked()
        )?,
        _ => writeln!(
            out,
            "{}, {}, {} by {} checks in {seconds:.0} s.",
            plural(count(Severity::Error), "error"),
            plural(count(Severity::Warning), "warning"),
            plural(count(Severity::Note), "note"),
            all.checked()
        )?,
    }
    write_rest(out, all, style)
}

fn write_finding(out: &mut String, finding: &Finding, style: Style) -> std::fmt::Result {
    let (begin, end) = match (style.color, finding.severity) {
        (false, _) => ("", ""),
        (true, Severity::Error) => ("\x1b[1;31m", "\x1b[0m"),
        (true, Severity::Warning) => ("\x1b[1;33m", "\x1b[0m"),
        (true, Severity::Note) => ("\x1b[1;36m", "\x1b[0m"),
    };
    writeln!(out, "{begin}{}[{}]{end}: {}", finding.severity.name(), finding.id, clean(&finding.what))?;
    if let Some(site) = &finding.site {
        writeln!(out, "  site      {}", clean(site))?;
    }
    for (at, evidence) in finding.evidence.iter().enumerate() {
        writeln!(out, "  {:<9} {}", if at == 0 { "evidence" } else { "" }, clean(evidence))?;
    }
    writeln!(out, "  impact    {}", finding.impact)?;
    writeln!(out, "  cure      {}", clean(&finding.cure))?;
    writeln!(out, "  certainty {}", finding.certainty.name())
}

/// Texts of other programs reach the terminal: no control characters, no escape sequences.
fn clean(text: &str) -> String {
    text.replace(|c: char| c.is_control(), "?")
}

fn write_rest(out: &mut String, all: &Examination, style: Style) -> std::fmt::Result {
    writeln!(out, "Well: {} checks.", all.well.len())?;
    if style.verbose {
        writeln!(out, "  {}", all.well.join(" "))?;
    }
    if !all.unknown.is_empty() {
        writeln!(out, "Could not look: {}.", plural(all.unknown.len(), "check"))?;
        for (why, ids) in by_reason(&all.unknown) {
            writeln!(out, "  {}: {}", clean(why), listed(&ids, style))?;
        }
    }
    if !all.inapplicable.is_empty() {
        writeln!(out, "Does not apply here: {}.", plural(all.inapplicable.len(), "check"))?;
        if style.verbose {
            for (why, ids) in by_reason(&all.inapplicable) {
                writeln!(out, "  {}: {}", clean(why), listed(&ids, style))?;
            }
        }
    }
    Ok(())
}

/// A few names, or all of them.
fn listed(ids: &[&str], style: Style) -> String {
    const SHOWN: usize = 4;
    match ids.len() {
        many if many > SHOWN && !style.verbose => {
            format!("{} and {} more", ids[..SHOWN].join(" "), many - SHOWN)
        }
        _ => ids.join(" "),
    }
}

fn by_reason<'a>(list: &'a [(&'static str, String)]) -> Vec<(&'a str, Vec<&'static str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for (id, why) in list {
        match all.iter_mut().find(|(other, _)| other == why) {
            Some((_, ids)) => ids.push(id),
            None => all.push((why, vec![id])),
        }
    }
    all
}

fn plural(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The report for programs: `docs/doctor-schema.json` describes it. Members are only ever added.
pub fn json(all: &Examination, seconds: f64) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "id": finding.id,
            "severity": finding.severity.name(),
            "what": finding.what,
            "site": finding.site,
            "evidence": finding.evidence,
            "impact": finding.impact,
            "cure": finding.cure,
            "certainty": finding.certainty.name(),
        })
    };
    let reasons = |list: &[(&'static str, String)]| -> Value {
        list.iter().map(|(id, why)| json!({ "id": id, "why": why })).collect()
    };
    json!({
        "findings": all.findings.iter().map(finding).collect::<Value>(),
        "checked": all.checked(),
        "seconds": seconds,
        "well": all.well,
        "could_not_look": reasons(&all.unknown),
        "does_not_apply": reasons(&all.inapplicable),
    })
}

/// The JSON schema of [`json`].
pub fn schema() -> Value {
    let ids: Vec<&str> = table().map(|check| check.id).collect();
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": text });
    let id = json!({ "enum": ids });
    let reason = json!({
        "type": "object", "required": ["id", "why"], "properties": { "id": id, "why": text },
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What `millrace doctor --json` prints; generated from the table of checks, members are only ever added",
        "type": "object",
        "required": ["findings", "checked", "seconds", "well", "could_not_look", "does_not_apply"],
        "properties": {
            "findings": {
                "type": "array",
                "description": "the one to cure first before the others",
                "items": {
                    "type": "object",
                    "required": ["id", "severity", "what", "site", "evidence", "impact", "cure", "certainty"],
                    "properties": {
                        "id": id,
                        "severity": { "enum": ["error", "warning", "note"] },
                        "what": text,
                        "site": { "type": ["string", "null"], "description": "folder of the site, if the check looks at sites" },
                        "evidence": texts,
                        "impact": text,
                        "cure": text,
                        "certainty": { "enum": ["high", "medium", "low"] },
                    },
                },
            },
            "checked": { "type": "integer", "description": "checks that really looked" },
            "seconds": { "type": "number", "description": "time between the two looks" },
            "well": { "type": "array", "items": id },
            "could_not_look": { "type": "array", "items": reason },
            "does_not_apply": { "type": "array", "items": reason },
        },
    })
}

/// The table of checks for `docs/doctor.md`.
pub fn page() -> String {
    let mut out = String::from("| check | looks at | finding | cure |\n| --- | --- | --- | --- |\n");
    for check in table() {
        let Check { id, title, signal, source, cure, .. } = check;
        let scope = if check.scope == Scope::Site { "each site: " } else { "" };
        let words = check.at.words();
        let _ = writeln!(out, "| `{id}`: {title} | {scope}{signal} | {words} ({source}) | {cure} |");
    }
    out
}

/// What one check is about, for `millrace doctor --explain`.
pub fn explain(id: &str) -> Option<String> {
    let check = table().find(|check| check.id == id)?;
    Some(format!(
        "{}: {}\n  looks at  {}\n  finding   {}\n  source    {}\n  impact    {}\n  cure      {}\n  certainty {}",
        check.id,
        check.title,
        check.signal,
        check.at.words(),
        check.source,
        check.cost,
        check.cure,
        check.certainty.name()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::examine;
    use crate::testing::Pair;

    fn ill() -> Examination {
        let mut pair = Pair::healthy();
        pair.rise("tcp.ListenOverflows", 412.0);
        pair.site().set("wordpress.autoload_bytes", 5e6);
        pair.site().put("wordpress.autoload_largest", vec![]);
        examine(&pair.span())
    }

    #[test]
    fn the_worst_first_and_the_rest_collapsed() {
        let text = text(&ill(), 5.0, Style::default());
        let begin = "error[net-accept]: the kernel dropped 412 connections in 5 s because a listen queue was full\n  \
                     evidence  TcpExt ListenOverflows +412; none by Millrace\n  \
                     impact    Visitors wait 1 to 3 s for their second attempt, or fail.\n  \
                     cure      find the program with `ss -ltn` (Recv-Q above Send-Q), raise its backlog; sysctl -w net.core.somaxconn=65535 (now 4096)\n  \
                     certainty high\n  (this one first; the 1 below may go away with it)\n\n\
                     error[wp-autoload]: every page loads 4.8 MiB of options\n  site      /srv/www\n";
        assert!(text.starts_with(begin), "{text}");
        assert!(text.contains("\n2 errors, 0 warnings, 0 notes by "), "{text}");
        assert!(text.ends_with("Does not apply here: 2 checks.\n"), "{text}");
    }

    #[test]
    fn nothing_wrong() {
        let all = examine(&Pair::healthy().span());
        let said = text(&all, 5.0, Style { verbose: true, color: false });
        assert!(said.starts_with("Nothing holds this machine back, as far as "), "{said}");
        assert!(said.contains("  the site does not use SQLite: sqlite-journal sqlite-waste\n"), "{said}");
    }

    #[test]
    fn what_others_write_cannot_move_the_cursor() {
        let mut all = ill();
        all.findings[0].what = "a\x1b[2Jb\nc".to_owned();
        assert!(text(&all, 5.0, Style::default()).starts_with("error[net-accept]: a?[2Jb?c\n"));
    }

    /// As much of JSON Schema as this schema uses.
    fn complain(schema: &Value, value: &Value, at: &str) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
            all.push(format!("{at}: {value} is none of {} values", allowed.len()));
        }
        let names = match &schema["type"] {
            Value::Null => vec![],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            name => name.as_str().into_iter().collect(),
        };
        let is = |name: &&str| match *name {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "number" => value.is_number(),
            "integer" => value.is_u64(),
            _ => value.is_null(),
        };
        if !names.is_empty() && !names.iter().any(is) {
            all.push(format!("{at}: {value} is no {names:?}"));
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if value.get(name).is_none() {
                all.push(format!("{at}.{name} is missing"));
            }
        }
        for (name, member) in value.as_object().into_iter().flatten() {
            match schema["properties"].get(name) {
                Some(schema) => all.extend(complain(schema, member, &format!("{at}.{name}"))),
                None => all.push(format!("{at}.{name} is not described")),
            }
        }
        for item in value.as_array().into_iter().flatten() {
            all.extend(complain(&schema["items"], item, &format!("{at}[]")));
        }
        all
    }

    #[test]
    fn the_json_is_what_the_schema_says() {
        let value = json(&ill(), 5.0);
        assert_eq!(complain(&schema(), &value, ""), Vec::<String>::new());
        assert_eq!(
            (&value["findings"][0]["id"], &value["findings"][1]["site"]),
            (&json!("net-accept"), &json!("/srv/www"))
        );
        let mut wrong = value.clone();
        wrong["findings"][0]["severity"] = json!("bad");
        wrong["more"] = json!(1);
        assert_eq!(complain(&schema(), &wrong, "").len(), 2);
    }

    #[test]
    fn the_committed_pages_are_current() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/");
        let read = |name: &str| std::fs::read_to_string(format!("{docs}{name}")).unwrap_or_default();
        let again = "run `cargo run -p millrace-care --example reference`";
        assert!(
            read("doctor-schema.json") == format!("{:#}\n", schema()),
            "docs/doctor-schema.json is old: {again}"
        );
        assert!(read("doctor-checks.md").ends_with(&page()), "docs/doctor-checks.md is old: {again}");
    }

    #[test]
    fn a_check_explained() {
        let text = explain("net-accept").expect("there is one");
        assert!(text.contains("finding   warning from 2, error from 5 lost between the looks"), "{text}");
        assert_eq!(explain("net-none"), None);
    }
}
