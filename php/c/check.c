/*
 * What the host reports about the PHP that it started, opcache above all. A forked child, which starts a request as a
 * worker does, finds out whether opcache really works. Nothing of that request stays in the host.
 */
#include "worker.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds for the child: it compiles nothing, but preloaded files may have to be linked. */
#define PROBE_SECONDS 10

static size_t add(char *text, size_t length, size_t room, const char *format, ...) ZEND_ATTRIBUTE_FORMAT(printf, 4, 5);

static size_t add(char *text, size_t length, size_t room, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	int added = vsnprintf(text + length, room - length, format, values);
	va_end(values);
	return added < 0 || (size_t)added >= room - length ? length : length + (size_t)added;
}

/* In the child: "" if opcache works, else why it does not. */
static const char *opcache_fault(void)
{
	const char *fault = "opcache_get_status() does not exist";
	char *restrict_api = INI_STR("opcache.restrict_api");
	SG(request_info).path_translated = restrict_api && *restrict_api ? estrdup(restrict_api) : NULL;
	if (php_request_startup() == FAILURE) {
		return "PHP cannot start a request";
	}
	zend_try {
		zval name, status, argument;
		ZVAL_STRING(&name, "opcache_get_status");
		ZVAL_FALSE(&argument);
		if (zend_hash_str_exists(CG(function_table), Z_STRVAL(name), Z_STRLEN(name))
			&& call_user_function(NULL, NULL, &name, &status, 1, &argument) == SUCCESS) {
			zval *enabled = Z_TYPE(status) == IS_ARRAY
				? zend_hash_str_find(Z_ARRVAL(status), "opcache_enabled", sizeof "opcache_enabled" - 1)
				: NULL;
			fault = enabled && zend_is_true(enabled) ? "" : "opcache did not start";
		}
	} zend_catch {
		fault = "querying opcache ended in a fatal error";
	} zend_end_try();
	return fault;
}

/* Asks a child; the answer is written to `fault`. */
static void probe(char *fault, size_t room)
{
	int ends[2];
	snprintf(fault, room, "cannot start the process that queries opcache");
	if (pipe(ends) != 0) {
		return;
	}
	pid_t child = fork();
	if (child == 0) {
		const char *answer = opcache_fault();
		ssize_t written = write(ends[1], answer, strlen(answer) + 1);
		_exit(written < 0);
	}
	close(ends[1]);
	if (child > 0) {
		struct pollfd wait = { .fd = ends[0], .events = POLLIN };
		ssize_t got = poll(&wait, 1, PROBE_SECONDS * 1000) > 0 ? read(ends[0], fault, room - 1) : -1;
		if (got <= 0) {
			snprintf(fault, room, "the process that queries opcache did not respond");
		} else {
			fault[got] = 0;
		}
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	close(ends[0]);
}

/* opcache=on, or opcache=off and the reason with its cure. */
static size_t report_opcache(char *text, size_t length, size_t room)
{
	char fault[200] = "";
	if (!zend_get_extension("Zend OPcache")) {
		snprintf(fault, sizeof fault, "the extension is not loaded: apt-get install php%d.%d-opcache, or zend_extension=opcache",
			PHP_MAJOR_VERSION, PHP_MINOR_VERSION);
	} else if (!INI_BOOL("opcache.enable")) {
		snprintf(fault, sizeof fault, "opcache.enable is 0");
	} else {
		probe(fault, sizeof fault);
	}
	length = add(text, length, room, "opcache=%s\n", *fault ? "off" : "on");
	return *fault ? add(text, length, room, "opcache_reason=%s\n", fault) : length;
}

static size_t report_extensions(char *text, size_t length, size_t room)
{
	zend_module_entry *module;
	const char *separator = "";
	length = add(text, length, room, "extensions=");
	ZEND_HASH_FOREACH_PTR(&module_registry, module) {
		length = add(text, length, room - 1, "%s%s", separator, module->name);
		separator = ",";
	} ZEND_HASH_FOREACH_END();
	return add(text, length, room, "\n");
}

/* Writes the lines of READY; returns their length in bytes. */
size_t check_report(char *text, size_t room)
{
	size_t length = add(text, 0, room, "protocol=%u\n", MR_PROTOCOL);
	zval *version = zend_get_constant_str("PHP_VERSION", sizeof "PHP_VERSION" - 1);
	length = add(text, length, room, "php_version=%s\n", version ? Z_STRVAL_P(version) : PHP_VERSION);
	length = add(text, length, room, "sapi=%s\n", sapi_module.name);
	length = add(text, length, room, "ini_file=%s\n", php_ini_opened_path ? php_ini_opened_path : "");
	length = add(text, length, room, "ini_scanned=%s\n", php_ini_scanned_path ? php_ini_scanned_path : "");
	length = add(text, length, room, "sandbox=%s\n", sandbox_says());
	length = report_opcache(text, length, room);
	return report_extensions(text, length, room);
}
