/*
 * Exceptions of the gate: functions of scripts that may call what no boot may. They hold for what a function calls itself.
 *
 *   WordPress's own   by name, in WordPress's own folder: what they make is made again for each request, or never shown
 *   known content     functions of plugins (functions/known): as long as their source text is one that was read and found harmless. A release that
 *                     changes the function has another text, and refuses the image until somebody has read that, too
 *   an administrator's (php.rewind_except): a name; or `name@digest`, which holds only for this text
 *
 * The text of a function is its lines without comments, and without white space that means nothing: a release that only moves or formats it
 * has the same. It is read from the file, which has to be what runs: PHP keeps compiled code.
 */
#include "rewind.h"

#include <ext/hash/php_hash.h>
#include <ext/hash/php_hash_sha.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* `known`: functions/known, as ../../build.rs has compiled it. */
#include "known.h"

/* A file that changed so few seconds ago may have been compiled before that. */
#define YOUNG 2
#define DIGEST_BYTES 32
/* Of an administrator's digest, at least so many digits. */
#define DIGITS_LEAST 16

/* When the PHP host began: what it has compiled is not older. */
static time_t started;
/* Of the boot: an exception may hold a few seconds later. */
static bool young;

/* In the host. */
void excepted_watch(void)
{
	started = time(NULL);
}

/* A boot begins. */
void excepted_begin(void)
{
	young = false;
}

/* Whether the boot was refused where, a few seconds later, it may not be. */
bool excepted_later(void)
{
	return young;
}

/* ---- names ---- */

static bool is_whole_file(const zend_function *function)
{
	return !function->common.function_name || (function->common.fn_flags & ZEND_ACC_CLOSURE);
}

/* As an administrator writes it: `function`, `Class::method`, or, for other code, its file with the folder that it is in. */
void excepted_name(const zend_function *function, char *text, size_t room)
{
	const zend_string *name = function->common.function_name, *file = function->op_array.filename;
	if (!is_whole_file(function)) {
		const zend_class_entry *class = function->common.scope;
		snprintf(text, room, "%.120s%s%.100s", class ? ZSTR_VAL(class->name) : "", class ? "::" : "", ZSTR_VAL(name));
		return;
	}
	const char *at = ZSTR_VAL(file) + ZSTR_LEN(file);
	for (unsigned slashes = 0; at > ZSTR_VAL(file); at--) {
		slashes += at[-1] == '/';
		if (slashes == 2) {
			break;
		}
	}
	snprintf(text, room, "%.220s", at);
}

/* ---- the text of a function ---- */

enum within { CODE, LINE_COMMENT, COMMENT, QUOTED };

struct text_of {
	PHP_SHA256_CTX digest;
	enum within within;
	char quote, before; /* `before`: the character before this one; in code it has yet to be put */
	bool escaped, gap, unknown;
	char last;          /* the last one that was put */
};

static bool is_blank(char one)
{
	return one && strchr(" \t\r\n\v\f", one);
}

/* PHP's: a comment ends there. */
static bool is_newline(char one)
{
	return one == '\n' || one == '\r';
}

/* White space beside these means nothing. */
static bool is_bracket(char one)
{
	return one && strchr("()[]{},;", one);
}

static void put(struct text_of *text, char one)
{
	if (text->gap && text->last && !is_bracket(text->last) && !is_bracket(one)) {
		PHP_SHA256Update(&text->digest, (const unsigned char *)" ", 1);
	}
	PHP_SHA256Update(&text->digest, (const unsigned char *)&one, 1);
	text->gap = false;
	text->last = one;
}

/* The character before this one is of the code. */
static void put_before(struct text_of *text)
{
	if (is_blank(text->before)) {
		text->gap = true;
	} else if (text->before) {
		put(text, text->before);
	}
	text->before = 0;
}

/* Code: `one` waits until it is known what follows it. Markup and texts without quotes (<<<) are not read here. */
static void take_code(struct text_of *text, char one)
{
	char before = text->before;
	if (before == '/' && (one == '/' || one == '*')) {
		text->within = one == '/' ? LINE_COMMENT : COMMENT;
		text->before = 0;
		text->gap = true;
		return;
	}
	if (before == '#' && one != '[') {
		text->within = is_newline(one) ? CODE : LINE_COMMENT;
		text->before = is_newline(one) ? 0 : one;
		text->gap = true;
		return;
	}
	text->unknown |= (before == '?' && one == '>') || (before == '<' && one == '<' && text->last == '<' && !text->gap);
	put_before(text);
	if (one == '\'' || one == '"' || one == '`') {
		text->within = QUOTED;
		text->quote = one;
		put(text, one);
	} else {
		text->before = one;
	}
}

/* A text in quotes, as it is. Code within it may have quotes of its own: that is not read here. */
static void take_quoted(struct text_of *text, char one)
{
	bool ends = one == text->quote && !text->escaped;
	text->unknown |= text->quote != '\'' && !text->escaped && ((text->before == '{' && one == '$') || (text->before == '$' && one == '{'));
	text->escaped = one == '\\' && !text->escaped;
	put(text, one);
	text->before = ends ? 0 : one;
	text->within = ends ? CODE : QUOTED;
}

