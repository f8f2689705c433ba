<?php
/**
 * Plugin Name: Stand-in for LiteSpeed Cache
 * Description: Speaks to the server as LiteSpeed Cache does on OpenLiteSpeed: how it finds it, its headers, its cookies. Nothing else.
 */

define('LSCWP_V', '0-test');

if (!empty($_SERVER['HTTP_X_LSCACHE'])) {
    define('LITESPEED_SERVER_TYPE', 'LITESPEED_SERVER_ADC');
} elseif (strpos($_SERVER['LSWS_EDITION'] ?? '', 'Openlitespeed') === 0) {
    define('LITESPEED_SERVER_TYPE', 'LITESPEED_SERVER_OLS');
} elseif (($_SERVER['SERVER_SOFTWARE'] ?? '') === 'LiteSpeed') {
    define('LITESPEED_SERVER_TYPE', 'LITESPEED_SERVER_ENT');
} else {
    define('LITESPEED_SERVER_TYPE', 'NONE');
}
define('LITESPEED_ALLOWED', !empty($_SERVER['X-LSCACHE']) || LITESPEED_SERVER_TYPE === 'LITESPEED_SERVER_ADC');

/** All names of tags begin so: three digits of a hash, no number of a blog on a single site. */
const LS_PREFIX = 'e1f_';

final class LiteSpeed_Stand_In
{
    private static array $tags = [''];
    private static array $purges = [];
    private static string $control = 'public,max-age=604800';

    public static function start(): void
    {
        if (!LITESPEED_ALLOWED) {
            return;
        }
        add_action('init', [self::class, 'init'], 0);
        add_action('wp', [self::class, 'tags']);
        add_action('transition_post_status', [self::class, 'transition'], 10, 3);
        add_action('wp_update_comment_count', [self::class, 'comments']);
        add_action('set_comment_cookies', [self::class, 'commenter'], 10, 2);
        add_action('set_logged_in_cookie', fn () => self::vary(md5('e1f' . 'admin_bar:1;logged-in:1;role:99')));
        add_action('clear_auth_cookie', fn () => self::vary(''));
        foreach (['switch_theme', 'wp_update_nav_menu', 'edit_terms', 'create_term'] as $hook) {
            add_action($hook, fn () => self::purge(['']));
        }
        add_action('admin_post_ls_purge', [self::class, 'ordered']);
        // The list is said again when all is known; the server takes the last word.
        ob_start([self::class, 'output']);
    }

    public static function init(): void
    {
        if (isset($_GET['ls_status'])) {
            header('X-LiteSpeed-Cache-Control: no-cache');
            wp_send_json([
                'type' => LITESPEED_SERVER_TYPE, 'allowed' => LITESPEED_ALLOWED, 'x-lscache' => $_SERVER['X-LSCACHE'] ?? null,
                'edition' => $_SERVER['LSWS_EDITION'] ?? null, 'uri' => $_SERVER['SCRIPT_URI'] ?? null, 'url' => $_SERVER['SCRIPT_URL'] ?? null,
                'vary' => $_SERVER['HTTP_X_LSCACHE_VARY_VALUE'] ?? null,
            ]);
        }
        if (is_user_logged_in()) {
            self::$control = 'private,max-age=1800';
        }
        if (is_admin() || wp_doing_ajax() || $_SERVER['REQUEST_METHOD'] !== 'GET' || isset($_GET['no'])) {
            self::$control = 'no-cache';
        }
        // wp-cron.php has answered by now.
        if (!headers_sent()) {
            header('X-LiteSpeed-Cache-Control: ' . self::$control);
            header('X-LiteSpeed-Tag: ' . LS_PREFIX);
        }
    }

    /** Before anything is printed. */
    public static function tags(): void
    {
        $post = get_queried_object();
        if (is_404()) {
            self::$tags[] = 'HTTP.404';
            self::$control = 'public,max-age=3600';
        }
        if (is_front_page()) {
            self::$tags[] = 'F';
        }
        if (is_home()) {
            self::$tags[] = 'H';
        }
        if (is_feed()) {
            self::$tags[] = 'FD';
            self::$control = 'public,max-age=604800';
        }
        if (is_category()) {
            self::$tags[] = 'T.' . $post->term_id;
        }
        if (is_author()) {
            self::$tags[] = 'A.' . $post->ID;
        }
        if (is_date()) {
            self::$tags[] = 'D.' . get_query_var('year');
        }
        if (is_singular()) {
            self::$tags[] = "Po.$post->ID";
        }
        self::$tags[] = 'URL.' . md5(strtok($_SERVER['REQUEST_URI'], '?'));
        if (is_page('shop')) {
            header('X-LiteSpeed-Vary: cookie=currency');
            self::$tags[] = 'WC_S';
        }
        if (is_page(['cart', 'basket', 'checkout'])) {
            self::$control = 'no-cache';
        }
        if (is_page('about')) {
            header('LSC-Cookie: seen_about=1; path=/');
        }
        if (isset($_GET['esi'])) {
            self::$control = 'public,max-age=100,esi=on,no-vary';
        }
        if (post_password_required()) {
            self::$control = 'no-cache';
        }
    }

    public static function transition($new, $old, $post): void
    {
        if ($post->post_type === 'revision' || !in_array('publish', [$new, $old], true)) {
            return;
        }
        self::purge(["Po.$post->ID", 'URL.' . md5(wp_make_link_relative(get_permalink($post)))]);
        self::purge(array_map(fn ($id) => "T.$id", wp_get_post_categories($post->ID)));
        self::purge(['A.' . $post->post_author, 'D.' . substr($post->post_date, 0, 4), 'F', 'H', 'FD', '']);
    }

    public static function comments($id): void
    {
        self::purge(["Po.$id", 'FD']);
    }

    public static function commenter($comment, $user): void
    {
        if (!$user->exists()) {
            self::vary('commenter');
        }
    }

    private static function vary(string $value): void
    {
        setcookie('_lscache_vary', $value, $value === '' ? time() - 100 : time() + 172800, '/', '', false, true);
    }

    /** Each time the whole list so far. An empty name is no tag of a purge of a post. */
    private static function purge(array $tags): void
    {
        $all = $tags === [''];
        self::$purges = array_unique(array_merge(self::$purges, $all ? $tags : array_filter($tags)));
        if (!headers_sent()) {
            header('X-LiteSpeed-Purge: public,' . implode(',', array_map(fn ($tag) => LS_PREFIX . $tag, self::$purges)));
        }
    }

    /** Whatever the test says, as a form of the administration does: POST, and a redirect. */
    public static function ordered(): void
    {
        header('X-LiteSpeed-Purge: ' . wp_unslash($_POST['purge']));
        if (isset($_POST['purge2'])) {
            header('X-LiteSpeed-Purge2: ' . wp_unslash($_POST['purge2']));
        }
        wp_safe_redirect(admin_url());
        exit;
    }

    public static function output(string $page): string
    {
        if (!headers_sent()) {
            header('X-LiteSpeed-Cache-Control: ' . self::$control);
            header('X-LiteSpeed-Tag: ' . implode(',', array_map(fn ($tag) => LS_PREFIX . $tag, self::$tags)) . ',,');
        }
        return $page;
    }
}

LiteSpeed_Stand_In::start();
