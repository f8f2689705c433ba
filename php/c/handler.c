/*
 * Persistent workers: a script that was written for it is started once and serves many requests.
 *
 *     require 'vendor/autoload.php';                       // the boot: once a worker
 *     $application = new Application();
 *     while (millrace_handle_request(fn () => $application->run())) { }
 *
 * The script runs inside one request of PHP's own, from php_request_startup to php_request_shutdown (handler_run). Each
 * millrace_handle_request() waits for a REQUEST, does the part of php_request_startup that belongs to a request (begin), calls
 * the handler, and does that part of php_request_shutdown (end), both in the order of main/main.c. What the script has made
 * at boot stays: functions, classes, globals, statics, ini values, the environment, the locale, open streams. Where a
 * handler changes ini values, the environment or the locale, kept.c restores them.
 *
 * How a handler may end:
 *   returns, exit()           its answer is complete; the script goes on
 *   exception                 as an uncaught one of any script: the exception handler, or 500 and a line in the log; it goes on
 *   client has gone           as exit()
 *   fatal error               PHP leaves all that runs by a long jump: shutdown functions run, the answer ends, the worker too
 */
#include "worker.h"

#include <Zend/zend_gc.h>
#include <ext/standard/basic_functions.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

/*
 * Number of possible cycles from which PHP's garbage collector runs after a request: half of PHP's own threshold, so that
 * PHP does not collect in the middle of a request.
 */
#define ROOTS_MOST 5000
/*
 * How long a worker lets another one take its turn to boot in the place of an ended one, milliseconds; the second value:
 * when files have changed.
 */
#define TURN_MS 30000
#define CHANGED_TURN_MS 2000
/* How often files are checked for changes, seconds: the default of opcache.revalidate_freq. */
#define LOOK_SECONDS 2

static struct {
	bool ready;    /* the script has come to its loop */
	bool running;  /* a handler runs */
	zval env;      /* $_ENV as the boot left it; undefined if it has not been used */
	bool server, request; /* $_SERVER and $_REQUEST have been used */
	HashTable *shutdown_functions; /* those of the boot, while a handler's are in their place */
	zend_module_entry *session, *filter, *zlib, *random;
	bool changed;  /* a file that it has loaded has changed */
	time_t looked; /* when files were checked, CLOCK_MONOTONIC */
} handler;

static void describe_boot(void);
static void run_script(void);
static void say_unready(void);
static void take_shutdown_functions_back(void);
static bool has_changed(void);

/* Runs the script of a persistent worker until it ends. */
void handler_run(void)
{
	describe_boot();
	kept_begin();
	worker->answer = ANSWER_VOID;
	loop_request_info(true);
	if (php_request_startup() != SUCCESS) {
		wire_handler(false, ZEND_STRL("PHP cannot start a request"));
		return;
	}
	if (SG(request_info).path_translated) {
		VCWD_CHDIR_FILE(SG(request_info).path_translated);
	}
	run_script();
	worker->last = true;
	if (!handler.ready) {
		say_unready();
	}
	if (handler.running) {
		/* A fatal error ended the handler: the code below responds to it. */
		take_shutdown_functions_back();
	} else {
		worker->answer = ANSWER_VOID;
	}
	loop_end_request();
	worker->exiting = true;
}

/* ---- boot ---- */

static void add_variable(const char *name, const char *value)
{
	struct variable *variables = (void *)worker->variables.bytes;
	variables[worker->request.count++] = (struct variable){ name, value, (uint16_t)strlen(name), (uint32_t)strlen(value) };
}

/*
 * What tells an application that it runs in a worker, at its boot and in its requests. Symfony's runtime and others choose their
 * loop for FrankenPHP by its variable; its function is defined here under its name.
 */
static void add_names_of_worker(void)
{
	add_variable("MILLRACE_WORKER", "1");
	add_variable("FRANKENPHP_WORKER", "1");
}

