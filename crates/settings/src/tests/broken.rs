//! Configurations as people break them, each with what it must say: the setting to correct, and the cure. The whole texts are one
//! snapshot.

use std::path::Path;
use std::time::Duration;

use super::{SITE, disk_with};
use crate::certificates::{CertificateFacts, CertificateFault, CertificateReader};
use crate::environment::Environment;
use crate::load::{Source, load_on};
use crate::table;

/// Certificates by the name of their file.
struct Certificates;

const DAY: Duration = Duration::from_secs(24 * 3600);

impl CertificateReader for Certificates {
    fn certificate(&self, cert: &Path, key: &Path) -> Result<CertificateFacts, CertificateFault> {
        let now = super::disk().machine().now;
        let name =
            |path: &Path| path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let fault = |is_key, title: &str, cure: &str| {
            Err(CertificateFault { is_key, title: title.to_owned(), cure: cure.to_owned() })
        };
        let mut facts = CertificateFacts {
            names: vec!["a.test".to_owned(), "*.a.test".to_owned()],
            begins: now - DAY * 30,
            ends: now + DAY * 60,
            out_of_order: None,
            missing_issuer: None,
        };
        match (&*name(cert), &*name(key)) {
            (_, "other") => {
                return fault(true, "the key does not match the certificate", "name the right key");
            }
            ("empty", _) => {
                return fault(false, "empty.pem contains no certificate", "name a certificate in PEM");
            }
            ("old", _) => facts.ends = now - DAY * 3,
            ("soon", _) => facts.ends = now + DAY * 5,
            ("early", _) => facts.begins = now + DAY * 4,
            ("turned", _) => facts.out_of_order = Some((3, "CN=Root".to_owned())),
            ("short", _) => {
                facts.missing_issuer = Some(("CN=R11".to_owned(), "http://r11.example/".to_owned()));
            }
            ("nameless", _) => facts.names.clear(),
            _ => {}
        }
        Ok(facts)
    }

    fn client_authorities(&self, file: &Path) -> Result<(), String> {
        Err(format!("{} contains no certificate of an authority", file.display()))
    }

    fn trusted(&self, file: &Path) -> Result<(), String> {
        Err(format!("{} contains no usable certificate", file.display()))
    }
}

/// With the certificate `cert` and the key `key` for the site `name`.
fn tls(cert: &str, key: &str, name: &str) -> String {
    format!(
        "[https]\nlisten = [\":443\"]\n[[tls]]\ncert = \"/c/{cert}.pem\"\nkey = \"/c/{key}.pem\"\n{SITE}names = [\"{name}\"]\n"
    )
}

fn site(rest: &str) -> String {
    format!("{SITE}{rest}\n")
}

fn above(rest: &str) -> String {
    format!("{rest}\n{SITE}")
}

