"""What every scenario shares: a folder with a site, servers on it, and a verdict for each story.

A scenario is a Python file named by its room. Each of its stories is a function of a `Stage`; it starts what it needs and
raises `Wrong`, by `check` or `same`, if something is not as it should be. The last line is `tell(story, ...)`.
"""

import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
import h2wire  # noqa: E402
import raw  # noqa: E402
import rig  # noqa: E402
from rig import text_of, wait_for  # noqa: E402, F401

# How the stories' requests go: over TCP, or by HTTP/1.1 over TLS ("tls"), or by HTTP/2 over TLS ("h2"). Many stories are true of all.
OVER = os.environ.get("SCENARIO_OVER", "")
Wire = {"": raw.Wire, "tls": h2wire.SecureWire, "h2": h2wire.Wire}[OVER]


# What becomes of the addresses of a configuration there.
PLAIN = '[server]\nlisten = ["127.0.0.1:PORT"]\n'
ENCRYPTED = '[https]\nlisten = ["127.0.0.1:PORT"]\nself_signed = true\n[server]\nlisten = ["127.0.0.1:0"]\n'


class Wrong(Exception):
    """An expectation that did not hold."""


class NotHere(Exception):
    """This machine can't play the story."""


def needs(condition, why):
    """Raises `NotHere` if the condition doesn't hold: the story is skipped."""
    if not condition:
        raise NotHere(why)


def needs_root():
    needs(os.geteuid() == 0, "only root can play it")


def check(condition, why):
    """Raises `Wrong` if the condition doesn't hold."""
    if not condition:
        raise Wrong(why)


def same(found, expected, what=""):
    """Raises `Wrong` if the two differ."""
    if found != expected:
        raise Wrong(f"{what or 'found'}: {shown(found)} instead of {shown(expected)}")


def shown(value):
    """A value as Python writes it; of a long one the beginning and the end."""
    text = repr(value)
    return text if len(text) <= 1000 else f"{text[:600]} [of {len(text)} characters] {text[-300:]}"


class Stage:
    """A scratch folder for one story, with the folder of a site in it."""

    def __init__(self, folder):
        self.folder, self.site, self.servers = Path(folder), Path(folder) / "site", []
        self.site.mkdir()
        self.skipped = {}

    def has(self, condition, part, why):
        """Whether a part of the story can be played here; says at its end that it was not."""
        if not condition:
            self.skipped[part] = why
        return condition

    def put(self, name, content="", mode=None):
        """Writes a file below the site; its path."""
        path = self.site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        if mode is not None:
            path.chmod(mode)
        return path

    def script(self, name, code):
        """Writes a PHP script."""
        return self.put(name, "<?php\n" + code)

    def serve(self, php=False, settings=None, prefix=()):
        """Millrace on the site, as plain PHP or files; use it in a `with` statement."""
        port, admin = rig.free_port(), self.folder / "admin.sock"
        # Stories have scripts leave marks beside the site.
        pool = {"php.workers": 4, "php.folders": self.folder} if php else {"php.enabled": "false"}
        chosen = {"admin.listen": f"unix:{admin}", "server.threads": 2, "cache.dir": "off", **pool, **(settings or {})}
        command = [*prefix, rig.program("millrace"), "serve", self.site, "--listen", f"127.0.0.1:{port}", "--profile", "generic"]
        for name, value in chosen.items():
            command += ["--set", f"{name}={value}"]
        return self.start(command + (["--tls-self-signed"] if OVER else []), port)

    def serve_config(self, text, php=False):
        """Millrace with a configuration file, into which PORT, FOLDER and SITE are filled in."""
        port, config = rig.free_port(), self.folder / "millrace.toml"
        if OVER:
            text = text.replace(PLAIN, ENCRYPTED)
        extra = f'[admin]\nlisten = "unix:{self.folder}/admin.sock"\n' + ("" if php else "[php]\nenabled = false\n")
        self.fill = lambda text: text.replace("PORT", str(port)).replace("FOLDER", str(self.folder)).replace("SITE", str(self.site)) + extra
        config.write_text(self.fill(text))
        # Pages are kept on disk only where the story says so.
        keeps = [] if "dir =" in text else ["--set", "cache.dir=off"]
        keeps += ["--set", f"php.folders={self.folder}"]
        server = self.start([rig.program("millrace"), "serve", "--config", config, *keeps], port)
        server.config = config
        return server

    def start(self, command, port):
        """Starts a server and waits for its port, without a request: stories count them. The first waits in the queue."""
        server = rig.Process(command, self.folder / "millrace.log")
        server.port, server.address, server.admin = port, ("127.0.0.1", port), self.folder / "admin.sock"
        self.servers.append(server)
        server.await_up(lambda: rig.answers(server.address), 30)
        return server


