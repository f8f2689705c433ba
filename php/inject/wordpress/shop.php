<?php
namespace Millrace\WordPress;

/**
 * Changes in a shop of WooCommerce; its settings are in Options.
 *
 * Prices purge hard, because customers buy by them; so does stock that an editor of the product changes. An order purges softly,
 * and only products whose stock WooCommerce manages and shows: the next visitor gets a new page, and a crowd keeps the old one meanwhile.
 * Adding to the cart purges nothing; by RFC 9111 section 4.4 alone, a POST to a product's page would make that page stale.
 */
final class Shop
{
    public const HOOKS = [
        'woocommerce_product_set_stock' => ['stock', 1, 10],
        'woocommerce_variation_set_stock' => ['stock', 1, 10],
        'woocommerce_product_set_stock_status' => ['availability', 1, 10],
        'woocommerce_variation_set_stock_status' => ['availability', 1, 10],
        'woocommerce_product_object_updated_props' => ['properties', 2, 10],
        'woocommerce_update_product' => ['product', 2, 10],
        'woocommerce_new_product_variation' => ['variation', 1, 10],
        'woocommerce_update_product_variation' => ['variation', 1, 10],
        'woocommerce_delete_product_variation' => ['variation', 1, 10],
        'wc_after_products_starting_sales' => ['sales', 1, 10],
        'wc_after_products_ending_sales' => ['sales', 1, 10],
        // Since WooCommerce 10.5, Action Scheduler begins and ends the sale of each product; WooCommerce itself does it at priority 10.
        'wc_product_start_scheduled_sale' => ['sales', 1, 11],
        'wc_product_end_scheduled_sale' => ['sales', 1, 11],
        // They surround the stock changes of an order, including one that an administrator processes.
        'woocommerce_can_reduce_order_stock' => ['order_begins', 1, \PHP_INT_MAX],
        'woocommerce_can_restore_order_stock' => ['order_begins', 1, \PHP_INT_MAX],
        'woocommerce_can_restock_refunded_items' => ['order_begins', 1, \PHP_INT_MAX],
        'woocommerce_reduce_order_stock' => ['order', 1, 10],
        'woocommerce_restore_order_stock' => ['order', 1, 10],
        'wp_loaded' => ['cart', 0, 0],
        'woocommerce_settings_saved' => ['all', 0, 10],
        'woocommerce_attribute_added' => ['all', 0, 10],
        'woocommerce_attribute_updated' => ['all', 0, 10],
        'woocommerce_attribute_deleted' => ['all', 0, 10],
        // Tables of their own.
        'woocommerce_tax_rate_added' => ['gone', 0, 10],
        'woocommerce_tax_rate_updated' => ['gone', 0, 10],
        'woocommerce_tax_rate_deleted' => ['gone', 0, 10],
        'woocommerce_after_shipping_zone_object_save' => ['gone', 0, 10],
        'woocommerce_delete_shipping_zone' => ['gone', 0, 10],
        'woocommerce_shipping_zone_method_added' => ['gone', 0, 10],
        'woocommerce_shipping_zone_method_deleted' => ['gone', 0, 10],
        'woocommerce_shipping_zone_method_status_toggled' => ['gone', 0, 10],
    ];

    private const PRICES = ['price', 'regular_price', 'sale_price', 'date_on_sale_from', 'date_on_sale_to', 'tax_status', 'tax_class'];
    private const STOCK = ['stock_quantity', 'stock_status', 'manage_stock', 'backorders', 'low_stock_amount'];
    // Lists can be sorted and filtered by price. WooCommerce says 'regular_price' where 'price' follows from that.
    private const LISTED = ['catalog_visibility', 'featured', 'price', 'regular_price', 'sale_price', 'date_on_sale_from', 'date_on_sale_to', 'stock_status'];

    /** What Action Scheduler does when a sale begins or ends: for each product, or once a day. */
    private const SALE_ACTIONS = "'wc_product_start_scheduled_sale', 'wc_product_end_scheduled_sale', 'woocommerce_scheduled_sales'";
    /** Seconds after which an action that has not run does not count: nothing runs the actions of this site. */
    private const OVERDUE = 3600;

    /** An order is changing the stock. */
    private static bool $ordered = false;
    /** It takes from the stock, and gives nothing back. */
    private static bool $taken = false;

    /** The number in stock: wherever the product is shown. */
    public static function stock($product): void
    {
        if (is_object($product) && self::shows_stock($product)) {
            self::changed($product, self::is_edited($product->get_id()));
        }
    }

