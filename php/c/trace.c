/*
 * Where a worker is: its PHP frames, read from its memory without stopping it, and what it waits for.
 *
 * The host reads workers that it has forked, so libphp and PHP's structures lie at the same addresses. A worker that
 * crashes reads itself, by system calls that fail on invalid pointers. So everything here except trace_waiting() may be
 * called in a signal handler, and everything that is read may be garbage: the script runs on meanwhile, or has just
 * destroyed its memory. Each length is bounded, and each pointer is read through read_memory() only.
 */
#include "worker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

/* Maximum number of PHP frames in a report. */
#define FRAMES 40
/* Maximum length in bytes of a name or path in a report. */
#define NAME_BYTES 200

/* ---- text ---- */

void text_put(struct text *text, const char *bytes)
{
	while (*bytes && text->length < text->room) {
		text->bytes[text->length++] = *bytes++;
	}
}

void text_number(struct text *text, uint64_t number)
{
	char digits[24], *at = digits + sizeof digits - 1;
	*at = 0;
	do {
		*--at = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	text_put(text, at);
}

void text_address(struct text *text, uint64_t address)
{
	char digits[24], *at = digits + sizeof digits - 1;
	*at = 0;
	do {
		*--at = "0123456789abcdef"[address % 16];
		address /= 16;
	} while (address);
	text_put(text, "0x");
	text_put(text, at);
}

/* Appends bytes of the script, without control characters that would break a line. */
void text_foreign(struct text *text, const char *bytes, size_t length)
{
	for (size_t i = 0; i < length && text->length < text->room; i++) {
		unsigned char byte = (unsigned char)bytes[i];
		text->bytes[text->length++] = byte < ' ' || byte == 127 ? '?' : (char)byte;
	}
}

/* ---- memory ---- */

/*
 * Reads this process through a pipe: writing from an unmapped address fails. The sandbox refuses process_vm_readv to
 * workers. The pipe is made on first use, by a process that is about to end.
 */
static bool read_own(const void *from, void *to, size_t length)
{
	static int ends[2] = { -1, -1 };
	if (ends[0] < 0 && pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
		return false;
	}
	ssize_t put = write(ends[1], from, length);
	return put > 0 && read(ends[0], to, (size_t)put) == put && (size_t)put == length;
}

/*
 * Reads another process, or this one; false if it is not allowed or not all of the memory is mapped. At most PIPE_BUF
 * bytes.
 */
static bool read_memory(pid_t pid, const void *from, void *to, size_t length)
{
	if (pid == getpid()) {
		return read_own(from, to, length);
	}
	struct iovec here = { to, length }, there = { (void *)(uintptr_t)from, length };
	return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)length;
}

/* Reads a zend_string: its bytes, cut off at `room`. */
static bool read_string(pid_t pid, const zend_string *from, char *to, size_t room, size_t *length)
{
	if (!from || !read_memory(pid, &from->len, length, sizeof *length) || *length == 0 || *length > 1u << 20) {
		return false;
	}
	*length = MIN(*length, room);
	return read_memory(pid, from->val, to, *length);
}

static bool put_string(struct text *text, pid_t pid, const zend_string *from)
{
	char name[NAME_BYTES];
	size_t length;
	if (!read_string(pid, from, name, sizeof name, &length)) {
		return false;
	}
	text_foreign(text, name, length);
	return true;
}

/* ---- PHP's frames ---- */

/* Appends the class of a method and "::". */
static void put_scope(struct text *text, pid_t pid, const zend_class_entry *scope)
{
	zend_string *name;
	if (scope && read_memory(pid, &scope->name, &name, sizeof name) && put_string(text, pid, name)) {
		text_put(text, "::");
	}
}

/* Appends file and line of a frame of PHP code. */
static void put_place(struct text *text, pid_t pid, const zend_op_array *code, const zend_op *opline)
{
	zend_string *file;
	zend_op *first;
	uint32_t count, line;
	if (!read_memory(pid, &code->filename, &file, sizeof file)) {
		return;
	}
	text_put(text, " in ");
	if (!put_string(text, pid, file)) {
		text_put(text, "?");
	}
	/* Not in the code: an exception is being handled, or the memory is rubbish. */
	if (read_memory(pid, &code->opcodes, &first, sizeof first) && read_memory(pid, &code->last, &count, sizeof count)
		&& opline >= first && opline < first + count && read_memory(pid, &opline->lineno, &line, sizeof line)) {
		text_put(text, ":");
		text_number(text, line);
	}
}

