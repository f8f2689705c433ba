<?php
namespace Millrace\WordPress;

/**
 * Pages that members with the same rights may share (the setting cache.members). The server may send a member a page that was made for another
 * one; crates/pages/src/members.rs has the rules. Said at the end of each request of a member (said()):
 *
 * - a pass: what pages may depend on (role()), a digest of the user's rows, the values that are filled in; or why there is none;
 * - whether others may have this page, too: only if nothing was read of the user but what the role contains, and the values.
 *
 * What is read of the user is seen
 *
 * - where his number or his row is read, by who reads it (read()): WordPress's own functions that are known, and whose use of it is seen
 *   below; a theme or plugin may only print the name (php/c/flow.c): `display_name === 'Anna'` makes a page personal;
 * - where his fields are read or written (meta()), where a query asks for his rows (query()), where a nonce is made (nonce()), and where
 *   his capabilities are not those of the role alone (cap());
 * - where the site's own code gets at cookies, fields of the request, a session, or the variables that WordPress sets for old themes
 *   ($user_ID: php/c/identity.c);
 * - where WordPress hands any of that to a callback of the site's, in whatever hook (php/c/told.c), or to code that the site has put in the place
 *   of WordPress's (look_at_replaced()).
 *
 * Anything else is personal. The file is loaded only with the setting.
 */
final class Member
{
    public const HOOKS = [
        'set_current_user' => ['identified', 0, \PHP_INT_MIN],
        'determine_current_user' => ['determined', 1, \PHP_INT_MAX],
        'auth_cookie_valid' => ['validated', 0, \PHP_INT_MIN],
    ];

    /** Added when a member asks for a page. */
    private const WATCH = [
        'get_user_metadata' => ['meta', 3, \PHP_INT_MIN],
        'add_user_metadata' => ['wrote', 2, \PHP_INT_MIN],
        'update_user_metadata' => ['wrote', 2, \PHP_INT_MIN],
        'delete_user_metadata' => ['wrote', 2, \PHP_INT_MIN],
        'query' => ['query', 1, \PHP_INT_MAX],
        'nonce_life' => ['nonce', 2, \PHP_INT_MAX],
        'user_has_cap' => ['cap', 3, \PHP_INT_MAX],
        'nocache_headers' => ['forbidden', 1, \PHP_INT_MAX],
        'template_redirect' => ['begin', 0, \PHP_INT_MIN + 2],
    ];

    /** Fields of the user that the role contains, or that are values; with the site's prefix: PREFIXED. */
    private const FIELDS = ['session_tokens', 'show_admin_bar_front', 'locale', 'first_name'];
    private const PREFIXED = ['capabilities', 'user_level', 'show_admin_bar_front'];
    /** Columns of the user's row that no page may depend on. */
    private const COLUMNS = ['id', 'user_login', 'user_pass', 'user_nicename', 'user_email', 'user_url', 'user_registered', 'user_activation_key',
        'user_status', 'spam', 'deleted'];
    /** Functions of WordPress that read the number of the user, and do nothing with it that is not seen elsewhere. */
    private const READERS = ['wp_set_current_user', 'wp_create_nonce', 'get_user_option', 'get_user_by', 'setup_userdata', 'wp_default_scripts',
        'wp_default_packages_inline_scripts', 'WP_Query->get_posts', 'comments_template', 'wp_list_comments', 'get_page_of_comment',
        'build_comment_query_vars_from_block', 'get_dashboard_url', 'get_edit_profile_url', 'get_edit_user_link', 'get_adjacent_post'];
    /** Nonces that are filled in: the link to log out, the one that scripts send to the REST API. */
    private const NONCES = ['log-out', 'wp_rest'];
    /** Filters of capabilities that are WordPress's own, or known to concern other pages. */
    private const CAPS = ['wp_maybe_grant_install_languages_cap', 'wp_maybe_grant_resume_extensions_caps', 'wp_maybe_grant_site_health_caps',
        'wc_customer_has_capability', 'wc_modify_map_meta_cap'];
    /** Functions of WordPress that find out who asks, or that are told it: a plugin may put its own in their place. */
    private const REPLACEABLE = ['wp_get_current_user', 'wp_set_current_user', 'get_userdata', 'get_user_by', 'cache_users', 'is_user_logged_in',
        'wp_validate_auth_cookie', 'wp_parse_auth_cookie', 'wp_create_nonce', 'wp_verify_nonce', 'wp_nonce_tick', 'wp_hash', 'wp_salt'];
    /** Hooks by which a plugin names a class that does so. */
    private const REPLACING = ['session_token_manager'];
    /** Of the user's row, what a page may print. */
    private const PRINTED = ['display_name'];
    /** Cookies that plugins may look for: who has one gets no pages for members (Profile::bypass_cookies). */
    private const HOLDING = '/^(woocommerce_|wp_woocommerce_session_|edd_items_in_cart|comment_author_|wp-postpass_)/';
    /** Capabilities of who makes pages, not of a reader. */
    private const RIGHTS = '/^(edit|delete|publish|create|manage|moderate|read_private|upload|unfiltered|import|export|install|update|activate|switch|promote|remove|list_users)/';

