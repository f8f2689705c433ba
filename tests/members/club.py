"""The club of tests/members: a WordPress on MariaDB with club.php, and its members as browsers."""

import contextlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import mariadb  # noqa: E402
import rig  # noqa: E402
import shop  # noqa: E402
from browsing import check, how, same  # noqa: E402
from wordpress import new_wordpress  # noqa: E402

PASSWORD = "A rather long pass-phrase 1"
ADMIN = "keeper"
# Pages that members with the same rights may share.
SHARED = {name: f"{name} version-1 [gold]secret of {name}[/gold]" for name in ("news", "lesson", "guide")}
# Pages that are one member's, in whatever way. A list of all members is: on the page of each of them, another one is the reader.
OWN = {name: f"[club-{name}]" for name in ("progress", "orders", "vip", "mail", "initial", "global", "token", "welcome", "directory", "late")}
# Ways to know who asks without asking WordPress.
WAYS = ["cookie", "computed", "each", "closure", "filter", "field", "getenv", "all", "parsed", "validated", "token", "determined", "valid", "session", "address"]
# Names without a common first letter; all are written in the same way.
NAMES = ["Anna Alt", "Bert Box", "Cora Cox", "Dora Day", "Emil Eck", "Fred Fox", "Gina Gut", "Hans Hut"]


class Club(contextlib.ExitStack):
    """The site, its database, and the port at which it is served."""

    def __init__(self, folder, constants=""):
        super().__init__()
        rig.needed("mariadbd", "mariadb", "mariadb-install-db")
        self.folder, self.root, self.port = folder, folder / "site", rig.free_port()
        self.database = self.enter_context(mariadb.Server(folder / "db"))
        self.ini = rig.php_ini(folder / "php.ini", shop.INI)
        url = f"http://127.0.0.1:{self.port}"
        source = os.environ.get("WORDPRESS_FROM")
        options = ["--url", url, "--admin", ADMIN, "--password", PASSWORD, *(["--from", source] if source else [])]
        new_wordpress(self.root, self.database, *options, constants=constants)
        plugins = self.root / "wp-content" / "mu-plugins"
        shutil.copy(HERE / "club.php", plugins)
        (plugins / "club").mkdir()
        shutil.copy(HERE / "old.inc", plugins / "club")
        self.server, self.known = None, {}

    def serve(self, folder, **settings):
        """A server for it."""
        folder.mkdir()
        self.server = folder / "admin.sock"
        more = {"admin.listen": f"unix:{self.server}", "cache.members": "roles", **settings}
        return rig.Millrace(folder, self.root, ini=self.ini, listen=self.port, settings=more)

    def do(self, what, **form):
        """An act of PHP in Millrace, in a request of nobody."""
        answer = shop.Client(self.port).ask("/wp-login.php?add-to-cart=0", {"club": what, **form})
        check(answer.text.endswith("done") or "number " in answer.text, f"{what}: {answer.status} {answer.text[-300:]}")
        return answer.text

    def install(self):
        """Pages; once there is a server."""
        text = self.do("install", pages=json.dumps(SHARED | OWN | {"ways": "[club-ways]"}))
        self.talk, self.talk_path = re.search(r"number (\d+) https?://[^/]+/(\S*?)/?$", text).groups()
        # WordPress has something to do in the first requests of its life.
        for name in SHARED:
            check(rig.settles(self.server, lambda name=name: how(shop.Client(self.port).ask(f"/{name}/")) == "hit"), f"/{name}/ is not cached")

    def member(self, name, role="gold"):
        """A member's account: its number. Those of an earlier story are taken again."""
        login = name.lower().replace(" ", "")
        if login not in self.known:
            text = self.do("member", login=login, password=PASSWORD, mail=f"{login}@club.example", name=name, role=role)
            self.known[login] = int(re.search(r"number (\d+)", text)[1])
        self.do("rename", user=self.known[login], name=name)
        self.do("password", user=self.known[login], password=PASSWORD)
        self.do("role", user=self.known[login], role=role)
        return self.known[login]

    def members(self, count, role="gold"):
        """So many members who have just logged in."""
        return [Browser(self, name, role) for name in NAMES[:count]]

    def cli(self, code):
        """PHP outside of Millrace, as WP-CLI runs it."""
        boot = "error_reporting(E_ALL & ~E_DEPRECATED); $_SERVER['HTTP_HOST'] = '127.0.0.1'; require %s; " % json.dumps(str(self.root / "wp-load.php"))
        done = subprocess.run(["php", "-n", "-c", self.ini, "-r", boot + code], capture_output=True, text=True, timeout=60)
        same((done.returncode, done.stderr), (0, ""), "PHP at the command line")

    def hooks(self, what):
        """Hooks for PHP outside of Millrace; the server reads what they report."""
        told = lambda word: shop.run([rig.program("millrace"), "hooks", word, self.root])  # noqa: E731
        rig.new_code(self.server.parent / "millrace.log", self.root / "wp-content/mu-plugins/club.php", lambda: shop.Client(self.port).ask("/"), lambda: told(what))
        check(what != "enable" or rig.wait_for(lambda: "a server reads" in told("status"), 10, 0.05), "no server reads what hooks report")

    def explained(self, path, cookies):
        """What `millrace cache explain` says."""
        words = [word for name, value in cookies.items() for word in ("--cookie", f"{name}={value}")]
        return json.loads(shop.run([rig.program("millrace"), "cache", "explain", f"http://127.0.0.1:{self.port}{path}", *words, "--json", "--admin", f"unix:{self.server}"]))

    def counters(self):
        return rig.status_at(self.server)["counters"]


