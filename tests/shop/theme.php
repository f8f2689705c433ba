<?php
/**
 * What a theme does with the shop: the number of things and the total in the header of each page, as Storefront's storefront_cart_link() prints
 * them, and as a fragment for WooCommerce's script. A must-use plugin that loads the shop (woocommerce.php).
 */

require WP_CONTENT_DIR . '/plugins/woocommerce/woocommerce.php';

function test_mini_cart(): void
{
    printf('<div id="mini-cart">%d in the cart, %d</div>', WC()->cart->get_cart_contents_count(), WC()->cart->total());
}

add_filter('woocommerce_add_to_cart_fragments', function ($fragments) {
    ob_start();
    test_mini_cart();
    return (array) $fragments + ['div#mini-cart' => ob_get_clean()];
});

add_action('wp_footer', function () {
    test_mini_cart();
    echo '<div class="widget_shopping_cart_content"></div>';
});
