"""A crowd of browsers in front of a waiting room: each requests a page, waits as long as the answer says, repeats the request with the
cookies of the answer, and gives up some time after the first request.

    crowd = browsers.Crowd(port, "/page", b"served", patience=120)
    people = crowd.play(browsers.poisson(rate, seconds))     # the moments at which they come
    browsers.tau(people)

What is read of an answer is what browsers read: the status, `Retry-After` (else `Refresh`, else a `<meta http-equiv=refresh>`), and `Set-Cookie`.
Each person has an address, and a new connection for each request. One thread, epoll: thousands at once.
"""

import bisect
import dataclasses
import heapq
import random
import re
import resource
import select
import socket
import time

# An answer that does not say when to come back makes people reload after so long.
IMPATIENT = 5.0
# A request that is not answered for so long has failed.
TIMEOUT = 30.0


@dataclasses.dataclass
class Person:
    """A visitor who wants one page. Times are seconds since the crowd began."""

    number: int
    came: float
    cookies: dict = dataclasses.field(default_factory=dict)
    known: bool = False
    asked: int = 0
    served: float | None = None
    gave_up: float | None = None
    # What the answers but the page were: status, or why there was none => how often.
    answers: dict = dataclasses.field(default_factory=dict)
    # Refusals that did not say when to come back, and how long the others said, in all.
    untold: int = 0
    told: list = dataclasses.field(default_factory=list)

    def address(self):
        """Each in a network of its own, as far as there are some."""
        return f"127.{1 + self.number % 200}.{self.number // 200 % 250}.{1 + self.number // 50000}"


class Crowd:
    """All of them; `mark` is in every page that was asked for."""

    def __init__(self, port, path, mark, patience=120.0):
        self.port, self.mark, self.patience = port, mark, patience
        self.path = path
        self.poll, self.open, self.due = select.epoll(), {}, []

    def play(self, moments, known=(), end=None):
        """Plays all visitors until each is served or has given up. `known`: arrival times and cookies of visitors with a session. After `end`
        seconds all remaining visitors give up."""
        people = [Person(n, at) for n, at in enumerate(moments)]
        people += [Person(len(people) + n, at, dict(cookies), True) for n, (at, cookies) in enumerate(known)]
        self.due = [(person.came, person.number, person) for person in people]
        heapq.heapify(self.due)
        self.began = time.monotonic()
        while self.due or self.open:
            now = self.now()
            if end is not None and now > end:
                break
            while self.due and self.due[0][0] <= now:
                self.ask(heapq.heappop(self.due)[2], now)
            pause = min(0.05, max(0.0, self.due[0][0] - now)) if self.due else 0.05
            for descriptor, event in self.poll.poll(pause, 1000):
                self.turn(descriptor, event)
            self.sweep()
        for person in people:
            if person.served is None and person.gave_up is None:
                person.gave_up = self.now()
        return people

    def now(self):
        return time.monotonic() - self.began

    def ask(self, person, now):
        """Sends a request; or the person has had enough."""
        if now > person.came + self.patience:
            person.gave_up = now
            return
        person.asked += 1
        connection = socket.socket()
        connection.setblocking(False)
        connection.bind((person.address(), 0))
        connection.connect_ex(("127.0.0.1", self.port))
        self.open[connection.fileno()] = [connection, person, b"", now, False]
        self.poll.register(connection.fileno(), select.EPOLLOUT)

    def request(self, person):
        cookies = "; ".join(f"{name}={value}" for name, value in person.cookies.items())
        lines = [
            f"GET {self.path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}",
            "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Accept-Language: en-US,en;q=0.5", "Accept-Encoding: identity",
            "Sec-Fetch-Dest: document", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Site: none", "Upgrade-Insecure-Requests: 1", "Connection: close",
        ]  # fmt: skip
        return "\r\n".join(lines + ([f"Cookie: {cookies}"] if cookies else []) + ["", ""]).encode()

    def turn(self, descriptor, event):
        entry = self.open.get(descriptor)
        if not entry:
            return
        connection, person, _, _, sent = entry
        try:
            if not sent and event & select.EPOLLOUT:
                connection.send(self.request(person))
                entry[4] = True
                self.poll.modify(descriptor, select.EPOLLIN)
                return
            piece = connection.recv(262144)
            entry[2] += piece
            if piece:
                return
            why = "closed"
        except BlockingIOError:
            return
        except OSError as error:
            why = type(error).__name__
        self.close(descriptor)
        self.judge(person, entry[2], why)

    def close(self, descriptor):
        connection = self.open.pop(descriptor)[0]
        self.poll.unregister(descriptor)
        connection.close()

    def sweep(self):
        late = [d for d, entry in self.open.items() if self.now() > entry[3] + TIMEOUT]
        for descriptor in late:
            person = self.open[descriptor][1]
            self.close(descriptor)
            self.judge(person, b"", f"no answer within {TIMEOUT:g} s")

    def judge(self, person, data, why):
        """The answer is there: the page, or when to come back. `why` there is no more of it."""
        now = self.now()
        head, _, body = data.partition(b"\r\n\r\n")
        status = int(head[9:12]) if re.match(rb"HTTP/1\.1 \d{3}", head) else why
        for name, value in re.findall(rb"\r\nset-cookie: *([^=;\r]+)=([^;\r]*)", head, re.I):
            person.cookies[name.decode()] = value.decode()
        if status == 200 and self.mark in body:
            person.served = now
            return
        person.answers[status] = person.answers.get(status, 0) + 1
        seconds = comes_back(head, body)
        if seconds is None:
            person.untold += 1
        else:
            person.told.append(seconds)
        heapq.heappush(self.due, (now + (IMPATIENT if seconds is None else max(0.2, seconds)), person.number, person))


