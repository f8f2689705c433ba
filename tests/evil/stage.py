"""A server with four sites: the evil one, one in the same PHP pool, one in a pool of its own, and a WordPress."""

import os
import pwd
import subprocess
import time
from pathlib import Path

import raw
import rig
import scripts
from neighbours import Street, head

# A user that nothing else on the machine runs as: evil scripts signal what they find of their own user.
USER = "games"
LIMIT = 1.0  # seconds that a script may take
CONFIG = """
[server]
listen = ["127.0.0.1:PORT"]
threads = 2
spool_dir = "FOLDER/spool"
[admin]
listen = "unix:FOLDER/admin.sock"
[http]
# A client that reads nothing holds its script up for so long.
send_timeout = "2s"
[cache]
dir = "off"
mode = "off"
[php]
workers = WORKERS
workers_start = WORKERS
workers_spare = WORKERS
request_timeout = "1s"
background_timeout = "1s"
time_limit_max = "1s"
terminate_grace = "300ms"
# All workers at once show that all are there.
adaptive = false
sandbox = "SANDBOX"
USER
[php.ini]
"ffi.enable" = true
"opcache.revalidate_freq" = 0
"pcre.jit" = true
display_errors = false
[[site]]
names = ["evil.test"]
default = true
root = "FOLDER/evil"
profile = "generic"
[[site]]
names = ["near.test"]
root = "FOLDER/near"
profile = "generic"
[[site]]
names = ["apart.test"]
root = "FOLDER/near"
profile = "generic"
[site.php]
workers = 2
workers_start = 1
workers_spare = 1
request_timeout = "20s"
[site.php.ini]
precision = 10
[[site]]
names = ["wp.test"]
root = "WORDPRESS"
profile = "wordpress"
[site.php]
workers = 2
workers_start = 1
workers_spare = 1
request_timeout = "20s"
"""
SITE = {
    "hello.php": "echo 'hello ', $_GET['n'];",
    "echo.php": "echo 'you said ', $_POST['text'];",
    "pid.php": "usleep((int) ($_GET['us'] ?? 0)); echo getmypid();",
    # All of the process that a script can see and another could have changed.
    "state.php": """
        $status = file_get_contents('/proc/self/status');
        preg_match_all('/^(Umask|SigBlk|SigIgn|Uid|Gid|Groups):.*/m', $status, $kept);
        $stat = explode(' ', preg_replace('/.*\\) /', '', file_get_contents('/proc/self/stat')));
        $env = array_map(fn($n) => getenv($n, true), ['EVIL', 'PATH', 'TZ', 'HOME', 'USER']); $ini = ini_get_all(null, false); foreach (array_keys($ini) as $n) if (preg_match('/temp|tmp|basedir/', $n)) unset($ini[$n]);
        echo json_encode([$kept[0], 'group' => $stat[2] != getmypid(), 'session' => $stat[3] != getmypid(), 'nice' => $stat[16], posix_getrlimit(), getcwd(), umask(), setlocale(LC_ALL, 0),
            date_default_timezone_get(), mb_internal_encoding(), error_reporting(), $env, crc32(json_encode($ini)), ob_get_level(), headers_list(), http_response_code(),
            libxml_use_internal_errors(), stream_get_wrappers(), spl_autoload_functions(), get_defined_constants(true)['user'] ?? 0, get_included_files(),
            function_exists('evil'), isset($GLOBALS['evil']), error_get_last(), connection_status(), ignore_user_abort(), session_id(), set_error_handler(null), set_exception_handler(null)]);""",
}


def together(port, host, target, count):
    """So many requests at the same moment; status and content of each answer."""
    wires = [raw.Wire(("127.0.0.1", port)) for _ in range(count)]
    for wire in wires:
        wire.send(head("GET", host, target, "Connection: close"))
    found = []
    for wire in wires:
        try:
            answer = wire.answer()
            found.append((answer.status, answer.body) if answer else (None, b""))
        except (OSError, raw.Broken) as e:
            found.append((str(e), b""))
        wire.close()
    return found


class Wrong(Exception):
    """An expectation that did not hold."""


def check(condition, why):
    """Raises `Wrong` if the condition doesn't hold."""
    if not condition:
        raise Wrong(why)


def wordpress(folder):
    """A WordPress with SQLite in `folder`; it never asks itself for something."""
    root = Path(folder) / "wordpress"
    command = [rig.program("millrace"), "new", "wordpress", root, "--db", "sqlite", "--url", "http://wp.test", "--title", "The other site"]
    if os.environ.get("WORDPRESS_FROM"):
        command += ["--from", os.environ["WORDPRESS_FROM"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    check(done.returncode == 0, f"no WordPress: {done.stdout}{done.stderr}")
    config = root / "wp-config.php"
    config.write_text(config.read_text().replace("<?php", "<?php\ndefine('DISABLE_WP_CRON', true); define('WP_HTTP_BLOCK_EXTERNAL', true);\n", 1))
    if owner():
        subprocess.run(["chown", "-R", USER, root], check=True)
    return root


def owner():
    """The user that PHP runs as: another than ours, where we may choose."""
    return USER if os.geteuid() == 0 and USER in {u.pw_name for u in pwd.getpwall()} else None


class Stage:
    """A folder with the sites, and Millrace on them."""

    def __init__(self, folder, root, workers, sandbox):
        self.folder, self.workers, self.sandbox = Path(folder), workers, sandbox
        for name in ("evil", "near", "spool"):
            (self.folder / name).mkdir(parents=True)
        for name, code in SITE.items():
            (self.folder / "near" / name).write_text("<?php " + code + "\n")
        (self.folder / "near/file.txt").write_text("a file\n")
        for evil in scripts.ALL:
            (self.folder / "evil" / scripts.file_of(evil)).write_text(scripts.text_of(evil))
        if owner():
            subprocess.run(["chown", "-R", USER, self.folder / "evil"], check=True)
        self.port = rig.free_port()
        user = f'user = "{owner()}"' if owner() else ""
        text = CONFIG
        for name, value in {"WORKERS": workers, "SANDBOX": "on" if sandbox else "off", "USER": user, "PORT": self.port, "FOLDER": self.folder, "WORDPRESS": root}.items():
            text = text.replace(name, str(value))
        (self.folder / "millrace.toml").write_text(text)
        self.server = rig.Process([rig.program("millrace"), "serve", "--config", self.folder / "millrace.toml"], self.folder / "millrace.log")
        self.server.await_up(lambda: (self.folder / "admin.sock").exists() and rig.serves(self.port), 30)
        # The first page of a WordPress takes longest.
        self.get("/", "wp.test", 60)
        state = self.get("/state.php", "near.test").body
        self.street = Street(self.port, state)

    def get(self, target, host="near.test", timeout=30.0):
        """One request on a connection of its own."""
        return raw.once(("127.0.0.1", self.port), head("GET", host, target, "Connection: close"), timeout=timeout)

    def log(self):
        return (self.folder / "millrace.log").read_text(errors="replace")

    def whole(self, seconds=20):
        """Checks that within that time all workers of the evil pool answer at the same time."""
        end = time.monotonic() + seconds
        while True:
            begin = time.monotonic()
            found = together(self.port, "near.test", "/pid.php?us=60000", self.workers)
            if len({body for status, body in found if status == 200}) == self.workers:
                return
            check(begin < end, f"after {seconds} s the pool is not whole: {found}")

    def stop(self):
        self.street.stop()
        return self.server.stop(seconds=40)
