//! Evaluations of whole files, and of any text.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use proptest::prelude::*;

use crate::directives::DIRECTIVES;
use crate::effort::steps;
use crate::request::{RequestFields, Watched};
use crate::{Checked, Effect, Folder, Node, Outcome, Request, Verdict, World, evaluate};

/// A disk with these files below `/srv`, of which some are `.htaccess` files.
struct Disk(Vec<(&'static str, Arc<Folder>)>, Vec<&'static str>);

impl World for Disk {
    fn folders(&self, path: &[u8]) -> Vec<(usize, Arc<Folder>)> {
        let on_the_way = |(folder, _): &&(&str, Arc<Folder>)| path.starts_with(folder.as_bytes());
        self.0.iter().filter(on_the_way).map(|(folder, rules)| (folder.len(), rules.clone())).collect()
    }

    fn node(&self, absolute: &[u8]) -> Option<Node> {
        let path = std::str::from_utf8(absolute).ok()?.strip_prefix("/srv")?;
        if self.1.contains(&path) {
            return Some(Node::File { size: 1, executable: false });
        }
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.1.iter().any(|file| file.starts_with(&folder)).then_some(Node::Directory)
    }

    fn is_link(&self, _: &[u8]) -> bool {
        false
    }

    fn password(&self, _: &str, user: &str, password: &[u8]) -> Checked {
        if user.as_bytes() == password { Checked::Yes } else { Checked::No }
    }

    fn in_group(&self, _: &str, user: &str, groups: &[String]) -> Checked {
        if groups.iter().any(|group| group == user) { Checked::Yes } else { Checked::No }
    }
}

fn request<'a>(path: &'a [u8], fields: Vec<(&'a str, &'a [u8])>, index: &'a [String]) -> Request<'a> {
    Request {
        method: "GET",
        path,
        query: Some(b"q=1"),
        target: path,
        protocol: "HTTP/1.1",
        authority: "a.test",
        server_name: "a.test",
        https: false,
        remote: Watched::new(Some(IpAddr::V4(Ipv4Addr::LOCALHOST))),
        remote_port: Watched::new(1),
        local: None,
        port: 80,
        fields: RequestFields::new(fields),
        content_length: Watched::new(None),
        now: Watched::new(0),
        root: b"/srv",
        software: "Millrace",
        index,
    }
}

fn verdict(text: &str, path: &str, fields: &[(&str, &str)]) -> Verdict {
    let disk = Disk(
        vec![("/", Arc::new(Folder::compile(text.as_bytes())))],
        vec!["/a.html", "/index.php", "/s/b.php"],
    );
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    evaluate(&request(path.as_bytes(), fields, &[]), &disk).expect("there are rules")
}

fn effects(text: &str) -> Vec<Effect> {
    Folder::compile(text.as_bytes()).findings.iter().map(|finding| finding.effect).collect()
}

#[test]
fn the_rules_of_wordpress_lead_to_its_front_controller() {
    let rules = "RewriteEngine On\nRewriteBase /\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
                 RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]";
    for (path, expected) in [("/any/page/", "/index.php"), ("/a.html", "/a.html"), ("/s/b.php", "/s/b.php")] {
        let verdict = verdict(rules, path, &[]);
        assert_eq!(verdict.outcome, Outcome::Serve);
        assert_eq!(String::from_utf8_lossy(&verdict.path), expected);
        assert_eq!(verdict.query.as_deref(), Some(&b"q=1"[..]));
    }
}

