"""What the benchmarks with crowds share: one WordPress on MariaDB behind Millrace and behind nginx + php-fpm with its microcache, both
with all cores of this machine, and `millrace load` as the crowd.

    with rig.scratch("survival") as folder, crowds.Site(folder) as site:
        with crowds.nginx(site, connections=300_000) as server:
            document = crowds.load(server, folder / "nginx.json", "--ramp", "0:1000:10s")

One server runs at a time, on the site's one port: its pages name it.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import caches
import measure
from measure import rig

import mariadb  # noqa: E402  (measure has put tests/support where it is found)
import raw  # noqa: E402
from wordpress import new_wordpress  # noqa: E402

# Descriptors that a process may have: here the limit can't be raised.
DESCRIPTORS = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
# php-fpm as Debian installs it.
INSTALLED = ["pm=dynamic", "pm.max_children=5", "pm.start_servers=2", "pm.min_spare_servers=1", "pm.max_spare_servers=3"]
# A PHP process with WordPress in it, bytes of its own.
PHP_PROCESS = 48 << 20
INI = ["memory_limit=128M", "opcache.memory_consumption=128", "opcache.interned_strings_buffer=8", "realpath_cache_size=4096k"]
# What R1 and R5 do with nginx: pages for 10 s, stale ones while one is made anew, nobody's private pages.
MICROCACHE = caches.MICROCACHE.replace(" 1d;", " 10s;") + " fastcgi_cache_bypass $private; fastcgi_no_cache $private;"
PRIVATE = 'map $http_cookie $private { default ""; ~(wordpress_logged_in|comment_author|wp-postpass) 1; }\n'
GZIP = caches.GZIP + "gzip_types text/css application/javascript text/javascript application/json image/svg+xml;\n"
PLACES = """index index.php; location / { try_files $uri $uri/ /index.php$is_args$args; }
location ~ [.](css|js|png|jpg|gif|svg|woff2)$ { try_files $uri =404; expires max; }
location ~ [.]php$ { PHP }"""
MILLRACE = """[server]
listen = ["127.0.0.1:{port}"]
connections = {connections}
backlog = 65535
[http]
keep_alive = "1h"
keep_alive_requests = 0
[log]
access = "off"
[admin]
listen = "unix:{folder}/admin.sock"
[cache]
dir = "off"
ttl.max = "10s"
{cache}[[site]]
root = "{root}"
profile = "wordpress"
"""
MILLRACE_TLS = """[https]
listen = ["127.0.0.1:{tls_port}"]
[[tls]]
cert = "{folder}/chain.pem"
key = "{folder}/key.pem"
"""


class Site(contextlib.ExitStack):
    """A fresh WordPress on a MariaDB of its own, and the port at which it is served."""

    def __init__(self, folder):
        super().__init__()
        rig.needed("nginx", "mariadbd", "mariadb", "mariadb-install-db")
        self.folder, self.root = Path(folder), Path(folder) / "site"
        self.port, self.tls_port = rig.free_port(), rig.free_port()
        self.url, self.tls_url = f"http://127.0.0.1:{self.port}/", f"https://127.0.0.1:{self.tls_port}/"
        self.database = self.enter_context(mariadb.Server(self.folder / "db", ["--max-connections=400", "--innodb-buffer-pool-size=256M"]))
        new_wordpress(self.root, self.database, "--title", "Bench")

    def ask(self, path="/", coding="gzip"):
        """The server's answer at this moment."""
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAccept-Encoding: {coding}\r\nConnection: close\r\n\r\n"
        return raw.once(("127.0.0.1", self.port), head.encode(), timeout=60)


class Server:
    """A server that runs: its processes, where it says what it does, and its configuration for the record."""

    def __init__(self, name, site, processes, configuration, admin=None):
        self.name, self.site, self.processes, self.admin = name, site, processes, admin
        self.configuration = measure.without_paths(configuration).replace(str(site.folder), "FOLDER")

    def options(self):
        """What the tester is told of it: whose processor time and memory are the server's."""
        pids = [process.pid for process in [*self.processes, self.site.database.process]]
        words = [word for pid in pids for word in ("--server-pid", str(pid))]
        return words + (["--metrics", f"unix:{self.admin}"] if self.admin else [])

    def cpu(self):
        """Seconds of CPU that its processes have used, the database's not."""
        return sum(measure.cpu_seconds(p) for process in self.processes for p in [process.pid] + rig.children(process.pid))


