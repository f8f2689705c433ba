<?php
namespace Millrace\WordPress;

/**
 * Answers of the REST API that anybody may read: WordPress's own collections, the products of WooCommerce's Store API, and the cart
 * of visitors without one. What they show they say by the same queries as pages do, and by the ids in them.
 *
 * The cart is the one answer that is kept although WooCommerce forbids it (no-store): its scripts ask for it with each page, and
 * visitors without a session all get the same. But it comes with a Cart-Token, by which its client goes on with a cart of its own:
 * shared, strangers would have one cart. So the token is taken off, and only for requests of WooCommerce's own script, which does not
 * read it (crates/pages/src/own_script.rs). In case of any doubt the answer stays as it is.
 */
final class Rest
{
    public const HOOKS = [
        'rest_pre_dispatch' => ['begin', 3, \PHP_INT_MIN],
        'rest_post_dispatch' => ['answer', 3, \PHP_INT_MAX],
        'nonce_user_logged_out' => ['nonce', 1, \PHP_INT_MAX],
    ];

    private const OPEN = '#^/(wp/v2/(?!users/me|settings|plugins|themes|block-renderer|search)|oembed/1\.0/embed|wc/store(/v1)?/products(/|$))#D';
    private const CART = '#^/wc/store(/v1)?/cart$#D';
    /** As the server knows it, at any depth. */
    private const CART_PATH = '#/wp-json/wc/store(/v1)?/cart$#D';
    private const STORE_TERMS = '#^/wc/store(?:/v1)?/products/(?:(categories|tags|brands)|attributes/(\d+)/terms)#';
    private const TAXONOMIES = ['categories' => 'product_cat', 'tags' => 'product_tag', 'brands' => 'product_brand'];
    /** Keys whose values are ids of posts or terms. */
    private const IDS = ['id' => 1, 'parent' => 1, 'post' => 1, 'product_id' => 1, 'term' => 1, 'featured_media' => 1, 'categories' => 1, 'tags' => 1];
    private const DEEPEST = 8;

    /** Something in this request can't be kept: neither can what is embedded in it make it so. */
    private static bool $refused = false;
    /** The fields of the request are watched. */
    private static bool $begun = false;
    /** A nonce was made that is for this visitor alone. */
    private static bool $own = false;

    /** WordPress's REST server hands all fields of the request on: from now on who reads one. That it does so itself is no read (php/c/fields.c). */
    public static function begin($result, $server = null, $request = null)
    {
        // Those that scripts make themselves have no fields.
        if (Page::$watched && !self::$begun && defined('REST_REQUEST') && $request instanceof \WP_REST_Request) {
            self::$begun = true;
            self::$refused = self::$refused || get_class($request) !== 'WP_REST_Request'
                || !millrace_notice_reads($request, ['headers'], self::class . '::read');
        }
        return $result;
    }

    /** Whether a read of the fields is to be noticed again: WordPress looks for the type of the content, of which a GET has none. */
    public static function read(string $property): bool
    {
        $frame = $property === '*' ? [] : debug_backtrace(0, 2)[1] ?? [];
        $name = ($frame['function'] ?? '') === 'get_header' ? strtolower((string) ($frame['args'][0] ?? '')) : '';
        if (in_array($name, ['content_type', 'content-type'], true)) {
            return true;
        }
        self::$refused = true;
        return false;
    }

    /** Called for each answer, and then for those that are embedded in it (`_embed`). */
    public static function answer($response, $server, $request)
    {
        if (!Page::$watched) {
            return $response;
        }
        $plain = $response instanceof \WP_REST_Response && $response->get_status() === 200 && $request->get_method() === 'GET'
            && !isset($_SERVER['HTTP_AUTHORIZATION']) && !isset($_SERVER['HTTP_X_WP_NONCE']) && !Shop::is_hidden();
        $open = $plain && !$request['_jsonp'] && $request['context'] !== 'edit' && !$request['password']
            && preg_match(self::OPEN, $request->get_route());
        $cart = !$open && $plain && self::is_empty_cart($response, $request);
        self::$refused = self::$refused || !($open || $cart);
        Page::answered(!self::$refused, $cart);
        if (!self::$refused) {
            $cart ? self::without_token($response) : self::shown($request, $response->get_data());
            Shown::rest($request);
        }
        return $response;
    }

