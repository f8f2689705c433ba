<?php
namespace Millrace\WordPress;

/**
 * The page that this request makes: whether it may be kept, how long, and its tags. Said once at its end, when all is
 * known; only that it can't be kept is said as soon as that is known, so that nobody waits for it.
 *
 * A site has the last word: the constant DONOTCACHEPAGE, headers (Cache-Control, Set-Cookie), millrace_cache_control(), or
 * the filters `millrace_cache_control` and `millrace_tags` over what is said here.
 */
final class Page
{
    public const HOOKS = [
        'init' => ['begin', 0, \PHP_INT_MIN],
        'template_redirect' => ['judge', 0, \PHP_INT_MIN],
        'template_include' => ['made', 1, \PHP_INT_MAX],
        'redirect_canonical' => ['chosen', 1, \PHP_INT_MIN],
        'old_slug_redirect_url' => ['chosen', 1, \PHP_INT_MIN],
        'wp_redirect' => ['leads', 1, \PHP_INT_MAX],
        'wp_redirect_status' => ['redirected', 1, \PHP_INT_MAX],
        'nonce_life' => ['nonce', 2, \PHP_INT_MAX],
        'wp_is_mobile' => ['device', 1, \PHP_INT_MAX],
        'shutdown' => ['end', 0, \PHP_INT_MIN],
    ];

    /** Lifetimes, in seconds. */
    private const PAGE = 86400;
    private const FEED = 3600;
    private const REST = 600;
    private const SEARCH = 120;
    private const MISSING = 60;
    /** A page with a nonce in it, as a part of the nonce's life: it is valid for half of that at least, and a browser keeps the page open for a while. */
    private const NONCE = 5 / 12;

    /** It is a GET by an anonymous visitor, of what is no part of the administration. */
    public static bool $watched = false;
    /** It is a GET by a member, for whose page others may be of use (Member). */
    public static bool $for_member = false;
    /** Seconds that it may be kept; null: nothing is known that could be kept. */
    private static ?int $seconds = null;
    private static bool $refused = false;
    /** Addresses to which WordPress itself would lead, as keys; whether the redirect leads to one. */
    private static array $chosen = [];
    private static bool $is_chosen = false;
    /** Life of the shortest nonce in the page, in seconds (`nonce_life`); null: it has none. */
    private static ?int $nonce = null;
    /** The same for scripts that are registered, and perhaps printed. */
    private static ?int $script_nonce = null;
    /** The page is for visitors in this country; null: for all. */
    private static ?string $country = null;
    /** It differs by what WordPress's wp_is_mobile() says, or by what a plugin makes of that: a directive for the cache. */
    private static string $device = '';
    /** WordPress has got as far as to know who asks: what ends before that is a plugin's own. */
    private static bool $begun = false;
    /** What the answer says to browsers doesn't count (Rest). */
    private static bool $overrules = false;

    /** Plugins are loaded, and WordPress knows who asks. */
    public static function begin(): void
    {
        self::$begun = true;
        $front = ($_SERVER['REQUEST_METHOD'] ?? '') === 'GET' && !is_admin() && !wp_doing_cron() && !wp_installing()
            && !defined('XMLRPC_REQUEST');
        if (!$front) {
            Shown::stop();
            return;
        }
        $why = is_user_logged_in() ? 'logged in' : (wp_doing_ajax() ? 'AJAX' : (is_customize_preview() ? 'preview' : ''));
        if ($why !== '') {
            self::refuse($why);
            self::$for_member = is_user_logged_in() && class_exists(Member::class, false) && Member::is_watched();
            self::$for_member ? Objects::begin() : Shown::stop();
            self::$for_member && self::$device !== '' && Member::mark('differs for telephones');
            return;
        }
        self::$watched = true;
        Objects::begin();
        // The cache answers conditions itself. WordPress knows feeds by the last change of a post alone: it would say that
        // nothing has changed where a name or a comment has, and say no tags.
        unset($_SERVER['HTTP_IF_NONE_MATCH'], $_SERVER['HTTP_IF_MODIFIED_SINCE']);
    }

    /** The main query is done, nothing is printed yet. */
    public static function judge(): void
    {
        if (!self::$watched && !self::$for_member) {
            return;
        }
        $why = self::private();
        if ($why !== '') {
            self::refuse($why);
            return;
        }
        Shown::main();
        if (self::$watched && is_404() && !headers_sent()) {
            // WordPress forbids browsers to keep any page that does not exist; this is for us alone, and goes before it.
            header('Millrace-Cache-Control: public, max-age=' . self::MISSING);
        }
        if (is_feed() || get_query_var('sitemap') || get_query_var('sitemap-stylesheet')) {
            self::$seconds = self::FEED;
        } elseif (is_robots()) {
            self::$seconds = self::PAGE;
        }
    }

