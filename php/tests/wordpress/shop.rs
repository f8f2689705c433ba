//! A shop: a plugin that calls the hooks of WooCommerce as it does, with the objects that it gives them.

use crate::site::Site;

const PLUGIN: &str = r#"
    class TestProduct {
        public function __construct(public int $id, public int $parent = 0) {}
        public function get_id() { return $this->id; }
        public function get_parent_id() { return $this->parent; }
    }
    class TestItem { public function __construct(public $product) {} public function get_product() { return $this->product; } }
    class TestOrder { public function __construct(public array $items) {} public function get_items() { return $this->items; } }
    function product(string $name, string $type = 'product') { $p = get_posts(['name' => $name, 'post_type' => $type])[0]; return new TestProduct($p->ID, $p->post_parent); }
    add_action('init', function () {
        register_post_type('product', ['public' => true, 'has_archive' => 'shop', 'supports' => ['title', 'editor', 'comments']]);
        register_post_type('product_variation', ['public' => false]);
        register_taxonomy('product_cat', 'product', ['public' => true, 'hierarchical' => true]);
        register_taxonomy('product_visibility', 'product', ['public' => false]);
    });
"#;

fn start() -> Site {
    let mut site = Site::start(PLUGIN);
    site.change(
        "foreach (['shirt', 'shoe'] as $name) {
             $cat = wp_insert_term(ucfirst($name) . 's', 'product_cat', ['slug' => \"{$name}s\"])['term_id'];
             $id = wp_insert_post(['post_type' => 'product', 'post_name' => $name, 'post_title' => $name, 'post_status' => 'publish', 'tax_input' => ['product_cat' => [$cat]]]);
             wp_insert_post(['post_type' => 'product_variation', 'post_name' => \"$name-red\", 'post_title' => 'red', 'post_parent' => $id, 'post_status' => 'publish']);
         }
         flush_rewrite_rules();",
    );
    site
}

const SHOP: [&str; 5] =
    ["/shop/", "/product/shirt/", "/product/shoe/", "/product_cat/shirts/", "/product_cat/shoes/"];

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn products() {
    let mut site = start();
    let kept = site.pages(&SHOP);
    for uri in SHOP {
        assert_eq!(kept.page(uri).status, 200, "{uri}");
    }
    // Where the shirt is shown.
    let shirt = ["/shop/", "/product/shirt/", "/product_cat/shirts/"];
    let unrelated = ["/product/shoe/", "/product_cat/shoes/", "/a/", "/", "/about/"];
    let hard = [
        "do_action('woocommerce_product_set_stock', product('shirt'))",
        "do_action('woocommerce_variation_set_stock', product('shirt-red', 'product_variation'))",
        "do_action('woocommerce_product_object_updated_props', product('shirt'), ['price', 'regular_price'])",
        "do_action('woocommerce_product_object_updated_props', product('shirt-red', 'product_variation'), ['sale_price'])",
        "do_action('woocommerce_reduce_order_stock', new TestOrder([new TestItem(product('shirt')), new TestItem(false)]))",
        "do_action('woocommerce_restore_order_stock', new TestOrder([new TestItem(product('shirt'))]))",
        "do_action('woocommerce_order_status_cancelled', 7, new TestOrder([new TestItem(product('shirt'))]))",
        "do_action('woocommerce_product_set_stock_status', product('shirt')->id, 'outofstock', product('shirt'))",
        "do_action('woocommerce_variation_set_stock_status', product('shirt-red', 'product_variation')->id, 'outofstock', null)",
        "do_action('wc_after_products_starting_sales', [product('shirt')->id])",
        "do_action('wc_after_products_ending_sales', [product('shirt')->id])",
    ];
    for code in hard {
        // A visitor buys, or cron runs.
        let purges = site.anonymous(code);
        kept.assert_gone(code, &purges, &shirt);
        kept.assert_some(code, &purges, &[], &unrelated);
    }
    let soft = [
        "do_action('woocommerce_update_product', product('shirt')->id, product('shirt'))",
        "do_action('woocommerce_update_product_variation', product('shirt-red', 'product_variation')->id, null)",
        "do_action('woocommerce_product_object_updated_props', product('shirt'), ['featured'])",
        "wp_update_post(['ID' => product('shirt')->id, 'post_content' => 'x'])",
    ];
    for code in soft {
        let purges = site.change(code);
        kept.assert_some(code, &purges, &shirt, &unrelated);
        assert!(purges.hard.is_empty(), "{code}: {purges:?}");
    }
    let review = "wp_insert_comment(['comment_post_ID' => product('shirt')->id, 'comment_type' => 'review', 'comment_approved' => 1])";
    let purges = site.anonymous(review);
    kept.assert_some("the stars of a review", &purges, &shirt, &unrelated);
    let purges =
        site.change("wp_set_object_terms(product('shirt')->id, ['outofstock'], 'product_visibility')");
    kept.assert_some("visibility", &purges, &["/shop/", "/product/shirt/"], &["/product/shoe/", "/a/"]);
    assert!(site.change("do_action('woocommerce_settings_saved')").all());
    let purges = site.anonymous(
        "do_action('woocommerce_product_object_updated_props', product('shirt'), ['total_sales'])",
    );
    assert!(purges.nothing(), "nobody sees it: {purges:?}");
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn sales_that_are_due_bound_the_lifetime() {
    let mut site = start();
    std::fs::write(site.root.join("wp-content/mu-plugins/wc.php"), "<?php function WC() {}").unwrap();
    site.change("wp_schedule_event(time() + 1200, 'daily', 'woocommerce_scheduled_sales')");
    let seconds = site.page("/product/shirt/").seconds().unwrap();
    assert!((1100..=1200).contains(&seconds), "{seconds}");
}
