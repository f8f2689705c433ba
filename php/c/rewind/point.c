/*
 * The point: where the boot has ended and a request begins.
 *
 *     require 'vendor/autoload.php';
 *     $application = new Application();          // the boot, with what it reads of its request as the key
 *     millrace_rewind_point();                   // returns once a request, with its own superglobals
 *     $application->run();
 *
 * How a worker gets there:
 *
 *            a request                    a request                              a request
 *   loop.c ------------> ordinary ... ------------> boot ---> POINT: the image <------------+
 *      ^                                                        |                           |
 *      |        its key is another one, or the image is old     v                           |
 *      +------------------------------------------------- fits? --- yes ---> runs, ends, memory goes back
 *
 * A request that does not fit is declined, if the server has another worker for it. Otherwise it leaves the point: the boot is thrown
 * away as a script that has ended, the image with it, and the request runs the ordinary way. So the process is inside of its boot as long as there is an image, and opcache, whose memory
 * the image points to, knows that it is used: it does not restart until then. A worker that has nothing to do leaves, too.
 *
 * How long an image lives: a second, and until a request that may change something has come to a worker of this host (any
 * method but GET, HEAD and OPTIONS; a purge; a query that writes). If what the boot has read of files and the database can be
 * compared (sources.c), it is compared then, and the image lives for ten; but not past the second in which the boot has read the clock.
 */
#include "rewind.h"

#include <Zend/zend_fibers.h>
#include <errno.h>
#include <ext/session/php_session.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <syslog.h>
#include <unistd.h>

/* An image is made again, or compared with what the boot has read, when it is so old, milliseconds: that may have changed. */
#define AGE_MS 1000
/* An image that is compared is made again when it is so old: time() in its boot. */
#define COMPARED_AGE_MS 10000
/* Requests that run the ordinary way first: what PHP keeps between requests is warm in the image then. */
#define WARM 2
/* Requests an image must serve to pay for its creation. Maximum number of ordinary requests until the next one. */
#define WORTH 3
#define WAIT_MOST 256
/* Scripts of which is known whether they come to a point. */
#define SCRIPTS_MOST 32
/* Kinds of requests whose boots were refused. */
#define REFUSED_MOST 64
#define KEY_BYTES (64u << 10)
/* Of the names in a key, these are its class. */
#define CLASS_BYTES 4096

/* Shared by the workers of a host. */
static struct shared {
	uint64_t generation; /* of what may have been changed */
} *shared;

/* Outside of the image. */
static struct state {
	pid_t worker;
	bool images;            /* there is an image */
	bool inside;            /* a request runs that began at the point */
	bool left;              /* a request has left the point, and has yet to run the ordinary way */
	bool rests;             /* the point was left without one */
	bool misfit;            /* the request does not fit the image */
	bool wrote;             /* the running request has changed something, as its script says */
	bool acted;             /* it has done something else that must not be done twice */
	bool first;             /* the request of the boot has yet to go on */
	bool own;               /* it is the running one: no image was put back for it */
	bool compares;          /* the image is compared with what its boot has read */
	uint64_t made_ms, generation, boot_generation;
	uint64_t compared_ms;   /* when; `generation` is of that time */
	time_t second;          /* the only one in which the image is right; 0: it has read no clock */
	uint64_t served;        /* requests that this image has served */
	uint64_t wait, waited;  /* ordinary requests until the next image; and since the last one */
	struct script {
		uint64_t digest;    /* of its path */
		bool point;         /* it has come to one */
		bool pointless;     /* it has ended without one, and never came to one */
		unsigned skipped;   /* requests for it since then */
	} scripts[SCRIPTS_MOST];
	unsigned scripts_next;
	struct refused {
		uint64_t kind;
		unsigned skipped;   /* requests of this kind since then */
	} refused[REFUSED_MOST];
	unsigned refused_next;
	struct script *last;    /* of the request before this one */
	bool controlled;
	struct buffer notes;    /* what the boot has said to the page cache: frames */
	struct buffer key;
	unsigned shown;         /* the image's key in the figures */
	uint64_t class;         /* a digest of the names in that key */
	char said[480];         /* why there was no image the last time */
} *state;

static php_ps_globals *session;

static uint64_t now_ms(void)
{
	return clock_ms(CLOCK_MONOTONIC);
}

