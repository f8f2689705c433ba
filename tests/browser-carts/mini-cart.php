<?php
namespace Automattic\WooCommerce\Blocks\BlockTypes;

/**
 * What WooCommerce's mini-cart block prints in the header: it forbids to store the page if there is something in the cart
 * (BlocksSharedState::load_cart_state). A part of the shop's plugin.
 */
final class MiniCart
{
    private const BLOCKS = ['test_mini_cart_block' => 'test_printed_cart', 'test_interactive_cart' => [self::class, 'interactive']];

    public static function render($html, $block)
    {
        foreach (($block['attrs']['slug'] ?? '') === 'header' ? array_filter(self::BLOCKS, 'get_option', ARRAY_FILTER_USE_KEY) : [] as $print) {
            if (!\WC()->cart->is_empty()) {
                defined('DONOTCACHEPAGE') || define('DONOTCACHEPAGE', true);
                nocache_headers();
            }
            $html .= $print(\WC()->cart);
        }
        return $html;
    }

    /**
     * Since WooCommerce 10.5 (MiniCart::render_experimental_iapi_mini_cart) the cart is state of WordPress's Interactivity API, and directives put it into the
     * page, here and in the browser. Up to then an attribute has the browser fetch it anew; since 10.9 the script does it by itself, and since 11 the cart has a
     * namespace of its own.
     */
    private static function interactive(object $cart): string
    {
        $count = $cart->get_cart_contents_count();
        $version = get_option('test_interactive_cart');
        $store = $version === '11' ? 'woocommerce/cart' : 'woocommerce';
        $fetches = $version === '10.5' ? "data-wp-init=\"$store::actions.refreshCartItems\"" : "data-wp-on-document--wc-blocks_added_to_cart=\"$store::actions.refreshCartItems\"";
        wp_enqueue_script_module('test-cart', content_url('cart-module.js'), ['@wordpress/interactivity']);
        wp_interactivity_config('test-cart', ['store' => $store, 'fetches' => $version !== '10.5']);
        wp_interactivity_state($store, ['cart' => ['items' => array_values($cart->contents()), 'items_count' => $count, 'totals' => ['total_price' => $cart->total()]]]);
        wp_interactivity_state('woocommerce/mini-cart', ['text' => sprintf('%d in the cart, %d', $count, $cart->total()), 'isEmpty' => $count === 0]);
        return wp_interactivity_process_directives(<<<HTML
            <div data-wp-interactive="woocommerce/mini-cart" $fetches>
                <div id="interactive-cart"><b data-wp-text="state.text"></b><i data-wp-bind--hidden="state.isEmpty" data-wp-class--is-empty="state.isEmpty">:</i>
                <ul><template data-wp-each--item="$store::state.cart.items"><li class="item">x</li></template></ul></div>
            </div>
            HTML);
    }
}

add_filter('render_block_core/template-part', [MiniCart::class, 'render'], 10, 2);
