/*
 * mail() from inside the sandbox. Programs that hand mail to the system - Postfix's postdrop, Exim - need privileges or
 * folders that a worker's children don't have. So PHP's sendmail_path names this program, which passes its input to the
 * host, and the host runs the original sendmail_path.
 *
 *   worker ── popen ──> millrace-php --sendmail NAME [arguments] ── arguments, stdin, stderr ──> host ── fork, exec ──> sendmail
 *                                    exits with that status  <──────────── status ──────────────
 *
 * The host accepts only arguments that name sender and recipients: with others, some of these programs run commands.
 */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <syslog.h>
#include <unistd.h>

#define MESSAGE_BYTES 4096
#define WORDS 64
#define SECONDS 60

static char *command; /* the original sendmail_path */

static socklen_t address(struct sockaddr_un *to, const char *name)
{
	*to = (struct sockaddr_un){ .sun_family = AF_UNIX };
	/* An abstract name: the leading byte is NUL. */
	size_t length = MIN(strlen(name), sizeof to->sun_path - 2);
	memcpy(to->sun_path + 1, name, length);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

/* ---- the program that PHP starts ---- */

/* `millrace-php --sendmail NAME ...`: an exit status of sendmail's (sysexits.h). */
int mail_hand_over(const char *name, int argc, char **argv)
{
	char bytes[MESSAGE_BYTES];
	size_t length = 0;
	for (int i = 0; i < argc; i++) {
		size_t more = strlen(argv[i]) + 1;
		if (more > sizeof bytes - length) {
			return EX_USAGE;
		}
		memcpy(bytes + length, argv[i], more);
		length += more;
	}
	struct sockaddr_un to;
	socklen_t to_length = address(&to, name);
	int host = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (host < 0 || connect(host, (struct sockaddr *)&to, to_length) != 0) {
		fprintf(stderr, "cannot pass mail to the PHP host: %s\n", strerror(errno));
		return EX_TEMPFAIL;
	}
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control = { 0 };
	struct iovec part = { length ? bytes : "", length ? length : 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(2 * sizeof(int));
	memcpy(CMSG_DATA(rights), (int[]){ STDIN_FILENO, STDERR_FILENO }, 2 * sizeof(int));
	int status = EX_TEMPFAIL;
	if (sendmsg(host, &message, MSG_NOSIGNAL) < 0 || recv(host, &status, sizeof status, 0) != sizeof status) {
		return EX_TEMPFAIL;
	}
	return status;
}

/* ---- the host ---- */

/*
 * Accepts -t -i -oi -ti, -f and -r (the sender), -F (the sender's name), each with its value attached or as the next word,
 * and addresses. The program itself takes all words after those for addresses.
 */
static bool is_harmless(const char *const *words)
{
	static const char *const plain[] = { "-t", "-i", "-oi", "-ti", "-it", "--" };
	for (; *words; words++) {
		bool known = **words != '-';
		for (size_t i = 0; !known && i < sizeof plain / sizeof *plain; i++) {
			known = strcmp(*words, plain[i]) == 0;
		}
		if (!known && strlen(*words) >= 2 && strchr("frF", (*words)[1])) {
			known = true;
			if (!(*words)[2] && words[1] && *words[1] != '-') {
				words++;
			}
		}
		if (!known) {
			return false;
		}
	}
	return true;
}

/* The words of a message, behind the three that `sh -c` needs. */
static bool split(char *bytes, size_t length, const char **words)
{
	size_t count = 0;
	for (size_t at = 0; at < length && bytes[0]; at += strlen(bytes + at) + 1) {
		if (count == WORDS) {
			return false;
		}
		words[count++] = bytes + at;
	}
	words[count] = NULL;
	return true;
}

static void refuse(int log, const char *const *words)
{
	dprintf(log, "sendmail: Millrace's sandbox does not allow these arguments:");
	for (; *words; words++) {
		dprintf(log, " %s", *words);
	}
	dprintf(log, "; see php.sandbox\n");
}

/* In a child of the host: runs the program for one connection; returns its exit status. */
static int run(char *bytes, size_t length, const int *given)
{
	const char *words[WORDS + 5] = { "sh", "-c", NULL, "sendmail" };
	char *script = NULL;
	if (!split(bytes, length, words + 4)) {
		return EX_USAGE;
	}
	if (!is_harmless(words + 4)) {
		refuse(given[1], words + 4);
		return EX_USAGE;
	}
	if (asprintf(&script, "exec %s \"$@\"", command) < 0) {
		return EX_OSERR;
	}
	words[2] = script;
	pid_t child = fork();
	if (child == 0) {
		dup2(given[0], STDIN_FILENO);
		dup2(given[1], STDERR_FILENO);
		close_range(STDERR_FILENO + 1, ~0u, 0);
		signal(SIGPIPE, SIG_DFL);
		execv("/bin/sh", (char **)(uintptr_t)words);
		_exit(EX_OSERR);
	}
	int status;
	if (child < 0 || waitpid(child, &status, 0) != child) {
		return EX_OSERR;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : EX_SOFTWARE;
}

static bool is_ours(int client)
{
	struct ucred peer;
	socklen_t length = sizeof peer;
	return getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

/* In a child of the host: serves one connection. */
static ZEND_NORETURN void serve(int client)
{
	char bytes[MESSAGE_BYTES + 1];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec part = { bytes, MESSAGE_BYTES };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	alarm(SECONDS);
	ssize_t got = recvmsg(client, &message, MSG_CMSG_CLOEXEC);
	struct cmsghdr *rights = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	int given[2], status = EX_PROTOCOL;
	if (rights && rights->cmsg_type == SCM_RIGHTS && rights->cmsg_len == CMSG_LEN(sizeof given)) {
		memcpy(given, CMSG_DATA(rights), sizeof given);
		bytes[got] = 0;
		status = run(bytes, (size_t)got, given);
	}
	send(client, &status, sizeof status, MSG_NOSIGNAL);
	_exit(0);
}

/* A connection waits: forks a child that serves it. */
void mail_accept(int listener)
{
	int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (client >= 0 && is_ours(client) && fork() == 0) {
		serve(client);
	}
	if (client >= 0) {
		close(client);
	}
}

/*
 * Makes this program PHP's sendmail_path. Returns the listening socket, or -1 if mail() needs no help or there is no such
 * program.
 */
int mail_listen(void)
{
	const char *path = zend_ini_string_ex("sendmail_path", sizeof "sendmail_path" - 1, 0, NULL);
	char program[64], self[PATH_MAX], name[64], text[PATH_MAX + 128];
	uint64_t random;
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	if (!(options.sandbox || options.no_new_privileges) || !path || sscanf(path, "%63s", program) != 1 || *program != '/'
		|| access(program, X_OK) != 0 || length <= 0 || getrandom(&random, sizeof random, 0) != sizeof random) {
		return -1;
	}
	self[length] = 0;
	snprintf(name, sizeof name, "millrace-mail-%d-%016llx", (int)getpid(), (unsigned long long)random);
	snprintf(text, sizeof text, "%s --sendmail %s", self, name);
	struct sockaddr_un at;
	socklen_t at_length = address(&at, name);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char *arguments = strdup(path);
	if (listener < 0 || bind(listener, (struct sockaddr *)&at, at_length) != 0 || listen(listener, 16) != 0 || !arguments
		|| !ini_set_for_good("sendmail_path", text)) {
		if (listener >= 0) {
			close(listener);
		}
		return -1;
	}
	command = arguments;
	return listener;
}
