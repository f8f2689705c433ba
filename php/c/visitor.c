/*
 * Reports to the server what a script finds out about its visitor. The server serves proven visitors first, and treats
 * cookies without a meaning as if they were absent (crates/pages/src/visitors). A cookie's name proves nothing.
 *
 * - An application reports by millrace_visitor(); for WordPress ../inject/wordpress/visitor.php does.
 * - For PHP's own sessions the worker reports: whether the session that the cookie names has content when the script ends;
 *   if the script has not started it, whether the folder of php.ini's session.save_path has its file.
 *
 * That a session has no content means nothing only if PHP itself keeps it, in its files, and no script asks for its name. A handler of
 * the application's own may keep more than $_SESSION: Drupal 7 has the user in the row of the session. A shop may keep carts by
 * session_id(). So an empty session of such a handler is unsure, and its site's sessions are "elsewhere" from then on.
 *
 * The worker's report is the last one of each request that could have a known visitor; the grammar is in
 * crates/pages/src/visitors/report.rs.
 */
#include "worker.h"

#include <Zend/zend_smart_str.h>
#include <errno.h>
#include <ext/session/php_session.h>
#include <main/php_open_temporary_file.h>
#include <string.h>
#include <sys/stat.h>

/* Sessions with longer names are not reported. */
#define NAME_MOST 64

enum found { NOTHING, FILLED, EMPTY, ABSENT, GONE, UNSURE };
static const char *const words[] = { "", "filled", "empty", "absent", "gone", "unsure" };

/* Of this request. */
static struct {
	bool said;      /* the application has said something */
	bool has_cart;  /* that the visitor has a cart */
	bool judges;    /* of all cookies by which it knows visitors, not only of those that its profile names */
	bool started;   /* a session was started */
	bool existed;   /* there was something in it */
	bool own;       /* it is the one that the cookie names */
	bool chosen;    /* the script has set its name itself, or started several */
	bool ended;     /* it was destroyed, or has a new name */
	bool elsewhere; /* it is not where php.ini says, or its name may stand for something that is elsewhere */
	char name[NAME_MOST];
	enum found found;
} visit;

static php_ps_globals *session;
static zif_handler session_start_was, session_destroy_was, session_regenerate_was, session_id_was;

/* The number of values in $_SESSION; -1: there is no session. */
static int64_t content(void)
{
	zval *vars = &session->http_session_vars;
	ZVAL_DEREF(vars);
	return Z_TYPE_P(vars) == IS_ARRAY ? (int64_t)zend_hash_num_elements(Z_ARRVAL_P(vars)) : -1;
}

/* The value of the cookie that names the session; NULL: there is none, or it can't be a session's name. */
static const zend_string *cookie(const char *name)
{
	zval *cookies = &PG(http_globals)[TRACK_VARS_COOKIE];
	zval *value = Z_TYPE_P(cookies) == IS_ARRAY ? zend_hash_str_find(Z_ARRVAL_P(cookies), name, strlen(name)) : NULL;
	return value && Z_TYPE_P(value) == IS_STRING ? Z_STR_P(value) : NULL;
}

static bool is_modified(const char *name)
{
	const zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), name, strlen(name));
	return !entry || entry->modified;
}

/* Whether sessions are in files, where php.ini says. */
static bool is_usual(void)
{
	return session->mod && strcmp(session->mod->s_name, "files") == 0 && !is_modified("session.save_path")
		&& !is_modified("session.save_handler");
}

/* A session has been started; `chosen`: the script has chosen its name. */
static void has_started(bool chosen)
{
	const zend_string *sent = cookie(session->session_name);
	visit.chosen |= chosen || visit.started || strlen(session->session_name) >= NAME_MOST;
	visit.started = true;
	rewind_acted();
	visit.elsewhere |= !is_usual();
	visit.own = sent && session->id && zend_string_equals(sent, session->id);
	visit.existed = content() > 0;
	if (!visit.chosen) {
		strcpy(visit.name, session->session_name);
	}
}

