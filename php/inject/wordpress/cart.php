<?php
namespace Millrace\WordPress;

/**
 * Public pages for visitors with a cart of WooCommerce. The server may send such a visitor the page of all if nothing but the cart
 * distinguishes him, and if the page is the same for him but for what the browser fills in. Said at the end of each request:
 *
 * - of a visitor with a cart: a pass, or why there is none (said());
 * - of each page, by the worker: whether it has read anything of the cart, the session or the customer (php/c/carts);
 * - of each page: its kind. PHP's pages for visitors with a cart are compared with the public ones, kind by kind: a kind that
 *   differs is never sent to them (crates/pages/src/carts).
 *
 * What the browser fills in are the fragments that WooCommerce's script wc-cart-fragments replaces; only if the page prints the
 * script. The theme names them by the filter woocommerce_add_to_cart_fragments.
 *
 * WooCommerce chooses related products at random, and sorts them and up-sells at random, for each page that it makes. Here the choice is
 * the same for a day and the order fixed, so that pages can be compared; on a cached page they were, too.
 */
final class Cart
{
    public const HOOKS = [
        'template_redirect' => ['begin', 0, \PHP_INT_MIN + 2],
        'woocommerce_add_success' => ['notice', 1, \PHP_INT_MAX],
        'woocommerce_add_error' => ['notice', 1, \PHP_INT_MAX],
        'woocommerce_add_notice' => ['notice', 1, \PHP_INT_MAX],
        'nonce_user_logged_out' => ['nonce', 2, \PHP_INT_MAX],
        'woocommerce_related_products' => ['related', 2, \PHP_INT_MAX],
        'woocommerce_product_related_posts_shuffle' => ['shuffle', 1, \PHP_INT_MAX],
        'woocommerce_output_related_products_args' => ['sorted', 1, \PHP_INT_MAX],
        'woocommerce_upsells_orderby' => ['upsells', 1, \PHP_INT_MAX],
    ];

    /** What a session may hold beside the cart without showing on pages of the catalogue. */
    private const INNER = '/^(chosen_shipping_methods|chosen_payment_method|order_awaiting_payment|store_api_draft_order|wc_notices)$/';
    private const MOST_ITEMS = 100;

    /** The page is watched. */
    private static bool $watched = false;
    /** Something on the page is for this visitor alone: a notice, a nonce that belongs to his session. */
    private static bool $own = false;
    private static ?string $kind = null;
    private static array $blanks = [];

    /** WordPress is about to make the page. */
    public static function begin(): void
    {
        if (!function_exists('WC') || !Page::$watched) {
            return;
        }
        self::$watched = true;
        function_exists('millrace_cart_objects') && millrace_cart_objects(WC()->cart ?? null, WC()->session ?? null, WC()->customer ?? null);
        Kind::begin();
        $session = WC()->session ?? null;
        self::$own = is_object($session) && is_callable([$session, 'get']) && (bool) $session->get('wc_notices');
    }

    public static function notice($text)
    {
        self::$own = true;
        return $text;
    }

    /**
     * A nonce for who is not logged in, and the page is being made: WooCommerce ties some to the session. They would be invalid on the
     * page of all. Before that WooCommerce only looks for ones that have been sent.
     */
    public static function nonce($user, $action = '')
    {
        self::$own = self::$own || ($user && self::$watched && Kind::is_templated());
        // WooCommerce ties such a nonce to the session, if there is one: the page of all has another.
        if (self::$watched && Kind::is_templated() && is_string($action) && strncmp($action, 'woocommerce', 11) === 0 && function_exists('millrace_cart_depends')) {
            millrace_cart_depends('a nonce of the session');
        }
        return $user;
    }

    /** Related products, in an order that is the same for a day. */
    public static function related($ids, $product = 0)
    {
        if (!is_array($ids) || !self::$watched) {
            return $ids;
        }
        $rank = static fn ($id) => hash_hmac('sha256', "$id $product " . gmdate('Y-m-d'), wp_salt('nonce'));
        usort($ids, static fn ($a, $b) => strcmp($rank($a), $rank($b)));
        return $ids;
    }

    public static function shuffle($random)
    {
        return !self::$watched ? $random : false;
    }

    public static function sorted($arguments)
    {
        if (self::$watched && is_array($arguments) && ($arguments['orderby'] ?? 'rand') === 'rand') {
            $arguments['orderby'] = 'id';
        }
        return $arguments;
    }

    public static function upsells($order)
    {
        return self::$watched && $order === 'rand' ? 'id' : $order;
    }

    /** The kind of the public page, as a tag; none if it is no page of a shop. */
    public static function tags(): array
    {
        $kind = self::kind();
        return $kind === null || self::$own ? [] : [$kind];
    }

    /**
     * What the server may know of the cart of a guest, whose session holds this data. `$value`: the session's cookie.
     */
    public static function said(array $data, string $value): array
    {
        $cart = WC()->cart ?? null;
        if (!is_object($cart) || !is_callable([$cart, 'get_cart_hash']) || !is_callable([$cart, 'get_cart'])) {
            return ['held=unknown'];
        }
        $held = self::held($data);
        if ($held !== '') {
            return ["held=$held"];
        }
        // id | end | when it is renewed | hash; older versions have two bars.
        $left = (int) (preg_split('/\|+/', $value)[2] ?? 0) - time();
        $hash = (string) $cart->get_cart_hash();
        $items = self::items($cart->get_cart());
        if ($left <= 0 || $hash === '' || !$items) {
            return [$left <= 0 ? 'held=expired' : 'held=unknown'];
        }
        $address = self::has_local_address($data['customer'] ?? null) ? ['address=1'] : [];
        $with = 'with=woocommerce_items_in_cart:1,woocommerce_cart_hash:' . rawurlencode($hash);
        $said = ["pass=$left", $with, 'items=' . implode(',', $items), ...$address];
        if (($_SERVER['REQUEST_METHOD'] ?? '') !== 'GET') {
            return $said;
        }
        $kind = self::$own ? null : self::kind();
        // With another kind than the public page's, or none, the pages differ.
        if ($kind === null && (self::$own || !self::$watched)) {
            return $said;
        }
        return [...$said, 'kind=' . ($kind ?? 'none'), ...(self::$blanks ? ['blank=' . implode(',', array_map('rawurlencode', self::$blanks))] : [])];
    }

