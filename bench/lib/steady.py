"""Requests at a fixed rate, and how long each took from the moment when it was due, not when it could be sent."""

import re
import select
import socket
import sys
import time


def times(port, requests, rate, seconds, connections=20):
    """Sends `requests` (bytes, in turn) at `rate` a second; how long each answer took, microseconds, sorted. None if the server can't keep up.

    Runs on one core, which it keeps busy: waiting in the kernel would add its own delay."""
    wires = [Wire(port) for _ in range(connections)]
    poll = select.epoll()
    by_number = {wire.socket.fileno(): wire for wire in wires}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    idle, taken, sent, count = list(wires), [], 0, int(rate * seconds)
    start = time.perf_counter() + 0.01
    while len(taken) < count:
        now = time.perf_counter()
        if now > start + seconds * 1.5 + 1:
            break
        while idle and sent < count and now >= start + sent / rate:
            idle.pop().send(requests[sent % len(requests)], start + sent / rate)
            sent += 1
        for number, _ in poll.poll(0):
            wire = by_number[number]
            if wire.complete():
                taken.append((time.perf_counter() - wire.due) * 1e6)
                idle.append(wire)
    for wire in wires:
        wire.socket.close()
    return sorted(taken) if len(taken) == count else None


class Wire:
    """A keep-alive connection with one request at a time on it."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request, due):
        self.due, self.have, self.wanted, self.tail = due, 0, None, b""
        self.socket.sendall(request)

    def complete(self):
        """Reads what is there; whether the answer is complete."""
        data = self.socket.recv(262144)
        if not data:
            sys.exit("not ok latency: a connection was closed")
        self.have += len(data)
        if self.wanted is None:
            data = self.tail + data
            head, end, _ = data.partition(b"\r\n\r\n")
            if not end:
                self.tail = data
                return False
            if not head.startswith(b"HTTP/1.1 200 "):
                sys.exit(f"not ok latency: {head[:60]!r}")
            length = re.search(rb"\r\ncontent-length: *([0-9]+)", head, re.I)
            self.wanted = len(head) + 4 + int(length[1]) if length else 0
        self.tail = (self.tail + data)[-7:]
        return self.have >= self.wanted if self.wanted else self.tail.endswith(b"\r\n0\r\n\r\n")
