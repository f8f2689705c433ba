"""Configurations that people have, each run by the server that it is written for and, after `millrace adopt`, by Millrace: the same
requests get the same status, content and header fields that the configuration is about."""

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import peers  # noqa: E402
import rig  # noqa: E402

HEADERS_MORE = "/usr/lib/nginx/modules/ngx_http_headers_more_filter_module.so"


@dataclass
class Trial:
    """A configuration: `start` runs its server; `files` and `links` are below the trial's folder; `lost` are the directives that adopt may leave out."""

    name: str
    start: callable
    files: dict
    requests: list  # (host, target)
    fields: list
    links: dict = field(default_factory=dict)
    lost: tuple = ()  # beginnings of their text


# nginx: challenges beside closed hidden files, header fields of the module headers-more, links, and what certbot's webroot leaves.
NGINX = """
http { more_set_headers "X-Frame-Options : SAMEORIGIN" "X-Content-Type-Options: nosniff"; add_header Referrer-Policy same-origin always;
server { LISTEN server_name closed.test; root SITE;
  location ^~ /.well-known/acme-challenge/ { allow all; default_type text/plain; }
  location ~ /\\. { deny all; }
  more_set_headers "X-Own : yes"; }
server { LISTEN server_name hidden.test; root SITE;
  location ^~ /.well-known/acme-challenge/ { }
  location ~ /\\. { return 404; } }
server { LISTEN server_name elsewhere.test; root SITE;
  location ^~ /.well-known/acme-challenge/ { root WEBROOT; }
  location ~ /\\.(?!well-known) { deny all; } }
server { LISTEN server_name redirected.test; location /.well-known/acme-challenge/ { root WEBROOT; } location / { return 301 https://$host$request_uri; } }
server { LISTEN_TLS server_name redirected.test; root SITE; ssl_certificate FOLDER/cert.pem; ssl_certificate_key FOLDER/cert.key;
  location ~ /\\. { deny all; } }
server { LISTEN server_name inherited.test www.inherited.test; root WEBROOT; location ^~ /.well-known/acme-challenge/ { default_type "text/plain"; }
  location / { return 301 https://inherited.test$request_uri; } }
server { LISTEN_TLS server_name inherited.test; root SITE; ssl_certificate FOLDER/cert.pem; ssl_certificate_key FOLDER/cert.key; }
server { LISTEN server_name listening.test; location /.well-known/acme-challenge/ { proxy_pass http://127.0.0.1:CERTBOT; } location / { return 301 https://$host$request_uri; } }
server { LISTEN_TLS server_name listening.test; root SITE; ssl_certificate FOLDER/cert.pem; ssl_certificate_key FOLDER/cert.key; }
server { listen 127.0.0.1:CERTBOT; server_name certbot.test; add_header X-Certbot yes; location = /.well-known/acme-challenge/token { return 200 "of certbot"; } }
}
"""
NGINX_FILES = {
    "site/index.html": "<p>home",
    "site/.well-known/acme-challenge/token": "of the site",
    "site/.well-known/security.txt": "Contact: x",
    "site/.git/config": "secret",
    "site/a.css": "a { }",
    "webroot/.well-known/acme-challenge/token": "of the webroot",
    "shared/uploads/photo.txt": "a photo",
    "shared/one.txt": "one file",
}
NGINX_LINKS = {"site/storage": "shared/uploads", "site/one.txt": "shared/one.txt"}
CHALLENGED = ["closed.test", "hidden.test", "elsewhere.test", "redirected.test", "inherited.test", "www.inherited.test", "listening.test"]
NGINX_REQUESTS = [(host, target) for host in CHALLENGED for target in ["/", "/.well-known/acme-challenge/token", "/.well-known/acme-challenge/none", "/a.css", "/.git/config"]]
NGINX_REQUESTS += [("closed.test", target) for target in ["/storage/photo.txt", "/one.txt", "/storage/none", "/.well-known/security.txt", "/none"]]

