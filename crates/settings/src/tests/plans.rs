//! Valid texts, and their plans.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{SITE, disk, disk_with, load, plan};
use crate::environment::Environment;
use crate::environment::fake::FakeDisk;
use crate::load::{Source, load_on};
use crate::plan::{Address, Backend, CacheMode, NetworkSet, Peers, Profile, Rewind, Symlinks, Www};

fn tcp(text: &str) -> Address {
    Address::Tcp(text.parse().unwrap())
}

#[test]
fn a_folder_alone_is_the_one_default_site() {
    let disk = disk();
    let source = Source { site_dir: Some("/srv/blog".into()), ..Source::default() };
    let (plan, warnings) = load_on(&source, &disk.machine()).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(plan.sites.len(), 1);
    let site = &plan.sites[0];
    assert!(site.default && site.names.is_empty());
    assert_eq!(site.root, Path::new("/srv/blog"));
    assert_eq!(site.profile, Profile::WordPress);
    assert_eq!(site.front_controller.as_deref(), Some("/index.php"));
    assert_eq!(plan.server.listen, [tcp("127.0.0.1:8080")]);
    assert_eq!(plan.admin.listen, Some(Address::Unix("/run/user/1000/millrace/admin.sock".into())));
}

#[test]
fn requests_begin_in_an_image_only_where_that_is_switched_on() {
    let rewind = |text: &str| {
        let disk = FakeDisk::with(&[
            ("/tmp/x", ""),
            ("/var/tmp/x", ""),
            ("/srv/a/wp-includes/version.php", ""),
            ("/srv/b/index.php", ""),
            ("/etc/m.toml", text),
        ]);
        let source = Source { config: Some("/etc/m.toml".into()), ..Source::default() };
        let (plan, _) = load_on(&source, &disk.machine()).unwrap();
        plan.sites.iter().map(|site| site.php.as_ref().unwrap().rewind).collect::<Vec<_>>()
    };
    let (a, b) = (
        "[[site]]\nnames = \"a.test\"\nroot = \"/srv/a\"\n",
        "[[site]]\nnames = \"b.test\"\nroot = \"/srv/b\"\n",
    );
    let wanted = |text: &str| rewind(&format!("[php]\nrewind = \"wordpress\"\n{text}"));
    assert_eq!(rewind(&format!("{a}{b}")), [Rewind::Off, Rewind::Off]);
    assert_eq!(wanted(&format!("{a}{b}")), [Rewind::Auto, Rewind::Off]);
    assert_eq!(rewind(&format!("[php]\nrewind = \"on\"\n{b}")), [Rewind::On]);
}

#[test]
fn nothing_at_all_serves_the_current_directory() {
    let disk = disk();
    let (plan, _) = load_on(&Source::default(), &disk.machine()).unwrap();
    assert_eq!(plan.sites[0].root, Path::new("/home/ann"));
    assert_eq!(plan.sites[0].profile, Profile::Generic);
    assert_eq!(plan.sites[0].front_controller, None);
}

#[test]
fn the_defaults_are_those_of_the_design() {
    let plan = plan(SITE, &[]);
    let http = &plan.http;
    assert_eq!((http.head_bytes, http.head_fields, http.target_bytes), (16 << 10, 100, 8 << 10));
    assert_eq!(http.head_timeout, Duration::from_secs(10));
    assert_eq!((http.body_timeout, http.body_min_rate), (Duration::from_secs(60), 256));
    assert_eq!((http.body_bytes, http.body_memory), (64 << 20, 1 << 20));
    assert_eq!((http.keep_alive, http.send_timeout), (Duration::from_secs(60), Duration::from_secs(60)));
    assert_eq!(plan.server.shutdown_grace, Duration::from_secs(30));
    assert_eq!(
        (plan.server.threads, plan.server.connections, plan.server.connections_per_address),
        (4, 0, 0)
    );
    assert_eq!((plan.files.cache_entries, plan.files.compress_from), (10_000, 1100));
    assert_eq!(plan.files.revalidate, Duration::from_secs(1));
    assert_eq!(plan.files.index, ["index.php", "index.html", "index.htm"]);
    assert_eq!((plan.log.access.as_deref(), plan.log.error.as_deref()), (None, None));
    let php = plan.sites[0].php.as_ref().unwrap();
    assert_eq!((php.workers, php.workers_first, php.workers_measured), (32, 16, true));
    assert_eq!((php.workers_start, php.workers_spare, php.worker_memory), (4, 4, None));
    assert_eq!((php.queue, php.max_requests), (1000, 10_000));
}

