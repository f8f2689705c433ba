"""What is compared with Apache: each case is a folder with a .htaccess file, and requests to it. In the files, BASE is the folder's URL
path and ROOT the document root."""

from dataclasses import dataclass, field


# What the scripts are: they show what rules have said to PHP.
SHOW = """<?php
if (isset($_GET['status'])) http_response_code((int) $_GET['status']);
if (isset($_GET['fields'])) {
    header('X-From-Script: script'); header('X-Script-Only: 1'); header('X-List: a'); header('Cache-Control: private');
    setcookie('one', '1'); setcookie('two', '2');
}
echo basename(__FILE__), "\\n";
foreach ($_SERVER as $name => $value) {
    if (preg_match('/^(REDIRECT_)*(X[A-Z]+|STATUS|URL|QUERY_STRING|HTTP_AUTHORIZATION|HTTP_X_.*|REMOTE_USER|AUTH_TYPE|SCRIPT_NAME|PATH_INFO|REQUEST_URI|PHP_SELF)$/', $name)
        && !in_array($name, ['REDIRECT_REMOTE_USER']) && "$value" !== '')
        $lines[] = "$name=$value";
}
sort($lines);
echo implode("\\n", $lines), "\\n";
"""

# The files of a folder, beside those that a case adds.
TREE = {"a.html": "<p>a</p>\n", "a.css": "a { }\n", "a.txt": "a\n", "empty.txt": "", "index.php": SHOW, "show.php": SHOW, "run.sh": "true\n",
        "sub/b.html": "<p>b</p>\n", "sub/show.php": SHOW}  # fmt: skip


@dataclass
class Case:
    """A folder with files, and requests: "path", or (path, {field: value}), or (path, {field: value}, method)."""

    name: str
    htaccess: str
    requests: list
    files: dict = field(default_factory=dict)
    tree: dict = field(default_factory=lambda: TREE)
    # All header fields are compared, not only those that the cases are about.
    compares_all: bool = False


CASES = []


def case(name, htaccess, *requests, **files):
    """Adds a case; `files` are more files, their names with __ for / and _dot_ for a dot."""
    more = {name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()}
    CASES.append(Case(name, htaccess, list(requests), more))


def agent(text):
    return {"User-Agent": text}


ON = "RewriteEngine On\n"
HIDE = "a.html", "show.php", "sub/b.html"

# --- mod_rewrite: directives
case("engine-off", "RewriteEngine Off\nRewriteRule . - [F]", "a.html", "show.php?x=1")
case("no-engine", "RewriteRule . - [F]", "a.html")
case("base", ON + "RewriteBase BASE/\nRewriteRule ^old$ new.html [R]\nRewriteRule ^in$ a.html", "old", "in", "old?q=1")
case("base-none", ON + "RewriteRule ^old$ new.html [R=301]\nRewriteRule ^in$ a.html", "old", "in")
case("base-other", ON + "RewriteBase BASE/sub\nRewriteRule ^in$ b.html\nRewriteRule ^x$ y [R]", "in", "x")
case("base-invalid", ON + "RewriteBase sub\n", "a.html")
case("front-controller", ON + "RewriteBase BASE/\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n"
     "RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . BASE/index.php [L]", "", "any/page/", "any?x=1&y=%20z", "a.html", "sub/", "sub",
     "index.php", "index.php/info", "a.html/x", "sub/none.html")  # fmt: skip
case("options-inherit", ON + "RewriteRule ^(sub/)?up$ BASE/a.html\n", "sub/up", "up", "sub/own",
     sub___dot_htaccess="RewriteOptions Inherit\nRewriteEngine On\nRewriteRule ^own$ b.html\nRewriteRule ^up$ BASE/a.html")
case("options-inherit-before", ON + "RewriteRule ^x$ BASE/a.html [L]\n", "sub/x",
     sub___dot_htaccess="RewriteEngine On\nRewriteOptions InheritBefore\nRewriteRule ^x$ b.html [L]")
case("options-none", ON + "RewriteRule b\\.html - [F]\n", "sub/b.html", "sub2/b.html",
     sub___dot_htaccess="RewriteEngine On\nRewriteRule ^x$ b.html [L]", sub2__b_dot_html="b")
case("no-slash", ON + "RewriteRule ^(.*)$ show.php?u=$1 [L,QSA]\n", "", "sub", "sub/", "x/y?z=1")
case("nested-engine-off", ON + "RewriteRule . - [F]\n", "a.html", "sub/b.html", sub___dot_htaccess="RewriteEngine Off")

# --- flags of rules
case("flag-l", ON + "RewriteRule ^x$ a.html [L]\nRewriteRule ^(x|a\\.html)$ show.php?second=$1", "x", "a.html")
case("flag-end", ON + "RewriteRule ^x$ a.html [END]\nRewriteRule ^a\\.html$ show.php?second", "x", "a.html")
case("flag-f", ON + "RewriteRule secret - [F]\nRewriteRule ^x$ secret.html", "secret", "a.html", "x", "show.php/secret")
case("flag-g", ON + "RewriteRule ^gone - [G]", "gone", "a.html")
case("flag-r", ON + "RewriteRule ^a1$ http://o.test/x [R]\nRewriteRule ^a2$ https://o.test/x?y=1 [R=301,L]\nRewriteRule ^a3$ BASE/x [R=303]\n"
     "RewriteRule ^a4$ - [R=404]\nRewriteRule ^a5$ http://o.test/z\nRewriteRule ^a6$ BASE/b [R=permanent]\nRewriteRule ^a7$ BASE/c [R=307]\n"
     "RewriteRule ^a8$ http://o.test [R]\nRewriteRule ^a9$ BASE/b [R=seeother]\nRewriteRule ^a10$ mailto:x@o.test [R]",
     *[f"a{n}" for n in range(1, 11)], "a1?q=1", "a2?q=2", "a3?q=%20x")  # fmt: skip
case("flag-r-invalid", ON + "RewriteRule ^a1$ http://o.test/x [R=200]", "a.html")
case("flag-r-chain", ON + "RewriteRule ^a1$ BASE/x [R]\nRewriteRule x - [F]", "a1")
case("flag-unknown", ON + "RewriteRule ^a1$ b [XX]", "a.html")
case("flag-qsa", ON + "RewriteRule ^a$ show.php?x=1 [QSA]\nRewriteRule ^b$ show.php?x=1\nRewriteRule ^c$ show.php\nRewriteRule ^d$ show.php? \n"
     "RewriteRule ^e$ show.php?x=%{QUERY_STRING}\nRewriteRule ^f$ BASE/z?x=1 [R,QSA]", "a?y=2", "b?y=2", "c?y=2", "d?y=2", "e?y=2", "a", "f?y=a%20b", "f")