# Caddy: the Caddyfile of a container image, none of whose variables is set.
CADDYFILE = """{
	{$GLOBAL_OPTIONS}
	admin off
	auto_https off
}

{$EXTRA}

{$SERVER_NAME:http://shop.test:PORT} {
	root * {$SERVER_ROOT:SITE}
	{$SERVER_EXTRA_DIRECTIVES}
	header X-Stage {$STAGE:"live"}
	header X-Frame-Options {$FRAME:SAMEORIGIN}
	encode {$ENCODINGS:zstd gzip}
	php_fastcgi {$FPM:unix/SOCKET}
	file_server
}
"""
FRONT = "<?php header('X-By: php'); echo 'page ', $_SERVER['REQUEST_URI'];"
CADDY_FILES = {"site/index.php": FRONT, "site/a.css": "a { }", "site/docs/a.txt": "a doc"}
CADDY_REQUESTS = [("shop.test", target) for target in ["/", "/?a=1", "/a/page", "/a.css", "/docs/a.txt", "/docs/none", "/index.php"]]

# Apache: a year for everything, nothing for pages.
APACHE = """
DirectoryIndex index.php index.html
FallbackResource /index.php
<FilesMatch "\\.php$">
SetHandler "proxy:unix:SOCKET|fcgi://localhost"
</FilesMatch>
ExpiresActive On
ExpiresDefault "access plus 1 year"
ExpiresByType text/html "access plus 0 seconds"
"""
PAGES = """<?php
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$types = ['/feed/' => 'application/rss+xml; charset=UTF-8', '/wp-json/posts' => 'application/json', '/wp-json/none' => 'application/json'];
if (isset($types[$path])) {
    header("Content-Type: {$types[$path]}");
}
if ($path === '/own') {
    header('Cache-Control: max-age=77');
}
if ($path === '/missing' || $path === '/wp-json/none') {
    http_response_code(404);
}
if ($path === '/moved') {
    header('Location: /elsewhere', true, 302);
}
echo "content of $path";
"""
APACHE_FILES = {"site/index.php": PAGES, "site/a.css": "a { }", "site/app.js": "let a", "site/a.png": "no picture", "site/page.html": "<p>a page", "site/words.txt": "words"}
APACHE_REQUESTS = [("localhost", target) for target in ["/", "/a/page", "/feed/", "/wp-json/posts", "/wp-json/none", "/own", "/missing", "/moved", "/a.css", "/a.css?ver=6.1", "/app.js", "/a.png", "/page.html", "/words.txt", "/index.php"]]


@contextlib.contextmanager
def nginx(folder):
    """nginx with these servers, and a certbot that listens itself; its configuration."""
    port, tls, certbot = (rig.free_port() for _ in range(3))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9", "-subj", "/CN=redirected.test", "-addext",
                    "subjectAltName=DNS:redirected.test,DNS:inherited.test,DNS:listening.test", "-keyout", folder / "cert.key", "-out", folder / "cert.pem"], check=True, capture_output=True)
    words = {"LISTEN_TLS": f"listen 127.0.0.1:{tls} ssl;", "LISTEN": f"listen 127.0.0.1:{port};", "CERTBOT": str(certbot), "WEBROOT": f"{folder}/webroot", "SITE": f"{folder}/site", "FOLDER": str(folder)}
    temp = folder / "temp"
    temp.mkdir()
    user = "user root;" if os.getuid() == 0 else ""
    places = " ".join(f"{kind}_temp_path {temp}/{kind};" for kind in "client_body proxy fastcgi uwsgi scgi".split())
    text = NGINX.replace("http {", f"http {{ include /etc/nginx/mime.types; access_log off; {places}", 1)
    conf = folder / "nginx.conf"
    conf.write_text(f"load_module {HEADERS_MORE}; daemon off; {user} pid {folder}/nginx.pid; events {{ }}\n" + replaced(text, words))
    with rig.Process([peers.path_of("nginx"), "-c", conf, "-e", folder / "error.log"], folder / "nginx.log") as server:
        server.await_up(lambda: rig.answers(("127.0.0.1", port)))
        yield conf, port


@contextlib.contextmanager
def caddy(folder):
    """Caddy with php-fpm, without any variable of its configuration in its environment."""
    port, conf = rig.free_port(), folder / "Caddyfile"
    with rig.PhpFpm(folder, rig.php_ini(folder / "php.ini")) as fpm:
        conf.write_text(replaced(CADDYFILE, {"PORT": str(port), "SOCKET": str(fpm.socket), ":SITE": f":{folder}/site"}))
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        with rig.Process([peers.path_of("caddy"), "run", "--config", conf, "--adapter", "caddyfile"], folder / "caddy.log", env=environment) as server:
            server.await_up(lambda: rig.answers(("127.0.0.1", port)), 30)
            yield conf, port


