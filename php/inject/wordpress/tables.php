<?php
namespace Millrace\WordPress;

/**
 * SQL that plugins and themes run by `$wpdb`: which pages a query concerns is not known from WordPress's functions.
 *
 * - A query of WordPress's tables for a page: the page is purged with each change of that family.
 * - A write to a table of a plugin - slides, redirects, translations - is judged as one to an option that WordPress does not load on every
 *   page (Options): an administrator's request for a change purges all pages; what visitors and cron write is state of the plugin.
 */
final class Tables
{
    public const HOOKS = [
        'query' => ['written', 1, \PHP_INT_MAX],
        'shutdown' => ['end', 0, \PHP_INT_MIN],
    ];

    /** WordPress's tables, as properties of $wpdb => tags of a page that reads them. */
    private const READ = [
        'posts' => ['any-post'], 'postmeta' => ['any-post'], 'term_relationships' => ['any-post', 'any-termlink'],
        'terms' => ['any-termlink'], 'term_taxonomy' => ['any-termlink'], 'termmeta' => ['any-termlink'],
        'comments' => ['any-comments', 'comments'], 'commentmeta' => ['any-comments', 'comments'],
        'users' => ['any-by', 'users'], 'usermeta' => ['any-by'],
    ];
    private const WRITES = '/^[\s(]*(?:(?:INSERT|REPLACE)\s(?:\s*(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|IGNORE)\s)*\s*(?:INTO\s+)?'
        . '|UPDATE\s(?:\s*(?:LOW_PRIORITY|IGNORE)\s)*\s*|DELETE\s[^;]*?\bFROM\s+|TRUNCATE\s+(?:TABLE\s+)?)[`"]?([\w$.-]+)/i';
    /** State of plugins that no page shows, and what they derive from posts, products and orders, which have hooks of their own. */
    private const STATE = '/^(actionscheduler_.+|wc_(orders?|customer|product_(meta_lookup|attributes_lookup|download)|reserved|rate_limits|webhooks|admin|download'
        . '|category_lookup)(_.+)?|woocommerce_(order|sessions|log|api|payment_token|downloadable)(_?.+)?|yoast_.+|aioseo_(posts|cache|notifications)|rank_math_(internal|analytics|404).*'
        . '|wf[a-z].+|(.+_)?(history|occurrences|events?|activity|activities|analytics|statistics?|submissions?|entries|emails?|mail|404s?|jobs?|tasks?|cache|links?_(index|count)))$/Di';
    /** Hooks of changes that purge what shows them: a plugin's row that is written meanwhile belongs to that post, term, user or option. */
    private const CHANGES = ['save_post', 'wp_insert_post', 'post_updated', 'edit_post', 'transition_post_status', 'before_delete_post', 'delete_post', 'deleted_post',
        'wp_trash_post', 'trashed_post', 'added_post_meta', 'updated_post_meta', 'deleted_post_meta', 'set_object_terms', 'created_term', 'edited_term', 'delete_term',
        'add_attachment', 'edit_attachment', 'delete_attachment', 'profile_update', 'user_register', 'delete_user', 'wp_login', 'wp_logout', 'comment_post',
        'wp_insert_comment', 'edit_comment', 'transition_comment_status', 'added_option', 'updated_option', 'deleted_option', 'woocommerce_update_product',
        'woocommerce_new_product', 'woocommerce_update_order', 'woocommerce_new_order', 'woocommerce_order_status_changed'];

    /** Tables of plugins that an administrator's request has written, as keys. */
    private static array $written = [];
    /** Folders of WordPress's own code, as PHP names its files: a site may share them by links. */
    private static ?array $wordpress = null;

    /** Tags of a page that shows what this query finds; none for queries of WordPress itself, whose results other hooks see. */
    public static function read(string $query): array
    {
        global $wpdb;
        $tags = [];
        foreach (preg_match('/^[\s(]*(SELECT|WITH)\b/i', $query) ? self::READ : [] as $table => $some) {
            $name = $wpdb->$table ?? '';
            if ($name !== '' && strpos($query, $name) !== false && preg_match('/(?<![\w$])' . preg_quote($name, '/') . '(?![\w$])/', $query)) {
                array_push($tags, ...$some);
            }
        }
        if (!$tags) {
            return [];
        }
        $caller = self::caller();
        self::$wordpress ??= [__DIR__, ...array_filter(array_map('realpath', [ABSPATH . WPINC, ABSPATH . 'wp-admin']))];
        $is_known = static fn (string $folder) => strncmp($caller, "$folder/", strlen($folder) + 1) === 0;
        if (array_filter(self::$wordpress, $is_known)) {
            return [];
        }
        // WooCommerce searches for numbers of products, and reads these by WordPress's functions.
        return defined('WC_ABSPATH') && $is_known(rtrim(WC_ABSPATH, '/')) ? ['list-product'] : $tags;
    }

    /** Filters a query that is about to run. Judged at the end: to ask the database now could change how it runs. */
    public static function written($query)
    {
        global $wpdb;
        if (!is_string($query) || !preg_match(self::WRITES, $query, $found) || Changes::$is_by_sql) {
            return $query;
        }
        $table = $found[1];
        if (!in_array($table, $wpdb->tables('all'), true) && !array_filter(self::CHANGES, 'doing_action')) {
            self::$written[preg_replace('/^(' . preg_quote($wpdb->base_prefix, '/') . ')(\d+_)?/', '', $table)] = true;
            // A command may run for minutes.
            \PHP_SAPI === 'cli' && self::end();
        }
        return $query;
    }

    public static function end(): void
    {
        $names = array_keys(self::$written);
        self::$written = [];
        foreach ($names as $name) {
            preg_match(self::STATE, (string) $name) || Options::table((string) $name);
        }
    }

    /** The file that has called $wpdb; a drop-in may have a class of its own. */
    private static function caller(): string
    {
        $file = '';
        foreach (debug_backtrace(\DEBUG_BACKTRACE_IGNORE_ARGS, 14) as $frame) {
            $is_database = isset($frame['class']) && is_a($frame['class'], 'wpdb', true);
            if ($file !== '' && !$is_database) {
                break;
            }
            $file = $is_database ? (string) ($frame['file'] ?? '') : $file;
        }
        return $file;
    }
}
