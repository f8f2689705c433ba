"""How the benchmarks measure: CPU a request of all processes of a server, by wrk, interleaved over several rounds.

A benchmark is a script that starts the servers and makes a `Contest`:

    contest = measure.Contest("static", "microseconds of CPU a request")
    contest.measure("3 KB", {"nginx": nginx, "Millrace": millrace}, "/3k.txt", limit=0.70)
    sys.exit(contest.finish({"nginx": nginx.conf, ...}))

The server runs on core 0, wrk on the last core. CPU is user and system time of the server's process and all its
descendants (also of those that ended meanwhile), from /proc, divided by the requests that wrk counted. The ratio is the
median of the ratios of the rounds; the table goes to standard output and, with the configurations, to bench/results/DATE-NAME.md.
"""

import argparse
import datetime
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH.parent / "tests" / "support"))
import raw  # noqa: E402
import rig  # noqa: E402

TICK = os.sysconf("SC_CLK_TCK")
SERVER_CORE, CLIENT_CORE = 0, os.cpu_count() - 1
PINNED = ["taskset", "-c", str(SERVER_CORE)]
ON_TWO_CORES = f"Server on core {SERVER_CORE}, wrk on core {CLIENT_CORE}."
# R1's nginx; keepalive_requests so that it doesn't close a connection every 1,000 requests in the middle of a measurement.
NGINX_HTTP = """sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_timeout 600; keepalive_requests 100000000;
open_file_cache max=10000 inactive=30s; open_file_cache_valid 30s; open_file_cache_min_uses 1; open_file_cache_errors on;
client_max_body_size 64m; """
MILLRACE_SETTINGS = {"server.threads": 1, "log.access": "off", "http.keep_alive": "10m", "php.max_requests": 0}


def options(about):
    """The command line that all benchmarks share."""
    return parser(about).parse_args()


def parser(about):
    """The parser of it, for a benchmark that has options of its own."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="measurements of each server, interleaved (9)")
    parser.add_argument("--seconds", type=float, default=2, help="length of one measurement (2)")
    parser.add_argument("--only-nginx", action="store_true", help="measure nginx against itself: how much does noise make?")
    parser.add_argument("--no-file", action="store_true", help="write nothing into bench/results")
    return parser


class Server:
    """A server under measurement: its port, the processes whose CPU counts, and the configuration for the record."""

    def __init__(self, port, processes, configuration, scheme="http"):
        self.port, self.processes, self.configuration, self.scheme = port, processes, configuration, scheme

    def cpu(self):
        """Seconds of CPU that all its processes have used."""
        return sum(cpu_seconds(p) for process in self.processes for p in [process.pid] + rig.children(process.pid))

    def memory(self):
        """Anonymous memory of its processes, bytes."""
        return sum(anonymous(p) for process in self.processes for p in [process.pid] + rig.children(process.pid))


def new_wordpress(root):
    """A new WordPress on SQLite whose address is http://bench.test, without the cron job that page views start; its folder. Exits if it fails."""
    made = subprocess.run([rig.program("millrace"), "new", "wordpress", root, "--url", "http://bench.test", "--title", "Bench"], capture_output=True, text=True, timeout=600)
    if made.returncode != 0:
        sys.exit(f"not ok: `millrace new wordpress` failed:\n{made.stdout}{made.stderr}")
    config = root / "wp-config.php"
    config.write_text(config.read_text().replace("<?php", "<?php\ndefine('DISABLE_WP_CRON', true);", 1))
    return root


