/*
 * LOOK: PHP's settings and opcache as they are now, for `millrace doctor`. A forked child starts a request, as a worker does,
 * asks PHP, sends LOOKED and exits. It runs no script of a site, and nothing of it stays in the host.
 */
#include "worker.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Seconds for the child, which only reads; then the kernel ends it. */
#define LOOK_SECONDS 5

/* Each is asked by itself: where one fails, because a function is disabled, the others still answer. */
static const char *const questions[] = {
	"json_encode(['php_version' => PHP_VERSION, 'extensions' => implode(',', get_loaded_extensions())])",
	"json_encode(['settings' => array_filter(array_combine($n = ['opcache.enable', 'opcache.memory_consumption',"
	" 'opcache.max_accelerated_files', 'opcache.interned_strings_buffer', 'opcache.validate_timestamps', 'opcache.jit',"
	" 'opcache.jit_buffer_size', 'realpath_cache_size', 'realpath_cache_ttl', 'memory_limit', 'max_execution_time',"
	" 'display_errors', 'session.save_handler', 'session.save_path', 'session.gc_probability', 'default_socket_timeout',"
	" 'post_max_size', 'upload_max_filesize', 'file_uploads'],"
	" array_map('ini_get', $n)), fn($v) => $v !== false)])",
	"json_encode(['opcache' => ($s = opcache_get_status(false)) ? array_diff_key($s, ['preload_statistics' => 1])"
	" : ['opcache_enabled' => false]])",
};

/* After a fatal error there is no answer. */
static void ask(const char *question, zval *found)
{
	ZVAL_UNDEF(found);
	zend_try {
		zend_eval_string(question, found, "millrace");
	} zend_end_try();
	if (EG(exception)) {
		zend_clear_exception();
	}
}

/* Appends the answer to a question and a newline; returns the new length. */
static size_t answer(const char *question, char *text, size_t length, size_t room)
{
	zval found;
	ask(question, &found);
	if (Z_TYPE(found) == IS_STRING && Z_STRLEN(found) + 1 < room - length) {
		memcpy(text + length, Z_STRVAL(found), Z_STRLEN(found));
		length += Z_STRLEN(found);
		text[length++] = '\n';
	}
	return length;
}

/* In the child; the text, lines of JSON. Its length; 0: PHP cannot start a request. */
size_t look_report(char *text, size_t room)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	signal(SIGALRM, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	alarm(LOOK_SECONDS);
	char *restrict_api = INI_STR("opcache.restrict_api");
	SG(request_info).path_translated = restrict_api && *restrict_api ? estrdup(restrict_api) : NULL;
	if (php_request_startup() == FAILURE) {
		return 0;
	}
	/* No messages into the server's log: a disabled function is no error of the site. */
	EG(error_reporting) = 0;
	size_t length = 0;
	for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
		length = answer(questions[i], text, length, room);
	}
	return length;
}
