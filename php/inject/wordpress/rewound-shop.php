<?php
namespace Millrace\WordPress;

/**
 * WooCommerce in requests that begin behind its boot. In the boot it asks whether the request is one of its REST API, and loads the session
 * of its visitor by a cookie, or draws an ID for a new one. Its cart comes later, at `wp_loaded`.
 *
 * What it asks is compared, and the session is loaded again for each request, so neither of them is in the image's key: visitors with
 * and without a cart share an image. Where a plugin looks at the session or the customer in the boot, what it found would be another visitor's:
 * then nothing is repeated, and the cookie is in the key. So it is where the visitor's address decides the prices: Location tells the server
 * about it in the boot.
 */
final class RewoundShop
{
    public const HOOKS = ['init' => ['starts', 0, \PHP_INT_MIN]];

    /** Methods that look at the address of the request, and answer yes or no. */
    public const ANSWERS = ['WooCommerce::is_rest_api_request', 'WooCommerce::is_store_api_request',
        'WC_REST_Authentication::is_request_to_rest_api', 'WC_WCCOM_Site::is_request_to_wccom_site_rest_api'];
    /** Methods that load the session and its customer. */
    public const LOADS = ['WooCommerce::initialize_session', 'WooCommerce::initialize_cart'];
    /** A filter for all nonces. Only those of WooCommerce depend on the session; their look at its cookie is in the key. */
    public const NONCES = 'WC_Session_Handler::maybe_update_nonce_user_logged_out';
    /** Classes of session and customer, with their parents. */
    public const STATE = ['WC_Session', 'WC_Session_Handler', 'WC_Customer', 'WC_Legacy_Customer', 'WC_Data'];
    private const HANDLER = 'WC_Session_Handler';
    private const CUSTOMER = 'WC_Customer';

    /** Whether WordPress knew its user before WooCommerce was initialized: otherwise the cookies of the login are read in LOADS. */
    private static bool $knows_user = false;
    /** Whether requests load the session again. */
    private static bool $repeats = false;

    public static function starts(): void
    {
        self::$knows_user = did_action('set_current_user') > 0;
    }

    /** At the point: which ones of LOADS are repeated. */
    public static function repeated(): array
    {
        [$session, $customer] = self::objects();
        self::$repeats = $session && self::$knows_user && !millrace_rewind_used() && get_class($session) === self::HANDLER
            && !str_starts_with((string) get_option('woocommerce_default_customer_address'), 'geolocation')
            && (!$customer || get_class($customer) === self::CUSTOMER)
            && is_callable([$session, 'init_session_cookie']) && self::canForget($GLOBALS['wp_object_cache']);
        return self::$repeats ? self::LOADS : [];
    }

    /** Groups of the object cache that requests read again. */
    public static function groups(): array
    {
        return self::$repeats ? [WC_SESSION_CACHE_GROUP] : [];
    }

    /** Whether a group of an object cache can be forgotten in this process alone: WordPress's own cache, or ours. */
    private static function canForget(object $cache): bool
    {
        return method_exists($cache, wp_using_ext_object_cache() ? 'forget_group' : 'flush_group');
    }

    private static function forgetSession(): void
    {
        $cache = $GLOBALS['wp_object_cache'];
        wp_using_ext_object_cache() ? $cache->forget_group(WC_SESSION_CACHE_GROUP) : $cache->flush_group(WC_SESSION_CACHE_GROUP);
    }

    /** Behind the point: the session and the customer of this request. */
    public static function begin(): void
    {
        if (!self::$repeats) {
            return;
        }
        if (apply_filters('woocommerce_session_handler', self::HANDLER) !== self::HANDLER) {
            millrace_rewind_leave();
        }
        [$session, $customer] = self::objects();
        self::forgetSession();
        self::become($session, new (self::HANDLER)());
        $load = method_exists($session, 'init_session') ? 'init_session' : 'init_session_cookie';
        (fn () => $this->$load())->call($session);
        if ($customer) {
            self::become($customer, new (self::CUSTOMER)(get_current_user_id(), true));
        }
    }

    /** What ANSWERS say; null: the boot has not loaded it. */
    public static function answers(): array
    {
        return array_map([self::class, 'answer'], self::ANSWERS);
    }

    /** They need nothing of their object. */
    private static function answer(string $method): mixed
    {
        [$class, $name] = explode('::', $method);
        if (!class_exists($class, false) || !method_exists($class, $name)) {
            return null;
        }
        $reflection = new \ReflectionMethod($class, $name);
        return $reflection->invoke($reflection->isStatic() ? null : (new \ReflectionClass($class))->newInstanceWithoutConstructor());
    }

    /** WooCommerce's session handler and customer, each null where there is none. */
    private static function objects(): array
    {
        $shop = function_exists('WC') ? WC() : null;
        return [$shop?->session ?? null, $shop?->customer ?? null];
    }

    /** Gives an object what another one of its class has: hooks know it by its identity. */
    private static function become(object $one, object $other): void
    {
        $take = function (object $other): void {
            foreach (get_object_vars($other) as $name => $value) {
                $this->$name = $value;
            }
        };
        for ($class = get_class($one); $class; $class = get_parent_class($class)) {
            \Closure::bind($take, $one, $class)($other);
        }
    }
}
