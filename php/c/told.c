/*
 * What the site's code is told of the member whose page is made, though it has not asked: WordPress hands what it knows of him to the callbacks of
 * its hooks, and what it has printed to those of the output. Which hooks carry something nobody can list; so at each call of a callback of the site's
 * by WP_Hook, its arguments are looked through for what is the member's own:
 *
 *   his user object                                      ─┐
 *   his log-in, address, password, session, cookie        ├── told: the page is his own
 *   name and nonces, once they have been read for the page┤
 *   his number, below a function that has read it        ─┘
 *
 * A number says nothing by itself, posts have some, too: it counts while one of WordPress's functions runs that has read the member's number
 * (millrace_member_reader()). Until WordPress knows who asks, each number and each user counts, for what is called while it finds out.
 *
 * name and nonces may be read where they are only printed (flow.c): millrace_member_prints() says so.
 */
#include "worker.h"

#include <string.h>

#define VALUES_MOST 16u
#define READERS_MOST 16u
/* Arguments with more in them, or deeper, count as told. */
#define LOOKS_MOST 20000u
#define DEPTH_MOST 8u

struct value {
	zend_string *text;
	bool is_filled_in; /* the server fills it in: it may be printed */
};

/* A function of WordPress that has read the number, where it runs. */
struct knower {
	const zend_execute_data *frame;
	const zend_function *function;
};

/* Of this request. */
static struct {
	bool noting;
	bool prints;   /* a value that is filled in has been read */
	bool captures; /* the site's code has a callback for the output */
	zend_long number; /* 0: not known yet */
	unsigned count, readers;
	struct value values[VALUES_MOST];
	struct knower reader[READERS_MOST];
} told;

/* ---- what is his ---- */

static bool is_of_word(char one)
{
	return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || (one >= '0' && one <= '9') || one == '_';
}

static bool has_word(const char *text, size_t length, const char *word, size_t bytes)
{
	const char *end = text + length, *at = text;
	while (bytes && (at = zend_memnstr(at, word, bytes, end))) {
		if ((at == text || !is_of_word(at[-1])) && (at + bytes == end || !is_of_word(at[bytes]))) {
			return true;
		}
		at++;
	}
	return false;
}

struct look {
	bool any;      /* each number and user is one that may be his */
	bool number;   /* his number counts */
	unsigned left; /* values to look at */
};

static bool has_number(const char *text, size_t length)
{
	char digits[24];
	int bytes = snprintf(digits, sizeof digits, ZEND_LONG_FMT, told.number);
	return has_word(text, length, digits, (size_t)bytes);
}

/* Whether there is a number in it, or users are spoken of, as in SQL. */
static bool may_name_user(const char *text, size_t length)
{
	const char *end = text + length;
	for (const char *at = text; at < end; at++) {
		if (*at >= '1' && *at <= '9' && (at == text || !is_of_word(at[-1]))) {
			return true;
		}
	}
	return zend_memnstr(text, "user", 4, end) != NULL;
}

static bool text_tells(const struct look *look, const char *text, size_t length)
{
	if (look->any) {
		return may_name_user(text, length);
	}
	for (unsigned i = 0; i < told.count; i++) {
		const struct value *value = &told.values[i];
		if ((told.prints || !value->is_filled_in) && has_word(text, length, ZSTR_VAL(value->text), ZSTR_LEN(value->text))) {
			return true;
		}
	}
	return look->number && has_number(text, length);
}

static bool tells(struct look *look, zval *value, unsigned depth);

static bool table_tells(struct look *look, const HashTable *table, unsigned depth)
{
	zend_ulong index;
	zend_string *key;
	zval *value;
	ZEND_HASH_FOREACH_KEY_VAL((HashTable *)(uintptr_t)table, index, key, value) {
		bool by_key = key ? text_tells(look, ZSTR_VAL(key), ZSTR_LEN(key)) : look->number && (zend_long)index == told.number;
		if ((by_key && !look->any) || tells(look, value, depth + 1)) {
			return true;
		}
	} ZEND_HASH_FOREACH_END();
	return false;
}

