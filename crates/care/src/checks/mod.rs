//! The checks: one table. A row says what is measured and from which value on it is a finding; its function measures.
//!
//! A measuring function is pure: it gets two looks and returns what it measured, with evidence and cure, or why it could
//! not. Whether a measure is a finding, and of which severity, is decided here by the row's thresholds, so that the
//! reference page and the program cannot differ.

/// A check of a file whose checks all have the same `SCOPE`.
macro_rules! row {
    ($id:literal, $title:literal, $signal:literal, $at:expr, $source:literal, $cure:literal, $cost:literal, $certainty:ident, $rank:ident, $measure:ident) => {
        Check {
            id: $id,
            title: $title,
            signal: $signal,
            at: $at,
            source: $source,
            cure: $cure,
            cost: $cost,
            certainty: Certainty::$certainty,
            rank: Rank::$rank,
            scope: SCOPE,
            measure: $measure,
        }
    };
}

mod database;
mod disks;
mod kernel_log;
mod limits;
mod machine;
mod network;
mod pages;
mod php;
mod scripts;
mod server;
mod storage;
mod uploads;
mod web;
mod wordpress;

use crate::facts::{Blind, Span};

/// No value reaches this threshold.
const NEVER: f64 = f64::INFINITY;

/// How bad a finding is. The worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It costs requests or time now.
    Error,
    /// It will under more load, or costs a little now.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// As the reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// How near a finding is to the cause: of two with the same severity, the lower one is reported first, because curing it
/// may cure the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Nothing works without it: disk, database, descriptors.
    Outage,
    /// A limit that loses requests or connections.
    Limit,
    /// Work that need not be done: scripts that wait, missing indexes, missing caches.
    Work,
    /// The machine is used up.
    Pressure,
    /// What visitors notice of all that: queues, refusals, errors.
    Symptom,
    /// Advice.
    Advice,
}

/// How sure it is that the finding holds the site back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// It does.
    High,
    /// It usually does.
    Medium,
    /// It may.
    Low,
}

impl Certainty {
    /// As the reports write it.
    pub fn name(self) -> &'static str {
        match self {
            Certainty::High => "high",
            Certainty::Medium => "medium",
            Certainty::Low => "low",
        }
    }
}

/// From which values on a measure is a finding.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// A note from here on.
    pub note: f64,
    /// A warning from here on.
    pub warning: f64,
    /// An error from here on.
    pub error: f64,
    /// What the values count, such as `% of the limit`.
    pub unit: &'static str,
}

const fn note(at: f64, unit: &'static str) -> Thresholds {
    Thresholds { note: at, warning: NEVER, error: NEVER, unit }
}

const fn warning(at: f64, unit: &'static str) -> Thresholds {
    Thresholds { note: NEVER, warning: at, error: NEVER, unit }
}

const fn error(at: f64, unit: &'static str) -> Thresholds {
    Thresholds { note: NEVER, warning: NEVER, error: at, unit }
}

const fn both(warning: f64, error: f64, unit: &'static str) -> Thresholds {
    Thresholds { note: NEVER, warning, error, unit }
}

impl Thresholds {
    /// The severity of a value; `None`: all is well.
    fn severity(&self, value: f64) -> Option<Severity> {
        let levels =
            [(self.error, Severity::Error), (self.warning, Severity::Warning), (self.note, Severity::Note)];
        levels.into_iter().find(|(at, _)| value >= *at).map(|(_, severity)| severity)
    }

    /// In words: `warning from 90, error from 95 % of the limit`.
    pub fn words(&self) -> String {
        let levels = [("note", self.note), ("warning", self.warning), ("error", self.error)];
        let levels = levels.into_iter().filter(|(_, at)| at.is_finite());
        let levels: Vec<String> = levels.map(|(name, at)| format!("{name} from {at}")).collect();
        format!("{} {}", levels.join(", "), self.unit)
    }
}

/// What a check looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The machine and the server: once.
    Machine,
    /// Each site.
    Site,
}

/// What a function measures.
pub type Measured = Result<Vec<Measure>, Blind>;

/// A row of the table.
#[derive(Debug)]
pub struct Check {
    /// Its name, stable: scripts rely on it.
    pub id: &'static str,
    /// What is checked.
    pub title: &'static str,
    /// Where it looks.
    pub signal: &'static str,
    /// From which values on it is a finding.
    pub at: Thresholds,
    /// Where the thresholds come from.
    pub source: &'static str,
    /// What helps.
    pub cure: &'static str,
    /// What it costs.
    pub cost: &'static str,
    /// How sure it is.
    pub certainty: Certainty,
    /// How near to the cause it is.
    pub rank: Rank,
    /// What it looks at.
    pub scope: Scope,
    /// Measures.
    pub measure: fn(&Span<'_>) -> Measured,
}

/// One measured value, with the words for the case that it is a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Compared with the thresholds.
    pub value: f64,
    /// What is wrong, in one sentence without a period.
    pub what: String,
    /// The figures.
    pub evidence: Vec<String>,
    /// What to do: a command or a setting, with the value now and the value to set.
    pub cure: String,
}

