/*
 * The gate: which functions of PHP the boot of an image may call. Every internal function and method has a place (functions/):
 *
 *   pure        computes on its arguments or on the process's memory: nothing of it is changed
 *   recorded    reads what can be compared, or read again: its arguments decide
 *   own         reads what no two requests may share: refuses the image
 *   refused     all else, whatever an extension or a later PHP brings: refuses the image, and must not be done twice
 *
 * All but the pure ones call a handler of ours first, however they are called: closures of a function and classes that extend one of PHP's have copies of
 * it, with the handler and with what belongs to it. The handler costs a compare unless a boot runs that may become an image, or a request behind one.
 *
 * Exceptions hold for what a function calls itself (excepted.c). Random values and clocks within functions that are repeated after the point
 * are decided there (reads.c); acts are not.
 */
#include "rewind.h"

#include <Zend/zend_interfaces.h>
#include <ext/date/php_date.h>
#include <string.h>
#include <strings.h>

/* A function and its place, but for refused ones. */
struct listed {
	const char *name;
	uint8_t kind, argument;
};

/* `listed`, in the order of the names: functions/, as ../../build.rs has compiled it. */
#include "functions.h"

enum gate gate;

/* Where a function keeps its struct gated: PHP copies it with the function. */
static int handle = -1;

/* Of the boot. */
static struct {
	char why[800];   /* it was refused; empty: it was not */
	time_t second;   /* the clock was read for code that is not WordPress's own; 0: it was not */
	bool torn;       /* in more than one second */
} boot;

/* ---- who calls ---- */

static const zend_execute_data *caller(void)
{
	return watch_frame(EG(current_execute_data));
}

static bool ends_with(const zend_string *path, const char *end)
{
	size_t length = strlen(end);
	return ZSTR_LEN(path) >= length && memcmp(ZSTR_VAL(path) + ZSTR_LEN(path) - length, end, length) == 0;
}

/* ---- exceptions ---- */

/* Whether the function that runs now may call this one, or do `what` it does (excepted.c). */
static bool is_excepted_now(const zend_function *called, const char *what)
{
	const zend_execute_data *frame = caller();
	return frame && excepted(frame->func, called, what);
}

/* ---- refusing ---- */

enum refused { READS, ACTS };

/* Who calls WordPress's function. An exception for that function would hold for all its callers. */
static const zend_execute_data *outside_core(const zend_execute_data *frame)
{
	while (frame && observe_is_core(frame->func->op_array.filename)) {
		frame = watch_frame(frame->prev_execute_data);
	}
	return frame;
}

static void say_why(const char *what, const zend_function *called, const zend_execute_data *frame)
{
	const zend_class_entry *class = called ? called->common.scope : NULL;
	const zend_execute_data *behind = outside_core(frame);
	char by[256] = "?", advice[300] = "", text[200];
	if (frame) {
		excepted_name(frame->func, by, sizeof by);
	}
	if (behind == frame && frame) {
		excepted_advice(frame->func, advice, sizeof advice);
	} else if (behind) {
		char name[256];
		excepted_name(behind->func, name, sizeof name);
		snprintf(advice, sizeof advice, "for %.120s, %.150s:%u", name, ZSTR_VAL(behind->func->op_array.filename), behind->opline ? behind->opline->lineno : 0);
	}
	snprintf(text, sizeof text, "%s%s%s%s%s", called ? "calls " : what, class ? ZSTR_VAL(class->name) : "", class ? "::" : "",
		called ? ZSTR_VAL(called->common.function_name) : "", called ? "()" : "");
	snprintf(boot.why, sizeof boot.why, "the boot %.120s in %.120s, %.150s:%u%s%.290s%s", text, by,
		frame ? ZSTR_VAL(frame->func->op_array.filename) : "?", frame && frame->opline ? frame->opline->lineno : 0, *advice ? " (" : "", advice,
		*advice ? ")" : "");
}

