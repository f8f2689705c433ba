/*
 * Sees what a script reads of its request, for those who have to know which pages depend on it: cookies.c, fields.c and
 * identity.c.
 *
 * A script reaches a request by the variables that hold it, which the VM fetches by name - $_SERVER, $_ENV, $_COOKIE, $_REQUEST, $GLOBALS -
 * or by functions of PHP: filter_input(), getenv(), getallheaders(), get_browser(), session_start(), and those that make an array of all
 * variables. `$_SERVER['HTTP_DNT']` is a FETCH and, as the next opcode, the look at one element; without one it is the whole array.
 *
 * WordPress keeps what it finds out about the browser in global variables, before it loads plugins. To look at one of them is to read the
 * request's User-Agent. The same holds for what it knows of a member (identity.c). In functions they are bound (`global $is_chrome`); code that runs in the global scope names them, which is seen
 * when it is compiled or loaded.
 *
 * The VM can't be watched where opcache's JIT compiles fetches of its own, and it is not where a boot is not run by each request.
 */
#include "worker.h"

#include <string.h>

/* Reads can't be seen. */
static bool blind = true;
/* A request runs. */
static bool observes;

/* ---- who reads ---- */

bool observe_is_in(const zend_execute_data *frame, const char *path)
{
	const zend_string *file = frame->func->op_array.filename;
	size_t length = strlen(path);
	return ZSTR_LEN(file) >= length && memcmp(ZSTR_VAL(file) + ZSTR_LEN(file) - length, path, length) == 0
		&& !strstr(ZSTR_VAL(file), "/wp-content/");
}

/* Whether it runs this function, which is no method. */
bool observe_runs(const zend_execute_data *frame, const char *name)
{
	const zend_op_array *code = &frame->func->op_array;
	return code->function_name && !code->scope && strcmp(ZSTR_VAL(code->function_name), name) == 0;
}

/* Whether a file is WordPress's own. */
bool observe_is_core(const zend_string *file)
{
	return (strstr(ZSTR_VAL(file), "/wp-includes/") || strstr(ZSTR_VAL(file), "/wp-admin/")) && !strstr(ZSTR_VAL(file), "/wp-content/");
}

/* Whether anything is registered for a hook, or it can't be told. */
bool observe_is_hooked(const char *hook)
{
	zval *all = zend_hash_str_find_ind(&EG(symbol_table), ZEND_STRL("wp_filter"));
	if (all) {
		ZVAL_DEREF(all);
	}
	return !all || Z_TYPE_P(all) != IS_ARRAY || zend_hash_str_exists(Z_ARRVAL_P(all), hook, strlen(hook));
}

/* Whose code this is. */
enum reader observe_reader(const zend_execute_data *frame)
{
	if (observe_is_in(frame, "/wp-includes/load.php") && (observe_runs(frame, "wp_magic_quotes") || observe_runs(frame, "wp_fix_server_vars"))) {
		return BY_COPY;
	}
	return observe_is_core(frame->func->op_array.filename) ? BY_CORE : watch_is_hooks(frame->func->op_array.filename) ? BY_HOOKS : BY_SITE;
}

/* ---- variables ---- */

enum observed { NONE, OF_COOKIES, OF_REQUEST, OF_SERVER, OF_BROWSER, OF_MEMBER };

static bool is_of_browser(const zend_string *name)
{
	static const char *const all[] = { "is_lynx", "is_gecko", "is_winIE", "is_macIE", "is_opera", "is_NS4", "is_safari", "is_chrome",
		"is_iphone", "is_IE", "is_edge" };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (strcmp(ZSTR_VAL(name), all[i]) == 0) {
			return true;
		}
	}
	return false;
}

static enum observed variable_of(const zend_string *name)
{
	if (ZSTR_LEN(name) < 4) {
		return NONE;
	}
	if (ZSTR_VAL(name)[0] == 'i') {
		return ZSTR_VAL(name)[1] == 's' && ZSTR_VAL(name)[2] == '_' && is_of_browser(name) ? OF_BROWSER : NONE;
	}
	if (ZSTR_VAL(name)[0] == 'u') {
		return identity_is_noting() && identity_is_variable(name) ? OF_MEMBER : NONE;
	}
	if (ZSTR_VAL(name)[0] != '_') {
		return NONE;
	}
	if (zend_string_equals_literal(name, "_COOKIE")) {
		return OF_COOKIES;
	}
	if (zend_string_equals_literal(name, "_REQUEST")) {
		return cookies_are_in_request() ? OF_REQUEST : NONE;
	}
	return zend_string_equals_literal(name, "_SERVER") || zend_string_equals_literal(name, "_ENV") ? OF_SERVER : NONE;
}

