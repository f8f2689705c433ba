//! Certificates, by ACME and from files, in the status and in the metrics.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::status::duration;
use crate::acme::Standing;
use millrace_base::context::stats::{Exposition, Row, table};

/// The member `certificates` of the status in JSON.
pub fn json(all: &[Standing]) -> Value {
    let time = |time: Option<SystemTime>| time.map(|time| since_1970(Some(time)));
    let one = |standing: &Standing| {
        json!({
            "names": standing.names,
            "file": standing.file,
            "missing": standing.missing,
            "ends": time(standing.ends),
            "next": time(standing.next),
            "problem": standing.problem,
            "failures": standing.failures,
            "issued": standing.issued,
            "failed": standing.failed,
        })
    };
    all.iter().map(one).collect()
}

/// Status text; empty without certificates.
pub fn write(text: &mut String, all: &[Standing], now: SystemTime) -> std::fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(text, "\nCertificates")?;
    for standing in all {
        let until = |time: SystemTime| duration(time.duration_since(now).unwrap_or_default());
        let has = match standing.ends {
            Some(ends) if ends > now => format!("valid for {}", until(ends)),
            Some(_) => "EXPIRED".to_owned(),
            None => "MISSING: serving a self-signed certificate, which browsers reject".to_owned(),
        };
        let from =
            standing.file.as_ref().map(|file| format!("; from {}", file.display())).unwrap_or_default();
        let next = match (standing.next, &standing.problem, standing.ends) {
            (None, ..) => String::new(),
            (Some(next), Some(_), _) => format!("; next attempt in {}", until(next)),
            (Some(next), None, Some(_)) => format!("; renewal in {}", until(next)),
            (Some(_), None, None) => "; being requested".to_owned(),
        };
        let but = match standing.missing.is_empty() {
            true => String::new(),
            false => format!(", NOT VALID FOR {}", standing.missing.join(", ")),
        };
        writeln!(text, "  {}: {has}{but}{next}{from}", standing.names.join(", "))?;
        if let (Some(problem), Some(_)) = (&standing.problem, &standing.file) {
            writeln!(text, "    {problem}")?;
        } else if let Some(problem) = &standing.problem {
            let plural = if standing.failures == 1 { "attempt" } else { "attempts" };
            writeln!(text, "    {} {plural} failed: {problem}", standing.failures)?;
        }
    }
    Ok(())
}

/// Metrics for Prometheus.
pub fn expose(out: &mut Exposition, all: &[Standing]) {
    let name = |standing: &Standing| standing.names.first().cloned().unwrap_or_default();
    out.family(&table::CERTIFICATE_ENDS);
    for standing in all {
        // Several files may have certificates for one name.
        let file = standing.file.as_ref().map(|file| file.to_string_lossy().into_owned());
        let (name, ends) = (name(standing), since_1970(standing.ends));
        match file {
            Some(file) => out.sample(&table::CERTIFICATE_ENDS, &[("name", &name), ("file", &file)], ends),
            None => out.sample(&table::CERTIFICATE_ENDS, &[("name", &name)], ends),
        }
    }
    let mut family = |row: &Row, value: fn(&Standing) -> u64| {
        out.family(row);
        for standing in all.iter().filter(|standing| standing.file.is_none()) {
            out.sample(row, &[("name", &name(standing))], value(standing));
        }
    };
    family(&table::CERTIFICATES_ISSUED, |standing| standing.issued);
    family(&table::CERTIFICATES_FAILED, |standing| standing.failed);
}

fn since_1970(time: Option<SystemTime>) -> u64 {
    time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_people_are_told() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let at = |seconds: u64| Some(now + Duration::from_secs(seconds));
        let names = vec!["a.example".to_owned(), "b.example".to_owned()];
        let good =
            Standing { names: names.clone(), ends: at(180_000), next: at(7_260), ..Standing::default() };
        let bad = Standing {
            ends: None,
            next: at(65),
            problem: Some("no".to_owned()),
            failures: 2,
            ..good.clone()
        };
        let part = Standing { missing: vec!["b.example".to_owned()], ends: good.ends, ..bad.clone() };
        let dead = Standing { ends: Some(UNIX_EPOCH), ..bad.clone() };
        let file = Some("/etc/ssl/a.pem".into());
        let own = Standing { file, problem: Some("old".to_owned()), next: None, ..good.clone() };
        let mut text = String::new();
        write(&mut text, &[good, bad, part, dead, own], now).unwrap();
        assert_eq!(
            text,
            "\nCertificates\n  a.example, b.example: valid for 2 d 2 h; renewal in 2 h 1 min\n  \
             a.example, b.example: MISSING: serving a self-signed certificate, which browsers reject; next attempt in 1 min 5 s\n    \
             2 attempts failed: no\n  a.example, b.example: valid for 2 d 2 h, NOT VALID FOR b.example; next attempt in 1 min 5 s\n    2 attempts failed: no\n  a.example, b.example: EXPIRED; next attempt in 1 min 5 s\n    2 attempts failed: no\n  \
             a.example, b.example: valid for 2 d 2 h; from /etc/ssl/a.pem\n    old\n"
        );
    }
}
