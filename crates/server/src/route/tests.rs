//! Where requests lead in a folder with some of everything; without a socket.

use std::fs;
use std::sync::Arc;

use millrace_settings::Source;
use millrace_settings::plan::{self, Clients, Www};
use millrace_wire::head::{Head, Limits};
use tokio::task::LocalSet;

use super::*;
use crate::files::OpenFileCache;
use millrace_base::context::Process;
use millrace_base::context::log::Log;
use millrace_base::context::stats::Registry;
use millrace_base::message::request::{Ends, Scheme};
use millrace_base::testing::Dir;

/// Files with what they contain; those that end with a slash are folders.
const FILES: &[&str] = &[
    "index.php",
    "a.txt",
    "b c.txt",
    ".secret",
    "upload.jpg",
    "own.php",
    "wp-config.php",
    "wp-login.php",
    "xmlrpc.php",
    "wp-admin/index.php",
    "wp-content/uploads/evil.php",
    "wp-content/uploads/a.pdf",
    "empty/",
    "with/index.html",
    "app.php/style.css",
    "app.php/empty/",
    "inside/a.txt",
    "other/a.txt",
    "other/a.php",
    "other/.hidden",
    "other/with/index.html",
];

/// A folder as a site.
struct Stage {
    dir: Dir,
    context: Rc<Context>,
    files: OpenFileCache,
    site: Arc<Site>,
}

impl Stage {
    fn new(name: &str, profile: &str, change: impl FnOnce(&mut plan::Site)) -> Stage {
        let dir = Dir::new(&format!("route-{name}"));
        for file in FILES {
            let path = dir.path(file);
            if file.ends_with('/') {
                fs::create_dir_all(path).unwrap();
            } else {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "content").unwrap();
            }
        }
        let config = dir.path("millrace.toml");
        let text = format!(
            "[[site]]\nnames = [\"a.test\", \"www.a.test\"]\nroot = \".\"\nprofile = \"{profile}\"\n"
        );
        fs::write(&config, text).unwrap();
        let source = Source { config: Some(config), ..Default::default() };
        let (mut plan, _) = millrace_settings::load(&source).unwrap_or_else(|problems| panic!("{problems}"));
        change(&mut plan.sites[0]);
        let (site, files) = (Site::new(0, plan.sites[0].clone()), OpenFileCache::new(&plan.files, 1));
        let process = Process::new(Registry::new(1), Log::quiet(), 0);
        Stage { context: Context::new(0, 1, process, plan.into()), files, site, dir }
    }

    fn at_the_door(&self, request: &Request) -> String {
        let mut path = Vec::new();
        at_the_door(&self.site, request, &mut path).map_or("on".to_owned(), |route| self.shown(route))
    }

    /// The way of a request that no rule touches.
    fn way(&self, method: &str, target: &str) -> String {
        let (request, mut path) = (request(method, target, "a.test"), Vec::new());
        match at_the_door(&self.site, &request, &mut path) {
            Some(route) => self.shown(route),
            None => self.shown(find_route(&self.context, &self.files, &self.site, &request, &path)),
        }
    }

    fn other(&self, below: &str) -> String {
        let (request, root) = (request("GET", "/x", "a.test"), self.dir.path("other"));
        let folder = OtherFolder { number: 0, path: &root };
        let way = (below.as_bytes(), &b"/x"[..]);
        self.shown(find_other_file(&self.context, &self.files, &self.site, &request, folder, way))
    }

    fn shown(&self, route: Route) -> String {
        match route {
            Route::File(entry) => format!("file {}", entry.plain().content.length()),
            Route::Php(script) => {
                let name = String::from_utf8_lossy(&script.name).into_owned();
                let info = String::from_utf8_lossy(&script.path_info).into_owned();
                format!("run {name}{}", if info.is_empty() { String::new() } else { format!(" {info}") })
            }
            Route::Redirect(status, to) => format!("{status} {to}"),
            Route::Refuse(status) => status.to_string(),
            Route::Allow(status) => format!("allow {status}"),
        }
    }
}

fn request(method: &str, target: &str, host: &str) -> Request {
    let text = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let mut head = Head::default();
    let limits = Limits { bytes: 16_384, fields: 50, target: 8_192 };
    head.parse(text.as_bytes(), &limits).unwrap_or_else(|_| panic!("{text}")).unwrap();
    Request::direct(head, Ends { client: None, local: None, scheme: Scheme::Http, tls: None })
}

