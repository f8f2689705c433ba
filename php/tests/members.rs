//! Pages that members may share: what a script does with the member's name, and what it is told of him without asking.

mod driver;

use std::path::{Path, PathBuf};

use driver::generated::Random;
use driver::{Ask, Host, Worker};

const INI: &str = "zend_extension=opcache\n";

/// WordPress's functions that matter, in short.
const CORE: &str = r#"<?php
class WP_User {
    public $ID = 910000101;
    public function __get($name) { $GLOBALS['prints'][] = millrace_member_prints(); return 'Anna Alt'; }
    public function __isset($name) { $GLOBALS['prints'][] = millrace_member_prints(); return true; }
    public function get($name) { return $this->__get($name); }
}
class WP_Post { public $ID = 910000101; public $post_title = 'annaalt'; }
final class WP_Hook {
    public $callbacks = [];
    private $doing_action = false;
    public function apply_filters($value, $args) {
        $num_args = count($args);
        foreach ($this->callbacks as $the_) {
            $args[0] = $value;
            if (0 == $the_['accepted_args']) {
                $value = call_user_func($the_['function']);
            } elseif ($the_['accepted_args'] >= $num_args) {
                $value = call_user_func_array($the_['function'], $args);
            } else {
                $value = call_user_func_array($the_['function'], array_slice($args, 0, $the_['accepted_args']));
            }
        }
        return $value;
    }
}
function add_filter($hook, $function, $priority = 10, $accepted = 1) {
    $GLOBALS['wp_filter'][$hook] ??= new WP_Hook();
    $GLOBALS['wp_filter'][$hook]->callbacks[] = ['function' => $function, 'accepted_args' => $accepted];
}
function apply_filters($hook, $value, ...$args) {
    if (!isset($GLOBALS['wp_filter'][$hook])) { return $value; }
    $GLOBALS['wp_current_filter'][] = $hook;
    $value = $GLOBALS['wp_filter'][$hook]->apply_filters($value, [$value, ...$args]);
    array_pop($GLOBALS['wp_current_filter']);
    return $value;
}
function wp_nonce_tick($action) { $GLOBALS['prints'][] = millrace_member_prints(); }
function wp_create_nonce($action) { wp_nonce_tick($action); return '0123456789'; }
function wp_verify_nonce($nonce, $action) { wp_nonce_tick($action); return $nonce === '0123456789'; }
function wp_logout_url() { return '/?nonce=' . wp_create_nonce('log-out'); }
function wp_loginout($to = '', $prints = true) { $link = wp_logout_url(); if (!$prints) { return $link; } echo $link; }
function wp_default_scripts() { return [wp_create_nonce('wp_rest')]; }
function wp_scripts() { return wp_default_scripts(); }
function esc_html($text) { return apply_filters('esc_html', $text); }
function esc_attr($text) { return $text; }
function wp_localize_script($handle, $name, $all) { return true; }
function __($text) { return $text; }
function comment_form() { $user = new WP_User(); echo 'Logged in as ', apply_filters('comment_form_logged_in', $user->display_name, 1, $user->display_name); }
function of_core($user) { return strlen($user->display_name); }
function core_asks($number) { return apply_filters('core_asks', null, $number, ['of' => [$number]]); }
function get_current_user_id() { millrace_hooks_read(); return 910000101; }
function core_reads() { return core_asks(get_current_user_id()); }
function _wp_get_current_user() { return apply_filters('determine_current_user', apply_filters('early', false, 'a text', 7)); }
function load_template($file) { global $user_ID; require $file; }
"#;
/// Millrace's hooks: they know the member, and are asked by WordPress's functions.
const HOOKS: &str = "<?php
function millrace_hooks_know() { millrace_member_is(910000101, ['annaalt', 'anna@club.example', '0123456789'], ['Anna Alt']); }
function millrace_hooks_read() { millrace_member_reader(); }
";

struct Site {
    host: Host,
    worker: Worker,
    core: PathBuf,
    hooks: PathBuf,
    pages: usize,
}

impl Site {
    fn start() -> Site {
        let mut host = Host::start(INI, &[]);
        let worker = host.worker(0);
        let hooks = host.script("hooks/inject.php", HOOKS);
        let core = host.script("wp-includes/all.php", CORE);
        Site { host, worker, core, hooks, pages: 0 }
    }

    /// The output of a page for a member.
    fn page(&mut self, code: &str) -> String {
        self.pages += 1;
        let code = format!("<?php require '{}';\n{code}", self.core.display());
        let script: &Path = &self.host.script(&format!("page{}.php", self.pages), &code);
        let ask = Ask::get(script).set("MILLRACE_MEMBERS", "1").set("HTTP_COOKIE", "a=b");
        let answer = self.worker.run(&ask.set("MILLRACE_INJECT", self.hooks.to_str().unwrap()));
        assert!(answer.log.is_empty(), "{code}: {:?}", answer.log);
        answer.text()
    }

