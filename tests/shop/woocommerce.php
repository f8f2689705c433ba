<?php
/**
 * A shop, as a server in front of WooCommerce sees one: the same cookies, URLs, session table, hooks and caching headers, and
 * pages that cost about as much. A plugin of test sites, in WooCommerce's folder: what it reads of a cart, it reads in functions that have the
 * names of WooCommerce's. theme.php, a must-use plugin, loads it and prints the cart on each page; seed.php makes products and pages.
 *
 * - GET  /shop/?orderby=&filter_color=&min_price=&paged=, /product/NAME/, /product-category/NAME/, /?s=WORD&post_type=product
 * - into the cart: POST /product/NAME/ with add-to-cart=ID, GET any page with ?add-to-cart=ID, POST ?wc-ajax=add_to_cart, POST
 *   /wp-json/wc/store/v1/cart/add-item
 * - the cart: /cart/, POST ?wc-ajax=get_refreshed_fragments, GET /wp-json/wc/store/v1/cart; /cart/?remove_item=KEY, ?undo_item=KEY;
 *   POST /cart/ with update_cart and cart[KEY][qty], or with apply_coupon and coupon_code; POST
 *   /wp-json/wc/store/v1/cart/remove-item. What has been done is told by a notice in the session, on the next page that prints notices;
 *   with the option woocommerce_cart_redirect_after_add that is the page behind a redirect
 * - by scripts: GET /wp-json/wc/store/v1/products?search=&category=&page=, /products/ID, /products/categories, /products/collection-data
 * - prices: net for customers in another country and for those exempt from VAT; in another currency with the session's client_currency
 * - every page prints WooCommerce's script wc-cart-fragments, which puts the cart into the page
 * - to order: /checkout/, POST ?wc-ajax=update_order_review; then POST /checkout/, ?wc-ajax=checkout or /wp-json/wc/store/v1/checkout
 *
 * TEST_SHOP_COST in wp-config.php says what pages cost: a list of products takes about 35 ms of CPU with 1, 60 ms with 6; with 0,
 * no more than WordPress needs.
 * An order is a row in the table test_orders, with its items and its session.
 */

defined('ABSPATH') || exit;
defined('TEST_SHOP_COST') || define('TEST_SHOP_COST', 1);

require __DIR__ . '/blocks.php';

/** The session of a guest: a cookie with an id and a keyed hash, and a row in the table when there is something to keep. */
final class WC_Session_Handler
{
    private string $cookie;
    private string $id = '';
    private bool $sent = false;
    private bool $dirty = false;
    private array $data = [];

    public function __construct()
    {
        $this->cookie = 'wp_woocommerce_session_' . COOKIEHASH;
        $found = $this->get_session_cookie();
        if ($found) {
            $this->id = $found[0];
            $this->data = $this->load();
        }
        add_action('shutdown', [$this, 'save_data'], 20);
    }

    /** The parts of the cookie: id, expiration, expiring, hash; false if there is none, or it is none of ours. */
    public function get_session_cookie()
    {
        $parts = explode('|', (string) wp_unslash($_COOKIE[$this->cookie] ?? ''));
        if (count($parts) !== 4 || (int) $parts[1] < time()) {
            return false;
        }
        return hash_equals($this->hash($parts[0], $parts[1]), $parts[3]) ? $parts : false;
    }

    /** As WooCommerce: that there is a cookie is enough. */
    public function has_session(): bool
    {
        return isset($_COOKIE[$this->cookie]) || $this->sent || is_user_logged_in();
    }

    public function get_customer_id(): string
    {
        return $this->id ?: ($this->id = (string) get_current_user_id() ?: 't_' . bin2hex(random_bytes(15)));
    }

    /** The session is the account's in every browser. If there is something in a guest's cart, or nothing in the account's, the guest's stays. */
    public function log_in(int $user): void
    {
        $guest = $this->data;
        $this->id = (string) $user;
        $this->data = $this->load();
        if (!empty($guest['cart']) || empty($this->data['cart'])) {
            [$this->data, $this->dirty] = [$guest, true];
        }
        $this->send();
    }

