<?php
/*
 * Run before each script of a WordPress site, in the global scope. Hooks that stand in $wp_filter before WordPress loads
 * are taken over by it (WP_Hook::build_preinitialized_hooks in wp-includes/plugin.php), so nothing has to be installed in
 * the site. Defines nothing and prints nothing: where no WordPress follows, it leaves one unused global variable.
 */

// WordPress knows by the names of a few servers that they send every URL to index.php; for others its settings page offers
// only permalinks that begin with /index.php. This one does, too.
$GLOBALS['wp_filter']['got_url_rewrite'][10]['millrace'] = ['function' => static fn() => true, 'accepted_args' => 0];