static void take(struct text_of *text, char one)
{
	switch (text->within) {
		case CODE:
			take_code(text, one);
			return;
		case LINE_COMMENT:
			text->unknown |= text->before == '?' && one == '>';
			text->before = is_newline(one) ? 0 : one;
			text->within = is_newline(one) ? CODE : LINE_COMMENT;
			return;
		case COMMENT:
			text->within = text->before == '*' && one == '/' ? CODE : COMMENT;
			text->before = text->within == CODE ? 0 : one;
			return;
		case QUOTED:
			take_quoted(text, one);
			return;
	}
}

/* ---- digests ---- */

/* Whether what PHP has compiled of a file is what the file has now. */
static bool is_what_runs(const struct stat *file)
{
	bool caches = zend_hash_str_exists(EG(ini_directives), ZEND_STRL("opcache.enable"));
	if (caches && !INI_BOOL("opcache.validate_timestamps")) {
		const char *kept = INI_STR("opcache.file_cache");
		return file->st_ctim.tv_sec + YOUNG < started && !(kept && *kept);
	}
	zend_long trusted = caches ? INI_ORIG_INT("opcache.revalidate_freq") : 0;
	bool is_old = file->st_ctim.tv_sec + MAX(trusted, 0) + YOUNG < time(NULL);
	young |= !is_old;
	return is_old;
}

/* Takes lines of a file, counted as PHP counts them: all of it as it is, or the text of a function. */
static bool take_file(struct text_of *text, int file, uint32_t from, uint32_t to, bool is_whole)
{
	char some[8192], before = 0;
	ssize_t got;
	for (uint32_t line = 1; (got = read(file, some, sizeof some)) > 0;) {
		if (is_whole) {
			PHP_SHA256Update(&text->digest, (const unsigned char *)some, (size_t)got);
			continue;
		}
		for (ssize_t i = 0; i < got && line <= to; i++) {
			line += before == '\r' && some[i] != '\n';
			if (line >= from && line <= to) {
				take(text, some[i]);
			}
			line += some[i] == '\n';
			before = some[i];
		}
	}
	if (!is_whole && text->within == CODE) {
		put_before(text);
	}
	return got == 0 && !text->unknown && (is_whole || text->within == CODE || text->within == LINE_COMMENT);
}

