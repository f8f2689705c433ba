/* fpm_get_status(): the pool as the scoreboard shows it, with the keys of sapi/fpm/fpm/fpm_status.c. */
#include "worker.h"

#include <string.h>

/* fpm's names of the states. */
static const char *state_name(uint32_t state)
{
	switch (state) {
		case MR_STATE_RUNNING: return "Running";
		case MR_STATE_BACKGROUND: return "Finishing";
		case MR_STATE_EXITING: return "Ending";
		default: return "Idle";
	}
}

static void add_process(zval *list, const char *slot, uint64_t now_ms)
{
	zval process;
	uint32_t state = board_get32(slot, MR_SLOT_STATE);
	uint64_t started = board_get64(slot, MR_SLOT_STARTED_MS);
	bool running = state == MR_STATE_RUNNING || state == MR_STATE_BACKGROUND;
	array_init(&process);
	add_assoc_long(&process, "pid", (zend_long)board_get32(slot, MR_SLOT_PID));
	add_assoc_string(&process, "state", state_name(state));
	add_assoc_long(&process, "requests", (zend_long)board_get64(slot, MR_SLOT_REQUESTS));
	add_assoc_long(&process, "request-duration", running ? (zend_long)(now_ms - started) * 1000 : 0);
	add_assoc_long(&process, "last-request-memory", (zend_long)board_get64(slot, MR_SLOT_PEAK));
	add_next_index_zval(list, &process);
}

PHP_FUNCTION(fpm_get_status)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (!worker) {
		RETURN_FALSE;
	}
	uint64_t now_ms = clock_ms(CLOCK_MONOTONIC_COARSE);
	uint32_t slots, active = 0, total = 0;
	uint64_t accepted = 0;
	zval processes;
	array_init(&processes);
	memcpy(&slots, worker->scoreboard + 12, sizeof slots);
	for (uint32_t i = 0; i < slots; i++) {
		const char *slot = board_slot(worker->scoreboard, i);
		uint32_t state = board_get32(slot, MR_SLOT_STATE);
		if (state == MR_STATE_FREE) {
			continue;
		}
		total++;
		active += state == MR_STATE_RUNNING || state == MR_STATE_BACKGROUND;
		accepted += board_get64(slot, MR_SLOT_REQUESTS);
		add_process(&processes, slot, now_ms);
	}
	array_init(return_value);
	add_assoc_string(return_value, "pool", "millrace");
	add_assoc_string(return_value, "process-manager", "dynamic");
	add_assoc_long(return_value, "accepted-conn", (zend_long)accepted);
	add_assoc_long(return_value, "idle-processes", (zend_long)(total - active));
	add_assoc_long(return_value, "active-processes", (zend_long)active);
	add_assoc_long(return_value, "total-processes", (zend_long)total);
	add_assoc_zval(return_value, "procs", &processes);
}
