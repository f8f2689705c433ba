//! HTTPS: certificates for where it is listened, and their files.

use crate::environment::{Environment, Found};
use crate::plan::Address;
use crate::problem::{Problem, What};
use crate::resolve::View;
use crate::written::{SiteWritten, Written};

/// Adds every problem of HTTPS.
pub(super) fn all(written: &Written, environment: &Environment<'_>, problems: &mut Vec<Problem>) {
    let view = View::new(written, None, environment);
    if let Some(at) = view.at("https.listen")
        && written.tls.is_empty()
        && !view.switch("https.self_signed")
        && !super::acme::is_on(written, environment)
    {
        let cure = "add acme = true to have one come by itself, or [[tls]] with cert and key; for work on this machine, \
                    https.self_signed = true";
        let problem = Problem::error(What::Missing, "HTTPS has no certificate", cure);
        problems.push(problem.at(Some(at), "nobody could connect here"));
    }
    for (address, span) in view.addresses("https.listen") {
        if let Address::Unix(_) = address {
            let cure =
                "listen there by server.listen: what comes over a Unix socket has been deciphered by a proxy";
            let problem = Problem::error(What::Conflict, "HTTPS has no place on a Unix socket", cure);
            problems.push(problem.at(view.at_element("https.listen", &span).as_ref(), "not encrypted"));
        }
    }
    for one in &written.tls {
        let view = View::new(written, Some(one), environment);
        for key in ["tls.cert", "tls.key"] {
            file(one, &view, key, problems);
        }
    }
}

/// The file has to be there. Whether it holds what it should is found out when it is used.
fn file(one: &SiteWritten, view: &View<'_>, key: &str, problems: &mut Vec<Problem>) {
    let at = view.at(key);
    let Some(path) = view.path(key) else {
        if at.is_none() {
            let title = format!("a [[tls]] has no `{}`", key.trim_start_matches("tls."));
            let cure = "write both: cert = \"/path/fullchain.pem\" and key = \"/path/privkey.pem\"";
            problems.push(Problem::error(What::Missing, title, cure).at(one.at.as_ref(), "which file?"));
        }
        return;
    };
    let (why, label) = match view.environment().disk.look(&path) {
        Found::File => return,
        Found::Nothing => ("does not exist", "no such file"),
        Found::Denied => ("cannot be read", "permission denied"),
        Found::Directory | Found::Other => ("is not a file", "a folder"),
    };
    let title = format!("{} {why}", path.display());
    let cure = "correct the path, or let the server's user read it";
    problems.push(Problem::error(What::NotFound, title, cure).at(at, label));
}
