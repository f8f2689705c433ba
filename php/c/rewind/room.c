/*
 * The controller: what puts the memory of a process back cannot stand in that memory. It has a mapping of its own, with a
 * stack, and takes turns with PHP, which runs on the process's ordinary stack:
 *
 *   PHP         room_stay() ---+                    +-> returns      room_go_back() -+        +-> room_stay() returns
 *                              v                    |                                v        |
 *   controller                 takes the image -----+                                puts back +
 */
#include "rewind.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#define ROOM_BYTES (4u << 20)
#define STACK_BYTES (64u << 10)
/* This much of PHP's stack below the point is part of the image, so that requests do not make it grow each time. */
#define BELOW_BYTES (256u << 10)
#define OURS_MOST 6

size_t rewind_page = 4096;

static struct room {
	ucontext_t point, controller;
	char *free, *end;
	const char *failed; /* why the image could not be made */
	struct { uintptr_t start, end; } ours[OURS_MOST];
	char stack[STACK_BYTES];
} *room;

/* The mapping, before anything of the worker runs. */
bool room_open(void)
{
	room = mmap(NULL, ROOM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED) {
		room = NULL;
		return false;
	}
	room->free = (char *)(room + 1);
	room->end = (char *)room + ROOM_BYTES;
	room_add((uintptr_t)room, ROOM_BYTES);
	return true;
}

void *room_take(size_t bytes)
{
	char *taken = room->free;
	bytes = (bytes + 63) & ~(size_t)63;
	if (bytes > (size_t)(room->end - taken)) {
		return NULL;
	}
	room->free += bytes;
	return taken;
}

void room_add(uintptr_t start, size_t bytes)
{
	for (size_t i = 0; i < OURS_MOST; i++) {
		if (!room->ours[i].start) {
			room->ours[i].start = start;
			room->ours[i].end = start + bytes;
			return;
		}
	}
	abort();
}

void room_remove(uintptr_t start)
{
	for (size_t i = 0; i < OURS_MOST; i++) {
		if (room->ours[i].start == start) {
			room->ours[i].start = room->ours[i].end = 0;
		}
	}
}

static bool one(uintptr_t *start, uintptr_t *end, const void *bytes, size_t size)
{
	*start = (uintptr_t)bytes;
	*end = *start + ((size + PAGE - 1) & ~(size_t)(PAGE - 1));
	return true;
}

/* The mappings that are not part of an image, by number; false: there is none of that number or a higher one. */
bool room_is_ours(uintptr_t *start, uintptr_t *end, size_t at)
{
	const struct buffer *buffers[] = { &worker->in, &worker->variables, &worker->out, &worker->purges };
	if (at < OURS_MOST) {
		*start = room->ours[at].start;
		*end = room->ours[at].end;
		return true;
	}
	at -= OURS_MOST;
	if (at == 0) {
		return one(start, end, worker, sizeof *worker);
	}
	return at <= sizeof buffers / sizeof *buffers && one(start, end, buffers[at - 1]->bytes, buffers[at - 1]->room);
}

static void take(void)
{
	room->failed = image_take();
	setcontext(&room->point);
	_exit(70);
}

/* Nothing can be said any more that needs memory: the worker ends, its server is told by the socket's end. */
static ZEND_NORETURN void end_worker(const char *why)
{
	figures_ended(why);
	char text[200] = "php.rewind: the worker ends, because its memory cannot be put back: ";
	strncat(text, why, sizeof text - strlen(text) - 1);
	wire_log(4 /* LOG_WARNING */, text, strlen(text));
	board_set32(worker->board, MR_SLOT_STATE, MR_STATE_EXITING);
	_exit(0);
}

static void put(void)
{
	uint64_t began = figures_clock();
	const char *why = kernel_put();
	if (!why) {
		why = image_put();
	}
	if (why) {
		end_worker(why);
	}
	figures_put(began, image_pages_put());
	setcontext(&room->point);
	_exit(70);
}

/* A fresh start of the controller at the top of its stack, all signals blocked. */
static void prepare(void (*run)(void))
{
	getcontext(&room->controller);
	sigfillset(&room->controller.uc_sigmask);
	room->controller.uc_stack.ss_sp = room->stack;
	room->controller.uc_stack.ss_size = sizeof room->stack;
	room->controller.uc_link = NULL;
	makecontext(&room->controller, run, 0);
}

/* Has the kernel give pages to the stack below here. */
static ZEND_COLD __attribute__((noinline)) void grow_stack(void)
{
	volatile char below[BELOW_BYTES];
	for (size_t at = 0; at < sizeof below; at += PAGE) {
		below[at] = 0;
	}
}

const char *room_stay(void)
{
	grow_stack();
	prepare(take);
	room->failed = NULL;
	swapcontext(&room->point, &room->controller);
	return room->failed;
}

ZEND_NORETURN void room_go_back(void)
{
	prepare(put);
	setcontext(&room->controller);
	_exit(70);
}
