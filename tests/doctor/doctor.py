"""Asking the doctor, and load while it looks."""

import contextlib
import http.client
import json
import subprocess
import threading
import time

import rig

# The checks of nginx and php-fpm: other tests may run some on this machine.
WEB = {
    "fpm-children", "fpm-queue", "fpm-log-children", "fpm-slow", "nginx-connections", "nginx-descriptors", "nginx-log-limit", "nginx-upstream-full",
    "nginx-upstream-late",
}
# What other programs of the machine can cause while the test runs: true findings, but not of the test.
OTHERS = WEB | {
    "cpu-busy", "cpu-steal", "cpu-iowait", "disk-busy", "disk-stall", "memory-stall", "memory-low", "net-softirq-budget",
    "log-out-of-memory", "log-segfault", "log-syn-flood",
}
SECONDS = 2


def examine(server, site=None, prefix=(), seconds=SECONDS):
    """What `millrace doctor --json` says of a server, and of the site in a folder."""
    command = [*prefix, rig.program("millrace"), "doctor", *([site] if site else []), "--json", "--seconds", str(seconds), "--admin", f"unix:{server.admin}"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(f"millrace doctor ended with {done.returncode}: {done.stderr}{done.stdout[:500]}")
    report = json.loads(done.stdout)
    has_errors = any(found["severity"] == "error" for found in report["findings"])
    if has_errors != (done.returncode == 1):
        raise RuntimeError(f"exit status {done.returncode} with {short(report)}")
    return report


def own(report, others):
    """The findings that are not of other programs."""
    return [found for found in report["findings"] if found["id"] not in others]


def short(report):
    """The findings in one line."""
    return "; ".join(f"{found['severity']}[{found['id']}] {found['what']} {found['evidence']}" for found in report["findings"]) or "nothing"


def first_is(report, name, *cure, others=OTHERS):
    """Why the first finding is not this one with this in its cure; empty if it is."""
    found = own(report, others)
    if not found or found[0]["id"] != name:
        blind = [entry for entry in report["could_not_look"] if entry["id"] == name]
        return f"{name} is not the first finding: {short(report)} {blind or ''}"
    missing = [word for word in cure if word not in found[0]["cure"] + found[0]["what"]]
    return f"{missing} not in {found[0]}" if missing else ""


def is_gone(report, name):
    """Why this check is not well; empty if it is."""
    return "" if name in report["well"] else f"after the cure, {name} is not well: {short(report)}"


def until(examined, wrong, seconds=20):
    """Examines until nothing is wrong, and looks twice as long each time: a cure takes a moment to work, and a busy machine takes few samples. What is
    wrong at the end."""
    end, look = time.monotonic() + seconds * rig.PATIENCE, SECONDS
    while (why := wrong(examined(look))) and time.monotonic() < end:
        look = min(2 * look, 16)
    return why


@contextlib.contextmanager
def load(port, path="/", clients=4, pause=0.0):
    """Clients that request a page one time after the other until the end; `path` may have {} for a number that is always another."""
    over, numbers = threading.Event(), iter(range(10**9))

    def client():
        while not over.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                for _ in range(50):
                    if over.is_set():
                        break
                    connection.request("GET", path.format(next(numbers)))
                    connection.getresponse().read()
                    over.wait(pause)
                connection.close()
            over.wait(0.01)

    threads = [threading.Thread(target=client, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(40)
