#!/usr/bin/env python3
"""`./test quick`: what can be said in two minutes of a change in one room. Builds the programs, and plays the unit tests of the changed crates
and the scenarios of the changed rooms, as scenarios/rooms has them. What there is no time for is `skipped`: `./test` plays it.

    SINCE=COMMIT ./test quick     what has changed since that commit; by default since `main` was left, or since HEAD there"""

import os
import subprocess
import sys
from pathlib import Path

import together
from costs import SCENARIOS, SCENARIOS_ALONE, TESTS

ROOT = Path(__file__).resolve().parents[2]
# Incremental, as after `cargo build --profile tested --config profile.tested.incremental=true`; dependencies are those of `./test`.
PROFILE = ["--profile", "tested", "--config", "profile.tested.incremental=true"]
# Of the two minutes, for scenarios and tests; a scenario that would take more than its share is left to `./test`.
BUDGET, MOST = 40, 30
LIMIT = 120
# Modules of the server with slow tests: only if they have changed themselves.
SLOW = {"millrace-objects": ["memcached", "store::model"], "millrace-pools": ["pool::simulation"], "millrace-server": ["serve::tests::day"]}
# Of its tests of the whole repository, those that a change of the code concerns.
OF_SERVER = ["--test", "rooms", "--test", "quick"]


def main():
    since = os.environ.get("SINCE") or base()
    paths = changed(since)
    places = {place for path in paths if (place := place_of(path))}
    print(f"# since {since}: {len(paths)} files in {', '.join(sorted(places)) or 'no room and no crate'}", flush=True)
    if not places and not any(path.startswith("scenarios/") for path in paths):
        print("skipped quick: no room, crate or scenario has changed")
        return 0
    crates = sorted({crate_of(path) for path in paths} - {None})
    good = step("build", ["cargo", "build", *PROFILE, "-p", "millrace", "-p", "millrace-php"])
    good = good and all([units(crate, paths) for crate in crates])
    return 0 if good and scenarios(places, paths) else 1


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout.split("\n")


def base():
    """Where this branch has left `main`; HEAD on `main` itself, or where there is none."""
    for main in "main", "origin/main":
        found = subprocess.run(["git", "-C", ROOT, "merge-base", main, "HEAD"], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.strip()[:12]
    return "HEAD"


def changed(since):
    """Files that differ from the commit, also those that git does not know yet."""
    return sorted({*git("diff", "--name-only", since), *git("ls-files", "--others", "--exclude-standard")} - {""})


def place_of(path):
    """The room, crate or folder of scenarios/rooms that a file belongs to."""
    parts = path.split("/")
    if parts[0] == "crates" and parts[1] in ("server", "base") and parts[2] == "src" and len(parts) > 4:
        return parts[3]
    if parts[0] == "crates" and len(parts) > 2:
        return "/".join(parts[:2])
    return "php/" if parts[0] == "php" else None


def crate_of(path):
    """The package that a file belongs to."""
    parts = path.split("/")
    if parts[0] == "crates" and len(parts) > 2:
        return "millrace" if parts[1] == "millrace" else f"millrace-{parts[1]}"
    return "millrace-php" if parts[0] == "php" else None


def step(name, command):
    """A command that is right or wrong as a whole."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    said = (done.stdout + done.stderr).splitlines()
    print(f"ok {name}" if done.returncode == 0 else "\n".join([f"not ok {name}: {' '.join(map(str, command))}", *(f"#   {line}" for line in said[-60:])]), flush=True)
    return done.returncode == 0


def units(crate, paths):
    """The unit tests of a crate; of the server's slow ones only those that have changed."""
    command = ["cargo", "test", *PROFILE, "-p", crate]
    if crate in SLOW:
        source = f"crates/{crate.removeprefix('millrace-')}/src/"
        modules = {path.removeprefix(source).removesuffix(".rs").removesuffix("/mod").replace("/", "::") for path in paths}
        slow = [module for module in SLOW[crate] if not any(name.startswith(module) or module.startswith(f"{name}::") for name in modules)]
        command += ["--lib", *OF_SERVER * (crate == "millrace-server"), "--", *(word for module in slow for word in ("--skip", module))]
    return step(f"unit tests of {crate}", command)


def scenarios(places, paths):
    """Plays the scenarios of the places and those that have changed themselves; whether all are ok."""
    programs = {name: program for name, program in files().items() if wanted(name, places, paths)}
    costs = {**SCENARIOS, **{f"tests/{name}": cost for name, cost in TESTS.items()}}
    chosen, left = within_budget({name: costs.get(name, together.SECONDS) for name in programs})
    for name in left:
        print(f"skipped {name}: it takes {costs[name]} s; `./test {path_of(name)}` plays it", flush=True)
    if not chosen:
        print("skipped scenarios: there are none of these rooms that take less than half a minute")
        return True
    alone = [name for name in chosen if name in SCENARIOS_ALONE]
    return together.play_all(programs, LIMIT, {name: costs[name] for name in chosen}, alone=alone, names=chosen) == 0


def files():
    """The scenarios and tests by the names that scenarios/rooms has for them."""
    found = {path.name: path for path in (ROOT / "scenarios").iterdir() if path.name[0].isdigit()}
    return {**found, **{f"tests/{path.parent.name}": path for path in (ROOT / "tests").glob("*/run")}}


def wanted(name, places, paths):
    """Whether it belongs to one of the places, or has changed itself."""
    rows = [line.split() for line in (ROOT / "scenarios" / "rooms").read_text().splitlines() if line and line[0] != "#"]
    patterns = [pattern for place, *patterns in rows if place in places for pattern in patterns]
    fits = any(name == pattern or pattern.endswith("*") and name.startswith(pattern[:-1]) for pattern in patterns)
    own = path_of(name)
    return fits or any(path == own or path.startswith(f"{own}/") for path in paths)


def path_of(name):
    return name if name.startswith("tests/") else f"scenarios/{name}"


def within_budget(costs):
    """Those that there is time for, the cheapest first; and the others."""
    chosen, left, taken = [], [], 0.0
    for name in sorted(costs, key=costs.get):
        taken += costs[name] / (1 if name in SCENARIOS_ALONE else together.PROCESSORS)
        (chosen if taken <= BUDGET and costs[name] <= MOST else left).append(name)
    return chosen, left


if __name__ == "__main__":
    sys.exit(main())