/// The broken configuration, and parts of what is said of it.
fn configurations() -> Vec<(String, &'static [&'static str])> {
    vec![
        // Certificates.
        (
            tls("good", "other", "a.test"),
            &["error: the key does not match", "key = \"/c/other.pem\"", "help: name the right key"],
        ),
        (
            tls("empty", "good", "a.test"),
            &["error: empty.pem contains no certificate", "cert = \"/c/empty.pem\""],
        ),
        (
            tls("old", "good", "a.test"),
            &["warning: the certificate /c/old.pem expired 3 days ago", "help: renew it"],
        ),
        (
            tls("soon", "good", "a.test"),
            &["warning: the certificate /c/soon.pem expires in 5 days", "help: renew it"],
        ),
        (tls("early", "good", "a.test"), &["becomes valid in 4 days", "set the machine's clock"]),
        (
            tls("turned", "good", "a.test"),
            &["warning: the chain in /c/turned.pem is out of order", "number 3, \"CN=Root\""],
        ),
        (
            tls("short", "good", "a.test"),
            &[
                "the chain in /c/short.pem is incomplete: the certificate of \"CN=R11\"",
                "it is at http://r11.example/",
            ],
        ),
        (
            tls("good", "good", "b.test"),
            &["warning: no certificate covers \"b.test\"", "/c/good.pem is for a.test, *.a.test"],
        ),
        (
            tls("nameless", "good", "a.test"),
            &["no certificate covers \"a.test\"", "/c/nameless.pem is for no DNS name"],
        ),
        (tls("none", "good", "a.test"), &["error: /c/none.pem does not exist", "correct the path"]),
        (
            tls("good", "good", "x.y.a.test").replace("key =", "ocsp = \"/c/good.pem\"\nkey ="),
            &[
                "warning: `tls.ocsp` has gone: OCSP",
                "help: remove the line",
                "no certificate covers \"x.y.a.test\"",
            ],
        ),
        (
            tls("good", "good", "a.test") + "client_verify = \"required\"\nclient_ca = \"/c/good.pem\"\n",
            &["error: /c/good.pem contains no certificate of an authority", "certificates of your authority"],
        ),
        (
            site("[[site.proxy]]\npath = \"/\"\nto = \"https://app.test\"\nca = \"/c/good.pem\""),
            &["warning: /c/good.pem contains no usable certificate", "the system's are trusted"],
        ),
        // PHP's own settings.
        (above("[php]\nmemory_limit = \"256M\""), &["`ini = { memory_limit = \"256M\" }` under [php]"]),
        (above("memory_limit = \"256M\""), &["`ini = { memory_limit = \"256M\" }` under [php]"]),
        (
            site("[site.php]\nupload_max_filesize = \"64M\""),
            &["`ini = { upload_max_filesize = \"64M\" }` under [site.php]"],
        ),
        (
            site("[site.php]\nmax_execution_time = 300 # slow"),
            &["`ini = { max_execution_time = 300 }` under [site.php]"],
        ),
        (above("[php.opcache]\nenable = true"), &["write them under [php.ini.opcache]"]),
        (above("[php]\nmemory_limit = \"256MB\""), &["`ini = { memory_limit = ... }` under [php]"]),
        (
            above("[php.ini]\nmemory_limit = \"256\""),
            &["memory_limit = \"256\" is 256 bytes", "memory_limit = \"256M\""],
        ),
        (
            above("[php.ini]\nmemory_limit = \"256MB\""),
            &["does not understand memory_limit = \"256MB\"", "memory_limit = \"256M\""],
        ),
        (
            above("[php.ini]\npost_max_size = 64"),
            &["post_max_size = \"64\" is 64 bytes", "post_max_size = \"64M\""],
        ),
        (
            above("[php.ini]\nmemory_limt = \"256M\""),
            &["a name that PHP does not know: memory_limt", "help: write memory_limit"],
        ),
        (above("[php.ini]\nopcache_enable = 1"), &["opcache_enable", "help: write opcache.enable"]),
        (
            above("[php.ini]\nmax_input_vars = \"many\""),
            &["max_input_vars = \"many\" is not a number", "write a whole number"],
        ),
        (
            above("[php.ini]\ndisplay_errors = \"screen\""),
            &["display_errors = \"screen\" as off", "write true or false"],
        ),
        (
            above("[php.ini]\nopcache.memory_consumption = \"1G\""),
            &["\"1G\" is not a number", "the number of megabytes"],
        ),
        // Switches that are none.
        (above("[cache]\nenabled = true"), &["remove the line", "`cache.mode`"]),
        (above("[cache]\nenabled = false"), &["write `mode = \"off\"` under [cache]"]),
        (above("[cache]\ndisabled = true"), &["write `mode = \"off\"` under [cache]"]),
        (above("[https]\nenabled = true"), &["write `listen = [\":443\"]` under [https]"]),
        (above("[acme]\nenabled = true"), &["write `acme = true` under [https]"]),
        (above("[admin]\nenabled = false"), &["write `listen = \"off\"` under [admin]"]),
        (above("[log]\nenabled = true"), &["write `access = \"/var/log/millrace/access.log\"`"]),
        (above("[shield]\nenabled = false"), &["write `mode = \"off\"` under [shield]"]),
        // Words of other servers.
        (above("[server]\nworker_processes = 4"), &["`server.threads`"]),
        (above("[http]\nclient_max_body_size = \"64M\""), &["`http.body_bytes`"]),
        (site("server_name = \"a.test\""), &["`site.names`"]),
        (site("document_root = \"/srv/app\""), &["`site.root`"]),
        (above("[https]\nssl_certificate = \"/c/good.pem\""), &["`tls.cert`"]),
        (above("[php]\nmax_children = 8"), &["`php.workers`"]),
        (above("[cache]\nkeys_zone = \"64MB\""), &["`cache.memory`"]),
        // Structure.
        (above("[server]\nlisten = :80"), &["not a number, true, false or a quoted string", "in quotes"]),
        (above("[http]\nkeep_alive = 60"), &["a duration with a unit", "60s"]),
        ("[site]\nroot = \"/srv/plain\"\n".to_owned(), &["write the header as [[site]]"]),
        (site("root = \"/srv/other\""), &["`root` is set twice", "remove one of the two"]),
        (site("[site.redirect]\nhttps = true"), &["every request is redirected to https, but HTTPS is off"]),
    ]
}

