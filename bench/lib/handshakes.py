"""Clients that make a new TLS connection for every request: handshakes.py PORT SECONDS full|resumed PATH.

Prints how many there were. TLS 1.3 with X25519 by OpenSSL. `resumed`: with the session ticket of the connection before. They work by
turns of several connections, so that the server has more than one handshake at a time; only its CPU is of interest.
"""

import socket
import ssl
import sys
import threading
import time

CLIENTS = 8


def context():
    """Of a client that trusts everybody: checking certificates is the client's work."""
    chosen = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    chosen.check_hostname, chosen.verify_mode = False, ssl.CERT_NONE
    chosen.minimum_version = ssl.TLSVersion.TLSv1_3
    return chosen


def one(chosen, port, request, session):
    """A connection with one request; its session."""
    with socket.create_connection(("127.0.0.1", port), 20) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with chosen.wrap_socket(plain, server_hostname="bench.test", session=session) as wire:
            wire.sendall(request)
            got = b""
            while data := wire.recv(65536):
                got += data
            if not got.startswith(b"HTTP/1.1 200 "):
                sys.exit(f"not ok handshakes: {got[:100]!r}")
            if session is not None and not wire.session_reused:
                sys.exit("not ok handshakes: a session was not resumed")
            return wire.session


def main():
    port, seconds, kind, path = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4]
    request = f"GET {path} HTTP/1.1\r\nHost: bench.test\r\nConnection: close\r\n\r\n".encode()
    end, counts = time.monotonic() + seconds, []

    def client():
        chosen, session, count = context(), None, 0
        while time.monotonic() < end:
            after = one(chosen, port, request, session)
            session = after if kind == "resumed" else None
            count += 1
        counts.append(count)

    threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(counts) != CLIENTS:
        sys.exit(1)
    print(sum(counts))


if __name__ == "__main__":
    main()
