//! Whether a page depends on what is in its visitor's cart: whatever reads that is noticed, but for what WooCommerce reads to keep the cart.
//!
//! The scripts here run in a small WordPress with a small WooCommerce, which have the names and the structure of the real ones. The shop knows
//! its visitor by a cookie, and what is in the cookie is in session, cart and customer.

mod driver;

use std::path::{Path, PathBuf};

use driver::generated::Random;
use driver::{Ask, Host, Worker};
use millrace_wire::frames::NoteKind;

const INI: &str = "zend_extension=opcache\nrequest_order=GP\nextension=pdo\nextension=pdo_sqlite\n";

const CORE: &str = r#"<?php
final class WP_Hook {
    public $callbacks = [];
    private $is_action = false;
    public function add_filter($function, $priority) { $this->callbacks[$priority][] = ['function' => $function]; ksort($this->callbacks); }
    public function apply_filters($value, $arguments) {
        foreach ($this->callbacks as $callbacks) {
            foreach ($callbacks as $callback) {
                if (!$this->is_action) { $arguments[0] = $value; }
                $value = call_user_func_array($callback['function'], $arguments);
            }
        }
        return $value;
    }
    public function do_action($arguments) {
        $this->is_action = true;
        $this->apply_filters('', $arguments ?: ['']);
        $this->is_action = false;
    }
}
function add_filter($hook, $function, $priority = 10) { ($GLOBALS['wp_filter'][$hook] ??= new WP_Hook())->add_filter($function, $priority); }
function add_action($hook, $function, $priority = 10) { add_filter($hook, $function, $priority); }
function apply_filters($hook, $value, ...$more) {
    if (!isset($GLOBALS['wp_filter'][$hook])) { return $value; }
    $GLOBALS['wp_current_filter'][] = $hook;
    $value = $GLOBALS['wp_filter'][$hook]->apply_filters($value, [$value, ...$more]);
    array_pop($GLOBALS['wp_current_filter']);
    return $value;
}
function do_action($hook, ...$arguments) {
    if (!isset($GLOBALS['wp_filter'][$hook])) { return; }
    $GLOBALS['wp_current_filter'][] = $hook;
    $GLOBALS['wp_filter'][$hook]->do_action($arguments);
    array_pop($GLOBALS['wp_current_filter']);
}
function esc_html($text) { return htmlspecialchars((string) $text); }
"#;

