"""Random .htaccess files, and requests to them: what nobody thought of. They are made of what real files are made of, in any order, so that
most of them mean something. The same seed makes the same files."""

import random

from cases import TREE, Case

# Files and folders that the rules and requests are about.
FILES = ["a.html", "a.txt", "a.css", "show.php", "index.php", "sub/b.html", "sub/show.php"]
PATHS = ["", "a.html", "a.txt", "a.css", "empty.txt", "show.php", "show.php?x=1", "show.php/in/fo?y=%202", "show.php?fields=1", "show.php?status=404", "index.php",
         "sub", "sub/", "sub/b.html", "sub/show.php?lang=de", "sub/none.html", "x", "x?x=1&lang=de", "x/y", "x/y/", "a b".replace(" ", "%20"), "none.html", "none.php",
         "old/page.html", "A.HTML", "link.html", "a.html/more", "%C3%A9.txt", "x%3Fy"]  # fmt: skip
FIELDS = [{}, {}, {}, {"User-Agent": "Mozilla/5.0 (iPhone) Mobile"}, {"User-Agent": "bad-bot/1.0"}, {"Cookie": "lang=de; wordpress_logged_in_x=1"},
          {"Accept": "image/webp,*/*"}, {"X-Test": "one"}, {"Referer": "http://example.test/a"}, {"Referer": "http://other.test/"}, {"X-Forwarded-Proto": "https"}]  # fmt: skip

VARIABLES = ["REQUEST_URI", "QUERY_STRING", "REQUEST_FILENAME", "SCRIPT_FILENAME", "HTTP_HOST", "HTTP_USER_AGENT", "REQUEST_METHOD", "THE_REQUEST", "HTTPS", "HTTP_COOKIE", "HTTP_REFERER", "PATH_INFO",
             "ENV:REDIRECT_STATUS", "ENV:XA", "HTTP:X-Test", "HTTP:X-Forwarded-Proto", "HTTP_ACCEPT", "REQUEST_SCHEME", "SERVER_NAME", "IS_SUBREQ", "REMOTE_ADDR", "DOCUMENT_ROOT"]  # fmt: skip
TESTS = ["{}-f", "{}-d", "{}-s", "{}-l", "{}=a", "{}=", "{}<b", "{}>b", "{}^$", "{}.", "{}^/", "{}\\.php", "{}x", "{}(a|x)(.*)$", "{}lang=(de|fr)", "{}on", "{}^(GET|HEAD)$", "{}[0-9]+",
         "{}^$", "{}-eq 1", "{}iPhone|Android", "{}bad", "{}example\\.test", "{}webp", "{}^200$"]  # fmt: skip
MATCHES = ["^$", ".", ".*", "^(.*)$", "^(.+)$", "^x$", "^x(/.*)?$", "^(.+)/$", "^(.*)/(.*)$", "^a\\.(html|txt)$", "\\.php$", "!\\.php$", "!^(index|show)\\.php", "^sub/(.*)$", "^sub", "^show\\.php(/.*)?$", "^none", "^old/(.*)\\.html$",
           "^([a-z]+)$", "b\\.html$", "^index\\.php$", "x"]  # fmt: skip
TARGETS = ["-", "-", "-", "a.html", "a.txt", "show.php", "show.php?u=$1", "show.php?q=%1", "show.php/$1", "sub/b.html", "sub/$1", "BASE/a.html", "BASE/show.php?v=$1&%{QUERY_STRING}", "BASE/index.php", "index.php",
           "none.html", "sub/", "$1", "x$1.html", "/%{REQUEST_URI}", "show.php?"]  # fmt: skip
AWAY = ["BASE/new", "http://other.test/$1", "https://%{HTTP_HOST}%{REQUEST_URI}", "BASE/x?y=1", "/$1", "new/$1", "http://other.test/?u=%{REQUEST_URI}", "BASE/a b".replace(" ", "%20"), "sub/", "BASE/#part"]
FLAGS = ["L", "L", "L", "END", "QSA", "QSA", "QSD", "NC", "NE", "B", "S=1", "S=2", "C", "E=XA:$1", "E=XB:%1", "E=!XA", "E=XC:y", "PT", "T=text/x-note", "NS", "NV"]
# Without L, the next rules make something of the redirect's URL that nobody wants: Apache then sends 302 without a Location.
REDIRECTS = [f"{redirect},L" for redirect in ("R", "R", "R=301", "R=302", "R=303", "R=307", "R=308", "R,QSA", "R=301,NE", "R,QSD", "R=302,NC,NE", "R=permanent", "END,R")]

