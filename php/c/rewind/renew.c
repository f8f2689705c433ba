/*
 * What a request that begins at the point gets instead of what the request of the boot had: superglobals, random values, times, and what
 * PHP knows about the request.
 */
#include "rewind.h"

#include <dlfcn.h>
#include <ext/standard/basic_functions.h>
#include <string.h>
#include <sys/random.h>

/* OpenSSL mixes what it has in memory with these bytes and the kernel's. Once before the image is made, so that it has started then. */
void renew_openssl(void)
{
	static void (*add)(const void *, int, double);
	static bool looked;
	char bytes[48];
	if (!looked) {
		add = (void (*)(const void *, int, double))dlsym(RTLD_DEFAULT, "RAND_add");
		looked = true;
	}
	if (add && getrandom(bytes, sizeof bytes, 0) == sizeof bytes) {
		add(bytes, sizeof bytes, sizeof bytes);
	}
}

/* Random bytes that are in memory. PHP's functions seed again. */
static void renew_random(void)
{
	zend_module_entry *random = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("random"));
	if (random && random->request_startup_func) {
		random->request_startup_func(random->type, random->module_number);
	}
	MR_FORGET_SEEDS();
	renew_openssl();
}

static void renew_variable(const char *name, size_t length)
{
	if (zend_hash_str_exists(&EG(symbol_table), name, length)) {
		zend_is_auto_global_str(name, length);
	}
}

static const char *const superglobals[] = { "_SERVER", "_GET", "_POST", "_COOKIE", "_REQUEST", "_ENV", "_FILES" };
#define SUPERGLOBALS (sizeof superglobals / sizeof *superglobals)

static zval *superglobal(size_t at)
{
	zval *value = zend_hash_str_find_ind(&EG(symbol_table), superglobals[at], strlen(superglobals[at]));
	if (value) {
		ZVAL_DEREF(value);
	}
	return value;
}

/* filter_input() reads copies that ext/filter makes of what comes in; new values would be added to them. */
static void forget_input(void)
{
	const zend_module_entry *filter = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("filter"));
	if (filter && filter->request_shutdown_func && sapi_module.input_filter_init) {
		filter->request_shutdown_func(filter->type, filter->module_number);
		sapi_module.input_filter_init();
	}
}

/* Makes the superglobals from the request at hand. */
void renew_superglobals(void)
{
	forget_input();
	for (int i = 0; i < NUM_TRACK_VARS; i++) {
		zval_ptr_dtor(&PG(http_globals)[i]);
	}
	php_hash_environment();
	renew_variable(ZEND_STRL("_SERVER"));
	renew_variable(ZEND_STRL("_ENV"));
	renew_variable(ZEND_STRL("_REQUEST"));
}

/*
 * A superglobal that the boot has changed: $_SERVER['HTTPS'] behind a proxy, for example. Requests get theirs again behind the point, so
 * such a change would be lost. NULL: there is none.
 */
const char *renew_changed_superglobal(void)
{
	static char text[160];
	zval before[SUPERGLOBALS];
	const char *why = NULL;
	for (size_t i = 0; i < SUPERGLOBALS; i++) {
		zval *value = superglobal(i);
		ZVAL_UNDEF(&before[i]);
		if (value) {
			ZVAL_COPY(&before[i], value);
		}
	}
	renew_superglobals();
	for (size_t i = 0; i < SUPERGLOBALS; i++) {
		zval *value = superglobal(i);
		if (value && !Z_ISUNDEF(before[i]) && !zend_is_identical(value, &before[i])) {
			why = text;
			snprintf(text, sizeof text, "the boot changes $%s: do that after the point", superglobals[i]);
		}
	}
	for (size_t i = 0; i < SUPERGLOBALS; i++) {
		zval *value = superglobal(i);
		if (value && !Z_ISUNDEF(before[i])) {
			zval_ptr_dtor(value);
			ZVAL_COPY_VALUE(value, &before[i]);
		} else {
			zval_ptr_dtor(&before[i]);
		}
	}
	return why;
}

/*
 * The request at hand takes the place of the one that the boot has run for: the parts of php_request_startup that concern it.
 * `latest`: the second that its time may not be behind; 0: any.
 */
void renew_request(time_t latest)
{
	int status = SG(sapi_headers).http_response_code;
	int exit_status = EG(exit_status);
	loop_request_info(false);
	SG(sapi_headers).http_response_code = status;
	EG(exit_status) = exit_status;
	SG(read_post_bytes) = 0;
	SG(post_read) = 0;
	SG(request_info).request_body = NULL;
	SG(global_request_time) = 0;
	if (latest && sapi_get_request_time() >= (double)latest + 1) {
		SG(global_request_time) = (double)latest + 0.999999;
	}
	SG(request_info).cookie_data = sapi_module.read_cookies();
	worker->request.head = strcmp(SG(request_info).request_method, "HEAD") == 0;
	PG(connection_status) = PHP_CONNECTION_NORMAL;
	zend_set_timeout(EG(timeout_seconds), 0);
	limits_ask();
	renew_superglobals();
	renew_random();
	php_clear_stat_cache(0, NULL, 0);
	MR_RESET_PEAK();
}
