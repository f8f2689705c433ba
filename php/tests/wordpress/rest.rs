//! Answers of the REST API: which are kept, and what they show. `tests/anonymous/run` has the same with a server.

use crate::site::{Page, Site};

/// A part of WooCommerce's Store API, and a plugin's route whose answers are for one visitor.
const PLUGIN: &str = r#"
    class WC_Session_Handler { public function has_session() { return isset($_COOKIE['session']); } }
    function WC() { static $only; return $only ??= (object) ['session' => new WC_Session_Handler()]; }
    function wc_attribute_taxonomy_name_by_id($id) { return "pa_$id"; }
    add_action('rest_api_init', function () {
        $add = fn ($space, $path, $data, $headers = []) => register_rest_route($space, $path, ['methods' => 'GET, POST', 'permission_callback' => '__return_true',
            'callback' => function () use ($data, $headers) {
                $answer = new WP_REST_Response(is_callable($data) ? $data() : $data, 200, $headers);
                $answer->add_link('post', rest_url('wp/v2/posts/1'), ['embeddable' => true]);
                return $answer;
            }]);
        $add('wc/store/v1', '/products', [['id' => 901, 'parent' => 902, 'images' => [(object) ['id' => 903]], 'categories' => [(object) ['id' => 904]],
            'variations' => [['id' => 905]], 'prices' => (object) ['price' => '906'], 'name' => '907']]);
        $add('wc/store/v1', '/products/categories', [['id' => 908, 'count' => 3]]);
        $add('wc/store/v1', '/products/attributes/7/terms', [['id' => 909]]);
        $add('wc/store/v1', '/products/collection-data', ['price_range' => null]);
        $add('wc/store/v1', '/cart', fn () => ['items' => isset($_GET['full']) ? [1] : [], 'extensions' => (object) ['points' => isset($_SERVER['HTTP_X_POINTS']) ? [7] : []]],
            ['Cart-Token' => 'secret', 'Cache-Control' => 'no-store', 'User-ID' => 0]);
        $add('mine/v1', '/all', ['a' => 1]);
    });
"#;

fn start() -> Site {
    let mut site = Site::start(PLUGIN);
    site.change("flush_rewrite_rules()");
    site
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn what_they_show() {
    let mut site = start();
    for (uri, some, not) in [
        (
            "/wp-json/wc/store/v1/products",
            &["rest", "post-901", "post-902", "post-903", "termlink-904", "post-905"][..],
            &["post-906", "post-907", "any-post"][..],
        ),
        ("/wp-json/wc/store/v1/products?_fields=name", &["any-post", "any-termlink"], &["post-901"]),
        ("/wp-json/wc/store/v1/products/categories", &["terms-product_cat", "termlink-908", "comments"], &[]),
        ("/wp-json/wc/store/v1/products/attributes/7/terms", &["terms-pa_7", "termlink-909"], &[]),
        ("/wp-json/wc/store/v1/products/collection-data", &["any-post", "any-termlink", "list-product"], &[]),
        ("/wp-json/wp/v2/categories?include=1", &["termlink-1", "terms-category"], &[]),
        ("/wp-json/wp/v2/posts?_embed=1", &["list-post"], &[]),
    ] {
        let page = site.page(uri);
        assert_eq!((page.status, page.seconds()), (200, Some(600)), "{uri}: {page:?}");
        assert!(some.iter().all(|tag| page.tags.contains(*tag)), "{uri}: {page:?}");
        assert!(!not.iter().any(|tag| page.tags.contains(*tag)), "{uri}: {page:?}");
    }
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn what_is_not_kept() {
    let mut site = start();
    for uri in [
        "/wp-json/mine/v1/all",
        "/wp-json/mine/v1/all?_embed=1",
        "/wp-json/wc/store/v1/products?_method=POST",
        "/wp-json/wc/store/v1/products?_jsonp=x",
        "/wp-json/wc/store/v1/products/none",
        "/wp-json/wc/store/v1/cart",
        "/wp-json/wp/v2/posts?context=edit",
    ] {
        let page = site.page(uri);
        assert_eq!(page.control, "no-store", "{uri}: {page:?}");
    }
    let ask = site.ask_page("/wp-json/wc/store/v1/products").set("HTTP_AUTHORIZATION", "Basic eDp4");
    assert_eq!(Page::of(&site.worker.run(&ask)).control, "no-store");
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn the_empty_cart_without_its_token() {
    let mut site = start();
    let script = [("MILLRACE_SHARED", "1"), ("HTTP_SEC_FETCH_SITE", "same-origin"), ("HTTP_ACCEPT", "*/*")];
    let cart = "/wp-json/wc/store/v1/cart";
    let mut asked = |uri: &str, variables: &[(&str, &str)]| {
        let mut ask = site.ask_page(uri);
        for (name, value) in variables {
            ask = ask.set(name, value);
        }
        let answer = site.worker.run(&ask);
        let has_token = !answer.values("Cart-Token").is_empty();
        assert_eq!(answer.values("Cache-Control"), ["no-store"], "for browsers: {answer:?}");
        (Page::of(&answer).control, has_token)
    };
    // It goes before what the answer says to browsers.
    assert_eq!(asked(cart, &script), ("public, max-age=600".into(), false));
    for left_out in 0..script.len() {
        let others: Vec<_> =
            script.iter().copied().enumerate().filter(|(at, _)| *at != left_out).map(|(_, it)| it).collect();
        assert_eq!(asked(cart, &others), ("no-store".into(), true), "without {:?}", script[left_out]);
    }
    for (uri, more) in [
        ("/wp-json/wc/store/v1/cart?full=1", ("HTTP_X", "")),
        ("/wp-json/wc/store/v1/cart?x=1", ("HTTP_X", "")),
        ("/index.php?rest_route=/wc/store/v1/cart", ("HTTP_X", "")),
        (cart, ("HTTP_COOKIE", "session=1")),
        (cart, ("HTTP_COOKIE", "currency=USD")),
        (cart, ("HTTP_X_POINTS", "1")),
    ] {
        assert_eq!(asked(uri, &[&script[..], &[more]].concat()), ("no-store".into(), true), "{uri} {more:?}");
    }
}
