<?php
/**
 * What all generated plugins of tests/guesses share; a must-use plugin. Plugin N acts on pages with ?g=N only: it takes a value in its way
 * (Guess::take) and shows it in its form at its place (Guess::show). What is said of the request by Guess itself is in each page's key.
 */

final class Guess
{
    /** A visitor's secret: `zq`, a letter for what it is, the visitor's number, six letters and digits (of an id that was made, 16); an address; a user's number. */
    public const TOKEN = '/zqi[0-9]{3}[a-f0-9]{16}|zq[a-hj-z][0-9]{3}[a-z0-9]{6}|127\.(?!0\.0\.1\b)\d+\.\d+\.\d+|\b9100\d{5}\b/i';

    public static int $number = 0;
    private static string $form = 'raw';
    /** The letter of the secret that the form is about; '': all. */
    private static string $about = '';
    /** The secret that the form `vip` is for. */
    private static string $vip = '';
    /** The text has secrets in it; else it is another one for each visitor. */
    private static bool $clear = true;
    private static ?string $text = null;

    public static function plays(int $number, string $form, string $about, bool $clear = true, string $vip = ''): void
    {
        [self::$number, self::$form, self::$about, self::$clear, self::$vip] = [$number, $form, $about, $clear, $vip];
    }

    /** The first value counts. `$prints`: what the way prints does, too; not in callbacks of the output. */
    public static function take(callable $way, bool $prints = true): void
    {
        if (self::$text === null) {
            self::$text = '';
            $level = $prints ? ob_get_level() : 99;
            try {
                $prints && ob_start();
                $value = self::flat(@$way());
                $printed = ob_get_level() > $level ? (string) ob_get_clean() : '';
                self::$text = substr($printed . ' ' . $value, 0, 60000);
            } catch (\Throwable $error) {
                self::$text = get_class($error) . ' ' . $error->getMessage();
            }
            while (ob_get_level() > $level) {
                ob_end_clean();
            }
        }
    }

    /** Any value as text; bounded, because $GLOBALS has all of WordPress in it. */
    public static function flat($value, int $depth = 5, ?int &$room = null): string
    {
        $room ??= 3000;
        if ($room-- <= 0) {
            return '';
        }
        if ($value instanceof \Traversable && !$value instanceof \WP_Hook) {
            $value = [get_class($value), iterator_to_array(new \LimitIterator(new \IteratorIterator($value), 0, 200), false), (array) $value];
        } elseif (is_object($value)) {
            $value = [get_class($value), (array) $value];
        }
        if (!is_array($value)) {
            return is_scalar($value) || $value === null ? var_export($value, true) : gettype($value);
        }
        $parts = [];
        foreach ($depth > 0 ? $value : [] as $key => $part) {
            $parts[] = "$key=" . self::flat($part, $depth - 1, $room);
        }
        return implode(';', $parts);
    }

    /** The secrets in a text, of those that the form is about. */
    public static function secrets(string $text): array
    {
        preg_match_all(self::TOKEN, $text, $found);
        preg_match_all(self::TOKEN, strrev($text), $back);
        $all = array_map('strtolower', [...$found[0], ...$back[0]]);
        $letter = static fn (string $one): string => $one[0] === 'z' ? $one[2] : ($one[1] === '2' ? 'a' : 'd');
        $all = array_filter($all, static fn ($one) => self::$about === '' || $letter($one) === self::$about);
        sort($all);
        return array_values(array_unique($all));
    }

    /** What is shown. */
    public static function shown(bool $short = false): string
    {
        $text = self::$text ?? 'nothing';
        $found = implode(',', self::secrets($text));
        $basis = self::$clear ? $found : $text;
        $shown = match (self::$form) {
            'raw' => $short ? $found : $text,
            'secret' => $found,
            'upper' => strtoupper($found),
            'reversed' => strrev($found),
            'length' => str_repeat('x', 10 + crc32($basis) % 50),
            'hash' => md5($basis),
            // As a bar that says how much is missing for free shipping.
            'threshold' => (float) trim($basis, " '") > 3 ? 'enough' : 'more',
            'vip' => str_contains($basis, self::$vip) ? 'welcome' : 'join',
            default => crc32($basis) & 1 ? 'left' : 'right',
        };
        return 'guess' . self::$number . '(' . rawurlencode($shown) . ')';
    }

    public static function is_odd(): bool
    {
        return (bool) (crc32(self::shown(true)) & 1);
    }

