//! Fields of the request: while a script makes a page for all, each read of one is said, with the place that reads it.

mod driver;

use driver::generated::{self, Random};
use driver::{Ask, Host, Worker};
use millrace_wire::frames::NoteKind;

const INI: &str = "zend_extension=opcache\nrequest_order=GPC\n";

/// A request with a secret in each field that a client can send.
fn asked(script: &std::path::Path, secret: &str) -> Ask {
    Ask::get(script)
        .set("MILLRACE_COOKIES", "")
        .set("HTTP_USER_AGENT", &format!("{secret}-agent iPhone Safari Mobile"))
        .set("HTTP_X_CUR", secret)
        .set("HTTP_ACCEPT_LANGUAGE", &format!("{secret}-language"))
        .set("REMOTE_ADDR", "192.0.2.77")
        .set("SERVER_PROTOCOL", "HTTP/1.1")
}

/// Names of what a run has read, and its output.
fn run(worker: &mut Worker, ask: &Ask) -> (String, String) {
    let answer = worker.run(ask);
    let notes = answer.notes.iter().filter(|(kind, _)| *kind == NoteKind::Fields);
    let names: Vec<&str> = notes.map(|(_, note)| note.split_once(' ').unwrap().0).collect();
    (names.join(" "), answer.text())
}

#[test]
fn what_is_read_is_said() {
    let mut host = Host::start(INI, &[]);
    let mut worker = host.worker(0);
    for (at, (code, read)) in [
        ("echo 1;", ""),
        ("echo $_SERVER['HTTP_USER_AGENT'];", "HTTP_USER_AGENT"),
        ("echo isset($_SERVER['HTTP_DNT']) ? 1 : 0;", "HTTP_DNT"),
        ("echo $_SERVER['HTTP_X_CUR'], $_SERVER['HTTP_X_CUR'], $_ENV['HTTP_DNT'] ?? '';", "HTTP_X_CUR HTTP_DNT"),
        ("echo $_SERVER['REMOTE_ADDR'], $_SERVER['SERVER_PROTOCOL'];", "REMOTE_ADDR SERVER_PROTOCOL"),
        ("echo getenv('HTTP_USER_AGENT'), getenv('PATH'), getenv('APP_ENV');", "HTTP_USER_AGENT"),
        ("echo filter_input(INPUT_SERVER, 'HTTP_X_CUR'), filter_input(INPUT_GET, 'HTTP_DNT');", "HTTP_X_CUR"),
        ("echo count(getallheaders());", "*"),
        ("foreach ($_SERVER as $name => $value) { echo $name; }", "*"),
        ("echo count($GLOBALS);", "*"),
        ("echo count(get_defined_vars());", "*"),
        // The server's own, and what PHP is asked for on each page.
        ("echo $_SERVER['REQUEST_METHOD'], $_SERVER['REQUEST_URI'], $_SERVER['HTTP_HOST'], $_SERVER['REQUEST_TIME'], $_GET['x'] ?? '';", ""),
        ("echo $_SERVER['no such'] ?? '', $_SERVER['http_dnt'] ?? '', $_SERVER['APP'] ?? '';", ""),
        ("$_SERVER['HTTP_X_OWN'] = 1; unset($_SERVER['HTTP_DNT']); echo 1;", ""),
        ("echo 1; fastcgi_finish_request(); echo $_SERVER['HTTP_DNT'] ?? '';", ""),
        // Cookies are another matter.
        ("echo $_COOKIE['a'] ?? '', count($_COOKIE), $_SERVER['HTTP_COOKIE'] ?? '';", ""),
        // WordPress's variables about the browser.
        ("$is_iphone = 1; function f() { global $is_iphone; return $is_iphone; } echo f();", ":browser"),
        ("function f() { global $is_apache, $pagenow; return 1; } echo f();", ""),
        ("function f() { return $GLOBALS['is_chrome'] ?? 0; } echo f();", ":browser"),
        ("function f() { $is_chrome = 1; return $is_chrome; } echo f();", ""),
        ("echo $is_gecko ?? 0;", ":browser"),
        ("echo eval('return $is_IE ?? 0;');", ":ie"),
        ("function f() { global $is_IE, $is_winIE; return $is_IE; } echo f();", ":ie"),
        ("function f() { return ($GLOBALS['is_macIE'] ?? 0) || ($GLOBALS['is_opera'] ?? 0); } echo f();", ":ie :browser"),
        ("echo (function () { return eval('return $is_IE ?? 0;'); })();", ""),
        ("echo (fn () => $is_edge ?? 0)();", ":browser"),
    ]
    .into_iter()
    .enumerate()
    {
        let script = host.script(&format!("said{at}.php"), &format!("<?php {code}"));
        for _ in 0..2 {
            // From opcache, too.
            assert_eq!(run(&mut worker, &asked(&script, "S3CRET")).0, read, "{code}");
        }
        // A response that is a visitor's own.
        let answer = worker.run(&Ask::get(&script).set("HTTP_USER_AGENT", "a"));
        assert!(answer.notes.iter().all(|(kind, _)| *kind != NoteKind::Fields), "{code}");
    }
}