case("flag-qsd", ON + "RewriteRule ^a$ show.php [QSD]\nRewriteRule ^b$ BASE/x [R,QSD]\nRewriteRule ^c$ show.php?n=1 [QSD,QSA]", "a?y=2", "b?y=2", "c?y=2")
case("flag-qsl", ON + "RewriteRule ^a$ show.php?x?y=1 [QSL]\nRewriteRule ^b$ show.php?x?y=1", "b", "a")
case("flag-nc", ON + "RewriteRule ^ABC$ a.html [NC]\nRewriteRule ^DEF$ a.html", "abc", "aBc", "def")
case("flag-ne", ON + "RewriteRule ^a$ BASE/x#anchor [R,NE]\nRewriteRule ^b$ BASE/x#anchor [R]\nRewriteRule ^c$ BASE/x%20y [R,NE]\n"
     "RewriteRule ^d(.*)$ BASE/x$1 [R]\nRewriteRule ^e$ BASE/x?a=%20b [R]\nRewriteRule ^f$ BASE/x?a=%20b [R,NE]", "a", "b", "c", "d%20y", "d%c3%a9", "e", "f")
case("flag-b", ON + "RewriteRule ^a/(.*)$ show.php?v=$1 [B]\nRewriteRule ^b/(.*)$ show.php?v=$1\nRewriteRule ^c/(.*)$ show.php?v=$1 [B,BNP]",
     "a/x%26y", "b/x%26y", "a/x%20y", "c/x%20y")
case("flag-s", ON + "RewriteRule ^x$ - [S=2]\nRewriteRule ^x$ - [F]\nRewriteRule ^x$ - [G]\nRewriteRule ^x$ a.html", "x")
case("flag-c", ON + "RewriteRule ^(no|x)$ - [C]\nRewriteCond %{QUERY_STRING} go\nRewriteRule ^x$ show.php?chained [C]\nRewriteRule . - [E=XDONE:1]\n"
     "RewriteRule ^x$ a.html", "x", "x?go", "no")
case("flag-n", ON + "RewriteRule ^(.*)_(.*)$ $1-$2 [N]\nRewriteRule ^a-b-c$ a.html", "a_b_c")
case("flag-n-loop", ON + "RewriteRule ^(.*)$ $1 [N=5]", "a.html")
case("flag-e", ON + "RewriteRule ^(.*)$ - [E=XPATH:$1,E=XEMPTY:,E=XNAME]\nRewriteRule ^go$ show.php [E=XA:b:c,E=!XPATH]\n"
     "RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]", "show.php", "go", ("show.php", {"Authorization": "Bearer x"}))
case("flag-co", ON + "RewriteRule ^a - [CO=n:v:.example.test]\nRewriteRule ^b - [CO=n:v:example.test:0:/x:secure:httponly]\n"
     "RewriteRule ^show - [CO=;m;a:b;example.test;0;/;false;false;Lax]", "a.html", "show.php")  # fmt: skip
case("flag-t", ON + "RewriteRule \\.txt$ - [T=text/x-note]\nRewriteRule ^n$ a.txt [T=text/x-n]", "a.txt", "n", "a.html")
case("flag-t-script", ON + "RewriteRule ^(show\\.php|n)$ show.php [T=text/x-note]", "show.php", "n", "show.php?fields=1")
case("flag-h", ON + "RewriteRule ^show - [H=default-handler]", "show.php", "index.php")
case("flag-pt-dpi", ON + "RewriteRule ^x$ a.html [PT]\nRewriteRule ^show2\\.php(/.*)?$ show.php [DPI]\nRewriteRule ^s(/.*)$ show.php$1", "x", "show2.php/a/b", "s/i")
case("flag-p", ON + "RewriteRule ^x$ http://127.0.0.1:1/ [P]", "x")
case("flag-ns", ON + "RewriteRule ^index\\.php$ - [F,NS]", "", "index.php")
case("flag-several", ON + 'RewriteRule ^x$ show.php?a=1 [L,QSA,NC,E=XA:1]\nRewriteRule "^quoted name$" a.html\nRewriteRule ^esc\\ aped$ a.html',
     "X?b", "quoted%20name", "esc%20aped")
case("negated-rule", ON + "RewriteRule !\\.(html|php)$ - [F]", "a.html", "a.txt", "show.php")
case("self-url", ON + "RewriteRule ^x$ http://example.test/BASE/a.html\nRewriteRule ^y$ http://example.test/BASE/a.html [R]".replace("/BASE", "BASE"), "x", "y")
case("internal-loop", ON + "RewriteRule ^(.*)$ sub/$1 [L]", "x.html")
case("loop-guarded", ON + "RewriteCond %{ENV:REDIRECT_STATUS} ^$\nRewriteRule ^(.*)$ sub/$1 [L]", "b.html", "zz")
case("path-info", ON + "RewriteRule ^none/(.*)$ show.php?p=$1 [L]\nRewriteRule ^show\\.php/(.*)$ - [E=XI:$1]", "none/a/b", "show.php/x/y", "none")
case("encoded", ON + "RewriteRule ^(.+)/x$ show.php?v=$1 [L]", "a%20b/x", "%C3%A9/x", "a+b/x", "a%25b/x")
case("question-mark", ON + "RewriteRule ^a/(.*)$ show.php?v=$1\nRewriteRule ^b/(.*)$ show.php?v=$1 [UnsafeAllow3F]\nRewriteRule ^c/(.*)$ sub/$1", "a/x%3fy", "b/x%3fy", "c/b.html%3fx")
case("look-around", ON + "RewriteRule ^(?!show|index)([a-z]+)$ show.php?w=$1 [L]\nRewriteRule ^(a+)\\1z$ a.html", "word", "showme", "aaz")
case("look-around-words", ON + "RewriteRule ^(?!x)\\bshow\\b$ show.php?w [L]\nRewriteRule ^(?!x)a\\Bb a.html", "show", "shows", "ab", "a-b")
case("look-around-flags", ON + "RewriteRule ^(?!x)a(?i:bc)d$ a.html [L]\nRewriteRule ^(?!x)s(?i)how$ show.php", "aBCd", "aBCD", "sHOW", "SHOW", "XaBCd")
case("look-around-sets", ON + "RewriteRule ^(?!x)[^\\W_]+z$ a.html [L]\nRewriteRule ^(?!x)q[\\s\\S]+[\\D]$ show.php", "abcz", "a_cz", "q1a", "q11", "q%0Ab")

# --- variables
NAMES = """HTTP_USER_AGENT HTTP_REFERER HTTP_COOKIE HTTP_FORWARDED HTTP_HOST HTTP_ACCEPT REQUEST_METHOD REQUEST_SCHEME REQUEST_URI REQUEST_FILENAME
SCRIPT_FILENAME PATH_INFO QUERY_STRING AUTH_TYPE DOCUMENT_ROOT SERVER_NAME REMOTE_ADDR REMOTE_HOST REMOTE_USER SERVER_ADDR SERVER_PROTOCOL
THE_REQUEST HTTPS IS_SUBREQ IPV6 CONTEXT_DOCUMENT_ROOT HTTP:X-One HTTP:none ENV:XSET ENV:none NO_SUCH API_VERSION LA-U:REQUEST_URI LA-F:REQUEST_URI"""
for NAME in NAMES.split():
    SEEN = {"User-Agent": "agent/1", "Referer": "http://r.test/", "Cookie": "a=b", "Forwarded": "for=1", "Accept": "text/x", "X-One": "one"}
    case("variable-" + NAME.lower().replace(":", "-"), "SetEnvIf Request_URI . XSET=yes\n" + ON + f"RewriteRule . - [E=XVALUE:%{{{NAME}}}]",
         ("show.php/info?q=1", SEEN), ("show.php", SEEN, "POST"))