const SHOP: &str = r#"<?php
abstract class WC_Session {
    protected $_data = [];
    public function get($key, $default = null) { return $this->_data[$key] ?? $default; }
    public function set($key, $value) { $this->_data[$key] = $value; }
    public function __get($key) { return $this->get($key); }
    public function __isset($key) { return isset($this->_data[$key]); }
}
class WC_Session_Handler extends WC_Session {
    protected string $_customer_id = '';
    public function init() {
        $this->_customer_id = $_COOKIE['wp_woocommerce_session_1'] ?? '';
        $this->_data = $this->_customer_id === '' ? [] : ['cart' => [['quantity' => $this->_customer_id]], 'customer' => ['postcode' => $this->_customer_id]];
        add_action('shutdown', [$this, 'save_data'], 20);
    }
    public function save_data() { $this->_data['saved'] = ($this->_data['saved'] ?? 0) + 1; }
    public function get_customer_id() { return $this->_customer_id; }
}
class WC_Legacy_Cart {
    public $cart_contents = [];
    public function __get($name) { return $name === 'coupons' ? $this->cart_contents : null; }
}
class WC_Cart extends WC_Legacy_Cart {
    public $total = '';
    public float $weight = 0.5;
    protected static $made = 0;
    public function __construct() { self::$made++; new WC_Cart_Session($this); add_action('woocommerce_add_to_cart', [$this, 'calculate_totals'], 20); }
    public function get_cart() { return array_filter($this->cart_contents, function ($item) { return $item['quantity'] !== '' && $this->weight > 0; }); }
    public function is_empty() { return 0 === count($this->get_cart()); }
    public function get_total($view = 'view') { return apply_filters('woocommerce_cart_get_total', $this->total); }
    public function calculate_totals() {
        do_action('woocommerce_before_calculate_totals', $this);
        $this->total = implode(array_column($this->cart_contents, 'quantity'));
        $this->weight += 1;
        do_action('woocommerce_after_calculate_totals', $this);
    }
    public function each() { yield from $this->cart_contents; }
}
final class WC_Cart_Session {
    protected $cart;
    public function __construct(&$cart) {
        $this->cart = $cart;
        add_action('wp_loaded', [$this, 'get_cart_from_session']);
        add_action('wp', [$this, 'maybe_set_cart_cookies'], 99);
    }
    public function get_cart_from_session() {
        foreach (WC()->session->get('cart', []) as $key => $item) { $this->cart->cart_contents[$key] = $item; }
        do_action('woocommerce_cart_loaded_from_session', $this->cart);
        $this->cart->calculate_totals();
    }
    public function maybe_set_cart_cookies() { if (!$this->cart->is_empty() || isset($_COOKIE['woocommerce_items_in_cart'])) { header('X-Cart: 1'); } }
}
class WC_Customer {
    protected $data = [];
    public function __construct() { $this->data = (array) WC()->session->get('customer'); }
    public function get_billing_postcode() { return $this->data['postcode'] ?? ''; }
    public function get_is_vat_exempt() { return false; }
}
final class WC_Tax {
    public static function get_rates() { return WC()->customer->get_billing_postcode() === '1' ? [] : [19]; }
    public static function get_location() { return WC()->customer->get_billing_postcode(); }
}
final class WooCommerce {
    public $cart, $session, $customer;
    public static function instance() { static $only = null; return $only ??= new self(); }
    public function init() {
        $this->session = new WC_Session_Handler();
        $this->session->init();
        $this->customer = new WC_Customer();
        $this->cart = new WC_Cart();
    }
}
function WC() { return WooCommerce::instance(); }
function wc_price($price) { return "$price EUR"; }
function wc_notice_count() { return count(WC()->session->get('wc_notices', [])); }
function wc_get_cart_total() { return WC()->cart->get_total(); }
function get_woocommerce_currency() { return apply_filters('woocommerce_currency', 'EUR'); }
// As WooCommerce's private methods, which hooks call by __call().
final class WC_Gateways {
    public function __construct() { add_action('woocommerce_cart_loaded_from_session', [$this, 'loaded']); }
    public function __call($name, $arguments) { return $this->$name(...$arguments); }
    private function loaded($cart) { }
}
new WC_Gateways();
add_action('init', [WC(), 'init'], 0);
"#;

const SITE: &str = r#"<?php
require __DIR__ . '/wp-includes/plugin.php';
register_shutdown_function(fn () => do_action('shutdown'));
require __DIR__ . '/wp-content/plugins/woocommerce/includes/class-woocommerce.php';
include $_SERVER['PLUGIN'];
foreach (explode(' ', 'plugins_loaded init wp_loaded wp template_redirect wp_head the_content wp_footer') as $hook) { do_action($hook); }
echo 'price ', count(WC_Tax::get_rates()), ' notices ', wc_notice_count();
"#;

struct Shop {
    site: PathBuf,
    worker: Worker,
    host: Host,
    made: usize,
}

impl Shop {
    fn start(ini: &str) -> Shop {
        let mut host = Host::start(ini, &[]);
        host.script("wp-includes/plugin.php", CORE);
        host.script("wp-content/plugins/woocommerce/includes/class-woocommerce.php", SHOP);
        let site = host.script("index.php", SITE);
        Shop { site, worker: host.worker(0), host, made: 0 }
    }

    fn plugin(&mut self, code: &str) -> PathBuf {
        self.made += 1;
        self.host.script(&format!("wp-content/plugins/p{}/p.php", self.made), &format!("<?php {code}"))
    }

