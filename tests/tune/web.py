"""nginx and php-fpm as Debian installs them: what is written is accepted and in force, and taken back; what others have set is left to them."""

import subprocess

import files
import live
import rig
from machine import Machine, refused

HTTP, MAIN = "etc/nginx/conf.d/60-millrace.conf", "etc/nginx/modules-enabled/60-millrace.conf"


def web(folder, megabytes=2048, cores=2):
    """A machine with both: and our files for php-fpm."""
    machine = Machine(folder, megabytes, cores)
    version = machine.serve_with_nginx()
    fpm = f"etc/php/{version}/fpm"
    return machine, f"{fpm}/pool.d/zz-millrace.conf", f"{fpm}/conf.d/90-millrace.ini"


def accepted(folder):
    """Both programs accept the files of machines of all sizes, and say that these values are in force."""
    for megabytes, cores in ((600, 1), (2048, 2), (24_576, 8)):
        machine, pool, ini = web(folder / str(megabytes), megabytes, cores)
        rows = {row["name"]: row for row in machine.plan()["rows"]}
        said = machine.good("--apply")
        if missing := [path for path in (pool, ini, HTTP, MAIN) if f"wrote      /{path}\n" not in said or not (machine.root / path).exists()]:
            return f"{missing} is not written: {said}"
        why = wrong_pool(machine, rows) or wrong_ini(machine, rows) or wrong_nginx(machine, rows)
        if why:
            return f"{megabytes} MB: {why}"
        connections = rows["worker_connections"]
        if "nginx.conf, line " not in connections["place"]["by_hand"] or f"worker_connections = {connections['then']}, by hand: /etc/nginx/nginx.conf" not in said:
            return f"worker_connections: {connections}; {said}"
        machine.good("--undo")
        if machine.differs():
            return machine.differs()
    return ""


def wrong_pool(machine, rows):
    """Values that `php-fpm -tt` does not print as they were written."""
    done = machine.inside([rig.fpm_program(), "-tt"])
    if done.returncode:
        return done.stderr
    printed = dict(line.split("NOTICE:", 1)[1].strip().split(" = ", 1) for line in done.stderr.splitlines() if " = " in line)
    wanted = {name: row["then"] for name, row in rows.items() if row["layer"] == "php-fpm"}
    return "" if len(wanted) == 7 and all(printed.get(name) == value for name, value in wanted.items()) else f"php-fpm -tt: {printed}, wanted {wanted}"


def wrong_ini(machine, rows):
    """Settings of php.ini that php-fpm does not have as they were written."""
    done = machine.inside([rig.fpm_program(), "-i"])
    printed = dict(line.split(" => ")[:2] for line in done.stdout.splitlines() if line.count(" => ") == 2)
    wanted = {name: row["then"] for name, row in rows.items() if row["layer"] == "php"}
    return "" if len(wanted) == 6 and all(printed.get(name) == value for name, value in wanted.items()) else f"php-fpm -i: {printed}, wanted {wanted}"


def wrong_nginx(machine, rows):
    """Directives that nginx does not read as they were written."""
    done = machine.inside(["nginx", "-T"])
    if done.returncode or "[warn]" in done.stderr:
        return done.stderr
    lines = done.stdout.splitlines()
    wanted = [f"{name} {row['then']};" for name, row in rows.items() if row["layer"] == "nginx" and "file" in (row["place"] or {})]
    missing = [line for line in wanted if line not in lines]
    return "" if len(wanted) > 8 and not missing else f"nginx -T: without {missing} of {wanted}"


def measured(folder):
    """Processes of php-fpm that have worked are measured, those of another one are not."""
    machine, _, _ = web(folder, megabytes=4096)
    version = rig.fpm_program().name.removeprefix("php-fpm")
    before = machine.plan()
    machine.write(f"run/php/php{version}-fpm.pid", "70\n")
    machine.write("proc/70/stat", "70 (php-fpm8.2) S 1 0 0 0 0 0 0 0 0 0 900 900\n")
    for pid, parent, ticks, own in ((71, 70, 150, 150), (72, 70, 3, 400), (73, 1, 900, 900)):
        machine.write(f"proc/{pid}/stat", f"{pid} (php-fpm8.2) S {parent} 0 0 0 0 0 0 0 0 0 {ticks} 0\n")
        machine.write(f"proc/{pid}/smaps_rollup", f"Private_Clean: 0 kB\nPrivate_Dirty: {own * 1024} kB\n")
    plan = machine.plan()
    children = [{row["name"]: row for row in each["rows"]}["pm.max_children"] for each in (before, plan)]
    if "64 MB each" not in children[0]["evidence"] or "150 MB each" not in children[1]["evidence"]:
        return f"{children}"
    if not int(children[1]["then"]) < int(children[0]["then"]):
        return f"larger processes, and not fewer: {children}"
    for each in (before, plan):
        budget = each["budget"]
        if sum(budget["parts"].values()) != budget["total"] or budget["parts"]["page_cache"]:
            return f"{budget}"
    if int(children[1]["then"]) * 150 << 20 > plan["budget"]["parts"]["PHP"]:
        return f"{children[1]} of {plan['budget']}"
    return ""


