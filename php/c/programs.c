/*
 * The programs that a worker waits for, by exec(), popen() or proc_open(). When the time of its request is up they are
 * ended, too: otherwise the worker, which reads what they print or waits for their end, could only be killed, without its
 * shutdown functions, and they would go on for nobody. What a script has started in the background is left alone:
 * "command &" is no child of its worker any more, and what an earlier request has left behind is older than this one.
 */
#include "worker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Most processes of one worker that are ended at once. */
#define MOST 256

/* Adds the children of a process to the list; how many there are now. */
static size_t add_children(pid_t of, pid_t *list, size_t count)
{
	char path[64], text[4096], *at = text, *end;
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)of, (int)of);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (fd >= 0) {
		close(fd);
	}
	text[got > 0 ? got : 0] = 0;
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

/* How old a process is, milliseconds; 0 if it is not known. */
static uint64_t age(pid_t pid)
{
	char path[64], text[1024];
	struct timespec now;
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (fd >= 0) {
		close(fd);
	}
	text[got > 0 ? got : 0] = 0;
	/* Field 22 is when it began; field 2, its name in parentheses, may hold anything. */
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
 * Sends a signal to the programs that a worker has started in the last so many milliseconds, and to theirs. All are found
 * first: a shell that ends leaves its children.
 */
void programs_end(pid_t worker, uint64_t within, int signal)
{
	pid_t list[MOST];
	size_t all = add_children(worker, list, 0), count = 0;
	for (size_t i = 0; i < all; i++) {
		/* Times of processes are counted in hundredths of a second. */
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
