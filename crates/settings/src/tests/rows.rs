//! The table.

use std::collections::BTreeSet;
use std::path::Path;

use super::{SITE, load, plan};
use crate::explain;
use crate::table::{self, Default, GROUPS, Kind, Place, Setting};
use crate::value::{Raw, Value};

/// The row's example, under its header.
fn example(row: &Setting) -> String {
    let line = format!("{} = {}\n", row.last(), row.example);
    let key = row.key.replace("NAME", "front");
    let table = key.rsplit_once('.').unwrap().0;
    match row.place {
        Place::Site if row.key == "site.root" => format!("[[site]]\n{line}"),
        Place::Site if table == "site" => format!("{SITE}{line}"),
        Place::Site => format!("{SITE}[{table}]\n{line}"),
        Place::Tls => format!("[[tls]]\n{line}{SITE}"),
        Place::Proxy if table == "proxy" => format!("{SITE}{}{line}", without(PROXY, row.last())),
        Place::Proxy => format!("{SITE}{PROXY}[site.{table}]\n{line}"),
        Place::Global | Place::Both => format!("[{table}]\n{line}{SITE}"),
    }
}

#[test]
fn keys_are_unique_and_have_a_group() {
    let mut seen = BTreeSet::new();
    for row in table::rows() {
        let group = row.key.split('.').next().unwrap();
        assert!(seen.insert(row.key), "{} twice", row.key);
        assert!(GROUPS.iter().any(|known| known.name == group), "{}", row.key);
        assert_eq!(row.place == Place::Site, group == "site", "{}", row.key);
        assert_eq!(row.place == Place::Tls, group == "tls", "{}", row.key);
        assert_eq!(row.place == Place::Proxy, group == "proxy", "{}", row.key);
    }
}

#[test]
fn every_row_has_its_texts() {
    for row in table::rows() {
        for text in [row.line, row.reason] {
            assert!(text.len() > 20 && text.ends_with('.'), "{}: {text:?}", row.key);
            assert!(!text.contains("  "), "{}: {text:?}", row.key);
        }
        assert!(!row.example.is_empty(), "{}", row.key);
    }
}

#[test]
fn every_default_is_within_its_own_bounds() {
    for row in table::rows() {
        if let Default::Fixed(text) = row.default {
            let read = row.kind.read(&Raw::bare(text, 0..0), Path::new("/"));
            assert!(read.is_ok(), "{}: {read:?}", row.key);
        }
    }
}

#[test]
fn the_choices_of_php_version_are_the_versions() {
    let Kind::Choice(choices) = &table::find("php.version").unwrap().kind else { panic!() };
    let words: Vec<&str> = choices.iter().map(|(word, _)| *word).filter(|word| *word != "auto").collect();
    assert_eq!(words, crate::plan::PHP_VERSIONS);
}

const PROXY: &str = "[[site.proxy]]\npath = \"/a/\"\nto = \"http://a\"\n";

/// The lines without the one that sets `name`.
fn without(lines: &str, name: &str) -> String {
    let keeps = |line: &&str| !line.starts_with(&format!("{name} ="));
    lines.split_inclusive('\n').filter(keeps).collect()
}

/// Rows that can't be set alone: they need root, or another setting.
const NOT_ALONE: &[&str] = &[
    "php.user",
    "php.group",
    "site.default",
    "site.try_files",
    "site.client_verify",
    "site.client_ca",
    "https.listen",
    "https.acme",
    "tls.cert",
    "tls.key",
];

const CERTIFICATE: &str = "[[tls]]\ncert = \"/srv/app/index.php\"\nkey = \"/srv/app/app.php\"\n";

const CLIENTS: &str = "[https]\nself_signed = true\nlisten = [\":443\"]\n[[site]]\nroot = \"/srv/app\"\n\
                       client_verify = \"required\"\nclient_ca = \"/srv/app/app.php\"\n";

/// The example of each row changes the plan: no row lacks an effect, no line of `resolve.rs` has the key of another.
#[test]
fn every_row_changes_the_plan() {
    const LAST: &str = "[[site]]\nnames = [\"b\"]\nroot = \"/srv/app\"\n";
    let plain = plan(&format!("{SITE}{LAST}"), &[]);
    let proxied = plan(&format!("{SITE}{PROXY}{LAST}"), &[]);
    for row in table::rows() {
        let text = match row.key {
            "php.user" | "php.group" => continue, // Need root: see plans.rs.
            "site.default" => format!("{SITE}names = [\"a\"]\n{LAST}default = true\n"),
            "https.listen" => format!("[https]\nself_signed = true\nlisten = [\":443\"]\n{SITE}{LAST}"),
            "tls.cert" | "tls.key" => format!("{CERTIFICATE}{SITE}{LAST}"),
            "https.acme" => format!("{}{}", example(row), LAST.replace("\"b\"", "\"b.com\"")),
            "site.client_verify" | "site.client_ca" => CLIENTS.to_owned() + LAST,
            "site.try_files" => format!("{}front_controller = \"/index.html\"\n{LAST}", example(row)),
            _ => example(row) + LAST,
        };
        let changed = match load(&text, &[]) {
            Ok((plan, _)) => plan,
            Err(problems) => panic!("{}:\n{text}\n{problems}", row.key),
        };
        let plain = if row.place == Place::Proxy { &proxied } else { &plain };
        assert_ne!(changed, *plain, "{} has no effect:\n{text}", row.key);
    }
    let second = plan(&format!("{SITE}names = [\"a\"]\n{LAST}default = true\n"), &[]);
    assert!(second.sites[1].default && !second.sites[0].default);
}

