/* Functions of the C library that libraries take from the program instead, since it exports them (build.rs): they count (maps.c). */
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern uint64_t maps_changes;

void *mmap(void *start, size_t length, int protection, int flags, int descriptor, off_t offset)
{
	maps_changes++;
	return (void *)syscall(SYS_mmap, start, length, protection, flags, descriptor, offset);
}

void *mmap64(void *start, size_t length, int protection, int flags, int descriptor, off64_t offset)
{
	return mmap(start, length, protection, flags, descriptor, offset);
}

int munmap(void *start, size_t length)
{
	maps_changes++;
	return (int)syscall(SYS_munmap, start, length);
}

int mprotect(void *start, size_t length, int protection)
{
	maps_changes++;
	return (int)syscall(SYS_mprotect, start, length, protection);
}

void *mremap(void *start, size_t old_length, size_t length, int flags, ...)
{
	va_list more;
	va_start(more, flags);
	void *place = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
	va_end(more);
	maps_changes++;
	return (void *)syscall(SYS_mremap, start, old_length, length, flags, place);
}
