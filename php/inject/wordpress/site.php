<?php
namespace Millrace\WordPress;

/** Changes of what all pages are made of: theme, menus, widgets, options, plugins. */
final class Site
{
    public const HOOKS = [
        'updated_option' => ['option', 1, 10],
        'added_option' => ['option', 1, 10],
        'deleted_option' => ['option', 1, 10],
        'switch_theme' => ['all', 0, 10],
        'customize_save_after' => ['all', 0, 10],
        'wp_update_nav_menu' => ['all', 0, 10],
        'wp_delete_nav_menu' => ['all', 0, 10],
        'permalink_structure_changed' => ['all', 0, 10],
        'upgrader_process_complete' => ['all', 0, 10],
        '_core_updated_successfully' => ['all', 0, 10],
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

    /** Options that show on all pages, or on more than can be told. */
    private const SHOWN = [
        'siteurl', 'home', 'blogname', 'blogdescription', 'blog_public', 'site_icon', 'site_logo', 'WPLANG', 'html_type',
        'template', 'stylesheet', 'permalink_structure', 'category_base', 'tag_base',
        'show_on_front', 'page_on_front', 'page_for_posts', 'posts_per_page', 'posts_per_rss', 'rss_use_excerpt',
        'date_format', 'time_format', 'timezone_string', 'gmt_offset', 'start_of_week', 'use_smilies',
        'default_comment_status', 'comment_registration', 'require_name_email', 'close_comments_for_old_posts',
        'close_comments_days_old', 'thread_comments', 'thread_comments_depth', 'page_comments', 'comments_per_page',
        'default_comments_page', 'comment_order', 'show_comments_cookies_opt_in', 'show_avatars', 'avatar_default',
        'avatar_rating', 'wp_page_for_privacy_policy', 'active_plugins', 'users_can_register',
    ];

    public static function option($name): void
    {
        if ($name === 'cron' || strncmp($name, '_transient', 10) === 0 || strncmp($name, '_site_transient', 15) === 0) {
            return;
        }
        if ($name === 'sticky_posts') {
            Changes::soft('home', 'front', 'feed', 'list-post', 'list-any');
        } elseif ($name === 'sidebars_widgets' || strncmp($name, 'widget_', 7) === 0) {
            Changes::soft('widgets');
        } elseif (in_array($name, self::SHOWN, true) || strncmp($name, 'theme_mods_', 11) === 0
            || ($GLOBALS['pagenow'] ?? '') === 'options.php') {
            // options.php: somebody has saved a page of settings, of WordPress or of any plugin.
            Changes::all();
        }
    }

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
            Page::refuse();
        }
    }
}
