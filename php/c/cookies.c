/*
 * Which cookies a page depends on. A request whose response may become a page for all has two kinds of cookies: those that the server
 * knows, and the rest, which are withheld: PHP starts without them, so none of them can get into the page, whatever the script does.
 *
 *   withheld ── the script looks for one of them, or at all cookies ──> revealed: it gets all of them; the page is this visitor's own
 *      └─────── it does not ────────────────────────────────────────> the page is for all
 *
 * What the script has looked for is said at its end: with these cookies the stored page is sent to nobody (crates/pages/src/looked.rs).
 *
 * A script reaches cookies by the variables that hold them, which the VM fetches by name ($_COOKIE, $_REQUEST, $_SERVER and $_ENV with
 * HTTP_COOKIE, $GLOBALS), or by functions of PHP: filter_input(), getenv(), getallheaders(), session_start() and those that make an array
 * of all variables. One element that is looked at by its name is that cookie; anything else is all of them. WordPress copies the whole
 * arrays, to escape them, and Millrace's own hooks look at all cookies at the end: both count as nothing, by their place.
 *
 * Where the VM can't be watched - opcache's JIT compiles fetches of its own - and where a boot is not run by each request, all cookies
 * count as read, and none is withheld.
 */
#include "worker.h"

#include <ext/standard/php_string.h>
#include <string.h>

#define NAMES_MOST 24u
#define NAME_MOST 64u

enum use { EXISTENCE, VALUE };

/* Of this request. */
static struct {
	bool noting, revealed, all;
	bool handed_out; /* other code than WordPress's own has seen all of them */
	bool escaped; /* WordPress has escaped $_COOKIE and $_SERVER */
	unsigned count;
	struct { enum use use; char name[NAME_MOST + 1]; } names[NAMES_MOST];
	zval withheld; /* what is withheld, as PHP sees it; undefined: not parsed yet */
} cookies;

/* All cookies of the request, once they are revealed; in a mapping of its own, because PHP keeps pointers to it. */
static struct buffer whole;

/* Fetches can't be watched. */
static bool blind = true;

/* ---- revealing ---- */

/* The withheld cookies, as PHP parses them. */
static HashTable *withheld(void)
{
	if (Z_TYPE(cookies.withheld) == IS_UNDEF) {
		char *sent = SG(request_info).cookie_data;
		zval own;
		ZVAL_COPY(&own, &PG(http_globals)[TRACK_VARS_COOKIE]);
		SG(request_info).cookie_data = (char *)(uintptr_t)worker->request.withheld;
		sapi_module.treat_data(PARSE_COOKIE, NULL, NULL);
		SG(request_info).cookie_data = sent;
		ZVAL_COPY_VALUE(&cookies.withheld, &PG(http_globals)[TRACK_VARS_COOKIE]);
		ZVAL_COPY_VALUE(&PG(http_globals)[TRACK_VARS_COOKIE], &own);
	}
	return Z_ARRVAL(cookies.withheld);
}

/* Puts the cookies into HTTP_COOKIE of the request's variables. */
static bool reveal_variable(void)
{
	struct variable *variables = (void *)worker->variables.bytes, *known = (void *)(uintptr_t)vars_find(ZEND_STRL("HTTP_COOKIE"));
	const char *before = known ? known->value : "", *more = worker->request.withheld;
	size_t length = strlen(before) + 2 + strlen(more);
	if (!wire_room(&whole, length + 1)) {
		return false;
	}
	snprintf(whole.bytes, length + 1, "%s%s%s", before, known ? "; " : "", more);
	if (!known) {
		/* parse_variables() has left room for one more. */
		known = &variables[worker->request.count++];
		*known = (struct variable){ "HTTP_COOKIE", NULL, sizeof "HTTP_COOKIE" - 1, 0 };
	}
	known->value = whole.bytes;
	known->value_length = (uint32_t)strlen(whole.bytes);
	return true;
}

