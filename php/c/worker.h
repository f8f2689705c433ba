/*
 * What the worker's files share.
 *
 * Who owns the memory. A worker's own state is one `struct worker` in a mapping of its own, with its buffers in mappings of
 * their own: none of it is in malloc's or PHP's memory, so PHP's memory can be restored after a request without touching
 * it. PHP owns everything else. The scoreboard belongs to the server; host and workers share it. Each word in it has one
 * writer, except the words by which server and worker decide which of them has a request (see frames.rs).
 *
 * Threads. The host is one thread and forks workers; a worker is one thread. There are no locks.
 */
#ifndef MILLRACE_WORKER_H
#define MILLRACE_WORKER_H

#include "compat.h"
#include "frames.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* A variable of $_SERVER, inside the frame that contained it; name and value end with NUL. */
struct variable {
	const char *name;
	const char *value;
	uint32_t name_length;
	uint32_t value_length;
};

/* Memory from mmap that grows. */
struct buffer {
	char *bytes;
	size_t length; /* in use */
	size_t room;   /* mapped */
};

/* One REQUEST. */
struct request {
	uint64_t sequence;
	uint64_t body_length;
	uint64_t body_read;
	bool ordinary;      /* not in an image of its boot */
	bool again;         /* to be compared: it must not change anything */
	bool may_decline;   /* if it does not fit the image, another worker gets it */
	bool no_image;      /* no image is made of its boot */
	bool head;          /* the method is HEAD: only the start of the content is sent */
	size_t written;     /* content that was sent in answer to HEAD */
	const char *body;   /* inline body, or NULL */
	int body_fd;        /* body in a file, or -1 */
	const char *inject; /* PHP file to run before the script, or NULL */
	bool shared;        /* the response may become a page for all */
	const char *withheld; /* cookies that the script gets only if it looks for one of them, or NULL */
	uint32_t count;     /* variables */
};

/* The progress of the response. */
enum answer {
	ANSWER_NONE,    /* no request */
	ANSWER_WAITING, /* HEAD not written */
	ANSWER_CONTENT, /* HEAD written, BODY may follow */
	ANSWER_ENDED,   /* END written; further output of PHP is dropped */
	ANSWER_VOID,    /* the request runs again: output of PHP is dropped until then */
};

/* All of a worker's state that outlives a request. */
struct worker {
	int socket;
	uint32_t slot;
	char *board;              /* its slot in the scoreboard */
	const char *scoreboard;   /* all of it */
	uint64_t max_requests;    /* with jitter; 0: no limit */
	uint64_t requests;        /* served */
	uint64_t sequence;        /* of the last REQUEST */
	volatile bool stop;       /* no further request: SIGTERM, or see taint.c */
	bool broken;              /* the socket can't be written any more */
	bool exiting;             /* the last END said so */
	bool last;                /* persistent: the next END must say so */
	enum answer answer;
	struct request request;
	struct buffer in;         /* the REQUEST, and the bytes behind it */
	size_t in_used;           /* bytes of the REQUEST */
	int in_fd;                /* a received descriptor that no REQUEST has taken yet, or -1 */
	struct buffer variables;  /* struct variable each */
	struct buffer out;        /* frames not yet written */
	size_t body_at;           /* place of the open BODY's header in out, or SIZE_MAX */
	struct buffer purges;     /* NOTE frames of this request's purges, to be sent again at its end */
	bool purge_all, hard;     /* there are more than PURGES_KEEP bytes; one of them was hard */
	bool controlled;          /* the script said how its page may be kept, not only as a fallback */
	volatile bool time_is_up; /* the server wants this request ended, and it has not ended yet */
	bool ended;               /* it was ended because its time was up */
};

/* The worker of this process; NULL in the host. */
extern struct worker *worker;

/* What the command line said. */
struct options {
	const char *user, *group, *ini_file;
	char *ini_entries;
	uint64_t max_requests;
	unsigned grace_seconds;
	bool keep_environment, no_new_privileges, check, sandbox;
	const char *signals; /* for tests: the sandbox keeps signals as on an older kernel, sandbox/signals.c; NULL: as this one does */
	bool rewind;         /* requests begin at a point behind the boot */
	bool rewind_methods; /* calls of methods are noticed */
	bool rewind_compare; /* as on a kernel that does not tell which pages were written */
	const char *rewind_except; /* functions that may call what refuses an image, with commas between them; NULL: none */
	const char *disable_functions, *temp_base, *open_basedir;
	const char *worker_script, *worker_name, *worker_root; /* persistent workers: their script; NULL: none */
	struct { const char *path; bool writable; } *folders; /* where the sites are */
	unsigned folder_count;
};
extern struct options options;

