<?php
namespace Millrace\WordPress;

/**
 * Changes of options, from wp-admin, REST, XML-RPC, an app, cron, or any plugin's code.
 *
 * There is no cheap way to know which pages read an option. The rule is therefore: **every change of an option purges all
 * pages, softly, unless it is bookkeeping.** Two errors are possible: with too few purges the site is stale; with too many there
 * is no cache, because many plugins write an option on every page view. The checks, in this order:
 *
 * 1. `NOISE` never purges: transients, cron, sessions, locks and other state that no page shows.
 * 2. `TRADE` always purges, hard: what a WooCommerce shop sells, where, at which price, and whether it is open. A closed shop
 *    must not be served, not even when PHP fails.
 * 3. `SHOWN` always purges: WordPress's own options that appear on all pages.
 * 4. A change that an administrator requests always purges: any method except GET, HEAD and OPTIONS, a link with a nonce, or a
 *    command line. That covers the settings pages of all plugins, REST, XML-RPC and the apps. Pages of wp-admin that stay open poll by AJAX and
 *    REST: there an option purges `MOST_ASKED` times, counted as below.
 * 5. Any other write - by a visitor's request, by cron, while an administrator views a page - purges unless
 *    - the name is one of bookkeeping (`BOOKKEEPING`),
 *    - WordPress does not load the option on every page (autoload), or
 *    - it changes too often: after `MOST` changes with less than `QUIET` seconds between them the option counts as bookkeeping
 *      until it has been quiet for that long. All such options together purge at most `MOST_OF_ALL` times an hour.
 *    Numbers and digests in names are ignored: `cart_17` and `cart_18` are one family. One transient remembers the families; an
 *    option that keeps changing writes it at most once a minute. The cost: a real setting that cron changes every few minutes
 *    appears only when the lifetime of the pages is over.
 *
 * A table of a plugin that an administrator's request writes counts as an option under 4, at most `MOST_ASKED` times in a row (Tables).
 *
 * A "coming soon" or "maintenance" option of another plugin follows the same rules, but purges hard.
 */
final class Options
{
    public const HOOKS = [
        'updated_option' => ['changed', 1, 10],
        'added_option' => ['changed', 1, 10],
        'deleted_option' => ['deleted', 1, 10],
        'add_site_option' => ['network', 1, 10],
        'update_site_option' => ['network', 1, 10],
        'delete_site_option' => ['network', 1, 10],
    ];

    private const NOISE = '/^(cron|rewrite_rules|_transient.*|_site_transient.*|_?wc_session.*|action_scheduler.*|schema-ActionScheduler.*'
        . '|recently_(edited|activated)|uninstall_plugins|can_compress_scripts|fresh_site|recovery_(keys|mode.*)|wp_force_deactivated_plugins'
        . '|(auto|core)_updater?\.lock|.*\.lock|dismissed_update_.*|auto_(core|plugin)_.*|finished_.*|theme_switched|https_detection_errors'
        . '|adminhash|new_admin_email|mailserver_.*|.*user_roles|(initial_)?db_version|db_upgraded|user_count|blog_count'
        . '|wp_calendar_block_.*|(auth|logged_in|nonce|secure_auth)_(key|salt)|jetpack_sync_.*|jpsq_.*'
        . '|wc_(pending_batch|remote|installing|blocks_db|admin)_.*|.+[_-](locks?|logs?|queue|jobdata|heartbeat|timestamp|last_run)'
        . '|woocommerce_(admin|task_list|onboarding|marketplace|helper|tracker|inbox'
        . '|meta_box_errors|queue_flush|newly_installed|remote_variant|maybe|analytics|db|schema|version)(_.*)?)$/Di';

    private const TRADE = '/^woocommerce_(coming_soon|store_pages_only|private_link|share_key|currency|price_.*|prices_include_tax'
        . '|currency_pos|calc_taxes|tax_.*|default_customer_address|default_country|store_(address|city|postcode).*|allowed_countries'
        . '|all_except_countries|specific_.*|ship_to_.*|shipping_.*|(flat_rate|free_shipping|local_pickup|pickup_location)_.*|demo_store.*'
        . '|manage_stock|stock_format|hide_out_of_stock_items|notify_(low|no)_stock_amount|catalog_.*|shop_page_(id|display)'
        . '|category_archive_display|default_catalog_orderby|enable_(reviews|review_rating|ajax_add_to_cart|coupons)|permalinks)$/D';

    /** Options of WordPress that appear on all pages, or on an unknown number of them. */
    private const SHOWN = [
        'siteurl', 'home', 'blogname', 'blogdescription', 'blog_public', 'site_icon', 'site_logo', 'WPLANG', 'html_type',
        'template', 'stylesheet', 'permalink_structure', 'category_base', 'tag_base',
        'show_on_front', 'page_on_front', 'page_for_posts', 'posts_per_page', 'posts_per_rss', 'rss_use_excerpt',
        'date_format', 'time_format', 'timezone_string', 'gmt_offset', 'start_of_week', 'use_smilies',
        'default_comment_status', 'comment_registration', 'require_name_email', 'close_comments_for_old_posts',
        'close_comments_days_old', 'thread_comments', 'thread_comments_depth', 'page_comments', 'comments_per_page',
        'default_comments_page', 'comment_order', 'show_comments_cookies_opt_in', 'show_avatars', 'avatar_default',
        'avatar_rating', 'wp_page_for_privacy_policy', 'active_plugins', 'users_can_register', 'active_sitewide_plugins',
    ];

    private const HIDDEN = '/(^|[_-])(coming[_-]?soon|maintenance([_-]mode)?|under[_-]?construction)([_-]|$)/i';

