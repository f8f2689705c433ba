/*
 * The system calls of workers: a list of those that are allowed (syscalls.h), as a program of the kernel's seccomp. All
 * others are refused, and the kernel's log says which: programs that scripts start inherit the filter, too.
 *
 * The filter looks for the call's number in a binary tree of ranges. A number alone decides about most calls; the kernel (5.11)
 * remembers these, so that they cost nothing. For the others it looks at arguments, of which it sees the numbers but not what
 * pointers lead to.
 */
#include "filter.h"
#include "sandbox.h"
#include "syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Numbers below this have a place in the table; all above are unknown. */
#define NUMBERS 1024

enum verdict {
	UNKNOWN,        /* ENOSYS */
	ABSENT,         /* the same: the C library has another way, and takes it often */
	UNUSED,         /* the same */
	REFUSED,        /* EPERM */
	FREE,
	FLAGS,          /* clone: no new namespace, no other parent */
	TARGET,         /* the first argument is a process: not the host, the server, or all */
	SIGNAL,         /* the same; where nobody can judge about other targets, only 0, the caller's process group */
	THREAD,         /* a signal to a thread by its number alone */
	SCOPED,         /* allowed where Landlock keeps signals inside the site's domain */
	OF_ITSELF,      /* the first argument must be 0, the caller */
	LIMIT,          /* prlimit64: the caller's limits; others' may be read */
	PRIORITY,       /* setpriority: the caller's */
	IO_PRIORITY,    /* ioprio_set: the caller's */
	OPTION,         /* prctl */
	CONTROL,        /* fcntl */
	DEVICE,         /* ioctl */
	FAMILY,         /* socket */
	NODE, NODE_AT,  /* mknod: no devices */
	PERSONA,        /* personality: the usual one */
};

static const char *const verdicts[] = { "unknown", "absent", "absent", "refused", "free", "by flags", "by target", "by target",
	"by target", "by target", "only of itself", "only of itself", "only of itself", "only of itself", "by option", "by command",
	"by command", "by family", "no devices", "no devices", "only the usual" };

static const struct { unsigned short number; unsigned char verdict; const char *name; } known[] = {
#define CALL(name, verdict) { __NR_##name, verdict, #name },
	ALL_CALLS(CALL)
#undef CALL
};
#define KNOWN (sizeof known / sizeof *known)

/* ---- arguments ---- */

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
/* CLONE_NEWTIME is not among them: in the flags of clone it is a part of the signal's number. */
#define NO_FLAGS (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET \
	| CLONE_PARENT | CLONE_PTRACE)

/* What prctl may do: only to the caller. Missing: memory layout (PR_SET_MM), scheduling of others (PR_SCHED_CORE). */
static const unsigned prctl_options[] = { PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE, PR_GET_KEEPCAPS,
	PR_SET_KEEPCAPS, PR_GET_TIMING, PR_SET_NAME, PR_GET_NAME, PR_GET_SECCOMP, PR_SET_SECCOMP, PR_CAPBSET_READ, PR_CAPBSET_DROP,
	PR_GET_TSC, PR_GET_SECUREBITS, PR_SET_SECUREBITS, PR_SET_TIMERSLACK, PR_GET_TIMERSLACK, PR_MCE_KILL, PR_MCE_KILL_GET,
	PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS, PR_GET_TID_ADDRESS,
	PR_SET_THP_DISABLE, PR_GET_THP_DISABLE, PR_CAP_AMBIENT, 50 /* PR_SVE_SET_VL */, 51 /* PR_SVE_GET_VL */,
	PR_GET_SPECULATION_CTRL, PR_SET_SPECULATION_CTRL, 54 /* PR_PAC_RESET_KEYS */, 55, 56 /* tagged addresses */,
	60, 61 /* keys of PAC */, 63, 64 /* SME */, 0x53564d41 /* PR_SET_VMA */, 0x59616d61 /* PR_SET_PTRACER */ };
/*
 * What fcntl may do. Missing: signals to the owner of a descriptor, which reach any process; leases, which make others wait who
 * open the file.
 */
static const unsigned fcntl_commands[] = { F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK,
	F_SETLKW, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_GETOWN, F_GETSIG, F_GETOWN_EX, F_GETLEASE, F_SETPIPE_SZ, F_GETPIPE_SZ,
	F_ADD_SEALS, F_GET_SEALS, F_GET_RW_HINT, F_SET_RW_HINT, F_GET_FILE_RW_HINT, F_SET_FILE_RW_HINT,
	1027 /* F_DUPFD_QUERY */, 1028 /* F_CREATED_QUERY */ };
