<?php
namespace Millrace\WordPress;

/** Changes of posts, pages, products and all other types, of attachments, and of terms. */
final class Posts
{
    public const HOOKS = [
        'transition_post_status' => ['status', 3, 10],
        'post_updated' => ['updated', 3, 10],
        'before_delete_post' => ['deleted', 2, 10],
        'set_object_terms' => ['classified', 6, 10],
        'deleted_term_relationships' => ['declassified', 3, 10],
        'added_post_meta' => ['meta', 3, 10],
        'updated_post_meta' => ['meta', 3, 10],
        'deleted_post_meta' => ['meta', 3, 10],
        'add_attachment' => ['attached', 1, 10],
        'edit_attachment' => ['attachment', 1, 10],
        'delete_attachment' => ['detached', 1, 10],
        'wp_update_attachment_metadata' => ['image', 2, 10],
        'created_term' => ['term_created', 3, 10],
        'edited_term' => ['term_edited', 3, 10],
        'pre_delete_term' => ['term_deleted', 2, 10],
        'added_term_meta' => ['term_meta', 3, 10],
        'updated_term_meta' => ['term_meta', 3, 10],
        'deleted_term_meta' => ['term_meta', 3, 10],
    ];

    /** Bookkeeping of WordPress, which no page shows. */
    private const BOOKKEEPING = '/^_(edit_|wp_old_|wp_trash_|encloseme|pingme|oembed_|wp_desired_)/';

    /** Types that an administrator edits, and that no page shows: coupons, orders, messages, logs. */
    private const PRIVATE = '/^(shop_(coupon|order.*|subscription|webhook)|edd_(payment|discount|log)|scheduled-action|flamingo_.*|wp_log)$/D';

    public static function status($new, $old, $post): void
    {
        // Not all plugins call with an object of WordPress's class.
        $post = array_intersect([$new, $old], ['publish', 'future']) ? get_post($post) : null;
        if (!$post || self::is_hidden($post)) {
            return;
        }
        if ($new === 'future' && $old !== 'publish') {
            // Where it will be seen, pages must be made anew that live no longer than until then (Page::until_due).
            Changes::soft('front', ...self::shown($post), ...self::listed($post));
        } elseif ($new !== 'publish' && $old !== 'publish') {
            // It was scheduled, and is not any more.
            return;
        } elseif ($new === $old) {
            Changes::soft(...self::shown($post));
        } elseif ($new === 'publish') {
            Changes::soft(...self::shown($post), ...self::listed($post));
            // Its address may have been asked for before.
            Changes::hard('404');
        } else {
            Changes::hard(...self::shown($post), ...self::listed($post));
        }
    }

    /** What a change of a published post moves besides what shows it. */
    public static function updated($id, $after, $before): void
    {
        if ($after->post_status !== 'publish' || $before->post_status !== 'publish' || !is_post_type_viewable($after->post_type)) {
            return;
        }
        $differs = static fn (string ...$fields) => (bool) array_filter($fields, static fn ($f) => $after->$f !== $before->$f);
        if ($differs('post_date', 'post_author', 'post_type', 'post_parent', 'menu_order')) {
            Changes::soft(...self::shown($before), ...self::listed($before), ...self::listed($after));
        }
        if ($differs('post_title', 'post_name', 'post_parent')) {
            Changes::soft("link-$id", ...self::neighbours($after), ...self::commented($after));
        }
        if ($differs('post_date', 'post_name', 'post_parent', 'post_type')) {
            // Its own address, or an archive that had no posts, may have been asked for before.
            Changes::hard('404');
        }
        if ($differs('post_password')) {
            Changes::hard(...self::shown($after));
        }
    }

    /** Deleted without having been in the trash. */
    public static function deleted($id, $post): void
    {
        $post = get_post($post);
        if ($post && $post->post_status === 'publish' && !self::is_hidden($post)) {
            Changes::hard(...self::shown($post), ...self::listed($post));
        }
    }

    public static function classified($id, $terms, $new, $taxonomy, $append, $old): void
    {
        [$new, $old] = [(array) $new, (array) $old];
        $changed = $append ? array_diff($new, $old) : array_merge(array_diff($new, $old), array_diff($old, $new));
        self::declassified($id, $changed, $taxonomy);
    }

    /** Terms were added to or taken from a post; they are given by their term_taxonomy_id. */
    public static function declassified($id, $changed, $taxonomy): void
    {
        $post = $changed ? get_post($id) : null;
        if (!$post || $post->post_status !== 'publish' || !is_post_type_viewable($post->post_type)) {
            return;
        }
        $tags = ["post-$id", "terms-$taxonomy", "list-$post->post_type", 'list-any', "type-$post->post_type"];
        foreach ($changed as $number) {
            $term = get_term_by('term_taxonomy_id', $number, $taxonomy);
            array_push($tags, ...($term ? self::archives($term->term_id, $taxonomy) : []));
        }
        Changes::soft(...$tags);
    }

    /**
     * Fields of a post: not by a visitor's request, because many a site counts its visits in such a field; by cron, an import or a
     * feed of stock, if the field's name doesn't say that it counts.
     */
    public static function meta($meta, $id, $key): void
    {
        $post = preg_match(self::BOOKKEEPING, $key) || !did_action('init') ? null : get_post($id);
        // An attachment has no status of its own.
        if (!$post || !in_array($post->post_status, ['publish', 'inherit'], true) || !is_post_type_viewable($post->post_type)) {
            return;
        }
        if ($key === '_thumbnail_id' || self::is_shown($key, 'edit_post', $id)) {
            Changes::soft("post-$id");
        }
    }

