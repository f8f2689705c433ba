/*
 * What the boot reads of its request. An image holds what came of it, so it serves only requests in which the same is written:
 * these reads, with their values, are the image's key.
 *
 * The VM's opcodes that fetch a variable by its name are noted while a boot runs: `$_SERVER['HTTPS']` is a FETCH and, as the
 * next opcode, the look at one element, which is what is noted; without one it is the whole array. Functions that read a request without a
 * superglobal are noted by the gate (gate.c).
 *
 * WordPress keeps what it finds out about the browser in global variables, before it loads plugins. To look at one of them is to
 * read the request's User-Agent. In functions they are bound (`global $is_chrome`); files that run in the global scope name them. So it is
 * with $argv, which PHP makes of the query.
 *
 * A caller of millrace_rewind_point() that repeats some of these reads after the point, or compares what came of them, names them: the
 * functions that they are in, or the files in whose global scope they are. These reads do not count. Functions that are announced before
 * (millrace_rewind_repeats()) stand for all that they call, too. They keep what they have found in objects, and the boot may look at it there:
 * so the caller announces the classes of these objects as well, and is told whether one of their methods was called by others.
 */
#include "rewind.h"

#include <Zend/zend_observer.h>
#include <Zend/zend_smart_str.h>
#include <string.h>

#define READS_MOST 512
#define REPEATS_MOST 32
#define CLASSES_MOST 8
#define AGENT "HTTP_USER_AGENT"

enum source { OF_SERVER, OF_GET, OF_POST, OF_COOKIE, OF_REQUEST, OF_ENV, OF_FILES, OF_GETENV, OF_CALL };
static const char *const names[] = { "_SERVER", "_GET", "_POST", "_COOKIE", "_REQUEST", "_ENV", "_FILES" };
#define NAMES (sizeof names / sizeof *names)
/* Global variables that are made of the request, and the element of $_SERVER that they are made of. */
static const struct { const char *name, *element; } globals[] = {
	{ "argc", "argv" }, { "argv", "argv" }, { "is_lynx", AGENT }, { "is_gecko", AGENT }, { "is_winIE", AGENT }, { "is_macIE", AGENT },
	{ "is_opera", AGENT }, { "is_NS4", AGENT }, { "is_safari", AGENT }, { "is_chrome", AGENT }, { "is_iphone", AGENT }, { "is_IE", AGENT },
	{ "is_edge", AGENT },
};

static struct read {
	enum source source;
	zend_string *name;              /* the element; NULL: the whole array */
	const char *call;               /* OF_CALL: what the boot does that no image may be of, or the name of a function that it calls */
	bool is_function;               /* `call` is a name */
	const zend_string *function, *file; /* where it is read */
	const zend_string *within;      /* the announced function that was running; NULL: none was */
	uint32_t line;
} reads[READS_MOST];
static size_t count;
/* Functions whose reads the caller of the point may repeat: name(), or class::name(). */
static struct repeats {
	const zend_string *whole;
	const char *class, *name;
	size_t class_length, length;
} repeats[REPEATS_MOST];
static size_t repeats_count;
/* Classes whose objects hold what these functions have read. */
static const zend_string *classes[CLASSES_MOST];
static size_t classes_count;
static bool overflown, used;

/* ---- noting ---- */

static bool is_called(const zend_function *function, const struct repeats *one)
{
	const zend_string *name = function->common.function_name, *class = function->common.scope ? function->common.scope->name : NULL;
	return ZSTR_LEN(name) == one->length && memcmp(ZSTR_VAL(name), one->name, one->length) == 0
		&& (!one->class || (class && ZSTR_LEN(class) == one->class_length && memcmp(ZSTR_VAL(class), one->class, one->class_length) == 0));
}

