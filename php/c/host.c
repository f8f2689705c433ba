/*
 * The host: starts PHP and then only forks workers. One loop reads the control socket and the signals; one message is one
 * frame (frames/control.rs).
 */
#include "worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

/* Bytes from one slot's crash area to the next's. */
#define CRASH_STEP ((CRASH_BYTES + 63) / 64 * 64)

static struct {
	char *board;        /* the scoreboard */
	size_t board_bytes;
	uint32_t slots;
	pid_t pid, server;
	pid_t *pids;        /* a slot's worker, or 0 */
	char *crashes;      /* CRASH_BYTES a slot, shared with the workers */
	uint32_t running;   /* workers that run */
	int control;        /* -1 when the server has gone */
	int signals;
	int mail;           /* where workers' mail() connects, or -1 */
	bool retiring;
	time_t deadline;    /* monotonic seconds; after it workers are killed; 0: none */
} host = { .control = MR_CONTROL_DESCRIPTOR, .signals = -1, .mail = -1 };

static bool map_scoreboard(void);
static char *crash_area(uint32_t slot);
static bool watch_signals(void);
static void read_control(void);
static void read_signals(void);
static void reap(void);
static int wait_ms(void);

/* Runs the host until all its workers have ended; returns the exit status of the process. PHP is started. */
int host_run(pid_t server)
{
	char text[MR_CONTROL_MAX - MR_HEADER_BYTES];
	prctl(PR_SET_NAME, "php-host");
	host.pid = getpid();
	host.server = server;
	if (!map_scoreboard() || !watch_signals()) {
		return 1;
	}
	restart_hold();
	host.mail = mail_listen();
	private_prepare();
	size_t length = check_report(text, sizeof text);
	struct { uint32_t length; uint8_t kind, flags; uint16_t extra; } ready = { (uint32_t)length, MR_CONTROL_READY, 0, 0 };
	struct iovec parts[2] = { { &ready, sizeof ready }, { text, length } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	if (sendmsg(host.control, &message, MSG_NOSIGNAL) < 0) {
		return 1;
	}
	while (host.running || (host.control >= 0 && !host.retiring)) {
		struct pollfd waits[3] = {
			{ .fd = host.signals, .events = POLLIN },
			{ .fd = host.control, .events = POLLIN },
			{ .fd = host.mail, .events = POLLIN },
		};
		if (poll(waits, 3, wait_ms()) < 0 && errno != EINTR) {
			return 1;
		}
		if (waits[0].revents) {
			read_signals();
		}
		if (waits[1].revents) {
			read_control();
		}
		if (waits[2].revents) {
			mail_accept(host.mail);
		}
	}
	return 0;
}

/* ---- the server ---- */

static void send_control(uint8_t kind, uint16_t extra, const void *payload, size_t length)
{
	struct __attribute__((packed)) { uint32_t length; uint8_t kind, flags; uint16_t extra; } frame
		= { (uint32_t)length, kind, 0, extra };
	struct iovec parts[2] = { { &frame, sizeof frame }, { (void *)(uintptr_t)payload, length } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	if (host.control >= 0) {
		while (sendmsg(host.control, &message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
		}
	}
}

/* Sends a message to the server's error log; PHP uses it from its start on. */
void host_log(int priority, const char *message, size_t length)
{
	if (options.check) {
		fprintf(stderr, "%.*s\n", (int)length, message);
		return;
	}
	send_control(MR_CONTROL_LOG, (uint16_t)priority, message, MIN(length, MR_CONTROL_MAX - MR_HEADER_BYTES));
}

/* Sends EXITED, with what the worker has left about its crash. */
static void worker_ended(uint32_t slot, pid_t pid, int status, uint64_t max_rss_kib)
{
	struct __attribute__((packed)) { uint32_t slot, pid; int32_t status; uint64_t rss; char report[MR_TRACE_MAX]; } ended
		= { slot, (uint32_t)pid, status, max_rss_kib, "" };
	uint32_t length = pid && WIFSIGNALED(status) ? board_get32(crash_area(slot), 0) : 0;
	length = MIN(length, MR_TRACE_MAX);
	if (length) {
		memcpy(ended.report, crash_area(slot) + sizeof length, length);
		board_set32(crash_area(slot), 0, 0);
	}
	send_control(MR_CONTROL_EXITED, 0, &ended, sizeof ended - MR_TRACE_MAX + length);
}

/* The time of a worker's request is up: interrupts what the worker waits for. */
static void let_go(uint32_t slot, bool at_last)
{
	uint64_t ms = clock_ms(CLOCK_MONOTONIC);
	ms -= MIN(ms, board_get64(board_slot(host.board, slot), MR_SLOT_STARTED_MS));
	trace_let_go(host.pids[slot]);
	programs_end(host.pids[slot], ms, at_last ? SIGKILL : SIGTERM);
}

/* TRACE: tells the server where a worker is, or interrupts what it waits for. */
static void trace(uint32_t slot, uint8_t flags)
{
	pid_t pid = slot < host.slots ? host.pids[slot] : 0;
	if (!pid) {
		return;
	}
	if (flags & MR_FLAG_LET_GO) {
		let_go(slot, flags & MR_FLAG_AT_LAST);
		return;
	}
	const char *board = board_slot(host.board, slot);
	struct __attribute__((packed)) { uint32_t slot, pid; uint64_t sequence; char text[MR_TRACE_MAX]; } traced
		= { slot, (uint32_t)pid, board_get64(board, MR_SLOT_RECEIVED), "" };
	struct text text = { traced.text, 0, sizeof traced.text };
	trace_waiting(&text, pid);
	size_t first = text.length;
	trace_frames(&text, pid);
	if (board_get64(board, MR_SLOT_RECEIVED) != traced.sequence) {
		text.length = 0; /* it has gone on to another */
	} else if (text.length == first) {
		text_put(&text, "\n");
	}
	send_control(MR_CONTROL_TRACED, 0, &traced, sizeof traced - sizeof traced.text + text.length);
}

/* LOOK: a child reports PHP's settings and opcache, and ends. If it cannot, the server gets an empty LOOKED. */
static void look(void)
{
	pid_t pid = fork();
	if (pid > 0) {
		return;
	}
	static char text[MR_CONTROL_MAX - MR_HEADER_BYTES];
	send_control(MR_CONTROL_LOOKED, 0, text, pid == 0 ? look_report(text, sizeof text) : 0);
	if (pid == 0) {
		_exit(0);
	}
}

/* In a child: closes what belongs to the host. */
static void leave_host(void)
{
	int *const own[] = { &host.control, &host.signals, &host.mail };
	for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
		if (*own[i] >= 0) {
			close(*own[i]);
		}
		*own[i] = -1;
	}
}

/* In the child: serves requests. */
static void become_worker(int socket, uint32_t slot)
{
	leave_host();
	rewind_open();
	if (!sandbox_enter(host.pid, host.server)) {
		fprintf(stderr, "millrace-php: a worker cannot enter the sandbox and exits; see php.sandbox\n");
		_exit(71);
	}
	_exit(loop_run(socket, slot, host.board, crash_area(slot)));
}

static pid_t fork_worker(int socket, uint32_t slot)
{
	if (sandbox_has_nursery()) {
		return nursery_fork(slot, socket, leave_host, become_worker);
	}
	pid_t pid = fork();
	if (pid == 0) {
		become_worker(socket, slot);
	}
	return pid;
}

/* SPAWN. If a worker cannot be started, the server gets an EXITED with process id 0. */
static void spawn(uint32_t slot, int socket)
{
	if (slot >= host.slots || host.pids[slot] || host.retiring || socket < 0) {
		static const char text[] = "millrace-php: the server requested a worker in an occupied slot";
		host_log(LOG_ERR, text, sizeof text - 1);
		worker_ended(slot, 0, 0, 0);
		return;
	}
	char *board = board_slot(host.board, slot);
	memset(board, 0, MR_SLOT_BYTES);
	board_set32(board, MR_SLOT_STATE, MR_STATE_STARTING);
	pid_t pid = fork_worker(socket, slot);
	if (pid < 0) {
		char text[200];
		int length = snprintf(text, sizeof text, "millrace-php: cannot fork a worker: %s", strerror(errno));
		host_log(LOG_ERR, text, (size_t)length);
		board_set32(board, MR_SLOT_STATE, MR_STATE_FREE);
		worker_ended(slot, 0, 0, 0);
		return;
	}
	host.pids[slot] = pid;
	host.running++;
	board_set32(board, MR_SLOT_PID, (uint32_t)pid);
	uint32_t started[2] = { slot, (uint32_t)pid };
	send_control(MR_CONTROL_STARTED, 0, started, sizeof started);
}

static time_t monotonic(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* The server has gone: its workers see the end of their sockets; a worker that does not end in time is killed. */
static void server_gone(void)
{
	close(host.control);
	host.control = -1;
	host.retiring = true;
	host.deadline = monotonic() + (time_t)options.grace_seconds + 1;
}

/* The descriptor of a message, or -1. */
static int descriptor(struct msghdr *message)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(message);
	int fd = -1;
	if (control && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS) {
		memcpy(&fd, CMSG_DATA(control), sizeof fd);
	}
	return fd;
}

static void read_control(void)
{
	struct __attribute__((packed)) { uint32_t length; uint8_t kind, flags; uint16_t extra; uint32_t slot; } frame;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = { &frame, sizeof frame };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
		.msg_controllen = sizeof control };
	ssize_t got = recvmsg(host.control, &message, MSG_CMSG_CLOEXEC);
	if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
		server_gone();
		return;
	}
	int socket = got > 0 ? descriptor(&message) : -1;
	if (got == sizeof frame && frame.kind == MR_CONTROL_SPAWN) {
		spawn(frame.slot, socket);
	} else if (got == sizeof frame && frame.kind == MR_CONTROL_TRACE) {
		trace(frame.slot, frame.flags);
	} else if (got >= (ssize_t)MR_HEADER_BYTES && frame.kind == MR_CONTROL_LOOK) {
		look();
	} else if (got >= (ssize_t)MR_HEADER_BYTES && frame.kind == MR_CONTROL_RETIRE) {
		/* The second RETIRE: the server waits for no worker of this host any more, and some have not ended yet. */
		host.deadline = host.retiring && !host.deadline ? monotonic() : host.deadline;
		host.retiring = true;
	}
	if (socket >= 0) {
		close(socket);
	}
}

