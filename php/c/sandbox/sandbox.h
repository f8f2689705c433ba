/*
 * What a worker may do, besides the limits of its user: it can't gain privileges (no_new_privs), and
 *
 *   landlock.c  reaches files only in the folders of its sites, and processes only in its host's domain
 *   seccomp.c   makes only system calls that web pages and the programs that they start need; syscalls.h lists them
 *   nursery.c   forks the workers, so that they and what they start are one domain of signals, without host and server
 *   private.c   finds the host's temporary folder at /tmp, and logs what Landlock refuses; paths.c: functions that take a path
 *   sandbox.c   enters all of it
 *
 * Programs that scripts start inherit all this.
 */
#ifndef MILLRACE_SANDBOX_H
#define MILLRACE_SANDBOX_H

#include "../worker.h"

/* Processes that no signal may reach by their number. */
struct guarded {
	pid_t pids[3];
	size_t count;
	bool scoped; /* Landlock keeps signals inside the domain */
};

/* landlock.c */
long landlock_abi(void);
bool landlock_scopes_signals(void);
bool landlock_enter_scope(void);
bool landlock_enter_folders(void);

/* private.c */
void private_open(const char *path, bool writable);
void private_start(void);

/* sandbox.c */
bool sandbox_keep_privileges(void);

/* nursery.c: its process, or 0 */
pid_t nursery_pid(void);

/* seccomp.c */
bool seccomp_enter(const struct guarded *guarded);

#endif
