"""How runs end: at the breaking point, by the search for what holds, when they are interrupted in any phase, when they are killed."""

import signal
import subprocess
import time

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
    assert running.returncode == 0 and "Ended         interrupted" in out, (running.returncode, out, said)


@story
def what_holds_is_searched_for():
    url = f"http://127.0.0.1:{Liar().port}/crowded"
    run = load(url, "--ramp", "0:100:4s", "--break", "5%", "--window", "1s", "--bisect")
    trials, answer = run["bisection"][:-1], run["bisection"][-1]
    assert run["outcome"]["end"] == "broken" and len(trials) > 2, run["bisection"]
    # A busy machine may let the server break sooner, or hold a user more than it should: what was tried has to agree with the answer.
    held = [trial["load"] for trial in trials if trial["held"]]
    assert answer["load"] == max(held, default=0) and answer["held"] == bool(held), run["bisection"]
    assert answer["load"] < min(trial["load"] for trial in [*trials, run["outcome"]["breaking_point"]] if not trial.get("held")), run["bisection"]
    assert answer["load"] <= CROWD * 1.5, answer


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
    begun = time.monotonic()
    interrupted(words, lambda: server.asked >= 5 and time.monotonic() > begun + 2, "arrivals, and that there are no more of them")
    run = written(file)
    assert run["outcome"]["end"] == "interrupted" and 5 <= run["total"]["begun"] <= 20, run["total"]


@story
def interrupted_in_the_search():
    server = Liar()
    url = f"http://127.0.0.1:{server.port}/crowded"
    words, file = command(url, "--rounds", "80", "--time", "1s", "--break", "5%", "--window", "1s", "--bisect", "--timeout", "1s")
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    try:
        # The first trial is half of the users.
        until(lambda: server.here > 60, "users")
        until(lambda: server.here <= 50, "fewer users")
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
        until(lambda: has_text(file), "results of the first stage")
    finally:
        running.kill()
        running.wait(PATIENCE)
    run = written(file)
    assert run["outcome"]["end"] == "running" and run["stages"][0]["summary"]["ok"] > 0, run["outcome"]


def has_text(file):
    try:
        return file.stat().st_size > 0
    except FileNotFoundError:
        return False


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
