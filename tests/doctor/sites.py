"""Bottlenecks of a WordPress on MariaDB. The stories share the site; each makes its own bottleneck, cures it, and returns why something is not
well, or nothing."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import threading

import doctor
import mariadb
import rig
import wordpress

HEALTHY_RUNS = 3
# What the stories make: a healthy site has none of it.
MADE = {
    "fd-server", "net-accept", "net-ports", "net-conntrack", "cgroup-cpu", "cgroup-memory", "disk-full", "opcache-full", "db-connections",
    "db-missing-index", "wp-autoload", "script-sleeps", "script-remote", "db-down", "swap", "oom", "uploads-closed", "uploads-large",
}


class Shop:
    """The site, made in the background, and a Millrace that serves it without a page cache unless a story wants one."""

    def __init__(self, folder, stories):
        self.folder, self.root, self.stories = folder, folder / "site", stories
        self.database, self.makers, self.making = None, concurrent.futures.ThreadPoolExecutor(), []

    def __enter__(self):
        self.folder.mkdir(parents=True)
        if self.stories:
            self.making.append(self.makers.submit(self.make))
        if "sqlite" in self.stories:
            self.making.append(self.makers.submit(self.make_sqlite))
        return self

    def make(self):
        """WordPress on MariaDB."""
        self.database = mariadb.Server(self.folder / "db", ["--max-connections=40", "--performance-schema=off"])
        wordpress.new_wordpress(self.root, self.database, "--url", "http://127.0.0.1")

    def make_sqlite(self):
        """A second one, on SQLite."""
        root = self.folder / "sqlite" / "site"
        root.parent.mkdir()
        subprocess.run([rig.program("millrace"), "new", "wordpress", root, "--url", "http://127.0.0.1"], check=True, capture_output=True, timeout=600)
        (root / "wp-content" / "mu-plugins").mkdir(exist_ok=True)
        (root / "wp-content" / "mu-plugins" / "count.php").write_text("<?php add_action('init', function () { update_option('count', microtime(), false); });")

    def await_site(self):
        """Waits until the sites are there."""
        for making in self.making:
            making.result()

    def __exit__(self, *_):
        self.makers.shutdown()
        if self.database:
            self.database.stop()

    def serve(self, name, **settings):
        """Millrace on the site, on any port: WordPress is told the port that it is asked at."""
        here = self.folder / name
        here.mkdir(exist_ok=True)
        chosen = {"php.workers": 4, "php.folders": self.folder, **settings}
        ini = rig.php_ini(here / "php.ini", ["memory_limit=256M"])
        return rig.Millrace(here, self.root, settings=chosen, ini=ini)

    def plugin(self, name, code):
        """A must-use plugin; its file."""
        path = self.root / "wp-content" / "mu-plugins" / f"{name}.php"
        path.write_text("<?php\n" + code)
        return path


# A page that no cache has: WordPress makes it each time.
UNCACHED = "/?p={}"
NO_CACHE = {"cache.mode": "off"}


def healthy(shop):
    """A few hundred requests per second for cached pages, some for others: nothing of what the stories make, and no error."""
    with shop.serve("healthy") as server, doctor.load(server.port, "/", clients=2, pause=0.008), doctor.load(server.port, "/wp-login.php?n={}", clients=1, pause=0.3):
        rig.wait_for(lambda: doctor.examine(server, shop.root, seconds=1)["findings"] == [], 5)
        for number in range(HEALTHY_RUNS):
            report = doctor.examine(server, shop.root, seconds=2)
            false = [found for found in report["findings"] if found["id"] in MADE or (found["severity"] == "error" and found["id"] not in doctor.OTHERS)]
            if false:
                return f"run {number}: {false}"
            if report["checked"] < 60:
                return f"only {report['checked']} checks looked: {report['could_not_look']}"
        print(f"# healthy: {HEALTHY_RUNS} runs; the last: {report['checked']} checks; {doctor.short(report)}")
        return ""


def connections(shop):
    """All connections of the database are taken; the doctor itself is refused, and says so."""
    with shop.serve("connections", **NO_CACHE) as server, contextlib.ExitStack() as stack:
        command = ["mariadb", "--no-defaults", f"--socket={shop.database.socket}", "--user=wp", "--password=secret"]
        before = int(shop.database.ask("SELECT @@max_connections")[0])
        shop.database.sql("SET GLOBAL max_connections = 10")

        def is_full():
            """Whether all are taken; adds a client that is connected and waits for its input, as long as they are not."""
            if len(shop.database.ask("SELECT 1 FROM information_schema.PROCESSLIST WHERE USER = 'wp'")) >= 10:
                return True
            held = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(held.wait)
            stack.callback(held.stdin.close)
            return False

        rig.wait_for(is_full, 10, pause=0.05)
        why = doctor.first_is(doctor.examine(server, shop.root, seconds=1), "db-connections", "max_connections", "php.workers")
        # The cure.
        shop.database.sql(f"SET GLOBAL max_connections = {before}")
        return why or doctor.is_gone(doctor.examine(server, shop.root, seconds=1), "db-connections")


def uploads(shop):
    """The folder for uploads belongs to another user than PHP is, and a file is larger than the server takes."""
    folder = shop.root / "wp-content" / "uploads"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    try:
        with shop.serve("uploads", **{**NO_CACHE, "site.body_bytes": "1MB", "php.user": "www-data"}) as server:
            for target, body in [("/", b""), ("/wp-login.php", b"x" * (2 << 20))]:
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                with contextlib.suppress(ConnectionError):
                    connection.request("POST" if body else "GET", target, body)
                    connection.getresponse().read()
                connection.close()
            report = doctor.examine(server, shop.root, seconds=1)
            large = [found for found in report["findings"] if found["id"] == "uploads-large" and "body_bytes" in found["cure"]]
            why = doctor.first_is(report, "uploads-closed", f"{folder}", "chown -R www-data:") or ("" if large else f"no uploads-large: {doctor.short(report)}")
            shutil.chown(folder, "www-data")
            return why or doctor.is_gone(doctor.examine(server, shop.root, seconds=1), "uploads-closed")
    finally:
        shutil.chown(folder, os.getuid())


def index(shop):
    """A plugin that looks for an address in a table without an index."""
    shop.database.sql(
        "USE wordpress; CREATE TABLE wp_visits (id INT PRIMARY KEY AUTO_INCREMENT, address VARCHAR(40), note VARCHAR(200)) ENGINE=InnoDB;"
        "INSERT INTO wp_visits (address, note) SELECT CONCAT('10.0.', seq % 250, '.', seq % 77), REPEAT('x', 150) FROM seq_1_to_300000;"
    )
    code = """add_action('init', function () { global $wpdb;
        $wpdb->get_var("SELECT COUNT(*) FROM wp_visits WHERE address = '10.0.1." . mt_rand(1, 70) . "' AND note LIKE '%y'"); });"""
    plugin = shop.plugin("visits", code)
    try:
        with shop.serve("index", **NO_CACHE) as server, doctor.load(server.port, UNCACHED, clients=3):
            why = doctor.until(
                lambda seconds: doctor.examine(server, shop.root, seconds=seconds),
                lambda report: doctor.first_is(report, "db-missing-index", "CREATE INDEX millrace_address ON wp_visits (address)"),
            )
            # The cure, as it is said.
            shop.database.sql("USE wordpress; CREATE INDEX millrace_address ON wp_visits (address)")
            return why or doctor.until(lambda seconds: doctor.examine(server, shop.root, seconds=seconds), lambda report: doctor.is_gone(report, "db-missing-index"))
    finally:
        plugin.unlink()
        shop.database.sql("USE wordpress; DROP TABLE wp_visits")


def autoload(shop):
    """5 MB of options that every page loads."""
    insert = "USE wordpress; INSERT INTO wp_options (option_name, option_value, autoload) VALUES ('big_plugin_log', REPEAT('x', 5000000), 'yes')"
    shop.database.sql(insert)
    try:
        with shop.serve("autoload", **NO_CACHE) as server, doctor.load(server.port, UNCACHED, clients=1):
            why = doctor.first_is(doctor.examine(server, shop.root, seconds=1), "wp-autoload", "big_plugin_log", "off")
            # What `wp option set-autoload` does.
            shop.database.sql("USE wordpress; UPDATE wp_options SET autoload = 'off' WHERE option_name = 'big_plugin_log'")
            return why or doctor.is_gone(doctor.examine(server, shop.root, seconds=1), "wp-autoload")
    finally:
        shop.database.sql("USE wordpress; DELETE FROM wp_options WHERE option_name = 'big_plugin_log'")


def sleeping(shop):
    """A plugin that sleeps in each request."""
    plugin = shop.plugin("slow-thing", "add_action('init', function () { usleep(700000); });")
    try:
        with shop.serve("sleeping", **NO_CACHE) as server, doctor.load(server.port, UNCACHED, clients=6):
            why = doctor.until(
                lambda seconds: doctor.examine(server, shop.root, seconds=seconds),
                lambda report: doctor.first_is(report, "script-sleeps", "must-use plugin slow-thing"),
            )
            plugin.unlink()
            return why or doctor.until(lambda seconds: doctor.examine(server, shop.root, seconds=seconds), lambda report: doctor.is_gone(report, "script-sleeps"))
    finally:
        plugin.unlink(missing_ok=True)


@contextlib.contextmanager
def silent_server():
    """A server that accepts and never answers; its port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        held = []

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    held.append(listener.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        # Ends accept() in the thread.
        listener.shutdown(socket.SHUT_RDWR)
        for connection in held:
            connection.close()


def remote(shop):
    """A plugin that asks another server in each request; the other server hangs."""
    with silent_server() as port:
        code = f"""add_action('init', function () {{
            @file_get_contents('http://127.0.0.1:{port}/news', false, stream_context_create(['http' => ['timeout' => 2]])); }});"""
        plugin = shop.plugin("news", code)
        try:
            with shop.serve("remote", **NO_CACHE) as server, doctor.load(server.port, UNCACHED, clients=6):
                why = doctor.until(
                    lambda seconds: doctor.examine(server, shop.root, seconds=seconds),
                    lambda report: doctor.first_is(report, "script-remote", "must-use plugin news", "timeout"),
                )
                plugin.unlink()
                return why or doctor.until(lambda seconds: doctor.examine(server, shop.root, seconds=seconds), lambda report: doctor.is_gone(report, "script-remote"))
        finally:
            plugin.unlink(missing_ok=True)


def texts(shop):
    """The report for people, by URL and by folder; a check explained."""
    with shop.serve("texts") as server:
        admin = ["--admin", f"unix:{server.admin}"]
        run = lambda *words: subprocess.run([rig.program("millrace"), "doctor", *words], capture_output=True, text=True, timeout=60)  # noqa: E731
        by_url = run(f"http://127.0.0.1:{server.port}/", "--seconds", "1", "--verbose", *admin)
        if "Well: " not in by_url.stdout or "url-status" not in by_url.stdout or "wp-autoload" not in by_url.stdout:
            return f"by URL: {by_url}"
        watched = watch(shop.root, admin)
        if watched:
            return watched
        explained = run("--explain", "wp-autoload")
        if "800000" not in explained.stdout or explained.returncode != 0:
            return f"explained: {explained}"
        # Without a server, the machine and the site are still looked at.
        alone = run(shop.root, "--seconds", "1", "--admin", f"unix:{server.admin}.none", "--verbose")
        if "Could not look" not in alone.stdout or "wp-autoload" not in alone.stdout or alone.returncode not in (0, 1):
            return f"without a server: {alone}"
        return ""


def sqlite(shop):
    """A WordPress on SQLite that writes while it is read; the cure, as it is said, makes readers and writers independent."""
    here = shop.folder / "sqlite"
    root = here / "site"
    with rig.Millrace(here, root, settings={"php.workers": 2, "php.folders": here, **NO_CACHE}, ini=rig.php_ini(here / "php.ini")) as server:
        with doctor.load(server.port, UNCACHED, clients=1, pause=0.1):
            why = doctor.until(lambda seconds: doctor.examine(server, root, seconds=seconds), lambda report: doctor.first_is(report, "sqlite-journal", "PRAGMA journal_mode=wal"))
            file = next((root / "wp-content" / "database").glob("*.sqlite"))
            code = '$base = new SQLite3($argv[1]); $base->busyTimeout(10000); echo $base->querySingle("PRAGMA journal_mode=wal");'
            rig.wait_for(lambda: subprocess.run(["php", "-r", code, file], capture_output=True, text=True).stdout == "wal", 10)
            return why or doctor.until(lambda seconds: doctor.examine(server, root, seconds=seconds), lambda report: doctor.is_gone(report, "sqlite-journal"))


def watch(site, admin):
    """`--watch --json` prints a line for each look, until it is ended. What is wrong with it."""
    command = [rig.program("millrace"), "doctor", site, "--watch", "--json", "--seconds", "1", *admin]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        try:
            looks = [json.loads(watching.stdout.readline()) for _ in range(3)]
        finally:
            watching.terminate()
    return "" if all(look["checked"] > 60 for look in looks) else f"watched: {looks}"


STORIES = {
    "healthy": healthy,
    "connections": connections,
    "uploads": uploads,
    "index": index,
    "autoload": autoload,
    "sleeping": sleeping,
    "remote": remote,
    "sqlite": sqlite,
    "texts": texts,
}
