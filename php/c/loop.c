/*
 * A worker reads a request, runs its script, sends the response, and starts again. One request is php_request_startup,
 * php_execute_script, php_request_shutdown, as in the loop of sapi/fpm/fpm/fpm_main.c.
 */
#include "worker.h"

#include <errno.h>
#include <ext/standard/basic_functions.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

struct worker *worker;

/* The process is in the folder of the request's script, and no PHP code has run that could have left it. */
static bool in_its_folder;
/* max_execution_time of the configuration, seconds. */
static zend_long usual_limit;

static bool start(int socket, uint32_t slot, char *scoreboard, char *crash);
static void run_request(void);

/* Serves requests until the socket ends; the exit status of the process. */
int loop_run(int socket, uint32_t slot, char *scoreboard, char *crash)
{
	if (!start(socket, slot, scoreboard, crash)) {
		return 71;
	}
	int status = 0;
	zend_first_try {
		if (options.worker_script) {
			handler_run();
		}
		while (!worker->exiting && !worker->broken && wire_read()) {
			loop_received();
			rewind_look();
			do {
				run_request();
			} while (rewind_left());
			if (!rewind_rests()) {
				rewind_ran();
				loop_finished();
			}
		}
	} zend_catch {
		status = 70;
	} zend_end_try();
	board_set32(worker->board, MR_SLOT_STATE, MR_STATE_EXITING);
	worker->answer = ANSWER_NONE;
	SG(server_context) = NULL;
	php_module_shutdown();
	return status;
}

/* The process that is the worker. */
static pid_t self;

/*
 * SIGTERM: the worker takes no further request. It finishes the running one; if it waits for one, it sees the end of its
 * socket. It still serves what the server had already sent. A process that the script has forked, and that has not started its program
 * yet, ends as the program would.
 */
static void on_term(int number)
{
	int error = errno;
	if (getpid() != self) {
		signal(number, SIG_DFL);
		kill(getpid(), number);
		return;
	}
	worker->stop = true;
	shutdown(worker->socket, SHUT_RD);
	errno = error;
}

/* Signals as a PHP script expects them; zend_signal notes the handlers it finds (Zend/zend_signal.c). */
static void start_signals(void)
{
	static const int defaults[] = { SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD, SIGALRM, SIGPROF };
	for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
		signal(defaults[i], SIG_DFL);
	}
	self = getpid();
	struct sigaction term = { .sa_handler = on_term, .sa_flags = SA_RESTART };
	sigaction(SIGTERM, &term, NULL);
	zend_signal_startup();
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The limit minus up to an eighth, so that workers started together do not end together. */
static uint64_t jittered(uint64_t limit)
{
	uint64_t random = 0;
	if (limit < 8 || getrandom(&random, sizeof random, 0) != sizeof random) {
		return limit;
	}
	return limit - random % (limit / 8 + 1);
}

/*
 * Batch scheduling: a worker that becomes ready does not preempt the event loop. So a loop hands out all its requests
 * before the first worker runs, and passes a response on as soon as it arrives. Programs that scripts start inherit it.
 */
static void yield_to_the_server(void)
{
	struct sched_param none = { 0 };
	sched_setscheduler(0, SCHED_BATCH, &none);
}

