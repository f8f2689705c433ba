//! Pages that depend on the visitor's address. A plugin runs the filters as WooCommerce does: for the default location when
//! WordPress starts, and for prices, taxes and the customer's address where a page shows them.

use crate::site::Site;

const PLUGIN: &str = r#"
    class WC_Geolocation {
        public static function geolocate_ip() { apply_filters('woocommerce_geolocate_ip', false, '', true, false); return ['country' => 'CH']; }
    }
    function WC() {}
    function default_location() {
        $location = apply_filters('woocommerce_customer_default_location', 'US');
        $known = in_array(get_option('woocommerce_default_customer_address'), ['geolocation', 'geolocation_ajax'], true);
        // It doesn't look up the address of crawlers.
        if ($known && !stristr($_SERVER['HTTP_USER_AGENT'] ?? '', 'bot')) $location = WC_Geolocation::geolocate_ip()['country'];
        return apply_filters('woocommerce_customer_default_location_array', ['country' => $location, 'state' => '']);
    }
    add_action('init', fn () => apply_filters('woocommerce_customer_get_billing_country', default_location()['country']), 0);
    add_action('template_redirect', function () {
        if (get_option('woocommerce_default_customer_address') === 'geolocation_ajax' && ($_GET['v'] ?? '') !== 'hash' && !isset($_GET['stay'])) {
            wp_safe_redirect(add_query_arg('v', 'hash'), 307);
            exit;
        }
    });
    add_action('init', fn () => register_post_type('product', ['public' => true, 'has_archive' => 'shop']));
    function is_woocommerce() { return is_post_type_archive('product') || is_singular('product'); }
    foreach (['price' => 'woocommerce_get_price_html', 'variation' => 'woocommerce_variation_prices', 'tax' => 'woocommerce_get_tax_location',
        'shipping' => 'woocommerce_customer_get_shipping_country', 'read' => 'woocommerce_product_get_price'] as $shows => $hook)
        add_shortcode($shows, fn () => apply_filters($hook, 'of the place'));
    add_shortcode('asks', fn () => WC_Geolocation::geolocate_ip()['country']);
    if (isset($_GET['early'])) WC_Geolocation::geolocate_ip();
    if (isset($_GET['filtered'])) add_filter('woocommerce_customer_default_location_array', fn () => WC_Geolocation::geolocate_ip());
"#;

const SHOWING: [&str; 5] = ["price", "variation", "tax", "shipping", "read"];

fn start(mode: &str) -> Site {
    let mut site = Site::start(PLUGIN);
    site.change(&format!(
        "foreach (['price', 'variation', 'tax', 'shipping', 'read', 'asks'] as $name)
             wp_insert_post(['post_type' => 'page', 'post_name' => $name, 'post_title' => $name, 'post_content' => \"[$name]\", 'post_status' => 'publish']);
         wp_insert_post(['post_type' => 'product', 'post_name' => 'shirt', 'post_title' => 'shirt', 'post_status' => 'publish']);
         update_option('woocommerce_default_customer_address', '{mode}'); flush_rewrite_rules();"
    ));
    site
}

fn is_kept(site: &mut Site, uri: &str) -> bool {
    let page = site.page(uri);
    assert_eq!(page.status, 200, "{uri}: {page:?}");
    assert_eq!(page.control == "no-store", page.tags.is_empty(), "{uri}: {page:?}");
    page.control != "no-store"
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn with_plain_geolocation_pages_with_prices_are_not_kept() {
    let mut site = start("geolocation");
    for name in SHOWING {
        assert!(!is_kept(&mut site, &format!("/{name}/")), "{name}");
    }
    for uri in ["/shop/", "/product/shirt/"] {
        assert!(!is_kept(&mut site, uri), "{uri} is the shop's");
    }
    for uri in ["/a/", "/about/", "/", "/category/news/"] {
        assert!(is_kept(&mut site, uri), "{uri} shows nothing of the shop");
    }
    // A crawler sees the shop's own country, and its address is not looked up.
    let crawler = site.ask_page("/price/").set("HTTP_USER_AGENT", "a bot");
    assert_eq!(crate::site::Page::of(&site.worker.run(&crawler)).control, "no-store");
    // A post that shows prices, by REST.
    assert!(is_kept(&mut site, "/index.php?rest_route=/wp/v2/posts"));
    assert!(!is_kept(&mut site, "/index.php?rest_route=/wp/v2/pages&per_page=50"));
    // Switching it on or off purges all that was kept.
    assert!(site.change("update_option('woocommerce_default_customer_address', 'base')").gone());
    assert!(is_kept(&mut site, "/price/"));
    assert!(site.change("update_option('woocommerce_default_customer_address', 'geolocation')").gone());
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn with_page_caching_support_each_place_has_its_url() {
    let mut site = start("geolocation_ajax");
    let page = site.page("/price/");
    assert_eq!((page.status, &page.control[..]), (307, "no-store"));
    assert!(is_kept(&mut site, "/price/?v=hash"));
    assert!(is_kept(&mut site, "/a/?v=hash"));
    assert_eq!(site.page("/price/?v=forged").status, 307);
    // A plugin has taken the redirect away.
    assert!(!is_kept(&mut site, "/price/?stay=1"));
    assert!(is_kept(&mut site, "/a/?stay=1"));
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn without_geolocation_all_is_as_ever_unless_a_plugin_asks() {
    for mode in ["base", ""] {
        let mut site = start(mode);
        for name in SHOWING {
            assert!(is_kept(&mut site, &format!("/{name}/")), "{name}");
        }
        assert!(is_kept(&mut site, "/shop/"));
        for uri in ["/asks/", "/a/?early=1", "/a/?filtered=1"] {
            assert!(!is_kept(&mut site, uri), "{uri}");
        }
    }
    let mut site = start("geolocation");
    for uri in ["/asks/", "/a/?early=1"] {
        assert!(!is_kept(&mut site, uri), "{uri}");
    }
}
