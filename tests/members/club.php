<?php
/*
 * Plugin Name: A club
 *
 * A site with members, as membership plugins make it: roles with different rights, no admin bar for readers, a greeting with a link to log out
 * on each page, and pages that are a member's own in all ways that we know.
 */

define('CLUB_TABLE', 'wp_club_orders');

add_action('init', function () {
    if (get_option('club_roles') !== '1') {
        add_role('gold', 'Gold', ['read' => true, 'read_gold' => true]);
        add_role('silver', 'Silver', ['read' => true]);
        update_option('club_roles', '1');
    }
    add_shortcode('gold', fn ($given, $text) => current_user_can('read_gold') ? "<p>GOLD: $text</p>" : '<p>JOIN-GOLD</p>');
    foreach (['progress', 'orders', 'vip', 'mail', 'initial', 'global', 'token', 'welcome', 'ways', 'directory', 'late'] as $page) {
        add_shortcode("club-$page", "club_$page");
    }
});

add_filter('show_admin_bar', fn ($show) => $show && current_user_can('edit_posts'));

/** On every page. */
add_action('wp_footer', function () {
    if (is_user_logged_in()) {
        $user = wp_get_current_user();
        printf('<div id="club">Hello <b class="name">%s</b>, %s! <a href="%s">Log out</a><script>var club = {"nonce":"%s"};</script></div>',
            esc_html($user->display_name), esc_html($user->first_name), esc_url(wp_logout_url('/')), wp_create_nonce('wp_rest'));
    } else {
        echo '<div id="club">Not a member</div>';
    }
});

/** A field of the user. */
function club_progress()
{
    return sprintf('<p class="own">progress %d</p>', (int) get_user_meta(get_current_user_id(), 'club_progress', true));
}

/** Rows of a table of its own. */
function club_orders()
{
    global $wpdb;
    return sprintf('<p class="own">orders %d</p>', $wpdb->get_var($wpdb->prepare('SELECT COUNT(*) FROM ' . CLUB_TABLE . ' WHERE user_id = %d', wp_get_current_user()->ID)));
}

/** Nothing but the number decides, and nothing of it is shown. */
function club_vip()
{
    return get_current_user_id() === (int) get_option('club_vip') ? '<p class="own">vip</p>' : '<p class="own">no vip</p>';
}

function club_mail()
{
    return str_ends_with(wp_get_current_user()->user_email, '@club.example') ? '<p class="own">of the club</p>' : '<p class="own">a guest</p>';
}

/** What WordPress has registered for the end of the request has been called by then. */
function club_late()
{
    register_shutdown_function(static function () {
        printf('<p class="own">late %s</p>', get_current_user_id() === (int) get_option('club_vip') ? 'vip' : 'no vip');
    });
    return '';
}

/** Derived from the name, which may be read. */
function club_initial()
{
    return sprintf('<p class="own">initial %s</p>', substr(wp_get_current_user()->display_name, 0, 1));
}

/** As old themes do. */
function club_global()
{
    require __DIR__ . '/club/old.inc';
    return club_of_old();
}

/** A nonce of its own. */
function club_token()
{
    return sprintf('<p class="own">token %s</p>', wp_create_nonce('club'));
}

/** A view is noted: the next one looks different. */
function club_welcome()
{
    $user = wp_get_current_user();
    $seen = (int) $user->club_seen;
    update_user_meta($user->ID, 'club_seen', $seen + 1);
    return "<p class=\"own\">seen $seen</p>";
}

