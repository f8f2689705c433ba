/*
 * The image: every private writable page of the process, as it was at the point. Shared mappings are left alone: opcache's
 * memory, the scoreboard.
 *
 * Which pages have to be put back? Where the kernel tells (Linux 6.7: PAGEMAP_SCAN, UFFD_FEATURE_WP_ASYNC), all pages are
 * write-protected when the image is made, the kernel lifts that at the first write without asking, and a scan lists the pages
 * where it has. They stay writable, since most requests write the same ones: they are copied back each time, and after PROTECT_EVERY
 * puts all are protected again, so that one request that wrote much is forgotten. Without it each page is compared.
 *
 * A page that was not there at the point is filled with zeros, if it is of anonymous memory; what is in a file is part of
 * the image as a whole. Memory that was mapped since is unmapped; what was unmapped is mapped again.
 */
#include "rewind.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROTECT_EVERY 64u
#define BATCH 512u
/* A range of so few pages is compared: that takes less time than to ask the kernel. Libraries have a hundred such ranges. */
#define COMPARED_PAGES 4u

/* include/uapi/linux/fs.h and userfaultfd.h of Linux 6.7; the distribution's headers may be older than its kernel. */
struct scan {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
struct found {
	uint64_t start, end, categories;
};
#define SCAN _IOWR('f', 16, struct scan)
#define SCAN_PROTECTS (1u << 0)
#define IS_WRITTEN (1u << 1)
#define IS_PRESENT (1u << 3)
#define IS_SWAPPED (1u << 4)
#define WP_ASYNC (1u << 15)
#define USER_MODE_ONLY 1

/* Bits of /proc/self/pagemap (Documentation/admin-guide/mm/pagemap.rst). */
#define HAS_PAGE (UINT64_C(3) << 62)

static struct image {
	int pagemap, fault;      /* fault: -1 where the kernel does not tell which pages were written */
	uintptr_t brk;
	const char *zeros;       /* a page of them */
	char *store;             /* the pages, and behind them the index; stays for the next image */
	size_t store_bytes, pages;
	uint32_t *index;         /* a saved range's pages in order: 1 + place in the store, 0: it was not there */
	uint64_t puts, copied;   /* times; pages of the last time */
	size_t first[RANGES_MOST]; /* a range's place in the index */
	bool fresh[RANGES_MOST];   /* it has just been mapped again */
	struct ranges then, now;
	struct found found[BATCH];
	uint64_t entries[BATCH];
} *image;

/* Before the sandbox closes: it refuses userfaultfd(2). */
bool image_open(void)
{
	image = room_take(sizeof *image);
	char *zeros = room_take(PAGE);
	if (!image || !zeros) {
		return false;
	}
	image->zeros = zeros;
	image->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	image->fault = options.rewind_compare ? -1 : (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY);
	struct uffdio_api api = { .api = UFFD_API, .features = WP_ASYNC };
	uintptr_t page = (uintptr_t)image & ~(uintptr_t)(PAGE - 1);
	struct scan probe = { .size = sizeof probe, .start = page, .end = page + PAGE,
		.category_mask = IS_PRESENT, .return_mask = IS_PRESENT };
	if (image->fault >= 0 && (ioctl(image->fault, UFFDIO_API, &api) != 0 || ioctl(image->pagemap, SCAN, &probe) < 0)) {
		close(image->fault);
		image->fault = -1;
	}
	return image->pagemap >= 0;
}

/* Whether the kernel tells which pages were written. */
static bool tracks(void)
{
	return image->fault >= 0;
}

static size_t pages_of(const struct range *range)
{
	return (range->end - range->start) / PAGE;
}

/* Whether the kernel is asked which of its pages were written. */
static bool is_tracked(const struct range *range)
{
	return tracks() && pages_of(range) > COMPARED_PAGES;
}

/* ---- the image is made ---- */

/* Gives each page of a range that is there its place in the store; false: the kernel does not tell which ones are. */
static bool mark_pages(const struct range *range, uint32_t *index)
{
	size_t count = pages_of(range);
	for (size_t at = 0; at < count; at += BATCH) {
		size_t batch = count - at < BATCH ? count - at : BATCH;
		off_t place = (off_t)((range->start / PAGE + at) * sizeof *image->entries);
		if (pread(image->pagemap, image->entries, batch * sizeof *image->entries, place)
			!= (ssize_t)(batch * sizeof *image->entries)) {
			return false;
		}
		for (size_t i = 0; i < batch; i++) {
			bool there = !range->anonymous || (image->entries[i] & HAS_PAGE);
			index[at + i] = there ? (uint32_t)++image->pages : 0;
		}
	}
	return true;
}

static bool protect(const struct range *range)
{
	struct scan scan = { .size = sizeof scan, .flags = SCAN_PROTECTS, .start = range->start, .end = range->end,
		.category_anyof_mask = IS_PRESENT | IS_SWAPPED, .return_mask = IS_PRESENT };
	return ioctl(image->pagemap, SCAN, &scan) >= 0;
}

static bool watch(const struct range *range)
{
	struct uffdio_register watched = { .range = { range->start, range->end - range->start },
		.mode = UFFDIO_REGISTER_MODE_WP };
	return ioctl(image->fault, UFFDIO_REGISTER, &watched) == 0 && protect(range);
}

static void free_store(void)
{
	if (image->store) {
		room_remove((uintptr_t)image->store);
		munmap(image->store, image->store_bytes);
		image->store = NULL;
		image->store_bytes = 0;
	}
}

static bool map_store(size_t bytes)
{
	char *store = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (store == MAP_FAILED) {
		return false;
	}
	image->store = store;
	image->store_bytes = bytes;
	room_add((uintptr_t)store, bytes);
	return true;
}

/* The place of each range in the index, and room for as many pages as there can be; false: there is no memory. */
static bool make_room(void)
{
	size_t most = 0;
	for (size_t i = 0; i < image->then.count; i++) {
		image->first[i] = most;
		image->fresh[i] = false;
		most += is_saved(&image->then.all[i]) ? pages_of(&image->then.all[i]) : 0;
	}
	size_t bytes = most * (PAGE + sizeof *image->index);
	bytes = (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
	if (bytes > image->store_bytes) {
		free_store();
		/* Address space for all, and more for later ones; memory is taken for the pages that are there. */
		bytes += bytes / 4 / PAGE * PAGE;
		if (!map_store(bytes)) {
			return false;
		}
	}
	image->index = (uint32_t *)(void *)(image->store + most * PAGE);
	return true;
}

static const char *save(const struct range *range, uint32_t *index)
{
	if (!(range->protection & PROT_READ)) {
		return "memory can be written but not read";
	}
	if (!mark_pages(range, index)) {
		return "the kernel does not tell which pages there are";
	}
	for (size_t at = 0, count = pages_of(range); at < count; at++) {
		if (index[at]) {
			bytes_copy(image->store + (size_t)(index[at] - 1) * PAGE, (const char *)range->start + at * PAGE, PAGE);
		}
	}
	return NULL;
}

/* Makes it; why not, or NULL. Called on the controller's stack. */
const char *image_take(void)
{
	image->pages = image->puts = 0;
	image->brk = (uintptr_t)syscall(SYS_brk, 0);
	chunks_remember();
	if (!maps_read(&image->then) || !make_room() || !shadow_take(&image->then)) {
		return "there is no memory for the image";
	}
	maps_remember();
	const char *why = NULL;
	for (size_t i = 0; i < image->then.count && !why; i++) {
		const struct range *range = &image->then.all[i];
		if (is_saved(range)) {
			why = save(range, image->index + image->first[i]);
		}
	}
	for (size_t i = 0; i < image->then.count && !why; i++) {
		if (is_saved(&image->then.all[i]) && is_tracked(&image->then.all[i]) && !watch(&image->then.all[i])) {
			why = "the kernel cannot watch all memory";
		}
	}
	return why;
}

/* ---- mappings ---- */

/* Maps again what a request has unmapped. */
static const char *map_again(struct range *then, size_t place, uintptr_t start, uintptr_t end)
{
	if (!is_saved(then)) {
		return "memory was unmapped";
	}
	if (!then->anonymous) {
		return "a file's memory was unmapped";
	}
	void *mapped = mmap((void *)start, end - start, then->protection,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
	if (mapped != (void *)start) {
		return "memory cannot be mapped again";
	}
	struct range again = { .start = start, .end = end };
	image->fresh[place] = true;
	return is_tracked(then) && !watch(&again) ? "memory cannot be watched again" : NULL;
}

/* What is in both: it has to be the same. */
static const char *match(const struct range *then, const struct range *now, uintptr_t start, uintptr_t end)
{
	if (then->inode != now->inode || then->device != now->device || then->shared != now->shared) {
		return "other memory is mapped in its place";
	}
	if (then->protection != now->protection && mprotect((void *)start, end - start, then->protection) != 0) {
		return "memory cannot be protected as before";
	}
	return NULL;
}

/* Goes through both lists at once. */
static const char *put_mappings(void)
{
	struct ranges *then = &image->then, *now = &image->now;
	const char *why = NULL;
	uintptr_t at = 0;
	size_t i = 0, k = 0;
	while (!why && (i < then->count || k < now->count)) {
		uintptr_t then_start = i < then->count ? then->all[i].start : UINTPTR_MAX;
		uintptr_t now_start = k < now->count ? now->all[k].start : UINTPTR_MAX;
		then_start = then_start < at ? at : then_start;
		now_start = now_start < at ? at : now_start;
		uintptr_t then_end = i < then->count ? then->all[i].end : UINTPTR_MAX;
		uintptr_t now_end = k < now->count ? now->all[k].end : UINTPTR_MAX;
		uintptr_t start = then_start < now_start ? then_start : now_start, end;
		if (then_start == now_start) {
			end = then_end < now_end ? then_end : now_end;
			why = match(&then->all[i], &now->all[k], start, end);
		} else if (then_start < now_start) {
			end = then_end < now_start ? then_end : now_start;
			why = map_again(&then->all[i], i, start, end);
		} else {
			end = now_end < then_start ? now_end : then_start;
			why = munmap((void *)start, end - start) == 0 ? NULL : "memory cannot be unmapped";
		}
		at = end;
		i += i < then->count && then->all[i].end <= at;
		k += k < now->count && now->all[k].end <= at;
	}
	return why;
}

/* ---- pages ---- */

static void put_page(char *page, uint32_t place)
{
	const char *then = place ? image->store + (size_t)(place - 1) * PAGE : image->zeros;
	if (bytes_differ(page, then, PAGE) != 0) {
		bytes_copy(page, then, PAGE);
		image->copied++;
	}
}

static void put_pages(const struct range *range, const uint32_t *index, uintptr_t start, uintptr_t end)
{
	for (uintptr_t page = start; page < end; page += PAGE) {
		put_page((char *)page, index[(page - range->start) / PAGE]);
	}
}

/* Pages of the image that are not there any more: MADV_DONTNEED. */
static void put_missing(const struct range *range, const uint32_t *index, uintptr_t start, uintptr_t end)
{
	for (uintptr_t page = start; page < end; page += PAGE) {
		uint32_t place = index[(page - range->start) / PAGE];
		if (place) {
			put_page((char *)page, place);
		}
	}
}

/*
 * Pages that were not there are given back as a whole, so that comparing does not make the kernel fill them. Those that the kernel does not take, because
 * they are locked, are filled with zeros.
 */
static void put_compared(const struct range *range, const uint32_t *index)
{
	size_t count = pages_of(range);
	for (size_t at = 0; at < count;) {
		size_t end = at;
		while (end < count && !index[end]) {
			end++;
		}
		if (end > at && madvise((char *)range->start + at * PAGE, (end - at) * PAGE, MADV_DONTNEED) != 0) {
			put_pages(range, index, range->start + at * PAGE, range->start + end * PAGE);
		}
		for (at = end; at < count && index[at]; at++) {
			put_page((char *)range->start + at * PAGE, index[at]);
		}
	}
}

/* Puts back the pages that the kernel names. */
static bool put_written(const struct range *range, const uint32_t *index)
{
	struct scan scan = { .size = sizeof scan, .start = range->start, .end = range->end, .vec = (uintptr_t)image->found,
		.vec_len = BATCH, .category_anyof_mask = IS_PRESENT | IS_SWAPPED, .return_mask = IS_PRESENT | IS_SWAPPED | IS_WRITTEN };
	uintptr_t at = range->start;
	while (scan.start < range->end) {
		int count = ioctl(image->pagemap, SCAN, &scan);
		if (count < 0) {
			return false;
		}
		for (int i = 0; i < count; i++) {
			const struct found *found = &image->found[i];
			put_missing(range, index, at, found->start);
			if (found->categories & IS_WRITTEN) {
				put_pages(range, index, found->start, found->end);
			}
			at = found->end;
		}
		scan.start = scan.walk_end;
	}
	put_missing(range, index, at, range->end);
	return true;
}

/* Makes memory what it was; why not, or NULL. */
const char *image_put(void)
{
	bool has_grown = (uintptr_t)syscall(SYS_brk, 0) != image->brk;
	if (has_grown && (uintptr_t)syscall(SYS_brk, image->brk) != image->brk) {
		return "the heap's end cannot be put back";
	}
	const char *why = NULL;
	if (has_grown || maps_have_changed()) {
		if (!maps_read(&image->now)) {
			return "the kernel does not tell what is mapped";
		}
		why = put_mappings();
	}
	bool again = ++image->puts % PROTECT_EVERY == 0;
	image->copied = 0;
	for (size_t i = 0; i < image->then.count && !why; i++) {
		const struct range *range = &image->then.all[i];
		if (!is_saved(range)) {
			continue;
		}
		const uint32_t *index = image->index + image->first[i];
		if (!is_tracked(range) || image->fresh[i]) {
			put_compared(range, index);
			image->fresh[i] = false;
		} else if (!put_written(range, index)) {
			why = "the kernel does not tell which pages were written";
		}
		if (again && is_tracked(range)) {
			protect(range);
		}
	}
	chunks_put();
	shadow_put(&image->then);
	return why;
}

/* Pages that were copied the last time. */
uint64_t image_pages_put(void)
{
	return image->copied;
}
