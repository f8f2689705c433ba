//! Pages: may they be kept, how long, and what they show.

use std::collections::BTreeSet;

use millrace_wire::frames::NoteKind;

use crate::driver::Answer;
use crate::site::{Page, Site};

/// What was said to the page cache; not which calls set header fields, which is for people.
fn to_the_cache(answer: &Answer) -> Vec<&str> {
    let is_told = |kind: NoteKind| !matches!(kind, NoteKind::Visitor | NoteKind::Origin);
    let notes = answer.notes.iter().filter(|(kind, _)| is_told(*kind));
    notes.map(|(_, text)| &text[..]).collect()
}

fn tags(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|tag| (*tag).to_owned()).collect()
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn kinds_of_pages_have_their_lifetimes_and_tags() {
    let mut site = Site::start("");
    let kept = site.pages(&[
        "/robots.txt",
        "/feed/atom/",
        "/comments/feed/",
        "/2026/",
        "/wp-sitemap.xml",
        "/about",
        "/imprin",
    ]);
    let ids = site.value("implode(' ', [get_page_by_path('a', 'OBJECT', 'post')->ID, get_page_by_path('about')->ID, get_category_by_slug('news')->term_id, username_exists('jane')])");
    let [a, about, news, jane] = ids.split(' ').collect::<Vec<_>>()[..] else { panic!("{ids}") };
    let cases = [
        ("/", 200, 86400, vec!["front".into(), "home".into(), format!("post-{a}"), format!("by-{jane}")]),
        (
            "/a/",
            200,
            86400,
            vec![
                format!("post-{a}"),
                format!("comments-{a}"),
                format!("nav-{a}"),
                format!("termlink-{news}"),
                "by-1".into(),
            ],
        ),
        ("/about/", 200, 86400, vec![format!("post-{about}")]),
        ("/about", 301, 86400, vec![format!("post-{about}")]),
        // WordPress's guess.
        ("/imprin", 301, 60, vec!["404".into()]),
        ("/category/news/", 200, 86400, vec![format!("term-{news}"), format!("post-{a}")]),
        ("/author/jane/", 200, 86400, vec![format!("author-{jane}")]),
        ("/2026/", 200, 86400, vec!["date-2026".into()]),
        ("/2026/01/", 200, 86400, vec!["date-202601".into()]),
        ("/feed/", 200, 3600, vec!["feed".into(), format!("post-{a}")]),
        ("/feed/atom/", 200, 3600, vec!["feed".into()]),
        ("/comments/feed/", 200, 3600, vec!["comments".into()]),
        ("/?s=nowhere", 200, 120, vec!["search".into()]),
        ("/missing/", 404, 60, vec!["404".into()]),
        ("/wp-sitemap.xml", 200, 3600, vec!["sitemap".into()]),
        ("/robots.txt", 200, 86400, vec!["sitemap".into()]),
        ("/index.php?rest_route=/wp/v2/posts", 200, 600, vec!["list-post".into(), format!("post-{a}")]),
        ("/index.php?rest_route=/wp/v2/users", 200, 600, vec!["users".into()]),
    ];
    for (uri, status, seconds, some) in cases {
        let page = kept.page(uri);
        assert_eq!((page.status, page.seconds()), (status, Some(seconds)), "{uri}: {page:?}");
        let missing: Vec<_> = some.iter().filter(|tag| !page.tags.contains(*tag)).collect();
        assert!(missing.is_empty(), "{uri} lacks {missing:?}: {page:?}");
    }
    // A feed is always made: a 304 would have no tags.
    let ask = site.ask_page("/feed/").set("HTTP_IF_MODIFIED_SINCE", "Fri, 01 Jan 2038 00:00:00 GMT");
    assert_eq!(&Page::of(&site.worker.run(&ask)), kept.page("/feed/"));
    // WordPress's own words on it are for browsers.
    let ask = site.ask_page("/missing/");
    let missing = site.worker.run(&ask);
    assert_eq!(missing.values("Millrace-Cache-Control"), ["public, max-age=60"], "{:?}", missing.fields);
    assert!(missing.values("Cache-Control")[0].contains("no-cache"), "{:?}", missing.fields);
    assert!(!kept.page("/a/").tags.contains("home") && !kept.page("/category/news/").tags.contains("home"));
    // Exactly: what is too much makes pages go that did not change.
    let menu = site.value("implode(' ', array_map(fn($p) => \"link-$p->ID\", get_pages()))");
    let mut expected: Vec<&str> = menu.split(' ').collect();
    let (own, comments) = (format!("post-{about}"), format!("comments-{about}"));
    expected.extend(["list-page", "by-1", &own, &comments]);
    assert_eq!(kept.page("/about/").tags, tags(&expected));
}

