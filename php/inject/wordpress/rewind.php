<?php
namespace Millrace\WordPress;

/**
 * With php.rewind, WordPress and its plugins are loaded once, and requests begin behind that: at the start of `wp_loaded`. What the boot has read of
 * its request until then is the image's key; what WordPress itself reads is read again here, or compared.
 *
 * What the boot has read of the database is compared, too, once a second at most, and after each request that may have written: its
 * queries are sent again. If a row is another one now, the request runs the ordinary way. What the boot has set for its connection is set again. With SQLite only the options that are
 * loaded on every page are compared, by each request; other rows are at most as old as such an image may be (php/c/rewind/point.c: one second).
 * What the boot has read from our object cache is compared by each request (php/object-cache/rewound.php).
 */
final class Rewind
{
    public const HOOKS = ['wp_loaded' => ['point', 0, \PHP_INT_MIN]];

    /** Functions and files of WordPress whose reads are repeated, or whose findings are compared, after the point. */
    private const REPEATED = ['wp_fix_server_vars', 'wp_is_json_request', 'wp-includes/vars.php', 'wp_magic_quotes', 'sanitize_comment_cookies'];
    /** Where our object cache looks at the address, for what to ask for. */
    private const PREFETCH = 'WP_Object_Cache::prefetch';
    /** @var array<string, mixed> the options of the boot */
    private static array $options = [];
    /** What wp-config.php or a plugin has changed in superglobals, as behind a proxy: name => [elements that were set, and that were unset]. */
    private static array $changes = [];
    /** What was found out about the request of the boot. */
    private static array $found = [];
    /** Whether WordPress has found out about the browser what browser() does. */
    private static bool $agrees = false;
    private static string $agent = '';
    /** Our object cache, if the site uses it. */
    private static ?object $objects = null;
    /** How the connection of the SQLite plugin is opened; null: it does that itself, or it is another database. */
    private static ?array $sqlite = null;
    /** Whether this request has its connection to the database. */
    private static bool $connected = true;
    /** The boot begins. */
    public static function announce(): void
    {
        millrace_rewind_repeats([...self::REPEATED, self::PREFETCH, ...RewoundShop::ANSWERS, ...RewoundShop::LOADS, RewoundShop::NONCES], RewoundShop::STATE);
    }

    /** All is loaded and initialized, and WordPress has not looked for a page yet. */
    public static function point(): void
    {
        self::$objects = self::objectCache();
        if ((wp_using_ext_object_cache() && !self::$objects) || wp_installing() || is_admin()) {
            return;
        }
        $closed = false;
        $before = [];
        $is_sqlite = get_class($GLOBALS['wpdb']) !== 'wpdb';
        $close = static function () use (&$closed, &$before, $is_sqlite): ?string {
            self::$options = $is_sqlite && !self::$objects ? wp_load_alloptions() : [];
            self::$found = self::find();
            self::$agent = (string) ($_SERVER['HTTP_USER_AGENT'] ?? '');
            $browser = self::browser(self::$agent);
            self::$agrees = $browser && array_intersect_key($GLOBALS, $browser) == $browser;
            $closed = self::disconnect();
            self::$connected = !$closed;
            $before = self::superglobals();
            self::$changes = self::changes($before);
            $why = RewoundNetwork::remember(self::$changes['_SERVER'][0]);
            return $why ?? self::$objects?->before_image(RewoundShop::groups());
        };
        $compare = $is_sqlite ? null : [self::class, 'isSame'];
        $own = self::$objects ? [self::PREFETCH] : [];
        $repeated = [...self::REPEATED, ...RewoundNetwork::READS, ...$own, ...RewoundShop::ANSWERS, ...RewoundShop::repeated()];
        $rewound = millrace_rewind_point($close, $repeated, $compare);
        if ($rewound) {
            self::begin();
            return;
        }
        foreach ($before as $name => $value) {
            $GLOBALS[$name] = $value;
        }
        if ($closed) {
            self::connect();
        }
        self::$objects?->reconnect();
    }

