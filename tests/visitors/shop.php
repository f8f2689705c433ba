<?php
/*
 * A little shop with what Millrace's hooks look at in WooCommerce: WC(), a session handler with a signed cookie, and flags that are
 * not. `?act=` says what a visitor does.
 */

class WC_Session_Handler
{
    private string $id = '';
    private array $data = [];

    public function name(): string
    {
        return 'wp_woocommerce_session_' . COOKIEHASH;
    }

    public function begin(): void
    {
        $cookie = $this->get_session_cookie();
        if ($cookie) {
            $this->id = $cookie[0];
            $this->data = get_option("shop_$this->id", []);
        }
    }

    /** As WooCommerce has it: also with a cookie that is not signed. */
    public function has_session(): bool
    {
        return isset($_COOKIE[$this->name()]) || $this->id !== '';
    }

    public function get_session_cookie(): array|false
    {
        [$id, $sign] = explode('|', $_COOKIE[$this->name()] ?? '') + ['', ''];
        return $id !== '' && hash_equals(wp_hash($id), $sign) ? [$id] : false;
    }

    /** As WooCommerce has it: each value serialized. */
    public function get_session_data(): array
    {
        return array_map('maybe_serialize', $this->data);
    }

    public function get($key)
    {
        return $this->data[$key] ?? null;
    }

    public function set(string $key, $value): void
    {
        if ($this->id === '') {
            $this->id = bin2hex(random_bytes(8));
            isset($_GET['silent']) || setcookie($this->name(), $this->id . '|' . wp_hash($this->id), 0, '/');
        }
        $this->data[$key] = $value;
        update_option("shop_$this->id", $this->data, false);
    }
}

function WC()
{
    static $shop = null;
    return $shop ??= (object) ['session' => null];
}

function wc_get_base_location(): array
{
    return ['country' => 'GB', 'state' => ''];
}

add_action('init', function () {
    if (is_admin()) {
        return;
    }
    $session = WC()->session = new WC_Session_Handler();
    $session->begin();
    if (isset($_GET['shop'])) {
        exit('shop is open');
    }
    $cart = $session->get('cart') ?: [];
    switch ($_GET['act'] ?? '') {
        case 'add': $cart[] = 'shoe'; $session->set('cart', $cart); break;
        case 'notice': $session->set('wc_notices', ['error' => ['sold out']]); break;
        case 'address': $session->set('customer', ['country' => 'GB', 'postcode' => 'E1 6AN']); break;
        case 'currency': $session->set('client_currency', 'EUR'); break;
        case 'empty':
            foreach (['cart', 'wc_notices', 'client_currency'] as $key) {
                $session->set($key, null);
            }
            $session->set('customer', ['country' => 'GB', 'state' => '', 'postcode' => '', 'is_vat_exempt' => false]);
            $session->set('removed_cart_contents', ['k' => 'shoe']);
            $cart = [];
    }
    foreach (['woocommerce_items_in_cart' => '1', 'woocommerce_cart_hash' => md5(serialize($cart))] as $name => $value) {
        if ($cart) {
            setcookie($name, $value, 0, '/');
        } elseif (isset($_COOKIE[$name])) {
            setcookie($name, '0', time() - 3600, '/');
        }
    }
    if ($cart) {
        add_action('wp_footer', fn () => print('cart of ' . count($cart)));
    }
});