@contextlib.contextmanager
def nginx(site, connections=10_000, cached=True, pool=None, tls=False):
    """nginx with as many workers as so many connections need, php-fpm with `pool` (default: by the 75 % rule), microcache if `cached`."""
    folder = site.folder / "nginx"
    folder.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        ini = rig.php_ini(folder / "php.ini", INI)
        fpm = stack.enter_context(rig.PhpFpm(folder, ini, by_75_percent(), pool=pool or ["pm=dynamic", "pm.start_servers=8", "pm.min_spare_servers=4", "pm.max_spare_servers=16"]))
        kept_pages = MICROCACHE if cached else "fastcgi_buffers 64 16k;"
        php = f"{rig.FASTCGI} fastcgi_pass unix:{fpm.socket}; {kept_pages}"
        kept = folder / "kept"
        path = f"fastcgi_cache_path {kept} levels=1:2 keys_zone=pages:64m max_size=1g inactive=10m use_temp_path=off;\n"
        http = measure.NGINX_HTTP.replace("tcp_nopush on", "tcp_nopush off").replace("keepalive_timeout 600", "keepalive_timeout 3600")
        workers = workers_for(connections)
        places = PLACES.replace("PHP", php) + (encrypted(site, folder) if tls else "")
        front = stack.enter_context(rig.Nginx(
            folder, site.root, places, http=http + rig.PEER_HOST + PRIVATE + GZIP + path, port=site.port, listen="reuseport",
            events="multi_accept on;", top=f"worker_processes {workers}; worker_rlimit_nofile {DESCRIPTORS};", name="_"))  # fmt: skip
        shown = front.conf.read_text() + "\n# php-fpm\n" + (folder / "fpm.conf").read_text()
        server = Server("nginx", site, [front, fpm], shown)
        ready(site, cached, lambda answer: answer.value("x-cache") == "HIT", front)
        server.fpm_log = folder / "fpm-error.log"
        yield server


def workers_for(connections):
    """nginx's processes: one a core, or as many as so many connections need at three quarters of a process's descriptors: the kernel
    shares connections out by chance."""
    return max(os.cpu_count(), -(-connections * 4 // (3 * DESCRIPTORS)))


def by_75_percent():
    """PHP processes by the rule that everything together takes three quarters of the memory (R1)."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(20, int(memory * 0.75 - (2 << 30)) // PHP_PROCESS)


def encrypted(site, folder):
    """nginx's part for HTTPS."""
    certificate(folder)
    return f"""
listen 127.0.0.1:{site.tls_port} ssl backlog=4096 reuseport; ssl_certificate {folder}/chain.pem; ssl_certificate_key {folder}/key.pem;
ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:tls:50m; ssl_session_timeout 1d; ssl_session_tickets on;"""


def certificate(folder):
    """chain.pem and key.pem: ECDSA P-256, as authorities give them today."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9", "-subj", "/CN=bench.test"]
    command += ["-addext", "subjectAltName=DNS:bench.test,IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "chain.pem"]
    subprocess.run(command, check=True, capture_output=True)


@contextlib.contextmanager
def millrace(site, connections=10_000, cached=True, tls=False, more=""):
    """Millrace with its own PHP. It would keep pages until they change; here they live 10 s, as in nginx's microcache."""
    folder = site.folder / "millrace"
    folder.mkdir(exist_ok=True)
    values = {"port": site.port, "tls_port": site.tls_port, "connections": connections, "folder": folder, "root": site.root}
    text = MILLRACE.format(**values, cache="" if cached else 'mode = "off"\n')
    if tls:
        certificate(folder)
        text += MILLRACE_TLS.format(**values)
    (folder / "millrace.toml").write_text(text + more)
    ini = rig.php_ini(folder / "php.ini", INI)
    command = [rig.program("millrace"), "serve", "--config", folder / "millrace.toml", "--php-ini", ini]
    with rig.Process(command, folder / "millrace.log") as process:
        process.await_up(lambda: rig.serves(site.port), 30)
        server = Server("Millrace", site, [process], text, admin=folder / "admin.sock")
        ready(site, cached, lambda answer: "; hit" in (answer.value("cache-status") or ""), process)
        yield server


def ready(site, cached, is_hit, process):
    """Waits until the home page comes from the cache, with gzip; the first pages compile all scripts."""
    for _ in range(100):
        answer = site.ask()
        if answer.status == 200 and (not cached or is_hit(answer) and answer.value("content-encoding") == "gzip"):
            return
        time.sleep(0.1)
    sys.exit(f"not ok: the home page is {answer.status} {answer.fields}\n{process.tail()}")


def load(server, file, *options, url=None, seconds=480):
    """Runs `millrace load`; what it found. Ended in order when it takes longer than `seconds`."""
    command = [rig.program("millrace"), "load", url or server.site.url, "--status", "200", *map(str, options), *server.options(), "--json", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            out = running.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)
            out = running.communicate(timeout=60)[0]
        except BaseException:
            running.kill()
            raise
    print(out, flush=True)
    return json.loads(Path(file).read_text())
