/*
 * What the kernel keeps for the process: descriptors, working directory, umask, signals, timers, children. At the point no more
 * may be open than what the worker itself holds when it is idle, except for files that are only read: so what a request does
 * to a connection, to a lock or to a file's content never has to be put back.
 */
#include "rewind.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define DESCRIPTORS_MOST 256
#define SIGNALS 65
/* Copies have numbers from here on: scripts and libraries use low ones. */
#define COPIES 512

struct descriptor {
	int number, flags;
	int copy; /* another number for the same file, in case a request closes this one; 0: none */
	dev_t device;
	ino_t inode;
	mode_t mode;
	off_t offset;
};

struct descriptors {
	size_t count;
	struct descriptor all[DESCRIPTORS_MOST];
};

static struct kernel {
	int list;                       /* /proc/self/fd */
	int directory;                  /* the working directory at the point */
	mode_t mask;
	struct sigaction actions[SIGNALS];
	struct descriptors idle, then, now;
	char entries[16u << 10];
} *kernel;

bool kernel_open(void)
{
	kernel = room_take(sizeof *kernel);
	if (!kernel) {
		return false;
	}
	kernel->list = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* The number is what counts: each image has another directory behind it. */
	kernel->directory = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return kernel->list >= 0 && kernel->directory >= 0;
}

/* ---- descriptors ---- */

struct entry { /* linux_dirent64, getdents(2) */
	uint64_t inode, offset;
	unsigned short length;
	unsigned char type;
	char name[];
};

static void look_at(struct descriptor *one)
{
	struct stat file;
	if (fstat(one->number, &file) != 0) {
		one->mode = 0;
		return;
	}
	one->device = file.st_dev;
	one->inode = file.st_ino;
	one->mode = file.st_mode;
	one->flags = fcntl(one->number, F_GETFL);
	one->offset = S_ISREG(file.st_mode) ? lseek(one->number, 0, SEEK_CUR) : 0;
}

/* All that are open, but for the list itself; `closely`: also what they are. False: there are too many. */
static bool list(struct descriptors *descriptors, bool closely)
{
	long got;
	descriptors->count = 0;
	lseek(kernel->list, 0, SEEK_SET);
	while ((got = syscall(SYS_getdents64, kernel->list, kernel->entries, sizeof kernel->entries)) > 0) {
		for (long at = 0; at < got;) {
			const struct entry *entry = (const void *)(kernel->entries + at);
			at += entry->length;
			if (entry->name[0] < '0' || entry->name[0] > '9') {
				continue;
			}
			struct descriptor one = { .number = 0 };
			for (const char *digit = entry->name; *digit; digit++) {
				one.number = one.number * 10 + *digit - '0';
			}
			if (descriptors->count == DESCRIPTORS_MOST) {
				return false;
			}
			if (closely) {
				look_at(&one);
			}
			descriptors->all[descriptors->count++] = one;
		}
	}
	return got == 0;
}

static const struct descriptor *find(const struct descriptors *descriptors, int number)
{
	for (size_t i = 0; i < descriptors->count; i++) {
		if (descriptors->all[i].number == number) {
			return &descriptors->all[i];
		}
	}
	return NULL;
}

static bool is_same(const struct descriptor *one, const struct descriptor *other)
{
	return one->device == other->device && one->inode == other->inode && one->mode == other->mode;
}

static bool is_of_request(int number)
{
	return number == worker->in_fd || number == worker->request.body_fd;
}

/* What is open while the worker has nothing to do is its own. */
void kernel_remember_idle(void)
{
	list(&kernel->idle, true);
}

/* Whether a number is one of the worker's own: it has the same file while the worker has nothing to do, or is what the request at hand came with. */
static bool is_of_worker(const struct descriptor *one)
{
	const struct descriptor *idle = find(&kernel->idle, one->number);
	return (idle && is_same(idle, one)) || is_of_request(one->number);
}

/* Why the point cannot be here, as far as descriptors are concerned. */
static const char *refuse(const struct descriptors *now)
{
	static char text[120];
	for (size_t i = 0; i < now->count; i++) {
		const struct descriptor *one = &now->all[i];
		if (is_of_worker(one)) {
			continue;
		}
		bool is_file = S_ISREG(one->mode) || S_ISDIR(one->mode);
		if (!is_file || (one->flags & O_ACCMODE) != O_RDONLY) {
			snprintf(text, sizeof text, "a %s is open (descriptor %d): close it before the point, and open it after",
				S_ISSOCK(one->mode) ? "connection" : is_file ? "file that can be written" : "pipe or device", one->number);
			return text;
		}
	}
	return NULL;
}

