//! Options: the next visitor sees a change, whatever path it took; bookkeeping does not empty the cache.

use crate::driver::Ask;
use crate::site::{Purges, Site};

/// A REST route that changes an option for a token, as WooCommerce's API keys and app do; and options that every page view
/// writes.
const PLUGIN: &str = r#"
    add_filter('determine_current_user', fn ($user) => ($_SERVER['HTTP_AUTHORIZATION'] ?? '') === 'Bearer of-the-app' ? 1 : $user, 99);
    add_action('rest_api_init', fn () => register_rest_route('shop/v1', '/setting', ['methods' => 'PUT, POST', 'permission_callback' => '__return_true',
        'callback' => fn ($request) => update_option($request['name'], $request['value'])]));
    add_action('scheduled_setting', fn ($name) => update_option($name, 'by cron ' . microtime(), true));
    if (isset($_GET['view'])) add_action('wp_footer', function () {
        update_option('visitors', (int) get_option('visitors') + 1);
        update_option('last_visitor', $_GET['view']);
        update_option('greeting', 'You are number ' . microtime());
        update_option('visit_' . $_GET['view'], 'of ' . microtime());
    });
"#;

/// They purge hard.
const TRADE: [&str; 12] = [
    "woocommerce_coming_soon",
    "woocommerce_store_pages_only",
    "woocommerce_currency",
    "woocommerce_price_num_decimals",
    "woocommerce_price_display_suffix",
    "woocommerce_demo_store",
    "woocommerce_demo_store_notice",
    "woocommerce_tax_display_shop",
    "woocommerce_default_customer_address",
    "woocommerce_flat_rate_3_settings",
    "woocommerce_hide_out_of_stock_items",
    "woocommerce_calc_taxes",
];

/// They purge softly.
const SETTINGS: [&str; 6] = [
    "some_plugin_settings",
    "woocommerce_enable_myaccount_registration",
    "woocommerce_some_new_thing",
    "blogname",
    "posts_per_page",
    "theme_mods_twentytwentyfour",
];

const NOISE: [&str; 11] = [
    "category_children",
    "wc_pending_batch_processes",
    "some_plugin_lock",
    "_transient_x",
    "_site_transient_x",
    "_wc_session_17",
    "rewrite_rules",
    "woocommerce_admin_notices",
    "woocommerce_queue_flush_rewrite_rules",
    "action_scheduler_lock_async-request-runner",
    "woocommerce_task_list_tracked_completed_tasks",
];

impl Site {
    fn rest(&self, name: &str, value: &str) -> Ask {
        self.ask_page(&format!("/index.php?rest_route=/shop/v1/setting&name={name}&value={value}"))
            .set("HTTP_AUTHORIZATION", "Bearer of-the-app")
    }