/* As WordPress's add_magic_quotes(), if `escaped`. */
static void copy_value(zval *to, zval *from, bool escaped)
{
	ZVAL_DEREF(from);
	if (escaped && Z_TYPE_P(from) == IS_STRING) {
		ZVAL_STR(to, php_addslashes(Z_STR_P(from)));
	} else if (escaped && Z_TYPE_P(from) == IS_ARRAY) {
		zend_ulong number;
		zend_string *name;
		zval *element;
		array_init(to);
		ZEND_HASH_FOREACH_KEY_VAL(Z_ARRVAL_P(from), number, name, element) {
			zval copy;
			copy_value(&copy, element, true);
			if (name) {
				zend_hash_update(Z_ARRVAL_P(to), name, &copy);
			} else {
				zend_hash_index_update(Z_ARRVAL_P(to), number, &copy);
			}
		} ZEND_HASH_FOREACH_END();
	} else {
		ZVAL_COPY(to, from);
	}
}

/* Adds to an array of cookies what it lacks. */
static void add_to(zval *array, bool escaped)
{
	zend_ulong number;
	zend_string *name;
	zval *value;
	if (!array || Z_TYPE_P(array) != IS_ARRAY) {
		return;
	}
	SEPARATE_ARRAY(array);
	ZEND_HASH_FOREACH_KEY_VAL(withheld(), number, name, value) {
		if (name ? zend_hash_exists(Z_ARRVAL_P(array), name) : zend_hash_index_exists(Z_ARRVAL_P(array), number)) {
			continue;
		}
		zval copy;
		copy_value(&copy, value, escaped);
		if (name) {
			zend_hash_update(Z_ARRVAL_P(array), name, &copy);
		} else {
			zend_hash_index_update(Z_ARRVAL_P(array), number, &copy);
		}
	} ZEND_HASH_FOREACH_END();
}

/* Replaces HTTP_COOKIE in an array of variables of the server. */
static void set_field(zval *array, bool escaped)
{
	if (!array || Z_TYPE_P(array) != IS_ARRAY || !zend_hash_str_exists(Z_ARRVAL_P(array), ZEND_STRL("REQUEST_METHOD"))) {
		return;
	}
	zval text, value;
	ZVAL_STRING(&text, whole.bytes);
	copy_value(&value, &text, escaped);
	zval_ptr_dtor(&text);
	SEPARATE_ARRAY(array);
	zend_hash_str_update(Z_ARRVAL_P(array), ZEND_STRL("HTTP_COOKIE"), &value);
}

/* The same for filter_input(), which has arrays of its own, if they are filled already. */
static void set_filtered(int kind, const zval *array)
{
	if (Z_TYPE_P(array) == IS_ARRAY && zend_hash_num_elements(Z_ARRVAL_P(array))) {
		char *value = whole.bytes;
		size_t length = strlen(value);
		sapi_module.input_filter(kind, "HTTP_COOKIE", &value, length, &length);
	}
}

static zval *variable(const char *name)
{
	zval *value = zend_hash_str_find_ind(&EG(symbol_table), name, strlen(name));
	if (value) {
		ZVAL_DEREF(value);
	}
	return value;
}

/* Whether $_REQUEST has cookies: WordPress's own has none, from when it escapes the arrays. */
static bool is_in_request(void)
{
	if (cookies.escaped) {
		return false;
	}
	const char *order = PG(request_order) ? PG(request_order) : PG(variables_order);
	return order && strpbrk(order, "cC");
}

/* The script gets the withheld cookies; what it has been told of them until now was only that they are not there. */
static void reveal(void)
{
	if (cookies.revealed || !worker->request.withheld) {
		return;
	}
	cookies.revealed = true;
	if (!reveal_variable()) {
		return;
	}
	SG(request_info).cookie_data = whole.bytes;
	add_to(variable("_COOKIE"), cookies.escaped);
	add_to(&PG(http_globals)[TRACK_VARS_COOKIE], false);
	if (is_in_request()) {
		add_to(variable("_REQUEST"), false);
	}
	set_field(variable("_SERVER"), cookies.escaped);
	set_field(&PG(http_globals)[TRACK_VARS_SERVER], false);
	set_field(variable("_ENV"), false);
	set_field(&PG(http_globals)[TRACK_VARS_ENV], false);
	set_filtered(PARSE_SERVER, &PG(http_globals)[TRACK_VARS_SERVER]);
	set_filtered(PARSE_ENV, &PG(http_globals)[TRACK_VARS_ENV]);
}