/* Why the process cannot be put back, or NULL: its other threads would go on. */
static const char *look_for_threads(void)
{
	struct stat tasks;
	bool alone = stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3;
	return alone ? NULL : "a thread runs";
}

/* ---- the image is made ---- */

static bool is_copy(int number)
{
	for (size_t i = 0; i < kernel->then.count; i++) {
		if (kernel->then.all[i].copy && kernel->then.all[i].copy == number) {
			return true;
		}
	}
	return false;
}

/* Those of the last image. */
static void close_copies(void)
{
	for (size_t i = 0; i < kernel->then.count; i++) {
		if (kernel->then.all[i].copy) {
			close(kernel->then.all[i].copy);
		}
	}
	kernel->then.count = 0;
}

/* Of the files that are open to be read: the main script of a point in an included file, for example. */
static void copy_files(void)
{
	for (size_t i = 0; i < kernel->then.count; i++) {
		struct descriptor *one = &kernel->then.all[i];
		if (S_ISREG(one->mode) && !is_of_worker(one)) {
			int copy = fcntl(one->number, F_DUPFD_CLOEXEC, COPIES);
			one->copy = copy > 0 ? copy : 0;
		}
	}
}

/* Keeps what there is; why not, or NULL. Runs on PHP's stack, before the memory is taken. */
const char *kernel_take(void)
{
	close_copies();
	if (!list(&kernel->then, true)) {
		kernel->then.count = 0;
		return "too many descriptors are open";
	}
	const char *why = refuse(&kernel->then);
	if (why) {
		return why;
	}
	copy_files();
	int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (here < 0 || dup3(here, kernel->directory, O_CLOEXEC) < 0) {
		return "the working directory cannot be opened";
	}
	close(here);
	kernel->mask = umask(0);
	umask(kernel->mask);
	for (int signal = 1; signal < SIGNALS; signal++) {
		sigaction(signal, NULL, &kernel->actions[signal]);
	}
	return look_for_threads();
}

/* ---- and put back ---- */

static const char *put_descriptor(const struct descriptor *then)
{
	struct descriptor now = { .number = then->number };
	look_at(&now);
	if (then->number == kernel->directory) {
		return NULL;
	}
	if (!now.mode || !is_same(then, &now)) {
		if (!then->copy || dup3(then->copy, then->number, O_CLOEXEC) < 0) {
			return "a descriptor that was open at the point was closed";
		}
		look_at(&now);
	}
	if (find(&kernel->idle, then->number)) {
		/* Other processes share it: the host, the server. */
		return NULL;
	}
	if (S_ISREG(now.mode) && now.offset != then->offset) {
		lseek(now.number, then->offset, SEEK_SET);
	}
	if (now.flags != then->flags) {
		fcntl(now.number, F_SETFL, then->flags);
	}
	return NULL;
}

static const char *put_descriptors(void)
{
	if (!list(&kernel->now, false)) {
		return "too many descriptors are open";
	}
	for (size_t i = 0; i < kernel->now.count; i++) {
		int number = kernel->now.all[i].number;
		if (!is_of_request(number) && !is_copy(number) && !find(&kernel->then, number)) {
			close(number);
		}
	}
	for (size_t i = 0; i < kernel->then.count; i++) {
		const char *why = put_descriptor(&kernel->then.all[i]);
		if (why) {
			return why;
		}
	}
	return NULL;
}

static void put_signals(void)
{
	for (int signal = 1; signal < SIGNALS; signal++) {
		struct sigaction now;
		const struct sigaction *then = &kernel->actions[signal];
		if (sigaction(signal, NULL, &now) == 0
			&& (now.sa_handler != then->sa_handler || now.sa_flags != then->sa_flags)) {
			sigaction(signal, then, NULL);
		}
	}
}

/* Makes it what it was; why not, or NULL. Runs on the controller's stack. */
const char *kernel_put(void)
{
	static const struct itimerval none;
	const char *why = look_for_threads();
	if (why) {
		return why;
	}
	while (waitpid(-1, NULL, WNOHANG) > 0) {
	}
	setitimer(ITIMER_REAL, &none, NULL);
	setitimer(ITIMER_VIRTUAL, &none, NULL);
	setitimer(ITIMER_PROF, &none, NULL);
	put_signals();
	if (fchdir(kernel->directory) != 0) {
		return "the working directory has gone";
	}
	umask(kernel->mask);
	return put_descriptors();
}
