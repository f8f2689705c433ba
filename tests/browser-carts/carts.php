<?php
/**
 * Where a theme shows the cart; a must-use plugin of the test, beside shop.php. shop.php prints `#mini-cart` at the end of each page, and its script puts the
 * cart into it. Here it gets a place at the top of the window, and block themes get a block of their own.
 */

add_action('wp_head', fn () => print '<style>#mini-cart, #mini-cart-block { position: fixed; top: 40px; right: 8px; z-index: 99999; padding: 8px 16px;'
    . ' background: #ffd54f; color: #000; font: 20px sans-serif; } #mini-cart-block { top: 96px; background: #4fc3f7; }</style>');

/**
 * What WooCommerce's mini-cart block does (BlocksSharedState::load_cart_state, stores/woocommerce/cart.js): it prints the state of the cart, forbids to
 * store the page if there is something in it, and asks the Store API for the cart on each load.
 */
add_filter('render_block_core/template-part', function ($html, $block) {
    if (($block['attrs']['slug'] ?? '') !== 'header' || !get_option('test_mini_cart_block')) {
        return $html;
    }
    $cart = WC()->cart;
    if (!$cart->is_empty()) {
        defined('DONOTCACHEPAGE') || define('DONOTCACHEPAGE', true);
        nocache_headers();
    }
    return $html . sprintf('<div id="mini-cart-block">%d in the cart, %d</div>', $cart->get_cart_contents_count(), $cart->total()) . <<<'HTML'
        <script>
        addEventListener('load', async () => {
            const cart = await (await fetch('/wp-json/wc/store/v1/cart')).json();
            document.querySelector('#mini-cart-block').textContent = `${cart.items_count} in the cart, ${cart.totals.total_price}`;
        });
        </script>
        HTML;
}, 10, 2);