    /** The browser forgets the session; the account keeps it. */
    public function log_out(): void
    {
        $this->save_data();
        [$this->id, $this->data] = ['', []];
        setcookie($this->cookie, '', time() - 3600, '/');
    }

    public function set_customer_session_cookie(bool $set): void
    {
        if (!$set || $this->sent || $this->get_session_cookie() || headers_sent()) {
            return;
        }
        $this->send();
    }

    /** The cookie; it is renewed after some time, as in WooCommerce. */
    private function send(): void
    {
        [$id, $end] = [$this->get_customer_id(), time() + 172800];
        $expiring = time() + (int) apply_filters('wc_session_expiring', 86400);
        setcookie($this->cookie, "$id|$end|$expiring|" . $this->hash($id, $end), $end, '/', '', is_ssl(), true);
        $this->sent = true;
    }

    /** Renews the cookie if it is time. The session of an account is for those who are logged in. */
    public function init_session_cookie(): void
    {
        $user = (string) get_current_user_id();
        if ($user !== '0' && $user !== $this->id || $user === '0' && is_numeric($this->id)) {
            $this->id = $user ?: '';
            $this->data = $this->id === '' ? [] : $this->load();
            $this->data && !headers_sent() && $this->send();
            return;
        }
        $found = $this->get_session_cookie();
        if ($found && (int) $found[2] <= time() && !headers_sent()) {
            $this->send();
        }
    }

    /** A nonce of the shop belongs to the session of a guest. */
    public function maybe_update_nonce_user_logged_out($user, $action = -1)
    {
        return is_string($action) && str_starts_with($action, 'woocommerce') && $this->has_session() ? $this->get_customer_id() : $user;
    }

    /** All of it, as it is stored. */
    public function get_session_data(): array
    {
        return $this->data;
    }

    public function get(string $key, $default = null)
    {
        return $this->data[$key] ?? $default;
    }

    public function set(string $key, $value): void
    {
        if (($this->data[$key] ?? null) !== $value) {
            $this->data[$key] = $value;
            $this->dirty = true;
        }
    }

    public function save_data(): void
    {
        global $wpdb;
        if ($this->dirty && $this->has_session()) {
            $wpdb->query($wpdb->prepare(
                "INSERT INTO {$wpdb->prefix}woocommerce_sessions (session_key, session_value, session_expiry) VALUES (%s, %s, %d)"
                . ' ON DUPLICATE KEY UPDATE session_value = VALUES(session_value), session_expiry = VALUES(session_expiry)',
                $this->id,
                serialize($this->data),
                time() + 172800,
            ));
            $this->dirty = false;
        }
    }

    private function load(): array
    {
        global $wpdb;
        $found = $wpdb->get_var($wpdb->prepare("SELECT session_value FROM {$wpdb->prefix}woocommerce_sessions WHERE session_key = %s", $this->id));
        return $found ? unserialize($found, ['allowed_classes' => false]) : [];
    }

    private function hash(string $id, $end): string
    {
        return hash_hmac('md5', "$id|$end", wp_hash("$id|$end"));
    }
}

/** The cart: product => how many, in the session. */
final class WC_Cart
{
    public function __construct(private WC_Session_Handler $session)
    {
    }

    /** As WooCommerce has it: an item has a key. */
    public function get_cart(): array
    {
        $items = [];
        foreach ($this->contents() as $id => $count) {
            $items[md5((string) $id)] = ['product_id' => $id, 'variation_id' => 0, 'quantity' => $count];
        }
        return $items;
    }

    /** Product => how many. */
    public function contents(): array
    {
        return $this->session->get('cart', []);
    }

    public function is_empty(): bool
    {
        return !$this->contents();
    }

    public function get_cart_contents_count(): int
    {
        return array_sum($this->contents());
    }

    public function get_cart_hash(): string
    {
        return $this->is_empty() ? '' : md5(json_encode($this->contents()) . $this->total());
    }

    public function total(): int
    {
        $total = 0;
        foreach ($this->contents() as $id => $count) {
            $total += $count * test_price($id);
        }
        return $this->session->get('applied_coupons', []) ? intdiv($total * 9, 10) : $total;
    }

