"""What a site, its scripts and its visitors can do to harm others. Each act takes a few seconds at most, and cleans up after itself as far as the
next one needs it."""

import http.client
import os
import socket
import time
from pathlib import Path

ALL = {}
# Seconds that an act waits for a response: it does not care.
PATIENCE = 5


def act(function):
    ALL[function.__name__] = function
    return function


class Stage:
    """The rogue's site, and the server that it attacks."""

    def __init__(self, port, root, admin, pid):
        self.port, self.root, self.admin, self.pid = port, root, admin, pid
        self.played, self.refused = {}, {}

    def ask(self, path, method="GET", fields=None, content=None, patience=PATIENCE):
        """One request to the rogue's site; the status, or why there is none."""
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience)
            connection.request(method, path, content, {"Host": "rogue.test", **(fields or {})})
            response = connection.getresponse()
            response.read(1 << 20)
            connection.close()
            return response.status
        except OSError as error:
            return str(error)

    def do(self, what, patience=PATIENCE):
        """The rogue's script does something."""
        return self.ask(f"/rogue.php?do={what}", patience=patience)

    def crowd(self, count, path, **how):
        """Connections that ask and do not wait for the response."""
        sockets = []
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: rogue.test\r\n{how.get('fields', '')}\r\n".encode())
            sockets.append(connection)
        time.sleep(2)
        for connection in sockets:
            connection.close()

    def folder(self, name):
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        return folder

    def clean(self):
        for path in sorted(self.root.rglob("*"), reverse=True):
            if path.name not in ("small.txt", "index.php", "rogue.php") and not path.is_dir():
                path.unlink(missing_ok=True)


def replaced(path, make):
    path.unlink(missing_ok=True)
    make(path)


def with_file(name, make, target=None, folder="d"):
    """An act: a file of the site is something that blocks, and is asked for."""
    def play(stage):
        path = stage.folder(folder) / name
        replaced(path, make)
        stage.ask(target or f"/{folder}/{name}", patience=2)
        stage.ask(f"/{folder}/", patience=2)
        path.unlink(missing_ok=True)
    return play


BLOCKING = {"fifo": os.mkfifo, "kmsg": lambda path: path.symlink_to("/proc/kmsg"), "tty": lambda path: path.symlink_to("/dev/tty"), "zero": lambda path: path.symlink_to("/dev/zero")}
for kind, make in BLOCKING.items():
    for name in ("index.php", "index.html", ".htaccess", "wp-config.php", "page.txt", "script.php"):
        ALL[f"{kind}-as-{name.strip('.')}"] = with_file(name, make)


def with_htaccess(name, text, fields=None, path="/h/page.txt", count=1):
    def play(stage):
        folder = stage.folder("h")
        (folder / "page.txt").write_text("page")
        (folder / ".htaccess").write_text(text(stage) if callable(text) else text)
        for _ in range(count):
            stage.ask(path, fields=fields, patience=2)
        (folder / ".htaccess").unlink()
    ALL[name] = play


def passwords(target):
    def text(stage):
        path = stage.folder("h") / "passwords"
        replaced(path, BLOCKING[target])
        return f"AuthType Basic\nAuthName x\nAuthUserFile {path}\nRequire valid-user\n"
    return text


BASIC = {"Authorization": "Basic YTpi"}
BCRYPT = "a:$2y$10$Pn1xgqg5q1g2VYk2zLqKbOdJfCFcVnZyUqzv1Yk2YgPq0rXlX0r1C\n"
with_htaccess("passwords-in-kmsg", "AuthType Basic\nAuthName x\nAuthUserFile /proc/kmsg\nRequire valid-user\n", BASIC, count=3)
for target in BLOCKING:
    with_htaccess(f"passwords-in-{target}-by-link", passwords(target), BASIC, count=3)
