//! `--listen`, `--profile`, `--php-ini`, `--set`, and a directory besides a file.

use std::path::Path;
use std::time::Duration;

use super::{SITE, disk, disk_with, load, plan};
use crate::environment::Environment;
use crate::load::{Source, load_on};
use crate::plan::{Address, Profile};

const TWO: &str = r#"
[[site]]
names = ["example.com", "www.example.com"]
root = "/srv/app"
[site.php]
workers = 3
ini_file = "php.ini"
[[site]]
names = ["shop.example.com"]
root = "/srv/plain"
"#;

#[test]
fn set_overrides_any_setting() {
    let plan = plan(
        TWO,
        &[
            "http.keep_alive=5s",
            " server.threads = 2 ",
            "server.listen=127.0.0.1:0, unix:/run/x.sock",
            "files.index=[\"a.html\", \"b.html\"]",
            "files.compress=false",
            "php.ini.memory_limit=256M",
            "php.ini.opcache.enable=0",
            "php.ini={ precision = 14 }",
            "php.workers=7",
            "http.body_bytes=1000",
            "log.level='warn'",
        ],
    );
    assert_eq!(plan.http.keep_alive, Duration::from_secs(5));
    assert_eq!(plan.server.threads, 2);
    assert_eq!(
        plan.server.listen,
        [Address::Tcp("127.0.0.1:0".parse().unwrap()), Address::Unix("/run/x.sock".into())]
    );
    assert_eq!(plan.files.index, ["a.html", "b.html"]);
    assert!(!plan.files.compress);
    assert_eq!(plan.http.body_bytes, 1000);
    assert_eq!(plan.log.level, crate::plan::Level::Warn);
    let php = |number: usize| plan.sites[number].php.as_ref().unwrap();
    assert_eq!((php(0).workers, php(1).workers), (3, 7), "a site's own value stays");
    assert_eq!(
        php(0).ini.keys().collect::<Vec<_>>(),
        ["precision"],
        "a whole table replaces what was set before"
    );
}

#[test]
fn set_reaches_one_site_or_all() {
    let plan = plan(
        TWO,
        &[
            "site.php.workers=9",
            "site.example.com.php.workers=2",
            "site.www.example.com.front_controller=/index.php",
            "site.shop.example.com.headers.X-Shop=yes",
            "site.headers.X-All=a=b",
            "site.shop.example.com.php.ini.date.timezone=UTC",
            "site.php.ini.memory_limit=1G",
            "site.redirect.https=true",
        ],
    );
    let [main, shop] = plan.sites.as_slice() else { panic!() };
    assert_eq!((main.php.as_ref().unwrap().workers, shop.php.as_ref().unwrap().workers), (2, 9));
    assert_eq!(
        (main.front_controller.as_deref(), shop.front_controller.as_deref()),
        (Some("/index.php"), None)
    );
    assert_eq!(main.headers, [("X-All".to_owned(), "a=b".to_owned())]);
    assert_eq!(shop.headers.len(), 2);
    assert_eq!(shop.php.as_ref().unwrap().ini["date.timezone"], "UTC");
    assert_eq!(main.php.as_ref().unwrap().ini["memory_limit"], "1G");
    assert!(main.redirect.https && shop.redirect.https);
}

#[test]
fn options_stand_for_settings() {
    let disk = disk_with(&[
        ("/home/ann/m.toml", TWO.replace("\"php.ini\"", "\"/srv/file.txt\"").as_str()),
        ("/home/ann/my.ini", ""),
    ]);
    let source = Source {
        config: Some("m.toml".into()),
        listen: vec!["127.0.0.1:1".into(), "unix:a.sock".into()],
        profile: Some("drupal".into()),
        php_ini: Some("my.ini".into()),
        set: vec!["site.shop.example.com.profile=generic".into()],
        ..Source::default()
    };
    let (plan, _) = load_on(&source, &disk.machine()).unwrap();
    assert_eq!(
        plan.server.listen,
        [Address::Tcp("127.0.0.1:1".parse().unwrap()), Address::Unix("/home/ann/a.sock".into())]
    );
    assert_eq!((plan.sites[0].profile, plan.sites[1].profile), (Profile::Drupal, Profile::Generic));
    for site in &plan.sites {
        assert_eq!(site.php.as_ref().unwrap().ini_file.as_deref(), Some(Path::new("/home/ann/my.ini")));
    }
}

#[test]
fn a_folder_completes_a_file_without_sites() {
    let disk = disk_with(&[("/m.toml", "[http]\nkeep_alive = \"1s\"\n")]);
    let source =
        Source { config: Some("/m.toml".into()), site_dir: Some("/srv/app".into()), ..Source::default() };
    let (plan, _) = load_on(&source, &disk.machine()).unwrap();
    assert_eq!(plan.sites[0].root, Path::new("/srv/app"));
    assert_eq!(plan.http.keep_alive, Duration::from_secs(1));
}

#[test]
fn mistakes_in_arguments_are_drawn() {
    let wrong = load(
        TWO,
        &[
            "http.keep_alive",
            "http.keep_alive=5x",
            "http.keepalive_timeout=5s",
            "http.hed_timeout=5s",
            "site.exmple.com.php.workers=4",
            "site.example.com.php.wrokers=4",
            "site.nowhere.org.root=/srv",
            "files.index=[\"a\", ",
            "server.listen=127.0.0.1:80, localhost:81",
            "root=/srv",
            "=",
            "php.ini.memory_limit",
            "files.compress=on",
        ],
    );
    insta::assert_snapshot!(wrong.unwrap_err());
}

#[test]
fn mistakes_in_options_are_drawn() {
    let disk = disk_with(&[("/m.toml", SITE), ("/empty.toml", "")]);
    let machine = Environment { ..disk.machine() };
    let load = |source: Source| load_on(&source, &machine).unwrap_err().to_string();
    let file = |name: &str| Source { config: Some(name.into()), ..Source::default() };
    let texts = [
        load(Source { site_dir: Some("/srv/app".into()), ..file("/m.toml") }),
        load(file("/empty.toml")),
        load(file("nowhere.toml")),
        load(Source { site_dir: Some("/srv/nowhere".into()), ..Source::default() }),
        load(Source { site_dir: Some("/srv/file.txt".into()), ..Source::default() }),
        load(Source { listen: vec![":80".into(), "127.0.0.1:80".into(), "8080".into()], ..file("/m.toml") }),
        load(Source { listen: vec![":80".into(), "127.0.0.1:80".into()], ..file("/m.toml") }),
        load(Source { profile: Some("wordpres".into()), php_ini: Some("no.ini".into()), ..file("/m.toml") }),
    ];
    insta::assert_snapshot!(texts.join("\n\n----\n\n"));
}

#[test]
fn a_file_that_is_not_read_is_one_problem() {
    let disk = disk();
    let source = Source { config: Some("/nowhere.toml".into()), ..Source::default() };
    assert_eq!(load_on(&source, &disk.machine()).unwrap_err().0.len(), 1);
    assert_eq!(load("[http\n", &[]).unwrap_err().0.len(), 1);
}