    /// What a run said about the cart, and its page. `cookie`: what the visitor has.
    fn run(&mut self, plugin: &Path, cookie: &str) -> (String, String) {
        let mut ask =
            Ask::get(&self.site).set("MILLRACE_COOKIES", "").set("PLUGIN", plugin.to_str().unwrap());
        if !cookie.is_empty() {
            ask = ask.set("HTTP_COOKIE", &format!("wp_woocommerce_session_1={cookie}"));
        }
        let answer = self.worker.run(&ask);
        let log: Vec<_> = answer.log.iter().filter(|line| format!("{line:?}").contains("Fatal")).collect();
        assert!(log.is_empty(), "{}: {log:?}", std::fs::read_to_string(plugin).unwrap());
        let note = answer.notes.iter().find(|(kind, _)| *kind == NoteKind::Cart);
        (note.map(|(_, text)| text.clone()).unwrap_or_default(), answer.text())
    }

    /// The page of all depends on the cart, or it is the same for a visitor with one.
    fn check(&mut self, code: &str, must_depend: bool) -> String {
        let plugin = self.plugin(code);
        let (note, public) = self.run(&plugin, "");
        let (own_note, own) = self.run(&plugin, "S3CRET");
        assert!(note.starts_with("+ ") || (note == "-" && own == public), "{note}: {code}\n{public}\n{own}");
        if must_depend {
            assert!(note.starts_with("+ ") && own_note.starts_with("+ "), "{note} {own_note}: {code}");
            assert!(own.contains("S3CRET"), "{code}: {own}");
        }
        note
    }
}

#[test]
fn a_shop_that_only_keeps_its_cart_reads_nothing() {
    let mut shop = Shop::start(INI);
    for code in [
        "",
        "add_action('wp_footer', function () { echo 'plain', isset(WC()->cart); });",
        "add_action('wp_footer', function () { echo WC()->cart instanceof WC_Cart; });",
        "add_action('wp_footer', function () { echo count(WC_Tax::get_rates()), wc_notice_count(); });",
        "add_filter('woocommerce_currency', fn ($all) => $all);",
        "class Cart { public $total = 1; function get_total() { return $this->total; } } add_action('wp_footer', fn () => print((new Cart)->get_total()));",
    ] {
        assert_eq!(shop.check(code, false), "-", "{code}");
    }
}

#[test]
fn who_has_read_is_said() {
    let mut shop = Shop::start(INI);
    for (code, said) in [
        (
            "function bar() { echo WC()->cart->get_total(); } add_action('wp_footer', 'bar');",
            "+ WC_Cart::get_total() by bar() in wp-content/plugins/p1/p.php",
        ),
        (
            "add_action('wp_footer', function () { echo WC()->cart->total; });",
            "+ WC_Cart->total by {closure}() in wp-content/plugins/p2/p.php",
        ),
        (
            "class Bar { static function show() { echo WC()->session->cart[0]['quantity'] ?? ''; } } add_action('wp_footer', ['Bar', 'show']);",
            "+ WC_Session_Handler->cart by Bar::show() in wp-content/plugins/p3/p.php",
        ),
        (
            "add_action('wp', fn () => print($_COOKIE['wp_woocommerce_session_1'] ?? ''));",
            "+ the cart's cookies by {closure}() in wp-content/plugins/p4/p.php",
        ),
        (
            "add_action('woocommerce_cart_loaded_from_session', function ($cart) { });",
            "+ the hook woocommerce_cart_loaded_from_session by {closure}() in wp-content/plugins/p5/p.php",
        ),
    ] {
        assert_eq!(shop.check(code, false), said, "{code}");
    }
}

