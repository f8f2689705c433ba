/*
 * The process from which a host's workers are forked. It is in a domain that no signal leaves (of Landlock from Linux 6.12 on, before of
 * signals.c), and so is all that it forks: a site's workers and background jobs see and stop each other, as lock files with process ids
 * need, and nobody else. The host is not in the domain, and hands mail to programs that must not be in a sandbox; but it is the
 * parent of the workers.
 *
 *   host ── slot, socket ──> nursery ── clone(CLONE_PARENT) ──> worker, a child of the host
 *        <────── pid ───────
 *
 * Scripts can't kill it by its number (seccomp.c). If it ends all the same, the host starts another one: then only jobs of the
 * time before are out of reach.
 */
#include "sandbox.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static pid_t nursery;
static int ours = -1; /* the host's end of the socket */

pid_t nursery_pid(void)
{
	return nursery;
}

/* A fork whose parent is this process's parent. Neither of them has threads, and no handler of pthread_atfork() is set. */
static pid_t fork_for_parent(void)
{
	return (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
}

union rights {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

/* Sends a number with a descriptor: a slot with the socket of its worker. */
bool pass_descriptor(int through, uint32_t number, int descriptor)
{
	union rights control = { 0 };
	struct iovec part = { &number, sizeof number };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof descriptor);
	memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
	return sendmsg(through, &message, MSG_NOSIGNAL) == sizeof number;
}

/* Waits for both; returns the descriptor, or -1 when the other end is closed. */
int take_descriptor(int from, uint32_t *number)
{
	union rights control;
	struct iovec part = { number, sizeof *number };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	int descriptor = -1;
	ssize_t got;
	while ((got = recvmsg(from, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
	}
	struct cmsghdr *rights = got == sizeof *number ? CMSG_FIRSTHDR(&message) : NULL;
	if (rights && rights->cmsg_type == SCM_RIGHTS && rights->cmsg_len == CMSG_LEN(sizeof descriptor)) {
		memcpy(&descriptor, CMSG_DATA(rights), sizeof descriptor);
	}
	return descriptor;
}

/* In the nursery: forks a worker for each message; ends with the host. */
static ZEND_NORETURN void serve(int from, void (*become_worker)(int socket, uint32_t slot))
{
	prctl(PR_SET_NAME, "php-nursery");
	setsid();
	nursery = getpid();
	bool entered = sandbox_keep_privileges() && signals_start(from);
	uint32_t slot;
	/* Without its supervisor it ends, and the host starts another. */
	for (int socket; (socket = take_descriptor(from, &slot)) >= 0 && signals_supervised(); close(socket)) {
		pid_t pid = entered ? fork_for_parent() : -1;
		if (pid == 0) {
			close(from);
			become_worker(socket, slot);
		}
		int32_t answer = pid < 0 ? -errno : pid;
		if (send(from, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) {
			break;
		}
	}
	_exit(0);
}

static bool start(void (*leave_host)(void), void (*become_worker)(int socket, uint32_t slot))
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		return false;
	}
	nursery = fork();
	if (nursery == 0) {
		close(ends[0]);
		leave_host();
		serve(ends[1], become_worker);
	}
	close(ends[1]);
	if (nursery < 0) {
		close(ends[0]);
		nursery = 0;
		return false;
	}
	ours = ends[0];
	return true;
}

/*
 * Called in the host: forks a worker; returns its process id, or -1 with errno. `leave_host` closes in the nursery what belongs to
 * the host alone.
 */
pid_t nursery_fork(uint32_t slot, int socket, void (*leave_host)(void), void (*become_worker)(int socket, uint32_t slot))
{
	for (int tries = 0; tries < 2; tries++) {
		int32_t answer;
		if (ours < 0 && !start(leave_host, become_worker)) {
			return -1;
		}
		if (pass_descriptor(ours, slot, socket) && recv(ours, &answer, sizeof answer, 0) == sizeof answer) {
			errno = answer < 0 ? -answer : 0;
			return answer < 0 ? -1 : answer;
		}
		close(ours);
		ours = -1;
	}
	errno = ECHILD;
	return -1;
}
