//! The files of `server.trusted_proxy_files`. CDNs publish their networks as a list.

use std::path::Path;
use std::time::Duration;

use crate::environment::Environment;
use crate::problem::{Problem, What};
use crate::rule::files::RuleFiles;
use crate::table;
use crate::value::Value;
use crate::written::{Typed, Written};

const NETWORKS: &str = "server.trusted_proxies";
const FILES: &str = "server.trusted_proxy_files";

/// An older list misses networks that the CDN has added since.
const OLD: Duration = Duration::from_secs(90 * 24 * 3600);

/// Adds the networks of the files to `server.trusted_proxies`.
pub(crate) fn complete(written: &mut Written, environment: &Environment<'_>, problems: &mut Vec<Problem>) {
    let Some(named) = written.global.get(FILES).cloned() else { return };
    let Some(Value::Folders(files)) = &named.value else { return };
    let own = written.global.get(NETWORKS);
    let mut networks = match own.and_then(|own| own.value.clone()) {
        Some(Value::Networks(networks)) => networks,
        _ => Vec::new(),
    };
    let at = own.map_or_else(|| named.at.clone(), |own| own.at.clone());
    for file in files {
        let before = problems.len();
        let mut reader = RuleFiles { environment, origin: &named.at.origin, problems };
        let listed = reader.networks(&(file.clone(), named.at.span.clone()));
        // What can't be read has been reported.
        if problems.len() == before {
            problems.extend(
                doubt(file, listed.is_empty(), environment).map(|doubt| doubt.at(Some(&named.at), "")),
            );
        }
        networks.extend(listed);
    }
    let row = table::find(NETWORKS).expect("a row");
    written.global.set(row, Typed { value: Some(Value::Networks(networks)), at });
}

/// What is wrong with a list whose lines are right.
fn doubt(file: &Path, is_empty: bool, environment: &Environment<'_>) -> Option<Problem> {
    let name = file.display();
    if is_empty {
        let title = format!("`{FILES}`: {name} has no network");
        let cure = "download the list again, or remove the file from the setting";
        return Some(Problem::error(What::Missing, title, cure));
    }
    let age = environment.disk.age(file)?;
    (age > OLD).then(|| {
        let title = format!("`{FILES}`: {name} is {} days old", age.as_secs() / (24 * 3600));
        let cure = "download the list again: visitors who come through newer addresses of the CDN all count as one client";
        Problem::warning(What::Conflict, title, cure)
    })
}
