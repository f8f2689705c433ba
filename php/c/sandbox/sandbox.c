/* Enters the sandbox; sandbox.h says what it consists of. */
#include "sandbox.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the kernel restricts files. */
bool sandbox_has_landlock(void)
{
	return options.sandbox && landlock_abi() != 0;
}

/* Whether workers are forked by nursery.c. */
bool sandbox_has_nursery(void)
{
	return options.sandbox && signals_kept() != SIGNALS_GROUP;
}

/* What of the sandbox this kernel has: a line of READY. */
const char *sandbox_says(void)
{
	static char text[96];
	long abi = landlock_abi();
	if (!options.sandbox) {
		return options.no_new_privileges ? "privileges" : "off";
	}
	int length = abi ? snprintf(text, sizeof text, "landlock %ld, ", abi) : 0;
	snprintf(text + length, sizeof text - (size_t)length, "seccomp%s", signals_say());
	return text;
}

/* no_new_privs, which Landlock and seccomp need. */
bool sandbox_keep_privileges(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/*
 * Called in a worker before it runs anything. False: the worker lacks a part of its sandbox that this kernel has, and must
 * not serve. A kernel without Landlock does not count: the server reports that at its start.
 */
bool sandbox_enter(pid_t host, pid_t server)
{
	/* A session of its own: a worker can't join the process group of the host, or of another worker, and signal it. */
	setsid();
	if ((options.sandbox || options.no_new_privileges) && !sandbox_keep_privileges()) {
		return false;
	}
	if (!options.sandbox) {
		return true;
	}
	struct guarded guarded = { { host, server }, 2, signals_kept() };
	const pid_t others[] = { nursery_pid(), signals_leave() };
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		if (others[i]) {
			guarded.pids[guarded.count++] = others[i];
		}
	}
	if ((landlock_abi() && !landlock_enter_folders()) || !seccomp_enter(&guarded)) {
		return false;
	}
	if (landlock_abi()) {
		private_start();
	}
	return true;
}

/* ---- posix_kill() ---- */

static zif_handler kill_was;

/* Whether a process exists and runs as this user. */
static bool is_of_user(zend_long pid)
{
	char path[64];
	struct stat found;
	snprintf(path, sizeof path, "/proc/" ZEND_LONG_FMT, pid);
	return stat(path, &found) == 0 && found.st_uid == geteuid();
}

/*
 * posix_kill($pid, 0) asks whether a process lives: locks by process id do. A job that an earlier host has started, before a reload, is
 * outside of the domain of signals, but lives: what is refused is no process only if there is none of this user.
 */
static PHP_FUNCTION(seen_kill)
{
	zend_long pid = 0, number = -1;
	bool good = zend_parse_parameters_ex(ZEND_PARSE_PARAMS_QUIET, ZEND_NUM_ARGS(), "ll", &pid, &number) == SUCCESS;
	kill_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	if (good && number == 0 && pid > 0 && Z_TYPE_P(return_value) == IS_FALSE && errno == EPERM && is_of_user(pid)) {
		RETVAL_TRUE;
	}
}

/* Called in the host after PHP's start. */
void sandbox_watch(void)
{
	if (options.sandbox) {
		kill_was = watch_replace(NULL, "posix_kill", ZEND_FN(seen_kill));
	}
}
