/*
 * Whether a page depends on its visitor's cart: on what WooCommerce keeps of a visitor in its cart, session and customer, and in their cookies
 * and rows. Only a page whose script has read nothing of them is the same for visitors with a cart as for strangers, whatever is in the cart.
 *
 *   a method of such an object ── instrument.c ──┐
 *   a property                 ── objects.c     ─┤                    ┌── its own code, or a keeper ──> nothing
 *   a cookie of the shop       ── ../cookies.c  ─┼─> judge(): who reads ─┤
 *   SQL with the session table ── here          ─┤                    └── anybody else ──────────────> the page depends on the cart
 *   a plugin at a hook of a keeper ─ instrument.c┘
 *
 * Who reads is said by the stack. From the read outwards, the first function decides that is none of WordPress's own, which only pass calls on,
 * and none of WooCommerce's that isn't known:
 *
 * - a method of such an object: it was judged when it was called;
 * - a function of WooCommerce's that is known to keep what it reads to itself (known.c);
 * - Millrace's own hooks: they look at the cart to say what it is;
 * - any other code, a plugin or a theme, reads it for the page.
 *
 * What a keeper reads may be passed to plugins by its hooks. So while one runs, a hook of WooCommerce's that calls any other code counts as read.
 *
 * Themes print the cart in elements that the browser replaces. Which functions do that is known at the end, when the hooks ask for the
 * fragments: those that then read the cart, and do nothing with it but print (printed.c), have printed it on the page, too.
 *
 * At the end of a page for all the worker says `-`: nothing was read, or `+` and by whom. Where it can't see what is read - opcache's JIT
 * compiles accesses of its own, its file cache has functions that others have compiled, persistent and rewound workers don't run
 * their boot for each request - it says nothing, and the page counts as one that depends on the cart.
 */
#include "carts.h"

#include <string.h>

/* More reads than these are not told apart, nor are more callers of one. */
#define READS_MOST 16u
#define CALLERS_MOST 8u
#define PRINTERS_MOST 64u
#define TEXT_MOST 200u

struct caller {
	const zend_op *code;
	bool is_clean, is_silent;
};

struct read {
	unsigned count;
	struct caller callers[CALLERS_MOST]; /* code of others, from the read outwards */
	char text[TEXT_MOST];
};

struct folder {
	const char *path;
	size_t length;
};

/* Of this request. */
static struct {
	bool noting, learning;
	bool depends;   /* there was a read that counts in any case */
	unsigned depth; /* keepers that run */
	unsigned count, printers;
	struct read reads[READS_MOST];
	const zend_op *printer[PRINTERS_MOST]; /* functions that have read the cart for a fragment */
	struct folder shop, core;
} carts;

static bool blind = true;

/* ---- whose code it is ---- */

enum place { OF_OTHERS, OF_SHOP, OF_CORE, OF_HOOKS };

static bool is_in(const struct folder *folder, const zend_string *file)
{
	return folder->length && file && ZSTR_LEN(file) > folder->length && memcmp(ZSTR_VAL(file), folder->path, folder->length) == 0
		&& ZSTR_VAL(file)[folder->length] == '/';
}

/* Everything but the last `parts` of a file's path. */
static struct folder folder_of(const zend_string *file, unsigned parts)
{
	size_t length = file ? ZSTR_LEN(file) : 0;
	while (parts && length) {
		parts -= ZSTR_VAL(file)[--length] == '/';
	}
	return (struct folder){ length ? ZSTR_VAL(file) : NULL, length };
}

/* WooCommerce's folder, and WordPress's wp-includes, as soon as their files are there. */
static void find_folders(void)
{
	if (!carts.shop.length) {
		const zend_class_entry *shop = zend_hash_str_find_ptr(EG(class_table), ZEND_STRL("woocommerce"));
		const zend_string *file = shop && shop->type == ZEND_USER_CLASS ? shop->info.user.filename : NULL;
		struct folder folder = folder_of(file, 1);
		static const char includes[] = "/includes";
		bool is_deeper = folder.length > sizeof includes && memcmp(folder.path + folder.length - (sizeof includes - 1), includes, sizeof includes - 1) == 0;
		carts.shop = is_deeper ? folder_of(file, 2) : folder;
	}
	if (!carts.core.length) {
		const zend_function *adds = zend_hash_str_find_ptr(EG(function_table), ZEND_STRL("add_filter"));
		carts.core = folder_of(adds && adds->type == ZEND_USER_FUNCTION ? adds->op_array.filename : NULL, 1);
	}
}

