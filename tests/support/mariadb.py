"""A MariaDB of a test's own: fresh data directory, no network, one Unix socket.

    with mariadb.Server(folder / "db") as database:      # the path must be short: it holds a socket
        database.sql("CREATE DATABASE a; ...")
        database.socket
"""

import os
import subprocess
from pathlib import Path

import rig


class Server:
    """mariadbd in `folder`, started and waited for."""

    def __init__(self, folder, options=()):
        self.folder, self.options = Path(folder), list(options)
        self.folder.mkdir(parents=True)
        self.socket = self.folder / "s"
        user = ["--user=root"] if os.geteuid() == 0 else []
        done = subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={self.folder}/data", f"--tmpdir={self.folder}", "--auth-root-authentication-method=normal", "--skip-test-db", *user],
            capture_output=True, text=True, timeout=120,
        )
        if done.returncode != 0:
            raise RuntimeError(f"mariadb-install-db failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        self.command = [
            "/usr/sbin/mariadbd", "--no-defaults", f"--datadir={self.folder}/data", f"--tmpdir={self.folder}", f"--socket={self.socket}", f"--pid-file={self.folder}/pid", "--skip-networking",
            "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=2", "--character-set-server=utf8mb4", *user, *self.options,
        ]
        self.start()

    def start(self):
        """Starts it, again after `stop`."""
        self.process = rig.Process(self.command, self.folder / "log")
        self.process.await_up(lambda: self.socket.exists() and self.sql("SELECT 1", check=False).returncode == 0, 30)
        self.pid = self.process.pid

    def stop(self):
        """Ends it."""
        self.process.stop(seconds=20)

    def sql(self, text, check=True):
        """Runs SQL as root; the finished process."""
        command = ["mariadb", "--no-defaults", f"--socket={self.socket}", "--user=root", "--batch", "--skip-column-names"]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=30, check=check)

    def ask(self, text):
        """The answer to a question, as lines."""
        return self.sql(text).stdout.splitlines()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