#[test]
fn workers_follow_cores_and_memory() {
    let disk = disk();
    let workers = |cores, memory: u64| {
        let machine = Environment { cores, memory, ..disk.machine() };
        let (plan, _) = load_on(&Source::default(), &machine).unwrap();
        let php = plan.sites[0].php.clone().unwrap();
        assert!(php.workers_spare <= php.workers_start && php.workers_start <= php.workers);
        (php.workers_first, php.workers)
    };
    assert_eq!(workers(1, 8 << 30), (4, 16));
    assert_eq!(workers(2, 8 << 30), (8, 16));
    assert_eq!(workers(64, 4 << 30), (24, 192));
    assert_eq!(workers(1, 128 << 20), (1, 6));
    assert_eq!(workers(100_000, 1 << 60), (10_000, 10_000));
    let written = plan(SITE, &["php.workers=3"]).sites[0].php.clone().unwrap();
    assert_eq!((written.workers, written.workers_first, written.workers_measured), (3, 3, false));
}

#[test]
fn scripts_have_the_variables_that_are_named() {
    let text = r#"
        [php]
        env = { APP_ENV = "prod", DB_HOST = "db", DB_PORT = 3306 }
        env_pass = ["WORDPRESS_*", "DB_HOST", "HTTP_*"]
        [[site]]
        names = ["a.example"]
        root = "/srv/blog"
        default = true
        [[site]]
        names = ["b.example"]
        root = "/srv/app"
        php.env.DB_HOST = "other"
        php.env_pass = []
    "#;
    let disk = disk_with(&[("/etc/millrace/millrace.toml", text)]);
    let own = [
        ("WORDPRESS_DB_NAME", "wp"),
        ("DB_HOST", "mine"),
        ("SECRET", "x"),
        ("HTTP_PROXY", "y"),
        ("MY_WORDPRESS_X", "z"),
    ];
    let variables = own.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let (plan, _) = load_on(&Source::default(), &Environment { variables, ..disk.machine() }).unwrap();
    let env = |site: usize| {
        let env = &plan.sites[site].php.as_ref().unwrap().env;
        env.0.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(env(0), "APP_ENV=prod DB_HOST=db DB_PORT=3306 WORDPRESS_DB_NAME=wp");
    assert_eq!(env(1), "APP_ENV=prod DB_HOST=other DB_PORT=3306");
    assert!(!format!("{plan:?}").contains("prod"), "what is printed for people has no values");
    assert_eq!(super::plan(SITE, &[]).sites[0].php.as_ref().unwrap().env.0.len(), 0);
}

#[test]
fn an_address_proves_nothing_where_others_can_come_from_it() {
    let from = |text: &str| plan(&format!("{text}\n{SITE}"), &[]).cache.purge_from.len();
    assert_eq!(
        from(
            "[server]\nlisten = [\"127.0.0.1:80\", \"unix:/run/x.sock\"]\n[https]\nself_signed = true\nlisten = [\"[::1]:443\"]"
        ),
        2
    );
    assert_eq!(from("[server]\nlisten = [\"127.0.0.1:80\", \":81\"]"), 0);
    assert_eq!(
        from("[server]\nlisten = [\"127.0.0.1:80\"]\n[https]\nself_signed = true\nlisten = [\":443\"]"),
        0
    );
    assert_eq!(from("[server]\nlisten = [\"127.0.0.1:80\"]\ntrusted_proxies = [\"127.0.0.1\"]"), 0);
    assert_eq!(from("[server]\nlisten = [\":80\"]\n[cache]\npurge_from = [\"127.0.0.1\"]"), 1, "as written");
    let token = plan(&format!("[cache]\npurge_token = \"0123456789abcdef\"\n{SITE}"), &[]);
    assert!(token.cache.purge_token.is_some() && !format!("{token:?}").contains("0123456789abcdef"));
    let secret =
        plan(&format!("[admin]\ntoken = \"0123456789abcdef\"\n{SITE}"), &[]).admin.token.expect("a token");
    assert!(
        secret.is("0123456789abcdef")
            && !secret.is("0123456789abcdeF")
            && !secret.is("0123456789abcde")
            && !secret.is("")
    );
}

#[test]
fn the_admin_socket_is_in_a_folder_of_the_user() {
    let disk = disk();
    let admin = |uid, runtime_dir: Option<PathBuf>| {
        let machine = Environment { uid, runtime_dir, ..disk.machine() };
        let (plan, _) = load_on(&Source::default(), &machine).unwrap();
        plan.admin.listen.unwrap()
    };
    assert_eq!(admin(0, Some("/run/user/0".into())), Address::Unix("/run/millrace/admin.sock".into()));
    assert_eq!(admin(7, None), Address::Unix("/tmp/millrace-7/admin.sock".into()));
}

#[test]
fn pages_are_kept_in_a_folder_of_the_users() {
    let disk = disk_with(&[("/etc/millrace/millrace.toml", "[[site]]\nroot = \"/srv/app\"\n")]);
    let dir = |uid, cache_dir: Option<PathBuf>, source: &Source| {
        let machine = Environment { uid, cache_dir, ..disk.machine() };
        load_on(source, &machine).unwrap().0.cache.dir.map(|dir| dir.display().to_string())
    };
    let file = Source::default();
    let folder = |site_dir: &str| Source { site_dir: Some(site_dir.into()), ..Source::default() };
    let own = Some(PathBuf::from("/home/ann/.cache"));
    // The names must stay the same from version to version, or a restart after an update finds nothing.
    assert_eq!(dir(0, own.clone(), &file).as_deref(), Some("/var/cache/millrace/millrace-ff82e258b37c691e"));
    assert_eq!(
        dir(1000, own.clone(), &folder("/srv/blog")).as_deref(),
        Some("/home/ann/.cache/millrace/blog-7d65eff15a5c4720")
    );
    assert_ne!(dir(1000, own.clone(), &folder("/srv/app")), dir(1000, own, &folder("/srv/blog")));
    assert_eq!(dir(1000, None, &file), None);
}

#[test]
fn pages_are_kept_as_the_site_says() {
    let text = r#"
        [cache]
        memory = "64MB"
        ignore_arguments = ["ref"]
        ttl.page = "20s"
        purge_from = []
        [[site]]
        names = ["a.example"]
        root = "/srv/blog"
        default = true
        cache.ttl.feed = "5m"
        [[site]]
        names = ["b.example"]
        root = "/srv/app"
        [site.cache]
        mode = "standard"
        ignore_arguments = ["partner_*", "src"]
        ttl.max = "5s"
        vary_fields = "X-Country"
    "#;
    let plan = plan(text, &[]);
    assert_eq!((plan.cache.memory, plan.cache.disk_bytes), (64 << 20, 128 << 20));
    assert_eq!((plan.cache.variants, plan.cache.fill_wait), (64, Duration::from_secs(10)));
    assert_eq!(plan.cache.purge_from, []);
    let [a, b] = plan.sites.iter().map(|site| &site.cache).collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((a.mode, b.mode), (CacheMode::Profile, CacheMode::Standard));
    assert_eq!((a.page_bytes, b.page_bytes), (4 << 20, 4 << 20));
    assert_eq!((a.ignore_arguments.as_slice(), b.ignore_arguments.len()), (&["ref".to_owned()][..], 2));
    assert_eq!((a.ttl.page, a.ttl.feed), (Duration::from_secs(20), Duration::from_secs(300)));
    assert_eq!((a.ttl.not_found, b.ttl.not_found), (Duration::from_secs(10), Duration::ZERO));
    assert_eq!(b.ttl.page, Duration::from_secs(5));
    assert_eq!((b.ttl.max, &*b.vary_fields), (Duration::from_secs(5), &["x-country".to_owned()][..]));
    assert_eq!(
        (a.stale_while_revalidate, a.stale_if_error),
        (Duration::from_secs(60), Duration::from_secs(86_400))
    );
    assert!(a.key_scheme && !a.key_device);
}

#[test]
fn the_budget_follows_memory() {
    let disk = disk();
    let memory = |memory| {
        let machine = Environment { memory, ..disk.machine() };
        let (plan, _) = load_on(&Source::default(), &machine).unwrap();
        (plan.cache.memory, plan.sites[0].cache.page_bytes)
    };
    assert_eq!(memory(8 << 30), (1 << 30, 4 << 20));
    assert_eq!(memory(64 << 20), (8 << 20, 2 << 20));
    assert_eq!(memory(1 << 20), (1 << 20, 256 << 10));
}

#[test]
fn values_are_what_was_typed() {
    let text = r#"
        [server]
        listen = [":80", "[::1]:8080", "unix:web.sock"]
        trusted_proxies = ["10.0.0.0/8", "unix"]
        [files]
        symlinks = "follow"
        index = "index.html"
        [http]
        body_bytes = 1048576
        keep_alive = 0
        [log]
        access = "/srv/access.log"
        [[site]]
        names = ["Example.com", "*.example.com"]
        root = "../../srv/./app"
        front_controller = "/app.php"
        try_files = false
        headers = { X-A = "1", x-b = " two " }
        redirect.www = "remove"
        [[site]]
        names = ["b.example"]
        default = true
        root = "/srv/drupal"
        body_bytes = "2GB"
    "#;
    let plan = plan(text, &[]);
    assert_eq!(
        plan.server.listen,
        [tcp("[::]:80"), tcp("[::1]:8080"), Address::Unix("/etc/millrace-test/web.sock".into())]
    );
    let proxies = [Peers::In("10.0.0.0/8".parse().unwrap()), Peers::Unix];
    assert_eq!(plan.server.trusted_proxies, NetworkSet::new(&proxies));
    assert_eq!(
        (plan.files.symlinks, plan.files.index.as_slice()),
        (Symlinks::Follow, &["index.html".to_owned()][..])
    );
    assert_eq!((plan.http.body_bytes, plan.http.keep_alive), (1 << 20, Duration::ZERO));
    assert_eq!(plan.log.access.as_deref(), Some(Path::new("/srv/access.log")));
    let [a, b] = plan.sites.as_slice() else { panic!() };
    assert_eq!(a.names, ["example.com", "*.example.com"]);
    assert_eq!(a.root, Path::new("/etc/millrace-test/../../srv/app"));
    assert_eq!((a.default, b.default), (false, true));
    assert_eq!((a.try_files, a.front_controller.as_deref()), (false, Some("/app.php")));
    assert_eq!(a.headers, [("X-A".to_owned(), "1".to_owned()), ("x-b".to_owned(), "two".to_owned())]);
    assert_eq!((a.redirect.www, a.body_bytes), (Www::Remove, 1 << 20));
    assert_eq!((b.profile, b.front_controller.as_deref()), (Profile::Drupal, Some("/index.php")));
    assert_eq!(b.body_bytes, 2 << 30);
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_are_no_problem() {
    let text = "\u{feff}[http]\r\nkeep_alive = \"1s\"\r\n[[site]]\r\nroot = \"/srv/app\"\r\n";
    assert_eq!(plan(text, &[]).http.keep_alive, Duration::from_secs(1));
}

#[test]
fn a_sites_php_is_laid_over_that_of_all() {
    let text = r#"
        [php]
        workers = 6
        max_requests = 5
        [php.ini]
        memory_limit = "128M"
        opcache.enable = true
        opcache.jit_buffer_size = 0
        [[site]]
        names = ["a"]
        root = "/srv/app"
        [site.php]
        workers = 9
        [site.php.ini]
        memory_limit = "1G"
        precision = 17
        [[site]]
        names = ["b"]
        root = "/srv/plain"
        [[site]]
        names = ["c"]
        root = "/srv/plain"
        php.enabled = false
    "#;
    let plan = plan(text, &[]);
    let php = |number: usize| plan.sites[number].php.as_ref();
    let (a, b) = (php(0).unwrap(), php(1).unwrap());
    assert_eq!((a.workers, a.max_requests), (9, 5));
    assert_eq!((b.workers, b.max_requests), (6, 5));
    let ini = |php: &crate::plan::Php| -> Vec<String> {
        php.ini.iter().map(|(name, value)| format!("{name}={value}")).collect()
    };
    // Uploads follow the server's limit, 64 MB.
    let (post, upload) = ("post_max_size=67108864", "upload_max_filesize=67108864");
    assert_eq!(
        ini(a),
        ["memory_limit=1G", "opcache.enable=1", "opcache.jit_buffer_size=0", post, "precision=17", upload]
    );
    assert_eq!(ini(b), ["memory_limit=128M", "opcache.enable=1", "opcache.jit_buffer_size=0", post, upload]);
    assert_eq!(php(2), None);
}

#[test]
fn php_takes_uploads_as_large_as_the_server_does() {
    let ini = |text: &str| plan(&format!("{text}{SITE}"), &[]).sites[0].php.as_ref().unwrap().ini.clone();
    assert_eq!(ini("[http]\nbody_bytes = \"5MB\"\n")["upload_max_filesize"], "5242880");
    assert_eq!(ini("[php.ini]\nupload_max_filesize = \"1M\"\n")["upload_max_filesize"], "1M");
}

#[test]
fn php_fpm_is_named_in_short_or_in_full() {
    let tcp = |text: &str| Backend::Tcp(text.to_owned());
    let unix = |text: &str| Backend::Unix(text.into());
    let backends = |text: &str, set: &[&str]| plan(text, set).sites[0].php.clone().unwrap().fastcgi;
    for (value, expected) in [
        ("\"fastcgi:unix:/run/php.sock\"", vec![unix("/run/php.sock")]),
        ("\"fastcgi:127.0.0.1:9000\"", vec![tcp("127.0.0.1:9000")]),
        ("\"fastcgi:unix:/a.sock, php-fpm:9000\"", vec![unix("/a.sock"), tcp("php-fpm:9000")]),
        (
            "{ fastcgi = [\"unix:a.sock\", \"[::1]:9000\"] }",
            vec![unix("/etc/millrace-test/a.sock"), tcp("[::1]:9000")],
        ),
        ("{ fastcgi = \"off\" }", vec![]),
    ] {
        assert_eq!(backends(&format!("php = {value}\n{SITE}"), &[]), expected, "{value}");
        assert_eq!(backends(&format!("{SITE}php = {value}\n"), &[]), expected, "in a site: {value}");
    }
    for set in ["php=fastcgi:unix:/a.sock", "site.php = fastcgi:unix:/a.sock", "php.fastcgi=unix:/a.sock"] {
        assert_eq!(backends(SITE, &[set]), [unix("/a.sock")], "{set}");
    }
    let text = format!("php = \"fastcgi:unix:/a.sock\"\n{SITE}[site.php]\nfastcgi = \"off\"\nworkers = 3\n");
    assert_eq!(backends(&text, &[]), []);
}

/// Settings that php-fpm ignores, and a different root there, don't add a second set of connections.
#[test]
fn sites_share_the_connections_to_php_fpm() {
    let site = |more: &str| format!("[[site]]\nnames = [\"{}\"]\nroot = \"/srv/plain\"\n{more}", more.len());
    let text = format!(
        "php = \"fastcgi:unix:/a.sock\"\n{}{}",
        site("body_bytes = \"1GB\"\n"),
        site("[site.php]\nini = { precision = 3 }\nfastcgi_root = \"/app\"\n")
    );
    let plan = plan(&text, &[]);
    assert_eq!(plan.sites[0].php, plan.sites[1].php);
    assert_eq!(plan.sites[1].fastcgi_root.as_deref(), Some(Path::new("/app")));
}

#[test]
fn root_may_run_php_as_somebody_else() {
    let text = format!("[php]\nuser = \"www-data\"\ngroup = \"www-data\"\n{SITE}");
    let disk = disk_with(&[("/m.toml", &text)]);
    let machine = Environment { uid: 0, ..disk.machine() };
    let (plan, warnings) =
        load_on(&Source { config: Some("/m.toml".into()), ..Source::default() }, &machine).unwrap();
    let php = plan.sites[0].php.as_ref().unwrap();
    assert_eq!((php.user.as_deref(), php.group.as_deref()), (Some("www-data"), Some("www-data")));
    assert_eq!(warnings, []);
    // An unknown one is only warned of: a directory service may know it.
    let set = ["php.user=nobody-here", "php.group=33"].map(str::to_owned).to_vec();
    let source = Source { config: Some("/m.toml".into()), set, ..Source::default() };
    let (_, warnings) = load_on(&source, &machine).unwrap();
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].title, "/etc/passwd has no user \"nobody-here\"");
    // An ordinary user may name itself.
    assert!(load(&format!("[php]\nuser = \"ann\"\n{SITE}"), &[]).is_ok());
}

