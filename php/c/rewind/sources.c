/*
 * What the boot reads beside its request: files and the database. An image that outlives a second is compared with them again,
 * so they are noted while the boot runs: each file that it includes, opens or asks about (files.c), and each query that it sends by
 * mysqli_query(), with its rows. Where the boot reads in a way that cannot be compared - a prepared statement, another database, a
 * program, a connection - nothing is compared, and the image is thrown away after a second.
 *
 * The same functions tell that a request writes to the database, or does something else that must not be done twice.
 */
#include "rewind.h"

#include <Zend/zend_interfaces.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* `number`: of the argument that has SQL or a path; 0: none. */
#define FUNCTION(called, what, number) { .name = (called), .kind = (what), .argument = (number) }
#define METHOD(class, called, what, number) { .of = (class), .name = (called), .kind = (what), .argument = (number) }

enum kind {
	QUERY,     /* sends SQL, and returns the rows */
	STATEMENT, /* prepares SQL, or sends it without returning the rows */
	COMMIT,    /* ends a transaction */
	FOREIGN,   /* talks to another program, or to another server */
};

static struct watched watched[] = {
	FUNCTION("mysqli_query", QUERY, 2), METHOD("mysqli", "query", QUERY, 1), FUNCTION("mysqli_real_query", STATEMENT, 2),
	METHOD("mysqli", "real_query", STATEMENT, 1), FUNCTION("mysqli_multi_query", STATEMENT, 2),
	METHOD("mysqli", "multi_query", STATEMENT, 1), FUNCTION("mysqli_prepare", STATEMENT, 2),
	METHOD("mysqli", "prepare", STATEMENT, 1), FUNCTION("mysqli_execute_query", STATEMENT, 2),
	METHOD("mysqli", "execute_query", STATEMENT, 1), FUNCTION("mysqli_stmt_prepare", STATEMENT, 2),
	METHOD("mysqli_stmt", "prepare", STATEMENT, 1), METHOD("mysqli_stmt", "__construct", STATEMENT, 2),
	METHOD("pdo", "query", STATEMENT, 1), METHOD("pdo", "exec", STATEMENT, 1), METHOD("pdo", "prepare", STATEMENT, 1),
	METHOD("sqlite3", "query", STATEMENT, 1), METHOD("sqlite3", "exec", STATEMENT, 1),
	METHOD("sqlite3", "querysingle", STATEMENT, 1), METHOD("sqlite3", "prepare", STATEMENT, 1),
	FUNCTION("pg_query", STATEMENT, 2), FUNCTION("pg_prepare", STATEMENT, 3), FUNCTION("pg_query_params", STATEMENT, 2),
	FUNCTION("pg_send_query", STATEMENT, 2), FUNCTION("mysqli_commit", COMMIT, 0), METHOD("mysqli", "commit", COMMIT, 0),
	METHOD("pdo", "commit", COMMIT, 0), FUNCTION("curl_exec", FOREIGN, 0), FUNCTION("curl_multi_exec", FOREIGN, 0),
	FUNCTION("fsockopen", FOREIGN, 0), FUNCTION("pfsockopen", FOREIGN, 0), FUNCTION("stream_socket_client", FOREIGN, 0),
	FUNCTION("socket_connect", FOREIGN, 0), FUNCTION("exec", FOREIGN, 0), FUNCTION("shell_exec", FOREIGN, 0),
	FUNCTION("system", FOREIGN, 0), FUNCTION("passthru", FOREIGN, 0), FUNCTION("popen", FOREIGN, 0),
	FUNCTION("proc_open", FOREIGN, 0), FUNCTION("apcu_fetch", FOREIGN, 0), METHOD("redis", "connect", FOREIGN, 0),
	METHOD("redis", "pconnect", FOREIGN, 0), METHOD("memcached", "get", FOREIGN, 0), METHOD("memcached", "set", FOREIGN, 0),
	METHOD("memcached", "delete", FOREIGN, 0), FUNCTION("apcu_store", FOREIGN, 0), FUNCTION("apcu_delete", FOREIGN, 0),
};
#define WATCHED (sizeof watched / sizeof *watched)

enum of_files {
	ACT,  /* changes files, or sends mail */
	LOOK, /* asks about a file */
	LIST, /* asks for files by a pattern */
};

static struct watched of_files[] = {
	FUNCTION("mail", ACT, 0), FUNCTION("unlink", ACT, 0), FUNCTION("rename", ACT, 0), FUNCTION("mkdir", ACT, 0),
	FUNCTION("rmdir", ACT, 0), FUNCTION("link", ACT, 0), FUNCTION("file_exists", LOOK, 1), FUNCTION("is_file", LOOK, 1),
	FUNCTION("is_dir", LOOK, 1), FUNCTION("is_readable", LOOK, 1), FUNCTION("is_writable", LOOK, 1),
	FUNCTION("is_link", LOOK, 1), FUNCTION("filemtime", LOOK, 1), FUNCTION("filesize", LOOK, 1), FUNCTION("stat", LOOK, 1),
	FUNCTION("realpath", LOOK, 1), FUNCTION("glob", LIST, 1), FUNCTION("symlink", ACT, 0), FUNCTION("touch", ACT, 0),
	FUNCTION("chmod", ACT, 0),
};
#define OF_FILES_MOST (sizeof of_files / sizeof *of_files)

