"""Declared noise: what two servers that are equal say differently, because it is random or depends on the time. Everything
else has to be the same."""

import collections
import datetime
import re
import time

DAY = 86400
# (regular expression, what stands for it, reason), for every answer and every row.
EVERYWHERE = [
    (r"\b[012]\.gravatar\.com", "N.gravatar.com", "WordPress draws the server of an avatar without an address at random"),
    (r"&#(046|04[89]|05[0-7]|064|097|098|099|1[01]\d|12[0-2]);", lambda found: chr(int(found[1])), "WordPress hides letters of an address at random"),
    (r'data-pw="[^"]+"', "data-pw", "a password that WordPress suggests"),
    (r"(wp-embed-share-[\w-]+-\d+-)\d+", r"\1N", "ids of an embedded post: wp_rand()"),
    (r"; expires=\w+, [\w :]+ GMT(; Max-Age=\d+)", r"\1", "when a cookie ends is the time of its answer and its age, which is compared"),
    (r"(wordpress(_sec|_logged_in)?_[0-9a-f]{32}=\w+%7C\w+%7C)\w+%7C[0-9a-f]{64}", r"\1TOKEN", "the token of a new log-in"),
    (r"(wp_woocommerce_session_[0-9a-f]{32}=\d+%7CTIME%7CTIME%7C)[0-9a-f]{32}", r"\1HASH", "a customer's session has a keyed hash of its times"),
    (r"((?:format-i18n|\"example)\">)\d{1,2}:\d\d( [AP]M| [ap]m)?<", r"\1TIME<", "the settings show what time it is in each format"),
    (r"pwbox-\d+", "pwbox-N", "the id of a field in the form for a post's password: rand()"),
    (r"(#\?secret=|data-secret=(?:\W|&\w+;){1,2})\w{10}", r"\1SECRET", "an embedded post and its frame know each other by a random word"),
    (r"\b(overdue by )?\d+ (second|min|minute)s?( ago)?\b", "N", "how long ago something was, while the test runs"),
    (r'("generated_in"|"memory"):[\d.]+', r"\1:N", "what a request has cost"),
    (r"\bt_[0-9a-f]{30}\.[0-9a-f]{32}\b", "t_TOKEN", "the shop's random name for a guest, with a keyed hash of it: a Cart-Token"),
]
# For clients with a session: each site has made its own, with another random name.
OWN = [
    (r"\bt_[0-9a-f]{30}\b", "t_ID", "the shop's name for a guest"),
    (r"\b[0-9a-f]{10}\b", "NONCE", "a nonce is keyed with the session"),
    (r"(wp_woocommerce_session_[0-9a-f]{32}=)[^;]+", r"\1SESSION", "the shop's session, with a keyed hash of its name and time"),
    (r"(wp-postpass_[0-9a-f]{32}=)[^;]+", r"\1HASH", "a salted hash"),
]
ROWS = [
    (r"\bt_[0-9a-f]{30}\b", "t_ID", "the shop's name for a guest"),
    (r"(\tsession_tokens\t).*", r"\1TOKENS", "log-ins of the test"),
]
# Columns that say in which order concurrent requests have come: {table: number of columns at the start of a row}.
ORDER = {"wp_options": 1}
# Fields of the moment and of the connection. An answer that is ready as a whole when the server looks has a length, another one has chunks.
FIELDS = {"date", "keep-alive", "content-length", "transfer-encoding"}


class Noise:
    """What is declared, for a test that begins now and ends within a day, with both sites below `folder`."""

    def __init__(self, folder):
        self.sites = re.compile(re.escape(str(folder)) + "/[ab]/")
        self.begun = int(time.time()) - DAY
        dates = [datetime.date.fromtimestamp(self.begun + n * DAY) for n in [*range(18), 365, 366, 367]]
        days = [form for d in dates for form in (f"{d:%Y-%m-%d}", f"{d:%d %b %Y}", f"{d:%d-%b-%Y}", f"{d:%B} {d.day}, {d:%Y}", f"{d:%Y/%m/%d}")]
        clock = r"(?:(?:[T ,]|%20|\+| at | @ )*\d{1,2}(?::|%3A)\d\d(?:(?::|%3A)\d\d)?(?: ?[ap]m)?(?: ?GMT|Z| ?[+-]\d\d:?\d\d)?)?"
        self.times = re.compile(f"(?:{'|'.join(map(re.escape, days))}){clock}")
        self.everywhere, self.own, self.of_rows = ([(re.compile(rule), stands) for rule, stands, _ in rules] for rules in (EVERYWHERE, OWN, ROWS))

    def plain(self, text, rules=()):
        """A text without noise."""
        text = self.times.sub("TIME", self.sites.sub("SITE/", text))
        text = re.sub(r"(?<!\d)(1\d{9})(\d{3})?(?!\d)", lambda found: "TIME" if self.begun < int(found[1]) < self.begun + 18 * DAY else found[0], text)
        for rule, stands in [*self.everywhere, *rules]:
            text = rule.sub(stands, text)
        return text

    def difference(self, answers, own):
        """What differs between two answers, in a line, or None."""
        if answers[0].status != answers[1].status:
            return f"status {answers[0].status} and {answers[1].status}"
        rules = self.own if own else ()
        fields = [self.fields(answer, rules) for answer in answers]
        if fields[0] != fields[1]:
            return f"fields {differ(*fields)}"
        if answers[0].content == answers[1].content:
            return None
        texts = [self.plain(answer.text, rules).splitlines() for answer in answers]
        return differ(*texts) if texts[0] != texts[1] else None

    def fields(self, answer, rules):
        """Header fields without noise."""
        found = [f"{name}: {self.plain(value, rules)}" for name, value in answer.fields if name.lower() not in FIELDS]
        # WordPress makes a feed's ETag of its Last-Modified.
        return [re.sub(r'^(etag: (?:W/)?")[0-9a-f]{32}"', r'\1HASH"', field, flags=re.I) if any(re.match(r"last-modified: \w+, TIME", field, re.I) for field in found) else field for field in found]

    def rows(self, table, lines):
        """How often each row is there, without noise."""
        return collections.Counter(self.plain("\t".join(line.split("\t")[ORDER.get(table, 0):]), self.of_rows) for line in lines)


def differ(first, second):
    """The first lines that differ, around the place where they do."""
    for one, other in zip(first, second):
        if one != other:
            at = next((n for n, (x, y) in enumerate(zip(one, other)) if x != y), min(len(one), len(other)))
            return f"{one[max(0, at - 60):at + 120]!r} and {other[max(0, at - 60):at + 120]!r}"
    rest = (first if len(first) > len(second) else second)[min(len(first), len(second))]
    return f"only {'the first' if len(first) > len(second) else 'the second'} has {rest[:160]!r}"