/// WooCommerce's look at the Referer is left out for the sake of its text, not of its name.
#[test]
fn a_look_at_the_referer_counts_whatever_it_is_called() {
    let mut host = Host::start(INI, &[]);
    let mut worker = host.worker(0);
    host.script(
        "wp-includes/functions.php",
        "<?php
        function wp_get_raw_referer() { return $_SERVER['HTTP_REFERER'] ?? ''; }
        function wp_get_referer() { return wp_validate_redirect(wp_get_raw_referer()); }
        function wp_validate_redirect($url) { return wp_sanitize_redirect($url); }
        function wp_sanitize_redirect($url) { return $url; }
        $wp_filter = [];",
    );
    host.script(
        "wp-content/plugins/woocommerce/task.php",
        r"<?php
        namespace Automattic\WooCommerce\Admin\Features\OnboardingTasks\Tasks;
        class LaunchYourStore {
            public function possibly_hide_wp_admin_bar($show) { return wp_get_referer() . $show; }
        }",
    );
    let script = host.script(
        "referer.php",
        r"<?php require 'wp-includes/functions.php'; require 'wp-content/plugins/woocommerce/task.php';
        echo (new Automattic\WooCommerce\Admin\Features\OnboardingTasks\Tasks\LaunchYourStore)->possibly_hide_wp_admin_bar('no');",
    );
    let ask = asked(&script, "S3CRET").set("HTTP_REFERER", "http://x.test/");
    assert_eq!(run(&mut worker, &ask), ("HTTP_REFERER".into(), "http://x.test/no".into()));
}

/// A plugin is known by the texts of its functions, not by its folder and names.
#[test]
fn a_look_of_a_known_plugin_counts_if_its_text_is_another() {
    let mut host = Host::start(INI, &[]);
    let mut worker = host.worker(0);
    host.script(
        "wp-content/plugins/litespeed-cache/src/media.cls.php",
        r"<?php
        namespace LiteSpeed;
        class Media {
            public function webp_support() { return strpos($_SERVER['HTTP_ACCEPT'] ?? '', 'image/webp') !== false ? 'webp' : 'jpg'; }
        }
        class Debug2 {
            public $agent;
            public function __construct() { $this->agent = $_SERVER['HTTP_USER_AGENT'] ?? ''; }
        }",
    );
    let script = host.script(
        "images.php",
        r"<?php require 'wp-content/plugins/litespeed-cache/src/media.cls.php';
        $wp_filter = [];
        echo (new LiteSpeed\Media)->webp_support(), (new LiteSpeed\Debug2)->agent;",
    );
    let ask = asked(&script, "S3CRET").set("HTTP_ACCEPT", "image/webp").set("HTTP_USER_AGENT", "me");
    assert_eq!(run(&mut worker, &ask), ("HTTP_ACCEPT HTTP_USER_AGENT".into(), "webpme".into()));
}