    /// What millrace_member_prints() has said of each read in a function of the site's.
    fn prints(&mut self, code: &str) -> String {
        let code = format!(
            "millrace_hooks_know(); function helps($text) {{ return $text; }} function run($user) {{ {code} }} \
             ob_start(); run(new WP_User()); ob_end_clean(); echo implode(' ', $prints ?? []);"
        );
        self.page(&code)
    }

    /// What has been read and told, by the site's code.
    fn told(&mut self, code: &str) -> String {
        let page = self.page(&format!("{code}\necho '#', implode(', ', millrace_identity_reads());"));
        page.rsplit('#').next().unwrap().to_owned()
    }
}

/// A name is only printed, or may decide something.
#[test]
fn what_is_only_printed() {
    let mut site = Site::start();
    for (code, prints) in [
        ("echo $user->display_name;", "1"),
        ("echo esc_html($user->display_name);", "1"),
        ("echo esc_html($user->get('display_name'));", "1"),
        ("printf('<b>%s</b>', \\esc_html($user->display_name));", "1"),
        ("printf(__('Hello %1$s, %2$s'), esc_html($user->display_name), 'x');", "1"),
        ("echo sprintf('%s: %s', 'x', $user->display_name) . '!';", "1"),
        ("echo \"Hello {$user->display_name}, you\";", "1"),
        ("$name = $user->display_name; $text = 'Dear ' . $name; $text .= '!'; echo $text, $name;", "1"),
        ("echo $user->display_name ?: 'nobody';", "1"),
        ("echo $user->display_name ?? 'nobody';", "1 1"),
        ("if (!empty($user->display_name)) { echo 1; }", "1 1"),
        ("if ($user->display_name) { echo 1; }", "1"),
        ("echo isset($user->display_name) ? 'x' : 'y';", "1"),
        ("echo $_GET ? 'x' : $user->display_name;", "1"),
        ("echo json_encode($user->display_name);", "1"),
        ("wp_localize_script('x', 'y', ['nonce' => wp_create_nonce('wp_rest'), 'of' => ['x' => 1]]);", "1"),
        ("echo wp_logout_url();", "1"),
        ("echo '<a href=\"' . esc_attr(wp_logout_url()) . '\">', wp_create_nonce('x');", "1 1"),
        ("wp_loginout();", "1"),
        ("echo wp_loginout('', false);", "1"),
        ("comment_form();", "1 1"),
        ("$scripts = wp_scripts(); echo count($scripts);", "2"),
        ("$f = function () use ($user) { return 'x' . $user->display_name; }; echo $f();", "1"),
        ("$name = $user->display_name; unset($name);", "1"),
        ("(string) $user->display_name;", "1"),
        ("echo call_user_func([$user, 'get'], 'display_name');", "1"),
        // It decides, or goes elsewhere.
        ("echo strlen($user->display_name);", "0"),
        ("echo $user->display_name === 'Anna' ? 1 : 2;", "0"),
        ("echo $user->display_name[0];", "0"),
        ("$name = $user->display_name; if ($name == 'Anna') { echo 1; }", "0"),
        ("$name = $user->display_name; echo $name; $f = 'name'; echo strlen($$f);", "0"),
        ("$name = $user->display_name; echo count(compact('name'));", "0"),
        ("$name = $user->display_name; echo count(get_defined_vars());", "0"),
        ("$name = $user->display_name; $other = &$name; echo strlen($other);", "0"),
        (
            "$name = $user->display_name; $f = function () use ($name) { return strlen($name); }; echo $f();",
            "0",
        ),
        ("$name = $user->display_name; $f = fn () => strlen($name); echo $f();", "0"),
        ("$user = $user->display_name; echo func_get_arg(0);", "0"),
        ("$GLOBALS['left'] = $user->display_name;", "0"),
        ("global $left; $left = $user->display_name;", "0"),
        ("static $left; $left = $user->display_name;", "0"),
        ("$all[] = $user->display_name;", "0"),
        ("$all = [$user->display_name => 1]; echo count($all);", "0"),
        ("$all = ['x' => $user->display_name]; echo $all['x'];", "0"),
        ("echo sprintf('%.1s', $user->display_name);", "0"),
        ("echo sprintf('%5s', $user->display_name);", "0"),
        ("echo sprintf('%d', $user->display_name);", "0"),
        ("echo sprintf($user->display_name, 1);", "0"),
        ("echo sprintf($_GET['x'] ?? '%s', $user->display_name);", "0"),
        ("echo printf('%s', $user->display_name);", "0"),
        ("echo helps($user->display_name);", "0"),
        ("echo (esc_html(...))($user->display_name);", "0"),
        ("echo implode(array_map(fn ($u) => $u->display_name, [$user]));", "0"),
        ("echo implode(array_map([$user, 'get'], ['display_name']));", "0"),
        ("header('X-Name: ' . $user->display_name);", "0"),
        ("echo (int) $user->display_name;", "0"),
        ("echo -1 + ord($user->display_name);", "0"),
        ("echo match ($user->display_name) { 'Anna' => 1, default => 2 };", "0"),
        ("switch ($user->display_name) { case 'Anna': echo 1; }", "0"),
        ("foreach (str_split($user->display_name) as $c) { echo $c; }", "0"),
        ("foreach ((fn () => yield $user->display_name)() as $x) { echo strlen($x); }", "0"),
        ("echo of_core($user);", "0"),
        ("echo wp_create_nonce('wp_rest') < '5' ? 1 : 2;", "0"),
        ("echo substr(wp_logout_url(), -1);", "0"),
        ("echo wp_verify_nonce('x', 'wp_rest');", "0"),
        ("$x = wp_loginout('', false); echo md5($x);", "0"),
        ("echo strlen(eval('return $user->display_name;'));", "0"),
    ] {
        assert_eq!(site.prints(code), prints, "{code}");
    }
}

