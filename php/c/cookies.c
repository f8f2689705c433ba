/*
 * Which cookies a page depends on. A request whose response may become a page for all has two kinds of cookies: those that the server
 * knows, and the rest, which are withheld: PHP starts without them, so none of them can get into the page, whatever the script does.
 *
 *   withheld ── the script looks for one of them, or at all cookies ──> revealed: it gets all of them; the page is this visitor's own
 *      └─────── it does not ────────────────────────────────────────> the page is for all
 *
 * What the script has looked for is said at its end: with these cookies the stored page is sent to nobody (crates/pages/src/looked.rs).
 *
 * observe.c sees the reads. One element that is looked at by its name is that cookie; anything else is all of them. WordPress copies the
 * whole arrays, to escape them, and Millrace's own hooks look at all cookies at the end: both count as nothing, by their place. Where reads
 * can't be seen, all cookies count as read, and none is withheld.
 */
#include "worker.h"

#include <ext/standard/php_string.h>
#include <string.h>

#define NAMES_MOST 24u
#define NAME_MOST 64u

/* Of this request. */
static struct {
	bool noting, revealed, all;
	bool handed_out; /* other code than WordPress's own has seen all of them */
	bool escaped; /* WordPress has escaped $_COOKIE and $_SERVER */
	unsigned count;
	struct { enum cookie_use use; char name[NAME_MOST + 1]; } names[NAMES_MOST];
	zval withheld; /* what is withheld, as PHP sees it; undefined: not parsed yet */
} cookies;

/* All cookies of the request, once they are revealed; in a mapping of its own, because PHP keeps pointers to it. */
static struct buffer whole;

/* ---- revealing ---- */

/* The withheld cookies, as PHP parses them. */
static HashTable *withheld(void)
{
	if (Z_TYPE(cookies.withheld) == IS_UNDEF) {
		char *sent = SG(request_info).cookie_data;
		zval own;
		ZVAL_COPY(&own, &PG(http_globals)[TRACK_VARS_COOKIE]);
		SG(request_info).cookie_data = (char *)(uintptr_t)worker->request.withheld;
		sapi_module.treat_data(PARSE_COOKIE, NULL, NULL);
		SG(request_info).cookie_data = sent;
		ZVAL_COPY_VALUE(&cookies.withheld, &PG(http_globals)[TRACK_VARS_COOKIE]);
		ZVAL_COPY_VALUE(&PG(http_globals)[TRACK_VARS_COOKIE], &own);
	}
	return Z_ARRVAL(cookies.withheld);
}

/* Puts the cookies into HTTP_COOKIE of the request's variables. */
static bool reveal_variable(void)
{
	struct variable *variables = (void *)worker->variables.bytes, *known = (void *)(uintptr_t)vars_find(ZEND_STRL("HTTP_COOKIE"));
	const char *before = known ? known->value : "", *more = worker->request.withheld;
	size_t length = strlen(before) + 2 + strlen(more);
	if (!wire_room(&whole, length + 1)) {
		return false;
	}
	snprintf(whole.bytes, length + 1, "%s%s%s", before, known ? "; " : "", more);
	if (!known) {
		/* parse_variables() has left room for one more. */
		known = &variables[worker->request.count++];
		*known = (struct variable){ "HTTP_COOKIE", NULL, sizeof "HTTP_COOKIE" - 1, 0 };
	}
	known->value = whole.bytes;
	known->value_length = (uint32_t)strlen(whole.bytes);
	return true;
}

/* As WordPress's add_magic_quotes(), if `escaped`. */
static void copy_value(zval *to, zval *from, bool escaped)
{
	ZVAL_DEREF(from);
	if (escaped && Z_TYPE_P(from) == IS_STRING) {
		ZVAL_STR(to, php_addslashes(Z_STR_P(from)));
	} else if (escaped && Z_TYPE_P(from) == IS_ARRAY) {
		zend_ulong number;
		zend_string *name;
		zval *element;
		array_init(to);
		ZEND_HASH_FOREACH_KEY_VAL(Z_ARRVAL_P(from), number, name, element) {
			zval copy;
			copy_value(&copy, element, true);
			if (name) {
				zend_hash_update(Z_ARRVAL_P(to), name, &copy);
			} else {
				zend_hash_index_update(Z_ARRVAL_P(to), number, &copy);
			}
		} ZEND_HASH_FOREACH_END();
	} else {
		ZVAL_COPY(to, from);
	}
}

