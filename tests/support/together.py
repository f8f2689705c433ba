"""Plays programs that print result lines (`ok NAME`, `not ok NAME: why`, `skipped NAME: why`), as many at a time as the machine bears."""

import fnmatch
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

# So many programs at a time in any case: fewer than two would leave the machine idle while one waits.
PROCESSORS = max(2, os.cpu_count() or 2)
# One more while so many processors of two were idle in the last seconds.
IDLE, LATELY = 0.6, 3
# What stands in no table is short.
SECONDS = 10


@dataclass
class Played:
    """A program that has ended."""

    name: str
    said: str
    good: int
    bad: int
    skipped: int
    seconds: float
    processor: float

    def print(self):
        print(f"{self.said}# {self.name}: {self.seconds:.0f} s, {self.processor:.0f} s of processors", flush=True)


def play_all(programs, limit, costs, alone=(), idle=(), names=None):
    """Plays those of `programs`, files by name, that have one of the `names` or fit a pattern of the command line, or all: the ones in `alone` first, one after the
    other, because they want the machine for themselves; then the `idle` ones, three at a time, because only those that mostly wait bear each
    other; then the others, the longest first, so that none plays on when all others are done, and as many at a time as keep the processors
    busy. `costs`: the seconds that a program takes, by name. `limit`: seconds for each. Prints what each has said when it has ended. The exit
    status: 0 if all is ok, and something was checked."""
    unknown = [name for name in [*alone, *idle, *costs] if name not in programs]
    if unknown:
        sys.exit(f"not ok {sys.argv[0]}: it knows programs that are not there: {', '.join(unknown)}")
    patterns = names or sys.argv[1:] or ["*"]
    chosen = sorted(name for name in programs if any(fnmatch.fnmatch(name, pattern) for pattern in patterns))
    results = [play(name, programs[name], limit) for name in chosen if name in alone]
    one = lambda name: play(name, programs[name], limit)  # noqa: E731
    results += Together([name for name in idle if name in chosen], one, 3, 3).play()
    others = sorted((name for name in chosen if name not in [*alone, *idle]), key=lambda name: -costs.get(name, SECONDS))
    results += Together(others, one, PROCESSORS, PROCESSORS + 1).play()
    good, bad, skipped = (sum(getattr(one, kind) for one in results) for kind in ("good", "bad", "skipped"))
    print(f"# {good} ok, {bad} not ok, {skipped} skipped; {sum(one.processor for one in results):.0f} s of processors")
    return 0 if good + skipped and not bad else 1


class Together:
    """Plays programs side by side in their order: `least` at a time, and up to `most` while processors are idle."""

    def __init__(self, names, play, least, most):
        self.waiting, self.play_one, self.least, self.most = list(names), play, least, most
        self.running, self.results = 0, []
        self.changed, self.idle = threading.Condition(), Idle()

    def play(self):
        with self.changed:
            while self.waiting or self.running:
                if self.waiting and self.has_room():
                    self.running += 1
                    self.idle.begin()
                    threading.Thread(target=self.run, args=[self.waiting.pop(0)]).start()
                else:
                    self.changed.wait(1)
        return self.results

    def has_room(self):
        return self.running < self.least or self.running < self.most and self.idle.processors() >= IDLE * PROCESSORS / 2

    def run(self, name):
        played = self.play_one(name)
        with self.changed:
            self.results.append(played)
            self.running -= 1
            self.changed.notify()


class Idle:
    """How many processors have been idle lately, since the last program began."""

    def __init__(self):
        self.begin()

    def begin(self):
        self.seen = [self.read()]

    def processors(self):
        """On average over `LATELY` seconds; 0 before they have passed."""
        self.seen = [*self.seen, self.read()][-LATELY - 1 :]
        (then, before), (now, after) = self.seen[0], self.seen[-1]
        return 0 if now - then < LATELY - 0.5 else (after - before) / os.sysconf("SC_CLK_TCK") / (now - then)

    def read(self):
        with open("/proc/stat") as file:
            fields = file.readline().split()
        return time.monotonic(), int(fields[4]) + int(fields[5])


def play(name, program, limit):
    """Plays one program and prints what it has said."""
    began = time.monotonic()
    with subprocess.Popen([program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace") as child:
        lines = [], []
        readers = [threading.Thread(target=heard.extend, args=[stream]) for heard, stream in zip(lines, (child.stdout, child.stderr))]
        for reader in readers:
            reader.start()
        late = threading.Timer(limit, child.kill)
        late.start()
        _, status, used = os.wait4(child.pid, 0)
        is_late = not late.is_alive()
        late.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        for reader in readers:
            # What it has left running must not hold us up.
            reader.join(10)
    out, errors = map("".join, lines)
    ending = f"not finished after {limit} s" if is_late else f"exit status {child.returncode}" if child.returncode else ""
    good, bad, skipped = (sum(line.startswith(word) for line in out.splitlines()) for word in ("ok ", "not ok ", "skipped "))
    if not bad and (ending or not good + skipped):
        out += f"not ok {name}: {ending or 'it printed no result'}\n"
        bad = 1
    if bad:
        out += "".join(f"#   {line}\n" for line in errors.splitlines()[-60:])
    played = Played(name, out, good, bad, skipped, time.monotonic() - began, used.ru_utime + used.ru_stime)
    with printing:
        played.print()
    return played


printing = threading.Lock()