/* The innermost running function that was announced; NULL: none. */
static const zend_string *running_repeat(const zend_execute_data *frame)
{
	for (; frame && repeats_count; frame = frame->prev_execute_data) {
		for (size_t i = 0; i < repeats_count && frame->func && frame->func->common.function_name; i++) {
			if (is_called(frame->func, &repeats[i])) {
				return repeats[i].whole;
			}
		}
	}
	return NULL;
}

static void note_at(struct read what)
{
	what.within = running_repeat(EG(current_execute_data));
	for (size_t i = 0; i < count; i++) {
		const struct read *read = &reads[i];
		if (read->source == what.source && read->function == what.function && read->file == what.file && read->call == what.call
			&& read->within == what.within
			&& (read->name == what.name || (read->name && what.name && zend_string_equals(read->name, what.name)))) {
			return;
		}
	}
	if (count == READS_MOST) {
		overflown = true;
		return;
	}
	if (what.name) {
		zend_string_addref(what.name);
	}
	reads[count++] = what;
}

/* The same of the script's code that runs. */
static void note_here(struct read what)
{
	const zend_execute_data *frame = watch_frame(EG(current_execute_data));
	if (frame) {
		what.function = frame->func->common.function_name;
		what.file = frame->func->op_array.filename;
		what.line = frame->opline ? frame->opline->lineno : 0;
	}
	note_at(what);
}

/* One element of a superglobal, or, without a name, all of it. The time of a request is read as from the clock. */
static void note(enum source source, zend_string *name)
{
	if (source == OF_SERVER && name && zend_string_equals_literal(name, "REQUEST_TIME")) {
		gate_clock((time_t)sapi_get_request_time());
		return;
	}
	note_here((struct read){ .source = source, .name = name });
}

/* filter_input(), filter_has_var(); false: there is no such kind of variables. */
bool reads_note_input(zend_long kind, zend_string *name)
{
	static const enum source sources[] = { [PARSE_POST] = OF_POST, [PARSE_GET] = OF_GET, [PARSE_COOKIE] = OF_COOKIE, [PARSE_STRING] = OF_CALL,
		[PARSE_ENV] = OF_ENV, [PARSE_SERVER] = OF_SERVER };
	bool is_known = kind >= 0 && (size_t)kind < sizeof sources / sizeof *sources && sources[kind] != OF_CALL;
	if (is_known) {
		note(sources[kind], name);
	}
	return is_known;
}

/* getenv() */
void reads_note_environment(zend_string *name)
{
	note(OF_GETENV, name);
}

/* What no image may be of is done within a function that may be repeated after the point: that is decided there. False: it is not. */
bool reads_note_call(const char *what, const zend_function *called)
{
	bool is_within = running_repeat(EG(current_execute_data)) != NULL;
	if (is_within) {
		note_here((struct read){ .source = OF_CALL, .call = called ? ZSTR_VAL(called->common.function_name) : what, .is_function = called });
	}
	return is_within;
}

/* The element of $_SERVER that a global variable is made of; NULL: it is made of none. */
static const char *made_of(const zend_string *variable)
{
	for (size_t i = 0; i < sizeof globals / sizeof *globals; i++) {
		if (strcmp(ZSTR_VAL(variable), globals[i].name) == 0) {
			return globals[i].element;
		}
	}
	return NULL;
}

static void note_global(const char *element, const zend_string *function, const zend_string *file, uint32_t line)
{
	zend_string *name = zend_string_init(element, strlen(element), 0);
	note_at((struct read){ .source = OF_SERVER, .name = name, .function = function, .file = file, .line = line });
	zend_string_release(name);
}

static zval *operand(zend_execute_data *execute_data, const zend_op *opline, zend_uchar type, znode_op node)
{
	zval *value = NULL;
	if (type == IS_CONST) {
		value = RT_CONSTANT(opline, node);
	} else if (type & (IS_CV | IS_TMP_VAR | IS_VAR)) {
		value = EX_VAR(node.var);
		ZVAL_DEREF(value);
	}
	return value;
}