/* ---- noting ---- */

static bool is_plain(const char *name, size_t length)
{
	return length && length <= NAME_MOST
		&& strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == length;
}

/* The script looks at all cookies. */
void cookies_look_for_all(void)
{
	if (worker && cookies.noting) {
		cookies.all = cookies.handed_out = true;
		reveal();
	}
}

static void remember(const char *name, size_t length, enum use use)
{
	for (unsigned i = 0; i < cookies.count; i++) {
		if (strcmp(cookies.names[i].name, name) == 0) {
			cookies.names[i].use |= use;
			return;
		}
	}
	if (cookies.count == NAMES_MOST) {
		cookies.all = cookies.handed_out = true;
		reveal();
		return;
	}
	memcpy(cookies.names[cookies.count].name, name, length + 1);
	cookies.names[cookies.count++].use = use;
}

/* The script looks for this cookie. That there is a session is known already; only what it is called tells more. */
static void look_for(const char *name, size_t length, enum use use)
{
	if (!worker || !cookies.noting) {
		return;
	}
	if (!is_plain(name, length)) {
		cookies_look_for_all();
		return;
	}
	remember(name, length, use);
	bool of_session = use == EXISTENCE && strcmp(name, zend_ini_string("session.name", sizeof "session.name" - 1, 0)) == 0;
	if (!cookies.revealed && worker->request.withheld && !of_session && zend_symtable_str_exists(withheld(), name, length)) {
		reveal();
	}
}

/* session_start() looks for its own cookie. An empty session is what a visitor without one has, too (visitor.c). */
void cookies_look_for_session(const char *name)
{
	if (name) {
		look_for(name, strlen(name), EXISTENCE);
		if (worker && cookies.noting && worker->request.withheld && zend_symtable_str_exists(withheld(), name, strlen(name))) {
			reveal();
		}
	}
}

/* Whether the script knows what this cookie says, and not only whether it is there. */
bool cookies_value_was_read(const char *name)
{
	if (cookies.handed_out) {
		return true;
	}
	for (unsigned i = 0; i < cookies.count; i++) {
		if (cookies.names[i].use == VALUE && strcmp(cookies.names[i].name, name) == 0) {
			return true;
		}
	}
	return false;
}

/* Something has used cookies before it could be seen. */
void cookies_were_used(void)
{
	cookies.all = cookies.handed_out = true;
	cookies.revealed |= worker && worker->request.withheld;
}

/* ---- the VM's fetches ---- */

/* Whether the frame is in WordPress's own copy of the arrays that it escapes. */
static bool is_in_core(const zend_execute_data *execute_data)
{
	static const char path[] = "/wp-includes/load.php";
	const zend_op_array *code = &EX(func)->op_array;
	size_t length = ZSTR_LEN(code->filename);
	if (!code->function_name || code->scope || length < sizeof path - 1
		|| memcmp(ZSTR_VAL(code->filename) + length - (sizeof path - 1), path, sizeof path - 1) != 0) {
		return false;
	}
	return zend_string_equals_literal(code->function_name, "wp_magic_quotes")
		|| zend_string_equals_literal(code->function_name, "wp_fix_server_vars");
}

/* Whether it is in any other file of WordPress itself. */
static bool is_of_core(const zend_execute_data *execute_data)
{
	const char *file = ZSTR_VAL(EX(func)->op_array.filename);
	return strstr(file, "/wp-includes/") || strstr(file, "/wp-admin/");
}

/* Whether it is in Millrace's own hooks. */
static bool is_in_hooks(const zend_execute_data *execute_data)
{
	const char *hooks = worker->request.inject, *end = hooks ? strrchr(hooks, '/') : NULL;
	return end && strncmp(ZSTR_VAL(EX(func)->op_array.filename), hooks, (size_t)(end - hooks) + 1) == 0;
}