    /** Whether the product is one. */
    public function add_to_cart(int $id, int $count = 1): bool
    {
        if (get_post_type($id) !== 'product' || $count < 1) {
            return false;
        }
        $cart = $this->contents();
        $cart[$id] = ($cart[$id] ?? 0) + $count;
        $this->session->set_customer_session_cookie(true);
        $this->session->set('cart', $cart);
        do_action('woocommerce_add_to_cart', md5((string) $id), $id, $count, 0, [], []);
        $this->maybe_set_cart_cookies();
        return true;
    }

    /** The product with this key: so many of it. */
    public function set_quantity(string $key, int $count): bool
    {
        $cart = $this->contents();
        foreach ($cart as $id => $had) {
            if (md5((string) $id) === $key) {
                $this->session->set('removed_cart_contents', [$key => [$id, $had]]);
                $cart[$id] = $count;
                $this->session->set('cart', array_filter($cart));
                $this->maybe_set_cart_cookies();
                return true;
            }
        }
        return false;
    }

    public function restore_cart_item(string $key): bool
    {
        [$id, $had] = $this->session->get('removed_cart_contents', [])[$key] ?? [0, 0];
        $this->session->set('removed_cart_contents', []);
        return $id && $this->add_to_cart($id, $had);
    }

    public function apply_coupon(string $code): bool
    {
        if ($code !== 'ten-percent' || $this->is_empty()) {
            return false;
        }
        $this->session->set('applied_coupons', [$code]);
        $this->maybe_set_cart_cookies();
        return true;
    }

    public function empty_cart(): void
    {
        $this->session->set('applied_coupons', []);
        $this->session->set('cart', []);
        do_action('woocommerce_cart_emptied', true);
        $this->maybe_set_cart_cookies();
    }

    /** Both cookies, if they are not yet as they should be. */
    public function maybe_set_cart_cookies(): void
    {
        if (headers_sent() || !did_action('wp_loaded')) {
            return;
        }
        $wanted = $this->is_empty() ? [] : ['woocommerce_items_in_cart' => '1', 'woocommerce_cart_hash' => $this->get_cart_hash()];
        foreach (['woocommerce_items_in_cart', 'woocommerce_cart_hash'] as $name) {
            $value = $wanted[$name] ?? '';
            if (($_COOKIE[$name] ?? '') !== $value) {
                setcookie($name, $value, $value === '' ? time() - 3600 : 0, '/');
                $_COOKIE[$name] = $value;
            }
        }
        if ($wanted) {
            do_action('woocommerce_set_cart_cookies', true);
        }
    }

    public function lines(): string
    {
        $lines = '';
        foreach ($this->contents() as $id => $count) {
            $lines .= sprintf('<tr class="cart_item" data-product="%d"><td>%s</td><td>%d</td></tr>', $id, esc_html(get_the_title($id)), $count);
        }
        return $lines;
    }
}

/** Keeps the cart's cookies as they should be. */
final class WC_Cart_Session
{
    public function __construct(private WC_Cart $cart)
    {
        add_action('wp_loaded', [$this, 'get_cart_from_session']);
        add_action('wp', [$this, 'maybe_set_cart_cookies'], 99);
    }

    /** Plugins may have their say. */
    public function get_cart_from_session(): void
    {
        do_action('woocommerce_cart_loaded_from_session', $this->cart);
    }

    public function maybe_set_cart_cookies(): void
    {
        $this->cart->maybe_set_cart_cookies();
    }
}

/** Who buys: an address and an exemption from VAT, in the session. */
final class WC_Customer
{
    private string $default = 'DE';

    public function __construct(private WC_Session_Handler $session)
    {
    }

    /** As WooCommerce: the address that was given; else where the visitor seems to be, looked up when the customer is loaded. */
    public function get_billing_country(): string
    {
        return apply_filters('woocommerce_customer_get_billing_country', $this->session->get('customer', [])['country'] ?? $this->default);
    }

    public function load(): void
    {
        $this->default = wc_get_customer_default_location()['country'];
    }

    public function get_is_vat_exempt(): bool
    {
        return !empty($this->session->get('customer', [])['is_vat_exempt']);
    }
}