    /** The member; 0: none. */
    private static int $user = 0;
    private static ?object $object = null;
    /** Why the page is personal. */
    private static array $why = [];
    private static int $forbidden = 0;
    /** A capability was asked for. */
    private static bool $asked = false;
    /** Our own queries and reads don't count. */
    private static bool $own = false;
    /** The server has been told that others may have the page. */
    private static bool $is_shared = false;

    /** WordPress knows who asks, and from now on who reads that. */
    public static function identified(): void
    {
        $user = $GLOBALS['current_user'] ?? null;
        if (!$user instanceof \WP_User || $user === self::$object) {
            return;
        }
        $id = (int) $user->ID;
        if (self::$object || self::$user) {
            // Another user, for a while.
            self::mark('user');
        }
        if (!$id || !self::is_front()) {
            return;
        }
        if (!self::$user) {
            Hooks::add(self::class, self::WATCH);
        }
        [self::$user, self::$object] = [$id, $user];
        self::tell($id, $user);
        if (get_class($user) !== 'WP_User' || !millrace_notice_reads($user, ['ID', 'data'], self::class . '::read')) {
            self::mark('user');
        }
    }

    /** The worker looks for what is the member's in all that the site's code is given. */
    private static function tell(int $id, object $user): void
    {
        self::$own = true;
        $login = $_COOKIE[LOGGED_IN_COOKIE] ?? '';
        $parts = is_string($login) ? array_slice(explode('|', $login), 2) : [];
        $own = array_map('strval', [$user->user_login, $user->user_email, $user->user_nicename, $user->user_pass, ...$parts]);
        // From here on the number is known: filters of what is asked next are told nothing by other numbers.
        millrace_member_is($id, $own, []);
        $first = get_user_meta($id, 'first_name', true);
        millrace_member_is($id, [...$own, ...array_map('wp_create_nonce', self::NONCES)], [(string) $user->display_name, is_string($first) ? $first : '']);
        self::$own = false;
    }

    /** Somebody asks for the user's number, perhaps a plugin. */
    public static function determined($user)
    {
        if (!in_array('_wp_get_current_user', array_column(debug_backtrace(\DEBUG_BACKTRACE_IGNORE_ARGS, 12), 'function'), true)) {
            self::mark('determine_current_user');
        }
        return $user;
    }

    /** Somebody looks into a cookie for the user's number. */
    public static function validated(): void
    {
        foreach (debug_backtrace(\DEBUG_BACKTRACE_IGNORE_ARGS, 12) as $frame) {
            $is_own = self::$own || str_starts_with((string) ($frame['file'] ?? ''), __DIR__ . '/');
            if ($frame['function'] === 'wp_validate_auth_cookie' && !$is_own && !self::is_wordpress((string) ($frame['file'] ?? ''))) {
                self::mark('wp_validate_auth_cookie()');
            }
        }
    }

    private static function is_front(): bool
    {
        return ($_SERVER['REQUEST_METHOD'] ?? '') === 'GET' && !is_admin() && !wp_doing_cron() && !wp_installing() && !wp_doing_ajax()
            && !is_multisite() && !defined('XMLRPC_REQUEST') && !defined('LSCWP_V');
    }

    /** Whether this request is for a page of a member. */
    public static function is_watched(): bool
    {
        return self::$user !== 0;
    }

