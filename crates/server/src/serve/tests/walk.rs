//! Each row of the walk, without a socket: which row ends a request's way, and how. An explanation ends at the same row in the same way.

use std::collections::BTreeSet;
use std::fs;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millrace_settings::plan::Clients;
use millrace_wire::head::{Head, Limits};
use tokio::task::LocalSet;

use super::spellings::Dice;
use crate::cache::PageCache;
use crate::serve::walk::Maker;
use crate::serve::walk::{ROWS, Walk, WalkPurpose};
use crate::serve::{Make, ServeThread, Service, Setup, ShieldOrder, SiteWorkers, Step};
use millrace_base::context::Process;
use millrace_base::context::log::Log;
use millrace_base::context::stats::{Counter, Registry};
use millrace_base::message::Request;
use millrace_base::message::request::{AuthState, Ends, Scheme};
use millrace_base::site::Site;
use millrace_base::testing::Dir;

const CONFIGURATION: &str = r#"
[server]
listen = ["127.0.0.1:8080"]

[shield]
not_found = 0

[[site]]
names = ["a.test", "www.a.test"]
root = "."
profile = "wordpress"
redirect.www = "remove"

[[site.rule]]
path = "/old/*"
redirect = "/new/$1"

[[site.rule]]
path = "/rewritten"
rewrite = "/a.txt"

[[site.rule]]
path = "/gone"
return = 410

[[site.rule]]
path = "/said"
return = 200
text = "said"

[[site.rule]]
path = "/denied"
deny = true

[[site.rule]]
path = "/private/*"
auth.script = "/gate.php"

[[site.rule]]
path = "/limited"
limit = "1/m"
burst = 1

[[site.rule]]
path = "/missing-with-a-page*"
error_page = { 404 = "/a.txt" }

[[site.proxy]]
path = "/app/"
to = "http://127.0.0.1:9"

[[site.proxy]]
path = "/inside/"
to = "http://127.0.0.1:9"
internal = true
"#;

const HTACCESS: &str = "RewriteEngine On\nRewriteRule ^moved$ /a.txt [R=302,L]\nRewriteRule ^closed$ - [F]\n\
                        RewriteRule ^inner$ /a.txt [L]\nErrorDocument 403 /a.txt\n";

