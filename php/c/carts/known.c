/*
 * Names of WooCommerce's own functions, in lower case. That a function has such a name is not enough: it has to be in WooCommerce's folder
 * (reads.c).
 */
#include "carts.h"

#include <string.h>

struct known { const char *class, *name; };

/*
 * Classes whose objects hold the state of a cart, a session and a customer. Those that extend one of them count as well.
 */
static const char *const watched[] = {
	"wc_cart", "wc_legacy_cart", "wc_cart_session", "wc_cart_fees", "wc_cart_totals", "wc_session", "wc_session_handler", "wc_customer", "wc_legacy_customer",
	"wc_customer_data_store_session",
};

/*
 * Methods of these objects that WordPress's hooks call, and that only keep the state up to date: they print nothing and give nothing back.
 */
static const struct known maintenance[] = {
	{ "wc_cart_session", "get_cart_from_session" }, { "wc_cart_session", "destroy_cart_session" }, { "wc_cart_session", "set_session" },
	{ "wc_cart_session", "persistent_cart_update" }, { "wc_cart_session", "persistent_cart_destroy" }, { "wc_cart_session", "maybe_set_cart_cookies" },
	{ "wc_cart_session", "clean_up_removed_cart_contents" },
	{ "wc_cart", "calculate_totals" }, { "wc_cart", "check_cart_items" }, { "wc_cart", "check_cart_coupons" }, { "wc_cart", "check_customer_coupons" },
	{ "wc_session_handler", "save_data" }, { "wc_session_handler", "set_customer_session_cookie" }, { "wc_session_handler", "maybe_set_customer_session_cookie" },
	{ "wc_session_handler", "destroy_session" }, { "wc_session_handler", "cleanup_sessions" },
	/* The session's own nonces; what they do to a page is known (Cart::nonce in ../../inject/wordpress/cart.php). */
	{ "wc_session_handler", "maybe_update_nonce_user_logged_out" }, { "wc_session_handler", "nonce_user_logged_out" },
	{ "wc_customer", "save" },
};

/*
 * Functions that read the state without its getting into the page, or that give what is the same for each visitor with a pass as for a
 * stranger (Cart::held in ../../inject/wordpress/cart.php), or that print what the browser fills in by itself: of such an element it makes no
 * difference what was in it, and that the page has it filled in is what the comparison shows (crates/pages/src/carts).
 */
static const struct known keepers[] = {
	/* The objects are made. */
	{ NULL, "wc_load_cart" }, { "woocommerce", "init" }, { "woocommerce", "initialize_session" }, { "woocommerce", "initialize_cart" },
	/* A cart whose order was paid is emptied, the customer's address is saved: by hooks of each page. */
	{ NULL, "wc_clear_cart_after_payment" }, { "wc_data", "save" },
	/* A visitor with a pass has no notices. */
	{ NULL, "wc_notice_count" }, { NULL, "wc_has_notice" }, { NULL, "wc_get_notices" }, { NULL, "wc_print_notices" }, { NULL, "wc_add_notice" },
	{ NULL, "wc_set_notices" }, { NULL, "wc_clear_notices" }, { "hydration", "cache_store_notices" }, { "hydration", "restore_cached_store_notices" },
	/* The taxes are those of a stranger, and so is the currency; so is the exemption from VAT. */
	{ "wc_tax", "get_rates" }, { NULL, "wc_get_price_including_tax" }, { "wc_product_variable_data_store_cpt", "get_price_hash" },
	{ NULL, "get_woocommerce_currency" },
	/* <link rel="prefetch">, which shows nothing. */
	{ "assetscontroller", "add_resource_hints" },
	/* The browser fills it in. */
	{ NULL, "woocommerce_mini_cart" }, { "minicart", "render" }, { "minicart", "render_mini_cart_overlay" }, { "minicart", "enqueue_data" }, { "minicart", "print_lazy_load_scripts" }, { "productbutton", "render" },
	{ "blockssharedstate", "register_cart_interactivity" }, { "blockssharedstate", "load_cart_state" },
};

/* Functions of PHP and WordPress that give back another value, keep nothing of their arguments, and print nothing. */
static const char *const converters[] = {
	"sprintf", "number_format", "intval", "floatval", "strval", "strip_tags", "htmlspecialchars", "round", "max", "min", "trim", "count",
	"absint", "__return_true", "__return_false", "__return_zero", "__return_null", "__return_empty_array", "__return_empty_string",
};

/* Others, of WordPress and WooCommerce, too, that make text of their arguments, and keep nothing of them. */
static const char *const printers[] = {
	"printf",
	"__", "_e", "_n", "_x", "_nx", "esc_html", "esc_html__", "esc_html_e", "esc_html_x", "esc_attr", "esc_attr__", "esc_attr_e", "esc_attr_x", "esc_url",
	"wp_kses", "wp_kses_post", "wp_kses_data", "wp_strip_all_tags", "number_format_i18n", "wc_price", "home_url", "get_theme_mod", "get_option",
	"wc_get_page_permalink",
};

/*
 * Hooks of WooCommerce's that tell plugins nothing of the visitor: how long a session lives, what its cookie is called; and those of WooCommerce::init(), which has
 * no arguments for them and always calls both.
 */
static const char *const stateless[] = { "before_woocommerce_init", "woocommerce_init", "wc_session_expiring", "wc_session_expiration", "wc_session_use_secure_cookie", "woocommerce_cookie", "woocommerce_session_handler" };

static bool is(const zend_string *text, const char *known)
{
	return text && zend_binary_strcasecmp(ZSTR_VAL(text), ZSTR_LEN(text), known, strlen(known)) == 0;
}

/* The last part of a name with a namespace. */
static bool ends_with(const zend_string *text, const char *known)
{
	size_t length = strlen(known);
	if (!text || ZSTR_LEN(text) < length) {
		return false;
	}
	const char *end = ZSTR_VAL(text) + ZSTR_LEN(text) - length;
	return zend_binary_strcasecmp(end, length, known, length) == 0 && (end == ZSTR_VAL(text) || end[-1] == '\\');
}

static bool contains(const struct known *all, size_t count, const zend_string *class, const zend_string *name)
{
	for (size_t i = 0; i < count; i++) {
		if (is(name, all[i].name) && (all[i].class ? ends_with(class, all[i].class) : !class)) {
			return true;
		}
	}
	return false;
}

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Whether objects of this class hold such state; also the name of a class that another one extends. */
bool known_is_watched(const zend_string *class)
{
	for (size_t i = 0; i < COUNT(watched); i++) {
		if (ends_with(class, watched[i])) {
			return true;
		}
	}
	return false;
}

bool known_is_maintenance(const zend_string *class, const zend_string *name)
{
	return contains(maintenance, COUNT(maintenance), class, name);
}

/* Whether what such a function reads may be left out. */
bool known_is_keeper(const zend_string *class, const zend_string *name)
{
	return contains(keepers, COUNT(keepers), class, name);
}

static bool is_one_of(const zend_string *name, const char *const *all, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (is(name, all[i])) {
			return true;
		}
	}
	return false;
}

/* Whether a hook may call this function of PHP or WordPress without telling anybody what it is given. */
bool known_is_converter(const zend_string *name)
{
	return is_one_of(name, converters, COUNT(converters));
}

bool known_is_printer(const zend_string *name)
{
	return known_is_converter(name) || is_one_of(name, printers, COUNT(printers));
}

bool known_is_stateless(const char *hook)
{
	for (size_t i = 0; i < COUNT(stateless); i++) {
		if (strcmp(hook, stateless[i]) == 0) {
			return true;
		}
	}
	return false;
}