with_htaccess("expensive-pattern", "RewriteEngine On\nRewriteCond %{HTTP_USER_AGENT} (a+)+b(a+)+c\nRewriteRule .* - [F]\n", {"User-Agent": "a" * 4000}, count=8)
with_htaccess("many-bad-bots", "".join(f'SetEnvIfNoCase User-Agent "bad.*bot{n}" bad\n' for n in range(8000)) + "<RequireAll>\nRequire all granted\nRequire not env bad\n</RequireAll>\n", {"User-Agent": "good " * 200}, count=8)
with_htaccess("rewrite-loop", "RewriteEngine On\nRewriteRule ^(.*)$ /h/x$1 [N]\n", count=5)
with_htaccess("include-of-itself", "ErrorDocument 404 /h/none\n", path="/h/none", count=5)


@act
def wrong_passwords(stage):
    folder = stage.folder("h")
    # Beside those of other acts, which are no files.
    (folder / "own-passwords").write_text(BCRYPT)
    (folder / ".htaccess").write_text(f"AuthType Basic\nAuthName x\nAuthUserFile {folder}/own-passwords\nRequire valid-user\n")
    stage.crowd(30, "/h/page.txt", fields="Authorization: Basic YTpi\r\n")
    (folder / ".htaccess").unlink()


@act
def links_out(stage):
    folder = stage.folder("l")
    for number, target in enumerate(("/etc/shadow", "/proc/self/environ", f"/proc/{stage.pid}/mem", "/", "loop", str(stage.admin))):
        replaced(folder / f"link{number}", lambda path: path.symlink_to(target))
        stage.ask(f"/l/link{number}", patience=2)
    replaced(folder / "loop", lambda path: path.symlink_to("loop"))
    stage.ask("/l/loop", patience=2)


SCRIPTED = {
    "prlimit": "prlimit", "kills": "kill", "priorities": "priority", "affinity": "affinity", "long-loop": "loop", "recursion": "recursion", "memory": "memory",
    "sleepers": "sleep", "programs": "programs", "opcache-resets": "opcache", "log-flood": "log", "stdout-flood": "stdout", "output-flood": "output",
    "many-files": "files", "temporary-files": "temporary", "sockets": "sockets", "fork-bomb": "forks", "own-crash": "crash", "send-file-fifo": "sendfile",
    "behind-response": "behind", "many-headers": "headers",
}
for title, what in SCRIPTED.items():
    ALL[title] = lambda stage, what=what: stage.do(what, patience=8)


@act
def crowd_of_sleepers(stage):
    stage.crowd(50, "/rogue.php?do=sleep")


@act
def half_requests(stage):
    sockets = [socket.create_connection(("127.0.0.1", stage.port), timeout=PATIENCE) for _ in range(200)]
    for connection in sockets:
        connection.sendall(b"GET /small.txt HTTP/1.1\r\nHost: rogue.test\r\nX-")
    time.sleep(3)
    for connection in sockets:
        connection.close()


@act
def slow_readers(stage):
    big = stage.root / "big.bin"
    if not big.exists():
        with big.open("wb") as file:
            file.truncate(64 << 20)
        big.chmod(0o644)
    stage.crowd(40, "/big.bin")


@act
def idle_admin_connections(stage):
    sockets = []
    for _ in range(200):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(1)
        try:
            connection.connect(str(stage.admin))
            sockets.append(connection)
        except OSError:
            connection.close()
            break
    time.sleep(3)
    for connection in sockets:
        connection.close()


@act
def large_field(stage):
    stage.ask("/rogue.php?do=nothing", "POST", {"Content-Type": "application/x-www-form-urlencoded"}, b"a=" + b"x" * (60 << 20), patience=10)


@act
def deep_folders(stage):
    path = "/" + "/".join(["d"] * 60) + "/x.txt"
    (stage.root / path.strip("/")).parent.mkdir(parents=True, exist_ok=True)
    for _ in range(50):
        stage.ask(path, patience=2)


@act
def bans_of_others(stage):
    for number in range(60):
        stage.ask(f"/.env?{number}", fields={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, patience=2)
