/*
 * State outside of PHP's variables that a persistent worker's script has set at boot and that a handler must not change for
 * the next request: ini values, the environment (putenv), the working directory, locale, umask, time zone, session save
 * handlers. Each is compared before it is restored: a handler that changes nothing costs almost nothing.
 *
 * Also the files that the script has loaded: where opcache checks timestamps, a worker ends when one of them has changed.
 */
#include "worker.h"

#include <ext/date/php_date.h>
#include <ext/session/php_session.h>
#include <ext/standard/basic_functions.h>
#include <fcntl.h>
#include <locale.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

/* Of a session's save handler (ext/session/php_session.h): PHP 8.4 has no PS_NUM_APIS. */
#define SAVE_FUNCTIONS (sizeof ((php_ps_globals *)NULL)->mod_user_names / sizeof(zval))

/* All of it lives in the memory of the script's one long request of PHP, or in malloc's, until the process ends. */
static struct {
	HashTable ini;         /* name to value of each entry that the boot has changed */
	HashTable environment; /* names that the boot has set by putenv() */
	char *directory;       /* the working directory */
	bool moved;            /* chdir() was called since */
	char *locale;          /* setlocale(LC_ALL, 0), if the boot has set one */
	char *time_zone;       /* of date_default_timezone_set(), or NULL */
	zend_date_globals *date;
	struct {
		zval functions[SAVE_FUNCTIONS];
		zend_string *class_name;
		bool set;
	} session;
} kept;

static zif_handler original_chdir;