/*
 * The key for which array_key_exists() is called with what was fetched; NULL: something else is done with that. In a namespace it is a call, because
 * the namespace might have a function with this name.
 */
static zval *key_that_is_sent(zend_execute_data *execute_data, const zend_op *fetch, const zend_op *next)
{
	const zend_execute_data *call = EX(call);
	bool is_sent = (next->op1_type & (IS_VAR | IS_TMP_VAR)) && next->op1.var == fetch->result.var && next->op2_type == IS_UNUSED && next->op2.num == 2;
	if (!is_sent || !call || !call->func || call->func->type != ZEND_INTERNAL_FUNCTION || call->func->common.scope) {
		return NULL;
	}
	const zend_string *name = call->func->common.function_name;
	bool looks = zend_string_equals_literal(name, "array_key_exists") || zend_string_equals_literal(name, "key_exists");
	zval *key = looks ? ZEND_CALL_ARG(call, 1) : NULL;
	if (key) {
		ZVAL_DEREF(key);
	}
	return key;
}

/* The element that the opcode behind a fetch looks at; false: it takes the array as a whole (list() may look at more than one), or `writes` it only. */
bool reads_element(zend_execute_data *execute_data, zend_string **name, bool *writes)
{
	const zend_op *fetch = EX(opline), *next = fetch + 1;
	zval *key = NULL;
	switch (next->opcode) {
		case ZEND_ASSIGN_DIM:
		case ZEND_UNSET_DIM:
			*writes = (next->op1_type & (IS_VAR | IS_TMP_VAR)) && next->op1.var == fetch->result.var;
			return false;
		case ZEND_FETCH_DIM_R:
		case ZEND_FETCH_DIM_IS:
		case ZEND_FETCH_DIM_W:
		case ZEND_FETCH_DIM_RW:
		case ZEND_FETCH_DIM_FUNC_ARG:
		case ZEND_FETCH_DIM_UNSET:
		case ZEND_ASSIGN_DIM_OP:
		case ZEND_ISSET_ISEMPTY_DIM_OBJ:
			if ((next->op1_type & (IS_VAR | IS_TMP_VAR)) && next->op1.var == fetch->result.var) {
				key = operand(execute_data, next, next->op2_type, next->op2);
			}
			break;
		case ZEND_ARRAY_KEY_EXISTS:
			if ((next->op2_type & (IS_VAR | IS_TMP_VAR)) && next->op2.var == fetch->result.var) {
				key = operand(execute_data, next, next->op1_type, next->op1);
			}
			break;
		case ZEND_SEND_VAL:
		case ZEND_SEND_VAL_EX:
		case ZEND_SEND_VAR:
		case ZEND_SEND_VAR_EX:
		case ZEND_SEND_FUNC_ARG:
			key = key_that_is_sent(execute_data, fetch, next);
			break;
		default:
			break;
	}
	if (key && Z_TYPE_P(key) == IS_STRING) {
		*name = zend_string_copy(Z_STR_P(key));
	} else if (key && Z_TYPE_P(key) == IS_LONG) {
		*name = zend_long_to_str(Z_LVAL_P(key));
	} else {
		return false;
	}
	return true;
}

static void note_variable(zend_execute_data *execute_data, const zend_string *variable)
{
	enum source source = OF_SERVER;
	const char *element = made_of(variable);
	if (element) {
		const zend_op_array *here = &EX(func)->op_array;
		note_global(element, here->function_name, here->filename, EX(opline)->lineno);
	}
	if (ZSTR_LEN(variable) < 4 || ZSTR_VAL(variable)[0] != '_') {
		return;
	}
	while (source < NAMES && strcmp(names[source], ZSTR_VAL(variable)) != 0) {
		source++;
	}
	zend_string *name = NULL;
	bool writes = false;
	if (source == NAMES || (!reads_element(execute_data, &name, &writes) && writes)) {
		return;
	}
	note(source, name);
	if (name) {
		zend_string_release(name);
	}
}

