/*
 * What the site's own code reads of a request that may tell who its visitor is: for pages that members may share
 * (../inject/wordpress/member.php). The log-in cookie names the user; a field or another cookie may, too. WordPress itself reads them to
 * find out who asks, and the hooks watch who asks WordPress for that. Code that gets at cookies by itself - by $_COOKIE, HTTP_COOKIE,
 * getallheaders(), or by WordPress's functions that take a log-in cookie apart - needs nothing of that.
 *
 * observe.c sees the reads; those of fields are fields.c's. What the site's code is told without asking is told.c's.
 *
 * WordPress keeps some of what it knows of the member in global variables, for old themes: each look at one of them counts.
 */
#include "worker.h"

#include <string.h>

#define NOTES_MOST 24u
#define NOTE_MOST 120u

/* Of this request. */
static struct {
	bool noting;
	bool is_reported; /* the hooks have asked what was read */
	unsigned count;
	char notes[NOTES_MOST][NOTE_MOST + 1];
} identity;

/* The hooks have reported: they hear of it at once. */
static void tell_hooks(const char *what)
{
	zval callback, argument, result;
	ZVAL_STRING(&callback, "Millrace\\WordPress\\Member::found");
	ZVAL_STRING(&argument, what);
	ZVAL_UNDEF(&result);
	zend_exception_save();
	if (zend_hash_str_exists(EG(class_table), ZEND_STRL("millrace\\wordpress\\member"))) {
		call_user_function(NULL, NULL, &callback, &result, 1, &argument);
	}
	zend_exception_restore();
	zval_ptr_dtor(&result);
	zval_ptr_dtor(&argument);
	zval_ptr_dtor(&callback);
}

/* Something was read by which the site's code may know who asks. */
void identity_note(const char *what)
{
	if (!identity.noting) {
		return;
	}
	for (unsigned i = 0; i < identity.count; i++) {
		if (strcmp(identity.notes[i], what) == 0) {
			return;
		}
	}
	/* The last place is for all. */
	const char *note = identity.count + 1 < NOTES_MOST && strlen(what) <= NOTE_MOST ? what : "cookie *";
	unsigned at = identity.count < NOTES_MOST ? identity.count++ : NOTES_MOST - 1;
	strcpy(identity.notes[at], note);
	if (identity.is_reported) {
		tell_hooks(note);
	}
}

/* A field was noted, which the hooks don't know of if they have reported before. */
void identity_note_field(const char *name)
{
	if (identity.noting && identity.is_reported) {
		tell_hooks(name);
	}
}

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
	if (identity.noting && is_of_site(frame)) {
		char what[NOTE_MOST + 2];
		snprintf(what, sizeof what, "cookie %s", length < NOTE_MOST - sizeof "cookie " ? name : "*");
		identity_note(what);
	}
}

/* All cookies are. */
void identity_read_all(const zend_execute_data *frame)
{
	if (identity.noting && is_of_site(frame)) {
		identity_note("cookie *");
	}
}

/* Whether WordPress keeps something of the member in such a global variable. */
bool identity_is_variable(const zend_string *name)
{
	static const char *const all[] = { "user_ID", "userdata", "user_login", "user_email", "user_url", "user_identity" };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (zend_string_equals_cstr(name, all[i], strlen(all[i]))) {
			return true;
		}
	}
	return false;
}

/* One is looked at. */
void identity_read_variable(const char *name, const zend_execute_data *frame)
{
	if (identity.noting && is_of_site(frame)) {
		identity_read_variable_in(name, NULL);
	}
}

/* The same, in this file; NULL: known to be the site's. */
void identity_read_variable_in(const char *name, const zend_string *file)
{
	if (identity.noting && !(file && (observe_is_core(file) || watch_is_hooks(file)))) {
		char what[NOTE_MOST];
		snprintf(what, sizeof what, "variable %.60s", name);
		identity_note(what);
	}
}

/* Whether pages of this request may be for members. */
bool identity_concerns(void)
{
	return vars_find(ZEND_STRL("MILLRACE_MEMBERS")) != NULL;
}

void identity_begin(void)
{
	identity.noting = identity_concerns() && !observe_is_blind();
	identity.is_reported = false;
	identity.count = 0;
	told_begin(identity.noting);
}

bool identity_is_noting(void)
{
	return identity.noting;
}

/* The script is over. */
void identity_free(void)
{
	identity.noting = false;
	told_free();
}

/* What was read until now: `cookie NAME`, `variable NAME`, `session`, names of variables of $_SERVER as fields.c notes them. NULL: that can't be seen here. */
PHP_FUNCTION(millrace_identity_reads)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (!identity.noting) {
		RETURN_NULL();
	}
	identity.is_reported = true;
	array_init(return_value);
	for (unsigned i = 0; i < identity.count; i++) {
		add_next_index_string(return_value, identity.notes[i]);
	}
	if (visitor_has_session()) {
		add_next_index_string(return_value, "session");
	}
	fields_list(return_value);
}
