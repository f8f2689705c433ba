/* Enters the sandbox; sandbox.h says what it consists of. */
#include "sandbox.h"

#include <sys/prctl.h>
#include <unistd.h>

/* Whether the kernel restricts files. */
bool sandbox_has_landlock(void)
{
	return options.sandbox && landlock_abi() != 0;
}

/* Whether workers are forked by nursery.c. */
bool sandbox_has_nursery(void)
{
	return options.sandbox && landlock_scopes_signals();
}

/* What of the sandbox this kernel has: a line of READY. */
const char *sandbox_says(void)
{
	static char text[64];
	long abi = landlock_abi();
	if (!options.sandbox) {
		return options.no_new_privileges ? "privileges" : "off";
	}
	snprintf(text, sizeof text, abi ? "landlock %ld, seccomp" : "seccomp", abi);
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
	struct guarded guarded = { { host, server, nursery_pid() }, nursery_pid() ? 3 : 2, landlock_scopes_signals() };
	if ((landlock_abi() && !landlock_enter_folders()) || !seccomp_enter(&guarded)) {
		return false;
	}
	private_start();
	return true;
}
