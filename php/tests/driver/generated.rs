//! Scripts made at random: a way to get at something, put into something else, and printed. In all texts `@@` stands for the way.

use std::path::PathBuf;

use super::{Ask, Host, Worker};

/// What a way can be put into.
const WRAPS: &[&str] = &[
    "(@@)",
    "(function () { return @@; })()",
    "(fn () => @@)()",
    "call_user_func(function () { return @@; })",
    "implode(array_map(fn ($n) => @@, [1]))",
    "(new class { function get() { return @@; } })->get()",
    "(new class { function __get($n) { return @@; } })->cur",
    "(new class { static function get() { return @@; } })::get()",
    "(string) new class { function __toString(): string { return (string) (@@); } }",
    "(function () { yield @@; })()->current()",
    "(new ReflectionFunction(function () { return @@; }))->invoke()",
    "Closure::fromCallable(fn () => @@)()",
    "(function () { try { throw new Exception((string) (@@)); } catch (Exception $e) { return $e->getMessage(); } })()",
    "preg_replace_callback('/x/', fn () => (string) (@@), 'x')",
    "unserialize(serialize(@@))",
];
/// The same, once at most: a text within it would end it.
const EVAL: &str = "eval(<<<'CODE'\nreturn @@;\nCODE)";

/// Statements that print it, or say it in a header field: at the place, at the end, in a callback of the output.
const PRINTS: &[&str] = &[
    "echo @@;",
    "register_shutdown_function(function () { echo @@; });",
    "ob_start(function ($text) { return $text . @@; }); echo 1;",
    "$o = new class { function __destruct() { echo @@; } }; unset($o);",
    "set_error_handler(function () { echo @@; return true; }); trigger_error('x');",
    "spl_autoload_register(function () { echo @@; }); class_exists('Nothing');",
    "header_register_callback(function () { header('X-Own: ' . rawurlencode(@@)); }); echo @@;",
    "header('Location: /?' . rawurlencode(@@)); echo @@;",
    "function printed() { echo @@; } printed();",
    "(function () { echo @@; })->__invoke();",
    "foreach ([1] as $i) { if ($i) { echo @@; } }",
];

/// Functions that a test can't call: they wait, end the script, or take its output away.
const LEFT_OUT: &str =
    "'exit', 'die', 'readline', 'fastcgi_finish_request', 'headers_send', 'opcache_reset', 'ob_end_clean',
    'ob_clean', 'ob_get_clean', 'ob_end_flush', 'ob_flush', 'ob_get_flush', 'flush', 'posix_setsid'";

/// The same numbers in each run (xorshift).
pub struct Random(pub u64);

impl Random {
    /// A number below `most`.
    pub fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }

    /// One of them.
    pub fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    /// A way out of `ways`, put into up to two things; each stands alone once, by its number.
    pub fn way(&mut self, ways: &[&str], at: usize) -> String {
        let mut way = if at < ways.len() { ways[at] } else { self.of(ways) }.to_owned();
        let mut has_text = false;
        for _ in 0..self.below(3) {
            let is_eval = !has_text && self.below(5) == 0;
            has_text |= is_eval;
            way = if is_eval { EVAL } else { self.of(WRAPS) }.replace("@@", &way);
        }
        way
    }

    /// Code that prints what a way gets; one in six is open in the global scope only.
    pub fn script(&mut self, ways: &[&str], global_ways: &[&str], at: usize) -> String {
        if at % 6 == 5 {
            return format!("echo {};", self.of(global_ways));
        }
        let (way, print) = (self.way(ways, at), self.of(PRINTS));
        // PHP opens no buffer within the callback of one.
        let buffers = |text: &str| text.contains("ob_start");
        if buffers(&way) && buffers(print) { PRINTS[0] } else { print }.replace("@@", &way)
    }

    /// A file with this content; half of them are included by another one.
    pub fn file(&mut self, host: &Host, at: usize, body: &str) -> PathBuf {
        match self.below(2) {
            0 => host.script(&format!("way{at}.php"), body),
            _ => {
                host.script(&format!("part{at}.php"), body);
                host.script(&format!("way{at}.php"), &format!("<?php include __DIR__ . '/part{at}.php';"))
            }
        }
    }
}

/// Names of all functions of this PHP that can be called without arguments, and scripts that print `ran` and what each gives away.
pub fn calls(host: &Host, worker: &mut Worker, begin: &str) -> Vec<(String, PathBuf)> {
    let code = format!(
        "<?php foreach (get_defined_functions()['internal'] as $name) {{
            $function = new ReflectionFunction($name);
            if (!$function->getNumberOfRequiredParameters() && !in_array($name, [{LEFT_OUT}])) {{ echo $name, \"\\n\"; }}
        }}"
    );
    let all = worker.run(&Ask::get(&host.script("list.php", &code))).text();
    assert!(all.lines().count() > 150, "{all}");
    let call = |(at, name): (usize, &str)| {
        let code = format!(
            "<?php {begin} ob_start(); try {{ $r = @{name}(); }} catch (Throwable $e) {{}}
            $text = ob_get_clean() . @print_r($r ?? '', true); echo 'ran ', $text;"
        );
        (name.to_owned(), host.script(&format!("call{at}.php"), &code))
    };
    all.lines().enumerate().map(call).collect()
}

/// That the functions which are known to give something away were seen doing so.
pub fn assert_known(seen: &[String]) {
    for known in ["getenv", "getallheaders", "apache_request_headers", "get_defined_vars", "phpinfo"] {
        assert!(seen.iter().any(|name| name == known), "{known}: {seen:?}");
    }
}