/* WordPress's own files beside wp-includes; wp-config.php is the site's. */
static bool is_of_root(const zend_string *file)
{
	static const char includes[] = "/wp-includes";
	struct folder root = carts.core;
	root.length -= root.length >= sizeof includes ? sizeof includes - 1 : root.length;
	return is_in(&root, file) && !strchr(ZSTR_VAL(file) + root.length + 1, '/') && strcmp(ZSTR_VAL(file) + root.length + 1, "wp-config.php") != 0;
}

static enum place place_of_file(const zend_string *file)
{
	find_folders();
	return watch_is_hooks(file) ? OF_HOOKS : is_in(&carts.shop, file) ? OF_SHOP : is_in(&carts.core, file) || is_of_root(file) ? OF_CORE : OF_OTHERS;
}

static enum place place_of(const zend_op_array *code)
{
	return place_of_file(code->filename);
}

static const zend_string *class_of(const zend_op_array *code)
{
	return code->scope ? code->scope->name : NULL;
}

static bool is_own_method(const zend_op_array *code)
{
	return code->scope && !(code->fn_flags & ZEND_ACC_CLOSURE) && instrument_is_traced(code) && place_of(code) != OF_CORE;
}

/* WordPress calls what is registered for a hook. */
static bool is_of_hooks(const zend_execute_data *frame)
{
	const zend_string *class = frame ? class_of(&frame->func->op_array) : NULL;
	return class && zend_string_equals_literal(class, "WP_Hook") && place_of(&frame->func->op_array) == OF_CORE;
}

/* ---- reads ---- */

static void describe(char text[TEXT_MOST], const char *what, const zend_op_array *by)
{
	const char *class = by && by->scope ? ZSTR_VAL(by->scope->name) : "", *name = by && by->function_name ? ZSTR_VAL(by->function_name) : "";
	const char *file = by && by->filename ? ZSTR_VAL(by->filename) : "";
	const char *content = strstr(file, "/wp-content/");
	int length = snprintf(text, TEXT_MOST, "%s by %s%s%s%sin %s", what, class, *class ? "::" : "", name, *name ? "() " : "", content ? content + 1 : file);
	if (length < 0) {
		text[0] = 0;
	}
	for (char *at = text; *at; at++) {
		*at = (unsigned char)*at < ' ' || *at == 0x7f ? '?' : *at;
	}
}

static bool is_known(const struct read *found)
{
	for (unsigned i = 0; i < carts.count; i++) {
		const struct read *known = &carts.reads[i];
		bool same = known->count == found->count;
		for (unsigned j = 0; same && j < found->count; j++) {
			same = known->callers[j].code == found->callers[j].code;
		}
		if (same) {
			return true;
		}
	}
	return false;
}

/* Keeps a read. It counts in any case if who reads is none that only prints. */
static void remember(const struct read *found)
{
	bool may_print = found->count && found->callers[0].is_clean && carts.count + 1 < READS_MOST;
	if (!carts.depends && !is_known(found)) {
		carts.depends = !may_print;
		carts.reads[carts.count++] = *found;
	}
}

/* These functions print fragments. */
static void learn(const struct read *found)
{
	for (unsigned i = 0; i < found->count && carts.printers < PRINTERS_MOST; i++) {
		carts.printer[carts.printers++] = found->callers[i].code;
	}
}

static void add_caller(struct read *found, const zend_op_array *code, const char *what)
{
	if (found->count == 0) {
		describe(found->text, what, code);
	}
	if (found->count < CALLERS_MOST) {
		bool is_clean = printed_is_clean(code);
		found->callers[found->count++] = (struct caller){ code->opcodes, is_clean, is_clean && printed_is_silent(code) };
	}
}

/*
 * Something is read. The stack says who reads it, from this frame outwards. A keeper vouches only for the functions that it calls itself, not for one that
 * a hook calls (`hooked`): a plugin may have registered any function of WooCommerce's there.
 */
static void judge(const zend_execute_data *frame, const char *what, bool hooked)
{
	struct read found = { .count = 0 };
	const zend_op_array *shop = NULL;
	const zend_execute_data *caller;
	for (frame = watch_frame(frame); frame; frame = caller) {
		caller = watch_frame(frame->prev_execute_data);
		const zend_op_array *code = &frame->func->op_array;
		enum place place = place_of(code);
		if (place == OF_HOOKS && (carts.learning || found.count == 0)) {
			if (carts.learning) {
				learn(&found);
			}
			return;
		}
		shop = shop || place != OF_SHOP ? shop : code;
		if (place == OF_OTHERS && !is_own_method(code)) {
			add_caller(&found, code, what);
		} else if (found.count == 0 && !hooked && (is_own_method(code) || (place == OF_SHOP && known_is_keeper(class_of(code), code->function_name)))) {
			return;
		}
		hooked = hooked || (place == OF_SHOP && is_of_hooks(caller));
	}
	if (found.count == 0) {
		describe(found.text, what, shop);
	}
	if (!carts.learning) {
		remember(&found);
	}
}

