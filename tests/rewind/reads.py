"""What is read: about 250 URLs, and the clients that read them."""

import dataclasses
import urllib.parse

from twins import Client

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
CHROME = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1"
JSON = {"Accept": "application/json"}
# A header field that is None is not sent.
VISITORS = {
    "Firefox": {"User-Agent": FIREFOX},
    "Chrome in German": {"User-Agent": CHROME, "Accept-Language": "de-DE,de;q=0.9", "Accept-Encoding": "gzip"},
    "Edge": {"User-Agent": CHROME + " Edg/140.0.0.0", "Sec-GPC": "1", "DNT": "1"},
    "phone": {"User-Agent": PHONE, "Accept-Language": "fr"},
    "crawler": {"User-Agent": "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Accept-Language": None, "Accept": "*/*"},
    "feed reader": {"User-Agent": "Feedly/1.0", "If-Modified-Since": "Sun, 01 Jan 2023 00:00:00 GMT", "Accept-Language": None},
    "without a name": {"User-Agent": None, "Accept-Language": None, "Accept": None},
    "behind a proxy": {"User-Agent": FIREFOX, "X-Forwarded-For": "203.0.113.7", "Via": "1.1 proxy", "X-Requested-With": "XMLHttpRequest"},
}
SCRIPTS = {"script": {"User-Agent": FIREFOX, **JSON, "X-Requested-With": "XMLHttpRequest"}, "HTTP library": {"User-Agent": "python-requests/2.32", **JSON}}
# The share of crowds of all clients, and how many of these may come at once: most of them are booted for.
MIXED, SOME = 0.3, 40
ROUTES = ("/wp-json/", "/?rest_route=", "/index.php?rest_route=")


@dataclasses.dataclass
class Read:
    """A request that changes nothing."""

    client: Client
    path: str
    method: str = "GET"
    fields: dict = dataclasses.field(default_factory=dict)


class Reading:
    """Draws requests: all URLs once, in random order, and then again."""

    def __init__(self, twins):
        known = twins.clients
        self.nonces = {}
        self.anonymous = [Client(name, fields) for name, fields in VISITORS.items()]
        self.scripts = [Client(name, fields) for name, fields in SCRIPTS.items()]
        self.people = self.anonymous + known["commenters"] + known["shoppers"] + known["members"]
        self.programs = self.scripts + known["programs"] + known["members"]
        self.groups = [known["commenters"], known["shoppers"], *[[member] for member in known["members"]]]
        self.urls = pages(twins) + routes(twins)
        self.left, self.own = [], []

    def crowd(self, random, count):
        """At most that many requests: of clients of one kind for pages, as most requests to a site are, or a few of all clients for anything."""
        if len(self.left) < count:
            self.left += random.sample(self.urls, len(self.urls))
        if random.random() < MIXED:
            count = min(count, SOME)
            paths, self.left = self.left[:count], self.left[count:]
            return [self.of_all(random, path) for path in paths]
        paths = [path for path in self.left if ".php" not in path and "?" not in path and "/wp-" not in path][:count]
        for path in paths:
            self.left.remove(path)
        group = random.choice([self.anonymous] * 3 + self.groups)
        return [Read(random.choice(group), path) for path in paths]

    def of_all(self, random, path):
        """A request of any client."""
        if path.startswith(ROUTES):
            client = random.choice(self.programs)
        elif path.startswith("/wp-admin/"):
            client = random.choice(self.people[-4:] + self.anonymous[:1])
        else:
            client = random.choice(random.choice([self.anonymous, self.anonymous, self.people + self.own]))
        method = "HEAD" if random.random() < 0.06 else "GET"
        fields = {"Accept-Encoding": "gzip"} if random.random() < 0.2 else {}
        if path.startswith(ROUTES) and client.name in self.nonces and random.random() < 0.8:
            fields["X-WP-Nonce"] = self.nonces[client.name]
        return Read(client, path, method, fields)


