//! What a script sees of its request.

mod driver;

use std::time::Instant;

use driver::{Ask, Host, PATIENCE, Sent, Worker};
use millrace_wire::frames;

const INI: &str = "zend_extension=opcache\nopcache.file_update_protection=0\nvariables_order=GPCS\nrequest_order=GP\nregister_argc_argv=0\n";

fn start(more: &str) -> (Host, Worker) {
    let mut host = Host::start(&format!("{INI}{more}"), &[]);
    let worker = host.worker(0);
    (host, worker)
}

/// Runs a script and gives what it printed.
fn run(host: &Host, worker: &mut Worker, code: &str, change: impl Fn(Ask) -> Ask) -> String {
    // A folder for each: opcache tells versions of one file apart by the second.
    let folder = std::fs::read_dir(&host.root).unwrap().count();
    let script = host.script(&format!("{folder}/page.php"), &format!("<?php {code}"));
    let answer = worker.run(&change(Ask::get(&script)));
    assert!(answer.log.is_empty(), "{code}: {:?}", answer.log);
    answer.text()
}

#[test]
fn server_variables_in_order() {
    let (host, mut worker) = start("");
    let text = run(
        &host,
        &mut worker,
        "foreach ($_SERVER as $k => $v) echo is_array($v) ? '' : \"$k=$v\\n\";",
        |ask| {
            ask.set("PATH_INFO", "/extra")
                .set("HTTP_X_UMLAUT", "\u{e4}\u{f6}")
                .set("HTTP_PROXY", "http://evil/")
                .set("X-LSCACHE", "on")
                .set("EMPTY", "")
        },
    );
    let names: Vec<&str> =
        text.lines().filter_map(|line| line.split_once('=').map(|(name, _)| name)).collect();
    let expected = [
        "USER",
        "HOME",
        "REQUEST_METHOD",
        "SCRIPT_FILENAME",
        "SCRIPT_NAME",
        "REQUEST_URI",
        "QUERY_STRING",
        "DOCUMENT_ROOT",
        "SERVER_NAME",
        "SERVER_PROTOCOL",
        "GATEWAY_INTERFACE",
        "SERVER_SOFTWARE",
        "REMOTE_ADDR",
        "HTTP_HOST",
        "PATH_INFO",
        "HTTP_X_UMLAUT",
        "X-LSCACHE",
        "EMPTY",
        "FCGI_ROLE",
        "PHP_SELF",
        "REQUEST_TIME_FLOAT",
        "REQUEST_TIME",
    ];
    assert_eq!(names, expected, "{text}");
    assert!(
        text.contains("\nPHP_SELF=/page.php/extra\n") && text.contains("\nFCGI_ROLE=RESPONDER\n"),
        "{text}"
    );
    assert!(!text.contains("MILLRACE_TEST") && !text.contains("PROXY"), "{text}");
}

#[test]
fn a_dash_in_a_name_survives() {
    let (host, mut worker) = start("");
    let code = "echo json_encode([$_SERVER['X-LSCACHE'] ?? null, getenv('X-LSCACHE'), isset($_SERVER['X_LSCACHE'])]);";
    let text = run(&host, &mut worker, code, |ask| ask.set("X-LSCACHE", "on,crawler"));
    assert_eq!(text, r#"["on,crawler","on,crawler",false]"#);
}

#[test]
fn environment_as_under_fpm() {
    let (host, mut worker) = start("");
    let text = run(
        &host,
        &mut worker,
        "echo json_encode([getenv('REQUEST_METHOD'), getenv('HTTP_PROXY'), getenv('NONE'), getenv('PATH'),
         isset(getenv()['SCRIPT_NAME']), getenv('HTTP_HOST'), getenv('QUERY_STRING'), $_ENV]);
         putenv('LEFT=over'); putenv('TZ=Asia/Tokyo'); setlocale(LC_ALL, 'C.UTF-8');",
        |ask| ask.set("HTTP_PROXY", "http://evil/"),
    );
    assert_eq!(text, r#"["GET",false,false,false,true,"example.org","",[]]"#);
    let text = run(
        &host,
        &mut worker,
        "echo json_encode([getenv('LEFT'), getenv('TZ'), setlocale(LC_CTYPE, 0)]);",
        |a| a,
    );
    assert!(text.starts_with("[false,false,"), "{text}");
}