    /** Names that plugins give to state of their own. */
    private const BOOKKEEPING = '/(^|[_-])(locks?|logs?|logger|cached?|counts?|counters?|hits|views?|visits?|visitors?|stats?|queued?|sessions?'
        . '|last[_-].+|.+[_-](at|time|date|timestamp|expires?|expiry)|versions?|errors?|notices?|tokens?|nonces?|progress|heartbeat)$/Di';

    private const QUIET = 1200;
    private const MOST = 3;
    private const MOST_ASKED = 30;
    private const MOST_OF_ALL = 10;
    private const MEMORY = 'millrace_options';
    private const REMEMBERED = 100;

    /** Families of options that this request has changed: whether the change purges. */
    private static array $judged = [];

    public static function changed($name): void
    {
        self::judge((string) $name, static fn () => isset(wp_load_alloptions()[$name]));
    }

    /** The row is gone, and with it whether WordPress loaded it on every page. */
    public static function deleted($name): void
    {
        self::judge((string) $name, static fn () => true);
    }

    /** An option of a network of sites. */
    public static function network($name): void
    {
        if (is_multisite() && self::purges((string) $name, static fn () => true)) {
            Changes::network();
        }
    }

    /** An administrator's request has written this table of a plugin. */
    public static function table(string $name): void
    {
        if (!self::is_noise($name) && !self::is_bookkeeping($name) && self::is_asked_for() && self::is_seldom("table $name", self::MOST_ASKED, \PHP_INT_MAX)) {
            preg_match(self::HIDDEN, $name) ? Changes::gone() : Changes::all();
        }
    }

    private static function judge(string $name, callable $is_loaded): void
    {
        if ($name === 'sticky_posts') {
            Changes::soft('home', 'front', 'feed', 'list-post', 'list-any');
        } elseif ($name === 'sidebars_widgets' || strncmp($name, 'widget_', 7) === 0) {
            Changes::soft('widgets');
        } elseif (self::purges($name, $is_loaded)) {
            // The site has another address: an old redirect leads to where it was.
            in_array($name, ['home', 'siteurl'], true) && Changes::hard('redirect');
            preg_match(self::TRADE, $name) || preg_match(self::HIDDEN, $name) ? Changes::gone() : Changes::all();
        }
    }

    /** The rules at the head of this file. */
    private static function purges(string $name, callable $is_loaded): bool
    {
        // WordPress caches the hierarchy of the terms of TAXONOMY in TAXONOMY_children.
        $children = substr($name, -9) === '_children' && taxonomy_exists(substr($name, 0, -9));
        if ($children || self::is_noise($name)) {
            return false;
        }
        if (preg_match(self::TRADE, $name) || in_array($name, self::SHOWN, true)) {
            return true;
        }
        if (self::is_asked_for()) {
            $may_poll = wp_doing_ajax() || defined('REST_REQUEST') || Changes::$is_by_sql;
            return !$may_poll || self::is_seldom($name, self::MOST_ASKED, \PHP_INT_MAX);
        }
        return !self::is_bookkeeping($name) && $is_loaded() && self::is_seldom($name, self::MOST, self::MOST_OF_ALL);
    }

    /** An administrator requests a change, and does not just view a page or leave it open. */
    private static function is_asked_for(): bool
    {
        if (Changes::$is_by_sql) {
            return true;
        }
        if (!did_action('init') || wp_doing_cron() || (wp_doing_ajax() && ($_REQUEST['action'] ?? '') === 'heartbeat')) {
            return false;
        }
        $safe = in_array($_SERVER['REQUEST_METHOD'] ?? 'GET', ['GET', 'HEAD', 'OPTIONS'], true) && !isset($_GET['_wpnonce']);
        return \PHP_SAPI === 'cli' || !$safe && (current_user_can('manage_options') || current_user_can('manage_woocommerce')
            || current_user_can('edit_theme_options'));
    }

    /** State that no page shows. */
    public static function is_noise(string $name): bool
    {
        return (bool) preg_match(self::NOISE, $name);
    }

    /** A name that plugins give to state of their own. */
    public static function is_bookkeeping(string $name): bool
    {
        return (bool) preg_match(self::BOOKKEEPING, $name);
    }

    private static function is_seldom(string $name, int $most, int $of_all): bool
    {
        $family = substr(preg_replace('/[0-9a-f]{8,}|\d+/i', '#', $name), 0, 100);
        return self::$judged[$family] ??= self::count($family, time(), $most, $of_all);
    }

    /** Counts a change of this family; returns whether it purges. */
    private static function count(string $family, int $now, int $most, int $of_all): bool
    {
        $known = get_transient(self::MEMORY);
        $known = is_array($known) ? $known : [];
        [$all, $since] = $known['*'] ?? [0, $now];
        [$all, $since] = $now - $since >= 3600 ? [0, $now] : [$all, $since];
        [$changes, $last] = $known[$family] ?? [0, 0];
        $changes = $now - $last > self::QUIET ? 1 : $changes + 1;
        // Several options that change in one request cause one purge.
        $again = in_array(true, self::$judged, true);
        $purges = $changes <= $most && ($again || $all < $of_all);
        if ($purges || $now - $last >= 60) {
            unset($known['*'], $known[$family]);
            $known = array_slice($known, 1 - self::REMEMBERED, null, true) + [$family => [$changes, $now]];
            $all += (int) ($purges && !$again && $of_all === self::MOST_OF_ALL);
            set_transient(self::MEMORY, $known + ['*' => [$all, $since]], DAY_IN_SECONDS);
        }
        return $purges;
    }
}
