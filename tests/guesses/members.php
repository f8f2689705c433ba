<?php
/** Members of the site of tests/guesses, as WP-CLI makes them: members.php ROOT NAME... prints their secrets and the cookies of their log-ins. */
error_reporting(E_ALL & ~E_DEPRECATED);
$_SERVER['HTTP_HOST'] = '127.0.0.1';
require $argv[1] . '/wp-load.php';
$wpdb->query("ALTER TABLE $wpdb->users AUTO_INCREMENT = 910000101");
$all = [];
foreach (array_slice($argv, 2) as $at => $name) {
    $secret = static fn (string $letter): string => sprintf('zq%s%03d%s', $letter, $at, substr(md5("$name $letter"), 0, 6));
    $id = wp_insert_user([
        'user_login' => $secret('w'), 'user_nicename' => $secret('w'), 'user_email' => $secret('e') . '@club.example', 'user_pass' => wp_generate_password(),
        'display_name' => "$name " . $secret('g'), 'first_name' => $name, 'role' => 'subscriber', 'show_admin_bar_front' => 'false', 'meta_input' => ['secret' => $secret('m')],
    ]);
    $wpdb->query("ALTER TABLE $wpdb->users AUTO_INCREMENT = " . ($id + 10007));
    $end = time() + 2 * DAY_IN_SECONDS;
    $token = WP_Session_Tokens::get_instance($id)->create($end);
    $all[] = ['cookie' => [LOGGED_IN_COOKIE, urlencode(wp_generate_auth_cookie($id, $end, 'logged_in', $token))]]
        + array_combine(['w', 'e', 'g', 'm', 'd'], [$secret('w'), $secret('e'), $secret('g'), $secret('m'), (string) $id]);
}
echo json_encode($all);
