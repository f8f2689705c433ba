"""An application that speaks HTTP/2, frame by frame: `play(stream)` is called for each request, on a thread of its own."""

import contextlib
import socket
import struct
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
import h2wire  # noqa: E402
from h2wire import (  # noqa: E402
    ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INITIAL_WINDOW, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, fields_block, frame, hpack,
)


class H2Application:
    """The application. It keeps the requests that it got; `settings`: its own, by number; `early`: begins before a request is complete."""

    def __init__(self, play=None, settings=(), tls=None, unix=None, early=False):
        self.play, self.settings, self.tls, self.early = play or (lambda stream: stream.respond(body=b"ok")), dict(settings), tls, early
        self.requests, self.connections, self.peers, self.lock = [], 0, [], threading.Lock()
        if unix:
            self.socket, self.url = socket.socket(socket.AF_UNIX), f"unix:{unix}"
            self.socket.bind(str(unix))
        else:
            self.socket = socket.create_server(("127.0.0.1", 0))
            self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.socket.getsockname()[1]}"
        self.socket.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                one, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(one,), daemon=True).start()

    def serve(self, one):
        with contextlib.suppress(OSError, EOFError):
            one = self.tls.wrap_socket(one, server_side=True) if self.tls else one
            peer = H2Peer(self, one)
            with self.lock:
                self.connections += 1
                self.peers.append(peer)
            peer.run()
        with contextlib.suppress(OSError):
            one.close()

    def close(self):
        """Refuses connections from now on, and ends those that it has."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for peer in self.peers:
            with contextlib.suppress(OSError):
                peer.socket.shutdown(socket.SHUT_RDWR)


class H2Peer:
    """A connection."""

    def __init__(self, app, one):
        self.app, self.socket, self.buffer = app, one, b""
        self.decoder, self.streams = hpack.Decoder(), {}
        self.writing, self.room = threading.Lock(), threading.Condition()
        self.rooms, self.first_room, self.last = {0: 65_535}, 65_535, None

    def exactly(self, size):
        while len(self.buffer) < size:
            data = self.socket.recv(65_536)
            if not data:
                raise EOFError
            self.buffer += data
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def send(self, data):
        with self.writing:
            self.socket.sendall(data)

    def run(self):
        """Reads frames until the connection ends."""
        if self.exactly(len(PREFACE)) != PREFACE:
            raise EOFError
        pairs = b"".join(struct.pack(">HI", *pair) for pair in self.app.settings.items())
        self.send(frame(SETTINGS, payload=pairs) + frame(SETTINGS, ACK))
        try:
            while True:
                head = self.exactly(9)
                payload = self.exactly(int.from_bytes(head[:3], "big"))
                self.take(head[3], head[4], int.from_bytes(head[5:9], "big"), payload)
        finally:
            with self.room:
                self.rooms = None
                self.room.notify_all()
            for stream in self.streams.values():
                stream.gone.set()

    def take(self, kind, flags, number, payload):
        if kind == HEADERS:
            fields = [(name.decode(), value.decode("latin-1")) for name, value in self.decoder.decode(payload, raw=True)]
            if number not in self.streams:
                with self.room:
                    if self.last is not None and number > self.last:
                        return
                    self.streams[number] = H2Stream(self, number, fields)
                if self.app.early:
                    self.begin(self.streams[number])
            else:
                self.streams[number].trailers = fields
        elif number and number not in self.streams:
            return
        elif kind == DATA:
            self.streams[number].take(payload)
            if payload and not self.app.settings.get(INITIAL_WINDOW):
                more = struct.pack(">I", len(payload))
                self.send(frame(WINDOW_UPDATE, payload=more) + frame(WINDOW_UPDATE, 0, number, more))
        elif kind == RST_STREAM and number in self.streams:
            self.streams[number].reset = int.from_bytes(payload, "big")
            self.streams[number].gone.set()
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == SETTINGS and not flags & ACK:
            settings = dict(struct.unpack(">HI", payload[at : at + 6]) for at in range(0, len(payload), 6))
            with self.room:
                self.first_room = settings.get(INITIAL_WINDOW, self.first_room)
        elif kind == WINDOW_UPDATE:
            with self.room:
                self.rooms[number] = self.rooms.get(number, self.first_room) + struct.unpack(">I", payload)[0]
                self.room.notify_all()
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            self.streams[number].whole.set()
            if not self.app.early:
                self.begin(self.streams[number])

    def begin(self, stream):
        with self.app.lock:
            self.app.requests.append(stream)
        threading.Thread(target=self.played, args=(stream,), daemon=True).start()

    def played(self, stream):
        with contextlib.suppress(OSError, EOFError):
            self.app.play(stream)

    def reserve(self, number, size):
        """Waits for room for content; how much there is."""
        with self.room:
            while True:
                if self.rooms is None:
                    raise EOFError
                room = min(size, self.rooms[0], self.rooms.setdefault(number, self.first_room), 16_384)
                if room > 0:
                    self.rooms[0] -= room
                    self.rooms[number] -= room
                    return room
                self.room.wait()

    def goaway(self):
        """Processes the streams that have come, and no more."""
        with self.room:
            self.last = max(self.streams)
        self.send(frame(GOAWAY, payload=struct.pack(">II", self.last, 0)))


class H2Stream:
    """A request, and the way to respond."""

    def __init__(self, peer, number, fields):
        self.peer, self.number, self.fields, self.body, self.trailers, self.reset = peer, number, fields, b"", None, None
        self.whole, self.gone, self.more = threading.Event(), threading.Event(), threading.Condition()
        self.method, self.target = self.value(":method"), self.value(":path")

    def value(self, name):
        """The values of a field, joined; None if there is none."""
        return ", ".join(value for other, value in self.fields if other == name) or None

    def take(self, payload):
        with self.more:
            self.body += payload
            self.more.notify_all()

    def until(self, size):
        """Waits until so much content has arrived."""
        with self.more:
            if not self.more.wait_for(lambda: len(self.body) >= size, 10):
                raise EOFError

    def head(self, status=200, fields=(), end=False):
        """Sends the header section."""
        self.peer.send(frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), self.number, fields_block([(":status", str(status)), *fields])))

    def content(self, body, end=False):
        """Sends content as far as there is room, and waits for more."""
        at = 0
        while at < len(body):
            size = self.peer.reserve(self.number, len(body) - at)
            at += size
            self.peer.send(frame(DATA, END_STREAM if end and at == len(body) else 0, self.number, body[at - size : at]))
        if end and not body:
            self.peer.send(frame(DATA, END_STREAM, self.number))

    def end(self, trailers):
        """Sends trailers."""
        self.peer.send(frame(HEADERS, END_HEADERS | END_STREAM, self.number, fields_block(trailers)))

    def respond(self, status=200, fields=(), body=b"", trailers=None):
        """The whole response."""
        self.head(status, fields, end=not body and trailers is None)
        if body:
            self.content(body, end=trailers is None)
        if trailers is not None:
            self.end(trailers)

    def send(self, *frames):
        """Sends frames as they are."""
        self.peer.send(b"".join(frames))
