"""A shopper, and what each page has to show: the model of the random steps of tests/carts.

The model knows the cart, its total and the notices that wait. After each step it compares them with what the browser shows. What has no
notice and no page of its own - the address, the currency, an order - is seen on the next pages.
"""

import collections
import dataclasses
import hashlib
import json
import re
import threading
import urllib.parse

from browsing import Visitor, check, how, mini_cart, same

PASSWORD = "a pass-phrase"
# The notice that is an error.
REFUSED = "No such coupon."
# Pages that depend on the cart, each by another way to read it (run).
DEPENDENT = [f"/depends-{way}/" for way in ("bar", "notice", "coupon", "property", "closure", "reflection", "cookie", "sql", "filter", "price", "banner")]
# Pages with something at random: a banner, and the previous product, of which two have the same date. What they may show.
NOISY = {"/noise-banner/": {"banner 1", "banner 2", "banner 3"}, "/noise-dates/": {"previous 1", "previous 2"}, "/noise-none/": {"nothing"}}
# Pages that a browser remembers for its back button.
REMEMBERED = 20


def cart_key(site, name):
    """The key of a product in the cart."""
    return hashlib.md5(str(site.products[name]).encode()).hexdigest()


def depends(text):
    """What a page says that depends on the cart."""
    found = re.search(r'<b id="depends">([^<]*)</b>', text)
    return found and found[1]


def noise(text):
    """What a page shows at random."""
    found = re.search(r'<i class="noise">([^<]*)</i>', text)
    return found and found[1]