/* Appends one frame as a line, and tells whether it is one of PHP code; false if it cannot be read. */
static bool put_frame(struct text *text, pid_t pid, const zend_execute_data *frame, unsigned number, bool *is_code)
{
	uint8_t type;
	zend_string *name;
	zend_class_entry *scope;
	const zend_function *function = frame->func;
	if (!read_memory(pid, &function->type, &type, sizeof type)
		|| !read_memory(pid, &function->common.function_name, &name, sizeof name)
		|| !read_memory(pid, &function->common.scope, &scope, sizeof scope)) {
		return false;
	}
	text_put(text, "\n#");
	text_number(text, number);
	text_put(text, " ");
	if (name) {
		put_scope(text, pid, scope);
		text_put(text, put_string(text, pid, name) ? "()" : "?");
	} else {
		text_put(text, frame->prev_execute_data ? "include" : "{main}");
	}
	*is_code = ZEND_USER_CODE(type);
	if (*is_code) {
		put_place(text, pid, &function->op_array, frame->opline);
	}
	return true;
}

/* Appends the frames from `at` outwards; true if they end where a script or a callback of PHP begins. */
static bool put_frames(struct text *text, pid_t pid, const zend_execute_data *at)
{
	unsigned number = 0;
	bool ends_in_code = false;
	/* Frames without a function, which PHP puts between others, count too: a circle must end. */
	for (unsigned seen = 0; at && seen < 2 * FRAMES; seen++) {
		zend_execute_data frame;
		if (!read_memory(pid, at, &frame, sizeof frame)) {
			return false;
		}
		if (frame.func) {
			if (number == FRAMES) {
				text_put(text, "\n...");
				return true;
			}
			if (!put_frame(text, pid, &frame, number++, &ends_in_code)) {
				return false;
			}
		}
		at = frame.prev_execute_data;
	}
	return ends_in_code;
}

/*
 * Appends the PHP frames of a process, the innermost first, each on a line of its own that begins with a line break.
 * Appends nothing if the process runs no PHP code or its memory may not be read. A script runs on while it is read, and its
 * innermost frame may be gone before the next one is read: then the function starts again, a limited number of times.
 */
void trace_frames(struct text *text, pid_t pid)
{
	const size_t begin = text->length;
	for (unsigned tries = pid == getpid() ? 1 : 16; tries; tries--) {
		const zend_execute_data *at = NULL;
		text->length = begin;
		if (!read_memory(pid, &EG(current_execute_data), &at, sizeof at) || put_frames(text, pid, at)) {
			return;
		}
	}
}

/* ---- what it waits for ---- */

/* System calls in which PHP waits, and the kind of their first argument. */
enum first { NOTHING, DESCRIPTOR, POLLED };
static const struct { long number; const char *name; enum first first; } calls[] = {
	{ SYS_read, "read", DESCRIPTOR },
	{ SYS_readv, "readv", DESCRIPTOR },
	{ SYS_pread64, "pread", DESCRIPTOR },
	{ SYS_write, "write", DESCRIPTOR },
	{ SYS_writev, "writev", DESCRIPTOR },
	{ SYS_recvfrom, "recv", DESCRIPTOR },
	{ SYS_recvmsg, "recvmsg", DESCRIPTOR },
	{ SYS_sendto, "send", DESCRIPTOR },
	{ SYS_sendmsg, "sendmsg", DESCRIPTOR },
	{ SYS_connect, "connect", DESCRIPTOR },
	{ SYS_accept, "accept", DESCRIPTOR },
	{ SYS_flock, "flock", DESCRIPTOR },
	{ SYS_fcntl, "fcntl", DESCRIPTOR },
	{ SYS_fsync, "fsync", DESCRIPTOR },
	{ SYS_fdatasync, "fdatasync", DESCRIPTOR },
#ifdef SYS_poll
	{ SYS_poll, "poll", POLLED },
	{ SYS_select, "select", NOTHING },
	{ SYS_epoll_wait, "epoll_wait", DESCRIPTOR },
#endif
	{ SYS_ppoll, "ppoll", POLLED },
	{ SYS_pselect6, "select", NOTHING },
	{ SYS_epoll_pwait, "epoll_wait", DESCRIPTOR },
	{ SYS_nanosleep, "sleep", NOTHING },
	{ SYS_clock_nanosleep, "sleep", NOTHING },
	{ SYS_wait4, "wait", NOTHING },
	{ SYS_waitid, "wait", NOTHING },
	{ SYS_futex, "futex", NOTHING },
	{ SYS_semop, "semop", NOTHING },
	{ SYS_semtimedop, "semop", NOTHING },
	{ SYS_msgrcv, "msgrcv", NOTHING },
	{ SYS_openat, "open", NOTHING },
};

