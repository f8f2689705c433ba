"""Bottlenecks that the kernel can be made to have: a full connection tracking table, swap, a slow disk, a slow line. Each is made in a namespace or a
control group, or on a device of the test's own, and returns why it is not well, or nothing.

Not made: steal, which only the machine below a virtual one can make."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import doctor
import machine
import rig

TRACKED = Path("/proc/sys/net/netfilter/nf_conntrack_max")

# A datagram to each of many addresses and ports: an entry of the table each.
DATAGRAMS = """
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(int(sys.argv[1])):
    sender.sendto(b"", (f"127.1.{n >> 14 & 255}.{n >> 6 & 255}", 20000 + (n & 63)))
"""


def conntrack(folder):
    """As many tracked connections as the table has room for. Its size is the machine's, so the test does not apply the cure."""
    if not shutil.which("nft", path=os.environ["PATH"] + ":/usr/sbin") or not TRACKED.exists():
        raise machine.NotHere("no nft, or no connection tracking in this kernel")
    with machine.namespace(folder) as server:
        rules = "add table inet t; add chain inet t c { type filter hook input priority 0; }; add rule inet t c ct state new counter; add rule inet t c udp dport 20000-20063 drop"
        if subprocess.run(machine.inside(server, "nft", rules), capture_output=True).returncode:
            raise machine.NotHere("this kernel has no nf_tables")
        healthy = doctor.is_gone(doctor.examine(server, prefix=machine.inside(server), seconds=1), "net-conntrack")
        subprocess.run(machine.inside(server, sys.executable, "-c", DATAGRAMS, int(TRACKED.read_text()) * 92 // 100), check=True, timeout=120)
        report = doctor.examine(server, prefix=machine.inside(server), seconds=1)
        return healthy or doctor.first_is(report, "net-conntrack", "sysctl -w net.netfilter.nf_conntrack_max=")


# Touches more memory than its group may have, again and again. Where swapping out is slow, the kernel may kill it instead: then another process goes on.
TOUCHES = """
import ctypes, os, signal
while True:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # with its parent (PR_SET_PDEATHSIG)
    memory = bytearray(96 << 20)
    while True:
        for at in range(0, len(memory), 4096):
            memory[at] = memory[at] + 1 & 255
"""


@contextlib.contextmanager
def swap_file(folder):
    """256 MB of swap for the machine, while the story lasts: other programs may be swapped out, too, and the group must find room."""
    path = folder / "swap"
    path.write_bytes(bytes(256 << 20))
    path.chmod(0o600)
    if subprocess.run(["mkswap", path], capture_output=True).returncode or subprocess.run(["swapon", path], capture_output=True).returncode:
        raise machine.NotHere("no swap file can be used here")
    try:
        yield
    finally:
        subprocess.run(["swapoff", path], check=True)


def swap(folder):
    """A group with less memory than its program touches."""
    folder.mkdir(parents=True)
    with machine.namespace(folder) as server, machine.control_group("memory") as (group, is_v2):
        if not group:
            raise machine.NotHere("no control group for memory can be made here")
        (group / ("memory.max" if is_v2 else "memory.limit_in_bytes")).write_text(str(64 << 20))
        with swap_file(folder):
            with rig.Process([*machine.enter(group), sys.executable, "-c", TOUCHES], folder / "touches"):
                why = doctor.until(lambda seconds: doctor.examine(server, seconds=seconds), lambda report: doctor.first_is(report, "swap", "php.workers"))
            return why or doctor.until(lambda seconds: doctor.examine(server, seconds=seconds), lambda report: doctor.is_gone(report, "swap"))


# A block is written to the disk, and then the next one.
WRITES = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
block = mmap.mmap(-1, 4096)
while True:
    os.pwrite(file, block, 0)
"""


@contextlib.contextmanager
def loop_disk(folder):
    """A disk that is a file, mounted; its name, where it is mounted, and the disk that has the file."""
    image, at = folder / "image", folder / "site"
    at.mkdir()
    with open(image, "wb") as file:
        file.truncate(32 << 20)
    made = subprocess.run(["losetup", "--find", "--show", "--direct-io=on", image], capture_output=True, text=True)
    if made.returncode:
        raise machine.NotHere(f"no loop device: {made.stderr.strip()}")
    device = made.stdout.strip()
    try:
        subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0", device], check=True)
        subprocess.run(["mount", device, at], check=True)
        below = os.stat(image).st_dev
        yield Path(device).name, at, f"{os.major(below)}:{os.minor(below)}"
    finally:
        subprocess.run(["umount", at], capture_output=True)
        subprocess.run(["losetup", "--detach", device], check=True)


def slow_disk(folder):
    """Two programs that write to a disk that does eight requests per second."""
    folder.mkdir(parents=True)
    with machine.control_group("blkio") as (group, is_v2), loop_disk(folder) as (name, at, below):
        if not group or is_v2:
            raise machine.NotHere("no control group of version 1 for disks can be made here")
        (group / "blkio.throttle.write_iops_device").write_text(f"{below} 8")
        with machine.namespace(folder) as server:
            def examined(seconds):
                report = doctor.examine(server, seconds=seconds)
                # Other disks are other programs' business.
                report["findings"] = [found for found in report["findings"] if found["id"] != "disk-busy" or f" {name} " in found["what"]]
                return report

            with contextlib.ExitStack() as stack:
                for number in range(2):
                    write = [*machine.enter(group), sys.executable, "-c", WRITES, at / f"file{number}"]
                    stack.enter_context(rig.Process(write, folder / f"writer{number}"))
                why = doctor.until(examined, lambda report: doctor.first_is(report, "disk-busy", "faster disk", others=doctor.OTHERS - {"disk-busy"}))
            return why or doctor.until(examined, lambda report: "" if not any(f["id"] == "disk-busy" for f in report["findings"]) else doctor.short(report))


# A card of this process's own, with a line of 100 Mbit/s: what comes over it is thrown away. $1 is how many bytes are sent per second.
CARD = """
import ctypes, fcntl, os, socket, struct, subprocess, sys, threading, time
card = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(card, 0x400454CA, struct.pack("16sH22x", b"card", 0x0002 | 0x1000))  # TUNSETIFF: a tap without extra header
command = ctypes.create_string_buffer(struct.pack("IIIHBBBBBB", 2, 0, 0, 100, 1, 0, 0, 0, 0, 0) + bytes(24), 48)  # ETHTOOL_SSET: 100 Mbit/s, full duplex
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(sender, 0x8946, struct.pack("16sP16x", b"card", ctypes.addressof(command)))
for words in ("ip addr add 10.9.9.1/24 dev card", "ip link set card up", "ip neigh add 10.9.9.2 lladdr 02:00:00:00:00:02 dev card",
              "tc qdisc add dev card root tbf rate 100mbit burst 64k latency 20ms"):
    subprocess.run(words.split(), check=True)
threading.Thread(target=lambda: [os.read(card, 65536) for _ in iter(int, 1)], daemon=True).start()
print("ready", flush=True)
sent, began = 0, time.monotonic()
while True:
    sent += sender.sendto(bytes(1400), ("10.9.9.2", 9))
    ahead = sent / int(sys.argv[1]) - (time.monotonic() - began)
    if ahead > 0.002:
        time.sleep(ahead)
"""

# The kernel shows the cards of the namespace in which /sys was mounted.
WITH_CARDS = ["unshare", "--mount", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$0" "$@"']


def line(folder):
    """A line of 100 Mbit/s, with more to send than it carries."""
    if not Path("/dev/net/tun").exists():
        raise machine.NotHere("there is no /dev/net/tun")

    def run(server, rate, seconds):
        with rig.Process(machine.inside(server, sys.executable, "-c", CARD, rate), folder / f"card-{rate}") as card:
            card.await_up(lambda: "ready" in card.log.read_text())
            return doctor.examine(server, prefix=[*machine.inside(server), *WITH_CARDS], seconds=seconds)

    with machine.namespace(folder) as server:
        why = doctor.until(lambda seconds: run(server, 20_000_000, seconds), lambda report: doctor.first_is(report, "nic-line", "compression", "card"))
        return why or doctor.until(lambda seconds: run(server, 3_000_000, seconds), lambda report: doctor.is_gone(report, "nic-line"))


STORIES = {"conntrack": conntrack, "swap": swap, "slow-disk": slow_disk, "line": line}
