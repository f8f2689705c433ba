/*
 * Rewound workers: PHP boots an application once, and each request begins where the boot has ended.
 *
 *   point.c    millrace_rewind_point(): when an image is made, how a request gets to the point, which requests do not
 *   gate.c     which functions of PHP the boot may call: functions/ has their lists
 *   streams.c  what it may open; swept.c: what may be there at the point; sql.c: what a statement of SQL does
 *   reads.c    what the boot has read of its request: an image serves only requests in which the same is written
 *   files.c    the files that it has read or asked about; sources.c: the database
 *   ending.c   the end of a request, as far as scripts and clients see it
 *   room.c     the controller: memory and a stack of its own, outside of the image
 *   image.c    the process's memory as it was at the point, and how it is put back
 *   maps.c     which memory the process has; replaced.c: mmap() and others, which note what they change
 *   random.c   getrandom() and others, which have no memory of their own
 *   chunks.c   the Zend heap of requests
 *   shadow.c   what AddressSanitizer knows about the memory, in builds that have it
 *   kernel.c   descriptors, directory, signals, timers, children: what the kernel keeps for the process
 *   figures.c  counters and texts for the status
 *
 * Who owns the memory. The room is one private mapping. It, the image's store, and `struct worker` with its
 * buffers are not part of the image. While the controller runs, on its own stack and with all signals blocked, it calls nothing
 * that uses malloc, stdio or PHP.
 */
#ifndef MILLRACE_REWIND_H
#define MILLRACE_REWIND_H

#include "../worker.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* The system's pages: 4 KB, 16 KB or 64 KB. Set in the host. */
extern size_t rewind_page;
#define PAGE rewind_page

/* ---- point.c ---- */

/* The running request has written to a database. */
void rewind_wrote(void);
void rewind_writes(void);

/* FNV-1a: a digest of what `digest` stands for and of these bytes. */
#define MIX_START UINT64_C(0xcbf29ce484222325)
static inline uint64_t mix(uint64_t digest, const void *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		digest = (digest ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
	}
	return digest;
}

/* ---- maps.c ---- */

/* A piece of the address space, without what belongs to the controller and to `struct worker`. */
struct range {
	uintptr_t start, end;
	uint64_t inode, device;
	uint8_t protection; /* PROT_* */
	bool shared, anonymous;
};

/* Whether an image has its content. */
static inline bool is_saved(const struct range *range)
{
	return !range->shared && (range->protection & PROT_WRITE);
}

#define RANGES_MOST 4096u

struct ranges {
	size_t count;
	struct range all[RANGES_MOST];
};

bool maps_open(void);
void maps_prepare(void);
void maps_remember(void);
bool maps_have_changed(void);
bool maps_read(struct ranges *ranges);

/* ---- image.c ---- */

bool image_open(void);
const char *image_take(void);
const char *image_put(void);
uint64_t image_pages_put(void);

/* ---- chunks.c ---- */

bool chunks_open(void);
void chunks_remember(void);
void chunks_put(void);
void chunks_end(void);

/* ---- shadow.c ---- */

#if defined(__SANITIZE_ADDRESS__) && defined(__x86_64__)
bool shadow_open(void);
bool shadow_take(const struct ranges *ranges);
void shadow_put(const struct ranges *ranges);
void bytes_copy(void *to, const void *from, size_t bytes);
int bytes_differ(const void *one, const void *other, size_t bytes);
#else
#ifdef __SANITIZE_ADDRESS__
#define shadow_open() false /* where the shadow lies depends on the processor: workers are not rewound */
#else
#define shadow_open() true
#endif
#define shadow_take(ranges) true
#define shadow_put(ranges) ((void)0)
#define bytes_copy memcpy
#define bytes_differ memcmp
#endif

/* ---- kernel.c ---- */

bool kernel_open(void);
void kernel_remember_idle(void);
const char *kernel_take(void);
const char *kernel_put(void);

/* ---- room.c ---- */

/* Memory of the controller that the other files keep their state in; zero at the start. */
void *room_take(size_t bytes);
bool room_is_ours(uintptr_t *start, uintptr_t *end, size_t at);
void room_add(uintptr_t start, size_t bytes);
void room_remove(uintptr_t start);
bool room_open(void);
/* Makes the image of all that is now; returns then, and again each time that room_go_back() is called. NULL, or why not. */
const char *room_stay(void);
ZEND_NORETURN void room_go_back(void);

