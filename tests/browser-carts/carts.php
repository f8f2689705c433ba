<?php
/**
 * Where a theme shows the cart; a must-use plugin of the test, beside those of the shop. Its theme.php prints `#mini-cart` at the end of each page, and its script puts the
 * cart into it. Here it gets a place at the top of the window, and block themes get a block of their own (mini-cart.php).
 */

require_once WP_CONTENT_DIR . '/plugins/woocommerce/mini-cart.php';

add_action('wp_head', fn () => print '<style>#mini-cart, #mini-cart-block, #interactive-cart { position: fixed; top: 40px; right: 8px; z-index: 99999; padding: 8px 16px;'
    . ' background: #ffd54f; color: #000; font: 20px sans-serif; } #mini-cart-block { top: 96px; background: #4fc3f7; }'
    . ' #interactive-cart { top: 96px; background: #aed581; }</style>');

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
