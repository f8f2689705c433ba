/*
 * What people see of rewound workers: counters and short texts in the scoreboard, behind the slots (frames.rs, FIGURES_*). They are shared
 * memory, which no image contains. A worker writes only its own; the next one in its slot counts on.
 *
 * Each request that is not rewound has one reason. `absent` is why there is no image; a request that leaves the point has a reason of
 * its own.
 */
#include "rewind.h"

#include <string.h>

#define TEXT_AT 16 /* version and time are before it */
#define NO_KEY MR_FIGURES_KEYS_MOST

static char *first;   /* of the first slot; NULL: the server wants none */
static char *figures; /* of this worker's slot, or NULL */
static unsigned reason, absent = MR_REASON_NO_IMAGE;
static bool rewound; /* the running request began at the point */
static unsigned used; /* the key of its image */

/* A process that a script has forked is no worker: taint.c. */
static bool are_wanted(void)
{
	return figures && !worker->broken;
}

static void add(size_t at, uint64_t number)
{
	if (are_wanted()) {
		board_set64(figures, at, board_get64(figures, at) + number);
	}
}

static void put_text(size_t at, size_t room, const char *text)
{
	if (!are_wanted()) {
		return;
	}
	char *place = figures + at;
	uint64_t version = board_get64(place, 0);
	board_set64(place, 0, version | 1);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	board_set64(place, 8, clock_ms(CLOCK_MONOTONIC));
	size_t length = strnlen(text, room - TEXT_AT - 1);
	memcpy(place + TEXT_AT, text, length);
	place[TEXT_AT + length] = 0;
	board_set64(place, 0, (version | 1) + 1);
}

static size_t key_at(unsigned key)
{
	return MR_FIGURES_KEYS + key * MR_FIGURES_KEY_BYTES;
}

/* In the host: where the figures of the first slot are; NULL: nowhere. */
void figures_map(char *start)
{
	first = start;
}

/* The worker has started, and has no image. */
void figures_open(void)
{
	if (!first) {
		return;
	}
	figures = first + (size_t)worker->slot * MR_FIGURES_BYTES;
	board_set64(figures, MR_FIGURES_IMAGES, 0);
	for (unsigned key = 0; key < MR_FIGURES_KEYS_MOST; key++) {
		board_set64(figures, key_at(key), 0);
	}
}

/* ---- a request ---- */

/* A request is read, and there is no image. */
void figures_look(bool plain)
{
	figures_say(plain ? absent : MR_REASON_METHOD);
}

/* Why the request at hand runs the ordinary way: MR_REASON_*. */
void figures_say(unsigned why)
{
	reason = why;
	rewound = false;
}

/* It begins in an image with this key. */
void figures_begin(unsigned key)
{
	rewound = true;
	used = key;
}

/* It has ended. */
void figures_end(void)
{
	add(rewound ? MR_FIGURES_REWOUND : MR_FIGURES_ORDINARY + reason * sizeof(uint64_t), 1);
	if (rewound && used < NO_KEY) {
		add(key_at(used) + 8, 1);
	}
}

/* ---- images ---- */

/* Its point was refused. */
void figures_refused(const char *why)
{
	reason = absent = MR_REASON_REFUSED;
	put_text(MR_FIGURES_REFUSAL, MR_FIGURES_TEXT_BYTES, why);
}

/* A place for a key: where it is already, an empty one, or one that no image uses. */
static unsigned find_key(const char *text)
{
	unsigned place = NO_KEY, empty = NO_KEY;
	for (unsigned key = MR_FIGURES_KEYS_MOST; key-- > 0;) {
		const char *at = figures + key_at(key), *here = at + 16 + TEXT_AT;
		if (strcmp(here, text) == 0) {
			return key;
		}
		empty = *here ? empty : key;
		place = board_get64(at, 0) == 0 ? key : place;
	}
	place = empty < NO_KEY ? empty : place;
	if (place != NO_KEY) {
		board_set64(figures, key_at(place) + 8, 0);
		put_text(key_at(place) + 16, MR_FIGURES_KEY_BYTES - 16, text);
	}
	return place;
}

/* An image was made of the request at hand. Returns the number of its key, for figures_begin() and figures_dropped(). */
unsigned figures_made(void)
{
	char text[MR_FIGURES_KEY_BYTES - 16 - TEXT_AT];
	struct text names = { text, 0, sizeof text - 1 };
	if (!are_wanted()) {
		return NO_KEY;
	}
	reads_names(&names);
	text[names.length] = 0;
	unsigned key = find_key(text);
	add(MR_FIGURES_MADE, 1);
	add(MR_FIGURES_IMAGES, 1);
	if (key < NO_KEY) {
		add(key_at(key), 1);
	}
	return key;
}

/* An image with this key is not used any more. */
void figures_dropped(unsigned key)
{
	add(MR_FIGURES_IMAGES, (uint64_t)-1);
	if (key < NO_KEY) {
		add(key_at(key), (uint64_t)-1);
	}
	absent = MR_REASON_NO_IMAGE;
}

/* ---- putting back ---- */

/* The controller begins to put memory back. */
uint64_t figures_clock(void)
{
	return figures ? clock_ns(CLOCK_MONOTONIC) : 0;
}

/* It has done so, by copying that many pages. Called on the controller's stack. */
void figures_put(uint64_t began, uint64_t pages)
{
	add(MR_FIGURES_PUT, 1);
	add(MR_FIGURES_PUT_NS, figures ? clock_ns(CLOCK_MONOTONIC) - began : 0);
	add(MR_FIGURES_PUT_PAGES, pages);
}

/* It cannot: the worker ends. */
void figures_ended(const char *why)
{
	add(MR_FIGURES_ENDED, 1);
	put_text(MR_FIGURES_ENDING, MR_FIGURES_TEXT_BYTES, why);
}