/* ---- start ---- */

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_point, 0, 0, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, before, IS_CALLABLE, 1, "null")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, repeated, IS_ARRAY, 0, "[]")
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, compare, IS_CALLABLE, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_repeats, 0, 1, IS_VOID, 0)
	ZEND_ARG_TYPE_INFO(0, functions, IS_ARRAY, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, classes, IS_ARRAY, 0, "[]")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_used, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_leave, 0, 0, _IS_BOOL, 0)
	ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, misfit, _IS_BOOL, 0, "false")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_changed, 0, 0, IS_VOID, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_acted, 0, 0, IS_VOID, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_superglobals, 0, 0, IS_VOID, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_queries, 0, 0, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

static void register_functions(void)
{
	static const zend_function_entry functions[] = {
		ZEND_FE(millrace_rewind_point, arginfo_point)
		ZEND_FE(millrace_rewind_repeats, arginfo_repeats)
		ZEND_FE(millrace_rewind_used, arginfo_used)
		ZEND_FE(millrace_rewind_leave, arginfo_leave)
		ZEND_FE(millrace_rewind_changed, arginfo_changed)
		ZEND_FE(millrace_rewind_acted, arginfo_acted)
		ZEND_FE(millrace_rewind_queries, arginfo_queries)
		ZEND_FE(millrace_rewind_settings, arginfo_queries)
		ZEND_FE(millrace_rewind_superglobals, arginfo_superglobals)
		ZEND_FE_END
	};
	zend_register_functions(NULL, functions, NULL, MODULE_PERSISTENT);
}

/* While our module starts, in the host: before anything is compiled. */
void rewind_startup(void)
{
	options.rewind = options.rewind && !options.worker_script;
	if (!options.rewind) {
		return;
	}
	long page = sysconf(_SC_PAGESIZE);
	rewind_page = page > 0 ? (size_t)page : rewind_page;
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	options.rewind = shared != MAP_FAILED;
	if (options.rewind) {
		const zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("session"));
		session = module ? module->globals_ptr : NULL;
		reads_startup();
		register_functions();
	}
}

/* In a worker that begins, before its sandbox closes. Without all that it needs, the worker serves the ordinary way. */
void rewind_open(void)
{
	if (!options.rewind || !room_open() || !shadow_open() || !maps_open() || !chunks_open() || !image_open() || !kernel_open()) {
		return;
	}
	struct state *made = room_take(sizeof *made);
	char *key = room_take(KEY_BYTES), *notes = room_take(KEY_BYTES);
	if (made && key && notes) {
		made->key = (struct buffer){ key, 0, KEY_BYTES };
		made->notes = (struct buffer){ notes, 0, KEY_BYTES };
		made->worker = getpid();
		made->wait = WARM;
		state = made;
	}
}

/* The worker has started, and nothing has run yet. */
void rewind_idle(void)
{
	if (state) {
		figures_open();
		kernel_remember_idle();
		reads_watch_files();
	}
}

/* ---- what the loop asks ---- */

static bool is_safe(void)
{
	const char *method = vars_value("REQUEST_METHOD");
	return method && (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 || strcmp(method, "OPTIONS") == 0);
}

/* Something may have been changed: images that were made before are not to be trusted. */
void rewind_changed(void)
{
	if (shared && state) {
		__atomic_add_fetch(&shared->generation, 1, __ATOMIC_ACQ_REL);
	}
}

static bool is_plain(void)
{
	const char *method = vars_value("REQUEST_METHOD");
	return method && (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) && worker->request.body_length == 0;
}

/* A request that is run again to be compared ends here, aborted: it is about to change something. */
static void refrain(void)
{
	if (worker->request.again) {
		PG(connection_status) |= PHP_CONNECTION_ABORTED;
		zend_bailout();
	}
}

/* The running request is about to write, in a way that shows when it has committed or ended. */
void rewind_writes(void)
{
	if (state) {
		refrain();
	}
}

/* The running request has written, or will have when it commits or ends. */
void rewind_wrote(void)
{
	if (state) {
		state->wrote = true;
		rewind_changed();
	}
}

/* The running request is about to do something outside of its process that must not be done twice. */
void rewind_acted(void)
{
	if (state) {
		refrain();
		state->acted = true;
	}
}

