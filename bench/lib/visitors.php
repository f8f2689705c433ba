<?php
/**
 * php visitors.php SITE COUNT: what there is to read on a WordPress, and people that it knows. Prints JSON: `host`; `pages` and `routes`, COUNT paths in all, spread over
 * all kinds; `clients`, each with its cookies and header fields; `product`, the number of one that can be put into a cart, or 0.
 *
 * The site gets users `same_editor`, `same_customer` and `same_member`, if they are not there.
 */

$_SERVER += ['HTTP_HOST' => 'localhost', 'REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1', 'REMOTE_ADDR' => '127.0.0.1'];
[, $site, $count] = $argv;
ob_start();
require $site . '/wp-load.php';
ini_set('display_errors', 'stderr');

/** A client that has logged in. */
function member(string $name, string $role): array
{
    $id = username_exists($name) ?: wp_insert_user(['user_login' => $name, 'user_pass' => wp_generate_password(), 'user_email' => "$name@same.test", 'role' => get_role($role) ? $role : 'subscriber']);
    $end = time() + 14 * DAY_IN_SECONDS;
    $token = WP_Session_Tokens::get_instance($id)->create($end);
    $cookies = [];
    foreach ([AUTH_COOKIE => 'auth', LOGGED_IN_COOKIE => 'logged_in'] as $cookie => $scheme) {
        $cookies[$cookie] = rawurlencode(wp_generate_auth_cookie($id, $end, $scheme, $token));
    }
    wp_set_current_user($id);
    $_COOKIE[LOGGED_IN_COOKIE] = rawurldecode($cookies[LOGGED_IN_COOKIE]);
    return ['name' => substr($name, 5), 'cookies' => $cookies, 'nonce' => wp_create_nonce('wp_rest')];
}

/** Some of a list, from all of its parts. */
function some(array $all, int $count): array
{
    $all = array_values(array_unique($all));
    $step = max(1, count($all) / max(1, $count));
    $found = [];
    for ($at = 0.0; $at < count($all) && count($found) < $count; $at += $step) {
        $found[] = $all[(int) $at];
    }
    return $found;
}

$home = rtrim(home_url(), '/');
$path = fn (string $url): string => str_starts_with($url, $home) ? substr($url, strlen($home)) ?: '/' : '';
$types = array_values(array_diff(get_post_types(['public' => true]), ['attachment']));
$posts = get_posts(['post_type' => $types, 'post_status' => 'publish', 'numberposts' => -1, 'orderby' => 'type', 'suppress_filters' => true]);
$singles = array_filter(array_map(fn ($post) => $path((string) get_permalink($post)), $posts));
$terms = get_terms(['taxonomy' => array_values(get_taxonomies(['public' => true])), 'hide_empty' => true]);
$lists = array_map(fn ($term) => $path(is_string($link = get_term_link($term)) ? $link : ''), is_array($terms) ? $terms : []);
$lists = array_filter([...$lists, ...array_map(fn ($type) => $path((string) get_post_type_archive_link($type)), $types), ...array_map(fn ($user) => $path(get_author_posts_url($user->ID)), get_users(['number' => 5]))]);
$others = ['/', '/page/2/', '/?paged=2', '/feed/', '/comments/feed/', '/none/', '/a/b/c/', '/?s=word', '/?s=w%C3%B6rt', '/?utm_source=x', '/?p=1', '/?p=99999', '/?author=1', '/wp-sitemap.xml', '/robots.txt', '/?preview=true', '/index.php', '/wp-login.php',
    ...array_map(fn ($at) => "$at?orderby=price&n=1", array_filter([$path((string) get_post_type_archive_link('product'))])), ...array_map(fn ($at) => $at . 'feed/', some($lists, 6)), ...array_map(fn ($at) => $at . 'embed/', some($singles, 4))];
$routes = ['/wp-json/', '/wp-json/wp/v2/users/me', '/wp-json/wp/v2/settings', '/wp-json/wp/v2/search?search=word', '/wp-json/wp/v2/none', '/?rest_route=/wp/v2/types'];
foreach (rest_get_server()->get_routes() as $route => $handlers) {
    $gets = array_filter($handlers, fn ($handler) => !empty($handler['methods']['GET']));
    if ($gets && !str_contains($route, '(?P<') && preg_match('#^/(wp/v2|wc|buddypress|contact-form-7|pll|oembed|batch)#', $route)) {
        $routes[] = '/wp-json' . $route;
    }
}
$base = fn (WP_Post_Type $type): string => '/wp-json/wp/v2/' . ($type->rest_base ?: $type->name);
$routes = [...$routes, ...some(array_map(fn ($post) => $base(get_post_type_object($post->post_type)) . "/$post->ID", $posts), 8)];
$routes = some($routes, (int) ($count / 5));
$others = some($others, (int) ($count / 5));
$lists = some($lists, (int) (($count - count($routes) - count($others)) / 3));
$singles = some($singles, $count - count($routes) - count($others) - count($lists));
$commenter = ['name' => 'commenter', 'cookies' => ['comment_author_' . COOKIEHASH => 'Jane', 'comment_author_email_' . COOKIEHASH => rawurlencode('jane@same.test')]];
$clients = [$commenter, member('same_customer', 'customer'), member('same_member', 'subscriber'), member('same_editor', 'editor')];
$products = function_exists('wc_get_products') ? wc_get_products(['type' => 'simple', 'status' => 'publish', 'limit' => 1, 'return' => 'ids', 'stock_status' => 'instock']) : [];
ob_end_clean();
echo json_encode(['host' => parse_url($home, PHP_URL_HOST), 'pages' => [...$singles, ...$lists, ...$others], 'routes' => $routes, 'clients' => $clients, 'product' => $products[0] ?? 0]);
