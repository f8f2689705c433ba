<?php
namespace Millrace\WordPress;

/**
 * Who asks, for the server: logged in, with a cart, with something else of his own, or with cookies that mean nothing. Said once at
 * the end of each request that has cookies, by millrace_visitor(). Those who are proven go before others; cookies that mean nothing
 * keep nobody from the page cache. That somebody may see or do something is never decided by this.
 *
 * Only a cookie that can't be made up proves something: WordPress's log-in and WooCommerce's session, which are signed. A flag
 * like woocommerce_items_in_cart=1 never does.
 */
final class Visitor
{
    public const HOOKS = [
        'shutdown' => ['report', 0, \PHP_INT_MAX],
        'auth_cookie_valid' => ['valid', 2, 10],
        'application_password_did_authenticate' => ['program', 1, 10],
        'set_logged_in_cookie' => ['issue', 4, 10],
        'clear_auth_cookie' => ['cleared', 0, 10],
        // With a log-in, a log-out, and when others are logged out.
        'added_user_meta' => ['meta', 3, 10],
        'updated_user_meta' => ['meta', 3, 10],
        'deleted_user_meta' => ['meta', 3, 10],
        'wp_set_password' => ['password', 2, 10],
        'after_password_reset' => ['reset', 1, 10],
        'profile_update' => ['profile', 2, 10],
        'deleted_user' => ['forget', 1, 10],
    ];

    /** What is left in a session of WooCommerce whose cart was emptied, and shows nowhere but in the cart. */
    public const LEFT = '/^(cart|cart_totals|applied_coupons|coupon_discount(_tax)?_totals|removed_cart_contents|customer'
        . '|shipping_for_package_\d+|previous_shipping_methods|shipping_method_counts)$/';

    /** Cookies that WordPress has found valid in this request, by their scheme: [the cookie, the user]. */
    private static array $valid = [];
    /** The log-in cookie that this answer sets: [its value, the user]. */
    private static ?array $issued = null;
    /** The report, once it is made. */
    private static array $said = [];
    private static bool $keeps = false;
    /** The user whose application password came with this request. */
    private static int $program = 0;

    public static function valid($parts, $user): void
    {
        if (is_array($parts) && isset($parts['scheme'], $parts['hmac']) && is_object($user)) {
            $cookie = "$parts[username]|$parts[expiration]|$parts[token]|$parts[hmac]";
            self::$valid[$parts['scheme']] = [$cookie, (int) $user->ID];
        }
    }

    public static function program($user): void
    {
        self::$program = is_object($user) ? (int) $user->ID : 0;
    }

    public static function issue($cookie, $expire = 0, $expiration = 0, $user = 0): void
    {
        self::$issued = is_string($cookie) ? [$cookie, (int) $user] : null;
    }

    public static function cleared(): void
    {
        [self::$valid, self::$issued] = [[], null];
    }

    public static function meta($meta, $user, $key): void
    {
        if ($key === 'session_tokens') {
            self::forget($user);
        }
    }

    public static function password($password, $user): void
    {
        self::forget($user);
    }

    public static function reset($user): void
    {
        self::forget(is_object($user) ? $user->ID : 0);
    }

    public static function profile($id, $old): void
    {
        $user = get_userdata($id);
        if (!$user || !is_object($old) || $user->user_pass !== $old->user_pass) {
            self::forget($id);
        }
    }

    /** What was proven for this user holds no more; 0: for all. */
    public static function forget($user): void
    {
        self::$valid = [];
        millrace_visitor('forget', 'user=' . ((int) $user ?: '*'));
    }

    /** The request is over. */
    public static function report(): void
    {
        // Without plugins WordPress does not know who asks.
        if (!did_action('plugins_loaded') || !function_exists('wp_validate_auth_cookie')) {
            return;
        }
        if ($_COOKIE || self::$issued || self::$program || self::session()) {
            $word = self::member() ?? self::shopper() ?? self::other();
            self::$said = [...$word, 'profile', self::site()];
            self::say();
        }
    }

