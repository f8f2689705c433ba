/* What paths.c asks private.c. */
#ifndef MILLRACE_PATHS_H
#define MILLRACE_PATHS_H

#include <fcntl.h>
#include <stdbool.h>

const char *private_path(const char *path, char *room);
bool private_is_writable(const char *path);
void private_denied(const char *path, bool writing);

#endif
