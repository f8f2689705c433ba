<?php
namespace Millrace\WordPress;

/**
 * Pages that depend on the visitor's address. WooCommerce derives the country from it, according to the option
 * woocommerce_default_customer_address:
 *
 * - `geolocation`: one URL shows each country its own taxes and prices. Pages of the shop are kept for the visitor's country, and so is
 *   any other page that reads a price, a tax or the customer's address after WordPress has loaded; a blog post without products is kept
 *   for all. The option decides, not the look-up: WooCommerce skips the look-up for crawlers and shows them the shop's own country.
 * - `geolocation_ajax`, "with page caching support": WooCommerce redirects a URL without ?v=HASH by a 307, which is not kept, to
 *   one with the hash of the visitor's place. That page has its own URL and is kept; WooCommerce's script redirects visitors
 *   with another hash. A page without ?v= (a plugin has removed the redirect) is treated as with `geolocation`.
 * - any other value: pages are kept as usual.
 *
 * The server serves a page that is kept for a country to visitors of whom it knows the country: by a trusted proxy's field, or because it
 * was told here what WooCommerce has found for their address (millrace_visitor). It is told only of the address from which the server
 * has the request, never of one that a client claims in a field; and only of a look-up by the address alone. Where the country is not
 * known so, the page is not kept.
 *
 * In all modes a page is not kept if a plugin calls WC_Geolocation itself. A plugin that reads the address, or a field such as
 * CF-IPCountry, without it goes unnoticed: it must send Vary or Cache-Control: private.
 */
final class Location
{
    public const HOOKS = [
        'woocommerce_customer_default_location' => ['begin', 1, \PHP_INT_MIN],
        'woocommerce_customer_default_location_array' => ['end', 1, \PHP_INT_MAX],
        'woocommerce_geolocate_ip' => ['asked', 1, \PHP_INT_MIN],
        'woocommerce_get_geolocation' => ['found', 2, \PHP_INT_MAX],
        'wp_loaded' => ['watch', 0, \PHP_INT_MAX],
        'template_redirect' => ['shop', 0, \PHP_INT_MIN + 1],
    ];

    /** Filters that run when a page reads a price, a tax, or the customer's address. */
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

    /** WooCommerce is determining the customer's default location. */
    private static bool $default = false;
    /** A plugin has looked up an address. */
    private static bool $asked = false;
    /** What WooCommerce has found for the default location: [place, address], mostly once. */
    private static array $found = [];

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

    /** WC_Geolocation looks up an address: for the default location, if the option says so, or for a plugin. */
    public static function asked($country)
    {
        if (!(self::$default && in_array(self::mode(), ['geolocation', 'geolocation_ajax'], true))) {
            self::$asked = true;
            self::used();
        }
        return $country;
    }

    public static function found($place, $address = '')
    {
        if (self::$default) {
            self::$found[] = [$place, $address];
        }
        return $place;
    }

    /** WooCommerce has set up its customer; from now on the page reads it. */
    public static function watch(): void
    {
        $country = self::country();
        if ($country !== null && !self::is_named()) {
            $bits = self::network($country);
            millrace_visitor('place', "country=$country", ...($bits === null ? [] : ["network=$bits"]));
        }
        if (Page::$watched && self::$asked) {
            Page::refuse('geolocation');
        } elseif (Page::$watched && self::decides()) {
            foreach (self::USES as $hook) {
                add_filter($hook, self::class . '::used', \PHP_INT_MIN);
            }
        }
    }

    public static function used($value = null)
    {
        if (Page::$watched) {
            self::$asked ? Page::refuse('geolocation') : Page::only_for(self::country());
        }
        return $value;
    }

    public static function shop(): void
    {
        if (Page::$watched && function_exists('is_woocommerce') && is_woocommerce() && self::decides()) {
            self::used();
        }
    }

    /** The visitor's country, if WooCommerce has found it as the server can, too; null: unknown. */
    private static function country(): ?string
    {
        [$place, $address] = self::$found[0] ?? [null, ''];
        $country = is_array($place) ? $place['country'] ?? '' : '';
        foreach (self::$found as $other) {
            if ($other !== self::$found[0]) {
                return null;
            }
        }
        // Of more than the country, or by variables of a server, the server knows nothing.
        $plain = is_string($country) && preg_match('/^[A-Z0-9]{2}$/D', $country) && !array_filter(array_diff_key($place, ['country' => true]))
            && empty($_SERVER['MM_COUNTRY_CODE']) && empty($_SERVER['GEOIP_COUNTRY_CODE']);
        return $plain && (self::is_named() || $address === ($_SERVER['REMOTE_ADDR'] ?? '')) ? $country : null;
    }

    /** WooCommerce takes the country from a field of the request; the server knows whether a trusted proxy has sent it. */
    private static function is_named(): bool
    {
        return !empty($_SERVER['HTTP_CF_IPCOUNTRY']) || !empty($_SERVER['HTTP_X_COUNTRY_CODE']);
    }

    /** So many bits of the address decide in WooCommerce's database: its network is in one country as a whole. null: unknown. */
    private static function network(string $country): ?int
    {
        if (!class_exists('MaxMind\Db\Reader', false)) {
            return null;
        }
        try {
            $file = WC()->integrations->get_integration('maxmind_geolocation')->get_database_service()->get_database_path();
            $reader = new \MaxMind\Db\Reader($file);
            [$record, $bits] = $reader->getWithPrefixLen($_SERVER['REMOTE_ADDR']);
            $reader->close();
            return is_int($bits) && ($record['country']['iso_code'] ?? '') === $country ? $bits : null;
        } catch (\Throwable $error) {
            return null;
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
