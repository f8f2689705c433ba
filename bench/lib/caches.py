"""The four caches that bench/cache compares, each before the same PHP script, and what it measures of them.

All are on the server core. nginx and Apache keep their files in memory (tmpfs), Varnish and Millrace keep pages in their own.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import measure
from measure import PINNED, rig

sys.path.insert(0, str(measure.BENCH.parent / "tests" / "support"))
import peers  # noqa: E402
import raw  # noqa: E402

NAMES = ["nginx", "Varnish", "Apache", "Millrace"]
WORKERS = 2
BROTLI = Path("/usr/lib/nginx/modules/ngx_http_brotli_filter_module.so")
# R1's microcache, but for its 30 s, which would let pages expire in the middle of a measurement.
MICROCACHE = """fastcgi_cache pages; fastcgi_cache_key $scheme$request_method$host$request_uri; fastcgi_cache_valid 200 301 302 1d;
fastcgi_cache_lock on; fastcgi_cache_use_stale error timeout invalid_header updating http_500 http_503; fastcgi_cache_background_update on;
fastcgi_ignore_headers Cache-Control Expires Set-Cookie; add_header X-Cache $upstream_cache_status; fastcgi_buffers 64 16k;"""
# Nothing is held back for a full segment: on the loopback interface one is 64 KB, and the rest of a page would wait 40 ms for it.
HTTP = measure.NGINX_HTTP.replace("tcp_nopush on", "tcp_nopush off")
GZIP = "gzip on; gzip_vary on; gzip_min_length 1100; gzip_proxied any; "
FRONT = rig.FASTCGI.replace("$document_root$fastcgi_script_name", "$document_root/index.php")
HIT = {  # how an answer says that it came from the cache
    "nginx": lambda answer: answer.value("x-cache") == "HIT",
    "Varnish": lambda answer: " " in (answer.value("x-varnish") or ""),
    "Apache": lambda answer: (answer.value("x-cache") or "").startswith("HIT"),
    "Millrace": lambda answer: "; hit" in (answer.value("cache-status") or ""),
}


class Cache(measure.Server):
    """A server, the folder in memory where it keeps files (or None), and the file that grows with each run of PHP."""

    def __init__(self, name, port, processes, configuration, home, files):
        super().__init__(port, processes, measure.without_paths(configuration).replace(str(home), "FOLDER"))
        self.name, self.home, self.files = name, home, files

    def runs(self):
        """How often PHP has run."""
        with contextlib.suppress(FileNotFoundError):
            return (self.home / "runs").stat().st_size
        return 0

    def bytes(self):
        """Memory of all its processes (PSS: shared pages counted once), and of its files."""
        pids = [p for process in self.processes for p in [process.pid] + rig.children(process.pid)]
        kept = sum(f.stat().st_blocks * 512 for f in self.files.rglob("*") if f.is_file()) if self.files else 0
        return sum(proportional(p) for p in pids) + kept

    def ask(self, kind, number, coding=None, method="GET"):
        """One answer for a page: of kind "page" or "short"."""
        accept = f"Accept-Encoding: {coding}\r\n" if coding else ""
        head = f"{method} /{kind}-{number}/ HTTP/1.1\r\nHost: bench.test\r\n{accept}Connection: close\r\n\r\n"
        return raw.once(("127.0.0.1", self.port), head.encode(), method, timeout=60)


def front_page():
    """The HTML of a fresh WordPress's front page."""
    if "PAGE" in os.environ:
        return Path(os.environ["PAGE"]).read_bytes()
    with rig.scratch("wordpress") as folder:
        site = measure.new_wordpress(folder / "site")
        with rig.Millrace(folder, site, ini=rig.php_ini(folder / "php.ini")) as server:
            answer = raw.once(("127.0.0.1", server.port), b"GET / HTTP/1.1\r\nHost: bench.test\r\nConnection: close\r\n\r\n", timeout=60)
    if answer.status != 200 or b"</html>" not in answer.body:
        sys.exit(f"not ok: WordPress answers {answer.status}, {len(answer.body)} bytes")
    return answer.body


