<?php
/**
 * What matters of a shop to a cache, as WooCommerce has it: its cookies, its pages, a cart of one's own on every page, and a
 * form with a nonce. A must-use plugin of the test site.
 */

// Which run made a page.
headers_sent() || header('X-Made: ' . uniqid('', true));

function test_cart(): string
{
    $session = strtok($_COOKIE['wp_woocommerce_session_' . COOKIEHASH] ?? '', '|');
    return $session ? "Cart of $session: " . get_option("test_cart_$session", 0) : 'Cart of nobody: 0';
}

function is_cart(): bool
{
    return is_page('basket');
}

// WordPress publishes at once what is due in less than a minute; a test does not wait so long.
add_filter('wp_insert_post_data', function ($data) {
    if ($data['post_status'] === 'publish' && strtotime($data['post_date_gmt'] . ' UTC') > time()) {
        $data['post_status'] = 'future';
    }
    return $data;
});

add_action('wp_loaded', function () {
    if (!isset($_GET['add-to-cart'])) {
        return;
    }
    $name = 'wp_woocommerce_session_' . COOKIEHASH;
    $session = strtok($_COOKIE[$name] ?? '', '|') ?: 't_' . bin2hex(random_bytes(8));
    update_option("test_cart_$session", get_option("test_cart_$session", 0) + 1, false);
    setcookie('woocommerce_items_in_cart', '1', 0, '/');
    setcookie('woocommerce_cart_hash', md5($session), 0, '/');
    setcookie($name, "$session|" . (time() + 172800) . '||' . md5($session), time() + 172800, '/', '', false, true);
    wp_safe_redirect(remove_query_arg('add-to-cart'));
    exit;
});

add_shortcode('test_shop', fn () => '<p id="mini-cart">' . esc_html(test_cart()) . '</p><a id="add" href="?add-to-cart=7">Add to cart</a>');
add_shortcode('test_cart', fn () => '<p id="cart">' . esc_html(test_cart()) . '</p>');
add_shortcode('test_form', fn () => '<form method="post">' . wp_nonce_field('test_form', '_test', true, false) . '</form>');
