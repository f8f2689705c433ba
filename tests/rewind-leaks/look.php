<?php
/**
 * All that a request can find of the one before it in WordPress and in its database session. A must-use plugin of tests/rewind-leaks:
 * after the point it runs what the header field X-Code has, and prints what the functions below see if there is X-Look. In the boot it runs, in the
 * hook X-Hook, what X-In-Boot has, and says what came of it.
 */

function leaks_time_of_boot(): int
{
    return hrtime(true);
}
$GLOBALS['leaks_boot'] = leaks_time_of_boot();

if (isset($_SERVER['HTTP_X_IN_BOOT'])) {
    add_action($_SERVER['HTTP_X_HOOK'], fn () => $GLOBALS['leaks_made'] = eval(base64_decode($_SERVER['HTTP_X_IN_BOOT'])), 5);
}

add_action('template_redirect', function (): void {
    header('X-Boot: ' . $GLOBALS['leaks_boot']);
    header('X-Made: ' . json_encode($GLOBALS['leaks_made'] ?? null));
    header('X-Began: ' . (int) $_SERVER['REQUEST_TIME_FLOAT']);
    if (isset($_SERVER['HTTP_X_LOOK'])) {
        wp_send_json(leaks_of_wordpress() + leaks_of_database() + ['writes' => $_SERVER['HTTP_X_LOOK'] !== 'write' || writes()]);
    }
    // The first look has effects: styles and roles are registered.
    leaks_of_wordpress();
    $then = leaks_of_wordpress() + leaks_of_database();
    eval(base64_decode($_SERVER['HTTP_X_CODE']));
    $now = leaks_of_wordpress() + leaks_of_database();
    $seen = array_keys(array_filter($now, fn ($value, $name) => serialize($value) !== serialize($then[$name]), ARRAY_FILTER_USE_BOTH));
    header('X-Seen: ' . implode(',', $seen));
    exit;
}, 0);

function leaks_of_wordpress(): array
{
    global $wpdb, $wp_filter, $wp_object_cache, $wp, $wp_rewrite, $post, $wp_query, $wp_roles;
    $database = array_filter(get_object_vars($wpdb), fn ($value) => $value === null || is_scalar($value));
    $globals = array_map(fn ($value) => is_scalar($value) ? $value : (is_array($value) ? count($value) : gettype($value)), $GLOBALS);
    return [
        'hooks' => array_map(fn ($hook) => array_map('count', $hook->callbacks), $wp_filter),
        'actions' => [$GLOBALS['wp_actions'], $GLOBALS['wp_current_filter']],
        'options' => [wp_load_alloptions(), get_option('blogname'), get_option('leak')],
        // Keys of queries end with a time.
        'cache' => preg_replace('/:0[.][0-9]+ [0-9]+/', '', (fn () => array_map(fn ($group) => implode(' ', array_keys($group)), $this->cache))->call($wp_object_cache)),
        'cached' => [wp_cache_get('leak', 'leak'), (fn () => $this->global_groups)->call($wp_object_cache)],
        'wpdb' => array_diff_key($database, array_flip(['num_queries', 'time_start', 'last_query', 'num_rows', 'func_call'])),
        'tables' => [$wpdb->tables('all'), $wpdb->blogid, $wpdb->prefix],
        'globals' => array_diff_key($globals, array_flip(['timestart', 'leaks_boot', 'wp_filters', '_SERVER', 'EZSQL_ERROR'])),
        'types' => [array_keys(get_post_types()), array_keys(get_taxonomies()), array_keys($GLOBALS['shortcode_tags']), array_keys(get_post_stati()), get_image_sizes_of_leaks()],
        'blocks' => array_keys(WP_Block_Type_Registry::get_instance()->get_all_registered()),
        'theme' => [get_template(), array_keys($GLOBALS['_wp_theme_features'] ?? [])],
        'widgets' => [array_keys($GLOBALS['wp_registered_sidebars']), array_keys($GLOBALS['wp_registered_widgets'])],
        'scripts' => [array_keys(wp_scripts()->registered), wp_scripts()->queue, array_keys(wp_styles()->registered), wp_styles()->queue],
        'language' => [get_locale(), determine_locale(), is_locale_switched(), array_keys($GLOBALS['l10n'] ?? []), array_keys($GLOBALS['l10n_unloaded'] ?? []), __('Sunday'), $GLOBALS['wp_locale']->weekday[0]],
        'user' => [get_current_user_id(), current_user_can('manage_options'), wp_get_current_user()->user_login],
        'roles' => $wp_roles->roles ?? wp_roles()->roles,
        'blog' => [get_current_blog_id(), $GLOBALS['_wp_switched_stack'] ?? 0, $GLOBALS['switched'] ?? 0, home_url()],
        'query' => [$wp->public_query_vars, $wp->query_vars, $wp_query->query_vars, $post->ID ?? 0, $wp_rewrite->extra_rules_top, $wp_rewrite->endpoints],
        'flags' => [wp_installing(), wp_suspend_cache_addition(), wp_using_ext_object_cache(), wp_defer_term_counting(), wp_doing_ajax(), is_admin()],
        'constants' => array_diff_key(get_defined_constants(true)['user'], ['WP_START_TIMESTAMP' => 0]),
        'PHP' => [ini_get_all(null, false), ob_get_level(), date_default_timezone_get(), error_get_last(), getcwd(), headers_list_of_leaks()],
    ];
}

function get_image_sizes_of_leaks(): array
{
    return array_keys(wp_get_registered_image_subsizes());
}

function headers_list_of_leaks(): array
{
    return array_values(preg_grep('/^X-(Boot|Began):/', headers_list(), PREG_GREP_INVERT));
}

/** Whether the session can write. It ends what another request may have begun. */
function writes(): bool
{
    $db = $GLOBALS['wpdb']->dbh;
    return mysqli_query($db, 'START TRANSACTION') && mysqli_query($db, 'INSERT INTO leak_rows VALUES (0)') && mysqli_query($db, 'ROLLBACK');
}

/** By the connection itself, since a query of $wpdb that writes tells Millrace. */
function leaks_of_database(): array
{
    $db = $GLOBALS['wpdb']->dbh;
    mysqli_report(MYSQLI_REPORT_OFF);
    $ask = function (string $sql) use ($db) {
        $found = mysqli_query($db, $sql);
        return $found instanceof mysqli_result ? $found->fetch_all() : [mysqli_errno($db), $found];
    };
    $first = $ask("SELECT LAST_INSERT_ID(), FOUND_ROWS() * 0, ROW_COUNT() * 0, @leak, DATABASE(), CURRENT_USER(), CURRENT_ROLE(), IS_USED_LOCK('leak') IS NULL, @@in_transaction, @@autocommit");
    $variables = array_column($ask('SHOW SESSION VARIABLES'), 1, 0);
    foreach (['timestamp', 'pseudo_thread_id', 'rand_seed1', 'rand_seed2', 'warning_count', 'error_count', 'last_gtid', 'gtid_binlog_pos', 'gtid_current_pos', 'gtid_binlog_state'] as $own) {
        unset($variables[$own]);
    }
    return [
        'session' => $first,
        'session variables' => $variables,
        'character set' => mysqli_character_set_name($db),
        'temporary table' => $ask('SELECT * FROM leak_temporary'),
        'prepared statement' => $ask('EXECUTE leak'),
        'handler' => $ask('HANDLER leak READ FIRST'),
        'locked tables' => $ask('SELECT COUNT(*) * 0 FROM leak_table'),
        'rows' => $ask('SELECT COUNT(*) FROM leak_rows'),
    ];
}
