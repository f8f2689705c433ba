//! Options, ini files, users, and what the host says when it starts.

mod driver;

use std::process::{Command, Output};

use driver::{Ask, Host};

fn run(words: &[&str]) -> Output {
    Command::new(driver::program()).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn check_says_what_it_finds() {
    let output = run(&["--check"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let protocol = format!("protocol={}", millrace_wire::frames::PROTOCOL);
    for line in [&protocol[..], "php_version=8.", "sapi=fpm-fcgi", "opcache=on", "ini_file=/etc/php"] {
        assert!(said.lines().any(|said| said.starts_with(line)), "{line} in {said}");
    }
    let extensions = said.lines().find_map(|line| line.strip_prefix("extensions=")).unwrap();
    for name in ["standard", "session", "cgi-fcgi"] {
        assert!(extensions.split(',').any(|known| known == name), "{extensions}");
    }
}

#[test]
fn wrong_use_is_explained() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("millrace serve"), "{output:?}");
    for words in [&["--nonsense"][..], &["--max-requests", "many"], &["--grace-seconds", "-1"], &["word"]] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains("--ini-file FILE"), "{words:?}");
    }
    assert!(text(&run(&["--version"]).stdout).starts_with("millrace-php 0."));
    assert!(text(&run(&["--help"]).stdout).contains("--max-requests N"));
}

#[test]
fn no_opcache_is_said_with_its_reason() {
    let host = Host::start("", &[]);
    assert_eq!(host.says("opcache"), Some("off"));
    assert!(host.says("opcache_reason").unwrap().contains("not loaded"), "{:?}", host.ready);
    let host = Host::start("zend_extension=opcache\nopcache.enable=0\n", &[]);
    assert_eq!(host.says("opcache_reason"), Some("opcache.enable is 0"));
    // A wish that cannot be granted: opcache is loaded, and does not work.
    let host = Host::try_start("zend_extension=opcache\nopcache.memory_consumption=100000000\n", &[]);
    if let Ok(host) = &host {
        assert_eq!(host.says("opcache"), Some("off"), "{:?}", host.ready);
    }
    let host = Host::start("zend_extension=opcache\nopcache.restrict_api=/somewhere\n", &[]);
    assert_eq!(host.says("opcache"), Some("on"), "{:?}", host.ready);
}

#[test]
fn ini_file_and_values_on_top() {
    let mut host = Host::start(
        "extension=ctype\nmemory_limit=70M\nupload_max_filesize=3M\n",
        &[
            "-d",
            "memory_limit=90M",
            "-d",
            "user_agent=My Agent/1 (x; y)",
            "-d",
            "short_open_tag",
            "-d",
            "error_reporting=E_ALL & ~E_NOTICE",
            "-d",
            "error_prepend_string=a \"b\" c\\d",
            "-d",
            "extension=tokenizer",
        ],
    );
    assert!(host.says("ini_file").unwrap().ends_with("/php.ini"));
    let mut worker = host.worker(0);
    let script = host.script(
        "ini.php",
        "<?php echo json_encode([ini_get('memory_limit'), ini_get('upload_max_filesize'), ini_get('user_agent'), ini_get('short_open_tag'),
         extension_loaded('ctype'), extension_loaded('tokenizer'), extension_loaded('mysqli'), php_ini_scanned_files(), ini_get('display_errors'), ini_get('log_errors'),
         ini_get('html_errors'), PHP_SAPI, php_sapi_name(), error_reporting() == (E_ALL & ~E_NOTICE), ini_get('error_prepend_string')]);",
    );
    let expected = r#"["90M","3M","My Agent\/1 (x; y)","1",true,true,false,false,"0","1","1","fpm-fcgi","fpm-fcgi",true,"a \"b\" c\\d"]"#;
    assert_eq!(worker.run(&Ask::get(&script)).text(), expected);
}

#[test]
fn the_distributions_files_are_the_default() {
    let mut host = Host::with_distribution(&[]);
    let mut worker = host.worker(0);
    let script = host.script(
        "ini.php",
        "<?php echo json_encode([opcache_get_status(false)['opcache_enabled'], ini_get('opcache.interned_strings_buffer') >= 8,
         extension_loaded('mysqli'), extension_loaded('curl'), ini_get('cgi.fix_pathinfo'), extension_loaded('cgi-fcgi')]);",
    );
    assert_eq!(worker.run(&Ask::get(&script)).text(), r#"[true,true,true,true,"1",true]"#);
}

