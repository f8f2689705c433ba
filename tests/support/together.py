"""Plays programs that print result lines (`ok NAME`, `not ok NAME: why`, `skipped NAME: why`), some at a time."""

import fnmatch
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor


def play_all(programs, alone, limit, long=(), idle=()):
    """Plays those of `programs`, files by name, that fit a pattern of the command line, or all: the ones in `alone` first, one
    after the other, because they want the machine for themselves; then the `idle` ones, which mostly wait, three at a time; then
    the others, two at a time, and of these the `long` ones first: at the end, none plays on for minutes when all others are done.
    `limit`: seconds for each. Prints what each has said when it has ended. The exit status: 0 if all is ok, and something was
    checked."""
    def one(name):
        return play(name, programs[name], limit)

    patterns = sys.argv[1:] or ["*"]
    chosen = sorted(name for name in programs if any(fnmatch.fnmatch(name, pattern) for pattern in patterns))
    others = [name for name in chosen if name not in [*alone, *idle]]
    results = [one(name) for name in chosen if name in alone]
    for count, names in (3, [name for name in idle if name in chosen]), (2, sorted(others, key=lambda name: name not in long)):
        with ThreadPoolExecutor(count) as pool:
            results += pool.map(one, names)
    good, bad = (sum(column) for column in zip(*results)) if results else (0, 0)
    print(f"# {good} ok, {bad} not ok")
    return 0 if good and not bad else 1


def play(name, program, limit):
    """Plays one program and prints what it says; how many things are ok and how many not."""
    began = time.monotonic()
    try:
        done = subprocess.run([program], capture_output=True, text=True, errors="replace", timeout=limit)
        out, errors, ending = done.stdout, done.stderr, f"exit status {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired as e:
        out, errors = ((said or b"").decode(errors="replace") for said in (e.stdout, e.stderr))
        ending = f"not finished after {limit} s"
    good, bad = (sum(line.startswith(word) for line in out.splitlines()) for word in ("ok ", "not ok "))
    if not bad and (ending or not good):
        out += f"not ok {name}: {ending or 'it printed no result'}\n"
        bad = 1
    if bad:
        out += "".join(f"#   {line}\n" for line in errors.splitlines()[-60:])
    print(f"{out}# {name}: {time.monotonic() - began:.0f} s", flush=True)
    return good, bad
