"""A Redis server of a test's own: no network, one Unix socket, nothing on disk unless it is asked for.

    with redis.Server(folder / "redis") as server:       # the path must be short: it holds a socket
        server.ask("DBSIZE")
"""

import signal
import socket
from pathlib import Path

import rig


class Server:
    """redis-server in `folder`, started and waited for."""

    def __init__(self, folder, password=None):
        rig.needed("redis-server")
        self.folder, self.password = Path(folder), password
        self.folder.mkdir(parents=True)
        self.socket = self.folder / "s"
        self.start()

    def start(self):
        """Starts it, again after `stop`: with what `SAVE` has written."""
        self.socket.unlink(missing_ok=True)
        options = ["--port", "0", "--unixsocket", self.socket, "--dir", self.folder, "--save", "", *(["--requirepass", self.password] if self.password else [])]
        self.process = rig.Process(["redis-server", *options], self.folder / "log")
        self.process.await_up(self.is_up, 30)

    def is_up(self):
        try:
            return self.ask("PING") == "PONG"
        except OSError:
            return False

    def stop(self, how=signal.SIGTERM):
        """Ends it."""
        self.process.stop(how)

    def ask(self, *command):
        """The reply to a command that has a line as its reply."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(str(self.socket))
            for words in ([("AUTH", self.password)] if self.password else []) + [command]:
                client.sendall((" ".join(words) + "\r\n").encode())
                reply = client.makefile("rb").readline().decode().rstrip()
            return reply[1:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
