"""The life of the server: drain, immediate end, reload under load."""

import os
import signal
import socket
import threading
import time

import raw
import rig
from stage import Later, alive, check, check_calm, get

CONFIG = """
[server]
listen = ["127.0.0.1:%d"]
threads = 2
[admin]
listen = "unix:%s/admin.sock"
[php]
workers = 4
ini_file = "%s"
[[site]]
names = ["a.test"]
default = true
root = "%s"
profile = "generic"
[site.headers]
X-Version = "%s"
"""


def drain(stage):
    """SIGTERM: what runs is finished, new connections are refused, idle ones closed, exit status 0."""
    with stage.serve() as server:
        idle = raw.Wire(("127.0.0.1", server.port))
        idle.send(b"GET /plain.txt HTTP/1.1\r\nHost: a.test\r\n\r\n")
        check(idle.answer().status == 200, "the file")
        running = [Later(server.port, "/slow.php?ms=1200") for _ in range(3)]
        stage.began_lines(3)
        os.kill(server.pid, signal.SIGTERM)
        check(idle.closes(), "an idle connection was kept")
        refused = rig.wait_for(lambda: not rig.answers(("127.0.0.1", server.port)), 1)
        check(refused, "new connections were accepted")
        check([r.result() for r in running] == [200] * 3, f"{[r.outcome for r in running]}")
        code = server.stop(signal.SIGCONT, 40)
        check(code == 0, f"exit status {code}")
        check_calm(server)


def drain_of_a_download(stage):
    """A download that goes on is finished too."""
    with stage.serve() as server:
        with raw.Wire(("127.0.0.1", server.port)) as wire:
            wire.send(b"GET /large.bin HTTP/1.1\r\nHost: a.test\r\n\r\n")
            wire.fill()
            os.kill(server.pid, signal.SIGTERM)
            time.sleep(0.3)
            answer = wire.answer()
            check(len(answer.body) == 24 << 20, f"{len(answer.body)} bytes")
        code = server.stop(signal.SIGCONT, 40)
        check(code == 0, f"exit status {code}")


def grace_ends(stage):
    """What takes longer than server.shutdown_grace is cut off."""
    with stage.serve({"server.shutdown_grace": "500ms"}) as server:
        Later(server.port, "/slow.php?ms=60000")
        stage.began_lines()
        # Without the setting it waited for 30 s.
        check(server.stop(signal.SIGTERM, 20) != -signal.SIGKILL, "it waits for what runs")


def second_sigterm(stage):
    """The second SIGTERM ends the server at once, PHP with it."""
    with stage.serve() as server:
        Later(server.port, "/slow.php?ms=60000")
        stage.began_lines()
        left = rig.children(server.pid)
        os.kill(server.pid, signal.SIGTERM)
        check(rig.wait_for(lambda: "shutting down" in server.log.read_text(), 20), "the first SIGTERM did not come")
        time.sleep(0.3)
        check(server.child.poll() is None, "the first SIGTERM did not wait for the running request")
        # After the first alone it waits for 30 s.
        check(server.stop(signal.SIGTERM, 20) != -signal.SIGKILL, "it waits for what runs")
        check(rig.wait_for(lambda: not any(alive(p) for p in left), 3), "PHP lives on")


def configured(stage, version="1"):
    """Writes the configuration; (its path, the port)."""
    port = getattr(stage, "port", None) or rig.free_port()
    stage.port = port
    path = stage.folder / "millrace.toml"
    path.write_text(CONFIG % (port, stage.folder, stage.ini, stage.site, version))
    return path, port


def served(stage):
    """Millrace with that configuration."""
    path, port = configured(stage)
    server = rig.Process([rig.program("millrace"), "serve", "--config", path, "--set", "cache.dir=off"], stage.folder / "millrace.log")
    server.await_up(lambda: rig.serves(port), 30)
    return server, port


def sighup_while_starting(stage):
    """A SIGHUP that comes early is no reason to end."""
    path, port = configured(stage)
    with rig.Process([rig.program("millrace"), "serve", "--config", path, "--set", "cache.dir=off"], stage.folder / "millrace.log") as server:
        check(rig.wait_for(lambda: rig.answers(("127.0.0.1", port)), 20, 0.001), "it does not start")
        for _ in range(5):
            if server.child.poll() is None:
                os.kill(server.pid, signal.SIGHUP)
            time.sleep(0.01)
        check(rig.wait_for(lambda: rig.serves(port), 20), f"it does not serve: exit status {server.child.poll()}")
        check(get(port, "/pid.php").status == 200, "PHP")


