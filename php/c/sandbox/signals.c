/*
 * Keeps signals inside a host's domain where Landlock doesn't (before Linux 6.12). A call that would send a signal to another process
 * waits in the kernel (SECCOMP_RET_USER_NOTIF) until a process outside of the filter has decided; that one sends the signal, too:
 *
 *   host ── nursery ──> supervisor of signals <── listener ── kernel <── kill() ── worker, or what a script has started
 *                                '── pidfd_send_signal() ──> target
 *
 * It sends to processes of the domain: those that share the nursery's domain of Landlock, which no process leaves, and, where there is
 * no Landlock, the caller's own children and theirs. The kernel goes on with the call itself only if the caller is the target, which
 * nothing can change while it waits. For all others the supervisor holds a pidfd before it looks: if the number has been given to
 * another process meanwhile, the signal goes nowhere.
 *
 * It ends when the last process that has the filter has ended, which may be a background job long after the host. If it is killed, the calls
 * fail with ENOSYS, and the host starts another nursery with another supervisor for the next worker.
 */
#include "filter.h"
#include "sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1ul << 5)
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* Generations between a process and the one that it descends from. */
#define GENERATIONS 64

static pid_t supervisor;
static int line = -1;        /* the nursery's end of a socket: the supervisor lives as long as it is open at the other end */
static bool uninterrupted;   /* a signal does not end the wait of a caller whose notification the supervisor has taken */

/* ---- which way ---- */

/*
 * Makes the calling process, and what it starts, ask for signals to others; returns the listener, or -1. A signal to the caller's process
 * group needs no question: each worker has a session of its own.
 */
static int begin_to_ask(void)
{
#ifdef NATIVE
	static const struct sock_filter code[] = {
		LOAD(arch), UNLESS(NATIVE, 9), LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_tgkill, 6, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_tkill, 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_rt_sigqueueinfo, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_rt_tgsigqueueinfo, 3, 0),
		UNLESS(__NR_kill, 3), LOW(0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		ALLOW,
	};
	struct sock_fprog filter = { sizeof code / sizeof *code, (struct sock_filter *)(uintptr_t)code };
	unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
	int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &filter);
	uninterrupted = listener >= 0;
	return uninterrupted ? listener : (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
#else
	return -1;
#endif
}

/*
 * Whether this kernel lets a process ask, and tells the supervisor when nobody is left who might (Linux 5.9). Not so if another filter
 * that asks surrounds the server, as in some containers. A child tries; its descriptors are ours.
 */
static bool can_ask(void)
{
	int status = 0;
	pid_t child = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
	if (child == 0) {
		int listener = sandbox_keep_privileges() ? begin_to_ask() : -1;
		_exit(listener >= 0 && listener < 255 ? listener : 255);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) == 255) {
		return false;
	}
	struct pollfd listener = { .fd = WEXITSTATUS(status), .events = POLLIN };
	bool tells = poll(&listener, 1, 0) == 1 && (listener.revents & POLLHUP);
	close(listener.fd);
	return tells;
}

/* For tests: --sandbox-signals asks for the way of an older kernel. */
static bool is_asked_for(const char *way)
{
	return options.signals && strcmp(options.signals, way) == 0;
}

static bool has_domain(void)
{
	return landlock_abi() && !is_asked_for("family");
}

/* Called first in the host. */
enum signals signals_kept(void)
{
	static int kept = -1;
	if (kept < 0) {
		kept = !options.signals && landlock_abi() >= LANDLOCK_SIGNALS_ABI ? SIGNALS_SCOPED
			: is_asked_for("group") || !can_ask() ? SIGNALS_GROUP : SIGNALS_ASKED;
	}
	return (enum signals)kept;
}

/* What READY says about it. */
const char *signals_say(void)
{
	switch (signals_kept()) {
		case SIGNALS_SCOPED: return "";
		case SIGNALS_ASKED: return has_domain() ? ", signals supervised" : ", signals to own children";
		case SIGNALS_GROUP: break;
	}
	return ", no signals";
}

/* ---- the processes ---- */

/* A number behind a name in /proc/PID/status; 0: there is no such process. The kernel writes no line break in a process's name. */
static pid_t status_of(pid_t pid, const char *name)
{
	char text[1024];
	const char *at = strstr(programs_read(pid, "status", text, sizeof text), name);
	return at ? (pid_t)atoi(at + strlen(name)) : 0;
}

static pid_t parent_of(pid_t pid)
{
	return status_of(pid, "\nPPid:\t");
}

/* Whether a process descends from another. */
static bool descends(pid_t pid, pid_t from)
{
	pid_t chain[GENERATIONS + 1] = { pid };
	size_t length = 0;
	while (chain[length] != from) {
		pid_t parent = length < GENERATIONS ? parent_of(chain[length]) : 0;
		if (parent <= 1) {
			return false;
		}
		chain[++length] = parent;
	}
	/* What still has its parent has had it all the time: none of the numbers has been given to another process meanwhile. */
	for (size_t i = 0; i < length; i++) {
		if (parent_of(chain[i]) != chain[i + 1]) {
			return false;
		}
	}
	return true;
}

/*
 * Whether a process is in this one's domain of Landlock, or in one inside of it: only into those the kernel lets this one look. This call
 * is the simplest that looks.
 */
static bool is_in_domain(pid_t pid)
{
	void *list;
	size_t length;
	return has_domain() && syscall(SYS_get_robust_list, pid, &list, &length) == 0;
}

