<?php
namespace Millrace\WordPress;

/** Changes of a network of sites: of its list, and of what all its sites are made of. */
final class Network
{
    public const HOOKS = [
        'wp_insert_site' => ['added', 0, 10],
        'wp_update_site' => ['changed', 2, 10],
        'wp_delete_site' => ['deleted', 1, 10],
        'wpmu_delete_user' => ['user', 1, 10],
        'update_option_blogname' => ['listed', 0, 10],
        'update_option_siteurl' => ['listed', 0, 10],
        'update_option_home' => ['listed', 0, 10],
        'upgrader_process_complete' => ['all', 0, 10],
        '_core_updated_successfully' => ['all', 0, 10],
    ];

    /** What says whether a site is shown, and where; the rest is bookkeeping. */
    private const FIELDS = ['domain', 'path', 'public', 'archived', 'mature', 'spam', 'deleted'];

    public static function added(): void
    {
        self::listed();
        // Its address may have been asked for before.
        Changes::hard(get_main_site_id() . '.404');
    }

    public static function changed($new, $old): void
    {
        foreach (self::FIELDS as $field) {
            if ((string) $new->$field !== (string) $old->$field) {
                self::added();
                Changes::hard((int) $new->id . '.all');
                return;
            }
        }
    }

    public static function deleted($site): void
    {
        self::listed();
        Changes::hard((int) $site->id . '.all');
    }

    public static function user($id): void
    {
        Changes::hard("by-$id", 'users');
    }

    public static function listed(): void
    {
        if (is_multisite()) {
            Changes::soft('sites');
        }
    }

    /** All pages of all sites. */
    public static function all(): void
    {
        if (is_multisite()) {
            Changes::network();
        }
    }
}