    /** The template is chosen: it is a page as WordPress makes them, not what a plugin prints and ends. */
    public static function made($template)
    {
        self::$seconds = is_404() ? self::MISSING : (is_search() ? self::SEARCH : self::PAGE);
        return $template;
    }

    /** Where WordPress itself would lead to: the address of a page, or of one that had another. Before plugins have their say. */
    public static function chosen($url)
    {
        is_string($url) && self::$chosen[$url] = true;
        return $url;
    }

    public static function leads($location)
    {
        self::$is_chosen = is_string($location) && isset(self::$chosen[$location]);
        return $location;
    }

    /** A plugin may choose a redirect by its own look at the visitor: user agent, language, address. Then the response has to say that it is for all. */
    public static function redirected($status)
    {
        $is_permanent = $status === 301 || $status === 308;
        self::$seconds = $is_permanent ? (self::$is_chosen ? self::PAGE : self::permitted()) : null;
        self::$seconds === null || Shown::add(['redirect']);
        return $status;
    }

    /** Seconds for which the response itself says that everybody may have it; null: it doesn't. */
    private static function permitted(): ?int
    {
        foreach (headers_list() as $header) {
            if (preg_match('/^(?:Cache-Control|CDN-Cache-Control|Surrogate-Control):(?=.*\b(?:public|s-maxage|max-age)\b)(?!.*\b(?:private|no-store|no-cache)\b)(.*)/i', $header, $found)) {
                $age = preg_match('/s-maxage\s*=\s*"?(\d+)/i', $found[1], $age) || preg_match('/max-age\s*=\s*"?(\d+)/i', $found[1], $age) ? (int) $age[1] : self::PAGE;
                return $age ? min($age, self::PAGE) : null;
            }
        }
        return null;
    }

    /** An answer of the REST API; `$overrules`: although the answer itself forbids to keep it. */
    public static function answered(bool $kept, bool $overrules): void
    {
        [self::$seconds, self::$overrules] = [$kept ? self::REST : null, $kept && $overrules];
    }

    /**
     * A nonce is made: probably for the page. WordPress makes some for every page that it does not print: for scripts that
     * are only registered (if they are printed, end() sees it), and for a link of the comment form to log out.
     */
    public static function nonce($seconds, $action = -1)
    {
        $life = max(1, (int) $seconds);
        if (doing_action('wp_default_scripts')) {
            self::$script_nonce = min(self::$script_nonce ?? $life, $life);
        } elseif ($action !== 'log-out') {
            self::$nonce = min(self::$nonce ?? $life, $life);
        }
        return $seconds;
    }

    /**
     * The page differs for telephones. Themes and plugins ask for that from their first line on, long before init. The server knows what
     * WordPress's own function looks at (crates/pages/src/vary.rs), but not what another filter does.
     */
    public static function device($mobile)
    {
        self::$for_member && Member::mark('differs for telephones');
        $is_own = array_sum(array_map('count', $GLOBALS['wp_filter']['wp_is_mobile']->callbacks)) === 1;
        self::$device = $is_own && self::$device !== ', user-agent' ? ', mobile' : ', user-agent';
        return $mobile;
    }

    /** All is known. */
    public static function end(): void
    {
        if (!self::$begun) {
            // A redirect that a plugin has chosen by its own look at the client, an error page.
            self::refuse('ended before WordPress had loaded');
        }
        if (!self::$watched || self::$refused) {
            return;
        }
        self::$watched = false;
        $status = http_response_code();
        $why = self::forbidden($status);
        $tags = $why === '' ? Shown::tags() : [];
        if (!$tags) {
            self::refuse($why ?: 'too many tags');
            return;
        }
        if (wp_script_is('wp-api-fetch', 'done') || wp_script_is('wp-api-request', 'done')) {
            $life = self::$script_nonce ?? DAY_IN_SECONDS;
            self::$nonce = min(self::$nonce ?? $life, $life);
        }
        // With is_404() also where WordPress guesses which page is meant, and redirects to it.
        $seconds = self::until_due($status >= 400 || is_404() ? min(self::$seconds, self::MISSING) : self::$seconds);
        $control = 'public, max-age=' . (self::$nonce === null ? $seconds : min($seconds, max(1, (int) (self::$nonce * self::NONCE))) . ', nonce');
        $control = apply_filters('millrace_cache_control', $control);
        $tags = apply_filters('millrace_tags', [...$tags, ...Cart::tags()]);
        $differs = self::$device . (self::$country === null ? '' : ', country=' . self::$country);
        $is_said = is_string($control) && $control !== '' && is_array($tags);
        if ($is_said) {
            millrace_tag(...Tags::names(array_values(array_filter($tags, 'is_string'))));
            $is_said = millrace_cache_control($control . $differs, !self::$overrules);
        }
        if (!$is_said && $differs !== '') {
            // The site has spoken itself, or forbids us to; what it says knows nothing of variants.
            millrace_cache_control('no-store, because=differs by device or country');
        }
    }

