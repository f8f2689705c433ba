//! Automatic certificates: whether an authority can issue them for the names of the sites.

use crate::environment::{Environment, Found};
use crate::problem::{Problem, What};
use crate::public;
use crate::resolve::View;
use crate::written::Written;

/// Whether any site has automatic certificates.
pub(super) fn is_on(written: &Written, environment: &Environment<'_>) -> bool {
    sites(written, environment).any(|view| view.switch("https.acme"))
}

/// Adds every problem of automatic certificates.
pub(super) fn all(written: &Written, environment: &Environment<'_>, problems: &mut Vec<Problem>) {
    let view = View::new(written, None, environment);
    ca_file(&view, problems);
    let on: Vec<View<'_>> = sites(written, environment).filter(|view| view.switch("https.acme")).collect();
    let Some(first) = on.first() else { return };
    let at_switch = first.at("https.acme");
    if view.addresses("https.listen").is_empty() {
        let cure = "add listen = [\":443\"] under [https]";
        let problem = Problem::warning(What::Conflict, "`https.acme` is on, but HTTPS is off", cure);
        return problems.push(problem.at(at_switch, "has no effect"));
    }
    if !view.switch("acme.terms_agreed") {
        let title = "the terms of the certificate authority are not agreed to";
        let cure = "read them (Let's Encrypt: https://letsencrypt.org/repository/) and write terms_agreed = true under [acme]";
        let problem = Problem::error(What::Missing, title, cure).at(at_switch, "requests certificates");
        problems.push(problem.at(view.at("acme.terms_agreed"), "not agreed"));
    }
    if view.path("acme.dir").is_none() {
        let cure = "write dir = \"/var/lib/millrace/acme\" under [acme]";
        let problem = Problem::error(What::Missing, "there is no directory for certificates", cure);
        problems.push(problem.at(at_switch, "the home directory is unknown, too"));
    }
    let before = problems.len();
    on.iter().for_each(|view| names(view, problems));
    let has_name = on.iter().any(|view| !crate::resolve::acme_names(view).is_empty());
    if !has_name && problems.len() == before {
        let cure = "add a line like names = [\"example.com\", \"www.example.com\"] to the site";
        let problem = Problem::error(What::Missing, "no site has a name for a certificate", cure);
        problems.push(problem.at(at_switch, "for which name?"));
    }
    if let Some(dir) = view.path("acme.dir") {
        for site in on.iter().filter(|site| site.root().is_some_and(|root| dir.starts_with(root))) {
            let title = format!("`acme.dir`: {} is in the root of a site", dir.display());
            let problem = Problem::error(What::Risky, title, "choose a directory outside of all sites");
            problems.push(
                problem
                    .at(view.at("acme.dir"), "private keys")
                    .at(site.at("site.root"), "served to visitors"),
            );
        }
    }
}

fn sites<'a>(written: &'a Written, environment: &'a Environment<'_>) -> impl Iterator<Item = View<'a>> {
    written.sites.iter().map(|site| View::new(written, Some(site), environment))
}

/// Names that no authority issues a certificate for. Skipped if the site has other names, an error if it has none.
fn names(view: &View<'_>, problems: &mut Vec<Problem>) {
    let is_public = view.asks_the_public();
    let nothing_left = crate::resolve::acme_names(view).is_empty();
    for (name, span) in view.texts("site.names") {
        let Some(why) = public::why_not(&name, is_public) else { continue };
        let at = view.at_element("site.names", &span);
        let title = format!("cannot obtain a certificate for \"{name}\": it {why}");
        let problem = if name.starts_with("*.") {
            let cure = "list each name in use; or obtain a certificate elsewhere, configure it in a [[tls]], and write \
                        acme = false under [site.https] of this site";
            Problem::error(What::Conflict, title, cure)
        } else if nothing_left {
            let cure = "give the site a public DNS name that leads to this machine, or write acme = false under \
                        [site.https] of this site";
            Problem::error(What::Conflict, title, cure)
        } else {
            let cure = "remove it, or accept a self-signed certificate for it";
            Problem::warning(What::Conflict, title, cure)
        };
        problems.push(problem.at(at.as_ref(), "skipped"));
    }
}

/// The file must exist, if it is set.
fn ca_file(view: &View<'_>, problems: &mut Vec<Problem>) {
    let Some(path) = view.path("acme.ca_file") else { return };
    if view.environment().disk.look(&path) != Found::File {
        let title = format!("`acme.ca_file`: {} is not a readable file", path.display());
        let cure = "correct the path, or let the server's user read it";
        problems
            .push(Problem::error(What::NotFound, title, cure).at(view.at("acme.ca_file"), "no such file"));
    }
}