case("variable-time", ON + "RewriteCond %{TIME_YEAR} ^20\\d\\d$\nRewriteCond %{TIME} ^\\d{14}$\nRewriteCond %{TIME_WDAY} ^[0-6]$\n"
     "RewriteCond %{TIME_MON}%{TIME_DAY}%{TIME_HOUR}%{TIME_MIN}%{TIME_SEC} ^\\d{10}$\nRewriteRule ^x$ a.html", "x")
case("variable-port", ON + "RewriteCond %{SERVER_PORT} ^\\d+$\nRewriteCond %{REMOTE_PORT} ^\\d+$\nRewriteCond %{SERVER_SOFTWARE} .\nRewriteRule ^x$ a.html", "x")

# --- conditions
case("cond-files", ON + "".join(f"RewriteCond {path} {test}\nRewriteRule ^{name}$ a.html [L]\n" for name, path, test in [
    ("f1", "ROOTBASE/a.html", "-f"), ("f2", "ROOTBASE/none", "-f"), ("f3", "ROOTBASE/sub", "-f"), ("d1", "ROOTBASE/sub", "-d"), ("d2", "ROOTBASE/a.html", "-d"),
    ("s1", "ROOTBASE/empty.txt", "-s"), ("s2", "ROOTBASE/a.html", "-s"), ("l1", "ROOTBASE/link.html", "-l"), ("l2", "ROOTBASE/a.html", "-l"),
    ("h1", "ROOTBASE/link.html", "-h"), ("x1", "ROOTBASE/run.sh", "-x"), ("x2", "ROOTBASE/a.html", "-x"), ("u1", "BASE/a.html", "-U"), ("u2", "BASE/none", "-F"),
    ("F1", "ROOTBASE/a.html", "-F"), ("n1", "ROOTBASE/none", "!-f"), ("n2", "ROOTBASE/a.html", "!-f")]),
    *"f1 f2 f3 d1 d2 s1 s2 l1 l2 h1 x1 x2 u1 u2 F1 n1 n2".split())  # fmt: skip
case("cond-compare", ON + "".join(f"RewriteCond {subject} {test}\nRewriteRule ^{name}$ a.html [L]\n" for name, subject, test in [
    ("e1", "abc", "=abc"), ("e2", "abc", "=abd"), ("e3", "%{HTTP:none}", '=""'), ("e4", "abc", "!=abc"), ("e5", "ABC", "=abc [NC]"), ("lt1", "abc", "<abd"), ("lt2", "b", "<aa"),
    ("gt1", "b", ">a"), ("gt2", "aa", ">b"), ("le1", "a", "<=a"), ("ge1", "a", ">=b"), ("q1", "7", "-eq7"), ("q2", "7", "-ne7"), ("q3", "7", "-lt10"), ("q4", "7", "-gt10"),
    ("q5", "7", "-le7"), ("q6", "7", "-ge8"), ("q7", "07x", "-eq7"), ("q8", "7", "!-eq7")]),
    *"e1 e2 e3 e4 e5 lt1 lt2 gt1 gt2 le1 ge1 q1 q2 q3 q4 q5 q6 q7 q8".split())  # fmt: skip
case("cond-or", ON + "RewriteCond %{QUERY_STRING} a [OR]\nRewriteCond %{QUERY_STRING} b\nRewriteCond %{QUERY_STRING} c\nRewriteRule ^x$ a.html", "x?ac", "x?bc", "x?ab", "x?c")
case("cond-or-chain", ON + "RewriteCond %{QUERY_STRING} a\nRewriteCond %{QUERY_STRING} b [OR]\nRewriteCond %{QUERY_STRING} c [OR]\nRewriteCond %{QUERY_STRING} d\n"
     "RewriteRule ^x$ a.html", "x?ab", "x?ac", "x?ad", "x?b", "x?a")
case("cond-nc-negated", ON + "RewriteCond %{HTTP_USER_AGENT} !good [NC]\nRewriteRule . - [F]", ("a.html", agent("GOOD")), ("a.html", agent("bad")))
case("cond-groups", ON + "RewriteCond %{QUERY_STRING} (\\w)=(\\w)\nRewriteCond %1%2 ^(..)$\nRewriteRule ^(x)$ show.php?r=$1-%1-%2-%0-$0 [L]", "x?a=b", "x")
case("cond-backref-in-test", ON + "RewriteCond %{HTTP_HOST}#%{HTTP:X-One} ^([^#]*)#\\1$\nRewriteRule ^x$ a.html", ("x", {"X-One": "example.test"}), ("x", {"X-One": "y"}))
case("cond-expr", ON + "RewriteCond expr \"%{REQUEST_URI} =~ m#/x(.)$# && %{REQUEST_METHOD} == 'GET'\"\nRewriteRule . a.html [L]", "x1", "y1", ("x1", {}, "POST"))
case("cond-rule-group", ON + "RewriteCond $1 ^b\nRewriteRule ^(.*)\\.x$ $1.html\nRewriteCond ROOTBASE/$1.html -f\nRewriteRule ^(.*)\\.h$ $1.html", "a.x", "b.x", "a.h", "zz.h")
case("cond-invalid", ON + "RewriteCond %{QUERY_STRING}\nRewriteRule . - [F]", "a.html")
case("cond-vary", ON + "RewriteCond %{HTTP_USER_AGENT} phone\nRewriteRule ^a\\.html$ - [E=XA:1]\nRewriteCond %{HTTP:X-One} 1 [NV]\nRewriteRule . - [E=XB:1]",
     ("a.html", agent("phone")), ("a.html", agent("desk")), ("show.php", {"X-One": "1"}))

# --- Redirect
case("redirect", "Redirect BASE/one http://o.test/two\nRedirect 301 BASE/p BASE/q\nRedirect permanent BASE/three /x\nRedirect seeother BASE/four /x\nRedirect gone BASE/five\n"
     "Redirect 410 BASE/six\nRedirect 404 BASE/seven\nRedirect temp BASE/eight /x\nRedirectPermanent BASE/nine /x\nRedirectTemp BASE/ten http://o.test/x?y=1",
     "one", "one/a%20b", "one?x=1", "onemore", "p/q/r", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "ten?z")  # fmt: skip
case("redirect-match", "RedirectMatch ^BASE/(\\d+)$ http://o.test/n/$1\nRedirectMatch 301 \\.gif$ BASE/x.png\nRedirectMatch 404 secret\nRedirectMatch gone old(er)?$\n"
     "RedirectMatch 301 /a(.*)b$ http://o.test/$1?q=$1", "12", "x.gif", "secret/x", "older", "a%25&b", "12?x=y")  # fmt: skip
case("redirect-invalid", "Redirect 301 nopath http://o.test/", "a.html")
case("redirect-and-rewrite", ON + "RewriteRule . show.php?u [L]\nRedirect 301 BASE/old http://o.test/new", "old", "other")