def pages(twins):
    """Paths of the site, with what there is beside pages."""
    ids, names = twins.ids, list(twins.products)
    search = lambda words: "/?s=" + urllib.parse.quote_plus(words)  # noqa: E731
    found = ["/", "/page/2/", "/page/3/", "/page/99/", "/?paged=2", "/index.php", "/index.php/post-1/", "//", "/?utm_source=x&gclid=1", "/?lang=de", "/?preview=true"]
    found += [f"/post-{n}/" for n in range(1, 41)]
    found += ["/post-9/2/", "/post-18/2/", "/post-5/comment-page-1/", "/post-11/comment-page-2/", "/post-5/?replytocom=3", "/post-5/feed/", "/post-4/embed/", "/post-6/trackback/", "/post-7", "/post-1/extra/"]
    found += [f"/?p={ids['post-2']}", f"/?p={ids['draft']}", f"/?p={ids['draft']}&preview=true", f"/?page_id={ids['about']}", "/?author=1", "/?m=202403", "/?cat=2", "/hidden/", "/sample-page/", "/POST-3/", "/post-numb"]
    found += ["/about/", "/about/history/", "/about/people/", "/contact/", "/prices/", "/history/"]
    found += [f"/category/{name}/" for name in ("grain", "grain/flour", "flour", "water", "stones", "water/page/2", "none")] + ["/category/water/feed/"]
    found += [f"/tag/tag-{n}/" for n in range(6)] + ["/tag/tag-1/page/2/", "/type/aside/"]
    found += ["/author/shopkeeper/", "/author/author/", "/author/author/page/2/", "/author/none/", "/author/author/feed/"]
    found += ["/2024/", "/2024/03/", "/2024/05/05/", "/2024/13/", "/2019/", "/2024/page/2/", "/2024/03/feed/"]
    found += [search(words) for words in ("mill", "word3", "100% corn", "\"fine corn\" -word2", "zzz", "<script>alert(1)</script>", "żółw", "")] + ["/search/mill/", "/search/mill/feed/rss2/", "/page/2/?s=mill"]
    found += ["/feed/", "/feed/atom/", "/feed/rdf/", "/feed/rss/", "/comments/feed/", "/?feed=rss2&cat=2", "/feed/?paged=2"]
    found += ["/none/", "/none.html", "/a/b/c/d/", "/wp-content/none.php", "/.well-known/none", "/%F0%9F%8C%BE/", "/?page_id=99999", "/wp-includes/none.css"]
    found += ["/robots.txt", "/favicon.ico", "/wp-sitemap.xml", "/wp-sitemap-posts-post-1.xml", "/wp-sitemap-posts-page-1.xml", "/wp-sitemap-posts-product-1.xml", "/wp-sitemap-taxonomies-category-1.xml",
              "/wp-sitemap-users-1.xml", "/wp-sitemap-index.xsl", "/wp-sitemap-none-1.xml", "/sitemap.xml"]
    found += ["/wp-login.php", "/wp-login.php?action=lostpassword", "/wp-login.php?action=register", "/wp-login.php?redirect_to=%2Fabout%2F&reauth=1", "/wp-login.php?loggedout=true", "/login/", "/admin/", "/wp-register.php",
              "/wp-comments-post.php", "/xmlrpc.php", "/xmlrpc.php?rsd", "/wp-links-opml.php", "/wp-trackback.php?p=1", "/readme.html", "/wp-includes/css/dashicons.css", "/wp-signup.php", "/wp-activate.php"]
    found += [f"/product/{name}/" for name in names[:16]] + ["/shop/", "/shop/?orderby=price", "/shop/?orderby=price&paged=2", "/shop/?filter_color=red", "/shop/?min_price=2000&filter_color=blue",
              "/product-category/wheels/", "/product-category/stones/page/2/", "/cart/", "/checkout/", "/?s=thing&post_type=product", "/?wc-ajax=get_refreshed_fragments", "/checkout/order-received/1/", "/product/none/"]
    found += ["/wp-admin/edit.php", "/wp-admin/edit.php?post_type=page", "/wp-admin/edit-comments.php", "/wp-admin/options-general.php", "/wp-admin/options-permalink.php", "/wp-admin/users.php", "/wp-admin/profile.php",
              "/wp-admin/edit-tags.php?taxonomy=category", "/wp-admin/upload.php", "/wp-admin/tools.php", "/wp-admin/admin-ajax.php?action=none", "/wp-admin/none.php", "/wp-admin/load-styles.php?c=0&load=common"]
    return found


def routes(twins):
    """Paths of the REST interface."""
    ids = twins.ids
    below = ["", "wp/v2", "wp/v2/posts", "wp/v2/posts?per_page=3&page=2", "wp/v2/posts?search=word3&_embed=1", "wp/v2/posts?slug=post-5&_fields=id,title", "wp/v2/posts?status=draft", "wp/v2/posts?context=edit&per_page=2",
             "wp/v2/posts?per_page=0", f"wp/v2/posts/{ids['post-5']}", f"wp/v2/posts/{ids['post-5']}?context=edit", f"wp/v2/posts/{ids['hidden']}", f"wp/v2/posts/{ids['post-13']}", "wp/v2/posts/99999", "wp/v2/pages", f"wp/v2/pages/{ids['about']}",
             f"wp/v2/posts/{ids['post-5']}/revisions", "wp/v2/categories", "wp/v2/categories?hide_empty=1&orderby=count", "wp/v2/tags?search=tag", "wp/v2/comments", "wp/v2/comments?per_page=5&order=asc", f"wp/v2/comments?post={ids['post-5']}",
             "wp/v2/users", "wp/v2/users/me", "wp/v2/users/1", "wp/v2/types", "wp/v2/types/post?context=edit", "wp/v2/taxonomies", "wp/v2/statuses", "wp/v2/settings", "wp/v2/themes", "wp/v2/search?search=mill", "wp/v2/media", "wp/v2/blocks",
             "wp/v2/block-types/core/paragraph", "wp/v2/templates", "wp/v2/menus", "wp/v2/none", "oembed/1.0/embed?url=http%3A%2F%2Fmill.test%2Fpost-2%2F", "wc/store/v1/cart", "wp/v2/product?per_page=4"]
    found = ["/wp-json/" + path for path in below]
    return found + ["/?rest_route=/wp/v2/posts/1", "/index.php?rest_route=/wp/v2/tags", "/wp-json/wp/v2/posts?_jsonp=call", "/wp-json/wp/v2/posts?_method=DELETE"]
