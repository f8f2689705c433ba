/*
 * What a worker may do, besides the limits of its user: it can't gain privileges (no_new_privs), it reaches files only in
 * the folders of its sites (Landlock), and it can't make system calls that web pages don't need (seccomp). Programs that
 * scripts start inherit all this.
 *
 * Landlock is used from ABI 2 on (Linux 5.19): ABI 1 forbids to move a file to another directory. From ABI 6 on (6.12) it
 * also keeps a worker's signals inside its own sandbox; before, the seccomp filter protects host and server from them.
 */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <syslog.h>
#include <unistd.h>

/* ---- Landlock (include/uapi/linux/landlock.h; the distribution's header may be older than its kernel) ---- */

#define LL_EXECUTE (1u << 0)
#define LL_WRITE_FILE (1u << 1)
#define LL_READ_FILE (1u << 2)
#define LL_READ_DIR (1u << 3)
#define LL_TRUNCATE (1u << 14)
#define LL_ALL_OF_ABI_2 ((1u << 14) - 1)
#define LL_ALL_OF_ABI_3 ((1u << 15) - 1)
#define LL_OF_FILES (LL_EXECUTE | LL_WRITE_FILE | LL_READ_FILE | LL_TRUNCATE)
#define LL_READ (LL_EXECUTE | LL_READ_FILE | LL_READ_DIR)
#define LL_DEVICE (LL_READ_FILE | LL_WRITE_FILE | LL_TRUNCATE)
#define LL_SCOPE_SIGNAL (1u << 1)
#define LL_VERSION (1u << 0)
#define LL_PATH_BENEATH 1
#define LL_LEAST_ABI 2
#define LL_SIGNALS_ABI 6

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

struct ruleset {
	uint64_t files, net, scoped;
};

struct __attribute__((packed)) path_rule {
	uint64_t rights;
	int32_t parent;
};

/*
 * Files that every program may need to read: libraries, configuration, certificates, time zones, fonts, the kernel's
 * figures.
 */
static const char *const readable[] = { "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix",
	"/gnu", "/proc", "/sys", "/run", "/var/lib/fonts", "/var/lib/ghostscript", "/var/cache/fontconfig" };
static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty" };
/* ini values that name a place where PHP writes or reads for scripts. */
static const char *const written[] = { "session.save_path", "upload_tmp_dir", "sys_temp_dir", "soap.wsdl_cache_dir",
	"opcache.file_cache", "error_log", "mail.log" };
static const char *const read_too[] = { "include_path", "openssl.cafile", "openssl.capath", "curl.cainfo", "auto_prepend_file",
	"auto_append_file", "browscap" };

/* The kernel's Landlock ABI; 0: none that is usable. */
static long landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LL_VERSION);
	return abi >= LL_LEAST_ABI ? abi : 0;
}

/* All rights for files that this kernel knows. */
static uint64_t all_rights(long abi)
{
	return abi > LL_LEAST_ABI ? LL_ALL_OF_ABI_3 : LL_ALL_OF_ABI_2;
}

/* Adds a rule for a path if the path exists. */
static void allow(int ruleset, const char *path, uint64_t rights)
{
	struct stat found;
	struct path_rule rule = { rights & all_rights(landlock_abi()), open(path, O_PATH | O_CLOEXEC) };
	if (rule.parent < 0) {
		return;
	}
	if (fstat(rule.parent, &found) == 0) {
		rule.rights &= S_ISDIR(found.st_mode) ? ~(uint64_t)0 : LL_OF_FILES;
		syscall(SYS_landlock_add_rule, ruleset, LL_PATH_BENEATH, &rule, 0);
	}
	close(rule.parent);
}

/* Whether a link leads to something in the folder where it lies. */
static bool leads_inside(const char *link, const char *folder)
{
	char to[PATH_MAX], of[PATH_MAX];
	size_t length;
	return realpath(link, to) && realpath(folder, of) && (length = strlen(of), strncmp(to, of, length) == 0)
		&& to[length] == '/';
}