static bool is_named(const zend_class_entry *class, const char *name)
{
	while (class && strcmp(ZSTR_VAL(class->name), name) != 0) {
		class = class->parent;
	}
	return class != NULL;
}

/* A user: the one that is watched has its number put aside (noticed.c). */
static bool user_is_he(const zend_object *user)
{
	const zend_property_info *info = zend_hash_str_find_ptr(&user->ce->properties_info, ZEND_STRL("ID"));
	const zval *number = info && !(info->flags & ZEND_ACC_STATIC) ? OBJ_PROP(user, info->offset) : NULL;
	return !told.number || !number || Z_TYPE_P(number) != IS_LONG || Z_LVAL_P(number) == told.number;
}

/* Objects of WordPress that may have the member's number or row in them. What is a post, a comment, a term says nothing of who asks. */
static bool object_tells(struct look *look, const zend_object *object, unsigned depth)
{
	if (is_named(object->ce, "WP_User")) {
		return user_is_he(object);
	}
	bool is_query = is_named(object->ce, "WP_Comment_Query") || is_named(object->ce, "WP_User_Query") || is_named(object->ce, "WP_Query");
	if (!is_query && object->ce != zend_standard_class_def) {
		return false;
	}
	for (int i = 0; i < object->ce->default_properties_count; i++) {
		const zval *value = OBJ_PROP_NUM(object, i);
		if (Z_TYPE_P(value) != IS_UNDEF && tells(look, (zval *)(uintptr_t)value, depth + 1)) {
			return true;
		}
	}
	return !object->ce->default_properties_count && object->properties && table_tells(look, object->properties, depth);
}

static bool tells(struct look *look, zval *value, unsigned depth)
{
	ZVAL_DEREF(value);
	if (depth > DEPTH_MOST || look->left-- == 0) {
		look->left = 0;
		return true;
	}
	switch (Z_TYPE_P(value)) {
	case IS_LONG:
		return look->any ? Z_LVAL_P(value) > 0 : look->number && Z_LVAL_P(value) == told.number;
	case IS_STRING:
		return text_tells(look, Z_STRVAL_P(value), Z_STRLEN_P(value));
	case IS_ARRAY:
		return table_tells(look, Z_ARRVAL_P(value), depth);
	case IS_OBJECT:
		return object_tells(look, Z_OBJ_P(value), depth);
	default:
		return false;
	}
}

/* ---- callbacks of hooks ---- */

/* Functions of PHP that only convert what they get: WordPress itself hooks them. */
static bool is_converter(const zend_string *name)
{
	static const char *const all[] = { "trim", "stripslashes", "addslashes", "intval", "floatval", "strip_tags", "rawurlencode" };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (zend_string_equals_cstr(name, all[i], strlen(all[i]))) {
			return true;
		}
	}
	return false;
}

/* A plugin's look at each log-in that is known to concern requests with keys only. */
static bool is_of_keys(const zend_op_array *code)
{
	return code->scope && strcmp(ZSTR_VAL(code->scope->name), "WC_REST_Authentication") == 0 && strstr(ZSTR_VAL(code->filename), "/woocommerce/");
}

/* Whether a callback is the site's, or what can't be told. */
static bool is_of_site(zval *callback)
{
	zend_fcall_info_cache found = empty_fcall_info_cache;
	bool others = true;
	if (zend_is_callable_ex(callback, NULL, IS_CALLABLE_SUPPRESS_DEPRECATIONS, NULL, &found, NULL) && found.function_handler) {
		const zend_function *function = found.function_handler;
		if (function->common.fn_flags & ZEND_ACC_CALL_VIA_TRAMPOLINE) {
			others = true;
		} else if (ZEND_USER_CODE(function->type)) {
			const zend_op_array *code = &function->op_array;
			others = !watch_is_hooks(code->filename) && !observe_is_core(code->filename) && !is_of_keys(code);
		} else {
			others = function->common.scope || !is_converter(function->common.function_name);
		}
	}
	zend_release_fcall_info_cache(&found);
	return others;
}

/* By these, plugins say what a user may do: the hooks know whose filters may (Member::look_at_filters in ../inject/wordpress/member.php). */
static bool is_about_rights(const char *hook)
{
	return hook && (strcmp(hook, "user_has_cap") == 0 || strcmp(hook, "map_meta_cap") == 0);
}

