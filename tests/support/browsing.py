"""A visitor of the shop of tests/shop who looks at its pages as a browser shows them: the shop's script puts the own cart into each page.

    visitor = browsing.Visitor(site)
    visitor.add("thing-1")
    answer, cart, notices = visitor.view("/shop/")
"""

import dataclasses
import json
import re
import urllib.parse

import shop


class Wrong(Exception):
    """A page is not as it must be."""


class Refused(Wrong):
    """The server has told the visitor to come again, or did not respond."""


def check(condition, why):
    if not condition:
        raise Wrong(why)


def same(found, expected, what):
    check(found == expected, f"{what}: {found!r} instead of {expected!r}")


def how(answer):
    """`hit`, or why PHP made the page; also of nginx's microcache, by `X-Cache`."""
    status = answer.fields["Cache-Status"]
    if status is None:
        return (answer.fields["X-Cache"] or "php").lower()
    found = re.search(r"detail=([\w-]+)", status) or re.search(r"fwd=([\w-]+)", status)
    return "hit" if "; hit" in status else found[1] if found else ""


class Visitor(shop.Client):
    """A browser with the shop's script. `views` counts how pages came."""

    def __init__(self, site, address="127.0.0.1"):
        super().__init__(site.port, address)
        self.site, self.memory, self.views = site, {}, {}

    def view(self, path, form=None, earlier=None):
        """A page as the visitor sees it, at the end of redirects: (answer, the cart in the header, notices). The browser may have it from
        an `earlier` answer; then it asks whether that is still the page."""
        answer = self.ask(path, form, etag=earlier and earlier.fields["ETag"])
        if earlier and answer.status == 304:
            answer = dataclasses.replace(earlier, took=answer.took)
        while answer.status in (301, 302, 303):
            place = urllib.parse.urlsplit(answer.fields["Location"])
            path, form = place.path + (f"?{place.query}" if place.query else ""), None
            answer = self.ask(path)
        if answer.status in shop.REFUSALS:
            raise Refused(f"{path}: {answer.status}")
        same(answer.status, 200, path)
        if form is None:
            self.views[how(answer)] = self.views.get(how(answer), 0) + 1
        cart = mini_cart(answer.text)
        if 'id="wc-cart-fragments-js' in answer.text:
            cart = self.refreshed()
        return answer, cart, re.findall(r'<div class="woocommerce-message [^"]*">([^<]*)<', answer.text)

    def refreshed(self):
        """What the shop's script puts into the page."""
        cookie = self.cookies.get("woocommerce_cart_hash", "")
        if self.memory.get("hash") != cookie:
            answer = self.ask("/?wc-ajax=get_refreshed_fragments", {}, call=True)
            if answer.status in shop.REFUSALS:
                raise Refused(f"fragments: {answer.status}")
            answer = json.loads(answer.text)
            self.memory = {"hash": answer["cart_hash"], "cart": mini_cart(answer["fragments"]["div#mini-cart"])}
        return self.memory["cart"]

    def add(self, name, way="form"):
        """Puts a product into the cart."""
        number = self.site.products[name]
        if way == "form":
            return self.view(f"/product/{name}/", {"quantity": "1", "add-to-cart": str(number)})
        if way == "link":
            return self.view(f"/shop/?add-to-cart={number}")
        if way == "call":
            return self.ask("/?wc-ajax=add_to_cart", {"product_id": str(number), "quantity": "1"}, call=True)
        return self.ask("/wp-json/wc/store/v1/cart/add-item", {"id": str(number), "quantity": "1"}, call=True)

    @property
    def session(self):
        return next((name for name in self.cookies if name.startswith("wp_woocommerce_session_")), "")


def mini_cart(text):
    """(how many, total) as the header of a page says."""
    found = re.search(r'<div id="mini-cart">(\d+) in the cart, (\d+)</div>', text)
    return found and (int(found[1]), int(found[2]))