    /** A page for a member that others may have: seconds, and its tags; none if it must not be kept. */
    public static function of_member(): array
    {
        self::$overrules = true;
        $status = http_response_code();
        if (!self::$for_member || $status !== 200 || is_404() || self::$country !== null || self::forbidden($status) !== '') {
            return [0, []];
        }
        $control = apply_filters('millrace_cache_control', 'public, max-age=' . self::until_due(self::$seconds));
        $tags = apply_filters('millrace_tags', Shown::tags());
        $is_kept = is_string($control) && preg_match('/^public, max-age=(\d+)$/D', $control, $found) && is_array($tags);
        return $is_kept ? [(int) $found[1], Tags::names(array_values(array_filter($tags, 'is_string')))] : [0, []];
    }

    /** It must not be kept; why, for `millrace cache explain`: no comma in it. `$words`: more directives. */
    public static function refuse(string $why, string $words = ''): void
    {
        self::$for_member && Member::mark($why);
        self::$refused = true;
        millrace_cache_control("no-store$words, because=$why", true);
    }

    /** It differs by country, and is for visitors in this one; null: that is unknown. */
    public static function only_for(?string $country): void
    {
        if ($country === null) {
            self::refuse('geolocation', ', country');
        } else {
            self::$country = $country;
        }
    }

    /** Why what the main query shows is not for everybody; ''. */
    private static function private(): string
    {
        return match (true) {
            is_preview() || is_customize_preview() => 'preview',
            is_trackback() => 'trackback',
            isset($_GET['unapproved']) => 'a comment that waits for approval',
            self::is_marked() => 'DONOTCACHEPAGE',
            is_singular() && post_password_required() => 'password of a post',
            Shop::is_hidden() => 'the shop is not open yet',
            function_exists('is_cart') && is_cart() => 'cart',
            function_exists('is_checkout') && is_checkout() => 'checkout',
            function_exists('is_account_page') && is_account_page() => 'account',
            function_exists('edd_is_checkout') && edd_is_checkout() => 'checkout',
            default => '',
        };
    }

    private static function is_marked(): bool
    {
        return defined('DONOTCACHEPAGE') && DONOTCACHEPAGE;
    }

    /** Why a complete response must not be kept; ''. */
    private static function forbidden(int $status): string
    {
        return match (true) {
            self::$seconds === null => 'not made by a template of WordPress',
            !in_array($status, [200, 301, 308, 404, 410], true) => "status $status",
            self::is_marked() => 'DONOTCACHEPAGE',
            wp_doing_ajax() => 'AJAX',
            default => self::by_header($status),
        };
    }

    /** Which header forbids it: something for one client, or what nocache_headers() and session_start() send; ''. WordPress sends it with
     * each 404, and with the redirect that it may make of one. */
    private static function by_header(int $status): string
    {
        foreach (headers_list() as $header) {
            if (preg_match('/^(Set-Cookie|Cart-Token|RateLimit-[\w-]+):/i', $header, $found)) {
                return $found[1];
            }
            if (!self::$overrules && $status !== 404 && !is_404() && preg_match('/^Cache-Control:.*\b(no-cache|no-store|private)\b/i', $header, $found)) {
                return 'Cache-Control: ' . strtolower($found[1]);
            }
        }
        return '';
    }

    /**
     * No longer than until a scheduled post or sale is due. WordPress publishes it in a request: if all were answered from the
     * cache, there would be none.
     */
    private static function until_due(int $seconds): int
    {
        $now = time();
        $sale = Shop::next_sale();
        $seconds = $sale === null ? $seconds : min($seconds, max($sale - $now, 10));
        $sales = function_exists('WC') ? 'woocommerce_scheduled_sales' : 'publish_future_post';
        foreach (_get_cron_array() ?: [] as $time => $events) {
            if ($time >= $now + $seconds) {
                break;
            }
            if (isset($events['publish_future_post']) || isset($events[$sales])) {
                return max($time - $now, 10);
            }
        }
        return $seconds;
    }
}