    /** Why PHP makes all pages for this visitor; ''. */
    private static function held(array $data): string
    {
        if (!empty($data['wc_notices']) || (function_exists('wc_notice_count') && did_action('woocommerce_init') && wc_notice_count() > 0)) {
            return 'notice';
        }
        if (preg_grep(self::INNER, array_keys(Visitor::more($data)), \PREG_GREP_INVERT)) {
            return 'session';
        }
        return is_user_logged_in() || self::has_place($data['customer'] ?? null) || self::has_terms() ? 'customer' : '';
    }

    /** Prices and taxes may differ by an address that the visitor has given, or that WooCommerce has guessed. */
    private static function has_place($customer): bool
    {
        if (strncmp((string) get_option('woocommerce_default_customer_address'), 'geolocation', 11) === 0) {
            return true;
        }
        $customer = is_array($customer) ? $customer : [];
        $known = ['', wc_get_base_location()['country'] ?? ''];
        $is_elsewhere = static fn ($which) => !in_array($customer[$which . 'country'] ?? '', $known, true);
        return $is_elsewhere('') || $is_elsewhere('shipping_') || !empty($customer['is_vat_exempt'])
            || (self::has_local_address($customer) && self::has_local_taxes());
    }

    /** A visitor has given more of an address than the country: pages are compared separately for such visitors. */
    private static function has_local_address($customer): bool
    {
        $base = wc_get_base_location()['state'] ?? '';
        foreach (is_array($customer) ? ['', 'shipping_'] : [] as $which) {
            if (!empty($customer[$which . 'postcode']) || !empty($customer[$which . 'city']) || !in_array($customer[$which . 'state'] ?? '', ['', $base], true)) {
                return true;
            }
        }
        return false;
    }

    /** Taxes may depend on the state, the postcode or the city. */
    private static function has_local_taxes(): bool
    {
        global $wpdb;
        if (function_exists('wc_tax_enabled') && !wc_tax_enabled()) {
            return false;
        }
        $before = $wpdb->suppress_errors();
        $places = "SELECT COUNT(*) FROM {$wpdb->prefix}woocommerce_tax_rate_locations";
        $states = "SELECT COUNT(*) FROM {$wpdb->prefix}woocommerce_tax_rates WHERE tax_rate_state <> ''";
        $found = $wpdb->get_var("SELECT ($places) + ($states)");
        $wpdb->suppress_errors($before);
        // Without such tables: it can't be known.
        return (string) $found !== '0';
    }

    /** VAT exemption, currency or language are not those of all. */
    private static function has_terms(): bool
    {
        $customer = WC()->customer ?? null;
        return (is_object($customer) && is_callable([$customer, 'get_is_vat_exempt']) && $customer->get_is_vat_exempt())
            || (function_exists('get_woocommerce_currency') && get_woocommerce_currency() !== get_option('woocommerce_currency'))
            || determine_locale() !== get_locale();
    }

    /** The products, as tags of their pages; none if there are very many. */
    private static function items($cart): array
    {
        $tags = [];
        foreach (is_array($cart) ? $cart : [] as $item) {
            foreach (['product_id', 'variation_id'] as $which) {
                $id = is_array($item) ? (int) ($item[$which] ?? 0) : 0;
                $tags += $id ? ["post-$id" => true] : [];
            }
        }
        return count($tags) > self::MOST_ITEMS ? [] : Tags::names(array_keys($tags));
    }

    /** The kind of this page, when it is complete; null: it is none that WordPress's templates have made. */
    private static function kind(): ?string
    {
        if (self::$kind === null && self::$watched && Kind::is_templated()) {
            self::$blanks = self::fragments();
            $post = is_singular() ? (int) get_queried_object_id() : 0;
            $is_product = $post && get_post_type($post) === 'product' && class_exists('WC_Product_Factory');
            $digest = Kind::digest([self::$blanks, WC()->version ?? '', $is_product ? \WC_Product_Factory::get_product_type($post) : '']);
            self::$kind = Tags::names(["cart-kind-$digest"])[0];
        }
        return self::$kind;
    }

    /** Selectors of what WooCommerce's script replaces on this page; none without the script. */
    private static function fragments(): array
    {
        if (!wp_script_is('wc-cart-fragments', 'done')) {
            return [];
        }
        ob_start();
        // What reads the cart now has printed it on the page, too (php/c/carts).
        function_exists('millrace_cart_fragments') && millrace_cart_fragments(true);
        try {
            $found = apply_filters('woocommerce_add_to_cart_fragments', ['div.widget_shopping_cart_content' => '']);
        } catch (\Throwable $error) {
            $found = [];
        } finally {
            function_exists('millrace_cart_fragments') && millrace_cart_fragments(false);
            ob_end_clean();
        }
        $selectors = array_map('strval', array_keys(is_array($found) ? $found : []));
        sort($selectors);
        return $selectors;
    }
}
