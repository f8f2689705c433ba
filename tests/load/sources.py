"""Where scenarios come from, and where they go: sitemaps, access logs, recordings, k6."""

import json
import subprocess

from harness import MILLRACE, PATIENCE, load, place, story
from liar import Liar

LOG = '''1.2.3.4 - - [22/Nov/2026:06:28:25 +0000] "GET /ok/a HTTP/1.1" 200 35 "-" "x"
1.2.3.4 - - [22/Nov/2026:06:28:25 +0000] "HEAD /ok/b HTTP/1.1" 200 0 "-" "x"
::1 - - [22/Nov/2026:07:28:27 +0100] "GET /ok/c?d HTTP/1.1" 200 35 "-" "x"
::1 - - [22/Nov/2026:06:28:26 +0000] "POST /login HTTP/1.1" 302 0 "-" "-"
'''


@story
def replays_keep_their_pace():
    server = Liar()
    run = load(f"http://127.0.0.1:{server.port}", "--replay", place(".log", LOG), "--speed", "2", "--no-sameness")
    assert run["total"]["ok"] == 3 and run["description"]["open"], run["total"]
    before, after = (next(at for at, line in server.lines if line == wanted) for wanted in ("GET /ok/a", "GET /ok/c?d"))
    # Two seconds in the log. They may come late, but not early.
    assert after - before >= 0.99, after - before
    assert [line for _, line in server.lines if line.startswith("HEAD")] == ["HEAD /ok/b"], server.lines


@story
def indexes_of_sitemaps_are_followed():
    server = Liar()
    for where in (f"http://127.0.0.1:{server.port}/index.xml", place(".xml", server.index())):
        server.lines.clear()
        run = load(f"http://127.0.0.1:{server.port}", "--sitemap", where, "-n", "40", "-u", "2", "--no-sameness")
        assert run["total"]["ok"] == 40, run["total"]
        asked = {line for _, line in server.lines}
        pages = {"GET /ok/one", "GET /ok/two", "GET /ok/three"}
        assert pages <= asked and asked - pages <= {"GET /index.xml", "GET /pages/1.xml", "GET /pages/2.xml"}, asked


@story
def recordings_are_played_again():
    server = Liar()
    origin = f"http://127.0.0.1:{server.port}"

    def entry(second, method, path, kind, **more):
        request = {"method": method, "url": origin + path, "headers": [{"name": "X-Step", "value": str(second)}], **more}
        return {"startedDateTime": f"2026-11-22T06:28:{second:02}.000Z", "request": request, "_resourceType": kind, "response": {}}

    posted = {"postData": {"text": "user=me&token=t"}}
    # Half a second between them would be a thought.
    entries = [entry(1, "GET", "/page", "document"), entry(1, "GET", "/css", "stylesheet"), entry(1, "POST", "/login", "fetch", **posted)]
    recording = place(".har", json.dumps({"log": {"entries": entries}}))
    run = load("--from-har", recording, "-n", "6", "-u", "1")
    total = run["total"]
    # The page with its four parts, and what the script sent; where that leads, a recording says itself.
    assert (total["pages"], total["ok"], total["statuses"]) == (1, 6, {"200": 5, "302": 1}), total
    assert server.lines[-1][1] == "POST /login", server.lines


STUBS = """const asked = [], jar = {};
const answer = (body) => ({ status: 200, body, headers: {}, cookies: {}, html: () => ({ find: () => ({ each() {} }) }) });
const http = { request(...all) { asked.push(all); return answer('value="7"'); }, batch: () => [], cookieJar: () => ({ clear() {} }) };
const check = (it, all) => Object.values(all).every((one) => one(it)), sleep = () => {};
"""


BUYER = """
[[flow]]
name = "visitor"
[[flow.step]]
get = "/shop"
[[flow]]
name = "buyer"
[[flow.step]]
get = "/shop"
page = true
extract = { product = { regex = 'data-product_id="([0-9]+)"' } }
[[flow.step]]
post = "/add"
form = { product_id = "{product}" }
check = { text = "cart_hash" }
"""


@story
def values_are_extracted_from_pages_that_are_loaded_whole():
    server = Liar()
    origin = f"http://127.0.0.1:{server.port}"
    for options in ((), ("--browser-cache",)):
        run = load(origin, "--scenario", place(".toml", BUYER), "-n", "120", "-u", "2", *options)
        assert run["total"]["failed"] == 0 and run["total"]["pages"] > 0, (run["total"], run["steps"])
        names = [step["name"] for step in run["steps"]]
        assert names[0] == "visitor: GET /shop" and names[2] == "buyer 2: POST /add" and names[-1] == "what pages need", names
        assert sum(step["ok"] for step in run["steps"]) == run["total"]["ok"], run["steps"]


@story
def wrong_content_names_step_and_url():
    wrong = BUYER.replace("([0-9]+)", "([a-z]+)")
    run = load(f"http://127.0.0.1:{Liar().port}", "--scenario", place(".toml", wrong), "-n", "60", "-u", "2")
    [step] = [step for step in run["steps"] if step["wrong"]]
    assert step["name"] == "buyer 1: GET /shop" and step["failures"]["wrong_content"] == step["failed"] > 0, step
    assert step["wrong"][0]["expected"] == "a value for `product`", step
    assert not any("POST" in step["name"] for step in run["steps"]), run["steps"]
    run = load(f"http://127.0.0.1:{Liar().port}", "--scenario", place(".toml", BUYER.replace("{product}", "1")), "-n", "60", "-u", "2")
    [step] = [step for step in run["steps"] if step["wrong"]]
    assert step["wrong"] == [{"target": "/add", "expected": 'the text "cart_hash"', "found": '24 bytes: "there is no such product"'}], step


@story
def scripts_for_k6_do_the_same():
    scenario = place(".toml", """
[[step]]
get = "/login?a=1"
page = true
extract = { token = { between = ['value="', '"'] } }
[[step]]
post = "/login"
form = { token = "{token}" }
""")
    words = [MILLRACE, "load", "http://127.0.0.1:1", "--scenario", str(scenario), "--export", "k6", "--rates", "0:10:5s,=10:5s"]
    script = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    assert "'ramping-arrival-rate'" in script and "duration: '5000ms', target: 10" in script, script
    own = "\n".join(line for line in script.split("\n") if not line.startswith("import "))
    tried = place(".mjs", STUBS + own.replace("export default function", "function main") + "main(); console.log(JSON.stringify(asked));")
    ran = subprocess.run(["node", str(tried)], capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr
    asked = [(method, url, body) for method, url, body, _ in json.loads(ran.stdout)]
    assert asked == [("GET", "http://127.0.0.1:1/login?a=1", None), ("POST", "http://127.0.0.1:1/login", "token=7")], asked