/// The text of a post that the page also links to, printed without WordPress's functions for that: an edit of it concerns the page.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn raw_text_of_a_linked_post_has_its_tag() {
    let mut site = Site::start(
        "add_action('wp_footer', function () {
            $post = get_page_by_path('imprint');
            $field = 'post_content';
            match ($_GET['way'] ?? '') {
                'property' => print $post->post_content,
                'named' => print $post->$field,
                'field' => print get_post_field('post_content', $post->ID, 'raw'),
                'excerpt' => print $post->post_excerpt,
                'array' => print get_post($post->ID, ARRAY_A)['post_content'],
                'cast' => print ((array) $post)['post_content'],
                'pluck' => print implode(wp_list_pluck(get_pages(), 'post_content')),
                'the' => print get_the_content(null, false, $post),
                'trimmed' => print wp_trim_words($post->post_content),
                'title' => print $post->post_title . get_permalink($post) . get_the_title($post),
                default => 0,
            };
        });",
    );
    let imprint = site.value("get_page_by_path('imprint')->ID");
    let (own, link) = (format!("post-{imprint}"), format!("link-{imprint}"));
    for (way, has_text) in [
        ("", false),
        ("title", false),
        ("property", true),
        ("named", true),
        ("field", true),
        ("excerpt", true),
        ("array", true),
        ("cast", true),
        ("pluck", true),
        ("the", true),
        ("trimmed", true),
    ] {
        for uri in ["/about/", "/a/", "/"] {
            let ask = site.ask_page(&format!("{uri}?way={way}")).set("MILLRACE_COOKIES", "");
            let page = Page::of(&site.worker.run(&ask));
            assert!(page.tags.contains(&link), "{uri} {way}: {page:?}");
            assert_eq!(page.tags.contains(&own), has_text, "{uri} {way}: {page:?}");
        }
    }
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn what_is_for_one_visitor_is_not_kept() {
    let mut site = Site::start(
        "if (isset($_GET['constant'])) define('DONOTCACHEPAGE', true);
         if (isset($_GET['late'])) add_action('wp_footer', fn() => define('DONOTCACHEPAGE', true));
         if (isset($_GET['nocache'])) add_action('template_redirect', 'nocache_headers');
         if (isset($_GET['cookie'])) add_action('init', fn() => setcookie('a', 'b'));
         if (isset($_GET['printed'])) add_action('template_redirect', function () { echo 'of my own'; exit; });
         if (isset($_GET['earlier'])) add_action('init', function () { echo 'of my own'; exit; });
         if (isset($_GET['away'])) add_action('template_redirect', function () { wp_redirect('/elsewhere'); exit; });
         if (isset($_GET['moved'])) add_action('template_redirect', function () { wp_redirect('/elsewhere', 301); exit; });
         if (isset($_GET['forall'])) add_action('template_redirect', function () { header('Cache-Control: public, max-age=600'); wp_redirect('/elsewhere', 301); exit; });
         if (isset($_GET['down'])) add_action('template_redirect', function () { wp_die('x', 'x', 503); });
         if (isset($_GET['cart'])) { function is_cart() { return true; } }
         if (isset($_GET['function'])) add_action('wp_head', fn() => millrace_cache_control('private'));
         if (isset($_GET['nonce'])) add_action('wp_footer', fn() => wp_nonce_field('form'));
         if (isset($_GET['api'])) add_action('wp_enqueue_scripts', fn() => wp_enqueue_script('wp-api-fetch'));
         if (isset($_GET['filter'])) add_filter('millrace_cache_control', fn() => 'public, max-age=7');
         if (isset($_GET['early'])) { header('Location: /m/', true, 301); exit; }
         if (isset($_GET['die'])) add_action('plugins_loaded', fn() => wp_die('x', 'x', 410));",
    );
    site.change(
        "wp_update_post(['ID' => get_page_by_path('c', 'OBJECT', 'post')->ID, 'post_password' => 'secret'])",
    );
    for (uri, control, because) in [
        ("/a/?x=1", "public, max-age=86400", ""),
        ("/a/?constant=1", "no-store", "DONOTCACHEPAGE"),
        ("/a/?late=1", "no-store", "DONOTCACHEPAGE"),
        ("/a/?nocache=1", "no-store", "Cache-Control: no-cache"),
        ("/a/?cookie=1", "no-store", "Set-Cookie"),
        ("/a/?printed=1", "no-store", "not made by a template of WordPress"),
        ("/a/?earlier=1", "no-store", ""),
        ("/a/?away=1", "no-store", ""),
        // A plugin may have chosen it by its own look at the visitor; its own word that it is for all counts.
        ("/a/?moved=1", "no-store", ""),
        ("/a/?early=1", "no-store", "ended before WordPress had loaded"),
        ("/a/?die=1", "no-store", "ended before WordPress had loaded"),
        ("/a/?forall=1", "public, max-age=600", ""),
        ("/a", "public, max-age=86400", ""),
        ("/a/?down=1", "no-store", ""),
        ("/a/?cart=1", "no-store", "cart"),
        ("/a/?unapproved=1&moderation-hash=x", "no-store", "a comment that waits for approval"),
        ("/a/?function=1", "private", ""),
        ("/a/?nonce=1", "public, max-age=36000, nonce", ""),
        ("/a/?api=1", "public, max-age=36000, nonce", ""),
        ("/a/?filter=1", "public, max-age=7", ""),
        ("/c/", "no-store", "password of a post"),
        ("/missing/?nonce=1", "public, max-age=60, nonce", ""),
        ("/index.php?rest_route=/wp/v2/settings", "no-store", ""),
        ("/index.php?rest_route=/wp/v2/posts/999999", "no-store", ""),
        ("/index.php?rest_route=/", "no-store", ""),
    ] {
        let page = site.page(uri);
        assert_eq!(page.control, control, "{uri}: {page:?}");
        assert!(because.is_empty() || page.because == because, "{uri}: {page:?}");
        assert_eq!(page.because.is_empty(), control != "no-store", "{uri}: {page:?}");
        assert_eq!(page.tags.is_empty(), control == "no-store", "{uri}: {page:?}");
    }
    let post = site.ask_page("/a/").set("REQUEST_METHOD", "POST");
    assert_eq!(Page::of(&site.worker.run(&post)).control, "", "a POST is nothing to be kept");
    let login = site.ask(&site.root.join("wp-login.php"), "/wp-login.php");
    assert_eq!(Page::of(&site.worker.run(&login)).control, "no-store");
}

