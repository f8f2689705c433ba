"""A client of HTTP/2 that sends exactly the frames it is given: `Frames`, for what a polite client does not do; and `Wire`, with
the words of raw.Wire, which takes requests as the bytes of HTTP/1.1 and sends them as streams. Fields are decoded by Debian's
python3-hpack, everything else is here."""

import socket
import ssl
import struct
import sys

try:
    import hpack
except ImportError:  # another Python than the distribution's is first in PATH
    sys.path.append("/usr/lib/python3/dist-packages")
    import hpack

import raw
from raw import Answer, Broken

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
PRIORITY_UPDATE = 0x10
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_STREAMS, INITIAL_WINDOW, MAX_FRAME, MAX_LIST = range(1, 7)
NO_ERROR, PROTOCOL_ERROR, CANCEL, ENHANCE_YOUR_CALM = 0, 1, 8, 11


def frame(kind, flags=0, stream=0, payload=b""):
    """The bytes of a frame."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def fields_block(fields):
    """Fields as literals without an index (RFC 7541 section 6.2.2): they are the same however often they are sent."""
    def text(value):
        value = value if isinstance(value, bytes) else value.encode("latin-1")
        length = len(value)
        if length < 127:
            return bytes([length]) + value
        coded, rest = b"\x7f", length - 127
        while rest >= 128:
            coded, rest = coded + bytes([rest % 128 + 128]), rest // 128
        return coded + bytes([rest]) + value

    return b"".join(b"\0" + text(name) + text(value) for name, value in fields)


def secure(plain, name="a.test", protocols=("h2",)):
    """TLS around a socket, for a client that trusts everybody. `name`: whom it asks for; None: nobody in particular."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context.wrap_socket(plain, server_hostname=name)


class SecureWire(raw.Wire):
    """raw.Wire over TLS."""

    def __init__(self, address, timeout=30.0):
        super().__init__(address, timeout)
        if isinstance(address, tuple):
            self.socket = secure(self.socket, None, ("http/1.1",))

    def fill(self, timeout=None):
        try:
            return super().fill(timeout)
        except ssl.SSLEOFError:
            self.ended = True
            return False