static PHP_FUNCTION(noted_start)
{
	bool active = session->session_status == php_session_active, chosen = session->id != NULL;
	if (!active) {
		cookies_look_for_session(session->session_name);
	}
	session_start_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	if (worker && !active && Z_TYPE_P(return_value) == IS_TRUE) {
		has_started(chosen);
	}
}

static PHP_FUNCTION(noted_destroy)
{
	session_destroy_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	visit.ended = true;
}

static PHP_FUNCTION(noted_regenerate)
{
	session_regenerate_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	visit.ended |= Z_TYPE_P(return_value) == IS_TRUE;
}

/* What a script stores by the session's name is not in $_SESSION. `if (!session_id()) session_start();` gets no name. */
static PHP_FUNCTION(noted_id)
{
	session_id_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	visit.elsewhere |= Z_TYPE_P(return_value) == IS_STRING && Z_STRLEN_P(return_value) > 0;
}

/* Called when PHP has started. */
void visitor_startup(void)
{
	static const struct { const char *name; zif_handler ours, *was; } wrapped[] = {
		{ "session_start", ZEND_FN(noted_start), &session_start_was },
		{ "session_destroy", ZEND_FN(noted_destroy), &session_destroy_was },
		{ "session_regenerate_id", ZEND_FN(noted_regenerate), &session_regenerate_was },
		{ "session_id", ZEND_FN(noted_id), &session_id_was },
	};
	const zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("session"));
	session = module ? module->globals_ptr : NULL;
	for (size_t i = 0; session && i < sizeof wrapped / sizeof *wrapped; i++) {
		*wrapped[i].was = watch_replace(NULL, wrapped[i].name, wrapped[i].ours);
	}
}

/* A request has come. */
void visitor_begin(void)
{
	memset(&visit, 0, sizeof visit);
}

