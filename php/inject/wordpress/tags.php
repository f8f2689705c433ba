<?php
namespace Millrace\WordPress;

/**
 * Names of tags. A page carries those of what it shows; a change purges those of what it touches.
 *
 * | tag | pages that carry it |
 * | --- | --- |
 * | post-ID | show that post, page, product or attachment, whole or in a list |
 * | link-ID | link to it: its title and address; in menus and lists of pages |
 * | nav-ID, navterm-ID | that post's own page, if it links to its neighbours; to those with the same term |
 * | list-TYPE | have, beside what they are about, a list of posts of that type; any: of all types |
 * | home, front, feed, search, 404, sitemap | are that |
 * | type-TYPE, term-ID, author-ID, date-2026, date-202611, date-20261122 | are the archive of that |
 * | termlink-ID, terms-TAXONOMY, by-ID, users | name that term, have a list of terms, name that author, have a list of users |
 * | comments-ID, comments | show comments of that post or their number; have a list of the latest comments |
 * | archives, widgets | have a list of months or a calendar; have a widget area |
 * | any-FAMILY | have more of a family than is worth telling apart: purged with each of them |
 * | redirect | are a redirect: purged when the address of the site changes; in a network those of all sites |
 * | all | all of one site of a network |
 * | sites | have a list of the sites of a network |
 *
 * In a network of sites all names begin with the number of the site and a dot; those of users and of the list of sites with
 * 0, because they are the same in all. A page carries the names of each site that it shows something of.
 */
final class Tags
{
    /** A page may carry 256; some are the cache's own. */
    private const MOST = 240;
    /** Families in the order in which they are given up. */
    private const FAMILIES = ['termlink', 'by', 'comments', 'link', 'post'];

    /** Tags as they are said: with the number of the site in a network. */
    public static function names(array $tags): array
    {
        return is_multisite() ? self::of(get_current_blog_id(), $tags) : $tags;
    }

    /** Tags of a site of the network; those that have a number already keep it. */
    public static function of(int $site, array $tags): array
    {
        return array_map(static fn ($tag) => preg_match('/^\d+\.\D/', $tag) ? $tag
            : (preg_match('/^(by-\d+|any-by|users|sites|redirect)$/D', $tag) ? 0 : $site) . ".$tag", $tags);
    }

    /** No more tags than a page may have: whole families become one. */
    public static function bound(array $tags, int $most = self::MOST): array
    {
        foreach (self::FAMILIES as $family) {
            if (count($tags) <= $most) {
                return $tags;
            }
            $rest = array_filter($tags, static fn ($tag) => !preg_match("/^$family-\d+$/D", $tag));
            if (count($rest) < count($tags)) {
                $rest[] = "any-$family";
            }
            $tags = $rest;
        }
        return count($tags) <= $most ? $tags : [];
    }

    /** The same for the tags of other sites, by their numbers, beside so many of the page's own; null: they are too many. */
    public static function bound_others(array $sites, int $own): ?array
    {
        $all = [];
        foreach ($sites as $site => $tags) {
            $some = self::bound($tags, intdiv(self::MOST - $own, count($sites)));
            if (!$some) {
                return null;
            }
            array_push($all, ...self::of($site, $some));
        }
        return array_unique($all);
    }

    /** What a purge of these tags must name: with them `any-FAMILY`. */
    public static function purged(array $tags): array
    {
        $any = [];
        foreach ($tags as $tag) {
            $family = strstr($tag, '-', true);
            if ($family !== false && in_array($family, self::FAMILIES, true)) {
                $any["any-$family"] = true;
            }
        }
        return array_merge($tags, array_keys($any));
    }

    /** Year, month and day of a post, each an archive. */
    public static function dates(string $date): array
    {
        $digits = str_replace('-', '', substr($date, 0, 10));
        return ['date-' . substr($digits, 0, 4), 'date-' . substr($digits, 0, 6), "date-$digits"];
    }
}