def request(target="/", method="GET", fields=(), body=None, host="a.test", version="1.1"):
    """The bytes of a request; `Host` comes first unless it is None, and `body` brings its Content-Length."""
    lines = [f"{method} {target} HTTP/{version}"] + ([] if host is None else [f"Host: {host}"]) + list(fields)
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (body or b"")


def ask(server, target="/", method="GET", fields=(), timeout=30.0, **parts):
    """One request on a connection of its own; None if there was no answer."""
    data = request(target, method, [*fields, "Connection: close"], **parts)
    with Wire(server.address, timeout) as wire:
        wire.send(data)
        return wire.answer(method)


def command(server, *words):
    """A command of Millrace's, for this server; its status, output and errors."""
    line = [rig.program("millrace"), *words, "--admin", f"unix:{server.admin}"]
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def admin(server, target="/status.json", method="GET", body=None):
    """One request on the admin address, which is there a moment after the port."""
    data = request(target, method, ["Connection: close"], host="localhost", body=body)
    end = time.monotonic() + 30
    while True:
        try:
            return raw.once(str(server.admin), data, method)
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def status(server):
    """What the server says of itself."""
    return json.loads(admin(server).body)


def settle(server):
    """Waits until the server has done all that it had begun; see `rig.settle`."""
    rig.settle(server.admin)


def settles(server, condition):
    """Whether the condition becomes true in a few rounds, in each of which the server does what it had begun; see `rig.settles`."""
    return rig.settles(server.admin, condition)


def statuses(server, data, timeout=30.0):
    """Sends bytes and reads answers until the connection ends; their status codes, and "open" if it does not end."""
    with Wire(server.address, timeout) as wire:
        wire.send(data)
        found = []
        try:
            while (answer := wire.answer()) is not None:
                found.append(answer.status)
        except TimeoutError:
            found.append("open")
        return found


def logged(server, *words, times=1, patience=6):
    """Waits until the log has a line with all of these words, so many times: lines come a moment later
    than what they tell of. The whole log."""
    def lines():
        return [line for line in server.log.read_text().splitlines() if all(word in line for word in words)]
    check(wait_for(lambda: len(lines()) >= times, patience), f"the log does not say {words} {times} times:\n{server.log.read_text()}")
    return server.log.read_text()


def tell(*stories):
    """Plays the stories, or those named on the command line; exits with 0 if all are ok."""
    chosen, bad = sys.argv[1:], 0
    room = Path(sys.argv[0]).stem
    for story in stories:
        name = f"{room}/{story.__name__.replace('_', '-')}"
        if not chosen or name.partition("/")[2] in chosen:
            bad += not play(name, story)
    sys.exit(1 if bad else 0)


def play(name, story):
    """Plays one story and prints its verdict; whether it is good."""
    began = time.monotonic()
    with rig.scratch("scenario") as folder:
        stage, why, skips = Stage(folder), None, None
        try:
            story(stage)
            panics = [s for s in stage.servers if "panicked" in s.log.read_text(errors="replace")]
            check(not panics, "a panic is in the log")
        except Wrong as e:
            why = str(e)
        except NotHere as e:
            skips = str(e)
        except Exception as e:  # a connection that breaks, a server that doesn't start: a verdict like any other
            why = f"{type(e).__name__}: {e}\n" + commented(traceback.format_exc().splitlines()[-7:])
        finally:
            for server in stage.servers:
                server.stop(seconds=3)
        if why:
            logs = [line for s in stage.servers for line in s.log.read_text(errors="replace").splitlines()[-8:]]
            why += "\n" + commented(logs)
    took = time.monotonic() - began
    print(f"not ok {name}: {why}" if why else f"skipped {name}: {skips}" if skips else f"ok {name} # {took:.1f} s", flush=True)
    for part, reason in stage.skipped.items():
        print(f"skipped {name}: {part}: {reason}", flush=True)
    return not why


def commented(lines):
    return "\n".join(f"#   {line}" for line in lines)


if os.environ.get("SCENARIO_TRACE"):
    # Where a story hangs: SCENARIO_TRACE=SECONDS prints the stack; the story goes on, so that its servers are ended.
    import faulthandler

    faulthandler.dump_traceback_later(float(os.environ["SCENARIO_TRACE"]))
