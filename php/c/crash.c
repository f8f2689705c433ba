/*
 * Where the script of a crashing worker was. The worker writes it into memory that it shares with the host, and the host
 * reports it with the worker's end. Then the signal takes its usual course: the process ends, with a core file if core
 * files are enabled.
 *
 * The handler runs on a stack of its own, because the main stack may be exhausted, and calls only what is allowed in a
 * signal handler. trace.c reads the memory; it survives invalid pointers.
 */
#include "worker.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Bytes of the handler's stack. */
#define STACK_BYTES (64u << 10)

/* AddressSanitizer says more about a crash than this file. */
#ifdef __SANITIZE_ADDRESS__
# define IS_WATCHED false
#else
# define IS_WATCHED true
#endif

static const int fatal[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };

static char *report;            /* u32 length, text */
static pid_t self;
static uintptr_t stack_end;     /* the main stack does not grow below this; 0: unknown */

static void put_reason(struct text *text, int signal, const siginfo_t *info)
{
	uintptr_t address = (uintptr_t)info->si_addr;
	if (info->si_code == SI_USER || info->si_code == SI_QUEUE) {
		text_put(text, "sent by process ");
		text_number(text, (uint64_t)info->si_pid);
		text_put(text, info->si_pid == self ? ", itself" : "");
	} else if (signal == SIGSEGV && stack_end && address >= stack_end - (64u << 10) && address < stack_end + (256u << 10)) {
		text_put(text, "stack overflow: endless recursion?");
	} else if (info->si_code > 0) {
		text_put(text, "at address ");
		text_address(text, address);
	}
}

static void on_crash(int number, siginfo_t *info, void *context)
{
	(void)context;
	static volatile sig_atomic_t again;
	/* A process that the script has forked shares this memory, but is not a worker. */
	if (!again && getpid() == self) {
		again = 1;
		struct text text = { report + sizeof(uint32_t), 0, MR_TRACE_MAX };
		put_reason(&text, number, info);
		trace_frames(&text, self);
		board_set32(report, 0, (uint32_t)text.length);
	}
	signal(number, SIG_DFL);
	raise(number);
}

/* Called when a worker starts; `area` holds CRASH_BYTES. */
void crash_watch(char *area)
{
	struct rlimit limit;
	report = area;
	self = getpid();
	if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
		stack_end = (uintptr_t)__builtin_frame_address(0) - (uintptr_t)limit.rlim_cur;
	}
	stack_t stack = { .ss_size = STACK_BYTES };
	stack.ss_sp = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!IS_WATCHED || stack.ss_sp == MAP_FAILED || sigaltstack(&stack, NULL) != 0) {
		return;
	}
	struct sigaction action = { .sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
		sigaction(fatal[i], &action, NULL);
	}
}
