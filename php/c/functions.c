/* The functions and settings that scripts find besides PHP's own; functions.stub.php and
   ../stubs/millrace.php describe them. */
#include "worker.h"

#include <string.h>

void user_ini_free(zval *element);

/* Settings of php-fpm; only cgi.fix_pathinfo has an effect here. */
static struct {
	bool fix_pathinfo, rfc2616_headers, nph, force_redirect, discard_path, fcgi_logging;
	char *redirect_status_env, *error_header;
	HashTable user_ini;
} settings;

bool functions_fix_pathinfo(void)
{
	return settings.fix_pathinfo;
}

/* Maps a directory (with a slash at the end) to the contents of its .user.ini files; lives as long as the worker. */
HashTable *functions_user_ini_cache(void)
{
	return &settings.user_ini;
}

static PHP_FUNCTION(fastcgi_finish_request)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (!worker || worker->answer == ANSWER_ENDED || worker->answer == ANSWER_NONE) {
		RETURN_FALSE;
	}
	php_output_end_all();
	sapi_send_headers();
	if (worker->answer != ANSWER_VOID) {
		if (worker->answer == ANSWER_WAITING) {
			wire_head(&SG(sapi_headers));
		}
		observe_end();
		wire_end(0);
	}
	RETURN_TRUE;
}

static PHP_FUNCTION(apache_request_headers)
{
	ZEND_PARSE_PARAMETERS_NONE();
	array_init(return_value);
	if (!worker) {
		return;
	}
	observe_all(execute_data);
	const struct variable *variables = (const void *)worker->variables.bytes;
	for (uint32_t i = 0; i < worker->request.count; i++) {
		sapi_add_request_header(variables[i].name, variables[i].name_length,
			(char *)(uintptr_t)variables[i].value, variables[i].value_length, return_value);
	}
}

static PHP_FUNCTION(apache_response_headers)
{
	ZEND_PARSE_PARAMETERS_NONE();
	array_init(return_value);
	zend_llist_position position;
	for (sapi_header_struct *field = zend_llist_get_first_ex(&SG(sapi_headers).headers, &position); field;
		field = zend_llist_get_next_ex(&SG(sapi_headers).headers, &position)) {
		const char *colon = memchr(field->header, ':', field->header_len);
		if (!colon || colon == field->header) {
			continue;
		}
		const char *value = colon + 1, *end = field->header + field->header_len;
		while (value < end && (*value == ' ' || *value == '\t')) {
			value++;
		}
		add_assoc_stringl_ex(return_value, field->header, (size_t)(colon - field->header), value,
			(size_t)(end - value));
	}
}

/* Removes the constants of a module. */
static void remove_constants(unsigned module_number)
{
	zend_string *name;
	zend_constant *constant;
	ZEND_HASH_FOREACH_STR_KEY_PTR(EG(zend_constants), name, constant) {
		if ((unsigned)ZEND_CONSTANT_MODULE_NUMBER(constant) == module_number) {
			zend_hash_del(EG(zend_constants), name);
		}
	} ZEND_HASH_FOREACH_END();
}

/*
 * Removes functions that libphp has because it also serves the command line, and that php-fpm does not have: pcntl, whose
 * forks would hold the worker's socket and whose handlers would take its signals, and chroot(). Scripts test for these with
 * function_exists() and extension_loaded(), and do without them. The module's entry itself stays in memory: PHP collected
 * its handlers for the start and end of requests when it started.
 */