/* Looks for a session that was not started, but is named by a cookie. */
static enum found look_up(const zend_string *id)
{
	const char *folder = session->save_path ? session->save_path : "", *last = strrchr(folder, ';');
	char path[MAXPATHLEN];
	struct stat file;
	if (!is_usual() || (last && atoi(folder) != 0)) {
		visit.elsewhere = true;
		return UNSURE;
	}
	if (ZSTR_LEN(id) == 0 || ZSTR_LEN(id) > 256 || strspn(ZSTR_VAL(id), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789,-") != ZSTR_LEN(id)) {
		/* PS_MAX_SID_LENGTH and the characters of mod_files.c: no session can have that name. */
		return ABSENT;
	}
	folder = last ? last + 1 : folder;
	int length = snprintf(path, sizeof path, "%s/sess_%s", *folder ? folder : php_get_temporary_directory(), ZSTR_VAL(id));
	if (length < 0 || (size_t)length >= sizeof path) {
		return UNSURE;
	}
	if (stat(path, &file) != 0) {
		return errno == ENOENT ? ABSENT : UNSURE;
	}
	return file.st_size > 0 ? FILLED : EMPTY;
}

static enum found judge(void)
{
	if (!visit.started) {
		const zend_string *id = session->session_name ? cookie(session->session_name) : NULL;
		if (!id || strlen(session->session_name) >= NAME_MOST) {
			return NOTHING;
		}
		strcpy(visit.name, session->session_name);
		return look_up(id);
	}
	if (visit.chosen || !cookie(visit.name)) {
		return NOTHING;
	}
	int64_t left = visit.ended ? 0 : content();
	if (visit.elsewhere) {
		return visit.ended ? GONE : visit.own && left > 0 ? FILLED : UNSURE;
	}
	if (visit.ended) {
		return visit.existed ? GONE : ABSENT;
	}
	if (!visit.own) {
		/* PHP has rejected the name that was sent: there was no such session. */
		return ABSENT;
	}
	return left > 0 ? FILLED : left == 0 || !visit.existed ? EMPTY : UNSURE;
}

/* The script has ended, and its session still exists. */
void visitor_look(void)
{
	if (!worker || worker->answer == ANSWER_NONE || worker->answer == ANSWER_VOID || !session || visit.found != NOTHING) {
		return;
	}
	if (!visit.started && session->session_status == php_session_active) {
		has_started(false); /* session.auto_start */
		visit.existed = true;
		cookies_were_used();
	}
	visit.elsewhere |= session->session_name && cookies_value_was_read(session->session_name);
	visit.found = judge();
}

static bool is_plain(const char *text)
{
	return *text && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(text);
}

/* Whether the application says itself what the cookies mean by which it knows its visitors. */
bool visitor_judges(void)
{
	return visit.judges;
}

/* Whether the script has started a session. */
bool visitor_has_session(void)
{
	return visit.started || (session && session->session_status == php_session_active);
}

/* Sends the worker's own report, before END or READY. */
void visitor_end(void)
{
	if (!visit.said && !vars_value("HTTP_COOKIE") && !vars_value("HTTP_AUTHORIZATION")) {
		return;
	}
	char text[NAME_MOST + 64];
	int length = snprintf(text, sizeof text, "end");
	if (EG(exit_status) == 255 || worker->ended) {
		length += snprintf(text + length, sizeof text - (size_t)length, " failed");
	}
	if (visit.has_cart && carts_unread()) {
		length += snprintf(text + length, sizeof text - (size_t)length, " unread");
	}
	if (visit.elsewhere) {
		length += snprintf(text + length, sizeof text - (size_t)length, " elsewhere");
	}
	if (visit.found != NOTHING && is_plain(visit.name)) {
		length += snprintf(text + length, sizeof text - (size_t)length, " session=%s:%s", visit.name, words[visit.found]);
	}
	wire_note(MR_NOTE_VISITOR, text, (size_t)length);
	visitor_begin();
}

/* See ../stubs/millrace.php. */
PHP_FUNCTION(millrace_visitor)
{
	zval *items;
	uint32_t count;
	bool only_profile = false;
	smart_str text = { 0 };
	ZEND_PARSE_PARAMETERS_START(1, -1)
		Z_PARAM_VARIADIC('+', items, count)
	ZEND_PARSE_PARAMETERS_END();
	for (uint32_t i = 0; i < count; i++) {
		zend_string *item;
		if (!zend_parse_arg_str(&items[i], &item, false, i + 1)) {
			zend_argument_type_error(i + 1, "must be of type string, %s given", zend_zval_type_name(&items[i]));
			smart_str_free(&text);
			RETURN_THROWS();
		}
		for (size_t at = 0; at < ZSTR_LEN(item); at++) {
			if ((unsigned char)ZSTR_VAL(item)[at] <= ' ' || ZSTR_VAL(item)[at] == 0x7f) {
				zend_argument_value_error(i + 1, "must not contain spaces and control characters");
				smart_str_free(&text);
				RETURN_THROWS();
			}
		}
		if (text.s) {
			smart_str_appendc(&text, ' ');
		}
		only_profile |= zend_string_equals_literal(item, "profile");
		smart_str_append(&text, item);
	}
	smart_str_0(&text);
	bool heard = worker && (worker->answer == ANSWER_WAITING || worker->answer == ANSWER_CONTENT || worker->answer == ANSWER_ENDED);
	/* The word "end" is the worker's: a script must not send it. */
	bool good = text.s && ZSTR_LEN(text.s) && ZSTR_LEN(text.s) <= MR_NOTE_MAX && strncmp(ZSTR_VAL(text.s), "end", 3) != 0;
	bool said = heard && good && wire_note(MR_NOTE_VISITOR, ZSTR_VAL(text.s), ZSTR_LEN(text.s));
	visit.said |= said;
	visit.judges |= said && !only_profile;
	visit.has_cart |= said && strncmp(ZSTR_VAL(text.s), "cart ", 5) == 0;
	smart_str_free(&text);
	RETURN_BOOL(said);
}