    /** Whether a change of this field is more than a count of visits: somebody who may edit the thing does it, or cron. */
    public static function is_shown(string $key, string $capability, int $of): bool
    {
        return (wp_doing_cron() && !Options::is_bookkeeping($key)) || Changes::may($capability, $of);
    }

    public static function attached($id): void
    {
        $parent = (int) (get_post($id)->post_parent ?? 0);
        if ($parent) {
            Changes::soft("post-$parent");
        }
    }

    public static function attachment($id): void
    {
        Changes::soft("post-$id", "link-$id");
        self::attached($id);
    }

    public static function detached($id): void
    {
        global $wpdb;
        // WordPress takes it from the posts that it stands for all at once, without a word on each of them.
        $heads = $wpdb->get_col($wpdb->prepare(
            "SELECT post_id FROM $wpdb->postmeta WHERE meta_key = '_thumbnail_id' AND meta_value = %s LIMIT 1000", $id));
        Changes::soft(...array_map(static fn ($post) => "post-$post", $heads));
        Changes::hard("post-$id", "link-$id");
        self::attached($id);
    }

    public static function image($data, $id)
    {
        Changes::soft("post-$id");
        return $data;
    }

    public static function term_created($id, $number, $taxonomy): void
    {
        Changes::soft("terms-$taxonomy");
    }

    public static function term_edited($id, $number, $taxonomy): void
    {
        Changes::soft("term-$id", "termlink-$id", "terms-$taxonomy", '404');
    }

    public static function term_deleted($id, $taxonomy): void
    {
        Changes::hard("term-$id", "termlink-$id", "terms-$taxonomy");
    }

    /** Fields of a term, by the rule for those of posts; not those in which WooCommerce counts. */
    public static function term_meta($meta, $id, $key): void
    {
        if (strncmp($key, 'product_count_', 14) !== 0 && did_action('init') && self::is_shown($key, 'edit_term', $id)) {
            Changes::soft("term-$id", "termlink-$id");
        }
    }

    /** Tags of what shows a post: its page, and the archives it is on. */
    public static function shown(\WP_Post $post): array
    {
        $tags = ["post-$post->ID", "type-$post->post_type", 'sitemap'];
        if ($post->post_type === 'post') {
            array_push($tags, 'home', 'feed', "author-$post->post_author", ...Tags::dates($post->post_date));
        }
        foreach (get_object_taxonomies($post) as $taxonomy) {
            foreach (get_the_terms($post, $taxonomy) ?: [] as $term) {
                if ($term instanceof \WP_Term && is_taxonomy_viewable($taxonomy)) {
                    array_push($tags, ...self::archives($term->term_id, $taxonomy));
                }
            }
        }
        return $tags;
    }

    /** Tags of what changes when a post comes, goes or moves: lists, numbers, links to it and to its neighbours. */
    public static function listed(\WP_Post $post): array
    {
        // Users are listed by whether they have written anything.
        $tags = ["list-$post->post_type", 'list-any', "link-$post->ID", 'search', 'archives', 'users'];
        foreach (get_object_taxonomies($post) as $taxonomy) {
            if (get_the_terms($post, $taxonomy)) {
                $tags[] = "terms-$taxonomy";
            }
        }
        return array_merge($tags, self::neighbours($post), self::commented($post));
    }

    /** Lists of the latest comments name the posts that they are on, and leave out those of posts that are not public. */
    private static function commented(\WP_Post $post): array
    {
        return $post->comment_count > 0 ? ['comments'] : [];
    }

    /** The archive of a term, and of those above it. */
    private static function archives(int $id, string $taxonomy): array
    {
        $tags = ["term-$id"];
        foreach (is_taxonomy_hierarchical($taxonomy) ? get_ancestors($id, $taxonomy, 'taxonomy') : [] as $ancestor) {
            $tags[] = "term-$ancestor";
        }
        return $tags;
    }

    /** The posts before and after it, which link to it; also those of its category, as some themes do. */
    private static function neighbours(\WP_Post $post): array
    {
        if (is_post_type_hierarchical($post->post_type) || $post->post_type === 'attachment') {
            return [];
        }
        $tags = [];
        $current = $GLOBALS['post'] ?? null;
        $GLOBALS['post'] = $post;
        foreach (is_object_in_taxonomy($post->post_type, 'category') ? [false, true] : [false] as $same_term) {
            foreach ([true, false] as $previous) {
                $near = get_adjacent_post($same_term, '', $previous);
                if ($near instanceof \WP_Post) {
                    $tags[] = ($same_term ? 'navterm-' : 'nav-') . $near->ID;
                }
            }
        }
        $GLOBALS['post'] = $current;
        return $tags;
    }

    /**
     * Types that have no pages of their own. Those that all pages are made of purge all; so do those that somebody edits by
     * hand, such as forms and tables, which may be on any page; what programs keep in posts purges nothing.
     */
    public static function is_hidden(\WP_Post $post): bool
    {
        if (isset(Shown::BUILDING[$post->post_type])) {
            Changes::all();
            return true;
        }
        if (is_post_type_viewable($post->post_type)) {
            return false;
        }
        $type = get_post_type_object($post->post_type);
        if ($type && $type->show_ui && !preg_match(self::PRIVATE, $post->post_type) && did_action('init') && Changes::may('edit_post', $post->ID)) {
            Changes::all();
        }
        return true;
    }
}
