<?php
/**
 * php seed.php SITE: what there is to read on the site of the test, and clients that WordPress knows already. Prints JSON: `clients`, each
 * with its cookies and header fields, and `ids` of posts by name. Dates are fixed and differ, so that no list has two orders.
 */

$_SERVER += ['HTTP_HOST' => 'mill.test', 'REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1', 'REMOTE_ADDR' => '127.0.0.1'];
require $argv[1] . '/wp-load.php';
require_once ABSPATH . 'wp-admin/includes/admin.php';

$ids = [];
$insert = function (array $post) use (&$ids): int {
    $post += ['post_status' => 'publish', 'post_author' => 1];
    $post['post_modified'] = $post['post_modified_gmt'] = $post['post_date_gmt'] = $post['post_date'];
    $id = wp_insert_post(wp_slash($post), true);
    is_wp_error($id) && exit($id->get_error_message());
    return $ids[$post['post_name']] = $id;
};

foreach (['comment_moderation' => 0, 'comment_previously_approved' => 0, 'thread_comments' => 1, 'page_comments' => 1, 'comments_per_page' => 4, 'show_comments_cookies_opt_in' => 1,
    'posts_per_page' => 7, 'users_can_register' => 1, 'blogdescription' => 'A mill & its race', 'timezone_string' => 'Europe/Berlin'] as $name => $value) {
    update_option($name, $value);
}
$people = ['editor' => 'editor', 'author' => 'author', 'subscriber' => 'subscriber'];
$users = ['shopkeeper' => 1];
foreach ($people as $name => $role) {
    $users[$name] = wp_insert_user(['user_login' => $name, 'user_pass' => "The pass-phrase of $name", 'user_email' => "$name@mill.test", 'display_name' => ucfirst($name) . ' of the mill', 'role' => $role, 'description' => "About $name"]);
}
update_user_meta($users['author'], 'locale', 'en_US');

$terms = [];
foreach (['Grain', 'Flour', 'Water', 'Stones'] as $n => $name) {
    $terms[] = wp_insert_term($name, 'category', ['description' => "All about $name", 'parent' => $n === 1 ? $terms[0] : 0])['term_id'];
}

/** Blocks whose markup or CSS depends on counters, on the query, on the user or on other blocks. */
$blocks = [
    '<!-- wp:columns --><div class="wp-block-columns"><!-- wp:column {"width":"33%"} --><div class="wp-block-column" style="flex-basis:33%"><!-- wp:paragraph {"style":{"elements":{"link":{"color":{"text":"#cf2e2e"}}}}} --><p class="has-link-color">A <a href="/post-1/">link</a></p><!-- /wp:paragraph --></div><!-- /wp:column --></div><!-- /wp:columns -->',
    '<!-- wp:group {"layout":{"type":"flex","orientation":"vertical","justifyContent":"center"},"style":{"spacing":{"blockGap":"3rem"}}} --><div class="wp-block-group"><!-- wp:paragraph {"style":{"typography":{"fontSize":"19px"}}} --><p style="font-size:19px">Grouped</p><!-- /wp:paragraph --></div><!-- /wp:group -->',
    '<!-- wp:latest-posts {"postsToShow":3,"displayPostDate":true} /--><!-- wp:latest-comments {"commentsToShow":3} /-->',
    '<!-- wp:query {"queryId":1,"query":{"perPage":3,"pages":0,"offset":0,"postType":"post","order":"asc","orderBy":"date","inherit":false}} --><div class="wp-block-query"><!-- wp:post-template --><!-- wp:post-title {"isLink":true} /--><!-- wp:post-date /--><!-- /wp:post-template --><!-- wp:query-pagination --><!-- wp:query-pagination-next /--><!-- /wp:query-pagination --></div><!-- /wp:query -->',
    '<!-- wp:search {"label":"Find","showLabel":false,"buttonText":"Go"} /--><!-- wp:loginout {"displayLoginAsForm":true} /-->',
    '<!-- wp:categories {"showPostCounts":true,"showHierarchy":true} /--><!-- wp:archives {"displayAsDropdown":true} /--><!-- wp:tag-cloud /-->',
    '<!-- wp:buttons --><div class="wp-block-buttons"><!-- wp:button {"style":{"border":{"radius":"12px"}}} --><div class="wp-block-button"><a class="wp-block-button__link wp-element-button" href="/about/" style="border-radius:12px">Push</a></div><!-- /wp:button --></div><!-- /wp:buttons -->',
    '<!-- wp:details --><details class="wp-block-details"><summary>More</summary><!-- wp:paragraph --><p>Inside</p><!-- /wp:paragraph --></details><!-- /wp:details --><!-- wp:page-list /-->',
    '<!-- wp:shortcode -->[caption id="x" width="10"]<img src="/x.png" alt="" width="10" height="10">A caption[/caption]<!-- /wp:shortcode --><!-- wp:rss {"feedURL":"http://mill.test/none"} /-->',
    '<!-- wp:embed {"url":"http://mill.test/post-1/","type":"wp-embed"} --><figure class="wp-block-embed"><div class="wp-block-embed__wrapper">http://mill.test/post-1/</div></figure><!-- /wp:embed -->',
];
for ($n = 1; $n <= 40; $n += 1) {
    $text = "<!-- wp:paragraph --><p>Post $n is about word" . $n % 7 . " and the \"mill\"... it grinds -- 100% 'fine' corn.</p><!-- /wp:paragraph -->";
    $more = $n % 5 === 0 ? '<!-- wp:more --><!--more--><!-- /wp:more -->' : '';
    $pages = $n % 9 === 0 ? '<!-- wp:nextpage --><!--nextpage--><!-- /wp:nextpage --><!-- wp:paragraph --><p>Page two</p><!-- /wp:paragraph -->' : '';
    $id = $insert(['post_name' => "post-$n", 'post_title' => "Post number $n & more", 'post_content' => $text . $more . $blocks[$n % count($blocks)] . $text . $pages,
        'post_excerpt' => $n % 4 ? '' : "Excerpt $n", 'post_author' => $n % 3 ? 1 : $users['author'], 'post_date' => sprintf('2024-%02d-%02d 10:%02d:00', 1 + $n % 12, 1 + $n % 27, $n),
        'post_category' => [$terms[$n % 4]], 'tags_input' => ['tag ' . $n % 6, 'tag ' . $n % 5], 'post_password' => $n === 13 ? 'secret' : '', 'comment_status' => $n === 17 ? 'closed' : 'open']);
    for ($c = 0; $c < $n % 6; $c += 1) {
        $first = wp_insert_comment(['comment_post_ID' => $id, 'comment_author' => "Reader $c", 'comment_author_email' => $c % 2 ? "reader$c@example.org" : '', 'comment_content' => "Comment $c on post $n",
            'comment_approved' => $c === 4 ? 0 : 1, 'comment_parent' => $c === 1 ? $first : 0, 'comment_date' => $date = sprintf('2025-01-%02d 11:0%d:%02d', $c + 1, $c, $n), 'comment_date_gmt' => $date]);
    }
}
stick_post($ids['post-3']);
set_post_format($ids['post-8'], 'aside');
foreach (['about' => '', 'history' => 'about', 'people' => 'about', 'contact' => '', 'prices' => ''] as $name => $parent) {
    $insert(['post_type' => 'page', 'post_name' => $name, 'post_title' => ucfirst($name), 'post_parent' => $parent ? $ids[$parent] : 0, 'menu_order' => count($ids), 'post_date' => sprintf('2023-05-%02d 09:00:00', count($ids) % 28),
        'post_content' => $blocks[count($ids) % count($blocks)] . $blocks[3]]);
}
$insert(['post_name' => 'hidden', 'post_title' => 'Hidden', 'post_status' => 'private', 'post_content' => 'For few', 'post_date' => '2024-02-02 02:02:02']);
$insert(['post_name' => 'draft', 'post_title' => 'Draft', 'post_status' => 'draft', 'post_content' => 'Not yet', 'post_date' => '2024-02-03 02:02:02']);
// The shop's products and pages have been made within a second (tests/shop/seed.php).
$wpdb->query("UPDATE $wpdb->posts SET post_date = '2023-01-01' + INTERVAL ID MINUTE, post_date_gmt = post_date, post_modified = post_date, post_modified_gmt = post_date WHERE post_date > '2025-06-01'");

