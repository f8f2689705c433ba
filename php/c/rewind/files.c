/*
 * The files that the boot has read, or asked about: an image is compared with them. Files are compared by their times.
 *
 * The folders that they are in count, too: a file that appears there may be one that the boot would have loaded. In a folder that changes
 * all the time - plugins put a file there to see whether they may, and remove it - only the names of its files are compared.
 */
#include "rewind.h"

#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* A file that changed so few seconds before the boot may have changed while it was read, too. */
#define YOUNG 2
/* A folder that has changed in the last day, seconds, may do so again soon: its names are remembered. */
#define BUSY 86400

struct folder {
	struct timespec changed;
	ino_t inode;
	uint64_t names; /* a digest of the names in it */
	bool listed;    /* whether `names` is known */
};

/* Of the boot: its memory is the image's. */
static struct {
	struct timespec began;
	HashTable *opened;  /* paths of files and folders that it has opened */
	HashTable *asked;   /* paths that it has asked about */
	HashTable *folders; /* path => struct folder, from the point on */
	uint64_t digest;    /* of all its files, at the point */
	zend_long trusted;  /* opcache.revalidate_freq: seconds for which PHP takes a file as it was */
} boot;

/* ---- noting ---- */

static HashTable *new_table(void)
{
	HashTable *table;
	ALLOC_HASHTABLE(table);
	zend_hash_init(table, 16, NULL, NULL, 0);
	return table;
}

static void note_path(HashTable **paths, const char *path)
{
	char *whole = expand_filepath(path, NULL);
	if (!*paths) {
		*paths = new_table();
	}
	if (whole) {
		zend_hash_str_add_empty_element(*paths, whole, strlen(whole));
		efree(whole);
	}
}

/* The boot opens a file or a folder. */
void files_note(const char *path)
{
	note_path(&boot.opened, path);
}

/* The boot asks whether there is such a file, or how it is. */
void files_note_asked(const char *path)
{
	note_path(&boot.asked, path);
}

/* The boot looks for files by a pattern: the folder that it is in. */
void files_note_pattern(const char *path)
{
	char folder[PATH_MAX];
	size_t length = strcspn(path, "*?[{");
	if (length < sizeof folder) {
		memcpy(folder, path, length);
		folder[length] = 0;
		char *slash = strrchr(folder, '/');
		*(slash ? slash : folder) = 0;
		files_note(*folder ? folder : ".");
	}
}

/* ---- files ---- */

static uint64_t mix_file(uint64_t digest, const char *path, const struct stat *file, time_t *newest)
{
	if (!file) {
		return mix(digest, path, strlen(path));
	}
	uint64_t seen[] = { file->st_dev, file->st_ino, (uint64_t)file->st_size, (uint64_t)file->st_mtim.tv_sec, (uint64_t)file->st_mtim.tv_nsec,
		(uint64_t)file->st_ctim.tv_sec, (uint64_t)file->st_ctim.tv_nsec };
	*newest = MAX(*newest, file->st_ctim.tv_sec);
	return mix(digest, seen, sizeof seen);
}

/* Of a folder, or of what else is no file, counts what it is. */
static uint64_t mix_files(uint64_t digest, HashTable *paths, time_t *newest)
{
	zend_string *path;
	ZEND_HASH_FOREACH_STR_KEY(paths, path) {
		struct stat file;
		if (!path || ZSTR_VAL(path)[0] != '/') {
			continue;
		}
		bool there = stat(ZSTR_VAL(path), &file) == 0;
		digest = there && !S_ISREG(file.st_mode) ? mix(digest, &file.st_mode, sizeof file.st_mode)
			: mix_file(digest, ZSTR_VAL(path), there ? &file : NULL, newest);
	} ZEND_HASH_FOREACH_END();
	return digest;
}

static uint64_t digest_files(time_t *newest)
{
	uint64_t digest = mix_files(MIX_START, &EG(included_files), newest);
	digest = boot.opened ? mix_files(digest, boot.opened, newest) : digest;
	return boot.asked ? mix_files(digest, boot.asked, newest) : digest;
}

/* ---- folders ---- */