static void refuse(enum refused how, const char *what, const zend_function *called)
{
	const zend_execute_data *frame = caller();
	if (gate != GATE_BOOT || is_excepted_now(called, what) || (how == READS && reads_note_call(what, called))) {
		return;
	}
	gate = GATE_OPEN;
	say_why(what, called, frame);
}

/* The boot calls a function that no image may be of, with these arguments. */
void gate_refuse_call(const zend_function *called)
{
	refuse(ACTS, NULL, called);
}

/* The boot does what no image may: `what` is a verb and what follows it. */
void gate_refuse(const char *what)
{
	refuse(READS, what, NULL);
}

/* The same; and a request that is run again to be compared ends before it. */
void gate_acts(const char *what)
{
	if (gate == GATE_BOOT) {
		refuse(ACTS, what, NULL);
	} else if (gate == GATE_BEHIND) {
		rewind_acted();
	}
}

/* ---- the clock ---- */

/* Whether the code is WordPress's own, or that of our hooks in it: a function of it, or, unless it reads itself, a file in its folder. */
static bool is_of_core(const zend_function *function, const zend_string *root, bool reads)
{
	const zend_string *file = function->op_array.filename;
	if (watch_is_hooks(file)) {
		return true;
	}
	const char *below = ZSTR_VAL(file) + ZSTR_LEN(root);
	if (ZSTR_LEN(file) < ZSTR_LEN(root) || memcmp(ZSTR_VAL(file), ZSTR_VAL(root), ZSTR_LEN(root)) != 0) {
		/* wp-config.php may be a folder above. */
		return !reads && !function->common.function_name && ends_with(file, "/wp-config.php");
	}
	return strncmp(below, "wp-includes/", 12) == 0 || (!reads && !function->common.function_name && !strchr(below, '/'));
}

/* Whether nobody but WordPress itself gets to know what is read. */
static bool is_read_by_core(void)
{
	const zval *root = zend_get_constant_str(ZEND_STRL("ABSPATH"));
	bool reads = true;
	if (!root || Z_TYPE_P(root) != IS_STRING) {
		return false;
	}
	for (const zend_execute_data *frame = caller(); frame; frame = frame->prev_execute_data) {
		if (frame->func && ZEND_USER_CODE(frame->func->type)) {
			if (!is_of_core(frame->func, Z_STR_P(root), reads)) {
				return false;
			}
			reads = false;
		}
	}
	return true;
}

/*
 * The second that it is by both of the kernel's clocks; 0 while they differ. time() may ask either of them, and the one that only
 * goes on with the kernel's ticks is some milliseconds late.
 */
time_t gate_now(void)
{
	time_t second = (time_t)(clock_ms(CLOCK_REALTIME) / 1000);
	return second == time(NULL) ? second : 0;
}

/* The boot reads the time, in whole seconds; 0: nobody can say in which. */
void gate_clock(time_t second)
{
	if (gate == GATE_BOOT && !is_read_by_core()) {
		boot.torn |= !second || (boot.second && boot.second != second);
		boot.second = second;
	}
}

/* The only second in which what the boot has read of the clock is right; 0: it has not read it; -1: there is none. */
time_t gate_second(void)
{
	return boot.torn ? -1 : boot.second;
}

/* ---- arguments ---- */

/* An argument by its number; NULL: it is not there, or null. */
static zval *argument(zend_execute_data *execute_data, unsigned number)
{
	zval *value = number && ZEND_NUM_ARGS() >= number ? ZEND_CALL_ARG(execute_data, number) : NULL;
	if (value) {
		ZVAL_DEREF(value);
	}
	return value && Z_TYPE_P(value) > IS_NULL ? value : NULL;
}

static const char *text_of(const zval *value)
{
	return value && Z_TYPE_P(value) == IS_STRING ? Z_STRVAL_P(value) : NULL;
}