/* Whether a read would tell more. */
static bool is_noting(void)
{
	return carts.noting && !carts.depends;
}

/* A property of such an object is read; NULL: all of them. */
void reads_of_object(const zend_object *object, const zend_string *property)
{
	if (is_noting()) {
		const zend_execute_data *frame = watch_frame(EG(current_execute_data));
		if (!frame || !is_own_method(&frame->func->op_array)) {
			char what[100];
			snprintf(what, sizeof what, "%.60s->%.30s", ZSTR_VAL(object->ce->name), property ? ZSTR_VAL(property) : "*");
			judge(frame, what, false);
		}
	}
}

/* The state is read in another way. */
void reads_of_state(const char *what)
{
	if (is_noting()) {
		judge(EG(current_execute_data), what, false);
	}
}

/* The script looks for a cookie; NULL: for all. */
void carts_cookie(const char *name)
{
	if (!name || strncmp(name, "woocommerce_", 12) == 0 || strncmp(name, "wp_woocommerce_session_", 23) == 0) {
		reads_of_state(name ? "the cart's cookies" : "all cookies");
	}
}

/* ---- calls ---- */

/* A method of such an object was called. */
static void on_method(zend_execute_data *method)
{
	const zend_op_array *code = &method->func->op_array;
	if (Z_TYPE(method->This) == IS_OBJECT) {
		objects_adopt(Z_OBJ(method->This));
	}
	/* PHP itself destroys objects. */
	if (!is_noting() || (code->scope && code->scope->destructor == method->func)) {
		return;
	}
	const zend_execute_data *caller = watch_frame(method->prev_execute_data);
	if (caller && is_own_method(&caller->func->op_array)) {
		return;
	}
	bool is_maintenance = place_of(code) == OF_SHOP && known_is_maintenance(class_of(code), code->function_name);
	if (!is_maintenance || !is_of_hooks(caller)) {
		char what[100];
		snprintf(what, sizeof what, "%.60s::%.30s()", code->scope ? ZSTR_VAL(code->scope->name) : "", code->function_name ? ZSTR_VAL(code->function_name) : "");
		judge(caller, what, is_of_hooks(caller));
	}
}

static bool is_of_others(const zend_string *file)
{
	return place_of_file(file) == OF_OTHERS;
}

/* Whether a hook calls code of others, or what can't be told; `code`: a function of a script. */
static bool calls_others(zval *callback, const zend_op_array **code)
{
	zend_fcall_info_cache found = empty_fcall_info_cache;
	bool is_callable = zend_is_callable_ex(callback, NULL, IS_CALLABLE_SUPPRESS_DEPRECATIONS, NULL, &found, NULL), others = true;
	const zend_function *function = found.function_handler;
	if (is_callable && function && (function->common.fn_flags & ZEND_ACC_CALL_VIA_TRAMPOLINE)) {
		/* __call(): WooCommerce has private methods called by it. */
		const zend_class_entry *class = found.object ? found.object->ce : found.calling_scope;
		const zend_function *calls = class ? class->__call : NULL;
		others = !calls || calls->type != ZEND_USER_FUNCTION || is_of_others(class->info.user.filename) || is_of_others(calls->op_array.filename);
	} else if (is_callable && function) {
		/* A plugin may hook functions of PHP and of WordPress that print or keep what they get. */
		*code = ZEND_USER_CODE(function->type) ? &function->op_array : NULL;
		enum place place = *code ? place_of(*code) : OF_CORE;
		bool converts = !function->common.scope && known_is_converter(function->common.function_name);
		others = place == OF_OTHERS || (place == OF_CORE && !converts);
	}
	zend_release_fcall_info_cache(&found);
	return others;
}

/* Notes the code of others among the callbacks of one priority. */
static void look_at_callbacks(const HashTable *callbacks, const char *hook)
{
	zval *entry;
	ZEND_HASH_FOREACH_VAL((HashTable *)(uintptr_t)callbacks, entry) {
		ZVAL_DEREF(entry);
		zval *callback = Z_TYPE_P(entry) == IS_ARRAY ? zend_hash_str_find(Z_ARRVAL_P(entry), ZEND_STRL("function")) : NULL;
		const zend_op_array *code = NULL;
		if (!callback || calls_others(callback, &code)) {
			struct read found = { .count = 0 };
			char what[100];
			snprintf(what, sizeof what, "the hook %.80s", hook);
			describe(found.text, what, code);
			remember(&found);
			return;
		}
	} ZEND_HASH_FOREACH_END();
}

