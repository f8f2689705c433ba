"""A small emulated machine with a kernel of Debian's that has TLS, and Millrace in it: most machines that tests run on have kernels
without, and no right to load a module.

The kernel comes from packages that are unpacked, not installed. Everything else is an initial RAM disk: busybox, Millrace
with its libraries, the modules and a site. QEMU emulates the processor, so that nothing is needed from the machine; it is far
slower than a real one, and says nothing about speed."""

import gzip
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
import rig  # noqa: E402

# Folders of modules that are taken along.
MODULES = ["kernel/net/tls", "kernel/crypto", "kernel/lib/crypto", "kernel/arch/x86/crypto", "kernel/arch/x86/lib/crypto", "kernel/drivers/virtio", "kernel/net/core"]
MODULE_FILES = ["kernel/drivers/net/virtio_net.ko", "kernel/drivers/net/net_failover.ko"]
APPLETS = ["sh", "cat", "echo", "grep", "ip", "kill", "modprobe", "mount", "poweroff", "rmmod", "sleep", "wget"]
# The port of HTTPS, and that of the same with `https.kernel_tls = "off"`, inside.
PORT, PORT_OFF = 8443, 8444
INIT = f"""#!/bin/sh
export PATH=/bin:/sbin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev; mount -t tmpfs none /tmp
for module in virtio_pci virtio_net; do modprobe $module; done
ip link set lo up; ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up; ip route add default via 10.0.2.2
echo UP
while read -r line; do eval "$line"; echo "DONE $?"; done
"""


