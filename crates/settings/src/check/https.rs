//! HTTPS: certificates for its listeners, and their files.

use std::path::Path;

use crate::environment::{Environment, Found};
use crate::plan::Address;
use crate::problem::{Problem, What};
use crate::resolve::View;
use crate::written::{Written, WrittenTable};

/// Adds every problem of HTTPS.
pub(super) fn all(written: &Written, environment: &Environment<'_>, problems: &mut Vec<Problem>) {
    let view = View::new(written, None, environment);
    if let Some(at) = view.at("https.listen")
        && written.tls.is_empty()
        && !view.switch("https.self_signed")
        && !super::acme::is_on(written, environment)
    {
        let cure = "add acme = true to obtain one automatically, or [[tls]] with cert and key; for development on \
                    this machine, https.self_signed = true";
        let problem = Problem::error(What::Missing, "HTTPS has no certificate", cure);
        problems.push(problem.at(Some(at), "no client could connect here"));
    }
    for (address, span) in view.addresses("https.listen") {
        if let Address::Unix(_) = address {
            let cure = "use server.listen: a proxy that connects to a Unix socket has already decrypted its requests";
            let problem = Problem::error(What::Conflict, "HTTPS cannot use a Unix socket", cure);
            problems.push(problem.at(view.at_element("https.listen", &span).as_ref(), "not encrypted"));
        }
    }
    for one in &written.tls {
        let view = View::new(written, Some(one), environment);
        for key in ["tls.cert", "tls.key"] {
            file(one, &view, key, problems);
        }
    }
    for site in &written.sites {
        clients(&View::new(written, Some(site), environment), problems);
    }
}

/// Client certificates need an authority, and HTTPS.
fn clients(view: &View<'_>, problems: &mut Vec<Problem>) {
    let Some(at) = view.at("site.client_verify").filter(|_| view.choice("site.client_verify") != "off")
    else {
        return;
    };
    match view.path("site.client_ca") {
        Some(path) => present(view, "site.client_ca", &path, problems),
        None if view.at("site.client_ca").is_none() => {
            let title = "client certificates are requested, but no authority is configured";
            let cure = "set client_ca to a file with the certificate of your authority, in PEM";
            problems.push(Problem::error(What::Missing, title, cure).at(Some(at), "which authority?"));
        }
        None => {}
    }
    if view.addresses("https.listen").is_empty() {
        let title = "client certificates are requested, but HTTPS is off";
        let cure = "set https.listen and add a [[tls]]; a proxy in front must verify certificates itself";
        problems.push(Problem::error(What::Conflict, title, cure).at(Some(at), "needs HTTPS"));
    }
}

/// The file must exist; [`super::certificates`] looks into it.
fn file(one: &WrittenTable, view: &View<'_>, key: &str, problems: &mut Vec<Problem>) {
    let at = view.at(key);
    let Some(path) = view.path(key) else {
        if at.is_none() {
            let title = format!("a [[tls]] has no `{}`", key.trim_start_matches("tls."));
            let cure = "write both: cert = \"/path/fullchain.pem\" and key = \"/path/privkey.pem\"";
            problems.push(Problem::error(What::Missing, title, cure).at(one.at.as_ref(), "which file?"));
        }
        return;
    };
    present(view, key, &path, problems);
}

fn present(view: &View<'_>, key: &str, path: &Path, problems: &mut Vec<Problem>) {
    let at = view.at(key);
    let (why, label) = match view.environment().disk.look(path) {
        Found::File => return,
        Found::Nothing => ("does not exist", "no such file"),
        Found::Denied => ("cannot be read", "permission denied"),
        Found::Directory | Found::Other => ("is not a file", "a directory"),
    };
    let title = format!("{} {why}", path.display());
    let cure = "correct the path, or let the server's user read it";
    problems.push(Problem::error(What::NotFound, title, cure).at(at, label));
}