/* What the script finds in $_SERVER while no request runs. */
static void describe_boot(void)
{
	worker->request = (struct request){ .body_fd = -1 };
	if (!wire_room(&worker->variables, 16 * sizeof(struct variable))) {
		return;
	}
	add_variable("DOCUMENT_ROOT", options.worker_root ? options.worker_root : "");
	add_variable("SCRIPT_NAME", options.worker_name ? options.worker_name : options.worker_script);
	add_variable("SERVER_SOFTWARE", "Millrace/" MILLRACE_VERSION);
	add_variable("GATEWAY_INTERFACE", "CGI/1.1");
	add_variable("SCRIPT_FILENAME", options.worker_script);
	add_names_of_worker();
}

static void run_script(void)
{
	zend_file_handle file;
	if (!loop_open_script(&file)) {
		return;
	}
	php_execute_script(&file);
	if (!file.in_list) {
		zend_destroy_file_handle(&file);
	}
}

/* The script has ended before it came to its loop: reports the reason to the server. */
static void say_unready(void)
{
	char text[1024];
	int length;
	if (EG(exit_status) == 255 && PG(last_error_message)) {
		const char *message = ZSTR_VAL(PG(last_error_message));
		length = snprintf(text, sizeof text, "%.*s in %s on line %d", (int)MIN(strcspn(message, "\n"), 600), message,
			PG(last_error_file) ? ZSTR_VAL(PG(last_error_file)) : "?", PG(last_error_lineno));
	} else {
		length = snprintf(text, sizeof text, "it ended without calling millrace_handle_request(): a worker script boots the "
			"application once and then calls `while (millrace_handle_request($handler)) { }`");
	}
	wire_handler(false, text, MIN((size_t)length, sizeof text - 1));
}

/* The script has come to its loop. */
static void become_ready(void)
{
	static const struct { const char *name; zend_module_entry **module; } modules[] = {
		{ "session", &handler.session }, { "filter", &handler.filter }, { "zlib", &handler.zlib }, { "random", &handler.random },
	};
	for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
		*modules[i].module = zend_hash_str_find_ptr(&module_registry, modules[i].name, strlen(modules[i].name));
	}
	zval *env = zend_hash_str_find_ind(&EG(symbol_table), ZEND_STRL("_ENV"));
	ZVAL_UNDEF(&handler.env);
	if (env) {
		ZVAL_COPY_DEREF(&handler.env, env);
	}
	kept_remember(handler.session);
	if (kept_look_at_files()) {
		struct timeval pause = { .tv_sec = LOOK_SECONDS };
		setsockopt(worker->socket, SOL_SOCKET, SO_RCVTIMEO, &pause, sizeof pause);
	}
	handler.ready = true;
	board_set64((char *)(uintptr_t)worker->scoreboard, MR_SCOREBOARD_TURN, 0);
	wire_handler(true, NULL, 0);
	board_set32(worker->board, MR_SLOT_STATE, MR_STATE_IDLE);
}

/* ---- one request: its start ---- */

static void start_module(zend_module_entry *module)
{
	if (module && module->request_startup_func) {
		module->request_startup_func(module->type, module->module_number);
	}
}

static void stop_module(zend_module_entry *module)
{
	if (module && module->request_shutdown_func) {
		zend_try {
			module->request_shutdown_func(module->type, module->module_number);
		} zend_end_try();
	}
}

/*
 * $_SERVER, $_ENV or $_REQUEST. PHP creates them when it compiles or loads code that uses them. Here that code is already
 * loaded, so once they have been used, each request gets them.
 */
static void renew(const char *name, size_t length, bool *used)
{
	*used = *used || zend_hash_str_exists(&EG(symbol_table), name, length);
	if (*used) {
		zend_is_auto_global_str(name, length);
	}
}

