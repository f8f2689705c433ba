"""A client that sends exactly the bytes it is given and reads answers by the rules of RFC 9112, strictly."""

import re
import socket
import time


class Broken(Exception):
    """The peer's bytes aren't an HTTP answer; the message says where they go wrong."""


class Answer:
    """One response: `status`, `reason`, `version`, `fields` (a list of name and value as bytes), `body`, and `interim` answers."""

    def __init__(self, version, status, reason, fields):
        self.version, self.status, self.reason, self.fields = version, status, reason, fields
        self.body, self.interim, self.framing = b"", [], "none"

    def values(self, name):
        """All values of a field, in order."""
        return [v for n, v in self.fields if n.lower() == name.lower().encode()]

    def value(self, name):
        """The first value of a field, as text, or None."""
        found = self.values(name)
        return found[0].decode("latin-1") if found else None


class Wire:
    """A connection. `address` is (host, port) or the path of a Unix socket."""

    def __init__(self, address, timeout=30.0):
        self.timeout = timeout
        if isinstance(address, tuple):
            self.socket = socket.create_connection(address, timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.port = self.socket.getsockname()[1]
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(str(address))
            self.port = 0
        self.buffer, self.ended = b"", False

    def send(self, data):
        """Sends all of `data`; False if the peer had closed."""
        try:
            self.socket.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def finish(self):
        """Says that nothing more will be sent."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def fill(self, timeout=None):
        """Reads once more; False at the end of the connection. TimeoutError when nothing came in time."""
        if self.ended:
            return False
        self.socket.settimeout(self.timeout if timeout is None else timeout)
        try:
            data = self.socket.recv(262144)
        except ConnectionResetError:
            data = b""
        self.ended = not data
        self.buffer += data
        return bool(data)

    def until(self, mark):
        """Takes the bytes up to and with `mark`."""
        start = 0
        while (at := self.buffer.find(mark, start)) < 0:
            start = max(0, len(self.buffer) - len(mark))
            if not self.fill():
                raise Broken(f"the connection ended before {mark!r}: {self.buffer[:200]!r}")
        taken, self.buffer = self.buffer[: at + len(mark)], self.buffer[at + len(mark) :]
        return taken

    def exactly(self, count):
        """Takes `count` bytes."""
        pieces, have = [self.buffer], len(self.buffer)
        while have < count:
            self.buffer = b""
            if not self.fill():
                raise Broken(f"the connection ended after {have} of {count} bytes of content")
            pieces.append(self.buffer)
            have += len(self.buffer)
        whole = b"".join(pieces)
        self.buffer = whole[count:]
        return whole[:count]

    def answer(self, method="GET"):
        """Reads one final answer; None if the connection ended before its first byte."""
        interim = []
        while True:
            while not self.buffer:
                if not self.fill():
                    return None
            one = parse_head(self.until(b"\r\n\r\n"))
            if one.status >= 200 or one.status == 101:
                break
            interim.append(one)
        one.interim = interim
        self.read_body(one, method)
        return one

    def read_body(self, one, method):
        """Reads the content of an answer as RFC 9112 6.3 says."""
        lengths, codings = one.values("content-length"), one.values("transfer-encoding")
        if method == "HEAD" or one.status in (101, 204, 304):
            one.framing = "none"
        elif codings:
            if codings != [b"chunked"] or lengths:
                raise Broken(f"framing: {codings} with Content-Length {lengths}")
            one.framing, one.body = "chunked", self.chunks()
        elif lengths:
            if len(lengths) > 1 or not lengths[0].isdigit():
                raise Broken(f"Content-Length: {lengths}")
            one.framing, one.body = "length", self.exactly(int(lengths[0]))
        else:
            while self.fill():
                pass
            one.framing, one.body, self.buffer = "close", self.buffer, b""

    def chunks(self):
        """Reads a chunked body to its end, without trailers."""
        body = []
        while True:
            line = self.until(b"\r\n")
            if not re.fullmatch(rb"[0-9A-Fa-f]{1,16}(;.*)?\r\n", line):
                raise Broken(f"chunk size {line[:40]!r}")
            size = int(line.split(b";")[0], 16)
            if size == 0:
                while self.until(b"\r\n") != b"\r\n":
                    pass
                return b"".join(body)
            body.append(self.exactly(size))
            if self.exactly(2) != b"\r\n":
                raise Broken("no CRLF after a chunk")

    def closes(self, seconds=30.0):
        """Whether the peer closes, sending nothing more, within `seconds`."""
        end = time.monotonic() + seconds
        try:
            while not self.buffer and self.fill(max(0.01, end - time.monotonic())):
                pass
        except TimeoutError:
            return False
        return not self.buffer

    def close(self):
        """Closes the connection."""
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def parse_head(data):
    """An `Answer` without content from the bytes of a head with its empty line."""
    lines = data[:-4].split(b"\r\n")
    m = re.fullmatch(rb"HTTP/(1\.[01]) ([1-5][0-9][0-9])(?: ([^\r\n]*))?", lines[0])
    if not m:
        raise Broken(f"status line {lines[0][:100]!r}")
    fields = []
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not re.fullmatch(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or b"\r" in value or b"\n" in value:
            raise Broken(f"field line {line[:100]!r}")
        fields.append((name, value.strip(b" \t")))
    return Answer(m[1].decode(), int(m[2]), (m[3] or b"").decode("latin-1"), fields)


def once(address, data, method="GET", timeout=30.0):
    """Sends `data` on a connection of its own and reads one answer."""
    with Wire(address, timeout) as wire:
        wire.send(data)
        return wire.answer(method)