/* What END says of the running request: its flags, and the class of the image that it began in. */
uint64_t rewind_says(uint8_t *flags)
{
	if (state && state->misfit) {
		*flags |= MR_FLAG_MISFIT;
		state->misfit = false;
	}
	if (!state || !state->inside || state->own) {
		return 0;
	}
	bool is_session = session && session->session_status != php_session_none;
	*flags |= MR_FLAG_REWOUND | (state->wrote || state->acted || is_session || !is_safe() ? 0 : MR_FLAG_REPEATABLE);
	return state->class;
}

/* What the running request has written is there now: it has committed, or its response is about to end. */
void rewind_written(void)
{
	if (state && (state->wrote || !is_safe())) {
		rewind_changed();
	}
}

/* Of what may have been changed: by a request to this host, or by anyone who purges pages. */
static uint64_t generation(void)
{
	return __atomic_load_n(&shared->generation, __ATOMIC_ACQUIRE) + board_get64(worker->scoreboard, MR_SCOREBOARD_PURGES);
}

static bool has_changes(void)
{
	return state->generation != generation();
}

static uint64_t lifetime_ms(void)
{
	return state->compares ? COMPARED_AGE_MS : AGE_MS;
}

static bool is_fresh(void)
{
	return state->images && now_ms() - state->made_ms < lifetime_ms() && (state->compares || !has_changes())
		&& (!state->second || state->second == gate_now());
}

static void wait_longer(void)
{
	state->waited = 0;
	state->wait = MIN(MAX(state->wait, 1) * 2, WAIT_MOST);
}

/* The image is not used any more. */
static void drop(void)
{
	if (!state->images) {
		return;
	}
	state->images = false;
	chunks_end();
	figures_dropped(state->shown);
	if (worker->request.ordinary) {
		state->waited = state->wait; /* it says nothing of the image's worth */
	} else if (state->served < WORTH) {
		wait_longer();
	} else {
		state->waited = state->wait = 0;
	}
}

/* What is known of the script of the request at hand; a new entry takes the place of the oldest one. */
static struct script *script_at_hand(void)
{
	const char *path = vars_value("SCRIPT_FILENAME");
	uint64_t digest = path ? mix(MIX_START, path, strlen(path)) : 0;
	for (size_t i = 0; i < SCRIPTS_MOST; i++) {
		if (state->scripts[i].digest == digest) {
			return &state->scripts[i];
		}
	}
	struct script *script = &state->scripts[state->scripts_next++ % SCRIPTS_MOST];
	*script = (struct script){ .digest = digest };
	return script;
}

/* Whether a script comes to no point, as far as is known. It is tried again now and then: it may have been changed. */
static bool is_pointless(struct script *script)
{
	if (!script->pointless) {
		return false;
	}
	script->skipped = (script->skipped + 1) % WAIT_MOST;
	return script->skipped;
}

/*
 * What the refusal of a boot holds for: requests for the same script whose path has the same first folder, with the same names in their query.
 * One page whose plugin draws a random number must not cost the others their image.
 */
static uint64_t kind_at_hand(void)
{
	const char *script = vars_value("SCRIPT_FILENAME"), *uri = vars_value("REQUEST_URI"), *host = vars_value("HTTP_HOST");
	uint64_t kind = mix(script ? mix(MIX_START, script, strlen(script)) : MIX_START, host ? host : "", host ? strlen(host) : 0);
	uri = uri && *uri == '/' ? uri + 1 : "";
	size_t path = strcspn(uri, "?"), folder = strcspn(uri, "/?");
	kind = mix(kind, uri, folder < path ? folder : 0);
	for (const char *at = uri + path; *at;) {
		size_t name = strcspn(at, "=&");
		kind = mix(kind, at, name);
		at += strcspn(at, "&");
		at += *at == '&';
	}
	return kind;
}

/* Whether boots of this kind were refused. It is tried again now and then: it may have been changed. */
static bool was_refused(uint64_t kind)
{
	for (size_t i = 0; i < REFUSED_MOST; i++) {
		if (state->refused[i].kind == kind) {
			state->refused[i].skipped = (state->refused[i].skipped + 1) % WAIT_MOST;
			return state->refused[i].skipped;
		}
	}
	return false;
}

static void remember_refusal(uint64_t kind)
{
	for (size_t i = 0; i < REFUSED_MOST; i++) {
		if (state->refused[i].kind == kind) {
			return;
		}
	}
	state->refused[state->refused_next++ % REFUSED_MOST] = (struct refused){ .kind = kind };
}