/* WordPress calls what is registered for a hook; while a keeper runs, it may pass the state on. */
static void on_hooks(const zend_execute_data *frame)
{
	const char *hook = carts.depth && is_noting() && !carts.learning && Z_TYPE(frame->This) == IS_OBJECT ? watch_hook() : NULL;
	if (!hook || (strncmp(hook, "woocommerce_", 12) != 0 && strncmp(hook, "wc_", 3) != 0) || known_is_stateless(hook)) {
		return;
	}
	zval *priority, room, *all = zend_read_property(Z_OBJCE(frame->This), Z_OBJ(frame->This), ZEND_STRL("callbacks"), true, &room);
	ZVAL_DEREF(all);
	if (Z_TYPE_P(all) == IS_ARRAY) {
		ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(all), priority) {
			ZVAL_DEREF(priority);
			if (Z_TYPE_P(priority) == IS_ARRAY) {
				look_at_callbacks(Z_ARRVAL_P(priority), hook);
			}
		} ZEND_HASH_FOREACH_END();
	}
}

/* A function that instrument.c has changed. */
PHP_FUNCTION(millrace_cart_trace)
{
	(void)return_value;
	zval *what = ZEND_NUM_ARGS() == 1 ? ZEND_CALL_ARG(execute_data, 1) : NULL;
	zend_execute_data *caller = EX(prev_execute_data);
	if (!worker || !what || Z_TYPE_P(what) != IS_LONG || !caller || !caller->func || !ZEND_USER_CODE(caller->func->type)) {
		return;
	}
	switch (Z_LVAL_P(what)) {
	case TRACE_METHOD:
		on_method(caller);
		break;
	case TRACE_HOOKS:
		on_hooks(caller);
		break;
	case TRACE_POST:
		if (Z_TYPE(caller->This) == IS_OBJECT) {
			posts_adopt(Z_OBJ(caller->This));
		}
		break;
	case TRACE_ENTER:
		carts.depth++;
		break;
	case TRACE_LEAVE:
		carts.depth -= carts.depth > 0;
		break;
	}
}

static bool is_called_by_hooks(const zend_execute_data *execute_data)
{
	const zend_execute_data *caller = watch_frame(EX(prev_execute_data));
	return worker && caller && place_of(&caller->func->op_array) == OF_HOOKS;
}

/* See ../../inject/wordpress/cart.php: from now on, or no longer, what reads the cart does so for fragments. */
PHP_FUNCTION(millrace_cart_fragments)
{
	bool begin;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_BOOL(begin)
	ZEND_PARSE_PARAMETERS_END();
	if (is_called_by_hooks(execute_data)) {
		carts.learning = begin;
	}
}

/* The hooks have found that the page depends on the cart. */
PHP_FUNCTION(millrace_cart_depends)
{
	zend_string *why;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_STR(why)
	ZEND_PARSE_PARAMETERS_END();
	if (worker && is_noting()) {
		struct read found = { .count = 0 };
		snprintf(found.text, sizeof found.text, "%.100s", ZSTR_VAL(why));
		remember(&found);
	}
}

static bool is_descendant(const zend_class_entry *class)
{
	while (class && !known_is_watched(class->name)) {
		class = class->parent;
	}
	return class != NULL;
}

/* The shop's cart, session and customer. What is no descendant of WooCommerce's own classes may keep its state anywhere. */
PHP_FUNCTION(millrace_cart_objects)
{
	zval *objects;
	uint32_t count;
	ZEND_PARSE_PARAMETERS_START(0, -1)
		Z_PARAM_VARIADIC('*', objects, count)
	ZEND_PARSE_PARAMETERS_END();
	for (uint32_t i = 0; i < count && worker && is_noting(); i++) {
		if (Z_TYPE(objects[i]) != IS_OBJECT) {
			continue;
		}
		objects_adopt(Z_OBJ(objects[i]));
		if (!is_descendant(Z_OBJCE(objects[i]))) {
			struct read found = { .count = 0 };
			snprintf(found.text, sizeof found.text, "an object of the class %.80s", ZSTR_VAL(Z_OBJCE(objects[i])->name));
			remember(&found);
		}
	}
}

/* ---- SQL ---- */

