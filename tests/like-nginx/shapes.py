"""The shapes of request that `run` sends to both servers: a flat table, by group.

A shape is a name and the bytes to send; `{port}` in them becomes the server's port. `method` is what decides how the answer
is framed. `answers` is how many answers come on the connection."""

from dataclasses import dataclass

SHAPES = []


@dataclass
class Shape:
    """One request shape."""

    name: str
    data: bytes
    method: str = "GET"
    answers: int = 1


def shape(name, target="/dump.php", method="GET", fields=(), body=None, host="example.test:{port}", version="1.1", close=True, answers=1):
    """Adds a well-formed request; a body gets its Content-Length unless the fields frame it."""
    lines = [f"{method} ".encode() + as_bytes(target) + f" HTTP/{version}".encode()]
    if host is not None:
        lines.append(f"Host: {host}".encode())
    lines += [as_bytes(f) for f in fields]
    if body is not None and not any(line.lower().startswith((b"content-length:", b"transfer-encoding:")) for line in lines):
        lines.append(f"Content-Length: {len(as_bytes(body))}".encode())
    if close:
        lines.append(b"Connection: close")
    SHAPES.append(Shape(name, b"\r\n".join(lines) + b"\r\n\r\n" + as_bytes(body or b""), method, answers))


def as_bytes(text):
    """Text as UTF-8; bytes as they are."""
    return text.encode() if isinstance(text, str) else text


def chunked(body, size, trailer=b""):
    """A body in the chunked coding, `size` bytes a chunk."""
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n" + trailer + b"\r\n"


def multipart(*parts):
    """A multipart/form-data body with the boundary `edge`: (disposition, further head lines, content) each."""
    body = b""
    for disposition, more, content in parts:
        head = [b"--edge", b"Content-Disposition: form-data; " + as_bytes(disposition), *map(as_bytes, more), b""]
        body += b"\r\n".join(head) + b"\r\n" + as_bytes(content) + b"\r\n"
    return body + b"--edge--\r\n"


FORM = "Content-Type: application/x-www-form-urlencoded"
MULTI = "Content-Type: multipart/form-data; boundary=edge"
JSON = "Content-Type: application/json"


def methods():
    shape("get")
    shape("head", method="HEAD")
    shape("post-empty", method="POST", body="")
    shape("post-no-length", method="POST")
    shape("put-json", method="PUT", fields=[JSON], body='{"a":1}')
    shape("patch-json", method="PATCH", fields=[JSON], body='{"a":2}')
    shape("delete", method="DELETE")
    shape("delete-body", method="DELETE", fields=[FORM], body="a=1")
    shape("options", method="OPTIONS")
    shape("options-star", "*", method="OPTIONS")
    shape("propfind", method="PROPFIND", fields=["Depth: 1", "Content-Type: text/xml"], body="<a/>")
    shape("purge", method="PURGE")
    shape("custom-method", method="FROB")
    shape("method-lower-case", method="get")
    shape("trace", method="TRACE")
    shape("get-with-body", fields=[FORM], body="a=1")
    shape("post-static", "/static.txt", method="POST", fields=[FORM], body="a=1")
    shape("post-front-controller", "/no/such/page", method="POST", fields=[FORM], body="a=1")


def queries():
    for name, query in {
        "empty": "?",
        "simple": "?a=1&b=2",
        "arrays": "?a[]=1&a[]=2&b[x][y]=3",
        "encoded": "?a=%20%2B%26%3D&b=c+d",
        "question-mark": "?a=1?b=2",
        "slashes": "?u=http://x.test/a//b",
        "valueless": "?a&b=&=c&&",
        "nul": "?a=%00b",
        "semicolon": "?a=1;b=2",
        "mangled-names": "?a.b=1&c%20d=2&e[=3",
        "repeated": "?a=1&a=2",
        "argv": "?one+two",
        "percent-bad": "?a=%zz%",
        "utf8-raw": "?a=caf\u00e9",
        "quotes": "?a='\"b\"<script>",
        "brackets": "?q[]={x}|y^z`",
        "long": "?a=" + "x" * 4000,
    }.items():
        shape(f"query-{name}", "/dump.php" + query)
    shape("query-latin1-raw", b"/dump.php?a=caf\xe9")
    shape("query-on-directory", "/?p=1")
    shape("query-on-front-controller", "/some/page/?p=1&q=a%20b")