/** In the page: what only the member with the number of the option may see, by other ways to know who asks than to ask WordPress. */
function club_ways()
{
    $way = (string) ($_GET['way'] ?? '');
    $login = match ($way) {
        'cookie' => $_COOKIE[LOGGED_IN_COOKIE] ?? '',
        'computed' => $GLOBALS['_COO' . 'KIE']['wordpress_logged' . '_in_' . COOKIEHASH] ?? '',
        'each' => implode(' ', array_filter($_COOKIE, 'is_string')),
        'closure' => (fn () => $_COOKIE[LOGGED_IN_COOKIE] ?? '')(),
        'filter' => (string) filter_input(INPUT_COOKIE, LOGGED_IN_COOKIE),
        'field' => rawurldecode($_SERVER['HTTP_COOKIE'] ?? ''),
        'getenv' => rawurldecode((string) getenv('HTTP_COOKIE')),
        'all' => rawurldecode(getallheaders()['Cookie'] ?? ''),
        'parsed' => wp_parse_auth_cookie('', 'logged_in')['username'] ?? '',
        'validated' => (string) get_userdata((int) wp_validate_auth_cookie('', 'logged_in'))->user_login,
        'token' => wp_get_session_token(),
        'determined' => $GLOBALS['club_told'] ?? '',
        'valid' => $GLOBALS['club_told'] ?? '',
        'session' => session_start() ? $_SESSION['login'] ?? '' : '',
        'address' => $_SERVER['REMOTE_ADDR'] . ' ' . wp_get_current_user()->display_name,
        default => '',
    };
    return sprintf('<p class="own">way %s %s</p>', esc_html($way), $login !== '' && preg_match('/\\b' . preg_quote((string) get_option('club_login', '-'), '/') . '\\b/', $login) ? 'VIP-SECRET' : 'no secret');
}

if (($_GET['way'] ?? '') === 'determined') {
    add_filter('determine_current_user', function ($id) {
        $GLOBALS['club_told'] = $id ? (string) $GLOBALS['wpdb']->get_var("SELECT user_login FROM wp_users WHERE ID = " . (int) $id) : '';
        return $id;
    }, 99);
}
if (($_GET['way'] ?? '') === 'valid') {
    add_action('auth_cookie_valid', function ($parts) {
        $GLOBALS['club_told'] = $parts['username'];
    });
}

/** The same for all: others' names. */
function club_directory()
{
    return '<ul>' . implode('', array_map(fn ($user) => "<li>$user->display_name</li>", get_users(['role__in' => ['gold', 'silver'], 'orderby' => 'ID']))) . '</ul>';
}

/** What members do, by forms. */
add_action('wp_loaded', function () {
    global $wpdb;
    if (!isset($_POST['club'])) {
        return;
    }
    $id = get_current_user_id();
    switch ($_POST['club']) {
        case 'progress': update_user_meta($id, 'club_progress', 1 + (int) get_user_meta($id, 'club_progress', true)); break;
        case 'order': $wpdb->insert(CLUB_TABLE, ['user_id' => $id]); break;
        // What the test does, without a log-in.
        case 'install':
            $wpdb->query('CREATE TABLE IF NOT EXISTS ' . CLUB_TABLE . ' (id INT AUTO_INCREMENT PRIMARY KEY, user_id INT)');
            foreach (json_decode(wp_unslash($_POST['pages']), true) as $name => $text) {
                wp_insert_post(['post_type' => 'page', 'post_name' => $name, 'post_title' => ucfirst($name), 'post_content' => $text, 'post_status' => 'publish', 'comment_status' => 'closed']);
            }
            $post = wp_insert_post(['post_title' => 'Talk', 'post_content' => 'talk version-1', 'post_status' => 'publish', 'comment_status' => 'open']);
            exit('number ' . $post . ' ' . get_permalink($post));
        case 'member':
            $user = wp_insert_user(['user_login' => $_POST['login'], 'user_pass' => $_POST['password'], 'user_email' => $_POST['mail'],
                'display_name' => $_POST['name'], 'first_name' => strtok($_POST['name'], ' '), 'role' => $_POST['role']]);
            exit("number $user");
        case 'role': (new WP_User((int) $_POST['user']))->set_role($_POST['role']); break;
        case 'rename': wp_update_user(['ID' => (int) $_POST['user'], 'display_name' => $_POST['name'], 'first_name' => strtok($_POST['name'], ' ')]); break;
        case 'password': wp_set_password($_POST['password'], (int) $_POST['user']); break;
        case 'rights': get_role('silver')->add_cap('read_gold', $_POST['may'] === '1'); break;
        case 'text': wp_update_post(['ID' => get_page_by_path($_POST['page'])->ID, 'post_content' => $_POST['text']]); break;
        case 'approve':
            foreach (get_comments(['status' => 'hold']) as $comment) {
                wp_set_comment_status($comment, 'approve');
            }
            break;
        case 'option': update_option($_POST['name'], $_POST['value']); break;
    }
    exit('done');
}, 1);