    /** Where it is shown. */
    public static function show(string $place): void
    {
        $echo = static function () { echo self::shown(); };
        $field = static function ($x = null) { headers_sent() || header('X-Guess: ' . self::shown(true)); return $x; };
        match ($place) {
            'head' => add_action('wp_head', $echo, 99),
            'foot' => add_action('wp_footer', $echo, 99),
            'end' => add_action('shutdown', $echo, 99),
            'content' => add_filter('the_content', static fn ($x) => $x . '<p>' . self::shown() . '</p>', 99),
            'attribute' => add_filter('language_attributes', static fn ($x) => $x . ' data-guess="' . self::shown(true) . '"', 99),
            'class' => add_filter('body_class', static fn ($x) => [...$x, self::shown(true)], 99),
            'title' => add_filter('document_title_parts', static fn ($x) => ['title' => self::shown(true)] + $x, 99),
            'name' => add_filter('option_blogname', static fn ($x) => did_action('wp_head') ? "$x " . self::shown(true) : $x, 99),
            'field' => add_action('template_redirect', $field, 99),
            'callback' => header_register_callback($field),
            'buffer' => ob_start(static fn ($text) => $text . self::shown()),
            'status' => add_action('template_redirect', static fn () => status_header(self::is_odd() ? 200 : 410), 99),
            'template' => add_filter('template_include', static fn ($x) => self::is_odd() ? $x : __DIR__ . '/guesses/other.inc', 99),
            'redirect' => add_action('template_redirect', static function () { wp_redirect('/elsewhere/?' . self::shown(true), self::is_odd() ? 301 : 302); exit; }, 99),
            'cookie' => add_action('template_redirect', static function () { setcookie('shown', self::shown(true)); }, 99),
        };
    }

    /** Prints what each of these pieces of code gives away of the visitor: its secrets, and a digest of its text. One may end the run. */
    public static function try_all(array $codes): void
    {
        set_time_limit(30);
        $were = [$_COOKIE, $_SERVER, $_GET, $_REQUEST];
        foreach ($codes as $code) {
            [$_COOKIE, $_SERVER, $_GET, $_REQUEST, self::$text] = [...$were, null];
            self::take(static fn () => eval("return $code;"));
            echo "\ntried:", json_encode([self::secrets(self::$text), md5(self::$text)]), "\n";
        }
    }

    /** The functions of this PHP and of WordPress, with what they want; internal classes that one can make; hooks. */
    public static function table(): array
    {
        $wants = static fn (\ReflectionFunctionAbstract $f) => array_map(
            static fn (\ReflectionParameter $p) => [(string) ($p->getType() ?? ''), $p->isOptional(), $p->isPassedByReference(), $p->isVariadic()],
            $f->getParameters()
        );
        $all = ['internal' => [], 'wordpress' => [], 'classes' => [], 'static' => [], 'hooks' => []];
        foreach (get_defined_functions() as $kind => $names) {
            foreach ($names as $name) {
                $all[$kind === 'internal' ? 'internal' : 'wordpress'][$name] = $wants(new \ReflectionFunction($name));
            }
        }
        foreach (get_declared_classes() as $name) {
            $class = new \ReflectionClass($name);
            if ($class->isInternal() && $class->isInstantiable() && $class->getConstructor()) {
                $all['classes'][$name] = $wants($class->getConstructor());
            }
            foreach ($class->isInternal() ? $class->getMethods(\ReflectionMethod::IS_STATIC) : [] as $method) {
                $method->isPublic() && $all['static']["$name::{$method->name}"] = $wants($method);
            }
        }
        $all['hooks'] = array_keys(($GLOBALS['wp_filters'] ?? []) + $GLOBALS['wp_actions']);
        return $all;
    }
}

/** A plugin's helper that gives back what it gets. */
function guess_kept($text)
{
    return $text;
}

$GLOBALS['guess_two'] = [2, 1];
if (ctype_digit($_GET['g'] ?? '') && is_file(__DIR__ . "/guesses/{$_GET['g']}.php")) {
    add_shortcode("guess_{$_GET['g']}", static fn () => 'a plugin acts here');
    add_filter('the_content', static fn ($x) => $x . do_shortcode("[guess_{$_GET['g']}]"), 5);
    include __DIR__ . "/guesses/{$_GET['g']}.php";
} elseif (($_GET['g'] ?? '') === 'try') {
    add_action('template_redirect', static function () { Guess::try_all(json_decode(base64_decode($_POST['codes']), true)); exit; });
} elseif (($_GET['g'] ?? '') === 'table') {
    add_action('shutdown', static function () { ob_get_level() && ob_end_clean(); echo "\ntable:" . base64_encode(json_encode(Guess::table())); }, 999);
} elseif (($_GET['g'] ?? '') === 'session') {
    add_action('init', static function () { session_start(); $_SESSION['who'] = $_GET['who']; session_write_close(); exit('done'); });
}