/// `wp_is_mobile()` in any hook, from the first one at which there is such a function.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn a_page_that_differs_for_telephones_says_so_whenever_it_asked() {
    let hooks = "plugins_loaded setup_theme after_setup_theme init wp_loaded parse_request wp template_redirect wp_head the_post wp_footer";
    let mut site = Site::start(
        "if (isset($_GET['hook'])) add_action($_GET['hook'], fn($value = null) => wp_is_mobile() ? $value : $value);
         if (isset($_GET['filter'])) add_filter('wp_is_mobile', fn($is) => $is && empty($_GET['tablet']));
         if (isset($_GET['own'])) add_action('init', fn() => millrace_cache_control('public, max-age=600'));
         if (isset($_GET['silent'])) add_filter('millrace_cache_control', fn() => '');",
    );
    let day = "public, max-age=86400";
    assert_eq!(site.page("/a/?x=1").control, day);
    for uri in hooks.split(' ').map(|hook| format!("/a/?hook={hook}")) {
        assert_eq!(site.page(&uri).control, format!("{day}, mobile"), "{uri}");
        // What another filter looks at is unknown.
        assert_eq!(site.page(&format!("{uri}&filter=1")).control, format!("{day}, user-agent"), "{uri}");
        // The site's own word would be for all devices.
        assert_eq!(site.page(&format!("{uri}&own=1")).control, "no-store", "{uri}");
        assert_eq!(site.page(&format!("{uri}&silent=1")).control, "no-store", "{uri}");
    }
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn the_bar_is_for_administrators_and_purges() {
    let mut site = Site::start("");
    let plain = site.ask_page("/a/");
    assert!(!site.worker.run(&plain).text().contains("millrace"), "an anonymous visitor sees nothing of us");
    let jane = site.value("username_exists('jane')").parse().unwrap();
    let cookie = site.cookie(jane);
    let answer = site.worker.run(&plain.clone().set("HTTP_COOKIE", &cookie));
    assert!(answer.text().contains("wpadminbar") && !answer.text().contains("millrace"));
    assert_eq!(Page::of(&answer).control, "no-store");
    let cookie = site.cookie(1);
    let answer = site.worker.run(&plain.set("HTTP_COOKIE", &cookie));
    let text = answer.text();
    assert!(text.contains("wp-admin-bar-millrace-page") && text.contains("credentials: \"omit\""));
    let page = Page::of(&answer);
    assert_eq!((&page.control[..], page.tags.len()), ("no-store", 0));
    // The links of the menu, as the browser follows them.
    for (link, purged) in [("path=%2Fa%2F", "hard, /a/"), ("action=millrace_purge&#038;_wpnonce", "soft, *")]
    {
        let end = text.find(link).unwrap_or_else(|| panic!("no link {link}"));
        let start = text[..end].rfind("href='").unwrap() + 6;
        let link = text[start..].split('\'').next().unwrap().replace("&#038;", "&");
        let uri = link.strip_prefix("http://127.0.0.1:8080").unwrap_or_else(|| panic!("{link}"));
        let script = site.root.join("wp-admin/admin-post.php");
        let ask = site.ask(&script, uri).set("HTTP_REFERER", "http://127.0.0.1:8080/a/");
        let denied = site.worker.run(&ask);
        assert_eq!(to_the_cache(&denied), [""; 0], "without being logged in");
        let answer = site.worker.run(&ask.clone().set("HTTP_COOKIE", &cookie));
        assert_eq!(to_the_cache(&answer), [purged, purged], "{uri} {:?} {}", answer.log, answer.text());
        assert_eq!(answer.values("location"), ["http://127.0.0.1:8080/a/"]);
        let forged = site.ask(&script, &uri.replace("_wpnonce=", "_wpnonce=0")).set("HTTP_COOKIE", &cookie);
        assert_eq!(to_the_cache(&site.worker.run(&forged)), [""; 0], "with a forged nonce");
    }
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn site_health_knows_the_cache() {
    let mut site = Site::start("");
    let found = site.value(
        "json_encode((function () { $known = WP_Site_Health::get_instance()->get_page_cache_headers();
         return [$known['x-cache']('HIT'), $known['x-cache']('MISS'), $known['cache-status']('Millrace; hit; ttl=7'), isset($known['age'])]; })())",
    );
    assert_eq!(found, "[true,false,true,true]");
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn with_litespeed_cache_nothing_is_said() {
    let mut site = Site::start("define('LSCWP_V', '6.5');");
    let page = site.page("/a/");
    assert_eq!((page.status, &page.control[..], page.tags.len()), (200, "", 0));
    assert!(
        site.change("wp_update_post(['ID' => 1, 'post_title' => 'x']); switch_theme('twentytwentythree');")
            .nothing()
    );
    assert_eq!(site.value("json_encode(got_url_rewrite())"), "true", "this has nothing to do with it");
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn a_page_lives_until_a_scheduled_post_is_due() {
    let mut site = Site::start("");
    let later = |seconds: u32| {
        format!(
        "wp_insert_post(['post_title' => 'Later', 'post_name' => 'later', 'post_status' => 'future', 'post_date_gmt' => gmdate('Y-m-d H:i:s', time() + {seconds}),
         'post_date' => gmdate('Y-m-d H:i:s', time() + {seconds})])"
    )
    };
    let kept = site.pages(&[]);
    let purges = site.change(&later(1800));
    // Those that have been made before would not know.
    kept.assert_some(
        "scheduled",
        &purges,
        &["/", "/feed/", "/author/admin/"],
        &["/a/", "/about/", "/category/news/"],
    );
    for uri in ["/", "/a/", "/feed/"] {
        let seconds = site.page(uri).seconds().unwrap();
        assert!((1700..=1800).contains(&seconds), "{uri}: {seconds}");
    }
    assert_eq!(site.page("/missing/").seconds(), Some(60));
    // Due, but nobody has come: soon somebody will ask again.
    site.change("wp_clear_scheduled_hook('publish_future_post', [get_page_by_path('later', 'OBJECT', 'post')->ID]); wp_schedule_single_event(time() - 60, 'publish_future_post', [get_page_by_path('later', 'OBJECT', 'post')->ID])");
    assert_eq!(site.page("/").seconds(), Some(10));
}

