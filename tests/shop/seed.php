<?php
/** php seed.php SITE: products, categories, pages and tables of the shop (woocommerce.php) in a new WordPress; prints product numbers as JSON. */

$_SERVER += ['HTTP_HOST' => 'localhost', 'REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1', 'REMOTE_ADDR' => '127.0.0.1'];
require $argv[1] . '/wp-load.php';

$wpdb->query("CREATE TABLE {$wpdb->prefix}woocommerce_sessions (session_id bigint unsigned NOT NULL AUTO_INCREMENT, session_key char(32) NOT NULL, session_value longtext NOT NULL, session_expiry bigint unsigned NOT NULL, PRIMARY KEY (session_id), UNIQUE KEY session_key (session_key))");
$wpdb->query("CREATE TABLE {$wpdb->prefix}woocommerce_tax_rate_locations (location_id bigint unsigned NOT NULL AUTO_INCREMENT, location_code varchar(200) NOT NULL, tax_rate_id bigint unsigned NOT NULL, location_type varchar(40) NOT NULL, PRIMARY KEY (location_id))");
$wpdb->query("CREATE TABLE {$wpdb->prefix}woocommerce_tax_rates (tax_rate_id bigint unsigned NOT NULL AUTO_INCREMENT, tax_rate_country varchar(2) NOT NULL DEFAULT '', tax_rate_state varchar(200) NOT NULL DEFAULT '', tax_rate varchar(8) NOT NULL DEFAULT '', PRIMARY KEY (tax_rate_id))");
$wpdb->query("CREATE TABLE {$wpdb->prefix}test_orders (id bigint unsigned NOT NULL AUTO_INCREMENT, session char(32) NOT NULL, email varchar(100) NOT NULL, items text NOT NULL, total bigint NOT NULL, PRIMARY KEY (id))");
foreach (['shop' => '[test_products]', 'cart' => '[test_cart]', 'checkout' => '[test_checkout]'] as $name => $content) {
    wp_insert_post(['post_type' => 'page', 'post_status' => 'publish', 'post_name' => $name, 'post_title' => ucfirst($name), 'post_content' => "<!-- wp:shortcode -->$content<!-- /wp:shortcode -->"]);
}
$kinds = array_map(fn ($name) => wp_insert_term($name, 'product_cat')['term_id'], ['Wheels', 'Stones', 'Sluices', 'Sacks']);
$colors = ['red', 'green', 'blue', 'grey', 'white'];
$text = str_repeat('<!-- wp:paragraph --><p>A thing for a mill, well made, that lasts as long as the water runs and the corn grows.</p><!-- /wp:paragraph -->', 4);
$made = [];
// No two are of the same second: MariaDB may list those in any order.
$now = time();
for ($n = 1; $n <= 60; $n += 1) {
    $meta = ['_price' => 100 * (1 + $n * 7 % 60), '_color' => $colors[$n % 5], '_sku' => "mill-$n", '_stock_status' => 'instock'];
    $id = wp_insert_post(['post_type' => 'product', 'post_status' => 'publish', 'post_name' => "thing-$n", 'post_title' => "Thing $n", 'post_content' => $text, 'meta_input' => $meta, 'post_date' => gmdate('Y-m-d H:i:s', $now - 60 * $n)]);
    wp_set_object_terms($id, $kinds[$n % 4], 'product_cat');
    $made["thing-$n"] = $id;
}
flush_rewrite_rules();
echo json_encode($made);