    /** His number. */
    public static function user(): int
    {
        return self::$user;
    }

    /** WordPress is about to make the page. */
    public static function begin(): void
    {
        Kind::begin();
    }

    /**
     * The page is this member's own. `$why`: in a word or two, for people. Functions that plugins have registered for the end of the request,
     * callbacks of the output and destructors run after the hook `shutdown`, and so after the report.
     */
    public static function mark(string $why): void
    {
        self::$why[$why] = true;
        if (self::$is_shared) {
            self::$is_shared = false;
            Visitor::keep_page();
            self::trace();
        }
    }

    /** Who reads the user's number or row: whether that is to be noticed again. */
    public static function read(string $property): bool
    {
        if (self::$own) {
            return true;
        }
        $frames = debug_backtrace(0, 4);
        $why = $property === '*' ? 'all of the user' : self::reader($frames);
        if ($why === '') {
            $property === 'ID' && millrace_member_reader();
            return true;
        }
        self::mark("reads $why");
        return false;
    }

    /** What must not be read, '' if it may be: `$frames` begin with read(), called where the property is read. */
    private static function reader(array $frames): string
    {
        $name = static fn (int $at): string => (isset($frames[$at]['class']) ? $frames[$at]['class'] . '->' : '') . ($frames[$at]['function'] ?? '');
        $file = static fn (int $at): string => (string) ($frames[$at]['file'] ?? '');
        if ($name(1) === 'WP_User->__get' || $name(1) === 'WP_User->__isset') {
            $key = $frames[1]['args'][0] ?? '';
            if (in_array($key, self::PRINTED, true)) {
                return self::is_printed() ? '' : "$key to do more than print it, in " . basename($file(1));
            }
            // What is no column is a field: meta() sees it.
            return is_string($key) && !in_array(strtolower($key), self::COLUMNS, true) ? '' : "$key in " . basename($file(1));
        }
        if ($name(1) === 'WP_User->exists' || $name(1) === 'WP_User->has_cap') {
            return '';
        }
        $at = $name(1) === 'get_current_user_id' ? 1 : 0;
        $is_known = self::is_wordpress($file($at)) && in_array($name($at + 1), self::READERS, true);
        return $is_known ? '' : 'ID in ' . basename($file($at));
    }

    /** Whether what is read now gets into the output and nowhere else. */
    private static function is_printed(): bool
    {
        return millrace_member_prints() === 1;
    }

    private static function is_wordpress(string $file): bool
    {
        static $folder = null;
        $folder ??= realpath(ABSPATH . WPINC) . '/';
        return strncmp($file, $folder, strlen($folder)) === 0 || strncmp($file, ABSPATH . WPINC . '/', strlen(ABSPATH . WPINC . '/')) === 0;
    }

    /** A field of a user is read. */
    public static function meta($value, $user, $key = '')
    {
        if ((int) $user === self::$user && !self::$own && !self::is_covered((string) $key)) {
            self::mark("reads field $key");
        }
        return $value;
    }

    /** The fields that are known, by their names in the database. */
    private static function fields(object $wpdb): array
    {
        return [...self::FIELDS, ...array_map(static fn ($name) => $wpdb->prefix . $name, self::PREFIXED)];
    }

    private static function is_covered(string $key): bool
    {
        $prefix = $GLOBALS['wpdb']->prefix;
        if ($key === 'first_name') {
            return self::is_printed();
        }
        if ($key === 'session_tokens') {
            return in_array('WP_User_Meta_Session_Tokens', array_column(debug_backtrace(\DEBUG_BACKTRACE_IGNORE_ARGS, 12), 'class'), true);
        }
        if (in_array($key, self::fields($GLOBALS['wpdb']), true)) {
            return true;
        }
        // Of these it is only read whether there are any.
        $caller = $key === '' ? 'get_blogs_of_user' : ($key === "{$prefix}persisted_preferences" ? 'wp_default_packages_inline_scripts' : '');
        return $caller !== '' && in_array($caller, array_column(debug_backtrace(\DEBUG_BACKTRACE_IGNORE_ARGS, 12), 'function'), true);
    }

    /** A field of a user is written: the next page may show it. */
    public static function wrote($check, $user = 0)
    {
        (int) $user === self::$user && self::mark('writes a field');
        return $check;
    }

