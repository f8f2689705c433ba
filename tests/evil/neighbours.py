"""The others: clients that ask all the time while something evil runs, and look at every answer."""

import threading
import time

import raw


class Neighbour(threading.Thread):
    """One client on a connection that it keeps. `make(number)` gives the bytes of a request and what its answer must hold."""

    def __init__(self, name, port, make, pause=0.02, whole=None):
        super().__init__(daemon=True, name=name)
        self.port, self.make, self.pause, self.whole = port, make, pause, whole
        self.lock, self.found, self.over = threading.Lock(), [], threading.Event()
        self.wire, self.number, self.begun = None, 0, None

    def run(self):
        while not self.over.is_set():
            self.number += 1
            begin = self.begun = time.monotonic()
            problem = self.ask()
            with self.lock:
                self.found.append((begin, time.monotonic(), problem))
                self.begun = None
            self.over.wait(self.pause)

    def ask(self):
        """One request; what is wrong with its answer, or None."""
        data, expected = self.make(self.number)
        method = data.split(b" ", 1)[0].decode()
        try:
            if self.wire is None:
                self.wire = raw.Wire(("127.0.0.1", self.port), 30)
            self.wire.send(data)
            answer = self.wire.answer(method)
        except (OSError, raw.Broken) as e:
            self.drop()
            return f"{type(e).__name__}: {e}"
        if answer is None:
            self.drop()
            return "the connection ended without an answer"
        if (answer.value("connection") or "").lower() == "close":
            self.drop()
        if answer.status != 200:
            return f"status {answer.status}"
        right = self.whole(answer.body) if self.whole else answer.body == expected
        return None if right else f"wrong content: {difference(answer.body, expected)}"

    def drop(self):
        if self.wire:
            self.wire.close()
        self.wire = None

    def since(self, moment):
        """Answers that came after that moment: how many, what was wrong, and the longest wait, for one that has not come, too."""
        with self.lock:
            found, now = [one for one in self.found if one[1] >= moment], time.monotonic()
            waits = [end - begin for begin, end, _ in found] + [now - (self.begun or now)]
        return len(found), [one[2] for one in found if one[2]], max(waits)


def difference(found, expected):
    """The first place where two texts differ."""
    at = next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b), min(len(found), len(expected)))
    at = max(0, at - 30)
    return f"...{found[at:at + 90]!r} instead of ...{expected[at:at + 90]!r}"


def head(method, host, target, *fields):
    return ("\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {host}", *fields]) + "\r\n\r\n").encode()


def form(host, target, content):
    return head("POST", host, target, "Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(content)}") + content


class Street:
    """All neighbours: in the evil site's pool (`near`), and those that have nothing to do with it (`apart`)."""

    def __init__(self, port, state):
        """`state` is what near.test/state.php says in a worker that has just been started."""
        def hello(n):
            return head("GET", "near.test", f"/hello.php?n={n}"), b"hello %d" % n

        def posted(n):
            text = b"x%d" % n * (1 + n % 50)
            return form("near.test", "/echo.php", b"text=" + text), b"you said " + text

        def clean(_):
            return head("GET", "near.test", "/state.php"), state

        def file(n):
            return head("GET", "near.test", f"/file.txt?{n}"), b"a file\n"

        def page(n):
            return head("GET", "wp.test", f"/?n={n}"), b"the page of WordPress"

        def other(n):
            return form("apart.test", "/echo.php", b"text=%d" % n), b"you said %d" % n

        self.near = [Neighbour("GET", port, hello), Neighbour("POST", port, posted), Neighbour("state", port, clean)]
        self.apart = [
            Neighbour("file", port, file), Neighbour("another pool", port, other),
            Neighbour("WordPress", port, page, 0.3, lambda body: b"Hello world!" in body and body.rstrip().endswith(b"</html>")),
        ]  # fmt: skip
        self.all = self.near + self.apart
        for one in self.all:
            one.start()

    def stop(self):
        for one in self.all:
            one.over.set()
        for one in self.all:
            one.join(35)
