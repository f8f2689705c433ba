/* Which memory the process has: /proc/self/maps (proc_pid_maps(5)), read without malloc and stdio. */
#include "rewind.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TEXT_BYTES (512u << 10)

static struct maps {
	int descriptor;
	char text[TEXT_BYTES];
} *maps;

bool maps_open(void)
{
	maps = room_take(sizeof *maps);
	if (maps) {
		maps->descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	}
	return maps && maps->descriptor >= 0;
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