    /** In stock or not: some shops take it out of their lists then. */
    public static function availability($id): void
    {
        $product = wp_get_post_parent_id($id) ?: $id;
        self::purge(self::is_edited($id), "post-$id", "post-$product");
        self::lists($product);
    }

    public static function properties($product, $properties): void
    {
        $properties = is_object($product) ? (array) $properties : [];
        if (array_intersect($properties, self::PRICES)) {
            self::changed($product, true);
        } elseif (array_intersect($properties, self::STOCK)) {
            self::stock($product);
        }
        if (array_intersect($properties, self::LISTED)) {
            self::lists($product->get_parent_id() ?: $product->get_id());
        }
    }

    /** Saved: also when an order has changed its stock. */
    public static function product($id, $product = null): void
    {
        if (!is_object($product) || self::shows_stock($product)) {
            Changes::soft("post-$id");
        }
    }

    public static function variation($id): void
    {
        $parent = wp_get_post_parent_id($id);
        Changes::soft("post-$id", ...($parent ? ["post-$parent"] : []));
    }

    /** Products whose price has changed. */
    public static function sales($ids): void
    {
        foreach ((array) $ids as $id) {
            $product = wp_get_post_parent_id($id) ?: $id;
            Changes::hard("post-$id", "post-$product");
            self::lists($product);
        }
    }

    /** When the next sale begins or ends, if Action Scheduler does that; null. */
    public static function next_sale(): ?int
    {
        global $wpdb;
        if (!function_exists('WC') || empty($wpdb->actionscheduler_actions)) {
            return null;
        }
        $found = $wpdb->get_var($wpdb->prepare(
            "SELECT MIN(scheduled_date_gmt) FROM $wpdb->actionscheduler_actions WHERE status = 'pending' AND hook IN (" . self::SALE_ACTIONS . ') AND scheduled_date_gmt > %s',
            gmdate('Y-m-d H:i:s', time() - self::OVERDUE)));
        return $found ? (strtotime("$found UTC") ?: null) : null;
    }

    public static function order_begins($may)
    {
        self::$ordered = (bool) $may;
        self::$taken = current_filter() === 'woocommerce_can_reduce_order_stock';
        return $may;
    }

    /** An order has changed the stock of its products, where WooCommerce manages it. */
    public static function order($order): void
    {
        foreach (is_object($order) ? $order->get_items() : [] as $item) {
            $product = is_callable([$item, 'get_product']) ? $item->get_product() : null;
            if ($product && is_callable([$product, 'managing_stock']) && $product->managing_stock() && self::shows_stock($product)) {
                self::changed($product, false);
            }
        }
        self::$ordered = false;
    }

    /** A POST that adds to the cart changes no page. */
    public static function cart(): void
    {
        $cart = ($_SERVER['REQUEST_METHOD'] ?? '') === 'POST' && (isset($_REQUEST['add-to-cart']) || isset($_GET['wc-ajax']));
        if ($cart && function_exists('WC') && !headers_sent()) {
            header('Millrace-Purge: only', false);
        }
    }

    /**
     * The shop or the site is hidden ("coming soon"), but not for this visitor, by a share link or a plugin: the page is not for
     * others.
     */
    public static function is_hidden(): bool
    {
        return function_exists('WC') && get_option('woocommerce_coming_soon') === 'yes'
            && (isset($_GET['woo-share']) || isset($_COOKIE['woo-share']) || has_filter('woocommerce_coming_soon_exclude'));
    }

    public static function gone(): void
    {
        Changes::gone();
    }

    public static function all(): void
    {
        Changes::all();
    }

    private static function changed($product, bool $hard): void
    {
        $parent = $product->get_parent_id();
        self::purge($hard, 'post-' . $product->get_id(), ...($parent ? ["post-$parent"] : []));
    }

    private static function purge(bool $hard, string ...$tags): void
    {
        $hard ? Changes::hard(...$tags) : Changes::soft(...$tags);
    }

    /** Whether a page shows the number that an order leaves in stock; whether there is any left is `availability`. */
    private static function shows_stock($product): bool
    {
        $format = self::$ordered ? get_option('woocommerce_stock_format') : '';
        if ($format === 'low_amount' && self::$taken && function_exists('wc_get_low_stock_amount') && is_callable([$product, 'get_stock_quantity'])) {
            return $product->get_stock_quantity() <= wc_get_low_stock_amount($product);
        }
        return $format !== 'no_amount';
    }

    /** The user edits the product; it is no order. */
    private static function is_edited($id): bool
    {
        return !self::$ordered && did_action('init') && Changes::may('edit_post', wp_get_post_parent_id($id) ?: $id);
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
