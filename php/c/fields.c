/*
 * Which fields of the request a page depends on. While a page is made that others may get, or a member's, each read of a variable that the client may
 * have a say in is noted, with the place that reads it; what that means for the page the server decides (crates/pages/src/read_fields.rs).
 *
 * observe.c sees the reads. What WordPress and a few others read for each page, and what is known to leave no trace in it, is left out:
 * by file, function and variable, never by one of them alone; what plugins read by the text of the function as well (rewind/functions/known). Where
 * WordPress keeps what it has read, the next look at it counts.
 *
 * There is a note for each variable: `HTTP_USER_AGENT FILE:LINE`; `*` stands for all, `:mobile` for what wp_is_mobile() reads, `:browser` for
 * WordPress's variables about the browser (`:ie` for those that are about Internet Explorer only), `:app` for whether WordPress's app asks, `:images` for
 * which formats of images the client takes, `:rest` for what its REST server hands on. Where reads can't be seen, there is none.
 */
#include "rewind/rewind.h"

#include <string.h>

#define NAMES_MOST 24u
#define NAME_MOST 64u
#define PLACE_MOST 160u

/* Of this request. */
static struct {
	bool noting;
	unsigned count;
	struct { char name[NAME_MOST + 1], place[PLACE_MOST + 1]; } reads[NAMES_MOST];
} fields;

/* ---- what counts as nothing ---- */

/* What the server says of itself and of the page, whoever asks for it; the rest of $_SERVER goes to the server, which knows each name. */
static bool is_of_server(const char *name, size_t length)
{
	static const char *const all[] = { "REQUEST_METHOD", "REQUEST_URI", "QUERY_STRING", "SCRIPT_NAME", "SCRIPT_FILENAME", "PHP_SELF",
		"DOCUMENT_ROOT", "DOCUMENT_URI", "PATH_INFO", "PATH_TRANSLATED", "ORIG_PATH_INFO", "SERVER_NAME", "SERVER_PORT", "SERVER_SOFTWARE",
		"GATEWAY_INTERFACE", "HTTPS", "REQUEST_SCHEME", "REQUEST_TIME", "REQUEST_TIME_FLOAT", "REDIRECT_STATUS", "HTTP_HOST", "argv", "argc" };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (strlen(all[i]) == length && memcmp(all[i], name, length) == 0) {
			return true;
		}
	}
	return false;
}

/* Whether a method of WooCommerce's class for the visitor's place runs. Its look-ups tell the hooks (location.php). */
static bool is_geolocation(const zend_execute_data *frame)
{
	const zend_op_array *code = frame ? &frame->func->op_array : NULL;
	return code && code->scope && strcmp(ZSTR_VAL(code->scope->name), "WC_Geolocation") == 0 && strstr(ZSTR_VAL(code->filename), "/woocommerce/");
}

static bool runs_in_shop(const zend_execute_data *frame, const char *name)
{
	return frame && observe_runs(frame, name) && strstr(ZSTR_VAL(frame->func->op_array.filename), "/woocommerce/");
}

/* In WooCommerce: by the option, not by what is read, it is decided for whom such a page is. */
static bool is_known_of_shop(const zend_execute_data *frame, const zend_execute_data *caller)
{
	bool looks_up = is_geolocation(frame) && strcmp(ZSTR_VAL(frame->func->op_array.function_name), "geolocate_ip") == 0;
	return looks_up || (is_geolocation(frame) && is_geolocation(caller)) || runs_in_shop(frame, "wc_get_customer_default_location")
		|| (runs_in_shop(frame, "wc_get_user_agent")
			&& (runs_in_shop(caller, "wc_get_customer_default_location") || runs_in_shop(caller, "wc_get_customer_geolocation")));
}

/* As which name a read counts; NULL: it leaves no trace in the page, or what comes of it is seen elsewhere. */
static const char *counts_as(const char *name, const zend_execute_data *frame)
{
	const zend_execute_data *caller = watch_frame(frame->prev_execute_data);
	bool in_load = observe_is_in(frame, "/wp-includes/load.php"), of_agent = strcmp(name, "HTTP_USER_AGENT") == 0;
	if (observe_is_in(frame, "/wp-includes/vars.php")) {
		bool is_top = !frame->func->op_array.function_name;
		return is_top && of_agent ? NULL : observe_runs(frame, "wp_is_mobile") ? ":mobile" : name;
	}
	/* By these the key of a page has a part, or no page is made for all: crates/pages/src/ask.rs. */
	bool of_content = strcmp(name, "HTTP_ACCEPT") == 0 || strcmp(name, "CONTENT_TYPE") == 0;
	if (in_load && ((of_content && (observe_runs(frame, "wp_is_json_request") || observe_runs(frame, "wp_is_xml_request")))
		|| observe_runs(frame, "wp_populate_basic_auth_from_authorization_header"))) {
		return NULL;
	}
	/* For the status line, of which the server takes the code. */
	if (in_load && observe_runs(frame, "wp_get_server_protocol") && caller && observe_reader(caller) == BY_CORE) {
		return NULL;
	}
	/* Drupal: whether its own test suite asks. */
	if (of_agent && observe_runs(frame, "drupal_valid_test_ua") && observe_is_in(frame, "/includes/bootstrap.inc")) {
		return NULL;
	}
	if (is_known_of_shop(frame, caller) || referer_is_left_out(name, frame)) {
		return NULL;
	}
	/* Known texts have WordPress clean what they read: who is hooked there may do with it what he likes. */
	const char *known = observe_is_hooked("sanitize_text_field") ? NULL : excepted_read(frame->func, name);
	return !known ? name : *known ? known : NULL;
}

