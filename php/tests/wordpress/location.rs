//! Pages that depend on the visitor's address. A plugin runs the filters as WooCommerce does: for the default location when
//! WordPress starts, and for prices, taxes and the customer's address where a page shows them.

use millrace_wire::frames::NoteKind;

use crate::site::{Page, Site};

const PLUGIN: &str = r#"
    class WC_Geolocation {
        public static function geolocate_ip($address = '') {
            $country = apply_filters('woocommerce_geolocate_ip', false, $address, true, false);
            if ($country !== false) return ['country' => $country];
            $named = $address === '' ? $_SERVER['HTTP_CF_IPCOUNTRY'] ?? $_SERVER['HTTP_X_COUNTRY_CODE'] ?? $_SERVER['GEOIP_COUNTRY_CODE'] ?? '' : '';
            $address = $address ?: $_SERVER['HTTP_X_FORWARDED_FOR'] ?? $_SERVER['REMOTE_ADDR'];
            $known = ['192.0.2.7' => 'CH', '192.0.2.8' => 'FR'];
            $place = ['country' => strtoupper($named) ?: $known[$address] ?? '', 'state' => isset($_GET['state']) ? 'ZH' : '', 'city' => '', 'postcode' => ''];
            $place = apply_filters('woocommerce_get_geolocation', $place, $address);
            // As in a local network: by the address that the machine has outside.
            return $place['country'] === '' && $address !== '192.0.2.8' ? self::geolocate_ip('192.0.2.8') : $place;
        }
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
    let refused = page.control.starts_with("no-store");
    assert_eq!(refused, page.tags.is_empty(), "{uri}: {page:?}");
    !refused
}

/// What is said of a page to a visitor with this address and these variables: to the cache, and about the visitor.
fn said(site: &mut Site, uri: &str, address: &str, variables: &[(&str, &str)]) -> (String, Vec<String>) {
    let mut ask = site.ask_page(uri).set("REMOTE_ADDR", address);
    for (name, value) in variables {
        ask = ask.set(name, value);
    }
    let answer = site.worker.run(&ask);
    let places =
        answer.notes.iter().filter(|(kind, text)| *kind == NoteKind::Visitor && text.starts_with("place"));
    let places = places.map(|(_, text)| text.clone()).collect();
    (Page::of(&answer).control, places)
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn with_plain_geolocation_pages_with_prices_are_kept_by_country() {
    let mut site = start("geolocation");
    let uris = SHOWING.map(|name| format!("/{name}/"));
    for uri in uris.iter().map(String::as_str).chain(["/shop/", "/product/shirt/"]) {
        for (address, country) in [("192.0.2.7", "CH"), ("192.0.2.8", "FR")] {
            let (control, places) = said(&mut site, uri, address, &[]);
            assert_eq!(control, format!("public, max-age=86400, country={country}"), "{uri}");
            assert_eq!(places, [format!("place country={country}")], "{uri}");
        }
    }
    // By a field: the server knows whether that counts.
    let field = [("HTTP_CF_IPCOUNTRY", "at")];
    assert_eq!(
        said(&mut site, "/price/", "192.0.2.7", &field),
        ("public, max-age=86400, country=AT".into(), vec![])
    );
    for (address, variables, uri) in [
        // An address without a country: WooCommerce takes that of another one.
        ("10.0.0.1", &[][..], "/price/"),
        // Looked up is what a client claims.
        ("10.0.0.1", &[("HTTP_X_FORWARDED_FOR", "192.0.2.7")][..], "/price/"),
        ("192.0.2.8", &[("HTTP_X_FORWARDED_FOR", "192.0.2.7")][..], "/price/"),
        ("192.0.2.7", &[("GEOIP_COUNTRY_CODE", "AT")][..], "/price/"),
        ("192.0.2.7", &[("HTTP_X_COUNTRY_CODE", "Austria")][..], "/price/"),
        ("192.0.2.7", &[][..], "/price/?state=1"),
        ("192.0.2.7", &[("HTTP_USER_AGENT", "a bot")][..], "/price/"),
    ] {
        let found = said(&mut site, uri, address, variables);
        assert_eq!(found, ("no-store, country".into(), vec![]), "{address} {variables:?} {uri}");
    }
    // The address that tests have otherwise is in no country.
    for uri in ["/shop/", "/product/shirt/"] {
        assert!(!is_kept(&mut site, uri), "{uri} is the shop's");
    }
    for uri in ["/a/", "/about/", "/", "/category/news/"] {
        assert!(is_kept(&mut site, uri), "{uri} shows nothing of the shop");
    }
    // A crawler sees the shop's own country, and its address is not looked up.
    let crawler = site.ask_page("/price/").set("HTTP_USER_AGENT", "a bot");
    assert_eq!(Page::of(&site.worker.run(&crawler)).control, "no-store, country");
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