class Frames:
    """A connection of frames. `tls`: whether it is encrypted; `settings`: those of the client, by number."""

    def __init__(self, address, tls=False, settings=(), timeout=30.0, name="a.test", window=None):
        plain = socket.create_connection(address, timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = secure(plain, name) if tls else plain
        self.timeout, self.tls, self.name = timeout, tls, name
        self.buffer, self.ended, self.next_stream = b"", False, 1
        self.decoder = hpack.Decoder()
        self.fields = []  # of the last head
        self.room, self.rooms, self.first_room = 65_535, {}, 65_535  # for content: of the connection, of streams, of a new one
        self.early = []  # frames that came while something else was waited for
        self.goaway = None  # its error code
        pairs = b"".join(struct.pack(">HI", *pair) for pair in dict(settings).items())
        more = b"" if window is None else frame(WINDOW_UPDATE, payload=struct.pack(">I", window))
        self.send(PREFACE + frame(SETTINGS, payload=pairs) + more)

    def send(self, data):
        """Sends all of `data`; False if the peer had closed."""
        try:
            self.socket.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            return False

    def request(self, target="/", method="GET", fields=(), body=None, host="a.test", end=True):
        """Sends a request; the number of its stream."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        pseudo = [(":method", method), (":scheme", "https" if self.tls else "http"), (":authority", host), (":path", target)]
        last = END_STREAM if body is None and end else 0
        self.send(frame(HEADERS, END_HEADERS | last, stream, fields_block([*pseudo, *fields])))
        if body is not None:
            self.content(stream, body, end)
        return stream

    def content(self, stream, body, end=True):
        """Sends content as far as the server has room for it, and waits for more room; gives up if the stream is over."""
        at = 0
        self.rooms.setdefault(stream, self.first_room)
        while True:
            size = min(16_384, len(body) - at, self.room, self.rooms[stream])
            if size > 0 or at == len(body):
                last = at + size == len(body)
                self.send(frame(DATA, END_STREAM if last and end else 0, stream, body[at : at + size]))
                at, self.room, self.rooms[stream] = at + size, self.room - size, self.rooms[stream] - size
                if last:
                    return
                continue
            one = self.receive()
            if one is None:
                return
            self.early.append((one, self.fields))
            if one[2] == stream and (one[0] == RST_STREAM or one[1] & END_STREAM and one[0] in (HEADERS, DATA)):
                return

    def next(self, timeout=None):
        """The next frame as (kind, flags, stream, payload); None at the end of the connection."""
        if self.early:
            one, self.fields = self.early.pop(0)
            return one
        return self.receive(timeout)

    def receive(self, timeout=None):
        """The next frame that nobody has waited for."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            if not self.fill(timeout):
                return None
        length = int.from_bytes(self.buffer[:3], "big")
        kind, flags, stream = self.buffer[3], self.buffer[4], int.from_bytes(self.buffer[5:9], "big")
        payload, self.buffer = self.buffer[9 : 9 + length], self.buffer[9 + length :]
        if kind == SETTINGS and not flags & ACK:
            self.obey(dict(struct.unpack(">HI", payload[at : at + 6]) for at in range(0, length, 6)))
            self.send(frame(SETTINGS, ACK))
        elif kind == WINDOW_UPDATE:
            more = struct.unpack(">I", payload)[0]
            if stream:
                self.rooms[stream] = self.rooms.get(stream, self.first_room) + more
            else:
                self.room += more
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == HEADERS:
            # Each has to be read, in their order: one depends on those before (RFC 7541 section 2.2).
            self.fields = self.decoder.decode(payload, raw=True)
        elif kind == GOAWAY:
            self.goaway = int.from_bytes(payload[4:8], "big")
        return kind, flags, stream, payload

    def obey(self, settings):
        """Takes the server's settings."""
        first = settings.get(INITIAL_WINDOW, self.first_room)
        self.rooms = {stream: room + first - self.first_room for stream, room in self.rooms.items()}
        self.first_room = first

    def fill(self, timeout=None):
        """Reads once more; False at the end of the connection. TimeoutError when nothing came in time."""
        if self.ended:
            return False
        self.socket.settimeout(self.timeout if timeout is None else timeout)
        try:
            data = self.socket.recv(262144)
        except (ConnectionResetError, ssl.SSLEOFError, ssl.SSLError) as e:
            if isinstance(e, (ssl.SSLWantReadError, TimeoutError)):
                raise TimeoutError from e
            data = b""
        self.ended = not data
        self.buffer += data
        return bool(data)

    def answers(self, *streams, grow=True):
        """Waits for the answers of these streams; {stream: Answer}. A stream that was reset has its error code instead, one
        that the connection's end cut off None. `grow`: the client makes room for what it takes."""
        open_ones, found = set(streams), {}
        while open_ones:
            one = self.next()
            if one is None:
                return {**found, **dict.fromkeys(open_ones)}
            kind, flags, stream, payload = one
            if kind == RST_STREAM and stream in open_ones:
                found[stream] = int.from_bytes(payload, "big")
                open_ones.discard(stream)
            if kind in (HEADERS, DATA):
                found[stream] = self.take(found.get(stream), kind, flags, payload)
                if kind == DATA and payload and grow:
                    more = struct.pack(">I", len(payload))
                    self.send(frame(WINDOW_UPDATE, payload=more) + (b"" if flags & END_STREAM else frame(WINDOW_UPDATE, 0, stream, more)))
                if flags & END_STREAM:
                    open_ones.discard(stream)
        return found

    def take(self, answer, kind, flags, payload):
        """An answer with one more frame of it."""
        if kind == DATA:
            answer.body += payload
            return answer
        if not flags & END_HEADERS:
            raise Broken("a head in several frames")
        pairs = list(self.fields)
        if not pairs or pairs[0][0] != b":status" or any(n.startswith(b":") or n != n.lower() for n, _ in pairs[1:]):
            raise Broken(f"fields {pairs!r}")
        one = Answer("2", int(pairs[0][1]), "", pairs[1:])
        if answer is not None:
            one.interim = [*answer.interim, answer]
            answer.interim = []
        return one

    def ping(self):
        """Asks whether the server is still there; whether it answered."""
        self.send(frame(PING, 0, 0, b"12345678"))
        while (one := self.next()) is not None:
            if one[0] == PING and one[1] & ACK:
                return True
        return False

    def until_end(self, seconds=30):
        """Reads until the server ends the connection; whether it did so in time."""
        try:
            while self.next(seconds) is not None:
                pass
        except TimeoutError:
            return False
        return True

    def close(self):
        """Closes the connection."""
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Wire:
    """A connection with the words of raw.Wire: requests go in as the bytes of HTTP/1.1, answers come out in their order."""

    def __init__(self, address, timeout=30.0):
        self.frames = Frames(address, True, {INITIAL_WINDOW: 1 << 24, ENABLE_PUSH: 0}, timeout, None, window=1 << 28)
        self.timeout, self.port = timeout, self.frames.socket.getsockname()[1]
        self.sent, self.found, self.rest = [], {}, b""

    def send(self, data):
        """Sends the whole requests in `data`, after what was torn off the last one."""
        self.rest += data
        while (request := self.whole_request()) is not None:
            method, target, fields, body = request
            host = next((v for n, v in fields if n == "host"), "")
            fields = [(n, v) for n, v in fields if n not in ("host", "connection", "keep-alive", "transfer-encoding")]
            self.sent.append(self.frames.request(target, method, fields, body, host))
        return True

    def whole_request(self):
        """The first request of what is here, taken out; None if it is not whole."""
        head, mark, after = self.rest.partition(b"\r\n\r\n")
        if not mark:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        fields = [(n.strip().lower(), v.strip()) for n, _, v in (line.partition(":") for line in lines)]
        named = dict(fields)
        if named.get("transfer-encoding", "").lower() == "chunked":
            whole = unchunked(after)
            if whole is None:
                return None
            body, after = whole
        else:
            length = int(named.get("content-length", 0))
            if len(after) < length:
                return None
            body, after = (after[:length] if "content-length" in named else None), after[length:]
        self.rest = after
        return method, target, fields, body

    def answer(self, method="GET"):
        """The next answer; None if the connection ended before it."""
        stream = self.sent.pop(0)
        if stream not in self.found:
            self.found.update(self.frames.answers(stream, *[s for s in self.sent if s not in self.found]))
        one = self.found.pop(stream)
        if isinstance(one, int):
            raise Broken(f"stream {stream} was reset: {one}")
        return one

    def finish(self):
        """HTTP/2 has no half of a connection."""

    def closes(self, seconds=30.0):
        """Whether the peer closes within `seconds`."""
        return self.frames.until_end(seconds)

    def close(self):
        self.frames.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def unchunked(data):
    """The content of chunks at the start of `data` and what follows them; None if they are not whole."""
    body = b""
    while True:
        size, mark, data = data.partition(b"\r\n")
        if not mark:
            return None
        size = int(size.split(b";")[0], 16)
        if size == 0:
            while True:
                line, mark, data = data.partition(b"\r\n")
                if not mark:
                    return None
                if not line:
                    return body, data
        if len(data) < size + 2:
            return None
        body, data = body + data[:size], data[size + 2 :]