SECTIONS = [
    ("Files", "a.html"), ("Files", "*.txt"), ("Files", "show.php"), ("Files", '~ "\\.(css|txt)$"'), ("Files", "b.html"), ("FilesMatch", '"\\.(html|php)$"'), ("FilesMatch", '"^a"'), ("FilesMatch", "\"(?<kind>a|b)\\.html\""),
    ("IfModule", "mod_rewrite.c"), ("IfModule", "!mod_headers.c"), ("IfModule", "mod_none.c"), ("IfModule", "headers_module"), ("IfVersion", ">= 2.4"), ("IfVersion", "< 2.4"), ("If", '"%{QUERY_STRING} =~ /x/"'), ("If", "\"%{REQUEST_URI} == 'none'\""),
    ("If", '"-n %{HTTP_COOKIE}"'), ("Limit", "POST PUT"), ("Limit", "GET"), ("LimitExcept", "GET HEAD"), ("IfDefine", "NONE"),
]  # fmt: skip


# Expressions: words, and what they are compared with. Groups, stars and slashes meet in them.
WORDS = ["%{QUERY_STRING}", "%{QUERY_STRING}", "%{REQUEST_URI}", "%{HTTP_USER_AGENT}", "%{HTTP_COOKIE}", "'%{QUERY_STRING}/%{REQUEST_METHOD}'", "%{reqenv:XA}", "%{tolower:%{HTTP_USER_AGENT}}", "'a/b.c'", "'$0'", "'$1'", "'x$1'"]
REGEXES = ["x", "=", "^(.)", "(x)=(.)", "lang=(de|fr)", "^$", "(?:x)=", "([a-z]+)/(.*)", "(z)", "\\.html$", "^[^/]*(/)", "e"]
GLOBS = ["*", "*/*", "x*", "x=?", "*=*", "/*", "/*/*.html", "/*.html", "*.html", "a?b*", "a/*", "[!x]*", "*[.-0]*", "a[/]b*", "x=1/G*", "*/GET", "**"]
TEXTS = ["'x'", "''", "'de'", "'1'", "'a'", "'xx'", "'$0'", "'$1'", "%{QUERY_STRING}"]


