"""The servers that bench/rivals compares: nginx + php-fpm as installed and as an expert configures it, Apache, Varnish, FrankenPHP, Millrace.

Each starts in a `Place`: "pages" (a page that PHP makes and the server caches, hello.php, a file of 3 KB) or "wordpress" (uncached).
A place on one core is for CPU a request; a place on all cores is for the crowd.
"""

import os
import re
import shutil
import tempfile
import types
from pathlib import Path

import caches
import crowds
import measure
from measure import rig

import peers  # noqa: E402  (measure has put tests/support where it is found)

MILLRACE, FRANKENPHP = "Millrace", "FrankenPHP"
HELLO_WORKERS, WORDPRESS_WORKERS, CROWD_WORKERS = 4, 2, 16
# An expert bounds the queue: this many requests in PHP or waiting for it, the others are refused with 503. At 50 pages a second it is 2 s of work,
# as long as Millrace lets visitors wait.
IN_PHP = 100
BUFFERS = "fastcgi_buffers 64 16k;"
USUAL = """index index.php; location / { try_files $uri $uri/ /index.php$is_args$args; }
location ~ [.]php$ { PHP CACHE }
location = /hello.php { PHP }"""
# nginx.conf of Debian; tcp_nopush is off for the reason that stands beside caches.HTTP.
INSTALLED = "sendfile on; tcp_nopush off; types_hash_max_size 2048; gzip on; "
# nginx compresses what it sends, not what it stores. So an inner server compresses, and an outer one stores what that sends: once for each
# coding, which is a part of the key. Not used: fastcgi_keep_conn, with which a few clients keep all processes of php-fpm.
CODINGS = 'map $http_accept_encoding $coding { default ""; "~*\\bbr\\b" br; "~*\\bgzip\\b" gzip; }\n'
STORED = """location / {
proxy_cache pages; proxy_cache_key $scheme$request_method$host$request_uri$coding; proxy_cache_valid 200 301 302 1d; proxy_cache_lock on;
proxy_cache_use_stale error timeout invalid_header updating http_500 http_503; proxy_cache_background_update on;
proxy_ignore_headers Cache-Control Expires Set-Cookie Vary; proxy_http_version 1.1; proxy_set_header Connection "";
proxy_set_header Host $http_host; proxy_set_header Accept-Encoding $coding; proxy_buffers 64 16k; proxy_pass http://inner;
add_header X-Cache $upstream_cache_status; }
location ~ [.](css|js|png|jpg|gif|svg|woff2)$ { try_files $uri =404; gzip_static on; expires max; }
location = /hello.php { PHP }"""
INNER = """upstream inner { server unix:HOME/inner.sock; keepalive 16; }
server { listen unix:HOME/inner.sock; server_name bench.test; root ROOT; gzip on; gzip_vary on; gzip_min_length 1100; gzip_proxied any; gzip_comp_level 6;
BROTLI location / { FRONT BUFFERS fastcgi_pass unix:SOCKET; } }
"""
# What FrankenPHP's directive php_server does, in Caddy's own directives. FrankenPHP runs in classic mode, as its manual has it for WordPress: in worker
# mode one process of WordPress would serve request after request, and WordPress keeps a request's state in globals. It has no page cache.
CADDYFILE = """{
	admin off
	auto_https off
	persist_config off
	storage file_system HOME/caddy
	servers {
		timeouts {
			idle 10m
		}
	}
}
http://:PORT {
	bind 127.0.0.1
	root * ROOT
	route {
		GZIP
		@folder {
			file {path}/index.php
			not path */
		}
		redir @folder {path}/ 308
		@index file {
			try_files {path} {path}/index.php index.php
			split_path .php
		}
		rewrite @index {file_match.relative}
		@php path *.php
		php @php ROOT THREADS THREADS
		file_server
	}
}
"""
PROGRAM = None  # bench/rivals says where FrankenPHP is


class Place:
    """Where a server runs: a folder in memory, the site, php.ini; on one core or on all."""

    def __init__(self, kind, root, ini, home, pinned=True):
        self.kind, self.root, self.ini, self.home, self.pinned = kind, root, ini, home, pinned
        self.prefix = measure.PINNED if pinned else ()
        self.workers = CROWD_WORKERS if not pinned else HELLO_WORKERS if self.cached else WORDPRESS_WORKERS

    @property
    def cached(self):
        """Whether pages are cached."""
        return self.kind == "pages"

    def fpm(self, stack, pool=()):
        """php-fpm, a static pool unless `pool` says otherwise, and the directive that passes requests to it. Its queue is as long as by default."""
        process = stack.enter_context(rig.PhpFpm(self.home, self.ini, self.workers, prefix=self.prefix, pool=[*pool, "listen.backlog=511"]))
        return process, f"{rig.FASTCGI} fastcgi_pass unix:{process.socket};"

    def server(self, name, front, processes, configuration):
        """The server for the record."""
        shown = configuration.replace(rig.program("millrace"), "millrace")  # MILLRACE may be anywhere on this machine
        return caches.Cache(name, front.port, processes, shown, self.home, None)


