//! Bypasses of the shield's limits: 10,000 spellings of what has a limit of its own, from a seed. Each that reaches the script, or that PHP
//! reads alike, is in its class; each that does not, is not. A generator writes a spelling from the plain form, so it knows which of them it is.

use std::fs;
use std::sync::Arc;

use millrace_shield::Class;
use millrace_wire::head::{Head, Limits};
use tokio::task::LocalSet;

use crate::cache::PageCache;
use crate::serve::walk::Maker;
use crate::serve::{Make, ServeThread, Service, Setup, SiteWorkers, Step, respond};
use millrace_base::context::Process;
use millrace_base::context::log::Log;
use millrace_base::context::stats::Registry;
use millrace_base::message::Request;
use millrace_base::message::request::{Content, Ends, Scheme};
use millrace_base::site::Site;
use millrace_base::testing::Dir;

/// Number of spellings of each kind.
const EACH: usize = 2_000;

/// Scripts, and their classes for POST and GET.
const SCRIPTS: [(&str, Class, Class); 4] = [
    ("/wp-login.php", Class::Login, Class::Php),
    ("/blog/wp-login.php", Class::Login, Class::Php),
    ("/xmlrpc.php", Class::Xmlrpc, Class::Xmlrpc),
    ("/blog/xmlrpc.php", Class::Xmlrpc, Class::Xmlrpc),
];

/// Arguments of queries, and their classes.
const ARGUMENTS: [(&str, &str, Class); 10] = [
    ("s", "shoes", Class::Search),
    ("author", "1", Class::Users),
    ("rest_route", "/wp/v2/users", Class::Users),
    ("add-to-cart", "7", Class::Cart),
    ("wc-ajax", "add_to_cart", Class::Cart),
    ("min_price", "1", Class::Filter),
    ("rating_filter", "5", Class::Filter),
    ("filter_color", "red", Class::Filter),
    ("query_type_color", "or", Class::Filter),
    ("orderby", "price", Class::Filter),
];

/// Fields of forms with which people log in.
const PASSWORDS: [&str; 5] = ["password", "pwd", "passwd", "user_pass", "pma_password"];

#[test]
fn each_spelling_has_the_class_of_what_will_run() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let (stage, mut dice) = (Stage::new(), Dice(0x5eed_0f5e_11e5));
        for round in 0..EACH {
            let (script, by_post, by_get) = SCRIPTS[dice.below(SCRIPTS.len())];
            let (method, class) = [("POST", by_post), ("GET", by_get)][round % 2];
            let target = dice.path(script);
            assert_eq!(stage.class(method, &target, None).await, Some(class), "{method} {target}");
            let target = dice.other_path(script);
            let found = stage.class("POST", &target, None).await;
            assert!(!matches!(found, Some(Class::Login | Class::Xmlrpc)), "{target}: {found:?}");
            let (name, value, class) = ARGUMENTS[dice.below(ARGUMENTS.len())];
            let target = format!("/shop/?{}", dice.query(name, value));
            assert_eq!(stage.class("GET", &target, None).await, Some(class), "{target}");
            let target = format!("/shop/?{}", dice.other_query(name, value));
            assert_eq!(stage.class("GET", &target, None).await, Some(Class::Php), "{target}");
            let name = PASSWORDS[dice.below(PASSWORDS.len())];
            let form = dice.query(name, "secret");
            let target = ["/my-account/", "/", "/a/page/?x=1", "/wp-admin/admin-ajax.php"][dice.below(4)];
            assert_eq!(stage.class("POST", target, Some(&form)).await, Some(Class::Login), "{target} {form}");
        }
        // By a rule of `.htaccess`; by the form, where a link gives the script another name.
        for target in ["/enter", "/enter/?x=1", "/%65nter"] {
            assert_eq!(stage.class("POST", target, None).await, Some(Class::Login), "{target}");
        }
        assert_eq!(stage.class("POST", "/link.php", Some("log=a&pwd=b")).await, Some(Class::Login));
        assert_eq!(stage.class("GET", "/find/shoes", None).await, Some(Class::Search), "a rewritten query");
    });
}

/// A site of WordPress's scripts.
struct Stage {
    thread: std::rc::Rc<ServeThread>,
    site: Arc<SiteWorkers>,
    _folder: Dir,
}

impl Stage {
    fn new() -> Stage {
        let folder = Dir::new("spellings");
        for name in ["blog", "wp-admin"] {
            fs::create_dir_all(folder.path(name)).unwrap();
        }
        for name in ["index.php", "wp-admin/admin-ajax.php"].into_iter().chain(SCRIPTS.map(|row| &row.0[1..]))
        {
            fs::write(folder.path(name), "<?php").unwrap();
        }
        std::os::unix::fs::symlink("wp-login.php", folder.path("link.php")).unwrap();
        let rules = "RewriteEngine On\nRewriteRule ^enter/?$ /wp-login.php [QSA,L]\nRewriteRule ^find/(.*)$ /index.php?s=$1 [L]\n";
        fs::write(folder.path(".htaccess"), rules).unwrap();
        let source = millrace_settings::Source {
            site_dir: Some(folder.path("")),
            profile: Some("wordpress".into()),
            set: vec!["shield.not_found=0".into()],
            ..Default::default()
        };
        let (plan, _) = millrace_settings::load(&source).unwrap_or_else(|problems| panic!("{problems}"));
        let site = Site::new(0, plan.sites[0].clone());
        let process = Process::new(Registry::new(1), Log::quiet(), 0);
        let setup = Setup::new(plan.into(), vec![SiteWorkers { site, service: None, persistent: None }]);
        let site = setup.workers[0].clone();
        let service = Service::new(process, setup, PageCache::new(0, 1));
        Stage { thread: ServeThread::new(0, 1, service, false), site, _folder: folder }
    }

