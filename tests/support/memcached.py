"""A memcached of a test's own: no network, one Unix socket.

    with memcached.Server(folder / "memcached") as server:       # the path must be short: it holds a socket
        server.figures()["curr_items"]
"""

import os
import signal
import socket
from pathlib import Path

import rig


class Server:
    """memcached in `folder`, started and waited for."""

    def __init__(self, folder, memory=64, options=()):
        rig.needed("memcached")
        self.folder, self.memory, self.options = Path(folder), memory, options
        self.folder.mkdir(parents=True)
        self.socket = self.folder / "s"
        self.start()

    def start(self):
        """Starts it, again after `stop`: with nothing in it."""
        self.socket.unlink(missing_ok=True)
        user = ["-u", "root"] if os.geteuid() == 0 else []
        command = ["memcached", *user, "-s", self.socket, "-a", "0700", "-m", self.memory, "-t", "2", *self.options]
        self.process = rig.Process(list(map(str, command)), self.folder / "log")
        self.process.await_up(self.is_up, 30)

    def is_up(self):
        try:
            return self.figures()["pid"] == str(self.process.child.pid)
        except (OSError, KeyError):
            return False

    def stop(self, how=signal.SIGTERM):
        """Ends it."""
        self.process.stop(how)

    def figures(self):
        """What `stats` tells."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(str(self.socket))
            client.sendall(b"stats\r\n")
            lines = []
            for line in client.makefile("r"):
                if line.rstrip() == "END":
                    break
                lines.append(line.rstrip().split(" ", 2))
            return {line[1]: line[2] for line in lines if line[0] == "STAT"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