    /** Nobody else may have the page, whatever the report says, or has said. */
    public static function keep_page(): void
    {
        self::$keeps = true;
        self::$said && self::say();
    }

    private static function say(): void
    {
        $is_of_page = static fn (string $part): bool => str_starts_with($part, 'kind=') || str_starts_with($part, 'page=');
        $said = self::$keeps ? [...array_filter(self::$said, static fn ($part) => !$is_of_page($part)), 'kind=none'] : self::$said;
        millrace_visitor(...$said);
    }

    /** Logged in; or null. */
    private static function member(): ?array
    {
        if (self::$issued) {
            [$cookie, $user] = self::$issued;
            return ['login', 'by=' . LOGGED_IN_COOKIE, 'issued=' . rawurlencode($cookie), "user=$user", ...self::rights($user)];
        }
        if (self::$program) {
            return ['login', 'by=:authorization', 'user=' . self::$program, ...self::rights(self::$program)];
        }
        $schemes = [LOGGED_IN_COOKIE => 'logged_in', SECURE_AUTH_COOKIE => 'secure_auth', AUTH_COOKIE => 'auth'];
        foreach ($schemes as $name => $scheme) {
            $user = self::user($_COOKIE[$name] ?? '', $scheme);
            if ($user) {
                $more = $name === LOGGED_IN_COOKIE && class_exists(Member::class, false) ? Member::said($user) : [];
                return ['login', "by=$name", "user=$user", ...self::rights($user), ...$more];
            }
        }
        // By another way, of a plugin.
        return is_user_logged_in() ? ['unsure'] : null;
    }

    /** Whether the user may edit: only then nothing that this browser sends is a guess of a password. */
    private static function rights(int $user): array
    {
        return user_can($user, 'edit_posts') ? ['rights=edit'] : [];
    }

    /** Whose log-in a cookie is. REST requests without a nonce have no user, though their cookie is good. */
    private static function user($cookie, string $scheme): int
    {
        if (!is_string($cookie) || $cookie === '') {
            return 0;
        }
        [$known, $user] = self::$valid[$scheme] ?? ['', 0];
        return $known === $cookie ? $user : (int) wp_validate_auth_cookie($cookie, $scheme);
    }

    /** With something in the cart, or in the session of the shop; or null. */
    private static function shopper(): ?array
    {
        $session = self::session();
        if (!$session) {
            return null;
        }
        $data = array_map('maybe_unserialize', (array) $session->get_session_data());
        $name = apply_filters('woocommerce_cookie', 'wp_woocommerce_session_' . COOKIEHASH);
        if (!empty($data['cart'])) {
            // The cookie that came, if it is signed, or the one that takes its place.
            $sent = self::sent($name);
            $is_proven = $sent || $session->get_session_cookie();
            $value = $sent ? urldecode(substr($sent[0], 7)) : $_COOKIE[$name] ?? '';
            return $is_proven ? ['cart', "by=$name", ...$sent, ...Cart::said($data, is_string($value) ? $value : '')] : ['own', "by=$name"];
        }
        $own = self::more($data) || !empty($data['applied_coupons']) || self::has_address($data['customer'] ?? null);
        return $own ? ['own', "by=$name"] : null;
    }

    /**
     * What a session holds beside the cart and what an emptied one leaves. A currency that is the shop's own is nothing: the visitor has
     * gone back to it.
     */
    public static function more(array $data): array
    {
        $own = get_option('woocommerce_currency');
        $is_own = static fn ($value, $key) => $value === $own && strpos((string) $key, 'currency') !== false;
        $counts = static fn ($value, $key) => !empty($value) && !preg_match(self::LEFT, (string) $key) && !$is_own($value, $key);
        return array_filter($data, $counts, \ARRAY_FILTER_USE_BOTH);
    }

