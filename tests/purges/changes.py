"""The table of tests/purges: what is changed, how, and where visitors see it.

A row: name, ways, code or a function, page, text that the page has afterwards and not before, and how many pages are purged: ALL, NONE, or at
most that many of the 40. A text that begins with `!` is gone afterwards.

Ways: `admin` PHP code of an administrator's request, as pages of wp-admin and plugins run it; `form` a form of wp-admin; `REST`; `XML-RPC`; `cron`;
`command line` a PHP process outside of Millrace; `visitor` a request without a log-in. `{way}` in code and text is the way, so that each has a
text of its own. `SQL` is a plain SQL client: the code is SQL, and the change is seen soon, not at once."""

import dataclasses
from typing import Callable, Union

ALL, NONE = "all", 0
CLI, ADMIN, CRON, VISITOR, REST, XMLRPC, FORM, SQL = "command line", "admin", "cron", "visitor", "REST", "XML-RPC", "form", "SQL"


@dataclasses.dataclass
class Change:
    """One row, in one of its ways."""

    name: str
    ways: tuple
    do: Union[str, Callable]
    page: str
    text: str
    pages: object
    undo: str = ""


def post(name, kind="post"):
    return f'test_post("{name}", "{kind}")'


def edit(name, fields, kind="post"):
    return f'wp_update_post(["ID" => {post(name, kind)}, {fields}]);'


def row_of(name, kind="post"):
    """The condition of a post in SQL."""
    return f"post_name = '{name}' AND post_type = '{kind}'"


def field_of(name, key, kind="post"):
    """The condition of a field of a post in SQL."""
    return f"meta_key = '{key}' AND post_id = (SELECT ID FROM wp_posts WHERE {row_of(name, kind)})"


def option(name, value):
    return f'update_option("{name}", {value});'