/// Compares the ways of all these requests, on an event loop: looks at files that may take their time need one.
fn compare(stage: &Stage, cases: &[(&str, &str, &str)]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async { compare_all(stage, cases) });
}

fn compare_all(stage: &Stage, cases: &[(&str, &str, &str)]) {
    let ways = |(method, target, expected): &(&str, &str, &str)| {
        let way = stage.way(method, target);
        (way != *expected).then(|| format!("{method} {target}: {way}, not {expected}"))
    };
    let wrong: Vec<String> = cases.iter().filter_map(ways).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What no profile has a say in.
const EVERYWHERE: &[(&str, &str, &str)] = &[
    ("GET", "/a.txt", "file 7"),
    ("HEAD", "/a.txt", "file 7"),
    ("GET", "/b%20c.txt", "file 7"),
    ("GET", "//a.txt", "file 7"),
    ("GET", "/with/../a.txt", "file 7"),
    ("POST", "/a.txt", "allow 405"),
    ("OPTIONS", "/a.txt", "allow 204"),
    ("OPTIONS", "*", "allow 200"),
    ("TRACE", "/a.txt", "allow 405"),
    ("GET", "/../a.txt", "400"),
    ("GET", "/%00", "400"),
    ("GET", "/%zz", "400"),
    ("GET", "/with", "301 http://a.test/with/"),
    ("POST", "/with?a=b", "308 http://a.test/with/?a=b"),
    ("GET", "/with/", "file 7"),
    ("GET", "/own.php", "run /own.php"),
    ("POST", "/own.php/in/fo", "run /own.php /in/fo"),
    ("GET", "/missing.php", "404"),
    ("GET", "/upload.jpg/x.php", "404"),
    ("GET", "/.secret", "404"),
    ("GET", "/app.php/style.css", "file 7"),
    ("GET", "/app.php", "301 http://a.test/app.php/"),
];

#[test]
fn ways_that_no_profile_has_a_say_in() {
    for profile in ["generic", "wordpress"] {
        compare(&Stage::new(&format!("all-{profile}"), profile, |_| {}), EVERYWHERE);
    }
}

#[test]
fn plain_php_and_files() {
    let cases = [
        ("GET", "/", "run /index.php"),
        ("GET", "/empty/", "403"),
        ("GET", "/missing", "404"),
        ("GET", "/missing/", "404"),
        ("GET", "/a.txt/", "404"),
    ];
    compare(&Stage::new("generic", "generic", |site| site.front_controller = None), &cases);
}

#[test]
fn wordpress() {
    let cases = [
        ("GET", "/", "run /index.php"),
        ("GET", "/some/page/", "run /index.php"),
        ("GET", "/some/page", "run /index.php"),
        ("GET", "/missing.jpg", "run /index.php"),
        ("GET", "/wp-login.php", "run /wp-login.php"),
        ("GET", "/wp-admin/", "run /wp-admin/index.php"),
        ("GET", "/wp-admin", "301 http://a.test/wp-admin/"),
        ("GET", "/wp-config.php", "404"),
        ("GET", "/wp-content/uploads/evil.php", "404"),
        ("GET", "/wp-content/uploads/a.pdf", "file 7"),
    ];
    compare(&Stage::new("wordpress", "wordpress", |_| {}), &cases);
}

#[test]
fn a_site_without_php_runs_and_shows_no_script() {
    let cases = [
        ("GET", "/own.php", "404"),
        ("GET", "/", "404"),
        ("GET", "/page", "404"),
        ("GET", "/a.txt", "file 7"),
    ];
    compare(&Stage::new("no-php", "generic", |site| site.php = None), &cases);
}

#[test]
fn without_try_files_all_is_the_front_controller_s() {
    let cases = [
        ("GET", "/a.txt", "run /index.php"),
        ("POST", "/missing.php", "run /index.php"),
        ("GET", "/../x", "400"),
    ];
    compare(&Stage::new("no-files", "wordpress", |site| site.try_files = false), &cases);
}

#[test]
fn internal_folders_are_for_scripts() {
    let stage =
        Stage::new("internal", "generic", |site| site.internal.push(("/inside/".into(), "inside".into())));
    compare(
        &stage,
        &[
            ("GET", "/inside/a.txt", "404"),
            ("GET", "/in%73ide/a.txt", "404"),
            ("GET", "/x/../inside/a.txt", "404"),
        ],
    );
}

#[test]
fn pages_of_a_part_of_the_site() {
    let stage = Stage::new("below", "wordpress", |site| site.pages_below = Some("/blog/".into()));
    let cases = [
        ("GET", "/blog/x", "run /index.php"),
        ("GET", "/blog", "run /index.php"),
        ("GET", "/blogs", "404"),
        ("GET", "/x", "404"),
    ];
    compare(&stage, &cases);
}

/// Nothing runs in a folder beside the root, and no source is sent.
#[test]
fn folders_beside_the_root() {
    let stage = Stage::new("other", "generic", |_| {});
    for (below, expected) in [
        ("/a.txt", "file 7"),
        ("/a.php", "404"),
        ("/.hidden", "404"),
        ("/missing", "404"),
        ("/with/", "file 7"),
        ("/with", "301 http://a.test/x/"),
        ("", "301 http://a.test/x/"),
    ] {
        assert_eq!(stage.other(below), expected, "{below}");
    }
}

#[test]
fn scripts_by_their_names() {
    let stage = Stage::new("scripts", "wordpress", |_| {});
    let find = |name| find_script(&stage.context, &stage.files, &stage.site, name).map(|script| script.name);
    assert_eq!(find("/own.php"), Some(b"/own.php".to_vec()));
    for none in ["/missing.php", "/own.php/info", "/a.txt", "/wp-content/uploads/evil.php", "/app.php"] {
        assert_eq!(find(none), None, "{none}");
    }
}

#[test]
fn what_rules_of_an_application_are_told() {
    let stage = Stage::new("place", "wordpress", |_| {});
    let at = |path: &str| format!("{:?}", place(&stage.context, &stage.files, &stage.site, path.as_bytes()));
    for (path, expected) in [
        ("/own.php", "Script"),
        ("/a.txt", "Script"),
        ("/with", "Other"),
        ("/missing", "Missing"),
        ("/missing.php", "Other"),
        ("/wp-config.php", "Script"),
    ] {
        assert_eq!(at(path), expected, "{path}");
    }
}

#[test]
fn redirects_to_the_site_s_own_address() {
    let stage = |https, www| {
        Stage::new(&format!("door-{https}-{www:?}"), "generic", |site| {
            (site.redirect.https, site.redirect.www) = (https, www)
        })
    };
    for (https, www, method, target, host, expected) in [
        (false, Www::Keep, "GET", "/a", "www.a.test", "on"),
        (false, Www::Remove, "GET", "/a?b=%20", "www.a.test", "301 http://a.test/a?b=%20"),
        (false, Www::Remove, "GET", "/a", "www.a.test:8080", "301 http://a.test:8080/a"),
        (false, Www::Remove, "POST", "/a", "www.a.test", "308 http://a.test/a"),
        (false, Www::Remove, "GET", "/a", "a.test", "on"),
        (false, Www::Add, "GET", "/a", "a.test", "301 http://www.a.test/a"),
        (false, Www::Add, "GET", "/a", "192.0.2.1", "on"),
        (true, Www::Keep, "GET", "/a\"b", "a.test", "301 https://a.test/a%22b"),
        (true, Www::Add, "HEAD", "/a", "a.test", "301 https://www.a.test/a"),
        // No one else's name gets into a Location.
        (true, Www::Keep, "GET", "/a", "evil.test", "on"),
        // An authority checks the name before there is a certificate.
        (true, Www::Keep, "GET", "/.well-known/acme-challenge/x", "a.test", "on"),
        (
            true,
            Www::Keep,
            "GET",
            "/.well-known/acme-challenge/../x",
            "a.test",
            "301 https://a.test/.well-known/acme-challenge/../x",
        ),
    ] {
        let found = stage(https, www).at_the_door(&request(method, target, host));
        assert_eq!(found, expected, "{https} {www:?} {method} {target} {host}");
    }
}

#[test]
fn strangers_to_a_site_for_clients_with_certificates() {
    let asks = |required| {
        Stage::new(&format!("clients-{required}"), "generic", |site| {
            site.clients = Some(Clients { required, ca: "/nowhere".into() });
        })
    };
    let plain = request("GET", "/", "a.test");
    assert_eq!(stranger(&asks(true).site, &plain), Some(403), "no TLS of ours");
    assert_eq!(stranger(&asks(false).site, &plain), None);
    assert_eq!(stranger(&Stage::new("clients-none", "generic", |_| {}).site, &plain), None);
}

#[test]
fn segments() {
    assert_eq!(segment_ends(b"/a.php/b").collect::<Vec<_>>(), [6, 8]);
    assert_eq!(segment_ends(b"/").collect::<Vec<_>>(), [1]);
}
