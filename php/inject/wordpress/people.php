<?php
namespace Millrace\WordPress;

/** Changes of comments and of users. */
final class People
{
    public const HOOKS = [
        'transition_comment_status' => ['judged', 3, 10],
        'wp_insert_comment' => ['commented', 2, 10],
        'edit_comment' => ['edited', 1, 10],
        'wp_update_comment_count' => ['counted', 3, 10],
        'profile_update' => ['profile', 2, 10],
        'added_user_meta' => ['meta', 3, 10],
        'updated_user_meta' => ['meta', 3, 10],
        'deleted_user_meta' => ['meta', 3, 10],
        'added_comment_meta' => ['comment_meta', 3, 10],
        'updated_comment_meta' => ['comment_meta', 3, 10],
        'deleted_comment_meta' => ['comment_meta', 3, 10],
        'user_register' => ['registered', 0, 10],
        'delete_user' => ['deleted', 2, 10],
    ];

    /** State of the administration and of a shop, by user. */
    private const BOOKKEEPING = '/^(_.*|session_tokens|.*user-settings.*|.*persisted_preferences|.*(capabilities|user_level)|(closedpostboxes|metaboxhidden|meta-box-order'
        . '|screen_layout|manage|edit).*|dismissed_.*|show_.*|(rich_editing|syntax_highlighting|comment_shortcuts|admin_color|locale'
        . '|use_ssl|default_password_nag|primary_blog|source_domain|community-events-location|paying_customer)|(wc|last|billing|shipping)_.*)$/D';

    public static function judged($new, $old, $comment): void
    {
        if ($new === 'approved') {
            Changes::soft(...self::of($comment));
        } elseif ($old === 'approved') {
            Changes::hard(...self::of($comment));
        }
    }

    public static function commented($id, $comment): void
    {
        if (is_object($comment) && (string) $comment->comment_approved === '1') {
            Changes::soft(...self::of($comment));
        }
    }

    public static function edited($id): void
    {
        $comment = get_comment($id);
        if ($comment) {
            self::commented($id, $comment);
        }
    }

    public static function counted($post, $new, $old): void
    {
        if ((int) $new !== (int) $old) {
            Changes::soft("comments-$post");
        }
    }

    /** Tags of what shows a comment. Notes on orders and the like are comments too, on what has no page. */
    private static function of($comment): array
    {
        $post = is_object($comment) ? get_post($comment->comment_post_ID) : null;
        if (!$post || !is_post_type_viewable($post->post_type)) {
            return [];
        }
        $tags = ["comments-$post->ID", 'comments'];
        if ($comment->comment_type === 'review') {
            // With it the stars change, wherever the product is shown.
            $tags[] = "post-$post->ID";
        }
        return $tags;
    }

    public static function profile($id, $old): void
    {
        $user = get_userdata($id);
        foreach (['display_name', 'user_nicename', 'user_url', 'user_email'] as $field) {
            if ($user && $user->$field !== $old->$field) {
                Changes::soft("by-$id", "author-$id", 'users');
                return;
            }
        }
    }

    public static function meta($meta, $id, $key): void
    {
        $names = ['description', 'nickname', 'first_name', 'last_name'];
        // A picture or a link of a plugin. Customers have fields, too, but no page names them.
        $is_other = did_action('init') && !preg_match(self::BOOKKEEPING, $key) && !Options::is_bookkeeping($key)
            && Posts::is_shown($key, 'edit_user', $id);
        if (in_array($key, $names, true) || $is_other) {
            Changes::soft("by-$id", "author-$id", 'users');
        }
    }

    /** Stars of a review, a picture: not what visitors vote for. */
    public static function comment_meta($meta, $id, $key): void
    {
        $comment = strncmp($key, '_wp_trash_', 10) !== 0 && did_action('init') && Posts::is_shown($key, 'edit_comment', $id) ? get_comment($id) : null;
        if ($comment) {
            self::commented($id, $comment);
        }
    }

    public static function registered(): void
    {
        Changes::soft('users');
    }

    public static function deleted($id, $heir = null): void
    {
        Changes::hard("by-$id", "author-$id", 'users');
        if ($heir) {
            // His posts are another's now, whatever shows them; WordPress says nothing of each.
            Changes::all();
        }
    }
}
