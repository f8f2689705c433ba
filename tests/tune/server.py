"""What `millrace tune` learns from a running server and from its configuration."""

import json
import subprocess
import urllib.request

import rig


def plan(*arguments):
    """What it would set on this machine: nothing is changed. The rows by name."""
    done = subprocess.run([rig.program("millrace"), "tune", "--json", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return {row["name"]: row for row in json.loads(done.stdout)["rows"]}


def running(folder):
    """Values of PHP that are in force, and the memory of a worker that has worked."""
    root = folder / "site"
    root.mkdir(parents=True)
    folder.chmod(0o755)
    (root / "index.php").write_text("<?php $held = str_repeat('x', 30 << 20); echo 'hello';")
    with rig.Millrace(folder, root, profile="generic", settings={"php.workers": 1, "cache.ttl.page": "0s", "php.ini.memory_limit": "99M"}) as server:
        for _ in range(25):
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", timeout=30).read()
        rows = {}

        def is_measured():
            rows.update(plan("--admin", f"unix:{server.admin}"))
            return rows["php.worker_memory"]["then"] != "64MB"

        if not rig.wait_for(is_measured, 20):
            return f"the worker is not measured: {rows['php.worker_memory']}"
    now = {name: rows[name]["now"] for name in ("memory_limit", "opcache.memory_consumption")}
    return "" if now == {"memory_limit": "99M", "opcache.memory_consumption": "128"} else f"now: {now}"


def configured(folder):
    """Values of the configuration; sites with PHP settings of their own share the workers."""
    for name in ("a", "b"):
        (folder / name).mkdir()
    sites = [f"[[site]]\nnames = [\"{name}.test\"]\nroot = \"{folder}/{name}\"\nphp.ini = {{ memory_limit = \"{size}\" }}\n" for name, size in (("a", "64M"), ("b", "65M"))]
    # Another test's server may listen at the default address.
    no_server = f"[admin]\nlisten = \"unix:{folder}/nobody.sock\"\n"
    for count in (1, 2):
        (folder / f"{count}.toml").write_text(f"[cache]\nmemory = \"77MB\"\n{no_server}" + "".join(sites[:count]))
    one, both = (plan("--config", folder / f"{count}.toml") for count in (1, 2))
    now = {name: both[name]["now"] for name in ("cache.memory", "memory_limit", "php.workers")}
    if now != {"cache.memory": "77MB", "memory_limit": "64M", "php.workers": "as the server measures"}:
        return f"now: {now}"
    workers = [int(rows["php.workers"]["then"]) for rows in (both, one)]
    if workers[0] != workers[1] // 2:
        return f"workers of two hosts and of one: {workers}"
    (folder / "wrong.toml").write_text("[cache]\nmemory = 1.5\n")
    wrong = subprocess.run([rig.program("millrace"), "tune", "--config", folder / "wrong.toml"], capture_output=True, text=True, timeout=60)
    return "" if wrong.returncode == 1 and "the configuration has errors" in wrong.stderr else f"a wrong configuration: {wrong}"


STORIES = {"running": running, "configured": configured}
