<?php
/**
 * A front controller beside WordPress's index.php, for the page in ?page=: instead of the page it answers with JSON. Boot (until
 * wp_loaded) and page: milliseconds, milliseconds of CPU, database queries; and PHP files.
 */

$begin = hrtime(true);
$figures = [];
$note = function (string $name) use (&$figures, $begin): void {
    $usage = getrusage();
    $cpu = $usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec'] + ($usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec']) / 1e6;
    $figures[$name] = ['ms' => (hrtime(true) - $begin) / 1e6, 'cpu' => 1000 * $cpu, 'queries' => isset($GLOBALS['wpdb']) ? $GLOBALS['wpdb']->num_queries : 0];
};
$note('start');
$_SERVER['REQUEST_URI'] = $_GET['page'];
$_SERVER['PHP_SELF'] = $_SERVER['SCRIPT_NAME'] = '/index.php';
$_SERVER['QUERY_STRING'] = '';
unset($_GET['page'], $_REQUEST['page']);
// Hooks of this form are there before WordPress is (wp-includes/plugin.php).
$wp_filter['wp_loaded'][PHP_INT_MAX][] = ['function' => fn () => $note('boot'), 'accepted_args' => 0];
ob_start(fn () => '');
define('WP_USE_THEMES', true);
require __DIR__ . '/wp-blog-header.php';
$note('page');
while (ob_get_level()) {
    ob_end_clean();
}
header('Content-Type: application/json');
echo json_encode($figures + ['files' => count(get_included_files()), 'status' => http_response_code()]);
