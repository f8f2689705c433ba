"""The sites of `bench/rewind`: one WordPress on MariaDB that gets a classic theme, and then the plugins of a heavy shop.

    with Site(folder) as site:
        site.become("heavy")
        site.path, site.figures(nginx)

`sites/` has their PHP. The heavy site's plugins are generated: PLUGINS folders of PARTS + 2 files, and one more plugin.
"""

import contextlib
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import crowds
from measure import raw, rig
from wordpress import CLASSIC, new_wordpress  # noqa: E402  (measure has put tests/support where it is found)

CODE = Path(__file__).resolve().parent / "sites"
PLUGINS, PARTS = 14, 106
INI = ["memory_limit=256M", "opcache.memory_consumption=256", "opcache.interned_strings_buffer=32", "opcache.max_accelerated_files=10000", "realpath_cache_size=4096k"]
# Each one is made of the one before it.
KINDS = {"block": "WordPress, block theme", "classic": "WordPress, classic theme", "heavy": f"shop of {PLUGINS} plugins with 1,500 files"}


class Site(contextlib.ExitStack):
    """A WordPress with twenty posts, and its database. Must become one of KINDS."""

    def __init__(self, folder):
        super().__init__()
        rig.needed("mariadbd", "mariadb", "mariadb-install-db", "php")
        self.root, self.kind, self.path = folder / "site", None, "/"
        database = self.enter_context(crowds.mariadb.Server(folder / "db", ["--innodb-buffer-pool-size=128M"]))
        new_wordpress(self.root, database, "--url", "http://bench.test")
        self.ini = rig.php_ini(folder / "seed.ini", INI)
        shutil.copy(CODE / "figures.php", self.root / "bench-figures.php")

    def become(self, kind):
        """Makes it the site of that kind."""
        for step in list(KINDS)[list(KINDS).index(self.kind) + 1 if self.kind else 0 :]:
            getattr(self, step)()
            self.kind = step
            if step == kind:
                return

    def block(self):
        """The theme is WordPress's own."""
        self.run("content.php")

    def classic(self):
        """A theme of PHP files, with a menu and widgets."""
        if not CLASSIC.is_dir():
            sys.exit(f"not ok: there is no {CLASSIC}: install wordpress-theme-twentytwentyone")
        shutil.copytree(CLASSIC, self.root / "wp-content" / "themes" / CLASSIC.name)
        self.run("content.php", CLASSIC.name)

    def heavy(self):
        """Many plugins, and a page of products."""
        plugins = self.root / "wp-content" / "plugins"
        put(plugins / "bench-catalogue" / "bench-catalogue.php", "catalogue")
        for number in range(1, PLUGINS + 1):
            folder = plugins / f"bench-{number}"
            put(folder / f"bench-{number}.php", "main", number)
            put(folder / "includes" / "service.php", "service", number)
            for part in range(PARTS):
                put(folder / "includes" / f"part-{part}.php", "part", number, part)
        self.run("products.php", PLUGINS)
        self.path = "/shop/"

    def run(self, script, *arguments):
        """Runs one of the scripts that put content into the site."""
        done = subprocess.run(["php", "-n", "-c", self.ini, CODE / script, self.root, *map(str, arguments)], capture_output=True, text=True, timeout=300)
        if done.returncode or done.stdout:
            sys.exit(f"not ok: {script} failed:\n{done.stdout}{done.stderr}")

    def figures(self, port):
        """What the page costs there, an ordinary server with php-fpm: a sentence."""
        found = [json.loads(self.ask(port, f"/bench-figures.php?page={self.path}")) for _ in range(30)][10:]
        if any(one["status"] != 200 for one in found):
            sys.exit(f"not ok {self.path}: {found[0]}")
        median = lambda name, since, what: statistics.median(one[name][what] - one[since][what] for one in found)  # noqa: E731
        parts = [
            f"{what} {median(name, since, 'ms'):.0f} ms ({median(name, since, 'cpu'):.0f} ms of CPU) and {median(name, since, 'queries'):.0f} queries"
            for what, name, since in (("boot", "boot", "start"), ("page", "page", "boot"))
        ]
        return f"{KINDS[self.kind]}, {self.path} under php-fpm: {found[0]['files']} PHP files, {', '.join(parts)}"

    def ask(self, port, path):
        """The content of an answer."""
        head = f"GET {path} HTTP/1.1\r\nHost: bench.test\r\nConnection: close\r\n\r\n"
        return raw.once(("127.0.0.1", port), head.encode(), timeout=60).body


def put(path, template, number=0, part=0):
    """Writes a file of a plugin: one of sites/plugin with its numbers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = (CODE / "plugin" / f"{template}.php").read_text()
    path.write_text(text.replace("NUMBER", str(number)).replace("PARTS", str(PARTS)).replace("PART", str(part)))
