/*
 * Reads and writes frames. The socket blocks; a worker has nothing else to do than its one request.
 *
 * Output is collected until it has 32 KB, PHP flushes, or the response ends: a short response is HEAD, BODY and END in one
 * write. Between two calls the socket is always at the end of a frame, so a LOG can be written at any time.
 */
#include "worker.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define OUT_KEEP (32u << 10)

struct __attribute__((packed)) frame {
	uint32_t length;
	uint8_t kind;
	uint8_t flags;
	uint16_t extra;
};
_Static_assert(sizeof(struct frame) == MR_HEADER_BYTES, "frame header");

/* Makes room for that many bytes; false when there is no memory. */
bool wire_room(struct buffer *buffer, size_t room)
{
	if (room <= buffer->room) {
		return true;
	}
	size_t size = buffer->room ? buffer->room : 64u << 10;
	while (size < room) {
		size *= 2;
	}
	void *bytes = buffer->bytes
		? mremap(buffer->bytes, buffer->room, size, MREMAP_MAYMOVE)
		: mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED) {
		return false;
	}
	buffer->bytes = bytes;
	buffer->room = size;
	return true;
}

/* ---- in ---- */

/* Takes the descriptor of a message out of its control data; any further one is closed. */
static void take_descriptor(struct msghdr *message)
{
	for (struct cmsghdr *control = CMSG_FIRSTHDR(message); control; control = CMSG_NXTHDR(message, control)) {
		if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) {
			continue;
		}
		size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(control) + i * sizeof fd, sizeof fd);
			if (worker->in_fd < 0) {
				worker->in_fd = fd;
			} else {
				close(fd);
			}
		}
	}
}

/* Reads the bytes that are there. 1: some; 0: the server has closed the socket, or this worker must stop; -1: error. */
static int read_some(void)
{
	struct buffer *in = &worker->in;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct iovec part = { in->bytes + in->length, in->room - in->length };
	for (;;) {
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
			.msg_controllen = sizeof control };
		ssize_t got = recvmsg(worker->socket, &message, MSG_CMSG_CLOEXEC);
		if (got > 0) {
			if (message.msg_controllen) {
				take_descriptor(&message);
			}
			in->length += (size_t)got;
			return 1;
		}
		if (got == 0) {
			return 0;
		}
		if (errno == EAGAIN) {
			/* SO_RCVTIMEO of a persistent worker. */
			if (handler_idle()) {
				return 0;
			}
		} else if (errno != EINTR) {
			return -1;
		}
	}
}

/* Stores one variable, unless it is one that PHP must not see. */
static bool keep_variable(struct request *request, const struct variable *variable)
{
	const char *name = variable->name;
	if (memchr(name, 0, variable->name_length) || memchr(variable->value, 0, variable->value_length)
		|| variable->name_length == 0) {
		return false;
	}
	switch (variable->name_length) {
		case sizeof MR_INJECT_VARIABLE - 1:
			if (memcmp(name, MR_INJECT_VARIABLE, sizeof MR_INJECT_VARIABLE) == 0) {
				request->inject = variable->value_length ? variable->value : NULL;
				return false;
			}
			return true;
		case sizeof MR_COOKIES_VARIABLE - 1:
			if (memcmp(name, MR_COOKIES_VARIABLE, sizeof MR_COOKIES_VARIABLE) == 0) {
				request->shared = true;
				request->withheld = variable->value_length ? variable->value : NULL;
				return false;
			}
			return true;
		case sizeof "HTTP_PROXY" - 1:
			/* libraries take it for the proxy of their own requests: CVE-2016-5385 */
			return memcmp(name, "HTTP_PROXY", sizeof "HTTP_PROXY") != 0;
		default:
			return true;
	}
}