function wc_get_user_agent(): string
{
    return $_SERVER['HTTP_USER_AGENT'] ?? '';
}

function wc_get_customer_default_location(): array
{
    $place = apply_filters('woocommerce_customer_default_location', 'DE');
    if (in_array(get_option('woocommerce_default_customer_address'), ['geolocation', 'geolocation_ajax'], true) && !preg_match('/bot|spider|crawl/i', wc_get_user_agent())) {
        $place = WC_Geolocation::geolocate_ip('', true, false)['country'] ?: $place;
    }
    return apply_filters('woocommerce_customer_default_location_array', ['country' => $place, 'state' => '']);
}

/** In which country an address is: by a proxy's field, or by what a database puts into the filter. */
final class WC_Geolocation
{
    public static function get_ip_address(): string
    {
        return $_SERVER['HTTP_X_REAL_IP'] ?? trim(explode(',', $_SERVER['HTTP_X_FORWARDED_FOR'] ?? $_SERVER['REMOTE_ADDR'] ?? '')[0]);
    }

    public static function geolocate_ip(string $address = '', bool $fallback = false, bool $api = true): array
    {
        $country = apply_filters('woocommerce_geolocate_ip', false, $address, $fallback, $api);
        if ($country !== false) {
            return ['country' => $country, 'state' => '', 'city' => '', 'postcode' => ''];
        }
        if ($address === '') {
            $address = self::get_ip_address();
            $country = strtoupper(($_SERVER['HTTP_CF_IPCOUNTRY'] ?? '') ?: ($_SERVER['HTTP_X_COUNTRY_CODE'] ?? ''));
        }
        return apply_filters('woocommerce_get_geolocation', ['country' => (string) $country, 'state' => '', 'city' => '', 'postcode' => ''], $address);
    }
}

/** What plugins and servers ask for: WC()->cart, WC()->session, WC()->customer. */
final class WooCommerce
{
    public ?WC_Session_Handler $session = null;
    public ?WC_Cart $cart = null;
    public ?WC_Customer $customer = null;
    public string $version = '11.0.0-test';
    public ?object $integrations = null;

    public static function instance(): self
    {
        static $only = null;
        return $only ??= new self();
    }

    public function init(): void
    {
        $this->session = new WC_Session_Handler();
        $this->cart = new WC_Cart($this->session);
        $this->customer = new WC_Customer($this->session);
        new WC_Cart_Session($this->cart);
        add_filter('nonce_user_logged_out', [$this->session, 'maybe_update_nonce_user_logged_out'], 10, 2);
        $this->session->init_session_cookie();
        $this->customer->load();
        do_action('woocommerce_init');
    }
}

/** Net prices for customers elsewhere, and for those exempt from VAT. */
final class WC_Tax
{
    public static function get_rates(): array
    {
        return WC()->customer->get_is_vat_exempt() || WC()->customer->get_billing_country() !== 'DE' ? [] : [19];
    }
}

function WC(): WooCommerce
{
    return WooCommerce::instance();
}

function wc_get_base_location(): array
{
    return ['country' => 'DE', 'state' => ''];
}

function get_woocommerce_currency(): string
{
    return apply_filters('woocommerce_currency', (WC()->session ? WC()->session->get('client_currency') : '') ?: get_option('woocommerce_currency', 'EUR'));
}

add_filter('default_option_woocommerce_currency', fn () => 'EUR');

/** What this customer pays for a product, in cents. */
function test_price(int $id): int
{
    $price = (int) get_post_meta($id, '_price', true);
    $price = (int) apply_filters('woocommerce_product_get_price', WC_Tax::get_rates() ? $price : intdiv($price * 100, 119), $id);
    return get_woocommerce_currency() === get_option('woocommerce_currency', 'EUR') ? $price : 2 * $price;
}

function wc_add_notice(string $text, string $type = 'success'): void
{
    $notices = WC()->session->get('wc_notices', []);
    $notices[$type][] = ['notice' => apply_filters("woocommerce_add_$type", $text), 'data' => []];
    WC()->session->set('wc_notices', $notices);
}

function wc_notice_count(): int
{
    return array_sum(array_map('count', WC()->session->get('wc_notices', [])));
}