#[test]
fn what_restricts_and_is_not_supported_closes_what_it_covers() {
    for rules in [
        "Require ldap-group staff",
        "Deny from evil.example",
        "AuthType Digest",
        "SSLRequire %{SSL_CIPHER} =~ /x/",
        "NoSuchDirective x",
        "AllowMethods GET",
        "BlockBadClients 10.0.0.0/8",
        "RewriteMap2 x",
        "<RequireAll>\nRequire all granted\nRequire not host evil.example\n</RequireAll>",
        "<If \"%{NO:x} -nosuch 'y'\">\nRequire all denied\n</If>",
        "<NoSuchSection>\n<Files a.html>\nDeny from all\n</Files>\n</NoSuchSection>",
        "RewriteEngine On\nRewriteRule ^(?R)x - [F]",
        "RewriteEngine On\nRewriteCond ${map:x} y\nRewriteRule a - [F]",
        "RewriteEngine On\nRewriteRule ^(?=(a+)+$)(a|aa)+\\1$ - [F]\n",
    ] {
        let path =
            if rules.contains("?=") { "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" } else { "/a.html" };
        assert_eq!(verdict(rules, path, &[]).outcome, Outcome::Refuse(403), "{rules}");
    }
    let only_files = "<Files a.html>\nRequire ldap-group staff\n</Files>";
    assert_eq!(verdict(only_files, "/s/b.php", &[]).outcome, Outcome::Serve);
    assert_eq!(verdict(only_files, "/a.html", &[]).outcome, Outcome::Refuse(403));
}

#[test]
fn what_is_not_supported_and_restricts_nothing_is_ignored() {
    for rules in [
        "CheckSpelling On",
        "ModPagespeed off",
        "SecFilterEngine Off",
        "php_value memory_limit 1G",
        "Header set X %t",
        "AddHandler application/x-httpd-php .html",
    ] {
        assert_eq!(effects(rules), [Effect::Ignored], "{rules}");
        assert_eq!(verdict(rules, "/a.html", &[]).outcome, Outcome::Serve, "{rules}");
    }
}

