<?php
namespace Millrace\WordPress;

/**
 * Purges, as they are said to the server: each once a request (the worker says them again when the request ends, because
 * a page that is made meanwhile may hold what is old by then).
 *
 * Soft: the page is made anew for the next visitor, the old one stays for the case that this fails. Hard: it is gone,
 * because it shows what must not be shown any more or what somebody would buy by it.
 */
final class Changes
{
    /** Tags that were purged in this request: whether hard. */
    private static array $said = [];

    public static function soft(string ...$tags): void
    {
        if (!isset(self::$said['*'])) {
            self::say('soft', $tags);
        }
    }

    public static function hard(string ...$tags): void
    {
        self::say('hard', $tags);
    }

    /** All pages of the site, hard; of a network, those of the current site. */
    public static function gone(): void
    {
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
        if (!isset(self::$said['*'])) {
            self::$said['*'] = false;
            millrace_purge('soft', '*');
            self::items(['*']);
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

    /** Products have changed: the server must look at the carts that hold them. */
    private static function items(array $tags): void
    {
        foreach (function_exists('WC') ? array_chunk($tags, 500) : [] as $some) {
            millrace_visitor('changed', 'items=' . implode(',', $some));
        }
    }
}
