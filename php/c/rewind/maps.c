/*
 * Which memory the process has: /proc/self/maps (proc_pid_maps(5)), read without malloc and stdio.
 *
 * PHP with its libraries has several hundred mappings, and to read them takes longer than all the rest of putting memory back. Most requests
 * change none. So the functions that change mappings are replaced, for the program and its libraries, by ones that note it (replaced.c); the C library's own
 * calls change the size of all mappings together, or the end of the heap, since malloc() takes memory from there.
 */
#include "replaced.h"
#include "rewind.h"

#include <fcntl.h>
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TEXT_BYTES (512u << 10)

/* malloc() maps a block of this size by itself, and finds a smaller one in the heap: the most that glibc takes (HEAP_MAX_SIZE / 2). */
#define MALLOC_MAPS (32 << 20)

static struct maps {
	int descriptor, size;
	uint64_t bytes;
	bool counts; /* all changes are noted */
	char text[TEXT_BYTES];
} *maps;

/* ---- changes ---- */

struct maps_changes maps_changes;

/* The size of all mappings together, in pages (statm in proc_pid_statm(5)); 0: the kernel does not say. */
static uint64_t size_of_all(void)
{
	char text[64];
	ssize_t got = pread(maps->size, text, sizeof text - 1, 0);
	uint64_t pages = 0;
	for (ssize_t i = 0; i < got && text[i] >= '0' && text[i] <= '9'; i++) {
		pages = pages * 10 + (uint64_t)(text[i] - '0');
	}
	return pages;
}

/* At the point, on PHP's stack. */
void maps_prepare(void)
{
#ifdef __SANITIZE_ADDRESS__
	maps->counts = false; /* it replaces the same functions */
#else
	/* A block that malloc() has mapped may give its place to another one of its size. */
	maps->counts = mallinfo2().hblks == 0;
#endif
}

/* The image has the mappings that there are now: changes are noted from here on. */
void maps_remember(void)
{
	memset(&maps_changes, 0, sizeof maps_changes);
	maps_changes.thread = pthread_self();
	maps->bytes = size_of_all();
}

/* Whether they may be others since. */
bool maps_have_changed(void)
{
	bool are_noted = maps_changes.others || maps_changes.count > 0;
	return !maps->counts || are_noted || !maps->bytes || maps->bytes != size_of_all();
}

/* ---- the list ---- */

/* Before PHP starts. */
void rewind_prepare_malloc(void)
{
	mallopt(M_MMAP_THRESHOLD, MALLOC_MAPS);
}

bool maps_open(void)
{
	maps = room_take(sizeof *maps);
	if (maps) {
		maps->descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
		maps->size = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	}
	return maps && maps->descriptor >= 0 && maps->size >= 0;
}

/* Reads a number of that base, and what ends it. */
static uint64_t number(const char **at, unsigned base)
{
	uint64_t value = 0;
	for (;; (*at)++) {
		unsigned digit = **at >= '0' && **at <= '9' ? (unsigned)(**at - '0')
			: **at >= 'a' && **at <= 'f' ? (unsigned)(**at - 'a' + 10) : base;
		if (digit >= base) {
			break;
		}
		value = value * base + digit;
	}
	(*at)++;
	return value;
}

/* One line; false: what it describes cannot be part of the map (vsyscall). */
static bool read_line(const char **at, struct range *range)
{
	range->start = number(at, 16);
	range->end = number(at, 16);
	const char *letters = *at;
	range->protection = (uint8_t)((letters[0] == 'r' ? PROT_READ : 0) | (letters[1] == 'w' ? PROT_WRITE : 0)
		| (letters[2] == 'x' ? PROT_EXEC : 0));
	range->shared = letters[3] == 's';
	*at += 5;
	number(at, 16);
	range->device = number(at, 16) << 32;
	range->device |= number(at, 16);
	range->inode = number(at, 10);
	range->anonymous = range->inode == 0;
	while (**at && **at != '\n') {
		(*at)++;
	}
	*at += **at == '\n';
	return range->start < (uintptr_t)1 << 63;
}

/* Adds a range without what is ours of it; false: there is no room. */
static bool add(struct ranges *ranges, struct range range)
{
	while (range.start < range.end) {
		uintptr_t first = range.end, behind = range.end, start, end;
		for (size_t i = 0; room_is_ours(&start, &end, i); i++) {
			if (start < end && end > range.start && start < first) {
				first = start > range.start ? start : range.start;
				behind = end;
			}
		}
		if (first > range.start) {
			if (ranges->count == RANGES_MOST) {
				return false;
			}
			ranges->all[ranges->count] = range;
			ranges->all[ranges->count++].end = first;
		}
		range.start = behind > range.start ? behind : range.end;
	}
	return true;
}

/* Reads them in the order of their addresses; false: the kernel does not say, or there are too many. */
bool maps_read(struct ranges *ranges)
{
	size_t length = 0;
	ssize_t got;
	ranges->count = 0;
	if (lseek(maps->descriptor, 0, SEEK_SET) != 0) {
		return false;
	}
	while (length < TEXT_BYTES - 1 && (got = read(maps->descriptor, maps->text + length, TEXT_BYTES - 1 - length)) > 0) {
		length += (size_t)got;
	}
	if (length == 0 || length == TEXT_BYTES - 1) {
		return false;
	}
	maps->text[length] = 0;
	for (const char *at = maps->text; *at;) {
		struct range range;
		if (read_line(&at, &range) && !add(ranges, range)) {
			return false;
		}
	}
	return true;
}
