"""The site of tests/guesses: a WordPress with generated plugins, one server with a cache, and one without, which says what is right."""

import base64
import contextlib
import json
import random
import re
import shutil
import time
from pathlib import Path

import mariadb
import rig
import shop
from table import Table
from visitors import Visitor, letter
from wordpress import new_wordpress

HERE = Path(__file__).resolve().parent
NAMES = ["Anna", "Bert", "Cora", "Dora", "Emil"]
# What a visitor may bring; who has one of OWN has no part in what is shared.
SHARING, OWN = "uvyohbtlrcnfqz", "pws"


class Site(contextlib.ExitStack):
    """The site at its port, and `plain`: the port of the server without a cache. `logins`: of members, see members.php."""

    def __init__(self, folder):
        super().__init__()
        rig.needed("mariadbd", "mariadb", "mariadb-install-db")
        self.folder, self.answers, self.logins = folder, 0, []
        sessions = folder / "sessions"
        sessions.mkdir()
        sessions.chmod(0o1777)
        self.ini = rig.php_ini(folder / "php.ini", [*shop.INI, f"session.save_path={sessions}", "request_order=GPC"])
        self.make()
        self.plugins = self.root / "wp-content" / "mu-plugins" / "guesses"
        self.plugins.mkdir()
        (self.plugins / "other.inc").write_text("<!doctype html><title>Another template</title><?php wp_head(); the_content(); wp_footer();")
        shutil.copy(HERE / "guess.php", self.plugins.parent)
        self.plain = self.enter_context(self.start(self.folder / "plain", None, {"cache.mode": "off", "php.rewind": "off"})).port

    def make(self):
        """WordPress with members."""
        self.root, self.port = self.folder / "site", rig.free_port()
        self.database = self.enter_context(mariadb.Server(self.folder / "db"))
        new_wordpress(self.root, self.database, "--url", f"http://127.0.0.1:{self.port}")
        self.logins = json.loads(shop.run(["php", "-n", "-c", self.ini, HERE / "members.php", self.root, *NAMES]))

    def start(self, folder, port, settings):
        folder.mkdir()
        return rig.Millrace(folder, self.root, ini=self.ini, listen=port, settings={"php.folders": self.folder, "php.workers": 3, **settings})

    def serve(self, settings):
        """A new server with a cache."""
        return self.start(self.folder / f"served-{time.monotonic_ns()}", self.port, settings)

    @property
    def login_cookie(self):
        return self.logins[0]["cookie"][0] if self.logins else "wordpress_logged_in_x"

    def truth(self, visitor, path, without=""):
        """What PHP gives."""
        return visitor.ask(self.plain, self.port, path, without)

    def get(self, visitor, path):
        """What the visitor gets."""
        self.answers += 1
        return visitor.ask(self.port, self.port, path)

    def purge(self, path):
        """The page is made again."""
        nobody = Visitor(0, random.Random(0), "")
        assert nobody.ask(self.port, self.port, path, method="PURGE").status in (200, 204), f"PURGE {path}"
        nobody.end()

    def open_session(self, visitor, server):
        """The session of who brings one, with his secret in it."""
        visitor.ask(server, self.port, f"/sample-page/?g=session&who={visitor.secrets['s']}")

    def write(self, plugin):
        (self.plugins / f"{plugin.number}.php").write_text(plugin.code)
        if plugin.part:
            (self.plugins / f"{plugin.number}.inc").write_text(plugin.part)

    def remove(self, plugin):
        for ending in ("php", "inc"):
            (self.plugins / f"{plugin.number}.{ending}").unlink(missing_ok=True)

    def table(self):
        """The functions of PHP and WordPress."""
        page = Visitor(0, random.Random(0), "").ask(self.plain, self.port, "/sample-page/?g=table")
        return Table(json.loads(base64.b64decode(page.text.rpartition("table:")[2])))

    def tried(self, visitor, codes, without=""):
        """What each piece of code gives away of a visitor: (its secrets, a digest of its text); None if it ends the run."""
        if not codes:
            return []
        content = "codes=" + base64.b64encode(json.dumps(codes).encode()).decode().replace("+", "%2B")
        page = visitor.ask(self.plain, self.port, "/sample-page/?g=try", without, method="POST", content=content)
        told = [json.loads(line) for line in re.findall(r"^tried:(.*)$", page.text, re.M)]
        # What is missing was not reached, but for the first.
        return told if len(told) == len(codes) else told + [None] + self.tried(visitor, codes[len(told) + 1 :], without)


class ShopSite(Site):
    """The same with the shop of tests/shop."""

    def make(self):
        made = self.enter_context(shop.Site(self.folder / "shop", cost=0))
        self.root, self.port, self.products = made.root, made.port, made.products

    def cart(self, things):
        """The cookies of who has put these things into a cart."""
        client = shop.Client(self.port)
        for name in things:
            client.ask(f"/shop/?add-to-cart={self.products[name]}")
            # The page that tells it.
            client.ask("/shop/")
        client.close()
        return client.cookies


class Found:
    """Ways from the function table that give something away: `self.all` has (code, letters, whether its secrets are in its text as they are)."""

    BATCH = 400

    def __init__(self, site, seed, batches):
        dice, self.all, tries = random.Random(f"{seed} table"), [], 0
        table = site.table()
        self.hooks = table.hooks
        letters = (SHARING + "pw").replace("z", "")
        anna, bert = (Visitor(900 + at, dice, letters, site.logins[at]) for at in (0, 1))
        blurred = []
        for _ in range(batches):
            codes = table.codes(dice, self.BATCH)
            tries += len(codes)
            for code, first, other in zip(codes, site.tried(anna, codes), site.tried(bert, codes)):
                if not first or not other:
                    continue
                if first[0] and all(anna.secrets.get(letter(one)) == one for one in first[0]):
                    self.all.append((code, "".join(sorted({letter(one) for one in first[0]})), True))
                elif first[1] != other[1]:
                    blurred.append((code, first[1]))
        self.all += self.blurred(site, anna, letters, blurred)
        self.tries = tries
        for one in (anna, bert):
            one.end()

    @staticmethod
    def blurred(site, anna, letters, found):
        """Those whose text is another for each visitor, without a secret in it: what it depends on is found by leaving that out."""
        codes = [code for code, _ in found]
        steady = [code for (code, digest), again in zip(found, site.tried(anna, codes)) if again and again[1] == digest]
        digests = [one and one[1] for one in site.tried(anna, steady)]
        by = {code: "" for code in steady}
        for one in letters:
            for code, digest, again in zip(steady, digests, site.tried(anna, steady, one)):
                if again and again[1] != digest:
                    by[code] += one
        shared = {code: "".join(one for one in depends if one not in OWN) for code, depends in by.items()}
        return [(code, depends, False) for code, depends in shared.items() if depends]

    def way(self, dice, about):
        """(letter, code, whether it shows secrets) of one that is about one of these letters, or None."""
        fit = [one for one in self.all if set(one[1]) & set(about)]
        if not fit:
            return None
        code, letters, clear = dice.choice(fit)
        return (dice.choice(sorted(set(letters) & set(about))) if clear else letters), code, clear
