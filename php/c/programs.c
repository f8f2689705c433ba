/*
 * The programs that a worker waits for in exec(), popen() or proc_open(). They end with the request's time limit, too:
 * otherwise the worker, which reads their output or waits for their end, could only be killed, without its shutdown
 * functions, and they would run on without a receiver. Programs that a script started in the background are not touched:
 * "command &" is no longer a child of its worker, and a program of an earlier request is older than this request.
 */
#include "worker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Maximum number of a worker's processes that are ended at once. */
#define MOST 256

/* The text of a small file of a process in /proc; empty if it can't be read. */
const char *programs_read(pid_t pid, const char *name, char *text, size_t room)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, room - 1);
	if (fd >= 0) {
		close(fd);
	}
	text[got > 0 ? got : 0] = 0;
	return text;
}

/* Adds the children of a process to the list; returns the new length. */
static size_t add_children(pid_t of, pid_t *list, size_t count)
{
	char name[48], text[4096], *at = text, *end;
	snprintf(name, sizeof name, "task/%d/children", (int)of);
	programs_read(of, name, text, sizeof text);
	while (count < MOST) {
		long pid = strtol(at, &end, 10);
		if (end == at || pid <= 1) {
			break;
		}
		list[count++] = (pid_t)pid;
		at = end;
	}
	return count;
}

/* Age of a process in milliseconds; 0 if it is unknown. */
static uint64_t age(pid_t pid)
{
	char text[1024];
	struct timespec now;
	programs_read(pid, "stat", text, sizeof text);
	/* Field 22 is the start time; field 2, the name in parentheses, may contain any characters. */
	char *at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++) {
		at = strchr(at + 1, ' ');
	}
	if (!at || clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
		return 0;
	}
	uint64_t began = strtoull(at, NULL, 10) * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 - began;
}

/*
 * Sends a signal to the programs that a worker has started in the last `within` milliseconds, and to their children. It
 * finds all of them first: a shell that ends leaves its children.
 */
void programs_end(pid_t worker, uint64_t within, int signal)
{
	pid_t list[MOST];
	size_t all = add_children(worker, list, 0), count = 0;
	for (size_t i = 0; i < all; i++) {
		/* The kernel counts start times of processes in hundredths of a second. */
		if (age(list[i]) <= within + 20) {
			list[count++] = list[i];
		}
	}
	for (size_t i = 0; i < count; i++) {
		count = add_children(list[i], list, count);
	}
	for (size_t i = 0; i < count; i++) {
		kill(list[i], signal);
	}
}