/// A plugin registers one of WooCommerce's functions for a filter: the filter's caller gets what that function has read of the cart.
#[test]
fn functions_of_the_shop_count_where_a_plugin_hooks_them() {
    let mut shop = Shop::start(INI);
    let shows = "add_action('wp_footer', fn () => print(get_woocommerce_currency()));";
    for hooked in [
        "'wc_get_cart_total'",
        "[WC()->customer, 'get_billing_postcode']",
        "WC()->cart->get_total(...)",
        "['WC_Tax', 'get_location']",
    ] {
        let code = format!(
            "add_action('wp_loaded', fn () => add_filter('woocommerce_currency', {hooked}), 20); {shows}"
        );
        let note = shop.check(&code, true);
        assert!(note.contains(" by {closure}() in "), "{note}: {code}");
    }
    assert_eq!(shop.check(shows, false), "-");
}

/// Where nobody can see what is read, nothing is said.
#[test]
fn what_is_not_observed_is_not_said() {
    for ini in ["opcache.jit_buffer_size=16M\nopcache.jit=tracing\n", "opcache.file_cache=/tmp\n"] {
        let mut shop = Shop::start(&format!("{INI}{ini}"));
        let plugin = shop.plugin("");
        assert_eq!(shop.run(&plugin, "").0, "", "{ini}");
    }
}

/// Another's object in the place of the shop's may keep its state anywhere; a descendant's own methods are another's code.
#[test]
fn objects_of_others_count() {
    let mut shop = Shop::start(INI);
    let hooks = shop.host.script(
        "hooks/hooks.php",
        "<?php $GLOBALS['wp_filter'] = []; function begins() { millrace_cart_objects(WC()->cart, WC()->session, WC()->customer); }",
    );
    for (code, said) in [
        ("add_action('wp', 'begins');", "-"),
        ("class Own { static $s; function get_total() { return ''; } } add_action('init', function () { WC()->cart = new Own(); }, 5); add_action('wp', 'begins');", "+ an object of the class Own"),
        ("class Handler extends WC_Session_Handler { } add_action('wp', function () { WC()->session = new Handler(); begins(); });", "-"),
        ("class Handler extends WC_Session_Handler { } class Deep extends Handler { function get($k, $d = null) { return $this->_data[$k] ?? $d; } }
            add_action('wp', function () { WC()->session = new Deep(); begins(); });", "+ Deep->_data by Deep::get() in wp-content/plugins/p4/p.php"),
    ] {
        let plugin = shop.plugin(code);
        let ask = Ask::get(&shop.site).set("MILLRACE_COOKIES", "").set("PLUGIN", plugin.to_str().unwrap());
        let answer = shop.worker.run(&ask.set("MILLRACE_INJECT", hooks.to_str().unwrap()));
        let note = answer.notes.iter().find(|(kind, _)| *kind == NoteKind::Cart).map(|(_, text)| text.as_str());
        assert_eq!(note, Some(said), "{code}: {:?} {}", answer.log, answer.text());
    }
}

/// What a theme prints in an element that the browser replaces does not count, if that is all it does.
#[test]
fn fragments_may_be_printed() {
    let mut shop = Shop::start(INI);
    let hooks = shop.host.script(
        "hooks/hooks.php",
        "<?php register_shutdown_function(function () {
            millrace_cart_fragments(true); ob_start(); apply_filters('woocommerce_add_to_cart_fragments', []); ob_end_clean(); millrace_cart_fragments(false);
        });",
    );
    let fragment = "add_filter('woocommerce_add_to_cart_fragments', function ($all) { ob_start(); link(); $all['a.cart'] = ob_get_clean(); return $all; });
        add_action('wp_footer', function () { link(); });";
    for (code, depends) in [
        (
            "function cart_link() { ?><a class=\"cart\"><?php echo esc_html(WC()->cart->get_total()); ?></a><?php }",
            false,
        ),
        (
            "function cart_link() { if (!WC()->cart) { return; } printf('<a class=\"cart\">%s</a>', WC()->cart->get_total()); }",
            false,
        ),
        (
            "function total() { return WC()->cart->get_total(); } function cart_link() { echo '<a class=\"cart\">', total(), '</a>'; }",
            false,
        ),
        // The same function shows it elsewhere.
        (
            "function total() { return WC()->cart->get_total(); } function cart_link() { echo '<a class=\"cart\">', total(), '</a>'; } add_action('wp_footer', fn () => print(total()));",
            true,
        ),
        ("function cart_link() { $t = WC()->cart->get_total(); echo $t; return $t; }", true),
        ("function cart_link() { echo $GLOBALS['t'] = WC()->cart->get_total(); }", true),
        ("function cart_link() { static $t; echo $t = WC()->cart->get_total(); }", true),
        ("function cart_link() { global $t; echo $t = WC()->cart->get_total(); }", true),
        ("function cart_link() { echo $t = WC()->cart->get_total(); define('T', $t); }", true),
        (
            "function cart_link() { keep(WC()->cart->get_total()); } function keep($t) { $GLOBALS['t'] = $t; echo $t; }",
            true,
        ),
        (
            "function total() { static $t; return $t ??= WC()->cart->get_total(); } function cart_link() { echo total(); }",
            true,
        ),
        (
            "function cart_link() { echo WC()->cart->get_total(); add_filter('x', WC()->cart->get_total()); }",
            true,
        ),
    ] {
        let plugin = shop.plugin(&format!("{code} {}", fragment.replace("link()", "cart_link()")));
        let ask = Ask::get(&shop.site).set("MILLRACE_COOKIES", "").set("PLUGIN", plugin.to_str().unwrap());
        let answer = shop.worker.run(&ask.set("MILLRACE_INJECT", hooks.to_str().unwrap()));
        let note =
            answer.notes.iter().find(|(kind, _)| *kind == NoteKind::Cart).map(|(_, text)| text.clone());
        assert_eq!(
            note.is_some_and(|note| note.starts_with('+')),
            depends,
            "{code}: {:?} {}",
            answer.notes,
            answer.text()
        );
    }
}

