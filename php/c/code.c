/*
 * The files that scripts consist of, said to the server once each: it looks whether they change (crates/server/src/serve/code), because
 * cached pages show what they did. A worker that has said all of its files pays a lookup for each file of a request.
 */
#include "worker.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Places for digests of names; a worker says no more files than three quarters of them. */
#define PLACES 65536u
#define SEPARATOR '\x1f'
/* Room for three numbers and what is between them. */
#define NUMBERS 80

/* Digests of what was said. Shared memory, which stays as it is when the worker is rewound. */
static struct said {
	uint32_t count;
	uint64_t places[PLACES];
} *said;

static bool begin(void)
{
	if (!said) {
		void *memory = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		said = memory == MAP_FAILED ? NULL : memory;
	}
	return said != NULL;
}

/* Whether it is new; notes it. */
static bool is_new(uint64_t digest)
{
	digest = digest ? digest : 1;
	uint32_t at = (uint32_t)(digest % PLACES);
	while (said->places[at]) {
		if (said->places[at] == digest) {
			return false;
		}
		at = (at + 1) % PLACES;
	}
	if (said->count >= PLACES / 4 * 3) {
		return false;
	}
	said->places[at] = digest;
	said->count++;
	return true;
}

static bool is_sayable(const zend_string *name)
{
	if (ZSTR_LEN(name) == 0 || ZSTR_LEN(name) > 4096 || ZSTR_VAL(name)[0] != '/') {
		return false;
	}
	for (size_t i = 0; i < ZSTR_LEN(name); i++) {
		if ((unsigned char)ZSTR_VAL(name)[i] < 0x20) {
			return false;
		}
	}
	return true;
}

/* "ran PAUSE,": how long opcache may run the old code, in seconds; "-": until the next reload. */
static size_t head(char *text, size_t room)
{
	bool watched = !zend_get_extension("Zend OPcache") || INI_BOOL("opcache.validate_timestamps");
	int length = watched ? snprintf(text, room, "ran " ZEND_LONG_FMT ",", MAX(0, INI_INT("opcache.revalidate_freq"))) : snprintf(text, room, "ran -,");
	return (size_t)length;
}

/* "MODIFIED NANOSECONDS SIZE PATH", as the file is now: what has changed before the server looks counts, too. */
static size_t item(char *text, size_t room, const zend_string *name)
{
	struct stat file;
	if (stat(ZSTR_VAL(name), &file) != 0) {
		memset(&file, 0, sizeof file);
	}
	int length = snprintf(text, room, "%c%" PRId64 " %ld %" PRId64 " %s", SEPARATOR, (int64_t)file.st_mtim.tv_sec, file.st_mtim.tv_nsec,
		(int64_t)file.st_size, ZSTR_VAL(name));
	return (size_t)length;
}

/* Before the response ends, when no more PHP code runs. The same host may run scripts of several sites. */
void code_say(void)
{
	if (!worker || worker->answer == ANSWER_NONE || worker->answer == ANSWER_VOID || !begin()) {
		return;
	}
	const char *root = vars_value("DOCUMENT_ROOT");
	uint64_t site = root ? zend_hash_func(root, strlen(root)) * 0x9e3779b97f4a7c15u : 0;
	static char text[MR_NOTE_MAX];
	size_t first = 0, length = 0;
	zend_string *name;
	ZEND_HASH_FOREACH_STR_KEY(&EG(included_files), name) {
		if (!name || !is_sayable(name) || !is_new(zend_string_hash_val(name) ^ site)) {
			continue;
		}
		if (length && length + ZSTR_LEN(name) + NUMBERS > sizeof text) {
			wire_note(MR_NOTE_CODE, text, length);
			length = 0;
		}
		first = first ? first : head(text, sizeof text);
		length = length ? length : first;
		length += item(text + length, sizeof text - length, name);
	} ZEND_HASH_FOREACH_END();
	if (length) {
		wire_note(MR_NOTE_CODE, text, length);
	}
}
