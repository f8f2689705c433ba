<?php
namespace Millrace\WordPress;

/**
 * Changes that no PHP has reported: of a plain SQL client, phpMyAdmin, another machine. The server runs wp-load.php for its own
 * request with the variable MILLRACE_SQL:
 *
 * - `look TABLE=TIME;...[;members=ID,ID]`: WordPress is loaded as far as its database (SHORTINIT). Printed are digests of the rows that pages show, of
 *   those parts whose tables have changed since these times, and of the rows of these members; the server compares them with those of its last look (crates/server/src/serve/sql).
 * - `purge CHANGE;...`: WordPress is loaded whole; each of these rows purges what it would purge if an administrator had changed it.
 *
 * Times are those of information_schema. An update of one second may be followed by another in the same second: until that is over,
 * the time is `-`, which never equals another.
 */
final class Sql
{
    /** Types that no visitor sees, and that grow without bound. */
    private const UNSEEN = "('revision', 'shop_order', 'shop_order_refund', 'shop_order_placehold', 'shop_subscription', 'shop_coupon',"
        . " 'scheduled-action', 'customize_changeset', 'oembed_cache', 'user_request', 'wp_log', 'flamingo_inbound', 'edd_payment', 'edd_log')";
    /** Fields that count, or belong to the administration. */
    private const UNSHOWN = "meta_key NOT IN ('total_sales', '_edit_lock', '_edit_last', '_encloseme', '_pingme') AND meta_key NOT LIKE '\\_oembed\\_%'"
        . " AND meta_key NOT LIKE '\\_wp\\_old\\_%' AND meta_key NOT LIKE '\\_wp\\_trash\\_%'";
    /** Comments that are notes of programs. */
    private const NOTES = "('order_note', 'webhook_delivery', 'action_log', 'note')";
    /** Rows of a part that are worth comparing twice a second. */
    private const MOST = 100000;
    /** A change of one second is over after so many microseconds: InnoDB's clock is a little late. */
    private const SETTLED = 1050000;

    /** `look` or `purge`, and what for. */
    private static array $order = ['', ''];

    /** Whether this request is the server's own. */
    public static function begin(): bool
    {
        $order = $_SERVER['MILLRACE_SQL'] ?? null;
        unset($_SERVER['MILLRACE_SQL']);
        if (!is_string($order)) {
            return false;
        }
        self::$order = explode(' ', $order, 2) + ['', ''];
        // Page caches of plugins (advanced-cache.php) leave cron alone.
        define('DOING_CRON', true);
        if (self::$order[0] === 'look') {
            define('SHORTINIT', true);
        } else {
            // A plugin may write something whenever WordPress is loaded.
            Hooks::put([Written::class]);
        }
        // What a plugin or PHP itself prints before is not for the server.
        ob_start();
        register_shutdown_function(self::class . '::run');
        return true;
    }

    /** Also if WordPress has given up: then what it says is for the log. */
    public static function run(): void
    {
        global $wpdb;
        if (empty($wpdb->ready) || (self::$order[0] === 'purge' && !did_action('wp_loaded'))) {
            return;
        }
        while (ob_get_level()) {
            ob_end_clean();
        }
        ini_set('display_errors', '0');
        $why = self::unsupported($wpdb);
        if ($why) {
            echo "unsupported $why\n";
            return;
        }
        if (self::$order[0] === 'look') {
            self::look($wpdb);
        } else {
            Changes::$is_by_sql = true;
            self::purge(explode(';', self::$order[1]));
            Changes::$is_by_sql = false;
        }
        echo "end\n";
    }

    private static function unsupported(object $wpdb): string
    {
        if (is_multisite()) {
            return 'a network of sites';
        }
        return ($wpdb->dbh ?? null) instanceof \mysqli ? '' : 'the database is not MariaDB or MySQL';
    }

    /** Lines: the times of the tables; then each part that may have changed, with its rows. */
    private static function look(object $wpdb): void
    {
        parse_str(strtr(self::$order[1], ';', '&'), $known);
        $times = self::times($wpdb);
        foreach ($times as $table => $time) {
            echo "time $table ", rawurlencode($time), "\n";
        }
        $is_same = static fn ($table) => isset($times[$table]) && $times[$table] !== '-' && $times[$table] === ($known[$table] ?? null);
        if (isset($known['members']) && class_exists(Member::class, false) && !($is_same('users') && $is_same('usermeta') && $is_same('options'))) {
            $rows = Member::rows($wpdb, explode(',', $known['members']));
            echo 'members ', implode(',', array_map(static fn ($id, $digest) => "$id:$digest", array_keys($rows), $rows)) ?: '-', "\n";
        }
        foreach (self::parts($wpdb) as $part => [$tables, $query]) {
            if (array_filter($tables, $is_same) !== $tables) {
                echo "part $part\n";
                self::rows($wpdb, $query);
            }
        }
    }