/* Finds the variables of a complete frame. The counterpart of frames/request.rs. */
static bool parse_variables(struct request *request, char *at, char *end, uint32_t count)
{
	if (count > (size_t)(end - at) / (MR_VARIABLE_BYTES + 2)
		|| !wire_room(&worker->variables, (count + 1) * sizeof(struct variable))) {
		return count == 0 && at == end;
	}
	struct variable *variables = (void *)worker->variables.bytes;
	for (uint32_t i = 0; i < count; i++) {
		uint16_t name_length;
		uint32_t value_length;
		if (end - at < (ptrdiff_t)MR_VARIABLE_BYTES) {
			return false;
		}
		memcpy(&name_length, at, sizeof name_length);
		memcpy(&value_length, at + 4, sizeof value_length);
		at += MR_VARIABLE_BYTES;
		if ((size_t)(end - at) < (size_t)name_length + value_length + 2) {
			return false;
		}
		struct variable variable = { at, at + name_length + 1, name_length, value_length };
		if (variable.name[name_length] || variable.value[value_length]) {
			return false;
		}
		at += (size_t)name_length + value_length + 2;
		if (keep_variable(request, &variable)) {
			variables[request->count++] = variable;
		}
	}
	return at == end;
}

/* Reads the complete frame in the buffer into worker->request. */
static bool parse_request(const struct frame *frame)
{
	struct request *request = &worker->request;
	char *payload = worker->in.bytes + MR_HEADER_BYTES;
	char *end = payload + frame->length;
	uint32_t count, variables_bytes;
	memcpy(&request->sequence, payload, 8);
	memcpy(&request->body_length, payload + 8, 8);
	memcpy(&count, payload + 16, 4);
	memcpy(&variables_bytes, payload + 20, 4);
	payload += MR_REQUEST_BYTES;
	request->ordinary = frame->flags & MR_FLAG_ORDINARY;
	request->again = frame->flags & MR_FLAG_AGAIN;
	request->may_decline = frame->flags & MR_FLAG_MAY_DECLINE;
	request->no_image = frame->flags & MR_FLAG_NO_IMAGE;
	if (variables_bytes > (size_t)(end - payload)
		|| !parse_variables(request, payload, payload + variables_bytes, count)) {
		return false;
	}
	size_t rest = (size_t)(end - payload) - variables_bytes;
	switch (frame->flags & (MR_FLAG_BODY_INLINE | MR_FLAG_BODY_DESCRIPTOR)) {
		case MR_FLAG_BODY_INLINE:
			request->body = payload + variables_bytes;
			return rest == request->body_length;
		case MR_FLAG_BODY_DESCRIPTOR:
			request->body_fd = worker->in_fd;
			worker->in_fd = -1;
			return rest == 0 && request->body_fd >= 0;
		default:
			return rest == 0 && request->body_length == 0;
	}
}

static bool protocol_error(const char *what)
{
	wire_log(LOG_CRIT, what, strlen(what));
	return false;
}

/* Moves the bytes behind the last REQUEST to the front. */
static void drop_read(void)
{
	struct buffer *in = &worker->in;
	in->length -= worker->in_used;
	if (in->length) {
		memmove(in->bytes, in->bytes + worker->in_used, in->length);
	}
	worker->in_used = 0;
}

/* Waits until the buffer starts with a complete REQUEST; false: no further one comes, or it is invalid. */
static bool read_frame(struct frame *frame)
{
	struct buffer *in = &worker->in;
	for (;;) {
		if (in->length >= MR_HEADER_BYTES) {
			memcpy(frame, in->bytes, sizeof *frame);
			if (frame->kind != MR_KIND_REQUEST || frame->length < MR_REQUEST_BYTES
				|| frame->length > MR_REQUEST_BYTES + MR_VARIABLES_MAX + MR_INLINE_BODY_MAX) {
				return protocol_error("millrace-php: the server sent a frame that is not a request");
			}
			worker->in_used = MR_HEADER_BYTES + (size_t)frame->length;
			if (in->length >= worker->in_used) {
				return true;
			}
			if (!wire_room(in, worker->in_used)) {
				return false;
			}
		}
		if (read_some() <= 0) {
			return false;
		}
	}
}