/*
 * Allows a folder of the site. If it is a link - a deployment activates a new release by changing that link - the folder
 * that contains the link is allowed, too, so that the link's next target may be there; but no folder as high as /srv. The
 * same holds for a link inside the path ("current/public"), if it leads to something beside it.
 */
static void allow_folder(int ruleset, const char *path, uint64_t rights)
{
	struct stat found;
	char link[PATH_MAX], above[PATH_MAX];
	allow(ruleset, path, rights);
	for (size_t end = 1, length = strlen(path); end <= length && length < PATH_MAX; end++) {
		if (path[end] != '/' && path[end] != 0) {
			continue;
		}
		snprintf(link, sizeof link, "%.*s", (int)end, path);
		const char *slash = strrchr(link, '/');
		if (slash == link || strchr(link + 1, '/') == slash || lstat(link, &found) != 0 || !S_ISLNK(found.st_mode)) {
			continue;
		}
		snprintf(above, sizeof above, "%.*s", (int)(slash - link), link);
		if (end == length || leads_inside(link, above)) {
			allow(ruleset, above, rights);
		}
	}
}

/*
 * Allows each absolute path in an ini value: a list with ":", or session.save_path's "N;MODE;PATH"; for a path that does
 * not exist yet, its folder.
 */
static void allow_named(int ruleset, const char *name, uint64_t rights)
{
	const char *value = zend_ini_string_ex(name, strlen(name), 0, NULL);
	char path[PATH_MAX];
	for (; value && *value; value += strcspn(value, ":;"), value += *value != 0) {
		size_t length = strcspn(value, ":;");
		if (*value != '/' || length >= sizeof path) {
			continue;
		}
		memcpy(path, value, length);
		path[length] = 0;
		if (access(path, F_OK) != 0 && strrchr(path, '/') != path) {
			*strrchr(path, '/') = 0;
		}
		allow(ruleset, path, rights);
	}
}

/* Each worker makes its own rules: when a folder is replaced by another of the same name, later workers get the new one. */
static bool enter_landlock(long abi)
{
	uint64_t all = all_rights(abi);
	struct ruleset handled = { .files = all, .scoped = LL_SCOPE_SIGNAL };
	int ruleset = (int)syscall(SYS_landlock_create_ruleset, &handled,
		abi >= LL_SIGNALS_ABI ? sizeof handled : sizeof handled.files, 0);
	if (ruleset < 0) {
		return false;
	}
	for (size_t i = 0; i < sizeof readable / sizeof *readable; i++) {
		allow(ruleset, readable[i], LL_READ);
	}
	for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
		allow(ruleset, devices[i], LL_DEVICE);
	}
	for (size_t i = 0; i < sizeof read_too / sizeof *read_too; i++) {
		allow_named(ruleset, read_too[i], LL_READ);
	}
	for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
		allow_named(ruleset, written[i], all);
	}
	/* For mail.c. */
	allow(ruleset, "/proc/self/exe", LL_READ);
	if (temp_folder()) {
		allow(ruleset, temp_folder(), all);
	}
	if (temp_sessions()) {
		allow(ruleset, temp_sessions(), all);
	}
	for (unsigned i = 0; i < options.folder_count; i++) {
		allow_folder(ruleset, options.folders[i].path, options.folders[i].writable ? all : LL_READ);
	}
	bool entered = syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
	close(ruleset);
	return entered;
}

/* ---- seccomp ---- */

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define REFUSE(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* Skips the next `skip` unless the loaded word is `value`. */
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skip))
#define LOW_WORD(n) (offsetof(struct seccomp_data, args) + (n) * 8 + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0))
#define NEW_NAMESPACES 0x7e020000u