/// What is made of a name at random: it counts as printed only where it is nothing but printed.
#[test]
fn generated_uses_of_a_name() {
    const KEEPING: [&str; 9] = [
        "esc_html(@)",
        "esc_attr(@)",
        "('x' . @)",
        "\"<{$user->display_name}>\" . @",
        "sprintf('%s!', @)",
        "sprintf(__('Dear %s'), @)",
        "(@ ?: 'x')",
        "(string) (@)",
        "($kept = @)",
    ];
    const CHOOSING: [&str; 12] = [
        "strlen(@)",
        "md5(@)",
        "strrev(@)",
        "substr(@, 1)",
        "(@ > 'B' ? 1 : 2)",
        "(@ == 'x')",
        "sprintf('%.2s', @)",
        "helps(@)",
        "(['x' => 1][@] ?? 2)",
        "ucfirst(@)",
        "(function () use ($user) { return crc32(@); })()",
        "implode(',', [@])",
    ];
    let mut site = Site::start();
    let mut random = Random(31);
    for _ in 0..200 {
        let chooses = random.below(2) == 0;
        let (mut way, steps, at) = ("$user->display_name".to_owned(), random.below(4), random.below(3));
        let mut is_chosen = false;
        for step in 0..=steps {
            let from: &[&str] =
                if chooses && !is_chosen && (step == at.min(steps)) { &CHOOSING } else { &KEEPING };
            is_chosen |= from.len() == CHOOSING.len();
            way = from[random.below(from.len())].replace('@', &way);
        }
        let code = match random.below(4) {
            0 => format!("echo {way};"),
            1 => format!("$said = {way}; echo \"[$said]\";"),
            2 => format!("$said = '['; $said .= {way}; echo $said . ']';"),
            _ => format!("printf('[%s]', {way});"),
        };
        let said = site.prints(&code);
        assert_eq!(said.contains('0'), chooses, "{code}: {said}");
    }
}

