//! WordPress and applications built on it.

use millrace_settings::plan::PhpPool;

use super::{Caching, NONE, PoolRule, Profile, TagWords};

pub(super) static PROFILE: Profile = Profile {
    uploads: &[
        &["wp-content", "uploads"],
        &["wp-content", "blogs.dir"],
        &["wp-content", "upgrade"],
        // Bedrock.
        &["app", "uploads"],
    ],
    private: &[],
    moved: &[],
    never_served_names: &["wp-cli.yml"],
    never_served_prefixes: &["wp-config"],
    never_served_endings: &["wpress"],
    caching: Caching {
        bypass_cookies: &[
            // WordPress itself (wp-includes/default-constants.php). Not `wordpress_test_cookie`, which every visitor
            // to the login form gets.
            "wordpress_logged_in_*",
            "wordpress_sec_*",
            "wp-postpass_*",
            "comment_author_*",
            // Recovery mode: plugins that failed don't run for this visitor.
            "wordpress_rec_*",
            // A visitor with a cart: WooCommerce, Easy Digital Downloads.
            "woocommerce_items_in_cart",
            "woocommerce_cart_hash",
            "wp_woocommerce_session_*",
            "edd_items_in_cart",
            // Products that WooCommerce's widget shows to this visitor.
            "woocommerce_recently_viewed",
        ],
        bypass_arguments: &[
            "preview",
            "preview_id",
            "preview_nonce",
            "customize_*",
            "wp_scrape_*",
            "_wpnonce",
            "doing_wp_cron",
            // Of the REST API: the request is to be taken as one by another method.
            "_method",
            // The comment that waits for approval, shown to its author.
            "unapproved",
            "moderation-hash",
            // WooCommerce and Easy Digital Downloads.
            "add-to-cart",
            "wc-ajax",
            "wc-api",
            "remove_item",
            "removed_item",
            "undo_item",
            "apply_coupon",
            "remove_coupon",
            "coupon_code",
            "pay_for_order",
            "edd_action",
            // Page builders.
            "elementor-preview",
            "fl_builder",
            "et_fb",
            "vc_editable",
            "ct_builder",
            "bricks",
        ],
        // At any depth: WordPress may live in a folder, and networks have their sites in folders.
        bypass_paths: &[
            "*/wp-admin",
            "*/wp-login.php",
            "*/wp-signup.php",
            "*/wp-activate.php",
            "*/wp-cron.php",
            "*/wp-mail.php",
            "*/wp-comments-post.php",
            "*/wp-trackback.php",
            "*/xmlrpc.php",
            "*/wp-json/wc*",
            "*/cart",
            "*/checkout",
            "*/my-account",
            "*/wc-api",
        ],
        // WooCommerce's Store API: what all may read, and the cart of visitors without one.
        open_paths: &["*/wp-json/wc/store/products", "*/wp-json/wc/store/v1/products"],
        script_paths: &["*/wp-json/wc/store/cart", "*/wp-json/wc/store/v1/cart"],
        feeds: &["*/feed", "*/wp-rss.php", "*/wp-rss2.php", "*/wp-atom.php", "*/wp-rdf.php"],
        // WordPress's own, and plugins': /sitemap_index.xml, /post-sitemap.xml.
        sitemaps: &["*/wp-sitemap*", "*/sitemap*", "*sitemap.xml"],
        // In a field's value, a URL, or a script.
        nonce_marks: &["nonce", "Nonce"],
        vary_by_known_cookies: false,
        faithful: false,
        apis: &["*/wp-json"],
    },
    doors: &["*/wp-admin", "*/wp-login.php"],
    pools: &[
        // Requests without a waiting client. Not `doing_wp_cron`: with ALTERNATE_WP_CRON visitors have it in their
        // URL.
        PoolRule {
            pool: PhpPool::BACKGROUND,
            paths: &["*/wp-cron.php", "*/xmlrpc.php", "*/wp-mail.php", "*/wp-trackback.php", "*/wc-api"],
            ..PoolRule::ANY
        },
        // Of payment services.
        PoolRule { pool: PhpPool::BACKGROUND, arguments: &["wc-api", "edd-listener"], ..PoolRule::ANY },
        // Requests that open tabs and queues send automatically.
        PoolRule {
            pool: PhpPool::BACKGROUND,
            paths: &["*/wp-admin/admin-ajax.php"],
            arguments: &["action=heartbeat", "action=as_async_request_queue_runner"],
            ..PoolRule::ANY
        },
        // Logged-in visitors, on any path.
        PoolRule {
            pool: PhpPool::ADMIN,
            cookies: &["wordpress_logged_in_*", "wordpress_sec_*"],
            ..PoolRule::ANY
        },
        // Plugins' visitors call these: search, filters, forms, the cart.
        PoolRule {
            pool: PhpPool::FRONT,
            paths: &[
                "*/wp-admin/admin-ajax.php",
                "*/wp-admin/admin-post.php",
                "*/wp-json/wc/store*",
                "*/wp-json/contact-form-7",
            ],
            ..PoolRule::ANY
        },
        PoolRule { pool: PhpPool::ADMIN, paths: &["*/wp-admin", "*/wp-login.php"], ..PoolRule::ANY },
        // With an application password instead of a cookie: apps, other systems.
        PoolRule {
            pool: PhpPool::ADMIN,
            methods: PoolRule::CHANGING,
            paths: &["*/wp-json"],
            ..PoolRule::ANY
        },
        PoolRule {
            pool: PhpPool::ADMIN,
            methods: PoolRule::CHANGING,
            arguments: &["rest_route"],
            ..PoolRule::ANY
        },
    ],
    // WooCommerce and Easy Digital Downloads. A first-time buyer has no cookie yet.
    buying: &[
        PoolRule { arguments: &["add-to-cart", "wc-ajax", "edd_action"], ..PoolRule::ANY },
        PoolRule { methods: PoolRule::CHANGING, paths: &["*/product"], ..PoolRule::ANY },
        PoolRule {
            paths: &[
                "*/cart",
                "*/checkout",
                "*/wp-json/wc/store/cart",
                "*/wp-json/wc/store/checkout",
                "*/wp-json/wc/store/batch",
                "*/wp-json/wc/store/v1/cart",
                "*/wp-json/wc/store/v1/checkout",
                "*/wp-json/wc/store/v1/batch",
            ],
            ..PoolRule::ANY
        },
    ],
    // WooCommerce's scripts request the cart on every page of the catalogue, also for readers without one.
    reading: &[
        PoolRule { arguments: &["wc-ajax=get_refreshed_fragments"], ..PoolRule::ANY },
        PoolRule {
            methods: &["GET", "HEAD"],
            paths: &["*/wp-json/wc/store/cart", "*/wp-json/wc/store/v1/cart"],
            ..PoolRule::ANY
        },
    ],
    // Names of php/inject/wordpress/tags.php.
    tags: &[
        TagWords { tag: "post-*", words: "a change of the post, page, product or attachment {}" },
        TagWords { tag: "link-*", words: "a new title or address of {}, to which it links" },
        TagWords { tag: "navterm-*", words: "a new neighbour among the posts with term {}" },
        TagWords { tag: "nav-*", words: "a new neighbour of post {}" },
        TagWords { tag: "list-any", words: "a new, changed or removed post of any type in a list" },
        TagWords { tag: "list-*", words: "a new, changed or removed {} in a list" },
        TagWords { tag: "home", words: "a change of the blog's home page" },
        TagWords { tag: "front", words: "a change of the front page" },
        TagWords { tag: "feed", words: "a change of the feed" },
        TagWords { tag: "search", words: "anything that a search may find" },
        TagWords { tag: "404", words: "anything new that may be found at an address that does not exist" },
        TagWords { tag: "sitemap", words: "a change of the sitemap" },
        TagWords { tag: "type-*", words: "a change of the archive of type {}" },
        TagWords { tag: "termlink-*", words: "a new name of term {}, which it shows" },
        TagWords { tag: "terms-*", words: "a new, changed or removed term of {}, which it lists" },
        TagWords { tag: "term-*", words: "a change of the archive of term {}" },
        TagWords { tag: "author-*", words: "a change of the archive of user {}" },
        TagWords { tag: "date-*", words: "a change of the archive of {}" },
        TagWords { tag: "by-*", words: "a new name of user {}, who is shown as an author" },
        TagWords { tag: "users", words: "a change of any user's name, or a new or removed user" },
        TagWords { tag: "comments-*", words: "a comment on post {}" },
        TagWords { tag: "comments", words: "any comment: it lists the latest" },
        TagWords { tag: "archives", words: "a change of the list of months or of the calendar" },
        TagWords { tag: "widgets", words: "a change of a widget" },
        TagWords { tag: "any-*", words: "any purge of a tag {}-…: it has too many of them" },
        TagWords { tag: "sites", words: "a change of the list of sites of the network" },
        TagWords { tag: "redirect", words: "a new address of the site" },
        TagWords { tag: "all", words: "a change of an option, a menu, the theme or a plugin" },
        TagWords {
            tag: "cart-kind-*",
            words: "nothing: it names the kind of page, for visitors with a cart",
        },
        TagWords { tag: "member-kind-*", words: "nothing: it names the kind of page, for members" },
    ],
    ..NONE
};