#[test]
fn functions_are_those_of_fpm() {
    let mut host = Host::with_distribution(&[]);
    let extensions = host.says("extensions").unwrap().to_owned();
    assert!(!extensions.split(',').any(|name| name == "pcntl"), "{extensions}");
    let mut worker = host.worker(0);
    let script = host.script(
        "functions.php",
        "<?php foreach (['fastcgi_finish_request', 'apache_request_headers', 'getallheaders', 'fpm_get_status', 'pcntl_fork', 'chroot', 'dl'] as $f)
           echo (int)function_exists($f);
         echo (int)extension_loaded('pcntl'), (int)defined('WNOHANG'), (int)defined('STDIN'), (int)defined('E_ALL'), strlen(phpinfo_text()) > 9999 ? 'info' : '';
         function phpinfo_text() { ob_start(); phpinfo(); return ob_get_clean(); }",
    );
    for _ in 0..2 {
        assert_eq!(worker.run(&Ask::get(&script)).text(), "11110000001info");
    }
}

#[test]
fn preloading_works() {
    let folder = std::env::temp_dir().join(format!("millrace-preload-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("preload.php");
    std::fs::write(&file, "<?php class Preloaded { const A = 'there'; } mt_rand();").unwrap();
    let user = std::env::var("USER").unwrap_or_else(|_| "root".into());
    let ini =
        format!("zend_extension=opcache\nopcache.preload={}\nopcache.preload_user={user}\n", file.display());
    let mut host = Host::start(&ini, &[]);
    assert_eq!(host.says("opcache"), Some("on"), "{:?}", host.log);
    let mut worker = host.worker(0);
    let script = host.script("p.php", "<?php echo Preloaded::A;");
    for _ in 0..2 {
        assert_eq!(worker.run(&Ask::get(&script)).text(), "there");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn messages_of_the_start_are_told() {
    let host = Host::start("extension=no_such_extension\n", &[]);
    assert!(
        host.log.iter().any(|text| text.contains("Unable to load dynamic library 'no_such_extension'")),
        "{:?}",
        host.log
    );
    let missing = Host::try_start("", &["--ini-file", "/no/such.ini"]).err().unwrap();
    assert!(missing.contains("cannot read the ini file /no/such.ini"), "{missing}");
}

#[test]
fn the_user_is_switched_for_good() {
    let unknown = Host::try_start("", &["--user", "no-such-user"]).err().unwrap();
    assert!(unknown.contains("there is no user \"no-such-user\""), "{unknown}");
    if !rustix::process::geteuid().is_root() {
        return; // only root may switch
    }
    let mut host = Host::start("", &["--user", "www-data", "--group", "nogroup", "--no-new-privileges"]);
    let mut worker = host.worker(0);
    let script = host.script(
        "who.php",
        "<?php preg_match_all('/^(Uid|Gid|Groups|NoNewPrivs):\\s*(.*)$/m', file_get_contents('/proc/self/status'), $m);
         echo json_encode([$m[2], getenv('USER'), getenv('HOME'), $_SERVER['USER']]);",
    );
    let id = |word: &str| {
        text(&Command::new("id").args([word, "www-data"]).output().unwrap().stdout).trim().to_owned()
    };
    let uid = id("-u");
    let gid = text(&Command::new("getent").args(["group", "nogroup"]).output().unwrap().stdout);
    let gid = gid.split(':').nth(2).unwrap();
    let answer = worker.run(&Ask::get(&script)).text();
    let four = |id: &str| [id; 4].join(r"\t");
    assert!(answer.starts_with(&format!(r#"[["{}","{}","#, four(&uid), four(gid))), "{answer}");
    assert!(answer.contains(r#""1"],"www-data","\/var\/www","www-data"]"#), "{answer}");
}

#[test]
fn workers_hold_only_what_they_need() {
    let mut host = Host::start("zend_extension=opcache\n", &[]);
    let first = host.worker(0);
    let mut second = host.worker(1);
    let script = host.script(
        "fd.php",
        "<?php foreach (scandir('/proc/self/fd') as $fd) if ($fd[0] != '.') $l[$fd] = @readlink(\"/proc/self/fd/$fd\"); echo implode(\"\\n\", array_filter($l));",
    );
    let said = second.run(&Ask::get(&script)).text();
    let sockets = said.lines().filter(|line| line.starts_with("socket:")).count();
    assert_eq!(sockets, 1, "its own socket and no other: {said}");
    assert!(!said.contains("scoreboard") && !said.contains("signalfd"), "{said}");
    drop(first);
}