static user_opcode_handler_t were[256];

/* A variable is fetched by its name. */
static int on_fetch(zend_execute_data *execute_data)
{
	const zend_op *opline = EX(opline);
	if (gate == GATE_BOOT) {
		const zval *name = operand(execute_data, opline, opline->op1_type, opline->op1);
		if (name && Z_TYPE_P(name) == IS_STRING) {
			note_variable(execute_data, Z_STR_P(name));
		}
	}
	return watch_go_on(were, execute_data);
}

/* $GLOBALS as a whole: all of the superglobals are in it. */
static int on_globals(zend_execute_data *execute_data)
{
	if (gate == GATE_BOOT) {
		zend_string *name = NULL;
		bool writes = false;
		if (reads_element(execute_data, &name, &writes)) {
			note_variable(execute_data, name);
			zend_string_release(name);
		} else if (!writes) {
			note(OF_SERVER, NULL);
		}
	}
	return watch_go_on(were, execute_data);
}

/* `global $name` */
static int on_bind(zend_execute_data *execute_data)
{
	const zend_op *opline = EX(opline);
	if (gate == GATE_BOOT) {
		note_variable(execute_data, Z_STR_P(RT_CONSTANT(opline, opline->op2)));
	}
	return watch_go_on(were, execute_data);
}

static zend_op_array *(*next_compile)(zend_file_handle *file, int type);

/* A file is loaded: what it names of these variables in the global scope. */
static zend_op_array *on_compile(zend_file_handle *file, int type)
{
	zend_op_array *code = next_compile(file, type);
	for (int i = 0; gate == GATE_BOOT && code && i < code->last_var; i++) {
		const char *element = made_of(code->vars[i]);
		if (element) {
			note_global(element, NULL, code->filename, 1);
		}
	}
	return code;
}

/* In a worker that begins: behind opcache's. */
void reads_watch_files(void)
{
	next_compile = zend_compile_file;
	zend_compile_file = on_compile;
}

/* ---- objects that hold what was read ---- */

static bool is_announced(const zend_class_entry *class)
{
	for (size_t i = 0; i < classes_count; i++) {
		if (zend_string_equals(class->name, classes[i])) {
			return true;
		}
	}
	return false;
}

static void on_method(zend_execute_data *execute_data)
{
	bool is_object = gate == GATE_BOOT && Z_TYPE(EX(This)) == IS_OBJECT && is_announced(Z_OBJCE(EX(This)));
	used |= is_object && !running_repeat(execute_data);
}

/* A function runs for the first time in this request. */
static zend_observer_fcall_handlers on_function(zend_execute_data *execute_data)
{
	zend_observer_fcall_handlers handlers = { NULL, NULL };
	const zend_class_entry *scope = EX(func)->common.scope;
	if (gate == GATE_BOOT && scope && is_announced(scope)) {
		handlers.begin = on_method;
	}
	return handlers;
}

/* In the host, before anything is compiled. */
void reads_startup(void)
{
	watch_fetches(on_fetch, were);
	watch_opcode(ZEND_BIND_GLOBAL, on_bind, were);
	watch_opcode(ZEND_FETCH_GLOBALS, on_globals, were);
	/* With an observer all calls of functions take longer: 4 % of the CPU of a WordPress page. */
	if (options.rewind_methods) {
		zend_observer_fcall_register(on_function);
	}
}

/* A request begins that may come to a point. */
void reads_begin(void)
{
	overflown = used = false;
	count = repeats_count = classes_count = 0;
}