/* Adds to an array of cookies what it lacks. */
static void add_to(zval *array, bool escaped)
{
	zend_ulong number;
	zend_string *name;
	zval *value;
	if (!array || Z_TYPE_P(array) != IS_ARRAY) {
		return;
	}
	SEPARATE_ARRAY(array);
	ZEND_HASH_FOREACH_KEY_VAL(withheld(), number, name, value) {
		if (name ? zend_hash_exists(Z_ARRVAL_P(array), name) : zend_hash_index_exists(Z_ARRVAL_P(array), number)) {
			continue;
		}
		zval copy;
		copy_value(&copy, value, escaped);
		if (name) {
			zend_hash_update(Z_ARRVAL_P(array), name, &copy);
		} else {
			zend_hash_index_update(Z_ARRVAL_P(array), number, &copy);
		}
	} ZEND_HASH_FOREACH_END();
}

/* Replaces HTTP_COOKIE in an array of variables of the server. */
static void set_field(zval *array, bool escaped)
{
	if (!array || Z_TYPE_P(array) != IS_ARRAY || !zend_hash_str_exists(Z_ARRVAL_P(array), ZEND_STRL("REQUEST_METHOD"))) {
		return;
	}
	zval text, value;
	ZVAL_STRING(&text, whole.bytes);
	copy_value(&value, &text, escaped);
	zval_ptr_dtor(&text);
	SEPARATE_ARRAY(array);
	zend_hash_str_update(Z_ARRVAL_P(array), ZEND_STRL("HTTP_COOKIE"), &value);
}

/* The same for filter_input(), which has arrays of its own, if they are filled already. */
static void set_filtered(int kind, const zval *array)
{
	if (Z_TYPE_P(array) == IS_ARRAY && zend_hash_num_elements(Z_ARRVAL_P(array))) {
		char *value = whole.bytes;
		size_t length = strlen(value);
		sapi_module.input_filter(kind, "HTTP_COOKIE", &value, length, &length);
	}
}

static zval *variable(const char *name)
{
	zval *value = zend_hash_str_find_ind(&EG(symbol_table), name, strlen(name));
	if (value) {
		ZVAL_DEREF(value);
	}
	return value;
}

/* Whether $_REQUEST has cookies: WordPress's own has none, from when it escapes the arrays. */
bool cookies_are_in_request(void)
{
	if (cookies.escaped) {
		return false;
	}
	const char *order = PG(request_order) ? PG(request_order) : PG(variables_order);
	return order && strpbrk(order, "cC");
}

/* The script gets the withheld cookies; what it has been told of them until now was only that they are not there. */
static void reveal(void)
{
	if (cookies.revealed || !worker->request.withheld) {
		return;
	}
	cookies.revealed = true;
	if (!reveal_variable()) {
		return;
	}
	SG(request_info).cookie_data = whole.bytes;
	add_to(variable("_COOKIE"), cookies.escaped);
	add_to(&PG(http_globals)[TRACK_VARS_COOKIE], false);
	if (cookies_are_in_request()) {
		add_to(variable("_REQUEST"), false);
	}
	set_field(variable("_SERVER"), cookies.escaped);
	set_field(&PG(http_globals)[TRACK_VARS_SERVER], false);
	set_field(variable("_ENV"), false);
	set_field(&PG(http_globals)[TRACK_VARS_ENV], false);
	set_filtered(PARSE_SERVER, &PG(http_globals)[TRACK_VARS_SERVER]);
	set_filtered(PARSE_ENV, &PG(http_globals)[TRACK_VARS_ENV]);
}

/* ---- noting ---- */

static bool is_plain(const char *name, size_t length)
{
	return length && length <= NAME_MOST
		&& strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == length;
}

/* The script looks at all cookies. */
void cookies_look_for_all(void)
{
	if (worker && cookies.noting) {
		carts_cookie(NULL);
		cookies.all = cookies.handed_out = true;
		reveal();
	}
}