static void look_at_whole(const zend_execute_data *execute_data, bool of_cookies)
{
	if (is_in_core(execute_data)) {
		cookies.escaped |= of_cookies;
	} else if (is_of_core(execute_data)) {
		/* The REST server hands all fields on; but nothing in WordPress is kept by the name of a session. */
		cookies.all = true;
		reveal();
	} else if (!is_in_hooks(execute_data)) {
		cookies_look_for_all();
	}
}

enum array { NO_ARRAY, OF_COOKIES, OF_REQUEST, OF_SERVER };

static enum array array_of(const zend_string *name)
{
	if (ZSTR_LEN(name) < 4 || ZSTR_VAL(name)[0] != '_') {
		return NO_ARRAY;
	}
	if (zend_string_equals_literal(name, "_COOKIE")) {
		return OF_COOKIES;
	}
	if (zend_string_equals_literal(name, "_REQUEST")) {
		return is_in_request() ? OF_REQUEST : NO_ARRAY;
	}
	return zend_string_equals_literal(name, "_SERVER") || zend_string_equals_literal(name, "_ENV") ? OF_SERVER : NO_ARRAY;
}

/* Whether the opcode behind a fetch only asks whether the element is there. */
static enum use use_of(const zend_op *next)
{
	bool is_isset = next->opcode == ZEND_ISSET_ISEMPTY_DIM_OBJ && !(next->extended_value & ZEND_ISEMPTY);
	return is_isset || next->opcode == ZEND_ARRAY_KEY_EXISTS ? EXISTENCE : VALUE;
}

static void look_at(zend_execute_data *execute_data, enum array array)
{
	zend_string *name = NULL;
	bool writes = false;
	if (!reads_element(execute_data, &name, &writes)) {
		if (!writes) {
			look_at_whole(execute_data, array == OF_COOKIES);
		}
		return;
	}
	if (array != OF_SERVER) {
		look_for(ZSTR_VAL(name), ZSTR_LEN(name), use_of(EX(opline) + 1));
	} else if (zend_string_equals_literal(name, "HTTP_COOKIE")) {
		cookies_look_for_all();
	}
	zend_string_release(name);
}

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
	if (cookies.noting) {
		const zend_string *name = name_of(execute_data);
		enum array array = name ? array_of(name) : NO_ARRAY;
		if (array != NO_ARRAY) {
			look_at(execute_data, array);
		}
	}
	return watch_go_on(were, execute_data);
}

/* isset($_COOKIE), empty($_COOKIE): whether there are any. */
static int on_isset(zend_execute_data *execute_data)
{
	if (cookies.noting) {
		const zend_string *name = name_of(execute_data);
		enum array array = name ? array_of(name) : NO_ARRAY;
		if (array == OF_COOKIES || array == OF_REQUEST) {
			look_at_whole(execute_data, false);
		}
	}
	return watch_go_on(were, execute_data);
}

/* $GLOBALS: one variable by its name, or all. */
static int on_globals(zend_execute_data *execute_data)
{
	if (cookies.noting) {
		zend_string *name = NULL;
		bool writes = false, is_one = reads_element(execute_data, &name, &writes);
		if (is_one ? array_of(name) != NO_ARRAY : !writes) {
			look_at_whole(execute_data, false);
		}
		if (is_one) {
			zend_string_release(name);
		}
	}
	return watch_go_on(were, execute_data);
}

/* ---- functions ---- */

static zif_handler filter_input_was, filter_input_array_was, filter_has_var_was, compact_was, defined_vars_was, info_was;

