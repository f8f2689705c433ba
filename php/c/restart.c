/*
 * Restarts of opcache. When its memory is full, or a script calls opcache_reset(), opcache marks a restart as pending. From then on it
 * stores no script, and it empties its memory as soon as no process uses that. On a busy site there is no such moment: one long request
 * or a persistent worker holds the restart off, and meanwhile every request compiles its scripts.
 *
 * So a restart never happens in place. The host holds the lock by which opcache sees that its memory is in use. A worker that sees a
 * pending restart says so in the scoreboard, and the server has a new host, with memory of its own, take over (pools/src/supervisor/renew.rs).
 *
 * Where that is not possible, because scripts must not ask opcache, or where an ini file says how long a restart may be pending, opcache
 * restarts as it does elsewhere.
 */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The shortest time between two looks of a worker, milliseconds: a look costs some microseconds. */
#define LOOK_MS 100
/* Highest descriptor among which opcache's is looked for: the host has few. */
#define DESCRIPTORS 256

static bool holds; /* also in the host's children: it can be asked */

/*
 * opcache's descriptor for its locks (ext/opcache/zend_shared_alloc.c: a memfd, or a file where there is none), or -1.
 */
static int lock_descriptor(void)
{
	for (int fd = 3; fd < DESCRIPTORS; fd++) {
		char link[64], path[256];
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		ssize_t length = readlink(link, path, sizeof path - 1);
		if (length <= 0) {
			continue;
		}
		path[length] = 0;
		if (strstr(path, "memfd:opcache_lock") || strstr(path, "/.ZendSem.")) {
			return fd;
		}
	}
	return -1;
}

/* PHP's own function; NULL: scripts must not ask it. */
static zend_function *status_function(void)
{
	const char *restricted = INI_STR("opcache.restrict_api");
	return restricted && *restricted ? NULL : watch_find(NULL, "opcache_get_status");
}

/* Whether it can be known what opcache wants. */
bool restart_shows(void)
{
	return status_function() != NULL;
}

/* In the host, before it forks: from now on opcache does not restart. */
void restart_hold(void)
{
	int fd = lock_descriptor();
	if (fd < 0 || !restart_shows() || INI_INT("opcache.force_restart_timeout")) {
		return;
	}
	/* As accel_activate_add() in ext/opcache/ZendAccelerator.c. Record locks belong to the process: no child has it. */
	struct flock uses = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1 };
	holds = fcntl(fd, F_SETLK, &uses) == 0;
}

static zend_long number(const zval *of, const char *name)
{
	const zval *found = of && Z_TYPE_P(of) == IS_ARRAY ? zend_hash_str_find(Z_ARRVAL_P(of), name, strlen(name)) : NULL;
	return found && Z_TYPE_P(found) == IS_LONG ? Z_LVAL_P(found) : found && Z_TYPE_P(found) == IS_TRUE;
}

/* Why opcache wants to restart: one of MR_RESTART_*; 0: it does not, or can't be asked. */
uint64_t restart_pending(void)
{
	zend_function *function = status_function();
	zval status, without_scripts;
	if (!function) {
		return 0;
	}
	ZVAL_FALSE(&without_scripts);
	ZVAL_UNDEF(&status);
	zend_call_known_function(function, NULL, NULL, &status, 1, &without_scripts, NULL);
	uint64_t why = 0;
	if (number(&status, "restart_pending")) {
		const zval *figures = zend_hash_str_find(Z_ARRVAL(status), ZEND_STRL("opcache_statistics"));
		zend_long keys = number(figures, "max_cached_keys");
		why = keys && number(figures, "num_cached_keys") >= keys ? MR_RESTART_KEYS
			: number(&status, "cache_full") ? MR_RESTART_MEMORY : MR_RESTART_RESET;
	}
	zval_ptr_dtor(&status);
	return why;
}

/* In a worker, at the end of a request and before PHP shuts it down: tells the server if opcache wants to restart. */
void restart_look(void)
{
	static uint64_t looked;
	if (!holds || CG(unclean_shutdown) || EG(exception)) {
		return;
	}
	uint64_t now = clock_ms(CLOCK_MONOTONIC_COARSE);
	if (now - looked < LOOK_MS) {
		return;
	}
	looked = now;
	zend_try {
		uint64_t why = restart_pending();
		if (why) {
			board_set64((char *)(uintptr_t)worker->scoreboard, MR_SCOREBOARD_RESTART, why);
		}
	} zend_end_try();
}