/* The script looks at all that it can know of its request. */
void observe_all(const zend_execute_data *frame)
{
	cookies_look_for_all();
	identity_read_all(frame);
	fields_read_all(frame);
}

static void look_at_whole(const zend_execute_data *frame, enum observed variable)
{
	cookies_look_at_whole(observe_reader(frame), variable == OF_COOKIES);
	identity_read_all(frame);
	if (variable == OF_SERVER) {
		fields_read_all(frame);
	}
}

/* Whether the opcode behind a fetch only asks whether the element is there; the array is sent only to array_key_exists(). */
static enum cookie_use use_of(const zend_op *next)
{
	bool is_isset = next->opcode == ZEND_ISSET_ISEMPTY_DIM_OBJ && !(next->extended_value & ZEND_ISEMPTY);
	bool is_sent = next->opcode == ZEND_SEND_VAL || next->opcode == ZEND_SEND_VAL_EX || next->opcode == ZEND_SEND_VAR || next->opcode == ZEND_SEND_VAR_EX
		|| next->opcode == ZEND_SEND_FUNC_ARG;
	return is_isset || is_sent || next->opcode == ZEND_ARRAY_KEY_EXISTS ? EXISTENCE : VALUE;
}

static void look_at(zend_execute_data *execute_data, enum observed variable)
{
	zend_string *name = NULL;
	bool writes = false;
	if (!reads_element(execute_data, &name, &writes)) {
		if (!writes) {
			look_at_whole(execute_data, variable);
		}
		return;
	}
	if (variable != OF_SERVER) {
		cookies_look_for(ZSTR_VAL(name), ZSTR_LEN(name), use_of(EX(opline) + 1));
		identity_read_cookie(ZSTR_VAL(name), ZSTR_LEN(name), execute_data);
	} else if (zend_string_equals_literal(name, "HTTP_COOKIE")) {
		cookies_look_for_all();
		identity_read_all(execute_data);
	} else {
		fields_read(ZSTR_VAL(name), ZSTR_LEN(name), execute_data);
	}
	zend_string_release(name);
}

/* One in which WordPress keeps what it has found out; false: it is none of these. */
static bool look_at_kept(const zend_execute_data *frame, const zend_string *name, enum observed variable)
{
	if (variable == OF_BROWSER) {
		fields_read_browser(ZSTR_VAL(name), frame);
	} else if (variable == OF_MEMBER) {
		identity_read_variable(ZSTR_VAL(name), frame);
	}
	return variable == OF_BROWSER || variable == OF_MEMBER;
}

/* ---- opcodes ---- */

static user_opcode_handler_t were[256];

/* The name of the variable that an opcode is about; NULL: none that is text. */
static const zend_string *name_of(zend_execute_data *execute_data)
{
	const zend_op *opline = EX(opline);
	const zval *name = opline->op1_type == IS_CONST ? RT_CONSTANT(opline, opline->op1) : EX_VAR(opline->op1.var);
	ZVAL_DEREF(name);
	return Z_TYPE_P(name) == IS_STRING ? Z_STR_P(name) : NULL;
}

/* A variable is fetched by its name. */
static int on_fetch(zend_execute_data *execute_data)
{
	const zend_string *name = observes ? name_of(execute_data) : NULL;
	enum observed variable = name ? variable_of(name) : NONE;
	if (!look_at_kept(execute_data, name, variable) && variable != NONE) {
		look_at(execute_data, variable);
	}
	return watch_go_on(were, execute_data);
}

/* isset($_COOKIE), empty($_COOKIE): whether there are any. $_SERVER always has something. */
static int on_isset(zend_execute_data *execute_data)
{
	const zend_string *name = observes ? name_of(execute_data) : NULL;
	enum observed variable = name ? variable_of(name) : NONE;
	if (variable == OF_COOKIES || variable == OF_REQUEST) {
		cookies_look_at_whole(observe_reader(execute_data), false);
		identity_read_all(execute_data);
	} else if (variable == OF_BROWSER) {
		look_at_kept(execute_data, name, variable);
	}
	return watch_go_on(were, execute_data);
}