static bool noting;
/* Of the boot: its memory is the image's. */
static struct {
	bool incomparable;
	zval queries; /* a list of [SQL, rows] */
} boot;

/* ---- queries ---- */

static bool begins_with(const char *text, const char *const words[], size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(words[i]);
		if (strncasecmp(text, words[i], length) == 0 && !isalpha((unsigned char)text[length])) {
			return true;
		}
	}
	return false;
}

static const char *skip_to_sql(const char *sql)
{
	for (;;) {
		sql += strspn(sql, " \t\r\n(;");
		const char *end = strncmp(sql, "/*", 2) == 0 ? strstr(sql + 2, "*/") : NULL;
		if (!end) {
			return sql;
		}
		sql = end + 2;
	}
}

/* Whether it changes no table, as far as its first word says. What EXECUTE does was said by PREPARE in the same request. */
static bool only_reads(const char *sql)
{
	static const char *const words[] = { "SELECT", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "SET", "USE", "PRAGMA", "BEGIN", "START",
		"COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "VALUES", "WITH", "EXECUTE", "DEALLOCATE", "HANDLER", "DO" };
	return begins_with(sql, words, sizeof words / sizeof *words);
}

/* Whether the same query can be sent again, and has the same rows where nothing has changed. */
static bool is_comparable(const char *sql)
{
	static const char *const tables[] = { "SELECT", "SHOW", "DESCRIBE", "DESC" };
	static const char *const others[] = { "@", "GET_LOCK", "RELEASE_", "FOUND_ROWS", "LAST_INSERT", "CONNECTION_ID", "RAND(", "NOW(", "SYSDATE",
		"CURRENT_", "CURDATE", "CURTIME", "UNIX_TIMESTAMP(", "UTC_", "UUID", "SLEEP(", " INTO ", "FOR UPDATE" };
	if (!begins_with(sql, tables, sizeof tables / sizeof *tables)) {
		return false;
	}
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		if (strcasestr(sql, others[i])) {
			return false;
		}
	}
	return true;
}

/* Reads the rows of a mysqli_result, and leaves it as it was. */
static bool fetch_rows(zval *result, zval *rows)
{
	zval start, moved;
	ZVAL_LONG(&start, 0);
	ZVAL_UNDEF(rows);
	ZVAL_UNDEF(&moved);
	zend_call_method_with_0_params(Z_OBJ_P(result), Z_OBJCE_P(result), NULL, "fetch_all", rows);
	if (Z_TYPE_P(rows) == IS_ARRAY && zend_hash_num_elements(Z_ARRVAL_P(rows)) > 0) {
		zend_call_method_with_1_params(Z_OBJ_P(result), Z_OBJCE_P(result), NULL, "data_seek", &moved, &start);
	}
	return Z_TYPE_P(rows) == IS_ARRAY && !EG(exception);
}

static void note_query(zend_string *sql, zval *result)
{
	if (strcasestr(ZSTR_VAL(sql), "UUID(") || strcasestr(ZSTR_VAL(sql), "RANDOM_BYTES(")) {
		reads_note_random("random values of the database");
	}
	static const char *const settings[] = { "SET", "USE" };
	const char *text = skip_to_sql(ZSTR_VAL(sql));
	zval rows, one, copy;
	if (Z_TYPE_P(result) != IS_OBJECT) {
		boot.incomparable |= !begins_with(text, settings, sizeof settings / sizeof *settings);
		return;
	}
	/* WordPress asks for the SQL mode as soon as it is connected. */
	if (strncmp(text, "SELECT @@SESSION.sql_mode", 25) == 0) {
		return;
	}
	if (!is_comparable(text) || !fetch_rows(result, &rows)) {
		boot.incomparable = true;
		return;
	}
	array_init_size(&one, 2);
	ZVAL_STR_COPY(&copy, sql);
	add_next_index_zval(&one, &copy);
	add_next_index_zval(&one, &rows);
	if (Z_TYPE(boot.queries) != IS_ARRAY) {
		array_init(&boot.queries);
	}
	add_next_index_zval(&boot.queries, &one);
}

/* ---- files ---- */

static const php_stream_wrapper_ops *plain;
static php_stream_wrapper_ops noted;

/* What is no file on a disk has another content each time. */
static bool is_device(const char *path)
{
	struct stat file;
	bool is_of_kernel = strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0;
	return is_of_kernel || (stat(path, &file) == 0 && !S_ISREG(file.st_mode) && !S_ISDIR(file.st_mode));
}