static void remember(const char *name, size_t length, enum cookie_use use)
{
	for (unsigned i = 0; i < cookies.count; i++) {
		if (strcmp(cookies.names[i].name, name) == 0) {
			cookies.names[i].use |= use;
			return;
		}
	}
	if (cookies.count == NAMES_MOST) {
		cookies.all = cookies.handed_out = true;
		reveal();
		return;
	}
	memcpy(cookies.names[cookies.count].name, name, length + 1);
	cookies.names[cookies.count++].use = use;
}

/* The script looks for this cookie. That there is a session is known already; only what it is called tells more. */
void cookies_look_for(const char *name, size_t length, enum cookie_use use)
{
	if (!worker || !cookies.noting) {
		return;
	}
	carts_cookie(name);
	if (!is_plain(name, length)) {
		cookies_look_for_all();
		return;
	}
	remember(name, length, use);
	bool of_session = use == EXISTENCE && strcmp(name, zend_ini_string("session.name", sizeof "session.name" - 1, 0)) == 0;
	if (!cookies.revealed && worker->request.withheld && !of_session && zend_symtable_str_exists(withheld(), name, length)) {
		reveal();
	}
}

/* session_start() looks for its own cookie. An empty session is what a visitor without one has, too (visitor.c). */
void cookies_look_for_session(const char *name)
{
	if (name) {
		cookies_look_for(name, strlen(name), EXISTENCE);
		if (worker && cookies.noting && worker->request.withheld && zend_symtable_str_exists(withheld(), name, strlen(name))) {
			reveal();
		}
	}
}

/* Whether the script knows what this cookie says, and not only whether it is there. */
bool cookies_value_was_read(const char *name)
{
	if (cookies.handed_out) {
		return true;
	}
	for (unsigned i = 0; i < cookies.count; i++) {
		if (cookies.names[i].use == VALUE && strcmp(cookies.names[i].name, name) == 0) {
			return true;
		}
	}
	return false;
}

/* Something has used cookies before it could be seen. */
void cookies_were_used(void)
{
	cookies.all = cookies.handed_out = true;
	cookies.revealed |= worker && worker->request.withheld;
}

/* The script takes the array as a whole; `of_cookies`: it is $_COOKIE. */
void cookies_look_at_whole(enum reader reader, bool of_cookies)
{
	switch (reader) {
		case BY_COPY:
			cookies.escaped |= of_cookies;
			break;
		case BY_CORE:
			/* The REST server hands all fields on; but nothing in WordPress is kept by the name of a session. */
			carts_cookie(NULL);
			cookies.all = true;
			reveal();
			break;
		case BY_SITE:
			cookies_look_for_all();
			break;
		case BY_HOOKS:
			break;
	}
}

/* ---- the life of a request ---- */

/* A request has come, and PHP has not seen its cookies yet. */
void cookies_begin(void)
{
	memset(&cookies, 0, sizeof cookies);
	ZVAL_UNDEF(&cookies.withheld);
	/* Sessions are noted for all requests: visitor.c asks for them. */
	cookies.noting = true;
	if (observe_is_blind()) {
		cookies.all = cookies.handed_out = true;
		cookies.revealed = worker->request.withheld && reveal_variable();
	}
}

/*
 * Says what was looked for, before END: `+`, if the script got cookies that were withheld, else `-`; `=`, if the application judges its
 * visitors itself; and names, or `*`.
 */
void cookies_end(void)
{
	if (worker->request.shared && worker->answer != ANSWER_ENDED) {
		char text[8 + NAMES_MOST * (NAME_MOST + 2)];
		size_t length = (size_t)snprintf(text, sizeof text, "%c%s", cookies.revealed ? '+' : '-', visitor_judges() ? " =" : "");
		for (unsigned i = 0; i < cookies.count && !cookies.all; i++) {
			const char *mark = cookies.names[i].use == EXISTENCE ? "?" : "";
			length += (size_t)snprintf(text + length, sizeof text - length, " %s%s", mark, cookies.names[i].name);
		}
		if (cookies.all) {
			length += (size_t)snprintf(text + length, sizeof text - length, " *");
		}
		wire_note(MR_NOTE_COOKIES, text, length);
	}
}

/* The script is over. */
void cookies_free(void)
{
	zval_ptr_dtor(&cookies.withheld);
	ZVAL_UNDEF(&cookies.withheld);
	cookies.noting = false;
}
