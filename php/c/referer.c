/*
 * WooCommerce looks at the Referer of each page: its task "Launch your store" asks whether the visitor comes from a preview of the shop, which is whether
 * the Referer's query has `site-preview`. Then it redirects; of any other Referer nothing gets into the page. Without an exception each page of
 * a shop would be a page for each Referer.
 *
 * The read counts as nothing only if all of this is certain: the function has a text that was read (rewind/functions/known), WordPress's own functions
 * lie between it and the read, no hook of theirs gives the Referer to others, and this Referer is none of a preview, whatever WordPress removes from it.
 */
#include "rewind/rewind.h"

#include <string.h>

static const char field[] = "HTTP_REFERER";

/* A function of WordPress that plugins may replace: whether it is its own. */
static bool is_own(const char *name)
{
	const zend_function *function = zend_hash_str_find_ptr(EG(function_table), name, strlen(name));
	return function && ZEND_USER_CODE(function->type) && observe_is_core(function->op_array.filename);
}

/* WordPress removes letters of a URL that can't be in one, and `%0d`. */
static bool may_be_of_preview(const struct variable *referer)
{
	const char *query = memchr(referer->value, '?', referer->value_length);
	size_t length = query ? (size_t)(referer->value + referer->value_length - query) : 0;
	for (size_t i = 0; i < length; i++) {
		bool is_odd = query[i] <= ' ' || query[i] >= 0x7f || strchr("\"'<>\\^`{|}", query[i]) || (query[i] == '%' && i + 1 < length && query[i + 1] == '0');
		if (is_odd) {
			return true;
		}
	}
	return query && zend_memnstr(query, ZEND_STRL("preview"), query + length);
}

bool referer_is_left_out(const char *name, const zend_execute_data *frame)
{
	if (strcmp(name, field) != 0 || !observe_runs(frame, "wp_get_raw_referer") || observe_reader(frame) != BY_CORE) {
		return false;
	}
	const zend_execute_data *caller = watch_frame(frame->prev_execute_data);
	if (!caller || !observe_runs(caller, "wp_get_referer") || observe_reader(caller) != BY_CORE) {
		return false;
	}
	const zend_execute_data *task = watch_frame(caller->prev_execute_data);
	const struct variable *referer = vars_find(field, sizeof field - 1);
	return task && (!referer || !may_be_of_preview(referer)) && is_own("wp_validate_redirect") && is_own("wp_sanitize_redirect")
		&& !observe_is_hooked("allowed_redirect_hosts") && excepted_read(task->func, field);
}