static const unsigned families[] = { AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6, AF_NETLINK };
/* Requests to devices that act on others: input for a terminal, and again signals to the owner. */
static const unsigned no_requests[] = { TIOCSTI, TIOCCONS, 0x541C /* TIOCLINUX */, FIOSETOWN, SIOCSPGRP };

#define COUNT(list) (sizeof list / sizeof *list)

/* ---- the program ---- */

struct program {
	struct sock_filter code[2048];
	unsigned short length;
	const struct guarded *guarded;
	unsigned char verdicts[NUMBERS];
};

static void put(struct program *program, const struct sock_filter *code, size_t count)
{
	if (program->length + count <= COUNT(program->code)) {
		memcpy(program->code + program->length, code, count * sizeof *code);
	}
	program->length = (unsigned short)(program->length + count);
}

#define PUT(...) do { \
	const struct sock_filter code[] = { __VA_ARGS__ }; \
	put(program, code, COUNT(code)); \
} while (0)

/* Decides by whether the loaded word is in a list. */
static void put_list(struct program *program, const unsigned *list, size_t count, struct sock_filter found, struct sock_filter otherwise)
{
	for (size_t i = 0; i < count; i++) {
		PUT(UNLESS(list[i], 1), found);
	}
	PUT(otherwise);
}

/* A process that signals may reach: about the rest Landlock decides, or the supervisor of signals. */
static void put_target(struct program *program)
{
	PUT(LOW(0), UNLESS((unsigned)-1, 1), REFUSE(EPERM));
	for (size_t i = 0; i < program->guarded->count; i++) {
		unsigned pid = (unsigned)program->guarded->pids[i];
		PUT(UNLESS(pid, 1), REFUSE(EPERM), UNLESS(-pid, 1), REFUSE(EPERM));
	}
	PUT(ALLOW);
}

static void put_node(struct program *program, struct sock_filter mode)
{
	PUT(mode, BPF_STMT(BPF_ALU | BPF_AND | BPF_K, S_IFMT), UNLESS(S_IFCHR, 1), REFUSE(EPERM), UNLESS(S_IFBLK, 1), REFUSE(EPERM),
		ALLOW);
}

static void put_verdict(struct program *program, enum verdict verdict)
{
	enum signals signals = program->guarded->signals;
	switch (verdict) {
		case UNKNOWN: case ABSENT: case UNUSED: PUT(REFUSE(ENOSYS)); break;
		case REFUSED: PUT(REFUSE(EPERM)); break;
		case FREE: PUT(ALLOW); break;
		case FLAGS: PUT(LOW(0), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NO_FLAGS, 0, 1), REFUSE(EPERM), ALLOW); break;
		case TARGET: put_target(program); break;
		case SIGNAL: signals == SIGNALS_GROUP ? put_verdict(program, OF_ITSELF) : put_target(program); break;
		case THREAD: signals == SIGNALS_GROUP ? put_verdict(program, REFUSED) : put_target(program); break;
		case SCOPED: put_verdict(program, signals == SIGNALS_SCOPED ? FREE : UNKNOWN); break;
		case OF_ITSELF: PUT(LOW(0), UNLESS(0, 1), ALLOW, REFUSE(EPERM)); break;
		case LIMIT:
			PUT(LOW(0), UNLESS(0, 1), ALLOW, LOW(2), UNLESS(0, 3), HIGH(2), UNLESS(0, 1), ALLOW, REFUSE(EPERM));
			break;
		case PRIORITY: PUT(LOW(0), UNLESS(PRIO_PROCESS, 3), LOW(1), UNLESS(0, 1), ALLOW, REFUSE(EPERM)); break;
		case IO_PRIORITY: PUT(LOW(0), UNLESS(IOPRIO_WHO_PROCESS, 3), LOW(1), UNLESS(0, 1), ALLOW, REFUSE(EPERM)); break;
		case OPTION:
			PUT(LOW(0));
			put_list(program, prctl_options, COUNT(prctl_options), (struct sock_filter)ALLOW, (struct sock_filter)REFUSE(EPERM));
			break;
		case CONTROL:
			PUT(LOW(1));
			put_list(program, fcntl_commands, COUNT(fcntl_commands), (struct sock_filter)ALLOW, (struct sock_filter)REFUSE(EPERM));
			break;
		case DEVICE:
			PUT(LOW(1));
			put_list(program, no_requests, COUNT(no_requests), (struct sock_filter)REFUSE(EPERM), (struct sock_filter)ALLOW);
			break;
		case FAMILY:
			PUT(LOW(0));
			put_list(program, families, COUNT(families), (struct sock_filter)ALLOW,
				(struct sock_filter)REFUSE(EAFNOSUPPORT));
			break;
		case NODE: put_node(program, (struct sock_filter)LOW(1)); break;
		case NODE_AT: put_node(program, (struct sock_filter)LOW(2)); break;
		case PERSONA: PUT(LOW(0), UNLESS(0, 1), ALLOW, UNLESS(0xffffffff, 1), ALLOW, REFUSE(EPERM)); break;
	}
}

