"""Idle connections: opens many, each with one request for /3k.jpg (3,072 bytes), and reads how much memory of the server they take."""

import resource
import socket
import sys

import measure

CONNECTIONS = 15_000
WARM = 500
REQUEST = b"GET /3k.jpg HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: idle\r\nAccept: */*\r\n\r\n"


def allow():
    """Raises the limit of open files for both ends of the connections; exits if it is too low."""
    wanted, (_, hard) = CONNECTIONS + 500, resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        sys.exit(f"not ok idle: the limit of open files is {hard}, {wanted} are needed (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def kb_a_connection(server, name, details):
    """Opens the connections, sends one request on each, and returns the memory that they take, KB each; adds a line to `details`."""
    for s in connect(server, WARM):
        s.close()
    measure.pause(0.5)
    before = server.memory()
    sockets = connect(server, CONNECTIONS)
    measure.pause(1.5)  # a server that frees memory late has time to do it
    after = server.memory()
    alive = sum(ask(s) for s in sockets[:: CONNECTIONS // 100])
    for s in sockets:
        s.close()
    if alive < 100:
        sys.exit(f"not ok idle: only {alive} of 100 idle connections of {name} still answer")
    measure.pause(1)
    details.append(f"{name}: {before / 1024:,.0f} KB before, {after / 1024:,.0f} KB with the connections, {server.memory() / 1024:,.0f} KB after they ended")
    return (after - before) / 1024 / CONNECTIONS


def connect(server, count):
    """This many connections, each with one answered request."""
    sockets = []
    for _ in range(count):
        s = socket.create_connection(("127.0.0.1", server.port), 20)
        sockets.append(s)
        if not ask(s):
            sys.exit("not ok idle: a connection was not answered")
    return sockets


def ask(s):
    """Whether one request on the connection is answered in full."""
    s.sendall(REQUEST)
    got = b""
    while len(got.partition(b"\r\n\r\n")[2]) < 3072:
        data = s.recv(65536)
        if not data:
            return False
        got += data
    return got.startswith(b"HTTP/1.1 200 ")