def comes_back(head, body):
    """The seconds after which the browser asks again; None if the answer does not say."""
    for where, pattern in (
        (head, rb"\r\nretry-after: *(\d+)"),
        (head, rb"\r\nrefresh: *(\d+)"),
        (body, rb"<meta[^>]*http-equiv=[\"']?refresh[\"']?[^>]*content=[\"']?(\d+)"),
    ):
        found = re.search(pattern, where, re.I)
        if found:
            return float(found[1])
    return None


def poisson(rate, seconds, seed=14):
    """Moments of `seconds` at which people come, `rate` a second."""
    chance, at, moments = random.Random(seed), 0.0, []
    while (at := at + chance.expovariate(rate)) < seconds:
        moments.append(at)
    return moments


def tau(people):
    """Kendall's tau (b's ties don't occur) between coming and being served, of visitors without a session."""
    order = [p.served for p in sorted(people, key=lambda p: p.came) if p.served is not None and not p.known]
    pairs = len(order) * (len(order) - 1) // 2
    return 1 - 2 * inversions(order)[0] / pairs if pairs else 1.0


def inversions(values):
    """Pairs in the wrong order, and the values sorted."""
    if len(values) < 2:
        return 0, values
    half = len(values) // 2
    (a, left), (b, right) = inversions(values[:half]), inversions(values[half:])
    merged, count, i = [], a + b, 0
    for value in right:
        while i < len(left) and left[i] <= value:
            merged.append(left[i])
            i += 1
        count += len(left) - i
        merged.append(value)
    return count, merged + left[i:]


def overtaken(people, slack):
    """How many visitors gave up after a visitor was served that had come more than `slack` seconds later."""
    moments, newest = [], []
    for moment, came in sorted((p.served, p.came) for p in people if p.served is not None and not p.known):
        moments.append(moment)
        newest.append(max(came, newest[-1] if newest else 0.0))
    count = 0
    for person in people:
        if person.gave_up is not None and not person.known:
            before = bisect.bisect_left(moments, person.gave_up)
            count += before > 0 and newest[before - 1] > person.came + slack
    return count


def descriptors():
    """Raises the limit of open files as far as it may be."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
