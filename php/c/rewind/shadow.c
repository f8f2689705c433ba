/*
 * Only in builds with AddressSanitizer (MILLRACE_ASAN=1). Each byte of its shadow says which of eight bytes of memory may be used. The
 * shadow spans terabytes, so it is not part of the image: only the shadow of the image's ranges is kept here, and put back after them.
 * Everything else that the sanitizer keeps is ordinary private memory.
 */
#include "rewind.h"

#if defined(__SANITIZE_ADDRESS__) && defined(__x86_64__)

#include <sys/mman.h>

/* compiler-rt's lib/asan/asan_mapping.h, for x86-64: low shadow, gap and high shadow. */
#define SHADOW UINT64_C(0x7fff8000)
#define SHADOW_END UINT64_C(0x10007fff8000)

static struct shadow {
	char *copy;
	size_t bytes;
} *shadow;

static char *of(uintptr_t address)
{
	return (char *)(SHADOW + (address >> 3));
}

/* As memcpy and memcmp, but without the sanitizer's checks: they copy and compare redzones, too. */
void bytes_copy(void *to, const void *from, size_t bytes)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

int bytes_differ(const void *one, const void *other, size_t bytes)
{
	unsigned char differ;
	__asm__ volatile("cmp %%rcx, %%rcx\n\trepe cmpsb\n\tsetne %0" : "=q"(differ), "+D"(one), "+S"(other), "+c"(bytes) : : "memory", "cc");
	return differ;
}

/* The shadow itself is no part of an image. */
bool shadow_open(void)
{
	shadow = room_take(sizeof *shadow);
	room_add(SHADOW, SHADOW_END - SHADOW);
	return shadow;
}

/* Room for the copy. */
static bool make_room(size_t bytes)
{
	if (bytes <= shadow->bytes) {
		return true;
	}
	if (shadow->copy) {
		room_remove((uintptr_t)shadow->copy);
		munmap(shadow->copy, shadow->bytes);
	}
	char *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	shadow->copy = copy == MAP_FAILED ? NULL : copy;
	shadow->bytes = shadow->copy ? bytes : 0;
	if (shadow->copy) {
		room_add((uintptr_t)copy, bytes);
	}
	return shadow->copy;
}

/* Keeps the shadow of all ranges; false: there is no memory. */
bool shadow_take(const struct ranges *ranges)
{
	size_t bytes = 0, at = 0;
	for (size_t i = 0; i < ranges->count; i++) {
		bytes += is_saved(&ranges->all[i]) ? (ranges->all[i].end - ranges->all[i].start) / 8 : 0;
	}
	if (!make_room((bytes + PAGE - 1) & ~(size_t)(PAGE - 1))) {
		return false;
	}
	for (size_t i = 0; i < ranges->count; i++) {
		const struct range *range = &ranges->all[i];
		if (is_saved(range)) {
			bytes_copy(shadow->copy + at, of(range->start), (range->end - range->start) / 8);
			at += (range->end - range->start) / 8;
		}
	}
	return true;
}

void shadow_put(const struct ranges *ranges)
{
	size_t at = 0;
	for (size_t i = 0; i < ranges->count; i++) {
		const struct range *range = &ranges->all[i];
		if (is_saved(range)) {
			bytes_copy(of(range->start), shadow->copy + at, (range->end - range->start) / 8);
			at += (range->end - range->start) / 8;
		}
	}
}
#endif
