/*
 * What the boot reads of the database: each query that it sends by mysqli_query() is noted with its rows, to be sent again, and what it sets for
 * the session, to be set again on the next connection. SQLite is read without that: then nothing is compared, and the image is thrown away after a second.
 *
 * The same functions tell that a request writes to the database.
 */
#include "rewind.h"

#include <Zend/zend_interfaces.h>
#include <string.h>
#include <strings.h>

/* Of the boot: its memory is the image's. */
static struct {
	bool incomparable;
	zval queries;  /* a list of [SQL, rows] */
	zval settings; /* a list of [function, argument] */
	bool counts;   /* the last query has counted rows, for FOUND_ROWS() */
} boot;

/* ---- noting ---- */

/* Whether WordPress connects: it does all that it does there again for each request. */
static bool is_connecting(void)
{
	for (const zend_execute_data *frame = EG(current_execute_data); frame; frame = frame->prev_execute_data) {
		const zend_function *function = frame->func;
		if (function && function->common.scope && function->common.function_name
			&& zend_string_equals_literal(function->common.function_name, "db_connect")
			&& (zend_string_equals_literal(function->common.scope->name, "wpdb")
				|| zend_string_equals_literal(function->common.scope->name, "WP_SQLite_DB"))) {
			return true;
		}
	}
	return false;
}

static void add(zval *list, const char *first, size_t length, zval *second)
{
	zval one;
	array_init_size(&one, 2);
	add_next_index_stringl(&one, first, length);
	add_next_index_zval(&one, second);
	if (Z_TYPE_P(list) != IS_ARRAY) {
		array_init(list);
	}
	add_next_index_zval(list, &one);
}

/* What the connection gets again: `how` it was said. */
static void note_setting(const char *how, zend_string *what)
{
	zval value;
	ZVAL_STR_COPY(&value, what);
	add(&boot.settings, how, strlen(how), &value);
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

static void note_rows(zend_string *sql, zval *result)
{
	zval rows;
	ZVAL_FALSE(&rows);
	if (Z_TYPE_P(result) == IS_OBJECT && !fetch_rows(result, &rows)) {
		gate_refuse("sends a query whose rows cannot be read");
		return;
	}
	boot.counts = strcasestr(ZSTR_VAL(sql), "SQL_CALC_FOUND_ROWS") != NULL;
	add(&boot.queries, ZSTR_VAL(sql), ZSTR_LEN(sql), &rows);
}

/* ---- functions ---- */

/* What a function of the database says, by its place and its text. */
static enum sql said(const struct gated *one, const zend_string *sql)
{
	enum finds finds = gate != GATE_BOOT ? FOR_ONE : boot.counts ? WITH_COUNT : FOR_ALL;
	switch (one->kind) {
		case KIND_CHARSET:
		case KIND_DATABASE:
			return SQL_SETS;
		case KIND_COMMIT:
		case KIND_SQLITE_COMMIT:
			return SQL_COMMITS;
		case KIND_TRANSACTION:
		case KIND_SQLITE:
			return SQL_KEEPS;
		default:
			break;
	}
	enum sql kind = sql ? sql_kind(ZSTR_VAL(sql), finds) : SQL_WRITES;
	if (one->kind == KIND_STATEMENT && kind == SQL_UNKNOWN) {
		/* There may be more than one, of which another one writes. */
		return SQL_WRITES;
	}
	/* To SQLite, a backslash in a text is a character as others are: the text may end elsewhere. */
	bool is_unclear = one->kind == KIND_SQLITE_STATEMENT && kind == SQL_READS && strchr(ZSTR_VAL(sql), '\\');
	return is_unclear ? SQL_UNKNOWN : kind;
}

/* Whether an image may be of a boot that says this. */
static bool may_boot(const struct gated *one, enum sql kind, const zend_string *argument, bool has_more)
{
	switch (one->kind) {
		case KIND_QUERY:
			return (kind == SQL_READS || kind == SQL_SETS) && !has_more;
		case KIND_CHARSET:
		case KIND_DATABASE:
			return argument != NULL;
		case KIND_SQLITE:
			return argument && strncasecmp(ZSTR_VAL(argument), "sqlite:", 7) == 0;
		case KIND_SQLITE_STATEMENT:
		case KIND_SQLITE_COMMIT:
			return kind == SQL_READS || kind == SQL_KEEPS || kind == SQL_COMMITS;
		default:
			return false;
	}
}

static void note(const struct gated *one, enum sql kind, zend_string *argument, zval *result)
{
	switch (one->kind) {
		case KIND_QUERY:
			if (kind == SQL_READS) {
				note_rows(argument, result);
			} else {
				note_setting("query", argument);
			}
			return;
		case KIND_CHARSET:
			note_setting("set_charset", argument);
			return;
		case KIND_DATABASE:
			note_setting("select_db", argument);
			return;
		default:
			boot.incomparable = true;
	}
}

/* A function that talks to a database is called. */
void sources_call(INTERNAL_FUNCTION_PARAMETERS, const struct gated *one)
{
	zval *given = one->argument && ZEND_NUM_ARGS() >= one->argument ? ZEND_CALL_ARG(execute_data, one->argument) : NULL;
	if (given) {
		ZVAL_DEREF(given);
	}
	zend_string *text = given && Z_TYPE_P(given) == IS_STRING ? zend_string_copy(Z_STR_P(given)) : NULL;
	enum sql kind = said(one, text);
	bool connects = (gate == GATE_BOOT || kind == SQL_WRITES) && is_connecting();
	bool is_noted = gate == GATE_BOOT && !connects;
	/* With SQLite it makes its tables if they are not there. */
	kind = connects && kind == SQL_WRITES ? SQL_KEEPS : kind;
	if (is_noted && !may_boot(one, kind, text, ZEND_NUM_ARGS() > one->argument)) {
		gate_refuse_call(EX(func));
	}
	if (kind == SQL_WRITES) {
		rewind_writes();
	} else if (kind == SQL_UNKNOWN && gate == GATE_BEHIND) {
		rewind_acted();
	}
	one->original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	if (kind == SQL_WRITES) {
		rewind_wrote();
	} else if (kind == SQL_COMMITS) {
		rewind_written();
	}
	if (is_noted && gate == GATE_BOOT && !EG(exception)) {
		note(one, kind, text, return_value);
	} else if (is_noted && EG(exception)) {
		gate_refuse("sends a query that throws an exception");
	}
	if (text) {
		zend_string_release(text);
	}
}

/* ---- life ---- */

/* A request begins that may come to a point. */
void sources_begin(void)
{
	memset(&boot, 0, sizeof boot);
	files_begin();
}

/* It has ended, and its memory with it. */
void sources_end(void)
{
	memset(&boot, 0, sizeof boot);
	files_end();
}

/* At the point: whether all that the boot has read can be compared, and is older than the boot. */
bool sources_take(void)
{
	return files_take() && !boot.incomparable;
}

static void return_list(zval *return_value, zval *list)
{
	if (Z_TYPE_P(list) == IS_ARRAY) {
		ZVAL_COPY(return_value, list);
	} else {
		RETVAL_EMPTY_ARRAY();
	}
}

/* See ../../stubs/millrace.php. */
PHP_FUNCTION(millrace_rewind_queries)
{
	ZEND_PARSE_PARAMETERS_NONE();
	return_list(return_value, &boot.queries);
}

/* See ../../stubs/millrace.php. */
PHP_FUNCTION(millrace_rewind_settings)
{
	ZEND_PARSE_PARAMETERS_NONE();
	return_list(return_value, &boot.settings);
}
