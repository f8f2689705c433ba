/*
 * Database connections that outlive a request. WordPress and most other applications connect with mysqli and without "p:";
 * with --keep-database-connections this file puts "p:" in front of the host name. So a worker connects once, and yet each
 * request gets a connection in the state of a new one:
 *
 * - After the response of each request, every connection that the request used is reset by COM_CHANGE_USER: the database
 *   rolls back, releases locks, and drops temporary tables, prepared statements and variables. mysqli itself does this only
 *   when the next request connects; until then other clients would wait for the locks.
 * - When a request connects as the same user to the same database, a live, reset connection is used without any exchange
 *   with the database. A dead one fails here without a message, and mysqli makes a new one.
 * - mysqlnd keeps the character set over a COM_CHANGE_USER. A new connection has the character set of the server's
 *   greeting, so a reset connection gets that one, too.
 *
 * Other properties of a connection outlive a COM_CHANGE_USER: a script that sets options, passes flags or sends several
 * statements at once gets a connection that is closed at its end, as without this file. One connection is kept per host,
 * user and database, KEPT_MOST in all; one that is unused for IDLE_SECONDS is closed.
 *
 * PDO is not changed: it has persistent connections, too, but only rolls back.
 */
#include "worker.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#if __has_include("ext/mysqlnd/mysqlnd.h") && __has_include("ext/mysqli/php_mysqli_structs.h")

#include <dlfcn.h>

#include "ext/mysqlnd/mysqlnd.h"
#include "ext/mysqlnd/mysqlnd_ext_plugin.h"
#include "ext/mysqlnd/mysqlnd_structs.h"
#define MYSQLI_USE_MYSQLND 1
#include "ext/mysqli/mysqli_mysqlnd.h"
#include "ext/mysqli/php_mysqli_structs.h"

#define KEPT_MOST 4
#define IDLE_SECONDS 60

/* A connection of mysqli's list of persistent ones. */
static struct kept {
	MYSQLND_CONN_DATA *connection; /* NULL: the place is free */
	uint64_t number;               /* the database's own of it: another connection may have been made where this one was */
	char *user, *password, *database;
	bool clean; /* reset, and not used since */
} kept[KEPT_MOST];

static bool enabled, used, connecting;
static int list_type;
static uint64_t opened, reused;
/* Handles of objects with options of their own, of this request. */
static HashTable customised;
static func_mysqlnd_conn_data__change_user change_user_was;

static void forget(struct kept *one)
{
	if (one && one->connection) {
		free(one->user);
		free(one->password);
		free(one->database);
		memset(one, 0, sizeof *one);
	}
}

static struct kept *find(const MYSQLND_CONN_DATA *connection)
{
	for (size_t i = 0; i < KEPT_MOST; i++) {
		struct kept *one = &kept[i];
		if (one->connection == connection && (!connection || one->number == connection->thread_id)) {
			return one;
		}
		if (one->connection == connection) {
			forget(one);
		}
	}
	return NULL;
}

static uint64_t count(void)
{
	uint64_t number = 0;
	for (size_t i = 0; i < KEPT_MOST; i++) {
		number += kept[i].connection != NULL;
	}
	return number;
}

static void tell(void)
{
	board_set64(worker->board, MR_SLOT_DATABASE_OPENED, opened);
	board_set64(worker->board, MR_SLOT_DATABASE_REUSED, reused);
	board_set64(worker->board, MR_SLOT_DATABASE_KEPT, count());
}

