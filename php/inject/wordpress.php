<?php
/**
 * Run by the worker before WordPress, in the same request (variable MILLRACE_INJECT of the request frame): with it
 * WordPress fills and purges Millrace's page cache by itself. Nothing is written to the site or its database but one transient
 * (Options).
 *
 * WordPress takes hooks that were put into $wp_filter before it loads (wp-includes/plugin.php,
 * WP_Hook::build_preinitialized_hooks): [hook][priority][] = function and number of arguments. Everything here is in the
 * namespace Millrace\WordPress and in static methods; the site's own names stay free.
 *
 * - Hooks: puts the tables of the other classes into $wp_filter, and takes them out if LiteSpeed Cache does this work;
 * - Page: may this page be kept, and for how long; Rest: the same for answers of the REST API;
 * - Shown: what it shows, as tags; Tags: how tags are called;
 * - Objects: posts, terms, users and comments that the request has read from the database; Tables: SQL that plugins run themselves;
 * - Kind: what a page is composed of; Cart: which pages visitors with a cart may have from the cache; Member: which ones members with the
 *   same rights may share;
 * - Location: pages that differ by the visitor's address;
 * - Posts, People, Site, Options, Shop, Network: what changes, as purges; Changes: how they are said;
 * - Written: what PHP has written; Sql: what has changed without that;
 * - Bar: the menu in the admin bar; Others: page caches of other plugins, in Site Health;
 * - Visitor: who asks, for those who go first;
 * - Rewind: where requests begin if PHP is rewound after each; RewoundShop: WooCommerce's session in them;
 *   RewoundNetwork: the site of a network that they are for.
 *
 * All files are loaded at once: later, when open_basedir holds, they could not be. opcache keeps them.
 */

namespace Millrace\WordPress;

require __DIR__ . '/wordpress/hooks.php';
require __DIR__ . '/wordpress/tags.php';
require __DIR__ . '/wordpress/page.php';
require __DIR__ . '/wordpress/shown.php';
require __DIR__ . '/wordpress/objects.php';
require __DIR__ . '/wordpress/tables.php';
require __DIR__ . '/wordpress/rest.php';
require __DIR__ . '/wordpress/changes.php';
require __DIR__ . '/wordpress/posts.php';
require __DIR__ . '/wordpress/people.php';
require __DIR__ . '/wordpress/site.php';
require __DIR__ . '/wordpress/options.php';
require __DIR__ . '/wordpress/shop.php';
require __DIR__ . '/wordpress/written.php';
require __DIR__ . '/wordpress/sql.php';
require __DIR__ . '/wordpress/kind.php';
require __DIR__ . '/wordpress/cart.php';
require __DIR__ . '/wordpress/location.php';
require __DIR__ . '/wordpress/network.php';
require __DIR__ . '/wordpress/bar.php';
require __DIR__ . '/wordpress/others.php';
require __DIR__ . '/wordpress/visitor.php';
if (isset($_SERVER['MILLRACE_MEMBERS'])) {
    unset($_SERVER['MILLRACE_MEMBERS']);
    require __DIR__ . '/wordpress/member.php';
}
if (Sql::begin()) {
    // The server's own request: nothing of it is a page.
    return;
}
if (function_exists('millrace_rewind_point')) {
    require __DIR__ . '/wordpress/rewind.php';
    require __DIR__ . '/wordpress/rewound-network.php';
    require __DIR__ . '/wordpress/rewound-shop.php';
    Rewind::announce();
}

Hooks::register();
