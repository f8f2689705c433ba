//! Finds the route of a request: which site, which rule of its application, which file or script.

mod front_door;
#[cfg(test)]
mod tests;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use millrace_wire::path;

pub use front_door::{elsewhere, stranger};

use crate::files::{self, Node, Purpose};
use millrace_base::context::Context;
use millrace_base::message::Request;
use millrace_base::site::{AtPath, Closing, Script, Site, WorkerKind};

/// How a request is answered.
#[derive(Debug)]
pub enum Route {
    /// With a file.
    File(Rc<files::FileEntry>),
    /// By a PHP run.
    Php(Script),
    /// By a redirect: status and location.
    Redirect(u16, String),
    /// By a refusal with this status.
    Refuse(u16),
    /// By the list of methods for files: `OPTIONS`, or a method that files don't support.
    Allow(u16),
}

/// Methods for files.
pub const FILE_METHODS: &str = "GET, HEAD, OPTIONS";

/// The route of a request to `site` whose path need not be looked up. Leaves the normalised path of its target in `path`.
pub fn at_the_door(site: &Site, request: &Request, path: &mut Vec<u8>) -> Option<Route> {
    let method = request.head.method();
    if matches!(method, "TRACE" | "CONNECT") {
        return Some(Route::Allow(405));
    }
    if request.head.path_query() == b"*" {
        return Some(Route::Allow(200));
    }
    if path::normalise(request.raw_path(), path).is_err() {
        return Some(Route::Refuse(400));
    }
    let (status, location) = front_door::redirect(site, request, path)?;
    Some(Route::Redirect(status, location))
}

/// Finds the route to `path`: the request's normalised path, or what rules have made of it.
pub fn find_route(
    context: &Context,
    files: &files::OpenFileCache,
    site: &Site,
    request: &Request,
    path: &[u8],
) -> Route {
    if site.plan.internal.iter().any(|(prefix, _)| path.starts_with(prefix.as_bytes())) {
        // Only scripts lead there: see `handover`.
        return Route::Refuse(404);
    }
    Finder { context, files, site, folder: None }.find(request, path)
}

/// A directory beside the root; a rule of the site serves its files.
#[derive(Clone, Copy, Debug)]
pub struct OtherFolder<'a> {
    /// Its number among the site's folders that are not the root.
    pub number: usize,
    /// The directory.
    pub path: &'a Path,
}

/// Finds the route to `below` in a directory that is not the root, for a request of `path`. Files only: no script runs, and
/// no source is sent. `below` is normalised, and empty for the directory itself without a slash.
pub fn find_other_file(
    context: &Context,
    files: &files::OpenFileCache,
    site: &Site,
    request: &Request,
    folder: OtherFolder<'_>,
    (below, path): (&[u8], &[u8]),
) -> Route {
    if below.is_empty() {
        return Route::Redirect(redirect_status(request), front_door::with_slash(request, path));
    }
    let finder = Finder { context, files, site, folder: Some(folder) };
    finder.file_at(request, below, path).unwrap_or(Route::Refuse(404))
}

/// The script at `name`, a path below the root; `None`: there is none that may run.
pub fn find_script(
    context: &Context,
    files: &files::OpenFileCache,
    site: &Site,
    name: &str,
) -> Option<Script> {
    match (Finder { context, files, site, folder: None }).script_in(name.as_bytes()) {
        Some(Route::Php(script)) if script.path_info.is_empty() => Some(script),
        _ => None,
    }
}

/// The path that stands for `path` in a network of sites, if nothing is at `path` itself.
pub fn inner_path(
    context: &Context,
    files: &files::OpenFileCache,
    site: &Site,
    path: &[u8],
) -> Option<Vec<u8>> {
    let multisite = site.multisite.as_ref().filter(|_| site.plan.try_files)?;
    let inner = multisite.inner(context, path, script_ends(path).next().is_some())?;
    let is_here = !matches!(files.find(context, site, path, Purpose::Run), Node::Missing);
    (!is_here && inner != path).then_some(inner)
}

/// What is at a path, for the rules of an application. Nothing is made of a closed path that is missing.
pub fn place(context: &Context, files: &files::OpenFileCache, site: &Site, path: &[u8]) -> AtPath {
    let finder = Finder { context, files, site, folder: None };
    match finder.look(path, Purpose::Run) {
        Node::Script(_) => AtPath::Script,
        Node::Missing if finder.is_closed(path) => AtPath::Other,
        Node::Missing if script_ends(path).next().is_none() => AtPath::Missing,
        _ => AtPath::Other,
    }
}

/// Looks a path up in one site.
struct Finder<'a> {
    context: &'a Context,
    files: &'a files::OpenFileCache,
    site: &'a Site,
    /// Where, if not in the root.
    folder: Option<OtherFolder<'a>>,
}