/// What is said of a configuration.
fn said(text: &str) -> String {
    let certificate = ["good", "other", "empty", "old", "soon", "early", "turned", "short", "nameless"];
    let files: Vec<String> = certificate.iter().map(|name| format!("/c/{name}.pem")).collect();
    let mut files: Vec<(&str, &str)> = files.iter().map(|path| (&**path, "")).collect();
    files.push(("/etc/millrace-test/millrace.toml", text));
    let disk = disk_with(&files);
    let certificates: Option<&dyn CertificateReader> = Some(&Certificates);
    let machine = Environment { current_dir: "/etc/millrace-test".into(), certificates, ..disk.machine() };
    match load_on(&Source { config: Some("millrace.toml".into()), ..Source::default() }, &machine) {
        Ok((_, warnings)) => warnings.iter().map(|warning| warning.draw(false) + "\n").collect(),
        Err(problems) => problems.draw(false) + "\n",
    }
}

#[test]
fn each_says_what_to_correct() {
    let (mut all, mut missing) = (String::new(), String::new());
    for (text, expected) in configurations() {
        let said = said(&text);
        for part in expected {
            if !said.contains(part) {
                missing += &format!("no \"{part}\" in what is said of\n{text}\n{said}\n");
            }
        }
        all += &format!("----\n{}\n\n{said}\n", text.trim());
    }
    assert!(missing.is_empty(), "{missing}");
    assert!(configurations().len() >= 40);
    insta::assert_snapshot!(all);
}

/// Whatever part is switched on or off by a word that it does not have: what is suggested stands in this part, or belongs to it.
#[test]
fn a_switch_never_leads_to_another_part() {
    let mut parts: Vec<&str> = table::rows().filter_map(|row| row.key.split('.').next()).collect();
    parts.sort_unstable();
    parts.dedup();
    for part in parts.into_iter().filter(|part| !matches!(*part, "site" | "tls" | "proxy")) {
        for word in ["enabled", "enable", "on", "off", "disabled", "disable", "active"] {
            if table::find(&format!("{part}.{word}")).is_some() {
                continue;
            }
            for value in ["true", "false"] {
                let said = said(&above(&format!("[{part}]\n{word} = {value}")));
                let cure = said.lines().find(|line| line.contains("help: ")).unwrap_or_default();
                let others = ["php.enabled", "object_cache.enabled"];
                let is_other = |other: &&&str| !other.starts_with(part) && cure.contains(**other);
                assert!(!others.iter().any(|other| is_other(&other)), "[{part}] {word}: {cure}");
                assert!(!cure.is_empty() && !said.contains("error: no setting is named ``"), "{said}");
                let turns_off = cure.contains("\"off\"` under") || cure.contains("= false`");
                let is_off = (value == "false") != word.starts_with("dis") && word != "off"
                    || (word == "off" && value == "true");
                assert!(!turns_off || is_off, "[{part}] {word} = {value}: {cure}");
            }
        }
    }
}
