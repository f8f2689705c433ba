//! What is in the files of certificates: what the server would refuse to start with is an error, what its clients would
//! refuse is a warning.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::certificates::{CertificateFacts, CertificateReader};
use crate::environment::{Environment, Found};
use crate::problem::{At, Problem, What};
use crate::resolve::View;
use crate::written::Written;

/// Adds every problem of the content of these files.
pub(super) fn all(written: &Written, environment: &Environment<'_>, problems: &mut Vec<Problem>) {
    let Some(reader) = environment.certificates else { return };
    let view = View::new(written, None, environment);
    authorities(&view, reader, "acme.ca_file", problems);
    let sites = || written.sites.iter().map(|site| View::new(written, Some(site), environment));
    for site in sites() {
        for proxy in site.proxies() {
            authorities(&proxy, reader, "proxy.ca", problems);
        }
    }
    // Without HTTPS, the server reads none of the others.
    if view.addresses("https.listen").is_empty() {
        return;
    }
    let mut known = Vec::new();
    for one in &written.tls {
        known.push(certificate(&View::new(written, Some(one), environment), reader, problems));
    }
    for site in sites() {
        client_authorities(&site, reader, problems);
    }
    // With one that can't be read, nobody knows which names are missing.
    let known: Option<Vec<_>> = known.into_iter().collect();
    if let Some(known) = known.filter(|known| !known.is_empty()) {
        sites().filter(|site| !site.switch("https.acme")).for_each(|site| names(&site, &known, problems));
    }
}

/// A certificate of a `[[tls]]`, with its file.
type Known = (PathBuf, CertificateFacts);

fn certificate(
    view: &View<'_>,
    reader: &dyn CertificateReader,
    problems: &mut Vec<Problem>,
) -> Option<Known> {
    let (cert, key) = (file(view, "tls.cert")?, file(view, "tls.key")?);
    let facts = match reader.certificate(&cert, &key) {
        Ok(facts) => facts,
        Err(fault) => {
            let (at, other) = (view.at("tls.cert"), view.at("tls.key"));
            let (at, label) = if fault.is_key { (other, "this key") } else { (at, "this certificate") };
            problems.push(Problem::error(What::Malformed, fault.title, fault.cure).at(at, label));
            return None;
        }
    };
    let at = view.at("tls.cert");
    lifetime(&cert, &facts, view.environment().now, at, problems);
    if let Some((number, subject)) = &facts.out_of_order {
        let title = format!("the chain in {} is out of order", cert.display());
        let cure = "put the certificate first, then the one that certifies it, and so on; authorities call such a file \
                    fullchain.pem";
        let problem = Problem::warning(What::Conflict, title, cure).at(at, "some clients will reject it");
        problems.push(
            problem.note(format!("number {number}, \"{subject}\", does not certify the one before it")),
        );
    }
    if let Some((issuer, place)) = &facts.missing_issuer {
        let title = format!(
            "the chain in {} is incomplete: the certificate of \"{issuer}\" is missing",
            cert.display()
        );
        let cure = format!(
            "name the file with the whole chain, which authorities call fullchain.pem, or append that certificate, in PEM: it is at {place}"
        );
        let problem = Problem::warning(What::Conflict, title, cure);
        problems
            .push(problem.at(at, "clients that don't have it reject the site: curl, apps, some browsers"));
    }
    Some((cert, facts))
}

/// Clients reject a certificate outside of its life.
fn lifetime(
    cert: &Path,
    facts: &CertificateFacts,
    now: SystemTime,
    at: Option<&At>,
    problems: &mut Vec<Problem>,
) {
    let renew = "renew it; the server reads the new files by itself, within seconds";
    let path = cert.display();
    let (title, label, cure) = match (facts.begins.duration_since(now), facts.ends.duration_since(now)) {
        (Ok(until), _) if !until.is_zero() => (
            format!("the certificate {path} becomes valid in {}", roughly(until)),
            "browsers reject it until then",
            "set the machine's clock, or wait",
        ),
        (_, Err(ago)) => (
            format!("the certificate {path} expired {} ago", roughly(ago.duration())),
            "browsers reject it",
            renew,
        ),
        (_, Ok(left)) if facts.is_near_its_end(now) => (
            format!("the certificate {path} expires in {}", roughly(left)),
            "browsers will reject it then",
            "renew it, and see why that has not happened by itself; the server reads the new files within seconds",
        ),
        _ => return,
    };
    problems.push(Problem::warning(What::Risky, title, cure).at(at, label));
}

/// Host names for which clients get a certificate of another name.
fn names(site: &View<'_>, known: &[Known], problems: &mut Vec<Problem>) {
    for (name, span) in site.texts("site.names") {
        let is_local =
            name == "localhost" || name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
        if is_local || known.iter().any(|(_, facts)| facts.covers(&name)) {
            continue;
        }
        let cure = format!(
            "obtain a certificate that names {name}, too; or write acme = true under [site.https] of this site to obtain \
             one automatically"
        );
        let title = format!("no certificate covers \"{name}\"");
        let problem = Problem::warning(What::Conflict, title, cure);
        let at = site.at_element("site.names", &span);
        let problem = problem.at(at.as_ref(), "browsers reject https for this name");
        problems.push(known.iter().take(3).fold(problem, |problem, (file, facts)| {
            let names = match facts.names.len() {
                0 => "no DNS name".to_owned(),
                more @ 5.. => format!("{} and {} more", facts.names[..4].join(", "), more - 4),
                _ => facts.names.join(", "),
            };
            problem.note(format!("{} is for {names}", file.display()))
        }));
    }
}

fn client_authorities(site: &View<'_>, reader: &dyn CertificateReader, problems: &mut Vec<Problem>) {
    let is_on = site.choice("site.client_verify") != "off";
    let Some(ca) = file(site, "site.client_ca").filter(|_| is_on) else { return };
    if let Err(why) = reader.client_authorities(&ca) {
        let cure = "name a file with the certificates of your authority, in PEM";
        problems.push(Problem::error(What::Malformed, why, cure).at(site.at("site.client_ca"), ""));
    }
}

/// Authorities that verify other servers. A wrong file stops only the requests that need it.
fn authorities(view: &View<'_>, reader: &dyn CertificateReader, key: &str, problems: &mut Vec<Problem>) {
    let Some(Err(why)) = file(view, key).map(|file| reader.trusted(&file)) else { return };
    let cure =
        "name a file with certificates of authorities, in PEM; without the line, the system's are trusted";
    problems.push(Problem::warning(What::Malformed, why, cure).at(view.at(key), "no server can be verified"));
}

/// The file of a setting, if it is written and is one: nothing else is opened.
fn file(view: &View<'_>, key: &str) -> Option<PathBuf> {
    view.path(key).filter(|path| view.environment().disk.look(path) == Found::File)
}

/// A time in its largest unit: `13 days`.
fn roughly(time: Duration) -> String {
    let seconds = time.as_secs();
    let (number, unit) = match seconds {
        172_800.. => (seconds / 86_400, "days"),
        7_200.. => (seconds / 3_600, "hours"),
        _ => (seconds / 60, "minutes"),
    };
    format!("{number} {unit}")
}
