<?php
/*
 * Run by the worker before WordPress, in the same request (variable MILLRACE_INJECT of the request frame).
 *
 * WordPress takes hooks that were put into $wp_filter before it loads (wp-includes/plugin.php,
 * WP_Hook::build_preinitialized_hooks): [hook][priority][] = function and number of arguments. `__return_true` is
 * WordPress's own, and exists when the hook is called. Names of ours are not needed; a variable would be the site's.
 */

// Pretty permalinks work: WordPress knows that only of Apache, nginx, IIS and Caddy (got_url_rewrite()).
$GLOBALS['wp_filter']['got_url_rewrite'][10][] = ['function' => '__return_true', 'accepted_args' => 0];