class Dice(random.Random):
    """Makes pieces of files."""

    def expression(self, depth=0):
        """What stands between the quotes of `<If "...">`."""
        kind = self.random()
        if depth < 3 and kind < 0.4:
            return f"{self.expression(depth + 1)} {self.choice(['&&', '&&', '||'])} {self.expression(depth + 1)}"
        if depth < 3 and kind < 0.5:
            return f"{self.perhaps(0.5, '! ')}({self.expression(depth + 1)})"
        word = self.choice(WORDS)
        return self.choice([
            f"{word} {self.choice(['=~', '=~', '=~', '!~'])} m#{self.choice(REGEXES)}#{self.perhaps(0.2, 'i')}", f"{word} {self.choice(['=~', '!~'])} m#{self.choice(REGEXES)}#",
            f"{word} {self.choice(['-fnmatch', '-strmatch', '-strcmatch'])} '{self.choice(GLOBS)}'", f"{word} {self.choice(['==', '!=', '<'])} {self.choice(TEXTS)}", f"{self.choice(['-n', '-z', '-T'])} {word}",
            f"{word} in {{ {self.choice(TEXTS)}, {self.choice(TEXTS)} }}",
        ])  # fmt: skip

    def by_expression(self):
        """A directive that asks an expression, and shows what came of it."""
        text = self.expression()
        return self.choice([
            f'<If "{text}">\nHeader set X-If yes\n</If>', f'<If "{text}">\nRequire all denied\n</If>', f'<If "{text}">\nHeader set X-If yes\n</If>\n<Else>\nHeader set X-Else yes\n</Else>', f'Header set X-Expr yes "expr={text}"',
            f'Require expr "{text}"', f'SetEnvIfExpr "{text}" XA XE=e',
        ])  # fmt: skip

    def perhaps(self, chance, text):
        return text if self.random() < chance else ""

    def condition(self):
        if self.random() < 0.1:
            # With groups at its start: without, Apache leaves %1 undefined.
            return f'RewriteCond expr "%{{QUERY_STRING}} =~ /(x|lang)?/ && ({self.expression(2)})"'
        text = self.choice([f"%{{{self.choice(VARIABLES)}}}"] * 6 + ["$1", "%1", "ROOTBASE/$1", "%{DOCUMENT_ROOT}BASE/$1", "%{REQUEST_METHOD}%{QUERY_STRING}", "%{REQUEST_FILENAME}.html"])
        test = self.choice(TESTS).format(self.perhaps(0.3, "!"))
        test = f'"{test}"' if " " in test else test
        flags = ",".join(flag for flag in (self.perhaps(0.2, "NC"), self.perhaps(0.2, "OR")) if flag)
        return f"RewriteCond {text} {test}" + (f" [{flags}]" if flags else "")

    def rule(self):
        lines = [self.condition() for _ in range(self.choice([0, 0, 1, 1, 2, 3]))]
        kind = self.random()
        if kind < 0.2:
            target, flags = self.choice(AWAY), [self.choice(REDIRECTS)]
        elif kind < 0.3:
            target, flags = self.choice(["-", "a.html"]), [self.choice(["F", "G", "R=404", "F,L", "R=403", "R=410"])]
        else:
            target, flags = self.choice(TARGETS), self.sample(FLAGS, self.choice([0, 1, 1, 2, 3]))
        flags = f" [{','.join(flags)}]" if flags else ""
        return "\n".join([*lines, f"RewriteRule {self.choice(MATCHES)} {target}{flags}"])

    def rewriting(self):
        lines = ["RewriteEngine On"] + [line for line in [self.perhaps(0.4, "RewriteBase " + self.choice(["BASE/", "BASE", "/", "BASE/sub/"]))] if line]
        return "\n".join(lines + [self.rule() for _ in range(self.choice([1, 1, 2, 3, 4]))])

    def redirecting(self):
        status = self.choice(["", "301 ", "permanent ", "temp ", "303 ", "308 ", "seeother "])
        return self.choice([
            f"Redirect {status}BASE/{self.choice(['x', 'old', 'a.html', 'sub'])} {self.choice(['http://other.test/y', 'BASE/a.html', '/z'])}",
            f"Redirect {self.choice(['gone', '410', '404'])} BASE/{self.choice(['x', 'old', 'a.txt'])}",
            f"RedirectMatch {status}{self.choice(['^BASE/x(.*)$', '/old/(.*)', '/x', '^(.*)[.]txt$'])} {self.choice(['http://other.test/$1', 'BASE/new$1'])}",
            f"RedirectMatch 404 {self.choice(['css$', '/sub/'])}",
        ])  # fmt: skip

    def access(self):
        return self.choice([
            "Require all granted", "Require all denied", "Require not ip 127.0.0.1", "Require ip 127.0.0.1", "Require ip 10.0.0.0/8", "Require local", "Require method GET", "Require env XA",
            "Require expr %{QUERY_STRING} =~ /x/", "Require expr \"%{REQUEST_METHOD} == 'POST'\"", "<RequireAll>\nRequire all granted\nRequire not env XBAD\n</RequireAll>", "<RequireAny>\nRequire env XA\nRequire ip 127\n</RequireAny>", "<RequireNone>\nRequire env XBAD\n</RequireNone>",
            "Order allow,deny\nAllow from all", "Order deny,allow\nDeny from all", "Order allow,deny\nAllow from 127.0.0.1", "Order deny,allow\nDeny from all\nAllow from 127.", "Deny from env=XBAD", "Order allow,deny\nAllow from all\nDeny from env=XBAD",
            "Order deny,allow\nDeny from all\nAllow from env=XA\nRequire env XC\nSatisfy any", "Order allow,deny\nDeny from env=XBAD\nRequire all denied\nSatisfy any",
        ])  # fmt: skip

    def environment(self):
        return self.choice([
            "SetEnv XD set", "SetEnvIf Request_URI \"\\.(txt|css)$\" XA", "SetEnvIfNoCase User-Agent bad XBAD=1", "BrowserMatch Mobile XA=phone", "SetEnvIf Referer other XBAD", "SetEnvIf X-Test (o)(n) XA=$2$1", "UnsetEnv XD",
            "SetEnvIf Request_Method GET !XBAD XC=get", "SetEnvIf Query_String x XA", "SetEnvIf Remote_Addr ^(127) XB=$0$1",
            "SetEnv XA", "SetEnvIf Request_URI . XA=", "SetEnvIfExpr \"%{QUERY_STRING} =~ /(.)=(.)/\" XA=$2$1 XB=$0",
        ])  # fmt: skip

    def header(self):
        always = self.perhaps(0.25, "always ")
        when = self.choice(["", "", "", " env=XA", " env=!XA", " \"expr=%{REQUEST_STATUS} == 404\"", " \"expr=%{REQUEST_URI} =~ /html$/\"", " \"expr=%{CONTENT_TYPE} =~ m#text/html#\""])
        return "Header " + always + self.choice(["set X-One one", "append X-List b", "merge X-List a", "add X-List c", "unset X-Script-Only", "edit X-From-Script s S", "edit* X-From-Script [st] -", "set X-Var \"%{XA}e and %{HTTPS}s\"", "setifempty X-One two", "set Cache-Control no-store", "unset Cache-Control",
                                                 "echo X-Test", "set X-Uri \"expr=%{REQUEST_URI}\"", "note X-One xnote"]) + when  # fmt: skip

    def request_header(self):
        return "RequestHeader " + self.choice(["set X-Added yes", "unset Cookie", "set X-Env %{XA}e env=XA", "edit X-Test one two", "setifempty X-Test none"])

    def media(self):
        return self.choice(["AddType text/x-note .txt", "ForceType text/plain", "AddDefaultCharset utf-8", "AddDefaultCharset Off", "AddCharset iso-8859-1 .html", "DefaultLanguage de", "AddLanguage fr .html", "DirectoryIndex a.html", "DirectoryIndex none.html a.txt",
                            "DirectoryIndex disabled", "ErrorDocument 404 BASE/a.html", "ErrorDocument 404 BASE/show.php", "ErrorDocument 403 \"Keep out\"", "ErrorDocument 404 http://other.test/404", "ErrorDocument 410 BASE/a.txt", "ErrorDocument 403 BASE/none.html", "FileETag None", "Options -Indexes",
                            "ExpiresActive On\nExpiresDefault A60", "ExpiresActive On\nExpiresByType text/html \"access plus 1 hour\"\nExpiresByType text/css A5", "AcceptPathInfo Off", "AcceptPathInfo On", "FallbackResource BASE/index.php", "FallbackResource disabled"])  # fmt: skip

    def simple(self):
        return self.choice([self.redirecting, self.access, self.environment, self.environment, self.header, self.header, self.by_expression, self.request_header, self.media])()

    def block(self, depth=0):
        inner = "\n".join(self.simple() if depth or self.random() < 0.8 else self.block(1) for _ in range(self.choice([1, 1, 2])))
        # <Files> in a section: Apache never applies it, and Millrace refuses what it refuses.
        name, what = self.choice([one for one in SECTIONS if not (depth and one[0].startswith("Files"))])
        return f"<{name} {what}>\n{inner}\n</{name}>"

    def file(self):
        pieces = [self.rewriting() for _ in range(self.choice([0, 1, 1]))]
        pieces += [self.simple() for _ in range(self.choice([0, 1, 2, 3]))] + [self.block() for _ in range(self.choice([0, 0, 1, 2]))]
        self.shuffle(pieces)
        return "\n".join(pieces) + "\n"

    def request(self):
        path, fields = self.choice(PATHS), self.choice(FIELDS)
        # To a POST that rules send to a file or a folder, each server has its own answer.
        return path, fields, self.choice(["GET"] * 9 + ["HEAD"])

    def case(self, number):
        files = {"sub/.htaccess": self.file()} if self.random() < 0.3 else {}
        requests = list({str(one): one for one in (self.request() for _ in range(14))}.values())
        return Case(f"dice-{number}", self.file(), requests, files, {**TREE, "old/page.html": "<p>old</p>\n", "é.txt": "accent\n"})


def cases(seed, count):
    """So many random cases."""
    return [Dice(f"{seed} {number}").case(f"{seed}-{number}") for number in range(count)]
