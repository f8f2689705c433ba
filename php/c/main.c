/*
 * millrace-php: PHP for Millrace. The server starts it as a host, with a control socket as descriptor 3 and a
 * scoreboard as descriptor 4; the host starts PHP once and forks the workers. `millrace-php --check` says what it finds.
 */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>

/* choose_ini() and start_php() set these in the environment for PHP; programs that scripts start must not see them. */
static bool scan_set, huge_set;

struct options options = { .grace_seconds = 5 };

static bool read_options(int argc, char **argv);
static bool take_descriptors(void);
static void be_first_to_go(void);
static bool switch_user(void);
static bool start_php(char *program);
static bool set_environment(void);

int main(int argc, char **argv)
{
	if (argc >= 3 && strcmp(argv[1], "--sendmail") == 0) {
		return mail_hand_over(argv[2], argc - 3, argv + 3);
	}
	if (!read_options(argc, argv)) {
		return 2;
	}
	if (!options.check && !take_descriptors()) {
		return 2;
	}
	pid_t server = getppid();
	if (!switch_user()) {
		return 1;
	}
	if (options.temp_base && !options.check && !temp_make(options.temp_base)) {
		main_fail("cannot create a temporary folder in %s: %s; set php.temp_dir to a folder that user %u can write to",
			options.temp_base, strerror(errno), (unsigned)geteuid());
		return 1;
	}
	if (!start_php(argv[0]) || !set_environment()) {
		temp_remove();
		return 1;
	}
	int status;
	if (options.check) {
		char text[MR_CONTROL_MAX];
		status = fwrite(text, check_report(text, sizeof text), 1, stdout) != 1;
	} else {
		status = host_run(server);
	}
	temp_remove();
	php_module_shutdown();
	sapi_shutdown();
	return status;
}

