/* What replaced.c notes for maps.c. */
#ifndef MILLRACE_REPLACED_H
#define MILLRACE_REPLACED_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAPPINGS_MOST 16u

extern struct maps_changes {
	pthread_t thread;  /* whose mappings are noted one by one; others write nothing but `others` */
	bool others;       /* a mapping of before may be another one now */
	unsigned count;    /* of `made` */
	struct mapping {
		uintptr_t start, end; /* start: 0: a free place */
	} made[MAPPINGS_MOST];
} maps_changes;

/* chunks.c */
void *chunks_lend(size_t length, int protection, int flags);
bool chunks_take_back(const void *start, size_t length);

#endif