    /** Of queries for rows of the user, those of WordPress for the user himself, and for posts and comments that only he sees: he has none. */
    public static function query($query)
    {
        if (self::$own || !is_string($query) || !str_contains($query, (string) self::$user)) {
            return $query;
        }
        global $wpdb;
        $id = self::$user;
        $known = [
            "/\s+OR \([\w`]+\.post_author = $id AND [\w`]+\.post_status = '\w+'\)/",
            "/\( ?user_id = $id AND comment_approved = '0' ?\)/",
            "/^SELECT user_id, meta_key, meta_value FROM $wpdb->usermeta WHERE user_id IN \($id\) ORDER BY umeta_id ASC$/D",
            "/^SELECT \* FROM $wpdb->users WHERE ID (= '$id' LIMIT 1|IN \($id\))$/D",
        ];
        $rest = preg_replace($known, '', $query);
        $column = '(user|author|member|customer|owner|person|profile|account|student|subscriber|uid)\w*[`"]?\s*';
        if (preg_match("/$column(((=|<>|!=|<=>|LIKE)\s*['\"%]*$id\b)|((NOT\s+)?IN\s*\([^)]*\b$id\b))/i", $rest)) {
            self::mark('asks the database ' . substr((string) preg_replace('/\s+/', ' ', $query), 0, 300));
        }
        return $query;
    }

    /** A nonce is made. Scripts that are only registered have some, too: `wp_rest` is filled in if they are printed. */
    public static function nonce($seconds, $action = -1)
    {
        if (!self::$own) {
            $becomes = millrace_member_prints();
            $becomes === 2 || ($becomes === 1 && in_array($action, self::NONCES, true)) || self::mark('a nonce for ' . (is_scalar($action) ? $action : '?'));
        }
        return $seconds;
    }

    /** Whether the user has a capability: it must follow from the role. */
    public static function cap($all, $caps = [], $arguments = [])
    {
        $cap = is_array($arguments) ? (string) ($arguments[0] ?? '') : '';
        if (!is_array($arguments) || (int) ($arguments[1] ?? 0) !== self::$user || self::$own) {
            return $all;
        }
        // Of posts it depends on their author, too: the user has none.
        if (count($arguments) > 2 && preg_match('/_users?$/D', $cap) && !self::is_of_form($cap, (int) $arguments[2])) {
            self::mark("may $cap");
        }
        if (!self::$asked) {
            self::$asked = true;
            self::look_at_filters();
        }
        return $all;
    }

    /** The comment form asks whether the user may edit himself: everybody may. */
    private static function is_of_form(string $cap, int $whom): bool
    {
        $is_self = $cap === 'edit_user' && $whom === self::$user;
        return $is_self && in_array('comment_form', array_column(debug_backtrace(\DEBUG_BACKTRACE_IGNORE_ARGS, 12), 'function'), true);
    }

    /** A plugin's filter of capabilities may look at the user. */
    private static function look_at_filters(): void
    {
        foreach (['user_has_cap', 'map_meta_cap'] as $hook) {
            foreach ($GLOBALS['wp_filter'][$hook]->callbacks ?? [] as $callbacks) {
                foreach ($callbacks as $callback) {
                    $function = $callback['function'] ?? null;
                    $is_known = is_string($function) && (in_array($function, self::CAPS, true) || str_starts_with($function, __NAMESPACE__ . '\\'));
                    $is_known || self::mark("a plugin's $hook");
                }
            }
        }
    }

    /** nocache_headers(): WordPress sends them once with each page for who is logged in. */
    public static function forbidden($headers)
    {
        self::$forbidden++;
        if (self::$forbidden > 1 || did_action('send_headers')) {
            self::mark('nocache_headers()');
        }
        return $headers;
    }

    /** What the server may know of the member whose log-in was proven, as details of a report. */
    public static function said(int $user): array
    {
        // Of what is no page, nothing can be said: no admin bar is shown there either.
        if (!$user || self::$user !== $user || !Kind::is_watched() || wp_is_json_request() || is_embed()) {
            return [];
        }
        self::$own = true;
        try {
            return self::details();
        } catch (\Throwable $error) {
            return ['held=unknown'];
        } finally {
            self::$own = false;
        }
    }

