"""What the outside tests and the benchmarks share: finding the programs, starting and ending servers, a scratch folder.

Every server is started in the foreground with its output in a log file, and ended by its process id. Python's standard
library only. Use:

    with rig.scratch("like-nginx") as folder:
        with rig.Millrace(folder, site) as server:
            ... server.port ...
"""

import contextlib
import grp
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ports import free_port

REPOSITORY = Path(__file__).resolve().parents[2]

# Extensions that a WordPress site has, in an order in which they can be loaded. Both sides of a comparison get the same.
EXTENSIONS = "mysqlnd pdo xml ctype curl dom exif fileinfo gd iconv intl mbstring mysqli pdo_mysql pdo_sqlite phar posix simplexml sqlite3 tokenizer xmlreader xmlwriter zip".split()


def program(name):
    """The path of a program of ours: beside $MILLRACE if that is set, else from target/release. Exits if there is none."""
    chosen = os.environ.get("MILLRACE")
    folder = Path(chosen).resolve().parent if chosen else REPOSITORY / "target" / "release"
    path = Path(chosen).resolve() if chosen and name == "millrace" else folder / name
    if not path.exists():
        sys.exit(f"{path} is missing: `cargo build --release` makes it, `./test build` the one that ./test takes; or set MILLRACE to the program to test")
    return str(path)


def needed(*names):
    """Exits with a sentence if one of the named programs isn't installed."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [name for name in names if shutil.which(name, path=path) is None]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}; tests/packages lists the Debian packages that the tests need")


@contextlib.contextmanager
def scratch(name):
    """A temporary folder, removed at the end unless KEEP is set in the environment."""
    folder = Path(tempfile.mkdtemp(prefix=f"millrace-{name}-"))
    folder.chmod(0o755)  # PHP or nginx may run as another user
    try:
        yield folder
    finally:
        if os.environ.get("KEEP"):
            print(f"# kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


# A machine that is busy with other things gets so many times as long, and no less than so many seconds: it may stall for several.
PATIENCE, LEAST = 3, 20


def wait_for(condition, seconds, pause=0.01):
    """Calls `condition` until it is true; whether it became true in time, for which an idle machine needs `seconds` at most. For what a good
    run always reaches: what it may not reach waits with `within`."""
    return within(condition, max(LEAST, seconds * PATIENCE), pause)


def within(condition, seconds, pause=0.01):
    """Calls `condition` until it is true; whether it became true within so many seconds, on a busy machine, too."""
    end = time.monotonic() + seconds
    while True:
        if condition():
            return True
        if time.monotonic() > end:
            return False
        time.sleep(pause)


def settle(admin, seconds=60):
    """Waits until the server with this admin socket has done all that it had begun: requests, pages for its cache, warm-up visits, purges,
    lines of its logs. So what comes of a request is looked at once afterwards, and nothing is asked again and again."""
    body = f"seconds={seconds}".encode()
    head = f"POST /debug/settle HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    # It is there a moment after the port.
    wait_for(lambda: answers(admin), 3)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(seconds * PATIENCE)
        client.connect(str(admin))
        client.sendall(head.encode() + body)
        said = b"".join(iter(lambda: client.recv(4096), b"")).decode(errors="replace")
    if not said.startswith("HTTP/1.1 200 "):
        raise RuntimeError(f"the server does not settle: {said.splitlines()[-1:]}")


def settles(admin, condition, rounds=8):
    """Calls `condition` until it is true, each time when the server has done what the call before had begun; whether it became true within so
    many rounds. How long that takes does not matter."""
    for _ in range(rounds):
        if condition():
            return True
        settle(admin)
    return condition()


def new_code(log, file, ask, change):
    """Makes a change of a site's code, and waits until the server has made its pages stale by it, a few seconds later: a test that shows what
    is purged by something else must not meet that. `file`: one of its scripts, which is touched until the server notices: it may not have looked
    at the files before the change. `ask` sends the site a request: the server looks only at files of sites that get some."""
    def purges():
        return log.read_text(errors="replace").count("purge by a change of code")
    before = purges()
    change()
    for _ in range(10):
        if within(lambda: ask() is not None and purges() > before, 9, 0.2):
            return
        os.utime(file)
    raise RuntimeError("no page became stale by new code")


def text_of(path, seconds=10):
    """What a file has, once there is something in it: it is there before it is written. Empty if that takes too long."""
    wait_for(lambda: path.exists() and path.read_text(), seconds)
    return path.read_text() if path.exists() else ""


def answers(address):
    """Whether something accepts connections at (host, port) or at the path of a Unix socket."""
    family = socket.AF_UNIX if isinstance(address, (str, Path)) else socket.AF_INET
    with socket.socket(family) as s:
        s.settimeout(1)
        return s.connect_ex(str(address) if family == socket.AF_UNIX else address) == 0


class Process:
    """A program in the foreground, its standard output and error in `log`."""

    def __init__(self, command, log, **options):
        self.log = Path(log)
        with open(self.log, "ab") as out:
            self.child = subprocess.Popen(
                [str(c) for c in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, **options
            )
        self.pid = self.child.pid

    def await_up(self, condition, seconds=15):
        """Waits until `condition()`; ends the program and raises with the end of its log if that takes too long."""
        wait_for(lambda: self.child.poll() is not None or condition(), seconds)
        if self.child.poll() is not None or not condition():
            self.stop()
            raise RuntimeError(f"{self.child.args[0]} did not start:\n{self.tail()}")

    def tail(self, lines=20):
        """The last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self, how=signal.SIGTERM, seconds=10):
        """Ends the program; its exit code. Kills it, by its process id, if it takes longer than `seconds`."""
        if self.child.poll() is None:
            self.child.send_signal(how)
            try:
                self.child.wait(seconds)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        return self.child.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def children(pid):
    """Process ids of all descendants of `pid`, children first."""
    found, queue = [], [pid]
    while queue:
        parent = queue.pop(0)
        try:
            tasks = os.listdir(f"/proc/{parent}/task")
        except OSError:
            continue
        for task in tasks:
            with contextlib.suppress(OSError):
                below = [int(c) for c in Path(f"/proc/{parent}/task/{task}/children").read_text().split()]
                found += below
                queue += below
    return found


