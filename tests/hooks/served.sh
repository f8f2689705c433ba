# Sourced by `run`: the same through the server, with its cache. A plugin of the test runs code for it, as an administrator.
# shellcheck shell=bash

# get PATH: the page is in $body, its Cache-Status in $state.
get() {
  body=$(curl -s --max-time 30 -D "$scratch/head" "$base$1") || { echo "no answer for $1"; return 1; }
  state=$(sed -n 's/^cache-status: *//Ip' "$scratch/head" | tr -d '\r')
}

# hit PATH, made PATH: it comes from the cache; it does not.
hit() { get "$1" && case $state in *'; hit'*) ;; *) echo "$1 is no hit: $state; the log: $(tail -3 "$scratch/served.log")"; return 1 ;; esac; }
shows() { get "$1" && has "$body" "$2"; }
lacks() { get "$1" && case $body in *"$2"*) echo "$1 still has $2 ($state)"; return 1 ;; esac; }

# change CODE: runs it in WordPress. A page whose making began before it would show the old state.
change() {
  local said
  settle "$scratch/admin.sock" || return
  said=$(curl -s --max-time 60 --data-urlencode "code=$1" "$base/?from-the-test") || return
  [ "${said##*$'\n'}" = done ] || { echo "$1: $said" | head -c 600; return 1; }
}

# Before the server starts: new code beneath a running site makes its pages stale, some seconds later.
plugin() {
  mkdir -p "$site/wp-content/mu-plugins" && cat >"$site/wp-content/mu-plugins/test.php" <<'PHP'
<?php
add_action('wp_loaded', function () {
    if (isset($_POST['code'])) {
        wp_set_current_user(1);
        require_once ABSPATH . 'wp-admin/includes/admin.php';
        eval(wp_unslash($_POST['code']));
        echo "\ndone";
        exit;
    }
    if (isset($_GET['unkept'])) define('DONOTCACHEPAGE', true);
    isset($_GET['remembers']) && setcookie('remembers', '1', 0, '/');
    isset($_POST['add-to-cart']) && setcookie('woocommerce_items_in_cart', '1', 0, '/');
});
add_filter('wp_is_application_passwords_available', '__return_true');
add_action('test_campaign', fn () => update_option('banner', 'BY-CRON'));
// A theme that asks before there is an `init`, and an error that WordPress words as the client likes it.
add_action('after_setup_theme', fn () => isset($_GET['phones']) && define('LAYOUT', wp_is_mobile() ? 'PHONE' : 'DESKTOP'));
add_action('wp_footer', fn () => print defined('LAYOUT') ? LAYOUT : '');
add_action('wp_head', fn () => isset($_GET['dies']) && wp_die('IT-DIED', 'It died', 404));
// Plugins that look at the request themselves, and send no Vary: in their first line, in a hook, where WordPress keeps what it has found out.
$GLOBALS['looks'] = $_GET['looks'] ?? '';
function test_looks() {
    global $is_iphone;
    return $is_iphone ? 'PHONE' : 'DESKTOP';
}
function test_looks_at(string $text) {
    return strpos($text, 'iPhone') !== false ? 'PHONE' : 'DESKTOP';
}
$GLOBALS['looks'] === 'first' && define('LOOKED', test_looks_at($_SERVER['HTTP_USER_AGENT'] ?? ''));
add_action('wp_footer', fn () => print match ($GLOBALS['looks']) {
    'first' => LOOKED,
    'global' => test_looks(),
    'GLOBALS' => $GLOBALS['is_iphone'] ? 'PHONE' : 'DESKTOP',
    'getenv' => test_looks_at((string) getenv('HTTP_USER_AGENT')),
    'filter' => test_looks_at((string) filter_input(INPUT_SERVER, 'HTTP_USER_AGENT')),
    'all' => test_looks_at(getallheaders()['User-Agent'] ?? ''),
    'each' => test_looks_at(implode(' ', array_filter($_SERVER, 'is_string'))),
    'address' => test_looks_at($_SERVER['HTTP_USER_AGENT'] ?? '') . $_SERVER['REMOTE_ADDR'],
    default => '',
});
add_action('template_redirect', fn () => $GLOBALS['looks'] === 'redirect' && header('Cache-Control: public, max-age=600')
    . wp_redirect(home_url('/' . test_looks_at($_SERVER['HTTP_USER_AGENT'] ?? '') . '/'), 301) && exit);
add_filter('rest_prepare_post', function ($response, $post, $request) {
    $request['looks'] && $response->data['seen'] = test_looks_at((string) $request->get_header('user_agent'));
    return $response;
}, 10, 3);
// A shop.
function WC() {}
add_action('wp_footer', fn () => print 'CURRENCY-' . get_option('woocommerce_currency', 'none') . ' BANNER-' . get_option('banner', 'none')
    . ' MOTTO-' . get_option('test_motto', 'none'));
add_filter('allowed_options', fn ($options) => ['discussion' => ['test_motto']] + $options);
add_filter('template_include', function ($template) {
    if (get_option('woocommerce_coming_soon') !== 'yes') return $template;
    nocache_headers();
    echo 'COMING-SOON';
});
PHP
  sed -i "1a define( 'WP_HTTP_BLOCK_EXTERNAL', true ); define( 'WP_ACCESSIBLE_HOSTS', '127.0.0.1' );" "$site/wp-config.php"
}

