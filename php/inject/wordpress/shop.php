<?php
namespace Millrace\WordPress;

/** Changes in a shop of WooCommerce: prices and stock are purged hard, because somebody buys by them. */
final class Shop
{
    public const HOOKS = [
        'woocommerce_product_set_stock' => ['stock', 1, 10],
        'woocommerce_variation_set_stock' => ['stock', 1, 10],
        'woocommerce_product_set_stock_status' => ['availability', 1, 10],
        'woocommerce_variation_set_stock_status' => ['availability', 1, 10],
        'woocommerce_product_object_updated_props' => ['properties', 2, 10],
        'woocommerce_update_product' => ['product', 1, 10],
        'woocommerce_new_product_variation' => ['variation', 1, 10],
        'woocommerce_update_product_variation' => ['variation', 1, 10],
        'woocommerce_delete_product_variation' => ['variation', 1, 10],
        'wc_after_products_starting_sales' => ['sales', 1, 10],
        'wc_after_products_ending_sales' => ['sales', 1, 10],
        'woocommerce_reduce_order_stock' => ['order', 1, 10],
        'woocommerce_restore_order_stock' => ['order', 1, 10],
        'woocommerce_order_status_cancelled' => ['cancelled', 2, 10],
        'woocommerce_settings_saved' => ['all', 0, 10],
        'woocommerce_attribute_updated' => ['all', 0, 10],
        'woocommerce_attribute_deleted' => ['all', 0, 10],
        'woocommerce_tax_rate_added' => ['all', 0, 10],
        'woocommerce_tax_rate_updated' => ['all', 0, 10],
        'woocommerce_tax_rate_deleted' => ['all', 0, 10],
    ];

    private const PRICES = ['price', 'regular_price', 'sale_price', 'date_on_sale_from', 'date_on_sale_to', 'tax_status', 'tax_class'];
    private const STOCK = ['stock_quantity', 'stock_status', 'manage_stock', 'backorders', 'low_stock_amount'];
    private const LISTED = ['catalog_visibility', 'featured', 'price', 'stock_status'];

    /** The number in stock: wherever the product is shown. */
    public static function stock($product): void
    {
        self::changed($product);
    }

    /** In stock or not: some shops take it out of their lists then. */
    public static function availability($id): void
    {
        self::sales([$id]);
    }

    public static function properties($product, $properties): void
    {
        if (array_intersect((array) $properties, [...self::PRICES, ...self::STOCK])) {
            self::changed($product);
        }
        if (is_object($product) && array_intersect((array) $properties, self::LISTED)) {
            self::lists($product->get_parent_id() ?: $product->get_id());
        }
    }

    public static function product($id): void
    {
        Changes::soft("post-$id");
    }

    public static function variation($id): void
    {
        $parent = wp_get_post_parent_id($id);
        Changes::soft("post-$id", ...($parent ? ["post-$parent"] : []));
    }

    /** Products whose price or availability has changed. */
    public static function sales($ids): void
    {
        foreach ((array) $ids as $id) {
            $product = wp_get_post_parent_id($id) ?: $id;
            Changes::hard("post-$id", "post-$product");
            self::lists($product);
        }
    }

    /** The stock of all products of an order has changed. */
    public static function order($order): void
    {
        foreach (is_object($order) ? $order->get_items() : [] as $item) {
            $product = is_callable([$item, 'get_product']) ? $item->get_product() : null;
            if ($product) {
                self::changed($product);
            }
        }
    }

    public static function cancelled($id, $order = null): void
    {
        self::order($order);
    }

    public static function all(): void
    {
        Changes::all();
    }

    private static function changed($product): void
    {
        if (!is_object($product)) {
            return;
        }
        $parent = $product->get_parent_id();
        Changes::hard('post-' . $product->get_id(), ...($parent ? ["post-$parent"] : []));
    }

    /** Shop, categories and lists that a product is on. */
    private static function lists($id): void
    {
        $post = get_post($id);
        if ($post && $post->post_status === 'publish') {
            Changes::soft(...Posts::shown($post), ...["list-$post->post_type", 'list-any']);
        }
    }
}