def command_of(pid):
    """The command line of a process, words separated by spaces; empty if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def name_of(pid):
    """The name of a process's first thread; empty if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


class Millrace(Process):
    """`millrace serve SITE` on a free port. `arguments` are added to the command line; `settings` become --set options,
    as do those of $SETTINGS: SETTINGS="php.rewind=on" tests/shop/run."""

    def __init__(self, folder, site, profile="wordpress", ini=None, settings=None, arguments=(), listen=None, prefix=(), **options):
        folder = Path(folder)
        self.port = listen or free_port()
        self.admin = folder / "admin.sock"
        command = [*prefix, program("millrace"), "serve", site, "--listen", f"127.0.0.1:{self.port}", "--profile", profile]
        if ini:
            command += ["--php-ini", ini]
        # Scripts of tests leave marks beside the site.
        for name, value in {"admin.listen": f"unix:{self.admin}", "cache.dir": "off", "object_cache.dir": folder / "objects", "php.folders": folder, **(settings or {})}.items():
            command += ["--set", f"{name}={value}"]
        for setting in os.environ.get("SETTINGS", "").split():
            command += ["--set", setting]
        super().__init__(command + list(arguments), folder / "millrace.log", **options)
        # The port alone may be another server's, started by another test at the same moment.
        has_admin = "admin.listen" in (settings or {}) or bool(arguments)
        self.await_up(lambda: (has_admin or self.admin.exists()) and serves(self.port), 30)

    def status(self):
        """What `millrace status --json` says."""
        return status_at(self.admin)

    def settle(self):
        """See `settle`."""
        settle(self.admin)


