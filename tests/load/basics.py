"""What servers do and say, told for what it is; and what users do."""

import signal
import socket
import subprocess
import time

from harness import MILLRACE, PATIENCE, STORIES, command, load, story, written
from liar import Liar


def lies(lie, kind, *options):
    """A story: 12 requests, all of which fail, and as `kind`."""
    def tell():
        run = load(f"http://127.0.0.1:{Liar().port}/{lie}", "-n", "12", "-u", "4", *options)
        total = run["total"]
        assert total["failures"] == {kind: 12}, f"{total['failures']}, not 12 {kind}; notes: {run['notes']}"
        assert total["ok"] == 0 and run["outcome"]["end"] == "count", run["outcome"]
    STORIES[f"{lie} is {kind}"] = tell


lies("truncate", "short_body")
lies("surplus", "wrong_length")
lies("longer", "wrong_length")
lies("other", "wrong_content")
lies("coded", "wrong_content")
lies("reset", "reset")
lies("close", "reset")
lies("hang", "timeout", "--timeout", "1s")
lies("drip", "timeout", "--timeout", "1s")
lies("garbage", "bad_http")
lies("chunks", "bad_http")
lies("missing", "status_4xx")
lies("broken", "status_5xx")


@story
def nobody_there_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        run = load(f"http://127.0.0.1:{taken.getsockname()[1]}/", "-n", "5", "-u", "2")
    assert run["total"]["failures"] == {"refused": 5}, run["total"]["failures"]


@story
def no_tls_is_a_failure_of_tls():
    run = load(f"https://127.0.0.1:{Liar().port}/garbage", "-n", "5", "-u", "2")
    assert run["total"]["failures"] == {"tls": 5}, run["total"]["failures"]


@story
def the_truth_is_all_right():
    for options in ((), ("--no-keep-alive",), ("--pipeline", "4")):
        server = Liar()
        run = load(f"http://127.0.0.1:{server.port}/ok", "-n", "200", "-u", "4", "--text", "as long", *options)
        total = run["total"]
        assert (total["ok"], total["failed"], total["statuses"]) == (200, 0, {"200": 200}), (options, total)
        # The last users may come too late for a request.
        expected = (200,) if "--no-keep-alive" in options else range(1, 5)
        assert total["connects"] in expected, (options, total["connects"])


@story
def checks_are_kept():
    run = load(f"http://127.0.0.1:{Liar().port}/ok", "-n", "6", "--text", "something else")
    assert run["total"]["failures"] == {"wrong_content": 6}, run["total"]
    run = load(f"http://127.0.0.1:{Liar().port}/missing", "-n", "6", "--status", "404", "--no-sameness")
    assert run["total"]["ok"] == 6, run["total"]


@story
def the_exit_status_says_whether_thresholds_held():
    url = f"http://127.0.0.1:{Liar().port}/ok"
    for conditions, status, said in (
        ((), 0, ""),
        (("errors>1%", "p99>1h", "rate<0.001"), 0, ""),
        (("p50>0s",), 1, "failed: p50>0s (it is "),
        (("errors>1%", "rate<1000000"), 1, "failed: rate<1000000 (it is "),
    ):
        options = [word for condition in conditions for word in ("--fail-if", condition)]
        done = subprocess.run([MILLRACE, "load", url, "-n", "20", *options], capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
        assert done.returncode == status and said in done.stderr, (conditions, done.returncode, done.stderr)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        done = subprocess.run([MILLRACE, "load", url, "-n", "5"], capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    assert done.returncode == 1 and "no request succeeded (5 connection refused)" in done.stderr, (done.returncode, done.stderr)


@story
def pages_that_are_made_again_meanwhile_are_right():
    run = load(f"http://127.0.0.1:{Liar().port}/purged", "-n", "200", "-u", "2")
    assert (run["total"]["ok"], run["total"]["failed"]) == (200, 0), run["total"]
    assert sum(second["ok"] for second in run["seconds"]) == 200 and run["stages"][0]["summary"]["ok"] == 200, run["seconds"]
    assert run["steps"][0]["ok"] == 200 and any("was made again during the test" in note for note in run["notes"]), (run["steps"], run["notes"])


@story
def open_arrivals_wait_for_nobody():
    # The server stands still for a second: of 200 arrivals a second, 200 are due meanwhile, and wait half a second on average. A tester that
    # waits for responses before it goes on would have seen a handful.
    run = load(f"http://127.0.0.1:{Liar().port}/pause", "--rate", "200", "--time", "3s", "--connections", "8")
    times = run["total"]["last_byte"]
    assert times["count"] == 600 and run["total"]["failed"] == 0, run["total"]
    assert times["p90_us"] > 300_000, times


@story
def pages_come_with_what_they_need():
    run = load(f"http://127.0.0.1:{Liar().port}/page", "--page", "-n", "60", "-u", "2")
    total = run["total"]
    # The page, a style sheet and its picture, a script, a picture; the last ones may be cut off by the count.
    assert total["pages"] in (11, 12) and total["failed"] == 0, total
    run = load(f"http://127.0.0.1:{Liar().port}/page", "--page", "--browser-cache", "-n", "50", "-u", "1")
    assert run["total"]["cached"] > 0 and run["total"]["failed"] == 0, run["total"]


@story
def users_keep_their_cookies():
    server = Liar()
    run = load(f"http://127.0.0.1:{server.port}/cookie", "--cookies", "-n", "30", "-u", "3")
    assert run["total"]["ok"] == 30, run["total"]
    # Those in quiet, and the first of each user, have none; the last user may find that all requests are taken.
    assert 27 <= server.seen.count(True) <= 29, server.seen


@story
def the_breaking_point_is_found():
    url = f"http://127.0.0.1:{Liar().port}/crowded"
    run = load(url, "--ramp", "0:100:20s", "--break", "5%", "--window", "1s")
    point = run["outcome"]["breaking_point"]
    assert run["outcome"]["end"] == "broken" and "5xx" in point["why"], run["outcome"]
    assert 15 <= point["load"] <= 90, point


@story
def interrupted_runs_have_their_results():
    words, file = command(f"http://127.0.0.1:{Liar().port}/ok", "-u", "2", "--time", "10m")
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        time.sleep(2)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=PATIENCE)
    finally:
        running.kill()
    assert running.returncode == 0, said
    run = written(file)
    assert run["outcome"]["end"] == "interrupted" and run["total"]["ok"] > 0, run["outcome"]


@story
def rounds_are_stages():
    run = load(f"http://127.0.0.1:{Liar().port}/ok", "--rounds", "1,3", "--time", "1s")
    rounds = [(stage["round"], stage["to"], stage["summary"]["ok"] > 0) for stage in run["stages"]]
    assert rounds == [(True, 1, True), (True, 3, True)], rounds


@story
def strangers_are_not_loaded():
    done = subprocess.run([MILLRACE, "load", "http://192.0.2.1/"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "--i-own-this-target" in done.stderr, done