# --- access
case("deny-all", "Order deny,allow\nDeny from all", *HIDE)
case("deny-all-2", "Order allow,deny\nDeny from all", *HIDE)
case("allow-deny-empty", "Order allow,deny", "a.html")
case("deny-allow-empty", "Order deny,allow", "a.html")
case("allow-here", "Order deny,allow\nDeny from all\nAllow from 127.0.0.1", "a.html")
case("allow-elsewhere", "Order deny,allow\nDeny from all\nAllow from 10.0.0.0/8 192.168", "a.html")
case("allow-part", "Order deny,allow\nDeny from all\nAllow from 127", "a.html")
case("allow-mask", "Order allow,deny\nAllow from 127.0.0.0/255.0.0.0", "a.html")
case("deny-wins", "Order allow,deny\nAllow from all\nDeny from 127.0.0.1", "a.html")
case("mutual", "Order mutual-failure\nAllow from 127.0.0.1", "a.html")
case("deny-env", "SetEnvIf User-Agent bad is_bad\nOrder allow,deny\nAllow from all\nDeny from env=is_bad", ("a.html", agent("bad")), ("a.html", agent("x")))
case("allow-not-env", "SetEnvIf User-Agent bad is_bad\nOrder deny,allow\nDeny from all\nAllow from env=!is_bad", ("a.html", agent("bad")), ("a.html", agent("x")))
case("order-invalid", "Order sideways", "a.html")
case("deny-invalid", "Deny all", "a.html")
case("require-denied", "Require all denied", *HIDE)
case("require-granted", "Require all granted", "a.html")
case("require-ip", "Require ip 127.0.0.1", "a.html")
case("require-ip-not-here", "Require ip 10.1 192.168.0.0/16 2001:db8::/32", "a.html")
case("require-any", "Require ip 10.1\nRequire ip 127", "a.html")
case("require-not", "<RequireAll>\nRequire all granted\nRequire not ip 127.0.0.1\n</RequireAll>", "a.html")
case("require-not-alone", "Require not ip 10.0.0.1", "a.html")
case("require-local", "Require local", "a.html")
case("require-method", "Require method GET", "a.html", ("a.html", {}, "HEAD"), ("show.php", {}, "POST"))
case("require-env", "SetEnvIf User-Agent good ok\nRequire env ok", ("a.html", agent("good")), ("a.html", agent("x")))
case("require-expr", "Require expr %{HTTP_USER_AGENT} =~ /good/", ("a.html", agent("good")), ("a.html", agent("x")))
case("require-none", "<RequireAll>\nRequire all granted\n<RequireNone>\nRequire ip 10.0.0.1\nRequire env none\n</RequireNone>\n</RequireAll>", "a.html")
case("require-not-beside", "Require all granted\nRequire not ip 10.0.0.1", "a.html")
case("require-none-beside", "Require all granted\n<RequireNone>\nRequire ip 10.0.0.1\n</RequireNone>", "a.html")
case("require-all-empty", "<RequireAll>\n<RequireAny>\n</RequireAny>\nRequire all granted\n</RequireAll>", "a.html")
case("require-all-negative", "<RequireAny>\nRequire all granted\n<RequireAll>\nRequire not ip 10.0.0.1\nRequire not env X\n</RequireAll>\n</RequireAny>", "a.html")
case("require-nested", "<RequireAny>\n<RequireAll>\nRequire ip 10\nRequire method GET\n</RequireAll>\n<RequireAll>\nRequire ip 127\nRequire method POST\n</RequireAll>\n"
     "</RequireAny>", "show.php", ("show.php", {}, "POST"))
case("require-invalid", "Require", "a.html")
case("require-child", "Require all denied", "a.html", "sub/b.html", sub___dot_htaccess="Require all granted")
case("deny-child", "Deny from all", "a.html", "sub/b.html", sub___dot_htaccess="Allow from all")
case("mixed-deny-wins", "Require all granted\nOrder deny,allow\nDeny from all", "a.html")
case("satisfy-any-address", "AuthType Basic\nAuthName x\nAuthUserFile ROOT/../users\nRequire valid-user\nOrder deny,allow\nDeny from all\nAllow from 127.0.0.1\nSatisfy Any", "a.html")
case("limit", "<Limit POST>\nRequire all denied\n</Limit>", "show.php", ("show.php", {}, "POST"), ("show.php", {}, "HEAD"))
case("limit-get", "<Limit GET>\nDeny from all\n</Limit>", "show.php", ("show.php", {}, "HEAD"), ("show.php", {}, "POST"))
case("limit-except", "<LimitExcept GET>\nRequire all denied\n</LimitExcept>", "show.php", ("show.php", {}, "POST"))
case("limit-body", "LimitRequestBody 10", "show.php")
case("ssl-required", "SSLRequireSSL", "a.html")

# --- authentication
AUTH = 'AuthType Basic\nAuthName "The \'realm\' here"\nAuthUserFile ROOT/../users\n'


def basic(user, password):
    import base64

    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


WHO = [("show.php", basic(user, word)) for user in ("bcrypt", "apr1", "sha1", "nobody") for word in ("secret", "wrong")]
case("auth", AUTH + "Require valid-user", "show.php", "a.html", *WHO, ("show.php", {"Authorization": "Basic ???"}), ("show.php", {"Authorization": "Bearer x"}))
case("auth-provider", AUTH + "AuthBasicProvider file\nAuthBasicAuthoritative On\nRequire valid-user", "show.php", *WHO[:2])
case("auth-user", AUTH + "Require user apr1 sha1", *WHO)
case("auth-group", AUTH + "AuthGroupFile ROOT/../groups\nRequire group staff", *WHO)
case("auth-files", AUTH + "<Files show.php>\nRequire valid-user\n</Files>", "show.php", "a.html", *WHO[:2])
case("auth-or-ip", AUTH + "Require ip 127\nRequire valid-user", "show.php")
case("auth-and-ip", AUTH + "<RequireAll>\nRequire ip 127\nRequire valid-user\n</RequireAll>", "show.php", *WHO[:2])
case("auth-no-file", "AuthType Basic\nAuthName x\nAuthUserFile ROOT/../none\nRequire valid-user", "show.php", *WHO[:1])
case("auth-page", AUTH + "Require valid-user\nErrorDocument 401 \"who are you\"", "show.php")
case("auth-merging", AUTH + "AuthMerging Off\nRequire valid-user", "show.php", *WHO[:1])

# --- sections
case("files", "<Files secret.txt>\nRequire all denied\n</Files>\n<Files *.css>\nRequire all denied\n</Files>\n<Files ~ \"\\.(xml|h)$\">\nRequire all denied\n</Files>",
     "secret.txt", "a.css", "a.xml", "a.html", "sub/secret.txt", "none.css", secret_dot_txt="s", a_dot_xml="<x/>", sub__secret_dot_txt="s")