def paths():
    for name, path in {
        "root": "/",
        "index": "/index.php",
        "index-slash": "/index.php/",
        "path-info": "/index.php/extra/path",
        "path-info-encoded": "/dump.php/a%2Fb%20c/%C3%A9",
        "path-info-plus": "/dump.php/a+b",
        "path-info-double-slash": "/dump.php/a//b",
        "path-info-php": "/dump.php/other.php",
        "path-info-dots": "/dump.php/a/../b",
        "path-info-query": "/dump.php/x/y?z=1",
        "directory-index": "/dir/",
        "directory-no-slash": "/dir",
        "directory-no-slash-query": "/dir?a=1",
        "directory-index-named": "/dir/index.php",
        "directory-without-index": "/empty/",
        "front-controller": "/2026/11/a-post/",
        "front-controller-encoded": "/caf%C3%A9/%E2%82%AC/",
        "front-controller-raw-utf8": "/caf\u00e9/",
        "front-controller-extension": "/robots.txt",
        "front-controller-deep-under-dir": "/dir/no/such",
        "script-with-space": "/a%20b.php",
        "encoded-letter": "/%64ump.php",
        "encoded-dot": "/dump%2Ephp",
        "double-slash": "//dump.php",
        "double-slash-dir": "/dir//index.php",
        "dot-segment": "/./dump.php",
        "dot-dot-segment": "/dir/../dump.php",
        "dot-dot-encoded": "/dir/%2e%2e/dump.php",
        "upper-case-extension": "/dump.PHP",
        "missing-script": "/missing.php",
        "missing-script-path-info": "/missing.php/x",
        "trailing-dot": "/dump.php.",
        "trailing-space": "/dump.php%20",
        "trailing-slash-on-file": "/static.txt/",
        "encoded-slash": "/dir%2Findex.php",
        "percent-encoded-percent": "/%2564ump.php",
        "picture-with-php": "/picture.jpg/x.php",
        "static-with-path": "/static.txt/x",
        "uploads-script": "/wp-content/uploads/upload.php",
        "uploads-script-path-info": "/wp-content/uploads/upload.php/x",
        "hidden-script": "/.hidden.php",
        "hidden-file": "/.secret",
        "well-known": "/.well-known/security.txt",
        "well-known-script": "/.well-known/known.php",
        "html": "/page.html",
        "static": "/static.txt",
        "semicolon-parameter": "/dump.php;jsessionid=1",
        "plus": "/a+b/",
        "colon": "/a:b",
        "tilde": "/~user/",
        "long": "/" + "a" * 3000,
    }.items():
        shape(f"path-{name}", path)


def hosts():
    shape("host-no-port", host="example.test")
    shape("host-other-port", host="example.test:8443")
    shape("host-upper-case", host="EXAMPLE.test:{port}")
    shape("host-alias", host="www.example.test")
    shape("host-unknown", host="unknown.test")
    shape("host-ipv4", host="127.0.0.1:{port}")
    shape("host-ipv6", host="[::1]:{port}")
    shape("host-trailing-dot", host="example.test.")
    shape("host-underscore", host="a_b.example.test")
    shape("absolute-form", "http://example.test:{port}/dump.php?x=1")
    shape("absolute-form-other-host", "http://target.test/dump.php", host="other.test")
    shape("absolute-form-other-port", "http://example.test:99/dump.php", host="example.test:{port}")
    shape("absolute-form-no-path", "http://example.test", host="example.test")
    shape("absolute-form-query-only", "http://example.test?a=1", host="example.test")
    shape("absolute-form-upper-scheme", "HTTP://example.test/dump.php", host="example.test")
    shape("absolute-form-https", "https://example.test/dump.php", host="example.test")
    shape("redirect-keeps-host", "/dir", host="example.test:8443")
    shape("redirect-unknown-host", "/dir", host="unknown.test")