// ---- generated plugins ----

/// Ways to what is in the cart, as text.
const WAYS: &[&str] = &[
    "(add_filter('woocommerce_currency', 'wc_get_cart_total') ?: get_woocommerce_currency())",
    "(add_filter('woocommerce_currency', [WC()->customer, 'get_billing_postcode']) ?: get_woocommerce_currency())",
    "(add_filter('woocommerce_currency', (new ReflectionMethod('WC_Tax', 'get_location'))->getClosure()) ?: get_woocommerce_currency())",
    "WC()->cart->get_total()",
    "wc_get_cart_total()",
    "WC_Tax::get_location()",
    "call_user_func([WC()->cart, 'get_total'])",
    "call_user_func_array([WC()->cart, 'get_total'], [])",
    "implode(array_column(WC()->cart->get_cart(), 'quantity'))",
    "(WC()->cart->is_empty() ? '' : 'S3CRET')",
    "WC()->cart->total",
    "WC()->cart->{'to' . 'tal'}",
    "(WC()->cart?->total)",
    "implode(array_column(WC()->cart->cart_contents, 'quantity'))",
    "(WC()->cart->cart_contents[0]['quantity'] ?? '')",
    "(isset(WC()->cart->cart_contents[0]) ? 'S3CRET' : '')",
    "(empty(WC()->cart->cart_contents) ? '' : 'S3CRET')",
    "implode(array_column(WC()->cart->coupons, 'quantity'))",
    "(WC()->session->get('cart')[0]['quantity'] ?? '')",
    "(WC()->session->cart[0]['quantity'] ?? '')",
    "(isset(WC()->session->cart) ? 'S3CRET' : '')",
    "WC()->session->get_customer_id()",
    "WC()->customer->get_billing_postcode()",
    "(new WC_Customer())->get_billing_postcode()",
    "(function () { $s = new WC_Session_Handler(); $s->init(); return $s->get_customer_id(); })()",
    "(function () { $s = new class extends WC_Session_Handler { function own() { return $this->_customer_id; } }; $s->init(); return $s->own(); })()",
    "(function () { $s = new class extends WC_Session_Handler { function own() { return $this->get('cart')[0]['quantity'] ?? ''; } }; $s->init(); return $s->own(); })()",
    "(fn () => $this->_customer_id)->call(WC()->session)",
    "Closure::bind(function () { return $this->_data['customer']['postcode'] ?? ''; }, WC()->session, WC_Session_Handler::class)()",
    "Closure::bind(fn () => $this->get_total(), WC()->cart, WC_Cart::class)()",
    "Closure::fromCallable([WC()->cart, 'get_total'])()",
    "(WC()->cart->get_total(...))()",
    "(new ReflectionMethod('WC_Cart', 'get_total'))->invoke(WC()->cart)",
    "(new ReflectionMethod('WC_Cart', 'get_total'))->getClosure(WC()->cart)()",
    "(new ReflectionProperty('WC_Cart', 'total'))->getValue(WC()->cart)",
    "(new ReflectionProperty('WC_Session', '_data'))->getValue(WC()->session)['cart'][0]['quantity'] ?? ''",
    "json_encode(WC()->cart)",
    "print_r(WC()->session, true)",
    "var_export(WC()->customer, true)",
    "serialize(WC()->cart)",
    "implode(array_filter((array) WC()->cart, 'is_string'))",
    "implode(array_filter(get_object_vars(WC()->cart), 'is_string'))",
    "implode(array_filter(get_mangled_object_vars(WC()->cart), 'is_string'))",
    "http_build_query(WC()->cart)",
    "json_encode(clone WC()->cart)",
    "(clone WC()->cart)->total",
    "(clone WC()->cart)->get_total()",
    "(function () { foreach (WC()->cart as $k => $v) { if ($k === 'total') { return $v; } } })()",
    "(function () { foreach (WC()->cart->each() as $v) { return $v['quantity']; } return ''; })()",
    "(function () { $r = &WC()->cart->total; return $r; })()",
    "(function () { ['quantity' => $q] = WC()->cart->cart_contents[0] ?? ['quantity' => '']; return $q; })()",
    "implode(array_map(fn ($item) => $item['quantity'], WC()->cart->cart_contents))",
    "(function () { ob_start(); var_dump(WC()->cart); return ob_get_clean(); })()",
    "(WC()->cart == new WC_Cart() ? '' : 'S3CRET')",
    "implode(array_column(array_filter(array_map(fn ($all) => $all[0]['function'][0] ?? null, $GLOBALS['wp_filter']['woocommerce_add_to_cart']->callbacks), 'is_object'), 'total'))",
    "($_COOKIE['wp_woocommerce_session_1'] ?? '')",
    "implode($_COOKIE)",
    "(string) filter_input(INPUT_COOKIE, 'wp_woocommerce_session_1')",
    "@getallheaders()['Cookie']",
    "@$_SERVER['HTTP_COOKIE']",
    "(isset($_COOKIE['wp_woocommerce_session_1']) ? 'S3CRET' : '')",
    "array_reduce([WC()->cart], fn ($all, $cart) => $all . $cart->total)",
    "implode(array_column([WC()->cart], 'total'))",
    "implode(iterator_to_array((function () { yield WC()->cart->total; })()))",
    "(function () { $name = 'WC'; $get = 'get_total'; return $name()->cart->$get(); })()",
    "(function () { return $GLOBALS['seen']->total; })()",
    "(function () { return $GLOBALS['seen']->get_total(); })()",
];

