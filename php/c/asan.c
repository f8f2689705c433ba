/*
 * Only in builds with AddressSanitizer (MILLRACE_ASAN=1). PHP loads extensions with RTLD_DEEPBIND, with which the sanitizer
 * refuses to run; this file removes that flag.
 */
#include <dlfcn.h>

void *dlopen(const char *file, int mode);

void *dlopen(const char *file, int mode)
{
	static void *(*next)(const char *, int);
	if (!next) {
		next = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
	}
	return next(file, mode & ~RTLD_DEEPBIND);
}