def pages(name, page, stack):
    """A place with the cached page, hello.php and the file."""
    home, root, ini = caches.prepared(name, page, stack)
    (root / "hello.php").write_text('<?php echo "Hello World";\n')
    (root / "3k.jpg").write_bytes(b"x" * 3072)
    return Place("pages", root, rig.php_ini(ini), home)


def wordpress(root, stack, pinned):
    """A place with this WordPress."""
    home = Path(tempfile.mkdtemp(prefix="millrace-rivals-"))
    stack.callback(shutil.rmtree, home, ignore_errors=True)
    home.chmod(0o755)
    return Place("wordpress", root, rig.php_ini(home / "php.ini", crowds.INI), home, pinned)


def front(place, stack, server, http, events=""):
    """nginx with these locations."""
    top = f"worker_processes {1 if place.pinned else os.cpu_count()};" + (f" load_module {caches.BROTLI};" if caches.BROTLI.exists() else "")
    name = "bench.test" if place.cached else "127.0.0.1"  # WordPress links to SERVER_NAME if that is not its own
    return stack.enter_context(rig.Nginx(place.home, place.root, server, http=http + rig.PEER_HOST, top=top, name=name, events=events, prefix=place.prefix))


def fastcgi_cache(place):
    """Where nginx keeps pages."""
    return f"fastcgi_cache_path {place.home}/kept levels=1:2 keys_zone=pages:64m max_size=8g inactive=1d use_temp_path=off;\n"


def installed(name, place, stack):
    """nginx and php-fpm with Debian's settings, the usual location for PHP, and fastcgi_cache."""
    pool, php = place.fpm(stack, crowds.INSTALLED)
    server = USUAL.replace("PHP", php).replace("CACHE", caches.MICROCACHE.replace(BUFFERS, "") if place.cached else "")
    nginx = front(place, stack, server, INSTALLED + (fastcgi_cache(place) if place.cached else ""))
    return place.server(name, nginx, [nginx, pool], nginx.conf.read_text() + caches.fpm_text(place.home))


def tuned(name, place, stack):
    """nginx and php-fpm as an expert configures them."""
    pool, php = place.fpm(stack)
    http = caches.HTTP
    if place.cached:
        server = STORED.replace("PHP", php)
        brotli = "brotli on; brotli_min_length 1100; brotli_comp_level 5;" if caches.BROTLI.exists() else ""
        inner = INNER.replace("HOME", str(place.home)).replace("ROOT", str(place.root)).replace("BROTLI", brotli)
        inner = inner.replace("SOCKET", str(pool.socket)).replace("BUFFERS", BUFFERS).replace("FRONT", caches.FRONT)
        http += CODINGS + fastcgi_cache(place).replace("fastcgi_cache_path", "proxy_cache_path") + inner
    else:
        server = crowds.PLACES.replace("PHP", f"{php} {BUFFERS} limit_conn all {IN_PHP};")
        http += crowds.GZIP + "limit_conn_zone $server_name zone=all:1m; limit_conn_status 503;\n"
    nginx = front(place, stack, server, http, "multi_accept on;")
    return place.server(name, nginx, [nginx, pool], nginx.conf.read_text() + caches.fpm_text(place.home))