/// Ways by which a plugin is given it. The last line of the page prints it.
const FILTERS: &[&str] = &[
    "add_action('woocommerce_cart_loaded_from_session', function ($cart) { $GLOBALS['given'] = implode(array_column($cart->cart_contents, 'quantity')); });",
    "add_action('woocommerce_cart_loaded_from_session', function ($cart) { $GLOBALS['cart'] = $cart; }); add_action('wp_footer', function () { $GLOBALS['given'] = $GLOBALS['cart']->total; }, 1);",
    "add_action('woocommerce_before_calculate_totals', function ($cart) { foreach ($cart->cart_contents as $item) { $GLOBALS['given'] = $item['quantity']; } });",
    "add_action('woocommerce_after_calculate_totals', function () { $GLOBALS['given'] = debug_backtrace()[3]['object']->total ?? debug_backtrace()[4]['object']->total ?? 'S3CRET'; });",
    "add_filter('woocommerce_cart_get_total', function ($total) { return $GLOBALS['given'] = $total; }); add_action('wp_footer', fn () => WC()->cart->get_total(), 1);",
    "class Keeper { static $kept; static function keep($cart) { self::$kept = $cart; } } add_action('woocommerce_after_calculate_totals', 'Keeper::keep');
        add_action('wp_footer', function () { $GLOBALS['given'] = Keeper::$kept->total; }, 1);",
    "add_action('woocommerce_after_calculate_totals', 'var_dump');",
    "add_action('woocommerce_cart_loaded_from_session', 'print_r');",
    "$GLOBALS['shown'] = new ArrayObject; add_action('woocommerce_after_calculate_totals', [$GLOBALS['shown'], 'append']); add_action('wp_footer', function () { $GLOBALS['given'] = $GLOBALS['shown'][0]->total; }, 1);",
    "class Any { function __call($n, $a) { $GLOBALS['given'] = $a[0]->total; } } add_action('woocommerce_after_calculate_totals', [new Any, 'anything']);",
    "class Magic { function __invoke($cart) { $GLOBALS['given'] = $cart->total; } } add_action('woocommerce_after_calculate_totals', new Magic);",
];