/** Prints them, and takes them out of the session. */
function wc_print_notices(): void
{
    foreach (WC()->session->get('wc_notices', []) as $type => $notices) {
        foreach ($notices as $notice) {
            printf('<div class="woocommerce-message %s">%s</div>', esc_attr($type), esc_html($notice['notice']));
        }
    }
    if (wc_notice_count()) {
        WC()->session->set('wc_notices', []);
    }
}

add_action('init', function () {
    register_post_type('product', ['public' => true, 'label' => 'Products', 'rewrite' => ['slug' => 'product'], 'supports' => ['title', 'editor', 'custom-fields']]);
    register_taxonomy('product_cat', 'product', ['public' => true, 'label' => 'Categories', 'rewrite' => ['slug' => 'product-category']]);
    add_rewrite_endpoint('order-received', EP_PAGES);
    WC()->init();
    // What loading a shop's plugins costs each request, whatever it asks for.
    test_render('<p>A shop with its plugins, its blocks and its settings</p>', 20 * TEST_SHOP_COST);
}, 0);

add_action('wp_login', function ($name, $user) {
    WC()->session->log_in($user->ID);
    WC()->cart->maybe_set_cart_cookies();
}, 10, 2);
add_action('wp_logout', function () {
    WC()->session->log_out();
    WC()->cart->maybe_set_cart_cookies();
});

add_action('wp_loaded', function () {
    if (isset($_REQUEST['add-to-cart']) && is_numeric($_REQUEST['add-to-cart'])) {
        nocache_headers();
        $id = (int) $_REQUEST['add-to-cart'];
        if (WC()->cart->add_to_cart($id, (int) ($_REQUEST['quantity'] ?? 1))) {
            wc_add_notice(get_the_title($id) . ' has been added to your cart.');
            if (get_option('woocommerce_cart_redirect_after_add') === 'yes') {
                wp_safe_redirect(home_url('/shop/'));
                exit;
            }
        }
    }
    test_cart_action();
    if (isset($_POST['woocommerce_checkout_place_order']) && !isset($_GET['wc-ajax'])) {
        nocache_headers();
        $order = test_place_order(wp_unslash($_POST));
        if (is_int($order)) {
            wp_safe_redirect(test_received($order));
            exit;
        }
    }
}, 20);

/** What a form or link of the cart asks for; then the browser is sent to the cart, as in WooCommerce. */
function test_cart_action(): void
{
    $cart = WC()->cart;
    if (isset($_GET['remove_item'])) {
        $cart->set_quantity((string) $_GET['remove_item'], 0) && wc_add_notice('Item removed.');
    } elseif (isset($_GET['undo_item'])) {
        $cart->restore_cart_item((string) $_GET['undo_item']) || wc_add_notice('Nothing to undo.', 'error');
    } elseif (isset($_POST['apply_coupon'])) {
        $done = $cart->apply_coupon((string) ($_POST['coupon_code'] ?? ''));
        wc_add_notice($done ? 'Coupon applied.' : 'No such coupon.', $done ? 'success' : 'error');
    } elseif (isset($_POST['update_cart'])) {
        foreach ((array) ($_POST['cart'] ?? []) as $key => $item) {
            $cart->set_quantity((string) $key, max(0, (int) ($item['qty'] ?? 0)));
        }
        wc_add_notice('Cart updated.');
    } else {
        return;
    }
    nocache_headers();
    wp_safe_redirect(home_url($_REQUEST['back'] ?? '/cart/'));
    exit;
}

add_action('wp', function () {
    if (is_page(['cart', 'checkout'])) {
        defined('DONOTCACHEPAGE') || define('DONOTCACHEPAGE', true);
        nocache_headers();
    }
});