    /** When InnoDB last changed each table; nothing since the database was started: `null`. */
    private static function times(object $wpdb): array
    {
        if (stripos((string) mysqli_get_server_info($wpdb->dbh), 'mariadb') === false) {
            // MySQL 8 keeps these times for a day; older versions don't know the variable.
            $wpdb->suppress_errors();
            $wpdb->query('SET SESSION information_schema_stats_expiry = 0');
            $wpdb->suppress_errors(false);
        }
        $names = [];
        foreach (['posts', 'postmeta', 'term_relationships', 'comments', 'options', 'terms', 'term_taxonomy', 'termmeta', 'users', 'usermeta'] as $table) {
            $names[$wpdb->$table] = $table;
        }
        $in = "'" . implode("', '", array_map('addslashes', array_keys($names))) . "'";
        $rows = $wpdb->get_results("SELECT TABLE_NAME, CASE WHEN UPDATE_TIME IS NULL THEN 'null'"
            . ' WHEN TIMESTAMPDIFF(MICROSECOND, UPDATE_TIME, NOW(6)) < ' . self::SETTLED . " THEN '-' ELSE CAST(UPDATE_TIME AS CHAR) END"
            . " FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ($in)", \ARRAY_N);
        $times = [];
        foreach ($rows ?: [] as [$name, $time]) {
            $times[$names[$name] ?? $name] = $time;
        }
        return $times;
    }

    /** Part => the tables it is made of, and a query for: key, then a digest for each kind of row (kinds are the words of the part's name). */
    private static function parts(object $wpdb): array
    {
        $seen = "p.post_status IN ('publish', 'future', 'inherit') AND p.post_type NOT IN " . self::UNSEEN;
        $authors = "(SELECT post_author FROM $wpdb->posts WHERE post_status = 'publish')";
        return [
            'post+place' => [['posts'], "SELECT p.ID, CRC32(CONCAT_WS('|', p.post_title, p.post_content, p.post_excerpt, p.comment_status)),"
                . " CRC32(CONCAT_WS('|', p.post_status, p.post_password, p.post_author, p.post_date, p.post_name, p.post_parent, p.menu_order, p.post_type))"
                . " FROM $wpdb->posts p WHERE $seen"],
            'meta' => [['posts', 'postmeta'], "SELECT m.post_id, SUM(CRC32(CONCAT_WS('|', m.meta_key, m.meta_value))) FROM $wpdb->posts p"
                . " JOIN $wpdb->postmeta m ON m.post_id = p.ID WHERE $seen AND " . self::UNSHOWN . ' GROUP BY m.post_id'],
            'class' => [['posts', 'term_relationships'], "SELECT r.object_id, SUM(CRC32(r.term_taxonomy_id)) FROM $wpdb->posts p"
                . " JOIN $wpdb->term_relationships r ON r.object_id = p.ID WHERE $seen GROUP BY r.object_id"],
            'comments' => [['comments'], "SELECT comment_post_ID, SUM(CRC32(CONCAT_WS('|', comment_ID, comment_author, comment_author_url, comment_date, comment_content)))"
                . " FROM $wpdb->comments WHERE comment_approved = '1' AND comment_type NOT IN " . self::NOTES . ' GROUP BY comment_post_ID'],
            'option' => [['options'], "SELECT option_name, CRC32(option_value) FROM $wpdb->options"
                . " WHERE option_name NOT LIKE '\\_transient\\_%' AND option_name NOT LIKE '\\_site\\_transient\\_%'"],
            'term' => [['terms', 'term_taxonomy'], "SELECT t.term_id, SUM(CRC32(CONCAT_WS('|', t.name, t.slug, x.taxonomy, x.description, x.parent)))"
                . " FROM $wpdb->terms t JOIN $wpdb->term_taxonomy x ON x.term_id = t.term_id GROUP BY t.term_id"],
            'termfield' => [['termmeta'], "SELECT term_id, SUM(CRC32(CONCAT_WS('|', meta_key, meta_value))) FROM $wpdb->termmeta"
                . " WHERE meta_key NOT LIKE 'product\\_count\\_%' GROUP BY term_id"],
            'user' => [['posts', 'users'], "SELECT ID, CRC32(CONCAT_WS('|', display_name, user_nicename, user_url, user_email)) FROM $wpdb->users WHERE ID IN $authors"],
            'userfield' => [['posts', 'usermeta'], "SELECT user_id, SUM(CRC32(CONCAT_WS('|', meta_key, meta_value))) FROM $wpdb->usermeta"
                . " WHERE meta_key IN ('description', 'nickname', 'first_name', 'last_name') AND user_id IN $authors GROUP BY user_id"],
        ];
    }