case("files-match", '<FilesMatch "^(secret.*|.*\\.(css|log))$">\nOrder allow,deny\nDeny from all\n</FilesMatch>', "secret.txt", "a.css", "a.html", secret_dot_txt="s")
case("files-child", "<Files b.html>\nRequire all denied\n</Files>", "sub/b.html", sub___dot_htaccess="Require all granted")
case("files-header", '<FilesMatch "\\.html$">\nHeader set X-A files\n</FilesMatch>\nHeader set X-A plain', "a.html", "a.css")
case("if-module", "<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteRule ^x$ a.html\n</IfModule>\n<IfModule !mod_rewrite.c>\nDeny from all\n</IfModule>\n"
     "<IfModule mod_none.c>\nDeny from all\n</IfModule>\n<IfModule authz_core_module>\n<IfModule headers_module>\nHeader set X-A 1\n</IfModule>\n</IfModule>", "x", "a.html")
case("if-version", "<IfVersion >= 2.4>\nHeader set X-A new\n</IfVersion>\n<IfVersion < 2.4>\nDeny from all\n</IfVersion>\n<IfVersion 2.4>\nHeader set X-B same\n</IfVersion>", "a.html")
case("if-define", "<IfDefine NOTHING>\nDeny from all\n</IfDefine>\n<IfDefine !NOTHING>\nHeader set X-A 1\n</IfDefine>", "a.html")
case("if-directive", "<IfDirective Header>\nHeader set X-A 1\n</IfDirective>\n<IfDirective NoSuch>\nDeny from all\n</IfDirective>", "a.html")
case("if-section", "<IfSection Files>\nHeader set X-A 1\n</IfSection>\n<IfSection NoSuch>\nDeny from all\n</IfSection>", "a.html")
case("if", "<If \"%{REQUEST_URI} =~ m#/a\\.html$#\">\nHeader set X-A if\n</If>\n<ElseIf \"%{QUERY_STRING} == 'x'\">\nHeader set X-A elseif\n</ElseIf>\n<Else>\nHeader set X-A else\n</Else>",
     "a.html", "a.css?x", "a.css")
IFS = ["%{HTTP_HOST} == 'example.test'", "%{HTTP_HOST} != 'example.test'", "-f '%{REQUEST_FILENAME}'", "-d '%{REQUEST_FILENAME}'", "-n %{QUERY_STRING}", "-z %{QUERY_STRING}",
       "%{REMOTE_ADDR} -ipmatch '127.0.0.0/8'", "-R '10.0.0.0/8'", "%{REQUEST_METHOD} in {'GET', 'HEAD'}", "tolower(%{HTTP_USER_AGENT}) == 'agent'",
       "%{HTTP_USER_AGENT} -strmatch 'Ag*'", "%{HTTP_USER_AGENT} -strcmatch 'ag*'", "%{HTTP_USER_AGENT} =~ /agent/i", "%{HTTP_USER_AGENT} !~ /agent/", "! (1 -eq 2) && true",
       "false || 2 -gt 1", "req('X-One') == 'one'", "%{HTTP:X-One} eq 1", "'abc' < 'abd'", "%{HTTPS} == 'on'", "-T 'off'", "reqenv('XNONE') == ''", "%{QUERY_STRING} =~ /^(.)b/ && $1 == 'a'",
       "%{tolower:ABC} == 'abc'", "toupper('a') == 'A'"]  # fmt: skip
for NUMBER, TEXT in enumerate(IFS):
    QUOTE = TEXT.replace('"', '\\"')
    case(f"if-{NUMBER:02}", f'<If "{QUOTE}">\nHeader set X-A yes\n</If>\n<Else>\nHeader set X-A no\n</Else>',
         ("a.html", {"User-Agent": "Agent", "X-One": "one"}), ("a.html?abc", agent("other")))
case("unclosed", "<Files x>\nRequire all denied", "a.html")
case("stray", "</Files>", "a.html")
case("not-here", "<Directory />\n</Directory>", "a.html")
case("rewrite-map", "RewriteMap x txt:/x", "a.html")
case("rewrite-log", "RewriteLog /x", "a.html")
case("continuation", "Header set X-A \\\n one\n# comment \\\nHeader set X-B no\n  Header   set   X-C   'a \"b\"'  ", "a.html")

# --- header fields
case("header", "Header set X-A one\nHeader append X-A two\nHeader merge X-A two\nHeader merge X-A three\nHeader add X-B one\nHeader add X-B two\nHeader set X-C gone\n"
     "Header unset X-C\nHeader setifempty X-D d\nHeader setifempty X-A no\nHeader edit X-A o(.)e 0$1\nHeader edit* X-B o 0\nHeader set X-E \"100%% %{XV}e %{REQUEST_METHOD}s\"\n"
     "SetEnvIf Request_URI . XV=set", "a.html", "show.php", "none.html")  # fmt: skip
case("header-always", "Header always set X-A always\nHeader onsuccess set X-B success\nHeader set X-C plain\nHeader set X-A both", "a.html", "none", "show.php?status=404", "sub")
case("header-script", "Header set X-From-Script rule\nHeader unset X-Script-Only\nHeader edit Set-Cookie ^(.*)$ $1;Secure\nHeader append X-List b", "show.php?fields=1")
case("header-env", "SetEnvIf User-Agent phone XP\nHeader set X-A phone env=XP\nHeader set X-B desk env=!XP\nHeader set X-C e \"expr=%{QUERY_STRING} == 'q'\"",
     ("a.html", agent("phone")), ("a.html", agent("x")), "a.html?q")