/* Whether a range can be decided at once: neighbours with the same check are one range, too. */
static unsigned range_end(const struct program *program, unsigned from, unsigned to)
{
	unsigned end = from + 1;
	while (end < to && program->verdicts[end] == program->verdicts[from]) {
		end++;
	}
	return end;
}

/* Decides about the numbers `from` to `to` (excluded): halves them, at a place where the verdict changes, until one is left. */
static void put_range(struct program *program, unsigned from, unsigned to)
{
	unsigned cut = range_end(program, from, to);
	if (cut == to) {
		put_verdict(program, program->verdicts[from]);
		return;
	}
	for (unsigned next; cut < (from + to) / 2 && (next = range_end(program, cut, to)) < to;) {
		cut = next;
	}
	/* The way is too long for a conditional jump: it skips a long one, whose length is known afterwards. */
	PUT(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, cut, 0, 1), BPF_STMT(BPF_JMP | BPF_JA, 0));
	unsigned short jump = program->length;
	put_range(program, from, cut);
	if (jump <= COUNT(program->code)) {
		program->code[jump - 1].k = program->length - jump;
	}
	put_range(program, cut, to);
}

static enum verdict verdict_of(unsigned number)
{
	for (size_t i = 0; i < KNOWN; i++) {
		if (known[i].number == number) {
			return known[i].verdict;
		}
	}
	return UNKNOWN;
}

static bool install(struct program *program, unsigned flags)
{
	struct sock_fprog filter = { program->length, program->code };
	return program->length <= COUNT(program->code)
		&& syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter) == 0;
}

#ifdef NATIVE
/* Other processors' calls are none of ours; nor are the numbers of x32. */
static void put_start(struct program *program)
{
	PUT(LOAD(arch), UNLESS(NATIVE, 1), BPF_STMT(BPF_JMP | BPF_JA, 1), REFUSE(ENOSYS), LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, NUMBERS, 0, 1), REFUSE(ENOSYS));
}

/* All calls; the kernel's log says what this filter refuses. */
static bool enter_list(const struct guarded *guarded)
{
	static struct program all;
	struct program *program = &all;
	*program = (struct program){ .guarded = guarded };
	for (unsigned number = 0; number < NUMBERS; number++) {
		enum verdict verdict = verdict_of(number);
		/* The second filter refuses them, and does not log it. */
		program->verdicts[number] = verdict == ABSENT || verdict == UNUSED ? FREE : verdict;
	}
	put_start(program);
	put_range(program, 0, NUMBERS);
	return install(program, SECCOMP_FILTER_FLAG_LOG) || install(program, 0);
}

/*
 * Calls that ordinary programs try first and can do without. clone3 hides its flags behind a pointer; without it the C library
 * uses clone. libuv looks for io_uring.
 */
static bool enter_absent(void)
{
	static struct program few;
	struct program *program = &few;
	*program = (struct program){ .length = 0 };
	put_start(program);
	for (size_t i = 0; i < KNOWN; i++) {
		if (known[i].verdict == ABSENT || known[i].verdict == UNUSED) {
			PUT(UNLESS(known[i].number, 1), REFUSE(ENOSYS));
		}
	}
	PUT(ALLOW);
	return install(program, 0);
}
#endif

/* Called in a worker. */
bool seccomp_enter(const struct guarded *guarded)
{
#ifdef NATIVE
	return enter_list(guarded) && enter_absent();
#else
	(void)guarded;
	return true;
#endif
}

/* For tests and for people: a line for each call that has a row, "NUMBER NAME VERDICT". */
void seccomp_tell(void)
{
	for (size_t i = 0; i < KNOWN; i++) {
		printf("%u %s %s\n", known[i].number, known[i].name, verdicts[known[i].verdict]);
	}
}
