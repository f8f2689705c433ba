/*
 * Functions of the C library that take a path, for PHP and all libraries, which take them from the program instead, since it exports
 * them (build.rs). Each asks private.c for the path to use, and tells it what was refused.
 */
#include "paths.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>

/* The C library's own function. */
#define REAL(name) ({ \
	static __typeof__(&name) found; \
	if (!found) { \
		found = (__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name); \
	} \
	found; \
})

static int told(int result, const char *path, bool writing)
{
	if (result < 0 && errno == EACCES) {
		private_denied(path, writing);
	}
	return result;
}

/* int NAME(path, more), which reads or changes what the path names. */
#define CALL_0(name, writing) \
	int name(const char *path) \
	{ \
		char room[PATH_MAX]; \
		path = private_path(path, room); \
		return told(REAL(name)(path), path, writing); \
	}
#define CALL_1(name, writing, one) \
	int name(const char *path, one a) \
	{ \
		char room[PATH_MAX]; \
		path = private_path(path, room); \
		return told(REAL(name)(path, a), path, writing); \
	}
#define CALL_2(name, writing, one, two) \
	int name(const char *path, one a, two b) \
	{ \
		char room[PATH_MAX]; \
		path = private_path(path, room); \
		return told(REAL(name)(path, a, b), path, writing); \
	}
/* Two paths. */
#define CALL_PATHS(name) \
	int name(const char *from, const char *to) \
	{ \
		char room[PATH_MAX], other[PATH_MAX]; \
		from = private_path(from, room); \
		to = private_path(to, other); \
		return told(REAL(name)(from, to), to, true); \
	}
/* int NAME(path, flags, mode), with the mode only if the flags say so. `before`: AT if a folder comes before the path. */
#define PARAMETER_NONE
#define PARAMETER_AT int at,
#define ARGUMENT_NONE
#define ARGUMENT_AT at,
#define CALL_OPEN(name, before) \
	int name(PARAMETER_##before const char *path, int flags, ...) \
	{ \
		char room[PATH_MAX]; \
		va_list rest; \
		va_start(rest, flags); \
		mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
		va_end(rest); \
		path = private_path(path, room); \
		return told(REAL(name)(ARGUMENT_##before path, flags, mode), path, (flags & O_ACCMODE) != O_RDONLY); \
	}
#define CALL_FOPEN(name) \
	FILE *name(const char *path, const char *mode) \
	{ \
		char room[PATH_MAX]; \
		path = private_path(path, room); \
		FILE *file = REAL(name)(path, mode); \
		told(file ? 0 : -1, path, *mode != 'r' || strchr(mode, '+')); \
		return file; \
	}
#define CALL_SCANDIR(name, entry) \
	int name(const char *path, struct entry ***list, int (*filter)(const struct entry *), \
		int (*compare)(const struct entry **, const struct entry **)) \
	{ \
		char room[PATH_MAX]; \
		path = private_path(path, room); \
		return told(REAL(name)(path, list, filter, compare), path, false); \
	}
/* Replaces the last six characters of its argument. */
#define CALL_MKSTEMP(name) \
	int name(char *path) \
	{ \
		char room[PATH_MAX]; \
		size_t length = strlen(path); \
		if (private_path(path, room) == path) { \
			return told(REAL(name)(path), path, true); \
		} \
		int file = REAL(name)(room); \
		if (length >= 6) { \
			memcpy(path + length - 6, room + strlen(room) - 6, 6); \
		} \
		return file; \
	}

CALL_0(chdir, false)
CALL_0(rmdir, true)
CALL_0(unlink, true)
CALL_1(mkdir, true, mode_t)
CALL_1(chmod, true, mode_t)
CALL_1(truncate, true, off_t)
CALL_1(utime, true, const struct utimbuf *)
CALL_1(stat, false, struct stat *)
CALL_1(stat64, false, struct stat64 *)
CALL_1(lstat, false, struct stat *)
CALL_1(lstat64, false, struct stat64 *)
CALL_1(statvfs, false, struct statvfs *)
CALL_2(chown, true, uid_t, gid_t)
CALL_2(lchown, true, uid_t, gid_t)
CALL_PATHS(rename)
CALL_PATHS(link)
CALL_OPEN(open, NONE)
CALL_OPEN(open64, NONE)
CALL_OPEN(openat, AT)
CALL_OPEN(openat64, AT)
CALL_FOPEN(fopen)
CALL_FOPEN(fopen64)
CALL_SCANDIR(scandir, dirent)
CALL_MKSTEMP(mkstemp)
CALL_MKSTEMP(mkstemp64)

int utimes(const char *path, const struct timeval times[2])
{
	char room[PATH_MAX];
	path = private_path(path, room);
	return told(REAL(utimes)(path, times), path, true);
}

int access(const char *path, int mode)
{
	char room[PATH_MAX];
	path = private_path(path, room);
	int result = REAL(access)(path, mode);
	if (result == 0 && (mode & W_OK) && !private_is_writable(path)) {
		errno = EACCES;
		return -1;
	}
	return result;
}

/* What a link contains is a path for the kernel, which knows no private folder. */
int symlink(const char *to, const char *path)
{
	char room[PATH_MAX], other[PATH_MAX];
	path = private_path(path, room);
	return told(REAL(symlink)(private_path(to, other), path), path, true);
}

ssize_t readlink(const char *path, char *to, size_t length)
{
	char room[PATH_MAX];
	return REAL(readlink)(private_path(path, room), to, length);
}

DIR *opendir(const char *path)
{
	char room[PATH_MAX];
	path = private_path(path, room);
	DIR *list = REAL(opendir)(path);
	told(list ? 0 : -1, path, false);
	return list;
}

int glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *found)
{
	char room[PATH_MAX];
	return REAL(glob)(private_path(pattern, room), flags, error, found);
}