/* Announces functions and classes, for the boot that runs. PHP frees the copies of their names with the request's memory. */
void reads_announce(HashTable *functions, HashTable *of_objects)
{
	zval *name;
	ZEND_HASH_FOREACH_VAL(of_objects, name) {
		if (Z_TYPE_P(name) == IS_STRING && classes_count < CLASSES_MOST) {
			classes[classes_count++] = zend_string_copy(Z_STR_P(name));
		}
	} ZEND_HASH_FOREACH_END();
	ZEND_HASH_FOREACH_VAL(functions, name) {
		if (Z_TYPE_P(name) != IS_STRING || repeats_count == REPEATS_MOST) {
			continue;
		}
		const char *text = Z_STRVAL_P(name), *colons = strstr(text, "::"), *method = colons ? colons + 2 : text;
		repeats[repeats_count++] = (struct repeats){ zend_string_copy(Z_STR_P(name)), colons ? text : NULL, method,
			colons ? (size_t)(colons - text) : 0, Z_STRLEN_P(name) - (size_t)(method - text) };
	} ZEND_HASH_FOREACH_END();
}

/* Whether the boot has called methods of objects of these classes, beside what these functions call; true, if that is not known. */
bool reads_were_used(void)
{
	return used || !options.rewind_methods;
}

/* ---- the key ---- */

/* Whether a file's path ends with what was named, as in "wp-includes/load.php". */
static bool ends_with(const zend_string *path, const zend_string *end)
{
	return ZSTR_LEN(path) >= ZSTR_LEN(end)
		&& memcmp(ZSTR_VAL(path) + ZSTR_LEN(path) - ZSTR_LEN(end), ZSTR_VAL(end), ZSTR_LEN(end)) == 0;
}

static bool is_repeated(const struct read *read, HashTable *repeated)
{
	zval *name;
	if (!repeated) {
		return false;
	}
	ZEND_HASH_FOREACH_VAL(repeated, name) {
		if (Z_TYPE_P(name) != IS_STRING) {
			continue;
		}
		if (read->function ? zend_string_equals(read->function, Z_STR_P(name)) : read->file && ends_with(read->file, Z_STR_P(name))) {
			return true;
		}
		if (read->within && zend_string_equals(read->within, Z_STR_P(name))) {
			return true;
		}
	} ZEND_HASH_FOREACH_END();
	return false;
}

/* What is another one in each request: with it no image would serve a second one. */
static bool is_always_new(const struct read *read)
{
	bool is_of_server = read->source == OF_SERVER || read->source == OF_ENV;
	return read->source == OF_CALL || (is_of_server && (!read->name || zend_string_equals_literal(read->name, "REQUEST_TIME_FLOAT")));
}

/* Leaves out what the caller repeats. Why there can be no key, or NULL. */
const char *reads_leave_out(HashTable *repeated)
{
	static char text[400];
	size_t kept = 0;
	if (overflown) {
		return "the boot reads too many parts of its request";
	}
	for (size_t i = 0; i < count; i++) {
		const struct read *read = &reads[i];
		if (is_repeated(read, repeated)) {
			continue;
		}
		if (is_always_new(read)) {
			const char *what = read->call ? read->call : read->name ? "reads $_SERVER[REQUEST_TIME_FLOAT]" : "reads all of $";
			snprintf(text, sizeof text, "the boot %s%s%s%s in %.200s:%u", read->is_function ? "calls " : "", what,
				read->is_function ? "()" : "", read->call || read->name ? "" : names[read->source],
				read->file ? ZSTR_VAL(read->file) : "?", read->line);
			return text;
		}
		reads[kept++] = *read;
	}
	count = kept;
	return NULL;
}

static void put_value(smart_str *text, zval *value)
{
	ZVAL_DEREF(value);
	if (Z_TYPE_P(value) != IS_ARRAY) {
		zend_string *string = zval_get_string(value);
		smart_str_append_printf(text, "%d:%zu:", Z_TYPE_P(value), ZSTR_LEN(string));
		smart_str_append(text, string);
		zend_string_release(string);
		return;
	}
	zend_ulong number;
	zend_string *name;
	zval *element;
	smart_str_appendc(text, '[');
	ZEND_HASH_FOREACH_KEY_VAL(Z_ARRVAL_P(value), number, name, element) {
		smart_str_append_printf(text, "%zu:%s=", name ? ZSTR_LEN(name) : (size_t)number, name ? ZSTR_VAL(name) : "");
		put_value(text, element);
	} ZEND_HASH_FOREACH_END();
	smart_str_appendc(text, ']');
}

