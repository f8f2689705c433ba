/*
 * $_SERVER, getenv() and $_ENV from the variables of a REQUEST. The rules are those of sapi/fpm/fpm/fpm_main.c
 * (cgi_php_import_environment_variables, sapi_cgi_register_variables): the process's environment first, then the
 * request's variables in their order, then FCGI_ROLE and PHP_SELF; PHP itself adds PHP_AUTH_* and REQUEST_TIME.
 */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

/* PHP's own import of the process's environment. */
static void (*import_environment)(zval *array);

static const struct variable fcgi_role = { "FCGI_ROLE", "RESPONDER", 9, 9 };

/* The variable of that name, or NULL. The host has none: preloaded code may call this there. */
const struct variable *vars_find(const char *name, size_t length)
{
	if (!worker) {
		return NULL;
	}
	const struct variable *variables = (const void *)worker->variables.bytes;
	for (uint32_t i = 0; i < worker->request.count; i++) {
		if (variables[i].name_length == length && memcmp(variables[i].name, name, length) == 0) {
			return &variables[i];
		}
	}
	if (length == fcgi_role.name_length && memcmp(name, fcgi_role.name, length) == 0) {
		return &fcgi_role;
	}
	return NULL;
}

/* Its value, or NULL. */
const char *vars_value(const char *name)
{
	const struct variable *variable = vars_find(name, strlen(name));
	return variable ? variable->value : NULL;
}

/* sapi_module.getenv. PHP copies what it gets. */
char *vars_getenv(const char *name, size_t length)
{
	if (!worker || worker->answer == ANSWER_NONE) {
		return getenv(name);
	}
	if (length == sizeof "HTTP_COOKIE" - 1 && memcmp(name, "HTTP_COOKIE", length) == 0) {
		cookies_look_for_all();
		identity_read_all(EG(current_execute_data));
	} else {
		fields_read(name, length, EG(current_execute_data));
	}
	const struct variable *variable = vars_find(name, length);
	return variable ? (char *)(uintptr_t)variable->value : NULL;
}

/* Passes each variable to `take`; FCGI_ROLE last, as in fpm, unless the server sent one. */
static void each(void (*take)(const struct variable *variable, zval *array), zval *array)
{
	const struct variable *variables = (const void *)worker->variables.bytes;
	for (uint32_t i = 0; i < worker->request.count; i++) {
		take(&variables[i], array);
	}
	if (vars_find(fcgi_role.name, fcgi_role.name_length) == &fcgi_role) {
		take(&fcgi_role, array);
	}
}

static void add_plain(const struct variable *variable, zval *array)
{
	php_register_variable_safe(variable->name, variable->value, variable->value_length, array);
}

static void add_filtered(const struct variable *variable, zval *array)
{
	int kind = Z_ARR_P(array) == Z_ARR(PG(http_globals)[TRACK_VARS_ENV]) ? PARSE_ENV : PARSE_SERVER;
	char *value = (char *)(uintptr_t)variable->value;
	size_t length = variable->value_length;
	if (sapi_module.input_filter(kind, variable->name, &value, length, &length)) {
		php_register_variable_safe(variable->name, value, length, array);
	}
}

/* getenv() without a name. */
static void load(zval *array)
{
	import_environment(array);
	if (worker && worker->answer != ANSWER_NONE) {
		observe_all(EG(current_execute_data));
		each(add_plain, array);
	}
}

/* Copies $_ENV or $_SERVER, whichever is the other one, if it exists; true if it did. */
static bool copy_of(zval *array, int other)
{
	zval *source = &PG(http_globals)[other];
	if (Z_TYPE_P(source) != IS_ARRAY || Z_ARR_P(array) == Z_ARR_P(source)
		|| zend_hash_num_elements(Z_ARRVAL_P(source)) == 0) {
		return false;
	}
	zend_array_destroy(Z_ARR_P(array));
	Z_ARR_P(array) = zend_array_dup(Z_ARR_P(source));
	return true;
}

/* Fills $_ENV, and the start of $_SERVER. */
static void import(zval *array)
{
	if (copy_of(array, TRACK_VARS_ENV) || copy_of(array, TRACK_VARS_SERVER)) {
		return;
	}
	import_environment(array);
	if (worker && worker->answer != ANSWER_NONE) {
		each(add_filtered, array);
	}
}

/* Replaces PHP's functions by ours; called once in a worker. */
void vars_install(void)
{
	import_environment = php_import_environment_variables;
	php_import_environment_variables = import;
	MR_HOOK_GETENV(load);
}

/* sapi_module.register_server_variables */
void vars_register(zval *array)
{
	php_import_environment_variables(array);
	const char *name = SG(request_info).request_uri ? SG(request_info).request_uri : "";
	const char *info = functions_fix_pathinfo() ? vars_value("PATH_INFO") : NULL;
	char *self = NULL;
	size_t length = spprintf(&self, 0, "%s%s", name, info ? info : "");
	char *value = self;
	if (sapi_module.input_filter(PARSE_SERVER, "PHP_SELF", &value, length, &length)) {
		php_register_variable_safe("PHP_SELF", value, length, array);
	}
	efree(value);
}