#[test]
fn env_superglobal_holds_the_request_too() {
    let (host, mut worker) = start("variables_order=EGPCS\n");
    let code =
        "echo json_encode([$_ENV['REQUEST_METHOD'], $_SERVER['REQUEST_METHOD'], isset($_ENV['HOME'])]);";
    assert_eq!(run(&host, &mut worker, code, |ask| ask), r#"["GET","GET",true]"#);
}

#[test]
fn variables_that_were_given_are_as_php_fpm_has_them() {
    let given = [("MILLRACE_ENV_GIVEN_HOST", "db = 1"), ("MILLRACE_ENV_PATH", "/given/bin")];
    let mut host = Host::with_environment("variables_order=EGPCS\n", &given);
    let mut worker = host.worker(0);
    let code = "putenv('GIVEN_HOST=other'); $_ENV = []; $_SERVER['GIVEN_HOST'] = 'other';";
    run(&host, &mut worker, code, |ask| ask);
    let code = "echo json_encode([getenv('GIVEN_HOST'), $_ENV['GIVEN_HOST'], $_SERVER['GIVEN_HOST'], getenv()['GIVEN_HOST'], getenv('PATH'),
        shell_exec('echo $GIVEN_HOST'), array_values(array_filter(array_keys(getenv() + $_SERVER), fn ($name) => str_contains($name, 'MILLRACE'))),
        str_contains(file_get_contents('/proc/self/environ'), 'db = 1')]);";
    let text = run(&host, &mut worker, code, |ask| ask.set("HTTP_GIVEN_HOST", "forged"));
    assert_eq!(text, r#"["db = 1","db = 1","db = 1","db = 1","\/given\/bin","db = 1\n",[],false]"#);
}

