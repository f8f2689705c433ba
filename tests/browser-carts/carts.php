<?php
/**
 * Where a theme shows the cart; a must-use plugin of the test, beside shop.php. shop.php prints `#mini-cart` at the end of each page, and its script puts the
 * cart into it. Here it gets a place at the top of the window, and block themes get a block of their own.
 */

add_action('wp_head', fn () => print '<style>#mini-cart, #mini-cart-block, #interactive-cart { position: fixed; top: 40px; right: 8px; z-index: 99999; padding: 8px 16px;'
    . ' background: #ffd54f; color: #000; font: 20px sans-serif; } #mini-cart-block { top: 96px; background: #4fc3f7; }'
    . ' #interactive-cart { top: 96px; background: #aed581; }</style>');

/** What WooCommerce's mini-cart block prints in the header: it forbids to store the page if there is something in the cart (BlocksSharedState::load_cart_state). */
add_filter('render_block_core/template-part', function ($html, $block) {
    $blocks = ['test_mini_cart_block' => 'test_printed_cart', 'test_interactive_cart' => 'test_interactive_cart'];
    foreach (($block['attrs']['slug'] ?? '') === 'header' ? array_filter($blocks, 'get_option', ARRAY_FILTER_USE_KEY) : [] as $print) {
        if (!WC()->cart->is_empty()) {
            defined('DONOTCACHEPAGE') || define('DONOTCACHEPAGE', true);
            nocache_headers();
        }
        $html .= $print(WC()->cart);
    }
    return $html;
}, 10, 2);

/** It prints the state of the cart, and asks the Store API for the cart on each load (stores/woocommerce/cart.js). */
function test_printed_cart(object $cart): string
{
    return sprintf('<div id="mini-cart-block">%d in the cart, %d</div>', $cart->get_cart_contents_count(), $cart->total()) . <<<'HTML'
        <script>
        addEventListener('load', async () => {
            const cart = await (await fetch('/wp-json/wc/store/v1/cart')).json();
            document.querySelector('#mini-cart-block').textContent = `${cart.items_count} in the cart, ${cart.totals.total_price}`;
        });
        </script>
        HTML;
}

/**
 * Since WooCommerce 10.5 (MiniCart::render_experimental_iapi_mini_cart) the cart is state of WordPress's Interactivity API, and directives put it into the
 * page, here and in the browser.
 */
function test_interactive_cart(object $cart): string
{
    $count = $cart->get_cart_contents_count();
    wp_enqueue_script_module('test-cart', content_url('cart-module.js'), ['@wordpress/interactivity']);
    wp_interactivity_state('woocommerce', ['cart' => ['items' => array_values($cart->contents()), 'items_count' => $count, 'totals' => ['total_price' => $cart->total()]]]);
    wp_interactivity_state('woocommerce/mini-cart', ['text' => sprintf('%d in the cart, %d', $count, $cart->total()), 'isEmpty' => $count === 0]);
    return wp_interactivity_process_directives(<<<'HTML'
        <div data-wp-interactive="woocommerce/mini-cart" data-wp-init="woocommerce::actions.refreshCartItems">
            <div id="interactive-cart"><b data-wp-text="state.text"></b><i data-wp-bind--hidden="state.isEmpty" data-wp-class--is-empty="state.isEmpty">:</i>
            <ul><template data-wp-each--item="woocommerce::state.cart.items"><li class="item">x</li></template></ul></div>
        </div>
        HTML);
}
