//! `[[site.rule]]`.

use super::{SITE, disk_with};
use crate::environment::Environment;
use crate::load::{Source, load_on};
use crate::plan::{Plan, RuleAction};
use crate::problem::{Problem, Problems};
use crate::rule::KEYS;

const FILES: &[(&str, &str)] = &[
    (
        "/etc/millrace-test/redirects.csv",
        "from,to,status\n/a,/b\n\"/c,d\",https://example.com/,302\n# no\n\n/ü,/u\n",
    ),
    ("/etc/millrace-test/bad.csv", "/a,/b\n/c\n/d,/e,200\nd,/e\n/f,//g\n/h,/h\n\"/i,/j\n/k?l=1,/m\n"),
    ("/etc/millrace-test/office.txt", "# office\n10.0.0.0/8\n2001:db8::/32 ; tunnel\n"),
    ("/etc/millrace/office.txt", "192.0.2.0/24\n"),
    ("/etc/millrace-test/bad.txt", "10.0.0.1/8\nexample.com\n"),
    (
        "/etc/millrace/htpasswd",
        "ann:$2y$05$abcdefghijklmnopqrstuu5s0jPBBJKCMYeVIUQ8v7MYQzVYlXKtu\nbob:{SHA}abc:more\n",
    ),
    (
        "/etc/millrace-test/htpasswd",
        "ann:secret\nbob:$argon2id$v=19$m=4194304,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA\n",
    ),
    ("/etc/millrace-test/nobody", "# none\n"),
    ("/srv/plain/auth.php", ""),
    ("/srv/docs/", ""),
    ("/srv/dotted/.htaccess", ""),
    ("/srv/copy/wp-config.php", ""),
];

fn load(rules: &str) -> Result<(Plan, Vec<Problem>), Problems> {
    let text = format!("{SITE}{rules}");
    let all = [FILES, &[("/etc/millrace-test/millrace.toml", text.as_str())]].concat();
    let disk = disk_with(&all);
    let machine = Environment { current_dir: "/etc/millrace-test".into(), ..disk.machine() };
    load_on(&Source { config: Some("millrace.toml".into()), ..Source::default() }, &machine)
}

fn drawn(rules: &str) -> String {
    match load(rules) {
        Ok((_, warnings)) => warnings.iter().map(|warning| warning.draw(false) + "\n\n").collect(),
        Err(problems) => problems.draw(false),
    }
}

fn plan(rules: &str) -> Plan {
    let (plan, warnings) = load(rules).unwrap_or_else(|problems| panic!("{rules}\n{problems}"));
    assert!(warnings.is_empty(), "{rules}\n{}", drawn(rules));
    plan
}

/// A rule with the example of a key, and what that needs.
fn example(key: &str, value: &str) -> String {
    let more = match key {
        "redirect" => "path = \"/a/*\"",
        "rewrite" => "path = \"/a/*\"",
        "text" => "return = 404",
        "status" => "redirect = \"/b\"\npath = \"/a\"",
        "auth.realm" => "auth.users = \"/etc/millrace/htpasswd\"",
        "auth.copy" => "auth.script = \"/auth.php\"",
        "burst" => "limit = \"60/m\"",
        "alias" => "path = \"/docs/*\"",
        "on_type" | "on_status" => "expires = \"1d\"",
        "path" | "unless_path" | "regex" | "host" | "method" | "query" | "header" | "from"
        | "unless_from" => "deny = true",
        _ => "",
    };
    format!("[[site.rule]]\n{key} = {value}\n{more}\n")
}

#[test]
fn every_key_changes_the_plan_by_its_example() {
    for key in KEYS {
        let with = plan(&example(key.name, key.example));
        let without = load(&example("method", "\"GET\"").replace("deny", "allow")).unwrap().0;
        assert_ne!(with, without, "{}", key.name);
        // The same key with a value of a type that none takes.
        let wrong = load(&example(key.name, "[[1.5]]")).expect_err(key.name);
        let is_about_it = |problem: &Problem| problem.title.starts_with(&format!("`rule.{}` ", key.name));
        assert!(wrong.0.iter().any(is_about_it), "{}: {wrong}", key.name);
        for problem in &wrong.0 {
            assert!(!problem.places.is_empty() && !problem.cure.is_empty(), "{problem}");
        }
    }
}

#[test]
fn files_are_read() {
    let plan = plan(
        "[[site.rule]]\nredirects = \"redirects.csv\"\nstatus = 308\n[[site.rule]]\nfrom = [\"::1\", \"./office.txt\"]\ndeny = true\n[[site.rule]]\nauth.users = \"/etc/millrace/htpasswd\"\n",
    );
    let [listed, deny, auth] = &plan.sites[0].rules[..] else { panic!() };
    let Some(RuleAction::Redirects(lines)) = &listed.action else { panic!() };
    let lines: Vec<_> = lines.iter().map(|line| (&*line.from, &*line.to, line.status)).collect();
    assert_eq!(lines, [("/a", "/b", 308), ("/c,d", "https://example.com/", 302), ("/ü", "/u", 308)]);
    assert_eq!(deny.condition.from.as_ref().unwrap().len(), 3);
    let Some(RuleAction::Auth(auth)) = &auth.action else { panic!() };
    assert_eq!((&*auth.realm, auth.users.len(), &*auth.users[1].1.0), ("Restricted", 2, "{SHA}abc"));
    assert_eq!(listed.place, "millrace.toml:4");
    assert!(!format!("{plan:?}").contains("{SHA}abc"), "a secret in the debug form");
}