class Browser(shop.Client):
    """A member at a browser: what each page has to show of him, whoever made it."""

    def __init__(self, club, name, role="gold", known=None):
        super().__init__(club.port)
        self.club, self.name, self.role = club, name, role
        self.login = name.lower().replace(" ", "")
        self.number = known or club.member(name, role)
        self.enter()

    def enter(self):
        """Logs in. A page that is never shared says which nonces are his."""
        self.cookies.clear()
        self.log_in(self.login)
        answer = self.ask("/progress/")
        check(how(answer) != "hit", "a personal page is a hit")
        self.nonces = nonces(answer.text)
        check(all(self.nonces), f"no nonces: {answer.text[-800:]}")

    def view(self, name, role=None):
        """A page, with what must be on it: `role` if it is not the member's own any more."""
        answer = self.ask(f"/{name}/")
        same(answer.status, 200, name)
        self.sees(answer, name, role or self.role)
        return answer

    def sees(self, answer, name, role):
        what = f"{self.name} sees /{name}/, {how(answer)}"
        greeting = re.search(r'Hello <b class="name">([^<]*)</b>, ([^!]*)!', answer.text)
        same(greeting and greeting.groups(), (self.name, self.name.split()[0]), f"{what}: the greeting")
        same(nonces(answer.text), self.nonces, f"{what}: nonces")
        if "[gold]" in SHARED.get(name, ""):
            same(("GOLD: secret" in answer.text, "JOIN-GOLD" in answer.text), (role == "gold", role != "gold"), f"{what}: as {role}")

    def log_out(self):
        """By the link of a page, as it came."""
        page = self.view("news")
        link = html.unescape(re.search(r'href="https?://[^/"]+(/wp-login\.php\?action=logout[^"]*)"', page.text)[1])
        old = dict(self.cookies)
        same(self.ask(link).status, 302, "the log-out")
        return old

    @property
    def cookie(self):
        return next(name for name in self.cookies if name.startswith("wordpress_logged_in_"))


def nonces(text):
    """Of the link to log out, and for the REST API."""
    out = re.search(r"action=logout[^\"]*?_wpnonce=([0-9a-f]{10})", text)
    rest = re.search(r'var club = \{"nonce":"([0-9a-f]{10})"\}', text)
    return out and out[1], rest and rest[1]


def own(text):
    """What a personal page says."""
    found = re.search(r'<p class="own">([^<]*)</p>', text)
    return found and found[1]


def warm(members, names=tuple(SHARED)):
    """Each of the pages is a hit for each member: PHP has made it for several of them."""
    for _ in range(8):
        if all([how(member.view(name)) == "hit" for name in names for member in members]):
            return
    found = {(member.name, name): how(member.view(name)) for name in names for member in members}
    check(False, f"not all are hits: {found}")
