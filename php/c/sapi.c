/*
 * The SAPI: the functions that PHP calls. It follows sapi/fpm/fpm/fpm_main.c of php-src, so that scripts find the same
 * environment as under php-fpm, the name included: before PHP 8.5, opcache works only for names on its list.
 */
#include "worker.h"
#include "rewind/rewind.h"

#include <string.h>
#include <syslog.h>
#include <unistd.h>

/* Whether a request runs and PHP may still write to its response. */
static bool answering(void)
{
	return worker && (worker->answer == ANSWER_WAITING || worker->answer == ANSWER_CONTENT);
}

/* Whether the client of the running request has gone, according to the scoreboard or the socket. */
static bool client_gone(void)
{
	return worker->broken || board_get64(worker->board, MR_SLOT_ABORTED) == worker->request.sequence;
}

/* The client has gone: ends the script, unless the script ignores that. */
static void end_aborted(void)
{
	if (!handler_aborted()) {
		php_handle_aborted_connection();
	}
}

/*
 * How much of some output to send in response to HEAD. The server drops it, but the start of the content tells the server
 * which fields the response to GET would have.
 */
static size_t part_of_head(size_t length)
{
	struct request *request = &worker->request;
	length = MIN(length, MR_BODY_OF_HEAD_MAX - request->written);
	request->written += length;
	return length;
}

/* Called for output that leaves PHP's buffers. */
static size_t ub_write(const char *bytes, size_t length)
{
	if (!worker || worker->answer == ANSWER_NONE) {
		return write(STDERR_FILENO, bytes, length) < 0 ? 0 : length;
	}
	if (!answering()) {
		return length;
	}
	size_t wanted = worker->request.head ? part_of_head(length) : length;
	size_t taken = client_gone() ? 0 : wire_content(bytes, wanted);
	if (taken < wanted || (!wanted && client_gone())) {
		end_aborted();
		return taken;
	}
	return length;
}

/* Called by flush(), and after each output with implicit_flush. Like fpm, it does not send headers by itself. */
static void flush_output(void *context)
{
	(void)context;
	if (answering() && (client_gone() || !wire_flush())) {
		end_aborted();
	}
}

/* Called once per response, at the first output or at the end. */
static int send_headers(sapi_headers_struct *headers)
{
	if (worker && worker->answer == ANSWER_WAITING && !SG(request_info).no_headers) {
		wire_head(headers);
	}
	return SAPI_HEADER_SENT_SUCCESSFULLY;
}

/* Called for the request body, in pieces. */
static size_t read_post(char *buffer, size_t size)
{
	if (!worker || worker->answer == ANSWER_NONE) {
		return 0;
	}
	struct request *request = &worker->request;
	size = MIN(size, request->body_length - request->body_read);
	if (request->body) {
		memcpy(buffer, request->body + request->body_read, size);
		request->body_read += size;
		return size;
	}
	size_t done = 0;
	while (request->body_fd >= 0 && done < size) {
		ssize_t got = pread(request->body_fd, buffer + done, size - done, (off_t)request->body_read);
		if (got <= 0) {
			break;
		}
		done += (size_t)got;
		request->body_read += (size_t)got;
	}
	return done;
}

static char *read_cookies(void)
{
	return worker ? (char *)(uintptr_t)vars_value("HTTP_COOKIE") : NULL;
}

/* Called if error_log is not set: for error_log() and for PHP's errors. */
static void log_message(const char *message, int priority)
{
	if (worker) {
		wire_log(priority, message, strlen(message));
	} else {
		host_log(priority, message, strlen(message));
	}
}

/* ---- ini values of the directory: php.ini's [PATH=] and [HOST=], and .user.ini ---- */

struct user_ini {
	time_t expires;
	HashTable values;
};

void user_ini_free(zval *element);

/* Frees an entry of functions_user_ini_cache(). */
void user_ini_free(zval *element)
{
	struct user_ini *entry = Z_PTR_P(element);
	zend_hash_destroy(&entry->values);
	free(entry);
}

/* Frees an ini value that outlives the request: config_zval_dtor in main/php_ini.c, which is not exported. */
static void free_ini_value(zval *value)
{
	if (Z_TYPE_P(value) == IS_ARRAY) {
		zend_hash_destroy(Z_ARRVAL_P(value));
		free(Z_ARR_P(value));
	} else if (Z_TYPE_P(value) == IS_STRING) {
		zend_string_release_ex(Z_STR_P(value), 1);
	}
}