/* Says why the host cannot do its work: to the server if there is one, else to standard error. */
void main_fail(const char *format, ...)
{
	char text[1024];
	va_list values;
	va_start(values, format);
	int length = vsnprintf(text, sizeof text, format, values);
	va_end(values);
	length = MIN(length, (int)sizeof text - 1);
	struct { uint32_t length; uint8_t kind, flags; uint16_t extra; } frame = { (uint32_t)length, MR_CONTROL_FAILED, 0, 0 };
	struct iovec parts[2] = { { &frame, sizeof frame }, { text, (size_t)length } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	if (options.check || sendmsg(MR_CONTROL_DESCRIPTOR, &message, MSG_NOSIGNAL) < 0) {
		fprintf(stderr, "millrace-php: %s\n", text);
	}
}

/* ---- options ---- */

static const char usage[] =
	"millrace-php runs PHP for Millrace, which starts it with a control socket as descriptor 3 and a scoreboard as 4.\n"
	"  --user USER           run as this user (requires root)\n"
	"  --group GROUP         run as this group; default: the user's primary group\n"
	"  --ini-file FILE       use only this ini file, instead of the distribution's php.ini and conf.d\n"
	"  -d NAME=VALUE         set an ini value; overrides ini files\n"
	"  --max-requests N      replace a worker after about N requests; 0 (the default): never\n"
	"  --grace-seconds N     kill workers N seconds after the server has exited (default 5)\n"
	"  --worker-script FILE  persistent workers: each boots this script, which calls millrace_handle_request()\n"
	"  --worker-name NAME    SCRIPT_NAME of the worker script while no request runs\n"
	"  --worker-root FOLDER  DOCUMENT_ROOT of the worker script while no request runs\n"
	"  --keep-environment    pass the server's environment to scripts; default: only USER and HOME, as php-fpm\n"
	"  --no-new-privileges   PHP cannot gain privileges through set-user-ID programs\n"
	"  --sandbox             like --no-new-privileges; in addition, scripts can access only the folders named here (if\n"
	"                        the kernel has Landlock), and cannot use system calls that web pages do not need\n"
	"  --sandbox-signals AS  the same, but signals as on older kernels: asked (before 6.12), family (without Landlock), group\n"
	"  --folder DIR          scripts can read and write in this folder; may be repeated\n"
	"  --read-folder DIR     scripts can read in this folder; may be repeated\n"
	"  --rewind              let requests begin behind the boot of an application: millrace_rewind_point() (experimental)\n"
	"  --rewind-methods      the same, and notice calls of methods of the classes that millrace_rewind_repeats() is given: all calls take longer\n"
	"  --rewind-compare      the same, as on kernels before 6.7: compare all memory to find what has changed\n"
	"  --rewind-except A,B   functions (`name`, `Class::method`, or a file for other code in it) that may call in a boot what forbids an image\n"
	"  --temp-base DIR       create the workers' own temporary folder in this folder\n"
	"  --open-basedir WHEN   set open_basedir to these folders: always, or when needed (without --sandbox or Landlock)\n"
	"  --disable-functions A,B   disable these functions, in addition to those in the ini files\n"
	"  --check               start PHP, print a report, and exit\n"
	"  --system-calls        print the system calls that the sandbox knows, and exit; all others are forbidden\n"
	"  --version             print the version and exit\n";

/*
 * Whether an ini value needs no quotes: it is quoted already, is an expression of constants (E_ALL & ~E_NOTICE), or
 * consists of characters without a meaning to the ini parser.
 */
static bool stands_alone(const char *value)
{
	static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ |&~^!()";
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:,+-%@*";
	return *value == '"' || *value == '\'' || value[strspn(value, upper)] == 0 || value[strspn(value, plain)] == 0;
}

/* Appends one -d to the text that PHP reads after all ini files. */
static bool define(const char *text)
{
	const char *value = strchr(text, '=');
	size_t old = options.ini_entries ? strlen(options.ini_entries) : 0;
	char *entries = realloc(options.ini_entries, old + 2 * strlen(text) + 8);
	if (!entries) {
		return false;
	}
	options.ini_entries = entries;
	char *out = entries + old;
	if (!value || stands_alone(value + 1)) {
		sprintf(out, value ? "%s\n" : "%s=1\n", text);
		return true;
	}
	out += sprintf(out, "%.*s=\"", (int)(value - text), text);
	for (value++; *value; value++) {
		if (*value == '"' || *value == '\\') {
			*out++ = '\\';
		}
		*out++ = *value;
	}
	strcpy(out, "\"\n");
	return true;
}

/* Parses a decimal number of digits only. */
static bool number(const char *text, uint64_t *value)
{
	char *end;
	errno = 0;
	*value = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && *end == 0 && errno == 0;
}

/* Appends one --folder or --read-folder. */
static bool add_folder(const char *path, bool writable)
{
	void *more = realloc(options.folders, (options.folder_count + 1) * sizeof *options.folders);
	if (!more) {
		return false;
	}
	options.folders = more;
	options.folders[options.folder_count].path = path;
	options.folders[options.folder_count++].writable = writable;
	return true;
}

static bool read_options(int argc, char **argv)
{
	static const struct option known[] = {
		{ "user", required_argument, NULL, 'u' },
		{ "group", required_argument, NULL, 'g' },
		{ "ini-file", required_argument, NULL, 'i' },
		{ "define", required_argument, NULL, 'd' },
		{ "max-requests", required_argument, NULL, 'm' },
		{ "grace-seconds", required_argument, NULL, 's' },
		{ "worker-script", required_argument, NULL, 'W' },
		{ "worker-name", required_argument, NULL, 'N' },
		{ "worker-root", required_argument, NULL, 'R' },
		{ "keep-environment", no_argument, NULL, 'e' },
		{ "no-new-privileges", no_argument, NULL, 'p' },
		{ "sandbox", no_argument, NULL, 'S' },
		{ "sandbox-signals", required_argument, NULL, 'U' },
		{ "rewind", no_argument, NULL, 'w' },
		{ "rewind-methods", no_argument, NULL, 'M' },
		{ "rewind-compare", no_argument, NULL, 'C' },
		{ "rewind-except", required_argument, NULL, 'E' },
		{ "folder", required_argument, NULL, 'F' },
		{ "read-folder", required_argument, NULL, 'O' },
		{ "temp-base", required_argument, NULL, 'T' },
		{ "open-basedir", required_argument, NULL, 'B' },
		{ "disable-functions", required_argument, NULL, 'D' },
		{ "check", no_argument, NULL, 'c' },
		{ "system-calls", no_argument, NULL, 'L' },
		{ "version", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t seconds = options.grace_seconds;
	bool good = true;
	int option;
	while (good && (option = getopt_long(argc, argv, "d:", known, NULL)) != -1) {
		switch (option) {
			case 'u': options.user = optarg; break;
			case 'g': options.group = optarg; break;
			case 'i': options.ini_file = optarg; break;
			case 'd': good = define(optarg); break;
			case 'm': good = number(optarg, &options.max_requests); break;
			case 's': good = number(optarg, &seconds) && seconds <= 3600; break;
			case 'W': options.worker_script = optarg; break;
			case 'N': options.worker_name = optarg; break;
			case 'R': options.worker_root = optarg; break;
			case 'e': options.keep_environment = true; break;
			case 'p': options.no_new_privileges = true; break;
			case 'S': options.sandbox = true; break;
			case 'U': options.sandbox = true; options.signals = optarg; break;
			case 'w': options.rewind = true; break;
			case 'M': options.rewind = options.rewind_methods = true; break;
			case 'C': options.rewind = options.rewind_compare = true; break;
			case 'E': options.rewind_except = optarg; break;
			case 'F': case 'O': good = add_folder(optarg, option == 'F'); break;
			case 'T': options.temp_base = optarg; break;
			case 'B': options.open_basedir = optarg; break;
			case 'D': options.disable_functions = optarg; break;
			case 'c': options.check = true; break;
			case 'L': seccomp_tell(); exit(0);
			case 'v': printf("millrace-php %s, PHP %s\n", MILLRACE_VERSION, PHP_VERSION); exit(0);
			case 'h': printf("%s", usage); exit(0);
			default: good = false;
		}
	}
	options.grace_seconds = (unsigned)seconds;
	if (!good || optind != argc) {
		fprintf(stderr, "%s", usage);
		return false;
	}
	return true;
}

/* ---- process ---- */

/* Makes sure that descriptors 0 to 4 are what they must be and that no other descriptor is inherited. */
static bool take_descriptors(void)
{
	int kind;
	socklen_t length = sizeof kind;
	if (getsockopt(MR_CONTROL_DESCRIPTOR, SOL_SOCKET, SO_TYPE, &kind, &length) != 0 || kind != SOCK_SEQPACKET) {
		fprintf(stderr, "millrace-php: descriptor 3 is not a control socket; `millrace serve` starts this program, "
			"`millrace-php --check` checks the PHP installation\n");
		return false;
	}
	for (int fd = 0; fd < 3; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_WRONLY : O_RDONLY) < 0) {
			return false;
		}
	}
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0 || dup2(null, 0) < 0) {
		return false;
	}
	close_range(MR_SCOREBOARD_DESCRIPTOR + 1, ~0u, 0);
	fcntl(MR_CONTROL_DESCRIPTOR, F_SETFD, FD_CLOEXEC);
	fcntl(MR_SCOREBOARD_DESCRIPTOR, F_SETFD, FD_CLOEXEC);
	/* A session of its own: Ctrl-C at the terminal reaches only the server, which ends its workers in order. */
	setsid();
	signal(SIGPIPE, SIG_IGN);
	be_first_to_go();
	return true;
}