#[test]
fn a_worker_script_is_below_the_root_or_elsewhere() {
    let files = [
        ("/srv/plain/worker.php", ""),
        ("/opt/app/serve.php", ""),
        ("/srv/plain/index.html", ""),
        ("/var/tmp/", ""),
    ];
    let disk = FakeDisk::with(&files);
    let of = |script: &str| {
        let set = vec![format!("php.worker_script={script}"), "php.worker_requests=7".to_owned()];
        let source = Source { site_dir: Some("/srv/plain".into()), set, ..Source::default() };
        let (plan, warnings) = load_on(&source, &disk.machine()).unwrap();
        let site = plan.sites[0].clone();
        assert_eq!(site.php.as_ref().unwrap().worker, None, "other scripts run as ever");
        (site.persistent, warnings.len())
    };
    for (script, file, name, warned) in [
        ("/worker.php", "/srv/plain/worker.php", "/worker.php", 0),
        ("/opt/app/serve.php", "/opt/app/serve.php", "/serve.php", 0),
        ("/missing.php", "/srv/plain/missing.php", "/missing.php", 1),
    ] {
        let (persistent, warnings) = of(script);
        let php = persistent.unwrap();
        let worker = php.worker.unwrap();
        assert_eq!((worker.file.as_path(), &worker.name[..], php.max_requests), (Path::new(file), name, 7));
        assert_eq!((worker.root.as_path(), warnings), (Path::new("/srv/plain"), warned));
        let own = php.folders.iter().any(|folder| folder.path == Path::new("/opt/app"));
        assert_eq!(own, script.starts_with("/opt"), "what the sandbox leaves open");
    }
    assert_eq!(of("off").0, None);
}