/* Reads the .user.ini of a directory ("/srv/www/a/") and of those above it down from the document root. */
static void read_user_ini(struct user_ini *entry, char *path, const char *root)
{
	size_t root_length = root ? strlen(root) : 0;
	while (root_length && root[root_length - 1] == '/') {
		root_length--;
	}
	zend_hash_clean(&entry->values);
	if (strncmp(path, root ? root : "", MIN(root_length, strlen(path))) != 0 || root_length > strlen(path)) {
		php_parse_user_ini_file(path, PG(user_ini_filename), &entry->values);
		return;
	}
	for (char *slash = strchr(path + root_length, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		php_parse_user_ini_file(path, PG(user_ini_filename), &entry->values);
		*slash = '/';
	}
}

/* php_cgi_ini_activate_user_config */
static void activate_user_ini(char *path, size_t length)
{
	HashTable *cache = functions_user_ini_cache();
	struct user_ini *entry = zend_hash_str_find_ptr(cache, path, length);
	if (!entry) {
		entry = calloc(1, sizeof *entry);
		if (!entry) {
			return;
		}
		zend_hash_init(&entry->values, 0, NULL, free_ini_value, 1);
		zend_hash_str_update_ptr(cache, path, length, entry);
	}
	time_t now = (time_t)sapi_get_request_time();
	if (now > entry->expires) {
		read_user_ini(entry, path, vars_value("DOCUMENT_ROOT"));
		entry->expires = now + PG(user_ini_cache_ttl);
	}
	if (zend_hash_num_elements(&entry->values)) {
		php_ini_activate_config(&entry->values, PHP_INI_PERDIR, PHP_INI_STAGE_HTACCESS);
	}
}

/* Called in php_request_startup, before any script runs: sapi_cgi_activate. */
static int activate(void)
{
	const char *script = SG(request_info).path_translated;
	if (worker && worker->answer != ANSWER_NONE) {
		/* PHP would drop all output for HEAD: see part_of_head. */
		worker->request.head = SG(request_info).headers_only;
		SG(request_info).headers_only = false;
	}
	if (!worker || worker->answer == ANSWER_NONE || !script || handler_booted()) {
		return SUCCESS;
	}
	if (php_ini_has_per_host_config()) {
		const char *name = vars_value("SERVER_NAME");
		if (name) {
			char *lower = estrdup(name);
			zend_str_tolower(lower, strlen(lower));
			php_ini_activate_per_host_config(lower, strlen(lower));
			efree(lower);
		}
	}
	bool user_ini = PG(user_ini_filename) && *PG(user_ini_filename);
	if (user_ini || php_ini_has_per_dir_config()) {
		char *path = estrdup(script);
		char *end = strrchr(path, '/');
		if (end) {
			end[1] = 0;
			size_t length = (size_t)(end + 1 - path);
			php_ini_activate_per_dir_config(path, length);
			if (user_ini) {
				activate_user_ini(path, length);
			}
		}
		efree(path);
	}
	return SUCCESS;
}

/* Called late in php_request_shutdown, after all output: the response ends here, before PHP cleans up. */
static int deactivate(void)
{
	if (!worker || worker->answer == ANSWER_NONE || worker->answer == ANSWER_VOID || !SG(sapi_started)) {
		return SUCCESS;
	}
	bool served = worker->max_requests && worker->requests + 1 >= worker->max_requests;
	worker->exiting = worker->stop || worker->last || (served && handler_may_end());
	uint8_t flags = MR_FLAG_READY;
	if (worker->exiting) {
		flags |= MR_FLAG_EXITING;
	}
	if (EG(exit_status) == 255) {
		flags |= MR_FLAG_FAILED;
	}
	if (PG(connection_status) & PHP_CONNECTION_ABORTED) {
		flags |= MR_FLAG_ABORTED;
	}
	if (worker->answer == ANSWER_WAITING) {
		wire_head(&SG(sapi_headers));
	}
	observe_end();
	observe_free();
	visitor_end();
	carts_free();
	wire_end(flags);
	return SUCCESS;
}

/* ---- start ---- */

/*
 * Defaults under all ini files: the values of php.ini-production that matter for a server. A pending restart of opcache waits for
 * the requests that use its memory: with a limit (180 seconds in PHP) it kills their workers, or, if it may not, ends every
 * later request with a fatal error.
 */
static void ini_defaults(HashTable *values)
{
	static const struct { const char *name, *value; } defaults[] = {
		{ "display_errors", "0" },
		{ "log_errors", "1" },
		{ "opcache.force_restart_timeout", "0" },
		{ "opcache.interned_strings_buffer", "16" },
		{ "opcache.max_accelerated_files", "10000" },
		{ "opcache.memory_consumption", "128" },
		{ "realpath_cache_size", "4096K" },
	};
	for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
		zval value;
		ZVAL_NEW_STR(&value, zend_string_init(defaults[i].value, strlen(defaults[i].value), 1));
		zend_hash_str_update(values, defaults[i].name, strlen(defaults[i].name), &value);
	}
}

static int startup(sapi_module_struct *module)
{
	if (MR_MODULE_STARTUP(module, &functions_module) == FAILURE) {
		return FAILURE;
	}
	if (options.disable_functions) {
		zend_disable_functions(options.disable_functions);
	}
	visitor_startup();
	observe_watch();
	functions_hide();
	taint_watch();
	sandbox_watch();
	excepted_watch();
	gate_watch();
	return SUCCESS;
}

sapi_module_struct sapi_millrace = {
	.name = "fpm-fcgi",
	.pretty_name = "FPM/FastCGI",
	.startup = startup,
	.shutdown = php_module_shutdown_wrapper,
	.activate = activate,
	.deactivate = deactivate,
	.ub_write = ub_write,
	.flush = flush_output,
	.getenv = vars_getenv,
	.sapi_error = php_error,
	.header_handler = origin_header,
	.send_headers = send_headers,
	.read_post = read_post,
	.read_cookies = read_cookies,
	.register_server_variables = vars_register,
	.log_message = log_message,
	.ini_defaults = ini_defaults,
	.php_ini_ignore_cwd = 1,
};