seed() {
  until_answers "$base/" || return
  change 'foreach ([["a", "2026-01-10", 1], ["b", "2026-02-10", 2], ["c", "2026-03-10", 3]] as [$name, $date, $n])
    wp_insert_post(["post_name" => $name, "post_title" => "Title $name", "post_content" => "Text $name", "post_status" => "publish",
      "post_date" => "$date 10:00:00", "post_category" => [wp_create_category("cat $name")]]);'
}

warm() {
  local path
  for path in "${pages[@]}"; do get "$path" && get "$path" || return; done
  for path in "${pages[@]}"; do hit "$path" || return; done
}

# An edit: new at the very next request wherever it shows, while an unrelated post is still a hit.
edit() {
  local path
  warm || return
  change 'wp_update_post(["ID" => get_page_by_path("a", OBJECT, "post")->ID, "post_content" => "FIRST-EDIT", "post_title" => "FIRST-EDIT"]);' || return
  for path in /a/ / /category/cat-a/ /author/editor/ /2026/01/ /feed/; do shows "$path" FIRST-EDIT || return; done
  hit /c/ && hit /category/cat-c/ && hit /about-us/
}

comment() {
  warm || return
  change 'wp_insert_comment(["comment_post_ID" => get_page_by_path("b", OBJECT, "post")->ID, "comment_content" => "A-COMMENT", "comment_approved" => 1]);' || return
  shows /b/ A-COMMENT && hit /a/ && hit /c/ && hit /category/cat-b/ || return
  change 'foreach (get_comments() as $c) if ($c->comment_content == "A-COMMENT") wp_spam_comment($c);' && lacks /b/ A-COMMENT
}

term() {
  warm && change 'wp_update_term(get_category_by_slug("cat-b")->term_id, "category", ["name" => "RENAMED-TERM"]);' &&
    shows /category/cat-b/ RENAMED-TERM && shows /b/ RENAMED-TERM && hit /a/
}

whole_site() {
  warm && change 'update_option("blogname", "NEW-NAME");' && shows / NEW-NAME && shows /c/ NEW-NAME && shows /about-us/ NEW-NAME || return
  change 'switch_theme("twentytwentythree");' && shows / twentytwentythree && shows /c/ twentytwentythree || return
  change 'switch_theme("twentytwentyfour");' && lacks /c/ twentytwentythree
}

# Settings of a shop, changed without a user; and noise.
settings() {
  local path
  warm && change 'wp_set_current_user(0); update_option("woocommerce_currency", "CHF");' || return
  for path in / /a/ /about-us/; do shows "$path" CURRENCY-CHF || return; done
  warm && change 'wp_set_current_user(0); update_option("banner", "SALE");' && shows /a/ BANNER-SALE && shows / BANNER-SALE || return
  warm && change 'wp_set_current_user(0); set_transient("x", time()); update_option("mail_log", time()); update_option("wp_last_run", time());' || return
  for path in "${pages[@]}"; do hit "$path" || return; done
  change 'update_option("woocommerce_coming_soon", "yes");' || return
  for path in "${pages[@]}"; do [ "$path" = /feed/ ] || shows "$path" COMING-SOON || return; done
  change 'update_option("woocommerce_coming_soon", "no");' && lacks /a/ COMING-SOON && shows /a/ 'Text'
}

