/*
 * The functions with which a script talks to the page cache; ../stubs/millrace.php describes them. They take the grammar of
 * the response fields Millrace-Cache-Control, Millrace-Tag and Millrace-Purge; unlike header fields they also work after
 * output has begun. A script that does not call them pays nothing.
 */
#include "worker.h"

#include <Zend/zend_smart_str.h>
#include <string.h>

/*
 * Whether the running request can still send this note: a purge until the script ends, the others until its response ends.
 */
static bool heard(uint16_t what)
{
	return worker && (worker->answer == ANSWER_WAITING || worker->answer == ANSWER_CONTENT
		|| (worker->answer == ANSWER_ENDED && what == MR_NOTE_PURGE));
}

/* Why a string can't be part of a list, or NULL. */
static const char *fault(const zend_string *text, bool list)
{
	const char *bytes = ZSTR_VAL(text);
	if (ZSTR_LEN(text) == 0) {
		return "cannot be empty";
	}
	for (size_t i = 0; i < ZSTR_LEN(text); i++) {
		if ((unsigned char)bytes[i] < 0x20 || bytes[i] == 0x7f) {
			return "must not contain control characters such as CR, LF and NUL";
		}
	}
	if (list && memchr(bytes, ',', ZSTR_LEN(text))) {
		return "must not contain a comma, pass each item as an argument of its own (in a path it is written %2C)";
	}
	if (list && (bytes[0] == ' ' || bytes[ZSTR_LEN(text) - 1] == ' ')) {
		return "must not begin or end with a space";
	}
	return NULL;
}

/* Joins the arguments with commas, each taken as PHP itself takes a `string`; false: an exception was thrown. */
static bool join(zval *items, uint32_t count, bool tags, smart_str *list)
{
	for (uint32_t i = 0; i < count; i++) {
		zend_string *item;
		if (!zend_parse_arg_str(&items[i], &item, false, i + 1)) {
			zend_argument_type_error(i + 1, "must be of type string, %s given", zend_zval_type_name(&items[i]));
			return false;
		}
		const char *wrong = fault(item, true);
		if (!wrong && tags && (ZSTR_VAL(item)[0] == '/' || zend_string_equals_literal(item, "*"))) {
			wrong = "must not be a path or *, which could not be purged as a tag";
		}
		if (wrong) {
			zend_argument_value_error(i + 1, "%s", wrong);
			return false;
		}
		if (list->s) {
			smart_str_appends(list, ", ");
		}
		smart_str_append(list, item);
	}
	return true;
}

static void say_list(INTERNAL_FUNCTION_PARAMETERS, uint16_t what)
{
	zval *items;
	uint32_t count;
	smart_str list = { 0 };
	ZEND_PARSE_PARAMETERS_START(0, -1)
		Z_PARAM_VARIADIC('*', items, count)
	ZEND_PARSE_PARAMETERS_END();
	if (!join(items, count, what == MR_NOTE_TAG, &list)) {
		smart_str_free(&list);
		RETURN_THROWS();
	}
	if (!list.s) {
		RETURN_BOOL(heard(what));
	}
	smart_str_0(&list);
	if (ZSTR_LEN(list.s) > MR_NOTE_MAX) {
		zend_value_error("%s(): All arguments together are longer than %u bytes", get_active_function_name(), MR_NOTE_MAX);
		smart_str_free(&list);
		RETURN_THROWS();
	}
	bool said = heard(what) && wire_note(what, ZSTR_VAL(list.s), ZSTR_LEN(list.s));
	smart_str_free(&list);
	RETURN_BOOL(said);
}

PHP_FUNCTION(millrace_tag)
{
	say_list(INTERNAL_FUNCTION_PARAM_PASSTHRU, MR_NOTE_TAG);
}

PHP_FUNCTION(millrace_purge)
{
	say_list(INTERNAL_FUNCTION_PARAM_PASSTHRU, MR_NOTE_PURGE);
}

/*
 * WordPress's constant WP_CACHE, by which plugins know that pages come from a cache, becomes true. A define() before WordPress has looked at
 * it would have it load the page cache of a plugin (php/inject/wordpress/others.php). False: there is none that a script has defined.
 */
PHP_FUNCTION(millrace_announce_cache)
{
	ZEND_PARSE_PARAMETERS_NONE();
	zend_constant *constant = zend_hash_str_find_ptr(EG(zend_constants), ZEND_STRL("WP_CACHE"));
	if (!constant || ZEND_CONSTANT_MODULE_NUMBER(constant) != PHP_USER_CONSTANT || Z_REFCOUNTED(constant->value)) {
		RETURN_FALSE;
	}
	ZVAL_TRUE(&constant->value);
	RETURN_TRUE;
}

/* A directive that the server knows: crates/pages/src/control.rs. */
#define FALLBACK ", fallback"

PHP_FUNCTION(millrace_cache_control)
{
	zend_string *directives;
	bool fallback = false;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_STR(directives)
		Z_PARAM_OPTIONAL
		Z_PARAM_BOOL(fallback)
	ZEND_PARSE_PARAMETERS_END();
	const char *wrong = fault(directives, false);
	if (!wrong && ZSTR_LEN(directives) > MR_NOTE_MAX - sizeof FALLBACK) {
		wrong = "is too long";
	}
	if (wrong) {
		zend_argument_value_error(1, "%s", wrong);
		RETURN_THROWS();
	}
	if (!heard(MR_NOTE_CONTROL)) {
		RETURN_FALSE;
	}
	if (fallback && worker->controlled) {
		RETURN_FALSE;
	}
	worker->controlled |= !fallback;
	if (!fallback) {
		RETURN_BOOL(wire_note(MR_NOTE_CONTROL, ZSTR_VAL(directives), ZSTR_LEN(directives)));
	}
	/* The server gets the word "fallback", because the page's own header fields take precedence over it. */
	zend_string *text = zend_string_concat2(ZSTR_VAL(directives), ZSTR_LEN(directives), ZEND_STRL(FALLBACK));
	bool said = wire_note(MR_NOTE_CONTROL, ZSTR_VAL(text), ZSTR_LEN(text));
	zend_string_release(text);
	RETURN_BOOL(said);
}