#[test]
fn rules_can_be_in_subtables() {
    let plan = plan(
        "[[site.rule]]\npath = \"/x\"\n[site.rule.cache]\nttl = \"1h\"\n[site.rule.set_header]\nX-A = \"b\"\n",
    );
    let effects = &plan.sites[0].rules[0].effects;
    assert_eq!((effects.fields.len(), effects.cache.ttl.unwrap().as_secs()), (1, 3600));
}

#[test]
fn mistakes_in_values() {
    insta::assert_snapshot!(drawn(
        r#"
[[site.rule]]
location = "/a"
redirect = "/b"
[[site.rule]]
path = ["a", "/a?b", "/a%20b", "/a/../b"]
regex = '(?=x)'
deny = true
[[site.rule]]
path = "/a"
redirect = "b c"
status = 200
[[site.rule]]
rewrite = "https://example.com/"
[[site.rule]]
return = 302
[[site.rule]]
redirects = "none.csv"
[[site.rule]]
deny = false
[[site.rule]]
set_header = { Content-Length = "3" }
unset_header = ["Date"]
error_page = { 200 = "/x" }
auth = "htpasswd"
cache.tll = "1h"
[[site.rule]]
limit = "ten a second"
[[site.rule]]
limit = "0/s"
burst = 0
[[site.rule]]
path = "/c/*"
redirect = "/$uri"
[site.rules]
"#
    ));
}

#[test]
fn mistakes_in_rules() {
    insta::assert_snapshot!(drawn(
        r#"
[[site.rule]]
path = "/a/*"
redirect = "/b/$3"
[[site.rule]]
path = "/c"
deny = true
return = 404
[[site.rule]]
path = "/d"
text = "gone"
[[site.rule]]
path = "/e/*"
redirect = "/e/new"
[[site.rule]]
path = "/f"
regex = '^/f$'
deny = true
"#
    ));
}

#[test]
fn mistakes_in_files() {
    insta::assert_snapshot!(drawn(
        r#"
[[site.rule]]
redirects = "bad.csv"
[[site.rule]]
from = "./bad.txt"
deny = true
[[site.rule]]
auth.users = "htpasswd"
[[site.rule]]
auth.users = "nobody"
"#
    ));
}

#[test]
fn rules_that_nothing_reaches() {
    insta::assert_snapshot!(drawn(
        r#"
[[site.rule]]
path = "/a/*"
redirect = "/b"
[[site.rule]]
path = "/a/c/*"
deny = true
[[site.rule]]
path = "/A/c"
deny = true
[[site.rule]]
from = "10.0.0.0/8"
allow = true
[[site.rule]]
deny = true
[[site.rule]]
path = "/d"
return = 404
"#
    ));
}

#[test]
fn mistakes_with_scripts() {
    insta::assert_snapshot!(drawn(
        r#"
[[site.rule]]
auth = { script = "auth.php" }
[[site.rule]]
auth = { script = "/../auth.php" }
[[site.rule]]
auth = { script = "/auth.php?a=b" }
[[site.rule]]
auth = { script = "/auth" }
[[site.rule]]
auth = { script = "/none.php" }
[[site.rule]]
auth = { script = "/srv/plain/auth.php" }
[[site.rule]]
auth = { script = "/auth.php", users = "/etc/millrace/htpasswd" }
[[site.rule]]
auth = { copy = ["X-User"] }
[[site.rule]]
auth = { script = "/auth.php", copy = ["X User", "X_User", "Cookie", "Content-Type", "X-Original-URI", "x-forwarded-for"] }
[[site.rule]]
auth_request = "/auth.php"
[[site.rule]]
auth = { script = ["/auth.php"] }
"#
    ));
}

#[test]
fn a_script_without_php() {
    insta::assert_snapshot!(drawn(
        "[[site.rule]]\nauth = { script = \"/auth.php\" }\n[php]\nenabled = false\n"
    ));
}

#[test]
fn mistakes_with_directories() {
    insta::assert_snapshot!(drawn(
        r#"
[[site.rule]]
path = "/docs*"
alias = "/srv/docs"
[[site.rule]]
path = ["/docs", "/docs/*", "/*.pdf"]
alias = "/srv/docs"
[[site.rule]]
regex = '^/docs/'
alias = "/srv/docs"
[[site.rule]]
alias = "/srv/docs"
[[site.rule]]
path = "/none/*"
alias = "/srv/none"
[[site.rule]]
path = "/file/*"
alias = "/srv/file.txt"
[[site.rule]]
path = "/all/*"
alias = "/"
[[site.rule]]
path = "/above/*"
alias = "/srv"
[[site.rule]]
path = "/copy/*"
root = "/srv/copy"
[[site.rule]]
path = "/dotted/*"
alias = "/srv/dotted"
[[site.rule]]
path = "/both/*"
alias = "/srv/docs"
root = "/srv/docs"
[[site.rule]]
path = "/twice/*"
alias = "/srv/docs"
redirect = "/"
"#
    ));
    plan("[[site.rule]]\npath = [\"/docs\", \"/docs/*\"]\nalias = \"/srv/docs\"\n");
    plan("[[site.rule]]\nregex = '^/docs/'\nroot = \"/srv/docs\"\n");
}

#[test]
fn one_bracket() {
    insta::assert_snapshot!(drawn("[site.rule]\npath = \"/a\"\n"));
}