def apache(name, place, stack):
    """Apache (mpm_event) before php-fpm by mod_proxy_fcgi; mod_cache_disk on tmpfs keeps compressed pages."""
    pool, _ = place.fpm(stack)
    modules = ["proxy", "proxy_fcgi", "rewrite", "cache", "cache_disk", "filter", "deflate", "brotli"]
    lines = [
        # Threads as in caches.py, and room for idle connections beside them.
        "ServerLimit 1", "StartServers 1", "ThreadLimit 128", "ThreadsPerChild 128", "MaxRequestWorkers 128", "AsyncRequestWorkerFactor 256",
        "KeepAlive On", "KeepAliveTimeout 600", "MaxKeepAliveRequests 0", "AddOutputFilterByType BROTLI_COMPRESS;DEFLATE text/html",
        '<FilesMatch "[.]php$">', f'SetHandler "proxy:unix:{pool.socket}|fcgi://localhost"', "</FilesMatch>",
    ]  # fmt: skip
    if place.cached:
        files = place.home / "kept"
        files.mkdir()
        files.chmod(0o777)  # Apache's children are another user
        lines += [f'CacheRoot "{files}"', "CacheEnable disk /", "CacheDisable /hello.php", "CacheDisable /3k.jpg", "CacheHeader On", "CacheMaxFileSize 4000000",
                  "CacheLock On", "RewriteEngine On", f'RewriteRule ^/page- "unix:{pool.socket}|fcgi://localhost{place.root}/index.php" [P]']  # fmt: skip
    else:
        lines += ["DirectoryIndex index.php", "FallbackResource /index.php"]
    process = stack.enter_context(peers.Apache(place.home, place.root, modules, "\n".join(lines), prefix=place.prefix))
    return place.server(name, process, [process, pool], process.configuration + caches.fpm_text(place.home))


def varnish(name, place, stack):
    """Varnish with its defaults before nginx (which compresses) and php-fpm; what is not to be cached passes through it."""
    pool, php = place.fpm(stack)
    server = USUAL.replace("PHP", f"{php} {BUFFERS}").replace("CACHE", "")
    origin = front(place, stack, server, caches.HTTP + caches.GZIP)
    uncached = 'if (req.url == "/hello.php") { return (pass); }' if place.cached else "return (pass);"
    vcl = f"sub vcl_recv {{ {uncached} }}\n"
    process = stack.enter_context(peers.Varnish(place.home, origin.port, vcl, storage="malloc,8g", parameters=["timeout_idle=600"], prefix=place.prefix))
    shown = process.configuration + "\n# its origin\n" + origin.conf.read_text() + caches.fpm_text(place.home)
    return place.server(name, process, [process, origin, pool], shown)


def frankenphp(name, place, stack):
    """FrankenPHP in Caddy: as many threads as php-fpm has processes. Visitors wait for a thread without a limit, the default."""
    port = rig.free_port()
    ini = place.home / "frankenphp.ini"  # without php-fpm's extensions: FrankenPHP's PHP has its own in it
    ini.write_text("".join(line for line in place.ini.read_text().splitlines(True) if not line.startswith("extension=")))
    values = {"HOME": place.home, "PORT": port, "ROOT": place.root, "THREADS": place.workers, "GZIP": "" if place.cached else "encode gzip"}
    text = re.sub("|".join(values), lambda found: str(values[found[0]]), CADDYFILE)
    (place.home / "Caddyfile").write_text(text)
    environment = {**os.environ, "PHPRC": str(ini), "PHP_INI_SCAN_DIR": "", "GODEBUG": "cgocheck=0"}  # the last as in its container images
    process = rig.Process([*place.prefix, PROGRAM, "run", "--config", place.home / "Caddyfile"], place.home / "frankenphp.log", env=environment)
    stack.enter_context(process)
    process.await_up(lambda: rig.serves(port), 30)
    built = (PROGRAM.parent / "built").read_text()
    return place.server(name, types.SimpleNamespace(port=port), [process], f"# {built}{text}\n# php.ini\n{ini.read_text()}")


def millrace(name, place, stack):
    """Millrace: for CPU a request on one thread with a fixed number of workers, before a crowd as installed with 16 workers at most."""
    if place.cached:
        settings = {"cache.memory": "8GB", "cache.dir": "off", "site.front_controller": "/index.php"}
        process, server = measure.millrace(place.home, place.root, ini=place.ini, workers=place.workers, **settings)
    elif place.pinned:
        process, server = measure.millrace(place.home, place.root, profile="wordpress", ini=place.ini, workers=place.workers, **{"cache.mode": "off"})
    else:
        process = rig.Millrace(place.home, place.root, ini=place.ini, settings={"cache.mode": "off", "php.workers": place.workers})
        server = measure.Server(process.port, [process], measure.without_paths(" ".join(map(str, process.child.args))))
    stack.enter_context(process)
    return place.server(name, process, [process], server.configuration)


STARTS = {"nginx as installed": installed, "nginx tuned": tuned, "Apache": apache, "Varnish": varnish, FRANKENPHP: frankenphp, MILLRACE: millrace}
# Whose word caches.HIT takes for a hit.
SAYS = {"nginx as installed": "nginx", "nginx tuned": "nginx"}


def is_hit(server, answer):
    """Whether an answer came from the cache, by the server's own word."""
    return caches.HIT[SAYS.get(server.name, server.name)](answer)