/* The superglobals of this request. */
static void renew_superglobals(void)
{
	for (int i = 0; i < NUM_TRACK_VARS; i++) {
		zval_ptr_dtor(&PG(http_globals)[i]);
	}
	php_hash_environment();
	renew(ZEND_STRL("_SERVER"), &handler.server);
	renew(ZEND_STRL("_REQUEST"), &handler.request);
	if (Z_TYPE(handler.env) == IS_UNDEF) {
		bool used = false;
		renew(ZEND_STRL("_ENV"), &used);
		return;
	}
	zend_auto_global *env = zend_hash_str_find_ptr(CG(auto_globals), ZEND_STRL("_ENV"));
	if (env) {
		env->armed = 0;
	}
	Z_TRY_ADDREF(handler.env);
	zend_hash_str_update(&EG(symbol_table), ZEND_STRL("_ENV"), &handler.env);
}

/* The part of php_request_startup that starts output. */
static void start_output(void)
{
	/* Drops what the script has printed until now, and the headers that it has set. */
	SG(headers_sent) = 1;
	php_output_discard_all();
	php_output_deactivate();
	php_output_activate();
}

static void start_output_buffer(void)
{
	if (PG(output_handler) && PG(output_handler)[0]) {
		zval name;
		ZVAL_STRING(&name, PG(output_handler));
		php_output_start_user(&name, 0, PHP_OUTPUT_HANDLER_STDFLAGS);
		zval_ptr_dtor(&name);
	} else if (PG(output_buffering)) {
		php_output_start_user(NULL, PG(output_buffering) > 1 ? PG(output_buffering) : 0, PHP_OUTPUT_HANDLER_STDFLAGS);
	} else if (PG(implicit_flush)) {
		php_output_set_implicit_flush(1);
	}
}

/* The part of php_request_startup that belongs to a request. */
static void begin(void)
{
	start_output();
	PG(in_error_log) = 0;
	PG(during_request_startup) = 1;
	PG(header_is_being_sent) = 0;
	PG(connection_status) = PHP_CONNECTION_NORMAL;
	PG(in_user_include) = 0;
	if (wire_room(&worker->variables, (worker->request.count + 2) * sizeof(struct variable))) {
		add_names_of_worker();
	}
	loop_request_info(false);
	sapi_activate();
	SG(sapi_started) = 1;
	zend_set_timeout(EG(timeout_seconds), 0);
	if (PG(expose_php)) {
		sapi_add_header(SAPI_PHP_VERSION_HEADER, sizeof(SAPI_PHP_VERSION_HEADER) - 1, 1);
	}
	start_output_buffer();
	renew_superglobals();
	start_module(handler.random);
	start_module(handler.zlib);
	start_module(handler.session);
	MR_FORGET_SEEDS();
	PG(during_request_startup) = 0;
}

/* ---- one request: its end ---- */

/* Reports an uncaught exception, as php_execute_script does for a script. */
static void report_exception(void)
{
	if (!EG(exception)) {
		return;
	}
	if (zend_is_unwind_exit(EG(exception)) && CG(unclean_shutdown)) {
		/* Some fatal errors, such as memory_limit's, arrive as the exception that exit() throws. */
		zend_clear_exception();
		zend_bailout();
	}
	if (!zend_is_unwind_exit(EG(exception)) && !zend_is_graceful_exit(EG(exception))) {
		if (Z_TYPE(EG(user_exception_handler)) != IS_UNDEF) {
			zend_user_exception_handler();
		}
		if (EG(exception)) {
			zend_exception_error(EG(exception), E_ERROR);
		}
	}
	if (EG(exception)) {
		zend_clear_exception();
	}
}

/*
 * Closes php://input of this request: a stream that is still open must not read the next request's content, or freed
 * memory.
 */
static void close_input(php_stream *body)
{
	zend_resource *resource;
	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource) {
		if (resource && resource->ptr && resource->type == php_file_le_stream()
			&& strcmp(((php_stream *)resource->ptr)->ops->label, "Input") == 0) {
			zend_list_close(resource);
		}
	} ZEND_HASH_FOREACH_END();
	php_stream_close(body);
}

