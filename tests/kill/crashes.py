"""PHP dies: workers and the host, idle and at work, by others' hands and their own."""

import os
import signal
import time

import raw
import rig
from stage import WORKERS, Later, alive, check, check_calm, check_whole, get, php_host, php_workers


def worker_killed_in_a_post(stage):
    """The request that it ran gets 502, the others finish, and the pool is whole within a second."""
    with stage.serve() as server:
        get(server.port, "/pid.php")
        struck = Later(server.port, "/slow.php?ms=60000", method="POST", fields=["Content-Length: 0"])
        victim = int(stage.began_lines()[0])
        others = [Later(server.port, "/pid.php?us=700000") for _ in range(WORKERS - 1)]
        time.sleep(0.2)
        os.kill(victim, signal.SIGKILL)
        check(struck.result() == 502, f"the request whose worker was killed got {struck.outcome}")
        check_whole(server)
        check([o.result() for o in others] == [200] * 3, f"other requests got {[o.outcome for o in others]}")
        check(len(stage.began_lines()) == 1, "a POST was run twice")
        check_calm(server)


def worker_killed_in_a_get(stage):
    """Nothing was sent and GET is idempotent: it is run again on another worker."""
    with stage.serve() as server:
        struck = Later(server.port, "/first.php")
        victim = int(stage.began_lines()[0])
        os.kill(victim, signal.SIGKILL)
        check(struck.result() in (200, 502), f"the request got {struck.outcome}")
        runs = len(stage.began_lines(2))
        check((struck.outcome, runs) in ((200, 2), (502, 1)), f"{struck.outcome} after {runs} runs")
        check_whole(server)


def worker_killed_after_output(stage):
    """The client must be able to tell that the answer is not whole; the script is not run again."""
    with stage.serve() as server:
        struck = Later(server.port, "/slow.php?ms=60000&early=1")
        victim = int(stage.began_lines()[0])
        time.sleep(0.2)
        os.kill(victim, signal.SIGKILL)
        check(str(struck.result()).startswith("broken"), f"the cut-off answer looked like {struck.outcome}, {struck.body!r}")
        check(len(stage.began_lines()) == 1, "the script ran again after it had sent something")
        check_whole(server)


def idle_workers_killed(stage):
    """No client notices."""
    with stage.serve() as server:
        get(server.port, "/pid.php")
        for pid in php_workers(server):
            os.kill(pid, signal.SIGKILL)
        outcomes = [Later(server.port, "/pid.php?us=1000").result() for _ in range(12)]
        check(outcomes == [200] * 12, f"{outcomes}")
        check_whole(server)


def script_that_always_dies(stage):
    """It is not run for ever: 502 after a few tries, then 500 without being run (php.crash_pause); others are served meanwhile."""
    with stage.serve() as server:
        for sig in (signal.SIGKILL, signal.SIGSEGV):
            stage.began.write_text("")
            outcome = Later(server.port, f"/deadly.php?signal={int(sig)}").result()
            check(outcome == 502, f"{sig.name}: {outcome}")
            check(len(stage.began_lines()) <= 3, f"{sig.name}: run {len(stage.began_lines())} times")
        storm = [Later(server.port, "/deadly.php?signal=9", method="POST", fields=["Content-Length: 0"]) for _ in range(30)]
        good = [Later(server.port, "/plain.txt") for _ in range(30)]
        check({g.result() for g in good} == {200}, "files were not served")
        check({s.result() for s in storm} <= {500, 502, 503}, f"{ {s.outcome for s in storm} }")
        check_whole(server)
        check_calm(server)


def host_killed_idle(stage):
    """A new host and new workers are there within a second; no client notices."""
    with stage.serve() as server:
        get(server.port, "/pid.php")
        old, workers = php_host(server), php_workers(server)
        os.kill(old, signal.SIGKILL)
        check(Later(server.port, "/pid.php").result() == 200, "the first request afterwards")
        check_whole(server)
        check(php_host(server) != old, "the host is the old one")
        check(rig.wait_for(lambda: not any(alive(w) for w in workers), 3), "workers of the dead host live on")


def host_killed_at_work(stage):
    """Running requests finish on the orphaned workers; new ones are served by new workers within a second."""
    with stage.serve() as server:
        get(server.port, "/pid.php")
        running = [Later(server.port, "/slow.php?ms=800", method="POST", fields=["Content-Length: 0"]) for _ in range(WORKERS)]
        stage.began_lines(WORKERS)
        workers = php_workers(server)
        os.kill(php_host(server), signal.SIGKILL)
        time.sleep(0.05)
        waiting = Later(server.port, "/pid.php")
        check({r.result() for r in running} == {200}, f"running requests got {[r.outcome for r in running]}")
        check(waiting.result() == 200, f"a request that came meanwhile got {waiting.outcome}")
        check_whole(server)
        check(len(stage.began_lines(WORKERS)) == WORKERS, "a POST was run twice")
        check(rig.wait_for(lambda: not any(alive(w) for w in workers), 3), "workers of the dead host live on")
        check_calm(server)


