"""Clients that are slow, half, or many; time-outs, one setting each."""

import socket
import time

import raw
import rig
from stage import Later, check, check_calm, check_whole, descriptors, get


def head_timeout(stage):
    """Half a head: 408 and the end, no sooner than http.head_timeout and long before the default of 10 s, however the bytes drip."""
    with stage.serve({"http.head_timeout": "1s"}) as server:
        for drip in (False, True):
            with raw.Wire(("127.0.0.1", server.port)) as wire:
                begin = time.monotonic()
                wire.send(b"GET /plain.txt HTTP/1.1\r\nHost: a.test\r\nX: ")
                while drip and time.monotonic() - begin < 20 and wire.send(b"y"):
                    time.sleep(0.1)
                    wire.socket.settimeout(0.01)
                    try:
                        wire.buffer += wire.socket.recv(4096)
                        break
                    except TimeoutError:
                        continue
                    except ConnectionResetError:
                        break
                answer = wire.answer()
                took = time.monotonic() - begin
                check(answer is not None and answer.status == 408, f"drip={drip}: {answer and answer.status}")
                check(0.9 <= took < 9, f"drip={drip}: after {took:.1f} s")
                check(wire.closes(), "the connection stays open")


def body_timeout(stage):
    """A body that stops: 408; PHP does not run."""
    with stage.serve({"http.body_timeout": "1s"}) as server:
        with raw.Wire(("127.0.0.1", server.port)) as wire:
            begin = time.monotonic()
            wire.send(b"POST /slow.php?ms=1 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100\r\n\r\nhalf")
            answer = wire.answer()
            check(answer is not None and answer.status == 408, f"{answer and answer.status}")
            check(0.9 <= time.monotonic() - begin < 30, f"after {time.monotonic() - begin:.1f} s")
            check(wire.closes(), "the connection stays open")
        check(stage.began_lines(0) == [], "PHP ran on half a body")


def body_rate(stage):
    """A body that drips slower than http.body_min_rate: 408."""
    with stage.serve({"http.body_timeout": "1s", "http.body_min_rate": "1KB"}) as server:
        with raw.Wire(("127.0.0.1", server.port)) as wire:
            wire.send(b"POST /body.php HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\n")
            begin, drips = time.monotonic(), True
            while drips and time.monotonic() - begin < 20 and wire.send(b"z" * 20):
                try:
                    wire.fill(0.2)
                    drips = False
                except TimeoutError:
                    pass
            check(not drips, "no answer comes while it drips")
            answer = wire.answer()
            check(answer is not None and answer.status == 408, f"{answer and answer.status}")


def keep_alive_timeout(stage):
    """An idle connection is closed without a word after http.keep_alive."""
    with stage.serve({"http.keep_alive": "1s"}) as server:
        with raw.Wire(("127.0.0.1", server.port)) as wire:
            wire.send(b"GET /plain.txt HTTP/1.1\r\nHost: a.test\r\n\r\n")
            check(wire.answer().status == 200, "the file")
            begin = time.monotonic()
            # Without the setting it stayed for 60 s.
            check(wire.closes(30), "it stays open, or something was sent")
            check(0.8 <= time.monotonic() - begin, f"after {time.monotonic() - begin:.1f} s")
        with raw.Wire(("127.0.0.1", server.port)) as wire:
            check(wire.closes(), "a connection without any request stays open")


def slow_reader(stage):
    """A client that doesn't read is cut off after http.send_timeout; what it asked for is given back."""
    with stage.serve({"http.send_timeout": "1s"}) as server:
        held = lambda: server.status()["connections_open"]
        for target in ("/large.bin", "/big.php?mb=24"):
            with socket.socket() as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.connect(("127.0.0.1", server.port))
                s.sendall(f"GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n".encode())
                s.settimeout(30)
                check(s.recv(9) == b"HTTP/1.1 ", f"{target}: no answer begins")
                check(rig.wait_for(lambda: held() == 0, 6), f"{target}: the connection is still held")
        check_whole(server)


def slow_reader_costs_no_worker(stage):
    """While a client takes 24 MB of PHP's output slowly, memory stays bounded."""
    with stage.serve({"http.send_timeout": "10s"}) as server:
        get(server.port, "/pid.php")
        before = resident(server.pid)
        sockets = []
        for _ in range(4):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", server.port))
            s.sendall(b"GET /big.php?mb=100 HTTP/1.1\r\nHost: a.test\r\n\r\n")
            sockets.append(s)
        time.sleep(1.5)
        grown = resident(server.pid) - before
        for s in sockets:
            s.close()
        check(grown < 32 << 20, f"400 MB of output that nobody reads took {grown >> 20} MB of the server's memory")
        check_whole(server)


def resident(pid):
    """Resident memory, bytes."""
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * 4096


def slowloris(stage):
    """500 clients with half a head each: others are served meanwhile, and the 500 are gone after the time-out."""
    for timeout in ("60s", "1s"):
        with stage.serve({"http.head_timeout": timeout}) as server:
            check_whole(server)
            before = descriptors(server)
            wires = [raw.Wire(("127.0.0.1", server.port)) for _ in range(500)]
            for wire in wires:
                wire.send(b"POST /slow.php HTTP/1.1\r\nHost: a.test\r\nX-A: b\r\nX")
            asked = [Later(server.port, t) for t in ("/plain.txt", "/pid.php") * 10]
            check({a.result() for a in asked} == {200}, f"{[a.outcome for a in asked]}")
            held = descriptors(server) - before
            check(timeout == "1s" or held >= 490, f"only {held} connections were held meanwhile")
            check(timeout == "60s" or rig.wait_for(lambda: descriptors(server) <= before + 2, 3), f"{descriptors(server) - before} connections are still held")
            for wire in wires:
                wire.close()
            check(stage.began_lines(0) == [], "PHP ran on half a request")


def slow_bodies(stage):
    """100 clients that upload slowly take no PHP worker until they are done."""
    with stage.serve({"http.body_timeout": "60s"}) as server:
        wires = [raw.Wire(("127.0.0.1", server.port)) for _ in range(100)]
        for wire in wires:
            wire.send(b"POST /body.php HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 100000)
        asked = [Later(server.port, "/pid.php") for _ in range(10)]
        check({a.result() for a in asked} == {200}, f"{[a.outcome for a in asked]}")
        wires[0].send(b"x" * 1900000)
        check(wires[0].answer().body == b"2000000", "the upload that was finished")
        for wire in wires:
            wire.close()
        check_whole(server)


def half_requests(stage):
    """1,000 connections that break off anywhere leave nothing behind."""
    whole = b"POST /body.php HTTP/1.1\r\nHost: a.test\r\nContent-Length: 50\r\n\r\n" + b"x" * 50
    with stage.serve() as server:
        check_whole(server)  # descriptors of workers that start late are no leak
        get(server.port, "/body.php"), get(server.port, "/plain.txt")
        before = descriptors(server)
        for i in range(1000):
            wire = raw.Wire(("127.0.0.1", server.port))
            wire.send(whole[: i % len(whole)])
            if i % 2:
                wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # ends with RST
            wire.close()
        check(rig.wait_for(lambda: descriptors(server) <= before + 1, 5), f"{descriptors(server) - before} descriptors more")
        check_whole(server)
        check_calm(server)


TESTS = [head_timeout, body_timeout, body_rate, keep_alive_timeout, slow_reader, slow_reader_costs_no_worker, slowloris, slow_bodies, half_requests]