def memory_available():
    """Bytes of memory that programs can still get."""
    for line in open("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10


def cpu_seconds(pid):
    """User and system time of a process and of its children that it has waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(f) for f in fields[11:15]) / TICK


def anonymous(pid):
    """Anonymous resident memory of a process, bytes."""
    found = re.search(r"^Anonymous: +([0-9]+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
    return int(found[1]) * 1024


def millrace(folder, site, profile="generic", ini=None, workers=None, **settings):
    """Millrace on the server core with one thread."""
    chosen = dict(MILLRACE_SETTINGS, **settings)
    if workers:
        chosen |= {"php.workers": workers, "php.workers_start": workers, "php.workers_spare": workers}
    process = rig.Millrace(folder, site, profile=profile, ini=ini, settings=chosen, prefix=PINNED)
    return process, Server(process.port, [process], without_paths(" ".join(map(str, process.child.args))))


def nginx(folder, root, server, ini=None, workers=None, http="", name="bench.test"):
    """nginx on the server core with one worker, and php-fpm with a static pool if `workers` are given; `http` is added there."""
    started = []
    if workers:
        fpm = rig.PhpFpm(folder, ini, workers, prefix=PINNED)
        started.append(fpm)
        server = server.replace("FPM", str(fpm.socket))
    front = rig.Nginx(folder, root, server, http=NGINX_HTTP + http + rig.PEER_HOST, name=name, prefix=PINNED)
    started.append(front)
    shown = front.conf.read_text() + ("\n# php-fpm\n" + (Path(folder) / "fpm.conf").read_text() if workers else "")
    return started, Server(front.port, started, without_paths(shown))


def without_paths(text):
    """A configuration without the folders of this machine and this run."""
    return re.sub(r"[^ =\n:\"]*/millrace-[a-z]+-[a-z0-9_]{8}/(nginx/|Millrace/)?", "FOLDER/", text.replace(f"{rig.REPOSITORY}/", ""))


def same_answers(servers, path, host="bench.test"):
    """Asserts that all servers give the same status and content; its length."""
    seen = {}
    for name, server in servers.items():
        for _ in range(3):  # the first answers fill caches
            answer = raw.once(("127.0.0.1", server.port), f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode(), timeout=60)
        seen[name] = (answer.status, len(answer.body), answer.value("location"))
    if len(set(seen.values())) != 1 or next(iter(seen.values()))[0] != 200:
        sys.exit(f"not ok {path}: the servers don't answer alike, so there is nothing to compare: {seen}")
    return next(iter(seen.values()))[1]


class Contest:
    """Measurements of one benchmark."""

    def __init__(self, name, chosen):
        rig.needed("wrk", "taskset", "nginx")
        self.name, self.chosen, self.rows, self.details, self.said = name, chosen, [], [], []

    def say(self, text):
        """A sentence for the head of the file."""
        self.said.append(text)
        print(f"# {text}", flush=True)

    def measure(self, what, servers, path, limit, connections=64, host="bench.test", load=None):
        """Compares the servers on one path; `limit` is the largest ratio of Millrace to nginx that is good. `load`: by another
        client than wrk, with the arguments of the function of that name."""
        load = load or by_wrk
        length = same_answers(servers, path, host)
        for server in servers.values():
            load(server, path, connections, min(1, self.chosen.seconds), host)
        rounds = {name: [] for name in servers}
        order = list(servers.items())
        for _ in range(self.chosen.rounds):
            for name, server in order:
                rounds[name].append(load(server, path, connections, self.chosen.seconds, host))
            order.reverse()  # whoever is measured first in a round is measured last in the next
        for name, found in rounds.items():
            self.details.append(f"{what}, {name}: " + ", ".join(f"{cpu:.1f} us at {rate:.0f}/s" for cpu, rate in found))
        cpu = {name: statistics.median(c for c, _ in found) for name, found in rounds.items()}
        rate = {name: statistics.median(r for _, r in found) for name, found in rounds.items()}
        # What else the machine does changes from second to second: compare what was measured side by side.
        ratio = statistics.median(ours[0] / theirs[0] for theirs, ours in zip(*rounds.values()))
        self.add(f"{what} ({length:,} bytes)", cpu, limit, "us of CPU a request", rate, ratio)

    def add(self, what, values, limit, unit, rate=None, ratio=None):
        """Adds a row, and prints it; `ratio` is that of the values unless a better one is known."""
        (first, a), (second, b) = values.items()
        ratio = ratio or (b / a if a else 0.0)
        good = ratio <= limit if limit is not None else True
        self.rows.append((what, first, a, second, b, ratio, limit, unit, rate or {}, good))
        print(f"{'ok' if good else 'not ok'} {self.name}: {what}: {first} {a:.2f}, {second} {b:.2f} {unit}, ratio {ratio:.2f}" + (f", at most {limit}" if limit is not None else ""), flush=True)

    def judge(self, what, value, limit, unit):
        """Adds a row for a bound on Millrace's own value."""
        self.rows.append((what, "", 0.0, "Millrace", value, None, limit, unit, {}, value <= limit))
        print(f"{'ok' if value <= limit else 'not ok'} {self.name}: {what}: {value:.2f} {unit}, at most {limit}", flush=True)

    def finish(self, servers):
        """Writes the result file; the exit code."""
        if not self.chosen.no_file:
            today = datetime.date.today().isoformat()
            path = BENCH / "results" / f"{today}-{self.name}.md"
            path.parent.mkdir(exist_ok=True)
            path.write_text(self.page(today, servers))
            print(f"# written: {path.relative_to(BENCH.parent)}")
        return 0 if all(row[-1] for row in self.rows) else 1

    def page(self, today, servers):
        """The result file."""
        lines = [f"# {self.name}, {today}", "", *machine(), ""]
        lines += [f"{self.chosen.rounds} rounds of {self.chosen.seconds:g} s each, interleaved; medians. The ratio is the median of the rounds' ratios.", "", *[f"- {text}" for text in self.said], *[""][: len(self.said)]]
        lines += ["| what | nginx | Millrace | ratio | wanted | nginx requests/s | Millrace requests/s |", "| --- | --- | --- | --- | --- | --- | --- |"]
        for what, _, a, _, b, ratio, limit, unit, rate, good in self.rows:
            rates = [f"{rate[n]:,.0f}" if n in rate else "" for n in ("nginx", "Millrace")]
            wanted = "" if limit is None else f"at most {limit}" + ("" if good else ": **missed**")
            lines.append(f"| {what}, {unit} | {a:.2f} | {b:.2f} | {'' if ratio is None else f'{ratio:.2f}'} | {wanted} | {rates[0]} | {rates[1]} |")
        lines += ["", "Rounds:", "", *[f"- {d}" for d in self.details]]
        for name, server in servers.items():
            lines += ["", f"## {name}", "", "```", server.configuration.strip(), "```"]
        return "\n".join(lines) + "\n"


def by_wrk(server, path, connections, seconds, host, fields=()):
    """One measurement: microseconds of CPU a request, and requests a second. Exits if an answer wasn't good."""
    url = f"{server.scheme}://127.0.0.1:{server.port}{path}"
    words = ["taskset", "-c", str(CLIENT_CORE), "wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "30s"]
    words += [word for field in (f"Host: {host}", *fields) for word in ("-H", field)] + [url]
    before = server.cpu()
    out = subprocess.run(words, capture_output=True, text=True, timeout=seconds + 60).stdout
    used = server.cpu() - before
    requests, length = counted(out, path)
    return used * 1e6 / requests, requests / length


def counted(out, what):
    """Requests and seconds by the output of wrk. Exits if an answer wasn't good."""
    found = re.search(r"([0-9]+) requests in ([0-9.]+)(s|m)", out)
    if not found or re.search("Non-2xx|Socket errors", out) or int(found[1]) == 0:
        sys.exit(f"not ok {what}: wrk saw errors:\n{out}")
    return int(found[1]), float(found[2]) * (60 if found[3] == "m" else 1)


class Page:
    """The report of a benchmark of any number of servers: tables of rows by title, verdicts, what was said, configurations."""

    def __init__(self, name, chosen, where=None):
        self.name, self.chosen, self.servers, self.where = name, chosen, {}, where or ON_TWO_CORES
        self.tables, self.verdicts, self.details, self.said = {}, [], [], []

    def say(self, text):
        """A sentence for the head of the file."""
        self.said.append(text)
        print(f"# {text}", flush=True)

    def row(self, title, what, values):
        """Adds a row to the table of that title; `values` by column."""
        self.tables.setdefault(title, []).append((what, values))
        print(f"# {what}: " + ", ".join(f"{name} {value}" for name, value in values.items()), flush=True)

    def judge(self, what, value, limit, at_least=False, quiet=False):
        """A verdict on one figure; a quiet one is told only if it is bad."""
        good = value >= limit if at_least else value <= limit
        if good and quiet:
            return
        text = f"{what}: {value:.4g}, at {'least' if at_least else 'most'} {limit}"
        self.verdicts.append((good, text))
        print(f"{'ok' if good else 'not ok'} {self.name}: {text}", flush=True)

    def finish(self):
        """Writes the result file; the exit code."""
        if not self.chosen.no_file:
            today = datetime.date.today().isoformat()
            path = BENCH / "results" / f"{today}-{self.name}.md"
            path.write_text("\n".join(self.lines(today)) + "\n")
            print(f"# written: {path.relative_to(BENCH.parent)}")
        return 0 if all(good for good, _ in self.verdicts) else 1

    def lines(self, today):
        lines = [f"# {self.name}, {today}", "", *machine(self.where), "", *self.said]
        for title in self.tables:
            lines += ["", f"## {title}", "", *self.table(title)]
        if self.verdicts:
            lines += ["", "## Wanted", "", *[f"- {'' if good else '**missed** '}{text}" for good, text in self.verdicts]]
        lines += ["", "## Rounds", "", *[f"- {d}" for d in self.details]]
        for name, server in self.servers.items():
            lines += ["", f"## {name}", "", "```", server.configuration.strip(), "```"]
        return lines

    def table(self, title):
        """The lines of one table (Markdown)."""
        rows = self.tables[title]
        columns = list(dict.fromkeys(name for _, values in rows for name in values))
        lines = ["| | " + " | ".join(columns) + " |", "| --- |" + " --- |" * len(columns)]
        return lines + [f"| {what} | " + " | ".join(values.get(name, "-") for name in columns) + " |" for what, values in rows]


def machine(where=None):
    """What the figures were measured on, and on which of its cores."""
    model = re.search("model name\t: (.*)", Path("/proc/cpuinfo").read_text())
    php = subprocess.run(["php", "-n", "-r", "echo PHP_VERSION;"], capture_output=True, text=True).stdout
    version = subprocess.run([shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin"), "-v"], capture_output=True, text=True).stderr.strip()
    commit = subprocess.run(["git", "-C", BENCH, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    busy = os.getloadavg()[0]
    return [
        f"{os.cpu_count()} cores ({model[1] if model else platform.processor()}), kernel {platform.release()}, PHP {php}, {version}, Millrace {commit}.",
        f"{where or ON_TWO_CORES} Load of the machine when this was written: {busy:.1f}.",
    ]


def pause(seconds):
    """Lets the servers settle."""
    time.sleep(seconds)
