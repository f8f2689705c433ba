<?php
namespace Millrace\WordPress;

/** The table of all hooks. */
final class Hooks
{
    /** Classes with a constant HOOKS: hook => [method, number of arguments, priority]. */
    private const OF = [
        Page::class, Rest::class, Posts::class, People::class, Site::class, Options::class, Shop::class, Kind::class, Cart::class, Location::class, Network::class, Bar::class,
        Shown::class, Tables::class,
    ];

    /** Before WordPress is loaded: into $wp_filter. */
    public static function register(): void
    {
        // Pretty permalinks work: WordPress knows that only of Apache, nginx, IIS and Caddy (got_url_rewrite()).
        $filters = ['got_url_rewrite' => [10 => [['function' => '__return_true', 'accepted_args' => 0]]]];
        $filters['plugins_loaded'][\PHP_INT_MIN][] = ['function' => self::class . '::yield', 'accepted_args' => 0];
        $rewind = class_exists(Rewind::class, false) ? [Rewind::class, RewoundShop::class] : [];
        $members = class_exists(Member::class, false) ? [Member::class] : [];
        self::put([...self::OF, Written::class, Visitor::class, ...$members, Others::class, ...$rewind], $filters);
    }

    /** Before WordPress is loaded: the tables of these classes, beside other filters. */
    public static function put(array $classes, array $filters = []): void
    {
        foreach ($classes as $class) {
            foreach ($class::HOOKS as $hook => [$method, $arguments, $priority]) {
                $filters[$hook][$priority][] = ['function' => "$class::$method", 'accepted_args' => $arguments];
            }
        }
        $GLOBALS['wp_filter'] = $filters;
    }

    /** Adds hooks of such a table later, when WordPress is there. */
    public static function add(string $class, array $hooks): void
    {
        foreach ($hooks as $hook => [$method, $arguments, $priority]) {
            add_filter($hook, "$class::$method", $priority, $arguments);
        }
    }

    /** Plugins are loaded. LiteSpeed Cache speaks to the cache itself, by headers: then nothing of that runs here. */
    public static function yield(): void
    {
        if (!defined('LSCWP_V')) {
            return;
        }
        foreach (self::OF as $class) {
            self::remove($class, $class::HOOKS);
        }
    }

    public static function remove(string $class, array $hooks): void
    {
        foreach ($hooks as $hook => [$method, , $priority]) {
            remove_filter($hook, "$class::$method", $priority);
        }
    }
}
