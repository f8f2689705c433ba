<?php
namespace Millrace\WordPress;

/**
 * What PHP writes by WordPress's functions, whether or not a page shows it. When the server finds that a row has changed (Sql), it
 * must know whether a purge is still to come: not for a row that this class has named, because the other classes have judged it.
 *
 * Each hook runs after its write. The worker says all of it again when the request ends: a transaction may show a write only then.
 */
final class Written
{
    public const HOOKS = [
        'clean_post_cache' => ['post', 1, 10],
        'added_post_meta' => ['post_field', 2, 10],
        'updated_post_meta' => ['post_field', 2, 10],
        'deleted_post_meta' => ['post_field', 2, 10],
        'added_term_relationship' => ['post', 1, 10],
        'deleted_term_relationships' => ['post', 1, 10],
        // WooCommerce writes both by SQL of its own.
        'woocommerce_updated_product_stock' => ['post', 1, 10],
        'woocommerce_product_set_stock' => ['product', 1, 10],
        'woocommerce_variation_set_stock' => ['product', 1, 10],
        'added_option' => ['option', 1, 10],
        'updated_option' => ['option', 1, 10],
        'deleted_option' => ['option', 1, 10],
        'clean_term_cache' => ['terms', 1, 10],
        'added_term_meta' => ['term_field', 2, 10],
        'updated_term_meta' => ['term_field', 2, 10],
        'deleted_term_meta' => ['term_field', 2, 10],
        'wp_insert_comment' => ['comment', 2, 10],
        'edit_comment' => ['comment', 1, 10],
        'delete_comment' => ['comment', 2, 10],
        'transition_comment_status' => ['judged', 3, 10],
        'clean_user_cache' => ['user', 1, 10],
        'added_user_meta' => ['user_field', 2, 10],
        'updated_user_meta' => ['user_field', 2, 10],
        'deleted_user_meta' => ['user_field', 2, 10],
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

    public static function post_field($meta, $id): void
    {
        self::say('post', (int) $id);
    }

    public static function product($product): void
    {
        is_object($product) && self::say('post', (int) $product->get_id());
    }

    public static function option($name): void
    {
        Options::is_noise((string) $name) || self::say('option', rawurlencode((string) $name));
    }

    public static function terms($ids): void
    {
        foreach ((array) $ids as $id) {
            self::say('term', (int) $id);
        }
    }

    public static function term_field($meta, $id): void
    {
        self::say('term', (int) $id);
    }

    public static function comment($id, $comment = null): void
    {
        $comment = is_object($comment) ? $comment : get_comment($id);
        self::say('comments', (int) ($comment->comment_post_ID ?? 0));
    }

    public static function judged($new, $old, $comment): void
    {
        self::comment(0, $comment);
    }

    public static function user($id): void
    {
        self::say('user', (int) $id);
    }

    public static function user_field($meta, $id): void
    {
        self::say('user', (int) $id);
    }

    /** 0: WordPress doesn't say which rows; those of the whole family, then. */
    private static function say(string $family, int|string $key): void
    {
        if (is_multisite()) {
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