/* As which name a look at all counts. */
static const char *whole_counts_as(const zend_execute_data *frame)
{
	const zend_class_entry *class = frame->func->common.scope;
	if (observe_is_in(frame, "/wp-includes/rest-api/class-wp-rest-server.php") && class && strcmp(ZSTR_VAL(class->name), "WP_REST_Server") == 0) {
		return ":rest";
	}
	return observe_reader(frame) == BY_COPY ? NULL : counts_as("*", frame);
}

/* ---- noting ---- */

static void put_place(char *place, const char *file, uint32_t line)
{
	size_t length = strlen(file), most = PLACE_MOST - 12;
	snprintf(place, PLACE_MOST + 1, "%s:%u", file + (length > most ? length - most : 0), line);
	for (char *at = place; *at; at++) {
		*at = (unsigned char)*at < ' ' || *at == 0x7f ? '?' : *at;
	}
}

static void note(const char *name, const char *file, uint32_t line)
{
	for (unsigned i = 0; i < fields.count; i++) {
		if (strcmp(fields.reads[i].name, name) == 0) {
			return;
		}
	}
	unsigned at = fields.count < NAMES_MOST ? fields.count++ : NAMES_MOST - 1;
	/* The last place is for all. */
	strcpy(fields.reads[at].name, at == NAMES_MOST - 1 ? "*" : name);
	put_place(fields.reads[at].place, file, line);
	identity_note_field(fields.reads[at].name);
}

static void note_at(const char *name, const zend_execute_data *frame)
{
	note(name, ZSTR_VAL(frame->func->op_array.filename), frame->opline ? frame->opline->lineno : frame->func->op_array.line_start);
}

/* Whether a client could be the cause of such a variable: names of others are never sent (crates/pools/src/variables.rs). */
static bool is_possible(const char *name, size_t length)
{
	static const char field[] = "HTTP_";
	return length && !is_of_server(name, length)
		&& (vars_find(name, length) || (length > sizeof field - 1 && memcmp(name, field, sizeof field - 1) == 0))
		&& strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == length;
}

/* An element of $_SERVER is looked at. */
void fields_read(const char *name, size_t length, const zend_execute_data *frame)
{
	if (!fields.noting || !(frame = watch_frame(frame)) || observe_reader(frame) == BY_HOOKS || !is_possible(name, length)) {
		return;
	}
	const char *as = counts_as(length > NAME_MOST ? "*" : name, frame);
	if (as) {
		note_at(as, frame);
	}
}

/* All of it. */
void fields_read_all(const zend_execute_data *frame)
{
	if (!fields.noting || !(frame = watch_frame(frame)) || observe_reader(frame) == BY_HOOKS) {
		return;
	}
	const char *as = whole_counts_as(frame);
	if (as) {
		note_at(as, frame);
	}
}

/* As which name a variable counts in which WordPress keeps what it has found out about the browser. */
static const char *browser_name(const char *variable)
{
	bool is_ie = strcmp(variable, "is_IE") == 0 || strcmp(variable, "is_winIE") == 0 || strcmp(variable, "is_macIE") == 0;
	return is_ie ? ":ie" : ":browser";
}

/* Such a variable is looked at. */
void fields_read_browser(const char *variable, const zend_execute_data *frame)
{
	if (fields.noting && (frame = watch_frame(frame)) && !observe_is_in(frame, "/wp-includes/vars.php") && observe_reader(frame) != BY_HOOKS) {
		note_at(browser_name(variable), frame);
	}
}

/* One is named by the code of a file that has the global variables as its own. */
void fields_read_browser_at(const char *variable, const char *file, uint32_t line)
{
	static const char own[] = "/wp-includes/vars.php";
	size_t length = strlen(file);
	bool is_own = length >= sizeof own - 1 && strcmp(file + length - (sizeof own - 1), own) == 0 && !strstr(file, "/wp-content/");
	if (fields.noting && !is_own) {
		note(browser_name(variable), file, line);
	}
}

/* ---- the life of a request ---- */

void fields_begin(void)
{
	fields.noting = (worker->request.shared || identity_concerns()) && !observe_is_blind();
	fields.count = 0;
}

/* The names of what was read until now, for the hooks. */
void fields_list(zval *array)
{
	for (unsigned i = 0; i < fields.count; i++) {
		add_next_index_string(array, fields.reads[i].name);
	}
}

/* Says what was read, before END. */
void fields_end(void)
{
	bool says = fields.noting && worker->request.shared && worker->answer != ANSWER_ENDED;
	for (unsigned i = 0; says && i < fields.count; i++) {
		char text[NAME_MOST + PLACE_MOST + 2];
		int length = snprintf(text, sizeof text, "%s %s", fields.reads[i].name, fields.reads[i].place);
		wire_note(MR_NOTE_FIELDS, text, (size_t)length);
	}
	fields.noting = false;
}
