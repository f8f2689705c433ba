/*
 * What a statement of SQL does, as far as its text says: nothing here knows tables, views and stored functions. A statement that only reads
 * does so by functions that are known to find the same for each client at each time. The grammar is that of MySQL and MariaDB without
 * ANSI_QUOTES and NO_BACKSLASH_ESCAPES; what does not fit it is unknown.
 */
#include "rewind.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum token { END, WORD, QUOTED, TEXT, NUMBER, AT, SIGN, BROKEN };

struct scan {
	const char *at;
	const char *start; /* of the token at hand */
	size_t length;
};

#define IS_IN(scan, list) is_in(scan, list, sizeof (list) / sizeof *(list))

static bool is_word(const struct scan *scan, const char *word)
{
	return strlen(word) == scan->length && strncasecmp(scan->start, word, scan->length) == 0;
}

static bool is_in(const struct scan *scan, const char *const words[], size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (is_word(scan, words[i])) {
			return true;
		}
	}
	return false;
}

/* Goes past white space and comments; false: a comment that the database runs (an exclamation mark begins it), or one without an end. */
static bool skip(struct scan *scan)
{
	for (;;) {
		scan->at += strspn(scan->at, " \t\r\n\f\v");
		if (scan->at[0] == '/' && scan->at[1] == '*') {
			const char *end = strstr(scan->at + 2, "*/");
			if (!end || scan->at[2] == '!' || (scan->at[2] == 'M' && scan->at[3] == '!')) {
				return false;
			}
			scan->at = end + 2;
		} else if (*scan->at == '#' || (scan->at[0] == '-' && scan->at[1] == '-' && (!scan->at[2] || isspace((unsigned char)scan->at[2])))) {
			scan->at += strcspn(scan->at, "\n");
		} else {
			return true;
		}
	}
}

/* A text in quotes; two of them stand for one, as does one behind a backslash. */
static enum token quoted(struct scan *scan, char quote)
{
	const char *at = scan->at + 1;
	for (; *at; at++) {
		if (*at == '\\' && quote != '`' && at[1]) {
			at++;
		} else if (*at == quote && at[1] == quote) {
			at++;
		} else if (*at == quote) {
			scan->at = at + 1;
			return quote == '`' ? QUOTED : TEXT;
		}
	}
	return BROKEN;
}

static bool is_of_word(char one)
{
	return isalnum((unsigned char)one) || one == '_' || one == '$' || (unsigned char)one >= 0x80;
}

static enum token next(struct scan *scan)
{
	if (!skip(scan)) {
		return BROKEN;
	}
	scan->start = scan->at;
	char one = *scan->at;
	enum token token = SIGN;
	if (!one) {
		token = END;
	} else if (one == '\'' || one == '"' || one == '`') {
		token = quoted(scan, one);
	} else if (is_of_word(one)) {
		bool is_number = true;
		for (; is_of_word(*scan->at); scan->at++) {
			is_number &= isdigit((unsigned char)*scan->at);
		}
		token = is_number ? NUMBER : WORD;
	} else {
		scan->at++;
		token = one == '@' ? AT : SIGN;
	}
	scan->length = (size_t)(scan->at - scan->start);
	return token;
}

/* What follows, without going there. */
static char peek(const struct scan *scan)
{
	struct scan ahead = *scan;
	return skip(&ahead) ? *ahead.at : '!';
}

/* ---- what reads ---- */

/* Of their arguments, of rows, or of what a connection is: they find the same for each client. */
static const char *const functions[] = { "COUNT", "SUM", "MAX", "MIN", "AVG", "GROUP_CONCAT", "STD", "STDDEV", "VARIANCE", "BIT_AND", "BIT_OR", "BIT_XOR",
	"IF", "IFNULL", "NULLIF", "ISNULL", "COALESCE", "GREATEST", "LEAST", "CONCAT", "CONCAT_WS", "LOWER", "UPPER", "LCASE", "UCASE", "LENGTH",
	"CHAR_LENGTH", "CHARACTER_LENGTH", "OCTET_LENGTH", "SUBSTRING", "SUBSTR", "SUBSTRING_INDEX", "LEFT", "RIGHT", "MID", "TRIM", "LTRIM", "RTRIM",
	"REPLACE", "INSTR", "LOCATE", "POSITION", "FIND_IN_SET", "FIELD", "ELT", "STRCMP", "REPEAT", "REVERSE", "LPAD", "RPAD", "SPACE", "FORMAT",
	"CAST", "CONVERT", "ABS", "CEIL", "CEILING", "FLOOR", "ROUND", "TRUNCATE", "MOD", "POW", "POWER", "SQRT", "SIGN", "DATE", "YEAR", "MONTH",
	"DAY", "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR", "WEEKDAY", "WEEK", "HOUR", "MINUTE", "SECOND", "DATE_FORMAT", "DATE_ADD", "DATE_SUB", "ADDDATE",
	"SUBDATE", "DATEDIFF", "TIMESTAMPDIFF", "TIMESTAMPADD", "STR_TO_DATE", "FROM_UNIXTIME", "TO_DAYS", "FROM_DAYS", "LAST_DAY", "EXTRACT", "MD5",
	"SHA1", "SHA", "SHA2", "CRC32", "HEX", "UNHEX", "CONV", "ASCII", "ORD", "BIN", "OCT", "INET_ATON", "INET_NTOA", "JSON_EXTRACT",
	"JSON_UNQUOTE", "JSON_VALUE", "JSON_CONTAINS", "JSON_LENGTH", "JSON_OBJECT", "JSON_ARRAY", "JSON_VALID", "REGEXP_REPLACE", "REGEXP_SUBSTR",
	"REGEXP_INSTR", "REGEXP_LIKE", "DATABASE", "SCHEMA", "VERSION", "ROW_NUMBER", "RANK", "DENSE_RANK" };
