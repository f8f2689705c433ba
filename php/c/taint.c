/*
 * What a script can do to its process that nothing undoes: lower a limit, give up priority, user or session. The next
 * request would have to live with it, so a worker that has done such a thing ends after its request.
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

/* Stands in the place of each of them. */
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

/* Has those functions that this PHP has watched; after its start, in the host. */
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
 * In a process that was forked off a worker, by an extension or FFI (pcntl is hidden): it runs the script on, but it is
 * no worker. What it says reaches nobody, the worker's slot is not its own, and it ends with the script. It must not
 * hold the worker's socket either, whose end tells the server that the worker is no more.
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

/* At the start of a worker. */
void taint_forks(void)
{
	pthread_atfork(NULL, NULL, not_a_worker);
}