# sets TEXT COMMAND...: the command changes an option; every page shows it, though all of them were hits before.
sets() {
  local path text=$1
  shift
  warm && "$@" || return
  for path in / /a/ /about-us/; do shows "$path" "$text" || return; done
}

by_rest() {
  curl -sf -o /dev/null --max-time 30 -u "admin:$application_password" -d title=BY-REST "$base/index.php?rest_route=/wp/v2/settings"
}

by_xml_rpc() {
  local said
  said=$(curl -s --max-time 30 --data-binary @- "$base/xmlrpc.php" <<'XML'
<?xml version="1.0"?><methodCall><methodName>wp.setOptions</methodName><params>
<param><value><int>1</int></value></param><param><value><string>admin</string></value></param>
<param><value><string>of the test</string></value></param>
<param><value><struct><member><name>blog_title</name><value><string>BY-XML-RPC</string></value></member></struct></value></param>
</params></methodCall>
XML
  ) || return
  has "$said" BY-XML-RPC
}

# A settings page of wp-admin, with an option of a plugin.
by_form() {
  local jar=$scratch/jar form nonce
  curl -s -o /dev/null --max-time 30 -c "$jar" -b wordpress_test_cookie=WP%20Cookie%20check \
    --data-urlencode log=admin --data-urlencode 'pwd=of the test' "$base/wp-login.php" || return
  form=$(curl -s --max-time 30 -b "$jar" "$base/wp-admin/options-discussion.php") || return
  nonce=$(sed -n 's/.*name="_wpnonce" value="\([^"]*\)".*/\1/p' <<<"$form" | head -n 1)
  [ -n "$nonce" ] || { echo "no form: ${form:0:300}"; return 1; }
  curl -s -o /dev/null --max-time 30 -b "$jar" --data-urlencode "_wpnonce=$nonce" -d option_page=discussion -d action=update \
    -d test_motto=BY-FORM "$base/wp-admin/options.php"
}

# WordPress's cron; it answers before it runs.
by_cron() {
  change 'wp_schedule_single_event(time() - 1, "test_campaign");' || return
  for _ in $(seq 100); do
    # Each request to the site starts the cron, too, and locks it for a minute; on a busy machine WordPress's own request for it may be lost: it waits 10 ms.
    change 'delete_transient("doing_cron");' || return
    curl -s -o /dev/null --max-time 30 "$base/wp-cron.php?doing_wp_cron"
    ! change 'get_option("banner") === "BY-CRON" || exit("not yet");' >/dev/null || return 0
    sleep 0.2
  done
  echo 'cron never ran'
  return 1
}

paths_of_options() {
  application_password=$(curl -s --max-time 60 --data-urlencode 'code=wp_set_password("of the test", 1);
    echo WP_Application_Passwords::create_new_application_password(1, ["name" => "test"])[0];' "$base/?from-the-test" | head -n 1) || return
  sets BY-REST by_rest && sets BY-XML-RPC by_xml_rpc && sets MOTTO-BY-FORM by_form && sets BANNER-BY-CRON by_cron
}

# Adding to the cart changes no page; an unknown form may have.
cart() {
  warm || return
  curl -s -o /dev/null --max-time 30 -d add-to-cart=7 "$base/a/" || return
  hit /a/ && hit / || return
  curl -s -o /dev/null --max-time 30 -d vote=7 "$base/a/" && get /a/ || return
  case $state in *'; hit'*) echo "still a hit after the POST of an unknown form: $state"; return 1 ;; esac
}

author() {
  warm && change 'wp_update_user(["ID" => 1, "display_name" => "NEW-AUTHOR"]);' && shows /a/ NEW-AUTHOR && shows /author/editor/ NEW-AUTHOR
}

unpublish() {
  warm && shows /feed/ 'Text c' && change 'wp_trash_post(get_page_by_path("c", OBJECT, "post")->ID);' || return
  get /c/ && case $(head -n 1 "$scratch/head") in *404*) ;; *) echo "the trashed post: $(head -n 1 "$scratch/head")"; return 1 ;; esac
  lacks / 'Title c' && lacks /feed/ 'Text c' && lacks /b/ 'Title c' && hit /a/ || return
  change 'wp_untrash_post(get_posts(["post_status" => "trash"])[0]->ID); wp_publish_post(get_posts(["post_status" => "draft"])[0]->ID);' &&
    shows /c/ 'Text c' && shows / 'Title c'
}