/* ---- the workers ---- */

static void reap(void)
{
	int status;
	struct rusage usage;
	pid_t pid;
	while ((pid = wait4(-1, &status, WNOHANG | WUNTRACED, &usage)) > 0) {
		if (WIFSTOPPED(status)) {
			/* A script has stopped this worker: it could not run its next request. There is no terminal. */
			kill(pid, SIGCONT);
			continue;
		}
		uint32_t slot = 0;
		while (slot < host.slots && host.pids[slot] != pid) {
			slot++;
		}
		if (slot == host.slots) {
			continue;
		}
		host.pids[slot] = 0;
		host.running--;
		char *board = board_slot(host.board, slot);
		board_set32(board, MR_SLOT_PID, 0);
		board_set32(board, MR_SLOT_STATE, MR_STATE_FREE);
		worker_ended(slot, pid, status, (uint64_t)usage.ru_maxrss);
	}
}

/* SIGCHLD: workers have ended or were stopped. */
static void read_signals(void)
{
	struct signalfd_siginfo signal;
	while (read(host.signals, &signal, sizeof signal) == sizeof signal) {
		reap();
	}
}

/* How long the loop may wait, milliseconds; kills the remaining workers when the grace period is over. */
static int wait_ms(void)
{
	if (!host.deadline) {
		return -1;
	}
	if (monotonic() < host.deadline) {
		return 250;
	}
	for (uint32_t slot = 0; slot < host.slots; slot++) {
		if (host.pids[slot]) {
			kill(host.pids[slot], SIGKILL);
		}
	}
	return 250;
}