void functions_hide(void)
{
	zend_module_entry *pcntl = zend_hash_str_find_ptr(&module_registry, "pcntl", sizeof "pcntl" - 1);
	if (pcntl) {
		dtor_func_t destructor = module_registry.pDestructor;
		zend_unregister_functions(pcntl->functions, -1, NULL);
		remove_constants((unsigned)pcntl->module_number);
		module_registry.pDestructor = NULL;
		zend_hash_str_del(&module_registry, "pcntl", sizeof "pcntl" - 1);
		module_registry.pDestructor = destructor;
	}
	zend_hash_str_del(CG(function_table), "chroot", sizeof "chroot" - 1);
	/*
	 * At the end of a request PHP cuts both tables back to the length that they had at its start (zend_hash_discard() in
	 * shutdown_executor()). If a script makes a table grow, PHP closes the table's holes, and as many functions of the
	 * script as there were holes would survive the cut. So the holes are closed now.
	 */
	zend_hash_rehash(CG(function_table));
	zend_hash_rehash(EG(zend_constants));
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_bool, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_array, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_status, 0, 0, MAY_BE_ARRAY | MAY_BE_FALSE)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_cache_control, 0, 1, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, directives, IS_STRING, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, fallback, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_tag, 0, 0, _IS_BOOL, 0)
	ZEND_ARG_VARIADIC_TYPE_INFO(0, tags, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_purge, 0, 0, _IS_BOOL, 0)
	ZEND_ARG_VARIADIC_TYPE_INFO(0, items, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_visitor, 0, 1, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, found, IS_STRING, 0)
	ZEND_ARG_VARIADIC_TYPE_INFO(0, details, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_notice_reads, 0, 3, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, object, IS_OBJECT, 0)
	ZEND_ARG_TYPE_INFO(0, properties, IS_ARRAY, 0)
	ZEND_ARG_TYPE_INFO(0, reads, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_identity_reads, 0, 0, IS_ARRAY, 1)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_member_is, 0, 3, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, number, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO(0, own, IS_ARRAY, 0)
	ZEND_ARG_TYPE_INFO(0, filled_in, IS_ARRAY, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_member_reader, 0, 0, IS_VOID, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_member_prints, 0, 0, IS_LONG, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_posts_read, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_cart_trace, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, what, IS_LONG, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_cart_fragments, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, begin, _IS_BOOL, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_cart_depends, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, why, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_cart_objects, 0, 0, IS_VOID, 0)
	ZEND_ARG_VARIADIC_INFO(0, objects)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_early_hints, 0, 0, _IS_BOOL, 0)
	ZEND_ARG_VARIADIC_TYPE_INFO(0, links, IS_STRING, 0)
ZEND_END_ARG_INFO()
ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_headers_send, 0, 0, IS_LONG, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, status, IS_LONG, 0, "200")
ZEND_END_ARG_INFO()

/* Functions that a later PHP may define itself. */
static const zend_function_entry functions_if_absent[] = {
	ZEND_FE(headers_send, arginfo_headers_send)
	ZEND_FE_END
};

static const zend_function_entry functions[] = {
	ZEND_FE(fastcgi_finish_request, arginfo_bool)
	ZEND_FE(apache_request_headers, arginfo_array)
	ZEND_FALIAS(getallheaders, apache_request_headers, arginfo_array)
	ZEND_FE(apache_response_headers, arginfo_array)
	ZEND_FE(fpm_get_status, arginfo_status)
	ZEND_FE(millrace_cache_control, arginfo_cache_control)
	ZEND_FE(millrace_tag, arginfo_tag)
	ZEND_FE(millrace_purge, arginfo_purge)
	ZEND_FE(millrace_announce_cache, arginfo_bool)
	ZEND_FE(millrace_early_hints, arginfo_early_hints)
	ZEND_FE(millrace_visitor, arginfo_visitor)
	ZEND_FE(millrace_notice_reads, arginfo_notice_reads)
	ZEND_FE(millrace_identity_reads, arginfo_identity_reads)
	ZEND_FE(millrace_member_is, arginfo_member_is)
	ZEND_FE(millrace_member_reader, arginfo_member_reader)
	ZEND_FE(millrace_member_prints, arginfo_member_prints)
	ZEND_FE(millrace_posts_read, arginfo_posts_read)
	ZEND_FE(millrace_cart_trace, arginfo_cart_trace)
	ZEND_FE(millrace_cart_fragments, arginfo_cart_fragments)
	ZEND_FE(millrace_cart_depends, arginfo_cart_depends)
	ZEND_FE(millrace_cart_objects, arginfo_cart_objects)
	ZEND_FE_END
};

