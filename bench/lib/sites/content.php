<?php
/**
 * php content.php SITE [THEME]: twenty posts with categories, tags and comments, pages, a menu and widgets in a new WordPress. Switches
 * to the theme if one is given.
 */

require __DIR__ . '/load.php';

if (isset($argv[2])) {
    switch_theme($argv[2]);
}
if (!get_page_by_path('post-20', OBJECT, 'post')) {
    posts();
}
menu();
widgets();
delete_option('rewrite_rules');

function posts(): void
{
    $categories = array_map(fn ($name) => wp_insert_term($name, 'category')['term_id'], ['News', 'Mills', 'Rivers', 'Recipes']);
    $sentence = 'The wheel turns as long as the water runs, and the stones grind what the farmers bring from the fields around. ';
    for ($n = 1; $n <= 20; $n++) {
        $content = str_repeat('<!-- wp:paragraph --><p>' . str_repeat($sentence, 3) . '</p><!-- /wp:paragraph -->', 5);
        $id = wp_insert_post(['post_status' => 'publish', 'post_name' => "post-$n", 'post_title' => "Post $n", 'post_content' => $content,
            'post_date' => sprintf('2024-%02d-%02d 12:00:00', 1 + $n % 10, $n), 'post_category' => [$categories[$n % 4]], 'tags_input' => ['corn', 'tag-' . $n % 7]]);
        for ($comment = 0; $comment < $n % 4; $comment++) {
            wp_insert_comment(['comment_post_ID' => $id, 'comment_author' => 'Jane', 'comment_content' => $sentence, 'comment_approved' => 1]);
        }
    }
    foreach (['About', 'Contact', 'Opening hours', 'History'] as $title) {
        wp_insert_post(['post_type' => 'page', 'post_status' => 'publish', 'post_title' => $title, 'post_content' => $sentence]);
    }
}

/** A menu with all pages and categories at every place that the theme has for one. */
function menu(): void
{
    $menu = wp_get_nav_menu_object('Main')->term_id ?? wp_create_nav_menu('Main');
    if (!wp_get_nav_menu_items($menu)) {
        foreach (get_pages() as $page) {
            $item = ['menu-item-type' => 'post_type', 'menu-item-object' => 'page', 'menu-item-object-id' => $page->ID, 'menu-item-status' => 'publish'];
            wp_update_nav_menu_item($menu, 0, $item);
        }
        foreach (get_categories() as $category) {
            $item = ['menu-item-type' => 'taxonomy', 'menu-item-object' => 'category', 'menu-item-object-id' => $category->term_id, 'menu-item-status' => 'publish'];
            wp_update_nav_menu_item($menu, 0, $item);
        }
    }
    // A theme that has just been switched to is not loaded yet, so its places are named here.
    set_theme_mod('nav_menu_locations', ['primary' => $menu, 'footer' => $menu]);
}

function widgets(): void
{
    $widgets = ['search' => [], 'recent-posts' => ['number' => 5, 'show_date' => true],
        'archives' => ['count' => 1], 'categories' => ['count' => 1, 'hierarchical' => 1], 'tag_cloud' => [], 'text' => ['text' => 'Open on Sundays.']];
    $shown = [];
    foreach ($widgets as $kind => $settings) {
        update_option("widget_$kind", [2 => ['title' => ucfirst($kind)] + $settings, '_multiwidget' => 1]);
        $shown[] = "$kind-2";
    }
    update_option('sidebars_widgets', ['wp_inactive_widgets' => [], 'sidebar-1' => $shown, 'array_version' => 3]);
}
