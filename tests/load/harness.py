"""What all stories share: the program, its command line, and what it wrote, checked against the published schema."""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import schema

ROOT = Path(__file__).resolve().parents[2]
MILLRACE = os.environ.get("MILLRACE", str(ROOT / "target/release/millrace"))
SCRATCH = Path(tempfile.mkdtemp(prefix="millrace-load-"))
# However busy the machine is.
PATIENCE = 120
STORIES = {}


def story(function):
    STORIES[function.__name__] = function
    return function


def place(suffix, text=None):
    """A file of its own in the scratch folder."""
    file = SCRATCH / f"{time.monotonic_ns()}-{os.urandom(4).hex()}{suffix}"
    if text is not None:
        file.write_text(text)
    return file


def command(*options):
    """A command line, and the file that its results go to."""
    file = place(".json")
    return [MILLRACE, "load", *map(str, options), "--json", str(file)], file


def load(*options, **how):
    """What a run wrote. It fails if no request succeeded."""
    words, file = command(*options)
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, **how)
    run = written(file)
    status = 0 if run["total"]["ok"] or run["outcome"]["end"] in ("broken", "interrupted") else 1
    assert done.returncode == status, f"{words}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return run


def written(file):
    """A result, which has to be as the schema says."""
    document = json.loads(file.read_text())
    problems = schema.problems(document)
    assert not problems, f"not as docs/load-schema.json says: {problems[:3]}"
    return document


def until(condition, what):
    """Waits for something."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)