/*
 * Raises oom_score_adj (proc(5)): when the machine runs out of memory, the kernel ends a worker, whose script takes the
 * memory, and not the database or the server. Workers and programs that scripts start inherit it.
 */
static void be_first_to_go(void)
{
	int score = 0;
	FILE *file = fopen("/proc/self/oom_score_adj", "r+");
	if (!file) {
		return;
	}
	if (fscanf(file, "%d", &score) == 1) {
		rewind(file);
		fprintf(file, "%d", MIN(score + 300, 1000));
	}
	fclose(file);
}

/* Switches to the user that PHP runs as, before any of PHP's code runs. */
static bool switch_user(void)
{
	if (!options.user && options.group && geteuid() == 0) {
		main_fail("the group \"%s\" needs a user: set php.user", options.group);
		return false;
	}
	if (options.user) {
		const struct passwd *user = getpwnam(options.user);
		if (!user) {
			main_fail("there is no user \"%s\": set php.user to one that exists", options.user);
			return false;
		}
		gid_t gid = user->pw_gid;
		if (options.group) {
			const struct group *group = getgrnam(options.group);
			if (!group) {
				main_fail("there is no group \"%s\": set php.group to one that exists", options.group);
				return false;
			}
			gid = group->gr_gid;
		}
		uid_t uid = user->pw_uid;
		if (geteuid() != 0 && (uid != geteuid() || (options.group && gid != getegid()))) {
			main_fail("PHP cannot run as \"%s\": only root can switch users", options.user);
			return false;
		}
		if (geteuid() == 0 && (initgroups(options.user, gid) != 0 || setgid(gid) != 0 || setuid(uid) != 0)) {
			main_fail("cannot switch to the user \"%s\": %s", options.user, strerror(errno));
			return false;
		}
		if (uid != 0 && setuid(0) == 0) {
			main_fail("the user \"%s\" can switch back to root", options.user);
			return false;
		}
		/*
		 * The kernel closes a process that has switched users to its own user; but the host reads where its workers are
		 * (trace.c).
		 */
		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	}
	return true;
}

