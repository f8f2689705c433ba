"""Bottlenecks of nginx and php-fpm, as Debian packages them, with configurations of the test's own: each pair runs in a process and a network namespace, so that
the doctor sees no other one. Each story returns why it is not well, or nothing."""

import contextlib
import os
import signal
import sys

import doctor
import rig

FPM = """
[global]
error_log = {folder}/fpm.log
daemonize = no
[www]
user = www-data
group = www-data
listen = {listen}
listen.owner = www-data
listen.backlog = {backlog}
pm = dynamic
pm.max_children = {children}
pm.start_servers = 1
pm.min_spare_servers = 1
pm.max_spare_servers = 1
request_slowlog_timeout = 1s
slowlog = {folder}/slow.log
"""
NGINX = """
daemon off;
user www-data;
worker_processes 1;
worker_rlimit_nofile {descriptors};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{
  worker_connections {connections};
}}
http {{
  access_log off;
  client_body_temp_path {folder}/body; fastcgi_temp_path {folder}/fastcgi; proxy_temp_path {folder}/proxy; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:8080;
    location / {{
      include /etc/nginx/fastcgi_params;
      fastcgi_param SCRIPT_FILENAME {folder}/index.php;
      fastcgi_read_timeout {patience};
      fastcgi_pass {to};
    }}
  }}
}}
"""
SCRIPT = "<?php usleep((int) ($_GET['ms'] ?? 0) * 1000); echo 'page';"

# Visitors that request a page again and again.
VISITORS = """
import http.client, sys, threading, time
def visit():
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=60)
            connection.request("GET", sys.argv[2])
            connection.getresponse().read()
            connection.close()
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.01)
for _ in range(int(sys.argv[1])):
    threading.Thread(target=visit, daemon=True).start()
print("ready", flush=True)
time.sleep(300)
"""

# Visitors that have not yet sent all of their request, and come again when they are refused.
SLOW_VISITORS = """
import select, socket, sys, time
held = []
while True:
    for _ in range(int(sys.argv[1]) - len(held)):
        visitor = socket.socket()
        visitor.connect(("127.0.0.1", 8080))
        visitor.send(b"GET / HTTP/1.1\\r\\nHost: a.test\\r\\n")
        held.append(visitor)
    print("ready", flush=True)
    time.sleep(0.3)
    gone = select.select(held, [], [], 0)[0]
    for visitor in gone:
        visitor.close()
        held.remove(visitor)
"""


class Site:
    """nginx and php-fpm in namespaces of their own."""

    def __init__(self, folder, tcp=False, **settings):
        self.folder, self.stack, self.runs = folder, contextlib.ExitStack(), 0
        self.settings = {"listen": "127.0.0.1:9000" if tcp else folder / "fpm.sock", "to": "127.0.0.1:9000" if tcp else f"unix:{folder}/fpm.sock", "children": 2, "backlog": 511, "connections": 256, "descriptors": 1024, "patience": "30s", **settings}
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        (folder / "index.php").write_text(SCRIPT)
        # No Millrace: its admin address is nobody's.
        self.admin = folder / "none.sock"

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            room = ["unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child", "sh", "-c", "ip link set lo up && echo ready && exec sleep 600"]
            outside = stack.enter_context(rig.Process(room, self.folder / "room"))
            outside.await_up(lambda: "ready" in outside.log.read_text())
            self.inside = ["nsenter", "--target", rig.children(outside.pid)[0], "--net", "--pid", "--mount"]
            self.write()
            self.start_fpm(stack)
            self.nginx = stack.enter_context(rig.Process([*self.inside, "nginx", "-c", self.folder / "nginx.conf"], self.folder / "nginx.out"))
            self.nginx.await_up(lambda: (self.folder / "nginx.pid").exists())
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def start_fpm(self, stack):
        log = self.folder / "fpm.log"
        log.unlink(missing_ok=True)
        self.fpm = stack.enter_context(rig.Process([*self.inside, rig.fpm_program(), "--fpm-config", self.folder / "fpm.conf"], self.folder / "fpm.out"))
        self.fpm.await_up(lambda: log.exists() and "ready to handle connections" in log.read_text())

    def restart_fpm(self):
        """A longer queue: a reload keeps the socket with the old one."""
        os.kill(self.master(self.fpm), signal.SIGTERM)
        self.fpm.child.wait(30)
        self.start_fpm(self.stack)

    def master(self, program):
        return next(pid for pid in rig.children(program.pid) if "master process" in rig.command_of(pid))

    def write(self, **settings):
        self.settings.update(settings)
        for name, text in (("fpm.conf", FPM), ("nginx.conf", NGINX)):
            (self.folder / name).write_text(text.format(folder=self.folder, **self.settings))

    def reload(self, **settings):
        """The cure: other settings, and the signals by which both read them. Returns when both have processes with them."""
        self.write(**settings)
        before = self.processes()
        for program, order in ((self.fpm, signal.SIGUSR2), (self.nginx, signal.SIGHUP)):
            os.kill(self.master(program), order)
        if not rig.wait_for(lambda: (now := self.processes())[0] and now[1] and not (now[0] & before[0] or now[1] & before[1]), 20):
            raise RuntimeError(f"nothing has begun anew: {before} {self.processes()}")

    def await_room(self):
        """Returns when nginx has noticed that its visitors are gone. Its master tells a worker to stop through a channel, right behind a
        descriptor: a worker that has no place for that one closes the channel, and goes on for ever."""
        (worker,) = self.processes()[1]
        if not rig.wait_for(lambda: len(os.listdir(f"/proc/{worker}/fd")) < 20, 20):
            raise RuntimeError(f"nginx keeps its visitors: {os.listdir(f'/proc/{worker}/fd')}")

    def processes(self):
        """The working processes of both."""
        def of(master, title):
            commands = {pid: rig.command_of(pid) for pid in rig.children(master.pid)}
            return {pid for pid, command in commands.items() if title in command and "shutting down" not in command}

        return of(self.fpm, "pool www"), of(self.nginx, "worker process")

    @contextlib.contextmanager
    def visitors(self, script, *words):
        self.runs += 1
        with rig.Process([*self.inside, sys.executable, "-c", script, *words], self.folder / f"visitors-{self.runs}") as clients:
            clients.await_up(lambda: "ready" in clients.log.read_text())
            try:
                yield
            finally:
                # nsenter does not pass signals on to them.
                for pid in rig.children(clients.pid):
                    os.kill(pid, signal.SIGKILL)

    def examine(self, wrong):
        return doctor.until(lambda seconds: doctor.examine(self, prefix=self.inside, seconds=seconds), wrong)