password() {
  warm && change 'wp_update_post(["ID" => get_page_by_path("c", OBJECT, "post")->ID, "post_password" => "secret"]);' &&
    lacks /c/ 'Text c' && lacks /feed/ 'Text c'
}

# Not there, then there: by cron, which a visitor starts.
scheduled() {
  get /later/ && get / && change 'wp_insert_post(["post_title" => "SCHEDULED", "post_name" => "later", "post_status" => "future",
    "post_date_gmt" => gmdate("Y-m-d H:i:s", time() + 4), "post_date" => gmdate("Y-m-d H:i:s", time() + 4)]);' || return
  for _ in $(seq 40); do
    ! shows / SCHEDULED >/dev/null || { shows /later/ SCHEDULED; return; }
    sleep 0.5
  done
  echo 'it never came'
  return 1
}

# Each client has the layout that WordPress chooses for it, from the cache as well: its user agent and its client hint.
phones() {
  local n agent hint expected hits=0
  local agents=('Mozilla/5.0 (X11; Linux) Chrome/140' 'Mozilla/5.0 (Windows) Firefox/140' 'Mozilla/5.0 (iPhone) Mobile/15E148' 'Mozilla/5.0 (Linux; Android 15) Chrome/140' 'Kindle/3.0' '')
  local hints=('' '' '?0' '?1' '1')
  for n in {1..90}; do
    agent=${agents[RANDOM % 6]} hint=${hints[RANDOM % 5]} expected=DESKTOP
    case $hint/$agent in '?1'/* | /*Mobile* | /*Android* | /*Kindle*) expected=PHONE ;; esac
    body=$(curl -s --max-time 30 -D "$scratch/head" -A "$agent" ${hint:+-H "Sec-CH-UA-Mobile: $hint"} "$base/b/?phones=1")
    case $body in *"$expected"*) ;; *) echo "'$agent' with hint '$hint' is no $expected: $(tail -c 100 <<<"$body")"; return 1 ;; esac
    grep -qi '^cache-status: .*; hit' "$scratch/head" && hits=$((hits + 1))
  done
  grep -qi '^vary: .*User-Agent' "$scratch/head" || { echo 'caches in front of the server are not told'; return 1; }
  [ $hits -gt 60 ] || { echo "only $hits of 90 from the cache"; return 1; }
}

# wp_die() words an error as JSON or XML for a client that asks for that: nobody else gets it. Pages that don't exist are stored, whatever
# WordPress says of them to browsers.
dies() {
  local n field mark
  local fields=('Accept: text/html' 'Accept: application/json' 'Accept: application/ld+json' 'Accept: text/xml' 'Content-Type: application/json' 'Content-Type: text/xml' 'X-None: 1')
  for n in {1..40}; do
    field=${fields[RANDOM % 7]} mark='wp-die-message'
    case $field in *json*) mark='"code":' ;; *xml*) mark='<code>' ;; esac
    body=$(curl -s --max-time 30 -H "$field" "$base/nothing/?dies=1")
    case $body in *"$mark"*) ;; *) echo "$field has no $mark: $(tail -c 150 <<<"$body")"; return 1 ;; esac
  done
}

# looked PATH HITS: the response is the one for the agent, and comes from the cache from the second time on, or never.
looked() {
  local n agent expected hits=0
  for n in {1..8}; do
    agent='Mozilla/5.0 (X11; Linux) Chrome/140' expected=DESKTOP
    [ $((n % 2)) = 1 ] && agent='Mozilla/5.0 (iPhone) AppleWebKit Mobile/15E148 Safari/1' expected=PHONE
    body=$(curl -s --max-time 30 -i -A "$agent" "$base$1")
    case $body in *"$expected"*) ;; *) echo "$1: '$agent' is no $expected: $(head -20 <<<"$body") $(tail -c 150 <<<"$body")"; return 1 ;; esac
    grep -qi '^cache-status: .*; hit' <<<"$body" && hits=$((hits + 1))
  done
  [ $hits = "$2" ] || { echo "$1: $hits from the cache: $(grep -i '^cache-status' <<<"$body")"; return 1; }
}

# Whatever a plugin has looked at.
looks() {
  local way
  for way in first global GLOBALS getenv filter redirect; do looked "/b/?looks=$way" 6 || return; done
  for way in all each address; do looked "/b/?looks=$way" 0 || return; done
  looked '/?rest_route=/wp/v2/posts&looks=1' 0 || return
  explained '/b/?looks=first' 'HTTP_USER_AGENT by ' '/wp-content/mu-plugins/test.php:' || return
  explained '/b/?looks=address' 'not stored (fields)' 'REMOTE_ADDR' '/wp-content/mu-plugins/test.php:' || return
  # What WordPress itself looks at for each page makes no variants.
  get '/b/?looks=nothing' && body=$(curl -s --max-time 30 -D "$scratch/head" -A 'Another/1' -H 'Accept-Language: de' -H 'Referer: http://a.test/' "$base/b/?looks=nothing") || return
  grep -qi '^cache-status: .*; hit' "$scratch/head" || { echo "another agent gets a page of its own: $(cat "$scratch/head")"; return 1; }
}

site_health() {
  get / && get / && change 'ob_start(); $m = new ReflectionMethod("WP_Site_Health", "get_page_cache_detail"); $m->setAccessible(true);
    $found = $m->invoke(WP_Site_Health::get_instance()); ob_end_clean();
    if (is_wp_error($found) || !in_array("x-cache", $found["headers"])) exit(json_encode($found));'
}

# LiteSpeed Cache's own hooks are quiet, but what it looks for is there.
litespeed() {
  change 'if (($_SERVER["X-LSCACHE"] ?? "") !== "on,crawler" || strpos($_SERVER["LSWS_EDITION"] ?? "", "Openlitespeed") !== 0
    || ($_SERVER["SCRIPT_URL"] ?? "") !== "/") exit(json_encode($_SERVER));'
}

# explained PATH TEXT...: `millrace cache explain` says so.
explained() {
  local said text
  said=$("$millrace" cache explain --admin "unix:$scratch/admin.sock" "$base$1") || { echo "$said"; return 1; }
  for text in "${@:2}"; do has "$said" "$text" || return; done
}

# Why WordPress's pages are cached, or why not.
explain() {
  get /b/ && get /b/ && explained /b/ 'the page from the cache' "stored; the application's hooks: public, max-age=" 'a change of the post, page, product or attachment' || return
  get '/b/?unkept' && explained '/b/?unkept' '(DONOTCACHEPAGE)' || return
  get '/b/?remembers' && explained '/b/?remembers' 'not stored (set-cookie)' 'Set-Cookie: remembers, set in ' '/wp-content/mu-plugins/test.php:' || return
  explained /wp-admin/ "the site's profile names */wp-admin" || return
}

