//! The files of `server.trusted_proxy_files`.

use std::time::Duration;

use super::{SITE, disk_with};
use crate::load::{Source, load_on};
use crate::problem::{Problem, Severity};

/// Whether each address is trusted, and the warnings; or the errors.
fn trusts(list: &str, days: u64, ips: &[&str]) -> Result<(Vec<bool>, String), String> {
    let mut disk = disk_with(&[
        ("/etc/millrace/cdn.txt", list),
        (
            "/etc/millrace/millrace.toml",
            &format!("[server]\ntrusted_proxies = \"unix\"\ntrusted_proxy_files = \"cdn.txt\"\n{SITE}"),
        ),
    ]);
    disk.age = Some(Duration::from_secs(days * 24 * 3600));
    let source = Source { config: Some("/etc/millrace/millrace.toml".into()), ..Source::default() };
    let text = |problems: &[Problem]| problems.iter().map(|problem| problem.draw(false)).collect::<String>();
    let (plan, warnings) = load_on(&source, &disk.machine()).map_err(|problems| text(&problems.0))?;
    assert!(plan.server.trusted_proxies.contains(None), "what is written beside the files");
    assert!(warnings.iter().all(|warning| warning.severity == Severity::Warning));
    let trusted = ips.iter().map(|ip| plan.server.trusted_proxies.contains(Some(ip.parse().unwrap())));
    Ok((trusted.collect(), text(&warnings)))
}

#[test]
fn a_list_is_trusted_as_if_it_were_written_out() {
    let list = "# a CDN\n173.245.48.0/20\n2400:cb00::/32 # Europe\n\n192.0.2.1\n";
    let (trusted, warnings) =
        trusts(list, 1, &["173.245.63.1", "173.245.64.1", "2400:cb00::1", "192.0.2.1", "192.0.2.2"]).unwrap();
    assert_eq!((trusted, warnings.as_str()), (vec![true, false, true, true, false], ""));
}

#[test]
fn a_list_that_is_old_empty_or_wrong_says_what_to_do() {
    let (_, warnings) = trusts("192.0.2.1\n", 91, &[]).unwrap();
    assert!(
        warnings.contains("cdn.txt is 91 days old") && warnings.contains("download the list again"),
        "{warnings}"
    );
    let empty = trusts("# nothing\n", 1, &[]).unwrap_err();
    assert!(empty.contains("cdn.txt has no network"), "{empty}");
    let page = trusts("<!DOCTYPE html>\n", 1, &[]).unwrap_err();
    assert!(page.contains("/etc/millrace/cdn.txt:1"), "{page}");
    let disk = disk_with(&[]);
    let source = Source {
        site_dir: Some("/srv/blog".into()),
        set: vec!["server.trusted_proxy_files=/no/such.txt".to_owned()],
        ..Source::default()
    };
    let missing = load_on(&source, &disk.machine()).unwrap_err().draw(false);
    assert!(missing.contains("cannot read /no/such.txt"), "{missing}");
}