case("path-info-on", "AcceptPathInfo On", "a.html/more", "a.txt/x/y", "show.php/more", "none/x")
case("path-info-off", "AcceptPathInfo Off", "a.html/more", "show.php/more", "show.php")
case("path-info-default", "AcceptPathInfo Default", "a.html/more", "show.php/more")
case("flag-pt-last", ON + "RewriteRule ^x$ a.html [PT]\nRewriteRule . a.txt", "x")
case("index-rules", ON + "RewriteRule ^index\\.php$ - [R=403]\n<Files index.php>\nSetEnv XA 1\n</Files>\nSetEnvIf Request_URI index XB", "", "index.php")
case("index-is-folder", "DirectoryIndex ./ sub/ a.txt", "")
case("index-refused", "DirectoryIndex none.html index.php a.txt\n<Files index.php>\nRequire all denied\n</Files>", "")
case("index-gone", ON + "RewriteRule ^index\\.html$ - [G]", "sub/", "sub/index.html", "")
case("satisfy-inner", "Require env XX\nSatisfy any\nOrder deny,allow", "a.html", "sub/b.html", sub___dot_htaccess="Deny from env=X")
case("satisfy-by-method", "Require env XX\n<Limit POST>\nSatisfy any\n</Limit>", "show.php", ("show.php", {}, "POST"))
case("flag-pt-end", ON + "RewriteRule ^x$ y [PT,END]\nRewriteRule ^y$ a.html", "x")
case("redirect-with-space", ON + "RewriteRule ^(.*)$ http://o.test/?u=$1 [R,NE,L]", "a%20b", "a")
case("forced-type-charset", "ForceType text/plain\nAddCharset iso-8859-1 .html", "a.html")
case("satisfy-alone", "Satisfy any\nRequire all denied", "a.html")
case("limit-within", "<Limit GET POST>\n<Limit GET>\nRequire all denied\n</Limit>\n</Limit>", "a.html", ("show.php", {}, "POST"))
case("limit-nothing-left", "<Limit GET>\n<Limit POST>\nRequire all denied\n</Limit>\n</Limit>", "a.html")
case("limit-files", "<Limit GET>\n<Files a.html>\nRequire all denied\n</Files>\n</Limit>", "a.txt")
case("limit-head", "<Limit HEAD>\nRequire all denied\n</Limit>", "a.html", ("a.html", {}, "HEAD"))
case("limit-trace", "<Limit GET TRACE>\nRequire all granted\n</Limit>", "a.html")
case("limit-unknown", "<Limit get>\nRequire all granted\n</Limit>", "a.html")
case("rules-in-files", "<Files show.php>\n" + ON + "RewriteRule ^show - [E=XA:1]\nRewriteRule show\\.php$ - [E=XB:1]\n</Files>", "show.php")
case("rules-in-if", "<If \"true\">\n" + ON + "RewriteRule x$ a.txt\nRewriteRule a\\.html$ BASE/a.txt\n</If>", "a.html", "x")
case("files-in-files", "<Files a.html>\n<Files *.html>\nHeader set X-A 1\n</Files>\n<If \"true\">\nHeader set X-B 1\n</If>\n</Files>", "a.html")
case("base-of-outer-folder", ON + "RewriteBase BASE/\nRewriteRule ^sub/x$ BASE/sub/y", "sub/x", "sub/y",
     sub___dot_htaccess=ON + "RewriteRule ^y$ b.html [L]\nRewriteRule ^z$ http://o.test/ [R,L]")
case("base-merged", ON + "RewriteBase BASE/other", "sub/x", sub___dot_htaccess=ON + "RewriteOptions MergeBase\nRewriteRule ^x$ y [R,L]")
case("cond-compare-nocase", ON + "RewriteCond abc <b [NC]\nRewriteRule ^x$ a.html\nRewriteCond abc <b\nRewriteRule ^y$ a.html\nRewriteCond abc >b [NC]\nRewriteRule ^z$ a.html", "x", "y", "z")
case("cond-literal", ON + "RewriteCond %{HTTP_HOST} !=%{HTTP_HOST}\nRewriteRule ^x$ a.html\nRewriteCond a=b =\nRewriteRule ^y$ a.html\nRewriteCond ab !=\nRewriteRule ^z$ a.html", "x", "y", "z")
case("flags-with-space", ON + "RewriteRule ^x$ a.html [L, QSA]", "x")
case("fragment", ON + "RewriteRule ^x$ BASE/show.php?u=1#f [L]\nRewriteRule ^y$ BASE/a.html#f", "x", "y")
case("qsa-ampersand", ON + "RewriteRule ^x$ show.php?v=1& [L,QSA]\nRewriteRule ^y$ show.php?v=1&", "x", "x?a=1", "y")
case("request-header-twice", "RequestHeader append X-Test two\n" + ON + "RewriteRule ^x$ show.php", ("x", {"X-Test": "one"}), "show.php")
case("fallback", "FallbackResource BASE/index.php", "none", "none/x?y=1", "a.html", "sub", "sub/", "sub/none.html", "none.php", "index.php/x", "a.html/x", "")
case("fallback-disabled", "FallbackResource BASE/show.php", "x", "sub/x", sub___dot_htaccess="FallbackResource disabled")
case("fallback-missing", "FallbackResource BASE/none.php\nErrorDocument 404 gone", "x")
case("fallback-relative", "FallbackResource show.php", "x", "sub/x")
case("fallback-refused", "FallbackResource BASE/show.php\n<Files show.php>\nRequire all denied\n</Files>", "x")
case("fallback-rules", ON + "RewriteRule ^old$ BASE/other [R,L]\nRewriteRule ^in$ BASE/nothing\nFallbackResource BASE/show.php", "old", "in?a=1", "x?a=1")
case("flag-b-parts", ON + "RewriteRule ^a/(.*)$ show.php?v=$1 [B,BNE=/:]\nRewriteRule ^b/(.*)$ show.php?v=$1 [BCTLS]\nRewriteRule ^c/(.*)$ show.php?v=$1 [B=#;/]", "a/x/y:z;w", "b/x%20y;z", "c/x%23y;z/w", "b/x%09y")
# --- what expressions keep from the last match, and where stars end
case("if-groups", "".join(f"<If \"{test}\">\nHeader set X-{name} yes\n</If>\n" for name, test in [
    ("Kept", "%{QUERY_STRING} =~ /^(a)/ && %{QUERY_STRING} =~ /b/ && '$1' == 'a'"), ("None", "%{QUERY_STRING} =~ /b/ && '$0' == 'b'"), ("Empty", "%{QUERY_STRING} =~ /b/ && -z '$0'"),
    ("Lost", "(%{QUERY_STRING} =~ /^(a)/ || true) && (%{QUERY_STRING} =~ /(z)/ || true) && '$1' == 'a'"), ("Not", "%{QUERY_STRING} !~ /(z)/ && '$1' == ''"), ("Whole", "%{QUERY_STRING} =~ /(b)c/ && '$0$1' == 'bcb'")]),
     "a.html?ab", "a.html?abc", "a.html?b", "a.html?z", "a.html")  # fmt: skip
case("if-globs", "".join(f"<If \"%{{QUERY_STRING}} {test}\">\nHeader set X-{name} yes\n</If>\n" for name, test in [
    ("File", "-fnmatch '/a*c'"), ("Text", "-strmatch '/a*c'"), ("Case", "-strcmatch '/A*C'"), ("One", "-fnmatch '/a?c'"), ("Set", "-fnmatch '/a[!x]c'"), ("Two", "-fnmatch '/a*/*c'"), ("Open", "-fnmatch '/a[/]c'"), ("Range", "-fnmatch '/a[.-0]c'"),
    ("End", "-fnmatch '/a*'"), ("Escape", "-fnmatch '/a\\\\*c'"), ("Stars", "-fnmatch '**c'"), ("Shut", "-fnmatch '/a*[/]c'"), ("Unclosed", "-fnmatch '/a[c'")]),
     *[f"a.html?{q}" for q in ("/abc", "/a/c", "/ac", "/a/b/c", "/a*c", "/a[/]c", "/a[c", "/ab/bc", "/a.c", "/a")])  # fmt: skip
