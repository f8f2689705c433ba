<?php
namespace Millrace\WordPress;

/**
 * Purges, as they are said to the server: each once, as long as one change of WordPress takes, because it calls several
 * hooks. The worker says them again when the request ends: a page that is made meanwhile may hold what is old by then.
 *
 * Soft: the page is made anew for the next visitor, the old one stays for the case that this fails. Hard: it is gone,
 * because it shows what must not be shown any more or what somebody would buy by it.
 */
final class Changes
{
    /** What has changed was found in the database (Sql). */
    public static bool $is_by_sql = false;

    /** Nanoseconds. An import that runs for minutes may change the same post again. */
    private const ONE_CHANGE = 10000000;
    /** Tags that were purged in one change, which began then: whether hard. */
    private static array $said = [];
    private static int $since = 0;

    /** A person at a command line, such as WP-CLI, may do everything; so may one who writes to the database. */
    public static function may(string $capability, ...$of): bool
    {
        return self::$is_by_sql || (\PHP_SAPI === 'cli' && !wp_doing_cron()) || current_user_can($capability, ...$of);
    }

    public static function soft(string ...$tags): void
    {
        self::forget();
        if (!isset(self::$said['*'])) {
            self::say('soft', $tags);
        }
    }

    public static function hard(string ...$tags): void
    {
        self::forget();
        self::say('hard', $tags);
    }

    /** All pages of the site, hard; of a network, those of the current site. */
    public static function gone(): void
    {
        self::forget();
        if (is_multisite()) {
            self::hard('all');
        } elseif (!(self::$said['*'] ?? false)) {
            self::$said['*'] = true;
            millrace_purge('hard', '*');
            self::items(['*']);
        }
    }

    /** All pages of the site; of a network, those of the current site. */
    public static function all(): void
    {
        if (is_multisite()) {
            self::soft('all');
        } else {
            self::network();
        }
    }

    /** All pages; of a network, those of all its sites. */
    public static function network(): void
    {
        self::forget();
        if (!isset(self::$said['*'])) {
            self::$said['*'] = false;
            millrace_purge('soft', '*');
            self::items(['*']);
        }
    }

    private static function forget(): void
    {
        $now = hrtime(true);
        if ($now - self::$since > self::ONE_CHANGE) {
            [self::$said, self::$since] = [[], $now];
        }
    }

    private static function say(string $how, array $tags): void
    {
        $new = [];
        foreach (Tags::names(Tags::purged(array_unique($tags))) as $tag) {
            $known = self::$said[$tag] ?? null;
            if ($known === null || ($how === 'hard' && !$known)) {
                self::$said[$tag] = $how === 'hard';
                // What WordPress names by slugs cannot hold a comma; a plugin's names could.
                $new[] = str_replace([',', ' '], '_', $tag);
            }
        }
        foreach (array_chunk($new, 500) as $some) {
            millrace_purge($how, ...$some);
        }
        self::items(array_filter($new, static fn ($tag) => preg_match('/^(\d+\.)?post-\d+$/D', $tag)));
    }

    /** Products have changed: the server must look at the carts that hold them. A PHP outside of Millrace cannot tell it so. */
    private static function items(array $tags): void
    {
        $is_heard = function_exists('WC') && function_exists('millrace_visitor');
        foreach ($is_heard ? array_chunk($tags, 500) : [] as $some) {
            millrace_visitor('changed', 'items=' . implode(',', $some));
        }
    }
}