/* Makes this forked process a worker. */
static bool start(int socket, uint32_t slot, char *scoreboard, char *crash)
{
	worker = mmap(NULL, sizeof *worker, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (worker == MAP_FAILED) {
		worker = NULL;
		return false;
	}
	worker->socket = socket;
	worker->slot = slot;
	worker->scoreboard = scoreboard;
	worker->board = board_slot(scoreboard, slot);
	worker->body_at = SIZE_MAX;
	worker->in_fd = -1;
	worker->max_requests = jittered(options.max_requests);
	if (!wire_room(&worker->out, 64u << 10)) {
		return false;
	}
	usual_limit = EG(timeout_seconds);
	prctl(PR_SET_NAME, "php-worker");
	yield_to_the_server();
	start_signals();
	limits_watch();
	crash_watch(crash);
	taint_forks();
	vars_install();
	/* run_script() enters the script's directory itself, with one system call less than php_execute_script. */
	SG(options) |= SAPI_OPTION_NO_CHDIR;
	if (!options.worker_script) {
		board_set32(worker->board, MR_SLOT_STATE, MR_STATE_IDLE);
	}
	rewind_idle();
	observe_files();
	return true;
}

/* The acknowledgement: from here on the server does not know whether the request is safe to run again. */
void loop_received(void)
{
	worker->time_is_up = worker->ended = false;
	visitor_begin();
	board_set64(worker->board, MR_SLOT_ASKED_MS, 0);
	observe_begin();
	board_set64(worker->board, MR_SLOT_STARTED_MS, clock_ms(CLOCK_MONOTONIC_COARSE));
	board_set32(worker->board, MR_SLOT_STATE, MR_STATE_RUNNING);
	board_set64(worker->board, MR_SLOT_RECEIVED, worker->request.sequence);
}

/* Resident memory of this process in bytes; 0 if the kernel does not say. */
static uint64_t resident(void)
{
	char text[64];
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (fd >= 0) {
		close(fd);
	}
	if (got <= 0) {
		return 0;
	}
	text[got] = 0;
	unsigned long long size, pages = 0;
	return sscanf(text, "%llu %llu", &size, &pages) == 2 ? pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Reaps programs that scripts started with proc_open() and that have ended: no other code asks for their status. */
static void forget_programs(void)
{
	/* The script of a persistent worker may still ask. */
	while (!options.worker_script && waitpid(-1, NULL, WNOHANG) > 0) {
	}
}

/* Bookkeeping between two requests. */
void loop_finished(void)
{
	if (worker->request.body_fd >= 0) {
		close(worker->request.body_fd);
		worker->request.body_fd = -1;
	}
	worker->answer = ANSWER_NONE;
	worker->requests++;
	board_set64(worker->board, MR_SLOT_REQUESTS, worker->requests);
	if ((worker->requests & (worker->requests - 1)) == 0 || worker->requests % 256 == 0) {
		board_set64(worker->board, MR_SLOT_RSS, resident());
		forget_programs();
	}
	/* PHP's signal handlers stay installed from the first request on: this saves seven system calls per request. */
	SIGG(reset) = 0;
	board_set32(worker->board, MR_SLOT_STATE, MR_STATE_IDLE);
}

/* ---- one request ---- */

/* Whether a path has no ".." as a component: is_valid_path in fpm_main.c. */
static bool is_straight(const char *path)
{
	for (const char *dots = strstr(path, ".."); dots; dots = strstr(dots + 1, "..")) {
		bool starts = dots == path || dots[-1] == '/';
		if (starts && (dots[2] == 0 || dots[2] == '/')) {
			return false;
		}
	}
	return true;
}

/*
 * Fills in what PHP needs to know before it starts the request: init_request_info in fpm_main.c. `script`: run the
 * request's script.
 */
void loop_request_info(bool script)
{
	const char *path = script ? vars_value("SCRIPT_FILENAME") : NULL;
	const char *name = vars_value("SCRIPT_NAME"), *info = vars_value("PATH_INFO");
	const char *type = vars_value("CONTENT_TYPE");
	SG(server_context) = worker;
	SG(sapi_headers).http_response_code = 200;
	SG(request_info).request_method = vars_value("REQUEST_METHOD");
	SG(request_info).proto_num = 1000;
	SG(request_info).query_string = (char *)(uintptr_t)vars_value("QUERY_STRING");
	SG(request_info).request_uri = (char *)(uintptr_t)(functions_fix_pathinfo() || !info ? name : info);
	SG(request_info).content_type = type ? type : "";
	SG(request_info).content_length = (zend_long)worker->request.body_length;
	if (script) {
		SG(request_info).path_translated = path && *path && is_straight(path) ? estrdup(path) : NULL;
	}
	php_handle_auth_data(vars_value("HTTP_AUTHORIZATION"));
	EG(exit_status) = 0;
}

/* Answers with a short text of our own instead of a script's output. */
static void refuse(int status, const char *text)
{
	zend_try {
		SG(sapi_headers).http_response_code = status;
		PUTS(text);
	} zend_end_try();
}

static void refuse_missing(const char *script)
{
	char text[512];
	int length = snprintf(text, sizeof text, "Primary script unknown: %.400s", script ? script : "(no SCRIPT_FILENAME)");
	wire_log(LOG_NOTICE, text, (size_t)length);
	refuse(404, "File not found.\n");
}

/* The path of the script relative to the working directory: the kernel walks through every folder of a long path. */
static const char *shortest_way(const char *script)
{
	const char *slash = strrchr(script, '/');
	return in_its_folder && slash ? slash + 1 : script;
}

/* The server has found the script, but PHP may not read it: usually because PHP runs as another user. */
static void refuse_forbidden(const char *script)
{
	char text[640];
	const struct passwd *user = getpwuid(geteuid());
	int length = snprintf(text, sizeof text, "Unable to open primary script: %.300s (%s). PHP runs as user %.60s, which needs "
		"permission to read it and to enter every folder in its path: see php.user",
		script, strerror(EACCES), user ? user->pw_name : "unknown");
	wire_log(LOG_ERR, text, (size_t)length);
	refuse(403, "Access denied.\n");
}

/* Opens the script, or answers that it cannot be run; `file` must be destroyed if this returns true. */
bool loop_open_script(zend_file_handle *file)
{
	char *script = SG(request_info).path_translated;
	struct stat now;
	int found = script ? stat(shortest_way(script), &now) : -1;
	if (script && found != 0 && errno == EACCES) {
		refuse_forbidden(script);
		return false;
	}
	if (found != 0 || !S_ISREG(now.st_mode)) {
		refuse_missing(script ? script : vars_value("SCRIPT_FILENAME"));
		return false;
	}
	char *name = estrdup(script); /* php_fopen_primary_script frees path_translated when it fails */
	bool opened = php_fopen_primary_script(file) == SUCCESS;
	int error = errno;
	if (!opened && error == EACCES) {
		refuse_forbidden(name);
	} else if (!opened) {
		char text[512];
		int length = snprintf(text, sizeof text, "Unable to open primary script: %.300s (%s)", name, strerror(error));
		wire_log(LOG_ERR, text, (size_t)length);
		refuse(404, "No input file specified.\n");
	}
	efree(name);
	return opened;
}

/*
 * Logs an exception that the injected file did not catch, and undoes what php_error_cb made of it. False for a fatal error:
 * some of them, such as memory_limit's, arrive as the exception that exit() throws.
 */
static bool forgive(void)
{
	if (!EG(exception)) {
		return true;
	}
	if (zend_is_unwind_exit(EG(exception))) {
		zend_clear_exception();
		return EG(exit_status) != 255;
	}
	zend_exception_error(EG(exception), E_WARNING);
	EG(exit_status) = 0;
	if (!SG(headers_sent)) {
		SG(sapi_headers).http_response_code = 200;
		if (SG(sapi_headers).http_status_line) {
			efree(SG(sapi_headers).http_status_line);
			SG(sapi_headers).http_status_line = NULL;
		}
	}
	return true;
}

/* Runs the compiled injected file; false for a fatal error. */
static bool execute_injected(zend_op_array *code)
{
	zval result;
	ZVAL_UNDEF(&result);
	zend_execute(code, &result);
	zval_ptr_dtor(&result);
	bool good = forgive();
	zend_destroy_static_vars(code);
	destroy_op_array(code);
	efree_size(code, sizeof *code);
	return good;
}

enum injected { INJECTED_RAN, INJECTED_FAILED, INJECTED_MISSING };

/*
 * Runs the injected file that the server named, before the site's script and in the same request. The site does not see it
 * in get_included_files(), and open_basedir does not apply to it. It fails with a fatal error; or it, or a file that it includes, is
 * missing.
 */
static enum injected run_injected(const char *path)
{
	volatile bool done = false, missing = false;
	char *open_basedir = PG(open_basedir);
	zend_file_handle file;
	zend_stream_init_filename(&file, path);
	zend_try {
		PG(during_request_startup) = 0;
		PG(open_basedir) = NULL;
		zend_op_array *code = zend_compile_file(&file, ZEND_INCLUDE);
		missing = !code && !EG(exception);
		done = code ? execute_injected(code) : forgive();
	} zend_end_try();
	PG(open_basedir) = open_basedir;
	zend_destroy_file_handle(&file);
	zend_hash_clean(&EG(included_files));
	const char *last = PG(last_error_message) ? ZSTR_VAL(PG(last_error_message)) : "";
	missing = missing || strstr(last, "Failed opening required");
	return missing ? INJECTED_MISSING : done ? INJECTED_RAN : INJECTED_FAILED;
}

/*
 * Answers instead of a script that would run without its hooks: what it writes would purge no page. The worker ends, because its
 * sandbox has the folder that has gone; the server writes the files again.
 */
static void refuse_without_hooks(const char *path)
{
	char text[640];
	int length = snprintf(text, sizeof text, "PHP files of Millrace are missing in %.400s: the request is refused with 503, and the "
		"server writes them again within seconds", path);
	wire_log(LOG_CRIT, text, (size_t)length);
	worker->stop = true;
	zend_try {
		static const char later[] = "Retry-After: 2";
		sapi_header_line line = { .line = later, .line_len = sizeof later - 1 };
		sapi_header_op(SAPI_HEADER_REPLACE, &line);
	} zend_end_try();
	refuse(503, "Service unavailable.\n");
}

/*
 * Runs the script of the request, then checks the time limit: output that the script made from an interrupted call is no
 * response.
 */
static void run_script(void)
{
	zend_file_handle file;
	if (!loop_open_script(&file)) {
		return;
	}
	php_execute_script(&file);
	zend_try {
		limits_check();
	} zend_end_try();
	/* in_list: the compiler has opened the file and closes it (see fpm_main.c). */
	if (!file.in_list) {
		zend_destroy_file_handle(&file);
	}
}

static void go_to_root(void)
{
	if (chdir("/") != 0) {
		static const char text[] = "the worker cannot change back to the directory /";
		wire_log(LOG_WARNING, text, sizeof text - 1);
	}
}

/* Starts the request, in the directory of its script; false if PHP cannot. */
static bool begin_request(void)
{
	loop_request_info(true);
	limits_begin();
	if (php_request_startup() == SUCCESS) {
		/* If that folder can't be entered, the process must not count as being in the last request's folder. */
		in_its_folder = SG(request_info).path_translated && VCWD_CHDIR_FILE(SG(request_info).path_translated) == 0;
		if (SG(request_info).path_translated && !in_its_folder) {
			go_to_root();
		}
		return true;
	}
	if (PG(last_error_message)) {
		/* A fatal error before the script: its form needs more than memory_limit. PHP has logged it, and cleans up as after a script. */
		loop_end_request();
		return false;
	}
	static const char text[] = "PHP cannot start a request; the worker exits";
	wire_log(LOG_CRIT, text, sizeof text - 1);
	sapi_headers_struct failed = { .http_response_code = 500 };
	wire_head(&failed);
	wire_end(MR_FLAG_READY | MR_FLAG_EXITING | MR_FLAG_FAILED);
	worker->exiting = true;
	return false;
}

/* Whether more PHP code may run: shutdown functions, destructors, output callbacks, a session's save handler. */
static bool has_last_words(void)
{
	return BG(user_shutdown_function_names) || EG(objects_store).top > 1 || OG(active)
		|| zend_hash_str_exists(&EG(symbol_table), ZEND_STRL("_SESSION"));
}

/* Frees the request's memory and all else of it, and restores what it changed. */
static void shut_down(void)
{
	if (SG(request_info).path_translated) {
		efree(SG(request_info).path_translated);
		SG(request_info).path_translated = NULL;
	}
	php_request_shutdown(NULL);
}

/*
 * Like shut_down(), for requests after which no PHP code runs. It leaves the timer of max_execution_time, which counts CPU
 * time, as it is: the next request sets it anyway. PHP stops it only if there is a limit.
 */
static void shut_down_quietly(void)
{
	bool usual = EG(timeout_seconds) == usual_limit;
	EG(timeout_seconds) = usual ? 0 : EG(timeout_seconds);
	shut_down();
	EG(timeout_seconds) = usual ? usual_limit : EG(timeout_seconds);
}

/*
 * Ends the request. Shutdown functions and destructors run in "/", as in fpm, which then goes back to its folder. If there
 * are none, both changes of folder are saved: the next request begins by entering its own folder.
 */
void loop_end_request(void)
{
	bool words = has_last_words();
	if (words) {
		go_to_root();
	}
	restart_look();
	rewind_end();
	if (words) {
		shut_down();
	} else {
		shut_down_quietly();
	}
}

static void run_request(void)
{
	if (!begin_request()) {
		return;
	}
	enum injected injected = worker->request.inject ? run_injected(worker->request.inject) : INJECTED_RAN;
	in_its_folder = in_its_folder && !worker->request.inject;
	if (injected != INJECTED_RAN && !worker->ended && worker->answer == ANSWER_WAITING) {
		/* The injected file must not cost the site a page: the request runs once more, without it. */
		worker->answer = ANSWER_VOID;
		loop_end_request();
		wire_unsay();
		worker->answer = ANSWER_WAITING;
		worker->request.body_read = 0;
		if (!begin_request()) {
			return;
		}
	}
	if (injected == INJECTED_MISSING && worker->answer == ANSWER_WAITING) {
		refuse_without_hooks(worker->request.inject);
	} else if (!worker->ended) {
		run_script();
	}
	loop_end_request();
}