/*
 * Prefix of the variables of php.env in our own environment. Without it a variable that has a meaning to us or to libphp
 * would take effect here; it is meant for scripts only.
 */
#define GIVEN "MILLRACE_ENV_"

/*
 * Removes the variables of php.env from the environment and returns them: NAME=VALUE each, NULL at the end. Overwrites
 * their values in the memory that /proc/PID/environ shows.
 */
static char **take_given(void)
{
	size_t count = 0;
	for (char **entry = environ; *entry; entry++) {
		count += strncmp(*entry, GIVEN, strlen(GIVEN)) == 0;
	}
	char **given = calloc(count + 1, sizeof *given);
	if (!given) {
		return NULL;
	}
	size_t taken = 0, kept = 0;
	for (char **entry = environ; *entry; entry++) {
		if (strncmp(*entry, GIVEN, strlen(GIVEN)) != 0) {
			environ[kept++] = *entry;
			continue;
		}
		given[taken] = strdup(*entry + strlen(GIVEN));
		if (!given[taken++]) {
			return NULL;
		}
		explicit_bzero(*entry, strlen(*entry));
	}
	environ[kept] = NULL;
	return given;
}

static bool set_given(char **given)
{
	for (char **entry = given; *entry; entry++) {
		char *value = strchr(*entry, '=');
		if (value) {
			*value++ = 0;
			if (setenv(*entry, value, 1) != 0) {
				return false;
			}
		}
		free(*entry);
	}
	free(given);
	return true;
}

/* The environment of scripts: fpm_env_init_child in sapi/fpm/fpm/fpm_env.c, with clear_env on. */
static bool set_environment(void)
{
	const struct passwd *user = getpwuid(geteuid());
	char **given = take_given();
	if (!given) {
		return false;
	}
	if ((scan_set && unsetenv("PHP_INI_SCAN_DIR") != 0) || (huge_set && unsetenv("USE_ZEND_ALLOC_HUGE_PAGES") != 0)) {
		return false;
	}
	if (!options.keep_environment && clearenv() != 0) {
		return false;
	}
	if (temp_folder() && setenv("TMPDIR", temp_folder(), 1) != 0) {
		return false;
	}
	if (user && (setenv("USER", user->pw_name, 1) != 0 || setenv("HOME", user->pw_dir, 1) != 0)) {
		return false;
	}
	return set_given(given);
}

/* ---- PHP ---- */

/* open_basedir for these folders; the caller frees it. */
static char *basedir_list(void)
{
	char *list = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&list, &length);
	if (!out) {
		return NULL;
	}
	for (unsigned i = 0; i < options.folder_count; i++) {
		fprintf(out, "%s%s", i ? ":" : "", options.folders[i].path);
	}
	fprintf(out, temp_folder() ? ":%s" : "", temp_folder());
	return fclose(out) == 0 ? list : NULL;
}

/*
 * Restricts files in addition to Landlock. open_basedir switches PHP's cache of paths off, so it is not set where the
 * kernel restricts the same folders.
 */
