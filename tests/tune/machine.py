"""A machine in a folder: a copy of this one's /etc, with memory and processors as the test wants them. And `millrace tune` for it."""

import json
import shutil
import subprocess
from pathlib import Path

import rig

DPKG = "Package: mariadb-server\nStatus: install ok installed\nVersion: 1:10.11.19-0+deb12u1\n"


class Machine:
    """The folder, and a second copy of its /etc to compare with."""

    def __init__(self, folder, megabytes=2048, cores=2, limit=None):
        self.root, self.before = folder / "root", folder / "etc-before"
        self.write("proc/meminfo", f"MemTotal: {megabytes * 1024} kB\n")
        self.write("proc/stat", "cpu 1 1\n" + "".join(f"cpu{n} 1 1\n" for n in range(cores)))
        self.write("usr/lib/systemd/systemd", "")
        self.write("var/lib/dpkg/status", DPKG)
        self.write("proc/self/cgroup", "0::/vps\n")
        if limit:
            for name, text in {"max": limit << 20, "current": 1, "events": "max 0\noom_kill 0", "stat": "anon 1"}.items():
                self.write(f"sys/fs/cgroup/vps/memory.{name}", f"{text}\n")
        # Sockets and the like are of no use here.
        shutil.copytree("/etc", self.root / "etc", symlinks=True, ignore=lambda d, names: [n for n in names if not (p := Path(d, n)).is_symlink() and not p.is_file() and not p.is_dir()])
        subprocess.run(["cp", "-a", self.root / "etc", self.before], check=True)

    def serve_with_nginx(self):
        """Debian's nginx and php-fpm are installed on it: their files are in the copy of /etc. The version of PHP."""
        program = rig.fpm_program()
        for path in (program, "/usr/sbin/nginx"):
            self.write(str(path).lstrip("/"), "")
        return program.name.removeprefix("php-fpm")

    def inside(self, command):
        """Runs a program of this machine with the folder's /etc/php and /etc/nginx: the finished process."""
        binds = " && ".join(f"mount --bind {self.root}/etc/{name} /etc/{name}" for name in ("php", "nginx"))
        return subprocess.run(["unshare", "--mount", "sh", "-c", f'{binds} && exec "$@"', "sh", *command], capture_output=True, text=True, timeout=60)

    def write(self, path, text):
        """A file below the root."""
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def command(self, *arguments):
        """The command line."""
        return [rig.program("millrace"), "tune", "--root", str(self.root), *arguments]

    def tune(self, *arguments, prefix=()):
        """Runs it: the finished process."""
        return subprocess.run([*prefix, *self.command(*arguments)], capture_output=True, text=True, timeout=60)

    def good(self, *arguments):
        """Runs it: its output. Raises if it fails."""
        done = self.tune(*arguments)
        if done.returncode != 0 or done.stderr:
            raise RuntimeError(f"tune {arguments} ended with {done.returncode}: {done.stderr}{done.stdout[-300:]}")
        return done.stdout

    def plan(self, *arguments):
        """What it would set."""
        return json.loads(self.good("--json", *arguments))

    def differs(self):
        """How /etc differs from what it was; empty if it does not."""
        return subprocess.run(["diff", "-r", "--no-dereference", self.before, self.root / "etc"], capture_output=True, text=True).stdout.strip()


def refused(done, *words):
    """Why this is not a refusal with these words; empty if it is."""
    missing = [word for word in words if word not in done.stderr]
    if done.returncode != 1 or missing or "next: " not in done.stderr:
        return f"exit status {done.returncode}, {missing} missing in: {done.stderr}{done.stdout[-300:]}"
    return ""
