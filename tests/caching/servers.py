"""The servers that http-cache-tests is run against: each before the same origin (origin/index.php), by whatever way it runs PHP.

Each is set up to obey the response's own fields and nothing else: no lifetime where the response gives none, no grace
that it doesn't ask for, validation where it has a validator.
"""

import contextlib
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import peers  # noqa: E402
import rig  # noqa: E402

NAMES = ["nginx", "Varnish", "Apache", "Millrace"]
WORKERS = 8
FRONT_CONTROLLER = rig.FASTCGI.replace("$document_root$fastcgi_script_name", "$document_root/index.php")


@contextlib.contextmanager
def started(name):
    """One of NAMES with an origin of its own: an object with `port` and `configuration`."""
    with rig.scratch("caching") as folder, contextlib.ExitStack() as stack:
        root = folder / "site"
        shutil.copytree(HERE / "origin", root)
        (folder / "state").mkdir()
        ini = rig.php_ini(folder / "php.ini", ["default_charset=", "log_errors=1", "display_errors=0"])
        start = {"nginx": nginx, "Varnish": varnish, "Apache": apache, "Millrace": millrace}[name]
        server = start(folder, root, ini, stack)
        server.configuration = server.configuration.replace(f"{folder}", "FOLDER").replace(f"{rig.REPOSITORY}/", "")
        yield server


def nginx(folder, root, ini, stack):
    """fastcgi_cache before php-fpm."""
    fpm = stack.enter_context(rig.PhpFpm(folder, ini, WORKERS))
    http = rig.PEER_HOST + f"fastcgi_cache_path {folder}/cache levels=1:2 keys_zone=pages:16m max_size=256m inactive=60m;"
    cache = "fastcgi_cache pages; fastcgi_cache_key $scheme$request_method$host$request_uri; fastcgi_cache_revalidate on;"
    server = stack.enter_context(rig.Nginx(folder, root, f"location / {{ {FRONT_CONTROLLER} {cache} fastcgi_pass unix:{fpm.socket}; }}", http=http))
    server.configuration = server.conf.read_text()
    return server


def varnish(folder, root, ini, stack):
    """Varnish, in-memory, before nginx without a cache before php-fpm."""
    fpm = stack.enter_context(rig.PhpFpm(folder, ini, WORKERS))
    # A script that ends without an answer is a connection that ends without one.
    drop = "error_page 502 = @drop; location @drop { return 444; }"
    origin = rig.Nginx(folder, root, f"{drop} location / {{ {FRONT_CONTROLLER} fastcgi_pass unix:{fpm.socket}; }}", http=rig.PEER_HOST)
    stack.enter_context(origin)
    parameters = ["default_ttl=0", "default_grace=0", "default_keep=3600"]
    server = stack.enter_context(peers.Varnish(folder, origin.port, parameters=parameters))
    server.configuration += "\n# its origin\n" + origin.conf.read_text()
    return server


def apache(folder, root, ini, stack):
    """mod_cache with mod_cache_disk before php-fpm by mod_proxy_fcgi."""
    fpm = stack.enter_context(rig.PhpFpm(folder, ini, WORKERS))
    cache = folder / "cache"
    cache.mkdir()
    cache.chmod(0o777)  # its children are another user
    text = "\n".join([
        f'CacheRoot "{cache}"', "CacheEnable disk /", "CacheDefaultExpire 0", "CacheIgnoreNoLastMod On", "CacheHeader On",
        "RewriteEngine On", f'RewriteRule ^ "unix:{fpm.socket}|fcgi://localhost{root}/index.php" [P]',
    ])  # fmt: skip
    return stack.enter_context(peers.Apache(folder, root, ["proxy", "proxy_fcgi", "rewrite", "cache", "cache_disk"], text))


def millrace(folder, root, ini, stack):
    """Millrace with its cache in standard mode."""
    settings = {"cache.mode": "standard", "cache.dir": "off", "site.front_controller": "/index.php", "php.workers": WORKERS}
    server = stack.enter_context(rig.Millrace(folder, root, profile="generic", ini=ini, settings=settings))
    server.configuration = " ".join(map(str, server.child.args))
    return server
