"""What evil scripts do, and for each what its own client gets. What the others notice is the same for all: nothing (see run)."""

from dataclasses import dataclass, field

# Calls into the C library. Only where ffi.enable is set, as here: by that a script can do to its worker what a broken or
# hostile extension could.
FFI = '$c = FFI::cdef("int close(int); long write(int, const void *, size_t); void _exit(int); void abort(void); int fork(void); int setsid(void);'
FFI += ' typedef void (*handler)(int); handler signal(int, handler); int sigfillset(void *); int sigprocmask(int, const void *, void *); unsigned alarm(unsigned);'
FFI += ' void *malloc(size_t); void *memset(void *, int, size_t); int dup(int); int dup2(int, int); int open(const char *, int); int pause(void);");\n'

CUT = "broken"  # the answer ends early, and its framing shows that


@dataclass
class Evil:
    """One script. `gets`: what its client may get: a status, or that the answer is cut off."""

    name: str
    code: str
    gets: tuple
    # How many at once where there are several workers.
    times: int = 1
    # It ends workers of others, by a signal as the same user. A request that can be repeated is; a POST can't: 502.
    kills: bool = False
    # What the log has to say.
    log: str = ""
    ini: dict = field(default_factory=dict)
    # The client that asks for it doesn't read the answer, or leaves at once.
    reads: bool = True
    leaves: bool = False


def at_end(code):
    return f"register_shutdown_function(function () {{ {code} }});"


# An endless loop, in PHP and in C, and everywhere else that PHP runs something.
LOOPS = [
    Evil("endless loop", "set_time_limit(0); while (true) { }", (504,), times=3, log="endless-loop.php"),
    Evil("endless loop, whose client has left", "ignore_user_abort(true); set_time_limit(0); while (true) { }", (None,), times=3, leaves=True),
    Evil("endless loop in C", "set_time_limit(0); hash_pbkdf2('sha512', 'a', 'b', 2000000000);", (504,), times=2),
    Evil("a pattern that backtracks", "ini_set('pcre.jit', 0); ini_set('pcre.backtrack_limit', PHP_INT_MAX >> 32); preg_match('/(?:\\D+|<\\d+>)*[!?]/', str_repeat('foobar ', 30)); while (true) { }", (504,)),
    Evil("a shutdown function that never ends", at_end("set_time_limit(0); while (true) { }") + "echo 'said';", (504, CUT, 200)),
    Evil("a destructor that never ends", "class D { function __destruct() { set_time_limit(0); while (true) { } } } $d = new D; echo 'said';", (504, CUT, 200)),
    Evil("a loop that no signal ends", FFI + "for ($i = 1; $i < 64; $i++) $c->signal($i, FFI::cast($c->type('handler'), 1)); $set = FFI::new('char[128]'); $c->sigfillset($set); $c->sigprocmask(0, $set, null); set_time_limit(0); while (true) { }", (504,)),
    Evil("sleep", "sleep(3600);", (504,), times=3),
    Evil("sleep behind the answer", "echo 'said'; fastcgi_finish_request(); sleep(3600);", (200,), times=3),
    Evil("sleep in C", FFI + "while (true) $c->pause();", (504,)),
]  # fmt: skip

# Memory, its own and what PHP doesn't count; output; descriptors.
GREED = [
    Evil("memory beyond memory_limit", "$a = []; while (true) $a[] = str_repeat('x', 1 << 20);", (500, 504), times=3, log="memory-beyond-memory-limit.php"),
    Evil("memory that PHP doesn't count", FFI + "$m = $c->malloc(700 << 20); $c->memset($m, 1, 700 << 20); echo 'had it';", (200, 500, 502, 504)),
    Evil("a huge picture", "$p = imagecreatetruecolor(12000, 12000); imagefilledrectangle($p, 0, 0, 11999, 11999, 255); echo imagesx($p ?: imagecreate(1, 1));", (200, 500, 502, 504)),
    Evil("all descriptors", "$a = []; while ($f = @fopen('/dev/null', 'r')) $a[] = $f; echo count($a);", (200, 500)),
    Evil("all descriptors, in C", FFI + "while ($c->dup(0) >= 0); echo 'all'; include 'other.php';", (200, 500, 502)),
    Evil("a recursion of PHP", "function f($a) { return f([$a]) . 'x'; } f(1);", (500, 502, 504), times=2),
    Evil("a recursion of C", "function f() { array_map('f', [1]); } ini_set('memory_limit', -1); f();", (500, 502), log="a-recursion-of-C.php"),
    Evil("many and long fields", "for ($i = 0; $i < 200000; $i++) header(\"X-$i: \" . str_repeat('y', 1000)); echo 'said';", (500, 502, 504)),
    Evil("a log full of noise", "for ($i = 0; $i < 20000; $i++) error_log(str_repeat('noise ', 100)); echo 'said';", (200, 504)),
    # A worker whose standard error another one of these has closed has none.
    Evil("standard error full of noise", "$e = @fopen('php://stderr', 'w') or exit('none'); for ($i = 0; $i < 20000; $i++) fwrite($e, str_repeat('noise ', 20)); echo 'said';", (200, 504)),
    Evil("nobody reads its output", "set_time_limit(0); for ($i = 0; $i < 1 << 20; $i++) echo str_repeat('x', 65536);", (CUT, 200), reads=False, times=3),
    Evil("its client leaves its output", "ignore_user_abort(true); set_time_limit(0); while (true) { echo str_repeat('x', 65536); }", (None,), leaves=True, times=3),
]  # fmt: skip

