<?php
namespace Millrace\WordPress;

/**
 * What PHP writes by WordPress's functions, whether or not a page shows it. When the server finds that a row has changed (Sql), it
 * must know whether a purge is still to come: not for a row that this class has named, because the other classes have judged it.
 *
 * Said before a write where there is a hook for that: a busy machine may stop this process between the write and the hook behind it. And
 * after the write, when a new row has a number; the worker says all of it again when the request ends: a transaction may show it only then.
 */
final class Written
{
    public const HOOKS = [
        // Before.
        'pre_post_update' => ['post', 1, \PHP_INT_MIN],
        'before_delete_post' => ['post', 1, \PHP_INT_MIN],
        'delete_attachment' => ['post', 1, \PHP_INT_MIN],
        'add_post_meta' => ['post', 1, \PHP_INT_MAX],
        'update_post_meta' => ['post_field', 2, \PHP_INT_MAX],
        'delete_post_meta' => ['post_field', 2, \PHP_INT_MAX],
        'add_term_relationship' => ['post', 1, \PHP_INT_MAX],
        'delete_term_relationships' => ['post', 1, \PHP_INT_MAX],
        'woocommerce_update_product_stock_query' => ['stock', 2, \PHP_INT_MAX],
        'add_option' => ['option', 1, \PHP_INT_MAX],
        'update_option' => ['option', 1, \PHP_INT_MAX],
        'delete_option' => ['option', 1, \PHP_INT_MAX],
        'edit_terms' => ['term', 1, \PHP_INT_MAX],
        'pre_delete_term' => ['term', 1, \PHP_INT_MAX],
        'add_term_meta' => ['term', 1, \PHP_INT_MAX],
        'update_term_meta' => ['term_field', 2, \PHP_INT_MAX],
        'delete_term_meta' => ['term_field', 2, \PHP_INT_MAX],
        'delete_comment' => ['comment', 2, \PHP_INT_MAX],
        'wp_update_comment_data' => ['comment_data', 2, \PHP_INT_MAX],
        'wp_pre_insert_user_data' => ['user_data', 3, \PHP_INT_MAX],
        'add_user_meta' => ['user', 1, \PHP_INT_MAX],
        'update_user_meta' => ['user_field', 2, \PHP_INT_MAX],
        'delete_user_meta' => ['user_field', 2, \PHP_INT_MAX],
        // After.
        'clean_post_cache' => ['post', 1, 0],
        'save_post' => ['owned', 2, 0],
        'added_post_meta' => ['post_field', 2, 0],
        'updated_post_meta' => ['post_field', 2, 0],
        'deleted_post_meta' => ['post_field', 2, 0],
        'added_term_relationship' => ['post', 1, 0],
        'deleted_term_relationships' => ['post', 1, 0],
        // WooCommerce writes them by SQL of its own.
        'woocommerce_updated_product_stock' => ['post', 1, 0],
        'woocommerce_product_set_stock' => ['product', 1, 0],
        'woocommerce_variation_set_stock' => ['product', 1, 0],
        'added_option' => ['option', 1, 0],
        'updated_option' => ['option', 1, 0],
        'deleted_option' => ['option', 1, 0],
        'clean_term_cache' => ['terms', 1, 0],
        'added_term_meta' => ['term_field', 2, 0],
        'updated_term_meta' => ['term_field', 2, 0],
        'deleted_term_meta' => ['term_field', 2, 0],
        'wp_insert_comment' => ['comment', 2, 0],
        'edit_comment' => ['comment', 1, 0],
        'transition_comment_status' => ['judged', 3, 0],
        'clean_user_cache' => ['user', 1, 0],
        'added_user_meta' => ['user_field', 2, 0],
        'updated_user_meta' => ['user_field', 2, 0],
        'deleted_user_meta' => ['user_field', 2, 0],
    ];

    /** Nanoseconds in which the same row is named once. */
    private const ONE_WRITE = 50000000;
    /** Rows that a request names; after that, all rows of the family. */
    private const MOST = 150;

    private static array $said = [];
    private static int $since = 0;
    private static array $known = [];

    public static function post($id): void
    {
        self::say('post', (int) $id);
    }

    /** A private post: its author sees it in lists, and others don't (Member). */
    public static function owned($id, $post = null): void
    {
        is_object($post) && $post->post_status === 'private' && self::say('user', (int) $post->post_author);
    }

    public static function post_field($meta, $id): void
    {
        self::say('post', (int) $id);
    }

    public static function product($product): void
    {
        is_object($product) && is_callable([$product, 'get_id']) && self::say('post', (int) $product->get_id());
    }

    /** Filters the query by which WooCommerce changes a stock. */
    public static function stock($query, $id)
    {
        self::say('post', (int) $id);
        return $query;
    }

    public static function option($name): void
    {
        // Roles are on no page, but they decide what members see (Member).
        $is_seen = !Options::is_noise((string) $name) || str_ends_with((string) $name, 'user_roles');
        $is_seen && self::say('option', rawurlencode((string) $name));
    }

    public static function terms($ids): void
    {
        foreach ((array) $ids as $id) {
            self::say('term', (int) $id);
        }
    }

    public static function term($id): void
    {
        self::say('term', (int) $id);
    }

    public static function term_field($meta, $id): void
    {
        self::say('term', (int) $id);
    }

    public static function comment($id, $comment = null): void
    {
        $comment = is_object($comment) ? $comment : get_comment($id);
        self::say('comments', (int) ($comment->comment_post_ID ?? 0));
        // One that waits is seen by who has written it.
        if ((int) ($comment->user_id ?? 0) && (string) $comment->comment_approved === '0') {
            self::say('user', (int) $comment->user_id);
        }
    }

    /** Filters the columns of a comment that is about to change. */
    public static function comment_data($data, $comment)
    {
        self::say('comments', (int) (((array) $comment)['comment_post_ID'] ?? 0));
        return $data;
    }

    public static function judged($new, $old, $comment): void
    {
        self::comment(0, $comment);
    }

    public static function user($id): void
    {
        self::say('user', (int) $id);
    }

    /** Filters the columns of a user; a new one has no number yet. */
    public static function user_data($data, $update, $id)
    {
        $id && self::say('user', (int) $id);
        return $data;
    }

    public static function user_field($meta, $id): void
    {
        self::say('user', (int) $id);
    }

    /** 0: WordPress doesn't say which rows; those of the whole family, then. */
    private static function say(string $family, int|string $key): void
    {
        // What Sql takes out of caches is not written.
        if (is_multisite() || Changes::$is_by_sql) {
            return;
        }
        $now = hrtime(true);
        if ($now - self::$since > self::ONE_WRITE) {
            [self::$said, self::$since] = [[], $now];
        }
        $item = $family . '-' . ($key ?: '*');
        self::$known[$item] = true;
        $item = count(self::$known) > self::MOST ? "$family-*" : $item;
        if (!isset(self::$said[$item])) {
            self::$said[$item] = true;
            millrace_purge('wrote', $item);
        }
    }
}