served() {
  site=$scratch/served
  cp -r "$scratch/site" "$site"
  port=$(free_port)
  base=http://127.0.0.1:$port
  plugin || { not_ok 'a served site' 'its plugin could not be written'; return; }
  pages=(/ /a/ /b/ /c/ /about-us/ /category/cat-a/ /category/cat-b/ /category/cat-c/ /author/editor/ /2026/01/ /feed/)
  serve "$scratch/served.log" "$site" --listen "127.0.0.1:$port" --profile wordpress --set "admin.listen=unix:$scratch/admin.sock" --set cache.dir=off --set php.workers=3
  check 'a served site' seed || { tail "$scratch/served.log"; return; }
  change 'wp_insert_post(["post_type" => "page", "post_name" => "about-us", "post_title" => "About us", "post_status" => "publish", "menu_order" => 5]);
    wp_update_user(["ID" => 1, "user_nicename" => "editor"]);' >/dev/null
  check 'served: an edit' edit
  check 'served: a comment' comment
  check 'served: a term' term
  check 'served: the name of the site, and the theme' whole_site
  check 'served: the settings of a shop' settings
  check 'served: an option by REST, XML-RPC, a form of wp-admin and cron' paths_of_options
  check 'served: into a cart' cart
  check 'served: the name of an author' author
  check 'served: a post is trashed and comes back' unpublish
  check 'served: a scheduled post is due' scheduled
  check 'served: a password' password
  check 'served: layouts for telephones' phones
  check 'served: errors as JSON and XML' dies
  check 'served: what plugins look at' looks
  check 'served: Site Health finds the page cache' site_health
  check 'served: what the LiteSpeed Cache plugin looks for' litespeed
  check 'served: why pages are cached' explain
  check 'served: the server ends' stop "$server"
}