/// A measure, or several, as a function returns it.
fn one(
    value: f64,
    what: impl Into<String>,
    evidence: impl Into<String>,
    cure: impl Into<String>,
) -> Measured {
    Ok(vec![measure(value, what, evidence, cure)])
}

fn measure(
    value: f64,
    what: impl Into<String>,
    evidence: impl Into<String>,
    cure: impl Into<String>,
) -> Measure {
    Measure { value, what: what.into(), evidence: vec![evidence.into()], cure: cure.into() }
}

/// A finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The check's name.
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// How near to the cause.
    pub rank: Rank,
    /// The site, if the check looks at sites.
    pub site: Option<String>,
    /// What is wrong.
    pub what: String,
    /// The figures.
    pub evidence: Vec<String>,
    /// What it costs.
    pub impact: &'static str,
    /// What to do.
    pub cure: String,
    /// How sure it is.
    pub certainty: Certainty,
}

/// What became of all checks.
#[derive(Debug, Default, PartialEq)]
pub struct Examination {
    /// The findings, the one to cure first before the others.
    pub findings: Vec<Finding>,
    /// Checks that found nothing.
    pub well: Vec<&'static str>,
    /// Checks that do not apply here, with the reason.
    pub inapplicable: Vec<(&'static str, String)>,
    /// Checks that could not look, with the reason.
    pub unknown: Vec<(&'static str, String)>,
}

/// All checks.
pub fn table() -> impl Iterator<Item = &'static Check> {
    let families: [&'static [Check]; 14] = [
        limits::CHECKS,
        web::CHECKS,
        disks::CHECKS,
        network::CHECKS,
        database::CHECKS,
        storage::CHECKS,
        php::CHECKS,
        scripts::CHECKS,
        wordpress::CHECKS,
        machine::CHECKS,
        kernel_log::CHECKS,
        server::CHECKS,
        pages::CHECKS,
        uploads::CHECKS,
    ];
    families.into_iter().flatten()
}

/// Runs all checks on two looks.
pub fn examine(span: &Span<'_>) -> Examination {
    let mut all = Examination::default();
    let sites = span.pairs("sites", "root").unwrap_or_default();
    for check in table() {
        match check.scope {
            Scope::Machine => all.take(check, &[(None, (check.measure)(span))]),
            Scope::Site if sites.is_empty() => {
                all.inapplicable.push((check.id, "no site was looked at".to_owned()));
            }
            Scope::Site => {
                let name = |site: &Span<'_>| Some(site.now.text("root").to_owned());
                let measured: Vec<_> = sites.iter().map(|site| (name(site), (check.measure)(site))).collect();
                all.take(check, &measured);
            }
        }
    }
    let place = |id: &str| table().position(|check| check.id == id);
    all.findings.sort_by_key(|finding| (finding.severity, finding.rank, place(finding.id)));
    all
}

impl Examination {
    /// Adds what became of a check: findings of any site count more than that others are well, and these more than that
    /// others could not be looked at.
    fn take(&mut self, check: &'static Check, measured: &[(Option<String>, Measured)]) {
        let mut is_found = false;
        for (site, measured) in measured {
            for measure in measured.iter().flatten() {
                let Some(severity) = check.at.severity(measure.value) else { continue };
                is_found = true;
                self.findings.push(Finding {
                    id: check.id,
                    severity,
                    rank: check.rank,
                    site: site.clone(),
                    what: measure.what.clone(),
                    evidence: measure.evidence.clone(),
                    impact: check.cost,
                    cure: measure.cure.clone(),
                    certainty: check.certainty,
                });
            }
        }
        let mut blind = measured.iter().filter_map(|(_, measured)| measured.as_ref().err());
        if is_found {
            return;
        }
        if measured.iter().any(|(_, measured)| measured.is_ok()) {
            self.well.push(check.id);
        } else if let Some(Blind::CouldNotLook(why)) =
            blind.clone().find(|why| matches!(why, Blind::CouldNotLook(_)))
        {
            self.unknown.push((check.id, why.clone()));
        } else if let Some(why) = blind.next() {
            self.inapplicable.push((check.id, why.why().to_owned()));
        }
    }

    /// Number of checks that really looked.
    pub fn checked(&self) -> usize {
        let mut found: Vec<&str> = self.findings.iter().map(|finding| finding.id).collect();
        found.sort_unstable();
        found.dedup();
        found.len() + self.well.len()
    }