/* The same for a statement of one request: they change nothing. */
static const char *const own[] = { "NOW", "CURDATE", "CURTIME", "SYSDATE", "UNIX_TIMESTAMP", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP", "RAND", "UUID",
	"CONNECTION_ID", "USER", "LAST_INSERT_ID", "ROW_COUNT", "FOUND_ROWS" };
/* Words that a bracket may follow. */
static const char *const keywords[] = { "AND", "OR", "XOR", "NOT", "IN", "ON", "USING", "WHERE", "HAVING", "SELECT", "FROM", "JOIN", "BY", "AS", "EXISTS",
	"ALL", "ANY", "SOME", "DISTINCT", "LIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "UNION", "INTERVAL", "DIV", "IS", "REGEXP", "RLIKE", "BINARY",
	"INDEX", "KEY", "MATCH", "AGAINST", "LIMIT", "OVER", "EXCEPT", "INTERSECT", "DECIMAL", "NUMERIC", "CHAR", "DATETIME", "TIME", "SEPARATOR" };
/* What they say is of one client, one time, or one state of the server; or they lock rows, or write a file. */
static const char *const unknown[] = { "CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_USER", "CURRENT_ROLE", "LOCALTIME", "LOCALTIMESTAMP",
	"UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP", "INTO", "PROCEDURE", "LOCK", "SHARE", "UPDATE", "NEXT", "PREVIOUS", "INFORMATION_SCHEMA",
	"PERFORMANCE_SCHEMA", "SYS", "MYSQL" };

/* What is before a bracket: whether it is one of the functions that are known, or none. */
static bool is_known_call(const struct scan *scan, bool is_qualified)
{
	if (is_qualified) {
		return false;
	}
	if (is_word(scan, "UNIX_TIMESTAMP")) {
		/* Of now, without an argument. */
		struct scan ahead = *scan;
		next(&ahead);
		return peek(&ahead) != ')';
	}
	return IS_IN(scan, functions) || IS_IN(scan, keywords);
}

/* Whether the rest of a statement only reads; `finds`: for whom. */
static bool only_reads(struct scan *scan, enum finds finds)
{
	bool is_qualified = false;
	for (;;) {
		enum token token = next(scan);
		bool calls = peek(scan) == '(';
		if (token == END) {
			return true;
		}
		if (token == BROKEN || token == AT) {
			return false;
		}
		if (token == SIGN && *scan->start == ';' && peek(scan)) {
			return false;
		}
		if (token == WORD && !is_qualified && IS_IN(scan, unknown)) {
			return false;
		}
		bool is_good = is_known_call(scan, is_qualified) || (finds == FOR_ONE && !is_qualified && IS_IN(scan, own))
			|| (finds == WITH_COUNT && is_word(scan, "FOUND_ROWS"));
		if (token == WORD && calls && !is_good) {
			return false;
		}
		if ((token == QUOTED || token == TEXT) && calls) {
			return false;
		}
		if (token == QUOTED && (strncasecmp(scan->start, "`information_schema`", 20) == 0 || strncasecmp(scan->start, "`mysql`", 7) == 0
			|| strncasecmp(scan->start, "`performance_schema`", 20) == 0 || strncasecmp(scan->start, "`sys`", 5) == 0)) {
			return false;
		}
		is_qualified = token == SIGN && *scan->start == '.';
	}
}

static bool shows_the_same(struct scan *scan)
{
	static const char *const what[] = { "TABLES", "COLUMNS", "FIELDS", "INDEX", "INDEXES", "KEYS", "CREATE", "DATABASES", "SCHEMAS", "CHARACTER",
		"COLLATION", "TRIGGERS" };
	return next(scan) == WORD && (!is_word(scan, "FULL") || next(scan) == WORD) && IS_IN(scan, what) && only_reads(scan, FOR_ALL);
}

/* ---- what sets ---- */

