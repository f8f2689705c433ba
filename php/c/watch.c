/*
 * Functions and opcodes of PHP that call ours first. A handler that stands for several functions asks by which of them it was called: a
 * closure of a function (`exec(...)`) and a class that extends one of PHP's have copies of it, with the same handler.
 */
#include "worker.h"

#include <string.h>

/* A function of that name; of that class, unless `of` is NULL. Names in lower case. */
zend_function *watch_find(const char *of, const char *name)
{
	const HashTable *functions = CG(function_table);
	if (of) {
		const zend_class_entry *class = zend_hash_str_find_ptr(CG(class_table), of, strlen(of));
		if (!class) {
			return NULL;
		}
		functions = &class->function_table;
	}
	return zend_hash_str_find_ptr(functions, name, strlen(name));
}

/* Has such a function call ours; called in the host, before anything is compiled. Returns what it called until now; NULL: PHP has no such function. */
zif_handler watch_replace(const char *of, const char *name, zif_handler ours)
{
	zend_function *function = watch_find(of, name);
	if (!function || function->type != ZEND_INTERNAL_FUNCTION) {
		return NULL;
	}
	zif_handler original = function->internal_function.handler;
	function->internal_function.handler = ours;
	return original;
}

/* Has all that PHP has of these functions call ours. */
void watch_functions(struct watched *all, size_t count, zif_handler ours)
{
	for (size_t i = 0; i < count; i++) {
		all[i].original = watch_replace(all[i].of, all[i].name, ours);
		all[i].function = all[i].original ? watch_find(all[i].of, all[i].name) : NULL;
	}
}

static bool is_copy(const zend_function *copy, const zend_function *function)
{
	const zend_class_entry *class = function->common.scope, *scope = copy->common.scope;
	return zend_string_equals(copy->common.function_name, function->common.function_name)
		&& (class ? scope && instanceof_function(scope, class) : !scope);
}

/* Which of the watched functions was called. */
const struct watched *watch_called(const struct watched *all, size_t count, const zend_execute_data *execute_data)
{
	const zend_function *called = EX(func);
	for (size_t i = 0; i < count; i++) {
		if (all[i].function == called) {
			return &all[i];
		}
	}
	for (size_t i = 0; i < count; i++) {
		if (all[i].function && is_copy(called, all[i].function)) {
			return &all[i];
		}
	}
	zend_error_noreturn(E_CORE_ERROR, "%s() is not watched", ZSTR_VAL(called->common.function_name));
}

/* Has an opcode call ours; `were` keeps what it called until now. Called in the host, before anything is compiled. */
void watch_opcode(zend_uchar opcode, user_opcode_handler_t ours, user_opcode_handler_t were[256])
{
	were[opcode] = zend_get_user_opcode_handler(opcode);
	zend_set_user_opcode_handler(opcode, ours);
}

/* The same for all opcodes that fetch a variable by its name. */
void watch_fetches(user_opcode_handler_t ours, user_opcode_handler_t were[256])
{
	static const zend_uchar fetches[] = { ZEND_FETCH_R, ZEND_FETCH_W, ZEND_FETCH_RW, ZEND_FETCH_IS, ZEND_FETCH_FUNC_ARG, ZEND_FETCH_UNSET };
	for (size_t i = 0; i < sizeof fetches; i++) {
		watch_opcode(fetches[i], ours, were);
	}
}

/* What a watched opcode would have done; the end of a handler. */
int watch_go_on(const user_opcode_handler_t were[256], zend_execute_data *execute_data)
{
	user_opcode_handler_t next = were[EX(opline)->opcode];
	return next ? next(execute_data) : ZEND_USER_OPCODE_DISPATCH;
}

/* The innermost frame of a script from this one on, or NULL. */
const zend_execute_data *watch_frame(const zend_execute_data *frame)
{
	while (frame && (!frame->func || !ZEND_USER_CODE(frame->func->type))) {
		frame = frame->prev_execute_data;
	}
	return frame;
}

/* Whether a file is one of Millrace's own hooks. */
bool watch_is_hooks(const zend_string *file)
{
	const char *hooks = worker->request.inject, *end = hooks ? strrchr(hooks, '/') : NULL;
	return end && strncmp(ZSTR_VAL(file), hooks, (size_t)(end - hooks) + 1) == 0;
}

/* Whether the code that runs has the global variables as its own. */
bool watch_is_global_scope(void)
{
	const zend_execute_data *frame = watch_frame(EG(current_execute_data));
	return !frame || ((ZEND_CALL_INFO(frame) & ZEND_CALL_HAS_SYMBOL_TABLE) && frame->symbol_table == &EG(symbol_table));
}

/* The hook of WordPress that runs, or NULL. */
const char *watch_hook(void)
{
	zval *names = zend_hash_str_find_ind(&EG(symbol_table), ZEND_STRL("wp_current_filter"));
	if (names) {
		ZVAL_DEREF(names);
	}
	if (!names || Z_TYPE_P(names) != IS_ARRAY || zend_hash_num_elements(Z_ARRVAL_P(names)) == 0) {
		return NULL;
	}
	HashPosition end;
	zend_hash_internal_pointer_end_ex(Z_ARRVAL_P(names), &end);
	zval *name = zend_hash_get_current_data_ex(Z_ARRVAL_P(names), &end);
	return name && Z_TYPE_P(name) == IS_STRING ? Z_STRVAL_P(name) : NULL;
}