def web_killed(folder):
    """The same kills as for the other files."""
    machine, pool, ini = web(folder)
    return files.kills(machine, [pool, ini, MAIN, HTTP])


def left_to_others(folder):
    """What another file sets is refused, printed with its line, or kept; never written against it."""
    machine, pool, ini = web(folder)
    other = machine.write(pool.replace("zz-millrace", "zzz"), "[www]\npm.max_children = 3\n")
    why = refused(machine.tune("--apply"), "zzz.conf sets pm.max_children = 3", "--without pm.max_children")
    if why or (machine.root / pool).exists():
        return why or "it was applied"
    other.unlink()
    kept = machine.write("etc/nginx/conf.d/mine.conf", "gzip_vary off;\nkeepalive_requests 100000;\n")
    own = machine.write(pool.replace("zz-millrace", "own"), "[own]\nuser = www-data\nlisten = /run/own.sock\npm = static\npm.max_children = 2\nphp_admin_value[memory_limit] = 1G\n")
    rows = {row["name"]: row for row in machine.plan()["rows"]}
    if "mine.conf, line 1: `gzip_vary on;` instead of `gzip_vary off;`" not in rows["gzip_vary"]["place"]["by_hand"]:
        return f"gzip_vary: {rows['gzip_vary']}"
    if "100000 is there already" not in rows["keepalive_requests"]["kept"] or "memory_limit] = 1G" not in rows["memory_limit"]["kept"]:
        return f"{rows['keepalive_requests']}, {rows['memory_limit']}"
    machine.good("--apply")
    done = [machine.inside([rig.fpm_program(), "-t"]), machine.inside(["nginx", "-t"])]
    if any(one.returncode for one in done) or "gzip_vary" in (machine.root / HTTP).read_text() or "memory_limit" in (machine.root / ini).read_text():
        return f"{done}"
    if (machine.root / pool).read_text().count("pm.max_children = ") != 2:
        return f"two pools: {(machine.root / pool).read_text()}"
    machine.good("--undo")
    kept.unlink()
    own.unlink()
    if differs := machine.differs():
        return differs
    millrace = {row["name"]: row for row in machine.plan("--server", "millrace")["rows"]}
    if millrace["php.workers"]["then"] is None or millrace["pm.max_children"]["then"] or millrace["worker_connections"]["then"]:
        return "--server millrace computes for nginx"
    machine.write("etc/millrace/millrace.toml", "")
    return "" if machine.plan()["machine"]["server"] == "millrace" else "a configuration of Millrace does not count"


# A file that nginx would not start with, and one for php-fpm.
REFUSED = r"""
set -e
mkdir -p /run /var/log/nginx
rm -f /etc/millrace/millrace.toml; cp -a /etc /before; cd /etc/php/*/fpm/pool.d
apply() { "$@" tune --apply --without net.netfilter.nf_conntrack_max --without net.netfilter.nf_conntrack_buckets $without; }
ours() { find /etc /var/lib/millrace -name 'journal.json' -o -name '*millrace.conf' -o -name '90-millrace.ini' -o -name '60-millrace.cnf' | sort; }
echo 'keepalive_requestz 1;' >/etc/nginx/conf.d/wrong.conf
apply "$1" 2>&1 && exit 4
ours
rm /etc/nginx/conf.d/wrong.conf
echo ==
# More spare processes than there may be processes.
printf '[www]\npm.max_spare_servers = 9000\n' >zy.conf
without="--without pm.max_spare_servers"; apply "$1" 2>&1 && exit 5
ours
rm zy.conf
echo ==
without=; apply "$1" >/said
ours
"$1" tune --undo >/dev/null
echo ==
ours
diff -r --no-dereference /before /etc
"""


def not_accepted(folder):
    """nginx and php-fpm of the running system test what was written; if one refuses it, all is taken back."""
    command = ["unshare", "--mount", "--net", "sh", "-c", live.SCRIPT, "sh", folder, rig.program("millrace"), REFUSED]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        return f"{done.returncode}: {done.stderr[-800:]}{done.stdout[-600:]}"
    nginx, fpm, good, after = (part.strip() for part in done.stdout.split("==\n"))
    for said, words in ((nginx, "keepalive_requestz"), (fpm, "pm.max_spare_servers(9000)")):
        if words not in said or "nothing is changed" not in said or "next: " not in said or "/etc/" in said.splitlines()[-1]:
            return f"{words}: {said}"
    return "" if len(good.splitlines()) > 5 and not after else f"written {good}, left {after}"


STORIES = {"web-accepted": accepted, "web-measured": measured, "web-killed": web_killed, "web-left-to-others": left_to_others, "web-not-accepted": not_accepted}
