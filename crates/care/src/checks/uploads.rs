//! Uploads: what was too large for the server or for PHP.

use super::{Certainty, Check, Measured, NEVER, Rank, Scope, Thresholds, bytes, measure};
use crate::facts::{Blind, Facts, Span};

/// What the rows are about.
const SCOPE: Scope = Scope::Machine;

/// What each of the three limits has done: the server's own is certain.
const REFUSED: f64 = 3.0;
const DROPPED: f64 = 2.0;
const MAY_BE: f64 = 1.0;

pub(super) const CHECKS: &[Check] = &[row!(
    "uploads-large",
    "uploads that are too large",
    "content of each site in the status, post_max_size and upload_max_filesize of the PHP host",
    Thresholds {
        note: MAY_BE,
        warning: DROPPED,
        error: NEVER,
        unit: "for a request larger than upload_max_filesize, 2 for one larger than post_max_size, 3 for one refused because of body_bytes"
    },
    "RFC 9110 section 15.5.14: 413; PHP manual, post_max_size: $_POST and $_FILES are empty beyond it",
    "body_bytes; post_max_size and upload_max_filesize follow it unless php.ini or php.ini_file sets them",
    "Pictures, imports and plugins can't be uploaded; PHP gives no reason.",
    High,
    Symptom,
    too_large
)];

fn too_large(span: &Span<'_>) -> Measured {
    let sites = span.now.list("server.sites")?;
    let services = span.now.list("php.services").unwrap_or_default();
    let mut all = Vec::new();
    for site in sites.iter().filter(|site| site.figure("content.limit_bytes").is_ok()) {
        let service = services.iter().find(|service| service.text("name") == site.text("php_service"));
        all.extend(refused(site));
        all.extend(service.and_then(|service| beyond_php(site, service)));
    }
    match all.is_empty() && !sites.iter().any(|site| site.figure("content.limit_bytes").is_ok()) {
        true => Err(Blind::CouldNotLook("the server does not report the content of requests".to_owned())),
        false => Ok(all),
    }
}

/// Requests that got 413.
fn refused(site: &Facts) -> Option<super::Measure> {
    let count = site.figure("content.refused").ok().filter(|count| *count > 0.0)?;
    let limit = site.figure("content.limit_bytes").ok()?;
    let largest = site.figure("content.largest_refused_bytes").ok()?.max(limit + 1.0);
    Some(measure(
        REFUSED,
        format!("{} refuses uploads that are too large", name(site)),
        format!(
            "{count:.0} requests got 413 since its configuration was read; the largest had {}, the limit is {}",
            bytes(largest),
            bytes(limit)
        ),
        format!(
            "body_bytes = \"{}\" in the site (now {}), then `millrace reload`; PHP's post_max_size and upload_max_filesize follow it unless php.ini or php.ini_file sets them",
            rounded(largest),
            bytes(limit)
        ),
    ))
}

/// Requests that the server passed on, and PHP did not accept, or may not have accepted.
fn beyond_php(site: &Facts, service: &Facts) -> Option<super::Measure> {
    let largest = site.figure("content.largest_php_bytes").ok()?;
    let size = |name: &str| {
        let text = service.word(&format!("settings.{name}")).ok()?;
        super::php::size(text)
            .filter(|limit| *limit > 0.0 && *limit < largest)
            .map(|limit| (name.to_owned(), text.to_owned(), limit))
    };
    let (value, (setting, text, _), what) = match size("post_max_size") {
        Some(found) => (DROPPED, found, "PHP has dropped the content of a request to"),
        None => (MAY_BE, size("upload_max_filesize")?, "PHP may have refused a file that was sent to"),
    };
    Some(measure(
        value,
        format!("{what} {}", name(site)),
        format!("the largest request had {}; {setting} = {text} in {}", bytes(largest), service.text("name")),
        format!(
            "[php] ini = {{ {setting} = \"{}M\" }} (now {text}), or remove it from php.ini: without it, PHP follows body_bytes; then `millrace reload`. A .user.ini of the site may have raised it already",
            (largest * 1.25 / 1_048_576.0).ceil()
        ),
    ))
}

/// The first name of a site, or its folder.
fn name(site: &Facts) -> String {
    let names = site.text("names").split(", ").next().unwrap_or_default();
    if names.is_empty() { site.text("root").to_owned() } else { names.to_owned() }
}

/// A limit with room for a file like this one.
fn rounded(largest: f64) -> String {
    format!("{:.0}MB", (largest * 1.25 / 1_048_576.0).ceil())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Pair, case};

    fn content(refused: f64, largest_refused: f64, largest: f64) -> impl Fn(&mut Pair) {
        move |p: &mut Pair| {
            let site = &mut p.now.items("server.sites")[0];
            site.set("content.refused", refused);
            site.set("content.largest_refused_bytes", largest_refused);
            site.set("content.largest_php_bytes", largest);
        }
    }

    #[test]
    fn uploads() {
        case("uploads-large", content(1.0, 200e6, 1e6), content(0.0, 0.0, 1e6));
        // What PHP's own limits are smaller than.
        case("uploads-large", content(0.0, 0.0, 60e6), content(0.0, 0.0, 1_900_000.0));
        let mut pair = Pair::healthy();
        content(2.0, 200e6, 60e6)(&mut pair);
        let found = pair.finding("uploads-large");
        assert!(
            found.cure.starts_with("body_bytes = \"239MB\" in the site (now 61.0 MiB)"),
            "{}",
            found.cure
        );
        let mut pair = Pair::healthy();
        content(0.0, 0.0, 5e6)(&mut pair);
        let found = pair.finding("uploads-large");
        assert!(
            found.cure.starts_with("[php] ini = { upload_max_filesize = \"6M\" } (now 2M)"),
            "{}",
            found.cure
        );
    }
}