/* A path that is asked about, or a pattern. Of what is no text only an object has one. */
static void look_at_path(const zval *path, bool is_pattern, const zend_function *called)
{
	const char *text = text_of(path);
	text = text && strncasecmp(text, "file://", 7) == 0 ? text + 7 : text;
	if (path && Z_TYPE_P(path) == IS_OBJECT) {
		refuse(READS, NULL, called);
	} else if (text && *text && !strstr(text, "://")) {
		(is_pattern ? files_note_pattern : files_note_asked)(text);
	}
}

/* The file of a SplFileInfo. */
static void look_at_object(zend_execute_data *execute_data)
{
	zval path;
	ZVAL_UNDEF(&path);
	zend_call_method_with_0_params(Z_OBJ(EX(This)), Z_OBJCE(EX(This)), NULL, "getpathname", &path);
	look_at_path(&path, false, EX(func));
	zval_ptr_dtor(&path);
}

static void look_at_input(zend_execute_data *execute_data)
{
	const zval *kind = argument(execute_data, 1), *name = argument(execute_data, 2);
	if (!text_of(name) || Z_TYPE_P(kind) != IS_LONG || !reads_note_input(Z_LVAL_P(kind), Z_STR_P(name))) {
		refuse(READS, NULL, EX(func));
	}
}

static void look_at_environment(zend_execute_data *execute_data)
{
	const zval *name = argument(execute_data, 1);
	if (text_of(name)) {
		reads_note_environment(Z_STR_P(name));
	} else {
		refuse(READS, NULL, EX(func));
	}
}

/* Texts of times that are the same at any time: `@1700000000`, `2026-01-31...`. */
static bool is_absolute(const char *text)
{
	return text && (*text == '@' || (strspn(text, "0123456789") == 4 && text[4] == '-'));
}

/* Whether a function that reads the clock does so with these arguments. */
static bool reads_clock(zend_execute_data *execute_data, const struct gated *one)
{
	const zval *given = argument(execute_data, one->argument);
	return !given && !(zend_string_equals_literal(EX(func)->common.function_name, "strtotime") && is_absolute(text_of(argument(execute_data, 1))));
}

static bool is_cookie(const char *field)
{
	return field && strncasecmp(field + strspn(field, " \t\r\n"), "set-cookie", 10) == 0;
}

/* ---- handlers ---- */

static void look(zend_execute_data *execute_data, const struct gated *one)
{
	switch (one->kind) {
		case KIND_LOOK:
		case KIND_LIST:
			look_at_path(argument(execute_data, one->argument), one->kind == KIND_LIST, EX(func));
			return;
		case KIND_LOOK_AT:
			look_at_object(execute_data);
			return;
		case KIND_INPUT:
			look_at_input(execute_data);
			return;
		case KIND_ENVIRONMENT:
			look_at_environment(execute_data);
			return;
		case KIND_CLOCK:
			if (reads_clock(execute_data, one)) {
				gate_clock(gate_now());
			}
			return;
		case KIND_SCOPE:
			if (!watch_is_global_scope()) {
				return;
			}
			break;
		case KIND_FIELD:
			if (!is_cookie(text_of(argument(execute_data, one->argument)))) {
				return;
			}
			break;
		default:
			break;
	}
	refuse(one->kind == KIND_REFUSED || one->kind == KIND_FIELD ? ACTS : READS, NULL, EX(func));
}

static inline const struct gated *gated(const zend_execute_data *execute_data)
{
	return EX(func)->internal_function.reserved[handle];
}