def fields():
    for name, lines in {
        "forwarded-for": ["X-Forwarded-For: 1.2.3.4, 5.6.7.8"],
        "forwarded-proto": ["X-Forwarded-Proto: https"],
        "forwarded-host": ["X-Forwarded-Host: evil.test", "X-Forwarded-Port: 443"],
        "forwarded": ["Forwarded: for=1.2.3.4;proto=https"],
        "real-ip": ["X-Real-IP: 1.2.3.4", "Client-IP: 1.2.3.4"],
        "proxy": ["Proxy: http://evil.test/"],
        "proxy-case": ["PROXY: http://evil.test/"],
        "https-header": ["HTTPS: on", "X-HTTPS: 1"],
        "content-header-spoof": ["Content: x", "Content-Foo: bar"],
        "underscore": ["X_Under: 1"],
        "underscore-and-dash": ["X-Two-Ways: dash", "X_Two_Ways: underscore"],
        "script-filename-spoof": ["SCRIPT_FILENAME: /etc/passwd", "Script-Filename: /etc/passwd"],
        "remote-addr-spoof": ["Remote-Addr: 1.2.3.4", "Remote-User: admin"],
        "twice": ["X-Twice: one", "X-Twice: two"],
        "twice-case": ["X-Twice: one", "x-twice: two"],
        "three-times": ["X-Three: 1", "X-Three: 2", "X-Three: 3"],
        "accept-twice": ["Accept: text/html", "Accept: */*;q=0.1"],
        "empty": ["X-Empty:"],
        "spaces": ["X-Spaces: \t padded \t "],
        "no-space": ["X-Tight:value"],
        "utf8": ["X-Utf8: caf\u00e9"],
        "digits": ["X-1-2: 3", "1st: first"],
        "odd-token-characters": ["X!#$%&'*+.^`|~: odd"],
        "dot": ["X.Dot: dotted"],
        "single-letter": ["A: b"],
        "upper-case": ["X-UPPER-CASE: V"],
        "long": ["X-Long: " + "v" * 4000],
        "many": [f"X-Many-{i}: {i}" for i in range(60)],
        "user-agent": ["User-Agent: Mozilla/5.0 (X11; Linux x86_64) \"quoted\""],
        "referer": ["Referer: http://example.test/a?b=c#d"],
        "accept-language": ["Accept-Language: de-CH, de;q=0.9", "Accept: text/html,*/*;q=0.8", "Accept-Charset: utf-8"],
        "accept-encoding": ["Accept-Encoding: gzip, deflate, br, zstd"],
        "if-modified-since": ["If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT"],
        "if-none-match": ['If-None-Match: "v1", *'],
        "if-match": ['If-Match: "nope"'],
        "if-unmodified-since": ["If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT"],
        "range": ["Range: bytes=0-9"],
        "range-if-range": ["Range: bytes=0-9", 'If-Range: "v1"'],
        "range-bad": ["Range: bytes=999999999-"],
        "te-trailers": ["TE: trailers"],
        "upgrade-websocket": ["Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="],
        "keep-alive": ["Keep-Alive: 300"],
        "via": ["Via: 1.1 proxy.test"],
        "max-forwards": ["Max-Forwards: 3"],
        "cache-control": ["Cache-Control: no-cache", "Pragma: no-cache"],
        "origin": ["Origin: http://other.test", "Sec-Fetch-Mode: cors"],
        "x-requested-with": ["X-Requested-With: XMLHttpRequest", "X-HTTP-Method-Override: DELETE"],
        "wp-nonce": ["X-WP-Nonce: 0123456789"],
        "content-type-on-get": ["Content-Type: text/plain"],
        "content-length-zero": ["Content-Length: 0"],
        "expect-unknown": ["Expect: something-else"],
        "authorization-basic": ["Authorization: Basic dXNlcjpwYXNzOndvcmQ="],
        "authorization-basic-lower-case": ["authorization: basic dXNlcjpwYXNz"],
        "authorization-basic-bad": ["Authorization: Basic !!!"],
        "authorization-basic-no-colon": ["Authorization: Basic dXNlcg=="],
        "authorization-digest": ['Authorization: Digest username="u", realm="r", nonce="n", uri="/", response="x"'],
        "authorization-bearer": ["Authorization: Bearer abc.def.ghi"],
        "authorization-empty": ["Authorization:"],
        "proxy-authorization": ["Proxy-Authorization: Basic dXNlcjpwYXNz"],
        "cookie": ["Cookie: a=b; c=d%20e; f=g+h"],
        "cookie-array": ["Cookie: a[x]=1; a[y]=2"],
        "cookie-mangled": ["Cookie: a.b=1; c d=2; =x; novalue; ;;"],
        "cookie-twice-same": ["Cookie: a=1; a=2"],
        "cookie-two-lines": ["Cookie: a=1", "Cookie: b=2"],
        "cookie-quoted": ['Cookie: a="quoted; b=2'],
        "cookie-utf8": ["Cookie: a=caf\u00e9"],
        "cookie-host-prefix": ["Cookie: __Host-a=1; __Secure-b=2"],
        "cookie-long": ["Cookie: a=" + "x" * 3500],
    }.items():
        shape(f"field-{name}", fields=lines)
    shape("field-latin1", fields=[b"X-Latin: caf\xe9"])
    shape("field-connection-named", fields=["X-Hop: gone?", "Connection: X-Hop"], close=False)
    shape("field-connection-keep-alive", fields=["Connection: keep-alive"], close=False)


