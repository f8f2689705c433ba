#!/usr/bin/env python3
"""A crowd: so many connections, each opened before the first request is sent, then one request on each at once.

    crowd.py PORT COUNT SECONDS TARGET [FIELD...]

Every second client says `Accept-Encoding: gzip`. Prints as JSON what came back: {"answers": {"STATUS BODY": how many}, "broken": {why: how
many}, "slowest": s, "first": s}. A process of its own, because the descriptors of both ends would not fit into one."""

import collections
import gzip
import json
import re
import resource
import select
import socket
import sys
import time

BATCH = 1000  # connections in a row before the server is given time to accept them: less than its backlog


def main():
    port, count, seconds, target, *fields = sys.argv[1:]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    clients = gather(int(port), int(count))
    found = ask(clients, target, fields, float(seconds))
    print(json.dumps(found))


def gather(port, count):
    """So many connections, all open."""
    clients = []
    for number in range(count):
        clients.append(Client(socket.create_connection(("127.0.0.1", port), 20)))
        if number % BATCH == BATCH - 1:
            time.sleep(0.05)
    return clients


def ask(clients, target, fields, seconds):
    """Sends a request on every connection, and reads all answers."""
    poll, waiting = select.epoll(), {}
    extra = "".join(f"{field}\r\n" for field in fields)
    began = time.monotonic()
    for number, client in enumerate(clients):
        coding = "Accept-Encoding: gzip\r\n" if number % 2 else ""
        client.socket.sendall(f"GET {target} HTTP/1.1\r\nHost: a.test\r\n{coding}{extra}\r\n".encode())
        client.socket.setblocking(False)
        poll.register(client.socket.fileno(), select.EPOLLIN)
        waiting[client.socket.fileno()] = client
    answers, broken, times = collections.Counter(), collections.Counter(), []
    while waiting and time.monotonic() < began + seconds:
        for number, _ in poll.poll(0.1, 1000):
            verdict = waiting[number].read()
            if verdict is not None:
                poll.unregister(number)
                del waiting[number]
                times.append(time.monotonic() - began)
                (answers if verdict[0] else broken)[verdict[1]] += 1
    if waiting:
        broken[f"no answer within {seconds:g} s"] = len(waiting)
    return {"answers": answers, "broken": broken, "first": min(times, default=None), "slowest": max(times, default=None)}


class Client:
    """A connection and what has come on it."""

    def __init__(self, connection):
        self.socket, self.got = connection, b""

    def read(self):
        """(True, "STATUS BODY") when the answer is complete, (False, why) when it is broken, None while it goes on."""
        try:
            data = self.socket.recv(65536)
        except ConnectionError as e:
            return False, type(e).__name__
        self.got += data
        head, end, body = self.got.partition(b"\r\n\r\n")
        if not end:
            return None if data else (False, "closed without an answer")
        length = re.search(rb"\r\ncontent-length: *([0-9]+)", head, re.I)
        done = len(body) >= int(length[1]) if length else body.endswith(b"0\r\n\r\n")
        if not done:
            return None if data else (False, "closed within an answer")
        if not length:
            body = chunks(body)
        if re.search(rb"\r\ncontent-encoding: *gzip", head, re.I):
            body = gzip.decompress(body)
        return True, f"{head[9:12].decode()} {body[:40].decode('latin-1')}"


def chunks(body):
    """The content of a chunked body."""
    content = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        content, body = content + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return content


if __name__ == "__main__":
    main()
