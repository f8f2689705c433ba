"""Certificate authorities to test against: Pebble, with a name server that says where names lead; and a front before it that
answers as real ones do on bad days. And what a client needs to look at certificates."""

import base64
import contextlib
import hashlib
import http.client
import http.server
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import rig  # noqa: E402


def openssl(*arguments, **options):
    """What openssl prints."""
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, **options)
    if done.returncode:
        raise RuntimeError(f"openssl {arguments[0]}: {done.stderr.decode()}")
    return done.stdout


class Trust:
    """A root for the authority's own servers, at 127.0.0.1, which no system knows."""

    def __init__(self, folder):
        self.root, self.cert, self.key = folder / "ca.pem", folder / "ca-server.pem", folder / "ca-server.key"
        new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        openssl(*new, "-subj", "/CN=test root", "-keyout", folder / "ca.key", "-out", self.root)
        openssl(*new, "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE",
                "-CA", self.root, "-CAkey", folder / "ca.key", "-keyout", self.key, "-out", self.cert)  # fmt: skip


class Names(rig.Process):
    """A name server: all names lead to 127.0.0.1, but those that are told otherwise."""

    def __init__(self, folder, tools):
        self.port, self.management = rig.free_port(), rig.free_port()
        none = [f"-{option}=" for option in ("http01", "https01", "doh", "tlsalpn01", "defaultIPv6")]
        where = ["-dnsserver", f"127.0.0.1:{self.port}", "-management", f"127.0.0.1:{self.management}", "-defaultIPv4", "127.0.0.1"]
        super().__init__([Path(tools) / "pebble-challtestsrv", *none, *where], folder / "names.log")
        self.await_up(lambda: rig.answers(("127.0.0.1", self.management)), 30)

    def lead(self, name, address=None):
        """Has `name` lead to another address, or to 127.0.0.1 again."""
        what, order = ("/add-a", {"host": name, "addresses": [address]}) if address else ("/clear-a", {"host": name})
        connection = http.client.HTTPConnection("127.0.0.1", self.management, timeout=10)
        connection.request("POST", what, json.dumps(order))
        if connection.getresponse().status != 200:
            raise RuntimeError(f"{name} can't be led to {address}")


class Pebble(rig.Process):
    """Pebble. It looks at the ports `http` and `tls` of whatever address a name leads to; its certificates are valid for
    `validity` seconds; it refuses `nonces` per cent of good nonces."""

    def __init__(self, folder, tools, trust, names, http, tls, validity=90 * 86400, nonces=5, port=None, options=()):
        self.trust, self.port, self.management = trust, port or rig.free_port(), rig.free_port()
        settings = {
            "listenAddress": f"127.0.0.1:{self.port}", "managementListenAddress": f"127.0.0.1:{self.management}",
            "certificate": str(trust.cert), "privateKey": str(trust.key), "httpPort": http, "tlsPort": tls,
            "retryAfter": {"authz": 1, "order": 1}, "keyAlgorithm": "ecdsa",
            "profiles": {"default": {"description": "the only one", "validityPeriod": validity}},
        }  # fmt: skip
        (folder / "pebble.json").write_text(json.dumps({"pebble": settings}))
        env = {**os.environ, "PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": str(nonces), "PEBBLE_AUTHZREUSE": "0"}
        command = [Path(tools) / "pebble", "-config", folder / "pebble.json", "-dnsserver", f"127.0.0.1:{names.port}", *options]
        super().__init__(command, folder / "pebble.log", env=env)
        self.directory = f"https://127.0.0.1:{self.port}/dir"
        self.await_up(lambda: rig.answers(("127.0.0.1", self.port)) and rig.answers(("127.0.0.1", self.management)), 30)
        self.root = folder / "issued-by.pem"
        self.root.write_bytes(ask(trust, self.management, "GET", "/roots/0")[1])

    def count(self, text):
        """How often the log has `text`."""
        return self.log.read_text(errors="replace").count(text)

    def revoke(self, pem):
        """Revokes a certificate, in the name of its own key (RFC 8555 section 7.6)."""
        directory = json.loads(ask(self.trust, self.port, "GET", "/dir")[1])
        path = lambda what: "/" + directory[what].split("/", 3)[3]
        der = base64.b64decode("".join(re.findall(r"-----BEGIN CERTIFICATE-----(.*?)-----END", pem.read_text(), re.S)[0].split()))
        for _ in range(20):  # some good nonces are refused
            nonce = ask(self.trust, self.port, "HEAD", path("newNonce"))[2]["Replay-Nonce"]
            head = {"alg": "ES256", "jwk": public_key(pem), "nonce": nonce, "url": directory["revokeCert"]}
            parts = [base64url(json.dumps(part).encode()) for part in (head, {"certificate": base64url(der), "reason": 1})]
            signed = {"protected": parts[0], "payload": parts[1], "signature": base64url(sign(pem, ".".join(parts).encode()))}
            status, said, _ = ask(self.trust, self.port, "POST", path("revokeCert"), json.dumps(signed), {"Content-Type": "application/jose+json"})
            if status == 200:
                return
        raise RuntimeError(f"the certificate is not revoked: {status} {said}")


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def public_key(pem):
    """The public half of the key in `pem`, as a JWK: the last 64 bytes of its DER are the point."""
    point = openssl("pkey", "-in", pem, "-pubout", "-outform", "DER")[-64:]
    return {"kty": "EC", "crv": "P-256", "x": base64url(point[:32]), "y": base64url(point[32:])}


