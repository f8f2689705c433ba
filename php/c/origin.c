/*
 * Where a script forbids to store its page: the call that sets a cookie, or a Cache-Control that forbids it. People see it in
 * `millrace cache explain`, to find the plugin. Other header fields cost a comparison of their names.
 *
 * The text of a note: `cookie NAME by FILE:LINE` or `cache-control by FILE:LINE` (crates/pages/src/judge/grounds.rs).
 */
#include "worker.h"

#include <string.h>
#include <strings.h>

/* Longest name of a cookie, and longest path, in a note. */
#define NAME_MAX_SHOWN 80
#define PATH_MAX_SHOWN 400

/* WordPress's plugins and themes: what WordPress itself does for them is theirs. */
#define PLUGINS "/wp-content/"

/* The call to show: the innermost one of a plugin or theme, or else the innermost one; NULL: no script is running. */
static const zend_execute_data *caller(void)
{
	const zend_execute_data *innermost = NULL;
	for (const zend_execute_data *call = EG(current_execute_data); call; call = call->prev_execute_data) {
		if (!call->func || !ZEND_USER_CODE(call->func->type)) {
			continue;
		}
		innermost = innermost ? innermost : call;
		if (strstr(ZSTR_VAL(call->func->op_array.filename), PLUGINS)) {
			return call;
		}
	}
	return innermost;
}

static void say(const char *what, const char *name, size_t length)
{
	const zend_execute_data *call = caller();
	if (!call) {
		return;
	}
	const zend_op_array *code = &call->func->op_array;
	const char *file = ZSTR_VAL(code->filename);
	if (ZSTR_LEN(code->filename) > PATH_MAX_SHOWN || strpbrk(file, "\r\n")) {
		return;
	}
	uint32_t line = call->opline ? call->opline->lineno : code->line_start;
	char text[PATH_MAX_SHOWN + NAME_MAX_SHOWN + 64];
	int shown = (int)(length < NAME_MAX_SHOWN ? length : NAME_MAX_SHOWN);
	int written = snprintf(text, sizeof text, "%s%.*s by %s:%u", what, shown, name, file, line);
	if (written > 0 && (size_t)written < sizeof text) {
		wire_note(MR_NOTE_ORIGIN, text, (size_t)written);
	}
}

/* Whether a Cache-Control forbids a shared cache to store the response. */
static bool forbids(const char *value)
{
	return strcasestr(value, "no-store") || strcasestr(value, "private") || strcasestr(value, "no-cache");
}

int origin_header(sapi_header_struct *field, sapi_header_op_enum operation, sapi_headers_struct *fields)
{
	(void)fields;
	bool sets = operation == SAPI_HEADER_ADD || operation == SAPI_HEADER_REPLACE;
	if (!sets || !field->header || !worker || worker->answer != ANSWER_WAITING) {
		return SAPI_HEADER_ADD;
	}
	if (strncasecmp(field->header, "Set-Cookie:", 11) == 0) {
		const char *name = field->header + 11;
		name += strspn(name, " ");
		say("cookie ", name, strcspn(name, "=; \r\n"));
	} else if (strncasecmp(field->header, "Cache-Control:", 14) == 0 && forbids(field->header + 14)) {
		say("cache-control", "", 0);
	}
	return SAPI_HEADER_ADD;
}