/* $GLOBALS: one variable by its name, or all. */
static int on_globals(zend_execute_data *execute_data)
{
	if (observes) {
		zend_string *name = NULL;
		bool writes = false, is_one = reads_element(execute_data, &name, &writes);
		enum observed variable = is_one ? variable_of(name) : writes ? NONE : OF_SERVER;
		if (!look_at_kept(execute_data, name, variable) && variable != NONE) {
			look_at_whole(execute_data, variable);
		}
		if (is_one) {
			zend_string_release(name);
		}
	}
	return watch_go_on(were, execute_data);
}

/* `global $name` */
static int on_bind(zend_execute_data *execute_data)
{
	const zend_op *opline = EX(opline);
	const zend_string *name = Z_STR_P(RT_CONSTANT(opline, opline->op2));
	look_at_kept(execute_data, name, observes ? variable_of(name) : NONE);
	return watch_go_on(were, execute_data);
}

/* ---- code in the global scope ---- */

static zend_op_array *(*next_compile_file)(zend_file_handle *file, int type);
static MR_COMPILE_STRING(*next_compile_string);

/* Whether code that is loaded now has variables of WordPress's as its own: in the global scope; in a template, those of the function that loads it. */
static bool is_wide_scope(void)
{
	const zend_execute_data *frame = watch_frame(EG(current_execute_data));
	return watch_is_global_scope() || (identity_is_noting() && frame && observe_reader(frame) == BY_CORE);
}

/* What code that is about to run in the scope of the running one names of the variables about the browser and the member. */
static void look_at_names(const zend_op_array *code)
{
	bool is_global = watch_is_global_scope();
	for (int i = 0; i < code->last_var; i++) {
		enum observed variable = variable_of(code->vars[i]);
		if (variable == OF_MEMBER) {
			identity_read_variable_in(ZSTR_VAL(code->vars[i]), code->filename);
		} else if (variable == OF_BROWSER && is_global) {
			fields_read_browser_at(ZSTR_VAL(code->vars[i]), ZSTR_VAL(code->filename), 1);
		}
	}
}

static zend_op_array *on_compile_file(zend_file_handle *file, int type)
{
	zend_op_array *code = next_compile_file(file, type);
	if (observes && code && code->last_var && is_wide_scope()) {
		look_at_names(code);
	}
	return code;
}

static MR_COMPILE_STRING(on_compile_string)
{
	zend_op_array *code = next_compile_string(MR_COMPILE_STRING_PASSTHRU);
	if (observes && code && is_wide_scope()) {
		look_at_names(code);
	}
	return code;
}

/* In a worker that begins: behind opcache's. */
void observe_files(void)
{
	if (!blind) {
		next_compile_file = zend_compile_file;
		zend_compile_file = on_compile_file;
		next_compile_string = zend_compile_string;
		zend_compile_string = on_compile_string;
	}
}

/* ---- functions ---- */

static zif_handler filter_input_was, filter_input_array_was, filter_has_var_was, compact_was, defined_vars_was, info_was, browser_was;

/* filter_input(), filter_has_var(): the second argument names the variable. */
static void look_by_filter(zend_execute_data *execute_data, enum cookie_use use)
{
	zval *kind = ZEND_NUM_ARGS() > 1 ? ZEND_CALL_ARG(execute_data, 1) : NULL, *name = kind ? ZEND_CALL_ARG(execute_data, 2) : NULL;
	if (!observes || (kind && Z_TYPE_P(kind) == IS_LONG && (Z_LVAL_P(kind) == PARSE_GET || Z_LVAL_P(kind) == PARSE_POST))) {
		return;
	}
	if (!kind || Z_TYPE_P(kind) != IS_LONG || Z_TYPE_P(name) != IS_STRING) {
		observe_all(execute_data);
	} else if (Z_LVAL_P(kind) == PARSE_COOKIE) {
		cookies_look_for(Z_STRVAL_P(name), Z_STRLEN_P(name), use);
		identity_read_cookie(Z_STRVAL_P(name), Z_STRLEN_P(name), execute_data);
	} else if (zend_string_equals_literal(Z_STR_P(name), "HTTP_COOKIE")) {
		cookies_look_for_all();
		identity_read_all(execute_data);
	} else {
		fields_read(Z_STRVAL_P(name), Z_STRLEN_P(name), execute_data);
	}
}