#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn a_page_has_a_bounded_number_of_tags() {
    let mut site = Site::start(
        "add_action('pre_get_posts', fn($q) => $q->is_main_query() && $q->set('posts_per_page', 400));",
    );
    site.change("for ($i = 0; $i < 300; $i++) wp_insert_post(['post_title' => \"p $i\", 'post_status' => 'publish', 'post_date' => '2026-03-01 00:00:00', 'tags_input' => [\"t$i\"]])");
    let page = site.page("/");
    assert!(page.tags.len() <= 240 && page.tags.contains("any-post"), "{page:?}");
    assert!(page.tags.contains("home") && page.tags.contains("front"));
    let purges = site.change(
        "wp_update_post(['ID' => get_page_by_path('a', 'OBJECT', 'post')->ID, 'post_content' => 'x'])",
    );
    assert!(purges.soft.contains("any-post"), "{purges:?}");
}

/// The first site of a network shows posts of the second and a list of all.
const SHOWS_ANOTHER: &str = "add_action('wp_footer', function () {
    if (!is_multisite() || get_current_blog_id() !== 1 || !isset($_GET['both'])) return;
    switch_to_blog(2);
    foreach (get_posts(['numberposts' => 2]) as $post) echo get_the_title($post);
    $query = new WP_Query(['post_type' => 'page', 'posts_per_page' => 1]);
    restore_current_blog();
    echo count($query->posts), count(get_sites());
});";

