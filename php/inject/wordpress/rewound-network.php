<?php
namespace Millrace\WordPress;

/**
 * WordPress networks in requests that begin behind their boot. The boot finds its site by the Host field and the path
 * (wp-includes/ms-settings.php), so an image is of one site. Each request looks for its own site as WordPress does; if that is another one, it does
 * not fit. What the boot has read of the site and of the network's options is compared like all that it has read of the database.
 */
final class RewoundNetwork
{
    /** Where WordPress looks for the site; and, in the hook init, whether the address is that of an invitation: such requests run the ordinary way. */
    public const READS = ['wp-includes/ms-settings.php', 'maybe_add_existing_user_to_blog'];

    /** Host field and number of the boot's site. */
    private static array $found = [];

    /** At the point: why there can be no image, or null. `$changed`: elements of $_SERVER that were set by others than the server. */
    public static function remember(array $changed): ?string
    {
        if (!is_multisite()) {
            return null;
        }
        if (defined('SUNRISE') || !defined('DOMAIN_CURRENT_SITE') || !defined('PATH_CURRENT_SITE')) {
            return 'the network finds its sites in a way of its own (sunrise.php, or several networks)';
        }
        if (isset($changed['HTTP_HOST']) || isset($changed['REQUEST_URI'])) {
            return "the boot changes \$_SERVER['HTTP_HOST'] or \$_SERVER['REQUEST_URI'], by which the network finds its sites";
        }
        if (self::is_invitation()) {
            return 'somebody accepts an invitation to a site of the network';
        }
        if (ms_is_switched()) {
            return 'the boot has switched to another site of the network';
        }
        self::$found = [$_SERVER['HTTP_HOST'] ?? '', get_current_blog_id()];
        return null;
    }

    /** Whether the request is for the boot's site. Asks the database. */
    public static function isSame(): bool
    {
        return !is_multisite() || (!self::is_invitation() && [$_SERVER['HTTP_HOST'] ?? '', self::site()] === self::$found);
    }

    /** As maybe_add_existing_user_to_blog() in wp-includes/ms-functions.php asks: its boot has acted then. */
    private static function is_invitation(): bool
    {
        return str_contains($_SERVER['REQUEST_URI'] ?? '', '/newbloguser/');
    }

    /** The number of the request's site; 0: none. See ms_load_current_site_and_network() and get_site_by_path() in wp-includes/ms-load.php. */
    private static function site(): int
    {
        global $wpdb;
        $domain = preg_replace('/:(80|443)$/', '', strtolower(stripslashes($_SERVER['HTTP_HOST'] ?? '')));
        $path = explode('?', stripslashes($_SERVER['REQUEST_URI'] ?? ''))[0];
        $domains = str_starts_with($domain, 'www.') ? [$domain, substr($domain, 4)] : [$domain];
        $paths = self::paths($domain, $path);
        $in = static fn (array $values): string => implode(',', array_fill(0, count($values), '%s'));
        $wpdb->num_queries--; // The boot has counted its own.
        return (int) $wpdb->get_var($wpdb->prepare(
            "SELECT blog_id FROM $wpdb->blogs WHERE domain IN ({$in($domains)}) AND path IN ({$in($paths)}) " .
            'ORDER BY CHAR_LENGTH(domain) DESC, CHAR_LENGTH(path) DESC LIMIT 1',
            [...$domains, ...$paths]
        ));
    }

    /** Paths that the request's site may have. */
    private static function paths(string $domain, string $path): array
    {
        $segments = array_filter(explode('/', trim($path, '/')));
        $most = self::segments($domain, $path);
        $segments = $most === null ? $segments : array_slice($segments, 0, $most);
        $paths = ['/'];
        foreach ($segments as $segment) {
            $paths[] = end($paths) . "$segment/";
        }
        return $paths;
    }

    /** How many segments of the path may belong to the site; null: all. */
    private static function segments(string $domain, string $path): ?int
    {
        if (strcasecmp(\DOMAIN_CURRENT_SITE, $domain) !== 0) {
            return 1;
        }
        if (strcasecmp(\PATH_CURRENT_SITE, $path) === 0) {
            return null;
        }
        $is_below = \PATH_CURRENT_SITE !== '/' && stripos($path, \PATH_CURRENT_SITE) === 0;
        return $is_below ? 1 + count(explode('/', trim(\PATH_CURRENT_SITE, '/'))) : 1;
    }
}
