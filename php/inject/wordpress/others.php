<?php
namespace Millrace\WordPress;

/**
 * Page caches of other plugins, and what Site Health says about them. They keep working under Millrace, but they store each page a second
 * time, and a page of theirs that is stale becomes a stale page of Millrace's: a purge reaches Millrace's copy alone. And firewalls of plugins
 * that do not start.
 */
final class Others
{
    public const HOOKS = [
        'site_status_tests' => ['tests', 1, 10],
        'muplugins_loaded' => ['announce', 0, \PHP_INT_MIN],
        // Polylang sets a cookie on each page if no page cache is there.
        'pll_is_cache_active' => ['is_active', 0, 10],
    ];

    /** Whether WordPress itself was to load the page cache of a plugin. */
    private static bool $has_own = false;

    /**
     * To plugins WP_CACHE means that pages come from a cache: they count views by a script, and set no cookies. WordPress has loaded
     * advanced-cache.php by now, or not. In the administration the constant stays as it is: there plugins for page caches look at their settings.
     */
    public static function announce(): void
    {
        self::$has_own = defined('WP_CACHE') && WP_CACHE;
        if (!self::$has_own && !is_admin() && function_exists('millrace_announce_cache')) {
            millrace_announce_cache();
        }
    }

    public static function is_active(): bool
    {
        return true;
    }

    /** Name => [whether it is there, whether its page cache is on, what to do]. */
    private static function known(): array
    {
        return [
            'WP Rocket' => [defined('WP_ROCKET_VERSION'), (bool) apply_filters('do_rocket_generate_caching_files', true),
                'Its page cache has no switch of its own: add the plugin “WP Rocket | Disable Page Caching” of its makers. Its other'
                . ' optimizations may stay on.'],
            'W3 Total Cache' => [defined('W3TC') || defined('W3TC_VERSION'), self::config('W3TC\\Dispatcher', 'pgcache.enabled'),
                'Switch off Performance > General Settings > Page Cache.'],
            'WP Super Cache' => [defined('WPCACHEHOME') || function_exists('wp_super_cache_init'), !empty($GLOBALS['cache_enabled']),
                'Choose “Caching Off” in Settings > WP Super Cache. Its expert mode needs mod_rewrite, which Millrace does not have.'],
            'WP Fastest Cache' => [class_exists('WpFastestCache', false) || defined('WPFC_MAIN_PATH'), self::fastest(),
                'Untick “Cache System” in WP Fastest Cache > Settings.'],
        ];
    }

    public static function tests($tests)
    {
        if (is_array($tests)) {
            $tests['direct']['millrace_page_cache'] = ['label' => 'Page cache', 'test' => self::class . '::result'];
            if (self::unstarted() !== null) {
                $tests['direct']['millrace_firewall'] = ['label' => 'Firewall', 'test' => self::class . '::firewall'];
            }
        }
        return $tests;
    }

    /** The file that .htaccess has PHP run before each script, if PHP does not run it: that is how firewalls start. */
    private static function unstarted(): ?string
    {
        $folders = array_unique([rtrim(ABSPATH, '/'), rtrim((string) ($_SERVER['DOCUMENT_ROOT'] ?? ''), '/')]);
        foreach ($folders as $folder) {
            $text = is_file("$folder/.htaccess") ? (string) @file_get_contents("$folder/.htaccess", false, null, 0, 1 << 20) : '';
            $line = '/^\h*php_(?:admin_)?value\h+auto_prepend_file\h+["\']?(?!none\b)([^"\'\r\n]*[^"\'\s])/mi';
            if (preg_match($line, $text, $found) && basename((string) ini_get('auto_prepend_file')) !== basename($found[1])) {
                return $found[1];
            }
        }
        return null;
    }

    /** The entry in Site Health about it. */
    public static function firewall(): array
    {
        $file = (string) self::unstarted();
        $text = "The file .htaccess has PHP run $file before each script (auto_prepend_file), which is how firewalls of plugins start. Like php-fpm,"
            . ' Millrace does not read this setting there: the firewall does not run.';
        return [
            'label' => 'The firewall that .htaccess starts is off',
            'status' => 'critical',
            'badge' => ['label' => 'Security', 'color' => 'red'],
            'description' => '<p>' . esc_html($text) . '</p>',
            'actions' => '<p>' . esc_html("Write this line into the file .user.ini beside it: auto_prepend_file = '$file'") . '</p>',
            'test' => 'millrace_firewall',
        ];
    }

    /** The entry in Site Health. */
    public static function result(): array
    {
        $there = array_filter(self::known(), static fn ($known) => $known[0]);
        $found = array_filter($there, static fn ($known) => $known[1]);
        $label = 'Millrace caches the pages of this site';
        $text = 'No plugin for a page cache is needed.';
        if (defined('LSCWP_V')) {
            $text = 'LiteSpeed Cache fills and purges the cache of Millrace, which understands it. Nothing has to be switched off; without'
                . ' the plugin, Millrace does the same by itself.';
        }
        if (!$there && self::unknown()) {
            $found = ['A plugin' => [true, true, 'The file wp-content/advanced-cache.php belongs to a page cache that Millrace does not know.'
                . ' Switch off the page cache of that plugin.']];
        }
        if ($found) {
            $label = sprintf('The page cache of %s is superfluous', implode(' and ', array_keys($found)));
            $text = 'Millrace caches the pages of this site already, and purges them when something changes. A second page cache stores each'
                . ' page again, and may give Millrace stale pages to store.';
        }
        $todo = implode('', array_map(static fn ($name, $known) => '<p>' . esc_html("$name: $known[2]") . '</p>', array_keys($found), $found));
        return [
            'label' => $label,
            'status' => $found ? 'recommended' : 'good',
            'badge' => ['label' => 'Performance', 'color' => 'blue'],
            'description' => '<p>' . esc_html($text) . '</p>',
            'actions' => $todo,
            'test' => 'millrace_page_cache',
        ];
    }

    /** A drop-in that WordPress loads, and none of the known plugins. */
    private static function unknown(): bool
    {
        return self::$has_own && !defined('LSCWP_V') && is_file(WP_CONTENT_DIR . '/advanced-cache.php');
    }

    /** A setting of W3 Total Cache; true if it cannot be asked. */
    private static function config(string $class, string $setting): bool
    {
        try {
            return !is_callable([$class, 'config']) || $class::config()->get_boolean($setting);
        } catch (\Throwable $any) {
            return true;
        }
    }

    /** Whether WP Fastest Cache caches: its settings are one option in JSON. */
    private static function fastest(): bool
    {
        $settings = json_decode((string) get_option('WpFastestCache', ''));
        return ($settings->wpFastestCacheStatus ?? '') === 'on';
    }
}
