/*
 * What the site's own code reads of a request that may tell who its visitor is: for pages that members may share
 * (../inject/wordpress/member.php). The log-in cookie names the user; a field or another cookie may, too. WordPress itself reads them to
 * find out who asks, and the hooks watch who asks WordPress for that. Code that gets at cookies by itself - by $_COOKIE, HTTP_COOKIE,
 * getallheaders(), or by WordPress's functions that take a log-in cookie apart - needs nothing of that.
 *
 * observe.c sees the reads; those of fields are fields.c's.
 */
#include "worker.h"

#include <string.h>

#define NAMES_MOST 16u
#define NAME_MOST 64u

/* Of this request. */
static struct {
	bool noting, all;
	unsigned count;
	char names[NAMES_MOST][NAME_MOST + 1];
} identity;

/* Whether the frame runs one of WordPress's functions that take a log-in cookie apart. */
static bool takes_apart(const zend_execute_data *frame)
{
	return (observe_is_in(frame, "/wp-includes/pluggable.php") && (observe_runs(frame, "wp_parse_auth_cookie") || observe_runs(frame, "wp_validate_auth_cookie")))
		|| (observe_is_in(frame, "/wp-includes/user.php") && (observe_runs(frame, "wp_get_session_token") || observe_runs(frame, "wp_validate_logged_in_cookie")));
}

/* Whether the site's own code reads, by itself or by these functions. */
static bool is_of_site(const zend_execute_data *frame)
{
	frame = watch_frame(frame);
	while (frame && takes_apart(frame)) {
		frame = watch_frame(frame->prev_execute_data);
	}
	return !frame || observe_reader(frame) == BY_SITE;
}

/* A cookie is looked at. */
void identity_read_cookie(const char *name, size_t length, const zend_execute_data *frame)
{
	if (!identity.noting || identity.all || !is_of_site(frame)) {
		return;
	}
	for (unsigned i = 0; i < identity.count; i++) {
		if (strcmp(identity.names[i], name) == 0) {
			return;
		}
	}
	if (length > NAME_MOST || identity.count == NAMES_MOST) {
		identity.all = true;
		return;
	}
	memcpy(identity.names[identity.count++], name, length + 1);
}

/* All cookies are. */
void identity_read_all(const zend_execute_data *frame)
{
	identity.all |= identity.noting && is_of_site(frame);
}

/* Whether pages of this request may be for members. */
bool identity_concerns(void)
{
	return vars_find(ZEND_STRL("MILLRACE_MEMBERS")) != NULL;
}

void identity_begin(void)
{
	identity.noting = identity_concerns() && !observe_is_blind();
	identity.all = false;
	identity.count = 0;
}

/* What was read until now: `cookie NAME`, `session`, names of variables of $_SERVER as fields.c notes them. NULL: that can't be seen here. */
PHP_FUNCTION(millrace_identity_reads)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (!identity.noting) {
		RETURN_NULL();
	}
	array_init(return_value);
	if (identity.all) {
		add_next_index_string(return_value, "cookie *");
	}
	for (unsigned i = 0; i < identity.count; i++) {
		char text[sizeof "cookie " + NAME_MOST];
		snprintf(text, sizeof text, "cookie %s", identity.names[i]);
		add_next_index_string(return_value, text);
	}
	if (visitor_has_session()) {
		add_next_index_string(return_value, "session");
	}
	fields_list(return_value);
}