    /// Whether a finding is an error.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}

/// `1536` as `1.5 KiB`.
fn bytes(number: f64) -> String {
    let mut value = number;
    for unit in ["bytes", "KiB", "MiB", "GiB"] {
        if value < 1_024.0 {
            return if unit == "bytes" { format!("{value:.0} bytes") } else { format!("{value:.1} {unit}") };
        }
        value /= 1_024.0;
    }
    format!("{value:.1} TiB")
}

/// `512M`: bytes as settings write them, rounded up to a power of two.
fn size_up(number: f64) -> String {
    let mebibytes = (number / 1_048_576.0).max(1.0).log2().ceil().exp2();
    format!("{mebibytes:.0}M")
}

/// Twice a value, as settings write it.
fn double(value: f64) -> String {
    format!("{:.0}", value * 2.0)
}

/// A cure that the tuner does, too: by the machine's memory, and still after a restart.
fn tuned(cure: impl std::fmt::Display) -> String {
    format!("{cure}; `millrace tune --apply` sets it by this machine's memory, so that it lasts")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::Pair;

    #[test]
    fn the_table_is_consistent() {
        let mut ids = BTreeSet::new();
        for check in table() {
            assert!(ids.insert(check.id), "{} is there twice", check.id);
            assert!(
                check.id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
                "{}",
                check.id
            );
            let texts = [check.title, check.signal, check.source, check.cure, check.cost, check.at.unit];
            assert!(texts.iter().all(|text| !text.is_empty() && !text.contains('|')), "{}", check.id);
            let Thresholds { note, warning, error, .. } = check.at;
            assert!([note, warning, error].iter().any(|at| at.is_finite()), "{} is never found", check.id);
            assert!(!(warning.is_finite() && error.is_finite()) || warning < error, "{}", check.id);
        }
        assert!(ids.len() >= 60, "{} checks", ids.len());
    }

    #[test]
    fn every_check_is_tested_both_ways() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/checks");
        let files = std::fs::read_dir(folder).expect("the folder").flatten();
        let text: String = files.map(|file| std::fs::read_to_string(file.path()).expect("a file")).collect();
        let text = text.split_ascii_whitespace().collect::<String>();
        for check in table() {
            assert!(text.contains(&format!("case(\"{}\"", check.id)), "{} has no test", check.id);
        }
    }

    #[test]
    fn a_healthy_machine_has_no_findings_and_hides_nothing() {
        let pair = Pair::healthy();
        let all = examine(&pair.span());
        assert_eq!(all.findings, []);
        assert_eq!(all.unknown, []);
        assert_eq!(all.well.len() + all.inapplicable.len(), table().count());
        // SQLite's checks do not apply to a site with MariaDB.
        let ids: Vec<&str> = all.inapplicable.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, ["sqlite-journal", "sqlite-waste"]);
    }

    #[test]
    fn what_cannot_be_looked_at_is_said() {
        let empty = crate::facts::Facts::default();
        let all = examine(&Span { before: &empty, now: &empty, seconds: 1.0 });
        assert_eq!((all.findings.len(), all.well.len(), all.checked()), (0, 0, 0));
        assert_eq!(all.unknown.len() + all.inapplicable.len(), table().count());
    }

    #[test]
    fn the_cause_comes_before_the_symptom() {
        let mut pair = Pair::healthy();
        pair.rise("server.counters.php_queue_full_total", 50.0);
        pair.rise("tcp.ListenOverflows", 50.0);
        pair.now.set("memory.MemAvailable", 0.09 * 8_000_000.0);
        let all = examine(&pair.span());
        let ids: Vec<&str> = all.findings.iter().map(|finding| finding.id).collect();
        assert_eq!(ids, ["net-accept", "php-refused", "memory-low"]);
        assert!(all.has_errors());
    }

    #[test]
    fn a_site_that_is_ill_is_named_beside_one_that_is_well() {
        let mut pair = Pair::healthy();
        let mut other = pair.now.list("sites").expect("sites")[0].clone();
        other.say("root", "/srv/other");
        other.set("wordpress.autoload_bytes", 5e6);
        pair.before.items("sites").push(other.clone());
        pair.now.items("sites").push(other);
        let all = examine(&pair.span());
        assert_eq!(all.findings.len(), 1);
        assert_eq!(
            (all.findings[0].id, all.findings[0].site.as_deref()),
            ("wp-autoload", Some("/srv/other"))
        );
    }

    #[test]
    fn figures_read_well() {
        assert_eq!([10.0, 1_536.0, 5e9].map(bytes), ["10 bytes", "1.5 KiB", "4.7 GiB"]);
        assert_eq!([3e6, 134_217_728.0].map(size_up), ["4M", "128M"]);
        assert_eq!(both(90.0, 95.0, "% used").words(), "warning from 90, error from 95 % used");
    }
}
