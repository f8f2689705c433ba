/*
 * Chunks of the Zend heap that requests take behind the point: lent from a region that is no part of the image, since what a request leaves in
 * them is of no use to the next one. So a request maps, clears and unmaps no memory, nothing of it is put back, and
 * the mappings stay those of the image.
 *
 * A chunk that is still in use when its image has ended is an ordinary part of the next one, and so is the whole region then.
 */
#include "replaced.h"
#include "rewind.h"

#include <string.h>
#include <sys/mman.h>

/* ZEND_MM_CHUNK_SIZE */
#define CHUNK_BYTES ((size_t)2 << 20)
#define CHUNKS 16u
/* Chunks that keep their memory from request to request. */
#define CHUNKS_KEPT 8u

static struct chunks {
	char *region;
	uint32_t used; /* a bit for each chunk that is lent */
	uint32_t then; /* the same at the point */
	bool lends;    /* the region is no part of the image at hand */
} *chunks;

/* Before the sandbox closes; the memory is taken when it is written. */
bool chunks_open(void)
{
	struct chunks *made = room_take(sizeof *made);
	size_t bytes = (CHUNKS + 1) * CHUNK_BYTES;
	char *region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!made || region == MAP_FAILED) {
		return false;
	}
	made->region = region + (-(uintptr_t)region & (CHUNK_BYTES - 1));
	chunks = made;
	return true;
}

/* The image is about to be made. */
void chunks_remember(void)
{
	if (chunks->lends) {
		room_remove((uintptr_t)chunks->region);
	}
	chunks->then = chunks->used;
	chunks->lends = chunks->used == 0;
	if (chunks->lends) {
		room_add((uintptr_t)chunks->region, CHUNKS * CHUNK_BYTES);
	}
}

/* Memory is put back. */
void chunks_put(void)
{
	for (uint32_t lent = chunks->used & ~chunks->then; lent; lent &= lent - 1) {
		unsigned at = (unsigned)__builtin_ctz(lent);
		if (at >= CHUNKS_KEPT && madvise(chunks->region + at * CHUNK_BYTES, CHUNK_BYTES, MADV_DONTNEED) != 0) {
			/* It keeps its memory, as the first ones do: what is in it is of no meaning. */
			continue;
		}
	}
	chunks->used = chunks->then;
}

/* The image has ended. */
void chunks_end(void)
{
	if (chunks->lends) {
		room_remove((uintptr_t)chunks->region);
		chunks->lends = false;
	}
}

/* For mmap(): NULL if none is lent. Zend/zend_alloc.c needs zeros in the first page of a chunk alone. */
void *chunks_lend(size_t length, int protection, int flags)
{
	bool is_chunk = length == CHUNK_BYTES && protection == (PROT_READ | PROT_WRITE) && flags == (MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB);
	uint32_t all = (1u << CHUNKS) - 1;
	if (!is_chunk || !chunks || !chunks->lends || chunks->used == all) {
		return NULL;
	}
	unsigned at = (unsigned)__builtin_ctz(~chunks->used);
	chunks->used |= 1u << at;
	return memset(chunks->region + at * CHUNK_BYTES, 0, PAGE);
}

/* For munmap(): whether it was lent. */
bool chunks_take_back(const void *start, size_t length)
{
	size_t offset = chunks ? (uintptr_t)start - (uintptr_t)chunks->region : SIZE_MAX;
	if (offset >= CHUNKS * CHUNK_BYTES) {
		return false;
	}
	if (length == CHUNK_BYTES) {
		chunks->used &= ~(1u << offset / CHUNK_BYTES);
	}
	return true;
}
