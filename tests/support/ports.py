"""Free ports of 127.0.0.1. By itself it prints one."""

import random
import socket

# Where the kernel takes the ports of connections from: there, what is free now may be taken when a server starts.
FIRST = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
LOWEST = 10_000
given = set()


def free_port():
    """A TCP port that nobody listens on, that no connection gets by itself, and that has not been given before."""
    while True:
        port = random.randrange(LOWEST, FIRST) if FIRST > LOWEST + 1000 else 0
        with socket.socket() as probe:
            # As servers do: what an ended connection holds is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            port = probe.getsockname()[1]
        if port not in given:
            given.add(port)
            return port


if __name__ == "__main__":
    print(free_port())