/* Whether the REQUEST in the buffer is still for this worker: the server may have taken back one that it sent ahead. */
static bool is_ours(const struct frame *frame)
{
	uint64_t sequence;
	if (!(frame->flags & MR_FLAG_OFFERED)) {
		return true;
	}
	memcpy(&sequence, worker->in.bytes + MR_HEADER_BYTES, sizeof sequence);
	size_t word = MR_SLOT_OFFERED + sequence % MR_SLOT_OFFERS * sizeof sequence;
	return board_swap64(worker->board, word, sequence * 2, sequence * 2 + 1);
}

/* Waits for the next REQUEST; false: none comes any more, the worker ends. */
bool wire_read(void)
{
	struct frame frame = { 0 };
	if (!wire_room(&worker->in, 64u << 10)) {
		return false;
	}
	do {
		drop_read();
		if (!read_frame(&frame)) {
			return false;
		}
	} while (!is_ours(&frame));
	worker->request = (struct request){ .body_fd = -1 };
	worker->purges.length = 0;
	worker->purge_all = worker->hard = worker->controlled = false;
	if (!parse_request(&frame)) {
		return protocol_error("millrace-php: the server sent a malformed request");
	}
	if (worker->request.sequence <= worker->sequence) {
		return protocol_error("millrace-php: the server sent a request out of order");
	}
	worker->sequence = worker->request.sequence;
	worker->answer = ANSWER_WAITING;
	return true;
}

/* ---- out ---- */

/* Writes all parts; false if the server has closed the socket. */
static bool write_all(struct iovec *parts, size_t count)
{
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = count };
	while (!worker->broken && message.msg_iovlen) {
		ssize_t sent = sendmsg(worker->socket, &message, MSG_NOSIGNAL);
		if (sent < 0) {
			worker->broken = errno != EINTR;
			continue;
		}
		size_t left = (size_t)sent;
		while (message.msg_iovlen && left >= message.msg_iov->iov_len) {
			left -= message.msg_iov->iov_len;
			message.msg_iov++;
			message.msg_iovlen--;
		}
		if (message.msg_iovlen) {
			message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + left;
			message.msg_iov->iov_len -= left;
		}
	}
	return !worker->broken;
}

static void put(const void *bytes, size_t length)
{
	memcpy(worker->out.bytes + worker->out.length, bytes, length);
	worker->out.length += length;
}

static void put_frame(uint8_t kind, uint8_t flags, uint16_t extra, size_t length)
{
	struct frame frame = { (uint32_t)length, kind, flags, extra };
	put(&frame, sizeof frame);
}

/* Writes the length of the open BODY: the collected bytes and `more` bytes that are written behind them. */
static void close_body(size_t more)
{
	if (worker->body_at == SIZE_MAX) {
		return;
	}
	uint32_t length = (uint32_t)(worker->out.length - worker->body_at - MR_HEADER_BYTES + more);
	memcpy(worker->out.bytes + worker->body_at, &length, sizeof length);
	worker->body_at = SIZE_MAX;
}

/* Writes the collected output. */
bool wire_flush(void)
{
	close_body(0);
	if (worker->out.length == 0) {
		return !worker->broken;
	}
	struct iovec part = { worker->out.bytes, worker->out.length };
	worker->out.length = 0;
	return write_all(&part, 1);
}

static void open_body(void)
{
	if (worker->body_at == SIZE_MAX) {
		worker->body_at = worker->out.length;
		put_frame(MR_KIND_BODY, 0, 0, 0);
	}
}

/* Adds content to the response; returns how many bytes it took: less than all if the server has closed the socket. */
size_t wire_content(const char *bytes, size_t length)
{
	if (length == 0) {
		return 0;
	}
	if (worker->out.length + MR_HEADER_BYTES + length <= OUT_KEEP) {
		open_body();
		put(bytes, length);
		return length;
	}
	size_t done = 0;
	while (done < length) {
		open_body();
		size_t kept = worker->out.length - worker->body_at - MR_HEADER_BYTES;
		size_t piece = MIN(length - done, MR_BODY_MAX - kept);
		close_body(piece);
		struct iovec parts[2] = {
			{ worker->out.bytes, worker->out.length },
			{ (void *)(uintptr_t)(bytes + done), piece },
		};
		worker->out.length = 0;
		if (!write_all(parts, 2)) {
			return done;
		}
		done += piece;
	}
	return length;
}