/// The same by `--set`, for every row that can be set alone.
#[test]
fn every_row_can_be_set_for_one_run() {
    let plain = plan(SITE, &[]);
    for row in table::rows() {
        if NOT_ALONE.contains(&row.key) || row.place == Place::Proxy {
            continue;
        }
        let argument = format!("{}={}", row.key.replace("NAME", "front"), row.example);
        let changed = plan(SITE, &[&argument]);
        assert_ne!(changed, plain, "--set {argument} has no effect");
    }
}

#[test]
fn a_restart_is_asked_for_only_where_the_table_says_so() {
    let plain = plan(SITE, &[]);
    assert_eq!(plain.restart_needed(&plain), [""; 0]);
    for row in table::rows() {
        if NOT_ALONE.contains(&row.key) || row.place == Place::Proxy {
            continue;
        }
        let changed = plan(SITE, &[&format!("{}={}", row.key.replace("NAME", "front"), row.example)]);
        let needed = plain.restart_needed(&changed);
        assert_eq!(needed.contains(&row.key), row.restart.is_some(), "{}", row.key);
        assert!(needed.len() <= 1, "{}: {needed:?}", row.key);
    }
}

/// Names of other servers lead to a row, so none may be a setting of the same table.
#[test]
fn other_servers_names_hide_none_of_ours() {
    for row in table::rows() {
        let table = row.key.rsplit_once('.').unwrap().0;
        for alias in row.elsewhere {
            assert!(table::find(&format!("{table}.{alias}")).is_none(), "{alias} in {table}");
            assert_eq!(*alias, alias.to_lowercase(), "{alias}");
        }
    }
}

#[test]
fn what_has_gone_is_no_row_and_is_explained() {
    for (key, why) in table::GONE {
        assert!(table::find(key).is_none(), "{key}");
        assert!(explain(key).unwrap_err().0.contains(why), "{key}");
    }
}

/// An update must not keep a server from starting, wherever the setting is written.
#[test]
fn what_has_gone_is_only_a_warning() {
    const LINE: &str = "keep_database_connections = true\n";
    for (text, set) in [
        (format!("[php]\n{LINE}{SITE}"), None),
        (format!("{SITE}[site.php]\n{LINE}"), None),
        (SITE.to_owned(), Some("php.keep_database_connections=true")),
        (SITE.to_owned(), Some("site.php.keep_database_connections=true")),
    ] {
        let (_, warnings) = load(&text, set.as_slice()).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].title.contains("php.keep_database_connections` has gone: PHP connects"),
            "{warnings:?}"
        );
        assert_eq!(warnings[0].cure, "remove the line");
    }
}

#[test]
fn every_row_is_explained() {
    for row in table::rows() {
        let text = explain(row.key).unwrap();
        assert!(text.starts_with(row.key), "{text}");
        assert!(text.contains(row.line.split(' ').next().unwrap()), "{text}");
        if let Some(key) = row.key_in_site() {
            let short = explain(&format!("site.{key}")).unwrap();
            assert_eq!(text, short);
        }
    }
}

#[test]
fn explanations_read_well() {
    let disk = super::disk();
    let machine = disk.machine();
    let ask = |key: &str| match crate::explain_on(key, &machine) {
        Ok(text) => text,
        Err(suggestion) => format!("error: {suggestion}\n"),
    };
    let questions = [
        "php.workers",
        "http.head_timeout",
        "head_timeout",
        "site.php.ini",
        "admin.listen",
        "client_max_body_size",
        "[http]",
        "site.redirect",
        "site.php",
        "php.pool.admin.nice",
        "php.pool",
        "http.hed_timeout",
        "keep_alives",
        "quantum",
        "user",
        "memory_limit",
        "opcache.enabel",
    ];
    let text: Vec<String> =
        questions.iter().map(|key| format!("$ millrace explain {key}\n{}", ask(key))).collect();
    insta::assert_snapshot!(text.join("\n"));
    assert_eq!(ask(""), ask("all"));
    assert!(ask("all").lines().count() > table::rows().count());
}

#[test]
fn computed_defaults_of_this_machine_are_in_bounds() {
    let machine = crate::Environment::of_this_machine();
    let written = crate::written::Written::default();
    let view = crate::resolve::View::new(&written, None, &machine);
    for key in [
        "server.threads",
        "php.workers",
        "php.workers_start",
        "php.workers_spare",
        "cache.memory",
        "cache.page_bytes",
        "cache.disk_bytes",
    ] {
        let Value::Number(number) = view.get(key) else { panic!("{key}") };
        let typed = Raw { form: crate::value::Form::Integer(i64::try_from(number).unwrap()), span: 0..0 };
        assert!(table::find(key).unwrap().kind.read(&typed, Path::new("/")).is_ok(), "{key} = {number}");
    }
    assert!(machine.memory > 64 << 20, "{}", machine.memory);
}