/* main.c */
ZEND_ATTRIBUTE_FORMAT(printf, 1, 2) void main_fail(const char *format, ...);

/* version.c */
bool version_fits(void);

/* limits.c: the end of a request whose time is up */
void limits_watch(void);
void limits_check(void);
void limits_begin(void);
void limits_ask(void);

/* crash.c: where a crashing worker was */
#define CRASH_BYTES (sizeof(uint32_t) + MR_TRACE_MAX)
void crash_watch(char *area);

/* trace.c: where a worker is */
struct text {
	char *bytes;
	size_t length, room; /* text that does not fit is left out */
};
void text_put(struct text *text, const char *bytes);
void text_foreign(struct text *text, const char *bytes, size_t length);
void text_number(struct text *text, uint64_t number);
void text_address(struct text *text, uint64_t address);
void trace_frames(struct text *text, pid_t pid);
void trace_waiting(struct text *text, pid_t pid);
void trace_let_go(pid_t pid);

/* programs.c: what a worker waits for */
void programs_end(pid_t worker, uint64_t within, int signal);
const char *programs_read(pid_t pid, const char *name, char *text, size_t room);

/* sandbox/: what a worker may do; `host` and `server` are the processes that it must not touch */
bool sandbox_has_landlock(void);
bool sandbox_has_nursery(void);
const char *sandbox_says(void);
bool sandbox_enter(pid_t host, pid_t server);
void sandbox_watch(void);
void seccomp_tell(void);
void private_prepare(void);
pid_t nursery_fork(uint32_t slot, int socket, void (*leave_host)(void), void (*become_worker)(int socket, uint32_t slot));

/* temp.c: the host's own temporary folder */
bool temp_make(const char *base);
void temp_use(const char *base);
const char *temp_folder(void);
const char *temp_sessions(void);
void temp_remove(void);
bool ini_set_for_good(const char *name, const char *value);

/* mail.c: mail() out of the sandbox */
int mail_hand_over(const char *name, int argc, char **argv);
int mail_listen(void);
void mail_accept(int listener);

/* host.c */
int host_run(pid_t server);
void host_log(int priority, const char *message, size_t length);

/* check.c: whether opcache works */
size_t check_report(char *text, size_t room);

/* look.c */
size_t look_report(char *text, size_t room);

/* restart.c */
void restart_hold(void);
bool restart_shows(void);
uint64_t restart_pending(void);
void restart_look(void);

/* loop.c */
int loop_run(int socket, uint32_t slot, char *scoreboard, char *crash);
void loop_received(void);
void loop_finished(void);
void loop_request_info(bool script);
bool loop_open_script(zend_file_handle *file);
void loop_end_request(void);

/* handler.c: persistent workers */
PHP_FUNCTION(millrace_handle_request);
void handler_startup(void);
void handler_run(void);
bool handler_booted(void);
bool handler_aborted(void);
bool handler_idle(void);
bool handler_may_end(void);

/* kept.c: what such a worker keeps from its boot */
void kept_startup(void);
void kept_begin(void);
void kept_remember(const zend_module_entry *session);
void kept_restore(const zend_module_entry *session);
bool kept_look_at_files(void);
bool kept_files_changed(time_t *looked, time_t pause);

/* rewind/point.c: requests that begin where the boot has ended */
PHP_FUNCTION(millrace_rewind_point);
PHP_FUNCTION(millrace_rewind_leave);
PHP_FUNCTION(millrace_rewind_repeats);
PHP_FUNCTION(millrace_rewind_used);
PHP_FUNCTION(millrace_rewind_changed);
PHP_FUNCTION(millrace_rewind_acted);
PHP_FUNCTION(millrace_rewind_queries);
PHP_FUNCTION(millrace_rewind_settings);
PHP_FUNCTION(millrace_rewind_superglobals);
void rewind_prepare_malloc(void);
void rewind_startup(void);
void rewind_open(void);
void rewind_idle(void);
void rewind_look(void);
void rewind_ran(void);
bool rewind_left(void);
bool rewind_rests(void);
void rewind_end(void);
void rewind_changed(void);
void rewind_acted(void);
uint64_t rewind_says(uint8_t *flags);
void rewind_written(void);

