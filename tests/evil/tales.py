"""What takes more than one script: each is played with the neighbours watching."""

import os
import shutil
import socket
import threading
import time

import raw
import rig
from neighbours import form, head
from stage import USER, check, owner, together


def put(stage, name, code):
    """Writes a script of the evil site."""
    file = stage.folder / "evil" / name
    file.write_text("<?php " + code + "\n")
    return file


def who_goes_first(stage):
    """If the machine runs out of memory, the kernel takes a worker before the server."""
    def score(pid):
        with open(f"/proc/{pid}/oom_score_adj") as f:
            return int(f.read())

    worker = int(stage.get("/pid.php").body)
    check(score(worker) > score(stage.server.pid), f"worker {score(worker)}, server {score(stage.server.pid)}")


def one_session(stage):
    """Requests of one session wait for one another, and others don't wait for them."""
    put(stage, "session.php", f"session_save_path('{stage.folder}/evil'); session_id('one'); session_start(); usleep(100000); echo $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;")
    found = together(stage.port, "evil.test", "/session.php", 6)
    check(sorted(found) == [(200, b"%d" % n) for n in range(1, 7)], f"{found}")
    stage.whole()


def files_that_are_none(stage):
    """FIFOs, sockets, loops and devices in the site, where a file is asked for: opening one must hold up nobody."""
    folder = stage.folder / "evil"
    for name in ("fifo.txt", "fifo.php"):
        os.mkfifo(folder / name)
    (folder / "loop.txt").symlink_to("loop.txt")
    (folder / "zero.txt").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(folder / "socket.txt"))
    for name, expected in (("fifo.txt", (403, 404)), ("fifo.php", (403, 404, 500, 504)), ("loop.txt", (403, 404)), ("zero.txt", (403, 404)), ("socket.txt", (403, 404))):
        answer = stage.get("/" + name, "evil.test")
        check(answer and answer.status in expected, f"{name}: {answer and answer.status}")
    stage.whole()


def a_file_that_shrinks(stage):
    """A file is cut while it is sent: that answer breaks off, and nothing else happens."""
    file = stage.folder / "evil/large.bin"
    with open(file, "wb") as f:
        f.truncate(512 << 20)
    with raw.Wire(("127.0.0.1", stage.port), 30) as wire:
        wire.send(head("GET", "evil.test", "/large.bin"))
        wire.fill()
        put(stage, "cut.php", f"echo var_export(@ftruncate(fopen('{file}', 'c'), 1000), true);")
        os.chmod(file, 0o666)
        check(stage.get("/cut.php", "evil.test").body == b"true", "it was not cut")
        seen = 0
        while wire.fill():
            seen += len(wire.buffer)
            wire.buffer = b""
        check(seen < 512 << 20, f"{seen} bytes came all the same")
    file.unlink()
    stage.whole()


def a_script_that_deletes_itself(stage):
    """It answers, and is not found afterwards."""
    file = put(stage, "delete.php", "unlink(__FILE__); echo 'said';")
    check(stage.get("/delete.php", "evil.test").body == b"said", "it did not answer")
    check(not file.exists(), "it is still there")
    end = time.monotonic() + 20
    while stage.get("/delete.php", "evil.test").status != 404:
        check(time.monotonic() < end, "it is still served")
        time.sleep(0.1)


def somebody_elses_port(stage):
    """A script tries to listen where the server does: then it would get the others' requests."""
    put(stage, "hijack.php", f"""
        $s = socket_create(AF_INET, SOCK_STREAM, SOL_TCP); socket_set_option($s, SOL_SOCKET, SO_REUSEPORT, 1); socket_set_option($s, SOL_SOCKET, SO_REUSEADDR, 1);
        if (!@socket_bind($s, '127.0.0.1', {stage.port}) || !@socket_listen($s, 100)) exit('refused');
        echo 'listens'; fastcgi_finish_request(); usleep(500000);""")
    said = stage.get("/hijack.php", "evil.test").body
    # The same user may: the kernel gives a shared port to whoever has the user id of its first owner.
    check(said == b"refused" or not owner(), f"it {said.decode()}")
    if said != b"refused":
        time.sleep(0.6)


def signals_for_the_server(stage):
    """As another user it can't end the server."""
    put(stage, "parent.php", "$h = posix_getppid(); preg_match('/^PPid:\\s*(\\d+)/m', file_get_contents(\"/proc/$h/status\"), $m); echo $m[1], ' ', var_export(posix_kill((int) $m[1], $_GET['signal']), true);")
    if not owner():
        print(f"# the server and PHP have the same user: signals for the server are not tried; root tries them, with user {USER}", flush=True)
        return
    for signal in (9, 15, 19):
        said = stage.get(f"/parent.php?signal={signal}", "evil.test").body
        check(said == f"{stage.server.pid} false".encode(), f"signal {signal}: {said}")


