<?php
/** php products.php SITE PLUGINS: the tables, products, options and pages of the heavy site, and its plugins switched on. */

require __DIR__ . '/load.php';

$last = (int) $argv[2];
$wpdb->query("CREATE TABLE {$wpdb->prefix}bench_rules (plugin int NOT NULL, name varchar(40) NOT NULL, value longtext NOT NULL, priority int NOT NULL, PRIMARY KEY (plugin, name))");
$wpdb->query("CREATE TABLE {$wpdb->prefix}bench_stock (product bigint unsigned NOT NULL, quantity int NOT NULL, reserved int NOT NULL, PRIMARY KEY (product))");
$wpdb->query("CREATE TABLE {$wpdb->prefix}bench_carts (name varchar(40) NOT NULL, value longtext NOT NULL, PRIMARY KEY (name))");
for ($plugin = 1; $plugin <= $last; $plugin++) {
    update_option("bench_{$plugin}_settings", ['limit' => $plugin, 'text' => str_repeat('setting ', 20)]);
    add_option("bench_{$plugin}_version", '1.0', '', false);
    set_transient("bench_{$plugin}_rules", ['none' => str_repeat('rule ', 50)], DAY_IN_SECONDS);
    for ($rule = 1; $rule <= 10; $rule++) {
        $wpdb->insert("{$wpdb->prefix}bench_rules", ['plugin' => $plugin, 'name' => "rule-$rule", 'value' => str_repeat("value $rule ", 8), 'priority' => $rule * 7 % 10]);
    }
}

require WP_PLUGIN_DIR . '/bench-catalogue/bench-catalogue.php';
do_action('init');
$kinds = [];
foreach (['Wheels' => 'brown', 'Stones' => 'grey', 'Sluices' => 'blue', 'Sacks' => 'white', 'Flour' => 'yellow'] as $name => $color) {
    $kinds[] = $term = wp_insert_term($name, 'product_cat')['term_id'];
    add_term_meta($term, 'color', $color);
}
$text = str_repeat('<!-- wp:paragraph --><p>A thing for a mill, well made, that lasts as long as the water runs and the corn grows.</p><!-- /wp:paragraph -->', 4);
for ($n = 1; $n <= 60; $n++) {
    $meta = ['_price' => 100 * (1 + $n * 7 % 60), '_color' => ['red', 'green', 'blue'][$n % 3], '_sku' => "mill-$n", '_stock_status' => 'instock', '_weight' => $n];
    // Each at another time: no page may depend on how the database sorts equals.
    $date = sprintf('2024-05-%02d 12:%02d:00', 1 + $n % 28, $n - 1);
    $id = wp_insert_post(['post_type' => 'product', 'post_date' => $date, 'post_status' => 'publish', 'post_name' => "thing-$n", 'post_title' => "Thing $n", 'post_content' => $text, 'meta_input' => $meta]);
    wp_set_object_terms($id, $kinds[$n % 5], 'product_cat');
    wp_set_object_terms($id, [['corn', 'stone', 'water'][$n % 3]], 'product_tag');
    $wpdb->insert("{$wpdb->prefix}bench_stock", ['product' => $id, 'quantity' => 100 + $n, 'reserved' => $n % 5]);
}
$content = '<!-- wp:shortcode -->[bench_products]<!-- /wp:shortcode -->';
wp_insert_post(['post_type' => 'page', 'post_status' => 'publish', 'post_name' => 'shop', 'post_title' => 'Shop', 'post_content' => $content]);
update_option('active_plugins', array_merge(['bench-catalogue/bench-catalogue.php'], array_map(fn ($n) => "bench-$n/bench-$n.php", range(1, $last))));
delete_option('rewrite_rules');