/* Sends a message to the server's error log, at once, so that it is not lost if the worker dies. */
void wire_log(int priority, const char *message, size_t length)
{
	length = MIN(length, MR_LOG_MAX);
	struct frame frame = { (uint32_t)length, MR_KIND_LOG, 0, (uint16_t)priority };
	struct iovec parts[2] = { { &frame, sizeof frame }, { (void *)(uintptr_t)message, length } };
	write_all(parts, 2);
}

/* A persistent worker's script has come to its loop, or has ended before; `message` says why. */
void wire_handler(bool ready, const char *message, size_t length)
{
	struct frame frame = { (uint32_t)length, MR_KIND_HANDLER, ready ? MR_FLAG_READY : MR_FLAG_FAILED, 0 };
	struct iovec parts[2] = { { &frame, sizeof frame }, { (void *)(uintptr_t)message, length } };
	write_all(parts, 2);
}

/* ---- notes to the page cache ---- */

/* Maximum number of bytes of purges that are stored for sending again; beyond it, the whole site is purged instead. */
#define PURGES_KEEP (256u << 10)

static const char all[] = "*", all_hard[] = "hard, *";

/* Stores a purge until the response ends. */
static void keep_purge(const struct frame *frame, const char *text)
{
	struct buffer *kept = &worker->purges;
	size_t size = sizeof *frame + frame->length;
	worker->hard |= frame->length > 5 && strncasecmp(text, "hard,", 5) == 0;
	for (size_t at = 0; at < kept->length;) {
		struct frame other;
		memcpy(&other, kept->bytes + at, sizeof other);
		if (other.length == frame->length && memcmp(kept->bytes + at + sizeof other, text, other.length) == 0) {
			return;
		}
		at += sizeof other + other.length;
	}
	if (kept->length + size > PURGES_KEEP || !wire_room(kept, kept->length + size)) {
		worker->purge_all = true;
		return;
	}
	memcpy(kept->bytes + kept->length, frame, sizeof *frame);
	memcpy(kept->bytes + kept->length + sizeof *frame, text, frame->length);
	kept->length += size;
}

/*
 * Sends what the script says to the page cache; false if the response can't take it any more, or the server has closed the
 * socket. Tags and control go with the next write. A purge goes at once, and again when the response ends
 * (say_purges_again). Names of files go at once: they can be many, and must not have the head sent before hooks have judged the page.
 */
bool wire_note(uint16_t what, const char *text, size_t length)
{
	struct frame frame = { (uint32_t)length, MR_KIND_NOTE, 0, what };
	if (what == MR_NOTE_PURGE || what == MR_NOTE_CODE) {
		if (what == MR_NOTE_PURGE) {
			keep_purge(&frame, text);
			rewind_changed();
		}
		struct iovec parts[2] = { { &frame, sizeof frame }, { (void *)(uintptr_t)text, length } };
		return write_all(parts, 2);
	}
	close_body(0);
	if (!wire_room(&worker->out, worker->out.length + sizeof frame + length + OUT_KEEP)) {
		return false;
	}
	put(&frame, sizeof frame);
	put(text, length);
	return worker->out.length < OUT_KEEP || wire_flush();
}

/* Called before END and READY: a page made between a purge and now may contain what the script has replaced. */
static void say_purges_again(void)
{
	rewind_changed();
	struct buffer *kept = &worker->purges;
	size_t most = kept->length + sizeof(struct frame) + sizeof all_hard;
	if (!wire_room(&worker->out, worker->out.length + most + OUT_KEEP)) {
		wire_flush();
		struct iovec part = { kept->bytes, kept->length };
		write_all(&part, 1);
	} else {
		put(kept->bytes, kept->length);
	}
	if (worker->purge_all) {
		const char *text = worker->hard ? all_hard : all;
		put_frame(MR_KIND_NOTE, 0, MR_NOTE_PURGE, strlen(text));
		put(text, strlen(text));
	}
}

/*
 * Sends fields for 103 Early Hints, packed as in HEAD, at once. False if the response has begun, or the server has closed
 * the socket.
 */
