<?php
namespace Millrace\WordPress;

/**
 * What this request has read from the database, whoever asked for it: WordPress puts each post, term, user and comment, and the fields
 * of each, into the request's object cache. Read at its end, it finds what no hook tells: `get_post(45)`, `get_post_meta()`,
 * `get_page_by_path()`, fields of plugins.
 *
 * Object caches of plugins keep what they have in arrays of other shapes. An entry that is put there at the beginning shows which;
 * where it isn't found again - another shape, a flush in the middle of the page - the page gets a tag for each family.
 */
final class Objects
{
    private const GROUP = 'millrace-page';
    private const KEY = 'begun';
    /** Groups of the object cache => the family of the tag; a comment is on the page of its post. */
    private const GROUPS = ['posts' => 'post', 'post_meta' => 'post', 'terms' => 'termlink', 'term_meta' => 'termlink', 'users' => 'by',
        'user_meta' => 'by', 'comment' => 'comments'];
    private const UNKNOWN = ['any-post' => true, 'any-termlink' => true, 'any-by' => true, 'any-comments' => true];
    /** Taxonomies of what all pages are made of: a change purges all. */
    private const BUILDING = ['nav_menu' => 1, 'wp_theme' => 1, 'wp_template_part_area' => 1, 'link_category' => 1];

    /** Types of posts: whether a change of one purges the post's tag. */
    private static array $types = [];
    /** What the cache had when it was made anew within this request. */
    private static array $earlier = [];

    public static function begin(): void
    {
        function_exists('wp_cache_add_non_persistent_groups') && wp_cache_add_non_persistent_groups([self::GROUP]);
        wp_cache_set(self::KEY, 1, self::GROUP);
    }

    /** The request's object cache is made anew; what it had was read for the page. */
    public static function renew(callable $make): void
    {
        did_action('init') || self::begin();
        self::$earlier[] = self::groups();
        $make();
        self::begin();
    }

    /** Tags as keys, by the number of the site in a network, with the post of the tag if it is one. */
    public static function tags(): array
    {
        $here = get_current_blog_id();
        $tags = [];
        foreach ([...self::$earlier, self::groups()] as $groups) {
            if ($groups === null) {
                return [$here => self::UNKNOWN];
            }
            self::note($tags, $groups, $here);
        }
        return $tags;
    }

    private static function note(array &$tags, array $groups, int $here): void
    {
        self::neighbours($tags, $groups, $here);
        foreach (self::GROUPS as $group => $family) {
            foreach ($groups[$group] ?? [] as $key => $value) {
                // In a network keys begin with the number of the site, but for what all its sites have in common.
                if (preg_match('/^(?:(\d+):)?(\d+)$/D', (string) $key, $parts) && $parts[2] !== '0' && !self::is_reader($family, $parts[2])) {
                    $post = $groups['posts'][$key] ?? null;
                    $tag = self::tag($family, $parts[2], $value, $post);
                    $tag === null || $tags[(int) ($parts[1] ?: $here)][$tag] ??= $family === 'post' && is_object($post) ? $post : true;
                }
            }
        }
    }

    /** Posts before and after another: WordPress keeps their numbers, and a page links to them. */
    private static function neighbours(array &$tags, array $groups, int $here): void
    {
        foreach (['post-queries', 'counts'] as $group) {
            foreach ($groups[$group] ?? [] as $key => $id) {
                if (is_scalar($id) && (int) $id && preg_match('/^(?:(\d+):)?adjacent_post/', (string) $key, $parts)) {
                    $tags[(int) (($parts[1] ?? '') ?: $here)]['link-' . (int) $id] = true;
                }
            }
        }
    }

    /** WordPress reads the row of who is logged in for each page; what a page shows of it is a value that is filled in (Member). */
    private static function is_reader(string $family, string $id): bool
    {
        return $family === 'by' && Page::$for_member && (int) $id === Member::user();
    }

    /** `$post`: the post of this number, if it was read. */
    private static function tag(string $family, string $id, $value, $post): ?string
    {
        if ($family === 'post') {
            return self::is_purged($post) ? "post-$id" : null;
        }
        if ($family === 'comments') {
            return is_object($value) && isset($value->comment_post_ID) ? "comments-$value->comment_post_ID" : 'any-comments';
        }
        return is_object($value) && isset(self::BUILDING[$value->taxonomy ?? '']) ? null : "$family-$id";
    }

    /** Not the types that all pages are made of, nor those that have no pages: their changes purge all, or nothing. */
    private static function is_purged($post): bool
    {
        $type = is_object($post) ? (string) ($post->post_type ?? '') : '';
        return $type === '' || (self::$types[$type] ??= !isset(Shown::BUILDING[$type]) && is_post_type_viewable($type));
    }

    /** What the object cache has in memory, as [group][key]; null: it can't be read. */
    private static function groups(): ?array
    {
        $cache = $GLOBALS['wp_object_cache'] ?? null;
        foreach (is_object($cache) ? (array) $cache : [] as $entries) {
            if (!is_array($entries)) {
                continue;
            }
            if (is_array($entries[self::GROUP] ?? null)) {
                return preg_grep('/' . self::KEY . '$/D', array_keys($entries[self::GROUP])) ? $entries : null;
            }
            $flat = is_multisite() ? null : self::unfolded($entries);
            if ($flat !== null) {
                return $flat;
            }
        }
        return null;
    }

    /** An object cache whose keys have the group in them: `wp:posts:45`. */
    private static function unfolded(array $entries): ?array
    {
        $known = preg_grep('/' . self::GROUP . '.*' . self::KEY . '$/D', array_keys($entries));
        if (!$known) {
            return null;
        }
        $between = substr(strstr(end($known), self::GROUP), strlen(self::GROUP), -strlen(self::KEY));
        $shape = '/(?:^|[^\w-])(' . implode('|', array_keys(self::GROUPS)) . ')' . preg_quote($between, '/') . '(\d+)$/D';
        $groups = [];
        foreach ($between === '' ? [] : $entries as $key => $value) {
            if (preg_match($shape, (string) $key, $parts)) {
                $groups[$parts[1]][$parts[2]] = is_array($value) && isset($value['value']) ? $value['value'] : $value;
            }
        }
        return $between === '' ? null : $groups;
    }
}