    /** The session of WooCommerce, if this visitor has one. */
    private static function session(): ?object
    {
        $session = function_exists('WC') && WC() ? WC()->session ?? null : null;
        return $session instanceof \WC_Session_Handler && $session->has_session() ? $session : null;
    }

    /** The value that this answer gives a cookie, as a detail. */
    private static function sent(string $name): array
    {
        $found = [];
        foreach (headers_list() as $header) {
            if (preg_match('/^Set-Cookie:\s*' . preg_quote($name, '/') . '=([^;\s]+)(?!.*Max-Age=0)/i', $header, $parts)) {
                $found = ['issued=' . $parts[1]];
            }
        }
        // Sent again as it was.
        $same = $found && isset($_COOKIE[$name]) && is_string($_COOKIE[$name]) && urldecode(substr($found[0], 7)) === $_COOKIE[$name];
        return $same ? [] : $found;
    }

    /** Prices and taxes may differ by the address that somebody has entered. */
    private static function has_address($customer): bool
    {
        if (!is_array($customer)) {
            return false;
        }
        $base = wc_get_base_location();
        foreach (['', 'shipping_'] as $which) {
            foreach (['country', 'state'] as $part) {
                if (!in_array($customer[$which . $part] ?? '', ['', $base[$part] ?? ''], true)) {
                    return true;
                }
            }
            foreach (['postcode', 'city', 'address_1', 'address', 'address_2', 'first_name', 'last_name', 'company', 'phone', 'email'] as $part) {
                if (!empty($customer[$which . $part])) {
                    return true;
                }
            }
        }
        return !empty($customer['is_vat_exempt']) || !empty($customer['calculated_shipping']);
    }

    /** What else others don't see; or nothing, but for cookies that can't be judged here. */
    private static function other(): array
    {
        $email = $_COOKIE['comment_author_email_' . COOKIEHASH] ?? '';
        if (is_string($email) && $email !== '' && self::has_written(wp_unslash($email))) {
            return ['own'];
        }
        // Who has it may be in recovery mode.
        $except = ['wordpress_rec_' . COOKIEHASH];
        $password = $_COOKIE['wp-postpass_' . COOKIEHASH] ?? '';
        if (is_string($password) && strncmp($password, '$P$', 3) === 0) {
            $except[] = 'wp-postpass_' . COOKIEHASH;
        }
        $shop = function_exists('WC') && WC();
        if ($shop) {
            // Whoever sets it shows it: WooCommerce's widget, or a theme.
            $except[] = 'woocommerce_recently_viewed';
        }
        if (!$shop || !((WC()->session ?? null) instanceof \WC_Session_Handler)) {
            // Not loaded for this request, or replaced by a plugin's; without WooCommerce, another shop may use its names.
            $except[] = 'wp_woocommerce_session_' . COOKIEHASH;
            $shop && array_push($except, 'woocommerce_items_in_cart', 'woocommerce_cart_hash');
        }
        if (function_exists('EDD')) {
            $except[] = 'edd_items_in_cart';
        }
        $except = array_intersect($except, array_keys($_COOKIE));
        return $except ? ['none', 'except=' . implode(',', $except)] : ['none'];
    }

    /**
     * Whether somebody with this address has written a comment, of any type and state: reviews of products that wait for approval, too.
     * Not by get_comments(): plugins take types of comments out of what it finds.
     */
    private static function has_written(string $email): bool
    {
        global $wpdb;
        return (bool) $wpdb->get_var(
            $wpdb->prepare("SELECT 1 FROM $wpdb->comments WHERE comment_author_email = %s LIMIT 1", $email)
        );
    }

    /** The installation, and a digest of the keys by which its cookies are signed. */
    private static function site(): string
    {
        return 'site=' . COOKIEHASH . ':' . substr(hash_hmac('sha256', 'millrace', wp_salt('logged_in')), 0, 16);
    }
}