static bool is_before(const struct timespec *one, const struct timespec *other)
{
	return one->tv_sec < other->tv_sec || (one->tv_sec == other->tv_sec && one->tv_nsec < other->tv_nsec);
}

/* A digest of the names in a folder, whatever their order; false: it cannot be read. */
static bool list(const char *path, uint64_t *names)
{
	DIR *folder = opendir(path);
	*names = 0;
	if (!folder) {
		return false;
	}
	for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
		*names += mix(MIX_START, entry->d_name, strlen(entry->d_name));
	}
	closedir(folder);
	return true;
}

/* Remembers a folder; false: it has changed since the boot began, so the boot may have seen it as it was before. */
static bool take_folder(const char *path, size_t length)
{
	struct stat seen;
	struct folder folder = { .listed = false };
	if (zend_hash_str_exists(boot.folders, path, length)) {
		return true;
	}
	if (stat(path, &seen) == 0 && S_ISDIR(seen.st_mode)) {
		folder.changed = seen.st_ctim;
		folder.inode = seen.st_ino;
		folder.listed = boot.began.tv_sec - seen.st_ctim.tv_sec < BUSY && list(path, &folder.names);
		zend_hash_str_add_mem(boot.folders, path, length, &folder, sizeof folder);
	}
	return is_before(&folder.changed, &boot.began);
}

/* The folder that each one is in; where it is one itself, it, too. */
static bool take_folders(HashTable *paths)
{
	char path[PATH_MAX];
	zend_string *whole;
	bool good = true;
	ZEND_HASH_FOREACH_STR_KEY(paths, whole) {
		if (!whole || ZSTR_VAL(whole)[0] != '/' || ZSTR_LEN(whole) >= sizeof path) {
			continue;
		}
		struct stat seen;
		if (paths == boot.opened && stat(ZSTR_VAL(whole), &seen) == 0 && S_ISDIR(seen.st_mode)) {
			good &= take_folder(ZSTR_VAL(whole), ZSTR_LEN(whole));
		}
		size_t length = (size_t)(strrchr(ZSTR_VAL(whole), '/') - ZSTR_VAL(whole));
		memcpy(path, ZSTR_VAL(whole), length);
		path[length] = 0;
		good &= take_folder(length ? path : "/", length ? length : 1);
	} ZEND_HASH_FOREACH_END();
	return good;
}

static bool is_same_folder(const char *path, const struct folder *then)
{
	struct stat now;
	uint64_t names;
	if (stat(path, &now) != 0 || now.st_ino != then->inode) {
		return false;
	}
	bool untouched = now.st_ctim.tv_sec == then->changed.tv_sec && now.st_ctim.tv_nsec == then->changed.tv_nsec;
	return untouched || (then->listed && list(path, &names) && names == then->names);
}

/* ---- life ---- */

/* A request begins that may come to a point. */
void files_begin(void)
{
	memset(&boot, 0, sizeof boot);
	/* The clock of the times of files. */
	clock_gettime(CLOCK_REALTIME_COARSE, &boot.began);
}

/* It has ended, and its memory with it. */
void files_end(void)
{
	memset(&boot, 0, sizeof boot);
}

/* At the point: whether all files are older than the boot, so that they can be compared. */
bool files_take(void)
{
	time_t newest = 0;
	boot.digest = digest_files(&newest);
	boot.trusted = INI_ORIG_INT("opcache.revalidate_freq");
	boot.folders = new_table();
	bool good = take_folders(&EG(included_files));
	good &= !boot.opened || take_folders(boot.opened);
	return good && newest + MAX(boot.trusted, 0) + YOUNG < boot.began.tv_sec;
}

/* Whether each request has to look at the files: an ordinary one does. */
bool files_are_never_trusted(void)
{
	return boot.trusted == 0;
}

/* After the point: whether the files are the same. */
bool files_are_same(void)
{
	time_t newest = 0;
	zend_string *path;
	const struct folder *folder;
	if (digest_files(&newest) != boot.digest) {
		return false;
	}
	ZEND_HASH_FOREACH_STR_KEY_PTR(boot.folders, path, folder) {
		if (!is_same_folder(ZSTR_VAL(path), folder)) {
			return false;
		}
	} ZEND_HASH_FOREACH_END();
	return true;
}