#[test]
fn applications_are_known_by_their_files() {
    let profile = |files: &[(&str, &str)]| {
        let disk = FakeDisk::with(&[files, &[("/s/", ""), ("/var/tmp/", "")]].concat());
        let source = Source { site_dir: Some("/s".into()), ..Source::default() };
        load_on(&source, &disk.machine()).unwrap().0.sites[0].profile
    };
    assert_eq!(profile(&[("/s/wp-load.php", "")]), Profile::WordPress);
    assert_eq!(profile(&[("/s/wp-includes/version.php", "")]), Profile::WordPress);
    assert_eq!(profile(&[("/s/wp-config.php", "")]), Profile::WordPress);
    assert_eq!(profile(&[("/s/wp-blog-header.php", ""), ("/wp-config.php", "")]), Profile::WordPress);
    assert_eq!(profile(&[("/s/index.php", ""), ("/wp-config.php", "")]), Profile::Generic);
    assert_eq!(profile(&[("/s/core/lib/Drupal.php", "")]), Profile::Drupal);
    let seven = [("/s/includes/bootstrap.inc", ""), ("/s/modules/system/system.module", "")];
    assert_eq!(profile(&seven), Profile::Drupal);
    let backdrop = [("/s/core/includes/bootstrap.inc", ""), ("/s/core/modules/system/system.module", "")];
    assert_eq!(profile(&backdrop), Profile::Drupal);
    assert_eq!(profile(&[("/s/includes/bootstrap.inc", "")]), Profile::Generic);
    assert_eq!(profile(&[("/s/index.php", "")]), Profile::Generic);
    let own_folder = "<?php require __DIR__ . '/wp/wp-blog-header.php';";
    assert_eq!(profile(&[("/s/index.php", own_folder)]), Profile::WordPress);
}

