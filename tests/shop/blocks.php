<?php
namespace Automattic\WooCommerce\Blocks;

/** As WooCommerce's: with something in the cart, the browser loads the scripts of the checkout early. */
final class AssetsController
{
    public static function add_resource_hints($urls, $relation)
    {
        return $relation === 'prefetch' && !\WC()->cart->is_empty()
            ? array_merge($urls, [['href' => home_url('/wp-includes/js/dist/data.min.js'), 'as' => 'script']]) : $urls;
    }
}

add_filter('wp_resource_hints', [AssetsController::class, 'add_resource_hints'], 10, 2);