/** A client that has logged in, with the same session on both servers. */
$member = function (string $name) use ($users): array {
    $end = time() + 14 * DAY_IN_SECONDS;
    $token = WP_Session_Tokens::get_instance($users[$name])->create($end);
    $cookies = [];
    foreach ([AUTH_COOKIE => 'auth', LOGGED_IN_COOKIE => 'logged_in'] as $cookie => $scheme) {
        $cookies[$cookie] = wp_generate_auth_cookie($users[$name], $end, $scheme, $token);
    }
    return ['name' => $name, 'cookies' => array_map('rawurlencode', $cookies)];
};
/** One that has put something into the cart. */
$shopper = function (int $number, array $cart) use ($wpdb): array {
    [$id, $end] = ['t_' . substr(md5("shopper $number"), 0, 30), time() + 2 * DAY_IN_SECONDS];
    $wpdb->insert("{$wpdb->prefix}woocommerce_sessions", ['session_key' => $id, 'session_value' => serialize(['cart' => $cart]), 'session_expiry' => $end]);
    $value = "$id|$end|" . ($end - DAY_IN_SECONDS) . '|' . hash_hmac('md5', "$id|$end", wp_hash("$id|$end"));
    return ['name' => "shopper $number", 'cookies' => ['wp_woocommerce_session_' . COOKIEHASH => rawurlencode($value), 'woocommerce_items_in_cart' => '1']];
};
$commenter = fn (string $name): array => ['name' => $name, 'cookies' => ['comment_author_' . COOKIEHASH => rawurlencode($name), 'comment_author_email_' . COOKIEHASH => rawurlencode(strtolower($name) . '@example.org'),
    'comment_author_url_' . COOKIEHASH => rawurlencode("http://$name.example.org/")]];
[$password, $item] = WP_Application_Passwords::create_new_application_password($users['editor'], ['name' => 'test']);
WP_Application_Passwords::record_application_password_usage($users['editor'], $item['uuid']);
require_once ABSPATH . WPINC . '/class-phpass.php';
$reader = ['name' => 'has the password of a post', 'cookies' => ['wp-postpass_' . COOKIEHASH => rawurlencode((new PasswordHash(8, true))->HashPassword('secret'))]];
$products = array_values($wpdb->get_col("SELECT ID FROM $wpdb->posts WHERE post_type = 'product' ORDER BY ID LIMIT 3"));

flush_rewrite_rules();
echo json_encode(['ids' => $ids, 'clients' => [
    'members' => array_map($member, array_keys($users)),
    'shoppers' => [$shopper(1, [$products[0] => 2]), $shopper(2, [$products[1] => 1, $products[2] => 3])],
    'commenters' => [$commenter('Jane'), $commenter('Żółw'), $reader],
    'programs' => [['name' => 'program', 'cookies' => (object) [], 'fields' => ['Authorization' => 'Basic ' . base64_encode("editor:$password")]]],
]]);
