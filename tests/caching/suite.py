"""Running http-cache-tests, and what its results mean."""

import collections
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import rig  # noqa: E402

SECONDS = 200  # the suite as a whole: it takes about 60
GOOD = {"required": {"pass"}, "optimal": {"pass"}, "check": {"yes", "no"}}


def packages():
    """The folder of the npm packages, fetched if they aren't there yet. Exits if they can't be had."""
    rig.needed("node", "npm")
    fetched = subprocess.run([HERE / "fetch", rig.REPOSITORY / "target" / "outside"], stdout=subprocess.PIPE, text=True)
    if fetched.returncode != 0:
        sys.exit("not ok fetch: http-cache-tests could not be fetched from npm")
    return fetched.stdout.strip()


def run(port, tests=(), pause=0, sources=None):
    """Runs the suite, or some tests with what they depend on; {test: {"suite", "kind", "name", "result", "why"}}.

    `pause`: milliseconds before each request; `sources`: the folder of another version of the suite."""
    words = ["node", "--no-warnings", HERE / "drive.mjs", sources or packages(), f"http://127.0.0.1:{port}", str(pause), *tests]
    done = subprocess.run(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=SECONDS)
    if done.returncode != 0:
        sys.exit(f"not ok http-cache-tests: ended with status {done.returncode}")
    return json.loads(done.stdout)


def good(found):
    """Whether the result of a test is as it should be; a `check` only asks how it is."""
    return found["result"] in GOOD[found["kind"]] or (found["kind"] == "check" and found["result"] == "dependency failed")


def counts(results):
    """{kind: {result: how many}}."""
    table = collections.defaultdict(collections.Counter)
    for found in results.values():
        table[found["kind"]][found["result"]] += 1
    return table