/* ---- start ---- */

static bool map_scoreboard(void)
{
	struct stat file;
	if (fstat(MR_SCOREBOARD_DESCRIPTOR, &file) != 0 || file.st_size < (off_t)MR_SCOREBOARD_HEAD) {
		main_fail("file descriptor 4 is not a scoreboard");
		return false;
	}
	host.board_bytes = (size_t)file.st_size;
	host.board = mmap(NULL, host.board_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, MR_SCOREBOARD_DESCRIPTOR, 0);
	if (host.board == MAP_FAILED) {
		main_fail("cannot map the scoreboard: %s", strerror(errno));
		return false;
	}
	close(MR_SCOREBOARD_DESCRIPTOR);
	uint32_t head[4];
	memcpy(head, host.board, sizeof head);
	uint64_t figures = board_get64(host.board, MR_SCOREBOARD_FIGURES);
	size_t slots = (host.board_bytes - MR_SCOREBOARD_HEAD) / MR_SLOT_BYTES;
	if (head[0] != MR_SCOREBOARD_MAGIC || head[1] != MR_PROTOCOL || head[2] != MR_SLOT_BYTES || head[3] > slots
		|| (figures && (figures > host.board_bytes || (host.board_bytes - figures) / MR_FIGURES_BYTES < head[3]))) {
		main_fail("millrace and millrace-php have different versions: install both from the same release");
		return false;
	}
	figures_map(figures ? host.board + figures : NULL);
	host.slots = head[3];
	host.pids = calloc(host.slots ? host.slots : 1, sizeof *host.pids);
	/* The kernel allocates a page of this memory only when a worker writes to it, which is when it crashes. */
	host.crashes = mmap(NULL, (host.slots + 1) * CRASH_STEP, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return host.pids != NULL && host.crashes != MAP_FAILED;
}

static char *crash_area(uint32_t slot)
{
	return host.crashes + slot * CRASH_STEP;
}

/*
 * The host handles only SIGCHLD: the server tells it when to end, by a message or by closing the control socket. A script
 * runs as the same user and may send the host any signal; a service manager that stops the server sends SIGTERM to all
 * processes at once, while workers are still needed. A worker unblocks all signals again.
 */
static bool watch_signals(void)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };
	sigset_t set;
	sigfillset(&set);
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
		sigdelset(&set, faults[i]);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	host.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return host.signals >= 0;
}
