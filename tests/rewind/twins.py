"""Two equal sites, each with a database and a Millrace of its own, and clients that ask both for the same.

    with Twins(folder, ["on", "off"]) as twins:
        twins.ask(client, "/about/")            # both answers, compared
"""

import contextlib
import dataclasses
import gzip
import json
import os
import shutil
import subprocess
import threading
import urllib.parse
from pathlib import Path

import mariadb
import noise
import raw
import rig
import shop
from wordpress import CLASSIC

HERE = Path(__file__).resolve().parent
HOST = "mill.test"
WORKERS = 2
# Both see each edit of a file, however soon after the last one.
INI = shop.INI + ["opcache.revalidate_freq=0", "error_log="]
SETTINGS = {"cache.mode": "off", "php.workers": WORKERS, "php.workers_start": WORKERS, "php.queue_wait": "60s"}
# For each client that asks both: one kind of request that WordPress answers with a page.
BROWSER = {"User-Agent": shop.BROWSER["User-Agent"], "Accept": shop.NAVIGATION["Accept"], "Accept-Language": "en-US,en;q=0.5", "Accept-Encoding": "identity"}


@dataclasses.dataclass
class Client:
    """A visitor: what it sends with each request, and its cookies at each of the two sites. `own`: each site has made random session names and nonces of its own for it."""

    name: str
    fields: dict = dataclasses.field(default_factory=dict)
    jars: list = None
    own: bool = False

    def __post_init__(self):
        self.jars = self.jars or [shop.Client(0), shop.Client(0)]

    @staticmethod
    def known(document):
        """A client that seed.php has made: both sites know its cookies."""
        client = Client(document["name"], document.get("fields") or {})
        for jar in client.jars:
            jar.cookies.update(document["cookies"])
        return client


@dataclasses.dataclass
class Answer:
    """An answer as it has come, and whether WordPress was booted for it: the boot's name, or None if WordPress has not been asked."""

    status: int
    fields: list
    content: bytes
    boot: str

    @property
    def text(self):
        return self.content.decode("utf-8", "replace")

    def field(self, wanted):
        return next((value for name, value in self.fields if name.lower() == wanted.lower()), "")


