"""A site whose pages say what they are, and clients who believe nothing.

A page of the site names itself, its version and the process and moment that made it, and ends with a hash of all that. Its
version grows with each purge. A client knows which versions were purged before it asked: an older one, a page of another
name, or one whose hash is wrong, is a wrong page."""

import gzip
import hashlib
import http.client
import random
import threading
import time

# The page, and what purges it. The version is in force before the purge, as in any application.
SCRIPTS = {
    "page.php": r"""<?php
$id = (int) $_GET['id'];
$version = (int) @file_get_contents("VERSIONS/$id");
header('Cache-Control: public, max-age=86400');
header("Millrace-Tag: page-$id, every");
$text = "page $id version $version made " . getmypid() . '-' . hrtime(true) . "\n" . str_repeat("content of $id\n", 20 + $id % 300);
echo $text, hash('sha256', $text), "\n";
""",
    "purge.php": r"""<?php
$id = (int) $_GET['id'];
$version = 1 + (int) @file_get_contents("VERSIONS/$id");
file_put_contents("VERSIONS/$id.new", (string) $version);
rename("VERSIONS/$id.new", "VERSIONS/$id");
millrace_purge('hard', match ($_GET['by']) { 'tag' => "page-$id", 'url' => "/page.php?id=$id" });
header('Cache-Control: no-store');
echo "purged $id version $version\n";
""",
}


class WrongPage(Exception):
    """A page that nobody should have got."""


def read_page(number, body):
    """The version of a page and what made it; raises `WrongPage` if the body isn't that page, whole."""
    text, _, rest = body.rpartition(b"\n")[0].rpartition(b"\n")
    text += b"\n"
    if hashlib.sha256(text).hexdigest().encode() != rest:
        raise WrongPage(f"page {number} is torn: {len(body)} bytes, {body[:60]!r} ... {body[-80:]!r}")
    words = text.split(b"\n", 1)[0].split()
    if words[:2] != [b"page", str(number).encode()]:
        raise WrongPage(f"asked for page {number}, got {words[:2]}")
    return int(words[3]), words[5].decode()


class Site:
    """What is known of the pages: which version must be there at least, and which were seen."""

    def __init__(self, folder, pages):
        self.root, self.versions, self.pages = folder / "site", folder / "versions", pages
        for path in (self.root, self.versions):
            path.mkdir(mode=0o777)
            path.chmod(0o777)
        for name, code in SCRIPTS.items():
            (self.root / name).write_text(code.replace("VERSIONS", str(self.versions)))
        self.lock = threading.Lock()
        # Versions that a purge was confirmed for; what made the last page that was seen.
        self.purged, self.made = {}, {}

    def least(self, number):
        with self.lock:
            return self.purged.get(number, 0)

    def confirm(self, number, version):
        with self.lock:
            self.purged[number] = max(version, self.purged.get(number, 0))


class Client:
    """One connection after the other, as long as the server lives."""

    def __init__(self, site, port):
        self.site, self.port, self.connection = site, port, None

    def ask(self, target, fields=None):
        """One request: (status, fields, body); raises OSError or HTTPException when the server goes away."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            self.connection.request("GET", target, headers={"Host": "kept.test", **(fields or {})})
            answer = self.connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None

    def page(self, number):
        """Gets a page, as it is or compressed, and checks it; what made it, and whether the cache had it."""
        least = self.site.least(number)
        coding = random.choice(["identity", "gzip", "br;q=0, gzip", "identity"])
        status, fields, body = self.ask(f"/page.php?id={number}", {"Accept-Encoding": coding})
        if status != 200:
            raise WrongPage(f"page {number}: status {status}")
        if fields.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        version, made = read_page(number, body)
        if version < least:
            raise WrongPage(f"page {number}: version {version} came back, {least} was confirmed")
        return made, "hit" in fields.get("Cache-Status", "")

    def purge(self, number):
        """Has a page changed and purged. When this returns the server has confirmed it."""
        by = random.choice(["tag", "url"])
        status, _, body = self.ask(f"/purge.php?id={number}&by={by}")
        words = body.split()
        if status != 200 or words[:2] != [b"purged", str(number).encode()]:
            raise WrongPage(f"purge of {number}: status {status}, {body[:100]!r}")
        self.site.confirm(number, int(words[3]))


class Crowd:
    """Clients in the background: most read, one purges. They stop when the server goes away, or are told to."""

    def __init__(self, site, port, readers=3, purging=True):
        self.site, self.port, self.stopping = site, port, threading.Event()
        self.wrong, self.pages, self.hits, self.purges, self.last_purge = [], 0, 0, 0, 0.0
        work = [self.read] * readers + [self.purge] * purging
        self.threads = [threading.Thread(target=self.until_it_ends, args=(w,), daemon=True) for w in work]
        for thread in self.threads:
            thread.start()

    def until_it_ends(self, work):
        client = Client(self.site, self.port)
        try:
            while not self.stopping.is_set():
                work(client)
        except WrongPage as e:
            self.wrong.append(str(e))
        except (OSError, http.client.HTTPException) as e:
            # It was killed. Or it wasn't: whoever started the crowd knows.
            self.ended = e
        finally:
            client.close()

    def read(self, client):
        # A few pages are asked for often.
        number = min(int(random.paretovariate(0.7)), self.site.pages) if random.random() < 0.5 else random.randint(1, self.site.pages)
        _, hit = client.page(number)
        self.pages += 1
        self.hits += hit

    def purge(self, client):
        client.purge(random.randint(1, self.site.pages))
        self.purges, self.last_purge = self.purges + 1, time.monotonic()
        time.sleep(random.uniform(0, 0.02))

    def end(self):
        """Waits for all; what they found wrong."""
        self.stopping.set()
        for thread in self.threads:
            thread.join(60)
        return self.wrong