/* Whether one of WordPress's functions runs that has read the number, or Millrace's hooks, which know it. */
static bool is_below_reader(const zend_execute_data *frame)
{
	for (frame = watch_frame(frame); frame; frame = watch_frame(frame->prev_execute_data)) {
		if (watch_is_hooks(frame->func->op_array.filename)) {
			return true;
		}
		for (unsigned i = 0; i < told.readers && i < READERS_MOST; i++) {
			if (told.reader[i].frame == frame && told.reader[i].function == frame->func) {
				return true;
			}
		}
	}
	return false;
}

/* Whether WordPress is finding out who asks. */
static bool is_finding_out(const zend_execute_data *frame)
{
	for (frame = watch_frame(frame); frame; frame = watch_frame(frame->prev_execute_data)) {
		if (observe_runs(frame, "_wp_get_current_user") || observe_runs(frame, "wp_set_current_user") || observe_runs(frame, "wp_validate_auth_cookie")) {
			return true;
		}
	}
	return false;
}

static zval *variable(const zend_execute_data *frame, const char *name)
{
	const zend_op_array *code = &frame->func->op_array;
	for (int i = 0; i < code->last_var; i++) {
		if (strcmp(ZSTR_VAL(code->vars[i]), name) == 0) {
			zval *value = ZEND_CALL_VAR_NUM(frame, i);
			ZVAL_DEREF(value);
			return value;
		}
	}
	return NULL;
}

/* How many of its arguments WP_Hook gives to the callback; `$the_` is the entry of the callback that is called. */
static zend_long accepted(const zend_execute_data *frame)
{
	const zval *entry = variable(frame, "the_");
	const zval *count = entry && Z_TYPE_P(entry) == IS_ARRAY ? zend_hash_str_find(Z_ARRVAL_P(entry), ZEND_STRL("accepted_args")) : NULL;
	return count && Z_TYPE_P(count) == IS_LONG ? Z_LVAL_P(count) : ZEND_LONG_MAX;
}

static bool arguments_tell(const zend_execute_data *frame, bool is_for_all)
{
	zval *arguments = variable(frame, "args"), *argument;
	bool any = !told.number;
	struct look look = { .any = any, .number = !any && is_below_reader(frame), .left = LOOKS_MOST };
	zend_long left = is_for_all ? ZEND_LONG_MAX : accepted(frame);
	if (!arguments || Z_TYPE_P(arguments) != IS_ARRAY) {
		return true;
	}
	ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(arguments), argument) {
		if (left-- <= 0) {
			break;
		}
		if (tells(&look, argument, 0)) {
			return true;
		}
	} ZEND_HASH_FOREACH_END();
	return false;
}

static user_opcode_handler_t were[256];

/* call_user_func(), call_user_func_array(): in WP_Hook, a callback is called. */
static int on_user_call(zend_execute_data *execute_data)
{
	const zend_op_array *code = &EX(func)->op_array;
	if (told.noting && code->scope && zend_string_equals_literal(code->scope->name, "WP_Hook") && observe_is_core(code->filename)) {
		const zend_op *opline = EX(opline);
		zval *callback = opline->op2_type == IS_CONST ? RT_CONSTANT(opline, opline->op2) : EX_VAR(opline->op2.var);
		ZVAL_DEREF(callback);
		bool is_open = told.number || is_finding_out(execute_data);
		bool is_for_all = code->function_name && zend_string_equals_literal(code->function_name, "do_all_hook");
		const char *hook = watch_hook();
		if (is_open && !is_about_rights(hook) && is_of_site(callback) && arguments_tell(execute_data, is_for_all)) {
			char what[100];
			snprintf(what, sizeof what, "the hook %.80s", hook ? hook : "?");
			identity_note(what);
		}
	}
	return watch_go_on(were, execute_data);
}

/* ---- the output ---- */