def proportional(pid):
    """The proportional set size of a process, bytes; 0 if it has ended."""
    with contextlib.suppress(OSError, TypeError):
        return int(re.search(r"^Pss: +([0-9]+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1]) * 1024
    return 0


def start(names, page, stack):
    """Starts the named caches with `page` (bytes) as what PHP sends; {name: Cache}."""
    return {name: STARTS[name](*prepared(name, page, stack), stack) for name in names}


def prepared(name, page, stack):
    """A folder in memory with a site for one server; (folder, root, ini)."""
    home = Path(tempfile.mkdtemp(prefix="millrace-cache-", dir="/dev/shm"))
    stack.callback(shutil.rmtree, home, ignore_errors=True)
    home.chmod(0o755)
    root = home / "site"
    root.mkdir()
    shutil.copy(measure.BENCH / "lib" / "page.php", root / "index.php")
    (home / "page.html").write_bytes(page)
    return home, root, rig.php_ini(home / "php.ini", ["opcache.validate_timestamps=0"])


def fpm(home, ini, stack):
    return stack.enter_context(rig.PhpFpm(home, ini, WORKERS, prefix=PINNED))


def nginx(home, root, ini, stack):
    """fastcgi_cache on tmpfs; gzip by nginx, brotli by Debian's module, each at its default level."""
    pool, files = fpm(home, ini, stack), home / "kept"
    top = "worker_processes 1;" + (f" load_module {BROTLI};" if BROTLI.exists() else "")
    brotli = "brotli on; brotli_min_length 1100; " if BROTLI.exists() else ""
    path = f"fastcgi_cache_path {files} levels=1:2 keys_zone=pages:64m max_size=8g inactive=1d use_temp_path=off;\n"
    server = f"location / {{ {FRONT} {MICROCACHE} fastcgi_pass unix:{pool.socket}; }}"
    front = rig.Nginx(home, root, server, http=HTTP + rig.PEER_HOST + GZIP + brotli + path, top=top, name="bench.test", prefix=PINNED)
    stack.enter_context(front)
    return Cache("nginx", front.port, [front, pool], front.conf.read_text() + fpm_text(home), home, files)


def varnish(home, root, ini, stack):
    """Varnish, malloc, everything else at its default, before nginx (which compresses) and php-fpm."""
    pool = fpm(home, ini, stack)
    server = f"location / {{ {FRONT} fastcgi_buffers 64 16k; fastcgi_pass unix:{pool.socket}; }}"
    origin = rig.Nginx(home, root, server, http=HTTP + rig.PEER_HOST + GZIP, name="bench.test", prefix=PINNED)
    stack.enter_context(origin)
    front = stack.enter_context(peers.Varnish(home, origin.port, storage="malloc,8g", prefix=PINNED))
    shown = front.configuration + "\n# its origin\n" + origin.conf.read_text() + fpm_text(home)
    return Cache("Varnish", front.port, [front, origin, pool], shown, home, None)


def apache(home, root, ini, stack):
    """mod_cache_disk on tmpfs, php-fpm by mod_proxy_fcgi; mod_deflate and mod_brotli before the cache, so that it keeps compressed pages."""
    pool, files = fpm(home, ini, stack), home / "kept"
    files.mkdir()
    files.chmod(0o777)  # its children are another user
    modules = ["proxy", "proxy_fcgi", "rewrite", "cache", "cache_disk", "filter", "deflate", "brotli"]
    text = "\n".join([
        # A thread for every connection: mpm_event closes idle ones when it runs out.
        "ServerLimit 1", "StartServers 1", "ThreadLimit 128", "ThreadsPerChild 128", "MaxRequestWorkers 128",
        "KeepAlive On", "KeepAliveTimeout 600", "MaxKeepAliveRequests 0", "AddOutputFilterByType BROTLI_COMPRESS;DEFLATE text/html",
        f'CacheRoot "{files}"', "CacheEnable disk /", "CacheHeader On", "CacheMaxFileSize 4000000", "CacheLock On",
        "RewriteEngine On", f'RewriteRule ^ "unix:{pool.socket}|fcgi://localhost{root}/index.php" [P]',
    ])  # fmt: skip
    front = stack.enter_context(peers.Apache(home, root, modules, text, prefix=PINNED))
    return Cache("Apache", front.port, [front, pool], front.configuration + fpm_text(home), home, files)


def millrace(home, root, ini, stack):
    """Millrace with 8 GB for pages, nothing on disk."""
    settings = {"cache.memory": "8GB", "cache.dir": "off", "site.front_controller": "/index.php", **extra()}
    process, server = measure.millrace(home, root, ini=ini, workers=WORKERS, **settings)
    stack.enter_context(process)
    return Cache("Millrace", server.port, [process], server.configuration, home, None)


class Floor(measure.Server):
    """lib/floor.c with the answer that Millrace has for a page: what is the kernel's part of the work."""

    name = "floor"

    def __init__(self, server, kind, coding, stack):
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="millrace-floor-")))
        answer = server.ask(kind, 1, coding)
        kept = [(name, value) for name, value in answer.fields if name.lower() != b"connection"]
        head = b"HTTP/1.1 200 OK\r\n" + b"".join(b"%b: %b\r\n" % field for field in kept) + b"\r\n"
        (folder / "answer").write_bytes(head + answer.body)
        subprocess.run(["gcc", "-O2", "-o", folder / "floor", measure.BENCH / "lib" / "floor.c"], check=True)
        port = rig.free_port()
        process = rig.Process([*PINNED, folder / "floor", port, folder / "answer"], folder / "log")
        stack.enter_context(process)
        process.await_up(lambda: rig.answers(("127.0.0.1", port)))
        super().__init__(port, [process], "")

    def runs(self):
        """It has no PHP."""
        return 0


def extra():
    """More settings, for trials: SET="name=value name=value"."""
    return dict(pair.split("=", 1) for pair in os.environ.get("SET", "").split())


def fpm_text(home):
    return "\n# php-fpm\n" + (home / "fpm.conf").read_text()


STARTS = {"nginx": nginx, "Varnish": varnish, "Apache": apache, "Millrace": millrace}