def output_without_end(stage):
    """More than anybody keeps, to a client that reads as fast as it can until it leaves: a script that goes on sending has no other end."""
    put(stage, "pour.php", "set_time_limit(0); while (ob_get_level()) ob_end_clean(); while (true) echo str_repeat('x', 1 << 20);")
    before = most = memory(stage)
    with socket.create_connection(("127.0.0.1", stage.port), 30) as sock:
        sock.sendall(head("GET", "evil.test", "/pour.php", "Connection: close"))
        buffer, seen = bytearray(1 << 20), 0
        while seen < 400 << 20 and (got := sock.recv_into(buffer)):
            seen += got
            most = max(most, memory(stage))
    check(seen > 20 << 20, f"only {seen} bytes")
    check(most - before < 32 << 20, f"the server took {(most - before) >> 20} MB more")
    stage.whole()


def memory(stage):
    """The server's resident memory, bytes."""
    with open(f"/proc/{stage.server.pid}/statm") as f:
        return int(f.read().split()[1]) * 4096


def a_page_that_asks_for_itself(stage):
    """Without end: each of its requests waits for the next, and goes on when the one before was ended."""
    file = put(stage, "self.php", f"echo 1 + (int) @file_get_contents('http://127.0.0.1:{stage.port}/self.php', false, stream_context_create(['http' => ['timeout' => 60]]));")
    begin = time.monotonic()
    answer = stage.get("/self.php", "evil.test")
    check(answer and answer.status in (200, 504), f"{answer and answer.status}")
    check(time.monotonic() - begin < 20, f"after {time.monotonic() - begin:.1f} s")
    file.unlink()
    stage.whole()


def the_spool_folder_is_gone(stage):
    """An upload that needs it succeeds or fails by itself; when it is back uploads go on."""
    spool, away = stage.folder / "spool", stage.folder / "spool-away"
    large = b"text=" + b"x" * (3 << 20)

    def upload():
        with raw.Wire(("127.0.0.1", stage.port), 30) as wire:
            wire.send(form("near.test", "/length.php", large))
            return wire.answer()

    (stage.folder / "near/length.php").write_text("<?php echo strlen($_POST['text']);\n")
    check(upload().status == 200, "an upload before")
    shutil.move(spool, away)
    answer = upload()
    check(answer is not None and answer.status in (200, 500, 503, 507), f"{answer and answer.status}")
    if spool.exists():
        spool.rmdir()
    shutil.move(away, spool)
    answer = upload()
    check((answer.status, answer.body) == (200, b"%d" % (3 << 20)), f"an upload afterwards: {answer.status}")


def loops_beside_a_crowd(stage):
    """Endless loops, as many as the machine has cores and one more, in a pool that finds out how many may run at once: they are
    not to be those. This has a server of its own, with a time-out that is as good as none."""
    if stage.workers == 1:
        return
    site = stage.folder / "crowd"
    site.mkdir()
    (site / "loop.php").write_text("<?php set_time_limit(0); while (true) { }\n")
    (site / "work.php").write_text("<?php for ($i = 0, $s = 0; $i < 300000; $i++) $s += $i; echo 'worked';\n")
    settings = {"php.workers": 8, "php.request_timeout": "5m", "cache.mode": "off", "server.shutdown_grace": "100ms"}
    with rig.Millrace(site, site, profile="generic", settings=settings) as server:
        loops = [raw.Wire(("127.0.0.1", server.port), 300) for _ in range(os.cpu_count() + 1)]
        for loop in loops:
            loop.send(head("GET", "a.test", "/loop.php"))
        over, served = threading.Event(), []

        def crowd():
            while not over.is_set():
                for status, body in together(server.port, "a.test", "/work.php", 1):
                    if (status, body) == (200, b"worked"):
                        served.append(body)
                time.sleep(0.01)

        threads = [threading.Thread(target=crowd, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(5)
        before = len(served)
        enough = rig.wait_for(lambda: len(served) >= before + 20, 6)
        over.set()
        for thread in threads:
            thread.join(60)
        for loop in loops:
            loop.close()
        check(enough, f"only {len(served) - before} answers beside {len(loops)} endless loops; before: {before}")


ALL = [
    who_goes_first, one_session, files_that_are_none, a_file_that_shrinks, a_script_that_deletes_itself, somebody_elses_port, signals_for_the_server,
    output_without_end, loops_beside_a_crowd, a_page_that_asks_for_itself, the_spool_folder_is_gone,
]  # fmt: skip


def the_host_is_out_of_reach(stage):
    """With the sandbox a signal for the host, for the server or for another worker does not arrive."""
    put(stage, "reach.php", "$h = posix_getppid(); echo $h, ' ', var_export(posix_kill($h, 9), true), ' ', var_export(posix_kill($h, 19), true), ' ', var_export(posix_kill($h, 0), true);")
    host = stage.get("/reach.php", "evil.test").body.split()[0]
    said = stage.get("/reach.php", "evil.test").body
    # That there is such a process is no secret.
    check(said == host + b" false false true", f"{said}")


WITH_SANDBOX = [the_host_is_out_of_reach]
