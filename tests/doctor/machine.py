"""Bottlenecks of the machine: descriptors, listen queues, ports, control groups, disks, opcache. Each story gets a folder of its own and
returns why it is not well, or nothing."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import doctor
import rig

CGROUPS = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def site(folder, scripts=None, prefix=(), settings=None, ini=None):
    """Millrace on a folder with plain PHP."""
    root = folder / "site"
    if not root.exists():
        root.mkdir(parents=True)
        folder.chmod(0o755)
    for name, code in (scripts or {"index.php": "<?php echo 'hello';"}).items():
        (root / name).write_text(code)
    chosen = {"php.workers": 2, **(settings or {})}
    with rig.Millrace(folder, root, profile="generic", prefix=prefix, settings=chosen, ini=ini) as server:
        yield server


def descriptors(folder):
    """Connections that stay open, up to the limit, and visitors that still come."""
    def run(limit, held):
        with site(folder, prefix=["prlimit", f"--nofile={limit}:{limit}"]) as server, contextlib.ExitStack() as stack:
            for _ in range(held):
                connection = stack.enter_context(socket.socket())
                connection.connect(("127.0.0.1", server.port))
            with doctor.load(server.port, clients=2, pause=0.02):
                return doctor.examine(server, seconds=1)

    why = doctor.first_is(run(200, 260), "fd-server", "LimitNOFILE", "now 200")
    return why or doctor.is_gone(run(4096, 260), "fd-server")


# A namespace with a loopback: `unshare` runs this, which then becomes the server.
IN_NAMESPACE = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$0" "$@"']


def inside(server, *command):
    """A command in the network namespace of the server."""
    return ["nsenter", "--target", str(server.pid), "--net", *map(str, command)]


@contextlib.contextmanager
def namespace(folder):
    """Millrace in a network namespace: its port cannot be reached from here, its admin socket can."""
    root = folder / "site"
    root.mkdir(parents=True, exist_ok=True)
    (root / "index.html").write_text("hello")
    admin = folder / "admin.sock"
    command = [*IN_NAMESPACE, rig.program("millrace"), "serve", root, "--listen", "127.0.0.1:8080", "--set", f"admin.listen=unix:{admin}"]
    command += ["--set", "cache.dir=off", "--set", "php.enabled=false", "--profile", "generic"]
    with rig.Process(command, folder / "log") as server:
        server.await_up(admin.exists, 30)
        server.admin = admin
        yield server


LISTENER = """
import socket, sys, time
backlog, clients = int(sys.argv[1]), int(sys.argv[2])
listener = socket.socket()
listener.bind(("127.0.0.1", 9000))
listener.listen(backlog)
held = []
print("ready", flush=True)
while True:
    for _ in range(clients):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", 9000))
        held.append(client)
    time.sleep(0.2)
    if backlog >= clients:
        for _ in range(clients):
            listener.accept()[0].close()
    for client in held:
        client.close()
    held.clear()
"""


def listen_queue(folder):
    """A program whose queue is short, and that does not accept."""
    def run(server, backlog):
        command = inside(server, sys.executable, "-c", LISTENER, backlog, 20)
        with rig.Process(command, folder / f"listener-{backlog}") as listener:
            listener.await_up(lambda: "ready" in listener.log.read_text())
            return doctor.examine(server)

    with namespace(folder) as server:
        why = doctor.first_is(run(server, 1), "net-accept", "backlog", "ss -ltn")
        return why or doctor.is_gone(run(server, 64), "net-accept")


CLIENTS = """
import socket, sys, time
listener = socket.socket()
listener.bind(("127.0.0.1", 9000))
listener.listen(512)
held = []
for _ in range(int(sys.argv[1])):
    client = socket.socket()
    client.connect(("127.0.0.1", 9000))
    held.append((client, listener.accept()))
print("ready", flush=True)
time.sleep(120)
"""


def ports(folder):
    """Almost all local ports in use for connections to one address."""
    with namespace(folder) as server:
        def set_range(ports):
            subprocess.run(inside(server, "sysctl", "-qw", f"net.ipv4.ip_local_port_range={ports}"), check=True)

        set_range("40000 40099")
        with rig.Process(inside(server, sys.executable, "-c", CLIENTS, 98), folder / "clients") as clients:
            clients.await_up(lambda: "ready" in clients.log.read_text())
            why = doctor.first_is(doctor.examine(server, prefix=inside(server), seconds=1), "net-ports", "ip_local_port_range", "now 40000 40099")
            set_range("32768 60999")
            return why or doctor.is_gone(doctor.examine(server, prefix=inside(server), seconds=1), "net-ports")


def other_namespace(folder):
    """From outside of the server's namespace, its ports are unknown, and the doctor says how to look."""
    with namespace(folder) as server:
        report = doctor.examine(server, seconds=1)
        said = [entry["why"] for entry in report["could_not_look"] if entry["id"] == "net-ports"]
        return "" if said and "nsenter --target" in said[0] else f"net-ports says {said}"


@contextlib.contextmanager
def control_group(controller):
    """A control group of the test's own, of either version, and whether it is version 2; None if there is none to be had."""
    for base, is_v2 in ((CGROUPS / controller, False), (CGROUPS, True)):
        if is_v2 and controller not in (base / "cgroup.controllers").read_text().split() if (base / "cgroup.controllers").exists() else is_v2:
            continue
        group = base / f"millrace-doctor-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            yield group, is_v2
        finally:
            rig.wait_for(lambda: gone(group), 10)
        return
    yield None, False