/// A network of two sites, in one cache.
#[test]
#[ignore = "needs a WordPress: tests/hooks/run"]
fn sites_of_a_network_do_not_purge_each_other() {
    let mut site = Site::start(SHOWS_ANOTHER);
    // A network can't have a port.
    site.name = "example.test";
    site.change(
        "update_option('home', 'http://example.test'); update_option('siteurl', 'http://example.test');
         require_once ABSPATH . 'wp-admin/includes/upgrade.php'; require_once ABSPATH . 'wp-admin/includes/network.php'; global $wpdb;
         foreach ($wpdb->tables('ms_global') as $table => $name) $wpdb->$table = $name;
         install_network(); populate_network(1, 'example.test', 'a@example.org', 'Net', '/', false)",
    );
    site.configure(
        "define('WP_ALLOW_MULTISITE', true); define('MULTISITE', true); define('SUBDOMAIN_INSTALL', false); define('DOMAIN_CURRENT_SITE', 'example.test');
         define('PATH_CURRENT_SITE', '/'); define('SITE_ID_CURRENT_SITE', 1); define('BLOG_ID_CURRENT_SITE', 1);",
    );
    let second = site.value("json_encode(wpmu_create_blog('example.test', '/second/', 'Second', 1))");
    assert_eq!(second, "2");
    // A shop of the second site closes; and what is set for all of them.
    let purges = site
        .change("switch_to_blog(2); update_option('woocommerce_coming_soon', 'yes'); restore_current_blog()");
    assert_eq!(purges.hard.into_iter().collect::<Vec<_>>(), ["2.all"]);
    assert!(site.change("update_site_option('network_banner', 'hello')").all());
    assert!(site.change("delete_site_option('network_banner')").all());
    assert!(
        site.change("set_site_transient('x', time()); update_site_option('user_count', time())").nothing()
    );
    site.change(
        "flush_rewrite_rules(); switch_to_blog(2); update_option('permalink_structure', '/%postname%/')",
    );
    let post = site.value("str_replace('http://example.test', '', get_permalink(1))");
    for (uri, prefix) in [("/", "1."), (&post[..], "1."), ("/second/", "2.")] {
        let page = site.page(uri);
        assert_eq!((page.status, page.seconds()), (200, Some(86400)), "{uri}: {page:?}");
        let is_own = |tag: &String| tag.starts_with(prefix) || tag.starts_with("0.");
        assert!(page.tags.iter().all(is_own), "{uri}: {page:?}");
        assert!(page.tags.contains("0.by-1"), "users are the same in all sites: {uri}: {page:?}");
        assert!(page.tags.contains(&format!("{prefix}all")), "{uri}: {page:?}");
    }
    let both = site.page("/?both");
    for tag in [
        "1.front",
        "1.all",
        "2.all",
        "2.post-1",
        "2.list-post",
        "2.post-2",
        "2.list-page",
        "2.termlink-1",
        "0.sites",
    ] {
        assert!(both.tags.contains(tag), "{tag}: {both:?}");
    }
    assert!(!both.tags.contains("2.front") && !both.tags.contains("1.post-2"), "{both:?}");
    let purges = site.change("wp_update_post(['ID' => 1, 'post_content' => 'x'])");
    assert!(
        purges.soft.contains("1.post-1") && purges.soft.iter().all(|tag| tag.starts_with("1.")),
        "{purges:?}"
    );
    let purges = site.change(
        "switch_to_blog(2); wp_update_post(['ID' => 1, 'post_content' => 'x']); restore_current_blog()",
    );
    assert!(
        purges.soft.contains("2.post-1") && purges.soft.iter().all(|tag| tag.starts_with("2.")),
        "{purges:?}"
    );
    let purges = site.change("switch_to_blog(2); update_option('blogname', 'x'); restore_current_blog()");
    assert_eq!(purges.soft.into_iter().collect::<Vec<_>>(), ["0.sites", "2.all"]);
    let purges = site.change("wp_update_user(['ID' => 1, 'display_name' => 'Other'])");
    assert!(purges.soft.contains("0.by-1") && purges.soft.contains("0.users"), "{purges:?}");
    let purges = site.change("update_blog_details(2, ['last_updated' => '2030-01-01 00:00:00'])");
    assert!(purges.nothing(), "bookkeeping: {purges:?}");
    let purges = site.change("update_site_option('site_name', 'Other')");
    assert!(purges.all(), "{purges:?}");
    let purges = site.change("update_blog_status(2, 'archived', 1)");
    assert!(purges.hard.contains("2.all") && purges.soft.contains("0.sites"), "{purges:?}");
}