/* Whether the database has neither closed the connection nor sent anything unasked, such as a shutdown notice. */
static bool is_alive(MYSQLND_CONN_DATA *connection)
{
	php_stream *stream = connection->vio->data->m.get_stream(connection->vio);
	php_socket_t fd;
	char byte;
	return stream
		&& php_stream_cast(stream, PHP_STREAM_AS_FD_FOR_SELECT | PHP_STREAM_CAST_INTERNAL, (void *)&fd, 0) == SUCCESS
		&& recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

/* mysqlnd's change_user: mysqli calls it to prepare a persistent connection for a request. */
static enum_func_status change_user(MYSQLND_CONN_DATA *const connection, const char *user, const char *password,
	const char *database, bool silent, size_t password_length)
{
	struct kept *one = connecting ? find(connection) : NULL;
	if (one && one->clean) {
		one->clean = false;
		if (is_alive(connection) && strcmp(one->user, user ? user : "") == 0
			&& strcmp(one->database, database ? database : "") == 0) {
			reused++;
			return PASS;
		}
		/* mysqli closes it and makes another. */
		forget(one);
		return FAIL;
	}
	return change_user_was(connection, user, password, database, silent, password_length);
}

/* ---- functions of mysqli ---- */

static MY_MYSQL *link_of(const zval *object)
{
	if (!object || Z_TYPE_P(object) != IS_OBJECT) {
		return NULL;
	}
	MYSQLI_RESOURCE *resource = php_mysqli_fetch_object(Z_OBJ_P(object))->ptr;
	return resource && resource->status == MYSQLI_STATUS_VALID ? resource->ptr : NULL;
}

/* A copy of an argument that is a string, else of `other`. */
static char *copy_of(const zval *argument, const char *other)
{
	return strdup(argument && Z_TYPE_P(argument) == IS_STRING ? Z_STRVAL_P(argument) : other ? other : "");
}

/*
 * Called after a connection was made or taken from the list: stores what a reset needs. mysqlnd does not know the password
 * of a new connection (it stores the user's name in its place).
 */
static void remember(MY_MYSQL *link, const zval *user, const zval *password, const zval *database)
{
	MYSQLND_CONN_DATA *connection = link->mysql->data;
	struct kept *one = find(connection);
	if (!link->persistent || one) {
		return;
	}
	one = find(NULL);
	if (one) {
		one->user = copy_of(user, INI_STR("mysqli.default_user"));
		one->password = copy_of(password, INI_STR("mysqli.default_pw"));
		one->database = copy_of(database, NULL);
		one->connection = connection;
		one->number = connection->thread_id;
	}
	if (!one || !one->user || !one->password || !one->database) {
		forget(one);
		link->persistent = false;
	}
}

/* Whether the call is an ordinary one: with a host, without flags, and no options set before. */
static bool is_ordinary(const zval *object, const zval *host, const zval *flags)
{
	return enabled && worker && host && Z_TYPE_P(host) == IS_STRING && Z_STRLEN_P(host)
		&& strncasecmp(Z_STRVAL_P(host), "p:", 2) != 0 && !(flags && zval_get_long((zval *)(uintptr_t)flags) != 0)
		&& !(object && Z_TYPE_P(object) == IS_OBJECT && zend_hash_index_exists(&customised, Z_OBJ_HANDLE_P(object)))
		&& INI_BOOL("mysqli.allow_persistent") && INI_INT("mysqli.max_persistent") < 0;
}

/* Calls one of mysqli's functions that connect; its arguments begin at index `first`. */
static void connect_by(zif_handler was, uint32_t first, bool has_flags, INTERNAL_FUNCTION_PARAMETERS)
{
	uint32_t given = ZEND_NUM_ARGS();
	zval *host = given > first ? ZEND_CALL_ARG(execute_data, first + 1) : NULL;
	zval *user = given > first + 1 ? ZEND_CALL_ARG(execute_data, first + 2) : NULL;
	zval *password = given > first + 2 ? ZEND_CALL_ARG(execute_data, first + 3) : NULL;
	zval *database = given > first + 3 ? ZEND_CALL_ARG(execute_data, first + 4) : NULL;
	zval *flags = has_flags && given > first + 6 ? ZEND_CALL_ARG(execute_data, first + 7) : NULL;
	zval *object = first ? ZEND_CALL_ARG(execute_data, 1) : getThis();
	zval before;
	ZVAL_UNDEF(&before);
	uint64_t reused_before = reused;
	if (is_ordinary(object, host, flags)) {
		ZVAL_COPY_VALUE(&before, host);
		ZVAL_STR(host, zend_string_concat2("p:", 2, Z_STRVAL(before), Z_STRLEN(before)));
		connecting = used = true;
	}
	was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	MY_MYSQL *link = link_of(object ? object : return_value);
	if (link && connecting) {
		remember(link, user, password, database);
	}
	connecting = false;
	zval_ptr_dtor(&before);
	if (worker && link && link->mysql) {
		opened += reused == reused_before;
		tell();
	}
}

/* Calls a function that changes more of a connection than a reset undoes: mysqli closes that connection as usual. */
static void customise_by(zif_handler was, uint32_t first, INTERNAL_FUNCTION_PARAMETERS)
{
	zval *object = first ? (ZEND_NUM_ARGS() ? ZEND_CALL_ARG(execute_data, 1) : NULL) : getThis();
	if (enabled && object && Z_TYPE_P(object) == IS_OBJECT) {
		MY_MYSQL *link = link_of(object);
		zend_hash_index_add_empty_element(&customised, Z_OBJ_HANDLE_P(object));
		if (link && link->mysql && find(link->mysql->data)) {
			forget(find(link->mysql->data));
			link->persistent = false;
		}
	}
	was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

#define CONNECT(name, first, flags) \
	static zif_handler name##_was; \
	static void name(INTERNAL_FUNCTION_PARAMETERS) \
	{ \
		connect_by(name##_was, first, flags, INTERNAL_FUNCTION_PARAM_PASSTHRU); \
	}
#define CUSTOMISE(name, first) \
	static zif_handler name##_was; \
	static void name(INTERNAL_FUNCTION_PARAMETERS) \
	{ \
		customise_by(name##_was, first, INTERNAL_FUNCTION_PARAM_PASSTHRU); \
	}

CONNECT(connect_function, 0, false)
CONNECT(connect_constructor, 0, false)
CONNECT(connect_method, 0, false)
CONNECT(real_connect_function, 1, true)
CONNECT(real_connect_method, 0, true)
CUSTOMISE(options_function, 1)
CUSTOMISE(set_opt_function, 1)
CUSTOMISE(ssl_set_function, 1)
CUSTOMISE(multi_query_function, 1)
CUSTOMISE(options_method, 0)
CUSTOMISE(set_opt_method, 0)
CUSTOMISE(ssl_set_method, 0)
CUSTOMISE(multi_query_method, 0)

static const struct {
	const char *class, *name;
	zif_handler ours, *was;
} wrapped[] = {
	{ NULL, "mysqli_connect", connect_function, &connect_function_was },
	{ NULL, "mysqli_real_connect", real_connect_function, &real_connect_function_was },
	{ NULL, "mysqli_options", options_function, &options_function_was },
	{ NULL, "mysqli_set_opt", set_opt_function, &set_opt_function_was },
	{ NULL, "mysqli_ssl_set", ssl_set_function, &ssl_set_function_was },
	{ NULL, "mysqli_multi_query", multi_query_function, &multi_query_function_was },
	{ "mysqli", "__construct", connect_constructor, &connect_constructor_was },
	{ "mysqli", "connect", connect_method, &connect_method_was },
	{ "mysqli", "real_connect", real_connect_method, &real_connect_method_was },
	{ "mysqli", "options", options_method, &options_method_was },
	{ "mysqli", "set_opt", set_opt_method, &set_opt_method_was },
	{ "mysqli", "ssl_set", ssl_set_method, &ssl_set_method_was },
	{ "mysqli", "multi_query", multi_query_method, &multi_query_method_was },
};

/* ---- life ---- */

/* Called in the host after PHP's start. Does nothing without mysqli and mysqlnd. */
void database_startup(void)
{
	struct st_mysqlnd_plugin_methods_xetters *mysqlnd = dlsym(RTLD_DEFAULT, "mysqlnd_plugin_methods_xetters");
	list_type = zend_fetch_list_dtor_id("MySqli persistent connection");
	if (!options.keep_database_connections || !mysqlnd || !list_type) {
		return;
	}
	for (size_t i = 0; i < sizeof wrapped / sizeof *wrapped; i++) {
		*wrapped[i].was = watch_replace(wrapped[i].class, wrapped[i].name, wrapped[i].ours);
	}
	struct st_mysqlnd_conn_data_methods *methods = mysqlnd->connection_data.get();
	change_user_was = methods->change_user;
	methods->change_user = change_user;
	zend_hash_init(&customised, 0, NULL, NULL, 1);
	enabled = true;
}

static void close_link(MYSQLND *link)
{
	forget(find(link->data));
	link->m->close(link, MYSQLND_CLOSE_IMPLICIT);
}

/*
 * Resets a connection to the state of a new one; false if that is impossible, because it may be in the middle of a result.
 */
static bool reset(MYSQLND *link, struct kept *one)
{
	MYSQLND_CONN_DATA *connection = link->data;
	if (connection->greet_charset) {
		connection->charset = connection->greet_charset;
	}
	one->clean = change_user_was(connection, one->user, one->password, one->database, true, strlen(one->password)) == PASS;
	return one->clean;
}

/* Goes through mysqli's lists of connections that no script holds. */
static void each_list(bool (*stays)(MYSQLND *link, bool first))
{
	zend_resource *resource;
	ZEND_HASH_FOREACH_PTR(&EG(persistent_list), resource) {
		if (resource->type != list_type) {
			continue;
		}
		zend_ptr_stack *links = &((mysqli_plist_entry *)resource->ptr)->free_links;
		int number = zend_ptr_stack_num_elements(links), left = 0;
		for (int i = 0; i < number; i++) {
			void *link = links->elements[i];
			if (stays(link, left == 0)) {
				links->elements[left++] = link;
			} else {
				close_link(link);
			}
		}
		links->top = left;
		links->top_element = links->elements + left;
	} ZEND_HASH_FOREACH_END();
}

/*
 * Keeps one connection of each list, if it is reset. Connections that a script has made persistent itself are not touched.
 */
static bool stays_reset(MYSQLND *link, bool first)
{
	struct kept *one = find(link->data);
	return !one || (first && (one->clean || reset(link, one)));
}

static bool stays_if_foreign(MYSQLND *link, bool first)
{
	(void)first;
	return !find(link->data);
}

/* Called at the end of a request, after its response. */
void database_reset(void)
{
	if (!enabled || !used) {
		return;
	}
	int reporting = EG(error_reporting);
	EG(error_reporting) = 0;
	zend_try {
		each_list(stays_reset);
	} zend_end_try();
	EG(error_reporting) = reporting;
	used = connecting = false;
	zend_hash_clean(&customised);
	tell();
}

/*
 * Waits until the server has sent something to this worker; meanwhile closes connections that have been unused for too
 * long.
 */
void database_wait(void)
{
	if (!enabled || worker->in.length > worker->in_used || count() == 0) {
		return;
	}
	struct pollfd wait = { .fd = worker->socket, .events = POLLIN };
	while (poll(&wait, 1, IDLE_SECONDS * 1000) == 0 && count() > 0) {
		each_list(stays_if_foreign);
		tell();
	}
}

#else

void database_startup(void)
{
}

void database_reset(void)
{
}

void database_wait(void)
{
}

#endif