    /** Our object cache, of a version that can be in an image; null: none, or that of a plugin. */
    private static function objectCache(): ?object
    {
        $cache = $GLOBALS['wp_object_cache'] ?? null;
        return class_exists('Millrace_Objects', false) && is_object($cache) && method_exists($cache, 'in_image') ? $cache : null;
    }

    private static function superglobals(): array
    {
        return ['_SERVER' => $_SERVER, '_GET' => $_GET, '_POST' => $_POST, '_COOKIE' => $_COOKIE, '_REQUEST' => $_REQUEST];
    }

    /** What WordPress itself has done to the superglobals until the point. */
    private static function repeat(): void
    {
        wp_fix_server_vars();
        wp_magic_quotes();
        if (has_action('sanitize_comment_cookies', 'sanitize_comment_cookies')) {
            sanitize_comment_cookies();
        }
        if (Page::$watched) {
            unset($_SERVER['HTTP_IF_NONE_MATCH'], $_SERVER['HTTP_IF_MODIFIED_SINCE']);
        }
    }

    /** What others have done to them. It follows from what they have read of the request, which is in the image's key. Leaves them as the server sends them. */
    private static function changes(array $boot): array
    {
        millrace_rewind_superglobals();
        self::repeat();
        $changes = [];
        foreach (self::superglobals() as $name => $usual) {
            $set = array_filter($boot[$name], static fn ($value, $key) => !array_key_exists($key, $usual) || $usual[$key] !== $value, \ARRAY_FILTER_USE_BOTH);
            $changes[$name] = [$set, array_keys(array_diff_key($usual, $boot[$name]))];
        }
        millrace_rewind_superglobals();
        return $changes;
    }

    /** The request is another one than that of the boot. */
    private static function begin(): void
    {
        timer_start();
        self::repeat();
        foreach (self::$changes as $name => [$set, $unset]) {
            foreach ($set as $key => $value) {
                $GLOBALS[$name][$key] = $value;
            }
            foreach ($unset as $key) {
                unset($GLOBALS[$name][$key]);
            }
        }
        $agent = (string) ($_SERVER['HTTP_USER_AGENT'] ?? '');
        $browser = self::browser($agent);
        if (self::find() !== self::$found || ($agent !== self::$agent && !($browser && self::$agrees))) {
            millrace_rewind_leave(true);
        }
        foreach ($browser as $name => $is) {
            $GLOBALS[$name] = $is;
        }
        if (self::$objects && !self::$objects->in_image()) {
            millrace_rewind_leave();
        }
        self::connect();
        if (!RewoundNetwork::isSame()) {
            self::disconnect();
            millrace_rewind_leave(true);
        }
        if (self::$options) {
            Objects::renew(static function () {
                wp_cache_init();
                wp_start_object_cache();
            });
            if (wp_load_alloptions() !== self::$options) {
                millrace_rewind_leave();
            }
        }
        RewoundShop::begin();
    }

    /** Whether the queries of the boot find the same rows now. */
    public static function isSame(): bool
    {
        self::connect();
        foreach (millrace_rewind_queries() as [$query, $rows]) {
            $result = mysqli_query($GLOBALS['wpdb']->dbh, $query);
            if (!self::agree($query, $rows, $result instanceof \mysqli_result ? $result->fetch_all() : false)) {
                return false;
            }
        }
        return true;
    }

    /**
     * Whether rows are the same; false stands for an error. Of the timeout of a transient only matters that it is not over: plugins extend
     * it all the time.
     */
    private static function agree(string $query, array|false $then, array|false $now): bool
    {
        if ($then === $now || $then === false || $now === false) {
            return $then === $now;
        }
        if (count($then) !== count($now) || !str_contains($query, 'transient_timeout_')) {
            return false;
        }
        foreach ($then as $number => $row) {
            if ($row !== $now[$number] && !self::lasts($query, $row, $now[$number])) {
                return false;
            }
        }
        return true;
    }