static zif_handler start_was;
static struct watched getters[] = {
	{ NULL, "ob_get_clean", 0, 0, NULL, NULL }, { NULL, "ob_get_contents", 0, 0, NULL, NULL }, { NULL, "ob_get_flush", 0, 0, NULL, NULL },
	{ NULL, "ob_get_length", 0, 0, NULL, NULL }, { NULL, "ob_get_status", 0, 0, NULL, NULL },
};
#define GETTERS (sizeof getters / sizeof *getters)

static bool is_called_by_site(const zend_execute_data *frame)
{
	frame = watch_frame(frame->prev_execute_data);
	const zend_class_entry *class = frame ? frame->func->common.scope : NULL;
	return !frame || observe_reader(frame) == BY_SITE || (class && zend_string_equals_literal(class->name, "WP_Hook"));
}

/* Whoever gets all of the output has what is printed in it. */
static void look_at_captures(void)
{
	if (told.prints && told.captures) {
		identity_note("the output, in a callback");
	}
}

static PHP_FUNCTION(noted_start)
{
	if (told.noting && ZEND_NUM_ARGS() > 0 && Z_TYPE_P(ZEND_CALL_ARG(execute_data, 1)) != IS_NULL && is_called_by_site(execute_data)) {
		told.captures = true;
		look_at_captures();
	}
	start_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static PHP_FUNCTION(noted_getter)
{
	const php_output_handler *active = told.noting && told.prints ? OG(active) : NULL;
	struct look look = { .any = false, .number = false };
	if (active && active->buffer.used && is_called_by_site(execute_data) && text_tells(&look, active->buffer.data, active->buffer.used)) {
		identity_note("the output, from its buffer");
	}
	watch_called(getters, GETTERS, execute_data)->original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* ---- what the hooks say ---- */

static void forget(void)
{
	for (unsigned i = 0; i < told.count; i++) {
		zend_string_release(told.values[i].text);
	}
	told.count = 0;
}

static bool is_called_by_hooks(const zend_execute_data *execute_data)
{
	const zend_execute_data *caller = watch_frame(EX(prev_execute_data));
	return caller && watch_is_hooks(caller->func->op_array.filename);
}

static void add_values(const HashTable *values, bool is_filled_in)
{
	zval *value;
	ZEND_HASH_FOREACH_VAL((HashTable *)(uintptr_t)values, value) {
		if (Z_TYPE_P(value) == IS_STRING && Z_STRLEN_P(value) && told.count < VALUES_MOST) {
			told.values[told.count++] = (struct value){ zend_string_copy(Z_STR_P(value)), is_filled_in };
		}
	} ZEND_HASH_FOREACH_END();
}

/* Who asks: the number, what is his alone, and what is filled into pages. */
PHP_FUNCTION(millrace_member_is)
{
	zend_long number;
	HashTable *own, *filled_in;
	ZEND_PARSE_PARAMETERS_START(3, 3)
		Z_PARAM_LONG(number)
		Z_PARAM_ARRAY_HT(own)
		Z_PARAM_ARRAY_HT(filled_in)
	ZEND_PARSE_PARAMETERS_END();
	if (worker && told.noting && is_called_by_hooks(execute_data)) {
		forget();
		told.number = number;
		add_values(own, false);
		add_values(filled_in, true);
	}
}

/* The frame of who reads, from the hooks' outwards. */
static const zend_execute_data *reading(const zend_execute_data *execute_data)
{
	const zend_execute_data *frame = watch_frame(EX(prev_execute_data));
	while (frame && watch_is_hooks(frame->func->op_array.filename)) {
		frame = watch_frame(frame->prev_execute_data);
	}
	return frame;
}

static void add_reader(const zend_execute_data *frame)
{
	for (unsigned i = 0; i < told.readers && i < READERS_MOST; i++) {
		if (told.reader[i].frame == frame && told.reader[i].function == frame->func) {
			return;
		}
	}
	told.reader[told.readers++ % READERS_MOST] = (struct knower){ frame, frame->func };
}

/* The number was read: who has read it, and who has asked for it, may hand it on. */
PHP_FUNCTION(millrace_member_reader)
{
	ZEND_PARSE_PARAMETERS_NONE();
	const zend_execute_data *frame = told.noting ? reading(execute_data) : NULL;
	for (unsigned i = 0; frame && i < 2; i++) {
		add_reader(frame);
		frame = watch_frame(frame->prev_execute_data);
	}
}

static bool runs_one_of(const zend_execute_data *frame, const char *const *all, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (observe_runs(frame, all[i])) {
			return true;
		}
	}
	return false;
}

#define RUNS_ONE_OF(frame, all) runs_one_of((frame), (all), sizeof(all) / sizeof *(all))

/* What is between a value and the function that reads it. */
static bool is_way(const zend_execute_data *frame)
{
	static const char *const all[] = { "apply_filters", "get_user_meta", "get_metadata", "get_metadata_raw", "metadata_exists", "wp_nonce_tick" };
	const zend_class_entry *class = frame->func->common.scope;
	return class ? strcmp(ZSTR_VAL(class->name), "WP_User") == 0 || strcmp(ZSTR_VAL(class->name), "WP_Hook") == 0 : RUNS_ONE_OF(frame, all);
}

/* Functions of WordPress that only print it ("Logged in as ..."), keep it where reads are seen (observe.c), or give it back. */
static bool is_known_reader(const zend_execute_data *frame)
{
	static const char *const all[] = { "comment_form", "setup_userdata", "wp_create_nonce" };
	return RUNS_ONE_OF(frame, all);
}

/* Whether it registers WordPress's own scripts, which have a nonce in them. */
static bool registers_scripts(const zend_execute_data *frame)
{
	return observe_runs(frame, "wp_default_scripts") || observe_runs(frame, "wp_default_packages_inline_scripts");
}

enum prints { PRINTS_NOT, PRINTS, PRINTS_SCRIPTS };

/* What becomes of what is read now: by the stack, from the read outwards. */
static enum prints what_becomes(const zend_execute_data *frame)
{
	bool is_direct = true, is_read = false, is_returned = false;
	for (; frame; frame = frame->prev_execute_data) {
		if (!frame->func || frame->func == (const zend_function *)&zend_pass_function) {
			continue;
		}
		if (!ZEND_USER_CODE(frame->func->type)) {
			is_direct = false;
			continue;
		}
		enum reader by = observe_reader(frame);
		if (by == BY_SITE) {
			enum flow flow = is_direct ? flow_of(frame) : FLOW_UNKNOWN;
			if (flow != FLOW_RETURNED) {
				return flow == FLOW_PRINTED ? PRINTS : PRINTS_NOT;
			}
			is_returned = true;
		} else if (by != BY_HOOKS) {
			/* What the site's code gives to WordPress may go anywhere. */
			if (is_returned || observe_runs(frame, "wp_verify_nonce")) {
				return PRINTS_NOT;
			}
			if (registers_scripts(frame)) {
				return PRINTS_SCRIPTS;
			}
			if (!is_read && !is_way(frame) && !is_known_reader(frame)) {
				return PRINTS_NOT;
			}
			is_read |= !is_way(frame);
		}
		is_direct = true;
	}
	return PRINTS;
}

/* Whether what is read of the member now is only printed: 0: no; 1: it is; 2: in WordPress's own scripts, which are only registered as yet. */
PHP_FUNCTION(millrace_member_prints)
{
	ZEND_PARSE_PARAMETERS_NONE();
	enum prints prints = told.noting ? what_becomes(EX(prev_execute_data)) : PRINTS_NOT;
	told.prints |= prints == PRINTS;
	look_at_captures();
	RETURN_LONG(prints);
}

/* ---- the life of a request ---- */

/* In the host, before anything is compiled. */
void told_startup(void)
{
	watch_opcode(ZEND_INIT_USER_CALL, on_user_call, were);
}

/* In the host, when all functions are there. */
void told_watch(void)
{
	start_was = watch_replace(NULL, "ob_start", ZEND_FN(noted_start));
	watch_functions(getters, GETTERS, ZEND_FN(noted_getter));
}

void told_begin(bool notes)
{
	told.noting = notes;
	told.prints = told.captures = false;
	told.number = 0;
	/* Texts of an earlier request, if it has ended in a way that has not freed them, are gone with its memory. */
	told.count = told.readers = 0;
}

/* The script is over. */
void told_free(void)
{
	told.noting = false;
	forget();
}