/* The digest of what runs, as hexadecimal digits; false: its text cannot be known. */
static bool digest(const zend_op_array *code, bool is_whole, char digits[2 * DIGEST_BYTES + 1])
{
	struct text_of text = { .within = CODE };
	unsigned char bytes[DIGEST_BYTES];
	struct stat file;
	int opened = *ZSTR_VAL(code->filename) == '/' ? open(ZSTR_VAL(code->filename), O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	if (opened < 0) {
		return false;
	}
	PHP_SHA256Init(&text.digest);
	bool is_known = fstat(opened, &file) == 0 && S_ISREG(file.st_mode) && is_what_runs(&file)
		&& take_file(&text, opened, code->line_start, code->line_end, is_whole);
	close(opened);
	PHP_SHA256Final(bytes, &text.digest);
	php_hash_bin2hex(digits, bytes, DIGEST_BYTES);
	digits[2 * DIGEST_BYTES] = 0;
	return is_known;
}

/* ---- exceptions ---- */

/* What a function does that is no call of a function: as gate.c says it. */
#define WRITES "writes a file"
/*
 * Functions of WordPress: timer_start() is called again for each request, the others' values are never shown. get_filesystem_method() makes a file
 * with a random name, and removes it, to see whose it is.
 */
static const struct { const char *name, *file, *calls; } of_core[] = {
	{ "timer_start", "wp-includes/load.php", "microtime" },
	{ "wp_initial_constants", "wp-includes/default-constants.php", "microtime" },
	{ "wpdb::placeholder_escape", "wp-includes/class-wpdb.php", "uniqid" },
	{ "wpdb::placeholder_escape", "wp-includes/class-wpdb.php", "rand" },
	{ "wpdb::placeholder_escape", "wp-includes/wp-db.php", "uniqid" },
	{ "wpdb::placeholder_escape", "wp-includes/wp-db.php", "rand" },
	{ "wp_cache_set_last_changed", "wp-includes/functions.php", "microtime" },
	{ "PasswordHash::__construct", "wp-includes/class-phpass.php", "microtime" },
	{ "get_filesystem_method", "wp-admin/includes/file.php", "uniqid" },
	{ "get_filesystem_method", "wp-admin/includes/file.php", WRITES },
	{ "get_filesystem_method", "wp-admin/includes/file.php", "unlink" },
};

/* Whether this is that file of WordPress: a plugin may have folders with such names. Where sites share a WordPress by links, it is elsewhere. */
static bool is_in_core(const zend_string *file, const char *name)
{
	const zval *root = zend_get_constant_str(ZEND_STRL("ABSPATH"));
	char path[MAXPATHLEN], real[MAXPATHLEN];
	if (!root || Z_TYPE_P(root) != IS_STRING || (size_t)snprintf(path, sizeof path, "%s%s", Z_STRVAL_P(root), name) >= sizeof path) {
		return false;
	}
	return strcmp(path, ZSTR_VAL(file)) == 0 || (tsrm_realpath(path, real) && strcmp(real, ZSTR_VAL(file)) == 0);
}

static bool is_of_core(const zend_function *by, const char *name, const char *called)
{
	for (size_t i = 0; i < sizeof of_core / sizeof *of_core; i++) {
		if (strcmp(of_core[i].name, name) == 0 && strcmp(of_core[i].calls, called) == 0 && is_in_core(by->op_array.filename, of_core[i].file)) {
			return true;
		}
	}
	return false;
}

/* What is in brackets behind what a function calls, if its text is known; "": nothing is; NULL: the text is not known. */
static const char *known_as(const zend_function *by, const char *name, const char *called)
{
	char digits[2 * DIGEST_BYTES + 1] = "";
	bool looked = false;
	for (size_t i = 0; i < KNOWN; i++) {
		if (strcasecmp(known[i].name, name) != 0 || strcmp(known[i].calls, called) != 0) {
			continue;
		}
		if (!looked && !digest(&by->op_array, is_whole_file(by), digits)) {
			return NULL;
		}
		looked = true;
		if (strcmp(known[i].digest, digits) == 0) {
			return known[i].reads ? known[i].reads : "";
		}
	}
	return NULL;
}

/* Whether what the function calls, and its text, are known; what it reads of the request by that is noted. */
static bool is_known(const zend_function *by, const char *name, const char *called)
{
	const char *element = known_as(by, name, called);
	if (element && *element && gate == GATE_BOOT) {
		zend_string *noted = zend_string_init(element, strlen(element), 0);
		reads_note_input(PARSE_SERVER, noted);
		zend_string_release(noted);
	}
	return element;
}

/*
 * As what a variable of $_SERVER counts that this function reads, if all that comes of it is known from the function's text; "": as nothing;
 * NULL: the text is not known.
 */
const char *excepted_read(const zend_function *by, const char *variable)
{
	char name[300];
	excepted_name(by, name, sizeof name);
	return known_as(by, name, variable);
}

/* The digits of `name@digits`, of this length as a whole; NULL: it has none. */
static const char *digits_of(const char *one, size_t length)
{
	const char *at = memrchr(one, '@', length);
	size_t count = at ? length - (size_t)(at + 1 - one) : 0;
	return count >= DIGITS_LEAST && count <= 2 * DIGEST_BYTES && strspn(at + 1, "0123456789abcdefABCDEF") >= count ? at + 1 : NULL;
}

/* Whether one of php.rewind_except is this function: `name`, or `name@digits` of its text. */
static bool is_this(const char *one, size_t length, const zend_function *by, const char *name)
{
	char digits[2 * DIGEST_BYTES + 1];
	const char *wanted = digits_of(one, length);
	size_t named = wanted ? (size_t)(wanted - 1 - one) : length;
	if (named != strlen(name) || strncasecmp(one, name, named) != 0) {
		return false;
	}
	return !wanted || (digest(&by->op_array, is_whole_file(by), digits) && strncasecmp(wanted, digits, (size_t)(one + length - wanted)) == 0);
}

/* Whether it is in php.rewind_except, which has commas between them. */
static bool is_chosen(const zend_function *by, const char *name)
{
	for (const char *at = options.rewind_except; at && *at;) {
		size_t here = strcspn(at, ",");
		if (is_this(at, here, by, name)) {
			return true;
		}
		at += here + (at[here] == ',');
	}
	return false;
}

/* Whether a function may call this one, or, if that is NULL, do `what` no boot may. */
bool excepted(const zend_function *by, const zend_function *called, const char *what)
{
	char name[256];
	const char *calls = !called ? what : called->common.scope ? "" : ZSTR_VAL(called->common.function_name);
	if (by->common.scope && zend_string_equals_literal(by->common.scope->name, "Millrace_Objects")) {
		/* The drop-in of our object cache says itself what it changes, and compares what the boot has read. */
		return true;
	}
	excepted_name(by, name, sizeof name);
	return is_of_core(by, name, calls) || is_known(by, name, calls) || is_chosen(by, name);
}

/* What php.rewind_except may have for it: its name, with `@` and these digits for the text that it has now, if that can be known. */
void excepted_advice(const zend_function *by, char *text, size_t room)
{
	char digits[2 * DIGEST_BYTES + 1];
	if (digest(&by->op_array, is_whole_file(by), digits)) {
		snprintf(text, room, "php.rewind_except may name it; with @%.*s only this text of it", DIGITS_LEAST, digits);
	} else {
		snprintf(text, room, "php.rewind_except may name it");
	}
}