    /// Changes an option on each path; returns what that purged.
    fn ways(&mut self, name: &str) -> Vec<(&'static str, Purges)> {
        let value = |way: &str| format!("['{way}' => '{name}']");
        let mut ways = vec![
            ("wp-admin", self.change(&format!("update_option('{name}', {})", value("admin")))),
            ("deleted", self.change(&format!("delete_option('{name}')"))),
            ("added", self.change(&format!("add_option('{name}', {})", value("added")))),
            ("added without autoload", {
                self.change(&format!("delete_option('{name}')"));
                self.change(&format!("add_option('{name}', 'x', '', false)"))
            }),
        ];
        for method in ["PUT", "POST"] {
            let ask = self.rest(name, method).set("REQUEST_METHOD", method);
            let answer = self.worker.run(&ask);
            assert_eq!(answer.text(), "true", "{name} by {method}: {answer:?}");
            ways.push((if method == "PUT" { "REST" } else { "the app" }, Purges::of(&answer)));
        }
        // A link of a plugin's settings page.
        let link = format!(
            "$_SERVER['REQUEST_METHOD'] = 'GET'; $_GET['_wpnonce'] = 'x'; update_option('{name}', 'link')"
        );
        ways.push(("a link with a nonce", self.change(&link)));
        ways
    }
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn settings_purge_by_whatever_way_they_change() {
    let mut site = Site::start(PLUGIN);
    for name in TRADE {
        for (way, purges) in site.ways(name) {
            assert!(purges.gone(), "{name}, {way}: {purges:?}");
        }
        // No user is logged in: a web hook, a plugin with its own token.
        let purges = site.anonymous(&format!("update_option('{name}', 'hook')"));
        assert!(purges.gone(), "{name}, without a user: {purges:?}");
        let purges = site.anonymous(&format!("define('DOING_CRON', true); update_option('{name}', 'cron')"));
        assert!(purges.gone(), "{name}, by cron: {purges:?}");
    }
    for name in SETTINGS {
        for (way, purges) in site.ways(name) {
            assert!(purges.all() && !purges.gone(), "{name}, {way}: {purges:?}");
        }
    }
    for name in ["seedprod_coming_soon_page", "elementor_maintenance_mode_mode", "wpcom_public_coming_soon"] {
        let purges = site.change(&format!("update_option('{name}', 'yes')"));
        assert!(purges.gone(), "{name}: {purges:?}");
    }
    for name in NOISE {
        for (way, purges) in site.ways(name) {
            assert!(purges.nothing(), "{name}, {way}: {purges:?}");
        }
    }
    let purges = site.change("update_option('blogname', get_option('blogname'))");
    assert!(purges.nothing(), "it is as before: {purges:?}");
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn tables_of_the_shop_purge() {
    let mut site = Site::start("");
    for code in [
        "do_action('woocommerce_tax_rate_added', 1, [])",
        "do_action('woocommerce_tax_rate_updated', 1, [])",
        "do_action('woocommerce_tax_rate_deleted', 1)",
        "do_action('woocommerce_after_shipping_zone_object_save', null, null)",
        "do_action('woocommerce_delete_shipping_zone', 1)",
        "do_action('woocommerce_shipping_zone_method_added', 3, 'flat_rate', 1)",
        "do_action('woocommerce_shipping_zone_method_deleted', 3, 'flat_rate', 1)",
        "do_action('woocommerce_shipping_zone_method_status_toggled', 3, 'flat_rate', 1, 0)",
    ] {
        let purges = site.anonymous(code);
        assert!(purges.gone(), "{code}: {purges:?}");
    }
}

/// A visitor's request or cron changes a setting: it purges. What each of them writes soon counts as noise.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn what_every_visitor_writes_empties_no_cache() {
    let mut site = Site::start(PLUGIN);
    assert!(site.anonymous("update_option('campaign', 'on')").all(), "a setting");
    assert!(site.anonymous("define('DOING_CRON', true); update_option('campaign', 'off')").all());
    // Fifty page views that write options; some names differ only in numbers.
    let mut emptied = 0;
    for visitor in 0..50 {
        let ask = site.ask_page(&format!("/a/?view={visitor}"));
        let answer = site.worker.run(&ask);
        assert_eq!(answer.status, 200, "{:?}", answer.log);
        let purges = Purges::of(&answer);
        emptied += usize::from(!purges.nothing());
        assert!(visitor < 3 || purges.nothing(), "visitor {visitor}: {purges:?}");
    }
    assert_eq!(emptied, 3, "noise is not known at once");
    assert!(site.anonymous("update_option('campaign', 'on again')").all(), "another option still purges");
    // An administrator's change always purges.
    assert!(site.change("update_option('greeting', 'Hello')").all());
    for (what, code) in [
        ("a counter", "update_option('visitors', 17)"),
        ("a log", "update_option('mail_log', ['sent'])"),
        ("a cache", "update_option('feed_cache', 'x')"),
        ("not loaded with every page", "update_option('blob', microtime(), false)"),
    ] {
        let purges = site.anonymous(code);
        assert!(purges.nothing(), "{what}: {purges:?}");
    }
    let looks = "$_SERVER['REQUEST_METHOD'] = 'GET'; update_option('seen_by', 'admin', false)";
    assert!(site.change(looks).nothing(), "an administrator looks at a page");
    let beats = "define('DOING_AJAX', true); $_REQUEST['action'] = 'heartbeat'; update_option('edited_by', 'admin', false)";
    assert!(site.change(beats).nothing(), "a page stays open");
}

/// A page of wp-admin that stays open asks every ten seconds, and a plugin writes down that it did.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn pages_of_the_administration_that_poll_empty_no_cache() {
    let mut site = Site::start(PLUGIN);
    let poll = "define('DOING_AJAX', true); update_option('panel_state', microtime())";
    let emptied = (0..35).filter(|_| site.change(poll).all()).count();
    assert_eq!(emptied, 30, "an administrator who saves often is not a poll at once");
    assert!(site.change("update_option('panel_state', 'saved')").all(), "a form of wp-admin");
    assert!(site.change("define('DOING_AJAX', true); update_option('another_panel', 'saved')").all());
    assert!(site.change("define('DOING_AJAX', true); update_option('woocommerce_currency', 'EUR')").gone());
    let ask = site.rest("panel_state", "rest").set("REQUEST_METHOD", "PUT");
    assert!(Purges::of(&site.worker.run(&ask)).nothing(), "REST polls, too");
}

/// Endless new names, without numbers that a family ignores: all together are bounded.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn options_of_endless_names_purge_a_bounded_number_of_times() {
    let mut site = Site::start("");
    // The first page of a theme writes an option, too.
    site.change("delete_transient('millrace_options')");
    let mut emptied = 0;
    for first in 'g'..='z' {
        for second in 'g'..='z' {
            if (first as u32 + second as u32).is_multiple_of(5) {
                let purges = site.anonymous(&format!("update_option('of_{first}{second}', 'x')"));
                emptied += usize::from(!purges.nothing());
            }
        }
    }
    assert_eq!(emptied, 10);
    // So is the memory of them.
    assert_eq!(
        site.value("count(get_transient('millrace_options')) <= 100 ? 'bounded' : 'grows'"),
        "bounded"
    );
    assert!(
        site.anonymous("update_option('woocommerce_currency', 'CHF')").gone(),
        "what matters is not bounded"
    );
    assert!(site.change("update_option('of_zz', 'y')").all(), "nor what an administrator requests");
}

/// After twenty quiet minutes a change counts again.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn what_changes_now_and_then_is_a_setting_again() {
    let mut site = Site::start("");
    let change = |site: &mut Site| site.anonymous("update_option('rates', 'of ' . microtime())");
    for _ in 0..3 {
        assert!(change(&mut site).all());
    }
    assert!(change(&mut site).nothing());
    let later = |seconds: u32| {
        format!(
            "set_transient('millrace_options', array_map(fn ($known) => [$known[0], $known[1] - {seconds}], get_transient('millrace_options')), 86400)"
        )
    };
    site.change(&later(600));
    assert!(change(&mut site).nothing(), "ten minutes later");
    site.change(&later(1300));
    assert!(change(&mut site).all(), "twenty minutes after the last change");
}