/* filter_input(), filter_has_var(): the second argument names the variable. */
static void look_by_filter(zend_execute_data *execute_data, enum use use)
{
	zval *kind = ZEND_NUM_ARGS() > 1 ? ZEND_CALL_ARG(execute_data, 1) : NULL, *name = kind ? ZEND_CALL_ARG(execute_data, 2) : NULL;
	if (!kind || Z_TYPE_P(kind) != IS_LONG || Z_TYPE_P(name) != IS_STRING) {
		cookies_look_for_all();
	} else if (Z_LVAL_P(kind) == PARSE_COOKIE) {
		look_for(Z_STRVAL_P(name), Z_STRLEN_P(name), use);
	} else if (Z_LVAL_P(kind) != PARSE_GET && Z_LVAL_P(kind) != PARSE_POST && zend_string_equals_literal(Z_STR_P(name), "HTTP_COOKIE")) {
		cookies_look_for_all();
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
	if (!kind || Z_TYPE_P(kind) != IS_LONG || (Z_LVAL_P(kind) != PARSE_GET && Z_LVAL_P(kind) != PARSE_POST)) {
		cookies_look_for_all();
	}
	filter_input_array_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* In the global scope, the superglobals are among the variables that these functions take by name. */
static void look_by_scope(void)
{
	if (watch_is_global_scope()) {
		cookies_look_for_all();
	}
}

static PHP_FUNCTION(noted_compact)
{
	look_by_scope();
	compact_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static PHP_FUNCTION(noted_defined_vars)
{
	look_by_scope();
	defined_vars_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static PHP_FUNCTION(noted_info)
{
	cookies_look_for_all();
	info_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
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
void cookies_startup(void)
{
	blind = options.rewind || options.worker_script || uses_jit();
	if (blind) {
		return;
	}
	watch_fetches(on_fetch, were);
	watch_opcode(ZEND_ISSET_ISEMPTY_VAR, on_isset, were);
	watch_opcode(ZEND_FETCH_GLOBALS, on_globals, were);
}

/* In the host, when all functions are there. */
void cookies_watch(void)
{
	static const struct { const char *name; zif_handler ours, *was; } wrapped[] = {
		{ "filter_input", ZEND_FN(noted_filter_input), &filter_input_was },
		{ "filter_has_var", ZEND_FN(noted_filter_has_var), &filter_has_var_was },
		{ "filter_input_array", ZEND_FN(noted_filter_input_array), &filter_input_array_was },
		{ "compact", ZEND_FN(noted_compact), &compact_was },
		{ "get_defined_vars", ZEND_FN(noted_defined_vars), &defined_vars_was },
		{ "phpinfo", ZEND_FN(noted_info), &info_was },
	};
	for (size_t i = 0; !blind && i < sizeof wrapped / sizeof *wrapped; i++) {
		*wrapped[i].was = watch_replace(NULL, wrapped[i].name, wrapped[i].ours);
	}
}

/* A request has come, and PHP has not seen its cookies yet. */
void cookies_begin(void)
{
	memset(&cookies, 0, sizeof cookies);
	ZVAL_UNDEF(&cookies.withheld);
	/* Sessions are noted for all requests: visitor.c asks for them. */
	cookies.noting = true;
	if (blind) {
		cookies.all = cookies.handed_out = true;
		cookies.revealed = worker->request.withheld && reveal_variable();
	}
}

/*
 * Says what was looked for, before END: `+`, if the script got cookies that were withheld, else `-`; `=`, if the application judges its
 * visitors itself; and names, or `*`.
 */
void cookies_end(void)
{
	if (worker->request.shared && worker->answer != ANSWER_ENDED) {
		char text[8 + NAMES_MOST * (NAME_MOST + 2)];
		size_t length = (size_t)snprintf(text, sizeof text, "%c%s", cookies.revealed ? '+' : '-', visitor_judges() ? " =" : "");
		for (unsigned i = 0; i < cookies.count && !cookies.all; i++) {
			const char *mark = cookies.names[i].use == EXISTENCE ? "?" : "";
			length += (size_t)snprintf(text + length, sizeof text - length, " %s%s", mark, cookies.names[i].name);
		}
		if (cookies.all) {
			length += (size_t)snprintf(text + length, sizeof text - length, " *");
		}
		wire_note(MR_NOTE_COOKIES, text, length);
	}
}

/* The script is over. */
void cookies_free(void)
{
	zval_ptr_dtor(&cookies.withheld);
	ZVAL_UNDEF(&cookies.withheld);
	cookies.noting = false;
}
