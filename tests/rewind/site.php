<?php
/**
 * A must-use plugin of the test. X-Boot names the boot that a page comes from: requests that begin at the point of php.rewind share one.
 * WordPress's limits of time (a comment every 15 s) and of transport (application passwords only over TLS) are off.
 */

defined('ABSPATH') || exit;
function time_of_boot(): int
{
    return hrtime(true);
}
header('X-Boot: ' . getmypid() . '-' . time_of_boot());
add_filter('wp_is_comment_flood', '__return_false', 99);
add_filter('wp_is_application_passwords_available', '__return_true');
// Orders and carts begin without mail, and nobody is asked to confirm the administrator's address.
add_filter('pre_wp_mail', '__return_true');
add_filter('admin_email_check_interval', '__return_zero');
// What has to be new in every request, though a class, a function and a global variable of the boot know it.
add_action('wp_footer', function () {
    static $calls = 0;
    $calls += 1;
    $GLOBALS['test_footers'] = ($GLOBALS['test_footers'] ?? 0) + 1;
    printf('<!-- footer %d %d, %s, %s, %d -->', $calls, $GLOBALS['test_footers'], esc_html(rawurlencode($_SERVER['REQUEST_URI'])), esc_html($_SERVER['HTTP_ACCEPT_LANGUAGE'] ?? ''), count($_COOKIE));
});
