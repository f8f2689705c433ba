"""A shop and its visitors: a real WordPress on MariaDB with the plugin of tests/shop, shoppers that place orders, and readers of the catalogue.

    with rig.scratch("shop") as folder, shop.Site(folder) as site:
        with rig.Millrace(folder, site.root, ini=site.ini, listen=site.port):
            shoppers, readers = shop.play(site, shoppers=8, readers=50, pause=2, orders=1, shared=0)

Each client is a thread with one connection, cookies of its own, and the header fields of a browser. It may have an address of its own
in 127.0.0.0/8. A `Step` is one request of a shopper.
"""

import contextlib
import dataclasses
import http.client
import json
import random
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

import mariadb
import rig
from wordpress import new_wordpress

PLUGIN = Path(__file__).resolve().parents[1] / "shop"
USER, PASSWORD = "shopkeeper", "A rather long pass-phrase 1"
INI = ["memory_limit=256M", "opcache.memory_consumption=128", "opcache.interned_strings_buffer=16", "realpath_cache_size=4096k"]
# Told to wait, or not served at all: no shopper may see one of these.
REFUSALS = {429, 502, 503, 504}
BROWSER = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Accept-Language": "en-US,en;q=0.5",
    "Accept-Encoding": "identity",
}
NAVIGATION = {
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Site": "same-origin",
    "Upgrade-Insecure-Requests": "1",
}
CALL = {"Accept": "application/json, text/javascript, */*; q=0.01", "Sec-Fetch-Dest": "empty", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin", "X-Requested-With": "XMLHttpRequest"}


class Site(contextlib.ExitStack):
    """The WordPress, its database, and the port at which it is to be served; `products` are numbers by name. `cost`: see tests/shop/woocommerce.php. `url`: its
    address, if that is not the port's."""

    def __init__(self, folder, cost=1, url=None):
        super().__init__()
        rig.needed("mariadbd", "mariadb", "mariadb-install-db")
        folder = Path(folder)
        self.root, self.port = folder / "site", rig.free_port()
        self.database = self.enter_context(mariadb.Server(folder / "db", ["--max-connections=400", "--innodb-buffer-pool-size=128M"]))
        self.ini = rig.php_ini(folder / "php.ini", INI)
        self.make(cost, url or f"http://127.0.0.1:{self.port}")

    def make(self, cost, url):
        """WordPress, installed, with the shop in it."""
        new_wordpress(self.root, self.database, "--url", url, "--admin", USER, "--password", PASSWORD, name="shop", constants=f"define('TEST_SHOP_COST', {cost});")
        install(self.root)
        self.products = json.loads(run(["php", "-n", "-c", self.ini, PLUGIN / "seed.php", self.root]))

    def orders(self):
        """All orders: [e-mail address, {product: how many}]."""
        rows = self.database.ask("SELECT email, items FROM shop.wp_test_orders")
        return [(email, {int(k): v for k, v in json.loads(items).items()}) for email, items in (row.split("\t") for row in rows)]


def install(root):
    """Puts the shop into a WordPress."""
    folder = Path(root) / "wp-content"
    (folder / "plugins" / "woocommerce").mkdir(parents=True, exist_ok=True)
    for name in ("woocommerce.php", "blocks.php"):
        shutil.copy(PLUGIN / name, folder / "plugins" / "woocommerce")
    shutil.copy(PLUGIN / "theme.php", folder / "mu-plugins")


def run(command):
    """What a command prints; ends the test if it fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"not ok shop: {command[1:3]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


@dataclasses.dataclass
class Answer:
    """Status, header fields, text, and how long it took in seconds."""

    status: int
    fields: http.client.HTTPMessage
    text: str
    took: float


class Client:
    """A browser without a screen: one connection, kept as long as the server keeps it, and cookies."""

    def __init__(self, port, address="127.0.0.1"):
        self.port, self.address, self.cookies, self.connection = port, address, {}, None
        # Of the cookies that have one.
        self.paths = {}

    def ask(self, path, form=None, call=False, method=None, timeout=90, etag=None):
        """One request; `form` is posted, `call` is what a script of a page sends, `etag` is that of the page that the browser has. Raises OSError or HTTPException if there is no answer."""
        fields = {"Host": f"127.0.0.1:{self.port}", **BROWSER, **(CALL if call else NAVIGATION)}
        if cookies := self.sent(path):
            fields["Cookie"] = cookies
        if etag:
            fields["If-None-Match"] = etag
        body = None
        if form is not None:
            fields["Content-Type"], body = "application/x-www-form-urlencoded", urllib.parse.urlencode(form)
        began = time.monotonic()
        answer, content = self.exchange(method or ("GET" if form is None else "POST"), path, body, fields, timeout)
        for cookie in answer.headers.get_all("Set-Cookie", []):
            self.keep(cookie)
        return Answer(answer.status, answer.headers, content.decode("utf-8", "replace"), time.monotonic() - began)

    def exchange(self, method, path, body, fields, timeout):
        """The answer and its content; once more on a new connection if the server has closed the idle one."""
        for fresh in (self.connection is None, True):
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout, source_address=(self.address, 0))
            try:
                self.connection.request(method, path, body, fields)
                answer = self.connection.getresponse()
                content = answer.read()
                if answer.will_close:
                    self.close()
                return answer, content
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                self.close()
                if fresh:
                    raise
            except BaseException:
                self.close()
                raise

    def cookies_for(self, path):
        """Those that a browser sends with a request for that path."""
        return {name: value for name, value in self.cookies.items() if path.startswith(self.paths.get(name, "/"))}

    def sent(self, path):
        """The Cookie field of a request for that path."""
        return "; ".join(f"{name}={value}" for name, value in self.cookies_for(path).items())

    def keep(self, cookie):
        """Takes a cookie, or throws it away as the server says."""
        pair, *attributes = [part.strip() for part in cookie.split(";")]
        name, _, value = pair.partition("=")
        gone = any(re.fullmatch(r"max-age=(0|-\d+)", part, re.I) or re.match(r"expires=.*\b19[0-9]{2}\b", part, re.I) for part in attributes)
        if gone or not value:
            self.cookies.pop(name, None)
        else:
            self.cookies[name] = value
            self.paths[name] = next((part[5:] for part in attributes if part.lower().startswith("path=")), "/")

    def log_in(self, user=USER, password=PASSWORD):
        """Logs in as the form does."""
        self.ask("/wp-login.php")
        answer = self.ask("/wp-login.php", {"log": user, "pwd": password, "wp-submit": "Log In", "testcookie": "1"})
        if not any(name.startswith("wordpress_logged_in_") for name in self.cookies):
            raise RuntimeError(f"logging in: {answer.status} and no cookie")

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None


@dataclasses.dataclass
class Step:
    """One request of a shopper: its status (0: no answer), seconds, and why it isn't right, or ''. `looks`: nothing has been put into the
    cart yet, so that a server can't tell the shopper from a reader."""

    name: str
    status: int
    took: float
    why: str = ""
    looks: bool = False

    @property
    def refused(self):
        return self.status in REFUSALS or self.status == 0


class Lost(Exception):
    """A shopper gives up."""


class Shopper:
    """Front page, product, into the cart, cart, checkout, order; again and again. Each puts products into the cart in one of the ways
    that there are, and orders in one."""

    WAYS = ["form", "link", "call", "store"]
    # A refused step is tried again so often: that it was refused counts already. Before there is a cart, for so many seconds.
    TRIES, PATIENCE = 4, 120

    def __init__(self, site, number, address, pause, seed=0):
        self.site, self.number, self.pause = site, number, pause
        self.client, self.address = None, address
        self.random = random.Random(f"{seed} {number}")
        self.steps, self.placed, self.lost = [], [], 0

    def order(self, turn):
        """The whole way to an order, with fresh cookies."""
        self.client = Client(self.site.port, self.address)
        try:
            self.buy(turn)
        except Lost:
            self.lost += 1
        finally:
            self.client.close()

    def buy(self, turn):
        name, product = self.random.choice(list(self.site.products.items()))
        email = f"shopper-{self.number}-{turn}-{self.random.randrange(10**9)}@example.com"
        way = self.WAYS[(self.number + turn) % len(self.WAYS)]
        self.step("front page", "/", has="</html>", looks=True)
        self.step("product", f"/product/{name}/", has=f'value="{product}"', looks=True)
        self.put_into_cart(way, name, product)
        self.step("fragments", "/?wc-ajax=get_refreshed_fragments", {"time": "1"}, call=True, has=f'data-product=\\"{product}\\"')
        self.step("cart of a script", "/wp-json/wc/store/v1/cart", call=True, has=f'"{product}":1')
        cart = self.step("cart", "/cart/", has=f'data-product="{product}"')
        if cart.text.count('class="cart_item"') != 1:
            self.steps[-1].why = "the cart holds other items, too"
        form = self.step("checkout", "/checkout/", has="woocommerce-process-checkout-nonce")
        nonce = re.search(r'name="woocommerce-process-checkout-nonce" value="([^"]+)"', form.text)[1]
        self.step("review", "/?wc-ajax=update_order_review", {"country": "DE"}, call=True, has='"success"')
        self.place(way, {"woocommerce-process-checkout-nonce": nonce, "billing_email": email}, email)
        self.placed.append((email, {product: 1}))

    def put_into_cart(self, way, name, product):
        if way == "form":
            self.step("add to cart by form", f"/product/{name}/", {"quantity": "1", "add-to-cart": str(product)}, has="<div id=\"mini-cart\">1 in")
        elif way == "link":
            self.step("add to cart by link", f"/shop/?add-to-cart={product}", has="<div id=\"mini-cart\">1 in")
        elif way == "call":
            self.step("add to cart by script", "/?wc-ajax=add_to_cart", {"product_id": str(product), "quantity": "1"}, call=True, has=f'data-product=\\"{product}\\"')
        else:
            self.step("add to cart by REST", "/wp-json/wc/store/v1/cart/add-item", {"id": str(product), "quantity": "1"}, call=True, has=f'"{product}":1')

    def place(self, way, form, email):
        if way in ("form", "link"):
            answer = self.step("order by form", "/checkout/", {**form, "woocommerce_checkout_place_order": "1"}, status=302)
            place = urllib.parse.urlsplit(answer.fields["Location"] or "")
        elif way == "call":
            answer = self.step("order by script", "/?wc-ajax=checkout", form, call=True, has='"success"')
            place = urllib.parse.urlsplit(json.loads(answer.text)["redirect"])
        else:
            self.step("order by REST", "/wp-json/wc/store/v1/checkout", {"billing_email": email}, call=True, has='"order_id"')
            return
        self.step("order received", f"{place.path}?{place.query}", has="Thank you")

    def step(self, name, path, form=None, call=False, status=200, has="", looks=False):
        """One step, and the pause after it. A refused one is tried again, as people do; any other wrong one is the end."""
        tries, came = 0, time.monotonic()
        while tries < self.TRIES or looks and time.monotonic() < came + self.PATIENCE:
            tries, began, again = tries + 1, time.monotonic(), 0.0
            try:
                answer = self.client.ask(path, form, call)
                why = "" if answer.status == status and has in answer.text else f"{answer.status} {answer.text[:200]!r}"
                step = Step(name, answer.status, answer.took, why, looks)
                if step.refused and (answer.fields["Retry-After"] or "").isdigit():
                    again = min(10.0, float(answer.fields["Retry-After"]))
            except (OSError, http.client.HTTPException) as error:
                step = Step(name, 0, time.monotonic() - began, repr(error), looks)
            self.steps.append(step)
            time.sleep(max(again, self.pause * self.random.uniform(0.75, 1.25)))
            if not step.why:
                return answer
            if not step.refused:
                break
        raise Lost(name)


class Reader:
    """Looks at the catalogue: pages that the cache may have, and more that it can't: filters, searches. On each page WooCommerce's script
    asks for the cart, which is empty: no server may take that for a step on the way to an order."""

    def __init__(self, site, number, address, pause, seed=0, asks_for_cart=True):
        self.asks_for_cart = asks_for_cart
        self.client, self.pause, self.statuses = Client(site.port, address), pause, {}
        self.random, self.site = random.Random(f"reader {seed} {number}"), site
        self.times = []

    def read(self, until):
        """Page after page until the event is set."""
        until.wait(self.random.uniform(0, self.pause))
        while not until.is_set():
            try:
                answer = self.client.ask(self.page(), timeout=30)
                self.count(answer.status)
                if answer.status == 200:
                    self.times.append(answer.took)
                    if self.asks_for_cart:
                        self.count(self.client.ask("/wp-json/wc/store/v1/cart", call=True, timeout=30).status)
            except (OSError, http.client.HTTPException):
                self.count(0)
            self.client.cookies.clear()
            until.wait(self.pause * self.random.uniform(0.75, 1.25))
        self.client.close()

    def count(self, status):
        self.statuses[status] = self.statuses.get(status, 0) + 1

    def page(self):
        some = self.random.randrange(10**6)
        color = self.random.choice(["red", "green", "blue", "grey", "white"])
        return self.random.choice([
            f"/shop/?orderby=price&min_price={some % 3000}&n={some}",
            f"/shop/?orderby=price&paged={some % 3 + 1}&n={some}",
            f"/shop/?min_price={some % 3000}&filter_color={color}&n={some}",
            f"/?s=thing+{some}&post_type=product",
            f"/product/{self.random.choice(list(self.site.products))}/",
            f"/product-category/{self.random.choice(['wheels', 'stones', 'sluices', 'sacks'])}/",
        ])  # fmt: skip


def capacity(site, seconds=3):
    """Uncached pages a second that four readers without pauses get."""
    readers, over = [Reader(site, n, f"127.0.6.{n + 1}", 0, "capacity", asks_for_cart=False) for n in range(4)], threading.Event()
    for reader in readers:
        reader.page = lambda reader=reader: f"/?s=thing+{reader.random.randrange(10**9)}&post_type=product"
    threads = [threading.Thread(target=reader.read, args=(over,), daemon=True) for reader in readers]
    for thread in threads:
        thread.start()
    over.wait(seconds)
    over.set()
    for thread in threads:
        thread.join(60)
    return sum(len(reader.times) for reader in readers) / seconds


def play(site, shoppers, readers, pause, orders, shared, seed=0, least=0):
    """Shoppers beside readers until each shopper has been through so many orders, and `least` seconds are over; both lists. The first
    `shared` readers come from one address, every other client from an address of its own."""
    own = lambda n: f"127.{2 + n % 200}.{n // 200}.7"  # noqa: E731
    crowd = [Reader(site, n, "127.0.0.2" if n < shared else own(n), pause, seed) for n in range(readers)]
    buyers = [Shopper(site, n, own(readers + n), pause, seed) for n in range(shoppers)]
    over, end = threading.Event(), time.monotonic() + least
    background = [threading.Thread(target=reader.read, args=(over,), daemon=True) for reader in crowd]
    for thread in background:
        thread.start()
    time.sleep(min(2.0, 2 * pause))  # the readers are there before the first shopper

    def shop(buyer):
        time.sleep(buyer.random.uniform(0, pause))
        turn = 0
        while turn < orders or time.monotonic() < end:
            buyer.order(turn)
            turn += 1

    threads = [threading.Thread(target=shop, args=(buyer,), daemon=True) for buyer in buyers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    for thread in background:
        thread.join(60)
    return buyers, crowd
