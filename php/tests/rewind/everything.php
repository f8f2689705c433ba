<?php
/** All that a request could find of the one before it. Part of the boot of the leak hunt's site (leaks.rs). */
final class Everything
{
    public static $of_class = 0;
    public $list = [];
    private static ?FFI $libc = null;

    public static function counted(): int
    {
        static $calls = 0;
        return ++$calls;
    }

    /** From PHP 8.3 on some functions warn; that must not be the last error. */
    private static function without_warning(callable $function): mixed
    {
        set_error_handler(static fn () => true);
        try {
            return $function();
        } finally {
            restore_error_handler();
        }
    }

    public static function libc(): FFI
    {
        return self::$libc ??= FFI::cdef('
            typedef struct { long interval[2]; long value[2]; } timer;
            extern int opterr;
            int getitimer(int which, timer *value); int setitimer(int which, timer *value, timer *old); unsigned alarm(unsigned seconds);
            void *signal(int number, void *handler); int sigprocmask(int how, unsigned long *set, void *old);
            int setenv(const char *name, const char *value, int over); int open(const char *path, int flags);
            unsigned umask(unsigned mask);
            void *mmap(void *at, size_t bytes, int protection, int flags, int file, long offset);
            void *sbrk(long bytes); void *malloc(size_t bytes); void free(void *bytes);
            void *dlsym(void *library, const char *name); int fork(void); int waitpid(int child, int *status, int flags); void _exit(int status);
            int pthread_create(unsigned long *thread, void *attributes, void *run, void *argument);');
    }

    /** Names and what is there now. */
    public static function look(): array
    {
        return self::of_php() + self::of_functions() + self::of_output() + self::of_streams() + self::of_extensions() + self::of_libc() + self::of_kernel();
    }

    /** What differs. */
    public static function difference(array $then, array $now): array
    {
        return array_keys(array_filter($now, fn ($value, $name) => $value !== $then[$name], ARRAY_FILTER_USE_BOTH));
    }

    private static function of_php(): array
    {
        ticks();
        return [
            'statics' => [self::$of_class, (new ReflectionMethod(self::class, 'counted'))->getStaticVariables(), count($GLOBALS['everything']->list), isset($GLOBALS['everything']->other)],
            'globals' => array_keys($GLOBALS),
            'ticked' => $GLOBALS['ticked'] ?? 0,
            'superglobals' => [$_GET, $_POST, $_COOKIE, $_FILES, array_keys($_SERVER)],
            'constants' => get_defined_constants(true)['user'] ?? [],
            'functions' => get_defined_functions()['user'],
            'classes' => [count(get_declared_classes()), array_slice(get_declared_classes(), -3), count(get_declared_interfaces())],
            'files' => get_included_files(),
            'extensions' => get_loaded_extensions(),
            'ini' => ini_get_all(null, false),
            'objects' => spl_object_id(new stdClass),
            'next resource' => get_resource_id(fopen('php://memory', 'r')),
            // The number of chunks of the heap depends on the requests before the boot.
            'memory' => [memory_get_usage() >> 18, memory_get_peak_usage() >> 20],
            'gc' => [gc_enabled(), gc_status()['runs'] ?? 0],
            'last error' => error_get_last(),
            'ignored abort' => [ignore_user_abort(), connection_status()],
            'realpath cache' => realpath_cache_size(),
        ];
    }

    private static function of_functions(): array
    {
        $error = set_error_handler(null);
        restore_error_handler();
        $exception = set_exception_handler(null);
        restore_exception_handler();
        return [
            'handlers' => [gettype($error), gettype($exception), error_reporting(), count(spl_autoload_functions())],
            'environment' => getenv(),
            'seeded' => in_array(mt_rand(), [895547922, 2141438069], true),
            'time zone' => date_default_timezone_get(),
            'assert' => self::without_warning(static fn () => [assert_options(ASSERT_ACTIVE), assert_options(ASSERT_CALLBACK)]),
            'last errors' => [preg_last_error(), json_last_error(), openssl_error_string(), function_exists('socket_last_error') ? socket_last_error() : 0],
            'strtok' => self::without_warning(static fn () => strtok(' ')),
        ];
    }

    private static function of_output(): array
    {
        return [
            'buffers' => ob_get_status(true),
            'headers' => [preg_grep('/^X-Boot:/', headers_list(), PREG_GREP_INVERT), http_response_code(), headers_sent()],
            'session' => [session_id(), session_name(), session_status(), session_save_path(), session_module_name(), session_get_cookie_params(), $_SESSION ?? 0],
            'rewriting' => output_reset_rewrite_vars() && ob_get_level(),
        ];
    }

    private static function of_streams(): array
    {
        return [
            'wrappers' => [stream_get_wrappers(), stream_get_filters(), stream_get_transports()],
            'contexts' => stream_context_get_options(stream_context_get_default()),
            'resources' => array_count_values(array_map('get_resource_type', get_resources())),
        ];
    }

    private static function of_extensions(): array
    {
        return [
            'mbstring' => [mb_internal_encoding(), mb_substitute_character(), mb_language(), mb_detect_order(), mb_http_output(), mb_regex_encoding()],
            'libxml' => [libxml_use_internal_errors(), libxml_get_errors(), libxml_get_last_error()],
            'iconv' => iconv_get_encoding('all'),
            'intl' => [Locale::getDefault(), intl_get_error_code()],
            'gettext' => textdomain(null),
        ];
    }

    private static function of_libc(): array
    {
        $timers = [];
        foreach ([0, 1, 2] as $which) {
            $timer = self::libc()->new('timer');
            self::libc()->getitimer($which, FFI::addr($timer));
            $timers[] = $timer->value[0] + $timer->value[1] > 0;
        }
        return ['locale' => [setlocale(LC_ALL, 0), localeconv(), sprintf('%.1f', 1.5)], 'C' => self::libc()->opterr, 'timers' => $timers];
    }

    private static function of_kernel(): array
    {
        $descriptors = [];
        foreach (scandir('/proc/self/fd') as $name) {
            $descriptors[$name] = is_link("/proc/self/fd/$name") ? readlink("/proc/self/fd/$name") : false;
        }
        preg_match_all('/^(?:Umask|State|Uid|Gid|Groups|Threads|Sig(?:Pnd|Blk|Ign|Cgt)|ShdPnd|Cap.*|NoNewPrivs|Seccomp):.*$/m', file_get_contents('/proc/self/status'), $status);
        preg_match_all('~ (/\S+)$~m', file_get_contents('/proc/self/maps'), $libraries);
        $stat = explode(' ', preg_replace('/^.*\) /', '', file_get_contents('/proc/self/stat')));
        return [
            'directory' => getcwd(),
            'descriptors' => array_filter($descriptors, fn ($target) => $target && !str_ends_with($target, '/fd')),
            'status' => $status[0],
            'libraries' => array_values(array_unique($libraries[1])),
            // Parent, group, session; priority and nice value.
            'stat' => array_slice($stat, 1, 3) + [15 => $stat[15], $stat[16]],
            'limits' => preg_replace('/ +/', ' ', file_get_contents('/proc/self/limits')),
            'children' => file_get_contents('/proc/thread-self/children'),
            'name' => file_get_contents('/proc/self/comm'),
        ];
    }
}

/** Runs the functions of register_tick_function(). */
function ticks(): void
{
    declare(ticks=1) {
        $x = 1;
    }
}

$everything = new Everything;
