"""A server that lies. What it does is in the path; the first path segment names the lie.

It tells the truth to whoever asks with `Connection: close`: so the tester asks in quiet, before the load, and learns what is right.
"""

import asyncio
import socket
import struct
import threading
import time
import urllib.parse

PAGE = (b'<html><head><link rel=stylesheet href="/css"><script src="/js"></script></head>'
        b'<body><img src="/image/1" srcset="/image/2 2x"><img src="http://elsewhere.test/x.png"></body></html>')
OK = b"all is well, and as long as it says"
# What is no lie: it is the same in quiet as under load.
NO_LIES = {"page", "css", "js", "image", "cookie", "hop", "circle", "away", "login", "inside", "comment", "shop", "add", "purged", "index.xml", "pages", "silent"}
# Who asks for /crowded while more than so many are there gets a 503.
CROWD = 20


def answer(content, status="200 OK", length=None, extra=b""):
    length = len(content) if length is None else length
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s" % (status.encode(), length, extra, content)


def redirect(to, status="302 Found", extra=b""):
    return answer(b"", status=status, extra=b"Location: %s\r\n%s" % (to.encode(), extra))


class Liar:
    """Serves on a free port of 127.0.0.1, in a thread of its own."""

    def __init__(self):
        self.here = 0
        self.asked = 0
        self.paused = False
        self.seen = []
        # When was asked for what, and from where.
        self.lines = []
        self.peers = set()
        self.comments = []
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(512)
        self.port = self.listener.getsockname()[1]
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(asyncio.start_server(self._serve, sock=self.listener))
        self.loop.run_forever()

    async def _serve(self, reader, writer):
        self.here += 1
        self.peers.add(writer.get_extra_info("peername")[0])
        writer.answered, writer.reader = 0, reader
        try:
            while True:
                head = await reader.readexactly(1)
                if head == b"\x16":
                    # A TLS handshake: this is no answer to it.
                    writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
                    await writer.drain()
                    break
                head += await reader.readuntil(b"\r\n\r\n")
                if await self._answer(head, reader, writer):
                    break
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self.here -= 1
            writer.close()

    async def _answer(self, head, reader, writer):
        """Writes an answer. True: the connection ends."""
        path = head.split(b" ")[1].decode()
        self.lines.append((time.monotonic(), " ".join(head.decode().split(" ")[:2])))
        lie = path.split("/")[1].split("?")[0]
        honest = b"connection: close" in head.lower()
        if honest and lie not in NO_LIES:
            writer.write(answer(OK, extra=b"Connection: close\r\n"))
            await writer.drain()
            return True
        self.asked += 1
        head = head.decode() + await self._content(head, reader)
        return await getattr(self, "_" + lie.replace(".", "_"), self._ok)(path, head, writer) or honest

    async def _content(self, head, reader):
        fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if b": " in line)
        return (await reader.readexactly(int(fields.get(b"content-length", 0)))).decode()

    async def _ok(self, path, head, writer):
        is_head = head.startswith("HEAD")
        writer.write(answer(b"" if is_head else OK, length=len(OK)))

    async def _purged(self, path, head, writer):
        """A page that is made again after 20 requests, with another line."""
        self.made = getattr(self, "made", 0) + 1
        lines = [f"<p>{number}</p>" for number in range(50)]
        lines[20] = "<p>new</p>" if self.made > 20 else "<p>old</p>"
        writer.write(answer("\n".join(lines).encode()))

    async def _shop(self, path, head, writer):
        writer.write(answer(b'<html><link rel=stylesheet href="/css"><a data-product_id="42">buy</a>'))

    async def _add(self, path, head, writer):
        writer.write(answer(b"cart_hash" if head.endswith("product_id=42") else b"there is no such product"))

    async def _truncate(self, path, head, writer):
        writer.write(answer(OK[:10], length=len(OK)))
        await writer.drain()
        return True

    async def _surplus(self, path, head, writer):
        writer.write(answer(OK, length=10))

    async def _longer(self, path, head, writer):
        writer.write(answer(OK + b"!"))

    async def _other(self, path, head, writer):
        writer.write(answer(OK.upper()))

    async def _reset(self, path, head, writer):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return True

    async def _close(self, path, head, writer):
        return True

    async def _hang(self, path, head, writer):
        await asyncio.sleep(60)

    async def _drip(self, path, head, writer):
        writer.write(answer(b"", length=600))
        for _ in range(600):
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.1)

    async def _garbage(self, path, head, writer):
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")

    async def _chunks(self, path, head, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcdeXX")

    async def _missing(self, path, head, writer):
        writer.write(answer(OK, status="404 Not Found"))

    async def _broken(self, path, head, writer):
        writer.write(answer(OK, status="500 Internal Server Error"))

    async def _coded(self, path, head, writer):
        writer.write(answer(OK, extra=b"Content-Encoding: gzip\r\n"))

    async def _crowded(self, path, head, writer):
        writer.write(answer(OK, status="503 Service Unavailable" if self.here > CROWD else "200 OK"))
        await asyncio.sleep(0.02)

    async def _pause(self, path, head, writer):
        if self.asked >= 100 and not self.paused:
            # All of the server stands still, as it would for a garbage collection or a full disk.
            self.paused = True
            time.sleep(1.0)
        writer.write(answer(OK))

    async def _page(self, path, head, writer):
        writer.write(answer(PAGE, extra=b"Content-Type: text/html\r\n"))

    async def _css(self, path, head, writer):
        writer.write(answer(b"body { background: url(/image/3) }", extra=b"Content-Type: text/css\r\n"))

    async def _js(self, path, head, writer):
        writer.write(answer(b"1;", extra=b"Cache-Control: max-age=600\r\n"))

    async def _image(self, path, head, writer):
        writer.write(answer(b"\x89PNG"))

    async def _cookie(self, path, head, writer):
        self.seen.append("cookie: id=7" in head.lower())
        writer.write(answer(OK, extra=b"Set-Cookie: id=7; Path=/\r\n"))

    async def _seven(self, path, head, writer):
        writer.answered += 1
        writer.write(answer(OK, extra=b"Connection: close\r\n" if writer.answered == 7 else b""))
        if writer.answered == 7:
            # Whoever closes while something is there to be read resets the connection: what was answered would be lost.
            writer.write_eof()
            while await writer.reader.read(1 << 16):
                pass
            return True

    async def _silent(self, path, head, writer):
        await asyncio.sleep(60)

    async def _hop(self, path, head, writer):
        left = int(path.split("/")[2])
        if left == 0:
            return await self._page(path, head, writer)
        writer.write(redirect("/hop/%d" % (left - 1)))

    async def _circle(self, path, head, writer):
        writer.write(redirect("/circle"))

    async def _away(self, path, head, writer):
        writer.write(redirect("http://elsewhere.test/there"))

    async def _login(self, path, head, writer):
        if head.startswith("GET"):
            writer.write(answer(b'<input name="token" value="7&8">'))
        elif "user=me&token=7%268" in head:
            writer.write(redirect("inside", extra=b"Set-Cookie: in=yes; Path=/; HttpOnly\r\n"))
        else:
            writer.write(redirect("/login"))

    async def _inside(self, path, head, writer):
        text = "welcome " + ", ".join(self.comments) if "cookie: in=yes" in head.lower() else "who are you?"
        writer.write(answer(text.encode()))

    async def _comment(self, path, head, writer):
        form = urllib.parse.parse_qs(head.split("\r\n\r\n", 1)[1])
        self.comments.extend(form["text"])
        writer.write(redirect("/inside", status="303 See Other"))

    def index(self):
        """An index of sitemaps as the public would see it."""
        listed = "".join(f"<sitemap><loc>https://public.test/pages/{n}.xml</loc></sitemap>" for n in (1, 2))
        return f"<sitemapindex>{listed}</sitemapindex>"

    async def _index_xml(self, path, head, writer):
        writer.write(answer(self.index().encode()))

    async def _pages(self, path, head, writer):
        names = ("one", "two") if path == "/pages/1.xml" else ("three",)
        urls = "".join(f"<url><loc>https://public.test/ok/{name}</loc></url>" for name in names)
        writer.write(answer(f"<urlset>{urls}</urlset>".encode()))