add_action('template_redirect', function () {
    $what = $_GET['wc-ajax'] ?? null;
    if (!is_string($what)) {
        return;
    }
    defined('DOING_AJAX') || define('DOING_AJAX', true);
    defined('DONOTCACHEPAGE') || define('DONOTCACHEPAGE', true);
    nocache_headers();
    $cart = WC()->cart;
    switch ($what) {
        case 'add_to_cart':
            $done = $cart->add_to_cart((int) ($_POST['product_id'] ?? 0), (int) ($_POST['quantity'] ?? 1));
            wp_send_json($done ? test_fragments() : ['error' => true]);
        case 'get_refreshed_fragments':
            wp_send_json(test_fragments());
        case 'update_order_review':
            $customer = array_filter(array_intersect_key(wp_unslash($_POST), array_flip(['country', 'postcode', 'is_vat_exempt'])));
            $customer && WC()->session->set('customer', $customer);
            isset($_POST['currency']) && WC()->session->set('client_currency', (string) $_POST['currency']);
            wp_send_json(['result' => 'success', 'fragments' => ['.order' => test_render('<table>' . $cart->lines() . '</table>', 8)]]);
        case 'checkout':
            $order = test_place_order(wp_unslash($_POST));
            wp_send_json(is_int($order) ? ['result' => 'success', 'redirect' => test_received($order)] : ['result' => 'failure', 'messages' => $order]);
        default:
            wp_die(-1);
    }
}, 0);

add_action('rest_api_init', function () {
    $route = fn (string $path, string $method, callable $run) => register_rest_route('wc/store/v1', $path, ['methods' => $method, 'callback' => $run, 'permission_callback' => '__return_true']);
    $cart = function (): WP_REST_Response {
        $answer = new WP_REST_Response([
            'items' => WC()->cart->contents(), 'items_count' => WC()->cart->get_cart_contents_count(), 'totals' => ['total_price' => WC()->cart->total()],
            'coupons' => WC()->session->get('applied_coupons', []), 'errors' => [], 'extensions' => (object) apply_filters('test_cart_extensions', []),
            'shipping_address' => (object) ['country' => WC()->customer->get_billing_country()],
        ]);
        $answer->header('Cache-Control', 'no-store');
        $answer->header('Nonce', wp_create_nonce('wc_store_api'));
        $answer->header('Nonce-Timestamp', time());
        $answer->header('User-ID', get_current_user_id());
        // WooCommerce's is a JSON Web Token: a client that sends it goes on with this customer's cart, without a cookie.
        $answer->header('Cart-Token', WC()->session->get_customer_id() . '.' . wp_hash(WC()->session->get_customer_id()));
        $answer->header('Cart-Hash', WC()->cart->get_cart_hash());
        return $answer;
    };
    $route('/cart', 'GET', $cart);
    $route('/cart/items', 'GET', fn () => WC()->cart->contents());
    $route('/cart/add-item', 'POST', function (WP_REST_Request $request) use ($cart) {
        if ($request->get_header('Nonce') && !wp_verify_nonce($request->get_header('Nonce'), 'wc_store_api')) {
            return new WP_Error('invalid_nonce', 'The nonce is invalid', ['status' => 403]);
        }
        return WC()->cart->add_to_cart((int) $request['id'], (int) ($request['quantity'] ?: 1)) ? $cart() : new WP_Error('no_product', 'No such product', ['status' => 400]);
    });
    $route('/cart/remove-item', 'POST', function (WP_REST_Request $request) use ($cart) {
        return WC()->cart->set_quantity((string) $request['key'], 0) ? $cart() : new WP_Error('no_item', 'No such item', ['status' => 400]);
    });
    $route('/products', 'GET', 'test_store_products');
    $route('/products/(?P<id>\d+)', 'GET', fn (WP_REST_Request $request) => get_post_type($request['id']) === 'product' ? test_store_product((int) $request['id'])
        : new WP_Error('no_product', 'No such product', ['status' => 404]));
    $route('/products/categories', 'GET', fn () => array_map(
        fn ($term) => ['id' => $term->term_id, 'name' => $term->name, 'count' => $term->count, 'permalink' => get_term_link($term)],
        (new WP_Term_Query())->query(['taxonomy' => 'product_cat', 'hide_empty' => true])));
    $route('/products/collection-data', 'GET', function (): array {
        global $wpdb;
        $range = $wpdb->get_row("SELECT MIN(meta_value + 0) AS least, MAX(meta_value + 0) AS most FROM $wpdb->postmeta WHERE meta_key = '_price'");
        return ['price_range' => ['min_price' => $range->least, 'max_price' => $range->most]];
    });
    $route('/checkout', 'POST', function (WP_REST_Request $request) {
        $order = test_store_order((string) $request['billing_email']);
        return is_int($order) ? ['order_id' => $order, 'status' => 'processing'] : new WP_Error('no_order', $order, ['status' => 400]);
    });
});