def sign(pem, data):
    """ES256 (RFC 7518 section 3.4): the two numbers of openssl's signature, 32 bytes each."""
    text = openssl("asn1parse", "-inform", "DER", input=openssl("dgst", "-sha256", "-sign", pem, input=data)).decode()
    return b"".join(bytes.fromhex(number.rjust(64, "0")) for number in re.findall(r"INTEGER\s*:([0-9A-F]+)", text))


def ask(trust, port, method, path, body=None, fields=None):
    """One request to the authority: status, content, fields."""
    context = ssl.create_default_context(cafile=trust.root)
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
    with contextlib.closing(connection):
        connection.request(method, path, body, {"User-Agent": "test", **(fields or {})})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers


class Front:
    """What stands before the authority: passes everything on, notes it, and spoils what `spoil(method, path)` says.

    `spoil` returns None, or status, fields and content of the answer that is given in the authority's place."""

    def __init__(self, trust, authority):
        self.asked, self.spoil = [], lambda method, path: None
        front = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def pass_on(self):
                front.asked.append((time.monotonic(), self.command, self.path))
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, fields, content = front.spoil(self.command, self.path) or front.fetch(trust, authority, self, body)
                self.send_response(status)
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else content)

            do_GET = do_HEAD = do_POST = pass_on
            log_message = lambda *_: None

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(trust.cert, trust.key)
        # The handshake waits for the first read, in the thread of the connection.
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.directory = f"https://127.0.0.1:{self.server.server_address[1]}/dir"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @staticmethod
    def fetch(trust, authority, handler, body):
        # Pebble makes its URLs of Host, so that all requests come here.
        fields = {name: value for name, value in handler.headers.items() if name.lower() not in ("connection", "content-length", "user-agent")}
        status, content, answered = ask(trust, authority.port, handler.command, handler.path, body or None, fields)
        kept = ("replay-nonce", "location", "content-type", "retry-after", "link")
        return status, {name: value for name, value in answered.items() if name.lower() in kept}, content

    def times(self, part):
        """When a request came whose path has `part`."""
        return [at for at, _, path in self.asked if part in path]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Seen:
    """The certificate that a client is shown who asks for `name`; `root`: who has to have issued it."""

    def __init__(self, port, name, root=None):
        context = ssl.create_default_context(cafile=root) if root else ssl._create_unverified_context()
        with socket.create_connection(("127.0.0.1", port), 10) as plain, context.wrap_socket(plain, server_hostname=name) as wrapped:
            self.der = wrapped.getpeercert(True)
            self.names = sorted(value for _, value in wrapped.getpeercert().get("subjectAltName", ()))
        self.print = hashlib.sha256(self.der).hexdigest()
