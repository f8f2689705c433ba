/*
 * Streams that PHP opens, whichever function does it: libxml, an extension, an include. Files on disks are noted, to be compared (files.c),
 * as long as they are only read. Memory, data: and the request's empty content are the process's own. All else - the network, archives,
 * descriptors, what an extension brings - refuses the image, and must not be done twice.
 */
#include "rewind.h"

#include <string.h>
#include <sys/stat.h>

static const php_stream_wrapper_ops *plain;
static php_stream_wrapper_ops noted;

/* ---- files ---- */

/* What is no file on a disk has another content each time. */
static bool is_device(const char *path)
{
	struct stat file;
	bool is_of_kernel = strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0;
	return is_of_kernel || (stat(path, &file) == 0 && !S_ISREG(file.st_mode) && !S_ISDIR(file.st_mode));
}

static php_stream *on_open(php_stream_wrapper *wrapper, const char *path, const char *mode, int flags, zend_string **opened,
	php_stream_context *context STREAMS_DC)
{
	if (mode[0] != 'r' || strchr(mode, '+')) {
		gate_acts("writes a file");
	} else if (gate == GATE_BOOT && is_device(path) && strcmp(path, "/dev/null") != 0) {
		gate_refuse("reads a device");
	} else if (gate == GATE_BOOT) {
		files_note(path);
	}
	return plain->stream_opener(wrapper, path, mode, flags, opened, context STREAMS_REL_CC);
}

static php_stream *on_list(php_stream_wrapper *wrapper, const char *path, const char *mode, int flags, zend_string **opened,
	php_stream_context *context STREAMS_DC)
{
	if (gate == GATE_BOOT) {
		files_note(path);
	}
	return plain->dir_opener(wrapper, path, mode, flags, opened, context STREAMS_REL_CC);
}

/* ---- others ---- */

/* A wrapper in the place of PHP's: functions know it by its address, so each has its own. */
struct ours {
	php_stream_wrapper wrapper;
	php_stream_wrapper_ops ops;
	const php_stream_wrapper_ops *were;
	char what[40];
};

static struct ours *ours_of(php_stream_wrapper *wrapper)
{
	return (struct ours *)(void *)wrapper;
}

static php_stream *on_open_other(php_stream_wrapper *wrapper, const char *path, const char *mode, int flags, zend_string **opened,
	php_stream_context *context STREAMS_DC)
{
	gate_acts(ours_of(wrapper)->what);
	return ours_of(wrapper)->were->stream_opener(wrapper, path, mode, flags, opened, context STREAMS_REL_CC);
}

/* php://memory and the like; what php://filter opens is a stream of its own. */
static php_stream *on_open_php(php_stream_wrapper *wrapper, const char *path, const char *mode, int flags, zend_string **opened,
	php_stream_context *context STREAMS_DC)
{
	static const char *const own[] = { "memory", "temp", "input", "output", "filter" };
	const char *name = strncasecmp(path, "php://", 6) == 0 ? path + 6 : path;
	bool is_own = false;
	for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
		size_t length = strlen(own[i]);
		is_own |= strncasecmp(name, own[i], length) == 0 && (!name[length] || name[length] == '/');
	}
	if (!is_own) {
		gate_acts("opens a descriptor");
	}
	return ours_of(wrapper)->were->stream_opener(wrapper, path, mode, flags, opened, context STREAMS_REL_CC);
}

static php_stream *on_list_other(php_stream_wrapper *wrapper, const char *path, const char *mode, int flags, zend_string **opened,
	php_stream_context *context STREAMS_DC)
{
	bool is_pattern = strncasecmp(path, "glob://", 7) == 0;
	if (!is_pattern) {
		gate_acts(ours_of(wrapper)->what);
	} else if (gate == GATE_BOOT) {
		files_note_pattern(path + 7);
	}
	return ours_of(wrapper)->were->dir_opener(wrapper, path, mode, flags, opened, context STREAMS_REL_CC);
}

static int on_stat(php_stream_wrapper *wrapper, const char *path, int flags, php_stream_statbuf *state, php_stream_context *context)
{
	gate_acts(ours_of(wrapper)->what);
	return ours_of(wrapper)->were->url_stat(wrapper, path, flags, state, context);
}

/* Not for files: unlink() and the like are functions that are refused (gate.c). */
static void take(const char *name, zval *place)
{
	php_stream_wrapper *was = Z_PTR_P(place);
	struct ours *ours = pecalloc(1, sizeof *ours, true);
	bool is_data = strcmp(name, "data") == 0;
	ours->wrapper = *was;
	ours->ops = *was->wops;
	ours->were = was->wops;
	ours->wrapper.wops = &ours->ops;
	snprintf(ours->what, sizeof ours->what, "opens %.20s://", name);
	if (ours->ops.stream_opener && !is_data) {
		ours->ops.stream_opener = strcmp(name, "php") == 0 ? on_open_php : on_open_other;
	}
	if (ours->ops.dir_opener) {
		ours->ops.dir_opener = on_list_other;
	}
	if (ours->ops.url_stat) {
		ours->ops.url_stat = on_stat;
	}
	Z_PTR_P(place) = &ours->wrapper;
}

/* In the host, when all extensions are loaded. */
void streams_watch(void)
{
	zend_string *name;
	zval *place;
	plain = php_plain_files_wrapper.wops;
	noted = *plain;
	noted.stream_opener = on_open;
	noted.dir_opener = on_list;
	php_plain_files_wrapper.wops = &noted;
	ZEND_HASH_FOREACH_STR_KEY_VAL(php_stream_get_url_stream_wrappers_hash_global(), name, place) {
		if (Z_PTR_P(place) != &php_plain_files_wrapper) {
			take(ZSTR_VAL(name), place);
		}
	} ZEND_HASH_FOREACH_END();
}