def host_killed_again_and_again(stage):
    """The server goes on starting hosts, and serves files all the while."""
    with stage.serve() as server:
        for _ in range(5):
            try:
                os.kill(php_host(server), signal.SIGKILL)
            except Exception:
                pass
            check(get(server.port, "/plain.txt").status == 200, "a file was not served")
            time.sleep(0.15)
        check(Later(server.port, "/pid.php").result() == 200, "PHP did not come back")
        check_whole(server)


def server_killed(stage):
    """Host and workers end by themselves: nothing is left behind."""
    server = stage.serve()
    get(server.port, "/pid.php")
    left = rig.children(server.pid)
    Later(server.port, "/slow.php?ms=300")
    stage.began_lines()
    server.stop(signal.SIGKILL)
    gone = rig.wait_for(lambda: not any(alive(p) for p in left), 3)
    check(gone, f"still there: {[p for p in left if alive(p)]}")


def worker_stopped(stage):
    """A worker that is stopped goes on at once: its host sees to that; and the server to the host."""
    with stage.serve({"php.request_timeout": "60s"}) as server:
        struck = Later(server.port, "/slow.php?ms=300", method="POST", fields=["Content-Length: 0"])
        os.kill(int(stage.began_lines()[0]), signal.SIGSTOP)
        others = [Later(server.port, "/pid.php?us=1000") for _ in range(8)]
        check({o.result() for o in others} == {200}, f"others got {[o.outcome for o in others]}")
        check(struck.result() == 200, f"the request of the stopped worker got {struck.outcome}")
        os.kill(php_host(server), signal.SIGSTOP)
        for worker in php_workers(server):
            os.kill(worker, signal.SIGSTOP)
        check_whole(server)


def recycling(stage):
    """Workers are replaced after so many requests; no client notices."""
    with stage.serve({"php.max_requests": 3}) as server:
        requests = [Later(server.port, "/pid.php?us=2000") for _ in range(80)]
        check({r.result() for r in requests} == {200}, f"{sorted(map(str, {r.outcome for r in requests}))}")
        check(len({r.body for r in requests}) > 15, "workers were not replaced")
        check_whole(server)


def endless_script(stage):
    """504 at the limit, and its worker is replaced."""
    with stage.serve({"php.request_timeout": "1s", "php.time_limit_max": "1s"}) as server:
        struck = Later(server.port, "/endless.php")
        # Without these settings it had five minutes.
        check(struck.result() == 504, f"{struck.outcome}")
        check_whole(server)


def full_queue(stage):
    """More than workers and queue can hold: 503 with Retry-After, at once; the rest is served."""
    with stage.serve({"php.workers": 1, "php.workers_start": 1, "php.workers_spare": 1, "php.queue": 2, "php.queue_wait": 0, "server.threads": 1}) as server:
        get(server.port, "/pid.php")
        first = Later(server.port, "/held.php")
        stage.began_lines()
        rest = [Later(server.port, f"/pid.php?us=1000&n={n}") for n in range(6)]
        refused = rig.wait_for(lambda: sum(r.outcome is not None for r in rest) >= 4, 20)
        check(refused, f"refusals wait for a worker: {[r.outcome for r in rest]}")
        stage.go.touch()
        outcomes = [r.result() for r in rest]
        check(first.result() == 200, f"the running request got {first.outcome}")
        check(outcomes.count(503) == 4 and outcomes.count(200) == 2, f"{outcomes}")


def queue_timeout(stage):
    """Who waits too long for a worker gets 503."""
    with stage.serve({"php.workers": 1, "php.workers_start": 1, "php.workers_spare": 1, "php.queue_timeout": "300ms", "php.queue_wait": 0}) as server:
        first = Later(server.port, "/held.php")
        stage.began_lines()
        second = Later(server.port, "/pid.php")
        # Without the setting it waited for 30 s.
        check(second.result() == 503 and 0.3 <= second.seconds < 15, f"{second.outcome} after {second.seconds:.1f} s")
        check(first.outcome is None, f"the running request has got {first.outcome}")
        stage.go.touch()
        check(first.result() == 200, f"{first.outcome}")


def client_gone(stage):
    """A script whose client has gone notices at its next output; its worker is free again."""
    with stage.serve() as server:
        for script, said in (("writer", "aborted 1"), ("ignore", "went on")):
            stage.began.write_text("")
            with raw.Wire(("127.0.0.1", server.port)) as wire:
                wire.send(f"GET /{script}.php HTTP/1.1\r\nHost: a.test\r\n\r\n".encode())
                wire.fill()
            check(stage.began_lines() == [said], f"{script}.php said {stage.began.read_text()!r}")
        check_whole(server)


TESTS = [
    worker_killed_in_a_post, worker_killed_in_a_get, worker_killed_after_output, idle_workers_killed, script_that_always_dies,
    host_killed_idle, host_killed_at_work, host_killed_again_and_again, server_killed, worker_stopped, recycling, endless_script,
    full_queue, queue_timeout, client_gone,
]  # fmt: skip