def gone(*names):
    """Why one of these checks is not well; empty if all are."""
    return lambda report: next((why for name in names if (why := doctor.is_gone(report, name))), "")


def named(*names):
    """Which of these findings is not there; empty if all are."""
    def missing(report):
        found = {finding["id"] for finding in report["findings"]}
        return "" if found >= set(names) else f"{set(names) - found} are not found: {doctor.short(report)}"

    return missing


def first(name, *cure):
    """Why the first finding is not this one with this in its cure."""
    return lambda report: doctor.first_is(report, name, *cure, others=doctor.OTHERS - doctor.WEB)


def both(*verdicts):
    return lambda report: next((why for verdict in verdicts if (why := verdict(report))), "")


def fpm_children(folder):
    """Two processes, and six visitors of a page that sleeps."""
    return children(folder, tcp=False)


def fpm_tcp(folder):
    """The same with a TCP socket between nginx and php-fpm."""
    return children(folder, tcp=True)


def children(folder, tcp):
    found = first("fpm-children", "pm.max_children = 4 (now 2)", str(folder / "fpm.conf"), "millrace tune --server nginx")
    with Site(folder, tcp, children=2) as site, site.visitors(VISITORS, 6, "/?ms=1500"):
        why = site.examine(both(found, named("fpm-log-children", "fpm-slow")))
        if why:
            return why
        site.reload(children=20)
        return site.examine(gone("fpm-children", "fpm-queue", "fpm-log-children"))


def fpm_queue(folder):
    """A queue with two places: nginx is refused, and gives up on those who wait."""
    with Site(folder, children=2, backlog=2, patience="1s") as site:
        with site.visitors(VISITORS, 12, "/?ms=1500"):
            why = site.examine(both(first("fpm-children", "now 2"), named("fpm-queue", "nginx-upstream-full", "nginx-upstream-late")))
        if why:
            return why
        site.reload(children=20, backlog=511, patience="30s")
        site.restart_fpm()
        with site.visitors(VISITORS, 12, "/?ms=1500"):
            return site.examine(gone("fpm-children", "fpm-queue", "nginx-upstream-full", "nginx-upstream-late"))


def nginx_connections(folder):
    """More visitors than nginx may have connections."""
    found = first("nginx-connections", "worker_connections 64; (now 32)", f"{folder}/nginx.conf, line 9", "millrace tune --server nginx")
    return beyond(folder, 40, found, "nginx-connections", {"connections": 32}, {"connections": 256})


def nginx_descriptors(folder):
    """More visitors than nginx may have descriptors."""
    found = first("nginx-descriptors", "worker_rlimit_nofile 80; (now 40)")
    return beyond(folder, 50, found, "nginx-descriptors", {"descriptors": 40}, {"descriptors": 1024})


def beyond(folder, visitors, found, name, limit, cure):
    """More slow visitors than a limit of nginx, and the same with the cure."""
    with Site(folder, **limit) as site:
        with site.visitors(SLOW_VISITORS, visitors):
            why = site.examine(both(found, named("nginx-log-limit")))
        if why:
            return why
        site.await_room()
        site.reload(**cure)
        with site.visitors(SLOW_VISITORS, visitors):
            return site.examine(gone(name, "nginx-log-limit"))


def web_healthy(folder):
    """A site with visitors and room for them: all of these checks look, and none finds anything."""
    with Site(folder, children=20) as site, site.visitors(VISITORS, 4, "/?ms=50"):
        return site.examine(gone(*sorted(doctor.WEB)))


def web_none(folder):
    """A machine without nginx and php-fpm: nothing is found, and nothing is said to be unknown."""
    folder.mkdir(parents=True)
    server = type("None", (), {"admin": folder / "none.sock"})
    room = ["unshare", "--net", "--pid", "--mount-proc", "--fork"]
    report = doctor.examine(server, prefix=room, seconds=1)
    said = [entry["id"] for part in ("findings", "could_not_look") for entry in report[part] if entry["id"] in doctor.WEB]
    said += [name for name in doctor.WEB if name in report["well"]]
    return f"on a machine without them it says something about {said}" if said else ""


STORIES = {
    "fpm-children": fpm_children,
    "fpm-tcp": fpm_tcp,
    "fpm-queue": fpm_queue,
    "nginx-connections": nginx_connections,
    "nginx-descriptors": nginx_descriptors,
    "web-healthy": web_healthy,
    "web-none": web_none,
}