/* ---- the supervisor ---- */

struct question {
	int listener;
	uint64_t id;
	pid_t caller;       /* the process, not the thread */
	bool answered;
};

static bool answer(struct question *question, int error, uint32_t flags)
{
	struct seccomp_notif_resp response = { .id = question->id, .error = -error, .flags = flags };
	question->answered = true;
	return ioctl(question->listener, SECCOMP_IOCTL_NOTIF_SEND, &response) == 0;
}

static int send_through(int target, int signal)
{
	return syscall(SYS_pidfd_send_signal, target, signal, NULL, 0) == 0 ? 0 : errno;
}

/*
 * Sends the signal; returns an error number. Where a signal - SIGCHLD from the target - can interrupt the caller's wait, so that it would
 * ask again, it gets its answer first.
 */
static int deliver(struct question *question, int target, int signal)
{
	if (signal && !uninterrupted && !question->answered) {
		int error = send_through(target, 0);
		if (error || !answer(question, 0, 0)) {
			return error ? error : EINTR;
		}
	}
	return send_through(target, signal);
}

/* Sends to one process; `group`: only if it is in that process group. */
static int send_to(struct question *question, pid_t pid, pid_t group, int signal)
{
	int target = (int)syscall(SYS_pidfd_open, pid, 0);
	if (target < 0) {
		return errno == ESRCH ? ESRCH : EPERM;
	}
	int error = EPERM;
	if (group && getpgid(pid) != group) {
		error = ESRCH;
	} else if (pid != getpid() && pid != nursery_pid() && (is_in_domain(pid) || pid == question->caller || descends(pid, question->caller))
		/* The caller is still who it was when the supervisor looked. */
		&& (question->answered || ioctl(question->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &question->id) == 0)) {
		error = deliver(question, target, signal);
	}
	close(target);
	return error;
}

/* Sends to the processes of a group that it may send to. */
static int send_to_group(struct question *question, pid_t group, int signal)
{
	DIR *all = opendir("/proc");
	bool sent = false;
	int error = ESRCH;
	for (struct dirent *entry; all && (entry = readdir(all));) {
		pid_t pid = (pid_t)atoi(entry->d_name);
		if (pid > 0 && getpgid(pid) == group) {
			int one = send_to(question, pid, group, signal);
			sent = sent || one == 0;
			error = one == ESRCH ? error : one;
		}
	}
	if (all) {
		closedir(all);
	}
	return sent ? 0 : error;
}

static void decide(int listener, const struct seccomp_notif *asked)
{
	struct question question = { listener, asked->id, status_of((pid_t)asked->pid, "\nTgid:\t"), false };
	pid_t to = (pid_t)asked->data.args[0];
	int signal = (int)asked->data.args[1], error = EPERM;
	if (to > 0 && to == (asked->data.nr == __NR_tkill ? (pid_t)asked->pid : question.caller)) {
		answer(&question, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE);
		return;
	}
	/* The others name a thread of another process, or hand over a value in memory that the caller can change. */
	if (asked->data.nr == __NR_kill && question.caller > 0) {
		error = to > 0 ? send_to(&question, to, 0, signal) : to == INT_MIN ? ESRCH : send_to_group(&question, -to, signal);
	}
	if (!question.answered) {
		answer(&question, error, 0);
	}
}

static ZEND_NORETURN void supervise(int listener)
{
	/* The kernel's structure may be longer than that of the header. */
	union { struct seccomp_notif asked; char room[1024]; } notification;
	struct pollfd wait = { .fd = listener, .events = POLLIN };
	for (;;) {
		if (poll(&wait, 1, -1) < 0) {
			continue;
		}
		if (!(wait.revents & POLLIN)) {
			_exit(0);
		}
		memset(&notification, 0, sizeof notification);
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notification) == 0) {
			decide(listener, &notification.asked);
		}
	}
}

/* ---- the nursery ---- */

/*
 * Called in the nursery: enters the domain in which this host's signals stay, and starts the supervisor if one is needed.
 * `not_its_own`: a descriptor that the supervisor closes.
 */
bool signals_start(int not_its_own)
{
	int ends[2];
	bool scoped = signals_kept() == SIGNALS_SCOPED;
	if ((scoped || has_domain()) && !landlock_enter_domain(scoped)) {
		return false;
	}
	if (scoped) {
		return true;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		return false;
	}
	supervisor = fork();
	if (supervisor == 0) {
		uint32_t patient = 0;
		prctl(PR_SET_NAME, "php-signals");
		close(not_its_own);
		close(ends[0]);
		int listener = take_descriptor(ends[1], &patient);
		uninterrupted = patient;
		supervise(listener);
	}
	close(ends[1]);
	line = ends[0];
	int listener = supervisor > 0 ? begin_to_ask() : -1;
	bool started = listener >= 0 && pass_descriptor(line, uninterrupted, listener);
	if (listener >= 0) {
		close(listener);
	}
	return started;
}

/* Called in the nursery: whether a worker's signals would find their supervisor. */
bool signals_supervised(void)
{
	struct pollfd wait = { .fd = line };
	return line < 0 || poll(&wait, 1, 0) == 0;
}

/* Called in a worker; returns the supervisor's process, or 0. */
pid_t signals_leave(void)
{
	if (line >= 0) {
		close(line);
		line = -1;
	}
	return supervisor;
}