static PHP_FUNCTION(noted_chdir)
{
	kept.moved = true;
	original_chdir(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* Called while our module starts, where a worker script is set. */
void kept_startup(void)
{
	original_chdir = watch_replace(NULL, "chdir", ZEND_FN(noted_chdir));
}

/* ---- ini values ---- */

static void remember_ini(void)
{
	zend_ini_entry *entry;
	zend_hash_init(&kept.ini, 8, NULL, ZVAL_PTR_DTOR, 0);
	if (!EG(modified_ini_directives)) {
		return;
	}
	ZEND_HASH_FOREACH_PTR(EG(modified_ini_directives), entry) {
		zval value;
		if (entry->value) {
			ZVAL_STR_COPY(&value, entry->value);
		} else {
			ZVAL_EMPTY_STRING(&value);
		}
		zend_hash_update(&kept.ini, entry->name, &value);
	} ZEND_HASH_FOREACH_END();
}

static void set_ini(zend_string *name, zend_string *value)
{
	zend_alter_ini_entry_ex(name, value, PHP_INI_SYSTEM, PHP_INI_STAGE_DEACTIVATE, true);
}

static void restore_ini(void)
{
	HashTable *modified = EG(modified_ini_directives);
	zend_ini_entry *entry;
	if (!modified) {
		return;
	}
	ZEND_HASH_FOREACH_PTR(modified, entry) {
		zval *value = zend_hash_find(&kept.ini, entry->name);
		if (!value) {
			zend_restore_ini_entry(entry->name, PHP_INI_STAGE_DEACTIVATE);
		} else if (!entry->value || !zend_string_equals(entry->value, Z_STR_P(value))) {
			set_ini(entry->name, Z_STR_P(value));
		}
	} ZEND_HASH_FOREACH_END();
	if (zend_hash_num_elements(modified) != zend_hash_num_elements(&kept.ini)) {
		/* ini_restore() has undone what the boot had set. */
		zend_string *name;
		zval *value;
		ZEND_HASH_FOREACH_STR_KEY_VAL(&kept.ini, name, value) {
			if (!zend_hash_exists(modified, name)) {
				set_ini(name, Z_STR_P(value));
			}
		} ZEND_HASH_FOREACH_END();
	}
}

/* ---- environment ---- */

static void remember_environment(void)
{
	zend_string *name;
	zend_hash_init(&kept.environment, 8, NULL, NULL, 0);
	ZEND_HASH_FOREACH_STR_KEY(&BG(putenv_ht), name) {
		if (name) {
			zend_hash_add_empty_element(&kept.environment, name);
		}
	} ZEND_HASH_FOREACH_END();
}

/*
 * Unsets variables that a handler has added, as PHP does at the end of each request; a new value of a variable of the boot
 * stays.
 */
static void restore_environment(void)
{
	zend_string *name;
	if (zend_hash_num_elements(&BG(putenv_ht)) <= zend_hash_num_elements(&kept.environment)) {
		return;
	}
	ZEND_HASH_FOREACH_STR_KEY(&BG(putenv_ht), name) {
		if (name && !zend_hash_exists(&kept.environment, name)) {
			zend_hash_del(&BG(putenv_ht), name);
		}
	} ZEND_HASH_FOREACH_END();
}

/* ---- directory, locale, umask, time zone ---- */

static char *copy(const char *text)
{
	return text ? strdup(text) : NULL;
}

static void remember_process(void)
{
	zend_module_entry *date = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("date"));
	kept.date = date ? date->globals_ptr : NULL;
	kept.time_zone = kept.date ? copy(kept.date->timezone) : NULL;
	kept.directory = getcwd(NULL, 0);
	kept.moved = false;
	kept.locale = BG(locale_changed) ? copy(setlocale(LC_ALL, NULL)) : NULL;
	BG(umask) = -1;
}

static void restore_process(void)
{
	if (kept.moved && kept.directory) {
		kept.moved = chdir(kept.directory) != 0;
	}
	if (BG(umask) != -1) {
		umask((mode_t)BG(umask));
		BG(umask) = -1;
	}
	if (BG(locale_changed) && (!kept.locale || strcmp(kept.locale, setlocale(LC_ALL, NULL)) != 0)) {
		/* As PHP_RSHUTDOWN_FUNCTION(basic). */
		setlocale(LC_ALL, kept.locale ? kept.locale : "C");
		zend_reset_lc_ctype_locale();
		zend_update_current_locale();
		BG(locale_changed) = kept.locale != NULL;
	}
	const char *zone = kept.date ? kept.date->timezone : NULL;
	if (zone && (!kept.time_zone || strcmp(zone, kept.time_zone) != 0)) {
		efree(kept.date->timezone);
		kept.date->timezone = kept.time_zone ? estrdup(kept.time_zone) : NULL;
	}
}

/* ---- session save handlers ---- */

static void remember_session(const zend_module_entry *module)
{
	const php_ps_globals *session = module ? module->globals_ptr : NULL;
	for (size_t i = 0; i < SAVE_FUNCTIONS; i++) {
		ZVAL_UNDEF(&kept.session.functions[i]);
	}
	if (!session) {
		return;
	}
	zval functions[SAVE_FUNCTIONS];
	memcpy(functions, &session->mod_user_names, sizeof functions);
	for (size_t i = 0; i < SAVE_FUNCTIONS; i++) {
		if (!Z_ISUNDEF(functions[i])) {
			ZVAL_COPY(&kept.session.functions[i], &functions[i]);
			kept.session.set = true;
		}
	}
	kept.session.class_name = session->mod_user_class_name ? zend_string_copy(session->mod_user_class_name) : NULL;
}

/* The session module has dropped its save handlers at the end of the request. */
static void restore_session(const zend_module_entry *module)
{
	php_ps_globals *session = module ? module->globals_ptr : NULL;
	if (!session || !kept.session.set) {
		return;
	}
	zval functions[SAVE_FUNCTIONS];
	memcpy(functions, kept.session.functions, sizeof functions);
	for (size_t i = 0; i < SAVE_FUNCTIONS; i++) {
		Z_TRY_ADDREF(functions[i]);
	}
	memcpy(&session->mod_user_names, functions, sizeof functions);
	if (kept.session.class_name && !session->mod_user_class_name) {
		session->mod_user_class_name = zend_string_copy(kept.session.class_name);
	}
}

/* ---- all of it ---- */

static void remember_files(void);

/* The boot is over. */
void kept_remember(const zend_module_entry *session)
{
	remember_ini();
	remember_environment();
	remember_process();
	remember_session(session);
	remember_files();
}

/* A request is over. */
void kept_restore(const zend_module_entry *session)
{
	restore_ini();
	restore_environment();
	restore_process();
	restore_session(session);
}

/* ---- files ---- */

/* A file as this worker first saw it; without a time it counts as changed. */
struct stamp {
	struct timespec modified;
	off_t size;
};

static struct {
	bool watched;
	struct stamp *stamps; /* in the order of EG(included_files) */
	uint32_t count, room;
	time_t began;         /* the worker's boot, wall clock */
	zend_long pause;      /* opcache.revalidate_freq */
} files;

/* The boot begins. */
void kept_begin(void)
{
	files.began = time(NULL);
	files.pause = INI_INT("opcache.revalidate_freq");
	files.watched = !zend_get_extension("Zend OPcache") || INI_BOOL("opcache.validate_timestamps");
}

/* Whether opcache checks timestamps of files. */
bool kept_look_at_files(void)
{
	return files.watched;
}

static struct stamp look(const zend_string *name)
{
	struct stat file;
	if (stat(ZSTR_VAL(name), &file) != 0) {
		return (struct stamp){ .size = -1 };
	}
	return (struct stamp){ file.st_mtim, file.st_size };
}

/*
 * Stores the state of files that were loaded since the last call. A file that was written shortly before the boot counts as
 * changed: opcache may have loaded its previous version. A file that was written during the boot is the script's own work.
 */
static void remember_files(void)
{
	uint32_t count = zend_hash_num_elements(&EG(included_files));
	zend_string *name;
	if (!files.watched || count <= files.count) {
		return;
	}
	if (count > files.room) {
		uint32_t room = count * 2;
		struct stamp *stamps = realloc(files.stamps, room * sizeof *stamps);
		if (!stamps) {
			files.watched = false;
			return;
		}
		files.stamps = stamps;
		files.room = room;
	}
	uint32_t at = 0;
	ZEND_HASH_FOREACH_STR_KEY(&EG(included_files), name) {
		if (at++ < files.count || !name) {
			continue;
		}
		struct stamp stamp = look(name);
		time_t written = stamp.modified.tv_sec;
		if (written < files.began && written >= files.began - (time_t)files.pause) {
			stamp.modified.tv_sec = 0;
		}
		files.stamps[at - 1] = stamp;
	} ZEND_HASH_FOREACH_END();
	files.count = count;
}

/* Makes opcache compile the file again for the next worker; `force`: opcache can't see the change itself. */
static void invalidate(zend_string *name, bool force)
{
	zval function, arguments[2], result;
	zend_function *known = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("opcache_invalidate"));
	if (!known) {
		return;
	}
	ZVAL_STR(&function, known->common.function_name);
	ZVAL_STR(&arguments[0], name);
	ZVAL_BOOL(&arguments[1], force);
	if (call_user_function(NULL, NULL, &function, &result, 2, arguments) == SUCCESS) {
		zval_ptr_dtor(&result);
	}
}

/* Whether a file that the script has loaded has changed; checks once in `pause` seconds. */
bool kept_files_changed(time_t *looked, time_t pause)
{
	struct timespec now;
	if (!files.watched) {
		return false;
	}
	remember_files();
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if (now.tv_sec < *looked + pause) {
		return false;
	}
	*looked = now.tv_sec;
	zend_string *name, *first = NULL;
	uint32_t at = 0;
	ZEND_HASH_FOREACH_STR_KEY(&EG(included_files), name) {
		if (at >= files.count || !name) {
			break;
		}
		struct stamp was = files.stamps[at++], is = look(name);
		if (was.size != is.size || was.modified.tv_sec != is.modified.tv_sec || was.modified.tv_nsec != is.modified.tv_nsec) {
			/* opcache compares whole seconds only. */
			invalidate(name, was.modified.tv_sec == is.modified.tv_sec);
			first = first ? first : name;
		}
	} ZEND_HASH_FOREACH_END();
	if (first) {
		char text[512];
		int length = snprintf(text, sizeof text, "%.400s has changed: this worker exits, and another one boots the script",
			ZSTR_VAL(first));
		wire_log(LOG_INFO, text, MIN((size_t)length, sizeof text - 1));
	}
	return first != NULL;
}