static PHP_FUNCTION(noted_filter_input)
{
	look_by_filter(execute_data, VALUE);
	filter_input_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static PHP_FUNCTION(noted_filter_has_var)
{
	look_by_filter(execute_data, EXISTENCE);
	filter_has_var_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static PHP_FUNCTION(noted_filter_input_array)
{
	zval *kind = ZEND_NUM_ARGS() > 0 ? ZEND_CALL_ARG(execute_data, 1) : NULL;
	if (kind && Z_TYPE_P(kind) == IS_LONG && Z_LVAL_P(kind) == PARSE_COOKIE) {
		cookies_look_for_all();
		identity_read_all(execute_data);
	} else if (!kind || Z_TYPE_P(kind) != IS_LONG || (Z_LVAL_P(kind) != PARSE_GET && Z_LVAL_P(kind) != PARSE_POST)) {
		observe_all(execute_data);
	}
	filter_input_array_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* In the global scope, the superglobals are among the variables that these functions take by name; in a template, the member's. */
static void look_by_scope(const zend_execute_data *execute_data)
{
	const zend_execute_data *frame = watch_frame(EX(prev_execute_data));
	if (watch_is_global_scope()) {
		observe_all(execute_data);
	} else if (identity_is_noting() && frame && !frame->func->common.function_name) {
		identity_read_all(execute_data);
	}
}

static PHP_FUNCTION(noted_compact)
{
	look_by_scope(execute_data);
	compact_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static PHP_FUNCTION(noted_defined_vars)
{
	look_by_scope(execute_data);
	defined_vars_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static PHP_FUNCTION(noted_info)
{
	observe_all(execute_data);
	info_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* Without an agent it takes the request's. */
static PHP_FUNCTION(noted_browser)
{
	fields_read(ZEND_STRL("HTTP_USER_AGENT"), execute_data);
	browser_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* ---- the life of a request ---- */

static const char *configured(const char *name, const char *otherwise)
{
	char *value = NULL;
	return cfg_get_string(name, &value) == SUCCESS && value ? value : otherwise;
}

/* opcache starts later, and switches its JIT off if it finds handlers of opcodes: a site that wants the JIT keeps it. */
static bool uses_jit(void)
{
	bool is_newer = PHP_VERSION_ID >= 80400;
	const char *size = configured("opcache.jit_buffer_size", is_newer ? "64M" : "0");
	const char *jit = configured("opcache.jit", is_newer ? "disable" : "tracing");
	return *size && strcmp(size, "0") != 0 && strcasecmp(jit, "disable") != 0;
}

/* In the host, before anything is compiled. */
void observe_startup(void)
{
	blind = options.rewind || options.worker_script || uses_jit();
	carts_startup(blind);
	if (blind) {
		return;
	}
	told_startup();
	posts_startup();
	watch_fetches(on_fetch, were);
	watch_opcode(ZEND_ISSET_ISEMPTY_VAR, on_isset, were);
	watch_opcode(ZEND_FETCH_GLOBALS, on_globals, were);
	watch_opcode(ZEND_BIND_GLOBAL, on_bind, were);
}

/* In the host, when all functions are there. */
void observe_watch(void)
{
	static const struct { const char *name; zif_handler ours, *was; } wrapped[] = {
		{ "filter_input", ZEND_FN(noted_filter_input), &filter_input_was },
		{ "filter_has_var", ZEND_FN(noted_filter_has_var), &filter_has_var_was },
		{ "filter_input_array", ZEND_FN(noted_filter_input_array), &filter_input_array_was },
		{ "compact", ZEND_FN(noted_compact), &compact_was },
		{ "get_defined_vars", ZEND_FN(noted_defined_vars), &defined_vars_was },
		{ "phpinfo", ZEND_FN(noted_info), &info_was },
		{ "get_browser", ZEND_FN(noted_browser), &browser_was },
	};
	for (size_t i = 0; !blind && i < sizeof wrapped / sizeof *wrapped; i++) {
		*wrapped[i].was = watch_replace(NULL, wrapped[i].name, wrapped[i].ours);
	}
	if (!blind) {
		told_watch();
	}
	carts_watch();
}

bool observe_is_blind(void)
{
	return blind;
}

/* A request has come, and PHP has not seen any of it yet. */
void observe_begin(void)
{
	observes = true;
	cookies_begin();
	fields_begin();
	identity_begin();
	carts_begin();
	posts_begin();
}

/* Says what was read, before END. */
void observe_end(void)
{
	cookies_end();
	fields_end();
	carts_end();
}

/* The script is over. */
void observe_free(void)
{
	observes = false;
	cookies_free();
	identity_free();
	posts_free();
}