/* Settings of a session that another connection gets by the same statement. */
static const char *const settings[] = { "SQL_MODE", "TIME_ZONE", "GROUP_CONCAT_MAX_LEN", "SQL_BIG_SELECTS", "MAX_JOIN_SIZE", "SORT_BUFFER_SIZE",
	"JOIN_BUFFER_SIZE", "WAIT_TIMEOUT", "INTERACTIVE_TIMEOUT", "NET_READ_TIMEOUT", "NET_WRITE_TIMEOUT", "OPTIMIZER_SWITCH", "MAX_STATEMENT_TIME",
	"MAX_EXECUTION_TIME", "LC_TIME_NAMES", "SQL_SELECT_LIMIT", "FOREIGN_KEY_CHECKS", "UNIQUE_CHECKS", "SQL_SAFE_UPDATES", "DEFAULT_WEEK_FORMAT",
	"COLLATION_CONNECTION", "CHARACTER_SET_CLIENT", "CHARACTER_SET_RESULTS", "CHARACTER_SET_CONNECTION", "DIV_PRECISION_INCREMENT" };

/* `@name`, or `@@name` of a session; the `@` has been read. */
static bool is_session_variable(struct scan *scan)
{
	enum token token = next(scan);
	if (token == AT) {
		token = next(scan);
		if (token == WORD && (is_word(scan, "SESSION") || is_word(scan, "LOCAL")) && peek(scan) == '.') {
			next(scan);
			token = next(scan);
		}
		return token == WORD && IS_IN(scan, settings);
	}
	return token == WORD || token == QUOTED || token == TEXT;
}

/* `name =`, with what may stand before it. */
static bool is_assigned(struct scan *scan)
{
	enum token token = next(scan);
	if (token == WORD && (is_word(scan, "SESSION") || is_word(scan, "LOCAL"))) {
		token = next(scan);
	}
	bool is_good = token == AT ? is_session_variable(scan) : token == WORD && IS_IN(scan, settings);
	if (is_good && peek(scan) == ':') {
		next(scan);
	}
	return is_good && next(scan) == SIGN && *scan->start == '=';
}

/* A value, up to a comma or the end: -1: it is not known, 0: the end, 1: a comma. */
static int value(struct scan *scan)
{
	for (int depth = 0;;) {
		enum token token = next(scan);
		char sign = token == SIGN ? *scan->start : 0;
		depth += sign == '(' ? 1 : sign == ')' ? -1 : 0;
		if (token == END || (sign == ';' && !peek(scan))) {
			return depth == 0 ? 0 : -1;
		}
		if (sign == ',' && depth == 0) {
			return 1;
		}
		if (token == BROKEN || token == QUOTED || sign == ';' || sign == '.' || (token == AT && !is_session_variable(scan))) {
			return -1;
		}
		if (token == WORD && (is_word(scan, "SELECT") || IS_IN(scan, unknown) || (peek(scan) == '(' && !is_known_call(scan, false)))) {
			return -1;
		}
		/* Then texts would end elsewhere than here. */
		if (token == TEXT && (strcasestr(scan->start, "BACKSLASH") || strcasestr(scan->start, "ANSI"))) {
			return -1;
		}
	}
}

static bool sets_session(struct scan *scan)
{
	struct scan ahead = *scan;
	if (next(&ahead) == WORD && (is_word(&ahead, "NAMES") || is_word(&ahead, "CHARACTER") || is_word(&ahead, "CHARSET"))) {
		return value(&ahead) == 0;
	}
	for (int more = 1; more;) {
		if (!is_assigned(scan)) {
			return false;
		}
		more = value(scan);
		if (more < 0) {
			return false;
		}
	}
	return true;
}

/* ---- all of it ---- */

/* Of the transaction, or of statements that were said before. */
static const char *const of_connection[] = { "BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "EXECUTE", "DEALLOCATE", "HANDLER", "PRAGMA" };

enum sql sql_kind(const char *text, enum finds finds)
{
	struct scan scan = { .at = text };
	enum token token = next(&scan);
	while (token == SIGN && (*scan.start == '(' || *scan.start == ';')) {
		token = next(&scan);
	}
	if (token != WORD) {
		return SQL_UNKNOWN;
	}
	if (is_word(&scan, "SELECT")) {
		return only_reads(&scan, finds) ? SQL_READS : SQL_UNKNOWN;
	}
	if (is_word(&scan, "SHOW")) {
		return shows_the_same(&scan) ? SQL_READS : SQL_UNKNOWN;
	}
	if (is_word(&scan, "DESCRIBE") || is_word(&scan, "DESC")) {
		return only_reads(&scan, FOR_ALL) ? SQL_READS : SQL_UNKNOWN;
	}
	if (is_word(&scan, "SET")) {
		return sets_session(&scan) ? SQL_SETS : SQL_UNKNOWN;
	}
	if (is_word(&scan, "USE")) {
		token = next(&scan);
		return (token == WORD || token == QUOTED) && !peek(&scan) ? SQL_SETS : SQL_UNKNOWN;
	}
	static const char *const unclear[] = { "EXPLAIN", "WITH", "VALUES", "DO" };
	if (IS_IN(&scan, unclear)) {
		return SQL_UNKNOWN;
	}
	if (is_word(&scan, "COMMIT")) {
		return SQL_COMMITS;
	}
	return IS_IN(&scan, of_connection) ? SQL_KEEPS : SQL_WRITES;
}