    /** The rows of the part that was named last. They are not held in memory. */
    private static function rows(object $wpdb, string $query): void
    {
        $result = mysqli_query($wpdb->dbh, $query, \MYSQLI_USE_RESULT);
        if (!$result) {
            throw new \RuntimeException('cannot look for changes by SQL: ' . mysqli_error($wpdb->dbh));
        }
        $count = 0;
        while ($row = mysqli_fetch_row($result)) {
            if (++$count > self::MOST) {
                mysqli_free_result($result);
                exit('unsupported more than ' . self::MOST . " rows\n");
            }
            if (!is_numeric($row[0]) && Options::is_noise($row[0])) {
                continue;
            }
            echo '= ', rawurlencode($row[0]), ' ', implode(' ', array_slice($row, 1)), "\n";
        }
    }

    /** Changes: `+`, `-` or `~`, what it is, and its key. */
    private static function purge(array $changes): void
    {
        if ($changes === ['all'] || defined('LSCWP_V')) {
            wp_cache_flush();
            Changes::gone();
            return;
        }
        $posts = [];
        foreach ($changes as $change) {
            [$how, $kind, $key] = explode(' ', $change);
            $key = rawurldecode($key);
            switch ($kind) {
                case 'option':
                    self::option($key, $how);
                    break;
                case 'term':
                case 'termfield':
                    self::term((int) $key);
                    break;
                case 'comments':
                    self::comments((int) $key);
                    break;
                case 'user':
                case 'userfield':
                    self::user((int) $key);
                    break;
                default:
                    $posts[(int) $key][$kind] = $how;
            }
        }
        foreach ($posts as $id => $kinds) {
            self::post($id, $kinds);
        }
    }

    private static function option(string $name, string $how): void
    {
        foreach (['alloptions', 'notoptions', $name] as $key) {
            wp_cache_delete($key, 'options');
        }
        // A plugin that counts by SQL of its own names its counter so.
        if (!Options::is_bookkeeping($name)) {
            $how === '-' ? Options::deleted($name) : Options::changed($name);
        }
    }

    private static function term(int $id): void
    {
        clean_term_cache($id, '', false);
        $term = get_term($id);
        if (!$term instanceof \WP_Term) {
            Changes::all();
        } elseif ($term->taxonomy === 'nav_menu' || !is_taxonomy_viewable($term->taxonomy)) {
            Changes::all();
        } else {
            clean_term_cache($id, $term->taxonomy);
            Posts::term_edited($id, $term->term_taxonomy_id, $term->taxonomy);
        }
    }

    private static function comments(int $post): void
    {
        wp_cache_set_comments_last_changed();
        $comments = get_comments(['post_id' => $post, 'fields' => 'ids', 'cache_results' => false, 'number' => 1000]);
        clean_comment_cache($comments);
        // What was approved a moment ago may be gone for a reason. With a review go the stars.
        Changes::hard("comments-$post", 'comments', "post-$post");
    }

    private static function user(int $id): void
    {
        clean_user_cache($id);
        wp_cache_delete($id, 'user_meta');
        Changes::soft("by-$id", "author-$id", 'users');
    }

    /** $kinds: which of its rows have changed, and how: `post`, `place`, `meta`, `class`. */
    private static function post(int $id, array $kinds): void
    {
        clean_post_cache($id);
        wp_cache_delete($id, 'post_meta');
        $post = get_post($id);
        if (!$post) {
            // What it was, and where it was listed, is gone with it.
            Changes::gone();
            return;
        }
        foreach (get_object_taxonomies($post) as $taxonomy) {
            wp_cache_delete($id, "{$taxonomy}_relationships");
        }
        if ($post->post_type === 'product_variation' && $post->post_parent) {
            self::post($post->post_parent, ['meta' => '~']);
        }
        if ($post->post_type === 'attachment') {
            Posts::attachment($id);
        } elseif (!Posts::is_hidden($post)) {
            self::shown($post, $kinds);
        }
    }

    private static function shown(\WP_Post $post, array $kinds): void
    {
        function_exists('wc_delete_product_transients') && $post->post_type === 'product' && wc_delete_product_transients($post->ID);
        $tags = [...Posts::shown($post), "link-$post->ID"];
        if (($kinds['post'] ?? '') === '-' || $post->post_status !== 'publish') {
            Changes::hard(...$tags, ...Posts::listed($post));
            return;
        }
        // Customers buy by a price; a password has to hide a post at once.
        $is_hard = $post->post_type === 'product' || $post->post_password !== '';
        $is_hard ? Changes::hard("post-$post->ID") : Changes::soft("post-$post->ID");
        if (($kinds['post'] ?? '') === '+') {
            Changes::soft(...$tags, ...Posts::listed($post));
            Changes::hard('404');
        } elseif (($kinds['place'] ?? '') === '~' || isset($kinds['class'])) {
            // Where it was before - an author, a date, a category - is not known any more.
            Changes::all();
            Changes::hard('404');
        } elseif (isset($kinds['post'])) {
            Changes::soft(...$tags, ...Posts::listed($post));
        } else {
            Changes::soft(...($post->post_type === 'product' ? [...$tags, 'list-product', 'list-any'] : ["post-$post->ID"]));
        }
    }
}
