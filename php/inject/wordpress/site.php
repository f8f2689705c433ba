<?php
namespace Millrace\WordPress;

/** Changes of what all pages are made of: theme, menus, links, plugins; options are in Options. */
final class Site
{
    public const HOOKS = [
        'switch_theme' => ['all', 0, 10],
        'customize_save_after' => ['all', 0, 10],
        'wp_update_nav_menu' => ['all', 0, 10],
        'wp_delete_nav_menu' => ['all', 0, 10],
        'permalink_structure_changed' => ['all', 0, 10],
        'upgrader_process_complete' => ['all', 0, 10],
        '_core_updated_successfully' => ['all', 0, 10],
        // The editor for files of themes and plugins.
        'wp_ajax_edit-theme-plugin-file' => ['all', 0, 0],
        'activated_plugin' => ['all', 0, 10],
        'deactivated_plugin' => ['all', 0, 10],
        'add_link' => ['all', 0, 10],
        'edit_link' => ['all', 0, 10],
        'delete_link' => ['all', 0, 10],
        'acf/save_post' => ['fields', 1, 20],
        'elementor/core/files/clear_cache' => ['all', 0, 10],
        'autoptimize_action_cachepurged' => ['all', 0, 10],
        // What plugins and themes say to LiteSpeed Cache, should it be there.
        'litespeed_purge_all' => ['all', 0, 10],
        'litespeed_purge_post' => ['post', 1, 10],
        'litespeed_control_set_nocache' => ['refuse', 0, 10],
    ];

    public static function all(): void
    {
        Changes::all();
    }

    /** Advanced Custom Fields: the fields of a page of options have no number of a post. */
    public static function fields($id): void
    {
        if (!is_numeric($id) && strncmp((string) $id, 'user_', 5) !== 0) {
            Changes::all();
        }
    }

    public static function post($id): void
    {
        $post = get_post($id);
        if ($post) {
            Changes::soft(...Posts::shown($post));
        }
    }

    public static function refuse(): void
    {
        if (Page::$watched) {
            Page::refuse('litespeed_control_set_nocache');
        }
    }
}
