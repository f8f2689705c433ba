//! Files that contain scenarios: whatever the input, the result is a scenario that can be run, or a problem with its
//! line. The first byte of the input chooses the kind of file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millrace_load::scenario::{Origin, Scenario};
use millrace_load::source::{Problem, access_log, har, scenario_file, sitemap, stages, url_list};

fuzz_target!(|input: &[u8]| {
    let Some((&kind, input)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(input);
    let origin = Origin { tls: false, host: "a.test".to_owned(), port: 80 };
    match kind % 6 {
        0 => outcome(&text, scenario_file::read(&text, None)),
        1 => outcome(&text, url_list::read(&text, Some(&origin))),
        2 => outcome(&text, har::read(&text).map(|recording| recording.scenario).map_err(|problem| vec![problem])),
        3 => outcome(
            &text,
            access_log::read(&text, &origin, 1.0).map(|replay| replay.scenario).map_err(|problem| vec![problem]),
        ),
        4 => drop(sitemap::read(&text)),
        _ => {
            if let Ok(curve) = stages::stages(&text) {
                assert!(curve.peak() > 0.0 && curve.peak() <= stages::MOST_LOAD && !curve.time().is_zero());
            }
        }
    }
});

fn outcome(text: &str, read: Result<Scenario, Vec<Problem>>) {
    match read {
        Ok(scenario) => {
            assert!(!scenario.flows.is_empty() && scenario.flows.iter().all(|flow| !flow.steps.is_empty()));
            let steps = || scenario.flows.iter().flat_map(|flow| &flow.steps);
            assert!(steps().all(|step| step.request.target.starts_with('/')));
            assert!(steps().all(|step| !step.request.target.contains(['\r', '\n', ' '])));
        }
        Err(problems) => {
            let lines = text.lines().count() + 1;
            assert!(!problems.is_empty());
            assert!(problems.iter().all(|problem| problem.line <= lines && !problem.cure.is_empty()));
        }
    }
}