case("cond-expr-groups", ON + "RewriteCond expr \"%{QUERY_STRING} =~ m#^k=(..)#\"\nRewriteRule ^x$ show.php?v=%1 [L]\n"
     "RewriteCond %{QUERY_STRING} ^j=(.)\nRewriteCond expr \"%{QUERY_STRING} =~ /(i)=(.)/\"\nRewriteRule ^y$ show.php?v=%1%2 [L]\n"
     "RewriteCond %{QUERY_STRING} ^j=(.)\nRewriteCond expr \"! %{QUERY_STRING} =~ /(n)=(.)/\"\nRewriteRule ^z$ show.php?v=%1 [L]\n"
     "RewriteCond %{QUERY_STRING} ^j=(.)\nRewriteCond !expr \"%{QUERY_STRING} =~ /(n)=(.)/\"\nRewriteRule ^w$ show.php?v=%1 [L]\n"
     # An expression without groups leaves %1 undefined in Apache.
     "RewriteCond expr \"%{QUERY_STRING} =~ /(j)=/ && %{QUERY_STRING} =~ /=/\"\nRewriteRule ^u$ show.php?v=%1 [L]",
     "x?k=ab", "x?k=a", "y?j=1&i=2", "y?j=1", "z?j=1", "z?j=1&n=2", "w?j=1", "w?j=1&n=2", "u?j=1")  # fmt: skip
case("header-response", "Header set X-A \"missing\" \"expr=%{REQUEST_STATUS} == 404\"\nHeader always set X-B page \"expr=%{CONTENT_TYPE} =~ m#text/html#\"\n"
     "Header set X-C \"expr=%{resp:X-From-Script}%{resp:Content-Type} %{tolower:ABC}\"", "a.html", "a.css", "none.html", "show.php?status=404", "show.php?fields=1")  # fmt: skip
case("header-value-expr", "Header set X-A \"expr=%{REQUEST_URI}?%{QUERY_STRING}\"\nHeader set X-B \"expr=%{base64:%{QUERY_STRING}} %{unbase64:YWI=} %{unescape:a%20b}\"\n"
     "Header append X-C \"expr=%{md5:a}\"\nHeader merge X-C \"expr=%{sha1:a}\"\nHeader edit X-From-Script ^(.)cript \"$1%{XE}e\"\nSetEnvIf Request_URI php XE=e", "a.html?x=1", "show.php?fields=1")  # fmt: skip
case("header-echo", "Header echo ^X-Te\nHeader always echo X-Other\nHeader note X-A noted", ("a.html", {"X-Test": "1", "X-Tea": "2", "X-Other": "3"}), ("none", {"X-Test": "1", "X-Other": "3"}))
case("header-invalid", "Header paint X-A red", "a.html")
case("header-early", "Header set X-A red early", "a.html")
case("header-type", "Header set Content-Type text/x-a", "a.html", "show.php")
case("header-rewritten", ON + "RewriteRule ^x$ a.html\nRewriteRule ^y$ http://o.test/ [R]\nHeader set X-A 1\nHeader always set X-B 1", "x", "y")
case("request-header", "RequestHeader set X-One rule\nRequestHeader append X-Two more\nRequestHeader unset X-Three\nRequestHeader add X-Four 4\nRequestHeader setifempty X-Five 5\n"
     "RequestHeader edit X-Six a b\nRequestHeader set X-Seven %{REMOTE_ADDR}s",
     ("show.php", {"X-One": "1", "X-Two": "2", "X-Three": "3", "X-Six": "aa"}), "show.php")  # fmt: skip
case("cookie-flags", "Header always edit Set-Cookie (.*) \"$1; HttpOnly\"\nHeader edit Set-Cookie ^(.*)$ \"$1; SameSite=Lax\"", "show.php?fields=1")

# --- environment
case("header-env-empty", "SetEnv XE\nSetEnvIf Request_URI . XZ=\nHeader set X-A one env=XE\nHeader set X-B two env=!XE\nHeader set X-C three env=XZ\nRequestHeader set X-D four env=XZ\nRequestHeader set X-E five env=!XZ",
     "a.html", "show.php")  # fmt: skip
case("set-env", "SetEnv XA one\nSetEnv XB\nSetEnv XC \"two words\"\nUnsetEnv XD", "show.php", "sub/show.php", sub___dot_htaccess="SetEnv XA inner\nUnsetEnv XC")
case("set-env-if", "SetEnvIf User-Agent ^(A)(.*) XA=$1-$2 XB !XNONE\nSetEnvIf Remote_Addr ^127 XC\nSetEnvIf Request_URI show XD=uri\nSetEnvIf Request_Method GET XE\n"
     "SetEnvIf Request_Protocol HTTP/1 XF\nSetEnvIf XD uri XG=chained\nSetEnvIfNoCase User-Agent agent XH\nSetEnvIf Server_Addr . XI\nSetEnvIf ^X-O.* one XJ\nSetEnvIf User-Agent . !XB",
     ("show.php", {"User-Agent": "Agent/1", "X-One": "one"}), ("show.php", {}, "POST"))  # fmt: skip
case("set-env-if-expr", "SetEnvIfExpr \"%{QUERY_STRING} == 'a'\" XA=yes", "show.php?a", "show.php?b")
case("set-env-if-expr-groups", "SetEnvIfExpr \"%{QUERY_STRING} =~ /(a)(b?)=(.)/\" XA=$1-$2-$3 XB=$0\nSetEnvIfExpr \"%{QUERY_STRING} =~ /(q)/ && %{REQUEST_METHOD} =~ /GET/\" XC=$1",
     "show.php?ab=7", "show.php?a=7", "show.php?q")  # fmt: skip
case("browser-match", "BrowserMatch ^Mozilla XA=moz\nBrowserMatchNoCase PHONE XB", ("show.php", agent("Mozilla phone")), ("show.php", agent("x")))
case("env-redirect", ON + "SetEnv XS set\nSetEnvIf Request_URI ^BASE/go XI=first\nRewriteRule ^go$ show.php [E=XR:rule]", "go?x=1")
case("env-order", ON + "SetEnv XA late\nRewriteCond %{ENV:XA} late\nRewriteRule ^show - [E=XB:seen]", "show.php")

# --- expiry
case("expires", "ExpiresActive On\nExpiresDefault \"access plus 1 hour\"\nExpiresByType text/css A60\nExpiresByType text/plain \"modification plus 2 days\"\n"
     "ExpiresByType text/html \"access plus 1 month 2 days\"", "a.html", "a.css", "a.txt", "show.php", "show.php?fields=1", "none")  # fmt: skip
case("expires-header", "ExpiresActive On\nExpiresDefault A60\nHeader append Cache-Control public", "a.css")
case("expires-off", "ExpiresActive Off\nExpiresDefault A60", "show.php")
case("expires-invalid", "ExpiresActive On\nExpiresDefault tomorrow", "a.css")
case("expires-redirect", "ExpiresActive On\nExpiresDefault \"access plus 1 hour\"\nExpiresByType text/html A60\nRedirect BASE/old http://o.test/\n" + ON + "RewriteRule ^r$ BASE/a.html [R=301]",
     "old", "r", "sub", "none")  # fmt: skip
case("expires-child", "ExpiresActive On\nExpiresByType text/html A60", "sub/b.html", sub___dot_htaccess="ExpiresByType text/html A120")