static ZEND_INI_MH(update_bool)
{
	(void)entry, (void)mh_arg2, (void)mh_arg3, (void)stage;
	*(bool *)mh_arg1 = zend_ini_parse_bool(new_value);
	return SUCCESS;
}

static ZEND_INI_MH(update_string)
{
	(void)entry, (void)mh_arg2, (void)mh_arg3, (void)stage;
	*(char **)mh_arg1 = new_value ? ZSTR_VAL(new_value) : NULL;
	return SUCCESS;
}

PHP_INI_BEGIN()
	ZEND_INI_ENTRY1_EX("cgi.rfc2616_headers", "0", PHP_INI_ALL, update_bool, &settings.rfc2616_headers, zend_ini_boolean_displayer_cb)
	ZEND_INI_ENTRY1_EX("cgi.nph", "0", PHP_INI_ALL, update_bool, &settings.nph, zend_ini_boolean_displayer_cb)
	ZEND_INI_ENTRY1_EX("cgi.force_redirect", "1", PHP_INI_SYSTEM, update_bool, &settings.force_redirect, zend_ini_boolean_displayer_cb)
	ZEND_INI_ENTRY1_EX("cgi.redirect_status_env", NULL, PHP_INI_SYSTEM, update_string, &settings.redirect_status_env, NULL)
	ZEND_INI_ENTRY1_EX("cgi.fix_pathinfo", "1", PHP_INI_SYSTEM, update_bool, &settings.fix_pathinfo, zend_ini_boolean_displayer_cb)
	ZEND_INI_ENTRY1_EX("cgi.discard_path", "0", PHP_INI_SYSTEM, update_bool, &settings.discard_path, zend_ini_boolean_displayer_cb)
	ZEND_INI_ENTRY1_EX("fastcgi.logging", "1", PHP_INI_SYSTEM, update_bool, &settings.fcgi_logging, zend_ini_boolean_displayer_cb)
	ZEND_INI_ENTRY1_EX("fastcgi.error_header", NULL, PHP_INI_SYSTEM, update_string, &settings.error_header, NULL)
PHP_INI_END()

static PHP_MINIT_FUNCTION(millrace)
{
	(void)type;
	zend_hash_init(&settings.user_ini, 0, NULL, user_ini_free, 1);
	REGISTER_INI_ENTRIES();
	handler_startup();
	rewind_startup();
	observe_startup();
	if (!zend_hash_str_exists(CG(function_table), "headers_send", sizeof "headers_send" - 1)) {
		zend_register_functions(NULL, functions_if_absent, NULL, MODULE_PERSISTENT);
	}
	return SUCCESS;
}

static PHP_MSHUTDOWN_FUNCTION(millrace)
{
	(void)type;
	zend_hash_destroy(&settings.user_ini);
	UNREGISTER_INI_ENTRIES();
	return SUCCESS;
}

/* Called before the session module's own: this module is loaded after it. */
static PHP_RSHUTDOWN_FUNCTION(millrace)
{
	(void)type, (void)module_number;
	visitor_look();
	code_say();
	noticed_end();
	return SUCCESS;
}

static PHP_MINFO_FUNCTION(millrace)
{
	(void)zend_module;
	php_info_print_table_start();
	php_info_print_table_row(2, "Millrace", "active");
	php_info_print_table_end();
	DISPLAY_INI_ENTRIES();
}

/* Named as fpm's: extension_loaded('cgi-fcgi'). */
zend_module_entry functions_module = {
	STANDARD_MODULE_HEADER,
	"cgi-fcgi",
	functions,
	PHP_MINIT(millrace),
	PHP_MSHUTDOWN(millrace),
	NULL,
	PHP_RSHUTDOWN(millrace),
	PHP_MINFO(millrace),
	PHP_VERSION,
	STANDARD_MODULE_PROPERTIES
};
