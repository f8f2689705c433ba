<?php
/** php seed.php SITE: what tests/purges changes; prints an application password. */

$_SERVER += ['HTTP_HOST' => 'localhost', 'REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1', 'REMOTE_ADDR' => '127.0.0.1'];
require $argv[1] . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/admin.php';

switch_theme('purges');
wp_update_user(['ID' => 1, 'user_nicename' => 'keeper', 'display_name' => 'Keeper']);
$writer = wp_insert_user(['user_login' => 'writer', 'user_pass' => 'another long pass-phrase', 'user_email' => 'w@localhost.test', 'display_name' => 'Writer', 'role' => 'author']);
$heir = wp_insert_user(['user_login' => 'leaver', 'user_pass' => 'a third long pass-phrase', 'user_email' => 'l@localhost.test', 'display_name' => 'Leaver', 'role' => 'author']);
$stones = wp_create_category('Stones');
$wheels = wp_create_category('Wheels');
for ($n = 1; $n <= 12; $n++) {
    wp_insert_post(['post_name' => "post-$n", 'post_title' => "Title $n", 'post_content' => "Text $n", 'post_excerpt' => "Excerpt $n", 'post_status' => 'publish',
        'post_author' => [1, $writer, $heir][$n % 3], 'post_date' => sprintf('2026-%02d-10 10:00:00', $n % 6 + 1), 'post_category' => [$n % 2 ? $stones : $wheels]]);
}
wp_set_post_tags(get_page_by_path('post-2', OBJECT, 'post')->ID, 'corn');
foreach (['about', 'contact'] as $name) {
    wp_insert_post(['post_type' => 'page', 'post_name' => $name, 'post_title' => ucfirst($name), 'post_content' => "All $name", 'post_status' => 'publish']);
}
foreach (range(1, 60) as $n) {
    $id = get_page_by_path("thing-$n", OBJECT, 'product')->ID;
    update_post_meta($id, '_manage_stock', $n % 2 ? 'yes' : 'no');
    update_post_meta($id, '_stock', 50);
    update_post_meta($id, 'total_sales', 0);
}
$block = wp_insert_post(['post_type' => 'wp_block', 'post_name' => 'reused', 'post_title' => 'Reused', 'post_content' => 'REUSED-ONE', 'post_status' => 'publish']);
wp_update_post(['ID' => get_page_by_path('contact')->ID, 'post_content' => "<!-- wp:block {\"ref\":$block} /-->"]);
$menu = wp_create_nav_menu('main');
wp_update_nav_menu_item($menu, 0, ['menu-item-title' => 'To About', 'menu-item-object' => 'page', 'menu-item-object-id' => get_page_by_path('about')->ID, 'menu-item-type' => 'post_type', 'menu-item-status' => 'publish']);
set_theme_mod('nav_menu_locations', ['main' => $menu]);
update_option('widget_text', [2 => ['title' => 'Widget one', 'text' => 'Text of a widget'], '_multiwidget' => 1]);
wp_set_sidebars_widgets(['side' => ['text-2'], 'wp_inactive_widgets' => []]);
wp_insert_comment(['comment_post_ID' => get_page_by_path('post-3', OBJECT, 'post')->ID, 'comment_content' => 'COMMENT-WAITS', 'comment_approved' => 0, 'comment_author' => 'A']);
update_option('comment_previously_approved', 0);
update_option('comment_moderation', 0);
update_option('posts_per_page', 30);
update_option('test_plugin', 'start');
add_option('test_quiet', 'start', '', 'no');
add_option('test_count_last_run', 'start');
wp_update_post(['ID' => get_page_by_path('post-9', OBJECT, 'post')->ID, 'post_title' => 'Title 9']);
// Read by no query (probe.php).
update_option('test_number', wp_insert_post(['post_type' => 'page', 'post_name' => 'far', 'post_title' => 'Far', 'post_content' => 'FAR-start', 'post_status' => 'publish']));
update_option('test_term', wp_create_category('Far'));
foreach (['slides', 'logs'] as $table) {
    $wpdb->query("CREATE TABLE wp_test_$table (id INT PRIMARY KEY, text VARCHAR(99))");
    $wpdb->insert("wp_test_$table", ['id' => 1, 'text' => 'SLIDE-start']);
}
flush_rewrite_rules();
echo WP_Application_Passwords::create_new_application_password(1, ['name' => 'test'])[0];