    /** Whether these are timeouts of one transient, neither of which is over: `[timeout]`, or `[name, timeout]`. */
    private static function lasts(string $query, array $then, array $now): bool
    {
        $is_named = count($then) === 2 && $then[0] === $now[0] && preg_match('/^_(site_)?transient_timeout_/', $then[0]);
        $is_alone = count($then) === 1 && preg_match("/ option_name = '_(site_)?transient_timeout_/", $query);
        return ($is_named || $is_alone) && min((int) end($then), (int) end($now)) > time();
    }

    /** What WordPress finds out about a request while it is loaded, but for the browser. */
    private static function find(): array
    {
        return [
            $_SERVER['PHP_SELF'] ?? null, $_SERVER['SERVER_SOFTWARE'] ?? null, wp_is_json_request(),
            isset($_SERVER['HTTP_AUTHORIZATION']), isset($_SERVER['REDIRECT_HTTP_AUTHORIZATION']),
            RewoundShop::answers(),
        ];
    }

    /** The global variables that wp-includes/vars.php sets by a User-Agent; none where filters have a say. */
    private static function browser(string $agent): array
    {
        $has = static fn (string $word): bool => strpos($agent, $word) !== false;
        $kinds = [
            'is_lynx' => $has('Lynx'),
            'is_edge' => $has('Edg'),
            'is_opera' => $has('Opera') || $has('OPR/'),
            'is_chrome' => stripos($agent, 'chrome') !== false,
            'is_safari' => stripos($agent, 'safari') !== false,
            'is_winIE' => ($has('MSIE') || $has('Trident')) && $has('Win'),
            'is_macIE' => $has('MSIE') && $has('Mac'),
            'is_gecko' => $has('Gecko'),
            'is_NS4' => $has('Nav') && $has('Mozilla/4.'),
        ];
        if (stripos($agent, 'chromeframe') !== false) {
            return [];
        }
        $first = array_search(true, $kinds, true);
        $found = array_fill_keys(array_keys($kinds), false);
        if ($first !== false) {
            $found[$first] = true;
        }
        $found['is_iphone'] = $found['is_safari'] && stripos($agent, 'mobile') !== false;
        $found['is_IE'] = $found['is_macIE'] || $found['is_winIE'];
        return $found;
    }

    /** Closes the connection to the database: none may be open at the point. False: it is not one that is known here. */
    private static function disconnect(): bool
    {
        global $wpdb;
        if (get_class($wpdb) === 'wpdb') {
            return $wpdb->close();
        }
        if (!$wpdb instanceof \WP_SQLite_DB || !defined('FQDB')) {
            return false;
        }
        $pdo = $GLOBALS['@pdo'] ?? null;
        self::$sqlite = $pdo instanceof \Millrace_SQLite ? [get_class($pdo), 'sqlite:' . FQDB] : null;
        $translator = $wpdb->dbh;
        $forget = function (): void {
            foreach (get_object_vars($this) as $name => $value) {
                if ($value instanceof \PDO || $value instanceof \PDOStatement) {
                    $this->$name = null;
                }
            }
        };
        $forget->call($translator);
        unset($GLOBALS['@pdo']);
        $wpdb->dbh = null;
        return true;
    }

    private static function connect(): void
    {
        global $wpdb;
        if (self::$connected) {
            return;
        }
        self::$connected = true;
        if (self::$sqlite) {
            [$class, $name] = self::$sqlite;
            // As wp-content/db.php does it (crates/millrace/src/wordpress/sqlite-turns.php).
            $GLOBALS['@pdo'] = new $class($name, null, null, [\PDO::ATTR_ERRMODE => \PDO::ERRMODE_EXCEPTION,
                \PDO::ATTR_STRINGIFY_FETCHES => true, \PDO::ATTR_TIMEOUT => 10]);
        }
        $wpdb->db_connect();
        foreach (millrace_rewind_settings() as [$how, $value]) {
            ("mysqli_$how")($wpdb->dbh, $value);
        }
    }
}