static void forget_last_error(void)
{
	PG(last_error_type) = 0;
	PG(last_error_lineno) = 0;
	if (PG(last_error_message)) {
		zend_string_release(PG(last_error_message));
		PG(last_error_message) = NULL;
	}
	if (PG(last_error_file)) {
		zend_string_release(PG(last_error_file));
		PG(last_error_file) = NULL;
	}
}

/* The shutdown functions of a handler that a fatal error ended are put behind those of the boot: all of them run now. */
static void take_shutdown_functions_back(void)
{
	HashTable *boot = handler.shutdown_functions, *own = BG(user_shutdown_function_names);
	handler.shutdown_functions = NULL;
	if (!boot) {
		return;
	}
	if (own) {
		void *function;
		ZEND_HASH_FOREACH_PTR(own, function) {
			zend_hash_next_index_insert_ptr(boot, function);
		} ZEND_HASH_FOREACH_END();
		own->pDestructor = NULL;
		zend_hash_destroy(own);
		FREE_HASHTABLE(own);
	}
	BG(user_shutdown_function_names) = boot;
}

/* Ends the response; called from sapi.c's deactivate(). It may run PHP code, which can fail like any other. */
static void end_answer(void)
{
	php_call_shutdown_functions();
	php_free_shutdown_functions();
	BG(user_shutdown_function_names) = handler.shutdown_functions;
	handler.shutdown_functions = NULL;
	report_exception();
	zend_try {
		php_output_end_all();
	} zend_end_try();
	report_exception();
	visitor_look();
	stop_module(handler.session);
	report_exception();
	stop_module(handler.filter);
	stop_module(handler.zlib);
	zend_try {
		php_output_deactivate();
	} zend_end_try();
	report_exception();
	worker->last = CG(unclean_shutdown) || has_changed();
	handler.running = false;
	php_stream *body = SG(request_info).request_body;
	code_say();
	sapi_deactivate();
	if (body) {
		close_input(body);
	}
}

/* The part of php_request_shutdown that belongs to a request. */
static void end(void)
{
	end_answer();
	/* Between requests there is no receiver for output and headers. */
	php_output_activate();
	SG(headers_sent) = 1;
	zend_hash_str_del(&EG(symbol_table), ZEND_STRL("_SESSION"));
	kept_restore(handler.session);
	forget_last_error();
	php_clear_stat_cache(0, NULL, 0);
	MR_RESET_PEAK();
	zend_gc_status garbage;
	zend_gc_get_status(&garbage);
	if (garbage.num_roots >= ROOTS_MOST) {
		zend_gc_collect_cycles();
	}
	restart_look();
	worker->answer = ANSWER_VOID;
	loop_finished();
	worker->request = (struct request){ .body_fd = -1 };
	if (CG(unclean_shutdown)) {
		/* A fatal error occurred above: PHP is in no state to go on. */
		zend_bailout();
	}
}

/* ---- for the SAPI ---- */

/*
 * Workers that end so that others boot in their places take turns, so that not all of them boot at once. Returns whether it
 * is this worker's turn. `patience`: how long another worker's turn may take, milliseconds.
 */
static bool take_turn(uint64_t patience)
{
	uint64_t ms = clock_ms(CLOCK_MONOTONIC);
	char *head = (char *)(uintptr_t)worker->scoreboard;
	uint64_t turn = board_get64(head, MR_SCOREBOARD_TURN);
	return (turn == 0 || turn + patience <= ms) && board_swap64(head, MR_SCOREBOARD_TURN, turn, ms);
}

/* Whether a worker that has served its maximum of requests ends now. A persistent one goes on while another one boots. */
bool handler_may_end(void)
{
	return !options.worker_script || worker->requests / 2 >= worker->max_requests || take_turn(TURN_MS);
}

