/*
 * The end of a request whose time limit is over. The server writes the request's number into the scoreboard and sends
 * SIGURG. The handler makes the VM call on_interrupt, where a fatal error ends the script as for max_execution_time:
 * shutdown functions run, buffers are flushed. A call that blocks ends early, because the handler is installed without
 * SA_RESTART. PHP restarts some calls; the host sees them, sends the signal once more with their descriptor (trace_let_go),
 * and ends the programs that the script waits for (programs.c). The server kills a worker that does not end in time.
 *
 * A script may ask for more time by set_time_limit(), ini_set(), .user.ini: the scoreboard has until when, and the server gives it up to
 * php.time_limit_max.
 */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void (*next_interrupt)(zend_execute_data *frame);
/* PHP's own handler of max_execution_time. */
static ZEND_INI_MH((*set_limit));
/* What the script has asked for, as in MR_SLOT_ASKED_MS. It belongs to PHP's memory: an image of a boot restores what the boot has asked. */
static uint64_t asked;

/* Whether the time limit of the running request is over. */
static bool is_up(void)
{
	uint64_t sequence = worker->request.sequence;
	return worker->answer != ANSWER_NONE && sequence && board_get64(worker->board, MR_SLOT_TERMINATE) == sequence;
}

/*
 * Makes a call that waits for a descriptor return. A pipe can't be shut down, so /dev/null replaces it. Another process
 * that holds the pipe - a background program started without a redirection - still has it open.
 */
static void cut_off(int descriptor)
{
	struct stat what;
	if (shutdown(descriptor, SHUT_RDWR) == 0 || fstat(descriptor, &what) != 0 || !S_ISFIFO(what.st_mode)) {
		return;
	}
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (nothing >= 0) {
		dup3(nothing, descriptor, O_CLOEXEC);
		close(nothing);
	}
}

static void on_urgent(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	int error = errno;
	if (worker && is_up()) {
		worker->time_is_up = true;
		MR_INTERRUPT();
		if (info->si_code == SI_QUEUE && info->si_int > 2 && info->si_int != worker->socket) {
			cut_off(info->si_int);
		}
	}
	errno = error;
}

/* Called by the VM, between two opcodes. */
static void on_interrupt(zend_execute_data *frame)
{
	if (worker) {
		limits_check();
	}
	if (next_interrupt) {
		next_interrupt(frame);
	}
}

/* Milliseconds since the worker has received its request. */
static uint64_t age_ms(void)
{
	uint64_t now = clock_ms(CLOCK_MONOTONIC);
	return now - MIN(now, board_get64(worker->board, MR_SLOT_STARTED_MS));
}

/* Called when max_execution_time changes. PHP counts the new time from now on, and so does this. */
static ZEND_INI_MH(on_limit)
{
	int result = set_limit(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage);
	if (result == SUCCESS && worker->answer != ANSWER_NONE && stage != ZEND_INI_STAGE_DEACTIVATE) {
		asked = EG(timeout_seconds) > 0 ? age_ms() + (uint64_t)EG(timeout_seconds) * 1000 : UINT64_MAX;
		limits_ask();
	}
	return result;
}

/* Tells the server what the script has asked for. */
void limits_ask(void)
{
	board_set64(worker->board, MR_SLOT_ASKED_MS, asked);
}

/* The script that is about to run has asked for nothing yet. */
void limits_begin(void)
{
	asked = 0;
	limits_ask();
}

/* Called when a worker starts. */
void limits_watch(void)
{
	zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("max_execution_time"));
	set_limit = entry->on_modify;
	entry->on_modify = on_limit;
	struct sigaction urgent = { .sa_sigaction = on_urgent, .sa_flags = SA_SIGINFO };
	sigaction(SIGURG, &urgent, NULL);
	next_interrupt = zend_interrupt_function;
	zend_interrupt_function = on_interrupt;
}

/*
 * Ends the script by a fatal error if its time limit is over; it does not return then. The status is 504 instead of a fatal
 * error's 500, unless the script or its shutdown functions set one.
 */
void limits_check(void)
{
	if (!worker->time_is_up) {
		return;
	}
	worker->time_is_up = false;
	if (!board_swap64(worker->board, MR_SLOT_TERMINATE, worker->request.sequence, 0)) {
		return;
	}
	worker->ended = true;
	uint64_t ms = age_ms();
	if (worker->answer == ANSWER_WAITING && !SG(headers_sent) && SG(sapi_headers).http_response_code == 200) {
		sapi_header_op(SAPI_HEADER_SET_STATUS, (void *)(zend_intptr_t)504);
	}
	zend_error_noreturn(E_ERROR, "Maximum wall-clock time exceeded: terminated after %u.%u seconds (%s)",
		(unsigned)(ms / 1000), (unsigned)(ms % 1000 / 100), board_get64(worker->board, MR_SLOT_ASKED_MS) ? "php.time_limit_max"
		: worker->answer == ANSWER_ENDED ? "php.background_timeout" : "php.request_timeout");
}