/* Calls that manage the machine, read other processes' memory, or only open more of the kernel to an attacker. */
static const int refused[] = { SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_mount, SYS_umount2,
	SYS_pivot_root, SYS_chroot, SYS_setns, SYS_unshare, SYS_kexec_load, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd,
	SYS_keyctl, SYS_add_key, SYS_request_key, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_reboot, SYS_swapon,
	SYS_swapoff, SYS_acct, SYS_quotactl, SYS_syslog, SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime, SYS_adjtimex,
	SYS_sethostname, SYS_setdomainname, SYS_open_by_handle_at, SYS_vhangup, SYS_lookup_dcookie, SYS_nfsservctl,
#ifdef SYS_iopl
	SYS_iopl, SYS_ioperm, SYS_modify_ldt,
#endif
#ifdef SYS_kexec_file_load
	SYS_kexec_file_load,
#endif
	425 /* io_uring_setup */, 428 /* open_tree */, 429 /* move_mount */, 430 /* fsopen */, 431 /* fsconfig */, 432 /* fsmount */,
	433 /* fspick */, 438 /* pidfd_getfd */, 442 /* mount_setattr */ };
/* Calls whose first argument is a process. */
static const int of_processes[] = { SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
	434 /* pidfd_open */ };

struct program {
	struct sock_filter code[256];
	unsigned short length;
};

static void put(struct program *program, const struct sock_filter *code, size_t count)
{
	memcpy(program->code + program->length, code, count * sizeof *code);
	program->length = (unsigned short)(program->length + count);
}

#define PUT(...) do { \
	const struct sock_filter code[] = { __VA_ARGS__ }; \
	put(&program, code, sizeof code / sizeof *code); \
} while (0)

/*
 * Decides by the call's number alone as far as possible: the kernel (5.11) remembers such permissions, so they cost
 * nothing. clone3 hides its flags behind a pointer; without it the C library uses clone.
 */
static bool enter_seccomp(pid_t host, pid_t server)
{
#ifdef NATIVE
	struct program program = { .length = 0 };
	PUT(LOAD(arch), UNLESS(NATIVE, 1), BPF_STMT(BPF_JMP | BPF_JA, 1), REFUSE(ENOSYS), LOAD(nr));
#ifdef __x86_64__
	PUT(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1), REFUSE(ENOSYS));
#endif
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		PUT(UNLESS((unsigned)refused[i], 1), REFUSE(EPERM));
	}
	PUT(UNLESS(435 /* clone3 */, 1), REFUSE(ENOSYS));
	PUT(UNLESS(SYS_clone, 4), BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LOW_WORD(0)),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACES, 0, 1), REFUSE(EPERM), ALLOW);
	size_t count = sizeof of_processes / sizeof *of_processes;
	for (size_t i = 0; i < count; i++) {
		/* Jumps to the test of the process, which follows the ALLOW of all other calls. */
		PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)of_processes[i], (unsigned char)(count - i), 0));
	}
	PUT(ALLOW, BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LOW_WORD(0)), UNLESS((unsigned)host, 1), REFUSE(EPERM),
		UNLESS((unsigned)-host, 1), REFUSE(EPERM), UNLESS((unsigned)server, 1), REFUSE(EPERM), UNLESS((unsigned)-server, 1),
		REFUSE(EPERM), UNLESS((unsigned)-1, 1), REFUSE(EPERM), ALLOW);
	struct sock_fprog filter = { program.length, program.code };
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
#else
	(void)host;
	(void)server;
	return true;
#endif
}

/* Whether the kernel restricts files. */
bool sandbox_has_landlock(void)
{
	return options.sandbox && landlock_abi() != 0;
}

/* What of the sandbox this kernel has: a line of READY. */
const char *sandbox_says(void)
{
	static char text[64];
	long abi = landlock_abi();
	if (!options.sandbox) {
		return options.no_new_privileges ? "privileges" : "off";
	}
	snprintf(text, sizeof text, abi ? "landlock %ld, seccomp" : "seccomp", abi);
	return text;
}

/*
 * Called in a worker before it runs anything. False: the worker lacks a part of its sandbox that this kernel has, and must
 * not serve. A kernel without Landlock does not count: the server reports that at its start.
 */
bool sandbox_enter(pid_t host, pid_t server)
{
	long abi = landlock_abi();
	/* A process group of its own, so that kill(0) does not reach the host and the other workers. */
	setpgid(0, 0);
	if ((options.sandbox || options.no_new_privileges) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
		return false;
	}
	if (!options.sandbox) {
		return true;
	}
	return (!abi || enter_landlock(abi)) && enter_seccomp(host, server);
}
