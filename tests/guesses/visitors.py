"""Visitors with secrets in what they send, and what their answers have to be: what PHP, without a cache, gives each of them."""

import dataclasses
import functools
import http.client
import re
import urllib.parse

# As guess.php has them. A secret says in its letter what it is.
SECRET = re.compile(r"zqi[0-9]{3}[a-f0-9]{16}|zq[a-hj-z][0-9]{3}[a-z0-9]{6}|127\.(?!0\.0\.1\b)\d+\.\d+\.\d+|\b9100\d{5}\b")
BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Accept-Language": "en-US,en;q=0.5", "Accept-Encoding": "identity"}
# PHP calls them cur, site-lang, my_lang, pref (an array), _ga, PHPSESSID.
COOKIES = {"u": "cur", "v": "site-lang", "y": "my.lang", "o": "pref[cur]", "h": "_ga", "z": "PHPSESSID"}
FIELDS = {
    "b": ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; {}) Firefox/140.0"),
    "t": ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/{},*/*;q=0.8"),
    "l": ("Accept-Language", "{},en;q=0.5"),
    "r": ("Referer", "http://elsewhere.test/{}"),
    "c": ("X-Custom", "{}"),
    "n": ("DNT", "{}"),
    "f": ("X-Forwarded-For", "{}"),
    "p": ("Authorization", "Bearer {}"),
}
# Without x: between digits WordPress makes a sign of it.
ALPHABET = "abcdefghijklmnopqrstuvwyz0123456789"


def letter(secret):
    """What a secret is."""
    return secret[2] if secret[0] == "z" else "a" if secret[1] == "2" else "d"


class Visitor:
    """A client with an address of its own, secrets by their letters, and two connections: to the server and to the one without a cache."""

    def __init__(self, number, dice, letters, login=None, cart=None):
        self.number = number
        self.address = f"127.7.{number // 250}.{number % 250 + 2}"
        draw = lambda one: f"zq{one}{number % 1000:03}{''.join(dice.choices(ALPHABET, k=6))}"  # noqa: E731
        self.secrets = {one: draw(one) for one in letters if one not in "awd"}
        self.secrets["a"] = self.address
        # Who is logged in: {"cookie": [name, value], letter: secret...}.
        self.login = login
        if login:
            self.secrets |= {one: value for one, value in login.items() if len(one) == 1}
        # Cookies of a shop.
        self.cart = cart or {}
        self.connections = {}

    def has(self, letters):
        return bool(set(letters) & set(self.secrets))

    def request(self, port, path, without=""):
        """Its path and fields; `without`: as if it had not these secrets."""
        secrets = {one: value for one, value in self.secrets.items() if one not in without}
        fields = {"Host": f"127.0.0.1:{port}", **BROWSER}
        for one, (name, form) in FIELDS.items():
            if one in secrets:
                fields[name] = form.format(secrets[one])
        cookies = [f"{name}={secrets[one]}" for one, name in COOKIES.items() if one in secrets]
        if self.login and "w" not in without:
            cookies.append("=".join(self.login["cookie"]))
        cookies += [f"{name}={value}" for name, value in self.cart.items()]
        if cookies:
            fields["Cookie"] = "; ".join(cookies)
        if "q" in secrets:
            path += f"&utm_source={secrets['q']}"
        return path, fields

    def send(self, server, site, path, without="", method="GET", content=None):
        """Sends a request for a page of the site at port `site` to the server at port `server`."""
        target, fields = self.request(site, path, without)
        if content:
            fields["Content-Type"] = "application/x-www-form-urlencoded"
        for fresh in (server not in self.connections, True):
            if server not in self.connections:
                self.connections[server] = http.client.HTTPConnection("127.0.0.1", server, timeout=120, source_address=(self.address, 0))
            try:
                self.connections[server].request(method, target, content, fields)
                return
            except (http.client.HTTPException, OSError):
                self.close(server)
                if fresh:
                    raise

    def receive(self, server):
        """The answer to what was sent; None: an idle connection was closed meanwhile."""
        try:
            answer = self.connections[server].getresponse()
            page = Page(answer.status, answer.getheaders(), answer.read().decode("utf-8", "replace"))
            if answer.will_close:
                self.close(server)
            return page
        except (http.client.RemoteDisconnected, ConnectionResetError):
            self.close(server)
            return None

    def ask(self, server, site, path, without="", **more):
        """The answer to one request."""
        for _ in range(3):
            self.send(server, site, path, without, **more)
            if page := self.receive(server):
                return page
        raise OSError(f"no answer to {path}")

    def close(self, server):
        if found := self.connections.pop(server, None):
            found.close()

    def end(self):
        for server in list(self.connections):
            self.close(server)


@dataclasses.dataclass
class Page:
    """An answer."""

    status: int
    fields: list
    text: str

    def field(self, name):
        return next((value for field, value in self.fields if field.lower() == name), "")

    @property
    def how(self):
        """`hit`, or why PHP made it."""
        said = self.field("cache-status")
        found = re.search(r"detail=([\w-]+)", said) or re.search(r"fwd=([\w-]+)", said)
        return "hit" if "; hit" in said else found[1] if found else said

    # PHP's own page is compared with many others: both of these are computed once.

    @functools.cached_property
    def secrets(self):
        """The secrets in it, anywhere, by their letters."""
        text = urllib.parse.unquote("\n".join(f"{name}: {value}" for name, value in self.fields) + "\n" + self.text).lower()
        found = {}
        for secret in SECRET.findall(text) + SECRET.findall(text[::-1]):
            found.setdefault(letter(secret), set()).add(secret)
        return found

    @functools.cached_property
    def shown(self):
        """What plugins show in it, but for raw text: that may be the time of day."""
        whole = "\n".join(value for _, value in self.fields) + self.text
        return {urllib.parse.unquote(one) for one in re.findall(r"guess\d+(?:\(|%28)([\w%.,~-]*)(?:\)|%29)", whole)} | set(re.findall(r"\[\[\[.*?\]\]\]", whole, re.S))


def foreign(page, visitor):
    """Secrets in a page that are not of this visitor."""
    return {secret for one, found in page.secrets.items() for secret in found if one != "i" and visitor.secrets.get(one) != secret}


def differs(plugin, page, truth, withheld):
    """In which letters a page differs from what PHP gives, but for those in `withheld`: they may be missing in it, and redirects keep arguments. `!`: in its status or form."""
    wrong = set()
    if page.status != truth.status:
        wrong.add("!")
    if plugin.form != "raw" and page.shown != truth.shown:
        wrong.add("!")
    mine, due = page.secrets, truth.secrets
    for one in set(mine) | set(due):
        if mine.get(one) != due.get(one) and one not in withheld:
            wrong.add(one)
    return wrong