/// WordPress hands what is the member's to callbacks, before it has been asked for anything.
#[test]
fn what_callbacks_are_told() {
    let mut site = Site::start();
    let with = |hook: &str, more: &str| {
        format!("add_filter('{hook}', function ($x = null) {{ return $x; }}, 10, 9); {more}")
    };
    let knows = "millrace_hooks_know();";
    for (code, told) in [
        (format!("{knows} {}", with("x", "apply_filters('x', 'a text of others', 5, ['x' => null]);")), ""),
        (format!("{knows} {}", with("x", "apply_filters('x', 'by annaalt');")), "the hook x"),
        (format!("{knows} {}", with("x", "apply_filters('x', 'annaalter, hannaalt');")), ""),
        (
            format!("{knows} {}", with("x", "apply_filters('x', ['a' => ['b' => ['anna@club.example']]]);")),
            "the hook x",
        ),
        (format!("{knows} {}", with("x", "apply_filters('x', null, ['annaalt' => 1]);")), "the hook x"),
        (
            format!("{knows} {}", with("x", "apply_filters('x', null, (object) ['login' => 'annaalt']);")),
            "the hook x",
        ),
        (format!("{knows} {}", with("x", "apply_filters('x', new WP_User());")), "the hook x"),
        (
            format!(
                "{knows} {}",
                with("x", "$user = new WP_User(); $user->ID = 3; apply_filters('x', $user);")
            ),
            "",
        ),
        (format!("{knows} {}", with("x", "apply_filters('x', new WP_Post());")), ""),
        (format!("{knows} {}", with("x", "apply_filters('x', '<a href=\"?n=0123456789\">');")), "the hook x"),
        // His name may be on a page, also others'; once it was printed for him, it is his.
        (format!("{knows} {}", with("x", "apply_filters('x', 'Anna Alt');")), ""),
        (
            format!(
                "{knows} {}",
                with("esc_html", "$user = new WP_User(); echo esc_html($user->display_name);")
            ),
            "the hook esc_html",
        ),
        (
            format!("{knows} {}", with("comment_form_logged_in", "comment_form();")),
            "the hook comment_form_logged_in",
        ),
        (format!("{knows} add_filter('x', 'strlen'); apply_filters('x', 'annaalt');"), "the hook x"),
        (
            format!(
                "{knows} add_filter('x', 'trim'); add_filter('x', 'esc_attr'); apply_filters('x', 'annaalt');"
            ),
            "",
        ),
        // A callback before it has made something else of it.
        (
            format!("{knows} add_filter('x', 'wp_logout_url'); {}", with("x", "apply_filters('x', 1);")),
            "the hook x",
        ),
        // What a callback does not take it is not told.
        (format!("{knows} add_filter('x', fn ($x) => $x); apply_filters('x', 1, 'annaalt');"), ""),
        // A number counts below a function that has read it.
        (format!("{knows} {}", with("core_asks", "core_asks(910000101);")), ""),
        (format!("{knows} {}", with("core_asks", "core_reads();")), "the hook core_asks"),
        (format!("{knows} core_reads();"), ""),
        // Until WordPress knows who asks, each number does.
        (with("determine_current_user", "_wp_get_current_user();"), ""),
        (
            format!("add_filter('early', '__'); {}", with("early", "_wp_get_current_user();")),
            "the hook early",
        ),
        (with("early", "apply_filters('early', false, 'a text', 7);"), ""),
        // The output.
        (format!("{knows} $user = new WP_User(); ob_start(); echo $user->display_name; ob_end_flush();"), ""),
        (
            format!(
                "{knows} function f($user) {{ ob_start(); echo $user->display_name; return strlen(ob_get_clean()); }} echo f(new WP_User());"
            ),
            "the output, from its buffer",
        ),
        (
            format!(
                "{knows} function f($user) {{ ob_start(); echo $user->display_name; $n = ob_get_length(); ob_end_clean(); return $n; }} echo f(new WP_User());"
            ),
            "the output, from its buffer",
        ),
        (
            format!(
                "{knows} ob_start(fn ($t) => strrev($t)); (function () {{ $user = new WP_User(); echo $user->display_name; }})(); ob_end_clean();"
            ),
            "the output, in a callback",
        ),
        (format!("{knows} ob_start(fn ($t) => $t); echo 1; ob_end_flush();"), ""),
        (format!("{knows} ob_start(); echo 'another text'; echo ob_get_clean();"), ""),
    ] {
        assert_eq!(site.told(&code), told, "{code}");
    }
}

/// WordPress's variables about the member are seen in whatever way they are read, also in templates, which have them as their own.
#[test]
fn variables_of_the_member() {
    let mut site = Site::start();
    let part = site.host.script("theme/part.php", "<?php echo $user_identity ?? '';");
    let all = site.host.script("theme/all.php", "<?php echo count(get_defined_vars());");
    let named = site.host.script("theme/named.php", "<?php $name = 'user_' . 'ID'; echo $$name;");
    let plain = site.host.script("theme/plain.php", "<?php $users = 1; echo $users;");
    let template = |file: &Path| format!("load_template('{}');", file.display());
    for (code, read) in [
        ("function f() { global $user_ID; return $user_ID; } f();".to_owned(), "variable user_ID"),
        ("(function () { return $GLOBALS['user_' . 'login'] ?? ''; })();".to_owned(), "variable user_login"),
        ("(function () { return $GLOBALS; })();".to_owned(), "cookie *, *"),
        ("echo $user_email ?? '';".to_owned(), "variable user_email"),
        ("function f() { $user_login = 'mine'; return $user_login; } f();".to_owned(), ""),
        (template(&part), "variable user_identity"),
        (template(&all), "cookie *"),
        (template(&named), "variable user_ID"),
        (template(&plain), ""),
    ] {
        let page = site.told(&format!("ob_start(); {code} ob_end_clean();"));
        assert_eq!(page, read, "{code}");
    }
}
