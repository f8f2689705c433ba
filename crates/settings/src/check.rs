//! Checks settings against each other and against the machine: problems that no single value shows.

mod acme;
mod cache;
mod certificates;
mod https;
mod object_cache;
mod php;
mod pools;
mod sites;

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::environment::{Environment, Found};
use crate::plan::Address;
use crate::problem::{At, Problem, What};
use crate::resolve::View;
use crate::table;
use crate::value::{is_loopback, overlap, size_text};
use crate::written::Written;

/// Adds every problem of `written` on this machine.
pub(crate) fn written(written: &Written, environment: &Environment<'_>, problems: &mut Vec<Problem>) {
    let view = View::new(written, None, environment);
    addresses(&view, problems);
    ordered(&view, "http.target_bytes", "http.head_bytes", problems);
    ordered(&view, "files.compress_from", "files.compress_to", problems);
    folders(&view, problems);
    sites::all(written, environment, problems);
    https::all(written, environment, problems);
    acme::all(written, environment, problems);
    certificates::all(written, environment, problems);
    cache::all(written, environment, problems);
    php::all(written, environment, problems);
    object_cache::all(written, environment, problems);
}

impl View<'_> {
    /// The place of one element of the value of `key`.
    fn at_element(&self, key: &str, span: &Range<usize>) -> Option<At> {
        self.at(key).map(|at| At { origin: at.origin.clone(), span: span.clone() })
    }
}

/// Listeners that overlap, and an admin address that is open to the network.
fn addresses(view: &View<'_>, problems: &mut Vec<Problem>) {
    let of =
        |key: &'static str| view.addresses(key).into_iter().map(move |(address, span)| (key, address, span));
    let listen: Vec<_> = ["server.listen", "https.listen"].into_iter().flat_map(of).collect();
    for (number, (key, address, span)) in listen.iter().enumerate() {
        let Some((other_key, other, first)) =
            listen[..number].iter().find(|(_, other, _)| overlap(other, address))
        else {
            continue;
        };
        let (title, cure) = if key != other_key {
            (
                format!("{} is configured for both HTTP and HTTPS", address_text(address)),
                "use a different port for each, usually :80 and :443",
            )
        } else if other == address {
            ("an address is listed twice".to_owned(), "remove one of the two")
        } else {
            (
                format!("{} and {} overlap", address_text(other), address_text(address)),
                "keep the wider one: it accepts the connections of both",
            )
        };
        let problem = Problem::error(What::Conflict, title, cure);
        let problem = problem.at(view.at_element(key, span).as_ref(), "again");
        problems.push(problem.at(view.at_element(other_key, first).as_ref(), "first here"));
    }
    let Some(admin) = view.address("admin.listen") else { return };
    let at_admin = view.at("admin.listen");
    if let Some((key, address, span)) = listen.iter().find(|(_, address, _)| overlap(address, &admin)) {
        let title = format!("admin.listen and the sites share {}", address_text(address));
        let problem = Problem::error(What::Conflict, title, "use another port or socket for admin.listen");
        problems.push(problem.at(at_admin, "admin").at(view.at_element(key, span).as_ref(), "sites"));
    }
    if !is_loopback(&admin) {
        let title = format!("admin.listen = \"{}\" is open to the network", address_text(&admin));
        let port = if let Address::Tcp(address) = &admin { address.port() } else { 0 };
        let cure = format!(
            "write \"127.0.0.1:{port}\", or a Unix socket, and connect through ssh or a proxy that requires a password"
        );
        let problem = Problem::error(What::OutOfBounds, title, cure).at(at_admin, "not a loopback address");
        problems.push(problem.note("clients of this address can reload the server and see every URL"));
    }
}

/// Two sizes; the first must not exceed the second.
fn ordered(view: &View<'_>, less: &str, more: &str, problems: &mut Vec<Problem>) {
    let (low, high) = (view.number(less), view.number(more));
    if low <= high {
        return;
    }
    let title = format!("`{less}` is more than `{more}`");
    let cure = format!(
        "lower `{less}` to {} or less, or raise `{more}` to {} or more",
        size_text(high),
        size_text(low)
    );
    let (at_less, at_more) = (view.at(less), view.at(more));
    let problem =
        Problem::error(What::Conflict, title, cure).at(at_less, size_text(low)).at(at_more, size_text(high));
    problems.push(if at_more.is_none() {
        problem.note(format!("`{more}` is {} by default", size_text(high)))
    } else {
        problem
    });
}

/// Directories that must exist when the server starts.
fn folders(view: &View<'_>, problems: &mut Vec<Problem>) {
    let spool = view.path("server.spool_dir").map(|dir| ("server.spool_dir", dir));
    let parent = |key| view.path(key).and_then(|file: PathBuf| Some((key, file.parent()?.to_owned())));
    let own = |key| view.path(key).map(|dir| (key, dir));
    let shield = [parent("shield.state_file"), own("shield.lists"), own("shield.crawlers")];
    let others = [spool, parent("log.access"), parent("log.error")];
    for (key, dir) in others.into_iter().chain(shield).flatten() {
        match view.environment().disk.look(&dir) {
            Found::Directory => {}
            found => problems.push(not_a_folder(key, &dir, found).at(view.at(key), "")),
        }
    }
    for key in ["log.access", "log.error"] {
        let Some(file) = view.path(key).filter(|file| view.environment().disk.look(file) == Found::Directory)
        else {
            continue;
        };
        let title = format!("`{key}`: {} is a directory", file.display());
        let cure = format!(
            "write the path of a file, like \"{}\"",
            file.join(key.replace("log.", "") + ".log").display()
        );
        problems.push(Problem::error(What::NotFound, title, cure).at(view.at(key), "a directory"));
    }
}

pub(crate) fn not_a_folder(key: &str, dir: &Path, found: Found) -> Problem {
    let path = dir.display();
    let (why, cure) = match found {
        Found::Nothing => ("does not exist", format!("create it (mkdir -p {path}), or correct the path")),
        Found::Denied => (
            "cannot be reached: permission denied",
            "let the server's user access it, or choose another".to_owned(),
        ),
        _ => ("is not a directory", "name a directory".to_owned()),
    };
    Problem::error(What::NotFound, format!("`{key}`: {path} {why}"), cure)
}

/// An address as a configuration writes it.
pub(crate) fn address_text(address: &Address) -> String {
    match address {
        Address::Tcp(address) if address.ip() == std::net::Ipv6Addr::UNSPECIFIED => {
            format!(":{}", address.port())
        }
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// The bounds of a setting, as a note.
fn bounds(key: &str) -> String {
    table::find(key).map(|row| format!("`{key}` takes {}", row.kind.bounds())).unwrap_or_default()
}