/* Whether a file that the script has loaded has changed, so that this worker ends. */
static bool has_changed(void)
{
	handler.changed = handler.changed || kept_files_changed(&handler.looked, LOOK_SECONDS);
	return handler.changed && take_turn(CHANGED_TURN_MS);
}

/* Whether the script has come to its loop: the ini values of its directory are already in force. */
bool handler_booted(void)
{
	return handler.ready;
}

/* The client of a handler's request has gone: the handler ends as by exit(), and the script goes on. */
bool handler_aborted(void)
{
	if (!handler.running || !EG(current_execute_data)) {
		return false;
	}
	PG(connection_status) = PHP_CONNECTION_ABORTED;
	php_output_set_status(PHP_OUTPUT_DISABLED);
	if (!PG(ignore_user_abort) && !EG(exception)) {
		EG(exception) = zend_create_unwind_exit();
		if (EG(current_execute_data)->func && ZEND_USER_CODE(EG(current_execute_data)->func->type)) {
			/* The content of zend_rethrow_exception(), which libphp does not export. */
			zend_execute_data *frame = EG(current_execute_data);
			if (frame->opline->opcode != ZEND_HANDLE_EXCEPTION) {
				EG(opline_before_exception) = frame->opline;
				frame->opline = EG(exception_op);
			}
		}
	}
	return true;
}

/* Called when no request has come for a while: whether the worker ends, because a file that it has loaded has changed. */
bool handler_idle(void)
{
	return worker->in.length == 0 && has_changed();
}

/* ---- the function ---- */

static void call(zend_fcall_info *function, zend_fcall_info_cache *cache)
{
	zval result;
	ZVAL_UNDEF(&result);
	function->retval = &result;
	zend_call_function(function, cache);
	zval_ptr_dtor(&result);
}

/* See ../stubs/millrace.php. */
PHP_FUNCTION(millrace_handle_request)
{
	zend_fcall_info function;
	zend_fcall_info_cache cache;
	ZEND_PARSE_PARAMETERS_START(1, 1)
		Z_PARAM_FUNC(function, cache)
	ZEND_PARSE_PARAMETERS_END();
	if (!worker || !options.worker_script) {
		/* Not a persistent worker: its one request is the one that the handler serves. */
		call(&function, &cache);
		RETURN_FALSE;
	}
	if (handler.running) {
		zend_throw_error(NULL, "%s() cannot be called by a handler", get_active_function_name());
		RETURN_THROWS();
	}
	if (!handler.ready) {
		become_ready();
	}
	if (worker->exiting || worker->broken || !wire_read()) {
		worker->exiting = true;
		worker->answer = ANSWER_VOID;
		RETURN_FALSE;
	}
	loop_received();
	handler.running = true;
	handler.shutdown_functions = BG(user_shutdown_function_names);
	BG(user_shutdown_function_names) = NULL;
	begin();
	call(&function, &cache);
	limits_check();
	report_exception();
	end();
	RETURN_BOOL(!worker->exiting);
}

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_handle, 0, 1, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO(0, handler, IS_CALLABLE, 0)
ZEND_END_ARG_INFO()

/* Called while our module starts. With a worker script set, applications written for FrankenPHP run without changes. */
void handler_startup(void)
{
	static const zend_function_entry always[] = {
		ZEND_FE(millrace_handle_request, arginfo_handle)
		ZEND_FE_END
	};
	static const zend_function_entry persistent[] = {
		ZEND_NAMED_FE(frankenphp_handle_request, zif_millrace_handle_request, arginfo_handle)
		ZEND_FE_END
	};
	zend_register_functions(NULL, always, NULL, MODULE_PERSISTENT);
	if (options.worker_script) {
		zend_register_functions(NULL, persistent, NULL, MODULE_PERSISTENT);
		kept_startup();
	}
}
