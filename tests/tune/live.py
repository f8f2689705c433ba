"""A live kernel: the root is an overlay of this machine's, in a mount namespace and a network namespace. Values that are not of the network
namespace are files that are mounted over them, so that the machine's stay as they are."""

import json
import subprocess

import rig


# $1 the folder, $2 the program; then commands, in the new root.
SCRIPT = r"""
set -e
cd "$1"; mkdir upper work root values
mount -t tmpfs none upper && mkdir upper/up upper/work
mount -t overlay overlay -o lowerdir=/,upperdir=upper/up,workdir=upper/work root
rm -f root/.dockerenv
mount --bind /proc root/proc
[ -e root/dev/null ] || mknod root/dev/null c 1 3
for name in vm/swappiness fs/file-max fs/nr_open; do
  mkdir -p "values/${name%/*}"; cat "/proc/sys/$name" >"values/$name"
  mount --bind "values/$name" "root/proc/sys/$name"
done
echo 60 >values/vm/swappiness
ip link set lo up
cp -a root/etc before
exec chroot root sh -c "$3" sh "$2"
"""

# Each line of output is a step's JSON; sysctls are those of the kernel.
STEPS = r"""
set -e
show() { for name in net/core/somaxconn net/ipv4/tcp_fin_timeout net/ipv4/ip_local_port_range net/ipv4/tcp_wmem vm/swappiness; do cat /proc/sys/$name; done; }
show >/before-values
"$1" tune --apply --json --without net.netfilter.nf_conntrack_max --without net.netfilter.nf_conntrack_buckets >/applied.json
show >/applied-values
echo 33 >/proc/sys/net/ipv4/tcp_fin_timeout
"$1" tune --undo --json >/undone.json
show >/after-values
cat /before-values; echo ==; cat /applied-values; echo ==; cat /after-values; echo ==; cat /applied.json; echo ==; cat /undone.json
"""


def live(folder):
    """Values are in force after applying, and the old ones after taking back; one that another tool changed meanwhile stays."""
    command = ["unshare", "--mount", "--net", "sh", "-c", SCRIPT, "sh", folder, rig.program("millrace"), STEPS]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        return f"{done.returncode}: {done.stderr[-800:]}{done.stdout[-300:]}"
    before, applied, after, first, second = (part.strip() for part in done.stdout.split("==\n"))
    plan, undone = json.loads(first), json.loads(second)
    values = {row["name"]: row["then"] for row in plan["rows"] if row["then"]}
    names = ("net.core.somaxconn", "net.ipv4.tcp_fin_timeout", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_wmem", "vm.swappiness")
    said = [" ".join(line.split()) for line in applied.splitlines()]
    if said != [values[name] for name in names]:
        return f"not in force: {said}, wanted {[values[name] for name in names]}"
    if wrong := [value for value in plan["done"]["kernel"] if value["problem"]]:
        return f"not in force: {wrong}"
    wanted = before.splitlines()
    wanted[1] = "33"
    if after.splitlines() != wanted:
        return f"not put back: {after} instead of {before}"
    put_back = [value["name"] for value in undone["done"]["kernel"]]
    if "net.ipv4.tcp_fin_timeout" in put_back or "vm.swappiness" not in put_back:
        return f"put back: {put_back}"
    return ""


STORIES = {"live": live}
