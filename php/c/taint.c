/*
 * Changes that a script can make to its process and that can't be undone: a lower limit, priority, user or session. They
 * would affect the next request, so a worker ends after a request that made one.
 */
#include "worker.h"

#include <pthread.h>
#include <unistd.h>

static struct watched watched[] = {
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
	if (worker) {
		worker->stop = true;
	}
	watch_called(watched, WATCHED, execute_data)->original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* Watches those of the functions that this PHP has; called in the host after PHP's start. */
void taint_watch(void)
{
	watch_functions(watched, WATCHED, call_and_end);
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