def gone(group):
    """Removes the group; processes that end may still be in it."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def enter(group):
    """Runs a command in the group."""
    return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$0" "$@"']


class NotHere(Exception):
    """This machine cannot play the story."""


def cpu_quota(folder):
    """A tenth of a core for a server that could use two."""
    busy = {"index.php": "<?php for ($i = 0, $x = 0; $i < 3000000; $i++) { $x += $i; } echo $x;"}
    with control_group("cpu") as (group, is_v2):
        if not group:
            raise NotHere("no control group for the processor can be made here")

        def quota(text):
            (group / ("cpu.max" if is_v2 else "cpu.cfs_quota_us")).write_text(text)

        with site(folder, busy, prefix=enter(group)) as server, doctor.load(server.port):
            quota("10000 100000" if is_v2 else "10000")
            cure = "CPUQuota=" if is_v2 else "cpu.cfs_quota_us=-1"
            # On a busy machine the server may for a moment get less than its quota.
            why = doctor.until(lambda seconds: doctor.examine(server, seconds=seconds), lambda report: doctor.first_is(report, "cgroup-cpu", cure, "0.10"))
            quota("max 100000" if is_v2 else "-1")
            report = doctor.examine(server)
    # Without a limit, the check does not apply.
    return why or ("" if not [f for f in report["findings"] if f["id"] == "cgroup-cpu"] else doctor.short(report))


def memory_limit(folder):
    """Workers that fill the memory of their group."""
    # It waits for data that does not come, until the story is over: a script that sleeps would be a finding of its own.
    eats = {"index.php": """<?php $x = str_repeat('x', 150 << 20);
        $ends = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        stream_set_timeout($ends[0], 0, 200000);
        for ($n = 0; $n < 100 && !file_exists('over'); $n++, clearstatcache()) { fread($ends[0], 1); }"""}
    with control_group("memory") as (group, is_v2):
        if not group:
            raise NotHere("no control group for memory can be made here")
        limit = group / ("memory.max" if is_v2 else "memory.limit_in_bytes")
        name = "anon" if is_v2 else "total_rss"

        def used():
            lines = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            return int(lines[name])

        folder.mkdir()
        ini = rig.php_ini(folder / "php.ini", ["memory_limit=256M"])
        # Without a page cache: it would have the second request wait for the response to the first.
        settings = {"cache.mode": "off"}
        with site(folder, eats, prefix=enter(group), ini=ini, settings=settings) as server, doctor.load(server.port, clients=2), over(folder):
            if not rig.wait_for(lambda: used() > 300 << 20, 20):
                return f"the workers use only {used()} bytes"
            # Tight, but not so tight that the kernel kills; it refuses a limit below what cannot be freed.
            for percent in (109, 110):
                with contextlib.suppress(OSError):
                    limit.write_text(str(used() * percent // 100))
                    break
            why = doctor.first_is(doctor.examine(server), "cgroup-memory", "MemoryMax=" if is_v2 else "memory.limit_in_bytes=", "php.workers")
            limit.write_text(str(1 << 30))
            return why or doctor.is_gone(doctor.examine(server), "cgroup-memory")


@contextlib.contextmanager
def over(folder):
    """Tells scripts at the end that the story is over."""
    try:
        yield
    finally:
        (folder / "site" / "over").touch()


def disk_full(folder):
    """A small file system with the site on it."""
    root = folder / "site"
    root.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=755", "tmpfs", root], check=True)
    try:
        with site(folder) as server:
            big = root / "big"
            with contextlib.suppress(OSError):
                big.write_bytes(b"x" * (17 << 20))
            why = doctor.first_is(doctor.examine(server, root, seconds=1), "disk-full", f"du -xh {root}")
            big.unlink()
            return why or doctor.is_gone(doctor.examine(server, root, seconds=1), "disk-full")
    finally:
        subprocess.run(["umount", root], check=True)


def opcache_full(folder):
    """More code than the opcache has room for."""
    def part(number):
        return f"<?php\nfunction f{number}($a) {{ " + " ".join(f"if ($a == {n}) {{ return 'value {n} of {number}'; }}" for n in range(800)) + " }"

    scripts = {f"part{number}.php": part(number) for number in range(40)}
    scripts["index.php"] = "<?php foreach (glob(__DIR__ . '/part*.php') as $part) { include $part; } echo 'all';"

    def run(memory):
        ini = rig.php_ini(folder / "php.ini", [f"opcache.memory_consumption={memory}", "opcache.interned_strings_buffer=4"])
        with site(folder, scripts, ini=ini) as server, doctor.load(server.port, clients=2):
            return doctor.until(lambda seconds: doctor.examine(server, seconds=seconds), lambda report: verdict(report, memory))

    def verdict(report, memory):
        if memory == 8:
            return doctor.first_is(report, "opcache-full", "opcache.memory_consumption", "(now 8)")
        return doctor.is_gone(report, "opcache-full")

    folder.mkdir(parents=True)
    return run(8) or run(128)


STORIES = {
    "descriptors": descriptors,
    "listen-queue": listen_queue,
    "ports": ports,
    "other-namespace": other_namespace,
    "cpu-quota": cpu_quota,
    "memory-limit": memory_limit,
    "disk-full": disk_full,
    "opcache-full": opcache_full,
}
