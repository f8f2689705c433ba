"""What changes the sites: one change at a time, the same at both, and what a visitor sees right after it."""

import json
import re
import time
import urllib.parse

import rig
from twins import Client
from wordpress import CLASSIC

# docs/php-rewind.md: what other programs change is seen after a second.
UNSEEN = 1.1
MARK = "<?php add_action('wp_footer', fn () => print '<!-- mark %d -->');\n"
PLUGIN = "<?php\n/* Plugin Name: Mill */\nadd_filter('the_title', fn ($title) => $title . ' (ground)');\nadd_action('init', fn () => add_shortcode('mill', fn () => 'turning'));\n"


class Writing:
    """Makes changes; `random` decides which ones."""

    def __init__(self, twins, reading):
        self.twins, self.reading, self.number, self.orders = twins, reading, 0, 0
        self.admin, self.editor, self.author, self.subscriber = twins.clients["members"]
        self.commented = 0
        self.wanderer, self.buyers, self.posts = None, [], []
        self.theme, self.plugin = "twentytwentyfour", False
        self.file_time = int(time.time()) - 10 * 86400
        twins.write("wp-content/mu-plugins/mark.php", MARK % 0, self.file_time)
        twins.write("wp-content/plugins/mill.php", PLUGIN, self.file_time)
        for member in twins.clients["members"]:
            reading.nonces[member.name] = twins.ask(member, "/wp-admin/admin-ajax.php?action=rest-nonce")[0].text
        self.prepare_theme()
        self.left = []
        # How often each is made before all come again.
        self.all = [self.comment] * 4 + [self.put_into_cart] * 4 + [self.order] * 2 + [self.option] * 3 + [self.post] * 4 + [self.log_in_or_out] * 2 + [
            self.by_sql, self.switch_theme, self.switch_plugin, self.edit_file, self.look_at_admin, self.look_at_admin]

    def draw(self, random):
        """Makes one change; its name."""
        self.number += 1
        if not self.left:
            self.left = random.sample(self.all, len(self.all))
        change = self.left.pop()
        change(random)
        return change.__name__

    def prepare_theme(self):
        """The first requests with a theme write: options, a menu, a row for its styles. Two at once, also of an ordinary server, write them twice."""
        self.ask(self.reading.anonymous[0], "/")
        self.rest(self.admin, "themes", None, "GET")
        self.ask(self.reading.anonymous[1], "/post-1/")

    def ask(self, *arguments, **options):
        return self.twins.ask(*arguments, **options)

    def comment(self, random):
        """By a visitor, a commenter or a member."""
        clients = [Client(f"visitor {self.number}"), *self.twins.clients["commenters"][:2], self.editor, self.subscriber]
        client, post = random.choice(clients), random.choice([1, 2, 5, 11, 16, 17])
        name = f"post-{post}"
        form = {"comment": f"Comment {self.number}: {random.choice(['<b>bold</b>', 'a <script>x</script>', 'http://x.test', 'żółw'])}", "comment_post_ID": self.twins.ids[name], "comment_parent": "0",
                "author": client.name, "email": "someone@example.org", "url": "", "wp-comment-cookies-consent": "yes"}
        # Comments of one second have no order: at both sites each has a second of its own.
        rig.wait_for(lambda: time.time() // 1 > self.commented, 2)
        answers = self.ask(client, "/wp-comments-post.php", form)
        self.commented = time.time() // 1
        self.follow(client, answers)
        self.ask(client, f"/{name}/")
        self.ask(self.reading.anonymous[0], f"/{name}/")

    def follow(self, client, answers):
        """Looks at where a client is sent to."""
        places = [urllib.parse.urlsplit(answer.field("Location")) for answer in answers]
        if places[0].path and places[0].netloc in ("", "mill.test"):
            self.ask(client, urllib.parse.urlunsplit(("", "", *places[0][2:4], "")))

    def put_into_cart(self, random):
        """In each way that there is."""
        if not self.buyers or random.random() < 0.4:
            self.buyers = [*self.buyers[-3:], Client(f"buyer {self.number}", own=True)]
            self.reading.own = self.buyers + ([self.wanderer] if self.wanderer else [])
        client = random.choice(self.buyers + self.twins.clients["shoppers"])
        name, product = random.choice(list(self.twins.products.items()))
        way = random.randrange(4)
        if way == 0:
            self.ask(client, f"/product/{name}/", {"quantity": "2", "add-to-cart": str(product)})
        elif way == 1:
            self.ask(client, f"/shop/?add-to-cart={product}")
        elif way == 2:
            self.ask(client, "/?wc-ajax=add_to_cart", {"product_id": str(product), "quantity": "1"})
        else:
            self.ask(client, "/wp-json/wc/store/v1/cart/add-item", json.dumps({"id": product, "quantity": 1}))
        self.ask(client, random.choice(["/cart/", "/", "/checkout/"]))

    def order(self, random):
        """With what is in the cart; without, the form says so."""
        client = random.choice(self.buyers + self.twins.clients["shoppers"])
        forms = [{"woocommerce-process-checkout-nonce": first(r'checkout-nonce" value="([^"]+)', answer.text), "billing_email": f"buyer-{self.number}@example.org"} for answer in self.ask(client, "/checkout/")]
        if random.random() < 0.5:
            self.follow(client, self.ask(client, "/checkout/", [{**form, "woocommerce_checkout_place_order": "1"} for form in forms]))
        else:
            self.ask(client, "/?wc-ajax=checkout", forms)
        self.ask(client, "/cart/")

    def option(self, random):
        """By the form of wp-admin or by REST; a page that everybody sees shows it."""
        if random.random() < 0.5:
            page = "/wp-admin/options-general.php"
            form = {"option_page": "general", "action": "update", "_wpnonce": first(r'name="_wpnonce" value="([^"]+)', self.ask(self.admin, page)[0].text), "blogname": f"The mill, {self.number}", "blogdescription": "Its race",
                    "siteurl": "http://mill.test", "home": "http://mill.test", "admin_email": "miller@mill.test", "timezone_string": "Europe/Berlin", "date_format": "F j, Y", "time_format": "H:i", "start_of_week": "1", "default_role": "subscriber"}
            self.follow(self.admin, self.ask(self.admin, "/wp-admin/options.php", form))
        else:
            self.rest(self.admin, "settings", {"title": f"The mill & {self.number}", "posts_per_page": random.choice([5, 7])})
        self.ask(self.reading.anonymous[1], "/")
        self.ask(self.editor, "/about/")

    def rest(self, client, path, document, method="POST"):
        form = None if document is None else json.dumps(document)
        return self.ask(client, f"/wp-json/wp/v2/{path}", form, method, {"X-WP-Nonce": self.reading.nonces[client.name], "Accept": "application/json"})

    def post(self, random):
        """Creates a post, edits one, or moves one to the trash."""
        kind = random.choice(["make", "edit", "edit", "trash"])
        date = f"2025-02-{1 + self.number % 28:02}T08:{self.number // 28 % 60:02}:00"
        if kind == "make":
            made = self.rest(self.author, "posts", {"title": f"Made {self.number}", "slug": f"made-{self.number}", "content": "<!-- wp:paragraph --><p>New</p><!-- /wp:paragraph -->", "status": "publish", "date": date})
            self.posts.append(json.loads(made[0].text)["id"])
            self.ask(self.reading.anonymous[2], f"/made-{self.number}/")
        elif kind == "edit":
            name = f"post-{random.randrange(1, 41)}"
            self.rest(self.editor, f"posts/{self.twins.ids[name]}", {"title": f"Edited {self.number}", "excerpt": f"Excerpt {self.number}"})
            self.ask(self.reading.anonymous[3], f"/{name}/")
        elif self.posts:
            self.rest(self.editor, f"posts/{self.posts.pop()}", {}, "DELETE")
        self.ask(self.reading.anonymous[4], "/")
        self.ask(self.reading.anonymous[5], "/feed/")

    def log_in_or_out(self, random):
        """One client comes and goes."""
        if self.wanderer:
            links = [first(r'wp-login\.php\?action=logout&amp;_wpnonce=(\w+)', answer.text) for answer in self.ask(self.wanderer, "/")]
            # Each with the nonce of its own session.
            answers = [self.twins.exchange(side, self.wanderer, f"/wp-login.php?action=logout&_wpnonce={nonce}", None, None, {}, True) for side, nonce in enumerate(links)]
            self.twins.compare(self.wanderer, "GET", "/wp-login.php?action=logout", answers)
            self.ask(self.wanderer, "/")
            self.wanderer = None
        else:
            self.wanderer = Client(f"wanderer {self.number}", own=True)
            self.ask(self.wanderer, "/wp-login.php")
            password = "The pass-phrase of editor" if random.random() < 0.8 else "wrong"
            self.ask(self.wanderer, "/wp-login.php", {"log": "editor", "pwd": password, "wp-submit": "Log In", "testcookie": "1", "redirect_to": "/wp-admin/profile.php"})
            if not any(name.startswith("wordpress_logged_in_") for name in self.wanderer.jars[0].cookies):
                self.wanderer = None
                return
            self.ask(self.wanderer, "/about/")
        self.reading.own = self.buyers + ([self.wanderer] if self.wanderer else [])

    def by_sql(self, random):
        """Another program changes rows."""
        if random.random() < 0.5:
            self.twins.sql(f"UPDATE wp_options SET option_value = 'By SQL, {self.number}' WHERE option_name = 'blogname'")
        else:
            self.twins.sql(f"UPDATE wp_posts SET post_title = 'By SQL, {self.number}' WHERE ID = {self.twins.ids['post-1']}")
        time.sleep(UNSEEN)
        self.ask(self.reading.anonymous[6], "/")
        self.ask(self.reading.anonymous[0], "/post-1/")

    def switch_theme(self, random):
        """From blocks to templates in PHP, and back."""
        self.theme = CLASSIC.name if self.theme != CLASSIC.name else "twentytwentyfour"
        page = self.ask(self.admin, "/wp-admin/themes.php")[0].text
        nonce = first(rf"action=activate(?:&amp;|\\u0026|&#038;|&)stylesheet={self.theme}(?:&amp;|\\u0026|&#038;|&)_wpnonce=(\w+)", page)
        self.ask(self.admin, f"/wp-admin/themes.php?action=activate&stylesheet={self.theme}&_wpnonce={nonce}")
        self.prepare_theme()

    def switch_plugin(self, random):
        """On or off."""
        action = "deactivate" if self.plugin else "activate"
        self.plugin = not self.plugin
        page = self.ask(self.admin, "/wp-admin/plugins.php")[0].text
        nonce = first(rf"action={action}&amp;plugin=mill\.php[^\"']*_wpnonce=(\w+)", page)
        self.ask(self.admin, f"/wp-admin/plugins.php?action={action}&plugin=mill.php&_wpnonce={nonce}")
        self.ask(self.reading.anonymous[0], "/post-1/")

    def edit_file(self, random):
        """A file that the boot includes."""
        self.file_time += 2
        self.twins.write("wp-content/mu-plugins/mark.php", MARK % self.number, self.file_time)
        time.sleep(UNSEEN)
        for client in self.reading.anonymous[:3]:
            self.ask(client, "/about/")

    def look_at_admin(self, random):
        """Pages of wp-admin that write: drafts, locks, what was seen last."""
        page = random.choice(["index.php", "post-new.php", f"post.php?post={self.twins.ids['post-5']}&action=edit", "post-new.php?post_type=page", "site-editor.php", "widgets.php", "nav-menus.php", "update-core.php", "site-health.php"])
        self.ask(self.admin, f"/wp-admin/{page}")
        self.ask(self.admin, "/")


def first(pattern, text):
    """What the pattern finds; a test that finds nothing is wrong, and says so by what is sent then."""
    found = re.search(pattern, text)
    return found[1] if found else "none"
