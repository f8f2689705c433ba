<?php
/**
 * Where a theme shows the cart; a must-use plugin of the test, beside shop.php. shop.php prints `#mini-cart` at the end of each page, and its script puts the
 * cart into it. Here it gets a place at the top of the window, and block themes get a block of their own.
 */

add_action('wp_head', fn () => print '<style>#mini-cart, #mini-cart-block, #interactive-cart { position: fixed; top: 40px; right: 8px; z-index: 99999; padding: 8px 16px;'
    . ' background: #ffd54f; color: #000; font: 20px sans-serif; } #mini-cart-block { top: 96px; background: #4fc3f7; }'
    . ' #interactive-cart { top: 96px; background: #aed581; }</style>');

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

/**
 * What that block does since WooCommerce 10.5 (MiniCart::render_experimental_iapi_mini_cart): the cart is state of WordPress's Interactivity API, and
 * directives put it into the page, here and in the browser.
 */
add_filter('render_block_core/template-part', function ($html, $block) {
    if (($block['attrs']['slug'] ?? '') !== 'header' || !get_option('test_interactive_cart')) {
        return $html;
    }
    $cart = WC()->cart;
    if (!$cart->is_empty()) {
        defined('DONOTCACHEPAGE') || define('DONOTCACHEPAGE', true);
        nocache_headers();
    }
    $count = $cart->get_cart_contents_count();
    wp_enqueue_script_module('test-cart', content_url('cart-module.js'), ['@wordpress/interactivity']);
    wp_interactivity_state('woocommerce', ['cart' => ['items' => array_values($cart->contents()), 'items_count' => $count, 'totals' => ['total_price' => $cart->total()]]]);
    wp_interactivity_state('woocommerce/mini-cart', ['text' => sprintf('%d in the cart, %d', $count, $cart->total()), 'isEmpty' => $count === 0]);
    return $html . wp_interactivity_process_directives(<<<'HTML'
        <div data-wp-interactive="woocommerce/mini-cart" data-wp-init="woocommerce::actions.refreshCartItems">
            <div id="interactive-cart"><b data-wp-text="state.text"></b><i data-wp-bind--hidden="state.isEmpty" data-wp-class--is-empty="state.isEmpty">:</i>
            <ul><template data-wp-each--item="woocommerce::state.cart.items"><li class="item">x</li></template></ul></div>
        </div>
        HTML);
}, 10, 2);