/** A product as the Store API shows it: prices as this customer pays them, and names of categories. */
function test_store_product(int $id): array
{
    $terms = array_map(fn ($term) => ['id' => $term->term_id, 'name' => $term->name, 'slug' => $term->slug], get_the_terms($id, 'product_cat') ?: []);
    return [
        'id' => $id, 'name' => get_the_title($id), 'permalink' => get_permalink($id), 'prices' => ['price' => (string) test_price($id), 'currency_code' => get_woocommerce_currency()],
        'categories' => $terms, 'is_in_stock' => get_post_meta($id, '_stock_status', true) === 'instock', 'extensions' => (object) [],
    ];
}

/** The same query as WooCommerce's: numbers only. */
function test_store_products(WP_REST_Request $request): WP_REST_Response
{
    $query = ['post_type' => 'product', 'fields' => 'ids', 'posts_per_page' => (int) ($request['per_page'] ?: 10), 'paged' => (int) ($request['page'] ?: 1), 's' => (string) $request['search']];
    $found = new WP_Query($query + ($request['category'] ? ['tax_query' => [['taxonomy' => 'product_cat', 'field' => 'slug', 'terms' => [$request['category']]]]] : []));
    $answer = new WP_REST_Response(array_map('test_store_product', $found->posts));
    $answer->header('X-WP-Total', $found->found_posts);
    return $answer;
}

function test_fragments(): array
{
    $html = '<div class="widget_shopping_cart_content"><table>' . WC()->cart->lines() . '</table></div>';
    $fragments = apply_filters('woocommerce_add_to_cart_fragments', ['div.widget_shopping_cart_content' => test_render($html, 4 * min(1, TEST_SHOP_COST))]);
    return ['fragments' => $fragments, 'cart_hash' => WC()->cart->get_cart_hash()];
}

// As WooCommerce's: what the last answer had, if its hash is that of the cookie - or both are empty -; else it asks.
add_action('wp_enqueue_scripts', function () {
    if (get_option('test_without_fragments')) {
        return;
    }
    wp_register_script('wc-cart-fragments', false, [], '1', true);
    wp_enqueue_script('wc-cart-fragments');
    wp_add_inline_script('wc-cart-fragments', <<<'JS'
        (async () => {
            const cookie = (document.cookie.match(/woocommerce_cart_hash=(\w+)/) || [])[1] || '';
            const put = (all) => Object.entries(all).forEach(([at, html]) => document.querySelectorAll(at).forEach((e) => { e.outerHTML = html; }));
            const known = JSON.parse(sessionStorage.getItem('wc_fragments') || '{}');
            if (known.cart_hash === cookie) return put(known.fragments);
            const answer = await (await fetch('/?wc-ajax=get_refreshed_fragments', { method: 'POST' })).json();
            sessionStorage.setItem('wc_fragments', JSON.stringify(answer));
            put(answer.fragments);
        })();
        JS);
});

function test_received(int $order): string
{
    return home_url("/checkout/order-received/$order/?key=" . wp_hash("order $order"));
}

/** The order's number; or why there is none. */
function test_place_order(array $form)
{
    if (!wp_verify_nonce($form['woocommerce-process-checkout-nonce'] ?? '', 'woocommerce-process_checkout')) {
        return 'the form has expired';
    }
    return test_store_order((string) ($form['billing_email'] ?? ''));
}

function test_store_order(string $email)
{
    global $wpdb;
    $cart = WC()->cart->contents();
    if (!$cart) {
        return 'the cart is empty';
    }
    do_action('woocommerce_checkout_create_order', null, []);
    $wpdb->insert("{$wpdb->prefix}test_orders", ['session' => WC()->session->get_customer_id(), 'email' => $email, 'items' => json_encode($cart), 'total' => WC()->cart->total()]);
    $order = (int) $wpdb->insert_id;
    do_action('woocommerce_new_order', $order, null);
    do_action('woocommerce_checkout_order_processed', $order, [], null);
    WC()->cart->empty_cart();
    return $order;
}