#[test]
fn a_file_in_the_usual_places_is_found() {
    let disk = disk_with(&[
        ("/home/ann/millrace.toml", "[[site]]\nroot = \"/srv/app\"\n"),
        ("/etc/millrace/millrace.toml", "[[site]]\nroot = \"/srv/plain\"\n"),
    ]);
    let root = |source: &Source, dir: &str| {
        let machine = Environment { current_dir: dir.into(), ..disk.machine() };
        load_on(source, &machine).unwrap().0.sites[0].root.clone()
    };
    assert_eq!(root(&Source::default(), "/home/ann"), Path::new("/srv/app"));
    assert_eq!(root(&Source::default(), "/srv"), Path::new("/srv/plain"));
    let folder = Source { site_dir: Some("blog".into()), ..Source::default() };
    assert_eq!(root(&folder, "/srv"), Path::new("/srv/blog"), "a folder is served without any file");
}

#[test]
fn the_example_loads() {
    let text = include_str!("../../examples/millrace.toml");
    let disk = FakeDisk::with(&[
        ("/etc/millrace/millrace.toml", text),
        ("/srv/www/example/wp-load.php", ""),
        ("/srv/www/app/public/index.php", ""),
        ("/srv/www/static/", ""),
        ("/var/log/millrace/", ""),
        ("/var/tmp/", ""),
    ]);
    let machine = Environment { uid: 0, ..disk.machine() };
    let (plan, warnings) = match load_on(&Source::default(), &machine) {
        Ok(loaded) => loaded,
        Err(problems) => panic!("{problems}"),
    };
    assert!(warnings.is_empty(), "{}", crate::Problems(warnings));
    assert_eq!(plan.sites.len(), 3);
    assert_eq!(plan.sites[0].profile, Profile::WordPress);
    assert_eq!(plan.sites[0].php.as_ref().unwrap().ini["memory_limit"], "512M");
}