#[test]
fn a_firewall_that_is_off_is_named() {
    for rules in [
        "php_value auto_prepend_file /srv/waf.php",
        "<IfModule mod_php.c>\nphp_value Auto_Prepend_File 'waf.php'\n</IfModule>",
    ] {
        assert_eq!(effects(rules), [Effect::Off], "{rules}");
        assert_eq!(verdict(rules, "/a.html", &[]).outcome, Outcome::Serve, "{rules}");
    }
    assert_eq!(effects("php_value auto_prepend_file none"), [Effect::Ignored]);
    for (text, expected) in [
        ("auto_prepend_file = '/srv/waf.php'", true),
        ("; x\n Auto_Prepend_File=/srv/waf.php", true),
        ("auto_prepend_file =", false),
        ("auto_prepend_file = \"\"", false),
        ("; auto_prepend_file = waf.php", false),
        ("memory_limit = 1G", false),
    ] {
        assert_eq!(crate::folder::starts_firewall(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn malformed_files_answer_500() {
    for rules in [
        "<Files x>",
        "RewriteRule x",
        "Order sideways",
        "Require not ip 1.2.3.4",
        "<Directory />\n</Directory>",
        "ExpiresDefault never",
    ] {
        assert!(effects(rules).contains(&Effect::Broken), "{rules}");
        assert_eq!(verdict(rules, "/a.html", &[]).outcome, Outcome::Refuse(500), "{rules}");
    }
    let large = "# x\n".repeat(300_000);
    assert_eq!(Folder::compile(large.as_bytes()).closed, Some(500));
}

#[test]
fn deny_wins_where_both_kinds_of_access_rules_stand() {
    for (rules, expected) in [
        ("Require all granted\nDeny from all", Outcome::Refuse(403)),
        ("Require all denied\nAllow from all", Outcome::Refuse(403)),
        ("Require all granted\nAllow from all", Outcome::Serve),
    ] {
        assert_eq!(verdict(rules, "/a.html", &[]).outcome, expected, "{rules}");
    }
}

#[test]
fn what_rules_say_to_the_page_cache() {
    let rules = "RewriteEngine On\nCacheLookup on\nRewriteCond %{HTTP_USER_AGENT} phone\n\
                 RewriteRule .* - [E=Cache-Control:vary=%{ENV:LSCACHE_VARY_VALUE}+ismobile]\n\
                 RewriteCond %{HTTP_ACCEPT} webp\nRewriteRule .* - [E=Cache-Control:vary=%{ENV:LSCACHE_VARY_VALUE}+webp]\n\
                 RewriteRule .? - [E=\"Cache-Vary:one,two\"]\n\
                 RewriteCond %{HTTP_COOKIE} private\nRewriteRule .? - [E=Cache-Control:no-cache]";
    let value = |verdict: &Verdict, name: &str| {
        String::from_utf8_lossy(verdict.environment.get(name.as_bytes()).unwrap_or_default()).into_owned()
    };
    let phone = verdict(rules, "/", &[("User-Agent", "phone"), ("Accept", "image/webp")]);
    assert_eq!(value(&phone, "LSCACHE_VARY_VALUE"), "ismobile+webp");
    assert_eq!((value(&phone, "LSCACHE_VARY_COOKIE").as_str(), phone.cache.bypass), ("one,two", false));
    assert_eq!(phone.cache.vary_cookies, ["one", "two"]);
    assert!(verdict(rules, "/", &[("Cookie", "private=1")]).cache.bypass);
    assert!(verdict("CacheLookup off", "/", &[]).cache.bypass);
}

#[test]
fn users_need_their_password_and_their_group() {
    let rules = "AuthType Basic\nAuthName x\nAuthUserFile u\nAuthGroupFile g\nRequire group ann";
    let authorization = |text: &str| format!("Basic {}", data_encoding::BASE64.encode(text.as_bytes()));
    let outcome = |text: &str| verdict(rules, "/a.html", &[("Authorization", &authorization(text))]).outcome;
    let refused = Outcome::Unauthorized("x".to_owned());
    assert_eq!(outcome("ann:ann"), Outcome::Serve);
    assert_eq!(outcome("ann:x"), refused);
    assert_eq!(outcome("bob:bob"), refused);
    assert_eq!(verdict(rules, "/a.html", &[]).outcome, refused);
}

#[test]
fn the_page_has_the_table_of_directives() {
    let page = include_str!("../../../docs/htaccess.md");
    assert!(page.contains(&crate::directives::table()), "cargo run -p millrace-htaccess --example reference");
}

/// A line that begins like a directive or a section.
fn line() -> impl Strategy<Value = String> {
    let names: Vec<&str> = DIRECTIVES.iter().map(|directive| directive.name).collect();
    let words = "([ -~]{0,12}|%\\{[A-Z_:]{1,9}\\}|\\^?\\(\\.\\*\\)\\$?|\\[(L|R=301|E=a:\\$1|OR|NC|F|S=2|N)\\]|from|all|\"[ -~]{0,9}\")";
    let argument = prop::collection::vec(words, 0..4).prop_map(|words| words.join(" "));
    prop_oneof![
        (prop::sample::select(names), argument.clone()).prop_map(|(name, rest)| format!("{name} {rest}")),
        ("(<|</)(Files|FilesMatch|If|Else|IfModule|Limit|RequireAll|IfVersion)", argument)
            .prop_map(|(name, rest)| format!("{name} {rest}>")),
        "[ -~]{0,30}\\\\?",
    ]
}

proptest! {
    /// No text makes the parser or an evaluation fail, and a malformed file never lets a request pass.
    #[test]
    fn any_file_has_a_verdict(lines in prop::collection::vec(line(), 0..12), path in "/[a-z%./]{0,12}") {
        let folder = Arc::new(Folder::compile(lines.join("\n").as_bytes()));
        let disk = Disk(vec![("/", folder.clone())], vec!["/a.html"]);
        let verdict = evaluate(&request(path.as_bytes(), vec![("User-Agent", b"x")], &[]), &disk).expect("there are rules");
        if let Some(status) = folder.closed {
            prop_assert_eq!(verdict.outcome, Outcome::Refuse(status));
        }
    }
}

/// The longest line is a megabyte: no reader may call itself for each of its words.
#[test]
fn long_lines_do_not_overflow_the_stack() {
    let list = format!("<If \"{}true\">\nHeader set X-A 1\n</If>\n", "false || ".repeat(100_000));
    assert_eq!(verdict(&list, "/a.html", &[]).rules().count(), 2);
    let calls = format!("<If \"{}\">\nHeader set X-A 1\n</If>\n", "tolower(".repeat(100_000));
    assert_eq!(effects(&calls), [Effect::Ignored]);
    let later = format!(
        "RewriteEngine On\nRewriteCond %{{{}REQUEST_URI}} ^/a\nRewriteRule ^ - [F]\n",
        "la-u:".repeat(200_000)
    );
    assert_eq!(verdict(&later, "/a.html", &[]).outcome, Outcome::Refuse(403));
    let alternatives = "<If \"false\">\n</If>\n".to_owned() + &"<ElseIf \"false\">\n</ElseIf>\n".repeat(1000);
    assert!(effects(&alternatives).contains(&Effect::Broken), "each one has the conditions of all before it");
}

/// Rules that run again and again, or make texts longer and longer, end with a refusal.
#[test]
fn an_evaluation_has_a_limited_number_of_steps() {
    let on = "RewriteEngine On\n";
    for rules in [
        format!("{on}{}RewriteRule ^ - [N]\n", "RewriteRule ^(.*)$ - [E=A:$1]\n".repeat(5000)),
        format!("{on}RewriteRule ^ {}\n", "%{REQUEST_URI}".repeat(50_000)),
        format!(
            "{on}RewriteRule ^ - [{}]\n",
            (0..50_000).map(|at| format!("E=A{at}:1,")).collect::<String>()
        ),
    ] {
        let outcome = verdict(&rules, &format!("/{}", "a".repeat(4000)), &[]).outcome;
        assert!(matches!(outcome, Outcome::Refuse(403 | 500)), "{outcome:?} by {}", &rules[..200]);
    }
}

/// What a line can have very many of is counted, although each one may be empty or false.
#[test]
fn all_parts_of_a_line_are_steps() {
    let on = "RewriteEngine On\n";
    for (part, line, each) in [
        ("%{ENV:A}", "RewriteCond @ ^$\nRewriteRule ^ - [N=3]\n", 3),
        ("'b',", "RewriteCond expr \"! 'a' in {@'b'}\"\nRewriteRule ^ - [N=3]\n", 3),
        ("$1", "RewriteCond expr \"'@' == ''\"\nRewriteRule ^ - [N=3]\n", 3),
        ("-f '/a' || ", "RewriteCond expr \"@false\"\nRewriteRule ^ - [N=3]\n", 500),
        ("b", "RewriteCond expr \"%{REQUEST_URI} -strmatch '[@]*'\"\nRewriteRule ^ - [F]\n", 1),
        ("b", "<Files \"[@]*\">\nHeader set X-A 1\n</Files>\n", 1),
        ("%{A}e", "RequestHeader set X-A \"@\"\n", 1),
    ] {
        let parts = 1000;
        verdict(&format!("{on}{}", line.replace('@', &part.repeat(parts))), "/a.html", &[]);
        let steps = steps();
        assert!(steps >= (parts * each) as u64, "{steps} steps for {parts} of {part:?} in {line}");
    }
}

/// Stars and a long set: the pattern would be read again for each byte of the URL.
#[test]
fn a_long_pattern_of_names_ends_with_a_refusal() {
    let rules = format!(
        "<If \"%{{REQUEST_URI}} -strmatch '*[{}]x'\">\nHeader set X-A 1\n</If>\n",
        "b".repeat(100_000)
    );
    assert_eq!(verdict(&rules, &format!("/{}", "a".repeat(4000)), &[]).outcome, Outcome::Refuse(403));
}