class Hammer(threading.Thread):
    """Asks again and again, on one connection or on a fresh one each time; one that ends without having said so is a fault."""

    def __init__(self, port, target, fresh=False):
        super().__init__(daemon=True)
        self.fresh, self.port, self.target = fresh, port, target
        self.done, self.count, self.faults, self.versions = False, 0, [], set()
        self.start()

    def run(self):
        data = f"GET {self.target} HTTP/1.1\r\nHost: a.test\r\n\r\n".encode()
        wire = raw.Wire(("127.0.0.1", self.port))
        while not self.done:
            try:
                wire.send(data)
                answer = wire.answer()
                if answer is None or answer.status != 200:
                    self.faults.append("the connection was dropped" if answer is None else answer.status)
                    return
                self.count += 1
                self.versions.add(answer.value("x-version"))
                if self.fresh or (answer.value("connection") or "") == "close":
                    wire.close()
                    wire = raw.Wire(("127.0.0.1", self.port))
            except (OSError, raw.Broken) as e:
                self.faults.append(str(e))
                return


def reload_under_load(stage):
    """SIGHUP: the new configuration holds for connections that are open, and not one of them is dropped."""
    server, port = served(stage)
    with server:
        hammers = [Hammer(port, t) for t in ("/plain.txt", "/pid.php?us=500", "/plain.txt", "/pid.php?us=20000")]
        hammers += [Hammer(port, t, fresh=True) for t in ("/plain.txt", "/pid.php?us=500")]
        slow = Later(port, "/slow.php?ms=2500")
        time.sleep(0.3)
        for version in range(2, 8):
            configured(stage, str(version))
            os.kill(server.pid, signal.SIGHUP)
            time.sleep(0.3)
        rig.wait_for(lambda: all("7" in hammer.versions for hammer in hammers), 15)
        for hammer in hammers:
            hammer.done = True
            hammer.join(40)
        faults = [f for h in hammers for f in h.faults]
        check(not faults, f"{faults}")
        check(slow.result() == 200, f"a request across all reloads got {slow.outcome}")
        check(all("7" in h.versions for h in hammers), f"versions seen: {[sorted(h.versions) for h in hammers]}")
        check(get(port, "/pid.php").status == 200, "PHP afterwards")
        check_calm(server)


def wrong_reload(stage):
    """A wrong configuration changes nothing, and the log says what is wrong with it, where."""
    server, port = served(stage)
    with server:
        path, _ = configured(stage, "2")
        path.write_text(path.read_text().replace("workers = 4", 'workers = "many"'))
        os.kill(server.pid, signal.SIGHUP)
        said = rig.wait_for(lambda: "workers" in server.log.read_text(), 3)
        check(said, f"the log does not name the setting:\n{server.tail()}")
        check(get(port, "/plain.txt").value("x-version") == "1", "the wrong configuration was taken over")
        check(get(port, "/pid.php").status == 200, "PHP afterwards")


def reload_php(stage):
    """A changed ini value reaches PHP, without a failed request."""
    server, port = served(stage)
    with server:
        hammer = Hammer(port, "/pid.php?us=1000")
        before = get(port, "/pid.php").body
        path, _ = configured(stage, "2")
        path.write_text(path.read_text().replace("workers = 4", "workers = 2\nmax_requests = 1000"))
        os.kill(server.pid, signal.SIGHUP)
        time.sleep(1)
        after = {get(port, "/pid.php").body for _ in range(6)}
        hammer.done = True
        hammer.join(40)
        check(not hammer.faults, f"{hammer.faults}")
        check(before and after, "no answers")


def sighup_storm(stage):
    """Many SIGHUPs at once end in one good state."""
    server, port = served(stage)
    with server:
        for _ in range(50):
            os.kill(server.pid, signal.SIGHUP)
        configured(stage, "9")
        os.kill(server.pid, signal.SIGHUP)
        good = rig.wait_for(lambda: get(port, "/plain.txt").value("x-version") == "9", 5, 0.1)
        check(good, "the last configuration is not in force")
        check(get(port, "/pid.php").status == 200, "PHP afterwards")


def port_taken(stage):
    """A taken port is said at once, with exit status other than 0."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [rig.program("millrace"), "serve", stage.site, "--listen", f"127.0.0.1:{taken.getsockname()[1]}"]
        with rig.Process(command, stage.folder / "millrace.log") as server:
            rig.wait_for(lambda: server.child.poll() is not None, 5)
            check(server.child.returncode not in (None, 0), f"exit status {server.child.returncode}")
            check(str(taken.getsockname()[1]) in server.tail(), f"the message does not name the address: {server.tail()}")


TESTS = [drain, drain_of_a_download, grace_ends, second_sigterm, reload_under_load, wrong_reload, reload_php, sighup_while_starting, sighup_storm, port_taken]