static bool set_basedir(void)
{
	if (!options.open_basedir || (strcmp(options.open_basedir, "needed") == 0 && sandbox_has_landlock())) {
		return true;
	}
	char *list = basedir_list(), *text = NULL;
	bool good = list && asprintf(&text, "open_basedir=%s", list) > 0 && define(text);
	free(list);
	free(text);
	return good;
}

/*
 * Chooses the ini files. With --ini-file only that one, as `php -n -c FILE`. Else those of php-fpm, if the distribution
 * keeps a set for each SAPI (Debian) and php-fpm is installed: a server that comes from php-fpm has its values there.
 * Otherwise those that libphp was built to read. PHPRC and PHP_INI_SCAN_DIR in the environment win as always.
 */
static void choose_ini(void)
{
	static char file[64], scan[64];
	if (options.ini_file) {
		sapi_millrace.php_ini_path_override = strdup(options.ini_file);
		sapi_millrace.php_ini_ignore = 1;
		return;
	}
	snprintf(file, sizeof file, "/etc/php/%d.%d/fpm/php.ini", PHP_MAJOR_VERSION, PHP_MINOR_VERSION);
	snprintf(scan, sizeof scan, "/etc/php/%d.%d/fpm/conf.d", PHP_MAJOR_VERSION, PHP_MINOR_VERSION);
	if (!getenv("PHPRC") && !getenv("PHP_INI_SCAN_DIR") && access(file, R_OK) == 0 && access(scan, R_OK) == 0) {
		sapi_millrace.php_ini_path_override = strdup(file);
		scan_set = setenv("PHP_INI_SCAN_DIR", scan, 1) == 0;
	}
}

/* Names that are for the ini parser, and no settings of PHP. */
static bool is_for_parser(const char *name, size_t length)
{
	static const char *const names[] = { "extension", "zend_extension" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (strlen(names[i]) == length && strncasecmp(names[i], name, length) == 0) {
			return true;
		}
	}
	return false;
}

/*
 * Names the ini values of the configuration that neither PHP nor a loaded extension knows: PHP takes them without a word, and only
 * get_cfg_var() finds them.
 */
static void tell_unknown_names(void)
{
	static const char of_name[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
	for (const char *line = options.ini_entries; line && *line;) {
		size_t length = strspn(line, of_name);
		bool is_name = length && line[length] == '=' && !is_for_parser(line, length);
		if (is_name && !zend_hash_str_exists(EG(ini_directives), line, length)) {
			char text[300];
			int written = snprintf(text, sizeof text,
				"php.ini: %.*s is unknown: neither PHP nor an extension that is loaded has a setting of this name, so that only"
				" get_cfg_var() finds it; correct the name, or install the extension", (int)MIN(length, 100), line);
			host_log(LOG_WARNING, text, (size_t)written);
		}
		const char *end = strchr(line, '\n');
		line = end ? end + 1 : NULL;
	}
}

static bool start_php(char *program)
{
	if (!version_fits() || !set_basedir()) {
		return false;
	}
	if (options.ini_file && access(options.ini_file, R_OK) != 0) {
		main_fail("cannot read the ini file %s: %s", options.ini_file, strerror(errno));
		return false;
	}
	if (options.rewind) {
		rewind_prepare_malloc();
	}
	zend_signal_startup();
	choose_ini();
	/*
	 * PHP reads this once, when the memory manager starts. Its 2 MB chunks in huge pages save a page of WordPress 2 % of
	 * its CPU, for 1 MB of memory per worker. A value that the administrator has set stays.
	 */
	huge_set = !getenv("USE_ZEND_ALLOC_HUGE_PAGES") && setenv("USE_ZEND_ALLOC_HUGE_PAGES", "1", 1) == 0;
	sapi_millrace.executable_location = program;
	char *file = sapi_millrace.php_ini_path_override;
	sapi_startup(&sapi_millrace);
	/* sapi_startup empties them (main/SAPI.c). */
	sapi_millrace.php_ini_path_override = file;
	sapi_millrace.ini_entries = options.ini_entries;
	if (sapi_millrace.startup(&sapi_millrace) == FAILURE) {
		main_fail("its startup failed");
		return false;
	}
	tell_unknown_names();
	temp_use(options.temp_base);
	return true;
}
