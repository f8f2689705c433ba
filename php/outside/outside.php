<?php
namespace Millrace\WordPress;

/**
 * Purges of PHP processes that Millrace does not run: WP-CLI, the system's cron, php-fpm. `millrace hooks enable` puts this class and
 * those of php/inject/wordpress that know what changes into one must-use plugin.
 *
 * Orders are lines in wp-content/.millrace/purges, in the grammar of the field Millrace-Purge. The server reads and empties that file
 * 50 times a second, and before it serves the first request after a start: a purge is not lost while the server is down. Who
 * may write there may change the site's code as well, so the file's permissions are all the authentication that is needed.
 *
 * A running server holds a lock on wp-content/.millrace/running. Then this process waits at its end until its orders are carried out:
 * what comes after `wp option update` in a shell script sees the new pages.
 */
final class Outside
{
    private const CLASSES = [Posts::class, People::class, Site::class, Options::class, Shop::class, Network::class, Tables::class, Written::class];
    /** Bytes of orders that are worth telling apart; beyond them the whole site is purged. */
    private const MOST = 262144;
    /** Seconds that a process waits for the server at its end. */
    private const PATIENCE = 3;

    private static string $folder = '';
    /** Orders of this process, said again at its end: a page made meanwhile may contain what was replaced. */
    private static array $orders = [];
    private static bool $complained = false;

    public static function begin(string $folder): void
    {
        self::$folder = $folder;
        foreach (self::CLASSES as $class) {
            Hooks::add($class, $class::HOOKS);
        }
        add_action('plugins_loaded', Hooks::class . '::yield', \PHP_INT_MIN, 0);
        if (class_exists('WP_CLI', false)) {
            // They change the database without WordPress's functions.
            \WP_CLI::add_hook('after_invoke:search-replace', Changes::class . '::all');
            \WP_CLI::add_hook('after_invoke:cache flush', Changes::class . '::all');
        }
        register_shutdown_function(self::class . '::end');
    }

    public static function order(string $how, array $items): void
    {
        $order = "$how, " . implode(', ', $items);
        if (!isset(self::$orders['hard, *'])) {
            self::$orders = $order === 'hard, *' || count(self::$orders) > 1000 ? ['hard, *' => true] : self::$orders + [$order => true];
        }
        self::write("$order\n");
    }

    /** WordPress has done its work; so have the functions that it calls at its end. */
    public static function end(): void
    {
        $end = self::$orders ? self::write(implode("\n", array_keys(self::$orders)) . "\n") : null;
        self::$orders = [];
        $file = $end ? fopen(self::$folder . '/purges', 'r') : false;
        for ($until = microtime(true) + self::PATIENCE; $file && microtime(true) < $until && self::is_served(); usleep(2000)) {
            if (fstat($file)['size'] < $end) {
                return;
            }
        }
    }

    /** Appends orders; returns where they end in the file. Without the file `millrace hooks disable` has been here. */
    private static function write(string $orders): ?int
    {
        $path = self::$folder . '/purges';
        if (!is_file($path)) {
            return null;
        }
        $file = is_writable($path) ? fopen($path, 'r+') : false;
        if (!$file || !flock($file, LOCK_EX)) {
            self::complain($path);
            return null;
        }
        fseek($file, 0, SEEK_END);
        if (ftell($file) + strlen($orders) > self::MOST) {
            ftruncate($file, 0);
            rewind($file);
            $orders = "hard, *\n";
        }
        // A disk that is full takes part of it, or nothing.
        $all = fwrite($file, $orders) === strlen($orders) && fflush($file);
        $end = ftell($file);
        flock($file, LOCK_UN);
        $all || self::complain($path);
        return $all ? $end : null;
    }

    /** Whether a server holds its lock. */
    private static function is_served(): bool
    {
        $file = @fopen(self::$folder . '/running', 'r');
        return $file && !flock($file, LOCK_SH | LOCK_NB);
    }

    private static function complain(string $path): void
    {
        if (!self::$complained) {
            self::$complained = true;
            $text = "Millrace: cannot write $path: pages that show this change stay cached. Run this as the owner of that file, or run `millrace purge --all`.";
            \PHP_SAPI === 'cli' ? fwrite(STDERR, "$text\n") : error_log($text);
        }
    }
}

/** As Millrace's own function of this name, for the classes of this namespace. */
function millrace_purge(string $how, string ...$items): bool
{
    Outside::order($how, $items);
    return true;
}