bool wire_early(const char *payload, size_t length)
{
	if (worker->answer != ANSWER_WAITING || length > MR_HEAD_MAX || !wire_flush()) {
		return false;
	}
	struct frame frame = { (uint32_t)length, MR_KIND_EARLY, 0, 103 };
	struct iovec parts[2] = { { &frame, sizeof frame }, { (void *)(uintptr_t)payload, length } };
	return write_all(parts, 2);
}

/* Drops the notes of a response that starts again; its head has not been written. */
void wire_unsay(void)
{
	worker->out.length = 0;
}

/* Completes the response: END, or READY if END was written before (fastcgi_finish_request). */
void wire_end(uint8_t flags)
{
	close_body(0);
	uint64_t peak = zend_memory_peak_usage(0);
	bool background = worker->answer == ANSWER_ENDED;
	rewind_written();
	uint64_t class = rewind_says(&flags);
	if (worker->purges.length) {
		say_purges_again();
	}
	if (worker->out.length + MR_HEADER_BYTES + MR_END_BYTES > worker->out.room) {
		wire_flush();
	}
	put_frame(background ? MR_KIND_READY : MR_KIND_END, flags, 0, MR_END_BYTES);
	put(&peak, sizeof peak);
	put(&class, sizeof class);
	if (peak > board_get64(worker->board, MR_SLOT_PEAK)) {
		board_set64(worker->board, MR_SLOT_PEAK, peak);
	}
	if (!background) {
		board_set64(worker->board, MR_SLOT_FINISHED, worker->request.sequence);
	}
	if (!(flags & MR_FLAG_READY)) {
		board_set32(worker->board, MR_SLOT_STATE, MR_STATE_BACKGROUND);
	}
	worker->answer = ANSWER_ENDED;
	wire_flush();
}

/* The request does not fit the image of this worker, and nothing of it has run: another worker gets it. */
void wire_decline(void)
{
	const uint64_t nothing = 0;
	worker->out.length = 0;
	worker->body_at = SIZE_MAX;
	put_frame(MR_KIND_END, MR_FLAG_READY | MR_FLAG_MISFIT | MR_FLAG_DECLINED, 0, MR_END_BYTES);
	put(&nothing, sizeof nothing);
	put(&nothing, sizeof nothing);
	board_set64(worker->board, MR_SLOT_FINISHED, worker->request.sequence);
	worker->answer = ANSWER_NONE;
	wire_flush();
	board_set32(worker->board, MR_SLOT_STATE, MR_STATE_IDLE);
}

/* ---- HEAD ---- */

/* What the script has set as status: code and reason. */
struct status {
	int code;
	const char *reason;
	size_t reason_length;
};

/* Parses "404 Nope" or " 404 Nope", of a status line or a Status field. */
static struct status parse_status(const char *text)
{
	while (*text == ' ' || *text == '\t') {
		text++;
	}
	struct status status = { 0, "", 0 };
	while (*text >= '0' && *text <= '9' && status.code < 1000) {
		status.code = status.code * 10 + (*text++ - '0');
	}
	if (*text == ' ') {
		/* As sapi/cgi/cgi_main.c: "Status: NNN " and the reason in 1023 bytes (php-src's bug80849-cgi.phpt). */
		status.reason = text + 1;
		status.reason_length = MIN(strcspn(text + 1, "\r\n"), 1011);
	}
	return status;
}

static bool is_field(const sapi_header_struct *field, const char *name)
{
	size_t length = strlen(name);
	return field->header_len > length && strncasecmp(field->header, name, length) == 0;
}

/* The first Status field, which takes the place of a status line. */
static const sapi_header_struct *status_field(sapi_headers_struct *headers)
{
	zend_llist_position position;
	sapi_header_struct *field = zend_llist_get_first_ex(&headers->headers, &position);
	while (field && !is_field(field, "Status:")) {
		field = zend_llist_get_next_ex(&headers->headers, &position);
	}
	return field;
}