impl Finder<'_> {
    /// File, then directory, then the same in a multisite network, then front controller.
    fn find(&self, request: &Request, path: &[u8]) -> Route {
        if !self.site.plan.try_files {
            return self.front_controller();
        }
        if self.is_closed(path) {
            return Route::Refuse(404);
        }
        let names_script = script_ends(path).next().is_some();
        let at = |place: &[u8]| {
            if names_script {
                self.script_in(place).or_else(|| self.in_script_folder(request, place, path))
            } else {
                self.file_at(request, place, path)
            }
        };
        let inner = || at(&self.site.multisite.as_ref()?.inner(self.context, path, names_script)?);
        match at(path).or_else(inner) {
            Some(route) => route,
            // A missing script is a plain 404: almost only scanners request one, and they send thousands of requests.
            None if names_script => self.moved(request, path).unwrap_or(Route::Refuse(404)),
            None => self.page(path),
        }
    }

    /// Whether the application closes a path, and the site does not open it.
    fn is_closed(&self, path: &[u8]) -> bool {
        let is_there = || !matches!(self.look(path, Purpose::Run), Node::Missing);
        let is_closed = match self.site.profile.closes(path) {
            Closing::Open => false,
            Closing::ByCase => is_there(),
            Closing::Closed => true,
        };
        is_closed && !self.site.allows(path)
    }

    /// The page of a path that leads to no file.
    fn page(&self, path: &[u8]) -> Route {
        let is_below = |below: &String| {
            path.starts_with(below.as_bytes())
                || below.strip_suffix('/').is_some_and(|b| b.as_bytes() == path)
        };
        let has_pages = self.site.plan.pages_below.as_ref().is_none_or(is_below);
        if has_pages { self.front_controller() } else { Route::Refuse(404) }
    }

    /// The application's script for a path under which people know it.
    fn moved(&self, request: &Request, path: &[u8]) -> Option<Route> {
        let (_, to) = self.site.profile.moved.iter().find(|(from, _)| from.as_bytes() == path)?;
        let is_there = matches!(self.look(to.as_bytes(), Purpose::Run), Node::Script(_));
        let location = || front_door::elsewhere(request, to.as_bytes());
        is_there.then(|| Route::Redirect(redirect_status(request), location()))
    }

    /// The file or directory at a path, which was requested as `asked`. `None`: there is none.
    fn file_at(&self, request: &Request, path: &[u8], asked: &[u8]) -> Option<Route> {
        if self.site.never_serves(path) {
            let is_page =
                self.site.may_be_page(path) && matches!(self.look(path, Purpose::Run), Node::Missing);
            return if is_page { None } else { Some(Route::Refuse(404)) };
        }
        Some(match self.look(path, Purpose::Serve) {
            Node::File(entry) if !path.ends_with(b"/") => serve(request, entry),
            Node::Directory if path.ends_with(b"/") => self.index(request, path),
            Node::Directory if self.is_page_and_folder(path) => self.front_controller(),
            Node::Directory => {
                Route::Redirect(redirect_status(request), front_door::with_slash(request, asked))
            }
            Node::Unavailable => Route::Refuse(503),
            _ => return None,
        })
    }

    /// Whether a folder, asked for without its slash, is nothing but a page of the application.
    fn is_page_and_folder(&self, path: &[u8]) -> bool {
        let is_index = |name: &String| {
            let purpose = if name.ends_with(".php") { Purpose::Run } else { Purpose::Serve };
            let found = self.look(&[path, b"/", name.as_bytes()].concat(), purpose);
            matches!(found, Node::File(_) | Node::Script(_) | Node::Unavailable)
        };
        self.has_folder_pages() && !self.context.plan().files.index.iter().any(is_index)
    }

    /// Whether folders without an index are pages of the application; those beside the root are none of its.
    fn has_folder_pages(&self) -> bool {
        self.folder.is_none() && self.site.profile.folders_are_pages
    }

    /// The script that a path names or passes through: `/a.php`, `/a.php/info`. `None`: there is none.
    ///
    /// Splits only after an existing file, and only at a whole segment, so that `upload.jpg/x.php` never runs.
    fn script_in(&self, path: &[u8]) -> Option<Route> {
        for end in script_ends(path) {
            match self.look(&path[..end], Purpose::Run) {
                Node::Script(filename) => {
                    let (name, path_info) = (path[..end].to_vec(), path[end..].to_vec());
                    return Some(self.run(Script {
                        filename,
                        name,
                        path_info,
                        workers: WorkerKind::Ordinary,
                    }));
                }
                Node::Unavailable => return Some(Route::Refuse(503)),
                _ => {}
            }
        }
        None
    }

    /// What is in a folder with the name of a script (`/x.php/a.css`), requested as `asked`.
    fn in_script_folder(&self, request: &Request, path: &[u8], asked: &[u8]) -> Option<Route> {
        let is_folder = |path: &[u8]| matches!(self.look(path, Purpose::Run), Node::Directory);
        if !script_ends(path).any(|end| is_folder(&path[..end])) {
            None
        } else if !path.ends_with(b".php") {
            self.file_at(request, path, asked)
        } else if is_folder(path) {
            Some(Route::Redirect(redirect_status(request), front_door::with_slash(request, asked)))
        } else {
            None
        }
    }

    /// Runs a script. The worker script, and the front controller, whose work it does, run on the persistent workers.
    fn run(&self, mut script: Script) -> Route {
        if let Some(worker) = self.site.worker() {
            let front = self.site.plan.front_controller.as_ref();
            if [Some(&worker.name), front].into_iter().flatten().any(|n| n.as_bytes() == script.name) {
                script.workers = WorkerKind::Persistent;
            }
        }
        let may = self.site.plan.php.is_some() && self.site.lets_run(&script.name);
        match may {
            true => Route::Php(script),
            false if self.site.profile.others_are_pages && self.site.plan.front_controller.is_some() => {
                self.front_controller()
            }
            false => Route::Refuse(404),
        }
    }

    fn index(&self, request: &Request, path: &[u8]) -> Route {
        let runs = self.folder.is_none();
        for name in self.context.plan().files.index.iter().filter(|name| runs || !name.ends_with(".php")) {
            let candidate = [path, name.as_bytes()].concat();
            let purpose = if name.ends_with(".php") { Purpose::Run } else { Purpose::Serve };
            match self.look(&candidate, purpose) {
                Node::Script(filename) => {
                    let path_info = Vec::new();
                    return self.run(Script {
                        filename,
                        name: candidate,
                        path_info,
                        workers: WorkerKind::Ordinary,
                    });
                }
                // Sources of scripts are sent under no name.
                Node::File(entry) if !self.site.never_serves(&candidate) => return serve(request, entry),
                Node::Unavailable => return Route::Refuse(503),
                Node::File(_) | Node::Directory | Node::Missing => {}
            }
        }
        if runs && self.site.worker().is_some() && self.site.plan.front_controller.is_none() {
            return self.front_controller();
        }
        let is_front = runs && path == b"/" && self.site.plan.pages_below.is_some();
        if is_front || self.has_folder_pages() {
            return self.front_controller();
        }
        Route::Refuse(403)
    }

    fn front_controller(&self) -> Route {
        let Some(script) = &self.site.plan.front_controller else {
            let Some(worker) = self.site.worker() else { return Route::Refuse(404) };
            let (filename, name) = (worker.file.as_os_str().as_bytes().into(), worker.name.clone().into());
            return self.run(Script {
                filename,
                name,
                path_info: Vec::new(),
                workers: WorkerKind::Persistent,
            });
        };
        match self.look(script.as_bytes(), Purpose::Run) {
            // Most requests come here: what its name permits was determined when the site was created.
            Node::Script(filename) if self.site.plan.php.is_some() && self.site.runs_front_controller => {
                let (name, path_info) = (script.as_bytes().to_vec(), Vec::new());
                Route::Php(Script { filename, name, path_info, workers: self.site.front_workers() })
            }
            Node::Unavailable => Route::Refuse(503),
            _ => Route::Refuse(404),
        }
    }

    fn look(&self, path: &[u8], purpose: Purpose) -> Node {
        let found = match self.folder {
            None => self.files.find(self.context, self.site, path, purpose),
            Some(OtherFolder { number, path: root }) => {
                self.files.find_other(self.context, self.site, number, root, path)
            }
        };
        match found {
            // Nothing runs there: an index, too, is a file for visitors or none.
            Node::File(_) if self.folder.is_some() && self.site.never_serves(path) => Node::Missing,
            // A file that is never served under its own name is not served under a link's name.
            Node::File(entry) if entry.linked_name().is_some_and(|name| self.site.never_serves(name)) => {
                Node::Missing
            }
            node => node,
        }
    }
}

fn serve(request: &Request, entry: Rc<files::FileEntry>) -> Route {
    match request.head.method() {
        "GET" | "HEAD" => Route::File(entry),
        "OPTIONS" => Route::Allow(204),
        _ => Route::Allow(405),
    }
}

/// 301 turns a POST into a GET in every browser; 308 does not.
fn redirect_status(request: &Request) -> u16 {
    if matches!(request.head.method(), "GET" | "HEAD") { 301 } else { 308 }
}

/// The ends of the segments of a normalised path that have a script's name.
fn script_ends(path: &[u8]) -> impl Iterator<Item = usize> {
    segment_ends(path).filter(|end| path[..*end].ends_with(b".php"))
}

/// The ends of the segments of a normalised path.
pub fn segment_ends(path: &[u8]) -> impl Iterator<Item = usize> {
    memchr::memchr_iter(b'/', path).skip(1).chain([path.len()])
}
