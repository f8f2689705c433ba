"""How runs end: at the breaking point, by the search for what holds, when they are interrupted in any phase, when they are killed."""

import signal
import subprocess

from harness import PATIENCE, command, load, story, until, written
from liar import CROWD, Liar


def interrupted(words, when, what):
    """Runs it until `when`, sends Ctrl-C, and waits for its end, which is a good one."""
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        until(lambda: when() or running.poll() is not None, what)
        assert running.poll() is None, f"it ended by itself: {running.communicate()}"
        running.send_signal(signal.SIGINT)
        out, said = running.communicate(timeout=PATIENCE)
    finally:
        running.kill()
    assert running.returncode == 0 and "it was interrupted" in out, (running.returncode, out, said)


@story
def what_holds_is_searched_for():
    url = f"http://127.0.0.1:{Liar().port}/crowded"
    run = load(url, "--ramp", "0:100:4s", "--break", "5%", "--window", "1s", "--bisect")
    trials, answer = run["bisection"][:-1], run["bisection"][-1]
    assert run["outcome"]["end"] == "broken" and len(trials) > 2, run["bisection"]
    # All trials that held were of the crowd that the server bears; so is the answer, and more is not far.
    assert all(trial["held"] == (trial["load"] <= CROWD) for trial in trials), trials
    assert CROWD * 0.9 <= answer["load"] <= CROWD and answer["held"], answer


@story
def interrupted_in_quiet():
    server = Liar()
    words, file = command(f"http://127.0.0.1:{server.port}/silent", "--time", "10m")
    interrupted(words, lambda: server.lines, "a request in quiet")
    run = written(file)
    assert run["outcome"]["end"] == "interrupted", run["outcome"]


@story
def interrupted_while_the_last_ones_are_waited_for():
    server = Liar()
    words, file = command(f"http://127.0.0.1:{server.port}/hang", "--rate", "20", "--time", "1s", "--timeout", "10m", "--no-sameness")
    interrupted(words, lambda: server.asked >= 20, "20 arrivals")
    run = written(file)
    assert run["outcome"]["end"] == "interrupted" and run["total"]["begun"] == 20, run["total"]


@story
def interrupted_in_the_search():
    server = Liar()
    url = f"http://127.0.0.1:{server.port}/crowded"
    words, file = command(url, "--rounds", "80", "--time", "1s", "--break", "5%", "--window", "1s", "--bisect", "--timeout", "1s")
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    try:
        # Half of the users are those of the first trial.
        until(lambda: server.asked > 100 and 30 <= server.here <= 50, "the first trial")
        running.send_signal(signal.SIGINT)
        running.wait(PATIENCE)
    finally:
        running.kill()
    run = written(file)
    assert running.returncode == 0 and run["outcome"]["end"] == "broken" and run["total"]["failed"] > 0, run["outcome"]


@story
def killed_runs_keep_the_stages_that_are_through():
    words, file = command(f"http://127.0.0.1:{Liar().port}/ok", "--ramp", "=2:1s,=2:10m")
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    try:
        until(file.exists, "results of the first stage")
        until(lambda: file.stat().st_size > 0, "results of the first stage")
    finally:
        running.kill()
        running.wait(PATIENCE)
    run = written(file)
    assert run["outcome"]["end"] == "running" and run["stages"][0]["summary"]["ok"] > 0, run["outcome"]


@story
def counted_requests_are_made_and_no_more():
    # The server closes each connection after seven requests, whatever else has been sent on it.
    for options in (("--pipeline", "10", "-u", "3"), ("--pipeline", "100", "-u", "1"), ("-u", "3")):
        server = Liar()
        run = load(f"http://127.0.0.1:{server.port}/seven", "-n", "300", "--no-sameness", *options)
        total = run["total"]
        assert (total["ok"], total["begun"], total["failed"], run["outcome"]["end"]) == (300, 300, 0, "count"), (options, total)


@story
def requests_or_time_whatever_is_first():
    run = load(f"http://127.0.0.1:{Liar().port}/ok", "-n", "100000000", "--time", "1s", "-u", "1")
    assert run["outcome"]["end"] == "complete" and run["elapsed_seconds"] == 1, run["outcome"]