# The worker ends, or is made useless.
DEATHS = [
    Evil("segmentation fault", "FFI::cdef('void *memset(void *, int, size_t);')->memset(FFI::cast('void *', 8), 1, 8);", (502, 500), times=2, log="SIGSEGV"),
    Evil("abort", FFI + "$c->abort();", (502, 500), log="SIGABRT"),
    Evil("exit in C", FFI + "$c->_exit(0);", (502, 500)),
    Evil("exit in C behind the answer", FFI + "echo 'said'; fastcgi_finish_request(); $c->_exit(3);", (200,)),
    Evil("kill itself", "posix_kill(getmypid(), SIGKILL_);", (502, 500), times=2),
    Evil("stop itself", "posix_kill(getmypid(), 19); echo 'went on';", (200, 504)),
    Evil("an output callback that dies", "ob_start(function ($b) { posix_kill(getmypid(), SIGKILL_); return $b; }); echo 'x';", (502, 500)),
    Evil("an output callback that throws", "ob_start(function ($b) { throw new Exception('no'); }); echo 'x';", (500, 200, CUT)),
    Evil("an output callback that starts another", "ob_start(function ($b) { ob_start(); return 'y'; }); echo 'x';", (500, 200, CUT)),
    Evil("an alarm for the next request", FFI + "$c->alarm(1); echo 'said';", (200,), kills=True),
    Evil("close all descriptors", FFI + "for ($i = 0; $i < 1024; $i++) $c->close($i); echo 'said';", (502, 500)),
    Evil("close all descriptors and go on", FFI + "for ($i = 0; $i < 1024; $i++) $c->close($i); set_time_limit(0); while (true) { }", (502, 500)),
    Evil("close descriptors by name", "foreach (scandir('/proc/self/fd') as $n) { if (($f = @fopen(\"php://fd/$n\", 'r+')) || ($f = @fopen(\"/proc/self/fd/$n\", 'r+'))) fclose($f); } echo 'said';", (200,)),
    Evil("close descriptors behind the answer", FFI + "echo 'said'; fastcgi_finish_request(); for ($i = 0; $i < 1024; $i++) $c->close($i); set_time_limit(0); while (true) { }", (200,)),
    Evil("another descriptor in each place", FFI + "$n = $c->open('/dev/zero', 2); for ($i = 0; $i < 64; $i++) $c->dup2($n, $i); echo 'said';", (502, 500, 504)),
]  # fmt: skip

FRAME = "pack('VCCv', %s, %s, %s, %s)"


def to_all(data, count=1):
    """Writes into each descriptor above those of the standard streams."""
    return FFI + f"$data = {data}; for ($n = 0; $n < {count}; $n++) for ($i = 3; $i < 64; $i++) $c->write($i, $data, strlen($data));"


# Words to the server that no worker of ours would say.
LIES = [
    Evil("garbage for the server", to_all("random_bytes(4096)") + "sleep(5);", (502,), log="invalid data"),
    Evil("garbage behind the answer", "echo 'said'; fastcgi_finish_request();" + to_all("random_bytes(4096)"), (200, 502)),
    Evil("garbage in the answer", "ob_end_flush(); echo str_repeat('x', 100000); flush(); usleep(50000);" + to_all("random_bytes(4096)") + "sleep(5);", (CUT,)),
    Evil("a frame of 4 GB", to_all(FRAME % ("0xfffffff0", 17, 0, 0)) + "sleep(5);", (502,)),
    Evil("content before a head", to_all(FRAME % (4, 17, 0, 0) + ". 'evil'") + "sleep(5);", (502,)),
    Evil("an end without an answer", to_all(FRAME % (8, 18, 1, 0) + ". str_repeat(chr(0), 8)") + "sleep(5);", (502,), kills=True),
    Evil("a head in the middle of the answer", "ob_end_flush(); echo str_repeat('x', 100000); flush(); usleep(50000);" + to_all(FRAME % (4, 16, 0, 200) + ". str_repeat(chr(0), 4)") + "sleep(5);", (CUT,)),
    Evil("a million notes", to_all("str_repeat(" + FRAME % (2, 21, 0, 1) + ". '/x', 4000)", 30) + "echo 'said';", (200, 502, 504)),
    Evil("half a frame", to_all(FRAME % (1000, 17, 0, 0)) + "sleep(3600);", (502, 504)),
]  # fmt: skip