static void on_call(INTERNAL_FUNCTION_PARAMETERS)
{
	const struct gated *one = gated(execute_data);
	if (UNEXPECTED(gate == GATE_BOOT)) {
		look(execute_data, one);
	} else if (UNEXPECTED(gate == GATE_BEHIND) && one->kind == KIND_REFUSED && !is_excepted_now(EX(func), NULL)) {
		rewind_acted();
	}
	one->original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* Of an object that was made of the clock: as if it had been made when the second began. */
static void on_moment(INTERNAL_FUNCTION_PARAMETERS)
{
	const struct gated *one = gated(execute_data);
	const char *text = text_of(argument(execute_data, 1));
	/* With a format, the text is the second argument, and the format says what is not of now. */
	bool is_fixed = one->argument == 2 ? text && strpbrk(text, "!|U") : is_absolute(text);
	bool has_fraction = text && (one->argument == 2 ? strpbrk(text, "uv") : strchr(text, '.')) != NULL;
	bool is_read = gate == GATE_BOOT && !is_fixed;
	if (is_read && has_fraction) {
		refuse(READS, NULL, EX(func));
	} else if (is_read) {
		gate_clock(gate_now());
	}
	zval *object = Z_TYPE(EX(This)) == IS_OBJECT ? &EX(This) : return_value;
	one->original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	if (is_read && Z_TYPE_P(object) == IS_OBJECT && Z_PHPDATE_P(object)->time) {
		Z_PHPDATE_P(object)->time->us = 0;
	}
}

static void on_database(INTERNAL_FUNCTION_PARAMETERS)
{
	sources_call(INTERNAL_FUNCTION_PARAM_PASSTHRU, gated(execute_data));
}

/* ---- the functions ---- */

static int compare(const void *name, const void *one)
{
	return strcmp(name, ((const struct listed *)one)->name);
}

static void close_function(zend_function *function, const char *name)
{
	zend_internal_function *internal = &function->internal_function;
	const struct listed *one = bsearch(name, listed, LISTED, sizeof *listed, compare);
	unsigned kind = one ? one->kind : KIND_REFUSED;
	if (function->type != ZEND_INTERNAL_FUNCTION || kind == KIND_PURE || !internal->handler) {
		return;
	}
	struct gated *made = pemalloc(sizeof *made, true);
	*made = (struct gated){ internal->handler, (uint8_t)kind, one ? one->argument : 0 };
	internal->reserved[handle] = made;
	internal->handler = kind == KIND_MOMENT ? on_moment : kind >= KIND_OF_DATABASE ? on_database : on_call;
	MR_NO_FRAMELESS_CALLS(internal);
}

static void close_methods(zend_class_entry *class)
{
	zend_string *key;
	zend_function *function;
	ZEND_HASH_FOREACH_STR_KEY_PTR(&class->function_table, key, function) {
		char name[200];
		const zend_string *of = function->common.scope->name;
		snprintf(name, sizeof name, "%s::%s", ZSTR_VAL(of), ZSTR_VAL(key));
		zend_str_tolower(name, strlen(name));
		close_function(function, name);
	} ZEND_HASH_FOREACH_END();
}

/* In the host, when all functions are there, before anything is compiled. */
void gate_watch(void)
{
	zend_string *name;
	zend_function *function;
	zend_class_entry *class;
	if (!options.rewind) {
		return;
	}
	handle = zend_get_resource_handle("Millrace");
	if (handle < 0) {
		options.rewind = false;
		return;
	}
	streams_watch();
	ZEND_HASH_FOREACH_STR_KEY_PTR(CG(function_table), name, function) {
		close_function(function, ZSTR_VAL(name));
	} ZEND_HASH_FOREACH_END();
	ZEND_HASH_FOREACH_PTR(CG(class_table), class) {
		if (class->type == ZEND_INTERNAL_CLASS) {
			close_methods(class);
		}
	} ZEND_HASH_FOREACH_END();
}

/* ---- life ---- */

/* A request begins that may come to a point. */
void gate_begin(void)
{
	memset(&boot, 0, sizeof boot);
	excepted_begin();
	gate = GATE_BOOT;
}

/* At the point: why the boot makes no image; NULL: nothing that it has called forbids one. */
const char *gate_refusal(void)
{
	return *boot.why ? boot.why : NULL;
}

/* What was noted has no meaning any more: the request has ended, or becomes no image. */
void gate_end(void)
{
	gate = GATE_OPEN;
	memset(&boot, 0, sizeof boot);
}
