/*
 * Landlock. It is used from ABI 2 on (Linux 5.19): ABI 1 forbids to move a file to another directory. From ABI 6 on (6.12) it
 * also keeps a worker's signals inside the domain of its host; before, signals.c does, with the help of a domain.
 */
#include "sandbox.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* include/uapi/linux/landlock.h; the distribution's header may be older than its kernel. */

#define LL_EXECUTE (1u << 0)
#define LL_WRITE_FILE (1u << 1)
#define LL_READ_FILE (1u << 2)
#define LL_READ_DIR (1u << 3)
#define LL_REFER (1u << 13)
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
long landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LL_VERSION);
	return abi >= LL_LEAST_ABI ? abi : 0;
}

/* All rights for files that this kernel knows. */
static uint64_t all_rights(long abi)
{
	return abi > LL_LEAST_ABI ? LL_ALL_OF_ABI_3 : LL_ALL_OF_ABI_2;
}

/* Adds a rule for a path; false: the path does not exist. */
static bool add_rule(int ruleset, const char *path, uint64_t rights)
{
	struct stat found;
	struct path_rule rule = { rights & all_rights(landlock_abi()), open(path, O_PATH | O_CLOEXEC) };
	bool added = false;
	if (rule.parent >= 0 && fstat(rule.parent, &found) == 0) {
		rule.rights &= S_ISDIR(found.st_mode) ? ~(uint64_t)0 : LL_OF_FILES;
		added = syscall(SYS_landlock_add_rule, ruleset, LL_PATH_BENEATH, &rule, 0) == 0;
	}
	if (rule.parent >= 0) {
		close(rule.parent);
	}
	return added;
}

/* The same, and scripts find the path open. */
static void allow(int ruleset, const char *path, uint64_t rights)
{
	if (add_rule(ruleset, path, rights)) {
		private_open(path, rights & LL_WRITE_FILE);
	}
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

static bool restrict_and_close(int ruleset)
{
	bool entered = syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
	close(ruleset);
	return entered;
}

/*
 * Enters a domain; what this process starts is in it. With `scoped` no signal leaves it. Without, it forbids nothing: moving files
 * between folders, which a domain can forbid on every kernel that has one, is allowed everywhere.
 */
bool landlock_enter_domain(bool scoped)
{
	struct ruleset handled = { .files = scoped ? 0 : LL_REFER, .scoped = scoped ? LL_SCOPE_SIGNAL : 0 };
	size_t length = scoped ? sizeof handled : sizeof handled.files;
	int ruleset = (int)syscall(SYS_landlock_create_ruleset, &handled, length, 0);
	return ruleset >= 0 && (scoped || add_rule(ruleset, "/", LL_REFER)) && restrict_and_close(ruleset);
}

/* Each worker makes its own rules: when a folder is replaced by another of the same name, later workers get the new one. */
bool landlock_enter_folders(void)
{
	uint64_t all = all_rights(landlock_abi());
	int ruleset = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0);
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
	return restrict_and_close(ruleset);
}
