//! The sites: duplicate names, directories, front controllers and redirects.

use std::path::Path;

use super::{bounds, not_a_folder};
use crate::application;
use crate::environment::{Environment, Found};
use crate::plan::{AppAddress, Profile};
use crate::problem::{At, Problem, Severity, What};
use crate::resolve::View;
use crate::rule;
use crate::written::{Written, WrittenTable};

/// Adds every problem of the sites.
pub(super) fn all(written: &Written, environment: &Environment<'_>, problems: &mut Vec<Problem>) {
    let views: Vec<View<'_>> =
        written.sites.iter().map(|site| View::new(written, Some(site), environment)).collect();
    names(&views, problems);
    defaults(written, &views, problems);
    for (site, view) in written.sites.iter().zip(&views) {
        root(site, view, problems);
        proxies(site, view, problems);
        front_controller(view, problems);
        redirect(view, problems);
        handed_out(view, problems);
        rule::on_disk(&site.rules, view, problems);
    }
}

/// A host name belongs to one site.
fn names(views: &[View<'_>], problems: &mut Vec<Problem>) {
    const KEY: &str = "site.names";
    let mut seen: Vec<(String, Option<At>)> = Vec::new();
    for view in views {
        for (name, span) in view.texts(KEY) {
            let at = view.at_element(KEY, &span);
            match seen.iter().find(|(other, _)| *other == name) {
                None => seen.push((name, at)),
                Some((_, first)) => {
                    let title = format!("the name \"{name}\" is used twice");
                    let problem =
                        Problem::error(What::Duplicate, title, "remove one of the two, or rename it");
                    problems.push(problem.at(at.as_ref(), "again").at(first.as_ref(), "first here"));
                }
            }
        }
    }
}

/// One default site, and names for all others.
fn defaults(written: &Written, views: &[View<'_>], problems: &mut Vec<Problem>) {
    const KEY: &str = "site.default";
    let chosen: Vec<usize> = (0..views.len()).filter(|number| views[*number].switch(KEY)).collect();
    for number in chosen.iter().skip(1) {
        let cure = "keep `default = true` in one site; requests for unknown hosts go there";
        let problem = Problem::error(What::Duplicate, "two sites are the default", cure);
        problems.push(problem.at(views[*number].at(KEY), "again").at(views[chosen[0]].at(KEY), "first here"));
    }
    let default = chosen.first().copied().unwrap_or(0);
    for (number, (site, view)) in written.sites.iter().zip(views).enumerate() {
        if number != default && !chosen.contains(&number) && view.at("site.names").is_none() {
            let cure = "add a line like names = [\"example.com\", \"www.example.com\"], or default = true";
            let problem = Problem::error(What::Missing, "a site has no names", cure);
            problems.push(problem.at(site.at.as_ref(), "no request would reach this site"));
        }
    }
}

/// The directory must exist.
fn root(site: &WrittenTable, view: &View<'_>, problems: &mut Vec<Problem>) {
    const KEY: &str = "site.root";
    let at = view.at(KEY);
    let Some(root) = view.root() else {
        // A wrong root has been reported, and a site of an application needs none.
        if at.is_none() && !view.is_all_proxied() {
            let cure = "add a line like root = \"/srv/www/example\"";
            let problem = Problem::error(What::Missing, "a site has no root", cure);
            problems.push(problem.at(site.at.as_ref(), "which directory?"));
        }
        return;
    };
    let disk = view.environment().disk;
    let path = root.display();
    let wrong = |title: String, cure: String| Problem::error(What::NotFound, title, cure);
    match disk.look(&root) {
        Found::Directory => {}
        Found::Nothing => {
            let known = root.ancestors().skip(1).find(|dir| disk.look(dir) == Found::Directory);
            let label =
                known.map(|dir| format!("{} exists, the rest does not", dir.display())).unwrap_or_default();
            let argument = at.is_some_and(|at| at.origin.is_argument());
            let from =
                if argument { "the current directory" } else { "the directory of the configuration file" };
            let cure = format!("correct the path; a relative one starts at {from}");
            return problems.push(wrong(format!("the root {path} does not exist"), cure).at(at, label));
        }
        Found::Denied => {
            let cure = "let the server's user enter the directories above it (chmod o+x), or start the server as root";
            return problems.push(
                wrong(format!("the root {path} cannot be reached"), cure.into()).at(at, "permission denied"),
            );
        }
        Found::File | Found::Other => {
            let cure = match root.parent() {
                Some(parent) => format!("write the directory: \"{}\"", parent.display()),
                None => "write a directory".to_owned(),
            };
            return problems
                .push(wrong(format!("the root {path} is not a directory"), cure).at(at, "a file"));
        }
    }
    if root.parent().is_none() {
        let cure = "name the directory of the site";
        let problem = Problem::warning(What::Risky, "the root is the whole file system", cure);
        problems.push(problem.at(at, "visitors could request any file"));
    } else if let Some((folder, name)) = application::public_folder(&root, disk) {
        let project = name.map_or_else(|| "a project".to_owned(), |name| format!("a project of {name}"));
        let title = format!("{path} looks like {project} with its public files in `{folder}`");
        let cure = format!("write \"{}\"", root.join(folder).display());
        let problem = Problem::warning(What::Risky, title, cure);
        problems.push(problem.at(at, "visitors could request its code and configuration"));
    }
    two_applications(&root, view, problems);
    articles(&root, view, problems);
}

/// A wiki whose articles have paths that are not known.
fn articles(root: &Path, view: &View<'_>, problems: &mut Vec<Problem>) {
    let is_asked = view.profile() == Profile::MediaWiki && view.at("site.front_controller").is_none();
    if let Some(why) = application::unclear_articles(root, view.environment().disk).filter(|_| is_asked) {
        let title = format!("the paths of the wiki's articles are unknown: {why}");
        let cure = "write front_controller = \"/index.php\" (\"/w/index.php\" if the wiki is there); or \"off\" if articles \
                    are at /index.php/Title";
        let problem = Problem::warning(What::Conflict, title, cure);
        problems
            .push(problem.at(view.at("site.root"), "articles without a script's name in their URL get 404"));
    }
}

/// A directory with the files of two applications: only the rules of one apply.
fn two_applications(root: &Path, view: &View<'_>, problems: &mut Vec<Problem>) {
    if view.choice("site.profile") != "auto" {
        return;
    }
    let found: Vec<_> = application::recognised(root, view.environment().disk).take(2).collect();
    if let [first, second] = found[..] {
        let title = format!("{} has the files of both {} and {}", root.display(), first.name, second.name);
        let cure = format!(
            "write profile = \"{}\", or \"{}\"; or give each application a root of its own",
            first.word, second.word
        );
        let problem = Problem::warning(What::Conflict, title, cure);
        let label = format!("the rules of {} apply, those of {} do not", first.name, second.name);
        problems.push(problem.at(view.at("site.root"), label));
    }
}

/// Each application has its own path, and is reachable as far as that can be known.
fn proxies(site: &WrittenTable, view: &View<'_>, problems: &mut Vec<Problem>) {
    let mut seen: Vec<(String, Option<&At>)> = Vec::new();
    for (table, view) in site.values.proxies.iter().zip(view.proxies()) {
        for (key, example) in
            [("proxy.path", "path = \"/api/\""), ("proxy.to", "to = \"http://127.0.0.1:3000\"")]
        {
            if view.at(key).is_none() {
                let title = format!("a [[site.proxy]] has no `{}`", key.trim_start_matches("proxy."));
                let problem = Problem::error(What::Missing, title, format!("add a line like {example}"));
                problems.push(problem.at(table.at.as_ref(), "which requests go where?"));
            }
        }
        if let Some(path) = view.text("proxy.path") {
            let at = view.at("proxy.path");
            if let Some((_, first)) = seen.iter().find(|(other, _)| *other == path) {
                let title = format!("the path \"{path}\" has two applications");
                let cure = "remove one of the two; several copies of one application go into one list: \
                            to = [\"http://127.0.0.1:3000\", \"http://127.0.0.1:3001\"]";
                let problem = Problem::error(What::Duplicate, title, cure);
                problems.push(problem.at(at, "again").at(*first, "first here"));
            }
            seen.push((path, at));
        }
        strip_needs_a_prefix(&view, problems);
        unix_socket(&view, problems);
        authorities(&view, problems);
    }
}

/// Without the slash at its end, the path is one URL: nothing follows that could be passed on.
fn strip_needs_a_prefix(view: &View<'_>, problems: &mut Vec<Problem>) {
    let path = view.text("proxy.path").unwrap_or_default();
    if view.switch("proxy.strip") && !path.is_empty() && (path == "/" || !path.ends_with('/')) {
        let cure = if path == "/" {
            "remove `strip = true`: with \"/\" there is nothing to strip".to_owned()
        } else {
            format!("write path = \"{path}/\", or remove `strip = true`")
        };
        let problem = Problem::error(What::Conflict, "`proxy.strip` needs a path with an end to strip", cure);
        problems.push(problem.at(view.at("proxy.strip"), "").at(view.at("proxy.path"), "the path"));
    }
}

/// A socket that does not exist yet is no error: the application may start later.
fn unix_socket(view: &View<'_>, problems: &mut Vec<Problem>) {
    for url in view.applications("proxy.to") {
        let AppAddress::Unix(path) = &url.address else { continue };
        let (title, cure) = match view.environment().disk.look(path) {
            Found::Nothing => (
                format!("there is no socket {}", path.display()),
                "start the application, or correct the path; requests get 502 until it listens there",
            ),
            Found::Directory | Found::File => {
                (format!("{} is not a socket", path.display()), "write the path of the application's socket")
            }
            Found::Denied | Found::Other => continue,
        };
        problems.push(Problem::warning(What::NotFound, title, cure).at(view.at("proxy.to"), ""));
    }
}

/// The file of the trusted authorities must exist.
fn authorities(view: &View<'_>, problems: &mut Vec<Problem>) {
    const KEY: &str = "proxy.ca";
    let Some(path) = view.path(KEY).filter(|path| view.environment().disk.look(path) != Found::File) else {
        return;
    };
    let title = format!("`{KEY}`: there is no readable file {}", path.display());
    let cure = "correct the path, or remove the line to trust the system's authorities";
    problems.push(Problem::error(What::NotFound, title, cure).at(view.at(KEY), ""));
}

/// The script that answers URLs without a file.
fn front_controller(view: &View<'_>, problems: &mut Vec<Problem>) {
    const KEY: &str = "site.front_controller";
    let at = view.at(KEY);
    let Some(script) = view.text(KEY) else {
        if !view.switch("site.try_files") {
            let cure = "add front_controller = \"/index.php\", or remove try_files = false";
            let problem =
                Problem::error(What::Conflict, "`site.try_files = false` needs a front controller", cure);
            problems.push(
                problem.at(view.at("site.try_files"), "files are not looked up").at(at, "no script answers"),
            );
        }
        return;
    };
    if at.is_some() && !view.switch("php.enabled") {
        let cure = "remove one of the two";
        let problem =
            Problem::error(What::Conflict, "a front controller needs PHP, which is off for this site", cure);
        problems.push(problem.at(at, "a script").at(view.at("php.enabled"), "no PHP"));
    }
    let Some(root) = view.root() else { return };
    let disk = view.environment().disk;
    let file = root.join(script.trim_start_matches('/'));
    let outside = |root: &Path, real: &Path| !real.starts_with(root);
    match (disk.real(&root), disk.real(&file)) {
        (Some(root), Some(real)) if outside(&root, &real) && view.choice("files.symlinks") == "inside" => {
            let title = format!("the front controller {script} is outside the root");
            let cure = "put the script into the root, or set files.symlinks = \"follow\"";
            let label = format!("a link to {}", real.display());
            problems.push(Problem::error(What::Conflict, title, cure).at(at, label).note(bounds(KEY)));
        }
        (Some(_), found) if at.is_some() && (found.is_none() || disk.look(&file) != Found::File) => {
            let title = format!("the front controller {script} is not in the root");
            let cure = format!("put a script at {}, or correct the name", file.display());
            problems.push(
                Problem::warning(What::NotFound, title, cure)
                    .at(at, "no such file: URLs without a file get 404"),
            );
        }
        _ => {}
    }
}

/// Directories that scripts send files from.
fn handed_out(view: &View<'_>, problems: &mut Vec<Problem>) {
    let roots = view.folders("site.sendfile_roots").into_iter().map(|dir| ("site.sendfile_roots", dir));
    let places = view.pairs("site.internal").into_iter().map(|(_, dir)| ("site.internal", dir.into()));
    for (key, dir) in roots.chain(places) {
        let at = view.at(key);
        match view.environment().disk.look(&dir) {
            Found::Directory if dir.parent().is_none() => {
                let title = format!("`{key}`: scripts could send any file of the machine");
                let cure = "name the directory of the files";
                problems.push(Problem::warning(What::Risky, title, cure).at(at, "the whole file system"));
            }
            Found::Directory => {}
            found => problems
                .push(Problem { severity: Severity::Warning, ..not_a_folder(key, &dir, found).at(at, "") }),
        }
    }
}

/// Redirects to a name or scheme that the site does not have.
fn redirect(view: &View<'_>, problems: &mut Vec<Problem>) {
    let names: Vec<String> = view.texts("site.names").into_iter().map(|(name, _)| name).collect();
    let matches = |host: &str| {
        let under = |wildcard: &String| wildcard.strip_prefix('*').is_some_and(|rest| host.ends_with(rest));
        names.iter().any(|name| name == host || under(name))
    };
    let adding = view.choice("site.redirect.www") == "add";
    for name in names.iter().filter(|name| !name.starts_with('*')) {
        let target = match (view.choice("site.redirect.www"), name.strip_prefix("www.")) {
            ("add", None) => format!("www.{name}"),
            ("remove", Some(bare)) => bare.to_owned(),
            _ => continue,
        };
        if !matches(&target) && name.parse::<std::net::Ipv4Addr>().is_err() && !name.starts_with('[') {
            let title = format!("\"{name}\" is redirected to \"{target}\", which is not a name of this site");
            let cure = format!(
                "add \"{target}\" to names, or set www = \"{}\"",
                if adding { "remove" } else { "add" }
            );
            let problem = Problem::warning(What::Conflict, title, cure);
            problems
                .push(problem.at(view.at("site.redirect.www"), "").at(view.at("site.names"), "the names"));
        }
    }
    if view.switch("site.redirect.https")
        && view.networks("server.trusted_proxies").is_empty()
        && view.addresses("https.listen").is_empty()
    {
        let title = "every request is redirected to https, but HTTPS is off";
        let cure = "set https.listen; or put a TLS proxy in front and name it in server.trusted_proxies (\"127.0.0.1\" or \"unix\")";
        let problem = Problem::warning(What::Conflict, title, cure);
        problems.push(problem.at(view.at("site.redirect.https"), "").note(
            "a request counts as https if a trusted proxy says so in X-Forwarded-Proto; any other request would be redirected forever",
        ));
    }
}