def expected_of(path, cart, coupon, price, total, marked=True):
    """What such a page has to say. `price`: of the first product, without a discount. `marked`: the browser has the cookie that says there is a cart."""
    count = sum(cart.values())
    return {
        "bar": "free shipping" if total >= 10000 else "none",
        "notice": "a thing 6" if cart.get("thing-6") else "none",
        "coupon": "ten percent" if coupon else "none",
        "cookie": "things" if marked else "none",
        "banner": "free shipping" if total >= 10000 else "none",
        "filter": f"{total} cents",
        "price": str(price // 2 if count >= 3 else price),
    }.get(path[len("/depends-") : -1], f"{count} things")


@dataclasses.dataclass
class Session:
    """What the shop keeps for a visitor. `removed`: the product that can be put back, and how many of it."""

    cart: dict = dataclasses.field(default_factory=dict)
    coupon: bool = False
    waiting: list = dataclasses.field(default_factory=list)
    net: bool = False
    dollars: bool = False
    removed: tuple | None = None


class Model:
    """A shopper with one account, who comes as a guest. With 96 `looks` three of four steps look at a page."""

    def __init__(self, site, dice, number, prices, catalogue, looks):
        self.site, self.dice, self.prices, self.looks = site, dice, prices, looks
        self.name, self.address = f"customer-{number}", f"127.0.7.{number + 1}"
        self.pages = catalogue + [f"/product/{name}/" for name in prices]
        self.done, self.acts, self.with_cart = collections.deque(maxlen=8), collections.Counter(), {}
        # What the account has when nobody is logged in.
        self.saved = Session()
        self.is_known = False
        site.account(self.name)
        self.leave()

    def leave(self):
        """A new browser."""
        if self.is_known:
            self.saved = self.session
        self.visitor, self.session, self.is_known = Visitor(self.site, self.address), Session(), False
        self.history = collections.OrderedDict()

    def price(self, name):
        net = self.prices[name] * 100 // 119 if self.session.net else self.prices[name]
        return 2 * net if self.session.dollars else net

    @property
    def expected(self):
        cart = self.session.cart
        total = sum(count * self.price(name) for name, count in cart.items())
        return sum(cart.values()), total * 9 // 10 if self.session.coupon else total

    def step(self):
        acts = [self.look] * self.looks + [self.add] * 8 + [self.remove, self.undo, self.quantity, self.use_coupon, self.look_at_cart] * 2
        acts += [self.two_tabs, self.two_tabs, self.go_back, self.go_back]
        # Four of five are at home, and have the shop's own currency.
        acts += [self.move] * (8 if self.session.net else 2) + [self.change_currency] * (4 if self.session.dollars else 1)
        acts += [self.log_in, self.log_out, self.order, self.leave, self.expire, self.empty] if self.dice.random() < 0.3 else []
        act = self.dice.choice(acts)
        self.done.append(act.__name__)
        self.acts[act.__name__] += 1
        act()

    def seen(self, view):
        """A page was seen: the cart, all notices that wait, once, and the greeting of an account."""
        answer, cart, notices = view
        # The shop prints them by type, in the order in which the types came.
        is_error = [notice == REFUSED for notice in self.session.waiting]
        waiting = sorted(self.session.waiting, key=lambda notice: is_error.index(notice == REFUSED))
        expected, self.session.waiting = (self.expected, waiting), []
        same((cart, notices), expected, f"{how(answer)} {answer.fields['Cache-Status']}: cart and notices")
        own = mini_cart(answer.text)
        check(own in (cart, (0, 0)), f"{how(answer)}: the page itself shows {own}")
        greeting = re.search(r'class="display-name">([^<]*)<', answer.text)
        same(greeting and greeting[1], self.name if self.is_known else None, f"{how(answer)}: the greeting")
        return answer

    def look(self, path=None, earlier=None):
        path = path or self.dice.choice(self.pages)
        self.done[-1] += path
        # It may have outlived its session.
        marked = "woocommerce_items_in_cart" in self.visitor.cookies
        answer = self.seen(self.visitor.view(path, earlier=earlier))
        if self.session.cart and not self.is_known:
            self.with_cart[how(answer)] = self.with_cart.get(how(answer), 0) + 1
        if path.startswith("/depends-"):
            wanted = expected_of(path, self.session.cart, self.session.coupon, self.price(next(iter(self.prices))), self.expected[1], marked)
            same(depends(answer.text), "known" if "sql" in path and self.is_known else wanted, f"{how(answer)} {path}")
        if path in NOISY:
            check(noise(answer.text) in NOISY[path], f"{how(answer)} {path}: {noise(answer.text)}")
        if path.startswith("/shop"):
            shown = f'<p class="price">{self.price(next(iter(self.prices))) / 100:.2f}</p>'
            check(shown in answer.text, f"{how(answer)}: not the prices of this customer")
        if answer.fields["ETag"]:
            self.history[path] = answer
            self.history.move_to_end(path)
        while len(self.history) > REMEMBERED:
            self.history.popitem(last=False)

    def go_back(self):
        """To a page that the browser has from before: perhaps without a cart, at other prices, as another visitor."""
        if self.history:
            path = self.dice.choice(list(self.history))
            self.look(path, self.history[path])

    def add(self):
        name, way = self.dice.choice(list(self.prices)), self.dice.choice(["form", "link", "call", "store"])
        self.done[-1] += f" {way}"
        self.put(name, way)

    def put(self, name, way):
        cart = self.session.cart
        cart[name] = cart.get(name, 0) + 1
        if way in ("form", "link"):
            self.session.waiting.append(f"{name.replace('-', ' ').capitalize()} has been added to your cart.")
            self.seen(self.visitor.add(name, way))
        else:
            same(self.visitor.add(name, way).status, 200, way)

    def two_tabs(self):
        """A second tab asks for a page while a product gets into the cart: it shows the cart from before or after. Both tabs then show the new one."""
        self.seen(self.visitor.view("/shop/"))
        name, way, path = self.dice.choice(list(self.prices)), self.dice.choice(["form", "call", "store"]), self.dice.choice(self.pages)
        self.done[-1] += f" {way} {path}"
        tab, before, views = Visitor(self.site, self.address), self.expected, []
        tab.cookies, tab.memory = dict(self.visitor.cookies), dict(self.visitor.memory)
        thread = threading.Thread(target=lambda: views.append(tab.view(path)))
        thread.start()
        self.put(name, way)
        thread.join()
        check(views, f"the second tab: no page {path}")
        answer, cart, notices = views[0]
        check(cart in (before, self.expected) and not notices, f"the second tab: {how(answer)} {cart} {notices}")
        tab.cookies = dict(self.visitor.cookies)
        self.seen(tab.view(path))
        tab.close()
        self.seen(self.visitor.view(path))

    def act(self, path, form=None, told=""):
        """An act of the cart's page; the browser may leave before it has followed the redirect."""
        self.session.waiting += [told] if told else []
        if self.dice.random() < 0.5:
            same(self.visitor.ask(path, form).status, 302, path)
        else:
            self.seen(self.visitor.view(path, form))

    def remove(self):
        cart = self.session.cart
        if cart:
            name = self.dice.choice(list(cart))
            self.session.removed = (name, cart.pop(name))
            self.act(f"/cart/?remove_item={cart_key(self.site, name)}&back=/shop/", told="Item removed.")

    def undo(self):
        if self.session.removed:
            name, count = self.session.removed
            self.session.removed = None
            self.session.cart[name] = self.session.cart.get(name, 0) + count
            self.act(f"/cart/?undo_item={cart_key(self.site, name)}&back=/shop/")

    def quantity(self):
        if self.session.cart:
            name = self.dice.choice(list(self.session.cart))
            self.set_quantities({name: self.dice.randrange(3)})

    def empty(self):
        self.set_quantities(dict.fromkeys(self.session.cart, 0))

    def set_quantities(self, counts):
        if counts:
            cart = self.session.cart
            last = list(counts)[-1]
            self.session.removed = (last, cart[last])
            cart.update(counts)
            self.session.cart = {name: count for name, count in cart.items() if count}
            form = {f"cart[{cart_key(self.site, name)}][qty]": str(count) for name, count in counts.items()}
            self.act("/cart/", {"update_cart": "1", **form, "back": "/shop/"}, "Cart updated.")

    def use_coupon(self):
        code = self.dice.choice(["ten-percent", "other"])
        good = code == "ten-percent" and bool(self.session.cart)
        self.session.coupon |= good
        if self.session.cart or self.visitor.session:
            self.act("/cart/", {"apply_coupon": "1", "coupon_code": code, "back": "/shop/"}, "Coupon applied." if good else REFUSED)

    def look_at_cart(self):
        answer = self.seen(self.visitor.view("/cart/"))
        found = {int(number): int(count) for number, count in re.findall(r'data-product="(\d+)"><td>[^<]*</td><td>(\d+)', answer.text)}
        same(found, {self.site.products[name]: count for name, count in self.session.cart.items()}, "the cart's page")

    def move(self):
        """To another country, or back."""
        if self.session.cart:
            self.session.net = not self.session.net
            self.review({"country": "CH" if self.session.net else "DE"})

    def change_currency(self):
        if self.session.cart:
            self.session.dollars = not self.session.dollars
            self.review({"currency": "USD" if self.session.dollars else "EUR"})

    def review(self, form):
        same(self.visitor.ask("/?wc-ajax=update_order_review", form, call=True).status, 200, "the review of the order")

    def order(self):
        if not self.session.cart:
            return
        way = self.dice.choice(["form", "call", "store"])
        self.done[-1] += f" {way}"
        form = {"billing_email": f"{self.name}@example.com"}
        if way == "store":
            same(self.visitor.ask("/wp-json/wc/store/v1/checkout", form, call=True).status, 200, "the order")
        else:
            page = self.seen(self.visitor.view("/checkout/"))
            form["woocommerce-process-checkout-nonce"] = re.search(r'process-checkout-nonce" value="([^"]+)"', page.text)[1]
            path, button = ("/checkout/", {"woocommerce_checkout_place_order": "1"}) if way == "form" else ("/?wc-ajax=checkout", {})
            answer = self.visitor.ask(path, form | button, call=way == "call")
            place = answer.fields["Location"] if way == "form" else json.loads(answer.text).get("redirect")
            check(place, f"no order: {answer.status} {answer.text[:200]}")
        self.session.cart, self.session.coupon = {}, False
        if way != "store":
            place = urllib.parse.urlsplit(place)
            check("Thank you" in self.seen(self.visitor.view(f"{place.path}?{place.query}")).text, "the order is not confirmed")

    def log_in(self):
        if not self.is_known:
            self.visitor.log_in(self.name, PASSWORD)
            if self.saved.cart and not self.session.cart:
                self.session = self.saved
            self.saved, self.is_known = Session(), True

    def log_out(self):
        if self.is_known:
            page = self.seen(self.visitor.view("/shop/"))
            link = re.search(r'href=[\'"]https?://[^/"]+(/wp-login\.php\?action=logout[^"\']*)', page.text)
            same(self.visitor.ask(link[1].replace("&amp;", "&").replace("&#038;", "&")).status, 302, "logging out")
            self.saved, self.session, self.is_known = self.session, Session(), False

    def expire(self):
        """The browser forgets the session, whose time is over, and not the cart's cookies. An account has its session in any case."""
        if self.visitor.session:
            del self.visitor.cookies[self.visitor.session]
            if not self.is_known:
                self.session = Session()