#[test]
fn the_place_is_said() {
    let mut host = Host::start(INI, &[]);
    let mut worker = host.worker(0);
    let part =
        host.script("a plugin.php", "<?php\n\nfunction looks() { return $_SERVER['HTTP_USER_AGENT']; }");
    let script = host.script("page.php", "<?php require __DIR__ . '/a plugin.php';\nlooks(); echo 1;");
    let answer = worker.run(&asked(&script, "x"));
    let note = answer.notes.iter().find(|(kind, _)| *kind == NoteKind::Fields).unwrap();
    assert_eq!(note.1, format!("HTTP_USER_AGENT {}:3", part.display()));
}

/// What a plugin reads that may tell who its visitor is, also from a folder with the name of one of WordPress's.
#[test]
fn a_plugin_s_folder_is_not_wordpress_s() {
    let mut host = Host::start(INI, &[]);
    let mut worker = host.worker(0);
    let code = "<?php function looks() { return $_COOKIE['wordpress_logged_in_1'] ?? ''; }";
    for (folder, reads) in [
        ("wp-includes", "[]"),
        ("wp-admin", "[]"),
        ("other", r#"["cookie wordpress_logged_in_1"]"#),
        ("wp-content/plugins/x/wp-includes", r#"["cookie wordpress_logged_in_1"]"#),
        ("wp-content/plugins/x/wp-admin", r#"["cookie wordpress_logged_in_1"]"#),
    ] {
        std::fs::create_dir_all(host.script("at.php", "").with_file_name(folder)).unwrap();
        let part = host.script(&format!("{folder}/looks.php"), code);
        let name = format!("page-{}.php", folder.replace('/', "-"));
        let body = format!(
            "<?php require '{}'; looks(); echo json_encode(millrace_identity_reads());",
            part.display()
        );
        let ask = Ask::get(&host.script(&name, &body)).set("MILLRACE_MEMBERS", "1");
        assert_eq!(worker.run(&ask.set("HTTP_COOKIE", "wordpress_logged_in_1=x")).text(), reads, "{folder}");
    }
}

/// What WordPress reads for each page counts as nothing; what it keeps of that counts where others look at it.
#[test]
fn wordpress_reads_for_each_page() {
    let mut host = Host::start(INI, &[]);
    let mut worker = host.worker(0);
    for folder in ["wp-includes", "wp-content/wp-includes"] {
        std::fs::create_dir_all(host.script("at.php", "").with_file_name(folder)).unwrap();
        let load = "<?php
            function add_magic_quotes($all) { foreach ($all as $k => $v) { $all[$k] = is_string($v) ? addslashes($v) : $v; } return $all; }
            function wp_fix_server_vars() { $_SERVER = array_merge(['SERVER_SOFTWARE' => ''], $_SERVER); }
            function wp_magic_quotes() { $_COOKIE = add_magic_quotes($_COOKIE); $_SERVER = add_magic_quotes($_SERVER); }
            function wp_is_json_request() { return isset($_SERVER['HTTP_ACCEPT'], $_SERVER['HTTP_DNT']); }
            function wp_get_server_protocol() { return $_SERVER['SERVER_PROTOCOL']; }
            function other() { return count($_SERVER); }";
        host.script(&format!("{folder}/load.php"), load);
        let vars = "<?php global $pagenow, $is_iphone, $is_gecko; $is_iphone = false; $is_gecko = false;
            if (isset($_SERVER['HTTP_USER_AGENT']) && strpos($_SERVER['HTTP_USER_AGENT'], 'iPhone')) { $is_iphone = true; }
            if ($is_gecko) { $is_gecko = 1; }
            function wp_is_mobile() { return strpos($_SERVER['HTTP_USER_AGENT'], 'Mobile') !== false || isset($_SERVER['HTTP_SEC_CH_UA_MOBILE']); }";
        host.script(&format!("{folder}/vars.php"), vars);
        host.script(
            &format!("{folder}/functions.php"),
            "<?php function status_header() { return wp_get_server_protocol(); }",
        );
    }
    let boot = |folder: &str| {
        format!(
            "<?php foreach (['load', 'vars', 'functions'] as $f) {{ require __DIR__ . \"/{folder}/$f.php\"; }} wp_fix_server_vars(); wp_magic_quotes(); status_header();"
        )
    };
    for (at, (code, read)) in [
        ("", ""),
        ("echo wp_is_mobile();", ":mobile"),
        ("function f() { global $is_iphone; return $is_iphone; } echo f();", ":browser"),
        ("echo $_SERVER['HTTP_USER_AGENT'];", "HTTP_USER_AGENT"),
        // Of HTTP_ACCEPT the key has a part; not of others.
        ("wp_is_json_request();", "HTTP_DNT"),
        ("echo wp_get_server_protocol();", "SERVER_PROTOCOL"),
        ("other();", "*"),
    ]
    .into_iter()
    .enumerate()
    {
        let script = host.script(&format!("core{at}.php"), &format!("{} {code}", boot("wp-includes")));
        assert_eq!(run(&mut worker, &asked(&script, "x").set("HTTP_ACCEPT", "y")).0, read, "{code}");
    }
    // Whatever a plugin calls its files, they are no WordPress's.
    let script = host.script("plugin.php", &boot("wp-content/wp-includes"));
    let read = run(&mut worker, &asked(&script, "x")).0;
    for name in [":browser", "HTTP_USER_AGENT", "*", "SERVER_PROTOCOL"] {
        assert!(read.split(' ').any(|other| other == name), "{name}: {read}");
    }
}

/// Where fetches can't be watched, nothing is said.
#[test]
fn with_a_jit_nothing_is_said() {
    let mut host = Host::start(&format!("{INI}opcache.jit_buffer_size=16M\nopcache.jit=tracing\n"), &[]);
    let mut worker = host.worker(0);
    let script = host.script("jit.php", "<?php echo $_SERVER['HTTP_USER_AGENT'], count(getallheaders());");
    assert_eq!(run(&mut worker, &asked(&script, "x")).0, "");
}

// ---- generated scripts ----

/// Ways to the value of the field `X-Cur`, in any scope.
const WAYS: &[&str] = &[
    "($_SERVER['HTTP_X_CUR'] ?? '')",
    "(isset($_SERVER['HTTP_X_CUR']) ? $_SERVER['HTTP_X_CUR'] : '')",
    "@$_SERVER['HTTP_X' . '_CUR']",
    "@$_SERVER[strrev('RUC_X_PTTH')]",
    "@$GLOBALS['_SERVER']['HTTP_X_CUR']",
    "@$GLOBALS['_' . 'SERVER']['HTTP_X_CUR']",
    "implode(array_filter($_SERVER, 'is_string'))",
    "json_encode($_SERVER)",
    "serialize($_SERVER)",
    "print_r($_SERVER, true)",
    "var_export($_SERVER, true)",
    "http_build_query($_SERVER)",
    "implode(array_column([$_SERVER], 'HTTP_X_CUR'))",
    "implode(array_intersect_key($_SERVER, ['HTTP_X_CUR' => 1]))",
    "((object) $_SERVER)->HTTP_X_CUR",
    "(new ArrayObject($_SERVER))['HTTP_X_CUR']",
    "(function () { foreach ($_SERVER as $k => $v) { if ($k === 'HTTP_X_CUR') { return $v; } } return ''; })()",
    "(function () { foreach ($_SERVER as $k => &$v) { if ($k === 'HTTP_X_CUR') { return $v; } } return ''; })()",
    "(function () { ['HTTP_X_CUR' => $v] = $_SERVER; return $v; })()",
    "(function () { extract($_SERVER); return $HTTP_X_CUR ?? ''; })()",
    "(function () { extract($GLOBALS, EXTR_PREFIX_ALL, 'p'); return $p__SERVER['HTTP_X_CUR'] ?? ''; })()",
    "(function () { $r = &$_SERVER; return $r['HTTP_X_CUR'] ?? ''; })()",
    "(function () { $r = &$_SERVER['HTTP_X_CUR']; return $r; })()",
    "(function () { $_SERVER['HTTP_X_CUR'] ??= ''; return $_SERVER['HTTP_X_CUR']; })()",
    "(function () { foreach ($GLOBALS as $k => $v) { if ($k === '_SERVER') { return $v['HTTP_X_CUR'] ?? ''; } } })()",
    "(function () { $all = $GLOBALS; return $all['_SERVER']['HTTP_X_CUR'] ?? ''; })()",
    "(function (array $s) { return $s['HTTP_X_CUR'] ?? ''; })($_SERVER)",
    "(function () { yield $_SERVER; })()->current()['HTTP_X_CUR']",
    "(fn () => $_SERVER['HTTP_X_CUR'] ?? '')()",
    "(static fn ($n) => $_SERVER[$n] ?? '')('HTTP_X_CUR')",
    "(string) getenv('HTTP_X_CUR')",
    "@getenv()['HTTP_X_CUR']",
    "(string) call_user_func('getenv', 'HTTP_X_CUR')",
    "@getallheaders()['X-Cur']",
    "implode(apache_request_headers())",
    "(string) filter_input(INPUT_SERVER, 'HTTP_X_CUR')",
    "(string) filter_input(var_name: 'HTTP_X_CUR', type: INPUT_SERVER)",
    "(string) (filter_input(...))(INPUT_SERVER, 'HTTP_X_CUR')",
    "(string) (new ReflectionFunction('filter_input'))->invoke(INPUT_SERVER, 'HTTP_X_CUR')",
    "implode(array_filter(filter_input_array(INPUT_SERVER) ?: [], 'is_string'))",
    "(function () { ob_start(); phpinfo(INFO_VARIABLES); return ob_get_clean(); })()",
    "(function () { array_walk($_SERVER, function ($v, $k) use (&$w) { $w .= is_string($v) ? $v : ''; }); return $w; })()",
    "(match (true) { isset($_SERVER['HTTP_X_CUR']) => $_SERVER['HTTP_X_CUR'], default => '' })",
];

/// Ways that are open in the global scope only.
const GLOBAL_WAYS: &[&str] = &[
    "@compact('_SERVER')['_SERVER']['HTTP_X_CUR']",
    "@get_defined_vars()['_SERVER']['HTTP_X_CUR']",
    "@${'_SERVER'}['HTTP_X_CUR']",
    "@${'_' . 'SERVER'}['HTTP_X_CUR']",
];

#[test]
fn no_generated_script_reads_a_field_unseen() {
    let mut host = Host::start(INI, &[]);
    let mut worker = host.worker(0);
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for at in 0..300 {
        let code = random.script(WAYS, GLOBAL_WAYS, at);
        // PHP makes the array only for scripts that name it.
        let script = random.file(&host, at, &format!("<?php isset($_SERVER['REQUEST_METHOD']); {code}"));
        let (read, text) = run(&mut worker, &asked(&script, "S3CRET"));
        assert!(text.contains("S3CRET"), "it is not printed: {code}\n{text}");
        assert!(read.split(' ').any(|name| name == "*" || name == "HTTP_X_CUR"), "{read}: {code}");
    }
}

/// Every function of this PHP that can be called without arguments: what it gives away of the request is noticed.
#[test]
fn no_function_of_php_gives_a_field_away_unseen() {
    let mut host = Host::start(INI, &[]);
    let mut worker = host.worker(0);
    let mut seen = Vec::new();
    for (name, script) in generated::calls(&host, &mut worker, "isset($_SERVER['REQUEST_METHOD']);") {
        let (read, text) = run(&mut worker, &asked(&script, "S3CRET"));
        assert!(text.starts_with("ran "), "{name}");
        if text.contains("S3CRET") || text.contains("192.0.2.77") {
            assert_eq!(read, "*", "{name}");
            seen.push(name);
        }
    }
    generated::assert_known(&seen);
}