/* Which of status line, Status field and response code wins: sapi_cgi_send_headers in sapi/fpm/fpm/fpm_main.c. */
static struct status resolve_status(sapi_headers_struct *headers)
{
	int code = headers->http_response_code;
	const char *line = headers->http_status_line;
	if (code != 200 && line && strncasecmp(line, "HTTP/", 5) == 0 && strchr(line, ' ')) {
		return parse_status(strchr(line, ' '));
	}
	const sapi_header_struct *field = status_field(headers);
	if (field) {
		return parse_status(field->header + sizeof "Status:" - 1);
	}
	return (struct status){ code, "", 0 };
}

/* RFC 9110 5.6.2. */
static bool is_token(unsigned char byte)
{
	return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z')
		|| (byte && strchr("!#$%&'*+-.^_`|~", byte));
}

/* Whether a field can be sent. PHP takes `header("no colon")` and `header("a b: c")`; a server must not. */
bool wire_is_legal(const sapi_header_struct *field)
{
	size_t name = 0;
	while (name < field->header_len && is_token((unsigned char)field->header[name])) {
		name++;
	}
	return name > 0 && name < field->header_len && field->header[name] == ':'
		&& !memchr(field->header, '\0', field->header_len) && !memchr(field->header, '\r', field->header_len)
		&& !memchr(field->header, '\n', field->header_len);
}

static void log_illegal(const sapi_header_struct *field)
{
	char text[256];
	int length = snprintf(text, sizeof text, "PHP header dropped, its name is illegal: %.*s",
		(int)MIN(field->header_len, 150u), field->header);
	wire_log(LOG_WARNING, text, (size_t)length);
}

/* Whether a field belongs in the response. */
static bool is_sent(const sapi_header_struct *field, int code)
{
	if (field->header_len == 0 || is_field(field, "Status:")) {
		return false;
	}
	if (code == 304 && is_field(field, "Content-Type:")) {
		return false;
	}
	if (!wire_is_legal(field)) {
		log_illegal(field);
		return false;
	}
	return true;
}

/* Writes HEAD. A status code that is not allowed in a response becomes 500. */
void wire_head(sapi_headers_struct *headers)
{
	struct status status = resolve_status(headers);
	if (status.code < 200 || status.code > 999) {
		char text[100];
		int length = snprintf(text, sizeof text, "PHP set the invalid status code %d: answered with 500", status.code);
		wire_log(LOG_WARNING, text, (size_t)length);
		status = (struct status){ 500, "", 0 };
	}
	zend_llist_position position;
	size_t room = worker->out.length + MR_HEADER_BYTES + 4 + status.reason_length;
	for (sapi_header_struct *field = zend_llist_get_first_ex(&headers->headers, &position); field;
		field = zend_llist_get_next_ex(&headers->headers, &position)) {
		room += 4 + field->header_len;
	}
	if (room > MR_HEAD_MAX || !wire_room(&worker->out, room + OUT_KEEP)) {
		static const char text[] = "PHP set more than 1 MB of headers: answered with 500 without headers";
		wire_log(LOG_ERR, text, sizeof text - 1);
		sapi_headers_struct none = { .http_response_code = 500 };
		wire_head(&none);
		return;
	}
	size_t start = worker->out.length;
	put_frame(MR_KIND_HEAD, 0, (uint16_t)status.code, 0);
	uint16_t reason_length = (uint16_t)status.reason_length, count = 0;
	put(&reason_length, sizeof reason_length);
	put(status.reason, status.reason_length);
	size_t count_at = worker->out.length;
	put(&count, sizeof count);
	for (sapi_header_struct *field = zend_llist_get_first_ex(&headers->headers, &position); field && count < UINT16_MAX;
		field = zend_llist_get_next_ex(&headers->headers, &position)) {
		if (is_sent(field, status.code)) {
			uint32_t length = (uint32_t)field->header_len;
			put(&length, sizeof length);
			put(field->header, length);
			count++;
		}
	}
	memcpy(worker->out.bytes + count_at, &count, sizeof count);
	uint32_t length = (uint32_t)(worker->out.length - start - MR_HEADER_BYTES);
	memcpy(worker->out.bytes + start, &length, sizeof length);
	worker->answer = ANSWER_CONTENT;
}
