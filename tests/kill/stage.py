"""What the tests of this folder share: a site of scripts that are slow, greedy or deadly, clients that wait in the
background, and ways to find out whether PHP's pool is whole."""

import os
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import raw  # noqa: E402
import rig  # noqa: E402

WORKERS = 4
SCRIPTS = {
    # Says which process runs it, after some microseconds.
    "pid.php": "usleep((int) ($_GET['us'] ?? 0)); echo getmypid();",
    # Leaves its process id in the file `began`, perhaps sends a beginning, sleeps, and answers.
    "slow.php": "file_put_contents('BEGAN', getmypid() . \"\\n\", FILE_APPEND | LOCK_EX); if (isset($_GET['early'])) { echo 'early'; flush(); } usleep(1000 * (int) $_GET['ms']); echo 'done';",
    # The same, until the file `go` is there.
    "held.php": "file_put_contents('BEGAN', getmypid() . \"\\n\", FILE_APPEND | LOCK_EX); while (!file_exists('GO')) { usleep(10000); clearstatcache(); } echo 'done';",
    # The same, and only its first run takes its time.
    "first.php": "file_put_contents('BEGAN', getmypid() . \"\\n\", FILE_APPEND | LOCK_EX); if (count(file('BEGAN')) == 1) { sleep(60); } echo 'done';",
    # Kills itself.
    "deadly.php": "file_put_contents('BEGAN', getmypid() . \"\\n\", FILE_APPEND | LOCK_EX); if (isset($_GET['early'])) { echo 'early'; flush(); } posix_kill(getmypid(), (int) $_GET['signal']); sleep(5);",
    # Goes on writing until the client has gone, and notes that it noticed.
    "writer.php": "register_shutdown_function(fn() => file_put_contents('BEGAN', 'aborted ' . connection_aborted() . \"\\n\", FILE_APPEND)); for ($i = 0; $i < 12000; $i++) { echo str_repeat('x', 1000); flush(); usleep(5000); }",
    # Goes on after the client has gone.
    "ignore.php": "ignore_user_abort(true); for ($i = 0; $i < 60; $i++) { echo str_repeat('x', 1000); flush(); usleep(5000); } file_put_contents('BEGAN', \"went on\\n\", FILE_APPEND);",
    "endless.php": "set_time_limit(0); while (true) { }",
    "big.php": "for ($i = 0; $i < 16 * (int) $_GET['mb']; $i++) { echo str_repeat('y', 65536); }",
    "body.php": "echo strlen(file_get_contents('php://input'));",
}


class Stage:
    """A folder with the site; `serve` starts Millrace on it."""

    def __init__(self, folder):
        self.folder, self.site, self.began, self.go = Path(folder), Path(folder) / "site", Path(folder) / "began", Path(folder) / "go"
        self.site.mkdir(exist_ok=True)
        self.began.write_text("")
        for name, code in SCRIPTS.items():
            (self.site / name).write_text("<?php " + code.replace("BEGAN", str(self.began)).replace("GO", str(self.go)) + "\n")
        (self.site / "plain.txt").write_text("plain\n")
        (self.site / "large.bin").write_bytes(b"z" * (24 << 20))
        self.ini = rig.php_ini(self.folder / "php.ini", ["display_errors=0"])

    def serve(self, settings=None, **options):
        """Millrace with a pool of four workers, all started, unless the settings say otherwise. On a busy machine fewer requests may run at once: not here,
        where all have to be seen at work."""
        chosen = {"php.adaptive": "false", "php.workers": WORKERS, "php.workers_start": WORKERS, "php.workers_spare": WORKERS, "server.threads": 2, **(settings or {})}
        server = rig.Millrace(self.folder, self.site, profile="generic", ini=self.ini, settings=chosen, **options)
        server.stage = self
        return server

    def began_lines(self, count=1, seconds=5):
        """The lines of the file that scripts write to, once there are `count`."""
        rig.wait_for(lambda: len(self.began.read_text().split("\n")) > count, seconds)
        return self.began.read_text().split("\n")[:-1]


class Wrong(Exception):
    """An expectation that did not hold."""


def check(condition, why):
    """Raises `Wrong` if the condition doesn't hold."""
    if not condition:
        raise Wrong(why)


def get(port, target, method="GET", fields=(), timeout=30.0):
    """One request on a connection of its own; None if the connection ended without an answer."""
    lines = [f"{method} {target} HTTP/1.1", "Host: a.test", "Connection: close", *fields]
    return raw.once(("127.0.0.1", port), ("\r\n".join(lines) + "\r\n\r\n").encode(), method, timeout)


class Later(threading.Thread):
    """A request in the background; `outcome` is its status, "none", or how the answer broke off."""

    def __init__(self, port, target, **options):
        super().__init__(daemon=True)
        self.work, self.outcome, self.body, self.seconds = (port, target, options), None, b"", 0.0
        self.start()

    def run(self):
        port, target, options = self.work
        begin = time.monotonic()
        try:
            answer = get(port, target, **options)
            self.outcome, self.body = (answer.status, answer.body) if answer else ("none", b"")
        except raw.Broken as e:
            self.outcome = f"broken: {e}"
        except OSError as e:
            self.outcome = f"failed: {e}"
        self.seconds = time.monotonic() - begin

    def result(self, seconds=40):
        """Waits; the outcome, or "hangs"."""
        self.join(seconds)
        return "hangs" if self.is_alive() else self.outcome


def php_host(server):
    """Process id of the host: the child that has the workers."""
    hosts = [p for p in rig.children(server.pid) if "millrace-php" in rig.command_of(p) and parent_of(p) == server.pid]
    check(len(hosts) == 1, f"{len(hosts)} PHP hosts")
    return hosts[0]


def php_workers(server):
    """Process ids of the workers."""
    return [p for p in rig.children(php_host(server)) if rig.name_of(p) == "php-worker"]


def parent_of(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def alive(pid):
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def check_whole(server, seconds=30.0, workers=WORKERS):
    """Checks that within `seconds` all workers answer at the same time."""
    end, seen = time.monotonic() + seconds, None
    while True:
        begin = time.monotonic()
        requests = [Later(server.port, "/pid.php?us=150000") for _ in range(workers)]
        seen = [r.result() for r in requests], {r.body for r in requests}
        if seen[0] == [200] * workers and len(seen[1]) == workers:
            return
        check(begin < end, f"after {seconds} s the pool is not whole: {seen}")


def descriptors(server):
    """How many descriptors the server's process has open."""
    return len(os.listdir(f"/proc/{server.pid}/fd"))


def check_calm(server):
    """Checks that the log tells of no panic."""
    log = server.log.read_text(errors="replace")
    check("panicked" not in log, f"a panic is in the log:\n{log[-2000:]}")