def bodies():
    upload = 'name="file"; filename="a.txt"'
    big = bytes(range(256)) * 12288  # 3 MiB
    shape("form", method="POST", fields=[FORM], body="a=1&b[]=2&b[]=3&c=%C3%A9+x")
    shape("form-charset", method="POST", fields=[FORM + "; charset=UTF-8"], body="a=1")
    shape("form-upper-case-type", method="POST", fields=["content-type: Application/X-WWW-Form-UrlEncoded"], body="a=1")
    shape("form-empty", method="POST", fields=[FORM], body="")
    shape("form-and-query", "/dump.php?a=query&q=1", method="POST", fields=[FORM, "Cookie: a=cookie"], body="a=body")
    shape("form-many-fields", method="POST", fields=[FORM], body="&".join(f"f{i}={i}" for i in range(300)))
    shape("form-put", method="PUT", fields=[FORM], body="a=1")
    shape("form-patch", method="PATCH", fields=[FORM], body="a=1")
    shape("form-with-path-info", "/dump.php/info", method="POST", fields=[FORM], body="a=1")
    shape("form-chunked", method="POST", fields=[FORM, "Transfer-Encoding: chunked"], body=chunked(b"a=1&b=2", 3))
    shape("multipart", method="POST", fields=[MULTI], body=multipart(('name="a"', [], "1"), ('name="b[]"', [], "2"), ('name="b[]"', [], "3")))
    shape("multipart-file", method="POST", fields=[MULTI], body=multipart((upload, ["Content-Type: text/plain"], "content\r\nof it")))
    two = [('name="f[]"; filename="1.bin"', [], b"\x00\x01"), ('name="f[]"; filename="2.bin"', [], b"")]
    shape("multipart-files", method="POST", fields=[MULTI], body=multipart(*two, ('name="a"', [], "1")))
    shape("multipart-no-file", method="POST", fields=[MULTI], body=multipart(('name="file"; filename=""', [], "")))
    odd = [('name="f"; filename="d\u00e9j\u00e0 \\"vu\\".txt"', [], "x"), ('name="g"; filename="C:\\\\dir\\\\x.txt"', [], "y")]
    shape("multipart-odd-names", method="POST", fields=[MULTI], body=multipart(*odd))
    shape("multipart-path-in-name", method="POST", fields=[MULTI], body=multipart(('name="f"; filename="../../x.php"', [], "x")))
    shape("multipart-quoted-boundary", method="POST", fields=['Content-Type: multipart/form-data; boundary="edge"'], body=multipart(('name="a"', [], "1")))
    shape("multipart-truncated", method="POST", fields=[MULTI], body=multipart((upload, [], "cut"))[:-12])
    shape("multipart-no-boundary", method="POST", fields=["Content-Type: multipart/form-data"], body="x")
    shape("multipart-put", method="PUT", fields=[MULTI], body=multipart(('name="a"', [], "1")))
    shape("multipart-large", method="POST", fields=[MULTI], body=multipart((upload, [], big)))
    shape("multipart-chunked", method="POST", fields=[MULTI, "Transfer-Encoding: chunked"], body=chunked(multipart((upload, [], big[:200000])), 7777))
    shape("multipart-too-large-file", method="POST", fields=[MULTI], body=multipart((upload, [], big + big)))
    shape("post-max-size", method="POST", fields=[FORM], body="a=" + "x" * (9 << 20))
    shape("json", method="POST", fields=[JSON], body='{"a":[1,2,{"b":null}]}')
    shape("json-charset", method="POST", fields=[JSON + "; charset=utf-8"], body='"caf\u00e9"')
    shape("text", method="POST", fields=["Content-Type: text/plain"], body="a=1&b=2")
    shape("xml-rpc", method="POST", fields=["Content-Type: text/xml"], body="<?xml version='1.0'?><methodCall/>")
    shape("no-type", method="POST", body="a=1")
    shape("binary", method="POST", fields=["Content-Type: application/octet-stream"], body=bytes(range(256)))
    shape("raw-70k", method="POST", fields=["Content-Type: application/octet-stream"], body=big[:70000])
    shape("raw-65536", method="POST", fields=["Content-Type: application/octet-stream"], body=big[:65536])
    shape("raw-1m", method="POST", fields=["Content-Type: application/octet-stream"], body=big[: 1 << 20])
    shape("raw-3m", method="PUT", fields=["Content-Type: application/octet-stream"], body=big)
    shape("chunked-json", method="POST", fields=[JSON, "Transfer-Encoding: chunked"], body=chunked(b'{"a":1}', 2))
    shape("chunked-empty", method="POST", fields=[JSON, "Transfer-Encoding: chunked"], body=chunked(b"", 1))
    shape("chunked-large", method="PUT", fields=["Transfer-Encoding: chunked"], body=chunked(big, 65000))
    trailer = b"X-Trailer: 1\r\nContent-Type: text/evil\r\n"
    shape("chunked-trailer", method="POST", fields=[JSON, "Transfer-Encoding: chunked", "Trailer: X-Trailer"], body=chunked(b"{}", 2, trailer))
    shape("chunked-extension", method="POST", fields=[JSON, "Transfer-Encoding: chunked"], body=b"2;a=b\r\n{}\r\n0\r\n\r\n")
    shape("chunked-upper-case", method="POST", fields=[JSON, "Transfer-Encoding: CHUNKED"], body=b"A\r\n0123456789\r\n0\r\n\r\n")
    shape("chunked-get", fields=["Transfer-Encoding: chunked"], body=chunked(b"x", 1))
    shape("expect-continue", method="POST", fields=[JSON, "Expect: 100-continue"], body="{}")
    shape("expect-continue-no-body", fields=["Expect: 100-continue"])
    shape("too-large", method="POST", fields=["Content-Type: application/octet-stream", "Content-Length: 99999999999"], body="")
    shape("content-encoding-gzip", method="POST", fields=[JSON, "Content-Encoding: gzip"], body=b"\x1f\x8b\x08\x00")
    shape("input-as-stream", "/act.php?do=input-stream", method="POST", fields=["Content-Type: text/plain"], body=big[:150000])