#[test]
fn sessions_have_a_place_of_ours_and_scripts_see_what_the_ini_says() {
    let base = std::env::temp_dir().join(format!("millrace-sessions-test-{}", std::process::id()));
    std::fs::create_dir_all(&base).unwrap();
    let mut host =
        Host::start(&format!("{INI}session.save_path=\"\"\n"), &["--temp-base", base.to_str().unwrap()]);
    let mut worker = host.worker(0);
    let look = "echo json_encode([ini_get('session.save_path'), session_save_path(), ini_get_all('session')['session.save_path']['local_value']]);";
    let count = |code: &str| {
        format!("session_id('abc'); {code} session_start(); echo $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;")
    };
    assert_eq!(run(&host, &mut worker, look, |ask| ask), r#"["","",""]"#);
    assert_eq!(run(&host, &mut worker, &count(""), |ask| ask), "1");
    // What a script sets is followed, and seen, and over with its request.
    let other = base.join("other");
    std::fs::create_dir_all(&other).unwrap();
    let set =
        format!("$was = session_save_path('{0}'); $now = session_save_path() == '{0}';", other.display());
    let code = format!("{} echo ' ', json_encode([$was, $now]);", count(&set));
    assert_eq!(run(&host, &mut worker, &code, |ask| ask), r#"1 ["",true]"#);
    assert_eq!(run(&host, &mut worker, look, |ask| ask), r#"["","",""]"#);
    assert_eq!(run(&host, &mut worker, &count("ini_set('session.save_handler', 'files');"), |ask| ask), "2");
    let back =
        format!("ini_set('session.save_path', '{}'); ini_set('session.save_path', '');", other.display());
    assert_eq!(run(&host, &mut worker, &count(&back), |ask| ask), "3");
    assert_eq!(run(&host, &mut worker, &count("ini_restore('session.save_path');"), |ask| ask), "4");
    let ours: Vec<_> = std::fs::read_dir(&base)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .collect();
    let ours =
        ours.iter().find(|name| name.starts_with("millrace-sessions-")).expect("a folder of the user's");
    assert!(base.join(ours).join("sess_abc").is_file() && other.join("sess_abc").is_file());
    drop(host);
    std::fs::remove_dir_all(&base).unwrap();
}

#[test]
fn the_environment_can_be_kept() {
    let mut host = Host::start(INI, &["--keep-environment"]);
    let mut worker = host.worker(0);
    let text =
        run(&host, &mut worker, "echo getenv('MILLRACE_TEST'), isset($_SERVER['MILLRACE_TEST']);", |ask| ask);
    assert_eq!(text, "inherited1");
}

#[test]
fn query_cookies_and_request() {
    let (host, mut worker) = start("");
    let text = run(&host, &mut worker, "echo json_encode([$_GET, $_COOKIE, $_REQUEST]);", |ask| {
        ask.set("QUERY_STRING", "a=1&b[]=2&b[x]=3&c%20d=%C3%A4").set("HTTP_COOKIE", "s=1; t=a%20b; s=2")
    });
    let expected = r#"[{"a":"1","b":{"0":"2","x":"3"},"c_d":"\u00e4"},{"s":"1","t":"a b"},{"a":"1","b":{"0":"2","x":"3"},"c_d":"\u00e4"}]"#;
    assert_eq!(text, expected);
}

#[test]
fn authorization() {
    let (host, mut worker) = start("");
    let code = "echo json_encode([$_SERVER['PHP_AUTH_USER'] ?? null, $_SERVER['PHP_AUTH_PW'] ?? null,
        $_SERVER['PHP_AUTH_DIGEST'] ?? null, $_SERVER['HTTP_AUTHORIZATION'] ?? null]);";
    let text = run(&host, &mut worker, code, |ask| ask.set("HTTP_AUTHORIZATION", "Basic dXNlcjpwYTpzcw=="));
    assert_eq!(text, r#"["user","pa:ss",null,"Basic dXNlcjpwYTpzcw=="]"#);
    // Nothing of it may be left for the next request.
    assert_eq!(run(&host, &mut worker, code, |ask| ask), "[null,null,null,null]");
    let text = run(&host, &mut worker, code, |ask| ask.set("HTTP_AUTHORIZATION", "Digest username=\"u\""));
    assert_eq!(text, r#"[null,null,"username=\"u\"","Digest username=\"u\""]"#);
    let text = run(&host, &mut worker, code, |ask| ask.set("HTTP_AUTHORIZATION", "Bearer token"));
    assert_eq!(text, r#"[null,null,null,"Bearer token"]"#);
}

#[test]
fn request_headers() {
    let (host, mut worker) = start("");
    let code = "echo json_encode([getallheaders(), getallheaders() == apache_request_headers()]);";
    let text = run(&host, &mut worker, code, |ask| {
        ask.set("HTTP_X_FORWARDED_FOR", "192.0.2.9")
            .set("CONTENT_TYPE", "text/plain")
            .set("CONTENT_LENGTH", "")
    });
    let expected = r#"[{"Host":"example.org","X-Forwarded-For":"192.0.2.9","Content-Type":"text\/plain","Content-Length":""},true]"#;
    assert_eq!(text, expected);
}

#[test]
fn input_filter_and_arguments() {
    let (host, mut worker) = start("register_argc_argv=1\n");
    let code = "echo json_encode([filter_input(INPUT_SERVER, 'REQUEST_METHOD'), filter_input(INPUT_GET, 'n', FILTER_VALIDATE_INT),
        $_SERVER['argc'], $_SERVER['argv'], isset($argv)]);";
    let text = run(&host, &mut worker, code, |ask| ask.set("QUERY_STRING", "n=5+x"));
    assert_eq!(text, r#"["GET",false,2,["n=5","x"],false]"#);
}

#[test]
fn path_info_and_php_self() {
    let code = "echo json_encode([$_SERVER['PHP_SELF'], $_SERVER['PATH_INFO'] ?? null]);";
    let (host, mut worker) = start("");
    assert_eq!(run(&host, &mut worker, code, |ask| ask), r#"["\/page.php",null]"#);
    assert_eq!(
        run(&host, &mut worker, code, |ask| ask.set("PATH_INFO", "/a b")),
        r#"["\/page.php\/a b","\/a b"]"#
    );
    let (host, mut worker) = start("cgi.fix_pathinfo=0\n");
    assert_eq!(run(&host, &mut worker, code, |ask| ask.set("PATH_INFO", "/x")), r#"["\/x","\/x"]"#);
}

#[test]
fn bodies_inline_and_by_descriptor() {
    let (host, mut worker) = start("");
    let script = host.script(
        "body.php",
        "<?php echo json_encode([$_POST, strlen(file_get_contents('php://input')), md5(file_get_contents('php://input'))]);",
    );
    let form = "application/x-www-form-urlencoded";
    for by_descriptor in [false, true] {
        let mut ask = Ask::post(&script, form, b"a=1&b=%C3%A4");
        ask.by_descriptor = by_descriptor;
        let expected = format!(r#"[{{"a":"1","b":"\u00e4"}},12,"{}"]"#, md5(b"a=1&b=%C3%A4"));
        assert_eq!(worker.run(&ask).text(), expected);
    }
    let large: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    let answer = worker.run(&Ask::post(&script, "application/octet-stream", &large));
    assert_eq!(answer.text(), format!(r#"[[],3000000,"{}"]"#, md5(&large)));
    // A body with PUT is for php://input alone.
    let answer = worker.run(&Ask::post(&script, form, b"a=1").set("REQUEST_METHOD", "PUT"));
    assert_eq!(answer.text(), format!(r#"[[],3,"{}"]"#, md5(b"a=1")));
    // The next request must see nothing of it.
    assert_eq!(worker.run(&Ask::get(&script)).text(), r#"[[],0,"d41d8cd98f00b204e9800998ecf8427e"]"#);
    // A script that does not read its body.
    let silent = host.script("silent.php", "<?php echo 'ok';");
    assert_eq!(worker.run(&Ask::post(&silent, "application/octet-stream", &large)).text(), "ok");
    // Descriptors of bodies are closed.
    let mut open = || {
        for _ in 0..5 {
            worker.run(&Ask::post(&silent, "application/octet-stream", &large));
        }
        worker.run(&Ask::get(&silent));
        std::fs::read_dir(format!("/proc/{}/fd", worker.pid)).unwrap().count()
    };
    assert_eq!(open(), open());
}

/// MD5 in hexadecimal digits, by coreutils.
fn md5(bytes: &[u8]) -> String {
    use std::io::Write;
    let mut child = std::process::Command::new("md5sum")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()[..32].to_owned()
}

#[test]
fn uploads() {
    let (host, mut worker) = start("file_uploads=1\nupload_max_filesize=1M\npost_max_size=8M\n");
    let script = host.script(
        "upload.php",
        r#"<?php $f = $_FILES['file']; $o = ['name' => $f['name'], 'full' => $f['full_path'] ?? '', 'type' => $f['type'], 'size' => $f['size'],
        'error' => $f['error'], 'is' => is_uploaded_file($f['tmp_name']), 'field' => $_POST['field'] ?? null];
        if ($f['error'] == 0) { move_uploaded_file($f['tmp_name'], __DIR__ . '/moved'); $o['same'] = filesize(__DIR__ . '/moved'); }
        $GLOBALS['tmp'] = $f['tmp_name']; echo json_encode($o), file_exists($f['tmp_name']) ? 'left' : '';"#,
    );
    let part = |content: &[u8]| {
        let mut body = b"--B\r\nContent-Disposition: form-data; name=\"field\"\r\n\r\nvalue\r\n--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"d/a.txt\"\r\nContent-Type: text/plain\r\n\r\n".to_vec();
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n--B--\r\n");
        body
    };
    let kind = "multipart/form-data; boundary=B";
    for size in [10, 700_000] {
        let answer = worker.run(&Ask::post(&script, kind, &part(&vec![b'x'; size])));
        let expected = format!(
            r#"{{"name":"a.txt","full":"d\/a.txt","type":"text\/plain","size":{size},"error":0,"is":true,"field":"value","same":{size}}}"#
        );
        assert_eq!(answer.text(), expected, "{:?}", answer.log);
    }
    let answer = worker.run(&Ask::post(&script, kind, &part(&vec![b'x'; 2 << 20])));
    assert!(answer.text().contains(r#""size":0,"error":1,"#), "{}", answer.text());
}

#[test]
fn a_body_over_post_max_size() {
    let (host, mut worker) = start("post_max_size=1K\n");
    let script = host
        .script("post.php", "<?php echo json_encode([$_POST, strlen(file_get_contents('php://input'))]);");
    let body = [b"a=".as_slice(), &[b'x'; 3000]].concat();
    let answer = worker.run(&Ask::post(&script, "application/x-www-form-urlencoded", &body));
    assert!(
        answer.log[0].contains("POST Content-Length of 3002 bytes exceeds the limit of 1024 bytes"),
        "{answer:?}"
    );
    assert!(answer.text().starts_with("[[],"), "{}", answer.text());
    let answer = worker.run(&Ask::post(&script, "application/x-www-form-urlencoded", b"a=1"));
    assert_eq!(answer.text(), r#"[{"a":"1"},3]"#);
}

#[test]
fn scripts_that_cannot_run() {
    let (host, mut worker) = start("");
    let script = host.script("there.php", "<?php echo 'here';");
    let missing = Ask::get(&host.root.join("missing.php"));
    let answer = worker.run(&missing);
    assert_eq!((answer.status, &answer.text()[..]), (404, "File not found.\n"));
    assert!(answer.log[0].starts_with("Primary script unknown: /") && answer.end.ready, "{:?}", answer.log);
    std::fs::create_dir(host.root.join("dir.php")).unwrap();
    assert_eq!(worker.run(&Ask::get(&host.root.join("dir.php"))).status, 404);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        host.root.join("fifo.php"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    assert_eq!(worker.run(&Ask::get(&host.root.join("fifo.php"))).status, 404);
    let dots = format!("{}/x/../there.php", host.root.display());
    assert_eq!(worker.run(&missing.clone().set("SCRIPT_FILENAME", &dots)).status, 404);
    let mut none = missing.clone();
    none.variables.retain(|(name, _)| name != "SCRIPT_FILENAME");
    assert_eq!(worker.run(&none).status, 404);
    let ask = Ask::get(&script);
    for _ in 0..3 {
        assert_eq!(worker.run(&ask).text(), "here");
    }
    std::fs::remove_file(&script).unwrap();
    assert_eq!(worker.run(&ask).status, 404, "deleted while it is cached");
}

#[test]
fn an_unreadable_script_is_forbidden() {
    if !rustix::process::geteuid().is_root() {
        return; // only a host that changed its user cannot read what its test has written
    }
    let mut host = Host::start(INI, &["--user", "nobody"]);
    let mut worker = host.worker(0);
    let script = host.script("secret.php", "<?php echo 'secret';");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let answer = worker.run(&Ask::get(&script));
    assert_eq!((answer.status, &answer.text()[..]), (403, "Access denied.\n"), "{:?}", answer.log);
    // As a folder that is its owner's alone: php-fpm would say "File not found."
    std::fs::create_dir(host.root.join("own")).unwrap();
    let script = host.script("own/x.php", "<?php echo 'secret';");
    std::fs::set_permissions(host.root.join("own"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .unwrap();
    let answer = worker.run(&Ask::get(&script));
    assert_eq!((answer.status, &answer.text()[..]), (403, "Access denied.\n"));
    assert!(
        answer.log[0].contains("own/x.php (Permission denied). PHP runs as user nobody, which needs"),
        "{:?}",
        answer.log
    );
}

#[test]
fn changed_scripts_are_seen() {
    let (host, mut worker) = start("opcache.revalidate_freq=0\n");
    for (at, text) in ["one", "other", "third"].into_iter().enumerate() {
        let script = host.script("changing.php", &format!("<?php echo '{text}';"));
        // mtime has whole seconds in opcache: give each version its own.
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(100 * (at as u64 + 1));
        std::fs::File::options().write(true).open(&script).unwrap().set_modified(time).unwrap();
        assert_eq!(worker.run(&Ask::get(&script)).text(), text);
    }
}

#[test]
fn user_ini_files() {
    let (host, mut worker) = start("user_ini.filename=.user.ini\nuser_ini.cache_ttl=0\n");
    host.script(".user.ini", "memory_limit=77M\nupload_max_filesize=3M\nallow_url_fopen=0\n");
    host.script("sub/.user.ini", "memory_limit=99M\n");
    let code = "<?php echo ini_get('memory_limit'), ' ', ini_get('upload_max_filesize'), ' ', ini_get('allow_url_fopen');";
    let root = host.root.to_str().unwrap().to_owned();
    let top = host.script("a.php", code);
    let sub = host.script("sub/b.php", code);
    let other = host.script("c.php", code);
    let ask = |script: &std::path::Path| Ask::get(script).set("DOCUMENT_ROOT", &root);
    assert_eq!(worker.run(&ask(&top)).text(), "77M 3M 1");
    assert_eq!(worker.run(&ask(&sub)).text(), "99M 3M 1");
    assert_eq!(worker.run(&ask(&other)).text(), "77M 3M 1");
    std::fs::remove_file(host.root.join(".user.ini")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(worker.run(&ask(&top)).text(), "128M 2M 1");
}

#[test]
fn working_directory_is_the_scripts() {
    let (host, mut worker) = start("");
    let script = host.script(
        "sub/cwd.php",
        "<?php echo getcwd(); register_shutdown_function(function () { echo '|', getcwd(); }); chdir('/usr');",
    );
    for _ in 0..2 {
        assert_eq!(worker.run(&Ask::get(&script)).text(), format!("{}/sub|/", host.root.display()));
    }
}

/// While opcache waits with its restart for a long request, the others are served, for as long as that takes: PHP's own limit ends every later
/// request with "Cannot kill process" in the sandbox, and kills the long one's worker outside of it.
/// What opcache wants, in JSON.
const OPCACHE: &str = "$s = opcache_get_status(false); echo ini_get('opcache.force_restart_timeout'), json_encode([$s['restart_pending'],
    $s['opcache_statistics']['manual_restarts'] + $s['opcache_statistics']['oom_restarts'] + $s['opcache_statistics']['hash_restarts']]);";

/// opcache never empties the memory that scripts use: the server learns that it wants to, and another host takes over.
#[test]
fn opcache_does_not_restart_in_place() {
    let ask = |host: &Host, name: &str, code: &str| Ask::get(&host.script(name, &format!("<?php {code}")));
    let mut host = Host::start(INI, &["--sandbox", "--folder", "/tmp"]);
    let (mut long, mut other) = (host.worker(0), host.worker(1));
    let go = host.root.join("go");
    let wait = format!(
        "error_log('begun'); while (!file_exists('{}')) {{ usleep(5000); clearstatcache(); }} echo 'long';",
        go.display()
    );
    long.send(&ask(&host, "long.php", &wait));
    assert_eq!(long.next(), Sent::Log("begun".into()));
    assert_eq!(host.head(frames::SCOREBOARD_RESTART), 0);
    assert_eq!(other.run(&ask(&host, "reset.php", "var_dump(opcache_reset());")).text(), "bool(true)\n");
    let pending = ask(&host, "pending.php", OPCACHE);
    let begin = Instant::now();
    while host.head(frames::SCOREBOARD_RESTART) != frames::RESTART_RESET {
        let answer = other.run(&pending);
        assert_eq!((answer.status, answer.text().as_str()), (200, "0[true,0]"));
        assert!(begin.elapsed() < PATIENCE, "the server does not learn of it");
    }
    std::fs::write(go, "").unwrap();
    assert_eq!(long.answer().text(), "long");
    // Nobody uses the memory now but the host.
    assert_eq!(other.run(&pending).text(), "0[true,0]");
}

/// As elsewhere, where the worker can't ask opcache, or where an ini file says how long a restart may be pending.
#[test]
fn opcache_restarts_in_place_where_nobody_would_know() {
    for setting in ["opcache.force_restart_timeout=77\n", "opcache.restrict_api=/may-ask\n"] {
        let mut host = Host::start(&format!("{INI}{setting}"), &[]);
        let mut worker = host.worker(0);
        let reset = "if (ini_get('opcache.restrict_api')) { echo 'may not'; return; } opcache_reset();";
        let reset = Ask::get(&host.script("reset.php", &format!("<?php {reset}")));
        worker.run(&reset);
        let seen = worker.run(&Ask::get(&host.script("seen.php", &format!("<?php {OPCACHE}"))));
        if setting.contains("timeout") {
            assert_eq!(seen.text(), "77[false,1]");
        }
        assert_eq!(host.head(frames::SCOREBOARD_RESTART), 0);
    }
}

#[test]
fn the_server_learns_why_opcache_is_full() {
    let mut host = Host::start(
        &format!(
            "{INI}opcache.memory_consumption=8\nopcache.interned_strings_buffer=1\nopcache.max_wasted_percentage=1\nopcache.revalidate_freq=0\nopcache.file_update_protection=0\n"
        ),
        &[],
    );
    let mut worker = host.worker(0);
    let big = "<?php return [".to_owned() + &"'a' . __LINE__ => [1, 2, 3], ".repeat(4000) + "];";
    let wastes = format!(
        "<?php file_put_contents(__DIR__ . '/big.php', {big:?}); touch(__DIR__ . '/big.php', $_SERVER['REQUEST_TIME'] - 9 - (int) $_GET['n']); \
         opcache_invalidate(__DIR__ . '/big.php', true); echo count(include __DIR__ . '/big.php') > 0 ? 'ran' : '';"
    );
    let wastes = host.script("wastes.php", &wastes);
    let begin = Instant::now();
    let mut n = 0;
    while host.head(frames::SCOREBOARD_RESTART) == 0 {
        n += 1;
        let ask = Ask::get(&wastes).set("QUERY_STRING", &format!("n={n}"));
        assert_eq!(worker.run(&ask).text(), "ran");
        assert!(begin.elapsed() < PATIENCE, "opcache is not full");
    }
    assert_eq!(host.head(frames::SCOREBOARD_RESTART), frames::RESTART_MEMORY);
}

/// A form that needs more memory than a script may use ends as a fatal error, with PHP's message, and not with the worker.
#[test]
fn a_form_larger_than_memory_limit_costs_no_worker() {
    let (host, mut worker) = start("post_max_size=100M\nmemory_limit=32M\ndisplay_errors=0\n");
    let script = host.script(
        "form.php",
        "<?php echo strlen($_POST['a'] ?? ''), ' ', strlen(file_get_contents('php://input'));",
    );
    let small = Ask::get(&script).set("REQUEST_METHOD", "POST");
    let multipart = "--l\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
    for (kind, before) in
        [("application/x-www-form-urlencoded", "a="), ("multipart/form-data; boundary=l", multipart)]
    {
        let mut large = small.clone().set("CONTENT_TYPE", kind);
        large.body = [before.as_bytes(), &vec![b'x'; 60 << 20], b"\r\n--l--\r\n"].concat();
        large.by_descriptor = true;
        for _ in 0..2 {
            let answer = worker.run(&large);
            assert_eq!((answer.status, answer.text().as_str()), (500, ""), "{kind}: {:?}", answer.log);
            assert!(answer.log.join("\n").contains("Allowed memory size"), "{kind}: {:?}", answer.log);
            assert!(answer.end.ready && answer.end.failed && !answer.end.exiting, "{kind}: {:?}", answer.end);
            let mut next = small.clone().set("CONTENT_TYPE", "application/x-www-form-urlencoded");
            next.body = b"a=12".to_vec();
            assert_eq!(worker.run(&next).text(), "2 4");
        }
    }
}

/// What scripts write to `php://stdout` and `php://stderr` goes to the host's, which the server logs.
#[test]
fn standard_output_is_the_hosts() {
    let (host, mut worker) = start("");
    let code = "$ends = []; foreach (['stdout', 'stderr'] as $name) { $f = fopen(\"php://$name\", 'w'); \
        $ends[] = fstat($f)['ino'] === stat('/proc/' . getppid_of() . \"/fd/\" . ($name === 'stdout' ? 1 : 2))['ino']; } echo json_encode($ends); \
        function getppid_of() { return explode(' ', file_get_contents('/proc/self/stat'))[3]; }";
    assert_eq!(run(&host, &mut worker, code, |ask| ask), "[true,true]");
}
