"""The machine runs out of something: descriptors, disk, connections."""

import os
import shutil
import signal
import subprocess
import time

import raw
import rig
from stage import Later, check, check_calm, check_whole, get


def descriptors(stage):
    """With a limit of 128 descriptors and 300 clients: all are served, for those that have their answer and are idle make room."""
    with stage.serve({"http.keep_alive": "20s", "server.threads": 1}, prefix=["prlimit", "--nofile=128:128"]) as server:
        get(server.port, "/pid.php")
        wires = []
        for _ in range(300):
            wire = raw.Wire(("127.0.0.1", server.port))
            wire.send(b"GET /plain.txt HTTP/1.1\r\nHost: a.test\r\n\r\n")
            wires.append(wire)
        good = sum(has_answer(wire) for wire in wires)
        check(good == len(wires), f"{good} of {len(wires)} connections were served")
        lines = len(server.log.read_text().splitlines())
        check(lines < 200, f"the log has {lines} lines")
        for wire in wires:
            wire.close()
        check(rig.wait_for(lambda: Later(server.port, "/pid.php").result(2) == 200, 10), "PHP is not served afterwards")
        check_whole(server)
        check_calm(server)


def has_answer(wire, timeout=30.0):
    """Whether a good answer comes on the connection."""
    wire.timeout = timeout
    try:
        answer = wire.answer()
    except (OSError, raw.Broken):
        return False
    return answer is not None and answer.status == 200


def full_disk(stage):
    """The access log's disk is full: everything is served; when there is room again, the log goes on."""
    small = stage.folder / "small"
    small.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", small], capture_output=True).returncode == 0
    log = small / "access.log" if mounted else "/dev/full"
    if not mounted:
        print("skipped full_disk: the log goes on when there is room again: no file system can be mounted here", flush=True)
    try:
        with stage.serve({"log.access": log, "server.threads": 1}) as server:
            if mounted:
                fill(small / "filler")
            slowest = 0.0
            for _ in range(20):
                asked = [Later(server.port, t) for t in ("/plain.txt", "/pid.php?a=" + "x" * 2000) * 5]
                check({a.result() for a in asked} == {200}, f"{[a.outcome for a in asked]}")
                slowest = max(slowest, *(a.seconds for a in asked))
            print(f"# full disk: the slowest request took {slowest:.2f} s", flush=True)
            lines = len(server.log.read_text().splitlines())
            check(lines < 100, f"the error log has {lines} lines")
            if mounted:
                (small / "filler").unlink()
                log.write_text("")
                check(rig.wait_for(lambda: get(server.port, "/plain.txt?after") and "?after" in log.read_text(), 15, 0.2), "the log does not go on")
            check_calm(server)
    finally:
        if mounted:
            subprocess.run(["umount", small])


def fill(path):
    """Fills the disk that `path` is on."""
    with open(path, "wb", buffering=0) as f:
        try:
            while f.write(b"x" * 4096):
                pass
        except OSError:
            return


def full_spool(stage):
    """No room for the body of an upload: that request fails with 500, 503 or 507, others don't."""
    small = stage.folder / "spool"
    small.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", small], capture_output=True).returncode != 0:
        small = "/dev/shm/no-such-folder"  # cannot mount: a folder that isn't there
        print("skipped full_spool: a full disk, only one that is missing: no file system can be mounted here", flush=True)
    try:
        with stage.serve({"server.spool_dir": small}) as server:
            body = b"x" * (3 << 20)
            data = b"POST /body.php HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            with raw.Wire(("127.0.0.1", server.port)) as wire:
                wire.send(data)
                answer = wire.answer()
            check(answer is not None and answer.status in (500, 503, 507), f"{answer and answer.status}")
            check(get(server.port, "/pid.php").status == 200, "PHP afterwards")
            check_calm(server)
    finally:
        if small != "/dev/shm/no-such-folder":
            subprocess.run(["umount", small])


def log_rotation(stage):
    """The access log is reopened on SIGHUP, without a lost line."""
    log = stage.folder / "access.log"
    with stage.serve({"log.access": log}) as server:
        for i in range(50):
            get(server.port, f"/plain.txt?n={i}")
        shutil.move(log, f"{log}.1")
        os.kill(server.pid, signal.SIGHUP)
        check(rig.wait_for(log.exists, 5), "the log was not opened again")
        for i in range(50, 100):
            get(server.port, f"/plain.txt?n={i}")

        def lines():
            return [line for f in (f"{log}.1", log) for line in open(f) if "/plain.txt?n=" in line]

        check(rig.wait_for(lambda: len(lines()) == 100, 5), f"{len(lines())} of 100 lines")


def connections_per_address(stage):
    """More connections than allowed from one address: the surplus is turned away, the others are served."""
    with stage.serve({"server.connections_per_address": 5, "server.threads": 1}) as server:
        await_alone(server)
        wires = [raw.Wire(("127.0.0.1", server.port)) for _ in range(12)]
        for wire in wires:
            wire.send(b"GET /plain.txt HTTP/1.1\r\nHost: a.test\r\n\r\n")
        good = [w for w in wires if has_answer(w)]
        check(len(good) in (4, 5), f"{len(good)} of 12 were served")
        for wire in wires:
            wire.close()
        check(rig.wait_for(lambda: safe_get(server.port), 3), "nothing is served when they are gone")


def connection_limit(stage):
    """More connections than server.connections: the surplus waits, and is served when there is room."""
    with stage.serve({"server.connections": 10, "server.threads": 1}) as server:
        await_alone(server)
        wires = [raw.Wire(("127.0.0.1", server.port)) for _ in range(15)]
        for wire in wires:
            wire.send(b"GET /plain.txt HTTP/1.1\r\nHost: a.test\r\n\r\n")
        good = served(wires, 10)
        check(len(good) == 10, f"{len(good)} of 15 were served")
        for wire in good:
            wire.close()
        rest = [w for w in wires if w not in good]
        check(all(has_answer(w) for w in rest), "the others were not served when there was room")
        for wire in rest:
            wire.close()


def await_alone(server):
    """Waits until the connections that found out that it is up are gone."""
    check(rig.wait_for(lambda: server.status()["connections_open"] == 0, 20), "connections are left over")


def served(wires, count):
    """The connections that have a good answer: waits for `count` of them, and half a second for more."""
    found = []

    def look():
        found.extend(wire for wire in wires if wire not in found and has_answer(wire, 0.01))
        return len(found) >= count

    rig.wait_for(look, 20)
    time.sleep(0.5)
    look()
    return found


def safe_get(port):
    """Whether a file is served."""
    try:
        answer = get(port, "/plain.txt", timeout=2)
    except (OSError, raw.Broken):
        return False
    return answer is not None and answer.status == 200


TESTS = [descriptors, full_disk, full_spool, log_rotation, connections_per_address, connection_limit]