/* The request that is about to run the ordinary way may become the boot of an image. */
static void prepare_boot(void)
{
	/* One that is run again must not act, and a boot may: nothing watches it between its point and its end. */
	if (state->images || !is_plain() || worker->request.ordinary || worker->request.no_image || worker->request.again) {
		return;
	}
	/* A script that comes once between others is not worth an image. */
	struct script *before = state->last, *script = script_at_hand();
	state->last = script;
	if (is_pointless(script)) {
		figures_say(MR_REASON_NO_POINT);
	} else if (was_refused(kind_at_hand())) {
		figures_say(MR_REASON_REFUSED);
	} else if (script == before && ++state->waited > state->wait) {
		state->boot_generation = generation();
		reads_begin();
		sources_begin();
		gate_begin();
	}
}

/* A request is read. */
void rewind_look(void)
{
	if (state) {
		if (!is_safe()) {
			rewind_changed();
		}
		state->acted = false;
		gate = worker->request.again ? GATE_BEHIND : GATE_OPEN;
		figures_look(is_plain());
		if (worker->request.ordinary) {
			figures_say(MR_REASON_COMPARED);
		}
		prepare_boot();
	}
}

/* A request has ended: what it has written since it said so is there now. */
static void end_changes(void)
{
	rewind_written();
	state->wrote = false;
}

/* An ordinary request has ended. */
void rewind_ran(void)
{
	if (state) {
		end_changes();
		bool was_boot = gate == GATE_BOOT || gate_refusal();
		gate_end();
		sources_end();
		if (!state->images && was_boot) {
			struct script *script = script_at_hand();
			script->pointless = !script->point;
			state->waited = state->wait; /* the next request may become one */
			figures_say(MR_REASON_NO_POINT);
		}
		figures_end();
	}
}

/* Whether a request has left the point and has yet to run the ordinary way: the boot that ran until now has ended. */
bool rewind_left(void)
{
	if (!state || !state->left) {
		return false;
	}
	state->left = false;
	gate = worker->request.again ? GATE_BEHIND : GATE_OPEN;
	worker->answer = ANSWER_WAITING;
	worker->request.body_read = 0;
	wire_unsay();
	prepare_boot();
	return true;
}

/* Whether the boot that ran until now has ended because there is nothing to do, with no request to be answered. */
bool rewind_rests(void)
{
	bool rests = state && state->rests;
	if (rests) {
		state->rests = false;
		worker->answer = ANSWER_NONE;
		wire_unsay();
	}
	return rests;
}

/* The request that began at the point has ended. Does not come back, unless none did. */
void rewind_end(void)
{
	if (!state || !state->inside || getpid() != state->worker) {
		return;
	}
	ending_run();
	state->inside = false;
	state->served++;
	end_changes();
	figures_end();
	loop_finished();
	if (worker->exiting || worker->broken) {
		board_set32(worker->board, MR_SLOT_STATE, MR_STATE_EXITING);
		_exit(0);
	}
	room_go_back();
}

/* ---- at the point ---- */

/* Why there can be no point here and now, or NULL. */
static const char *refuse(HashTable *repeated)
{
	if (SG(headers_sent) || worker->answer != ANSWER_WAITING) {
		return "the answer has begun";
	}
	if (session && session->session_status == php_session_active) {
		return "a session is open";
	}
	if (worker->purges.length || worker->out.length > KEY_BYTES) {
		return "the boot purges pages";
	}
	if (EG(active_fiber) || (EG(flags) & EG_FLAGS_IN_SHUTDOWN) || EG(exception)) {
		return "it is called in a fiber or at the end of the script";
	}
	const char *why = gate_refusal();
	return why ? why : reads_leave_out(repeated);
}

/* Once each time that it is another reason. */
static void say(const char *why)
{
	figures_refused(why);
	if (strncmp(state->said, why, sizeof state->said - 1) != 0) {
		char text[sizeof state->said + 40];
		strncpy(state->said, why, sizeof state->said - 1);
		int length = snprintf(text, sizeof text, "php.rewind: no image: %.479s", why);
		wire_log(LOG_NOTICE, text, (size_t)length);
	}
}