    /// The class of a request; `None`: no script runs for it.
    async fn class(&self, method: &str, target: &str, form: Option<&str>) -> Option<Class> {
        let kind = form.map_or("", |_| "Content-Type: Application/X-WWW-Form-Urlencoded;x\r\n");
        let text = format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{kind}\r\n");
        let mut head = Head::default();
        let limits = Limits { bytes: 16_384, fields: 50, target: 8_192 };
        head.parse(text.as_bytes(), &limits).unwrap_or_else(|_| panic!("{target:?}")).unwrap();
        let client = Some("192.0.2.1:5000".parse().unwrap());
        let ends = Ends { client, local: None, scheme: Scheme::Http, tls: None };
        let mut request = Request::direct(head, ends);
        loop {
            let script = match respond(&self.thread, &self.site, &mut request).1 {
                Step::Make(Make { maker: Maker::Script(script), .. }) => script,
                Step::Wait(until) => {
                    until.await;
                    continue;
                }
                _ => return None,
            };
            request.content = form.map_or(Content::Empty, |form| Content::Memory(form.into()));
            let seen = self.thread.shield.look(&self.thread.context, &self.site, &request, &script);
            return Some(seen.expect("the shield applies").class());
        }
    }
}

/// Chance from a seed (xorshift).
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, number: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % number
    }

    pub(super) fn one_in(&mut self, number: usize) -> bool {
        self.below(number) == 0
    }

    /// Text in which some characters are percent-encoded.
    fn encoded(&mut self, text: &str) -> String {
        let often = [2, 5, 50][self.below(3)];
        let character = |byte: u8| match (self.one_in(often), self.one_in(2)) {
            (true, true) => format!("%{byte:02x}"),
            (true, false) => format!("%{byte:02X}"),
            (false, _) => char::from(byte).to_string(),
        };
        text.bytes().map(character).collect()
    }

    /// A target that leads to this script.
    fn path(&mut self, script: &str) -> String {
        const BETWEEN: [&str; 10] = [
            "/",
            "//",
            "/./",
            "/x/../",
            "/x/%2e%2E/",
            "/.//",
            "/%2e/",
            "/a/b/../../",
            "/%2F",
            "/wp-login.php/../",
        ];
        const BEHIND: [&str; 9] = ["", "", "/", "//", "/info", "/x/../", "/index.php", "/%2e", "/a.css"];
        let mut target = String::new();
        for segment in script.split('/').skip(1) {
            target.push_str(BETWEEN[self.below(BETWEEN.len())]);
            target.push_str(&self.encoded(segment));
        }
        let query = ["", "?", "?action=login", "?x=/y/..&s=1"][self.below(4)];
        target + BEHIND[self.below(BEHIND.len())] + query
    }

    /// A target that does not lead there, though it looks so.
    fn other_path(&mut self, script: &str) -> String {
        let at = 1 + self.below(script.len() - 1);
        let byte = script.as_bytes()[at];
        let (before, after) = script.split_at(at);
        let changed = match self.below(4) {
            // Decoded once, not twice.
            0 => format!("{before}%25{byte:02x}{}", &after[1..]),
            1 if byte.is_ascii_lowercase() => {
                format!("{before}{}{}", char::from(byte).to_ascii_uppercase(), &after[1..])
            }
            2 => format!("{before}x{after}"),
            _ => format!("{script}x"),
        };
        changed + ["", "/", "?x=1"][self.below(3)]
    }

    /// A query of which PHP makes a variable of this name.
    fn query(&mut self, name: &str, value: &str) -> String {
        let mut spelled = String::new();
        for byte in name.chars() {
            // What no variable's name has becomes `_`; the first `[` only if it opens no array.
            match byte {
                '_' if self.one_in(2) => spelled.push_str([".", "%2e", "+", "%20"][self.below(4)]),
                byte => spelled.push_str(&self.encoded(&byte.to_string())),
            }
        }
        let before = ["", "", "+", "%20", "++"][self.below(5)];
        let behind = ["", "", "%00x", "%00"][self.below(4)];
        let value = self.encoded(value);
        let mut arguments = vec![format!("{before}{spelled}{behind}={value}")];
        for other in ["utm_source=s", "x", "", "%", "a[]=1", "=", "page=2"] {
            if self.one_in(3) {
                arguments.insert(self.below(arguments.len() + 1), other.to_owned());
            }
        }
        arguments.join("&")
    }

    /// A query of which PHP makes variables of other names.
    fn other_query(&mut self, name: &str, value: &str) -> String {
        let first = &name[..1];
        let name = match self.below(4) {
            0 => format!("%25{:02x}{}", name.as_bytes()[0], &name[1..]),
            1 => first.to_ascii_uppercase() + &name[1..],
            2 => format!("x{name}"),
            _ => format!("%3d{name}"),
        };
        format!("{name}={value}&x={name}")
    }
}
