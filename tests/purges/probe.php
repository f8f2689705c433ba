<?php
/** A must-use plugin of tests/purges: runs the test's code as an administrator, as a visitor, or in cron; and pieces of a shop. */

defined('ABSPATH') || exit;
// A page that was made again has another mark.
$mark = fn () => print '<!-- made ' . uniqid() . ' -->';
add_action('wp_footer', $mark);
add_action('rss2_head', $mark);
add_filter('wp_is_application_passwords_available', '__return_true');
// What a page reads beside its queries: before `init`, by number, path, field and SQL; a plugin's own table.
$read = strtok($_SERVER['REQUEST_URI'] ?? '', '?');
if ($read === '/post-7/') {
    $posts = get_posts(['name' => 'post-8', 'numberposts' => 1]);
    add_action('wp_footer', fn () => print 'EARLY ' . ($posts[0]->post_content ?? ''));
}
add_action('wp_footer', function () use ($read) {
    global $wpdb;
    $number = (int) get_option('test_number');
    switch ($number ? $read : '') {
        case '/post-10/':
            echo 'BY NUMBER ', get_post($number)->post_content;
            break;
        case '/post-11/':
            echo 'BY FIELD ', get_post_meta($number, 'shade', true);
            break;
        case '/post-12/':
            echo 'BY PATH ', get_page_by_path('contact')->post_content;
            break;
        case '/product/thing-2/':
            echo 'BY SQL ', $wpdb->get_var("SELECT post_excerpt FROM $wpdb->posts WHERE ID = $number");
            break;
        case '/author/leaver/':
            echo 'USER ', get_user_by('login', 'writer')->user_url, ' TERM ', get_term_meta((int) get_option('test_term'), 'hue', true);
            break;
        case '/post-8/':
            echo 'SLIDES ', $wpdb->get_var('SELECT text FROM wp_test_slides');
    }
});
add_action('init', function () {
    register_post_type('test_form', ['public' => false, 'show_ui' => true, 'label' => 'Forms']);
    register_post_type('shop_coupon', ['public' => false, 'show_ui' => true, 'label' => 'Coupons']);
    register_post_type('shop_order', ['public' => false, 'show_ui' => true, 'label' => 'Orders']);
    register_post_type('product_variation', ['public' => false, 'hierarchical' => false]);
    foreach (['wc-processing', 'wc-completed'] as $status) {
        register_post_status($status, ['public' => false]);
    }
    $file = WP_CONTENT_DIR . '/cron-code.txt';
    if (wp_doing_cron() && is_file($file)) {
        $code = file_get_contents($file);
        eval($code);
        add_action('shutdown', fn () => unlink($file), PHP_INT_MAX);
    }
}, 20);
add_action('wp_loaded', function () {
    $code = $_POST['code'] ?? null;
    if (!is_string($code)) {
        return;
    }
    if (($_POST['as'] ?? '') === 'admin') {
        wp_set_current_user(1);
        require_once ABSPATH . 'wp-admin/includes/admin.php';
    }
    eval(wp_unslash($code));
    echo "\ndone";
    exit;
});

/** What the hooks of WooCommerce are called with. */
final class Test_Product
{
    public function __construct(private int $id)
    {
    }

    public function get_id(): int
    {
        return $this->id;
    }

    public function get_parent_id(): int
    {
        return (int) wp_get_post_parent_id($this->id);
    }

    public function managing_stock(): bool
    {
        return get_post_meta($this->id, '_manage_stock', true) === 'yes';
    }

    public function get_product(): self
    {
        return $this;
    }
}

function test_post(string $name, string $type = 'post'): int
{
    return get_page_by_path($name, OBJECT, $type)->ID;
}

/** The menu's first item. */
function test_menu_item(): int
{
    return wp_get_nav_menu_items('main')[0]->ID;
}

/** Which menu is where, as the page for menus and the Customizer store it. */
function test_menu_places(array $places): void
{
    set_theme_mod('nav_menu_locations', $places);
}

/** A new menu in its place, with one item. */
function test_menu(string $item): void
{
    $menu = wp_create_nav_menu('main');
    wp_update_nav_menu_item($menu, 0, ['menu-item-title' => $item, 'menu-item-url' => home_url('/x'), 'menu-item-status' => 'publish']);
    test_menu_places(['main' => $menu]);
}

/** As WooCommerce stores a product: fields, then its own hooks. */
function test_set(string $name, array $fields, array $properties): void
{
    $id = test_post($name, 'product');
    foreach ($fields as $key => $value) {
        update_post_meta($id, $key, $value);
    }
    do_action('woocommerce_product_object_updated_props', new Test_Product($id), $properties);
    do_action('woocommerce_update_product', $id, new Test_Product($id));
}

/** As WooCommerce reduces stock for an order: only where it is managed. */
function test_order(string $name, int $count = 1): void
{
    $id = test_post($name, 'product');
    $product = new Test_Product($id);
    $order = new class ($product) {
        public function __construct(private $product)
        {
        }

        public function get_items(): array
        {
            return [$this->product];
        }
    };
    global $wpdb;
    $wpdb->query($wpdb->prepare("UPDATE $wpdb->postmeta SET meta_value = meta_value + %d WHERE post_id = %d AND meta_key = 'total_sales'", $count, $id));
    if (apply_filters('woocommerce_can_reduce_order_stock', true, $order)) {
        if ($product->managing_stock()) {
            $left = (int) get_post_meta($id, '_stock', true) - $count;
            $wpdb->query($wpdb->prepare("UPDATE $wpdb->postmeta SET meta_value = %d WHERE post_id = %d AND meta_key = '_stock'", $left, $id));
            wp_cache_delete($id, 'post_meta');
            do_action('woocommerce_product_set_stock', $product);
            do_action('woocommerce_update_product', $id, $product);
        }
        do_action('woocommerce_reduce_order_stock', $order);
    }
}