class Twins(contextlib.ExitStack):
    """The sites `a` and `b`, which start equal; `modes`: php.rewind of their servers."""

    def __init__(self, folder, modes):
        super().__init__()
        rig.needed("mariadbd", "mariadb", "mariadb-install-db", "mariadb-dump")
        self.folder, self.modes, self.names = Path(folder), modes, ["a", "b"]
        self.local, self.lock = threading.local(), threading.Lock()
        self.differences, self.requests = [], [Tally(), Tally()]
        original = self.enter_context(shop.Site(self.folder, url=f"http://{HOST}"))
        self.database = original.database
        plugins = original.root / "wp-content" / "mu-plugins"
        shutil.copy(HERE / "site.php", plugins)
        shutil.copytree(CLASSIC, original.root / "wp-content" / "themes" / CLASSIC.name)
        self.products = original.products
        seeded = json.loads(shop.run(["php", "-n", "-c", original.ini, HERE / "seed.php", original.root]))
        self.ids, self.clients = seeded["ids"], {kind: [Client.known(one) for one in some] for kind, some in seeded["clients"].items()}
        self.noise = noise.Noise(self.folder)
        self.roots = [self.copy(original.root, name) for name in self.names]
        self.servers = [self.serve(*each) for each in zip(self.names, self.roots, modes)]

    def copy(self, root, name):
        """A site and its database once more."""
        target = self.folder / name / "site"
        shutil.copytree(root, target)
        config = target / "wp-config.php"
        config.write_text(config.read_text().replace("'DB_NAME', 'shop'", f"'DB_NAME', '{name}'"))
        self.database.sql(f"CREATE DATABASE {name}; GRANT ALL ON {name}.* TO 'wp'@'localhost'")
        self.database.sql(f"USE {name};\n" + self.dump("shop"))
        return target

    def dump(self, name, *options):
        """A database as SQL."""
        command = ["mariadb-dump", "--no-defaults", f"--socket={self.database.socket}", "--user=root", *options, name]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    def serve(self, name, root, mode):
        folder = self.folder / name
        ini = rig.php_ini(folder / "php.ini", INI)
        return self.enter_context(rig.Millrace(folder, root, ini=ini, settings={**SETTINGS, "php.rewind": mode, "php.rewind_except": "time_of_boot"}))

    def rewind(self):
        """What the first server says of its rewound workers."""
        answer = raw.once(str(self.servers[0].admin), b"GET /status.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return json.loads(answer.body)["php"][0]["rewind"]

    def read(self, pool, reads, sides):
        """Sends all requests, which change nothing, to one site and then to the other, from as many threads as the pool has; compares."""
        answers = [None, None]
        for side in sides:
            answers[side] = list(pool.map(lambda read: self.exchange(side, read.client, read.path, None, read.method, read.fields, False), reads))
        for read, *both in zip(reads, *answers):
            self.compare(read.client, read.method, read.path, both)

    def ask(self, client, path, form=None, method=None, fields=None):
        """Asks both sites, and compares what they say. `form` is a document or one for each site: a dictionary is posted as a form, text as JSON.
        The client takes the cookies that it is sent."""
        forms = form if isinstance(form, list) else [form, form]
        answers = [self.exchange(side, client, path, forms[side], method, fields or {}, True) for side in (0, 1)]
        self.compare(client, method or ("GET" if form is None else "POST"), path, answers)
        return answers

    def exchange(self, side, client, path, form, method, more, keep):
        """One site's answer. Each thread has a connection to each site."""
        body, kind = encoded(form)
        fields = {"Host": HOST, **BROWSER, **client.fields, **more, **kind}
        fields = {name: value for name, value in fields.items() if value is not None}
        if jar := client.jars[side].cookies:
            fields["Cookie"] = "; ".join(f"{name}={value}" for name, value in jar.items())
        if not hasattr(self.local, "connections"):
            self.local.connections = [shop.Client(server.port) for server in self.servers]
        method = method or ("GET" if form is None else "POST")
        came, content = self.local.connections[side].exchange(method, path, body, fields, 90)
        if keep:
            for cookie in came.headers.get_all("Set-Cookie", []):
                client.jars[side].keep(cookie)
        if came.headers["Content-Encoding"] == "gzip" and content:
            content = gzip.decompress(content)
        boot = came.headers["X-Boot"]
        answer = Answer(came.status, [(n, v) for n, v in came.headers.items() if n != "X-Boot"], content, boot)
        with self.lock:
            self.requests[side].count(answer, client, method)
        return answer

    def compare(self, client, method, path, answers):
        """Keeps what is not the same."""
        why = self.noise.difference(answers, client.own)
        if why:
            with self.lock:
                self.differences.append(Difference(f"{method} {path} of {client.name}", why, answers))

    def sql(self, text):
        """Changes both databases, as another program does."""
        for name in self.names:
            self.database.sql(f"USE {name};\n{text}")

    def write(self, path, text, time):
        """Writes a file of both sites, with that time in seconds: two edits within a second have different ones."""
        for root in self.roots:
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            made = file.with_suffix(".new")
            made.write_text(text)
            os.utime(made, (time, time))
            made.rename(file)

    def compare_rows(self):
        """What differs between the databases: (table, rows of one only, rows of the other only)."""
        tables = [self.database.ask(f"SHOW TABLES FROM {name}") for name in self.names]
        if tables[0] != tables[1]:
            return 0, [("tables", *tables)]
        found, count = [], 0
        for table in tables[0]:
            rows = [self.noise.rows(table, self.database.sql(f"SELECT * FROM {name}.{table}").stdout.splitlines()) for name in self.names]
            count += sum(rows[0].values())
            if rows[0] != rows[1]:
                found.append((table, list((rows[0] - rows[1]).elements()), list((rows[1] - rows[0]).elements())))
        return count, found


def encoded(form):
    """A body and its field: a form of a dictionary, or JSON of text."""
    if form is None:
        return None, {}
    if isinstance(form, str):
        return form.encode(), {"Content-Type": "application/json"}
    return urllib.parse.urlencode(form).encode(), {"Content-Type": "application/x-www-form-urlencoded"}


@dataclasses.dataclass
class Difference:
    """Two answers that are not the same."""

    what: str
    why: str
    answers: list

    def save(self, folder, number):
        folder.mkdir(parents=True, exist_ok=True)
        for side, answer in zip("ab", self.answers):
            head = "".join(f"{name}: {value}\n" for name, value in answer.fields)
            (folder / f"{number}-{side}").write_bytes(f"{self.what}\n{answer.boot}\n{answer.status}\n{head}\n".encode() + answer.content)


class Tally:
    """How many requests a server has answered, and how many of them from a boot of their own."""

    def __init__(self):
        self.all, self.boots, self.seen, self.kinds = 0, set(), 0, {}

    def count(self, answer, client, method):
        self.all += 1
        if answer.boot and method in ("GET", "HEAD"):
            self.seen += 1
            kind = self.kinds.setdefault(client.name, [0, 0])
            kind[0] += 1
            kind[1] += answer.boot in self.boots
        self.boots.add(answer.boot)

    @property
    def rewound(self):
        return sum(count for _, count in self.kinds.values())