static void note_file(const char *path, bool writes)
{
	boot.incomparable |= writes;
	if (is_device(path) && strcmp(path, "/dev/null") != 0) {
		reads_note_random("a device");
	}
	files_note(path);
}

/* ---- functions ---- */

/* Whether the drop-in of the object cache connects: it says itself what it changes, and compares what the boot has read. */
static bool is_object_cache(const zend_execute_data *execute_data)
{
	const zend_execute_data *caller = EX(prev_execute_data);
	const zend_class_entry *class = caller && caller->func ? caller->func->common.scope : NULL;
	return class && zend_string_equals_literal(class->name, "Millrace_Objects");
}

static void on_call(INTERNAL_FUNCTION_PARAMETERS)
{
	const struct watched *one = watch_called(watched, WATCHED, execute_data);
	if (one->kind == FOREIGN && is_object_cache(execute_data)) {
		one->original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
		return;
	}
	const zval *argument = one->argument && ZEND_NUM_ARGS() >= one->argument ? ZEND_CALL_ARG(execute_data, one->argument) : NULL;
	zend_string *sql = argument && Z_TYPE_P(argument) == IS_STRING ? zend_string_copy(Z_STR_P(argument)) : NULL;
	const char *text = sql ? skip_to_sql(ZSTR_VAL(sql)) : NULL;
	bool writes = text && !only_reads(text);
	bool commits = one->kind == COMMIT || (text && strncasecmp(text, "COMMIT", 6) == 0);
	if (one->kind == FOREIGN) {
		rewind_acted();
	} else if (writes) {
		rewind_writes();
	}
	one->original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	if (writes) {
		rewind_wrote();
	} else if (commits) {
		rewind_written();
	}
	bool is_query = one->kind == QUERY && sql && ZEND_NUM_ARGS() == one->argument;
	if (noting && is_query && !EG(exception)) {
		note_query(sql, return_value);
	} else if (noting) {
		boot.incomparable = true;
	}
	if (sql) {
		zend_string_release(sql);
	}
}

static void on_call_of_files(INTERNAL_FUNCTION_PARAMETERS)
{
	const struct watched *one = watch_called(of_files, OF_FILES_MOST, execute_data);
	const zval *path = one->argument && ZEND_NUM_ARGS() >= one->argument ? ZEND_CALL_ARG(execute_data, one->argument) : NULL;
	bool is_noted = noting && path && Z_TYPE_P(path) == IS_STRING && Z_STRLEN_P(path) && !strstr(Z_STRVAL_P(path), "://");
	if (one->kind == ACT) {
		rewind_acted();
	} else if (is_noted && one->kind == LIST) {
		files_note_pattern(Z_STRVAL_P(path));
	} else if (is_noted) {
		files_note_asked(Z_STRVAL_P(path));
	}
	one->original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static php_stream *on_open(php_stream_wrapper *wrapper, const char *path, const char *mode, int flags, zend_string **opened,
	php_stream_context *context STREAMS_DC)
{
	bool writes = mode[0] != 'r' || strchr(mode, '+');
	if (writes) {
		rewind_acted();
	}
	if (noting) {
		note_file(path, writes);
	}
	return plain->stream_opener(wrapper, path, mode, flags, opened, context STREAMS_REL_CC);
}

static php_stream *on_list(php_stream_wrapper *wrapper, const char *path, const char *mode, int flags, zend_string **opened,
	php_stream_context *context STREAMS_DC)
{
	if (noting) {
		files_note(path);
	}
	return plain->dir_opener(wrapper, path, mode, flags, opened, context STREAMS_REL_CC);
}

/* ---- life ---- */

/* In the host, before anything is compiled. */
void sources_startup(void)
{
	plain = php_plain_files_wrapper.wops;
	noted = *plain;
	noted.stream_opener = on_open;
	noted.dir_opener = on_list;
	php_plain_files_wrapper.wops = &noted;
	watch_functions(watched, WATCHED, on_call);
	watch_functions(of_files, OF_FILES_MOST, on_call_of_files);
}

/* A request begins that may come to a point. */
void sources_begin(void)
{
	memset(&boot, 0, sizeof boot);
	files_begin();
	noting = true;
}

/* It has ended, and its memory with it. */
void sources_end(void)
{
	noting = false;
	memset(&boot, 0, sizeof boot);
	files_end();
}

/* At the point: whether all that the boot has read can be compared, and is older than the boot. */
bool sources_take(void)
{
	noting = false;
	return files_take() && !boot.incomparable;
}

/* See ../../stubs/millrace.php. */
PHP_FUNCTION(millrace_rewind_queries)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (Z_TYPE(boot.queries) == IS_ARRAY) {
		RETURN_COPY(&boot.queries);
	}
	RETURN_EMPTY_ARRAY();
}