# --- media types
case("add-type", "AddType text/x-new .new\nAddType text/x-html html\nAddType image/x-two a b", "x.new", "a.html", "x.a", "x.b.new", x_dot_new="n", x_dot_a="a", x_dot_b_dot_new="n")
case("force-type", "ForceType text/x-forced", "a.html", "a.css", "sub/b.html", sub___dot_htaccess="ForceType None")
case("remove-type", "AddType text/x-html html", "sub/b.html", "a.html", sub___dot_htaccess="RemoveType html")
case("charset", "AddCharset utf-8 .css .html\nAddDefaultCharset iso-8859-15", "a.html", "a.css", "a.txt", "show.php", sub___dot_htaccess="RemoveCharset .html")
case("default-charset-off", "AddDefaultCharset Off", "a.html")
case("default-charset", "AddDefaultCharset utf-8", "a.html", "a.txt", "a.css")
case("encoding", "AddEncoding x-gzip .tgz\nAddType application/x-tar .tgz\nAddLanguage fr .fr", "x.tgz", "a.fr.html", x_dot_tgz="z", a_dot_fr_dot_html="fr")
case("remove-encoding", "RemoveEncoding .zz\nRemoveLanguage .zz\nRemoveCharset .zz", "a.html")
case("etag", "FileETag None", "a.html")

# --- folders, error pages
case("index", "DirectoryIndex first.html show.php", "", "sub/", "?x=1")
case("index-two-lines", "DirectoryIndex none.html\nDirectoryIndex a.html", "")
case("index-url", "DirectoryIndex none.html BASE/a.html", "", "sub/")
case("index-disabled", "DirectoryIndex disabled", "")
case("index-denied", "<Files index.php>\nRequire all denied\n</Files>", "", "index.php")
case("error-text", 'ErrorDocument 404 "not here\nErrorDocument 403 "no, \'never\'"\nRewriteEngine On\nRewriteRule ^f - [F]', "none", "f")
case("error-path", "ErrorDocument 404 BASE/show.php?e=1\nErrorDocument 410 BASE/a.html\nRedirect gone BASE/old", "none?x=1", "old", "none.php", ("none", {}, "POST"))
case("error-url", "ErrorDocument 404 http://o.test/missing", "none")
case("error-default", "ErrorDocument 404 text\n", "none", "sub/none", sub___dot_htaccess="ErrorDocument 404 default")
case("error-denied", "ErrorDocument 403 BASE/sub/b.html\nRequire all denied", "a.html", sub___dot_htaccess="Require all granted")
case("error-loop", "ErrorDocument 403 BASE/a.html\nRequire all denied", "a.html")
case("error-missing", "ErrorDocument 404 BASE/nothere.html", "none")
case("error-script", "ErrorDocument 404 \"own text\"", "show.php?status=404")

# --- handlers and PHP
case("php-off", "php_flag engine off", "show.php", "a.html")
case("handler-none", "<FilesMatch \\.php$>\nSetHandler none\n</FilesMatch>", "show.php", "a.html")
case("handler-cgi", "Options -ExecCGI\nAddHandler cgi-script .php .pl .py", "show.php", "a.html")
case("remove-handler", "RemoveHandler .php .phtml", "a.html")
case("php-value", "php_value memory_limit 64M\nphp_flag display_errors off", "show.php")
case("handler-php", "<FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n</FilesMatch>", "show.php")

case("php-value-prepend", "php_value auto_prepend_file none", "show.php")

# --- directives without an effect here, or in both
case("nothing", """Options -Indexes +FollowSymLinks
ServerSignature Off
DirectorySlash On
AddOutputFilterByType DEFLATE text/html
AddOutputFilter DEFLATE css
SetOutputFilter DEFLATE
SetInputFilter DEFLATE
FilterDeclare X
FilterProvider X DEFLATE "%{CONTENT_TYPE} =~ m#text#"
FilterProtocol X change=yes
FilterChain X
EnableSendfile Off
EnableMMAP Off
DefaultType None
DefaultLanguage en
LanguagePriority en
ForceLanguagePriority Fallback
IndexOptions FancyIndexing
IndexIgnore *.x
AddIcon /x.gif .x
AddIconByType /x.gif text/x
AddDescription x *.x
HeaderName HEAD.html
ReadmeName README.html
IndexStyleSheet /x.css
""", "a.txt", "sub")
case("no-listing", "Options -Indexes", "sub/", "sub")
case("litespeed", """<IfModule LiteSpeed>
RewriteEngine on
CacheLookup on
CacheKeyModify -qs:fbclid
RewriteRule .* - [E=Cache-Control:no-autoflush]
</IfModule>
RewriteEngine On
RewriteRule ^x$ a.html [L]
""", "a.html", "x")
case("wordpress", """# BEGIN WordPress
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase BASE/
RewriteRule ^index\\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . BASE/index.php [L]
</IfModule>
# END WordPress
""", "", "a.html", "post/name/", "feed/?x=1", "sub/", "index.php", "wp-json/x", "none.php", ("post/", {"Authorization": "Bearer x"}))
case("wordpress-network", """RewriteEngine On
RewriteBase BASE/
RewriteRule ^index\\.php$ - [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?wp-admin$ $1wp-admin/ [R=301,L]
RewriteCond %{REQUEST_FILENAME} -f [OR]
RewriteCond %{REQUEST_FILENAME} -d
RewriteRule ^ - [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?(wp-(content|admin|includes).*) $2 [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?(.*\\.php)$ $2 [L]
RewriteRule . index.php [L]
""", "", "two/wp-admin", "two/show.php?x=1", "two/page/", "two/wp-content/x.css", "wp-admin", wp_content="", **{"wp-content__x_dot_css": "x"})
case("drupal", """<FilesMatch "\\.(engine|inc|module|yml|sh|.*sql)$|^(\\..*|composer\\.(json|lock))$">
  <IfModule mod_authz_core.c>
    Require all denied
  </IfModule>
  <IfModule !mod_authz_core.c>
    Order allow,deny
  </IfModule>
</FilesMatch>
Options -Indexes
DirectoryIndex index.php index.html
AddType image/svg+xml svg svgz
AddEncoding gzip svgz
<IfModule mod_rewrite.c>
  RewriteEngine on
  RewriteRule ^ - [E=protossl]
  RewriteCond %{HTTPS} on
  RewriteRule ^ - [E=protossl:s]
  RewriteRule "/\\.|^\\.(?!well-known/)" - [F]
  RewriteCond %{REQUEST_URI} ^(.*)?/(install\\.php) [OR]
  RewriteCond %{REQUEST_URI} ^(.*)?/(rebuild\\.php)
  RewriteCond %{REQUEST_URI} !core
  RewriteRule ^ %1/core/%2 [L,QSA,R=301]
  RewriteCond %{REQUEST_FILENAME} !-f
  RewriteCond %{REQUEST_FILENAME} !-d
  RewriteCond %{REQUEST_URI} !=/favicon.ico
  RewriteRule ^ index.php [L]
</IfModule>
<IfModule mod_headers.c>
  Header always set X-Content-Type-Options nosniff
  Header unset Proxy early
</IfModule>
""".replace("  Header unset Proxy early\n", ""), "", "node/1?x=y", "install.php", "x.module", "composer.json", ".git/config", ".well-known/x", "i.svg", "a.html",
     x_dot_module="m", composer_dot_json="{}", i_dot_svg="<svg/>")  # fmt: skip
