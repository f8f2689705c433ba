/*
 * A private /tmp: what scripts call /tmp or /var/tmp is the host's own temporary folder, which sys_get_temp_dir() and TMPDIR name,
 * too. Installers write the literal path into settings, and the sandbox closes the folder that all users share. paths.c stands before the
 * functions of the C library that take a path. Programs that scripts start have TMPDIR.
 *
 * What Landlock refuses is said in the log, once for each folder: to PHP it looks like a missing permission.
 */
#include "sandbox.h"
#include "paths.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <syslog.h>
#include <unistd.h>

/* Folders that the log names; behind them it says once that there are more. */
#define NAMED 64
/* Places that Landlock opens. */
#define PLACES 256

static bool active;                 /* this process is a worker in the sandbox */
static uint64_t *named;             /* digests of folders; shared by all workers of the host */
static struct { char *path; size_t length; bool writable; } places[PLACES];
static size_t place_count;
static bool all_known = true;       /* `places` has all of them */

/* Whether a path is a folder, or lies in it. */
static bool is_below(const char *path, const char *folder, size_t length)
{
	return strncmp(path, folder, length) == 0 && (path[length] == 0 || path[length] == '/');
}

/* Called where Landlock gets a rule. */
void private_open(const char *path, bool may_write)
{
	char *real = realpath(path, NULL);
	if (!real) {
		return;
	}
	if (place_count == PLACES) {
		all_known = false;
		free(real);
		return;
	}
	places[place_count].path = real;
	places[place_count].writable = may_write;
	places[place_count++].length = strlen(real);
}

/* Called in the host. */
void private_prepare(void)
{
	void *room = mmap(NULL, (NAMED + 1) * sizeof *named, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	named = room == MAP_FAILED ? NULL : room;
}

/* Called in a worker that has entered its sandbox, if Landlock closes /tmp. */
void private_start(void)
{
	active = true;
}

/* ---- /tmp ---- */

static bool climbs(const char *path)
{
	for (const char *dots = strstr(path, "/.."); dots; dots = strstr(dots + 1, "/..")) {
		if (dots[3] == 0 || dots[3] == '/') {
			return true;
		}
	}
	return false;
}

/* Whether a folder that the worker may use lies there, or contains it. */
static bool is_of_site(const char *path)
{
	size_t length = strlen(path);
	for (unsigned i = 0; i < options.folder_count; i++) {
		const char *folder = options.folders[i].path;
		if (is_below(path, folder, strlen(folder)) || is_below(folder, path, length)) {
			return true;
		}
	}
	for (size_t i = 0; i < place_count; i++) {
		if (is_below(path, places[i].path, places[i].length) || is_below(places[i].path, path, length)) {
			return true;
		}
	}
	return false;
}

/* The path to use instead, in `room` of PATH_MAX bytes, or the path itself. */
const char *private_path(const char *path, char *room)
{
	static const char *const shared[] = { "/tmp", "/var/tmp" };
	if (!active || !path || path[0] != '/' || (path[1] != 't' && path[1] != 'v') || !temp_folder()) {
		return path;
	}
	for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
		size_t length = strlen(shared[i]);
		if (!is_below(path, shared[i], length)) {
			continue;
		}
		const char *rest = path + length;
		bool itself = rest[strspn(rest, "/")] == 0;
		if (climbs(path) || (!itself && is_of_site(path))
			|| snprintf(room, PATH_MAX, "%s%s", temp_folder(), itself ? "" : rest) >= PATH_MAX) {
			return path;
		}
		return room;
	}
	return path;
}

/* Whether scripts may write there as far as Landlock knows: access(2) asks only about permissions. */
bool private_is_writable(const char *path)
{
	char real[PATH_MAX];
	struct stat found;
	/* Landlock does not decide about connections to a socket. */
	if (!active || !all_known || !realpath(path, real) || lstat(real, &found) != 0 || S_ISSOCK(found.st_mode)) {
		return true;
	}
	for (size_t i = 0; i < place_count; i++) {
		if (places[i].writable && is_below(real, places[i].path, places[i].length)) {
			return true;
		}
	}
	return false;
}

/* ---- the log ---- */

/* Whether it is the first time that a folder is named; of the many, only that there are more. */
static bool is_news(const char *folder, bool *last)
{
	uint64_t digest = UINT64_C(0xcbf29ce484222325);
	for (const char *at = folder; *at; at++) {
		digest = (digest ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
	}
	digest |= digest == 0;
	for (size_t i = 0; named && i <= NAMED; i++) {
		uint64_t none = 0;
		*last = i == NAMED;
		if (__atomic_compare_exchange_n(&named[i], &none, digest, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			return true;
		}
		if (none == digest) {
			return false;
		}
	}
	return false;
}

/* A call has failed with EACCES. If permissions would allow it, it was the sandbox. */
void private_denied(const char *path, bool writing)
{
	char folder[PATH_MAX], text[PATH_MAX + 300];
	bool last;
	int error = errno;
	const char *slash = strrchr(path, '/');
	if (!active || !worker || worker->answer == ANSWER_NONE || worker->answer == ANSWER_VOID || path[0] != '/'
		|| syscall(SYS_gettid) != getpid() || snprintf(folder, sizeof folder, "%s/.", path) >= PATH_MAX) {
		return;
	}
	/* The folder itself, or the one that contains the file. */
	bool is_folder = syscall(SYS_faccessat, AT_FDCWD, folder, F_OK) == 0;
	folder[is_folder ? strlen(path) : MAX(1, (size_t)(slash - path))] = 0;
	bool exists = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
	int mode = writing ? W_OK : R_OK;
	bool permitted = exists ? syscall(SYS_faccessat, AT_FDCWD, path, mode) == 0
		: writing && syscall(SYS_faccessat, AT_FDCWD, folder, W_OK | X_OK) == 0;
	if (permitted && is_news(folder, &last)) {
		int length = snprintf(text, sizeof text, last
			? "Millrace's sandbox keeps scripts out of more folders, which are not named any more: see php.folders and php.sandbox"
			: "Millrace's sandbox does not let scripts %s %s: add the folder to php.folders if the site needs it (php.sandbox)",
			writing ? "write in" : "read in", folder);
		wire_log(LOG_WARNING, text, MIN((size_t)length, sizeof text - 1));
	}
	errno = error;
}