def rows():
    """All of them, in the order in which they are played."""
    R = Change
    return [
        R("nothing", (ADMIN, VISITOR, CLI, CRON), "", "/post-1/", "", NONE),
        # The site.
        R("title of the site", (FORM,), lambda w: w.form("options-general.php", {"blogname": "NAME-form"}), "/post-1/", "NAME-form", ALL),
        R("title of the site", (REST,), lambda w: w.rest("settings", {"title": "NAME-rest"}), "/about/", "NAME-rest", ALL),
        R("title of the site", (XMLRPC,), lambda w: w.xmlrpc_option("blog_title", "NAME-xmlrpc"), "/product/thing-2/", "NAME-xmlrpc", ALL),
        R("title of the site", (CLI, CRON), option("blogname", '"NAME-{way}"'), "/post-2/", "NAME-{way}", ALL),
        R("tagline", (ADMIN, CLI), option("blogdescription", '"LINE-{way}"'), "/", "LINE-{way}", ALL),
        R("date format", (REST,), lambda w: w.rest("settings", {"date_format": "Y/m/d"}), "/post-1/", "2026/0", ALL),
        R("date format", (CLI,), option("date_format", '"Y.m.d"'), "/post-1/", "2026.0", ALL),
        R("time format", (CLI,), option("time_format", '"H-i-s"'), "/post-1/", "10-00-00", ALL),
        R("posts per page", (REST,), lambda w: w.rest("settings", {"posts_per_page": 3}), "/", "!Title 9<", ALL, undo=option("posts_per_page", "30")),
        R("language", (CLI,), option("WPLANG", '"de_DE"'), "/post-1/", 'lang="de-DE"', ALL, undo=option("WPLANG", '""')),
        R("time zone", (CLI,), option("timezone_string", '"Asia/Tokyo"'), "/post-1/", "", ALL),
        R("visible to search engines", (CLI,), option("blog_public", "0"), "/post-1/", "noindex", ALL, undo=option("blog_public", "1")),
        R("site icon", (ADMIN,), 'update_option("site_icon", wp_insert_attachment(["post_title" => "icon", "post_mime_type" => "image/png", "guid" => home_url("/icon.png")], "icon.png"));', "/post-1/", "", ALL),
        R("plugin switched on", (CLI,), 'activate_plugin("hello.php") ?? 1;', "/about/", "plugins 1", ALL),
        R("plugin switched off", (ADMIN,), 'deactivate_plugins("hello.php");', "/about/", "plugins 0", ALL),
        R("option of a plugin", (ADMIN, CLI, CRON), option("test_plugin", '"PLUGIN-{way}"'), "/post-4/", "PLUGIN-{way}", ALL),
        R("option that is not autoloaded", (ADMIN, CLI), option("test_quiet", '"QUIET-{way}"'), "/post-4/", "QUIET-{way}", ALL),
        R("bookkeeping of a plugin", (CRON, VISITOR), option("test_count_last_run", "uniqid()"), "/post-4/", "", NONE),
        R("transient", (CRON, VISITOR, CLI), 'set_transient("x", uniqid());', "/post-4/", "", NONE),
        R("title of the site", (SQL,), "UPDATE wp_options SET option_value = 'NAME-sql' WHERE option_name = 'blogname'", "/post-1/", "NAME-sql", ALL),
        R("option of a plugin", (SQL,), "UPDATE wp_options SET option_value = 'PLUGIN-sql' WHERE option_name = 'test_plugin'", "/post-4/", "PLUGIN-sql", ALL),
        R("option that is not autoloaded", (SQL,), "UPDATE wp_options SET option_value = 'QUIET-sql' WHERE option_name = 'test_quiet'", "/post-4/", "QUIET-sql", ALL),
        R("bookkeeping of a plugin", (SQL,), "UPDATE wp_options SET option_value = UUID() WHERE option_name = 'test_count_last_run'", "/post-4/", "", NONE),
        R("transient", (SQL,), "INSERT INTO wp_options (option_name, option_value) VALUES ('_transient_sql', UUID())", "/post-4/", "", NONE),
        # Design.
        R("theme mod", (CLI, ADMIN), 'set_theme_mod("motto", "MOTTO-{way}");', "/post-5/", "MOTTO-{way}", ALL),
        R("customizer", (ADMIN,), 'require_once ABSPATH . "wp-includes/class-wp-customize-manager.php"; $GLOBALS["wp_customize"] = $c = new WP_Customize_Manager(["changeset_uuid" => wp_generate_uuid4()]);'
            ' do_action("customize_register", $c); $c->set_post_value("blogdescription", "LINE-customizer"); $c->save_changeset_post(["status" => "publish"]);', "/post-5/", "LINE-customizer", ALL),
        R("additional CSS", (CLI,), 'wp_update_custom_css_post(".css-{way} { color: red }");', "/post-5/", "css-{way}", ALL),
        R("menu: item added", (CLI, ADMIN), 'wp_update_nav_menu_item(wp_get_nav_menu_object("main")->term_id, 0, ["menu-item-title" => "ITEM-{way}", "menu-item-url" => home_url("/x"), "menu-item-status" => "publish"]);', "/product/thing-2/", "ITEM-{way}", ALL),
        R("menu: item added", (REST,), lambda w: w.rest("menu-items", {"title": "ITEM-rest", "url": w.base + "/y", "status": "publish", "menus": w.ask_cli('echo wp_get_nav_menu_object("main")->term_id;')}), "/about/", "ITEM-rest", ALL),
        R("menu: item removed", (CLI,), 'wp_delete_post(get_posts(["post_type" => "nav_menu_item", "title" => "ITEM-rest", "post_status" => "any"])[0]->ID, true);', "/about/", "!ITEM-rest", ALL),
        R("widget: text", (CLI, ADMIN), option("widget_text", '[2 => ["title" => "WIDGET-{way}", "text" => "x"], "_multiwidget" => 1]'), "/post-6/", "WIDGET-{way}", 39),
        R("widget: text", (REST,), lambda w: w.rest("widgets/text-2", {"sidebar": "side", "instance": {"raw": {"title": "WIDGET-rest", "text": "x"}}}, method="PUT"), "/post-6/", "WIDGET-rest", 39),
        R("menu: item renamed", (SQL,), "UPDATE wp_posts SET post_title = 'ITEM-sql' WHERE post_type = 'nav_menu_item' AND post_title = 'To About'", "/post-6/", "ITEM-sql", ALL),
        R("menu: item renamed", (ADMIN, CLI), 'wp_update_post(["ID" => test_menu_item(), "post_title" => "RENAMED-{way}"]);', "/post-6/", "RENAMED-{way}", ALL),
        R("menu: order of items", (ADMIN, CLI), 'wp_update_post(["ID" => test_menu_item(), "menu_order" => 9{len}]);', "/post-6/", "", ALL),
        R("menu: taken from its place", (ADMIN, CLI), 'test_menu_places([]);', "/post-6/", "!RENAMED-", ALL, undo='test_menu_places(["main" => wp_get_nav_menu_object("main")->term_id]);'),
        R("menu: deleted", (ADMIN, CLI), 'wp_delete_nav_menu("main");', "/post-6/", "!RENAMED-", ALL, undo='test_menu("RENAMED-again");'),
        R("widget: text", (SQL,), """UPDATE wp_options SET option_value = 'a:2:{i:2;a:2:{s:5:"title";s:10:"WIDGET-sql";s:4:"text";s:1:"x";}s:12:"_multiwidget";i:1;}' WHERE option_name = 'widget_text'""", "/post-6/", "WIDGET-sql", 39),
        R("widget: moved away", (CLI,), 'wp_set_sidebars_widgets(["side" => [], "wp_inactive_widgets" => ["text-2"]]);', "/post-6/", "!WIDGET-sql", 39, undo='wp_set_sidebars_widgets(["side" => ["text-2"], "wp_inactive_widgets" => []]);'),
        R("block template", (CLI,), 'wp_insert_post(["post_type" => "wp_template", "post_name" => "t-{way}", "post_title" => "T", "post_content" => "x", "post_status" => "publish"]);', "/", "", ALL),
        R("global styles", (ADMIN,), 'wp_insert_post(["post_type" => "wp_global_styles", "post_name" => "s", "post_title" => "S", "post_content" => "{}", "post_status" => "publish"]);', "/", "", ALL),
        R("reusable block", (CLI,), edit("reused", '"post_content" => "REUSED-{way}"', "wp_block"), "/contact/", "REUSED-{way}", ALL),
        R("reusable block", (REST,), lambda w: w.rest(f"blocks/{w.id_of('reused', 'wp_block')}", {"content": "REUSED-rest"}), "/contact/", "REUSED-rest", ALL),
        R("form of a plugin", (ADMIN, CLI), 'wp_insert_post(["post_type" => "test_form", "post_title" => "F", "post_status" => "publish"]);', "/", "", ALL),
        R("theme", (CLI,), 'switch_theme("twentytwentyfour");', "/post-1/", "wp-site-blocks", ALL, undo='switch_theme("purges");'),
        R("file of the theme edited", (ADMIN,), 'do_action("wp_ajax_edit-theme-plugin-file");', "/", "", ALL),
        R("update of a plugin, a theme or a translation", (ADMIN, CRON, CLI), 'require_once ABSPATH . "wp-admin/includes/class-wp-upgrader.php"; do_action("upgrader_process_complete", new WP_Upgrader(), ["type" => "translation", "action" => "update", "translations" => []]);', "/", "", ALL),
        R("wp search-replace", (CLI,), '(WP_CLI::$hooks["after_invoke:search-replace"])();', "/", "", ALL),
        # What pages read beside their queries.
        R("post read by its number", (CLI, ADMIN), edit("far", '"post_content" => "FAR-{way}"', "page"), "/post-10/", "BY NUMBER FAR-{way}", 6),
        R("field read by a post's number", (CLI, ADMIN), f'update_post_meta({post("far", "page")}, "shade", "SHADE-{{way}}");', "/post-11/", "BY FIELD SHADE-{way}", 6),
        R("page read by its path", (CLI,), edit("contact", '"post_content" => "PATH-{way}"', "page"), "/post-12/", "BY PATH PATH-{way}", 6),
        R("post read by SQL of a plugin", (CLI,), edit("far", '"post_excerpt" => "FAR-SQL-{way}"', "page"), "/product/thing-2/", "BY SQL FAR-SQL-{way}", 6),
        R("post read before init", (CLI, ADMIN), edit("post-8", '"post_content" => "SOON-{way}"'), "/post-7/", "EARLY SOON-{way}", 12),
        R("field read by a term's number", (CLI,), 'update_term_meta(get_option("test_term"), "hue", "HUE-{way}");', "/author/leaver/", "TERM HUE-{way}", 4),
        R("user read by a name", (CLI,), 'wp_update_user(["ID" => get_user_by("login", "writer")->ID, "user_url" => "http://url-{way}"]);', "/author/leaver/", "USER http://url-", 20),
        R("table of a plugin", (ADMIN, CLI), 'global $wpdb; $wpdb->update("wp_test_slides", ["text" => "SLIDE-{way}"], ["id" => 1]);', "/post-8/", "SLIDES SLIDE-{way}", ALL),
        R("table of a plugin", (CRON, VISITOR), 'global $wpdb; $wpdb->update("wp_test_slides", ["text" => uniqid()], ["id" => 1]);', "/post-8/", "", NONE),
        R("log of a plugin in a table", (ADMIN, CLI), 'global $wpdb; $wpdb->query("REPLACE INTO `wp_test_logs` VALUES (1, \'x\')");', "/", "", NONE),
        # Posts.
        R("post: title", (REST,), lambda w: w.rest(f"posts/{w.id_of('post-1')}", {"title": "TITLE-rest"}), "/post-1/", "TITLE-rest", 12),
        R("post: title", (XMLRPC,), lambda w: w.xmlrpc_post(w.id_of("post-1"), "post_title", "TITLE-xmlrpc"), "/category/stones/", "TITLE-xmlrpc", 12),
        R("post: title", (CLI, ADMIN), edit("post-11", '"post_title" => "TITLE-{way}"'), "/feed/", "TITLE-{way}", 14),
        R("post: text", (ADMIN, CLI), edit("post-11", '"post_content" => "TEXT-{way}"'), "/post-11/", "TEXT-{way}", 14),
        R("post: excerpt", (CLI,), edit("post-11", '"post_excerpt" => "EXCERPT-{way}"'), "/", "EXCERPT-{way}", 14),
        R("post: field", (ADMIN, CLI, CRON), f'update_post_meta({post("post-5")}, "color", "COLOR-{{way}}");', "/post-5/", "COLOR-{way}", 8),
        R("post: counter of visits", (VISITOR, CRON), f'update_post_meta({post("post-5")}, "post_views", uniqid());', "/post-5/", "", NONE),
        R("post: lock of an editor", (ADMIN,), f'wp_set_post_lock({post("post-5")});', "/post-5/", "", NONE),
        R("post: autosave", (ADMIN,), f'wp_create_post_autosave(["post_ID" => {post("post-5")}, "post_title" => "auto", "post_content" => "auto", "post_excerpt" => "", "post_type" => "post"]);', "/post-5/", "", NONE),
        R("post: picture set", (CLI,), f'$a = wp_insert_attachment(["post_title" => "pic", "post_mime_type" => "image/png"], "2026/01/PIC-A.png"); wp_update_attachment_metadata($a, ["width" => 9, "height" => 9, "file" => "2026/01/PIC-A.png"]); set_post_thumbnail({post("post-5")}, $a);', "/post-5/", "PIC-A.png", 8),
        R("picture: replaced", (CLI,), f'$a = get_post_thumbnail_id({post("post-5")}); update_attached_file($a, "2026/01/PIC-B.png"); wp_update_attachment_metadata($a, ["width" => 8, "height" => 8, "file" => "2026/01/PIC-B.png"]);', "/post-5/", "PIC-B.png", 8),
        R("picture: alternative text", (CLI,), f'update_post_meta(get_post_thumbnail_id({post("post-5")}), "_wp_attachment_image_alt", "ALT-{{way}}");', "/post-5/", "ALT-{way}", 8),
        R("picture: deleted", (CLI,), f'wp_delete_attachment(get_post_thumbnail_id({post("post-5")}), true);', "/post-5/", "!PIC-B.png", 8),
        R("post: title", (SQL,), f"UPDATE wp_posts SET post_title = 'TITLE-sql' WHERE {row_of('post-11')}", "/category/stones/", "TITLE-sql", 14),
        R("post: text", (SQL,), f"UPDATE wp_posts SET post_content = 'TEXT-sql' WHERE {row_of('post-11')}", "/post-11/", "TEXT-sql", 14),
        R("post: excerpt", (SQL,), f"UPDATE wp_posts SET post_excerpt = 'EXCERPT-sql' WHERE {row_of('post-11')}", "/", "EXCERPT-sql", 14),
        R("post: field", (SQL,), f"UPDATE wp_postmeta SET meta_value = 'COLOR-sql' WHERE {field_of('post-5', 'color')}", "/post-5/", "COLOR-sql", 8),
        R("post: lock of an editor", (SQL,), "INSERT INTO wp_postmeta (post_id, meta_key, meta_value) SELECT ID, '_edit_lock', UUID() FROM wp_posts WHERE post_name = 'post-5'", "/post-5/", "", NONE),
        R("post: author", (SQL,), f"UPDATE wp_posts SET post_author = 1 WHERE {row_of('post-5')}", "/post-5/", "by Keeper", ALL),
        R("post: unpublished", (SQL,), f"UPDATE wp_posts SET post_status = 'draft' WHERE {row_of('post-12')}", "/category/wheels/", "!Title 12<", 20),
        R("post: published again", (SQL,), f"UPDATE wp_posts SET post_status = 'publish' WHERE {row_of('post-12')}", "/category/wheels/", "Title 12<", 30),
        R("post: sticky", (REST,), lambda w: w.rest(f"posts/{w.id_of('post-2')}", {"sticky": True}), "/", "STICKY", 30),
        R("post: sticky no more", (CLI,), f'unstick_post({post("post-2")});', "/", "!STICKY", 30),
        R("post: author", (CLI,), edit("post-7", '"post_author" => get_user_by("login", "leaver")->ID'), "/author/leaver/", "Title 7", 20),
        R("post: password", (CLI,), edit("post-7", '"post_password" => "secret"'), "/post-7/", "!Text 7", 14, undo=edit("post-7", '"post_password" => ""')),
        R("post: unpublished", (CLI,), edit("post-8", '"post_status" => "draft"'), "/category/wheels/", "!Title 8", 20),
        R("post: published again", (REST,), lambda w: w.rest(f"posts/{w.ask_cli(GET_DRAFT)}", {"status": "publish"}), "/category/wheels/", "Title 8", 30),
        R("post: trashed", (REST,), lambda w: w.rest(f"posts/{w.id_of('post-10')}", {}, method="DELETE"), "/category/wheels/", "!Title 10", 30),
        R("post: deleted", (CLI,), f'wp_delete_post({post("post-9")}, true);', "/category/stones/", "!Title 9", 30),
        R("post: new", (ADMIN, CLI), 'wp_insert_post(["post_title" => "NEW-{way}", "post_content" => "n", "post_status" => "publish"]);', "/", "NEW-{way}", 30),
        R("post: new", (REST,), lambda w: w.rest("posts", {"title": "NEW-rest", "content": "n", "status": "publish"}), "/feed/", "NEW-rest", 30),
        R("post: new", (XMLRPC,), lambda w: w.xmlrpc_new("NEW-xmlrpc"), "/", "NEW-xmlrpc", 30),
        R("post: scheduled", (CLI,), 'wp_insert_post(["post_title" => "DUE-POST", "post_content" => "n", "post_status" => "future", "post_date" => gmdate("Y-m-d H:i:s", time() + 864000)]);', "/", "", 30),
        R("post: due", (CRON,), 'wp_publish_post(get_posts(["post_status" => "future"])[0]->ID);', "/", "DUE-POST", 30),
        R("page: title in a list of pages", (CLI,), edit("contact", '"post_title" => "CONTACT-{way}"', "page"), "/about/", "CONTACT-{way}", 8),
        # Terms, comments, users.
        R("category: name", (REST,), lambda w: w.rest(f"categories/{w.ask_cli(GET_STONES)}", {"name": "STONES-rest"}), "/post-1/", "STONES-rest", 20),
        R("category: description", (CLI,), 'wp_update_term(get_category_by_slug("stones")->term_id, "category", ["description" => "ABOUT-{way}"]);', "/category/stones/", "ABOUT-{way}", 20),
        R("category: field", (ADMIN, CLI, CRON), 'update_term_meta(get_category_by_slug("stones")->term_id, "color", "SHADE-{way}");', "/category/stones/", "SHADE-{way}", 20),
        R("category: counter of visits", (VISITOR, CRON), 'update_term_meta(get_category_by_slug("stones")->term_id, "visits", uniqid());', "/category/stones/", "", NONE),
        R("category: new", (CLI,), 'wp_insert_term("CAT-{way}", "category");', "/", "", 8),
        R("category: given to a post", (CLI,), f'wp_set_post_terms({post("post-4")}, [get_category_by_slug("stones")->term_id], "category", true);', "/post-4/", "STONES-rest", 20),
        R("category: name", (SQL,), "UPDATE wp_terms SET name = 'STONES-sql' WHERE slug = 'stones'", "/post-11/", "STONES-sql", 20),
        R("category: taken from a post", (SQL,), f"DELETE FROM wp_term_relationships WHERE object_id = (SELECT ID FROM wp_posts WHERE {row_of('post-6')})", "/post-6/", "!in <a", ALL),
        R("category: deleted", (CLI,), 'wp_delete_term(get_category_by_slug("stones")->term_id, "category");', "/post-1/", "!STONES-sql", 20),
        R("comment: approved", (REST,), lambda w: w.rest(f"comments/{w.ask_cli(GET_COMMENT)}", {"status": "approved"}), "/post-3/", "COMMENT-WAITS", 8),
        R("comment: edited", (CLI,), 'wp_update_comment(["comment_ID" => get_comments(["search" => "COMMENT-WAITS"])[0]->comment_ID, "comment_content" => "COMMENT-{way}"]);', "/post-3/", "COMMENT-{way}", 8),
        R("comment: stars", (CLI, ADMIN), 'update_comment_meta(get_comments(["search" => "COMMENT-"])[0]->comment_ID, "rating", "RATED-{way}");', "/post-3/", "RATED-{way}", 8),
        R("comment: edited", (SQL,), "UPDATE wp_comments SET comment_content = 'COMMENT-sql' WHERE comment_approved = '1' AND comment_post_ID = (SELECT ID FROM wp_posts WHERE post_name = 'post-3') LIMIT 1", "/post-3/", "COMMENT-sql", 8),
        R("comment: a visitor likes it", (VISITOR,), 'update_comment_meta(get_comments(["search" => "COMMENT-"])[0]->comment_ID, "likes", uniqid());', "/post-3/", "", NONE),
        R("comment: spam", (CLI,), 'wp_spam_comment(get_comments(["search" => "COMMENT-"])[0]->comment_ID);', "/post-3/", "!COMMENT-", 8),
        R("comment: by a visitor", (VISITOR,), lambda w: w.comment("post-6", "COMMENT-visitor"), "/post-6/", "COMMENT-visitor", 8),
        R("comment: deleted", (ADMIN,), 'wp_delete_comment(get_comments(["search" => "COMMENT-visitor"])[0]->comment_ID, true);', "/post-6/", "!COMMENT-visitor", 8),
        R("user: display name", (REST,), lambda w: w.rest(f"users/{w.ask_cli(GET_WRITER)}", {"name": "WRITER-rest"}), "/post-4/", "WRITER-rest", 20),
        R("user: display name", (CLI,), 'wp_update_user(["ID" => get_user_by("login", "writer")->ID, "display_name" => "WRITER-{way}"]);', "/author/writer/", "WRITER-{way}", 20),
        R("user: display name", (SQL,), "UPDATE wp_users SET display_name = 'WRITER-sql' WHERE user_login = 'writer'", "/post-1/", "WRITER-sql", 20),
        R("user: biography", (SQL,), "UPDATE wp_usermeta SET meta_value = 'BIO-sql' WHERE meta_key = 'description' AND user_id = (SELECT ID FROM wp_users WHERE user_login = 'writer')", "/post-1/", "BIO-sql", 20),
        R("user: biography", (CLI,), 'update_user_meta(get_user_by("login", "writer")->ID, "description", "BIO-{way}");', "/post-4/", "BIO-{way}", 20),
        R("user: picture of a plugin", (ADMIN, CLI), 'update_user_meta(get_user_by("login", "writer")->ID, "avatar_file", "AVATAR-{way}");', "/post-4/", "AVATAR-{way}", 20),
        R("user: logs in", (ADMIN,), 'update_user_meta(1, "session_tokens", [uniqid() => 1]); update_user_meta(1, "last_login", uniqid());', "/post-1/", "", NONE),
        R("user: new customer", (VISITOR,), 'wp_insert_user(["user_login" => uniqid(), "user_pass" => uniqid(), "role" => "subscriber"]);', "/", "", NONE),
        R("user: deleted, posts go to another", (CLI,), 'wp_delete_user(get_user_by("login", "leaver")->ID, 1);', "/post-2/", "by Keeper", ALL),
        # The shop.
        R("shop: currency", (ADMIN, CLI, CRON), option("woocommerce_currency", '"CUR-{way}"'), "/product/thing-1/", "CUR-{way}", ALL),
        R("shop: decimals", (CLI,), option("woocommerce_price_num_decimals", '"DEC-{way}"'), "/product/thing-1/", "DEC-{way}", ALL),
        R("shop: price suffix", (CRON,), option("woocommerce_price_display_suffix", '"SUFFIX-{way}"'), "/product/thing-1/", "SUFFIX-{way}", ALL),
        R("shop: taxes on", (CLI,), option("woocommerce_calc_taxes", '"TAX-{way}"'), "/product/thing-1/", "TAX-{way}", ALL),
        R("shop: tax rate", (ADMIN, CLI), 'do_action("woocommerce_tax_rate_added", 1, []);', "/", "", ALL),
        R("shop: shipping zone", (ADMIN,), 'do_action("woocommerce_after_shipping_zone_object_save", null, null);', "/", "", ALL),
        R("shop: store notice", (CLI,), option("woocommerce_demo_store_notice", '"NOTICE-{way}"'), "/product/thing-1/", "NOTICE-{way}", ALL),
        R("shop: coming soon", (CLI, ADMIN), option("woocommerce_coming_soon", '"yes"'), "/shop/", "", ALL, undo=option("woocommerce_coming_soon", '"no"')),
        R("shop: session of a visitor", (VISITOR,), option("_wc_session_x", "uniqid()"), "/shop/", "", NONE),
        R("product: price", (ADMIN, CLI, CRON), 'test_set("thing-1", ["_price" => "77{len}"], ["regular_price", "price"]);', "/product/thing-1/", "price: 77{len}", 30),
        R("product: price", (CLI,), 'test_set("thing-8", ["_price" => "8855"], ["price"]);', "/product/thing-1/", "88.55", 30),
        R("product: sale begins", (CRON,), f'update_post_meta({post("thing-5", "product")}, "_price", "5511"); do_action("wc_after_products_starting_sales", [{post("thing-5", "product")}]);', "/product/thing-5/", "price: 5511", 30),
        R("product: sale ends", (CRON,), f'update_post_meta({post("thing-5", "product")}, "_price", "6622"); do_action("wc_after_products_ending_sales", [{post("thing-5", "product")}]);', "/product/thing-5/", "price: 6622", 30),
        R("product: price of a variation", (CRON, CLI), f'$v = wp_insert_post(["post_type" => "product_variation", "post_status" => "publish", "post_title" => "v", "post_parent" => {post("thing-6", "product")}]); do_action("woocommerce_product_object_updated_props", new Test_Product($v), ["price"]);', "/product/thing-6/", "", 30),
        R("product: stock, by an editor", (ADMIN, CLI), 'test_set("thing-7", ["_stock" => "31{len}"], ["stock_quantity"]);', "/product/thing-7/", "stock: 31{len}", 30),
        R("product: name", (ADMIN, CLI), edit("thing-9", '"post_title" => "PRODUCT-{way}"', "product"), "/product/thing-9/", "PRODUCT-{way}", 40),
        R("product: new", (CLI,), 'wp_insert_post(["post_type" => "product", "post_status" => "publish", "post_title" => "AAA-PRODUCT"]);', "/shop/", "61 products", 40),
        R("product: category renamed", (CLI,), 'wp_update_term(get_term_by("name", "Wheels", "product_cat")->term_id, "product_cat", ["name" => "WHEELS-{way}"]);', "/product/thing-4/", "WHEELS-{way}", 40),
        R("product: attribute", (ADMIN,), 'do_action("woocommerce_attribute_updated", 1, [], "x");', "/", "", ALL),
        R("product: price", (SQL,), f"UPDATE wp_postmeta SET meta_value = '4455' WHERE {field_of('thing-3', '_price', 'product')}", "/product/thing-3/", "price: 4455", 30),
        R("product: stock", (SQL,), f"UPDATE wp_postmeta SET meta_value = '3344' WHERE {field_of('thing-7', '_stock', 'product')}", "/product/thing-7/", "stock: 3344", 30),
        R("product: name", (SQL,), f"UPDATE wp_posts SET post_title = 'PRODUCT-sql' WHERE {row_of('thing-9', 'product')}", "/product/thing-9/", "PRODUCT-sql", 40),
        R("product: sales", (SQL,), f"UPDATE wp_postmeta SET meta_value = meta_value + 1 WHERE {field_of('thing-7', 'total_sales', 'product')}", "/product/thing-7/", "", NONE),
        R("shop: currency", (SQL,), "UPDATE wp_options SET option_value = 'CUR-sql' WHERE option_name = 'woocommerce_currency'", "/product/thing-1/", "CUR-sql", ALL),
        R("order: product whose stock is managed", (VISITOR, CLI), 'test_order("thing-11", {len});', "/product/thing-11/", "", 8),
        R("order: product whose stock is not managed", (VISITOR,), 'test_order("thing-12");', "/product/thing-12/", "", NONE),
        R("shop: stock is not shown", (CLI,), option("woocommerce_stock_format", '"no_amount"'), "/", "", ALL),
        R("order: product whose stock is managed, but not shown", (VISITOR, CLI), 'test_order("thing-11", {len});', "/product/thing-11/", "", NONE),
        R("order: status", (ADMIN, CLI), '$o = wp_insert_post(["post_type" => "shop_order", "post_title" => "O", "post_status" => "wc-processing"]); wp_update_post(["ID" => $o, "post_status" => "wc-completed"]); wp_insert_comment(["comment_post_ID" => $o, "comment_type" => "order_note", "comment_content" => "n", "comment_approved" => 1]);', "/", "", NONE),
        R("coupon: new", (ADMIN, CLI), 'wp_insert_post(["post_type" => "shop_coupon", "post_title" => "C", "post_status" => "publish"]);', "/", "", NONE),
        R("cart: added to", (VISITOR,), lambda w: w.post("/product/thing-13/", {"add-to-cart": w.id_of("thing-13", "product")}), "/product/thing-13/", "", NONE),
        R("order: placed in the shop", (VISITOR,), lambda w: w.order(), "/product/thing-13/", "", NONE),
        # What is last changes addresses.
        R("permalinks", (CLI,), 'global $wp_rewrite; $wp_rewrite->set_permalink_structure("/p/%postname%/"); flush_rewrite_rules();', "/", "/p/new-", ALL),
    ]


GET_DRAFT = 'echo get_posts(["post_status" => "draft"])[0]->ID;'
GET_STONES = 'echo get_category_by_slug("stones")->term_id;'
GET_COMMENT = 'echo get_comments(["search" => "COMMENT-WAITS"])[0]->comment_ID;'
GET_WRITER = 'echo get_user_by("login", "writer")->ID;'