# The host and the other workers: the same user may send them any signal.
SIGNALS = [
    Evil(f"signal {number} for the host", f"posix_kill(posix_getppid(), {number}); echo 'said';", (200, 502), times=2)
    for number in (1, 2, 3, 6, 9, 10, 11, 12, 13, 14, 15, 17, 19, 20)
] + [
    Evil("the host is killed again and again", "for ($i = 0; $i < 20; $i++) { posix_kill(posix_getppid(), SIGKILL_); usleep(10000); } echo 'said';", (200, 502)),
    Evil("all workers are killed", "WORKERS foreach ($workers as $w) posix_kill($w, SIGKILL_); echo 'said';", (200, 502), kills=True),
    Evil("all workers are told to end", "WORKERS foreach ($workers as $w) posix_kill($w, 15); echo 'said';", (200, 502), kills=True),
    Evil("all workers are stopped", "WORKERS foreach ($workers as $w) posix_kill($w, 19); echo 'said';", (200, 502)),
    Evil("host and workers at once", "posix_kill(0, SIGKILL_);", (502, 200), kills=True),
    Evil("host and workers are stopped at once", "posix_kill(0, 19); echo 'said';", (200, 502, 504)),
]  # fmt: skip

# Processes that outlive their script.
CHILDREN = [
    Evil("a program in the background", "exec('sleep 40 >/dev/null 2>&1 &'); echo 'said';", (200,), times=3),
    Evil("a program that keeps its descriptors", "proc_open(['sleep', '40'], [], $pipes); echo 'said'; posix_kill(getmypid(), SIGKILL_);", (502, 500, CUT)),
    Evil("a fork that goes on", FFI + "if ($c->fork() == 0) { sleep(4); } echo 'said';", (200, 502)),
    Evil("a fork that outlives its worker", FFI + "if ($c->fork() == 0) { sleep(40); } else { posix_kill(getmypid(), SIGKILL_); }", (502, 500, 504)),
    Evil("a fork that talks in the worker's place", FFI + "$c->fork(); $c->fork(); echo str_repeat(getmypid() . ' ', 50000); flush(); usleep(100000); echo 'said';", (200, CUT, 502)),
]  # fmt: skip

# What the next script finds: state.php must see a process as new.
TRACES = [
    Evil("traces of PHP's own functions",
         "chdir('/tmp'); umask(0); setlocale(LC_ALL, 'C.UTF-8', 'en_US.UTF-8'); putenv('PATH=/evil'); putenv('EVIL=1'); date_default_timezone_set('Asia/Tokyo'); mb_internal_encoding('EUC-JP');"
         " error_reporting(0); set_error_handler('strlen'); set_exception_handler('strlen'); libxml_use_internal_errors(true); stream_wrapper_unregister('file'); define('EVIL', 1); ignore_user_abort(true); set_time_limit(1);"
         " ini_set('precision', 3); ini_set('memory_limit', '9M'); ini_set('include_path', '/evil'); spl_autoload_register('strlen'); ob_start(); ob_start(); function evil() {} mt_srand(1); header('X-Evil: 1'); http_response_code(503); session_id('evil'); @mysqli_report(0); $GLOBALS['evil'] = 1;",
         (503,), times=3),
    Evil("limits of the process", "foreach ([POSIX_RLIMIT_NOFILE => 4, POSIX_RLIMIT_FSIZE => 0, POSIX_RLIMIT_CORE => 0, POSIX_RLIMIT_STACK => 65536] as $what => $most) posix_setrlimit($what, $most, $most); echo 'said';", (200, 500, 502, CUT), times=3),
    Evil("a limit of processor time", "posix_setrlimit(POSIX_RLIMIT_CPU, 1, 1); echo 'said';", (200,), times=3),
    Evil("the least priority", "proc_nice(19); echo 'said';", (200,), times=3),
    Evil("another session and group", "posix_setsid(); posix_setpgid(0, 0); echo 'said';", (200,), times=3),
]  # fmt: skip

ALL = LOOPS + GREED + DEATHS + LIES + SIGNALS + CHILDREN + TRACES

WORKERS = "$workers = []; foreach (glob('/proc/[0-9]*') as $p) { if (preg_match('/\\) . ' . posix_getppid() . ' /', (string) @file_get_contents(\"$p/stat\")) && ($w = (int) basename($p)) != getmypid()) $workers[] = $w; }"


def file_of(evil):
    """The script's name in the site."""
    return "".join(c if c.isalnum() else "-" for c in evil.name) + ".php"


def text_of(evil):
    return "<?php\n" + evil.code.replace("SIGKILL_", "9").replace("WORKERS", WORKERS)