class Machine:
    """It runs as long as the `with` block. `packages`: the kernel's, unpacked into `folder`; `site`: a folder that is served."""

    def __init__(self, folder, packages, site):
        self.folder, self.root = Path(folder), Path(folder) / "root"
        kernel = self.unpack(packages)
        self.fill(site)
        disk = self.folder / "disk.img"
        self.pack(disk)
        self.port, self.port_off = rig.free_port(), rig.free_port()
        forward = ",".join(f"hostfwd=tcp:127.0.0.1:{out}-10.0.2.15:{inside}" for out, inside in ((self.port, PORT), (self.port_off, PORT_OFF)))
        words = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "Haswell-noTSX", "-m", "768", "-no-reboot", "-display", "none", "-monitor", "none"]
        words += ["-serial", "stdio", "-kernel", str(kernel), "-initrd", str(disk), "-append", "console=ttyS0 quiet panic=-1 random.trust_cpu=on"]
        words += ["-nic", f"user,model=virtio-net-pci,{forward}"]
        # QEMU 7.2 makes newer kernels crash now and then while they boot.
        for attempt in range(5):
            self.boot(words)
            try:
                self.until(r"^UP$", 120)
                return
            except RuntimeError:
                self.stop()
                if attempt == 4:
                    raise

    def boot(self, words):
        self.said, self.changed = "", threading.Condition()
        self.child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        threading.Thread(target=self.listen, args=[self.child], daemon=True).start()

    def unpack(self, packages):
        """Unpacks the kernel's packages; where the kernel is."""
        below = self.folder / "kernel"
        for package in packages:
            subprocess.run(["dpkg-deb", "-x", package, below], check=True)
        (self.modules,) = [path.parent for path in below.glob("**/lib/modules/*/kernel")]
        return next(path for path in below.glob("**/vmlinuz*") if path.is_file())

    def fill(self, site):
        """Everything that shall be there inside."""
        for name in ("bin", "sbin", "proc", "sys", "dev", "tmp", "var/tmp", "etc", "lib64"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        busybox = shutil.which("busybox")
        shutil.copy(busybox, self.root / "bin")
        for applet in APPLETS:
            (self.root / "bin" / applet).symlink_to("busybox")
        (self.root / "sbin/modprobe").symlink_to("../bin/busybox")
        shutil.copy(rig.program("millrace"), self.root / "bin")
        subprocess.run(["strip", self.root / "bin/millrace"], check=True)
        for library in set(re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", rig.program("millrace")], check=True, capture_output=True, text=True).stdout)):
            inside = self.root / library.lstrip("/")
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, inside)
        shutil.copytree(site, self.root / "site")
        version = self.modules.name
        inside = self.root / "lib/modules" / version
        inside.mkdir(parents=True)
        for name in self.modules.glob("modules.*"):
            shutil.copy(name, inside)
        for path in MODULES + MODULE_FILES:
            for source in [self.modules / path] + list(self.modules.glob(f"{path}.*")):
                if source.is_dir():
                    shutil.copytree(source, inside / path)
                elif source.is_file():
                    (inside / path).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(source, inside / Path(path).parent)
        plain(inside)
        subprocess.run([busybox, "depmod", "-b", self.root, version], check=True, cwd=inside)
        (self.root / "init").write_text(INIT)
        (self.root / "init").chmod(0o755)

    def pack(self, disk):
        names = subprocess.run(["find", "."], cwd=self.root, check=True, capture_output=True).stdout
        with open(disk, "wb") as out:
            subprocess.run(["cpio", "--create", "--format=newc", "--quiet"], cwd=self.root, input=names, stdout=out, check=True)

    def listen(self, child):
        while data := os.read(child.stdout.fileno(), 65536):
            with self.changed:
                self.said += data.decode(errors="replace").replace("\r", "")
                self.changed.notify_all()
        with self.changed:
            child.wait()
            self.changed.notify_all()

    def until(self, pattern, seconds=60, begin=0):
        """Waits until the console says so from the place `begin` on; the match."""
        end = time.monotonic() + seconds
        with self.changed:
            while True:
                if found := re.compile(pattern, re.M).search(self.said, begin):
                    return found
                if self.child.poll() is not None or not self.changed.wait(max(0, end - time.monotonic())):
                    raise RuntimeError(f"the machine did not say {pattern!r}:\n{self.said[-3000:]}")

    def run(self, line, seconds=60):
        """Runs a line of shell inside; what the console said meanwhile."""
        begin = len(self.said)
        self.child.stdin.write((line + "\n").encode())
        self.child.stdin.flush()
        done = self.until(r"^DONE \d+\n", seconds, begin)
        return self.said[begin : done.start()]

    def serve(self, name, port, seconds=60, **settings):
        """Starts Millrace inside; what it has said when it serves."""
        begin = len(self.said)
        chosen = {"https.listen": f'["0.0.0.0:{port}"]', "https.self_signed": "true", "admin.listen": f"unix:/tmp/{name}.sock", "cache.dir": "off", "php.enabled": "false", "https.handshake_timeout": '"2m"', "http.head_timeout": '"2m"', **settings}
        words = " ".join(f"--set '{key}={value}'" for key, value in chosen.items())
        self.run(f"millrace serve /site --listen 127.0.0.1:{port - 1000} {words} & echo $! > /tmp/{name}.pid")
        return self.until(rf"listening on \S+:{port}\b[\s\S]*serving .*\n", seconds, begin).group()

    def counter(self, name, counter):
        """A counter of a server inside."""
        said = self.run(f"millrace status --json --admin unix:/tmp/{name}.sock > /tmp/{name}.json; grep -o '\"{counter}\": *[0-9]*' /tmp/{name}.json")
        return int(re.search(rf'"{counter}": *(\d+)', said)[1])

    def stop(self):
        if self.child.poll() is None:
            try:
                self.child.stdin.write(b"poweroff -f\n")
                self.child.stdin.flush()
                self.child.wait(10)
            except (OSError, subprocess.TimeoutExpired):
                self.child.kill()
                self.child.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def plain(folder):
    """Uncompresses modules: busybox reads them as they are."""
    for packed in list(folder.glob("**/*.ko.xz")) + list(folder.glob("**/*.ko.zst")):
        subprocess.run(["xz" if packed.suffix == ".xz" else "zstd", "-d", "-q", packed], check=True)
        packed.unlink(missing_ok=True)
    for packed in folder.glob("**/*.ko.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
