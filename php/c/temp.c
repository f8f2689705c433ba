/*
 * The host's own temporary folder: uploads, sys_get_temp_dir() and TMPDIR of its workers, closed to other users. The host
 * removes it at its end; if a host was killed, the next host with the same base folder removes it.
 */
#include "worker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "millrace-tmp-"

static char folder[PATH_MAX];
static pid_t maker;

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *place)
{
	(void)found;
	(void)kind;
	(void)place;
	remove(path);
	return 0;
}

static void remove_tree(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Removes folders of this user that no process locks: host and workers share a lock that ends with the last of them. */
static void remove_stale(const char *base)
{
	DIR *list = opendir(base);
	for (struct dirent *entry; list && (entry = readdir(list));) {
		char path[PATH_MAX];
		struct stat found;
		if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) != 0
			|| snprintf(path, sizeof path, "%s/%s", base, entry->d_name) >= PATH_MAX) {
			continue;
		}
		int held = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (held >= 0 && fstat(held, &found) == 0 && found.st_uid == geteuid() && flock(held, LOCK_EX | LOCK_NB) == 0) {
			remove_tree(path);
		}
		if (held >= 0) {
			close(held);
		}
	}
	if (list) {
		closedir(list);
	}
}

/*
 * Makes a folder below `base` and locks it. 0: another process took it for a stale one in between; -1: impossible. The
 * descriptor of the lock stays open in the workers, too. It is a shared lock: a process that wants to remove the folder
 * asks for an exclusive one, and this function waits for that process.
 */
static int make_and_hold(const char *base)
{
	struct stat held_one, there;
	if (snprintf(folder, sizeof folder, "%s/" PREFIX "XXXXXX", base) >= PATH_MAX || !mkdtemp(folder)) {
		return -1;
	}
	int held = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (held < 0) {
		return errno == ENOENT ? 0 : -1;
	}
	if (flock(held, LOCK_SH) != 0 || fstat(held, &held_one) != 0) {
		close(held);
		return -1;
	}
	if (stat(folder, &there) != 0 || there.st_ino != held_one.st_ino) {
		close(held);
		return 0;
	}
	return 1;
}

/* Makes the folder below `base`; false if that is not possible. */
bool temp_make(const char *base)
{
	int made = 0;
	remove_stale(base);
	for (int tries = 0; made == 0 && tries < 8; tries++) {
		made = make_and_hold(base);
	}
	if (made <= 0) {
		*folder = 0;
		return false;
	}
	maker = getpid();
	return true;
}

/* The folder's path; NULL: there is none. */
const char *temp_folder(void)
{
	return *folder ? folder : NULL;
}

/* Called in the host at its end. Workers that still run without it keep their open files. */
void temp_remove(void)
{
	if (*folder && maker == getpid()) {
		remove_tree(folder);
	}
}

/* Sets an ini value for good, after PHP has started: fpm_php_zend_ini_alter_master in sapi/fpm/fpm/fpm_php.c. */
bool ini_set_for_good(const char *name, const char *value)
{
	zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), name, strlen(name));
	if (!entry) {
		return false;
	}
	zend_string *text = zend_string_init(value, strlen(value), 1);
	if (entry->on_modify && entry->on_modify(entry, text, entry->mh_arg1, entry->mh_arg2, entry->mh_arg3,
		ZEND_INI_STAGE_STARTUP) != SUCCESS) {
		zend_string_release_ex(text, 1);
		return false;
	}
	entry->value = text;
	return true;
}

/* Whether an ini value is not set or names a folder that all users share. */
static bool is_shared(const char *name)
{
	static const char *const shared[] = { "", "/tmp", "/tmp/", "/var/tmp", "/var/tmp/" };
	const char *value = zend_ini_string_ex(name, strlen(name), 0, NULL);
	for (size_t i = 0; value && i < sizeof shared / sizeof *shared; i++) {
		if (strcmp(value, shared[i]) == 0) {
			return true;
		}
	}
	return !value;
}

/* ---- sessions ---- */

/* The folder of sessions; NULL: session.save_path applies. Scripts see the value of session.save_path in either case. */
static zend_string *sessions;
static zend_string *said;       /* session.save_path at the start */
static ZEND_INI_MH((*change_save_path));
static zif_handler save_path_was;

/* A save path equal to the one at the start means our folder: a script sets it back, or PHP does after a request. */
static ZEND_INI_MH(on_save_path)
{
	const char *path = new_value ? ZSTR_VAL(new_value) : "";
	if (strcmp(path, ZSTR_VAL(said)) == 0) {
		new_value = sessions;
		if (stage == ZEND_INI_STAGE_RUNTIME || stage == ZEND_INI_STAGE_HTACCESS) {
			stage = ZEND_INI_STAGE_ACTIVATE; /* open_basedir applies to what scripts choose */
		}
	}
	return change_save_path(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage);
}

/* session_save_path() tells the folder that is used, not the ini value. */
static PHP_FUNCTION(shown_save_path)
{
	const char *value = zend_ini_string_ex("session.save_path", sizeof "session.save_path" - 1, 0, NULL);
	zend_string *shown = zend_string_init(value ? value : "", value ? strlen(value) : 0, 0);
	save_path_was(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	if (Z_TYPE_P(return_value) == IS_STRING && zend_string_equals(Z_STR_P(return_value), sessions)) {
		zval_ptr_dtor(return_value);
		RETURN_STR(shown);
	}
	zend_string_release(shown);
}

static void keep_sessions_in(const char *path)
{
	zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("session.save_path"));
	if (!entry || !entry->on_modify) {
		return;
	}
	const char *value = entry->value ? ZSTR_VAL(entry->value) : "";
	said = zend_string_init(value, strlen(value), 1);
	sessions = zend_string_init(path, strlen(path), 1);
	change_save_path = entry->on_modify;
	entry->on_modify = on_save_path;
	entry->on_modify(entry, entry->value, entry->mh_arg1, entry->mh_arg2, entry->mh_arg3, ZEND_INI_STAGE_STARTUP);
	save_path_was = watch_replace(NULL, "session_save_path", ZEND_FN(shown_save_path));
}

/* NULL: there is no folder of our own for sessions. */
const char *temp_sessions(void)
{
	return sessions ? ZSTR_VAL(sessions) : NULL;
}

/*
 * Sessions outlive the host, so they are not in its temporary folder. If the distribution has no place for them, they are
 * in a folder of this user beside it.
 */
static void place_sessions(const char *base)
{
	char path[PATH_MAX];
	struct stat found;
	if (!is_shared("session.save_path")
		|| snprintf(path, sizeof path, "%s/millrace-sessions-%u", base, (unsigned)geteuid()) >= PATH_MAX) {
		return;
	}
	mkdir(path, 0700);
	if (lstat(path, &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() && (found.st_mode & 077) == 0) {
		keep_sessions_in(path);
	}
}

/*
 * Called after PHP's start: points settings without a place of their own to the folder. Uploads follow sys_temp_dir if
 * upload_tmp_dir is not set.
 */
void temp_use(const char *base)
{
	if (!*folder) {
		return;
	}
	if (is_shared("sys_temp_dir")) {
		ini_set_for_good("sys_temp_dir", folder);
	}
	const char *uploads = zend_ini_string_ex("upload_tmp_dir", sizeof "upload_tmp_dir" - 1, 0, NULL);
	if (uploads && *uploads && is_shared("upload_tmp_dir")) {
		ini_set_for_good("upload_tmp_dir", folder);
	}
	if (is_shared("soap.wsdl_cache_dir")) {
		ini_set_for_good("soap.wsdl_cache_dir", folder);
	}
	place_sessions(base);
}
