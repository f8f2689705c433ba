/*
 * Functions of the C library that libraries take from the program instead, since it exports them (build.rs): they note whether
 * mappings are other ones than before. A mapping that is made and unmapped as a whole leaves the others as they were: PHP reads files in this
 * way.
 */
#include "replaced.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static uintptr_t end_of(const void *start, size_t length)
{
	return ((uintptr_t)start + length + 4095) & ~(uintptr_t)4095;
}

/* A mapping that was made since; NULL: another one, or a part of one. */
static struct mapping *find(const void *start, size_t length)
{
	for (unsigned i = 0; i < MAPPINGS_MOST; i++) {
		struct mapping *one = &maps_changes.made[i];
		if (one->start && one->start == (uintptr_t)start && one->end == end_of(start, length)) {
			return one;
		}
	}
	return NULL;
}

static void note(const void *start, size_t length)
{
	for (unsigned i = 0; i < MAPPINGS_MOST; i++) {
		struct mapping *one = &maps_changes.made[i];
		if (!one->start) {
			*one = (struct mapping){ (uintptr_t)start, end_of(start, length) };
			maps_changes.count++;
			return;
		}
	}
	maps_changes.others = true;
}

void *mmap(void *start, size_t length, int protection, int flags, int descriptor, off_t offset)
{
	void *lent = start ? NULL : chunks_lend(length, protection, flags);
	if (lent) {
		return lent;
	}
	void *mapped = (void *)syscall(SYS_mmap, start, length, protection, flags, descriptor, offset);
	if (flags & MAP_FIXED) {
		maps_changes.others = true;
	} else if (mapped != MAP_FAILED) {
		note(mapped, length);
	}
	return mapped;
}

void *mmap64(void *start, size_t length, int protection, int flags, int descriptor, off64_t offset)
{
	return mmap(start, length, protection, flags, descriptor, offset);
}

int munmap(void *start, size_t length)
{
	if (chunks_take_back(start, length)) {
		return 0;
	}
	struct mapping *one = find(start, length);
	if (one) {
		one->start = 0;
		maps_changes.count--;
	} else {
		maps_changes.others = true;
	}
	return (int)syscall(SYS_munmap, start, length);
}

int mprotect(void *start, size_t length, int protection)
{
	maps_changes.others = true;
	return (int)syscall(SYS_mprotect, start, length, protection);
}

void *mremap(void *start, size_t old_length, size_t length, int flags, ...)
{
	va_list more;
	va_start(more, flags);
	void *place = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
	va_end(more);
	maps_changes.others = true;
	return (void *)syscall(SYS_mremap, start, old_length, length, flags, place);
}