/* opcache asks a file's time only now and then, by a clock that stands still in the image: here it asks each time. */
static void look_at_files(void)
{
	zend_string *name = zend_string_init(ZEND_STRL("opcache.revalidate_freq"), 0);
	if (zend_hash_exists(EG(ini_directives), name)) {
		zend_alter_ini_entry_chars(name, "0", 1, PHP_INI_USER, PHP_INI_STAGE_RUNTIME);
	}
	zend_string_release(name);
}

/*
 * The boot's values that may be part of a cycle are looked at once, here. Otherwise each request inherits them, soon has 10,001 of them
 * (GC_THRESHOLD_DEFAULT in Zend/zend_gc.c), and walks through all that the boot has made, writing marks to every page of it.
 */
static const char *collect_garbage(void)
{
	gc_collect_cycles();
	return EG(exception) ? "a destructor has thrown an exception" : NULL;
}

/* Takes the notes of the boot for this answer, too. */
static void repeat_notes(void)
{
	worker->out.length = 0;
	worker->body_at = SIZE_MAX;
	if (wire_room(&worker->out, state->notes.length + (64u << 10))) {
		memcpy(worker->out.bytes, state->notes.bytes, state->notes.length);
		worker->out.length = state->notes.length;
	}
	worker->controlled = state->controlled;
}

/* What the boot has written into buffers goes, without their callbacks, which may write it to a file. */
static void drop_output(void)
{
	for (int level = 0; level < php_output_get_level(); level++) {
		php_output_handler **handler = (php_output_handler **)zend_stack_base(&OG(handlers)) + level;
		(*handler)->flags |= PHP_OUTPUT_HANDLER_DISABLED;
	}
	php_output_discard_all();
}

/* The request runs the ordinary way: the boot ends here as a script that has nothing to say any more. Does not come back. */
static ZEND_NORETURN void leave(void)
{
	state->left = !state->rests;
	state->inside = false;
	drop();
	sources_end();
	gate_end();
	worker->answer = ANSWER_VOID;
	SG(headers_sent) = 1;
	php_free_shutdown_functions();
	zend_objects_store_mark_destructed(&EG(objects_store));
	drop_output();
	zend_bailout();
}

/* The request at hand does not fit the image. Another worker gets it, if there is one; then this does not come back. */
static void decline(void)
{
	state->misfit = true;
	if (worker->request.may_decline && worker->answer == ANSWER_WAITING) {
		state->inside = state->misfit = false;
		wire_decline();
		room_go_back();
	}
}

/* Whether a request comes as long as the image may be used. */
static bool waits_for_request(void)
{
	struct pollfd wait = { .fd = worker->socket, .events = POLLIN };
	uint64_t now = now_ms(), until = state->made_ms + lifetime_ms();
	if (state->second) {
		uint64_t next_second = ((uint64_t)state->second + 1) * 1000, wall = clock_ms(CLOCK_REALTIME);
		until = MIN(until, now + (next_second > wall ? next_second - wall : 0));
	}
	if (worker->in.length != worker->in_used) {
		return true;
	}
	while ((now = now_ms()) < until) {
		if (poll(&wait, 1, (int)MIN(until - now, AGE_MS)) != 0) {
			return true;
		}
		if (state->compares && restart_pending()) {
			return false;
		}
	}
	return poll(&wait, 1, 0) != 0;
}

/* Waits for the next request; leaves if none comes. */
static void next_request(void)
{
	if (!waits_for_request()) {
		state->rests = true;
		leave();
	}
	if (!wire_read()) {
		board_set32(worker->board, MR_SLOT_STATE, MR_STATE_EXITING);
		_exit(0);
	}
	loop_received();
	if (!is_safe()) {
		rewind_changed();
	}
}

/* Whether what the boot has read is the same, as far as that is known or has to be: then the image is as good as a new one. */
static bool is_same(zend_fcall_info *compare, zend_fcall_info_cache *cache)
{
	uint64_t now = now_ms(), at = generation();
	bool is_due = state->compares && (at != state->generation || now - state->compared_ms >= AGE_MS);
	if ((is_due || files_are_never_trusted()) && !files_are_same()) {
		return false;
	}
	if (!is_due) {
		return true;
	}
	/* A restart in place waits until no request runs, and a boot is one. */
	if (restart_pending()) {
		return false;
	}
	zval result;
	ZVAL_UNDEF(&result);
	compare->retval = &result;
	zend_call_function(compare, cache);
	bool is_same = Z_TYPE(result) == IS_TRUE && !EG(exception);
	zval_ptr_dtor(&result);
	if (!is_same) {
		/* What it has thrown is about the image: the request runs the ordinary way, and does not see it. */
		zend_clear_exception();
		return false;
	}
	state->generation = at;
	state->compared_ms = now;
	return true;
}