    private static function details(): array
    {
        $held = self::held();
        if ($held !== '') {
            return ["held=$held"];
        }
        $values = self::values();
        $rows = self::rows($GLOBALS['wpdb'], [self::$user]);
        $end = (int) (wp_parse_auth_cookie('', 'logged_in')['expiration'] ?? 0) - time();
        if ($end <= 0 || !isset($rows[self::$user])) {
            return ['held=unknown'];
        }
        $role = self::role($values);
        $said = ["pass=$end", "role=$role", 'rows=' . $rows[self::$user], 'values=' . implode(',', array_map('rawurlencode', $values))];
        return [...$said, ...self::page($role)];
    }

    /** Why PHP makes all pages for this member; ''. */
    private static function held(): string
    {
        global $wpdb;
        $user = self::$object;
        foreach (array_keys(array_filter($user->allcaps)) as $cap) {
            if (preg_match(self::RIGHTS, (string) $cap)) {
                return 'rights';
            }
        }
        if (is_admin_bar_showing()) {
            return 'bar';
        }
        foreach ([$user->display_name, get_user_meta(self::$user, 'first_name', true)] as $name) {
            // WordPress writes some characters in other ways, and where they are in pairs.
            if (!is_string($name) || preg_match('/[^A-Za-z0-9 .-]|--|\.\.|  | -|- |^[ .-]|[ -]$|\dx\d|^.$/D', $name)) {
                return 'name';
            }
        }
        // Posts, and comments that wait: his own he sees where others don't.
        $owns = $wpdb->get_var($wpdb->prepare("SELECT 1 FROM $wpdb->posts WHERE post_author = %d LIMIT 1", self::$user))
            || $wpdb->get_var($wpdb->prepare("SELECT 1 FROM $wpdb->comments WHERE comment_approved = '0' AND user_id = %d LIMIT 1", self::$user));
        return $owns ? 'rights' : (self::is_current() ? '' : 'changed');
    }

    /** Whether what this request knows of the user is in the database still. */
    private static function is_current(): bool
    {
        global $wpdb;
        $keys = self::fields($wpdb);
        $in = implode(', ', array_fill(0, count($keys), '%s'));
        $found = [];
        foreach ($wpdb->get_results($wpdb->prepare("SELECT meta_key, meta_value FROM $wpdb->usermeta WHERE user_id = %d AND meta_key IN ($in) ORDER BY umeta_id DESC", self::$user, ...$keys)) as $row) {
            $found[$row->meta_key] = maybe_unserialize($row->meta_value);
        }
        foreach ($keys as $key) {
            if (($found[$key] ?? '') != get_user_meta(self::$user, $key, true)) {
                return false;
            }
        }
        return ($found["{$wpdb->prefix}capabilities"] ?? '') == self::$object->caps
            && maybe_unserialize(self::roles($wpdb)) == get_option("{$wpdb->prefix}user_roles")
            && $wpdb->get_var($wpdb->prepare("SELECT display_name FROM $wpdb->users WHERE ID = %d", self::$user)) === self::$object->display_name;
    }

    /** What is filled into shared pages, in an order that never changes. */
    private static function values(): array
    {
        $first = get_user_meta(self::$user, 'first_name', true);
        return [self::$object->display_name, is_string($first) ? $first : '', ...array_map('wp_create_nonce', self::NONCES)];
    }

    /** Everything about the user that a page may depend on. Of the names it is how they are written: others write a space in another way. */
    private static function role(array $values): string
    {
        [$name, $first] = $values;
        $shape = static fn (string $text): array => [$text === '', str_contains($text, ' '), str_contains($text, '.'), str_contains($text, '-'), ctype_digit($text)];
        $user = self::$object;
        $caps = array_filter($user->allcaps);
        ksort($caps);
        $all = [
            $user->roles, $user->caps, $caps, get_user_option('show_admin_bar_front', self::$user), (int) get_user_option('user_level', self::$user), get_user_locale(), determine_locale(), get_locale(),
            $shape($name), $shape($first), $name === $first, $first !== '' && str_contains($name, $first),
        ];
        return substr(hash_hmac('sha256', serialize($all), wp_salt('nonce')), 0, 32);
    }

