"""The table in README.md, written from a result file of bench/rivals."""

import re
import subprocess
import sys

import measure
import peers

README = measure.BENCH.parent / "README.md"
BEGIN, END = "<!-- filled from bench/rivals -->\n", "<!-- end of what bench/rivals fills -->\n"
# The rows: what README calls them, the beginning of their name in the result file, and the unit.
ROWS = [
    ("cached WordPress page, CPU per request", "cached page, us", "µs"),
    ("the same with gzip", "cached page, gzip, us", "µs"),
    ("the same with gzip, a new connection for each request", "cached page, gzip, new clients", "µs"),
    ("static file of 3 KB, CPU per request", "file of 3 KB", "µs"),
    ('`echo "Hello World"`, CPU per request', "hello.php", "µs"),
    ("WordPress page, uncached, CPU per request", "WordPress, uncached", "ms"),
    ("memory per idle connection", "memory of an idle connection", "KB"),
    ("a crowd: pages served within TIMEOUT, as a share of the capacity (more is better)", "pages a second at", "share"),
    ("a crowd: visitors with an error response (5xx)", "responses 5xx", ""),
    ("a crowd: visitors that wait TIMEOUT in vain", "no response in", ""),
]
NAMES = {"nginx as installed": "nginx + php-fpm, as installed", "nginx tuned": "nginx + php-fpm, tuned"}
HEAD = """
Measured on DATE in one run of `bench/rivals`, the server on one core and the load tester on the other; medians. Lower is better unless the row
says otherwise. [The result file](bench/results/FILE) has every round and all configurations. The machine and the versions:
MACHINE

"""
TAIL = """
nginx as installed has Debian's settings and a `fastcgi_cache`, which compresses each hit. nginx tuned stores compressed pages in a second cache
layer and keeps files open. Apache stores compressed pages with mod_cache_disk. Varnish has nginx behind it, which compresses; it stores pages with
gzip only, and decompresses them for other clients. All four pass PHP to php-fpm. FrankenPHP runs in Caddy, in classic mode, because WordPress is not
written for its worker mode; it has no page cache.

The crowd is five times as many visitors as the server has capacity for, on both cores. Each wants an uncached WordPress page, and gives up after
TIMEOUT. PHP has at most 16 workers, processes or threads (nginx as installed: 5). Millrace refuses visitors that would wait longer than two seconds.
nginx tuned has a limit of 100 requests; for nginx as installed and Varnish, php-fpm's queue of 511 requests is the limit. With Apache, which has
128 threads, and with FrankenPHP, all others wait.
"""


def versions():
    """Versions of Apache and Varnish. measure.machine() has the other versions."""
    apache = subprocess.run([peers.path_of("apache2"), "-v"], capture_output=True, text=True).stdout
    varnish = subprocess.run([peers.path_of("varnishd"), "-V"], capture_output=True, text=True).stderr
    return f"{re.search('Apache/[0-9.]+', apache)[0]}, {re.search('varnish-[0-9.]+', varnish)[0]}"


def fill():
    """Writes the newest complete result into README.md; the exit code."""
    for path in sorted((measure.BENCH / "results").glob("*-rivals.md"), reverse=True):
        text = path.read_text()
        found = cells(text)
        missing = [name for _, name, _ in ROWS if not any(what.startswith(name) for what, _ in found)]
        if not missing:
            break
        print(f"# {path.name} has no {', '.join(missing)}", file=sys.stderr)
    else:
        sys.exit("not ok rivals: no file in bench/results has all parts; run `bench/rivals` without --part")
    before, _, rest = README.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        sys.exit(f"not ok rivals: README.md has not both {BEGIN.strip()} and {END.strip()}")
    README.write_text(before + BEGIN + block(path.name, text, found) + END + after)
    print(f"# README.md has the table of {path.name}")
    return 0


def cells(text):
    """All rows of the tables of a result file: (what, {server: cell})."""
    found, columns = [], []
    for line in text.splitlines():
        words = [word.strip() for word in line.strip("|").split("|")] if line.startswith("|") else []
        if words and not words[0]:
            columns = words[1:]
        elif words and not words[0].startswith("---"):
            found.append((words[0], dict(zip(columns, words[1:]))))
    return found


def block(name, text, found):
    """What stands between the two marks."""
    columns = list(next(values for what, values in found if what.startswith(ROWS[0][1])))
    lines = ["| | " + " | ".join(NAMES.get(column, column) for column in columns) + " |", "| --- |" + " --- |" * len(columns)]
    for title, row, unit in ROWS:
        values = next(values for what, values in found if what.startswith(row))
        lines.append(f"| {title} | " + " | ".join(shown(values[column], unit) for column in columns) + " |")
    machine = "\n".join([text.splitlines()[2], *re.findall("^(?:Apache/|FrankenPHP).*", text, re.M)])
    seconds = re.search(r"no response in ([0-9]+) s", text)[1] + " s"
    filled = HEAD.replace("DATE", name[:10]).replace("MACHINE", machine).replace("FILE", name) + "\n".join(lines) + "\n" + TAIL
    return filled.replace("TIMEOUT", seconds) + "\n"


def shown(cell, unit):
    """A cell of README by one of a result file: the figure without its ratio, or the word that stands there instead."""
    found = re.match(r"([0-9][0-9,.]*)(%?)(?: [(]([0-9.]+)[)])?$", cell)
    if not found:
        return cell
    if unit == "share":
        return f"{float(found[3]):.0%}"
    if unit == "ms":
        return f"{float(found[1].replace(',', '')) / 1000:.1f} ms"
    return found[1] + found[2] + (f" {unit}" if unit else "")