/*
 * Finds the system call that a process is in: returns its index in `calls`, or -1 if it is in another one or none; `name`
 * is then the text for that case, or NULL. Also finds the descriptor that it waits for, or -1.
 */
static int find_call(pid_t pid, const char **name, int *descriptor)
{
	char text[256];
	long number;
	unsigned long arguments[2];
	*name = NULL;
	*descriptor = -1;
	programs_read(pid, "syscall", text, sizeof text);
	if (strncmp(text, "running", 7) == 0) {
		*name = "running";
		return -1;
	}
	if (sscanf(text, "%ld %lx %lx", &number, &arguments[0], &arguments[1]) != 3) {
		return -1;
	}
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		if (calls[i].number != number) {
			continue;
		}
		struct pollfd polled;
		if (calls[i].first == DESCRIPTOR) {
			*descriptor = (int)arguments[0];
		} else if (calls[i].first == POLLED && arguments[1]
			&& read_memory(pid, (const void *)(uintptr_t)arguments[0], &polled, sizeof polled)) {
			*descriptor = polled.fd;
		}
		*name = calls[i].name;
		return (int)i;
	}
	return -1;
}

/* Appends the address of a socket's other end, or its own if it listens. */
static bool put_peer(struct text *text, int socket)
{
	union {
		struct sockaddr any;
		struct sockaddr_un local;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} peer;
	char words[INET6_ADDRSTRLEN];
	socklen_t length = sizeof peer;
	memset(&peer, 0, sizeof peer);
	if (getpeername(socket, &peer.any, &length) != 0) {
		return false;
	}
	if (peer.any.sa_family == AF_UNIX && peer.local.sun_path[0]) {
		text_foreign(text, peer.local.sun_path, strnlen(peer.local.sun_path, sizeof peer.local.sun_path));
	} else if (peer.any.sa_family == AF_INET && inet_ntop(AF_INET, &peer.in.sin_addr, words, sizeof words)) {
		text_put(text, words);
		text_put(text, ":");
		text_number(text, ntohs(peer.in.sin_port));
	} else if (peer.any.sa_family == AF_INET6 && inet_ntop(AF_INET6, &peer.in6.sin6_addr, words, sizeof words)) {
		text_put(text, "[");
		text_put(text, words);
		text_put(text, "]:");
		text_number(text, ntohs(peer.in6.sin6_port));
	} else {
		return false;
	}
	return true;
}

/* The socket to the server of a worker of this host, or -1. */
static int server_socket(pid_t pid)
{
	const struct worker *its;
	int socket;
	return read_memory(pid, &worker, &its, sizeof its) && its && read_memory(pid, &its->socket, &socket, sizeof socket)
		? socket : -1;
}

/* Appends what a descriptor of a process is. */
static void put_descriptor(struct text *text, pid_t pid, int descriptor)
{
	char path[64], target[NAME_BYTES];
	if (descriptor == server_socket(pid)) {
		text_put(text, "its client");
		return;
	}
	int process = (int)syscall(SYS_pidfd_open, pid, 0);
	int copy = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, descriptor, 0);
	bool told = copy >= 0 && put_peer(text, copy);
	if (copy >= 0) {
		close(copy);
	}
	if (process >= 0) {
		close(process);
	}
	if (told) {
		return;
	}
	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, descriptor);
	ssize_t length = readlink(path, target, sizeof target);
	if (length > 0) {
		text_foreign(text, target, (size_t)length);
	} else {
		text_put(text, "descriptor ");
		text_number(text, (uint64_t)descriptor);
	}
}

/* Appends what a worker of this host waits for: "recv() for 127.0.0.1:3306"; "running"; nothing if it is unknown. */
void trace_waiting(struct text *text, pid_t pid)
{
	const char *name;
	int descriptor, call = find_call(pid, &name, &descriptor);
	if (!name) {
		return;
	}
	text_put(text, name);
	if (call >= 0) {
		text_put(text, "()");
	}
	if (descriptor >= 0) {
		text_put(text, " for ");
		put_descriptor(text, pid, descriptor);
	}
}

/*
 * The time of the worker's request is up, but it is in a call that PHP restarts after a signal. Sends another signal with
 * the descriptor that the worker waits for; the worker's handler shuts it down if it is a socket.
 */
void trace_let_go(pid_t pid)
{
	const char *name;
	int descriptor;
	find_call(pid, &name, &descriptor);
	sigqueue(pid, SIGURG, (union sigval){ .sival_int = descriptor });
}