/* rewind/gate.c: what its boot may call */
void gate_watch(void);

/* rewind/figures.c: what people see of it */
void figures_map(char *start);

/* sapi.c */
extern sapi_module_struct sapi_millrace;

/* vars.c */
const struct variable *vars_find(const char *name, size_t length);
const char *vars_value(const char *name);
char *vars_getenv(const char *name, size_t length);
void vars_install(void);
void vars_register(zval *array);

/* functions.c */
extern zend_module_entry functions_module;
bool functions_fix_pathinfo(void);
HashTable *functions_user_ini_cache(void);
void functions_hide(void);

/* watch.c: functions and opcodes of PHP that call ours first */
struct watched {
	const char *of, *name;    /* its class, or NULL; in lower case */
	unsigned kind, argument;  /* the watcher's own */
	zend_function *function;  /* NULL: this PHP has none */
	zif_handler original;
};
zend_function *watch_find(const char *of, const char *name);
zif_handler watch_replace(const char *of, const char *name, zif_handler ours);
void watch_functions(struct watched *all, size_t count, zif_handler ours);
const struct watched *watch_called(const struct watched *all, size_t count, const zend_execute_data *execute_data);
void watch_opcode(zend_uchar opcode, user_opcode_handler_t ours, user_opcode_handler_t were[256]);
void watch_fetches(user_opcode_handler_t ours, user_opcode_handler_t were[256]);
int watch_go_on(const user_opcode_handler_t were[256], zend_execute_data *execute_data);
const zend_execute_data *watch_frame(const zend_execute_data *frame);
bool watch_is_hooks(const zend_string *file);
bool watch_is_global_scope(void);
const char *watch_hook(void);

/* taint.c */
void taint_watch(void);
void taint_forks(void);

/* notes.c: what scripts say to the page cache */
PHP_FUNCTION(millrace_cache_control);
PHP_FUNCTION(millrace_tag);
PHP_FUNCTION(millrace_purge);
PHP_FUNCTION(millrace_announce_cache);

/* noticed.c: which code reads an object */
PHP_FUNCTION(millrace_notice_reads);
void noticed_end(void);

/* visitor.c: what a script finds out about its visitor */
PHP_FUNCTION(millrace_visitor);
void visitor_startup(void);
void visitor_begin(void);
void visitor_look(void);
void visitor_end(void);
bool visitor_judges(void);
bool visitor_has_session(void);

/* observe.c: what a script reads of its request */
enum reader { BY_SITE, BY_HOOKS, BY_CORE, BY_COPY }; /* the site's code, Millrace's own hooks, WordPress; where that copies all, to escape it */
void observe_startup(void);
void observe_watch(void);
void observe_files(void);
bool observe_is_blind(void);
void observe_begin(void);
void observe_all(const zend_execute_data *frame);
bool observe_is_in(const zend_execute_data *frame, const char *path);
bool observe_runs(const zend_execute_data *frame, const char *name);
bool observe_is_core(const zend_string *file);
bool observe_is_hooked(const char *hook);
enum reader observe_reader(const zend_execute_data *frame);
void observe_end(void);
void observe_free(void);

/* fields.c: which fields of the request a page depends on */
void fields_begin(void);
void fields_read(const char *name, size_t length, const zend_execute_data *frame);
void fields_read_all(const zend_execute_data *frame);
void fields_read_browser(const char *variable, const zend_execute_data *frame);
void fields_read_browser_at(const char *variable, const char *file, uint32_t line);
void fields_end(void);
void fields_list(zval *array);

/* referer.c: a look at the Referer that leaves no trace in the page */
bool referer_is_left_out(const char *name, const zend_execute_data *frame);

/* identity.c: what may tell who the visitor is */
PHP_FUNCTION(millrace_identity_reads);
bool identity_concerns(void);
bool identity_is_noting(void);
bool identity_is_variable(const zend_string *name);
void identity_begin(void);
void identity_note(const char *what);
void identity_note_field(const char *name);
void identity_read_variable(const char *name, const zend_execute_data *frame);
void identity_read_variable_in(const char *name, const zend_string *file);
void identity_free(void);
void identity_read_cookie(const char *name, size_t length, const zend_execute_data *frame);
void identity_read_all(const zend_execute_data *frame);

/* told.c: what the site's code is told of a member */
PHP_FUNCTION(millrace_member_is);
PHP_FUNCTION(millrace_member_reader);
PHP_FUNCTION(millrace_member_prints);
void told_startup(void);
void told_watch(void);
void told_begin(bool notes);
void told_free(void);