def versions():
    shape("http-10", version="1.0", close=False)
    shape("http-10-no-host", version="1.0", host=None, close=False)
    shape("http-10-keep-alive", version="1.0", fields=["Connection: keep-alive"], close=False)
    shape("http-10-post", method="POST", version="1.0", fields=[FORM], body="a=1", close=False)
    shape("http-10-flush", "/act.php?do=flush", version="1.0", close=False)
    shape("http-11-keep-alive", close=False)
    shape("leading-empty-line", close=True)
    SHAPES[-1].data = b"\r\n" + SHAPES[-1].data
    one = b"GET /dump.php?n=%d HTTP/1.1\r\nHost: example.test:{port}\r\n\r\n"
    SHAPES.append(Shape("pipelined", one % 1 + one % 2 + one % 3, answers=3))
    post = b"POST /dump.php HTTP/1.1\r\nHost: example.test\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\na=1"
    SHAPES.append(Shape("pipelined-post-get", post + one % 2, answers=2))


ACTS = """redirect redirect-301 redirect-307 location-201 local-location status-line status-line-10 status-line-protocol
status-header status-bare code-418 code-599 code-404-empty code-204 code-204-body code-304 code-304-body code-500 empty type-json
type-text type-charset type-odd-case type-none type-removed header-twice header-both header-case header-empty header-newline
header-no-colon header-latin1 header-utf8 header-long header-many header-removed header-callback link cookies session
cache-headers length length-flush flush headers-after-output big readfile binary exit exit-text exit-code shutdown
shutdown-header fatal fatal-buffered fatal-at-once fatal-shown fatal-after-flush exception warning memory time-limit error-log
stderr unauthorized auth-header-only finish zlib gzhandler content-encoding connection-close connection-upgrade
transfer-encoding keep-alive date server accept-ranges partial refresh x-accel x-accel-buffering x-sendfile output-stream
putenv left-behind implicit early-hints""".split()


def acts():
    for act in ACTS:
        fields = ["Accept-Encoding: gzip"] if act in ("zlib", "gzhandler") else []
        shape(f"act-{act}", f"/act.php?do={act}", fields=fields)
    for act in ("big", "flush", "length", "redirect", "code-404-empty", "fatal", "empty", "zlib", "transfer-encoding"):
        shape(f"head-{act}", f"/act.php?do={act}", method="HEAD")
    shape("range-on-length", "/act.php?do=accept-ranges", fields=["Range: bytes=2-3"])
    shape("conditional-on-etag", "/act.php?do=cache-headers", fields=['If-None-Match: "v1"'])
    shape("conditional-on-date", "/act.php?do=cache-headers", fields=["If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT"])
    shape("keep-alive-after-flush", "/act.php?do=flush", close=False)
    shape("keep-alive-after-fatal", "/act.php?do=fatal-at-once", close=False)


for group in (methods, queries, paths, hosts, fields, bodies, versions, acts):
    group()
assert len({s.name for s in SHAPES}) == len(SHAPES), "two shapes have one name"