    /** A nonce of a logged-out visitor; WooCommerce ties some to the session. */
    public static function nonce($user)
    {
        self::$own = self::$own || $user;
        return $user;
    }

    /** The answer is the cart that all visitors without a session have, and WooCommerce's own script asks for it. */
    private static function is_empty_cart(\WP_REST_Response $response, \WP_REST_Request $request): bool
    {
        $path = rtrim((string) parse_url($_SERVER['REQUEST_URI'] ?? '', \PHP_URL_PATH), '/');
        $asked = preg_match(self::CART, $request->get_route()) && preg_match(self::CART_PATH, $path) && !$_GET && !$_COOKIE
            && isset($_SERVER['MILLRACE_SHARED']) && ($_SERVER['HTTP_SEC_FETCH_SITE'] ?? '') === 'same-origin' && ($_SERVER['HTTP_ACCEPT'] ?? '') === '*/*';
        $session = $asked && function_exists('WC') && WC() ? WC()->session ?? null : null;
        if (!$session instanceof \WC_Session_Handler || $session->has_session() || is_user_logged_in() || self::$own
            || (function_exists('wc_notice_count') && did_action('woocommerce_init') && wc_notice_count() > 0)) {
            return false;
        }
        $data = (array) $response->get_data();
        foreach (['items', 'coupons', 'fees', 'errors', 'cross_sells', 'shipping_rates', 'extensions'] as $part) {
            if (!self::is_empty($data[$part] ?? [])) {
                return false;
            }
        }
        $headers = array_change_key_case($response->get_headers());
        return isset($data['items']) && empty($headers['user-id']) && empty($headers['cart-hash']);
    }

    /** Nothing, or only names of nothing: what a plugin adds to the cart is under its name. */
    private static function is_empty($value, int $depth = 0): bool
    {
        if (!is_array($value) && !is_object($value)) {
            return $depth > 0 && ($value === null || $value === '' || $value === false);
        }
        foreach ($depth < self::DEEPEST ? (array) $value : [true] as $part) {
            if (!self::is_empty($part, $depth + 1)) {
                return false;
            }
        }
        return true;
    }

    private static function without_token(\WP_REST_Response $response): void
    {
        $is_other = static fn ($name) => strcasecmp($name, 'Cart-Token') !== 0;
        $response->set_headers(array_filter($response->get_headers(), $is_other, \ARRAY_FILTER_USE_KEY));
    }

    /** Tags of what an answer shows. */
    private static function shown(\WP_REST_Request $request, $data): void
    {
        $tags = [];
        if (preg_match(self::STORE_TERMS, $request->get_route(), $parts)) {
            // The query for terms says nothing here; their numbers of products and reviews show, too.
            $of = static fn ($attribute) => function_exists('wc_attribute_taxonomy_name_by_id') ? wc_attribute_taxonomy_name_by_id($attribute) : '';
            $taxonomy = self::TAXONOMIES[$parts[1]] ?? $of((int) ($parts[2] ?? 0));
            $tags = ["terms-$taxonomy" => true, 'comments' => true];
        } elseif (preg_match('#/products/collection-data$#D', $request->get_route())) {
            // Prices, stock, stars and numbers of all products.
            $tags = ['any-post' => true, 'any-termlink' => true, 'list-product' => true];
        }
        if ($request['_fields']) {
            // The ids need not be among them.
            $tags += ['any-post' => true, 'any-termlink' => true];
        }
        self::ids($data, '', $tags);
        Shown::add(array_keys($tags));
    }

    /** Notes the ids in an answer. A number may be that of a post and of a term. */
    private static function ids($data, string $under, array &$tags, int $depth = 0): void
    {
        foreach ($depth < self::DEEPEST ? (array) $data : [] as $key => $value) {
            $name = is_int($key) ? $under : (string) $key;
            if (is_int($value) && $value > 0 && isset(self::IDS[$name])) {
                $tags["post-$value"] = $tags["termlink-$value"] = true;
            } elseif ($name === 'taxonomy' && is_string($value)) {
                $tags["terms-$value"] = true;
            } elseif ((is_array($value) || is_object($value)) && $name !== '_links') {
                self::ids($value, $name, $tags, $depth + 1);
            }
            if ($name === 'post' && is_int($value)) {
                $tags["comments-$value"] = true;
            }
        }
    }
}
