/*
 * Changes that a script can make to its process and that can't be undone: a lower limit, priority, user or session. They
 * would affect the next request, so a worker ends after a request that made one.
 */
#include "worker.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static struct {
	const char *name;
	const zend_function *function;
	zif_handler original;
} watched[] = {
	{ .name = "posix_initgroups" },
	{ .name = "posix_setegid" },
	{ .name = "posix_seteuid" },
	{ .name = "posix_setgid" },
	{ .name = "posix_setpgid" },
	{ .name = "posix_setrlimit" },
	{ .name = "posix_setsid" },
	{ .name = "posix_setuid" },
	{ .name = "proc_nice" },
};
#define WATCHED (sizeof watched / sizeof *watched)

/* Replaces each of these functions. */
static void call_and_end(INTERNAL_FUNCTION_PARAMETERS)
{
	for (size_t i = 0; i < WATCHED; i++) {
		if (watched[i].function == EX(func)) {
			if (worker) {
				worker->stop = true;
			}
			watched[i].original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
			return;
		}
	}
}

/* Watches those of the functions that this PHP has; called in the host after PHP's start. */
void taint_watch(void)
{
	for (size_t i = 0; i < WATCHED; i++) {
		zend_function *function = zend_hash_str_find_ptr(CG(function_table), watched[i].name, strlen(watched[i].name));
		if (function && function->type == ZEND_INTERNAL_FUNCTION) {
			watched[i].function = function;
			watched[i].original = function->internal_function.handler;
			function->internal_function.handler = call_and_end;
		}
	}
}

/*
 * Runs in a process that an extension or FFI has forked from a worker (pcntl is hidden): the process runs the script on,
 * but is no worker. Its output is dropped, the worker's slot is not its own, and it ends with the script. It must not hold
 * the worker's socket either: the end of that socket tells the server that the worker has ended.
 */
static void not_a_worker(void)
{
	static char board[MR_SLOT_BYTES];
	if (worker) {
		close(worker->socket);
		worker->socket = -1;
		worker->board = board;
		worker->broken = worker->exiting = true;
		worker->answer = ANSWER_VOID;
	}
}

/* Called when a worker starts. */
void taint_forks(void)
{
	pthread_atfork(NULL, NULL, not_a_worker);
}