/** Blocks and filters run over a piece of a page `times` times: what a real shop's themes and plugins do with each product costs about that. */
function test_render(string $html, int $times = 1): string
{
    $done = $html;
    for ($n = 0; $n < $times; $n += 1) {
        $block = "<!-- wp:group {\"layout\":{\"type\":\"constrained\"}} --><div class=\"wp-block-group\">$html</div><!-- /wp:group -->";
        $done = wp_kses_post(do_shortcode(wptexturize(do_blocks($block))));
    }
    return $done;
}

/** A product on a list. */
function test_card(int $id): string
{
    $price = number_format(test_price($id) / 100, 2);
    $html = sprintf('<h3><a href="%s">%s</a></h3><p class="price">%s</p><p>%s, %s</p>', esc_url(get_permalink($id)), esc_html(get_the_title($id)), $price, esc_html(get_post_meta($id, '_color', true)), esc_html(wp_trim_words(get_post_field('post_content', $id), 20)));
    $add = sprintf('<a class="add_to_cart_button" data-product_id="%d" href="?add-to-cart=%d">Add to cart</a>', $id, $id);
    return '<li class="product">' . test_render($html . $add, 2 * TEST_SHOP_COST) . '</li>';
}

/** The list of products that the query asks for, with the filters beside it. */
add_shortcode('test_products', function (): string {
    $query = ['post_type' => 'product', 'posts_per_page' => 16, 'paged' => max(1, (int) ($_GET['paged'] ?? 1)), 'fields' => 'ids', 'meta_query' => []];
    if (!empty($_GET['filter_color'])) {
        $query['meta_query'][] = ['key' => '_color', 'value' => sanitize_key($_GET['filter_color'])];
    }
    if (!empty($_GET['min_price'])) {
        $query['meta_query'][] = ['key' => '_price', 'value' => (int) $_GET['min_price'], 'compare' => '>=', 'type' => 'NUMERIC'];
    }
    if (($_GET['orderby'] ?? '') === 'price') {
        $query += ['orderby' => 'meta_value_num', 'meta_key' => '_price'];
    }
    $found = new WP_Query($query);
    return "<p id=\"count\">$found->found_posts products</p><ul class=\"products\">" . implode('', array_map('test_card', $found->posts)) . '</ul>';
});

add_filter('the_content', function ($content) {
    if (!is_singular('product') || !in_the_loop()) {
        return $content;
    }
    $id = get_the_ID();
    $form = sprintf('<form class="cart" method="post" action="%s"><input name="quantity" value="1"><button name="add-to-cart" value="%d">Add to cart</button></form>', esc_url(get_permalink()), $id);
    $like = get_posts(['post_type' => 'product', 'numberposts' => 8, 'exclude' => [$id], 'orderby' => 'title', 'fields' => 'ids']);
    return $content . $form . '<ul class="related">' . implode('', array_map('test_card', $like)) . '</ul>';
});

add_shortcode('test_cart', fn () => '<table id="cart">' . test_render(WC()->cart->lines() ?: '<tr><td>Your cart is empty.</td></tr>', 12 * min(1, TEST_SHOP_COST)) . '</table>');

add_shortcode('test_checkout', function (): string {
    $order = (int) get_query_var('order-received');
    if ($order) {
        return "<p id=\"received\">Thank you: order $order.</p>";
    }
    if (WC()->cart->is_empty()) {
        return '<p id="empty">Your cart is empty.</p>';
    }
    $table = '<table id="order">' . test_render(WC()->cart->lines(), 12 * min(1, TEST_SHOP_COST)) . '</table>';
    return '<form name="checkout" class="checkout" method="post"><input name="billing_email">' . $table . wp_nonce_field('woocommerce-process_checkout', 'woocommerce-process-checkout-nonce', true, false) . '<button name="woocommerce_checkout_place_order" value="1">Place order</button></form>';
});

// Notices, on every page.
add_action('wp_footer', 'wc_print_notices', 5);
