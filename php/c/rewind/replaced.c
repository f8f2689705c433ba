/*
 * Functions of the C library that libraries take from the program instead, since it exports them (build.rs): they note whether
 * mappings are other ones than before. A mapping that is made and unmapped as a whole leaves the others as they were: PHP reads files in this
 * way. A thread that a library has started - to look up a name, for example - may call them at the same time: of it is only noted that it did.
 */
#include "replaced.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern size_t rewind_page;

static uintptr_t end_of(const void *start, size_t length)
{
	return ((uintptr_t)start + length + rewind_page - 1) & ~(uintptr_t)(rewind_page - 1);
}

static bool is_of_php(void)
{
	return pthread_equal(pthread_self(), maps_changes.thread);
}

static void note_others(void)
{
	__atomic_store_n(&maps_changes.others, true, __ATOMIC_RELAXED);
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
	note_others();
}

void *mmap(void *start, size_t length, int protection, int flags, int descriptor, off_t offset)
{
	bool is_noted = is_of_php();
	void *lent = start || !is_noted ? NULL : chunks_lend(length, protection, flags);
	if (lent) {
		return lent;
	}
	void *mapped = (void *)syscall(SYS_mmap, start, length, protection, flags, descriptor, offset);
	if ((flags & MAP_FIXED) || !is_noted) {
		note_others();
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
	bool is_noted = is_of_php();
	if (is_noted && chunks_take_back(start, length)) {
		return 0;
	}
	struct mapping *one = is_noted ? find(start, length) : NULL;
	if (one) {
		one->start = 0;
		maps_changes.count--;
	} else {
		note_others();
	}
	return (int)syscall(SYS_munmap, start, length);
}

int mprotect(void *start, size_t length, int protection)
{
	note_others();
	return (int)syscall(SYS_mprotect, start, length, protection);
}

void *mremap(void *start, size_t old_length, size_t length, int flags, ...)
{
	va_list more;
	va_start(more, flags);
	void *place = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
	va_end(more);
	note_others();
	return (void *)syscall(SYS_mremap, start, old_length, length, flags, place);
}
