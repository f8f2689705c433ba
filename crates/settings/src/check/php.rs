//! PHP: consistent numbers of workers, existing files, and its user. A problem of a value that several sites share is
//! reported once.

use super::{bounds, pools};
use crate::environment::{Environment, Found};
use crate::plan::Backend;
use crate::problem::{Problem, What};
use crate::resolve::View;
use crate::value::{number_text, size_text};
use crate::written::Written;

/// Adds every problem of PHP's settings.
pub(super) fn all(written: &Written, environment: &Environment<'_>, problems: &mut Vec<Problem>) {
    let mut found: Vec<Problem> = Vec::new();
    for site in &written.sites {
        let view = View::new(written, Some(site), environment);
        if view.has_php() && !view.backends("php.fastcgi").is_empty() {
            backends(&view, &mut found);
        } else if view.has_php() {
            workers(&view, &mut found);
            pools::all(&view, &mut found);
            files(&view, &mut found);
            version(&view, &mut found);
            user(&view, &mut found);
            uploads(&view, &mut found);
            worker_script(&view, &mut found);
        }
    }
    for problem in found {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
}

/// Workers at start, and idle workers, must not exceed the maximum.
fn workers(view: &View<'_>, problems: &mut Vec<Problem>) {
    const MOST: &str = "php.workers";
    let most = view.number(MOST);
    for key in ["php.workers_start", "php.workers_spare"] {
        let number = view.number(key);
        if number <= most {
            continue;
        }
        let (number, most) = (number_text(number), number_text(most));
        let cure = format!("lower `{key}` to {most} or less, or raise `{MOST}` to {number} or more");
        let problem = Problem::error(What::Conflict, format!("`{key}` is more than `{MOST}`"), cure);
        let problem = problem.at(view.at(key), number).at(view.at(MOST), most.as_str());
        problems.push(match view.at(MOST) {
            Some(_) => problem,
            None => problem.note(format!("`{MOST}` is {most} on this machine by default")),
        });
    }
}

/// With FastCGI, php-fpm has its own settings; and its sockets exist, if it runs.
fn backends(view: &View<'_>, problems: &mut Vec<Problem>) {
    const KEY: &str = "php.fastcgi";
    for key in ["php.program", "php.version", "php.ini_file", "php.ini", "php.user", "php.group"] {
        if view.at(key).is_some() {
            let title = format!("`{key}` has no effect with `{KEY}`: php-fpm runs PHP");
            let cure = "set it in php-fpm's own configuration, or remove one of the two";
            let problem = Problem::warning(What::Conflict, title, cure);
            problems.push(problem.at(view.at(key), "").at(view.at(KEY), "php-fpm"));
        }
    }
    for backend in view.backends(KEY) {
        let Backend::Unix(path) = &backend else { continue };
        let why = match view.environment().disk.look(path) {
            Found::Other => continue,
            Found::Nothing => "the socket does not exist",
            Found::Denied => "permission denied",
            Found::File | Found::Directory => "it is not a socket",
        };
        let title = format!("`{KEY}`: {}: {why}", path.display());
        let cure = "start php-fpm, or correct the path: `listen` in its pool's configuration, like /etc/php/8.2/fpm/pool.d/www.conf";
        problems.push(Problem::warning(What::NotFound, title, cure).at(view.at(KEY), ""));
    }
}

/// Configured files must exist.
fn files(view: &View<'_>, problems: &mut Vec<Problem>) {
    for (key, cure) in [
        ("php.ini_file", "name an existing ini file, or remove the line to use the distribution's"),
        ("php.overload_page", "name an existing file, or remove the line to use the server's own page"),
        ("php.waiting_page", "name an existing file, or remove the line to use the server's own page"),
        ("php.program", "build it with `cargo build --release`, correct the path, or remove the line"),
    ] {
        let Some(file) = view.path(key) else { continue };
        let why = match view.environment().disk.look(&file) {
            Found::File => continue,
            Found::Nothing => "does not exist",
            Found::Denied => "cannot be reached: permission denied",
            Found::Directory | Found::Other => "is not a file",
        };
        let title = format!("`{key}`: {} {why}", file.display());
        problems.push(Problem::error(What::NotFound, title, cure).at(view.at(key), ""));
    }
}

/// A version and a program in the same table contradict each other; a site's own overrides both of `[php]`.
fn version(view: &View<'_>, problems: &mut Vec<Problem>) {
    const VERSION: &str = "php.version";
    const PROGRAM: &str = "php.program";
    let are_both_written = view.at(VERSION).is_some() && view.at(PROGRAM).is_some();
    if are_both_written && view.is_own(VERSION) == view.is_own(PROGRAM) && view.choice(VERSION) != "auto" {
        let title = format!("`{PROGRAM}` and `{VERSION}` are both set");
        let cure = "remove one of them: the version is for programs of packages, the program for one that is elsewhere";
        let problem = Problem::error(What::Conflict, title, cure);
        problems.push(problem.at(view.at(VERSION), "").at(view.at(PROGRAM), ""));
    }
}

/// The script of persistent workers must exist, below the root or elsewhere.
fn worker_script(view: &View<'_>, problems: &mut Vec<Problem>) {
    const KEY: &str = "php.worker_script";
    let Some(worker) = crate::resolve::worker_script(view) else { return };
    if view.environment().disk.look(&worker.file) != Found::File {
        let title = format!("`{KEY}`: {} is not a file", worker.file.display());
        let cure = "put the script there, correct the name, or remove the line";
        let problem = Problem::warning(What::NotFound, title, cure);
        problems.push(problem.at(view.at(KEY), "without it no worker boots: its requests get 503"));
    }
}

/// Only root can run PHP as another user, and should not run it as root.
fn user(view: &View<'_>, problems: &mut Vec<Problem>) {
    let environment = view.environment();
    let user = view.text("php.user");
    if environment.is_root() {
        if matches!(user.as_deref(), None | Some("root" | "0")) {
            let cure = "set php.user to the owner of the site's files, like \"www-data\"";
            let problem = Problem::warning(What::Risky, "PHP runs as root", cure).at(view.at("php.user"), "");
            problems.push(problem.note("a hole in any plugin would give control of the whole machine"));
        }
        accounts(view, problems);
        return;
    }
    for key in ["php.user", "php.group"] {
        let Some(name) = view.text(key) else { continue };
        let own = key == "php.user"
            && (Some(&name) == environment.user_name().as_ref() || name == environment.uid.to_string());
        if !own {
            let title = format!("PHP cannot run as \"{name}\": the server does not run as root");
            let cure = format!("start the server as root, or remove {key}");
            problems.push(Problem::error(What::Conflict, title, cure).at(view.at(key), "").note(bounds(key)));
        }
    }
}

/// Users and groups that are not in this machine's files. A directory service may have them, so this is a warning.
fn accounts(view: &View<'_>, problems: &mut Vec<Problem>) {
    for (key, file, noun) in [("php.user", "/etc/passwd", "user"), ("php.group", "/etc/group", "group")] {
        let Some(name) = view.text(key) else { continue };
        if view.environment().has_account(file, &name) == Some(false) {
            let title = format!("{file} has no {noun} \"{name}\"");
            let cure = format!("correct the name, or create it ({noun}add --system {name})");
            let problem = Problem::warning(What::NotFound, title, cure);
            problems.push(problem.at(view.at(key), "PHP starts only if a directory service knows it"));
        }
    }
}

/// PHP silently drops content above its own limit: a warning if both limits are set.
fn uploads(view: &View<'_>, problems: &mut Vec<Problem>) {
    const NAME: &str = "post_max_size";
    let most = view.number("site.body_bytes");
    let key = if view.at("site.body_bytes").is_some() { "site.body_bytes" } else { "http.body_bytes" };
    let Some((_, value)) = view.layered("php.ini").into_iter().rev().find(|(name, _)| name == NAME) else {
        return;
    };
    let Some(bytes) = ini_bytes(&value).filter(|bytes| (1..most).contains(bytes)) else { return };
    if view.at(key).is_none() {
        return;
    }
    let title = format!("PHP's {NAME} = {} is less than `{key}` = {}", size_text(bytes), size_text(most));
    let cure = format!("raise {NAME} under [php.ini], or lower `{key}`");
    let problem = Problem::warning(What::Conflict, title, cure).at(view.at(key), "the server accepts this");
    problems
        .push(problem.at(view.at("php.ini"), "PHP drops larger content, and the script sees an empty form"));
}

/// A size as PHP reads it: a number and perhaps K, M or G (zend_ini_parse_quantity, Zend/zend_ini.c).
fn ini_bytes(value: &str) -> Option<u64> {
    let shift = match value.trim().bytes().last()?.to_ascii_lowercase() {
        b'k' => 10,
        b'm' => 20,
        b'g' => 30,
        _ => 0,
    };
    let number = value.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim();
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}