#[test]
fn blocks_contain_their_addresses() {
    let block = |text: &str| plan(&format!("[shield]\nexempt = \"{text}\"\n{SITE}"), &[]).shield.exempt[0];
    let holds = |text: &str, ip: &str| block(text).contains(ip.parse().unwrap());
    assert!(holds("10.0.0.0/8", "10.255.0.1"));
    assert!(holds("10.0.0.0/8", "::ffff:10.1.2.3"));
    assert!(!holds("10.0.0.0/8", "11.0.0.0"));
    assert!(holds("0.0.0.0/0", "203.0.113.9"));
    assert!(!holds("0.0.0.0/0", "2001:db8::1"));
    assert!(holds("127.0.0.1", "127.0.0.1"));
    assert!(!holds("127.0.0.1", "127.0.0.2"));
    assert!(holds("2001:db8::/32", "2001:db8:1::1"));
    assert!(!holds("2001:db8::/32", "2001:db9::1"));
    assert!(!holds("unix", "127.0.0.1"));
}

#[test]
fn pools_of_php() {
    let text = "[php]\nqueue_timeout = \"7s\"\n[php.pool.admin]\nworkers = 3\nborrow = 0\n[php.pool.api]\npaths = [\"/api\"]\n\
                queue = 5\n[[site]]\nroot = \"/srv/blog\"\nnames = [\"a\"]\n[site.php.pool.api]\nkeep = 1\n\
                [[site]]\nroot = \"/srv/plain\"\nnames = [\"b\"]\n";
    let plan = plan(text, &["php.pool.background.nice=19", "site.php.pool.front.request_timeout=20s"]);
    let pools = |site: usize| &plan.sites[site].php.as_ref().unwrap().pools;
    let names = |site: usize| pools(site).iter().map(|pool| &*pool.name).collect::<Vec<_>>();
    assert_eq!(names(0), ["front", "admin", "background", "api"]);
    assert_eq!(names(1), ["front", "api"], "nothing of it would come to the others");
    let [front, admin, background, api] = &pools(0)[..] else { panic!() };
    assert_eq!((admin.workers, admin.keep, admin.borrow), (Some(3), None, Some(0)));
    assert_eq!((front.nice, admin.nice, background.nice, api.nice), (5, 0, 19, 5));
    assert_eq!((api.queue, api.keep, &*api.paths), (5, Some(1), &["/api".to_owned()][..]));
    assert_eq!(api.queue_timeout, Duration::from_secs(7));
    assert_eq!(front.request_timeout, Duration::from_secs(20));
    assert_eq!((pools(1)[1].queue, pools(1)[1].keep), (5, None));
}

#[test]
fn a_site_chooses_its_php_by_version_or_by_program() {
    const PROGRAM: &str = "/usr/lib/millrace/8.3/millrace-php";
    let chosen = |php: &str, site: &str| {
        let text = format!("[php]\n{php}\n[[site]]\nroot = \"/srv/app\"\n[site.php]\n{site}\n");
        let php = plan(&text, &[]).sites[0].php.clone().unwrap();
        (php.version, php.program.map(|file| file.display().to_string()))
    };
    let version = "version = \"8.2\"";
    let program = format!("program = \"{PROGRAM}\"");
    assert_eq!(chosen("", ""), (None, None));
    assert_eq!(chosen(version, ""), (Some("8.2"), None));
    assert_eq!(chosen(version, "version = \"auto\""), (None, None));
    assert_eq!(chosen(&program, version), (Some("8.2"), None));
    assert_eq!(chosen(version, &program), (None, Some(PROGRAM.into())));
}
