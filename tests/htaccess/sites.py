"""Sites with `.htaccess` files as applications, plugins, hosters and copied snippets leave them: each shape of shapes.py in each of its variants,
shapes that stand in one file on real sites, and files of nested folders. Every site has the same tree, and is asked for what its file is about
and for what every site is asked for, by clients that differ."""

import base64

from cases import SHOW, Case
from shapes import SHAPES

# What stands in one file, in this order; each row with another choice of variants.
TOGETHER = """
litespeed wordpress
litespeed wordfence wordpress
wordfence wordpress
wordpress wordfence
wp-super-cache wordpress
wp-rocket wordpress
w3-total-cache wordpress
fastest-cache wordpress
solid-security wordpress
all-in-one-security wordpress
all-in-one-security litespeed wordpress
really-simple-ssl wordpress
wordpress really-simple-ssl
webp wordpress
hotlinks wordpress
expires deflate wordpress
cpanel wordpress
wordpress cpanel
firewall-nG wordpress
firewall-alias wordpress
bad-bots wordpress
canonical-host wordpress
redirects wordpress
redirection-plugin wordpress
password wordpress
maintenance wordpress
mobile wp-super-cache wordpress
security-headers cache-control wordpress
files-closed wordpress
addresses network-folders
solid-security network-folders
expires wp-rocket firewall-nG wordpress
expires drupal-11
drupal-7 bad-bots
canonical-host joomla
firewall-nG joomla
expires magento
prestashop deflate
opencart expires
laravel cpanel
really-simple-ssl laravel
symfony security-headers
no-extension types
trailing-slash front-controllers
language index-and-errors
boilerplate wordpress
"""

# The file of a folder below one that has a file, too.
NESTED = """
wordpress > wp-content/uploads no-php-here
wordpress > sub password
drupal-11 > sites/default no-php-here
to-public > public laravel
to-public > public front-controllers
wordpress > core wordpress
expires > sub expires
security-headers > sub security-headers
bad-bots > sub addresses
index-and-errors > sub index-and-errors
canonical-host > sub redirects
maintenance > sub front-controllers
password > sub files-closed
redirects > sub trailing-slash
"""

# Number of sites: that no row is lost.
SITES = 208

TREE = {
    **{name: SHOW for name in """index.php show.php wp-login.php wp-config.php xmlrpc.php info.php wp-comments-post.php wp-content/uploads/evil.php core/index.php
wp-includes/ms-files.php wp-includes/version.php wp-admin/index.php sub/show.php sub/index.php public/index.php sites/default/settings.php api/index.php get.php
core/modules/system/tests/https.php autoload.php remote.php matomo.php setup/index.php core/install.php""".split()},
    **{name: f"{name}\n" for name in """a.html style.css app.js img.jpg img.png photo.jpeg img.jpg.webp photo.webp hot.gif doc.pdf font.woff2 data.json robots.txt readme.txt
readme.html sub/b.html sub/x.txt files/x.txt wp-content/uploads/x.txt public/a.html .env .git/config .user.ini backup.sql composer.json debug.log x.ini x.tpl
missing.html maintenance.html closed.txt config/x.txt tmp/x.txt data/x.txt images/x.txt manual.html.de archive.tar.gz page.shtml x.svg auth.json a.module CHANGELOG.txt
wp-content/cache/supercache/example.testBASE/cached/index.html wp-content/cache/page_enhanced/example.testBASE/cached/_index.html
wp-content/cache/wp-rocket/example.testBASE/cached/index.html wp-content/cache/all/cached/index.html web.config image/x.txt""".split()},
    "empty": "",
}  # fmt: skip

PATHS = """a.html link.html maintenance.html info.php/a%20b none.php show.php show.php/more?x=1 style.css img.jpg img.png sub sub/ sub/b.html none/at/all none.html index.php ?p=1&q=a%20b page%20two/ empty/ .htaccess
wp-content/uploads/x.txt sub/show.php""".split()

CLIENTS = [
    {},
    {"Host": "www.example.test", "User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"},
    {"User-Agent": "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Mobile/15E148", "Accept": "text/html,image/webp,*/*;q=0.8"},
    {"Cookie": "wordpress_logged_in_1=ann; lang=fr; full=1", "User-Agent": "Mozilla/5.0"},
    {"Referer": "http://badsite.test/page", "Accept": "image/webp"},
    {"Authorization": "Basic " + base64.b64encode(b"bcrypt:secret").decode(), "X-Forwarded-Proto": "https"},
    {"User-Agent": "EvilBot/1.0 (evil)", "Accept-Language": "de-DE,de;q=0.9"},
    {"Referer": "http://example.test/a.html", "Accept-Language": "fr", "Cookie": "preview=yes"},
    {"Origin": "https://shop.example.test", "Authorization": "Basic " + base64.b64encode(b"sha1:wrong").decode()},
    {"Authorization": "Bearer token", "X-XSRF-Token": "abc", "User-Agent": "Mozilla/5.0 (Linux; Android 14) Mobile", "CF-Visitor": '{"scheme":"http"}'},
    {"Host": "EXAMPLE.test", "Referer": "https://www.google.test/search", "X-Forwarded-Proto": "http"},
]


def sites():
    """All sites as cases, the first variants of each shape first."""
    made, texts = [], set()

    def add(name, text, asks, **files):
        key = (text, *files.values())
        if key not in texts:
            texts.add(key)
            more = {name.replace("__", "/") + "/.htaccess": text for name, text in files.items()}
            made.append(Case(f"site-{name}", text, requests(asks, len(made)), more, tree=TREE, compares_all=True))

    most = max(shape.variants() for shape in SHAPES.values())
    for number in range(most):
        for shape in SHAPES.values():
            add(f"{shape.name}-{number + 1}", shape.variant(number), shape.asks)
    for number, row in enumerate(line.split() for line in TOGETHER.strip().split("\n")):
        shapes = [SHAPES[name] for name in row]
        text = "\n".join(shape.variant(number + at) for at, shape in enumerate(shapes))
        add("-and-".join(row), text, [ask for shape in shapes for ask in shape.asks])
    for number, row in enumerate(line.split() for line in NESTED.strip().split("\n")):
        outer, _, folder, inner = row
        asks = SHAPES[outer].asks[:6] + [f"{folder}/{ask}" for ask in SHAPES[inner].asks]
        add(f"{outer}-above-{inner}", SHAPES[outer].variant(number), asks, **{folder.replace("/", "__"): SHAPES[inner].variant(number + 1)})
    return made


def requests(asks, number):
    """Requests to a site: each path once as it is, or by one of the clients; those that the file is about by two, and one as POST."""
    found = [(path, CLIENTS[(number + at) % len(CLIENTS)], "GET") for at, path in enumerate(PATHS)]
    for at, path in enumerate(dict.fromkeys(asks)):
        found += [(path, {}, "GET"), (path, CLIENTS[(number + 3 * at + 1) % len(CLIENTS)], "GET")]
    return [*found, ("show.php", {}, "POST"), ("a.html", {}, "HEAD")]