/* Whether the server does not want images of this class to be used: their answers have differed from ordinary ones. */
static bool is_off(void)
{
	for (size_t i = 0; i < MR_SCOREBOARD_OFF_MOST; i++) {
		uint64_t class = board_get64(worker->scoreboard, MR_SCOREBOARD_OFF + i * sizeof class);
		if (class == MR_SCOREBOARD_OFF_ALL || (class && class == state->class)) {
			return true;
		}
	}
	return false;
}

/* Why the request at hand cannot begin in the image, whatever its variables are: MR_REASON_*; -1: it can. */
static int misfit(void)
{
	if (!is_plain()) {
		return MR_REASON_METHOD;
	}
	if (worker->request.ordinary) {
		return MR_REASON_COMPARED;
	}
	if (is_off()) {
		return MR_REASON_OFF;
	}
	return is_fresh() ? -1 : (int)MR_REASON_OLD;
}

/* The script of the request at hand and the names of what its boot has read. */
static uint64_t class_of_boot(void)
{
	char names[CLASS_BYTES];
	struct text text = { names, 0, sizeof names };
	reads_names(&text);
	return mix(MIX_START, text.bytes, text.length);
}

/* Makes the request at hand the one of the boot, or leaves. */
static void begin(zend_fcall_info *compare, zend_fcall_info_cache *cache)
{
	struct buffer key = { alloca(KEY_BYTES), 0, KEY_BYTES };
	int why = misfit();
	if (why >= 0) {
		figures_say((unsigned)why);
		leave();
	}
	renew_request(0);
	if (state->second && state->second != (time_t)sapi_get_request_time()) {
		figures_say(MR_REASON_OLD);
		leave();
	}
	if (!reads_key(&key) || key.length != state->key.length || memcmp(key.bytes, state->key.bytes, key.length) != 0) {
		figures_say(MR_REASON_KEY);
		decline();
		leave();
	}
	repeat_notes();
	state->inside = true;
	state->own = state->acted = false;
	gate = GATE_OPEN;
	if (!is_same(compare, cache)) {
		figures_say(MR_REASON_OLD);
		leave();
	}
	gate = GATE_BEHIND;
	figures_begin(state->shown);
}

/* The request that the boot has run for goes on in the same way. A key that is too long fits no other. */
static void begin_first(void)
{
	/* The second may have ended since the boot asked the clock: the request must not seem to have come after that. */
	renew_request(state->second);
	state->first = false;
	state->own = true;
	state->shown = figures_made();
	if (!reads_key(&state->key)) {
		state->key.length = SIZE_MAX;
	}
	repeat_notes();
	state->inside = true;
}

/* Keeps what the boot has said, and when it was; `compares`: what it has read can be compared. */
static void remember(bool compares)
{
	state->notes.length = worker->out.length;
	memcpy(state->notes.bytes, worker->out.bytes, worker->out.length);
	state->controlled = worker->controlled;
	state->generation = state->boot_generation;
	state->made_ms = state->compared_ms = board_get64(worker->board, MR_SLOT_STARTED_MS);
	state->compares = compares;
	state->second = gate_second();
	state->served = 0;
	state->first = true;
	state->images = true;
}

/* What the caller does before the point: closes its connections, and may say why there can be no image. */
static const char *call_before(zend_fcall_info *before, zend_fcall_info_cache *cache)
{
	static char text[160];
	zval result;
	if (!ZEND_FCI_INITIALIZED(*before)) {
		return NULL;
	}
	ZVAL_UNDEF(&result);
	before->retval = &result;
	zend_call_function(before, cache);
	bool refuses = Z_TYPE(result) == IS_STRING;
	snprintf(text, sizeof text, "%s", refuses ? Z_STRVAL(result) : "");
	zval_ptr_dtor(&result);
	if (EG(exception)) {
		return "what is called before the point has thrown an exception";
	}
	return refuses ? text : NULL;
}