/* ---- renew.c ---- */

void renew_openssl(void);
void renew_superglobals(void);
const char *renew_changed_superglobal(void);
void renew_request(time_t latest);

/* ---- gate.c ---- */

/* What the gate does while the request at hand runs. A word of the process's memory: each request that begins at the point finds what it was there. */
extern enum gate {
	GATE_OPEN,   /* nothing */
	GATE_BOOT,   /* the request may become an image */
	GATE_BEHIND, /* it has begun in one, or is run again to be compared: it must not act twice */
} gate;

/* The places of functions/. What is a stream or a link is as good as pure. */
enum kind {
	KIND_PURE, KIND_OWN, KIND_REFUSED, KIND_LOOK, KIND_LOOK_AT, KIND_LIST, KIND_ENVIRONMENT, KIND_INPUT, KIND_SCOPE, KIND_CLOCK, KIND_MOMENT, KIND_FIELD,
	KIND_OF_DATABASE,
	KIND_QUERY = KIND_OF_DATABASE, KIND_CHARSET, KIND_DATABASE, KIND_STATEMENT, KIND_TRANSACTION, KIND_COMMIT, KIND_SQLITE, KIND_SQLITE_STATEMENT,
	KIND_SQLITE_COMMIT,
};

/* What belongs to a function that is not pure. */
struct gated {
	zif_handler original;
	uint8_t kind, argument;
};

void gate_begin(void);
void gate_end(void);
void gate_refuse(const char *what);
void gate_refuse_call(const zend_function *called);
void gate_acts(const char *what);
time_t gate_now(void);
void gate_clock(time_t second);
time_t gate_second(void);
const char *gate_refusal(void);

/* ---- excepted.c ---- */

void excepted_watch(void);
void excepted_begin(void);
bool excepted_later(void);
bool excepted(const zend_function *by, const zend_function *called, const char *what);
const char *excepted_read(const zend_function *by, const char *variable);
void excepted_name(const zend_function *function, char *text, size_t room);
void excepted_advice(const zend_function *by, char *text, size_t room);

/* ---- streams.c ---- */

void streams_watch(void);

/* ---- swept.c ---- */

const char *sweep(void);

/* ---- sql.c ---- */

enum sql {
	SQL_READS,   /* only reads, and finds the same for each client as long as no table is another one */
	SQL_SETS,    /* sets something for the session alone */
	SQL_KEEPS,   /* changes nothing by itself */
	SQL_COMMITS,
	SQL_WRITES,
	SQL_UNKNOWN, /* may do anything, as far as its text says */
};
/* Whom a statement that reads has to find the same for. */
enum finds { FOR_ALL, WITH_COUNT /* the rows of the one before, too */, FOR_ONE };
enum sql sql_kind(const char *text, enum finds finds);

/* ---- reads.c ---- */

void reads_startup(void);
void reads_watch_files(void);
void reads_begin(void);
void reads_announce(HashTable *functions, HashTable *of_objects);
bool reads_were_used(void);
bool reads_note_input(zend_long kind, zend_string *name);
void reads_note_environment(zend_string *name);
bool reads_note_call(const char *what, const zend_function *called);
const char *reads_leave_out(HashTable *redone);
bool reads_key(struct buffer *key);
void reads_names(struct text *names);

/* ---- sources.c ---- */

void sources_call(INTERNAL_FUNCTION_PARAMETERS, const struct gated *one);
void sources_begin(void);
void sources_end(void);
bool sources_take(void);

/* ---- files.c ---- */

void files_begin(void);
void files_end(void);
void files_note(const char *path);
void files_note_asked(const char *path);
void files_note_pattern(const char *path);
bool files_take(void);
bool files_are_never_trusted(void);
bool files_are_same(void);

/* ---- ending.c ---- */

void ending_remember(void);
void ending_run(void);

/* ---- figures.c ---- */

void figures_open(void);
void figures_look(bool plain);
void figures_say(unsigned why);
void figures_begin(unsigned key);
void figures_end(void);
void figures_refused(const char *why);
unsigned figures_made(void);
void figures_dropped(unsigned key);
uint64_t figures_clock(void);
void figures_put(uint64_t began, uint64_t pages);
void figures_ended(const char *why);

#endif
