"""Redirects are followed where a browser would, and logging in works by them."""

from harness import load, place, story
from liar import Liar

LOG_IN = """
cookies = true
[[step]]
get = "/login"
extract = { token = { between = ['value="', '"'] } }
[[step]]
post = "/login"
form = { user = "me", token = "{token}" }
check = { status = 200, text = "welcome" }
[[step]]
post = "/comment"
form = { text = "all good & well" }
check = { status = 303 }
[[step]]
get = "/inside?list"
check = { text = "all good & well" }
"""


@story
def pages_follow_redirects():
    server = Liar()
    run = load(f"http://127.0.0.1:{server.port}/hop/3", "--page", "-n", "8", "-u", "1")
    total = run["total"]
    # Three hops lead to the page, which has four parts.
    assert (total["pages"], total["redirects"], total["failed"]) == (1, 3, 0), total
    assert total["statuses"] == {"200": 5, "302": 3}, total["statuses"]


@story
def one_url_is_what_it_is_unless_asked_otherwise():
    server = Liar()
    url = f"http://127.0.0.1:{server.port}/hop/2"
    total = load(url, "-n", "6", "-u", "2")["total"]
    assert (total["ok"], total["redirects"], total["statuses"]) == (6, 0, {"302": 6}), total
    for options in (("-u", "2"), ("--rate", "50", "--connections", "1", "--no-keep-alive"), ("-u", "1", "--no-keep-alive")):
        total = load(url, "--redirects", "5", "-n", "9", *options)["total"]
        # Who was redirected queues for a connection behind those who came meanwhile.
        least = 0 if "--rate" in options else 2
        assert (total["ok"], total["failed"]) == (9, 0) and total["statuses"].get("200", 0) >= least, (options, total)
        assert total["redirects"] >= 2 * total["statuses"].get("200", 0) and total["redirects"] >= 6, (options, total)


@story
def circles_and_other_servers_are_no_pages():
    run = load(f"http://127.0.0.1:{Liar().port}/circle", "--page", "-n", "11", "-u", "1")
    total = run["total"]
    assert (total["redirects"], total["failures"], total["pages"]) == (10, {"status_other": 1}, 0), total
    assert any("many redirects" in note for note in run["notes"]), run["notes"]
    run = load(f"http://127.0.0.1:{Liar().port}/away", "--page", "-n", "2", "-u", "1")
    assert run["total"]["failures"] == {"status_other": 2} and run["total"]["pages_failed"] == 2, run["total"]
    assert any("http://elsewhere.test/there" in note for note in run["notes"]), run["notes"]


@story
def who_logs_in_is_led_inside():
    server = Liar()
    run = load(f"http://127.0.0.1:{server.port}", "--scenario", place(".toml", LOG_IN), "-n", "15", "-u", "1")
    total = run["total"]
    # Five requests: the third is where the second leads.
    assert (total["ok"], total["failed"], total["flows"], total["redirects"]) == (15, 0, 3, 3), (total, run["notes"])
    assert server.comments == ["all good & well"] * 3, server.comments
