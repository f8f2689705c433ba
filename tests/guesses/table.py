"""Ways that nobody thought of: calls of functions and classes at random, from the table of the PHP and the WordPress in use, with what a visitor has sent
passed through them. Which of them give anything away is tried out at a server without a cache."""

import re

# They act outside, end or stop the run, or take its output away. None of them gives away what others don't.
LEFT_OUT = re.compile(
    r"exec|system$|passthru|^proc_|popen|^pcntl|^posix_|^mail|sleep|time_limit|ignore_user|^exit|^die|unlink|rename|mkdir|rmdir|^copy|touch|chmod|chown|chgrp|link$|^tempnam|^tmpfile|"
    r"file_put|^f(write|puts|truncate|putcsv|passthru)|move_|socket|^dns_|gethost|getmx|checkdns|^opcache|^header|fastcgi|^millrace|^ob_|^output_|flush|readline|session_|^dl$|"
    r"apache_setenv|putenv|^ini_|error_log|syslog|_handler$|^restore_|register|autoload|^mysqli|^sem_|^shm|^msg_|setlocale|_set$|^mb_internal|^(trigger|user)_error|^ftp|^gc_|"
    r"^stream_|^fopen|^file$|^readfile|^set|^assert|^debug_|^forward_static|^iptc|^image|^exif|^gz|^xml|^libxml|^curl|^pspell|^sodium|^hash_pbkdf2|^password_|^str_repeat|^range$|"
    r"^array_(fill|pad)|^crypt$|^iconv_set|^date_default|^http_response|^setcookie|^setrawcookie|^sys_|^lcg|rand|^uniqid|time$|^date|^getrusage|^memory_|^spl_object|^getmy|^microtime",
    re.I,
)
LEFT_CLASSES = re.compile(r"Reflection|Phar|File|Directory|Glob|mysqli|PDO|SQLite|Curl|Shm|Sysv|Zip|Soap|Fiber|WeakReference|Generator|Millrace|Random|Date|XMLReader|XMLWriter|Intl|Socket|FFI", re.I)
# WordPress's functions that look, by their names.
LOOKS = re.compile(r"^(wp_|rest_|_wp_)?(get|is|has|parse|unslash|filter|list|array|build|kses|sanitize|esc|map|stripslashes|untrailing|trailing|wp_parse|current|force|absint|urlencode|rawurlencode|convert|make|links|normalize|serialize|maybe|format)_")
NOT_LOOKS = re.compile(r"http|remote|oembed|update|delete|insert|upload|download|file|image|feed|fetch|cron|schedul|mail|cache|transient|header|redirect|die|time|date|rand|nonce|password|editor|template|theme|plugin|block|version|dropin|menu|sidebar|widget", re.I)


class Table:
    """The functions of a site; `codes(dice, count)` are calls at random."""

    def __init__(self, table):
        usable = lambda name: not LEFT_OUT.search(name)  # noqa: E731
        internal = [(name, wants) for name, wants in table["internal"].items() if usable(name)]
        static = [(name, wants) for name, wants in table["static"].items() if usable(name.split("::")[1]) and not LEFT_CLASSES.search(name)]
        classes = [(f"new {name}", wants) for name, wants in table["classes"].items() if not LEFT_CLASSES.search(name)]
        wordpress = [(name, wants) for name, wants in table["wordpress"].items() if LOOKS.search(name) and not NOT_LOOKS.search(name)]
        self.all = [[one for one in group if self.can(one)] for group in (internal, wordpress, classes, static)]
        self.hooks = [hook for hook in table["hooks"] if re.fullmatch(r"[a-z_]+", hook)]

    @staticmethod
    def can(one):
        """Whether it takes an array, a text or anything, or wants nothing."""
        return all(optional or not kind or re.search(r"array|string|mixed|int|bool|callable|iterable|Traversable|Iterator|float|object", kind) for kind, optional, _, _ in one[1])

    def codes(self, dice, count):
        """So many calls, most of them in vain."""
        return [self.call(dice, 2) for _ in range(count)]

    def call(self, dice, depth):
        """A call of one of them, with arguments that may be calls."""
        group = dice.choices(self.all, (6, 2, 1, 1))[0]
        name, wants = dice.choice(group)
        needed = [want for want in wants if not want[1]]
        more = [want for want in wants if want[1]][: dice.randrange(3) if dice.random() < 0.4 else 0]
        blind, arguments, before = dice.random() < 0.15, [], ""
        # One of them is what the visitor has sent.
        spot = dice.randrange(len(needed + more)) if needed + more and not blind else -1
        for at, (kind, _, by_reference, _) in enumerate(needed + more):
            value = self.argument(dice, kind, depth, at == spot)
            if by_reference:
                before += f"$r{at} = {value}; "
                value = f"$r{at}"
            arguments.append(value)
        call = f"{name}({', '.join(arguments)})"
        if not before:
            return f"({call})" if name.startswith("new ") else call
        names = ", ".join(argument for argument in arguments if argument.startswith("$r"))
        return f"(function () {{ {before}$x = {call}; return [$x, {names}]; }})()"

    def argument(self, dice, kind, depth, sent):
        """A value of that type."""
        if sent and depth and dice.random() < 0.25:
            return self.call(dice, depth - 1)
        if "callable" in kind:
            return dice.choice(["'strval'", "fn ($x = null) => $x", "'is_string'", "fn () => $_COOKIE", "fn (...$x) => $x", "'json_encode'"])
        if sent and "array" not in kind and re.search(r"string", kind):
            return dice.choice(["($_COOKIE['cur'] ?? '')", "($_SERVER['HTTP_COOKIE'] ?? '')", "($_COOKIE['site-lang'] ?? '')", "($_SERVER['HTTP_USER_AGENT'] ?? '')", "'cur'", "'HTTP_COOKIE'", "'_COOKIE'", "($_SERVER['HTTP_X_CUSTOM'] ?? '')", "($_COOKIE['_ga'] ?? '')"])
        if sent and re.search(r"Traversable|Iterator|iterable|object", kind):
            return dice.choice(["new ArrayIterator($_COOKIE)", "new ArrayObject($_COOKIE)", "new ArrayIterator($_SERVER)", "(object) $_COOKIE"])
        if sent and (not kind or re.search(r"array|mixed", kind)):
            return dice.choice(["$_COOKIE", "$_COOKIE", "$_COOKIE", "$_SERVER", "$_REQUEST", "[$_COOKIE]", "$GLOBALS['_COOKIE']", "array_values($_COOKIE)", "['x' => $_COOKIE]"])
        return self.plain(dice, kind)

    @staticmethod
    def plain(dice, kind):
        """A value of that type that nobody has sent."""
        if "string" in kind:
            return dice.choice(["','", "'cur'", "'HTTP_COOKIE'", "'%s'", "'/z/'", "'='", "''", "'_COOKIE'", "'UTF-8'", "'a'"])
        if re.search(r"int|float", kind):
            return dice.choice(["0", "1", "2", "3", "5", "-1", "100", "INPUT_COOKIE", "INPUT_SERVER"])
        if "bool" in kind:
            return dice.choice(["true", "false"])
        if re.search(r"Traversable|Iterator|object", kind):
            return "new ArrayIterator([1, 2])"
        return dice.choice(["[]", "['cur' => 1]", "['a', 'b']", "'cur'", "1", "[['cur' => 'x']]", "['cur' => 'x', 'site-lang' => 'y']"])