/* See ../../stubs/millrace.php. */
PHP_FUNCTION(millrace_rewind_point)
{
	HashTable *repeated = NULL;
	zend_fcall_info before = { 0 }, compare = { 0 };
	zend_fcall_info_cache cache, compare_cache;
	ZEND_PARSE_PARAMETERS_START(0, 3)
		Z_PARAM_OPTIONAL
		Z_PARAM_FUNC_OR_NULL(before, cache)
		Z_PARAM_ARRAY_HT(repeated)
		Z_PARAM_FUNC_OR_NULL(compare, compare_cache)
	ZEND_PARSE_PARAMETERS_END();
	if (!state || state->images || state->inside || getpid() != state->worker || (gate != GATE_BOOT && !gate_refusal())) {
		RETURN_FALSE;
	}
	/* Destructors of the boot's own code are a part of it. */
	const char *why = collect_garbage();
	gate = GATE_OPEN;
	state->waited = 0;
	struct script *script = script_at_hand();
	script->point = true;
	script->pointless = false;
	why = why ? why : refuse(repeated);
	if (!why) {
		state->class = class_of_boot();
		why = is_off() ? "answers from such images have differed from ordinary ones (millrace status)" : call_before(&before, &cache);
	}
	if (!why) {
		why = collect_garbage();
	}
	if (!why) {
		why = sweep();
	}
	if (!why) {
		why = renew_changed_superglobal();
	}
	if (!why) {
		why = kernel_take();
	}
	if (why) {
		if (!excepted_later()) {
			remember_refusal(kind_at_hand());
		}
		say(why);
		gate_end();
		RETURN_FALSE;
	}
	if (gate_second() && gate_second() != gate_now()) {
		/* The second is over that the boot has read the clock in: the next request may have more time. */
		state->waited = state->wait;
		gate_end();
		RETURN_FALSE;
	}
	bool compares = sources_take() && ZEND_FCI_INITIALIZED(compare)
		&& (restart_shows() || !zend_hash_str_exists(EG(ini_directives), ZEND_STRL("opcache.enable")));
	look_at_files();
	renew_openssl();
	maps_prepare();
	ending_remember();
	remember(compares);
	why = room_stay();
	/* From here on, once a request. */
	if (why) {
		state->images = false;
		chunks_end();
		state->wait = WAIT_MOST;
		say(why);
		RETURN_FALSE;
	}
	if (state->first) {
		begin_first();
	} else {
		next_request();
		begin(&compare, &compare_cache);
	}
	RETURN_TRUE;
}

/* See ../../stubs/millrace.php. */
PHP_FUNCTION(millrace_rewind_repeats)
{
	HashTable *functions, *classes = (HashTable *)&zend_empty_array;
	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_ARRAY_HT(functions)
		Z_PARAM_OPTIONAL
		Z_PARAM_ARRAY_HT(classes)
	ZEND_PARSE_PARAMETERS_END();
	reads_announce(functions, classes);
}

/* See ../../stubs/millrace.php. */
PHP_FUNCTION(millrace_rewind_used)
{
	ZEND_PARSE_PARAMETERS_NONE();
	RETURN_BOOL(reads_were_used());
}

/* See ../../stubs/millrace.php. */
PHP_FUNCTION(millrace_rewind_leave)
{
	bool misfit = false;
	ZEND_PARSE_PARAMETERS_START(0, 1)
		Z_PARAM_OPTIONAL
		Z_PARAM_BOOL(misfit)
	ZEND_PARSE_PARAMETERS_END();
	if (!state || !state->inside || worker->answer != ANSWER_WAITING || SG(headers_sent)) {
		RETURN_FALSE;
	}
	figures_say(MR_REASON_LEFT);
	if (misfit && !state->own) {
		decline();
	}
	leave();
}

/* See ../../stubs/millrace.php. */
PHP_FUNCTION(millrace_rewind_changed)
{
	ZEND_PARSE_PARAMETERS_NONE();
	rewind_writes();
	rewind_wrote();
}

/* See ../../stubs/millrace.php. */
PHP_FUNCTION(millrace_rewind_acted)
{
	ZEND_PARSE_PARAMETERS_NONE();
	rewind_acted();
}

/* See ../../stubs/millrace.php. */
PHP_FUNCTION(millrace_rewind_superglobals)
{
	ZEND_PARSE_PARAMETERS_NONE();
	renew_superglobals();
}
