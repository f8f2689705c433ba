/*
 * What a worker may do, besides the limits of its user: it can't gain privileges (no_new_privs), and
 *
 *   landlock.c  reaches files only in the folders of its sites, and processes only in its host's domain
 *   seccomp.c   makes only system calls that web pages and the programs that they start need; syscalls.h lists them
 *   nursery.c   forks the workers, so that they and what they start are one domain of signals, without host and server
 *   signals.c   keeps signals inside that domain where Landlock doesn't (before Linux 6.12): a process outside of it is asked
 *   private.c   finds the host's temporary folder at /tmp, and logs what Landlock refuses; paths.c: functions that take a path
 *   sandbox.c   enters all of it
 *
 * Programs that scripts start inherit all this.
 */
#ifndef MILLRACE_SANDBOX_H
#define MILLRACE_SANDBOX_H

#include "../worker.h"

/* How signals stay inside a host's domain. */
enum signals {
	SIGNALS_SCOPED, /* Landlock does it (Linux 6.12) */
	SIGNALS_ASKED,  /* signals.c decides about each signal to another process */
	SIGNALS_GROUP,  /* neither is possible: they reach the caller's own process group, and nothing else */
};

/* Processes that no signal may reach by their number. */
struct guarded {
	pid_t pids[4];
	size_t count;
	enum signals signals;
};

/* landlock.c; from this version on it knows domains of signals */
#define LANDLOCK_SIGNALS_ABI 6
long landlock_abi(void);
bool landlock_enter_domain(bool scoped);
bool landlock_enter_folders(void);

/* signals.c */
enum signals signals_kept(void);
const char *signals_say(void);
bool signals_start(int not_its_own);
bool signals_supervised(void);
pid_t signals_leave(void);

/* private.c */
void private_open(const char *path, bool writable);
void private_start(void);

/* sandbox.c */
bool sandbox_keep_privileges(void);

/* nursery.c: its process, or 0 */
pid_t nursery_pid(void);
bool pass_descriptor(int through, uint32_t number, int descriptor);
int take_descriptor(int from, uint32_t *number);

/* seccomp.c */
bool seccomp_enter(const struct guarded *guarded);

#endif