const HOOKS: &str = "wp_loaded wp template_redirect wp_head the_content wp_footer shutdown";

/// A plugin that prints what is in the cart: read at one hook, behind WooCommerce's own callbacks, and printed there or at the end.
fn generated(random: &mut Random, at: usize) -> String {
    let way = random.way(WAYS, at);
    let hooks: Vec<_> = HOOKS.split(' ').collect();
    let hook = random.of(&hooks);
    let keeps = "add_action('wp_loaded', function () { $GLOBALS['seen'] = WC()->cart; }, 50);";
    if random.below(2) == 0 || hook == "shutdown" {
        return format!("{keeps} add_action('{hook}', function () {{ echo {way}; }}, 60);");
    }
    format!(
        "{keeps} add_action('{hook}', function () {{ $GLOBALS['read'] = {way}; }}, 60); add_action('wp_footer', function () {{ echo $GLOBALS['read']; }}, 90);"
    )
}

#[test]
fn no_generated_plugin_reads_the_cart_unseen() {
    let mut shop = Shop::start(INI);
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    for at in 0..300 {
        let code = generated(&mut random, at);
        shop.check(&code, true);
    }
    for code in FILTERS {
        shop.check(
            &format!("{code} add_action('wp_footer', function () {{ echo $GLOBALS['given'] ?? ''; }}, 90);"),
            true,
        );
    }
}

#[test]
fn statements_about_sessions_count() {
    let mut shop = Shop::start(INI);
    for (statement, depends) in [
        ("SELECT session_value FROM wp_woocommerce_sessions WHERE session_key = ''", true),
        ("select 1 from `WP_WooCommerce_Sessions`", true),
        ("SELECT meta_value FROM wp_usermeta WHERE meta_key = '_woocommerce_persistent_cart_1'", true),
        ("SELECT * FROM wp_posts", false),
    ] {
        let code = format!(
            "add_action('wp_footer', function () {{ try {{ (new PDO('sqlite::memory:'))->query(\"{statement}\"); }} catch (PDOException $e) {{}} }});"
        );
        assert_eq!(shop.check(&code, false).starts_with('+'), depends, "{statement}");
    }
}
