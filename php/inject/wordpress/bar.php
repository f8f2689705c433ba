<?php
namespace Millrace\WordPress;

/**
 * The menu "Millrace" in the admin bar of administrators, and what Site Health asks. How old the cached copy of the page is
 * that they look at - they see one of their own, which is never kept - the browser asks the server: with a HEAD without
 * cookies, as a visitor would, when the page has been shown.
 */
final class Bar
{
    public const HOOKS = [
        'admin_bar_menu' => ['menu', 1, 90],
        'wp_enqueue_scripts' => ['age', 0, 20],
        'admin_post_millrace_purge' => ['purge', 0, 10],
        'site_status_page_cache_supported_cache_headers' => ['headers', 1, 10],
    ];

    private const AGE = <<<'JS'
        addEventListener("load", function () {
            var item = document.querySelector("#wp-admin-bar-millrace > .ab-item");
            item && fetch(location.href, { method: "HEAD", credentials: "omit", cache: "no-store", redirect: "manual" }).then(function (r) {
                var age = +r.headers.get("age"), minutes = Math.round(age / 60), hours = Math.round(age / 3600);
                var since = age < 100 ? age + " s" : minutes < 100 ? minutes + " min" : hours + " h";
                item.textContent = "Millrace: " + (/^hit/i.test(r.headers.get("x-cache") || "") ? "cached " + since + " ago" : "not cached");
            }).catch(function () {});
        });
        JS;

    public static function menu($bar): void
    {
        if (!current_user_can('manage_options')) {
            return;
        }
        $bar->add_node(['id' => 'millrace', 'title' => 'Millrace']);
        if (!is_admin()) {
            $bar->add_node(['parent' => 'millrace', 'id' => 'millrace-page', 'title' => 'Purge this page',
                'href' => self::link(['path' => rawurlencode(strtok($_SERVER['REQUEST_URI'], '?'))])]);
        }
        $bar->add_node(['parent' => 'millrace', 'id' => 'millrace-all', 'title' => 'Purge all', 'href' => self::link([])]);
    }

    private static function link(array $more): string
    {
        $address = add_query_arg(['action' => 'millrace_purge'] + $more, admin_url('admin-post.php'));
        return wp_nonce_url($address, 'millrace_purge');
    }

    public static function age(): void
    {
        if (is_admin_bar_showing() && current_user_can('manage_options')) {
            wp_add_inline_script('admin-bar', self::AGE);
        }
    }

    /** A click on "Purge this page" or "Purge all". */
    public static function purge(): void
    {
        check_admin_referer('millrace_purge');
        if (!current_user_can('manage_options')) {
            wp_die('Only administrators may purge the cache.', '', 403);
        }
        $path = wp_unslash($_GET['path'] ?? '');
        if ($path === '') {
            Changes::all();
        } elseif (is_string($path) && $path[0] === '/' && !preg_match('/[\x00-\x20\x7f*]/', $path)) {
            millrace_purge('hard', str_replace(',', '%2C', $path));
        }
        wp_safe_redirect(wp_get_referer() ?: home_url('/'));
        exit;
    }

    /** Fields by which Site Health knows a page cache (WordPress 6.1 or later): these two are ours. */
    public static function headers($headers)
    {
        $hit = static fn ($value) => (bool) preg_match('/\bhit\b/i', $value);
        return (array) $headers + ['cache-status' => $hit, 'x-cache' => $hit];
    }
}