/// A request: method, target, fields; the row that ends it; and how.
type Case = (&'static str, &'static str, &'static str, &'static str, &'static str);

const CASES: &[Case] = &[
    ("PURGE", "/", "", "purge order", "403"),
    ("TRACE", "/", "", "front door", "405"),
    ("OPTIONS", "*", "", "front door", "200"),
    ("GET", "/%00", "", "front door", "400"),
    ("GET", "/", "Host: www.a.test\r\n", "front door", "301 http://a.test/"),
    ("GET", "/old/x?y=1", "", "site rules", "301 http://a.test/new/x?y=1"),
    ("POST", "/gone", "", "site rules", "410"),
    ("GET", "/said", "", "site rules", "200"),
    ("GET", "/denied", "", "site rules", "403"),
    ("GET", "/private/x", "", "site rules", "asks"),
    ("GET", "/private/x", "Early-Data: 1\r\n", "site rules", "425"),
    ("GET", "/rewritten", "", "place", "file 200"),
    ("GET", "/app/x", "", "make", "application 0"),
    ("GET", "/app/x", "Early-Data: 1\r\n", "make", "425"),
    ("GET", "/inside/x", "", "application", "404"),
    ("GET", "/moved", "", ".htaccess", "302 http://a.test/a.txt"),
    ("GET", "/closed", "", ".htaccess", "file 403"),
    ("GET", "/inner", "", "place", "file 200"),
    ("GET", "/a.txt", "", "place", "file 200"),
    ("HEAD", "/a.txt", "If-None-Match: *\r\n", "place", "file 304"),
    ("POST", "/a.txt", "", "place", "405"),
    ("OPTIONS", "/a.txt", "", "place", "204"),
    ("GET", "/folder", "", "place", "301 http://a.test/folder/"),
    ("GET", "/x.php", "", "place", "404"),
    ("GET", "/missing-with-a-page.php", "", "place", "file 404"),
    ("GET", "/wp-config.php", "", "place", "404"),
    ("GET", "/some/page/", "", "make", "page /index.php"),
    ("POST", "/some/page/", "", "make", "script /index.php"),
    ("POST", "/wp-login.php", "", "make", "script /wp-login.php"),
    ("GET", "/wp-login.php", "Early-Data: 1\r\n", "make", "425"),
    ("POST", "/wp-login.php", "Early-Data: 1\r\n", "early data", "425"),
];

/// What an explanation leaves to the cache: its look ends elsewhere than a visitor's.
const BY_CACHE: &[&str] = &["page /index.php", "425"];

#[test]
fn every_row_ends_the_way_of_what_is_its_own() {
    on_a_loop(async {
        let stage = Stage::new("rows");
        let (mut rows, mut wrong) = (BTreeSet::new(), Vec::new());
        for (method, target, fields, row, end) in CASES {
            let request = || request(method, target, fields);
            let found = stage.walked(&mut request(), WalkPurpose::Serve).await;
            if (found.0, &*found.1) != (*row, *end) {
                wrong.push(format!("{method} {target} {fields}: {found:?}"));
            }
            rows.insert(found.0);
            if !BY_CACHE.contains(end) {
                let explained = stage.walked(&mut request(), WalkPurpose::Explain).await;
                if explained != found {
                    wrong.push(format!("{method} {target} {fields}: {found:?}, explained {explained:?}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        rows.extend(["challenge", "ban", "certificate", "protocol", "application rules", "cache"]);
        let all: BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(rows, all, "each row has its cases here or in a test below");
    });
}

/// An explanation says beforehand what a visitor then gets: by random requests, some of which use a limit up, from addresses of which one is
/// banned.
#[test]
fn an_explanation_says_what_a_visitor_then_gets() {
    const FIELDS: [&str; 6] = [
        "",
        "Host: www.a.test\r\n",
        "Authorization: Basic YTpi\r\n",
        "Cookie: wordpress_logged_in_x=1\r\n",
        "If-None-Match: *\r\n",
        "Accept-Language: de\r\n",
    ];
    on_a_loop(async {
        let (stage, mut dice) = (Stage::new("explained"), Dice(0x0e8b_1a19));
        stage.ban("192.0.2.3");
        let targets: Vec<&str> =
            CASES.iter().map(|case| case.1).filter(|target| target.starts_with('/')).collect();
        let mut ends = BTreeSet::new();
        for _ in 0..600 {
            let target = if dice.one_in(12) { "/limited" } else { targets[dice.below(targets.len())] };
            let (fields, client) =
                (FIELDS[dice.below(FIELDS.len())], format!("192.0.2.{}:5000", dice.below(4)));
            let ask = |counted| {
                let mut request = request("GET", target, fields);
                request.ends.client = Some(client.parse().unwrap());
                request.found.counted_rules = counted;
                request
            };
            let explained = stage.walked(&mut ask(u32::MAX), WalkPurpose::Explain).await;
            let found = stage.walked(&mut ask(0), WalkPurpose::Serve).await;
            // A page that others wait for, too, is made by the same script.
            let by_script = |(row, end): (&'static str, String)| (row, end.replace("page /", "script /"));
            let (explained, found) = (by_script(explained), by_script(found));
            assert_eq!(explained, found, "{target} {fields} {client}");
            ends.insert(found.1);
        }
        for end in ["403", "429", "404", "file 200", "script /index.php", "application 0", "asks", "410"] {
            assert!(ends.contains(end), "no request ended with {end}: {ends:?}");
        }
    });
}

#[test]
fn architecture_md_has_the_rows_in_their_order() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md");
    let text = fs::read_to_string(file).unwrap();
    let (_, list) = text.split_once("<!-- the walk -->").expect("the mark of the list");
    let lines = list.split("```").nth(1).expect("a block").lines().skip(1);
    let listed: Vec<&str> = lines.filter_map(|line| Some(line.split_once("  ")?.0)).collect();
    assert_eq!(listed, ROWS.iter().map(|row| row.name).collect::<Vec<_>>());
}

#[test]
fn a_challenge_is_answered_whatever_the_site_says() {
    on_a_loop(async {
        let stage = Stage::new("challenge");
        stage.thread.service.acme.prove("token", "proof");
        let mut challenge = request("GET", "/.well-known/acme-challenge/token", "Host: www.a.test\r\n");
        assert_eq!(stage.walked(&mut challenge, WalkPurpose::Serve).await, ("challenge", "200".to_owned()));
        let mut other = request("GET", "/.well-known/acme-challenge/other", "");
        assert_ne!(stage.walked(&mut other, WalkPurpose::Serve).await.0, "challenge");
    });
}

#[test]
fn a_banned_address_gets_nothing() {
    on_a_loop(async {
        let stage = Stage::new("ban");
        stage.ban("192.0.2.1");
        for purpose in [WalkPurpose::Serve, WalkPurpose::Explain] {
            let found = stage.walked(&mut request("GET", "/a.txt", ""), purpose).await;
            assert_eq!(found, ("ban", "403".to_owned()), "{purpose:?}");
        }
        let counted = stage.thread.context.process.stats.value(Counter::ShieldBanned);
        assert_eq!(counted, 1, "an explanation counts nothing");
    });
}

#[test]
fn a_site_for_clients_with_certificates_has_no_strangers() {
    on_a_loop(async {
        let stage = Stage::with("certificate", "wordpress", |site| {
            site.clients = Some(Clients { required: true, ca: "/nowhere".into() });
        });
        let found = stage.walked(&mut request("GET", "/a.txt", ""), WalkPurpose::Serve).await;
        assert_eq!(found, ("certificate", "403".to_owned()));
    });
}

#[test]
fn only_applications_speak_another_protocol() {
    on_a_loop(async {
        let stage = Stage::new("protocol");
        for (target, row) in [("/a.txt", "protocol"), ("/app/x", "make")] {
            let mut request = request("GET", target, "");
            request.protocol = Some("websocket".into());
            assert_eq!(stage.walked(&mut request, WalkPurpose::Serve).await.0, row, "{target}");
        }
    });
}

#[test]
fn a_script_has_let_it_pass_or_has_not() {
    on_a_loop(async {
        let stage = Stage::new("auth");
        for (auth, end) in [(AuthState::Passed, "script /index.php"), (AuthState::Failed(503), "503")] {
            let mut request = request("GET", "/private/x", "");
            request.found.auth = auth;
            assert_eq!(stage.walked(&mut request, WalkPurpose::Serve).await.1, end, "{auth:?}");
        }
    });
}

#[test]
fn a_limit_counts_visitors_and_no_explanations() {
    on_a_loop(async {
        let stage = Stage::new("limit");
        for _ in 0..5 {
            let found = stage.walked(&mut request("GET", "/limited", ""), WalkPurpose::Explain).await;
            assert_eq!(found.1, "script /index.php");
        }
        let mut statuses = Vec::new();
        for _ in 0..4 {
            let mut request = request("GET", "/limited", "");
            request.found.counted_rules = 0;
            statuses.push(stage.walked(&mut request, WalkPurpose::Serve).await);
        }
        assert_eq!(statuses.last().unwrap(), &("site rules", "429".to_owned()));
        assert_ne!(statuses[0].0, "site rules");
    });
}

#[test]
fn the_rules_of_an_application_come_last() {
    on_a_loop(async {
        let stage = Stage::with("rules", "nextcloud", |_| {});
        for (target, end) in [
            ("/.well-known/carddav", "301 http://a.test/remote.php/dav/"),
            ("/old/x", "301 http://a.test/new/x"),
        ] {
            let found = stage.walked(&mut request("GET", target, ""), WalkPurpose::Serve).await;
            assert_eq!(found.1, end, "{target}: {}", found.0);
            assert_eq!(found.0 == "application rules", target.starts_with("/."), "{target}");
        }
    });
}

#[test]
fn a_loop_for_crowds_passes_on_what_no_page_serves() {
    on_a_loop(async {
        let stage = Stage::new("crowd");
        let crowd = ServeThread::new(0, 1, stage.thread.service.clone(), true);
        let mut request = request("GET", "/some/page/", "");
        let mut walk = Walk::new(&crowd, &stage.site, &mut request, WalkPurpose::Serve);
        let mut step = walk.run();
        while let Step::Wait(waiting) = step {
            assert!(waiting.await.is_none());
            step = walk.run();
        }
        assert!(matches!(step, Step::Elsewhere));
        assert_eq!(walk.row, "cache");
    });
}

fn on_a_loop(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

fn request(method: &str, target: &str, fields: &str) -> Request {
    let host = if fields.contains("Host:") { "" } else { "Host: a.test\r\n" };
    let text = format!("{method} {target} HTTP/1.1\r\n{host}{fields}\r\n");
    let mut head = Head::default();
    let limits = Limits { bytes: 16_384, fields: 50, target: 8_192 };
    head.parse(text.as_bytes(), &limits).unwrap_or_else(|_| panic!("{text}")).unwrap();
    let client = Some("192.0.2.1:5000".parse().unwrap());
    Request::direct(head, Ends { client, local: None, scheme: Scheme::Http, tls: None })
}

/// A site with a rule of each kind.
struct Stage {
    thread: Rc<ServeThread>,
    site: Arc<SiteWorkers>,
    _folder: Dir,
}

impl Stage {
    fn new(name: &str) -> Stage {
        Stage::with(name, "wordpress", |_| {})
    }

    fn with(name: &str, profile: &str, change: impl Fn(&mut millrace_settings::plan::Site)) -> Stage {
        let folder = Dir::new(&format!("walk-{name}"));
        fs::create_dir(folder.path("folder")).unwrap();
        for name in ["index.php", "wp-login.php", "wp-config.php", "gate.php"] {
            fs::write(folder.path(name), "<?php").unwrap();
        }
        fs::write(folder.path("a.txt"), "a").unwrap();
        fs::write(folder.path(".htaccess"), HTACCESS).unwrap();
        let configuration = CONFIGURATION.replace("\"wordpress\"", &format!("\"{profile}\""));
        fs::write(folder.path("millrace.toml"), configuration).unwrap();
        let config = Some(folder.path("millrace.toml"));
        let source = millrace_settings::Source { config, ..Default::default() };
        let (mut plan, _) = millrace_settings::load(&source).unwrap_or_else(|problems| panic!("{problems}"));
        change(&mut plan.sites[0]);
        let site = Site::new(0, plan.sites[0].clone());
        let process = Process::new(Registry::new(1), Log::quiet(), 0);
        let setup = Setup::new(plan.into(), vec![SiteWorkers { site, service: None, persistent: None }]);
        let site = setup.workers[0].clone();
        let service = Service::new(process, setup, PageCache::new(1 << 20, 1));
        Stage { thread: ServeThread::new(0, 1, service, false), site, _folder: folder }
    }

    fn ban(&self, network: &str) {
        let ban = ShieldOrder::Ban(network.parse().unwrap(), Duration::from_secs(60), String::new());
        self.thread.service.shield.obey(ban, &self.thread.context.plan().shield);
    }

    /// The row that ends the way of a request, and how.
    async fn walked(&self, request: &mut Request, purpose: WalkPurpose) -> (&'static str, String) {
        loop {
            let mut walk = Walk::new(&self.thread, &self.site, request, purpose);
            let step = walk.run();
            let reply = match step {
                Step::Answer(reply) => reply,
                Step::Wait(waiting) => match waiting.await {
                    Some(reply) => reply,
                    None => continue,
                },
                Step::Make(Make { maker, page, .. }) => return (walk.row, made(maker, page.is_some())),
                Step::Next | Step::Refuse(_) | Step::Elsewhere => panic!("{}: no end", walk.row),
            };
            let location = reply.fields.iter().find(|(name, _)| *name == "Location");
            let location = location.map(|(_, to)| format!(" {}", String::from_utf8_lossy(to)));
            let file =
                if walk.class == millrace_base::context::stats::ResponseClass::File { "file " } else { "" };
            return (walk.row, format!("{file}{}{}", reply.status, location.unwrap_or_default()));
        }
    }
}

fn made(maker: Maker, is_page: bool) -> String {
    match maker {
        Maker::Script(script) => {
            let kind = if is_page { "page" } else { "script" };
            format!("{kind} {}", String::from_utf8_lossy(&script.name))
        }
        Maker::Application(number) => format!("application {number}"),
        Maker::Permission(_) => "asks".to_owned(),
    }
}
