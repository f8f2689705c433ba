"""Machines of several sizes: the sum of the budget, and a MariaDB that starts with what was written."""

import mariadb
from machine import Machine

# Megabytes of the machine, and of its control group.
SIZES = {"1 GB in a control group": (24_105, 1_024), "2 GB": (2_048, None), "24 GB": (24_576, None)}
UNITS = {"M": 1 << 20}


def sums(folder):
    """The parts are the budget, and the budget is within the percentage of the memory, for all sizes and purposes."""
    for name, (megabytes, limit) in SIZES.items():
        machine = Machine(folder / name.replace(" ", "-"), megabytes, limit=limit)
        for percent, purpose in ((75, "wordpress"), (75, "shop"), (50, "wordpress")):
            plan = machine.plan("--memory", f"{percent}%", "--for", purpose)
            memory, budget = plan["machine"]["memory"], plan["budget"]
            if memory != (limit or megabytes) << 20:
                return f"{name}: the memory is taken for {memory}"
            if sum(budget["parts"].values()) != budget["total"] or budget["total"] > memory * percent / 100:
                return f"{name}: {budget}"
            if budget["total"] + budget["head_room"] != memory:
                return f"{name}: {budget}"
            values = {row["name"]: row["then"] for row in plan["rows"]}
            set_here = int(values["php.workers"]) * megabytes_of(values["php.worker_memory"]) + int(values["opcache.memory_consumption"])
            set_here += sum(megabytes_of(values[key]) for key in ("cache.memory", "object_cache.memory", "files.cache_bytes", "server.connection_memory", "innodb_buffer_pool_size", "key_buffer_size", "aria_pagecache_buffer_size"))
            if set_here << 20 > budget["total"]:
                return f"{name}: the values together are {set_here} MB of {budget}"
    small = Machine(folder / "small", 300).tune()
    if small.returncode != 1 or "300 MB of memory are too little" not in small.stderr or "next: add memory" not in small.stderr:
        return f"300 MB: {small}"
    return ""


def megabytes_of(text):
    """`64M` and `64MB` as 64."""
    return int(text.rstrip("MB"))


def starts(folder):
    """MariaDB starts with each size's file, read through an !includedir as its own my.cnf has it, and reports these values."""
    with mariadb.Server(folder / "db") as database:
        own = [word for word in database.command if word.split("=")[0] in ("--datadir", "--tmpdir", "--socket", "--pid-file", "--skip-networking", "--user")]
        for name, (megabytes, limit) in SIZES.items():
            machine = Machine(folder / name.replace(" ", "-"), megabytes, limit=limit)
            machine.good("--apply")
            written = machine.root / "etc/mysql/mariadb.conf.d/60-millrace.cnf"
            # Debian's own files beside ours name users and folders of the system: only ours is included.
            (only := machine.root / "only").mkdir()
            (only / written.name).write_text(written.read_text())
            (machine.root / "my.cnf").write_text(f"!includedir {only}/\n")
            database.stop()
            database.command = ["/usr/sbin/mariadbd", f"--defaults-file={machine.root}/my.cnf", *own]
            database.start()
            why = wrong(database, written.read_text())
            if why:
                return f"{name}: {why}"
            log = (database.folder / "log").read_text()
            if "deprecated" in log or "unknown variable" in log:
                return f"{name}: {log[-600:]}"
    return ""


def wrong(database, text):
    """Values that are not as the file says."""
    wanted = dict(line.split("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    if len(wanted) < 8:
        return f"only {wanted}"
    for name, value in wanted.items():
        number = int(value[:-1]) * UNITS[value[-1]] if value[-1] in UNITS else int(value)
        said = database.ask(f"SELECT @@GLOBAL.{name}")
        if said != [str(number)]:
            return f"{name} is {said}, not {number}"
    return ""


STORIES = {"sums": sums, "starts": starts}