static void put_read(smart_str *text, const struct read *read)
{
	smart_str_append_printf(text, "\n%d %s=", (int)read->source, read->name ? ZSTR_VAL(read->name) : "*");
	if (read->source == OF_GETENV) {
		const char *value = vars_getenv(ZSTR_VAL(read->name), ZSTR_LEN(read->name));
		smart_str_append_printf(text, "%s%s", value ? ":" : "", value ? value : "");
		return;
	}
	const char *array = names[read->source];
	zend_is_auto_global_str(array, strlen(array));
	zval *value = zend_hash_str_find_ind(&EG(symbol_table), array, strlen(array));
	if (value && read->name) {
		ZVAL_DEREF(value);
		value = Z_TYPE_P(value) == IS_ARRAY ? zend_symtable_find(Z_ARRVAL_P(value), read->name) : NULL;
	}
	if (value) {
		put_value(text, value);
	}
}

/* What is written in the request that the superglobals hold now, where the boot has read; false: there is no memory. */
bool reads_key(struct buffer *key)
{
	static const char *const always[] = { "SCRIPT_FILENAME", "SCRIPT_NAME", "DOCUMENT_ROOT", "SERVER_NAME", "HTTPS" };
	smart_str text = { 0 };
	smart_str_append_printf(&text, "%s", worker->request.inject ? worker->request.inject : "");
	for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
		const char *value = vars_value(always[i]);
		smart_str_append_printf(&text, "\n%s", value ? value : "");
	}
	if (php_output_get_level() > 0 || INI_INT("zlib.output_compression")) {
		/* A handler that compresses looks at it when it starts. */
		const char *codings = vars_value("HTTP_ACCEPT_ENCODING");
		smart_str_append_printf(&text, "\n%s", codings ? codings : "");
	}
	for (size_t i = 0; i < count; i++) {
		put_read(&text, &reads[i]);
	}
	size_t length = text.s ? ZSTR_LEN(text.s) : 0;
	bool good = length <= key->room;
	if (good && length) {
		memcpy(key->bytes, ZSTR_VAL(text.s), length);
	}
	key->length = length;
	smart_str_free(&text);
	return good;
}

/* ---- for people ---- */

static bool is_named_before(size_t at)
{
	for (size_t i = 0; i < at; i++) {
		if (reads[i].source == reads[at].source && (reads[i].name == reads[at].name
			|| (reads[i].name && reads[at].name && zend_string_equals(reads[i].name, reads[at].name)))) {
			return true;
		}
	}
	return false;
}

static void put_name(struct text *text, const struct read *read)
{
	text_put(text, read->source == OF_GETENV ? "\ngetenv(" : "\n$");
	if (read->source != OF_GETENV) {
		text_put(text, names[read->source]);
		text_put(text, read->name ? "[" : "");
	}
	if (read->name) {
		text_foreign(text, ZSTR_VAL(read->name), ZSTR_LEN(read->name));
	}
	text_put(text, read->source == OF_GETENV ? ")" : read->name ? "]" : "");
}

/* The key without its values, which may be secrets: the script, and a line for each thing that its boot reads. What has no room is "...". */
void reads_names(struct text *text)
{
	const char *script = vars_value("SCRIPT_FILENAME");
	text_foreign(text, script ? script : "", script ? strlen(script) : 0);
	for (size_t i = 0; i < count; i++) {
		size_t length = text->length;
		if (is_named_before(i)) {
			continue;
		}
		put_name(text, &reads[i]);
		if (text->length + sizeof "\n..." > text->room) {
			text->length = length;
			text_put(text, "\n...");
			return;
		}
	}
}