@contextlib.contextmanager
def apache(folder):
    """Apache with php-fpm."""
    with rig.PhpFpm(folder, rig.php_ini(folder / "php.ini")) as fpm:
        text = replaced(APACHE, {"SOCKET": str(fpm.socket)})
        with peers.Apache(folder, folder / "site", ["expires", "headers", "proxy", "proxy_fcgi"], text) as server:
            yield server.conf, server.port


TRIALS = [
    Trial("nginx: challenges, header fields, links", nginx, NGINX_FILES, NGINX_REQUESTS, ["X-Frame-Options", "X-Content-Type-Options", "Referrer-Policy", "X-Own", "Location"], NGINX_LINKS, ("user root",)),
    Trial("Caddy: variables", caddy, CADDY_FILES, CADDY_REQUESTS, ["X-Stage", "X-Frame-Options", "X-By"], lost=("{$",)),
    Trial("Apache: a year by default", apache, APACHE_FILES, APACHE_REQUESTS, ["Location", "fresh for"]),
]


def replaced(text, words):
    for name, value in words.items():
        text = text.replace(name, value)
    return text


def lay_out(folder, trial):
    for name, text in trial.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name, target in trial.links.items():
        (folder / name).symlink_to(folder / target)


def fresh_for(response):
    """For how many seconds a cache may use a response without asking; None: the response does not say. `no-cache` is 0 (RFC 9111 section 5.2.2.4)."""
    said = response.getheader("Cache-Control", "")
    age = re.search(r"max-age=(\d+)", said)
    return "0" if "no-cache" in said else age and age.group(1)


def seen(port, host, target, fields):
    """The status, the content of a success, and the fields; of a redirect only where it leads, without the server's own port, because the
    redirects of `site.redirect` come before all rules (docs/rules.md)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", target, headers={"Host": host})
    response = connection.getresponse()
    content = response.read().decode(errors="replace")
    values = {name: fresh_for(response) if name == "fresh for" else response.getheader(name) for name in fields}
    if values.get("Location"):
        values = {"Location": values["Location"]}
        values["Location"] = re.sub(r"^(https?://[^/:]+)(:\d+)", r"\1", values["Location"]).removeprefix(f"http://{host}")
    connection.close()
    return {"status": response.status, "content": content if response.status == 200 else None, **values}


@contextlib.contextmanager
def adopted(folder, conf, lost):
    """The port of Millrace with the configuration that adopt makes."""
    toml = folder / "millrace.toml"
    done = subprocess.run([rig.program("millrace"), "adopt", conf, "-o", toml], capture_output=True, text=True, timeout=120)
    if done.returncode or not toml.exists():
        raise RuntimeError(f"millrace adopt: {done.stdout}{done.stderr}")
    missing = [line for line in toml.read_text().splitlines() if "not carried over:" in line and not any(f": {start}" in line for start in lost)]
    if missing:
        raise RuntimeError("millrace adopt: " + "\n".join(missing))
    text = re.sub(r"listen = \[.*\]", lambda _: f'listen = ["127.0.0.1:{rig.free_port()}"]', toml.read_text())
    toml.write_text(text)
    port = int(re.search(r"\[server\][^\[]*listen = \[\"127.0.0.1:(\d+)", text).group(1))
    command = [rig.program("millrace"), "serve", "--config", toml, "--set", f"admin.listen=unix:{folder}/admin.sock", "--set", "cache.dir=off", "--set", "object_cache.enabled=false"]
    with rig.Process(command, folder / "millrace.log") as server:
        server.await_up(lambda: rig.serves(port), 30)
        yield port


def replay(folder, trial):
    """The differences of a trial, each a line."""
    lay_out(folder, trial)
    with trial.start(folder) as (conf, old), adopted(folder, conf, trial.lost) as new:
        differences = []
        for host, target in trial.requests:
            expected = seen(old, host, target, trial.fields)
            # The second one may come from the page cache.
            for found in [seen(new, host, target, trial.fields) for _ in range(2)]:
                names = expected.keys() | found.keys()
                wrong = {name: (expected.get(name), found.get(name)) for name in names if expected.get(name) != found.get(name)}
                if wrong:
                    differences.append(f"{host}{target}: {json.dumps(wrong)}")
        return sorted(set(differences))


def run(folder, tell):
    """Whether all trials are ok."""
    good = True
    for number, trial in enumerate(TRIALS):
        place = folder / f"beside-{number}"
        place.mkdir()
        differences = replay(place, trial)
        good &= tell(not differences, f"{trial.name}: {len(trial.requests)} requests", "\n".join(differences))
    return good
