//! Changes: which pages they purge, and which they don't.

use crate::site::Site;

const A: &str = "get_page_by_path('a', 'OBJECT', 'post')->ID";
const B: &str = "get_page_by_path('b', 'OBJECT', 'post')->ID";

/// All pages that show post `a` or a list that it is on, besides its own.
const LISTS_OF_A: [&str; 7] = [
    "/",
    "/category/news/",
    "/author/admin/",
    "/2026/01/",
    "/feed/",
    "/wp-sitemap-posts-post-1.xml",
    "/index.php?rest_route=/wp/v2/posts",
];

fn with<'a>(list: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [list, more].concat()
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn what_is_written_is_named_whether_or_not_it_purges() {
    let mut site = Site::start("");
    let post = site.value(B);
    let named = |site: &mut Site, code: &str, row: &str| {
        let purges = site.anonymous(code);
        assert!(purges.wrote.contains(row), "{code}: {purges:?}");
        purges
    };
    assert!(
        named(&mut site, &format!("update_post_meta({post}, 'views', 17)"), &format!("post-{post}"))
            .nothing()
    );
    assert!(named(&mut site, "update_option('last_run', uniqid())", "option-last_run").nothing());
    named(
        &mut site,
        &format!("wp_update_post(['ID' => {post}, 'post_title' => 'x'])"),
        &format!("post-{post}"),
    );
    named(&mut site, "wp_update_term(1, 'category', ['name' => 'x'])", "term-1");
    named(&mut site, "wp_update_user(['ID' => 1, 'display_name' => 'x'])", "user-1");
    named(
        &mut site,
        &format!("wp_insert_comment(['comment_post_ID' => {post}])"),
        &format!("comments-{post}"),
    );
    assert!(site.anonymous("set_transient('x', uniqid())").wrote.is_empty(), "no page shows it");
    let many = "for ($i = 0; $i < 400; $i++) update_post_meta(1000 + $i, 'views', 1)";
    let purges = named(&mut site, many, "post-*");
    assert!(purges.nothing() && purges.wrote.len() < 200, "{purges:?}");
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn posts() {
    let mut site = Site::start("");
    let kept = site.pages(&[]);
    let seen = with(&LISTS_OF_A, &["/a/"]);

    let purges = site.change(&format!("wp_update_post(['ID' => {A}, 'post_content' => 'new'])"));
    kept.assert("content", &purges, &seen, &[]);
    let purges = site.anonymous(&format!("wp_update_post(['ID' => {A}, 'post_content' => 'newer'])"));
    kept.assert("content, by a program", &purges, &seen, &[]);
    let purges = site.change(&format!("wp_update_post(['ID' => {A}, 'post_title' => 'New title'])"));
    kept.assert("title: its neighbour links to it", &purges, &with(&seen, &["/b/"]), &[]);
    let purges =
        site.change(&format!("wp_update_post(['ID' => {A}, 'post_author' => username_exists('jane')])"));
    let moved = with(
        &seen,
        &[
            "/b/",
            "/author/jane/",
            "/?s=nowhere",
            "/category/music/",
            "/category/music/feed/",
            "/index.php?rest_route=/wp/v2/users",
        ],
    );
    for uri in ["/author/admin/", "/author/jane/", "/a/"] {
        assert!(moved.contains(&uri));
    }
    let users = "/index.php?rest_route=/wp/v2/users";
    kept.assert_some(
        "author",
        &purges,
        &["/author/admin/", "/author/jane/", "/a/", users],
        &["/c/", "/about/"],
    );
    let purges = site.change(&format!("wp_update_post(['ID' => {A}, 'post_date' => '2026-02-11 10:00:00'])"));
    kept.assert_some("date", &purges, &["/a/", "/2026/01/", "/2026/02/"], &["/about/"]);
    kept.assert_gone("date: an archive may begin", &purges, &["/missing/"]);

    let purges =
        site.change(&format!("wp_set_post_categories({A}, [get_category_by_slug('music')->term_id])"));
    kept.assert_some(
        "category",
        &purges,
        &["/a/", "/category/news/", "/category/music/", "/category/music/feed/"],
        &["/b/", "/c/", "/author/jane/"],
    );
    let purges = site.change(&format!("wp_update_post(['ID' => {A}, 'post_password' => 'secret'])"));
    assert!(purges.hard.contains("home") && purges.hard.contains("feed"), "{purges:?}");

    let purges = site.change("wp_insert_post(['post_title' => 'draft', 'post_status' => 'draft'])");
    assert!(purges.nothing(), "{purges:?}");
    let purges = site.change(&format!(
        "wp_save_post_revision({B}); update_post_meta({B}, '_edit_lock', time()); set_transient('x', 1)"
    ));
    assert!(purges.nothing(), "{purges:?}");
    let purges = site.anonymous(&format!("update_post_meta({B}, 'views', 17)"));
    assert!(purges.nothing(), "a counter of visits: {purges:?}");
    let purges = site.change(&format!("update_post_meta({B}, 'price', 17)"));
    kept.assert_some("a field", &purges, &["/b/", "/"], &["/a/", "/c/", "/category/news/"]);
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn posts_come_and_go() {
    let mut site = Site::start("");
    let kept = site.pages(&["/d/"]);
    let purges = site.change("wp_insert_post(['post_title' => 'D', 'post_name' => 'd', 'post_status' => 'publish', 'post_category' => [get_category_by_slug('music')->term_id], 'post_date' => '2026-02-20 10:00:00'])");
    let lists = [
        "/",
        "/category/music/",
        "/category/music/feed/",
        "/author/admin/",
        "/2026/02/",
        "/feed/",
        "/wp-sitemap-posts-post-1.xml",
        "/?s=nowhere",
        "/index.php?rest_route=/wp/v2/posts",
    ];
    kept.assert_some(
        "published",
        &purges,
        &with(&lists, &["/b/", "/c/"]),
        &["/about/", "/category/news/feed/", "/2026/01/"],
    );
    kept.assert_gone("published", &purges, &["/d/", "/missing/"]);
    assert!(purges.hard.iter().all(|tag| tag == "404"), "{purges:?}");

    let kept = site.pages(&["/d/"]);
    let purges = site.change("wp_trash_post(get_page_by_path('d', 'OBJECT', 'post')->ID)");
    kept.assert_gone("trashed", &purges, &with(&lists, &["/b/", "/c/", "/d/"]));
    kept.assert_some("trashed", &purges, &[], &["/about/", "/2026/01/"]);
    let kept = site.pages(&["/d/"]);
    let purges = site.change("add_filter('wp_untrash_post_status', fn() => 'publish'); wp_untrash_post(get_posts(['post_status' => 'trash', 'name' => 'd__trashed'])[0]->ID)");
    kept.assert_some("untrashed", &purges, &lists, &["/about/", "/2026/01/"]);
    let kept = site.pages(&["/d/"]);
    let purges = site.change("wp_delete_post(get_page_by_path('d', 'OBJECT', 'post')->ID, true)");
    kept.assert_gone("deleted", &purges, &with(&lists, &["/b/", "/c/", "/d/"]));

    site.change("wp_insert_post(['post_title' => 'E', 'post_name' => 'e', 'post_status' => 'future', 'post_date' => '2036-02-20 10:00:00'])");
    let kept = site.pages(&["/e/"]);
    let purges = site.anonymous("wp_publish_post(get_page_by_path('e', 'OBJECT', 'post')->ID)");
    kept.assert_some(
        "a scheduled post, published by cron",
        &purges,
        &["/", "/feed/", "/author/admin/"],
        &["/a/", "/about/", "/category/news/"],
    );
    kept.assert_gone("a scheduled post, published by cron", &purges, &["/e/"]);
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn pages_and_what_links_to_them() {
    let mut site = Site::start("");
    let kept = site.pages(&["/imprint/"]);
    let purges =
        site.change("wp_update_post(['ID' => get_page_by_path('about')->ID, 'post_content' => 'new'])");
    kept.assert("content of a page", &purges, &["/about/", "/wp-sitemap-posts-post-1.xml"], &[]);
    let purges =
        site.change("wp_update_post(['ID' => get_page_by_path('about')->ID, 'post_title' => 'New'])");
    // The theme's header has a list of all pages.
    kept.assert_some(
        "title of a page",
        &purges,
        &["/about/", "/imprint/", "/a/", "/"],
        &["/feed/", "/category/music/feed/"],
    );
    let purges =
        site.change("wp_update_post(['ID' => get_page_by_path('about')->ID, 'post_status' => 'draft'])");
    kept.assert_gone("unpublished", &purges, &["/about/", "/imprint/", "/a/", "/"]);

    site.change("update_option('show_on_front', 'page'); update_option('page_on_front', get_page_by_path('imprint')->ID)");
    let kept = site.pages(&[]);
    let purges = site.change(&format!("wp_update_post(['ID' => {A}, 'post_content' => 'x'])"));
    kept.assert_some("a page in front", &purges, &["/a/", "/feed/"], &["/", "/b/"]);
    let purges =
        site.change("wp_update_post(['ID' => get_page_by_path('imprint')->ID, 'post_content' => 'x'])");
    kept.assert_some("the page in front", &purges, &["/"], &["/a/", "/b/"]);
}

/// A theme reads posts by their numbers and paths. WordPress reads whole posts, too, where it only links to them: in a list of pages, and to neighbours.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn what_is_read_without_a_query_is_shown_and_what_is_linked_to_is_not() {
    let mut site = Site::start(
        "add_action('wp_footer', function () {
            $imprint = get_page_by_path('imprint');
            if (is_page('about')) echo apply_filters('the_content', $imprint->post_content);
            if (is_single('a')) echo get_post_meta($imprint->ID, 'shade', true);
            if (is_single('b')) echo get_the_excerpt(get_next_post());
            if (is_category('music')) echo get_page_by_path('a', 'OBJECT', 'post')->post_content;
            if (is_category('news')) foreach ($GLOBALS['wpdb']->get_results(\"SELECT post_title FROM {$GLOBALS['wpdb']->posts}\") as $row) echo $row->post_title;
        });",
    );
    site.change(
        "wp_update_post(['ID' => get_page_by_path('imprint')->ID, 'post_content' => 'old']);
         foreach (['a', 'b', 'c'] as $name) wp_update_post(['ID' => get_page_by_path($name, 'OBJECT', 'post')->ID, 'post_content' => 'the same text'])",
    );
    let kept = site.pages(&[]);
    let mut text = |what: &str, post: &str, purged: &[&str], others: &[&str]| {
        let purges = site.change(&format!("wp_update_post(['ID' => {post}, 'post_content' => 'new'])"));
        kept.assert_some(what, &purges, purged, others);
    };
    let imprint = "get_page_by_path('imprint')->ID";
    text(
        "a page that all link to",
        imprint,
        &["/about/", "/a/", "/category/news/"],
        &["/b/", "/c/", "/category/music/"],
    );
    text(
        "a post that an archive reads",
        A,
        &["/a/", "/category/music/", "/category/news/"],
        &["/b/", "/c/", "/about/"],
    );
    text("a neighbour", B, &["/b/", "/category/news/"], &["/a/", "/c/", "/about/"]);
    let c = "get_page_by_path('c', 'OBJECT', 'post')->ID";
    text("a neighbour with its excerpt", c, &["/c/", "/b/"], &["/a/", "/about/", "/category/music/"]);
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn pictures() {
    let mut site = Site::start("add_theme_support('post-thumbnails');");
    site.change(&format!(
        "$file = wp_upload_bits('p.png', null, base64_decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='));
         $id = wp_insert_attachment(['post_title' => 'pic', 'post_name' => 'pic', 'post_mime_type' => 'image/png'], $file['file'], {A});
         wp_update_attachment_metadata($id, ['width' => 1, 'height' => 1, 'file' => 'p.png']);"
    ));
    let kept = site.pages(&[]);
    let purges =
        site.change(&format!("set_post_thumbnail({B}, get_posts(['post_type' => 'attachment'])[0]->ID)"));
    kept.assert_some(
        "a picture is chosen",
        &purges,
        &["/b/", "/", "/category/music/"],
        &["/a/", "/c/", "/category/news/"],
    );
    let kept = site.pages(&[]);
    let pic = "get_posts(['post_type' => 'attachment'])[0]->ID";
    let purges = site.change(&format!("wp_update_post(['ID' => {pic}, 'post_excerpt' => 'caption'])"));
    kept.assert_some("its caption", &purges, &["/a/", "/b/"], &["/c/", "/category/news/feed/"]);
    let kept = site.pages(&["/index.php?rest_route=/wp/v2/posts"]);
    let purges = site.change(&format!("wp_delete_attachment({pic}, true)"));
    kept.assert_gone("deleted", &purges, &["/b/"]);
    let of_b = ["/", "/category/music/", "/category/music/feed/", "/index.php?rest_route=/wp/v2/posts"];
    kept.assert_some(
        "lists of the posts that it stood for",
        &purges,
        &of_b,
        &["/c/", "/category/news/feed/"],
    );
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn comments() {
    let mut site = Site::start("");
    let kept = site.pages(&["/comments/feed/"]);
    let write = |approved: u8| {
        format!(
            "wp_insert_comment(['comment_post_ID' => {B}, 'comment_content' => 'x', 'comment_author' => 'y', 'comment_approved' => {approved}])"
        )
    };
    assert!(site.anonymous(&write(0)).nothing(), "it waits");
    let stale = ["/b/", "/category/music/feed/", "/feed/", "/comments/feed/"];
    let purges = site.anonymous(&write(1));
    kept.assert("approved at once", &purges, &stale, &[]);
    let waiting = format!("get_comments(['post_id' => {B}, 'status' => 'hold'])[0]");
    let purges = site.change(&format!("wp_set_comment_status({waiting}, 'approve')"));
    kept.assert("approved", &purges, &stale, &[]);
    let one = format!("get_comments(['post_id' => {B}, 'status' => 'approve'])[0]->comment_ID");
    let purges =
        site.change(&format!("wp_update_comment(['comment_ID' => {one}, 'comment_content' => 'edited'])"));
    kept.assert("edited", &purges, &stale, &[]);
    let purges = site.change(&format!("wp_update_post(['ID' => {B}, 'post_content' => 'new'])"));
    kept.assert_some("text of the post", &purges, &["/b/"], &["/comments/feed/"]);
    let purges = site.change(&format!("wp_update_post(['ID' => {B}, 'post_title' => 'New'])"));
    kept.assert_some(
        "title of the post, beside the latest comments",
        &purges,
        &["/comments/feed/"],
        &["/about/"],
    );
    let purges = site.change(&format!("wp_spam_comment({one})"));
    kept.assert("spam", &purges, &[], &stale);
    let purges = site.change(&format!("wp_delete_comment({one}, true)"));
    kept.assert("deleted", &purges, &[], &stale);
    let purges = site.change("wp_insert_comment(['comment_post_ID' => wp_insert_post(['post_type' => 'shop_order', 'post_title' => 'o']), 'comment_type' => 'order_note', 'comment_approved' => 1])");
    kept.assert("a note on an order", &purges, &[], &[]);
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn terms() {
    let mut site = Site::start(
        "add_action('wp_footer', function () { if (is_page()) wp_tag_cloud(['taxonomy' => 'category']); });",
    );
    let kept = site.pages(&[]);
    let news = "get_category_by_slug('news')->term_id";
    let purges = site.change(&format!("wp_update_term({news}, 'category', ['name' => 'The news'])"));
    kept.assert_some(
        "renamed",
        &purges,
        &["/category/news/", "/a/", "/c/", "/about/"],
        &["/b/", "/category/music/", "/author/jane/"],
    );
    let purges = site.change("wp_insert_term('Art', 'category')");
    kept.assert_some("a new one", &purges, &["/about/"], &["/a/", "/b/", "/category/music/feed/"]);
    let purges = site.change(&format!("wp_set_object_terms({A}, ['tagged'], 'post_tag')"));
    kept.assert_some("tagged", &purges, &["/a/"], &["/b/", "/c/", "/category/music/"]);
    let purges = site.change(&format!("wp_delete_term({news}, 'category')"));
    kept.assert_gone("deleted", &purges, &["/category/news/", "/a/", "/c/"]);
    assert!(!purges.hard.contains("home"), "{purges:?}");

    site.change("wp_insert_term('Top', 'category', ['slug' => 'top']); wp_update_term(get_category_by_slug('music')->term_id, 'category', ['parent' => get_category_by_slug('top')->term_id])");
    let kept = site.pages(&["/category/top/"]);
    let purges = site.change("wp_insert_post(['post_title' => 'F', 'post_status' => 'publish', 'post_category' => [get_category_by_slug('music')->term_id]])");
    kept.assert_some("a post below a category", &purges, &["/category/top/"], &["/category/news/feed/"]);
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn users() {
    let mut site = Site::start("");
    let kept = site.pages(&[]);
    let jane = "username_exists('jane')";
    let purges = site.change(&format!("wp_update_user(['ID' => {jane}, 'display_name' => 'J.'])"));
    let stale = [
        "/",
        "/b/",
        "/author/jane/",
        "/category/music/",
        "/category/music/feed/",
        "/2026/02/",
        "/feed/",
        "/wp-sitemap-posts-post-1.xml",
        "/index.php?rest_route=/wp/v2/posts",
        "/index.php?rest_route=/wp/v2/users",
    ];
    kept.assert("display name", &purges, &stale, &[]);
    let purges = site.change(&format!("update_user_meta({jane}, 'session_tokens', 'x'); update_user_meta({jane}, 'last_seen', time()); wp_set_password('y', {jane})"));
    assert!(purges.nothing(), "{purges:?}");
    let purges = site.change(&format!("update_user_meta({jane}, 'description', 'about me')"));
    kept.assert_some("description", &purges, &["/author/jane/"], &["/author/admin/", "/a/"]);
    let tools = "require_once ABSPATH . 'wp-admin/includes/user.php';";
    let purges = site.change(&format!("{tools} wp_delete_user(wp_create_user('joe', 'x'), 1)"));
    assert!(purges.all(), "his posts are another's: {purges:?}");
    let purges = site.change(&format!("{tools} wp_delete_user({jane})"));
    kept.assert_gone("deleted with all posts", &purges, &["/b/", "/author/jane/"]);
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn what_all_pages_are_made_of() {
    let mut site = Site::start(
        "add_theme_support('widgets'); register_sidebar(['id' => 'side']); add_action('wp_footer', function () { if (is_single()) dynamic_sidebar('side'); });",
    );
    site.change("update_option('sidebars_widgets', ['side' => ['text-2'], 'array_version' => 3]); update_option('widget_text', [2 => ['text' => 'hello'], '_multiwidget' => 1])");
    let all = [
        "switch_theme('twentytwentythree')",
        "update_option('blogname', 'new')",
        "update_option('posts_per_page', 7)",
        "update_option('show_avatars', 0)",
        "set_theme_mod('custom_logo', 5)",
        "activate_plugin('hello.php')",
        "deactivate_plugins('hello.php')",
        "do_action('customize_save_after', null)",
        "require_once ABSPATH . 'wp-admin/includes/class-wp-upgrader.php'; do_action('upgrader_process_complete', new WP_Upgrader, ['action' => 'update', 'type' => 'plugin', 'plugins' => []])",
        "$menu = wp_create_nav_menu('main'); wp_update_nav_menu_object($menu, ['menu-name' => 'Main'])",
        "wp_update_nav_menu_item(wp_get_nav_menus()[0]->term_id, 0, ['menu-item-title' => 'x', 'menu-item-url' => '/x', 'menu-item-status' => 'publish'])",
        "wp_delete_nav_menu('Main')",
        "wp_insert_post(['post_type' => 'wp_block', 'post_status' => 'publish', 'post_title' => 'pattern'])",
        "wp_insert_post(['post_type' => 'wp_template_part', 'post_status' => 'publish', 'post_name' => 'header', 'post_title' => 'h'])",
        "wp_update_custom_css_post('a { color: red }')",
        "$GLOBALS['wp_rewrite']->set_permalink_structure('/%year%/%postname%/')",
        "register_post_type('form', ['show_ui' => true]); wp_insert_post(['post_type' => 'form', 'post_status' => 'publish', 'post_title' => 'contact'])",
        "update_option('some_plugin', ['x' => time()])",
        "do_action('litespeed_purge_all')",
    ];
    for code in all {
        let purges = site.change(code);
        assert!(purges.all() && !purges.hard.contains("*"), "{code}: {purges:?}");
    }
    let none = [
        "update_option('cron', get_option('cron') + [time() + 999 => []])",
        "set_transient('x', time())",
        "update_option('rewrite_rules', '')",
        "wp_schedule_single_event(time() + 500, 'x')",
        "register_post_type('job', []); wp_insert_post(['post_type' => 'job', 'post_status' => 'publish', 'post_title' => 'x'])",
    ];
    for code in none {
        let purges = site.change(code);
        assert!(purges.nothing(), "{code}: {purges:?}");
    }
    let purges = site.anonymous("register_post_type('form', ['show_ui' => true]); wp_insert_post(['post_type' => 'form', 'post_status' => 'publish', 'post_title' => 'entry'])");
    assert!(!purges.all(), "an entry that a visitor has sent: {purges:?}");

    site.change("$GLOBALS['wp_rewrite']->set_permalink_structure('/%postname%/'); flush_rewrite_rules()");
    let kept = site.pages(&[]);
    let purges = site.change("update_option('widget_text', [2 => ['text' => 'new'], '_multiwidget' => 1])");
    kept.assert("a widget", &purges, &["/a/", "/b/", "/c/"], &[]);
    let purges = site.change(&format!("stick_post({A})"));
    kept.assert_some("sticky", &purges, &["/"], &["/a/", "/b/"]);
}

/// Plugins call WordPress's hooks by themselves, with what they have at hand.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn odd_calls_harm_nothing() {
    let mut site = Site::start("");
    let row = format!("$GLOBALS['wpdb']->get_row('SELECT * FROM wp_posts WHERE ID = ' . {A})");
    let purges = site.change(&format!("do_action('transition_post_status', 'publish', 'publish', {row})"));
    assert!(purges.soft.contains("home"), "a row of the database: {purges:?}");
    let hooks = [
        "do_action('transition_post_status', 'publish', 'draft', (object) [])",
        "do_action('transition_post_status', 'publish', 'draft', 99999)",
        "do_action('before_delete_post', 99999, null)",
        "do_action('set_object_terms', 99999, null, null, 'none', false, null)",
        "do_action('deleted_term_relationships', 99999, [1, 2], 'none')",
        "do_action('added_post_meta', 1, 99999, 5, 5)",
        "do_action('transition_comment_status', 'approved', 'spam', null)",
        "do_action('wp_insert_comment', 99999, null)",
        "do_action('edit_comment', 99999)",
        "do_action('profile_update', 99999, (object) ['display_name' => 'x'])",
        "do_action('edited_term', 99999, 99999, 'none')",
        "do_action('edit_attachment', 99999)",
        "do_action('woocommerce_product_set_stock', 17)",
        "do_action('woocommerce_product_object_updated_props', 17, null)",
        "do_action('woocommerce_order_status_cancelled', 17)",
        "do_action('woocommerce_reduce_order_stock', 17)",
        "do_action('wc_after_products_starting_sales', 99999)",
        "do_action('litespeed_purge_post', 99999)",
        "do_action('acf/save_post', [])",
    ];
    for code in hooks {
        site.anonymous(code);
    }
    std::fs::write(
        site.root.join("wp-content/mu-plugins/odd.php"),
        "<?php add_action('wp_footer', function () {
            apply_filters('get_comments_number', 5, get_post(1)); apply_filters('wp_get_attachment_image_attributes', [], null);
            apply_filters('wp_nav_menu_objects', [(object) ['type' => 'post_type']]); apply_filters('wp_nav_menu_objects', null);
            apply_filters('get_previous_post_where', ''); apply_filters('get_terms', [], 'category', null); apply_filters('get_terms', []);
            $q = new WP_Query(); $q->query(['post_type' => ['post', 'page'], 'fields' => 'ids']); $q->posts = [[1], null, 'x', 5.5];
        });",
    )
    .unwrap();
    let page = site.page("/a/");
    assert_eq!((page.status, page.seconds()), (200, Some(86400)), "{page:?}");
}
