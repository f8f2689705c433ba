/*
 * 103 Early Hints (RFC 8297): what a browser may fetch while the script still runs. A script sends them by
 * millrace_early_hints(), or by headers_send(103) as in FrankenPHP, after header('Link: ...'). Only Link is sent: a cookie
 * or a media type belongs to the response. The server decides whether the client can take them.
 */
#include "worker.h"

#include <Zend/zend_smart_str.h>
#include <string.h>

#define LINK "Link: "

/* The payload of an EARLY: u16 length of the reason, u16 count, then u32 length and text of each field. */
static void begin(smart_str *payload)
{
	static const char head[4];
	smart_str_appendl(payload, head, sizeof head);
}

static void add(smart_str *payload, const char *name, size_t name_length, const char *text, size_t length)
{
	uint32_t all = (uint32_t)(name_length + length);
	smart_str_appendl(payload, (const char *)&all, sizeof all);
	smart_str_appendl(payload, name, name_length);
	smart_str_appendl(payload, text, length);
	uint16_t count;
	memcpy(&count, ZSTR_VAL(payload->s) + 2, sizeof count);
	count++;
	memcpy(ZSTR_VAL(payload->s) + 2, &count, sizeof count);
}

/* Maximum number of fields in one 103. */
#define MOST 256

/* Adds the Link fields that the script has set so far; returns their number. */
static uint32_t add_links(smart_str *payload)
{
	uint32_t count = 0;
	zend_llist_position position;
	zend_llist *fields = &SG(sapi_headers).headers;
	for (sapi_header_struct *field = zend_llist_get_first_ex(fields, &position); field && count < MOST;
		field = zend_llist_get_next_ex(fields, &position)) {
		if (field->header_len > 5 && strncasecmp(field->header, "Link:", 5) == 0 && wire_is_legal(field)) {
			add(payload, "", 0, field->header, field->header_len);
			count++;
		}
	}
	return count;
}

static bool can_say(void)
{
	return worker && worker->answer == ANSWER_WAITING && !SG(headers_sent) && !SG(request_info).no_headers;
}

/* Sends the Link fields that are set; true also if there is none. */
static bool send_links(void)
{
	if (!can_say()) {
		return false;
	}
	smart_str payload = { 0 };
	begin(&payload);
	bool said = add_links(&payload) == 0 || wire_early(ZSTR_VAL(payload.s), ZSTR_LEN(payload.s));
	smart_str_free(&payload);
	return said;
}

/* Why a string can't be a value of Link, or NULL. */
static const char *fault(const zend_string *text)
{
	if (ZSTR_LEN(text) == 0) {
		return "cannot be empty";
	}
	for (size_t i = 0; i < ZSTR_LEN(text); i++) {
		unsigned char byte = (unsigned char)ZSTR_VAL(text)[i];
		if (byte < 0x20 || byte == 0x7f) {
			return "must not contain control characters such as CR, LF and NUL";
		}
	}
	return NULL;
}

PHP_FUNCTION(millrace_early_hints)
{
	zval *links;
	uint32_t count;
	ZEND_PARSE_PARAMETERS_START(0, -1)
		Z_PARAM_VARIADIC('*', links, count)
	ZEND_PARSE_PARAMETERS_END();
	if (count == 0) {
		RETURN_BOOL(send_links());
	}
	if (count > MOST) {
		zend_argument_count_error("%s() takes at most %d links", get_active_function_name(), MOST);
		RETURN_THROWS();
	}
	smart_str payload = { 0 };
	begin(&payload);
	for (uint32_t i = 0; i < count; i++) {
		zend_string *link;
		if (!zend_parse_arg_str(&links[i], &link, false, i + 1)) {
			zend_argument_type_error(i + 1, "must be of type string, %s given", zend_zval_type_name(&links[i]));
			break;
		}
		const char *wrong = fault(link);
		if (wrong) {
			zend_argument_value_error(i + 1, "%s", wrong);
			break;
		}
		add(&payload, LINK, sizeof LINK - 1, ZSTR_VAL(link), ZSTR_LEN(link));
	}
	bool said = !EG(exception) && can_say() && wire_early(ZSTR_VAL(payload.s), ZSTR_LEN(payload.s));
	smart_str_free(&payload);
	if (EG(exception)) {
		RETURN_THROWS();
	}
	RETURN_BOOL(said);
}

/*
 * As in FrankenPHP (frankenphp.c): 103 sends the fields that are set and changes nothing; any other code sends the head of
 * the response with that code at once. The return values are those of sapi_module.send_headers and sapi_send_headers there.
 */
PHP_FUNCTION(headers_send)
{
	zend_long status = 200;
	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_LONG(status)
	ZEND_PARSE_PARAMETERS_END();
	if (status == 103) {
		RETURN_LONG(send_links() ? SAPI_HEADER_SENT_SUCCESSFULLY : SAPI_HEADER_SEND_FAILED);
	}
	if (status >= 100 && status < 200) {
		/* Other fields are ignored: frameworks pass on all that they were given. */
		RETURN_LONG(SAPI_HEADER_SEND_FAILED);
	}
	if (status < 200 || status > 999) {
		zend_argument_value_error(1, "must be between 100 and 999");
		RETURN_THROWS();
	}
	if (ZEND_NUM_ARGS() && !SG(headers_sent)) {
		SG(sapi_headers).http_response_code = (int)status;
	}
	int result = sapi_send_headers();
	if (worker && worker->answer == ANSWER_CONTENT) {
		wire_flush();
	}
	RETURN_LONG(result);
}