def status_at(admin):
    """What `millrace status --json` says of the server with this admin socket."""
    done = subprocess.run([program("millrace"), "status", "--json", "--admin", f"unix:{admin}"], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(f"millrace status: {done.stderr}")
    return json.loads(done.stdout)


def serves(port):
    """Whether an HTTP server answers at the port: a listening socket may be there before anybody looks at it."""
    with socket.socket() as s:
        s.settimeout(5)
        try:
            s.connect(("127.0.0.1", port))
            s.sendall(b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return s.recv(5) == b"HTTP/"
        except OSError:
            return False


def php_ini(path, lines=()):
    """Writes an ini file with opcache, those of the usual extensions that are installed, and `lines`; its path."""
    folder = subprocess.run(["php", "-n", "-r", "echo ini_get('extension_dir');"], capture_output=True, text=True).stdout
    installed = [e for e in EXTENSIONS if Path(folder, f"{e}.so").exists()]
    text = ["zend_extension=opcache"] + [f"extension={e}" for e in installed] + list(lines)
    Path(path).write_text("\n".join(text) + "\n")
    return path


class PhpFpm(Process):
    """php-fpm with a static pool of `workers` on a Unix socket, run by the current user, started from `ini` alone."""

    def __init__(self, folder, ini, workers=2, prefix=(), pool=()):
        folder = Path(folder)
        self.socket = folder / "fpm.sock"
        user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
        owner = [f"user={user}", f"group={group}"] if os.getuid() == 0 else []
        conf = ["[global]", f"error_log={folder}/fpm-error.log", "daemonize=no", "[www]", *owner, f"listen={self.socket}"]
        conf += ["listen.mode=0666", "listen.backlog=4096", "pm=static", f"pm.max_children={workers}", "catch_workers_output=yes", *pool]
        (folder / "fpm.conf").write_text("\n".join(conf) + "\n")
        root = ["-R"] if os.getuid() == 0 else []
        command = [*prefix, fpm_program(), "-F", *root, "-n", "-c", ini, "-y", folder / "fpm.conf"]
        super().__init__(command, folder / "fpm.log")
        self.await_up(lambda: answers(self.socket))


def fpm_program():
    """The newest php-fpm of the distribution; exits if there is none."""
    found = sorted(Path("/usr/sbin").glob("php-fpm*"))
    if not found:
        sys.exit("php-fpm is not installed; tests/packages lists the Debian packages that the tests need")
    return found[-1]


# What Debian's fastcgi_params say, but for HTTP_HOST: Debian drops the client's port there. `$peer_host` is set by the
# server block: the host of the request's target, with the port that the client named.
FASTCGI = """
fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method;
fastcgi_param CONTENT_TYPE $content_type; fastcgi_param CONTENT_LENGTH $content_length;
fastcgi_param SCRIPT_NAME $fastcgi_script_name; fastcgi_param REQUEST_URI $request_uri;
fastcgi_param DOCUMENT_URI $document_uri; fastcgi_param DOCUMENT_ROOT $document_root;
fastcgi_param SERVER_PROTOCOL $server_protocol; fastcgi_param REQUEST_SCHEME $scheme; fastcgi_param HTTPS $https if_not_empty;
fastcgi_param GATEWAY_INTERFACE CGI/1.1; fastcgi_param SERVER_SOFTWARE nginx/$nginx_version;
fastcgi_param REMOTE_ADDR $remote_addr; fastcgi_param REMOTE_PORT $remote_port; fastcgi_param REMOTE_USER $remote_user;
fastcgi_param SERVER_ADDR $server_addr; fastcgi_param SERVER_PORT $server_port; fastcgi_param SERVER_NAME $server_name;
fastcgi_param REDIRECT_STATUS 200; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
fastcgi_param HTTP_PROXY ""; fastcgi_param HTTP_HOST $peer_host;
"""

# Added to the `http` block for $peer_host. nginx's $host is the host that counts, but in lower case and without port.
PEER_HOST = r"""
map $http_host $host_port { default ""; "~(?<p>:[0-9]+)$" $p; }
map $request $target_host { default ""; "~^[A-Z]+ [a-z]+://(?<h>[^/ ?]+)" $h; }
map $target_host $peer_host { default $target_host; "" $host$host_port; }
"""


class Nginx(Process):
    """nginx on a free port with `server` inside its one server block and `http` before it; `events` and `listen` are more for these."""

    def __init__(self, folder, root, server, http="", top="worker_processes 1;", name="localhost", prefix=(), port=None, events="", listen=""):
        folder = Path(folder)
        self.port = port or free_port()
        temp = folder / "nginx-temp"
        temp.mkdir(exist_ok=True)
        user = f"user {pwd.getpwuid(os.getuid()).pw_name};" if os.getuid() == 0 else ""
        places = " ".join(f"{k}_temp_path {temp}/{k};" for k in "client_body proxy fastcgi uwsgi scgi".split())
        text = f"""daemon off; {user} {top} pid {folder}/nginx.pid; error_log {folder}/nginx-error.log;
events {{ worker_connections 20000; {events} }}
http {{ include /etc/nginx/mime.types; default_type application/octet-stream; access_log off; {places} {http}
server {{ listen 127.0.0.1:{self.port} backlog=4096 {listen}; server_name {name}; root {root};
{server}
}} }}
"""
        self.conf = folder / "nginx.conf"
        self.conf.write_text(text)
        nginx = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
        super().__init__([*prefix, nginx, "-c", self.conf, "-e", folder / "nginx-error.log"], folder / "nginx.log")
        self.await_up(lambda: answers(("127.0.0.1", self.port)))