/* posts.c: which posts a page shows more of than a link */
PHP_FUNCTION(millrace_posts_read);
void posts_startup(void);
void posts_begin(void);
void posts_adopt(zend_object *post);
void posts_free(void);

/* flow.c: what becomes of a value in the function that gets it */
enum flow { FLOW_UNKNOWN, FLOW_PRINTED, FLOW_RETURNED };
enum flow flow_of(const zend_execute_data *frame);

/* cookies.c: which cookies a page depends on */
enum cookie_use { EXISTENCE, VALUE };
void cookies_begin(void);
bool cookies_are_in_request(void);
void cookies_look_for(const char *name, size_t length, enum cookie_use use);
void cookies_look_for_all(void);
void cookies_look_at_whole(enum reader reader, bool of_cookies);
void cookies_look_for_session(const char *name);
bool cookies_value_was_read(const char *name);
void cookies_were_used(void);
void cookies_end(void);
void cookies_free(void);

/* carts/reads.c: whether a page depends on what is in the cart */
PHP_FUNCTION(millrace_cart_trace);
PHP_FUNCTION(millrace_cart_fragments);
PHP_FUNCTION(millrace_cart_depends);
PHP_FUNCTION(millrace_cart_objects);
void carts_startup(bool is_blind);
void carts_watch(void);
void carts_begin(void);
void carts_cookie(const char *name);
bool carts_unread(void);
void carts_end(void);
void carts_free(void);

/* rewind/reads.c */
bool reads_element(zend_execute_data *execute_data, zend_string **name, bool *writes);

/* early.c: 103 Early Hints */
PHP_FUNCTION(millrace_early_hints);
PHP_FUNCTION(headers_send);

/* status.c: fpm_get_status() */
PHP_FUNCTION(fpm_get_status);

/* wire.c */
bool wire_room(struct buffer *buffer, size_t room);
bool wire_read(void);
void wire_head(sapi_headers_struct *headers);
size_t wire_content(const char *bytes, size_t length);
bool wire_flush(void);
void wire_end(uint8_t flags);
void wire_decline(void);
bool wire_early(const char *payload, size_t length);
bool wire_is_legal(const sapi_header_struct *field);
bool wire_note(uint16_t what, const char *text, size_t length);
void wire_unsay(void);
void wire_log(int priority, const char *message, size_t length);
void wire_handler(bool ready, const char *message, size_t length);

/* code.c: says which files the script consists of. */
void code_say(void);

/* origin.c. For sapi_module: notes which call sets a field that forbids to store the page. */
int origin_header(sapi_header_struct *field, sapi_header_op_enum operation, sapi_headers_struct *fields);

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The clock of times in the scoreboard: CLOCK_MONOTONIC, or CLOCK_MONOTONIC_COARSE, which costs less and is late by a few milliseconds. */
static inline uint64_t clock_ms(clockid_t clock)
{
	return clock_ns(clock) / 1000000;
}

/* A slot of the scoreboard. */
static inline char *board_slot(const char *scoreboard, uint32_t slot)
{
	return (char *)(uintptr_t)scoreboard + MR_SCOREBOARD_HEAD + (size_t)slot * MR_SLOT_BYTES;
}

static inline uint32_t board_get32(const char *slot, size_t at)
{
	return __atomic_load_n((const uint32_t *)(const void *)(slot + at), __ATOMIC_ACQUIRE);
}

static inline void board_set32(char *slot, size_t at, uint32_t value)
{
	__atomic_store_n((uint32_t *)(void *)(slot + at), value, __ATOMIC_RELEASE);
}

/* Returns false and changes nothing if the slot has another value than `old`. */
static inline bool board_swap64(char *slot, size_t at, uint64_t old, uint64_t value)
{
	return __atomic_compare_exchange_n((uint64_t *)(void *)(slot + at), &old, value, false, __ATOMIC_ACQ_REL,
		__ATOMIC_ACQUIRE);
}

static inline void board_set64(char *slot, size_t at, uint64_t value)
{
	__atomic_store_n((uint64_t *)(void *)(slot + at), value, __ATOMIC_RELEASE);
}

static inline uint64_t board_get64(const char *slot, size_t at)
{
	return __atomic_load_n((const uint64_t *)(const void *)(slot + at), __ATOMIC_ACQUIRE);
}

#endif
