<?php
namespace Millrace\WordPress;

/**
 * Pages that differ by the visitor's address, which no key of the cache knows: they are not kept.
 *
 * WooCommerce takes a visitor's country from the address where the option woocommerce_default_customer_address says so:
 *
 * - `geolocation`: the same URL shows each country its own taxes and prices. Not kept is each page of the shop, and every other
 *   page on which a price, a tax or the customer's address was asked for once WordPress had loaded - a blog post without products
 *   is kept. The option decides, not whether an address was looked up: WooCommerce shows crawlers the shop's own country, and
 *   their pages would be everybody's.
 * - `geolocation_ajax`, "with page caching support": a URL without ?v=HASH is redirected by a 307, which is not kept, to one with
 *   the hash of the visitor's place; that page is kept, it has a URL of its own, and WooCommerce's script sends visitors with
 *   another hash on. Without ?v= - where a plugin has taken the redirect away - as `geolocation`.
 * - anything else: as without.
 *
 * In all of them a page is not kept for which a plugin has asked WC_Geolocation itself. What reads the address without it, or a
 * field such as CF-IPCountry, is not seen: such a plugin says Vary or Cache-Control: private.
 */
final class Location
{
    public const HOOKS = [
        'woocommerce_customer_default_location' => ['begin', 1, \PHP_INT_MIN],
        'woocommerce_customer_default_location_array' => ['end', 1, \PHP_INT_MAX],
        'woocommerce_geolocate_ip' => ['asked', 1, \PHP_INT_MIN],
        'wp_loaded' => ['watch', 0, \PHP_INT_MAX],
        'template_redirect' => ['shop', 0, \PHP_INT_MIN + 1],
    ];

    /** What is asked for on the way to a price, a tax, or the customer's address. */
    private const USES = [
        'woocommerce_product_get_price', 'woocommerce_product_variation_get_price', 'woocommerce_get_price_html',
        'woocommerce_variation_prices', 'woocommerce_get_variation_prices_hash', 'woocommerce_get_tax_location',
        'woocommerce_customer_taxable_address', 'woocommerce_before_calculate_totals',
        'woocommerce_customer_get_billing', 'woocommerce_customer_get_shipping',
        'woocommerce_customer_get_billing_country', 'woocommerce_customer_get_billing_state',
        'woocommerce_customer_get_billing_postcode', 'woocommerce_customer_get_billing_city',
        'woocommerce_customer_get_shipping_country', 'woocommerce_customer_get_shipping_state',
        'woocommerce_customer_get_shipping_postcode', 'woocommerce_customer_get_shipping_city',
    ];

    /** WooCommerce itself makes out the default location of the customer. */
    private static bool $default = false;
    /** A plugin has asked for the place of an address. */
    private static bool $asked = false;

    public static function begin($location)
    {
        self::$default = true;
        return $location;
    }

    public static function end($location)
    {
        self::$default = false;
        return $location;
    }

    /** An address is looked up. WooCommerce does that for the default location, if it is set to. */
    public static function asked($country)
    {
        if (!(self::$default && in_array(self::mode(), ['geolocation', 'geolocation_ajax'], true))) {
            self::$asked = true;
            self::used();
        }
        return $country;
    }

    /** From here on what is asked for is for the page: WooCommerce has made its customer. */
    public static function watch(): void
    {
        if (Page::$watched && self::$asked) {
            Page::refuse();
        } elseif (Page::$watched && self::decides()) {
            foreach (self::USES as $hook) {
                add_filter($hook, self::class . '::used', \PHP_INT_MIN);
            }
        }
    }

    public static function used($value = null)
    {
        if (Page::$watched) {
            Page::refuse();
        }
        return $value;
    }

    public static function shop(): void
    {
        if (Page::$watched && function_exists('is_woocommerce') && is_woocommerce() && self::decides()) {
            Page::refuse();
        }
    }

    /** The visitor's address decides what WooCommerce shows at this URL. */
    private static function decides(): bool
    {
        $mode = self::mode();
        return $mode === 'geolocation' || ($mode === 'geolocation_ajax' && empty($_GET['v']));
    }

    private static function mode(): string
    {
        $mode = function_exists('WC') || class_exists('WC_Geolocation', false) ? get_option('woocommerce_default_customer_address') : '';
        return is_string($mode) ? $mode : '';
    }
}