    /** What all roles may do, as it is in the database. */
    private static function roles(object $wpdb): string
    {
        return (string) $wpdb->get_var("SELECT option_value FROM $wpdb->options WHERE option_name = '{$wpdb->prefix}user_roles'");
    }

    /** Digests of the rows of users, by their numbers; and of the roles. */
    public static function rows(object $wpdb, array $ids): array
    {
        $ids = implode(', ', array_map('intval', $ids)) ?: '0';
        $keys = "'" . implode("', '", self::fields($wpdb)) . "'";
        [$rows, $roles] = [[], self::roles($wpdb)];
        foreach ($wpdb->get_results("SELECT ID, user_login, user_pass, user_nicename, user_email, user_status, display_name FROM $wpdb->users WHERE ID IN ($ids)", \ARRAY_N) ?: [] as $row) {
            $rows[(int) $row[0]] = [$roles, array_map('strval', $row)];
        }
        foreach ($wpdb->get_results("SELECT user_id, meta_key, meta_value FROM $wpdb->usermeta WHERE user_id IN ($ids) AND meta_key IN ($keys) ORDER BY umeta_id", \ARRAY_N) ?: [] as $row) {
            isset($rows[(int) $row[0]]) && $rows[(int) $row[0]][] = array_map('strval', $row);
        }
        return array_map(static fn ($all) => substr(hash('sha256', serialize($all)), 0, 32), $rows);
    }

    /** Something that the site's code has read of the request, or been told, without a look at the user; the worker calls this for what comes after the report. */
    public static function found(string $what): void
    {
        [$kind, $name] = [strtok($what, ' '), substr($what, strlen('cookie '))];
        $kind === 'cookie' && preg_match(self::HOLDING, $name) || self::mark("reads $what");
    }

    /** Code of the site's in the place of WordPress's, which is told who asks. */
    private static function look_at_replaced(): void
    {
        foreach (self::REPLACEABLE as $function) {
            self::is_known($function) || self::mark("another $function()");
        }
        foreach (self::REPLACING as $hook) {
            foreach ($GLOBALS['wp_filter'][$hook]->callbacks ?? [] as $callbacks) {
                foreach ($callbacks as $callback) {
                    self::is_known($callback['function'] ?? null) || self::mark("a plugin's $hook");
                }
            }
        }
    }

    /** Whether a function is WordPress's or ours. */
    private static function is_known($callback): bool
    {
        try {
            if (is_string($callback) && str_contains($callback, '::')) {
                $callback = explode('::', $callback, 2);
            }
            $code = is_array($callback) ? new \ReflectionMethod($callback[0], $callback[1]) : new \ReflectionFunction(\Closure::fromCallable($callback));
            $file = (string) $code->getFileName();
            return self::is_wordpress($file) || str_starts_with($file, __DIR__ . '/');
        } catch (\Throwable $error) {
            return false;
        }
    }

    /** What this page is. */
    private static function page(string $role): array
    {
        $personal = ['kind=none'];
        array_map([self::class, 'found'], millrace_identity_reads() ?? ['the request, which can\'t be seen here']);
        self::look_at_replaced();
        [$seconds, $tags] = self::$why ? [0, []] : Page::of_member();
        if (self::$why || $seconds <= 0 || !$tags || preg_grep('/,/', $tags)) {
            self::trace();
            return $personal;
        }
        self::$asked && self::look_at_filters();
        if (wp_script_is('wp-preferences', 'done') || wp_script_is('utils', 'done') || wp_script_is('wp-data', 'done')) {
            self::mark('reads ID in a script');
        }
        $kind = self::$why ? null : Kind::digest([$role]);
        if ($kind === null) {
            self::trace();
            return $personal;
        }
        millrace_visitor('tags', implode(',', array_map('rawurlencode', $tags)));
        self::$is_shared = true;
        return ["kind=member-kind-$kind", "page=$seconds"];
    }

    /** Why this page is personal, in the log of who looks for it. */
    private static function trace(): void
    {
        if (defined('MILLRACE_MEMBERS_LOG') && MILLRACE_MEMBERS_LOG) {
            error_log('Millrace: ' . ($_SERVER['REQUEST_URI'] ?? '') . ' is personal: ' . (implode(', ', array_keys(self::$why)) ?: 'it must not be kept'));
        }
    }
}