/* `argument`: where the statement is, from 1. */
static struct watched statements[] = {
	{ NULL, "mysqli_query", 0, 2, NULL, NULL }, { NULL, "mysqli_real_query", 0, 2, NULL, NULL }, { NULL, "mysqli_multi_query", 0, 2, NULL, NULL },
	{ NULL, "mysqli_prepare", 0, 2, NULL, NULL }, { NULL, "mysqli_stmt_prepare", 0, 2, NULL, NULL }, { NULL, "mysqli_execute_query", 0, 2, NULL, NULL },
	{ "mysqli", "query", 0, 1, NULL, NULL }, { "mysqli", "real_query", 0, 1, NULL, NULL }, { "mysqli", "multi_query", 0, 1, NULL, NULL },
	{ "mysqli", "prepare", 0, 1, NULL, NULL }, { "mysqli", "execute_query", 0, 1, NULL, NULL }, { "mysqli_stmt", "prepare", 0, 1, NULL, NULL },
	{ "pdo", "query", 0, 1, NULL, NULL }, { "pdo", "exec", 0, 1, NULL, NULL }, { "pdo", "prepare", 0, 1, NULL, NULL },
	{ "sqlite3", "query", 0, 1, NULL, NULL }, { "sqlite3", "querysingle", 0, 1, NULL, NULL }, { "sqlite3", "exec", 0, 1, NULL, NULL }, { "sqlite3", "prepare", 0, 1, NULL, NULL },
};
#define STATEMENTS (sizeof statements / sizeof *statements)

/* Whether a statement names the table of sessions or the saved carts of accounts. */
static bool is_about_carts(const zend_string *statement)
{
	static const char *const names[] = { "woocommerce_sessions", "woocommerce_persistent_cart" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (php_memnistr(ZSTR_VAL(statement), names[i], strlen(names[i]), ZSTR_VAL(statement) + ZSTR_LEN(statement))) {
			return true;
		}
	}
	return false;
}

static PHP_FUNCTION(noted_statement)
{
	const struct watched *called = watch_called(statements, STATEMENTS, execute_data);
	if (is_noting() && ZEND_NUM_ARGS() >= called->argument) {
		zval *statement = ZEND_CALL_ARG(execute_data, called->argument);
		ZVAL_DEREF(statement);
		if (Z_TYPE_P(statement) == IS_STRING ? is_about_carts(Z_STR_P(statement)) : true) {
			reads_of_state("SQL");
		}
	}
	called->original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* ---- the life of a request ---- */

/* In the host, before anything is compiled. `is_blind`: what is read can't be seen. */
void carts_startup(bool is_blind)
{
	char *cache = NULL;
	blind = is_blind || (cfg_get_string("opcache.file_cache", &cache) == SUCCESS && cache && *cache);
	if (!blind) {
		objects_startup();
		instrument_startup();
	}
}

/* In the host, when all functions are there. */
void carts_watch(void)
{
	if (!blind) {
		watch_functions(statements, STATEMENTS, ZEND_FN(noted_statement));
	}
}

/* A request has come. */
void carts_begin(void)
{
	carts.learning = carts.depends = false;
	carts.depth = carts.count = carts.printers = 0;
	carts.shop = carts.core = (struct folder){ NULL, 0 };
	carts.noting = !blind;
}

/* Whether a function of a theme's has printed what was read in an element that the browser replaces, and nothing else came of it. */
static bool is_printed(const struct read *found)
{
	for (unsigned i = 0; i < found->count && found->callers[i].is_clean; i++) {
		for (unsigned j = 0; found->callers[i].is_silent && j < carts.printers; j++) {
			if (carts.printer[j] == found->callers[i].code) {
				return true;
			}
		}
	}
	return false;
}

/* The first read that counts; NULL: nothing was read, as far as it is known. */
static const char *first_read(void)
{
	for (unsigned i = 0; i < carts.count; i++) {
		if (!is_printed(&carts.reads[i])) {
			return carts.reads[i].text;
		}
	}
	return NULL;
}

/* Whether nothing of the cart was read until now. */
bool carts_unread(void)
{
	return !blind && !first_read();
}

/* Says it, before END. */
void carts_end(void)
{
	if (!blind && worker->request.shared && worker->answer != ANSWER_ENDED) {
		const char *found = first_read();
		char text[TEXT_MOST + 4];
		int length = snprintf(text, sizeof text, found ? "+ %s" : "-", found);
		wire_note(MR_NOTE_CART, text, (size_t)length);
	}
}

/* The script is over. */
void carts_free(void)
{
	carts.noting = false;
}
